/* test_stream.c: ticks, who has seen whom, hazards between streams; storages' lives and reuse. What
** others wait for on the way is test_marks.c. */
#include "tests/streams/streams.h"
#include "tests/support/no_malloc.h"

/* The second stream waits on the device: the host goes on although the first one's work cannot
** finish yet. */
static void hand_over_does_not_block(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_stream *a = stream(rt), *b = stream(rt);
    tidei_storage *x = storage(rt, a, BYTES), *y = storage(rt, b, BYTES);
    atomic_int gate = 0;
    (void)state;
    assert_ok(submit_work(a, x, NULL, 3, &gate));
    assert_ok(submit_work(b, y, x, 4, NULL));
    assert_int_equal(atomic_load(&d->waits->device_waits), 1);
    assert_int_equal(atomic_load(&d->waits->host_waits), 0);
    assert_false(tidei_stamps_covered(a, &y->stamps));
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(y), 7);
    tidei_storage_release(x);
    tidei_storage_release(y);
    half_close(rt);
}

static void readers_do_not_wait_for_readers(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_stream *s[4];
    tidei_storage *x = storage(rt, d->stream0, BYTES), *out[4];
    (void)state;
    assert_ok(submit_work(d->stream0, x, NULL, 1, NULL));
    assert_ok(tidei_stream_wait(d->stream0, true));
    for (int i = 0; i < 4; i++) {
        s[i] = stream(rt);
        out[i] = storage(rt, s[i], BYTES);
        assert_ok(submit_work(s[i], out[i], x, i, NULL));
    }
    assert_int_equal(atomic_load(&d->waits->device_waits), 0);
    /* A writer waits for each of the four, unless they are done by now. */
    atomic_int gate = 0;
    for (int i = 0; i < 4; i++) assert_ok(submit_work(s[i], out[i], x, i, &gate));
    assert_ok(submit_work(d->stream0, x, NULL, 9, NULL));
    assert_int_equal(atomic_load(&d->waits->device_waits), 4);
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(x), 9);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(first_byte(out[i]), 1 + i);
        tidei_storage_release(out[i]);
    }
    tidei_storage_release(x);
    half_close(rt);
}

/* a -> b -> c: c has waited for b, which had waited for a, so a use of a's result on c needs no
** wait of its own. */
static void waits_are_transitive(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    enum { CHAIN = 8 };
    tidei_stream *s[CHAIN];
    tidei_storage *x[CHAIN];
    atomic_int gate = 0;
    (void)state;
    for (int i = 0; i < CHAIN; i++) {
        s[i] = stream(rt);
        x[i] = storage(rt, s[i], BYTES);
        assert_ok(submit_work(s[i], x[i], i ? x[i - 1] : NULL, 1, i ? NULL : &gate));
    }
    assert_int_equal(atomic_load(&d->waits->device_waits), CHAIN - 1);
    assert_ok(submit_work(s[CHAIN - 1], x[CHAIN - 1], x[0], 5, NULL));
    assert_int_equal(atomic_load(&d->waits->device_waits), CHAIN - 1);
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(x[CHAIN - 1]), 6);
    for (int i = 0; i < CHAIN; i++) tidei_storage_release(x[i]);
    half_close(rt);
}

/* Completion becomes known without any wait of the host: whoever asks publishes. */
static void asking_publishes_what_has_passed(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_storage *x = storage(rt, d->stream0, BYTES);
    (void)state;
    assert_ok(submit_work(d->stream0, x, NULL, 1, NULL));
    tidei_stamp last = {.tick = atomic_load(&d->stream0->submitted), .stream = d->stream0->slot};
    while (!tidei_stamp_done(d, last)) sched_yield();
    assert_int_equal(atomic_load(&d->waits->host_waits), 0);
    tidei_storage_release(x);
    half_close(rt);
}

static void released_slots_serve_again(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_storage *x = storage(rt, d->stream0, BYTES);
    uint64_t top = 0;
    (void)state;
    for (int i = 0; i < 300; i++) {
        tidei_stream *s = stream(rt);
        assert_true(atomic_load(&s->submitted) >= (s->slot == 1 ? top : 0));
        assert_ok(submit_work(s, x, x, 1, NULL));
        if (s->slot == 1) top = atomic_load(&s->submitted);
        tide_stream_release(s->ref);
        if (i % 16 == 0) assert_ok(tidei_streams_wait_all(d, true));
    }
    assert_ok(tidei_streams_wait_all(d, true));
    assert_true(atomic_load(&d->rt->streams->n) <= 40);
    tidei_storage_release(x);
    half_close(rt);
}

static void too_many_streams(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s;
    (void)state;
    for (unsigned i = rt->ndevs; i < TIDEI_STREAMS_MAX; i++)
        assert_ok(tidei_stream_open(&rt->devs[0], &s)); /* one a device stays */
    assert_int_equal(tidei_stream_open(&rt->devs[0], &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "256 streams");
    tide_stream_release(s->ref);
    assert_ok(tidei_stream_open(&rt->devs[0], &s));
    half_close(rt);
}

static void a_thread_has_a_current_stream_in_each_runtime(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB), *other = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    (void)state;
    assert_ptr_equal(tide_stream_current(rt->ref), rt->devs[0].stream0->ref);
    assert_ok(tide_stream_set(rt->ref, s->ref));
    assert_ptr_equal(tide_stream_current(rt->ref), s->ref);
    assert_ptr_equal(tide_stream_current(other->ref), other->devs[0].stream0->ref);
    assert_int_equal(tide_stream_set(other->ref, s->ref), TIDE_E_INVALID);
    tide_stream_release(s->ref); /* the thread falls back to the default */
    assert_ptr_equal(tide_stream_current(rt->ref), rt->devs[0].stream0->ref);
    s = stream(rt);
    assert_ok(tide_stream_set(rt->ref, s->ref));
    tide_stream_release(s->ref);
    tidei_stream *next = stream(rt); /* in the same slot: somebody else's */
    assert_ptr_equal(next, s);
    assert_ptr_equal(tide_stream_current(rt->ref), rt->devs[0].stream0->ref);
    tide_stream_release(next->ref);
    half_close(rt);
    half_close(other);
}

/* A block freed with work pending goes at once to its own stream, to another only when it is done
** or ordered after. */
static void reuse_follows_the_order(void **state) {
    const size_t page = 64 * TIDEI_KIB; /* whole pages, so that no free neighbour joins in */
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_stream *a = stream(rt), *b = stream(rt);
    atomic_int gate = 0;
    (void)state;
    tidei_storage *x = storage(rt, a, page);
    tidei_addr first = x->addr;
    assert_ok(submit_work(a, x, NULL, 1, &gate));
    tidei_storage_release(x);
    tidei_storage *y = storage(rt, b, page); /* not the block that a still writes */
    assert_true(y->addr != first);
    x = storage(rt, a, page);
    assert_int_equal(x->addr, first);
    /* b waits for a, and has then seen the work on the block */
    assert_ok(submit_work(b, y, x, 1, NULL));
    tidei_storage_release(x);
    x = storage(rt, b, page);
    assert_int_equal(x->addr, first);
    assert_ok(submit_work(b, x, NULL, 2, NULL));
    atomic_store(&gate, 1);
    assert_int_equal(first_byte(x), 2);
    tidei_storage_release(x);
    tidei_storage_release(y);
    half_close(rt);
    (void)d;
}

static void storages_count_as_live_until_released(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    (void)state;
    tidei_storage *none = storage(rt, d->stream0, 0), *x = storage(rt, d->stream0, 100),
                  *y = storage(rt, d->stream0, 1000);
    assert_int_equal(none->addr, 0);
    assert_int_equal(atomic_load(&d->budget->live), 1100);
    tidei_storage_retain(x);
    tidei_storage_release(x);
    assert_int_equal(atomic_load(&d->budget->live), 1100);
    tidei_storage_release(x);
    tidei_storage_release(none);
    assert_int_equal(atomic_load(&d->budget->live), 1000);
    assert_int_equal(atomic_load(&d->budget->peak_live), 1100);
    tidei_storage_release(y);
    assert_int_equal(atomic_load(&d->budget->live), 0);
    tidei_pool_stats ps;
    d->pool->ops->stats(d->pool, &ps);
    assert_int_equal(ps.allocs, 2);
    assert_int_equal(ps.frees, 2);
    half_close(rt);
}

/* ---- what needs the device's half of a stream keeps it ---- */

static tidei_stream *waited_for;
static atomic_int wait_gate;
/* In the region where the host blocks: the work ends, and the stream goes. */
static void release_meanwhile(tidei_runtime *rt, void (*fn)(void *), void *arg) {
    tidei_stream *s = waited_for;
    tidei_stamp last = {.tick = atomic_load(&s->submitted), .stream = s->slot};
    atomic_store(&wait_gate, 1);
    while (!tidei_stamp_done(s->dev, last)) sched_yield();
    tide_stream_release(s->ref);
    tidei_stream *next = stream(rt);
    assert_ptr_not_equal(next, s);
    fn(arg);
}
static void a_wait_keeps_its_stream(void **state) {
    static const tidei_gc_ops ops = {.blocking = release_meanwhile};
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = waited_for = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    (void)state;
    atomic_store(&wait_gate, 0);
    assert_ok(submit_work(s, x, NULL, 1, &wait_gate));
    rt->gc_ops = &ops;
    assert_ok(tidei_stream_wait(s, true));
    rt->gc_ops = NULL;
    tidei_streams_sweep(s->dev, false);
    assert_null(s->ds);
    assert_ok(tidei_stream_wait(s, true)); /* of a stream that is gone */
    tidei_storage_release(x);
    half_close(rt);
}

/* Somebody is about to read the completion word of stream `a` when its slot gets another one, and
** its word another slot. */
static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
    bool armed;
    tidei_runtime *rt;
    tidei_stream *a, *b;
    tidei_storage *x;
} swap;
static uint64_t completed_late(tidei_device *d, tidei_dstream *ds) {
    tidei_dstream *kept;
    if (!swap.armed || ds != swap.a->ds) return swap.real->completed(d, ds);
    swap.armed = false;
    assert_ok(tidei_stream_wait(swap.a, true));
    tide_stream_release(swap.a->ref); /* its own is the first free one now, but taken by hand */
    assert_ok(d->ops->stream_new(d, &kept));
    assert_ptr_equal(kept, ds);
    tide_stream_release(swap.b->ref);
    assert_ptr_equal(stream(swap.rt), swap.a);
    d->ops->stream_release(d, kept);
    assert_ptr_equal(stream(swap.rt), swap.b);
    assert_ptr_equal(swap.b->ds, ds);
    for (int i = 0; i < 100; i++) assert_ok(submit_work(swap.b, swap.x, swap.x, 1, NULL));
    tidei_stamp last = {.tick = atomic_load(&swap.b->submitted), .stream = swap.b->slot};
    while (!tidei_stamp_done(swap.b->dev, last)) sched_yield();
    return swap.real->completed(d, ds);
}
static void a_late_look_says_nothing(void **state) {
    tidei_runtime *rt = swap.rt = half_open(NULL, TIDEI_MIB);
    tidei_device *d = rt->devs[0].d;
    (void)state;
    swap.a = stream(rt);
    swap.b = stream(rt);
    swap.x = storage(rt, swap.a, BYTES);
    swap.real = d->ops;
    swap.ops = *d->ops;
    swap.ops.completed = completed_late;
    d->ops = &swap.ops;
    assert_ok(submit_work(swap.a, swap.x, NULL, 1, NULL));
    swap.armed = true;
    tidei_stamp first = {.tick = 1, .stream = swap.a->slot};
    assert_true(tidei_stamp_done(&rt->devs[0], first));
    assert_false(swap.armed);
    assert_int_equal(atomic_load(&swap.a->completed), 1);
    d->ops = swap.real;
    tidei_storage_release(swap.x);
    half_close(rt);
}

static void a_released_stream_takes_nothing(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *s = stream(rt);
    tidei_storage *x = storage(rt, s, BYTES);
    (void)state;
    tide_stream_release(s->ref);
    assert_int_equal(submit_work(s, x, NULL, 1, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "the stream was released");
    tidei_storage_release(x);
    half_close(rt);
}

/* ---- copies that wait ---- */

#define LONG_COPY ((size_t)200 << 10) /* more than a command carries */
static struct {
    tidei_stream *s;
    tidei_storage *x;
    atomic_int gate;
    int asked, blocked;
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
} copying;

static void count_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request,
                      tidei_pool *pool) {
    (void)rt, (void)d, (void)request, (void)pool;
    if (where == TIDEI_AT_SYNC) copying.asked++;
    assert_int_equal(copying.blocked, 0); /* before the host blocks */
}
/* Others may submit to the stream while the host blocks. */
static void count_blocking(tidei_runtime *rt, void (*fn)(void *), void *arg) {
    (void)rt;
    copying.blocked++;
    assert_int_equal(pthread_mutex_trylock(&copying.s->lock), 0);
    pthread_mutex_unlock(&copying.s->lock);
    atomic_store(&copying.gate, 1);
    fn(arg);
}
static tidei_runtime *open_copying(tidei_storage **x) {
    static const tidei_gc_ops ops = {.blocking = count_blocking, .ask = count_ask};
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    memset(&copying, 0, sizeof copying);
    copying.s = stream(rt);
    *x = storage(rt, copying.s, LONG_COPY);
    assert_ok(submit_work(copying.s, *x, NULL, 1, &copying.gate));
    rt->gc_ops = &ops;
    return rt;
}
static void close_copying(tidei_runtime *rt, tidei_storage *x) {
    assert_int_equal(copying.blocked, 1);
    assert_int_equal(copying.asked, 1);
    assert_int_equal(atomic_load(&rt->devs[0].waits->host_waits), 1);
    rt->gc_ops = NULL;
    tidei_storage_release(x);
    half_close(rt);
}

static void a_long_copy_waits_outside_the_lock(void **state) {
    static char host[LONG_COPY];
    tidei_storage *x;
    tidei_runtime *rt = open_copying(&x);
    (void)state;
    memset(host, 5, sizeof host);
    assert_ok(
        tidei_submit_copy(copying.s, TIDEI_COPY_H2D, x, 0, host, NULL, 0, sizeof host, "test"));
    memset(host, 6, sizeof host); /* it is ours again */
    assert_int_equal(first_byte(x), 5);
    close_copying(rt, x);
}

static void a_read_is_whole(void **state) {
    static unsigned char host[LONG_COPY];
    tidei_storage *x;
    tidei_runtime *rt = open_copying(&x);
    (void)state;
    assert_ok(
        tidei_submit_copy(copying.s, TIDEI_COPY_D2H, NULL, 0, host, x, 0, sizeof host, "test"));
    assert_int_equal(host[0], 1);
    close_copying(rt, x);
}

/* What others queue while the wait's region ends comes after the copy, which does not wait for
** it. */
static void queue_behind(tidei_runtime *rt, void (*fn)(void *), void *arg) {
    count_blocking(rt, fn, arg);
    if (copying.blocked > 1) return;
    atomic_store(&copying.gate, 0);
    assert_ok(submit_work(copying.s, copying.x, NULL, 1, &copying.gate));
}
static void a_copy_is_queued_before_its_wait(void **state) {
    static unsigned char host[LONG_COPY];
    static const tidei_gc_ops ops = {.blocking = queue_behind, .ask = count_ask};
    tidei_runtime *rt = open_copying(&copying.x);
    (void)state;
    rt->gc_ops = &ops;
    assert_ok(tidei_submit_copy(copying.s, TIDEI_COPY_D2H, NULL, 0, host, copying.x, 0, sizeof host,
                                "test"));
    assert_int_equal(host[0], 1);
    assert_int_equal(copying.blocked, 1);
    atomic_store(&copying.gate, 1);
    close_copying(rt, copying.x);
}

/* As cuda does: the copy itself waits. By then there is nothing to wait for any more. */
static tide_status waiting_copy(tidei_device *d, tidei_dstream *ds, const tidei_copy *c) {
    tidei_stream *s = copying.s;
    assert_int_equal(copying.blocked, 1);
    /* all but its own tick */
    assert_true(atomic_load(&s->completed) + 1 == atomic_load(&s->submitted));
    tide_status status = copying.real->copy(d, ds, c);
    if (status == TIDE_OK) status = d->ops->stream_sync(d, ds);
    *c->busy = false;
    return status;
}
static void copies_that_wait_come_after_the_wait(void **state) {
    static unsigned char host[LONG_COPY];
    (void)state;
    for (int read = 0; read < 2; read++) {
        tidei_storage *x;
        tidei_runtime *rt = open_copying(&x);
        tidei_device *d = rt->devs[0].d;
        copying.real = d->ops;
        copying.ops = *d->ops;
        copying.ops.copy = waiting_copy;
        d->ops = &copying.ops;
        d->info.flags |= TIDEI_DEV_COPIES_WAIT;
        d->info.staged_bytes = LONG_COPY - 1;
        memset(host, 5, sizeof host);
        if (read)
            assert_ok(tidei_submit_copy(copying.s, TIDEI_COPY_D2H, NULL, 0, host, x, 0, sizeof host,
                                        "test"));
        else
            assert_ok(tidei_submit_copy(copying.s, TIDEI_COPY_H2D, x, 0, host, NULL, 0, sizeof host,
                                        "test"));
        assert_int_equal(host[0], read ? 1 : 5);
        if (read)
            assert_int_equal(atomic_load(&copying.s->completed),
                             atomic_load(&copying.s->submitted));
        d->ops = copying.real;
        close_copying(rt, x);
    }
}

/* ---- histories ---- */

/* An operation that is refused after some of its uses were noted leaves nothing pending behind. */
static void a_refused_operation_leaves_no_trace(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB), *other = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_storage *x = storage(rt, d->stream0, BYTES),
                  *y = storage(other, other->devs[0].stream0, BYTES);
    tidei_pool_stats ps;
    (void)state;
    assert_int_equal(submit_work(d->stream0, x, y, 1, NULL), TIDE_E_INVALID);
    tidei_storage_release(x);
    assert_ok(tidei_streams_wait_all(d, true));
    d->pool->ops->settle(d->pool);
    d->pool->ops->stats(d->pool, &ps);
    assert_int_equal(ps.pending, 0);
    tidei_storage_release(y);
    half_close(rt);
    half_close(other);
}

/* Where no memory is left to note a reader, its work is waited for instead. */
static void readers_beyond_memory_are_waited_for(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_dev *d = &rt->devs[0];
    tidei_storage *x = storage(rt, d->stream0, BYTES), *out[TIDEI_STAMPS_INLINE + 1];
    atomic_int gate = 0;
    (void)state;
    for (int i = 0; i <= TIDEI_STAMPS_INLINE; i++) {
        tidei_stream *s = stream(rt);
        out[i] = storage(rt, s, BYTES);
        if (i < TIDEI_STAMPS_INLINE) assert_ok(submit_work(s, out[i], x, 1, NULL));
    }
    /* The last one finds room when it orders itself, and none when it has its tick: others were
    ** faster. */
    tidei_stream *s = tidei_stream_at(d, TIDEI_STAMPS_INLINE + 1);
    tidei_use use = {x, 0, BYTES, TIDEI_READ};
    assert_true(x->stamps.n == TIDEI_STAMPS_INLINE && x->stamps.cap == 0);
    assert_ok(submit_work(s, out[TIDEI_STAMPS_INLINE], NULL, 7, &gate));
    pthread_mutex_lock(&s->lock);
    no_malloc = true;
    bool known = tidei_publish_uses(s, &use, 1, atomic_load(&s->submitted));
    no_malloc = false;
    pthread_mutex_unlock(&s->lock);
    assert_false(known);
    atomic_store(&gate, 1);
    tidei_submission w = {.s = s, .unknown = true, .op = "test"};
    pthread_mutex_lock(&s->lock);
    assert_ok(tidei_submit_end(&w, TIDE_OK));
    assert_int_equal(*(unsigned char *)(uintptr_t)out[TIDEI_STAMPS_INLINE]->addr, 7);
    for (int i = 0; i <= TIDEI_STAMPS_INLINE; i++) tidei_storage_release(out[i]);
    tidei_storage_release(x);
    half_close(rt);
}

/* ---- sets of stamps against a plain model ---- */

static void stamps_match_a_model(void **state) {
    uint64_t model[8][2] = {{0}}, seed = 1;
    tidei_stamps s = {0};
    (void)state;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tidei_stamp x = {.tick = 1 + (seed >> 40) % 100,
                         .stream = (uint16_t)(seed >> 33 & 7),
                         .write = (uint16_t)(seed >> 37 & 1)};
        assert_true(tidei_stamps_reserve(&s, 1));
        tidei_stamps_add(&s, x);
        uint64_t *m = &model[x.stream][x.write];
        *m = *m < x.tick ? x.tick : *m;
        unsigned n = 0;
        for (int k = 0; k < 16; k++) n += model[k / 2][k % 2] != 0;
        assert_int_equal(s.n, n);
        for (unsigned k = 0; k < s.n; k++) {
            tidei_stamp at = tidei_stamps_at(&s)[k];
            assert_int_equal(at.tick, model[at.stream][at.write]);
        }
        if (seed >> 50 < 20) {
            tidei_stamps_clear(&s);
            memset(model, 0, sizeof model);
        }
    }
    tidei_stamps_clear(&s);
}

/* ---- random programs: the values are those of a sequential run, and the checker has nothing to
** say ---- */

#define POOL 6
static void random_programs_agree_with_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
        tidei_stream *s[4];
        tidei_storage *x[POOL];
        unsigned char model[POOL] = {0};
        uint64_t r = seed * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < 4; i++) s[i] = stream(rt);
        for (int i = 0; i < POOL; i++) {
            x[i] = storage(rt, s[i % 4], 512);
            assert_ok(submit_work(s[i % 4], x[i], NULL, 0, NULL));
        }
        for (int i = 0; i < 120; i++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            unsigned to = (r >> 20) % POOL, from = (r >> 30) % POOL, on = (r >> 40) % 4,
                     add = (r >> 50) % 9;
            if (to == from) {
                tidei_storage_release(x[to]); /* and make it anew on another stream */
                x[to] = storage(rt, s[on], 512);
                assert_ok(submit_work(s[on], x[to], NULL, (int)add, NULL));
                model[to] = (unsigned char)add;
                continue;
            }
            assert_ok(submit_work(s[on], x[to], x[from], (int)add, NULL));
            model[to] = (unsigned char)(model[from] + add);
        }
        for (int i = 0; i < POOL; i++) {
            assert_int_equal(first_byte(x[i]), model[i]);
            tidei_storage_release(x[i]);
        }
        assert_int_equal(atomic_load(&rt->devs[0].budget->live), 0);
        half_close(rt);
    }
}

/* Several threads read one array and write their own, each on its own stream. */
struct reader {
    tidei_runtime *rt;
    tidei_storage *shared;
    int wrong;
};
static void *read_on_own_stream(void *p) {
    struct reader *r = p;
    tidei_stream *s;
    if (tidei_stream_open(&r->rt->devs[0], &s) != TIDE_OK) return r->wrong = 1, NULL;
    for (int i = 0; i < 200; i++) {
        tidei_storage *mine;
        if (tidei_storage_new(&r->rt->devs[0], 256, s, "test", &mine) != TIDE_OK)
            return r->wrong = 2, NULL;
        if (submit_work(s, mine, r->shared, i, NULL) != TIDE_OK) r->wrong = 3;
        if (i % 20 == 0 && (tidei_storage_wait(mine, TIDEI_READ) != TIDE_OK ||
                            *(unsigned char *)(uintptr_t)mine->addr != (unsigned char)(5 + i)))
            r->wrong = 4;
        tidei_storage_release(mine);
    }
    tide_stream_release(s->ref);
    return NULL;
}
static void many_threads_read(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_storage *x = storage(rt, rt->devs[0].stream0, 256);
    pthread_t t[4];
    struct reader r[4];
    (void)state;
    assert_ok(submit_work(rt->devs[0].stream0, x, NULL, 5, NULL));
    for (int i = 0; i < 4; i++) {
        r[i] = (struct reader){rt, x, 0};
        pthread_create(&t[i], NULL, read_on_own_stream, &r[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(r[i].wrong, 0);
    }
    assert_ok(submit_work(rt->devs[0].stream0, x, NULL, 6, NULL)); /* after all of them */
    assert_int_equal(first_byte(x), 6);
    tidei_storage_release(x);
    half_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_over_does_not_block),
        cmocka_unit_test(readers_do_not_wait_for_readers),
        cmocka_unit_test(waits_are_transitive),
        cmocka_unit_test(asking_publishes_what_has_passed),
        cmocka_unit_test(released_slots_serve_again),
        cmocka_unit_test(too_many_streams),
        cmocka_unit_test(a_thread_has_a_current_stream_in_each_runtime),
        cmocka_unit_test(reuse_follows_the_order),
        cmocka_unit_test(storages_count_as_live_until_released),
        cmocka_unit_test(a_wait_keeps_its_stream),
        cmocka_unit_test(a_late_look_says_nothing),
        cmocka_unit_test(a_released_stream_takes_nothing),
        cmocka_unit_test(a_long_copy_waits_outside_the_lock),
        cmocka_unit_test(a_read_is_whole),
        cmocka_unit_test(a_copy_is_queued_before_its_wait),
        cmocka_unit_test(copies_that_wait_come_after_the_wait),
        cmocka_unit_test(a_refused_operation_leaves_no_trace),
        cmocka_unit_test(readers_beyond_memory_are_waited_for),
        cmocka_unit_test(stamps_match_a_model),
        cmocka_unit_test(random_programs_agree_with_the_model),
        cmocka_unit_test(many_threads_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
