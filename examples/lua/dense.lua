-- dense.lua: examples/c/dense.c in Lua: one dense layer trained by Adam on random data, which makes
-- a lot of garbage, under a memory limit. Nothing is freed by hand.
--   lua5.4 examples/lua/dense.lua [--rows N] [--features N] [--batch N] [--epochs N]
--     [--limit SIZE] [--policy NAME] [--wait] (once an epoch) [--quiet] [--summary] [--weights]
-- --summary ends with dense.c's line of figures, --weights with the sums of the weights' and the
-- bias's sizes. Times are those of the package lua-socket: Lua itself has whole seconds.
local found, socket = pcall(require, "socket")
if not found then error("dense.lua wants the package lua-socket: " .. socket, 0) end
local tide = require "tidepool"
local seconds = socket.gettime

local function new_model(o)
  local m = {c1 = 1, c2 = 1}
  tide.seed(1)
  m.x = tide.random_uniform({o.rows, o.features}, "f32")
  m.y = tide.random_uniform({o.rows, 1}, "f32")
  for _, name in ipairs{"w", "wm", "wv"} do m[name] = tide.zeros(o.features, "f32") end
  for _, name in ipairs{"b", "bm", "bv"} do m[name] = tide.zeros(1, "f32") end
  -- The mean squared error's gradients by the weights, the bias and the batch. s = 2 / rows of the
  -- batch.
  m.gradients = tide.expr [[(x, y, w, b, s) ->
    let g = (sum(x * w, axis=1, keepdims=true) + b - y) * s;
    (sum(x * g, axis=0), sum(g, axis=0), g * w)]]
  m.adam = tide.expr [[(w, g, m, v, rate, c1, c2) ->
    let m1 = 0.9*m + 0.1*g; let v1 = 0.999*v + 0.001*g*g;
    (w - rate * (m1*c1) / (sqrt(v1*c2) + 1e-8), m1, v1)]]
  return m
end

-- One step on the rows from..to; the batch's own gradient, which nobody wants, is garbage at once.
local function step(m, from, to)
  local x, y = m.x({from, to}):copy(), m.y({from, to}):copy()
  local gw, gb = m.gradients(x, y, m.w, m.b, 2 / (to - from + 1))
  m.c1, m.c2 = m.c1 * 0.9, m.c2 * 0.999
  local a, b = 1 / (1 - m.c1), 1 / (1 - m.c2)
  m.w, m.wm, m.wv = m.adam(m.w, gw, m.wm, m.wv, 1e-3, a, b)
  m.b, m.bm, m.bv = m.adam(m.b, gb, m.bm, m.bv, 1e-3, a, b)
end

local function train(m, o, times)
  for e = 1, o.epochs do
    local epoch = seconds()
    for from = 1, o.rows, o.batch do
      local t = seconds()
      step(m, from, math.min(from + o.batch - 1, o.rows))
      times[#times + 1] = seconds() - t
    end
    if o.wait then tide.synchronize() end
    if not o.quiet then print(("Epoch %d train time %.3fs"):format(e, seconds() - epoch)) end
  end
  tide.synchronize()
end

-- Steps of the first epoch are left out: they load kernels and libraries.
local function summarise(o, times, total)
  local skip = o.epochs > 1 and math.ceil(o.rows / o.batch) or 0
  local later, s = {}, tide.stats()
  for i = skip + 1, #times do later[#later + 1] = times[i] end
  table.sort(later)
  local line = ("summary free=eager total_s=%.4f median_step_us=%.1f worst_step_us=%.1f"):format(
    total, 1e6 * later[math.floor(#later / 2) + 1], 1e6 * later[#later])
  for _, name in ipairs{"collections", "climbs", "collected", "reclaimed", "peak_live",
      "peak_backed", "limit", "host_waits"} do
    line = line .. (" %s=%.0f"):format(name, s[name])
  end
  print(line)
end

local function usage()
  io.stderr:write("usage: dense.lua [--rows N] [--features N] [--batch N] [--epochs N] ",
    "[--limit SIZE]\n                 [--policy NAME] [--wait] [--quiet] [--summary] [--weights]\n")
  os.exit(2)
end

local function parse(arguments)
  local o = {rows = 300000, features = 1000, batch = 2048, epochs = 100}
  local flags = {wait = true, quiet = true, summary = true, weights = true}
  local i = 1
  while arguments[i] do
    local name, value = arguments[i]:match("^%-%-(%a+)=?(.*)$")
    if flags[name] and value == "" then
      o[name] = true
    elseif o[name] and not flags[name] or name == "limit" or name == "policy" then
      if value == "" then i, value = i + 1, arguments[i + 1] end
      if type(o[name]) == "number" then
        value = value and value:match("^%d+$") and tonumber(value)
        if value == 0 then usage() end
      end
      o[name] = value or usage()
    else
      usage()
    end
    i = i + 1
  end
  return o
end

local o = parse(arg)
tide.open{limit = o.limit, policy = o.policy, log_level = o.quiet and 2 or 3,
  log = function(level, line) (level <= 2 and io.stderr or io.stdout):write(line, "\n") end}
local model, times = new_model(o), {}
tide.synchronize()
local start = seconds()
train(model, o, times)
local total = seconds() - start
print(("Total time %.3fs"):format(total))
if o.summary then summarise(o, times, total) end
if o.weights then
  print(("weights %.9g %.9g"):format(model.w:abs():sum():item(), model.b:abs():sum():item()))
end
