/* test_layout.c: the arithmetic of shapes, slices and reshapes against a slow model: the list of
** element offsets in row-major order. */
#include "tests/support/tidetest.h"
#include "tests/support/edges.h"
#include "arrays/make/slice.h"
#include <locale.h>

#define MODEL_MAX 4096 /* elements of a model; the generated layouts stay below */

typedef struct model { /* the elements of a layout, one by one */
    int64_t n, at[MODEL_MAX];
} model;

static uint64_t seed = 88172645463325252u;
static int64_t random_below(int64_t n) { /* xorshift64 */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)((seed >> 11) % (uint64_t)n);
}

static int64_t product(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

/* Row-major index -> subscripts. */
static void unravel(int64_t i, int ndim, const int64_t *shape, int64_t *at) {
    for (int d = ndim; d-- > 0; i /= shape[d]) at[d] = i % shape[d];
}
static void model_of(const tidei_layout *l, model *m) {
    int64_t at[TIDE_MAX_RANK];
    m->n = product(l->ndim, l->shape);
    assert_true(m->n <= MODEL_MAX);
    for (int64_t i = 0; i < m->n; i++) {
        unravel(i, l->ndim, l->shape, at);
        m->at[i] = l->offset;
        for (int d = 0; d < l->ndim; d++) m->at[i] += at[d] * l->strides[d];
    }
}
static void same_model(const model *a, const model *b) {
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) assert_int_equal(a->at[i], b->at[i]);
}

static tidei_layout random_layout(int max_rank) {
    tidei_layout l;
    int64_t shape[TIDE_MAX_RANK];
    int ndim = (int)random_below(max_rank + 1);
    for (int i = 0; i < ndim; i++) shape[i] = random_below(12) == 0 ? 0 : 1 + random_below(5);
    assert_ok(tidei_layout_make(TIDE_F32, ndim, shape, "test", &l));
    return l;
}

static void shapes_are_checked_when_a_layout_is_made(void **state) {
    const int64_t shape[] = {2, 3, 4}, negative[] = {2, -1}, huge[] = {INT64_MAX / 2, 3},
                  huge_empty[] = {0, INT64_MAX / 2, 3};
    const int64_t most[] = {INT64_MAX / 8}, over[] = {INT64_MAX / 8 + 1};
    tidei_layout l = {.ndim = 77};
    (void)state;
    assert_ok(tidei_layout_make(TIDE_F64, 3, shape, "test", &l));
    assert_int_equal(l.strides[0], 12);
    assert_int_equal(l.strides[1], 4);
    assert_int_equal(l.strides[2], 1);
    assert_int_equal(tidei_layout_size(&l), 24);
    assert_true(tidei_layout_contiguous(&l));
    assert_ok(tidei_layout_make(TIDE_BOOL, 0, NULL, "test", &l));
    assert_int_equal(tidei_layout_size(&l), 1);
    l.ndim = 77;
    assert_int_equal(tidei_layout_make(TIDE_F32, 2, negative, "tide_zeros", &l), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "dimension 1 of (2, -1)");
    assert_string_equal(tide_error_last()->operation, "tide_zeros");
    assert_int_equal(tidei_layout_make(TIDE_F32, 9, shape, "test", &l), TIDE_E_SHAPE);
    assert_int_equal(tidei_layout_make(TIDE_F32, -1, shape, "test", &l), TIDE_E_SHAPE);
    assert_int_equal(tidei_layout_make(TIDE_F32, 1, NULL, "test", &l), TIDE_E_INVALID);
    assert_int_equal(tidei_layout_make(15, 1, shape, "test", &l), TIDE_E_INVALID);
    assert_int_equal(tidei_layout_make(TIDE_U8, 2, huge, "test", &l), TIDE_E_NOMEM);
    assert_int_equal(tidei_layout_make(TIDE_U8, 3, huge_empty, "test", &l), TIDE_E_NOMEM);
    assert_int_equal(tidei_layout_make(TIDE_F64, 1, over, "test", &l), TIDE_E_NOMEM);
    assert_int_equal(l.ndim, 77);
    assert_ok(tidei_layout_make(TIDE_F64, 1, most, "test", &l));
}

static void a_shape_is_told_as_text(void **state) {
    const int64_t one[] = {5}, two[] = {3, 0},
                  wide[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                            INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    char buf[192];
    (void)state;
    assert_string_equal(tidei_shape_text(buf, sizeof buf, 0, NULL), "()");
    assert_string_equal(tidei_shape_text(buf, sizeof buf, 1, one), "(5,)");
    assert_string_equal(tidei_shape_text(buf, sizeof buf, 2, two), "(3, 0)");
    assert_int_equal(strlen(tidei_shape_text(buf, sizeof buf, 8, wide)), 8 * 19 + 7 * 2 + 2);
    assert_string_equal(tidei_shape_text(buf, 6, 8, wide), "(9223");
}

static void an_axis_counts_from_either_end(void **state) {
    int axis = 77;
    (void)state;
    assert_ok(tidei_axis(-1, 3, "test", &axis));
    assert_int_equal(axis, 2);
    assert_ok(tidei_axis(0, 3, "test", &axis));
    assert_int_equal(axis, 0);
    assert_int_equal(tidei_axis(3, 3, "test", &axis), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "axis 3 of an array with 3 dimensions");
    assert_int_equal(tidei_axis(-4, 3, "test", &axis), TIDE_E_BOUNDS);
    assert_int_equal(tidei_axis(0, 0, "test", &axis), TIDE_E_BOUNDS);
    assert_int_equal(axis, 0);
}

static void shapes_meet_as_the_table_says(void **state) {
    static const struct {
        int na, nb, n;
        int64_t a[3], b[3], want[3];
    } cases[] = {
        {0, 0, 0, {0}, {0}, {0}},       {0, 2, 2, {0}, {2, 3}, {2, 3}},
        {2, 1, 2, {4, 3}, {3}, {4, 3}}, {2, 3, 3, {4, 1}, {2, 1, 5}, {2, 4, 5}},
        {1, 1, 1, {0}, {1}, {0}},       {2, 2, 2, {1, 0}, {3, 1}, {3, 0}},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        int64_t shape[TIDE_MAX_RANK];
        tidei_layout b;
        int ndim = cases[i].na;
        memcpy(shape, cases[i].a, sizeof cases[i].a);
        assert_ok(tidei_layout_make(TIDE_F32, cases[i].nb, cases[i].b, "test", &b));
        assert_ok(tidei_broadcast(&ndim, shape, &b, "test"));
        assert_int_equal(ndim, cases[i].n);
        assert_memory_equal(shape, cases[i].want, (size_t)ndim * sizeof *shape);
    }
}

static void shapes_that_do_not_meet_are_refused(void **state) {
    int64_t shape[TIDE_MAX_RANK] = {4, 3}, other[] = {2, 3}, none[] = {0},
            tall[] = {INT64_MAX / 16, 1}, wide[] = {1, 17};
    int ndim = 2;
    tidei_layout b;
    (void)state;
    assert_ok(tidei_layout_make(TIDE_F32, 2, other, "test", &b));
    assert_int_equal(tidei_broadcast(&ndim, shape, &b, "tide_add"), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "(4, 3)");
    assert_error(TIDE_E_SHAPE, "(2, 3)");
    assert_error(TIDE_E_SHAPE, "axis -2 is 4 against 2");
    assert_true(ndim == 2 && shape[0] == 4 && shape[1] == 3);
    assert_ok(tidei_layout_make(TIDE_F32, 1, none, "test", &b));
    assert_int_equal(tidei_broadcast(&ndim, shape, &b, "test"), TIDE_E_SHAPE);
    assert_ok(tidei_layout_make(TIDE_U8, 2, wide, "test", &b));
    assert_int_equal(tidei_broadcast(&ndim, tall, &b, "test"), TIDE_E_NOMEM);
}

/* Element (i...) of a stretched layout is the source's element with stretched subscripts set to
** 0. */
static void a_stretched_axis_has_stride_0(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        tidei_layout l = random_layout(4), big = {.dtype = TIDE_F32};
        model source, stretched;
        int64_t at[TIDE_MAX_RANK];
        big.ndim = l.ndim + (int)random_below(3);
        for (int i = 1; i <= big.ndim; i++) {
            int64_t n = i <= l.ndim ? l.shape[l.ndim - i] : 1;
            big.shape[big.ndim - i] = n == 1 ? random_below(4) : n;
        }
        tidei_broadcast_strides(&l, big.ndim, big.shape, big.strides);
        model_of(&l, &source);
        model_of(&big, &stretched);
        for (int64_t i = 0; i < stretched.n; i++) {
            int64_t flat = 0;
            unravel(i, big.ndim, big.shape, at);
            for (int d = 0; d < l.ndim; d++)
                flat = flat * l.shape[d] + (l.shape[d] == 1 ? 0 : at[big.ndim - l.ndim + d]);
            assert_int_equal(stretched.at[i], source.at[flat]);
        }
    }
}

/* ---- slices ---- */

/* The indices that Python's range(*slice.indices(n)) gives, one step at a time. */
static int64_t python_indices(const tide_range *r, int64_t n, int64_t *out) {
    int64_t step = r->step == TIDE_NONE ? 1 : r->step, start, stop, count = 0;
    start = r->start == TIDE_NONE ? (step > 0 ? 0 : n - 1) : r->start < 0 ? r->start + n : r->start;
    stop = r->stop == TIDE_NONE ? (step > 0 ? n : -1) : r->stop < 0 ? r->stop + n : r->stop;
    if (step > 0 && start < 0) start = 0;
    if (step < 0 && start > n - 1) start = n - 1;
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && i >= 0 && i < n; i += step)
        out[count++] = i;
    return count;
}

static tide_range random_range(int64_t n) {
    tide_range r = {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_SLICE, 0};
    if (random_below(3)) r.start = random_below(2 * n + 5) - n - 2;
    if (random_below(3)) r.stop = random_below(2 * n + 5) - n - 2;
    if (random_below(3)) r.step = random_below(7) - 3;
    if (r.step == 0) r.step = TIDE_NONE;
    return r;
}

static void a_slice_of_one_axis_agrees_with_the_model(void **state) {
    (void)state;
    for (int round = 0; round < 5000; round++) {
        int64_t n = random_below(9), want[16];
        tide_range r = random_range(n);
        tidei_layout l, v;
        model m;
        assert_ok(tidei_layout_make(TIDE_I8, 1, &n, "test", &l));
        assert_ok(tidei_layout_slice(&l, 1, &r, "test", &v));
        int64_t count = python_indices(&r, n, want);
        model_of(&v, &m);
        assert_int_equal(m.n, count);
        for (int64_t i = 0; i < count; i++) assert_int_equal(m.at[i], want[i]);
    }
}

/* A random slice of l, and what it picks along each axis: picks[axis][0 .. counts[axis]). Axes from
** `first` on are left to an ellipsis, `rest` of them. Returns the number of ranges; *made:
** dimensions of the result. */
static size_t random_slice(const tidei_layout *l, tide_range *ranges, int64_t picks[][16],
                           int64_t *counts, int *made, int64_t *shape) {
    bool ellipsis = random_below(2);
    int rest = l->ndim ? (int)random_below(l->ndim + 1) : 0;
    int first = ellipsis ? (int)random_below(l->ndim - rest + 1) : l->ndim - rest;
    size_t n = 0;
    *made = 0;
    for (int axis = 0; axis <= l->ndim; axis++) {
        bool left_out = axis >= first && axis < first + rest;
        if (axis == first && ellipsis) ranges[n++] = (tide_range){.kind = TIDE_RANGE_ELLIPSIS};
        if (!left_out && axis < l->ndim && random_below(6) == 0) {
            ranges[n++] = (tide_range){.kind = TIDE_RANGE_NEWAXIS};
            shape[(*made)++] = 1;
        }
        if (axis == l->ndim) break;
        if (!left_out && l->shape[axis] > 0 && random_below(3) == 0) {
            int64_t i = random_below(l->shape[axis]);
            ranges[n++] = (tide_range){.start = random_below(2) ? i : i - l->shape[axis],
                                       .kind = TIDE_RANGE_INDEX};
            picks[axis][0] = i;
            counts[axis] = 1;
            continue;
        }
        tide_range r = {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_SLICE, 0};
        if (!left_out) ranges[n++] = r = random_range(l->shape[axis]);
        counts[axis] = python_indices(&r, l->shape[axis], picks[axis]);
        shape[(*made)++] = counts[axis];
    }
    return n;
}

/* Ranges on several axes against picking subscripts one by one. */
static void a_slice_of_many_axes_agrees_with_the_model(void **state) {
    (void)state;
    for (int round = 0; round < 3000; round++) {
        tidei_layout l = random_layout(4), v;
        tide_range ranges[16], back = {TIDE_NONE, TIDE_NONE, -1, TIDE_RANGE_SLICE, 0};
        int64_t picks[TIDE_MAX_RANK][16], counts[TIDE_MAX_RANK], shape[TIDE_MAX_RANK],
            at[TIDE_MAX_RANK];
        int made;
        model m;
        if (l.ndim && random_below(2))
            assert_ok(tidei_layout_slice(&l, 1, &back, "test", &l)); /* a view of a view */
        size_t n = random_slice(&l, ranges, picks, counts, &made, shape);
        assert_ok(tidei_layout_slice(&l, n, ranges, "test", &v));
        assert_int_equal(v.ndim, made);
        for (int d = 0; d < made; d++) assert_int_equal(v.shape[d], shape[d]);
        model_of(&v, &m);
        assert_int_equal(m.n, product(l.ndim, counts));
        for (int64_t i = 0; i < m.n; i++) {
            int64_t want = l.offset;
            unravel(i, l.ndim, counts, at);
            for (int d = 0; d < l.ndim; d++) want += picks[d][at[d]] * l.strides[d];
            assert_int_equal(m.at[i], want);
        }
    }
}

static void the_largest_numbers_do_not_overflow(void **state) {
    int64_t n = 5;
    tidei_layout l, v;
    tide_range up = {-INT64_MAX, INT64_MAX, INT64_MAX, TIDE_RANGE_SLICE, 0};
    tide_range down = {INT64_MAX, -INT64_MAX, -INT64_MAX, TIDE_RANGE_SLICE, 0};
    (void)state;
    assert_ok(tidei_layout_make(TIDE_I8, 1, &n, "test", &l));
    assert_ok(tidei_layout_slice(&l, 1, &up, "test", &v));
    assert_true(v.shape[0] == 1 && v.offset == 0);
    assert_ok(tidei_layout_slice(&l, 1, &down, "test", &v));
    assert_true(v.shape[0] == 1 && v.offset == 4);
}

static void wrong_ranges_are_refused(void **state) {
    const int64_t shape[] = {3, 4};
    const tide_range all = {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_SLICE, 0},
                     still = {0, 2, 0, TIDE_RANGE_SLICE, 0};
    const tide_range index = {.start = 4, .kind = TIDE_RANGE_INDEX},
                     before = {.start = -4, .kind = TIDE_RANGE_INDEX};
    const tide_range dots = {.kind = TIDE_RANGE_ELLIPSIS}, bad = {.kind = 9},
                     extra = {.kind = TIDE_RANGE_NEWAXIS};
    tide_range many[8];
    tidei_layout l, v = {.ndim = 77};
    (void)state;
    assert_ok(tidei_layout_make(TIDE_I8, 2, shape, "test", &l));
    assert_int_equal(tidei_layout_slice(&l, 1, &still, "test", &v), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "step");
    assert_int_equal(tidei_layout_slice(&l, 2, (tide_range[]){all, index}, "test", &v),
                     TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "index 4 of axis 1, which has 4 elements");
    assert_int_equal(tidei_layout_slice(&l, 1, &before, "test", &v), TIDE_E_BOUNDS);
    assert_int_equal(tidei_layout_slice(&l, 3, (tide_range[]){all, all, all}, "test", &v),
                     TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "3 ranges for an array with 2 dimensions");
    assert_int_equal(tidei_layout_slice(&l, 2, (tide_range[]){dots, dots}, "test", &v),
                     TIDE_E_INVALID);
    assert_int_equal(tidei_layout_slice(&l, 1, &bad, "test", &v), TIDE_E_INVALID);
    for (int i = 0; i < 7; i++) many[i] = extra;
    assert_int_equal(tidei_layout_slice(&l, 7, many, "test", &v), TIDE_E_SHAPE);
    assert_int_equal(v.ndim, 77);
}

static void a_slices_text_parses(void **state) {
    tide_range r[TIDEI_RANGES_MAX];
    size_t n = 77;
    (void)state;
    assert_ok(tidei_slice_parse("1:3, ::-1,0 , ...,newaxis, :-2:+3,None,", "test", r, &n));
    assert_int_equal(n, 7);
    const tide_range want[] = {
        {1, 3, TIDE_NONE, TIDE_RANGE_SLICE, 0},
        {TIDE_NONE, TIDE_NONE, -1, TIDE_RANGE_SLICE, 0},
        {0, TIDE_NONE, TIDE_NONE, TIDE_RANGE_INDEX, 0},
        {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_ELLIPSIS, 0},
        {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_NEWAXIS, 0},
        {TIDE_NONE, -2, 3, TIDE_RANGE_SLICE, 0},
        {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_NEWAXIS, 0},
    };
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(r[i].kind, want[i].kind);
        assert_true(r[i].start == want[i].start && r[i].stop == want[i].stop &&
                    r[i].step == want[i].step);
    }
    assert_ok(tidei_slice_parse("  ", "test", r, &n));
    assert_int_equal(n, 0);
    assert_ok(tidei_slice_parse("-9223372036854775807", "test", r, &n));
    assert_true(r[0].start == -INT64_MAX);
}

static void an_error_in_a_slices_text_names_its_place(void **state) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"1:3, x",
         "column 6: wanted a number, ':', '...' or 'newaxis', found 'x'\n  1:3, x\n       ^"},
        {"1:-", "column 4: wanted a digit, found the end"},
        {"1 2", "column 3: wanted ',' or the end, found '2'"},
        {"1:2:3:4", "column 6: wanted ',' or the end, found ':'"},
        {",1", "column 1: wanted a number"},
        {"9223372036854775808", "column 1: the number does not fit into 64 bits"},
        {"newaxis3", "column 1: wanted a number"},
        {"\x01", "found '?'"},
        {"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
         "column 65: too many ranges"},
    };
    tide_range r[TIDEI_RANGES_MAX];
    size_t n = 77;
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        assert_int_equal(tidei_slice_parse(cases[i].text, "tide_slice", r, &n), TIDE_E_PARSE);
        assert_error(TIDE_E_PARSE, cases[i].part);
    }
    assert_int_equal(n, 77);
}

/* Errors are shown in a window, in whole characters, without a look beyond the text's ends; a
** letter is ASCII in every locale. */
static void an_error_shows_a_window_of_the_text(void **state) {
    static const char *const pieces[] = {"\x87", "\xe2\x82\xac", "1", ":", ",",
                                         " ",    "\xce",         "x", "\t"};
    enum { MOST = 300 };
    edges e = edges_open(MOST);
    tide_range r[TIDEI_RANGES_MAX];
    size_t n;
    (void)state;
    for (int i = 0; i < 5000; i++) {
        char text[MOST + 8] = "";
        size_t length = 0, most = (size_t)random_below(MOST), kinds[2];
        for (int k = 0; k < 2; k++) kinds[k] = (size_t)random_below((int64_t)TIDEI_COUNT(pieces));
        bool utf8 = true;
        while (length < most) {
            size_t k = kinds[random_below(2)];
            utf8 = utf8 && k != 0 && k != 6;
            length += strlen(strcpy(text + length, pieces[k]));
        }
        for (int last = 0; last < 2; last++) {
            if (tidei_slice_parse(edges_put(&e, text, length, last), "tide_slice", r, &n) ==
                TIDE_OK)
                continue;
            const char *m = tide_error_last()->message, *line = strchr(m, '\n'),
                       *caret = strrchr(m, '\n');
            assert_true(line && line < caret && caret - line - 1 <= 2 + 3 + 76 + 3);
            assert_true(caret[1 + strspn(caret + 1, " ")] == '^' &&
                        strlen(caret + 1) <= (size_t)(caret - line));
            if (utf8 && !is_utf8(m)) fail_msg("%s", m);
        }
    }
    edges_close(&e);
    assert_int_equal(tidei_slice_parse("1, \xe2\x82\xac\xe2\x82\xac, 2", "tide_slice", r, &n),
                     TIDE_E_PARSE);
    assert_error(TIDE_E_PARSE,
                 "column 4: wanted a number, ':', '...' or 'newaxis', found '\xe2\x82\xac'\n");
    if (setlocale(LC_CTYPE, "de_DE.ISO-8859-1") || setlocale(LC_CTYPE, "en_US.ISO-8859-1")) {
        assert_int_equal(tidei_slice_parse("...\xe9", "tide_slice", r, &n), TIDE_E_PARSE);
        assert_error(TIDE_E_PARSE, "column 4: wanted ',' or the end");
        setlocale(LC_CTYPE, "C");
    }
}

/* ---- extents, contiguity, reshapes ---- */

/* A random view: sliced, perhaps transposed and stretched. */
static tidei_layout random_view(void) {
    tidei_layout l = random_layout(4);
    tide_range ranges[4];
    for (int i = 0; i < l.ndim; i++) ranges[i] = random_range(l.shape[i]);
    if (random_below(3)) assert_ok(tidei_layout_slice(&l, (size_t)l.ndim, ranges, "test", &l));
    for (int i = 0; i + 1 < l.ndim; i++) {
        if (random_below(3) == 0) {
            int64_t n = l.shape[i], s = l.strides[i];
            l.shape[i] = l.shape[i + 1], l.strides[i] = l.strides[i + 1];
            l.shape[i + 1] = n, l.strides[i + 1] = s;
        }
    }
    if (l.ndim && l.shape[0] == 1 && random_below(2)) l.shape[0] = 3, l.strides[0] = 0;
    return l;
}

static void extent_and_contiguity_agree_with_the_model(void **state) {
    (void)state;
    for (int round = 0; round < 3000; round++) {
        tidei_layout l = random_view();
        int64_t lo, hi, want_lo = INT64_MAX, want_hi = INT64_MIN;
        model m;
        bool dense = true;
        model_of(&l, &m);
        for (int64_t i = 0; i < m.n; i++) {
            if (m.at[i] < want_lo) want_lo = m.at[i];
            if (m.at[i] >= want_hi) want_hi = m.at[i] + 1;
            if (m.at[i] != m.at[0] + i) dense = false;
        }
        tidei_layout_extent(&l, &lo, &hi);
        if (m.n == 0)
            assert_int_equal(lo, hi);
        else
            assert_true(lo == want_lo && hi == want_hi);
        assert_int_equal(tidei_layout_contiguous(&l), dense);
    }
}

/* Splits `size` into random dimensions. */
static int random_shape_of(int64_t size, int64_t *shape) {
    int ndim = 0;
    for (int64_t left = size; ndim < 6; ndim++) {
        int64_t d = 1 + random_below(6);
        if (ndim == 5) d = left;
        while (left % d) d--;
        shape[ndim] = d;
        left /= d;
    }
    return ndim;
}

/* When it says view, the elements and their order are the same; when it says copy, no strides
** exist: stepping along each new axis from the first element gives the only candidates, and these
** miss the order. */
static void reshape_is_a_view_where_strides_exist(void **state) {
    int views = 0, copies = 0;
    (void)state;
    for (int round = 0; round < 6000; round++) {
        tidei_layout l = random_view(), v;
        int64_t shape[TIDE_MAX_RANK], size = tidei_layout_size(&l);
        if (size == 0) continue;
        int ndim = random_shape_of(size, shape);
        bool view = tidei_layout_reshape(&l, ndim, shape, &v);
        model before, after;
        model_of(&l, &before);
        if (!view) {
            int64_t step = 1;
            v = (tidei_layout){.dtype = l.dtype, .ndim = ndim, .offset = l.offset};
            for (int d = ndim; d-- > 0; step *= shape[d]) {
                v.shape[d] = shape[d];
                v.strides[d] = shape[d] > 1 ? before.at[step] - before.at[0] : 1;
            }
        }
        model_of(&v, &after);
        if (view)
            same_model(&before, &after);
        else
            assert_true(memcmp(before.at, after.at, (size_t)size * sizeof(int64_t)) != 0);
        view ? views++ : copies++;
    }
    assert_true(views > 1000 && copies > 300);
}

static void reshape_finds_the_missing_length(void **state) {
    const int64_t shape[] = {4, 6}, empty[] = {0, 3};
    int64_t out[TIDE_MAX_RANK] = {77};
    tidei_layout l, e, v;
    (void)state;
    assert_ok(tidei_layout_make(TIDE_F32, 2, shape, "test", &l));
    assert_ok(tidei_layout_make(TIDE_F32, 2, empty, "test", &e));
    assert_ok(tidei_reshape_shape(&l, 3, (int64_t[]){2, -1, 3}, "test", out));
    assert_int_equal(out[1], 4);
    assert_ok(tidei_reshape_shape(&e, 2, (int64_t[]){5, -1}, "test", out));
    assert_int_equal(out[1], 0);
    assert_true(tidei_layout_reshape(&e, 2, out, &v));
    assert_int_equal(tidei_reshape_shape(&e, 2, (int64_t[]){0, -1}, "test", out), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "-1");
    assert_int_equal(tidei_reshape_shape(&l, 2, (int64_t[]){5, -1}, "test", out), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "(4, 6) with 24 elements does not reshape to (5, -1)");
    assert_int_equal(tidei_reshape_shape(&l, 2, (int64_t[]){-1, -1}, "test", out), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "a second time");
    assert_int_equal(tidei_reshape_shape(&l, 1, (int64_t[]){-24}, "test", out), TIDE_E_SHAPE);
    assert_int_equal(tidei_reshape_shape(&l, 2, (int64_t[]){INT64_MAX, 3}, "test", out),
                     TIDE_E_SHAPE);
    assert_int_equal(tidei_reshape_shape(&l, 0, NULL, "test", out), TIDE_E_SHAPE);
    assert_int_equal(tidei_reshape_shape(&l, 9, shape, "test", out), TIDE_E_SHAPE);
}

static bool model_repeats(const model *m) {
    static unsigned char seen[MODEL_MAX];
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < m->n; i++)
        if (seen[m->at[i]]++) return true;
    return false;
}

/* Steps of 2 and 3 beside each other, as windows of windows have: lengths say whether they meet. */
static void elements_in_one_place_are_found_whatever_the_strides(void **state) {
    static model m;
    int apart = 0, odd = 0;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        tidei_layout l = random_layout(4);
        bool nested = true;
        for (int d = 0; d < l.ndim; d++) {
            l.strides[d] = random_below(40) ? 1 + random_below(60) : 0;
            nested &= d == 0 || l.strides[d - 1] > l.strides[d] * l.shape[d];
        }
        for (int d = 0; d < l.ndim; d++) {
            if (random_below(2) == 0 || l.shape[d] == 0) continue;
            l.offset += l.strides[d] * (l.shape[d] - 1);
            l.strides[d] = -l.strides[d];
        }
        model_of(&l, &m);
        assert_int_equal(tidei_layout_repeats(&l), model_repeats(&m));
        apart += !tidei_layout_repeats(&l);
        odd += !tidei_layout_repeats(&l) && !nested;
    }
    assert_true(apart > 1000 && odd > 1000);
}

/* Where it would take long to find out, elements are taken to meet. */
static void many_ways_to_meet_are_not_all_tried(void **state) {
    tidei_layout l;
    (void)state;
    assert_ok(tidei_layout_make(TIDE_U8, 4, (int64_t[]){900, 901, 902, 903}, "test", &l));
    for (int d = 0; d < 4; d++) l.strides[d] = (int64_t[]){1000003, 1000033, 1000037, 1000039}[d];
    assert_true(tidei_layout_repeats(&l));
    assert_ok(tidei_layout_make(TIDE_U8, 2, (int64_t[]){1000, 1000}, "test", &l));
    l.strides[0] = 1000003, l.strides[1] = 1000033;
    assert_false(tidei_layout_repeats(&l));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_checked_when_a_layout_is_made),
        cmocka_unit_test(a_shape_is_told_as_text),
        cmocka_unit_test(an_axis_counts_from_either_end),
        cmocka_unit_test(shapes_meet_as_the_table_says),
        cmocka_unit_test(shapes_that_do_not_meet_are_refused),
        cmocka_unit_test(a_stretched_axis_has_stride_0),
        cmocka_unit_test(a_slice_of_one_axis_agrees_with_the_model),
        cmocka_unit_test(an_error_shows_a_window_of_the_text),
        cmocka_unit_test(a_slice_of_many_axes_agrees_with_the_model),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
        cmocka_unit_test(wrong_ranges_are_refused),
        cmocka_unit_test(a_slices_text_parses),
        cmocka_unit_test(an_error_in_a_slices_text_names_its_place),
        cmocka_unit_test(extent_and_contiguity_agree_with_the_model),
        cmocka_unit_test(elements_in_one_place_are_found_whatever_the_strides),
        cmocka_unit_test(many_ways_to_meet_are_not_all_tried),
        cmocka_unit_test(reshape_is_a_view_where_strides_exist),
        cmocka_unit_test(reshape_finds_the_missing_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
