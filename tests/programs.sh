#!/bin/sh
# programs.sh NAME BUILD WORK [ARRAYS]: one of the example programs, or the demonstration, as a user
# runs it; on TIDE_TEST_DEVICE. They run in the user's locale; what reads their figures, which have
# a point, does not.
set -eu
name=$1 build=$2 work=$3/programs-$1
source=${TIDE_TEST_SOURCE:?}
bin=$build/examples/c
export TIDE_DEVICE="${TIDE_TEST_DEVICE:-host}"
rm -rf "$work"
mkdir -p "$work"
fail() { echo "$name: $*"; exit 1; }
field() { sed -n "s/^summary .*$2=\([^ ]*\).*/\1/p" "$1"; }
refused() { # ARGS: bad input
    status=0
    "$bin/$name" "$@" >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || fail "$* ends with $status"
}

case $name in
digits)
    # Twice from different folders: the same line both times. Under its limit: it would end with an
    # error otherwise.
    first=$(cd / && "$bin/digits" | tail -n 1)
    second=$(cd "$work" && "$bin/digits" | tail -n 1)
    [ "$first" = "$second" ] || fail "two runs differ: $first; $second"
    echo "$first" | grep -Eq '^accuracy [0-9]+\.[0-9]{2} % \([0-9]+ of 360\)$' ||
        fail "ends with: $first"
    right=$(echo "$first" | sed 's/.*(\([0-9]*\) of.*/\1/')
    [ "$right" -ge 342 ] || fail "less than 95 %: $first"
    # By a graph: the same, and all but a few steps were launched by it.
    (cd "$work" && "$bin/digits" --graph --summary) >"$work/graph" || fail "--graph failed"
    [ "$(tail -n 1 "$work/graph")" = "$first" ] || fail "by a graph: $(tail -n 1 "$work/graph")"
    [ "$(field "$work/graph" graph_launches)" -ge 860 ] || fail "by a graph: $(cat "$work/graph")"
    refused --epochs 0
    refused --epochs 3x
    ;;
dense)
    for way in eager lazy hand; do
        "$bin/dense" --rows 10000 --epochs 20 --limit 136.5MiB --free=$way --quiet \
            --summary >"$work/$way" || fail "--free=$way failed"
    done
    [ "$(field "$work/eager" collections)" -ge 5 ] || fail "eager: $(cat "$work/eager")"
    [ "$(field "$work/eager" climbs)" = 0 ] || fail "eager: $(cat "$work/eager")"
    [ "$(field "$work/lazy" climbs)" -ge 1 ] || fail "lazy: $(cat "$work/lazy")"
    [ "$(field "$work/hand" collections)" = 0 ] || fail "hand: $(cat "$work/hand")"
    # By a graph the weights are the same, with batches of two sizes.
    for way in '' --graph; do
        "$bin/dense" --rows 3000 --features 100 --batch 256 --epochs 5 --quiet --summary \
            --weights $way >"$work/by$way" || fail "$way failed"
    done
    [ "$(tail -n 1 "$work/by")" = "$(tail -n 1 "$work/by--graph")" ] ||
        fail "by a graph: $(cat "$work/by--graph"), not $(tail -n 1 "$work/by")"
    grep -q '^graph runs=60 calls=4 launches=58 ' "$work/by--graph" ||
        fail "by a graph: $(cat "$work/by--graph")"
    refused --rows many
    status=0
    "$bin/dense" --rows 100 --epochs 1 --quiet --memory "$work/absent/memory" >/dev/null \
        2>"$work/error" || status=$?
    [ $status = 1 ] && grep -q 'absent/memory: No such file' "$work/error" ||
        fail "ends with $status: $(cat "$work/error")"
    ;;
numpy) # each looks at its own results
    for program in "$source"/examples/c/numpy/*.c; do
        one=$(basename "$program" .c)
        "$bin/$one" >"$work/$one" || fail "$one failed: $(cat "$work/$one")"
        [ -s "$work/$one" ] || fail "$one says nothing"
    done
    ;;
pca)
    "$bin/pca" --out "$work/pca.pgm" >"$work/log" || fail "failed"
    [ "$(head -n 3 "$work/pca.pgm")" = "$(printf 'P5\n1056 96\n255')" ] ||
        fail "no portable graymap of 1056 x 96"
    [ "$(wc -c <"$work/pca.pgm")" -eq $((15 + 1056 * 96)) ] ||
        fail "$(wc -c <"$work/pca.pgm") bytes"
    shades=$(tail -c $((1056 * 96)) "$work/pca.pgm" | od -An -v -tu1 -w1 | sort -u | wc -l)
    [ "$shades" -ge 50 ] || fail "$shades shades"
    # The variances descend, and add up.
    LC_ALL=C awk '$1 ~ /^[0-9]+$/ && $3 == "%" {
             if (n++ && $2 > before) exit 1; before = $2; sum += $2
             if ($4 - sum > 0.6 || sum - $4 > 0.6) exit 1 }
         END { if (n != 10 || sum < 60) exit 1 }' "$work/log" || fail "$(cat "$work/log")"
    grep -q '^least squares on 40 components: rank 41, ' "$work/log" || fail "$(cat "$work/log")"
    right=$(sed -n 's/^accuracy .*(\([0-9]*\) of 360)$/\1/p' "$work/log")
    [ "${right:-0}" -ge 320 ] || fail "less than 89 %: $(tail -n 1 "$work/log")"
    refused --components 0
    refused --components 65
    refused --components 3x
    status=0
    "$bin/pca" --out "$work/absent/pca.pgm" >/dev/null 2>"$work/error" || status=$?
    [ $status = 1 ] && grep -q 'absent/pca.pgm: No such file' "$work/error" ||
        fail "ends with $status: $(cat "$work/error")"
    ;;
wave)
    "$bin/wave" --size 64 --steps 40 --out "$work/wave.pgm" >"$work/log" || fail "failed"
    [ "$(head -n 3 "$work/wave.pgm")" = "$(printf 'P5\n64 64\n255')" ] ||
        fail "no portable graymap of 64 x 64"
    [ "$(wc -c <"$work/wave.pgm")" -eq $((13 + 64 * 64)) ] ||
        fail "$(wc -c <"$work/wave.pgm") bytes"
    # Waves, not one gray.
    shades=$(tail -c 4096 "$work/wave.pgm" | od -An -v -tu1 -w1 | sort -u | wc -l)
    [ "$shades" -ge 50 ] || fail "$shades shades"
    refused --size 64x
    refused --size 2
    refused --steps few
    refused --steps -1
    ;;
embed)
    # It checks itself, and then says so.
    "$bin/embed" "$4" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    for part in temporaries errors threads closing; do
        grep -q "^$part: " "$work/log" || fail "$part: $(cat "$work/log")"
    done
    refused 1000000x
    refused 10
    ;;
demo)
    for bad in 0 2 -1 3x ' '; do
        status=0
        DEMO_ROUNDS=$bad TIDE_BUILD=$build "$source/tools/demo.sh" >"$work/log" 2>&1 || status=$?
        [ $status = 2 ] || fail "DEMO_ROUNDS='$bad' ends with $status"
        grep -q "odd number from 1 on, not '$bad'" "$work/log" || fail "$(cat "$work/log")"
    done
    DEMO_ROUNDS=1 TIDE_BUILD=$build "$source/tools/demo.sh" --rows 10000 --epochs 20 \
        --limit 136.5MiB >"$work/log" || fail "$(cat "$work/log")"
    # The table's columns: free; total, least, most; queue, worst; collections, climbs.
    LC_ALL=C awk '$1 ~ /^(eager|lazy|hand)$/ && ($3 > $2 || $2 > $4 || $5 > $6) { wrong = 1 }
         $1 == "eager" { n++; if ($7 < 5 || $8 != 0) wrong = 1 }
         $1 == "lazy" { n++; if ($8 < 1) wrong = 1 }
         $1 == "hand" { n++; if ($7 != 0 || $8 != 0) wrong = 1 }
         END { exit wrong || n != 3 }' "$work/log" || fail "$(cat "$work/log")"
    grep -q '^Shown: .* % \(more\|less\) time .*, [0-9]* % \(more\|less\) where' "$work/log" ||
        fail "no word about what was shown: $(cat "$work/log")"
    picture=$(sed -n 's/^memory over time: //p' "$work/log")
    if [ -n "$picture" ]; then
        head -c 4 "$picture" | grep -q PNG || fail "$picture is no picture"
    else
        grep -q '^gnuplot is not here' "$work/log" || fail "no picture and no word about it"
    fi
    ;;
*) fail "no such program" ;;
esac
rm -rf "$work"
