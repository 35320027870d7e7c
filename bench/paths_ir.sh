#!/bin/sh
# paths_ir.sh [BUILD]: instructions of a climb that ends in the report, of a collection of 100,000
# arrays, and of an operation of the interpreter (all threads; the other two: the calling one):
# what callgrind counts for 2N of them less what it counts for N, over N.
set -eu
build=${1:-build-release}
command -v valgrind >/dev/null 2>&1 || { echo "paths_ir: skipped, valgrind is not here" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count() { # PATH N: the calling thread's
    out=$(valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$work/out" \
        "$build/bench/paths" "$1" "$2" 2>&1) || { printf '%s\n' "$out" >&2; exit 1; }
    sed -n 's/^\(totals\|summary\): *\([0-9]*\).*/\2/p' "$work/out-01" | tail -n 1
    rm -f "$work"/out*
}
interpreted() { # N: what the interpreter's loop takes, on whatever thread
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$build/bench/paths" operation "$1" \
        >/dev/null 2>&1
    callgrind_annotate --inclusive=yes --threshold=100 "$work/out" | tr -d , |
        sed -n 's/^ *\([0-9][0-9]*\).*:tidei_vm_run[^_a-z].*/\1/p' | head -n 1
    rm -f "$work"/out*
}
for path in "climb 200" "collect 10"; do
    set -- $path
    once=$(count "$1" "$2")
    twice=$(count "$1" $((2 * $2)))
    echo "$1: $(((twice - once) / $2))"
done
once=$(interpreted 500)
twice=$(interpreted 1000)
echo "operation: $(((${twice:-0} - ${once:-0}) / 500))"
