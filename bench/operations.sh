#!/bin/sh
# operations.sh NAME: an operation of `tide-bench operations` over PyTorch's time for the same, both of one run each. 77: PyTorch or
# a GPU is not here. Their figures are kept for the other names, in build-release/operations.txt.
set -eu
export LC_ALL=C # figures have a point
kept=build-release/operations.txt
if [ ! -s "$kept" ] || [ -z "$(find "$kept" -mmin -30)" ]; then
    python3 bench/peers/operations.py >"$kept.peer" || exit 77
    build-release/bench/tide-bench operations --json >"$kept.ours"
    python3 - "$kept.ours" "$kept.peer" >"$kept" <<'END'
import json, sys
ours, peer = (json.load(open(f)) for f in sys.argv[1:])
for name, theirs in peer.items():
    if name in ours:
        print("%-18s %9.1f us, PyTorch %9.1f us, ratio %.3f" % (name, ours[name], theirs, ours[name] / theirs))
END
fi
cat "$kept"
awk -v name="$1" '$1 == name { print "figure " $NF }' "$kept"
