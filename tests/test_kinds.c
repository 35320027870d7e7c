/* test_kinds.c: kinds of memory: copies among them, which kind a result has, the host's own reads and writes, single elements,
** prefetch and advice, figures, limits, and what is collected for them. Where a case ports one of another library's suite, its
** number there (T9, T14, T23) is in the name. */
#include "tests/mock_tracer.h"
#include "tests/works.h"
#include "gc/collector.h"
#include "runtime/pools.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define MIB TIDEI_MIB

static const tide_memory kinds[] = {TIDE_MEMORY_DEVICE, TIDE_MEMORY_PINNED, TIDE_MEMORY_UNIFIED};
#define KINDS ((int)TIDEI_COUNT(kinds))
static const char *const names[] = {"default", "device", "pinned", "unified"};

static tide_config config(void) {
    return (tide_config){.struct_size = sizeof(tide_config), .collector = "refcount", .debug = 1, .log = keep_line};
}

/* One that counts references, with the checker on where there is one. */
static tide_runtime *open_plain(void) {
    tide_config c = config();
    return test_open(&c);
}

/* Closes, having looked whether all is in order. */
static void close_silent(tide_runtime *rt) {
    tidei_device *d = rt->devs[0].d;
    assert_ok(tide_device_synchronize(rt));
    assert_true(tidei_runtime_valid(rt));
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(d), 0);
    tide_close(rt);
}

static tide_array *moved(tide_array *a, tide_memory kind) {
    tide_array *b = tide_to_memory(a, kind);
    assert_array(b);
    assert_int_equal(tide_array_memory(b), kind);
    tide_release(a);
    return b;
}

static tide_array *counting(tide_runtime *rt, tide_memory kind, int64_t n) {
    tide_array *a = tide_arange(rt, TIDE_F32, 0, (double)n, 1);
    assert_array(a);
    return moved(a, kind);
}

static void assert_counts(tide_array *a, int64_t n, float from) {
    float *got = malloc((size_t)n * sizeof *got);
    assert_int_equal(tide_size(a), n);
    assert_ok(tide_to_host(a, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != from + (float)i) fail_msg("element %d is %g", (int)i, (double)got[i]);
    free(got);
}

static tide_memory_information info(tide_runtime *rt) {
    tide_memory_information m = {.struct_size = sizeof m};
    assert_ok(tide_memory_info(rt, &m));
    return m;
}

/* ---- copies, and the kind of results ---- */

/* By every pool that can be: device memory from it, the other kinds from it or from what stands in for it. */
static void T9_copies_among_all_kinds(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_config c = config();
        c.pool = test_pool(p);
        tide_runtime *rt = test_open(&c);
        for (int i = 0; i < KINDS; i++)
            for (int j = 0; j < KINDS; j++) {
                tide_array *a = counting(rt, kinds[i], 5000);
                tide_array *b = tide_to_memory(a, kinds[j]);
                assert_array(b);
                assert_int_equal(tide_array_memory(b), kinds[j]);
                assert_counts(b, 5000, 0);
                tide_array *d = tide_empty_in(rt, kinds[j], TIDE_F32, SHAPE(5000)); /* into one there is */
                assert_ok(tide_assign(d, a));
                assert_counts(d, 5000, 0);
                tide_release(a);
                tide_release(b);
                tide_release(d);
            }
        close_silent(rt);
    }
}

static void T14_copies_keep_the_kind(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    for (int i = 0; i < KINDS; i++) {
        tide_array *flat = counting(rt, kinds[i], 12), *a = tide_reshape(flat, SHAPE(3, 4));
        tide_array *t = tide_transpose(a, NULL);
        tide_array *made[] = {a,
                              t,
                              tide_copy(t),
                              tide_cast(a, TIDE_F64),
                              tide_contiguous(a),
                              tide_contiguous(t),
                              tide_reshape(t, SHAPE(12))};
        for (unsigned k = 0; k < TIDEI_COUNT(made); k++) {
            assert_array(made[k]);
            assert_int_equal(tide_array_memory(made[k]), kinds[i]);
        }
        tide_array *sum = tide_map(rt, "(a) -> a + 1", a); /* what an operation makes is of the default kind */
        assert_int_equal(tide_array_memory(sum), TIDE_MEMORY_DEVICE);
        assert_counts(sum, 12, 1);
        for (unsigned k = 0; k < TIDEI_COUNT(made); k++) tide_release(made[k]);
        tide_release(sum);
        tide_release(flat);
    }
    close_silent(rt);
}

static void the_default_kind_is_configured(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++)
        for (int by_config = 0; by_config < 2; by_config++) {
            tide_config c = config();
            if (by_config)
                c.default_memory = names[kinds[i]];
            else
                setenv("TIDE_DEFAULT_MEMORY", names[kinds[i]], 1);
            tide_runtime *rt = test_open(&c);
            unsetenv("TIDE_DEFAULT_MEMORY");
            tide_array *a = tide_arange(rt, TIDE_F32, 0, 300, 1), *b = tide_map(rt, "(a) -> a*2 - a", a);
            tide_array *sum = tide_map(rt, "(a) -> sum(a)", b), *device = tide_to_memory(b, TIDE_MEMORY_DEVICE);
            tide_array *same = tide_copy(device), *usual = tide_to_memory(device, TIDE_MEMORY_DEFAULT);
            assert_int_equal(tide_array_memory(a), kinds[i]);
            assert_int_equal(tide_array_memory(b), kinds[i]);
            assert_int_equal(tide_array_memory(sum), kinds[i]);
            assert_int_equal(tide_array_memory(same), TIDE_MEMORY_DEVICE);
            assert_int_equal(tide_array_memory(usual), kinds[i]);
            assert_counts(usual, 300, 0);
            assert_true(tide_item_f64(sum) == 299 * 150);
            tide_pool *x = NULL; /* a pool that the thread sets goes before the default */
            assert_ok(tide_pool_new(rt, NULL, &x));
            assert_ok(tide_pool_set(rt, x));
            tide_array *there = tide_zeros(rt, TIDE_F32, SHAPE(10));
            assert_int_equal(tide_array_memory(there), TIDE_MEMORY_DEVICE);
            assert_ok(tide_pool_set(rt, NULL));
            tide_pool_release(x);

            tide_array *again = tide_zeros(rt, TIDE_F32, SHAPE(10));
            assert_int_equal(tide_array_memory(again), kinds[i]);
            tide_array *all[] = {a, b, sum, device, same, usual, there, again};
            for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
            close_silent(rt);
        }
}

static void a_bad_default_kind_is_an_error_or_a_warning(void **state) {
    (void)state;
    tide_config c = config();
    tide_runtime *rt;
    c.device = test_device();
    c.default_memory = "managed";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "TIDE_DEFAULT_MEMORY is \"managed\"; wanted: device, pinned or unified");
    c.default_memory = NULL;
    logged.n = 0;
    c.log_level = TIDE_LOG_WARNING;
    setenv("TIDE_DEFAULT_MEMORY", "managed", 1);
    assert_ok(tide_open(&c, &rt));
    unsetenv("TIDE_DEFAULT_MEMORY");
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_DEFAULT_MEMORY=managed is not understood"), 1);
    assert_null(tide_empty_in(rt, 4, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "4 is no kind of memory");
    assert_null(tide_empty_in(rt, -1, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "-1 is no kind of memory");
    assert_null(tide_to_memory(NULL, TIDE_MEMORY_PINNED));
    tide_clear_error();
    assert_int_equal(tide_array_memory(NULL), -1);
    tide_close(rt);
}

/* A device that lacks unified memory. */
static void unified_memory_may_be_missing(void **state) {
    tide_runtime *rt;
    (void)state;
    for (int how = 0; how < 3; how++) {
        tidei_device *d;
        tide_config c = config();
        assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = 16 * MIB}, &d));
        d->info.flags &= ~TIDEI_DEV_UNIFIED;
        logged.n = 0;
        c.log_level = TIDE_LOG_WARNING;
        if (how == 1) c.default_memory = "unified";
        if (how == 2) setenv("TIDE_DEFAULT_MEMORY", "unified", 1);
        tide_status s = tidei_open_on(&c, d, &rt);
        unsetenv("TIDE_DEFAULT_MEMORY");
        assert_int_equal(s, how == 1 ? TIDE_E_UNSUPPORTED : TIDE_OK);
        if (how == 1) continue;
        assert_int_equal(lines_with(TIDE_LOG_WARNING, "TIDE_DEFAULT_MEMORY=unified: host:0 has no unified memory"),
                         how == 2);
        tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
        assert_int_equal(tide_array_memory(a), TIDE_MEMORY_DEVICE);
        assert_null(tide_to_memory(a, TIDE_MEMORY_UNIFIED));
        assert_error(TIDE_E_UNSUPPORTED, "no unified memory");
        tide_array *b = tide_to_memory(a, TIDE_MEMORY_PINNED);
        assert_array(b);
        tide_release(a);
        tide_release(b);
        tide_close(rt);
    }
}

/* Operations do not care what kind their operands are. */
static void operations_take_all_kinds(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    for (int i = 0; i < KINDS; i++)
        for (int j = 0; j < KINDS; j++) {
            tide_array *a = counting(rt, kinds[i], 64), *b = counting(rt, kinds[j], 64);
            tide_array *m = tide_reshape(a, SHAPE(8, 8)), *n = tide_reshape(b, SHAPE(8, 8));
            tide_array *product = tide_matmul(m, n), *sum = tide_map(rt, "(a, b) -> sum(a - b + 1)", a, b);
            assert_array(product);
            assert_true(tide_item_f64(sum) == 64);
            assert_ok(tide_map_into(b, "(a, b) -> a + b - b", a, b)); /* into any kind too */
            assert_ok(tide_fill(m, tide_arg_int(2)));
            assert_counts(b, 64, 0);
            tide_array *all[] = {a, b, m, n, product, sum};
            for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
        }
    close_silent(rt);
}

/* ---- the host reads and writes ---- */

/* Work that stands at a gate, then does something to the array. */
struct gated {
    atomic_int open, done;
    float *p;
    int64_t n;
    float add;
    double sum;
};
static void gated_write(void *arg) {
    struct gated *g = arg;
    while (!atomic_load(&g->open)) sched_yield();
    for (int64_t i = 0; i < g->n; i++) g->p[i] += g->add;
    atomic_store(&g->done, 1);
}
static void gated_read(void *arg) {
    struct gated *g = arg;
    while (!atomic_load(&g->open)) sched_yield();
    for (int64_t i = 0; i < g->n; i++) g->sum += g->p[i];
    atomic_store(&g->done, 1);
}
static void queue_gated(tide_runtime *rt, tide_stream *s, tide_array *a, bool writes, struct gated *g) {
    tide_use use = {.array = a, .mode = writes ? TIDE_READ | TIDE_WRITE : TIDE_READ};
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_use_begin(rt, s, &use, 1, &p, &scope));
    g->p = p;
    g->n = tide_size(a);
    assert_ok(tide_host_launch(scope, writes ? gated_write : gated_read, g));
    assert_ok(tide_use_end(scope));
}
static void *open_gate(void *arg) {
    usleep(1000); /* so that somebody waits by then, usually: either way it must be right */
    atomic_store(&((struct gated *)arg)->open, 1);
    return NULL;
}

/* Every mode waits for writers on other streams; who writes, for readers too, and who reads, for them not. */
static void a_view_waits_for_what_it_must(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    tide_runtime *rt = open_plain();
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    for (int i = 1; i < KINDS; i++)
        for (int mode = TIDE_READ; mode <= (TIDE_READ | TIDE_WRITE); mode++)
            for (int writes = 0; writes < 2; writes++) {
                struct gated g = {.add = 3};
                tide_array *a = counting(rt, kinds[i], 100);
                tide_host_view v;
                pthread_t opener;
                bool waits = writes || mode & TIDE_WRITE;
                queue_gated(rt, s, a, writes, &g);
                if (waits) assert_int_equal(pthread_create(&opener, NULL, open_gate, &g), 0);
                assert_ok(tide_host_begin(a, mode, &v));
                assert_int_equal(atomic_load(&g.done), waits);
                assert_int_equal(v.ndim, 1);
                assert_int_equal(v.dtype, TIDE_F32);
                assert_int_equal(v.shape[0], 100);
                for (int64_t k = 0; k < 100; k++)
                    assert_true(TIDE_AT(float, &v, k) == (float)k + (writes ? 3.0f : 0.0f));
                assert_ok(tide_host_end(&v));
                if (waits)
                    pthread_join(opener, NULL);
                else
                    open_gate(&g);
                assert_ok(tide_synchronize(rt, s));
                tide_release(a);
            }
    tide_stream_release(s);
    close_silent(rt);
}

/* What the host wrote is there for later work on any stream. */
static void what_the_host_wrote_is_seen(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    for (int i = 1; i < KINDS; i++) {
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_F32, SHAPE(7, 9));
        for (int round = 0; round < 5; round++) {
            tide_host_view v;
            assert_ok(tide_host_begin(a, TIDE_WRITE, &v));
            for (int64_t k = 0; k < 7; k++)
                for (int64_t l = 0; l < 9; l++) TIDE_AT(float, &v, k, l) = (float)(round + 9 * k + l);
            assert_ok(tide_host_end(&v));
            assert_ok(tide_stream_set(rt, round % 2 ? s : NULL));
            tide_array *b = tide_map(rt, "(a) -> a + 1", a);
            assert_counts(b, 63, (float)(round + 1));
            tide_release(b);
        }
        assert_ok(tide_stream_set(rt, NULL));
        tide_release(a);
    }
    tide_stream_release(s);
    close_silent(rt);
}

/* Views of views: strides of any sign, an offset, rank 0 and 8, empty ones. */
static void views_have_strides(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *flat = counting(rt, TIDE_MEMORY_UNIFIED, 24), *a = tide_reshape(flat, SHAPE(4, 6));
    tide_array *b = tide_slice(a, "::-2, 1::2"), *one = tide_slice(a, "2, 3"), *none = tide_slice(a, "0:0");
    tide_array *deep = tide_reshape(flat, SHAPE(1, 2, 1, 3, 1, 2, 2, 1));
    tide_host_view v;
    assert_ok(tide_host_begin(b, TIDE_READ | TIDE_WRITE, &v));
    assert_int_equal(v.shape[0], 2);
    assert_int_equal(v.shape[1], 3);
    assert_int_equal(v.strides[0], -12);
    assert_true(TIDE_AT(float, &v, 0, 0) == 19 && TIDE_AT(float, &v, 1, 2) == 11);
    TIDE_AT(float, &v, 1, 2) += 100;
    assert_ok(tide_host_end(&v));
    assert_ok(tide_host_begin(one, TIDE_READ, &v));
    assert_int_equal(v.ndim, 0);
    assert_true(TIDE_AT(float, &v, 0) == 15);
    assert_ok(tide_host_end(&v));
    assert_ok(tide_host_begin(deep, TIDE_READ, &v));
    assert_true(TIDE_AT(float, &v, 0, 1, 0, 2, 0, 1, 0, 0) == 22);
    assert_ok(tide_host_end(&v));
    assert_ok(tide_host_begin(none, TIDE_WRITE, &v));
    assert_int_equal(v.shape[0], 0);
    assert_ok(tide_host_end(&v));
    tide_array *empty = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(0, 3));
    assert_ok(tide_host_begin(empty, TIDE_WRITE, &v));
    assert_null(v.data);
    assert_ok(tide_host_end(&v));
    tide_arg item;
    assert_ok(tide_get(a, (const int64_t[]){1, 5}, &item));
    assert_true(item.value.f == 111);
    tide_array *all[] = {flat, a, b, one, none, deep, empty};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    close_silent(rt);
}

/* Also on a host device, so that what is tested there runs on a GPU. */
static void device_memory_is_out_of_reach(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
    tide_host_view v;
    assert_int_equal(tide_host_begin(a, TIDE_READ, &v), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "in device memory");
    assert_error(TIDE_E_UNSUPPORTED, "tide_to_host");
    assert_error(TIDE_E_UNSUPPORTED, "TIDE_DEFAULT_MEMORY=unified");
    tide_array *p = moved(a, TIDE_MEMORY_PINNED);
    assert_int_equal(tide_host_begin(p, 0, &v), TIDE_E_INVALID);
    assert_int_equal(tide_host_begin(p, 4, &v), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "mode 4 is none of TIDE_READ, TIDE_WRITE, or both");
    assert_int_equal(tide_host_begin(p, TIDE_READ, NULL), TIDE_E_INVALID);
    tide_clear_error();
    assert_int_equal(tide_host_begin(NULL, TIDE_READ, &v), TIDE_E_INVALID);
    assert_int_equal(tide_host_end(NULL), TIDE_E_INVALID);
    memset(&v, 0, sizeof v);
    assert_int_equal(tide_host_end(&v), TIDE_E_INVALID);
    tide_retain(p);
    tide_free(p);
    assert_int_equal(tide_host_begin(p, TIDE_READ, &v), TIDE_E_FREED);
    tide_release(p);
    tide_release(p);
    close_silent(rt);
}

static void a_view_keeps_its_memory(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *a = counting(rt, TIDE_MEMORY_PINNED, 1000);
    tide_host_view v, copy;
    assert_ok(tide_host_begin(a, TIDE_READ, &v));
    tide_release(a);
    assert_int_equal(info(rt).pinned.live, 4000);
    tide_array *others[8];
    for (int i = 0; i < 8; i++) {
        others[i] = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(1000));
        assert_ok(tide_fill(others[i], tide_arg_int(-1)));
    }
    assert_ok(tide_device_synchronize(rt));
    for (int64_t i = 0; i < 1000; i++) assert_true(TIDE_AT(float, &v, i) == (float)i);
    copy = v;
    assert_ok(tide_host_end(&v));
    assert_int_equal(tide_host_end(&v), TIDE_E_INVALID);
    assert_int_equal(tide_host_end(&copy), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "ended before");
    assert_int_equal(info(rt).pinned.live, 8 * 4000);
    for (int i = 0; i < 8; i++) tide_release(others[i]);
    close_silent(rt);
}

static _Atomic long held; /* pieces of the host's memory */
static void *counted_alloc(void *user, size_t n) { return (void)user, atomic_fetch_add(&held, 1), malloc(n); }
static void counted_free(void *user, void *p) {
    (void)user;
    if (p) atomic_fetch_sub(&held, 1);
    free(p);
}

static void closing_with_views_open(void **state) {
    tide_host_view v[3];
    (void)state;
    for (int round = 0; round < 2; round++) {
        static const tide_host_memory counted = {counted_alloc, counted_free, NULL};
        tide_config c = config();
        c.host = &counted;
        tide_runtime *rt = test_open(&c);
        for (int i = 0; i < 3; i++) {
            tide_array *a = counting(rt, kinds[1 + i % 2], 100 + i);
            assert_ok(tide_host_begin(a, TIDE_READ | TIDE_WRITE, &v[i]));
            tide_release(a);
        }
        assert_ok(tide_host_end(&v[1]));
        tide_close(rt);
        assert_int_equal(tide_host_end(&v[0]), TIDE_E_CLOSED);
        assert_int_equal(tide_host_end(&v[2]), TIDE_E_CLOSED);
        assert_int_equal(tide_host_end(&v[2]), TIDE_E_INVALID);
        assert_int_equal(atomic_load(&held), 0);
    }
}

/* ---- the checker ---- */

static unsigned found(tide_runtime *rt) {
    return test_on_host() ? (unsigned)tidei_host_checker_reports(rt->devs[0].d) : 0;
}

/* A wait that was left out is reported, whatever the schedule: views and single elements. */
static void a_missing_wait_is_reported(void **state) {
#if defined(__SANITIZE_THREAD__)
    skip(); /* it would find it first */
#endif
    (void)state;
    if (!test_on_host()) skip();
    for (int i = 1; i < KINDS; i++)
        for (int single = 0; single < 2; single++) {
            tide_config c = config();
            logged.n = 0;
            c.log_level = TIDE_LOG_WARNING;
            tide_runtime *rt = test_open(&c);
            struct gated g = {.add = 1};
            tide_array *a = counting(rt, kinds[i], 100);
            tide_host_view v;
            tide_arg item;
            assert_ok(tide_device_synchronize(rt));
            queue_gated(rt, NULL, a, true, &g);
            rt->skip_waits = true;
            if (single)
                assert_ok(tide_get(a, (const int64_t[]){50}, &item));
            else {
                assert_ok(tide_host_begin(a, TIDE_READ, &v));
                assert_ok(tide_host_end(&v));
            }
            rt->skip_waits = false;
            open_gate(&g);
            assert_ok(tide_device_synchronize(rt));
            assert_int_equal(found(rt), 1);
            assert_int_equal(lines_with(TIDE_LOG_WARNING, single ? "tide_get on the host reads"
                                                                 : "tide_host_begin on the host reads"),
                             1);
            assert_int_equal(lines_with(TIDE_LOG_WARNING, "which tide_host_launch on stream"), 1);
            tide_release(a);
            tide_close(rt);
        }
}

/* Work queued while a view is open that the view does not leave alone. */
static void work_during_a_view_is_reported(void **state) {
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
    (void)state;
    if (!test_on_host()) skip();
    const struct {
        int host;
        bool work_writes, bad;
    } cases[] = {{TIDE_READ, false, false},
                 {TIDE_READ, true, true},
                 {TIDE_WRITE, false, true},
                 {TIDE_WRITE, true, true},
                 {TIDE_READ | TIDE_WRITE, false, true}};
    for (unsigned k = 0; k < TIDEI_COUNT(cases); k++) {
        tide_runtime *rt = open_plain();
        tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 100), *apart = tide_slice(a, "50:");
        tide_array *mine = tide_slice(a, ":50");
        tide_host_view v;
        assert_ok(tide_host_begin(mine, cases[k].host, &v));
        assert_ok(tide_fill(apart, tide_arg_int(5))); /* the other half is nobody's concern */
        assert_int_equal(found(rt), 0);
        if (cases[k].work_writes)
            assert_ok(tide_fill(a, tide_arg_int(5)));
        else
            tide_release(tide_copy(a));
        assert_int_equal(found(rt), cases[k].bad);
        assert_ok(tide_host_end(&v));
        assert_ok(tide_fill(a, tide_arg_int(6)));
        assert_int_equal(found(rt), cases[k].bad);
        tide_release(a);
        tide_release(apart);
        tide_release(mine);
        tide_close(rt);
    }
}

/* ---- single elements ---- */

static void T23_single_elements(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    assert_int_equal(tide_allow_scalar(rt, 1), 0);
    assert_int_equal(tide_allow_scalar(rt, 1), 1);
    for (int i = 0; i < KINDS; i++) {
        tide_array *flat = tide_arange(rt, TIDE_I32, 0, 12, 1),
                   *a = moved(tide_reshape(flat, SHAPE(3, 4)), kinds[i]);
        tide_array *t = tide_transpose(a, NULL), *row = tide_slice(a, "1");
        tide_arg item;
        assert_ok(tide_get(a, (const int64_t[]){2, 1}, &item));
        assert_int_equal(item.kind, TIDE_ARG_INT);
        assert_int_equal(item.value.i, 9);
        assert_ok(tide_get(t, (const int64_t[]){-1, 0}, &item));
        assert_int_equal(item.value.i, 3);
        assert_ok(tide_set(row, (const int64_t[]){-1}, tide_arg_int(70)));
        tide_array *more = tide_map(rt, "(a) -> a + 1", a); /* sees it */
        int32_t got[12];
        assert_ok(tide_to_host(more, got, sizeof got));
        for (int k = 0; k < 12; k++) assert_int_equal(got[k], k == 7 ? 71 : k + 1);
        assert_int_equal(tide_get(a, (const int64_t[]){3, 0}, &item), TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, "index 3 of axis 0 is outside an array of shape (3, 4)");
        assert_int_equal(tide_set(a, (const int64_t[]){0, -5}, tide_arg_int(1)), TIDE_E_BOUNDS);
        assert_int_equal(tide_set(a, (const int64_t[]){0, 0}, tide_arg_float(0.5)), TIDE_E_DTYPE);
        assert_int_equal(tide_get(a, NULL, &item), TIDE_E_INVALID);
        assert_int_equal(tide_get(a, (const int64_t[]){0, 0}, NULL), TIDE_E_INVALID);
        tide_array *one = tide_slice(a, "1, 1");
        assert_ok(tide_get(one, NULL, &item));
        assert_int_equal(item.value.i, 5);
        tide_retain(one);
        tide_free(one);
        assert_int_equal(tide_get(one, NULL, &item), TIDE_E_FREED);
        tide_release(one);
        tide_array *all[] = {flat, a, t, row, more, one};
        for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    }
    close_silent(rt);
}

static void every_type_is_got_and_set(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        tide_array *a = tide_empty_in(rt, TIDE_MEMORY_PINNED, t, SHAPE(3));
        tide_arg item;
        for (int64_t i = 0; i < 3; i++) assert_ok(tide_set(a, &i, tide_arg_bool(i == 1)));
        for (int64_t i = 0; i < 3; i++) {
            assert_ok(tide_get(a, &i, &item));
            double v = item.kind == TIDE_ARG_FLOAT     ? item.value.f
                       : item.kind == TIDE_ARG_COMPLEX ? item.value.c[0]
                                                       : (double)item.value.i;
            assert_true(v == (i == 1));
        }
        tide_release(a);
    }
    close_silent(rt);
}

static void *get_one(void *arg) {
    static tide_status seen;
    tide_arg item;
    seen = tide_get(arg, (const int64_t[]){0}, &item);
    tide_thread_detach(tide_array_runtime(arg));
    return &seen;
}

/* Of device memory only where the thread has said so: the others' word does not count. */
static void T23_device_memory_wants_permission(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *a = tide_ones(rt, TIDE_F32, SHAPE(3));
    tide_arg item;
    pthread_t other;
    void *seen;
    assert_int_equal(tide_get(a, (const int64_t[]){0}, &item), TIDE_E_UNSUPPORTED);
    const char *remedies[] = {"tide_to_host", "tide_item", "tide_to_memory", "TIDE_DEFAULT_MEMORY=unified",
                              "tide_allow_scalar"};
    for (unsigned i = 0; i < TIDEI_COUNT(remedies); i++) assert_error(TIDE_E_UNSUPPORTED, remedies[i]);
    assert_int_equal(tide_set(a, (const int64_t[]){0}, tide_arg_int(2)), TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_allow_scalar(rt, 1), 0);
    assert_ok(tide_set(a, (const int64_t[]){0}, tide_arg_int(2)));
    assert_ok(tide_get(a, (const int64_t[]){0}, &item));
    assert_true(item.value.f == 2);
    assert_int_equal(pthread_create(&other, NULL, get_one, a), 0);
    pthread_join(other, &seen);
    assert_int_equal(*(tide_status *)seen, TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_allow_scalar(rt, 0), 1);
    assert_int_equal(tide_get(a, (const int64_t[]){0}, &item), TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_allow_scalar(NULL, 1), 0);
    tide_release(a);
    close_silent(rt);
}

/* ---- where unified memory is ---- */

/* A host device that notes what it is told. */
static struct {
    const struct tidei_device_ops *inner;
    struct tidei_device_ops ops;
    size_t prefetched[2];
    unsigned advised, undone;
    bool refuses;
    tidei_addr from;
    size_t bytes;
} told;
static tide_status note_prefetch(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes, bool to_host) {
    (void)d, (void)s;
    told.from = addr;
    told.prefetched[to_host] += bytes;
    return TIDE_OK;
}
static tide_status note_advice(tidei_device *d, tidei_addr addr, size_t bytes, tidei_advice advice) {
    (void)d;
    told.from = addr;
    told.bytes = bytes;
    if (told.refuses) return tidei_fail(TIDE_E_DEVICE, "told", "no advice today");
    if (advice == TIDEI_ADVICE_NONE)
        told.undone++;
    else
        told.advised++;
    return TIDE_OK;
}
static tide_runtime *open_told(void) {
    tidei_device *d;
    tide_runtime *rt;
    tide_config c = config();
    c.pool = "tide"; /* what stands in for it keeps what is freed */
    memset(&told, 0, sizeof told);
    assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = 64 * MIB, .host_checker = true}, &d));
    told.inner = d->ops;
    told.ops = *d->ops;
    told.ops.prefetch = note_prefetch;
    told.ops.advise = note_advice;
    d->ops = &told.ops;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

static void T9_prefetch_and_advice_by_range(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000), *part = tide_slice(a, "100:300:2");
    tide_host_view v;
    assert_ok(tide_host_begin(a, TIDE_READ, &v));
    tidei_addr at = (uintptr_t)v.data;
    assert_ok(tide_host_end(&v));
    assert_ok(tide_prefetch(a, 0, 1000, TIDE_TO_DEVICE));
    assert_ok(tide_prefetch(a, 1000, 0, TIDE_TO_DEVICE)); /* of nothing */
    assert_ok(tide_prefetch(a, 10, 20, TIDE_TO_HOST));
    assert_int_equal(told.prefetched[0], 4000);
    assert_int_equal(told.prefetched[1], 80);
    assert_int_equal(told.from, at + 40);
    assert_ok(tide_prefetch(part, 1, 198, TIDE_TO_HOST)); /* of the stretch that it spans */
    assert_int_equal(told.from, at + 404);
    assert_ok(tide_advise(a, 250, 250, TIDE_ADVISE_READ_MOSTLY));
    assert_int_equal(told.from, at + 1000);
    assert_int_equal(told.bytes, 1000);
    assert_int_equal(tide_prefetch(a, 0, 1001, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "1001 elements from 0 on reach beyond the 1000");
    assert_int_equal(tide_prefetch(a, 1001, 0, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_prefetch(a, INT64_MAX, INT64_MAX, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_prefetch(a, -1, 1, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_prefetch(part, 0, 200, TIDE_TO_DEVICE), TIDE_E_BOUNDS);
    assert_int_equal(tide_advise(a, 999, 2, TIDE_ADVISE_HOST), TIDE_E_BOUNDS);
    assert_int_equal(tide_prefetch(a, 0, 1, 2), TIDE_E_INVALID);
    assert_int_equal(tide_advise(a, 0, 1, 4), TIDE_E_INVALID);
    tide_array *pinned = counting(rt, TIDE_MEMORY_PINNED, 10), *device = counting(rt, TIDE_MEMORY_DEVICE, 10);
    assert_int_equal(tide_prefetch(pinned, 0, 1, TIDE_TO_DEVICE), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "in pinned memory");
    assert_int_equal(tide_advise(device, 0, 1, TIDE_ADVISE_HOST), TIDE_E_UNSUPPORTED);
    tide_array *all[] = {a, part, pinned, device};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    tide_close(rt);
}

/* Advice belongs to addresses: the next array there did not ask for it. */
static void advice_ends_with_the_array(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000);
    assert_ok(tide_advise(a, 0, 1000, TIDE_ADVISE_READ_MOSTLY));
    assert_ok(tide_advise(a, 0, 1000, TIDE_ADVISE_DEVICE));
    assert_ok(tide_advise(a, 10, 10, TIDE_ADVISE_HOST));
    assert_int_equal(told.advised, 3);
    tide_release(a);
    assert_ok(tide_device_synchronize(rt));
    assert_int_equal(told.undone, 0); /* whoever lets go does no device work */
    tide_array *b = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, 1); /* what was advised of it, at once */
    assert_int_equal(told.bytes, 4000);
    tide_array *other = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, 1);
    assert_ok(tide_advise(b, 0, 1000, TIDE_ADVISE_DEVICE)); /* still noted at the end */
    tide_release(b);
    tide_release(other);
    tide_close(rt);
}

/* However an array is advised, what is noted of it is one stretch; advice that was taken back, or refused, is not noted. */
static void notes_of_advice_stay_few(void **state) {
    (void)state;
    tide_runtime *rt = open_told();
    _Atomic size_t *notes = &rt->devs[0].nadvised;
    tide_array *a = counting(rt, TIDE_MEMORY_UNIFIED, 1000), *b = counting(rt, TIDE_MEMORY_UNIFIED, 1000);
    tide_array *late = tide_slice(b, "600:");
    for (int64_t i = 0; i < 1000; i++) {
        assert_ok(tide_advise(a, i, 1, i % 3 ? TIDE_ADVISE_DEVICE : TIDE_ADVISE_READ_MOSTLY));
        assert_int_equal(atomic_load(notes), 1);
    }
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(atomic_load(notes), 1);
        assert_ok(tide_advise(a, i, 1, TIDE_ADVISE_NONE));
    }
    assert_int_equal(atomic_load(notes), 0);
    assert_ok(tide_advise(a, 0, 1000, TIDE_ADVISE_NONE)); /* of what was not advised */
    told.refuses = true;
    assert_int_equal(tide_advise(a, 0, 1000, TIDE_ADVISE_HOST), TIDE_E_DEVICE);
    assert_int_equal(atomic_load(notes), 0);
    told.refuses = false;
    assert_ok(tide_advise(a, 100, 200, TIDE_ADVISE_HOST));
    assert_ok(tide_advise(b, 100, 200, TIDE_ADVISE_HOST));
    assert_ok(tide_advise(late, 0, 10, TIDE_ADVISE_HOST)); /* of the same block */
    assert_int_equal(atomic_load(notes), 2);
    told.refuses = true;
    assert_int_equal(tide_advise(a, 0, 1000, TIDE_ADVISE_NONE), TIDE_E_DEVICE); /* it still holds */
    assert_int_equal(atomic_load(notes), 2);
    told.refuses = false;
    assert_ok(tide_advise(a, 150, 50, TIDE_ADVISE_NONE)); /* leaves something on both sides */
    assert_ok(tide_advise(a, 250, 750, TIDE_ADVISE_NONE));
    assert_int_equal(atomic_load(notes), 2);
    tide_release(a);
    unsigned undone = told.undone;
    a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(1000));
    assert_int_equal(told.undone, undone + 1);
    assert_int_equal(told.bytes, 150 * 4);
    assert_int_equal(atomic_load(notes), 1); /* the other's stays */
    tide_array *all[] = {a, b, late};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    tide_close(rt);
}

/* ---- figures ---- */

static void figures_are_exact(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "none"; /* which keeps nothing */
    c.host_limit = "1GiB";
    tide_runtime *rt = test_open(&c);
    char text[2000];
    tide_memory_status(rt, text, sizeof text);
    assert_null(strstr(text, "pinned"));
    assert_null(strstr(text, "unified"));
    tide_memory_information before = info(rt);
    assert_int_equal(before.host_limit, (size_t)1 << 30);
    assert_int_equal(before.host_backed, 0);
    assert_true(before.free <= before.total && before.limit <= before.total);
    tide_array *a[3];
    for (int i = 0; i < KINDS; i++) assert_array(a[i] = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(1024 << i)));
    tide_memory_information m = info(rt);
    assert_int_equal(m.device.live, 1024);
    assert_int_equal(m.pinned.live, 2048);
    assert_int_equal(m.unified.live, 4096);
    assert_int_equal(m.pinned.backed, 2048);
    assert_int_equal(m.unified.backed, 4096);
    assert_int_equal(m.host_backed, 2048 + 4096);
    assert_int_equal(test_stats(rt).live, 1024 + 4096); /* what counts against the device's limits */
    if (test_on_host()) assert_int_equal(before.free - m.free, 1024 + 4096);
    size_t n = tide_memory_status(rt, text, sizeof text);
    assert_true(n < sizeof text && n == strlen(text));
    assert_non_null(strstr(text, "none pool usage: 1.000 KiB (1.000 KiB allocated, 0 bytes cached)\n"));
    assert_non_null(strstr(text, "pinned memory usage: 2.000 KiB (2.000 KiB allocated, 0 bytes cached)\n"));
    assert_non_null(strstr(text, "unified memory usage: 4.000 KiB"));
    assert_true(tide_memory_status(rt, NULL, 0) == n);
    for (int i = 0; i < KINDS; i++) tide_release(a[i]);
    m = info(rt);
    assert_int_equal(m.device.live + m.pinned.live + m.unified.live + m.host_backed, 0);
    tide_memory_information old = {.struct_size = offsetof(tide_memory_information, limit), .limit = 77};
    assert_ok(tide_memory_info(rt, &old)); /* an older caller's */
    assert_int_equal(old.limit, 77);
    old.struct_size = sizeof old + 1;
    assert_int_equal(tide_memory_info(rt, &old), TIDE_E_INVALID);
    assert_int_equal(tide_memory_info(rt, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_memory_info(NULL, &old), TIDE_E_INVALID);
    close_silent(rt);
}

/* Freed blocks are kept for the next array of that kind alone, and go back when asked for. */
static void blocks_of_a_kind_are_cached(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "tide";
    tide_runtime *rt = test_open(&c);
    for (int i = 1; i < KINDS; i++) {
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(100000));
        uint64_t backings = test_stats(rt).backings;
        size_t cached = info(rt).host_backed, freed;
        tide_release(a);
        for (int k = 0; k < 100; k++) {
            assert_array(a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(100000)));
            tide_release(a);
        }
        assert_int_equal(test_stats(rt).backings, backings);
        assert_int_equal(info(rt).host_backed, cached);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, &freed));
        assert_true(freed >= cached);
        assert_int_equal(info(rt).host_backed, 0);
    }
    close_silent(rt);
}

/* ---- limits ---- */

static void the_hosts_limit_holds(void **state) {
    (void)state;
    for (int i = 1; i < KINDS; i++) {
        tide_config c = config();
        c.host_limit = "4MiB";
        c.pool = "none";
        tide_runtime *rt = test_open(&c);
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(3 << 20));
        assert_array(a);
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(2 << 20)));
        assert_error(TIDE_E_HOST_NOMEM, "out of host memory for arrays");
        assert_error(TIDE_E_HOST_NOMEM, kinds[i] == TIDE_MEMORY_PINNED
                                            ? "2.000 MiB of pinned memory wanted by tide_empty_in"
                                            : "2.000 MiB of unified memory wanted by");
        assert_error(TIDE_E_HOST_NOMEM, "limit 4.000 MiB");
        assert_error(TIDE_E_HOST_NOMEM, "a limit of 5.000 MiB or more (5242880 bytes; TIDE_HOST_LIMIT)");
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(5 << 20))); /* no rung could help */
        assert_error(TIDE_E_HOST_NOMEM, "out of host memory");
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE((int64_t)1 << 60)));
        assert_error(TIDE_E_HOST_NOMEM, "the machine has less than that in all");
        tide_clear_error();
        tide_array *b = tide_empty(rt, TIDE_U8, SHAPE(2 << 20)); /* device memory is another budget */
        assert_array(b);
        tide_release(a);
        assert_array(a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(2 << 20)));
        assert_int_equal(tide_last_error()->status, TIDE_OK);
        tide_release(a);
        tide_release(b);
        close_silent(rt);
    }
}

/* A run with some arrays held and one that is to fit; returns the limit that the report names, 0 if it fits. */
static size_t run_within(const char *pool, tide_memory kind, const char *limit, int64_t last) {
    tide_config c = config();
    size_t wanted = 0;
    c.pool = pool;
    c.host_limit = limit;
    tide_runtime *rt = test_open(&c);
    tide_array *a[7];
    for (int i = 0; i < 7; i++) assert_array(a[i] = tide_empty_in(rt, kind, TIDE_U8, SHAPE(300001 + 1000 * i)));
    for (int i = 0; i < 6; i += 2) tide_release(a[i]); /* holes that it does not fit into */
    tide_array *b = tide_empty_in(rt, kind, TIDE_U8, SHAPE(last));
    if (!b) {
        const char *remedy = strstr(tide_last_error()->message, "remedy:");
        assert_int_equal(tide_last_error()->status, TIDE_E_HOST_NOMEM);
        assert_non_null(remedy);
        assert_int_equal(sscanf(strstr(remedy, " or more ("), " or more (%zu bytes", &wanted), 1);
        tide_clear_error();
    }
    tide_release(b);
    for (int i = 0; i < 7; i++)
        if (i >= 6 || i % 2) tide_release(a[i]);
    close_silent(rt);
    return wanted;
}

/* A limit as the report says is enough, whether the ladder was climbed or could not help. */
static void the_remedys_limit_is_enough(void **state) {
    static const char *const pools[] = {"tide", "split", "binned", "simple", "none"};
    static const int64_t lasts[] = {2000001, 2999999, 5000000, 12345678};
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(pools); p++)
        for (unsigned k = 0; k < TIDEI_COUNT(lasts); k++)
            for (int i = 1; i < KINDS; i++) {
                char limit[32];
                size_t wanted = run_within(pools[p], kinds[i], "4MiB", lasts[k]);
                if (!wanted) continue; /* fits */
                snprintf(limit, sizeof limit, "%zu", wanted);
                if (run_within(pools[p], kinds[i], limit, lasts[k]))
                    fail_msg("%s: %s of %s memory are not enough", pools[p], limit, names[kinds[i]]);
            }
}

static void unified_memory_keeps_to_the_devices_limit(void **state) {
    (void)state;
    tide_config c = config();
    c.limit = "8MiB";
    c.pool = "none";
    tide_runtime *rt = test_open(&c);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(5 << 20));
    assert_array(a);
    assert_null(tide_empty(rt, TIDE_U8, SHAPE(4 << 20)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_null(tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(4 << 20)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_int_equal(info(rt).host_backed, 5 << 20); /* what was refused counts nowhere */
    tide_clear_error();
    tide_array *b = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(4 << 20)); /* not the device's */
    assert_array(b);
    tide_release(a);
    assert_array(a = tide_empty(rt, TIDE_U8, SHAPE(4 << 20)));
    tide_release(a);
    tide_release(b);
    close_silent(rt);
}

/* A shape that no size_t holds is reported by kind too. */
static void absurd_shapes_are_reported_by_kind(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    const int64_t most = INT64_MAX;
    for (int i = 0; i < KINDS; i++) {
        tide_status status = kinds[i] == TIDE_MEMORY_DEVICE ? TIDE_E_NOMEM : TIDE_E_HOST_NOMEM;
        assert_null(tide_empty_in(rt, kinds[i], TIDE_F64, SHAPE(most, most)));
        assert_error(status, "16 EiB or more");
        if (kinds[i] != TIDE_MEMORY_DEVICE) assert_error(status, names[kinds[i]]);
    }
    assert_null(tide_empty_in(rt, 99, TIDE_F64, SHAPE(most, most)));
    assert_error(TIDE_E_INVALID, "99 is no kind of memory");
    tide_clear_error();
    close_silent(rt);
}

/* The pool `none` waits for what is parked, whichever budget it fills, before anything is climbed for it. */
static void none_waits_for_what_is_parked(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    for (int i = 0; i < KINDS; i++) {
        tide_config c = config();
        c.pool = "none";
        if (i)
            c.host_limit = "4MiB";
        else
            c.limit = "4MiB";
        tide_runtime *rt = test_open(&c);
        struct gated g = {0};
        pthread_t opener;
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_F32, SHAPE(3 << 18)), *b;
        assert_array(a);
        queue_gated(rt, NULL, a, false, &g);
        tide_release(a);
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE((4 << 20) + 1))); /* would not fit then either */
        tide_clear_error();
        assert_int_equal(atomic_load(&g.done), 0);
        assert_int_equal(pthread_create(&opener, NULL, open_gate, &g), 0);
        assert_array(b = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(3 << 20)));
        assert_int_equal(tide_last_error()->status, TIDE_OK);
        assert_int_equal(test_stats(rt).climbs, 0);
        pthread_join(opener, NULL);
        tide_release(b);
        close_silent(rt);
    }
}

/* The driver waits for the device before it takes other kinds back, and the soft limit waits for nothing. */
static void the_soft_limit_leaves_other_kinds_alone(void **state) {
    (void)state;
    tide_config c = config();
    c.soft_limit = "16MiB";
    c.pool = "tide";
    tide_runtime *rt = test_open(&c);
    for (int i = 1; i < KINDS; i++) tide_release(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(12 << 20)));
    tide_release(tide_empty(rt, TIDE_U8, SHAPE(6 << 20)));
    tide_memory_information before = info(rt);
    tide_array *a = tide_empty(rt, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    assert_int_equal(info(rt).host_backed, before.host_backed);
    assert_true(before.host_backed >= 24 << 20);
    tide_release(a);
    close_silent(rt);
}

/* A GPU's driver gives more unified memory than there is room for, and device memory beside it though the card is full of the other. */
static tide_status unlimited_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes, tidei_addr *out) {
    (void)d, (void)kind;
    return *out = (uintptr_t)malloc(bytes), *out ? TIDE_OK : TIDE_E_NOMEM;
}
static void unlimited_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes) {
    (void)d, (void)kind, (void)bytes;
    free((void *)(uintptr_t)addr);
}
static tide_status nothing_taken(tidei_device *d, size_t *free_bytes, size_t *total) {
    return *free_bytes = *total = d->info.total_bytes, TIDE_OK;
}
static tide_runtime *open_unlimited(tide_config c) {
    static struct tidei_device_ops ops;
    tidei_device *d;
    tide_runtime *rt;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = 16 * MIB}, &d));
    ops = *d->ops;
    ops.raw_alloc = unlimited_raw_alloc;
    ops.raw_free = unlimited_raw_free;
    ops.memory = nothing_taken;
    d->ops = &ops;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

static void device_memory_leaves_room_for_unified(void **state) {
    (void)state;
    tide_config c = config();
    c.pool = "none";
    c.debug = 0;
    tide_runtime *rt = open_unlimited(c);
    assert_int_equal(info(rt).limit, 16 * MIB);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    assert_null(tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(7 << 20)));
    assert_error(TIDE_E_NOMEM, "would exceed the limit of 16777216 (10485760 backed)");
    tide_clear_error();
    tide_array *b = tide_empty(rt, TIDE_U8, SHAPE(6 << 20)); /* all there is */
    assert_array(b);
    assert_null(tide_empty(rt, TIDE_U8, SHAPE(1)));
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_true(test_stats(rt).climbs > 0);
    tide_clear_error();
    tide_release(a);
    assert_array(a = tide_empty(rt, TIDE_U8, SHAPE(10 << 20)));
    tide_release(a);
    tide_release(b);
    close_silent(rt);
}

/* Where unified memory is not on the card, what is free there and what is backed are more than it has. */
static void what_is_available_is_no_more_than_the_device_has(void **state) {
    (void)state;
    tide_config c = config();
    c.debug = 0;
    tide_runtime *rt = open_unlimited(c);
    mock_tracer m;
    mock_open(&m, rt, "mock", TIDE_COLLECTOR_MINOR, 0);
    tide_array *a = tide_empty_in(rt, TIDE_MEMORY_UNIFIED, TIDE_U8, SHAPE(10 << 20));
    assert_array(a);
    tidei_gc_dev *g = &tidei_gc_of(rt)->devs[0];
    atomic_store(&g->available_ns, 0); /* the driver is asked again */
    assert_ok(tide_device_synchronize(rt));
    tide_host_view v;
    assert_ok(tide_host_begin(a, TIDE_READ, &v));
    assert_ok(tide_host_end(&v));
    assert_true(atomic_load(&g->available_ns) > 0);
    assert_int_equal(atomic_load(&g->available), 16 * MIB);
    tide_release(a);
    tide_close(rt);
    mock_end(&m);
}

/* The driver pins no more: what is cached goes back to it, then it does. */
static void a_driver_that_refuses_is_asked_again(void **state) {
    tidei_device *inner, *d;
    tide_runtime *rt;
    (void)state;
    for (int i = 1; i < KINDS; i++) {
        tide_config c = config();
        tide_status refused = kinds[i] == TIDE_MEMORY_PINNED ? TIDE_E_HOST_NOMEM : TIDE_E_NOMEM;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = 64 * MIB}, &inner));
        assert_ok(tidei_fault_open(inner, &d));
        assert_ok(tidei_open_on(&c, d, &rt));
        tidei_fault_set(d, TIDEI_FAULT_RAW_ALLOC, 1, refused, false);
        tide_array *a = tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(5 << 20));
        assert_array(a);
        tide_release(a);
        tidei_fault_set(d, TIDEI_FAULT_RAW_ALLOC, 1, refused, true);
        assert_null(tide_empty_in(rt, kinds[i], TIDE_U8, SHAPE(30 << 20)));
        assert_int_equal(tide_last_error()->status, refused);
        assert_error(refused, "call ");
        assert_true(test_stats(rt).climbs > 0);
        assert_true(tidei_runtime_valid(rt));
        tide_close(rt);
    }
}

/* ---- garbage ---- */

#define SOME (1 << 20)

/* With `m` NULL the collector is boehm. */
static __attribute__((noinline)) void make_garbage(tide_runtime *rt, mock_tracer *m, tide_memory kind, int n) {
    for (int i = 0; i < n; i++) {
        tide_array *a = tide_empty_in(rt, kind, TIDE_U8, SHAPE(SOME));
        assert_array(a);
        assert_ok(tide_fill(a, tide_arg_int(i % 200)));
        if (m) mock_drop(m, mock_hold(m, a));
        size_t backed = atomic_load(&rt->host_budget.backed);
        if (backed > 32 * MIB) fail_msg("%zu bytes are backed", backed);
    }
}

/* A program that makes nothing but garbage in the host's memory, and frees none: the second budget has it collected, by the policy
** before it is used up, or by the ladder. */
static void garbage_in_host_memory_is_collected(void **state) {
    (void)state;
    for (int mock = !TEST_BOEHM; mock < 2; mock++)
        for (int i = 1; i < KINDS; i++)
            for (int early = TIDE_ON; early <= TIDE_OFF; early++) {
                mock_tracer m;
                tide_config c = config();
                c.collector = mock ? "refcount" : "boehm";
                c.host_limit = "32MiB";
                c.gc_early = early;
                tide_runtime *rt = test_open(&c);
                if (mock) mock_open(&m, rt, "mock", TIDE_COLLECTOR_MINOR, 0);
                make_garbage(rt, mock ? &m : NULL, kinds[i], test_quick() ? 100 : 300);
                tide_statistics s = test_stats(rt);
                if (early == TIDE_ON)
                    assert_true(s.early_collections > 0);
                else
                    assert_true(s.climbs > 0 && s.collections > s.early_collections);
                assert_true(tidei_runtime_valid(rt));
                tide_close(rt);
                if (mock) mock_end(&m);
            }
}

static void *collect_elsewhere(void *rt) {
    assert_ok(tide_collect(rt));
    tide_thread_detach(rt);
    return NULL;
}

/* An allocation of host memory is a place where a collector bound to the thread answers what it was asked for meanwhile. */
static void a_bound_collector_answers_there_too(void **state) {
    (void)state;
#ifdef TIDEI_STRESS
    skip(); /* every allocation makes a round */
#endif
    for (int early = TIDE_ON; early <= TIDE_OFF; early++) {
        mock_tracer m;
        pthread_t other;
        tide_config c = config();
        c.gc_early = early;
        c.policy = "never";
        tide_runtime *rt = test_open(&c);
        mock_open(&m, rt, "lua", TIDE_COLLECTOR_BOUND, 0);
        tide_release(tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9))); /* from now on the policy sleeps */
        mock_drop(&m, mock_hold(&m, tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9))));
        assert_int_equal(pthread_create(&other, NULL, collect_elsewhere, rt), 0);
        pthread_join(other, NULL);
        int before = atomic_load(&m.fulls);
        tide_release(tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(9)));
        assert_int_equal(atomic_load(&m.fulls), before + 1);
        tide_close(rt);
        mock_end(&m);
    }
}

/* What lives in one budget does not make the policy collect for the other. */
static void budgets_are_apart(void **state) {
    (void)state;
#if TEST_BOEHM
    if (!test_on_host()) skip();
#ifdef TIDEI_STRESS
    skip(); /* which collects all the time */
#endif
    static tide_array *kept[20];
    tide_config c = config();
    c.collector = "boehm";
    c.host_memory = "256MiB";
    c.host_limit = "256MiB";
    tide_runtime *rt = test_open(&c);
    for (int i = 0; i < 20; i++)
        assert_array(kept[i] = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(2 << 20)));
    for (int i = 0; i < 20; i++) tide_release(tide_empty(rt, TIDE_U8, SHAPE(1000)));
    tide_clear_error();
    assert_int_equal(test_stats(rt).collections, 0);
    assert_int_equal(test_stats(rt).live, 20 * 1000);
    memset(kept, 0, sizeof kept);
    tide_close(rt);
#else
    skip();
#endif
}

/* ---- several at once ---- */

static uint64_t dice(uint64_t *seed) { return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33; }

/* Arrays of all kinds under every pool, used on several streams and by the host, in random order: nothing mixes, all is in order. */
static void all_kinds_under_every_pool(void **state) {
    enum { HELD = 12, STREAMS = 3 };
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_config c = config();
        c.pool = test_pool(p);
        tide_runtime *rt = test_open(&c);
        tide_stream *s[STREAMS] = {NULL};
        tide_array *a[HELD] = {NULL};
        float value[HELD] = {0};
        uint64_t seed = 7 + p;
        for (int i = 1; i < STREAMS; i++) assert_ok(tide_stream_new(rt, &s[i]));
        for (int round = 0; round < (test_quick() ? 300 : 1500); round++) {
            unsigned i = (unsigned)(dice(&seed) % HELD);
            assert_ok(tide_stream_set(rt, s[dice(&seed) % STREAMS]));
            if (!a[i]) {
                int64_t n = (int64_t)(1 + dice(&seed) % 60000);
                assert_array(a[i] = tide_empty_in(rt, kinds[dice(&seed) % KINDS], TIDE_F32, 1, &n));
                value[i] = (float)(dice(&seed) % 1000);
                assert_ok(tide_fill(a[i], tide_arg_float(value[i])));
            } else if (tide_array_memory(a[i]) != TIDE_MEMORY_DEVICE && dice(&seed) % 2) {
                tide_host_view v;
                assert_ok(tide_host_begin(a[i], TIDE_READ | TIDE_WRITE, &v));
                for (int64_t k = 0; k < v.shape[0]; k++) {
                    if (TIDE_AT(float, &v, k) != value[i])
                        fail_msg("%s: element %d of array %u", c.pool, (int)k, i);
                    TIDE_AT(float, &v, k) += 1;
                }
                value[i] += 1;
                assert_ok(tide_host_end(&v));
            } else if (dice(&seed) % 2) {
                assert_ok(tide_map_into(a[i], "(a) -> a + 1", a[i]));
                value[i] += 1;
            } else {
                tide_array *least = tide_map(rt, "(a) -> min(a)", a[i]);
                assert_true(tide_item_f64(least) == (double)value[i]);
                tide_release(least);
                tide_release(a[i]);
                a[i] = NULL;
            }
            if (round % 100 == 0) assert_ok(tide_reclaim(rt, TIDE_RECLAIM_PURGE, NULL));
        }
        assert_ok(tide_stream_set(rt, NULL));
        for (int i = 0; i < HELD; i++) tide_release(a[i]);
        for (int i = 1; i < STREAMS; i++) tide_stream_release(s[i]);
        close_silent(rt);
    }
}

static void *make_some(void *arg) {
    tide_runtime *rt = arg;
    for (int k = 0; k < 50; k++) {
        tide_array *a = tide_empty_in(rt, kinds[1 + k % 2], TIDE_F32, SHAPE(1000));
        assert_array(a);
        assert_ok(tide_set(a, (const int64_t[]){5}, tide_arg_int(k)));
        tide_host_view v;
        assert_ok(tide_host_begin(a, TIDE_READ, &v));
        assert_true(TIDE_AT(float, &v, 5) == (float)k);
        assert_ok(tide_host_end(&v));
        tide_release(a);
    }
    tide_thread_detach(rt);
    return NULL;
}

/* Threads that come at once to a kind that has no pool yet. */
static void threads_share_a_kinds_pool(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        pthread_t thread[4];
        tide_runtime *rt = open_plain();
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, make_some, rt), 0);
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
        unsigned pools = 0;
        for (tide_pool *x = NULL; (x = tidei_pools_next(&rt->devs[0], x));) pools++;
        assert_int_equal(pools, 3);
        close_silent(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T9_copies_among_all_kinds),
        cmocka_unit_test(T14_copies_keep_the_kind),
        cmocka_unit_test(the_default_kind_is_configured),
        cmocka_unit_test(a_bad_default_kind_is_an_error_or_a_warning),
        cmocka_unit_test(unified_memory_may_be_missing),
        cmocka_unit_test(operations_take_all_kinds),
        cmocka_unit_test(a_view_waits_for_what_it_must),
        cmocka_unit_test(what_the_host_wrote_is_seen),
        cmocka_unit_test(views_have_strides),
        cmocka_unit_test(device_memory_is_out_of_reach),
        cmocka_unit_test(a_view_keeps_its_memory),
        cmocka_unit_test(closing_with_views_open),
        cmocka_unit_test(a_missing_wait_is_reported),
        cmocka_unit_test(work_during_a_view_is_reported),
        cmocka_unit_test(T23_single_elements),
        cmocka_unit_test(every_type_is_got_and_set),
        cmocka_unit_test(T23_device_memory_wants_permission),
        cmocka_unit_test(T9_prefetch_and_advice_by_range),
        cmocka_unit_test(advice_ends_with_the_array),
        cmocka_unit_test(notes_of_advice_stay_few),
        cmocka_unit_test(figures_are_exact),
        cmocka_unit_test(blocks_of_a_kind_are_cached),
        cmocka_unit_test(the_hosts_limit_holds),
        cmocka_unit_test(the_remedys_limit_is_enough),
        cmocka_unit_test(unified_memory_keeps_to_the_devices_limit),
        cmocka_unit_test(none_waits_for_what_is_parked),
        cmocka_unit_test(absurd_shapes_are_reported_by_kind),
        cmocka_unit_test(the_soft_limit_leaves_other_kinds_alone),
        cmocka_unit_test(device_memory_leaves_room_for_unified),
        cmocka_unit_test(what_is_available_is_no_more_than_the_device_has),
        cmocka_unit_test(a_driver_that_refuses_is_asked_again),
        cmocka_unit_test(garbage_in_host_memory_is_collected),
        cmocka_unit_test(a_bound_collector_answers_there_too),
        cmocka_unit_test(budgets_are_apart),
        cmocka_unit_test(all_kinds_under_every_pool),
        cmocka_unit_test(threads_share_a_kinds_pool),
    };
    return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
