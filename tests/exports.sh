#!/bin/sh
# exports.sh LIBRARY: the shared library exports exactly the functions of tests/exports.txt, and
# each is declared in a header.
set -eu
export LC_ALL=C # in Turkish, i is not between a and z
cd "$TIDE_TEST_SOURCE"
have=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ { print $3 }' | sed 's/@.*//' | sort -u)
want=$(sort -u tests/exports.txt)
if [ "$have" != "$want" ]; then
    echo "exported, against tests/exports.txt:"
    exported=$(mktemp)
    printf '%s\n' "$have" >"$exported"
    printf '%s\n' "$want" | diff - "$exported" || true
    rm -f "$exported"
    exit 1
fi
declared=$(grep -ohE '\btide_[a-z0-9_]+\(' include/tide/*.h | tr -d '(' | sort -u)
for f in $have; do printf '%s\n' "$declared" | grep -qx "$f" || { echo "$f is in no header"; exit 1; }; done
