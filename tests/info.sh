#!/bin/sh
# info.sh BUILD: `tide info` as scripts use it: E15's table by injected figures, what is printed
# where, exit codes; and what it makes of the environment.
set -eu
tide=$1/tools/tide
export TIDE_DEVICE="${TIDE_TEST_DEVICE:-host}"
unset ARGP_HELP_FMT POSIXLY_CORRECT # which set argp's help, and where options may stand
out=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf "$out" "$out.err" "$folder"' EXIT
fail() { echo "info: $*"; exit 1; }
jobs() { # NUMBER LINE'S-END ARGS: stdout is the number alone, stderr one line
    wanted=$1 line=$2
    shift 2
    "$tide" info --jobs "$@" >"$out" 2>"$out.err" || fail "--jobs $*: $(cat "$out.err")"
    [ "$(cat "$out")" = "$wanted" ] || fail "--jobs $* prints $(cat "$out")"
    [ "$(wc -l <"$out.err")" = 1 ] || fail "--jobs $* says $(cat "$out.err")"
    grep -qE "^tide info: (host|cuda):[0-9]+ \(.*\), $line: $wanted jobs$" "$out.err" ||
        fail "--jobs $* says $(cat "$out.err")"
}
jobs 34 '139.0 GiB free, 128 threads' --free 139GiB --threads 128
jobs 16 '139.0 GiB free, 16 threads' --free 139GiB --threads 16
jobs 3 '15.7 GiB free, 16 threads' --threads 16 --free 15.7GiB
jobs 1 '3.0 GiB free, 16 threads' --free 3GiB --threads 16
case $TIDE_DEVICE in
host*)
    jobs 77 'no GPU, 77 threads' --threads 77
    threads=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) # which obeys them
    # A limit on processor time is told as fewer threads.
    grep -qs '^[0-9]' /sys/fs/cgroup/cpu.max ||
        grep -qs '^[0-9]' /sys/fs/cgroup/cpu/cpu.cfs_quota_us ||
        jobs "$threads" "no GPU, $threads threads"
    ;;
esac
for bad in '--free' '--free much' '--threads -1' '--hosts 3'; do
    status=0
    "$tide" info --jobs $bad >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || fail "--jobs $bad ends with $status"
done
# ---- help ----

version=$(sed -n "s/.*version: '\([0-9.]*\)'.*/\1/p" "$TIDE_TEST_SOURCE/meson.build" | head -1)
for command in '' info replay; do
    # shellcheck disable=SC2086 # no command is no argument
    "$tide" $command --help >"$out" 2>"$out.err" || fail "$command --help ends with $?"
    [ ! -s "$out.err" ] || fail "$command --help says $(cat "$out.err")"
    grep -q "^Usage: tide${command:+ $command} " "$out" || fail "$command --help: $(cat "$out")"
    [ "$(awk 'length > 79' "$out")" = "" ] || fail "$command --help is wider than a terminal"
    ! grep -q 'Mandatory or optional' "$out" || fail "$command --help has argp's note"
    # shellcheck disable=SC2086
    "$tide" $command --bogus >/dev/null 2>"$out.err" && fail "$command --bogus is no error"
    grep -q "^tide${command:+ $command}: unrecognized option '--bogus'" "$out.err" ||
        fail "$command --bogus says $(cat "$out.err")"
    # shellcheck disable=SC2086
    [ "$("$tide" $command --version)" = "tide (Tidepool) $version" ] || fail "$command --version"
done
# Both know the same options: the help of `tide replay`, and its page.
"$tide" replay --help | grep -oE '^ {2,6}(-., )?--[a-z]+' | grep -oE -e '--[a-z]+' |
    grep -vxE -e '--(help|usage|version)' | LC_ALL=C sort >"$out"
grep -oE '^\| `--[a-z]+' "$TIDE_TEST_SOURCE/docs/replay.md" | cut -c4- | LC_ALL=C sort |
    diff "$out" - || fail "docs/replay.md and tide replay --help have other options"
for bad in '--free 1GiB' '--device --env' '--env --jobs' '--jobs --threads 0' 'spare' '-x'; do
    status=0
    # shellcheck disable=SC2086
    "$tide" info $bad >/dev/null 2>"$out.err" || status=$?
    [ $status = 2 ] || fail "info $bad ends with $status"
done

# ---- the device ----

"$tide" info --device | grep -qE '^(host|cuda):' || fail "--device"

# ---- the environment ----

# What is set by the one who runs the tests is no matter here.
unset CUDA_HOME CUDA_PATH NVTX_INJECTION64_PATH \
    $(env | sed -n 's/^\(TIDE_[A-Za-z0-9_]*\)=.*/\1/p' | grep -v '^TIDE_TEST_') || true
env_rows() { # STATUS ASSIGNMENT...: what `tide info --env` prints with these is in $out
    wanted=$1
    shift
    status=0
    env TIDE_DEVICE="${TIDE_TEST_DEVICE:-host}" "$@" "$tide" info --env >"$out" 2>"$out.err" ||
        status=$?
    [ $status = "$wanted" ] || fail "--env with $*: ends with $status: $(cat "$out" "$out.err")"
}
row() { # VARIABLE PATTERN: its row, one, is VARIABLE and then the pattern
    [ "$(grep -cE "^$1 " "$out")" = 1 ] || fail "--env: $1 has not one row: $(cat "$out")"
    grep -qE "^$1 +$2\$" "$out" || fail "--env: wanted '$2', got '$(grep -E "^$1 " "$out")'"
}
env_rows 0
[ ! -s "$out.err" ] || fail "--env says $(cat "$out.err")"
# All that the page documents for programs is there, and nothing else.
documented=$(sed '/^For the tests/,$d' "$TIDE_TEST_SOURCE/docs/environment.md" |
    grep -E '^(\||- `[A-Z])' | cut -d'|' -f1-2 |
    grep -oE '`(TIDE|CUDA|NVTX)_[A-Z0-9_]+`' | tr -d '`' |
    LC_ALL=C sort -u)
listed=$(sed 1d "$out" | cut -d' ' -f1 | LC_ALL=C sort -u)
[ "$documented" = "$listed" ] ||
    fail "--env lists other variables than docs/environment.md: $documented / $listed"
row variable 'value +origin +verdict'
row TIDE_DEVICE '[a-z]+[:0-9]* +environment  taken'
row TIDE_POOL 'tide +default'
row TIDE_LIMIT 'none +default'
row TIDE_SPILL '0 +default'
row TIDE_CACHE_MAX '256MiB +default'
row TIDE_LOG 'silent +default'
row TIDE_DEBUG '0 +default'
row TIDE_DEFAULT_MEMORY 'device +default'
row TIDE_PINNED_LIMIT '50% +default'
! grep -q ' $' "$out" || fail "--env: blanks at a line's end"
! grep -nE '  +(default|environment)  *(default|environment)' "$out" ||
    fail "--env: a value is empty"
# Every column begins where its heading does.
aligned() {
    awk 'NR == 1 { v = index($0, "value"); o = index($0, "origin"); next }
         { if (substr($0, v - 1, 1) != " " || substr($0, v, 1) == " ") exit 1 }
         { if (substr($0, o) !~ /^(default|environment)/) exit 1 }' "$out" ||
        fail "--env: not aligned: $(cat "$out")"
}
aligned
env_rows 0 TIDE_POOL=split:64MiB TIDE_LIMIT=1GiB TIDE_DEBUG=sample:9 TIDE_LOG=info \
    TIDE_CACHE_DIR="$folder/with/a/rather/long/name" TIDE_TEST_ANYTHING=1 GC_ANYTHING=1
row TIDE_POOL 'split:64MiB +environment  taken'
row TIDE_LIMIT '1GiB +environment  taken'
row TIDE_DEBUG 'sample:9 +environment  taken'
row TIDE_CACHE_DIR "$folder/with/a/rather/long/name +environment  taken"
aligned
[ ! -s "$out.err" ] || fail "--env says $(cat "$out.err")"
! grep -q ANYTHING "$out" || fail "--env lists what is none of its own"
# What is bad, by the table and by those who look names and files up; whatever else is bad, and
# however the log is.
env_rows 1 TIDE_LIMIT=lots TIDE_POOL=foo TIDE_COLLECTOR=mark TIDE_POLICY=hopeful TIDE_SPILL=maybe \
    TIDE_LOG=silent TIDE_TRACE=/absent/x.csv TIDE_DEFAULT_MEMORY=clay \
    NVTX_INJECTION64_PATH=/absent/tool.so TIDE_CACHE_DIR=/dev/null/x
row TIDE_LIMIT 'lots +environment  not understood \(wanted: bytes, 4GiB or 50%\); tide_open fails'
row TIDE_POOL 'foo +environment  not understood \(wanted: tide, driver, .*\); the default stays'
row TIDE_COLLECTOR 'mark +environment  not understood \(wanted: .*refcount.*\); the default stays'
row TIDE_POLICY 'hopeful +environment  not understood \(there is no policy "hopeful"; there are: reserve, .*\); the default stays'
row TIDE_SPILL 'maybe +environment  not understood \(wanted: 0 or 1\); the default stays'
row TIDE_LOG 'silent +environment  taken'
row TIDE_TRACE '/absent/x.csv +environment  cannot be written: .*'
row TIDE_CACHE_DIR '/dev/null/x +environment  cannot be written: .*'
row TIDE_DEFAULT_MEMORY \
    'clay +environment  not understood \(wanted: device, .*\); the default stays'
row NVTX_INJECTION64_PATH '/absent/tool.so +environment  of no use: .*'
aligned
env_rows 1 TIDE_LIMT=4GiB TIDE_POOl=tide TIDE_SPIL_=1 TIDE_FLAVOUR=sweet
row TIDE_LIMT '4GiB +environment  unknown: nobody reads it; did you mean TIDE_LIMIT\?'
row TIDE_POOl 'tide +environment  unknown: nobody reads it; did you mean TIDE_POOL\?'
row TIDE_SPIL_ '1 +environment  unknown: nobody reads it; did you mean TIDE_SPILL\?'
row TIDE_FLAVOUR 'sweet +environment  unknown: nobody reads it'
env_rows 1 TIDE_DEVICE=host:7
row TIDE_DEVICE 'host:7 +environment  there is no host:7; .*'
env_rows 1 "TIDE_POOL=two
lines"
row TIDE_POOL 'two\?lines +environment  not understood .*'
# Looking records nothing, whatever the name.
env_rows 0 TIDE_TRACE="$folder/run.csv"
row TIDE_TRACE "$folder/run.csv +environment  taken"
[ -z "$(ls "$folder")" ] || fail "--env leaves files: $(ls "$folder")"
