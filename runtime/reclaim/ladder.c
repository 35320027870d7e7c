/* ladder.c: the reclaim ladder: what happens when a request for device memory does not fit.
**
** One thread leads the climb; the others wait for it and try again. Each rung gives back what it
** can, cheapest first; after each the request is tried again, and the climb stops as soon as it
** fits. No lock is held across a rung. What the rungs do is not known here: each part registers its
** own (rungs.h), with their places in the order (rung.h).
** "Out of memory while memory is free" starts here. */
#include "runtime/memory/header.h"
#include "runtime/memory/recovery.h"
#include "runtime/observe/nvtx.h"
#include "runtime/observe/recorder.h"
#include "runtime/reclaim/contention.h"
#include "runtime/reclaim/ladder.h"
#include "runtime/reclaim/reclaim.h"
#include "runtime/reclaim/report.h"
#include "runtime/streams/loss.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

/* ---- the table of rungs ---- */

static void register_rung(tidei_reclaim *r, const tidei_rung *rung) {
    unsigned i = r->nrungs++;
    tidei_check(i < TIDEI_RUNGS_MOST);
    for (; i && r->rungs[i - 1]->place > rung->place; i--) r->rungs[i] = r->rungs[i - 1];
    tidei_check(!i || r->rungs[i - 1]->place != rung->place);
    r->rungs[i] = rung;
}

void tidei_rungs_register(tidei_runtime *rt, const tidei_rung *table) {
    for (; table->name; table++) register_rung(rt->reclaim, table);
}

/* ---- what no climb can serve ---- */

/* More than the device or the limit could ever hold: no rung can help. */
static bool absurd(tidei_climb *c) {
    const tidei_dev *d = c->d;
    if (tidei_on_host(c->kind) && c->bytes > d->rt->budget->limit) return c->by_host = true;
    if (!tidei_on_device(c->kind)) return false;
    return c->bytes > d->d->info.total_bytes ||
           c->bytes > atomic_load_explicit(&d->budget->limit, memory_order_relaxed);
}

static tide_status report_for(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what) {
    tidei_climb c = {
        .d = d, .bytes = bytes, .what = what, .kind = kind, .by_host = !tidei_on_device(kind)};
    (void)absurd(&c); /* sets whether the device's or the host's memory lacks */
    return tidei_climb_report(&c);
}

/* ---- leading and waiting ---- */

struct waiter {
    tidei_runtime *rt;
    uint64_t seen;
};
static void wait_for_leader(void *p) {
    struct waiter *w = p;
    pthread_mutex_lock(&w->rt->reclaim->climb_lock);
    while (w->rt->reclaim->climbing && w->rt->recovery->climbs_ended == w->seen)
        tidei_cond_wait(&w->rt->reclaim->climb_done, &w->rt->reclaim->climb_lock);
    pthread_mutex_unlock(&w->rt->reclaim->climb_lock);
}

/* True: the caller leads a climb. False: another thread's climb has ended since `seen` (this waited
** for it if need be), and the request is to be tried again first; otherwise threads that failed
** together would climb one after the other. */
static bool lead(tidei_runtime *rt, uint64_t seen) {
    struct waiter w = {rt, seen};
    pthread_mutex_lock(&rt->reclaim->climb_lock);
    bool climbing = rt->reclaim->climbing, mine = !climbing && rt->recovery->climbs_ended == seen;
    if (mine) rt->reclaim->climbing = true;
    pthread_mutex_unlock(&rt->reclaim->climb_lock);
    if (climbing && rt->gc_ops && rt->gc_ops->wait)
        /* waits so that the leader may ask a collector of this very thread */
        rt->gc_ops->wait(rt, &rt->recovery->climbs_ended, seen);
    else if (climbing)
        tidei_blocking(rt, wait_for_leader, &w);
    return mine;
}

static void stop_leading(tidei_runtime *rt) {
    pthread_mutex_lock(&rt->reclaim->climb_lock);
    rt->reclaim->climbing = false;
    rt->recovery->climbs_ended++;
    pthread_cond_broadcast(&rt->reclaim->climb_done);
    pthread_mutex_unlock(&rt->reclaim->climb_lock);
    if (rt->gc_ops && rt->gc_ops->wake) rt->gc_ops->wake(rt);
}

static void undo_lead(tidei_runtime *own, tidei_thread *t, void *rt, uintptr_t of) {
    (void)own, (void)t, (void)of;
    stop_leading(rt);
}

/* ---- the climb ---- */

/* Makes one rung give; returns the bytes. */
static size_t climb_rung(tidei_climb *c, unsigned i) {
    tidei_runtime *rt = c->d->rt;
    const tidei_rung *r = rt->reclaim->rungs[i];
    const tidei_span span = {TIDEI_SPAN_RUNG, i + 1, r->name, NULL};
    c->rung = i;
    tidei_span_begin(rt, &span, c->bytes);
    size_t given = r->give ? r->give(c) : 0;
    tidei_span_end(rt, &span, given);
    c->given[i] += given;
    c->climbed = i + 1;
    return given;
}

/* Tries the request again after a rung. */
static tide_status try_again(tidei_climb *c, unsigned flags, tidei_attempt_fn attempt, void *arg) {
    tidei_budget *budget = c->d->budget;
    tidei_threads_finish_deaths(c->d->rt); /* another thread may be finishing deaths just now */
    if (flags & TIDEI_ALLOC_FLUSHED) atomic_fetch_add(&budget->retries, 1);
    tide_error_clear();
    c->inflight_growth = atomic_load(&budget->inflight_growth.ended);
    return attempt(arg, flags);
}

/* Climbs all rungs in turn, until an attempt fits or fails for another reason. Returns the status
** of the last attempt, and the bytes that the rungs gave. */
static tide_status climb_rungs(tidei_climb *c, tidei_attempt_fn attempt, void *arg, size_t *freed) {
    tidei_runtime *rt = c->d->rt;
    tide_status status = TIDE_E_NOMEM;
    unsigned flags = 0;
    char b[32];
    for (unsigned i = 0; i < rt->reclaim->nrungs && status == TIDE_E_NOMEM;) {
        const tidei_rung *r = rt->reclaim->rungs[i];
        size_t given = climb_rung(c, i);
        /* what went to the driver the rungs before have mostly given to the pools already */
        *freed = r->to_driver ? tidei_max_size(*freed, given) : *freed + given;
        flags |= r->flags;
        status = try_again(c, flags, attempt, arg);
        if (status == TIDE_OK)
            tidei_log(rt, TIDE_LOG_INFO, "reclaim: freed %s at rung %s",
                      tidei_format_bytes(b, sizeof b, *freed, 3), r->name);
        if (!r->again || !given) i++;
    }
    if (status == TIDE_E_NOMEM)
        tidei_log(rt, TIDE_LOG_INFO, "reclaim: freed %s, which was not enough",
                  tidei_format_bytes(b, sizeof b, *freed, 3));
    return status;
}

static tide_status climb(tidei_climb *c, tidei_attempt_fn attempt, void *arg) {
    tidei_runtime *rt = c->d->rt;
    size_t freed = 0;
    const tidei_span span = {TIDEI_SPAN_CLIMB, 0, "climb", c->what};
    tidei_span_begin(rt, &span, c->bytes);
    atomic_fetch_add(&rt->reclaim->climbs, 1);
    tide_status status = climb_rungs(c, attempt, arg, &freed);
    atomic_fetch_add(&rt->reclaim->reclaimed, freed);
    tidei_span_end(rt, &span, freed);
    return status;
}

bool tidei_may_climb(const tidei_thread *t) {
    return t && !t->depth_climb && !t->depth_drain && !t->depth_collect && !tidei_is_quiet(t) &&
           !tidei_thread_above->slot();
}

/* ---- requests ---- */

/* Before the soft limit is passed: makes rungs give what they can without waiting, and tries
** again. */
static tide_status gently(tidei_dev *d, size_t bytes, tidei_attempt_fn attempt, void *arg) {
    tide_status status = attempt(arg, TIDEI_ALLOC_NO_GROW);
    if (status != TIDE_E_NOMEM) return status;
    tidei_thread *t = tidei_thread_get(d->rt);
    if (!tidei_may_climb(t)) return attempt(arg, 0);
    tidei_climb c = {.d = d, .bytes = bytes, .climb_id = tidei_climb_id_new(d->rt)};
    tidei_deepen(t, &t->depth_climb);
    for (unsigned i = 0; i < d->rt->reclaim->nrungs; i++) {
        const tidei_rung *r = d->rt->reclaim->rungs[i];
        if (r->give_gently) (void)r->give_gently(&c);
    }
    tidei_rise(t, &t->depth_climb);
    return attempt(arg, 0);
}

/* Where other threads took what the climb gave, or had memory on its way, the climber climbs again:
** at most so many times. */
#define CLIMBS 4

static tide_status climb_while_stolen_from(tidei_climb *c, tidei_attempt_fn attempt, void *arg) {
    tide_status status = TIDE_E_NOMEM;
    bool stolen_from = true;
    for (unsigned i = 0; i < CLIMBS && stolen_from && status == TIDE_E_NOMEM; i++) {
        tidei_contention_begin(c);
        status = climb(c, attempt, arg);
        stolen_from = status == TIDE_E_NOMEM && tidei_contended(c);
    }
    return status;
}

/* Called where an attempt did not fit. */
static tide_status make_room(tidei_climb *c, tidei_attempt_fn attempt, void *arg, uint64_t seen) {
    tidei_dev *d = c->d;
    tidei_thread *t = tidei_thread_get(d->rt);
    uint64_t patience_ns = d->rt->set.collect_wait_ns;
    if (!tidei_may_climb(t) || absurd(c)) return tidei_climb_report(c);
    while (!lead(d->rt, seen)) {
        seen = atomic_load_explicit(&d->rt->recovery->climbs_ended, memory_order_acquire);
        tide_status status = attempt(arg, 0);
        if (status != TIDE_E_NOMEM) return status;
    }
    c->climb_id = tidei_climb_id_new(d->rt);
    c->patience_ns = &patience_ns;
    tidei_hold(t, undo_lead, d->rt, 0);
    tidei_deepen(t, &t->depth_climb);
    tide_status status = climb_while_stolen_from(c, attempt, arg);
    tidei_rise(t, &t->depth_climb);
    tidei_let(t, d->rt);
    stop_leading(d->rt);
    if (status != TIDE_E_NOMEM) return status;
    /* moving blocks may have lost the device */
    return atomic_load(&d->d->lost) ? tidei_lost(d, c->what) : tidei_climb_report(c);
}

static tide_status climb_after(tidei_dev *d, size_t bytes, bool outside, const char *what,
                               tidei_attempt_fn attempt, void *arg, tidei_attempted first) {
    tidei_climb c = {.d = d, .bytes = bytes, .what = what, .outside = outside};
    tide_status status = first.status;
    if (status == TIDE_E_NOMEM) status = make_room(&c, attempt, arg, first.seen);
    /* attempts that failed on the way to success leave no error */
    if (status == TIDE_OK) tide_error_clear();
    return status;
}

static tide_status climb_aside(tidei_dev *d, size_t bytes, bool outside, const char *what,
                               tidei_attempt_fn attempt, void *arg) {
    bool soft = tidei_above_soft(d, bytes);
    tidei_saved_error before;
    tidei_error_save(&before);
    tidei_attempted first = {
        .seen = atomic_load_explicit(&d->rt->recovery->climbs_ended, memory_order_acquire)};
    first.status = soft ? gently(d, bytes, attempt, arg) : attempt(arg, 0);
    if (first.status == TIDE_OK && !soft) return TIDE_OK;
    /* The collections below would scan what earlier calls left on the stack here. */
    if (before.status == TIDE_OK) memset(before.text, 0, sizeof before.text);
    tide_status status = climb_after(d, bytes, outside, what, attempt, arg, first);
    if (status == TIDE_OK) tidei_error_restore(&before);
    return status;
}

/* ---- other kinds ---- */

struct kind_attempt {
    tidei_attempt_fn attempt;
    void *arg;
    tidei_climb *c;
};

/* Reports TIDE_E_HOST_NOMEM to the climb as TIDE_E_NOMEM: whichever memory is lacking, the same
** rungs may help. */
static tide_status attempt_of_kind(void *arg, unsigned flags) {
    struct kind_attempt *k = arg;
    tide_status status = k->attempt(k->arg, flags);
    k->c->by_host = status == TIDE_E_HOST_NOMEM;
    return k->c->by_host ? TIDE_E_NOMEM : status;
}

static tide_status climb_for_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what,
                                  tidei_attempt_fn attempt, void *arg) {
    tidei_climb c = {.d = d, .bytes = bytes, .what = what, .kind = kind};
    struct kind_attempt k = {attempt, arg, &c};
    bool soft = tidei_on_device(kind) && tidei_above_soft(d, bytes);
    uint64_t seen = atomic_load_explicit(&d->rt->recovery->climbs_ended, memory_order_acquire);
    tidei_saved_error before;
    tidei_error_save(&before);
    if (before.status == TIDE_OK) memset(before.text, 0, sizeof before.text);
    tide_status status = soft ? gently(d, bytes, attempt_of_kind, &k) : attempt_of_kind(&k, 0);
    if (status == TIDE_E_NOMEM) status = make_room(&c, attempt_of_kind, &k, seen);
    if (status == TIDE_OK) tidei_error_restore(&before);
    return status;
}

void tidei_ladder_open(tidei_runtime *rt) {
    tidei_recovery *r = &rt->reclaim->recovery;
    *r = (tidei_recovery){.after = climb_after,
                          .aside = climb_aside,
                          .of_kind = climb_for_kind,
                          .report = report_for};
    rt->recovery = r;
}
