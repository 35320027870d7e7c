#!/usr/bin/env python3
"""reach.py: every function of the C API is reached from Lua, or there is a reason why not.

    reach.py API.JSON HELP-COMMAND...

The command prints the names of all functions of the module, as tide.help() does. A function of the
API is there under its own name, or under one of REACHED, or stands in NOT_REACHED with the reason. An
entry that no function of the API needs is an error too."""
import json
import re
import subprocess
import sys

# What stands for it in Lua: functions, or a word of the language's own manner after "=".
REACHED = {
    "runtime_info": "stats", "runtime_text": "status", "runtime_reset_peaks": "reset_peaks",
    "close": "runtime:close",
    "version": "= tide.version", "stream_new": "stream", "stream_release": "stream:release",
    "stream_current": "use_stream", "stream_set": "use_stream", "stream_wrap": "wrap_stream",
    "stream_native": "stream:native", "reclaimable_register": "reclaimable",
    "reclaimable_unregister": "cache:release", "device_set": "device", "device_current": "device",
    "array_device": "= a.device", "device_set_limit": "set_limit",
    "device_set_soft_limit": "set_soft_limit", "device_info": "device_stats",
    "device_text": "device_status", "pool_new": "pool", "pool_release": "pool:release",
    "pool_default": "default_pool", "pool_current": "use_pool", "pool_set": "use_pool",
    "pool_set_attribute": "pool:set", "pool_get_attribute": "pool:get", "pool_info": "pool:stats",
    "pool_text": "pool:status", "from_host": "array", "to_host": "totable", "item_f64": "item",
    "array_on_death": "on_death", "array_dtype": "= a.dtype", "array_ndim": "= a.ndim",
    "array_dim": "= a.shape", "array_size": "= a.size", "array_is_contiguous": "is_contiguous",
    "array_is_freed": "is_freed", "array_text": "= tostring(a)", "array_text_with": "format",
    "range_all": "= a({})", "range_slice": "= a({first, last, step})", "range_index": "= a(i)",
    "range_newaxis": "= tide.newaxis", "range_ellipsis": "= tide.ellipsis",
    "slice_ranges": "= a(i, {first, last})", "pick_range": "= a(i)", "pick_array": "= a[places]",
    "index": "= a[places]", "index_put": "= a[places] = values",
    "array_set_ordered": "set_ordered", "repeat": "repeated", "array_memory": "= a.memory",
    "host_view_begin": "view", "host_view_end": "view:release", "array_get": "= a(i, j)",
    "array_set": "= a[{i, j}] = v", "array_prefetch": "prefetch", "array_advise": "advise",
    "expr_new": "expr", "expr_apply": "expr", "expr_apply_many": "expr", "map_args": "map",
    "map_many_args": "map", "map_into_args": "map_into", "batches_new": "batches",
    "batches_next": "batches", "batches_count": "iterator:count",
    "batches_rewind": "iterator:rewind", "batches_release": "iterator:release",
    "policy_register": "policy", "dtype_name": "= a.dtype",
}
NOT_REACHED = {
    "error_last": "errors are Lua's", "error_clear": "errors are Lua's",
    "status_name": "errors are Lua's, which are texts",
    "dtype_size": "the size of elements matters to bytes alone, which are strings",
    "thread_attach": "each call attaches its thread", "thread_detach": "a thread's end does it",
    "thread_allow_scalar": "an index that names one element copies it on any memory",
    "array_runtime": "calls find the runtime of their arrays",
    "array_stride": "views say them; which arrays are views is no matter elsewhere",
    "retain": "Lua's collector keeps arrays", "release": "Lua's collector drops arrays",
    "scope_begin": "Lua's collector drops arrays", "scope_end": "Lua's collector drops arrays",
    "scope_depth": "Lua's collector drops arrays", "scope_unwind": "Lua's collector drops arrays",
    "scope_keep": "Lua's collector drops arrays",
    "slice": "ranges by text count from 0; indices count from 1",
    "slicef": "ranges by text count from 0; indices count from 1",
    "expr_release": "Lua's collector does it",
    "expr_results": "a call gives as many results as there are",
    "expr_apply_into": "map_into takes the text",
    "use_begin": "kernels of one's own are C", "use_end": "kernels of one's own are C",
    "use_launch": "kernels of one's own are C",
    "pool_malloc": "addresses are of use in C", "pool_free": "addresses are of use in C",
    "torch_malloc": "PyTorch's", "torch_free": "PyTorch's", "torch_close": "PyTorch's",
    "data_host": "tables and arrays are data", "data_array": "tables and arrays are data",
    "adapt_register": "tables need no rules", "adapt_unregister": "tables need no rules",
    "adapt_release": "Lua's collector drops arrays",
    "collector_register": "the collector is Lua's", "collector_unregister": "the collector is Lua's",
    "collector_use": "the collector is Lua's", "collector_is_device_library": "of bdwgc",
    "graph_new": "numbers of a run are no values that Lua computes with",
    "graph_run": "numbers of a run are no values that Lua computes with",
    "graph_reset": "of tide_graph", "graph_release": "of tide_graph",
    "graph_info": "of tide_graph",
    "arg_array": "Lua's values are arguments", "arg_bool": "Lua's values are arguments",
    "arg_int": "Lua's values are arguments", "arg_uint": "Lua's values are arguments",
    "arg_float": "Lua's values are arguments", "arg_complex": "tide.complex(re, im)",
}


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        api = [x["name"][5:] for x in json.load(f)["functions"]]
    text = subprocess.run(sys.argv[2:], check=True, capture_output=True, text=True).stdout
    names = set(re.sub(r"^.*?: ", "", text, flags=re.M).split())
    wrong = []
    for name in api:
        there = [name in names, name in REACHED, name in NOT_REACHED]
        if not any(there):
            wrong.append("tide_%s is neither reached nor left out with a reason" % name)
        elif sum(there) > 1:
            wrong.append("tide_%s is told of more than once" % name)
        elif name in REACHED and REACHED[name][0] != "=" and REACHED[name] not in names:
            wrong.append("tide_%s: the module has no %s" % (name, REACHED[name]))
    wrong += ["there is no tide_%s" % n for n in {**REACHED, **NOT_REACHED} if n not in api]
    for line in wrong:
        print(line)
    print("%d functions: %d by their names, %d by others, %d not" %
          (len(api), sum(n in names for n in api), len(REACHED), len(NOT_REACHED)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
