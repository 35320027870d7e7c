/* stream.c: streams, events and completion words of the `cuda` device.
**
** A stream's completion word lies in pinned host memory; the stream itself writes it
** (cuStreamWriteValue64), so asking how far it has got costs a load. Where the GPU or its driver
** cannot do that, a published tick is an event, and asking queries it. */
#include "runtime/device/cuda/device.h"

/* A struct that no stream uses, or NULL; under the lock. */
static tidei_dstream *free_stream(tidei_cuda *c) {
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++)
        if (!c->streams[i].s) return &c->streams[i];
    tidei_fail(TIDE_E_DEVICE, "cuda", "%s has %d streams, the most there can be", c->d.info.name,
               TIDEI_STREAMS_MAX);
    return NULL;
}

/* Opens a stream around a native stream of the program's, or a new one where `native` is NULL. */
static tide_status open_stream(tidei_cuda *c, tidei_cu_stream native, tidei_dstream **out) {
    tide_status status = TIDE_OK;
    pthread_mutex_lock(&c->lock);
    tidei_dstream *s = free_stream(c);
    if (!s)
        status = TIDE_E_DEVICE;
    else if (native)
        s->s = native;
    else
        status = tidei_cuda_status(c, c->cu->cuStreamCreate(&s->s, TIDEI_CU_STREAM_NON_BLOCKING),
                                   "cuStreamCreate");
    if (status == TIDE_OK) {
        s->adopted = native != NULL;
        atomic_store(&s->others, native ? TIDEI_CUDA_ALWAYS : TIDEI_CUDA_NOBODY);
        atomic_store(s->word, 0);
        *out = s;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

tide_status tidei_cuda_stream_new(tidei_device *d, tidei_dstream **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    status = open_stream(c, NULL, out);
    tidei_cuda_leave(c, &visit);
    return status;
}

/* Checks that the stream belongs to our context; CUDA's default streams belong to any. */
static tide_status check_owner(tidei_cuda *c, tidei_cu_stream native) {
    tidei_cu_ctx ctx = c->ctx;
    if (native == TIDEI_CU_STREAM_LEGACY || native == TIDEI_CU_STREAM_PER_THREAD) return TIDE_OK;
    tidei_cu_result r = c->cu->cuStreamGetCtx(native, &ctx);
    if (r == TIDEI_CU_NOT_SUPPORTED) return TIDE_OK; /* it does not tell of all */
    if (r != TIDEI_CU_SUCCESS || ctx == c->ctx) return tidei_cuda_status(c, r, "cuStreamGetCtx");
    return tidei_fail(TIDE_E_INVALID, "cuda",
                      "the stream is of another device or context than %s's", c->d.info.name);
}

tide_status tidei_cuda_stream_adopt(tidei_device *d, void *native, tidei_dstream **out) {
    TIDEI_UNCANCELLED;
    if (atomic_load(&d->lost) || tidei_forked()) return tidei_cuda_refuse(tidei_cuda_of(d));
    tidei_cu_stream theirs = native ? native : TIDEI_CU_STREAM_LEGACY;
    tide_status status = check_owner(tidei_cuda_of(d), theirs);
    return status == TIDE_OK ? open_stream(tidei_cuda_of(d), theirs, out) : status;
}

tide_status tidei_cuda_refuse_capture(tidei_cuda *c, tidei_dstream *s) {
    tidei_cu_capture capturing = 0;
    tidei_cu_result r = c->cu->cuStreamIsCapturing(s->s, &capturing);
    if (r == TIDEI_CU_SUCCESS && capturing)
        return tidei_fail(TIDE_E_UNSUPPORTED, "cuda",
                          "%s: the stream is being captured into a graph by its owner; use another "
                          "stream until the capture "
                          "has ended",
                          c->d.info.name);
    return tidei_cuda_status(c, r, "cuStreamIsCapturing");
}

/* Nobody captures CUDA's legacy stream, the one that PyTorch uses most: asking would take 50 ns. */
tide_status tidei_cuda_stream_usable(tidei_device *d, tidei_dstream *s) {
    tidei_cuda_visit visit;
    if (tidei_likely(s->s == TIDEI_CU_STREAM_LEGACY)) return TIDE_OK;
    tide_status status = tidei_cuda_enter_stream(tidei_cuda_of(d), s, &visit);
    if (status == TIDE_OK) tidei_cuda_leave(tidei_cuda_of(d), &visit);
    return status;
}

void tidei_cuda_stream_release(tidei_device *d, tidei_dstream *s) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!tidei_cuda_enter_release(c, &visit)) return;
    pthread_mutex_lock(&s->lock);
    s->n = 0; /* the events stay, for the next stream that gets this struct */
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&c->lock);
    if (!s->adopted) c->cu->cuStreamDestroy(s->s);
    s->s = NULL;
    pthread_mutex_unlock(&c->lock);
    tidei_cuda_leave(c, &visit);
}

tide_status tidei_cuda_stream_sync(tidei_device *d, tidei_dstream *s) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    /* A device that we declared lost goes on with what is queued; after this wait it uses the
    ** host's memory no more. */
    if (atomic_load(&d->lost) && tidei_cuda_enter_release(c, &visit)) {
        c->cu->cuStreamSynchronize(s->s);
        tidei_cuda_leave(c, &visit);
    }
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuStreamSynchronize(s->s);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuStreamSynchronize");
}

void *tidei_cuda_stream_native(tidei_device *d, tidei_dstream *s) {
    (void)d;
    return s->s;
}

void tidei_cuda_stream_lend(tidei_device *d, tidei_dstream *s, bool once) {
    int nobody = TIDEI_CUDA_NOBODY;
    (void)d;
    if (once)
        atomic_compare_exchange_strong(&s->others, &nobody, TIDEI_CUDA_ONCE);
    else
        atomic_store(&s->others, TIDEI_CUDA_ALWAYS);
}

/* An event of the device table is the driver's event itself: recorded on streams of its own device,
** waited for by streams of any device. */

tide_status tidei_cuda_event_new(tidei_device *d, tidei_devent **out) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_event e = NULL;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuEventCreate(&e, TIDEI_CU_EVENT_DISABLE_TIMING);
    tidei_cuda_leave(c, &visit);
    if (r == TIDEI_CU_SUCCESS) *out = (tidei_devent *)e;
    return tidei_cuda_status(c, r, "cuEventCreate");
}

void tidei_cuda_event_release(tidei_device *d, tidei_devent *e) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!tidei_cuda_enter_release(c, &visit)) return;
    c->cu->cuEventDestroy((tidei_cu_event)e);
    tidei_cuda_leave(c, &visit);
}

tide_status tidei_cuda_event_record(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuEventRecord((tidei_cu_event)e, s->s);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuEventRecord");
}

tide_status tidei_cuda_event_wait(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuStreamWaitEvent(s->s, (tidei_cu_event)e, 0);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "cuStreamWaitEvent");
}

/* ---- published ticks as events ---- */

/* Takes completed events off the front; under s->lock, the context current. */
static void settle(tidei_cuda *c, tidei_dstream *s) {
    while (s->n) {
        unsigned at = s->first % TIDEI_CUDA_PENDING;
        if (c->cu->cuEventQuery(s->pending[at].event) != TIDEI_CU_SUCCESS) return;
        atomic_store_explicit(s->word, s->pending[at].tick, memory_order_release);
        s->first++;
        s->n--;
    }
}

/* When no place is free, the newest event is recorded anew for this tick: that its earlier tick is
** complete is then learnt a little later. */
static tidei_cu_result publish_event(tidei_cuda *c, tidei_dstream *s, uint64_t tick) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    pthread_mutex_lock(&s->lock);
    settle(c, s);
    bool full = s->n == TIDEI_CUDA_PENDING;
    unsigned at = (s->first + s->n - full) % TIDEI_CUDA_PENDING;
    if (!s->pending[at].event)
        r = c->cu->cuEventCreate(&s->pending[at].event, TIDEI_CU_EVENT_DISABLE_TIMING);
    if (r == TIDEI_CU_SUCCESS) r = c->cu->cuEventRecord(s->pending[at].event, s->s);
    if (r == TIDEI_CU_SUCCESS) {
        s->pending[at].tick = tick;
        if (!full) s->n++;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

tide_status tidei_cuda_publish(tidei_device *d, tidei_dstream *s, uint64_t tick) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_result r;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    if (tidei_likely(c->write_value))
        r = c->cu->cuStreamWriteValue64(s->s, s->word_addr, tick, 0);
    else
        r = publish_event(c, s, tick);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "publishing a tick");
}

uint64_t tidei_cuda_completed(tidei_device *d, tidei_dstream *s) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cuda_visit visit;
    if (!c->write_value && !atomic_load_explicit(&d->lost, memory_order_relaxed) &&
        tidei_cuda_enter_release(c, &visit)) {
        pthread_mutex_lock(&s->lock);
        settle(c, s);
        pthread_mutex_unlock(&s->lock);
        tidei_cuda_leave(c, &visit);
    }
    return atomic_load_explicit(s->word, memory_order_acquire);
}
