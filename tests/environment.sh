#!/bin/sh
# environment.sh: every TIDE_ variable that the code reads is in docs/environment.md, and nothing
# else is; and the comments of tide_config name those of the settings.
set -eu
export LC_ALL=C # in Turkish, I is not between A and Z
cd "$TIDE_TEST_SOURCE"
names() { grep -oE 'TIDE_[A-Z_]+' | sort -u; }
# The settings' table has one variable a row; all others are asked for by name.
read_by_code=$({
    grep -hoE '^ +\{"TIDE_[A-Z_]+"' runtime/base/settings.c
    find arrays bench examples gc libs open.c runtime tests tools -name '*.[ch]' \
        -exec grep -hoE '(getenv|test_switch|switched)\("TIDE_[A-Z_]+"' {} +
} | names)
documented=$(grep -oE '`TIDE_[A-Z_]+' docs/environment.md | names)
[ "$(printf '%s\n' "$read_by_code" | wc -l)" -gt 15 ] ||
    { echo "few variables were found in the code: $read_by_code"; exit 1; }
status=0
for v in $read_by_code; do
    printf '%s\n' "$documented" | grep -qx "$v" ||
        { echo "$v is read, and docs/environment.md does not say so"; status=1; }
done
for v in $documented; do
    printf '%s\n' "$read_by_code" | grep -qx "$v" ||
        { echo "$v is in docs/environment.md, and nothing reads it"; status=1; }
done
for v in $(grep -hoE '^ +\{"TIDE_[A-Z_]+"' runtime/base/settings.c | names); do
    grep -q "$v" include/tide/runtime.h ||
        { echo "$v is read, and include/tide/runtime.h does not name it"; status=1; }
done
exit $status
