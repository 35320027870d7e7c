/* scan_params.h: what the kernels of scans get, in the host's form (scan_host.c) and the device's
** (scan_forms.cu). Embedded as the first part of that text.
**
** A *line* is what is scanned by itself: the elements along the axis. Lines are counted row-major
** over the other dimensions, of which the innermost `inner` elements lie behind the axis in the
** result. Strides are in elements; those along the axis are below 0 where the scan goes backwards,
** and the addresses are those of the elements where it begins. */
#ifndef TIDEI_SCAN_PARAMS_H
#define TIDEI_SCAN_PARAMS_H

#ifdef __CUDACC_RTC__
#define TD_COMPLEX /* for prelude.h */
#endif

typedef long long sc_i64;
typedef unsigned long long sc_u64;

#define SC_RANK 8

typedef struct sc_scan {
    sc_u64 in, out;        /* addresses of the first elements */
    sc_u64 state;          /* tiles, bands: ticket, what is told; chunks: their sums */
    sc_i64 n;              /* elements of a line, > 0 */
    sc_i64 step, out_step; /* along the axis */
    sc_i64 lines, inner;   /* both > 0 */
    sc_i64 places;         /* of the result along the axis: n, or n + 1 with the initial one */
    sc_i64 chunks, chunk;  /* columns: parts of a line, and elements of each */
    sc_i64 tiles, groups;  /* of a line, or of a band's lines */
    int lanes;             /* short: of a warp, that a line has; a power of two, up to 32 */
    int width;             /* bands: lines of one */
    int initial, ndim;     /* ndim: dimensions of the lines, >= 1 */
    sc_i64 shape[SC_RANK], strides[SC_RANK]; /* of the source over the lines */
} sc_scan;

#define SC_GROUP 128 /* tiles of a group */
#define SC_BLOCK 256 /* threads */
#define SC_STEPS 16  /* vectors that a thread loads of a tile, at most */
#define SC_EACH  8   /* columns: elements that a thread loads at once */

/* What counts of an element's bytes, in the source and in the result: a thread loads or stores at
** most 16 of them at once, so that what a warp loads or stores by one instruction lies together. */
#define SC_UNIT(in, out) ((in) > (out) ? (in) : (out))
/* Elements of one vector, of a thread, of a tile, by those bytes. */
#define SC_VECTOR(bytes)    (16 / (bytes))
#define SC_STEPS_OF(bytes)  (32 / SC_VECTOR(bytes) < SC_STEPS ? 32 / SC_VECTOR(bytes) : SC_STEPS)
#define SC_ROW_STEPS(bytes) (SC_STEPS_OF(bytes) < 4 ? SC_STEPS_OF(bytes) : 4)
#define SC_TILE(bytes)      (SC_BLOCK * SC_VECTOR(bytes) * SC_STEPS_OF(bytes))

/* Bands: elements of a line that a thread joins, by those bytes: a block's fit into its shared
** memory four to six times over a multiprocessor; and since they are one more than what one row of
** all banks holds, or a multiple of that, the threads of a warp find theirs in different banks. */
#define SC_BAND(bytes) ((bytes) < 8 ? 33 : (bytes) < 16 ? 17 : 9)
/* Elements along the axis of a tile of `width` lines. */
#define SC_BAND_TILE(bytes, width) (SC_BLOCK / (width) * (sc_i64)SC_BAND(bytes))
#define SC_BAND_WIDTH              64 /* lines at most, so that several threads share each */
#define SC_BAND_GROUP              32 /* tiles of a group, groups of a group of groups */
#define SC_BAND_PARTS              8  /* threads at most that share what is waited for of a line */

/* All scans: SC_SCANS(X) is X(operation, type, type of the accumulator, type of the result) for
** each. */
#define SC_FOLDS(X, op)                                                                            \
    X(op, truth, i64, i64)                                                                         \
    X(op, i8, i64, i64)                                                                            \
    X(op, i16, i64, i64)                                                                           \
    X(op, i32, i64, i64)                                                                           \
    X(op, i64, i64, i64)                                                                           \
    X(op, u8, u64, u64)                                                                            \
    X(op, u16, u64, u64)                                                                           \
    X(op, u32, u64, u64)                                                                           \
    X(op, u64, u64, u64)                                                                           \
    X(op, f16, f32, f16)                                                                           \
    X(op, bf16, f32, bf16)                                                                         \
    X(op, f32, f32, f32)                                                                           \
    X(op, f64, f64, f64)                                                                           \
    X(op, c64, c64, c64)                                                                           \
    X(op, c128, c128, c128)
#define SC_ORDERS(X, op)                                                                           \
    X(op, truth, u32, truth)                                                                       \
    X(op, i8, i32, i8)                                                                             \
    X(op, i16, i32, i16)                                                                           \
    X(op, i32, i32, i32)                                                                           \
    X(op, i64, i64, i64)                                                                           \
    X(op, u8, u32, u8)                                                                             \
    X(op, u16, u32, u16)                                                                           \
    X(op, u32, u32, u32)                                                                           \
    X(op, u64, u64, u64)                                                                           \
    X(op, f16, f32, f16)                                                                           \
    X(op, bf16, f32, bf16)                                                                         \
    X(op, f32, f32, f32)                                                                           \
    X(op, f64, f64, f64)
#define SC_SCANS(X) SC_FOLDS(X, sum) SC_FOLDS(X, prod) SC_ORDERS(X, min) SC_ORDERS(X, max)

#endif
