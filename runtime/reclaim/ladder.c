/* ladder.c: the reclaim ladder: what happens when a request for device memory does not fit.
**
** One thread leads the climb; the others wait for it and try again. Each rung gives back what it
** can, cheapest first; after each the request is tried again, and the climb stops as soon as it
** fits. No lock is held across a rung. A request for a block can be served from free parts of pages
** too, in the end by moving other blocks. A request for memory *outside* the pools, for a library's
** handle say, cannot use free parts of pages: for it blocks are moved off pages, which go back to
** the device. "Out of memory while memory is free" starts here. */
#include "runtime/reclaim/neighbours.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/header.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/memory/spill.h"
#include "runtime/observe/recorder.h"
#include "runtime/streams/loss.h"
#include "runtime/reclaim/ladder.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <sched.h>
#include <time.h>

/* ---- rungs ---- Each returns the bytes it gave: to the pool, or to the driver. */

#define RUNGS 14
#define SPILL 12 /* the rung that spills, from 0 on */

struct climb {
    tidei_dev *d;
    size_t bytes;
    const char *what;
    tidei_mem_kind kind;
    bool outside; /* the memory wanted is for no pool */
    bool by_host; /* the last attempt lacked the host's memory */
    size_t given[RUNGS];
    unsigned climbed;         /* rungs that ran */
    uint64_t inflight_growth; /* growths that had ended before the last attempt */
    uint64_t climb_id;        /* names the climb where failures of reclaimables are logged */
    uint64_t *patience_ns;    /* time left to wait for collectors of other threads */
};

/* The kinds of memory that help this request. */
static unsigned kinds_of(const struct climb *c) {
    return c->kind == TIDEI_MEM_PINNED    ? TIDEI_KINDS_ON_HOST
           : c->kind == TIDEI_MEM_UNIFIED ? TIDEI_KINDS_ALL
                                          : TIDEI_KINDS_ON_DEVICE;
}

/* The next device whose pools may hold the memory that is short: all devices share the host's
** budget. */
static tidei_dev *next_short(const struct climb *c, const tidei_dev *after) {
    return tidei_on_host(c->kind) ? tidei_dev_next(c->d->rt, after) : after ? NULL : c->d;
}

/* The bytes in use, which no request can have: of the device's memory, or of the host's. */
static size_t occupied(const struct climb *c) {
    size_t bytes = tidei_on_device(c->kind) ? tidei_library_bytes(c->d) : 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));) {
        tidei_pool_stats ps;
        tidei_pools_stats_of(d, d == c->d ? kinds_of(c) : TIDEI_KINDS_ON_HOST, &ps);
        bytes += ps.live + ps.rounding + ps.pending;
    }
    return bytes;
}

/* What reclaimables gave: memory of ours, which shows in the pools' figures, or memory that only
** they know (`said`). */
static size_t given_since(const struct climb *c, size_t before, size_t said) {
    size_t now = occupied(c);
    return tidei_max_size(said, before > now ? before - now : 0);
}

static size_t settle(const struct climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));) bytes += tidei_pools_settle(d);
    return bytes;
}
static size_t wait_for_work(const struct climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));)
        if (tidei_streams_wait_users(d) == TIDE_OK) bytes += tidei_pools_synced(d);
    return bytes + settle(c);
}
static size_t rung_trim(const struct climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));)
        bytes += tidei_pools_trim(d, d == c->d ? kinds_of(c) : TIDEI_KINDS_ON_HOST);
    return bytes;
}
/* The bytes that a request outside the pools lacks, of the limit or of the device. Where both seem
** to have enough and it was refused all the same: all that it wants. */
static size_t lacking(const struct climb *c) {
    tidei_dev *d = c->d;
    size_t limit = tidei_hard_limit(d),
           used = atomic_load(&d->budget->backed) + tidei_library_bytes(d), free_bytes, total;
    size_t left = used < limit ? limit - used : 0;
    if (d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_OK)
        left = tidei_min_size(left, free_bytes);
    return c->bytes > left ? c->bytes - left : c->bytes;
}

/* Moves blocks off pages where so many bytes are free on pages. */
static size_t clear(tidei_dev *d, unsigned kinds, size_t bytes) {
    tidei_pool_stats ps;
    tidei_pools_stats_of(d, kinds, &ps);
    return ps.cached + ps.pending < bytes ? 0 : tidei_pools_clear(d, kinds, bytes);
}

/* Trims; for a request outside the pools pages are cleared too. */
static size_t give_to_driver(const struct climb *c) {
    size_t wanted = c->outside ? lacking(c) : 0, bytes = rung_trim(c);
    return bytes < wanted ? bytes + clear(c->d, kinds_of(c), wanted - bytes) : bytes;
}
/* Calls the reclaimables, and drains: arrays that they let go of are dead, and in the queue. */
static size_t purge(const struct climb *c, tidei_reclaim_slot which) {
    size_t before = occupied(c), said = tidei_reclaimables_call(c->d, which, c->bytes, c->climb_id);
    tidei_drain(c->d->rt);
    settle(c);
    return given_since(c, before, said);
}

static size_t rung_drain(const struct climb *c) { return tidei_drain(c->d->rt); }
static size_t rung_settle(const struct climb *c) { return settle(c); }
static size_t rung_purge_cheap(const struct climb *c) { return purge(c, TIDEI_PURGE_CHEAP); }
static size_t rung_minor(const struct climb *c) {
    return tidei_collect(c->d->rt, TIDE_COLLECT_MINOR, "reclaim", NULL);
}
/* all it does is to set its flag */
static size_t rung_flag(const struct climb *c) { return (void)c, (size_t)0; }
static size_t rung_compact(const struct climb *c) {
    return c->outside ? give_to_driver(c) : rung_flag(c);
}
static size_t rung_full(const struct climb *c) {
    return tidei_collect(c->d->rt, TIDE_COLLECT_FULL, "reclaim", NULL);
}
static size_t rung_purge(const struct climb *c) { return purge(c, TIDEI_PURGE); }
static size_t rung_wait(const struct climb *c) { return wait_for_work(c); }
/* Makes reclaimables drop live state, and then gives back all that this leaves dead, idle or
** pending. */
static size_t rung_drop(const struct climb *c) {
    size_t before = occupied(c),
           said = tidei_reclaimables_call(c->d, TIDEI_DROP, c->bytes, c->climb_id);
    rung_full(c);
    tidei_drain(c->d->rt);
    said += tidei_reclaimables_call(c->d, TIDEI_PURGE, c->bytes, c->climb_id);
    tidei_drain(c->d->rt);
    wait_for_work(c);
    size_t given = given_since(c, before, said), to_driver = give_to_driver(c);
    return c->outside ? tidei_max_size(given, to_driver) : given;
}
static size_t rung_neighbours(const struct climb *c) {
    return kinds_of(c) & TIDEI_KIND_BIT(TIDEI_MEM_DEVICE) ? tidei_neighbours_ask(c->d, c->bytes)
                                                          : 0;
}

/* Waits for collectors of other threads, which the full collection only asked. */
static size_t rung_await(const struct climb *c) {
    tidei_runtime *rt = c->d->rt;
    size_t before = occupied(c);
    if (!rt->gc_ops || !rt->gc_ops->await || !rt->gc_ops->await(rt, c->patience_ns)) return 0;
    tidei_drain(rt);
    settle(c);
    return given_since(c, before, 0);
}

/* Spills what would be lacking if free memory were in one piece; if that was not enough, as much
** again as was spilled so far. */
static size_t rung_spill(const struct climb *c) {
    tidei_dev *d = c->d;
    tidei_pool_stats ps;
    if (!d->rt->set.spill || c->by_host || !tidei_on_device(c->kind) ||
        tidei_thread_get(d->rt)->depth_optional)
        return 0;
    tidei_pools_stats(d, &ps);
    size_t limit = tidei_min_size(tidei_hard_limit(d), d->d->info.total_bytes);
    size_t want = ps.live + ps.rounding + tidei_library_bytes(d) + c->bytes,
           lacking = want > limit ? want - limit : 1;
    size_t given = tidei_spill(d, tidei_max_size(lacking, c->given[SPILL]));
    if (!given) return 0;
    rung_wait(c);
    give_to_driver(c);
    return given;
}

static const struct rung {
    const char *name;
    size_t (*climb)(const struct climb *c);
    unsigned flags; /* of the attempts from this rung on */
} ladder[] = {
    {"drain", rung_drain, 0},
    {"settle", rung_settle, 0},
    {"purge idle caches", rung_purge_cheap, 0},
    {"minor collection", rung_minor, 0},
    {"steal", rung_flag, TIDEI_ALLOC_STEAL}, /* the block's first use waits, on the device */
    {"full collection", rung_full, TIDEI_ALLOC_STEAL},
    {"purge idle handles", rung_purge, TIDEI_ALLOC_STEAL}, /* destroying one syncs the device */
    {"wait for streams", rung_wait, TIDEI_ALLOC_STEAL},
    /* other blocks may be moved for the request */
    {"compact", rung_compact, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE},
    {"trim", rung_trim, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED},
    {"drop library state", rung_drop, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED},
    {"ask neighbours", rung_neighbours, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED},
    {"spill", rung_spill,
     TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED}, /* again as long as it gives */
    {"wait for collectors", rung_await, TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED},
};
_Static_assert(TIDEI_COUNT(ladder) == RUNGS, "a place for what each gave");

/* ---- the report ---- */

#define HOLDERS 3
struct holder {
    size_t bytes;
    tidei_layout lay;
};
struct holders {
    tidei_dev *d;
    struct holder top[HOLDERS];
};

static void note_holder(tidei_header *h, void *user) {
    struct holders *x = user;
    struct holder one;
    tidei_dev *d;
    if (!tidei_header_look(h, &d, &one.bytes, &one.lay) || d != x->d || tidei_header_spilled(h))
        return;
    for (unsigned i = 0; i < HOLDERS; i++)
        if (one.bytes > x->top[i].bytes) {
            struct holder swap = x->top[i];
            x->top[i] = one;
            one = swap;
        }
}

struct text {
    char *at;
    size_t left;
};
__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = tidei_vformat(t->at, t->left, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= t->left) n = t->left ? (int)t->left - 1 : 0;
    t->at += n;
    t->left -= (size_t)n;
}
static const char *size_text(char buf[32], size_t bytes) {
    return bytes == SIZE_MAX ? "none" : tidei_format_bytes(buf, 32, bytes, 3);
}

static void put_holders(struct text *t, tidei_dev *d) {
    struct holders x = {.d = d};
    char b[32];
    tidei_each_header(d->rt->deaths, note_holder, &x);
    for (unsigned i = 0; i < HOLDERS && x.top[i].bytes; i++) {
        put(t, "%s%s %s (", i ? ", " : "\n  largest holders: ", size_text(b, x.top[i].bytes),
            tide_dtype_name(x.top[i].lay.dtype));
        for (int k = 0; k < x.top[i].lay.ndim; k++)
            put(t, k ? ", %lld" : "%lld", (long long)x.top[i].lay.shape[k]);
        put(t, ")");
    }
}

/* Adds a remedy only where one fits the figures. Cached memory may be of no use to the request, so
** it does not count. */
static void put_remedy(struct text *t, const struct climb *c, const tidei_pool_stats *ps,
                       size_t limit) {
    const tidei_device_info *info = &c->d->d->info;
    size_t page = info->page_bytes, held = ps->live + ps->rounding;
    char b[32];
    if (c->bytes > info->total_bytes) {
        put(t, "\n  the device has less than that in all");
        return;
    }
    /* bytes in pages of the pool */
    size_t want = tidei_round_up(held + tidei_round_up(c->bytes, info->align), page);
    want = tidei_round_up(want + tidei_library_bytes(c->d), page);
    if (want > limit && want <= info->total_bytes)
        put(t, "\n  remedy: a limit of %s or more (%zu bytes; TIDE_LIMIT, tide_device_set_limit)",
            size_text(b, want), want);
}

static void put_rungs(struct text *t, const struct climb *c) {
    char b[32];
    for (unsigned i = 0; i < c->climbed; i++)
        put(t, "%s%s %s", i ? ", " : "\n  given by rung: ", ladder[i].name,
            size_text(b, c->given[i]));
}

static void put_reclaimables(struct text *t, const struct climb *c) {
    char list[640];
    if (tidei_reclaimables_text(c->d, list, sizeof list))
        put(t, "\n  held by what can be reclaimed: %s", list);
}

static void put_unreached(struct text *t, const struct climb *c) {
    char names[512];
    tidei_runtime *rt = c->d->rt;
    if (rt->gc_ops && rt->gc_ops->unreached && c->climbed &&
        rt->gc_ops->unreached(rt, names, sizeof names))
        put(t, "\n  collectors not reached: %s", names);
}

/* no pool's granule is smaller; it is the device's alignment if that is more */
#define HOST_GRANULE ((size_t)512)

/* Names a limit with which the request fits beside all that is backed: after a climb nothing of
** that could be given back, and without one it is not known what could. */
static void put_host_remedy(struct text *t, const struct climb *c) {
    char b[32];
    const tidei_host_budget *h = c->d->rt->budget;
    size_t whole = 2 * tidei_host_default_memory(),
           align = tidei_max_size(c->d->d->info.align, HOST_GRANULE);
    if (c->bytes > whole) {
        put(t, "\n  the machine has less than that in all");
        return;
    }
    size_t want = atomic_load(&h->backed) + tidei_round_up(c->bytes, align);
    if (want > h->limit)
        put(t,
            "\n  remedy: device memory where the host need not reach (tide_to_memory), or a limit "
            "of %s or more "
            "(%zu bytes; TIDE_PINNED_LIMIT)",
            size_text(b, want), want);
}

/* Reports that host memory is lacking, under its own status. */
static tide_status report_host(const struct climb *c) {
    const tidei_host_budget *h = c->d->rt->budget;
    char cause[160] = "", buf[2000], b[4][32];
    struct text t = {buf, sizeof buf};
    tidei_pool_stats pinned, unified;
    if (c->climbed)
        tidei_format(cause, sizeof cause, "%.*s", (int)strcspn(tide_error_last()->message, "\n"),
                     tide_error_last()->message);
    tidei_pools_stats_of(c->d, TIDEI_KIND_BIT(TIDEI_MEM_PINNED), &pinned);
    tidei_pools_stats_of(c->d, TIDEI_KIND_BIT(TIDEI_MEM_UNIFIED), &unified);
    put(&t, "out of host memory for arrays on %s: %s of %s memory wanted by %s\n",
        c->d->d->info.name, c->bytes == SIZE_MAX ? "16 EiB or more" : size_text(b[0], c->bytes),
        tidei_kind_name(c->kind), c->what);
    put(&t, "  limit %s, reserved %s; live: pinned %s, unified %s", size_text(b[0], h->limit),
        size_text(b[1], atomic_load(&h->backed)), size_text(b[2], pinned.live),
        size_text(b[3], unified.live));
    put_rungs(&t, c);
    if (*cause) put(&t, "\n  the last attempt: %s", cause);
    put_unreached(&t, c);
    put_host_remedy(&t, c);
    return tidei_fail(TIDE_E_HOST_NOMEM, c->what, "%s", buf);
}

static tide_status report(const struct climb *c) {
    tidei_dev *d = c->d;
    if (c->by_host) return report_host(c);
    char cause[160] = "";
    if (c->climbed && tidei_last_status() == TIDE_E_NOMEM) /* the last attempt's own words */
        tidei_format(cause, sizeof cause, "%.*s", (int)strcspn(tide_error_last()->message, "\n"),
                     tide_error_last()->message);
    char buf[3300], b[7][32];
    struct text t = {buf, sizeof buf};
    tidei_pool_stats ps;
    size_t free_bytes = 0, total = d->d->info.total_bytes, limit = atomic_load(&d->budget->limit),
           driver_total;
    tidei_pools_stats(d, &ps);
    bool known = d->d->ops->memory(d->d, &free_bytes, &driver_total) == TIDE_OK;
    put(&t, "out of memory on %s: %s wanted by %s\n", d->d->info.name,
        c->bytes == SIZE_MAX ? "16 EiB or more" : size_text(b[0], c->bytes), c->what);
    put(&t, "  total %s, free on the device %s, limit %s\n", size_text(b[0], total),
        known ? size_text(b[1], free_bytes) : "unknown", size_text(b[2], limit));
    put(&t,
        "  live %s (pinned %s), rounding %s, cached %s, pending %s, reserved %s, library state %s",
        size_text(b[0], ps.live), size_text(b[6], tidei_pools_pinned(d)),
        size_text(b[1], ps.rounding), size_text(b[2], ps.cached), size_text(b[3], ps.pending),
        size_text(b[4], ps.backed), size_text(b[5], tidei_library_bytes(d)));
    size_t spilled = atomic_load(&d->memory->spilled);
    if (spilled) put(&t, "; spilled to pinned memory %s", size_text(b[6], spilled));
    put(&t, "\n  largest piece that fits now: %s", size_text(b[0], ps.largest));
    put_rungs(&t, c);
    if (*cause) put(&t, "\n  the last attempt: %s", cause);
    put_holders(&t, d);
    put_reclaimables(&t, c);
    put_unreached(&t, c);
    put_remedy(&t, c, &ps, limit);
    return tidei_fail(TIDE_E_NOMEM, c->what, "%s", buf);
}

/* More than the device or the limit could ever hold: no rung can help. */
static bool absurd(struct climb *c) {
    const tidei_dev *d = c->d;
    if (tidei_on_host(c->kind) && c->bytes > d->rt->budget->limit) return c->by_host = true;
    if (!tidei_on_device(c->kind)) return false;
    return c->bytes > d->d->info.total_bytes ||
           c->bytes > atomic_load_explicit(&d->budget->limit, memory_order_relaxed);
}

static tide_status report_for(tidei_dev *d, tidei_mem_kind kind, size_t bytes, const char *what) {
    struct climb c = {
        .d = d, .bytes = bytes, .what = what, .kind = kind, .by_host = !tidei_on_device(kind)};
    (void)absurd(&c); /* sets whether the device's or the host's memory lacks */
    return report(&c);
}

/* ---- the climb ---- */

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

/* Climbs all rungs in turn, until an attempt fits or fails for another reason. */
static tide_status climb(struct climb *c, tidei_attempt_fn attempt, void *arg) {
    tidei_runtime *rt = c->d->rt;
    tide_status status = TIDE_E_NOMEM;
    size_t freed = 0;
    char b[32];
    const tidei_span span = {TIDEI_SPAN_CLIMB, 0, "climb", c->what};
    tidei_span_begin(rt, &span, c->bytes);
    atomic_fetch_add(&rt->reclaim->climbs, 1);
    for (unsigned i = 0; i < RUNGS && status == TIDE_E_NOMEM;) {
        const tidei_span rung = {TIDEI_SPAN_RUNG, i + 1, ladder[i].name, NULL};
        tidei_span_begin(rt, &rung, c->bytes);
        size_t given = ladder[i].climb(c);
        tidei_span_end(rt, &rung, given);
        c->given[i] += given;
        /* The rungs before these have mostly given to the pools already what these give to the
        ** driver. */
        bool to_driver = ladder[i].climb == rung_trim || ladder[i].climb == rung_compact;
        freed = to_driver ? tidei_max_size(freed, given) : freed + given;
        c->climbed = i + 1;
        tidei_threads_finish_deaths(rt); /* another thread may be finishing deaths just now */
        if (ladder[i].flags & TIDEI_ALLOC_FLUSHED) atomic_fetch_add(&c->d->budget->retries, 1);
        tide_error_clear();
        c->inflight_growth = atomic_load(&c->d->budget->inflight_growth.ended);
        status = attempt(arg, ladder[i].flags);
        if (status == TIDE_OK)
            tidei_log(rt, TIDE_LOG_INFO, "reclaim: freed %s at rung %s",
                      tidei_format_bytes(b, sizeof b, freed, 3), ladder[i].name);
        if (ladder[i].climb != rung_spill || !given) i++;
    }
    if (status == TIDE_E_NOMEM)
        tidei_log(rt, TIDE_LOG_INFO, "reclaim: freed %s, which was not enough",
                  tidei_format_bytes(b, sizeof b, freed, 3));
    atomic_fetch_add(&rt->reclaim->reclaimed, freed);
    tidei_span_end(rt, &span, freed);
    return status;
}

/* Whether the thread may climb: not inside a callback of the ladder's, a drain or a collection. */
static bool may_reclaim(const tidei_thread *t) {
    return t && !t->depth_climb && !t->depth_drain && !t->depth_collect && !tidei_is_quiet(t) &&
           !tidei_inside_reclaimable();
}

/* Before the soft limit is passed: gives back what can be given without waiting, and tries again.
** Not memory of the other kinds: the driver waits for the device before it takes that back. */
static tide_status gently(tidei_dev *d, size_t bytes, tidei_attempt_fn attempt, void *arg) {
    tide_status status = attempt(arg, TIDEI_ALLOC_NO_GROW);
    if (status != TIDE_E_NOMEM) return status;
    tidei_thread *t = tidei_thread_get(d->rt);
    if (!may_reclaim(t)) return attempt(arg, 0);
    struct climb c = {.d = d, .bytes = bytes, .climb_id = tidei_climb_id_new(d->rt)};
    tidei_deepen(t, &t->depth_climb);
    rung_drain(&c);
    rung_settle(&c);
    rung_purge_cheap(&c);
    tidei_pools_trim(d, TIDEI_KIND_BIT(TIDEI_MEM_DEVICE));
    tidei_rise(t, &t->depth_climb);
    return attempt(arg, 0);
}

/* Other threads may take what a rung gave before the climber tries it. They go on as long as there
** is something to take, so a climber that is slow fails although there was enough; and what they
** are getting or giving back just now nobody can have. So where other threads were at work the
** climber climbs again, at most so many times. */
#define CLIMBS 4

/* Growth in flight is a few calls of the driver, which may take long: so this yields the processor
** after a few looks. */
static void wait_for_inflight_growth(void *p) {
    const struct climb *c = p;
    const tidei_inflight_growth *t = &c->d->budget->inflight_growth;
    for (unsigned i = 0; atomic_load(&t->under_way) && atomic_load(&t->ended) == c->inflight_growth;
         i++) {
        if (i < 64)
            sched_yield();
        else
            tidei_nap(50000);
    }
}

/* Whether there was growth in flight during the last attempt. If there still is, waits until one
** ends. */
static bool missed_growth(struct climb *c) {
    const tidei_inflight_growth *t = &c->d->budget->inflight_growth;
    bool missed = atomic_load(&t->under_way) || atomic_load(&t->ended) != c->inflight_growth;
    if (missed) tidei_blocking(c->d->rt, wait_for_inflight_growth, c);
    return missed;
}

static uint64_t handed_out(tidei_dev *d) {
    tidei_pool_stats ps;
    tidei_pools_stats_of(d, TIDEI_KINDS_ALL, &ps);
    return ps.allocs;
}

static tide_status climb_while_stolen_from(struct climb *c, tidei_attempt_fn attempt, void *arg) {
    tide_status status = TIDE_E_NOMEM;
    bool stolen_from = true;
    for (unsigned i = 0; i < CLIMBS && stolen_from && status == TIDE_E_NOMEM; i++) {
        uint64_t before = handed_out(c->d);
        status = climb(c, attempt, arg);
        stolen_from = status == TIDE_E_NOMEM && (missed_growth(c) || handed_out(c->d) != before);
    }
    return status;
}

/* Called where an attempt did not fit. */
static tide_status make_room(struct climb *c, tidei_attempt_fn attempt, void *arg, uint64_t seen) {
    tidei_dev *d = c->d;
    tidei_thread *t = tidei_thread_get(d->rt);
    uint64_t patience_ns = d->rt->set.collect_wait_ns;
    if (!may_reclaim(t) || absurd(c)) return report(c);
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
    return atomic_load(&d->d->lost) ? tidei_lost(d, c->what) : report(c);
}

static tide_status climb_after(tidei_dev *d, size_t bytes, bool outside, const char *what,
                               tidei_attempt_fn attempt, void *arg, tidei_attempted first) {
    struct climb c = {.d = d, .bytes = bytes, .what = what, .outside = outside};
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
    struct climb *c;
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
    struct climb c = {.d = d, .bytes = bytes, .what = what, .kind = kind};
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

/* ---- of a runtime ---- */

void tidei_reclaim_init(tidei_runtime *rt) {
    tidei_reclaim *r = rt->reclaim;
    r->recovery.after = climb_after;
    r->recovery.aside = climb_aside;
    r->recovery.of_kind = climb_for_kind;
    r->recovery.report = report_for;
    rt->recovery = &r->recovery;
    pthread_mutex_init(&r->reclaimables_lock, NULL);
    pthread_cond_init(&r->reclaimables_idle, NULL);
    pthread_mutex_init(&r->climb_lock, NULL);
    pthread_cond_init(&r->climb_done, NULL);
}

void tidei_reclaim_end(tidei_runtime *rt) {
    tidei_reclaim *r = rt->reclaim;
    pthread_mutex_destroy(&r->reclaimables_lock);
    pthread_cond_destroy(&r->reclaimables_idle);
    pthread_mutex_destroy(&r->climb_lock);
    pthread_cond_destroy(&r->climb_done);
}

/* ---- by hand ---- */

/* Walks the devices meant: one, or (NULL) all. */
static tidei_dev *next_of(tidei_runtime *rt, tidei_dev *only, const tidei_dev *after) {
    return !only ? tidei_dev_next(rt, after) : after ? NULL : only;
}

static void give_back(tidei_dev *d, int level, uint64_t climb_id) {
    if (level >= TIDE_RECLAIM_SYNC) tidei_streams_wait_users(d);
    tidei_reclaimables_call(d, TIDEI_PURGE, SIZE_MAX, climb_id);
    tidei_drain(d->rt);
    if (level >= TIDE_RECLAIM_SYNC && tidei_streams_wait_users(d) == TIDE_OK) tidei_pools_synced(d);
    tidei_pools_settle(d);
    tidei_pools_trim(d, TIDEI_KINDS_ALL);
}

static void reclaim(tidei_runtime *rt, tidei_dev *only, int level) {
    uint64_t climb_id = tidei_climb_id_new(rt);
    for (tidei_dev *d = NULL; level >= TIDE_RECLAIM_DROP && (d = next_of(rt, only, d));)
        tidei_reclaimables_call(d, TIDEI_DROP, SIZE_MAX, climb_id);
    if (level >= TIDE_RECLAIM_GC) tidei_collect(rt, TIDE_COLLECT_FULL, "tide_reclaim", NULL);
    tidei_drain(rt);
    for (tidei_dev *d = NULL; level >= TIDE_RECLAIM_SPILL && (d = next_of(rt, only, d));)
        tidei_spill(d, SIZE_MAX);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) give_back(d, level, climb_id);
}

/* The bytes taken from the driver, host memory included, spilled storages not. */
static size_t taken(tidei_dev *d) {
    tidei_pool_stats pinned;
    tidei_pools_stats_of(d, TIDEI_KIND_BIT(TIDEI_MEM_PINNED), &pinned);
    size_t spilled = tidei_min_size(atomic_load(&d->memory->spilled), pinned.backed);
    return atomic_load(&d->budget->backed) + tidei_library_bytes(d) + pinned.backed - spilled;
}

size_t tidei_reclaim_by_hand(tidei_runtime *rt, tidei_dev *only, int level) {
    tidei_thread *t = tidei_thread_get(rt);
    size_t before = 0, after = 0;
    if (!may_reclaim(t)) return 0;
    tidei_deepen(t, &t->depth_climb);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) before += taken(d);
    reclaim(rt, only, level);
    for (tidei_dev *d = NULL; (d = next_of(rt, only, d));) after += taken(d);
    tidei_rise(t, &t->depth_climb);
    return before > after ? before - after : 0;
}

size_t tidei_reclaim_pages(tidei_dev *d, size_t bytes) {
    tidei_thread *t = tidei_thread_get(d->rt);
    tidei_saved_error before;
    if (!may_reclaim(t)) return 0;
    tidei_error_save(&before);
    tidei_deepen(t, &t->depth_climb);
    size_t given = clear(d, TIDEI_KINDS_ON_DEVICE, bytes);
    tidei_rise(t, &t->depth_climb);
    tidei_error_restore(&before);
    return given;
}

tide_status tide_reclaim(tide_runtime *ref, int level, size_t *freed) {
    TIDEI_OPERATION("tide_reclaim");
    tidei_runtime *rt = tidei_entered(ref, "tide_reclaim");
    if (!rt) return tidei_last_status();
    if (level < TIDE_RECLAIM_PURGE || level > TIDE_RECLAIM_SPILL)
        return tidei_fail(TIDE_E_INVALID, "tide_reclaim",
                          "level %d is none of TIDE_RECLAIM_PURGE (0) to TIDE_RECLAIM_SPILL (4)",
                          level);
    size_t given = tidei_reclaim_by_hand(rt, NULL, level);
    if (freed) *freed = given;
    return TIDE_OK;
}
