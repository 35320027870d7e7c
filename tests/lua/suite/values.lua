-- values.lua: Lua's values as arrays and back, printing, operators.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local integers = s.integers

TestValues = {}

function TestValues.test_tables_become_arrays_and_come_back()
  for dtype, list in pairs{bool = {{true, false}}, i8 = {{-128, 127}}, i16 = {{-32768, 32767}},
    i32 = {{1}, {2}}, i64 = {{{-3}}}, u8 = {{0, 255}}, u16 = {65535}, u32 = {4294967295}, u64 = {7},
    f16 = {0.5, 1.5}, bf16 = {2.0}, f32 = {{0.25}, {-0.5}}, f64 = {1e300}} do
    local a = tide.array(list, dtype)
    unit.assertEquals(a.dtype, dtype)
    unit.assertEquals(values(a), list)
  end
  unit.assertEquals(tide.array{1, 2}.dtype, "i64")
  unit.assertEquals(tide.array{1, 2.5}.dtype, "f64")
  unit.assertEquals(tide.array{true}.dtype, "bool")
  unit.assertEquals(tide.array({}, "f32").shape, {0})
  unit.assertEquals(tide.array{{}, {}}.shape, {2, 0})
  unit.assertEquals(values(tide.array(3)), 3)
  unit.assertEquals(values(tide.complex(tide.array{1.0}, tide.array{-2.0})), {{1, -2}})
end

function TestValues.test_what_is_no_array_is_told_with_its_place()
  refused("expected a table of 2 values at [2]", tide.array, {{1, 2}, {3}})
  refused("expected a number or a boolean at [1][2], found string", tide.array, {{1, "x"}})
  refused("booleans beside numbers at [2]", tide.array, {1, true})
  refused("at [1] is no number of u8", tide.array, {300}, "u8")
  refused("at [2] is no number of i8", tide.array, {0, -129}, "i8")
  refused("expected an element type", tide.array, {1}, "f31")
  refused("expected a table, a number or a boolean as 'values', found nothing", tide.array)
  local deep = 1
  for _ = 1, 9 do deep = {deep} end
  refused("nested deeper than 8", tide.array, deep)
  local endless = {}
  endless[1] = endless
  refused("nested deeper than 8", tide.array, endless)
end

function TestValues.test_integers_are_not_cut_off()
  for _, v in ipairs{1.5, -0.5, 0 / 0, 1 / 0, 2 ^ 63, -2 ^ 64} do
    refused("at [2] is no number of i64", tide.array, {1, v}, "i64")
  end
  refused("at [1] is no number of u64", tide.array, {2 ^ 64}, "u64")
  unit.assertEquals(values(tide.array({-2 ^ 63}, "i64")), {-2 ^ 63})
  unit.assertEquals(values(tide.array({2.0, -3.0}, "i8")), {2, -3})
  unit.assertEquals(values(tide.array({true, false}, "i8")), {1, 0})
  unit.assertEquals(values(tide.array({2, 0}, "bool")), {true, false})
  unit.assertEquals(values(tide.array({1e300}, "f32")), {1 / 0})
  local a = tide.zeros(2, "i64")
  refused("1.5 at [2] is no number of i64", function() a[{ {1, 2} }] = {1, 1.5} end)
  refused("has a fraction", function() a[1] = 1.5 end)
  if integers then
    unit.assertEquals(values(tide.array({math.maxinteger, math.mininteger})), {math.maxinteger, math.mininteger})
    unit.assertEquals(values(tide.array({math.maxinteger}, "u64")), {math.maxinteger})
  end
end

-- A complex number is the table of its parts wherever it is one element.
function TestValues.test_complex_elements()
  local a = tide.complex(tide.array{1.0, 2.0}, tide.array{3.0, 4.0})
  unit.assertEquals({a[1], a(2), values(a)[2]}, {{1, 3}, {2, 4}, {2, 4}})
  for i, v in a:iter() do unit.assertEquals(v, values(a)[i]) end
  unit.assertEquals({a({1, 1}):item()}, {1, 3})
  a[1] = {5, -6}
  a[{2}] = 7
  unit.assertEquals(values(a), {{5, -6}, {7, 0}})
  local v = tide.array{8, 9}
  a[{ {1, 2} }] = v
  unit.assertEquals(values(a), {{8, 0}, {9, 0}})
  refused("a part of a complex number is a string", function() a[1] = {1, "x"} end)
  refused("does not stretch", function() tide.ones(2)[1] = {1, 2} end)
end

function TestValues.test_strings_hold_elements()
  local a = tide.array({{1, 2}, {3, 4}}, "u8")
  unit.assertEquals(a:bytes(), "\1\2\3\4")
  unit.assertEquals(values(tide.from_bytes("\1\2\3\4", "u8", {2, 2})), values(a))
  unit.assertEquals(values(tide.from_bytes("\1\0\2\0", "u16")), {1, 2})
  refused("the shape wants", tide.from_bytes, "abc", "u16")
  refused("the shape wants", tide.from_bytes, "abcd", "u16", {3})
  refused("the shape wants", tide.from_bytes, "abcd", "u16", {2 ^ 31, 2 ^ 31, 2 ^ 31})
end

function TestValues.test_items_and_properties()
  local a = tide.zeros({2, 3}, "f32")
  unit.assertEquals({a.ndim, a.size, #a, a.shape, a.dtype, a.memory, a.device},
    {2, 6, 2, {2, 3}, "f32", "device", 0})
  unit.assertEquals(tide.array{7}:item(), 7)
  unit.assertEquals(tide.array{true}:item(), true)
  unit.assertEquals({tide.complex(tide.array(1.0), tide.array(2.0)):item()}, {1, 2})
  refused("has no length", function() return #tide.array(1) end)
  refused("no method or property 'sise'", function() return a.sise end)
  refused("no field 'x' to assign", function() a.x = 1 end)
  refused("has no rows", function() return tide.array(1):iter() end)
  if integers then unit.assertEquals(math.type(tide.array{7}:item()), "integer") end
end

function TestValues.test_printing_is_numpys()
  unit.assertEquals(tostring(tide.array{{1, 2}, {3, 40}}), "[[ 1  2]\n [ 3 40]]")
  unit.assertEquals(tostring(tide.array(0.5)), "0.5")
  unit.assertEquals(tostring(tide.zeros(0)), "[]")
end

TestOperators = {}

function TestOperators.test_arithmetic_with_arrays_and_numbers()
  local a, b = tide.array{7, -7}, tide.array{2, 2}
  unit.assertEquals(values(a + b), {9, -5})
  unit.assertEquals(values(a - 1), {6, -8})
  unit.assertEquals(values(2 * a), {14, -14})
  unit.assertEquals(values(a / b), {3.5, -3.5})
  unit.assertEquals(values(a % b), {1, 1})
  unit.assertEquals(values(a ^ 2), {49, 49})
  unit.assertEquals(values(-a), {-7, 7})
  unit.assertEquals(values(a:floordiv(b)), {3, -4})
  unit.assertEquals((tide.ones(2, "f32") + 0.5).dtype, "f32")
  unit.assertEquals((tide.ones(2, "i32") + 0.5).dtype, "f64")
  unit.assertEquals((tide.ones(2, "u8") + 1).dtype, "u8")
  unit.assertEquals(values(tide.add(1, 2)), 3)
  refused("300 is out of the range of u8", function() return tide.ones(2, "u8") + 300 end)
  refused("expected a number, a boolean or an array as 'b', found string",
    function() return a + "x" end)
  refused("expected a number, a boolean or an array as 'b', found nothing",
    function() return a + nil end)
end

-- Whoever raises an error, it begins with the program's line.
function TestOperators.test_errors_say_where()
  local freed = tide.ones(2)
  freed:free()
  local line = debug.getinfo(1, "l").currentline
  for i, f in ipairs{
    function() return (-freed) end,
    function() return (freed + 1) end,
    function() return (1 + freed) end,
    function() local x = "x" + freed return x end,
    function() return (freed[1]) end,
    function() return (#freed) end,
    function() return (freed < freed) end,
    function() return (tide.fuse(function(x) return x end)(freed)) end,
    function() return (tide.adapt({freed})) end,
    function() return (tide.adapt({}, {kind = 1})) end,
    function() return (tide.map("(x) -> x", freed)) end,
    function() return (tide.ones(2, "u8") + 300) end} do
    local fine, message = pcall(f)
    unit.assertFalse(fine)
    unit.assertStrContains(message, "values.lua:" .. line + 1 + i .. ": ")
  end
end

-- Operators that Lua 5.1 cannot read.
if integers then
  load([[
    local tide, unit = ...
    local a, b = tide.array{12, 7}, tide.array{10, 2}
    local function check(x, list) unit.assertEquals(x:totable(), list) end
    function TestOperators.test_bits()
      check(a // b, {1, 3})
      check(a & b, {8, 2})
      check(a | b, {14, 7})
      check(a ~ b, {6, 5})
      check(~a, {-13, -8})
      check(a << 1, {24, 14})
      check(a >> 1, {6, 3})
    end
  ]])(tide, unit)
end

function TestOperators.test_arrays_have_no_order()
  local a = tide.array{1, 3}
  unit.assertEquals(values(a:lt(2)), {true, false})
  unit.assertEquals(values(a:eq(tide.array{1, 1})), {true, false})
  refused("arrays have no order", function() return a < a end)
  refused("arrays have no order", function() return a >= a end)
  unit.assertFalse(a == tide.array{1, 3}) -- another array, whatever is in it
end

function TestOperators.test_functions_take_numbers_beside_arrays()
  local a = tide.array{-1.5, 2.5}
  unit.assertEquals(values(tide.maximum(a, 0)), {0, 2.5})
  unit.assertEquals(values(tide.where(a:gt(0), a, 0)), {0, 2.5})
  unit.assertEquals(values(a:clip(-1, 1)), {-1, 1})
  unit.assertEquals(values(tide.array{4.0}:sqrt()), {2})
end
