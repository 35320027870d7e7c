/* simulate.c: the lab's clockwork; simulate.h has its model. */
#include "gc/lab/simulate.h"
#include "gc/lab/random.h"
#include "gc/own_policy.h"
#include <math.h>
#include <stdlib.h>

#define OP "tide study"
/* The policies' clocks begin here: 0 is "never" to them. */
#define EPOCH_NS    1000000000u
#define LOOK_AGAIN  64  /* parts of a device, as in gc/collect.c */
#define FRUITLESS   100 /* parts of what was held: a collection that frees less was for nothing */
#define THOUSANDTHS 1000

typedef enum { UNMADE, DOOMED, LIVE, GONE, FAILED } block_state;
typedef struct block {
    uint64_t bytes;
    uint32_t born; /* collections that had been before */
    uint8_t state, budget;
} block;

typedef struct thread {
    uint64_t now, work_end, step_began;
    size_t at, end;                           /* in the order of events */
    bool waits;                               /* for the device: a collection does not put it off */
    enum { FIRST, DRAINED, COLLECTED } phase; /* of a request that did not fit */
    uint64_t stall_began;
} thread;

typedef struct budget {
    tidei_policy_run run;
    tidei_policy_in before;
    uint64_t limit, wake_at;
    uint64_t live, dead[2]; /* dead[0]: made since the last collection */
    uint64_t backed, held_since;
    double fresh_ns;        /* that policies are told of a byte that is new; */
    size_t price;           /* of the program's prices, the next */
    unsigned __int128 area; /* bytes x ns */
} budget;

typedef struct lab {
    const tidei_lab_program *p;
    const tidei_lab_options *o;
    const tidei_lab_model *m;
    budget at[TIDEI_LAB_BUDGETS];
    thread threads[TIDEI_LAB_THREADS];
    uint32_t *order; /* events by thread; NULL: there is one thread */
    block *blocks;
    uint64_t *step_ns;
    uint64_t device_free; /* when it has done all that is queued */
    uint64_t random;
    uint32_t rounds;
    size_t planned; /* collections of the plan that are behind */
    size_t told;    /* of what policies are told, the last one that is behind */
    /* how many are held; of these, made since the last collection; of either, dead */
    uint64_t arrays, young, dead[2];
    tidei_lab_figures f;
} lab;

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static double fresh_ns_of(uint64_t mib_ns) { return (double)mib_ns / (double)TIDEI_MIB; }
static uint64_t held(const budget *b) { return b->live + b->dead[0] + b->dead[1]; }
/* What the best collection on offer would free. */
static uint64_t dead_in(const lab *s) {
    uint64_t n = 0;
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++)
        n += s->at[i].dead[0] + (s->m->levels & TIDEI_OFFERS_FULL ? s->at[i].dead[1] : 0);
    return n;
}

static void tell(const lab *s, tidei_lab_note n) {
    if (s->o->note) s->o->note(s->o->user, &n);
}

/* What is held changes now. */
static void settle(budget *b, uint64_t now) {
    b->area += (unsigned __int128)held(b) * (now - b->held_since);
    b->held_since = now;
}

static void tell_held(const lab *s, unsigned i, uint64_t now) {
    const budget *b = &s->at[i];
    if (!s->o->note || i != TIDEI_LAB_DEVICE) return;
    tell(s, (tidei_lab_note){.what = TIDEI_LAB_HELD,
                             .at_ns = now,
                             .bytes = held(b),
                             .live = b->live,
                             .backed = b->backed,
                             .reason = ""});
}

static void note_held(lab *s, unsigned i, uint64_t now) {
    s->f.peak_held[i] = max_u64(s->f.peak_held[i], held(&s->at[i]));
    tell_held(s, i, now);
}

/* ---- collections ---- */

/* What a policy is told at a making of the first thread's. */
static uint64_t told_slack(lab *s) {
    const tidei_lab_program *p = s->p;
    size_t at = s->threads[0].at;
    while (s->told + 1 < p->ntold && p->told[s->told + 1].event <= at) s->told++;
    const tidei_lab_told *a = &p->told[s->told], *b = s->told + 1 < p->ntold ? a + 1 : a;
    if (at <= a->event || a == b) return a->slack_ns;
    double part = (double)(at - a->event) / (double)(b->event - a->event);
    return (uint64_t)fmin((double)a->slack_ns * (1 - part) + (double)b->slack_ns * part, 0x1p63);
}

static uint64_t slack(lab *s, uint64_t now, tidei_where where) {
    if (s->p->ntold && where == TIDEI_AT_ALLOC) return told_slack(s);
    return s->device_free > now ? s->device_free - now : 0;
}

static tidei_policy_in snapshot(lab *s, const budget *b, uint64_t now, tidei_where where,
                                uint64_t request) {
    return (tidei_policy_in){.now_ns = EPOCH_NS + now,
                             .where = where,
                             .levels = s->m->levels,
                             .threads = s->p->threads,
                             .live = held(b),
                             .request = request,
                             .hard = b->limit,
                             .soft = TIDEI_NO_LIMIT,
                             .total = b->limit == TIDEI_NO_LIMIT ? s->m->total
                                                                 : max_u64(s->m->total, b->limit),
                             .available = s->m->total,
                             .slack_ns = slack(s, now, where),
                             .backed = b->backed,
                             .fresh_ns = b->fresh_ns};
}

static uint64_t pause_of(lab *s, int level) {
    const tidei_lab_model *m = s->m;
    bool full = level == TIDE_COLLECT_FULL;
    uint64_t ns = tidei_lab_program_pause(s->p, m, full, full ? s->arrays : s->young) +
                  (s->p->threads - 1) * m->thread_ns;
    uint64_t part = s->p->nspread
                        ? s->p->spread[tidei_lab_between(&s->random, 0, s->p->nspread - 1)]
                        : tidei_lab_between(&s->random, m->spread_low, m->spread_high);
    if (s->p->first_part[full] && !(full ? s->f.collections - s->f.minor : s->f.minor))
        part = s->p->first_part[full];
    return tidei_lab_part(ns, part, THOUSANDTHS);
}

/* Threads that compute stand still; those that wait have waited that long. */
static void stop_threads(lab *s, uint64_t from, uint64_t ns) {
    for (unsigned i = 0; i < s->p->threads; i++) {
        thread *t = &s->threads[i];
        if (t->at == t->end) continue;
        t->now = t->waits ? max_u64(t->now, from + ns) : t->now + ns;
    }
}

static uint64_t free_dead(lab *s, int level, uint64_t now) {
    uint64_t freed = 0;
    for (int old = 0; old <= (level == TIDE_COLLECT_FULL); old++) {
        for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) {
            budget *b = &s->at[i];
            settle(b, now);
            freed += b->dead[old];
            b->dead[old] = 0;
        }
        s->arrays -= s->dead[old];
        s->dead[old] = 0;
    }
    s->young = 0;
    s->rounds++;
    return freed;
}

static void tell_policies(lab *s, const tidei_collection *c, uint64_t now) {
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) {
        budget *b = &s->at[i];
        tidei_policy_in after = snapshot(s, b, now, b->before.where, 0);
        b->wake_at = 0;
        if (i == TIDEI_LAB_DEVICE || b->before.live || after.live)
            tidei_policy_told(&b->run, &b->before, &after, c);
    }
}

static void count_collection(lab *s, const tidei_collection *c, uint64_t before, uint64_t freed) {
    bool fruitless = freed < before / FRUITLESS;
    s->f.collections++;
    s->f.minor += c->level == TIDE_COLLECT_MINOR;
    s->f.forced += !c->early;
    s->f.fruitless += fruitless;
    s->f.pause_ns += c->pause_ns;
    s->f.fruitless_ns += fruitless ? c->pause_ns : 0;
    s->f.freed += freed;
}

static void collect(lab *s, thread *t, int level, tidei_where where, const char *reason) {
    uint64_t now = t->now, before = 0;
    tidei_collection c = {.level = level,
                          .early = reason != NULL,
                          .forced = reason == NULL,
                          .start_ns = EPOCH_NS + now,
                          .pause_ns = pause_of(s, level)};
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) {
        s->at[i].before = snapshot(s, &s->at[i], now, where, 0);
        before += s->at[i].before.live;
    }
    t->waits = false;
    stop_threads(s, now, c.pause_ns);
    now = t->now;
    uint64_t freed = free_dead(s, level, now);
    count_collection(s, &c, before, freed);
    tell_policies(s, &c, now);
    note_held(s, TIDEI_LAB_DEVICE, now);
    tell(s, (tidei_lab_note){.what = TIDEI_LAB_COLLECTED,
                             .at_ns = now,
                             .ns = c.pause_ns,
                             .bytes = freed,
                             .level = level,
                             .early = c.early,
                             .reason = reason ? reason : "an allocation failed"});
}

/* Which collection the policy of a budget wants; sets when to ask it again. */
static int decide(lab *s, budget *b, uint64_t now, tidei_where where, uint64_t request,
                  const char **reason) {
    tidei_policy_in in = snapshot(s, b, now, where, request);
    tidei_decision x = tidei_policy_ask(&b->run, &in);
    b->wake_at = x.wake_at;
    if (b->limit == TIDEI_NO_LIMIT && x.wake_at != UINT64_MAX)
        b->wake_at = x.wake_at < in.live + in.total / LOOK_AGAIN ? x.wake_at
                                                                 : in.live + in.total / LOOK_AGAIN;
    *reason = x.reason;
    return x.level;
}

static void follow_plan(lab *s, thread *t, tidei_where where) {
    const tidei_lab_plan *plan = s->o->plan;
    while (s->planned < plan->n && plan->at[s->planned].event < t->at) s->planned++;
    if (s->planned < plan->n && plan->at[s->planned].event == t->at)
        collect(s, t, plan->at[s->planned++].level, where, "it was planned");
}

static void ask_at_making(lab *s, thread *t, budget *b, uint64_t bytes) {
    const char *reason;
    if (s->o->plan) {
        follow_plan(s, t, TIDEI_AT_ALLOC);
        return;
    }
    if (held(b) + bytes < b->wake_at) return;
    int level = decide(s, b, t->now, TIDEI_AT_ALLOC, bytes, &reason);
    if (level) collect(s, t, level, TIDEI_AT_ALLOC, reason);
}

static void ask_at_sync(lab *s, thread *t) {
    const char *reason;
    if (s->o->plan) {
        follow_plan(s, t, TIDEI_AT_SYNC);
        return;
    }
    budget *pinned = &s->at[TIDEI_LAB_PINNED];
    int level = decide(s, &s->at[TIDEI_LAB_DEVICE], t->now, TIDEI_AT_SYNC, 0, &reason);
    if (!level && held(pinned)) level = decide(s, pinned, t->now, TIDEI_AT_SYNC, 0, &reason);
    if (level) collect(s, t, level, TIDEI_AT_SYNC, reason);
}

/* ---- events ---- */

static void free_at_once(lab *s, block *b, uint64_t now) {
    budget *of = &s->at[b->budget];
    if (b->state != LIVE) return;
    settle(of, now);
    of->live -= b->bytes;
    s->f.freed += b->bytes;
    s->arrays--;
    b->state = GONE;
    tell_held(s, b->budget, now);
}

static void die(lab *s, block *b, uint64_t now) {
    if (b->state == UNMADE) b->state = DOOMED;
    if (b->state != LIVE) return;
    if (s->o->ideal) {
        free_at_once(s, b, now);
        return;
    }
    budget *of = &s->at[b->budget];
    bool old = b->born != s->rounds;
    of->live -= b->bytes;
    of->dead[old] += b->bytes;
    s->dead[old]++;
    b->state = GONE;
    tell_held(s, b->budget, now);
}

/* What policies are told once so much is backed. */
static void learn_price(const lab *s, budget *b) {
    const tidei_lab_program *p = s->p;
    while (b->price < p->nprices && p->prices[b->price].backed <= b->backed)
        b->fresh_ns = fresh_ns_of(p->prices[b->price++].mib_ns);
}

static void take(lab *s, thread *t, budget *of, block *b, uint64_t bytes) {
    bool doomed = b->state == DOOMED;
    uint64_t backed = max_u64(of->backed, held(of) + bytes),
             ns = s->p->nprices ? 0
                                : tidei_lab_price(s->m, backed) - tidei_lab_price(s->m, of->backed);
    settle(of, t->now);
    of->backed = backed;
    if (b->budget == TIDEI_LAB_DEVICE) learn_price(s, of);
    of->live += bytes;
    s->f.allocated += bytes;
    *b = (block){.bytes = bytes, .born = s->rounds, .state = LIVE, .budget = b->budget};
    s->arrays++;
    s->young++;
    note_held(s, b->budget, t->now);
    if (doomed) die(s, b, t->now);
    s->f.fresh_ns += ns;
    t->now += ns;
}

static bool fits(const lab *s, const budget *b, uint64_t bytes) {
    uint64_t end = b->limit == TIDEI_NO_LIMIT ? s->m->total : b->limit;
    return s->o->ideal || (held(b) <= end && bytes <= end - held(b));
}

/* The next step of a climb; true: it has come to its end without room. */
static bool climb(lab *s, thread *t) {
    if (t->phase == FIRST) {
        s->f.stalls++;
        t->stall_began = t->now;
        t->waits = !s->m->climbs_at_once;
        if (t->waits) t->now = max_u64(t->now, s->device_free);
        t->phase = DRAINED;
        return false;
    }
    if (t->phase == COLLECTED && !dead_in(s)) return true;
    if (s->m->levels)
        collect(s, t, s->m->levels & TIDEI_OFFERS_FULL ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR,
                TIDEI_AT_ALLOC, NULL);
    else if (t->phase == COLLECTED)
        return true;
    t->now += s->m->stall_ns;
    t->phase = COLLECTED;
    return false;
}

static void end_stall(lab *s, thread *t) {
    if (t->phase != FIRST)
        tell(s, (tidei_lab_note){.what = TIDEI_LAB_STALLED,
                                 .at_ns = t->now,
                                 .ns = t->now - t->stall_began,
                                 .reason = "an allocation failed"});
    t->phase = FIRST;
}

/* True: the event is done. */
static bool make(lab *s, thread *t, const tidei_lab_event *e) {
    budget *of = &s->at[e->budget];
    block *b = &s->blocks[e->block];
    b->budget = e->budget;
    if (t->phase == FIRST && !s->o->ideal) ask_at_making(s, t, of, e->amount);
    if (fits(s, of, e->amount)) {
        end_stall(s, t);
        take(s, t, of, b, e->amount);
        return true;
    }
    if (!climb(s, t)) return false;
    end_stall(s, t);
    b->state = FAILED;
    s->f.failed++;
    return true;
}

static void work(lab *s, thread *t, uint64_t ns) {
    s->device_free = max_u64(s->device_free, t->now) + ns;
    t->work_end = s->device_free;
}

static void sync(lab *s, thread *t) {
    if (!s->o->ideal) ask_at_sync(s, t);
    t->waits = true;
    t->now = max_u64(t->now, t->work_end);
}

static void end_step(lab *s, thread *t) {
    s->step_ns[s->f.steps++] = t->now - t->step_began;
    t->step_began = t->now;
}

/* True: the thread's next event may come. */
static bool play(lab *s, thread *t, const tidei_lab_event *e) {
    t->waits = false;
    switch ((tidei_lab_op)e->op) {
    case TIDEI_LAB_HOST: t->now += e->amount; break;
    case TIDEI_LAB_MAKE: return make(s, t, e);
    case TIDEI_LAB_DIE: die(s, &s->blocks[e->block], t->now); break;
    case TIDEI_LAB_FREE: free_at_once(s, &s->blocks[e->block], t->now); break;
    case TIDEI_LAB_WORK: work(s, t, e->amount); break;
    case TIDEI_LAB_SYNC: sync(s, t); break;
    case TIDEI_LAB_STEP: end_step(s, t); break;
    }
    return true;
}

static thread *next_thread(lab *s) {
    thread *best = NULL;
    for (unsigned i = 0; i < s->p->threads; i++) {
        thread *t = &s->threads[i];
        if (t->at < t->end && (!best || t->now < best->now)) best = t;
    }
    return best;
}

static tide_status too_long(const lab *s) {
    return tidei_fail(TIDE_E_UNSUPPORTED, OP, "%s: a run " TIDEI_LAB_TOO_LONG, s->p->name);
}

/* An event adds no more than a few times TIDEI_LAB_COST_MOST: nothing wraps before it is seen. */
static tide_status play_all(lab *s) {
    for (thread *t; (t = next_thread(s));) {
        const tidei_lab_event *e = &s->p->events[s->order ? s->order[t->at] : t->at];
        if (play(s, t, e)) t->at++;
        if (max_u64(t->now, s->device_free) > TIDEI_LAB_TIME_MOST) return too_long(s);
    }
    return TIDE_OK;
}

/* ---- beginning and end ---- */

static size_t count_steps(const tidei_lab_program *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) n += p->events[i].op == TIDEI_LAB_STEP;
    return n;
}

/* Events of one thread side by side. */
static void sort_events(lab *s) {
    size_t from[TIDEI_LAB_THREADS] = {0};
    const tidei_lab_program *p = s->p;
    for (size_t i = 0; i < p->n; i++) s->threads[p->events[i].thread].end++;
    for (unsigned i = 1; i < p->threads; i++) {
        from[i] = s->threads[i].at = s->threads[i - 1].end;
        s->threads[i].end += from[i];
    }
    if (!s->order) return;
    for (size_t i = 0; i < p->n; i++) s->order[from[p->events[i].thread]++] = (uint32_t)i;
}

static tide_status prepare(lab *s) {
    const tidei_lab_program *p = s->p;
    size_t steps = count_steps(p);
    s->blocks = tidei_host_alloc(NULL, (p->blocks + (size_t)1) * sizeof *s->blocks);
    s->step_ns = tidei_host_alloc(NULL, (steps + 1) * sizeof *s->step_ns);
    if (p->threads > 1) s->order = tidei_host_alloc(NULL, (p->n + 1) * sizeof *s->order);
    if (!s->blocks || !s->step_ns || (p->threads > 1 && !s->order))
        return tidei_fail_host_memory(OP, p->blocks * sizeof *s->blocks + p->n * sizeof *s->order);
    sort_events(s);
    tide_status status = TIDE_OK;
    for (unsigned i = 0; status == TIDE_OK && i < TIDEI_LAB_BUDGETS; i++) {
        s->at[i].limit = s->o->ideal ? TIDEI_NO_LIMIT : s->o->limit[i];
        s->at[i].fresh_ns = fresh_ns_of(s->m->fresh_mib_ns);
        if (s->o->ideal) continue;
        tidei_policy_start_with(&s->at[i].run, s->o->policy);
        status = tidei_own_policy_open(&s->at[i].run, NULL, OP);
    }
    learn_price(s, &s->at[TIDEI_LAB_DEVICE]);
    return status;
}

static int by_length(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What a policy of somebody else's answered, of both budgets. */
static void count_nonsense(const lab *s) {
    tidei_policy_nonsense *all = s->o->nonsense;
    if (!all) return;
    *all = (tidei_policy_nonsense){.n = 0};
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) {
        const tidei_policy_nonsense *x = &s->at[i].run.nonsense;
        if (!all->n) memcpy(all->first, x->first, sizeof all->first);
        all->n += x->n;
    }
}

static void count_up(lab *s) {
    tidei_lab_figures *f = &s->f;
    count_nonsense(s);
    for (unsigned i = 0; i < s->p->threads; i++) f->ns = max_u64(f->ns, s->threads[i].now);
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) {
        budget *b = &s->at[i];
        settle(b, f->ns);
        f->mean_held[i] = f->ns ? (uint64_t)(b->area / f->ns) : 0;
        f->live += b->live;
        f->dead += b->dead[0] + b->dead[1];
    }
    if (!f->steps) return;
    qsort(s->step_ns, f->steps, sizeof *s->step_ns, by_length);
    f->worst_step_ns = s->step_ns[f->steps - 1];
    f->p99_step_ns = s->step_ns[f->steps - 1 - f->steps / 100];
}

tide_status tidei_lab_simulate(const tidei_lab_program *p, const tidei_lab_options *o,
                               tidei_lab_figures *out) {
    lab *s = tidei_host_alloc(NULL, sizeof *s);
    if (!s) return tidei_fail_host_memory(OP, sizeof *s);
    *s = (lab){.p = p, .o = o, .m = o->model ? o->model : &p->model, .random = o->seed};
    tide_status status = prepare(s);
    if (status == TIDE_OK) status = play_all(s);
    if (status == TIDE_OK) {
        count_up(s);
        *out = s->f;
    }
    for (unsigned i = 0; i < TIDEI_LAB_BUDGETS; i++) tidei_own_policy_close(&s->at[i].run, NULL);
    tidei_host_free(NULL, s->order);
    tidei_host_free(NULL, s->step_ns);
    tidei_host_free(NULL, s->blocks);
    tidei_host_free(NULL, s);
    return status;
}
