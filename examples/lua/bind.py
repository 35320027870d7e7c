#!/usr/bin/env python3
"""bind.py: the Lua module's functions from the public API.

    bind.py API.JSON FUNCTIONS.MD EXAMPLES.LUA OUT PART.LUA...
    bind.py --page [--check] API.JSON FUNCTIONS.MD EXAMPLES.LUA PAGE.MD

The first writes OUT/calls.c: a C function for each of the API's that computes; the table of all functions with
their help, those of FUNCTIONS.MD too, which are written by hand; the fields of structs that are
tables in Lua; the parts that are written in Lua, as texts. OUT/tables.h declares them. What a
parameter becomes in Lua follows from its kind in the JSON; the tables below have what no kind tells:
what is left out, which arrays hold places (which count from 1 in Lua), and what is used where nothing
is given.

The second writes what PAGE.MD has from its heading "## Functions" on: every function with its help and
an example. It fails where a function has none; with --check it writes nothing, and fails where
something else would be written.

EXAMPLES.LUA has an example of each function of the API's, behind a line "--- name".

FUNCTIONS.MD has "## a group", "### name(parameters)", a text and an example in each. A name with a
colon is a method: of arrays where it begins with "a:", else of an object of the module's. The C
function of `name` is own_name, of `object:name` own_object_name; what stands in a PART of that name
has none."""
import json
import os
import re
import sys
import textwrap

HEADERS = ["array.h", "ops.h", "index.h", "shape.h", "order.h", "scan.h", "select.h", "linalg.h",
           "random.h", "memory.h"]
# Not functions of Lua's, or written by hand.
LEFT_OUT = set("""from_host to_host item item_f64 free retain release array_on_death scope_begin
scope_end scope_depth scope_unwind scope_keep array_runtime array_dtype array_ndim array_dim
array_size array_stride array_text array_text_with range_all range_slice range_index range_newaxis
range_ellipsis slice_ranges slice slicef pick_range pick_array index index_put
array_memory array_device host_view_begin host_view_end array_get array_set thread_allow_scalar
arange""".split())
RENAMED = {"array_is_contiguous": "is_contiguous", "array_is_freed": "is_freed", "repeat": "repeated",
           "array_prefetch": "prefetch", "array_advise": "advise",
           "array_set_ordered": "set_ordered"}
PARAMS = {"axes": "axis", "t": "dtype"}
PARAMS_OF = {("empty_in", "kind"): "memory"}
# Parameters that stand elsewhere: shapes come before types, and types last.
LAST = ["dtype"]
# Arrays of places, and numbers that are places.
PLACES_IN = {"indices", "ids"}
OFFSETS_IN = {"offsets"}
PLACE_NUMBERS = {"kth", "first"}
PLACES_OUT = {"argsort": ["result"], "argpartition": ["result"], "argmin": ["result"],
              "argmax": ["result"], "lexsort": ["result"], "argwhere": ["result"],
              "searchsorted": ["result"], "random_permutation": ["result"], "sort_both": ["indices"],
              "topk": ["indices"], "unique_inverse": ["inverse"],
              "unique_all": ["indices", "inverse"], "nonzero": ["outs"], "lu": ["perm"]}
# What is meant where nothing is given; C for what the C expression is.
OTHERWISE = {"axis": "-1", "axis1": "0", "axis2": "1", "step": "1", "k": "0", "offset": "0",
             "correction": "0", "order": "1", "bins": "0", "endpoint": "true", "largest": "true",
             "base": "10", "rcond": "-1", "cols": "rows_", "x": "1", "alpha": "1", "beta": "0", "value": "0",
             "how": "0", "mode": "0", "copy": "0", "indexing": "0", "flags": "0", "activation": "0"}
OTHERWISE_OF = {("concat", "axis"): "0", ("stack", "axis"): "0", ("unstack", "axis"): "0",
                ("split", "axis"): "0", ("histogram", "bins"): "10", ("take", "axis"): "0",
                ("repeated", "axis"): "0", ("repeat_each", "axis"): "0",
                ("squeeze", "axis"): None, ("expand_dims", "axis"): None, ("topk", "k"): None,
                ("full", "value"): None, ("full_like", "value"): None, ("fill", "value"): None,
                ("axpy", "x"): None, ("scatter_put", "axis"): "0", ("scatter_add", "axis"): "0",
                ("scatter_mul", "axis"): "0", ("scatter_min", "axis"): "0",
                ("scatter_max", "axis"): "0", ("segment_sum", "axis"): "0",
                ("segment_mean", "axis"): "0", ("segment_min", "axis"): "0",
                ("segment_max", "axis"): "0", ("segment_sum_offsets", "axis"): "0",
                ("segment_mean_offsets", "axis"): "0", ("segment_min_offsets", "axis"): "0",
                ("segment_max_offsets", "axis"): "0"}
NULLABLE_ARRAYS = {("bincount", "weights")}
# How many results a table of arrays has.
RESULTS = {"nonzero": "(size_t)tide_array_ndim(a_)",
           "unstack": "(size_t)tide_array_dim(a_, axis_)",
           "split": "indices_.given ? (size_t)indices_.n + 1 : parts", "broadcast_arrays": "arrays_.n",
           "meshgrid": "arrays_.n"}
ADDED = {"split": ["parts"]} # parameters that the C function takes as a count
# Beside the operations element by element, what trace.lua can do.
FUSED = set("""sum prod min max mean any all argmin argmax cumsum cumprod cummin cummax
cast""".split())
NAMES = {"TIDE_LOWER, TIDE_UPPER, TIDE_UNIT": None, "TIDE_REDUCED, TIDE_COMPLETE": None}


class Function:
    """A function of the API as Lua has it: its parameters in Lua's order, and the C call's."""

    def __init__(self, api, elementwise):
        self.c_name = api["name"]
        self.name = RENAMED.get(api["name"][5:], api["name"][5:])
        self.api = api
        self.elementwise = elementwise
        inputs = [a for a in api["args"] if a["kind"] not in
                  ("runtime", "count", "rng", "array out", "arrays out")]
        names = [PARAMS_OF.get((self.name, a["name"]), PARAMS.get(a["name"], a["name"]))
                 for a in inputs]
        pairs = list(zip(names, inputs))
        pairs.sort(key=lambda p: p[0] in LAST) # the order of the rest stays
        self.params = [n for n, _ in pairs] + ADDED.get(self.name, [])
        self.inputs = [a for _, a in pairs]
        self.method = bool(self.inputs) and self.inputs[0]["kind"] in ("array in", "array in-out")

    def otherwise(self, name):
        return OTHERWISE_OF.get((self.name, name), OTHERWISE.get(name))


def local(a):
    """The name of a parameter in the C function that is written: no other name there ends so."""
    return a["name"] + "_"


def rank_of(f):
    """The C expression of how many axes an axis may be one of; -1: the library says."""
    if not f.method:
        return "-1"
    return "tide_array_ndim(%s)%s" % (local(f.inputs[0]), " + 1" if f.name == "expand_dims" else "")


def text_of(s):
    return json.dumps(s, ensure_ascii=True)


def enum_table(enums, key):
    """The names that Lua has for an enum's values: what follows its common beginning, in small
    letters."""
    values = next(e["values"] for e in enums if e["name"] == key)
    prefix = key[:-1] if key.endswith("*") else "TIDE_"
    return [(v["name"][len(prefix):].lower(), v["name"]) for v in values]


def read(f, i, name, a, enums):
    """C lines that read parameter i; the expression of the C argument, or a list of several."""
    kind, var = a["kind"], local(a)
    given = f.otherwise(name)
    if kind == "array in" and a["name"] in PLACES_IN:
        return ["tide_array *%s = arg_places(&c, %d);" % (var, i)], var
    if kind == "array in" and a["name"] in OFFSETS_IN:
        return ["tide_array *%s = arg_offsets(&c, %d);" % (var, i)], var
    if kind == "array in":
        how = "arg_array_or_null" if (f.name, name) in NULLABLE_ARRAYS else "arg_array"
        return ["tide_array *%s = %s(&c, %d);" % (var, how, i)], var
    if kind == "array in-out":
        return ["tide_array *%s = arg_own_array(&c, %d);" % (var, i)], var
    if kind == "arrays in":
        return ["arrays %s = arg_arrays(&c, %d);" % (var, i)], var + ".at"
    if kind == "axes":
        if "rank" in a.get("count", ""):
            return ["axes %s = arg_axes(&c, %d, %s);" % (var, i, rank_of(f)),
                    "if (%s.given && %s.n != tide_array_ndim(a_))" % (var, var),
                    "    return call_error(&c, %d, \"an axis for each of the array's\");" % i], \
                "%s.given ? %s.at : NULL" % (var, var)
        return ["axes %s = arg_axes(&c, %d, %s);" % (var, i, rank_of(f))], "%s.given ? %s.at : NULL" % (var, var)
    if kind == "shape":
        return ["numbers %s = arg_shape(&c, %d);" % (var, i)], var + ".at"
    if kind == "numbers":
        lines = ["numbers %s = arg_numbers(&c, %d);" % (var, i)]
        if "rank" in a.get("count", ""):
            lines += ["if (%s.n != tide_array_ndim(a_))" % var,
                      "    return call_error(&c, %d, \"a number for each of the array's axes\");" % i]
        if a["name"] == "indices":
            lines += ["for (int k = 0; k < %s.n; k++)" % var,
                      "    if (%s.at[k] > 0) %s.at[k]--;" % (var, var)]
        return lines, "%s.given ? %s.at : NULL" % (var, var)
    if kind == "tagged argument":
        if given is None:
            return ["tide_arg %s = arg_tagged(&c, %d, NULL);" % (var, i)], var
        return ["const tide_arg %s_usual = tide_arg_int(%s);" % (var, given),
                "tide_arg %s = arg_tagged(&c, %d, &%s_usual);" % (var, i, var)], var
    if kind == "dtype":
        usual = "TIDE_I64" if f.name == "random_integers" else "TIDE_F64"
        if f.name == "cast":
            return ["if (!call_at(&c, %d)) return call_error(&c, %d, \"an element type\");" % (i, i),
                    "tide_dtype %s = arg_dtype(&c, %d, TIDE_F64);" % (var, i)], var
        return ["tide_dtype %s = arg_dtype(&c, %d, %s);" % (var, i, usual)], var
    if kind == "memory":
        return ["int32_t %s = (int32_t)arg_named(&c, %d, memories, TIDE_MEMORY_DEVICE, false);" % (var, i)], var
    if "enum" in a:
        table = ", ".join("{\"%s\", %s}" % p for p in enum_table(enums, a["enum"]))
        flags = "true" if kind == "unsigned" or "TIDE_UNIT" in a["enum"] else "false"
        c_type = "unsigned" if kind == "unsigned" else "int"
        return ["static const named_value %s_names[] = {%s, {NULL, 0}};" % (var, table),
                "%s %s = (%s)arg_named(&c, %d, %s_names, %s, %s);" %
                (c_type, var, c_type, i, var, given or "0", flags)], var
    if kind == "int" and name in ("axis", "axis1", "axis2"):
        if given is None:
            return ["if (!call_at(&c, %d)) return call_error(&c, %d, \"an axis\");" % (i, i),
                    "int %s = arg_axis(&c, %d, 0, %s);" % (var, i, rank_of(f))], var
        return ["int %s = arg_axis(&c, %d, %s, %s);" % (var, i, given, rank_of(f))], var
    if kind in ("int", "int64") and name in PLACE_NUMBERS:
        return ["int64_t %s = arg_place(&c, %d);" % (var, i)], var
    if kind in ("int", "int64"):
        needed = "true" if given is None else "false"
        cast = "(int)" if kind == "int" else ""
        return ["int64_t %s = arg_int(&c, %d, %s, %s);" % (var, i, needed, given or "0")] + \
            (["if (%s < INT32_MIN || %s > INT32_MAX) return call_error(&c, %d, \"a smaller integer\");"
              % (var, var, i)] if kind == "int" else []), cast + var
    if kind == "switch":
        return ["bool %s = arg_switch(&c, %d, %s);" % (var, i, given or "false")], var
    if kind == "byte":
        return ["int64_t %s = arg_int(&c, %d, true, 0);" % (var, i),
                "if (%s < 0 || %s > 255) return call_error(&c, %d, \"0 to 255\");" % (var, var, i)], \
            "(unsigned char)" + var
    if kind == "double":
        needed = "true" if given is None else "false"
        return ["double %s = arg_double(&c, %d, %s, %s);" % (var, i, needed, given or "0")], var
    if kind == "text in":
        return ["const char *%s = arg_text(&c, %d);" % (var, i)], var
    raise SystemExit("bind.py: %s: no rule for a %s" % (f.c_name, kind))


def count_of(f, a, exprs):
    """The C expression of a count, by the parameter that it counts."""
    owners = [o for o in f.api["args"] if o.get("count") == a["name"]]
    for o in owners:
        var = exprs[o["name"]][1] if o["name"] in exprs else None
        if var:
            return var
    raise SystemExit("bind.py: %s: what does %s count?" % (f.c_name, a["name"]))


def write_call(f, number, enums):
    """The C function of one of the API's."""
    out = ["static int call_%s(lua_State *L) {" % f.name]
    put = lambda line: out.append("    " + line)
    if f.elementwise:
        put("return call_elementwise(L, &lua_functions[%d]);" % number)
        return "\n".join(out + ["}"])
    put("call c = call_begin(L, &lua_functions[%d]);" % number)
    exprs, values = {}, {}
    for i, (name, a) in enumerate(zip(f.params, f.inputs)):
        lines, expr = read(f, i, name, a, enums)
        for line in lines:
            put(line)
        if i == 0 and f.name in FUSED:
            put("if (!%s) return fuse_call(&c);" % local(a))
        exprs[a["name"]] = (expr, local(a) + ".n")
        values[a["name"]] = expr
    if f.name == "split":
        put("size_t parts = (size_t)arg_int(&c, %d, !indices_.given, 0);" % (len(f.inputs)))
        put("if (parts > 65536) return fail(L, \"split: more than 65536 parts\");")
    counted = [a for a in f.api["args"] if a["kind"] in ("axes", "numbers") and a.get("count") == "n"]
    for other in counted[1:]:
        put("if (%s.given && %s.n != %s.n)" % (local(other), local(other), local(counted[0])))
        put("    return fail(L, \"%s: '%s' and '%s' have different lengths\");" %
            (f.name, PARAMS.get(counted[0]["name"], counted[0]["name"]),
             PARAMS.get(other["name"], other["name"])))
    if any(a["kind"] == "runtime" for a in f.api["args"]):
        put("tide_runtime *rt = binding_runtime(L)->rt;")
    outs = [a for a in f.api["args"] if a["kind"] == "array out"]
    many = next((a for a in f.api["args"] if a["kind"] == "arrays out"), None)
    args = []
    for a in f.api["args"]:
        if a["kind"] == "runtime":
            args.append("rt")
        elif a["kind"] == "rng":
            args.append("&c.b->rng")
        elif a["kind"] == "array out":
            args.append(local(a))
        elif a["kind"] == "arrays out":
            args.append("outs.at")
        elif a["kind"] == "count":
            if many and many["count"] == a["name"] and f.name not in ("broadcast_arrays", "meshgrid"):
                args.append("outs.n")
            else:
                n = count_of(f, a, exprs)
                args.append("(size_t)" + n if a["type"] == "size_t" else n)
        else:
            args.append(values[a["name"]])
    call = "%s(%s)" % (f.c_name, ", ".join(args))
    kind = f.api["result"]["kind"]
    places = PLACES_OUT.get(f.name, [])
    if kind == "array":
        put("tide_array **out = array_slot(L, c.b);")
        put("binding_within(c.b, L);")
        put("*out = %s;" % call)
        put("binding_without(c.b);")
        put("array_made(L, out);")
        if places:
            put("array_places_out(L, c.b);")
        put("return 1;")
    elif kind == "switch":
        put("int value = %s;" % call)
        put("if (value < 0) return call_failed(L);")
        put("lua_pushboolean(L, value);")
        put("return 1;")
    elif kind == "status" and many:
        put("made outs = made_begin(&c, %s);" % RESULTS[f.name])
        put("binding_within(c.b, L);")
        put("tide_status status = %s;" % call)
        put("binding_without(c.b);")
        put("return made_table(&c, &outs, status, %s);" % ("true" if places else "false"))
    elif kind == "status" and outs:
        for o in outs:
            put("tide_array **%s = array_slot(L, c.b);" % local(o))
        put("binding_within(c.b, L);")
        put("tide_status status = %s;" % call)
        put("binding_without(c.b);")
        put("if (status != TIDE_OK) return call_failed(L);")
        for k, o in enumerate(outs):
            if o["name"] in places:
                put("lua_pushvalue(L, %d);" % (k - len(outs)))
                put("array_places_out(L, c.b);")
                put("lua_replace(L, %d);" % (k - len(outs) - 1))
        put("return %d;" % len(outs))
    elif kind == "status":
        put("binding_within(c.b, L);")
        put("tide_status status = %s;" % call)
        put("binding_without(c.b);")
        put("if (status != TIDE_OK) return call_failed(L);")
        put("lua_settop(L, 1);")
        put("return 1;")
    else:
        raise SystemExit("bind.py: %s: no rule for a result that is a %s" % (f.c_name, kind))
    return "\n".join(out + ["}"])


HEAD = """/* calls.c: written by bind.py from tide-api.json. */
#include "binding.h"

#include "tables.h"

static const named_value memories[] = {
    {"device", TIDE_MEMORY_DEVICE}, {"pinned", TIDE_MEMORY_PINNED}, {"unified", TIDE_MEMORY_UNIFIED},
    {NULL, 0}};

/* Room for n arrays that a call makes, in Lua's memory. */
typedef struct made {
    tide_array **at;
    size_t n;
    int table;
} made;

static made made_begin(call *c, size_t n) {
    if (n > 65536) fail(c->L, "%s: more than 65536 results", c->f->name);
    made m = {.n = n};
    lua_createtable(c->L, (int)n, 0);
    m.table = lua_gettop(c->L);
    for (size_t i = 0; i < n; i++) {
        array_slot(c->L, c->b);
        lua_rawseti(c->L, m.table, (int)(i + 1));
    }
    m.at = lua_newuserdata(c->L, (n + 1) * sizeof *m.at);
    memset(m.at, 0, (n + 1) * sizeof *m.at);
    return m;
}

/* The table of what was made. Between the call and the slots no error of Lua's may come. */
static int made_table(call *c, made *m, tide_status status, bool places) {
    if (status != TIDE_OK) return call_failed(c->L);
    for (size_t i = 0; i < m->n; i++) {
        lua_rawgeti(c->L, m->table, (int)(i + 1));
        *(tide_array **)lua_touserdata(c->L, -1) = m->at[i];
        lua_pop(c->L, 1);
    }
    for (size_t i = 0; places && i < m->n; i++) {
        lua_rawgeti(c->L, m->table, (int)(i + 1));
        array_places_out(c->L, c->b);
        lua_rawseti(c->L, m->table, (int)(i + 1));
    }
    lua_settop(c->L, m->table);
    return 1;
}
"""


def contract_free(text):
    """A contract's text without what concerns C alone."""
    for part in (" May collect.", " Never collects.", " Never blocks.", " May block.", " Blocks.",
                 " NULL on failure."):
        text = text.replace(part, "")
    return text


def bound(api, elementwise, examples):
    """The functions of the API's that Lua has, in the order of the headers."""
    titles = {i: g["title"] for i, g in enumerate(api["groups"]) if g.get("title")}
    functions = []
    for header in HEADERS:
        for f in api["functions"]:
            if f["header"] != header or f["name"][5:] in LEFT_OUT or f.get("inline"):
                continue
            if any(a["kind"].startswith("raw") for a in f["args"]):
                continue
            if f["name"].startswith(("tide_expr", "tide_map")):
                continue
            functions.append(Function(f, f["name"][5:] in elementwise))
    for f in functions:
        f.text = contract_free(f.api["text"])
        f.group = titles.get(f.api.get("group"), f.api["header"][:-2])
        f.example = examples.get(f.name)
    return functions


def calls_c(api, functions, own, parts):
    out = [HEAD]
    for i, f in enumerate(functions):
        if f.elementwise:
            out.append("static tide_array *arrays_%s(const tide_arg *a) { return %s(%s); }" %
                       (f.name, f.c_name,
                        ", ".join("a[%d].value.array" % k for k in range(len(f.params)))))
        out.append(write_call(f, i, api["enums"]))
        out.append(names_c("params_" + f.name, f.params))
    for h in own:
        out.append(names_c("params_own_" + h.c_name, h.params))
    out.append("const lua_function lua_functions[] = {")
    for f in functions:
        names = [chr(ord("a") + i) for i in range(len(f.params))]
        expr = text_of("(%s) -> %s(%s)" % (", ".join(names), f.c_name[5:], ", ".join(names))) \
            if f.elementwise else "NULL"
        fused = f.elementwise or f.name in FUSED
        out.append("    {%s, params_%s, %s, %s, %s, %s, %s, %d, %s, %s, call_%s}," %
                   (text_of(f.name), f.name, expr, "arrays_" + f.name if f.elementwise else "NULL",
                    text_of(f.text), text_of(f.group),
                    text_of(f.example) if f.example else "NULL", len(f.params),
                    "true" if f.method else "false", "true" if fused else "false", f.name))
    for h in own:
        out.append("    {%s, params_own_%s, NULL, NULL, %s, %s, %s, %d, %s, false, %s}," %
                   (text_of(h.name), h.c_name, text_of(h.text), text_of(h.group),
                    text_of(h.example), len(h.params), "true" if h.method else "false",
                    "NULL" if h.name in parts else "own_" + h.c_name))
    out += ["};", "const size_t lua_nfunctions = sizeof lua_functions / sizeof *lua_functions;"]
    for name, struct in TABLES:
        out += fields_c(name, next(s for s in api["structs"] if s["name"] == struct))
    out.append("const lua_part lua_parts[] = {")
    for name, text in parts.items():
        out.append("    {%s," % text_of(name))
        out += ["     " + text_of(line + "\n") for line in text.splitlines()]
        out.append("    },")
    out += ["    {NULL, NULL}};", ""]
    return "\n".join(out)


def names_c(name, names):
    return "static const char *const %s[] = {%s};" % \
        (name, ", ".join([text_of(n) for n in names] + ["NULL"]))


# Structs whose fields are those of tables in Lua.
TABLES = [("config_fields", "tide_config"), ("figure_fields", "tide_runtime_figures"),
          ("device_fields", "tide_device_figures"), ("kind_fields", "tide_kind_figures"),
          ("pool_fields", "tide_pool_config"), ("pool_figure_fields", "tide_pool_figures"),
          ("snapshot_fields", "tide_policy_snapshot"),
          ("collection_fields", "tide_policy_collection")]
FIELD_KINDS = {"text in": "FIELD_TEXT", "switch": "FIELD_SWITCH", "int": "FIELD_INT",
               "int32": "FIELD_INT", "uint32": "FIELD_UINT", "int64": "FIELD_INT64",
               "size": "FIELD_UINT64", "uint64": "FIELD_UINT64", "double": "FIELD_DOUBLE"}
LEFT_OUT_FIELDS = {"collector", "struct_size", "params"}


def fields_c(name, struct):
    """The fields that Lua has, and what each is."""
    out = ["const field %s[] = {" % name]
    for f in struct["fields"]:
        if f["kind"] in FIELD_KINDS and f["name"] not in LEFT_OUT_FIELDS:
            out.append("    {%s, offsetof(%s, %s), %s}," %
                       (text_of(f["name"]), struct["name"], f["name"], FIELD_KINDS[f["kind"]]))
    return out + ["    {NULL, 0, 0}};"]


class Own:
    """A function that is written by hand, as FUNCTIONS.MD has it."""

    def __init__(self, heading, group, body):
        m = re.fullmatch(r"([\w:]+)\((.*)\)", heading)
        if not m:
            raise SystemExit("bind.py: no function's heading: %s" % heading)
        self.name, self.group = m[1], group
        self.params = [p.strip() for p in m[2].split(",") if p.strip()]
        self.method = self.name.startswith("a:")
        if ":" in self.name:
            self.params.insert(0, self.name.split(":")[0])
        if self.method:
            self.name = self.name[2:]
        self.c_name = self.name.replace(":", "_")
        parts = re.fullmatch(r"(.*?)\n```lua\n(.*?)```\n*", body, re.S)
        if not parts:
            raise SystemExit("bind.py: %s has no text with an example" % self.name)
        self.text, self.example = parts[1].strip(), parts[2]


def read_own(text):
    """The functions of FUNCTIONS.MD."""
    out = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        group, _, rest = section.partition("\n")
        for entry in re.split(r"^### ", rest, flags=re.M)[1:]:
            heading, _, body = entry.partition("\n")
            out.append(Own(heading.strip(), group.strip(), body))
    return out


def tables_h(own, first):
    out = ["/* tables.h: written by bind.py from tide-api.json and functions.md. */", "enum {"]
    out += ["    OWN_%s = %d," % (h.c_name, first + i) for i, h in enumerate(own)]
    out.append("};")
    out += ["int own_%s(lua_State *L);" % h.c_name for h in own]
    out += ["extern const field %s[];" % name for name, _ in TABLES]
    return "\n".join(out) + "\n"


def operations(folder):
    """The names of the operations element by element: those of docs/expressions.md's table."""
    names = set()
    with open(os.path.join(folder, "docs/expressions.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("| ") and "(a" in line and line.count("|") > 4:
                names.add(line[2:line.index("(")])
    return names


def read_examples(text):
    """EXAMPLES.LUA: what stands behind each name."""
    parts = re.split(r"^--- (\w+)\n", text, flags=re.M)
    twice = {n for n in parts[1::2] if parts[1::2].count(n) > 1}
    if twice:
        raise SystemExit("bind.py: two examples of " + ", ".join(sorted(twice)))
    return dict(zip(parts[1::2], parts[2::2]))


def check_examples(functions, examples, path):
    lacking = [f.name for f in functions if not f.example]
    unknown = sorted(set(examples) - {f.name for f in functions})
    if lacking or unknown:
        raise SystemExit("".join(
            ["bind.py: %s has no example of %s\n" % (path, n) for n in lacking] +
            ["bind.py: %s has an example of %s, which Lua has not\n" % (path, n)
             for n in unknown]).rstrip())


def entry(f):
    """A function's part of the page."""
    of_object = ":" in f.name
    params = ", ".join(f.params[1:] if of_object else f.params)
    out = ["#### %s%s(%s)" % ("" if of_object else "tide.", f.name, params), ""]
    for part in re.split(r"\n{2,}", f.text):
        out += textwrap.wrap(" ".join(part.split()), 100, break_long_words=False,
                             break_on_hyphens=False) + [""]
    if f.method:
        rest = ", ".join(f.params[1:])
        out += ["Also `a:%s(%s)`." % (f.name, rest), ""]
    return out + ["```lua", f.example.rstrip("\n"), "```", ""]


PAGE_HEADING = "## Functions\n"
PAGE_HEAD = """
Written by `examples/lua/bind.py` from the public headers, `functions.md` and `examples.lua` beside
it: what follows is what `tide.help` says. A name of the library's stands in the texts as C has it;
its errors are Lua errors.
"""


def page(functions):
    out, group = [PAGE_HEADING + PAGE_HEAD], None
    for f in functions:
        if f.group != group:
            group = f.group
            out += ["### %s" % (group[0].upper() + group[1:]), ""]
        out += entry(f)
    return "\n".join(out)


def write_page(functions, path, check):
    old = file_text(path)
    if PAGE_HEADING not in old:
        raise SystemExit("bind.py: %s has no heading %r" % (path, PAGE_HEADING.strip()))
    new = old[:old.index(PAGE_HEADING)] + page(functions)
    if check and new != old:
        raise SystemExit("bind.py: %s is not what would be written: run bind.py --page" % path)
    if new != old:
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)


def file_text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    args = sys.argv[1:]
    of_page, check = "--page" in args, "--check" in args
    api_path, own_path, examples_path, out = [a for a in args if not a.startswith("--")][:4]
    api, own = json.loads(file_text(api_path)), read_own(file_text(own_path))
    examples = read_examples(file_text(examples_path))
    root = os.path.join(os.path.dirname(os.path.abspath(api_path)), "..")
    functions = bound(api, operations(root), examples)
    if of_page:
        check_examples(functions, examples, os.path.basename(examples_path))
        write_page(functions + own, out, check)
        return
    parts = {os.path.basename(path)[:-4]: file_text(path) for path in args[4:]}
    for name, text in (("calls.c", calls_c(api, functions, own, parts)),
                       ("tables.h", tables_h(own, len(functions)))):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
