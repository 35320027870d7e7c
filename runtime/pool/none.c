/* none.c: the pool `none`: every block straight from the driver and straight back. For checkers
** that see the driver's allocations only, for kinds of memory that are not mapped by pages, and to
** compare other pools with.
**
** Model. A list of the blocks handed out. Nothing is kept, so nothing is cached: backed = live +
** rounding + pending. The driver is asked for the exact size, so that a checker sees the first byte
** too many; the figures round up to the device's alignment. Since the driver may reuse what it gets
** back at once, a block whose last uses are not done stays pending until an allocation or a settle
** finds that they are. A free never waits, since other threads may be waiting for the drain that it
** is part of. An allocation that does not fit waits for what is pending, as the driver's own free
** would have, before it gives up. */
#include "runtime/pool/pool.h"
#include "runtime/pool/budget.h"
#include "runtime/streams/loss.h"

typedef struct record record;
struct record {
    record *prev, *next;
    tidei_addr addr;
    size_t bytes, rounded;
    tidei_stamps stamps; /* of the last uses, while pending */
};

typedef struct none {
    tidei_pool base;
    size_t align; /* fixed once open */
    /* held, and taken before lock, while a settle works on the pending blocks: it asks the device
    ** about them */
    pthread_mutex_t settling;
    pthread_mutex_t lock;
    /* under lock */
    /* records: of blocks handed out; pending: of blocks freed but perhaps in use, linked by next
    ** alone */
    record *records, *pending;
    size_t live, backed, pending_bytes; /* the last two rounded */
    uint64_t allocs, frees;
} none;

static tide_status none_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    none *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool none", sizeof *p);
    tidei_pool_init(&p->base, &tidei_pool_none, dev, kind);
    p->align = dev->d->info.align;
    pthread_mutex_init(&p->settling, NULL);
    pthread_mutex_init(&p->lock, NULL);
    *out = &p->base;
    return TIDE_OK;
}

static void give_back(none *p, record *r) {
    tidei_dev *dev = p->base.dev;
    dev->d->ops->raw_free(dev->d, p->base.kind, r->addr, r->bytes);
    tidei_unback_kind(dev, p->base.kind, r->rounded);
    tidei_stamps_clear(&r->stamps);
    tidei_host_free(dev->rt, r);
}
static void give_all_back(none *p, record *r) {
    for (record *next; r; r = next) {
        next = r->next;
        give_back(p, r);
    }
}

static void none_close(tidei_pool *pool) {
    none *p = (none *)pool;
    give_all_back(p, p->records);
    give_all_back(p, p->pending);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->settling);
    tidei_host_free(pool->dev->rt, p);
}

static size_t none_settle(tidei_pool *pool) {
    none *p = (none *)pool;
    record *done = NULL, *rest = NULL;
    size_t bytes = 0;
    pthread_mutex_lock(&p->lock);
    bool any = p->pending != NULL;
    pthread_mutex_unlock(&p->lock);
    if (!any) return 0;
    pthread_mutex_lock(&p->settling);
    tidei_inflight_growth_begin(pool->dev);
    pthread_mutex_lock(&p->lock);
    record *all = p->pending;
    p->pending = NULL;
    pthread_mutex_unlock(&p->lock);
    for (record *r = all, *next; r; r = next) {
        next = r->next;
        tidei_stamps_prune(pool->dev, &r->stamps);
        record **to = r->stamps.n == 0 ? &done : &rest;
        if (to == &done) bytes += r->rounded;
        r->next = *to;
        *to = r;
    }
    pthread_mutex_lock(&p->lock);
    record **end = &p->pending; /* frees may have added more meanwhile */
    while (*end) end = &(*end)->next;
    *end = rest;
    p->pending_bytes -= bytes;
    p->backed -= bytes;
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->settling);
    give_all_back(p, done);
    tidei_inflight_growth_end(pool->dev, bytes > 0);
    return bytes;
}

static tide_status take(none *p, record *r) {
    tidei_dev *dev = p->base.dev;
    tide_status st = tidei_back_kind(dev, p->base.kind, r->rounded);
    if (st != TIDE_OK) return st;
    tidei_inflight_growth_begin(dev);
    st = dev->d->ops->raw_alloc(dev->d, p->base.kind, r->bytes, &r->addr);
    if (st != TIDE_OK) tidei_unback_kind(dev, p->base.kind, r->rounded);
    tidei_inflight_growth_end(dev, st == TIDE_OK);
    return st;
}

static bool would_fit(size_t limit, size_t backed, size_t pending, size_t wanted) {
    size_t rest = backed > pending ? backed - pending : 0;
    return rest <= limit && wanted <= limit - rest;
}

/* Where so many bytes would fit without what is pending, waits for the device and gives that back.
** Returns the bytes. */
static size_t wait_for_pending(none *p, size_t wanted) {
    tidei_dev *dev = p->base.dev;
    tidei_mem_kind kind = p->base.kind;
    tidei_host_budget *host = dev->rt->budget;
    pthread_mutex_lock(&p->lock);
    size_t pending = p->pending_bytes;
    pthread_mutex_unlock(&p->lock);
    if (!pending) return 0;
    if (tidei_on_host(kind) && !would_fit(host->limit, atomic_load(&host->backed), pending, wanted))
        return 0;
    if (tidei_on_device(kind) &&
        (wanted > dev->d->info.total_bytes ||
         !would_fit(tidei_hard_limit(dev), atomic_load(&dev->budget->backed), pending, wanted)))
        return 0;
    return tidei_streams_wait_users(dev) == TIDE_OK ? none_settle(&p->base) : 0;
}

/* The host's memory counts too: the block may be pinned memory, and nothing else is allocated in
** between. */
static bool refused(tide_status st) { return st == TIDE_E_NOMEM || st == TIDE_E_HOST_NOMEM; }

/* Makes a record and its block. An attempt that fails keeps nothing: waiting before the next
** attempt calls the embedder's code, which may never return. */
static tide_status attempt(none *p, size_t bytes, record **out) {
    tidei_runtime *rt = p->base.dev->rt;
    record *r = tidei_host_alloc(rt, sizeof *r);
    *out = NULL;
    if (!r) return tidei_fail_host_memory("pool none", sizeof *r);
    *r = (record){.bytes = bytes, .rounded = tidei_round_up(bytes, p->align)};
    tide_status st = take(p, r);
    if (st == TIDE_OK)
        *out = r;
    else
        tidei_host_free(rt, r);
    return st;
}

static tide_status none_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                              tidei_block *out) {
    none *p = (none *)pool;
    (void)s;
    tidei_check(bytes > 0);
    none_settle(pool);
    if (flags & TIDEI_ALLOC_NO_GROW || bytes > SIZE_MAX - p->align) return TIDE_E_NOMEM;
    record *r;
    tidei_saved_error before; /* a first attempt that is refused leaves no error */
    tidei_error_save(&before);
    tide_status st = attempt(p, bytes, &r);
    if (refused(st) && wait_for_pending(p, tidei_round_up(bytes, p->align)) &&
        (st = attempt(p, bytes, &r)) == TIDE_OK)
        tidei_error_restore(&before);
    if (st != TIDE_OK) return st;
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

/* Whether the last uses are done (on a lost device everything is). */
static bool uses_over(tidei_dev *dev, tidei_stamps *stamps) {
    tidei_stamps_prune(dev, stamps);
    return stamps->n == 0;
}

static void none_free(tidei_pool *pool, tidei_block *b) {
    none *p = (none *)pool;
    record *r = b->priv;
    tidei_check(r->bytes == b->bytes && r->addr == b->addr);
    r->stamps = b->stamps;
    b->stamps = (tidei_stamps){0};
    bool over = uses_over(pool->dev, &r->stamps);
    if (over) tidei_inflight_growth_begin(pool->dev);
    pthread_mutex_lock(&p->lock);
    if (r->next) r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        p->records = r->next;
    p->live -= r->bytes;
    p->frees++;
    if (over) {
        p->backed -= r->rounded;
    } else {
        p->pending_bytes += r->rounded;
        r->next = p->pending;
        p->pending = r;
    }
    pthread_mutex_unlock(&p->lock);
    if (!over) return;
    give_back(p, r);
    tidei_inflight_growth_end(pool->dev, true);
}

static size_t none_trim(tidei_pool *pool, size_t keep) {
    (void)keep; /* the pool keeps nothing that is not in use */
    return none_settle(pool);
}

static void none_stats(tidei_pool *pool, tidei_pool_stats *out) {
    none *p = (none *)pool;
    pthread_mutex_lock(&p->lock);
    *out = (tidei_pool_stats){.live = p->live,
                              .rounding = p->backed - p->pending_bytes - p->live,
                              .pending = p->pending_bytes,
                              .backed = p->backed,
                              .allocs = p->allocs,
                              .frees = p->frees};
    pthread_mutex_unlock(&p->lock);
}

static bool none_valid(tidei_pool *pool) {
    none *p = (none *)pool;
    size_t live = 0, backed = 0, pending = 0;
    uint64_t n = 0;
    bool links = true;
    pthread_mutex_lock(&p->settling);
    pthread_mutex_lock(&p->lock);
    for (record *r = p->records, *prev = NULL; r; prev = r, r = r->next) {
        links &= r->prev == prev && r->addr % p->align == 0;
        live += r->bytes;
        backed += r->rounded;
        n++;
    }
    for (record *r = p->pending; r; r = r->next) pending += r->rounded;
    backed += pending;
    bool ok = links && live == p->live && pending == p->pending_bytes && backed == p->backed &&
              n == p->allocs - p->frees;
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->settling);
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
