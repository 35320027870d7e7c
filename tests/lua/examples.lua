-- examples.lua PAGE [NAME]: the listings of a page (docs/lua.md) run, but that of one function, and
-- print what stands in them behind `-->`, further lines of it below; what several values print is
-- apart by two spaces. Every function that tide.help() names has a listing, which its help shows.
local tide = require "tidepool"
local file = assert(io.open(arg[1]))
local text = file:read("*a")
file:close()

-- What a listing says that it prints.
local function promised(listing)
  local rows = {}
  for row in listing:gmatch("%-%-> ?([^\n]*)") do rows[#rows + 1] = (row:gsub("%s+$", "")) end
  return table.concat(rows, "\n")
end

-- What it prints. Each has globals of its own.
local function printed(listing, name)
  local rows = {}
  local own = setmetatable({tide = tide}, {__index = _G})
  function own.print(...)
    local values = {...}
    for i = 1, select("#", ...) do values[i] = tostring(values[i]) end
    rows[#rows + 1] = table.concat(values, "  ")
  end
  local run
  if setfenv then -- Lua 5.1
    run = setfenv(assert(loadstring(listing, "=" .. name)), own)
  else
    run = assert(load(listing, "=" .. name, "t", own))
  end
  run()
  return (table.concat(rows, "\n"):gsub("[ \t]+\n", "\n"):gsub("[ \t]+$", ""))
end

local wrong, count = {}, 0
local function check(listing, name)
  local fine, said = pcall(printed, listing, name)
  count = count + 1
  if not fine or said ~= promised(listing) then
    wrong[#wrong + 1] = ("%s:\n%s\nsays:\n%s"):format(name, listing, tostring(said))
  end
end

local prose, functions = text:match("^(.-)\n## Functions\n(.*)$")
for listing in prose:gmatch("\n```lua\n(.-)```\n") do check(listing, "listing " .. count + 1) end
assert(count >= 2, "there are no listings before the functions")

local seen = {}
for heading, body in functions:gmatch("\n#### ([^\n]+)\n(.-\n```)\n") do
  local name = heading:match("^tide%.([%w_]+)%(") or heading:match("^[%w_]+:[%w_]+")
  local listing = assert(body:match("\n```lua\n(.*)```$"), heading .. " has no listing")
  seen[name] = true
  assert(tide.help(name):find(listing, 1, true), "help of " .. name .. " lacks its listing")
  if name ~= arg[2] then check(listing, name) end
end
for line in tide.help():gmatch("[^\n]+") do
  for name in line:gsub("^.-:", "", 1):gmatch("%S+") do
    if not seen[name] then wrong[#wrong + 1] = "there is no example of " .. name end
  end
end
if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
