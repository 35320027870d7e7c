/* none.c: the pool `none`: every block straight from the driver and straight back. For checkers that see the driver's
** allocations only, for memory that has no pages, and to compare with.
**
** Model. A list of the blocks handed out. Nothing is kept, so nothing is cached or parked: backed = live + rounding. The
** driver is asked for the exact size, so that a checker sees the first byte too many; the figures round up to the device's
** alignment. Since the driver may reuse what it gets back at once, `free` waits until the block's last uses are done. */
#include "runtime/pool/pool.h"
#include "runtime/runtime.h"

typedef struct record record;
struct record {
    record *prev, *next;
    tidei_addr addr;
    size_t bytes, rounded;
};

typedef struct none {
    tidei_pool base;
    size_t align; /* fixed once open */
    pthread_mutex_t lock;
    /* under lock */
    record *records;
    size_t live, backed;
    uint64_t allocs, frees;
} none;

static tide_status none_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    none *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool none", sizeof *p);
    p->base = (tidei_pool){.ops = &tidei_pool_none, .dev = dev, .kind = kind};
    p->align = dev->d->info.align;
    pthread_mutex_init(&p->lock, NULL);
    *out = &p->base;
    return TIDE_OK;
}

static void give_back(none *p, record *r) {
    tidei_dev *dev = p->base.dev;
    dev->d->ops->raw_free(dev->d, p->base.kind, r->addr, r->bytes);
    tidei_unback(dev, r->rounded);
    tidei_host_free(dev->rt, r);
}

static void none_close(tidei_pool *pool) {
    none *p = (none *)pool;
    for (record *r = p->records, *next; r; r = next) {
        next = r->next;
        give_back(p, r);
    }
    pthread_mutex_destroy(&p->lock);
    tidei_host_free(pool->dev->rt, p);
}

static tide_status none_alloc(tidei_pool *pool, size_t bytes, tide_stream *s, unsigned flags, tidei_block *out) {
    none *p = (none *)pool;
    tidei_dev *dev = pool->dev;
    (void)s;
    tidei_check(bytes > 0);
    if (flags & TIDEI_ALLOC_NO_GROW || bytes > SIZE_MAX - p->align) return TIDE_E_NOMEM;
    record *r = tidei_host_alloc(dev->rt, sizeof *r);
    if (!r) return tidei_fail_host_memory("pool none", sizeof *r);
    *r = (record){.bytes = bytes, .rounded = tidei_round_up(bytes, p->align)};
    tide_status st = tidei_back(dev, r->rounded);
    if (st == TIDE_OK) {
        st = dev->d->ops->raw_alloc(dev->d, pool->kind, bytes, &r->addr);
        if (st != TIDE_OK) tidei_unback(dev, r->rounded);
    }
    if (st != TIDE_OK) {
        tidei_host_free(dev->rt, r);
        return st;
    }
    pthread_mutex_lock(&p->lock);
    r->next = p->records;
    if (r->next) r->next->prev = r;
    p->records = r;
    p->live += bytes;
    p->backed += r->rounded;
    p->allocs++;
    pthread_mutex_unlock(&p->lock);
    *out = (tidei_block){.addr = r->addr, .bytes = bytes, .priv = r};
    return TIDE_OK;
}

/* Waits for the last uses; what the wait has to say (a lost device) is no error of whoever frees. */
static void wait_for(tidei_dev *dev, tidei_stamps *stamps) {
    if (stamps->n) {
        tidei_saved_error e;
        tidei_error_save(&e);
        if (tidei_stamps_wait(dev, stamps) != TIDE_OK) tidei_error_restore(&e);
    }
    tidei_stamps_clear(stamps);
}

static void none_free(tidei_pool *pool, tidei_block *b) {
    none *p = (none *)pool;
    record *r = b->priv;
    tidei_check(r->bytes == b->bytes && r->addr == b->addr);
    wait_for(pool->dev, &b->stamps);
    pthread_mutex_lock(&p->lock);
    if (r->next) r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        p->records = r->next;
    p->live -= r->bytes;
    p->backed -= r->rounded;
    p->frees++;
    pthread_mutex_unlock(&p->lock);
    give_back(p, r);
}

static size_t none_settle(tidei_pool *pool) {
    (void)pool;
    return 0;
}

static size_t none_trim(tidei_pool *pool, size_t keep) {
    (void)pool, (void)keep;
    return 0;
}

static void none_stats(tidei_pool *pool, tidei_pool_stats *out) {
    none *p = (none *)pool;
    pthread_mutex_lock(&p->lock);
    *out = (tidei_pool_stats){.live = p->live,
                              .rounding = p->backed - p->live,
                              .backed = p->backed,
                              .allocs = p->allocs,
                              .frees = p->frees};
    pthread_mutex_unlock(&p->lock);
}

static bool none_valid(tidei_pool *pool) {
    none *p = (none *)pool;
    size_t live = 0, backed = 0;
    uint64_t n = 0;
    bool links = true;
    pthread_mutex_lock(&p->lock);
    for (record *r = p->records, *prev = NULL; r; prev = r, r = r->next) {
        links &= r->prev == prev && r->addr % p->align == 0;
        live += r->bytes;
        backed += r->rounded;
        n++;
    }
    bool ok = links && live == p->live && backed == p->backed && n == p->allocs - p->frees;
    pthread_mutex_unlock(&p->lock);
    return ok;
}

const struct tidei_pool_ops tidei_pool_none = {
    .name = "none",
    .open = none_open,
    .close = none_close,
    .alloc = none_alloc,
    .free = none_free,
    .settle = none_settle,
    .trim = none_trim,
    .stats = none_stats,
    .valid = none_valid,
};
