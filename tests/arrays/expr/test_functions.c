/* Functions of complex numbers and special functions, on the device under test: each part against
** more digits, where numbers are near cuts, circles and the ends of their type too; the special
** values of C17, Annex G; points worked out with 30 digits. */
#include "tests/arrays/expr/precise.h"
#include "tests/arrays/expr/scoped.h"
#include <complex.h>
#include <float.h>

typedef long double complex wide;

/* ---- more digits ---- */

static wide wide_expm1(wide z) {
    const long double x = creall(z), y = cimagl(z), s = sinl(y / 2);
    if (x > 100) return cexpl(z);
    return CMPLXL(expm1l(x) * cosl(y) - 2 * s * s, expl(x) * sinl(y));
}
static wide wide_exp2(wide z) {
    const long double y = cimagl(z), angle = y * M_LN2l, size = exp2l(creall(z)),
                      beyond = -1.1458352726798733e-20L, /* M_LN2l's digits */
        lost = fmal(y, M_LN2l, -angle) + y * beyond;
    if (y == 0) return CMPLXL(size, y);
    return CMPLXL(size * (cosl(angle) - lost * sinl(angle)),
                  size * (sinl(angle) + lost * cosl(angle)));
}
static wide wide_log1p(wide z) {
    const long double x = creall(z), y = cimagl(z);
    const long double sum = x * (2 + x) + y * y;
    return CMPLXL(fabsl(sum) < 0.5L ? log1pl(sum) / 2 : creall(clogl(1 + z)), atan2l(y, 1 + x));
}
static wide wide_log2(wide z) { return clogl(z) / M_LN2l; }
static wide wide_log10(wide z) { return clogl(z) / M_LN10l; }

static const struct function {
    int op;
    wide (*f)(wide);
    /* The ulps of the real part are those of this share of the whole (c64, c128), if that is more:
    ** it may cancel, here or in the digits that it is compared with. */
    double share[2];
} functions[] = {{TIDEI_OP_SQRT, csqrtl, {0}},         {TIDEI_OP_EXP, cexpl, {0}},
                 {TIDEI_OP_EXPM1, wide_expm1, {1, 1}}, {TIDEI_OP_EXP2, wide_exp2, {0}},
                 {TIDEI_OP_LOG, clogl, {0}},           {TIDEI_OP_LOG1P, wide_log1p, {0, 0.01}},
                 {TIDEI_OP_LOG2, wide_log2, {0}},      {TIDEI_OP_LOG10, wide_log10, {0}},
                 {TIDEI_OP_SIN, csinl, {0}},           {TIDEI_OP_COS, ccosl, {0}},
                 {TIDEI_OP_TAN, ctanl, {0}},           {TIDEI_OP_ASIN, casinl, {0}},
                 {TIDEI_OP_ACOS, cacosl, {0}},         {TIDEI_OP_ATAN, catanl, {0}},
                 {TIDEI_OP_SINH, csinhl, {0}},         {TIDEI_OP_COSH, ccoshl, {0}},
                 {TIDEI_OP_TANH, ctanhl, {0}},         {TIDEI_OP_ASINH, casinhl, {0}},
                 {TIDEI_OP_ACOSH, cacoshl, {0}},       {TIDEI_OP_ATANH, catanhl, {0}}};

/* ---- points ---- */

static uint64_t seed = 1;
static double unit(void) { /* splitmix64, in [0, 1) */
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}
enum { GRID = 40, POINTS = GRID * GRID + 6000 };
static double complex points[POINTS];
static void make_points(bool single) {
    static const double sizes[GRID / 2] = {0,    1e-310, 1e-200, 1e-30, 1e-12,  1e-7, 1e-3,
                                           0.1,  0.5,    0.9999, 1,     1.0001, 1.5,  2,
                                           3.14, 10,     40,     300,   1e8,    1e30};
    static const double singles[] = {[1] = 1e-42, [2] = 1e-25, [17] = 80, [19] = 1e15};
    int n = 0;
    for (int i = 0; i < GRID * GRID; i++) {
        int k[2] = {i / GRID, i % GRID};
        double p[2];
        for (int j = 0; j < 2; j++) {
            const int s = k[j] % (GRID / 2);
            p[j] = single && s < 20 && singles[s] != 0 ? singles[s] : sizes[s];
            if (k[j] >= GRID / 2) p[j] = -p[j];
        }
        points[n++] = CMPLX(p[0], p[1]);
    }
    for (int i = 0; i < 2000; i++) { /* near the circles about 0 and -1, then of any size */
        const double t = 2 * M_PI * unit(), r = 1 + (unit() - 0.5) * exp2(-40 * unit());
        points[n++] = CMPLX(r * cos(t), r * sin(t));
        points[n++] = CMPLX(r * cos(t) - 1, r * sin(t));
        points[n++] =
            CMPLX((unit() - 0.5) * exp2(20 * unit() - 10), (unit() - 0.5) * exp2(20 * unit() - 10));
    }
    for (int i = 0; single && i < n; i++)
        points[i] = CMPLX((float)creal(points[i]), (float)cimag(points[i]));
}

/* ---- closeness ---- */

static long double last_place(bool single, long double x) {
    const int e = x == 0 ? -20000 : ilogbl(x), least = single ? -126 : -1022;
    return ldexpl(1, (e < least ? least : e) - (single ? 23 : 52));
}
/* How far off, in units of the last place of what is wanted or of `scale`. */
static double off_by(bool single, double got, long double want, long double scale) {
    const double most = single ? FLT_MAX : DBL_MAX;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (fabsl(want) > most) /* at the very end either may come */
        return (fabs(got) >= most * (1 - 1e-6) && !signbit(got) == !signbit(want)) ? 0 : INFINITY;
    if (isinf(got)) return fabsl(want) > most * (1 - 1e-6) ? 0 : INFINITY;
    return (double)(fabsl(got - want) / last_place(single, fmaxl(fabsl(want), scale)));
}

/* The operation of one operand on n complex numbers of type t. */
static void map_complex(int op, tide_dtype t, int64_t n, const double complex *in,
                        double complex *out) {
    char text[64];
    const size_t size = tide_dtype_size(t);
    unsigned char *data = malloc((size_t)n * size);
    if (!data) abort();
    for (int64_t i = 0; i < n; i++)
        assert_ok(tidei_encode(tide_arg_complex(creal(in[i]), cimag(in[i])), t, "test",
                               data + (size_t)i * size));
    snprintf(text, sizeof text, "(z) -> %s(z)", tidei_op_infos[op].name);
    tide_array *r = tide_map(rt, text, tide_from_host(rt, t, 1, &n, data));
    if (!r) fail_msg("%s: %s", text, tide_error_last()->message);
    assert_int_equal(tide_array_dtype(r), t);
    assert_ok(tide_to_host(r, data, (size_t)n * size));
    for (int64_t i = 0; i < n; i++) {
        const tide_arg v = tidei_decode(data + (size_t)i * size, t);
        out[i] = CMPLX(v.value.c[0], v.value.c[1]);
    }
    free(data);
}

static void one_function(const struct function *f, tide_dtype t) {
    const bool single = t == TIDE_C64;
    static double complex got[POINTS];
    make_points(single);
    map_complex(f->op, t, POINTS, points, got);
    for (int i = 0; i < POINTS; i++) {
        const wide z = CMPLXL(creal(points[i]), cimag(points[i])), want = f->f(z);
        if (f->op == TIDEI_OP_EXP2 && fabs(cimag(points[i])) > (single ? 0x1p12 : 0x1p20)) continue;
        const double x = off_by(single, creal(got[i]), creall(want), f->share[!single] * cabsl(z)),
                     y = off_by(single, cimag(got[i]), cimagl(want), 0);
        if (x > tidei_op_ulps(f->op, t) || y > tidei_op_ulps(f->op, t))
            fail_msg("%s of %.17g%+.17gi (%s) is %.17g%+.17gi: %g and %g ulps off",
                     tidei_op_infos[f->op].name, creal(points[i]), cimag(points[i]),
                     tide_dtype_name(t), creal(got[i]), cimag(got[i]), x, y);
    }
}
static void each_part_is_close(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(functions); i++)
        for (int t = TIDE_C64; t <= TIDE_C128; t++) one_function(&functions[i], (tide_dtype)t);
}

/* ---- special values ---- */

#define INF INFINITY
enum { EITHER_RE = 1, EITHER_IM = 2, ODD = 4 }; /* a part's sign is open; f(-z) is -f(z) */
static const struct special {
    int op;
    double x, y, re, im;
    int how;
} specials[] = {
    {TIDEI_OP_ACOS, 0, 0, M_PI_2, -0.0, 0},
    {TIDEI_OP_ACOS, -0.0, 0, M_PI_2, -0.0, 0},
    {TIDEI_OP_ACOS, 0, NAN, M_PI_2, NAN, 0},
    {TIDEI_OP_ACOS, 1, 0, 0, -0.0, 0},
    {TIDEI_OP_ACOS, -1, 0, M_PI, -0.0, 0},
    {TIDEI_OP_ACOS, 2, INF, M_PI_2, -INF, 0},
    {TIDEI_OP_ACOS, 2, NAN, NAN, NAN, 0},
    {TIDEI_OP_ACOS, -INF, 2, M_PI, -INF, 0},
    {TIDEI_OP_ACOS, INF, 2, 0, -INF, 0},
    {TIDEI_OP_ACOS, -INF, INF, 3 * M_PI_4, -INF, 0},
    {TIDEI_OP_ACOS, INF, INF, M_PI_4, -INF, 0},
    {TIDEI_OP_ACOS, INF, NAN, NAN, INF, EITHER_IM},
    {TIDEI_OP_ACOS, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_ACOS, NAN, INF, NAN, -INF, 0},
    {TIDEI_OP_ACOSH, 0, 0, 0, M_PI_2, 0},
    {TIDEI_OP_ACOSH, -0.0, 0, 0, M_PI_2, 0},
    {TIDEI_OP_ACOSH, 2, INF, INF, M_PI_2, 0},
    {TIDEI_OP_ACOSH, 0, NAN, NAN, M_PI_2, EITHER_IM},
    {TIDEI_OP_ACOSH, 2, NAN, NAN, NAN, 0},
    {TIDEI_OP_ACOSH, -INF, 2, INF, M_PI, 0},
    {TIDEI_OP_ACOSH, INF, 2, INF, 0, 0},
    {TIDEI_OP_ACOSH, -INF, INF, INF, 3 * M_PI_4, 0},
    {TIDEI_OP_ACOSH, INF, INF, INF, M_PI_4, 0},
    {TIDEI_OP_ACOSH, -INF, NAN, INF, NAN, 0},
    {TIDEI_OP_ACOSH, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_ACOSH, NAN, INF, INF, NAN, 0},
    {TIDEI_OP_ASINH, 0, 0, 0, 0, ODD},
    {TIDEI_OP_ASINH, 2, INF, INF, M_PI_2, ODD},
    {TIDEI_OP_ASINH, 2, NAN, NAN, NAN, ODD},
    {TIDEI_OP_ASINH, INF, 2, INF, 0, ODD},
    {TIDEI_OP_ASINH, INF, INF, INF, M_PI_4, ODD},
    {TIDEI_OP_ASINH, INF, NAN, INF, NAN, ODD},
    {TIDEI_OP_ASINH, NAN, 0, NAN, 0, ODD},
    {TIDEI_OP_ASINH, NAN, 2, NAN, NAN, ODD},
    {TIDEI_OP_ASINH, NAN, INF, INF, NAN, ODD | EITHER_RE},
    {TIDEI_OP_ASIN, 0, 0, 0, 0, ODD},
    {TIDEI_OP_ASIN, INF, 2, M_PI_2, INF, ODD},
    {TIDEI_OP_ASIN, 2, INF, 0, INF, ODD},
    {TIDEI_OP_ATANH, 0, 0, 0, 0, ODD},
    {TIDEI_OP_ATANH, 0, NAN, 0, NAN, ODD},
    {TIDEI_OP_ATANH, 1, 0, INF, 0, ODD},
    {TIDEI_OP_ATANH, 2, INF, 0, M_PI_2, ODD},
    {TIDEI_OP_ATANH, 2, NAN, NAN, NAN, ODD},
    {TIDEI_OP_ATANH, INF, 2, 0, M_PI_2, ODD},
    {TIDEI_OP_ATANH, INF, INF, 0, M_PI_2, ODD},
    {TIDEI_OP_ATANH, INF, NAN, 0, NAN, ODD},
    {TIDEI_OP_ATANH, NAN, 2, NAN, NAN, ODD},
    {TIDEI_OP_ATANH, NAN, INF, 0, M_PI_2, ODD | EITHER_RE},
    {TIDEI_OP_ATAN, 0, 1, 0, INF, ODD},
    {TIDEI_OP_ATAN, 2, INF, M_PI_2, 0, ODD},
    {TIDEI_OP_COSH, 0, 0, 1, 0, 0},
    {TIDEI_OP_COSH, 0, INF, NAN, 0, EITHER_IM},
    {TIDEI_OP_COSH, 0, NAN, NAN, 0, EITHER_IM},
    {TIDEI_OP_COSH, 2, INF, NAN, NAN, 0},
    {TIDEI_OP_COSH, 2, NAN, NAN, NAN, 0},
    {TIDEI_OP_COSH, INF, 0, INF, 0, 0},
    {TIDEI_OP_COSH, INF, 2, -INF, INF, 0},
    {TIDEI_OP_COSH, -INF, 2, -INF, -INF, 0},
    {TIDEI_OP_COSH, INF, INF, INF, NAN, EITHER_RE},
    {TIDEI_OP_COSH, INF, NAN, INF, NAN, 0},
    {TIDEI_OP_COSH, NAN, 0, NAN, 0, EITHER_IM},
    {TIDEI_OP_COSH, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_COSH, NAN, NAN, NAN, NAN, 0},
    {TIDEI_OP_SINH, 0, 0, 0, 0, ODD},
    {TIDEI_OP_SINH, 0, INF, 0, NAN, ODD | EITHER_RE},
    {TIDEI_OP_SINH, 0, NAN, 0, NAN, ODD | EITHER_RE},
    {TIDEI_OP_SINH, 2, INF, NAN, NAN, ODD},
    {TIDEI_OP_SINH, INF, 0, INF, 0, ODD},
    {TIDEI_OP_SINH, INF, 2, -INF, INF, ODD},
    {TIDEI_OP_SINH, INF, INF, INF, NAN, ODD | EITHER_RE},
    {TIDEI_OP_SINH, INF, NAN, INF, NAN, ODD | EITHER_RE},
    {TIDEI_OP_SINH, NAN, 0, NAN, 0, ODD},
    {TIDEI_OP_SINH, NAN, 2, NAN, NAN, ODD},
    {TIDEI_OP_SIN, 0, INF, 0, INF, ODD},
    {TIDEI_OP_COS, 0, INF, INF, 0, EITHER_IM},
    {TIDEI_OP_TANH, 0, 0, 0, 0, ODD},
    {TIDEI_OP_TANH, 0, INF, 0, NAN, ODD},
    {TIDEI_OP_TANH, 2, INF, NAN, NAN, ODD},
    {TIDEI_OP_TANH, 0, NAN, 0, NAN, ODD},
    {TIDEI_OP_TANH, 2, NAN, NAN, NAN, ODD},
    {TIDEI_OP_TANH, INF, 1, 1, 0, ODD},
    {TIDEI_OP_TANH, INF, 2, 1, -0.0, ODD},
    {TIDEI_OP_TANH, INF, INF, 1, 0, ODD | EITHER_IM},
    {TIDEI_OP_TANH, INF, NAN, 1, 0, ODD | EITHER_IM},
    {TIDEI_OP_TANH, NAN, 0, NAN, 0, ODD},
    {TIDEI_OP_TANH, NAN, 2, NAN, NAN, ODD},
    {TIDEI_OP_TAN, 1, INF, 0, 1, ODD},
    {TIDEI_OP_EXP, 0, 0, 1, 0, 0},
    {TIDEI_OP_EXP, -0.0, 0, 1, 0, 0},
    {TIDEI_OP_EXP, 2, INF, NAN, NAN, 0},
    {TIDEI_OP_EXP, INF, 0, INF, 0, 0},
    {TIDEI_OP_EXP, -INF, 2, -0.0, 0, 0},
    {TIDEI_OP_EXP, INF, 2, -INF, INF, 0},
    {TIDEI_OP_EXP, -INF, INF, 0, 0, EITHER_RE | EITHER_IM},
    {TIDEI_OP_EXP, INF, INF, INF, NAN, EITHER_RE},
    {TIDEI_OP_EXP, -INF, NAN, 0, 0, EITHER_RE | EITHER_IM},
    {TIDEI_OP_EXP, INF, NAN, INF, NAN, EITHER_RE},
    {TIDEI_OP_EXP, NAN, 0, NAN, 0, 0},
    {TIDEI_OP_EXP, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_EXP2, 3, 0, 8, 0, 0},
    {TIDEI_OP_EXP2, -INF, INF, 0, 0, EITHER_RE | EITHER_IM},
    {TIDEI_OP_EXP2, INF, -0.0, INF, -0.0, 0},
    {TIDEI_OP_EXP2, INF, 3, -INF, INF, 0},
    {TIDEI_OP_EXP2, 2, INF, NAN, NAN, 0},
    {TIDEI_OP_EXP2, NAN, 0, NAN, 0, 0},
    {TIDEI_OP_EXPM1, 0, 0, 0, 0, 0},
    {TIDEI_OP_EXPM1, -INF, INF, -1, 0, EITHER_IM},
    {TIDEI_OP_EXPM1, INF, 2, -INF, INF, 0},
    {TIDEI_OP_EXPM1, NAN, 0, NAN, 0, 0},
    {TIDEI_OP_LOG, -0.0, 0, -INF, M_PI, 0},
    {TIDEI_OP_LOG, 0, 0, -INF, 0, 0},
    {TIDEI_OP_LOG, 1, 0, 0, 0, 0},
    {TIDEI_OP_LOG, 2, INF, INF, M_PI_2, 0},
    {TIDEI_OP_LOG, 2, NAN, NAN, NAN, 0},
    {TIDEI_OP_LOG, -INF, 2, INF, M_PI, 0},
    {TIDEI_OP_LOG, INF, 2, INF, 0, 0},
    {TIDEI_OP_LOG, -INF, INF, INF, 3 * M_PI_4, 0},
    {TIDEI_OP_LOG, INF, INF, INF, M_PI_4, 0},
    {TIDEI_OP_LOG, -INF, NAN, INF, NAN, 0},
    {TIDEI_OP_LOG, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_LOG, NAN, INF, INF, NAN, 0},
    {TIDEI_OP_LOG2, 8, 0, 3, 0, 0},
    {TIDEI_OP_LOG2, NAN, INF, INF, NAN, 0},
    {TIDEI_OP_LOG10, 1000, 0, 3, 0, 0},
    {TIDEI_OP_LOG1P, -1, 0, -INF, 0, 0},
    {TIDEI_OP_LOG1P, -0.0, 0, -0.0, 0, 0},
    {TIDEI_OP_LOG1P, -INF, INF, INF, 3 * M_PI_4, 0},
    {TIDEI_OP_SQRT, 0, 0, 0, 0, 0},
    {TIDEI_OP_SQRT, -0.0, 0, 0, 0, 0},
    {TIDEI_OP_SQRT, -4, 0, 0, 2, 0},
    {TIDEI_OP_SQRT, -4, -0.0, 0, -2, 0},
    {TIDEI_OP_SQRT, 2, INF, INF, INF, 0},
    {TIDEI_OP_SQRT, NAN, INF, INF, INF, 0},
    {TIDEI_OP_SQRT, 2, NAN, NAN, NAN, 0},
    {TIDEI_OP_SQRT, -INF, 2, 0, INF, 0},
    {TIDEI_OP_SQRT, INF, 2, INF, 0, 0},
    {TIDEI_OP_SQRT, -INF, NAN, NAN, INF, EITHER_IM},
    {TIDEI_OP_SQRT, INF, NAN, INF, NAN, 0},
    {TIDEI_OP_SQRT, NAN, 2, NAN, NAN, 0},
    {TIDEI_OP_ROUND, 2.5, -0.5, 2, -0.0, ODD},
};

static bool is_special(tide_dtype t, double got, double want, bool either) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (!either && !signbit(got) != !signbit(want)) return false;
    got = fabs(got), want = fabs(want);
    return got == want || fabs(got - want) <= want * (t == TIDE_C64 ? 4e-7 : 8e-16);
}
/* `turn`, bits: the conjugate, the negative. */
static void check_special(const struct special *s, tide_dtype t, int turn) {
    const double sx = turn & 2 ? -1 : 1, sy = (turn & 1 ? -1 : 1) * sx;
    const double complex in = CMPLX(sx * s->x, sy * s->y);
    double complex got;
    map_complex(s->op, t, 1, &in, &got);
    if (!is_special(t, creal(got), sx * s->re, s->how & EITHER_RE) ||
        !is_special(t, cimag(got), sy * s->im, s->how & EITHER_IM))
        fail_msg("%s of %g%+gi (%s) is %.17g%+.17gi", tidei_op_infos[s->op].name, creal(in),
                 cimag(in), tide_dtype_name(t), creal(got), cimag(got));
}
static void special_values_are_those_of_annex_g(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(specials); i++)
        for (int turn = 0; turn < (specials[i].how & ODD ? 4 : 2); turn++)
            for (int t = TIDE_C64; t <= TIDE_C128; t++)
                check_special(&specials[i], (tide_dtype)t, turn);
}

/* ---- powers ---- */

static double complex power(tide_dtype t, double complex a, double complex b) {
    tide_array *x = tide_full(rt, t, 0, NULL, tide_arg_complex(creal(a), cimag(a))),
               *y = tide_full(rt, t, 0, NULL, tide_arg_complex(creal(b), cimag(b)));
    tide_arg v;
    assert_ok(tide_item(tide_pow(x, y), &v));
    return CMPLX(v.value.c[0], v.value.c[1]);
}
static void powers_are_close(void **state) {
    (void)state;
    for (int t = TIDE_C64; t <= TIDE_C128; t++) {
        const double unit_of = t == TIDE_C64 ? FLT_EPSILON : DBL_EPSILON;
        assert_true(power(t, CMPLX(1, 2), 5) == CMPLX(41, -38)); /* exact: by squaring */
        assert_true(power(t, CMPLX(0, 1), -3) == CMPLX(0, 1));
        assert_true(power(t, CMPLX(NAN, 1), 0) == 1);
        assert_true(power(t, 0, CMPLX(2, 1)) == 0);
        assert_true(isnan(creal(power(t, 0, CMPLX(0, 1)))));
        assert_true(isnan(creal(power(t, 0, -1))));
        for (int i = 0; i < 200; i++) {
            const double complex a = CMPLX(4 * unit() - 2, 4 * unit() - 2),
                                 b = i % 2 ? CMPLX(floor(20 * unit()) - 10, 0)
                                           : CMPLX(20 * unit() - 10, 6 * unit() - 3);
            const float complex fa = (float complex)a, fb = (float complex)b;
            const wide wa = t == TIDE_C64 ? (wide)fa : (wide)a,
                       wb = t == TIDE_C64 ? (wide)fb : (wide)b, e = wb * clogl(wa), want = cexpl(e);
            const double complex got = power((tide_dtype)t, (double complex)wa, (double complex)wb);
            if (!(cabsl(got - want) <= cabsl(want) * unit_of * (8 + 4 * cabsl(e) + 4 * cabsl(wb))))
                fail_msg("(%.17g%+.17gi)**(%.17g%+.17gi) is %.17g%+.17gi (%s)", creal(a), cimag(a),
                         creal(b), cimag(b), creal(got), cimag(got), tide_dtype_name(t));
        }
    }
}

/* Numbers alone compute as elements do. */
static void numbers_have_complex_functions(void **state) {
    (void)state;
    static const char *const same[] = {"exp(1 + 2i)",  "log(-1 + 0.5i)",  "sqrt(-4 + 1i)",
                                       "sin(1 + 1i)",  "atanh(0.5 - 2i)", "(1 + 2i)**(0.5 + 1i)",
                                       "conj(1 + 2i)", "complex(1, 2)",   "complex(inf, nan)"};
    for (size_t i = 0; i < TIDEI_COUNT(same); i++) {
        char text[128];
        const char *open = strchr(same[i], '(');
        tide_arg alone, element;
        snprintf(text, sizeof text, "() -> %s", same[i]);
        assert_ok(tide_item(tide_map(rt, text), &alone));
        if (!strncmp(same[i], "complex", 7)) continue;
        snprintf(text, sizeof text, "(z) -> %.*s(z + %s", (int)(open - same[i]), same[i], open + 1);
        assert_ok(tide_item(tide_map(rt, text, tide_zeros(rt, TIDE_C128, 0, NULL)), &element));
        for (int k = 0; k < 2; k++)
            assert_true(fabs(alone.value.c[k] - element.value.c[k]) <= 1e-14);
    }
    tide_arg v;
    assert_ok(tide_item(tide_map(rt, "() -> complex(inf, -0.0)"), &v));
    assert_true(isinf(v.value.c[0]) && v.value.c[1] == 0 && signbit(v.value.c[1]));
    assert_true(tide_item_f64(tide_map(rt, "() -> exponent(8.0) + popcount(255)")) == 12);
    assert_true(tide_item_f64(tide_map(rt, "() -> real(3 + 4i) + imag(3 + 4i)")) == 7);
    assert_true(tide_item_f64(tide_map(rt, "() -> angle(-1)")) == M_PI);
}

/* ---- special functions ---- */

/* Operands where each is hard: from `lo` to `hi`, or (`ends`) ever closer to them. */
static const struct range {
    int op;
    double lo, hi;
    bool ends;
} ranges[] = {{TIDEI_OP_ERF, -6, 6, true},
              {TIDEI_OP_ERFC, -6, 27, false},
              {TIDEI_OP_ERFC, -1e-3, 9, true},
              {TIDEI_OP_ERFINV, -1, 1, true},
              {TIDEI_OP_ERFINV, -1, 1, false},
              {TIDEI_OP_ERFINV, 0, 0.5, true},
              {TIDEI_OP_NORM_CDF, -39, 9, false},
              {TIDEI_OP_NORM_CDF, -14, 1, false},
              {TIDEI_OP_NORM_CDF, 0, 1, true},
              {TIDEI_OP_NORM_PPF, 0, 1, true},
              {TIDEI_OP_NORM_PPF, 0, 1, false},
              {TIDEI_OP_NORM_PPF, 0.5, 0.6, true},
              {TIDEI_OP_LGAMMA, 0, 4, true},
              {TIDEI_OP_LGAMMA, 3, 100000, false},
              {TIDEI_OP_LGAMMA, -40, 0, false},
              {TIDEI_OP_DIGAMMA, 0, 4, true},
              {TIDEI_OP_DIGAMMA, 0, 40, false},
              {TIDEI_OP_DIGAMMA, 1000, 1e15, true},
              {TIDEI_OP_DIGAMMA, -20, 0, false},
              {TIDEI_OP_SINC, -8, 8, false},
              {TIDEI_OP_SINC, 0, 1, true},
              {TIDEI_OP_SINC, 1e5, 1e6, false},
              {TIDEI_OP_LOGADDEXP, -100, 100, false},
              {TIDEI_OP_LOGADDEXP, -2, 2, false}};

enum { SAMPLES = 4000 };
static double sample(const struct range *g, int i) {
    const double w = g->hi - g->lo, u = unit();
    if (!g->ends) return g->lo + w * u;
    return i % 2 ? g->lo + w * exp2(-100 * u) : g->hi - w * exp2(-60 * u);
}
static void one_range(const struct range *g, tide_dtype t) {
    static double a[SAMPLES], b[SAMPLES], r[SAMPLES];
    const int64_t n = SAMPLES;
    const tidei_op_info *info = &tidei_op_infos[g->op];
    const int digits = t == TIDE_F16    ? 11
                       : t == TIDE_BF16 ? 8
                       : t == TIDE_F32  ? 24
                                        : 53,
              least = t == TIDE_F16   ? -14
                      : t == TIDE_F64 ? -1022
                                      : -126;
    const double most = t == TIDE_F16    ? 65504
                        : t == TIDE_BF16 ? 0x1.fep127
                        : t == TIDE_F32  ? FLT_MAX
                                         : DBL_MAX;
    char text[64];
    for (int i = 0; i < SAMPLES; i++) a[i] = sample(g, i), b[i] = sample(g, i);
    tide_array *x = tide_cast(tide_from_host(rt, TIDE_F64, 1, &n, a), t),
               *y = tide_cast(tide_from_host(rt, TIDE_F64, 1, &n, b), t);
    snprintf(text, sizeof text, info->arity == 2 ? "(a, b) -> %s(a, b)" : "(a) -> %s(a)",
             info->name);
    tide_array *z = info->arity == 2 ? tide_map(rt, text, x, y) : tide_map(rt, text, x);
    assert_array(z);
    assert_ok(tide_to_host(tide_cast(x, TIDE_F64), a, sizeof a));
    assert_ok(tide_to_host(tide_cast(y, TIDE_F64), b, sizeof b));
    assert_ok(tide_to_host(tide_cast(z, TIDE_F64), r, sizeof r));
    for (int i = 0; i < SAMPLES; i++) {
        long double want = 0, scale;
        assert_true(precise(g->op, a[i], b[i], &want));
        if (isnan(want) || isinf(want) || fabsl(want) > most) {
            assert_true(isnan(want) ? isnan(r[i]) : fabs(r[i]) >= most && (r[i] > 0) == (want > 0));
            continue;
        }
        scale = fmaxl(fabsl(want), precise_scale(g->op, a[i], b[i]));
        const int e = scale == 0 || ilogbl(scale) < least ? least : ilogbl(scale);
        const double off = (double)(fabsl(r[i] - want) / ldexpl(1, e - (digits - 1)));
        if (!(off <= info->ulps))
            fail_msg("%s of %.17g, %.17g (%s): %.17g, %.21Lg wanted, %g ulps off", text, a[i], b[i],
                     tide_dtype_name(t), r[i], want, off);
    }
}
static void special_functions_are_close(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(ranges); i++)
        for (int t = TIDE_F16; t <= TIDE_F64; t++) one_range(&ranges[i], (tide_dtype)t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(each_part_is_close),
        CASE(special_values_are_those_of_annex_g),
        CASE(powers_are_close),
        CASE(special_functions_are_close),
        CASE(numbers_have_complex_functions),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
