-- ffi.lua: view:ffi(): LuaJIT's pointer to the elements of a view, which keeps the view open.
local ffi = require "ffi"
local types = {bool = "bool", i8 = "int8_t", i16 = "int16_t", i32 = "int32_t", i64 = "int64_t",
  u8 = "uint8_t", u16 = "uint16_t", u32 = "uint32_t", u64 = "uint64_t", f16 = "uint16_t",
  bf16 = "uint16_t", f32 = "float", f64 = "double", c64 = "float", c128 = "double"}
local views = setmetatable({}, {__mode = "k"})

return function(view)
  local pointer = ffi.cast(types[view.dtype] .. " *", view.pointer)
  views[pointer] = view
  return pointer
end
