-- stress.lua PAGE: collecting at every array, beside a collector of Lua's that never pauses, changes
-- no result: the listings of the page, and what of the suite computes, under TIDE_POLICY=always.lua.
collectgarbage("setpause", 0)
local tide = require "tidepool"
local folder = arg[0]:match("^(.*)/") or "."

-- The policy is asked, and heard.
local before = tide.stats().collections
for _ = 1, 100 do tide.ones(10) end
local n = tide.stats().collections - before
assert(n >= 100, n .. " collections of 100 arrays")

arg[2] = "policy" -- whose listing counts collections
dofile(folder .. "/examples.lua")
arg = {[-1] = arg[-1], [0] = arg[0], "values", "indices", "calls", "fuse", "places", "host"}
dofile(folder .. "/suite.lua")
