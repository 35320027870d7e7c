/* gauge.h: stands between a runtime and its device, counts what is asked for memory, and holds
** completion back.
**
** Model. The gauge puts a table of its own over the device's: every slot is the device's but those
** for memory, which count and pass on, copy_many, and the two of the completion word. On a watched
** stream the last `lag` ticks are never complete. With `ticks_only` its ticks have no work behind
** them: they are complete once `lag` more were given out, and publishing them is no work either;
** copy_many, which is what moves blocks, copies nothing. Streams that are not watched are the
** device's alone.
** What must stay true: the gauge outlives the device. Streams are watched before the first tick, by
** one thread. A stream that the host has waited for is complete in the runtime's books, whatever
** the lag. */
#ifndef TIDE_GAUGE_H
#define TIDE_GAUGE_H

#include "runtime/streams/stream.h"

#define TIDEI_GAUGE_STREAMS 64

typedef struct tidei_gauge {
    struct tidei_device_ops ops;          /* first: a device's table leads to its gauge */
    const struct tidei_device_ops *inner; /* the device's own table */
    bool ticks_only;
    uint64_t lag;
    unsigned n;
    struct {
        tidei_dstream *ds;
        const _Atomic uint64_t *submitted;
    } watched[TIDEI_GAUGE_STREAMS];
    _Atomic uint64_t calls;
} tidei_gauge;

void tidei_gauge_put(tidei_gauge *g, tidei_device *d, bool ticks_only, uint64_t lag);
void tidei_gauge_watch(tidei_gauge *g, const tidei_stream *s);
/* Calls of memory slots so far. */
uint64_t tidei_gauge_calls(const tidei_gauge *g);

#endif
