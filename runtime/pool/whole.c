/* whole.c: pools of whole blocks. The model stands in whole.h. */
#include "runtime/pool/whole.h"

struct tidei_whole_block {
    tidei_whole_block *prev, *next; /* in the list of blocks handed out, or in its bin */
    tidei_addr addr;
    size_t size;         /* taken from the driver */
    size_t bytes;        /* as requested, while handed out; else 0 */
    tidei_stamps stamps; /* of the last uses, while free */
    bool done;           /* of the last uses, while free */
};
typedef tidei_whole_block block;

/* ---- lists; under the lock ---- */

static void push(block **list, block *x) {
    x->prev = NULL;
    x->next = *list;
    if (x->next) x->next->prev = x;
    *list = x;
}

static void unlink_from(block **list, block *x) {
    if (x->next) x->next->prev = x->prev;
    if (x->prev)
        x->prev->next = x->next;
    else
        *list = x->next;
}

/* ---- finding one; under the lock ---- */

static bool allowed(block *x, tidei_stream *s, unsigned rules, bool wait) {
    return wait || (x->done && rules & TIDEI_REUSE_DONE) || tidei_reuse_may(s, &x->stamps, rules);
}

/* The sizes of a request: the least that serves, and what is asked of the driver. */
typedef struct sizes {
    size_t bytes, least, usual;
} sizes;

/* The latest freed of the usual size, or the smallest that serves. `wait`: also a block that s has
** to wait for. */
static block *find(const tidei_whole *p, const sizes *z, tidei_stream *s, unsigned rules,
                   bool wait) {
    unsigned bin = p->rules->bin(z->usual);
    block *best = NULL;
    if (bin == TIDEI_WHOLE_LEAVING) return NULL;
    for (block *x = p->bins[bin]; x && !(best && best->size == z->usual); x = x->next)
        if (p->rules->serves(x->size, z->least) &&
            (!best || x->size < best->size || x->size == z->usual) && allowed(x, s, rules, wait))
            best = x;
    return best;
}

static void hand_out(tidei_whole *p, block *x, size_t bytes, tidei_block *out) {
    x->bytes = bytes;
    push(&p->live, x);
    p->live_bytes += bytes;
    p->used += x->size;
    p->allocs++;
    tidei_reuse_refresh(&p->base, &x->stamps);
    *out = (tidei_block){.addr = x->addr, .bytes = bytes, .priv = x, .stamps = x->stamps};
    x->stamps = (tidei_stamps){0};
}

static bool take_held(tidei_whole *p, const sizes *z, tidei_stream *s, bool wait,
                      tidei_block *out) {
    unsigned rules = tidei_reuse_rules(&p->base);
    pthread_mutex_lock(&p->lock);
    block *x = find(p, z, s, rules, wait);
    if (x) {
        unlink_from(&p->bins[p->rules->bin(x->size)], x);
        p->held -= x->size;
        if (!x->done) p->pending -= x->size;
        hand_out(p, x, z->bytes, out);
    }
    pthread_mutex_unlock(&p->lock);
    return x != NULL;
}

static tide_status grow(tidei_whole *p, const sizes *z, tidei_block *out) {
    block *x = tidei_host_alloc(p->base.dev->rt, sizeof *x);
    if (!x) return tidei_fail_host_memory("a pool's block", sizeof *x);
    x->size = z->usual;
    tide_status st = tidei_pool_back(&p->base, &x->size, z->least, &x->addr);
    if (st != TIDE_OK) {
        tidei_host_free(p->base.dev->rt, x);
        return st;
    }
    pthread_mutex_lock(&p->lock);
    hand_out(p, x, z->bytes, out);
    pthread_mutex_unlock(&p->lock);
    return TIDE_OK;
}

tide_status tidei_whole_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_block *out) {
    tidei_whole *p = (tidei_whole *)pool;
    tidei_check(bytes > 0);
    if (bytes > SIZE_MAX - p->granule) return TIDE_E_NOMEM;
    sizes z = {bytes, tidei_round_up(bytes, p->granule), p->rules->size(bytes, p->granule)};
    if (take_held(p, &z, s, false, out)) return TIDE_OK;
    tidei_whole_settle(pool);
    if (take_held(p, &z, s, tidei_reuse_waits(tidei_reuse_rules(pool), flags), out)) return TIDE_OK;
    return flags & TIDEI_ALLOC_NO_GROW ? TIDE_E_NOMEM : grow(p, &z, out);
}

/* ---- giving back ---- */

/* Without the lock; returns the bytes. */
static size_t give_back(tidei_whole *p, block *chain) {
    size_t bytes = 0;
    for (block *x = chain, *next; x; x = next) {
        next = x->next;
        bytes += x->size;
        tidei_pool_unback(&p->base, x->addr, x->size);
        tidei_stamps_clear(&x->stamps);
        tidei_host_free(p->base.dev->rt, x);
    }
    return bytes;
}

/* Takes a free, done block out of the figures and puts it before `chain`; under the lock. */
static block *let_go(tidei_whole *p, block **bin, block *x, block *chain) {
    unlink_from(bin, x);
    p->held -= x->size;
    x->next = chain;
    return x;
}

void tidei_whole_free(tidei_pool *pool, tidei_block *b) {
    tidei_whole *p = (tidei_whole *)pool;
    block *x = b->priv;
    unsigned bin = p->rules->bin(x->size);
    tidei_stamps stamps = b->stamps;
    b->stamps = (tidei_stamps){0};
    /* a block that is not kept may then go at once */
    if (bin == TIDEI_WHOLE_LEAVING) tidei_stamps_prune(pool->dev, &stamps);
    bool done = tidei_reuse_refresh(pool, &stamps), goes = done && bin == TIDEI_WHOLE_LEAVING;
    pthread_mutex_lock(&p->lock);
    tidei_check(x->bytes == b->bytes && x->addr == b->addr);
    unlink_from(&p->live, x);
    p->live_bytes -= x->bytes;
    p->used -= x->size;
    p->frees++;
    x->bytes = 0;
    x->stamps = stamps;
    x->done = done;
    x->next = NULL;
    if (!goes) {
        p->held += x->size;
        if (!done) p->pending += x->size;
        push(&p->bins[bin], x);
    }
    pthread_mutex_unlock(&p->lock);
    if (goes) give_back(p, x);
}

/* Marks the blocks that are done, and puts those that were leaving on *gone. Under the lock.
** Returns the bytes that became cached. */
static size_t mark_done(tidei_whole *p, block **gone) {
    size_t bytes = 0;
    for (unsigned bin = 0; bin <= TIDEI_WHOLE_BINS; bin++)
        for (block *x = p->bins[bin], *next; x; x = next) {
            next = x->next;
            if (x->done || !tidei_reuse_over(p->base.dev, &x->stamps)) continue;
            x->done = true;
            p->pending -= x->size;
            bytes += x->size;
            if (bin == TIDEI_WHOLE_LEAVING) *gone = let_go(p, &p->bins[bin], x, *gone);
        }
    return bytes;
}

size_t tidei_whole_settle(tidei_pool *pool) {
    tidei_whole *p = (tidei_whole *)pool;
    tidei_reuse_ticks ticks = {0};
    block *gone = NULL;
    pthread_mutex_lock(&p->lock);
    bool any = p->pending > 0;
    for (unsigned bin = 0; bin <= TIDEI_WHOLE_BINS && any; bin++)
        for (block *x = p->bins[bin]; x; x = x->next)
            if (!x->done) tidei_reuse_want(&ticks, &x->stamps);
    pthread_mutex_unlock(&p->lock);
    if (!any) return 0;
    tidei_reuse_ask(pool->dev, &ticks);
    pthread_mutex_lock(&p->lock);
    size_t bytes = mark_done(p, &gone);
    pthread_mutex_unlock(&p->lock);
    give_back(p, gone);
    return bytes;
}

size_t tidei_whole_trim(tidei_pool *pool, size_t keep) {
    tidei_whole *p = (tidei_whole *)pool;
    block *gone = NULL;
    tidei_whole_settle(pool);
    pthread_mutex_lock(&p->lock);
    for (unsigned bin = TIDEI_WHOLE_BINS; bin-- > 0;) /* the largest first */
        for (block *x = p->bins[bin], *next; x && p->held > keep; x = next) {
            next = x->next;
            if (x->done) gone = let_go(p, &p->bins[bin], x, gone);
        }
    pthread_mutex_unlock(&p->lock);
    return give_back(p, gone);
}

/* ---- figures ---- */

void tidei_whole_stats(tidei_pool *pool, tidei_pool_stats *out) {
    tidei_whole *p = (tidei_whole *)pool;
    pthread_mutex_lock(&p->lock);
    *out = (tidei_pool_stats){.live = p->live_bytes,
                              .rounding = p->used - p->live_bytes,
                              .cached = p->held - p->pending,
                              .pending = p->pending,
                              .backed = p->used + p->held,
                              .allocs = p->allocs,
                              .frees = p->frees};
    for (unsigned bin = 0; bin < TIDEI_WHOLE_BINS; bin++)
        for (block *x = p->bins[bin]; x; x = x->next)
            out->largest = tidei_max_size(out->largest, x->size);
    pthread_mutex_unlock(&p->lock);
}

static bool bins_valid(tidei_whole *p) {
    size_t held = 0, pending = 0;
    for (unsigned bin = 0; bin <= TIDEI_WHOLE_BINS; bin++)
        for (block *x = p->bins[bin], *prev = NULL; x; prev = x, x = x->next) {
            if (x->prev != prev || x->bytes || p->rules->bin(x->size) != bin) return false;
            if (x->size % p->granule || (!x->done && !x->stamps.n)) return false;
            held += x->size;
            if (!x->done) pending += x->size;
        }
    return held == p->held && pending == p->pending;
}

bool tidei_whole_valid(tidei_pool *pool) {
    tidei_whole *p = (tidei_whole *)pool;
    size_t live = 0, used = 0;
    uint64_t n = 0;
    bool ok = true;
    pthread_mutex_lock(&p->lock);
    for (block *x = p->live, *prev = NULL; x; prev = x, x = x->next) {
        ok = ok && x->prev == prev && x->bytes && x->bytes <= x->size && !x->stamps.n;
        live += x->bytes;
        used += x->size;
        n++;
    }
    ok = ok && live == p->live_bytes && used == p->used && n == p->allocs - p->frees &&
         bins_valid(p);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* ---- opening and closing ---- */

tide_status tidei_whole_open(const struct tidei_pool_ops *ops, const tidei_whole_rules *rules,
                             tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    tidei_whole *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("a pool", sizeof *p);
    tidei_pool_init(&p->base, ops, dev, kind);
    p->rules = rules;
    p->granule = dev->d->info.align;
    pthread_mutex_init(&p->lock, NULL);
    *out = &p->base;
    return TIDE_OK;
}

void tidei_whole_close(tidei_pool *pool) {
    tidei_whole *p = (tidei_whole *)pool;
    give_back(p, p->live);
    for (unsigned bin = 0; bin <= TIDEI_WHOLE_BINS; bin++) give_back(p, p->bins[bin]);
    pthread_mutex_destroy(&p->lock);
    tidei_host_free(pool->dev->rt, p);
}
