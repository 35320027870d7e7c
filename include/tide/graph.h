/* graph.h: a function whose work is captured once and then queued as a whole, by one submission.
**
** A step of training, or of a simulation, queues the same operations again and again, and each of
** them takes the host some microseconds. A graph has a function that makes such calls.
** tide_graph_run calls it the first time that arguments of their types and shapes come. The second
** time it calls it again, and captures what it queues instead of queueing it. From then on it
** queues what was captured, for a few microseconds in all, and calls nothing. What comes out is
** what the function would have computed, bit for bit.
**
** What the function is given is given anew at each run: arrays, wherever their elements lie, and
** numbers. It may write into them. All else is captured as it was:
** - Arrays that the function finds by itself (weights, tables) are kept, and read and written at
**   each run, as long as the capture is. They may be moved, and spilled.
** - Which operations, in which order, with which C numbers: where that changes, tide_graph_reset.
** - What the function does besides queueing work happens when it is called. A generator that it
**   draws from (tide_rng) is read and advanced at each run, so it lives as long as runs are made.
** The function may be called at any run: for arguments of another type, shape, strides, kind of
** memory or alignment, on another device, where captures went because memory was short
** (tide/reclaim.h), where an argument shares bytes that are written with another one or with an
** array that is kept, where another thread captures just then, and always where the driver has no
** graphs (before CUDA 12). The results are the same.
** While a call is captured its work is not done yet, so what needs its outcome is
** TIDE_E_UNSUPPORTED, and names the function: elements read or written by the host
** (tide_to_host, tide_item, tide_from_host, tide_array_set, host views, files), sizes that depend
** on elements (tide_nonzero, tide_masked_select, tide_unique_values), tide_synchronize, use scopes,
** batches, factorizations and what solves by them, other devices' arrays, another graph's run.
** tide_graph_run then fails with that, whatever the function made of it, and nothing of the run was
** done. Arrays that a captured call makes and does not return end with it: a use of one is
** TIDE_E_INVALID. */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct tide_graph tide_graph;

/* Queues the work of a graph. `args` are those of the run: arrays, borrowed, whose kind is
** TIDE_ARG_ARRAY; a number comes as TIDE_ARG_NUMBER, which expressions take in its place, and which
** tells its value to nobody else. outs[0] to outs[m - 1] are NULL at first and receive results:
** each a new array that the function made or a view that it made of another one, never one of
** `args` itself (TIDE_E_INVALID), or NULL for none. They become the caller's of tide_graph_run. A
** status but TIDE_OK is that call's, and results are not looked at. It runs on the thread that
** calls tide_graph_run and may call all but what ends the runtime or the thread. It may be left by
** longjmp (docs/embedding.md): then nothing was captured. */
typedef tide_status (*tide_graph_fn)(void *user, const tide_arg *args, size_t n, tide_array **outs,
                                     size_t m);

#define TIDE_GRAPH_MAX 1024 /* arguments of a run, and results */

/* Makes a graph; fn is not called yet. It may be run by several threads, and on several devices. It
** is the caller's until tide_graph_release, or the runtime's close; `user` stays the caller's. fn
** NULL is TIDE_E_INVALID. NULL on failure. Never collects. Never blocks. */
TIDE_API tide_graph *tide_graph_new(tide_runtime *rt, tide_graph_fn fn, void *user);
/* Runs the graph on the calling thread's current stream, as above. Results are written to outs[0]
** to outs[m - 1]: new arrays each time, or NULL where the function gave none. Their work is ordered
** with that of other streams like an operation that reads and writes what all of the graph does.
** The memory that it needs in between is one block, which stays for the next run and gives way when
** memory is short. More than TIDE_GRAPH_MAX arguments or results, an argument that is of no kind,
** and a run from inside a captured call (TIDE_E_UNSUPPORTED) are refused with nothing done. A
** failure of the function's is this one's. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_graph_run(tide_graph *g, const tide_arg *args, size_t n,
                                                   tide_array **outs, size_t m);
/* Forgets what was captured: later runs call the function, and capture it anew. Runs that go on,
** and what is queued, are as they were. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_graph_reset(tide_graph *g);
/* Ends a graph that no thread is running; what is queued goes on. NULL is legal; one that was
** released, or that runs, is TIDE_E_INVALID in the error record. Never collects. Never blocks. */
TIDE_API void tide_graph_release(tide_graph *g);

/* What a graph has done, and what it holds. */
typedef struct tide_graph_figures {
    size_t struct_size; /* set by the caller to sizeof(tide_graph_figures) */
    uint64_t runs;      /* that succeeded */
    uint64_t calls;     /* of the function */
    uint64_t captures;  /* calls that were captured */
    uint64_t launches;  /* runs that queued what had been captured */
    uint64_t
        builds;     /* times that a capture was made ready for the device, anew after it gave way */
    uint64_t nodes; /* pieces of work in all captures there are */
    size_t bytes;   /* of device memory, for what lies between the operations */
} tide_graph_figures;
/* Writes the graph's figures. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_graph_info(tide_graph *g, tide_graph_figures *out);

#if defined(__cplusplus)
}
#endif
#endif
