#!/bin/sh
# check.sh: installs what is missing, builds, runs every test, and ends with "N passed, N failed, N skipped".
#   tools/check.sh                  the plain build, then AddressSanitizer with UBSan, then ThreadSanitizer
#   tools/check.sh --long           also what takes longer
#   tools/check.sh --gpu            no installs: the plain build, all cases with cuda, with the pools tide and none
#   tools/check.sh --gpu --memcheck the same under compute-sanitizer
# A case is one cmocka test or one script; the plain build's cases are counted, a sanitizer's report fails the run.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
gpu=0 memcheck=0 long=0
for a in "$@"; do
    case $a in
    --gpu) gpu=1 ;;
    --memcheck) memcheck=1 ;;
    --long) long=1 ;;
    *) say "usage: tools/check.sh [--long] [--gpu [--memcheck]]" >&2; exit 2 ;;
    esac
done
[ $memcheck = 0 ] || [ $gpu = 1 ] || { say "check: --memcheck goes with --gpu" >&2; exit 2; }
[ $long = 0 ] || export TIDE_TEST_LONG=1
[ $gpu = 1 ] || tools/setup.sh || exit 1
bad=0

format() {
    command -v clang-format-14 >/dev/null 2>&1 && cf=clang-format-14 || cf=clang-format
    case $($cf --version 2>/dev/null) in
    *"version 14."*) ;;
    *) say "format: skipped, clang-format 14 is not here"; return 0 ;;
    esac
    git ls-files '*.c' '*.h' | xargs $cf --dry-run --Werror >build-format.log 2>&1 && rm -f build-format.log && return 0
    grep error: build-format.log | head -20
    say "format: the files above differ from .clang-format"
    return 1
}

# Runs the tests of build folder $1 (arguments after it go to meson test); the result files stay there.
run_tests() {
    dir=$1
    shift
    meson test -C "$dir" --no-rebuild --print-errorlogs "$@" >"$dir/check.log" 2>&1
}

# A build that must be clean but whose cases are not counted again: name, folder, meson options.
sanitized() {
    name=$1 dir=$2
    shift 2
    say "$name: building"
    build "$dir" -Dwerror=true "$@" || return 1
    say "$name: testing"
    run_tests "$dir" --suite tidepool:topics || { tail -60 "$dir/check.log"; say "$name: not clean"; return 1; }
    say "$name: clean"
}

[ $gpu = 1 ] || format || bad=1
dir=build
[ $gpu = 0 ] || dir=build-gpu
[ $memcheck = 0 ] || dir=build-gpu # one build serves both
say "plain: building"
build $dir -Dwerror=true || { say "0 passed, 1 failed, 0 skipped"; exit 1; }
say "runs on $($dir/tools/tide info --device)"

if [ $gpu = 1 ]; then
    export TIDE_TEST_DEVICE=cuda TIDE_DEVICE=cuda
    wrap=
    if [ $memcheck = 1 ]; then
        sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
        [ -n "$sanitizer" ] || { say "memcheck: skipped, compute-sanitizer is not here"; say "0 passed, 0 failed, 1 skipped"; exit 0; }
        wrap="--wrap=$sanitizer --tool memcheck --error-exitcode 33 --target-processes application-only --print-limit 5"
        export TIDE_TEST_MEMCHECK=1
    fi
    for pool in none tide; do
        say "pool $pool: testing"
        TIDE_POOL=$pool run_tests $dir --suite tidepool:topics -t 5 ${wrap:+"$wrap"} || { tail -80 $dir/check.log; bad=1; }
        cp $dir/meson-logs/testlog*.json $dir/log-$pool.json 2>/dev/null
    done
    python3 tools/count.py $dir/log-none.json $dir/log-tide.json
    [ $? = 0 ] && [ $bad = 0 ]
    exit
fi

say "plain: testing"
run_tests build || { tail -80 build/check.log; bad=1; }
cp build/meson-logs/testlog.json build/log-plain.json
sanitized "AddressSanitizer, UBSan" build-asan -Db_sanitize=address,undefined -Db_lundef=false || bad=1
sanitized "ThreadSanitizer" build-tsan -Db_sanitize=thread -Db_lundef=false -Dboehm=disabled || bad=1
extra=
[ $bad = 0 ] || extra=--failed
python3 tools/count.py $extra build/log-plain.json
