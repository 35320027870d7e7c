/* pool_double.h: what stands in for the runtime and the device under a pool: memory that can be
** counted, made to fail, and streams whose progress the test decides.
**
** Included by programs that compile the pools' sources themselves instead of linking the library.
** Addresses are plain numbers unless a test asks for real memory. A stream's word (what the device
** would have written) is `word`; the pool learns of it only by asking, as it does from a device. */
#ifndef POOL_DOUBLE_H
#define POOL_DOUBLE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include "runtime/pool/pool.h"
#include "runtime/runtime.h"

typedef struct tidei_dpage {
    size_t bytes;
    bool mapped;
} double_page;

/* Counts down at each call of one kind; the call that finds 0 fails. -1: none does. */
enum double_call {
    CALL_HOST,
    CALL_BACK,
    CALL_PAGE_NEW,
    CALL_MAP,
    CALL_UNMAP,
    CALL_RAW,
    CALL_RESERVE,
    CALL_MOVE,
    CALL_WAIT,
    CALLS
};

static struct doubles {
    tidei_device device;
    tidei_dev dev;
    tidei_runtime rt;
    /* their parts */
    tidei_waits waits;
    tidei_budget budget;
    tidei_pools pools;
    tidei_dev_memory memory;
    tidei_streams all_streams;
    tidei_host_budget host_budget;
    tidei_stream streams[TIDEI_STREAMS_MAX];
    uint64_t word[TIDEI_STREAMS_MAX];
    /* (may be NULL) others are at work while the host waits for the device */
    void (*on_wait)(void);
    _Atomic long fail_after[CALLS];
    tide_status fail_with; /* of the device's calls */
    _Atomic long host_blocks, stamp_blocks, pages, raw_blocks, asks, calls[CALLS];
    double_page **table; /* by page_bytes from `base` */
    tidei_addr base;
    _Atomic tidei_addr raw_next; /* raw memory lies one after the other, and nowhere twice */
    size_t span;
    bool real; /* memory behind the addresses */
    void (*on_back)(size_t bytes);
    size_t peak;
    pthread_mutex_t lock;
    tide_status error;
} dbl;

static bool double_fails(enum double_call c) {
    atomic_fetch_add(&dbl.calls[c], 1);
    return atomic_load(&dbl.fail_after[c]) >= 0 && atomic_fetch_sub(&dbl.fail_after[c], 1) == 0;
}

/* ---- the runtime ---- */

void *tidei_host_alloc(tidei_runtime *rt, size_t bytes) {
    (void)rt;
    if (double_fails(CALL_HOST)) return NULL;
    atomic_fetch_add(&dbl.host_blocks, 1);
    return calloc(1, bytes);
}
void tidei_host_free(tidei_runtime *rt, void *p) {
    (void)rt;
    if (p) atomic_fetch_sub(&dbl.host_blocks, 1);
    free(p);
}
tide_status tidei_fail(tide_status s, const char *op, const char *fmt, ...) {
    (void)op, (void)fmt;
    return s;
}
tide_status tidei_fail_host_memory(const char *op, size_t bytes) {
    (void)op, (void)bytes;
    return TIDE_E_HOST_NOMEM;
}
TIDEI_FAST_TLS tide_error tidei_error_record; /* of which none is kept */
void tidei_error_save_text(tidei_saved_error *e) { (void)e; }
uint64_t tidei_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
void tidei_error_restore(const tidei_saved_error *e) { (void)e; }
void tidei_log(tidei_runtime *rt, int level, const char *fmt, ...) {
    (void)rt, (void)level, (void)fmt;
}

size_t tidei_hard_limit(tidei_dev *d) { return atomic_load(&d->budget->limit); }
tide_status tidei_back(tidei_dev *d, size_t bytes) {
    if (dbl.on_back) dbl.on_back(bytes);
    if (double_fails(CALL_BACK)) return TIDE_E_NOMEM;
    pthread_mutex_lock(&dbl.lock);
    size_t backed = atomic_load(&d->budget->backed), limit = atomic_load(&d->budget->limit);
    bool ok = backed <= limit && bytes <= limit - backed;
    if (ok) {
        atomic_fetch_add(&d->budget->backed, bytes);
        dbl.peak = tidei_max_size(dbl.peak, backed + bytes);
    }
    pthread_mutex_unlock(&dbl.lock);
    return ok ? TIDE_OK : TIDE_E_NOMEM;
}
void tidei_unback(tidei_dev *d, size_t bytes) {
    size_t before = atomic_fetch_sub(&d->budget->backed, bytes);
    if (before < bytes) abort();
}

/* Of any kind: there is one budget here. */
tide_status tidei_back_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes) {
    return (void)kind, tidei_back(d, bytes);
}
void tidei_unback_kind(tidei_dev *d, tidei_mem_kind kind, size_t bytes) {
    (void)kind, tidei_unback(d, bytes);
}

void tidei_inflight_growth_begin(tidei_dev *d) {
    atomic_fetch_add(&d->budget->inflight_growth.under_way, 1);
}
void tidei_inflight_growth_end(tidei_dev *d, bool changed) {
    if (changed) atomic_fetch_add(&d->budget->inflight_growth.ended, 1);
    atomic_fetch_sub(&d->budget->inflight_growth.under_way, 1);
}

/* ---- streams and stamps ---- */

/* Nobody waits for the double. */
tide_status tidei_streams_wait_users(tidei_dev *d) { return (void)d, TIDE_E_DEVICE; }

bool tidei_stamp_done(tidei_dev *d, tidei_stamp x) {
    tidei_stream *s = &dbl.streams[x.stream];
    (void)d;
    atomic_fetch_add(&dbl.asks, 1);
    pthread_mutex_lock(&dbl.lock);
    if (dbl.word[x.stream] > atomic_load(&s->completed))
        atomic_store(&s->completed, dbl.word[x.stream]);
    pthread_mutex_unlock(&dbl.lock);
    return x.tick <= atomic_load(&s->completed);
}
bool tidei_stamp_asked(tidei_dev *d, tidei_stamp x) { return tidei_stamp_done(d, x); }
/* The device goes on meanwhile. */
tide_status tidei_stamp_wait(tidei_dev *d, tidei_stamp x) {
    if (double_fails(CALL_WAIT)) return dbl.fail_with;
    if (dbl.on_wait) dbl.on_wait();
    pthread_mutex_lock(&dbl.lock);
    if (x.tick > dbl.word[x.stream]) dbl.word[x.stream] = x.tick;
    pthread_mutex_unlock(&dbl.lock);
    return tidei_stamp_done(d, x) ? TIDE_OK : TIDE_E_DEVICE;
}
bool tidei_stamp_covered(tidei_stream *s, tidei_stamp x) {
    return x.stream == s->slot || x.tick <= atomic_load(&s->seen[x.stream]) ||
           x.tick <= atomic_load(&dbl.streams[x.stream].completed);
}
bool tidei_stamps_covered(tidei_stream *s, tidei_stamps *xs) {
    for (unsigned i = 0; i < xs->n; i++)
        if (!tidei_stamp_covered(s, tidei_stamps_at(xs)[i])) return false;
    return true;
}
void tidei_stamps_clear(tidei_stamps *s) {
    if (s->cap) {
        free(s->more);
        atomic_fetch_sub(&dbl.stamp_blocks, 1);
    }
    *s = (tidei_stamps){0};
}
bool tidei_stamps_grow(tidei_stamps *s, unsigned wanted) {
    if (double_fails(CALL_HOST)) return false;
    tidei_stamp *more = malloc(wanted * sizeof *more);
    memcpy(more, tidei_stamps_at(s), s->n * sizeof *more);
    if (s->cap)
        free(s->more);
    else
        atomic_fetch_add(&dbl.stamp_blocks, 1);
    s->more = more;
    s->cap = (uint16_t)wanted;
    return true;
}
void tidei_stamps_add(tidei_stamps *s, tidei_stamp x) {
    tidei_stamp *at = tidei_stamps_at(s);
    for (unsigned i = 0; i < s->n; i++)
        if (at[i].stream == x.stream && at[i].write == x.write) {
            if (x.tick > at[i].tick) at[i].tick = x.tick;
            return;
        }
    at[s->n++] = x;
}

/* Streams have no half on the device here, which only the pool `driver` asks for: it is not tested
** over doubles. */
tidei_dstream *tidei_stream_hold(tidei_stream *s) { return (void)s, NULL; }
uint64_t tidei_stream_last_tick(tidei_stream *s) {
    return atomic_load_explicit(&s->submitted, memory_order_acquire);
}
void tidei_stream_let_go(tidei_stream *s) { (void)s; }
tidei_stream *tidei_stream_at(tidei_dev *d, unsigned slot) {
    return atomic_load(&d->rt->streams->at[slot]);
}
tidei_stream *tidei_stream_next(tidei_dev *d, unsigned *slot) {
    return *slot < TIDEI_STREAMS_MAX ? tidei_stream_at(d, (*slot)++) : NULL;
}
tide_status tidei_stream_follow(tidei_stream *s, tidei_stream *from, uint64_t tick) {
    return (void)s, (void)from, (void)tick, TIDE_E_UNSUPPORTED;
}
uint64_t tidei_stream_tick(tidei_stream *s) { return atomic_fetch_add(&s->submitted, 1) + 1; }
void tidei_stream_after_work(tidei_stream *s) { (void)s; }

static inline bool all_done(tidei_stamps *s) {
    for (unsigned i = 0; i < s->n; i++)
        if (!tidei_stamp_done(&dbl.dev, tidei_stamps_at(s)[i])) return false;
    return true;
}

/* ---- owners of blocks that may move ---- */

typedef struct double_owner {
    tidei_block *b;
    bool pinned;
    int held;
} double_owner;

static struct {
    bool closed;
    uint64_t tick;          /* of the last move, on any stream */
    long blocks;            /* moved so far */
    long asked;             /* blocks, whether they may move */
    long begins;            /* how often windows were closed */
    bool none_stays;        /* so it is said before blocks are asked */
    long readdressed;       /* blocks that went elsewhere with their pages */
    void (*on_begin)(void); /* (may be NULL) others are at work before windows are closed; once */
    /* (may be NULL) looks at the moves before they happen, m NULL, and at each */
    void (*on_move)(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                    const tidei_move *m, const tidei_piece *place, uint64_t tick);
} movers;

static inline void double_move_begin(tidei_dev *d) {
    (void)d;
    if (movers.closed) abort();
    void (*others)(void) = movers.on_begin;
    movers.on_begin = NULL;
    if (others) others();
    movers.closed = true;
    movers.begins++;
}
static inline void double_move_end(tidei_dev *d) {
    (void)d;
    movers.closed = false;
}
static inline bool double_movable(void *owner) {
    movers.asked++;
    return !((double_owner *)owner)->pinned;
}
static inline bool double_hold(void *owner) {
    double_owner *o = owner;
    if (o->pinned) return false;
    o->held++;
    return true;
}
static inline bool double_some_stay(tidei_pool *p) {
    (void)p;
    return !movers.none_stays;
}
static inline void double_let_go(void *owner) { ((double_owner *)owner)->held--; }

static inline unsigned double_uses(void *owner, tidei_stamp *out) {
    double_owner *o = owner;
    if (!movers.closed || !o->held) abort();
    for (unsigned i = 0; i < o->b->stamps.n; i++) out[i] = tidei_stamps_at(&o->b->stamps)[i];
    return o->b->stamps.n;
}
static inline void double_readdress(void *owner, tidei_addr addr) {
    double_owner *o = owner;
    if (!movers.closed || !o->held || !all_done(&o->b->stamps)) abort();
    o->b->addr = addr;
    movers.readdressed++;
}

/* Moves happen at once, at a tick of s that is not done until the test says so. */
static inline tide_status double_move(tidei_stream *s, const tidei_stamp *pending,
                                      unsigned npending, const tidei_move *moves,
                                      const tidei_piece *places, size_t n, bool apart,
                                      size_t *moved, uint64_t *tick) {
    for (size_t i = 0; apart && i < n * n; i++) { /* as it is said */
        const tidei_piece *to = &places[i / n], *from = &places[i % n];
        if (to->dst < from->src + from->bytes && from->src < to->dst + to->bytes) abort();
    }
    *tick = ++movers.tick;
    if (movers.on_move) movers.on_move(s, pending, npending, NULL, NULL, *tick);
    for (*moved = 0; *moved < n; ++*moved) {
        const tidei_move *m = &moves[*moved];
        const tidei_piece *place = &places[*moved];
        double_owner *o = m->owner;
        if (double_fails(CALL_MOVE)) return TIDE_E_DEVICE;
        if (!movers.closed || !o->held || o->b->addr != place->src || o->b->bytes != place->bytes)
            abort();
        if (movers.on_move) movers.on_move(s, pending, npending, m, place, *tick);
        o->b->addr = place->dst;
        o->b->priv = m->priv;
        tidei_stamps_clear(&o->b->stamps);
        tidei_stamps_add(&o->b->stamps,
                         (tidei_stamp){.tick = *tick, .stream = s->slot, .write = 1});
        movers.blocks++;
    }
    return TIDE_OK;
}
static const tidei_mover double_mover = {.begin = double_move_begin,
                                         .end = double_move_end,
                                         .movable = double_movable,
                                         .hold = double_hold,
                                         .some_stay = double_some_stay,
                                         .let_go = double_let_go,
                                         .uses = double_uses,
                                         .readdress = double_readdress,
                                         .move = double_move};

/* ---- the device ---- */

static tide_status double_reserve(tidei_device *d, size_t bytes, tidei_addr *out) {
    if (double_fails(CALL_RESERVE)) return dbl.fail_with;
    dbl.span = bytes;
    dbl.base = (tidei_addr)1 << 40;
    if (dbl.real)
        dbl.base = (tidei_addr)mmap(NULL, bytes, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    dbl.table = calloc(bytes / d->info.page_bytes, sizeof *dbl.table);
    *out = dbl.base;
    return TIDE_OK;
}
static void double_unreserve(tidei_device *d, tidei_addr addr, size_t bytes) {
    if (addr != dbl.base || bytes != dbl.span) abort();
    for (size_t i = 0; i < bytes / d->info.page_bytes; i++)
        if (dbl.table[i]) abort();
    free(dbl.table);
    if (dbl.real) munmap((void *)(uintptr_t)addr, bytes);
    dbl.span = 0;
}
static tide_status double_page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    if (bytes == 0 || bytes % d->info.page_bytes) abort();
    if (double_fails(CALL_PAGE_NEW)) return dbl.fail_with;
    atomic_fetch_add(&dbl.pages, 1);
    *out = calloc(1, sizeof **out);
    (*out)->bytes = bytes;
    return TIDE_OK;
}
static void double_page_release(tidei_device *d, tidei_dpage *p) {
    (void)d;
    if (p->mapped) abort();
    atomic_fetch_sub(&dbl.pages, 1);
    free(p);
}
/* Sets the table of what is mapped where from `from` to `to`, page by page. */
static void double_remap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n,
                         bool on) {
    for (size_t i = 0; i < n; addr += pages[i++]->bytes) {
        size_t first = (addr - dbl.base) / d->info.page_bytes;
        if (addr < dbl.base || addr + pages[i]->bytes > dbl.base + dbl.span ||
            pages[i]->mapped == on)
            abort();
        for (size_t k = 0; k < pages[i]->bytes / d->info.page_bytes; k++) {
            if (dbl.table[first + k] != (on ? NULL : pages[i])) abort();
            dbl.table[first + k] = on ? pages[i] : NULL;
        }
        pages[i]->mapped = on;
        if (dbl.real)
            mprotect((void *)(uintptr_t)addr, pages[i]->bytes,
                     on ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}
static tide_status double_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                              size_t n) {
    if (double_fails(CALL_MAP)) return dbl.fail_with;
    double_remap(d, addr, pages, n, true);
    return TIDE_OK;
}
static tide_status double_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages,
                                size_t n) {
    if (double_fails(CALL_UNMAP)) return dbl.fail_with;
    double_remap(d, addr, pages, n, false);
    return TIDE_OK;
}
static tide_status double_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                    tidei_addr *out) {
    (void)d, (void)kind;
    if (double_fails(CALL_RAW)) return dbl.fail_with;
    atomic_fetch_add(&dbl.raw_blocks, 1);
    *out = atomic_fetch_add(&dbl.raw_next, tidei_round_up(bytes, TIDEI_MIB));
    return TIDE_OK;
}
static void double_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    (void)d, (void)kind, (void)bytes, (void)addr;
    atomic_fetch_sub(&dbl.raw_blocks, 1);
}

/* Everything as at the start: nothing fails, nothing pending, no limit. */
static tidei_dev *double_open(size_t page_bytes, size_t total) {
    static const struct tidei_device_ops ops = {.name = "double",
                                                .reserve = double_reserve,
                                                .unreserve = double_unreserve,
                                                .page_new = double_page_new,
                                                .page_release = double_page_release,
                                                .map = double_map,
                                                .unmap = double_unmap,
                                                .raw_alloc = double_raw_alloc,
                                                .raw_free = double_raw_free};
    memset(&dbl, 0, sizeof dbl);
    movers.none_stays = false;
    movers.begins = 0;
    pthread_mutex_init(&dbl.lock, NULL);
    for (unsigned c = 0; c < CALLS; c++) dbl.fail_after[c] = -1;
    dbl.fail_with = TIDE_E_DEVICE;
    dbl.raw_next = (tidei_addr)1 << 44;
    dbl.device.ops = &ops;
    dbl.device.info = (tidei_device_info){.name = "double:0",
                                          .flags = TIDEI_DEV_PAGES,
                                          .page_bytes = page_bytes,
                                          .align = 256,
                                          .total_bytes = total,
                                          .va_bytes = 4 * total};
    dbl.dev.rt = &dbl.rt;
    dbl.dev.d = &dbl.device;
    dbl.dev.waits = &dbl.waits;
    dbl.dev.budget = &dbl.budget;
    dbl.dev.pools = &dbl.pools;
    dbl.dev.memory = &dbl.memory;
    dbl.rt.streams = &dbl.all_streams;
    dbl.rt.budget = &dbl.host_budget;
    dbl.dev.budget->limit = dbl.dev.budget->soft_limit = SIZE_MAX;
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++) {
        dbl.streams[i].dev = &dbl.dev;
        dbl.streams[i].slot = (uint16_t)i;
        dbl.rt.streams->at[i] = &dbl.streams[i];
    }
    dbl.rt.streams->n = TIDEI_STREAMS_MAX;
    return &dbl.dev;
}

/* The stream has done all work up to `tick`, though nobody knows yet. */
static inline void double_complete(unsigned stream, uint64_t tick) {
    pthread_mutex_lock(&dbl.lock);
    if (tick > dbl.word[stream]) dbl.word[stream] = tick;
    pthread_mutex_unlock(&dbl.lock);
}

/* ---- a pool in hand, for the tests ---- */

static inline tidei_pool *open_pool(const struct tidei_pool_ops *ops, size_t page_bytes,
                                    size_t total) {
    tidei_pool *p = NULL;
    tidei_dev *d = double_open(page_bytes, total);
    assert_int_equal(ops->open(d, TIDEI_MEM_DEVICE, &p), TIDE_OK);
    return p;
}

static inline tidei_pool_stats figures(tidei_pool *p) {
    tidei_pool_stats s;
    p->ops->stats(p, &s);
    return s;
}

static inline bool balanced(tidei_pool *p) {
    tidei_pool_stats s = figures(p);
    return s.live + s.rounding + s.cached + s.pending == s.backed &&
           s.backed == atomic_load(&p->dev->budget->backed) && p->ops->valid(p);
}

static inline tide_status get(tidei_pool *p, size_t bytes, unsigned stream, unsigned flags,
                              tidei_block *b) {
    return p->ops->alloc(p, bytes, &dbl.streams[stream], flags, b);
}

static inline tidei_block must(tidei_pool *p, size_t bytes, unsigned stream) {
    tidei_block b;
    if (get(p, bytes, stream, 0, &b) != TIDE_OK) fail_msg("no %zu bytes", bytes);
    return b;
}

static inline void used_by(tidei_block *b, unsigned stream, uint64_t tick) {
    assert_true(tidei_stamps_reserve(&b->stamps, 1));
    tidei_stamps_add(&b->stamps,
                     (tidei_stamp){.tick = tick, .stream = (uint16_t)stream, .write = 1});
}

/* Frees after a last use; tick 0: none. */
static inline void put(tidei_pool *p, tidei_block *b, unsigned stream, uint64_t tick) {
    if (tick) used_by(b, stream, tick);
    p->ops->free(p, b);
}

static inline void drop_stamps(tidei_block *b) { tidei_stamps_clear(&b->stamps); }

/* Closes, and nothing may be left anywhere. */
static inline void close_clean(tidei_pool *p) {
    assert_true(balanced(p));
    p->ops->close(p);
    assert_int_equal(dbl.host_blocks, 0);
    assert_int_equal(dbl.stamp_blocks, 0);
    assert_int_equal(dbl.pages, 0);
    assert_int_equal(dbl.raw_blocks, 0);
    assert_int_equal(dbl.dev.budget->backed, 0);
    assert_int_equal(dbl.dev.budget->inflight_growth.under_way, 0);
}

static inline uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static inline void keep_caches(tidei_pool *p, bool on) {
    atomic_store(&p->attrs.caches, on);
    p->ops->changed(p);
}

#endif
