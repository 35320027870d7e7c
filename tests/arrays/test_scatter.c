/* test_scatter.c: values combined with what is at their indices, against a slow model: sums that
** are exact come to what they must in any order, those that are not to the same bits each time;
** special values; the same by a GPU's kernels, emulated. */
#include <math.h>
#include "tests/arrays/indexed.h"
#include "tests/doubles/emulated_failures.h"

extern const char tidei_buckets_text[], tidei_scatter_text[], tidei_scatter_few_text[];

/* The elements as c128. */
static double *numbers_of(tide_array *a) { return bytes_of(tide_cast(a, TIDE_C128)); }

/* ---- the model ---- */

enum { PUT, ADD, MUL, MIN, MAX, OPS };

static tide_status scatter(int op, tide_array *a, tide_array *at, int axis, tide_array *values,
                           unsigned flags) {
    switch (op) {
    case PUT: return tide_scatter_put(a, at, axis, values);
    case ADD: return tide_scatter_add(a, at, axis, values, flags);
    case MUL: return tide_scatter_mul(a, at, axis, values);
    case MIN: return tide_scatter_min(a, at, axis, values);
    default: return tide_scatter_max(a, at, axis, values);
    }
}

static void combine(int op, double *a, const double *v) {
    double re = a[0], im = a[1];
    switch (op) {
    case PUT: a[0] = v[0], a[1] = v[1]; break;
    case ADD: a[0] += v[0], a[1] += v[1]; break;
    case MUL: a[0] = re * v[0] - im * v[1], a[1] = re * v[1] + im * v[0]; break;
    case MIN: a[0] = fmin(re, v[0]); break;
    default: a[0] = fmax(re, v[0]);
    }
}

static bool is_offered(int op, tide_dtype t) {
    if (op == ADD || op == MUL) return t != TIDE_BOOL;
    return op == PUT || tidei_dtype_kind(t) != TIDEI_KIND_COMPLEX;
}

/* A number that all types have; the products of many stay small. */
static void draw_number(int op, tide_dtype t, double *x) {
    bool is_signed =
        tidei_dtype_kind(t) != TIDEI_KIND_BOOL && tidei_dtype_kind(t) != TIDEI_KIND_UINT;
    x[0] = t == TIDE_BOOL ? (double)random_below(2) : op == MUL ? 1 : (double)random_below(4);
    x[1] = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX ? (double)random_below(3) : 0;
    if (op == MUL && random_below(40) == 0) x[0] = 2;
    if (op == MUL && x[1] != 0) x[0] = 0, x[1] = 1;
    if (is_signed && random_below(2)) x[0] = -x[0];
}

static tide_array *draw_array(tide_runtime *rt, int op, tide_dtype t, int ndim,
                              const int64_t *shape, double *at) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    for (int64_t i = 0; i < n; i++) draw_number(op, t, at + 2 * i);
    tide_array *a = tide_from_host(rt, TIDE_C128, ndim, shape, at), *re;
    if (tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX) return tide_cast(a, t);
    double *parts = malloc((size_t)n * 8 + 1); /* the real parts alone */
    for (int64_t i = 0; i < n; i++) parts[i] = at[2 * i];
    re = tide_cast(tide_from_host(rt, TIDE_F64, ndim, shape, parts), t);
    free(parts);
    return re;
}

static const char *last_kernel; /* of one_case's call, emulated */
/* Of one_case's indices one in so many is bad; 0: none. */
static int bad_each;

/* One case: rows of (n[0], m, n[2]) into (n[0], n[1], n[2]), which may lie in any order. */
static void one_case(tide_runtime *rt, int op, tide_dtype t, const int64_t *n, int64_t m,
                     bool turned, unsigned flags) {
    int64_t k[3] = {n[0], m, n[2]}, size = n[0] * n[1] * n[2], rows = n[0] * m * n[2];
    double *is = malloc((size_t)(size * 16 + 1)), *values = malloc((size_t)(rows * 16 + 1));
    int32_t *index = malloc((size_t)m * 4 + 1);
    tide_array *a = draw_array(rt, op, t, 3, n, is), *v = draw_array(rt, op, t, 3, k, values);
    bool bad = false;
    for (int64_t j = 0; j < m; j++) {
        const int64_t at = random_below(n[1]), from = random_below(2) ? n[1] : 0;
        const bool out = bad_each && j % bad_each == 0;
        bad |= out;
        index[j] = (int32_t)(out ? (from ? -n[1] - 1 - at : n[1] + at) : at - from);
    }
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < m; j++)
            for (int64_t c = 0; c < n[2]; c++) {
                int64_t x = index[j] < 0 ? index[j] + n[1] : index[j];
                if (x < 0 || x >= n[1]) continue;
                combine(op, is + 2 * ((i * n[1] + x) * n[2] + c),
                        values + 2 * ((i * m + j) * n[2] + c));
            }
    tide_array *at = tide_from_host(rt, TIDE_I32, 1, &m, index);
    if (turned) { /* the same, with other strides */
        static const int perm[] = {2, 0, 1}, back[] = {1, 2, 0};
        a = tide_transpose(tide_copy(tide_transpose(a, perm)), back);
        v = tide_slice(tide_copy(tide_slice(v, "::-1, :, ::-1")), "::-1, :, ::-1");
    }
    assert_ok(scatter(op, a, at, turned ? -2 : 1, v, flags));
    last_kernel = emulated_last;
    if (bad) assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    double *got = numbers_of(a);
    for (int64_t i = 0; i < size; i++)
        if (got[2 * i] != is[2 * i] || got[2 * i + 1] != is[2 * i + 1])
            fail_msg("op %d, %s, (%d, %d, %d), %d rows, element %d: %g%+gi, not %g%+gi", op,
                     tide_dtype_name(t), (int)n[0], (int)n[1], (int)n[2], (int)m, (int)i,
                     got[2 * i], got[2 * i + 1], is[2 * i], is[2 * i + 1]);
    free(got), free(is), free(values), free(index);
}

static void every_type_agrees_with_the_model(void **state) {
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1},   {1, 2, 1, 2}, {3, 5, 7, 11}, {1, 3, 1, 200}, {2, 1, 3, 40}, {1, 50, 5, 0},
        {2, 4, 3, 130}, {1, 4, 9, 3}, {2, 5, 8, 70}, {1, 2, 1, 2},   {1, 9, 33, 31}};
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int op = 0; op < OPS; op++)
            for (size_t s = 0; is_offered(op, t) && s < TIDEI_COUNT(shapes); s++) {
                if (is_emulated(*state) && s % 2 && t != TIDE_F32 && t != TIDE_F16) continue;
                one_case(*state, op, t, shapes[s], shapes[s][3], s & 1, 0);
                if (op == ADD && t >= TIDE_F32)
                    one_case(*state, op, t, shapes[s], shapes[s][3], !(s & 1),
                             TIDE_SCATTER_ANY_ORDER);
            }
}

/* Runs that end in a chunk, fill it, and go on over many, and over levels. */
static void long_and_short_runs_agree_with_the_model(void **state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 40, 1000};
    for (int round = 0; round < rounds(*state, 24); round++) {
        int64_t n[3] = {1, lengths[round % 6], 1 + random_below(3)}, m = 60 + random_below(10);
        if (round % 4 == 1) m = 4000 + random_below(300);
        if (round % 4 == 2) m = 64 * (1 + random_below(40));
        one_case(*state, ADD, round % 2 ? TIDE_F64 : TIDE_C64, n, m, round & 2, 0);
    }
    one_case(*state, ADD, TIDE_F64, (int64_t[]){1, 9, 1}, is_emulated(*state) ? 9000 : 150000,
             false, 0);
    one_case(*state, ADD, TIDE_I64, (int64_t[]){1, 9, 1}, is_emulated(*state) ? 9000 : 150000,
             false, 0);
}

/* Few columns, which a GPU's blocks fold by tiles, and more, by rows; values that its sort carries
** along (of one column), places that take four bytes; runs within tiles, over their ends, and over
** levels. */
static void tiles_and_rows_agree_with_the_model(void **state) {
    static const tide_dtype types[] = {TIDE_F16, TIDE_BF16, TIDE_F32,
                                       TIDE_F64, TIDE_C64,  TIDE_C128};
    for (size_t k = 0; k < TIDEI_COUNT(types); k++)
        for (int64_t width = 1; width <= 5; width += 1 + (int64_t)k % 2) {
            int64_t m = 4097 + random_below(5000), places = 300 + random_below(5000);
            one_case(*state, ADD, types[k], (int64_t[]){1, places, width}, m, width == 3, 0);
        }
    one_case(*state, ADD, TIDE_F32, (int64_t[]){1, 700, 18}, 4500, false, 0);
    one_case(*state, ADD, TIDE_F64, (int64_t[]){2, 90, 33}, 4200, true, 0);
    one_case(*state, ADD, TIDE_BF16, (int64_t[]){1, 50, 300}, 200, false, 0);
    for (int64_t m = 2047; m < 2050; m++) /* a tile, of one run and of as many as entries */
        for (int64_t places = 1; places < 5000; places += 4000)
            one_case(*state, ADD, TIDE_F64, (int64_t[]){1, places, 1}, m, false, 0);
}

/* Sums of many entries of few columns, which a GPU makes by buckets of 512 places: of one bucket
** and of several ones, with a last place that is a bucket's last one, of all numbers of components
** that it takes; tiles and pieces that are not full. */
static void is_put_by_buckets(tide_runtime *rt, bool so) {
    if (is_emulated(rt))
        assert_int_equal(strncmp(last_kernel, "buckets_put_", strlen("buckets_put_")) == 0, so);
}
static void sums_by_buckets_agree_with_the_model(void **state) {
    static const struct {
        tide_dtype t;
        int64_t outer, places, width;
        bool turned;
    } cases[] = {{TIDE_F64, 1, 511, 1, false},   {TIDE_F64, 1, 512, 1, true},
                 {TIDE_F64, 2, 16001, 1, false}, {TIDE_F32, 1, 1023, 1, false},
                 {TIDE_F32, 2, 1024, 2, true},   {TIDE_F32, 1, 9000, 3, false},
                 {TIDE_F32, 1, 2, 2, false},     {TIDE_F16, 1, 3000, 1, false},
                 {TIDE_F16, 1, 700, 3, true},    {TIDE_BF16, 2, 7000, 2, false},
                 {TIDE_BF16, 1, 700, 2, false},  {TIDE_C64, 1, 5000, 1, false},
                 {TIDE_C64, 1, 2000, 2, true},   {TIDE_C128, 1, 600, 1, true}};
    tide_runtime *rt = *state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        const int64_t n[] = {cases[i].outer, cases[i].places, cases[i].width};
        one_case(rt, ADD, cases[i].t, n, 32768 + random_below(6000), cases[i].turned, 0);
        is_put_by_buckets(rt, true);
    }
    if (test_quick()) return; /* so many places take many entries */
    one_case(rt, ADD, TIDE_F32, (int64_t[]){1, 270000, 1}, 272000, false, 0);
    is_put_by_buckets(rt, true);
    /* as many buckets as there may be, and a last tile that is not full */
    one_case(rt, ADD, TIDE_C128, (int64_t[]){1, 524287, 1}, 1049001, false, 0);
    is_put_by_buckets(rt, true);
}

/* Entries whose indices rise, fall, or are nearly all the same, so that one bucket has more pieces
** than a block has warps; of some the index is bad. */
static void buckets_of_any_size_are_added_up(void **state) {
    enum { PLACES = 9000, N = 70000, PATTERNS = 4 };
    static const char *const said[] = {"index 9000 is", "index 9001 is", "index 9002 is",
                                       "index 9003 is"};
    tide_runtime *rt = *state;
    for (int k = 0; k < PATTERNS; k++) {
        uint16_t *at = malloc(N * sizeof *at);
        double *want = calloc(PLACES, sizeof *want), *value = malloc(N * sizeof *value);
        for (int i = 0; i < N; i++) {
            at[i] = (uint16_t)(k == 0   ? i * (int64_t)PLACES / N
                               : k == 1 ? PLACES - 1 - i / 8
                               : k == 2 ? (random_below(500) ? 4607 : random_below(PLACES))
                                        : 513);
            if (i == 33000) at[i] = (uint16_t)(PLACES + k);
            value[i] = (double)random_below(1000);
            if (at[i] < PLACES) want[at[i]] += value[i];
        }
        tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(PLACES));
        assert_ok(tide_scatter_add(a, tide_from_host(rt, TIDE_U16, SHAPE(N), at), 0,
                                   tide_from_host(rt, TIDE_F64, SHAPE(N), value), 0));
        last_kernel = emulated_last;
        is_put_by_buckets(rt, true);
        assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, said[k]);
        double *got = bytes_of(a);
        assert_memory_equal(got, want, PLACES * sizeof *want);
        free(got), free(want), free(value), free(at);
    }
}

/* What buckets do not take: few entries, many columns, as many places as entries. */
static void other_sums_are_sorted(void **state) {
    tide_runtime *rt = *state;
    one_case(rt, ADD, TIDE_F32, (int64_t[]){1, 300, 1}, 30000, false, 0);
    is_put_by_buckets(rt, false);
    one_case(rt, ADD, TIDE_F64, (int64_t[]){1, 300, 3}, 32768, false, 0);
    is_put_by_buckets(rt, false);
    one_case(rt, ADD, TIDE_F32, (int64_t[]){1, 32768, 1}, 32768, false, 0);
    is_put_by_buckets(rt, false);
}

/* Of 40000 equal numbers, whose sum in the order in which they stand would be off by a thousandth:
** as sums of sums, in the same order each time. Sums of -0.0 stay so. */
static void sums_by_buckets_lose_little(void **state) {
    enum { N = 40000, PLACES = 3 };
    tide_runtime *rt = *state;
    tide_array *v = tide_full(rt, TIDE_F32, SHAPE(N), tide_arg_float(0.1)),
               *at = tide_zeros(rt, TIDE_I64, SHAPE(N));
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(PLACES)),
               *zeros = tide_full(rt, TIDE_F32, SHAPE(PLACES), tide_arg_float(-0.0));
    assert_ok(tide_scatter_add(a, at, 0, v, 0));
    last_kernel = emulated_last;
    is_put_by_buckets(rt, true);
    float *got = bytes_of(a);
    assert_true(fabs((double)got[0] / (N * (double)0.1F) - 1) < 4e-6);
    assert_true(got[1] == 0 && got[2] == 0);
    free(got);
    v = tide_full(rt, TIDE_F32, SHAPE(N), tide_arg_float(-0.0));
    assert_ok(tide_scatter_add(zeros, at, 0, v, 0));
    last_kernel = emulated_last;
    is_put_by_buckets(rt, true);
    int32_t *bits = bytes_of(zeros);
    for (int i = 0; i < PLACES; i++) assert_int_equal(bits[i], INT32_MIN);
    free(bits);
}

static void add_by_buckets(tide_runtime *rt, tide_status *status) {
    tide_array *a = tide_zeros(rt, TIDE_F64, SHAPE(600)),
               *at = a ? tide_arange(rt, TIDE_I32, -300, 300, 1) : NULL,
               *each = at ? tide_repeat(at, 60, 0) : NULL,
               *v = each ? tide_ones(rt, TIDE_F64, SHAPE(36000)) : NULL;
    *status = v ? tide_scatter_add(a, each, 0, v, 0) : tide_error_last()->status;
    if (*status == TIDE_OK) *status = tide_synchronize(rt, NULL);
    tide_release(a), tide_release(at), tide_release(each), tide_release(v);
}
static void a_failure_leaves_nothing(void **state) {
    (void)state;
    each_emulated_call_fails(add_by_buckets);
}

/* Bytes that a GPU combines in their places: words of four begin and end anywhere in a row. Where
** the last word would reach beyond the memory they go another way. */
static void bytes_keep_their_neighbours(void **state) {
    static const tide_dtype types[] = {TIDE_U8, TIDE_I8, TIDE_BOOL};
    static const int64_t widths[] = {1, 2, 3, 7, 8, 9, 10, 31, 129};
    for (size_t k = 0; k < TIDEI_COUNT(types) * 2; k++)
        for (size_t w = 0; w < TIDEI_COUNT(widths) * 2; w++) {
            const int64_t n[3] = {1, w % 2 ? 5 : 4, widths[w / 2]};
            if (is_emulated(*state) && k % 3 != w % 3) continue;
            one_case(*state, k % 2 ? MIN : MAX, types[k / 2], n, 40, false, 0);
            if (!is_emulated(*state)) continue;
            if (n[1] * n[2] % 4 == 0)
                assert_string_equal(last_kernel, "scatter_each_1");
            else
                assert_string_not_equal(last_kernel, "scatter_each_1");
        }
}

/* Rows that a GPU's warps share: several of short ones, parts of long ones; words of two components
** that begin anywhere. */
static void rows_of_any_width_agree_with_the_model(void **state) {
    static const tide_dtype types[] = {TIDE_I16, TIDE_U16, TIDE_F16, TIDE_BF16, TIDE_I32,
                                       TIDE_F32, TIDE_F64, TIDE_I64, TIDE_U32};
    static const int64_t widths[] = {8, 9, 31, 33, 127, 128, 1025, 1300};
    for (size_t k = 0; k < TIDEI_COUNT(types); k++)
        for (int op = ADD; op < OPS; op++)
            for (size_t w = (k + (size_t)op) % 2; w < TIDEI_COUNT(widths); w += 2)
                one_case(*state, op, types[k], (int64_t[]){1, 5, widths[w]},
                         widths[w] > 1000 ? 7 : 30 + random_below(40), false, 0);
    for (int64_t width = 1; width < 6; width++) /* more than a block notes, of one unit and more */
        one_case(*state, PUT, TIDE_F32, (int64_t[]){1, 700, width}, 3700, width == 2, 0);
    static const int64_t put_widths[] = {8, 37, 130, 1100}; /* of rows that warps share */
    for (size_t w = 0; w < TIDEI_COUNT(put_widths); w++)
        one_case(*state, PUT, w % 2 ? TIDE_U8 : TIDE_F16, (int64_t[]){1, 300, put_widths[w] + 1},
                 w < 3 ? 3700 : 3540, false, 0);
    one_case(*state, PUT, TIDE_F16, (int64_t[]){2, 30000, 3}, 3600, false, 0); /* hashed */
    one_case(*state, ADD, TIDE_C64, (int64_t[]){2, 5, 700}, 9, false, TIDE_SCATTER_ANY_ORDER);
    /* carried out of the lower half of a word, and of the upper one, from a row that begins in
    ** the midst of a word */
    tide_array *a = tide_slice(tide_zeros(*state, TIDE_U16, SHAPE(23)), "1:"),
               *ones = tide_full(*state, TIDE_U16, 0, NULL, tide_arg_int(65535));
    uint16_t got[22], want[22], at[74];
    for (int i = 0; i < 74; i++) at[i] = (uint16_t)(i % 2);
    tide_array *places = tide_from_host(*state, TIDE_U16, SHAPE(74), at);
    for (int i = 0; i < 22; i++) want[i] = (uint16_t)-37;
    a = tide_reshape(a, SHAPE(2, 11));
    assert_ok(tide_scatter_add(a, places, 0, tide_copy(tide_broadcast_to(ones, SHAPE(74, 11))), 0));
    assert_ok(tide_to_host(a, got, sizeof got));
    assert_memory_equal(got, want, sizeof got);
}

/* Few entries of many columns, which lie side by side or apart; in runs of many pieces, and of one
** entry. */
static void few_entries_agree_with_the_model(void **state) {
    static const tide_dtype types[] = {TIDE_F32,  TIDE_I16, TIDE_F16, TIDE_U32, TIDE_F64,
                                       TIDE_BF16, TIDE_I64, TIDE_C64, TIDE_C128};
    static const int64_t shapes[][4] = {{3000, 67, 1, 90},
                                        {1, 90, 1000, 270},
                                        {600, 500, 1, 512},
                                        {90, 3, 33, 100},
                                        {7, 1, 900, 50}};
    for (size_t k = 0; k < TIDEI_COUNT(types); k++) {
        const size_t i = k % TIDEI_COUNT(shapes);
        one_case(*state, ADD, types[k], shapes[i], shapes[i][3], i == 3 && k % 2, 0);
    }
    if (!is_emulated(*state)) return;
    one_case(*state, ADD, TIDE_I32, (int64_t[]){2300, 67, 1}, 480, false, 0); /* 2^20 and more */
    one_case(*state, ADD, TIDE_F32, (int64_t[]){1, 67, 2301}, 480, false, 0);
}

/* By each way in which a GPU looks indices up: claims that each block notes, tables by slots and by
** rows, rows that warps share, sums of few entries. Of half of the cases all indices are bad. */
static void bad_indices_are_left_out_of_all(void **state) {
    static const struct {
        int64_t n[3], m;
        tide_dtype t;
        int op;
    } cases[] = {{{2, 60, 9}, 70, TIDE_I32, PUT},      {{1, 700, 3}, 3700, TIDE_F32, PUT},
                 {{2, 30000, 3}, 3600, TIDE_F16, PUT}, {{1, 300, 9}, 3700, TIDE_U8, PUT},
                 {{1, 300, 513}, 3540, TIDE_F16, PUT}, {{1, 5, 33}, 60, TIDE_I16, ADD},
                 {{2, 5, 1100}, 9, TIDE_F16, MAX},     {{3, 5, 8}, 90, TIDE_F64, MIN},
                 {{3000, 67, 1}, 90, TIDE_I32, ADD},   {{1, 90, 1000}, 270, TIDE_F32, ADD}};
    for (size_t i = 0; i < TIDEI_COUNT(cases) * 2; i++) {
        bad_each = i % 2 ? 1 : 5;
        one_case(*state, cases[i / 2].op, cases[i / 2].t, cases[i / 2].n, cases[i / 2].m, false, 0);
    }
    bad_each = 0;
}

/* ---- by hand ---- */

static void every_value_counts(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 1, 2, 3), *at = I64(rt, 2, 0, 2, -1);
    assert_ok(tide_scatter_add(a, at, 0, F32(rt, 10, 20, 30, 40), 0));
    HAS_F32(a, 21, 2, 83);
    assert_ok(tide_scatter_add(a, at, 0, tide_full(rt, TIDE_U8, 0, NULL, tide_arg_int(1)), 0));
    HAS_F32(a, 22, 2, 86);
    assert_ok(tide_scatter_mul(a, at, 0, F32(rt, 1, 0.5f, 2, 0.25f)));
    HAS_F32(a, 11, 2, 43);
    assert_ok(tide_scatter_put(a, at, 0, F32(rt, 5, 6, 7, 8)));
    HAS_F32(a, 6, 2, 8);
    assert_ok(tide_scatter_max(a, tide_reshape(at, SHAPE(2, 2)), 0, F32(rt, 1, 9)));
    HAS_F32(a, 9, 2, 9);
    a = F32(rt, 1, 2, 3);
    assert_ok(tide_scatter_add(a, I64(rt, 2, 1, 0), 0, tide_slice(a, "::-1"), 0)); /* its own */
    HAS_F32(a, 2, 4, 6);
}

static void the_least_and_the_greatest_have_one_answer(void **state) {
    tide_runtime *rt = *state;
    const float quiet = NAN, other = -NAN;
    tide_array *at = I64(rt, 0, 0, 1, 1, 2, 2, 3, 3);
    float got[4], again[4];
    tide_array *values = F32(rt, 0.0f, -0.0f, -0.0f, 0.0f, other, 5, INFINITY, -INFINITY);
    tide_array *a = F32(rt, 0.0f, 0.0f, 1, 0), *b = F32(rt, 0.0f, 0.0f, 1, 0);
    assert_ok(tide_scatter_min(a, at, 0, values));
    assert_ok(tide_scatter_min(b, tide_slice(at, "::-1"), 0, tide_slice(values, "::-1")));
    assert_ok(tide_to_host(a, got, sizeof got));
    assert_ok(tide_to_host(b, again, sizeof again));
    assert_memory_equal(got, again, sizeof got);
    assert_true(signbit(got[0]) && signbit(got[1]) && isnan(got[2]) && got[3] == -INFINITY);
    assert_ok(tide_scatter_max(a = F32(rt, -0.0f, -0.0f, quiet, 0), at, 0, values));
    assert_ok(tide_to_host(a, got, sizeof got));
    assert_true(!signbit(got[0]) && !signbit(got[1]) && isnan(got[2]) && got[3] == INFINITY);
}

/* f16's sum of 4096 ones and more is beyond where one more is lost. */
static void halves_are_added_as_floats(void **state) {
    tide_runtime *rt = *state;
    const tide_dtype types[] = {TIDE_F16, TIDE_BF16};
    for (int i = 0; i < 2; i++) {
        tide_array *a = tide_zeros(rt, types[i], SHAPE(1));
        assert_ok(tide_scatter_add(a, tide_zeros(rt, TIDE_U8, SHAPE(8192)), 0,
                                   tide_ones(rt, types[i], SHAPE(1)), 0));
        assert_true(tide_item_f64(a) == 8192);
    }
}

static void sums_that_round_are_the_same_each_time(void **state) {
    tide_runtime *rt = *state;
    tide_rng rng = {7, 0};
    tide_array *at = tide_random_integers(rt, &rng, TIDE_I32, SHAPE(3000), 0, 11),
               *v = tide_random_normal(rt, &rng, TIDE_F32, SHAPE(3000, 3));
    float *first = NULL;
    for (int i = 0; i < 3; i++) {
        tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(11, 3));
        assert_ok(tide_scatter_add(a, at, 0, v, 0));
        float *got = bytes_of(a);
        if (first) assert_memory_equal(first, got, 11 * 3 * 4);
        free(first), first = got;
    }
    free(first);
}

static void integers_wrap(void **state) {
    tide_runtime *rt = *state;
    int8_t got[2];
    tide_array *a = ROW(rt, TIDE_I8, int8_t, 100, -100);
    assert_ok(tide_scatter_add(a, I64(rt, 0, 1, 0), 0, ROW(rt, TIDE_I8, int8_t, 100, -100, 1), 0));
    assert_ok(tide_to_host(a, got, 2));
    assert_int_equal(got[0], (int8_t)201);
    assert_int_equal(got[1], (int8_t)-200);
}

/* Many integers into those of 8 bytes, added as they are: by blocks with room for all sums, and row
** by row; values that lie in the array's own memory are copied first. */
static void many_integers_are_added(void **state) {
    enum { PLACES = 7, WIDTH = 96, N = 90, M = 130 };
    tide_runtime *rt = *state;
    static int64_t want[PLACES][WIDTH], got[PLACES][WIDTH];
    static int32_t at[N][M];
    int64_t times[PLACES] = {0};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < M; k++) times[at[i][k] = (i * M + k) * 5 % 11 % PLACES]++;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I64, 0, PLACES * WIDTH, 1),
                                 SHAPE(PLACES, WIDTH)),
               *row = tide_slice(a, "0"), *places = tide_from_host(rt, TIDE_I32, SHAPE(N, M), at);
    assert_ok(tide_scatter_add(a, places, 0, tide_broadcast_to(row, SHAPE(N, 1, WIDTH)), 0));
    for (int p = 0; p < PLACES; p++)
        for (int c = 0; c < WIDTH; c++) want[p][c] = p * WIDTH + c + times[p] * c;
    assert_ok(tide_to_host(a, got, sizeof got));
    assert_memory_equal(got, want, sizeof got);
    tide_array *narrow = tide_cast(
                   tide_reshape(tide_arange(rt, TIDE_I32, 0, WIDTH, 1), SHAPE(1, 1, WIDTH)),
                   TIDE_I8),
               *others = tide_from_host(rt, TIDE_I64, SHAPE(PLACES, WIDTH), want);
    assert_ok(
        tide_scatter_add(others, places, 0, tide_broadcast_to(narrow, SHAPE(N, M, WIDTH)), 0));
    for (int p = 0; p < PLACES; p++)
        for (int c = 0; c < WIDTH; c++) want[p][c] += times[p] * c;
    assert_ok(tide_to_host(others, got, sizeof got));
    assert_memory_equal(got, want, sizeof got);
}

/* Sums of -0.0 are -0.0, and what is left out changes none: in tiles, in rows, of few entries. */
static void zeros_keep_their_signs(void **state) {
    enum { PLACES = 5, N = 4300, FEW = 280 };
    static const int64_t sizes[][2] = {{N, 1}, {N, 6}, {FEW, 1000}};
    tide_runtime *rt = *state;
    for (size_t k = 0; k < TIDEI_COUNT(sizes); k++) {
        const int64_t n = sizes[k][0], width = sizes[k][1];
        int32_t at[N], *bits;
        for (int i = 0; i < N; i++) at[i] = i == 7 ? PLACES : i * 7 % PLACES;
        tide_array *a = tide_full(rt, TIDE_F32, SHAPE(PLACES, width), tide_arg_float(-0.0)),
                   *v = tide_full(rt, TIDE_F32, SHAPE(n, width), tide_arg_float(-0.0)),
                   *places = tide_from_host(rt, TIDE_I32, SHAPE(n), at);
        assert_ok(tide_fill(tide_slice(v, "7"), tide_arg_float(NAN)));
        assert_ok(tide_scatter_add(a, places, 0, v, 0));
        assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
        bits = bytes_of(a);
        for (int i = 0; i < PLACES * width; i++) assert_int_equal(bits[i], INT32_MIN);
        free(bits);
    }
}

/* ---- what is wrong ---- */

static void a_bad_index_is_told_and_left_out(void **state) {
    static const char *const said[] = {
        "tide_scatter_put: index 3 is", "tide_scatter_add: index 3 is",
        "tide_scatter_mul: index 3 is", "tide_scatter_min: index 3 is",
        "tide_scatter_max: index 3 is"};
    tide_runtime *rt = *state;
    for (int op = 0; op < OPS; op++)
        for (int flags = 0; flags < (op == ADD ? 2 : 1); flags++) {
            tide_array *a = F32(rt, 1, 1, 1);
            assert_ok(scatter(op, a, I64(rt, 1, 3), 0, F32(rt, 1, 9), (unsigned)flags));
            assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
            assert_error(TIDE_E_BOUNDS, said[op]);
            assert_error(TIDE_E_BOUNDS, "out of range for 3 elements");
            HAS_F32(a, 1, op == ADD ? 2 : 1, 1);
        }
}

static void what_does_not_fit_is_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = F32(rt, 1, 2, 3), *at = I64(rt, 0, 1), *v = F32(rt, 1, 2);
    assert_int_equal(tide_scatter_add(a, at, 1, v, 0), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "axis 1");
    assert_int_equal(tide_scatter_add(a, v, 0, v, 0), TIDE_E_DTYPE);
    assert_int_equal(tide_scatter_add(a, at, 0, a, 0), TIDE_E_SHAPE);
    assert_int_equal(tide_scatter_add(a, at, 0, v, 2), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "flags are 0x2");
    assert_int_equal(tide_scatter_add(a, at, 0, tide_cast(v, TIDE_C64), 0), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "c64 into f32");
    static const struct { int64_t n, width; } sizes[] = {{2, 2}, {9001, 2}, {9001, 128}};
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) {
        tide_array *many = tide_zeros(rt, TIDE_U8, SHAPE(sizes[i].n)),
                   *u = tide_zeros(rt, TIDE_U64, SHAPE(3, sizes[i].width));
        assert_int_equal(tide_scatter_add(u, many, 0, tide_zeros(rt, TIDE_I8, 0, NULL), 0),
                         TIDE_E_DTYPE);
        assert_error(TIDE_E_DTYPE, "i8 into u64");
    }
    assert_int_equal(
        tide_scatter_mul(tide_cast(a, TIDE_BOOL), at, 0, tide_ones(rt, TIDE_BOOL, 0, NULL)),
        TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "bool; wanted integers, floats or complex");
    assert_int_equal(tide_scatter_min(tide_cast(a, TIDE_C64), at, 0, v), TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "c64; wanted bool, integers or floats");
    assert_int_equal(tide_scatter_max(tide_broadcast_to(a, SHAPE(2, 3)), at, 1, v), TIDE_E_INVALID);
    assert_int_equal(tide_scatter_put(tide_zeros(rt, TIDE_F32, SHAPE(0)), at, 0, v), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "2 indices into axis 0, which has no elements");
    HAS_F32(a, 1, 2, 3);
}

/* Which kernels have been compiled. */
static unsigned tiles, rows, few;
static bool carries;
static void note_kernel(char *text) {
    tiles += strstr(text, "WANTS_scatter_tile_") != NULL;
    rows += strstr(text, "WANTS_scatter_rows_") != NULL;
    few += strstr(text, "WANTS_scatter_few_") != NULL;
    carries |= strstr(text, "WANTS_order_sweep_32_far ") != NULL; /* 8 bytes along with keys */
}

static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    emulated_edit = note_kernel;
    tiles_and_rows_agree_with_the_model(state);
    emulated_edit = NULL;
    assert_int_equal(tiles, 6);
    assert_true(rows >= 3);
    assert_true(carries);
    every_type_agrees_with_the_model(state);
    long_and_short_runs_agree_with_the_model(state);
    every_value_counts(state);
    the_least_and_the_greatest_have_one_answer(state);
    halves_are_added_as_floats(state);
    bytes_keep_their_neighbours(state);
    rows_of_any_width_agree_with_the_model(state);
    emulated_edit = note_kernel;
    few_entries_agree_with_the_model(state);
    emulated_edit = NULL;
    assert_int_equal(few, 9);
    bad_indices_are_left_out_of_all(state);
    integers_wrap(state);
    many_integers_are_added(state);
    zeros_keep_their_signs(state);
    sums_by_buckets_agree_with_the_model(state);
    buckets_of_any_size_are_added_up(state);
    other_sums_are_sorted(state);
    sums_by_buckets_lose_little(state);
    what_does_not_fit_is_refused(state);
    a_bad_index_is_told_and_left_out(state);
}

static void kernels_compile(void **state) {
    static const char *const some[] = {
        "scatter_keys",      "scatter_each_1",    "scatter_each_2",   "scatter_fold_f16",
        "scatter_fold_c128", "scatter_tile_bf16", "scatter_here",     "scatter_rows",
        "scatter_rows_f64",  "scatter_pairs_f64", "scatter_tile_c128"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(some); i++)
        compiles(tidei_scatter_text, "scatter.h", some[i], i % 2 ? 90 : 75);
    compiles(tidei_buckets_text, "buckets.cu", "ALL", 90);
    compiles(tidei_scatter_few_text, "scatter_few.h", "scatter_few_bf16", 75);
    compiles(tidei_scatter_few_text, "scatter_few.h", "scatter_few_c128", 90);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(every_type_agrees_with_the_model),
        CASE(long_and_short_runs_agree_with_the_model),
        CASE(tiles_and_rows_agree_with_the_model),
        CASE(sums_by_buckets_agree_with_the_model),
        CASE(buckets_of_any_size_are_added_up),
        CASE(other_sums_are_sorted),
        CASE(sums_by_buckets_lose_little),
        cmocka_unit_test(a_failure_leaves_nothing),
        CASE(bytes_keep_their_neighbours),
        CASE(rows_of_any_width_agree_with_the_model),
        CASE(few_entries_agree_with_the_model),
        CASE(bad_indices_are_left_out_of_all),
        CASE(every_value_counts),
        CASE(the_least_and_the_greatest_have_one_answer),
        CASE(halves_are_added_as_floats),
        CASE(sums_that_round_are_the_same_each_time),
        CASE(integers_wrap),
        CASE(many_integers_are_added),
        CASE(zeros_keep_their_signs),
        CASE(a_bad_index_is_told_and_left_out),
        CASE(what_does_not_fit_is_refused),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_do_the_same, open_emulated, close_runtime),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
