/* runtime.c: opening and closing a runtime's own half, what its devices' failures are called,
** limits, streams for users. */
#include "runtime/figures.h"
#include "runtime/memory/external_alloc.h"
#include "runtime/reclaim/neighbours.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/runtime.h"
#include "runtime/base/text.h"
#include "runtime/observe/tracker.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/device.h>

static _Atomic uint64_t serials;

/* ---- logging by default ---- */

static void log_to_stderr(void *user, int level, const char *line) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    char text[TIDEI_MESSAGE_MAX + 32];
    (void)user;
    tidei_format(text, sizeof text, "tidepool %s: %s\n", names[level], line);
    fputs(text, stderr);
}

/* ---- the collectors' slots ---- */

void tidei_blocking(tidei_runtime *rt, void (*fn)(void *arg), void *arg) {
    if (rt->gc_ops)
        rt->gc_ops->blocking(rt, fn, arg);
    else
        fn(arg);
}

void tidei_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request) {
    if (rt->gc_ops) rt->gc_ops->ask(rt, d, where, request);
}

void tidei_ask_host(tidei_runtime *rt, size_t request) {
    if (rt->gc_ops && rt->gc_ops->ask_host) rt->gc_ops->ask_host(rt, request);
}

size_t tidei_collect(tidei_runtime *rt, int level, const char *why, bool *ran) {
    if (ran) *ran = false;
    return rt->gc_ops ? rt->gc_ops->collect(rt, level, why, ran) : 0;
}

/* ---- errors of a device ---- */

/* Keeps the first loss report that is told; `words` are the device's. */
static void tell(tidei_stream *s, const char *words) {
    tidei_dev *d = s->dev;
    int none = 0;
    if (!atomic_compare_exchange_strong(&d->loss_state, &none, 1)) return;
    pthread_mutex_lock(&s->lock);
    const char *last = s->last_op;
    pthread_mutex_unlock(&s->lock);
    tidei_format(
        d->loss_report, sizeof d->loss_report,
        "%.400s; last operation of the stream: %.100s; %s's arrays cannot be used any more", words,
        *last ? last : "none", d->d->info.name);
    atomic_store(&d->loss_state, 2);
}

/* A stream that waits for another device's may meet with the loss of that one. */
tide_status tidei_lost_on(tidei_stream *s, const char *op) {
    if (!atomic_load(&s->dev->d->lost)) return tidei_fail_as(op);
    tell(s, tide_error_last()->message);
    return tidei_lost(s->dev, op);
}

tide_status tidei_lost(tidei_dev *d, const char *op) {
    if (!atomic_load(&d->loss_state)) { /* noticed by a flag: the device is asked for its words */
        size_t free_bytes, total;
        if (d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_E_LOST)
            tell(d->stream0, tide_error_last()->message);
    }
    if (atomic_load(&d->loss_state) == 2) return tidei_fail(TIDE_E_LOST, op, "%s", d->loss_report);
    return tidei_fail(TIDE_E_LOST, op, "%s is lost since an earlier failure", d->d->info.name);
}

tide_status tidei_device_failed(tidei_stream *s, tide_status status, const char *op) {
    return status == TIDE_E_LOST ? tidei_lost_on(s, op) : tidei_fail_as(op);
}

/* ---- what kernels report ---- */

/* a report of other work takes microseconds to write; one that is not done by then is the
** next's */
#define REPORT_LOOKS 1000000

/* The report's first word once it is the caller's alone; 0: there is none. */
static uint64_t claim_report(_Atomic uint64_t *words) {
    for (unsigned i = 0; i < REPORT_LOOKS; i++) {
        uint64_t w = atomic_load_explicit(words, memory_order_relaxed);
        if (w == TIDEI_FAULT_NONE) return 0;
        if (w != TIDEI_FAULT_WRITING &&
            atomic_compare_exchange_strong(words, &w, TIDEI_FAULT_WRITING))
            return w;
        tidei_pause();
    }
    return 0;
}

static const char *raised_by(uint64_t word) {
    static const char *const names[TIDEI_FAULT_BY_COUNT] = {[TIDEI_FAULT_BY_TAKE] = "tide_take"};
    unsigned by = tidei_fault_by(word);
    return by < TIDEI_FAULT_BY_COUNT && names[by] ? names[by] : "a kernel";
}

static tide_status report_fault(_Atomic uint64_t *words, const char *op) {
    uint64_t word = claim_report(words), index = words[1], bound = words[2];
    char number[24];
    if (!word) return TIDE_OK;
    atomic_store(words, TIDEI_FAULT_NONE);
    tidei_format(number, sizeof number, word & TIDEI_FAULT_UNSIGNED ? "%" PRIu64 : "%" PRId64,
                 index);
    return tidei_fail(TIDE_E_BOUNDS, op,
                      "%s: index %s is out of range for %" PRIu64
                      " elements, in work done before this point; the nearest valid one was read",
                      raised_by(word), number, bound);
}

tide_status tidei_take_fault(tidei_runtime *rt, const char *op) {
    tide_status status = TIDE_OK;
    for (tidei_dev *d = NULL; status == TIDE_OK && (d = tidei_dev_next(rt, d));) {
        _Atomic uint64_t *words = d->d->fault_word;
        if (tidei_unlikely(words && atomic_load_explicit(words, memory_order_relaxed)))
            status = report_fault(words, op);
    }
    return status;
}

/* ---- limits ---- */

static size_t over_limit(tidei_dev *d, size_t bytes) {
    size_t used = atomic_load(&d->backed) + atomic_load(&d->library);
    return used > bytes ? used - bytes : 0;
}

/* Free parts of pages do not count against live data: blocks move off pages for a lower limit. */
static bool fits(tidei_dev *d, size_t bytes) {
    size_t over = over_limit(d, bytes);
    if (over) tidei_reclaim_pages(d, over);
    return !over_limit(d, bytes);
}

/* Gives memory back, gently first, until the device keeps within `bytes`. */
static bool shrink_to(tidei_dev *d, size_t bytes) {
    for (int level = TIDE_RECLAIM_PURGE; level <= TIDE_RECLAIM_DROP; level++) {
        if (!over_limit(d, bytes)) return true;
        tidei_reclaim_by_hand(d->rt, d, level);
    }
    while (!fits(d, bytes) && d->rt->set.spill && tidei_spill(d, over_limit(d, bytes)))
        tidei_reclaim_by_hand(d->rt, d, TIDE_RECLAIM_SYNC);
    return !over_limit(d, bytes);
}

static void undo_limit(tidei_runtime *rt, tidei_thread *t, void *d, uintptr_t old) {
    (void)rt, (void)t;
    atomic_store(&((tidei_dev *)d)->limit, old);
}

tide_status tide_device_set_limit(tide_runtime *ref, size_t bytes) {
    tidei_thread *t = tidei_enter(ref, "tide_device_set_limit");
    if (!t) return tidei_last_status();
    tidei_dev *d = t->dev;
    size_t wanted = tidei_limit_of(d, bytes), old = atomic_exchange(&d->limit, wanted);
    tidei_hold(t, undo_limit, d, old);
    bool fits_now = shrink_to(d, wanted);
    tidei_let(t, d);
    if (!fits_now) {
        atomic_store(&d->limit, old);
        /* by moving arrays, perhaps */
        if (atomic_load(&d->d->lost)) return tidei_lost(d, "tide_device_set_limit");
        return tidei_fail(TIDE_E_NOMEM, "tide_device_set_limit",
                          "a limit of %zu bytes (%zu in whole pages) is below what %s needs: %zu "
                          "bytes are backed "
                          "for %zu live ones",
                          bytes, wanted, d->d->info.name, atomic_load(&d->backed),
                          atomic_load(&d->live));
    }
    atomic_store(&d->wake_at, 0); /* the policy looks anew */
    return TIDE_OK;
}

tide_status tide_device_set_soft_limit(tide_runtime *ref, size_t bytes) {
    tidei_thread *t = tidei_enter(ref, "tide_device_set_soft_limit");
    if (!t) return tidei_last_status();
    atomic_store(&t->dev->soft_limit, bytes);
    atomic_store(&t->dev->wake_at, 0);
    tidei_reclaim_by_hand(t->dev->rt, t->dev, TIDE_RECLAIM_PURGE);
    return TIDE_OK;
}

/* ---- opening ---- */

static void free_runtime(tidei_runtime *rt) {
    tide_allocator host = rt->host;
    if (host.free)
        host.free(host.user, rt);
    else
        free(rt);
}

static tide_status new_runtime(const tide_config *c, tidei_runtime **out) {
    tidei_settings set;
    tide_status status = tidei_settings_read(c, &set);
    if (status == TIDE_OK) status = tidei_threads_prepare();
    if (status != TIDE_OK) return status;
    tidei_runtime *rt =
        set.host.alloc ? set.host.alloc(set.host.user, sizeof *rt) : malloc(sizeof *rt);
    if (!rt) return tidei_fail_host_memory("tide_open", sizeof *rt);
    memset(rt, 0, sizeof *rt);
    rt->host = set.host;
    rt->set = set;
    rt->opener = tidei_thread_serial();
    rt->log = set.log ? set.log : log_to_stderr;
    rt->log_user = set.log_user;
    rt->serial = atomic_fetch_add(&serials, 1) + 1;
    rt->ref = tidei_ref_new(TIDEI_REF_RUNTIME, rt, rt);
    if (!rt->ref) {
        free_runtime(rt);
        return tidei_fail_host_memory("tide_open", sizeof *rt);
    }
    pthread_mutex_init(&rt->devs_lock, NULL);
    pthread_mutex_init(&rt->peers_lock, NULL);
    pthread_mutex_init(&rt->streams.lock, NULL);
    pthread_mutex_init(&rt->moves.lock, NULL);
    pthread_mutex_init(&rt->spills.lock, NULL);
    pthread_mutex_init(&rt->reclaimables_lock, NULL);
    pthread_cond_init(&rt->reclaimables_idle, NULL);
    pthread_mutex_init(&rt->climb_lock, NULL);
    pthread_cond_init(&rt->climb_done, NULL);
    tidei_settings_warn(rt);
    *out = rt;
    return TIDE_OK;
}

/* Takes `device` over; NULL: opens the one that the settings name. */
static tide_status open_half(tidei_runtime *rt, tidei_device *device) {
    tidei_host_budget_init(rt);
    tide_status status = tidei_devices_open(rt, device);
    if (status != TIDE_OK) return status;
    rt->deaths = tidei_deaths_open(rt);
    status = rt->deaths ? tidei_tracker_open(rt, &rt->set, &rt->tracker)
                        : tidei_fail_host_memory("tide_open", sizeof(void *));
    if (status == TIDE_OK) status = tidei_recorder_open(rt, rt->devs[0].d->info.name, &rt->backed);
    if (status == TIDE_OK) status = tidei_external_allocs_open(rt);
    if (status != TIDE_OK) return status;
    tidei_watch_open(rt);
    tidei_neighbours_enter(rt);
    char text[640];
    tidei_device_text(&rt->devs[0], text, sizeof text);
    tidei_log(rt, TIDE_LOG_INFO, "runs on %s", text);
    return TIDE_OK;
}

tide_status tidei_runtime_open_on(const tide_config *c, tidei_device *device, tidei_runtime **out) {
    tidei_runtime *rt = NULL;
    tide_status status = new_runtime(c, &rt);
    if (status != TIDE_OK) {
        if (device) device->ops->close(device);
        return status;
    }
    status = open_half(rt, device);
    if (status != TIDE_OK) {
        tidei_saved_error e;
        tidei_fail_as("tide_open");
        tidei_error_save(&e);
        tidei_runtime_close(rt);
        tidei_error_restore(&e);
        return status;
    }
    *out = rt;
    return TIDE_OK;
}

tide_status tidei_runtime_open(const tide_config *c, tidei_runtime **out) {
    return tidei_runtime_open_on(c, NULL, out);
}

void tidei_runtime_close(tidei_runtime *rt) {
    tidei_runtime_end_refs(rt);
    tidei_neighbours_leave(rt);
    tidei_reclaimables_close(rt);
    if (rt->deaths) tidei_deaths_close(rt->deaths);
    tidei_external_allocs_close(rt);
    tidei_devices_close(rt);
    tidei_tracker_close(rt->tracker);
    rt->tracker = NULL;
    tidei_recorder_close(rt);
    tidei_threads_cut(rt);
    pthread_mutex_destroy(&rt->devs_lock);
    pthread_mutex_destroy(&rt->peers_lock);
    pthread_mutex_destroy(&rt->streams.lock);
    pthread_mutex_destroy(&rt->moves.lock);
    pthread_mutex_destroy(&rt->spills.lock);
    pthread_mutex_destroy(&rt->reclaimables_lock);
    pthread_cond_destroy(&rt->reclaimables_idle);
    pthread_mutex_destroy(&rt->climb_lock);
    pthread_cond_destroy(&rt->climb_done);
    free_runtime(rt);
}

/* ---- streams, for users ---- */

/* A new stream's reference goes to the user. */
static tide_status hand_out(tide_status status, const tidei_thread *t, tidei_stream *s,
                            tide_stream **out, const char *op) {
    if (status != TIDE_OK) return tidei_device_failed(t->dev->stream0, status, op);
    *out = atomic_load(&s->ref);
    return TIDE_OK;
}

tide_status tide_stream_new(tide_runtime *ref, tide_stream **out) {
    tidei_stream *s = NULL;
    tidei_thread *t = tidei_enter(ref, "tide_stream_new");
    if (!t) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_stream_new", "out is NULL");
    tide_status status = tidei_stream_open(t->dev, &s);
    return hand_out(status, t, s, out, "tide_stream_new");
}

tide_status tide_stream_wrap(tide_runtime *ref, void *native, tide_stream **out) {
    tidei_stream *s = NULL;
    tidei_thread *t = tidei_enter(ref, "tide_stream_wrap");
    if (!t) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_stream_wrap", "out is NULL");
    tide_status status = tidei_stream_adopt(t->dev, native, &s);
    return hand_out(status, t, s, out, "tide_stream_wrap");
}

void tide_stream_release(tide_stream *ref) {
    tidei_stream *s = ref && !tidei_forked() ? tidei_stream_find(ref, "tide_stream_release") : NULL;
    if (!s || s == s->dev->stream0 || atomic_load(&s->of_thread)) return;
    tidei_stream_drop(s);
}

tide_stream *tide_stream_current(tide_runtime *ref) {
    tidei_thread *t = tidei_enter(ref, "tide_stream_current");
    return t ? atomic_load(&tidei_thread_stream(t)->ref) : NULL;
}

tidei_stream *tidei_stream_of(tidei_thread *t, tide_stream *ref, const char *op) {
    if (!ref) return tidei_thread_stream(t);
    tidei_stream *s = tidei_stream_find(ref, op);
    if (!s || s->dev->rt == tidei_thread_runtime(t)) return s;
    return tidei_fail(TIDE_E_INVALID, op, "the stream belongs to another runtime"), NULL;
}

tide_status tide_stream_set(tide_runtime *ref, tide_stream *stream) {
    tidei_thread *t = tidei_enter(ref, "tide_stream_set");
    if (!t) return tidei_last_status();
    tidei_stream *s = stream ? tidei_stream_of(t, stream, "tide_stream_set") : NULL;
    if (stream && !s) return tidei_last_status();
    if (s) tidei_thread_go(t, s->dev);
    t->here.stream = s;
    t->here.stream_ref = stream;
    return TIDE_OK;
}

void *tide_stream_native(tide_stream *ref) {
    tidei_stream *s = tidei_stream_find(ref, "tide_stream_native");
    return s ? s->dev->d->ops->stream_native(s->dev->d, s->ds) : NULL;
}

tide_status tide_synchronize(tide_runtime *ref, tide_stream *stream) {
    TIDEI_OPERATION("tide_synchronize");
    tidei_thread *t = tidei_enter(ref, "tide_synchronize");
    tidei_stream *s = t ? tidei_stream_of(t, stream, "tide_synchronize") : NULL;
    if (!s) return tidei_last_status();
    tidei_drain(s->dev->rt);
    tide_status status = s->ds ? tidei_stream_wait(s, false) : TIDE_OK;
    return status == TIDE_OK ? tidei_take_fault(s->dev->rt, "tide_synchronize")
                             : tidei_fail_as("tide_synchronize");
}

tide_status tide_device_synchronize(tide_runtime *ref) {
    TIDEI_OPERATION("tide_device_synchronize");
    tidei_thread *t = tidei_enter(ref, "tide_device_synchronize");
    if (!t) return tidei_last_status();
    tidei_drain(t->dev->rt);
    tide_status status = tidei_streams_wait_all(t->dev, false);
    return status == TIDE_OK ? tidei_take_fault(t->dev->rt, "tide_device_synchronize")
                             : tidei_fail_as("tide_device_synchronize");
}

/* ---- validity ---- */

/* The second budget, over all devices. */
static bool host_budget_valid(tidei_runtime *rt) {
    size_t live = 0, backed = 0;
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        tidei_pool_stats ps;
        tidei_pools_stats_of(d, TIDEI_KINDS_ON_HOST, &ps);
        if (ps.live + ps.rounding + ps.cached + ps.pending != ps.backed) return false;
        live += ps.live;
        backed += ps.backed;
    }
    const tidei_host_budget *b = &rt->host_budget;
    return live == atomic_load(&b->live) && backed == atomic_load(&b->backed) && backed <= b->limit;
}

bool tidei_runtime_valid(tidei_runtime *rt) {
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        tidei_pool_stats ps;
        bool valid = true;
        for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));)
            valid = x->p->ops->valid(x->p) && valid;
        if (!valid) return false;
        tidei_pools_stats(d, &ps);
        if (ps.live + ps.rounding + ps.cached + ps.pending != ps.backed) return false;
        if (ps.live != atomic_load(&d->live) || ps.backed != atomic_load(&d->backed)) return false;
        if (atomic_load(&d->backed) > atomic_load(&d->limit)) return false;
    }
    return host_budget_valid(rt);
}
