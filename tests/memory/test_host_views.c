/* test_host_views.c: what the host itself reads and writes of arrays: views, that they wait for
** what they must and for nothing else, what the checker says where somebody does not, and single
** elements. */
#include "tests/doubles/counted_host.h"
#include "tests/memory/memory_kinds.h"
#include <pthread.h>

/* ---- the host reads and writes ---- */

/* Every mode waits for writers on other streams; who writes, for readers too, and who reads, for
** them not. */
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
                assert_ok(tide_host_view_begin(a, mode, &v));
                assert_int_equal(atomic_load(&g.done), waits);
                assert_int_equal(v.ndim, 1);
                assert_int_equal(v.dtype, TIDE_F32);
                assert_int_equal(v.shape[0], 100);
                for (int64_t k = 0; k < 100; k++)
                    assert_true(TIDE_AT(float, &v, k) == (float)k + (writes ? 3.0f : 0.0f));
                assert_ok(tide_host_view_end(&v));
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
            assert_ok(tide_host_view_begin(a, TIDE_WRITE, &v));
            for (int64_t k = 0; k < 7; k++)
                for (int64_t l = 0; l < 9; l++)
                    TIDE_AT(float, &v, k, l) = (float)(round + 9 * k + l);
            assert_ok(tide_host_view_end(&v));
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
    tide_array *b = tide_slice(a, "::-2, 1::2"), *one = tide_slice(a, "2, 3"),
               *none = tide_slice(a, "0:0");
    tide_array *deep = tide_reshape(flat, SHAPE(1, 2, 1, 3, 1, 2, 2, 1));
    tide_host_view v;
    assert_ok(tide_host_view_begin(b, TIDE_READ | TIDE_WRITE, &v));
    assert_int_equal(v.shape[0], 2);
    assert_int_equal(v.shape[1], 3);
    assert_int_equal(v.strides[0], -12);
    assert_true(TIDE_AT(float, &v, 0, 0) == 19 && TIDE_AT(float, &v, 1, 2) == 11);
    TIDE_AT(float, &v, 1, 2) += 100;
    assert_ok(tide_host_view_end(&v));
    assert_ok(tide_host_view_begin(one, TIDE_READ, &v));
    assert_int_equal(v.ndim, 0);
    assert_true(TIDE_AT(float, &v, 0) == 15);
    assert_ok(tide_host_view_end(&v));
    assert_ok(tide_host_view_begin(deep, TIDE_READ, &v));
    assert_true(TIDE_AT(float, &v, 0, 1, 0, 2, 0, 1, 0, 0) == 22);
    assert_ok(tide_host_view_end(&v));
    assert_ok(tide_host_view_begin(none, TIDE_WRITE, &v));
    assert_int_equal(v.shape[0], 0);
    assert_ok(tide_host_view_end(&v));
    tide_array *stretched = tide_broadcast_to(one, SHAPE(5)),
               *once = tide_broadcast_to(one, SHAPE(1, 1));
    assert_ok(tide_host_view_begin(stretched, TIDE_READ, &v));
    assert_int_equal(v.strides[0], 0);
    assert_ok(tide_host_view_end(&v));
    assert_int_equal(tide_host_view_begin(stretched, TIDE_READ | TIDE_WRITE, &v), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID,
                 "the array is a stretched view: several of its elements lie in one place");
    assert_int_equal(tide_array_set(stretched, (const int64_t[]){0}, tide_arg_float(1)),
                     TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID,
                 "the array is a stretched view: several of its elements lie in one place");
    assert_ok(tide_array_set(once, (const int64_t[]){0, 0}, tide_arg_float(1)));
    assert_ok(tide_host_view_begin(once, TIDE_WRITE, &v)); /* of one element nothing is stretched */
    assert_ok(tide_host_view_end(&v));
    tide_array *empty = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, SHAPE(0, 3));
    assert_ok(tide_host_view_begin(empty, TIDE_WRITE, &v));
    assert_null(v.data);
    assert_ok(tide_host_view_end(&v));
    tide_arg item;
    assert_ok(tide_array_get(a, (const int64_t[]){1, 5}, &item));
    assert_true(item.value.f == 111);
    tide_array *all[] = {flat, a, b, one, none, deep, empty, stretched, once};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    close_silent(rt);
}

/* Also on a host device, so that what is tested there runs on a GPU. */
static void device_memory_is_out_of_reach(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
    tide_host_view v;
    assert_int_equal(tide_host_view_begin(a, TIDE_READ, &v), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "in device memory");
    assert_error(TIDE_E_UNSUPPORTED, "tide_to_host");
    assert_error(TIDE_E_UNSUPPORTED, "TIDE_DEFAULT_MEMORY=unified");
    tide_array *p = moved(a, TIDE_MEMORY_PINNED);
    assert_int_equal(tide_host_view_begin(p, 0, &v), TIDE_E_INVALID);
    assert_int_equal(tide_host_view_begin(p, 4, &v), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "mode 4 is none of TIDE_READ, TIDE_WRITE, or both");
    assert_int_equal(tide_host_view_begin(p, TIDE_READ, NULL), TIDE_E_INVALID);
    tide_error_clear();
    assert_int_equal(tide_host_view_begin(NULL, TIDE_READ, &v), TIDE_E_INVALID);
    assert_int_equal(tide_host_view_end(NULL), TIDE_E_INVALID);
    memset(&v, 0, sizeof v);
    assert_int_equal(tide_host_view_end(&v), TIDE_E_INVALID);
    tide_retain(p);
    tide_free(p);
    assert_int_equal(tide_host_view_begin(p, TIDE_READ, &v), TIDE_E_FREED);
    tide_release(p);
    tide_release(p);
    close_silent(rt);
}

static void a_view_keeps_its_memory(void **state) {
    (void)state;
    tide_runtime *rt = open_plain();
    tide_array *a = counting(rt, TIDE_MEMORY_PINNED, 1000);
    tide_host_view v, copy;
    assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
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
    assert_ok(tide_host_view_end(&v));
    assert_int_equal(tide_host_view_end(&v), TIDE_E_INVALID);
    assert_int_equal(tide_host_view_end(&copy), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "ended before");
    assert_int_equal(info(rt).pinned.live, 8 * 4000);
    for (int i = 0; i < 8; i++) tide_release(others[i]);
    close_silent(rt);
}

static void closing_with_views_open(void **state) {
    tide_host_view v[3];
    (void)state;
    for (int round = 0; round < 2; round++) {
        tide_config c = config();
        c.allocator = &counted_memory;
        tide_runtime *rt = test_open(&c);
        for (int i = 0; i < 3; i++) {
            tide_array *a = counting(rt, kinds[1 + i % 2], 100 + i);
            assert_ok(tide_host_view_begin(a, TIDE_READ | TIDE_WRITE, &v[i]));
            tide_release(a);
        }
        assert_ok(tide_host_view_end(&v[1]));
        tide_close(rt);
        assert_int_equal(tide_host_view_end(&v[0]), TIDE_E_CLOSED);
        assert_int_equal(tide_host_view_end(&v[2]), TIDE_E_CLOSED);
        assert_int_equal(tide_host_view_end(&v[2]), TIDE_E_INVALID);
        assert_int_equal(atomic_load(&host_held), 0);
    }
}

/* ---- the checker ---- */

static unsigned found(tide_runtime *rt) {
    return test_on_host() ? (unsigned)tidei_host_checker_reports(test_rt(rt)->devs[0].d) : 0;
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
            test_rt(rt)->streams->skip_waits = true;
            if (single)
                assert_ok(tide_array_get(a, (const int64_t[]){50}, &item));
            else {
                assert_ok(tide_host_view_begin(a, TIDE_READ, &v));
                assert_ok(tide_host_view_end(&v));
            }
            test_rt(rt)->streams->skip_waits = false;
            open_gate(&g);
            assert_ok(tide_device_synchronize(rt));
            assert_int_equal(found(rt), 1);
            assert_int_equal(
                lines_with(TIDE_LOG_WARNING, single ? "tide_array_get on the host reads"
                                                    : "tide_host_view_begin on the host reads"),
                1);
            assert_int_equal(lines_with(TIDE_LOG_WARNING, "which tide_use_launch on stream"), 1);
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
        assert_ok(tide_host_view_begin(mine, cases[k].host, &v));
        assert_ok(tide_fill(apart, tide_arg_int(5))); /* the other half is nobody's concern */
        assert_int_equal(found(rt), 0);
        if (cases[k].work_writes)
            assert_ok(tide_fill(a, tide_arg_int(5)));
        else
            tide_release(tide_copy(a));
        assert_int_equal(found(rt), cases[k].bad);
        assert_ok(tide_host_view_end(&v));
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
    assert_int_equal(tide_thread_allow_scalar(rt, 1), 0);
    assert_int_equal(tide_thread_allow_scalar(rt, 1), 1);
    tide_error_clear();
    assert_int_equal(tide_thread_allow_scalar(rt, 7), 0);
    assert_error(TIDE_E_INVALID, "`on` is 7; wanted: 0 or 1");
    tide_error_clear();
    assert_int_equal(tide_thread_allow_scalar(rt, 1), 1); /* nothing has changed */
    for (int i = 0; i < KINDS; i++) {
        tide_array *flat = tide_arange(rt, TIDE_I32, 0, 12, 1),
                   *a = moved(tide_reshape(flat, SHAPE(3, 4)), kinds[i]);
        tide_array *t = tide_transpose(a, NULL), *row = tide_slice(a, "1");
        tide_arg item;
        assert_ok(tide_array_get(a, (const int64_t[]){2, 1}, &item));
        assert_int_equal(item.kind, TIDE_ARG_INT);
        assert_int_equal(item.value.i, 9);
        assert_ok(tide_array_get(t, (const int64_t[]){-1, 0}, &item));
        assert_int_equal(item.value.i, 3);
        assert_ok(tide_array_set(row, (const int64_t[]){-1}, tide_arg_int(70)));
        tide_array *more = tide_map(rt, "(a) -> a + 1", a); /* sees it */
        int32_t got[12];
        assert_ok(tide_to_host(more, got, sizeof got));
        for (int k = 0; k < 12; k++) assert_int_equal(got[k], k == 7 ? 71 : k + 1);
        assert_int_equal(tide_array_get(a, (const int64_t[]){3, 0}, &item), TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, "index 3 of axis 0 is outside an array of shape (3, 4)");
        assert_int_equal(tide_array_set(a, (const int64_t[]){0, -5}, tide_arg_int(1)),
                         TIDE_E_BOUNDS);
        assert_int_equal(tide_array_set(a, (const int64_t[]){0, 0}, tide_arg_float(0.5)),
                         TIDE_E_DTYPE);
        assert_int_equal(tide_array_get(a, NULL, &item), TIDE_E_INVALID);
        assert_int_equal(tide_array_get(a, (const int64_t[]){0, 0}, NULL), TIDE_E_INVALID);
        tide_array *one = tide_slice(a, "1, 1");
        assert_ok(tide_array_get(one, NULL, &item));
        assert_int_equal(item.value.i, 5);
        tide_retain(one);
        tide_free(one);
        assert_int_equal(tide_array_get(one, NULL, &item), TIDE_E_FREED);
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
        for (int64_t i = 0; i < 3; i++) assert_ok(tide_array_set(a, &i, tide_arg_bool(i == 1)));
        for (int64_t i = 0; i < 3; i++) {
            assert_ok(tide_array_get(a, &i, &item));
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
    seen = tide_array_get(arg, (const int64_t[]){0}, &item);
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
    assert_int_equal(tide_array_get(a, (const int64_t[]){0}, &item), TIDE_E_UNSUPPORTED);
    const char *remedies[] = {"tide_to_host", "tide_item", "tide_to_memory",
                              "TIDE_DEFAULT_MEMORY=unified", "tide_thread_allow_scalar"};
    for (unsigned i = 0; i < TIDEI_COUNT(remedies); i++)
        assert_error(TIDE_E_UNSUPPORTED, remedies[i]);
    assert_int_equal(tide_array_set(a, (const int64_t[]){0}, tide_arg_int(2)), TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_thread_allow_scalar(rt, 1), 0);
    assert_ok(tide_array_set(a, (const int64_t[]){0}, tide_arg_int(2)));
    assert_ok(tide_array_get(a, (const int64_t[]){0}, &item));
    assert_true(item.value.f == 2);
    assert_int_equal(pthread_create(&other, NULL, get_one, a), 0);
    pthread_join(other, &seen);
    assert_int_equal(*(tide_status *)seen, TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_thread_allow_scalar(rt, 0), 1);
    assert_int_equal(tide_array_get(a, (const int64_t[]){0}, &item), TIDE_E_UNSUPPORTED);
    assert_int_equal(tide_thread_allow_scalar(NULL, 1), 0);
    tide_release(a);
    close_silent(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests_name("host_views", tests, NULL, NULL);
}
