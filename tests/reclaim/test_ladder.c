/* test_ladder.c: the reclaim ladder, rung by rung: each is made to be the one that helps, and is,
** with the bytes that it gave.
**
** A runtime's own half, with doubles where a rung wants something to happen: collectors that let go
** of what the case says, a device whose waits open a gate, a ceiling shared with a neighbour. What
** each rung gave is read from a recording. The request is a block of the pool, and the case may
** look in before each attempt. Then the same with caches that fail, that need memory themselves and
** that start all over. Experiment E14, and what CUDA.jl's ladder gets wrong, are cases of their
** own. */
#include "tests/support/logged.h"
#include "runtime/device/host/host.h"
#include "runtime/pool/pools.h"
#include "tests/support/runtime_half.h"

#define MIB     TIDEI_MIB
#define LIMIT   (8 * MIB)
#define REQUEST (4 * MIB)

/* ---- what a case works with ---- */

enum { PIECES = 128 };
struct scene {
    tidei_runtime *rt, *neighbour;
    tidei_dev *d;
    tidei_storage *keep;  /* half of the limit, for as long as the case goes */
    tidei_storage *other; /* the other half: what the rung gives, until it is let go */
    tidei_storage *pieces[PIECES];
    tidei_stream *stream;
    tidei_user_pool *pool;
    atomic_int gate;
    unsigned minors, fulls; /* collections */
    int lets_go;            /* the level of the collection that lets go of `other`; 0: none does */
    char path[64];          /* of the recording */
};
static struct scene *here; /* the doubles' */

static tidei_storage *taken(struct scene *x, size_t bytes, tidei_stream *s) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(x->d, bytes, s ? s : x->d->stream0, "test", &st));
    return st;
}
static size_t let_go(tidei_storage **st) {
    size_t bytes = *st ? (*st)->bytes : 0;
    if (*st) tidei_storage_release(*st);
    *st = NULL;
    return bytes;
}

/* ---- doubles ---- */

static size_t collect(tidei_runtime *rt, int level, const char *why, bool *ran) {
    (void)rt, (void)why;
    if (ran) *ran = true;
    ++*(level == TIDE_COLLECT_MINOR ? &here->minors : &here->fulls);
    return level == here->lets_go ? let_go(&here->other) : 0;
}
static void ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                tidei_pool *pool) {
    (void)rt, (void)d, (void)where, (void)request, (void)pool;
}
static void discharge(tidei_runtime *rt, uint32_t owner, size_t bytes) {
    (void)rt, (void)owner, (void)bytes;
}
static tide_status attach(tidei_runtime *rt, tidei_thread *t) { return (void)rt, (void)t, TIDE_OK; }
static void leave(tidei_runtime *rt, tidei_thread *t) { (void)rt, (void)t; }
static void blocking(tidei_runtime *rt, void (*fn)(void *), void *arg) { (void)rt, fn(arg); }
static const tidei_gc_ops gc_ops = {.ask = ask,
                                    .collect = collect,
                                    .discharge = discharge,
                                    .thread_attach = attach,
                                    .thread_detach = leave,
                                    .blocking = blocking};

/* A device on which the host's waits open the gate, and whose pages come from a ceiling that a
** neighbour shares. */
static const struct tidei_device_ops *inner;
static struct tidei_device_ops double_ops;
static _Atomic size_t shared;
static size_t ceiling;
static tide_status sync_opens(tidei_device *d, tidei_dstream *s) {
    atomic_store(&here->gate, 1);
    return inner->stream_sync(d, s);
}
static tide_status page_new(tidei_device *d, size_t bytes, tidei_dpage **out) {
    if (atomic_load(&shared) + bytes > ceiling)
        return tidei_fail(TIDE_E_NOMEM, "double", "the ceiling is reached");
    tide_status status = inner->page_new(d, bytes, out);
    if (status == TIDE_OK) atomic_fetch_add(&shared, bytes);
    return status;
}
static void page_release(tidei_device *d, tidei_dpage *p) {
    atomic_fetch_sub(&shared, p->bytes);
    inner->page_release(d, p);
}
static tide_status memory(tidei_device *d, size_t *free_bytes, size_t *total) {
    (void)d;
    *total = ceiling;
    *free_bytes = ceiling - atomic_load(&shared);
    return TIDE_OK;
}

static tidei_runtime *open_double(const char *trace) {
    tide_config c = {.struct_size = sizeof c,
                     .log = keep_line,
                     .log_level = TIDE_LOG_INFO,
                     .trace = trace,
                     .pool = "tide",
                     .limit = trace ? "8MiB" : NULL};
    tidei_device_params p = {.host_device_memory = 64 * MIB, .host_checker = true};
    tidei_device *d;
    tidei_runtime *rt;
    assert_ok(tidei_host_open(&p, &d));
    inner = d->ops;
    double_ops = *inner;
    double_ops.stream_sync = sync_opens;
    double_ops.page_new = page_new;
    double_ops.page_release = page_release;
    double_ops.memory = memory;
    d->ops = &double_ops;
    assert_ok(tidei_runtime_open_on(&c, d, &rt));
    return rt;
}

static void scene_open(struct scene *x) {
    memset(x, 0, sizeof *x);
    logged.n = 0;
    here = x;
    ceiling = 64 * MIB;
    atomic_store(&shared, 0);
    strcpy(x->path, "/tmp/tide_ladder_XXXXXX.csv");
    close(mkstemps(x->path, 4));
    x->rt = open_double(x->path);
    x->rt->gc_ops = &gc_ops;
    x->d = &x->rt->devs[0];
    x->keep = taken(x, LIMIT - REQUEST, NULL);
}
static void half_shut(tidei_runtime *rt) {
    rt->gc_ops = NULL;
    half_close(rt);
}
static void scene_close(struct scene *x) {
    atomic_store(&x->gate, 1);
    let_go(&x->other);
    let_go(&x->keep);
    for (unsigned i = 0; i < PIECES; i++) let_go(&x->pieces[i]);
    if (x->stream) tide_stream_release(x->stream->ref);
    if (x->pool) tide_pool_release(x->pool->ref);
    if (x->neighbour) half_shut(x->neighbour);
    half_shut(x->rt);
}

/* ---- the recording ---- */

enum { RUNGS = 12 };
static const char *const rungs[RUNGS + 1] = {"climb",
                                             "drain",
                                             "settle",
                                             "purge idle caches",
                                             "minor collection",
                                             "steal",
                                             "full collection",
                                             "purge idle handles",
                                             "wait for streams",
                                             "compact",
                                             "trim",
                                             "drop library state",
                                             "ask neighbours"};

struct climbed {
    unsigned climbs, last;   /* rung */
    size_t given[RUNGS + 1]; /* 0: by all */
    unsigned climbed[RUNGS + 1];
};
static void read_climbs(const char *path, struct climbed *out) {
    char line[300];
    unsigned rung;
    size_t bytes;
    FILE *f = fopen(path, "r");
    memset(out, 0, sizeof *out);
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "r,%u,%zu,", &rung, &bytes) == 2) {
            assert_in_range(rung, 0, RUNGS);
            out->given[rung] += bytes;
            out->climbed[rung]++;
            if (rung)
                out->last = rung;
            else
                out->climbs++;
        }
    fclose(f);
    unlink(path);
}

/* One climb, to this rung and no farther, which gave so much, and the ones below it nothing. */
static void assert_helped(const char *path, const char *rung, size_t given) {
    struct climbed c;
    read_climbs(path, &c);
    assert_int_equal(c.climbs, 1);
    assert_string_equal(rungs[c.last], rung);
    for (unsigned i = 1; i < c.last; i++) {
        assert_int_equal(c.climbed[i], 1);
        if (c.given[i]) fail_msg("%s: %s gave %zu", rung, rungs[i], c.given[i]);
    }
    assert_int_equal(c.given[c.last], given);
    assert_int_equal(c.given[0], given);
}

/* ---- caches ---- */

struct cache {
    struct scene *x;
    uint64_t id;
    unsigned purges, drops;
    tidei_storage **idle, **live; /* what purge and drop let go */
    tide_status fails;
    bool reenters, allocates;
};

static tide_status misbehave(struct cache *c) {
    tidei_storage *st;
    if (c->reenters) {
        size_t freed = 1;
        unsigned climbs = (unsigned)atomic_load(&c->x->rt->reclaim->climbs);
        assert_ok(tide_reclaim(c->x->rt->ref, TIDE_RECLAIM_DROP, &freed));
        assert_int_equal(freed, 0);
        assert_int_equal(tidei_storage_new(c->x->d, REQUEST + MIB, c->x->d->stream0, "inside", &st),
                         TIDE_E_NOMEM);
        assert_non_null(strstr(tide_error_last()->message, "out of memory"));
        assert_int_equal(atomic_load(&c->x->rt->reclaim->climbs), climbs);
    }
    if (c->allocates)
        return tidei_storage_new(c->x->d, REQUEST + MIB, c->x->d->stream0, "inside", &st);
    return c->fails;
}
static tide_status purge(void *user, int device, size_t wanted, size_t *given) {
    struct cache *c = user;
    assert_int_equal(device, 0);
    assert_true(wanted > 0 && *given == 0);
    c->purges++;
    if (c->idle) *given = let_go(c->idle);
    return misbehave(c);
}
static tide_status drop(void *user, int device, size_t wanted, size_t *given) {
    struct cache *c = user;
    assert_int_equal(device, 0);
    assert_true(wanted > 0 && *given == 0);
    c->drops++;
    if (c->live) *given = let_go(c->live);
    return misbehave(c);
}
static void enter(struct cache *c, struct scene *x, const char *name, bool dear) {
    c->x = x;
    tide_reclaimable r = {.struct_size = sizeof r,
                          .name = name,
                          .purge = purge,
                          .drop = drop,
                          .user = c,
                          .dear = dear};
    assert_ok(tide_reclaimable_register(x->rt->ref, &r, &c->id));
}
static void forget(struct cache *c) {
    assert_ok(tide_reclaimable_unregister(c->x->rt->ref, c->id));
}

/* ---- one request ---- */

struct request {
    struct scene *x;
    tidei_block block;
    unsigned tries, refused;                     /* flags that it cannot use */
    void (*between)(struct scene *, unsigned n); /* once n attempts have failed */
};
static tide_status attempt(void *arg, unsigned flags) {
    struct request *r = arg;
    tidei_pool *pool = r->x->d->pool;
    tide_status status =
        pool->ops->alloc(pool, REQUEST, r->x->d->stream0, flags & ~r->refused, &r->block);
    r->tries++;
    if (status == TIDE_E_NOMEM && r->between) {
        tidei_saved_error e;
        tidei_error_save(&e);
        r->between(r->x, r->tries);
        tidei_error_restore(&e);
    }
    return status;
}
static tide_status request(struct request *r) {
    return tidei_with_reclaim(r->x->d, REQUEST, "test", attempt, r);
}
static void request_ends(struct request *r) { r->x->d->pool->ops->free(r->x->d->pool, &r->block); }

/* ---- each rung ---- */

static struct cache giver;

static void wait_for_gate(const void *params) {
    const struct work *w = params;
    while (!atomic_load(w->gate)) sched_yield();
}
/* The other half, in use by a stream until the gate opens, and freed before. */
static void pending(struct scene *x) {
    atomic_fetch_and(&x->d->pool->attrs.reuse, ~(unsigned)TIDEI_REUSE_WAIT);
    assert_ok(tidei_stream_open(x->d, &x->stream));
    x->other = taken(x, REQUEST, x->stream);
    const struct work w = {.gate = &x->gate};
    const tidei_use use = {x->other, 0, REQUEST, TIDEI_WRITE};
    tidei_launch l = {
        .name = "gated", .host_fn = wait_for_gate, .params = &w, .params_bytes = sizeof w};
    assert_ok(tidei_submit_launch(x->stream, &use, 1, &l, NULL, NULL, "gated"));
    let_go(&x->other);
}
static void other_half(struct scene *x) { x->other = taken(x, REQUEST, NULL); }

static const tidei_layout vector = {
    .dtype = TIDE_U8, .ndim = 1, .shape = {REQUEST}, .strides = {1}};
static void dies(struct scene *x, unsigned n) {
    if (n != 1) return;
    tidei_header *h =
        tidei_header_new(x->rt, &tidei_thread_get(x->rt)->free_list, x->other, &vector);
    assert_non_null(h);
    h->home = &h->cell;
    h->cell.hidden = ~(uintptr_t)h;
    x->other = NULL;
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
}
static void gets_done(struct scene *x, unsigned n) { /* and nobody asked yet */
    if (n != 2) return;
    atomic_store(&x->gate, 1);
    assert_ok(inner->stream_sync(x->d->d, x->stream->ds));
}
static void cheap(struct scene *x) {
    other_half(x);
    giver.idle = &x->other;
    enter(&giver, x, "giver", false);
}
static void minor(struct scene *x) {
    other_half(x);
    x->lets_go = TIDE_COLLECT_MINOR;
}
static void full(struct scene *x) {
    other_half(x);
    x->lets_go = TIDE_COLLECT_FULL;
}
static void dear(struct scene *x) {
    other_half(x);
    giver.idle = &x->other;
    enter(&giver, x, "giver", true);
}
/* Every second block of half a page is free, and nobody may move the others, so that once it was in
** vain. */
static void scattered(struct scene *x) {
    tidei_storage *free_ones[PIECES];
    let_go(&x->keep);
    for (unsigned i = 0; i < PIECES; i++) {
        x->pieces[i] = taken(x, REQUEST / PIECES, NULL);
        free_ones[i] = taken(x, REQUEST / PIECES, NULL);
        tidei_storage_pin(x->pieces[i]);
    }
    for (unsigned i = 0; i < PIECES; i++) let_go(&free_ones[i]);
}
static void may_move(struct scene *x, unsigned n) {
    for (unsigned i = 0; n == 1 && i < PIECES; i++) tidei_storage_unpin(x->pieces[i]);
}
static void in_another_pool(struct scene *x) {
    tide_pool_config c = {.struct_size = sizeof c};
    tidei_storage *st;
    tide_pool *pool;
    assert_ok(tide_pool_new(x->rt->ref, &c, &pool));
    x->pool = test_user_pool(pool);
    assert_ok(tidei_storage_new_in(x->pool->p, REQUEST, x->d->stream0, "test", &st));
    tidei_storage_release(st);
}
static void state(struct scene *x) {
    other_half(x);
    giver.live = &x->other;
    enter(&giver, x, "giver", false);
}
static void next_door(struct scene *x) {
    tidei_storage *st;
    ceiling = LIMIT;
    x->neighbour = open_double(NULL);
    tidei_dev *d = &x->neighbour->devs[0];
    assert_ok(tidei_storage_new(d, REQUEST, d->stream0, "test", &st));
    tidei_storage_release(st);
}

static const struct rung_case {
    const char *rung;
    void (*setup)(struct scene *x);
    size_t given;
    unsigned refused;
    void (*between)(struct scene *x, unsigned n);
} cases[] = {
    {"drain", other_half, REQUEST, 0, dies},
    {"settle", pending, REQUEST, 0, gets_done},
    {"purge idle caches", cheap, REQUEST, 0, NULL},
    {"minor collection", minor, REQUEST, 0, NULL},
    {"steal", pending, 0, 0, NULL},
    {"full collection", full, REQUEST, 0, NULL},
    {"purge idle handles", dear, REQUEST, 0, NULL},
    {"wait for streams", pending, REQUEST, TIDEI_ALLOC_STEAL, NULL},
    {"compact", scattered, 0, 0, may_move},
    {"trim", in_another_pool, REQUEST, 0, NULL},
    {"drop library state", state, REQUEST, 0, NULL},
    {"ask neighbours", next_door, REQUEST, 0, NULL},
};

/* Memory outside the pools, of which there is none but what lies between blocks: they are moved,
** and pages given back. */
static tide_status counted_outside(void *arg, unsigned flags) {
    struct scene *x = arg;
    (void)flags;
    if (tidei_library_back(x->d, REQUEST - MIB)) return TIDE_OK;
    return tidei_fail(TIDE_E_NOMEM, "test", "beyond the limit");
}
static void compact_helps_who_is_outside(void **unused) {
    struct scene x;
    struct climbed c;
    (void)unused;
    scene_open(&x);
    scattered(&x);
    may_move(&x, 1);
    tide_error_clear();
    assert_ok(tidei_outside_with_reclaim(x.d, REQUEST - MIB, "test", counted_outside, &x));
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_true(tidei_runtime_valid(x.rt));
    tidei_library_unback(x.d, REQUEST - MIB);
    scene_close(&x);
    read_climbs(x.path, &c);
    assert_int_equal(c.climbs, 1);
    assert_string_equal(rungs[c.last], "compact");
    assert_in_range(c.given[c.last], REQUEST - MIB, REQUEST);
    assert_int_equal(c.given[0], c.given[c.last]);
}

static void run_case(const struct rung_case *k, bool among_bad_ones) {
    struct scene x;
    struct cache bad[6] = {{.fails = TIDE_E_DEVICE}, {.reenters = true}, {.allocates = true},
                           {.fails = TIDE_E_DEVICE}, {.reenters = true}, {.allocates = true}};
    scene_open(&x);
    memset(&giver, 0, sizeof giver);
    for (int i = 0; among_bad_ones && i < 3; i++) enter(&bad[i], &x, "bad", i % 2);
    k->setup(&x);
    for (int i = 3; among_bad_ones && i < 6; i++) enter(&bad[i], &x, "bad", i % 2);
    struct request r = {.x = &x, .refused = k->refused, .between = k->between};
    tide_error_clear();
    if (request(&r) != TIDE_OK) fail_msg("%s: %s", k->rung, tide_error_last()->message);
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    request_ends(&r);
    for (int i = 0; among_bad_ones && i < 6; i++) forget(&bad[i]);
    if (giver.id) forget(&giver);
    scene_close(&x);
    assert_helped(x.path, k->rung, k->given);
}

static void each_rung_is_the_one_that_helps(void **unused) {
    (void)unused;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) run_case(&cases[i], false);
}
static void caches_that_fail_or_reenter_stop_no_rung(void **unused) {
    (void)unused;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) run_case(&cases[i], true);
}

/* ---- E14: five caches, one request a case ---- */

enum { IDLE, DEAD_THREADS, LIVE, FAILS, REENTERS, FIVE };
struct five {
    struct scene x;
    struct cache c[FIVE];
    tidei_storage *idle, *live;
};
static void five_open(struct five *f) {
    static const char *const names[] = {"idle", "dead thread's", "live", "failing", "re-entering"};
    memset(f, 0, sizeof *f);
    scene_open(&f->x);
    f->c[IDLE].idle = f->c[DEAD_THREADS].idle = &f->idle;
    f->c[LIVE].live = &f->live;
    f->c[FAILS].fails = TIDE_E_DEVICE;
    f->c[REENTERS].reenters = true;
    for (int i = 0; i < FIVE; i++) enter(&f->c[i], &f->x, names[i], false);
}
static void five_close(struct five *f) {
    for (int i = 0; i < FIVE; i++) forget(&f->c[i]);
    let_go(&f->idle);
    let_go(&f->live);
    scene_close(&f->x);
}
/* The request succeeds; each has been asked so many times. */
static void five_ask(struct five *f, unsigned purges, unsigned drops) {
    struct request r = {.x = &f->x};
    assert_ok(request(&r));
    request_ends(&r);
    for (int i = 0; i < FIVE; i++) {
        assert_int_equal(f->c[i].purges, purges);
        assert_int_equal(f->c[i].drops, drops);
    }
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "failed"), 1);
    assert_int_equal(
        lines_with(TIDE_LOG_WARNING, "of failing failed: it returned TIDE_E_DEVICE (22)"), 1);
}

static void e14_an_idle_cache_is_purged(void **unused) {
    struct five f;
    (void)unused;
    five_open(&f);
    f.idle = taken(&f.x, REQUEST, NULL);
    five_ask(&f, 1, 0);
    assert_int_equal(f.x.minors + f.x.fulls, 0);
    assert_int_equal(atomic_load(&f.x.d->waits->host_waits), 0);
    five_close(&f);
    assert_helped(f.x.path, "purge idle caches", REQUEST);
}

/* The collector finds the wrapper that the thread had, whose finalizer gives the handle back to the
** cache. */
static void finalized(struct scene *x, unsigned n) {
    struct five *f = (struct five *)x;
    if (n < 7 || f->idle) return;
    assert_int_equal(x->fulls, 1);
    f->idle = x->other;
    x->other = NULL;
}
static void e14_a_dead_threads(void **unused) {
    struct five f;
    (void)unused;
    five_open(&f);
    f.x.other = taken(&f.x, REQUEST, NULL);
    struct request r = {.x = &f.x, .between = finalized};
    assert_ok(request(&r));
    request_ends(&r);
    assert_int_equal(f.x.minors, 1);
    assert_int_equal(f.x.fulls, 1);
    for (int i = 0; i < FIVE; i++) assert_int_equal(f.c[i].drops, 0);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "of failing failed"), 1);
    five_close(&f);
    assert_helped(f.x.path, "purge idle handles", REQUEST);
}

/* Dropped, and then its bytes are trimmed: the request takes them from the driver anew. */
static void e14_dropped_memory_is_trimmed_and_taken_anew(void **unused) {
    struct five f;
    (void)unused;
    five_open(&f);
    f.live = taken(&f.x, REQUEST, NULL);
    uint64_t driver_allocs = atomic_load(&f.x.d->budget->driver_allocs);
    five_ask(&f, 3, 1); /* before and after the collections, and after the drop */
    assert_int_equal(f.x.fulls, 2);
    assert_true(atomic_load(&f.x.d->budget->driver_allocs) > driver_allocs);
    five_close(&f);
    assert_helped(f.x.path, "drop library state", REQUEST);
}

static void e14_by_hand(void **unused) {
    struct five f;
    size_t freed;
    (void)unused;
    five_open(&f);
    f.live = taken(&f.x, REQUEST / 2, NULL);
    f.idle = taken(&f.x, MIB, NULL);
    tidei_fail(TIDE_E_SHAPE, "tide_map", "the user's own");
    assert_ok(tide_reclaim(f.x.rt->ref, TIDE_RECLAIM_PURGE, &freed));
    assert_int_equal(freed, MIB);
    assert_int_equal(f.x.fulls, 0);
    assert_int_equal(atomic_load(&f.x.d->waits->host_waits), 0);
    assert_ok(tide_reclaim(f.x.rt->ref, TIDE_RECLAIM_GC, &freed));
    assert_int_equal(freed, 0);
    assert_int_equal(f.x.fulls, 1);
    assert_ok(tide_reclaim(f.x.rt->ref, TIDE_RECLAIM_DROP, &freed));
    assert_int_equal(freed, REQUEST / 2);
    assert_int_equal(f.x.fulls, 2);
    for (int i = 0; i < FIVE; i++) assert_int_equal(f.c[i].drops, 1);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "of failing failed"), 3); /* once each */
    /* a success leaves it alone */
    assert_error(TIDE_E_SHAPE, "the user's own");
    tide_error_clear();
    five_close(&f);
    unlink(f.x.path);
}

struct taker {
    struct scene *x;
    tidei_storage *st;
    tide_status status;
    pthread_barrier_t *start;
};
static void *take_one(void *p) {
    struct taker *t = p;
    pthread_barrier_wait(t->start);
    t->status = tidei_storage_new(t->x->d, REQUEST / 8, t->x->d->stream0, "test", &t->st);
    return NULL;
}
static void e14_eight_threads_climb_once(void **unused) {
    struct five f;
    struct taker t[8];
    pthread_t thread[8];
    pthread_barrier_t start;
    (void)unused;
    five_open(&f);
    f.live = taken(&f.x, REQUEST, NULL);
    pthread_barrier_init(&start, NULL, 8);
    for (int i = 0; i < 8; i++) {
        t[i] = (struct taker){&f.x, NULL, TIDE_OK, &start};
        assert_int_equal(pthread_create(&thread[i], NULL, take_one, &t[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(t[i].status, TIDE_OK);
        tidei_storage_release(t[i].st);
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(atomic_load(&f.x.rt->reclaim->climbs), 1);
    assert_int_equal(f.c[LIVE].drops, 1);
    five_close(&f);
    struct climbed c;
    read_climbs(f.x.path, &c);
    assert_int_equal(c.climbs, 1);
    assert_string_equal(rungs[c.last], "drop library state");
}

/* ---- a real collector finds what a dead thread held ---- */

#if TEST_BOEHM
static struct {
    tidei_runtime *rt;
    tidei_storage *live, *idle;
    unsigned purges, drops;
} worker;
static void handle_returns(void *user) {
    (void)user;
    worker.idle = worker.live;
    worker.live = NULL;
}
static void *work_and_end(void *p) {
    (void)p;
    tide_array *wrapper = tide_zeros(worker.rt->ref, TIDE_U8, SHAPE(1));
    assert_array(wrapper);
    assert_ok(tide_array_on_death(wrapper, handle_returns, NULL));
    tidei_dev *d = &worker.rt->devs[0];
    assert_ok(tidei_storage_new(d, REQUEST, d->stream0, "worker", &worker.live));
    return NULL;
}
static tide_status purge_worker(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted;
    worker.purges++;
    *given = let_go(&worker.idle);
    return TIDE_OK;
}
static tide_status drop_worker(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    worker.drops++;
    return TIDE_OK;
}
static void e14_boehm_finds_a_dead_threads(void **unused) {
    pthread_t thread;
    uint64_t id;
    (void)unused;
    memset(&worker, 0, sizeof worker);
    logged.n = 0;
    worker.rt = test_open_rt(&(tide_config){.device = "host",
                                            .collector = "boehm",
                                            .limit = "6MiB",
                                            .pool = "tide",
                                            .gc_early = TIDE_OFF,
                                            .log = keep_line,
                                            .log_level = TIDE_LOG_INFO});
    const tide_reclaimable r = {.struct_size = sizeof r,
                                .name = "handles",
                                .purge = purge_worker,
                                .drop = drop_worker,
                                .dear = 1};
    assert_ok(tide_reclaimable_register(worker.rt->ref, &r, &id));
    assert_int_equal(pthread_create(&thread, NULL, work_and_end, NULL), 0);
    pthread_join(thread, NULL);
    tidei_storage *st;
    tidei_dev *d = &worker.rt->devs[0];
    assert_ok(tidei_storage_new(d, REQUEST, d->stream0, "test", &st));
    assert_int_equal(worker.purges, 1);
    assert_int_equal(worker.drops, 0);
    assert_int_equal(
        lines_with(TIDE_LOG_INFO, "reclaim: freed 4.000 MiB at rung purge idle handles"), 1);
    tidei_storage_release(st);
    tide_close(worker.rt->ref);
}
#else
static void e14_boehm_finds_a_dead_threads(void **unused) {
    (void)unused;
    skip();
}
#endif

/* ---- what ladders get wrong elsewhere ---- */

/* A wait of the ladder's may meet with what a kernel reported, or fail: that is no failure of the
** allocation, and the report is told at the next sync point. */
static void what_kernels_report_is_not_the_allocations(void **unused) {
    (void)unused;
    tidei_runtime *rt = test_open_rt(&(tide_config){
        .device = "host", .collector = "refcount", .limit = "6MiB", .spill = TIDE_OFF});
    tide_array *a = tide_arange(rt->ref, TIDE_I32, 0, 10, 1),
               *i = tide_full(rt->ref, TIDE_I32, SHAPE(1), tide_arg_int(10));
    tide_array *out = tide_take(a, i, 0);
    assert_array(out);
    assert_null(tide_zeros(rt->ref, TIDE_U8, SHAPE(6 * MIB))); /* to the last rung */
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_int_equal(test_stats(rt->ref).climbs, 1);
    tide_error_clear();
    assert_int_equal(tide_synchronize(rt->ref, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "index 10 is out of range");
    tide_release(a);
    tide_release(i);
    tide_release(out);
    tide_close(rt->ref);
}

static tide_status sync_fails(tidei_device *d, tidei_dstream *s) {
    (void)d, (void)s;
    return tidei_fail(TIDE_E_DEVICE, "double", "no wait today");
}
static void a_wait_that_fails_ends_no_climb(void **unused) {
    struct scene x;
    (void)unused;
    scene_open(&x);
    memset(&giver, 0, sizeof giver);
    state(&x);
    double_ops.stream_sync = sync_fails;
    struct request r = {.x = &x};
    assert_ok(request(&r));
    double_ops.stream_sync = sync_opens;
    request_ends(&r);
    forget(&giver);
    scene_close(&x);
    assert_helped(x.path, "drop library state", REQUEST);
}

/* A thread's state goes though the thread is not there: it is pending for good. */
struct pending {
    struct scene *x;
    struct cache c;
    tidei_storage *st;
    pthread_barrier_t *both;
};
static void *park(void *p) {
    struct pending *w = p;
    w->st = taken(w->x, REQUEST, NULL);
    w->c.live = &w->st;
    enter(&w->c, w->x, "worker's", false);
    pthread_barrier_wait(w->both);
    pthread_barrier_wait(w->both);
    return NULL;
}
static void a_parked_threads_state_goes(void **unused) {
    struct scene x;
    pthread_t thread;
    pthread_barrier_t both;
    (void)unused;
    scene_open(&x);
    pthread_barrier_init(&both, NULL, 2);
    struct pending w = {.x = &x, .both = &both};
    assert_int_equal(pthread_create(&thread, NULL, park, &w), 0);
    pthread_barrier_wait(&both);
    struct request r = {.x = &x};
    assert_ok(request(&r));
    request_ends(&r);
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both);
    forget(&w.c);
    scene_close(&x);
    assert_helped(x.path, "drop library state", REQUEST);
}

/* The report has all rungs in their order, the last one whole. */
static void the_report_has_all_rungs(void **unused) {
    struct scene x;
    tidei_storage *st;
    char list[600] = "given by rung: ";
    (void)unused;
    scene_open(&x);
    for (unsigned i = 1; i <= RUNGS; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s 0 bytes", i > 1 ? ", " : "",
                 rungs[i]);
    assert_int_equal(tidei_storage_new(x.d, REQUEST + 1, x.d->stream0, "test", &st), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, list);
    tide_error_clear();
    scene_close(&x);
    unlink(x.path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rung_is_the_one_that_helps),
        cmocka_unit_test(compact_helps_who_is_outside),
        cmocka_unit_test(caches_that_fail_or_reenter_stop_no_rung),
        cmocka_unit_test(the_report_has_all_rungs),
        cmocka_unit_test(e14_an_idle_cache_is_purged),
        cmocka_unit_test(e14_a_dead_threads),
        cmocka_unit_test(e14_dropped_memory_is_trimmed_and_taken_anew),
        cmocka_unit_test(e14_by_hand),
        cmocka_unit_test(e14_eight_threads_climb_once),
        cmocka_unit_test(e14_boehm_finds_a_dead_threads),
        cmocka_unit_test(what_kernels_report_is_not_the_allocations),
        cmocka_unit_test(a_wait_that_fails_ends_no_climb),
        cmocka_unit_test(a_parked_threads_state_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
