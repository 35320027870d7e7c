-- picture.lua: writes an array of bytes as a PNG: height x width (gray), or height x width x 3. By
-- pnmtopng, of the package netpbm.
--   local write = dofile "picture.lua"; write(path, array)
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Whether a command went well: its status is a number in LuaJIT, true in later Luas.
local function run(command)
  local status = os.execute(command)
  return status == true or status == 0
end

return function(path, pixels)
  if not run("command -v pnmtopng >/dev/null") then
    error("picture: pnmtopng is not here: install the package netpbm", 2)
  end
  local file, message = io.open(path, "wb") -- the shell's own message would not come as an error
  if not file then error("picture: " .. message, 2) end
  file:close()
  local kind = pixels.ndim == 3 and "P6" or "P5"
  local pipe = assert(io.popen("pnmtopng -quiet >" .. quoted(path), "w"))
  pipe:write(("%s\n%d %d\n255\n"):format(kind, pixels.shape[2], pixels.shape[1]), pixels:bytes())
  pipe:close()
  local written = assert(io.open(path, "rb"))
  local head = written:read(8)
  written:close()
  if head ~= "\137PNG\r\n\26\n" then error("picture: pnmtopng wrote no picture: " .. path, 2) end
end
