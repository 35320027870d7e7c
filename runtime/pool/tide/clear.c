/* clear.c: the pool `tide` clears pages and gives them back, where memory is needed that no pool
** hands out: for a library's handle, a loaded kernel.
**
** Model. Free parts of pages are of use to blocks alone. So this makes a free piece as for a
** request, by all the ways there are to make room. The piece is so long that enough whole pages lie
** in it wherever it begins; the host waits for what is pending there, and the pages go back. Where
** so long a piece is not to be had, one without the margin may still do: it may begin where a page
** does.
** What must stay true: no new memory is taken, so that what goes back is gained. Only the clearing
** thread has the piece. */
#include "runtime/pool/tide/tide.h"

/* What the pool has free to clear pages with. */
struct stock {
    size_t free;    /* bytes */
    size_t largest; /* page */
};

static struct stock stock_of(tidei_heap *p) {
    struct stock a = {0};
    tidei_check(!tidei_heap_locked(p));
    tidei_heap_lock(p);
    tidei_heap_flush(p);
    a.free = tidei_heap_free_bytes(p);
    for (const tidei_page *pg = p->first_page; pg; pg = pg->next)
        a.largest = tidei_max_size(a.largest, pg->bytes);
    tidei_heap_unlock(p);
    return a;
}

/* The host waits for what is pending on x, which is claimed. Without the lock. */
static tide_status wait_for(tidei_heap *p, tidei_extent *x) {
    tide_status st = TIDE_OK;
    tidei_check(!tidei_heap_locked(p) && tidei_extent_is(x) == TIDEI_EXTENT_CLAIMED);
    if (x->slot == TIDEI_SLOT_READY) return st;
    if (x->slot != TIDEI_SLOT_MANY) return tidei_stamp_wait(p->base.dev, tidei_extent_stamp(x));
    for (unsigned i = 0; i < tidei_heap_many(x)->n && st == TIDE_OK; i++)
        st = tidei_stamp_wait(p->base.dev, tidei_stamps_at(tidei_heap_many(x))[i]);
    return st;
}

/* Makes a free piece of `size` bytes on which nothing is pending. The lock is held, but let go of
** in between. */
static tide_status make_piece(tidei_heap *p, size_t size, tidei_stream *s) {
    const unsigned flags =
        TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE | TIDEI_ALLOC_FLUSHED | TIDEI_ALLOC_NO_GROW;
    tidei_extent *x;
    tidei_check(tidei_heap_locked(p));
    tide_status st = tidei_heap_restock(p);
    if (st == TIDE_OK) st = tidei_heap_find(p, size, s, flags, &x);
    if (st != TIDE_OK) return st;
    if (tidei_extent_is(x) == TIDEI_EXTENT_FREE) tidei_heap_claim(p, x);
    tidei_heap_unlock(p);
    st = wait_for(p, x);
    tidei_heap_lock(p);
    if (st == TIDE_OK) tidei_heap_be_ready(p, x);
    tidei_heap_unclaim(p, x);
    return st;
}

/* Makes such a piece and gives back the whole pages on it. A request that fails meanwhile is tried
** again. */
static size_t clear_piece(tidei_heap *p, size_t size) {
    tidei_stream *s = p->base.dev->stream0;
    if (!tidei_zone_own(&p->zone, s->slot) && !tidei_zone_own_made(p, &p->zone, s->slot)) return 0;
    tidei_inflight_growth_begin(p->base.dev);
    tidei_heap_lock(p);
    tide_status st = make_piece(p, size, s);
    tidei_check_slow(tidei_heap_valid_locked(p));
    tidei_heap_unlock(p);
    size_t given = st == TIDE_OK ? p->base.ops->trim(&p->base, 0) : 0;
    tidei_inflight_growth_end(p->base.dev, st == TIDE_OK);
    return given;
}

/* Of so many bytes wanted, those that this pool can give. */
static size_t share(const tidei_heap *p, const struct stock *a, size_t bytes) {
    size_t margin = p->page_bytes - p->granule;
    if (bytes <= a->free) return bytes;
    return a->free > margin ? (a->free - margin) / p->page_bytes * p->page_bytes : 0;
}

size_t tidei_heap_clear(tidei_pool *pool, size_t bytes) {
    tidei_heap *p = (tidei_heap *)pool;
    if (!p->base.mover) return 0;
    struct stock a = stock_of(p);
    /* Where all pages have one size the parts of pages at both ends of a piece are less than one
    ** together. */
    const size_t one = p->page_bytes - p->granule, two = 2 * (a.largest - p->granule);
    const size_t margins[] = {a.largest > p->page_bytes ? two : one, one, 0};
    size_t given = 0;
    bytes = share(p, &a, bytes);
    for (unsigned i = a.largest > p->page_bytes ? 0 : 1; i < TIDEI_COUNT(margins) && given < bytes;
         i++) {
        size_t size = tidei_round_up(bytes - given, p->page_bytes) + margins[i];
        if (size + given <= a.free) given += clear_piece(p, size);
    }
    return given;
}
