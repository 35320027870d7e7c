#!/bin/sh
# check.sh: installs what is missing, builds, runs every test, and ends with "N passed, N failed, N
# skipped".
#   tools/check.sh                  the plain build, what calls OpenBLAS as on other processors, AddressSanitizer with UBSan,
#                                   ThreadSanitizer
#   tools/check.sh --long           also what takes longer, and the fuzz programs, each for a minute, where clang is
#   tools/check.sh --gpu            no installs: the plain build, all cases with cuda, with the pools tide and none (those that
#                                   name their pools themselves once)
#   tools/check.sh --gpu --memcheck the same under compute-sanitizer
#   tools/check.sh --coverage       a build of its own (build-coverage), its tests once, and which
#                                   branches of the library they took, by folder; fails where that is
#                                   less than tools/coverage.py asks, which says what is left out
# A case is one cmocka test or one script; the plain build's cases are counted once, and what fails
# in a further run of theirs, or what a sanitizer reports, fails the check. Further runs differ in
# more than they are named for: they are where the tests show that they need no HOME, no certain
# locale and no certain order.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
gpu=0 memcheck=0 long=0 coverage=0
for a in "$@"; do
    case $a in
    --gpu) gpu=1 ;;
    --memcheck) memcheck=1 ;;
    --long) long=1 ;;
    --coverage) coverage=1 ;;
    *) say "usage: tools/check.sh [--long] [--gpu [--memcheck] | --coverage]" >&2; exit 2 ;;
    esac
done
[ $memcheck = 0 ] || [ $gpu = 1 ] || { say "check: --memcheck goes with --gpu" >&2; exit 2; }
[ $coverage = 0 ] || [ $gpu = 0 ] || { say "check: --coverage does not go with --gpu" >&2; exit 2; }
[ $long = 0 ] || export TIDE_TEST_LONG=1
logs=    # the results of the cases that count
outside= # what failed beside them; each counts as one
patience=1 # times the limits of tests/meson.build, on an idle machine
# for a second pool: tests that name theirs themselves would do the same
other_pools="--no-suite tidepool:own-pools"
failed() {
    say "$1: FAILED"
    outside="$outside --failed=$(printf '%s' "$1" | tr ' ' '-')"
}
ends() {
    python3 tools/count.py $outside $logs
    exit
}

skip_memcheck() {
    say "memcheck: skipped, $1"
    say "0 passed, 0 failed, 1 skipped"
    exit 0
}

[ $gpu = 1 ] || tools/setup.sh || { say "0 passed, 1 failed, 0 skipped"; exit 1; }

format() {
    command -v clang-format-14 >/dev/null 2>&1 && cf=clang-format-14 || cf=clang-format
    case $($cf --version 2>/dev/null) in
    *"version 14."*) ;;
    *) say "format: skipped, clang-format 14 is not here"; return 0 ;;
    esac
    find . -name 'build*' -type d -prune -o -name '.git' -prune -o -name '*.[ch]' -print >build-format.list
    xargs $cf --dry-run --Werror <build-format.list >build-format.log 2>&1
    status=$?
    [ $status = 0 ] || grep error: build-format.log | head -20
    rm -f build-format.log build-format.list
    return $status
}

# How much longer than on an idle machine a program may take now: what runs already, and our jobs,
# over the processors. 1 where the machine does not tell (some containers have no /proc/loadavg, or
# an empty one).
load() {
    times=$(LC_ALL=C awk -v jobs="$jobs" -v processors="${processors:-1}" 'NF >= 4 {
        split($4, running, "/")
        others = running[1] - 1 > $1 ? running[1] - 1 : $1 # this awk is one of them
        times = (others + jobs) / processors
        print (times > 1 ? int(times + 0.999) : 1)
    }' /proc/loadavg 2>/dev/null)
    echo "${times:-1}"
}

# How many programs run at once, and on how many processors, as the build in folder $1 has it.
find_jobs() {
    said=$("$1/tools/tide" info --jobs 2>&1 >/dev/null)
    jobs=$("$1/tools/tide" info --jobs 2>/dev/null) || { say "$said"; return 1; }
    processors=$(printf '%s\n' "$said" | LC_ALL=C sed -n 's/.*, \([0-9]*\) threads: .*/\1/p')
    say "$said"
}

# Runs the tests of build folder $1 (arguments after it go to meson test), as many at once as the
# device has memory for; the result files stay there. Shows the end of what failed, all of which is
# kept in failed.log: meson writes the next run's log over it.
run_tests() {
    dir=$1
    shift
    meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$jobs" -t $((patience * $(load))) "$@" \
        >"$dir/check.log" 2>&1 && return
    cat "$dir/meson-logs/testlog.txt" >>"$dir/failed.log"
    # What each program that failed said begins behind its line, and the end lists them.
    grep -A 25 ' FAIL  ' "$dir/check.log" | head -400
    tail -40 "$dir/check.log"
    return 1
}

# As run_tests in folder $1, and the cases count; their results are kept as $2 (meson writes the
# next run's over them).
counted() {
    dir=$1 kept=$1/$2
    shift 2
    rm -f "$dir"/meson-logs/testlog*.json
    run_tests "$dir" "$@" # a failure is in the results
    cat "$dir"/meson-logs/testlog*.json >"$kept" 2>/dev/null && logs="$logs $kept" || failed "running the tests of $dir"
}

# A further run of tests, whose cases are not counted: what it is called, variables to set
# (NAME=value) or to unset (NAME), arguments of run_tests.
again() {
    name=$1 changes=$2 began=$(date +%s)
    shift 2
    say "$name: testing"
    (
        for change in $changes; do
            case $change in
            *=*) export "$change" ;;
            *) unset "$change" ;;
            esac
        done
        rm -f "$1"/meson-logs/testlog*.json
        run_tests "$@" && exit
        python3 tools/count.py "$1"/meson-logs/testlog*.json | grep '^failed: ' # what is above may not have all
        exit 1
    ) && say "$name: clean, $(($(date +%s) - began)) s" || failed "$name"
}

# OpenBLAS chooses its kernels by the processor, and every choice rounds in its own way: those that
# this one can run. Cases do a part of their rounds, as under a sanitizer: the other rounds call the
# same kernels.
core_types() {
    flags=$(grep -m1 '^flags' /proc/cpuinfo 2>/dev/null)
    has() { for f; do case " $flags " in *" $f "*) ;; *) return 1 ;; esac; done; }
    ! has pni || echo Prescott
    ! has avx2 fma || echo Haswell
    ! has avx512f avx512cd avx512bw avx512dq avx512vl || echo SkylakeX
}

# Builds with a sanitizer: its name, folder, meson options. Barely optimised, since the instrumented
# code takes most of its time to compile.
sanitized() {
    name=$1 dir=$2
    shift 2
    say "$name: building"
    build "$dir" -Dwerror=true -Doptimization=1 "$@" || { failed "$name"; return 1; }
}

# Not optimised, so that what gcov counts is what the source says; warnings that only come then do
# not count. Counting is slow: cases do a part of their rounds, as under a sanitizer. The scripts
# are left out: they look at the library's symbols, among which are gcov's here.
if [ $coverage = 1 ]; then
    say "coverage: building"
    build build-coverage -Doptimization=0 -Db_coverage=true || { say "0 passed, 1 failed, 0 skipped"; exit 1; }
    find_jobs build-coverage || { say "0 passed, 1 failed, 0 skipped"; exit 1; }
    find build-coverage -name '*.gcda' -exec rm -f {} +
    patience=4
    say "coverage: testing"
    TIDE_TEST_QUICK=1 counted build-coverage log-coverage.json --suite tidepool:topics
    python3 tools/coverage.py build-coverage || failed coverage
    ends
fi

[ $gpu = 1 ] || format || failed format
dir=build
[ $gpu = 0 ] || dir=build-gpu
say "plain: building"
rm -f build*/failed.log
# GPU kernels that tests run on the host are compiled once for all runs.
rm -rf "$dir-emulated"
mkdir "$dir-emulated"
export TIDE_TEST_EMULATED="$PWD/$dir-emulated"
build $dir -Dwerror=true || { say "0 passed, 1 failed, 0 skipped"; exit 1; }
device=$($dir/tools/tide info --device)
say "runs on $device"
find_jobs $dir || { say "0 passed, 1 failed, 0 skipped"; exit 1; }

if [ $gpu = 1 ]; then
    case $device in
    cuda*) ;;
    *) say "check: --gpu wants cuda"; say "0 passed, 1 failed, 0 skipped"; exit 1 ;;
    esac
    export TIDE_TEST_DEVICE=cuda TIDE_DEVICE=cuda
    wrap= patience=5
    if [ $memcheck = 1 ]; then
        sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || skip_memcheck "compute-sanitizer is not here"
        # It refuses some devices and drivers; what opens without it does not open under it then.
        "$sanitizer" --error-exitcode 33 $dir/tools/tide info --device 2>&1 | grep -q '^cuda' || skip_memcheck "compute-sanitizer refuses this device"
        wrap="--wrap=$sanitizer --tool memcheck --error-exitcode 33 --target-processes application-only --print-limit 5 --report-api-errors no --require-cuda-init no --launch-timeout 0"
        export TIDE_TEST_QUICK=1 TIDE_TEST_MEMCHECK=1
    fi
    suites="--suite tidepool:topics"
    # Fuzz programs run nothing on a GPU; compute-sanitizer waits for ever for one that replaces its
    # environment.
    [ $memcheck = 1 ] && suites="$suites --no-suite tidepool:fuzz" || suites="$suites --suite tidepool:programs"
    for pool in tide none; do
        say "pool $pool: testing"
        TIDE_POOL=$pool counted $dir log-$pool.json $suites ${wrap:+"$wrap"}
        suites="$suites $other_pools"
    done
    # The planted overrun starts compute-sanitizer itself, which does not run inside another.
    [ $memcheck = 0 ] || TIDE_TEST_MEMCHECK= counted $dir log-overrun.json overrun
    ends
fi

say "plain: testing"
counted build log-plain.json
again "without HOME, in German: scripts" "HOME LC_ALL=de_DE.UTF-8" build --suite tidepool:scripts
types=$(core_types)
for type in ${types:-here}; do
    [ "$type" = here ] && change=OPENBLAS_CORETYPE || change=OPENBLAS_CORETYPE=$type
    for threads in 1 2; do
        again "OpenBLAS as on $type, $threads threads" "$change OPENBLAS_NUM_THREADS=$threads TIDE_TEST_QUICK=1" build \
            --suite tidepool:openblas
    done
done
if sanitized "AddressSanitizer and UBSan" build-asan -Db_sanitize=address,undefined -Db_lundef=false; then
    again "AddressSanitizer and UBSan, pool tide" TIDE_POOL=tide build-asan --suite tidepool:topics
    again "AddressSanitizer and UBSan, pool none, without HOME, in German" "TIDE_POOL=none HOME LC_ALL=de_DE.UTF-8" build-asan \
        --suite tidepool:topics $other_pools
fi
if sanitized ThreadSanitizer build-tsan -Db_sanitize=thread -Db_lundef=false -Dboehm=disabled -Dreversed=true; then
    again "ThreadSanitizer, pool tide, in reversed order" TIDE_POOL=tide build-tsan --suite tidepool:topics
fi
if [ $long = 1 ]; then
    say "fuzz programs: running"
    tools/fuzz.sh 60
    case $? in
    0 | 77) ;;
    *) failed "fuzz programs" ;;
    esac
fi
ends
