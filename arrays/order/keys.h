/* keys.h: what order is: elements as unsigned keys that compare as the elements do, and the
** parameters of the kernels that sort: one text for both back ends.
**
** The host includes this file as C; the build also puts it before the kernels' CUDA text (sort.cu,
** select.cu, quantile.cu). An element of a real type has one key; a complex one three, from the
** least significant on: the imaginary part's, the real part's, and where it has NaN. Sorting by
** them one after the other, stably, is NumPy's order of complex numbers: all without NaN, then
** (x, NaN), (NaN, y), (NaN, NaN).
** What must stay true: equal elements have equal keys (0.0 and -0.0, any two NaN); NaN has the
** greatest; a key takes no more bits than its part of the element. */
#ifndef TIDEI_ORDER_KEYS_H
#define TIDEI_ORDER_KEYS_H

typedef unsigned long long od_u64;
typedef long long od_i64;
typedef unsigned od_u32;

#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177 /* functions that a kernel does not use */
#define OD_FN static __device__ __forceinline__
#else
#define OD_FN static inline
#endif

#define OD_RANK   8
#define OD_ROUNDS 3 /* keys of a complex element */

enum { OD_UNSIGNED, OD_SIGNED, OD_FLOAT };
typedef struct od_type {
    int kind, size, parts; /* size: bytes of a part */
    int descending;        /* keys are complemented, so that equals stay in order */
    od_u64 inf;            /* of floats: the bits of infinity */
} od_type;

/* Rows of elements, and where each begins: `outer` are the axes beside the one that is sorted. */
typedef struct od_rows {
    od_i64 rows, length;
    od_i64 step, out_step; /* along a row: of the source, of the results */
    int ndim;              /* of outer */
    od_i64 outer[OD_RANK], source_strides[OD_RANK], out_strides[OD_RANK];
} od_rows;

typedef struct od_sort {
    /* addresses; 0: there is none. Results: of the elements, and of their places (i64) */
    od_u64 source, values, indices;
    /* room for keys and places under way, twice; for counts (sort.cu) */
    od_u64 keys[2], order[2], state;
    od_rows space;
    od_type type;
    int round, shift; /* of one pass: which keys, and from which of their bits on */
    int pass, passes; /* its number, and how many there are */
    int first;        /* the first of its round: keys are made */
    int planned;      /* order_plan has said in which passes there is nothing to do */
    int digits;       /* in keys of the round, from bit `low` on */
    int low;
    od_i64 kept; /* the first so many of each row are results (order_rows) */
    /* What goes with each key of a long row, in place of its place: the address of the first such
    ** value; 0: places do. */
    od_u64 carried;
    int carried_size, indices_size; /* bytes of such a value; of an element of `indices` */
} od_sort;

#define OD_TOP 1024 /* the most that order_top_* picks of a row */
typedef struct od_top {
    od_sort sort; /* source, results, space, type */
    od_i64 k;     /* elements of a result's row */
    /* order_top_* alone. A row is so many parts, of which none is more than one element longer than
    ** another; where there are several, the results have a row for each part */
    od_i64 parts;
    od_u64 from; /* address of i64, as the source has its elements: their places; 0: none */
} od_top;

/* Quantile k of row i goes to values[k * rows + i], as step order_quantile does of sorted rows. */
typedef struct od_quantiles {
    od_u64 source, q, values; /* addresses; q and the values are f64 */
    od_u64 room;              /* a host's: address of room for `slots` rows side by side */
    od_i64 nq, slots;
    od_rows space;
    od_type type;
} od_quantiles;

/* Distinct elements of one or two bytes (distinct.cu). */
enum { OD_STRETCH = 512, OD_WORDS = 1 << 11 }; /* elements; words with a bit for each value */
typedef struct od_marks {
    od_i64 found, nans; /* how many distinct elements there are, and how many of them are NaN */
    od_u64 zero; /* of floats: the complement of 2 * place + sign of the first zero; 0: none is */
    od_u32 seen[OD_WORDS]; /* bit by bit: whether an element has these bits */
    /* the lower half: the bits of `seen` that are distinct numbers; the upper one: how many lesser
    ** numbers other words have */
    od_u64 ranked[OD_WORDS];
    od_u64 stretch[1]; /* for each one of the array: its NaN; then how many come before */
} od_marks;
typedef struct od_distinct {
    od_sort sort;           /* source, results, space (one row), type; state: an od_marks */
    od_u64 inverse, counts; /* addresses of i64; 0: there is none */
    od_i64 found, nans;     /* as the marks have them, once they are known */
} od_distinct;

/* Items of a tile: what a block sorts at once in a pass over long rows. */
enum { OD_TILE_32 = 4096, OD_TILE_64 = 4096 };

/* Functions of an element's bits and of keys: of 64 bits; on devices of 32 too, which take half as
** many instructions. */
#ifdef __cplusplus
#define OD_WORD_FN template <class od_word> OD_FN
#else
#define OD_WORD_FN OD_FN
typedef od_u64 od_word;
#endif

#define OD_LIMIT(bits) ((bits) >= 64 ? ~0ULL : (1ULL << (bits)) - 1)

OD_FN od_u64 od_load(od_u64 address, od_i64 at, int size) {
    switch (size) {
    case 1: return ((const unsigned char *)address)[at];
    case 2: return ((const unsigned short *)address)[at];
    case 4: return ((const od_u32 *)address)[at];
    default: return ((const od_u64 *)address)[at];
    }
}

OD_FN void od_store(od_u64 address, od_i64 at, int size, od_u64 bits) {
    switch (size) {
    case 1: ((unsigned char *)address)[at] = (unsigned char)bits; break;
    case 2: ((unsigned short *)address)[at] = (unsigned short)bits; break;
    case 4: ((od_u32 *)address)[at] = (od_u32)bits; break;
    default: ((od_u64 *)address)[at] = bits;
    }
}

OD_FN od_u64 od_sign(od_type t) { return 1ULL << (8 * t.size - 1); }
OD_WORD_FN int od_nan(od_type t, od_word bits) {
    return (bits & ~(od_word)od_sign(t)) > (od_word)t.inf;
}

/* The key of a part's bits, ascending. */
OD_WORD_FN od_word od_key_of_bits(od_type t, od_word bits) {
    const od_word top = (od_word)od_sign(t), mask = (od_word)OD_LIMIT(8 * t.size);
    if (t.kind == OD_UNSIGNED) return bits;
    if (t.kind == OD_SIGNED) return bits ^ top;
    if (od_nan(t, bits)) return mask;
    if ((bits & ~top) == 0) bits = 0;
    return bits & top ? ~bits & mask : bits | top;
}

/* The key of an element of one part. */
OD_WORD_FN od_word od_key_of_element(od_type t, od_word bits) {
    return od_key_of_bits(t, bits) ^ (t.descending ? (od_word)OD_LIMIT(8 * t.size) : 0);
}

/* The key of element `at` in a round. */
OD_FN od_u64 od_key(od_type t, od_u64 source, od_i64 at, int round) {
    od_u64 key, mask = OD_LIMIT(8 * t.size);
    if (t.parts == 1) return od_key_of_element(t, od_load(source, at, t.size));
    if (round < 2)
        key = od_key_of_bits(t, od_load(source, 2 * at + 1 - round, t.size));
    else {
        key = (od_u64)(2 * od_nan(t, od_load(source, 2 * at, t.size)) +
                       od_nan(t, od_load(source, 2 * at + 1, t.size)));
        mask = 3;
    }
    return t.descending ? key ^ mask : key;
}

/* Whether a key of round 0 tells its element's bits; not of zeros and NaN. */
OD_WORD_FN int od_tells(od_type t, od_word key) {
    const od_word mask = (od_word)OD_LIMIT(8 * t.size);
    if (t.descending) key ^= mask;
    return t.parts == 1 && (t.kind != OD_FLOAT || (key != mask && key != (od_word)od_sign(t)));
}
OD_WORD_FN od_word od_bits(od_type t, od_word key) {
    const od_word top = (od_word)od_sign(t), mask = (od_word)OD_LIMIT(8 * t.size);
    if (t.descending) key ^= mask;
    if (t.kind == OD_UNSIGNED) return key;
    if (t.kind == OD_SIGNED) return key ^ top;
    return key & top ? key ^ top : ~key & mask;
}

/* A f16 as f64, by its bits: its exponent is 15 too great, and that of a f64 1023. */
OD_FN double od_number_of_half(od_u64 bits) {
    const od_u64 exponent = bits >> 10 & 31, fraction = bits & 1023;
    union {
        od_u64 u;
        double d;
    } wide = {(exponent == 31 ? 2047 : exponent + 1023 - 15) << 52 | fraction << 42};
    if (exponent == 0) wide.d = (double)fraction / (1 << 24);
    return bits >> 15 ? -wide.d : wide.d;
}

/* A real element as f64, by its bits. */
OD_FN double od_number_of(od_type t, od_u64 bits) {
    union {
        od_u64 u;
        double d;
    } wide = {bits};
    union {
        od_u32 u;
        float f;
    } narrow = {(od_u32)(t.size == 2 ? bits << 16 : bits)};
    if (t.kind == OD_FLOAT && t.size == 2 && t.inf == 0x7c00) return od_number_of_half(bits);
    if (t.kind == OD_FLOAT) return t.size == 8 ? wide.d : narrow.f;
    if (t.kind == OD_UNSIGNED) return (double)bits;
    return (double)((od_i64)(bits << (64 - 8 * t.size)) >> (64 - 8 * t.size));
}

/* What lies part t of the way from a to b. A distance that is not finite is left out: of an
** infinity that comes, of both NaN. */
OD_FN double od_between(double a, double b, double t) {
    const double d = b - a;
    return a == b || t == 0 ? a
           : d - d != 0     ? a * (1 - t) + b * t
           : t < 0.5        ? a + d * t
                            : b - d * (1 - t);
}

/* Where a row begins: offsets of the source and of the results. */
OD_FN void od_row(const od_rows *s, od_i64 row, od_i64 *source, od_i64 *out) {
    *source = *out = 0;
    for (int d = s->ndim - 1; d >= 0; d--) {
        const od_i64 i = d > 0 ? row % s->outer[d] : row;
        if (d > 0) row /= s->outer[d];
        *source += i * s->source_strides[d];
        *out += i * s->out_strides[d];
    }
}

/* Writes the element that lies `at` in the source to the values, if they are wanted. Its last key,
** if it tells the element, saves a look at it. */
OD_FN void od_put_value(const od_sort *p, od_i64 at, od_i64 out, od_u64 key) {
    const int size = p->type.size;
    if (!p->values) return;
    if (od_tells(p->type, key))
        od_store(p->values, out, size, od_bits(p->type, key));
    else
        for (int i = 0; i < p->type.parts; i++)
            od_store(p->values, out * p->type.parts + i, size,
                     od_load(p->source, at * p->type.parts + i, size));
}

/* Writes number `from` of the row that begins at `source` to its place in the results. */
OD_FN void od_put(const od_sort *p, od_i64 source, od_i64 from, od_i64 out, od_u64 key) {
    if (p->indices) ((od_i64 *)p->indices)[out] = from;
    od_put_value(p, source + from * p->space.step, out, key);
}

#endif
