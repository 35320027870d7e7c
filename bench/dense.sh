#!/bin/sh
# dense.sh total|hand|worst: examples/c/dense at full size under 4 GiB, 100 epochs, the host waiting once an epoch.
#   total   seconds, collected early; the median of five runs
#   hand    that over the same when freed by hand; medians of nine runs each that take turns, so that both see the same processor clock:
#           a step is the host's work
#   worst   the worst step over the median one, epochs 2 to 100; the median of five runs
set -eu
bin=build-release/examples/c/dense
runs=5
[ "$1" != hand ] || runs=9
run() { "$bin" --free="$1" --rows 300000 --limit 4GiB --epochs 100 --wait --quiet --summary | grep '^summary'; }
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
median() { sort -n | sed -n $((runs / 2 + 1))p; }
eager= hand=
i=0
while [ $i -lt $runs ]; do
    [ "$1" != hand ] || [ $((i % 2)) = 0 ] || hand="$hand$(run hand)
"
    line=$(run eager)
    echo "$line"
    eager="$eager$line
"
    [ "$1" != hand ] || [ $((i % 2)) = 1 ] || hand="$hand$(run hand)
"
    i=$((i + 1))
done
total() { printf '%s' "$1" | field total_s | median; }
case $1 in
total) echo "figure $(total "$eager")" ;;
hand) printf '%s' "$hand"; awk "BEGIN { printf \"figure %.3f\\n\", $(total "$eager") / $(total "$hand") }" ;;
worst) printf '%s' "$eager" | sed 's/.*median_step_us=\([^ ]*\) worst_step_us=\([^ ]*\).*/\1 \2/' | awk '{ print $2 / $1 }' | median | sed 's/^/figure /' ;;
*) exit 2 ;;
esac
