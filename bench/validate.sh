#!/bin/sh
# validate.sh [RUNS]: how many of the lab's predictions of `dense` are off (tide study --validate).
# Its last line is "figure N". Exit 0; otherwise the comparison could not be made.
set -u
built=build-release
[ -x $built/tools/tide ] || built=build
out=$($built/tools/tide study --validate --runs "${1:-5}" -- $built/examples/c/dense --free=eager \
    --rows 40000 --features 200 --batch 1024 --epochs 20 --quiet)
[ $? -le 1 ] || exit 1
printf '%s\n' "$out"
printf '%s\n' "$out" | LC_ALL=C sed -n 's/^\([0-9]*\) of [0-9]* predictions are off$/figure \1/p'
