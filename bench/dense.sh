#!/bin/sh
# dense.sh total|hand|worst|record|graph|digits: examples/c/dense at full size under 4 GiB, 100 epochs, the host
# waiting once an epoch.
#   total   seconds, collected early; the median of five runs
#   hand    that over the same when freed by hand; medians of nine runs each that take turns, so that both see the same processor clock:
#           a step is the host's work
#   worst   the worst step over the median one, epochs 2 to 100; the median of five runs
#   record  seconds with a recording as JSON over those without; the fastest of nine runs each that take turns: what disturbs a run
#           only adds. On a host device a smaller size, and one thread multiplies, which leaves processors for the rest
#   graph   seconds with the steps made by a graph, where the weights come to what they come to by calls; the median of five runs that
#           take turns with such by calls
#   digits  the same of examples/c/digits: its 40 epochs, whose accuracy is the same
set -eu
export LC_ALL=C # figures have a point, for sort and awk too
bin=build-release/examples/c/dense
runs=5
rows=300000 epochs=100
case $1 in hand | record) runs=9 ;; esac
[ "$1" != record ] || case $(build-release/tools/tide info --device) in cuda*) ;; *) rows=4096 epochs=20; export OPENBLAS_NUM_THREADS=1 ;; esac
run() { "$bin" --free="$1" --rows $rows --limit 4GiB --epochs $epochs --wait --quiet --summary | grep '^summary'; }
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
median() { sort -n | sed -n $((runs / 2 + 1))p; }
total() { printf '%s' "$1" | field total_s | median; }

# Runs the command with and without --graph in turns. Each prints seconds, and a last line of results.
by_graph() {
    with= without= said=
    i=0
    while [ $i -lt $((2 * runs)) ]; do
        case $((i % 4)) in 0 | 3) way=--graph ;; *) way= ;; esac
        out=$("$@" $way)
        one=$(printf '%s\n' "$out" | field total_s)
        now=$(printf '%s\n' "$out" | tail -n 1)
        [ -z "$said" ] || [ "$said" = "$now" ] || { echo "by a graph: $now, by calls: $said"; exit 1; }
        said=$now
        if [ -n "$way" ]; then with="$with$one
"; else without="$without$one
"; fi
        i=$((i + 1))
    done
    echo "$said; by calls $(printf '%s' "$without" | median) s"
    echo "figure $(printf '%s' "$with" | median)"
    exit
}
case $1 in
graph) by_graph "$bin" --rows $rows --limit 4GiB --epochs $epochs --wait --quiet --summary --weights ;;
digits) by_graph build-release/examples/c/digits --summary ;;
esac

if [ "$1" = record ]; then
    file=$(mktemp -u).json
    trap 'rm -f "$file"' EXIT
    with= without=
    i=0
    while [ $i -lt $((2 * runs)) ]; do
        case $((i % 4)) in # with, without, without, with
        0 | 3) one=$(TIDE_TRACE="$file" run eager | field total_s); with="$with$one
" ;;
        *) one=$(run eager | field total_s); without="$without$one
" ;;
        esac
        rm -f "$file"
        i=$((i + 1))
    done
    fastest() { printf '%s' "$1" | sort -n | head -n 1; }
    echo "fastest with a recording $(fastest "$with") s, without $(fastest "$without") s"
    awk "BEGIN { printf \"figure %.3f\\n\", $(fastest "$with") / $(fastest "$without") }"
    exit
fi

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
case $1 in
total) echo "figure $(total "$eager")" ;;
hand) printf '%s' "$hand"; awk "BEGIN { printf \"figure %.3f\\n\", $(total "$eager") / $(total "$hand") }" ;;
worst) printf '%s' "$eager" | sed 's/.*median_step_us=\([^ ]*\) worst_step_us=\([^ ]*\).*/\1 \2/' | awk '{ print $2 / $1 }' | median | sed 's/^/figure /' ;;
*) exit 2 ;;
esac
