/* Random expressions against a slow evaluator: element by element, in plain C, one reference an
** operation.
**
** Trees mix operations whose results are the same bits everywhere (ulps 0 in ops.def) with folds,
** scans and broadcasting, and are compared bit for bit. The others are applied to random and
** special operands one at a time, and compared within their ulps. Typing is the library's own
** (test_expr_type.c proves it): the reference asks for each node's element type. */
#include "tests/support/tidetest.h"
#include "tests/arrays/expr/precise.h"

static uint64_t seed;
static uint64_t next_random(void) { /* splitmix64 */
    uint64_t z = seed += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static int below(int n) { return (int)(next_random() % (uint64_t)n); }

/* ---- slow arrays ---- */

#define SIZE_MAX_ 256
/* A value of any real type: floats as double (exact for all), signed and bool as i, u64 and the
** unsigned as u. */
typedef union item {
    int64_t i;
    uint64_t u;
    double f;
} item;
typedef struct slow {
    int dtype, ndim, n;
    int64_t shape[TIDE_MAX_RANK];
    item v[SIZE_MAX_];
} slow;

static bool is_float(int t) { return t >= TIDE_F16 && t <= TIDE_F64; }
static bool is_unsigned(int t) { return t >= TIDE_U8 && t <= TIDE_U64; }
static int bits_of(int t) { return 8 * (int)tide_dtype_size(t); }

/* To the nearest value of type t; integers wrap. */
static item fit(int t, item x) {
    switch (t) {
    case TIDE_BOOL: x.i = x.i != 0; break;
    case TIDE_I8: x.i = (int8_t)x.i; break;
    case TIDE_I16: x.i = (int16_t)x.i; break;
    case TIDE_I32: x.i = (int32_t)x.i; break;
    case TIDE_U8: x.u = (uint8_t)x.u; break;
    case TIDE_U16: x.u = (uint16_t)x.u; break;
    case TIDE_U32: x.u = (uint32_t)x.u; break;
    case TIDE_F16: x.f = tidei_f16_to_f32(tidei_f64_to_f16(x.f)); break;
    case TIDE_BF16: x.f = tidei_bf16_to_f32(tidei_f64_to_bf16(x.f)); break;
    case TIDE_F32: x.f = (float)x.f; break;
    default: break;
    }
    return x;
}

static int64_t saturate(double f, int t) {
    double lo = is_unsigned(t) ? 0 : -ldexp(1, bits_of(t) - 1),
           hi = ldexp(1, bits_of(t) - !is_unsigned(t));
    if (isnan(f)) return 0;
    if (f <= lo)
        return is_unsigned(t)     ? 0
               : bits_of(t) == 64 ? INT64_MIN
                                  : -((int64_t)1 << (bits_of(t) - 1));
    if (f >= hi)
        return is_unsigned(t) ? (int64_t)(UINT64_MAX >> (64 - bits_of(t)))
                              : (int64_t)((uint64_t)INT64_MAX >> (64 - bits_of(t)));
    return is_unsigned(t) ? (int64_t)(uint64_t)f : (int64_t)f;
}

static item convert(item x, int from, int to) {
    unsigned char one[16];
    tide_arg v;
    if (from == to) return x;
    if (to == TIDE_BOOL) return (item){.i = is_float(from) ? x.f != 0 : x.i != 0};
    if (!is_float(to)) {
        if (is_float(from)) x.i = saturate(x.f, to);
        return fit(to, x);
    }
    if (is_float(from)) return fit(to, x);
    v = is_unsigned(from) ? tide_arg_uint(x.u) : tide_arg_int(x.i); /* rounds once */
    if (to == TIDE_F64) return (item){.f = is_unsigned(from) ? (double)x.u : (double)x.i};
    if (to == TIDE_F32) return (item){.f = is_unsigned(from) ? (float)x.u : (float)x.i};
    if (tidei_encode(v, to, "test", one) != TIDE_OK)
        return (item){.f = x.i < 0 && !is_unsigned(from) ? -INFINITY : INFINITY};
    return (item){.f = tidei_decode(one, to).value.f};
}

/* ---- one operation on operands of one type: the reference ---- */

static double floor_rem(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* The exact operations in the type's own precision: f16, bf16 and f32 in float, f64 in double. */
#define FLOAT_OPS(R, NAME, SUFFIX)                                                                 \
    static double NAME(int op, R a, R b, R c) {                                                    \
        int whole;                                                                                 \
        switch (op) {                                                                              \
        case TIDEI_OP_ADD: return a + b;                                                           \
        case TIDEI_OP_SUB: return a - b;                                                           \
        case TIDEI_OP_MUL: return a * b;                                                           \
        case TIDEI_OP_DIV: return a / b;                                                           \
        case TIDEI_OP_FLOORDIV: return floor##SUFFIX(a / b);                                       \
        case TIDEI_OP_TRUNCDIV: return trunc##SUFFIX(a / b);                                       \
        case TIDEI_OP_REM: return (R)floor_rem(a, b);                                              \
        case TIDEI_OP_FMOD: return fmod##SUFFIX(a, b);                                             \
        case TIDEI_OP_MAXIMUM: return isnan(a) || isnan(b) ? NAN : fmax(a, b);                     \
        case TIDEI_OP_MINIMUM: return isnan(a) || isnan(b) ? NAN : fmin(a, b);                     \
        case TIDEI_OP_COPYSIGN: return copysign(a, b);                                             \
        case TIDEI_OP_NEG: return -a;                                                              \
        case TIDEI_OP_ABS: return fabs(a);                                                         \
        case TIDEI_OP_REAL:                                                                        \
        case TIDEI_OP_CONJ: return a;                                                              \
        case TIDEI_OP_IMAG: return 0;                                                              \
        case TIDEI_OP_LDEXP: return ldexp##SUFFIX(a, (int)saturate(b, TIDE_I32));                  \
        case TIDEI_OP_MANTISSA: return isfinite(a) ? frexp##SUFFIX(a, &whole) : a;                 \
        case TIDEI_OP_SIGN: return isnan(a) ? a : (a > 0) - (a < 0);                               \
        case TIDEI_OP_SQUARE: return a * a;                                                        \
        case TIDEI_OP_RECIPROCAL: return 1 / a;                                                    \
        case TIDEI_OP_FLOOR: return floor(a);                                                      \
        case TIDEI_OP_CEIL: return ceil(a);                                                        \
        case TIDEI_OP_TRUNC: return trunc(a);                                                      \
        case TIDEI_OP_ROUND: return nearbyint(a);                                                  \
        case TIDEI_OP_SQRT: return sqrt##SUFFIX(a);                                                \
        case TIDEI_OP_CLIP: return isnan(a) || isnan(b) || isnan(c) ? NAN : fmin(fmax(a, b), c);   \
        default: fail_msg("no reference for %s", tidei_op_infos[op].name); return 0;               \
        }                                                                                          \
    }
FLOAT_OPS(float, float_op, f)
FLOAT_OPS(double, double_op, )

static bool compare_items(int op, int t, item a, item b) {
    int order = is_float(t)      ? (a.f > b.f) - (a.f < b.f)
                : is_unsigned(t) ? (a.u > b.u) - (a.u < b.u)
                                 : (a.i > b.i) - (a.i < b.i);
    bool unordered = is_float(t) && (isnan(a.f) || isnan(b.f));
    switch (op) {
    case TIDEI_OP_EQ: return !unordered && order == 0;
    case TIDEI_OP_NE: return unordered || order != 0;
    case TIDEI_OP_LT: return !unordered && order < 0;
    case TIDEI_OP_LE: return !unordered && order <= 0;
    case TIDEI_OP_GT: return !unordered && order > 0;
    default: return !unordered && order >= 0;
    }
}

/* Integers in 128 bits, where nothing overflows but powers. */
static __int128 wide(int t, item x) { return is_unsigned(t) ? (__int128)x.u : (__int128)x.i; }

static __int128 integer_power(__int128 a, __int128 n) {
    uint64_t p = 1, x = (uint64_t)a;
    if (n < 0) return 0;
    for (uint64_t k = (uint64_t)n; k; k >>= 1, x *= x)
        if (k & 1) p *= x;
    return (__int128)p;
}

static __int128 floor_divide(__int128 a, __int128 b) {
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static __int128 integer_op(int op, int t, __int128 a, __int128 b, __int128 c) {
    switch (op) {
    case TIDEI_OP_ADD: return a + b;
    case TIDEI_OP_SUB: return a - b;
    case TIDEI_OP_MUL: return (__int128)((uint64_t)a * (uint64_t)b);
    case TIDEI_OP_SQUARE: return (__int128)((uint64_t)a * (uint64_t)a);
    case TIDEI_OP_FLOORDIV: return b ? floor_divide(a, b) : 0;
    case TIDEI_OP_REM: return b ? a - b * floor_divide(a, b) : 0;
    case TIDEI_OP_TRUNCDIV: return b ? a / b : 0;
    case TIDEI_OP_FMOD: return b ? a % b : 0;
    case TIDEI_OP_POW: return integer_power(a, b);
    case TIDEI_OP_MAXIMUM: return a > b ? a : b;
    case TIDEI_OP_MINIMUM: return a < b ? a : b;
    case TIDEI_OP_NEG: return -a;
    case TIDEI_OP_ABS: return a < 0 ? -a : a;
    case TIDEI_OP_SIGN: return (a > 0) - (a < 0);
    case TIDEI_OP_LOGICAL_AND: return a && b;
    case TIDEI_OP_LOGICAL_OR: return a || b;
    case TIDEI_OP_LOGICAL_XOR: return !a != !b;
    case TIDEI_OP_LOGICAL_NOT: return !a;
    case TIDEI_OP_BIT_AND: return a & b;
    case TIDEI_OP_BIT_OR: return a | b;
    case TIDEI_OP_BIT_XOR: return a ^ b;
    case TIDEI_OP_BIT_NOT: return t == TIDE_BOOL ? !a : ~a;
    case TIDEI_OP_SHL: return b < 0 || b >= bits_of(t) ? 0 : (__int128)((uint64_t)a << b);
    case TIDEI_OP_SHR: return b < 0 ? 0 : b >= bits_of(t) ? (a < 0 ? -1 : 0) : a >> b;
    case TIDEI_OP_CLIP: a = a > b ? a : b; return a < c ? a : c;
    case TIDEI_OP_REAL:
    case TIDEI_OP_CONJ: return a;
    case TIDEI_OP_IMAG: return 0;
    case TIDEI_OP_GCD:
        for (b = b < 0 ? -b : b, a = a < 0 ? -a : a; b; c = a % b, a = b, b = c) {}
        return a;
    case TIDEI_OP_POPCOUNT: return __builtin_popcountll((uint64_t)a << (64 - bits_of(t)));
    default: fail_msg("no reference for %s", tidei_op_infos[op].name); return 0;
    }
}

static void store(item x, int t, unsigned char *at) {
    float f = (float)x.f;
    uint16_t h = t == TIDE_F16 ? tidei_f64_to_f16(x.f) : tidei_f64_to_bf16(x.f);
    if (t == TIDE_F32)
        memcpy(at, &f, 4);
    else if (t == TIDE_F16 || t == TIDE_BF16)
        memcpy(at, &h, 2);
    else
        memcpy(at, &x, tide_dtype_size(t)); /* little end first */
}

static item load(int t, const unsigned char *at) {
    tide_arg v = tidei_decode(at, t);
    return v.kind == TIDE_ARG_FLOAT  ? (item){.f = v.value.f}
           : v.kind == TIDE_ARG_UINT ? (item){.u = v.value.u}
                                     : (item){.i = v.value.i};
}

/* By bits: those of a float's size go up by one as it does. */
static item next_to(int t, double a, double b) {
    unsigned char bytes[8] = {0};
    uint64_t bits = 0;
    if (isnan(a) || isnan(b)) return (item){.f = NAN};
    if (a == b) return (item){.f = b};
    if (a == 0) {
        bits = 1;
    } else {
        store((item){.f = fabs(a)}, t, bytes);
        memcpy(&bits, bytes, 8);
        bits += (b > a) == (a > 0) ? 1u : (uint64_t)-1;
    }
    memcpy(bytes, &bits, 8);
    return (item){.f = copysign(load(t, bytes).f, a == 0 ? b : a)};
}

static item reference(int op, int t, item a, item b, item c) {
    item r;
    switch (op) {
    case TIDEI_OP_EQ:
    case TIDEI_OP_NE:
    case TIDEI_OP_LT:
    case TIDEI_OP_LE:
    case TIDEI_OP_GT:
    case TIDEI_OP_GE: return (item){.i = compare_items(op, t, a, b)};
    case TIDEI_OP_ISNAN: return (item){.i = isnan(a.f) != 0};
    case TIDEI_OP_ISINF: return (item){.i = isinf(a.f) != 0};
    case TIDEI_OP_ISFINITE: return (item){.i = isfinite(a.f) != 0};
    case TIDEI_OP_SIGNBIT: return (item){.i = signbit(a.f) != 0};
    case TIDEI_OP_WHERE: return a.i ? b : c;
    case TIDEI_OP_EXPONENT: return (item){.i = isfinite(a.f) && a.f != 0 ? ilogb(a.f) + 1 : 0};
    case TIDEI_OP_NEXTAFTER: return next_to(t, a.f, b.f);
    default: break;
    }
    if (t == TIDE_F64)
        r.f = double_op(op, a.f, b.f, c.f);
    else if (is_float(t))
        r.f = float_op(op, (float)a.f, (float)b.f, (float)c.f);
    else
        r.u = (uint64_t)integer_op(op, t, wide(t, a), wide(t, b), wide(t, c));
    return fit(t, r);
}

/* ---- slow evaluation of whole arrays ---- */

static int offset_in(const slow *a, int ndim, const int64_t *index) { /* of a broadcast operand */
    int o = 0;
    for (int d = 0; d < a->ndim; d++)
        o = o * (int)a->shape[d] + (a->shape[d] == 1 ? 0 : (int)index[ndim - a->ndim + d]);
    return o;
}

static void unravel(int n, int ndim, const int64_t *shape, int64_t *index) {
    for (int d = ndim; d-- > 0; n /= (int)shape[d]) index[d] = n % shape[d];
}

/* False where the shapes do not go together, or the result is too large for the slow arrays. */
static bool join_shapes(slow *out, const slow *const *in, int n) {
    out->ndim = 0;
    for (int i = 0; i < n; i++)
        if (in[i]->ndim > out->ndim) out->ndim = in[i]->ndim;
    out->n = 1;
    for (int d = 0; d < out->ndim; d++) {
        int64_t length = 1;
        for (int i = 0; i < n; i++) {
            int k = d - (out->ndim - in[i]->ndim);
            if (k < 0 || in[i]->shape[k] == 1) continue;
            if (length != 1 && length != in[i]->shape[k]) return false;
            length = in[i]->shape[k];
        }
        out->shape[d] = length;
        if (out->n * length > SIZE_MAX_) return false;
        out->n *= (int)length;
    }
    return true;
}

static bool apply_slow(int op, int t, const slow *const *in, slow *out) {
    int arity = tidei_op_infos[op].arity;
    if (!join_shapes(out, in, arity)) return false;
    out->dtype = tidei_op_result(op, t);
    for (int i = 0; i < out->n; i++) {
        int64_t index[TIDE_MAX_RANK];
        item v[3] = {{0}};
        unravel(i, out->ndim, out->shape, index);
        for (int k = 0; k < arity; k++)
            v[k] = convert(in[k]->v[offset_in(in[k], out->ndim, index)], in[k]->dtype,
                           op == TIDEI_OP_WHERE && k == 0 ? TIDE_BOOL : t);
        out->v[i] = reference(op, t, v[0], v[1], v[2]);
    }
    return true;
}

/* ---- random operands ---- */

static item random_item(int t) {
    static const double special[] = {0,   -0.0,  1,    -1, 0.5, INFINITY, -INFINITY,
                                     NAN, 65504, 1e-8, 3,  -7,  100};
    item x;
    if (is_float(t)) {
        x.f = below(4) ? (below(2001) - 1000) / 8.0 : special[below((int)TIDEI_COUNT(special))];
        return fit(t, x);
    }
    x.u = next_random();
    if (below(2)) x.i = below(13) - 4; /* small ones meet each other */
    if (below(16) == 0) x.u = (uint64_t)1 << (bits_of(t) - 1);
    return fit(t, x);
}

static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 4}, {1, 3, 4}, {2, 1, 4},
                                    {2, 3, 1}, {1, 1, 4}, {1, 3, 1}};
static void random_slow(slow *a, int t) {
    const int64_t *s = shapes[below((int)TIDEI_COUNT(shapes))];
    int skip = 0;
    a->dtype = t;
    a->n = 1;
    while (skip < 3 && s[skip] == 1 && below(2)) skip++; /* lower ranks, down to 0-d */
    a->ndim = 3 - skip;
    for (int d = 0; d < a->ndim; d++) a->n *= (int)(a->shape[d] = s[skip + d]);
    for (int i = 0; i < a->n; i++) a->v[i] = random_item(t);
}

/* The same array on the device, as it is, or as a view with other strides. */
static tide_array *on_device(tide_runtime *rt, const slow *a) {
    unsigned char data[SIZE_MAX_ * 8];
    size_t size = tide_dtype_size(a->dtype);
    for (int i = 0; i < a->n; i++) store(a->v[i], a->dtype, data + (size_t)i * size);
    tide_array *x = tide_from_host(rt, a->dtype, a->ndim, a->shape, data);
    assert_array(x);
    if (a->ndim && below(3) == 0) {
        x = tide_slice(tide_copy(tide_slice(x, "::-1")), "::-1");
    } else if (a->ndim > 1 && below(3) == 0)
        x = tide_transpose(tide_copy(tide_transpose(x, NULL)), NULL);
    assert_array(x);
    return x;
}

/* ---- trees ---- */

#define NODES    24
#define OPERANDS 4
#define TEXT     1200
typedef struct tree {
    slow operands[OPERANDS];
    slow values[NODES];
    char text[NODES][TEXT];
    int n;
} tree;

/* What the library says the type of `text` is for the tree's operands; -1 if it refuses. */
static int type_of(const tree *t, const char *text) {
    char source[1400];
    uint8_t sig[OPERANDS];
    tidei_ast a;
    tidei_graph g;
    int type = -1;
    for (int i = 0; i < OPERANDS; i++) sig[i] = (uint8_t)t->operands[i].dtype;
    snprintf(source, sizeof source, "(a, b, c, d) -> %s", text);
    if (tidei_ast_parse(NULL, source, "test", &a) != TIDE_OK)
        fail_msg("%s: %s", source, tide_error_last()->message);
    if (tidei_graph_build(NULL, &a, sig, NULL, NULL, &g) == TIDE_OK) {
        type = g.nodes[g.results[0]].dtype;
        tidei_graph_free(NULL, &g);
    }
    tidei_ast_free(NULL, &a);
    return type;
}

/* The common type that an exact operation computes in, or -1 where it does not take these. */
static int operand_type(int op, const slow *const *in) {
    const tidei_op_info *info = &tidei_op_infos[op];
    tide_dtype t = in[info->rule == TIDEI_RULE_SELECT]->dtype;
    if (info->rule == TIDEI_RULE_LOGIC) return TIDE_BOOL;
    for (int i = info->rule == TIDEI_RULE_SELECT; i < info->arity; i++)
        if (tidei_promote(t, in[i]->dtype, "test", &t) != TIDE_OK) return -1;
    if (!is_float(t) && (info->rule == TIDEI_RULE_FLOAT || info->rule == TIDEI_RULE_FLOAT_REAL ||
                         info->rule == TIDEI_RULE_TEST || info->rule == TIDEI_RULE_TEST_REAL ||
                         info->rule == TIDEI_RULE_EXPONENT))
        t = TIDE_F64;
    return t;
}

/* Of 0.0 and -0.0 extremes may give either, and arithmetic gives a NaN either sign; what is
** computed from that may differ by more than a sign. */
static bool has_zero(const slow *a) {
    for (int i = 0; i < a->n; i++)
        if (is_float(a->dtype) && a->v[i].f == 0) return true;
    return false;
}
static bool has_nan(const slow *a) {
    for (int i = 0; i < a->n; i++)
        if (is_float(a->dtype) && isnan(a->v[i].f)) return true;
    return false;
}

static bool add_op(tree *t) {
    int op = TIDEI_OP_CAST + 1 + below(TIDEI_OP_COUNT - TIDEI_OP_CAST - 1);
    const slow *in[3];
    int k[3];
    char text[TEXT];
    int n = snprintf(text, sizeof text, "%s(", tidei_op_infos[op].name);
    bool signs = op == TIDEI_OP_COPYSIGN || op == TIDEI_OP_SIGNBIT;
    bool extreme = op == TIDEI_OP_MAXIMUM || op == TIDEI_OP_MINIMUM || op == TIDEI_OP_CLIP;
    /* of integers too: they are tested alone; complex numbers have no place here */
    if (tidei_op_infos[op].ulps || op == TIDEI_OP_COMPLEX) return false;
    for (int i = 0; i < tidei_op_infos[op].arity; i++) {
        k[i] = below(t->n);
        in[i] = &t->values[k[i]];
        if (strlen(t->text[k[i]]) > TEXT / 5 || (extreme && has_zero(in[i])) ||
            (signs && has_nan(in[i])))
            return false;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i ? ", " : "", t->text[k[i]]);
    }
    snprintf(text + n, sizeof text - (size_t)n, ")");
    int type = operand_type(op, in);
    slow *out = &t->values[t->n];
    if (tidei_op_infos[op].rule == TIDEI_RULE_KEEP_INT && type >= 0 && !is_float(type)) {
        *out = *in[0];
    } else if (type < 0 || !(tidei_op_infos[op].classes & tidei_class(type))) {
        assert_int_equal(type_of(t, text), -1); /* the library refuses it too */
        return false;
    } else if (!apply_slow(op, type, in, out))
        return false;
    assert_int_equal(type_of(t, text), out->dtype);
    strcpy(t->text[t->n++], text);
    return true;
}

static bool add_cast(tree *t) {
    int k = below(t->n), to = below(TIDE_C64);
    slow *out = &t->values[t->n];
    char text[TEXT];
    if (snprintf(text, sizeof text, "%s(%s)", tide_dtype_name(to), t->text[k]) > TEXT / 2)
        return false;
    *out = t->values[k];
    out->dtype = to;
    for (int i = 0; i < out->n; i++) out->v[i] = convert(t->values[k].v[i], t->values[k].dtype, to);
    strcpy(t->text[t->n++], text);
    return true;
}

static bool wins(int fold, int t, item x, item best) {
    bool least = fold == TIDEI_FOLD_MIN || fold == TIDEI_FOLD_ARGMIN;
    if (is_float(t) && isnan(best.f)) return false;
    return (is_float(t) && isnan(x.f)) ||
           compare_items(least ? TIDEI_OP_LT : TIDEI_OP_GT, t, x, best);
}

/* Folds in any order give the same: sums and products of integers, extremes, places, logic. */
static bool add_fold(tree *t) {
    static const int folds[] = {TIDEI_FOLD_SUM,    TIDEI_FOLD_PROD,  TIDEI_FOLD_MIN,
                                TIDEI_FOLD_MAX,    TIDEI_FOLD_ANY,   TIDEI_FOLD_ALL,
                                TIDEI_FOLD_ARGMIN, TIDEI_FOLD_ARGMAX};
    int k = below(t->n), fold = folds[below((int)TIDEI_COUNT(folds))];
    const slow *in = &t->values[k];
    slow *out = &t->values[t->n];
    bool adds = fold == TIDEI_FOLD_SUM || fold == TIDEI_FOLD_PROD, keep = below(2),
         all = below(4) == 0;
    bool extreme = fold == TIDEI_FOLD_MIN || fold == TIDEI_FOLD_MAX;
    char text[TEXT];
    int ndim = in->ndim, n = 0, acc = in->dtype;
    unsigned folded = all || !ndim ? (1u << ndim) - 1 : 1u + (unsigned)below((1 << ndim) - 1);
    if ((adds && is_float(in->dtype)) || (extreme && has_zero(in)) || strlen(t->text[k]) > TEXT / 2)
        return false;
    n = sprintf(text, "%s(%s", tidei_fold_name(fold), t->text[k]);
    if (!all && ndim) {
        n += sprintf(text + n, ", axis=(");
        for (int d = 0, some = 0; d < ndim; d++)
            if (folded >> d & 1)
                n += sprintf(text + n, "%s%d", some++ ? "," : "", below(2) ? d : d - ndim);
        n += sprintf(text + n, ")");
    }
    sprintf(text + n, "%s)", keep ? ", keepdims=true" : "");
    if (adds) acc = is_unsigned(in->dtype) ? TIDE_U64 : TIDE_I64;
    bool logic = fold == TIDEI_FOLD_ANY || fold == TIDEI_FOLD_ALL,
         place = fold == TIDEI_FOLD_ARGMIN || fold == TIDEI_FOLD_ARGMAX;
    out->dtype = logic ? TIDE_BOOL : place ? TIDE_I64 : acc;
    out->ndim = 0;
    out->n = 1;
    for (int d = 0; d < ndim; d++) {
        if (!(folded >> d & 1)) out->n *= (int)in->shape[d];
        if (!(folded >> d & 1) || keep)
            out->shape[out->ndim++] = folded >> d & 1 ? 1 : in->shape[d];
    }
    item best[SIZE_MAX_];
    int seen[SIZE_MAX_] = {0};
    for (int i = 0; i < in->n; i++) {
        int64_t index[TIDE_MAX_RANK];
        int at = 0;
        unravel(i, ndim, in->shape, index);
        for (int d = 0; d < ndim; d++)
            if (!(folded >> d & 1)) at = at * (int)in->shape[d] + (int)index[d];
        item x = logic ? convert(in->v[i], in->dtype, TIDE_BOOL) : in->v[i], *o = &out->v[at];
        bool first = seen[at] == 0;
        switch (fold) {
        case TIDEI_FOLD_SUM: o->u = (first ? 0 : o->u) + x.u; break;
        case TIDEI_FOLD_PROD: o->u = (first ? 1 : o->u) * x.u; break;
        case TIDEI_FOLD_ANY: o->i = (!first && o->i) || x.i; break;
        case TIDEI_FOLD_ALL: o->i = (first || o->i) && x.i; break;
        default:
            if (first || wins(fold, in->dtype, x, best[at])) {
                best[at] = x;
                *o = place ? (item){.i = seen[at]} : x;
            }
        }
        seen[at]++;
    }
    assert_int_equal(type_of(t, text), out->dtype);
    strcpy(t->text[t->n++], text);
    return true;
}

/* Scans that give the same in any order: sums and products of integers, extremes. */
static bool add_scan(tree *t) {
    int k = below(t->n), fold = TIDEI_FOLD_CUMSUM + below(4);
    const slow *in = &t->values[k];
    slow *out = &t->values[t->n];
    bool adds = fold == TIDEI_FOLD_CUMSUM || fold == TIDEI_FOLD_CUMPROD, reverse = below(2);
    char text[TEXT];
    if (!in->ndim || (is_float(in->dtype) && (adds || has_zero(in))) ||
        strlen(t->text[k]) > TEXT / 2)
        return false;
    int axis = below(in->ndim), n = (int)in->shape[axis], inner = 1;
    for (int d = axis + 1; d < in->ndim; d++) inner *= (int)in->shape[d];
    sprintf(text, "%s(%s, axis=%d%s)", tidei_fold_name(fold), t->text[k],
            below(2) ? axis : axis - in->ndim, reverse ? ", reverse=true" : "");
    *out = *in;
    if (adds) out->dtype = is_unsigned(in->dtype) ? TIDE_U64 : TIDE_I64;
    for (int line = 0; n && line < in->n / n; line++) {
        int at = line / inner * n * inner + line % inner, step = reverse ? -inner : inner;
        if (reverse) at += (n - 1) * inner;
        for (int i = 1; i < n; i++) {
            at += step;
            item *o = &out->v[at], before = out->v[at - step];
            int extreme = fold == TIDEI_FOLD_CUMMIN ? TIDEI_FOLD_MIN : TIDEI_FOLD_MAX;
            if (fold == TIDEI_FOLD_CUMSUM)
                o->u += before.u;
            else if (fold == TIDEI_FOLD_CUMPROD)
                o->u *= before.u;
            else if (!wins(extreme, in->dtype, *o, before))
                *o = before;
        }
    }
    assert_int_equal(type_of(t, text), out->dtype);
    strcpy(t->text[t->n++], text);
    return true;
}

static bool same_item(int t, item a, item b, bool signs) {
    if (!is_float(t)) return a.i == b.i;
    return (isnan(a.f) && isnan(b.f)) || (a.f == b.f && (!signs || signbit(a.f) == signbit(b.f)));
}

static void check(const char *text, tide_array *got, const slow *want, bool signs) {
    unsigned char data[SIZE_MAX_ * 8];
    size_t size = tide_dtype_size(want->dtype);
    if (!got) fail_msg("%s: %s", text, tide_error_last()->message);
    assert_int_equal(tide_array_dtype(got), want->dtype);
    assert_int_equal(tide_array_ndim(got), want->ndim);
    for (int d = 0; d < want->ndim; d++) assert_int_equal(tide_array_dim(got, d), want->shape[d]);
    assert_ok(tide_to_host(got, data, (size_t)want->n * size));
    for (int i = 0; i < want->n; i++) {
        item x = load(want->dtype, data + (size_t)i * size);
        if (!same_item(want->dtype, x, want->v[i], signs))
            fail_msg("%s\n  element %d (%s): %lld (%.17g), wanted %lld (%.17g)", text, i,
                     tide_dtype_name(want->dtype), (long long)x.i, x.f, (long long)want->v[i].i,
                     want->v[i].f);
    }
}

static void one_tree(tide_runtime *rt) {
    static tree t;
    static const char *const names[] = {"a", "b", "c", "d"};
    tide_arg args[OPERANDS];
    tide_array *outs[3];
    char source[4000];
    for (int i = 0; i < OPERANDS; i++) {
        random_slow(&t.operands[i], below(TIDE_C64));
        t.values[i] = t.operands[i];
        strcpy(t.text[i], names[i]);
        args[i] = tide_arg_array(on_device(rt, &t.operands[i]));
    }
    t.n = OPERANDS;
    for (int tries = 0; tries < 60 && t.n < NODES; tries++) {
        int kind = below(10);
        (void)(kind == 0   ? add_fold(&t)
               : kind == 1 ? add_cast(&t)
               : kind == 2 ? add_scan(&t)
                           : add_op(&t));
    }
    int r[3];
    for (int i = 0; i < 3; i++) r[i] = t.n - 1 - below(t.n < 8 ? t.n : 8);
    snprintf(source, sizeof source, "(a, b, c, d) -> (%s, %s, %s)", t.text[r[0]], t.text[r[1]],
             t.text[r[2]]);
    tide_expr *e = tide_expr_new(rt, source);
    if (!e) fail_msg("%s: %s", source, tide_error_last()->message);
    if (tide_expr_apply_many(e, args, OPERANDS, outs, 3) != TIDE_OK)
        fail_msg("%s: %s", source, tide_error_last()->message);
    for (int i = 0; i < 3; i++) check(t.text[r[i]], outs[i], &t.values[r[i]], false);
    tide_expr_release(e);
}

static void random_trees_agree_with_the_model(void **state) {
    (void)state;
    const char *given = getenv("TIDE_TEST_TREES");
    /* each is a compilation or two on a GPU */
    int n = given ? atoi(given) : test_on_host() ? 400 : 40;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    for (int i = 0; i < n; i++) {
        seed = (uint64_t)i;
        assert_ok(tide_scope_begin(rt));
        one_tree(rt);
        assert_ok(tide_scope_end(rt));
    }
    tide_close(rt);
}

/* ---- operations one at a time ---- */

static void one_exact(tide_runtime *rt, int op, int t) {
    slow in[3], out;
    const slow *const list[3] = {&in[0], &in[1], &in[2]};
    tide_arg args[3];
    char text[96];
    static const char *const calls[] = {"", "a", "a, b", "a, b, c"};
    for (int i = 0; i < 3; i++) {
        in[i] = (slow){.dtype = op == TIDEI_OP_WHERE && i == 0 ? TIDE_BOOL : t,
                       .ndim = 1,
                       .n = 200,
                       .shape = {200}};
        for (int k = 0; k < in[i].n; k++) in[i].v[k] = random_item(in[i].dtype);
        args[i] = tide_arg_array(on_device(rt, &in[i]));
    }
    assert_true(apply_slow(op, t, list, &out));
    int arity = tidei_op_infos[op].arity;
    snprintf(text, sizeof text,
             arity == 1   ? "(a) -> %s(%s)"
             : arity == 2 ? "(a, b) -> %s(%s)"
                          : "(a, b, c) -> %s(%s)",
             tidei_op_infos[op].name, calls[arity]);
    bool either = op == TIDEI_OP_MAXIMUM || op == TIDEI_OP_MINIMUM || op == TIDEI_OP_CLIP;
    check(text, tide_map_args(rt, text, args, (size_t)arity), &out, !either);
}

static void exact_operations_agree_to_the_bit(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    seed = 1;
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++)
        for (int t = 0; t < TIDE_C64; t++) {
            const tidei_op_info *info = &tidei_op_infos[op];
            if (!(info->classes & tidei_class(t)) || (info->ulps && is_float(t)) ||
                op == TIDEI_OP_COMPLEX || (info->rule == TIDEI_RULE_KEEP_INT && !is_float(t)))
                continue;
            assert_ok(tide_scope_begin(rt));
            one_exact(rt, op, t);
            assert_ok(tide_scope_end(rt));
        }
    tide_close(rt);
}

/* Distance in units of the last place of type t, of the wanted value or of `scale`. */
static double ulps_between(int t, double got, long double want, long double scale) {
    static const int digits[] = {
        [TIDE_F16] = 11, [TIDE_BF16] = 8, [TIDE_F32] = 24, [TIDE_F64] = 53};
    static const int lowest[] = {
        [TIDE_F16] = -24, [TIDE_BF16] = -133, [TIDE_F32] = -149, [TIDE_F64] = -1074};
    int exponent;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    double rounded = fit(t, (item){.f = (double)want}).f;
    if (got == rounded) return 0;
    if (isinf(rounded) || isinf(got) || isnan(got)) return INFINITY;
    (void)frexpl(fmaxl(fabsl(want), scale), &exponent);
    exponent -= digits[t];
    return (double)fabsl((got - want) / ldexpl(1, exponent < lowest[t] ? lowest[t] : exponent));
}

static void one_inexact(tide_runtime *rt, int op, int t) {
    static const double specials[] = {0,   -0.0, 1,    -1, INFINITY, -INFINITY,
                                      NAN, 0.5,  -0.5, 2,  1e-3,     -1e-3};
    enum { N = 200, S = (int)TIDEI_COUNT(specials) };
    slow a = {.dtype = t, .ndim = 1, .n = N, .shape = {N}}, b = a;
    unsigned char data[N * 8];
    for (int i = 0; i < N; i++) {
        a.v[i] =
            i < S ? (item){.f = specials[i]} : fit(t, (item){.f = (below(20001) - 10000) / 997.0});
        b.v[i] = i < S ? (item){.f = specials[(i * 5 + 1) % S]}
                       : fit(t, (item){.f = (below(20001) - 10000) / 2003.0});
    }
    char text[64];
    bool two = tidei_op_infos[op].arity == 2;
    snprintf(text, sizeof text, two ? "(a, b) -> %s(a, b)" : "(a) -> %s(a)",
             tidei_op_infos[op].name);
    tide_arg args[2] = {tide_arg_array(on_device(rt, &a)), tide_arg_array(on_device(rt, &b))};
    tide_array *got = tide_map_args(rt, text, args, two ? 2 : 1);
    assert_array(got);
    assert_ok(tide_to_host(got, data, N * tide_dtype_size(t)));
    for (int i = 0; i < N; i++) {
        double x = load(t, data + (size_t)i * tide_dtype_size(t)).f;
        long double want = 0;
        if (!precise(op, a.v[i].f, b.v[i].f, &want))
            fail_msg("%s is not exact, and has no better", tidei_op_infos[op].name);
        double off = ulps_between(t, x, want, precise_scale(op, a.v[i].f, b.v[i].f));
        if (!(off <=
              /* a device's own distance from the truth is no larger than two devices' */
              tidei_op_infos[op].ulps))
            fail_msg("%s of %.17g, %.17g (%s) is %.17g, %g ulps off", text, a.v[i].f, b.v[i].f,
                     tide_dtype_name(t), x, off);
    }
}

static void inexact_operations_agree_closely(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    seed = 2;
    for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++)
        for (int t = TIDE_F16; t <= TIDE_F64; t++) {
            if (!tidei_op_infos[op].ulps) continue;
            assert_ok(tide_scope_begin(rt));
            one_inexact(rt, op, t);
            assert_ok(tide_scope_end(rt));
        }
    tide_close(rt);
}

/* Float sums, in any order: the error grows at most like the number of additions. */
static void float_sums_err_within_their_bound(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    enum { N = 100003 };
    float *x = malloc(N * sizeof *x);
    const int64_t n = N;
    long double sum = 0, sizes = 0;
    if (!x) abort();
    seed = 3;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(below(2000001) - 1000000) * 1e-4f;
        sum += x[i];
        sizes += fabsf(x[i]);
    }
    assert_ok(tide_scope_begin(rt));
    tide_array *a = tide_from_host(rt, TIDE_F32, 1, &n, x);
    double first = tide_item_f64(tide_map(rt, "(x) -> sum(x)", a));
    /* pairwise: a few roundings deep, not 100003 */
    assert_true(fabsl(first - sum) <= sizes * 0x1p-24L * 32);
    assert_true(tide_item_f64(tide_map(rt, "(x) -> sum(x)", a)) == first); /* the same bits again */
    assert_true(fabsl(tide_item_f64(tide_map(rt, "(x) -> mean(x)", a)) - sum / N) <=
                sizes / N * 0x1p-24L * 32);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_operations_agree_to_the_bit),
        cmocka_unit_test(inexact_operations_agree_closely),
        cmocka_unit_test(float_sums_err_within_their_bound),
        cmocka_unit_test(random_trees_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
