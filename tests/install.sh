#!/bin/sh
# install.sh BUILD WORK [LUA:VERSION]...: `meson install` into a prefix, where each Lua finds its
# module, which finds the library; and a program of somebody else's, in C and
# in C++, built against the installed copy by pkg-config and run, with the shared library and with
# the static one.
set -eu
build=$1 work=$2/prefix
shift 2
cd "$TIDE_TEST_SOURCE"
rm -rf "$work"
meson install -C "$build" --no-rebuild --quiet --destdir "$work"
pc=$(find "$work" -name tidepool.pc)
[ -n "$pc" ] || { echo "no tidepool.pc was installed"; exit 1; }
api=$(find "$work" -path '*/share/tidepool/tide-api.json')
[ -n "$api" ] || { echo "no tide-api.json was installed"; exit 1; }
grep -q '"tide_open"' "$api" || { echo "$api does not have tide_open"; exit 1; }
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")"
# The copy lies below $work and not where it was configured to go; pkg-config's own knows no
# multiarch.
sed -i "s|^prefix=|prefix=$work|" "$pc"
flags() { pkg-config --cflags --libs "$@" tidepool; }
cat >"$work/user.c" <<'END'
#include <stdio.h>
#include <tide/tide.h>
int main(void) {
    tide_runtime *rt;
    const float x[] = {1, 2, 3};
    const int64_t shape[] = {3};
    tide_config c = {0};
    c.struct_size = sizeof c;
    c.device = "host";
    if (tide_open(&c, &rt) != TIDE_OK) return 1;
    tide_array *a = tide_from_host(rt, TIDE_F32, 1, shape, x);
    tide_array *b = tide_map(rt, "(a, s) -> sum(a * s)", a, 2.0);
    if (!b) { fprintf(stderr, "%s\n", tide_error_last()->message); return 1; }
    printf("%g %s\n", tide_item_f64(b), tide_version());
    tide_close(rt);
    return 0;
}
END
cp "$work/user.c" "$work/user.cpp"
sed -i 's/tide_config c = {0};/tide_config c{};/' "$work/user.cpp"
${CC:-cc} -std=c11 -Wall -Wextra -Werror "$work/user.c" -o "$work/user_c" $(flags)
${CXX:-c++} -std=c++17 -Wall -Wextra -Werror "$work/user.cpp" -o "$work/user_cpp" $(flags)
rm -rf "$work/static"
mkdir "$work/static"
cp "$libdir"/libtidepool.a "$work/static/"
${CC:-cc} -std=c11 "$work/user.c" -o "$work/user_static" $(pkg-config --cflags tidepool) \
    "$work/static/libtidepool.a" $(pkg-config --static --libs tidepool | tr ' ' '\n' |
        grep -v -e tidepool -e '^-L' | tr '\n' ' ')
for u in user_c user_cpp user_static; do
    got=$(LD_LIBRARY_PATH="$libdir" "$work/$u")
    [ "$got" = "12 0.1.0" ] || { echo "$u printed: $got"; exit 1; }
done
for lua; do
    version=${lua#*:} lua=${lua%:*}
    paths=$(dirname "$(dirname "$(find "$work" -path "*/lib/lua/$version/tidepool.so")")")
    got=$(env -u LD_LIBRARY_PATH TIDE_DEVICE=host LUA_PATH= LUA_CPATH="$paths/$version/?.so" "$lua" -e '
        local tide = require "tidepool"
        print(tide.version, tide.array{1, 2, 3}:sum():item())')
    [ "$got" = "0.1.0	6" ] || { echo "$lua says: $got"; exit 1; }
    LC_ALL=C ldd "$paths/$version/tidepool.so" | grep -q "libtidepool.* => $work" ||
        { echo "$lua's module does not find the library beside it"; exit 1; }
done

# Pages and examples come along; the examples are built where they lie, and find their data there.
share=$(dirname "$(find "$work" -path '*/tidepool/examples/c' -type d)")
# Links from page to page lead somewhere, but those to figures, which are of the sources.
pages=$share/../../doc/tidepool
for page in README.md docs/*.md; do
    cmp -s "$page" "$pages/$page" || { echo "$page was not installed"; exit 1; }
    for link in $(grep -oE '\]\([^)#]+' "$page" | cut -c3- | grep -v -e '://' -e '^bench/'); do
        [ -e "$(dirname "$pages/$page")/$link" ] ||
            { echo "$page is installed, but $link, to which it leads, is not"; exit 1; }
    done
done
cd "$share/c"
for e in *.c; do
    ${CC:-cc} -Wall -Wextra -Werror -pthread "$e" -o "$work/${e%.c}" $(flags) -lm ||
        { echo "$e is not built where it is installed"; exit 1; }
done
# The one that others begin with is C17 for every compiler, and sound as each of them orders it.
for compiler in "${CC:-cc}" clang; do
    command -v "${compiler%% *}" >/dev/null || continue
    $compiler -std=c17 -Wall -Wextra -Werror -pthread embed.c -o "$work/embed" $(flags) &&
        LD_LIBRARY_PATH="$libdir" TIDE_DEVICE=host "$work/embed" 100000 >"$work/log" ||
        { echo "embed, built by $compiler: $(cat "$work/log")"; exit 1; }
done
LD_LIBRARY_PATH="$libdir" TIDE_DEVICE=host "$work/pca" --out "$work/pca.pgm" | grep -q accuracy ||
    { echo "pca finds no data where it is installed"; exit 1; }
cd /
rm -rf "$work"
