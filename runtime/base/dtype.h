/* dtype.h: element types: sizes, kinds, promotion, and single elements to and from tagged
** arguments.
**
** Model. A type is one of tide_dtype (tide/base.h); its kind says what sort of number it is. Kinds
** are ordered bool < integers < floats < complex: promotion goes upwards in that order, and what is
** stored without a cast may not go downwards. A single element travels as a tide_arg, which carries
** its kind.
** What must stay true: a conversion to a narrower float rounds once, to nearest even. */
#ifndef TIDEI_DTYPE_H
#define TIDEI_DTYPE_H

#include "runtime/base/base.h"

typedef enum {
    TIDEI_KIND_BOOL,
    TIDEI_KIND_INT,
    TIDEI_KIND_UINT,
    TIDEI_KIND_FLOAT,
    TIDEI_KIND_COMPLEX
} tidei_kind;
extern const uint8_t tidei_dtype_bytes[TIDE_DTYPE_COUNT];
static inline bool tidei_dtype_valid(tide_dtype t) { return t >= 0 && t < TIDE_DTYPE_COUNT; }
tide_status tidei_dtype_check(tide_dtype t, const char *op); /* TIDE_E_INVALID where it is none */
/* The size of a valid type, without a call. */
static inline size_t tidei_dtype_size(tide_dtype t) { return tidei_dtype_bytes[t]; }
tidei_kind tidei_dtype_kind(tide_dtype t);
/* The type of one component: f32 of c64, f64 of c128, else t. */
tide_dtype tidei_real_of(tide_dtype t);
/* The array API standard's promotion; u64 with a signed integer is TIDE_E_DTYPE. Where the standard
** is silent: an integer or bool with a float or complex takes that type. */
tide_status tidei_promote(tide_dtype a, tide_dtype b, const char *op, tide_dtype *out);
/* Why `from` is not stored as `to` without a cast, which would lose more than size or precision:
** "signed to unsigned". NULL where it is: within a kind, and upwards (bool < unsigned < signed
** integers < floats < complex), as NumPy's casting "same_kind". */
const char *tidei_cast_lost(tide_dtype from, tide_dtype to);
/* Writes `v` as one element of t (16 bytes room). TIDE_E_DTYPE if t cannot represent it (range,
** fraction, kind). */
tide_status tidei_encode(tide_arg v, tide_dtype t, const char *op, void *out);
/* Whether a number of t's kind, or of a narrower one, is in t's range: 0 if so, 1 above it, -1
** below. NaN and infinities are in the range of floats; for a complex number out of range, 1 or
** -1. */
int tidei_beyond(const tide_arg *v, tide_dtype t);
/* The element at p as an argument: bool, int, uint, float or complex. */
tide_arg tidei_decode(const void *p, tide_dtype t);
/* f16 and bf16 <-> f32, f64: round once, to nearest even. */
float tidei_f16_to_f32(uint16_t h);
uint16_t tidei_f32_to_f16(float f);
float tidei_bf16_to_f32(uint16_t h);
uint16_t tidei_f32_to_bf16(float f);
uint16_t tidei_f64_to_f16(double d);
uint16_t tidei_f64_to_bf16(double d);

#endif
