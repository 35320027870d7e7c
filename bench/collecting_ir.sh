#!/bin/sh
# collecting_ir.sh [WORK [ARGUMENT...]]: instructions of collecting over those of freeing by hand, by
# what they are for (collecting.py --count). Without link-time optimisation, which mixes what is
# told apart here.
set -eu
cd "$(dirname "$0")/.."
. tools/common.sh
command -v valgrind >/dev/null 2>&1 || { say "collecting_ir: skipped, valgrind is not here" >&2; exit 77; }
targets=bench/collecting-work
build build-count -Dbuildtype=release -Doptimization=3 -Ddebug=true -Dtests=false
python3 bench/collecting.py "$@" --count --build build-count
