#!/bin/sh
# findings.sh BUILD WORK [FLAGS]: builds each program of tests/findings against the library in
# BUILD, with the FLAGS of the compiler that the library was built with, runs it, and fails where it
# shows the effect again that it was written for.
set -u
build=$1 work=$2/findings flags=${3:-}
here=$TIDE_TEST_SOURCE/tests/findings
rm -rf "$work"
mkdir -p "$work"
export LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TIDE_DEVICE=host
failed=0
fail() {
    printf '%s: %s\n' "$1" "$2"
    [ ! -f "$work/said" ] || sed 's/^/    /' "$work/said"
    failed=1
}

# built PROGRAM: compiles it to $program; false, and says so, if that fails.
built() {
    program=$work/$(printf '%s' "$1" | tr '/.' '__')
    rm -f "$work/said"
    case $1 in
    *.cpp) set -- "$1" ${CXX:-c++} -std=c++17 -Wpedantic ;;
    *) set -- "$1" ${CC:-cc} -std=gnu17 ;;
    esac
    name=$1
    shift
    "$@" -Wall -Wextra -Werror $flags -I"$TIDE_TEST_SOURCE/include" "$here/$name" -o "$program" -L"$build" -ltidepool \
        -lpthread >"$work/said" 2>&1 || { fail "$name" "does not compile"; return 1; }
}

# shows NAME WANTED UNWANTED COMMAND...: runs the command; its output must match WANTED, and not
# UNWANTED ("" for nothing).
shows() {
    name=$1 wanted=$2 unwanted=$3
    shift 3
    timeout 600 "$@" >"$work/said" 2>&1 # against a hang only
    status=$?
    if [ $status != 0 ]; then fail "$name" "exit status $status"
    elif ! grep -qE "$wanted" "$work/said"; then fail "$name" "did not say: $wanted"
    elif [ -n "$unwanted" ] && grep -qE "$unwanted" "$work/said"; then fail "$name" "said: $unwanted"
    else printf '%s: %s\n' "$name" "$(tail -1 "$work/said" | cut -c1-90)"
    fi
}

# As shows, of a program without arguments.
runs() {
    ! built "$1" || shows "$1" "$2" "$3" "$program"
}

# A read before the text; use after free: both seen by AddressSanitizer alone.
runs process/repro_1.c 'column' 'AddressSanitizer'
runs process/repro_2.c '^copy 0x' 'AddressSanitizer'
# An assertion at the end of mappings. There the sanitizers, which map memory too, end the process
# themselves.
[ -n "$flags" ] || runs process/repro_3.c '^closed$' 'Assertion'
# Sizes that depended on the locale.
runs process/repro_5.c '^de_DE: TIDE_OK' 'TIDE_E_|locale \(null\)'
# A hang after cancellation.
runs process/repro_6.c '^closed$' ''
# Killed writers' files, met by a process that may have the number of one; they are gone afterwards.
if built process/repro_7.c; then
    mkdir "$work/folder"
    "$program" "$work/folder" die >/dev/null 2>&1
    shows process/repro_7.c 'TIDE_OK' 'TIDE_E_' sh -c \
        'for n in 0 1 2 3; do echo killed >"$1/.tidepool-$n.part"; done
        # where other machines may mount it only such are known to be left
        touch -d "2 hours ago" "$1"/.tidepool-*.part
        exec "$0" "$1"' "$program" "$work/folder"
    left=$(ls -A "$work/folder" | tr '\n' ' ')
    [ "$left" = "model.npy " ] || fail process/repro_7.c "the folder holds $left"
fi
# Processes that bdwgc aborted. It does not run under ThreadSanitizer.
case $flags in
*thread*) ;;
*)
    runs process/repro_8.c '^closed$' 'Signals delivery'
    runs process/repro_8b.c 'this thread blocks SIGPWR' 'Signals delivery' # it is told as it opens
    runs process/repro_8c.c '^closed$' 'Signals delivery'
    # Growth that no policy knew the price of: 1.5 GiB for 4 MiB. (In the pool none it costs
    # nothing.)
    if built embed/repro_1.c; then
        shows embed/repro_1.c '^value 1000:' '' env TIDE_POOL=tide "$program"
        mib=$(sed -n 's/.*peak backed \([0-9]*\) MiB.*/\1/p' "$work/said")
        [ "${mib:-9999}" -le 400 ] || fail embed/repro_1.c "$mib MiB are backed for 4"
    fi
    ;;
esac
# Half a pointer was followed.
runs process/repro_9.c '^TIDE_E_INVALID$' ''
# A scope, and a runtime, used after the runtime's end.
runs embed/repro_2.c '^tide_use_end: TIDE_E_CLOSED' ''
if built embed/repro_3.c; then
    shows embed/repro_3.c '^tide_ones: .*closed' '' "$program"
    shows "embed/repro_3.c x" '^tide_close again: .*closed' '' "$program" x
fi
# Callbacks left by longjmp, and a runtime closed inside one.
if built embed/repro_4.c; then
    shows embed/repro_4.c 'told: .*longjmp.*fine$' 'out of memory' "$program"
    shows "embed/repro_4.c x" 'fine$' '' "$program" x
fi
# Requests refused while the collector's thread was about to collect.
runs embed/repro_5.c '^refused 0 of 5000' ''
# What a signal handler may call.
runs embed/repro_6.c '^survived' ''
# Weight that was never taken back.
runs embed/repro_7.c 'left 0' 'left -?[1-9]'
# An expression without parameters.
runs embed/repro_8.cpp '^null: ' 'does not compile'
[ $failed = 1 ] || rm -rf "$work"
exit $failed
