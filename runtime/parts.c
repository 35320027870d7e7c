/* parts.c: uses of parts of storages. The model stands in parts.h. */
#include "runtime/parts.h"

static tidei_parts *parts_made(tidei_storage *st) {
    if (!st->parts) st->parts = tidei_host_alloc(st->dev->rt, sizeof *st->parts);
    return st->parts;
}

bool tidei_parts_reserve(tidei_storage *st, const tidei_use *u, const tide_stream *s) {
    if (tidei_use_is_part(u, s) && !parts_made(st)) return false;
    /* What is there, this use, and one that somebody else adds before it. */
    return tidei_stamps_reserve(&st->stamps, 2 + (st->parts ? st->parts->n : 0));
}

static void remove_part(tidei_parts *p, unsigned i) {
    p->n--;
    memmove(&p->part[i], &p->part[i + 1], (p->n - i) * sizeof *p->part);
}

/* What x makes superfluous: a write, which came after them, all parts within it; a use that is not ordered, or a reading one, the
** stream's own. */
static void remove_covered(tidei_parts *p, const tidei_part *x, bool all) {
    for (unsigned i = p->n; i-- > 0;) {
        const tidei_part *old = &p->part[i];
        bool own = old->at.stream == x->at.stream && old->at.write <= x->at.write;
        if ((own || all) && x->from <= old->from && old->to <= x->to) remove_part(p, i);
    }
}

void tidei_parts_add(tidei_storage *st, const tidei_use *u, tidei_stamp x) {
    tidei_parts *p = st->parts;
    x.write = u->mode & TIDEI_WRITE ? 1 : 0;
    bool unordered = atomic_load_explicit(&st->unordered, memory_order_relaxed);
    tidei_part part = {.from = u->offset, .to = u->offset + u->bytes, .at = x};
    if (unordered) part.from = part.to = 0;
    remove_covered(p, &part, x.write && !unordered);
    if (p->n == TIDEI_PARTS_MAX) {
        tidei_stamps_add(&st->stamps, p->part[0].at);
        remove_part(p, 0);
    }
    p->part[p->n++] = part;
}

void tidei_parts_fold(tidei_storage *st) {
    tidei_parts *p = st->parts;
    if (tidei_likely(!p)) return;
    for (unsigned i = 0; i < p->n; i++) tidei_stamps_add(&st->stamps, p->part[i].at);
    p->n = 0;
}

void tidei_parts_drop(tidei_storage *st) {
    tidei_parts_fold(st);
    tidei_host_free(st->dev->rt, st->parts);
    st->parts = NULL;
}

tide_status tidei_storage_set_ordered(tidei_storage *st, bool ordered, const char *op) {
    tidei_stamps_lock(st);
    bool can = ordered || parts_made(st);
    if (can && atomic_load(&st->unordered) == ordered) {
        tidei_parts_fold(st);
        atomic_store(&st->unordered, !ordered);
    }
    tidei_stamps_unlock(st);
    return can ? TIDE_OK : tidei_fail_host_memory(op, sizeof *st->parts);
}
