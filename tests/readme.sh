#!/bin/sh
# readme.sh BUILD WORK: README's programs are what they say: each C block compiles without a warning
# and runs, and the first has ten lines and prints the number that README says; the files and
# folders that it names are there, and so are those of ours that the other pages name.
set -eu
build=$1 work=$2/readme
cd "$TIDE_TEST_SOURCE"
rm -rf "$work"
mkdir "$work"
awk -v to="$work/" '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 }
    on { print >(to n ".c") }' README.md
[ -s "$work/1.c" ] || { echo "README has no program"; exit 1; }
lines=$(wc -l <"$work/1.c")
[ "$lines" = 10 ] || { echo "README's ten lines are $lines"; exit 1; }
for c in "$work"/*.c; do
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "$c" -o "${c%.c}" \
        -L"$build" -Wl,-rpath,"$build" -ltidepool
    said=$(TIDE_DEVICE=host "${c%.c}")
    echo "$(basename "$c") prints $said"
done
# The sum of sqrt(x*x + 2) over 0 .. 999999, in f32.
TIDE_DEVICE=host "$work/1" | LC_ALL=C awk '{ ok = $1 > 499990e6 && $1 < 500010e6 } END { exit !ok }'
told=$(sed -n 's/.* run it prints \([0-9.e+]*\) .*/\1/p' README.md)
TIDE_DEVICE=host "$work/1" | LC_ALL=C awk -v told="$told" '
    { off = $1 / told - 1; ok = off < 1e-6 && off > -1e-6 } END { exit !ok }' ||
    { echo "README says that it prints '$told'"; exit 1; }

status=0
# In Turkish, i is not between a and z.
for name in $(export LC_ALL=C; grep -oE '`[^` ]+`|\]\([^)]+\)' README.md | tr -d '`()]' |
    grep -E '^(\.?[a-z0-9]+/|[A-Z]+\.md|open\.c)' | grep -v -e '^[a-z]*://' -e '^share/'); do
    for each in $name; do
        [ -e "$each" ] || { echo "README names $name, which is not there"; status=1; }
    done
done
for page in CONTRIBUTING.md docs/*.md; do
    for each in $(grep -oE '`(arrays|bench|docs|examples|gc|include|libs|runtime|tests|tools)/[^` ]+`' "$page" |
        tr -d '`' | grep -v NAME); do
        [ -e "$each" ] || { echo "$page names $each, which is not there"; status=1; }
    done
done
rm -rf "$work"
exit $status
