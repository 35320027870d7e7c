-- lua_pace.lua BYTES COUNT [LIMIT]: a loop of arrays that are dropped: how many were dead and not yet
-- found at most, which part of the time Lua's collector took, how often memory was short and how
-- often it failed. The part is told by the host program (lua_timed.c), in LuaJIT by its profiler; "-"
-- where nobody knows.
local tide = require "tidepool"
local bytes, count, limit = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local profile = jit and require "jit.profile"

local rt = tide.open{device = "host", limit = limit}
local failures, samples, of_collector = 0, 0, 0
tide.zeros(bytes, "u8")
tide.collect()
tide.synchronize()
tide.reset_peaks()
local before = tide.stats()
if profile then
  profile.start("i1", function(_, n, state)
    samples = samples + n
    if state == "G" then of_collector = of_collector + n end
  end)
end
local began = busy_s and busy_s() or 0
local collected = collector_s and collector_s() or 0
for _ = 1, count do
  if not pcall(tide.zeros, bytes, "u8") then failures = failures + 1 end
end
tide.synchronize()
local part = "-"
if profile then
  profile.stop()
  part = of_collector / math.max(samples, 1)
elseif collector_s then
  part = (collector_s() - collected) / (busy_s() - began)
end
local after = tide.stats()
print(("undead %d part %s climbs %d failures %d"):format(
  math.ceil((after.peak_live - before.live) / bytes), part, after.climbs - before.climbs, failures))
rt:close()
