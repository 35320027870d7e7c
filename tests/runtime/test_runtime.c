/* test_runtime.c: a runtime as a whole: several in one process, limits, figures, texts, logs,
** closing. How it is configured: test_settings.c; memory lent to others' kernels: test_use.c; what
** becomes of one whose device is lost: test_failures_loss.c. */
#include "runtime/device/host/host.h"
#include "tests/support/captured.h"
#include "tests/support/fresh_environment.h"
#include "tests/support/works.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define MIB TIDEI_MIB

/* ---- several runtimes ---- */

/* Fills it up with pieces of 64 KiB; what it holds is released with it. */
static unsigned fill_up(tide_runtime *rt) {
    unsigned n = 0;
    while (bytes(rt, 64 << 10)) n++;
    assert_error(TIDE_E_NOMEM, "out of memory");
    return n;
}

static void one_full_the_other_not(void **state) {
    tide_runtime *a = test_open(&(tide_config){.collector = "refcount", .limit = "2MiB"});
    tide_runtime *b =
        test_open(&(tide_config){.collector = "refcount", .limit = "8MiB", .policy = "never"});
    (void)state;
    assert_ok(tide_scope_begin(a));
    assert_int_equal(fill_up(a), 32);
    tide_runtime_figures full = test_stats(a), none = test_stats(b);
    assert_int_equal(full.backed, 2 * MIB);
    assert_int_equal(full.limit, 2 * MIB);
    assert_true(full.climbs > 0);
    assert_int_equal(none.limit, 8 * MIB);
    assert_int_equal(none.live + none.backed + none.climbs + none.allocations, 0);
    works(b);
    tide_array *x = bytes(b, 4 * MIB); /* more than a has in all */
    assert_array(x);
    tide_release(x);
    assert_int_equal(test_stats(a).live, 2 * MIB);
    assert_null(bytes(a, 1));
    assert_ok(tide_scope_end(a));
    works(a);
    tide_close(b);
    works(a);
    tide_close(a);
}

/* Their collectors are their own; a collection of one finds nothing of the other. */
static void each_runtime_has_its_own_collectors(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *a = test_open(&(tide_config){.collector = "boehm", .gc_early = TIDE_OFF});
    tide_runtime *b = test_open(&(tide_config){.collector = "refcount"});
    tide_array *held = bytes(b, 1000);
    for (int i = 0; i < 200; i++) assert_array(bytes(a, 1000));
    assert_ok(tide_collect(b));
    assert_int_equal(test_stats(b).collections, 0); /* nobody there to ask */
    assert_int_equal(test_stats(a).arrays, 200);
    assert_ok(tide_collect(a));
    assert_int_equal(test_stats(a).collections, 1);
    assert_true(test_stats(a).arrays < 20); /* a stale word may keep some */
    assert_int_equal(test_stats(b).arrays, 1);
    assert_int_equal(tide_array_size(held), 1000);
    tide_release(held);
    tide_close(a);
    works(b);
    tide_close(b);
}

static void arrays_stay_with_their_runtime(void **state) {
    tide_runtime *a = test_open(&(tide_config){.collector = "refcount"});
    tide_runtime *b = test_open(&(tide_config){.collector = "refcount"});
    (void)state;
    assert_ok(tide_scope_begin(a));
    assert_ok(tide_scope_begin(b));
    tide_array *x = tide_ones(a, TIDE_F32, SHAPE(4, 4)), *y = tide_ones(b, TIDE_F32, SHAPE(4, 4));
    tide_array *i = tide_zeros(b, TIDE_I64, SHAPE(2)), *both[] = {x, y};
    tide_use use = {.array = y, .mode = TIDE_READ};
    tide_use_scope *scope = NULL;
    tide_stream *s;
    void *ptr;
#define FOREIGN(call)                                                                              \
    tide_error_clear();                                                                            \
    assert_true(call);                                                                             \
    assert_error(TIDE_E_INVALID, "runtime")
    FOREIGN(!tide_map(a, "(x) -> x + 1", y));
    FOREIGN(!tide_map(a, "(x, y) -> x + y", x, y));
    FOREIGN(tide_map_into(x, "(y) -> y", y) == TIDE_E_INVALID);
    FOREIGN(!tide_add(x, y));
    FOREIGN(!tide_matmul(x, y));
    FOREIGN(!tide_matmul(tide_cast(x, TIDE_I32), tide_cast(y, TIDE_I32)));
    FOREIGN(!tide_take(x, i, 0));
    FOREIGN(!tide_concat(both, 2, 0));
    FOREIGN(tide_assign(x, y) == TIDE_E_INVALID);
    FOREIGN(tide_assign(tide_transpose(x, NULL), y) == TIDE_E_INVALID);
    FOREIGN(tide_use_begin(a, NULL, &use, 1, &ptr, &scope) == TIDE_E_INVALID);
    assert_null(scope);
    assert_ok(tide_stream_new(b, &s));
    FOREIGN(tide_use_begin(a, s, &use, 1, &ptr, &scope) == TIDE_E_INVALID);
    tide_error_clear();
    assert_int_equal(tide_stream_set(a, s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "another runtime");
    assert_int_equal(tide_synchronize(a, s), TIDE_E_INVALID);
    assert_ok(tide_scope_end(a));
    assert_ok(tide_scope_end(b));
    works(a);
    works(b);
    assert_int_equal(test_stats(a).live + test_stats(b).live, 0);
    tide_close(a);
    tide_close(b);
}

/* ---- limits ---- */

static void limits_at_run_time(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .pool = "tide"});
    (void)state;
    assert_true(test_stats(rt).limit == SIZE_MAX && test_stats(rt).soft_limit == SIZE_MAX);
    tide_array *a = bytes(rt, 4 * MIB), *b = bytes(rt, 4 * MIB);
    assert_array(b);
    tide_release(b);
    assert_ok(tide_device_set_limit(rt, 4 * MIB)); /* what is cached goes for it */
    assert_int_equal(test_stats(rt).limit, 4 * MIB);
    assert_true(test_stats(rt).backed <= 4 * MIB);
    assert_null(bytes(rt, 2 * MIB));
    assert_error(TIDE_E_NOMEM, "limit 4.000 MiB");
    assert_error(TIDE_E_NOMEM, "remedy: a limit of 6.000 MiB or more");
    assert_int_equal(tide_device_set_limit(rt, 2 * MIB), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "4194304 live");
    assert_int_equal(test_stats(rt).limit, 4 * MIB); /* as it was */
    assert_ok(tide_device_set_limit(rt, 6 * MIB));
    b = bytes(rt, 2 * MIB);
    assert_array(b);
    tide_release(a);
    tide_release(b);
    assert_ok(tide_device_set_limit(rt, SIZE_MAX));
    assert_true(test_stats(rt).limit == SIZE_MAX);
    works(rt);
    tide_close(rt);
    rt = test_open(
        &(tide_config){.collector = "refcount", .limit = "50%", .host_device_memory = "16MiB"});
    tide_runtime_figures s = test_stats(rt);
    size_t total = test_rt(rt)->devs[0].d->info.total_bytes,
           page = test_rt(rt)->devs[0].d->info.page_bytes;
    assert_true(s.limit >= total / 2 && s.limit < total / 2 + page);
    tide_close(rt);
}

static void soft_limit_purges(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .pool = "tide"});
    tide_array *a[4];
    (void)state;
    for (int i = 0; i < 4; i++) assert_array(a[i] = bytes(rt, 4 * MIB));
    for (int i = 0; i < 4; i++) tide_release(a[i]);
    assert_int_equal(test_stats(rt).cached, 16 * MIB);
    assert_ok(tide_device_set_soft_limit(rt, 8 * MIB)); /* what is idle is given back at once */
    assert_int_equal(test_stats(rt).soft_limit, 8 * MIB);
    assert_int_equal(test_stats(rt).backed, 0);
    /* Growing past it gives back first: a piece that does not fit what is cached takes its place
    ** instead of joining it. */
    for (int i = 0; i < 3; i++) assert_array(a[i] = bytes(rt, 2 * MIB));
    for (int i = 0; i < 3; i += 2) tide_release(a[i]);
    assert_array(a[0] = bytes(rt, 4 * MIB));
    assert_int_equal(test_stats(rt).backed, 6 * MIB);
    /* It refuses nothing. */
    assert_array(a[2] = bytes(rt, 16 * MIB));
    assert_int_equal(test_stats(rt).backed, 22 * MIB);
    assert_int_equal(test_stats(rt).climbs, 0);
    for (int i = 0; i < 3; i++) tide_release(a[i]);
    assert_ok(tide_device_set_soft_limit(rt, SIZE_MAX));
    tide_close(rt);
}

/* ---- figures ---- */

static void peaks_are_kept_until_reset(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .pool = "tide"});
    (void)state;
    tide_array *a = bytes(rt, 2 * MIB), *b = bytes(rt, 2 * MIB);
    assert_array(b);
    tide_release(b);
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.live, 2 * MIB);
    assert_int_equal(s.peak_live, 4 * MIB);
    assert_int_equal(s.peak_backed, 4 * MIB);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
    tide_runtime_reset_peaks(rt);
    s = test_stats(rt);
    assert_int_equal(s.peak_live, 2 * MIB); /* what is there now */
    assert_int_equal(s.peak_backed, 2 * MIB);
    tide_array *c = bytes(rt, 1 * MIB);
    tide_release(c);
    assert_int_equal(test_stats(rt).peak_live, 3 * MIB);
    tide_release(a);
    tide_runtime_reset_peaks(rt);
    tide_runtime_reset_peaks(NULL);
    assert_int_equal(test_stats(rt).peak_live, 0);
    tide_close(rt);
}

static void figures_add_up(void **state) {
    enum { N = 40 };
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .pool = test_pool(p)});
        tide_array *a[N] = {0};
        size_t size[N] = {0}, live = 0;
        uint64_t made = 0, r = 7;
        for (int i = 0; i < 400; i++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            int k = (int)(r >> 33) % N;
            if (a[k]) {
                tide_release(a[k]);
                live -= size[k];
                a[k] = NULL;
            } else {
                size[k] = 1 + (r >> 40) % 50000;
                a[k] = tide_zeros(rt, TIDE_U8, SHAPE((int64_t)size[k]));
                assert_array(a[k]);
                live += size[k];
                made++;
            }
            tide_runtime_figures s = test_stats(rt);
            if (s.live + s.rounding + s.cached + s.pending != s.backed)
                fail_msg("%zu live + %zu rounding + %zu cached + %zu pending is not %zu backed",
                         s.live, s.rounding, s.cached, s.pending, s.backed);
            unsigned held = 0;
            for (int j = 0; j < N; j++) held += a[j] != NULL;
            assert_int_equal(s.live, live);
            assert_int_equal(s.arrays, held);
            assert_int_equal(s.allocations, made);
            assert_int_equal(s.allocations - s.frees, held);
            assert_int_equal(s.launches, made); /* one fill each */
            assert_true(s.peak_backed >= s.backed && s.peak_live >= s.live &&
                        s.driver_allocs >= s.driver_frees);
        }
        for (int j = 0; j < N; j++) tide_release(a[j]);
        assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, NULL));
        tide_runtime_figures s = test_stats(rt);
        assert_int_equal(s.live + s.backed + s.arrays, 0);
        assert_int_equal(s.copies, 0);
        tide_array *x = tide_from_host(rt, TIDE_I32, SHAPE(1), &(int32_t){5});
        assert_true(tide_item_f64(x) == 5);
        tide_release(x);
        assert_int_equal(test_stats(rt).copies, 2);
        tide_close(rt);
    }
}

static void figures_of_an_older_caller(void **state) {
    tide_runtime *rt = test_open(NULL);
    struct {
        size_t struct_size, live;
        char behind[64];
    } old = {.struct_size = offsetof(tide_runtime_figures, rounding)};
    (void)state;
    memset(old.behind, 0x5A, sizeof old.behind);
    assert_ok(tide_runtime_info(rt, (tide_runtime_figures *)&old));
    for (size_t i = 0; i < sizeof old.behind; i++) assert_int_equal(old.behind[i], 0x5A);
    tide_runtime_figures s = {.struct_size = sizeof s + 8};
    assert_int_equal(tide_runtime_info(rt, &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size");
    tide_close(rt);
}

/* ---- the status text ---- */

/* A device whose driver gives the figures of the text in the issue. */
static struct tidei_device_ops told_ops;
static tide_status told_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes) {
    (void)d;
    *total_bytes = 16905005301u;              /* 15.744 GiB */
    *free_bytes = *total_bytes - 1775969034u; /* 1.654 GiB less */
    return TIDE_OK;
}

static void the_status_text_tells_every_pool(void **state) {
    static const struct {
        const char *pool, *empty, *text;
    } rows[] = {{"none",
                 "Effective GPU memory usage: 10.51% (1.654 GiB/15.744 GiB)\n"
                 "none pool usage: 0 bytes (0 bytes allocated, 0 bytes cached)\n",
                 "Effective GPU memory usage: 10.51% (1.654 GiB/15.744 GiB)\n"
                 "none pool usage: 8.000 KiB (8.000 KiB allocated, 0 bytes cached)\n"},
                {"tide",
                 "Effective GPU memory usage: 10.51% (1.654 GiB/15.744 GiB)\n"
                 "tide pool usage: 0 bytes (0 bytes allocated, 0 bytes cached)\n",
                 "Effective GPU memory usage: 10.51% (1.654 GiB/15.744 GiB)\n"
                 "tide pool usage: 64.000 KiB (8.000 KiB allocated, 56.000 KiB cached)\n"}};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++) {
        tide_config c = {.struct_size = sizeof c, .collector = "refcount", .pool = rows[i].pool};
        tidei_device *d;
        tide_runtime *rt;
        char text[400], cut[400];
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 4 * MIB}, &d));
        told_ops = *d->ops;
        told_ops.memory = told_memory;
        d->ops = &told_ops;
        assert_ok(tidei_open_on(&c, d, &rt));
        tide_runtime_text(rt, text, sizeof text);
        assert_string_equal(text, rows[i].empty);
        tide_array *a = bytes(rt, 8192);
        assert_array(a);
        size_t n = tide_runtime_text(rt, text, sizeof text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(n, strlen(text));
        assert_int_equal(tide_runtime_text(rt, NULL, 0), n);
        assert_int_equal(tide_runtime_text(rt, NULL, 9), n);
        assert_int_equal(tide_device_text(rt, NULL, 9), tide_device_text(rt, NULL, 0));
        for (size_t cap = 1; cap <= n; cap++) { /* like snprintf */
            memset(cut, 'x', sizeof cut);
            assert_int_equal(tide_runtime_text(rt, cut, cap), n);
            assert_int_equal(strlen(cut), cap - 1);
            assert_memory_equal(cut, text, cap - 1);
            assert_int_equal(cut[cap], 'x');
        }
        tide_release(a); /* dead arrays no longer count */
        tide_runtime_text(rt, text, sizeof text);
        assert_non_null(strstr(text, "(0 bytes allocated, "));
        tide_close(rt);
    }
    assert_int_equal(tide_runtime_text(NULL, NULL, 0), 0);
    assert_int_equal(tide_device_text(NULL, NULL, 0), 0);
}

static void status_text_of_the_device_under_test(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    double percent, used, whole;
    char text[400], unit[2][8], pool[16], rest[64];
    (void)state;
    tide_runtime_text(rt, text, sizeof text);
    int n = sscanf(text,
                   "Effective GPU memory usage: %lf%% (%lf %7[a-zA-Z]/%lf %7[a-zA-Z])\n%15s pool "
                   "usage: %63[^\n]",
                   &percent, &used, unit[0], &whole, unit[1], pool, rest);
    if (n != 7) fail_msg("%d items in: %s", n, text);
    assert_true(percent >= 0 && percent <= 100);
    assert_string_equal(pool, test_rt(rt)->devs[0].pool->ops->name);
    assert_string_equal(rest, "0 bytes (0 bytes allocated, 0 bytes cached)");
    tide_device_text(rt, text, sizeof text);
    assert_int_equal(strncmp(text, test_on_host() ? "host:" : "cuda:", 5), 0);
    tide_close(rt);
}

/* ---- logging ---- */

static void a_level_logs_what_is_as_severe(void **state) {
    static const char *const names[] = {"silent", "error", "warning", "info", "debug"};
    (void)state;
    for (int level = TIDE_LOG_SILENT; level <= TIDE_LOG_DEBUG; level++) {
        logged.n = 0;
        tide_config c = {.log = keep_line, .log_level = level};
        /* a level of the program's wins; 0 is none */
        setenv("TIDE_LOG", level ? "debug" : "silent", 1);
        tide_runtime *rt = test_open(&c);
        unsetenv("TIDE_LOG");
        for (int at = TIDE_LOG_ERROR; at <= TIDE_LOG_DEBUG; at++)
            tidei_log(test_rt(rt), at, "one of level %s", names[at]);
        for (int at = TIDE_LOG_ERROR; at <= TIDE_LOG_DEBUG; at++) {
            char line[32];
            snprintf(line, sizeof line, "one of level %s", names[at]);
            assert_int_equal(lines_with(at, line), at <= level);
        }
        assert_int_equal(lines_with(TIDE_LOG_INFO, "runs on "), level >= TIDE_LOG_INFO);
        tide_close(rt);
        for (unsigned i = 0; i < logged.n; i++) {
            assert_true(logged.level[i] <= level);
            assert_null(strchr(logged.line[i], '\n'));
        }
    }
    logged.n = 0;
    tide_runtime *rt = test_open(&(tide_config){.log = keep_line});
    works(rt);
    tide_close(rt);
    assert_int_equal(logged.n, 0); /* silent unless told */
}

/* The callback may look at the figures. */
static tide_runtime *looked_at;
static atomic_int looks;
static void look_from_log(void *user, int level, const char *line) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    char text[400];
    (void)level, (void)line;
    assert_string_equal(user, "mine");
    if (!looked_at) return;
    assert_ok(tide_runtime_info(looked_at, &s));
    assert_true(tide_runtime_text(looked_at, text, sizeof text) > 0);
    atomic_fetch_add(&looks, 1);
}

static void figures_from_the_log(void **state) {
    (void)state;
    looked_at = NULL;
    atomic_store(&looks, 0);
    tide_runtime *rt = test_open(&(tide_config){.log = look_from_log,
                                                .log_user = "mine",
                                                .log_level = TIDE_LOG_DEBUG,
                                                .limit = "2MiB",
                                                .pool = "tide",
                                                .collector = "refcount"});
    looked_at = rt;
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    /* the ladder steals what is pending elsewhere, or trims, and tells */
    for (int i = 0; i < 6; i++) {
        tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(2 * (int64_t)MIB - i * 65536));
        assert_array(a);
        tide_release(a);
        assert_ok(tide_stream_set(rt, i % 2 ? NULL : s));
    }
    tidei_log(test_rt(rt), TIDE_LOG_DEBUG, "and by hand");
    assert_true(atomic_load(&looks) >= 1);
    looked_at = NULL;
    tide_close(rt);
}

static void log_goes_to_stderr(void **state) {
    char text[2000];
    (void)state;
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .log_level = TIDE_LOG_INFO};
    tide_runtime *rt = NULL;
    captured_begin();
    tide_status status = tide_open(&c, &rt);
    tide_close(rt);
    captured_end(text, sizeof text);
    assert_int_equal(status, TIDE_OK);
    assert_int_equal(strncmp(text, "tidepool info: runs on ", 23), 0);
    assert_non_null(strchr(text, '\n'));
}

/* ---- debugging ---- */

static tide_array *make_and_release(tide_runtime *rt) {
    tide_array *a = bytes(rt, 64);
    assert_array(a);
    tide_release(a);
    return a;
}

static void debug_level_1(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .debug = 1});
    tide_array *stale[100];
    for (int i = 0; i < 100; i++) stale[i] = make_and_release(rt);
    for (int i = 0; i < 100; i++) assert_array(bytes(rt, 64));
    for (int i = 0; i < 100; i++) { /* none of the new ones took a dead one's place */
        tide_error_clear();
        assert_int_equal(tide_array_ndim(stale[i]), -1);
        assert_error(TIDE_E_FREED, "");
    }
    if (test_on_host()) assert_non_null(((tidei_host *)test_rt(rt)->devs[0].d)->checker);
    tide_close(rt);
    rt = test_open(&(tide_config){.collector = "refcount"});
    if (test_on_host()) assert_null(((tidei_host *)test_rt(rt)->devs[0].d)->checker);
    tide_close(rt);
}

/* ---- nothing, and too much ---- */

static void arrays_of_no_bytes_take_no_memory(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .pool = test_pool(p)});
        assert_ok(tide_scope_begin(rt));
        tide_array *e = tide_empty(rt, TIDE_F64, SHAPE(3, 0)),
                   *z = tide_zeros(rt, TIDE_F64, SHAPE(0));
        tide_array *f = tide_from_host(rt, TIDE_F64, SHAPE(0), NULL),
                   *m = tide_map(rt, "(a) -> a*2 + 1", e);
        tide_array *s = tide_map(rt, "(a) -> sum(a)", e),
                   *product = tide_matmul(tide_transpose(e, NULL), e);
        tide_array *parts[] = {z, f}, *joined = tide_concat(parts, 2, 0);
        tide_rng rng = {1, 0};
        assert_array(joined);
        assert_array(product);
        assert_array(tide_random_uniform(rt, &rng, TIDE_F32, SHAPE(0, 5)));
        assert_true(tide_array_size(e) == 0 && tide_array_size(m) == 0 &&
                    tide_array_size(joined) == 0 && tide_array_size(product) == 0);
        assert_true(tide_item_f64(s) == 0);
        assert_ok(tide_to_host(m, NULL, 0));
        tide_use use = {.array = e, .mode = TIDE_READ | TIDE_WRITE};
        tide_use_scope *scope;
        void *ptr = &use;
        assert_ok(tide_use_begin(rt, NULL, &use, 1, &ptr, &scope));
        assert_null(ptr);
        assert_ok(tide_use_end(scope));
        assert_int_equal(test_stats(rt).live, 8); /* the sum alone takes memory */
        assert_ok(tide_scope_end(rt));
        assert_int_equal(test_stats(rt).arrays, 0);
        works(rt);
        tide_close(rt);
    }
}

enum { HUGE_MAKERS = 8 };
static tide_array *make_huge(tide_runtime *rt, int how) {
    const int64_t n = (int64_t)1 << 62;
    tide_rng rng = {1, 0};
    switch (how) {
    case 0: return tide_empty(rt, TIDE_F32, SHAPE(n));
    case 1: return tide_zeros(rt, TIDE_U8, SHAPE(n));
    case 2: return tide_ones(rt, TIDE_C128, SHAPE(n, n, n));
    case 3: return tide_full(rt, TIDE_F64, SHAPE(1 << 20, 1 << 20, 1 << 20), tide_arg_int(1));
    case 4: return tide_arange(rt, TIDE_F64, 0, 0x1p62, 1);
    case 5: return tide_random_uniform(rt, &rng, TIDE_F32, SHAPE(n));
    case 6: return tide_from_host(rt, TIDE_U8, SHAPE(n), "");
    default: {
        tide_array *one = tide_ones(rt, TIDE_F32, SHAPE(1));
        tide_array *wide = tide_broadcast_to(one, SHAPE((int64_t)1 << 55));
        tide_array *a = tide_map(rt, "(a) -> a + 1", wide);
        tide_free(one), tide_free(wide);
        return a;
    }
    }
}

/* No rung is climbed, nothing is collected, and nothing is lost. */
static void absurd_requests_climb_nothing(void **state) {
    static const char *const parts[] = {
        "out of memory on ", " wanted by tide_",           "total ", "limit ", "live ", "cached ",
        "reserved ",         "largest piece that fits now"};
    (void)state;
    /* the first two with the other collector as well */
    for (unsigned p = 0; p < TEST_POOLS + 2; p++) {
        tide_config c = {.collector = p >= TEST_POOLS && TEST_BOEHM ? "boehm" : "refcount",
                         .pool = test_pool(p % TEST_POOLS),
                         .limit = "8MiB",
                         /* what a policy wants is its own affair */
                         .gc_early = TIDE_OFF};
        /* takes 32 MiB at a time there */
        if (!test_on_host() && strcmp(c.pool, "driver") == 0) continue;
        tide_runtime *rt = test_open(&c);
        tide_array *held = tide_arange(rt, TIDE_I32, 0, 1000, 1);
        for (int how = 0; how < HUGE_MAKERS; how++) {
            tide_runtime_figures before = test_stats(rt);
            tide_error_clear();
            assert_null(make_huge(rt, how));
            for (size_t i = 0; i < TIDEI_COUNT(parts); i++) assert_error(TIDE_E_NOMEM, parts[i]);
            assert_error(TIDE_E_NOMEM, "the device has less than that in all");
            assert_null(strstr(tide_error_last()->message, "none wanted"));
            tide_runtime_figures after = test_stats(rt);
            assert_int_equal(after.live, before.live);
            assert_int_equal(after.arrays, before.arrays);
            assert_int_equal(after.climbs, before.climbs);
            assert_int_equal(after.collections, before.collections);
            assert_int_equal(after.allocations - after.frees, before.allocations - before.frees);
            if (how < HUGE_MAKERS - 1) assert_int_equal(after.backed, before.backed);
            works(rt);
        }
        /* More than the limit, less than the device. */
        tide_runtime_figures before = test_stats(rt);
        assert_null(bytes(rt, 9 * MIB));
        for (size_t i = 0; i < TIDEI_COUNT(parts); i++) assert_error(TIDE_E_NOMEM, parts[i]);
        assert_error(TIDE_E_NOMEM, "9.000 MiB wanted by tide_empty");
        assert_error(TIDE_E_NOMEM, "limit 8.000 MiB");
        /* in whole pages, which on cuda are of 2 MiB */
        assert_error(TIDE_E_NOMEM,
                     test_on_host() ? "remedy: a limit of 9.0" : "remedy: a limit of 10.000 MiB");
        assert_error(TIDE_E_NOMEM, "largest holders: 3.906 KiB i32 (1000)");
        assert_int_equal(test_stats(rt).climbs, before.climbs);
        assert_int_equal(test_stats(rt).live, before.live);
        works(rt);
        assert_int_equal(tide_array_size(held), 1000);
        tide_free(held);
        tide_close(rt);
    }
}

/* ---- closing ---- */

struct guest {
    tide_runtime *rt;
    tide_array *array;
    pthread_barrier_t *met;
    pthread_t thread;
    tide_status used, freed; /* the array, before and after the close */
    bool scope;
};

/* Makes an array, meets the others; the runtime is closed; drops the array, and ends. */
static void *visit(void *arg) {
    struct guest *g = arg;
    if (g->scope) assert_ok(tide_scope_begin(g->rt));
    g->array = tide_full(g->rt, TIDE_I32, SHAPE(100), tide_arg_int(3));
    g->used = g->array ? TIDE_OK : tide_error_last()->status;
    pthread_barrier_wait(g->met);
    pthread_barrier_wait(g->met);
    tide_error_clear();
    g->freed = tide_copy(g->array) ? TIDE_OK : tide_error_last()->status;
    tide_free(g->array);
    if (!g->scope) tide_release(g->array);
    tide_thread_detach(g->rt); /* of a runtime that is gone: nothing to do */
    return NULL;
}

static void close_with_threads(tide_config c) {
    enum { N = 4 };
    pthread_barrier_t met;
    struct guest g[N];
    tide_runtime *rt = test_open(&c);
    pthread_barrier_init(&met, NULL, N + 1);
    for (int i = 0; i < N; i++) {
        g[i] = (struct guest){.rt = rt, .met = &met, .scope = i == 0};
        assert_int_equal(pthread_create(&g[i].thread, NULL, visit, &g[i]), 0);
    }
    pthread_barrier_wait(&met);
    tide_array *mine = tide_zeros(rt, TIDE_F32, SHAPE(3, 3)), *view = tide_transpose(mine, NULL);
    assert_array(view);
    tide_close(rt);
    assert_true(tide_array_is_freed(mine) && tide_array_is_freed(view));
    assert_null(tide_map_args(NULL, "(a) -> a", &(tide_arg){0}, 1));
    tide_error_clear();
    assert_null(tide_slice(mine, "0"));
    assert_error(TIDE_E_CLOSED, "closed");
    /* The next one, perhaps at the same address, is not taken for it. */
    tide_runtime *next = test_open(&c);
    pthread_barrier_wait(&met);
    for (int i = 0; i < N; i++) {
        pthread_join(g[i].thread, NULL);
        assert_int_equal(g[i].used, TIDE_OK);
        /* Closing ends a scope and the reference that it held; a cell that is quarantined still
        ** says whose it was. */
        bool gone = g[i].scope && !strcmp(c.collector, "refcount") && !c.debug;
        assert_int_equal(g[i].freed, gone ? TIDE_E_FREED : TIDE_E_CLOSED);
    }
    tide_release(view);
    tide_release(mine);
    works(next);
    assert_int_equal(test_stats(next).arrays, 0);
    tide_close(next);
    pthread_barrier_destroy(&met);
}

static void closing_meets_threads_at_work(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        close_with_threads((tide_config){.collector = "refcount", .pool = test_pool(p)});
        if (TEST_BOEHM)
            close_with_threads((tide_config){.collector = "boehm", .pool = test_pool(p)});
        close_with_threads(
            (tide_config){.collector = "refcount", .pool = test_pool(p), .debug = 1});
    }
}

/* With work still queued: it is waited for. */
static atomic_int ran;
static void note_run(void *gate) {
    while (!atomic_load((atomic_int *)gate)) sched_yield();
    atomic_fetch_add(&ran, 1);
}
static void *open_gate(void *gate) {
    usleep(20000);
    atomic_store((atomic_int *)gate, 1);
    return NULL;
}

static void closing_waits_for_work(void **state) {
    atomic_int gate = 0;
    pthread_t opener;
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s));
    tide_use use = {.array = bytes(rt, 64), .mode = TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_use_begin(rt, s, &use, 1, &p, &scope));
    atomic_store(&ran, 0);
    if (test_on_host())
        assert_ok(tide_use_launch(scope, note_run, &gate));
    else
        own_fill(test_stream(s), p, 1, 64);
    assert_ok(tide_use_end(scope));
    tide_release(use.array);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, &gate), 0);
    tide_close(rt);
    if (test_on_host()) assert_int_equal(atomic_load(&ran), 1);
    pthread_join(opener, NULL);
}

static void null_is_refused_or_does_nothing(void **state) {
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_stream *s;
    (void)state;
    tide_close(NULL);
    tide_stream_release(NULL);
    tide_thread_detach(NULL);
    tide_safepoint(rt);
    assert_int_equal(tide_runtime_info(NULL, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_runtime_info(rt, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_device_set_limit(NULL, 1), TIDE_E_INVALID);
    assert_int_equal(tide_device_set_soft_limit(NULL, 1), TIDE_E_INVALID);
    assert_int_equal(tide_reclaim(NULL, TIDE_RECLAIM_GC, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_reclaim(rt, -1, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_reclaim(rt, 5, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "level 5");
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(tide_collect(NULL), TIDE_E_INVALID);
    assert_int_equal(tide_stream_new(NULL, &s), TIDE_E_INVALID);
    assert_int_equal(tide_stream_new(rt, NULL), TIDE_E_INVALID);
    assert_null(tide_stream_current(NULL));
    assert_int_equal(tide_stream_set(NULL, NULL), TIDE_E_INVALID);
    assert_null(tide_stream_native(NULL));
    assert_int_equal(tide_synchronize(NULL, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_device_synchronize(NULL), TIDE_E_INVALID);
    assert_int_equal(tide_thread_attach(NULL), TIDE_E_INVALID);
    assert_null(tide_empty(NULL, TIDE_F32, 0, NULL));
    assert_error(TIDE_E_INVALID, "runtime is NULL");
    tide_stream_release(tide_stream_current(rt)); /* the default stream stays */
    works(rt);
    tide_close(rt);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_environment, restore_environment)
    const struct CMUnitTest tests[] = {
        CASE(one_full_the_other_not),
        CASE(each_runtime_has_its_own_collectors),
        CASE(arrays_stay_with_their_runtime),
        CASE(limits_at_run_time),
        CASE(soft_limit_purges),
        CASE(peaks_are_kept_until_reset),
        CASE(figures_add_up),
        CASE(figures_of_an_older_caller),
        CASE(the_status_text_tells_every_pool),
        CASE(status_text_of_the_device_under_test),
        CASE(a_level_logs_what_is_as_severe),
        CASE(figures_from_the_log),
        CASE(log_goes_to_stderr),
        CASE(debug_level_1),
        CASE(arrays_of_no_bytes_take_no_memory),
        CASE(absurd_requests_climb_nothing),
        CASE(closing_meets_threads_at_work),
        CASE(closing_waits_for_work),
        CASE(null_is_refused_or_does_nothing),
    };
    return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
