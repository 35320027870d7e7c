"""rule.py: whether the headers keep the rule of names and arguments at the head of base.h, and
whether every function has its contract.

Model. `check` looks at each function, macro, callback and struct of the model that read.py makes
and returns complaints, (header, line, text). What a name may begin with, and which functions are
mathematics, verbs or makers, is said by the tables below: a new name is a decision, so it is a word
there."""
import re

from headers import comments, kinds

RULE = """
`tide_verb(array, ...)` is array mathematics, or one of the runtime's verbs: open, close, collect,
reclaim, synchronize, safepoint, map; free, retain and release act on arrays. All else begins with
its object: `tide_array_`, `tide_runtime_`, `tide_pool_`, `tide_device_`, `tide_stream_`,
`tide_expr_`, `tide_thread_`, `tide_collector_`, ... Objects come first, then inputs, results by
pointer last; what writes into an array that exists takes it first. Figures are `tide_X_info(obj,
&out)` into a `tide_X_figures`; text is `tide_X_text(obj, buf, cap)`. A registering function takes
`user` last, a callback gets `void *user` first; register and unregister use a `uint64_t` id.
"""

# What a name begins with, and of which kinds the first argument may be: the object, or the runtime
# that has it. None: of any kind, or there is no argument.
OBJECTS = {
    "adapt": ("runtime",), "arg": None, "array": ("array in", "array in-out"),
    "batches": ("runtime", "batches"), "collector": ("runtime", "text in"), "data": None,
    "device": ("runtime",), "dtype": ("dtype",), "error": None,
    "expr": ("runtime", "expr", "arrays in-out"), "host_view": ("array in", "host view"),
    "npy": ("runtime", "array in"), "pick": None, "policy": None, "pool": ("runtime", "pool"),
    "random": ("runtime",),
    "range": None, "reclaimable": ("runtime",), "runtime": ("runtime",),
    "scope": ("runtime", "array in"), "status": ("status",), "stream": ("runtime", "stream"),
    "thread": ("runtime",), "torch": None, "use": ("runtime", "use scope"),
}
# The runtime's verbs, map in its forms among them; version, the library's; adapt, an object's own.
VERBS = ("open close collect reclaim synchronize safepoint map_args map_many_args version "
         "adapt").split()
WITHOUT = ("open", "version")  # of the verbs those that are given no runtime
# They make an array of what is none, so that the runtime comes first.
MAKERS = "arange empty empty_in eye from_host full linspace logspace ones zeros".split()
# Array mathematics: the first argument is an array, or several.
MATHEMATICS = """
abs acos acosh add all angle any argmax argmin argpartition argsort argwhere asin asinh assign
atan atan2 atanh axpy bincount bit_and bit_not bit_or bit_xor broadcast_arrays broadcast_to cast
ceil cholesky clip complex concat conj contiguous copy copysign cos cosh count_nonzero cummax
cummin cumprod cumsum det diagonal diff digamma div dot eigh empty_like eq erf erfc erfinv exp
exp2 expand_dims expm1 exponent fill flip floor floordiv fmod full_like gcd ge gemm gemv ger gt
histogram hypot imag index index_put inv isfinite isin isinf isnan item item_f64 ldexp le lexsort
lgamma linear log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lstsq lt lu
lu_factor lu_solve mantissa map_into_args masked_put masked_select matmul max maximum mean median
memset meshgrid min minimum moveaxis mul ne neg nextafter nonzero norm_cdf norm_ppf nrm2 ones_like
pad partition popcount pow prod put_along_axis qr quantile real reciprocal rem repeat repeat_each
reshape reshape_with roll round scatter_add scatter_max scatter_min scatter_mul scatter_put
searchsorted segment_max segment_max_offsets segment_mean segment_mean_offsets segment_min
segment_min_offsets segment_sum segment_sum_offsets shl shr sign signbit sin sinc sinh slice
slice_ranges slicef slogdet solve solve_triangular sort sort_both split sqrt square squeeze stack
std sub sum svd take take_along_axis tan tanh tile to_host to_memory topk transpose trapezoid tril
triu trunc truncdiv unique_all unique_counts unique_inverse unique_values unstack var where
windows zeros_like
""".split() + ["free", "retain", "release"]
# Functions whose order is another one, and why.
OTHER_ORDER = {}

HANDLES = ("runtime", "stream", "pool", "expr", "use scope", "host view", "batches")
VALUES = ("arg", "data", "dtype", "error", "pick", "range", "status", "torch")
ARRAYS = ("array in", "arrays in", "array in-out", "arrays in-out")
# What is registered for good, under its own name, and so has no id.
FOR_GOOD = ("tide_policy_register",)
USER_DATA = ("self", "arg", "ctx", "context", "opaque")


def check(api):
    found = []
    for f in api["functions"]:
        for text in of_function(f):
            found.append((f["header"], f["_line"], "%s: %s" % (f["name"], text)))
    for c in api["callbacks"]:
        for text in of_callback(c):
            found.append((c["header"], c["_line"], "%s: %s" % (c["name"], text)))
    for s in api["structs"]:
        for text in of_struct(s):
            found.append((s["header"], s["_line"], "%s: %s" % (s["name"], text)))
    for m in api["macros"]:
        for text in of_macro(m):
            found.append((m["header"], m["_line"], "%s: %s" % (m["name"], text)))
    return sorted(found + of_head(api) + of_tables(api))


def of_head(api):
    """The rule stands at the head of base.h, word by word."""
    base = next((h for h in api["headers"] if h["name"] == "base.h"), None)
    if base and " ".join(RULE.split()) in " ".join(base["text"].split()):
        return []
    return [("base.h", 1, "the head does not have the rule (tools/headers/rule.py) word by word")]


def of_tables(api):
    """An exception that is none any more is taken out."""
    return [(f["header"], f["_line"], "%s: keeps the usual order, and OTHER_ORDER of rule.py has it"
             % f["name"])
            for f in api["functions"] if f["name"] in OTHER_ORDER and in_order(f)]


def of_function(f):
    """What is wrong with a function."""
    yield from of_contract(f)
    for a in f["args"]:
        if a["kind"] is None:
            yield "no kind is known of %s, a %s (tools/headers/kinds.py)" % (a["name"], a["type"])
    if f["result"]["kind"] is None:
        yield "no kind is known of its result, a %s" % f["result"]["type"]
    if any(a["kind"] is None for a in f["args"]):
        return
    yield from of_name(f)
    yield from of_order(f)
    yield from of_figures(f)
    yield from of_text(f)
    yield from of_registration(f)
    for a in f["args"]:
        yield from of_user(a)


def of_macro(m):
    """A macro has a text; one that stands for a function a contract, and it is there."""
    if not m["text"]:
        yield "has no text above it"
    elif "_above" in m:
        yield from of_contract(m)
        if not m["_defined"]:
            yield "is declared in a comment, and no macro has this name"


def of_contract(f):
    if f["_above"] is None:
        yield "has no contract directly above it"
        return
    collects, blocks = comments.closing(f["_above"])
    if not collects or not blocks:
        wanted = ([] if collects else [comments.COLLECTS]) + ([] if blocks else [comments.BLOCKS])
        yield "its contract does not end with " + ", and then ".join(
            " or ".join('"%s"' % sentence for sentence in w) for w in wanted)


def object_of(name):
    return next((o for o in sorted(OBJECTS, key=len, reverse=True)
                 if name.startswith("tide_" + o + "_")), None)


def of_name(f):
    """A name begins with its object, or is a word of the tables; its first argument is what that
    says."""
    verb, first = f["name"][len("tide_"):], f["args"][0]["kind"] if f["args"] else None
    if not f["name"].startswith("tide_"):
        yield "does not begin with tide_"
    elif verb in MATHEMATICS:
        if first not in ARRAYS:
            yield "is array mathematics, and its first argument is no array"
    elif verb in MAKERS:
        if first != "runtime":
            yield "makes an array, and its first argument is not the runtime"
    elif verb in VERBS:
        if first != "runtime" and verb not in WITHOUT:
            yield "is a verb of the runtime's, and its first argument is not the runtime"
    elif object_of(f["name"]) is None:
        yield ("begins with no object, and is in none of the tables of verbs, makers and "
               "mathematics of rule.py")
    elif OBJECTS[object_of(f["name"])] and first not in OBJECTS[object_of(f["name"])]:
        yield "begins with %s, and its first argument is none of these: %s" % (
            object_of(f["name"]), ", ".join(OBJECTS[object_of(f["name"])]))


def rank(a):
    """The place of an argument in the order."""
    if a["kind"] in ("array in-out", "arrays in-out"):
        return 0
    if a["kind"] in HANDLES:
        return 1
    return 3 if kinds.is_result(a["kind"]) else 2


def order_of(f):
    """The ranks of the arguments; the size of a result goes with it."""
    ranks = []
    for i, a in enumerate(f["args"]):
        before = f["args"][i - 1] if i else None
        sized = before and (kinds.is_result(before["kind"]) or before["kind"] == "arrays in-out")
        goes_along = sized and a["kind"] in ("size", "count")
        ranks.append(ranks[-1] if goes_along else rank(a))
    return ranks


def in_order(f):
    ranks = order_of(f)
    return object_of(f["name"]) in VALUES or ranks == sorted(ranks)


def of_order(f):
    if f["name"] not in OTHER_ORDER and not in_order(f):
        yield ("its arguments (%s) are not in the order: an array that is written, objects, "
               "inputs, results" % ", ".join(a["name"] for a in f["args"]))
    if any(a["name"] in ("dst", "dsts") for a in f["args"][1:]) and not any(
            a["kind"] == "raw pointer out" for a in f["args"]):
        yield "writes into an array that exists, and does not take it first"
    first = f["args"][0] if f["args"] else None
    if first and first["name"] in ("dst", "dsts") and not first["kind"].endswith("in-out"):
        yield "writes into %s, and WRITES of kinds.py does not have it" % first["name"]


def of_figures(f):
    """tide_X_info(obj, &out) into a tide_X_figures."""
    m = re.fullmatch(r"tide_(\w+)_info", f["name"])
    out = [a for a in f["args"] if a["kind"] == "figures out"]
    if m:
        want = "tide_%s_figures *" % m[1]
        if [a["type"] for a in f["args"][1:]] != [want] or f["result"]["kind"] != "status":
            yield "is not a status of (object, %sout)" % want
    elif out:
        yield "gives figures, and is no tide_X_info"


def of_text(f):
    """tide_X_text(obj, buf, cap)."""
    buffers = [a for a in f["args"] if a["kind"] == "text buffer"]
    if re.fullmatch(r"tide_\w+_text(_with)?", f["name"]):
        last = [(a["name"], a["type"]) for a in f["args"][-2:]]
        few = f["name"].endswith("_with") or len(f["args"]) == 3
        if last != [("buf", "char *"), ("cap", "size_t")] or not few or \
                f["result"]["type"] != "size_t":
            yield "is not a size_t of (object, char *buf, size_t cap)"
    elif buffers:
        yield "gives text, and is no tide_X_text"


def of_registration(f):
    """User data and ids come last."""
    args = f["args"]
    if f["name"].endswith("_register") and f["name"] not in FOR_GOOD and (
            not args or (args[-1]["name"], args[-1]["type"]) != ("id", "uint64_t *")):
        yield "does not give a uint64_t *id last"
    if f["name"].endswith("_unregister") and (
            not args or (args[-1]["name"], args[-1]["type"]) != ("id", "uint64_t")):
        yield "does not take a uint64_t id last"
    called = [i for i, a in enumerate(args) if a["kind"] == "callback"]
    rest = [a["kind"] for a in args[called[-1] + 1:]] if called else ["user"]
    if rest not in (["user"], ["user", "id out"]):
        yield "takes a callback, and `user` does not follow it as the last"


def of_user(a):
    """A parameter or field: how user data is called, and what a callback gets."""
    if a["type"] == "void *" and a["name"] in USER_DATA:
        yield "%s: user data is called `user`" % a["name"]
    if "args" in a:
        for text in of_callback(a):
            yield "%s: %s" % (a["name"], text)


def of_callback(c):
    """What is called gets `void *user` first. (What it gets to call is the library's own.)"""
    first = c["args"][0] if c["args"] else None
    if not first or first["type"] != "void *" or first["name"] != "user":
        yield "does not get `void *user` first"
    for a in c["args"][1:]:
        if a["type"] == "void *" and a["name"] in USER_DATA:
            yield "%s: user data is called `user`" % a["name"]


def of_struct(s):
    """A struct with something to call says with what."""
    fields = s["fields"]
    for f in fields:
        yield from of_user(f)
        if f.get("kind") is None:
            yield "no kind is known of %s, a %s (tools/headers/kinds.py)" % (f["name"], f["type"])
    called = [f["name"] for f in fields if f.get("kind") == "callback"]
    if called and not any(f["type"] == "void *" and re.fullmatch(r"(\w+_)?user", f["name"])
                          for f in fields):
        yield "has %s to call, and no `void *user`" % called[0]
