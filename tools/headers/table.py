"""table.py: a C table of the public functions, from tide-api.json, for tests that want to know
which functions there are. Needs no libclang."""

HEAD = """/* Generated from include/tide-api.json by tools/api.py: the public functions, in the
** headers' order. */
#ifndef TIDE_API_TABLE_H
#define TIDE_API_TABLE_H

#include <stdbool.h>

/* What the contract's last sentences say; API_UNSAID: they are missing. */
enum api_says { API_NEVER = 0, API_MAY = 1, API_YES = 2, API_UNSAID = 3 };
struct api_function {
    const char *name, *header;
    bool makes_array;  /* returns one of its own, or gives some by pointer */
    bool takes_array;  /* as an argument, or within one */
    bool writes_array; /* into one that exists */
    enum api_says collects, blocks;
};
static const struct api_function api_functions[] = {
"""
MIDDLE = """};
#define API_FUNCTIONS (sizeof api_functions / sizeof *api_functions)

/* Their arguments that may be NULL. */
static const char *const api_nullable[] = {
"""
FOOT = """};
#define API_NULLABLE (sizeof api_nullable / sizeof *api_nullable)
#endif
"""
SAYS = {"never": "API_NEVER", "may": "API_MAY", "yes": "API_YES", None: "API_UNSAID"}
TAKES = ("array in", "arrays in", "array in-out", "arrays in-out", "tagged arguments", "uses")
OUT = ("array out", "arrays out")
IN_OUT = ("array in-out", "arrays in-out")


def row(f):
    kinds = [a["kind"] for a in f["args"]]
    makes = f["ownership"] == "new" and f["result"]["kind"] == "array" or any(
        k in OUT for k in kinds)
    cells = [makes, any(k in TAKES for k in kinds), any(k in IN_OUT for k in kinds)]
    return '    {"%s", "%s", %s, %s, %s},\n' % (
        f["name"], f["header"], ", ".join(str(bool(c)).lower() for c in cells),
        SAYS[f["collects"]], SAYS[f["blocks"]])


def text(api):
    exported = [f for f in api["functions"] if not f.get("inline")]
    places = ("%s.%s" % (f["name"], a["name"]) for f in exported for a in f["args"]
              if a.get("nullable"))
    return (HEAD + "".join(row(f) for f in exported) + MIDDLE +
            "".join('    "%s",\n' % p for p in places) + FOOT)
