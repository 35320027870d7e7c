-- lives.lua: how arrays, runtimes and states end, and memory that runs out.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local output_of = s.output_of

TestLives = {}

function TestLives.test_freed_arrays_say_so()
  local a = tide.ones(3)
  a:free()
  a:free()
  refused("freed", function() return a + 1 end)
  refused("freed", function() return a.shape end)
  refused("freed", a.sum, a)
  refused("freed", function() a[1] = 2 end)
  unit.assertTrue(a:is_freed())
  unit.assertStrContains(tostring(a), "freed")
end

function TestLives.test_a_closed_runtime_says_so()
  local rt = tide.open{device = "host"}
  local a, e = tide.ones(3), tide.expr("(x) -> x")
  rt:close()
  rt:close()
  refused("runtime:use: the runtime was closed", rt.use, rt)
  refused("runtime:use: expected a runtime as 'runtime', found nothing", rt.use)
  refused("runtime:close: expected a runtime as 'runtime', found number", rt.close, 1)
  refused("closed", function() return a + 1 end)
  refused("closed", function() return a:totable() end)
  refused("closed", function() return a[1] end)
  refused("", e, tide.ones(3))
  unit.assertEquals(values(tide.ones(1)), {1}) -- another one opens
end

function TestLives.test_settings_are_checked()
  refused("there is no setting 'limitt'", tide.open, {limitt = "1GiB"})
  refused("expected a text as 'limit', found number", tide.open, {limit = 5})
  refused("expected true or false as 'cache', found number", tide.open, {cache = 1})
  refused("nowhere", tide.open, {device = "nowhere"})
  refused("there is no setting 'collector'", tide.open, {collector = "boehm"})
end

function TestLives.test_two_runtimes_in_turn()
  local first = tide.open{device = "host"}
  local a = tide.ones(2)
  local second = tide.open{device = "host"}
  local b = tide.ones(2)
  refused("runtime", function() return a + b end)
  first:use()
  unit.assertEquals(values(a + tide.ones(2)), {2, 2})
  second:close()
  first:close()
end

function TestLives.test_memory_runs_out_and_the_program_goes_on()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local kept = tide.zeros({1024, 1024}, "f32")
  refused("", tide.zeros, {1024, 1024, 16}, "f32")
  for _ = 1, 100 do tide.zeros({1024, 1024}, "f32") end
  unit.assertEquals(kept:sum():item(), 0)
  local s = tide.stats()
  unit.assertTrue(s.peak_backed <= 16 * 1024 * 1024)
  unit.assertTrue(s.collections > 0)
  rt:close()
end

function TestLives.test_finalizers_may_fail_and_call_the_library()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local calls, fails = 0, 0
  local function mortal()
    local body = function()
      calls = calls + 1
      if not pcall(tide.ones, 3) then fails = fails + 1 end
      -- LuaJIT throws it again and again into whatever takes memory next, compiled code too
      if not jit and calls % 2 == 0 then error("a finalizer's own") end
    end
    if newproxy then -- Lua 5.1: tables have no finalizers
      getmetatable(newproxy(true)).__gc = body
    else
      setmetatable({}, {__gc = body})
    end
  end
  -- Where Lua 5.3 collects by itself, a finalizer's error goes to whoever takes memory: so only the
  -- library asks.
  local old = _VERSION ~= "Lua 5.4" and collectgarbage("setpause", 1000000)
  pcall(collectgarbage)
  for _ = 1, 200 do
    mortal()
    tide.zeros({512, 1024}, "f32")
  end
  if old then collectgarbage("setpause", old) end
  for _ = 1, 400 do pcall(collectgarbage) end -- each ends at an error
  unit.assertTrue(calls > 0)
  unit.assertEquals(values(tide.ones(1)), {1})
  rt:close()
end

function TestLives.test_coroutines()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local threads = {}
  for i = 1, 8 do
    threads[i] = coroutine.wrap(function()
      local sum = tide.zeros(1)
      for _ = 1, 40 do
        tide.zeros({512, 1024}, "f32")
        sum = sum + i
        coroutine.yield()
      end
      while true do coroutine.yield(sum:item()) end
    end)
  end
  for _ = 1, 41 do for i = 1, 8 do threads[i]() end end
  for i = 1, 8 do unit.assertEquals(threads[i](), 40 * i) end
  rt:close()
end

if _VERSION == "Lua 5.4" then
  load([[
    local tide, unit = ...
    function TestLives.test_close_frees_at_the_end_of_a_block()
      local kept
      do
        local a <close> = tide.ones(3)
        kept = a
      end
      unit.assertTrue(kept:is_freed())
    end
    function TestHost.test_the_end_of_a_block_ends_views_and_loops()
      local kept
      do
        local v <close> = tide.to_memory(tide.ones(2), "pinned"):view()
        kept = v
      end
      unit.assertFalse(pcall(function() return kept[1] end))
      for a in tide.batches{{1, 2, 3}} do
        kept = a
        if a:item() == 2 then break end
      end
      unit.assertTrue(kept:is_freed())
      local s <close> = tide.stream()
      local p <close> = tide.pool()
    end
    function TestLives.test_generational_collection()
      collectgarbage("generational")
      local rt <close> = tide.open{device = "host", limit = "16MiB"}
      for _ = 1, 300 do tide.zeros({512, 1024}, "f32") end
      unit.assertEquals(tide.ones(1):totable(), {1})
      collectgarbage("incremental")
    end
  ]])(tide, unit)
end

-- A state ends with objects of all kinds, in whatever order they and their runtimes were made, closed
-- and dropped.
function TestLives.test_states_end_in_any_order()
  for seed = 1, 12 do
    local text = output_of("local seed = " .. seed .. [[

      local function draw(n)
        seed = (seed * 16807) % 2147483647
        return seed % n + 1
      end
      local open, kept = {}, {}
      local makers = {
        function() open[#open + 1] = tide.open{device = "host", log = function() kept.log = true end} end,
        function() return tide.ones(100) + 1 end,
        function() return tide.stream() end,
        function() local s = tide.stream() s:use() return s end,
        function() return tide.pool() end,
        function() local p = tide.pool() p:use() return p end,
        function() return tide.empty_in("pinned", 10):view() end,
        function() return (tide.batches{{1, 2, 3}}) end,
        function() local it = tide.batches{{1, 2, 3}} return {it, it()} end,
        function() return tide.reclaimable{name = "x", purge = function() kept = {} end} end,
        function() return tide.expr("(x) -> x") end,
        function() return tide.ones(1):on_death(function() kept.dead = tide end) end,
        function() tide.ones(1):on_death(function() kept.dead = tide end) end,
        function() return coroutine.create(function() tide.stream():use() coroutine.yield() end) end,
        function() kept[draw(#kept + 1)] = nil collectgarbage() end,
        function() if #open > 0 and draw(4) == 1 then table.remove(open, draw(#open)):close() end end,
        function() return tide.policy{name = "p" .. #kept .. draw(1e9), decide = function() end} end,
      }
      for i = 1, 60 do
        local x = makers[draw(#makers)]()
        if x ~= nil then kept[#kept + 1] = x end
        if type(x) == "thread" then assert(coroutine.resume(x)) end
      end
      if draw(2) == 1 then for _, rt in ipairs(open) do rt:close() end end
      if draw(2) == 1 then global = kept end
      print("ended")]])
    unit.assertEquals(text, "ended\n", "seed " .. seed)
  end
end

-- Whoever calls an event's function with something else gets an error, or nothing happens.
function TestLives.test_events_called_by_hand()
  local mine = tide.ones(2) -- which is none of those below
  local function things()
    return {1, "x", {}, io.stdout, print, false, tide.ones(2), tide.stream(), tide.expr("(x) -> x"),
      (tide.batches{{1, 2}}), tide.empty_in("pinned", 2):view(), tide.open{device = "host"}}
  end
  local rt = tide.open{device = "host"}
  for key, events in pairs(debug.getregistry()) do
    if type(key) == "string" and key:find("^tidepool%.") and type(events) == "table" then
      for _, f in pairs(events) do
        for _, thing in ipairs(type(f) == "function" and things() or {}) do
          pcall(f, thing)
          pcall(f, thing, thing)
          pcall(f, thing, 1, 1)
        end
        if type(f) == "function" then pcall(f) end
      end
    end
  end
  rt:use()
  unit.assertEquals(values(mine + 1), {2, 2})
  rt:close()
end

-- An array whose finalizer has run, or an object, is none any more.
function TestLives.test_finalizers_called_by_hand()
  local function ended(x)
    debug.getmetatable(x).__gc(x)
    debug.getmetatable(x).__gc(x)
    return x
  end
  local a = ended(tide.ones(2))
  for _, f in ipairs{function() return a + 1 end, function() return a[1] end, function() return a[a] end,
    function() return tide.ones(3)[a] end, function() return #a end, function() return tostring(a) end,
    function() a[1] = 1 end, function() tide.ones(3)[1] = a end, function() return tide.concat{a} end,
    function() return tide.map("(x) -> x", a) end, function() return tide.batches{a} end,
    function() return tide.fuse(function(x) return x end)(a) end} do
    unit.assertFalse(pcall(f))
  end
  local s, it, v = ended(tide.stream()), ended(tide.batches{{1}}), ended(tide.empty_in("pinned", 2):view())
  for _, f in ipairs{function() s:use() end, function() it() end, function() it:count() end,
    function() return v[1] end, function() return #v end, function() v[1] = 1 end, function() v:ffi() end,
    function() ended(tide.expr("(x) -> x"))(1) end} do
    unit.assertFalse(pcall(f))
  end
end

-- The binding itself, which debug finds, ends once.
function TestLives.test_a_binding_ends_once()
  unit.assertStrMatches(output_of([[
    local kept = tide.ones(2)
    local _, binding = debug.getupvalue(tide.zeros, 1)
    local gc = debug.getmetatable(binding).__gc
    gc(kept) gc() gc("x")
    print(kept:sum():item() == 2)
    gc(binding) gc(binding)
    print(pcall(tide.zeros, 2))]]), "true\nfalse\t[^\n]*: tidepool: the Lua state is being closed\n")
end

-- Lua's collector, once the program has stopped it, stays so; memory that runs out is found all the
-- same.
function TestLives.test_a_stopped_collector_stays_stopped()
  local rt = tide.open{device = "host", limit = "16MiB"}
  collectgarbage("stop")
  for _ = 1, 200 do tide.zeros({512, 512}, "f32") end
  local s = tide.stats()
  local stopped = not collectgarbage("isrunning")
  collectgarbage("restart")
  unit.assertTrue(stopped)
  unit.assertTrue(s.collections > 0 and s.peak_live <= 16 * 1024 * 1024)
  rt:close()
end

function TestLives.test_metatables_are_the_modules()
  unit.assertIsString(getmetatable(tide.ones(1)))
  refused("", setmetatable, tide.ones(1), {})
  for _, object in ipairs{tide.stream(), tide.pool(), tide.open(), (tide.batches{{1}}),
    tide.empty_in("pinned", 1):view(), tide.reclaimable{name = "x", drop = print}} do
    unit.assertStrContains(getmetatable(object), "metatable is the module's")
  end
  refused("expected an array, found table", tide.ones(1).item, {})
  refused("expected an array, found userdata", tide.ones(1).free, io.stdout)
end

function TestLives.test_what_the_runtime_says()
  unit.assertTrue(tide.stats().arrays >= 0)
  unit.assertStrContains(tide.status(), "memory")
  unit.assertTrue(tide.reclaim() >= 0)
  unit.assertTrue(tide.reclaim("drop") >= 0)
  refused("expected one of \"purge\"", tide.reclaim, "all")
  tide.synchronize()
  tide.collect()
end
