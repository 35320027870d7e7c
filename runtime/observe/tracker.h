/* tracker.h: which memory was allocated when, and where in the program.
**
** Model. At debug level 2 every allocation is looked at, with sampling every n-th of a thread's
** number (thread_index.h) on a device: the count lies in the device (storage.h), and goes on when
** the number is another thread's. Where there is none to go by (no number, or a recorder that is
** told of all) storage.c counts by threads. What is looked at gets an origin, whose bytes lie
** behind its storage's record, and which is in the tracker's table until the storage's last
** release. To the tracker a storage is an address, which it never follows. Backtraces are kept once
** each, until the runtime closes, or until others want the room of those that no origin has any
** more. A listing (runtime/leaks.h) asks for what it met in the table, which grows with what is in
** it.
** What must stay true: a runtime that tracks nothing pays no more than one that records nothing; an
** allocation fails for want of device memory, never for want of memory for its backtrace. Under the
** tracker's lock no storage that has an origin ends, so a listing may look at it; under it the
** host's allocator may be called, the process's lock of headers and a storage's stamps be taken,
** nothing else. */
#ifndef TIDEI_TRACKER_H
#define TIDEI_TRACKER_H

#include "runtime/base/base.h"
#include "runtime/base/settings.h"
#include "runtime/observe/backtrace.h"

typedef struct tidei_tracker tidei_tracker;

/* What is known of a storage. Its fields are under the tracker's lock, but for `looked_at`. */
typedef struct tidei_origin {
    const void *of;                    /* the storage */
    struct tidei_origin *next, **prev; /* in the table */
    struct tidei_trace *trace;         /* NULL: not known */
    uint64_t born_ns;
    uint64_t seen;  /* the last listing that met it */
    bool looked_at; /* the storage's own; false: the other fields are not set */
} tidei_origin;

/* Opens what the settings want, before the first storage; *out is NULL where that is nothing. rt is
** whose host memory it takes. */
tide_status tidei_tracker_open(tidei_runtime *rt, const tidei_settings *set, tidei_tracker **out);
void tidei_tracker_close(tidei_tracker *t); /* no storage is left; NULL does nothing */

/* One of so many allocations has its turn; 0: t is NULL, nothing is tracked. */
unsigned tidei_tracker_interval(const tidei_tracker *t);
/* A new storage, that takes memory; it is looked at if its turn has come. */
void tidei_tracker_add(tidei_tracker *t, tidei_origin *o, const void *of, bool turn);
/* its last release, before its record is another's */
void tidei_tracker_remove(tidei_tracker *t, tidei_origin *o);

/* Around a listing, which holds the lock meanwhile. */
void tidei_tracker_listing_begin(tidei_tracker *t);
void tidei_tracker_listing_end(tidei_tracker *t);
/* In a listing: what is known of the storage, which may have ended; NULL: nothing. *first: the
** listing met it for the first time. */
const tidei_origin *tidei_tracker_find(tidei_tracker *t, const void *of, bool *first);
/* In a listing: the allocation's backtrace, and how many frames it has; 0: it is not known. */
unsigned tidei_tracker_frames(const tidei_origin *o, void *at[TIDEI_FRAMES]);
/* How many origins listings have looked at so far, to find those that they wanted: for tests. */
uint64_t tidei_tracker_looks(tidei_tracker *t);

#endif
