/* external_alloc.c: external allocations: another allocator (PyTorch, say) takes memory of a pool,
** by address and in the order of a stream.
**
** Model. An external block is a storage that is pinned until it is freed; the runtime keeps a table
** from addresses to these storages. We do not see the work that uses it. So malloc orders the
** block's stream after all earlier uses; and free says that the uses end with what is queued on its
** stream by then, for which that stream takes a tick. */
#include "runtime/memory/capture.h"
#include "runtime/memory/external_alloc.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/move.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"
#include "runtime/memory/storage.h"

/* ---- from address to storage ---- */

#define SHARDS 16 /* so that threads rarely wait for each other */
#define FEWEST 64 /* buckets of a shard */

typedef struct lent lent;
struct lent {
    lent *next;
    tidei_addr addr;
    tidei_storage *st;
};

struct tidei_external_allocs {
    struct shard {
        pthread_mutex_t lock;
        /* under lock */
        lent **bucket;
        size_t buckets, n; /* buckets: a power of two, or 0 */
    } shard[SHARDS];
};

static uint64_t hash(tidei_addr addr) { return (addr >> 8) * 0x9e3779b97f4a7c15u; }
static struct shard *shard_of(tidei_external_allocs *l, tidei_addr addr) {
    return &l->shard[hash(addr) >> 60];
}
_Static_assert(SHARDS == 1 << (64 - 60), "shard_of takes four bits");
static lent **bucket_of(lent **bucket, size_t buckets, tidei_addr addr) {
    return &bucket[(hash(addr) >> 16) & (buckets - 1)];
}

/* Under the shard's lock. Without host memory a full table still works, slower; an empty one does
** not. */
static bool grow(tidei_runtime *rt, struct shard *s) {
    size_t more = s->buckets ? 2 * s->buckets : FEWEST;
    if (s->n < s->buckets) return true;
    lent **bucket = tidei_host_alloc(rt, more * sizeof *bucket);
    if (!bucket) return s->buckets > 0;
    for (size_t i = 0; i < s->buckets; i++)
        for (lent *x = s->bucket[i], *next; x; x = next) {
            lent **at = bucket_of(bucket, more, x->addr);
            next = x->next;
            x->next = *at;
            *at = x;
        }
    tidei_host_free(rt, s->bucket);
    s->bucket = bucket;
    s->buckets = more;
    return true;
}

static tide_status enter(tidei_runtime *rt, tidei_storage *st) {
    struct shard *s = shard_of(rt->external_allocs, st->addr);
    lent *x = tidei_host_alloc(rt, sizeof *x);
    if (!x) return tidei_fail_host_memory("tide_pool_malloc", sizeof *x);
    x->addr = st->addr;
    x->st = st;
    pthread_mutex_lock(&s->lock);
    bool room = grow(rt, s);
    if (room) {
        lent **at = bucket_of(s->bucket, s->buckets, x->addr);
        x->next = *at;
        *at = x;
        s->n++;
    }
    pthread_mutex_unlock(&s->lock);
    if (room) return TIDE_OK;
    tidei_host_free(rt, x);
    return tidei_fail_host_memory("tide_pool_malloc", FEWEST * sizeof *s->bucket);
}

/* Takes the storage out of the table; NULL: there is no external block at that address. */
static tidei_storage *leave(tidei_runtime *rt, tidei_addr addr) {
    struct shard *s = shard_of(rt->external_allocs, addr);
    lent *x = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->buckets) {
        lent **at = bucket_of(s->bucket, s->buckets, addr);
        while (*at && (*at)->addr != addr) at = &(*at)->next;
        x = *at;
        if (x) {
            *at = x->next;
            s->n--;
        }
    }
    pthread_mutex_unlock(&s->lock);
    tidei_storage *st = x ? x->st : NULL;
    tidei_host_free(rt, x);
    return st;
}

tide_status tidei_external_allocs_open(tidei_runtime *rt) {
    rt->external_allocs = tidei_host_alloc(rt, sizeof *rt->external_allocs);
    if (!rt->external_allocs)
        return tidei_fail_host_memory("tide_open", sizeof *rt->external_allocs);
    for (unsigned i = 0; i < SHARDS; i++)
        pthread_mutex_init(&rt->external_allocs->shard[i].lock, NULL);
    return TIDE_OK;
}

void tidei_external_allocs_close(tidei_runtime *rt) {
    for (unsigned i = 0; i < SHARDS && rt->external_allocs; i++) {
        struct shard *s = &rt->external_allocs->shard[i];
        for (size_t b = 0; b < s->buckets; b++)
            for (lent *x = s->bucket[b], *next; x; x = next) {
                next = x->next;
                tidei_storage_unpin(x->st);
                tidei_storage_release(x->st);
                tidei_host_free(rt, x);
            }
        tidei_host_free(rt, s->bucket);
        pthread_mutex_destroy(&s->lock);
    }
    tidei_host_free(rt, rt->external_allocs);
    rt->external_allocs = NULL;
}

/* ---- the hook ---- */

/* Orders the stream's later work after all that is pending on the block. */
static tide_status order_after(tidei_stream *s, tidei_storage *st) {
    if (!tidei_stream_hold(s))
        return tidei_fail(TIDE_E_INVALID, "tide_pool_malloc", "the stream was released");
    tide_status status = tidei_stream_usable(s);
    if (status != TIDE_OK) status = tidei_device_failed(s, status, "tide_pool_malloc");
    if (status == TIDE_OK)
        status = tidei_order(s, &(tidei_use){st, 0, st->bytes, TIDEI_WRITE}, 1, "tide_pool_malloc");
    tidei_stream_let_go(s);
    return status;
}

/* The block's uses end with what is queued on s now. A stream that is gone has completed all of it.
** Where the history has no room the host waits for that work, on the spot: the block is in no table
** any more, and would be lost if a longjmp left the wait. */
static void end_uses(tidei_stream *s, tidei_storage *st) {
    bool known = true;
    pthread_mutex_lock(&s->lock);
    if (s->ds) {
        uint64_t tick = tidei_stream_tick(s);
        tidei_stream_after_work(s);
        known = tidei_publish_uses(s, &(tidei_use){st, 0, st->bytes, TIDEI_WRITE}, 1, tick);
    }
    pthread_mutex_unlock(&s->lock);
    if (!known) (void)tidei_stream_finish(s);
}

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
    tidei_storage *st;
    tidei_user_pool *x;
    tidei_stream *s;
    if (!check_in(pool, stream, "tide_pool_malloc", &x, &s)) return NULL;
    if (!tidei_may_make(x->dev->rt, "tide_pool_malloc") ||
        tidei_capture_refused(x->dev->rt, "tide_pool_malloc", "lends an address") != TIDE_OK)
        return NULL;
    if (tidei_storage_new_in(x->p, bytes ? bytes : 1, s, "tide_pool_malloc", &st) != TIDE_OK)
        return NULL;
    /* from here on the address stays, once a move that is under way has ended */
    tidei_storage_pin(st);
    tidei_moves_wait(st->dev->rt->moves);
    if (order_after(s, st) == TIDE_OK && enter(x->dev->rt, st) == TIDE_OK)
        return (void *)(uintptr_t)st->addr;
    tidei_storage_unpin(st);
    tidei_storage_release(st);
    return NULL;
}

void tide_pool_free(tide_pool *pool, tide_stream *stream, void *ptr) {
    TIDEI_OPERATION("tide_pool_free");
    tidei_user_pool *x;
    tidei_stream *s;
    if (!ptr || tidei_forked() || !check_in(pool, stream, "tide_pool_free", &x, &s)) return;
    tidei_storage *st = leave(x->dev->rt, (uintptr_t)ptr);
    if (!st) {
        tidei_fail(TIDE_E_INVALID, "tide_pool_free",
                   "no block of this runtime's pools is lent at %p", ptr);
        return;
    }
    end_uses(s, st);
    tidei_storage_unpin(st);
    tidei_storage_release(st);
}
