/* bounce.h: large copies between the device and the program's own memory, through pinned memory.
**
** A driver copies pageable memory by one thread, at 8 GB/s of the 50 that the bus has. Here the
** copy goes in pieces through a ring of pinned memory: several threads copy pieces between the
** program's memory and the ring, while the device transfers others. The ring is a block of the
** device's pinned pool, taken for the call: it counts against the host's limit, what the pool keeps
** of it gives way as any free block does, and where there is no room for it the driver copies.
** The threads are the runtime's, and serve the copies of all program threads; they begin with the
** first large copy and end with the runtime. */
#ifndef TIDEI_BOUNCE_H
#define TIDEI_BOUNCE_H

#include "runtime/memory/storage.h"

#define TIDEI_BOUNCE_THREADS 7 /* at most, beside the caller: more do not make memory faster */

/* In tidei_runtime. */
struct tidei_bounces {
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t more;  /* there is something to copy, or the threads end */
    pthread_cond_t less;  /* something was copied */
    bool ends;
    unsigned nthreads;
    pthread_t threads[TIDEI_BOUNCE_THREADS];
    struct tidei_bounce *first; /* the copies under way */
};
void tidei_bounces_init(tidei_bounces *all);
void tidei_bounces_close(tidei_bounces *all);

/* Copies from the host's memory to the storage (H2D), or from it (D2H), as tidei_submit_copy does;
** the caller has waited for what the copy must come after. False: it is none of those that go this
** way, or there is no room or no thread, and nothing has happened. Else *status is what came of
** it. */
bool tidei_bounce_copy(tidei_stream *s, tidei_copy_kind kind, tidei_storage *st, size_t offset,
                       void *host, size_t bytes, const char *op, tide_status *status);

#endif
