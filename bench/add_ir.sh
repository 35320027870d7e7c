#!/bin/sh
# add_ir.sh: the figure of 5.5b: instructions that the calling thread takes for a small tide_add:
# what callgrind counts for 2N of them less what it counts for N, over N. Other threads, which wait
# by spinning, are not counted.
set -eu
command -v valgrind >/dev/null 2>&1 || { echo "add_ir: skipped, valgrind is not here" >&2; exit 77; }
adds=20000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count() {
    out=$(valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$work/out" build-release/bench/small-add "$1" \
        2>&1) || { printf '%s\n' "$out" >&2; exit 1; }
    sed -n 's/^\(totals\|summary\): *\([0-9]*\).*/\2/p' "$work/out-01" | tail -n 1
    rm -f "$work"/out*
}
once=$(count $adds)
twice=$(count $((2 * adds)))
echo "instructions: $once with $adds additions, $twice with twice as many"
LC_ALL=C awk "BEGIN { printf \"figure %.1f\\n\", ($twice - $once) / $adds }"
