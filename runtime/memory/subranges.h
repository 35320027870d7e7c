/* subranges.h: keeps uses of a part of a storage apart from uses of the whole, so that views that
** share no byte need not wait for each other.
**
** Model. A storage's stamps stand for all its bytes. Where several streams are at work, a use of
** fewer bytes is kept as a part: a stretch with a stamp. A use waits for the stamps, and for those
** parts that overlap the bytes it touches:
**   storage x, 100 bytes    stamps: (1, 3)    parts: [0, 50) at (1, 8), [50, 100) at (2, 4)
**   a write of [60, 70) waits for (1, 3) and (2, 4), not for (1, 8)
** There are few parts: where one more does not fit the oldest becomes a stamp of the whole, which
** is safe: later uses then wait for more than they need. A storage that is not ordered
** (tide_array_set_ordered) has all its uses here, in a set of their own that no stream waits for;
** the host does.
** Between the ordering of a stream and the publication of its use others may use the storage: so a
** write replaces only those uses that its stream is ordered after.
** What must stay true: among the stamps there is room for all parts, so that folding them in takes
** no memory. All functions are called under the storage's flag, unless no other thread knows the
** storage. */
#ifndef TIDEI_SUBRANGES_H
#define TIDEI_SUBRANGES_H

#include "runtime/memory/storage.h"

#define TIDEI_SUBRANGES_MAX 16

typedef struct tidei_subrange {
    size_t from, to; /* in bytes of the storage */
    tidei_stamp at;
} tidei_subrange;

struct tidei_subranges {
    unsigned n;
    tidei_subrange part[TIDEI_SUBRANGES_MAX]; /* the oldest first */
    tidei_stamps unordered;
};

/* Whether a use by s is to be kept as a part. */
static inline bool tidei_use_is_part(const tidei_use *u, const tidei_stream *s) {
    return tidei_unlikely(u->bytes != u->st->bytes) &&
           atomic_load_explicit(&s->dev->rt->streams->n, memory_order_relaxed) > 1;
}
static inline bool tidei_subrange_meets(const tidei_subrange *p, const tidei_use *u) {
    return p->from < u->offset + u->bytes && u->offset < p->to;
}

/* Makes room for one more use by s, whole or part. False: host memory is exhausted. */
bool tidei_subranges_reserve(tidei_storage *st, const tidei_use *u, const tidei_stream *s);
/* Adds a use by s at x. There is room. */
void tidei_subranges_add(tidei_storage *st, const tidei_use *u, tidei_stream *s, tidei_stamp x);
/* A write of the whole by s removes the parts that s is ordered after. */
void tidei_subranges_replace(tidei_storage *st, tidei_stream *s);
/* All parts become stamps of the whole. */
void tidei_subranges_fold(tidei_storage *st);
/* Forgets all parts, because a later use came after them all. */
static inline void tidei_subranges_forget(tidei_storage *st) {
    if (tidei_unlikely(st->subranges)) st->subranges->n = st->subranges->unordered.n = 0;
}
/* Makes all parts stamps of the whole, and frees their memory; at the storage's end. */
void tidei_subranges_drop(tidei_storage *st);

/* From now on uses of the storage do not wait for later uses by other streams; or (`ordered`) do
** again. */
tide_status tidei_storage_set_ordered(tidei_storage *st, bool ordered, const char *op);

#endif
