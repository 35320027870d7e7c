"""read.py: the public headers as libclang sees them: functions, macros, constants, enums, structs,
callbacks and types, each with the comments that stand by it.

What a macro stands for is a function where a comment begins with its declaration.

Model. All headers are parsed as one translation unit, in the order of tide.h, with system headers
of our own below: so nothing depends on the machine, and types keep the names that they have in the
header. Declarations come from libclang, comments from its tokens. A comment belongs to what stands
directly below it, or to what it follows on the same line; one that stands apart, on top of another
comment, or begins with "----", is a group's, and holds for all that follows up to the next.

What must stay true: entries come in the order of the headers; keys that begin with "_" (lines) are
for messages and are not written."""
import os
import re
import sys

from headers import comments, facts, kinds

STUBS = {
    "stddef.h": "typedef unsigned long size_t; typedef long ptrdiff_t;\n"
                "#define NULL ((void *)0)\n#define offsetof(s, m) __builtin_offsetof(s, m)\n",
    "stdarg.h": "typedef __builtin_va_list va_list;\n",
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0\n",
    "stdint.h": "".join("typedef %s %sint%d_t;\n" % (t, u, bits)
                        for u in ("", "u")
                        for bits, t in ((8, ("signed" if not u else "unsigned") + " char"),
                                        (16, (u and "unsigned ") + "short"),
                                        (32, (u and "unsigned ") + "int"),
                                        (64, (u and "unsigned ") + "long")))
                + "typedef long intptr_t; typedef unsigned long uintptr_t;\n"
                  "#define INT64_MIN (-0x7fffffffffffffff - 1)\n#define SIZE_MAX (~0ul)\n"
                  "#define INT64_MAX 0x7fffffffffffffff\n#define UINT64_MAX (~0ul)\n",
}
# A header whose macros and functions nobody has to read: they box arguments.
UNREAD = ("box.h",)
FOR_COMPILERS = ("TIDE_API", "TIDE_NODISCARD", "TIDE_PRINTF")


class Unreadable(Exception):
    """The headers do not compile; the text says where."""


def libclang():
    """The bindings of libclang, or None where they, or it, are not here. An interpreter that is not
    the system's does not look where packages put them."""
    for place in (None, "/usr/lib/python3/dist-packages"):
        if place:
            sys.path.append(place)
        try:
            import clang.cindex as cindex
            cindex.Index.create()
            return cindex
        except (ImportError, OSError, AttributeError):
            sys.modules.pop("clang.cindex", None)
            sys.modules.pop("clang", None)
        except Exception as e:  # cindex.LibclangError: the module is there, the library is not
            if type(e).__name__ != "LibclangError":
                raise
            return None
    return None


def header_names(root):
    """The headers in the order in which tide.h includes them; those that it does not at the end."""
    folder = os.path.join(root, "include", "tide")
    there = sorted(f for f in os.listdir(folder) if f.endswith(".h"))
    order = []
    if "tide.h" in there:
        with open(os.path.join(folder, "tide.h"), encoding="utf-8") as f:
            order = [h for h in re.findall(r"#include <tide/(\w+\.h)>", f.read()) if h in there]
    return order + [h for h in there if h not in order and h != "tide.h"]


class Header:
    """The tokens of one header, and which comment stands where."""

    def __init__(self, cindex, unit, path, name):
        self.name = name
        with open(path, encoding="utf-8") as f:
            text = f.read()
        whole = unit.get_extent(path, ((1, 1), (text.count("\n") + 1, 1)))
        self.tokens = [t for t in unit.get_tokens(extent=whole) if t.location.file]
        self.comment = cindex.TokenKind.COMMENT
        self.lines = text.split("\n")
        self.directive = directive_lines(text)
        self.at = {t.location.offset: i for i, t in enumerate(self.tokens)}
        self.own = set()  # comments that belong to a declaration
        # The last line of the macro before, and its text: one directly below it shares that.
        self.described = (0, "")
        first = self.tokens[0] if self.tokens else None
        self.text = ""
        if first is not None and first.kind == self.comment:
            self.text = comments.clean(first.spelling)
            self.own.add(0)

    def is_comment(self, i):
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == self.comment

    def line(self, i):
        return self.tokens[i].extent.start.line

    def last_line(self, i):
        return self.tokens[i].extent.end.line

    def start_of(self, i):
        """The first token of the declaration in which token i is."""
        while i > 0:
            t = self.tokens[i - 1]
            if (t.kind == self.comment or t.spelling in (";", "{", "}") or
                    self.line(i - 1) in self.directive):
                break
            i -= 1
        return i

    def end_of(self, i):
        """The `;` that ends the declaration in which token i is, or the brace of a body."""
        depth = 0
        while i < len(self.tokens) - 1:
            s = self.tokens[i].spelling
            if self.tokens[i].kind != self.comment:
                depth += (s in ("(", "{")) - (s in (")", "}"))
                if depth == 0 and s == ";":
                    return i
                if depth == 0 and s == "}" and self.tokens[i + 1].spelling not in (";", "*"):
                    if self.line(i + 1) > self.line(i):
                        return i
            i += 1
        return i

    def above(self, start):
        """The comment directly above token `start`, which begins its line; None: there is none."""
        i = start - 1
        if not self.is_comment(i) or self.last_line(i) != self.line(start) - 1:
            return None
        if i > 0 and self.last_line(i - 1) == self.line(i):
            return None  # it stands behind something else
        text = comments.clean(self.tokens[i].spelling)
        if comments.heading(text)[0] is not None:
            return None
        self.own.add(i)
        return text

    def behind(self, end):
        """The comment that follows token `end` on its line."""
        if self.is_comment(end + 1) and self.line(end + 1) == self.last_line(end):
            self.own.add(end + 1)
            return comments.clean(self.tokens[end + 1].spelling)
        return None

    def between(self, start, end):
        found = []
        for i in range(start, end + 1):
            if self.is_comment(i):
                self.own.add(i)
                found.append(comments.clean(self.tokens[i].spelling))
        return comments.join(found)

    def governs(self, groups, g, token):
        """Whether a group holds for what stands at `token`: one with a title up to the next title;
        one without, inside of that, up to an empty line behind the first thing it holds for."""
        i, title, _ = groups[g]
        after = [x for x in groups[g + 1:] if x[0] < token]
        if token < i or any(t is not None for _, t, _ in after):
            return False
        if title is None:
            return not after and self.one_run(i, token)
        return not any(self.one_run(j, token) for j, _, _ in after[-1:])

    def one_run(self, i, token):
        """Whether no empty line stands between comment i and `token` but that below the comment."""
        below = self.last_line(i) + 1
        lines = self.lines[below - 1:self.line(token) - 1]
        return "" not in (lines[1:] if lines and lines[0] == "" else lines)

    def groups(self):
        """(token, title, text) of comments that no declaration has, in their order."""
        return [(i,) + comments.heading(comments.clean(t.spelling))
                for i, t in enumerate(self.tokens) if t.kind == self.comment and i not in self.own]


def directive_lines(text):
    """The lines of preprocessor directives, with those that continue them."""
    found, goes_on = set(), False
    for n, line in enumerate(text.split("\n"), 1):
        if goes_on or line.lstrip().startswith("#"):
            found.add(n)
            goes_on = line.endswith("\\")
    return found


class Reader:
    def __init__(self, cindex, root):
        self.c = cindex
        self.k = cindex.CursorKind
        self.root = root
        self.names = header_names(root)
        self.unit = self.parse("".join("#include <tide/%s>\n" % n for n in ["tide.h"] + self.names
                                       if os.path.exists(self.path(n))))
        self.defined = {}  # macros that begin with tide_, by name: the function that each calls
        self.headers = {}
        for name in self.names + ["tide.h"]:
            path = self.path(name)
            if os.path.exists(path):
                self.headers[name] = Header(cindex, self.unit, path, name)

    def path(self, name):
        return os.path.join(self.root, "include", "tide", name)

    def parse(self, main):
        stubs = [("/stubs/" + name, text) for name, text in STUBS.items()]
        unit = self.c.Index.create().parse(
            "all.c", ["-std=c17", "-nostdinc", "-I/stubs",
                      "-I" + os.path.join(self.root, "include")],
            unsaved_files=[("all.c", main)] + stubs,
            options=self.c.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        bad = [d for d in unit.diagnostics if d.severity >= self.c.Diagnostic.Error]
        if bad:
            raise Unreadable("\n".join("%s:%d: %s" % (
                os.path.relpath(str(d.location.file), self.root), d.location.line, d.spelling)
                for d in bad))
        return unit

    def read(self):
        entries = []
        for cursor in self.unit.cursor.get_children():
            name = self.header_of(cursor)
            entry = name and self.entry(cursor, self.headers[name])
            if entry:
                entry["header"] = name
                entry["_line"] = cursor.location.line
                entry["_offset"] = cursor.location.offset
                entries.append(entry)
        order = {n: i for i, n in enumerate(self.names)}
        declared = list(self.declared())
        names = [d["name"] for d in declared]
        entries = [e for e in entries if e["kind"] != "macro" or e["name"] not in names] + declared
        entries.sort(key=lambda e: (order[e["header"]], e["_offset"]))
        self.name_enums(entries)
        self.evaluate([e for e in entries if e["kind"] == "constant"])
        return self.model(entries)

    def header_of(self, cursor):
        f = cursor.location.file
        folder, name = os.path.split(f.name) if f else ("", "")
        return name if name in self.names and os.path.basename(folder) == "tide" else None

    # ---- entries, by what they are ----

    def entry(self, cursor, h):
        k = self.k
        if cursor.kind == k.FUNCTION_DECL:
            return self.function(cursor, h)
        if cursor.kind == k.TYPEDEF_DECL:
            return self.typedef(cursor, h)
        if cursor.kind == k.ENUM_DECL:
            return self.enum(cursor, h)
        if cursor.kind == k.MACRO_DEFINITION:
            return self.macro(cursor, h)
        return None

    def around(self, h, offset, name_offset=None):
        """The comments by a declaration: (directly above, all together)."""
        i = h.at[offset]
        start, end = h.start_of(i), h.end_of(i)
        above = h.above(start)
        inside = h.between(h.at[name_offset], end) if name_offset is not None else None
        return above, comments.join([above, inside, h.behind(end)]), start

    def function(self, cursor, h):
        if h.name in UNREAD or cursor.spelling.startswith("tide_box"):
            return None
        above, text, start = self.around(h, cursor.location.offset, cursor.location.offset)
        f = {"kind": "function", "name": cursor.spelling, "text": text,
             "result": {"type": spelled(cursor.result_type)},
             "args": [self.argument(a) for a in cursor.get_arguments()]}
        if cursor.type.kind == self.c.TypeKind.FUNCTIONPROTO and cursor.type.is_function_variadic():
            f["variadic"] = True
        if cursor.storage_class == self.c.StorageClass.STATIC:
            f["inline"] = True
        f["_above"], f["_token"] = above, start
        return f

    def argument(self, cursor):
        """A parameter or a field: name, type, and the arguments of a pointer to a function."""
        a = {"name": cursor.spelling, "type": spelled(cursor.type)}
        called = [c for c in cursor.get_children() if c.kind == self.k.PARM_DECL]
        pointee = cursor.type.get_pointee()
        if cursor.type.kind == self.c.TypeKind.POINTER and is_function(self.c, pointee):
            a["result"] = {"type": spelled(pointee.get_result())}
            a["args"] = [self.argument(c) for c in called]
            a["type"] = "%s (*)(%s)" % (spelled(pointee.get_result()),
                                        ", ".join(x["type"] for x in a["args"]))
        elif cursor.type.kind == self.c.TypeKind.CONSTANTARRAY:
            a["type"] = spelled(cursor.type.element_type)
            a["length"] = cursor.type.element_count
        elif is_callback_type(self.c, cursor.type):
            a["callback"] = True
        return a

    def typedef(self, cursor, h):
        of = cursor.underlying_typedef_type
        record = of.get_declaration()
        # an enum or a struct of this name is where its members are
        above, text, start = self.around(h, cursor.location.offset)
        e = {"name": cursor.spelling, "text": text, "_token": start}
        if is_callback_type(self.c, of):
            e["kind"] = "callback"
            e["result"] = {"type": spelled(of.get_pointee().get_result())}
            e["args"] = [self.argument(a) for a in cursor.get_children()
                         if a.kind == self.k.PARM_DECL]
        elif record.kind in (self.k.STRUCT_DECL, self.k.UNION_DECL):
            if not record.is_definition():
                inside = h.between(start, h.end_of(h.at[cursor.location.offset]))
                e.update(kind="object", text=comments.join([above, inside]) or text)
                return e
            e["kind"] = "struct"
            first = h.at[record.extent.start.offset]
            e["_token"] = h.start_of(first)
            above = h.above(e["_token"])
            e["text"] = above or ""
            e["fields"] = self.fields(record, h)
        else:
            e["kind"] = "type"
            e["type"] = spelled(of)
        return e

    def fields(self, record, h):
        """The fields of a struct; each with the comments of the statement in which it stands."""
        texts = statements(h, record.extent, ";")
        out = []
        for c in record.get_children():
            if c.kind != self.k.FIELD_DECL:
                continue
            field = self.argument(c)
            text = text_at(texts, c.location.offset)
            inner = c.type.get_declaration()
            if inner.kind in (self.k.STRUCT_DECL, self.k.UNION_DECL) and not is_named(c.type):
                field["type"] = "union" if inner.kind == self.k.UNION_DECL else "struct"
                field["fields"] = self.fields(inner, h)
            if text:
                field["text"] = text
            out.append(field)
        return out

    def enum(self, cursor, h):
        start = h.start_of(h.at[cursor.extent.start.offset])
        end = h.end_of(start)
        texts = statements(h, cursor.extent, ",")
        values = []
        for c in cursor.get_children():
            v = {"name": c.spelling, "value": c.enum_value}
            text = text_at(texts, c.location.offset)
            values.append(dict(v, text=text) if text else v)
        return {"kind": "enum", "name": None, "values": values, "_token": start,
                "text": comments.join([h.above(start), h.behind(end)])}

    def macro(self, cursor, h):
        tokens = list(cursor.get_tokens())
        name, at = cursor.spelling, h.at[cursor.location.offset] - 2  # "#", "define"
        calls = [a.spelling for a, b in zip(tokens[1:], tokens[2:])
                 if re.fullmatch(r"tide_\w+", a.spelling) and b.spelling == "("]
        above = h.above(at)
        if name.startswith("tide_"):
            self.defined[name] = calls[0] if calls else None
        if name in FOR_COMPILERS or re.fullmatch(r"TIDE_(\w+_)?H", name) and len(tokens) == 1:
            return None
        if name.endswith("_") or name.startswith("tide_box") or h.name in UNREAD:
            return None
        behind = h.behind(max(i for o, i in h.at.items() if o <= tokens[-1].location.offset))
        text = comments.join([above, behind])
        if tokens[1:] and tokens[1].spelling == "(" and \
                tokens[1].location.offset == cursor.location.offset + len(name):
            if not text and cursor.location.line == h.described[0] + 1:
                text = h.described[1]
            if not text and not name.startswith("tide_"):
                return None
            h.described = (tokens[-1].extent.end.line, text)
            closing = next(i for i, t in enumerate(tokens) if t.spelling == ")")
            names = [t.spelling for t in tokens[2:closing] if t.spelling != ","]
            e = {"kind": "macro", "name": name, "text": text, "_token": at,
                 "args": [{"name": n} for n in names if n != "..."]}
            if "..." in names:
                e["variadic"] = True
            return dict(e, calls=calls[0]) if calls else e
        if len(tokens) == 1:
            return None
        return {"kind": "constant", "name": name, "text": text, "_token": at,
                "c": re.sub(r"(?<=\() | (?=\))|(?<=\( -) ", "", " ".join(
                    t.spelling for t in tokens[1:] if t.kind != h.comment))}

    # ---- what needs more than one entry ----

    def declared(self):
        """Macros whose comment begins with the declaration of what they stand for. Its types are
        read from a unit of such declarations."""
        found = []
        for name in self.names:
            h = self.headers[name]
            for i, t in enumerate(h.tokens):
                said = t.kind == h.comment and i not in h.own and comments.declaration(t.spelling)
                if said:
                    h.own.add(i)
                    found.append((name, i, t) + said)
        functions = self.functions_of([(f[3], f[4]) for f in found])
        for header, i, t, name, _, text in found:
            e = dict(functions.get(name, {"args": []}), kind="macro", name=name, text=text,
                     header=header, _token=i, _line=t.location.line, _offset=t.location.offset,
                     _above=text, _defined=name in self.defined)
            if self.defined.get(name):
                e["calls"] = self.defined[name]
            yield e

    def functions_of(self, declarations):
        """Result, arguments and whether there are more of each declaration, by name."""
        text = "#include <tide/tide.h>\n" + "".join(
            "#undef %s\n%s;\n" % d for d in declarations)
        found = {}
        for c in self.parse(text).cursor.get_children():
            if c.kind == self.k.FUNCTION_DECL and c.location.file.name == "all.c":
                found[c.spelling] = {"result": {"type": spelled(c.result_type)},
                                     "args": [self.argument(a) for a in c.get_arguments()],
                                     "variadic": c.type.is_function_variadic()}
        return found

    def evaluate(self, constants):
        """The number that each constant is."""
        text = "#include <stdint.h>\n#include <tide/tide.h>\n" + "".join(
            "enum { value_of_%s = (%s) };\n" % (c["name"], c["name"]) for c in constants)
        numbers = {v.spelling: v.enum_value for e in self.parse(text).cursor.get_children()
                   if e.kind == self.k.ENUM_DECL for v in e.get_children()}
        for c in constants:
            c["value"] = numbers["value_of_" + c["name"]]

    @staticmethod
    def name_enums(entries):
        """Values of a type directly above it are that type's; else an enum has no name but what its
        values have in common, or, where another has that too, all of them."""
        for last, e in zip([{"kind": None}] + entries, entries):
            if e["kind"] != "enum":
                continue
            names = [v["name"] for v in e["values"]]
            common = os.path.commonprefix(names)
            common = common[:common.rfind("_") + 1]
            if last["kind"] == "type":
                e["name"] = last["name"]
            else:
                e["name"] = common + "*" if common.count("_") > 1 else ", ".join(names)
        shown = [e["name"] for e in entries if e["kind"] == "enum"]
        for e in entries:
            if e["kind"] == "enum" and shown.count(e["name"]) > 1:
                e["name"] = ", ".join(v["name"] for v in e["values"])

    def model(self, entries):
        """The whole as it is written."""
        groups = []
        for name in self.names:
            h, here = self.headers[name], [e for e in entries if e["header"] == name]
            mine = [(i, title, text) for i, title, text in h.groups() if outside(h, i)]
            for g, (i, title, text) in enumerate(mine):
                members = [e for e in here if h.governs(mine, g, e["_token"])]
                for e in members:
                    e["group"] = len(groups)
                if members:
                    groups.append({"header": name, "title": title, "text": text})
        for e in entries:
            e["_group"] = groups[e["group"]]["text"] if "group" in e else ""
        api = {"name": "tidepool", "version": version(entries),
               "headers": [{"name": n, "text": self.headers[n].text,
                            "contents": [[e["kind"] + "s", e["name"]] for e in entries
                                         if e["header"] == n]}
                           for n in self.names if n not in UNREAD],
               "groups": groups}
        for kind in ("function", "macro", "constant", "enum", "struct", "callback", "object",
                     "type"):
            api[kind + "s"] = [finish(e, self.headers[e["header"]].text)
                                for e in entries if e["kind"] == kind]
        facts.add(api)
        return api


# ---- parts of it ----

def spelled(type_):
    return re.sub(r"\bstruct (tide_)", r"\1", type_.spelling)


def is_named(type_):
    return re.search(r"\bunnamed|\banonymous", type_.get_declaration().type.spelling) is None and \
        bool(type_.get_declaration().spelling) and "(" not in type_.get_declaration().spelling


def is_function(cindex, type_):
    return type_.get_canonical().kind == cindex.TypeKind.FUNCTIONPROTO


def is_callback_type(cindex, type_):
    c = type_.get_canonical()
    return c.kind == cindex.TypeKind.POINTER and is_function(cindex, c.get_pointee())


def outside(h, i):
    """Whether token i stands in no braces but those of extern "C"."""
    depth = 0
    for j in range(i):
        if h.tokens[j].kind != h.comment and h.line(j) not in h.directive:
            depth += (h.tokens[j].spelling == "{") - (h.tokens[j].spelling == "}")
    opened = any(h.tokens[j].spelling == '"C"' for j in range(i))
    closed = i > 0 and depth == 0
    return closed or depth == (1 if opened else 0)


def statements(h, extent, separator):
    """(first offset, last offset, text) of the parts of a pair of braces, with the comments in
    each, before it, and behind it on its line."""
    i, parts, depth = h.at[extent.start.offset], [], 0
    while h.tokens[i].spelling != "{":
        i += 1
    begin, texts, code = None, [], False
    for j in range(i + 1, len(h.tokens)):
        t = h.tokens[j]
        if t.kind == h.comment:
            h.own.add(j)
            if depth:
                continue
            text = comments.clean(t.spelling)
            if not code and parts and h.line(j) == parts[-1][3]:
                parts[-1][2].append(text)
            else:
                texts.append(text)
            continue
        ends = depth == 0 and t.spelling == "}"
        if begin is None and not ends:
            begin = t.location.offset
        if ends or (depth == 0 and t.spelling == separator):
            if begin is not None:
                parts.append([begin, t.location.offset, texts, h.line(j)])
            elif ends and texts and parts:
                parts[-1][2].extend(texts)
            begin, texts, code = None, [], False
            if ends:
                return [(a, b, comments.join(c)) for a, b, c, _ in parts]
            continue
        code = True
        depth += (t.spelling in ("(", "{")) - (t.spelling in (")", "}"))
    return [(a, b, comments.join(c)) for a, b, c, _ in parts]


def text_at(parts, offset):
    return next((text for a, b, text in parts if a <= offset <= b), "")


def version(entries):
    number = {e["name"]: e.get("value") for e in entries if e["kind"] == "constant"}
    return ".".join(str(number.get("TIDE_VERSION_" + p, "0")) for p in ("MAJOR", "MINOR", "PATCH"))


def nullable(f, i, group, head):
    """Whether NULL stands for something as argument i: "NULL is legal" speaks of the memory that is
    given, or of the first argument; "NULL: the current one" of a stream, a pool, or axes."""
    a, places = f["args"][i], [x["kind"] for x in f["args"]]
    meant = places.index("raw pointer") if "raw pointer" in places else 0
    if i == meant and re.search(comments.NULL_IS_LEGAL, f["text"]):
        return True
    if a["kind"] == "axes" or i > 0 and a["kind"] in ("stream", "pool"):
        if "NULL:" in f["text"] + (group if a["kind"] == "axes" else ""):
            return True
    if a["kind"] == "stream" and "stream (NULL:" in group:
        return True
    if a["kind"] == "array out" and re.search(comments.ANY_RESULT, head):
        return True
    return comments.may_be_null(a["name"], f["text"], group)


def finish(e, head):
    """An entry with what follows from its text and types; `head`: the text at the header's."""
    group = e["_group"]
    if e["kind"] in ("callback", "struct"):
        finish_slot(e)
    if e["kind"] != "function" and "_above" not in e:
        return e
    for i, a in enumerate(e["args"]):
        a["kind"] = "callback" if a.pop("callback", False) else kinds.of_argument(a, e["name"], i)
        finish_slot(a)
    for i, a in enumerate(e["args"]):
        if a["type"].endswith("*") and nullable(e, i, group, head):
            a["nullable"] = True
    e["result"]["kind"] = kinds.of_result(e["result"]["type"])
    e["ownership"] = kinds.ownership(e["name"], e["result"], e["text"])
    e["collects"], e["blocks"] = comments.closing(e["_above"] or "")
    return e


def finish_slot(a):
    """The arguments of a callback have kinds too."""
    for x in a.get("args", []):
        x["kind"] = "callback" if x.pop("callback", False) else kinds.of_argument(x)
        finish_slot(x)
    for x in a.get("fields", []):
        x["kind"] = "callback" if x.pop("callback", False) else kinds.of_field(x)
        finish_slot(x)
    if "args" in a and "result" in a:
        a["result"]["kind"] = kinds.of_result(a["result"]["type"])


def read(cindex, root):
    return Reader(cindex, root).read()
