#!/bin/sh
# guide.sh BUILD WORK: the listings of docs/guide.md compile without a warning and run, and print
# what the block below each says: ```text exactly, ``` with other figures. A listing without `main`
# goes into the guide's frame, its first listing. What makes garbage beyond a limit wants the
# collector boehm; where the build has none these listings are compiled, not run. The listings of
# docs/embedding.md are parts of examples/c/embed.c, line by line.
set -eu
build=$1 work=$2/guide
cd "$TIDE_TEST_SOURCE"
source=$PWD
export TIDE_DEVICE=host LC_ALL=C
unset TIDE_COLLECTOR
collector=$("$build/tools/tide" info --env | awk '$1 == "TIDE_COLLECTOR" { print $2 }')
rm -rf "$work"
mkdir "$work"
status=0
wrong() { printf '%s\n' "$*"; status=1; }

# N.c is the N-th listing, N.text or N.like what stands below it.
awk -v to="$work/" '
    on && /^```/ { on = 0; close(file); next }
    /^```c$/ { file = to (++n) ".c"; on = 1; next }
    /^```text$/ { file = to n ".text"; on = 1; next }
    /^```$/ { file = to n ".like"; on = 1; next }
    on { print >file }' docs/guide.md
place='a listing goes here'
grep -q "$place" "$work/1.c" || { echo "the guide does not begin with its frame"; exit 1; }
program() { # LISTING: whole, or in the frame
    ! grep -q '^int main' "$1" || { cat "$1"; return; }
    awk -v listing="$1" -v place="$place" '
        index($0, place) { while ((getline line <listing) > 0) print line; next }
        { print }' "$work/1.c"
}
compiles() { # N
    program "$work/$1.c" >"$work/$1.program.c"
    ${CC:-cc} -std=c11 -Wall -Wextra -Wno-unused-function -Wno-unused-parameter -Werror -Iinclude \
        "$work/$1.program.c" -o "$work/$1" -L"$build" -Wl,-rpath,"$build" -ltidepool
}
runs() { # N
    data=
    ! grep -q argv "$work/$1.c" || data=$source/examples/data
    (cd "$work" && "./$1" ${data:+"$data"}) >"$work/$1.said" 2>"$work/$1.error"
}
garbage() { grep -qE 'garbage|"boehm"' "$work/$1.c"; } # N
figures() { sed 's/[0-9][0-9.]*/N/g' "$1" >"$1.figures"; }
says() { # N
    if [ -f "$work/$1.text" ]; then
        diff "$work/$1.text" "$work/$1.said"
    elif [ -f "$work/$1.like" ]; then
        figures "$work/$1.like"
        figures "$work/$1.said"
        diff "$work/$1.like.figures" "$work/$1.said.figures"
    else
        [ ! -s "$work/$1.said" ] || { cat "$work/$1.said"; return 1; } # the guide has not got it
    fi
}

n=1
while [ -f "$work/$n.c" ]; do
    if ! compiles $n; then
        wrong "listing $n does not compile"
    elif [ "$collector" = refcount ] && garbage $n; then
        echo "listing $n is skipped: this build has no collector boehm"
    elif ! runs $n; then
        wrong "listing $n fails: $(cat "$work/$n.said" "$work/$n.error")"
    elif ! says $n; then
        wrong "listing $n says something else: $(cat "$work/$n.error")"
    fi
    n=$((n + 1))
done
[ $n -gt 10 ] || wrong "the guide has $((n - 1)) listings"
# The network has learned.
[ "$collector" = refcount ] ||
    awk '$1 == "accuracy" { seen++; if ($2 < 90) low = 1 } END { exit seen != 1 || low }' \
        "$work"/*.said || wrong "no accuracy of 90 %: $(cat "$work/$((n - 1)).said")"

awk 'FNR == NR { program = program $0 "\n"; next }
    /^```c$/ { on = 1; listing = ""; n++; line = FNR; next }
    on && /^```/ {
        on = 0
        if (index(program, "\n" listing)) next
        print FILENAME ":" line ": not in " ARGV[1] ":\n" listing
        bad = 1
    }
    on { listing = listing $0 "\n" }
    END {
        if (n < 10) { print FILENAME " has " n + 0 " listings"; bad = 1 }
        exit bad
    }' examples/c/embed.c docs/embedding.md || status=1
rm -rf "$work"
exit $status
