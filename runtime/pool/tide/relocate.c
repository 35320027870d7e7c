/* remap_pages.c: pages of the pool `tide` are mapped at other addresses, so that they lie side by
** side.
**
** Model. Runs of neighbouring pages, claimed and with nothing pending, are unmapped; then all their
** pages are mapped one behind the other into a stretch that was reserved for them. The lock is not
** held meanwhile.
** What must stay true: whatever call fails, a page is mapped where an extent says so or given back:
** a run that cannot be unmapped stays where it is, and what cannot be mapped again leaves the
** pool. */
#include "runtime/pool/tide/tide.h"

/* Unmaps runs until the device refuses one; *stay are those from there on, *down the pages of the
** others. Without the lock. */
static tide_status take_down(tidei_heap *p, tidei_extent **runs, tidei_extent **stay,
                             tidei_page **down) {
    tide_status st = TIDE_OK;
    for (; *runs; runs = &(*runs)->left) {
        tidei_extent *x = *runs;
        tidei_heap_unpoison(p, x->off, x->size);
        if ((st = tidei_pages_unmap(p, x->pages, tidei_extent_end(x))) != TIDE_OK) {
            tidei_heap_poison(p, x->off, x->size);
            break;
        }
        for (tidei_page *pg = x->pages;; pg = pg->next) {
            *down = pg;
            down = &pg->then;
            if (tidei_page_end(pg) >= tidei_extent_end(x)) break;
        }
    }
    *down = NULL;
    *stay = *runs;
    *runs = NULL;
    return st;
}

/* Maps pages one behind the other from `off` on until the device refuses; *rest are those from
** there on. Without the lock. */
static tide_status put_up(tidei_heap *p, tidei_page *pages, size_t off, tidei_page **rest) {
    tidei_device *d = p->base.dev->d;
    tidei_dpage *mem[TIDEI_RUN_PAGES];
    for (*rest = pages; *rest;) {
        tidei_page *pg = *rest;
        size_t n = 0, bytes = 0;
        for (; pg && n < TIDEI_RUN_PAGES; pg = pg->then) {
            mem[n++] = pg->mem;
            bytes += pg->bytes;
        }
        tide_status st = d->ops->map(d, p->addr + off, mem, n);
        if (st != TIDE_OK) return st;
        tidei_heap_poison(p, off, bytes);
        off += bytes;
        *rest = pg;
    }
    return TIDE_OK;
}

/* Links the pages before `rest` in where they are now. Returns their bytes. */
static size_t link_moved(tidei_heap *p, tidei_page *pages, const tidei_page *rest, size_t off) {
    size_t bytes = 0;
    tidei_page *last = NULL;
    for (tidei_page *pg = pages; pg != rest; last = pg, pg = pg->then) {
        pg->off = off + bytes;
        pg->prev = last;
        pg->next = NULL;
        if (last) last->next = pg;
        bytes += pg->bytes;
    }
    if (bytes) tidei_pages_link(p, pages);
    return bytes;
}

/* Runs that are down become holes, the others free. */
static void leave_runs(tidei_heap *p, tidei_extent *down, tidei_extent *stay) {
    for (tidei_extent *x = down, *next; x; x = next) {
        next = x->left;
        tidei_pages_unlink(p, x->pages, tidei_extent_end(x));
        p->backed -= x->size;
        p->claimed -= x->size;
        tidei_heap_hole(p, x);
    }
    for (tidei_extent *x = stay, *next; x; x = next) {
        next = x->left;
        tidei_heap_unclaim(p, x);
    }
}

/* Of the target the first `bytes` are backed now, and CLAIMED. */
static void fill_target(tidei_heap *p, tidei_extent *target, size_t bytes, tidei_extent *spare) {
    if (bytes == target->size) {
        tidei_heap_drop(p, spare);
    } else if (bytes) {
        spare->off = target->off + bytes;
        spare->size = target->size - bytes;
        target->size = bytes;
        tidei_heap_link_behind(p, spare, target);
        tidei_heap_hole(p, spare);
    } else {
        tidei_heap_drop(p, spare);
        tidei_heap_hole(p, target);
        return;
    }
    p->backed += bytes;
    p->claimed += bytes;
    tidei_extent_be(target, TIDEI_EXTENT_CLAIMED);
}

/* Pages that are mapped nowhere go back to the device. Without the lock. */
static void give_back(tidei_heap *p, tidei_page *pages) {
    tidei_device *d = p->base.dev->d;
    for (tidei_page *next; pages; pages = next) {
        next = pages->then;
        d->ops->page_release(d, pages->mem);
        tidei_unback(p->base.dev, pages->bytes);
        tidei_host_free(p->base.dev->rt, pages);
    }
}

tide_status tidei_heap_remap_pages(tidei_heap *p, tidei_extent *runs, tidei_extent *target) {
    tidei_extent *stay, *spare = tidei_heap_spare(p);
    tidei_page *pages, *rest;
    tidei_lock_give(&p->lock);
    tide_status st = take_down(p, &runs, &stay, &pages);
    tide_status up = put_up(p, pages, target->off, &rest);
    if (st == TIDE_OK) st = up;
    tidei_lock_take(&p->lock);
    leave_runs(p, runs, stay);
    size_t bytes = link_moved(p, pages, rest, target->off);
    fill_target(p, target, bytes, spare);
    tidei_heap_set_cap(p);
    p->bytes_remapped += bytes;
    if (st != TIDE_OK && bytes) tidei_heap_unclaim(p, target);
    tidei_lock_give(&p->lock);
    give_back(p, rest);
    tidei_lock_take(&p->lock);
    return st;
}
