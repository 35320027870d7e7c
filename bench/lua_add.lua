-- lua_add.lua N: a + b of 32 numbers N times, with a wait after every 64: the work of
-- bench/small_add.c, from Lua.
local tide = require "tidepool"
local n = tonumber(arg[1]) or error("usage: lua_add.lua N")
tide.open{device = "host", host_device_memory = "256MiB"}
local a = tide.ones({32})
for i = 1, n do
  local sum = a + a
  if i % 64 == 0 then tide.synchronize() end
end
