-- indices.lua: every form of an index, read and assigned to, and what is none.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused
local grid, integers = s.grid, s.integers

TestIndices = {}


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
  refused("a range is {first, last, step}, and nothing else", function() return a({step = 2}) end)
  refused("a range is {first, last, step}, and nothing else", function() return a({1, 2, 1, 1}) end)
  refused("expected places, which are integers, found an array of f64", function() return a[tide.array{1.5}] end)
  refused("expected places, which are integers, found an array of f64",
    function() a[tide.ones(2, "f64")] = 0 end)
  refused("take: expected places, which are integers, found an array of f32", a.take, a, tide.ones(2, "f32"), 1)
  refused("1.5 at [1] is no number of i64", a.take, a, {1.5}, 1)
  refused("more than 16 entries", function() return a(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) end)
end

-- What the device finds is told late, and as Lua counts.
function TestIndices.test_places_out_of_range()
  local a = tide.arange(10)
  for place, shown in pairs{[11] = 11, [12] = 12, [0] = 0, [-11] = -11} do
    refused("tide_index: index " .. shown .. " is out of range for 10 elements",
      function() return a[tide.array{1, place}]:totable() end)
    refused("tide_take: index " .. shown .. " is out of range for 10 elements",
      function() return a:take({place}, 1):totable() end)
  end
  refused("tide_segment_sum_offsets: offset 12 is out of range for 10 elements",
    function() return a:segment_sum_offsets{1, 12}:totable() end)
  unit.assertEquals(values(a[tide.array{10, -10}]), {9, 0})
  unit.assertEquals(values(a:take(3, 1)), 2)
  unit.assertEquals(values(a[tide.array{}]), {})
  unit.assertEquals(values(a:take({}, 1)), {})
end

function TestIndices.test_rows_in_turn()
  local seen = {}
  for i, row in grid():iter() do seen[i] = row:sum():item() end
  unit.assertEquals(seen, {6, 22, 38})
  seen = {}
  for i, v in tide.array{5, 6}:iter() do seen[i] = v end
  unit.assertEquals(seen, {5, 6})
  local a = tide.ones(3)
  refused("freed", function() for _ in a:iter() do a:free() end end)
  local nth = grid():iter()
  for _, i in ipairs{3, 4, -1, 2 ^ 53, math.maxinteger or 2 ^ 62} do unit.assertNil((nth(nil, i))) end
  local i, row = nth(nil, 2)
  unit.assertEquals({i, values(row)}, {3, {8, 9, 10, 11}})
  if integers then
    seen = {}
    for i, row in ipairs(grid()) do seen[i] = row[1] end
    unit.assertEquals(seen, {0, 4, 8})
  end
end
