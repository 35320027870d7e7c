#!/bin/sh
# show.sh [NAME...]: runs the figures of bench/bars.txt (all, or those named; a prefix such as 1.1
# names all below it). Each ends with "1.2c PASS|MISS|SKIP figure bar". Exit 0; 1 on a miss; 77 if
# all were skipped.
set -u
cd "$(dirname "$0")/.."
. tools/common.sh
export LC_ALL=C # figures have a point, for awk too
build build-release $release_options || exit 1
device=$(build-release/tools/tide info --device)
missed=0 passed=0

wanted() {
    [ $# -gt 1 ] || return 0
    name=$1
    shift
    for w in "$@"; do case $name in "$w"*) return 0 ;; esac; done
    return 1
}
# Whether what the row needs is here: "any", "host", "cuda".
here() {
    case $1:$device in any:* | cuda:cuda* | host:*) return 0 ;; *) return 1 ;; esac
}

while IFS='|' read -r name command bar needs; do
    name=$(printf '%s' "$name" | tr -d ' ')
    needs=$(printf '%s' "$needs" | tr -d ' ')
    bar=$(printf '%s' "$bar" | sed 's/^ *//; s/ *$//')
    case $name in '' | '#'*) continue ;; esac
    wanted "$name" "$@" || continue
    if ! here "$needs"; then
        say "$name SKIP needs:$needs $bar"
        continue
    fi
    out=$(sh -c "$command" </dev/null 2>&1)
    status=$?
    printf '%s\n' "$out"
    # The command's last line that reads "figure VALUE".
    figure=$(printf '%s\n' "$out" | sed -n 's/^figure //p' | tail -n 1)
    if [ $status = 77 ]; then
        say "$name SKIP ${figure:-skipped} $bar"
    elif [ $status = 0 ] && [ -n "$figure" ] && awk "BEGIN { exit !($figure $bar) }"; then
        say "$name PASS $figure $bar"
        passed=$((passed + 1))
    else
        say "$name MISS ${figure:-none} $bar"
        missed=$((missed + 1))
    fi
done <bench/bars.txt
[ $missed = 0 ] || exit 1
[ $passed != 0 ] || exit 77
