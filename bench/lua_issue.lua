-- lua_issue.lua ROUNDS ISSUES: what issuing x + y of 1024 numbers takes, as `tide-bench dispatch`
-- has it: in nanoseconds, the median of the rounds. Nobody waits within a round, and garbage is
-- collected before it.
local tide = require "tidepool"
local seconds = require "socket".gettime
local rounds, issues = tonumber(arg[1]), tonumber(arg[2])
local x, y = tide.ones(1024, "f32"), tide.ones(1024, "f32")
local took = {}
for r = 1, rounds do
  tide.collect()
  tide.synchronize()
  local began = seconds()
  for _ = 1, issues do local _ = x + y end
  took[r] = (seconds() - began) / issues
  tide.synchronize()
end
table.sort(took)
print(("add %.0f"):format(1e9 * took[math.floor(#took / 2) + 1]))
