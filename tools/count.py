#!/usr/bin/env python3
"""Counts the cases in meson's test logs: each TAP line of a cmocka program, or a script as one. Ends with
"N passed, N failed, N skipped"; exit 1 if any failed. Each --failed=NAME is one that failed beside them."""
import json
import re
import sys


def cases(test):
    """(name, verdict) of every case of one meson test."""
    lines = [re.match(r"(not )?ok\b\s*(\d+)?\s*-?\s*(.*)", l) for l in test.get("stdout", "").splitlines()]
    tap = [m for m in lines if m]
    if not tap:
        verdict = {"OK": "passed", "SKIP": "skipped"}.get(test["result"], "failed")
        return [(test["name"], verdict)]
    out = []
    for m in tap:
        # cmocka prints a skipped case as "not ok N # SKIP name".
        verdict = "skipped" if re.search(r"#\s*skip", m[3], re.I) else "failed" if m[1] else "passed"
        out.append((test["name"] + ": " + m[3], verdict))
    if test["result"] not in ("OK", "SKIP") and all(v != "failed" for _, v in out):
        out.append((test["name"] + ": %(result)s, ended with status %(returncode)d" % test, "failed"))
    return out


def main():
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for a in sys.argv[1:]:
        if a.startswith("--failed="):
            found = [(a[len("--failed="):], "failed")]
        else:
            with open(a) as log:
                found = [c for line in log for c in cases(json.loads(line))]
        for name, verdict in found:
            count[verdict] += 1
            if verdict == "failed":
                print("failed: " + name)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % count)
    sys.exit(count["failed"] > 0)


main()
