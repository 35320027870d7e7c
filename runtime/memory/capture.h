/* capture.h: a thread's work, noted down instead of queued: what a graph is made of.
**
** Model. While a thread captures, what it submits becomes nodes of its *capture*, in their order,
** whatever stream it is for. A node says what it does and which bytes of which *slots* it uses. A
** slot is memory as the nodes know it:
**   GIVEN   an argument of the graph: the memory is another one at each run
**   OUTER   a storage that was there before the capture
**   MADE    a storage that a captured call made: at each run it lies in the graph's arena
**   RESULT  one that becomes a result: new memory at each run
** GIVEN, MADE and RESULT are *placeholders* while the capture goes on: storages without memory, of
** which only their nodes are known. So nothing is allocated and nothing is queued, and no address
** is in a node: parameters have offsets, and say where addresses are to be added. When the call is
** over, places in the arena are chosen. A MADE slot lives from the first node that uses it to the
** last, and slots that do not live together may share bytes: nodes that share bytes run in their
** order. A node whose results nobody reads, neither a later node nor whoever runs the graph, is
** left out then.
** Example, with four nodes:
**   x -> [0] -> a -> [1] -> b -> [2] -> c -> [3] -> y        a lives in 0..1, b in 1..2, c in 2..3
**   arena: a at 0, b behind it, c where a was
** The addresses of some nodes cannot be changed any more once a device has the node (a library's
** call, which the device captures). Their slots are *fixed*: one that is another memory at each run
** then stands in the arena for all of the graph, is copied there before the first node, and back
** behind the last.
** What must stay true: two slots that live at the same node share no byte. A placeholder is used by
** the thread that captures alone, and by nobody afterwards. What a capture refuses it fails with in
** the end, whatever came after. What runs inside a callback within the captured call (a cache that
** gives way, say) is no part of it. No lock: a capture is one thread's until it is finished, and is
** not changed afterwards. */
#ifndef TIDEI_CAPTURE_H
#define TIDEI_CAPTURE_H

#include "runtime/memory/storage.h"
#include <tide/random.h>

typedef enum {
    TIDEI_SLOT_GIVEN,
    TIDEI_SLOT_OUTER,
    TIDEI_SLOT_MADE,
    TIDEI_SLOT_RESULT
} tidei_slot_kind;

typedef struct tidei_slot {
    tidei_storage *st; /* retained; NULL once finished, but for OUTER */
    tidei_slot_kind kind;
    tidei_mem_kind memory; /* of a result: what kind it is to be */
    size_t bytes;
    /* what nodes do to it, and the stretch that they use; 0: nothing */
    unsigned mode;
    size_t lo, hi;
    unsigned first, last; /* nodes that use it, where mode is not 0 */
    bool fixed;
    /* somebody reads it: a later node (only while the capture is finished), or whoever runs the
    ** graph */
    bool wanted;
    /* once finished: whether it lies in the arena, and where there */
    bool in_arena;
    size_t place;
} tidei_slot;

typedef struct tidei_graph_node tidei_graph_node;

/* A library's call, which is made anew while the device captures (tidei_device_ops). Between the
** device's capture_begin and capture_end it queues its work at the addresses of w->ranges, of
** which w->uses have the offsets, and the device's graph knows as `ranges`. */
typedef tide_status (*tidei_node_call)(const tidei_graph_node *x, tidei_dev *d, tidei_dgraph *g,
                                       const tidei_submission *w, const tidei_graph_range *ranges);
/* Writes into a copy of a node's parameters what is new at each run. False: the captured work is
** not for these arguments. */
typedef bool (*tidei_node_renew)(const void *data, const tide_arg *args, unsigned char *params);

/* Whether the captured work is for these arguments. */
typedef bool (*tidei_capture_serves)(const void *data, const tide_arg *args);
typedef struct tidei_condition {
    tidei_capture_serves serves;
    void *data;
} tidei_condition;

struct tidei_graph_node {
    enum { TIDEI_NODE_LAUNCH, TIDEI_NODE_FILL, TIDEI_NODE_COPY, TIDEI_NODE_CALL } kind;
    const char *op;
    unsigned n;                    /* uses */
    const tidei_graph_range *uses; /* the slots are the capture's; COPY: from, to */
    const size_t *at;              /* LAUNCH: as tidei_device_ops.graph_add has it */
    tidei_launch launch;           /* LAUNCH; without ranges */
    size_t width;                  /* FILL */
    unsigned char pattern[16];
    tidei_node_call call; /* CALL */
    const void *data;
    tidei_node_renew renew; /* NULL: nothing */
    void *renewed;          /* what it is told; the node's */
};

/* A generator that captured calls draw from: what they take of it at each run. */
typedef struct tidei_draws {
    tide_rng *generator;
    uint64_t taken;
} tidei_draws;

struct tidei_capture {
    tidei_dev *dev;
    const char *op;
    uint64_t number; /* placeholders have it */
    /* the callback whose calls are captured: the record that notes it, and how many it notes then
    ** */
    const tidei_thread *noted;
    unsigned notes;
    tide_status failed;
    tidei_saved_error why;
    bool for_nobody; /* what was captured follows from this run's numbers alone */
    tidei_graph_node **nodes;
    tidei_slot *slots;
    tidei_draws *draws;
    tidei_condition *conditions;
    unsigned nnodes, nodes_room, nslots, slots_room, ndraws, draws_room, nconditions,
        conditions_room;
    size_t arena; /* once finished: its bytes */
};

/* ---- capturing ---- */

/* From here to the end the calling thread captures, for work on d: what comes from inside the
** callback that tidei_capture_within names. Not from inside a capture. If a longjmp leaves the
** thread's calls the capture is over, and dropped. */
tide_status tidei_capture_begin(tidei_thread *t, tidei_dev *d, const char *op, tidei_capture **out);
void tidei_capture_within(tidei_capture *c, const tidei_callback *call); /* NULL: it is over */
/* The thread captures no more; what was refused, if anything, with its error set. Generators are as
** they were before: each run takes what it takes. The capture is the caller's. */
tide_status tidei_capture_end(tidei_thread *t, tidei_capture *c);
/* What nobody reads is left out, places are chosen, and placeholders let go of; those slots that
** became RESULT, or that are GIVEN, have no storage from now on. */
tide_status tidei_capture_finish(tidei_capture *c);
void tidei_capture_drop(tidei_capture *c);

/* The capture of the calling thread; NULL: it captures nothing. */
tidei_capture *tidei_capture_here(tidei_runtime *rt);
static inline tidei_capture *tidei_capturing(tidei_runtime *rt) {
    bool any = atomic_load_explicit(&rt->capturing, memory_order_relaxed) != 0;
    return tidei_unlikely(any) ? tidei_capture_here(rt) : NULL;
}
/* Notes a failure whose error is set: the first one is what the capture fails with in the end.
** Returns its status. */
tide_status tidei_capture_fail(tidei_capture *c, tide_status status);
/* TIDE_E_UNSUPPORTED where the calling thread captures: `op` `does` what no graph can. */
tide_status tidei_capture_refused(tidei_runtime *rt, const char *op, const char *does);
/* Whether the calling thread may use a placeholder. */
bool tidei_capture_admits(const tidei_storage *st);
#define TIDEI_ENDED_PLACEHOLDER                                                                    \
    "the array was made by a captured call of a graph, and ended with it: what the call returns "  \
    "is what there is afterwards (tide_graph_run)"

/* A placeholder, of kind MADE; the second: an argument's, which is not in the caller's hands. */
tide_status tidei_capture_make(tidei_capture *c, tidei_pool *pool, size_t bytes, const char *op,
                               tidei_storage **out);
tide_status tidei_capture_give(tidei_capture *c, tidei_pool *pool, size_t bytes,
                               tidei_storage **out);
/* The slot of a storage, NULL: no node uses it, and it is no placeholder of this capture. */
tidei_slot *tidei_capture_slot(const tidei_capture *c, const tidei_storage *st);

/* Adds the slot of a storage that was there before the capture; refused as in nodes. */
tide_status tidei_capture_outer(tidei_capture *c, tidei_storage *st, tidei_slot **out);

/* Nodes, as the submissions of the same name take them (storage.h). */
tide_status tidei_capture_launch(tidei_capture *c, const tidei_use *uses, unsigned n,
                                 const tidei_launch *l, const size_t *at, const char *op);
tide_status tidei_capture_fill(tidei_capture *c, const tidei_use *use, const void *pattern,
                               size_t width, const char *op);
tide_status tidei_capture_copy(tidei_capture *c, const tidei_use *from, const tidei_use *to,
                               const char *op);
tide_status tidei_capture_call(tidei_capture *c, const tidei_use *uses, unsigned n,
                               tidei_node_call call, const void *data, size_t bytes,
                               const char *op);
/* What is new of the node at each run; and a condition for each run. `data` becomes the capture's,
** also on failure; it is freed by tidei_host_free. */
tide_status tidei_capture_renew(tidei_capture *c, unsigned node, tidei_node_renew renew,
                                void *data);
tide_status tidei_capture_condition(tidei_capture *c, tidei_capture_serves serves, void *data);
/* Notes that captured calls take so much of a generator; *before: what those before it took. */
tide_status tidei_capture_draw(tidei_capture *c, tide_rng *generator, uint64_t taken,
                               uint64_t *before);

#endif
