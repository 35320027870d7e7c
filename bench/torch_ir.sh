#!/bin/sh
# torch_ir.sh: the figure of 12.1-hook: instructions of taking and giving back 4000 bytes by PyTorch's
# hook: what callgrind counts for 2N pairs less what it counts for N, over N.
set -eu
command -v valgrind >/dev/null 2>&1 || { echo "torch_ir: skipped, valgrind is not here" >&2; exit 77; }
pairs=20000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count() {
    out=$(valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$work/out" build-release/bench/torch-pair "$1" \
        2>&1) || { printf '%s\n' "$out" >&2; exit 1; }
    sed -n 's/^\(totals\|summary\): *\([0-9]*\).*/\2/p' "$work/out-01" | tail -n 1
    rm -f "$work"/out*
}
once=$(count $pairs)
twice=$(count $((2 * pairs)))
echo "instructions: $once with $pairs pairs, $twice with twice as many"
LC_ALL=C awk "BEGIN { printf \"figure %.1f\\n\", ($twice - $once) / $pairs }"
