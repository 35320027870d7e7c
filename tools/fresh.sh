#!/bin/sh
# fresh.sh [SUITE] [SCRIPT]: proves that a fresh system with nothing but git, a shell and root
# suffices: makes one with debootstrap (SUITE bookworm: Debian 12, or noble: Ubuntu 24.04), clones
# the committed state into it, and runs tools/check.sh (or SCRIPT) there. FRESH_ROOT names a folder
# to make it in, and to leave it for the next run. Needs root, debootstrap, and a mirror:
# FRESH_MIRROR; else for the suite that runs here the one that this system installs from; else
# debootstrap's own default.
set -eu
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
script=${2:-tools/check.sh}
[ "$(id -u)" = 0 ] || { echo "fresh: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: skipped, debootstrap is not here" >&2; exit 77; }

# The first address of a package source for $suite, in either form that apt reads.
configured_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v suite="$suite" '
        $1 == "deb" { sub(/\[[^]]*\] */, ""); if ($3 == suite) { print $2; exit } }
        $1 == "URIs:" { uri = $2 }
        $1 == "Suites:" { for (i = 2; i <= NF; i++) if ($i == suite) { print uri; exit } }'
}
mirror=${FRESH_MIRROR:-$(configured_mirror)}
components=main
[ "$suite" = bookworm ] || components=main,universe

root=${FRESH_ROOT:-$(mktemp -d)}
mkdir -p "$root"
clean() {
    for m in proc dev sys; do ! mountpoint -q "$root/$m" || umount -R -l "$root/$m"; done
    [ -n "${FRESH_ROOT:-}" ] || rm -rf --one-file-system "$root"
}
trap clean EXIT
trap 'exit 1' INT TERM

if [ ! -x "$root/usr/bin/git" ]; then
    echo "fresh: making $suite from ${mirror:-the default mirror}"
    debootstrap --variant=minbase --components=$components --include=git,ca-certificates "$suite" "$root" $mirror >"$root.log" 2>&1 ||
        { tail -20 "$root.log"; exit 1; }
    rm -f "$root.log"
fi
# The way to the network is this system's: names, proxies, and how strict apt is about dates.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check)' >"$root/etc/apt/apt.conf.d/99fresh" || true
for m in proc dev sys; do mount --rbind "/$m" "$root/$m" && mount --make-rslave "$root/$m"; done
rm -rf "$root/tidepool"
git clone -q --no-local . "$root/tidepool"
echo "fresh: $suite runs $script"
chroot "$root" env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} sh -c "cd /tidepool && $script"
