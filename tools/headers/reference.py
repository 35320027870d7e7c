"""reference.py: docs/reference.md from tide-api.json: by header, in reading order, everything with
its signature and text, and an index. Prose ends at column 100; tables are as wide as they are."""
import re
import textwrap

from headers import kinds

WIDTH = 100
INTRO = """\
# Reference

Written by `tools/api.py` from the comments of the headers; a change goes there. The same for
programs: `tide-api.json`, which is installed in `share/tidepool` ([below](#for-programs)). The last
two sentences of each function say whether it may collect garbage to make room in device memory, and
whether it waits for queued device work. The head of [tide/base.h](#tidebaseh) has the conventions
that hold for all.
"""
NESTED = r"\((?:[^()]|\([^()]*\))*\)"
PROGRAMS = """\
`tide-api.json` has what is here for programs: lists of `functions`, `macros`, `constants`, `enums`,
`structs`, `callbacks`, `objects` (opaque types) and `types` (of numbers), each in the order of the
headers; `headers`, with the text at the head of each and its `contents`; and `groups`, texts that
hold for all whose `group` is their place in this list. An entry has `name`, `header` and `text`: a
paragraph or a list item is one line of it. A function has beside that:

- `result`, with `type` and `kind`, and whose it is by `ownership`: `new` (the caller's),
  `borrowed`, `static`, `same` (the array that was given), or `none` (no pointer). `failure` is what
  comes of a failure where there is no status: a number, "NULL", "NaN", or "absent" (a zeroed
  struct); a function that has neither does not fail, or tells of it by the error record alone.
  `release` ends what was given.
- `args`, each with `name`, `type` and `kind`; a callback has its own `args` and `result`.
  `variadic` where more follow.
- `collects`: `may` or `never`; `blocks`: `yes`, `may` or `never`: the last two sentences.
- `errors`: codes with which it may fail beside those that any function may have (base.h), as far as
  its text names them, or that of its section, of the head of `expr.h`, `linalg.h` or `ops.h`, or of
  a function that it is said to be like. A code that is named of something else is left out; one of
  a section need not come from each function in it.
- `returns`: statuses that are no failure, beside `TIDE_OK`.
- `inline` where no library has it. `calls`, of one with `...`: the function that does the same
  without.

A macro that stands for a function has all that too; `calls` is the function behind it. Results,
arguments, and the fields of structs, may have further:

- `nullable`: a pointer or a callback that may be NULL; where it has a `count`, at a count of 0 at
  least; else the text says what NULL stands for. (`user` is passed on as it is.)
- `count`: what counts the elements to which it points, bytes where these have no type: the argument
  or field of that name; `rank(a)`, the axes of the array `a`; or `elements(shape)`, their product.
  Of an array within a struct, which has `length` elements, how many of them count.
- `enum`: the name in `enums` of the constants that an int takes: one of them, where `flags` stands
  any of them combined by `|`; `values` where only some are meant. A `switch` is 0, or 1 for yes;
  one with an `enum` takes that.
- `default`: what a language with optional arguments may put where none is given.
- `release`: the function that ends what is given by pointer; an object's, and a struct's, too.
- `env`: the environment variable that a field of a configuration stands for.

A constant has its `value`, a number, and `c`, its text in C; one of a `size_t` may be 2^63 or more. Kinds: %s.
An array "in-out" exists, and is written; "out" is written at success, through the pointer that is
given; "config" is a struct that is read, or `count` of them.
"""
MARKED = re.compile(r"(`[^`]*`)|\btide_\w+%s|\b(?:tide|TIDE)_\w+(?:\*|\.[a-z]\w*)?|"
                    r"(?<![\w/])(?:docs|tide)/\w+\.(?:md|h)" % NESTED)


def marked(text):
    """Text of a comment as Markdown: names and calls in code, nothing else with a meaning of its
    own."""
    out, last = "", 0
    for m in MARKED.finditer(text):
        out += plain(text[last:m.start()])
        word = m[0]
        if m[1]:
            out += word
        elif word.startswith("docs/"):
            out += "[%s](%s)" % (word, word[len("docs/"):])
        else:
            out += "`%s`" % word
        last = m.end()
    return out + plain(text[last:])


def plain(text):
    text = re.sub(r"((?<![\w*)])\*[A-Za-z]+\*(?![\w*]))|([*\\]|<(?=[A-Za-z/!])|(?<=\])\()",
                  lambda m: m[1] or "\\" + m[2], text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def anchor(heading):
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def wrapped(text, first="", rest=""):
    """Broken at column 100; not before what would begin a list or a heading there."""
    text = re.sub(r" (?=(?:[-+#>=]|\d+[.)])(?: |$))", "\0", text)
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def prose(text):
    """Paragraphs, lists and examples."""
    out, example = [], []
    for line in text.split("\n") + [""]:
        if line.startswith("  "):
            example.append("    " + line.strip())
            continue
        if example:
            out += [""] + example + [""]
            example = []
        if line.startswith("- "):
            out.append(wrapped(marked(line[2:]), "- ", "  "))
        else:
            out.append(wrapped(marked(line)) if line else "")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n")


def cell(text):
    return marked(text).replace("\n", " ").replace("|", "\\|")


def declared(a):
    """An argument or a field as C declares it."""
    name = a["name"]
    if "args" in a and "result" in a:
        return "%s(*%s)(%s)" % (spaced(a["result"]["type"]), name,
                                ", ".join(map(declared, a["args"])))
    length = "[%d]" % a["length"] if "length" in a else ""
    return spaced(a["type"]) + name + length


def spaced(t):
    return t if t.endswith("*") else t + " "


def call(head, args):
    """What begins with `head` and a parenthesis, broken where it is too long."""
    line = head + (", ".join(args) or "void") + ");"
    if len(line) <= WIDTH:
        return line
    lines = [head + args[0]]
    for a in args[1:]:
        lines[-1] += ","
        if len(lines[-1]) + len(a) + 3 > WIDTH:
            lines.append(" " * len(head) + a)
        else:
            lines[-1] += " " + a
    return "\n".join(lines) + ");"


def code(text):
    return "```c\n%s\n```" % text


def table(head, rows):
    rows = [head, ["---"] * len(head)] + list(rows)
    return "\n".join(re.sub(" +", " ", "| " + " | ".join(r) + " |") for r in rows)


# ---- one entry of each kind: its parts, under a heading ----

def function(f):
    args = [declared(a) for a in f["args"]] + (["..."] if f.get("variadic") else [])
    return [code(call("%s%s(" % (spaced(f["result"]["type"]), f["name"]), args)), prose(f["text"])]


def callback(c):
    head = "typedef %s(*%s)(" % (spaced(c["result"]["type"]), c["name"])
    return [code(call(head, [declared(a) for a in c["args"]])), prose(c["text"])]


def macro(m):
    if "result" in m:
        return function(m)
    names = [a["name"] for a in m["args"]] + (["..."] if m.get("variadic") else [])
    return [code("%s(%s)" % (m["name"], ", ".join(names))), prose(m["text"])]


def constants(run):
    """Constants that follow each other share a table."""
    rows = [("`%s`" % c["name"], "`%s`" % c["c"], cell(c["text"])) for c in run]
    return table(("constant", "value", "meaning"), rows)


def enum(e):
    rows = [("`%s`" % v["name"], str(v["value"]), cell(v.get("text", ""))) for v in e["values"]]
    return [prose(e["text"]), table(("value", "", "meaning"), rows)]


def fields(of, before=""):
    for f in of:
        shown = dict(f, name=before + f["name"])
        yield ("`%s`" % declared(shown), cell(f.get("text", "")))
        yield from fields(f.get("fields", []), shown["name"] + ".")


def struct(s):
    return [prose(s["text"]), table(("field", "meaning"), list(fields(s["fields"])))]


def object_(o):
    return [code("typedef struct %s %s;" % (o["name"], o["name"])), prose(o["text"])]


def type_(t):
    return [code("typedef %s %s;" % (t["type"], t["name"])), prose(t["text"])]


SHOWN = {"functions": function, "macros": macro, "enums": enum, "structs": struct,
         "callbacks": callback, "objects": object_, "types": type_, "constants": None}


def by_header(api, name):
    """(heading, group, parts) of the entries of a header, in its order. Values of a type are shown
    with the type."""
    queues, run = {}, []
    for kind, shown in SHOWN.items():
        for e in api[kind]:
            if e["header"] == name:
                queues.setdefault((kind, e["name"]), []).append(e)
    for kind, entry in next(h for h in api["headers"] if h["name"] == name)["contents"]:
        e = queues[kind, entry].pop(0)
        if run and (kind != "constants" or e.get("group") != run[0].get("group")):
            yield ", ".join(c["name"] for c in run), run[0].get("group"), [constants(run)]
            run = []
        if kind == "constants":
            run.append(e)
        elif kind == "types" and ("enums", entry) in queues:
            values = queues["enums", entry][0]
            yield entry, e.get("group"), [p for p in type_(e) + enum(values) if p]
        elif kind != "enums" or not any(t["name"] == entry for t in api["types"]):
            yield entry, e.get("group"), [p for p in SHOWN[kind](e) if p]
    if run:
        yield ", ".join(c["name"] for c in run), run[0].get("group"), [constants(run)]


def subject(h):
    """What a header is about: the text at its head without its name."""
    words = h["text"].split(": ", 1)[-1]
    return words[:1].upper() + words[1:]


def text(api):
    lines = [wrapped("[tide/%s](#%s): %s" % (h["name"], anchor("tide/" + h["name"]), marked(
        re.split(r"(?<=\.)\s|\n", subject(h))[0])), "- ", "  ") for h in api["headers"]]
    lines += ["- [For programs](#for-programs)", "- [Index](#index)"]
    out = [INTRO.rstrip(), "## Contents", "\n".join(lines)]
    for h in api["headers"]:
        out += ["## tide/" + h["name"], prose(subject(h))]
        seen = set()
        for heading, g, parts in by_header(api, h["name"]):
            if g not in seen and g is not None:
                title, words = api["groups"][g]["title"], api["groups"][g]["text"]
                out += ["### " + title[0].upper() + title[1:]] if title else []
                out += [prose(words)]
            seen.add(g)
            out += ["#### " + heading.replace("*", "\\*")] + parts
    return "\n\n".join(p for p in out + programs() + ["## Index", index(api)] if p) + "\n"


def programs():
    words = PROGRAMS % ", ".join("`%s`" % k for k in kinds.all_kinds())
    parts = [[" ".join(item.split()) for item in re.split(r"\n(?=- )", part)]
             for part in words.strip().split("\n\n")]
    shown = ["\n".join(wrapped(i, "", "  " if i.startswith("- ") else "") for i in part)
             for part in parts]
    return ["## For programs", "\n\n".join(shown)]


def index(api):
    """All names but those of constants and values, a line for each letter."""
    names = sorted({e["name"] for kind in SHOWN if kind not in ("constants", "enums")
                    for e in api[kind]}, key=lambda n: (n.lower(), n))
    letters = {}
    for n in names:
        letter = re.sub("^tide_", "", n, flags=re.I)[0].upper()
        letters.setdefault(letter, []).append("[%s](#%s)" % (n, anchor(n)))
    return "\n".join(wrapped(", ".join(found), "- %s: " % letter, "  ")
                     for letter, found in letters.items())
