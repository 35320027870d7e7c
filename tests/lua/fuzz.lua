-- fuzz.lua: calls of every function with arguments that are mostly wrong give Lua errors or
-- results, and nothing else. Arguments: how many calls, a seed.
local tide = require "tidepool"
local names, methods = {}, {}
for line in tide.help():gmatch("[^\n]+") do
  for name in line:gsub("^.-: ", ""):gmatch("%S+") do
    local list = name:find(":") and methods or names
    if not name:find("^runtime:") then list[#list + 1] = name:match("[^:]+$") end
  end
end
-- what writes files; what the process keeps for good; what ends what is used here
local left_out = {npy_read = true, npy_write = true, policy = true, open = true}

local seed = tonumber(arg[2] or 1)
local function draw(n) -- 1 to n; the same in every Lua
  seed = (seed * 16807) % 2147483647
  return seed % n + 1
end

tide.open{device = "host", limit = "64MiB"}
local closed = tide.open{device = "host"}
local of_closed = tide.ones(3)
closed:close()
local rt = tide.open{device = "host", limit = "64MiB"}
local freed = tide.ones(2)
freed:free()
local arrays = {}
for i, dtype in ipairs{"bool", "i8", "i32", "i64", "u8", "u64", "f16", "f32", "f64", "c64"} do
  arrays[i] = tide.ones({draw(4), draw(4)}, "i32"):cast(dtype)
end
arrays[#arrays + 1] = tide.zeros({0, 3})
arrays[#arrays + 1] = tide.array(1)
for _, kind in ipairs{"pinned", "unified"} do arrays[#arrays + 1] = tide.empty_in(kind, {2, 3}, "i32") end

-- objects, made anew now and then, for calls end them
local objects = {}
local function new_object(i)
  local fill = function(samples) return type(samples) == "table" and {samples[1] % 100} or 0 end
  if i == 1 then return tide.stream() end
  if i == 2 then return tide.pool() end
  if i == 3 then return arrays[#arrays]:view() end
  if i == 4 then return arrays[#arrays - 1]:view("read") end
  if i == 5 then return (tide.batches{{1, 2, 3}, {{1}, {2}, {3}}, batch = 2}) end
  if i == 6 then return (tide.batches{{shape = {3}, dtype = "i8"}, fill = fill}) end
  if i == 7 then return tide.reclaimable{name = "fuzz", purge = fill, bytes = fill} end
  if i == 8 then return tide.expr("(x) -> x + 1") end
  local s = tide.stream()
  s:release()
  return s
end
for i = 1, 9 do objects[i] = new_object(i) end

local makers = {
  function() return arrays[draw(#arrays)] end,
  function() return arrays[draw(#arrays)] end,
  function() return arrays[draw(#arrays)] end,
  function() return freed end,
  function() return of_closed end,
  function() return draw(5) - 3 end,
  function() return (draw(5) - 3) * 2 ^ 31 end,
  function() return 2 ^ draw(64) end,
  function() return -2 ^ 63 end,
  function() return 0 / 0 end,
  function() return 1 / 0 end,
  function() return 0.5 end,
  function() return draw(2) == 1 end,
  function() return nil end,
  function() return "" end,
  function() return ({"f32", "i64", "lower", "reflect", "x", "axis"})[draw(6)] end,
  function() return {} end,
  function() return {draw(4), draw(4)} end,
  function() return {draw(9) - 5, draw(9) - 5, draw(3) - 2} end,
  function() return {{1, 2}, {3}} end,
  function() return {arrays[draw(#arrays)], arrays[draw(#arrays)]} end,
  function() return {axis = draw(5) - 3, keepdims = draw(2) == 1} end,
  function() return {axis = "x"} end,
  function() return {[1.5] = 1} end,
  function() return type end,
  function() return io.stdout end,
  function() return rt end,
  function() return objects[draw(#objects)] end,
  function() return objects[draw(#objects)] end,
  function() return {arrays[draw(#arrays)], batch = draw(3) - 1, narrow = true} end,
  function() return {name = "fuzz", drop = type} end,
  function() return function() end end,
  function() return coroutine.create(type) end,
  function() return tide.newaxis end,
}
local function any() return makers[draw(#makers)]() end

local kinds = {
  function() return tide[names[draw(#names)]] end,
  function() return tide[names[draw(#names)]] end,
  function() return tide[names[draw(#names)]] end,
  function() return tide.map end,
  function() return tide.array end,
  function() return tide.from_bytes end,
  function() return function(a, ...) return a(...) end end,
  function() return function(a, k) return a[k] end end,
  function() return function(a, k, v) a[k] = v end end,
  function() return function(a, b) return a + b end end,
  function() return function(a) return #a, tostring(a) end end,
  function() return function(a, ...)
    local method = a[methods[draw(#methods)]]
    return method(a, ...)
  end end,
  function() return function(_, ...)
    local a = objects[draw(#objects)]
    return a[methods[draw(#methods)]](a, ...)
  end end,
  function() return function(k, v)
    local a = objects[draw(#objects)]
    if v ~= nil then a[k] = v end
    return a[k], a(k)
  end end,
}
local fine = 0
for _ = 1, tonumber(arg[1] or 1000) do
  local f = kinds[draw(#kinds)]()
  local name
  for n in pairs(left_out) do if f == tide[n] then name = n end end
  if not name then
    local a, b, c, d = any(), any(), any(), any()
    local ok, message = pcall(f, (table.unpack or unpack)({a, b, c, d}, 1, draw(5) - 1))
    if ok then fine = fine + 1 else assert(type(message) == "string", "an error that is no text") end
  end
  if draw(20) == 1 then
    rt:use()
    tide.device(0)
    tide.set_limit()
    tide.set_soft_limit()
    local i = draw(#objects)
    local ok, object = pcall(new_object, i)
    if ok then objects[i] = object end
  end
end
rt:use()
tide.device(0)
assert(tide.ones(3):sum():item() == 3)
assert(fine > 0)
