#!/bin/sh
# demo.sh [RUNS]: the figure of 6.3: the tables of RUNS (3) runs of tools/demo.sh, and in how many of
# them the policy that collects early took longer than collecting where an allocation fails.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
build build-release $release_options
worse=0
for run in $(seq 1 "${1:-3}"); do
    TIDE_BUILD=build-release tools/demo.sh >build-release/demo.log
    sed -n '/^free /,/^Shown/p' build-release/demo.log
    LC_ALL=C awk '$1 == "eager" { e = $2 } $1 == "lazy" { l = $2 } END { exit !(e > l) }' \
        build-release/demo.log && worse=$((worse + 1))
done
echo "figure $worse"
