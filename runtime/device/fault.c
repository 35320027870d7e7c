/* fault.c: a device that wraps another and fails chosen calls: how failure paths are proven.
**
** Model. Every slot that can fail counts its calls, and so does TIDEI_FAULT_ANY for all of them
** together; a call whose turn has come returns the chosen status instead of reaching the wrapped
** device. Everything else is forwarded, with the wrapped device's own structs and addresses. An
** injected TIDE_E_LOST makes this device lost, as the contract of the table says, though the
** wrapped one still runs. So before anything is given back on it, the wrapped device's streams are
** waited for: queued work may use it.
** What must stay true: calls are counted whether they fail or not; `lost` follows the wrapped
** device's. */
#include "runtime/device/device.h"

struct plan {
    uint64_t calls;
    uint64_t at; /* the number of the call that fails; 0: none */
    tide_status status;
    bool sticky;
};

struct stream_node { /* a stream of the wrapped device */
    tidei_dstream *ds;
    struct stream_node *next;
};

typedef struct fault {
    tidei_device base;
    struct tidei_device_ops ops; /* where the wrapped device lacks a slot, so do we */
    tidei_device *inner;
    pthread_mutex_t lock;
    struct plan plans[TIDEI_FAULT_SLOTS];
    struct stream_node *streams;
} fault;

static fault *fault_of(tidei_device *d) { return (fault *)d; }
static bool fault_peer_possible(tidei_device *d, tidei_device *other);

static const char *const slot_names[TIDEI_FAULT_SLOTS] = {
    [TIDEI_FAULT_ANY] = "any",
    [TIDEI_FAULT_RESERVE] = "reserve",
    [TIDEI_FAULT_PAGE_NEW] = "page_new",
    [TIDEI_FAULT_MAP] = "map",
    [TIDEI_FAULT_UNMAP] = "unmap",
    [TIDEI_FAULT_RAW_ALLOC] = "raw_alloc",
    [TIDEI_FAULT_PEER_ENABLE] = "peer_enable",
    [TIDEI_FAULT_PREFETCH] = "prefetch",
    [TIDEI_FAULT_ADVISE] = "advise",
    [TIDEI_FAULT_MEMPOOL_NEW] = "mempool_new",
    [TIDEI_FAULT_MEMPOOL_ALLOC] = "mempool_alloc",
    [TIDEI_FAULT_MEMPOOL_FREE] = "mempool_free",
    [TIDEI_FAULT_MEMPOOL_SET] = "mempool_set",
    [TIDEI_FAULT_MEMPOOL_TRIM] = "mempool_trim",
    [TIDEI_FAULT_MEMPOOL_FIGURES] = "mempool_figures",
    [TIDEI_FAULT_STREAM_NEW] = "stream_new",
    [TIDEI_FAULT_STREAM_SYNC] = "stream_sync",
    [TIDEI_FAULT_EVENT_NEW] = "event_new",
    [TIDEI_FAULT_EVENT_RECORD] = "event_record",
    [TIDEI_FAULT_EVENT_WAIT] = "event_wait",
    [TIDEI_FAULT_PUBLISH] = "publish",
    [TIDEI_FAULT_COPY] = "copy",
    [TIDEI_FAULT_COPY_MANY] = "copy_many",
    [TIDEI_FAULT_FILL] = "fill",
    [TIDEI_FAULT_KERNEL_NEW] = "kernel_new",
    [TIDEI_FAULT_LAUNCH] = "launch",
    [TIDEI_FAULT_GRAPH_NEW] = "graph_new",
    [TIDEI_FAULT_GRAPH_ADD] = "graph_add",
    [TIDEI_FAULT_GRAPH_CAPTURE_BEGIN] = "graph_capture_begin",
    [TIDEI_FAULT_GRAPH_CAPTURE_END] = "graph_capture_end",
    [TIDEI_FAULT_GRAPH_FINISH] = "graph_finish",
    [TIDEI_FAULT_GRAPH_LAUNCH] = "graph_launch",
};

/* ---- plans ---- */

static tide_status count_call(struct plan *p) {
    uint64_t call = ++p->calls;
    return p->at && (call == p->at || (p->sticky && call > p->at)) ? p->status : TIDE_OK;
}

/* Counts a call of the slot. Anything but TIDE_OK is what the call returns, with the error set. */
static tide_status enter(fault *f, enum tidei_fault_slot slot) {
    const char *name = slot_names[slot];
    pthread_mutex_lock(&f->lock);
    uint64_t call = f->plans[slot].calls + 1;
    tide_status any = count_call(&f->plans[TIDEI_FAULT_ANY]), own = count_call(&f->plans[slot]);
    tide_status status = own != TIDE_OK ? own : any;
    pthread_mutex_unlock(&f->lock);
    if (atomic_load(&f->base.lost) && slot != TIDEI_FAULT_UNMAP)
        return tidei_fail(TIDE_E_LOST, name, "%s is lost since an earlier failure",
                          f->base.info.name);
    if (status == TIDE_OK) return TIDE_OK;
    if (status == TIDE_E_LOST) atomic_store(&f->base.lost, true);
    return tidei_fail(status, name, "%s: call %llu of %s fails on purpose", f->base.info.name,
                      (unsigned long long)call, name);
}

/* After a forwarded call. */
static tide_status leave(fault *f, tide_status status) {
    if (atomic_load_explicit(&f->inner->lost, memory_order_relaxed))
        atomic_store(&f->base.lost, true);
    return status;
}

void tidei_fault_set(tidei_device *d, enum tidei_fault_slot slot, uint64_t n, tide_status status,
                     bool sticky) {
    fault *f = fault_of(d);
    pthread_mutex_lock(&f->lock);
    struct plan *p = &f->plans[slot];
    *p = (struct plan){
        .calls = p->calls, .at = n ? p->calls + n : 0, .status = status, .sticky = sticky};
    pthread_mutex_unlock(&f->lock);
}

uint64_t tidei_fault_calls(tidei_device *d, enum tidei_fault_slot slot) {
    fault *f = fault_of(d);
    pthread_mutex_lock(&f->lock);
    uint64_t calls = f->plans[slot].calls;
    pthread_mutex_unlock(&f->lock);
    return calls;
}

tidei_device *tidei_fault_inner(tidei_device *d) { return fault_of(d)->inner; }

/* Waits for the wrapped device before memory or a stream goes: though this device was declared
** lost, work may still be queued on the wrapped one. */
static void settle(fault *f) {
    if (!atomic_load(&f->base.lost) || atomic_load(&f->inner->lost)) return;
    tidei_saved_error e;
    tidei_error_save(&e);
    pthread_mutex_lock(&f->lock);
    for (struct stream_node *n = f->streams; n; n = n->next)
        f->inner->ops->stream_sync(f->inner, n->ds);
    pthread_mutex_unlock(&f->lock);
    tidei_error_restore(&e);
}

/* ---- memory ---- */

static tide_status fault_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_RESERVE);
    return status == TIDE_OK ? leave(f, f->inner->ops->reserve(f->inner, bytes, out)) : status;
}

static void fault_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    fault *f = fault_of(d);
    settle(f);
    f->inner->ops->unreserve(f->inner, addr, bytes);
}

static tide_status fault_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_PAGE_NEW);
    return status == TIDE_OK ? leave(f, f->inner->ops->page_new(f->inner, bytes, out)) : status;
}

static void fault_page_release(tidei_device *d, tidei_dpage *p) {
    fault *f = fault_of(d);
    f->inner->ops->page_release(f->inner, p);
}

static tide_status fault_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                             size_t n) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MAP);
    return status == TIDE_OK ? leave(f, f->inner->ops->map(f->inner, addr, pages, n)) : status;
}

static tide_status fault_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                               size_t n) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_UNMAP);
    settle(f);
    return status == TIDE_OK ? leave(f, f->inner->ops->unmap(f->inner, addr, pages, n)) : status;
}

static tide_status fault_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                   tidei_addr *out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_RAW_ALLOC);
    return status == TIDE_OK ? leave(f, f->inner->ops->raw_alloc(f->inner, kind, bytes, out))
                             : status;
}

static void fault_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    fault *f = fault_of(d);
    settle(f);
    f->inner->ops->raw_free(f->inner, kind, addr, bytes);
}

static tide_status fault_prefetch(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes,
                                  bool to_host) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_PREFETCH);
    if (status != TIDE_OK || !f->inner->ops->prefetch) return status;
    return leave(f, f->inner->ops->prefetch(f->inner, s, addr, bytes, to_host));
}

static tide_status fault_advise(tidei_device *d, tidei_addr addr, size_t bytes,
                                tidei_advice advice) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_ADVISE);
    if (status != TIDE_OK || !f->inner->ops->advise) return status;
    return leave(f, f->inner->ops->advise(f->inner, addr, bytes, advice));
}

static tide_status fault_host_use(tidei_device *d, const char *op, const tidei_range *r,
                                  bool begins) {
    fault *f = fault_of(d);
    return f->inner->ops->host_use ? f->inner->ops->host_use(f->inner, op, r, begins) : TIDE_OK;
}

/* The device to give the wrapped one as its peer: what `d` wraps if it is a fault device, else d
** itself. */
static tidei_device *other_of(tidei_device *d) {
    return d->ops->peer_possible == fault_peer_possible ? fault_of(d)->inner : d;
}

static bool fault_peer_possible(tidei_device *d, tidei_device *other) {
    fault *f = fault_of(d);
    return f->inner->ops->peer_possible(f->inner, other_of(other));
}

static tide_status fault_peer_enable(tidei_device *d, tidei_device *other) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_PEER_ENABLE);
    return status == TIDE_OK ? leave(f, f->inner->ops->peer_enable(f->inner, other_of(other)))
                             : status;
}

static tide_status fault_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    fault *f = fault_of(d);
    if (atomic_load(&f->base.lost))
        return tidei_fail(TIDE_E_LOST, "memory", "%s is lost since an earlier failure",
                          d->info.name);
    return leave(f, f->inner->ops->memory(f->inner, free_bytes, total_bytes));
}

static tide_status fault_mempool_new(tidei_device *d, tidei_dmempool **out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_NEW);
    return status == TIDE_OK ? leave(f, f->inner->ops->mempool_new(f->inner, out)) : status;
}

static void fault_mempool_release(tidei_device *d, tidei_dmempool *mp) {
    fault *f = fault_of(d);
    settle(f);
    f->inner->ops->mempool_release(f->inner, mp);
}

static tide_status fault_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                       size_t bytes, tidei_addr *out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_ALLOC);
    return status == TIDE_OK ? leave(f, f->inner->ops->mempool_alloc(f->inner, mp, s, bytes, out))
                             : status;
}

static tide_status fault_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                      tidei_addr addr) {
    fault *f = fault_of(d);
    if (!s) { /* a releasing call, which cannot fail */
        settle(f);
        return f->inner->ops->mempool_free(f->inner, mp, s, addr);
    }
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_FREE);
    return status == TIDE_OK ? leave(f, f->inner->ops->mempool_free(f->inner, mp, s, addr))
                             : status;
}

static tide_status fault_mempool_set(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                                     uint64_t value) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_SET);
    return status == TIDE_OK ? leave(f, f->inner->ops->mempool_set(f->inner, mp, attr, value))
                             : status;
}

static tide_status fault_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_TRIM);
    return status == TIDE_OK ? leave(f, f->inner->ops->mempool_trim(f->inner, mp, keep)) : status;
}

static tide_status fault_mempool_figures(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                         size_t *used) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_MEMPOOL_FIGURES);
    return status == TIDE_OK
               ? leave(f, f->inner->ops->mempool_figures(f->inner, mp, reserved, used))
               : status;
}

/* ---- streams and events ---- */

/* `native` is given where the stream is an adopted one. */
static tide_status open_stream(fault *f, void *const *native, tidei_dstream **out) {
    tidei_dstream *ds;
    tide_status status = enter(f, TIDEI_FAULT_STREAM_NEW);
    if (status != TIDE_OK) return status;
    struct stream_node *n = tidei_host_alloc(NULL, sizeof *n);
    if (!n) return tidei_fail_host_memory("stream_new", sizeof *n);
    status = leave(f, native ? f->inner->ops->stream_adopt(f->inner, *native, &ds)
                             : f->inner->ops->stream_new(f->inner, &ds));
    if (status != TIDE_OK) {
        tidei_host_free(NULL, n);
        return status;
    }
    pthread_mutex_lock(&f->lock);
    *n = (struct stream_node){ds, f->streams};
    f->streams = n;
    pthread_mutex_unlock(&f->lock);
    *out = ds;
    return TIDE_OK;
}

static tide_status fault_stream_new(tidei_device *d, tidei_dstream **out) {
    return open_stream(fault_of(d), NULL, out);
}

static tide_status fault_stream_adopt(tidei_device *d, void *native, tidei_dstream **out) {
    fault *f = fault_of(d);
    if (f->inner->ops->stream_adopt) return open_stream(f, &native, out);
    return tidei_fail(TIDE_E_UNSUPPORTED, "stream_adopt", "%s has no native streams", d->info.name);
}

static void fault_stream_release(tidei_device *d, tidei_dstream *s) {
    fault *f = fault_of(d);
    if (!s) return;
    settle(f);
    pthread_mutex_lock(&f->lock);
    struct stream_node **at = &f->streams;
    while ((*at)->ds != s) at = &(*at)->next;
    struct stream_node *n = *at;
    *at = n->next;
    pthread_mutex_unlock(&f->lock);
    tidei_host_free(NULL, n);
    f->inner->ops->stream_release(f->inner, s);
}

static tide_status fault_stream_sync(tidei_device *d, tidei_dstream *s) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_STREAM_SYNC);
    if (status == TIDE_OK) return leave(f, f->inner->ops->stream_sync(f->inner, s));
    tidei_saved_error e;
    tidei_error_save(&e);
    (void)f->inner->ops->stream_sync(f->inner, s); /* copies to the host's memory end */
    tidei_error_restore(&e);
    return status;
}

static tide_status fault_stream_usable(tidei_device *d, tidei_dstream *s) {
    tidei_device *inner = fault_of(d)->inner;
    return inner->ops->stream_usable ? inner->ops->stream_usable(inner, s) : TIDE_OK;
}

static void *fault_stream_native(tidei_device *d, tidei_dstream *s) {
    fault *f = fault_of(d);
    return f->inner->ops->stream_native(f->inner, s);
}

static void fault_stream_lend(tidei_device *d, tidei_dstream *s, bool once) {
    tidei_device *inner = fault_of(d)->inner;
    if (inner->ops->stream_lend) inner->ops->stream_lend(inner, s, once);
}

static tide_status fault_event_new(tidei_device *d, tidei_devent **out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_EVENT_NEW);
    return status == TIDE_OK ? leave(f, f->inner->ops->event_new(f->inner, out)) : status;
}

static void fault_event_release(tidei_device *d, tidei_devent *e) {
    fault *f = fault_of(d);
    f->inner->ops->event_release(f->inner, e);
}

static tide_status fault_event_record(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_EVENT_RECORD);
    return status == TIDE_OK ? leave(f, f->inner->ops->event_record(f->inner, e, s)) : status;
}

static tide_status fault_event_wait(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_EVENT_WAIT);
    return status == TIDE_OK ? leave(f, f->inner->ops->event_wait(f->inner, e, s)) : status;
}

static tide_status fault_publish(tidei_device *d, tidei_dstream *s, uint64_t tick) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_PUBLISH);
    return status == TIDE_OK ? leave(f, f->inner->ops->publish(f->inner, s, tick)) : status;
}

static uint64_t fault_completed(tidei_device *d, tidei_dstream *s) {
    fault *f = fault_of(d);
    uint64_t done = f->inner->ops->completed(f->inner, s);
    leave(f, TIDE_OK);
    return done;
}

/* ---- work ---- */

static tide_status fault_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_COPY);
    return status == TIDE_OK ? leave(f, f->inner->ops->copy(f->inner, s, c)) : status;
}

static bool fault_host_pinned(tidei_device *d, const void *host) {
    return fault_of(d)->inner->ops->host_pinned(fault_of(d)->inner, host);
}

static tide_status fault_copy_many(tidei_device *d, tidei_dstream *s, const tidei_piece *pieces,
                                   size_t n) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_COPY_MANY);
    return status == TIDE_OK ? leave(f, f->inner->ops->copy_many(f->inner, s, pieces, n)) : status;
}

static void fault_copy_many_prepare(tidei_device *d) {
    fault_of(d)->inner->ops->copy_many_prepare(fault_of(d)->inner);
}

static tide_status fault_fill(tidei_device *d, tidei_dstream *s, tidei_addr dst,
                              const void *pattern, size_t width, size_t count) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_FILL);
    return status == TIDE_OK
               ? leave(f, f->inner->ops->fill(f->inner, s, dst, pattern, width, count))
               : status;
}

static tide_status fault_kernel_new(tidei_device *d, const tidei_kernel_text *t,
                                    tidei_dkernel **out, void **image, size_t *image_bytes) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_KERNEL_NEW);
    return status == TIDE_OK
               ? leave(f, f->inner->ops->kernel_new(f->inner, t, out, image, image_bytes))
               : status;
}

/* Not counted: it calls no driver, on threads whose order nobody knows. */
static tide_status fault_kernel_compile(tidei_device *d, const tidei_kernel_text *t, void **image,
                                        size_t *image_bytes) {
    fault *f = fault_of(d);
    return f->inner->ops->kernel_compile(f->inner, t, image, image_bytes);
}

static void fault_kernel_release(tidei_device *d, tidei_dkernel *k) {
    fault *f = fault_of(d);
    settle(f);
    f->inner->ops->kernel_release(f->inner, k);
}

/* Counted as one more making of a kernel. */
static tide_status fault_kernel_widen(tidei_device *d, tidei_dkernel *k, unsigned blocks,
                                      unsigned threads, unsigned shared_bytes) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_KERNEL_NEW);
    return status == TIDE_OK
               ? leave(f, f->inner->ops->kernel_widen(f->inner, k, blocks, threads, shared_bytes))
               : status;
}

static tide_status fault_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_LAUNCH);
    return status == TIDE_OK ? leave(f, f->inner->ops->launch(f->inner, s, l)) : status;
}

/* ---- graphs ---- */

static tide_status fault_graph_new(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                                   tidei_dgraph **out) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_NEW);
    return status == TIDE_OK ? leave(f, f->inner->ops->graph_new(f->inner, slots, nslots, out))
                             : status;
}

static tide_status fault_graph_add(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                                   const size_t *at, const tidei_graph_range *ranges) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_ADD);
    return status == TIDE_OK ? leave(f, f->inner->ops->graph_add(f->inner, g, l, at, ranges))
                             : status;
}

static tide_status fault_graph_capture_begin(tidei_device *d, tidei_dgraph *g, void **native) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_CAPTURE_BEGIN);
    return status == TIDE_OK ? leave(f, f->inner->ops->graph_capture_begin(f->inner, g, native))
                             : status;
}

/* Where it is to fail the capture ends all the same. */
static tide_status fault_graph_capture_end(tidei_device *d, tidei_dgraph *g, bool keep,
                                           const tidei_graph_range *ranges, unsigned n) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_CAPTURE_END);
    if (status == TIDE_OK)
        return leave(f, f->inner->ops->graph_capture_end(f->inner, g, keep, ranges, n));
    tidei_saved_error e;
    tidei_error_save(&e);
    (void)f->inner->ops->graph_capture_end(f->inner, g, false, NULL, 0);
    tidei_error_restore(&e);
    return status;
}

static tide_status fault_graph_finish(tidei_device *d, tidei_dgraph *g) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_FINISH);
    return status == TIDE_OK ? leave(f, f->inner->ops->graph_finish(f->inner, g)) : status;
}

static tide_status fault_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                      const tidei_addr *slots, const tidei_graph_params *params,
                                      unsigned n) {
    fault *f = fault_of(d);
    tide_status status = enter(f, TIDEI_FAULT_GRAPH_LAUNCH);
    return status == TIDE_OK
               ? leave(f, f->inner->ops->graph_launch(f->inner, s, g, slots, params, n))
               : status;
}

static void fault_graph_release(tidei_device *d, tidei_dgraph *g) {
    fault *f = fault_of(d);
    settle(f);
    f->inner->ops->graph_release(f->inner, g);
}

/* As after an injected loss: the wrapped device runs on. */
static void fault_lose(tidei_device *d, const char *why) {
    (void)why;
    atomic_store(&d->lost, true);
}

static void fault_speak(tidei_device *d) { fault_of(d)->inner->ops->speak(fault_of(d)->inner); }

/* ---- opening and closing ---- */

static void fault_close(tidei_device *d) {
    fault *f = fault_of(d);
    f->inner->ops->close(f->inner);
    for (struct stream_node *n = f->streams, *next; n; n = next) {
        next = n->next;
        tidei_host_free(NULL, n);
    }
    pthread_mutex_destroy(&f->lock);
    tidei_host_free(NULL, f);
}

static const struct tidei_device_ops fault_ops = {
    .name = "fault",
    .reserve = fault_reserve,
    .unreserve = fault_unreserve,
    .page_new = fault_page_new,
    .page_release = fault_page_release,
    .map = fault_map,
    .unmap = fault_unmap,
    .raw_alloc = fault_raw_alloc,
    .raw_free = fault_raw_free,
    .prefetch = fault_prefetch,
    .advise = fault_advise,
    .host_use = fault_host_use,
    .peer_possible = fault_peer_possible,
    .peer_enable = fault_peer_enable,
    .memory = fault_memory,
    .mempool_new = fault_mempool_new,
    .mempool_release = fault_mempool_release,
    .mempool_alloc = fault_mempool_alloc,
    .mempool_free = fault_mempool_free,
    .mempool_set = fault_mempool_set,
    .mempool_trim = fault_mempool_trim,
    .mempool_figures = fault_mempool_figures,
    .stream_new = fault_stream_new,
    .stream_adopt = fault_stream_adopt,
    .stream_release = fault_stream_release,
    .stream_sync = fault_stream_sync,
    .stream_native = fault_stream_native,
    .stream_lend = fault_stream_lend,
    .stream_usable = fault_stream_usable,
    .event_new = fault_event_new,
    .event_release = fault_event_release,
    .event_record = fault_event_record,
    .event_wait = fault_event_wait,
    .publish = fault_publish,
    .completed = fault_completed,
    .copy = fault_copy,
    .host_pinned = fault_host_pinned,
    .copy_many = fault_copy_many,
    .copy_many_prepare = fault_copy_many_prepare,
    .fill = fault_fill,
    .kernel_new = fault_kernel_new,
    .kernel_compile = fault_kernel_compile,
    .kernel_release = fault_kernel_release,
    .kernel_widen = fault_kernel_widen,
    .launch = fault_launch,
    .graph_new = fault_graph_new,
    .graph_add = fault_graph_add,
    .graph_capture_begin = fault_graph_capture_begin,
    .graph_capture_end = fault_graph_capture_end,
    .graph_finish = fault_graph_finish,
    .graph_launch = fault_graph_launch,
    .graph_release = fault_graph_release,
    .lose = fault_lose,
    .speak = fault_speak,
    .close = fault_close,
};

tide_status tidei_fault_open(tidei_device *inner, tidei_device **out) {
    fault *f = tidei_host_alloc(NULL, sizeof *f);
    if (!f) return tidei_fail_host_memory("fault_open", sizeof *f);
    f->ops = fault_ops;
    if (!inner->ops->kernel_new) {
        f->ops.kernel_new = NULL;
        f->ops.kernel_release = NULL;
    }
    if (!inner->ops->kernel_compile) f->ops.kernel_compile = NULL;
    if (!inner->ops->kernel_widen) f->ops.kernel_widen = NULL;
    if (!inner->ops->peer_possible) {
        f->ops.peer_possible = NULL;
        f->ops.peer_enable = NULL;
    }
    if (!inner->ops->host_pinned) f->ops.host_pinned = NULL;
    if (!inner->ops->copy_many_prepare) f->ops.copy_many_prepare = NULL;
    if (!inner->ops->mempool_new) f->ops.mempool_new = NULL; /* nobody calls the others then */
    if (!inner->ops->graph_capture_begin) f->ops.graph_capture_begin = NULL;
    f->inner = inner;
    f->base.ops = &f->ops;
    f->base.info = inner->info;
    f->base.fault_addr = inner->fault_addr;
    f->base.fault_word = inner->fault_word;
    f->base.findings = inner->findings;
    f->base.fresh_ns = inner->fresh_ns;
    pthread_mutex_init(&f->lock, NULL);
    *out = &f->base;
    return TIDE_OK;
}
