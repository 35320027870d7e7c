#!/bin/sh
# dense.sh total|hand|worst: examples/c/dense at full size under 4 GiB, 100 epochs, the host waiting once an epoch.
#   total   seconds, collected early; the median of five runs
#   hand    that over the same when freed by hand; medians of five runs that take turns
#   worst   the worst step over the median one, epochs 2 to 100; the median of five runs
set -eu
bin=build-release/examples/c/dense
run() { "$bin" --free="$1" --rows 300000 --limit 4GiB --epochs 100 --wait --quiet --summary | grep '^summary'; }
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
median() { sort -n | sed -n 3p; }
eager= hand=
for i in 1 2 3 4 5; do
    line=$(run eager)
    echo "$line"
    eager="$eager$line
"
    [ "$1" != hand ] || hand="$hand$(run hand)
"
done
total() { printf '%s' "$1" | field total_s | median; }
case $1 in
total) echo "figure $(total "$eager")" ;;
hand) awk "BEGIN { printf \"figure %.3f\\n\", $(total "$eager") / $(total "$hand") }" ;;
worst) printf '%s' "$eager" | sed 's/.*median_step_us=\([^ ]*\) worst_step_us=\([^ ]*\).*/\1 \2/' | awk '{ print $2 / $1 }' | median | sed 's/^/figure /' ;;
*) exit 2 ;;
esac
