#!/usr/bin/env python3
"""floors.py SOURCE BUILD: no folder uses one above it, and no more than 8 files use each other in a
circle.

What a file uses it includes, or names by a symbol: the includes are read from the sources, the
symbols by nm from the library's objects in BUILD. The floors stand below, bottom up; folders of one
line use each other. An upward use goes through a table (docs/internals.md), which is data, and so
neither an include nor a symbol."""
import collections
import glob
import os
import re
import subprocess
import sys

FLOORS = [
    ["runtime/base"],
    ["runtime/observe"],
    ["runtime/device"],
    ["runtime/streams"],
    ["runtime/pool"],
    ["runtime/memory"],
    ["runtime/reclaim"],
    ["runtime"],
    ["gc", "libs"],
    ["arrays"],
    ["."],
]
CIRCLE_MOST = 8


def rank(path):
    """Of the deepest folder that is a floor; None: of none, as the public headers are."""
    folder = os.path.dirname(path) or "."
    while True:
        for i, names in enumerate(FLOORS):
            if folder in names:
                return i
        if folder == "." or "/" not in folder:
            return None
        folder = os.path.dirname(folder)


def sources():
    out = []
    for floor in FLOORS:
        for folder in floor:
            pattern = "*.[ch]" if folder == "." else folder + "/**/*.[ch]"
            out += glob.glob(pattern, recursive=True)
    return sorted(set(os.path.normpath(f) for f in out if rank(os.path.normpath(f)) is not None))


def includes(path):
    with open(path, encoding="utf-8") as f:
        return re.findall(r'^\s*#\s*include\s+"([^"]+)"', f.read(), re.M)


def object_files(build, files):
    """Source file -> object files: a source may be compiled several times."""
    out = collections.defaultdict(list)
    by_name = {f.replace("/", "_") + ".o": f for f in files if f.endswith(".c")}
    for o in glob.glob(os.path.join(build, "libtidepool.so*.p", "*.o")):
        if os.path.basename(o) in by_name:
            out[by_name[os.path.basename(o)]].append(o)
    return out


def meson_sources():
    """What runtime/meson.build names, but for the choice between two files."""
    with open("runtime/meson.build", encoding="utf-8") as f:
        lines = [line for line in f.read().splitlines() if "?" not in line]
    return ["runtime/" + name for line in lines for name in re.findall(r"'([\w/]+\.c)'", line)]


def symbols(objects):
    """Those that the files define, and those that they want."""
    defined, wanted = set(), set()
    text = subprocess.run(["nm"] + objects, capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in "TDBRVWCu":
            defined.add(parts[2])
        elif len(parts) == 2 and parts[0] in "Uw":
            wanted.add(parts[1])
    return defined, wanted


def uses_by_symbol(build, files):
    """File -> file it uses -> symbols."""
    known = {f: symbols(o) for f, o in object_files(build, files).items()}
    missing = [f for f in meson_sources() if f not in known]
    if not known or missing:
        sys.exit(f"floors.py: no objects of the library in {build} for: {' '.join(missing)}")
    owner = {s: f for f, (defined, _) in known.items() for s in defined}
    uses = collections.defaultdict(lambda: collections.defaultdict(set))
    for f, (_, wanted) in known.items():
        for s in wanted:
            if owner.get(s, f) != f:
                uses[f][owner[s]].add(s)
    return uses, sorted(known)


def circles(files, uses):
    """Sets of files each of which reaches all others of its set (Tarjan's algorithm)."""
    sys.setrecursionlimit(10000)
    number, low, stack, out = {}, {}, [], []

    def visit(f):
        number[f] = low[f] = len(number)
        stack.append(f)
        for g in uses[f]:
            if g not in number:
                visit(g)
                low[f] = min(low[f], low[g])
            elif g in stack:
                low[f] = min(low[f], number[g])
        if low[f] == number[f]:
            at = stack.index(f)
            out.append(sorted(stack[at:]))
            del stack[at:]

    for f in files:
        if f not in number:
            visit(f)
    return sorted((c for c in out if len(c) > 1), key=len, reverse=True)


def main():
    source, build = sys.argv[1], os.path.abspath(sys.argv[2])
    os.chdir(source)
    files = sources()
    wrong = []
    for f in files:
        for g in includes(f):
            if rank(g) is not None and rank(g) > rank(f):
                wrong.append(f"{f} includes {g}, which is above it")
    uses, compiled = uses_by_symbol(build, files)
    for f in compiled:
        for g, names in sorted(uses[f].items()):
            if rank(g) > rank(f):
                wrong.append(f"{f} uses {g}, which is above it: {' '.join(sorted(names))}")
    found = circles(compiled, uses)
    for c in found:
        if len(c) > CIRCLE_MOST:
            wrong.append(f"a circle of {len(c)} files: {' '.join(c)}")
    for line in wrong:
        print(line)
    print(f"{len(files)} files, {len(wrong)} wrong; circles: "
          + (", ".join(str(len(c)) for c in found) or "none"))
    sys.exit(1 if wrong else 0)


main()
