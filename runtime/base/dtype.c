/* dtype.c: element types: names, sizes, kinds, promotion, and single elements to and from tagged
** arguments.
**
** Kinds are ordered bool < integers < floats < complex; promotion and storing follow that order.
** Every conversion to a narrower float rounds once, to nearest even: f64 and 64-bit integers never
** pass through f32 on their way to f16 or bf16 without a sticky bit (rounding to odd), which makes
** the second rounding exact. */
#include <float.h>
#include <math.h>

#include "runtime/base/dtype.h"

const uint8_t tidei_dtype_bytes[TIDE_DTYPE_COUNT] = {
    [TIDE_BOOL] = 1, [TIDE_I8] = 1,  [TIDE_I16] = 2, [TIDE_I32] = 4, [TIDE_I64] = 8,
    [TIDE_U8] = 1,   [TIDE_U16] = 2, [TIDE_U32] = 4, [TIDE_U64] = 8, [TIDE_F16] = 2,
    [TIDE_BF16] = 2, [TIDE_F32] = 4, [TIDE_F64] = 8, [TIDE_C64] = 8, [TIDE_C128] = 16,
};
static const struct {
    const char *name;
    uint8_t kind; /* tidei_kind */
} types[TIDE_DTYPE_COUNT] = {
    [TIDE_BOOL] = {"bool", TIDEI_KIND_BOOL},    [TIDE_I8] = {"i8", TIDEI_KIND_INT},
    [TIDE_I16] = {"i16", TIDEI_KIND_INT},       [TIDE_I32] = {"i32", TIDEI_KIND_INT},
    [TIDE_I64] = {"i64", TIDEI_KIND_INT},       [TIDE_U8] = {"u8", TIDEI_KIND_UINT},
    [TIDE_U16] = {"u16", TIDEI_KIND_UINT},      [TIDE_U32] = {"u32", TIDEI_KIND_UINT},
    [TIDE_U64] = {"u64", TIDEI_KIND_UINT},      [TIDE_F16] = {"f16", TIDEI_KIND_FLOAT},
    [TIDE_BF16] = {"bf16", TIDEI_KIND_FLOAT},   [TIDE_F32] = {"f32", TIDEI_KIND_FLOAT},
    [TIDE_F64] = {"f64", TIDEI_KIND_FLOAT},     [TIDE_C64] = {"c64", TIDEI_KIND_COMPLEX},
    [TIDE_C128] = {"c128", TIDEI_KIND_COMPLEX},
};

tidei_kind tidei_dtype_kind(tide_dtype t) { return (tidei_kind)types[t].kind; }
const char *tide_dtype_name(tide_dtype t) { return tidei_dtype_valid(t) ? types[t].name : "?"; }
size_t tide_dtype_size(tide_dtype t) { return tidei_dtype_valid(t) ? tidei_dtype_bytes[t] : 0; }

tide_arg tide_arg_array(tide_array *a) {
    return (tide_arg){.kind = TIDE_ARG_ARRAY, .value = {.array = a}};
}
tide_arg tide_arg_bool(int v) { return (tide_arg){.kind = TIDE_ARG_BOOL, .value = {.i = v != 0}}; }
tide_arg tide_arg_int(int64_t v) { return (tide_arg){.kind = TIDE_ARG_INT, .value = {.i = v}}; }
tide_arg tide_arg_uint(uint64_t v) { return (tide_arg){.kind = TIDE_ARG_UINT, .value = {.u = v}}; }
tide_arg tide_arg_float(double v) { return (tide_arg){.kind = TIDE_ARG_FLOAT, .value = {.f = v}}; }
tide_arg tide_arg_complex(double re, double im) {
    return (tide_arg){.kind = TIDE_ARG_COMPLEX, .value = {.c = {re, im}}};
}

tide_dtype tidei_real_of(tide_dtype t) {
    return t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
}

/* ---- promotion ---- */

static int kind_rank(tide_dtype t) {
    switch (tidei_dtype_kind(t)) {
    case TIDEI_KIND_BOOL: return 0;
    case TIDEI_KIND_INT:
    case TIDEI_KIND_UINT: return 1;
    case TIDEI_KIND_FLOAT: return 2;
    default: return 3;
    }
}

/* Two integer types; -1 where no type holds both. */
static tide_dtype promote_integers(tide_dtype a, tide_dtype b) {
    static const tide_dtype by_log2[] = {TIDE_I8, TIDE_I16, TIDE_I32, TIDE_I64};
    if (tidei_dtype_kind(a) == tidei_dtype_kind(b))
        return tidei_dtype_bytes[a] >= tidei_dtype_bytes[b] ? a : b;
    tide_dtype s = tidei_dtype_kind(a) == TIDEI_KIND_INT ? a : b, u = s == a ? b : a;
    if (tidei_dtype_bytes[s] > tidei_dtype_bytes[u]) return s;
    return tidei_dtype_bytes[u] == 8 ? -1 : by_log2[__builtin_ctz(tidei_dtype_bytes[u]) + 1];
}

static tide_dtype promote_floats(tide_dtype a, tide_dtype b) {
    if (tidei_dtype_bytes[a] == tidei_dtype_bytes[b])
        return a == b ? a : TIDE_F32; /* f16 with bf16: neither holds the other */
    return tidei_dtype_bytes[a] > tidei_dtype_bytes[b] ? a : b;
}

tide_status tidei_promote(tide_dtype a, tide_dtype b, const char *op, tide_dtype *out) {
    int ra = kind_rank(a), rb = kind_rank(b);
    tide_dtype t;
    if (a == b)
        t = a;
    else if (ra == rb)
        t = ra == 1 ? promote_integers(a, b) : ra == 2 ? promote_floats(a, b) : TIDE_C128;
    else if (ra + rb == 5)
        /* a float and a complex */
        t = a == TIDE_F64 || b == TIDE_F64 ? TIDE_C128 : ra == 3 ? a : b;
    else
        t = ra > rb ? a : b;
    if (t < 0)
        return tidei_fail(
            TIDE_E_DTYPE, op,
            "%s and %s have no common type: no integer type holds both; cast one of them",
            types[a].name, types[b].name);
    *out = t;
    return TIDE_OK;
}

const char *tidei_cast_lost(tide_dtype from, tide_dtype to) {
    static const char *const lost[4][3] = {
        {0},
        {"integer to bool", "signed to unsigned"},
        {"float to bool", "float to integer"},
        {"complex to bool", "complex to integer", "complex to float"}};
    int a = kind_rank(from), b = kind_rank(to);
    if (a != b) return a < b ? NULL : lost[a][b];
    bool sign = tidei_dtype_kind(from) == TIDEI_KIND_INT && tidei_dtype_kind(to) == TIDEI_KIND_UINT;
    return sign ? lost[1][1] : NULL;
}

/* ---- f16, bf16 ---- */

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float tidei_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u,
             fraction = h & 0x3ffu;
    if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) { /* zero, or a denormal: fraction * 2^-24 is exact in f32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* u >> shift, rounded to nearest even; 0 < shift < 32. */
static uint32_t shift_even(uint32_t u, unsigned shift) {
    uint32_t half = (uint32_t)1 << (shift - 1);
    return (u + half - 1 + (u >> shift & 1)) >> shift;
}

uint16_t tidei_f32_to_f16(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu)); /* NaN stays a quiet one */
    /* 65520 and above round to infinity */
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | shift_even(magnitude - 0x38000000u, 13)); /* 2^-14 and above */
    /* 2^-25, a tie with 0, and below */
    if (magnitude <= 0x33000000u) return (uint16_t)sign;
    /* A denormal: the significand in units of 2^-24; a carry makes it the least normal number. */
    return (uint16_t)(sign |
                      shift_even((magnitude & 0x7fffffu) | 0x800000u, 126 - (magnitude >> 23)));
}

float tidei_bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t tidei_f32_to_bf16(float f) {
    uint32_t u = bits_of(f);
    /* NaN stays a quiet one */
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    /* a carry ends in infinity, as it should */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* f64 to f32 rounded to odd: the last bit says "inexact", so that rounding the result to fewer bits
** is exact. */
static float round_to_odd(double d) {
    float f = (float)d;
    if ((double)f == d || d != d) return f;
    uint32_t u = bits_of(f);
    /* towards zero; infinity becomes the greatest finite number */
    if (fabs((double)f) > fabs(d)) u--;
    return float_of(u | 1);
}

uint16_t tidei_f64_to_f16(double d) { return tidei_f32_to_f16(round_to_odd(d)); }
uint16_t tidei_f64_to_bf16(double d) { return tidei_f32_to_bf16(round_to_odd(d)); }

/* ---- one element to and from an argument ---- */

static void store_float(double v, tide_dtype t, void *out) {
    uint16_t h;
    float f;
    switch (t) {
    case TIDE_F16:
        h = tidei_f64_to_f16(v);
        memcpy(out, &h, 2);
        break;
    case TIDE_BF16:
        h = tidei_f64_to_bf16(v);
        memcpy(out, &h, 2);
        break;
    case TIDE_F32:
        f = (float)v;
        memcpy(out, &f, 4);
        break;
    default: memcpy(out, &v, 8); break;
    }
}

static double load_float(const void *p, tide_dtype t) {
    uint16_t h;
    float f;
    double d;
    switch (t) {
    case TIDE_F16: memcpy(&h, p, 2); return tidei_f16_to_f32(h);
    case TIDE_BF16: memcpy(&h, p, 2); return tidei_bf16_to_f32(h);
    case TIDE_F32: memcpy(&f, p, 4); return f;
    default: memcpy(&d, p, 8); return d;
    }
}

static bool overflows(double v, tide_dtype t) {
    unsigned char buf[8];
    store_float(v, t, buf);
    return isfinite(v) && !isfinite(load_float(buf, t));
}

static tide_status encode_floating(double re, double im, tide_dtype t, const char *op, void *out) {
    tide_dtype part = tidei_real_of(t);
    if (overflows(re, part) || (part != t && overflows(im, part)))
        return tidei_fail(TIDE_E_DTYPE, op, "%.15g is out of the range of %s",
                          overflows(re, part) ? re : im, types[t].name);
    store_float(re, part, out);
    if (part != t) store_float(im, part, (char *)out + tidei_dtype_bytes[part]);
    return TIDE_OK;
}

/* An integer as sign and magnitude into an integer type or bool. */
static tide_status encode_integer(bool negative, uint64_t magnitude, tide_dtype t, const char *op,
                                  void *out) {
    bool is_signed = tidei_dtype_kind(t) == TIDEI_KIND_INT;
    unsigned bits = 8u * tidei_dtype_bytes[t];
    uint64_t most = t == TIDE_BOOL ? 1 : UINT64_MAX >> (64 - bits + is_signed);
    if (magnitude > (negative ? (is_signed ? most + 1 : 0) : most))
        return tidei_fail(TIDE_E_DTYPE, op, "%s%llu is out of the range of %s", negative ? "-" : "",
                          (unsigned long long)magnitude, types[t].name);
    uint64_t v = negative ? 0 - magnitude : magnitude;
    /* little end first, as every machine we run on */
    for (unsigned i = 0; i < tidei_dtype_bytes[t]; i++) {
        ((unsigned char *)out)[i] = (unsigned char)(v >> 8 * i);
    }
    return TIDE_OK;
}

/* As a double, exactly but for a sticky last bit: rounding that to f32, f16 or bf16 is then
** exact. */
static double sticky_double(bool negative, uint64_t magnitude) {
    double v = magnitude >> 53 ? (double)(magnitude >> 11 | ((magnitude & 2047) != 0)) * 2048
                               : (double)magnitude;
    return negative ? -v : v;
}

static tide_status encode_from_integer(bool negative, uint64_t magnitude, tide_dtype t,
                                       const char *op, void *out) {
    if (kind_rank(t) < 2) return encode_integer(negative, magnitude, t, op, out);
    if (tidei_real_of(t) == TIDE_F64) {
        double v = (double)magnitude;
        return encode_floating(negative ? -v : v, 0, t, op, out);
    }
    return encode_floating(sticky_double(negative, magnitude), 0, t, op, out);
}

static tide_status encode_from_float(double v, tide_dtype t, const char *op, void *out) {
    if (kind_rank(t) >= 2) return encode_floating(v, 0, t, op, out);
    if (!isfinite(v))
        return tidei_fail(TIDE_E_DTYPE, op, "%g cannot be stored as %s", v, types[t].name);
    if (v != trunc(v))
        return tidei_fail(TIDE_E_DTYPE, op, "%.15g has a fraction, which %s cannot hold", v,
                          types[t].name);
    if (fabs(v) >= 0x1p64)
        return tidei_fail(TIDE_E_DTYPE, op, "%.15g is out of the range of %s", v, types[t].name);
    return encode_integer(v < 0, (uint64_t)fabs(v), t, op, out);
}

tide_status tidei_dtype_check(tide_dtype t, const char *op) {
    if (tidei_dtype_valid(t)) return TIDE_OK;
    return tidei_fail(TIDE_E_INVALID, op, "%d is no element type", (int)t);
}

tide_status tidei_encode(tide_arg v, tide_dtype t, const char *op, void *out) {
    int64_t i = v.value.i;
    if (tidei_dtype_check(t, op) != TIDE_OK) return TIDE_E_INVALID;
    switch (v.kind) {
    case TIDE_ARG_BOOL: return encode_from_integer(false, i != 0, t, op, out);
    case TIDE_ARG_INT:
        return encode_from_integer(i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, t, op, out);
    case TIDE_ARG_UINT: return encode_from_integer(false, v.value.u, t, op, out);
    case TIDE_ARG_FLOAT: return encode_from_float(v.value.f, t, op, out);
    case TIDE_ARG_COMPLEX:
        if (kind_rank(t) == 3) return encode_floating(v.value.c[0], v.value.c[1], t, op, out);
        return tidei_fail(TIDE_E_DTYPE, op, "a complex number cannot be stored as %s",
                          types[t].name);
    case TIDE_ARG_ARRAY:
        return tidei_fail(TIDE_E_INVALID, op, "an array was given where a number is wanted");
    case TIDE_ARG_NUMBER:
        return tidei_fail(TIDE_E_INVALID, op,
                          "a number of a graph's run was given, which expressions alone take");
    default: return tidei_fail(TIDE_E_INVALID, op, "%d is no kind of argument", (int)v.kind);
    }
}

/* ---- beside the range of a type ---- */

static int integer_beyond(bool negative, uint64_t magnitude, tide_dtype t) {
    bool is_signed = tidei_dtype_kind(t) == TIDEI_KIND_INT;
    unsigned bits = 8u * tidei_dtype_bytes[t];
    uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
    if (negative) return magnitude > (is_signed ? most + 1 : 0) ? -1 : 0;
    return magnitude > most;
}

static int float_beyond(double v, tide_dtype t) {
    double most = t == TIDE_F16    ? 65504
                  : t == TIDE_BF16 ? 0x1.fep127
                  : t == TIDE_F32  ? FLT_MAX
                                   : DBL_MAX;
    return isfinite(v) ? (v > most) - (v < -most) : 0;
}

int tidei_beyond(const tide_arg *v, tide_dtype t) {
    bool whole = v->kind == TIDE_ARG_BOOL || v->kind == TIDE_ARG_INT || v->kind == TIDE_ARG_UINT;
    bool negative = v->kind != TIDE_ARG_UINT && v->value.i < 0;
    if (t == TIDE_BOOL) return 0;
    if (kind_rank(t) == 1)
        return whole ? integer_beyond(negative, negative ? 0 - v->value.u : v->value.u, t) : 0;
    if (whole)
        return float_beyond(negative ? (double)v->value.i : (double)v->value.u, tidei_real_of(t));
    if (v->kind == TIDE_ARG_FLOAT) return float_beyond(v->value.f, tidei_real_of(t));
    int re = float_beyond(v->value.c[0], tidei_real_of(t));
    return re ? re : float_beyond(v->value.c[1], tidei_real_of(t));
}

static uint64_t load_integer(const void *p, unsigned size, bool is_signed) {
    const unsigned char *b = p;
    uint64_t v = 0;
    for (unsigned i = 0; i < size; i++) v |= (uint64_t)b[i] << 8 * i;
    if (is_signed && size < 8 && v >> (8 * size - 1)) v |= UINT64_MAX << 8 * size;
    return v;
}

tide_arg tidei_decode(const void *p, tide_dtype t) {
    tide_dtype part = tidei_real_of(t);
    switch (tidei_dtype_kind(t)) {
    case TIDEI_KIND_BOOL: return tide_arg_bool(*(const unsigned char *)p);
    case TIDEI_KIND_INT: return tide_arg_int((int64_t)load_integer(p, tidei_dtype_bytes[t], true));
    case TIDEI_KIND_UINT: return tide_arg_uint(load_integer(p, tidei_dtype_bytes[t], false));
    case TIDEI_KIND_FLOAT: return tide_arg_float(load_float(p, t));
    default:
        return tide_arg_complex(load_float(p, part),
                                load_float((const char *)p + tidei_dtype_bytes[part], part));
    }
}
