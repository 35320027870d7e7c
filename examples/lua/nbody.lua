-- nbody.lua: bodies that attract each other, and the trails that they leave as a picture.
-- Leapfrog; the forces of all pairs are one expression, which softens close encounters.
--   lua5.4 examples/lua/nbody.lua [BODIES [STEPS [FILE]]]     (200, 1000, nbody.png)
-- Ends with the momentum, which stays 0, and how far the energy has drifted.
local tide = require "tidepool"
local write_picture = dofile((arg[0]:match("^(.*/)") or "") .. "picture.lua")
local bodies, steps = tonumber(arg[1] or 200), tonumber(arg[2] or 1000)
local path, size, dt = arg[3] or "nbody.png", 512, 2e-3
if not (bodies and bodies >= 2 and bodies % 1 == 0 and steps and steps >= 1) then
  io.stderr:write("usage: nbody.lua [BODIES [STEPS [FILE]]]\n")
  os.exit(2)
end

-- Every body has the mass 1 / n. x, y: a row; xs, ys: the same as columns.
local pull = tide.expr [[(x, y, xs, ys, mass) ->
  let dx = x - xs; let dy = y - ys; let r2 = dx*dx + dy*dy + 0.01; let f = mass / (r2 * sqrt(r2));
  (sum(f * dx, axis=1), sum(f * dy, axis=1))]]
local function forces(b)
  return pull(b.x, b.y, b.x:expand_dims(2), b.y:expand_dims(2), 1 / bodies)
end

local function energy(b)
  local moving = tide.map("(u, v) -> sum(u*u + v*v) / 2.0", b.u, b.v):item() / bodies
  local bound = tide.map([[(x, y, xs, ys) ->
    sum(1.0 / sqrt((x - xs) * (x - xs) + (y - ys) * (y - ys) + 0.01))]], b.x, b.y,
    b.x:expand_dims(2), b.y:expand_dims(2)):item()
  return moving - (bound - 10 * bodies) / (2 * bodies^2) -- without each body's pull on itself
end

-- A disc that turns, at rest as a whole.
local function disc()
  local r, angle = tide.random_uniform(bodies):sqrt(), tide.random_uniform(bodies) * (2 * math.pi)
  local b = {x = r * angle:cos(), y = r * angle:sin()}
  b.u, b.v = b.y * -0.8, b.x * 0.8
  b.u, b.v = b.u - b.u:mean(), b.v - b.v:mean()
  return b
end

tide.seed(3)
local b = disc()
local before = energy(b)
local trails = tide.zeros(size * size)
local fx, fy = forces(b)
for _ = 1, steps do
  b.u, b.v = b.u + fx * (dt / 2), b.v + fy * (dt / 2)
  b.x, b.y = b.x + b.u * dt, b.y + b.v * dt
  fx, fy = forces(b)
  b.u, b.v = b.u + fx * (dt / 2), b.v + fy * (dt / 2)
  -- the places of the bodies in the picture, which shows -1.5 to 1.5
  local places = tide.map([[(x, y, n) -> let i = floor((1.5 - y) / 3.0 * n);
    let j = floor((x + 1.5) / 3.0 * n);
    i64(clip(i, 0.0, n - 1.0) * n + clip(j, 0.0, n - 1.0)) + 1]], b.x, b.y, size)
  trails:scatter_add(places, 1, tide.ones(bodies))
end
write_picture(path, tide.map("(t) -> u8(255.0 * log1p(t) / log1p(max(t)))", trails)
  :reshape{size, size})
print(("momentum %.1e, energy drifted by %.1e: %s"):format(
  math.max(math.abs(b.u:mean():item()), math.abs(b.v:mean():item())),
  math.abs(energy(b) / before - 1), path))
