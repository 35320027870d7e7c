-- digits.lua: examples/c/digits.c in Lua: trains a two-layer network (64-128-10) on handwritten
-- digits under a memory limit, frees nothing, and ends with the same line.
--   lua5.4 examples/lua/digits.lua [--epochs N]     "accuracy 96.67 % (348 of 360)"
local tide = require "tidepool"
local folder = (arg[0]:match("^(.*)/") or ".") .. "/../data/"
local classes, batch = 10, 64

local hidden = tide.expr "(z, b) -> maximum(z + b, 0.0)"
-- The gradient of the mean cross-entropy by the logits: (softmax - one hot) / batch.
local loss = tide.expr [[(z, b, label, class, scale) -> let t = z + b;
  let e = exp(t - max(t, axis=1, keepdims=true));
  (e / sum(e, axis=1, keepdims=true) - f32(label == class)) * scale]]
local back = tide.expr "(g, h) -> where(h > 0.0, g, 0.0)"
local adam = tide.expr [[(w, g, m, v, rate, c1, c2) ->
  let m1 = 0.9*m + 0.1*g; let v1 = 0.999*v + 0.001*g*g;
  (w - rate * (m1*c1) / (sqrt(v1*c2) + 1e-8), m1, v1)]]

-- One parameter of the network with its two moments.
local function parameter(shape, scale)
  local w = scale and tide.map("(r, s) -> r * s", tide.random_normal(shape, "f32"), scale)
  return {w = w or tide.zeros(shape, "f32"), m = tide.zeros(shape, "f32"),
    v = tide.zeros(shape, "f32")}
end

local function update(net, p, gradient)
  p.w, p.m, p.v = adam(p.w, gradient, p.m, p.v, 2e-3, 1 / (1 - net.c1), 1 / (1 - net.c2))
end

local function step(net, x, label)
  net.c1, net.c2 = net.c1 * 0.9, net.c2 * 0.999
  local h = hidden(x:matmul(net.w1.w), net.b1.w)
  local g = loss(h:matmul(net.w2.w), net.b2.w, label:expand_dims(2), net.classes, 1 / #x)
  local gh = back(g:matmul(net.w2.w:transpose()), h)
  update(net, net.w2, h:transpose():matmul(g))
  update(net, net.b2, g:sum(1))
  update(net, net.w1, x:transpose():matmul(gh))
  update(net, net.b1, gh:sum(1))
end

-- What is live now, garbage taken away, and 1 MiB; on a GPU what lives takes whole pages of 2 MiB.
local function set_limit()
  tide.reclaim("gc")
  local s = tide.stats()
  local page = tide.device_status():find("^cuda") and 2^21 or 1
  tide.set_limit(math.ceil(s.live / page) * page + s.library + 2^20)
end

local function train(net, x, y, epochs)
  local limited = false
  for _ = 1, epochs do
    local order = tide.random_permutation(#x)
    for at = 1, #x - batch + 1, batch do
      local rows = order({at, at + batch - 1})
      step(net, x:take(rows, 1), y:take(rows, 1))
      if not limited then set_limit() end
      limited = true
    end
  end
end

local function count_right(net, x, y)
  local h = hidden(x:matmul(net.w1.w), net.b1.w)
  local best = (h:matmul(net.w2.w) + net.b2.w):argmax(2) -- a place, from 1 on
  return best:eq(y + 1):sum():item()
end

-- Every fifth image from the first is held back.
local function every_fifth(a) return a({1, -1, 5}):copy() end
local function the_others(a)
  return tide.concat({a({2, -1, 5}), a({3, -1, 5}), a({4, -1, 5}), a({5, -1, 5})}, 1)
end

local epochs = arg[1] == nil and 40 or arg[1] == "--epochs" and #arg == 2 and tonumber(arg[2])
if not epochs or epochs < 1 or epochs % 1 ~= 0 then
  io.stderr:write("usage: digits.lua [--epochs N]\n")
  os.exit(2)
end
tide.seed(7)
local images = tide.map("(p) -> f32(p) / 16.0", tide.npy_read(folder .. "digits_images.npy"))
local labels = tide.npy_read(folder .. "digits_labels.npy")
local x, y = the_others(images), the_others(labels)
local held_x, held_y = every_fifth(images), every_fifth(labels)
images, labels = nil, nil
local net = {c1 = 1, c2 = 1, classes = tide.arange(0, classes, 1, "u8")}
net.w1, net.b1 = parameter({64, 128}, 0.18), parameter({128}) -- about sqrt(2 / inputs)
net.w2, net.b2 = parameter({128, classes}, 0.12), parameter({classes})
train(net, x, y, epochs)
local right = count_right(net, held_x, held_y)
print(("accuracy %.2f %% (%d of %d)"):format(100 * right / #held_x, right, #held_x))
