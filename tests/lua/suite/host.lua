-- host.lua: views, batches, structures elsewhere.
local s = ...
local unit, tide, values, refused = s.unit, s.tide, s.values, s.refused

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
  local function deeper()
    return tide.batches{{shape = {1}, dtype = "u8"}, fill = function() return deeper() end}()
  end
  refused("'fill' inside of 'fill', 16 deep", deeper)
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
