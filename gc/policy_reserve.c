/* policy_reserve.c: the default: of the moments that come before the room is used up, the one that
** costs least for each byte.
**
** Room is what the last collection left below its end: the limit, or, where memory that is new
** costs time, what the pool may grow to for now. A pause costs what no queued device work hides of
** it, and a tenth of all of it, which nothing hides. What dies is free to wait: so each collection
** should come when all of the room is used, unless an earlier moment is so much cheaper that it
** frees a byte for less. Nothing happens before x0 of the room is used. From there on each question
** is an offer. It is taken if its price over the growth that it would free is at most that of each
** moment that is yet to come: the end of the room, the next sync point, and the next cheap one.
** Where these are the policy predicts: the growth from one sync point to the next, from one cheap
** sync point to the next, and how fast device work queues up behind a sync point. At an allocation
** that would leave the room there is nothing left to wait for, nor at one that no free piece is
** large enough for where the pool cannot grow.
** New memory: a pause taken so that the pool need not grow tells what each byte more would have
** spared: its price, without what it took for each array that it found, over the growth before it.
** The pool grows as far as bytes would have spared
** `grow` of what they cost; in steady garbage that is the size that would have been best so far.
** A window whose growth costs less than a pause, and than all that found little, is let be: so live
** data that grow by F cost the root of F in such pauses.
** Live data that rise take over what the pool has too much, and then it cost nothing. Whether they
** will nobody knows; but what rose late may rise again, and what has long been level stays so. So
** new memory counts with the share of all that was made that came since they rose, and with a fifth
** (RISING) at least. Where that guess is wrong, where live data that rose late stay level from then
** on, the pool is up to five windows too large.
** Bounds. There are at most 1/x0 times as many voluntary collections as the least possible, and one
** for each request that does not fit otherwise; each fruitless one shrinks the room, so that they
** die out. A prediction that fails costs one dear pause, and doubles the distance at which the next
** cheap moment is expected (`caution`), up to where the first one from x0 on is taken; one that
** comes true takes a tenth off. So at most one window in seven is dearer than that rule's, which is
** the best that any rule without predictions can promise: sqrt(M/m) times the cheapest offer, for
** prices between m (`floor`) and M (a climb). Offers that free little put nothing off: after the
** k-th in a row (up to 4) 2^k - 1 windows are left to their end, whatever they offer. No term grows
** with live data, since a pause does not.
** The end keeps a margin only where allocations failed though they fitted by count: live blocks lie
** between holes then. It doubles with each such failure, and while there are none it shrinks to one
** request, because the holes do not go away, and a quarter of one for each failure at what it had
** shrunk to: so failures die out where the holes take more than a request.
** Without a limit below the device's size, garbage also has a price for its neighbours: once it may
** exceed what is live (and `garbage`), it is collected when that costs less than `cheap` of the
** time. */
#include "gc/policy.h"
#include <math.h>

enum { X0, X1, FLOOR, STALL, STOPPED, GROW, GARBAGE, CHEAP, PARAMS };
static const tidei_param params[PARAMS] = {
    [X0] = {"x0", TIDEI_NUMBER, 0.35, 0.01, 1,
            "share of the room from which moments are looked at"},
    [X1] = {"x1", TIDEI_NUMBER, 1, 0.01, 1, "share of the room that is used at most"},
    [FLOOR] = {"floor", TIDEI_TIME, 50e3, 1, 1e9, "a pause that is shorter does not matter"},
    [STALL] = {"stall", TIDEI_TIME, 20e6, 1e3, 60e9, "what a climb takes beyond its collection"},
    [STOPPED] = {"stopped", TIDEI_NUMBER, 0.5, 0, 1,
                 "share of its time that another thread, stopped meanwhile, would have used"},
    [GROW] = {"grow", TIDEI_NUMBER, 0.35, 0.01, 100,
              "share of its price that a byte more would have spared, for the pool to grow"},
    [GARBAGE] = {"garbage", TIDEI_BYTES, 256 << 20, 0, 0x1p50,
                 "without a limit: garbage that the neighbours may be left without"},
    [CHEAP] = {"cheap", TIDEI_NUMBER, 0.0002, 0, 1,
               "without a limit: share of the time that collecting it may cost"},
};
/* assumed pause while there was no collection: that of a heap of some 10,000 objects */
#define FIRST_NS      2e6
#define FRUITLESS     0.25 /* of the growth, freed */
#define STRANGE       10.0 /* times that it may take at most, for garbage that no limit forbids */
#define HIDDEN        0.1  /* of a pause: what is hidden of it takes a core and bandwidth */
#define STEP          (1.0 / 64)   /* of the room, between questions at allocations ... */
#define STEP_LEAST    (1.0 / 1024) /* ... where large pieces of free memory become few */
#define OVERRUN       (1.0 / 64)   /* of what is used: the room beyond a soft limit */
#define REQUEST_DECAY (63.0 / 64)
#define GAP_MARGIN    1.05 /* the next distance between sync points against those before */
#define CAUTION_MOST  64.0
#define CAUTION_LESS  0.9
#define OLD           0.75 /* weight of the past in averages */
#define MARGIN_MOST   64.0 /* requests */
#define MARGIN_LESS   0.98
#define HELD_STEP     0.25f /* `dense` on an H200 needs more than 1.01 requests, less than 1.25 */
#define FIXED_MORE    1.02
#define RISING        0.2   /* of its price: what counts at least of new memory */
#define NOTABLE       0.125 /* of what lives: a rise that counts in full */
#define POOR_MOST     4     /* so a regime that ends costs 15 dear pauses at most */

/* A kind of moment that recurs; how far apart, in bytes made, and what is queued then. */
typedef struct rhythm {
    double mark;     /* bytes made at the last one */
    double gap;      /* bytes made from one to the next; of late, and rather too much */
    double slack_ns; /* average */
} rhythm;

typedef struct memory { /* the policy's state */
    double made;        /* bytes: in use, and freed by collections */
    double freed;
    rhythm sync, cheap; /* all sync points; those whose price is low */
    double fill;        /* device work queued for each byte made since a sync point, ns */
    double request;     /* the greatest recent one */
    double growth;      /* since the last collection */
    double backed;      /* by the pool, when last asked */
    double spared_ns;   /* what one byte more of the pool would have spared so far, of pauses */
    double spared_room; /* average growth before these pauses */
    double most;        /* that a full collection ever left */
    double risen;       /* bytes made when it rose to that; earlier, where it rose by little */
    double fixed_ns;    /* of a pause, what does not grow with what it finds: the least of late */
    float margin;       /* requests for which room stays free ... */
    float held;         /* ... and what it shrinks to: less was too little */
    float caution;      /* factor on the rhythms' gaps, less 1 */
    float fruitless_ns; /* of pauses taken instead of growth that found little */
    uint8_t nsync, ncheap; /* of each rhythm's moments, up to 2 */
    uint8_t npoor;         /* offers in a row that freed little ... */
    uint8_t skipped;       /* ... and other collections that are to come before the next one */
    bool offered : 1;      /* the collection that was decided last was an offer */
    bool joined : 1;       /* ... spares moves */
    bool passed : 1;       /* an offer that was cheap, in this window */
    bool for_growth : 1;   /* the end of the room is growth's */
    bool close : 1;        /* the next question comes soon after the last one */
} memory;
_Static_assert(sizeof(memory) <= TIDEI_POLICY_STATE, "room for the state");

typedef struct view { /* the snapshot in the terms of the rule; bytes as doubles */
    double used, base, growth, end, room, x;
    double limit; /* the end that is not growth's */
    double gc_ns; /* a pause; FIRST_NS if it is not known */
    double slack_ns;
    double threads_ns; /* what a pause costs other threads */
    double dear_ns;    /* an offer above this is not cheap */
    int level;
    bool known; /* gc_ns */
} view;

/* What is not hidden of a pause that begins with so much device work queued. */
static double bare(const view *v, double slack_ns) {
    return fmax(0, v->gc_ns - slack_ns) + v->threads_ns;
}
/* What such a pause costs. */
static double price(const view *v, double slack_ns) {
    return bare(v, slack_ns) + HIDDEN * v->gc_ns;
}

/* ---- what recurs ---- */

/* A moment after which nothing was made counts with the one before. */
static void recur(rhythm *r, uint8_t *n, double made, double slack_ns) {
    double since = made - r->mark;
    if (*n && since <= 0) return;
    if (*n) r->gap = *n > 1 ? OLD * r->gap + (1 - OLD) * since : since;
    r->slack_ns = *n ? OLD * r->slack_ns + (1 - OLD) * slack_ns : slack_ns;
    r->mark = made;
    if (*n < 2) ++*n;
}

/* Bytes to be made until the next one; INFINITY: nobody knows, or it should have come already. */
static double next_in(const rhythm *r, uint8_t n, const memory *m) {
    double next = r->mark + r->gap * GAP_MARGIN * (1 + (double)m->caution) - m->made;
    return n > 1 && next > 0 ? next : INFINITY;
}

/* Memory that was given back by other ways than a collection was not made. */
static void count_made(memory *m, const view *v) {
    m->made = m->freed + v->used;
    m->sync.mark = fmin(m->sync.mark, m->made);
    m->cheap.mark = fmin(m->cheap.mark, m->made);
    m->risen = fmin(m->risen, m->made);
}

static void learn(memory *m, const view *v, const tidei_policy_in *in) {
    count_made(m, v);
    m->request = fmax((double)in->request, m->request * (m->close ? 1 : REQUEST_DECAY));
    if (in->where == TIDEI_AT_SYNC) {
        recur(&m->sync, &m->nsync, m->made, v->slack_ns);
        if (bare(v, v->slack_ns) <= v->dear_ns) recur(&m->cheap, &m->ncheap, m->made, v->slack_ns);
    } else if (in->where == TIDEI_AT_ALLOC && m->nsync && m->made > m->sync.mark)
        m->fill = OLD * m->fill + (1 - OLD) * v->slack_ns / (m->made - m->sync.mark);
}

/* ---- the room ---- */

static void look_at_pause(const double *at, view *v, const tidei_policy_history *h,
                          const tidei_policy_in *in) {
    v->level = tidei_policy_level(h, in->levels);
    double gc_ns = h->gc_ns[v->level == TIDE_COLLECT_FULL];
    v->known = gc_ns > 0;
    v->gc_ns = v->known ? gc_ns : FIRST_NS;
    v->slack_ns = (double)in->slack_ns;
    if (in->threads > 1) v->threads_ns = (double)(in->threads - 1) * v->gc_ns * at[STOPPED];
    v->dear_ns = fmax(at[FLOOR], sqrt(at[FLOOR] * (v->gc_ns + at[STALL])));
}

/* Where the limit ends the room: with the margin, and not before x0 of it. */
static double last_use(const double *at, const memory *m, const view *v) {
    double room = fmax(v->limit - v->base, 0);
    return v->base + fmax(at[X0] * room, at[X1] * room - (double)m->margin * m->request);
}

/* What the pool has now would have made each window longer. */
static void count_growth(memory *m, double backed) {
    if (backed > m->backed && m->backed > 0 && m->spared_room > 0) {
        double longer = m->spared_room + backed - m->backed;
        m->spared_ns *= m->spared_room / longer * (m->spared_room / longer);
        m->spared_room = longer;
    }
    m->backed = backed;
}

/* How much of new memory is too much, rather than what live data will want sooner or later. */
static double surplus(const memory *m) {
    return m->made > 0 ? fmax(1 - m->risen / m->made, RISING) : 1;
}

/* Use up to which the pool may grow rather than collect; INFINITY: growth costs nothing. */
static double growth_end(const double *at, const memory *m, const view *v,
                         const tidei_policy_in *in) {
    if (in->fresh_ns <= 0) return INFINITY;
    /* up to where a byte would have spared just enough: the first ones would have spared more */
    double byte_ns = surplus(m) * in->fresh_ns,
           more = m->spared_room * (sqrt(m->spared_ns / (at[GROW] * byte_ns)) - 1);
    return fmax((double)in->backed + fmax(more, 0),
                v->base + (price(v, v->slack_ns) + (double)m->fruitless_ns) / byte_ns);
}

static view look(const double *at, memory *m, const tidei_policy_history *h,
                 const tidei_policy_in *in) {
    view v = {.used = (double)tidei_policy_used(in),
              .base = (double)h->base,
              .limit = (double)tidei_policy_room_end(in)};
    look_at_pause(at, &v, h, in);
    learn(m, &v, in);
    count_growth(m, (double)in->backed);
    v.growth = v.used - v.base;
    double hard = last_use(at, m, &v), grown = growth_end(at, m, &v, in);
    m->for_growth = grown < hard;
    m->growth = v.growth;
    v.end = fmin(hard, grown);
    v.room = v.end > v.base ? v.end - v.base : OVERRUN * v.used;
    v.x = v.growth > 0 ? v.growth / v.room : 0;
    return v;
}

/* ---- offers ---- */

/* Device work that will be queued where so much more was made. */
static double slack_after(const memory *m, const view *v, const tidei_policy_in *in, double to_sync,
                          double more) {
    double since = more;
    if (in->where == TIDEI_AT_ALLOC && more < to_sync) return v->slack_ns + m->fill * more;
    if (in->where == TIDEI_AT_ALLOC) since -= to_sync;
    if (m->nsync > 1 && m->sync.gap > 0 && since > m->sync.gap)
        since -= m->sync.gap * (double)(uint64_t)fmin(since / m->sync.gap, 0x1p62);
    return m->fill * since;
}

/* The least that a byte will cost at a moment that is yet to come. */
static double later(const memory *m, const view *v, const tidei_policy_in *in) {
    double left = v->end - v->used;
    if (left <= 0) return INFINITY;
    double sync = next_in(&m->sync, m->nsync, m), cheap = next_in(&m->cheap, m->ncheap, m),
           least = price(v, slack_after(m, v, in, sync, left)) / (v->growth + left);
    if (sync <= left) least = fmin(least, price(v, m->sync.slack_ns) / (v->growth + sync));
    if (cheap <= left) least = fmin(least, price(v, m->cheap.slack_ns) / (v->growth + cheap));
    return least;
}

/* Whether this moment is better than what is to come. At an allocation only a pause can be hidden
** whose length is known; and the first sync point does not tell when there will be others. */
static bool good_offer(const double *at, memory *m, const view *v, const tidei_policy_in *in) {
    if (v->growth <= 0 || v->x < (v->used > v->limit || m->skipped ? 1 : at[X0])) return false;
    if (in->where == TIDEI_AT_ALLOC && !v->known) return false;
    if (in->where == TIDEI_AT_SYNC && m->nsync < 2 && v->x < 1) return false;
    bool good = price(v, v->slack_ns) <= later(m, v, in) * v->growth;
    m->passed |= !good && in->where == TIDEI_AT_SYNC && bare(v, v->slack_ns) <= v->dear_ns;
    return good;
}

/* No free piece is as large as the request, where the pool cannot grow, and a collection now costs
** less than moving blocks, which is at most a short pause: the part of a pause that the rest of the
** room would have spared. What would be moved may be garbage. */
static bool lies_in_pieces(const double *at, const view *v, const tidei_policy_in *in) {
    return in->largest && in->request > in->largest && v->growth > 0 && v->x >= at[X0] &&
           (1 - v->x) * price(v, v->slack_ns) <= at[FLOOR];
}

/* The request leaves the room, and a collection may make room for it: where it does not fit, the
** ladder would collect too, and take longer. */
static bool leaves_room(const double *at, const view *v, const memory *m,
                        const tidei_policy_in *in) {
    double wanted = v->used + (double)in->request;
    if (v->growth <= 0 || (v->used <= v->limit && wanted <= last_use(at, m, v))) return false;
    if (v->used > v->limit) return v->x >= 1;
    if (wanted > v->limit) return (double)in->request <= v->limit; /* what was live may be dead */
    return v->x >= at[X0];
}

/* The request needs new memory, which costs more than collecting what may be there of garbage. */
static bool dear_to_grow(const double *at, const view *v, const memory *m,
                         const tidei_policy_in *in) {
    double wanted = v->used + (double)in->request;
    return m->for_growth && wanted > (double)in->backed && wanted >= v->end && v->x >= at[X0];
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
    double unsure = v->known ? 1 : STRANGE;
    return v->used > *from && unsure * price(v, v->slack_ns) < at[CHEAP] * since;
}

/* Growth until the next question at an allocation: rather before the largest free piece is too
** small for such requests as there were. */
static double step(memory *m, const view *v, const tidei_policy_in *in) {
    double usual = STEP * v->room, left = (double)in->largest - m->request;
    m->close = in->largest && left < usual;
    return m->close ? fmax(STEP_LEAST * v->room, left) : usual;
}

/* Where use will be `at`, expressed as live + request: assumes that granules lose as much as they
** do now. */
static uint64_t wake(const tidei_policy_in *in, const view *v, double at) {
    double more = at > v->used ? at - v->used : 0;
    if (more >= (double)(UINT64_MAX / 2)) return UINT64_MAX;
    return in->live + (uint64_t)(v->used > 0 ? more * (double)in->live / v->used : more);
}

/* Not against the guard, but where growth ends the room: there the guard's tenth of the room may
** cost far more than a pause. */
static tidei_decision collect(const memory *m, const view *v, const tidei_policy_history *h,
                              const tidei_policy_in *in, const char *reason) {
    if (!m->for_growth && tidei_policy_guards(h, in, v->level)) return tidei_policy_guarded(h, in);
    return (tidei_decision){v->level, 0, reason};
}

static tidei_decision decide(const double *at, void *state, const tidei_policy_history *h,
                             const tidei_policy_in *in) {
    memory *m = state;
    view v = look(at, m, h, in);
    double neighbours_at;
    m->offered = m->joined = false;
    if (in->where == TIDEI_AT_ALLOC) {
        if (leaves_room(at, &v, m, in)) return collect(m, &v, h, in, "the room is used up");
        if (lies_in_pieces(at, &v, in)) {
            m->joined = true;
            return collect(m, &v, h, in, "no free piece is large enough");
        }
        if (dear_to_grow(at, &v, m, in))
            return collect(m, &v, h, in, "new memory costs more than collecting");
    }
    if (good_offer(at, m, &v, in)) {
        m->offered = v.x < 1;
        return collect(m, &v, h, in, "no moment that is yet to come is better");
    }
    if (neighbourly(at, &v, h, in, &neighbours_at))
        return collect(m, &v, h, in, "much may be garbage");
    double first = v.base + at[X0] * v.room, next = v.used + step(m, &v, in);
    double next_at =
        fmin(v.used < first ? first : next, v.used < neighbours_at ? neighbours_at : next);
    if (v.used < v.end) next_at = fmin(next_at, v.end);
    return (tidei_decision){0, wake(in, &v, next_at), "it is too early"};
}

/* ---- what a collection teaches ---- */

/* What was let pass came again, or it did not. */
static void judge_waiting(memory *m, bool dear, bool fruitless) {
    double factor = 1 + (double)m->caution;
    if (dear && m->passed) factor = fmin(2 * factor, CAUTION_MOST);
    if (!dear) factor = fmax(factor * (fruitless ? 0.5 : CAUTION_LESS), 1);
    m->caution = (float)(factor - 1);
    m->passed = false;
}

/* An allocation that failed though it fitted by count wants a margin. */
static void set_margin(memory *m, const tidei_policy_in *before, const tidei_collection *c) {
    double used = (double)tidei_policy_used(before), end = (double)tidei_policy_room_end(before),
           margin = (double)m->margin;
    if (c->forced && used + m->request <= end && 2 * used >= end) {
        margin = fmin(fmax(1, 2 * margin), MARGIN_MOST);
        if (m->margin < m->held + HELD_STEP) m->held = fmaxf(1, m->held + HELD_STEP);
    } else if (c->early && margin > (double)m->held) {
        margin = fmax((double)m->held, margin * MARGIN_LESS);
    }
    m->margin = (float)margin;
}

/* A pause, taken so that the pool need not grow, with what it takes whatever it finds: what it
** takes for each array that it finds comes later in a longer window, and is not less. */
static void count_spared(memory *m, double ns, double freed) {
    if (m->growth <= 0 || ns <= 0) return; /* a clock's tick may be longer than the pause */
    double spared = ns / m->growth, sum = m->spared_ns + spared;
    m->spared_room = (m->spared_ns * m->spared_room + spared * m->growth) / sum;
    m->spared_ns = sum;
    if (freed < FRUITLESS * m->growth) m->fruitless_ns += (float)ns;
}

/* What lives rose beyond all that it was. An eighth more counts as a rise now; less moves the
** moment of the last rise a part of the way to now. */
static void judge_rise(memory *m, double left) {
    if (left <= m->most) return;
    m->risen += (m->made - m->risen) * fmin((left - m->most) / (NOTABLE * left), 1);
    m->most = left;
}

/* An offer that frees little does not put off the room's end: after the k-th in a row none is taken
** before 2^k - 1 other collections have come. */
static void judge_offer(memory *m, double freed) {
    if (!m->offered) {
        if (m->skipped) m->skipped--;
        return;
    }
    bool poor = freed < FRUITLESS * m->growth;
    m->npoor = poor ? (uint8_t)(m->npoor + (m->npoor < POOR_MOST)) : 0;
    m->skipped = (uint8_t)((1u << m->npoor) - 1);
}

static void observe(const double *at, void *state, const tidei_policy_in *before,
                    const tidei_policy_in *after, const tidei_collection *c) {
    memory *m = state;
    uint64_t used = tidei_policy_used(before), left = tidei_policy_used(after);
    double pause = (double)c->pause_ns, slack = (double)before->slack_ns,
           bare_ns = fmax(0, pause - slack);
    if (used > left) m->freed += (double)(used - left);
    if (c->level == TIDE_COLLECT_FULL) judge_rise(m, (double)left);
    m->fixed_ns = m->fixed_ns > 0 ? fmin(m->fixed_ns * FIXED_MORE, pause) : pause;
    if (c->early && m->for_growth && !m->joined)
        count_spared(m, fmin(bare_ns, m->fixed_ns) + HIDDEN * m->fixed_ns,
                     (double)used - (double)left);
    judge_waiting(m, bare_ns > sqrt(at[FLOOR] * (pause + at[STALL])), used < left + left / 16);
    set_margin(m, before, c);
    if (c->early && !m->joined) judge_offer(m, (double)used - (double)left);
}

const tidei_policy tidei_policy_reserve = {
    .name = "reserve",
    .decide = decide,
    .observe = observe,
    .unguarded = true, /* it asks the guard itself */
    .summary = "at the moment at which a freed byte costs least; the default",
    .params = params,
    .nparams = PARAMS};
