"""write.py: tide-api.json: the model without what is for messages alone, one thing a line where it
fits, so that a change of a header is a small change of the file."""
import json

WIDTH = 100


def shown(x):
    """Without keys that begin with "_", empty texts, and what an entry is, which its list says."""
    if isinstance(x, dict):
        return {k: shown(v) for k, v in x.items() if not k.startswith("_") and k != "_"}
    return [shown(v) for v in x] if isinstance(x, list) else x


def dump(x, depth=0):
    line = json.dumps(x, ensure_ascii=False)
    if not isinstance(x, (dict, list)) or (depth and depth + len(line) < WIDTH):
        return line
    blank = " " * (depth + 1)
    if isinstance(x, dict):
        inner = ["%s%s: %s" % (blank, json.dumps(k), dump(v, depth + 1)) for k, v in x.items()]
    else:
        inner = [blank + dump(v, depth + 1) for v in x]
    marks = "{}" if isinstance(x, dict) else "[]"
    return marks[0] + "\n" + ",\n".join(inner) + "\n" + " " * depth + marks[1]


def entry(e):
    """A top-level entry in a fixed order of keys; `kind` is the list's, so it is left out."""
    first = ("name", "header", "group", "text")
    return {k: e[k] for k in first if k in e} | {
        k: v for k, v in e.items() if k not in first and k != "kind"}


def text(api):
    lists = [k for k in api if k.endswith("s") and k not in ("headers", "groups")]
    whole = {k: [entry(e) for e in v] if k in lists else v for k, v in api.items()}
    return dump(shown(whole)) + "\n"
