-- fuse.lua: Lua functions of arrays that become one expression.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused

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
  refused("fuse: expected a function as 'f', found number", tide.fuse, 1)
  refused("does not know how long", tide.fuse(function(x) return x / #x end), a)
  refused("cannot take parts", tide.fuse(function(x) return x(1) end), a)
  refused("cannot use '1' of an array", tide.fuse(function(x) return x[1] end), a)
  refused("cannot use 'shape' of an array", tide.fuse(function(x) return x.shape end), a)
  refused("does not know what is in", tide.fuse(function(x) return "x" .. x end), a)
  refused("cannot use 'map' of an array", tide.fuse(function(x) return tide.map("(x) -> x", x) end), a)
  refused("cannot use 'expression' of an array", tide.fuse(function(x) return tide.expr("(x) -> x")(x) end), a)
  refused("cannot use 'matmul' of an array", tide.fuse(function(x) return tide.matmul(x, x) end), a)
  refused("result 2: expected an array, a number or a boolean, found nil",
    tide.fuse(function(x) return x, nil end), a)
  refused("result 1: expected an array, a number or a boolean, found string",
    tide.fuse(function() return "x" end), a)
  refused("fuse: operand 1 is a nil", tide.fuse(function(x) return x end), nil)
  refused("fuse: operand 2 is a userdata", tide.fuse(function(x) return x end), a, io.stdout)
  refused("fuse: operand 2 is a userdata", tide.fuse(function(x) return x end), a, tide.stream())
  refused("found f32(x1) + f32", tide.fuse(function(x) return x:cast("f32(x1) + f32") end), a)
  refused("element type, as \"f32\" or \"i64\", found nil", tide.fuse(function(x) return x:cast() end), a)
  refused("as 'flags', found back", tide.fuse(function(x) return x:cumsum{flags = "back"} end), a)
  refused("sum has no argument 'axs'", tide.fuse(function(x) return x:sum{axs = 1} end), a)
  refused("sum: 'axis' is 2: expected 1 to 1", tide.fuse(function(x) return x:sum(2) end), a)
  refused("sum: expected an axis or a table of axes as 'axis', found string",
    tide.fuse(function(x) return x:sum("x") end), a)
  refused("mine", tide.fuse(function() error("mine") end), a)
  refused("100 deep inside of one another", function()
    local f
    f = tide.fuse(function(x) return f(x) end)
    return f(a)
  end)
  local kept
  tide.fuse(function(x) kept = x return x end)(a)
  local outside = "a stand-in of tide.fuse is used outside of the call that it is of"
  refused(outside, tide.fuse(function(x) return x + kept end), a)
  refused(outside, function() return kept + 1 end)
  refused(outside, tide.fuse(function() return kept end))
end

-- What is there as a method is there as a function of the module's too.
function TestFuse.test_functions_of_the_module_in_fused_ones()
  local a, b = tide.array{1.0, 4.0}, tide.array{3.0, 5.0}
  local function of(f, ...) return values(tide.fuse(f)(...)) end
  unit.assertEquals(of(function(x, y) return tide.where(x:lt(2), x, y) end, a, b), {1, 5})
  unit.assertEquals(of(function(x) return tide.maximum(2, x) end, a), {2, 4})
  unit.assertEquals(of(function(x) return x / tide.sum(x, {axis = 1, keepdims = true}) end, a), {0.2, 0.8})
  unit.assertEquals(of(function(x) return tide.cumsum(x) + tide.cast(x, "i32") end, a), {2, 9})
  unit.assertEquals(of(function(x) return x:logical_and(true) end, tide.array{1, 0}), {true, false})
  unit.assertEquals(of(function(x) return x.ndim + x:max() end, tide.array{{1, 2}, {3, 4}}), 6)
  unit.assertEquals(of(function(x) return x.dtype == "f32" and x or -x end, tide.array({1}, "f32")), {1})
  unit.assertEquals(of(function(x) return x:sum{axis = 1} end, {{1, 2}, {3, 4}}), {4, 6})
  unit.assertEquals(of(function() return 5 end), 5)
end

function TestFuse.test_a_fused_function_is_one_launch()
  local f = tide.fuse(function(x, y) return ((x * x + y) / (y * y + 1)):sqrt() end)
  local a = tide.array{1.0, 4.0}
  f(a, a)
  local before = tide.stats().launches
  f(a, a)
  unit.assertEquals(tide.stats().launches - before, 1)
end

-- A fused function in a fused one is a part of it: one pass.
function TestFuse.test_fused_functions_of_fused_ones()
  local runs = 0
  local double = tide.fuse(function(x)
    runs = runs + 1
    return x * 2, x + 1
  end)
  local f = tide.fuse(function(x)
    local two, more = double(x)
    return two + more + double(x * x)
  end)
  unit.assertEquals(values(f(tide.array{1, 3})), {6, 28})
  unit.assertEquals(values(f(tide.array{2})), {15})
  unit.assertEquals(runs, 2)
end
