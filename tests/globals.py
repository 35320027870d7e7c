#!/usr/bin/env python3
"""globals.py SOURCE BUILD: what the library has that is writable and global stands in a table of
docs/internals.md, with its reason; the objects of a build say what there is. --list prints that
instead.

A constant with addresses in it is made by the loader and read-only then (.data.rel.ro), so it is
none of these; nor is what compilers add for themselves, whose names begin with two underscores. A
static of a function has a dot and a number behind its name (gcc), or the function's name and a dot
before it (clang)."""
import collections
import glob
import os
import re
import subprocess
import sys

# | `name` | `file` | reason |
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+\.[ch])` \| \S.*\|$", re.M)


def source_of(o):
    """runtime_base_refs.c.o -> runtime/base/refs.c, by the files that are there."""
    name = re.sub(r"\.o$", "", os.path.basename(o)).removeprefix("meson-generated_.._")
    parts = name.split("_")
    path = ""
    while parts:  # folders first, as long as they are there; the rest is the file's name
        folder = os.path.join(path, parts[0])
        if not os.path.isdir(folder):
            break
        path = folder
        parts.pop(0)
    return os.path.join(path, "_".join(parts))


def sections(o):
    """Section number -> name."""
    text = subprocess.run(["readelf", "-SW", o], capture_output=True, text=True, check=True).stdout
    return {m.group(1): m.group(2) for m in re.finditer(r"\[ *(\d+)\] (\S+)", text)}


def writable(o):
    """Names of data that a program may write: .data, .bss and their thread-local likes."""
    names = sections(o)
    text = subprocess.run(["readelf", "-sW", o], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        f = line.split()
        if len(f) != 8 or f[3] not in ("OBJECT", "TLS") or int(f[2], 0) == 0:
            continue
        section = "COMMON" if f[6] == "COM" else names.get(f[6], "")
        if re.match(r"\.(data|bss|tdata|tbss)|COMMON", section) and ".rel.ro" not in section:
            name = re.sub(r"\.\d+$", "", f[7]).split(".")[-1]
            if not name.startswith("__"):
                yield name


def main():
    source, build = sys.argv[1], os.path.abspath(sys.argv[2])
    os.chdir(source)
    objects = [o for folder in ("libtidepool.so*.p", "arrays/expr/libvm_*.a.p")
               for o in glob.glob(os.path.join(build, folder, "*.o"))]
    if not objects:
        sys.exit(f"globals.py: no objects of the library in {build}")
    there = collections.defaultdict(set)
    for o in objects:
        for name in writable(o):
            there[source_of(o)].add(name)
    have = {(name, f) for f, names in there.items() for name in names}
    if "--list" in sys.argv:
        print("\n".join(f"| `{name}` | `{f}` |" for f, name in sorted((f, n) for n, f in have)))
        return
    with open("docs/internals.md", encoding="utf-8") as f:
        page = f.read()
    begin = page.index("## What is writable and global")
    listed = set(ROW.findall(page[begin:page.find("\n## ", begin + 3)]))
    for name, f in sorted(have - listed):
        print(f"{f}: {name} is writable and global, and docs/internals.md gives no reason")
    # What a build leaves out is no fault: libdw, the collector and the sanitizers are optional.
    gone = sorted((name, f) for name, f in listed if not os.path.exists(f) or not re.search(
        rf"\b{re.escape(name)}\b", open(f, encoding="utf-8").read()))
    for name, f in gone:
        print(f"docs/internals.md: {name} is not in {f}")
    print(f"{len(have)} writable globals, {len(have - listed)} without a reason")
    sys.exit(1 if have - listed or gone else 0)


main()
