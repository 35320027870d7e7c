#!/usr/bin/env python3
"""coverage.py: which branches of the library's C files a coverage build's runs have taken, by folder.

    tools/coverage.py BUILD [FILE...]   a table; with files, the lines of these that have untaken branches

Reads by gcov what the build folder's programs have left (.gcda). Files of the project's root stand for
themselves. Exits 1 where a folder's branches are taken less than its floor asks.

What counts: every branch of a .c file of the library that gcov reports, whichever program took it. Left
out: branches in a tidei_check(...), of which one way is a mistake of ours and ends the program. Headers
are not counted by themselves, nor texts that the build makes (kernels' sources)."""
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

LIBRARY = ("arrays/", "gc/", "libs/", "runtime/", "open.c", "torch.c")
# Percent of the branches, by how a path begins; of several that fit the longest counts.
FLOORS = {"": 88, "gc/": 90, "libs/": 90, "runtime/device/cuda/": 90, "open.c": 90, "torch.c": 90}
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))


def read(data):
    """What gcov says of one object's runs: files, with lines and branches."""
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", data]
    ran = subprocess.run(command, stdout=subprocess.PIPE, cwd=os.path.dirname(data))
    if ran.returncode:
        sys.exit("coverage: gcov cannot read %s: was it left by a program of another build?" % data)
    return [json.loads(line) for line in ran.stdout.splitlines() if line.strip()]


def assertions(path):
    """The numbers of the lines that a tidei_check(...) has, from its name to its closing bracket."""
    with open(path) as f:
        text = f.read()
    inside = set()
    for m in re.finditer(r"\btidei_check(_slow)?\(", text):
        depth, end = 1, m.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inside.update(range(text.count("\n", 0, m.start()) + 1, text.count("\n", 0, end) + 2))
    return inside


def better(a, b):
    """A function that several objects have: one sum where they agree about its branches; else the
    one of which more is taken."""
    if a is None:
        return b
    if len(a) == len(b):
        return [x + y for x, y in zip(a, b)]
    return max(a, b, key=lambda counts: sum(map(bool, counts)) / max(1, len(counts)))


def collect(build):
    """{path: {(line, function): [how often each branch was taken]}}, and the lines the same way."""
    data = [os.path.join(d, f) for d, _, names in os.walk(os.path.realpath(build)) for f in names
            if f.endswith(".gcda")]
    branches, lines = collections.defaultdict(dict), collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [o for found in pool.map(read, data) for o in found]
    for o in objects:
        for f in o["files"]:
            file = os.path.join(o["current_working_directory"], f["file"])
            path = os.path.relpath(os.path.realpath(file), ROOT)
            if not path.endswith(".c") or not path.startswith(LIBRARY):
                continue
            for line in f["lines"]:
                at = (line["line_number"], line.get("function_name", ""))
                counts = [b["count"] for b in line["branches"]]
                branches[path][at] = better(branches[path].get(at), counts)
                lines[path][at[0]] = lines[path].get(at[0], 0) + line["count"]
    for path, found in branches.items():
        checks = assertions(os.path.join(ROOT, path))
        for at in [at for at in found if at[0] in checks]:
            del found[at]
    return branches, lines


def percent(taken, all_of):
    return 100 * taken / all_of if all_of else 100.0


def show(name, row, note=""):
    print("%-22s %6d %6.1f %% %6d %6.1f %%%s" %
          (name, row[0], percent(row[1], row[0]), row[2], percent(row[3], row[2]), note))


def table(branches, lines):
    """Prints it; True where a floor is not reached."""
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for path in branches:
        row = rows[os.path.dirname(path) + "/" if "/" in path else path]
        counts = [c for found in branches[path].values() for c in found]
        for i, n in enumerate((len(lines[path]), sum(map(bool, lines[path].values())), len(counts),
                               sum(map(bool, counts)))):
            row[i] += n
    if not rows:
        sys.exit("coverage: nothing of the library has run")
    low = []
    print("%-22s %15s %17s" % ("", "lines", "branches"))
    for name in sorted(rows):
        floor = FLOORS[max((p for p in FLOORS if name.startswith(p)), key=len)]
        below = percent(rows[name][3], rows[name][2]) < floor
        low += [name] * below
        show(name, rows[name], "  below %d %%" % floor if below else "")
    show("all", [sum(column) for column in zip(*rows.values())])
    if low:
        print("coverage: too few branches are taken in " + ", ".join(low))
    return bool(low)


def untaken(branches, paths):
    """A line for each that has branches which nothing took."""
    for path in paths:
        with open(os.path.join(ROOT, path)) as f:
            text = f.read().split("\n")
        for (line, _), counts in sorted(branches[path].items()):
            if not all(counts):
                print("%s:%d: %d of %d: %s" %
                      (path, line, counts.count(0), len(counts), text[line - 1]))
    return False


def main():
    branches, lines = collect(sys.argv[1])
    sys.exit(untaken(branches, sys.argv[2:]) if sys.argv[2:] else table(branches, lines))


main()
