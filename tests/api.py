#!/usr/bin/env python3
"""api.py: tools/api.py finds what it is to find. Over headers made up here: good ones, of which it
complains of nothing, and good ones with one thing wrong, of which it complains once and says what.
Skipped (77) where libclang is not."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import api as tool  # noqa: E402
from headers import facts, read, rule, table  # noqa: E402

END = "Never collects. Never blocks. */\n"
STATUS_OF = "/* It is. " + END + "TIDE_API tide_status tide_array_move(tide_array *a, "
BASE = """/* base.h: what the others need.
**
** %s */
#pragma once
#include <stdint.h>
#include <stddef.h>
#define TIDE_API __attribute__((visibility("default")))
#define TIDE_VERSION_MAJOR 7
typedef int32_t tide_status; /* how a call ended */
enum { TIDE_OK = 0, TIDE_E_INVALID = 1 /* an argument */, TIDE_E_SHAPE = 2, /* shapes */ };
typedef struct tide_runtime tide_runtime; /* one instance */
typedef struct tide_array tide_array;
typedef struct tide_pool tide_pool;
typedef struct tide_arg {
    int32_t kind;
    union {
        tide_array *array;
        double f; /* a float */
    } value;
} tide_arg;
/* What was counted. */
typedef struct tide_pool_figures {
    size_t struct_size;
    size_t live, backed; /* in bytes */
} tide_pool_figures;
/* A cache. */
typedef struct tide_reclaimable {
    size_t (*bytes)(void *user, int device); /* what it holds */
    void *user;
} tide_reclaimable;
""" % rule.RULE.strip()

ARRAY = """/* array.h: arrays. */
#pragma once
#include <tide/base.h>
/* ---- making ---- `shape` may be NULL. */
/* Zeros.
**   an example
** TIDE_E_SHAPE. May collect. May block. */
TIDE_API tide_array *tide_zeros(tide_runtime *rt, int ndim, const int64_t *shape);

/* ---- the rest ---- */
/* The sum. May collect. Never blocks. */
TIDE_API tide_array *tide_add(tide_array *a, tide_array *b);
/* c = a. TIDE_E_INVALID. Never collects: as tide_x says (docs/x.md). Blocks: at once. */
TIDE_API tide_status tide_assign(tide_array *c, tide_array *a);
/* A number of axes; -1 on failure. """ + END + """TIDE_API int tide_array_ndim(tide_array *a);
/* Both factors. May collect. Never blocks. */
TIDE_API tide_status tide_lu(tide_array *a, tide_array **l, tide_array **u);
/* Calls fn(user). """ + END + """TIDE_API tide_status
tide_array_on_death(tide_array *a, void (*fn)(void *user), void *user);
/* As text. """ + END + """TIDE_API size_t tide_array_text(tide_array *a, char *buf, size_t cap);
/* Figures. """ + END + """TIDE_API tide_status
tide_pool_info(tide_pool *pool, tide_pool_figures *out);
/* Registers. """ + END + """TIDE_API tide_status
tide_reclaimable_register(tide_runtime *rt, const tide_reclaimable *r, uint64_t *id);
/* The other way. """ + END + """TIDE_API tide_status
tide_reclaimable_unregister(tide_runtime *rt, uint64_t id);
/* By text. May collect. Never blocks. */
TIDE_API tide_array *
tide_map_args(tide_runtime *rt, const char *text, const tide_arg *args, size_t n);
/* tide_map(rt, text, ...) boxes. */
#define tide_map(rt, ...) tide_map_args(rt, __VA_ARGS__)

/* tide_array *tide_map_two(tide_runtime *rt, const char *text, ...)
** The same again. May collect. Never blocks. */

#define TIDE_NONE (-1) /* nothing */
#define tide_map_two(rt, ...) tide_map_args(rt, __VA_ARGS__)
"""
# Declarations that the tables of facts.py speak of, and what is read of them: place, key, value.
FACTS_HEADER = """
/* Which way. */
enum { TIDE_TO_DEVICE = 0, TIDE_TO_HOST = 1 };
enum { TIDE_COLLECT_MINOR = 1, TIDE_COLLECT_FULL = 2 };
enum { TIDE_COLLECT_DONE = 0, TIDE_COLLECT_BUSY = 1, TIDE_COLLECT_UNSUPPORTED = 2 };
/* Moves it. """ + END + """TIDE_API tide_status
tide_array_prefetch(tide_array *a, int64_t first, int64_t count, int where);
/* Over `axes`; NULL: all. TIDE_E_SHAPE. May collect. Never blocks. */
TIDE_API tide_array *tide_sum(tide_array *a, const int *axes, int n, int keepdims);
/* As text; 0 on failure. """ + END + """TIDE_API size_t
tide_pool_text(tide_pool *pool, char *buf, size_t cap);
/* By `ranges`. TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_slice_ranges(tide_array *a, size_t n, const int64_t *shape);
/* tide_slice_ranges by text. May collect. Never blocks. */
TIDE_API tide_array *tide_slice(tide_array *a, const char *text);
/* tide_slice of a format. May collect. Never blocks. */
TIDE_API tide_array *tide_slicef(tide_array *a, const char *fmt, ...);
/* Later TIDE_E_SHAPE is TIDE_E_FREED. """ + END + """TIDE_API void tide_free(tide_array *a);
/* 1 where it is, else 0, as on failure. """ + END + """TIDE_API int
tide_array_is_freed(tide_array *a);
/* A block; NULL on failure. May collect. Never blocks. */
TIDE_API void *tide_pool_malloc(tide_pool *pool, size_t bytes);
/* Gives it back. """ + END + """TIDE_API void tide_pool_free(tide_pool *pool, void *ptr);
typedef struct tide_batches tide_batches;
/* The next one; TIDE_END: none. May collect. May block. */
TIDE_API tide_status tide_batches_next(tide_batches *b, void *batch);
/* Ends it. """ + END + """TIDE_API void tide_batches_release(tide_batches *b);
/* A field left zero or NULL takes the default. */
typedef struct tide_config {
    size_t struct_size;
    const char *device; /* TIDE_DEVICE: "host" */
    int spill;          /* TIDE_SPILL: off */
    int host_devices;   /* how many */
} tide_config;
/* Every slot but `collect` may be NULL. */
typedef struct tide_collector {
    int (*collect)(void *user, int level);
    int (*may_collect)(void *user);
    void *user;
} tide_collector;
"""
FACTS = [
    ("tide_array_prefetch.where", "enum", "TIDE_TO_*"), ("tide_sum.keepdims", "kind", "switch"),
    ("tide_sum.keepdims", "default", 0), ("tide_sum.axes", "default", "NULL"),
    ("tide_sum.axes", "nullable", True), ("tide_sum.axes", "count", "n"),
    ("tide_pool_text.buf", "count", "cap"), ("tide_pool_text.buf", "nullable", True),
    ("tide_pool_text.cap", "nullable", None), ("tide_slice_ranges.shape", "count", None),
    ("tide_zeros.shape", "count", "ndim"), ("tide_lu.l", "count", None),
    ("tide_config.device", "env", "TIDE_DEVICE"), ("tide_config.device", "nullable", True),
    ("tide_config.spill", "enum", "TIDE_DEFAULT, TIDE_ON, TIDE_OFF"),
    ("tide_config.struct_size", "kind", "struct size"), ("tide_config.host_devices", "env", None),
    ("tide_collector.collect", "nullable", None), ("tide_collector.may_collect", "nullable", True),
    ("tide_collector.may_collect", "kind", "callback"),
    ("tide_collector.collect.level", "enum", "TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL"),
    ("tide_reclaimable_register.id", "release", "tide_reclaimable_unregister"),
    ("tide_pool_figures.live", "kind", "size"), ("tide_arg.value", "kind", "union"),
]
RESULTS = [
    ("tide_sum", "failure", "NULL"), ("tide_pool_text", "failure", 0),
    ("tide_array_ndim", "failure", -1), ("tide_assign", "failure", None),
    ("tide_array_is_freed", "kind", "switch"), ("tide_pool_malloc", "release", "tide_pool_free"),
    ("tide_collector.may_collect", "kind", "switch"),
    ("tide_collector.collect", "enum",
     "TIDE_COLLECT_DONE, TIDE_COLLECT_BUSY, TIDE_COLLECT_UNSUPPORTED"),
]
ERRORS = [
    ("tide_zeros", ["TIDE_E_SHAPE"]), ("tide_sum", ["TIDE_E_SHAPE"]),
    ("tide_slicef", ["TIDE_E_INVALID"]), ("tide_free", ["TIDE_E_SHAPE"]), ("tide_add", []),
]
# What the tables of facts.py do not have, or have wrongly, and what is said of it.
UNKNOWN = [
    (STATUS_OF + "int level);", "tide_array_move.level: what this int is for stands in no table"),
    (STATUS_OF + "const int *axes);", "tide_array_move.axes: what counts it does not stand"),
    (STATUS_OF + "const int *axes, int n);", "tide_array_move.axes: stands neither in NULLABLE"),
    ("/* It is. " + END + "TIDE_API double tide_array_move(tide_array *a);",
     "tide_array_move: what it returns on failure does not stand in FAILURES"),
    ("/* It is; NULL. " + END + "TIDE_API double tide_item_f64(tide_array *a);",
     "tide_item_f64: its text does not say that it returns NaN on failure"),
    (STATUS_OF + "...);", "tide_array_move: takes `...`, and CALLS"),
    ("typedef struct tide_thing tide_thing;", "tide_thing: what ends it does not stand in RELEA"),
    ("typedef struct tide_stream tide_stream;", "there is no function tide_stream_release"),
    ("/* Ends. " + END + "TIDE_API void tide_stream_release(tide_array *a);\n"
     "typedef struct tide_stream tide_stream;", "tide_stream_release does not take one"),
    (STATUS_OF + "int where);", "facts.py has tide_qr.mode, which is nothing in the headers"),
    ("/* It is. " + END + "TIDE_API tide_status tide_qr(tide_array *a, int mode);",
     "tide_qr.mode: there is no enum TIDE_REDUCED, TIDE_COMPLETE"),
    ("/* It is. May collect. Never blocks. */\n"
     "TIDE_API tide_array *tide_argmax(tide_array *a);", "its text names no tide_argmin"),
    ("/* It is. " + END + "TIDE_API void tide_close(tide_runtime *rt);",
     "its text names no TIDE_E_FREED, and OTHERS"),
]
STATUS = "TIDE_API tide_status "
# What is added to the headers, and what is said of it.
WRONG = [
    ("TIDE_API void tide_free(tide_array *a);", "has no contract directly above it"),
    ("/* Some group. */\n\nTIDE_API void tide_free(tide_array *a);", "has no contract directly"),
    ("/* ---- ends ---- Never collects. Never blocks. */\nTIDE_API void tide_free(tide_array *a);",
     "has no contract directly"),
    ("TIDE_API void tide_free(tide_array *a); /* ends it. " + END, "has no contract directly"),
    ("/* Ends it. */\nTIDE_API void tide_free(tide_array *a);",
     'does not end with "May collect." or "Never collects.", and then "Blocks." or'),
    ("/* Ends it. Never collects. */\nTIDE_API void tide_free(tide_array *a);",
     'does not end with "Blocks."'),
    ("/* Ends it. Never blocks. */\nTIDE_API void tide_free(tide_array *a);",
     'does not end with "May collect." or "Never collects."'),
    ("/* Ends it. Never blocks. Never collects. */\nTIDE_API void tide_free(tide_array *a);",
     "does not end with"),
    ("/* Never collects: it is. no. Never blocks. */\nTIDE_API void tide_free(tide_array *a);",
     'does not end with "May collect."'),
    ("/* Ends it. Never collects. Never blocks. NULL is legal. */\n"
     "TIDE_API void tide_free(tide_array *a);", "does not end with"),
    ("int ndim(tide_array *a);", "does not begin with tide_"),
    ("TIDE_API int tide_rank(tide_array *a);", "begins with no object"),
    ("TIDE_API tide_array *tide_sub(tide_runtime *rt, tide_array *a);", "is no array"),
    ("TIDE_API tide_array *tide_ones(int ndim, const int64_t *shape);",
     "makes an array, and its first argument is not the runtime"),
    (STATUS + "tide_collect(int level);", "a verb of the runtime's, and its first"),
    ("TIDE_API int tide_array_size(tide_runtime *rt);", "begins with array, and its"),
    (STATUS + "tide_gemm(tide_arg alpha, tide_array *c);", "its first argument is no array"),
    (STATUS + "tide_gemm(tide_array *c, tide_array **q, tide_arg alpha);", "are not in the order"),
    (STATUS + "tide_pool_set(tide_runtime *rt, int how, tide_pool *pool);", "are not in the order"),
    (STATUS + "tide_open(tide_runtime **out, const char *device);", "are not in the order"),
    (STATUS + "tide_slice(tide_array *a, void *dst, size_t bytes, int how);", "not in the order"),
    (STATUS + "tide_slice(tide_array *a, tide_array *dst);", "does not take it first"),
    (STATUS + "tide_cast(tide_array *dst, int how);", "WRITES of kinds.py does not have it"),
    (STATUS + "tide_pool_info_now(tide_pool *pool, tide_pool_figures *out);", "is no tide_X_info"),
    (STATUS + "tide_runtime_info(tide_runtime *rt, tide_pool_figures *out);",
     "is not a status of (object, tide_runtime_figures *out)"),
    ("TIDE_API void tide_runtime_text(tide_runtime *rt, char *buf, size_t cap);",
     "is not a size_t of"),
    ("TIDE_API size_t tide_pool_say(tide_pool *pool, char *buf, size_t cap);", "is no tide_X_text"),
    (STATUS + "tide_adapt_register(tide_runtime *rt, const tide_reclaimable *r);",
     "uint64_t *id last"),
    (STATUS + "tide_adapt_unregister(tide_runtime *rt, const char *name);", "a uint64_t id last"),
    (STATUS + "tide_pool_each(tide_pool *pool, void *user, void (*fn)(void *user));",
     "`user` does not follow it"),
    (STATUS + "tide_pool_each(tide_pool *pool, void (*fn)(int n, void *user), void *user);",
     "fn: does not get `void *user` first"),
    (STATUS + "tide_pool_each(tide_pool *pool, void (*fn)(void *self), void *user);",
     "fn: does not get `void *user` first"),
    (STATUS + "tide_pool_each(tide_pool *pool, void (*fn)(void *user, void *arg), void *user);",
     "arg: user data is called `user`"),
    (STATUS + "tide_pool_keep(tide_pool *pool, void *self);", "self: user data is called `user`"),
    (STATUS + "tide_pool_keep(tide_pool *pool, long double x);", "no kind is known of x"),
    ("TIDE_API long double tide_pool_keep(tide_pool *pool);", "no kind is known of its result"),
    ("typedef void (*tide_log_fn)(int level, void *user);", "does not get `void *user` first"),
    ("typedef struct tide_table { void (*f)(void *user); } tide_table;", "no `void *user`"),
    ("typedef struct tide_table { void (*f)(int n); void *user; } tide_table;",
     "f: does not get `void"),
    ("/* tide_array *tide_map_on(tide_runtime *rt, ...)\n** It is. " + END,
     "no macro has this name"),
    ("/* tide_array *tide_map_on(tide_runtime *rt, ...)\n** It is. */\n\n"
     "#define tide_map_on(rt, ...) tide_map_args(rt, __VA_ARGS__)", "its contract does not end"),
    ("#define tide_map_on(rt, ...) tide_map_args(rt, __VA_ARGS__)", "has no text above it"),
]


class Headers:
    """A folder with headers, and the check of them."""

    def __init__(self, folder):
        self.root = folder
        for d in ("include/tide", "docs", "tests"):
            os.makedirs(os.path.join(folder, d))
        self.put("include/tide/tide.h", "#include <tide/base.h>\n#include <tide/array.h>\n")
        self.good()

    def put(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as f:
            f.write(text)

    def good(self, more="", base=BASE):
        self.put("include/tide/base.h", base)
        self.put("include/tide/array.h", ARRAY + "\n" + more + "\n")

    def read(self):
        return read.read(read.libclang(), self.root)

    def write(self):
        """Makes everything that is generated, and the list of exports, current."""
        api = self.read()
        for path, text in tool.generated(api).items():
            self.put(path, text)
        self.put("tests/exports.txt", "".join(f["name"] + "\n" for f in api["functions"]))

    def complaints(self):
        return list(tool.complaints(self.root, self.read(), own=False))

    def command(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "api.py"), "--check",
                               "--root", self.root], capture_output=True, text=True)
        return done.returncode, done.stdout


def expect(good, what):
    if not good:
        sys.exit("api.py: " + what)


def one_wrong_thing(h):
    for more, said in WRONG:
        has_own = "tide_free" in more or not more.startswith(("TIDE_API", "int "))
        h.good(more if has_own else "/* It is. " + END + more)
        h.write()
        found = h.complaints()
        expect(len(found) == 1 and said in found[0],
               "of %r was to be said %r; found: %s" % (more, said, found))
        expect(found[0].startswith("include/tide/array.h:"), "no place: " + found[0])


def the_rule_is_at_the_head(h):
    h.good(base=BASE.replace("Objects come first", "Objects come somewhere"))
    h.write()
    found = h.complaints()
    expect(len(found) == 1 and found[0].startswith("include/tide/base.h:1: the head"), found)


def files_are_current(h):
    h.good()
    h.write()
    expect(h.command() == (0, ""), "good headers are complained of: %s" % h.complaints())
    h.good("/* A copy. May collect. Never blocks. */\n"
           "TIDE_API tide_array *tide_copy(tide_array *a);")
    code, said = h.command()
    expect(code == 1, "exits with %d" % code)
    for want in (tool.JSON + " is not current", tool.REFERENCE + " is not current",
                 "tide_copy: tests/exports.txt lacks it"):
        expect(want in said, "%r is not in %r" % (want, said))
    h.write()
    h.good()
    expect("tests/exports.txt: tide_copy is in no header" in h.command()[1], h.command()[1])
    h.good("int tide_;; int x = ;")
    expect(h.command()[0] == 1 and "include/tide/array.h:" in h.command()[1], "does not compile")


def what_is_read(h):
    h.good()
    h.write()
    with open(os.path.join(h.root, tool.JSON), encoding="utf-8") as f:
        api = json.load(f)
    expect(h.root not in json.dumps(api), "the folder's name is in the file")
    f = {x["name"]: x for x in api["functions"]}
    zeros, lu = f["tide_zeros"], f["tide_lu"]
    expect(zeros["text"] == "Zeros.\n  an example\nTIDE_E_SHAPE. May collect. May block.", zeros)
    expect((zeros["collects"], zeros["blocks"], zeros["ownership"], zeros["errors"]) == (
        "may", "may", "new", ["TIDE_E_SHAPE"]), zeros)
    expect(zeros["args"][2] == {"name": "shape", "type": "const int64_t *", "kind": "shape",
                                "nullable": True, "count": "ndim"}, zeros)
    expect(api["groups"][zeros["group"]]["title"] == "making", zeros)
    expect(f["tide_add"]["group"] == zeros["group"] + 1, f["tide_add"])
    expect((f["tide_assign"]["collects"], f["tide_assign"]["blocks"]) == ("never", "yes"), f)
    expect([a["kind"] for a in f["tide_assign"]["args"]] == ["array in-out", "array in"], f)
    expect([a["kind"] for a in lu["args"]] == ["array in", "array out", "array out"], lu)
    fn = f["tide_array_on_death"]["args"][1]
    expect(fn["kind"] == "callback" and fn["args"][0]["kind"] == "user", fn)
    expect(api["macros"][0]["calls"] == "tide_map_args", api["macros"])
    two = api["macros"][1]
    expect((two["calls"], two["text"], two["collects"], two["variadic"]) == (
        "tide_map_args", "The same again. May collect. Never blocks.", "may", True), two)
    expect([a["kind"] for a in two["args"]] == ["runtime", "text in"], two)
    expect(api["version"] == "7.0.0", api["version"])
    status = api["enums"][0]
    expect(status["name"] == "tide_status", status)
    expect([(v["value"], v.get("text")) for v in status["values"]] == [
        (0, None), (1, "an argument"), (2, "shapes")], status)
    s = {x["name"]: x for x in api["structs"]}
    expect(s["tide_arg"]["fields"][1]["fields"][1] == {
        "name": "f", "type": "double", "text": "a float", "kind": "double"}, s["tide_arg"])
    expect([x.get("text") for x in s["tide_pool_figures"]["fields"]] == [
        None, "in bytes", "in bytes"], s["tide_pool_figures"])
    rows = table.text(api)
    expect('{"tide_lu", "array.h", true, true, false, API_MAY, API_NEVER},' in rows, rows)
    expect('{"tide_assign", "array.h", false, true, true, API_NEVER, API_YES},' in rows, rows)


def groups_end(h):
    """A group without a title holds up to the first empty line behind what it begins with; one with
    a title, up to the next title, holds on behind that. The comment of a macro that only compilers
    read is none."""
    one = "/* A copy. " + END + "TIDE_API tide_array *tide_%s(tide_array *a);\n"
    h.good("/* ---- whole ---- All. */\n\n" + one % "copy" + "\n/* A part. */\n\n" + one % "cast" +
           one % "all" + "\n" + one % "any" + "/* ---- next ---- */\n\n" + one % "cos" +
           "/* for compilers */\n#define TIDE_NODISCARD\n" + one % "sin")
    api = h.read()
    of = {f["name"][5:]: api["groups"][f["group"]]["text"] or api["groups"][f["group"]]["title"]
          for f in api["functions"]}
    want = {"copy": "All.", "cast": "A part.", "all": "A part.", "any": "All.", "cos": "next",
            "sin": "next"}
    expect({n: of[n] for n in want} == want, "groups: %s" % of)
    text = tool.generated(api)[tool.REFERENCE]
    expect(text.count("### Whole") == 1, "a group's heading stands twice")


def facts_are_read(h):
    h.good(FACTS_HEADER)
    api = h.read()
    slots = {place: a for _, place, a, _ in facts.all_slots(api)}
    results = {place: r for _, place, r in facts.results(api)}
    for found, wanted in ((slots, FACTS), (results, RESULTS)):
        for place, key, value in wanted:
            expect(found[place].get(key) == value, "%s of %s: %s" % (key, place, found[place]))
    by_name = {f["name"]: f for f in api["functions"] + api["objects"]}
    for name, errors in ERRORS:
        expect(by_name[name]["errors"] == errors, "%s: %s" % (name, by_name[name]["errors"]))
    expect(by_name["tide_batches_next"]["returns"] == ["TIDE_END"], by_name)
    expect(by_name["tide_slicef"]["calls"] == "tide_slice", by_name)
    expect(by_name["tide_batches"]["release"] == "tide_batches_release", by_name)
    names = [e["name"] for e in api["enums"]]
    expect(len(set(names)) == len(names), "enums share a name: %s" % names)
    expect(by_name["tide_sum"]["result"]["kind"] == "array", by_name["tide_sum"])
    none = next(c for c in api["constants"] if c["name"] == "TIDE_NONE")
    expect((none["value"], none["c"]) == (-1, "(-1)"), none)


def facts_are_checked(h):
    h.good()
    before = [text for _, _, text in facts.check(h.read())]
    for more, said in UNKNOWN:
        h.good(more)
        found = [text for _, _, text in facts.check(h.read())]
        expect(any(said in text for text in found), "of %r was to be said %r" % (more, said))
        new = "facts.py has" in said or not any(said in text for text in before)
        expect(new, "%r was said before" % said)


def main():
    if read.libclang() is None:
        print("skipped: libclang's Python bindings are not here (python3-clang)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        h = Headers(folder)
        files_are_current(h)
        what_is_read(h)
        groups_end(h)
        facts_are_read(h)
        facts_are_checked(h)
        the_rule_is_at_the_head(h)
        one_wrong_thing(h)
    return 0


if __name__ == "__main__":
    sys.exit(main())
