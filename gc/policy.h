/* policy.h: when it is worth asking the collectors: policies as pure functions of a snapshot.
**
** A policy sees what the runtime knows at a safe point (tidei_policy_in), what earlier collections
** did (tidei_policy_history), the values of its parameters and its own small state, all passed in;
** it reads no clock and touches nothing else, so the code that runs live also runs in a simulation
** (gc/lab). It answers which collection to ask for, if any, and at which growth it wants to be
** asked again. tidei_policy_ask and tidei_policy_told wrap a policy with what all of them share:
** the history, the choice of level, and the guard, which puts off further collections after one
** that freed nothing. A snapshot is of one budget: a device's memory, or what arrays take of the
** host's (runtime/memory/memory_kinds.h). Each has its own history; a collection that either asks
** for frees of both. docs/policies.md has the rule and the source of each. */
#ifndef TIDEI_POLICY_H
#define TIDEI_POLICY_H

#include "gc/params.h"
#include "runtime/base/collect.h"
#include <tide/collector.h>

#define TIDEI_NO_LIMIT UINT64_MAX

typedef struct tidei_policy_in {
    uint64_t now_ns;
    tidei_where where;
    unsigned levels;  /* TIDEI_OFFERS_* : what the registered collectors offer */
    unsigned threads; /* attached to the runtime: a collection may stop them all */
    /* bytes requested by arrays and workspaces: live, and dead but not yet found */
    uint64_t live;
    uint64_t rounding;   /* bytes lost to granules on top of that */
    uint64_t request;    /* bytes wanted now, not in live; 0 at a sync point */
    uint64_t hard, soft; /* limits on backed bytes and library state; TIDEI_NO_LIMIT */
    uint64_t library;    /* bytes of library state, which the limits count too */
    uint64_t total;      /* of the device; on a host device its ceiling */
    uint64_t available;  /* free on the device + backed by this runtime; may be some seconds old */
    uint64_t slack_ns;   /* device work still queued: a pause this long costs nothing */
    uint64_t backed;     /* bytes taken from the driver: use grows up to there at no cost */
    /* what a byte beyond `backed` takes; 0: nothing, or what is freed is not kept either */
    double fresh_ns;
    /* the largest request for which no block would have to be moved (tidei_pool_largest); 0: none,
    ** or nobody knows, or no array is made */
    uint64_t largest;
} tidei_policy_in;
enum { TIDEI_OFFERS_MINOR = 1 << TIDE_COLLECT_MINOR, TIDEI_OFFERS_FULL = 1 << TIDE_COLLECT_FULL };

typedef struct tidei_decision {
    int level; /* TIDE_COLLECT_MINOR, TIDE_COLLECT_FULL; 0: none */
    /* live + request at which to ask again at an allocation; UINT64_MAX: never */
    uint64_t wake_at;
    const char *reason; /* static text */
} tidei_decision;

typedef struct tidei_collection { /* a collection that ran */
    int level;
    bool early;  /* asked for by the policy */
    bool forced; /* an allocation failed; neither: the program asked for it */
    uint64_t start_ns, pause_ns;
} tidei_collection;

typedef struct tidei_policy_history {
    uint64_t opened_ns; /* time of the first question */
    uint64_t end_ns;    /* end of the last collection; 0: none yet */
    uint64_t base;      /* bytes used after the drain of the last collection, or the least since */
    uint64_t guard;     /* after a fruitless collection: use below which there is no other */
    double gc_ns[2];    /* average pause of a minor, a full collection; 0: not tried */
    double per_ns[2];   /* average bytes that one ns of it freed */
    /* average share of the growth that collections freed; 0: there was none yet */
    double yield;
    /* the choice of level (tidei_policy_level) */
    unsigned poor; /* minor collections in a row that freed less than a quarter of the growth */
    unsigned fulls_due; /* full ones, before a minor one is tried again */
    uint64_t full_left; /* bytes used after the last full one, or the least since */
    double old_kept;    /* share of what minor ones had left that full ones found live; average */
    double lost_ns;     /* what it has cost since the last full one, as far as that is garbage */
} tidei_policy_history;

#define TIDEI_POLICY_STATE  160 /* bytes of a policy's own state; all zero at the start */
#define TIDEI_POLICY_PARAMS 12
typedef struct tidei_policy {
    const char *name;
    /* `at`: the values of its parameters, in the order of `params`. */
    tidei_decision (*decide)(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in);
    /* (optional) A collection ran: the snapshots just before it and after its drain. */
    void (*observe)(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c);
    /* no guard: its own rule bounds the time that fruitless collections take, or asks the guard, or
    ** it is kept as its source has it */
    bool unguarded;
    const char *summary; /* when it collects */
    const tidei_param *params;
    size_t nparams; /* at most TIDEI_POLICY_PARAMS */
    /* (may be NULL) somebody else's, whose slots are called instead: gc/own_policy.h */
    const struct tide_policy *own;
} tidei_policy;

extern const tidei_policy tidei_policy_reserve, tidei_policy_priced, tidei_policy_headroom,
    tidei_policy_sqrt, tidei_policy_pressure, tidei_policy_softmax, tidei_policy_rates,
    tidei_policy_cudajl, tidei_policy_every, tidei_policy_never;
const tidei_policy *tidei_policy_at(size_t i);           /* NULL: there are no more */
const tidei_policy *tidei_policy_find(const char *name); /* NULL if there is none such */
const char *tidei_policy_names(char *buf, size_t cap);   /* "reserve, cudajl, never, ..." */

/* A policy with the values of its parameters. */
typedef struct tidei_policy_choice {
    const tidei_policy *policy;
    double at[TIDEI_POLICY_PARAMS];
} tidei_policy_choice;
tidei_policy_choice tidei_policy_usual(const tidei_policy *p);
/* Reads "reserve" or "reserve(x0=0.5,stall=5ms)"; a name with a '/' is a shared object's, which is
** opened. False: what is wrong, and where, is in `why`. */
bool tidei_policy_choose(const char *text, tidei_policy_choice *out, char *why, size_t cap);

/* What makes no sense in the answers of somebody else's policy: each counts as: do not collect. */
typedef struct tidei_policy_nonsense {
    uint64_t n;
    char first[88]; /* what was wrong with the first one */
} tidei_policy_nonsense;

/* A policy at work on one device. */
typedef struct tidei_policy_run {
    const tidei_policy *policy;
    tidei_policy_history history;
    double at[TIDEI_POLICY_PARAMS];
    _Alignas(8) unsigned char state[TIDEI_POLICY_STATE];
    void *own_state; /* of somebody else's policy: gc/own_policy.h gives and takes it */
    tidei_policy_nonsense nonsense;
} tidei_policy_run;
void tidei_policy_start(tidei_policy_run *r, const tidei_policy *p); /* with the usual values */
void tidei_policy_start_with(tidei_policy_run *r, const tidei_policy_choice *c);
/* Whether it asks for a full collection at each question. */
bool tidei_policy_is_always(const tidei_policy_run *r);
tidei_decision tidei_policy_ask(tidei_policy_run *r, const tidei_policy_in *in);
void tidei_policy_told(tidei_policy_run *r, const tidei_policy_in *before,
                       const tidei_policy_in *after, const tidei_collection *c);

/* ---- what policies share ---- */
/* Bytes taken up by what is live. */
static inline uint64_t tidei_policy_used(const tidei_policy_in *in) {
    return in->live + in->rounding;
}
/* What arrays may take up: the hard limit, else the soft one, else the device, less library
** state. */
uint64_t tidei_policy_room_end(const tidei_policy_in *in);
/* What the last collection left below that, at least 1; and which share of it growth has used. */
double tidei_policy_room(const tidei_policy_history *h, const tidei_policy_in *in);
double tidei_policy_room_used(const tidei_policy_history *h, const tidei_policy_in *in);
/* live + request at which used + request will be `use`, if granules lose as much as now. */
uint64_t tidei_policy_wake(const tidei_policy_in *in, double use);
/* Whether the guard forbids a collection of this level now; and what is answered then. */
bool tidei_policy_guards(const tidei_policy_history *h, const tidei_policy_in *in, int level);
tidei_decision tidei_policy_guarded(const tidei_policy_history *h, const tidei_policy_in *in);
/* A full collection if one is offered. */
int tidei_policy_full(const tidei_policy_in *in);
/* A minor collection, and a full one after a poor minor one, or once what minor ones left behind
** has cost as much as a full one takes beyond a minor one: which is at most twice the cost of
** knowing. 0: nothing is offered. */
int tidei_policy_level(const tidei_policy_history *h, unsigned levels);

#endif
