/* thread_device.c: a thread's current device, and its current and its own streams. */
#include "runtime/streams/thread_device.h"

/* Streams that threads' defaults may take; the others are left for callers that make streams. */
#define OWN_STREAMS_MOST (TIDEI_STREAMS_MAX / 2)

/* Where no stream can be made the device's default one serves, which is no error. */
__attribute__((noinline)) static void make_own_stream(tidei_thread_device *x, tidei_dev *d) {
    tidei_saved_error e;
    tidei_error_save(&e);
    x->wants_stream = false;
    bool room = atomic_fetch_add(&d->rt->streams->own_streams, 1) < OWN_STREAMS_MOST;
    if (room && tidei_stream_open(d, &x->own_stream) == TIDE_OK) {
        atomic_store(&x->own_stream->of_thread, true);
        return;
    }
    atomic_fetch_sub(&d->rt->streams->own_streams, 1);
    tidei_error_restore(&e);
}

static tidei_stream *default_stream(tidei_thread_device *x, tidei_dev *d) {
    if (tidei_unlikely(x->wants_stream)) make_own_stream(x, d);
    return tidei_unlikely(x->own_stream != NULL) ? x->own_stream : d->stream0;
}

static inline tidei_stream *stream_of(tidei_thread_device *x, tidei_dev *d) {
    tidei_stream *s = x->stream;
    if (tidei_likely(!s)) return default_stream(x, d);
    if (atomic_load_explicit(&s->ref, memory_order_relaxed) == x->stream_ref) return s;
    /* released by somebody, and perhaps another stream by now: back to the default */
    x->stream = NULL;
    return default_stream(x, d);
}

tidei_stream *tidei_thread_stream(tidei_thread *t) { return stream_of(&t->here, t->dev); }

tidei_stream *tidei_thread_stream_on(tidei_thread *t, tidei_dev *d) {
    return stream_of(tidei_thread_device_of(t, d), d);
}

void tidei_thread_go(tidei_thread *t, tidei_dev *d) {
    if (t->dev == d) return;
    t->elsewhere[t->dev->index] = t->here;
    t->here = t->elsewhere[d->index];
    t->elsewhere[d->index] = (tidei_thread_device){0};
    t->dev = d;
}

/* ---- the end ---- */

/* A thread that has its own stream as current one goes back to the default one. */
static void leave(tidei_runtime *rt, tidei_thread_device *x) {
    if (!x->own_stream) return;
    tidei_stream_drop(x->own_stream);
    x->own_stream = NULL;
    atomic_fetch_sub(&rt->streams->own_streams, 1);
}

void tidei_thread_leave_streams(tidei_runtime *rt, tidei_thread *t) {
    leave(rt, &t->here);
    for (unsigned i = 0; i < rt->ndevs; i++) leave(rt, &t->elsewhere[i]);
}
