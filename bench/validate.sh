#!/bin/sh
# validate.sh [RUNS [PROGRAM...]]: how many of the lab's predictions of some examples are off (tide study --validate): of dense,
# mandelbrot and pagerank, or of those that are named. Its last line is "figure N". Exit 0; otherwise the comparison could not be made.
set -u
built=build-release
[ -x $built/tools/tide ] || built=build
runs=${1:-5} off=0
[ $# = 0 ] || shift
[ $# != 0 ] || set -- dense mandelbrot pagerank
for program; do
    case $program in dense) sizes='--free=eager --rows 40000 --features 200 --batch 1024 --epochs 20 --quiet' ;; *) sizes= ;; esac
    # shellcheck disable=SC2086 # words
    out=$($built/tools/tide study --validate --runs "$runs" -- $built/examples/c/$program $sizes)
    [ $? -le 1 ] || exit 1
    printf '%s\n' "$out"
    off=$((off + $(printf '%s\n' "$out" | LC_ALL=C sed -n 's/^\([0-9]*\) of [0-9]* predictions are off$/\1/p')))
done
echo "figure $off"
