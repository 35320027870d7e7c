/* external_alloc.c: external allocations, and the table that finds them by address. The model
** stands in external_alloc.h.
**
** An allocation by PyTorch is a tensor's, so this is as short as can be: no lock but that of a part
** of the table, and no host memory, in the usual case. */
#include "runtime/memory/external_alloc.h"
#include "runtime/memory/storage.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/lock.h"
#include "runtime/pool/pools.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"

/* ---- from address to storage ---- */

#define SHARDS 16 /* so that threads rarely wait for each other */
#define FEWEST 64 /* places of a shard */

/* A block lies at the place of its address's hash, or behind it with no empty place between. */
typedef struct place {
    tidei_addr addr; /* 0: empty */
    tidei_storage *st;
} place;

typedef struct shard {
    tidei_lock lock;
    /* under lock */
    place *at;
    size_t places, n; /* places: a power of two, or 0 */
    char apart[64];   /* keeps this off the next one's cache line */
} shard;

struct tidei_external_allocs {
    shard shard[SHARDS];
};

static uint64_t hash(tidei_addr addr) { return (addr >> 8) * 0x9e3779b97f4a7c15u; }
static shard *shard_of(tidei_external_allocs *l, tidei_addr addr) {
    return &l->shard[hash(addr) >> 60];
}
_Static_assert(SHARDS == 1 << (64 - 60), "shard_of takes four bits");
static size_t home_of(const shard *x, tidei_addr addr) {
    return (hash(addr) >> 16) & (x->places - 1);
}

/* The address's place, or the empty one where it would be; there is an empty one. */
static size_t find(const shard *x, tidei_addr addr) {
    size_t i = home_of(x, addr);
    while (x->at[i].addr && x->at[i].addr != addr) i = (i + 1) & (x->places - 1);
    return i;
}

/* Into `to`, which has the room, and which keeps them from now on; the old places are *gone. */
static void rehouse(shard *x, place *to, size_t places, place **gone) {
    place *from = x->at;
    size_t n = x->places;
    x->at = to;
    x->places = places;
    for (size_t i = 0; i < n; i++)
        if (from[i].addr) to[find(x, from[i].addr)] = from[i];
    *gone = from;
}

/* More places, while three of four are taken. Called with the lock, which it lets go of meanwhile:
** host memory may be the embedder's. Without any a table still works up to its last place but
** one. */
__attribute__((noinline)) static bool grow(tidei_runtime *rt, shard *x) {
    size_t places = x->places ? 2 * x->places : FEWEST;
    tidei_lock_give(&x->lock);
    place *more = tidei_host_alloc(rt, places * sizeof *more), *gone = more;
    tidei_lock_take(&x->lock);
    if (more && places > x->places) rehouse(x, more, places, &gone);
    tidei_lock_give(&x->lock);
    tidei_host_free(rt, gone); /* or what another thread was faster than */
    tidei_lock_take(&x->lock);
    return x->n + 1 < x->places;
}

static bool enter(tidei_runtime *rt, tidei_storage *st) {
    shard *x = shard_of(rt->external_allocs, st->addr);
    tidei_lock_take(&x->lock);
    bool room = tidei_likely(x->n + 1 <= x->places / 4 * 3) || grow(rt, x);
    if (room) {
        x->at[find(x, st->addr)] = (place){st->addr, st};
        x->n++;
    }
    tidei_lock_give(&x->lock);
    return room;
}

/* Empties the i-th place: what lies behind it and belongs before closes up. */
static void empty(shard *x, size_t i) {
    size_t mask = x->places - 1;
    for (size_t k = (i + 1) & mask; x->at[k].addr; k = (k + 1) & mask) {
        size_t home = home_of(x, x->at[k].addr);
        if (((k - home) & mask) < ((k - i) & mask)) continue;
        x->at[i] = x->at[k];
        i = k;
    }
    x->at[i] = (place){0};
    x->n--;
}

/* Takes the storage out of the table; NULL: there is no external block at that address. */
static tidei_storage *leave(tidei_runtime *rt, tidei_addr addr) {
    shard *x = shard_of(rt->external_allocs, addr);
    tidei_lock_take(&x->lock);
    size_t i = x->places ? find(x, addr) : 0;
    tidei_storage *st = x->places ? x->at[i].st : NULL;
    if (tidei_likely(st != NULL)) empty(x, i);
    tidei_lock_give(&x->lock);
    return st;
}

tide_status tidei_external_allocs_open(tidei_runtime *rt) {
    rt->external_allocs = tidei_host_alloc(rt, sizeof *rt->external_allocs);
    return rt->external_allocs ? TIDE_OK
                               : tidei_fail_host_memory("tide_open", sizeof *rt->external_allocs);
}

void tidei_external_allocs_close(tidei_runtime *rt) {
    for (unsigned i = 0; i < SHARDS && rt->external_allocs; i++) {
        shard *x = &rt->external_allocs->shard[i];
        for (size_t k = 0; k < x->places; k++)
            if (x->at[k].addr) tidei_storage_drop_fixed(x->at[k].st);
        tidei_host_free(rt, x->at);
    }
    tidei_host_free(rt, rt->external_allocs);
    rt->external_allocs = NULL;
}

/* ---- order ---- */

/* Whether only s has used what the block was before. Nobody else knows the storage. */
static bool only_used_by(tidei_storage *st, const tidei_stream *s) {
    const tidei_stamp *a = tidei_stamps_at(&st->stamps);
    for (unsigned i = 0; i < st->stamps.n; i++)
        if (a[i].stream != s->slot) return false;
    return true;
}

/* Orders the stream's later work after all that is pending on the block. Refused where the owner of
** an adopted stream forbids work there, since that is what the block is for. */
static tide_status order_after(tidei_stream *s, tidei_storage *st, const char *op) {
    tide_status status = tidei_stream_usable(s);
    if (tidei_unlikely(status != TIDE_OK)) return tidei_device_failed(s, status, op);
    if (tidei_likely(only_used_by(st, s))) return TIDE_OK;
    return tidei_order(s, &(tidei_use){st, 0, st->bytes, TIDEI_WRITE}, 1, op);
}

static tide_status order_held(tidei_stream *s, tidei_storage *st, const char *op) {
    if (!tidei_stream_hold(s)) return tidei_fail(TIDE_E_INVALID, op, "the stream was released");
    tide_status status = order_after(s, st, op);
    tidei_stream_let_go(s);
    return status;
}

/* The same where there is more to tell than one stamp. Where the history has no room the host waits
** for the work, on the spot: the block is in no table any more, and would be lost if a longjmp left
** the wait. */
static void publish_end(tidei_stream *s, tidei_storage *st) {
    tidei_use use = {st, 0, st->bytes, TIDEI_WRITE};
    if (!tidei_publish_uses(s, &use, 1, tidei_stream_next_tick(s))) (void)tidei_stream_finish(s);
}

/* The block's uses end with what is queued on s now. A stream that is gone has completed all of
** it. */
static inline void end_uses(tidei_stream *s, tidei_storage *st) {
    if (tidei_unlikely(!atomic_load_explicit(&s->ds, memory_order_acquire))) return;
    if (tidei_unlikely(s->dev->rt->recorder || st->stamps.cap || !only_used_by(st, s))) {
        publish_end(s, st);
        return;
    }
    st->stamps.n = 1;
    st->stamps.few[0] =
        (tidei_stamp){.tick = tidei_stream_next_tick(s), .stream = s->slot, .write = 1};
}

/* ---- blocks ---- */

void *tidei_external_alloc(tidei_pool *pool, tidei_stream *s, bool kept, size_t bytes,
                           const char *op) {
    tidei_storage *st;
    if (tidei_storage_new_fixed(pool, bytes ? bytes : 1, s, op, &st) != TIDE_OK) return NULL;
    tide_status status = tidei_likely(kept) ? order_after(s, st, op) : order_held(s, st, op);
    if (status == TIDE_OK && tidei_unlikely(!enter(pool->dev->rt, st)))
        status = tidei_fail_host_memory(op, FEWEST * sizeof(place));
    if (tidei_likely(status == TIDE_OK)) return (void *)(uintptr_t)st->addr;
    tidei_storage_drop_fixed(st);
    return NULL;
}

bool tidei_external_free(tidei_runtime *rt, tidei_stream *s, void *ptr) {
    tidei_storage *st = leave(rt, (uintptr_t)ptr);
    if (tidei_unlikely(!st)) return false;
    end_uses(s, st);
    tidei_storage_drop_fixed(st);
    return true;
}

/* ---- the public hook ---- */

/* Finds the pool, and the stream to use on its device; false with the error set. */
static bool check_in(tide_pool *pool, tide_stream *stream, const char *op, tidei_user_pool **x,
                     tidei_stream **s) {
    tidei_thread *t = NULL;
    *x = tidei_user_pool_find(pool, op);
    if (*x) t = tidei_thread_get((*x)->dev->rt);
    *s = t && stream ? tidei_stream_find(stream, op) : NULL;
    if (!t || (stream && !*s)) return false;
    if (!stream) *s = tidei_thread_stream_on(t, (*x)->dev);
    if ((*s)->dev == (*x)->dev) return true;
    tidei_fail(TIDE_E_INVALID, op, "the stream is another device's");
    return false;
}

void *tide_pool_malloc(tide_pool *pool, tide_stream *stream, size_t bytes) {
    TIDEI_OPERATION("tide_pool_malloc");
    tidei_user_pool *x;
    tidei_stream *s;
    if (!check_in(pool, stream, "tide_pool_malloc", &x, &s)) return NULL;
    if (!tidei_may_make(x->dev->rt, "tide_pool_malloc")) return NULL;
    return tidei_external_alloc(x->p, s, false, bytes, "tide_pool_malloc");
}

void tide_pool_free(tide_pool *pool, tide_stream *stream, void *ptr) {
    TIDEI_OPERATION("tide_pool_free");
    tidei_user_pool *x;
    tidei_stream *s;
    if (!ptr || tidei_forked() || !check_in(pool, stream, "tide_pool_free", &x, &s)) return;
    if (!tidei_external_free(x->dev->rt, s, ptr))
        tidei_fail(TIDE_E_INVALID, "tide_pool_free",
                   "no block of this runtime's pools is lent at %p", ptr);
}
