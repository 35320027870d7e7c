/* subranges.h: uses of a part of a storage, told apart from uses of the whole, so that views that
** share no byte need not wait for each other.
**
** Model. A storage's stamps stand for all its bytes. Where several streams are at work, a use of
** fewer bytes is kept as a part: a stretch with a stamp. Whoever uses the storage waits for the
** stamps, and for those parts that overlap what it touches. There are few parts: one more than
** there is room for makes the oldest a stamp of the whole, which only says too much. A storage that
** is not ordered (tide_array_set_ordered) has all its uses here, in a set of their own that no
** stream waits for; the host does.
** Between the ordering of a stream and the publication of its use others may use the storage: so a
** write takes the place of those uses alone that its stream is ordered after.
** What must stay true: among the stamps there is room for all parts, so that folding them in takes
** no memory. Everything is done under the storage's flag, but where nobody else knows the
** storage. */
#ifndef TIDEI_SUBRANGES_H
#define TIDEI_SUBRANGES_H

#include "runtime/memory/storage.h"

#define TIDEI_PARTS_MAX 16

typedef struct tidei_part {
    size_t from, to; /* bytes of the storage */
    tidei_stamp at;
} tidei_part;

struct tidei_subranges {
    unsigned n;
    tidei_part part[TIDEI_PARTS_MAX]; /* the oldest first */
    tidei_stamps unordered;
};

/* Whether a use by s is to be kept as a part. */
static inline bool tidei_use_is_part(const tidei_use *u, const tidei_stream *s) {
    return tidei_unlikely(u->bytes != u->st->bytes) &&
           atomic_load_explicit(&s->dev->rt->streams->n, memory_order_relaxed) > 1;
}
static inline bool tidei_part_meets(const tidei_part *p, const tidei_use *u) {
    return p->from < u->offset + u->bytes && u->offset < p->to;
}

/* Room for one more use by s, whole or part. False: host memory is exhausted. */
bool tidei_subranges_reserve(tidei_storage *st, const tidei_use *u, const tidei_stream *s);
/* Adds a use by s at x. There is room. */
void tidei_subranges_add(tidei_storage *st, const tidei_use *u, tidei_stream *s, tidei_stamp x);
/* A write of the whole by s takes the place of the parts that s is ordered after. */
void tidei_subranges_replace(tidei_storage *st, tidei_stream *s);
/* All parts become stamps of the whole. */
void tidei_subranges_fold(tidei_storage *st);
/* Forgets them, for something came after them all. */
static inline void tidei_subranges_forget(tidei_storage *st) {
    if (tidei_unlikely(st->parts)) st->parts->n = st->parts->unordered.n = 0;
}
/* Makes them stamps of the whole, and gives back their memory; at the storage's end. */
void tidei_subranges_drop(tidei_storage *st);

/* From now on uses of the storage wait for none of the later ones of other streams, or do again. */
tide_status tidei_storage_set_ordered(tidei_storage *st, bool ordered, const char *op);

#endif
