#!/usr/bin/env python3
"""api.py: the public API for programs, from the headers.

    tools/api.py [--root DIR]          writes include/tide-api.json and docs/reference.md anew
    tools/api.py --check [--root DIR]  whether the headers keep the rule at the head of base.h,
                                       every function has its contract, both files are current,
                                       and tests/exports.txt has the same functions
    tools/api.py --table JSON HEADER   a C table of the functions (needs no libclang)

Exits 0, 1 where the check complains or the headers do not compile, 2 for a wrong command, 77 where
libclang's Python bindings are not here (Debian and Ubuntu: python3-clang)."""
import json
import os
import sys

sys.dont_write_bytecode = True
from headers import facts, read, reference, rule, table, write  # noqa: E402

JSON, REFERENCE, EXPORTS = "include/tide-api.json", "docs/reference.md", "tests/exports.txt"


def content(path):
    """The text of a file; None where there is none."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def write_file(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def generated(api):
    """The files that are made of the model, by path. The reference is made of what a reader of the
    JSON has, so that it shows nothing else."""
    text = write.text(api)
    return {JSON: text, REFERENCE: reference.text(json.loads(text))}


def of_exports(api, listed):
    """Functions that tests/exports.txt lacks, and names in it that no header has."""
    declared = {f["name"]: f for f in api["functions"] if not f.get("inline")}
    for name, f in declared.items():
        if name not in listed:
            yield "include/tide/%s:%d: %s: %s lacks it" % (f["header"], f["_line"], name, EXPORTS)
    for name in listed:
        if name not in declared:
            yield "%s: %s is in no header" % (EXPORTS, name)


def complaints(root, api, own=True):
    """What is wrong; of the headers that the tables of facts.py are about, `own`, these too."""
    for header, line, text in rule.check(api) + (facts.check(api) if own else []):
        yield "include/tide/%s:%d: %s" % (header, line, text)
    for path, text in generated(api).items():
        if content(os.path.join(root, path)) != text:
            yield "%s is not current: run tools/api.py" % path
    yield from of_exports(api, (content(os.path.join(root, EXPORTS)) or "").split())


def main(args):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if args[:1] == ["--table"] and len(args) == 3:
        write_file(args[2], table.text(json.loads(content(args[1]))))
        return 0
    own = "--root" not in args
    if not own and args[-1] != "--root":
        at = args.index("--root")
        root, args = args[at + 1], args[:at] + args[at + 2:]
    if args not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    cindex = read.libclang()
    if cindex is None:
        print("skipped: libclang's Python bindings are not here (python3-clang)")
        return 77
    try:
        api = read.read(cindex, root)
    except read.Unreadable as e:
        print(e)
        return 1
    if not args:
        for path, text in generated(api).items():
            write_file(os.path.join(root, path), text)
        return 0
    found = list(complaints(root, api, own))
    for c in found:
        print(c)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
