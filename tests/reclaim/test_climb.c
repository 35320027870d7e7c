/* test_climb.c: the ladder: which rung helps, when it stops, who leads, what the report says. */
#include "tests/support/runtime_half.h"

#define MIB TIDEI_MIB

/* ---- a collector's floor of our own: `collect` lets go of what the test says ---- */

static struct {
    tidei_storage *garbage[8]; /* released by a full collection */
    int n, minors, fulls;
    tidei_runtime *reenter; /* asks for memory from inside the collection */
    tide_status inside;
} gc;

static size_t collect(tidei_runtime *rt, int level, const char *why, bool *ran) {
    (void)why;
    size_t before = atomic_load(&rt->devs[0].budget->live);
    if (ran) *ran = level == TIDE_COLLECT_FULL;
    if (level == TIDE_COLLECT_MINOR) return gc.minors++, (size_t)0;
    gc.fulls++;
    if (gc.reenter) {
        tidei_storage *st;
        gc.inside = tidei_storage_new(&rt->devs[0], 4 * MIB, rt->devs[0].stream0, "inside", &st);
        if (gc.inside == TIDE_OK) tidei_storage_release(st);
    }
    while (gc.n) tidei_storage_release(gc.garbage[--gc.n]);
    return before - atomic_load(&rt->devs[0].budget->live);
}
static void ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                tidei_pool *pool) {
    (void)rt, (void)d, (void)where, (void)request, (void)pool;
}
static tide_status attach(tidei_runtime *rt, tidei_thread *t) { return (void)rt, (void)t, TIDE_OK; }
static void leave(tidei_runtime *rt, tidei_thread *t) { (void)rt, (void)t; }
static void blocking(tidei_runtime *rt, void (*fn)(void *), void *arg) { (void)rt, fn(arg); }
#define UNREACHED "the Lua state of the editor, the interpreter of its plugins"
static size_t unreached(tidei_runtime *rt, char *buf, size_t cap) {
    return (void)rt, (size_t)snprintf(buf, cap, UNREACHED);
}
static const tidei_gc_ops gc_ops = {.ask = ask,
                                    .collect = collect,
                                    .thread_attach = attach,
                                    .thread_detach = leave,
                                    .blocking = blocking,
                                    .unreached = unreached};

static char lines[16][300];
static int nlines;
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static void keep_line(void *user, int level, const char *line) {
    (void)user, (void)level;
    pthread_mutex_lock(&lines_lock);
    if (nlines < 16) snprintf(lines[nlines++], sizeof lines[0], "%s", line);
    pthread_mutex_unlock(&lines_lock);
}
static int logged(const char *part) {
    int n = 0;
    for (int i = 0; i < nlines; i++) n += strstr(lines[i], part) != NULL;
    return n;
}

static tidei_runtime *open_limited(size_t limit) {
    tide_config c = {.struct_size = sizeof c, .log = keep_line, .log_level = TIDE_LOG_INFO};
    tidei_runtime *rt = half_open(&c, 64 * MIB);
    memset(&gc, 0, sizeof gc);
    nlines = 0;
    rt->gc_ops = &gc_ops;
    assert_ok(tide_device_set_limit(rt->ref, limit));
    return rt;
}
static tide_status take(tidei_runtime *rt, tidei_stream *s, size_t bytes, tidei_storage **st) {
    return tidei_storage_new(&rt->devs[0], bytes, s ? s : rt->devs[0].stream0, "tide_add", st);
}
static void close_checked(tidei_runtime *rt) {
    rt->gc_ops = NULL;
    half_close(rt);
}

/* ---- */

/* Nothing is climbed while the pool can grow or reuse. */
static void no_climb_without_need(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    tidei_storage *st;
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_ok(take(rt, NULL, 7 * MIB, &st));
        tidei_storage_release(st);
    }
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 0);
    close_checked(rt);
}

static void a_full_collection_helps(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    tidei_storage *st;
    (void)state;
    for (int i = 0; i < 4; i++) assert_ok(take(rt, NULL, 2 * MIB, &gc.garbage[gc.n++]));
    /* a success leaves an earlier error alone */
    tidei_fail(TIDE_E_SHAPE, "tide_map", "the user's own");
    assert_ok(take(rt, NULL, 6 * MIB, &st));
    assert_error(TIDE_E_SHAPE, "the user's own");
    tide_error_clear();
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 1);
    assert_int_equal(gc.minors, 1);
    assert_int_equal(gc.fulls, 1);
    assert_int_equal(logged("reclaim: freed 8.000 MiB at rung full collection"), 1);
    assert_int_equal(atomic_load(&rt->reclaim->reclaimed), 8 * MIB);
    assert_true(atomic_load(&rt->devs[0].budget->peak_backed) <= 8 * MIB);
    tidei_storage_release(st);
    close_checked(rt);
}

/* Memory whose last use is pending on another stream: where the pool is not to hand it out by
** itself the steal rung does, else no rung is climbed; the first use waits on the device. */
static void stealing_comes_before_collecting(void **state) {
    (void)state;
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        tidei_runtime *rt = open_limited(4 * MIB);
        tidei_stream *other;
        tidei_storage *st;
        atomic_int gate = 0;
        if (!by_itself)
            atomic_fetch_and(&rt->devs[0].pool->attrs.reuse, ~(unsigned)TIDEI_REUSE_WAIT);
        assert_ok(tidei_stream_open(&rt->devs[0], &other));
        assert_ok(take(rt, other, 4 * MIB, &st));
        assert_ok(submit_work(other, st, NULL, 1, &gate));
        tidei_storage_release(st);
        assert_ok(take(rt, NULL, 4 * MIB, &st));
        assert_int_equal(gc.fulls, 0);
        assert_int_equal(gc.minors, !by_itself);
        assert_int_equal(atomic_load(&rt->reclaim->climbs), !by_itself);
        assert_int_equal(atomic_load(&rt->devs[0].waits->host_waits), 0);
        assert_int_equal(logged("at rung steal"), !by_itself);
        assert_ok(submit_work(rt->devs[0].stream0, st, NULL, 2, NULL));
        assert_int_equal(atomic_load(&rt->devs[0].waits->device_waits), 1);
        atomic_store(&gate, 1);
        assert_int_equal(first_byte(st), 2);
        tidei_storage_release(st);
        close_checked(rt);
    }
}

/* What another thread has taken from the queue of the dead, and not yet returned, is waited for: no
** rung would find it. */
static struct {
    tidei_runtime *rt;
    tidei_storage *st;
    atomic_int taken;
} drained;
static void *drain_slowly(void *p) { /* the steps of a drain, with the climb in between */
    tidei_thread *t = tidei_thread_get(drained.rt);
    (void)p;
    atomic_store(&t->finishing, 1);
    atomic_store(&drained.taken, 1);
    while (!atomic_load(&drained.rt->reclaim->climbs)) sched_yield();
    usleep(20000); /* a climb that does not wait is over by then */
    tidei_storage_release(drained.st);
    atomic_store(&t->finishing, 2);
    return NULL;
}
static void another_threads_drain_is_waited_for(void **state) {
    tidei_runtime *rt = open_limited(4 * MIB);
    tidei_storage *st;
    pthread_t other;
    (void)state;
    drained.rt = rt;
    assert_ok(take(rt, NULL, 4 * MIB, &drained.st));
    assert_int_equal(pthread_create(&other, NULL, drain_slowly, NULL), 0);
    while (!atomic_load(&drained.taken)) sched_yield();
    assert_ok(take(rt, NULL, 4 * MIB, &st));
    pthread_join(other, NULL);
    tidei_storage_release(st);
    close_checked(rt);
}

/* What another thread is giving back counts until the driver has it, and no rung would find it: it
** is waited for. */
static struct {
    tidei_runtime *rt;
    tidei_storage *st;
    const struct tidei_device_ops *ops; /* the device's own */
    _Atomic pthread_t slow;             /* the thread whose calls take long */
    atomic_int entered;
} transit;

static void dawdle(void) {
    if (!pthread_equal(pthread_self(), atomic_load(&transit.slow))) return;
    atomic_store(&transit.entered, 1);
    for (int i = 0; i < 2000 && !atomic_load(&transit.rt->reclaim->climbs); i++) usleep(100);
    usleep(20000); /* a climb that does not wait is over by then */
}
static tide_status slow_unmap(tidei_device *d, tidei_addr a, tidei_dpage *const *pages, size_t n) {
    dawdle();
    return transit.ops->unmap(d, a, pages, n);
}
static void slow_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr a, size_t bytes) {
    dawdle();
    transit.ops->raw_free(d, kind, a, bytes);
}
static tide_status slow_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep) {
    dawdle();
    return transit.ops->mempool_trim(d, mp, keep);
}
static void *give_back_slowly(void *p) {
    tidei_pool *pool = transit.rt->devs[0].pool;
    (void)p;
    atomic_store(&transit.slow, pthread_self());
    tidei_storage_release(transit.st);
    pool->ops->trim(pool, 0);
    atomic_store(&transit.entered, 1);
    return NULL;
}

static void what_is_on_its_way_back_is_waited_for(void **state) {
    (void)state;
    for (unsigned i = 0; i < TEST_POOLS; i++) {
        tide_config c = {.struct_size = sizeof c, .log = keep_line, .pool = test_pool(i)};
        tidei_runtime *rt = half_open(&c, 64 * MIB);
        tidei_device *d = rt->devs[0].d;
        struct tidei_device_ops slow = *d->ops;
        pthread_t other;
        tidei_storage *st;
        assert_ok(tide_device_set_limit(rt->ref, 40 * MIB));
        assert_ok(take(rt, NULL, 36 * MIB, &transit.st));
        transit.rt = rt;
        transit.ops = d->ops;
        atomic_store(&transit.entered, 0);
        slow.unmap = slow_unmap;
        slow.raw_free = slow_raw_free;
        slow.mempool_trim = slow_mempool_trim;
        d->ops = &slow;
        assert_int_equal(pthread_create(&other, NULL, give_back_slowly, NULL), 0);
        while (!atomic_load(&transit.entered)) sched_yield();
        if (take(rt, NULL, 36 * MIB, &st) != TIDE_OK)
            fail_msg("%s: %s", c.pool, tide_error_last()->message);
        pthread_join(other, NULL);
        d->ops = transit.ops;
        tidei_storage_release(st);
        half_close(rt);
    }
}

/* ---- reclaimables ---- */

struct cache {
    tidei_runtime *rt;
    tidei_storage *idle, *live; /* what purge and drop let go */
    int purges, drops;
    bool fails, reenters;
};
static size_t let_go(tidei_storage **st) {
    size_t bytes = *st ? (*st)->bytes : 0;
    if (*st) tidei_storage_release(*st);
    *st = NULL;
    return bytes;
}
static size_t purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    struct cache *c = self;
    (void)d, (void)wanted;
    c->purges++;
    if (c->fails) {
        *failed = true;
        tidei_fail(TIDE_E_DEVICE, "purge", "the handle would not go");
        return 0;
    }
    if (c->reenters) {
        tidei_storage *st;
        assert_int_equal(tide_reclaim(c->rt->ref, TIDE_RECLAIM_DROP, NULL), TIDE_OK);
        assert_int_equal(take(c->rt, NULL, 60 * MIB, &st), TIDE_E_NOMEM);
    }
    return let_go(&c->idle);
}
static size_t drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    struct cache *c = self;
    (void)d, (void)wanted, (void)failed;
    c->drops++;
    return let_go(&c->live);
}
static tidei_reclaimable entry(struct cache *c, const char *name) {
    return (tidei_reclaimable){.name = name, .purge = purge, .drop = drop, .self = c};
}

static void purge_then_drop(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    struct cache c = {.rt = rt};
    tidei_reclaimable r = entry(&c, "handles");
    tidei_storage *st;
    (void)state;
    tidei_reclaimable_register(rt, &r);
    assert_ok(take(rt, NULL, 3 * MIB, &c.live));
    assert_ok(take(rt, NULL, 3 * MIB, &c.idle));
    assert_ok(take(rt, NULL, 4 * MIB, &st)); /* idle handles suffice */
    assert_int_equal(c.purges, 1);
    assert_int_equal(c.drops, 0);
    assert_int_equal(logged("at rung purge idle handles"), 1);
    tidei_storage_release(st);
    assert_ok(take(rt, NULL, 7 * MIB, &st)); /* live state has to go */
    assert_int_equal(c.drops, 1);
    assert_int_equal(logged("at rung drop library state"), 1);
    tidei_storage_release(st);
    tidei_reclaimable_unregister(rt, &r);
    assert_ok(tide_reclaim(rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(c.drops, 1);
    close_checked(rt);
}

static void one_that_fails_or_reenters_does_not_stop_the_rest(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    struct cache c[3] = {{.rt = rt}, {.rt = rt, .reenters = true}, {.rt = rt, .fails = true}};
    tidei_reclaimable r[3];
    tidei_storage *st;
    (void)state;
    for (int i = 0; i < 3; i++) {
        r[i] = entry(&c[i], i == 2 ? "stubborn" : "other");
        tidei_reclaimable_register(rt, &r[i]);
    }
    assert_ok(take(rt, NULL, 6 * MIB, &c[0].idle)); /* the last to be called */
    assert_ok(take(rt, NULL, 6 * MIB, &st));
    for (int i = 0; i < 3; i++) assert_int_equal(c[i].purges, 1);
    assert_int_equal(logged("purge of stubborn failed: the handle would not go"), 1);
    tidei_storage_release(st);
    for (int i = 0; i < 3; i++) tidei_reclaimable_unregister(rt, &r[i]);
    close_checked(rt);
}

/* Two rounds at the same time: each reaches every entry. */
struct rounds {
    tidei_runtime *rt;
    int dropped;
};
static void *purge_all(void *p) {
    assert_ok(tide_reclaim(((struct rounds *)p)->rt->ref, TIDE_RECLAIM_PURGE, NULL));
    return NULL;
}
static size_t drop_while_others_purge(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    pthread_t t;
    (void)d, (void)wanted, (void)failed;
    pthread_create(&t, NULL, purge_all, self);
    pthread_join(t, NULL);
    return 0;
}
static size_t count_drop(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    (void)d, (void)wanted, (void)failed;
    ((struct rounds *)self)->dropped++;
    return 0;
}
static void rounds_do_not_hide_entries(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    struct rounds x = {.rt = rt};
    tidei_reclaimable first = {.name = "first", .drop = count_drop, .self = &x},
                      second = {.name = "second", .drop = drop_while_others_purge, .self = &x},
                      third = {.name = "third", .drop = count_drop, .self = &x};
    (void)state;
    tidei_reclaimable_register(rt, &first);
    tidei_reclaimable_register(rt, &second);
    tidei_reclaimable_register(rt, &third);
    assert_ok(tide_reclaim(rt->ref, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(x.dropped, 2);
    tidei_reclaimable_unregister(rt, &first);
    tidei_reclaimable_unregister(rt, &second);
    tidei_reclaimable_unregister(rt, &third);
    close_checked(rt);
}

/* ---- never from inside itself ---- */

static void not_from_inside_a_collection(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    tidei_storage *st;
    (void)state;
    for (int i = 0; i < 4; i++) assert_ok(take(rt, NULL, 2 * MIB, &gc.garbage[gc.n++]));
    gc.reenter = rt;
    assert_ok(take(rt, NULL, 6 * MIB, &st));
    assert_int_equal(gc.inside, TIDE_E_NOMEM);
    assert_int_equal(gc.fulls, 1);
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 1);
    tidei_storage_release(st);
    close_checked(rt);
}

/* ---- single-flight ---- */

struct taker {
    tidei_runtime *rt;
    tidei_stream *s;
    tidei_storage *st;
    tide_status status;
    pthread_barrier_t *start;
};
static void *take_one(void *p) {
    struct taker *t = p;
    pthread_barrier_wait(t->start);
    t->status = take(t->rt, t->s, MIB, &t->st);
    return NULL;
}
static void eight_threads_climb_once(void **state) {
    tidei_runtime *rt = open_limited(16 * MIB);
    struct taker t[8];
    pthread_t thread[8];
    pthread_barrier_t start;
    (void)state;
    for (int i = 0; i < 8; i++) assert_ok(take(rt, NULL, 2 * MIB, &gc.garbage[gc.n++]));
    pthread_barrier_init(&start, NULL, 8);
    for (int i = 0; i < 8; i++) {
        t[i] = (struct taker){rt, rt->devs[0].stream0, NULL, TIDE_OK, &start};
        pthread_create(&thread[i], NULL, take_one, &t[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(t[i].status, TIDE_OK);
        tidei_storage_release(t[i].st);
    }
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 1);
    assert_int_equal(gc.fulls, 1);
    pthread_barrier_destroy(&start);
    close_checked(rt);
}

/* Gives a block at the last rung, and takes it again at once the first time, as another thread
** would. */
struct thief {
    tidei_block block;
    unsigned steals;
};
static size_t steal_from(void *self, tidei_dev *d, size_t wanted, bool *failed) {
    struct thief *r = self;
    (void)wanted, (void)failed;
    d->pool->ops->free(d->pool, &r->block);
    if (!r->steals) return 4 * MIB;
    r->steals--;
    assert_ok(d->pool->ops->alloc(d->pool, 4 * MIB, d->stream0, 0, &r->block));
    return 4 * MIB;
}

static void a_climber_whose_memory_was_stolen_climbs_again(void **state) {
    tidei_runtime *rt = open_limited(16 * MIB);
    tidei_dev *d = &rt->devs[0];
    struct thief thief = {.steals = 1};
    tidei_reclaimable r = {.name = "robber", .self = &thief, .drop = steal_from};
    tidei_storage *st, *more;
    (void)state;
    assert_ok(take(rt, NULL, 12 * MIB, &st));
    assert_ok(d->pool->ops->alloc(d->pool, 4 * MIB, d->stream0, 0, &thief.block));
    tidei_reclaimable_register(rt, &r);
    assert_ok(take(rt, NULL, 4 * MIB, &more));
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 2);
    tidei_reclaimable_unregister(rt, &r);
    tidei_storage_release(st);
    tidei_storage_release(more);
    close_checked(rt);
}

/* ---- the report ---- */

static void the_report_names_everything(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    tidei_storage *st, *more;
    (void)state;
    assert_ok(take(rt, NULL, 5 * MIB, &st));
    assert_int_equal(take(rt, NULL, 6 * MIB, &more), TIDE_E_NOMEM);
    const char *m = tide_error_last()->message;
    static const char *const parts[] = {"out of memory on host:0",
                                        "6.000 MiB wanted by tide_add",
                                        "total 64.000 MiB",
                                        "free on the device",
                                        "limit 8.000 MiB",
                                        "live 5.000 MiB",
                                        "cached",
                                        "pending",
                                        "reserved 5.000 MiB",
                                        "library state 0 bytes",
                                        "given by rung: drain 0 bytes",
                                        "full collection 0 bytes",
                                        "drop library state 0 bytes",
                                        "collectors not reached: " UNREACHED,
                                        "remedy: a limit of 11.000 MiB or more"};
    for (size_t i = 0; i < TIDEI_COUNT(parts); i++)
        if (!strstr(m, parts[i])) fail_msg("\"%s\" is not in: %s", parts[i], m);
    assert_string_equal(tide_error_last()->operation, "tide_add");
    assert_true(tidei_runtime_valid(rt));
    tidei_storage_release(st);
    assert_ok(take(rt, NULL, 6 * MIB, &more)); /* nothing was lost */
    tidei_storage_release(more);
    close_checked(rt);
}

/* Small arrays lose much to rounding: with the limit that the report names, and no less, one more
** fits. */
static void the_remedy_is_one(void **state) {
    tidei_runtime *rt = open_limited(MIB);
    tidei_dev *d = &rt->devs[0];
    enum { MOST = 4200 };
    tidei_storage *st[MOST];
    int n = 0;
    (void)state;
    atomic_store(&d->budget->library, 100); /* counts too */
    while (n < MOST && take(rt, NULL, 257, &st[n]) == TIDE_OK) n++;
    assert_true(n < MOST);
    const char *m = strstr(tide_error_last()->message, "or more (");
    assert_non_null(m);
    size_t limit = strtoul(strchr(m, '(') + 1, NULL, 10);
    assert_true(limit > atomic_load(&d->budget->limit));
    assert_ok(tide_device_set_limit(rt->ref, limit));
    assert_ok(take(rt, NULL, 257, &st[n++]));
    while (n) tidei_storage_release(st[--n]);
    atomic_store(&d->budget->library, 0);
    close_checked(rt);
}

/* No rung can help: the report comes at once, and nothing is collected for it. */
static void absurd_requests_fail_at_once(void **state) {
    tidei_runtime *rt = open_limited(8 * MIB);
    static const size_t sizes[] = {9 * MIB, 65 * MIB, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX};
    tidei_storage *st;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        assert_int_equal(take(rt, NULL, sizes[i], &st), TIDE_E_NOMEM);
        assert_non_null(strstr(tide_error_last()->message, "out of memory"));
    }
    assert_non_null(strstr(tide_error_last()->message, "the device has less than that in all"));
    assert_int_equal(gc.fulls, 0);
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 0);
    assert_int_equal(atomic_load(&rt->devs[0].budget->backed), 0);
    close_checked(rt);
}

/* ---- limits ---- */

static void the_soft_limit_purges(void **state) {
    tidei_runtime *rt = open_limited(32 * MIB);
    struct cache cheap = {.rt = rt}, dear = {.rt = rt};
    tidei_reclaimable r[2] = {entry(&cheap, "cache"), entry(&dear, "handles")};
    tidei_storage *a, *b;
    (void)state;
    r[0].cheap = true;
    assert_ok(tide_device_set_soft_limit(rt->ref, 8 * MIB));
    for (int i = 0; i < 2; i++) tidei_reclaimable_register(rt, &r[i]);
    assert_ok(take(rt, NULL, 6 * MIB, &a));
    assert_int_equal(cheap.purges, 0);
    assert_ok(
        /* beyond it: idle memory goes first, then the pool grows all the same */
        take(rt, NULL, 6 * MIB, &b));
    assert_int_equal(cheap.purges, 1);
    assert_int_equal(dear.purges, 0); /* letting go waits */
    assert_int_equal(cheap.drops + dear.drops, 0);
    assert_int_equal(gc.minors + gc.fulls, 0);
    assert_int_equal(atomic_load(&rt->devs[0].waits->host_waits), 0);
    assert_int_equal(atomic_load(&rt->reclaim->climbs), 0);
    tidei_storage_release(a);
    tidei_storage_release(b);
    for (int i = 0; i < 2; i++) tidei_reclaimable_unregister(rt, &r[i]);
    close_checked(rt);
}

/* Only what memory can mend is tried again. */
static tide_status fail_to(void *arg, unsigned flags) {
    (void)flags;
    ++*(int *)arg;
    return tidei_fail(TIDE_E_DEVICE, "test", "no");
}
static void other_failures_end_the_climb(void **state) {
    tidei_runtime *rt = open_limited(32 * MIB);
    int tried = 0;
    (void)state;
    assert_int_equal(tidei_with_reclaim(&rt->devs[0], MIB, "test", fail_to, &tried), TIDE_E_DEVICE);
    assert_int_equal(tried, 1);
    assert_ok(tide_device_set_soft_limit(rt->ref, 0));
    assert_int_equal(tidei_with_reclaim(&rt->devs[0], MIB, "test", fail_to, &tried), TIDE_E_DEVICE);
    assert_int_equal(tried, 2);
    close_checked(rt);
}

static void limits_change_at_run_time(void **state) {
    tidei_runtime *rt = open_limited(SIZE_MAX);
    tidei_storage *a, *b;
    (void)state;
    assert_ok(take(rt, NULL, 4 * MIB, &a));
    assert_ok(take(rt, NULL, 4 * MIB, &b));
    tidei_storage_release(b);
    assert_ok(tide_device_set_limit(rt->ref, 5 * MIB)); /* cached memory is given back for it */
    assert_true(atomic_load(&rt->devs[0].budget->backed) <= 5 * MIB);
    assert_int_equal(tide_device_set_limit(rt->ref, 3 * MIB), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "below what host:0 needs");
    assert_int_equal(atomic_load(&rt->devs[0].budget->limit), 5 * MIB);
    assert_ok(tide_device_set_limit(rt->ref, 4 * MIB + 1)); /* rounded up to a page of 64 KiB */
    assert_int_equal(atomic_load(&rt->devs[0].budget->limit), 4 * MIB + 64 * TIDEI_KIB);
    tidei_storage_release(a);
    close_checked(rt);
}

/* What is free in parts of pages goes for it too: of 5 MiB, 2.5 live and a page more. */
static void a_limit_is_lowered_onto_parts_of_pages(void **state) {
    (void)state;
    enum { BLOCK = 20 * TIDEI_KIB, BLOCKS = 5 * MIB / BLOCK };
    static tidei_storage *st[BLOCKS];
    tide_config c = {.struct_size = sizeof c, .pool = "tide", .limit = "5MiB"};
    tidei_runtime *rt = half_open(&c, 64 * MIB);
    tidei_dev *d = &rt->devs[0];
    d->pool->mover = &tidei_storage_mover;
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tidei_storage_new(d, BLOCK, d->stream0, "test", &st[i]));
    for (int i = 0; i < BLOCKS; i += 2) tidei_storage_release(st[i]), st[i] = NULL;
    for (int i = 1; i < BLOCKS; i += 4) tidei_storage_pin(st[i]);
    assert_int_equal(tide_device_set_limit(rt->ref, 5 * MIB / 2 + 128 * TIDEI_KIB), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "is below what");
    for (int i = 1; i < BLOCKS; i += 4) tidei_storage_unpin(st[i]);
    tide_error_clear();
    assert_ok(tide_device_set_limit(rt->ref, 5 * MIB / 2 + 128 * TIDEI_KIB));
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_true(atomic_load(&d->budget->backed) <= 5 * MIB / 2 + 128 * TIDEI_KIB);
    for (int i = 1; i < BLOCKS; i += 2) tidei_storage_release(st[i]);
    half_close(rt);
}

static void levels_of_reclaim(void **state) {
    tidei_runtime *rt = open_limited(SIZE_MAX);
    tidei_storage *st;
    atomic_int gate = 1;
    size_t freed;
    (void)state;
    assert_ok(take(rt, NULL, 4 * MIB, &st));
    tidei_storage_release(st);
    assert_ok(tide_reclaim(rt->ref, TIDE_RECLAIM_PURGE, &freed));
    assert_int_equal(freed, 4 * MIB);
    assert_ok(take(rt, NULL, 4 * MIB, &st));
    assert_ok(submit_work(rt->devs[0].stream0, st, NULL, 1, &gate));
    tidei_storage_release(st);
    assert_ok(tide_reclaim(rt->ref, TIDE_RECLAIM_SYNC, &freed));
    assert_int_equal(freed, 4 * MIB);
    assert_int_equal(gc.fulls, 0);
    assert_ok(take(rt, NULL, 4 * MIB, &gc.garbage[gc.n++]));
    assert_ok(tide_reclaim(rt->ref, TIDE_RECLAIM_GC, &freed));
    assert_int_equal(freed, 4 * MIB);
    assert_int_equal(atomic_load(&rt->devs[0].budget->backed), 0);
    assert_int_equal(tide_reclaim(rt->ref, 9, &freed), TIDE_E_INVALID);
    close_checked(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_climb_without_need),
        cmocka_unit_test(a_full_collection_helps),
        cmocka_unit_test(stealing_comes_before_collecting),
        cmocka_unit_test(another_threads_drain_is_waited_for),
        cmocka_unit_test(what_is_on_its_way_back_is_waited_for),
        cmocka_unit_test(purge_then_drop),
        cmocka_unit_test(one_that_fails_or_reenters_does_not_stop_the_rest),
        cmocka_unit_test(rounds_do_not_hide_entries),
        cmocka_unit_test(not_from_inside_a_collection),
        cmocka_unit_test(eight_threads_climb_once),
        cmocka_unit_test(a_climber_whose_memory_was_stolen_climbs_again),
        cmocka_unit_test(the_report_names_everything),
        cmocka_unit_test(the_remedy_is_one),
        cmocka_unit_test(absurd_requests_fail_at_once),
        cmocka_unit_test(the_soft_limit_purges),
        cmocka_unit_test(other_failures_end_the_climb),
        cmocka_unit_test(limits_change_at_run_time),
        cmocka_unit_test(a_limit_is_lowered_onto_parts_of_pages),
        cmocka_unit_test(levels_of_reclaim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
