#!/bin/sh
# check_time.sh [BUSY]: the figure of 5.1: how many minutes tools/check.sh takes on a fresh clone of
# what is committed, with BUSY processes (0) beside it that keep processors busy; none if it fails.
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
loops=
trap 'kill $loops 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
git clone -q . "$work/tidepool" || exit 1
for i in $(seq "${1:-0}"); do
    sh -c 'while :; do :; done' &
    loops="$loops $!"
done
began=$(date +%s)
CCACHE_DISABLE=1 "$work/tidepool/tools/check.sh" </dev/null >"$work/log" 2>&1
status=$?
ended=$(date +%s)
tail -n 40 "$work/log"
[ $status = 0 ] || exit 1
LC_ALL=C awk "BEGIN { printf \"figure %.1f\\n\", ($ended - $began) / 60 }"
