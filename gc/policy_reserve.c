/* policy_reserve.c: the default: collect at the first cheap moment once a third of the room is
** used.
**
** Room is what the last collection left below the limit that comes first. While less than X0 of it
** is used, nothing happens. From there to X1 each question is an offer to collect, whose price is
** the part of the pause that no queued device work hides. At a sync point prices lie between FLOOR
** (m) and a forced collection (M), and the first one not above sqrt(m*M) is taken, which is at most
** sqrt(M/m) times the cheapest: no online rule promises more. At an allocation the policy collects
** only where the whole pause is hidden: the next allocation offers the same price, and a later
** collection finds more. While a sync point is expected before X1 it does not collect at
** allocations at all, because at a sync point a pause delays no submission. The growth between the
** last sync points tells how far the next one is. A sync point after which the next one would come
** too late is taken at any price, as everything is from X1 on. So there are at most 1/X0 times as
** many voluntary collections as the least possible, and each fruitless one shrinks the room, so
** that they die out. No term grows with live data, since a pause does not.
** Memory that is new costs time, on a host device more than a collection often does (a page's first
** touch). So an allocation for which the pool would have to grow is a reason to collect once the
** growth since the last collection, so far as collections have found it to be garbage of late,
** would cost as much as a collection. To pay one price only once the other has mounted up to it
** costs at most twice the least possible.
** Without a limit below the device's size, garbage also has a price for its neighbours: once it may
** exceed what is live (and GARBAGE_MIN), it is collected when that takes less than CHEAP of the
** time. */
#include "gc/policy.h"
#include <math.h>

#define X0 0.35 /* of the room: at most 2.9 times the collections that are unavoidable */
#define X1 0.97 /* of the room: what remains lets requests of 3 % in without a climb */
/* of the room may be garbage: from there on a request that does not fit is a reason to collect */
#define WORTH    0.10
#define FLOOR_NS 50e3 /* m: a shorter pause does not matter */
/* of a climb: wait for the device, trim, map, retry; results do not move from 2 to 100 ms */
#define STALL_NS 20e6
/* share of its time that another thread, stopped by the collection, would have used; a guess */
#define STOPPED     0.5
#define GARBAGE_MIN ((double)(256 << 20))
#define CHEAP       0.01 /* of the time since the last collection */
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
static double last_use(rhythm *r, const view *v, const tidei_policy_in *in) {
    r->request = fmax((double)in->request, r->request * REQUEST_DECAY);
    return v->base + fmax(X0, fmin(X1, 1 - 2 * r->request / fmax(v->room, 1))) * v->room;
}

static view look(const tidei_policy_history *h, const tidei_policy_in *in) {
    view v = {.used = (double)tidei_policy_used(in),
              .base = (double)h->base,
              .level = tidei_policy_level(h, in->levels)};
    double end = (double)tidei_policy_room_end(in);
    v.room = end > v.base ? end - v.base : 0;
    double growth = v.used - v.base;
    double wanted = growth >= WORTH * v.room ? (double)in->request : 0;
    v.x = v.room > 0 ? (growth + wanted) / v.room : growth > 0;
    v.gc_ns = h->gc_ns[v.level == TIDE_COLLECT_FULL];
    v.price_ns = fmax(FLOOR_NS, v.gc_ns - (double)in->slack_ns);
    if (in->threads > 1) v.price_ns += (double)(in->threads - 1) * v.gc_ns * STOPPED;
    v.price_max_ns = sqrt(FLOOR_NS * (v.gc_ns + STALL_NS));
    /* ns that each freed byte saves, because a new one is not needed */
    double saved_ns = in->fresh_ns * (h->yield > 0 ? h->yield : 1);
    v.grow_at = saved_ns > 0 ? v.base + (v.gc_ns > 0 ? v.price_ns : FIRST_NS) / saved_ns : INFINITY;
    return v;
}

/* Whether garbage that no limit forbids is to be collected for the neighbours' sake. *at: the use
** from which this rule looks. */
static bool neighbourly(const view *v, const tidei_policy_history *h, const tidei_policy_in *in,
                        double *at) {
    if (in->hard < in->total || in->soft < in->total) {
        *at = INFINITY;
        return false;
    }
    *at = v->base + fmax(GARBAGE_MIN, v->base);
    double since = (double)(in->now_ns - (h->end_ns ? h->end_ns : h->opened_ns));
    return v->used > *at && v->gc_ns < CHEAP * since;
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

static tidei_decision decide(void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    view v = look(h, in);
    double neighbours_at, next_sync = to_next_sync(state, in), end = last_use(state, &v, in);
    bool fits = v.used + next_sync<end, known = next_sync> 0;
    if (v.x >= X1 || (v.used > v.base && v.used >= end))
        return (tidei_decision){v.level, 0, "the room is used up"};
    /* only a pause whose length is known can be hidden */
    if (in->where == TIDEI_AT_ALLOC) {
        if (v.x >= X0 && v.gc_ns > 0 && v.price_ns <= FLOOR_NS && !(known && fits))
            return (tidei_decision){v.level, 0,
                                    "a third of the room is used, and the device is busy"};
    } else {
        if (v.x >= X0 && v.price_ns <= v.price_max_ns)
            return (tidei_decision){v.level, 0, "a third of the room is used"};
        if (v.x >= WORTH && known && !fits)
            return (tidei_decision){v.level, 0, "the next sync point would be too late"};
    }
    if (dear_to_grow(&v, in))
        return (tidei_decision){v.level, 0, "new memory costs more than collecting"};
    if (neighbourly(&v, h, in, &neighbours_at))
        return (tidei_decision){v.level, 0, "much may be garbage"};
    double first = v.base + X0 * v.room, next = v.used + STEP * v.room;
    double at = fmin(v.used < first ? first : fmin(next, end),
                     v.used < neighbours_at ? neighbours_at : next);
    at = fmin(at, fmax(v.grow_at, (double)in->backed));
    return (tidei_decision){0, wake(in, &v, at), "it is too early"};
}

static void observe(void *state, const tidei_policy_in *before, const tidei_policy_in *after,
                    const tidei_collection *c) {
    rhythm *r = state;
    uint64_t used = tidei_policy_used(before), left = tidei_policy_used(after);
    (void)c;
    if (used > left) r->freed += used - left;
}

const tidei_policy tidei_policy_reserve = {.name = "reserve", .decide = decide, .observe = observe};
