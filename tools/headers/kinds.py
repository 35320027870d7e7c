"""kinds.py: what an argument or a result is for: its kind, from its C type and its name.

A new kind of argument is a line in one of the tables: a type that none of them knows is reported by
`tools/api.py --check`. Which functions write into an array that exists cannot be told from a type,
so they are listed."""
import re

# The first argument of these is an array, or arrays, that exist; they write into it.
WRITES = ("tide_array_set tide_assign tide_axpy tide_expr_apply_into tide_fill tide_gemm tide_gemv "
          "tide_ger tide_index_put tide_map_into tide_map_into_args tide_masked_put tide_memset "
          "tide_put_along_axis tide_scatter_add tide_scatter_max tide_scatter_min tide_scatter_mul "
          "tide_scatter_put").split()

BY_TYPE = {
    "tide_runtime *": "runtime", "tide_runtime **": "runtime out",
    "tide_array *": "array in", "tide_array *const *": "arrays in", "tide_array **": "array out",
    "tide_stream *": "stream", "tide_stream **": "stream out",
    "tide_pool *": "pool", "tide_pool **": "pool out",
    "tide_expr *": "expr", "tide_expr **": "expr out", "tide_graph *": "graph",
    "tide_use_scope *": "use scope", "tide_use_scope **": "use scope out",
    "tide_batches *": "batches", "const tide_batches *": "batches",
    "tide_batches **": "batches out",
    "tide_host_view *": "host view", "tide_rng *": "rng", "const tide_use *": "uses",
    "tide_range": "range", "const tide_range *": "ranges",
    "tide_pick": "pick", "const tide_pick *": "picks",
    "tide_arg": "tagged argument", "const tide_arg *": "tagged arguments",
    "tide_arg *": "tagged argument out", "tide_data": "data", "const tide_error *": "error",
    "const double *": "doubles",
    "const char *": "text in", "char *": "text buffer",
    "const int64_t *": "shape", "const int *": "axes",
    "const void *": "raw pointer in", "void *": "raw pointer", "void **": "raw pointers out",
    "void *const *": "raw pointers", "size_t *": "size out", "uint64_t *": "uint64 out",
    "int": "int", "unsigned int": "unsigned", "unsigned char": "byte", "int32_t": "int32",
    "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "double": "double",
    "size_t": "size", "ptrdiff_t": "ptrdiff",
}
# Types of numbers.
NUMBERS = ("dtype", "memory", "status")
# By name, where the type alone does not tell: (type, names, kind).
BY_NAME = (
    ("void *", ("user", "log_user"), "user"),
    ("void *", ("dst", "to", "batch"), "raw pointer out"),
    ("uint64_t *", ("id",), "id out"),
    ("uint64_t", ("id",), "id"),
    ("size_t", ("n", "m"), "count"),
    ("int", ("n", "ndim"), "count"),
    ("const int64_t *", ("index",), "index"),
    ("const int64_t *", ("order", "samples"), "numbers"),
    ("const int64_t *", ("after", "before", "indices", "lengths", "reps", "shifts", "steps"),
     "numbers"),
    ("const int64_t *", ("strides",), "strides"),
    ("tide_array **", ("outs",), "arrays out"),
    ("const char *", ("fmt", "format"), "format"),
)


def of_argument(a, function=None, position=0):
    """The kind of an argument; None where no table knows its type."""
    t, name = a["type"], a["name"]
    if function in WRITES and position == 0 and t in ("tide_array *", "tide_array *const *"):
        return "array in-out" if t == "tide_array *" else "arrays in-out"
    if "args" in a:
        return "callback"
    if t == "tide_host_view *" and function and function.endswith("_begin"):
        return "host view out"
    for type_, names, kind in BY_NAME:
        if t == type_ and name in names:
            return kind
    if t in BY_TYPE:
        return BY_TYPE[t]
    m = re.fullmatch(r"(const )?tide_(\w+)( \*)?", t)
    if not m:
        return None
    if not m[3]:
        return m[2]  # a type of numbers: dtype, status, memory
    if m[2].endswith("_figures"):
        return None if m[1] else "figures out"
    return "config" if m[1] else None


# Fields that are there for the struct's sake.
FIELDS = {"struct_size": "struct size", "reserved": "reserved"}


def of_field(f):
    """The kind of a field: as of an argument, but for structs within structs."""
    if f["name"] in FIELDS:
        return FIELDS[f["name"]]
    if f["type"] in ("struct", "union"):
        return f["type"]
    kind = of_argument(f)
    m = re.fullmatch(r"tide_(\w+)", f["type"])
    return "struct" if m and kind == m[1] and kind not in NUMBERS else kind


def all_kinds():
    """Every kind that an argument may have."""
    found = set(BY_TYPE.values()) | {k for _, _, k in BY_NAME}
    found |= {"array in-out", "arrays in-out", "callback", "config", "figures out",
              "host view out", "switch"}
    return sorted(found | set(NUMBERS) | {"reserved", "struct", "struct size", "union"})


def is_result(kind):
    """Whether the function writes through the argument, at success."""
    return kind.endswith(" out") or kind == "text buffer"


def of_result(t):
    if t == "void":
        return "none"
    kind = BY_TYPE.get(t) or (t[5:] if re.fullmatch(r"tide_\w+", t) else None)
    return kind.replace("array in", "array").replace("text in", "text") if kind else None


def ownership(name, result, text):
    """Whose the result is: new, borrowed, static, same, or none where it is no pointer."""
    if not result["type"].endswith("*"):
        return "none"
    if re.search(r"\bstatic\b", text, re.I):
        return "static"
    if re.search(r"\bborrowed\b", text, re.I):
        return "borrowed"
    if result["kind"] == "array":
        same = re.search(r"\breturns (it\b|`a`|the same\b)", text, re.I)
        return "same" if same else "new"
    return "new" if result["kind"] in ("expr", "graph") or name.endswith("_malloc") else "borrowed"
