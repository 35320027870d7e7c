-- examples.lua: the examples of functions.md, whose path is the argument, do what they say; each
-- function has one, and help shows it.
local tide = require "tidepool"
local file = assert(io.open(arg[1]))
local text = file:read("*a")
file:close()

local count = 0
for heading, body in text:gmatch("\n### ([^\n]+)\n(.-)\n```\n") do
  local name = heading:match("^a:([%w_]+)") or heading:match("^[%w_:]+")
  local example = assert(body:match("\n```lua\n(.*)$"), heading)
  local run = assert((loadstring or load)("local tide = ...\n" .. example, "=" .. name))
  local fine, message = pcall(run, tide)
  assert(fine, message)
  assert(tide.help(name):find(example, 1, true), name)
  count = count + 1
end
local _, headings = text:gsub("\n### ", "")
assert(count == headings and count > 0, count .. " of " .. headings)
