#!/bin/sh
# replay.sh FIGURE max|sum TRACE|all [OPTION...]: `tide replay --json` of one of the recorded
# traces, or of all four, with these options; each one's figures, and the largest of the FIGUREs or
# their sum. A failed allocation or comparison is a figure like others here; anything else that goes
# wrong ends it with 1.
set -eu
figure=$1 how=$2 traces=$3
shift 3
[ "$traces" != all ] || traces="gpt2-train-varlen resnet50-train-varbatch lstm-train-unrolled linalg-mix"
lines=
for trace in $traces; do
    line=$(build-release/tools/tide replay "tests/traces/$trace.csv.gz" --json "$@") || [ -n "$line" ]
    lines="$lines$trace $line
"
done
printf '%s' "$lines" | python3 -c '
import json, sys
figure, how = sys.argv[1:]
values = []
for line in sys.stdin:
    trace, text = line.split(" ", 1)
    f = json.loads(text)
    values.append(f[figure])
    print("%-24s %s %s" % (trace, figure, f[figure]))
print("figure", {"max": max, "sum": sum}[how](values))' "$figure" "$how"
