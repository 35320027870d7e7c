/* graph.h: graphs: what a function queued once, queued again as a whole (include/tide/graph.h).
**
** Model. A graph has *variants*, one for each key: the device, and what the arguments' types,
** shapes, strides, kinds of memory and alignments are. A variant goes through states:
**   SEEN        its key came once, and the function was called (which makes kernels, plans and
**               handles warm)
**   CAPTURING   a thread captures the function's next call; others call it meanwhile
**   READY       it has a *body*: nodes without addresses (capture.h), which never change
** A body and device memory for what lies between its nodes, the *arena*, make a *built* graph of
** the device: with addresses, nodes that can be told others, and library calls captured. Built
** graphs are what memory pressure takes first; then bodies, and the variant is SEEN again. A run
** asks for the variant (variants.c). Then it calls the function (call.c), or makes results, orders
** its stream like an operation that uses all that the body does, and launches the built graph at
** the addresses that its arguments, the body's own arrays, the arena and the results have just then
** (run.c). So moves and spills between runs need no notice: what has another address is told. But
** library calls keep the addresses that they were captured with: what they use is pinned while a
** run builds and launches, and where one of their addresses is another by then, it is built anew.
**
** Slots of the device's graph are the arena (0), and after it those of the body's slots that nodes
** use and that do not lie in the arena, or are copied to it.
** What must stay true: calling the function is always right, and done where a capture might not be:
** where bytes that the body writes are shared with an argument, or with another one. A body goes
** when no run has its variant, a built graph when no run has it. The lock of a graph is a leaf;
** that of a built graph is taken before a stream's (tidei_submit_begin_under), and nothing is
** waited for under it. */
#ifndef TIDEI_GRAPH_H
#define TIDEI_GRAPH_H

#include "arrays/arrays.h"
#include "runtime/memory/capture.h"
#include <limits.h>
#include <tide/graph.h>

#define TIDEI_OP_GRAPH_RUN "tide_graph_run"

/* ---- bodies ---- */

typedef struct tidei_body_slot {
    unsigned number; /* of the device's slots; 0: it lies in the arena alone */
    unsigned arg;    /* GIVEN: which argument */
    /* OUTER: an array of the body's keeps the storage */
    tidei_storage *st;
    tide_array *array;
} tidei_body_slot;

typedef struct tidei_body_result {
    bool any;         /* false: the function gave none */
    unsigned slot;    /* of the capture */
    tidei_layout lay; /* its offset is from the slot's beginning on */
} tidei_body_result;

typedef struct tidei_body {
    tidei_capture *c;       /* finished */
    tidei_body_slot *slots; /* beside those of the capture */
    tidei_body_result *results;
    unsigned nresults, nnumbers; /* numbers: of the device's slots, the arena's among them */
    unsigned before;             /* nodes of a built graph ahead of the capture's: copies */
    unsigned nrenewed;           /* nodes whose parameters are new at each run */
    size_t params_bytes;         /* theirs */
    bool writes;                 /* into arguments or arrays of its own */
    bool fixed;                  /* has slots that are */
} tidei_body;

/* Makes a body of a capture, which it takes over (also on failure). arg_slot[i]: of argument i;
** UINT_MAX: it is a number. results: a copy is made. */
tide_status tidei_body_new(tidei_capture *c, const unsigned *arg_slot, unsigned nargs,
                           const tidei_body_result *results, unsigned nresults, tidei_body **out);
void tidei_body_drop(tidei_body *b);

/* ---- built graphs ---- */

typedef struct tidei_built {
    unsigned refs;        /* under the graph's lock */
    pthread_mutex_t lock; /* of a launch: the arena is used by one thread at a time */
    tidei_dev *dev;
    tidei_storage *arena; /* NULL: nothing lies between the nodes */
    tidei_dgraph *g;
    size_t library;       /* bytes counted as library state */
    tidei_addr *fixed_at; /* by slot of the body: where fixed ones were */
} tidei_built;

/* Builds at the addresses that fixed slots have: given ones and results that are fixed stand in the
** arena, the others are pinned by the caller, as the arena is (tidei_arena_new). */
tide_status tidei_build(const tidei_body *b, tidei_storage *arena, tidei_stream *s,
                        tidei_built **out);
tide_status tidei_arena_new(const tidei_body *b, tidei_stream *s, tidei_storage **out);
void tidei_built_drop(tidei_built *x);
/* Whether what library calls use is where it was; the caller has pinned it. */
bool tidei_built_fits(const tidei_built *x, const tidei_body *b);

/* ---- graphs and variants ---- */

typedef struct tidei_variant {
    struct tidei_variant *next;
    enum { TIDEI_SEEN, TIDEI_CAPTURING, TIDEI_READY } state;
    unsigned users; /* runs that use it */
    bool stale;     /* the graph was reset meanwhile: it goes with its last user */
    bool building;  /* a run builds; others call the function */
    uint64_t used;  /* the clock when it was last asked for */
    tidei_dev *dev;
    tidei_body *body;
    tidei_built *built;
    size_t key_bytes;
    unsigned char key[];
} tidei_variant;

typedef struct tidei_task_graph {
    tidei_runtime *rt;
    tide_graph *ref;
    tide_graph_fn fn;
    void *user;
    struct tidei_task_graph *next, **prev; /* under the lock of graphs */
    pthread_mutex_t lock;                  /* of the rest, and of the variants */
    unsigned busy;                         /* runs that go on */
    tidei_variant *variants;
    unsigned nvariants;
    tide_graph_figures figures; /* without nodes and bytes, which are counted when asked for */
} tidei_task_graph;

/* A run, by a thread that has entered, of a graph that counts it among its busy ones. */
tide_status tidei_graph_run(tidei_task_graph *g, tidei_thread *t, const tide_arg *args, size_t n,
                            tide_array **outs, size_t m);

/* In tidei_arrays. */
typedef struct tidei_graphs {
    pthread_mutex_t lock;
    tidei_task_graph *all;
    _Atomic uint64_t clock;
    _Atomic int32_t calls; /* numbers of calls */
    tidei_reclaimable reclaim;
} tidei_graphs;
static inline tidei_graphs *tidei_graphs_of(tidei_runtime *rt) {
    return tidei_arrays_of(rt)->graphs;
}

tide_status tidei_graphs_open(tidei_runtime *rt);
/* Lets go of all that graphs hold on devices, and of the arrays that they keep. */
void tidei_graphs_end(tidei_runtime *rt);
void tidei_graphs_close(tidei_runtime *rt);

/* What a run does with its variant. */
typedef enum { TIDEI_RUN_CALL, TIDEI_RUN_CAPTURE, TIDEI_RUN_LAUNCH } tidei_run_way;
/* Finds or makes the variant of a key and takes it for the run, which leaves it by one of the
** functions below. NULL, with the error set: host memory. */
tidei_variant *tidei_variant_take(tidei_task_graph *g, tidei_dev *d, const void *key, size_t bytes,
                                  tidei_run_way *way);
/* The call was captured, or (NULL) was not. The run has the variant still. */
void tidei_variant_captured(tidei_task_graph *g, tidei_variant *v, tidei_body *body);
void tidei_variant_leave(tidei_task_graph *g, tidei_variant *v);
/* The built graph of the variant, for this run; NULL: *build says whether the run is to build it.
** */
tidei_built *tidei_variant_built(tidei_task_graph *g, tidei_variant *v, bool *build);
/* Lets go of the variant's built graph, if no other run has it. */
void tidei_variant_unbuild(tidei_task_graph *g, tidei_variant *v);
/* What the run has built; NULL: it could not. */
void tidei_variant_set_built(tidei_task_graph *g, tidei_variant *v, tidei_built *x);
/* The run has done with it. `replace`: it serves no more, and the run is to build another. */
void tidei_built_leave(tidei_task_graph *g, tidei_variant *v, tidei_built *x, bool replace,
                       bool *build);
/* Forgets all variants that no run uses; those that one does go with it. */
void tidei_variants_forget(tidei_task_graph *g);

/* ---- calls ---- */

/* Calls the function. args: as the run was given them. outs are written at success. */
tide_status tidei_graph_call_function(tidei_task_graph *g, tidei_thread *t, const tide_arg *args,
                                      size_t n, tide_array **outs, size_t m);
/* Captures a call of it; ops[i] is argument i where that is an array. *out stays NULL where what
** was captured is of no use, not even to this run. */
tide_status tidei_graph_capture(tidei_task_graph *g, tidei_thread *t, const tide_arg *args,
                                const tidei_operand *ops, size_t n, size_t m, tidei_body **out);
/* How far the first byte that an argument spans lies behind a boundary of what kernels may count
** on. */
#define TIDEI_GRAPH_ALIGN 16
size_t tidei_operand_lowest(const tidei_operand *o);

#endif
