-- callbacks.lua: deaths, the log and caches that are functions of Lua.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local output_of = s.output_of

TestCallbacks = {}

function TestCallbacks.test_deaths_are_heard_in_a_later_call()
  local rt = tide.open{device = "host"}
  local heard = {}
  local a = tide.ones(3)
  unit.assertTrue(a:on_death(function() heard[#heard + 1] = "first" end) == a)
  a:on_death(function()
    heard[#heard + 1] = tide.ones(2):sum():item() -- an ordinary call
  end)
  a:free()
  unit.assertEquals(heard, {})
  tide.synchronize()
  tide.stats()
  unit.assertEquals(heard, {"first", 2})
  heard = {}
  for i = 1, 100 do tide.ones(10):on_death(function() heard[i] = true end) end
  tide.collect()
  tide.stats()
  unit.assertEquals(#heard, 100)
  local last = 0
  local b = tide.ones(3):on_death(function() last = last + 1 end)
  rt:close()
  unit.assertEquals(last, 1)
  refused("closed", b.on_death, b, print)
  refused("on_death: expected a function as 'f', found number", a.on_death, a, 1)
  refused("on_death: expected a function as 'f', found nothing", a.on_death, a)
  refused("on_death: expected an array as 'a', found string", tide.on_death, "a", print)
  a = tide.ones(1)
  a:free()
  refused("freed", a.on_death, a, print)
end

function TestCallbacks.test_errors_of_deaths_are_warnings()
  local text = output_of([[
    tide.ones(1):on_death(function() error("of a death") end):free()
    tide.synchronize()
    print(tide.ones(2):sum():item())
    tide.ones(1):on_death(function() print("at the end", pcall(tide.ones, 1)) end)
    kept = tide.ones(1):on_death(function() error({}) end)]])
  unit.assertStrMatches(text, ".*[Ww]arning: tidepool: an error in on_death: .*of a death.*")
  unit.assertStrContains(text, "at the end\tfalse")
  unit.assertStrContains(text, "an error in on_death: no text")
end

function TestCallbacks.test_lines_of_the_log()
  local lines = {}
  local settings = {device = "host", log_level = 4, log = function(level, line)
    unit.assertTrue(level >= 1 and level <= 4)
    lines[#lines + 1] = line
    tide.ones(1)
  end}
  local rt = tide.open(settings)
  unit.assertIsFunction(settings.log)
  tide.ones(3):sum():item()
  tide.stats()
  unit.assertTrue(#lines > 0)
  rt:close()
  refused("open: expected a function as 'log', found string", tide.open, {log = "stderr"})
end

function TestCallbacks.test_caches_give_way()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local kept, calls = {}, {}
  local cache = tide.reclaimable{name = "rows", purge = function(device, wanted)
    calls[#calls + 1] = {device, wanted}
    local given = 0
    for i, a in pairs(kept) do
      given = given + 4 * a.size
      a:free()
      kept[i] = nil
    end
    return given
  end, bytes = function() return 12345 end}
  for i = 1, 200 do kept[i] = tide.zeros({512, 512}, "f32") end -- 1 MiB each: more than there is
  unit.assertTrue(#calls >= 10)
  unit.assertEquals(calls[1][1], 0)
  unit.assertTrue(calls[1][2] >= 1024 * 1024)
  calls = {}
  tide.reclaim("purge")
  unit.assertEquals(calls[1], {0, math.huge})
  unit.assertNil(next(kept))
  unit.assertStrContains(tide.status(), "rows")
  cache:release()
  cache:release()
  calls = {}
  tide.reclaim("purge")
  unit.assertEquals(calls, {})
  -- what drop lets go of is garbage, which is then collected
  kept.a = tide.zeros({1024, 1024}, "f32")
  local dropped = tide.reclaimable{name = "live", dear = true, drop = function() kept = {} end}
  local before = tide.stats().live
  tide.reclaim("drop")
  unit.assertTrue(tide.stats().live < before)
  rt:close()
  dropped:release()
  for _ = 1, 3 do -- more than once, in the middle of a coroutine, and never released
    local other = tide.open{device = "host", limit = "8MiB"}
    local turns = 0
    tide.reclaimable{name = "again", purge = function() turns = turns + 1 return tide.ones(1).size end}
    coroutine.wrap(function()
      local live = {}
      for i = 1, 7 do live[i] = tide.zeros({512, 512}, "f32") end
      refused("", tide.zeros, {1024, 1024}, "f32")
      coroutine.yield()
    end)()
    unit.assertTrue(turns > 0)
    other:close()
  end
end

function TestCallbacks.test_what_caches_refuse()
  local rt = tide.open{device = "host"}
  refused("reclaimable: expected a text as 'name', found nothing", tide.reclaimable, {purge = print})
  refused("expected a function as 'purge', found number", tide.reclaimable, {name = "x", purge = 1})
  refused("expected true or false as 'dear', found number", tide.reclaimable,
    {name = "x", purge = print, dear = 1})
  refused("purge", tide.reclaimable, {name = "x"})
  local c = tide.reclaimable{name = "x", drop = print}
  refused("cache:release: expected a cache as 'cache', found nothing", c.release)
  c:release()
  local lines = {}
  local noisy = tide.open{device = "host", log_level = 2, log = function(_, line) lines[#lines + 1] = line end}
  tide.reclaimable{name = "fails", purge = function() error("my own") end,
    bytes = function() return tide.ones(1):sum():item() end}
  tide.reclaim("purge")
  tide.stats()
  unit.assertStrContains(table.concat(lines, "\n"), "purge of fails failed")
  unit.assertIsString(tide.status()) -- bytes fails
  noisy:close()
  rt:close()
  local text = output_of([[
    tide.reclaimable{name = "x", purge = function() error("of a purge") end}
    tide.reclaimable{name = "y", purge = function() return "many" end}
    tide.reclaimable{name = "z", purge = function() coroutine.yield() end,
      bytes = function() return tide.ones(1).size end}
    tide.reclaim("purge") tide.status() tide.status()]])
  unit.assertStrMatches(text, ".*an error in purge: .*of a purge.*")
  unit.assertStrMatches(text, ".*an error in purge: .*purge gave no number of bytes, but a string.*")
  unit.assertStrMatches(text, ".*an error in purge: .*yield.*")
  unit.assertStrMatches(text, ".*an error in bytes: .*bytes may not call the library.*")
end

-- Inside of what the library calls a runtime is not closed, and says so.
function TestCallbacks.test_closing_inside_of_callbacks()
  local rt = tide.open{device = "host", limit = "8MiB"}
  local said, kept = nil, {}
  local cache = tide.reclaimable{name = "closes", purge = function()
    said = select(2, pcall(rt.close, rt))
    kept = {}
    return 1
  end}
  for i = 1, 20 do
    local a = tide.zeros({512, 512}, "f32")
    kept[i] = a
  end
  unit.assertStrContains(said, "called inside purge")
  cache:release()
  refused("called inside fill", tide.batches{{shape = {1}, dtype = "u8"}, fill = function()
    rt:close()
    return {1}
  end})
  unit.assertEquals(values(tide.ones(1)), {1})
  tide.ones(1):on_death(function() rt:close() end):free() -- which is heard outside of the library
  tide.synchronize()
  tide.stats()
  refused("closed", rt.use, rt)
end

-- The process ends wherever it is told to; what its state holds then goes with it.
function TestCallbacks.test_exit_inside_of_callbacks()
  for _, close in ipairs{"", ", true"} do
    for _, program in ipairs{
      "tide.ones(1):on_death(function() EXIT end):free() tide.synchronize() tide.stats()",
      "tide.open{limit = '8MiB'} tide.reclaimable{name = 'x', purge = function() EXIT end} fill()",
      "tide.open{limit = '8MiB', policy = tide.policy{name = 'p', decide = function() EXIT end}} fill()",
      "tide.open{limit = '8MiB', policy = tide.policy{name = 'p', decide = function() return true end, " ..
        "observe = function() EXIT end}} fill()",
      "tide.batches{{shape = {4}, dtype = 'f32'}, fill = function() EXIT end}()",
      "tide.open{log_level = 4, log = function() EXIT end} tide.ones(3):sum():item() tide.stats()",
      "tide.fuse(function(x) EXIT end)(tide.ones(1))",
      "coroutine.wrap(function() tide.stream():use() kept = tide.ones(1) EXIT end)()"} do
      local text = output_of("local kept = {} local function fill() for i = 1, 20 do " ..
        "kept[i] = tide.zeros({512, 512}, 'f32') end end io.stdout:setvbuf('no') " ..
        program:gsub("EXIT", "print('before') os.exit(0" .. close .. ")") .. " print('after')",
        "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0")
      unit.assertEquals(text, "before\n", program .. close)
    end
  end
end
