#!/usr/bin/env python3
"""Counts the cases in meson's test logs: each TAP line of a cmocka program, or a script as one. Ends with
"N passed, N failed, N skipped"; exit 1 if any failed (or with --failed: something outside the cases did)."""
import json
import re
import sys


def cases(test):
    """(name, verdict) of every case of one meson test."""
    lines = [re.match(r"(not )?ok\b\s*(\d+)?\s*-?\s*(.*)", l) for l in test.get("stdout", "").splitlines()]
    tap = [m for m in lines if m]
    if not tap:
        verdict = {0: "passed", 77: "skipped"}.get(test["returncode"], "failed")
        return [(test["name"], verdict)]
    out = []
    for m in tap:
        # cmocka prints a skipped case as "not ok N # SKIP name".
        verdict = "skipped" if re.search(r"#\s*skip", m[3], re.I) else "failed" if m[1] else "passed"
        out.append((test["name"] + ": " + m[3], verdict))
    if test["returncode"] != 0 and all(v != "failed" for _, v in out):
        out.append((test["name"] + ": ended with status %d" % test["returncode"], "failed"))
    return out


def main():
    files = [a for a in sys.argv[1:] if not a.startswith("--")]
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for f in files:
        with open(f) as log:
            for line in log:
                for name, verdict in cases(json.loads(line)):
                    count[verdict] += 1
                    if verdict == "failed":
                        print("failed: " + name)
    if "--failed" in sys.argv and not count["failed"]:
        print("failed: see above")
        count["failed"] = 1
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % count)
    sys.exit(count["failed"] > 0)


main()
