#!/bin/sh
# rows.sh rows|sweep NAME: a figure of `tide-bench rows` or `tide-bench sweep`, after a table of all of them beside PyTorch's, eager
# and by torch.compile, where it is here; all of one run. Kept for the other names, in build-release/rows.txt or sweep.txt.
set -eu
export LC_ALL=C # figures have a point
kept=build-release/$1.txt
if [ ! -s "$kept" ] || [ -z "$(find "$kept" -mmin -30)" ]; then
    build-release/bench/tide-bench "$1" --json >"$kept.ours" || exit $?
    python3 bench/peers/rows.py "$([ "$1" = sweep ] && echo sweep || echo rows)" >"$kept.peer" || echo '{}' >"$kept.peer"
    python3 - "$kept.ours" "$kept.peer" >"$kept" <<'END'
import json, sys
ours, peer = (json.load(open(f)) for f in sys.argv[1:])
print("%-28s %10s %10s %10s" % ("", "ours", "PyTorch", "compiled"))
for name, value in ours.items():
    if isinstance(value, float) or isinstance(value, int):
        theirs = [peer.get(name + end) for end in ("", "_compiled")]
        print("%-28s %10.4g %s" % (name, value, " ".join("%10s" % ("-" if v is None else "%.4g" % v) for v in theirs)))
END
fi
cat "$kept"
awk -v name="$2" '$1 == name { print "figure " $2 }' "$kept"
