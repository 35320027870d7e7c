/* test_devices.c: what work of one device does with another's arrays, and copies and transfers
** between any two of them, as users see them. */
#include "tests/support/devices.h"
#include <unistd.h>

/* ---- use across devices ---- */

static void E3_peers_and_others(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(3, "0-1");
    needs_peers(rt, 0, 1);
    on(rt, 0);
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 1000);
    on(rt, 1);
    tide_array *b = tide_map(rt, "(a) -> a + 1", a);
    assert_array(b);
    assert_int_equal(tide_array_device(b), 1);
    assert_counts(b, 1000, 1);
    on(rt, 2);
    assert_int_equal(tide_device_reaches(rt, 2, 0), 0);
    assert_null(tide_map(rt, "(a) -> a + 1", a));
    assert_error(TIDE_E_UNSUPPORTED, name(rt, 0));
    assert_error(TIDE_E_UNSUPPORTED, name(rt, 2));
    assert_error(TIDE_E_UNSUPPORTED, "TIDE_PEERS forbids it");
    assert_error(TIDE_E_UNSUPPORTED, "tide_device_set(rt, 0)");
    assert_error(TIDE_E_UNSUPPORTED, "tide_copy while 2 is current");
    assert_int_equal(tide_device_current(rt), 2);
    tide_array *c = tide_copy(a); /* the second remedy */
    assert_array(c);
    assert_int_equal(tide_array_device(c), 2);
    tide_array *d = tide_map(rt, "(c) -> c + 2", c);
    assert_counts(c, 1000, 0);
    assert_counts(d, 1000, 2);
    on(rt, 0); /* the first one */
    tide_array *e = tide_map(rt, "(a) -> a + 3", a);
    assert_counts(e, 1000, 3);
    tide_array *all[] = {a, b, c, d, e};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    close_devices(rt);
}

/* What takes arrays, of one whose device is not current. What comes of it is released. */
static tide_array *call_add(tide_array *a) { return tide_add(a, a); }
static tide_array *call_neg(tide_array *a) { return tide_neg(a); }
static tide_array *call_map(tide_array *a) {
    return tide_map(tide_array_runtime(a), "(a) -> a + max(a)", a);
}
static tide_array *call_map_into(tide_array *a) {
    return (void)!tide_map_into(a, "(a) -> a + 1", a), NULL;
}
static tide_array *call_sum(tide_array *a) { return tide_sum(a, (const int[]){0}, 1, 0); }
static tide_array *call_mean(tide_array *a) { return tide_mean(a, NULL, 0, 0); }
static tide_array *call_matmul(tide_array *a) { return tide_matmul(a, a); }
static tide_array *call_take(tide_array *a) {
    tide_array *i = tide_from_host(tide_array_runtime(a), TIDE_I64, SHAPE(2), ((int64_t[]){1, 0}));
    tide_array *b = tide_take(a, i, 0);
    tide_release(i);
    return b;
}
static tide_array *call_concat(tide_array *a) { return tide_concat((tide_array *[]){a, a}, 2, 0); }
static tide_array *call_copy(tide_array *a) { return tide_copy(a); }
static tide_array *call_cast(tide_array *a) { return tide_cast(a, TIDE_F64); }
static tide_array *call_contiguous(tide_array *a) {
    tide_array *t = tide_transpose(a, NULL), *b = tide_contiguous(t);
    tide_release(t);
    return b;
}
static tide_array *call_to_pinned(tide_array *a) { return tide_to_memory(a, TIDE_MEMORY_PINNED); }
static tide_array *call_assign_to(tide_array *a) {
    tide_array *b = tide_ones(tide_array_runtime(a), TIDE_F32, SHAPE(20, 20));
    (void)!tide_assign(a, b);
    return b;
}
static tide_array *call_assign_from(tide_array *a) {
    tide_array *b = tide_ones(tide_array_runtime(a), TIDE_F32, SHAPE(20, 20));
    (void)!tide_assign(b, a);
    return b;
}
static tide_array *call_fill(tide_array *a) { return (void)!tide_fill(a, tide_arg_int(1)), NULL; }
static tide_array *call_memset(tide_array *a) { return (void)!tide_memset(a, 1), NULL; }
static tide_array *call_set_ordered(tide_array *a) {
    return (void)!tide_array_set_ordered(a, 1), NULL;
}
static tide_array *call_to_host(tide_array *a) {
    float out[400];
    return (void)!tide_to_host(a, out, sizeof out), NULL;
}
static tide_array *call_item(tide_array *a) {
    tide_arg item;
    tide_array *b = tide_slice(a, "1, 1");
    (void)!tide_item(b, &item);
    return b;
}
static tide_array *call_get_and_set(tide_array *a) {
    tide_arg item;
    int before = tide_thread_allow_scalar(tide_array_runtime(a), 1);
    (void)!tide_array_get(a, (const int64_t[]){1, 2}, &item);
    (void)!tide_array_set(a, (const int64_t[]){1, 2}, item);
    tide_thread_allow_scalar(tide_array_runtime(a), before);
    return NULL;
}
static tide_array *call_format(tide_array *a) {
    char text[400];
    return tide_array_text(a, text, sizeof text), NULL;
}
static tide_array *call_views(tide_array *a) {
    tide_array *b = tide_slice(a, "::-2"), *c = tide_reshape(a, SHAPE(400)),
               *d = tide_broadcast_to(b, SHAPE(3, 10, 20));
    tide_release(b);
    tide_release(d);
    return c;
}
static tide_array *call_questions(tide_array *a) {
    (void)tide_array_device(a), (void)tide_array_memory(a), (void)tide_array_dtype(a),
        (void)tide_array_size(a);
    return tide_retain(a);
}
static tide_array *call_use(tide_array *a) {
    tide_use use = {.array = a, .mode = TIDE_READ | TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    if (tide_use_begin(tide_array_runtime(a), NULL, &use, 1, &p, &scope) == TIDE_OK)
        (void)!tide_use_end(scope);
    return NULL;
}
static tide_array *call_host_view(tide_array *a) {
    tide_host_view v;
    if (tide_host_view_begin(a, TIDE_READ, &v) == TIDE_OK) (void)!tide_host_view_end(&v);
    return NULL;
}
static tide_array *call_prefetch(tide_array *a) {
    (void)!tide_array_prefetch(a, 0, 400, TIDE_TO_HOST);
    (void)!tide_array_advise(a, 0, 400, TIDE_ADVISE_HOST);
    return NULL;
}
static tide_array *call_free(tide_array *a) {
    tide_array *b = tide_slice(a, ":, 1");
    tide_free(b);
    return b;
}
#define CALL(x)                                                                                    \
    { #x, call_##x }
static const struct {
    const char *name;
    tide_array *(*fn)(tide_array *a);
} calls[] = {CALL(add),         CALL(neg),         CALL(map),         CALL(map_into),  CALL(sum),
             CALL(mean),        CALL(matmul),      CALL(take),        CALL(concat),    CALL(copy),
             CALL(cast),        CALL(contiguous),  CALL(to_pinned),   CALL(assign_to), CALL(fill),
             CALL(assign_from), CALL(memset),      CALL(set_ordered), CALL(to_host),   CALL(item),
             CALL(format),      CALL(get_and_set), CALL(views),       CALL(questions), CALL(use),
             CALL(host_view),   CALL(prefetch),    CALL(free)};

static void no_call_changes_the_current_device(void **state) {
    static const char *const peers[] = {"all", "none"};
    (void)state;
    for (int p = 0; p < 2; p++) {
        tide_runtime *rt = open_devices(2, peers[p]);
        for (int kind = 0; kind < KINDS; kind++) {
            tide_stream *s;
            on(rt, 0);
            tide_array *flat = counting(rt, kinds[kind], 400),
                       *a = tide_reshape(flat, SHAPE(20, 20));
            on(rt, 1);
            assert_ok(tide_stream_new(rt, &s));
            assert_ok(tide_stream_set(rt, s));
            for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
                tide_array *made = calls[i].fn(a);
                if (tide_device_current(rt) != 1 || tide_stream_current(rt) != s)
                    fail_msg("%s: the current device is %d", calls[i].name,
                             tide_device_current(rt));
                if (!made && tide_error_last()->status == TIDE_OK && tide_array_device(a) != 0)
                    fail();
                tide_release(made);
                tide_error_clear();
            }
            tide_release(flat);
            tide_release(a);
            assert_ok(tide_stream_set(rt, NULL));
            tide_stream_release(s);
        }
        close_devices(rt);
    }
}

/* What works across devices whatever TIDE_PEERS says, and what does not. */
static void what_needs_peers_says_so(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    tide_array *flat = counting(rt, TIDE_MEMORY_DEVICE, 400),
               *a = tide_reshape(flat, SHAPE(20, 20));
    on(rt, 1);
    static const char *const wants[] = {"add", "neg", "map", "sum", "mean", "matmul", "take"};
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        bool works = true;
        for (size_t k = 0; k < TIDEI_COUNT(wants); k++)
            works = works && strcmp(calls[i].name, wants[k]);
        tide_error_clear();
        tide_array *made = calls[i].fn(a);
        tide_status got = tide_error_last()->status;
        bool by_kind = !strcmp(calls[i].name, "host_view") || !strcmp(calls[i].name, "prefetch");
        bool lends = !strcmp(calls[i].name, "use") || !strcmp(calls[i].name, "map_into");
        if (got != (works && !by_kind && !lends ? TIDE_OK : TIDE_E_UNSUPPORTED))
            fail_msg("%s: %s: %s", calls[i].name, tide_status_name(got),
                     tide_error_last()->message);
        if (!works || lends) {
            assert_error(TIDE_E_UNSUPPORTED, name(rt, 0));
            assert_null(made);
        }
        tide_release(made);
    }
    tide_error_clear();
    tide_release(flat);
    tide_release(a);
    close_devices(rt);
}

/* ---- T16: values ---- */

static void T16_read_where_it_was_not_written(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, NULL);
    needs_peers(rt, 0, 1);
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(5000));
    for (int i = 0; i < 100; i++) { /* both write it, by turns */
        on(rt, i % 2);
        assert_ok(tide_map_into(a, "(a) -> a + 1", a));
        on(rt, 1 - i % 2);
        tide_array *least = tide_map(rt, "(a) -> min(a)", a);
        assert_array(least);
        if (i % 10 == 9) assert_true(tide_item_f64(least) == i + 1);
        tide_release(least);
    }
    tide_release(a);
    close_devices(rt);
}

static double ramp(int64_t i) { return (double)i; }
static double strided(int64_t i) { return (double)(1 + 3 * i); }
static double backward(int64_t i) { return (double)(299 - 2 * i); }
static double repeated(int64_t i) { return (double)(i % 20); }
static double into_halves(int64_t i) { return i % 2 ? -1 : (double)(i / 2); }

/* From device `from` to device `to` with `current` current: dense, strided, reversed, cast,
** broadcast. */
static void copies_of_views(tide_runtime *rt, int from, int to, int current) {
    on(rt, from);
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 300, 1), *third = tide_slice(a, "1::3"),
               *back = tide_slice(a, "::-2"), *row = tide_slice(a, ":20"),
               *rows = tide_broadcast_to(row, SHAPE(15, 20));
    on(rt, to);
    const struct {
        tide_array *src;
        int64_t n;
        double (*wanted)(int64_t i);
    } rows_of[] = {
        {a, 300, ramp}, {third, 100, strided}, {back, 150, backward}, {rows, 300, repeated}};
    for (size_t i = 0; i < TIDEI_COUNT(rows_of); i++)
        for (int wider = 0; wider < 2; wider++) {
            int64_t n = rows_of[i].n;
            tide_dtype t = wider ? TIDE_F64 : TIDE_I32;
            on(rt, to);
            tide_array *dense = tide_full(rt, t, 1, &n, tide_arg_int(-1)),
                       *twice = tide_full(rt, t, SHAPE(2 * n), tide_arg_int(-1)),
                       *half_of = tide_slice(twice, "::2"),
                       /* NULL where it cannot be viewed so */
                           *flat = tide_reshape(rows_of[i].src, 1, &n);
            tide_error_clear();
            tide_array *shaped = i == 3 ? tide_reshape(dense, SHAPE(15, 20)) : dense;
            on(rt, current);
            assert_ok(tide_assign(shaped, rows_of[i].src));
            assert_values(dense, n, rows_of[i].wanted);
            if (flat && i == 0) {
                assert_ok(tide_assign(half_of, flat));
                assert_values(twice, 2 * n, into_halves);
            }
            tide_array *cast = tide_cast(rows_of[i].src, TIDE_F32),
                       *copy = tide_copy(rows_of[i].src);
            assert_array(cast);
            assert_array(copy);
            assert_int_equal(tide_array_device(copy), current);
            assert_values(cast, n, rows_of[i].wanted);
            assert_values(copy, n, rows_of[i].wanted);
            if (shaped != dense) tide_release(shaped);
            tide_array *all[] = {dense, twice, half_of, flat, cast, copy};
            for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
        }
    tide_array *all[] = {a, third, back, row, rows};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
}

static void T16_copies_of_views(void **state) {
    static const char *const peers[] = {"all", "none", "0-1"};
    int n = test_on_host() ? 3 : 2;
    (void)state;
    for (unsigned p = 0; p < TIDEI_COUNT(peers); p++) {
        tide_runtime *rt = open_devices(n, peers[p]);
        for (int from = 0; from < n; from++)
            for (int to = 0; to < n; to++)
                for (int current = 0; current < n; current++)
                    copies_of_views(rt, from, to, current);
        close_devices(rt);
    }
}

static void T16_sizes_and_kinds(void **state) {
    static const size_t sizes[] = {1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5};
    (void)state;
    for (int p = 0; p < 2; p++) {
        tide_runtime *rt = open_devices(2, p ? "none" : "all");
        for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++)
            for (int k = 0; k < KINDS * KINDS; k++) {
                size_t n = sizes[i];
                if (k && n > PIECE && (test_quick() || p == 0)) continue; /* long ones once */
                on(rt, 0);
                tide_array *a = patterned(rt, kinds[k / KINDS], n, 7 * i + 1);
                on(rt, 1);
                tide_array *b = tide_to_memory(a, kinds[k % KINDS]);
                assert_array(b);
                assert_int_equal(tide_array_device(b), 1);
                assert_int_equal(tide_array_memory(b), kinds[k % KINDS]);
                assert_pattern(b, n, 7 * i + 1);
                assert_ok(tide_memset(a, 0));
                on(rt, 0);
                assert_ok(tide_assign(a, b)); /* and back */
                assert_pattern(a, n, 7 * i + 1);
                tide_release(a);
                tide_release(b);
            }
        close_devices(rt);
    }
}

/* The staged pieces of several copies at once do not mix, nor does what is queued before and
** behind. */
static void T16_staged_copies_in_a_row(void **state) {
    enum { N = 6 };
    size_t n = 2 * PIECE + 77;
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    tide_array *a[N], *b[N];
    for (unsigned i = 0; i < N; i++) {
        on(rt, i % 2);
        a[i] = patterned(rt, TIDE_MEMORY_DEVICE, n, i);
    }
    for (unsigned i = 0; i < N; i++) {
        on(rt, 1 - i % 2);
        assert_array(b[i] = tide_copy(a[i]));
        assert_ok(tide_memset(a[i], 0xff));
        tide_release(a[i]);
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(tide_array_device(b[i]), 1 - i % 2);
        assert_pattern(b[i], n, i);
        tide_release(b[i]);
    }
    close_devices(rt);
}

/* ---- T14: memory that every device reaches ---- */

static void T14_memory_of_the_host_is_everybodys(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++)
        for (int k = 1; k < KINDS; k++) {
            tide_host_view v;
            tide_runtime *rt = open_devices(2, p ? "none" : "all");
            tide_array *a = counting(rt, kinds[k], 1000);
            on(rt, 1);
            tide_array *b = tide_map(rt, "(a) -> a + 1", a);
            assert_array(b);
            assert_int_equal(tide_array_device(b), 1);
            assert_counts(b, 1000, 1);
            assert_ok(tide_map_into(a, "(a) -> a + 5", a));
            on(rt, 0);
            assert_ok(tide_map_into(a, "(a) -> a + 5", a));
            assert_ok(tide_host_view_begin(a, TIDE_READ | TIDE_WRITE, &v)); /* after both */
            for (int64_t i = 0; i < 1000; i++) {
                if (TIDE_AT(float, &v, i) != (float)(i + 10)) fail_msg("element %d", (int)i);
                TIDE_AT(float, &v, i) += 1;
            }
            assert_ok(tide_host_view_end(&v));
            on(rt, 1);
            tide_array *c = tide_map(rt, "(a, b) -> a - b", a, b), *copy = tide_copy(a);
            assert_array(c);
            assert_int_equal(tide_array_memory(copy), kinds[k]);
            assert_int_equal(tide_array_memory(a), kinds[k]);
            assert_int_equal(tide_array_device(a), 0);
            assert_int_equal(tide_array_device(copy), 1);
            assert_counts(copy, 1000, 11);
            tide_array *least = tide_map(rt, "(c) -> max(c) - min(c) + c[0]", c);
            tide_error_clear();
            tide_release(least);
            assert_true(tide_item_f64(tide_slice(c, "0")) == 10);
            tide_array *all[] = {a, b, c, copy};
            for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
            close_devices(rt);
        }
}

/* ---- transfers ---- */

static void transfers_go_where_the_array_is(void **state) {
    static char text[2][400];
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    tide_array *flat = counting(rt, TIDE_MEMORY_DEVICE, 30), *a = tide_reshape(flat, SHAPE(5, 6)),
               *t = tide_transpose(a, NULL), *back = tide_slice(flat, "::-1");
    tide_array_text(a, text[0], sizeof text[0]);
    on(rt, 1);
    tide_array_text(a, text[1], sizeof text[1]);
    assert_string_equal(text[0], text[1]);
    float out[30];
    assert_ok(tide_to_host(t, out, sizeof out));
    for (int i = 0; i < 30; i++) assert_true(out[i] == (float)(i % 5 * 6 + i / 5));
    assert_ok(tide_to_host(back, out, sizeof out));
    for (int i = 0; i < 30; i++) assert_true(out[i] == (float)(29 - i));
    int before = tide_thread_allow_scalar(rt, 1);
    tide_arg x;
    assert_ok(tide_array_get(t, (const int64_t[]){2, 3}, &x));
    assert_true(x.value.f == 20);
    assert_ok(tide_array_set(t, (const int64_t[]){2, 3}, tide_arg_float(-1)));
    assert_ok(tide_array_get(a, (const int64_t[]){3, 2}, &x));
    assert_true(x.value.f == -1);
    tide_thread_allow_scalar(rt, before);
    assert_ok(tide_fill(back, tide_arg_int(4)));
    assert_true(tide_item_f64(tide_slice(flat, "7")) == 4);
    tide_array *some = tide_slice(flat, "::7");
    assert_ok(tide_memset(some, 0));
    assert_ok(tide_to_host(flat, out, sizeof out));
    for (int i = 0; i < 30; i++) assert_true(out[i] == (i % 7 ? 4 : 0));
    tide_array *all[] = {flat, a, t, back, some};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    close_devices(rt);
}

static void files_are_written_from_any_device(void **state) {
    char path[] = "/tmp/tide-devices-XXXXXX";
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 1000), *back = tide_slice(a, "::-1");
    on(rt, 1);
    assert_ok(tide_npy_write(a, path));
    tide_array *b = tide_npy_read(rt, path);
    assert_array(b);
    assert_int_equal(tide_array_device(b), 1);
    assert_counts(b, 1000, 0);
    assert_ok(tide_npy_write(back, path));
    tide_array *c = tide_npy_read(rt, path);
    assert_true(tide_item_f64(tide_slice(c, "0")) == 999);
    unlink(path);
    tide_array *all[] = {a, back, b, c};
    for (unsigned i = 0; i < TIDEI_COUNT(all); i++) tide_release(all[i]);
    close_devices(rt);
}

/* What a kernel found wrong on one device is told where the host waits for another. */
static void reports_come_from_every_device(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    on(rt, 1);
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 10),
               *i = tide_from_host(rt, TIDE_I32, SHAPE(1), (int32_t[]){99});
    tide_array *wrong = tide_take(a, i, 0);
    assert_array(wrong);
    on(rt, 0);
    tide_array *copy = tide_copy(wrong);
    float out;
    assert_int_equal(tide_to_host(copy, &out, sizeof out), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "index 99 is out of range for 10 elements");
    tide_error_clear();
    assert_ok(tide_to_host(copy, &out, sizeof out)); /* once */
    tide_array *all[] = {a, i, wrong, copy};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    close_devices(rt);
}

/* An operand that is refused is so before anything is written. */
static void nothing_is_written_before_a_refusal(void **state) {
    (void)state;
    tide_runtime *rt = open_devices(2, "none");
    tide_array *near = counting(rt, TIDE_MEMORY_DEVICE, 100),
               *first = tide_zeros(rt, TIDE_F32, SHAPE(100));
    on(rt, 1);
    tide_array *far = tide_zeros(rt, TIDE_F32, SHAPE(100));
    on(rt, 0);
    tide_array *into[] = {first, far};
    tide_arg args[] = {tide_arg_array(near)};
    tide_expr *e = tide_expr_new(rt, "(a) -> (a + 1, sum(a) + a)");
    assert_non_null(e);
    assert_int_equal(tide_expr_apply_into(into, 2, e, args, 1), TIDE_E_UNSUPPORTED);
    tide_error_clear();
    tide_expr_release(e);
    float out[100];
    assert_ok(tide_to_host(first, out, sizeof out));
    for (int i = 0; i < 100; i++) assert_true(out[i] == 0);
    tide_array *all[] = {near, first, far};
    for (unsigned k = 0; k < TIDEI_COUNT(all); k++) tide_release(all[k]);
    close_devices(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E3_peers_and_others),
        cmocka_unit_test(no_call_changes_the_current_device),
        cmocka_unit_test(what_needs_peers_says_so),
        cmocka_unit_test(T16_read_where_it_was_not_written),
        cmocka_unit_test(T16_copies_of_views),
        cmocka_unit_test(T16_sizes_and_kinds),
        cmocka_unit_test(T16_staged_copies_in_a_row),
        cmocka_unit_test(T14_memory_of_the_host_is_everybodys),
        cmocka_unit_test(transfers_go_where_the_array_is),
        cmocka_unit_test(files_are_written_from_any_device),
        cmocka_unit_test(reports_come_from_every_device),
        cmocka_unit_test(nothing_is_written_before_a_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
