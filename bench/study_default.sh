#!/bin/sh
# study_default.sh [--quick] [--keep] [WORK]: whether the default policy is the best known. Plays every workload of the lab and every
# trace of tests/traces at each limit under every policy with its usual parameters, and against the optimum; study_default.py says
# what holds: a line for each row, and a verdict. The last line is "figure N": rows and sums that miss.
#   --quick  3 seeds, no optimum: a minute. Otherwise 20 seeds, and the optimum takes an hour or more
#   --keep   the optima of an earlier run in WORK are taken as they are: they do not depend on the default
#   WORK     where the rows go, as JSON; build-release/study-default
# SEEDS, ORACLE_SEEDS, LIMITS, ORACLE_LIMITS, JOBS change what they say; "own" is a workload's own limit, and 1.2x of a trace.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
quick= keep=
while :; do
    case ${1-} in
    --quick) quick=1 ;;
    --keep) keep=1 ;;
    *) break ;;
    esac
    shift
done
work=${1:-build-release/study-default}
seeds=${SEEDS:-${quick:+3}} oracle_seeds=${ORACLE_SEEDS:-${quick:+3}}
seeds=${seeds:-20} oracle_seeds=${oracle_seeds:-20}
limits=${LIMITS:-own 1.02x 1.1x 1.2x 1.5x 2x 3x none}
oracle_limits=${ORACLE_LIMITS-$limits}
tide=${TIDE:-build-release/tools/tide}
[ "${TIDE:-}" ] || targets=tools/tide build build-release $release_options
mkdir -p "$work"

traces=$(ls tests/traces/*.csv.gz)
alone="train full-static full-short half grow short-syncs old-garbage bursty-slack no-sync dense" # there is an optimum of these
policies=reserve,cudajl,never,priced,headroom,sqrt,pressure,softmax,rates

# play LIMIT POLICIES SEEDS FILE PROGRAM...: rows, as JSON
play() {
    limit=$1 who=$2 n=$3 file=$4
    shift 4
    case $limit in own) set -- "$@" ;; *) set -- "$@" --limit "$limit" ;; esac
    "$tide" study "$@" --policy "$who" --seeds "$n" ${JOBS:+--jobs "$JOBS"} --json >"$file.new"
    mv "$file.new" "$file"
}

rm -f "$work"/policies-*.json "$work"/default-*.json
[ "$keep" ] || rm -f "$work"/oracle-*.json
for limit in $limits; do
    # shellcheck disable=SC2086 # words
    play "$limit" "$policies" "$seeds" "$work/policies-$limit.json" $alone threads pinned $traces
done
for limit in $oracle_limits; do
    [ "$quick" ] && [ ! -f "$work/oracle-$limit.json" ] && continue
    # shellcheck disable=SC2086
    [ -f "$work/oracle-$limit.json" ] || play "$limit" oracle "$oracle_seeds" "$work/oracle-$limit.json" $alone $traces
    # the same seeds: the k-th collection takes the same time in both
    # shellcheck disable=SC2086
    play "$limit" reserve "$oracle_seeds" "$work/default-$limit.json" $alone $traces
done
python3 bench/study_default.py "$work" $limits
