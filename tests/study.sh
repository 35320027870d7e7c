#!/bin/sh
# study.sh BUILD WORK: `tide study` as a user runs it: exit codes, messages, the table and the JSON,
# the same bytes on any number of cores.
set -eu
tide=$1/tools/tide work=$2/study traces=${TIDE_TEST_SOURCE:?}/tests/traces
rm -rf "$work"
mkdir -p "$work"
fail() { echo "study: $*"; exit 1; }
ends() { # STATUS TEXT ARGS: ends so, and says so on stderr
    wanted=$1 text=$2 status=0
    shift 2
    "$tide" study "$@" >"$work/out" 2>"$work/err" || status=$?
    [ $status = "$wanted" ] || fail "tide study $* ends with $status: $(cat "$work/err")"
    [ -z "$text" ] || grep -qF -e "$text" "$work/err" || fail "tide study $* says: $(cat "$work/err")"
}
printf 'op,id,bytes,stream,time_us\na,0,1000,0,0\nf,1,1000,0,1\n' >"$work/bad.csv"

# The research's row: CUDA.jl's rule spends a quarter of the time in collections that free nothing.
ends 0 '' full-static train --policy cudajl,reserve --json
python3 - "$work/out" <<'END' || fail "the JSON: $(cat "$work/out")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [(r["workload"], r["policy"]) for r in rows] == [
    (w, p) for w in ("full-static", "train") for p in ("cudajl", "reserve")]
assert rows[0]["fruitless_share"] > 20 and rows[1]["collector"] < 1
for r in rows:
    for name in ("limit peak_live ideal_ns steps overhead overhead_off collector collections "
                 "fruitless forced failed worst_step_ns p99_step_ns peak_held mean_held").split():
        assert name in r and r[name] >= 0, name
END

# The same bytes whenever and wherever.
everything="$traces/linalg-mix.csv.gz threads --limit 1.02x,none --seeds 3 --json"
ends 0 '' $everything --jobs 1 --policy 'reserve,priced(x0=0.5),sqrt,cudajl(backoff=1),softmax,rates'
mv "$work/out" "$work/one"
ends 0 '' $everything --jobs 5 --policy 'reserve,priced(x0=0.5),sqrt,cudajl(backoff=1),softmax,rates'
cmp "$work/one" "$work/out" || fail "other figures on other cores"
[ "$(wc -l <"$work/out")" = 24 ] || fail "24 rows: $(cat "$work/out")"

# And on every machine: where a rule was changed on purpose, the new sum stands here from then on.
ends 0 '' half threads --policy 'cudajl,priced,sqrt,never' --seeds 2 --json
[ "$(cksum <"$work/out")" = '681999175 3980' ] || fail "another machine's bytes: $(cksum <"$work/out")"

# The optimum, in the table and as JSON; what there is none for; a sweep.
ends 0 '' train threads --policy 'oracle,headroom(share=0.5:0.9:0.2)' --seeds 2
grep -q '^  oracle .* 0.1[0-9] +- 0.0' "$work/out" || fail "no oracle: $(cat "$work/out")"
grep -q 'dearer than the oracle: headroom(share=0.5) +[0-9.]* ([0-9]* %), headroom(share=0.7) .*(share=0.9)' "$work/out" ||
    fail "no distances: $(cat "$work/out")"
grep -q '^  oracle .* none: the program has several threads' "$work/out" ||
    fail "an oracle of threads: $(cat "$work/out")"
ends 0 '' full-static threads "$traces/linalg-mix.csv.gz" --policy oracle,never --seeds 1 --json
python3 - "$work/out" <<'END' || fail "the oracle's JSON: $(cat "$work/out")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r.get("lacks") for r in rows] == [None, None, "the program has several threads"] + [None] * 3
assert [r.get("near") for r in rows] == [False, False, None, False, True, False]
for r in rows:
    assert "lacks" in r or abs(r["cost"] - r["overhead"] - r["collector"] / 10) < 1e-5
assert rows[0]["cost"] < rows[1]["cost"] and rows[4]["cost"] < rows[5]["cost"]
END

# Nothing beside it is cheaper, with whatever parameters, even where it is only nearly an optimum.
ends 0 '' "$traces/linalg-mix.csv.gz" --limit 1.2x --seeds 2 --json \
    --policy 'oracle,softmax(share=0.8:0.98:0.02),softmax(share=0.9),headroom(share=0.5:1:0.1)'
python3 - "$work/out" <<'END' || fail "a policy is cheaper than the oracle: $(cat "$work/out")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert rows[0]["near"] and all(rows[0]["cost"] <= r["cost"] for r in rows)
END

# The table; every workload where none is named; a model.
ends 0 '' --seeds 1 --policy never
for name in train full-static full-short half grow short-syncs old-garbage bursty-slack no-sync \
    dense threads pinned; do
    grep -q "^$name: " "$work/out" || fail "no $name: $(cat "$work/out")"
done
ends 0 '' no-sync --policy every --model full=1ms,low=1,high=1 --json
grep -q '"collections": [1-9]' "$work/out" || fail "every: $(cat "$work/out")"
ends 0 '' "$traces/linalg-mix.csv.gz"
grep -q 'reserve .*98.32 MiB' "$work/out" || fail "1.2 times the peak: $(cat "$work/out")"

# What takes too long is told; the others' rows are as ever, and nothing wraps around.
ends 1 '' train --model heap=1TiB,heap_mib=60s --limit 6GiB --policy never,every,oracle --seeds 1
grep -q '^  every .* none: a run takes longer than 2^57 ns' "$work/out" || fail "years: $(cat "$work/out")"
grep -q '^  oracle .* none: some run of it may take longer than 2^57 ns' "$work/out" ||
    fail "an oracle of years: $(cat "$work/out")"
printf 'op,id,bytes,stream,time_us\na,0,1000,0,0\nf,0,1000,0,18000000000000000\n' >"$work/years.csv"
ends 2 "$work/years.csv: a run takes longer than 2^57 ns (4.5 years) of virtual time" "$work/years.csv"

# Where allocations failed less was done, and nothing is the better for it.
printf 'op,id,bytes,stream,time_us\na,1,8589934592,0,0\nf,1,8589934592,0,50000\na,2,1000000,0,50000\nf,2,1000000,0,100000\n' \
    >"$work/fail.csv"
ends 0 '' "$work/fail.csv" --limit 0.5x,1.2x --policy reserve,oracle --seeds 1
[ "$(grep -c ' 1.0  .*  incomplete$' "$work/out")" = 2 ] || fail "no marks: $(cat "$work/out")"
[ "$(grep -c 'dearer than the oracle' "$work/out")" = 1 ] || fail "a distance of failures: $(cat "$work/out")"
ends 0 '' "$work/fail.csv" --limit 0.5x,1.2x --policy reserve --seeds 1 --json
[ "$(grep -c '"incomplete": true' "$work/out")" = 1 ] || fail "no marks: $(cat "$work/out")"

# Whatever a file is called, the JSON is JSON, and the table writes no control characters.
odd=$(printf '%s/odd\377\033[31m\302\205"ä.csv' "$work")
cp "$work/fail.csv" "$odd"
ends 0 '' "$odd" --policy never --seeds 1 --json
python3 - "$work/out" <<'END' || fail "the JSON of an odd name: $(cat "$work/out")"
import json, sys
row = json.loads(open(sys.argv[1], "rb").read().decode("utf-8"))
assert row["workload"].endswith('/odd?\x1b[31m??"ä.csv'), row["workload"]
END
ends 0 '' "$odd" --policy never --seeds 1
grep -qF 'odd??[31m??"ä.csv: 1 steps' "$work/out" || fail "the table of an odd name: $(cat "$work/out")"

# What nobody could read was no success.
for words in 'study train --seeds 1 --policy never' 'study train --seeds 1 --policy never --json' \
    'study train threads --limit 1.02x,1.2x,2x,3x,4x,none --seeds 1 --json' 'study --help' --help --version; do
    status=0
    # shellcheck disable=SC2086 # words
    "$tide" $words >/dev/full 2>"$work/err" || status=$?
    [ $status = 1 ] || fail "tide $words into a full disk ends with $status"
    grep -q '^tide: standard output cannot be written' "$work/err" ||
        fail "tide $words into a full disk says: $(cat "$work/err")"
done
status=0
"$tide" study --frob >/dev/full 2>&1 || status=$?
[ $status = 2 ] || fail "a full disk hides bad input: $status"

# The help has all there is to choose from.
ends 0 '' --help
for word in full-static reserve cudajl softmax rates pressure sqrt headroom priced every x0 backoff \
    stall 'Exit status'; do
    grep -q "$word" "$work/out" || fail "the help lacks $word"
done

# The page has every parameter.
for row in $(sed -n 's/^    \([a-z_0-9]*\)  *[^ ]*, .*: .*/\1/p' "$work/out"); do
    grep -q "^| .*| \`$row\` |" "$TIDE_TEST_SOURCE/docs/policies.md" || fail "policies.md lacks $row"
done

# Bad input: what is wrong where.
ends 2 "$work/bad.csv:3: expected the id of an allocated block, found '1'" "$work/bad.csv"
ends 2 "$work/none.csv: cannot be opened: No such file or directory" "$work/none.csv"
ends 2 "neither a workload nor a file 'tran'" tran
ends 2 'there is no policy "hopeful"; there are: reserve, cudajl, never' --policy hopeful
ends 2 "column 12: expected x0 from 0.01 to 1, found '7)'" --policy 'never,reserve(x0=7)'
ends 2 'column 12: expected FROM:TO:STEP of one unit' --policy 'reserve(x0=0.1:0.9)'
ends 2 'column 12: expected x0 from 0.01 to 1' --policy 'reserve(x0=0:1:0.1)'
ends 2 'at most 256 policies' --policy 'reserve(x0=0.1:1:0.001)'
ends 2 "expected the whole number n from 1 to 1e+09, found '1.5)'" --policy 'every(n=1.5)'
ends 2 '`tide study` has it, by that name alone' --policy 'oracle()'
ends 2 '"oracle" is no policy: it knows the whole program' --policy 'oracle(x=1)'
ends 2 "--limit wants bytes, 4GiB, a factor such as 1.2x, or none, not '1.2y'" --limit 1.2y
ends 2 "--seeds wants a number from 1 to 1000, not '0'" --seeds 0
ends 2 "--model \"stal=5ms\": column 1: expected one of minor, full" --model stal=5ms
ends 2 "unrecognized option '--frob'" --frob

# Predictions against runs: what is wrong with the program is told, nothing is left behind. Whether
# predictions hold depends on the machine; that each is there does not.
mkdir -p "$work/tmp"
validates() { # STATUSES TEXT ARGS
    wanted=$1 text=$2 status=0
    shift 2
    TMPDIR=$work/tmp TIDE_DEVICE=host "$tide" study --validate "$@" \
        >"$work/out" 2>"$work/err" || status=$?
    case " $wanted " in
    *" $status "*) ;;
    *) fail "--validate $* ends with $status: $(cat "$work/err")" ;;
    esac
    [ -z "$text" ] || grep -qF -e "$text" "$work/err" || fail "--validate $*: $(cat "$work/err")"
    [ -z "$(ls -A "$work/tmp")" ] || fail "--validate $* leaves files"
}
validates 2 'expected "--" before the program'
validates 2 'which program?' --
validates 2 '--runs wants a number from 1 to 100' --runs 0 -- true
validates 2 '/absent/x cannot be run: No such file or directory' -- /absent/x
validates 2 'false ends with status 1 under TIDE_POLICY=every' -- false
validates 2 'true recorded nothing' -- true
validates 2 'sh ends with signal 9 under' -- sh -c 'kill -9 $$'
(trap '' HUP && validates 2 'sh ends with status 7 under' -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 7')
validates '0 1' '' --runs 1 -- \
    "$1/examples/c/dense" --rows 4000 --features 50 --batch 256 --epochs 2 --quiet
[ "$(grep -cE '(holds|is off|both are off|collections are off)$' "$work/out")" = 9 ] ||
    fail "--validate prints: $(cat "$work/out")"
grep -qE '^[0-9] of 9 predictions are off$' "$work/out" || fail "no sum: $(cat "$work/out")"
