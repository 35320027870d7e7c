-- The Lua module as a rock: `luarocks make` in the project's root builds and installs it, for the Lua
-- that luarocks is for (--lua-version=5.4, 5.3, or 5.1, which is LuaJIT). It needs what
-- tools/setup.sh lists: a C compiler, meson, ninja, python3 and the libraries. The library is in it.
rockspec_format = "3.0"
package = "tidepool"
version = "scm-1"
source = {url = "git+file://."} -- `luarocks make` takes the tree that it is called in
description = {
  summary = "GPU arrays whose memory Lua's own collector looks after",
  license = "MIT",
}
dependencies = {"lua >= 5.1, < 5.5"}
build = {
  type = "command",
  build_command = "sh examples/lua/rock.sh build-rock '$(LUA_INCDIR)' '$(CC)' '$(CFLAGS)'",
  install = {lib = {tidepool = "build-rock/examples/lua/tidepool.so"}},
}
