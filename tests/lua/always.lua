-- always.lua: a policy that collects whenever it is asked, which is at each array.
return {name = "always", unguarded = true, decide = function() return "full" end}
