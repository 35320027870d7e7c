#!/bin/sh
# info.sh BUILD: `tide info` as scripts use it: E15's table by injected figures, what is printed where, exit codes.
set -eu
tide=$1/tools/tide
export TIDE_DEVICE="${TIDE_TEST_DEVICE:-host}"
out=$(mktemp)
trap 'rm -f "$out" "$out.err"' EXIT
fail() { echo "info: $*"; exit 1; }
jobs() { # NUMBER LINE'S-END ARGS: stdout is the number alone, stderr one line
    wanted=$1 line=$2
    shift 2
    "$tide" info --jobs "$@" >"$out" 2>"$out.err" || fail "--jobs $*: $(cat "$out.err")"
    [ "$(cat "$out")" = "$wanted" ] || fail "--jobs $* prints $(cat "$out")"
    [ "$(wc -l <"$out.err")" = 1 ] || fail "--jobs $* says $(cat "$out.err")"
    grep -qE "^tide info: (host|cuda):[0-9]+ \(.*\), $line: $wanted jobs$" "$out.err" || fail "--jobs $* says $(cat "$out.err")"
}
jobs 34 '139.0 GiB free, 128 threads' --free 139GiB --threads 128
jobs 16 '139.0 GiB free, 16 threads' --free 139GiB --threads 16
jobs 3 '15.7 GiB free, 16 threads' --threads 16 --free 15.7GiB
jobs 1 '3.0 GiB free, 16 threads' --free 3GiB --threads 16
case $TIDE_DEVICE in
host*)
    jobs 77 'no GPU, 77 threads' --threads 77
    jobs "$(nproc)" "no GPU, $(nproc) threads"
    ;;
esac
for bad in '--free' '--free much' '--threads -1' '--hosts 3' '--jobs'; do
    status=0
    "$tide" info --jobs $bad >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || fail "--jobs $bad ends with $status"
done
"$tide" info --device | grep -qE '^(host|cuda):' || fail "--device"
