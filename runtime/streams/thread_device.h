/* thread_device.h: where a thread's work goes: its current device, and its stream on each. */
#ifndef TIDEI_THREAD_DEVICE_H
#define TIDEI_THREAD_DEVICE_H

#include "runtime/streams/stream.h"

tidei_stream *tidei_thread_stream(tidei_thread *t); /* the current one */
/* the same for a device that may be another */
tidei_stream *tidei_thread_stream_on(tidei_thread *t, tidei_dev *d);
/* makes it the current device; it is open */
void tidei_thread_go(tidei_thread *t, tidei_dev *d);
static inline tidei_thread_device *tidei_thread_device_of(tidei_thread *t, const tidei_dev *d) {
    return t->dev == d ? &t->here : &t->elsewhere[d->index];
}
/* A user's stream; NULL with the error set. The second one is of the thread's runtime; NULL stands
** for its current one. */
static inline tidei_stream *tidei_stream_find(tide_stream *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_STREAM, ref, op);
}
tidei_stream *tidei_stream_of(tidei_thread *t, tide_stream *ref, const char *op);
/* The thread's record leaves its runtime: its own streams go. */
void tidei_thread_leave_streams(tidei_runtime *rt, tidei_thread *t);

#endif
