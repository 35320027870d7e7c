/* driver.c: the pool `driver`: blocks from a pool of the driver's own, in stream order
** (cuMemAllocFromPoolAsync; on `host` an emulation). The driver decides who gets what was freed, by
** the rules we tell it (attrs.reuse; TIDEI_ALLOC_STEAL adds TIDEI_REUSE_WAIT), and when memory goes
** back (attrs.threshold).
**
** Model. A record for each block handed out. An allocation is work on its stream: it takes a tick,
** and the block comes with that stamp, so that a first use elsewhere waits for it. A free is queued
** on a stream of one of the last uses, behind a wait, on the device, for the others; from then on
** the block is the driver's. Only where that fails the block stays here, pending, until a settle
** can queue it. `charged` is what is counted against the limits and called backed; `reserved` is
** what the driver had taken when it was last asked, which is after every allocation, at settles and
** trims. What a block needs beyond `charged` can only be known once the driver has taken it: if the
** limit refuses, the block is freed again, the driver told to give back what it can, and the
** request did not fit; so figures never exceed the limit, while the driver may for the moment that
** this takes, or until the work before it on the stream is done. What the driver keeps counts as
** cached, whether its work is done or not: the driver does not tell. The driver's threshold counts
** the blocks handed out too, so it keeps less than our threshold would.
** What must stay true: used + pending <= charged. A look (asking the driver what it has taken) is
** used only if no later one was used before it: so what is counted in `used` under the lock was in
** `reserved` before. No device call is made with `lock` held, nor tidei_back, which may come back
** here to trim; `growing` is held over both, and trim does not take it. */
#include "runtime/pool/budget.h"
#include "runtime/pool/reuse.h"

typedef struct record record;
struct record {
    record *prev, *next; /* prev only while handed out */
    tidei_addr addr;
    size_t bytes, rounded; /* rounded is 0 while the block is not counted in `used` */
    tidei_stamps stamps;   /* of the last uses, while pending */
    uint16_t slot;         /* of the stream that it was taken on */
};

typedef struct driver {
    tidei_pool base;
    size_t align; /* fixed once open */
    tidei_dmempool *mp;
    _Atomic unsigned told_reuse;
    _Atomic size_t told_threshold;
    _Atomic uint64_t looks;  /* looks begun so far */
    pthread_mutex_t growing; /* taken before lock */
    pthread_mutex_t lock;
    /* under lock */
    record *live, *pending;
    size_t live_bytes, used, pending_bytes; /* requested; the last two rounded */
    size_t charged, reserved;
    uint64_t newest; /* the number of the look that `reserved` comes from */
    uint64_t allocs, frees;
} driver;

static const struct tidei_device_ops *ops_of(const driver *p) { return p->base.dev->d->ops; }

/* ---- what the driver is told ---- */

static tide_status tell(driver *p, tidei_mempool_attr attr, uint64_t value) {
    return ops_of(p)->mempool_set(p->base.dev->d, p->mp, attr, value);
}

static tide_status tell_reuse(driver *p, unsigned rules) {
    tide_status st = tell(p, TIDEI_MEMPOOL_REUSE_FOLLOW, !!(rules & TIDEI_REUSE_FOLLOW));
    if (st == TIDE_OK) st = tell(p, TIDEI_MEMPOOL_REUSE_DONE, !!(rules & TIDEI_REUSE_DONE));
    if (st == TIDE_OK) st = tell(p, TIDEI_MEMPOOL_REUSE_WAIT, !!(rules & TIDEI_REUSE_WAIT));
    if (st == TIDE_OK) atomic_store(&p->told_reuse, rules);
    return st;
}

/* Tells the driver where the attributes have changed. A thread that allocates meanwhile may get
** these rules too; no rule is unsafe. */
static tide_status tell_changes(driver *p, unsigned flags) {
    unsigned rules =
        tidei_reuse_rules(&p->base) | (flags & TIDEI_ALLOC_STEAL ? (unsigned)TIDEI_REUSE_WAIT : 0);
    size_t threshold = atomic_load_explicit(&p->base.attrs.threshold, memory_order_relaxed);
    tide_status st = TIDE_OK;
    if (tidei_unlikely(rules != atomic_load(&p->told_reuse))) st = tell_reuse(p, rules);
    if (st == TIDE_OK && tidei_unlikely(threshold != atomic_load(&p->told_threshold))) {
        st = tell(p, TIDEI_MEMPOOL_THRESHOLD, threshold);
        if (st == TIDE_OK) atomic_store(&p->told_threshold, threshold);
    }
    return st;
}

/* ---- what the driver has taken ---- */

static tide_status look(driver *p) {
    uint64_t n = atomic_fetch_add(&p->looks, 1) + 1;
    size_t reserved, used;
    tide_status st = ops_of(p)->mempool_figures(p->base.dev->d, p->mp, &reserved, &used);
    if (st != TIDE_OK) return st;
    pthread_mutex_lock(&p->lock);
    if (n > p->newest) {
        p->newest = n;
        p->reserved = reserved;
    }
    pthread_mutex_unlock(&p->lock);
    return TIDE_OK;
}

/* What the driver has given back no longer counts. Returns the bytes. */
static size_t uncharge(driver *p) {
    pthread_mutex_lock(&p->lock);
    size_t bytes = p->charged > p->reserved ? p->charged - p->reserved : 0;
    p->charged -= bytes;
    pthread_mutex_unlock(&p->lock);
    if (bytes) tidei_unback(p->base.dev, bytes);
    return bytes;
}

/* Trims, and asks the driver what came of it. A failure leaves things as they were, and is no error
** of the caller's. */
static size_t trim_to(driver *p, size_t keep) {
    tidei_saved_error e;
    tidei_error_save(&e);
    tidei_inflight_growth_begin(p->base.dev);
    tide_status st = ops_of(p)->mempool_trim(p->base.dev->d, p->mp, keep);
    if (st == TIDE_OK) st = look(p);
    if (st != TIDE_OK) tidei_error_restore(&e);
    size_t bytes = uncharge(p);
    tidei_inflight_growth_end(p->base.dev, bytes > 0);
    return bytes;
}

/* Makes the driver give back what it took and the limit refused to count. */
static void drop_excess(driver *p) {
    pthread_mutex_lock(&p->lock);
    size_t charged = p->charged;
    bool excess = p->reserved > charged;
    pthread_mutex_unlock(&p->lock);
    if (excess) trim_to(p, charged);
}

/* ---- freeing ---- */

/* Chooses and holds a stream of the device to free on: one on which a last use is pending; else the
** one that the block was taken on, or the default one. NULL: all of them are retired, so all work
** is complete. */
static tidei_dstream *pick(driver *p, record *r, tidei_stream **out) {
    tidei_dev *dev = p->base.dev;
    tidei_stamp *x = tidei_stamps_at(&r->stamps);
    tidei_dstream *ds = NULL;
    for (unsigned i = 0; i < r->stamps.n && !ds; i++) {
        *out = tidei_stream_at(dev, x[i].stream);
        if ((*out)->dev != dev || tidei_reuse_known_done(dev, x[i])) continue;
        ds = tidei_stream_hold(*out);
    }
    for (unsigned i = 0; i < 2 && !ds; i++) {
        *out = i ? dev->stream0 : tidei_stream_at(dev, r->slot);
        ds = tidei_stream_hold(*out);
    }
    return ds;
}

/* Makes s wait for all of the last uses, on the device. */
static tide_status follow_all(driver *p, tidei_stream *s, record *r) {
    tidei_stamp *x = tidei_stamps_at(&r->stamps);
    tide_status st = TIDE_OK;
    for (unsigned i = 0; i < r->stamps.n && st == TIDE_OK; i++)
        if (!tidei_stamp_covered(s, x[i]))
            st = tidei_stream_follow(s, tidei_stream_at(p->base.dev, x[i].stream), x[i].tick);
    return st;
}

static tide_status free_on(driver *p, tidei_stream *s, tidei_dstream *ds, record *r) {
    tide_status st = follow_all(p, s, r);
    if (st != TIDE_OK) return st;
    pthread_mutex_lock(&s->lock);
    st = ops_of(p)->mempool_free(p->base.dev->d, p->mp, ds, r->addr);
    if (st == TIDE_OK) {
        tidei_stream_tick(s); /* so that a wait for the stream is one for the free too */
        tidei_stream_after_work(s);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* False: the free could not be queued, and the record stays the caller's. */
static bool queue_free(driver *p, record *r) {
    tidei_saved_error e;
    tidei_stream *s;
    tide_status st;
    tidei_error_save(&e);
    tidei_dstream *ds = pick(p, r, &s);
    if (ds) {
        st = free_on(p, s, ds, r);
        tidei_stream_let_go(s);
    } else {
        st = ops_of(p)->mempool_free(p->base.dev->d, p->mp, NULL, r->addr);
    }
    if (st != TIDE_OK) {
        tidei_error_restore(&e);
        return false;
    }
    tidei_stamps_clear(&r->stamps);
    tidei_host_free(p->base.dev->rt, r);
    return true;
}

static void make_pending(driver *p, record *r) {
    pthread_mutex_lock(&p->lock);
    r->next = p->pending;
    p->pending = r;
    p->pending_bytes += r->rounded;
    pthread_mutex_unlock(&p->lock);
}

static void driver_free(tidei_pool *pool, tidei_block *b) {
    driver *p = (driver *)pool;
    record *r = b->priv;
    tidei_check(r->bytes == b->bytes && r->addr == b->addr);
    r->stamps = b->stamps;
    b->stamps = (tidei_stamps){0};
    pthread_mutex_lock(&p->lock);
    if (r->next) r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        p->live = r->next;
    p->live_bytes -= r->bytes;
    p->used -= r->rounded;
    p->frees++;
    pthread_mutex_unlock(&p->lock);
    if (!queue_free(p, r)) make_pending(p, r);
}

/* Tries a pending record again. Where all is done the free takes effect at once, so that a later
** trim finds the memory free. */
static bool free_again(driver *p, record *r) {
    tidei_stamps_prune(p->base.dev, &r->stamps);
    if (r->stamps.n) return queue_free(p, r);
    ops_of(p)->mempool_free(p->base.dev->d, p->mp, NULL, r->addr);
    tidei_host_free(p->base.dev->rt, r);
    return true;
}

/* Tries all pending records again. Returns the bytes that went to the driver. */
static size_t free_pending(driver *p) {
    size_t bytes = 0;
    pthread_mutex_lock(&p->lock);
    record *r = p->pending;
    p->pending = NULL;
    p->pending_bytes = 0;
    pthread_mutex_unlock(&p->lock);
    for (record *next; r; r = next) {
        size_t rounded = r->rounded;
        next = r->next;
        if (free_again(p, r))
            bytes += rounded;
        else
            make_pending(p, r);
    }
    return bytes;
}

static size_t driver_settle(tidei_pool *pool) {
    driver *p = (driver *)pool;
    tidei_saved_error e;
    size_t bytes = free_pending(p);
    tidei_error_save(&e);
    tide_status st = tell_changes(p, 0); /* the threshold counts from the next wait on */
    if (st == TIDE_OK) st = look(p);
    if (st != TIDE_OK) tidei_error_restore(&e);
    uncharge(p);
    drop_excess(p);
    return bytes;
}

/* The driver gives back only memory whose free it knows to be over, and it learns that only when it
** is asked about the stream, while we read just the stream's completion word. So this asks it about
** the streams whose work is done. Streams that have more to do are left alone, and so are adopted
** streams, whose work has no ticks; so this waits only for what other threads submit meanwhile. */
static void tell_done(driver *p) {
    tidei_dev *dev = p->base.dev;
    unsigned slot = 0;
    tidei_saved_error e;
    tidei_error_save(&e);
    for (tidei_stream *s; (s = tidei_stream_next(dev, &slot));) {
        tidei_stamp last = {.tick = tidei_stream_last_tick(s), .stream = s->slot, .write = 1};
        if (!last.tick || atomic_load(&s->adopted) || !tidei_stamp_done(dev, last)) continue;
        tidei_dstream *ds = tidei_stream_hold(s);
        if (!ds) continue;
        if (dev->d->ops->stream_sync(dev->d, ds) != TIDE_OK) tidei_error_restore(&e);
        tidei_stream_let_go(s);
    }
}

static size_t driver_trim(tidei_pool *pool, size_t keep) {
    driver *p = (driver *)pool;
    free_pending(p);
    tell_done(p);
    pthread_mutex_lock(&p->lock);
    size_t used = p->used;
    pthread_mutex_unlock(&p->lock);
    return trim_to(p, keep > SIZE_MAX - used ? SIZE_MAX : used + keep);
}

/* ---- allocating ---- */

/* True where the request cannot fit: saves asking the driver, and giving back. */
static bool hopeless(driver *p, size_t rounded, unsigned flags) {
    tidei_dev *dev = p->base.dev;
    size_t limit = atomic_load_explicit(&dev->budget->limit, memory_order_relaxed),
           library = atomic_load_explicit(&dev->budget->library, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    size_t used = p->used + p->pending_bytes, idle = p->charged - used;
    pthread_mutex_unlock(&p->lock);
    if (flags & TIDEI_ALLOC_NO_GROW && rounded > idle) return true;
    return used > limit || rounded > limit - used || library > limit - used - rounded;
}

static tide_status ask(driver *p, tidei_stream *s, record *r) {
    tide_status st;
    pthread_mutex_lock(&s->lock);
    if (s->ds) {
        st = ops_of(p)->mempool_alloc(p->base.dev->d, p->mp, s->ds, r->bytes, &r->addr);
    } else {
        st = tidei_fail(TIDE_E_INVALID, "pool driver", "the stream was released");
    }
    if (st == TIDE_OK) {
        tidei_stamp x = {.tick = tidei_stream_tick(s), .stream = s->slot, .write = 1};
        tidei_stamps_add(&r->stamps, x);
        tidei_stream_after_work(s);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* Under the lock. */
static void count_in(driver *p, record *r) {
    r->next = p->live;
    if (r->next) r->next->prev = r;
    p->live = r;
    p->live_bytes += r->bytes;
    p->used += r->rounded;
    p->allocs++;
}

/* Counts the block in if all that the driver has taken is charged. */
static bool covered(driver *p, record *r) {
    pthread_mutex_lock(&p->lock);
    bool enough = p->reserved <= p->charged;
    if (enough) count_in(p, r);
    pthread_mutex_unlock(&p->lock);
    return enough;
}

static tide_status charge(driver *p, record *r) {
    pthread_mutex_lock(&p->growing);
    pthread_mutex_lock(&p->lock);
    size_t more = p->reserved > p->charged ? p->reserved - p->charged : 0;
    pthread_mutex_unlock(&p->lock);
    tide_status st = more ? tidei_back(p->base.dev, more) : TIDE_OK;
    if (st == TIDE_OK) {
        pthread_mutex_lock(&p->lock);
        p->charged += more;
        count_in(p, r);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&p->growing);
    if (st == TIDE_OK) uncharge(p); /* no longer charges what was trimmed meanwhile */
    return st;
}

static tide_status account(driver *p, record *r, unsigned flags) {
    tide_status st = look(p);
    if (st != TIDE_OK) return st;
    if (tidei_likely(covered(p, r))) return TIDE_OK;
    return flags & TIDEI_ALLOC_NO_GROW ? TIDE_E_NOMEM : charge(p, r);
}

/* Frees the block again, since the limit refused it. */
static void undo(driver *p, record *r) {
    tidei_saved_error e;
    tidei_error_save(&e);
    r->rounded = 0;
    if (!queue_free(p, r)) make_pending(p, r);
    drop_excess(p);
    tidei_error_restore(&e);
}

static tide_status take(driver *p, tidei_stream *s, record *r, unsigned flags) {
    tide_status st = ask(p, s, r);
    if (st != TIDE_OK) {
        tidei_host_free(p->base.dev->rt, r);
        return st;
    }
    st = account(p, r, flags);
    if (st != TIDE_OK) undo(p, r);
    return st;
}

static tide_status driver_alloc(tidei_pool *pool, size_t bytes, tidei_stream *s, unsigned flags,
                                tidei_block *out) {
    driver *p = (driver *)pool;
    tidei_dev *dev = pool->dev;
    tidei_check(bytes > 0);
    if (bytes > dev->d->info.total_bytes || hopeless(p, tidei_round_up(bytes, p->align), flags))
        return TIDE_E_NOMEM;
    tide_status st = tell_changes(p, flags);
    if (st != TIDE_OK) return st;
    record *r = tidei_host_alloc(dev->rt, sizeof *r);
    if (!r) return tidei_fail_host_memory("pool driver", sizeof *r);
    *r = (record){.bytes = bytes, .rounded = tidei_round_up(bytes, p->align), .slot = s->slot};
    tidei_inflight_growth_begin(dev);
    st = take(p, s, r, flags);
    tidei_inflight_growth_end(dev, st == TIDE_OK);
    if (st != TIDE_OK) return st;
    *out = (tidei_block){.addr = r->addr, .bytes = bytes, .priv = r, .stamps = r->stamps};
    r->stamps = (tidei_stamps){0};
    return TIDE_OK;
}

/* ---- figures ---- */

static void driver_stats(tidei_pool *pool, tidei_pool_stats *out) {
    driver *p = (driver *)pool;
    pthread_mutex_lock(&p->lock);
    *out = (tidei_pool_stats){.live = p->live_bytes,
                              .rounding = p->used - p->live_bytes,
                              .cached = p->charged - p->used - p->pending_bytes,
                              .pending = p->pending_bytes,
                              .backed = p->charged,
                              .largest = 0, /* the driver does not tell */
                              .allocs = p->allocs,
                              .frees = p->frees};
    pthread_mutex_unlock(&p->lock);
}

static bool driver_valid(tidei_pool *pool) {
    driver *p = (driver *)pool;
    size_t live = 0, used = 0, pending = 0;
    uint64_t n = 0;
    bool ok = true;
    pthread_mutex_lock(&p->lock);
    for (record *r = p->live, *prev = NULL; r; prev = r, r = r->next) {
        ok = ok && r->prev == prev && r->addr % p->align == 0 && r->bytes && r->bytes <= r->rounded;
        live += r->bytes;
        used += r->rounded;
        n++;
    }
    for (record *r = p->pending; r; r = r->next) pending += r->rounded;
    ok = ok && live == p->live_bytes && used == p->used && pending == p->pending_bytes;
    ok = ok && n == p->allocs - p->frees && used + pending <= p->charged;
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* ---- opening and closing ---- */

static tide_status driver_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    const struct tidei_device_ops *ops = dev->d->ops;
    if (kind != TIDEI_MEM_DEVICE || !ops->mempool_new)
        return tidei_fail(TIDE_E_UNSUPPORTED, "pool driver",
                          "%s has no pools of this kind of memory", dev->d->info.name);
    driver *p = tidei_host_alloc(dev->rt, sizeof *p);
    if (!p) return tidei_fail_host_memory("pool driver", sizeof *p);
    tide_status st = ops->mempool_new(dev->d, &p->mp);
    if (st != TIDE_OK) {
        tidei_host_free(dev->rt, p);
        return st;
    }
    tidei_pool_init(&p->base, &tidei_pool_driver, dev, kind);
    atomic_store(&p->base.attrs.threshold, 0); /* CUDA's own default */
    p->align = dev->d->info.align;
    /* a driver's pool begins with these rules */
    atomic_init(&p->told_reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE | TIDEI_REUSE_WAIT);
    atomic_init(&p->told_threshold, 0);
    pthread_mutex_init(&p->growing, NULL);
    pthread_mutex_init(&p->lock, NULL);
    *out = &p->base;
    return TIDE_OK;
}

static void close_all(driver *p, record *r) {
    for (record *next; r; r = next) {
        next = r->next;
        ops_of(p)->mempool_free(p->base.dev->d, p->mp, NULL, r->addr);
        tidei_stamps_clear(&r->stamps);
        tidei_host_free(p->base.dev->rt, r);
    }
}

static void driver_close(tidei_pool *pool) {
    driver *p = (driver *)pool;
    close_all(p, p->live);
    close_all(p, p->pending);
    ops_of(p)->mempool_release(pool->dev->d, p->mp);
    if (p->charged) tidei_unback(pool->dev, p->charged);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->growing);
    tidei_host_free(pool->dev->rt, p);
}

const struct tidei_pool_ops tidei_pool_driver = {
    .name = "driver",
    .open = driver_open,
    .close = driver_close,
    .alloc = driver_alloc,
    .free = driver_free,
    .settle = driver_settle,
    .trim = driver_trim,
    .stats = driver_stats,
    .valid = driver_valid,
};
