"""perfetto.py FILE: checks a recording in the form that Perfetto reads, and prints what is in it, a line of name and count each.

Valid JSON; each track's times rise; slices of a track nest, and begins match ends by name; rungs lie in climbs; every track
that has slices has a name; counters never fall below zero and "live" ends at zero. With --cut the closing bracket is missing,
as on a full disk: spans may then be open and blocks alive. With --torn as after a crash: its last row may be cut short, too.
"""
import collections
import json
import sys

torn = "--torn" in sys.argv
cut = torn or "--cut" in sys.argv
text = open(sys.argv[-1], encoding="ascii").read()
if torn:
    text = text[: text.rindex("\n")].rstrip(",")
events = json.loads(text + "]" if cut else text)
counts = collections.Counter()
last = {}  # time by track
open_slices = collections.defaultdict(list)
named, used, counters = set(), set(), {}
for e in events:
    track = (e["pid"], e["tid"])
    if e["ph"] == "M":
        if e["name"] == "thread_name":
            assert track not in named, f"{track} is named twice"
            named.add(track)
        continue
    counts[e["ph"] + " " + e["name"]] += 1
    counts["submitted"] += e["ph"] == "X"
    start, end = e["ts"], e["ts"] + e.get("dur", 0)
    assert start >= last.get(track, 0), f"{e} comes after {last[track]}"
    last[track] = start
    stack = open_slices[track]
    if e["ph"] == "C":
        assert e["args"]["bytes"] >= 0, e
        counters[e["name"]] = e["args"]["bytes"]
        continue
    used.add(track)
    if e["ph"] == "X":
        assert not stack or stack[0] <= start, f"{e} overlaps the slice before"
        open_slices[track] = [end]
    elif e["ph"] == "B":
        if "wanted" in e["args"] and e["name"] != "climb" and "collection" not in e["name"]:
            assert "climb" in stack, f"{e} is in no climb"
        stack.append(e["name"])
    elif e["ph"] == "E":
        assert stack and stack.pop() == e["name"], f"{e} ends nothing"
    else:
        assert e["ph"] == "i", e
assert used <= named, f"no name: {used - named}"
if not cut:
    assert not any(isinstance(s[-1], str) for s in open_slices.values() if s), open_slices
    assert counters.get("live", 0) == 0, counters
for name, n in sorted(counts.items()):
    print(name, n)
