/* graph_programs.h: functions for graphs of all that can be captured. */
#ifndef TIDETEST_GRAPH_PROGRAMS_H
#define TIDETEST_GRAPH_PROGRAMS_H

#include "tests/arrays/graphs.h"

#define FN(name)                                                                                   \
    static tide_status name(void *user, const tide_arg *args, size_t n, tide_array **outs, size_t m)
#define UNUSED (void)user, (void)args, (void)n, (void)outs, (void)m
/* The function's own error, where a call failed. */
#define DONE(...)                                                                                  \
    do {                                                                                           \
        if (!(__VA_ARGS__)) return tide_error_last()->status;                                      \
    } while (0)
#define OK(...)  DONE((__VA_ARGS__) == TIDE_OK)
#define RT       (((world *)user)->rt)
#define KEEP(i)  (((world *)user)->kept[i])
#define ARRAY(i) (args[i].value.array)

/* ---- expressions, with numbers of the run ---- */

static size_t chain_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(7, 33)));
    args[1] = tide_arg_float(0.5 + w->run);
    args[2] = tide_arg_float(-0.25 * w->run);
    return 3;
}
FN(chain) {
    UNUSED;
    tide_array *y = tide_map_args(RT, "(x, a, b) -> tanh(a*x + b)", args, 3);
    tide_array *z = tide_map(RT, "(y, x) -> y*y - x", y, ARRAY(0));
    tide_array *u = tide_map(RT, "(z, y) -> z / (1.5 + abs(y))", z, y);
    DONE(outs[0] = tide_map(RT, "(u, a) -> u * (1 - 0.9**a)", u, args[1]));
    return TIDE_OK;
}

static size_t limits_args(world *w, tide_arg *args) {
    static const int low[] = {3, 3, -5, 200, 300, 0};
    args[0] = tide_arg_array(numbers(w->rt, TIDE_U8, (unsigned)w->run, SHAPE(40)));
    args[1] = tide_arg_int(low[w->run % 6]);
    args[2] = tide_arg_int(w->run % 4); /* a power */
    args[3] = tide_arg_bool(w->run & 1);
    args[4] = tide_arg_uint((uint64_t)w->run << 3);
    args[5] = tide_arg_complex(w->run, -1);
    return 6;
}
/* Comparisons of narrow elements with numbers that they may not be able to hold, powers. */
FN(limits) {
    UNUSED;
    const tide_arg compare[] = {args[0], args[1]}, power[] = {args[0], args[2]},
                   choice[] = {args[0], args[3], args[4]}, plane[] = {args[0], args[5]};
    DONE(outs[0] = tide_map_args(RT, "(x, v) -> x > v", compare, 2));
    DONE(outs[1] = tide_map_args(RT, "(x, p) -> i32(x) ** p", power, 2));
    DONE(outs[2] = tide_map_args(RT, "(x, c, u) -> where(c, i64(x) + u, i64(x))", choice, 3));
    DONE(outs[3] = tide_map_args(RT, "(x, z) -> c64(x) * z", plane, 2));
    DONE(outs[4] = tide_map_args(RT, "(x, v) -> sum(f32(x) * v)", compare, 2));
    return TIDE_OK;
}

static size_t only_numbers_args(world *w, tide_arg *args) {
    args[0] = tide_arg_float(w->run / 3.0);
    return 1;
}
FN(only_numbers) {
    UNUSED;
    tide_array *a = tide_arange(RT, TIDE_F64, 0, 9, 1);
    DONE(outs[0] = tide_map(RT, "(a, x) -> a * x", a, args[0]));
    return TIDE_OK;
}

/* ---- folds ---- */

static void softmax_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 5, SHAPE(129))); }
static size_t softmax_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(6, 129)));
    return 1;
}
FN(softmax) {
    UNUSED;
    DONE(outs[0] = tide_map(RT,
                            "(x, b) -> let t = x + b; let e = exp(t - max(t, axis=1, "
                            "keepdims=true)); e / sum(e, axis=1, keepdims=true)",
                            ARRAY(0), KEEP(0)));
    return TIDE_OK;
}

FN(folds) {
    UNUSED;
    const int first[] = {0}, last[] = {1};
    tide_array *x = tide_map(RT, "(x) -> x * 3", ARRAY(0));
    DONE(outs[0] = tide_mean(x, first, 1, 0));
    DONE(outs[1] = tide_var(x, last, 1, 1, 1));
    DONE(outs[2] = tide_argmax(x, last, 1, 0));
    DONE(outs[3] = tide_sum(x, NULL, 0, 0));
    DONE(outs[4] = tide_any(tide_map(RT, "(x) -> x > 2.9", x), first, 1, 0));
    DONE(outs[5] = tide_prod(x, last, 1, 0));
    DONE(outs[6] = tide_count_nonzero(x, NULL, 0, 0));
    return TIDE_OK;
}

/* Chains: normalized rows, with a number of the run among them, and results of a row each. Long
** rows, which are several lanes' each, and short ones. */
static void rows_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F32, 6, SHAPE(260)));
    keep(w, numbers(w->rt, TIDE_F32, 7, SHAPE(260)));
}
static size_t rows_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(9, 260)));
    args[1] = tide_arg_float(1e-3 * (1 + w->run));
    args[2] = tide_arg_array(numbers(w->rt, TIDE_F16, (unsigned)w->run, SHAPE(50, 12)));
    return 3;
}
FN(rows) {
    UNUSED;
    const tide_arg normed[] = {args[0], tide_arg_array(KEEP(0)), tide_arg_array(KEEP(1)), args[1]},
                   short_rows[] = {args[2], args[1]};
    tide_expr *e = tide_expr_new(
        RT, "(x, g, b, eps) -> let d = x - mean(x, axis=1, keepdims=true); let v = mean(d*d, "
            "axis=1, keepdims=true); (d / sqrt(v + eps) * g + b, v, argmax(d, axis=1))");
    DONE(e);
    tide_status s = tide_expr_apply_many(e, normed, 4, outs, 3);
    tide_expr_release(e);
    OK(s);
    DONE(outs[3] = tide_map_args(
             RT, "(x, s) -> let y = f32(x) * s; log(sum(exp(y), axis=-1)) + max(y, axis=-1)",
             short_rows, 2));
    DONE(outs[4] = tide_sum(ARRAY(2), (const int[]){1}, 1, 0));
    /* written over what it reads */
    OK(tide_map_into(ARRAY(0), "(x) -> x / sum(abs(x), axis=1, keepdims=true)", ARRAY(0)));
    return TIDE_OK;
}

/* Folds of pairs, and rows that no vectors fit. */
static void far_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 8, SHAPE(1, 40, 10))); }
static size_t far_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(48, 1, 10)));
    args[1] = tide_arg_float(0.5 + w->run);
    args[2] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(5, 601)));
    return 3;
}
FN(far) {
    UNUSED;
    const tide_arg pairs[] = {args[0], tide_arg_array(KEEP(0)), args[1]},
                   uneven[] = {tide_arg_array(tide_slice(ARRAY(2), ":, 1:")),
                               tide_arg_array(tide_slice(ARRAY(2), ":, :-1")), args[1]};
    DONE(uneven[0].value.array && uneven[1].value.array);
    DONE(outs[0] = tide_map_args(RT, "(x, y, s) -> sqrt(sum(s * (x - y)**2, axis=2))", pairs, 3));
    DONE(outs[1] = tide_map_args(RT, "(x, y, s) -> s*x - y", uneven, 3));
    return TIDE_OK;
}

/* Rows taken and put: in units of several elements, and one by one. */
static void taken_begin(world *w) {
    const int64_t at[] = {7, 0, 29, 7, 2, 13};
    keep(w, tide_from_host(w->rt, TIDE_I64, SHAPE(6), at));
    keep(w, numbers(w->rt, TIDE_F32, 4, SHAPE(30, 16)));
}
static size_t taken_args(world *w, tide_arg *args) {
    tide_array *a = numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(31, 20));
    args[0] = tide_arg_array(tide_slice(a, w->run % 3 == 2 ? "1:, 4:" : "1:, 1:17"));
    args[1] = tide_arg_array(numbers(w->rt, TIDE_F16, (unsigned)w->run, SHAPE(30, 3)));
    return 2;
}
FN(taken) {
    UNUSED;
    DONE(outs[0] = tide_take(ARRAY(0), KEEP(0), 0));
    DONE(outs[1] = tide_take(KEEP(1), KEEP(0), 0));
    DONE(outs[2] = tide_take(ARRAY(1), KEEP(0), 0));
    DONE(outs[3] = tide_take(KEEP(1), tide_slice(KEEP(0), ":2"), 1));
    DONE(outs[4] = tide_take(tide_transpose(ARRAY(0), NULL), KEEP(0), 1));
    return TIDE_OK;
}

/* ---- layers, and training ---- */

static void linear_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(20, 12)));
    keep(w, numbers(w->rt, TIDE_F32, 2, SHAPE(12)));
    keep(w, numbers(w->rt, TIDE_F32, 3, SHAPE(12, 4)));
    keep(w, numbers(w->rt, TIDE_F32, 4, SHAPE(4)));
}
static size_t linear_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(9, 20)));
    args[1] = tide_arg_array(numbers(w->rt, TIDE_F64, (unsigned)w->run, SHAPE(3, 2, 20)));
    return 2;
}
FN(linear) {
    UNUSED;
    tide_array *h = tide_linear(ARRAY(0), KEEP(0), KEEP(1), TIDE_GELU);
    DONE(outs[0] = tide_linear(h, KEEP(2), KEEP(3), TIDE_IDENTITY));
    DONE(outs[1] = tide_linear(ARRAY(0), KEEP(0), tide_slice(h, "2"), TIDE_RELU));
    DONE(outs[2] = tide_linear(ARRAY(1), KEEP(0), KEEP(1), TIDE_RELU));
    DONE(outs[3] = h);
    return TIDE_OK;
}

static void halves_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F16, 1, SHAPE(20, 12)));
    keep(w, numbers(w->rt, TIDE_F16, 2, SHAPE(12)));
}
static size_t halves_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F16, (unsigned)w->run, SHAPE(9, 20)));
    return 1;
}
FN(halves) {
    UNUSED;
    DONE(outs[0] = tide_linear(ARRAY(0), KEEP(0), KEEP(1), TIDE_GELU));
    DONE(outs[1] = tide_matmul(outs[0], tide_transpose(KEEP(0), NULL)));
    return TIDE_OK;
}

static void layer_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(20, 12)));
    keep(w, numbers(w->rt, TIDE_F32, 2, SHAPE(12)));
}
static size_t layer_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(9, 20)));
    return 1;
}
FN(layer) {
    UNUSED;
    tide_array *z = tide_matmul(ARRAY(0), KEEP(0));
    tide_array *h = tide_map(RT, "(z, b) -> maximum(z + b, 0.0)", z, KEEP(1));
    DONE(outs[0] = tide_matmul(tide_transpose(ARRAY(0), NULL), h)); /* a result of a library's */
    DONE(outs[1] = tide_matmul(h, tide_transpose(KEEP(0), NULL)));
    DONE(outs[2] = h);
    return TIDE_OK;
}

/* Adam: parameters written in place, batches that are views at other places, corrections that are
** other numbers at each step. */
enum { ROWS = 48, FEATURES = 8, BATCH = 12 };
static void adam_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(ROWS, FEATURES)));
    keep(w, numbers(w->rt, TIDE_F32, 2, SHAPE(ROWS, 1)));
    keep(w, numbers(w->rt, TIDE_F32, 3, SHAPE(FEATURES, 1)));
    keep(w, tide_zeros(w->rt, TIDE_F32, SHAPE(FEATURES, 1)));
    keep(w, tide_zeros(w->rt, TIDE_F32, SHAPE(FEATURES, 1)));
}
static size_t adam_args(world *w, tide_arg *args) {
    int64_t at = w->run % 4 * BATCH;
    tide_range rows = {.start = at, .stop = at + BATCH, .step = 1};
    double c1 = 1, c2 = 1;
    for (int i = 0; i <= w->run; i++) c1 *= 0.9, c2 *= 0.999;
    args[0] = tide_arg_array(tide_slice_ranges(w->kept[0], 1, &rows));
    args[1] = tide_arg_array(tide_slice_ranges(w->kept[1], 1, &rows));
    args[2] = tide_arg_float(1 / (1 - c1));
    args[3] = tide_arg_float(1 / (1 - c2));
    return 4;
}
#define ADAM                                                                                       \
    "(w, g, m, v, c1, c2) -> let m1 = 0.9*m + 0.1*g; let v1 = 0.999*v + 0.001*g*g;"                \
    " (w - 0.01 * (m1*c1) / (sqrt(v1*c2) + 1e-8), m1, v1)"
static tide_array *gradient(void *user, const tide_arg *args, tide_array *w) {
    tide_array *e = tide_map(RT, "(z, y) -> (z - y) * 0.2", tide_matmul(ARRAY(0), w), ARRAY(1));
    return tide_matmul(tide_transpose(ARRAY(0), NULL), e);
}
static tide_status adam_with(void *user, const tide_arg *args, tide_array *w, tide_array *m,
                             tide_array *v, tide_arg c1, tide_arg c2) {
    tide_array *g = gradient(user, args, w);
    tide_expr *e = tide_expr_new(RT, ADAM);
    tide_array *const into[] = {w, m, v};
    const tide_arg in[] = {
        tide_arg_array(w), tide_arg_array(g), tide_arg_array(m), tide_arg_array(v), c1, c2};
    DONE(g && e);
    tide_status s = tide_expr_apply_into(into, 3, e, in, 6);
    tide_expr_release(e);
    return s;
}
FN(adam) {
    UNUSED;
    return adam_with(user, args, KEEP(2), KEEP(3), KEEP(4), args[2], args[3]);
}
/* The same with the parameters among the arguments, one of them a view of a larger array. */
static size_t adam_given_args(world *w, tide_arg *args) {
    size_t n = adam_args(w, args);
    for (int i = 0; i < 3; i++) args[n++] = tide_arg_array(w->kept[2 + i]);
    return n;
}
FN(adam_given) {
    UNUSED;
    return adam_with(user, args, ARRAY(4), ARRAY(5), ARRAY(6), args[2], args[3]);
}

/* State that is handed from run to run: results are the next run's arguments. */
static void handed_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F64, 1, SHAPE(30)));
    keep(w, numbers(w->rt, TIDE_F64, 2, SHAPE(30)));
}
static size_t handed_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(w->kept[0]);
    args[1] = tide_arg_array(w->kept[1]);
    return 2;
}
FN(handed) {
    UNUSED;
    tide_array *s = tide_map(RT, "(a, b) -> sin(a + b)", ARRAY(0), ARRAY(1));
    DONE(outs[0] = tide_map(RT, "(a, s) -> a - 0.1*s", ARRAY(0), s));
    DONE(outs[1] = tide_map(RT, "(b, s) -> b + s*s", ARRAY(1), s));
    return TIDE_OK;
}
static void handed_after(world *w, tide_array **outs) {
    replace(w, 0, outs[0]);
    replace(w, 1, outs[1]);
}

/* ---- random numbers ---- */

FN(draws) {
    UNUSED;
    tide_rng *rng = &((world *)user)->rng;
    tide_array *u = tide_random_uniform(RT, rng, TIDE_F32, SHAPE(17));
    tide_array *z = tide_random_normal(RT, rng, TIDE_F64, SHAPE(17));
    DONE(outs[0] = tide_map(RT, "(u, z) -> f64(u) + z", u, z));
    DONE(outs[1] = tide_random_permutation(RT, rng, 23));
    DONE(outs[2] = tide_random_integers(RT, rng, TIDE_I16, SHAPE(4, 3), -7, 8));
    DONE(tide_random_uniform(RT, rng, TIDE_F32, SHAPE(0)));
    DONE(outs[3] = tide_random_uniform(RT, rng, TIDE_F64, SHAPE(5)));
    return TIDE_OK;
}
/* Between the runs it is drawn from as well. */
static void draws_after(world *w, tide_array **outs) {
    (void)outs;
    if (w->run % 2) assert_array(tide_random_uniform(w->rt, &w->rng, TIDE_F32, SHAPE(9)));
}

/* ---- results that are views ---- */

static void views_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 4, SHAPE(6, 5))); }
static size_t views_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(6, 5)));
    args[1] = tide_arg_array(tide_slice(args[0].value.array, "1:, ::2"));
    return 2;
}
FN(views) {
    UNUSED;
    tide_array *s = tide_map(RT, "(x) -> x + 1", ARRAY(0));
    DONE(outs[0] = tide_transpose(s, NULL));
    DONE(outs[1] = tide_slice(s, "::-2, 1"));
    DONE(outs[2] = s);
    /* outs[3] is none */
    DONE(outs[4] = tide_slice(ARRAY(1), "::-1"));
    DONE(outs[5] = tide_slice(KEEP(0), "2:4"));
    DONE(outs[6] = tide_empty(RT, TIDE_I32, SHAPE(0, 4)));
    DONE(outs[7] = tide_map(RT, "(x, y) -> sum(x) + y", ARRAY(1), KEEP(0)));
    return TIDE_OK;
}

/* ---- writing into arguments ---- */

static size_t written_args(world *w, tide_arg *args) {
    tide_array *a = numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(10, 8));
    args[0] = tide_arg_array(a);
    args[1] = tide_arg_array(tide_slice(numbers(w->rt, TIDE_F32, 77, SHAPE(9, 12)), "1::2, ::-3"));
    args[2] = tide_arg_array(numbers(w->rt, TIDE_U8, 3, SHAPE(31)));
    return 3;
}
FN(written) {
    UNUSED;
    tide_array *a = tide_slice(ARRAY(0), "::2, 1::2");
    OK(tide_map_into(a, "(a) -> a * 2", a));
    OK(tide_assign(tide_slice(ARRAY(0), "1::2"), tide_slice(ARRAY(0), "::2")));
    OK(tide_map_into(ARRAY(1), "(x) -> x - 1", ARRAY(1)));
    OK(tide_fill(tide_slice(ARRAY(2), "3:20"), tide_arg_int(9)));
    OK(tide_memset(tide_slice(ARRAY(2), "::7"), 0xab));
    DONE(outs[0] = tide_copy(ARRAY(1)));
    return TIDE_OK;
}

/* An array of the function's that each run changes. */
static void counter_begin(world *w) {
    keep(w, tide_zeros(w->rt, TIDE_I64, SHAPE(3)));
    keep(w, tide_zeros(w->rt, TIDE_I64, SHAPE(1)));
}
FN(counter) {
    UNUSED;
    OK(tide_map_into(KEEP(0), "(c) -> c + 1", KEEP(0)));
    OK(tide_map_into(KEEP(1), "(a, c) -> a + sum(c, keepdims=true)", KEEP(1), KEEP(0)));
    DONE(outs[0] = tide_copy(KEEP(0)));
    return TIDE_OK;
}

/* Arguments that are the same array, and such that overlap. */
static void same_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(40))); }
static size_t same_args(world *w, tide_arg *args) {
    tide_array *a = w->kept[0];
    args[0] = tide_arg_array(tide_slice(a, "0:16"));
    args[1] = args[0];
    args[2] = tide_arg_array(tide_slice(a, w->run % 3 == 2 ? "12:28" : "16:32"));
    return 3;
}
FN(same) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, "(a, b) -> a * b", ARRAY(0), ARRAY(1)));
    OK(tide_map_into(ARRAY(2), "(c, a) -> 0.5*c + a", ARRAY(2), ARRAY(0)));
    DONE(outs[1] = tide_map(RT, "(a, c) -> a - c", ARRAY(1), ARRAY(2)));
    return TIDE_OK;
}
/* Bytes that are written in one and read in the function's own array. */
static void own_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(64))); }
static size_t own_args(world *w, tide_arg *args) {
    tide_array *other = numbers(w->rt, TIDE_F32, 5, SHAPE(32));
    args[0] = tide_arg_array(w->run % 3 == 2 ? tide_slice(w->kept[0], "16:48") : other);
    return 1;
}
FN(own) {
    UNUSED;
    OK(tide_map_into(ARRAY(0), "(x, k) -> x + k", ARRAY(0), tide_slice(KEEP(0), "32:")));
    DONE(outs[0] = tide_map(RT, "(x, k) -> x * k", ARRAY(0), tide_slice(KEEP(0), "0:32")));
    return TIDE_OK;
}

/* ---- fills, copies, types ---- */

FN(fills) {
    UNUSED;
    DONE(outs[0] = tide_full(RT, TIDE_C128, SHAPE(13), tide_arg_complex(1.5, -2)));
    DONE(outs[1] = tide_full(RT, TIDE_I16, SHAPE(1001), tide_arg_int(-3)));
    DONE(outs[2] = tide_zeros(RT, TIDE_BOOL, SHAPE(77)));
    DONE(outs[3] = tide_ones(RT, TIDE_F64, SHAPE()));
    DONE(outs[4] = tide_full(RT, TIDE_U8, SHAPE(50), tide_arg_int(7)));
    OK(tide_fill(tide_slice(outs[4], "5:46"), tide_arg_int(200)));
    DONE(outs[5] = tide_eye(RT, TIDE_F32, 5, 7, 1));
    DONE(outs[6] = tide_linspace(RT, TIDE_F32, 0, 3, 11, 1));
    return TIDE_OK;
}

static size_t types_args(world *w, tide_arg *args) {
    const unsigned mark = (unsigned)w->run;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        args[t] = tide_arg_array(numbers(w->rt, t, mark, SHAPE(5, 4)));
    return TIDE_DTYPE_COUNT;
}
FN(types) {
    UNUSED;
    for (size_t i = 0; i < n && i < OUTS; i++) {
        tide_array *turned = tide_transpose(ARRAY(i), NULL);
        DONE(outs[i] = i % 2 ? tide_contiguous(turned) : tide_copy(tide_slice(ARRAY(i), "1:3")));
    }
    for (size_t i = OUTS; i < n; i++)
        OK(tide_assign(tide_slice(ARRAY(i), "0"), tide_slice(ARRAY(i), "2")));
    return TIDE_OK;
}

static size_t nothing_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(tide_empty(w->rt, TIDE_F32, SHAPE(0, 3)));
    args[1] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE()));
    return 2;
}
FN(nothing) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, "(a) -> a + 1", ARRAY(0)));
    DONE(outs[1] = tide_map(RT, "(b) -> b + 1", ARRAY(1)));
    DONE(outs[2] = tide_sum(ARRAY(0), NULL, 0, 0));
    DONE(outs[3] = tide_matmul(ARRAY(0), tide_zeros(RT, TIDE_F32, SHAPE(3, 0))));
    return TIDE_OK;
}
FN(idle) {
    UNUSED;
    return TIDE_OK;
}

/* ---- what has several launches and workspaces ---- */

static void orders_begin(world *w) {
    const int64_t at[] = {4, 0, 11, 4, 2};
    keep(w, tide_from_host(w->rt, TIDE_I64, SHAPE(5), at));
}
static size_t orders_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(12, 9)));
    return 1;
}
FN(orders) {
    UNUSED;
    tide_array *some = tide_take(ARRAY(0), KEEP(0), 0);
    DONE(outs[0] = tide_sort(ARRAY(0), 1, 0));
    OK(tide_topk(ARRAY(0), 3, 0, 1, &outs[1], &outs[2]));
    DONE(outs[3] = tide_cumsum(ARRAY(0), 0, 0));
    DONE(outs[4] = tide_concat((tide_array *const[]){some, outs[3]}, 2, 0));
    const int64_t before[] = {1, 0}, after[] = {0, 2};
    DONE(outs[5] = tide_pad(some, before, after, TIDE_PAD_REFLECT, tide_arg_int(0)));
    DONE(outs[6] = tide_median(ARRAY(0), (const int[]){1}, 1, 0));
    tide_array *sums = tide_zeros(RT, TIDE_F32, SHAPE(12, 9));
    OK(tide_scatter_add(sums, KEEP(0), 0, some, 0));
    DONE(outs[7] = sums);
    return TIDE_OK;
}
FN(more_orders) {
    UNUSED;
    tide_array *bins, *edges;
    const int64_t shifts[] = {3};
    OK(tide_histogram(ARRAY(0), 8, -1, 1, &bins, &edges));
    outs[0] = bins;
    DONE(outs[1] = tide_roll(ARRAY(0), shifts, (const int[]){0}, 1));
    DONE(outs[2] = tide_argsort(ARRAY(0), 0, 1));
    DONE(outs[3] = tide_searchsorted(tide_linspace(RT, TIDE_F32, -1, 1, 6, 1), ARRAY(0), 0));
    DONE(outs[4] = tide_segment_sum(tide_slice(ARRAY(0), "0:5"), KEEP(0), 12, 0));
    DONE(outs[5] = tide_diff(ARRAY(0), 1, 1));
    DONE(outs[6] = tide_tril(ARRAY(0), 0));
    OK(tide_masked_put(ARRAY(0), tide_map(RT, "(x) -> x > 0.5", ARRAY(0)),
                       tide_full(RT, TIDE_F32, SHAPE(1), tide_arg_float(9))));
    return TIDE_OK;
}

/* ---- linear algebra ---- */

static void blas_begin(world *w) {
    keep(w, numbers(w->rt, TIDE_F64, 1, SHAPE(6, 6)));
    keep(w, numbers(w->rt, TIDE_F64, 2, SHAPE(6)));
    keep(w, tide_map(w->rt, "(a) -> a + 3", tide_tril(w->kept[0], 0)));
}
static size_t blas_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(numbers(w->rt, TIDE_F64, (unsigned)w->run, SHAPE(6, 6)));
    args[1] = tide_arg_array(numbers(w->rt, TIDE_F64, (unsigned)w->run + 9, SHAPE(6)));
    return 2;
}
FN(blas) {
    UNUSED;
    const tide_arg two = tide_arg_float(2), one = tide_arg_float(1);
    OK(tide_gemm(ARRAY(0), two, KEEP(0), tide_transpose(KEEP(0), NULL), one));
    OK(tide_gemv(ARRAY(1), one, ARRAY(0), KEEP(1), one));
    OK(tide_ger(KEEP(0), tide_arg_float(1e-3), ARRAY(1), KEEP(1)));
    OK(tide_axpy(KEEP(1), tide_arg_float(0.125), ARRAY(1)));
    DONE(outs[0] = tide_dot(ARRAY(1), KEEP(1)));
    DONE(outs[1] = tide_nrm2(ARRAY(1)));
    DONE(outs[2] = tide_solve_triangular(KEEP(2), ARRAY(0), TIDE_LOWER));
    DONE(outs[3] = tide_matmul(tide_zeros(RT, TIDE_F64, SHAPE(3, 0)),
                               tide_zeros(RT, TIDE_F64, SHAPE(0, 2))));
    return TIDE_OK;
}

/* ---- many ---- */

enum { MANY = 70 };
static void many_begin(world *w) {
    for (unsigned i = 0; i < MANY; i++) keep(w, numbers(w->rt, TIDE_F32, i, SHAPE(16 + i)));
}
static size_t many_args(world *w, tide_arg *args) {
    args[0] = tide_arg_float(w->run);
    return 1;
}
FN(many) {
    UNUSED;
    tide_array *sum = tide_zeros(RT, TIDE_F32, SHAPE());
    for (unsigned i = 0; i < MANY; i++) {
        sum = tide_map(RT, "(s, k, x) -> s + sum(k) * x", sum, KEEP(i), args[0]);
        if (i % 7 == 0) OK(tide_map_into(KEEP(i), "(k, s) -> k + 0.01*s", KEEP(i), sum));
    }
    DONE(outs[0] = sum);
    return TIDE_OK;
}

/* Pinned and unified memory, in arguments, arrays of the function's and results. */
static void places_begin(world *w) {
    keep(w, tide_to_memory(numbers(w->rt, TIDE_F32, 1, SHAPE(20)), TIDE_MEMORY_UNIFIED));
}
static size_t places_args(world *w, tide_arg *args) {
    tide_array *a = numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(20));
    args[0] = tide_arg_array(tide_to_memory(a, TIDE_MEMORY_PINNED));
    return 1;
}
FN(places) {
    UNUSED;
    DONE(outs[0] = tide_map(RT, "(a, k) -> a + k", ARRAY(0), KEEP(0)));
    DONE(outs[1] = tide_to_memory(outs[0], TIDE_MEMORY_PINNED));
    DONE(outs[2] = tide_empty_in(RT, TIDE_MEMORY_UNIFIED, TIDE_F32, SHAPE(20)));
    OK(tide_assign(outs[2], ARRAY(0)));
    OK(tide_map_into(KEEP(0), "(k) -> k / 2", KEEP(0)));
    return TIDE_OK;
}

/* Larger arrays, so that pressure is felt. */
static void large_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(1 << 15))); }
static size_t large_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(tide_map(w->rt, "(k, i) -> k + i", w->kept[0], (double)w->run));
    return 1;
}
FN(large) {
    UNUSED;
    tide_array *a = tide_map(RT, "(x) -> x * x", ARRAY(0));
    tide_array *b = tide_map(RT, "(a, k) -> a - k", a, KEEP(0));
    tide_array *c = tide_map(RT, "(b) -> abs(b)", b);
    DONE(outs[0] = tide_map(RT, "(c, a) -> c / (a + 1)", c, a));
    DONE(outs[1] = tide_sum(c, NULL, 0, 0));
    return TIDE_OK;
}

/* Kernels of many blocks and of few in turn, each of which reads or writes over what the one before
** wrote last: on a GPU it starts while that one still runs. The rows are clusters' there, of as
** many blocks as there may be. */
static int64_t early_size(void) { return test_on_host() ? 3000 : 1 << 20; }
static void early_begin(world *w) { keep(w, numbers(w->rt, TIDE_F32, 1, SHAPE(early_size()))); }
static size_t early_args(world *w, tide_arg *args) {
    args[0] = tide_arg_array(
        numbers(w->rt, TIDE_F32, (unsigned)w->run, SHAPE(3, test_on_host() ? 130 : 240000)));
    return 1;
}
FN(early) {
    UNUSED;
    tide_array *k = KEEP(0), *x = ARRAY(0), *begin = tide_slice(k, ":3"),
               *end = tide_slice(k, "-70:");
    for (int i = 0; i < 6; i++) {
        OK(tide_map_into(k, "(k, i) -> k * 0.5 + i", k, (double)i));
        x = tide_map(RT, "(x, k) -> x + mean(k)", x, end);
        OK(tide_map_into(begin, "(x, b) -> max(x, axis=1) + b * 0.25", x, begin));
        OK(tide_map_into(end, "(k, b) -> k - sum(b)", end, begin));
    }
    DONE(outs[0] = tide_copy(k));
    DONE(outs[1] = tide_sum(x, (const int[]){1}, 1, 0));
    return TIDE_OK;
}

static const program programs[] = {
    {"chain", NULL, chain_args, chain, 1, NULL},
    {"limits", NULL, limits_args, limits, 5, NULL},
    {"only numbers", NULL, only_numbers_args, only_numbers, 1, NULL},
    {"softmax", softmax_begin, softmax_args, softmax, 1, NULL},
    {"folds", NULL, softmax_args, folds, 7, NULL},
    {"rows", rows_begin, rows_args, rows, 5, NULL},
    {"far", far_begin, far_args, far, 2, NULL},
    {"taken", taken_begin, taken_args, taken, 5, NULL},
    {"linear", linear_begin, linear_args, linear, 4, NULL},
    {"linear of halves", halves_begin, halves_args, halves, 2, NULL},
    {"layer", layer_begin, layer_args, layer, 3, NULL},
    {"adam", adam_begin, adam_args, adam, 0, NULL},
    {"adam, given", adam_begin, adam_given_args, adam_given, 0, NULL},
    {"handed", handed_begin, handed_args, handed, 2, handed_after},
    {"draws", NULL, NULL, draws, 4, draws_after},
    {"views", views_begin, views_args, views, 8, NULL},
    {"written", NULL, written_args, written, 1, NULL},
    {"counter", counter_begin, NULL, counter, 1, NULL},
    {"same", same_begin, same_args, same, 2, NULL},
    {"own", own_begin, own_args, own, 1, NULL},
    {"fills", NULL, NULL, fills, 7, NULL},
    {"types", NULL, types_args, types, OUTS, NULL},
    {"nothing", NULL, nothing_args, nothing, 4, NULL},
    {"idle", NULL, NULL, idle, 2, NULL},
    {"orders", orders_begin, orders_args, orders, 8, NULL},
    {"more orders", orders_begin, orders_args, more_orders, 7, NULL},
    {"blas", blas_begin, blas_args, blas, 4, NULL},
    {"many", many_begin, many_args, many, 1, NULL},
    {"places", places_begin, places_args, places, 3, NULL},
    {"large", large_begin, large_args, large, 2, NULL},
    {"early", early_begin, early_args, early, 2, NULL},
};

#endif
