-- places.lua: devices, streams, pools, kinds of memory, printing with options.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused

TestPlaces = {}

function TestPlaces.test_a_coroutine_has_a_stream_of_its_own()
  local rt = tide.open{device = "host"}
  local s, t = tide.stream(), tide.stream()
  local seen = {}
  local function worker(stream, i)
    return coroutine.wrap(function()
      if stream then stream:use() end
      local a = tide.ones({1000}, "i64")
      for _ = 1, 5 do
        a = a + i
        coroutine.yield()
      end
      -- what was current is what this one chose, whoever ran meanwhile
      local now = tide.use_stream()
      seen[i] = now == nil and "default" or now == s and "s" or now == t and "t" or "another"
      return a:sum():item()
    end)
  end
  local workers = {worker(s, 1), worker(t, 2), worker(nil, 3)}
  for _ = 1, 5 do for i = 1, 3 do workers[i]() end end
  unit.assertEquals({workers[1](), workers[2](), workers[3]()}, {6000, 11000, 16000})
  unit.assertEquals(seen, {"s", "t", "default"})
  s:use() -- of the main program: that of coroutines that have chosen nothing
  unit.assertTrue(coroutine.wrap(function() return tide.use_stream() end)() == s)
  unit.assertTrue(tide.use_stream() == s)
  rt:close()
end

function TestPlaces.test_streams_end()
  local rt = tide.open{device = "host"}
  local s = tide.stream()
  s:use()
  local a = tide.ones(10) * 3
  s:synchronize()
  tide.synchronize(s)
  s:release()
  s:release()
  unit.assertEquals(a:sum():item(), 30) -- on the default stream again
  unit.assertNil(s.native and tide.stream():native())
  refused("stream:use: the stream was released", s.use, s)
  refused("synchronize: the stream was released", tide.synchronize, s)
  refused("stream:use: expected a stream as 'stream', found nothing", s.use)
  refused("use_stream: expected a stream as 'stream', found number", tide.use_stream, 1)
  refused("stream:release: expected a stream as 'stream', found userdata", s.release, a)
  refused("expected a light userdata as 'pointer', found string", tide.wrap_stream, "x")
  refused("native", tide.wrap_stream, tide.newaxis)
  refused("stream takes 0 arguments", tide.stream, 1)
  for _ = 1, 2000 do tide.stream():use() end -- dropped: more than the runtime has at once
  tide.use_stream()
  local t = tide.stream()
  local dropped = {}
  for i = 1, 100 do dropped[i] = tide.expr("(x) -> x + " .. i) end
  rt:close()
  refused("closed", t.synchronize, t)
  local pause, step = collectgarbage("setpause", 0), collectgarbage("setstepmul", 1000)
  for i = 1, 100 do -- what is collected in the middle of an error leaves it as it is
    dropped[i] = nil
    refused("closed", t.synchronize, t)
  end
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", step)
  t:release()
end

function TestPlaces.test_devices()
  local rt = tide.open{device = "host"}
  unit.assertEquals({tide.device_count(), tide.device()}, {2, 0})
  unit.assertEquals(tide.device(1), 1)
  local a = tide.ones(3)
  unit.assertEquals({a.device, tide.device()}, {1, 1})
  local s = tide.stream()
  tide.device(0)
  local b = tide.ones(3)
  unit.assertEquals(b.device, 0)
  tide.use_stream(s)
  unit.assertEquals({tide.device(), tide.ones(1).device}, {1, 1})
  tide.use_stream()
  tide.device(0)
  unit.assertEquals(coroutine.wrap(function()
    tide.device(1)
    return tide.ones(1).device
  end)(), 1)
  unit.assertEquals({tide.device(), tide.ones(1).device}, {0, 0})
  unit.assertTrue(tide.device_reaches(0, 1))
  tide.device_synchronize()
  unit.assertStrContains(tide.device_status(), "host:0")
  local stats = tide.device_stats()
  unit.assertTrue(stats.total > 0 and stats.device.live > 0 and stats.pinned.live == 0)
  tide.set_limit(64 * 1024 * 1024)
  unit.assertEquals(tide.device_stats().limit, 64 * 1024 * 1024)
  tide.set_limit()
  tide.set_soft_limit(1024 * 1024)
  unit.assertEquals(tide.stats().soft_limit, 1024 * 1024)
  tide.set_soft_limit()
  refused("device", tide.device, 7)
  refused("device: expected a device's number as 'number', found number", tide.device, -1)
  refused("expected an integer as 'number', found string", tide.device, "1")
  refused("expected a device's number as 'device'", tide.device_reaches, -1, 0)
  refused("expected an integer as 'owner', found nothing", tide.device_reaches, 0)
  refused("device", tide.device_reaches, 0, 9)
  refused("expected a number of bytes as 'bytes'", tide.set_limit, -1)
  refused("expected an integer as 'bytes', found string", tide.set_soft_limit, "x")
  unit.assertEquals(tide.device(), 0)
  rt:close()
end

function TestPlaces.test_pools()
  local rt = tide.open{device = "host"}
  local p = tide.pool{kind = "tide", deterministic = true}
  unit.assertEquals(p:get("deterministic"), 1)
  p:set("reuse_wait", 0)
  unit.assertEquals(p:get("reuse_wait"), 0)
  p:use()
  local a = tide.ones({1024}, "f64")
  unit.assertEquals(p:stats().live, 8192)
  unit.assertTrue(tide.use_pool() == p)
  unit.assertNil(tide.use_pool(p))
  unit.assertEquals(coroutine.wrap(function() -- what the main program has
    local b = tide.ones({1024}, "f64")
    return p:stats().live + 0 * b.size
  end)(), 16384)
  tide.use_pool()
  unit.assertStrContains(p:status(), "live")
  unit.assertTrue(tide.default_pool():stats().backed >= 0)
  tide.default_pool():release()
  unit.assertEquals(tide.ones(2):sum():item(), 2)
  p:release()
  p:release()
  unit.assertEquals(a:sum():item(), 1024)
  refused("pool:stats: the pool was released", p.stats, p)
  refused("pool: there is no setting 'sort'", tide.pool, {sort = 1})
  refused("pool: expected a text as 'kind', found number", tide.pool, {kind = 1})
  refused("pool: expected true or false as 'deterministic', found string", tide.pool,
    {deterministic = "x"})
  refused("pool: expected a table of settings, found number", tide.pool, 1)
  refused("heap", tide.pool, {kind = "heap"})
  local q = tide.pool()
  refused("expected the name of an attribute as 'attribute', found nothing", q.get, q)
  refused("expected one of \"release_threshold\"", q.get, q, "size")
  refused("MAX_SPLIT", function() q:set("max_split", 1) return q:get("max_split") end)
  refused("expected a number that is not negative as 'value'", q.set, q, "reuse_wait", -1)
  refused("expected an integer as 'value', found nothing", q.set, q, "reuse_wait")
  refused("use_pool: expected a pool as 'pool', found string", tide.use_pool, "p")
  refused("pool:use: expected a pool as 'pool', found userdata", q.use, tide.stream())
  rt:close()
end

function TestPlaces.test_kinds_of_memory()
  for _, kind in ipairs{"device", "pinned", "unified"} do
    local a = tide.empty_in(kind, {2, 3}, "f32")
    unit.assertEquals({a.memory, a.shape, a.dtype}, {kind, {2, 3}, "f32"})
    unit.assertEquals(tide.ones(3):to_memory(kind).memory, kind)
  end
  local rt = tide.open{device = "host", default_memory = "pinned"}
  unit.assertEquals(tide.ones(1).memory, "pinned")
  rt:close()
  local u = tide.to_memory(tide.arange(8), "unified")
  unit.assertEquals(values(u:prefetch(2, 3, "host"):advise(1, 8, "read_mostly")), values(tide.arange(8)))
  refused("expected one of \"device\", \"pinned\", \"unified\" as 'memory'", tide.empty_in, "host", 1)
  refused("'first' is 0", u.prefetch, u, 0, 1)
  refused("", u.prefetch, u, 8, 2)
  refused("", tide.ones(3).prefetch, tide.ones(3), 1, 1)
  local a = tide.zeros(2, "u8")
  unit.assertEquals(values(a:memset(7)), {7, 7})
  unit.assertEquals(values(a:set_ordered(false):set_ordered(true)), {7, 7})
  refused("expected 0 to 255 as 'value'", a.memset, a, 256)
end

function TestPlaces.test_printing_with_options()
  local a = tide.array{1 / 3, 2}
  unit.assertEquals(a:format(), tostring(a))
  unit.assertEquals(a:format{precision = 2}, "[0.33 2.  ]")
  unit.assertEquals(a:format{precision = 2, float_mode = "fixed"}, "[0.33 2.00]")
  unit.assertEquals(tide.arange(9):format{threshold = 4, edge_items = 1}, "[0 ... 8]")
  refused("format has no argument 'digits'", a.format, a, {digits = 2})
  refused("expected one of \"maxprec\"", a.format, a, {float_mode = "short"})
  refused("precision", a.format, a, {precision = -7})
  refused("expected a smaller integer as 'precision'", a.format, a, {precision = 2 ^ 40})
end
