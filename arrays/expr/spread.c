/* spread.c: tide_var and tide_std: each is an expression of two folds, whose axes are written into
** its text. Two passes: the first finds the mean, the second adds the squares of what is left
** without it; so a large mean takes no digits from the result. */
#include "arrays/expr/front.h"
#include "runtime/base/text.h"

typedef struct spread {
    tide_dtype dtype;
    double count;     /* of what is folded into one */
    char axes[64];    /* ", axis=(0, 1)", or nothing */
    const char *name; /* the public function */
} spread;

/* Finds which axes are meant, each once, and how many elements they have. */
static tide_status find_axes(const tidei_layout *l, const int *axes, int n, spread *s) {
    bool seen[TIDE_MAX_RANK] = {false};
    size_t at = axes ? (size_t)tidei_format(s->axes, sizeof s->axes, ", axis=(") : 0;
    int d;
    if (axes && n < 0) return tidei_fail(TIDE_E_INVALID, s->name, "%d axes are given", n);
    for (int i = 0; axes && i < n; i++) {
        tide_status status = tidei_axis(axes[i], l->ndim, s->name, &d);
        if (status != TIDE_OK) return status;
        if (seen[d]) return tidei_fail(TIDE_E_SHAPE, s->name, "axis %d stands twice", d);
        seen[d] = true;
        at += (size_t)tidei_format(s->axes + at, sizeof s->axes - at, i ? ", %d" : "%d", d);
    }
    if (axes) tidei_format(s->axes + at, sizeof s->axes - at, ")");
    s->count = 1;
    for (d = 0; d < l->ndim; d++)
        if (!axes || seen[d]) s->count *= (double)l->shape[d];
    return TIDE_OK;
}

static tide_status look_at(tide_array *a, const int *axes, int n, spread *s) {
    tidei_operand o;
    tide_status status = tidei_operand_get(a, s->name, 1, &o);
    if (status != TIDE_OK) return status;
    s->dtype = o.lay.dtype;
    status = find_axes(&o.lay, axes, n, s);
    tidei_operand_put(&o);
    return status;
}

static void write_text(const spread *s, bool root, int keepdims, char *text, size_t cap) {
    const bool half = s->dtype == TIDE_F16 || s->dtype == TIDE_BF16;
    const bool complex = tidei_rank(s->dtype) == 3;
    const char *in = half ? "f32(x)" : tidei_rank(s->dtype) < 2 ? "f64(x)" : "x";
    /* The square of the mean's error adds to the variance: of f32 and c64 it is found in twice the
    ** digits, and rounded once. */
    const char *wide = s->dtype == TIDE_F32   ? "f32(mean(f64(x)%s, keepdims=true))"
                       : s->dtype == TIDE_C64 ? "c64(mean(c128(x)%s, keepdims=true))"
                                              : "mean(y%s, keepdims=true)";
    char mean[128];
    tidei_format(mean, sizeof mean, wide, s->axes);
    tidei_format(text, cap,
                 "(x, n) -> let y = %s; let e = y - %s; "
                 "%s(%s(sum(%s%s, keepdims=%s) / n))",
                 in, mean, half ? tide_dtype_name(s->dtype) : "", root ? "sqrt" : "",
                 complex ? "square(real(e)) + square(imag(e))" : "square(e)", s->axes,
                 keepdims ? "true" : "false");
}

static tide_array *apply_spread(const char *name, bool root, tide_array *a, const int *axes, int n,
                                double correction, int keepdims) {
    TIDEI_OPERATION(name);
    spread s = {.name = name};
    char text[320];
    tide_array *out = NULL;
    tidei_runtime *rt;
    if (tidei_operand_runtime(a, name, 1, &rt) != TIDE_OK) return NULL;
    if (look_at(a, axes, n, &s) != TIDE_OK) return NULL;
    const double by = s.count - correction;
    const tide_arg args[] = {tide_arg_array(a), tide_arg_float(by > 0 ? by : 0)};
    write_text(&s, root, keepdims, text, sizeof text);
    (void)tidei_expr_map(rt, text, name, args, 2, &out, NULL); /* NULL then */
    return out;
}

tide_array *tide_var(tide_array *a, const int *axes, int n, double correction, int keepdims) {
    return apply_spread("tide_var", false, a, axes, n, correction, keepdims);
}
tide_array *tide_std(tide_array *a, const int *axes, int n, double correction, int keepdims) {
    return apply_spread("tide_std", true, a, axes, n, correction, keepdims);
}
