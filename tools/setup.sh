#!/bin/sh
# setup.sh: installs what is missing to build, test and show Tidepool on Debian 12 or Ubuntu 24.04. Says what it installs;
# installs nothing the second time. What the project needs, by package:
set -eu
packages='gcc g++ libc6-dev meson ninja-build pkg-config python3
libgc-dev libopenblas-dev liblapacke-dev libxxhash-dev zlib1g-dev libdw-dev libbz2-dev libcmocka-dev
gnuplot-nox valgrind'
# libbz2-dev because libdw's pkg-config file names it for who links statically;
# and clang-format-14, without which the formatting check is skipped.

have() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=
for p in $packages; do have "$p" || missing="$missing $p"; done
extra=
have clang-format-14 || command -v clang-format-14 >/dev/null 2>&1 || extra=clang-format-14
[ -n "$missing$extra" ] || exit 0

root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 && root=sudo
    if [ -z "$root" ]; then
        [ -n "$missing" ] || exit 0
        echo "setup: these packages are missing, and installing them needs root or sudo:$missing" >&2
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
# Last, when the lists of packages are there; not worth failing for.
if [ -n "$extra" ] && apt-cache show $extra >/dev/null 2>&1; then
    echo "setup: installing: $extra"
    install $extra || echo "setup: could not install $extra: the formatting check will be skipped"
fi
