/* runtime.c: opening and closing a runtime's own half, what its devices' failures are called,
** limits, streams for users. */
#include "runtime/figures.h"
#include "runtime/memory/bounce.h"
#include "runtime/memory/capture.h"
#include "runtime/memory/external_alloc.h"
#include "runtime/reclaim/ladder.h"
#include "runtime/reclaim/neighbours.h"
#include "runtime/reclaim/rungs.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/hooks.h"
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

/* ---- limits ---- */

static size_t over_limit(tidei_dev *d, size_t bytes) {
    size_t used = atomic_load(&d->budget->backed) + atomic_load(&d->budget->library);
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
    atomic_store(&((tidei_dev *)d)->budget->limit, old);
}

tide_status tide_device_set_limit(tide_runtime *ref, size_t bytes) {
    tidei_thread *t = tidei_enter(ref, "tide_device_set_limit");
    if (!t) return tidei_last_status();
    tidei_dev *d = t->dev;
    size_t wanted = tidei_limit_of(d, bytes), old = atomic_exchange(&d->budget->limit, wanted);
    tidei_hold(t, undo_limit, d, old);
    bool fits_now = shrink_to(d, wanted);
    tidei_let(t, d);
    if (!fits_now) {
        atomic_store(&d->budget->limit, old);
        /* by moving arrays, perhaps */
        if (atomic_load(&d->d->lost)) return tidei_lost(d, "tide_device_set_limit");
        return tidei_fail(TIDE_E_NOMEM, "tide_device_set_limit",
                          "a limit of %zu bytes (%zu in whole pages) is below what %s needs: %zu "
                          "bytes are backed "
                          "for %zu live ones",
                          bytes, wanted, d->d->info.name, atomic_load(&d->budget->backed),
                          atomic_load(&d->budget->live));
    }
    atomic_store(&d->memory->wake_at, 0); /* the policy looks anew */
    return TIDE_OK;
}

tide_status tide_device_set_soft_limit(tide_runtime *ref, size_t bytes) {
    tidei_thread *t = tidei_enter(ref, "tide_device_set_soft_limit");
    if (!t) return tidei_last_status();
    atomic_store(&t->dev->budget->soft_limit, bytes);
    atomic_store(&t->dev->memory->wake_at, 0);
    tidei_reclaim_by_hand(t->dev->rt, t->dev, TIDE_RECLAIM_PURGE);
    return TIDE_OK;
}

/* ---- opening ---- */

/* A runtime and its floors' parts are one piece of memory. */
struct whole {
    tidei_runtime rt;
    tidei_streams streams;
    tidei_host_budget budget;
    tidei_moves moves;
    tidei_spills spills;
    tidei_bounces bounces;
    tidei_reclaim reclaim;
};

static void join_parts(struct whole *w) {
    w->rt.streams = &w->streams;
    w->rt.budget = &w->budget;
    w->rt.moves = &w->moves;
    w->rt.spills = &w->spills;
    w->rt.bounces = &w->bounces;
    w->rt.reclaim = &w->reclaim;
    w->streams.above = &tidei_streams_above;
}

/* What each part can give where memory is short. */
static void register_rungs(tidei_runtime *rt) {
    tidei_rungs_register(rt, tidei_pool_rungs);
    tidei_rungs_register(rt, tidei_memory_rungs);
    tidei_rungs_register(rt, tidei_collect_rungs);
    tidei_rungs_register(rt, tidei_reclaimable_rungs);
    tidei_rungs_register(rt, tidei_neighbour_rungs);
}

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
    if (status == TIDE_OK) status = tidei_threads_prepare(&tidei_threads_above);
    if (status != TIDE_OK) return status;
    struct whole *w = set.host.alloc ? set.host.alloc(set.host.user, sizeof *w) : malloc(sizeof *w);
    if (!w) return tidei_fail_host_memory("tide_open", sizeof *w);
    memset(w, 0, sizeof *w);
    join_parts(w);
    tidei_runtime *rt = &w->rt;
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
    pthread_mutex_init(&rt->streams->lock, NULL);
    pthread_mutex_init(&rt->moves->lock, NULL);
    pthread_mutex_init(&rt->spills->lock, NULL);
    tidei_bounces_init(rt->bounces);
    tidei_reclaim_init(rt);
    register_rungs(rt);
    tidei_settings_warn(rt);
    *out = rt;
    return TIDE_OK;
}

/* Takes `device` over; NULL: opens the one that the settings name. */
static tide_status open_half(tidei_runtime *rt, tidei_device *device, tidei_early *early) {
    tidei_host_budget_init(rt);
    tide_status status = tidei_devices_open(rt, device, early);
    if (status != TIDE_OK) return status;
    rt->deaths = tidei_deaths_open(rt);
    status = rt->deaths ? tidei_tracker_open(rt, &rt->set, &rt->tracker)
                        : tidei_fail_host_memory("tide_open", sizeof(void *));
    if (status == TIDE_OK)
        status = tidei_recorder_open(rt, rt->devs[0].d->info.name, &rt->budget->on_devices);
    if (status == TIDE_OK) status = tidei_external_allocs_open(rt);
    if (status != TIDE_OK) return status;
    tidei_watch_open(rt);
    atomic_store(&rt->deaths->timed, rt->recorder != NULL);
    tidei_neighbours_enter(rt);
    char text[640];
    tidei_device_text(&rt->devs[0], text, sizeof text);
    tidei_log(rt, TIDE_LOG_INFO, "runs on %s", text);
    return TIDE_OK;
}

static tide_status open_with(const tide_config *c, tidei_device *device, tidei_early *early,
                             tidei_runtime **out) {
    tidei_runtime *rt = NULL;
    tide_status status = new_runtime(c, &rt);
    if (status != TIDE_OK) {
        if (device) device->ops->close(device);
        return status;
    }
    status = open_half(rt, device, early);
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

tide_status tidei_runtime_open(const tide_config *c, tidei_early *early, tidei_runtime **out) {
    return open_with(c, NULL, early, out);
}

tide_status tidei_runtime_open_on(const tide_config *c, tidei_device *device, tidei_runtime **out) {
    return open_with(c, device, NULL, out);
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
    pthread_mutex_destroy(&rt->streams->lock);
    pthread_mutex_destroy(&rt->moves->lock);
    pthread_mutex_destroy(&rt->spills->lock);
    tidei_bounces_close(rt->bounces);
    tidei_reclaim_end(rt);
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
    if (!s) return NULL;
    tidei_device *d = s->dev->d;
    if (d->ops->stream_lend) d->ops->stream_lend(d, s->ds, false);
    return d->ops->stream_native(d, s->ds);
}

#define WAITS "waits for work"

tide_status tide_synchronize(tide_runtime *ref, tide_stream *stream) {
    TIDEI_OPERATION("tide_synchronize");
    tidei_thread *t = tidei_enter(ref, "tide_synchronize");
    tidei_stream *s = t ? tidei_stream_of(t, stream, "tide_synchronize") : NULL;
    if (!s || tidei_capture_refused(s->dev->rt, "tide_synchronize", WAITS) != TIDE_OK)
        return tidei_last_status();
    tidei_drain(s->dev->rt);
    tide_status status = s->ds ? tidei_stream_wait(s, false) : TIDE_OK;
    return status == TIDE_OK ? tidei_take_fault(s->dev->rt, "tide_synchronize")
                             : tidei_fail_as("tide_synchronize");
}

tide_status tide_device_synchronize(tide_runtime *ref) {
    TIDEI_OPERATION("tide_device_synchronize");
    tidei_thread *t = tidei_enter(ref, "tide_device_synchronize");
    if (!t || tidei_capture_refused(t->dev->rt, "tide_device_synchronize", WAITS) != TIDE_OK)
        return tidei_last_status();
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
    const tidei_host_budget *b = rt->budget;
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
        if (ps.live != atomic_load(&d->budget->live) ||
            ps.backed != atomic_load(&d->budget->backed))
            return false;
        if (atomic_load(&d->budget->backed) > atomic_load(&d->budget->limit)) return false;
    }
    return host_budget_valid(rt);
}
