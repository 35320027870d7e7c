-- calls.lua: arguments by place and by name, places, several results, expressions, help.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local grid = s.grid

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
  refused("map: expected an expression's text, found number", tide.map, 1)
  refused("map: the expression's text has a zero byte", tide.map, "(x) -> x\0", a)
  refused("expr: expected an expression's text, found nil", tide.expr, nil)
  refused("map_into: expected an array, found string", tide.map_into, "(x) -> x")
  refused("map_into: expected an expression's text, found table", tide.map_into, a, {})
  refused("argument", tide.map, "(x, y) -> x + y", a)
  refused("more than 32 operands", tide.map, "(x) -> x", (table.unpack or unpack)({1, 2, 3, 4, 5, 6, 7, 8,
    9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33}))
end

-- Texts that a program makes as it goes are not kept for ever, nor are those of closed runtimes.
function TestCalls.test_texts_are_let_go()
  local rt = tide.open{device = "host"}
  local a = tide.ones(2)
  local function many(n)
    for i = 1, n do unit.assertEquals(tide.map("(x) -> x + " .. i, a)[1], i + 1) end
    collectgarbage()
    collectgarbage()
    return collectgarbage("count")
  end
  local before = many(600)
  unit.assertTrue(many(3000) < before + 200)
  rt:close()
  local function runtimes(n)
    for _ = 1, n do
      local other = tide.open{device = "host"}
      unit.assertEquals(tide.map("(x) -> x + 1", tide.ones(1))[1], 2)
      other:close()
    end
    collectgarbage()
    collectgarbage()
    return collectgarbage("count")
  end
  before = runtimes(10)
  unit.assertTrue(runtimes(100) < before + 60)
end

-- A table, or a number, beside an array is of the array's runtime.
function TestCalls.test_tables_belong_to_the_arrays_runtime()
  local first = tide.open{device = "host"}
  local a = tide.array{1, 2}
  local second = tide.open{device = "host"}
  unit.assertEquals(values(a + {10, 20}), {11, 22})
  unit.assertEquals(values(tide.map("(x, y) -> x * y", {3, 4}, a)), {3, 8})
  unit.assertEquals(values(a:take({2, 1}, 1)), {2, 1})
  unit.assertEquals(values(tide.matmul(a, {1, 1})), 3)
  a[{ {1, 2} }] = {7, 8}
  a[1] = 9
  unit.assertEquals(values(a), {9, 8})
  first:close()
  refused("closed", function() return a + {1, 2} end)
  refused("closed", tide.map, "(x, y) -> x + y", {1, 2}, a)
  second:close()
end

function TestCalls.test_help_names_every_function()
  local all = tide.help()
  for name in ("sum add matmul sort topk zeros svd nonzero cumsum roll"):gmatch("%a+") do
    unit.assertStrContains(all, name)
    unit.assertStrContains(tide.help(name), "tide." .. name .. "(")
  end
  unit.assertStrContains(tide.help("stream:use"), "stream:use()\n")
  unit.assertStrContains(tide.help("map"), "tide.map(text, ...)")
  unit.assertEquals({tide.help("a:sum"), tide.help("tide.sum"), tide.help(tide.sum)},
    {tide.help("sum"), tide.help("sum"), tide.help("sum")})
  refused("there is no function 'summ'", tide.help, "summ")
  refused("help: expected a name, or a function of the module's, found number", tide.help, 5)
  refused("help: expected a name, or a function of the module's, found function", tide.help, print)
end
