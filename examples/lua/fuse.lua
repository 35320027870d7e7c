-- fuse.lua: tide.fuse(f): a function of arrays as one expression.
--
-- Model. f runs once for each combination of the operands' ranks and element types, on stand-ins
-- that write down what is done to them; from then on the expression runs instead. Numbers that f
-- reads from elsewhere are fixed as they were then. A stand-in's value is one line of a "let", so
-- that what is used twice is computed once.
local tide, operations = ...

local Value = {}
Value.__metatable = "a stand-in's metatable is the module's"
local builders = setmetatable({}, {__mode = "k"}) -- of each stand-in: what it belongs to

local integer = math.type and function(v) return math.type(v) == "integer" end
  or function(v) return v == math.floor(v) and math.abs(v) < 2 ^ 53 end

local function number_text(v)
  if v ~= v then return "nan" end
  if v == math.huge then return "inf" end
  if v == -math.huge then return "(-inf)" end
  local text = integer(v) and string.format("%d", v) or string.format("%.17g", v)
  if not integer(v) and not text:find("[.e]") then text = text .. ".0" end
  text = text:gsub(",", ".")
  return v < 0 and "(" .. text .. ")" or text
end

local function text_of(v, what)
  if builders[v] then return builders[v].name end
  if type(v) == "number" then return number_text(v) end
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "userdata" then
    error(what .. ": an array that is no operand of the fused function: make it one", 3)
  end
  error(what .. ": expected a stand-in, a number or a boolean, found " .. type(v), 3)
end

-- A new value: `expression` over the values of `builder`.
local function new_value(builder, expression, ndim)
  builder.count = builder.count + 1
  local name = "t" .. builder.count
  builder.lets[#builder.lets + 1] = "let " .. name .. " = " .. expression .. ";"
  local v = setmetatable({}, Value)
  builders[v] = {name = name, builder = builder, ndim = ndim}
  return v
end

local function builder_of(...)
  local found
  for i = 1, select("#", ...) do
    local b = builders[(select(i, ...))]
    if b then
      if found and found ~= b.builder then error("stand-ins of two calls of tide.fuse meet", 3) end
      found = b.builder
    end
  end
  return found
end

local function rank_of(...)
  local rank = 0
  for i = 1, select("#", ...) do
    local b = builders[(select(i, ...))]
    if b and b.ndim > rank then rank = b.ndim end
  end
  return rank
end

local function infix(operator)
  return function(a, b)
    return new_value(builder_of(a, b), text_of(a, operator) .. " " .. operator .. " " .. text_of(b, operator),
      rank_of(a, b))
  end
end
for event, operator in pairs{__add = "+", __sub = "-", __mul = "*", __div = "/", __idiv = "//",
  __mod = "%", __pow = "**", __band = "&", __bor = "|", __bxor = "^", __shl = "<<", __shr = ">>"} do
  Value[event] = infix(operator)
end
function Value.__unm(a) return new_value(builder_of(a), "-" .. text_of(a, "-"), rank_of(a)) end
function Value.__bnot(a) return new_value(builder_of(a), "~" .. text_of(a, "~"), rank_of(a)) end
local function no_order()
  error("a fused function cannot branch on an array: use a:lt(b) and tide.where", 2)
end
Value.__lt, Value.__le, Value.__eq = no_order, no_order, no_order
Value.__len = function() error("a fused function does not know how long its operands are", 2) end
Value.__tostring = function(v) return "a stand-in of tide.fuse: " .. builders[v].name end
Value.__newindex = function() error("a fused function cannot write into its operands", 2) end

local methods = {}

-- Operations element by element, of stand-ins and numbers.
for _, name in ipairs(operations) do
  methods[name] = function(...)
    local b, texts = builder_of(...), {}
    for i = 1, select("#", ...) do texts[i] = text_of((select(i, ...)), name) end
    return new_value(b, name .. "(" .. table.concat(texts, ", ") .. ")", rank_of(...))
  end
end

-- An axis as expressions count them.
local function axis_text(axis, what)
  if type(axis) ~= "number" or not integer(axis) or axis == 0 then
    error(what .. ": axes count from 1, and from -1 at the end", 4)
  end
  return string.format("%d", axis > 0 and axis - 1 or axis)
end

local function axes_text(axis, what)
  if type(axis) ~= "table" then return axis_text(axis, what) end
  local texts = {}
  for i, a in ipairs(axis) do texts[i] = axis_text(a, what) end
  return "(" .. table.concat(texts, ", ") .. ")"
end

local function options(first, second, named, what)
  local given = {}
  if type(first) == "table" and #first == 0 then named, first = first, nil end
  if type(second) == "table" then named, second = second, nil end
  for key, value in pairs(type(named) == "table" and named or {}) do given[key] = value end
  if given.axis == nil then given.axis = first end
  return given, second
end

for _, name in ipairs{"sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax"} do
  methods[name] = function(v, axis, keepdims)
    local given, second = options(axis, keepdims, nil, name)
    if given.keepdims == nil then given.keepdims = second end
    local text, rank = text_of(v, name), 0
    if given.axis ~= nil then
      text = text .. ", axis=" .. axes_text(given.axis, name)
      rank = rank_of(v) - (type(given.axis) == "table" and #given.axis or 1)
    end
    if given.keepdims then text, rank = text .. ", keepdims=true", rank_of(v) end
    local folded = new_value(builder_of(v), name .. "(" .. text .. ")", rank)
    if name:sub(1, 3) == "arg" then return folded + 1 end
    return folded
  end
end

for _, name in ipairs{"cumsum", "cumprod", "cummin", "cummax"} do
  methods[name] = function(v, axis, flags)
    local given, second = options(axis, flags, nil, name)
    local text = text_of(v, name) .. ", axis=" .. axes_text(given.axis or -1, name)
    local list = given.flags or second or {}
    for _, flag in ipairs(type(list) == "table" and list or {list}) do
      text = text .. ", " .. flag .. "=true"
    end
    return new_value(builder_of(v), name .. "(" .. text .. ")", rank_of(v))
  end
end

function methods.cast(v, dtype)
  return new_value(builder_of(v), dtype .. "(" .. text_of(v, "cast") .. ")", rank_of(v))
end

Value.__index = function(v, key)
  if key == "ndim" then return builders[v].ndim end
  if key == "dtype" and builders[v].dtype then return builders[v].dtype end
  local m = methods[key]
  if m then return m end
  error("a fused function cannot use '" .. tostring(key) .. "' of an array", 2)
end

-- Runs f on stand-ins for operands like these; the expression's text.
local function trace(f, operands, n)
  local builder = {lets = {}, count = 0}
  local stand_ins, names = {}, {}
  for i = 1, n do
    names[i] = "x" .. i
    local v = setmetatable({}, Value)
    local array = type(operands[i]) == "userdata"
    builders[v] = {name = names[i], builder = builder, ndim = array and operands[i].ndim or 0,
      dtype = array and operands[i].dtype or nil}
    stand_ins[i] = v
  end
  local unpack = table.unpack or unpack
  local results = {f(unpack(stand_ins, 1, n))}
  if #results == 0 then error("tide.fuse: the function returned nothing", 3) end
  local texts = {}
  for i, r in ipairs(results) do texts[i] = text_of(r, "tide.fuse: result " .. i) end
  local value = #texts == 1 and texts[1] or "(" .. table.concat(texts, ", ") .. ")"
  return "(" .. table.concat(names, ", ") .. ") -> " .. table.concat(builder.lets, " ") .. " " .. value
end

-- tide.fuse(f): the same function, which computes in one pass.
function tide.fuse(f)
  if type(f) ~= "function" then
    error("fuse: expected a function, found " .. type(f), 2)
  end
  local texts = {}
  return function(...)
    local n, operands = select("#", ...), {...}
    local key = {}
    for i = 1, n do
      local v = operands[i]
      key[i] = type(v) == "userdata" and v.dtype .. v.ndim or type(v)
    end
    key = table.concat(key, " ")
    local text = texts[key]
    if not text then
      text = trace(f, operands, n)
      texts[key] = text
    end
    return tide.map(text, ...)
  end
end
