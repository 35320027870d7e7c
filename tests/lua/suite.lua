-- suite.lua: the Lua module, under each Lua. The tests are in the files of the folder suite, which
-- get what they share; words as arguments are those of these files that are run.
local s = {unit = require "luaunit", tide = require "tidepool", integers = math.type ~= nil}
local unit, tide = s.unit, s.tide
local folder = (arg[0]:match("^(.*)/") or ".") .. "/suite/"

function s.values(a) return a:totable() end

-- f fails with a text that has the pattern in it.
function s.refused(pattern, f, ...)
  local fine, message = pcall(f, ...)
  unit.assertFalse(fine)
  unit.assertStrContains(message, pattern, false, message)
end

function s.grid() return tide.arange(12):reshape{3, 4} end -- 0 .. 11

-- What a program prints, run by this interpreter, with warnings and with the environment `before`.
function s.output_of(program, before)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write("local tide = require 'tidepool'\n", program)
  file:close()
  local i = -1
  while arg[i - 1] do i = i - 1 end
  local pipe = assert(io.popen((before or "") .. " '" .. arg[i] .. "' " ..
    (_VERSION == "Lua 5.4" and "-W " or "") .. name .. " 2>&1"))
  local text = pipe:read("*a")
  pipe:close()
  os.remove(name)
  return text
end

function s.file_of(text)
  local name = os.tmpname()
  assert(os.rename(name, name .. ".lua"))
  name = name .. ".lua"
  local file = assert(io.open(name, "w"))
  file:write(text)
  file:close()
  return name
end

local names = {"values", "indices", "calls", "fuse", "places", "host", "callbacks", "policies", "lives"}
for _, name in ipairs(#arg > 0 and arg or names) do assert(loadfile(folder .. name .. ".lua"))(s) end
os.exit(unit.LuaUnit.run("--output", "text") == 0, true)
