"""facts.py: what a program wants to know of arguments, fields and results beside their types, and
what no prose is read for: which constants an int takes, what counts a pointer, what a failure
returns, what ends an object, which errors come.

Model. The tables below say it, each by place: "tide_qr.mode" is an argument or a field,
"tide_collector.collect.level" an argument of a slot, "tide_version" a function's result. `add` puts
it into the model; `check` says which entries the headers do not bear out any more, and what is
missing: a new int, pointer or result is a decision, so it is an entry here."""
import re

from headers import comments

# Ints that are of an enum: its name; then "flags" where values are combined, or the values that are
# meant where not all are.
TRIANGLE, ACCESS = "TIDE_LOWER, TIDE_UPPER, TIDE_UNIT", "TIDE_READ, TIDE_WRITE"
ONE_TRIANGLE = ["TIDE_LOWER", "TIDE_UPPER"]
SETTING = "TIDE_DEFAULT, TIDE_ON, TIDE_OFF"
ENUMS = {
    "tide_adapt.how": ("TIDE_ADAPT_*", "flags"),
    "tide_adapt_rule.moved.how": ("TIDE_ADAPT_*", "flags"),
    "tide_arg.kind": ("TIDE_ARG_*",),
    "tide_array_advise.advice": ("TIDE_ADVISE_*",),
    "tide_array_prefetch.where": ("TIDE_TO_*",),
    "tide_cholesky.how": (TRIANGLE, ONE_TRIANGLE),
    "tide_collector.caps": ("TIDE_COLLECTOR_*", "flags"),
    "tide_collector.collect":
        ("TIDE_COLLECT_DONE, TIDE_COLLECT_BUSY, TIDE_COLLECT_UNSUPPORTED",),
    "tide_collector.collect.level": ("TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL",),
    "tide_config.log_level": ("TIDE_LOG_*",),
    "tide_cummax.flags": ("TIDE_SCAN_*", "flags"),
    "tide_cummin.flags": ("TIDE_SCAN_*", "flags"),
    "tide_cumprod.flags": ("TIDE_SCAN_*", "flags"),
    "tide_cumsum.flags": ("TIDE_SCAN_*", "flags"),
    "tide_eigh.how": (TRIANGLE, ONE_TRIANGLE),
    "tide_host_view_begin.mode": (ACCESS, "flags"),
    "tide_linear.activation": ("TIDE_IDENTITY, TIDE_RELU, TIDE_GELU",),
    "tide_log_fn.level": ("TIDE_LOG_*",),
    "tide_meshgrid.indexing": ("TIDE_GRID_*",),
    "tide_pad.mode": ("TIDE_PAD_*",),
    "tide_pick.kind": ("TIDE_PICK_*",),
    "tide_policy_collection.level": ("TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL",),
    "tide_policy_decision.level": ("TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL",),
    "tide_policy_param.kind": ("TIDE_PARAM_*",),
    "tide_policy_snapshot.level": ("TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL",),
    "tide_policy_snapshot.levels": ("TIDE_POLICY_*", "flags"),
    "tide_policy_snapshot.where": ("TIDE_POLICY_AT_*",),
    "tide_pool_get_attribute.attribute": ("TIDE_POOL_*",),
    "tide_pool_set_attribute.attribute": ("TIDE_POOL_*",),
    "tide_print_options.float_mode": ("TIDE_PRINT_*",),
    "tide_qr.mode": ("TIDE_REDUCED, TIDE_COMPLETE",),
    "tide_range.kind": ("TIDE_RANGE_*",),
    "tide_reclaim.level": ("TIDE_RECLAIM_*",),
    "tide_reshape_with.copy": ("TIDE_COPY_*",),
    "tide_scatter_add.flags": ("TIDE_SCATTER_ANY_*", "flags"),
    "tide_solve_triangular.how": (TRIANGLE, "flags"),
    "tide_svd.mode": ("TIDE_REDUCED, TIDE_COMPLETE",),
    "tide_use.mode": (ACCESS, "flags"),
}
# Switches: no (0) or yes; with SETTING those of a configuration, where 0 is the default.
SETTINGS = """
tide_batches_config.drop_last tide_batches_config.narrow tide_config.cache
tide_config.deterministic tide_config.gc_early tide_config.spill tide_config.thread_streams
tide_pool_config.deterministic tide_pool_config.reuse_done tide_pool_config.reuse_follow
tide_pool_config.reuse_wait
""".split()
SWITCHES = """
tide_all.keepdims tide_any.keepdims tide_arg_bool.v tide_argmax.keepdims tide_argmin.keepdims
tide_argsort.descending tide_array_is_contiguous tide_array_is_freed tide_array_set_ordered.on
tide_collector.may_collect tide_collector_is_device_library tide_count_nonzero.keepdims
tide_device_reaches tide_linspace.endpoint tide_logspace.endpoint tide_max.keepdims
tide_mean.keepdims tide_median.keepdims tide_min.keepdims tide_policy.unguarded
tide_policy_collection.early tide_print_options.suppress_small
tide_prod.keepdims tide_quantile.keepdims tide_reclaimable.dear tide_searchsorted.right
tide_sort.descending tide_sort_both.descending tide_std.keepdims tide_sum.keepdims
tide_thread_allow_scalar tide_thread_allow_scalar.on tide_topk.largest tide_var.keepdims
""".split()
# Ints that are numbers, by their names; and results that are.
NUMBERS = """
axis axis1 axis2 debug debug_sample depth device edge_items host_devices host_threads line_width n ndim order
owner precision reserved threads value
""".split()
NUMBER_RESULTS = """
tide_array_device tide_array_ndim tide_device_count tide_device_current
tide_expr_results tide_scope_depth
""".split()
INTS = ("int", "unsigned int", "int32_t", "uint32_t")

# What counts the elements of a pointer (bytes of memory without a type): an argument beside it, by
# its name, or what follows from one.
COUNTS = {
    "after": "rank(a)", "args": "n", "arrays": "n narrays", "axes": "n", "before": "rank(a)",
    "buf": "cap", "data": "elements(shape)", "destination": "n",
    "dst": "bytes", "dsts": "m", "fields": "nfields", "host": "elements(shape)",
    "index": "rank(a)", "indices": "n", "keys": "n", "lengths": "n", "order": "norder",
    "outs": "m n", "params": "nparams", "perm": "rank(a)", "picks": "n",
    "ptrs": "n", "ranges": "n", "reps": "n",
    "samples": "n", "shape": "ndim", "shifts": "n", "source": "n", "steps": "n", "strides": "ndim", "uses": "n",
}
COUNTED = ("arrays in", "arrays in-out", "arrays out", "axes", "index", "numbers", "picks",
           "ranges", "raw pointers out", "shape", "strides", "tagged arguments", "text buffer",
           "uses")

# Pointers that may be NULL, which their texts do not say in a form that comments.py reads: those
# that are counted, where the count is 0 (base.h), and some more. tests/across/test_nullable.c calls
# each function with it.
NULLABLE = """
tide_median.axes tide_quantile.axes
tide_adapt_rule.fields tide_array_get.index tide_array_set.index tide_array_text_with.buf
tide_array_text_with.options
tide_batches_config.arrays tide_batches_config.source tide_batches_config.type
tide_batches_fill.samples tide_broadcast_to.shape tide_collector_is_device_library.name
tide_data.host tide_data_host.host tide_data_host.shape tide_device_text.buf tide_empty_in.shape
tide_expr_apply.args tide_expr_apply_into.args tide_expr_apply_many.args tide_host_view.data
tide_graph_run.args tide_graph_run.outs
tide_index.picks tide_index_put.picks tide_map_args.args
tide_map_into_args.args tide_map_many_args.args tide_moveaxis.destination
tide_moveaxis.source tide_pad.after tide_pad.before tide_pool_text.buf
tide_random_integers.shape tide_random_normal.shape tide_random_uniform.shape tide_reshape.shape
tide_reshape_with.shape tide_roll.axes tide_roll.shifts tide_split.indices
tide_runtime_text.buf tide_slice_ranges.ranges tide_stream_wrap.native tide_tile.reps
tide_to_host.dst
tide_torch_free.stream tide_torch_malloc.stream tide_unstack.outs
tide_use_begin.ptrs tide_use_begin.uses tide_windows.lengths tide_windows.steps
""".split()

# Counted pointers that may not: there is always something.
NEVER_NULL = """
tide_lexsort.keys tide_broadcast_arrays.arrays tide_broadcast_arrays.outs tide_concat.arrays
tide_expr_apply_into.dsts tide_expr_apply_many.outs tide_graph_fn.args tide_graph_fn.outs tide_map_many.outs tide_map_many_args.outs
tide_meshgrid.arrays tide_meshgrid.outs tide_nonzero.outs tide_split.outs tide_stack.arrays
""".split()

# What a failure returns, where that is no status and no array (NULL).
FAILURES = {
    "NULL": "tide_array_runtime tide_expr_new tide_graph_new tide_pool_current tide_pool_default tide_pool_malloc "
            "tide_stream_current tide_stream_native tide_torch_malloc".split(),
    -1: "tide_array_device tide_array_dim tide_array_dtype tide_array_memory tide_array_ndim "
        "tide_array_size tide_device_count tide_device_current tide_device_reaches "
        "tide_expr_results tide_scope_depth".split(),
    0: "tide_array_is_contiguous tide_array_is_freed tide_array_stride tide_array_text "
       "tide_array_text_with tide_batches_count tide_device_text tide_pool_text tide_runtime_text "
       "tide_thread_allow_scalar".split(),
    "NaN": ["tide_item_f64"],
    "absent": ["tide_data_array"],
}
CANNOT_FAIL = """
tide_arg_array tide_arg_bool tide_arg_complex tide_arg_float tide_arg_int tide_arg_uint
tide_collector_is_device_library tide_data_host tide_dtype_name tide_dtype_size tide_error_last
tide_pick_array tide_pick_range
tide_range_all tide_range_ellipsis tide_range_index tide_range_newaxis tide_range_slice
tide_status_name tide_version
""".split()

# What ends an object that a function gave: by type, and by result or argument.
RELEASES = {
    "tide_array": "tide_release", "tide_batches": "tide_batches_release",
    "tide_expr": "tide_expr_release", "tide_graph": "tide_graph_release",
    "tide_host_view": "tide_host_view_end",
    "tide_pool": "tide_pool_release", "tide_runtime": "tide_close",
    "tide_stream": "tide_stream_release", "tide_use_scope": "tide_use_end",
    "tide_adapt.to": "tide_adapt_release", "tide_adapt_register.id": "tide_adapt_unregister",
    "tide_collector_register.id": "tide_collector_unregister",
    "tide_pool_malloc": "tide_pool_free",
    "tide_reclaimable_register.id": "tide_reclaimable_unregister",
    "tide_torch_malloc": "tide_torch_free",
}

# What a language with optional arguments may leave out, by place or by name.
DEFAULTS = {
    "axes": "NULL", "descending": 0, "freed": "NULL", "keepdims": 0, "options": "NULL", "rcond": -1,
    "tide_bincount.bins": -1, "tide_bincount.weights": "NULL", "tide_searchsorted.right": 0,
    "tide_topk.largest": 1,
    "tide_open.config": "NULL", "tide_pool_free.s": "NULL", "tide_pool_malloc.s": "NULL",
    "tide_pool_new.config": "NULL", "tide_synchronize.s": "NULL", "tide_transpose.perm": "NULL",
    "tide_use_begin.s": "NULL",
}

# What does the same as a function with "..." without them.
CALLS = {"tide_slicef": "tide_slice"}

# Headers whose heads name errors of all that may collect.
HEADS = ("expr.h", "index.h", "linalg.h", "ops.h", "order.h", "scan.h")
# Errors that another function is said to share: its name, and which of them; all where none stands.
SHARED = {
    "tide_argmax": ("tide_argmin",),
    "tide_array_set": ("tide_full", "TIDE_E_DTYPE"),
    "tide_array_stride": ("tide_array_dim",),
    "tide_array_text": ("tide_to_host", "TIDE_E_BOUNDS"),
    "tide_array_text_with": ("tide_array_text",),
    "tide_device_synchronize": ("tide_synchronize",),
    "tide_empty_in": ("tide_empty",),
    "tide_eye": ("tide_zeros",),
    "tide_fill": ("tide_full", "TIDE_E_DTYPE"),
    "tide_full_like": ("tide_full", "TIDE_E_DTYPE"),
    "tide_item": ("tide_to_host", "TIDE_E_BOUNDS"),
    "tide_item_f64": ("tide_item",),
    "tide_logspace": ("tide_linspace",),
    "tide_map": ("tide_map_args",),
    "tide_map_args": ("tide_expr_new",),
    "tide_map_into": ("tide_map_into_args",),
    "tide_map_into_args": ("tide_expr_new",),
    "tide_map_many": ("tide_map_many_args",),
    "tide_map_many_args": ("tide_expr_new",),
    "tide_pad": ("tide_full", "TIDE_E_DTYPE"),
    "tide_pool_get_attribute": ("tide_pool_set_attribute",),
    "tide_random_integers": ("tide_empty", "TIDE_E_SHAPE", "TIDE_E_NOMEM"),
    "tide_random_normal": ("tide_empty", "TIDE_E_SHAPE", "TIDE_E_NOMEM"),
    "tide_random_uniform": ("tide_empty", "TIDE_E_SHAPE", "TIDE_E_NOMEM"),
    "tide_reshape_with": ("tide_reshape",),
    "tide_index": ("tide_slice_ranges",),
    "tide_scatter_max": ("tide_scatter_min",),
    "tide_segment_max": ("tide_segment_min",),
    "tide_segment_max_offsets": ("tide_segment_sum_offsets",),
    "tide_segment_mean": ("tide_segment_sum",),
    "tide_segment_mean_offsets": ("tide_segment_sum_offsets",),
    "tide_segment_min": ("tide_segment_sum",),
    "tide_segment_min_offsets": ("tide_segment_sum_offsets",),
    "tide_slice": ("tide_slice_ranges",),
    "tide_slicef": ("tide_slice",),
    "tide_to_memory": ("tide_empty_in",),
}
# Errors that a text, or that of its section, names of something else.
OTHERS = {
    "tide_arange": ["TIDE_E_SHAPE"],
    "tide_batches_next": ["TIDE_E_FREED"],
    "tide_close": ["TIDE_E_FREED"],
    "tide_dot": ["TIDE_E_INVALID"],
    "tide_free": ["TIDE_E_FREED"],
    "tide_lu_solve": ["TIDE_E_INVALID"],
    "tide_nrm2": ["TIDE_E_INVALID"],
    "tide_reshape_with": ["TIDE_E_BOUNDS"],
    "tide_status_name": ["TIDE_E_NOMEM"],
    "tide_thread_allow_scalar": ["TIDE_E_BOUNDS", "TIDE_E_UNSUPPORTED"],
}


def calls(api):
    """Everything that stands for a function."""
    return api["functions"] + [m for m in api["macros"] if "result" in m]


def slots(place, of):
    """(place, argument or field, those beside it) of a function, a callback or a struct."""
    for key in ("args", "fields"):
        for a in of.get(key, []):
            yield "%s.%s" % (place, a["name"]), a, of[key]
            yield from slots("%s.%s" % (place, a["name"]), a)


def all_slots(api):
    for e in calls(api) + api["callbacks"] + api["structs"]:
        for place, a, beside in slots(e["name"], e):
            yield e, place, a, beside


def results(api):
    """(entry, place, result) of everything that is called."""
    for e in calls(api) + api["callbacks"]:
        yield e, e["name"], e["result"]
    for e, place, a, _ in all_slots(api):
        if isinstance(a.get("result"), dict):
            yield e, place, a["result"]


# ---- putting it in ----

def add(api):
    for e, place, a, beside in all_slots(api):
        add_to_slot(e, place, a, beside)
    for _, place, r in results(api):
        add_enum(place, r)
        add_failure(place, r)
        if place in RELEASES:
            r["release"] = RELEASES[place]
    for o in api["objects"] + api["structs"]:
        if o["name"] in RELEASES:
            o["release"] = RELEASES[o["name"]]
    by_name = {f["name"]: f for f in calls(api)}
    groups, heads = api["groups"], {h["name"]: h["text"] for h in api["headers"]}
    for f in by_name.values():
        f["errors"] = errors(f, by_name, groups, heads)
        if f["result"]["kind"] == "status" and re.search(r"\bTIDE_END\b", f["text"]):
            f["returns"] = ["TIDE_END"]
        if f["name"] in CALLS:
            f["calls"] = CALLS[f["name"]]


def add_to_slot(e, place, a, beside):
    if "args" not in a:
        add_enum(place, a)
    count = count_of(e, a, [x["name"] for x in beside])
    if count:
        a["count"] = count
    if place in NULLABLE or any(a is x for x in e.get("fields", [])) and field_may_be_null(e, a):
        a["nullable"] = True
    if place in RELEASES:
        a["release"] = RELEASES[place]
    default = DEFAULTS.get(place, DEFAULTS.get(a["name"]))
    if default is not None and "fields" not in e:
        a["default"] = default
    if a["name"] == "n" and any(x["kind"] == "axes" for x in beside):
        a["default"] = 0
    env = re.match(r"(TIDE_\w+(?:=\S*\w)?)[:,]", a.get("text", ""))
    if e["name"].endswith("_config") and env and env[1] not in SETTING:
        a["env"] = env[1]


def count_of(e, a, names):
    """What counts the elements of a pointer, or of an array within a struct; None: nothing."""
    if not (a["type"].endswith("*") or "length" in a) or a.get("kind") == "array out":
        return None
    for c in COUNTS.get(a["name"], "").split():
        of = re.fullmatch(r"\w+\((\w+)\)", c)
        if (of[1] if of else c) in names and not (of and "fields" in e):
            return c
    return None


def field_may_be_null(struct, a):
    """Whether its text, or the struct's, says so of a field that is a pointer."""
    if not a["type"].endswith("*") and a.get("kind") != "callback":
        return False
    said = re.search(r"\(may be NULL\)|\(optional\)|\bNULL:", a.get("text", ""))
    every = re.search(r"Every slot but `(\w+)` may be NULL", struct["text"])
    slot = every and a.get("kind") == "callback" and a["name"] != every[1]
    return bool(said or slot or re.search(r"field left zero or NULL", struct["text"]))


def add_enum(place, of):
    """Of an int: the enum that it is of, or that it is a switch."""
    if place in SWITCHES + SETTINGS:
        of["kind"] = "switch"
    enum = (SETTING,) if place in SETTINGS else ENUMS.get(place)
    if enum:
        of["enum"] = enum[0]
        for more in enum[1:]:
            of.update({"flags": True} if more == "flags" else {"values": more})


def add_failure(place, result):
    if result["kind"] == "array":
        result["failure"] = "NULL"
    for value, places in FAILURES.items():
        if place in places:
            result["failure"] = value


def errors(f, by_name, groups, heads, inside=()):
    """The errors of a function, in the order in which they are named."""
    group = groups[f["group"]]["text"] if "group" in f else ""
    found = comments.errors(f["text"], group)
    if f["header"] in HEADS and f["collects"] == "may":
        found += [e for e in comments.errors(heads[f["header"]]) if of_head(e, f)]
    other, *some = SHARED.get(f["name"], (None,))
    if other in by_name and other not in inside:
        shared = errors(by_name[other], by_name, groups, heads, inside + (f["name"],))
        found += [e for e in shared if not some or e in some]
    return [e for e in dict.fromkeys(found) if e not in OTHERS.get(f["name"], [])]


def of_head(error, f):
    """Whether an error of a header's head may come: that of a freed array any function has
    (base.h); of results by pointer there must be some; one operand alone broadcasts with none, and
    has a right type where any is."""
    if error == "TIDE_E_FREED":
        return False
    if f["header"] in ("linalg.h", "order.h") and error == "TIDE_E_INVALID":
        return any(a["kind"] == "array out" for a in f["args"])
    if f["header"] == "order.h" and error == "TIDE_E_BOUNDS":
        return any(a["name"] == "axis" for a in f["args"])
    if f["header"] != "ops.h" or sum(a["kind"] == "array in" for a in f["args"]) > 1:
        return True
    return error != "TIDE_E_SHAPE" and not re.search(r"\bof anything\b", f["text"])


# ---- whether it is so ----

def check(api):
    """Complaints, (header, line, text): entries that are not true of the headers, and what the
    tables lack."""
    at = {e["name"]: e for e in calls(api) + api["callbacks"] + api["structs"] + api["objects"]}
    found = [(e["header"], e["_line"], "%s: %s" % (place, text))
             for e, place, text in list(of_ints(api)) + list(of_pointers(api)) +
             list(of_results(api)) + list(of_variadic(api)) + list(of_objects(api, at))]
    found += [("base.h", 1, text) for text in of_places(api, at)]
    return found + [(at[n]["header"], at[n]["_line"], "%s: %s" % (n, text))
                    for n, text in of_errors(at)]


def of_ints(api):
    enums = {e["name"]: [v["name"] for v in e["values"]] for e in api["enums"]}
    known = list(ENUMS) + SWITCHES + SETTINGS
    ints = [(e, p, a) for e, p, a, _ in all_slots(api) if a["name"] not in NUMBERS]
    ints += [(e, p, r) for e, p, r in results(api) if p not in NUMBER_RESULTS]
    for e, place, a in ints:
        if a["type"] in INTS and place not in known:
            yield e, place, "what this int is for stands in no table of tools/headers/facts.py"
        if "enum" in a and a["enum"] not in enums:
            yield e, place, "there is no enum %s" % a["enum"]
        elif not set(a.get("values", [])) <= set(enums.get(a.get("enum"), [])):
            yield e, place, "%s has not all of %s" % (a["enum"], ", ".join(a["values"]))


def of_pointers(api):
    for e, place, a, _ in all_slots(api):
        pointer = a["type"].endswith("*") or "args" in a or a.get("kind") == "callback"
        if a.get("kind") in COUNTED and pointer and "count" not in a:
            yield e, place, "what counts it does not stand in COUNTS of facts.py"
        if a.get("kind") in COUNTED and pointer and not a.get("nullable") and \
                place not in NEVER_NULL:
            yield e, place, "stands neither in NULLABLE nor in NEVER_NULL of facts.py"
        if place in NULLABLE and not pointer:
            yield e, place, "is no pointer, and NULLABLE of facts.py has it"
        if a.get("default") == "NULL" and not a.get("nullable"):
            yield e, place, "has the default NULL, which nothing says is legal"


def of_results(api):
    for f in calls(api):
        r = f["result"]
        if r["kind"] in ("none", "status", "array"):
            continue
        if f["name"] not in CANNOT_FAIL and "failure" not in r:
            yield f, f["name"], ("what it returns on failure does not stand in FAILURES of "
                                 "facts.py, nor it in CANNOT_FAIL")
        value = str(r.get("failure", ""))
        said = r"(?<![\w-])%s\b[^.]*\b(?:failure|with the error set)" % re.escape(value)
        if value and not re.search(said, f["text"]):
            yield f, f["name"], "its text does not say that it returns %s on failure" % value


def of_variadic(api):
    for f in api["functions"]:
        if f.get("variadic") and CALLS.get(f["name"], "?") not in f["text"]:
            yield f, f["name"], "takes `...`, and CALLS of facts.py has nothing that its text names"


def of_objects(api, at):
    """What ends a thing takes one, or is called like what began it."""
    for o in api["objects"]:
        if o["name"] not in RELEASES:
            yield o, o["name"], "what ends it does not stand in RELEASES of facts.py"
    for place, name in RELEASES.items():
        e, f = at.get(place.split(".")[0]), at.get(name)
        if e and (not f or "args" not in f):
            yield e, place, "there is no function %s" % name
        elif e and "args" not in e and place not in f["args"][0]["type"]:
            yield e, place, "%s does not take one" % name


def of_places(api, at):
    """Entries of things that there are not."""
    places = {p for _, p, _, _ in all_slots(api)} | {p for _, p, _ in results(api)} | set(at)
    names = {p.rsplit(".", 1)[-1] for p in places}
    tables = [ENUMS, SWITCHES, SETTINGS, NULLABLE, NEVER_NULL, CANNOT_FAIL, NUMBER_RESULTS,
              RELEASES, CALLS, SHARED, OTHERS] + list(FAILURES.values())
    for place in sorted({p for t in tables for p in t} - places):
        yield "facts.py has %s, which is nothing in the headers" % place
    for name in sorted({n for t in (COUNTS, NUMBERS, DEFAULTS) for n in t} - names - places):
        yield "facts.py has %s, which nothing in the headers is called" % name


def of_errors(at):
    for name, (other, *some) in SHARED.items():
        if name in at and other not in at[name]["text"] + at[name].get("_group", ""):
            yield name, "its text names no %s, and SHARED of facts.py does" % other
        for code in some if other in at else []:
            if code not in at[other]["errors"]:
                yield name, "%s has no %s, and SHARED of facts.py says so" % (other, code)
    for name, codes in OTHERS.items():
        said = at[name]["text"] + at[name].get("_group", "") if name in at else " ".join(codes)
        for code in codes:
            if code not in said:
                yield name, "its text names no %s, and OTHERS of facts.py does" % code
