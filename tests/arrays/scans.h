/* scans.h: what tests of running folds share: a slow model of them, arrays whose partial sums and
** products are exact, views of these. */
#ifndef TIDETEST_SCANS_H
#define TIDETEST_SCANS_H

#include <math.h>
#include "tests/support/views.h"

typedef tide_array *scan_fn(tide_array *a, int axis, unsigned flags);
static const struct {
    scan_fn *fn;
    bool ordered;
} scans[] = {{tide_cumsum, false}, {tide_cumprod, false}, {tide_cummin, true}, {tide_cummax, true}};
enum { SUM, PROD, MIN, MAX, SCANS };

static inline bool is_complex(tide_dtype t) { return t == TIDE_C64 || t == TIDE_C128; }

/* ---- the model: numbers that every type adds and multiplies exactly ---- */

static inline double none_of(int scan, tide_dtype t) {
    static const double most[] = {
        [TIDE_BOOL] = 1,     [TIDE_I8] = 0x1p7,         [TIDE_I16] = 0x1p15,
        [TIDE_I32] = 0x1p31, [TIDE_I64] = 0x1p63,       [TIDE_U8] = 255,
        [TIDE_U16] = 65535,  [TIDE_U32] = 4294967295.0, [TIDE_U64] = 0x1p64};
    bool is_signed = tidei_dtype_kind(t) == TIDEI_KIND_INT;
    if (scan <= PROD) return scan == PROD;
    if (tidei_dtype_kind(t) == TIDEI_KIND_FLOAT) return scan == MIN ? INFINITY : -INFINITY;
    if (scan == MIN) return most[t] - is_signed;
    return is_signed ? -most[t] : 0;
}

static inline void join(int scan, double *re, double *im, double r, double i) {
    double was = *re;
    switch (scan) {
    case SUM:
        *re += r;
        *im += i;
        break;
    case PROD:
        *re = was * r - *im * i;
        *im = was * i + *im * r;
        break;
    case MIN: *re = fmin(was, r); break;
    default: *re = fmax(was, r);
    }
}

static inline tide_dtype wide_of(tide_dtype t) {
    tidei_kind k = tidei_dtype_kind(t);
    return k == TIDEI_KIND_UINT ? TIDE_U64 : k <= TIDEI_KIND_INT ? TIDE_I64 : t;
}

/* Whether `made` is the scan of a, to the bit; a's axis counts from 0. */
static inline void check_scan(tide_array *a, tide_array *made, int scan, int axis, unsigned flags) {
    assert_array(made);
    numbers in = read_back(a), out = read_back(made);
    bool reverse = flags & TIDE_SCAN_REVERSE, initial = (flags & TIDE_SCAN_INITIAL) != 0;
    int64_t n = in.shape[axis], inner = 1, places = n + initial;
    tide_dtype t = tide_array_dtype(a), wide = wide_of(t);
    assert_int_equal(tide_array_dtype(made), scan <= PROD ? wide : t);
    assert_true(tide_array_is_contiguous(made));
    for (int d = axis + 1; d < in.ndim; d++) inner *= in.shape[d];
    for (int d = 0; d < in.ndim; d++)
        assert_int_equal(out.shape[d], d == axis ? places : in.shape[d]);
    for (int64_t line = 0; line < (places ? out.n / places : 0); line++) {
        int64_t from = line / inner * n * inner + line % inner,
                to = line / inner * places * inner + line % inner;
        double re = none_of(scan, t), im = 0;
        if (initial) assert_true(out.re[to + (reverse ? n : 0) * inner] == re);
        for (int64_t k = 0; k < n; k++) {
            int64_t i = reverse ? n - 1 - k : k, o = to + (i + (initial && !reverse)) * inner;
            join(scan, &re, &im, in.re[from + i * inner], in.im[from + i * inner]);
            if (out.re[o] != re || out.im[o] != im)
                fail_msg("%s, scan %d, flags %u, axis %d of %d, %lld: %g+%gi, wanted %g+%gi",
                         tide_dtype_name(t), scan, flags, axis, in.ndim, (long long)i, out.re[o],
                         out.im[o], re, im);
        }
    }
    drop(&in);
    drop(&out);
}

/* Elements of which no partial sum or product is rounded: -1, 0, 1 for sums (of bf16, which has 8
** digits, seldom but 0), -1, 1 for products, anything small where only the order counts. */
static inline tide_array *exact(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                                int scan) {
    size_t size = tide_dtype_size(t), n = 1;
    bool below = tidei_dtype_kind(t) != TIDEI_KIND_UINT && t != TIDE_BOOL;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    unsigned char *raw = malloc(n * size + 1);
    for (size_t i = 0; i < n; i++) {
        int64_t v = scan == SUM    ? ((int64_t)draw(3) - 1) * (t != TIDE_BF16 || !draw(16))
                    : scan == PROD ? (int64_t)draw(2) * 2 - 1
                                   : (int64_t)draw(100) - 50;
        if (!below && v < 0) v = -v;
        if (t == TIDE_BOOL) v = v > 0;
        tide_arg x = tide_arg_int(v);
        if (is_complex(t))
            x = draw(2) ? tide_arg_complex((double)v, 0) : tide_arg_complex(0, (double)v);
        assert_ok(tidei_encode(x, t, "test", raw + i * size));
    }
    tide_array *a = tide_from_host(rt, t, ndim, shape, raw);
    assert_array(a);
    free(raw);
    return a;
}

/* The array itself, or a view of it. */
static inline tide_array *view(tide_array *a, unsigned how) {
    static const char *const slices[] = {"...", "::-1, ...", "..., ::2", "..., ::-1", "..., 1:"};
    tide_array *v;
    switch (how) {
    case 5: v = tide_transpose(a, NULL); break;
    case 6: v = tide_expand_dims(a, 0); break;
    default: v = tide_slice(a, slices[how]);
    }
    assert_array(v);
    tide_release(a);
    return v;
}
enum { VIEWS = 7 };

static const tide_dtype types[] = {TIDE_BOOL, TIDE_I8,  TIDE_I16, TIDE_I32, TIDE_I64,
                                   TIDE_U8,   TIDE_U16, TIDE_U32, TIDE_U64, TIDE_F16,
                                   TIDE_BF16, TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};

#endif
