/* settle.c: a settle of the pool `tide`: the device is asked, without the lock, which pending
** pieces are done by now; these become ready. */
#include "runtime/pool/reuse.h"
#include "runtime/pool/tide/cache.h"
#include "runtime/pool/tide/tide.h"

uint16_t tidei_heap_reduce(tidei_dev *d, tidei_stamps *stamps, bool counts, uint64_t *tick) {
    tidei_stamp *x = tidei_stamps_at(stamps);
    uint16_t slot = TIDEI_SLOT_READY, kept = 0;
    uint64_t last = 0;
    for (const tidei_stamp *end = x + stamps->n, *at = x; at < end; at++) {
        if (counts && tidei_reuse_known_done(d, *at)) continue;
        slot = slot == TIDEI_SLOT_READY || slot == at->stream ? at->stream : TIDEI_SLOT_MANY;
        if (at->tick > last) last = at->tick;
        x[kept++] = *at;
    }
    stamps->n = kept;
    *tick = last;
    return slot;
}

/* For each slot the last tick that a free piece waits for, or a later one. */
static void ticks_wanted(tidei_heap *p, tidei_reuse_ticks *t) {
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
            const tidei_size_index *sh = tidei_zone_own(z, slot);
            if (sh && sh->bytes && sh->tick > t->last[slot]) t->last[slot] = sh->tick;
        }
        for (tidei_extent *x = tidei_size_index_fit(&z->mixed, 1); x;
             x = tidei_size_index_next(&z->mixed, x))
            tidei_reuse_want(t, tidei_heap_many(x));
    }
}

/* Drops the stamps of x that are done; true if there were any. */
static bool refresh(tidei_heap *p, tidei_extent *x) {
    uint64_t tick;
    if (x->slot != TIDEI_SLOT_MANY) {
        if (!tidei_reuse_known_done(p->base.dev, tidei_extent_stamp(x))) return false;
        x->slot = TIDEI_SLOT_READY;
        return true;
    }
    uint16_t slot = tidei_heap_reduce(p->base.dev, tidei_heap_many(x), true, &tick);
    if (slot == TIDEI_SLOT_MANY) return false;
    if (slot != TIDEI_SLOT_READY && !tidei_zone_own(tidei_zone_of(p, x), slot)) return false;
    tidei_stamps_clear(tidei_heap_many(x));
    x->slot = slot;
    x->tick = tick;
    return true;
}

/* Takes the pieces on which less is pending than before out of the size index, chained before
** `chain`. They are CLAIMED only until the lock is let go of, so they do not count as claimed. All
** come out first: to walk the index in order costs more than to put back the others. */
static tidei_extent *collect_from(tidei_heap *p, tidei_size_index *sh, tidei_extent *chain) {
    for (tidei_extent *x = tidei_size_index_take_all(sh), *next; x; x = next) {
        next = x->right;
        if (!refresh(p, x)) {
            tidei_size_index_put(sh, x);
            continue;
        }
        tidei_extent_become(x, TIDEI_WAS(FREE), TIDEI_EXTENT_CLAIMED);
        x->left = chain;
        chain = x;
    }
    return chain;
}

static tidei_extent *collect_done(tidei_heap *p) {
    tidei_extent *chain = NULL;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        for (unsigned slot = 0; slot < p->size_indexes_end; slot++) {
            tidei_size_index *sh = tidei_zone_own(z, slot);
            if (sh && sh->bytes) chain = collect_from(p, sh, chain);
        }
        chain = collect_from(p, &z->mixed, chain);
    }
    return chain;
}

size_t tidei_heap_settle(tidei_heap *p) {
    tidei_reuse_ticks ticks = {0};
    tidei_heap_lock(p);
    tidei_heap_flush(p);
    ticks_wanted(p, &ticks);
    tidei_heap_unlock(p);
    tidei_reuse_ask(p->base.dev, &ticks);
    tidei_heap_lock(p);
    size_t before = tidei_heap_ready_bytes(p);
    for (tidei_extent *x = collect_done(p), *next; x; x = next) {
        next = x->left;
        if (x->slot == TIDEI_SLOT_READY) tidei_heap_poison(p, x->off, x->size);
        tidei_heap_release(p, x);
    }
    size_t after = tidei_heap_ready_bytes(p);
    tidei_heap_unlock(p);
    return after > before ? after - before : 0;
}
