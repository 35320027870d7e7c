/* tracker.h: which memory is held, since when, and where in the program it was allocated.
** docs/debugging.md shows the text.
**
** Model. At debug level 2 every allocation is looked at, with sampling every n-th of a thread's
** number (thread_index.h) on a device: the count lies in the device (storage.h), and goes on when
** the number is another thread's. Where there is none to go by (no number, or a recorder that is
** told of all) the tracker counts by threads. What is looked at gets an origin, which lies behind
** its storage's record and is in the tracker's table until the storage's last release. Backtraces
** are kept once each, until the runtime closes, or until others want the room of those that no
** origin has any more. A listing walks over the handles, which are the arrays, and finds what they
** hold in the table, which grows with what is in it: so a listing takes time in proportion to the
** arrays.
** What must stay true: a runtime that tracks nothing pays no more than one that records nothing; an
** allocation fails for want of device memory, never for want of memory for its backtrace. Under the
** tracker's lock no storage that has an origin ends, so a listing may look at it; under it the
** host's allocator may be called, the process's lock of handles and a storage's stamps be taken,
** nothing else. */
#ifndef TIDEI_TRACKER_H
#define TIDEI_TRACKER_H

#include "runtime/memory/storage.h"

typedef struct tidei_tracker tidei_tracker;
typedef struct tidei_header tidei_header;

/* Of a storage whose runtime tracks: the bytes behind its record. Under the tracker's lock, but for
** `looked_at`. */
typedef struct tidei_origin {
    tidei_storage *st;
    struct tidei_origin *next, **prev; /* in the table */
    struct tidei_trace *trace;         /* NULL: not known */
    uint64_t born_ns;
    uint64_t seen;  /* the last listing that met it */
    bool looked_at; /* the storage's own */
} tidei_origin;
#define TIDEI_ORIGIN_AT                                                                            \
    ((sizeof(tidei_storage) + _Alignof(tidei_origin) - 1) / _Alignof(tidei_origin) *               \
     _Alignof(tidei_origin))

/* Opens what the settings want; before the first storage. */
tide_status tidei_tracker_open(tidei_runtime *rt);
void tidei_tracker_close(tidei_runtime *rt); /* no storage is left */

/* A new one, that takes memory. Its turn has come; or else the tracker counts. */
void tidei_tracker_add(tidei_tracker *t, tidei_storage *st, bool turn);
/* one of so many has its turn; 0: nothing is tracked */
unsigned tidei_tracker_interval(const tidei_runtime *rt);
void tidei_tracker_remove(tidei_tracker *t,
                          tidei_storage *st); /* its last release, before its record is another's */

/* The arrays held now, the largest first, as lines of text. Returns the length that the whole has,
** like snprintf. */
size_t tidei_tracker_text(tidei_runtime *rt, char *buf, size_t cap);
/* How many origins listings have looked at so far, to find those that they wanted: for tests. The
** runtime tracks. */
uint64_t tidei_tracker_looks(tidei_runtime *rt);
/* The runtime is about to close: collects once more, and what is held then is a warning in the log,
** line by line. */
void tidei_tracker_farewell(tidei_runtime *rt);

#endif
