/* gc.c: opens the collectors' floor on a runtime, and what every array needs of it: a cell,
** references, a thread's coming and going. When to collect, and doing it: collect.c. An embedder's
** collectors: foreign.c. */
#include "gc/gc.h"
#include "gc/boehm.h"
#include "gc/collector.h"
#include "gc/own_policy.h"
#include "runtime/base/uncancelled.h"

/* ---- references under reference counting: one word, any thread, any time ---- */

static tide_status count_up(tidei_header *h) {
    uint32_t n = atomic_load_explicit(&h->refs, memory_order_relaxed);
    do {
        if (TIDEI_REFS_COUNT(n) == 0 || TIDEI_REFS_COUNT(n) == TIDEI_REFS_COUNT(UINT32_MAX))
            return tidei_fail(TIDE_E_INVALID, "tide_retain",
                              TIDEI_REFS_COUNT(n) ? "the array has been retained too often"
                                                  : "the array was released before");
    } while (!atomic_compare_exchange_weak_explicit(&h->refs, &n, n + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return TIDE_OK;
}

/* Giving back the last reference reports the death. Where a scope still holds the header, the scope
** reports later that its cell is gone (TIDEI_GONE). The generation is read while the reference
** still keeps the header from being used for another array. */
static tide_status count_down(tidei_header *h) {
    uint64_t generation = tidei_header_generation(h);
    uint32_t n = atomic_load_explicit(&h->refs, memory_order_relaxed);
    do {
        if (TIDEI_REFS_COUNT(n) == 0)
            return tidei_fail(TIDE_E_INVALID, "tide_release",
                              "the array was released more often than retained");
    } while (!atomic_compare_exchange_weak_explicit(&h->refs, &n, n - 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (TIDEI_REFS_COUNT(n) == 1)
        tidei_report(h, generation, n & TIDEI_SCOPED ? TIDEI_DEAD : TIDEI_DEAD | TIDEI_GONE);
    return TIDE_OK;
}

/* An array of "boehm" has its cell in that heap; all others have it in the header. */
static bool counted(const tidei_header *h) { return h->home == &h->cell; }

static tide_status retain(tidei_header *h) {
    return counted(h) ? count_up(h) : tidei_boehm_retain(h);
}
tide_status tidei_gc_release(tidei_header *h) {
    return counted(h) ? count_down(h) : tidei_boehm_release(h);
}

/* ---- cells ---- */

#define WEIGHT_STEP (1 << 20) /* bytes of growth before a collector hears of it at once */

static void undo_cell(tidei_runtime *rt, tidei_thread *t, void *h, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    (void)tidei_gc_release(h);
}

/* Adds to what the collector `owner` is to be told; *untold is the sum. False: the place has
** another collector by now. */
static bool add_weight(tidei_collector *c, uint32_t owner, int64_t bytes, int64_t *untold) {
    atomic_fetch_add(&c->weighing, 1);
    bool its = atomic_load(&c->owner) == owner;
    if (its) *untold = atomic_fetch_add_explicit(&c->weight, bytes, memory_order_relaxed) + bytes;
    atomic_fetch_sub_explicit(&c->weighing, 1, memory_order_release);
    return its;
}

/* Memory weighs on the collector of the first array over it, until no view of it is left. */
static void weigh(tidei_thread *t, tidei_collector *c, tidei_header *h) {
    tidei_storage *st = h->st;
    if (!st->bytes || atomic_load_explicit(&st->refs, memory_order_relaxed) != 1) return;
    int64_t untold;
    if (!add_weight(c, h->owner, (int64_t)st->bytes, &untold)) return;
    st->owner = h->owner;
    st->watched |= TIDEI_WATCHED_BY_OWNER;
    if (untold < WEIGHT_STEP) return;
    tidei_hold(t, undo_cell, h, 0); /* nobody else has it yet */
    tidei_tell_weights(tidei_gc_of(tidei_thread_runtime(t)));
    tidei_let(t, h);
}

static tide_status new_counted_cell(tidei_thread *t, tidei_collector *c, tidei_header *h) {
    atomic_store_explicit(&h->refs, 1, memory_order_relaxed);
    h->cell.hidden = ~(uintptr_t)h;
    h->home = &h->cell;
    tide_status status = tidei_scope_add(t, h);
    if (status == TIDE_OK && h->st && atomic_load_explicit(&c->weighs, memory_order_relaxed))
        weigh(t, c, h);
    return status;
}

static tide_status new_cell(tidei_runtime *rt, tidei_thread *t, tidei_header *h) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_collector *c = tidei_collector_current(gc, t);
    h->owner = c == &gc->at[0] ? 0 : (uint32_t)t->collector;
    h->root = NULL;
    if (c != &gc->at[0] || !gc->boehm) return new_counted_cell(t, c, h);
    return tidei_boehm_cell(h, rt->set.debug > 0);
}

static void discharge(tidei_runtime *rt, uint32_t owner, size_t bytes) {
    tidei_gc *gc = tidei_gc_of(rt);
    int64_t untold;
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++)
        if (atomic_load_explicit(&gc->at[i].owner, memory_order_relaxed) == owner)
            add_weight(&gc->at[i], owner, -(int64_t)bytes, &untold);
}

static bool traces(const tidei_header *h) {
    if (!h->owner) return !counted(h);
    tidei_collector *c = tidei_collector_find(tidei_gc_of(h->dev->rt), (int)h->owner);
    return c && c->table.caps & TIDE_COLLECTOR_TRACING;
}

/* ---- threads ---- */

static tide_status thread_attach(tidei_runtime *rt, tidei_thread *t) {
    tidei_gc *gc = tidei_gc_of(rt);
    (void)t;
    tide_status status = gc->boehm ? tidei_boehm_enter() : TIDE_OK;
    if (status != TIDE_OK) return status;
    atomic_fetch_add(&gc->threads, 1);
    tidei_gc_thread_is(gc, true);
    return TIDE_OK;
}

static void thread_detach(tidei_runtime *rt, tidei_thread *t) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_scopes_end(t);
    tidei_gc_thread_is(gc, false);
    atomic_fetch_sub(&gc->threads, 1);
    if (gc->boehm) tidei_boehm_leave();
}

/* ---- blocking ---- */

struct regions { /* the regions that are still to be entered around fn */
    tidei_gc *gc;
    unsigned next;
    void (*fn)(void *arg);
    void *arg;
};

static void enter_region(struct regions *r, tidei_collector *c);

/* Enters the regions one inside the other, then runs fn. */
static void enter_regions(void *p) {
    struct regions *r = p;
    while (r->next < TIDEI_COLLECTORS) {
        int id = atomic_load_explicit(&r->gc->at[r->next++].id, memory_order_acquire);
        tidei_collector *c = id < 0 ? NULL : tidei_collector_enter_region(r->gc, id);
        if (!c) continue;
        bool enters = c->table.blocking != NULL;
        if (enters) enter_region(r, c);
        tidei_collector_leave(r->gc, c);
        if (enters) return;
    }
    r->fn(r->arg);
}

/* The runtime's own collector is no callback of the embedder's. */
static void enter_region(struct regions *r, tidei_collector *c) {
    tidei_thread *t = tidei_thread_look(r->gc->rt);
    tidei_callback in = {.t = NULL};
    tidei_hold(t, tidei_undo_use, c, 0);
    if (c != &r->gc->at[0]) tidei_callback_begin(&in, r->gc->rt, TIDEI_IN_BLOCKING, c->table.name);
    c->table.blocking(c->table.user, enter_regions, r);
    tidei_callback_end(&in);
    tidei_let(t, c);
}

static void blocking(tidei_runtime *rt, void (*fn)(void *arg), void *arg) {
    TIDEI_UNCANCELLED;
    struct regions r = {tidei_gc_of(rt), 0, fn, arg};
    enter_regions(&r);
}

/* ---- opening and closing ---- */

/* The devices', then the host's. */
static tidei_gc_dev *budget_at(tidei_gc *gc, unsigned i) {
    return i < gc->rt->ndevs ? &gc->devs[i] : &gc->host;
}

static void close_floor(tidei_runtime *rt) {
    tidei_gc *gc = tidei_gc_of(rt);
    for (unsigned i = gc->devs ? 0 : rt->ndevs; i <= rt->ndevs; i++)
        tidei_own_policy_close(&budget_at(gc, i)->run, rt);
    tidei_scopes_close(gc);
    if (gc->boehm) tidei_boehm_close();
    rt->gc_ops = NULL;
    rt->gc = NULL;
    pthread_mutex_destroy(&gc->lock);
    pthread_cond_destroy(&gc->changed);
    tidei_host_free(rt, gc->devs);
    tidei_host_free(rt, gc);
}

static const tidei_gc_ops ops = {
    .ask = tidei_gc_ask,
    .ask_host = tidei_gc_ask_host,
    .collect = tidei_gc_collect,
    .new_cell = new_cell,
    .discharge = discharge,
    .retain = retain,
    .release = tidei_gc_release,
    .traces = traces,
    .thread_attach = thread_attach,
    .thread_detach = thread_detach,
    .blocking = blocking,
    .wait = tidei_gc_wait,
    .wake = tidei_gc_wake,
    .await = tidei_gc_await,
    .unreached = tidei_gc_unreached,
    .close = close_floor,
};

#ifdef TIDEI_HAVE_BOEHM
#define KNOWN_COLLECTOR "boehm or refcount"
#else
#define KNOWN_COLLECTOR "refcount; this build has no bdw-gc"
#endif

/* The collector's name by the settings; "" means the best that this build has. */
static const char *collector_name(tidei_runtime *rt) {
    const char *name = rt->set.collector;
    if (!*name) return TIDEI_COLLECTOR_DEFAULT;
    if (rt->set.collector_given || !strcmp(name, "refcount") ||
        !strcmp(name, TIDEI_COLLECTOR_DEFAULT))
        return name;
    tidei_warn_unknown(rt, "TIDE_COLLECTOR", name, KNOWN_COLLECTOR);
    return TIDEI_COLLECTOR_DEFAULT;
}

/* The runtime's own collector. */
static tide_status open_own(tidei_gc *gc) {
    const char *name = collector_name(gc->rt);
    tidei_collector *c = &gc->at[0];
    atomic_store(&c->id, 0);
    c->table = (tide_collector){.struct_size = sizeof c->table, .name = "refcount"};
    if (!strcmp(name, "refcount")) return TIDE_OK;
    if (strcmp(name, "boehm"))
        return tidei_fail(TIDE_E_INVALID, "tide_open",
                          "there is no collector \"%s\"; there are: boehm, refcount", name);
    tide_status status = tidei_boehm_open(gc->rt);
    if (status != TIDE_OK) return status;
    gc->boehm = true;
    c->table.name = "boehm";
    c->table.caps = TIDE_COLLECTOR_TRACING;
    c->table.user = gc->rt;
    c->table.collect = tidei_boehm_collect;
    c->table.may_collect = tidei_boehm_may_collect;
    c->table.blocking = tidei_boehm_blocking;
    return TIDE_OK;
}

/* What the environment names and nobody understands leaves the default. */
static tide_status open_policy(tidei_gc *gc) {
    const tidei_settings *set = &gc->rt->set;
    tidei_policy_choice choice;
    char why[1024];
    if (!tidei_policy_choose(set->policy, &choice, why, sizeof why)) {
        if (set->policy_given) return tidei_fail(TIDE_E_INVALID, "tide_open", "%s", why);
        tidei_warn_environment(gc->rt, "TIDE_POLICY", set->policy,
                               " is not understood (%s); the default stays", why);
        choice = tidei_policy_usual(&tidei_policy_reserve);
    }
    tide_status status = TIDE_OK;
    for (unsigned i = 0; status == TIDE_OK && i <= gc->rt->ndevs; i++) {
        tidei_policy_run *r = &budget_at(gc, i)->run;
        tidei_policy_start_with(r, &choice);
        status = tidei_own_policy_open(r, gc->rt, "tide_open");
    }
    return status;
}

/* What a recording's reader has to know of this runtime: how its deaths come to be known, what
** new memory costs, and to which pages limits are rounded up. */
static void record_terms(tidei_gc *gc) {
    tidei_runtime *rt = gc->rt;
    if (!rt->recorder) return;
    tidei_recorder_deaths(rt->recorder, !gc->boehm ? TIDEI_DEATHS_COUNTED
                                        : tidei_policy_is_always(&gc->devs[0].run)
                                            ? TIDEI_DEATHS_AT_ONCE
                                            : TIDEI_DEATHS_FOUND);
    tidei_watch_growth(rt);
    tidei_recorder_pages(rt->recorder, 0, rt->devs[0].d->info.page_bytes);
}

tide_status tidei_gc_open(tidei_runtime *rt) {
    pthread_condattr_t attr;
    tidei_gc *gc = tidei_host_alloc(rt, sizeof *gc);
    if (!gc) return tidei_fail_host_memory("tide_open", sizeof *gc);
    gc->rt = rt;
    gc->next_id = 1;
    pthread_mutex_init(&gc->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&gc->changed, &attr);
    pthread_condattr_destroy(&attr);
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) atomic_init(&gc->at[i].id, -1);
    rt->gc = gc;
    gc->devs = tidei_host_alloc(rt, rt->ndevs * sizeof *gc->devs);
    tide_status status =
        gc->devs ? open_policy(gc) : tidei_fail_host_memory("tide_open", sizeof *gc->devs);
    if (status == TIDE_OK) status = open_own(gc);
    if (status != TIDE_OK) {
        tidei_saved_error e;
        tidei_error_save(&e);
        close_floor(rt);
        tidei_error_restore(&e);
        return status;
    }
    rt->gc_ops = &ops;
    record_terms(gc);
    tidei_gc_changed(gc);
    return tidei_thread_get(rt) ? TIDE_OK : tidei_last_status();
}

void tidei_gc_farewell(tidei_runtime *rt) { tidei_foreign_close(tidei_gc_of(rt)); }

/* By now more is known of what growth costs. */
void tidei_gc_close(tidei_runtime *rt) {
    if (rt->gc_ops && rt->recorder) tidei_watch_growth(rt);
    if (rt->gc_ops) rt->gc_ops->close(rt);
}
