/* subranges.c: uses of parts of storages. The model stands in subranges.h. */
#include "runtime/memory/subranges.h"

static tidei_subranges *parts_made(tidei_storage *st) {
    if (!st->subranges) st->subranges = tidei_host_alloc(st->dev->rt, sizeof *st->subranges);
    return st->subranges;
}

bool tidei_subranges_reserve(tidei_storage *st, const tidei_use *u, const tidei_stream *s) {
    if (tidei_use_is_part(u, s) && !parts_made(st)) return false;
    tidei_subranges *p = st->subranges;
    if (p && !tidei_stamps_reserve(&p->unordered, 1)) return false;
    /* Room for the stamps that are there, this use's, and one that another thread adds before
    ** it. */
    return tidei_stamps_reserve(&st->stamps, 2 + (p ? p->n + p->unordered.n : 0));
}

static void remove_part(tidei_subranges *p, unsigned i) {
    p->n--;
    memmove(&p->part[i], &p->part[i + 1], (p->n - i) * sizeof *p->part);
}

/* Removes what x makes superfluous within its stretch: if it writes, all that s is ordered after;
** else the stream's own earlier reading. */
static void remove_covered(tidei_subranges *p, tidei_stream *s, const tidei_subrange *x) {
    for (unsigned i = p->n; i-- > 0;) {
        const tidei_subrange *old = &p->part[i];
        bool covered = x->at.write ? tidei_stamp_covered(s, old->at)
                                   : old->at.stream == s->slot && !old->at.write;
        if (covered && x->from <= old->from && old->to <= x->to) remove_part(p, i);
    }
}

void tidei_subranges_add(tidei_storage *st, const tidei_use *u, tidei_stream *s, tidei_stamp x) {
    tidei_subranges *p = st->subranges;
    x.write = u->mode & TIDEI_WRITE ? 1 : 0;
    if (atomic_load_explicit(&st->unordered, memory_order_relaxed)) {
        tidei_stamps_add(&p->unordered, x);
        return;
    }
    tidei_subrange part = {.from = u->offset, .to = u->offset + u->bytes, .at = x};
    remove_covered(p, s, &part);
    if (p->n == TIDEI_SUBRANGES_MAX) {
        tidei_stamps_add(&st->stamps, p->part[0].at);
        remove_part(p, 0);
    }
    p->part[p->n++] = part;
}

void tidei_subranges_replace(tidei_storage *st, tidei_stream *s) {
    const tidei_subrange all = {.from = 0, .to = SIZE_MAX, .at.write = 1};
    remove_covered(st->subranges, s, &all);
}

void tidei_subranges_fold(tidei_storage *st) {
    tidei_subranges *p = st->subranges;
    if (tidei_likely(!p)) return;
    for (unsigned i = 0; i < p->n; i++) tidei_stamps_add(&st->stamps, p->part[i].at);
    for (unsigned i = 0; i < p->unordered.n; i++)
        tidei_stamps_add(&st->stamps, tidei_stamps_at(&p->unordered)[i]);
    tidei_subranges_forget(st);
}

void tidei_subranges_drop(tidei_storage *st) {
    tidei_subranges_fold(st);
    tidei_stamps_clear(&st->subranges->unordered);
    tidei_host_free(st->dev->rt, st->subranges);
    st->subranges = NULL;
}

tide_status tidei_storage_set_ordered(tidei_storage *st, bool ordered, const char *op) {
    tidei_stamps_lock(st);
    bool can = ordered || parts_made(st);
    if (can && atomic_load(&st->unordered) == ordered) {
        tidei_subranges_fold(st);
        atomic_store(&st->unordered, !ordered);
    }
    tidei_stamps_unlock(st);
    return can ? TIDE_OK : tidei_fail_host_memory(op, sizeof *st->subranges);
}
