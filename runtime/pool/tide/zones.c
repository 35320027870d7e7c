/* zones.c: the zones of the pool `tide`: their locks, which one a thread works in, and the borders
** between them. The model stands in zones.h. */
#include "runtime/pool/tide/tide.h"

/* ---- freed while the lock was held ---- */

static void send(tidei_zone *z, tidei_extent *x) {
    tidei_extent *first = atomic_load_explicit(&z->freed, memory_order_relaxed);
    do {
        x->left = first;
    } while (!atomic_compare_exchange_weak_explicit(&z->freed, &first, x, memory_order_release,
                                                    memory_order_relaxed));
}

static void release_used(tidei_heap *p, tidei_extent *x) {
    tidei_zone_of(p, x)->used -= x->size;
    tidei_heap_release(p, x);
}

/* A thread that comes for something else frees at most so many: each is likely to lie in another
** processor's cache, and threads wait. */
#ifndef TIDEI_STRESS
#define FREED_AT_ONCE 4
#else
#define FREED_AT_ONCE 1
#endif

/* With z's lock, or (`all`) the pool's. Frees up to `most`. */
__attribute__((noinline)) static void empty_freed(tidei_heap *p, tidei_zone *z, bool all,
                                                  size_t most) {
    tidei_extent *x = z->received;
    for (bool last = false;; most--) {
        if (!x && !last) {
            x = atomic_exchange_explicit(&z->freed, NULL, memory_order_acquire);
            last = true;
        }
        if (!x || !most) break;
        tidei_extent *next = x->left;
        if (all || tidei_zone_number(x) == z->number)
            release_used(p, x);
        else /* it came here while its zone changed */
            send(tidei_zone_of(p, x), x);
        x = next;
    }
    z->received = x;
}

static inline bool has_freed(const tidei_zone *z) {
    return z->received || atomic_load_explicit(&z->freed, memory_order_relaxed);
}

static inline void look_at_freed(tidei_heap *p, tidei_zone *z) {
    if (tidei_unlikely(has_freed(z))) empty_freed(p, z, false, FREED_AT_ONCE);
}

bool tidei_zone_free_all(tidei_heap *p, tidei_zone *z) {
    if (tidei_likely(!has_freed(z))) return false;
    empty_freed(p, z, false, SIZE_MAX);
    return true;
}

/* ---- the pool's lock ---- */

void tidei_heap_lock(tidei_heap *p) {
    tidei_lock_take(&p->zone.lock); /* none is added from here on */
    unsigned n = tidei_zones(p);
    for (unsigned k = 1; k < n; k++) tidei_lock_take(&tidei_zone_at(p, k)->lock);
    for (unsigned k = 0; k < n; k++)
        if (has_freed(tidei_zone_at(p, k))) empty_freed(p, tidei_zone_at(p, k), true, SIZE_MAX);
}

void tidei_heap_unlock(tidei_heap *p) {
    for (unsigned k = tidei_zones(p); k--;) tidei_lock_give(&tidei_zone_at(p, k)->lock);
}

#ifndef NDEBUG
bool tidei_heap_locked(const tidei_heap *p) {
    for (unsigned k = 0; k < tidei_zones(p); k++)
        if (!tidei_lock_held(&tidei_zone_at(p, k)->lock)) return false;
    return true;
}
#endif

/* ---- sums ---- */

size_t tidei_heap_used(const tidei_heap *p) {
    size_t bytes = 0;
    for (unsigned k = 0; k < tidei_zones(p); k++) bytes += tidei_zone_at(p, k)->used;
    return bytes;
}

size_t tidei_heap_free_bytes(const tidei_heap *p) {
    return p->backed - tidei_heap_used(p) - p->claimed;
}

size_t tidei_heap_ready_bytes(const tidei_heap *p) {
    size_t bytes = 0;
    for (unsigned k = 0; k < tidei_zones(p); k++) bytes += tidei_zone_at(p, k)->ready.bytes;
    return bytes;
}

size_t tidei_heap_own_bytes(const tidei_heap *p, const tidei_stream *s) {
    size_t bytes = tidei_heap_ready_bytes(p);
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        const tidei_size_index *own = tidei_zone_own(tidei_zone_at(p, k), s->slot);
        if (own) bytes += own->bytes;
    }
    return bytes;
}

size_t tidei_heap_most_used(tidei_heap *p) {
    size_t now = tidei_zones(p) == 1 ? p->zone.most_used : tidei_heap_used(p);
    return p->most_used = tidei_max_size(p->most_used, now);
}

/* ---- size indexes ---- */

/* The stream's slot is known to the pool. With the zone's lock alone where it is already. */
static void know_slot(tidei_heap *p, tidei_zone *z, unsigned slot) {
    tidei_lock_take(&z->lock);
    bool known = p->slots[slot];
    tidei_lock_give(&z->lock);
    if (known) return;
    tidei_heap_lock(p);
    if (!p->slots[slot]) {
        p->slots[slot] = true;
        p->shared = p->nslots++ > 0;
        if (p->size_indexes_end <= slot) p->size_indexes_end = slot + 1;
    }
    tidei_heap_unlock(p);
}

/* The first zone has one of each: all may become that zone. */
tidei_size_index *tidei_zone_own_made(tidei_heap *p, tidei_zone *z, unsigned slot) {
    tidei_zone *zones[] = {&p->zone, z};
    for (unsigned i = z == &p->zone; i < TIDEI_COUNT(zones); i++) {
        if (tidei_zone_own(zones[i], slot)) continue;
        tidei_size_index *made = tidei_host_alloc(p->base.dev->rt, sizeof *made);
        if (!made) return NULL;
        made->shift = p->zone.ready.shift;
        know_slot(p, zones[i], slot);
        tidei_size_index *none = NULL;
        if (!atomic_compare_exchange_strong(&zones[i]->own[slot], &none, made))
            tidei_host_free(p->base.dev->rt, made); /* another thread was faster */
    }
    return tidei_zone_own(z, slot);
}

/* ---- which zone ---- */

#ifndef TIDEI_STRESS
/* A thread leaves a zone that it shares once its lock was held by another so many times more often
** than one in MEETING + 1 times. */
#define MEETING  8
#define MEETINGS 8
/* Blocks that a thread takes elsewhere before its zone asks for memory of others; where nothing
** comes of it twice as many the next time, up to the second. */
#define ELSEWHERE      8
#define ELSEWHERE_MOST 256
#else
#define MEETING        1
#define MEETINGS       1
#define ELSEWHERE      2
#define ELSEWHERE_MOST 2
#endif
/* For requests of at least this part of a page (2 MiB on GPUs) a thread looks into all zones if its
** own has no piece that is at most TIGHT_PART larger: else large pieces fall apart early. With 16
** threads in turn and 1,000 mixed blocks each, which nobody may move, 1.071 of the most that lives
** is backed so, 1.147 without, and 1.059 where all is one zone. */
#define LARGE_PART 8
#define TIGHT_PART 32

static tidei_zone *here(tidei_heap *p, const tidei_cache *c) { return c ? c->zone : &p->zone; }

unsigned tidei_zone_here(const tidei_heap *p) {
    const tidei_cache *c = tidei_heap_cache_of(p, tidei_thread_number);
    return c && !p->wholes ? c->zone->number : 0;
}

/* A zone that no thread is in; NULL: there is none, and none can be made. */
static tidei_zone *vacant(tidei_heap *p) {
    tidei_zone *z;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        z = tidei_zone_at(p, k);
        if (!atomic_load_explicit(&z->tenants, memory_order_relaxed)) return z;
    }
    if (!(z = tidei_host_alloc(p->base.dev->rt, sizeof *z))) return NULL;
    z->ready.shift = z->mixed.shift = p->zone.ready.shift;
    tidei_heap_lock(p);
    unsigned n = tidei_zones(p);
    tidei_heap_most_used(p);
    if (n < TIDEI_ZONES_MAX) {
        z->number = n;
        tidei_lock_take(&z->lock); /* it is given back with the others */
        atomic_store_explicit(&p->zones[n], z, memory_order_release);
        atomic_store_explicit(&p->nzones, n + 1, memory_order_release);
    }
    tidei_heap_unlock(p);
    if (n < TIDEI_ZONES_MAX) return z;
    tidei_host_free(p->base.dev->rt, z);
    return NULL;
}

void tidei_zone_move_in(tidei_cache *c, tidei_zone *z) {
    if (c->zone) atomic_fetch_sub_explicit(&c->zone->tenants, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&z->tenants, 1, memory_order_relaxed);
    c->zone = z;
    c->met = c->elsewhere = 0;
    c->elsewhere_most = ELSEWHERE;
}

bool tidei_zone_depart(tidei_heap *p, tidei_cache *c) {
    tidei_zone *z = vacant(p);
    if (!z) return false;
    tidei_zone_move_in(c, z);
    return true;
}

/* The lock of the thread's zone was held. Whether the thread has gone to another zone. */
__attribute__((noinline)) static bool met(tidei_heap *p, tidei_cache *c) {
    if (!c || (c->met += MEETING) < MEETING * MEETINGS) return false;
    c->met = 0;
    bool alone = atomic_load_explicit(&c->zone->tenants, memory_order_relaxed) < 2,
         stays = atomic_load_explicit(&p->base.attrs.deterministic, memory_order_relaxed);
    return !alone && !stays && tidei_zone_depart(p, c);
}

tide_status tidei_zone_enter(tidei_heap *p, tidei_cache *c, uint16_t slot, tidei_zone **out) {
    tidei_zone *z;
    for (;;) {
        z = here(p, c);
        if (tidei_unlikely(!tidei_zone_own(z, slot)) && !tidei_zone_own_made(p, z, slot))
            return tidei_fail_host_memory("pool tide", sizeof(tidei_size_index));
        if (tidei_likely(tidei_lock_try(&z->lock))) {
            if (c && c->met) c->met--;
            break;
        }
        if (met(p, c)) continue;
        tidei_lock_take(&z->lock);
        break;
    }
    look_at_freed(p, z);
    tide_status st = tidei_likely(z->free_list.n) ? TIDE_OK : tidei_heap_restock_zone(p, z);
    if (st != TIDE_OK) tidei_zone_leave(z);
    *out = z;
    return st;
}

/* The bin of the best piece that a stream of this slot may have in the zone, as it looks from
** outside; TIDEI_INDEX_BINS: none. */
static unsigned best_bin(const tidei_zone *z, uint16_t slot, unsigned bin) {
    const tidei_size_index *own = tidei_zone_own(z, slot);
    unsigned ready = tidei_size_index_look(&z->ready, bin),
             pending = own ? tidei_size_index_look(own, bin) : TIDEI_INDEX_BINS;
    return ready < pending ? ready : pending;
}

/* Enters the zone unless it has no free descriptor, or its lock is held and the thread does not
** wait for it. */
static bool entered(tidei_heap *p, tidei_zone *z, bool waits) {
    if (waits)
        tidei_lock_take(&z->lock);
    else if (!tidei_lock_try(&z->lock))
        return false;
    if (z->free_list.n || tidei_heap_refill_zone(p, z)) return true;
    tidei_zone_leave(z);
    return false;
}

/* In the first round a thread passes by zones whose locks are held, in the second it waits for one
** at a time: all the locks that it would take else stop everybody. */
#define ROUNDS 2

tidei_zone *tidei_zone_enter_other(tidei_heap *p, const tidei_cache *c, uint16_t slot, size_t size,
                                   unsigned *at) {
    unsigned n = tidei_zones(p), first = here(p, c)->number + 1,
             bin = tidei_size_index_bin(&p->zone.ready, size);
    while (*at < ROUNDS * (n - 1)) {
        bool waits = *at >= n - 1;
        tidei_zone *z = tidei_zone_at(p, (first + (*at)++ % (n - 1)) % n);
        bool freed = waits && atomic_load_explicit(&z->freed, memory_order_relaxed);
        if ((freed || best_bin(z, slot, bin) < TIDEI_INDEX_BINS) && entered(p, z, waits)) return z;
    }
    return NULL;
}

tidei_zone *tidei_zone_try_tighter(tidei_heap *p, const tidei_cache *c, uint16_t slot,
                                   size_t size) {
    tidei_zone *home = here(p, c), *best = home;
    unsigned n = tidei_zones(p), bin = tidei_size_index_bin(&home->ready, size),
             enough = tidei_size_index_bin(&home->ready, size + size / TIGHT_PART),
             found = best_bin(home, slot, bin);
    if (size < p->page_bytes / LARGE_PART) return NULL;
    for (unsigned k = 1; k < n && found > enough; k++) {
        tidei_zone *z = tidei_zone_at(p, (home->number + k) % n);
        unsigned there = best_bin(z, slot, bin);
        if (there < found) best = z, found = there;
    }
    return best != home && entered(p, best, false) ? best : NULL;
}

/* ---- freeing ---- */

/* NULL: its lock is held. */
static tidei_zone *try_zone_of(tidei_heap *p, const tidei_extent *x) {
    for (;;) {
        tidei_zone *z = tidei_zone_of(p, x);
        if (tidei_unlikely(!tidei_lock_try(&z->lock))) return NULL;
        if (tidei_likely(tidei_zone_number(x) == z->number)) return z;
        tidei_zone_leave(z);
    }
}

static tidei_zone *enter_zone_of(tidei_heap *p, const tidei_extent *x) {
    for (;;) {
        tidei_zone *z = tidei_zone_of(p, x);
        tidei_lock_take(&z->lock);
        if (tidei_zone_number(x) == z->number) return z;
        tidei_zone_leave(z);
    }
}

/* Leaves x to whoever has the lock next. False: somebody looks at x, which is LIVE still. */
static bool leave_freed(tidei_heap *p, tidei_extent *x, uint16_t slot, uint64_t tick) {
    uint8_t live = TIDEI_EXTENT_LIVE;
    if (tidei_extent_is(x) != TIDEI_EXTENT_CACHED &&
        !atomic_compare_exchange_strong(&x->state, &live, TIDEI_EXTENT_CACHED))
        return false;
    x->slot = slot;
    x->tick = tick;
    send(tidei_zone_of(p, x), x);
    return true;
}

void tidei_zone_free(tidei_heap *p, tidei_cache *c, tidei_extent *x, uint16_t slot, uint64_t tick) {
    tidei_zone *z = try_zone_of(p, x);
    if (tidei_unlikely(!z)) {
        met(p, c);
        if (leave_freed(p, x, slot, tick)) return;
        z = enter_zone_of(p, x); /* which waits until nobody looks at x */
    }
    if (c && z == c->zone) look_at_freed(p, z);
    z->used -= x->size;
    x->slot = slot;
    x->tick = tick;
    tidei_heap_release(p, x);
    tidei_check_slow(tidei_zones(p) > 1 || tidei_heap_valid_locked(p));
    tidei_zone_leave(z);
}

void tidei_zones_free_chain(tidei_heap *p, tidei_extent *chain) {
    tidei_zone *z = NULL;
    for (tidei_extent *next; chain; chain = next) {
        next = chain->left;
        tidei_check(tidei_extent_is(chain) == TIDEI_EXTENT_CACHED);
        if (z && tidei_zone_number(chain) != z->number) {
            tidei_zone_leave(z);
            z = NULL;
        }
        if (!z) z = enter_zone_of(p, chain);
        release_used(p, chain);
    }
    if (z) tidei_zone_leave(z);
}

/* ---- borders ---- */

static void be_in(tidei_extent *x, unsigned zone) {
    atomic_store_explicit(&x->zone, (uint8_t)zone, memory_order_relaxed);
}

static bool has_memory(const tidei_extent *x) {
    tidei_extent_state is = tidei_extent_is(x);
    return is != TIDEI_EXTENT_HOLE && is != TIDEI_EXTENT_MAPPING;
}
static bool is_border(const tidei_extent *x) {
    return x && tidei_extent_is(x) == TIDEI_EXTENT_BORDER;
}
static bool is_free(const tidei_extent *x) { return tidei_extent_is(x) == TIDEI_EXTENT_FREE; }

static tidei_extent *add_border(tidei_heap *p, tidei_extent *behind) {
    tidei_extent *x = tidei_heap_descriptor(p);
    x->off = tidei_extent_end(behind);
    x->size = 0;
    tidei_extent_become(x, TIDEI_WAS(UNUSED), TIDEI_EXTENT_BORDER);
    x->left = NULL;
    x->right = p->borders;
    if (x->right) x->right->left = x;
    p->borders = x;
    tidei_heap_link_behind(p, x, behind);
    return x;
}

static void drop_border(tidei_heap *p, tidei_extent *x) {
    if (x->left)
        x->left->right = x->right;
    else
        p->borders = x->right;
    if (x->right) x->right->left = x->left;
    tidei_heap_unlink(p, x);
    tidei_heap_undescribe(p, x);
}

/* Between x and what lies behind it. */
static void bound_behind(tidei_heap *p, tidei_extent *x) {
    tidei_extent *border = is_border(x->next) ? x->next : NULL,
                 *behind = border ? border->next : x->next;
    bool meet = behind && has_memory(x) && has_memory(behind) &&
                tidei_zone_number(x) != tidei_zone_number(behind);
    if (border && !meet) drop_border(p, border);
    if (!border && meet) border = add_border(p, x);
    if (meet) be_in(border, tidei_zone_number(behind));
}

static void bound(tidei_heap *p, tidei_extent *x) {
    tidei_extent *before = is_border(x->prev) ? x->prev->prev : x->prev;
    bound_behind(p, x);
    if (before) bound_behind(p, before);
}

void tidei_zone_bound(tidei_heap *p, tidei_extent *x) {
    tidei_check(tidei_heap_locked(p));
    bound(p, x);
}

void tidei_zone_set(tidei_heap *p, tidei_extent *x, unsigned zone) {
    be_in(x, zone);
    tidei_zone_bound(p, x);
}

/* x goes over to a zone, and joins what it may there. */
static void give(tidei_heap *p, tidei_extent *x, unsigned zone) {
    tidei_heap_claim(p, x);
    tidei_zone_set(p, x, zone);
    tidei_heap_unclaim(p, x);
}

static bool join_over(tidei_heap *p, const tidei_extent *border) {
    tidei_extent *a = border->prev, *b = border->next;
    if (!is_free(a) || !is_free(b) || !tidei_heap_joinable(p, a, b)) return false;
    if (a->size < b->size)
        give(p, a, tidei_zone_number(b));
    else
        give(p, b, tidei_zone_number(a));
    return true;
}

void tidei_zones_join(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p));
    for (tidei_extent *x = p->borders; x && p->free_list.n >= 2;)
        x = join_over(p, x) ? p->borders : x->right;
}

/* ---- a zone gets memory of others ---- */

/* A zone gets half of a piece that lies in another one (`from`). Both locks are held, and that of
** the zone behind the piece, if there is one: so all that lies beside the new border, or one that
** goes, is the thread's own. Nobody is waited for, so the locks are taken in any order. */

static unsigned higher_bin(unsigned a, const tidei_size_index *sh) {
    unsigned b = sh ? tidei_size_index_look_last(sh) : TIDEI_INDEX_BINS;
    return b < TIDEI_INDEX_BINS && b > a ? b : a;
}

/* The zone with the largest piece that a stream of this slot may have, as it looks from outside;
** NULL: none is so large that half of it would do. */
static tidei_zone *richest(const tidei_heap *p, const tidei_zone *but, uint16_t slot) {
    tidei_zone *best = NULL;
    unsigned most = tidei_size_index_bin(&p->zone.ready, 2 * p->page_bytes) - 1;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        unsigned bin = higher_bin(higher_bin(0, &z->ready), tidei_zone_own(z, slot));
        if (z != but && bin > most) best = z, most = bin;
    }
    return best;
}

static tidei_extent *larger(tidei_extent *a, tidei_size_index *sh) {
    tidei_extent *b = sh ? tidei_size_index_largest(sh) : NULL;
    return !a || (b && b->size > a->size) ? b : a;
}

/* With the locks of `to` and `from`: takes that of the zone behind x too, where that is a third
** one. False: it is held. */
static bool lock_behind(tidei_heap *p, const tidei_extent *x, const tidei_zone *to,
                        tidei_zone **third) {
    *third = is_border(x->next) ? tidei_zone_of(p, x->next) : NULL;
    if (*third == to) *third = NULL;
    if (!*third) return true;
    if (!tidei_lock_try(&(*third)->lock)) return false;
    if (tidei_zone_of(p, x->next) == *third) return true;
    tidei_lock_give(&(*third)->lock);
    return false;
}

#define DESCRIPTORS 3 /* of the part and two borders */

/* The high half of x, now of zone `to`, and in no size index; NULL: descriptors are short. */
static tidei_extent *part_for(tidei_heap *p, const tidei_zone *to, tidei_extent *x) {
    tidei_extent *part = NULL;
    tidei_lock_take(&p->free_list_lock);
    if (p->free_list.n >= DESCRIPTORS) {
        part = tidei_heap_cut_high(p, x, x->size / 2 / p->granule * p->granule);
        tidei_extent_become(part, TIDEI_WAS(UNUSED), TIDEI_EXTENT_CLAIMED);
        be_in(part, to->number);
        bound(p, part);
    }
    tidei_lock_give(&p->free_list_lock);
    return part;
}

/* With the locks of both. */
static bool give_half(tidei_heap *p, tidei_zone *from, tidei_zone *to, uint16_t slot) {
    tidei_zone *third;
    tidei_extent *x = larger(larger(NULL, &from->ready), tidei_zone_own(from, slot)), *part;
    /* borders would keep more pieces apart than less is worth */
    if (p->wholes || !x || x->size / 2 < p->page_bytes || !lock_behind(p, x, to, &third))
        return false;
    if ((part = part_for(p, to, x))) tidei_heap_release(p, part);
    if (third) tidei_lock_give(&third->lock);
    return part;
}

static bool get_half(tidei_heap *p, tidei_zone *to, uint16_t slot) {
    tidei_zone *from = richest(p, to, slot);
    if (!from || !tidei_heap_restock_apart(p, to, DESCRIPTORS) || !tidei_lock_try(&to->lock))
        return false;
    bool got = false;
    if (tidei_lock_try(&from->lock)) {
        got = give_half(p, from, to, slot);
        tidei_lock_give(&from->lock);
    }
    tidei_lock_give(&to->lock);
    return got;
}

void tidei_zone_was_short(tidei_heap *p, tidei_cache *c, uint16_t slot) {
    if (!c || ++c->elsewhere < c->elsewhere_most) return;
    c->elsewhere = 0;
    c->elsewhere_most = get_half(p, c->zone, slot)
                            ? ELSEWHERE
                            : (unsigned)tidei_min_size(2 * c->elsewhere_most, ELSEWHERE_MOST);
}

/* ---- all as one ---- */

static void take_over(tidei_heap *p, tidei_extent *x) {
    bool free = is_free(x);
    if (free) tidei_size_index_take(tidei_heap_size_index(p, x), x);
    be_in(x, 0);
    if (free) tidei_heap_put(p, x);
}

/* With the border gone. */
static void join_two(tidei_heap *p, tidei_extent *a, tidei_extent *b) {
    if (!is_free(a) || !is_free(b) || !tidei_heap_joinable(p, a, b)) return;
    tidei_size_index_take(tidei_heap_size_index(p, a), a);
    tidei_size_index_take(tidei_heap_size_index(p, b), b);
    tidei_heap_absorb(p, a, b);
    tidei_heap_put(p, a);
}

void tidei_zones_unite(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p));
    if (p->wholes++ || tidei_zones(p) == 1) return;
    tidei_heap_most_used(p);
    for (tidei_extent *x = p->first; x; x = x->next)
        if (tidei_zone_number(x)) take_over(p, x);
    for (unsigned k = 1; k < tidei_zones(p); k++) {
        p->zone.used += tidei_zone_at(p, k)->used;
        tidei_zone_at(p, k)->used = 0;
    }
    while (p->borders) {
        tidei_extent *a = p->borders->prev, *b = p->borders->next;
        drop_border(p, p->borders);
        join_two(p, a, b);
    }
}

void tidei_zones_part(tidei_heap *p) {
    tidei_check(tidei_heap_locked(p) && p->wholes);
    p->wholes--;
}

/* ---- the whole ---- */

static bool border_valid(const tidei_extent *x) {
    return x->prev && x->next && has_memory(x->prev) && has_memory(x->next) &&
           !is_border(x->prev) && !is_border(x->next) &&
           tidei_zone_number(x) == tidei_zone_number(x->next) &&
           tidei_zone_number(x->prev) != tidei_zone_number(x->next);
}

bool tidei_zones_valid(const tidei_heap *p) {
    size_t borders = 0, used[TIDEI_ZONES_MAX] = {0};
    for (const tidei_extent *x = p->first; x; x = x->next) {
        tidei_extent_state is = tidei_extent_is(x);
        if (is == TIDEI_EXTENT_BORDER) {
            if (!border_valid(x)) return false;
            borders++;
        } else if (has_memory(x)) {
            const tidei_extent *next = x->next;
            if (tidei_zone_number(x) >= tidei_zones(p)) return false;
            if (next && has_memory(next) && !is_border(next) &&
                tidei_zone_number(next) != tidei_zone_number(x))
                return false;
            if (is == TIDEI_EXTENT_LIVE || is == TIDEI_EXTENT_CACHED)
                used[tidei_zone_number(x)] += x->size;
        }
    }
    for (const tidei_extent *x = p->borders; x; x = x->right) borders--;
    for (unsigned k = 0; k < tidei_zones(p); k++)
        if (used[k] != tidei_zone_at(p, k)->used) return false;
    return !borders;
}

void tidei_zones_close(tidei_heap *p) {
    tidei_runtime *rt = p->base.dev->rt;
    for (unsigned k = 0; k < tidei_zones(p); k++) {
        tidei_zone *z = tidei_zone_at(p, k);
        for (tidei_extent *x = tidei_size_index_fit(&z->mixed, 1); x;
             x = tidei_size_index_next(&z->mixed, x))
            tidei_stamps_clear(tidei_heap_many(x));
        for (unsigned slot = 0; slot < TIDEI_STREAMS_MAX; slot++)
            tidei_host_free(rt, tidei_zone_own(z, slot));
        if (k) tidei_host_free(rt, z);
    }
}
