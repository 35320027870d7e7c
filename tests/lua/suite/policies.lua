-- policies.lua: policies in Lua, of a program and of a file.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local output_of, file_of = s.output_of, s.file_of

TestPolicies = {}

local count = 0
local function policy(settings)
  count = count + 1
  settings.name = settings.name or "suite-" .. count
  return tide.policy(settings)
end

local function fill_memory(turns)
  for _ = 1, turns or 200 do tide.zeros({512, 512}, "f32") end
  collectgarbage("count")
end

function TestPolicies.test_a_policy_decides()
  local seen, told = nil, nil
  local name = policy{summary = "at a share", unguarded = true,
    params = {{name = "share", usual = 0.5, low = 0.1, high = 0.9, kind = "number", meaning = "of it"},
      {name = "room", usual = 4096, high = 1e9, kind = "bytes"}},
    decide = function(now, state)
      seen = now
      state.asked = (state.asked or 0) + 1
      local most = now.params.share * now.limit
      if now.used + now.request < most then return nil, most end
      return "full", nil, "half is used"
    end,
    observe = function(before, after, c, state)
      told = {before.used, after.used, c.level, c.early, c.pause_ns > 0, state.asked > 0}
    end}
  local rt = tide.open{device = "host", limit = "16MiB", policy = name .. "(share=0.25)"}
  fill_memory()
  local s = tide.stats()
  unit.assertTrue(s.early_collections > 10)
  unit.assertTrue(s.peak_live <= 5 * 1024 * 1024)
  unit.assertEquals(s.climbs, 0)
  unit.assertEquals(seen.params, {share = 0.25, room = 4096})
  unit.assertEquals({seen.level, seen.limit, type(seen.now_ns)}, {"full", 16 * 1024 * 1024, "number"})
  unit.assertTrue(told[1] > told[2])
  unit.assertEquals({told[3], told[4], told[5], told[6]}, {"full", true, true, true})
  rt:close()
  rt = tide.open{device = "host", limit = "16MiB", policy = policy{decide = function() end}}
  fill_memory()
  unit.assertEquals(tide.stats().early_collections, 0)
  rt:close()
  rt = tide.open{device = "host", limit = "16MiB",
    policy = policy{decide = function(now) return now.used > 2 ^ 22, math.huge end}}
  fill_memory()
  rt:close()
end

-- What is wrong means: do not collect; the log and a warning have the first of it.
function TestPolicies.test_a_policy_that_fails_is_told_once()
  for pattern, decide in pairs{
    ["of a policy"] = function() error("of a policy") end,
    ["expected true, false, \"minor\""] = function() return "sometimes" end,
    ["expected a number of bytes"] = function() return nil, "soon" end,
    ["it wants to be asked again at 1"] = function() return nil, 1 end,
    ["expected a text as the reason"] = function() return true, nil, {} end,
    ["a policy may not call the library"] = function() return tide.ones(3):sum():item() > 1 end,
    ["attempt to yield"] = function() return coroutine.yield() end,
    ["an error that is no text"] = function() error({}) end} do
    local lines = {}
    local rt = tide.open{device = "host", limit = "16MiB", policy = policy{decide = decide}, log_level = 2,
      log = function(_, line)
        if line:find("makes no sense") or line:find("could not decide") then lines[#lines + 1] = line end
      end}
    fill_memory(50)
    unit.assertEquals(tide.stats().early_collections, 0)
    unit.assertEquals(#lines, 1)
    unit.assertStrContains(lines[1], "it could not decide")
    rt:close()
    unit.assertEquals(values(tide.ones(1)), {1})
  end
  local text = output_of([[
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "p",
      decide = function() error("of decide") end}}
    for _ = 1, 50 do tide.zeros({512, 512}, "f32") end
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "q",
      decide = function() return true end, observe = function() error("of observe") end}}
    for _ = 1, 50 do tide.zeros({512, 512}, "f32") end]])
  local _, n = text:gsub("an error in p: [^\n]*of decide", "")
  unit.assertEquals(n, 1)
  _, n = text:gsub("an error in q: [^\n]*of observe", "")
  unit.assertEquals(n, 1)
end

-- Finalizers that fail, in the middle of what the library calls: no error passes through it. Lua's
-- collector runs only where somebody calls it: elsewhere a finalizer's error is the program's.
function TestPolicies.test_failing_finalizers_inside_of_callbacks()
  local text = output_of([[
    collectgarbage("stop")
    local function mortal()
      local body = function() error("a finalizer's own") end
      if newproxy then
        getmetatable(newproxy(true)).__gc = body
      else
        setmetatable({}, {__gc = body})
      end
    end
    local asked, kept, n = 0, {}, 0
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "p", decide = function(now)
      mortal()
      asked = asked + 1
      return now.used > now.limit / 2
    end}}
    tide.reclaimable{name = "mortal", purge = function()
      mortal()
      kept = {}
      collectgarbage()
      return 1
    end}
    for i = 1, 100 do
      mortal()
      pcall(function()
        local a = tide.zeros({512, 512}, "f32")
        kept[i] = a
      end)
    end
    local it = tide.batches{{shape = {50}, dtype = "u8"}, fill = function(samples)
      asked = asked + 1
      if asked % 2 == 0 then mortal() end
      collectgarbage()
      return {samples[1]}
    end}
    for _ = 1, 500 do
      local fine, a = pcall(it)
      if fine and not a then break end
      if fine then n = n + 1 end
    end
    kept = {}
    print(asked > 0 and "asked", n > 0 and "filled", tide.ones(2):sum():item() == 2 and "fine")]])
  unit.assertStrContains(text, "asked\tfilled\tfine")
end

function TestPolicies.test_a_policys_settings_are_checked()
  local function decide() end
  refused("policy: expected a table, found", tide.policy)
  refused("policy: there is no function 'decide'", tide.policy, {name = "x"})
  refused("policy: expected a function as 'decide', found string", tide.policy, {name = "x", decide = "y"})
  refused("policy: expected a function as 'observe', found boolean", tide.policy,
    {name = "x", decide = decide, observe = true})
  refused("name", tide.policy, {decide = decide})
  refused("name", tide.policy, {name = "a b", decide = decide})
  refused("policy: expected a text as 'name', found table", tide.policy, {name = {}, decide = decide})
  refused("policy: there is no field 'level'", tide.policy, {name = "x", decide = decide, level = 1})
  refused("already", tide.policy, {name = "reserve", decide = decide})
  refused("already", function()
    policy{name = "suite-twice", decide = decide}
    policy{name = "suite-twice", decide = decide}
  end)
  refused("policy: expected a table as 'params', found number", tide.policy,
    {name = "x", decide = decide, params = 1})
  refused("policy: expected a table as a parameter, found string", tide.policy,
    {name = "x", decide = decide, params = {"share"}})
  refused("policy: expected a number as a parameter's 'usual', found string", tide.policy,
    {name = "x", decide = decide, params = {{name = "share", usual = "half"}}})
  refused("there is no kind of parameters 'text'", tide.policy,
    {name = "x", decide = decide, params = {{name = "share", kind = "text"}}})
  refused("share", tide.policy, {name = "x", decide = decide, params = {{name = "share", usual = 2}}})
  local many = {}
  for i = 1, 13 do many[i] = {name = "p" .. i} end
  refused("more than 12 parameters", tide.policy, {name = "x", decide = decide, params = many})
end

local half = [[
  local asked = 0
  return {name = "half", params = {{name = "share", usual = 0.5}}, decide = function(now, state)
    asked = asked + 1
    if now.used + now.request < now.params.share * now.limit then return end
    return true, nil, "asked " .. asked
  end}]]

function TestPolicies.test_a_policy_of_a_file()
  local path = file_of(half)
  for _, share in ipairs{"", "(share=0.25)"} do
    local rt = tide.open{device = "host", limit = "16MiB", policy = path .. share}
    fill_memory()
    local s = tide.stats()
    unit.assertTrue(s.early_collections > 10)
    unit.assertTrue(s.peak_live <= (share == "" and 9 or 5) * 1024 * 1024)
    rt:close()
  end
  local text = output_of([[
    tide.open{device = "host", limit = "16MiB"}
    for _ = 1, 200 do tide.zeros({512, 512}, "f32") end
    print("early", tide.stats().early_collections > 10 and tide.stats().peak_live <= 5 * 2^20)]],
    "TIDE_POLICY='" .. path .. "(share=0.25)'")
  unit.assertStrContains(text, "early\ttrue")
  os.remove(path)
  for pattern, program in pairs{["expected the table of a policy as its result, found nil"] = "",
    ["there is no function 'decide'"] = "return {}", ["near"] = "return {", ["of the file"] = "error('of the file')",
    ["a policy may not call the library"] = "require 'tidepool'"} do
    local wrong = file_of(program)
    refused(pattern, tide.open, {device = "host", policy = wrong})
    text = output_of("print(tide.ones(3):sum():item())", "TIDE_POLICY=" .. wrong)
    unit.assertStrMatches(text, ".*tidepool: TIDE_POLICY=.*: the default stays\n.*3.*")
    os.remove(wrong)
  end
  refused("cannot open", tide.open, {device = "host", policy = "./no_such_policy.lua"})
  refused("", tide.open, {device = "host", policy = "no_such_policy.lua"})
  refused("", tide.open, {device = "host", policy = "./no_such_policy.so"})
  local bad = file_of("return {decide = function() error('of a file') end}")
  text = output_of([[for _ = 1, 2 do
      tide.open{device = "host", limit = "8MiB"}
      for _ = 1, 50 do tide.zeros({512, 512}, "f32") end
    end]], "TIDE_POLICY=" .. bad)
  local _, n = text:gsub("an error in [^\n]*of a file", "")
  unit.assertEquals(n, 1)
  os.remove(bad)
end
