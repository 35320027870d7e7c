#!/bin/sh
# rock.sh WORK LUA:VERSION...: `luarocks make` in a copy of the sources, with nothing built, into a
# tree of its own, for each Lua, whose program then finds the module there. Nothing is optimised,
# not even what the build says is, which takes a tenth of the time.
set -eu
work=$1/rock
shift
command -v luarocks >/dev/null || { echo "skipped: luarocks is not here"; exit 77; }
rm -rf "$work"
mkdir -p "$work/source" "$work/home"
cd "$TIDE_TEST_SOURCE"
if git ls-files --error-unmatch README.md >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard >"$work/files"
else
    find . -path './build*' -prune -o -type f -print0 >"$work/files"
fi
tar -c --null --ignore-failed-read -T "$work/files" 2>/dev/null | tar -x -C "$work/source"
cat >"$work/cc" <<END
#!/bin/sh
CCACHE_DIR=${CCACHE_DIR:-${HOME:-/nowhere}/.ccache} exec $(command -v ccache || true) cc "\$@" -O0
END
chmod +x "$work/cc"
cd "$work/source"
export HOME="$work/home" # where luarocks keeps what it remembers
export TIDE_DEVICE=host
for lua; do
    version=${lua#*:} lua=${lua%:*}
    luarocks --lua-version "$version" --tree "$work/tree" make CC="$work/cc" CFLAGS="-O0 -fPIC" \
        >"$work/log" 2>&1 || { tail -40 "$work/log"; echo "luarocks make fails for $lua"; exit 1; }
    said=$(cd / && LUA_CPATH="$work/tree/lib/lua/$version/?.so" "$lua" -e '
        local tide = require "tidepool"
        print(tide.version, tide.array{1, 2, 3}:sum():item())')
    [ "$said" = "0.1.0	6" ] || { echo "$lua says: $said"; exit 1; }
done
# It is the rock's own library: none was installed.
! find "$work/tree" -name 'libtidepool*' | grep . || { echo "there is a library too"; exit 1; }
cd /
rm -rf "$work"
