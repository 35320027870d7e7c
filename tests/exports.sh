#!/bin/sh
# exports.sh LIBRARY: the shared library exports exactly the functions of tests/exports.txt, and each is declared in a header.
set -eu
cd "$TIDE_TEST_SOURCE"
have=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ { print $3 }' | sed 's/@.*//' | LC_ALL=C sort -u)
want=$(LC_ALL=C sort -u tests/exports.txt)
if [ "$have" != "$want" ]; then
    echo "exported, against tests/exports.txt:"
    printf '%s\n' "$have" >/tmp/exports.$$
    printf '%s\n' "$want" | diff - /tmp/exports.$$ || true
    rm -f /tmp/exports.$$
    exit 1
fi
declared=$(grep -ohE '\btide_[a-z0-9_]+\(' include/tide/*.h | tr -d '(' | sort -u)
for f in $have; do printf '%s\n' "$declared" | grep -qx "$f" || { echo "$f is in no header"; exit 1; }; done
