-- trace.lua: what tide.fuse does with a function of arrays: runs it on stand-ins, which write down
-- what is done to them, and gives the text of an expression.
--
-- Model. A stand-in is a userdata of lua_fuse.c's; what is known of it stands in a table here. Its
-- value is one line of a "let", so that what is used twice is computed once. The functions of the
-- module that get a stand-in call the one of that name here (`methods`), with their arguments in
-- order. Numbers that the function reads from elsewhere are fixed as they were then.
-- What must stay true: a stand-in is of one run of one function, and of no use after it.
local tide, operations, new_stand_in, fail = ...

local known = setmetatable({}, {__mode = "k"}) -- of each stand-in: name, ndim, dtype, run
local Value = {__metatable = "a stand-in's metatable is the module's"}

local integer = math.type and function(v) return math.type(v) == "integer" end
  or function(v) return v == math.floor(v) and math.abs(v) < 2 ^ 53 end

local function number_text(v)
  if v ~= v then return "nan" end
  if v == math.huge then return "inf" end
  if v == -math.huge then return "(-inf)" end
  local text = integer(v) and string.format("%d", v) or string.format("%.17g", v)
  if not integer(v) and not text:find("[.,e]") then text = text .. ".0" end
  text = text:gsub(",", ".")
  return v < 0 and "(" .. text .. ")" or text
end

local function text_of(v, what)
  if known[v] then return known[v].name end
  if type(v) == "number" then return number_text(v) end
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "userdata" then
    fail(what .. ": an array that is no operand of the fused function: make it one")
  end
  fail(what .. ": expected an array, a number or a boolean, found " .. type(v))
end

local function stand_in(run, name, ndim, dtype)
  local v = new_stand_in(Value)
  known[v] = {run = run, name = name, ndim = ndim, dtype = dtype}
  return v
end

-- A new value of the run: an expression over the values so far.
local function new_value(run, expression, ndim)
  run.count = run.count + 1
  local name = "t" .. run.count
  run.lets[run.count] = "let " .. name .. " = " .. expression .. ";"
  return stand_in(run, name, ndim)
end

-- The run and the rank of an operation's result.
local function of(...)
  local run, rank = nil, 0
  for i = 1, select("#", ...) do
    local k = known[(select(i, ...))]
    if k and (k.run.over or run and run ~= k.run) then
      fail("a stand-in of tide.fuse is used outside of the call that it is of")
    end
    if k then run, rank = k.run, math.max(rank, k.ndim) end
  end
  return run, rank
end

local function infix(operator)
  return function(a, b)
    local run, rank = of(a, b)
    return new_value(run, text_of(a, operator) .. " " .. operator .. " " .. text_of(b, operator), rank)
  end
end
for event, operator in pairs{__add = "+", __sub = "-", __mul = "*", __div = "/", __idiv = "//",
  __mod = "%", __pow = "**", __band = "&", __bor = "|", __bxor = "^", __shl = "<<", __shr = ">>"} do
  Value[event] = infix(operator)
end
local function prefix(operator)
  return function(a)
    local run, rank = of(a)
    return new_value(run, operator .. text_of(a, operator), rank)
  end
end
Value.__unm, Value.__bnot = prefix "-", prefix "~"

for event, message in pairs{
  __lt = "a fused function cannot branch on an array: use a:lt(b) and tide.where",
  __eq = "a fused function cannot branch on an array: use a:eq(b) and tide.where",
  __len = "a fused function does not know how long its operands are",
  __call = "a fused function cannot take parts of an array",
  __concat = "a fused function does not know what is in its operands",
  __newindex = "a fused function cannot write into its operands"} do
  Value[event] = function() fail(message) end
end
Value.__le = Value.__lt
Value.__tostring = function(v) return "a stand-in of tide.fuse: " .. known[v].name end

local methods = {}

-- Operations element by element, of stand-ins and numbers.
for _, name in ipairs(operations) do
  methods[name] = function(...)
    local texts = {}
    local run, rank = of(...)
    for i = 1, select("#", ...) do texts[i] = text_of((select(i, ...)), name) end
    return new_value(run, name .. "(" .. table.concat(texts, ", ") .. ")", rank)
  end
end

-- An axis as expressions count them.
local function axis_text(axis, rank, what)
  if type(axis) ~= "number" or axis % 1 ~= 0 then
    fail(what .. ": expected an axis or a table of axes as 'axis', found " .. type(axis))
  end
  if axis == 0 or axis > rank or axis < -rank then
    fail(("%s: 'axis' is %d: expected 1 to %d, or -1 to -%d from the end"):format(what, axis, rank, rank))
  end
  return ("%d"):format(axis > 0 and axis - 1 or axis)
end

-- The axes of a fold, and how many axes they leave.
local function axes_text(axis, rank, what)
  if type(axis) ~= "table" then return axis_text(axis, rank, what), rank - 1 end
  local texts = {}
  for i, a in ipairs(axis) do texts[i] = axis_text(a, rank, what) end
  return "(" .. table.concat(texts, ", ") .. ")", rank - #texts
end

for _, name in ipairs{"sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax"} do
  methods[name] = function(v, axis, keepdims)
    local run, rank = of(v)
    local text, left = text_of(v, name), 0
    if axis ~= nil then
      local axes
      axes, left = axes_text(axis, rank, name)
      text = text .. ", axis=" .. axes
    end
    if keepdims then text, left = text .. ", keepdims=true", rank end
    local folded = new_value(run, name .. "(" .. text .. ")", left)
    if name:sub(1, 3) == "arg" then return folded + 1 end -- a place
    return folded
  end
end

local scan_flags = {reverse = true, initial = true}
for _, name in ipairs{"cumsum", "cumprod", "cummin", "cummax"} do
  methods[name] = function(v, axis, flags)
    local run, rank = of(v)
    local text = text_of(v, name) .. ", axis=" .. axis_text(axis or -1, rank, name)
    for _, flag in ipairs(type(flags) == "table" and flags or {flags}) do
      if not scan_flags[flag] then
        fail(("%s: expected one of \"reverse\", \"initial\" as 'flags', found %s"):format(name, tostring(flag)))
      end
      text = text .. ", " .. flag .. "=true"
    end
    return new_value(run, name .. "(" .. text .. ")", rank)
  end
end

local dtypes = {}
for name in ("bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128"):gmatch("%S+") do
  dtypes[name] = true
end
function methods.cast(v, dtype)
  local run, rank = of(v)
  if not dtypes[dtype] then
    fail("cast: expected an element type, as \"f32\" or \"i64\", found " .. tostring(dtype))
  end
  return new_value(run, dtype .. "(" .. text_of(v, "cast") .. ")", rank)
end

Value.__index = function(v, key)
  local k = known[v]
  if key == "ndim" then return k.ndim end
  if key == "dtype" and k.dtype then return k.dtype end
  if methods[key] then return tide[key] end -- which reads the arguments, and comes back to `methods`
  fail("a fused function cannot use '" .. tostring(key) .. "' of an array")
end

local function written(run, names, ...)
  local n, texts = select("#", ...), {}
  if n == 0 then fail("tide.fuse: the function returned nothing") end
  of(...)
  for i = 1, n do texts[i] = text_of((select(i, ...)), "tide.fuse: result " .. i) end
  local value = n == 1 and texts[1] or "(" .. table.concat(texts, ", ") .. ")"
  run.over = true
  return "(" .. table.concat(names, ", ") .. ") -> " .. table.concat(run.lets, " ") .. " " .. value
end

-- Runs f on stand-ins for n operands, whose element types (nil: a number) and ranks follow; gives the
-- expression's text.
local function trace(f, n, ...)
  local run, stand_ins, names = {lets = {}, count = 0, depth = 0}, {}, {}
  for i = 1, n do
    local dtype, ndim = select(2 * i - 1, ...)
    names[i] = "x" .. i
    stand_ins[i] = stand_in(run, names[i], ndim, dtype)
  end
  return written(run, names, f((table.unpack or unpack)(stand_ins, 1, n)))
end

-- f, which is a fused function's, called with stand-ins by another: it becomes a part of that one.
local function leave(run, ...)
  run.depth = run.depth - 1
  return ...
end
local function inside(f, ...)
  local run = of(...)
  run.depth = run.depth + 1
  if run.depth > 100 then fail("tide.fuse: fused functions are 100 deep inside of one another") end
  return leave(run, f(...))
end

return trace, inside, methods, Value
