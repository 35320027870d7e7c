-- suite.lua: the Lua module, under each Lua: every operator and property, every form of an index,
-- arguments by place and by name, and what is refused, with its message.
local unit = require "luaunit"
local tide = require "tidepool"
local integers = math.type ~= nil -- of their own, beside floats

local function values(a) return a:totable() end
local function refused(pattern, f, ...)
  local fine, message = pcall(f, ...)
  unit.assertFalse(fine)
  unit.assertStrContains(message, pattern, false, message)
end

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
  refused("at [1] is out of the range of u8", tide.array, {300}, "u8")
  refused("at [2] is out of the range of i8", tide.array, {0, -129}, "i8")
  refused("expected an element type", tide.array, {1}, "f31")
  refused("expected a table, a number or a boolean as 'values', found nothing", tide.array)
  local deep = 1
  for _ = 1, 9 do deep = {deep} end
  refused("nested deeper than 8", tide.array, deep)
  local endless = {}
  endless[1] = endless
  refused("nested deeper than 8", tide.array, endless)
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

TestIndices = {}

local function grid() return tide.arange(12):reshape{3, 4} end -- 0 .. 11

function TestIndices.test_integers_and_ranges()
  local a = grid()
  unit.assertEquals(values(a[1]), {0, 1, 2, 3})
  unit.assertEquals(values(a[-1]), {8, 9, 10, 11})
  unit.assertEquals(a(2, 3), 6)
  unit.assertEquals(a[{2, 3}], 6)
  unit.assertEquals(a[2][-1], 7)
  unit.assertEquals(values(a[{ {2, 3}, {} }]), {{4, 5, 6, 7}, {8, 9, 10, 11}})
  unit.assertEquals(values(a(1, {2, 3})), {1, 2})
  unit.assertEquals(values(a(1, {2})), {1, 2, 3})
  unit.assertEquals(values(a(1, {1, 4, 2})), {0, 2})
  unit.assertEquals(values(a(1, {4, 1, -1})), {3, 2, 1, 0})
  unit.assertEquals(values(a(1, {4, 2, -1})), {3, 2, 1})
  unit.assertEquals(values(a(1, {-2, -1})), {2, 3})
  unit.assertEquals(values(a(1, {1, -2})), {0, 1, 2})
  unit.assertEquals(values(a(1, {-1, -3, -1})), {3, 2, 1})
  unit.assertEquals(values(a(1, {3, 2})), {})
  unit.assertEquals(values(a(tide.ellipsis, 1)), {0, 4, 8})
  unit.assertEquals(a(tide.newaxis, 1).shape, {1, 4})
end

-- Ranges of all bounds and steps against a walk over the places.
function TestIndices.test_ranges_are_what_a_walk_gives()
  local n = 5
  local a = tide.arange(n)
  for first = -n, n do for last = -n, n do for _, step in ipairs{-3, -2, -1, 1, 2, 3} do
    if first ~= 0 and last ~= 0 then
      local from, to = first > 0 and first or n + 1 + first, last > 0 and last or n + 1 + last
      local expected = {}
      for i = from, to, step do expected[#expected + 1] = i - 1 end
      unit.assertEquals(values(a({first, last, step})), expected,
        ("{%d, %d, %d}"):format(first, last, step))
    end
  end end end
end

function TestIndices.test_masks_and_places()
  local a = grid()
  unit.assertEquals(values(a[a:gt(8)]), {9, 10, 11})
  unit.assertEquals(values(a[tide.array{3, 1}]), {{8, 9, 10, 11}, {0, 1, 2, 3}})
  unit.assertEquals(values(a({}, tide.array{-1, 1})), {{3, 0}, {7, 4}, {11, 8}})
  unit.assertEquals(values(a(tide.array{1, 2}, tide.array{1, 2})), {0, 5})
  unit.assertEquals(values(a:take(tide.array{2}, 1)), {{4, 5, 6, 7}})
  unit.assertEquals(values(a[1][a[1]:argsort{descending = true}]), {3, 2, 1, 0})
end

function TestIndices.test_assignment()
  local a = grid()
  a[1] = 100
  a[{2, 1}] = -1
  a[{ {2, 3}, {4} }] = tide.array{{1}, {2}}
  a[{3, {1, 2}}] = {50, 60}
  unit.assertEquals(values(a), {{100, 100, 100, 100}, {-1, 5, 6, 1}, {50, 60, 10, 2}})
  a[a:eq(100)] = 0
  a[tide.array{3}] = tide.array{7, 7, 7, 7}
  unit.assertEquals(values(a), {{0, 0, 0, 0}, {-1, 5, 6, 1}, {7, 7, 7, 7}})
  refused("a table or an array, found string", function() a[1] = "x" end)
  refused("out of the range", function() tide.ones(2, "u8")[1] = 300 end)
end

function TestIndices.test_what_is_no_index()
  local a = grid()
  refused("0 is no place", function() return a[0] end)
  refused("5 is beyond axis 2, which has 4 elements", function() return a(1, 5.0) end)
  refused("is beyond axis 1, which has 3", function() return a[5] end)
  refused("is beyond axis 1", function() return a[-4] end)
  refused("the first of a range is 0", function() return a({0, 2}) end)
  refused("expected an integer as the last of a range, found string",
    function() return a({1, "x"}) end)
  refused("expected an integer, {first, last, step}", function() return a(1.5) end)
  refused("expected an integer, {first, last, step}", function() return a(true) end)
  refused("3 ranges for an array with 2", function() return a(1, 1, 1) end)
  refused("", function() return a[tide.array{9}]:totable() end)
  refused("", function() return a[tide.array{0}]:totable() end)
  refused("more than 16 entries", function() return a(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) end)
end

function TestIndices.test_rows_in_turn()
  local seen = {}
  for i, row in grid():iter() do seen[i] = row:sum():item() end
  unit.assertEquals(seen, {6, 22, 38})
  seen = {}
  for i, v in tide.array{5, 6}:iter() do seen[i] = v end
  unit.assertEquals(seen, {5, 6})
  if integers then
    seen = {}
    for i, row in ipairs(grid()) do seen[i] = row[1] end
    unit.assertEquals(seen, {0, 4, 8})
  end
end

TestCalls = {}

function TestCalls.test_arguments_by_place_and_by_name()
  local a = grid()
  unit.assertEquals(a:sum():item(), 66)
  unit.assertEquals(values(a:sum(1)), {12, 15, 18, 21})
  unit.assertEquals(values(a:sum{axis = -1}), {6, 22, 38})
  unit.assertEquals(a:sum{axis = {1, 2}, keepdims = true}.shape, {1, 1})
  unit.assertEquals(a:sum(2, true).shape, {3, 1})
  unit.assertEquals(values(tide.sum(a, {axis = 1})), {12, 15, 18, 21})
  unit.assertEquals(values(a:cumsum{axis = 2, flags = "reverse"})[1], {6, 6, 5, 3})
  unit.assertEquals(a:cumsum{axis = 2, flags = {"reverse", "initial"}}.shape, {3, 5})
  refused("sum has no argument 'axs'", a.sum, a, {axs = 1})
  refused("sum: 'axis' is 3", a.sum, a, 3)
  refused("expected 1 to 2, or -1 to -2 from the end", a.sum, a, 0)
  refused("expected an axis or a table of axes as 'axis', found string", a.sum, a, "x")
  refused("expected true or false as 'keepdims', found number", a.sum, a, 1, 1)
  refused("sum takes 3 arguments, found 4", a.sum, a, 1, true, 1)
  refused("sum: expected an array as 'a', found nothing", tide.sum)
  refused("expected one of \"reverse\", \"initial\" as 'flags', found back",
    function() return a:cumsum{axis = 1, flags = "back"} end)
  refused("has 9 numbers, and 8 are the most", tide.zeros, {1, 1, 1, 1, 1, 1, 1, 1, 1})
end

function TestCalls.test_places_count_from_one()
  local a = tide.array{{3, 1, 2}, {6, 5, 4}}
  unit.assertEquals(values(a:argmax(2)), {1, 1})
  unit.assertEquals(values(a:argsort(2)), {{2, 3, 1}, {3, 2, 1}})
  local sorted, places = a:sort_both(2)
  unit.assertEquals(values(sorted), {{1, 2, 3}, {4, 5, 6}})
  unit.assertEquals(values(a:take_along_axis(places, 2)), values(sorted))
  local top, where = a:topk(1)
  unit.assertEquals({values(top), values(where)}, {{{3}, {6}}, {{1}, {1}}})
  local found = tide.array{0, 5, 0, 7}:nonzero()
  unit.assertEquals(values(found[1]), {2, 4})
  local u, first, inverse, counts = tide.array{5, 3, 5}:unique_all()
  unit.assertEquals({values(u), values(first), values(inverse), values(counts)},
    {{3, 5}, {2, 1}, {2, 1, 2}, {1, 2}})
  unit.assertEquals(values(u[inverse]), {5, 3, 5})
  unit.assertEquals(values(tide.array{1, 3, 5}:searchsorted(tide.array{3, 9})), {2, 4})
  unit.assertEquals(values(tide.array{9, 7, 8}:partition(1))[1], 7)
  unit.assertEquals(values(tide.array{1, 2, 3}:segment_sum(tide.array{1, 2, 2}, 2)), {1, 5})
  unit.assertEquals(values(tide.array{1, 2, 3}:segment_sum_offsets(tide.array{1, 2, 4})), {1, 5})
end

function TestCalls.test_several_results_and_lists()
  local parts = grid():split{parts = 3}
  unit.assertEquals(#parts, 3)
  unit.assertEquals(parts[2].shape, {1, 4})
  parts = tide.arange(6):split({3, 5}, 1) -- the second begins at the third place, ...
  unit.assertEquals({values(parts[1]), values(parts[2]), values(parts[3])}, {{0, 1}, {2, 3}, {4, 5}})
  unit.assertEquals(values(tide.concat({tide.array{1}, tide.array{2, 3}})), {1, 2, 3})
  unit.assertEquals(tide.stack({grid(), grid()}, 1).shape, {2, 3, 4})
  local rows = grid():unstack(1)
  unit.assertEquals(values(rows[3]), {8, 9, 10, 11})
  local x, y = (table.unpack or unpack)(tide.meshgrid({tide.arange(2), tide.arange(3)}, "ij"))
  unit.assertEquals({x.shape, y.shape}, {{2, 3}, {2, 3}})
  unit.assertEquals(values(grid():transpose())[2], {1, 5, 9})
  unit.assertEquals(grid():moveaxis(1, 2).shape, {4, 3})
  unit.assertEquals(values(tide.arange(4):roll(1)), {3, 0, 1, 2})
  unit.assertEquals(values(tide.arange(2):pad(1, 2, "edge")), {0, 0, 1, 1, 1})
  unit.assertEquals(values(tide.arange(2):tile(2)), {0, 1, 0, 1})
  refused("expected an array as 'arrays'[2], found number", tide.concat, {grid(), 1})
  refused("expected a table of arrays as 'arrays'", tide.concat, grid())
end

function TestCalls.test_linear_algebra()
  local a = tide.array{{2.0, 0.0}, {0.0, 4.0}}
  unit.assertEquals(values(a:solve(tide.array{2.0, 4.0})), {1, 1})
  unit.assertEquals(values(a:matmul(tide.array{1.0, 2.0})), {2, 8})
  local _, s, _ = a:svd()
  unit.assertEquals(values(s), {4, 2})
  unit.assertEquals(values(a:cholesky()), {{math.sqrt(2), 0}, {0, 2}})
  local c = tide.zeros({2, 2})
  unit.assertEquals(values(tide.gemm(c, 1, a, a)), {{4, 0}, {0, 16}})
  refused("expected one of \"lower\", \"upper\", \"unit\" as 'how'", a.cholesky, a, "low")
  refused("singular", tide.solve, tide.zeros({2, 2}), tide.zeros(2))
end

function TestCalls.test_making()
  unit.assertEquals(values(tide.arange(3)), {0, 1, 2})
  unit.assertEquals(values(tide.arange(1, 2, 0.5)), {1, 1.5})
  unit.assertEquals(values(tide.eye(2)), {{1, 0}, {0, 1}})
  unit.assertEquals(values(tide.linspace(0, 1, 3)), {0, 0.5, 1})
  unit.assertEquals(values(tide.full({2}, 7, "i8")), {7, 7})
  tide.seed(1)
  local a = tide.random_uniform({3}, "f32")
  tide.seed(1)
  unit.assertEquals(values(tide.random_uniform({3}, "f32")), values(a))
  local p = tide.random_permutation(5):sort()
  unit.assertEquals(values(p), {1, 2, 3, 4, 5})
end

function TestCalls.test_expressions()
  local a = tide.array{1.0, 2.0}
  local s, p = tide.map("(x, y) -> (x + y, x * y)", a, 3)
  unit.assertEquals({values(s), values(p)}, {{4, 5}, {3, 6}})
  local e = tide.expr("(x) -> x * x")
  unit.assertEquals(values(e(a)), {1, 4})
  tide.map_into(a, "(x) -> x + 1", a)
  unit.assertEquals(values(a), {2, 3})
  refused("column", tide.map, "(x) -> x +", a)
  refused("column", tide.expr, "nonsense")
  refused("operand 1 is a string", tide.map, "(x) -> x", "y")
  refused("argument", tide.map, "(x, y) -> x + y", a)
  refused("more than 32 operands", tide.map, "(x) -> x", (table.unpack or unpack)({1, 2, 3, 4, 5, 6, 7, 8,
    9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33}))
end

function TestCalls.test_help_names_every_function()
  local all = tide.help()
  for name in ("sum add matmul sort topk zeros svd nonzero cumsum roll"):gmatch("%a+") do
    unit.assertStrContains(all, name)
    unit.assertStrContains(tide.help(name), "tide." .. name .. "(")
  end
  unit.assertStrContains(tide.help("stream:use"), "stream:use()\n")
  unit.assertStrContains(tide.help("map"), "tide.map(text, ...)")
  refused("there is no function 'summ'", tide.help, "summ")
end

TestFuse = {}

function TestFuse.test_a_function_becomes_one_expression()
  local runs = 0
  local f = tide.fuse(function(x, y)
    runs = runs + 1
    return (x * x + y * y):sqrt()
  end)
  local a, b = tide.array{3.0}, tide.array{4.0}
  unit.assertEquals(values(f(a, b)), {5})
  unit.assertEquals(values(f(b, a)), {5})
  unit.assertEquals(runs, 1)
  unit.assertEquals(values(f(tide.array({3.0}, "f32"), b)), {5})
  unit.assertEquals(runs, 2)
  unit.assertEquals(values(f(3.0, b)), {5})
  unit.assertEquals(runs, 3)
end

function TestFuse.test_folds_scans_and_several_results()
  local a = tide.array{{1.0, 2.0}, {3.0, 5.0}}
  local softmax = tide.fuse(function(x)
    local e = (x - x:max{axis = -1, keepdims = true}):exp()
    return e / e:sum{axis = -1, keepdims = true}
  end)
  local s = softmax(a):sum(2)
  unit.assertTrue(math.abs(s[1] - 1) < 1e-12)
  local two = tide.fuse(function(x) return x:sum(1), x:cumsum{axis = 2}, x:argmax(2) end)
  local t, c, m = two(a)
  unit.assertEquals({values(t), values(c), values(m)}, {{4, 7}, {{1, 3}, {3, 8}}, {2, 2}})
  local g = tide.fuse(function(x) return x:cast("i32") + x:ndim_check() end)
  refused("cannot use 'ndim_check' of an array", g, a)
end

function TestFuse.test_numbers_are_as_they_were_written()
  for _, v in ipairs{0.1, -3, 1e300, 2, 1 / 0, -1 / 0, 1e-7, 12345678901} do
    local f = tide.fuse(function(x) return x * 0 + v end)
    local got = f(tide.ones(1))[1]
    unit.assertEquals(got, v + 0.0)
  end
  local nan = tide.fuse(function(x) return x + 0 / 0 end)(tide.ones(1))[1]
  unit.assertTrue(nan ~= nan)
end

function TestFuse.test_what_cannot_be_fused()
  local a = tide.array{1.0, 2.0}
  refused("cannot branch", tide.fuse(function(x) if x < x then return x end return -x end), a)
  refused("cannot branch", tide.fuse(function(x) return x == x * 1 end), a)
  refused("no operand of the fused function", tide.fuse(function(x) return x + a end), a)
  refused("returned nothing", tide.fuse(function() end), a)
  refused("cannot write", tide.fuse(function(x) x[1] = 2 return x end), a)
  refused("expected a function, found number", tide.fuse, 1)
  local kept
  tide.fuse(function(x) kept = x return x end)(a)
  refused("two calls of tide.fuse meet", tide.fuse(function(x) return x + kept end), a)
end

TestPlaces = {}

function TestPlaces.test_a_coroutine_has_a_stream_of_its_own()
  local rt = tide.open{device = "host"}
  local s, t = tide.stream(), tide.stream()
  local seen = {}
  local function worker(stream, i)
    return coroutine.wrap(function()
      if stream then stream:use() end
      local a = tide.ones({1000}, "i64")
      for _ = 1, 5 do
        a = a + i
        coroutine.yield()
      end
      -- what was current is what this one chose, whoever ran meanwhile
      local now = tide.use_stream()
      seen[i] = now == nil and "default" or now == s and "s" or now == t and "t" or "another"
      return a:sum():item()
    end)
  end
  local workers = {worker(s, 1), worker(t, 2), worker(nil, 3)}
  for _ = 1, 5 do for i = 1, 3 do workers[i]() end end
  unit.assertEquals({workers[1](), workers[2](), workers[3]()}, {6000, 11000, 16000})
  unit.assertEquals(seen, {"s", "t", "default"})
  s:use() -- of the main program: that of coroutines that have chosen nothing
  unit.assertTrue(coroutine.wrap(function() return tide.use_stream() end)() == s)
  unit.assertTrue(tide.use_stream() == s)
  rt:close()
end

function TestPlaces.test_streams_end()
  local rt = tide.open{device = "host"}
  local s = tide.stream()
  s:use()
  local a = tide.ones(10) * 3
  s:synchronize()
  tide.synchronize(s)
  s:release()
  s:release()
  unit.assertEquals(a:sum():item(), 30) -- on the default stream again
  unit.assertNil(s.native and tide.stream():native())
  refused("stream:use: the stream was released", s.use, s)
  refused("synchronize: the stream was released", tide.synchronize, s)
  refused("stream:use: expected a stream as 'stream', found nothing", s.use)
  refused("use_stream: expected a stream as 'stream', found number", tide.use_stream, 1)
  refused("stream:release: expected a stream as 'stream', found userdata", s.release, a)
  refused("expected a light userdata as 'pointer', found string", tide.wrap_stream, "x")
  refused("native", tide.wrap_stream, tide.newaxis)
  refused("stream takes 0 arguments", tide.stream, 1)
  for _ = 1, 2000 do tide.stream():use() end -- dropped: more than the runtime has at once
  tide.use_stream()
  local t = tide.stream()
  rt:close()
  refused("closed", t.synchronize, t)
  t:release()
end

function TestPlaces.test_devices()
  local rt = tide.open{device = "host"}
  unit.assertEquals({tide.device_count(), tide.device()}, {2, 0})
  unit.assertEquals(tide.device(1), 1)
  local a = tide.ones(3)
  unit.assertEquals({a.device, tide.device()}, {1, 1})
  local s = tide.stream()
  tide.device(0)
  local b = tide.ones(3)
  unit.assertEquals(b.device, 0)
  tide.use_stream(s)
  unit.assertEquals({tide.device(), tide.ones(1).device}, {1, 1})
  tide.use_stream()
  tide.device(0)
  unit.assertEquals(coroutine.wrap(function()
    tide.device(1)
    return tide.ones(1).device
  end)(), 1)
  unit.assertEquals({tide.device(), tide.ones(1).device}, {0, 0})
  unit.assertTrue(tide.device_reaches(0, 1))
  tide.device_synchronize()
  unit.assertStrContains(tide.device_status(), "host:0")
  local stats = tide.device_stats()
  unit.assertTrue(stats.total > 0 and stats.device.live > 0 and stats.pinned.live == 0)
  tide.set_limit(64 * 1024 * 1024)
  unit.assertEquals(tide.device_stats().limit, 64 * 1024 * 1024)
  tide.set_limit()
  tide.set_soft_limit(1024 * 1024)
  unit.assertEquals(tide.stats().soft_limit, 1024 * 1024)
  tide.set_soft_limit()
  refused("device", tide.device, 7)
  refused("device: expected a device's number as 'number', found number", tide.device, -1)
  refused("expected an integer as 'number', found string", tide.device, "1")
  refused("expected a device's number as 'device'", tide.device_reaches, -1, 0)
  refused("expected an integer as 'owner', found nothing", tide.device_reaches, 0)
  refused("device", tide.device_reaches, 0, 9)
  refused("expected a number of bytes as 'bytes'", tide.set_limit, -1)
  refused("expected an integer as 'bytes', found string", tide.set_soft_limit, "x")
  unit.assertEquals(tide.device(), 0)
  rt:close()
end

function TestPlaces.test_pools()
  local rt = tide.open{device = "host"}
  local p = tide.pool{kind = "tide", deterministic = true}
  unit.assertEquals(p:get("deterministic"), 1)
  p:set("reuse_wait", 0)
  unit.assertEquals(p:get("reuse_wait"), 0)
  p:use()
  local a = tide.ones({1024}, "f64")
  unit.assertEquals(p:stats().live, 8192)
  unit.assertTrue(tide.use_pool() == p)
  unit.assertNil(tide.use_pool(p))
  unit.assertEquals(coroutine.wrap(function() -- what the main program has
    local b = tide.ones({1024}, "f64")
    return p:stats().live + 0 * b.size
  end)(), 16384)
  tide.use_pool()
  unit.assertStrContains(p:status(), "live")
  unit.assertTrue(tide.default_pool():stats().backed >= 0)
  tide.default_pool():release()
  unit.assertEquals(tide.ones(2):sum():item(), 2)
  p:release()
  p:release()
  unit.assertEquals(a:sum():item(), 1024)
  refused("pool:stats: the pool was released", p.stats, p)
  refused("pool: there is no setting 'sort'", tide.pool, {sort = 1})
  refused("pool: expected a text as 'kind', found number", tide.pool, {kind = 1})
  refused("pool: expected true or false as 'deterministic', found string", tide.pool,
    {deterministic = "x"})
  refused("pool: expected a table of settings, found number", tide.pool, 1)
  refused("heap", tide.pool, {kind = "heap"})
  local q = tide.pool()
  refused("expected the name of an attribute as 'attribute', found nothing", q.get, q)
  refused("expected one of \"release_threshold\"", q.get, q, "size")
  refused("MAX_SPLIT", function() q:set("max_split", 1) return q:get("max_split") end)
  refused("expected a number that is not negative as 'value'", q.set, q, "reuse_wait", -1)
  refused("expected an integer as 'value', found nothing", q.set, q, "reuse_wait")
  refused("use_pool: expected a pool as 'pool', found string", tide.use_pool, "p")
  refused("pool:use: expected a pool as 'pool', found userdata", q.use, tide.stream())
  rt:close()
end

function TestPlaces.test_kinds_of_memory()
  for _, kind in ipairs{"device", "pinned", "unified"} do
    local a = tide.empty_in(kind, {2, 3}, "f32")
    unit.assertEquals({a.memory, a.shape, a.dtype}, {kind, {2, 3}, "f32"})
    unit.assertEquals(tide.ones(3):to_memory(kind).memory, kind)
  end
  local rt = tide.open{device = "host", default_memory = "pinned"}
  unit.assertEquals(tide.ones(1).memory, "pinned")
  rt:close()
  local u = tide.to_memory(tide.arange(8), "unified")
  unit.assertEquals(values(u:prefetch(2, 3, "host"):advise(1, 8, "read_mostly")), values(tide.arange(8)))
  refused("expected one of \"device\", \"pinned\", \"unified\" as 'memory'", tide.empty_in, "host", 1)
  refused("'first' is 0", u.prefetch, u, 0, 1)
  refused("", u.prefetch, u, 8, 2)
  refused("", tide.ones(3).prefetch, tide.ones(3), 1, 1)
  local a = tide.zeros(2, "u8")
  unit.assertEquals(values(a:memset(7)), {7, 7})
  unit.assertEquals(values(a:set_ordered(false):set_ordered(true)), {7, 7})
  refused("expected 0 to 255 as 'value'", a.memset, a, 256)
end

function TestPlaces.test_printing_with_options()
  local a = tide.array{1 / 3, 2}
  unit.assertEquals(a:format(), tostring(a))
  unit.assertEquals(a:format{precision = 2}, "[0.33 2.  ]")
  unit.assertEquals(a:format{precision = 2, float_mode = "fixed"}, "[0.33 2.00]")
  unit.assertEquals(tide.arange(9):format{threshold = 4, edge_items = 1}, "[0 ... 8]")
  refused("format has no argument 'digits'", a.format, a, {digits = 2})
  refused("expected one of \"maxprec\"", a.format, a, {float_mode = "short"})
  refused("precision", a.format, a, {precision = -7})
  refused("expected a smaller integer as 'precision'", a.format, a, {precision = 2 ^ 40})
end

TestHost = {}

function TestHost.test_views_are_the_arrays_elements()
  for _, kind in ipairs{"pinned", "unified"} do
    local a = tide.arange(6):reshape{2, 3}:to_memory(kind)
    local v = a:view()
    unit.assertEquals({v(2, 3), v[{1, 2}], #v, v.ndim, v.dtype}, {5, 1, 2, 2, "i64"})
    unit.assertEquals({v.shape, v.strides, v(-1, -3)}, {{2, 3}, {3, 1}, 3})
    unit.assertEquals(type(v.pointer), "userdata")
    v[{2, 3}] = 50
    v:release()
    v:release()
    unit.assertEquals(values(a), {{0, 1, 2}, {3, 4, 50}})
    local t = a:transpose():view("read")
    unit.assertEquals({t.shape, t.strides, t(3, 2)}, {{3, 2}, {1, 3}, 50})
  end
end

function TestHost.test_views_of_all_types()
  for dtype, list in pairs{bool = {true, false}, i8 = {-128, 127}, i16 = {-5, 3}, i32 = {-7, 8},
    i64 = {-9, 2 ^ 40}, u8 = {0, 255}, u16 = {1, 65535}, u32 = {2, 4294967295}, u64 = {3, 2 ^ 50},
    f16 = {-0.5, 65504}, bf16 = {1.5, -2}, f32 = {0.25, -1}, f64 = {1e300, 0.1},
    c64 = {{1, -2}, {0, 0.5}}, c128 = {{1, 2}, {3, 4}}} do
    local a = tide.empty_in("pinned", 2, dtype)
    local v = a:view()
    for i, x in ipairs(list) do v[i] = x end
    unit.assertEquals({v[1], v[2], v[3]}, list, dtype)
    v:release()
    unit.assertEquals(values(a), list, dtype)
  end
end

-- Floats of 16 bits are rounded as the library rounds them.
function TestHost.test_views_round_as_casts_do()
  local list = {0, 1, -1, 1 / 3, 65504, 65519.9, 65520, 1e-8, 3e-8, 6e-8, 6.1e-5, 2049, 2051, 1e38, 3.4e38,
    3.5e38, 1e-40, 9.2e-41, 1e300, 1 / 0, -1 / 0, 5e-324}
  for _, dtype in ipairs{"f16", "bf16"} do
    local v = tide.empty_in("pinned", #list, dtype):view()
    for i, x in ipairs(list) do v[i] = x end
    local cast = tide.array(list, "f64"):cast(dtype):cast("f64")
    for i, x in ipairs(list) do unit.assertEquals(v[i], cast[i], dtype .. " of " .. x) end
    v[1] = 0 / 0
    unit.assertTrue(v[1] ~= v[1])
  end
end

function TestHost.test_what_a_view_refuses()
  local a = tide.to_memory(tide.array({1, 2}, "u8"), "pinned")
  local v = a:view()
  refused("3 is beyond axis 1, which has 2", function() v[3] = 1 end)
  refused("0 is beyond axis 1", function() return v[0] end)
  refused("1 indices of an array with 2 axes", function() return a:reshape{1, 2}:view()[1] end)
  refused("2 indices of an array with 1 axes", function() return v(1, 2) end)
  refused("expected an integer for axis 1, found boolean", function() return v[true] end)
  refused("no method or property 'size'", function() return v.size end)
  refused("is no number of u8", function() v[1] = 256 end)
  refused("is no number of u8", function() v[1] = 0.5 end)
  refused("expected a number for u8, found string", function() v[1] = "1" end)
  refused("expected a number for u8, found boolean", function() v[1] = true end)
  refused("expected a boolean for bool, found number",
    function() tide.empty_in("pinned", 1, "bool"):view()[1] = 1 end)
  refused("a part of a complex number is a string",
    function() tide.empty_in("pinned", 1, "c64"):view()[1] = {1, "x"} end)
  refused("opened to be read", function() a:view("read")[1] = 1 end)
  refused("view: expected one of \"read\", \"write\" as 'mode', found both", a.view, a, "both")
  refused("view: expected an array as 'a', found number", tide.view, 1)
  refused("memory", tide.ones(3).view, tide.ones(3))
  refused("stretched", function() return a:reshape{1, 2}:broadcast_to{3, 2}:view() end)
  refused("without axes has no length", function() return #tide.to_memory(tide.array(1), "pinned"):view() end)
  a:free()
  refused("the array was freed", function() return v[1] end)
  refused("the array was freed", function() v[1] = 2 end)
  refused("the array was freed", function() return v.pointer end)
  v:release()
  refused("the view was released", function() return v[1] end)
  refused("freed", a.view, a)
  refused("view:release: expected a view as 'view', found userdata", v.release, a)
  local rt = tide.open{device = "host"}
  local w = tide.to_memory(tide.ones(2), "pinned"):view()
  rt:close()
  refused("the array was freed", function() return w[1] end)
  w:release()
end

function TestHost.test_a_pointer_keeps_the_view()
  local function pointer()
    return tide.to_memory(tide.arange(100), "pinned"):view():ffi()
  end
  if not jit then
    refused("only LuaJIT has pointers", pointer)
    return
  end
  local p = pointer()
  for _ = 1, 3 do
    collectgarbage()
    tide.full({100}, 7):to_memory("pinned")
  end
  for i = 0, 99 do unit.assertEquals(tonumber(p[i]), i) end
  local v = tide.to_memory(tide.array{0.5}, "pinned"):view()
  unit.assertEquals(require "ffi".cast("double *", v.pointer)[0], 0.5)
  refused("view:ffi: expected a view as 'view', found nothing", v.ffi)
end

function TestHost.test_batches_of_tables_arrays_and_strings()
  local x = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}}
  local y = tide.array({10, 20, 30, 40, 50}, "f32")
  local z = {shape = {5}, dtype = "u8", bytes = "\1\2\3\4\5"}
  local seen = {}
  local it = tide.batches{x, y, z, batch = 2}
  unit.assertEquals(it:count(), 3)
  for a, b, c in it do
    unit.assertEquals({a.dtype, b.dtype, c.dtype}, {"i64", "f32", "u8"})
    seen[#seen + 1] = {values(a), values(b), values(c)}
  end
  unit.assertEquals(seen, {{{{1, 2}, {3, 4}}, {10, 20}, {1, 2}}, {{{5, 6}, {7, 8}}, {30, 40}, {3, 4}},
    {{{9, 10}}, {50}, {5}}})
  unit.assertNil(it())
  unit.assertEquals(values((it:rewind()())), {{1, 2}, {3, 4}})
  seen = {}
  for a in tide.batches{x, batch = 2, order = {5, 1, 1, 2}, drop_last = true} do
    seen[#seen + 1] = values(a)
  end
  unit.assertEquals(seen, {{{9, 10}, {1, 2}}, {{1, 2}, {3, 4}}})
  local n = 0
  for a in tide.batches{y:cast("f64"), batch = 3, order = tide.array{2, 1}, narrow = true} do
    unit.assertEquals({a.dtype, values(a)}, {"f32", {20, 10}})
    n = n + 1
  end
  unit.assertEquals(n, 1)
end

function TestHost.test_a_batch_ends_with_the_next_one()
  local it = tide.batches{{1, 2, 3, 4}, batch = 2}
  local first = it()
  local copy, row = first:copy(), first({1, 1})
  local second = it()
  refused("freed", function() return first + 1 end)
  unit.assertEquals({values(copy), values(row), values(second)}, {{1, 2}, {1}, {3, 4}})
  it:release()
  it:release()
  refused("freed", function() return second + 1 end)
  refused("the iterator was released", it)
  refused("iterator:count: the iterator was released", it.count, it)
end

function TestHost.test_batches_that_a_function_fills()
  local asked = {}
  local it = tide.batches{{shape = {5, 2}, dtype = "f32"}, {1, 2, 3, 4, 5}, {shape = {5}, dtype = "u8"},
    batch = 2, order = {1, 3, 5}, fill = function(samples)
      local rows, bytes = {}, {}
      for i, s in ipairs(samples) do
        rows[2 * i - 1], rows[2 * i], bytes[i] = s, s / 2, string.char(s)
        asked[#asked + 1] = s
      end
      tide.ones(2):sum():item() -- it may call the library
      return rows, table.concat(bytes)
    end}
  local seen = {}
  for a, b, c in it do seen[#seen + 1] = {values(a), values(b), values(c)} end
  unit.assertEquals(seen, {{{{1, 0.5}, {3, 1.5}}, {1, 3}, {1, 3}}, {{{5, 2.5}}, {5}, {5}}})
  unit.assertEquals(asked, {1, 3, 5})
  local left = 3
  it = tide.batches{{shape = {9}, dtype = "i32"}, fill = function(samples)
    left = left - 1
    if left < 0 then return nil end
    return {samples[1]}
  end}
  local n = 0
  for a in it do n = n + a:item() end
  unit.assertEquals(n, 6)
end

function TestHost.test_what_fill_may_not_do()
  local function first(fill, dtype)
    local it
    it = tide.batches{{shape = {4}, dtype = dtype or "u8"}, batch = 2, fill = function(...) return fill(it, ...) end}
    return it()
  end
  refused("my own", first, function() error("my own") end)
  refused("fill gave 1 bytes for array 1, and 2 are wanted", first, function() return "x" end)
  refused("no table of 2 values for array 1", first, function() return {1} end)
  refused("is no number of u8", first, function() return {1, 300} end)
  refused("inside 'fill' of the same iterator", first, function(it) return it() end)
  refused("inside 'fill' of the same iterator", first, function(it) it:release() end)
  refused("inside 'fill' of the same iterator", first, function(it) it:rewind() end)
  refused("yield", first, function() coroutine.yield() end)
  local well, thrown = pcall(first, function() error({code = 7}) end)
  unit.assertEquals({well, thrown.code}, {false, 7})
  local fails = true
  local it = tide.batches{{shape = {4}, dtype = "u8"}, batch = 2, fill = function(samples)
    if fails then error("not yet") end
    return {samples[1], samples[2]}
  end}
  for _ = 1, 100 do refused("not yet", it) end
  fails = false
  unit.assertEquals(values((it())), {1, 2})
end

function TestHost.test_settings_of_batches_are_checked()
  local data = {1, 2, 3}
  refused("batches: expected a table of settings, found", tide.batches)
  refused("expected 1 to 64 arrays", tide.batches, {batch = 1})
  refused("there is no setting 'size'", tide.batches, {data, size = 1})
  refused("expected an integer as 'batch', found string", tide.batches, {data, batch = "2"})
  refused("batch", tide.batches, {data, batch = 0})
  refused("expected true or false as 'narrow', found number", tide.batches, {data, narrow = 1})
  refused("expected a function as 'fill', found table", tide.batches, {data, fill = {}})
  refused("expected a table of integers as 'order'", tide.batches, {data, order = {0.5}})
  refused("expected a table of integers as 'order', found string", tide.batches, {data, order = "x"})
  refused("'order' counts samples from 1", tide.batches, {data, order = {0}})
  refused("an array of i64 with one axis", tide.batches, {data, order = tide.ones(2)})
  refused("", tide.batches, {data, order = {4}})
  refused("expected an array or a table as array 2, found number", tide.batches, {data, 1})
  refused("", tide.batches, {data, {1, 2}})
  refused("", tide.batches, {{shape = {2}, dtype = "u8"}})
  refused("wants 2", tide.batches, {{shape = {2}, dtype = "u8", bytes = "x"}})
  refused("expected a string as 'bytes', found number", tide.batches, {{shape = {2}, bytes = 1}})
  refused("freed", function()
    local a = tide.ones(2)
    a:free()
    tide.batches{a}
  end)
  local it = tide.batches{data}
  refused("iterator:release: expected an iterator as 'iterator', found userdata", it.release, tide.ones(1))
  local rt = tide.open{device = "host"}
  local of_closed = tide.batches{data}
  of_closed()
  rt:close()
  refused("closed", of_closed)
  refused("closed", of_closed.count, of_closed)
end

function TestHost.test_adapting()
  local meta = {__index = function() return "of the metatable" end}
  local shared = tide.ones(2, "f64")
  local t = setmetatable({a = shared, b = {shared, tide.array{1}, "text"}, n = 3}, meta)
  t.self, t.b.up = t, t
  local c = tide.adapt(t, {memory = "pinned", narrow = true})
  unit.assertTrue(c ~= t and c.self == c and c.b.up == c and c.b[1] == c.a)
  unit.assertEquals({c.a.memory, c.a.dtype, c.b[2].dtype, c.b[3], c.n, c.other},
    {"pinned", "f32", "i64", "text", 3, "of the metatable"})
  unit.assertTrue(t.a == shared and shared.memory == "device" and getmetatable(c) == meta)
  local d = tide.adapt(t, {device = 1})
  unit.assertEquals({d.a.device, tide.device(), shared.device}, {1, 0, 0})
  unit.assertEquals(tide.adapt({x = tide.array{{1, 2}}}, {memory = "host"}), {x = {{1, 2}}})
  unit.assertEquals(tide.adapt(tide.array{5}):item(), 5)
  unit.assertEquals(tide.adapt(7), 7)
  local chain = {tide.ones(1)}
  for _ = 1, 20000 do chain = {chain} end
  chain = tide.adapt(chain, {memory = "pinned"})
  for _ = 1, 20000 do chain = chain[1] end
  unit.assertEquals(chain[1].memory, "pinned")
  refused("there is no option 'kind'", tide.adapt, t, {kind = 1})
  refused("expected a string as 'memory', found number", tide.adapt, t, {memory = 1})
  refused("expected a table of options, found number", tide.adapt, t, 1)
  refused("expected one of \"device\"", tide.adapt, t, {memory = "disk"})
  refused("device", tide.adapt, t, {device = 9})
  shared:free()
  refused("freed", tide.adapt, t)
end

TestCallbacks = {}

-- What a program prints, run by this interpreter, with warnings and with the environment `before`.
local function output_of(program, before)
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

local function file_of(text)
  local name = os.tmpname() .. ".lua"
  local file = assert(io.open(name, "w"))
  file:write(text)
  file:close()
  return name
end

function TestCallbacks.test_deaths_are_heard_in_a_later_call()
  local rt = tide.open{device = "host"}
  local heard = {}
  local a = tide.ones(3)
  unit.assertTrue(a:on_death(function() heard[#heard + 1] = "first" end) == a)
  a:on_death(function()
    heard[#heard + 1] = tide.ones(2):sum():item() -- an ordinary call
  end)
  a:free()
  unit.assertEquals(heard, {})
  tide.synchronize()
  tide.stats()
  unit.assertEquals(heard, {"first", 2})
  heard = {}
  for i = 1, 100 do tide.ones(10):on_death(function() heard[i] = true end) end
  tide.collect()
  tide.stats()
  unit.assertEquals(#heard, 100)
  local last = 0
  local b = tide.ones(3):on_death(function() last = last + 1 end)
  rt:close()
  unit.assertEquals(last, 1)
  refused("closed", b.on_death, b, print)
  refused("on_death: expected a function as 'f', found number", a.on_death, a, 1)
  refused("on_death: expected a function as 'f', found nothing", a.on_death, a)
  refused("on_death: expected an array as 'a', found string", tide.on_death, "a", print)
  a = tide.ones(1)
  a:free()
  refused("freed", a.on_death, a, print)
end

function TestCallbacks.test_errors_of_deaths_are_warnings()
  local text = output_of([[
    tide.ones(1):on_death(function() error("of a death") end):free()
    tide.synchronize()
    print(tide.ones(2):sum():item())
    tide.ones(1):on_death(function() print("at the end", pcall(tide.ones, 1)) end)
    kept = tide.ones(1):on_death(function() error({}) end)]])
  unit.assertStrMatches(text, ".*[Ww]arning: tidepool: an error in on_death: .*of a death.*")
  unit.assertStrContains(text, "at the end\tfalse")
  unit.assertStrContains(text, "an error in on_death: no text")
end

function TestCallbacks.test_lines_of_the_log()
  local lines = {}
  local settings = {device = "host", log_level = 4, log = function(level, line)
    unit.assertTrue(level >= 1 and level <= 4)
    lines[#lines + 1] = line
    tide.ones(1)
  end}
  local rt = tide.open(settings)
  unit.assertIsFunction(settings.log)
  tide.ones(3):sum():item()
  tide.stats()
  unit.assertTrue(#lines > 0)
  rt:close()
  refused("open: expected a function as 'log', found string", tide.open, {log = "stderr"})
end

function TestCallbacks.test_caches_give_way()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local kept, calls = {}, {}
  local cache = tide.reclaimable{name = "rows", purge = function(device, wanted)
    calls[#calls + 1] = {device, wanted}
    local given = 0
    for i, a in pairs(kept) do
      given = given + 4 * a.size
      a:free()
      kept[i] = nil
    end
    return given
  end, bytes = function() return 12345 end}
  for i = 1, 200 do kept[i] = tide.zeros({512, 512}, "f32") end -- 1 MiB each: more than there is
  unit.assertTrue(#calls >= 10)
  unit.assertEquals(calls[1][1], 0)
  unit.assertTrue(calls[1][2] >= 1024 * 1024)
  calls = {}
  tide.reclaim("purge")
  unit.assertEquals(calls[1], {0, math.huge})
  unit.assertNil(next(kept))
  unit.assertStrContains(tide.status(), "rows")
  cache:release()
  cache:release()
  calls = {}
  tide.reclaim("purge")
  unit.assertEquals(calls, {})
  -- what drop lets go of is garbage, which is then collected
  kept.a = tide.zeros({1024, 1024}, "f32")
  local dropped = tide.reclaimable{name = "live", dear = true, drop = function() kept = {} end}
  local before = tide.stats().live
  tide.reclaim("drop")
  unit.assertTrue(tide.stats().live < before)
  rt:close()
  dropped:release()
  for _ = 1, 3 do -- more than once, in the middle of a coroutine, and never released
    local other = tide.open{device = "host", limit = "8MiB"}
    local turns = 0
    tide.reclaimable{name = "again", purge = function() turns = turns + 1 return tide.ones(1).size end}
    coroutine.wrap(function()
      local live = {}
      for i = 1, 7 do live[i] = tide.zeros({512, 512}, "f32") end
      refused("", tide.zeros, {1024, 1024}, "f32")
      coroutine.yield()
    end)()
    unit.assertTrue(turns > 0)
    other:close()
  end
end

function TestCallbacks.test_what_caches_refuse()
  local rt = tide.open{device = "host"}
  refused("reclaimable: expected a text as 'name', found nothing", tide.reclaimable, {purge = print})
  refused("expected a function as 'purge', found number", tide.reclaimable, {name = "x", purge = 1})
  refused("expected true or false as 'dear', found number", tide.reclaimable,
    {name = "x", purge = print, dear = 1})
  refused("purge", tide.reclaimable, {name = "x"})
  local c = tide.reclaimable{name = "x", drop = print}
  refused("cache:release: expected a cache as 'cache', found nothing", c.release)
  c:release()
  local lines = {}
  local noisy = tide.open{device = "host", log_level = 2, log = function(_, line) lines[#lines + 1] = line end}
  tide.reclaimable{name = "fails", purge = function() error("my own") end,
    bytes = function() return tide.ones(1):sum():item() end}
  tide.reclaim("purge")
  tide.stats()
  unit.assertStrContains(table.concat(lines, "\n"), "purge of fails failed")
  unit.assertIsString(tide.status()) -- bytes fails
  noisy:close()
  rt:close()
  local text = output_of([[
    tide.reclaimable{name = "x", purge = function() error("of a purge") end}
    tide.reclaimable{name = "y", purge = function() return "many" end}
    tide.reclaimable{name = "z", purge = function() coroutine.yield() end,
      bytes = function() return tide.ones(1).size end}
    tide.reclaim("purge") tide.status() tide.status()]])
  unit.assertStrMatches(text, ".*an error in purge: .*of a purge.*")
  unit.assertStrMatches(text, ".*an error in purge: .*purge gave no number of bytes, but a string.*")
  unit.assertStrMatches(text, ".*an error in purge: .*yield.*")
  unit.assertStrMatches(text, ".*an error in bytes: .*bytes may not call the library.*")
end

local count = 0
local function policy(settings)
  count = count + 1
  settings.name = settings.name or "suite-" .. count
  return tide.policy(settings)
end

local function fill_memory(turns)
  for _ = 1, turns or 200 do tide.zeros({512, 512}, "f32") end
  collectgarbage("count")
end

function TestCallbacks.test_a_policy_decides()
  local seen, told = nil, nil
  local name = policy{summary = "at a share", unguarded = true,
    params = {{name = "share", usual = 0.5, low = 0.1, high = 0.9, kind = "number", meaning = "of it"},
      {name = "room", usual = 4096, high = 1e9, kind = "bytes"}},
    decide = function(now, state)
      seen = now
      state.asked = (state.asked or 0) + 1
      local most = now.params.share * now.limit
      if now.used + now.request < most then return nil, most end
      return "full", nil, "half is used"
    end,
    observe = function(before, after, c, state)
      told = {before.used, after.used, c.level, c.early, c.pause_ns > 0, state.asked > 0}
    end}
  local rt = tide.open{device = "host", limit = "16MiB", policy = name .. "(share=0.25)"}
  fill_memory()
  local s = tide.stats()
  unit.assertTrue(s.early_collections > 10)
  unit.assertTrue(s.peak_live <= 5 * 1024 * 1024)
  unit.assertEquals(s.climbs, 0)
  unit.assertEquals(seen.params, {share = 0.25, room = 4096})
  unit.assertEquals({seen.level, seen.limit, type(seen.now_ns)}, {"full", 16 * 1024 * 1024, "number"})
  unit.assertTrue(told[1] > told[2])
  unit.assertEquals({told[3], told[4], told[5], told[6]}, {"full", true, true, true})
  rt:close()
  rt = tide.open{device = "host", limit = "16MiB", policy = policy{decide = function() end}}
  fill_memory()
  unit.assertEquals(tide.stats().early_collections, 0)
  rt:close()
  rt = tide.open{device = "host", limit = "16MiB",
    policy = policy{decide = function(now) return now.used > 2 ^ 22, math.huge end}}
  fill_memory()
  rt:close()
end

-- What is wrong means: do not collect; the log and a warning have the first of it.
function TestCallbacks.test_a_policy_that_fails_is_told_once()
  for pattern, decide in pairs{
    ["of a policy"] = function() error("of a policy") end,
    ["expected true, false, \"minor\""] = function() return "sometimes" end,
    ["expected a number of bytes"] = function() return nil, "soon" end,
    ["it wants to be asked again at 1"] = function() return nil, 1 end,
    ["expected a text as the reason"] = function() return true, nil, {} end,
    ["a policy may not call the library"] = function() return tide.ones(3):sum():item() > 1 end,
    ["attempt to yield"] = function() return coroutine.yield() end,
    ["an error that is no text"] = function() error({}) end} do
    local lines = {}
    local rt = tide.open{device = "host", limit = "16MiB", policy = policy{decide = decide}, log_level = 2,
      log = function(_, line)
        if line:find("makes no sense") or line:find("could not decide") then lines[#lines + 1] = line end
      end}
    fill_memory(50)
    unit.assertEquals(tide.stats().early_collections, 0)
    unit.assertEquals(#lines, 1)
    unit.assertStrContains(lines[1], "it could not decide")
    rt:close()
    unit.assertEquals(values(tide.ones(1)), {1})
  end
  local text = output_of([[
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "p",
      decide = function() error("of decide") end}}
    for _ = 1, 50 do tide.zeros({512, 512}, "f32") end
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "q",
      decide = function() return true end, observe = function() error("of observe") end}}
    for _ = 1, 50 do tide.zeros({512, 512}, "f32") end]])
  local _, n = text:gsub("an error in p: [^\n]*of decide", "")
  unit.assertEquals(n, 1)
  _, n = text:gsub("an error in q: [^\n]*of observe", "")
  unit.assertEquals(n, 1)
end

-- Finalizers that fail, in the middle of what the library calls: no error passes through it. Lua's
-- collector runs only where somebody calls it: elsewhere a finalizer's error is the program's.
function TestCallbacks.test_failing_finalizers_inside_of_callbacks()
  local text = output_of([[
    collectgarbage("stop")
    local function mortal()
      local body = function() error("a finalizer's own") end
      if newproxy then
        getmetatable(newproxy(true)).__gc = body
      else
        setmetatable({}, {__gc = body})
      end
    end
    local asked, kept, n = 0, {}, 0
    tide.open{device = "host", limit = "8MiB", policy = tide.policy{name = "p", decide = function(now)
      mortal()
      asked = asked + 1
      return now.used > now.limit / 2
    end}}
    tide.reclaimable{name = "mortal", purge = function()
      mortal()
      kept = {}
      collectgarbage()
      return 1
    end}
    for i = 1, 100 do
      mortal()
      pcall(function()
        local a = tide.zeros({512, 512}, "f32")
        kept[i] = a
      end)
    end
    local it = tide.batches{{shape = {50}, dtype = "u8"}, fill = function(samples)
      asked = asked + 1
      if asked % 2 == 0 then mortal() end
      collectgarbage()
      return {samples[1]}
    end}
    for _ = 1, 500 do
      local fine, a = pcall(it)
      if fine and not a then break end
      if fine then n = n + 1 end
    end
    kept = {}
    print(asked > 0 and "asked", n > 0 and "filled", tide.ones(2):sum():item() == 2 and "fine")]])
  unit.assertStrContains(text, "asked\tfilled\tfine")
end

function TestCallbacks.test_a_policys_settings_are_checked()
  local function decide() end
  refused("policy: expected a table, found", tide.policy)
  refused("policy: there is no function 'decide'", tide.policy, {name = "x"})
  refused("policy: expected a function as 'decide', found string", tide.policy, {name = "x", decide = "y"})
  refused("policy: expected a function as 'observe', found boolean", tide.policy,
    {name = "x", decide = decide, observe = true})
  refused("name", tide.policy, {decide = decide})
  refused("name", tide.policy, {name = "a b", decide = decide})
  refused("policy: expected a text as 'name', found table", tide.policy, {name = {}, decide = decide})
  refused("policy: there is no field 'level'", tide.policy, {name = "x", decide = decide, level = 1})
  refused("already", tide.policy, {name = "reserve", decide = decide})
  refused("already", function()
    policy{name = "suite-twice", decide = decide}
    policy{name = "suite-twice", decide = decide}
  end)
  refused("policy: expected a table as 'params', found number", tide.policy,
    {name = "x", decide = decide, params = 1})
  refused("policy: expected a table as a parameter, found string", tide.policy,
    {name = "x", decide = decide, params = {"share"}})
  refused("policy: expected a number as a parameter's 'usual', found string", tide.policy,
    {name = "x", decide = decide, params = {{name = "share", usual = "half"}}})
  refused("there is no kind of parameters 'text'", tide.policy,
    {name = "x", decide = decide, params = {{name = "share", kind = "text"}}})
  refused("share", tide.policy, {name = "x", decide = decide, params = {{name = "share", usual = 2}}})
  local many = {}
  for i = 1, 13 do many[i] = {name = "p" .. i} end
  refused("more than 12 parameters", tide.policy, {name = "x", decide = decide, params = many})
end

local half = [[
  local asked = 0
  return {name = "half", params = {{name = "share", usual = 0.5}}, decide = function(now, state)
    asked = asked + 1
    if now.used + now.request < now.params.share * now.limit then return end
    return true, nil, "asked " .. asked
  end}]]

function TestCallbacks.test_a_policy_of_a_file()
  local path = file_of(half)
  for _, share in ipairs{"", "(share=0.25)"} do
    local rt = tide.open{device = "host", limit = "16MiB", policy = path .. share}
    fill_memory()
    local s = tide.stats()
    unit.assertTrue(s.early_collections > 10)
    unit.assertTrue(s.peak_live <= (share == "" and 9 or 5) * 1024 * 1024)
    rt:close()
  end
  local text = output_of([[
    tide.open{device = "host", limit = "16MiB"}
    for _ = 1, 200 do tide.zeros({512, 512}, "f32") end
    print("early", tide.stats().early_collections > 10 and tide.stats().peak_live <= 5 * 2^20)]],
    "TIDE_POLICY='" .. path .. "(share=0.25)'")
  unit.assertStrContains(text, "early\ttrue")
  os.remove(path)
  for pattern, program in pairs{["expected the table of a policy as its result, found nil"] = "",
    ["there is no function 'decide'"] = "return {}", ["near"] = "return {", ["of the file"] = "error('of the file')",
    ["a policy may not call the library"] = "require 'tidepool'"} do
    local wrong = file_of(program)
    refused(pattern, tide.open, {device = "host", policy = wrong})
    text = output_of("print(tide.ones(3):sum():item())", "TIDE_POLICY=" .. wrong)
    unit.assertStrMatches(text, ".*tidepool: TIDE_POLICY=.*: the default stays\n.*3.*")
    os.remove(wrong)
  end
  refused("cannot open", tide.open, {device = "host", policy = "./no_such_policy.lua"})
  refused("", tide.open, {device = "host", policy = "no_such_policy.lua"})
  refused("", tide.open, {device = "host", policy = "./no_such_policy.so"})
  local bad = file_of("return {decide = function() error('of a file') end}")
  text = output_of([[for _ = 1, 2 do
      tide.open{device = "host", limit = "8MiB"}
      for _ = 1, 50 do tide.zeros({512, 512}, "f32") end
    end]], "TIDE_POLICY=" .. bad)
  local _, n = text:gsub("an error in [^\n]*of a file", "")
  unit.assertEquals(n, 1)
  os.remove(bad)
end

TestLives = {}

function TestLives.test_freed_arrays_say_so()
  local a = tide.ones(3)
  a:free()
  a:free()
  refused("freed", function() return a + 1 end)
  refused("freed", function() return a.shape end)
  refused("freed", a.sum, a)
  refused("freed", function() a[1] = 2 end)
  unit.assertTrue(a:is_freed())
  unit.assertStrContains(tostring(a), "freed")
end

function TestLives.test_a_closed_runtime_says_so()
  local rt = tide.open{device = "host"}
  local a, e = tide.ones(3), tide.expr("(x) -> x")
  rt:close()
  rt:close()
  refused("runtime:use: the runtime was closed", rt.use, rt)
  refused("runtime:use: expected a runtime as 'runtime', found nothing", rt.use)
  refused("runtime:close: expected a runtime as 'runtime', found number", rt.close, 1)
  refused("closed", function() return a + 1 end)
  refused("closed", function() return a:totable() end)
  refused("closed", function() return a[1] end)
  refused("", e, tide.ones(3))
  unit.assertEquals(values(tide.ones(1)), {1}) -- another one opens
end

function TestLives.test_settings_are_checked()
  refused("there is no setting 'limitt'", tide.open, {limitt = "1GiB"})
  refused("expected a text as 'limit', found number", tide.open, {limit = 5})
  refused("expected true or false as 'cache', found number", tide.open, {cache = 1})
  refused("nowhere", tide.open, {device = "nowhere"})
  refused("there is no setting 'collector'", tide.open, {collector = "boehm"})
end

function TestLives.test_two_runtimes_in_turn()
  local first = tide.open{device = "host"}
  local a = tide.ones(2)
  local second = tide.open{device = "host"}
  local b = tide.ones(2)
  refused("runtime", function() return a + b end)
  first:use()
  unit.assertEquals(values(a + tide.ones(2)), {2, 2})
  second:close()
  first:close()
end

function TestLives.test_memory_runs_out_and_the_program_goes_on()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local kept = tide.zeros({1024, 1024}, "f32")
  refused("", tide.zeros, {1024, 1024, 16}, "f32")
  for _ = 1, 100 do tide.zeros({1024, 1024}, "f32") end
  unit.assertEquals(kept:sum():item(), 0)
  local s = tide.stats()
  unit.assertTrue(s.peak_backed <= 16 * 1024 * 1024)
  unit.assertTrue(s.collections > 0)
  rt:close()
end

function TestLives.test_finalizers_may_fail_and_call_the_library()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local calls, fails = 0, 0
  local function mortal()
    local body = function()
      calls = calls + 1
      if not pcall(tide.ones, 3) then fails = fails + 1 end
      -- LuaJIT throws it again and again into whatever takes memory next, compiled code too
      if not jit and calls % 2 == 0 then error("a finalizer's own") end
    end
    if newproxy then -- Lua 5.1: tables have no finalizers
      getmetatable(newproxy(true)).__gc = body
    else
      setmetatable({}, {__gc = body})
    end
  end
  -- Where Lua 5.3 collects by itself, a finalizer's error goes to whoever takes memory: so only the
  -- library asks.
  local old = _VERSION ~= "Lua 5.4" and collectgarbage("setpause", 1000000)
  pcall(collectgarbage)
  for _ = 1, 200 do
    mortal()
    tide.zeros({512, 1024}, "f32")
  end
  if old then collectgarbage("setpause", old) end
  for _ = 1, 400 do pcall(collectgarbage) end -- each ends at an error
  unit.assertTrue(calls > 0)
  unit.assertEquals(values(tide.ones(1)), {1})
  rt:close()
end

function TestLives.test_coroutines()
  local rt = tide.open{device = "host", limit = "16MiB"}
  local threads = {}
  for i = 1, 8 do
    threads[i] = coroutine.wrap(function()
      local sum = tide.zeros(1)
      for _ = 1, 40 do
        tide.zeros({512, 1024}, "f32")
        sum = sum + i
        coroutine.yield()
      end
      while true do coroutine.yield(sum:item()) end
    end)
  end
  for _ = 1, 41 do for i = 1, 8 do threads[i]() end end
  for i = 1, 8 do unit.assertEquals(threads[i](), 40 * i) end
  rt:close()
end

if _VERSION == "Lua 5.4" then
  load([[
    local tide, unit = ...
    function TestLives.test_close_frees_at_the_end_of_a_block()
      local kept
      do
        local a <close> = tide.ones(3)
        kept = a
      end
      unit.assertTrue(kept:is_freed())
    end
    function TestHost.test_the_end_of_a_block_ends_views_and_loops()
      local kept
      do
        local v <close> = tide.to_memory(tide.ones(2), "pinned"):view()
        kept = v
      end
      unit.assertFalse(pcall(function() return kept[1] end))
      for a in tide.batches{{1, 2, 3}} do
        kept = a
        if a:item() == 2 then break end
      end
      unit.assertTrue(kept:is_freed())
      local s <close> = tide.stream()
      local p <close> = tide.pool()
    end
    function TestLives.test_generational_collection()
      collectgarbage("generational")
      local rt <close> = tide.open{device = "host", limit = "16MiB"}
      for _ = 1, 300 do tide.zeros({512, 1024}, "f32") end
      unit.assertEquals(tide.ones(1):totable(), {1})
      collectgarbage("incremental")
    end
  ]])(tide, unit)
end

-- A state ends with objects of all kinds, in whatever order they and their runtimes were made, closed
-- and dropped.
function TestLives.test_states_end_in_any_order()
  for seed = 1, 12 do
    local text = output_of("local seed = " .. seed .. [[

      local function draw(n)
        seed = (seed * 16807) % 2147483647
        return seed % n + 1
      end
      local open, kept = {}, {}
      local makers = {
        function() open[#open + 1] = tide.open{device = "host", log = function() kept.log = true end} end,
        function() return tide.ones(100) + 1 end,
        function() return tide.stream() end,
        function() local s = tide.stream() s:use() return s end,
        function() return tide.pool() end,
        function() local p = tide.pool() p:use() return p end,
        function() return tide.empty_in("pinned", 10):view() end,
        function() return (tide.batches{{1, 2, 3}}) end,
        function() local it = tide.batches{{1, 2, 3}} return {it, it()} end,
        function() return tide.reclaimable{name = "x", purge = function() kept = {} end} end,
        function() return tide.expr("(x) -> x") end,
        function() return tide.ones(1):on_death(function() kept.dead = tide end) end,
        function() tide.ones(1):on_death(function() kept.dead = tide end) end,
        function() return coroutine.create(function() tide.stream():use() coroutine.yield() end) end,
        function() kept[draw(#kept + 1)] = nil collectgarbage() end,
        function() if #open > 0 and draw(4) == 1 then table.remove(open, draw(#open)):close() end end,
        function() return tide.policy{name = "p" .. #kept .. draw(1e9), decide = function() end} end,
      }
      for i = 1, 60 do
        local x = makers[draw(#makers)]()
        if x ~= nil then kept[#kept + 1] = x end
        if type(x) == "thread" then assert(coroutine.resume(x)) end
      end
      if draw(2) == 1 then for _, rt in ipairs(open) do rt:close() end end
      if draw(2) == 1 then global = kept end
      print("ended")]])
    unit.assertEquals(text, "ended\n", "seed " .. seed)
  end
end

function TestLives.test_metatables_are_the_modules()
  unit.assertIsString(getmetatable(tide.ones(1)))
  refused("", setmetatable, tide.ones(1), {})
  for _, object in ipairs{tide.stream(), tide.pool(), tide.open(), (tide.batches{{1}}),
    tide.empty_in("pinned", 1):view(), tide.reclaimable{name = "x", drop = print}} do
    unit.assertStrContains(getmetatable(object), "metatable is the module's")
  end
  refused("expected an array, found table", tide.ones(1).item, {})
  refused("expected an array, found userdata", tide.ones(1).free, io.stdout)
end

function TestLives.test_what_the_runtime_says()
  unit.assertTrue(tide.stats().arrays >= 0)
  unit.assertStrContains(tide.status(), "memory")
  unit.assertTrue(tide.reclaim() >= 0)
  unit.assertTrue(tide.reclaim("drop") >= 0)
  refused("expected one of \"purge\"", tide.reclaim, "all")
  tide.synchronize()
  tide.collect()
end

os.exit(unit.LuaUnit.run(), true)
