/* oracle.c: labels, and what makes one as good as another; oracle.h has the model. */
#include "gc/lab/oracle.h"
#include "gc/lab/random.h"
#include <stdlib.h>

#define OP          "tide study"
#define WORK_MOST   150000000 /* labels touched; a second or two */
#define LABELS      64        /* kept where there are many more */
#define THOUSANDTHS 1000
#define NO_WAY      (-((int64_t)1 << 62)) /* from the device's time to the end */
#define NOTHING     UINT32_MAX

typedef struct label {
    uint64_t x, y;   /* tenths of a ns: ten times the time, and the time of collections */
    uint64_t backed; /* by the pool */
    uint64_t freed;  /* bytes, so far */
    uint64_t old;    /* dead bytes that only a full collection finds */
    uint32_t freed_n, old_n, made_n; /* arrays; made_n: when it collected last */
    uint32_t since;                  /* the event where it collected last */
    uint32_t k;                      /* collections so far */
    uint32_t plan;                   /* the last one planned, in `steps` */
    int level;                       /* of the one just tried */
    double promise;                  /* that it was last sorted by */
} label;

typedef struct list {
    label *at;
    size_t n, cap;
} list;

typedef struct step { /* of a plan, backwards */
    uint32_t before, event;
    int level;
} step;

/* A making, as every run comes to it. */
typedef struct making {
    uint64_t made; /* bytes, with it */
    uint64_t dead; /* made and not live, just before it */
    /* collections, with one here, without which the rest does not fit; 0 where what was made may
    ** fall, for then a search by halves finds nothing */
    uint64_t need;
} making;

typedef struct search {
    const tidei_lab_program *p;
    const tidei_lab_model *m;
    uint64_t end;             /* what may be held */
    bool minor;               /* minor collections are on offer */
    bool lucky;               /* the number of collections says what the next ones take */
    bool exact;               /* what is dropped is known to be no better */
    bool dropped;             /* promising ones alone were kept */
    double byte_cost;         /* of the best run: tenths of a ns for each byte that was freed */
    uint64_t peak;            /* what it held at most */
    uint64_t bound;           /* a cost that was reached */
    uint64_t work, work_most; /* labels touched; and when to give up */
    bool failed, tired;       /* host memory, WORK_MOST */
    list labels, fresh;       /* fresh: those that collect at this event */
    size_t pruned;            /* labels that the last pruning left */
    step *steps;
    size_t nsteps, steps_cap;
    /* what every run has in common, up to the event */
    uint64_t made, live; /* bytes, without those that were given back at once */
    uint64_t made_most;  /* at any time */
    uint32_t made_n, live_n, ended_n, making; /* ended: those that were given back at once */
    uint32_t *born;  /* by block: the event; NOTHING: not made, or it failed */
    bool *gone;      /* by block: it has died */
    uint32_t *stack; /* blocks by birth, from whose top those that died are taken */
    size_t nstack;
    /* and from the event on */
    making *makings;
    uint32_t nmakings;
    int64_t *from_x, *from_y; /* by event: what is added to x, and to y, up to the end */
    uint64_t behind;          /* the most that the device is ever behind */
    uint32_t *draws;          /* by number of collections: thousandths */
    uint64_t *least;          /* by number: the least that all those before cost */
} search;

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- what every run has in common ---- */

static bool fits_ever(const search *s, uint64_t bytes) {
    return s->live <= s->end && bytes <= s->end - s->live;
}

static void begin(search *s) {
    s->made = s->live = 0;
    s->made_n = s->live_n = s->ended_n = s->making = 0;
    s->nstack = 0;
    for (uint32_t i = 0; i < s->p->blocks; i++) s->born[i] = NOTHING;
    memset(s->gone, 0, s->p->blocks * sizeof *s->gone);
}

/* The making of a block for which there is room. */
static void count_made(search *s, uint32_t event) {
    const tidei_lab_event *e = &s->p->events[event];
    s->made += e->amount;
    s->made_n++;
    s->born[e->block] = event;
    if (s->gone[e->block]) return; /* its death came first */
    s->live += e->amount;
    s->live_n++;
    s->stack[s->nstack++] = e->block;
}

/* True: it was live. */
static bool count_dead(search *s, uint32_t block) {
    bool was_gone = s->gone[block];
    s->gone[block] = true;
    if (was_gone || s->born[block] == NOTHING) return false;
    s->live -= s->p->events[s->born[block]].amount;
    s->live_n--;
    return true;
}

/* The block is given back at once. */
static void count_freed(search *s, uint32_t block) {
    if (!count_dead(s, block)) return;
    s->made -= s->p->events[s->born[block]].amount;
    s->ended_n++;
}

/* The event at which the newest of the live blocks was made. */
static uint32_t newest(search *s) {
    while (s->nstack && s->gone[s->stack[s->nstack - 1]]) s->nstack--;
    return s->nstack ? s->born[s->stack[s->nstack - 1]] : 0;
}

/* The first making from `i` on that does not fit if `freed` is all that was freed. */
static uint32_t first_too_much(const search *s, uint32_t i, uint64_t freed) {
    uint32_t low = i, high = s->nmakings;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->makings[middle].made > s->end && s->makings[middle].made - s->end > freed)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t needed(const search *s, uint32_t from, uint64_t freed) {
    uint32_t i = first_too_much(s, from, freed);
    return i < s->nmakings ? s->makings[i].need : 0;
}

static void look_forward(search *s) {
    uint64_t now = 0, device = 0;
    begin(s);
    for (uint32_t i = 0; i < s->p->n; i++) {
        const tidei_lab_event *e = &s->p->events[i];
        uint64_t dead = s->made - s->live;
        switch ((tidei_lab_op)e->op) {
        case TIDEI_LAB_HOST: now += e->amount; break;
        case TIDEI_LAB_WORK: device = max_u64(device, now) + e->amount; break;
        case TIDEI_LAB_SYNC: now = max_u64(now, device); break;
        case TIDEI_LAB_DIE: count_dead(s, e->block); break;
        case TIDEI_LAB_FREE: count_freed(s, e->block); break;
        case TIDEI_LAB_MAKE:
            if (fits_ever(s, e->amount)) count_made(s, i);
            s->made_most = max_u64(s->made_most, s->made);
            s->makings[s->nmakings++] = (making){s->made, dead, 0};
            break;
        case TIDEI_LAB_STEP: break;
        }
        if (device > now) s->behind = max_u64(s->behind, device - now);
    }
}

static void look_back(search *s) {
    int64_t x = 0, y = NO_WAY;
    for (uint32_t i = s->ended_n ? 0 : s->nmakings; i--;)
        s->makings[i].need = 1 + needed(s, i + 1, s->makings[i].dead);
    s->from_x[s->p->n] = x;
    s->from_y[s->p->n] = y;
    for (size_t i = s->p->n; i--;) {
        const tidei_lab_event *e = &s->p->events[i];
        int64_t amount = 10 * (int64_t)e->amount;
        if (e->op == TIDEI_LAB_HOST) x += amount;
        if (e->op == TIDEI_LAB_SYNC && x > y) y = x;
        if (e->op == TIDEI_LAB_WORK) {
            y = y == NO_WAY ? y : y + amount;
            if (y > x) x = y;
        }
        s->from_x[i] = x;
        s->from_y[i] = y;
    }
}

/* Each collection's luck, and the least that it costs: its tenth, and what nothing can hide. */
static void draw(search *s, size_t n, uint64_t seed) {
    const tidei_lab_model *m = s->m;
    uint64_t base = tidei_lab_pause(m, true, 0);
    if (s->minor) base = min_u64(base, tidei_lab_pause(m, false, 0));
    s->least[0] = 0;
    for (size_t i = 0; i < n; i++) {
        s->draws[i] = (uint32_t)tidei_lab_between(&seed, m->spread_low, m->spread_high);
        uint64_t ns = tidei_lab_part(base, s->draws[i], THOUSANDTHS);
        s->least[i + 1] = s->least[i] + ns + (ns > s->behind ? 10 * (ns - s->behind) : 0);
    }
}

/* No run that goes on from there costs less. */
static uint64_t least_from(const search *s, size_t event, const label *l) {
    int64_t by_x = (int64_t)l->x + s->from_x[event],
            by_y = s->from_y[event] == NO_WAY ? 0 : (int64_t)l->y + s->from_y[event];
    uint64_t n = needed(s, s->making, l->freed);
    return (uint64_t)(by_x > by_y ? by_x : by_y) + s->least[l->k + n] - s->least[l->k];
}

/* ---- labels ---- */

static bool grow(void **at, size_t *cap, size_t size) {
    size_t more = *cap ? 2 * *cap : 64;
    void *grown = more <= SIZE_MAX / size ? tidei_host_take(NULL, more * size) : NULL;
    if (!grown) return false;
    if (*cap) memcpy(grown, *at, *cap * size);
    tidei_host_free(NULL, *at);
    *at = grown;
    *cap = more;
    return true;
}

static void append(search *s, list *l, const label *x) {
    void *at = l->at;
    if (l->n == l->cap && !grow(&at, &l->cap, sizeof *l->at)) {
        s->failed = true;
        return;
    }
    l->at = at;
    l->at[l->n++] = *x;
}

/* What `a` may have to pay for memory that `b` has not to: all that is new to it where they do not
** hold the same, for then `a` may grow where no device work hides it. */
static uint64_t dearer(const search *s, const label *a, const label *b) {
    if (!s->m->fresh_mib_ns) return 0;
    uint64_t until = b->backed;
    if (s->exact && a->freed != b->freed)
        until = max_u64(until, min_u64(s->end, s->made_most - b->freed));
    return until > a->backed
               ? 10 * (tidei_lab_price(s->m, until) - tidei_lab_price(s->m, a->backed))
               : 0;
}

/* Whether `a` may do what `b` does, with no more to look at each time. With minor collections what
** is old must be the same in both. */
static bool holds_no_more(search *s, const label *a, const label *b) {
    if (s->lucky && a->k != b->k) return false;
    if (!s->minor) return a->freed >= b->freed && a->freed_n >= b->freed_n;
    if (a->old != b->old || a->old_n != b->old_n || a->since < b->since) return false;
    return a->since == b->since || newest(s) < b->since;
}

static bool dominates(search *s, const label *a, const label *b) {
    s->work++;
    if (a->x > b->x || a->y > b->y || !holds_no_more(s, a, b)) return false;
    uint64_t more = dearer(s, a, b);
    return a->x + more <= b->x && a->y + more <= b->y;
}

/* Adds it unless another is as good, and takes out those that are no better. */
static void insert(search *s, list *l, const label *x) {
    size_t kept = 0;
    s->tired |= s->work > s->work_most;
    if (s->tired) return;
    for (size_t i = 0; i < l->n; i++)
        if (dominates(s, &l->at[i], x)) return;
    for (size_t i = 0; i < l->n; i++)
        if (!dominates(s, x, &l->at[i])) l->at[kept++] = l->at[i];
    l->n = kept;
    append(s, l, x);
}

static void prune_once(search *s, size_t event) {
    list *l = &s->labels;
    size_t n = l->n;
    l->n = 0;
    for (size_t i = 0; i < n; i++) {
        label x = l->at[i]; /* its place may be taken */
        if (least_from(s, event, &x) < s->bound) insert(s, l, &x);
    }
    s->pruned = l->n;
}

static int by_promise(const void *a, const void *b) {
    const label *x = a, *y = b;
    if (x->promise != y->promise) return x->promise < y->promise ? -1 : 1;
    return (x->since < y->since) - (x->since > y->since);
}

/* What it will have cost, if what is held costs as much a byte as in the best run so far, whose
** pool grew as far. */
static double promise(const search *s, size_t event, const label *l) {
    double by_x = (double)l->x + (double)s->from_x[event],
           by_y = (double)l->y + (double)s->from_y[event];
    return (by_x > by_y ? by_x : by_y) + s->byte_cost * (double)(s->made - l->freed) -
           10 * (double)tidei_lab_price(s->m, min_u64(l->backed, s->peak));
}

/* Keeps the most promising ones. */
static void prune(search *s, size_t event) {
    list *l = &s->labels;
    prune_once(s, event);
    if (s->exact || l->n <= LABELS) return;
    for (size_t i = 0; i < l->n; i++) l->at[i].promise = promise(s, event, &l->at[i]);
    qsort(l->at, l->n, sizeof *l->at, by_promise);
    s->pruned = l->n = LABELS;
    s->dropped = true;
}

/* ---- collections ---- */

static void collect(const search *s, label *l, uint32_t event, int level) {
    bool full = level == TIDE_COLLECT_FULL;
    uint64_t pause = tidei_lab_pause(
        s->m, full, full ? s->made_n - s->ended_n - l->freed_n : s->made_n - l->made_n);
    uint64_t ns = tidei_lab_part(pause, s->draws[l->k], THOUSANDTHS);
    l->x += 11 * ns;
    l->y = max_u64(l->y + ns, l->x);
    l->k++;
    if (full) l->old = l->old_n = 0;
    l->freed = s->made - s->live - l->old;
    l->freed_n = s->made_n - s->ended_n - s->live_n - l->old_n;
    l->since = event;
    l->made_n = s->made_n;
}

static void note_step(search *s, label *l, uint32_t event, int level) {
    void *at = s->steps;
    if (s->nsteps == NOTHING - 1 ||
        (s->nsteps == s->steps_cap && !grow(&at, &s->steps_cap, sizeof *s->steps))) {
        s->failed = true;
        return;
    }
    s->steps = at;
    s->steps[s->nsteps] = (step){l->plan, event, level};
    l->plan = (uint32_t)s->nsteps++;
}

static void try_level(search *s, uint32_t event, int level) {
    for (size_t i = 0; i < s->labels.n; i++) {
        label x = s->labels.at[i];
        x.level = level;
        collect(s, &x, event, level);
        insert(s, &s->fresh, &x);
    }
}

/* Every label may collect here, or not. */
static void decide(search *s, uint32_t event) {
    s->fresh.n = 0;
    for (int level = TIDE_COLLECT_MINOR; level <= TIDE_COLLECT_FULL; level++)
        if (s->m->levels & 1u << level) try_level(s, event, level);
    for (size_t i = 0; i < s->fresh.n && !s->failed; i++) {
        if (least_from(s, event, &s->fresh.at[i]) >= s->bound) continue;
        note_step(s, &s->fresh.at[i], event, s->fresh.at[i].level);
        insert(s, &s->labels, &s->fresh.at[i]);
    }
}

/* ---- events ---- */

static void add(label *l, uint64_t x) {
    l->x += x;
    l->y = max_u64(l->x, l->y);
}

static void take(const search *s, label *l, uint32_t event, bool fits) {
    uint64_t bytes = s->p->events[event].amount, held = s->made - l->freed;
    if (held > s->end || bytes > s->end - held) {
        if (!s->m->climbs_at_once) l->x = l->y;
        collect(s, l, event, TIDE_COLLECT_FULL);
        add(l, 10 * s->m->stall_ns);
        held = s->made - l->freed;
    }
    if (!fits || held + bytes <= l->backed) return;
    add(l, 10 * (tidei_lab_price(s->m, held + bytes) - tidei_lab_price(s->m, l->backed)));
    l->backed = held + bytes;
}

static void make(search *s, uint32_t event) {
    bool fits = fits_ever(s, s->p->events[event].amount);
    decide(s, event);
    for (size_t i = 0; i < s->labels.n; i++) take(s, &s->labels.at[i], event, fits);
    if (fits) count_made(s, event);
    s->making++;
    if (s->labels.n > 32 && s->labels.n > 2 * s->pruned) prune(s, event + (size_t)1);
}

static void die(search *s, uint32_t block) {
    if (!count_dead(s, block) || !s->minor) return;
    uint32_t born = s->born[block];
    for (size_t i = 0; i < s->labels.n; i++)
        if (s->labels.at[i].since > born) {
            s->labels.at[i].old += s->p->events[born].amount;
            s->labels.at[i].old_n++;
        }
}

static void submit(search *s, uint64_t ns) {
    for (size_t i = 0; i < s->labels.n; i++) s->labels.at[i].y += 10 * ns;
}

static void compute(search *s, uint64_t ns) {
    for (size_t i = 0; i < s->labels.n; i++) add(&s->labels.at[i], 10 * ns);
}

static void sync(search *s, uint32_t event) {
    decide(s, event);
    for (size_t i = 0; i < s->labels.n; i++) s->labels.at[i].x = s->labels.at[i].y;
    if (s->labels.n > 1) prune(s, event + (size_t)1);
}

static void play(search *s, uint32_t event) {
    const tidei_lab_event *e = &s->p->events[event];
    switch ((tidei_lab_op)e->op) {
    case TIDEI_LAB_HOST: compute(s, e->amount); break;
    case TIDEI_LAB_WORK: submit(s, e->amount); break;
    case TIDEI_LAB_MAKE: make(s, event); break;
    case TIDEI_LAB_DIE: die(s, e->block); break;
    case TIDEI_LAB_FREE: count_freed(s, e->block); break;
    case TIDEI_LAB_SYNC: sync(s, event); break;
    case TIDEI_LAB_STEP: break;
    }
}

/* The best label at the end; NULL: none is below the bound, or it was given up. */
static const label *pass(search *s) {
    const label *best = NULL;
    begin(s);
    s->labels.n = s->nsteps = s->work = s->pruned = 0;
    s->tired = s->dropped = false;
    s->work_most = UINT64_MAX;
    append(s, &s->labels, &(label){.plan = NOTHING});
    for (uint32_t i = 0; i < s->p->n && !s->failed && !s->tired; i++) {
        if (s->exact) s->work_most = WORK_MOST / 10 + WORK_MOST * (uint64_t)i / s->p->n;
        play(s, i);
        s->work += s->labels.n;
    }
    if (s->failed || s->tired) return NULL;
    for (size_t i = 0; i < s->labels.n; i++)
        if (s->labels.at[i].x < s->bound && (!best || s->labels.at[i].x < best->x))
            best = &s->labels.at[i];
    return best;
}

/* ---- runs ---- */

static tidei_lab_options options_for(const tidei_lab_options *o,
                                     const tidei_policy_choice *choice) {
    return (tidei_lab_options){
        .policy = choice, .limit = {o->limit[0], o->limit[1]}, .model = o->model, .seed = o->seed};
}

/* Takes the run under that policy if it is the best so far. */
static tide_status try_policy(search *s, const tidei_lab_options *o,
                              const tidei_policy_choice *choice, tidei_lab_figures *best) {
    tidei_lab_figures f;
    tidei_lab_options with = options_for(o, choice);
    tide_status status = tidei_lab_simulate(s->p, &with, &f);
    if (status != TIDE_OK || tidei_lab_cost(&f) >= s->bound) return status;
    s->bound = tidei_lab_cost(&f);
    *best = f;
    return TIDE_OK;
}

/* The best of the policies with their usual parameters, and of the rivals. */
static tide_status try_policies(search *s, const tidei_lab_options *o, const tidei_lab_rivals *r,
                                tidei_lab_figures *best) {
    const tidei_policy *policy;
    tide_status status = TIDE_OK;
    s->bound = UINT64_MAX;
    for (size_t i = 0; status == TIDE_OK && (policy = tidei_policy_at(i)); i++) {
        tidei_policy_choice choice = tidei_policy_usual(policy);
        status = try_policy(s, o, &choice, best);
    }
    for (size_t i = 0; status == TIDE_OK && r && i < r->n; i++)
        status = try_policy(s, o, r->at[i], best);
    return status;
}

static tide_status follow(search *s, const tidei_lab_options *o, const label *l,
                          tidei_lab_figures *best) {
    size_t n = 0;
    uint64_t cost = l->x;
    for (uint32_t i = l->plan; i != NOTHING; i = s->steps[i].before) n++;
    tidei_lab_planned *at = tidei_host_take(NULL, (n + 1) * sizeof *at);
    if (!at) return tidei_fail_host_memory(OP, (n + 1) * sizeof *at);
    tidei_lab_plan plan = {at, n};
    for (uint32_t i = l->plan; i != NOTHING; i = s->steps[i].before)
        at[--n] = (tidei_lab_planned){s->steps[i].event, s->steps[i].level};
    tidei_policy_choice never = tidei_policy_usual(&tidei_policy_never);
    tidei_lab_options with = options_for(o, &never);
    with.plan = &plan;
    tide_status status = tidei_lab_simulate(s->p, &with, best);
    tidei_host_free(NULL, at);
    if (status != TIDE_OK) return status;
    tidei_check(tidei_lab_cost(best) == cost);
    s->bound = cost;
    return TIDE_OK;
}

/* One pass, and the run that it proposes. */
static tide_status improve(search *s, const tidei_lab_options *o, tidei_lab_figures *best) {
    const label *l = pass(s);
    if (s->failed) return tidei_fail_host_memory(OP, s->nsteps * sizeof *s->steps);
    return l ? follow(s, o, l, best) : TIDE_OK;
}

/* The first passes compare labels whatever their luck is, and find a low bound for the last. What
** they keep are guesses, each another one. */
static const struct guess {
    double byte_cost; /* parts of what a byte costs in the best run so far */
    bool grows;       /* to the limit; else as far as in that run */
} guesses[] = {{1, false},  {0.3, false}, {0.1, false}, {0.1, false},
               {0.5, true}, {0.1, true},  {0.03, true}};

static void guess(search *s, const struct guess *g, const tidei_lab_figures *best) {
    uint64_t least = 10 * s->p->ideal_ns;
    s->peak = g->grows ? s->end : best->peak_held[TIDEI_LAB_DEVICE];
    s->byte_cost = best->freed && s->bound > least
                       ? g->byte_cost * (double)(s->bound - least) / (double)best->freed
                       : 0;
}

static tide_status find(search *s, const tidei_lab_options *o, const tidei_lab_rivals *rivals,
                        tidei_lab_figures *best) {
    tide_status status = try_policies(s, o, rivals, best);
    bool luck = s->m->spread_low != s->m->spread_high;
    for (size_t i = 0; i < TIDEI_COUNT(guesses) && status == TIDE_OK; i++) {
        guess(s, &guesses[i], best);
        status = improve(s, o, best);
        if (!s->dropped) break;
    }
    if (status != TIDE_OK || (!luck && !s->dropped && !s->m->fresh_mib_ns)) return status;
    s->exact = true;
    s->lucky = luck;
    status = improve(s, o, best);
    best->near = s->tired;
    return status;
}

static void *room(search *s, size_t n, size_t size) {
    void *at = tidei_host_alloc(NULL, (n + 1) * size);
    if (!at) s->failed = true;
    return at;
}

static tide_status prepare(search *s, const tidei_lab_options *o) {
    size_t makes = 0, syncs = 0;
    for (size_t i = 0; i < s->p->n; i++) {
        makes += s->p->events[i].op == TIDEI_LAB_MAKE;
        syncs += s->p->events[i].op == TIDEI_LAB_SYNC;
    }
    size_t most = 2 * makes + syncs + 1; /* collections */
    s->born = room(s, s->p->blocks, sizeof *s->born);
    s->gone = room(s, s->p->blocks, sizeof *s->gone);
    s->stack = room(s, s->p->blocks, sizeof *s->stack);
    s->makings = room(s, makes, sizeof *s->makings);
    s->from_x = room(s, s->p->n, sizeof *s->from_x);
    s->from_y = room(s, s->p->n, sizeof *s->from_y);
    s->draws = room(s, most, sizeof *s->draws);
    s->least = room(s, most, sizeof *s->least);
    if (s->failed) return tidei_fail_host_memory(OP, s->p->n * sizeof *s->from_x);
    look_forward(s);
    draw(s, most, o->seed);
    look_back(s);
    return TIDE_OK;
}

static void release(search *s) {
    void *all[] = {s->labels.at, s->fresh.at, s->steps,  s->born,  s->gone, s->stack,
                   s->makings,   s->from_x,   s->from_y, s->draws, s->least};
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) tidei_host_free(NULL, all[i]);
}

/* ---- what is offered ---- */

static bool has_second_budget(const tidei_lab_program *p) {
    for (size_t i = 0; i < p->n; i++)
        if (p->events[i].op == TIDEI_LAB_MAKE && p->events[i].budget != TIDEI_LAB_DEVICE)
            return true;
    return false;
}

/* No run takes longer, in ns: all work after all that hosts compute, as many collections as there
** may be, each of all arrays and as unlucky as can be, and new memory for all that is made. */
static double longest_run(const tidei_lab_program *p, const tidei_lab_model *m) {
    double ns = 0, bytes = 0, collections = 1, arrays = p->blocks;
    for (size_t i = 0; i < p->n; i++) {
        const tidei_lab_event *e = &p->events[i];
        bool makes = e->op == TIDEI_LAB_MAKE, syncs = e->op == TIDEI_LAB_SYNC;
        *(makes ? &bytes : &ns) += (double)e->amount;
        collections += makes ? 2 : syncs;
    }
    double pause = (double)max_u64(m->minor_ns, m->full_ns) +
                   arrays * (double)max_u64(m->minor_array_ps, m->full_array_ps) / 1000 +
                   (double)m->heap_mib * (double)m->heap_mib_ns;
    return ns + collections * (pause * m->spread_high / THOUSANDTHS + (double)m->stall_ns) +
           bytes / (double)TIDEI_MIB * (double)m->fresh_mib_ns;
}

const char *tidei_lab_oracle_lacks(const tidei_lab_program *p, const tidei_lab_model *m) {
    if (!m) m = &p->model;
    if (p->threads > 1) return "the program has several threads";
    if (has_second_budget(p)) return "the program has a second budget";
    if (!(m->levels & TIDEI_OFFERS_FULL)) return "there are no full collections";
    if (p->n >= NOTHING) return "the program is too long";
    if (longest_run(p, m) > (double)TIDEI_LAB_TIME_MOST)
        return "some run of it may take longer than 2^57 ns (4.5 years)";
    return NULL;
}

tide_status tidei_lab_oracle(const tidei_lab_program *p, const tidei_lab_options *o,
                             const tidei_lab_rivals *rivals, tidei_lab_figures *out) {
    const char *lacks = tidei_lab_oracle_lacks(p, o->model);
    if (lacks) return tidei_fail(TIDE_E_UNSUPPORTED, OP, "%s: no oracle: %s", p->name, lacks);
    search s = {.p = p, .m = o->model ? o->model : &p->model};
    s.minor = s.m->levels & TIDEI_OFFERS_MINOR;
    s.end = o->limit[0] == TIDEI_NO_LIMIT ? s.m->total : o->limit[0];
    tide_status status = prepare(&s, o);
    if (status == TIDE_OK) status = find(&s, o, rivals, out);
    release(&s);
    return status;
}
