#!/bin/sh
# setup.sh: installs what is missing to build, test and show Tidepool on Debian 12 or Ubuntu 24.04.
# Says what it installs; installs nothing the second time. What the project needs, by package:
set -eu
packages='gcc g++ libc6-dev meson ninja-build pkg-config python3
libgc-dev libopenblas-dev liblapacke-dev libxxhash-dev zlib1g-dev libdw-dev libbz2-dev libcmocka-dev
gnuplot-nox valgrind locales
lua5.4 liblua5.4-dev lua5.3 liblua5.3-dev luajit libluajit-5.1-dev lua-unit luarocks lua-socket
netpbm'
# libbz2-dev because libdw's pkg-config file names it for who links statically;
# and clang-format-14 and python3-clang, without which the checks of the formatting and of the
# headers (tools/api.py) are skipped.
# What the tests want of locales: a decimal comma, and letters whose upper case is another than in
# English.
locales='de_DE.UTF-8 tr_TR.UTF-8'

have() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=
for p in $packages; do have "$p" || missing="$missing $p"; done
extra=
have clang-format-14 || command -v clang-format-14 >/dev/null 2>&1 || extra=clang-format-14
[ -e /usr/lib/python3/dist-packages/clang/cindex.py ] || extra="$extra python3-clang"
there=$(locale -a 2>/dev/null | tr 'A-Z' 'a-z' | tr -d '-')
unmade=
for l in $locales; do
    printf '%s\n' "$there" | grep -qx "$(printf %s "$l" | tr 'A-Z' 'a-z' | tr -d '-')" || unmade="$unmade $l"
done
[ -n "$missing$extra$unmade" ] || exit 0

root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 && root=sudo
    if [ -z "$root" ]; then
        [ -n "$missing$unmade" ] || exit 0
        echo "setup: these packages and locales are missing, and installing them needs root or sudo:$missing$unmade" >&2
        exit 1
    fi
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >>"$log" 2>&1; }

if [ -n "$missing" ]; then
    echo "setup: installing:$missing"
    $root apt-get update -q >"$log" 2>&1 || true # without a network the lists that are there may do
    install $missing || { cat "$log" >&2; echo "setup: could not install:$missing" >&2; exit 1; }
fi
for l in $unmade; do
    echo "setup: making the locale $l"
    $root localedef -i "${l%.*}" -f "${l#*.}" "$l" >>"$log" 2>&1 ||
        { cat "$log" >&2; echo "setup: could not make the locale $l" >&2; exit 1; }
done
# Last, when the lists of packages are there; not worth failing for.
for p in $extra; do
    apt-cache show "$p" >/dev/null 2>&1 || continue
    echo "setup: installing: $p"
    install "$p" || echo "setup: could not install $p: what it checks will be skipped"
done
