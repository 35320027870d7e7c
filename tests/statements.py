#!/usr/bin/env python3
"""statements.py FOLDER [LIMIT]: how many statements each C program of the folder has, and how many
the page of NumPy in its head has; fails where one has more than LIMIT (2) times as many.

Model. A program's head is its first comment: a sentence, and indented lines of Python. A statement
of Python is what its grammar calls so, one inside another too: `for` is one, and so is each in its
body. A statement of C is what ends with a semicolon, declarations too, but in the head of a `for`,
and each `if`, `for`, `while`, `do` and `switch`. So neither an import, nor an #include, nor the
head of a function, nor braces count in C; in Python `def` does. What a header has that the programs
share is no program's own."""
import ast
import pathlib
import re
import sys
import textwrap

HEAD = re.compile(r"\A/\*(.*?)\*/", re.S)
LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|' r"'(?:\\.|[^'\\])*'", re.S)
CONTROL = re.compile(r"\b(if|for|while|do|switch)\b")


def page(text):
    """The Python in a program's head."""
    lines = [line[2:] for line in HEAD.match(text)[1].splitlines() if line.startswith("**")]
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line.strip()))


def python_statements(text):
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))


def for_heads(text):
    """The text without what stands in the parentheses behind each `for`."""
    kept, at = "", 0
    for head in re.finditer(r"\bfor\s*\(", text):
        depth, end = 1, head.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        kept += text[at : head.end()]
        at = end - 1
    return kept + text[at:]


def c_statements(text):
    text = re.sub(r"^\s*#(?:\\\n|.)*", "", LITERAL.sub("0", text), flags=re.M)
    text = for_heads(text)
    # the `while` behind a body ends its `do`
    return text.count(";") + len(CONTROL.findall(text)) - len(re.findall(r"\bdo\b", text))


def main():
    folder, limit = pathlib.Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 2.0
    over = []
    print(f"{'program':16} {'NumPy':>6} {'C':>4} {'ratio':>6}")
    for path in sorted(folder.glob("*.c")):
        text = path.read_text()
        numpy, c = python_statements(page(text)), c_statements(text)
        if not numpy:
            sys.exit(f"{path}: its head has no page of NumPy")
        print(f"{path.stem:16} {numpy:6} {c:4} {c / numpy:6.2f}")
        if c > limit * numpy:
            over.append(path.stem)
    if over:
        sys.exit(f"more than {limit:g} times as many statements as NumPy: {', '.join(over)}")


main()
