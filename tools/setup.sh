#!/bin/sh
# setup.sh: installs what is missing to build, test and show Tidepool on Debian 12 or Ubuntu 24.04. Says what it installs;
# installs nothing the second time. What the project needs, by package:
set -eu
packages='gcc g++ libc6-dev meson ninja-build pkg-config python3
libgc-dev libopenblas-dev liblapacke-dev libxxhash-dev zlib1g-dev libcmocka-dev
gnuplot-nox valgrind'
optional='clang-format-14' # the formatting check is skipped without it

have() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=
for p in $packages; do have "$p" || missing="$missing $p"; done
for p in $optional; do
    have "$p" || command -v clang-format-14 >/dev/null 2>&1 || { apt-cache show "$p" >/dev/null 2>&1 && missing="$missing $p"; }
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "setup: these packages are missing, and installing them needs root or sudo:$missing" >&2; exit 1; }
    root=sudo
fi
echo "setup: installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { $root apt-get install -y -q --no-install-recommends $missing >>"$log" 2>&1; }
$root apt-get update -q >"$log" 2>&1 || true # without a network the lists that are there may do
install || { cat "$log" >&2; echo "setup: could not install:$missing" >&2; exit 1; }
