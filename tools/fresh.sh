#!/bin/sh
# fresh.sh [SUITE] [SCRIPT]: proves that a fresh system with nothing but git, a shell and root suffices: makes one with
# debootstrap (SUITE bookworm, or noble), clones the committed state into it, and runs tools/check.sh (or SCRIPT) there.
# Needs root, debootstrap, and a mirror of the suite: FRESH_MIRROR, else the one this system installs from.
set -eu
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
script=${2:-tools/check.sh}
mirror=${FRESH_MIRROR:-$(grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | grep -v security | head -n 1)}
[ "$(id -u)" = 0 ] || { echo "fresh: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: debootstrap is not here" >&2; exit 77; }
root=$(mktemp -d)
clean() {
    for m in proc dev sys; do umount "$root/$m" 2>/dev/null || true; done
    rm -rf --one-file-system "$root"
}
trap clean EXIT INT TERM
debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail -20 "$root.log"; exit 1; }
rm -f "$root.log"
# The same sources of packages as here, and the same way to reach them.
[ "$suite" != "$(. /etc/os-release; echo "$VERSION_CODENAME")" ] || cp -r /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d "$root/etc/apt/" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
cp /etc/hosts "$root/etc/hosts" 2>/dev/null || true
for m in proc dev sys; do mount --rbind "/$m" "$root/$m" && mount --make-rslave "$root/$m"; done
git clone -q --no-local . "$root/tidepool"
chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} sh -c "cd /tidepool && $script"
