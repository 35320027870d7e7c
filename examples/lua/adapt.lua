-- adapt.lua: tide.adapt(value, options): a structure of tables with its arrays elsewhere.
--
-- Model. Tables are gone through in turn, by a list and not by recursion, so that a long chain of
-- them is no matter. Each table and each array is copied once: what was shared, or a circle, is so
-- in the copy. The original stays as it is, whatever fails.
local tide, fail = ...
local debug = require "debug"
local getmetatable, setmetatable = debug.getmetatable, debug.setmetatable
local array_metatable = debug.getregistry()["tidepool.array"]
local wanted = {memory = "string", device = "number", narrow = "boolean"}
local narrower = {f64 = "f32", c128 = "c64"}

local function check(options)
  if type(options) ~= "table" then
    fail("adapt: expected a table of options, found " .. type(options))
  end
  for name, value in next, options do
    if not wanted[name] then fail("adapt: there is no option '" .. tostring(name) .. "'") end
    if type(value) ~= wanted[name] then
      fail(("adapt: expected a %s as '%s', found %s"):format(wanted[name], name, type(value)))
    end
  end
end

local function moved(array, options)
  if options.memory == "host" then return array:totable() end
  if options.narrow and narrower[array.dtype] then array = array:cast(narrower[array.dtype]) end
  return array:to_memory(options.memory or "device")
end

local function copy_all(value, options)
  local copies, tables = {}, {}
  local function copy_of(v)
    local array = type(v) == "userdata" and getmetatable(v) == array_metatable
    if not array and type(v) ~= "table" then return v end
    if copies[v] == nil then
      copies[v] = array and moved(v, options) or {}
      if not array then tables[#tables + 1] = v end
    end
    return copies[v]
  end
  local result, done = copy_of(value), 0
  while done < #tables do
    done = done + 1
    local from = tables[done]
    local to = copies[from]
    for key, v in next, from do rawset(to, key, copy_of(v)) end
    setmetatable(to, getmetatable(from))
  end
  return result
end

function tide.adapt(value, options)
  options = options or {}
  check(options)
  if not options.device then return copy_all(value, options) end
  -- a coroutine has a device of its own
  local fine, result = coroutine.resume(coroutine.create(function()
    tide.device(options.device)
    return copy_all(value, options)
  end))
  if not fine then fail(tostring(result)) end
  return result
end
