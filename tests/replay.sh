#!/bin/sh
# replay.sh BUILD WORK: `tide replay` as a user runs it: exit codes, messages, the table and the
# JSON.
set -eu
tide=$1/tools/tide work=$2/replay traces=${TIDE_TEST_SOURCE:?}/tests/traces
export TIDE_DEVICE="${TIDE_TEST_DEVICE:-host}"
rm -rf "$work"
mkdir -p "$work"
fail() { echo "replay: $*"; exit 1; }
ends() { # STATUS TEXT ARGS: ends so, and says so on stderr
    wanted=$1 text=$2 status=0
    shift 2
    "$tide" "$@" >"$work/out" 2>"$work/err" || status=$?
    [ $status = "$wanted" ] || fail "tide $* ends with $status: $(cat "$work/err")"
    [ -z "$text" ] || grep -qF -e "$text" "$work/err" || fail "tide $* says: $(cat "$work/err")"
}
header=op,id,bytes,stream,time_us
printf '%s\na,0,1000,0,0\nf,0,1000,0,1\n' $header >"$work/small.csv"
printf '%s\na,0,1000,0,0\nf,1,1000,0,1\n' $header >"$work/bad.csv"
head -c 2000 "$traces/linalg-mix.csv.gz" >"$work/cut.csv.gz"

# What nobody could read was no success.
for words in "replay $work/small.csv --json" "replay $work/small.csv" info 'info --env' 'replay --help'; do
    status=0
    # shellcheck disable=SC2086 # words
    "$tide" $words >/dev/full 2>"$work/err" || status=$?
    [ $status = 1 ] || fail "tide $words into a full disk ends with $status"
    grep -qF 'tide: standard output cannot be written' "$work/err" ||
        fail "tide $words into a full disk says: $(cat "$work/err")"
done

# Figures: all there, and those that anyone can tell.
ends 0 '' replay "$traces/linalg-mix.csv.gz" --streams 2 --passes 3 --lag 10 --pinned 10 --json
python3 - "$work/out" <<'END' || fail "the JSON: $(cat "$work/out")"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
f = json.loads(lines[0])
assert len(lines) == 1
for name in ("events ns_per_event peak_live peak_reserved ratio driver_calls compactions "
             "bytes_moved failed verified").split():
    assert name in f and f[name] >= 0, name
assert f["events"] == 2 * 3536 and f["ns_per_event"] > 0 and f["failed"] == 0 and f["verified"] == 0
assert abs(f["ratio"] - f["peak_reserved"] / f["peak_live"]) < 1e-5
END
ends 0 '' replay "$traces/linalg-mix.csv.gz" --limit 1.5x --pool none
grep -q 'peak reserved .* of that' "$work/out" || fail "the table: $(cat "$work/out")"
ends 0 '' replay "$traces/linalg-mix.csv.gz" --touch --scale 64
grep -q 'verified *1748 blocks, 0 words differ' "$work/out" || fail "the table: $(cat "$work/out")"
ends 0 '' replay "$work/small.csv" --device host --limit 50%

# What does not fit: the report once, and the figures all the same.
ends 1 'wanted by tide replay' replay "$traces/linalg-mix.csv.gz" --limit 16MiB --json
grep -q '"failed": [1-9]' "$work/out" || fail "failed: $(cat "$work/out")"
[ "$(grep -c 'out of memory' "$work/err")" = 1 ] || fail "more than one report"
ends 1 'there is no host:9' replay "$work/small.csv" --device host:9

# Bad input: what is wrong where.
ends 2 "$work/bad.csv:3: expected the id of an allocated block, found '1'" replay "$work/bad.csv"
ends 2 "expected the rest of the gzip stream, found 'end of file'" replay "$work/cut.csv.gz"
ends 2 "$work/none.csv: cannot be opened: No such file or directory" replay "$work/none.csv"
ends 2 'which trace?' replay --json
ends 2 'one trace at a time' replay a b
POSIXLY_CORRECT=1 ends 0 '' replay "$work/small.csv" --passes 1
# The last limit counts, a factor or not.
ends 0 '' replay "$traces/linalg-mix.csv.gz" --limit 16MiB --limit 1.5x
ends 1 'wanted by tide replay' replay "$traces/linalg-mix.csv.gz" --limit 1.5x --limit 16MiB
ends 2 "unrecognized option '--frob'" replay "$work/small.csv" --frob 1
ends 2 "option '--lag' requires an argument" replay "$work/small.csv" --lag
ends 2 "--streams wants a number from 1 to 64, not '0'" replay "$work/small.csv" --streams 0
ends 2 "--streams wants a number from 1 to 64, not '65'" replay "$work/small.csv" --streams 65
ends 2 "--passes wants a number from 1 to 1000, not '2x'" replay "$work/small.csv" --passes 2x
ends 2 "--lag wants a number from 0 to 4294967296, not '-1'" replay "$work/small.csv" --lag -1
ends 2 "--pinned wants a number from 0 to 100, not '101'" replay "$work/small.csv" --pinned 101
ends 2 "$work/small.csv:3: more than 1 events; --events N reads as many as N" \
    replay "$work/small.csv" --events 1
ends 0 '' replay "$work/small.csv" --events 2
ends 2 "--events wants a number from 1 to 1099511627776, not '0'" \
    replay "$work/small.csv" --events 0
ends 2 "--scale wants a number from 1 to 4294967296, not ''" replay "$work/small.csv" --scale ''
ends 2 "--passes wants a number from 1 to 1000, not '99999999999999999999'" \
    replay "$work/small.csv" --passes 99999999999999999999
for limit in much 0x 1.0.2x -1x x 200%; do
    ends 2 "--limit wants bytes, 4GiB, 50% or a factor such as 1.02x, not '$limit'" \
        replay "$work/small.csv" --limit $limit
done
ends 2 puddle replay "$work/small.csv" --pool puddle
ends 2 abacus replay "$work/small.csv" --device abacus
ends 2 "there is no command 'frob'" frob
ends 2 'which command?'

# Few addresses: a host device that nobody writes to has as much memory as they allow, and the
# figures are the same. Not on a GPU, which wants far more of them.
case $TIDE_DEVICE in
host*)
    for streams in 1 3; do
        ends 0 '' replay "$traces/linalg-mix.csv.gz" --streams $streams --json
        sed 's/"ns_per_event": [0-9.]*, //' "$work/out" >"$work/all"
        for limit in 20000000 8000000 4000000; do
            status=0
            (ulimit -v $limit &&
                "$tide" replay "$traces/linalg-mix.csv.gz" --streams $streams --json) \
                >"$work/out" 2>"$work/err" || status=$?
            [ $status = 0 ] || fail "with ulimit -v $limit: ends with $status: $(cat "$work/err")"
            sed 's/"ns_per_event": [0-9.]*, //' "$work/out" | cmp -s "$work/all" - ||
                fail "with ulimit -v $limit: $(cat "$work/out")"
        done
    done
    status=0
    printf '%s\na,0,3000000000,0,0\n' $header >"$work/large.csv"
    (ulimit -v 2000000 && "$tide" replay "$work/large.csv") >"$work/out" 2>"$work/err" || status=$?
    [ $status = 1 ] && grep -q 'address space.*ulimit -v' "$work/err" ||
        fail "with ulimit -v 2000000: ends with $status: $(cat "$work/err")"
    ;;
esac

# What is played stays as it is, whatever is to be recorded.
cp "$work/small.csv" "$work/recorded.csv"
TIDE_TRACE=$work/recorded.csv ends 0 '' replay "$work/recorded.csv"
cmp -s "$work/small.csv" "$work/recorded.csv" || fail "a replay recorded over what it played"

rm -rf "$work"
