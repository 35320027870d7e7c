-- pace.lua: arrays that are dropped are found in time: without a limit because the module steps Lua's
-- collector by what they take of the device, under one without climbing.
local tide = require "tidepool"

-- The most arrays that were made and not yet found dead.
local function peak_of(count, shape)
  local peak = 0
  for _ = 1, count do
    tide.zeros(shape, "f32")
    local n = tide.stats().arrays
    if n > peak then peak = n end
  end
  return peak
end

tide.open{device = "host"}
for shape, most in pairs{[262144] = 64, [1024] = 2000} do
  local peak = peak_of(4000, shape)
  assert(peak <= most, ("%d arrays of %d floats"):format(peak, shape))
end
tide.open{device = "host", limit = "64MiB"}
for _ = 1, tonumber(arg[1]) do tide.zeros(1024, "f32") end
local climbs = tide.stats().climbs
assert(climbs <= 10, climbs .. " climbs")
