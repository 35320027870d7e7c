/* collector.h: the collectors of a runtime, as gc/ keeps them. The seams outwards:
** runtime/base/collect.h (what the runtime asks of the collectors) and tide/collector.h (an
** embedder's collector).
**
** Place 0 is the runtime's own collector, "refcount" or "boehm"; the others are foreign. An array's
** owner is a collector's id, fixed at birth; ids are never used twice, so an owner that is gone is
** nobody, not somebody else. Locks: gc->lock guards what stands under it below and is never held
** across a slot of a collector, a policy's log line or a drain. `running` makes collections
** single-flight: who sets it leads a round. Slots of foreign collectors are called as
** runtime/base/callback.h says: noted, with what is under way held, since an error of the
** interpreter's may leave them by longjmp. */
#ifndef TIDEI_COLLECTOR_H
#define TIDEI_COLLECTOR_H

#include "gc/policy.h"
#include "runtime/runtime.h"

#define TIDEI_FOREIGN_MAX 8
#define TIDEI_COLLECTORS  (1 + TIDEI_FOREIGN_MAX)

/* What came of asking a collector to collect; that of the last full round is kept for reports. */
typedef enum tidei_outcome {
    TIDEI_COLLECTED,
    TIDEI_WAS_BUSY,
    TIDEI_CANNOT,    /* it knows no such collection */
    TIDEI_ODD,       /* its answer is no value that the table allows */
    TIDEI_ELSEWHERE, /* bound: its thread was asked and has not come yet */
    TIDEI_LATE,      /* bound: nor did it come while it was waited for */
    TIDEI_ENDED      /* bound: its thread has ended */
} tidei_outcome;

typedef struct tidei_collector {
    tide_collector table; /* the runtime's own: caps 0 for "refcount" */
    _Atomic int id;       /* -1: the place is free */
    /* the id of the collector whose weight this is, perhaps one that is gone; 0: nobody's */
    _Atomic uint32_t owner;
    _Atomic unsigned weighing; /* threads that add to it just now */
    uint64_t thread;         /* tidei_thread_serial of who registered it: a bound one runs there */
    _Atomic bool weighs;     /* has a slot that is told of weight */
    _Atomic int64_t weight;  /* bytes that its arrays keep alive beyond those it was told of */
    _Atomic int64_t told;    /* the sum of what it was told */
    _Atomic unsigned cannot; /* levels (bits) that it has said it does not know */
    atomic_bool odd;         /* the log has told of an answer that is no allowed value */
    _Atomic int answer;      /* the last such answer */
    /* under gc->lock */
    unsigned users; /* threads inside one of its slots */
    /* bound: its thread waits for a round or a climb to end, and answers meanwhile */
    unsigned waits;
    int asked;          /* bound: the level wanted of it; 0: nothing */
    bool answers;       /* bound: its thread collects */
    bool ended;         /* bound: its thread is no longer attached */
    tidei_outcome last; /* bound: its last answer */
    tidei_outcome how;  /* the last full round; of a bound one: since it was asked in that */
} tidei_collector;

typedef struct tidei_gc_dev { /* one device; under gc->lock, `before` is the leader's */
    tidei_policy_run run;
    tidei_policy_in before;
    bool called; /* a thread is inside the policy, which is somebody else's, and has `run` */
    /* the budget without limits, and when the driver was asked for it */
    _Atomic uint64_t available, available_ns;
} tidei_gc_dev;

typedef struct tidei_gc {
    tidei_runtime *rt;
    bool boehm; /* the runtime's own collector is boehm */
    tidei_gc_dev *devs;
    tidei_gc_dev host; /* the runtime's second budget: the same policy, with a history of its own */
    tidei_collector at[TIDEI_COLLECTORS];
    _Atomic unsigned offers; /* TIDEI_OFFERS_* of all that are registered */
    _Atomic bool asked;      /* some bound collector is asked for something */
    _Atomic unsigned threads;
    atomic_bool told_of_nonsense; /* the log has */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock */
    int next_id;
    tidei_collector *leaving; /* the one that is being unregistered; under lock */
    uint64_t leaver;          /* tidei_thread_serial of who does that */
    bool running;
    uint64_t rounds; /* finished */
    size_t round_bytes;
    int round_level; /* of the round that ended last, like the bytes: another may run already */
    bool round_ran;
    struct tidei_scope *scopes;
} tidei_gc;
static inline tidei_gc *tidei_gc_of(tidei_runtime *rt) { return rt->gc; }

/* ---- collect.c ---- */
void tidei_gc_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                  tidei_pool *pool);
void tidei_gc_ask_host(tidei_runtime *rt, size_t request);
size_t tidei_gc_collect(tidei_runtime *rt, int level, const char *why, bool *ran);
void tidei_gc_wait(tidei_runtime *rt, const _Atomic uint64_t *count, uint64_t seen);
void tidei_gc_wake(tidei_runtime *rt);
bool tidei_gc_await(tidei_runtime *rt, uint64_t *patience_ns);
size_t tidei_gc_unreached(tidei_runtime *rt, char *buf, size_t cap);
/* The calling thread attaches to the runtime (`here`), or leaves it; collectors bound to it run
** only while it is attached. */
void tidei_gc_thread_is(tidei_gc *gc, bool here);
/* A collector came or went: sums up what all offer now, wakes the policy, and forgets what a
** collector that is gone was asked for. */
void tidei_gc_changed(tidei_gc *gc);

/* ---- own_calls.c: of a policy that is somebody else's; no lock is held ---- */
/* Asks it, on a snapshot that was begun after so many `rounds`. False, and *out as it was: it was
** not asked, or a round began meanwhile, so that the answer is stale. */
bool tidei_gc_ask_own(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *in, uint64_t rounds,
                      tidei_decision *out);
/* Tells it of the round that this thread leads. */
void tidei_gc_tell_own(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *after,
                       const tidei_collection *c);

/* ---- collector.c ---- */
/* The collector `id`, not counted; NULL if it is gone. */
tidei_collector *tidei_collector_find(tidei_gc *gc, int id);
/* The collector `id` with its use counted until tidei_collector_leave; NULL if it is gone. */
tidei_collector *tidei_collector_enter(tidei_gc *gc, int id);
/* The same, to call its slot `blocking`: NULL also while another thread unregisters the
** collector. */
tidei_collector *tidei_collector_enter_region(tidei_gc *gc, int id);
void tidei_collector_leave(tidei_gc *gc, tidei_collector *c);
/* Gives back a use that tidei_collector_enter counted; for tidei_hold. */
void tidei_undo_use(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t of);
/* The thread's collector for new arrays; never NULL, not counted. */
tidei_collector *tidei_collector_current(tidei_gc *gc, tidei_thread *t);
/* Tells the collector, which somebody has entered or is unregistering, that its weight has changed
** by `delta`. What it is told counts as told, though it be left. */
void tidei_collector_tell(tidei_gc *gc, tidei_collector *c, int64_t delta);
/* Tells every collector that has a slot for it what weight has come and gone. */
void tidei_tell_weights(tidei_gc *gc);

/* ---- foreign.c ---- */
void tidei_foreign_close(tidei_gc *gc);

/* ---- scope.c ---- */
/* The references that a count stands for, without the mark of a scope. */
#define TIDEI_REFS_COUNT(refs) ((refs) & ~TIDEI_SCOPED)
tide_status tidei_scope_add(tidei_thread *t,
                            /* takes the creation reference; no scope: does nothing */
                            tidei_header *h);
void tidei_scopes_end(tidei_thread *t); /* all of the thread's */
void tidei_scopes_close(tidei_gc *gc);  /* all there are */

/* ---- stack.c ---- */
/* Overwrites the stack below the caller: earlier calls left addresses of arrays there, which lie in
** the unwritten parts of the frames that come next, and a collector that scans the stack would find
** them. */
void tidei_clear_stack(void);

#endif
