#!/bin/sh
# demo.sh [RUNS]: the figure of 6.3: the tables of RUNS (3) runs of tools/demo.sh, and in how many
# of them the policy that collects early took longer than collecting where an allocation fails.
# Exit 1 where a run has not the table's three rows.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
build build-release $release_options
worse=0
for run in $(seq 1 "${1:-3}"); do
    TIDE_BUILD=build-release tools/demo.sh >build-release/demo.log
    sed -n '/^free /,/^Shown/p' build-release/demo.log
    more=$(LC_ALL=C awk '$1 ~ /^(eager|lazy|hand)$/ && $2 > 0 { rows++; total[$1] = $2 }
        END { if (rows != 3) exit 1; print (total["eager"] > total["lazy"]) }' \
        build-release/demo.log) || { say "run $run has not three rows"; exit 1; }
    worse=$((worse + more))
done
echo "figure $worse"
