/* policy_reserve.c: the default: collect at the first cheap moment once a third of the room is
** used.
**
** Room is what the last collection left below the limit that comes first. While less than x0 of it
** is used, nothing happens. From there to x1 each question is an offer to collect, whose price is
** the part of the pause that no queued device work hides. At a sync point prices lie between floor
** (m) and a forced collection (M), and the first one not above sqrt(m*M) is taken, which is at most
** sqrt(M/m) times the cheapest: no online rule promises more. At an allocation the policy collects
** only where the whole pause is hidden: the next allocation offers the same price, and a later
** collection finds more. While a sync point is expected before x1 it does not collect at
** allocations at all, because at a sync point a pause delays no submission. The growth between the
** last sync points tells how far the next one is. A sync point after which the next one would come
** too late is taken at any price, as everything is from x1 on. So there are at most 1/x0 times as
** many voluntary collections as the least possible, and each fruitless one shrinks the room, so
** that they die out. No term grows with live data, since a pause does not.
** Memory that is new costs time, on a host device more than a collection often does (a page's first
** touch). So an allocation for which the pool would have to grow is a reason to collect once the
** growth since the last collection, so far as collections have found it to be garbage of late,
** would cost as much as a collection. To pay one price only once the other has mounted up to it
** costs at most twice the least possible.
** Without a limit below the device's size, garbage also has a price for its neighbours: once it may
** exceed what is live (and `garbage`), it is collected when that takes less than `cheap` of the
** time. */
#include "gc/policy.h"
#include <math.h>

/* Parameters. x0: at most 2.9 times the collections that are unavoidable. x1: what remains lets
** requests of 3 % in without a climb. worth: from there on a request that does not fit is a reason
** to collect. floor, m: a shorter pause does not matter. stall, of a climb: wait for the device,
** trim, map, retry; results do not move from 2 to 100 ms. stopped: a guess. */
enum { X0, X1, WORTH, FLOOR, STALL, STOPPED, GARBAGE, CHEAP, PARAMS };
static const tidei_param params[PARAMS] = {
    [X0] = {"x0", TIDEI_NUMBER, 0.35, 0.01, 1,
            "share of the room from which moments are looked at"},
    [X1] = {"x1", TIDEI_NUMBER, 0.97, 0.01, 1, "share of the room from which any moment is taken"},
    [WORTH] = {"worth", TIDEI_NUMBER, 0.10, 0, 1,
               "share of the room that may be garbage before a request that does not fit counts"},
    [FLOOR] = {"floor", TIDEI_TIME, 50e3, 1, 1e9, "a pause that is shorter does not matter"},
    [STALL] = {"stall", TIDEI_TIME, 20e6, 1e3, 60e9, "what a climb takes beyond its collection"},
    [STOPPED] = {"stopped", TIDEI_NUMBER, 0.5, 0, 1,
                 "share of its time that another thread, stopped meanwhile, would have used"},
    [GARBAGE] = {"garbage", TIDEI_BYTES, 256 << 20, 0, 0x1p50,
                 "without a limit: garbage that the neighbours may be left without"},
    [CHEAP] = {"cheap", TIDEI_NUMBER, 0.01, 0, 1,
               "without a limit: share of the time that collecting it may take"},
};
/* assumed pause while there was no collection: that of a heap of some 10,000 objects */
#define FIRST_NS      2e6
#define STEP          (1.0 / 64) /* of the room, between questions while offers are too dear */
#define REQUEST_DECAY (63.0 / 64)
#define SPAN_DECAY    0.875
#define SPAN_MARGIN   1.05 /* the next span between sync points against those before */

typedef struct view { /* the snapshot in the terms of the rule; bytes as doubles */
    double used, base, room, x;
    double gc_ns, price_ns, price_max_ns;
    /* use from which growing costs more than collecting; INFINITY: it costs nothing */
    double grow_at;
    int level;
} view;

typedef struct rhythm { /* the policy's state: how much is made from one sync point to the next */
    uint64_t freed;     /* by collections so far */
    uint64_t mark;      /* freed + used at the last sync point */
    double span;        /* bytes made between sync points; of late, and rather too much */
    unsigned syncs;
    double request; /* the greatest recent one */
} rhythm;
_Static_assert(sizeof(rhythm) <= TIDEI_POLICY_STATE, "room for the state");

/* Bytes to be made until the next sync point; 0: unknown, or it should have come already. */
static double to_next_sync(rhythm *r, const tidei_policy_in *in) {
    uint64_t made = r->freed + tidei_policy_used(in);
    if (made < r->mark) r->mark = made; /* memory was given back by other ways than a collection */
    uint64_t since = made > r->mark ? made - r->mark : 0;
    /* a sync point before which nothing was made counts with the one before */
    if (in->where == TIDEI_AT_SYNC && (since || !r->syncs)) {
        if (r->syncs++) r->span = fmax((double)since, r->span * SPAN_DECAY);
        r->mark = made;
        since = 0;
    }
    return r->syncs > 1 ? fmax(0, r->span * SPAN_MARGIN - (double)since) : 0;
}

/* The use from which a collection is due in any case. Room for two of the greatest requests stays
** free, because no hole between live blocks may be large enough for one. */
static double last_use(const double *at, rhythm *r, const view *v, const tidei_policy_in *in) {
    r->request = fmax((double)in->request, r->request * REQUEST_DECAY);
    return v->base + fmax(at[X0], fmin(at[X1], 1 - 2 * r->request / fmax(v->room, 1))) * v->room;
}

static view look(const double *at, const tidei_policy_history *h, const tidei_policy_in *in) {
    view v = {.used = (double)tidei_policy_used(in),
              .base = (double)h->base,
              .level = tidei_policy_level(h, in->levels)};
    double end = (double)tidei_policy_room_end(in);
    v.room = end > v.base ? end - v.base : 0;
    double growth = v.used - v.base;
    double wanted = growth >= at[WORTH] * v.room ? (double)in->request : 0;
    v.x = v.room > 0 ? (growth + wanted) / v.room : growth > 0;
    v.gc_ns = h->gc_ns[v.level == TIDE_COLLECT_FULL];
    v.price_ns = fmax(at[FLOOR], v.gc_ns - (double)in->slack_ns);
    if (in->threads > 1) v.price_ns += (double)(in->threads - 1) * v.gc_ns * at[STOPPED];
    v.price_max_ns = sqrt(at[FLOOR] * (v.gc_ns + at[STALL]));
    /* ns that each freed byte saves, because a new one is not needed */
    double saved_ns = in->fresh_ns * (h->yield > 0 ? h->yield : 1);
    v.grow_at = saved_ns > 0 ? v.base + (v.gc_ns > 0 ? v.price_ns : FIRST_NS) / saved_ns : INFINITY;
    return v;
}

/* Whether garbage that no limit forbids is to be collected for the neighbours' sake. *from: the use
** from which this rule looks. */
static bool neighbourly(const double *at, const view *v, const tidei_policy_history *h,
                        const tidei_policy_in *in, double *from) {
    if (in->hard < in->total || in->soft < in->total) {
        *from = INFINITY;
        return false;
    }
    *from = v->base + fmax(at[GARBAGE], v->base);
    double since = (double)(in->now_ns - (h->end_ns ? h->end_ns : h->opened_ns));
    return v->used > *from && v->gc_ns < at[CHEAP] * since;
}

/* Where use will be `at`, expressed as live + request: assumes that granules lose as much as they
** do now. */
static uint64_t wake(const tidei_policy_in *in, const view *v, double at) {
    double more = at > v->used ? at - v->used : 0;
    if (more >= (double)(UINT64_MAX / 2)) return UINT64_MAX;
    return in->live + (uint64_t)(v->used > 0 ? more * (double)in->live / v->used : more);
}

/* The request needs new memory, and getting it costs as much as a collection. */
static bool dear_to_grow(const view *v, const tidei_policy_in *in) {
    double wanted = v->used + (double)in->request;
    return in->where == TIDEI_AT_ALLOC && wanted > (double)in->backed && wanted >= v->grow_at;
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    view v = look(at, h, in);
    double neighbours_at, next_sync = to_next_sync(state, in), end = last_use(at, state, &v, in);
    bool fits = v.used + next_sync<end, known = next_sync> 0;
    if (v.x >= at[X1] || (v.used > v.base && v.used >= end))
        return (tidei_decision){v.level, 0, "the room is used up"};
    /* only a pause whose length is known can be hidden */
    if (in->where == TIDEI_AT_ALLOC) {
        if (v.x >= at[X0] && v.gc_ns > 0 && v.price_ns <= at[FLOOR] && !(known && fits))
            return (tidei_decision){v.level, 0,
                                    "a third of the room is used, and the device is busy"};
    } else {
        if (v.x >= at[X0] && v.price_ns <= v.price_max_ns)
            return (tidei_decision){v.level, 0, "a third of the room is used"};
        if (v.x >= at[WORTH] && known && !fits)
            return (tidei_decision){v.level, 0, "the next sync point would be too late"};
    }
    if (dear_to_grow(&v, in))
        return (tidei_decision){v.level, 0, "new memory costs more than collecting"};
    if (neighbourly(at, &v, h, in, &neighbours_at))
        return (tidei_decision){v.level, 0, "much may be garbage"};
    double first = v.base + at[X0] * v.room, next = v.used + STEP * v.room;
    double next_at = fmin(v.used < first ? first : fmin(next, end),
                          v.used < neighbours_at ? neighbours_at : next);
    next_at = fmin(next_at, fmax(v.grow_at, (double)in->backed));
    return (tidei_decision){0, wake(in, &v, next_at), "it is too early"};
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    rhythm *r = state;
    uint64_t used = tidei_policy_used(before), left = tidei_policy_used(after);
    (void)at, (void)c;
    if (used > left) r->freed += used - left;
}

const tidei_policy tidei_policy_reserve = {
    .name = "reserve",
    .decide = decide,
    .observe = observe,
    .summary = "at the first cheap moment once a third of the room is used; the default",
    .params = params,
    .nparams = PARAMS};
