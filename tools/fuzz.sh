#!/bin/sh
# fuzz.sh: builds the fuzz programs (tests/fuzz/fuzz_*.c) with clang's libFuzzer, AddressSanitizer
# and UBSan, and runs each on a copy of its corpus, with its dictionary.
#   tools/fuzz.sh [SECONDS [NAME...]]   each, or those named (expr, npy ...), for so many seconds; default 60
# A line for each says how many inputs it ran. One at which a program ended is kept, its path is
# told, and the exit status is 1; 77 where clang or its libFuzzer is not here.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
seconds=${1:-60}
case $seconds in
'' | *[!0-9]*) say "usage: tools/fuzz.sh [SECONDS [NAME...]]" >&2; exit 2 ;;
esac
[ $# = 0 ] || shift
all=
for f in tests/fuzz/fuzz_*.c; do
    f=${f#tests/fuzz/fuzz_}
    all="$all ${f%.c}"
done
for f in "$@"; do
    case "$all " in
    *" $f "*) ;;
    *) say "fuzz: no fuzz program is called $f; there are:$all" >&2; exit 2 ;;
    esac
done
[ $# = 0 ] || all=$*

command -v clang >/dev/null 2>&1 || { say "fuzz: skipped, clang is not here"; exit 77; }
dir=build-fuzz
echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n); int LLVMFuzzerTestOneInput(const char *b, unsigned long n)
{ return (int)n * !b; }' | clang -fsanitize=fuzzer,address,undefined -x c -o $dir.probe - 2>/dev/null
status=$?
rm -f $dir.probe
[ $status = 0 ] || { say "fuzz: skipped, clang has no libFuzzer here"; exit 77; }

targets=
for f in $all; do targets="$targets tests/fuzz_$f"; done
command -v ccache >/dev/null 2>&1 && CC="ccache clang" || CC=clang
export CC
build $dir -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Dfuzz=true || exit 1

# As the tests have them (tests/meson.build).
export ASAN_OPTIONS=detect_stack_use_after_return=0:halt_on_error=1:abort_on_error=1:print_summary=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_summary=1:print_stacktrace=1
work=$PWD/$dir/fuzzed
mkdir -p "$work"
failures=0
for f in $all; do
    log=$work/$f.log
    rm -rf "$work/$f"
    cp -r tests/corpus/$f "$work/$f"
    # In a folder of its own: what a program writes beside its input is not the project's. A hang is
    # a failure, after minutes.
    (cd "$work" && "../tests/fuzz_$f" -max_total_time="$seconds" -max_len=4096 -timeout=300 -rss_limit_mb=4096 \
        -dict=../../tests/corpus/$f.dict -artifact_prefix="$work/$f-" -print_final_stats=1 "$work/$f") >"$log" 2>&1
    status=$?
    count=$(LC_ALL=C awk '/^stat::number_of_executed_units:/ { n = $2 } END { print n + 0 }' "$log")
    if [ $status = 0 ]; then
        say "fuzz_$f: $count executions, nothing found"
        continue
    fi
    failures=$((failures + 1))
    LC_ALL=C grep -a -v '^#[0-9]*[[:space:]]' "$log" | tail -60
    kept=$(LC_ALL=C sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    say "fuzz_$f: FAILED after $count executions; the input is kept: ${kept:-none was written, see $log}"
done
[ $failures = 0 ]
