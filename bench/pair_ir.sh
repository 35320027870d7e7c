#!/bin/sh
# pair_ir.sh: the figure of 2.1a: instructions of taking and giving back a block of 64 KiB on one
# stream: what callgrind counts for 2N pairs less what it counts for N, over N.
set -eu
command -v valgrind >/dev/null 2>&1 || { echo "pair_ir: skipped, valgrind is not here" >&2; exit 77; }
pairs=100000
export TIDE_HOST_DEVICE_MEMORY=4GiB # valgrind leaves little room for addresses
count() {
    out=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null build-release/bench/tide-bench pair --device host --size 64KiB \
        --held 1GiB --rounds 1 --n "$1" 2>&1) || { printf '%s\n' "$out" >&2; exit 1; }
    printf '%s\n' "$out" | sed -n 's/.*Collected *: *\([0-9]*\).*/\1/p'
}
once=$(count $pairs)
twice=$(count $((2 * pairs)))
echo "instructions: $once with $pairs pairs, $twice with twice as many"
LC_ALL=C awk "BEGIN { printf \"figure %.2f\\n\", ($twice - $once) / $pairs }"
