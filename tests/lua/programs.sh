#!/bin/sh
# programs.sh PRELOAD LUA MODULE DIGITS WEIGHTS WORK: the programs of examples/lua at a small size:
# digits and dense come to the numbers of the C ones (DIGITS; WEIGHTS is dense_weights.c), on the
# host device; the others to numbers that hold on any machine.
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

# A policy in Lua: it collects before memory runs out.
program dense $small --summary --policy "$source/examples/lua/policy.lua(share=0.3)" >"$work/dense"
LC_ALL=C awk '$1 == "summary" { for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
    END { exit !(v["collections"] >= 3 && v["climbs"] == 0 && v["collected"] > 1e6) }' \
    "$work/dense" || fail "policy: $(cat "$work/dense")"

# A network learns: what sums come to may differ a little from machine to machine.
program network 60 >"$work/network"
LC_ALL=C awk '/^loss / { ok = $2 + 0 > 0.3 && $4 + 0 < 0.1 && $5 >= 380 } END { exit !ok }' \
    "$work/network" || fail "network: $(cat "$work/network")"
refused network 0

# Pictures: the size, the numbers that go with them, and what is where.
is_png() { # FILE SIZE
    [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "$1 is no PNG"
    [ "$(od -An -tx1 -j 16 -N 8 "$1" | tr -d ' ')" = "$(printf '%08x%08x' "$2" "$2")" ] ||
        fail "$1 is not $2 by $2"
}
program mandelbrot 120 50 "$work/set's.png" >"$work/log"
LC_ALL=C awk '{ ok = $2 + 0 > 1.5 && $2 + 0 < 1.65 } END { exit !ok }' "$work/log" ||
    fail "mandelbrot: $(cat "$work/log")"
is_png "$work/set's.png" 120
pngtopnm "$work/set's.png" | tail -c 43200 | od -An -v -tu1 -w3 >"$work/pixels"
# the middle of the main body (-0.25 + 0i) is black, a corner is not
LC_ALL=C awk 'NR == 60 * 120 + 80 && $1 + $2 + $3 == 0 { middle = 1 }
    NR == 1 && $1 + $2 + $3 > 0 { corner = 1 } END { exit !(NR == 14400 && middle && corner) }' \
    "$work/pixels" || fail "mandelbrot: the picture shows something else"
program nbody 50 100 "$work/nbody.png" >"$work/log"
LC_ALL=C awk '{ ok = $2 + 0 < 1e-12 && $6 != "" && $6 + 0 < 1e-2 } END { exit !ok }' "$work/log" ||
    fail "nbody: $(cat "$work/log")"
is_png "$work/nbody.png" 512
lit=$(pngtopnm "$work/nbody.png" | tail -c 262144 | od -An -v -tu1 -w1 | grep -cv '^ *0$')
[ "$lit" -ge 200 ] && [ "$lit" -le 5050 ] || fail "nbody: $lit pixels are lit"
refused mandelbrot 1
refused nbody 1
status=0
program mandelbrot 20 2 "$work/absent/m.png" >/dev/null 2>"$work/log" || status=$?
[ $status = 1 ] && grep -q 'absent/m.png: No such file' "$work/log" ||
    fail "mandelbrot ends with $status: $(cat "$work/log")"

# README's transcript is what Lua 5.4 answers.
case $lua in
*lua5.4)
    sed -n '/^> tide = /,/^```$/p' "$source/README.md" | grep -v '^```$' >"$work/said"
    [ -s "$work/said" ] || fail "README has no transcript"
    sed -n 's/^> //p' "$work/said" |
        TERM=dumb "$source/tests/lua/run.sh" "$preload" "$lua" "$module" -i |
        grep -v -e '^Lua 5' -e '^> *$' >"$work/answers"
    diff "$work/said" "$work/answers" || fail "README's transcript"
    ;;
esac
rm -rf "$work"
