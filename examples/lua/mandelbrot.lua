-- mandelbrot.lua: the Mandelbrot set as a picture. One step of all points is a Lua function that
-- tide.fuse makes one pass of; a point that has left stays where it is.
--   lua5.4 examples/lua/mandelbrot.lua [SIZE [STEPS [FILE]]]     (600, 100, mandelbrot.png)
-- Ends with the area of the points that have not left; the set's is about 1.5066.
local tide = require "tidepool"
local write_picture = dofile((arg[0]:match("^(.*/)") or "") .. "picture.lua")
local size, steps = tonumber(arg[1] or 600), tonumber(arg[2] or 100)
local path = arg[3] or "mandelbrot.png"
if not (size and size >= 2 and size % 1 == 0 and steps and steps >= 1 and steps <= 65535) then
  io.stderr:write("usage: mandelbrot.lua [SIZE [STEPS [FILE]]]\n")
  os.exit(2)
end

local advance = tide.fuse(function(x, y, cx, cy, count)
  local inside = (x*x + y*y):le(4)
  return inside:where(x*x - y*y + cx, x), inside:where(2*x*y + cy, y),
    inside:where(count + 1, count)
end)
local cx, cy = tide.linspace(-2.25, 0.75, size), tide.linspace(1.5, -1.5, size):expand_dims(2)
local x, y = tide.zeros{size, size}, tide.zeros{size, size}
local count = tide.zeros({size, size}, "f64") -- of the steps that a point stays
for _ = 1, steps do x, y, count = advance(x, y, cx, cy, count) end

-- Colours run through blue, white and brown; what stays is black.
local stays = count:ge(steps)
local t = (count / steps):sqrt()
local function shade(phase)
  return tide.map("(t, p, s) -> where(s, 0.0, 127.5 - 127.5*cos(9.0*t + p))", t, phase, stays)
end
write_picture(path, tide.stack({shade(0.3), shade(0.7), shade(1.4)}, 3):cast("u8"))
print(("area %.4f: %s"):format(9 * stays:mean():item(), path))
