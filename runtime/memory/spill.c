/* spill.c: which storages are cold, moving them out to pinned memory, and bringing them back. The
** model stands in spill.h. */
#include "runtime/streams/thread_device.h"
#include "runtime/memory/spill.h"
#include "runtime/memory/header.h"
#include "runtime/memory/subranges.h"
#include "runtime/pool/pools.h"
#include "runtime/memory/move.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/streams/loss.h"
#include <stdlib.h>

/* Storages below this size go last: a copy's fixed cost (some 10 us) is far above their bytes' (64
** KiB: 1.2 us at 55 GB/s). */
#define LITTLE ((size_t)64 * 1024)

struct cold {
    /* st is retained; kept: pinned memory for it, NULL: it does not go */
    tidei_storage *st, *kept;
    uint64_t age; /* submissions of its stream since its last use */
    tidei_addr addr;
    uint32_t arrays; /* number of arrays that refer to it */
    bool refused;    /* the host has no room for it */
    bool copied;
};

/* ---- which storages are cold ---- */

static void look_at(tidei_dev *d, tidei_stamp x, struct cold *c) {
    uint64_t now =
        atomic_load_explicit(&tidei_stream_at(d, x.stream)->submitted, memory_order_relaxed);
    uint64_t age = now > x.tick ? now - x.tick : 0;
    if (age < c->age) c->age = age;
}

/* Sets c->age. False: the storage may not go, or has never been used. */
static bool is_cold(tidei_dev *d, struct cold *c) {
    tidei_storage *st = c->st;
    if (st->pool->kind != TIDEI_MEM_DEVICE || atomic_load(&st->pins)) return false;
    c->age = UINT64_MAX;
    tidei_stamps_lock(st);
    c->addr = st->addr;
    for (unsigned i = 0; i < st->stamps.n; i++) look_at(d, tidei_stamps_at(&st->stamps)[i], c);
    for (unsigned i = 0; st->subranges && i < st->subranges->n; i++)
        look_at(d, st->subranges->part[i].at, c);
    for (unsigned i = 0; st->subranges && i < st->subranges->unordered.n; i++)
        look_at(d, tidei_stamps_at(&st->subranges->unordered)[i], c);
    tidei_stamps_unlock(st);
    return c->addr && c->age != UINT64_MAX;
}

/* Sorts the coldest first. Addresses decide between equals, so that the same program always spills
** the same storages. */
static int by_age(const void *a, const void *b) {
    const struct cold *x = a, *y = b;
    bool little = x->st->bytes < LITTLE;
    if (little != (y->st->bytes < LITTLE)) return little ? 1 : -1;
    if (x->age != y->age) return x->age > y->age ? -1 : 1;
    if (x->st->bytes != y->st->bytes) return x->st->bytes > y->st->bytes ? -1 : 1;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* All cold storages of the device, in the order in which they go, each retained; NULL: none, or
** host memory is exhausted. */
static struct cold *find_cold(tidei_dev *d, size_t *n) {
    tidei_runtime *rt = d->rt;
    size_t room = (size_t)atomic_load(&rt->deaths->headers);
    tidei_idle *idle = room ? tidei_host_take(rt, room * sizeof *idle) : NULL;
    *n = 0;
    if (!idle) return NULL;
    size_t found = tidei_headers_idle(rt->deaths, d, idle, room);
    struct cold *cold = found ? tidei_host_alloc(rt, found * sizeof *cold) : NULL;
    for (size_t i = 0; i < found; i++) {
        struct cold c = {.st = idle[i].st, .arrays = idle[i].arrays};
        if (cold && is_cold(d, &c))
            cold[(*n)++] = c;
        else
            tidei_storage_release(c.st);
    }
    tidei_host_free(rt, idle);
    if (*n) qsort(cold, *n, sizeof *cold, by_age);
    return cold;
}

static void drop_cold(tidei_dev *d, struct cold *cold, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (cold[i].kept) tidei_storage_release(cold[i].kept);
        tidei_storage_release(cold[i].st);
    }
    tidei_host_free(d->rt, cold);
}

/* ---- room for them ---- */

static void trim_pinned(tidei_runtime *rt) {
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        tidei_pools_settle(d);
        tidei_pools_trim(d, TIDEI_KIND_BIT(TIDEI_MEM_PINNED));
    }
}

/* Takes pinned memory for the storage, if the host has as much. If not, the pinned pool gives back
** what it has cached, once a round, and it is tried again. */
static void keep(tidei_pool *pinned, tidei_stream *s, struct cold *c, bool *trimmed) {
    tide_status status = tidei_storage_try(pinned, c->st->bytes, s, TIDEI_ALLOC_STEAL, &c->kept);
    if (status == TIDE_E_HOST_NOMEM && !*trimmed) {
        trim_pinned(s->dev->rt);
        *trimmed = true;
        status = tidei_storage_try(pinned, c->st->bytes, s, TIDEI_ALLOC_STEAL, &c->kept);
    }
    if (status != TIDE_OK) c->kept = NULL;
}

/* Chooses which of those that are left go for `wanted` bytes more: the first ones until it is
** enough, and of these not those that the others make needless. Returns how many. */
static size_t choose(const struct cold *cold, size_t n, size_t wanted, size_t *which) {
    size_t m = 0, left = 0, sum = 0;
    for (size_t i = 0; i < n && sum < wanted; i++) {
        if (cold[i].kept || cold[i].refused) continue;
        which[m++] = i;
        sum += cold[i].st->bytes;
    }
    for (size_t k = m; k-- > 0;) /* a large one that came last may suffice without the others */
        if (sum - cold[which[k]].st->bytes >= wanted) {
            sum -= cold[which[k]].st->bytes;
            which[k] = SIZE_MAX;
        }
    for (size_t k = 0; k < m; k++)
        if (which[k] != SIZE_MAX) which[left++] = which[k];
    return left;
}

#define REFUSALS 16 /* after so many the host has no room for what is worth spilling */

/* Where the host refuses one, others take its place. */
static void keep_enough(tidei_pool *pinned, tidei_stream *s, struct cold *cold, size_t n,
                        size_t wanted) {
    bool trimmed = false;
    size_t have = 0, refusals = 0;
    size_t *which = tidei_host_take(s->dev->rt, n * sizeof *which);
    for (size_t m; which && have < wanted && (m = choose(cold, n, wanted - have, which));)
        for (size_t i = 0; i < m; i++) {
            struct cold *c = &cold[which[i]];
            if (refusals < REFUSALS) keep(pinned, s, c, &trimmed);
            c->refused = !c->kept;
            refusals += c->refused;
            have += c->kept ? c->st->bytes : 0;
        }
    tidei_host_free(s->dev->rt, which);
}

/* ---- out ---- All of it while no submission is open. */

/* Checked again, since an operation or a scope may have begun to use the storage after it was
** found. */
static bool may_go(const struct cold *c) {
    const tidei_storage *st = c->st;
    return c->kept && !atomic_load(&st->pins) && atomic_load(&st->refs) <= c->arrays + 1 &&
           !tidei_storage_spilled(st);
}

static tide_status order(tidei_stream *s, struct cold *cold, size_t n) {
    tide_status status = TIDE_OK;
    for (size_t i = 0; i < n && status == TIDE_OK; i++) {
        if (!cold[i].kept) continue;
        status = tidei_moves_follow_uses(s, cold[i].st);
        if (status == TIDE_OK) status = tidei_moves_follow_uses(s, cold[i].kept);
    }
    return status;
}

/* Under s->lock. */
static tide_status copy(tidei_stream *s, tidei_addr dst, tidei_addr src, size_t bytes) {
    bool busy;
    tidei_copy c = {.kind = TIDEI_COPY_D2D, .dst = dst, .src = src, .bytes = bytes, .busy = &busy};
    tidei_count_locked(&s->copies);
    return s->dev->d->ops->copy(s->dev->d, s->ds, &c);
}

static void be_after(tidei_storage *st, tidei_stamp x) {
    tidei_stamps_lock(st);
    tidei_moves_be_after(st, x);
    tidei_stamps_unlock(st);
}

/* The storage's block goes back to its pool; the storage keeps holding the pool. */
static void go(struct cold *c, tidei_stamp x) {
    tidei_storage *st = c->st;
    tidei_dev *d = st->dev;
    tidei_block b = {
        .addr = st->addr, .bytes = st->bytes, .priv = st->priv, .stamps = {.n = 1, .few = {x}}};
    if ((st->watched & TIDEI_WATCHED_BY_OBSERVERS) && d->rt->recorder)
        tidei_recorder_free(d->rt->recorder, (uintptr_t)st, st->bytes,
                            tidei_storage_last_stream(st));
    tidei_stamps_lock(st);
    tidei_moves_be_after(st, x);
    st->stamps.n = 0;
    st->addr = 0;
    st->priv = c->kept;
    tidei_stamps_unlock(st);
    be_after(c->kept, x);
    c->kept = NULL;
    tidei_pool_hold(st->pool->users);
    st->pool->ops->free(st->pool, &b);
    tidei_block_discounted(st->pool, st->bytes);
    atomic_fetch_add(&d->memory->spilled, st->bytes);
    atomic_fetch_add(&d->rt->moves->spilled, 1);
    atomic_fetch_add_explicit(&d->rt->spills->out, 1, memory_order_relaxed);
}

/* Begins a piece of work on s, which is held, and whose lock is taken. */
static tidei_stamp begin_work(tidei_stream *s, const char *op, uint64_t *began) {
    pthread_mutex_lock(&s->lock);
    s->last_op = op;
    *began = tidei_record_begin(s);
    return (tidei_stamp){.tick = tidei_stream_tick(s), .stream = s->slot, .write = 1};
}

static void end_work(tidei_stream *s, const char *op, uint64_t began) {
    tidei_stream_after_work(s);
    tidei_record_submit(s, began, op);
    pthread_mutex_unlock(&s->lock);
}

static tide_status copy_out(tidei_stream *s, struct cold *cold, size_t n, size_t *bytes) {
    tide_status status = order(s, cold, n);
    if (status != TIDE_OK) return status;
    uint64_t began;
    tidei_stamp x = begin_work(s, "spill", &began);
    size_t tried = 0;
    for (; tried < n && status == TIDE_OK; tried++) {
        struct cold *c = &cold[tried];
        if (!c->kept) continue;
        status = copy(s, c->kept->addr, c->st->addr, c->st->bytes);
        c->copied = status == TIDE_OK;
    }
    end_work(s, "spill", began);
    for (size_t i = 0; i < tried; i++) {
        if (cold[i].copied) {
            *bytes += cold[i].st->bytes;
            go(&cold[i], x);
        } else if (cold[i].kept) { /* its copy failed, and may still be reading and writing */
            be_after(cold[i].st, x);
            be_after(cold[i].kept, x);
        }
    }
    return status;
}

/* *bytes: sum of those that went. */
static tide_status move_out(tidei_stream *s, struct cold *cold, size_t n, size_t *bytes) {
    tidei_moves_begin(s->dev->rt);
    for (size_t i = 0; i < n; i++)
        if (cold[i].kept && !may_go(&cold[i])) {
            tidei_storage_release(cold[i].kept);
            cold[i].kept = NULL;
        }
    tide_status status = TIDE_OK;
    if (tidei_stream_hold(s)) {
        status = copy_out(s, cold, n, bytes);
        tidei_stream_let_go(s);
    }
    tidei_moves_end(s->dev->rt);
    return status;
}

/* The stream for the copies: the calling thread's, unless it is an adopted one, on which the
** program may have other work. */
static tidei_stream *stream_of(tidei_dev *d) {
    tidei_thread *t = tidei_thread_get(d->rt);
    tidei_stream *s = t ? tidei_thread_stream_on(t, d) : d->stream0;
    return atomic_load(&s->adopted) ? d->stream0 : s;
}

size_t tidei_spill(tidei_dev *d, size_t wanted) {
    tidei_runtime *rt = d->rt;
    size_t n, bytes = 0;
    if (!wanted || atomic_load(&d->d->lost)) return 0;
    tidei_saved_error e;
    tidei_error_save(&e);
    tidei_stream *s = stream_of(d);
    tidei_pool *pinned;
    tide_status status = tidei_kind_pool(d, TIDE_MEMORY_PINNED, "spill", &pinned);
    if (status == TIDE_OK) {
        pthread_mutex_lock(&rt->spills->lock);
        struct cold *cold = find_cold(d, &n);
        keep_enough(pinned, s, cold, n, wanted);
        if (n) status = move_out(s, cold, n, &bytes);
        drop_cold(d, cold, n);
        pthread_mutex_unlock(&rt->spills->lock);
        tidei_device_speak(d->d);
    }
    if (status != TIDE_OK) {
        (void)tidei_device_failed(s, status, "spill");
        tidei_log(rt, TIDE_LOG_WARNING, "spill: failed: %s", tide_error_last()->message);
    }
    tidei_error_restore(&e);
    return bytes;
}

/* ---- back ---- */

struct back {
    tidei_storage *st;
    tidei_stream *s;
    bool there; /* another thread has brought it back */
    tidei_block block;
};

static bool is_spilled(tidei_storage *st) {
    tidei_stamps_lock(st);
    bool spilled = tidei_storage_spilled(st);
    tidei_stamps_unlock(st);
    return spilled;
}

/* Takes a block. From here until the storage has it the memory counts as growth in flight: a thread
** that wants the same storage, and finds no memory meanwhile, need only wait. */
static tide_status attempt(void *arg, unsigned flags) {
    struct back *b = arg;
    tidei_pool *pool = b->st->pool;
    b->there = !is_spilled(b->st);
    if (b->there) return TIDE_OK;
    if (flags & TIDEI_ALLOC_FLUSHED)
        atomic_fetch_add_explicit(&pool->users->retries, 1, memory_order_relaxed);
    tidei_inflight_growth_begin(pool->dev);
    tide_status status = pool->ops->alloc(pool, b->st->bytes, b->s, flags, &b->block);
    if (status != TIDE_OK) tidei_inflight_growth_end(pool->dev, false);
    return status;
}

/* Gives the storage its block, and returns the pinned storage that kept its bytes. */
static tidei_storage *come(struct back *b, tidei_stamp x) {
    tidei_storage *st = b->st, *kept = st->priv;
    tidei_dev *d = st->dev;
    if ((st->watched & TIDEI_WATCHED_BY_OBSERVERS) && d->rt->recorder)
        tidei_recorder_return(d->rt->recorder, (uintptr_t)st, st->bytes, b->s->slot);
    tidei_stamps_clear(&b->block.stamps);
    tidei_stamps_lock(st);
    tidei_moves_be_after(st, x);
    st->addr = b->block.addr;
    st->priv = b->block.priv;
    tidei_stamps_unlock(st);
    tidei_block_counted(st->pool, st->bytes);
    tidei_pool_let_go(st->pool->users); /* the block holds the pool now */
    atomic_fetch_sub(&d->memory->spilled, st->bytes);
    atomic_fetch_sub(&d->rt->moves->spilled, 1);
    atomic_fetch_add_explicit(&d->rt->spills->back, 1, memory_order_relaxed);
    if (st->pool->ops->own) st->pool->ops->own(st->pool, &b->block, st);
    return kept;
}

/* Gives the block back to its pool, with the stamp x if work may still use it. */
static void give_block(struct back *b, tidei_stamp x) {
    tidei_pool *pool = b->st->pool;
    if (x.tick) {
        b->block.stamps.n = 1;
        *tidei_stamps_at(&b->block.stamps) = x;
    }
    pool->ops->free(pool, &b->block);
}

/* Copies the bytes back and gives the storage its block; called by the mover. *kept: the caller
** releases it. */
static tide_status copy_back(struct back *b, const char *op, tidei_storage **kept) {
    tidei_stream *s = b->s;
    tidei_storage *from = b->st->priv;
    tidei_stamp x = {0};
    tide_status status = tidei_stream_usable(s);
    if (status == TIDE_OK)
        status = tidei_moves_follow(s, tidei_stamps_at(&b->block.stamps), b->block.stamps.n);
    if (status == TIDE_OK) status = tidei_moves_follow_uses(s, from);
    if (status == TIDE_OK) {
        uint64_t began;
        x = begin_work(s, op, &began);
        status = copy(s, b->block.addr, from->addr, from->bytes);
        end_work(s, op, began);
        be_after(from, x);
    }
    if (status == TIDE_OK)
        *kept = come(b, x);
    else
        give_block(b, x);
    return status;
}

/* Brings the storage back into the block that was taken. */
static tide_status put_back(struct back *b, const char *op) {
    tidei_dev *d = b->st->dev;
    tidei_storage *kept = NULL;
    tide_status status = TIDE_OK;
    tidei_moves_begin(d->rt);
    bool held = tidei_stream_hold(b->s), spilled = tidei_storage_spilled(b->st);
    if (held && spilled)
        status = copy_back(b, op, &kept);
    else
        give_block(b, (tidei_stamp){0});
    if (held) tidei_stream_let_go(b->s);
    tidei_moves_end(d->rt);
    tidei_inflight_growth_end(d, true);
    if (kept) tidei_storage_release(kept);
    tidei_device_speak(d->d);
    if (status != TIDE_OK) return tidei_device_failed(b->s, status, op);
    return held || !spilled ? TIDE_OK : tidei_fail(TIDE_E_INVALID, op, "the stream was released");
}

static tide_status bring_back(tidei_storage *st, tidei_stream *s, const char *op) {
    tidei_dev *d = st->dev;
    tidei_thread *t = tidei_thread_get(d->rt);
    if (atomic_load_explicit(&d->d->lost, memory_order_relaxed)) return tidei_lost(d, op);
    if (s->dev != d && !t) return tidei_last_status();
    struct back b = {.st = st, .s = s->dev == d ? s : tidei_thread_stream_on(t, d)};
    tide_status status = tidei_block_take(st->pool, st->bytes, attempt, &b, op);
    return status != TIDE_OK || b.there ? status : put_back(&b, op);
}

tide_status tidei_uses_return(tidei_stream *s, const tidei_use *uses, unsigned n, const char *op) {
    const tidei_runtime *rt = s->dev->rt;
    if (tidei_likely(!atomic_load_explicit(&rt->moves->spilled, memory_order_relaxed)))
        return TIDE_OK;
    for (unsigned i = 0; i < n; i++) {
        tidei_storage *st = uses[i].st;
        tide_status status = st->dev->rt == rt && is_spilled(st) ? bring_back(st, s, op) : TIDE_OK;
        if (status != TIDE_OK) return status;
    }
    return TIDE_OK;
}

void tidei_spilled_end(tidei_storage *st) {
    tidei_dev *d = st->dev;
    atomic_fetch_sub(&d->memory->spilled, st->bytes);
    atomic_fetch_sub(&d->rt->moves->spilled, 1);
    tidei_storage_release(st->priv);
    tidei_stamps_clear(&st->stamps);
    tidei_pool_let_go(st->pool->users);
}
