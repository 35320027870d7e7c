"""comments.py: what comments of the headers say: their text without marks, and the two sentences
that end a contract.

Model. A text is paragraphs, list items ("- ...") and lines of an example (indented by two blanks or
more), each on one line; an empty line stands between paragraphs. So a text does not change with the
places where the header breaks its lines."""
import re

COLLECTS = {"May collect.": "may", "Never collects.": "never"}
BLOCKS = {"Blocks.": "yes", "May block.": "may", "Never blocks.": "never"}


def lines_of(comment):
    """The lines of one comment, without its marks."""
    inner = re.sub(r"\s*\*/$", "", re.sub(r"^/\*", "", comment))
    out = []
    for i, line in enumerate(inner.split("\n")):
        mark = re.match(r"\s*\*\*( |$)", line)
        out.append((line[mark.end():] if mark else line.strip()).rstrip())
        if i == 0:
            out[0] = out[0].strip()
    return out


def clean(comment):
    """The text of a comment."""
    out, fresh = [], True
    for line in lines_of(comment):
        if not line:
            fresh = True
            if out and out[-1]:
                out.append("")
        elif line.startswith("  ") and not (out and out[-1].startswith("- ") and not fresh):
            out.append(line)
            fresh = True
        elif line.startswith("- ") or fresh:
            out.append(line)
            fresh = False
        else:
            out[-1] += " " + line.strip()
    return "\n".join(out).strip("\n")


def join(texts):
    """One text of several; what stands over a few things, "the machine", gets a colon."""
    texts = [t for t in texts if t]
    return "".join(t + ("" if i == len(texts) - 1 else " " if t[-1] in ".:;," else ": ")
                   for i, t in enumerate(texts))


def heading(text):
    """The title and the rest of "---- title ---- rest"; (None, text) of another text."""
    m = re.match(r"-{2,} (.*?) -{2,}\s*", text)
    return (m[1], text[m.end():]) if m else (None, text)


def last_sentence(text, sentences):
    """(which of `sentences` the text ends with, what is before it). It may say more after a colon:
    "May block: on a GPU." """
    begin = "|".join(re.escape(s[:-1]) for s in sentences)
    m = re.search(r"(?:^|\s)(%s)(?:: (?:[^.]|\.(?=\S))+)?\.$" % begin, text)
    return (sentences[m[1] + "."], text[:m.start()].rstrip()) if m else (None, text)


def closing(text):
    """What the last two sentences say: (collects, blocks), None for one that is missing."""
    blocks, before = last_sentence(text, BLOCKS)
    return last_sentence(before, COLLECTS)[0], blocks


def declaration(comment):
    """The declaration with which a comment begins, "tide_array *tide_map(..., ...)", and the text
    that follows; None where it begins with none. So headers describe macros that stand for a
    function."""
    first, *rest = lines_of(comment)
    m = re.fullmatch(r"\w[\w ]*[ *](tide_\w+)\(.*\)", first)
    return (m[1], first, clean("\n".join("** " + line for line in rest))) if m else None


def errors(*texts):
    """The errors that texts name, in their order."""
    found = re.findall(r"\bTIDE_E_[A-Z_]+\b", " ".join(t for t in texts if t))
    return list(dict.fromkeys(found))


NULL_IS_LEGAL = r"\bNULL,? (?:is|are) legal\b|\blegal, as is NULL\b|\b0 for NULL\b"
ANY_RESULT = r"\bResults through pointers\b[^.]*\beach may be NULL\b"


def may_be_null(name, own, group):
    """Whether a function's text, or its group's, says that the pointer `name` may be NULL."""
    said = [r"\b%s\b`? \(?may be NULL", r"\b%s\b`? NULL:", r"\b%s\b`? and `?\w+`? NULL:",
            r"`%s`[^.]*\bit may be NULL"]
    return any(re.search(s % name, t) for s in said for t in (own, group))
