-- lua_fuse.lua: how many launches a fused function of five operations takes.
local tide = require "tidepool"
local f = tide.fuse(function(x, y) return ((x * x + y) / (y * y + 1)):sqrt() end)
local x, y = tide.random_uniform({1000, 1000}, "f32"), tide.random_uniform({1000, 1000}, "f32")
f(x, y)
local before = tide.stats().launches
f(x, y)
print(("launches %d"):format(tide.stats().launches - before))
