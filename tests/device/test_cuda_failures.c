/* test_cuda_failures.c: the `cuda` device when the driver refuses, over its double: every call
** of every slot fails in its turn, functions and abilities are not there, a device is lost, a
** process has forked. What must stay true: an error says what was asked for and what the driver
** called it, a failure leaves nothing behind and no context current, and the device goes on
** unless it is lost. */
#include "runtime/hooks.h"
#include "runtime/device/cuda/device.h"
#include "tests/doubles/cuda_double.h"
#include "tests/doubles/hooked_host.h"
#include "tests/support/child.h"

typedef struct tidei_device_ops ops;

/* ---- what the driver has given, and the failure loop ---- */

#define BOOKS 12
static void look(long at[BOOKS]) {
    const long all[BOOKS] = {fake.contexts, fake.pinned,  fake.allocs,  fake.streams,
                             fake.events,   fake.handles, fake.modules, fake.reservations,
                             fake.pools,    fake.maps,    fake.nowned,  (long)fake.pool_bytes};
    memcpy(at, all, sizeof all);
}
static void assert_as_before(const char *part, const long before[BOOKS]) {
    static const char *const names[BOOKS] = {"contexts", "pinned",  "allocs",  "streams",
                                             "events",   "handles", "modules", "reservations",
                                             "pools",    "maps",    "owned",   "pool_bytes"};
    long after[BOOKS];
    look(after);
    for (int i = 0; i < BOOKS; i++)
        if (after[i] != before[i])
            fail_msg("%s, %s failed: %ld %s instead of %ld", part,
                     fake.failed ? fake.failed : "nothing", after[i], names[i], before[i]);
}

/* What an error of the driver's comes to. */
static tide_status status_of(tidei_cu_result r) {
    return r == TIDEI_CU_OUT_OF_MEMORY     ? TIDE_E_NOMEM
           : r == TIDEI_CU_ILLEGAL_ADDRESS ? TIDE_E_LOST
                                           : TIDE_E_DEVICE;
}
static const char *words_of(tidei_cu_result r) {
    return r == TIDEI_CU_OUT_OF_MEMORY     ? "out of memory"
           : r == TIDEI_CU_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS (700: said in words)"
                                           : "CUDA_ERROR_X (1): said in words";
}
/* Questions whose answer is no where the driver does not answer; none is a failure. */
static bool is_question(const char *call) {
    static const char *const all[] = {"cuDeviceGetAttribute", "cuPointerGetAttributes",
                                      "cuEventQuery"};
    for (size_t i = 0; i < TIDEI_COUNT(all); i++)
        if (!strcmp(call, all[i])) return true;
    return false;
}
/* What is released needs no context; and what was wrong with a page may be that it was to be
** shared. */
static bool may_be_silent(const char *call, tidei_cu_result r) {
    bool page = !strcmp(call, "cuMemCreate") || !strcmp(call, "cuMemGetAllocationGranularity");
    return is_question(call) || strncmp(call, "cuCtx", 5) == 0 ||
           (page && r == TIDEI_CU_INVALID_VALUE);
}
static void assert_told(tide_status s, tidei_cu_result r) {
    bool of_host = r == TIDEI_CU_OUT_OF_MEMORY && !strcmp(fake.failed, "cuMemHostAlloc");
    if (of_host && s == TIDE_E_HOST_NOMEM) return; /* pinned memory is the host's */
    if (s != status_of(r)) fail_msg("%s, error %u: %s", fake.failed, r, tide_error_last()->message);
    assert_error(status_of(r), words_of(r));
    assert_error(status_of(r), "cuda:");
}

/* `part` uses the device and gives back what it made, whatever fails. Each of its calls of the
** driver fails in its turn, in each way; `opens` says how its devices come to be, and how many
** there are. */
typedef struct task {
    const char *name;
    tide_status (*part)(tidei_device *const *d);
    bool events; /* streams cannot write words */
    unsigned devices;
} task;

static int fail_call(const task *t, int n, tidei_cu_result r, bool foreign) {
    tidei_device *d[2] = {NULL};
    fake.write_value = !t->events;
    fake.devices = t->devices ? (int)t->devices : 1;
    for (unsigned i = 0; i < t->devices; i++) d[i] = open_ordinal((int)i);
    long before[BOOKS];
    look(before);
    tidei_cu_ctx current = fake.current = foreign ? FOREIGN : d[0] ? CONTEXT : NULL;
    tide_error_clear();
    fail_nth(n, r, true);
    tide_status s = t->part(d);
    const char *failed = fake.failed;
    fail_at(NULL, 0, 0);
    fake.failed = failed;
    if (!failed && s != TIDE_OK) fail_msg("%s: %s", t->name, tide_error_last()->message);
    assert_int_equal(fake.depth, 0);
    if (d[0]) assert_ptr_equal(fake.current, current);
    assert_as_before(t->name, before);
    if (s != TIDE_OK)
        assert_told(s, r);
    else if (failed && !may_be_silent(failed, r))
        fail_msg("%s: %s failed, and nobody says so", t->name, failed);
    if (d[0] && s != TIDE_E_LOST) { /* it goes on */
        assert_false(atomic_load(&d[0]->lost));
        assert_ok(t->part(d));
    }
    for (unsigned i = 0; i < t->devices; i++) d[i]->ops->close(d[i]);
    fake.current = NULL;
    assert_nothing_left();
    return failed != NULL;
}

static void each_call_fails(const task *t) {
    static const tidei_cu_result ways[] = {TIDEI_CU_OUT_OF_MEMORY, TIDEI_CU_INVALID_VALUE,
                                           TIDEI_CU_ILLEGAL_ADDRESS};
    for (size_t w = 0; w < TIDEI_COUNT(ways); w++)
        for (int foreign = 0; foreign < 2; foreign++) {
            int n = 1;
            while (fail_call(t, n, ways[w], foreign)) assert_true(++n < 200);
            assert_true(n > 2); /* else nothing failed */
        }
}

/* ---- what fails ---- Each part keeps the first failure, and undoes what worked. */

static tide_status opening(tidei_device *const *unused) {
    tidei_device *d = NULL;
    (void)unused;
    tide_status s = tidei_cuda_open(&(tidei_device_params){.ordinal = 0}, &d);
    assert_int_equal(d != NULL, s == TIDE_OK);
    if (d) d->ops->close(d);
    return s;
}

/* What the driver did not do, as if it had. */
static void unmap_anyhow(tidei_addr at, size_t bytes) {
    tidei_cu_ctx before = fake.current;
    fake.current = CONTEXT_OF(owned_at(at)->owner);
    assert_int_equal(f_unmap(at, bytes), 0);
    fake.current = before;
}
static tide_status pages(tidei_device *const *ds) {
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    tidei_dpage *p[3] = {NULL};
    tidei_addr range = 0;
    tide_status s = o->reserve(d, 4 * PAGE, &range);
    assert_int_equal(range != 0, s == TIDE_OK);
    for (int i = 0; i < 3 && s == TIDE_OK; i++) s = o->page_new(d, PAGE, &p[i]);
    if (s == TIDE_OK) s = o->map(d, range, p, 3);
    if (s == TIDE_OK) {
        *(int *)PTR(range + 2 * PAGE) = 5;
        s = o->unmap(d, range, p, 3);
        if (s != TIDE_OK) unmap_anyhow(range, 3 * PAGE);
    }
    for (int i = 0; i < 3; i++)
        if (p[i]) o->page_release(d, p[i]);
    if (range) o->unreserve(d, range, 4 * PAGE);
    return s;
}

static tide_status raw_memory(tidei_device *const *ds) {
    static const tidei_advice advice[] = {TIDEI_ADVICE_READ_MOSTLY, TIDEI_ADVICE_HOST,
                                          TIDEI_ADVICE_NONE};
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    tidei_addr at[TIDEI_MEM_KINDS] = {0};
    size_t free_bytes, total;
    tidei_dstream *stream = NULL;
    fake.free_bytes = 1000;
    tide_status s = o->stream_new(d, &stream);
    for (int k = 0; k < TIDEI_MEM_KINDS && s == TIDE_OK; k++) s = o->raw_alloc(d, k, 600, &at[k]);
    if (s == TIDE_OK) s = o->prefetch(d, stream, at[TIDEI_MEM_UNIFIED], 600, true);
    for (size_t i = 0; i < TIDEI_COUNT(advice) && s == TIDE_OK; i++)
        s = o->advise(d, at[TIDEI_MEM_UNIFIED], 600, advice[i]);
    if (s == TIDE_OK) s = o->memory(d, &free_bytes, &total);
    for (int k = 0; k < TIDEI_MEM_KINDS; k++)
        if (at[k]) o->raw_free(d, k, at[k], 600);
    if (stream) o->stream_release(d, stream);
    /* what was not given does not count */
    assert_int_equal(atomic_load(&tidei_cuda_of(d)->managed), 0);
    return s;
}

/* On a stream of our own, and on one of the program's. */
static tide_status on_stream(tidei_device *d, tidei_dstream *stream) {
    const ops *o = d->ops;
    tidei_devent *e = NULL;
    tide_status s = o->event_new(d, &e);
    if (s == TIDE_OK) s = o->event_record(d, e, stream);
    if (s == TIDE_OK) s = o->event_wait(d, e, stream);
    if (s == TIDE_OK) s = o->stream_usable(d, stream);
    if (s == TIDE_OK) s = o->publish(d, stream, 7);
    if (s == TIDE_OK)
        assert_true(o->completed(d, stream) == 7 || (fake.failed && is_question(fake.failed)));
    if (s == TIDE_OK) s = o->stream_sync(d, stream);
    if (e) o->event_release(d, e);
    return s;
}
/* which stay with the device until it is closed */
static void end_events(tidei_device *d, tidei_dstream *stream) {
    for (unsigned i = 0; i < TIDEI_CUDA_PENDING; i++)
        if (stream->pending[i].event)
            f_event_destroy(stream->pending[i].event), stream->pending[i].event = NULL;
    (void)d;
}
static tide_status streams(tidei_device *const *ds) {
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    tidei_dstream *own = NULL, *adopted = NULL;
    tide_status s = o->stream_new(d, &own);
    if (s == TIDE_OK) s = on_stream(d, own);
    if (s == TIDE_OK) s = o->stream_adopt(d, &stream_storage[40], &adopted);
    if (s == TIDE_OK) assert_ptr_equal(o->stream_native(d, adopted), &stream_storage[40]);
    if (s == TIDE_OK) s = on_stream(d, adopted);
    if (adopted) end_events(d, adopted), o->stream_release(d, adopted);
    if (own) end_events(d, own), o->stream_release(d, own);
    return s;
}

static tide_status copies(tidei_device *const *ds) {
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    char text[256] = "there", back[256];
    bool busy;
    tidei_dstream *stream = NULL;
    tidei_addr m = 0;
    tide_status s = o->stream_new(d, &stream);
    if (s == TIDE_OK) s = o->raw_alloc(d, TIDEI_MEM_DEVICE, 512, &m);
    tidei_copy all[] = {{TIDEI_COPY_H2D, m, (uintptr_t)text, 256, NULL},
                        {TIDEI_COPY_H2D, m, (uintptr_t)text, 256, &busy},
                        {TIDEI_COPY_D2D, m + 256, m, 256, NULL},
                        {TIDEI_COPY_D2H, (uintptr_t)back, m + 256, 256, NULL},
                        {TIDEI_COPY_D2H, (uintptr_t)back, m + 256, 256, &busy}};
    const tidei_piece pieces[] = {{m, m + 256, 100}, {m + 128, m + 384, 100}};
    fake.pinned_source = true;
    for (size_t i = 0; i < TIDEI_COUNT(all) && s == TIDE_OK; i++) {
        busy = false;
        s = o->copy(d, stream, &all[i]);
        if (s == TIDE_OK && all[i].busy && !fake.failed) assert_true(busy);
    }
    if (s == TIDE_OK) assert_string_equal(back, "there");
    if (s == TIDE_OK) s = o->copy_many(d, stream, pieces, 2);
    for (size_t width = 1; width <= 16 && s == TIDE_OK; width *= 2)
        s = o->fill(d, stream, m, "0123456789abcdef", width, 512 / width);
    if (m) o->raw_free(d, TIDEI_MEM_DEVICE, m, 512);
    if (stream) o->stream_release(d, stream);
    fake.pinned_source = false;
    return s;
}

static tide_status kernels(tidei_device *const *ds) {
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    static const int params[2] = {1, 2};
    tidei_kernel_text t = {.name = "nothing", .source = "the text"};
    tidei_dstream *stream = NULL;
    tidei_dkernel *k = NULL;
    void *image = NULL;
    size_t bytes;
    tide_status s = o->stream_new(d, &stream);
    if (s == TIDE_OK) s = o->kernel_new(d, &t, &k, &image, &bytes);
    tidei_launch l = {
        .name = "nothing", .kernel = k, .params = params, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    l.params_bytes = sizeof params;
    if (s == TIDE_OK) s = o->launch(d, stream, &l);
    if (k) o->kernel_release(d, k);
    free(image);
    if (stream) o->stream_release(d, stream);
    return s;
}

static tide_status pools(tidei_device *const *ds) {
    tidei_device *d = ds[0];
    const ops *o = d->ops;
    tidei_dstream *stream = NULL;
    tidei_dmempool *mp = NULL;
    tidei_addr a = 0;
    size_t reserved, used;
    fake.pools_made = 0;
    tide_status s = o->stream_new(d, &stream);
    if (s == TIDE_OK) s = o->mempool_new(d, &mp);
    if (s == TIDE_OK) s = o->mempool_set(d, mp, TIDEI_MEMPOOL_THRESHOLD, 5);
    if (s == TIDE_OK) s = o->mempool_alloc(d, mp, stream, 100, &a);
    if (s == TIDE_OK) s = o->mempool_figures(d, mp, &reserved, &used);
    if (s == TIDE_OK) assert_true(used == 100 && reserved == PAGE);
    if (s == TIDE_OK) s = o->mempool_trim(d, mp, 0);
    if (a && (s != TIDE_OK || (s = o->mempool_free(d, mp, stream, a)) != TIDE_OK)) {
        size_t before = fake.pool_bytes;
        assert_ok(o->mempool_free(d, mp, NULL, a)); /* which never fails */
        fake.pool_bytes = before - 100;
    }
    if (mp) o->mempool_release(d, mp);
    if (stream) o->stream_release(d, stream);
    /* without the attribute there are none */
    return s == TIDE_E_UNSUPPORTED && fake.failed ? TIDE_OK : s;
}

/* The first device comes to use the second's memory. */
static tide_status peers(tidei_device *const *ds) {
    tidei_device *d = ds[1];
    const ops *o = d->ops;
    tidei_dpage *p = NULL;
    tidei_dmempool *mp = NULL;
    tidei_addr range = 0;
    fake.pools_made = 0;
    tide_status s = o->reserve(d, PAGE, &range);
    if (s == TIDE_OK) s = o->page_new(d, PAGE, &p);
    if (s == TIDE_OK) s = o->map(d, range, &p, 1);
    bool mapped = s == TIDE_OK;
    if (s == TIDE_OK) s = o->mempool_new(d, &mp);
    if (s == TIDE_OK) s = o->peer_enable(ds[0], ds[1]);
    if (s == TIDE_OK) assert_true(may_use(0, range));
    if (mapped) {
        tidei_saved_error first;
        tidei_error_save(&first);
        tide_status unmapped = o->unmap(d, range, &p, 1);
        if (s != TIDE_OK) tidei_error_restore(&first);
        if (unmapped != TIDE_OK) unmap_anyhow(range, PAGE);
        if (s == TIDE_OK) s = unmapped;
    }
    if (mp) o->mempool_release(d, mp);
    if (p) o->page_release(d, p);
    if (range) o->unreserve(d, range, PAGE);
    return s == TIDE_E_UNSUPPORTED && fake.failed ? TIDE_OK : s;
}

static void every_call_of_opening_may_fail(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) each_call_fails(&(task){"opening", opening, i, 0});
}
static void every_call_for_pages_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"pages", pages, false, 1});
}
static void every_call_for_raw_memory_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"raw memory", raw_memory, false, 1});
}
static void every_call_of_streams_may_fail(void **state) {
    (void)state;
    for (int events = 0; events < 2; events++)
        each_call_fails(&(task){"streams", streams, events, 1});
}
static void every_call_of_copies_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"copies", copies, false, 1});
}
static void every_call_of_kernels_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"kernels", kernels, false, 1});
}
static void every_call_of_pools_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"pools", pools, false, 1});
}
static void every_call_of_peers_may_fail(void **state) {
    (void)state;
    each_call_fails(&(task){"peers", peers, false, 2});
}

/* ---- a device that takes no calls any more ---- */

/* One of everything there is. */
typedef struct things {
    tidei_device *d, *other;
    tidei_dstream *s, *adopted;
    tidei_devent *e;
    tidei_dpage *mapped, *page;
    tidei_dmempool *mp;
    tidei_dkernel *k;
    tidei_addr range, raw, pinned, block;
} things;

static things make_things(void) {
    things t = {0};
    fake.devices = 2;
    fake.write_value = 0; /* so that events are asked about */
    t.d = open_ordinal(0);
    t.other = open_ordinal(1);
    const ops *o = t.d->ops;
    assert_ok(o->stream_new(t.d, &t.s));
    assert_ok(o->stream_adopt(t.d, &stream_storage[40], &t.adopted));
    assert_ok(o->event_new(t.d, &t.e));
    assert_ok(o->reserve(t.d, 2 * PAGE, &t.range));
    assert_ok(o->page_new(t.d, PAGE, &t.mapped));
    assert_ok(o->page_new(t.d, PAGE, &t.page));
    assert_ok(o->map(t.d, t.range, &t.mapped, 1));
    assert_ok(o->mempool_new(t.d, &t.mp));
    assert_ok(o->mempool_alloc(t.d, t.mp, t.s, 100, &t.block));
    assert_ok(o->raw_alloc(t.d, TIDEI_MEM_DEVICE, 100, &t.raw));
    assert_ok(o->raw_alloc(t.d, TIDEI_MEM_PINNED, 100, &t.pinned));
    assert_ok(o->kernel_new(t.d, &(tidei_kernel_text){.name = "nothing", .source = "text"}, &t.k,
                            NULL, NULL));
    assert_ok(o->publish(t.d, t.s, 7));
    assert_int_equal(o->completed(t.d, t.s), 7);
    fake.event_pending = true;
    assert_ok(o->publish(t.d, t.s, 8));
    return t;
}
/* By the slots that release. */
static void release_things(things *t) {
    const ops *o = t->d->ops;
    o->kernel_release(t->d, t->k);
    o->raw_free(t->d, TIDEI_MEM_DEVICE, t->raw, 100);
    o->raw_free(t->d, TIDEI_MEM_PINNED, t->pinned, 100);
    (void)o->mempool_free(t->d, t->mp, NULL, t->block);
    o->mempool_release(t->d, t->mp);
    o->page_release(t->d, t->page);
    o->page_release(t->d, t->mapped);
    o->unreserve(t->d, t->range, 2 * PAGE);
    o->event_release(t->d, t->e);
    o->stream_release(t->d, t->adopted);
    o->stream_release(t->d, t->s);
    o->close(t->d);
    t->other->ops->close(t->other);
}

/* Each slot that can fail, once; how many came to `wanted`. The call of `stream_sync` is made
** anyway. */
static unsigned all_slots(const things *t, tide_status wanted, unsigned *slots) {
    const ops *o = t->d->ops;
    tidei_device *d = t->d;
    tidei_addr a;
    tidei_dpage *page;
    tidei_dstream *s;
    tidei_devent *e;
    tidei_dkernel *k;
    tidei_dmempool *mp;
    size_t n, m;
    char zero[16] = {0};
    const tidei_copy copy = {TIDEI_COPY_D2D, t->raw, t->raw + 50, 50, NULL};
    const tidei_piece piece = {t->raw, t->raw + 50, 50};
    const tidei_launch l = {
        .name = "nothing", .kernel = t->k, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    const tidei_kernel_text text = {.name = "nothing", .source = "text"};
    const tide_status got[] = {o->reserve(d, PAGE, &a),
                               o->page_new(d, PAGE, &page),
                               o->map(d, t->range + PAGE, &t->page, 1),
                               o->unmap(d, t->range, &t->mapped, 1),
                               o->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a),
                               o->prefetch(d, t->s, t->raw, 100, true),
                               o->advise(d, t->raw, 100, TIDEI_ADVICE_NONE),
                               o->peer_enable(d, t->other),
                               o->peer_enable(t->other, d),
                               o->memory(d, &n, &m),
                               o->mempool_new(d, &mp),
                               o->mempool_alloc(d, t->mp, t->s, 100, &a),
                               o->mempool_free(d, t->mp, t->s, t->block),
                               o->mempool_set(d, t->mp, TIDEI_MEMPOOL_THRESHOLD, 1),
                               o->mempool_trim(d, t->mp, 1),
                               o->mempool_figures(d, t->mp, &n, &m),
                               o->stream_new(d, &s),
                               o->stream_adopt(d, &stream_storage[41], &s),
                               o->stream_usable(d, t->adopted),
                               o->event_new(d, &e),
                               o->event_record(d, t->e, t->s),
                               o->event_wait(d, t->e, t->s),
                               o->publish(d, t->adopted, 9),
                               o->copy(d, t->s, &copy),
                               o->copy_many(d, t->s, &piece, 1),
                               o->fill(d, t->s, t->raw, zero, 16, 2),
                               o->kernel_new(d, &text, &k, NULL, NULL),
                               o->launch(d, t->s, &l)};
    unsigned as_wanted = 0;
    *slots = TIDEI_COUNT(got);
    for (size_t i = 0; i < TIDEI_COUNT(got); i++) as_wanted += got[i] == wanted;
    return as_wanted;
}

static void a_lost_device_takes_no_calls(void **state) {
    (void)state;
    things t = make_things();
    unsigned slots;
    t.d->ops->lose(t.d, "the test says so");
    int calls = fake.calls;
    unsigned refused = all_slots(&t, TIDE_E_LOST, &slots);
    assert_int_equal(refused, slots);
    assert_error(TIDE_E_LOST, "cuda:0 is unusable since the test says so");
    assert_int_equal(t.d->ops->completed(t.d, t.s), 7); /* what is known stays so */
    assert_false(t.d->ops->peer_possible(t.d, t.other));
    t.d->ops->copy_many_prepare(t.d);
    assert_int_equal(fake.calls, calls);
    f_unmap(t.range, PAGE); /* the slot for it is one of those that refuse */
    release_things(&t);
    assert_nothing_left();
}

static things forked;
static void in_the_forks_child(void) {
    unsigned slots;
    int calls = fake.calls, events = fake.events;
    tidei_device *d = forked.d;
    unsigned refused = all_slots(&forked, TIDE_E_FORKED, &slots);
    must(refused == slots);
    must(strstr(tide_error_last()->message,
                "this process is a fork's child; cuda:0 stays with its parent"));
    must(d->ops->stream_sync(d, forked.s) == TIDE_E_FORKED);
    must(!d->ops->peer_possible(d, forked.other));
    must(d->ops->completed(d, forked.s) == 7);
    atomic_store(&tidei_cuda_of(d)->copier.singly, 5000); /* enough to have kernels made */
    d->ops->copy_many_prepare(d);
    must(d->ops->mempool_free(d, forked.mp, NULL, forked.block) == TIDE_OK);
    atomic_store(&d->lost, true); /* then the driver is not asked to wait either */
    must(d->ops->stream_sync(d, forked.s) == TIDE_E_FORKED);
    release_things(&forked);
    must(fake.calls == calls && fake.events == events); /* the driver was not called at all */
    must(fake.contexts == 2 && fake.allocs == 2 && fake.pools == 1 && fake.handles == 2);
}
static void a_forks_child_makes_no_calls(void **state) {
    (void)state;
    tidei_threads_prepare(&tidei_threads_above); /* as opening a runtime does */
    forked = make_things();
    in_child(in_the_forks_child);
    assert_ok(forked.d->ops->unmap(forked.d, forked.range, &forked.mapped, 1));
    release_things(&forked);
    assert_nothing_left();
}

/* ---- what errors come to ---- */

static void fatal_errors_end_a_device(void **state) {
    static const tidei_cu_result fatal[] = {
        TIDEI_CU_DEINITIALIZED,        TIDEI_CU_DEVICE_UNAVAILABLE,
        TIDEI_CU_ECC_UNCORRECTABLE,    TIDEI_CU_NVLINK_UNCORRECTABLE,
        TIDEI_CU_ILLEGAL_ADDRESS,      TIDEI_CU_LAUNCH_TIMEOUT,
        TIDEI_CU_CONTEXT_IS_DESTROYED, TIDEI_CU_ASSERT,
        TIDEI_CU_HARDWARE_STACK_ERROR, TIDEI_CU_ILLEGAL_INSTRUCTION,
        TIDEI_CU_MISALIGNED_ADDRESS,   TIDEI_CU_INVALID_ADDRESS_SPACE,
        TIDEI_CU_INVALID_PC,           TIDEI_CU_LAUNCH_FAILED,
        TIDEI_CU_TENSOR_MEMORY_LEAK};
    (void)state;
    for (tidei_cu_result r = 1; r < 900; r++) {
        bool ends = false;
        size_t free_bytes, total;
        for (size_t i = 0; i < TIDEI_COUNT(fatal); i++) ends |= fatal[i] == r;
        tidei_device *d = open_double();
        fail_at("cuMemGetInfo", 0, r);
        tide_status s = d->ops->memory(d, &free_bytes, &total);
        assert_int_equal(s, ends                          ? TIDE_E_LOST
                            : r == TIDEI_CU_OUT_OF_MEMORY ? TIDE_E_NOMEM
                                                          : TIDE_E_DEVICE);
        assert_int_equal(atomic_load(&d->lost), ends);
        fail_at(NULL, 0, 0);
        d->ops->close(d);
    }
    assert_nothing_left();
}

static void errors_without_words_are_told_by_number(void **state) {
    size_t free_bytes, total;
    (void)state;
    tidei_device *d = open_double();
    fail_at("cuMemGetInfo", 0, TIDEI_CU_INVALID_VALUE);
    fake.no_words = true;
    assert_int_equal(d->ops->memory(d, &free_bytes, &total), TIDE_E_DEVICE);
    assert_string_equal(tide_error_last()->message, "cuda:0: cuMemGetInfo: CUDA_ERROR_X (1): ");
    fake.no_name = true;
    assert_int_equal(d->ops->memory(d, &free_bytes, &total), TIDE_E_DEVICE);
    assert_string_equal(tide_error_last()->message, "cuda:0: cuMemGetInfo: unknown error (1): ");
    atomic_store(&d->lost, true); /* as the runtime may, without saying why */
    assert_int_equal(d->ops->memory(d, &free_bytes, &total), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "cuda:0 is unusable since an earlier failure");
    fail_at(NULL, 0, 0);
    d->ops->close(d);
    assert_nothing_left();
}

/* ---- what drivers and devices lack ---- */

/* Opens on a driver without one of its functions; which one is said by its place in the table. */
static tidei_device *open_without(size_t at, tidei_cu *table) {
    void *none = NULL;
    *table = driver;
    memcpy((char *)table + at, &none, sizeof none);
    tidei_cu_use(table);
    return open_double();
}
static void close_without(tidei_device *d) {
    d->ops->close(d);
    tidei_cu_use(&driver);
    assert_nothing_left();
}
#define FUNCTION(name) offsetof(tidei_cu, name)

static void functions_that_lack_are_done_without(void **state) {
    static const size_t pages_of[] = {FUNCTION(cuMemAddressReserve),
                                      FUNCTION(cuMemAddressFree),
                                      FUNCTION(cuMemCreate),
                                      FUNCTION(cuMemRelease),
                                      FUNCTION(cuMemMap),
                                      FUNCTION(cuMemUnmap),
                                      FUNCTION(cuMemSetAccess),
                                      FUNCTION(cuMemGetAllocationGranularity)};
    static const size_t pools_of[] = {
        FUNCTION(cuMemPoolCreate),         FUNCTION(cuMemPoolDestroy),
        FUNCTION(cuMemPoolSetAttribute),   FUNCTION(cuMemPoolGetAttribute),
        FUNCTION(cuMemPoolTrimTo),         FUNCTION(cuMemPoolSetAccess),
        FUNCTION(cuMemAllocFromPoolAsync), FUNCTION(cuMemFreeAsync)};
    tidei_cu table;
    tidei_dmempool *mp;
    tidei_dstream *s;
    tidei_addr a;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(pages_of); i++) {
        tidei_device *d = open_without(pages_of[i], &table);
        assert_false(d->info.flags & TIDEI_DEV_PAGES);
        assert_int_equal(d->info.page_bytes, PAGE); /* what limits are rounded to */
        assert_ok(d->ops->mempool_new(d, &mp));
        d->ops->mempool_release(d, mp);
        close_without(d);
    }
    for (size_t i = 0; i < TIDEI_COUNT(pools_of); i++) {
        tidei_device *d = open_without(pools_of[i], &table);
        assert_true(d->info.flags & TIDEI_DEV_PAGES);
        assert_int_equal(d->ops->mempool_new(d, &mp), TIDE_E_UNSUPPORTED);
        assert_error(TIDE_E_UNSUPPORTED, "no stream-ordered memory pools");
        close_without(d);
    }
    tidei_device *d = open_without(FUNCTION(cuMemAllocManaged), &table);
    assert_false(d->info.flags & TIDEI_DEV_UNIFIED);
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 4, &a), TIDE_E_UNSUPPORTED);
    close_without(d);
    d = open_without(FUNCTION(cuStreamWriteValue64), &table);
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->publish(d, s, 3)); /* by an event */
    assert_int_equal(d->ops->completed(d, s), 3);
    d->ops->stream_release(d, s);
    close_without(d);
    /* Before 12.2 unified memory goes where it is touched. */
    d = open_without(FUNCTION(cuMemPrefetchAsync), &table);
    table.cuMemAdvise = NULL;
    int calls = fake.calls;
    assert_ok(d->ops->prefetch(d, NULL, 0, 100, true));
    assert_ok(d->ops->advise(d, 0, 100, TIDEI_ADVICE_HOST));
    assert_int_equal(fake.calls, calls);
    close_without(d);
}

static void abilities_that_lack_are_told(void **state) {
    tidei_device *d = NULL;
    tidei_device_params p = {0};
    (void)state;
    fake.nlacks = 1;
    fake.lacks[0] = TIDEI_CU_ATTR_VIRTUAL_MEMORY_MANAGEMENT;
    d = open_double();
    assert_false(d->info.flags & TIDEI_DEV_PAGES);
    assert_int_equal(d->info.page_bytes, PAGE);
    d->ops->close(d);
    fake.lacks[0] = TIDEI_CU_ATTR_UNIFIED_ADDRESSING;
    d = NULL;
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NODEVICE);
    assert_error(TIDE_E_NODEVICE, "cuda:0 (Double) shares no address space with the host");
    fake.lacks[0] = TIDEI_CU_ATTR_COMPUTE_CAPABILITY_MAJOR;
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "compiles for sm_75 and newer, this GPU is sm_0");
    fake.nlacks = 0;
    p.ordinal = -1;
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NODEVICE);
    fake.devices = 2, p.ordinal = 2;
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NODEVICE);
    assert_error(TIDE_E_NODEVICE, "there is no cuda:2: the driver shows 2 GPUs");
    assert_null(d);
    assert_nothing_left();
    fake.granule = 1; /* it says none */
    fake.total = SIZE_MAX / 4;
    d = open_double();
    assert_int_equal(d->info.page_bytes, PAGE);
    /* no eight of them fit */
    assert_int_equal(d->info.va_bytes, tidei_round_up(SIZE_MAX / 4, PAGE));
    d->ops->close(d);
    fake.granule = 1 + 8 * PAGE;
    fake.total = 0;
    d = open_double();
    assert_int_equal(d->info.page_bytes, 8 * PAGE);
    d->ops->close(d);
    assert_nothing_left();
}

/* ---- streams ---- */

static void more_streams_than_fit_are_refused(void **state) {
    static tidei_dstream *s[TIDEI_STREAMS_MAX];
    tidei_dstream *more = NULL;
    (void)state;
    tidei_device *d = open_double();
    for (int i = 0; i < TIDEI_STREAMS_MAX; i++) assert_ok(d->ops->stream_new(d, &s[i]));
    assert_int_equal(d->ops->stream_new(d, &more), TIDE_E_DEVICE);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "cuda:0 has %d streams, the most there can be",
             TIDEI_STREAMS_MAX);
    assert_error(TIDE_E_DEVICE, wanted);
    assert_int_equal(d->ops->stream_adopt(d, NULL, &more), TIDE_E_DEVICE);
    assert_null(more);
    d->ops->stream_release(d, s[TIDEI_STREAMS_MAX - 1]);
    assert_ok(d->ops->stream_adopt(d, NULL, &more));
    assert_int_equal(fake.streams, TIDEI_STREAMS_MAX - 1);
    d->ops->stream_release(d, more);
    for (int i = TIDEI_STREAMS_MAX - 1; i-- > 0;) d->ops->stream_release(d, s[i]);
    d->ops->close(d);
    assert_nothing_left();
}

/* CUDA's default streams are any context's; of some streams the driver does not tell whose they
** are. */
static void streams_of_others_are_adopted_or_refused(void **state) {
    tidei_dstream *a, *b, *c;
    (void)state;
    tidei_device *d = open_double();
    fail_at("cuStreamGetCtx", 0, TIDEI_CU_INVALID_VALUE);
    assert_ok(d->ops->stream_adopt(d, NULL, &a));
    assert_ptr_equal(d->ops->stream_native(d, a), TIDEI_CU_STREAM_LEGACY);
    assert_ok(d->ops->stream_adopt(d, TIDEI_CU_STREAM_PER_THREAD, &b));
    assert_int_equal(d->ops->stream_adopt(d, &stream_storage[3], &c), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "cuStreamGetCtx");
    fail_at("cuStreamGetCtx", 0, TIDEI_CU_NOT_SUPPORTED);
    assert_ok(d->ops->stream_adopt(d, &stream_storage[3], &c));
    int calls = fake.calls;
    d->ops->stream_release(d, a);
    d->ops->stream_release(d, b);
    d->ops->stream_release(d, c);
    assert_int_equal(fake.calls, calls); /* they stay their owners' */
    d->ops->close(d);
    assert_nothing_left();
}

/* ---- unified memory, copies and kernels ---- */

static void unified_memory_does_not_wrap(void **state) {
    tidei_addr a, b;
    (void)state;
    fake.free_bytes = 1000;
    tidei_device *d = open_double();
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 100, &a));
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, SIZE_MAX - 50, &b), TIDE_E_NOMEM);
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 900, &b));
    d->ops->raw_free(d, TIDEI_MEM_UNIFIED, a, 100);
    d->ops->raw_free(d, TIDEI_MEM_UNIFIED, b, 900);
    d->ops->close(d);
    assert_nothing_left();
}

static void nothing_to_do_calls_nothing(void **state) {
    tidei_dstream *s;
    tidei_dkernel *k;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    int calls = fake.calls;
    assert_ok(d->ops->fill(d, s, 0, "", 1, 0));
    assert_ok(d->ops->map(d, PAGE, NULL, 0));
    assert_ok(d->ops->unmap(d, PAGE, NULL, 0));
    assert_ok(d->ops->copy_many(d, s, NULL, 0));
    assert_int_equal(fake.calls, calls);
    assert_ok(d->ops->kernel_new(d, &(tidei_kernel_text){.name = "nothing", .source = "text"}, &k,
                                 NULL, NULL));
    tidei_launch l = {.name = "nothing", .kernel = k, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    memset(fake.params, 'x', sizeof fake.params);
    assert_ok(d->ops->launch(d, s, &l)); /* a kernel without parameters */
    assert_int_equal(fake.params[0], 'x');
    d->ops->kernel_release(d, k);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* ---- host memory ---- */

static tidei_runtime bare; /* only its host memory is asked for */
static tide_status opened_bare(tidei_device **d) {
    return tidei_cuda_open(&(tidei_device_params){.rt = &bare, .ordinal = 0}, d);
}
static void missing_host_memory_is_told(void **state) {
    static const task all[] = {
        {"pages", pages, false, 1}, {"kernels", kernels, false, 1}, {"pools", pools, false, 1}};
    tidei_device *d = NULL;
    (void)state;
    bare.host = hooked;
    atomic_store(&hook.calls, 0);
    atomic_store(&hook.fail_at, 1);
    assert_int_equal(opened_bare(&d), TIDE_E_HOST_NOMEM);
    assert_null(d);
    for (size_t i = 0; i < TIDEI_COUNT(all); i++) {
        uint64_t n = 0;
        tide_status s = TIDE_E_HOST_NOMEM;
        atomic_store(&hook.fail_at, 0);
        assert_ok(opened_bare(&d));
        while (s != TIDE_OK) {
            long before[BOOKS], held = atomic_load(&hook.held);
            look(before);
            atomic_store(&hook.fail_at, atomic_load(&hook.calls) + ++n);
            s = all[i].part(&d);
            assert_true(s == TIDE_OK || s == TIDE_E_HOST_NOMEM);
            assert_as_before(all[i].name, before);
            assert_int_equal(atomic_load(&hook.held), held);
        }
        assert_true(n > 1);
        atomic_store(&hook.fail_at, 0);
        d->ops->close(d);
    }
    assert_int_equal(atomic_load(&hook.held), 0);
    assert_nothing_left();
}

/* ---- peers ---- */

static void refused_peers_are_told(void **state) {
    (void)state;
    fake.devices = 2;
    tidei_device *a = open_ordinal(0), *b = open_ordinal(1);
    fail_at("cuCtxEnablePeerAccess", 0, TIDEI_CU_PEER_ACCESS_UNSUPPORTED);
    assert_int_equal(a->ops->peer_enable(a, b), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "cuda:0 cannot have access to cuda:1: the driver refuses");
    fail_at("cuCtxEnablePeerAccess", 0, TIDEI_CU_TOO_MANY_PEERS);
    assert_int_equal(a->ops->peer_enable(a, b), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "cuda:0 cannot have access to cuda:1: it has too many peers");
    fail_at(NULL, 0, 0);
    assert_ok(a->ops->peer_enable(a, b));
    a->ops->close(a);
    b->ops->close(b);
    assert_nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(every_call_of_opening_may_fail),
        CASE(every_call_for_pages_may_fail),
        CASE(every_call_for_raw_memory_may_fail),
        CASE(every_call_of_streams_may_fail),
        CASE(every_call_of_copies_may_fail),
        CASE(every_call_of_kernels_may_fail),
        CASE(every_call_of_pools_may_fail),
        CASE(every_call_of_peers_may_fail),
        CASE(a_lost_device_takes_no_calls),
        CASE(a_forks_child_makes_no_calls),
        CASE(fatal_errors_end_a_device),
        CASE(errors_without_words_are_told_by_number),
        CASE(functions_that_lack_are_done_without),
        CASE(abilities_that_lack_are_told),
        CASE(more_streams_than_fit_are_refused),
        CASE(streams_of_others_are_adopted_or_refused),
        CASE(unified_memory_does_not_wrap),
        CASE(nothing_to_do_calls_nothing),
        CASE(missing_host_memory_is_told),
        CASE(refused_peers_are_told),
    };
    return cmocka_run_group_tests_name("cuda_failures", tests, NULL, NULL);
}
