#!/bin/sh
# rock.sh BUILD HEADERS CC CFLAGS: builds the Lua module with the library in it, as luarocks has it
# done (tidepool-scm-1.rockspec): for the Lua whose headers are in HEADERS, in folder BUILD, which
# may be there from another Lua.
set -eu
build=$1 headers=$2
export CC="$3" CFLAGS="$4"
[ -f "$headers/lua.h" ] || { echo "rock.sh: there is no $headers/lua.h" >&2; exit 1; }
options="-Dbuildtype=plain -Db_ndebug=true -Ddefault_library=static -Dtests=false"
if [ -f "$build/build.ninja" ]; then
    meson configure "$build" $options -Dlua_headers="$headers"
else
    meson setup "$build" $options -Dlua_headers="$headers"
fi
ninja -C "$build" examples/lua/tidepool.so
