-- failures.lua: what failures.c runs while Lua's memory runs out: each kind of object, and what the
-- library calls. It is loaded, and what it needs is made, before memory runs out.
local tide = require "tidepool"
local rt = tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "failures",
  decide = function(now, state)
    state.asked = {state.asked}
    return now.used > now.limit / 2, nil, "half"
  end, observe = function() end}, log_level = 4, log = function() end}
local kept = {}
local cache = tide.reclaimable{name = "c", purge = function() kept = {} return 1 end,
  bytes = function() return 1 end}

local steps = {
  function() return (tide.array{{1, 2}, {3, 4}} * 2 + 1):totable() end,
  function() return tide.array{3, 1, 2}:sort_both() end,
  function() return tide.array{0, 5}:nonzero() end,
  function() return tide.arange(6):split{parts = 3} end,
  function() return tide.map("(x) -> (x, x + 1)", tide.ones(2)), tide.expr("(x) -> x * 3")(2) end,
  function() return tide.fuse(function(x) return x * x + 1 end)(tide.ones(3)) end,
  function()
    local a = tide.arange(4)
    a[{ {1, 2} }] = {7, 8}
    a[tide.array{1}] = 5
    return a[a:gt(2)], tostring(a), a:bytes()
  end,
  function() return tide.ones(1):on_death(function() kept.dead = {} end) end,
  function() tide.stream():use() tide.use_stream() end,
  function() coroutine.wrap(function() tide.stream():use() return tide.ones(2) + 1 end)() end,
  function() tide.pool():use() tide.use_pool() end,
  function()
    local v = tide.empty_in("pinned", 4):view()
    v[1] = 2
    return v[1], v.shape
  end,
  function()
    for a, b in tide.batches{{1, 2, 3}, {shape = {3}, dtype = "u8"}, batch = 2,
      fill = function(samples) return string.rep("x", #samples) end} do
      kept[1] = a + b
    end
  end,
  function() tide.reclaimable{name = "x", drop = function() end}:release() end,
  function() return tide.adapt({a = tide.ones(2), b = {}}, {memory = "pinned"}) end,
  function()
    for i = 1, 12 do
      local a = tide.zeros({512, 512}, "f32") -- 1 MiB: the cache has to give way
      kept[i] = a
    end
  end,
  function() return tide.stats(), tide.status(), tide.device_stats(), tide.help("sum") end,
  function() tide.open{device = "host", log = function() end}:close() rt:use() end,
  function() return pcall(tide.open, {device = "nowhere", log = function() end}) end,
}

local function check()
  kept = {}
  collectgarbage()
  collectgarbage()
  rt:use()
  tide.use_stream()
  tide.synchronize()
  assert(tide.ones(2):sum():item() == 2)
  collectgarbage()
  tide.synchronize()
  local n = tide.stats().arrays
  assert(n == 0, n .. " arrays are left")
end

return steps, check
