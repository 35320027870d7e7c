#!/usr/bin/env python3
"""words.py SOURCE: the words that were given up stay so, and lines end at column 100.

No identifier and no file name of the library matches a pattern of tests/words.txt; comments and
texts are not looked at. No line of a C file is longer than 100 columns, and no line of prose in a
page: tables, listings and lines with an address may be."""
import glob
import os
import re
import sys

CODE = ("runtime", "gc", "libs", "arrays")
# What is not code: comments, texts, and the names of included files.
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
                      r'|^\s*#\s*include[^\n]*', re.S | re.M)
COLUMNS = 100
# A line of the kernels' text.
LONG = {("arrays/expr/prelude.h", 201)}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def patterns():
    out = []
    for line in read("tests/words.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            old, new = line.split(maxsplit=1)
            but = re.search(r", but (\w+)", new)
            out.append((re.compile(old), new, but.group(1) + "/" if but else None))
    return out


def files(folders, endings):
    return sorted(p for folder in folders for end in endings
                  for p in glob.glob(f"{folder}/**/*.{end}", recursive=True))


def old_words():
    for path in files(CODE, ("c", "h", "def", "cu")):
        old = [(pattern, new) for pattern, new, but in patterns()
               if not but or not path.startswith(but)]
        name = os.path.basename(path)
        code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), read(path))
        words = [(0, name), (0, os.path.splitext(name)[0])] + [(n, word) for n, line in enumerate(code.splitlines(), 1)
                               for word in re.findall(r"[A-Za-z_]\w*", line)]
        for n, word in words:
            for pattern, new in old:
                if pattern.fullmatch(word):
                    yield f"{path}:{n or ''}: {word}: an old word: {new}"


def long_lines():
    for path in files(CODE + ("bench", "examples", "include", "tests", "tools"), ("c", "h")) \
            + glob.glob("*.c"):
        for n, line in enumerate(read(path).splitlines(), 1):
            if len(line) > COLUMNS and (path, n) not in LONG:
                yield f"{path}:{n}: {len(line)} columns"
    for path in glob.glob("docs/*.md") + glob.glob("*.md"):
        listing = False
        for n, line in enumerate(read(path).splitlines(), 1):
            if line.lstrip().startswith("```"):
                listing = not listing
            prose = not listing and not line.startswith(("|", "    ")) and "://" not in line
            if prose and len(line) > COLUMNS:
                yield f"{path}:{n}: {len(line)} columns"


def main():
    os.chdir(sys.argv[1])
    wrong = list(old_words()) + list(long_lines())
    print("\n".join(wrong + [f"{len(wrong)} wrong"]))
    sys.exit(1 if wrong else 0)


main()
