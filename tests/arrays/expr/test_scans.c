/* Scans in expressions: against a slow model, and bit for bit what tide_cumsum and its like give of
** the body's values, on the host and with a GPU's kernels, emulated; what is made of their results,
** refusals, failures, the CUDA text. */
#include "runtime/device/cuda/nvrtc.h"
#include "arrays/expr/cuda_text.h"
#include "arrays/expr/front.h"
#include "tests/arrays/scans.h"
#include "tests/doubles/emulated_failures.h"
#include "tests/arrays/expr/programs.h"
#include "tests/arrays/expr/scoped.h"

static int open_emulated(void **state) {
    if (!can_emulate()) return 0;
    emulated_device = true;
    (void)open_rt(state);
    emulated_device = false;
    return 0;
}
static int close_emulated(void **state) {
    if (rt) (void)close_rt(state);
    rt = NULL;
    return 0;
}
static int begin_some(void **state) {
    seed = 1;
    return rt ? begin(state) : 0;
}
static int end_some(void **state) { return rt ? end(state) : 0; }

static const char *const names[SCANS] = {"cumsum", "cumprod", "cummin", "cummax"};

/* "(x, w) -> cumsum(body, axis=1, ...)" */
static const char *text_of(const char *body, int scan, int axis, unsigned flags) {
    static char text[512];
    snprintf(text, sizeof text, "(x, w) -> %s(%s, axis=%d%s%s)", names[scan], body, axis,
             flags & TIDE_SCAN_REVERSE ? ", reverse=true" : "",
             flags & TIDE_SCAN_INITIAL ? ", initial=true" : "");
    return text;
}

static tide_array *value_of(const char *body, tide_array *x, tide_array *w) {
    char text[512];
    snprintf(text, sizeof text, "(x, w) -> %s", body);
    tide_array *v = tide_map(rt, text, x, w);
    assert_array(v);
    return v;
}

static bool same_bytes(tide_array *a, tide_array *b) {
    size_t n = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    char *x = malloc(2 * n + 1);
    assert_int_equal(tide_array_dtype(a), tide_array_dtype(b));
    assert_int_equal(tide_array_size(a), tide_array_size(b));
    assert_ok(tide_to_host(a, x, n));
    assert_ok(tide_to_host(b, x + n, n));
    bool same = memcmp(x, x + n, n) == 0;
    free(x);
    return same;
}

/* ---- values ---- */

/* Of exact numbers: products of two are again. */
static void try_exact(tide_dtype t, int scan, int ndim, const int64_t *shape, unsigned how,
                      unsigned thinned, int axis, unsigned flags) {
    if (scans[scan].ordered && is_complex(t)) return;
    const char *body = t == TIDE_BOOL ? "x || w" : scan <= PROD ? "x*w" : "maximum(x, w)";
    int64_t thin[TIDE_MAX_RANK]; /* w stretches along some axes */
    tide_array *x = view(exact(rt, t, ndim, shape, scan), how);
    for (int d = 0; d < tide_array_ndim(x); d++)
        thin[d] = thinned >> d & 1 ? 1 : tide_array_dim(x, d);
    tide_array *w = exact(rt, t, tide_array_ndim(x), thin, scan);
    axis %= tide_array_ndim(x);
    tide_array *v = value_of(body, x, w),
               *made = tide_map(rt, text_of(body, scan, axis - tide_array_ndim(x), flags), x, w);
    if (!made) fail_msg("%s", tide_error_last()->message);
    check_scan(v, made, scan, axis, flags);
}

static void scans_agree_with_the_model(void **state) {
    (void)state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (int scan = 0; scan < SCANS; scan++)
            for (unsigned round = 0; round < 24; round++) {
                static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 31, 65};
                int ndim = 1 + (int)draw(4);
                int64_t shape[4];
                for (int d = 0; d < ndim; d++) shape[d] = lengths[draw(d ? 6 : 8)];
                try_exact(types[t], scan, ndim, shape, (unsigned)draw(VIEWS), (unsigned)draw(8),
                          (int)draw(4), (unsigned)draw(4));
            }
}

static void scans_of_long_lines_agree(void **state) {
    (void)state;
    for (unsigned t = 0; t < TIDEI_COUNT(types); t++)
        for (int scan = 0; scan < SCANS; scan++) {
            try_exact(types[t], scan, 1, (int64_t[]){70001}, t % 5, t % 2, 0, t % 4);
            try_exact(types[t], scan, 2, (int64_t[]){700, 101}, (t + (unsigned)scan) % VIEWS, t % 4,
                      scan, t % 4);
        }
}

/* Every form that a GPU's kernels have, of elements of 1 to 16 bytes. */
static void a_gpus_forms_agree(void **state) {
    static const struct {
        tide_dtype t;
        int scan;
    } kinds[] = {{TIDE_F32, SUM}, {TIDE_C128, PROD}, {TIDE_I8, MAX}, {TIDE_BF16, SUM}};
    static const struct {
        int ndim;
        int64_t shape[3];
        int axis;
    } shapes[] = {
        {1, {1}, 0},       {1, {9}, 0},          {1, {1030}, 0},     {2, {3, 5003}, 1},
        {1, {20001}, 0},   {2, {2, 9001}, 1},    {2, {96, 1030}, 1}, {2, {5, 7}, 0},
        {2, {700, 40}, 0}, {3, {3, 300, 33}, 1}, {3, {2, 3, 4}, 1},  {3, {3, 4, 50}, 2},
        {2, {9001, 3}, 0}, {3, {2, 700, 70}, 1},
    };
    (void)state;
    if (!rt) skip();
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++)
        for (unsigned s = 0; s < TIDEI_COUNT(shapes); s++)
            for (unsigned flags = k ? (s + k) % 4 : 0; flags < 4; flags += k ? 4 : 1)
                try_exact(kinds[k].t, kinds[k].scan, shapes[s].ndim, shapes[s].shape,
                          flags ? (s + flags + k) % 5 : 0, (s + flags) % 4, shapes[s].axis, flags);
}

static tide_array *floats(tide_dtype t, int ndim, const int64_t *shape) {
    size_t n = 1;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    float *raw = malloc(n * sizeof *raw);
    for (size_t i = 0; i < n; i++) raw[i] = (float)((double)draw(1 << 20) * 0x1p-20);
    tide_array *a = tide_from_host(rt, TIDE_F32, ndim, shape, raw);
    assert_array(a);
    free(raw);
    return tide_cast(a, t);
}

/* What is rounded is rounded as in a scan of the body's values: they are joined in one order. */
static void floats_have_the_bits_of_the_scan_of_the_body(void **state) {
    static const struct {
        int ndim;
        int64_t shape[3];
        int axis;
    } shapes[] = {{1, {20011}, 0},
                  {2, {130, 77}, 1},
                  {2, {900, 41}, 0},
                  {3, {3, 129, 5}, 1},
                  {3, {2, 9001, 3}, 1}};
    static const struct {
        tide_dtype t;
        const char *body;
        int scan;
    } bodies[] = {{TIDE_F32, "x*w - 0.5", SUM},
                  {TIDE_F16, "x - w", SUM},
                  {TIDE_C64, "1 + x/4*w", PROD},
                  {TIDE_F64, "sqrt(x) - w", SUM},
                  {TIDE_F64, "f16(x) - f16(w)", SUM}}; /* of wide elements narrow ones */
    (void)state;
    if (!rt) skip();
    for (unsigned b = 0; b < TIDEI_COUNT(bodies); b++)
        for (unsigned s = 0; s < TIDEI_COUNT(shapes); s++) {
            const char *body = bodies[b].body;
            const unsigned flags = (b + s) % 4;
            const int axis = shapes[s].axis, scan = bodies[b].scan;
            tide_array *x = floats(bodies[b].t, shapes[s].ndim, shapes[s].shape),
                       *w = floats(bodies[b].t, 1, &shapes[s].shape[shapes[s].ndim - 1]);
            tide_array *plain = scans[scan].fn(value_of(body, x, w), axis, flags),
                       *fused = tide_map(rt, text_of(body, scan, axis, flags), x, w);
            assert_array(plain);
            assert_array(fused);
            if (!same_bytes(plain, fused))
                fail_msg("%s: other bits", text_of(body, scan, axis, flags));
        }
}

static void gives(tide_array *made, int64_t n, const double *wanted) {
    assert_array(made);
    numbers got = read_back(made);
    assert_int_equal(got.n, n);
    for (int64_t i = 0; i < n; i++)
        if (isnan(wanted[i]) ? !isnan(got.re[i]) : got.re[i] != wanted[i])
            fail_msg("element %lld is %g, wanted %g", (long long)i, got.re[i], wanted[i]);
    drop(&got);
}
#define GIVES(made, ...)                                                                           \
    gives(made, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static tide_array *small(void) {
    return tide_from_host(rt, TIDE_F32, SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6});
}

static void a_result_is_a_value_like_any_other(void **state) {
    (void)state;
    if (!rt) skip();
    tide_array *x = small(), *made[3];
    GIVES(tide_map(rt, "(x) -> 2*cumsum(x, axis=1) + x", x), 3, 8, 15, 12, 23, 36);
    GIVES(tide_map(rt, "(x) -> cumsum(cumsum(x, axis=1), axis=0)", x), 1, 3, 6, 5, 12, 21);
    GIVES(tide_map(rt, "(x) -> sum(cumsum(x, axis=1), axis=1)", x), 10, 28);
    GIVES(tide_map(rt, "(x) -> cumsum(x*sum(x), axis=0, initial=true) / 21", x), 0, 0, 0, 1, 2, 3,
          5, 7, 9);
    GIVES(tide_map(rt, "(x) -> cumsum(x - min(cummax(x, axis=0, reverse=true)), axis=1)", x), -3,
          -5, -6, 0, 1, 3);
    /* the same scan twice, an expression of it, and one of another shape */
    assert_ok(tide_map_many(rt, made, 3,
                            "(x) -> let c = cumsum(x, axis=1); (c, c, cumsum(x, axis=1) - c)", x));
    GIVES(made[0], 1, 3, 6, 4, 9, 15);
    GIVES(made[1], 1, 3, 6, 4, 9, 15);
    GIVES(made[2], 0, 0, 0, 0, 0, 0);
    assert_ok(tide_map_many(
        rt, made, 2, "(x) -> (cumsum(x, axis=0, initial=true), sum(cumprod(x, axis=1)))", x));
    GIVES(made[0], 0, 0, 0, 1, 2, 3, 5, 7, 9);
    GIVES(made[1], 153);
    /* shapes with the initial place agree with each other, and with what stretches */
    GIVES(tide_map(rt,
                   "(x) -> cumsum(x, axis=1, initial=true) + cumprod(x, axis=1, reverse=true, "
                   "initial=true)",
                   x),
          6, 7, 6, 7, 120, 34, 15, 16);
    GIVES(tide_map(rt, "(x, y) -> cumsum(x, axis=1, initial=true) + y", x,
                   tide_zeros(rt, TIDE_I8, SHAPE(2, 1))),
          0, 1, 3, 6, 0, 4, 9, 15);
}

static void numbers_casts_and_positions_stand_in_a_body(void **state) {
    (void)state;
    if (!rt) skip();
    tide_array *x = small(), *bytes = tide_cast(x, TIDE_U8);
    GIVES(tide_map(rt, "(x, n) -> cumsum(n*x + 1, axis=1)", x, 2), 3, 8, 15, 9, 20, 33);
    GIVES(tide_map(rt, "(x) -> cumsum(u8(100*x), axis=1)", bytes), 100, 300, 344, 144, 388, 476);
    GIVES(tide_map(rt, "(x) -> cumsum(x > 2, axis=0) / 2", x), 0, 0, .5, .5, .5, 1);
    GIVES(tide_map(rt, "(x) -> cumsum(0*x + index(1), axis=1)", x), 0, 1, 3, 0, 1, 3);
    GIVES(tide_map(rt, "(x) -> cumsum(0*x + 10*index(0) + index(1), axis=1, reverse=true)", x), 3,
          3, 2, 33, 23, 12);
    GIVES(tide_map(rt, "(x) -> cumsum(0*x + 10*index(0) + index(1), axis=0, reverse=true)", x), 10,
          12, 14, 10, 11, 12);
    GIVES(tide_map(rt, "(x) -> cummin(where(index(0) == 1, nan, x), axis=0)", x), 1, 2, 3, NAN, NAN,
          NAN);
    GIVES(tide_map(rt, "(x, y) -> cumprod(x*y, axis=0)", x, tide_slice(x, "1, :")), 4, 10, 18, 64,
          250, 648);
}

/* ---- destinations ---- */

static void destinations_may_be_views_and_operands(void **state) {
    (void)state;
    if (!rt) skip();
    tide_array *x = small(), *wide = tide_zeros(rt, TIDE_F64, SHAPE(3, 4)),
               *back = tide_slice(wide, "::-1, ::2"), *turned = tide_transpose(back, NULL);
    assert_ok(tide_map_into(x, "(x) -> cumsum(x, axis=1)", x));
    GIVES(x, 1, 3, 6, 4, 9, 15);
    assert_ok(tide_map_into(tide_slice(x, ":, ::-1"), "(x) -> cumsum(x, axis=1)", x));
    GIVES(x, 10, 4, 1, 28, 13, 4);
    assert_ok(tide_map_into(turned, "(x) -> cumsum(x, axis=1)", x));
    GIVES(wide, 15, 0, 45, 0, 14, 0, 41, 0, 10, 0, 28, 0);
    tide_array *same = tide_zeros(rt, TIDE_F32, SHAPE(4, 4)), *part = tide_slice(same, "::-2, :3");
    assert_ok(tide_map_into(part, "(x) -> cumsum(x, axis=0, reverse=true)", x));
    GIVES(same, 0, 0, 0, 0, 28, 13, 4, 0, 0, 0, 0, 0, 38, 17, 5, 0);
    tide_array *longer = tide_zeros(rt, TIDE_F32, SHAPE(3, 4));
    assert_ok(tide_map_into(tide_transpose(tide_slice(longer, "::-1, ::2"), NULL),
                            "(x) -> cumprod(x, axis=1, initial=true)", tide_slice(x, ":, 1:")));
    GIVES(longer, 4, 0, 52, 0, 4, 0, 13, 0, 1, 0, 1, 0);
}

static void what_is_empty_has_its_initial_places(void **state) {
    (void)state;
    if (!rt) skip();
    tide_array *none = tide_zeros(rt, TIDE_I16, SHAPE(2, 0)),
               *no_lines = tide_transpose(none, NULL);
    assert_int_equal(tide_array_size(tide_map(rt, "(x) -> cumsum(x + 1, axis=1)", none)), 0);
    GIVES(tide_map(rt, "(x) -> cumprod(x + 1, axis=1, initial=true)", none), 1, 1);
    GIVES(tide_map(rt, "(x) -> cummin(x + 1, axis=-1, reverse=true, initial=true)", none), 32767,
          32767);
    assert_int_equal(
        tide_array_size(tide_map(rt, "(x) -> cummax(x, axis=1, initial=true)", no_lines)), 0);
}

/* ---- refusals ---- */

static void refused(const char *text, tide_array *x, tide_status s, const char *why) {
    assert_null(tide_map(rt, text, x));
    assert_error(s, why);
}
static void what_cannot_be_scanned_is_refused(void **state) {
    (void)state;
    tide_array *x = small(), *zero = tide_zeros(rt, TIDE_F32, 0, NULL),
               *z = tide_zeros(rt, TIDE_C64, SHAPE(2)), *one = tide_zeros(rt, TIDE_BOOL, SHAPE(1)),
               *vast = tide_broadcast_to(one, SHAPE(INT64_MAX)), *made[2];
    refused("(x) -> 1 + cumsum(x, axis=2)", x, TIDE_E_BOUNDS, "column 12: axis 2 of an array");
    refused("(x) -> cumprod(x, axis=-3)", x, TIDE_E_BOUNDS, "column 8: axis -3 of an array");
    refused("(x) -> cumsum(x)", x, TIDE_E_SHAPE, "column 8: cumsum of an array with 2 dimensions");
    refused("(x) -> cumsum(x)", zero, TIDE_E_SHAPE, "column 8: cumsum of an array with 0 dim");
    refused("(x) -> cummin(x, axis=0)", zero, TIDE_E_BOUNDS, "column 8: axis 0 of an array");
    refused("(x) -> cumsum(1, axis=0)", x, TIDE_E_BOUNDS, "column 8: axis 0 of an array with 0");
    refused("(x) -> cummax(x)", z, TIDE_E_DTYPE,
            "column 8: cummax is offered for bool, integers, floats, not for c64");
    refused("(x) -> x + cumsum(x, axis=1, initial=true)", x, TIDE_E_SHAPE, "4");
    refused("(x) -> cumsum(x + index(2), axis=1)", x, TIDE_E_BOUNDS, "column 19: axis 2");
    if (vast)
        refused("(x) -> cummax(x, initial=true)", vast, TIDE_E_NOMEM,
                "column 8: axis 0 of the res");
    /* nothing is written where a later result is refused */
    made[0] = tide_zeros(rt, TIDE_F32, SHAPE(2, 3));
    made[1] = tide_zeros(rt, TIDE_F32, SHAPE(2, 3));
    tide_expr *e = tide_expr_new(rt, "(x) -> (cumsum(x, axis=1), cumsum(x, axis=0, initial=true))");
    const tide_arg arg = tide_arg_array(x);
    assert_int_equal(tide_expr_apply_into(made, 2, e, &arg, 1), TIDE_E_SHAPE);
    GIVES(made[0], 0, 0, 0, 0, 0, 0);
    tide_expr_release(e);
    tide_error_clear();
}

/* ---- failures ---- */

static void scan_all(tide_runtime *run, tide_status *status) {
    tide_array *a = tide_ones(run, TIDE_F32, SHAPE(3, 5000)), *made[2] = {NULL};
    *status = TIDE_E_NOMEM;
    if (a)
        *status = tide_map_many(run, made, 2,
                                "(x) -> let c = cumsum(x*x, axis=1, initial=true); (cumprod(c - 1, "
                                "axis=0, reverse=true), c / sum(x))",
                                a);
    else
        *status = tide_error_last()->status;
    for (int i = 0; i < 2; i++)
        if (made[i]) tide_release(made[i]);
    if (a) tide_release(a);
}
static void a_failure_leaves_nothing(void **state) {
    (void)state;
    each_call_fails(scan_all);
}
static void a_gpus_failure_leaves_nothing(void **state) {
    (void)state;
    each_emulated_call_fails(scan_all);
}

/* ---- text ---- */

/* cumsum(x*w + n*linear) of elements of types t and u. */
static void build(tidei_program *p, int kind, int t, int u, int out) {
    *p = (tidei_program){0};
    uint16_t x = input(p, t), w = cast(p, t, input(p, u)), n = scalar(p, t), v = x;
    if (t == TIDE_BOOL)
        v = node(p, TIDEI_OP_LOGICAL_AND, t, x, w, 0);
    else
        v = node(p, TIDEI_OP_MUL, t, x, w, 0);
    if (t != TIDE_BOOL) {
        uint16_t at = cast(p, t, node(p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0));
        v = node(p, TIDEI_OP_ADD, t, v, node(p, TIDEI_OP_MUL, t, n, at, 0), 0);
    }
    fold(p, kind, v, t, out);
    tidei_program_seal(p);
    assert_true(tidei_program_valid(p));
}

static void kernels_compile(void **state) {
    static const uint8_t kinds[][4] = {{TIDEI_FOLD_CUMSUM, TIDE_F32, TIDE_F32, TIDE_F32},
                                       {TIDEI_FOLD_CUMSUM, TIDE_F16, TIDE_BOOL, TIDE_F16},
                                       {TIDEI_FOLD_CUMPROD, TIDE_C128, TIDE_F32, TIDE_C128},
                                       {TIDEI_FOLD_CUMMAX, TIDE_BOOL, TIDE_BOOL, TIDE_BOOL},
                                       {TIDEI_FOLD_CUMSUM, TIDE_U8, TIDE_U64, TIDE_U64},
                                       {TIDEI_FOLD_CUMMIN, TIDE_BF16, TIDE_F64, TIDE_BF16}};
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    for (unsigned i = 0; i < TIDEI_COUNT(kinds); i++)
        for (int form = test_long() ? 0 : (int)i % TIDEI_SCAN_FORMS; form < TIDEI_SCAN_FORMS;
             form += test_long() ? 1 : TIDEI_SCAN_FORMS) {
            tidei_program p;
            tidei_cuda_traits k;
            void *image;
            size_t bytes;
            build(&p, kinds[i][0], kinds[i][1], kinds[i][2], kinds[i][3]);
            tidei_cuda_traits_of(&p, &k);
            char *text = tidei_cuda_text(NULL, &p, &k, TIDEI_CUDA_SCAN + form, NULL);
            assert_non_null(text);
            tide_status s = tidei_nvrtc_compile(text, "scan", i % 2 ? 90 : 75, &image, &bytes);
            if (s != TIDE_OK) fail_msg("%s", tide_error_last()->message);
            assert_true(bytes > 1000);
            free(image);
            tidei_host_free(NULL, text);
        }
}

/* The largest parameters, within what a launch takes; what a program has not is not named. */
static void parameters_fit_a_launch(void **state) {
    tidei_program p = {0};
    tidei_cuda_traits k;
    uint16_t v;
    (void)state;
    v = cast(&p, TIDE_F32, node(&p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0));
    for (int i = 0; i < TIDEI_INPUTS_MAX; i++)
        v = node(&p, TIDEI_OP_ADD, TIDE_F32, v, input(&p, TIDE_F32), 0);
    for (int i = 0; i < TIDEI_SCALARS_MAX; i++)
        v = node(&p, TIDEI_OP_ADD, TIDE_F32, v, scalar(&p, TIDE_F32), 0);
    fold(&p, TIDEI_FOLD_CUMSUM, v, TIDE_F32, TIDE_F32);
    tidei_cuda_traits_of(&p, &k);
    assert_in_range(tidei_cuda_params_bytes(&p, &k, TIDEI_CUDA_SCAN), 1, TIDEI_PARAMS_MAX);
}

/* The body is no value of its own: a scan is one pass, from the operands to the result. */
static void the_body_is_part_of_the_scan(void **state) {
    static const struct {
        const char *text;
        unsigned stored;
    } plans[] = {{"(x, w) -> cumsum(x*w + exp(x), axis=1)", 1},
                 {"(x, w) -> cumsum(x*w, axis=1) / sum(x, axis=1, keepdims=true)", 2},
                 {"(x, w) -> cumsum(2*cumsum(x*w, axis=1), axis=0)", 2}};
    const uint8_t sig[2] = {TIDE_F32, TIDE_F32};
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(plans); i++) {
        tidei_runtime *r = test_rt(rt);
        tidei_plan *plan;
        tidei_ast ast;
        assert_ok(tidei_ast_parse(r, plans[i].text, "test", &ast));
        assert_ok(tidei_plan_build(r, &ast, sig, false, NULL, 0, &plan));
        assert_int_equal(plan->nstored, plans[i].stored);
        for (unsigned k = 0; k < plan->nstored; k++)
            assert_true(plan->stored[k].fold != TIDEI_FOLD_NONE);
        tidei_plan_free(r, plan);
        tidei_ast_free(r, &ast);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_some, end_some)
#define GPU_CASE(f)                                                                                \
    { "a_gpu: " #f, f, begin_some, end_some, NULL }
    const struct CMUnitTest tests[] = {
        CASE(scans_agree_with_the_model),
        CASE(scans_of_long_lines_agree),
        CASE(a_gpus_forms_agree),
        CASE(floats_have_the_bits_of_the_scan_of_the_body),
        CASE(a_result_is_a_value_like_any_other),
        CASE(numbers_casts_and_positions_stand_in_a_body),
        CASE(destinations_may_be_views_and_operands),
        CASE(what_is_empty_has_its_initial_places),
        CASE(what_cannot_be_scanned_is_refused),
        CASE(the_body_is_part_of_the_scan),
    };
    const struct CMUnitTest emulated[] = {
        GPU_CASE(a_gpus_forms_agree),
        GPU_CASE(floats_have_the_bits_of_the_scan_of_the_body),
        GPU_CASE(a_result_is_a_value_like_any_other),
        GPU_CASE(numbers_casts_and_positions_stand_in_a_body),
        GPU_CASE(destinations_may_be_views_and_operands),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(a_gpus_failure_leaves_nothing),
        cmocka_unit_test(kernels_compile),
        cmocka_unit_test(parameters_fit_a_launch),
    };
    int bad = cmocka_run_group_tests(tests, open_rt, close_rt);
    rt = NULL;
    bad += cmocka_run_group_tests(emulated, open_emulated, close_emulated);
    return bad + cmocka_run_group_tests(others, NULL, NULL);
}
