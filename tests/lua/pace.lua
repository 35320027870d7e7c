-- pace.lua COUNT: arrays that are dropped are found in time: without a limit because the module steps
-- Lua's collector by what they take of the device, under one without climbing.
local tide = require "tidepool"

-- The most arrays of a size that were made and not yet found dead, as the library counts bytes:
-- tide.stats makes tables, which make Lua collect by itself.
local function peak_of(count, bytes)
  tide.collect()
  tide.synchronize()
  tide.reset_peaks()
  local before = tide.stats().live
  for _ = 1, count do tide.zeros(bytes, "u8") end
  return (tide.stats().peak_live - before) / bytes
end

local rt = tide.open{device = "host", policy = "never"}
for bytes, most in pairs{[1048576] = 64, [4096] = 2000, [1] = 2000} do
  local peak = peak_of(bytes > 4096 and 400 or 6000, bytes)
  assert(peak <= most, ("%d arrays of %d bytes"):format(peak, bytes))
  assert(peak > 10, ("%d arrays of %d bytes: somebody else collects"):format(peak, bytes))
end
rt:close()

rt = tide.open{device = "host", limit = "64MiB"}
for _ = 1, tonumber(arg[1]) do tide.zeros(4096, "u8") end
local climbs = tide.stats().climbs
assert(climbs <= 10, climbs .. " climbs")
rt:close()
