#!/bin/sh
# programs.sh PRELOAD LUA MODULE DIGITS WEIGHTS WORK: the programs of examples/lua at a small size:
# digits and dense come to the numbers of the C ones (DIGITS; WEIGHTS is dense_weights.c), on the
# host device.
set -eu
preload=$1 lua=$2 module=$3 digits=$4 weights=$5 work=$6-programs
source=${TIDE_TEST_SOURCE:?}
rm -rf "$work"
mkdir -p "$work"
fail() { echo "$*"; exit 1; }
program() { # NAME ARGUMENT...
    name=$1
    shift
    "$source/tests/lua/run.sh" "$preload" "$lua" "$module" "$source/examples/lua/$name.lua" "$@"
}
refused() {
    status=0
    program "$@" >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || fail "$* ends with $status"
}

ours=$(program digits --epochs 2)
theirs=$(TIDE_DEVICE=host "$digits" --epochs 2)
[ "$ours" = "$theirs" ] || fail "digits: '$ours', in C '$theirs'"
refused digits --epochs 0
refused digits --epochs

small='--rows 3000 --features 100 --batch 256 --epochs 5 --limit 8MiB --quiet'
program dense $small --summary --weights >"$work/dense"
ours=$(grep '^weights ' "$work/dense")
theirs=$(TIDE_DEVICE=host "$weights")
[ "$ours" = "$theirs" ] || fail "dense: '$ours', in C '$theirs'"
grep -Eq '^summary free=eager total_s=[0-9.]+ .* climbs=0 .* limit=8388608 ' "$work/dense" ||
    fail "dense: $(cat "$work/dense")"
refused dense --rows many
refused dense --rows 0
rm -rf "$work"
