-- policy.lua: a policy in Lua: collects when it expects to find garbage of a share of the room.
-- What it expects is the growth since the last collection times the part of growth that was garbage
-- in earlier ones, which it learns from what it is told of each.
--   TIDE_POLICY=examples/lua/policy.lua lua5.4 examples/lua/dense.lua --limit 2GiB
--   TIDE_POLICY='examples/lua/policy.lua(share=0.3)' ...
return {
  name = "expected",
  summary = "the garbage that it expects is a share of the room",
  params = {{name = "share", usual = 0.5, low = 0.01, high = 1}},
  decide = function(now, state)
    local part = state.part or 1
    local growth = now.params.share * (now.limit - now.base) / part
    local at = math.min(now.base + growth, 0.95 * now.limit)
    if now.used + now.request >= at then return true, nil, "garbage is expected" end
    return false, math.floor(at)
  end,
  observe = function(before, after, _, state)
    local grown = before.used - before.base
    if grown <= 0 then return end
    local found = math.max(before.used - after.used, 0) / grown
    -- never quite 0: a program may change
    state.part = math.max(0.05, 0.5 * (state.part or found) + 0.5 * found)
  end,
}
