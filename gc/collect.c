/* collect.c: collecting: which thread leads, which collectors it reaches, what it brought; and
** asking the policy whether to collect.
**
** A round: one thread leads; it calls the collectors, drains, counts and tells the policy. Others
** that want a collection wait for the round and count it as theirs, in the blocking region, or go
** on with their work if they only asked the policy. A collector bound to another thread is asked by
** a flag: if its thread waits for this round, or for the climb that it is part of, it answers at
** once, and the leader waits for that; otherwise it answers at its thread's next allocation, wait
** or safe point. A climb that has found nothing else waits for that, for a bounded time
** (tidei_gc_await); the report says who was not reached.
** What must stay true: no lock of ours is held in a collector, a drain or a log line; a thread
** inside any of these starts no collection and no drain (depth_collect, depth_drain). */
#include "gc/boehm.h"
#include "gc/collector.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <errno.h>
#include <time.h>

/* asking a driver for its free memory takes 6 us; CUDA.jl does it as often */
#define BUDGET_AGE_NS 10000000000u
/* parts of a device: without a limit the budget moves with others' use, so the policy is asked
** again after growth by one such part */
#define LOOK_AGAIN  64
#define RETRY_BYTES TIDEI_MIB /* of growth, before collectors that were busy are tried again */

/* ---- what the policy sees ---- */

static uint64_t now_ns(tidei_runtime *rt) {
    return rt->gc_counts.clock_ns ? rt->gc_counts.clock_ns() : tidei_now_ns();
}

static uint64_t limit_of(_Atomic size_t *limit) {
    size_t n = atomic_load_explicit(limit, memory_order_relaxed);
    return n == SIZE_MAX ? TIDEI_NO_LIMIT : n;
}

/* What the device could give us, free and backed by us; looked up now and then. Unified memory that
** is not on the card is in both. */
static uint64_t available(tidei_gc_dev *g, tidei_dev *d, uint64_t now) {
    uint64_t asked = atomic_load_explicit(&g->available_ns, memory_order_relaxed);
    if (!asked || now - asked > BUDGET_AGE_NS) {
        size_t free_bytes, total,
            backed = atomic_load_explicit(&d->budget->backed, memory_order_relaxed);
        tidei_saved_error e;
        tidei_error_save(&e);
        bool known = d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_OK;
        tidei_error_restore(&e);
        size_t whole = d->d->info.total_bytes;
        atomic_store_explicit(&g->available,
                              known ? tidei_min_size(free_bytes + backed, whole) : whole,
                              memory_order_relaxed);
        atomic_store_explicit(&g->available_ns, now, memory_order_relaxed);
    }
    return atomic_load_explicit(&g->available, memory_order_relaxed);
}

/* Where a test makes up the time, the machine's pace has no part in what policies do. */
static double fresh_ns(tidei_runtime *rt, const tidei_dev *d) {
    bool made_up = rt->gc_counts.clock_ns && !rt->gc_counts.clock_is_real;
    return made_up ? d->d->info.fresh_ns : tidei_fresh_ns(d->d);
}

static void snapshot(tidei_gc *gc, tidei_dev *d, tidei_where where, size_t request,
                     tidei_policy_in *in) {
    in->now_ns = now_ns(gc->rt);
    in->where = where;
    in->levels = atomic_load_explicit(&gc->offers, memory_order_relaxed);
    in->threads = atomic_load_explicit(&gc->threads, memory_order_relaxed);
    in->live = atomic_load_explicit(&d->budget->live, memory_order_relaxed);
    in->rounding = tidei_pools_rounding(d, TIDEI_KINDS_ON_DEVICE);
    in->request = request;
    in->hard = limit_of(&d->budget->limit);
    in->soft = limit_of(&d->budget->soft_limit);
    in->library = atomic_load_explicit(&d->budget->library, memory_order_relaxed);
    in->total = d->d->info.total_bytes;
    in->available = available(&gc->devs[d->index], d, in->now_ns);
    in->slack_ns = tidei_slack_ns(d, where == TIDEI_AT_SYNC);
    in->backed = atomic_load_explicit(&d->budget->backed, memory_order_relaxed);
    in->fresh_ns = d->pool->ops == &tidei_pool_none ? 0 : fresh_ns(gc->rt, d);
    in->largest = 0; /* decide finds it, where an array is made */
}

/* The host's memory in arrays: its limit is the whole budget, and only arrays use it. */
static void snapshot_host(tidei_gc *gc, tidei_where where, size_t request, tidei_policy_in *in) {
    tidei_runtime *rt = gc->rt;
    uint64_t limit = rt->budget->limit;
    *in = (tidei_policy_in){.now_ns = now_ns(rt),
                            .where = where,
                            .levels = atomic_load_explicit(&gc->offers, memory_order_relaxed),
                            .threads = atomic_load_explicit(&gc->threads, memory_order_relaxed),
                            .live = atomic_load_explicit(&rt->budget->live, memory_order_relaxed),
                            .request = request,
                            .hard = limit,
                            .soft = TIDEI_NO_LIMIT,
                            .total = limit,
                            .available = limit};
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        uint64_t slack = tidei_slack_ns(d, where == TIDEI_AT_SYNC);
        if (slack > in->slack_ns) in->slack_ns = slack;
        in->rounding += tidei_pools_rounding(d, TIDEI_KINDS_ON_HOST);
    }
}

/* ---- which threads are here ---- */

static int level_for(const tidei_collector *c, int level);

static bool traces(const tidei_collector *c) { return c->table.caps & TIDE_COLLECTOR_TRACING; }

static bool offers(const tidei_collector *c, int level) {
    return traces(c) && level_for(c, level) != 0;
}

static bool bound_elsewhere(const tidei_collector *c) {
    return (c->table.caps & TIDE_COLLECTOR_BOUND) && c->thread != tidei_thread_serial();
}

static bool registered(const tidei_collector *c) {
    return atomic_load_explicit(&c->id, memory_order_acquire) >= 0;
}

/* The policy is asked at the next allocation, or never where nobody could collect. */
static void wake_all(tidei_gc *gc) {
    bool any = gc->rt->set.gc_early && atomic_load(&gc->offers);
    for (unsigned i = 0; i < gc->rt->ndevs; i++)
        atomic_store(&gc->rt->devs[i].memory->wake_at,
                     any || atomic_load(&gc->asked) ? 0 : SIZE_MAX);
    atomic_store(&gc->rt->budget->wake_at, any || atomic_load(&gc->asked) ? 0 : SIZE_MAX);
}

static void count_asked_locked(tidei_gc *gc) {
    bool any = false;
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++)
        any |= registered(&gc->at[i]) && gc->at[i].asked;
    atomic_store(&gc->asked, any);
}

void tidei_gc_changed(tidei_gc *gc) {
    unsigned levels = 0;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) {
        if (!registered(&gc->at[i])) continue;
        if (offers(&gc->at[i], TIDE_COLLECT_MINOR)) levels |= TIDEI_OFFERS_MINOR;
        if (offers(&gc->at[i], TIDE_COLLECT_FULL)) levels |= TIDEI_OFFERS_FULL;
    }
    atomic_store(&gc->offers, levels);
    count_asked_locked(gc);
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
    wake_all(gc);
}

/* ---- one collector ---- */

static unsigned bit_of(int level) { return 1u << level; }

/* The level to ask the collector for where `level` is wanted: instead of a full collection that it
** does not offer, a minor one. 0: it offers neither. */
static int level_for(const tidei_collector *c, int level) {
    unsigned cannot = atomic_load_explicit(&c->cannot, memory_order_relaxed);
    bool minor = (c->table.caps & TIDE_COLLECTOR_MINOR) && !(cannot & bit_of(TIDE_COLLECT_MINOR));
    if (level == TIDE_COLLECT_FULL && !(cannot & bit_of(level))) return level;
    return minor ? TIDE_COLLECT_MINOR : 0;
}

static bool own(const tidei_gc *gc, const tidei_collector *c) { return c == &gc->at[0]; }

static bool may_collect(tidei_gc *gc, tidei_collector *c) {
    TIDEI_UNCANCELLED;
    tidei_callback in = {.t = NULL};
    if (!c->table.may_collect) return true;
    if (!own(gc, c)) tidei_callback_begin(&in, gc->rt, TIDEI_IN_MAY_COLLECT, c->table.name);
    bool may = c->table.may_collect(c->table.user);
    tidei_callback_end(&in);
    return may;
}

static int call_collect(tidei_gc *gc, tidei_collector *c, int level) {
    TIDEI_UNCANCELLED;
    tidei_callback in;
    tidei_callback_begin(&in, gc->rt, own(gc, c) ? TIDEI_IN_FINALIZERS : TIDEI_IN_COLLECT,
                         c->table.name);
    int answer = c->table.collect(c->table.user, level);
    tidei_callback_end(&in);
    return answer;
}

static void log_odd(tidei_gc *gc, tidei_collector *c, int answer) {
    atomic_store(&c->answer, answer);
    if (!atomic_exchange(&c->odd, true))
        tidei_log(
            gc->rt, TIDE_LOG_WARNING,
            "collect of the collector \"%s\" answered %d, which is none of TIDE_COLLECT_DONE (0), "
            "TIDE_COLLECT_BUSY (1) and TIDE_COLLECT_UNSUPPORTED (2): it counts as not having "
            "collected",
            c->table.name, answer);
}

/* A level that the collector has said it does not know is not asked for again. */
static tidei_outcome ask_for(tidei_gc *gc, tidei_collector *c, int level) {
    for (int l; (l = level_for(c, level));) {
        int answer = call_collect(gc, c, l);
        if (answer == TIDE_COLLECT_DONE) return TIDEI_COLLECTED;
        if (answer == TIDE_COLLECT_BUSY) return TIDEI_WAS_BUSY;
        if (answer != TIDE_COLLECT_UNSUPPORTED) return log_odd(gc, c, answer), TIDEI_ODD;
        atomic_fetch_or(&c->cannot, bit_of(l));
        tidei_gc_changed(gc);
    }
    return TIDEI_CANNOT;
}

/* A collector's own code may set the thread's error. */
static tidei_outcome run_collector(tidei_gc *gc, tidei_collector *c, int level) {
    tidei_saved_error e;
    tidei_error_save(&e);
    tidei_outcome how = may_collect(gc, c) ? ask_for(gc, c, level) : TIDEI_WAS_BUSY;
    tidei_error_restore(&e);
    return how;
}

/* ---- bound collectors ---- */

static bool is_bound(const tidei_collector *c) { return c->table.caps & TIDE_COLLECTOR_BOUND; }

/* A collector bound to this thread that is asked for something, or NULL. */
static tidei_collector *mine_asked_locked(tidei_gc *gc) {
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++)
        if (gc->at[i].asked && registered(&gc->at[i]) && !bound_elsewhere(&gc->at[i]))
            return &gc->at[i];
    return NULL;
}

/* The collector's thread collects from here on, which answers what was asked of it up to that
** level. */
static void begin_answer_locked(tidei_gc *gc, tidei_collector *c, int level) {
    if (c->asked <= level) c->asked = 0;
    c->answers = true;
    c->users++;
    count_asked_locked(gc);
}

static void end_answer(tidei_gc *gc, tidei_collector *c, int level, tidei_outcome how) {
    pthread_mutex_lock(&gc->lock);
    c->answers = false;
    c->last = how;
    if (level == TIDE_COLLECT_FULL) c->how = how;
    pthread_mutex_unlock(&gc->lock);
    tidei_collector_leave(gc, c);
}

static void undo_answer(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t level) {
    (void)t;
    end_answer(tidei_gc_of(rt), c, (int)level, TIDEI_WAS_BUSY);
}

/* Runs a collector bound to this thread, whose answer has begun. */
static tidei_outcome run_bound(tidei_gc *gc, tidei_thread *t, tidei_collector *c, int level) {
    tidei_hold(t, undo_answer, c, (uintptr_t)level);
    tidei_outcome how = run_collector(gc, c, level);
    tidei_let(t, c);
    end_answer(gc, c, level, how);
    return how;
}

static tidei_collector *take_asked(tidei_gc *gc, int *level) {
    pthread_mutex_lock(&gc->lock);
    tidei_collector *c = mine_asked_locked(gc);
    if (c) {
        *level = c->asked;
        begin_answer_locked(gc, c, *level);
    }
    pthread_mutex_unlock(&gc->lock);
    return c;
}

/* Does what this thread's collectors were asked for; true if any of them collected. */
static bool answer(tidei_gc *gc, tidei_thread *t) {
    int level;
    bool ran = false;
    for (tidei_collector *c; (c = take_asked(gc, &level));) {
        tidei_deepen(t, &t->depth_collect);
        ran |= run_bound(gc, t, c, level) == TIDEI_COLLECTED;
        tidei_rise(t, &t->depth_collect);
    }
    return ran;
}

/* Runs a collector in a round that its own thread leads. */
static tidei_outcome run_here(tidei_gc *gc, tidei_thread *t, tidei_collector *c, int level) {
    if (!is_bound(c)) return run_collector(gc, c, level);
    pthread_mutex_lock(&gc->lock);
    begin_answer_locked(gc, c, level);
    pthread_mutex_unlock(&gc->lock);
    return run_bound(gc, t, c, level);
}

void tidei_gc_thread_is(tidei_gc *gc, bool here) {
    uint64_t thread = tidei_thread_serial();
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++)
        if (registered(&gc->at[i]) && is_bound(&gc->at[i]) && gc->at[i].thread == thread)
            gc->at[i].ended = !here;
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

struct wait { /* for a round to end, for a count to change, or for a bound collector's answer */
    tidei_gc *gc;
    tidei_collector *c; /* the leader's: whose answer; NULL: a follower's */
    uint64_t round;
    const _Atomic uint64_t *count;
    uint64_t seen;
    bool asked; /* the follower has something to answer */
    size_t bytes;
    int level;
    bool ran;
    tidei_outcome how;
    uint64_t until_ns; /* until then the leader waits for those that have not begun to answer */
    bool late;
};

/* A thread that waits for others is counted until it has answered what it was asked meanwhile, or
** until a longjmp took it out of the wait. */
static void count_waits(tidei_gc *gc, uint64_t thread, bool more) {
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) {
        tidei_collector *c = &gc->at[i];
        if (!registered(c) || !is_bound(c) || c->thread != thread) continue;
        if (more)
            c->waits++;
        else if (c->waits) /* it was registered before */
            c->waits--;
    }
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

static void undo_wait(tidei_runtime *rt, tidei_thread *t, void *gc, uintptr_t thread) {
    (void)rt, (void)t;
    count_waits(gc, thread, false);
}

static void begin_wait(tidei_gc *gc, tidei_thread *t) {
    count_waits(gc, tidei_thread_serial(), true);
    tidei_hold(t, undo_wait, gc, tidei_thread_serial());
}

static void end_wait(tidei_gc *gc, tidei_thread *t) {
    tidei_let(t, gc);
    count_waits(gc, tidei_thread_serial(), false);
}

/* Waits by `fn`, and answers whatever is asked of this thread's collectors until the wait is
** over. */
static void wait_and_answer(struct wait *w, tidei_thread *t, void (*fn)(void *w)) {
    begin_wait(w->gc, t);
    do {
        tidei_blocking(w->gc->rt, fn, w);
        if (w->asked) answer(w->gc, t);
    } while (w->asked);
    end_wait(w->gc, t);
}

static void wait_for_round(void *p) {
    struct wait *w = p;
    tidei_gc *gc = w->gc;
    pthread_mutex_lock(&gc->lock);
    while (gc->running && gc->rounds == w->round && !mine_asked_locked(gc))
        tidei_cond_wait(&gc->changed, &gc->lock);
    w->asked = mine_asked_locked(gc);
    w->bytes = gc->round_bytes;
    w->level = gc->round_level;
    w->ran = gc->round_ran;
    pthread_mutex_unlock(&gc->lock);
}

static void wait_for_change(void *p) {
    struct wait *w = p;
    tidei_gc *gc = w->gc;
    pthread_mutex_lock(&gc->lock);
    while (atomic_load(w->count) == w->seen && !mine_asked_locked(gc))
        tidei_cond_wait(&gc->changed, &gc->lock);
    w->asked = mine_asked_locked(gc);
    pthread_mutex_unlock(&gc->lock);
}

/* The leader waits until the bound collector's thread has taken its request and is done with it, or
** has left the wait without taking it. */
static void wait_for_answer(void *p) {
    struct wait *w = p;
    tidei_collector *c = w->c;
    pthread_mutex_lock(&w->gc->lock);
    while (c->answers || (c->asked && c->waits)) tidei_cond_wait(&w->gc->changed, &w->gc->lock);
    if (!c->asked) w->how = c->last;
    pthread_mutex_unlock(&w->gc->lock);
}

/* If the collector's thread is waiting for this round, it answers now. */
static tidei_outcome ask_bound(tidei_gc *gc, tidei_collector *c, int level) {
    pthread_mutex_lock(&gc->lock);
    if (c->asked < level) c->asked = level;
    struct wait w = {.gc = gc, .c = c, .how = c->ended ? TIDEI_ENDED : TIDEI_ELSEWHERE};
    if (level == TIDE_COLLECT_FULL) c->how = w.how;
    atomic_store(&gc->asked, true);
    bool there = c->waits > 0;
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
    wake_all(gc);
    if (there) tidei_blocking(gc->rt, wait_for_answer, &w);
    return w.how;
}

/* Some bound collector was asked for a full collection by another thread, and may still do it or is
** doing it. `begun`: only those that are doing it. */
static bool expected_locked(tidei_gc *gc, bool begun) {
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) {
        const tidei_collector *c = &gc->at[i];
        if (!registered(c) || !bound_elsewhere(c)) continue;
        if (c->answers || (!begun && c->asked == TIDE_COLLECT_FULL && !c->ended)) return true;
    }
    return false;
}

static struct timespec moment(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* Waits for those that have begun, however long they take. */
static void wait_for_owners(void *p) {
    struct wait *w = p;
    tidei_gc *gc = w->gc;
    const struct timespec until = moment(w->until_ns);
    pthread_mutex_lock(&gc->lock);
    while (!mine_asked_locked(gc) && expected_locked(gc, w->late)) {
        if (w->late)
            tidei_cond_wait(&gc->changed, &gc->lock);
        else
            w->late = tidei_cond_wait_until(&gc->changed, &gc->lock, &until) == ETIMEDOUT;
    }
    w->asked = mine_asked_locked(gc);
    pthread_mutex_unlock(&gc->lock);
}

/* Notes which collectors were waited for and have not answered. Returns whether any had been
** asked. */
static bool note_late(tidei_gc *gc, bool late) {
    bool any = false;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) {
        tidei_collector *c = &gc->at[i];
        if (!registered(c) || !bound_elsewhere(c) || c->how == TIDEI_ENDED) continue;
        any |= c->asked || c->answers;
        if (late && c->asked) c->how = TIDEI_LATE;
    }
    pthread_mutex_unlock(&gc->lock);
    return any;
}

/* Waits for bound collectors of other threads, which the last full round only asked. */
bool tidei_gc_await(tidei_runtime *rt, uint64_t *patience_ns) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_thread *t = tidei_thread_get(rt);
    uint64_t began = tidei_now_ns();
    struct wait w = {.gc = gc, .until_ns = began + *patience_ns};
    if (!*patience_ns || !t || !note_late(gc, false)) return false;
    wait_and_answer(&w, t, wait_for_owners);
    uint64_t took = tidei_now_ns() - began;
    *patience_ns = took < *patience_ns ? *patience_ns - took : 0;
    (void)note_late(gc, w.late);
    return true;
}

/* ---- a round ---- */

/* Becomes the leader, or says which round is running. */
static bool lead(tidei_gc *gc, uint64_t *round) {
    pthread_mutex_lock(&gc->lock);
    bool mine = !gc->running;
    *round = gc->rounds;
    if (mine) gc->running = true;
    pthread_mutex_unlock(&gc->lock);
    return mine;
}

static void note_outcome(tidei_gc *gc, tidei_collector *c, tidei_outcome how) {
    pthread_mutex_lock(&gc->lock);
    c->how = how;
    pthread_mutex_unlock(&gc->lock);
}

/* Calls every collector; true if any of them collected. */
static bool run_collectors(tidei_gc *gc, tidei_thread *t, int level) {
    bool ran = false;
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) {
        tidei_collector *c = &gc->at[i];
        if (!registered(c) || !traces(c) || (level != TIDE_COLLECT_FULL && !offers(c, level)))
            continue;
        tidei_outcome how = !offers(c, level)    ? TIDEI_CANNOT
                            : bound_elsewhere(c) ? ask_bound(gc, c, level)
                                                 : run_here(gc, t, c, level);
        ran |= how == TIDEI_COLLECTED;
        if (level == TIDE_COLLECT_FULL && !bound_elsewhere(c)) note_outcome(gc, c, how);
    }
    return ran;
}

static void raise_to(_Atomic uint64_t *x, uint64_t v) {
    uint64_t old = atomic_load_explicit(x, memory_order_relaxed);
    while (old < v && !atomic_compare_exchange_weak(x, &old, v)) {}
}

static void count(tidei_runtime *rt, const tidei_collection *c, size_t bytes) {
    atomic_fetch_add(&rt->gc_counts.collections, 1);
    if (c->early) atomic_fetch_add(&rt->gc_counts.early_collections, 1);
    atomic_fetch_add(&rt->gc_counts.collect_ns, c->pause_ns);
    raise_to(&rt->gc_counts.collect_max_ns, c->pause_ns);
    atomic_fetch_add(&rt->gc_counts.collected, bytes);
    if (tidei_gc_of(rt)->boehm)
        atomic_store(&rt->gc_counts.gc_root_bytes, tidei_boehm_root_bytes());
}

static void tell_policy(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *after,
                        const tidei_collection *c) {
    if (g->run.policy->own) {
        tidei_gc_tell_own(gc, g, after, c);
        return;
    }
    pthread_mutex_lock(&gc->lock);
    tidei_policy_told(&g->run, &g->before, after, c);
    pthread_mutex_unlock(&gc->lock);
}

static void tell_host_policy(tidei_gc *gc, const tidei_collection *c) {
    tidei_policy_in after;
    snapshot_host(gc, gc->host.before.where, 0, &after);
    if (!gc->host.before.live && !after.live) return; /* nothing to be learnt */
    tell_policy(gc, &gc->host, &after, c);
}

static void tell_policies(tidei_gc *gc, const tidei_collection *c) {
    for (tidei_dev *d = NULL; (d = tidei_dev_next(gc->rt, d));) {
        tidei_gc_dev *g = &gc->devs[d->index];
        tidei_policy_in after;
        if (!g->before.total) continue; /* opened since the round began */
        snapshot(gc, d, g->before.where, 0, &after);
        tell_policy(gc, g, &after, c);
    }
    tell_host_policy(gc, c);
    wake_all(gc);
}

static void log_round(tidei_gc *gc, const tidei_collection *c, size_t bytes, const char *why) {
    char b[32];
    if (tidei_log_wants(gc->rt, TIDE_LOG_INFO))
        tidei_log(gc->rt, TIDE_LOG_INFO, "%s: collected %s in %.1f ms", why,
                  tidei_format_bytes(b, sizeof b, bytes, 1), (double)c->pause_ns / 1e6);
}

static void finish_round(tidei_gc *gc, int level, size_t bytes, bool ran) {
    pthread_mutex_lock(&gc->lock);
    gc->running = false;
    gc->rounds++;
    gc->round_level = level;
    gc->round_bytes = bytes;
    gc->round_ran = ran;
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

/* A longjmp took the leader out of a callback: the round ends, and threads that wait for it lead
** rounds of their own. */
static void undo_round(tidei_runtime *rt, tidei_thread *t, void *gc, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    finish_round(gc, 0, 0, false);
}

struct round {
    int level;
    tidei_where where;
    bool early, answers; /* only collectors bound to this thread, as they were asked to */
    const char *why;
};

/* What the collection finds, for a recording. */
static void record_state(tidei_gc *gc) {
    tidei_runtime *rt = gc->rt;
    if (tidei_likely(!rt->recorder)) return;
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));)
        tidei_recorder_queue(rt->recorder, d->index, tidei_streams_pending(d),
                             gc->devs[d->index].before.slack_ns);
    tidei_recorder_heap(rt->recorder,
                        atomic_load_explicit(&rt->deaths->headers, memory_order_relaxed),
                        gc->boehm ? tidei_boehm_heap_bytes() : 0);
}

/* The leader's part. What was dead before is drained first, so that the bytes freed afterwards are
** those that the collection found. */
static size_t run_round(tidei_gc *gc, tidei_thread *t, const struct round *r, bool *ran) {
    tidei_runtime *rt = gc->rt;
    tidei_collection c = {
        .level = r->level, .early = r->early, .forced = !r->early && t->depth_climb};
    const tidei_span span = {TIDEI_SPAN_COLLECTION, (unsigned)r->level,
                             r->level == TIDE_COLLECT_FULL ? "full collection" : "minor collection",
                             r->why};
    tidei_hold(t, undo_round, gc, 0);
    tidei_deepen(t, &t->depth_collect);
    tidei_drain(rt);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));)
        snapshot(gc, d, r->where, 0, &gc->devs[d->index].before);
    snapshot_host(gc, r->where, 0, &gc->host.before);
    record_state(gc);
    tidei_span_begin(rt, &span, 0);
    c.start_ns = now_ns(rt);
    tidei_clear_stack();
    *ran = r->answers ? answer(gc, t) : run_collectors(gc, t, r->level);
    size_t bytes = tidei_drain(rt);
    c.pause_ns = now_ns(rt) - c.start_ns;
    tidei_span_end(rt, &span, bytes);
    if (*ran) {
        count(rt, &c, bytes);
        tell_policies(gc, &c);
        log_round(gc, &c, bytes, r->why);
    }
    tidei_tell_weights(gc);
    tidei_rise(t, &t->depth_collect);
    tidei_let(t, gc);
    finish_round(gc, r->answers ? 0 : r->level, bytes, *ran);
    return bytes;
}

/* Does, as a round of its own, what this thread's bound collectors were asked for while the thread
** was elsewhere, unless a round is running. Other collectors do not run in it, so a thread that
** waits for its end does not count it as a collection. */
static void answer_late(tidei_gc *gc, tidei_thread *t) {
    if (tidei_likely(!atomic_load_explicit(&gc->asked, memory_order_relaxed))) return;
    pthread_mutex_lock(&gc->lock);
    tidei_collector *c = mine_asked_locked(gc);
    struct round r = {.level = c ? c->asked : 0,
                      .where = TIDEI_AT_SAFEPOINT,
                      .answers = true,
                      .why = "answer of a bound collector"};
    pthread_mutex_unlock(&gc->lock);
    uint64_t round;
    bool ran;
    if (!c) return;
    if (lead(gc, &round))
        run_round(gc, t, &r, &ran);
    else
        answer(gc, t);
}

/* ---- the slots ---- */

size_t tidei_gc_collect(tidei_runtime *rt, int level, const char *why, bool *ran) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_thread *t = tidei_thread_get(rt);
    bool unused;
    if (!ran) ran = &unused;
    *ran = false;
    if (!t || t->depth_collect || t->depth_drain || tidei_is_quiet(t)) return 0;
    answer_late(gc, t);
    struct wait w = {.gc = gc};
    while (!lead(gc, &w.round)) {
        wait_and_answer(&w, t, wait_for_round);
        if (w.level >= level) {
            *ran = w.ran;
            return w.bytes;
        }
    }
    return run_round(gc, t, &(struct round){.level = level, .where = TIDEI_AT_ALLOC, .why = why},
                     ran);
}

void tidei_gc_wait(tidei_runtime *rt, const _Atomic uint64_t *count, uint64_t seen) {
    struct wait w = {.gc = tidei_gc_of(rt), .count = count, .seen = seen};
    wait_and_answer(&w, tidei_thread_get(rt), wait_for_change);
}

void tidei_gc_wake(tidei_runtime *rt) {
    tidei_gc *gc = tidei_gc_of(rt);
    pthread_mutex_lock(&gc->lock);
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

/* Says in words why the collector was not reached; NULL: it was. */
static const char *why_not(tidei_gc *gc, const tidei_collector *c, uint64_t wait_ns, char *buf,
                           size_t cap) {
    switch (c->how) {
    case TIDEI_COLLECTED: break;
    case TIDEI_WAS_BUSY:
        return gc->boehm && own(gc, c) && tidei_boehm_held_off() ? "a thread blocks its signals"
                                                                 : "busy";
    case TIDEI_CANNOT: return "cannot";
    case TIDEI_ODD: return tidei_format(buf, cap, "answered %d", atomic_load(&c->answer)), buf;
    case TIDEI_ELSEWHERE: return "its thread is elsewhere";
    case TIDEI_LATE:
        return tidei_format(buf, cap, "its thread is elsewhere, waited %llu us",
                            (unsigned long long)wait_ns / 1000),
               buf;
    case TIDEI_ENDED: return "its thread has ended";
    }
    return NULL;
}

size_t tidei_gc_unreached(tidei_runtime *rt, char *buf, size_t cap) {
    tidei_gc *gc = tidei_gc_of(rt);
    char words[64];
    size_t n = 0;
    if (cap) *buf = 0;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) {
        const tidei_collector *c = &gc->at[i];
        const char *why =
            registered(c) ? why_not(gc, c, rt->set.collect_wait_ns, words, sizeof words) : NULL;
        if (why)
            n += (size_t)tidei_format(n < cap ? buf + n : NULL, n < cap ? cap - n : 0, "%s%s (%s)",
                                      n ? ", " : "", c->table.name, why);
    }
    pthread_mutex_unlock(&gc->lock);
    return n;
}

static uint64_t rounds_so_far(tidei_gc *gc) {
    pthread_mutex_lock(&gc->lock);
    uint64_t n = gc->rounds;
    pthread_mutex_unlock(&gc->lock);
    return n;
}

/* The policy's decision on a snapshot that was begun after so many `rounds`. If a round ended
** meanwhile, the snapshot is from before it and the policy's history from after it: they do not fit
** together, and no collection is decided. */
static tidei_decision judge(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *in,
                            uint64_t rounds) {
    pthread_mutex_lock(&gc->lock);
    bool running = gc->running, stale = gc->rounds != rounds;
    tidei_decision x = {0, stale ? 0 : in->live + RETRY_BYTES, ""};
    if (!running && !stale && !g->run.policy->own) x = tidei_policy_ask(&g->run, in);
    pthread_mutex_unlock(&gc->lock);
    if (g->run.policy->own) (void)tidei_gc_ask_own(gc, g, in, rounds, &x);
#ifdef TIDEI_STRESS
    if (!running && !stale && in->levels)
        x = (tidei_decision){tidei_policy_level(&g->run.history, in->levels), 0, "stress"};
#endif
    return x;
}

/* The largest request that needs no moves, of the pool that one is made of; 0: nobody knows. */
static uint64_t largest(tidei_pool *pool, const tidei_policy_in *in) {
    if (!pool) return 0;
    size_t on_device = in->available > in->backed ? (size_t)(in->available - in->backed) : 0;
    return tidei_pool_largest(pool, (size_t)in->request,
                              tidei_min_size(on_device, tidei_left_to_back(pool->dev)));
}

/* Which collection, if any; sets when to ask again. */
static int decide(tidei_gc *gc, tidei_dev *d, tidei_where where, size_t request, tidei_pool *pool) {
    tidei_policy_in in;
    uint64_t rounds = rounds_so_far(gc);
    snapshot(gc, d, where, request, &in);
    in.largest = largest(pool, &in);
    tidei_decision x = judge(gc, &gc->devs[d->index], &in, rounds);
    size_t wake = x.wake_at > SIZE_MAX ? SIZE_MAX : (size_t)x.wake_at;
    if (in.hard == TIDEI_NO_LIMIT && in.soft == TIDEI_NO_LIMIT && wake != SIZE_MAX)
        wake = tidei_min_size(wake, in.live + in.total / LOOK_AGAIN);
    atomic_store(&d->memory->wake_at, atomic_load(&gc->asked) ? 0 : wake);
    return x.level;
}

/* The same for the other devices, at a moment that is as good for them: it may be long before a
** thread allocates there and asks. */
static int decide_elsewhere(tidei_gc *gc, const tidei_dev *here) {
    int level = 0;
    for (tidei_dev *d = NULL; !level && (d = tidei_dev_next(gc->rt, d));)
        if (d != here && atomic_load_explicit(&d->budget->live, memory_order_relaxed))
            level = decide(gc, d, TIDEI_AT_SAFEPOINT, 0, NULL);
    return level;
}

static int decide_host(tidei_gc *gc, tidei_where where, size_t request) {
    tidei_policy_in in;
    uint64_t rounds = rounds_so_far(gc);
    if (!request && !atomic_load_explicit(&gc->rt->budget->live, memory_order_relaxed)) return 0;
    snapshot_host(gc, where, request, &in);
    tidei_decision x = judge(gc, &gc->host, &in, rounds);
    size_t wake = x.wake_at > SIZE_MAX ? SIZE_MAX : (size_t)x.wake_at;
    atomic_store(&gc->rt->budget->wake_at, atomic_load(&gc->asked) ? 0 : wake);
    return x.level;
}

void tidei_gc_ask_host(tidei_runtime *rt, size_t request) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_thread *t = tidei_thread_get(rt);
    if (!t || t->depth_collect || t->depth_drain || t->depth_climb || tidei_is_quiet(t)) return;
    answer_late(gc, t);
    if (!rt->set.gc_early || !atomic_load_explicit(&gc->offers, memory_order_relaxed)) {
        if (!atomic_load(&gc->asked)) atomic_store(&rt->budget->wake_at, SIZE_MAX);
        return;
    }
    if (tidei_deaths_pending(rt->deaths)) tidei_drain(rt);
    int level = decide_host(gc, TIDEI_AT_ALLOC, request);
    uint64_t round;
    bool ran = false;
    if (!level || !lead(gc, &round)) return;
    run_round(
        gc, t,
        &(struct round){.level = level, .where = TIDEI_AT_ALLOC, .early = true, .why = "early"},
        &ran);
    if (!ran) atomic_store(&rt->budget->wake_at, atomic_load(&rt->budget->live) + RETRY_BYTES);
}

void tidei_gc_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                  tidei_pool *pool) {
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_thread *t = tidei_thread_get(rt);
    if (!t || t->depth_collect || t->depth_drain || t->depth_climb || tidei_is_quiet(t)) return;
    answer_late(gc, t);
    if (where != TIDEI_AT_ALLOC) tidei_tell_weights(gc);
    if (!rt->set.gc_early || !atomic_load_explicit(&gc->offers, memory_order_relaxed)) {
        if (!atomic_load(&gc->asked)) atomic_store(&d->memory->wake_at, SIZE_MAX);
        return;
    }
    if (tidei_deaths_pending(rt->deaths)) tidei_drain(rt);
    int level = decide(gc, d, where, request, pool);
    if (!level && where == TIDEI_AT_SYNC) level = decide_elsewhere(gc, d);
    if (!level && where != TIDEI_AT_ALLOC) level = decide_host(gc, where, 0);
    uint64_t round;
    bool ran = false;
    if (!level || !lead(gc, &round)) return;
    run_round(gc, t, &(struct round){.level = level, .where = where, .early = true, .why = "early"},
              &ran);
    if (!ran)
        atomic_store(&d->memory->wake_at,
                     atomic_load(&d->budget->live) + RETRY_BYTES); /* all were busy */
}

tide_status tide_collect(tide_runtime *ref) {
    TIDEI_OPERATION("tide_collect");
    tidei_runtime *rt = tidei_entered(ref, "tide_collect");
    if (!rt) return tidei_last_status();
    tidei_drain(rt);
    tidei_collect(rt, TIDE_COLLECT_FULL, "tide_collect", NULL);
    return TIDE_OK;
}
