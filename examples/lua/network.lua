-- network.lua: a small neural network (2-32-1) that tells two spirals apart, in plain operators:
-- made-up data in batches, gradients by hand, steps with momentum.
--   lua5.4 examples/lua/network.lua [EPOCHS]     (300)
-- Says the loss before and after, and how many of the points it gets right.
local tide = require "tidepool"
local epochs = tonumber(arg[1] or 300)
if not (epochs and epochs >= 1 and epochs % 1 == 0) then
  io.stderr:write("usage: network.lua [EPOCHS]\n")
  os.exit(2)
end
local count, width = 400, 32
local sigmoid = tide.fuse(function(z) return 1 / (1 + (-z):exp()) end)
local cross_entropy = tide.expr "(z, y) -> mean(maximum(z, 0.0) - z*y + log1p(exp(-abs(z))))"

-- Points on two arms of a spiral, the second one turned by half a circle; y is 0 or 1.
local function spirals()
  local t = tide.linspace(0.3, 1, count / 2)
  local function arm(turn)
    local angle = t * 5 + turn
    return tide.stack({t * angle:cos(), t * angle:sin()}, 2)
  end
  local y = tide.concat({tide.zeros{count / 2, 1}, tide.ones{count / 2, 1}}, 1)
  return tide.concat({arm(0), arm(math.pi)}, 1), y
end

local function forward(net, x)
  local h = (x:matmul(net.w1) + net.b1):tanh()
  return h:matmul(net.w2) + net.b2, h
end

local function gradients(net, x, y)
  local z, h = forward(net, x)
  local g = (sigmoid(z) - y) / #x
  local gh = g:matmul(net.w2:transpose()) * (1 - h * h)
  return {w1 = x:transpose():matmul(gh), b1 = gh:sum(1), w2 = h:transpose():matmul(g),
    b2 = g:sum(1)}
end

tide.seed(5)
local x, y = spirals()
local net = {w1 = tide.random_normal{2, width} * 2, b1 = tide.random_normal(width),
  w2 = tide.random_normal{width, 1} / width^0.5, b2 = tide.zeros(1)}
local speed = {}
for name, w in pairs(net) do speed[name] = w:zeros_like() end
local before = cross_entropy(forward(net, x), y):item()
for _ = 1, epochs do
  local order = tide.random_permutation(count):totable()
  for bx, by in tide.batches{x, y, batch = 50, order = order} do
    for name, g in pairs(gradients(net, bx, by)) do
      speed[name] = 0.9 * speed[name] - 0.2 * g
      net[name] = net[name] + speed[name]
    end
  end
end
local z = forward(net, x)
print(("loss %.4f, then %.4f; %d of %d right"):format(before, cross_entropy(z, y):item(),
  z:gt(0):eq(y:gt(0.5)):sum():item(), count))
