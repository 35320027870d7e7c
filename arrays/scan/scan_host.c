/* scan_host.c: scans on the host: one element after the other, up to 64 lines side by side, so that
** lines across memory do not fetch each of its lines for one element. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "arrays/scan/scan.h"

#define TD_COMPLEX
#include "arrays/expr/prelude.h"
#include "arrays/scan/scan_ops.h"

enum { ABREAST = 64 };

/* Where `line` begins, and how many from it on lie side by side, at most ABREAST: *apart from each
** other in the source. */
static sc_i64 place(const sc_scan *p, sc_i64 line, sc_i64 *in, sc_i64 *out, sc_i64 *apart) {
    sc_i64 rest = line, last = p->ndim - 1, left = p->inner - line % p->inner, n;
    n = p->shape[last] - line % p->shape[last];
    *in = 0;
    for (sc_i64 d = last; d >= 0; d--) {
        *in += rest % p->shape[d] * p->strides[d];
        rest /= p->shape[d];
    }
    *out = line / p->inner * p->places * p->inner + line % p->inner;
    *apart = p->strides[last];
    if (n > left) n = left;
    return n < ABREAST ? n : ABREAST;
}

/* Values of the interpreter: those of f16 and bf16 are floats. */
#define VALUE_truth     td_truth
#define VALUE_i8        td_i8
#define VALUE_i16       td_i16
#define VALUE_i32       td_i32
#define VALUE_i64       td_i64
#define VALUE_u8        td_u8
#define VALUE_u16       td_u16
#define VALUE_u32       td_u32
#define VALUE_u64       td_u64
#define VALUE_f16       td_f32
#define VALUE_bf16      td_f32
#define VALUE_f32       td_f32
#define VALUE_f64       td_f64
#define VALUE_c64       td_c64
#define VALUE_c128      td_c128
#define LOAD_truth      SC_LOAD_truth
#define LOAD_i8         SC_LOAD_i8
#define LOAD_i16        SC_LOAD_i16
#define LOAD_i32        SC_LOAD_i32
#define LOAD_i64        SC_LOAD_i64
#define LOAD_u8         SC_LOAD_u8
#define LOAD_u16        SC_LOAD_u16
#define LOAD_u32        SC_LOAD_u32
#define LOAD_u64        SC_LOAD_u64
#define LOAD_f16(A, x)  (x)
#define LOAD_bf16(A, x) (x)
#define LOAD_f32        SC_LOAD_f32
#define LOAD_f64        SC_LOAD_f64
#define LOAD_c64        SC_LOAD_c64
#define LOAD_c128       SC_LOAD_c128

#define SCAN(op, T, A, O)                                                                          \
    static void lines_##op##_##T(const sc_scan *p, const td_##T *in, td_##O *out, sc_i64 n,        \
                                 sc_i64 apart) {                                                   \
        td_##A so_far[ABREAST];                                                                    \
        for (sc_i64 j = 0; p->initial && j < n; j++)                                               \
            out[j - p->out_step] = SC_STORE(O, sc_none_##op##_##T());                              \
        for (sc_i64 j = 0; j < n; j++) {                                                           \
            so_far[j] = SC_LOAD(T, A, in[j * apart]);                                              \
            out[j] = SC_STORE(O, so_far[j]);                                                       \
        }                                                                                          \
        for (sc_i64 i = 1; i < p->n; i++)                                                          \
            for (sc_i64 j = 0; j < n; j++) {                                                       \
                so_far[j] = sc_##op##_##A(so_far[j], SC_LOAD(T, A, in[i * p->step + j * apart]));  \
                out[i * p->out_step + j] = SC_STORE(O, so_far[j]);                                 \
            }                                                                                      \
    }                                                                                              \
    static void step_##op##_##T(td_##A *restrict so_far, const VALUE_##T *restrict x,              \
                                td_##O *restrict y, size_t lines, size_t apart) {                  \
        for (size_t j = 0; j < lines; j++) {                                                       \
            so_far[j] = sc_##op##_##A(so_far[j], LOAD_##T(A, x[j * apart]));                       \
            y[j * apart] = SC_STORE(O, so_far[j]);                                                 \
        }                                                                                          \
    }                                                                                              \
    static void lanes_##op##_##T(const tidei_scan_lanes *l) {                                      \
        td_##A *so_far = l->so_far, one;                                                           \
        const VALUE_##T *x = l->x;                                                                 \
        td_##O *y = l->y;                                                                          \
        for (size_t j = 0; l->begins && j < l->lines; j++) {                                       \
            so_far[j] = LOAD_##T(A, x[j * l->apart]);                                              \
            y[j * l->apart] = SC_STORE(O, so_far[j]);                                              \
        }                                                                                          \
        one = so_far[0]; /* of a line alone, in a register */                                      \
        for (size_t i = l->begins; i < l->n; i++) {                                                \
            if (l->lines > 1) {                                                                    \
                step_##op##_##T(so_far, x + i * l->step, y + i * l->step, l->lines, l->apart);     \
                continue;                                                                          \
            }                                                                                      \
            one = sc_##op##_##A(one, LOAD_##T(A, x[i * l->step]));                                 \
            y[i * l->step] = SC_STORE(O, one);                                                     \
        }                                                                                          \
        if (l->lines == 1) so_far[0] = one;                                                        \
    }                                                                                              \
    static void none_##op##_##T(void *element) {                                                   \
        *(td_##O *)element = SC_STORE(O, sc_none_##op##_##T());                                    \
    }                                                                                              \
    static void scan_##op##_##T(const void *params) {                                              \
        const sc_scan *p = params;                                                                 \
        for (sc_i64 line = 0, n, in, out, apart; line < p->lines; line += n) {                     \
            n = place(p, line, &in, &out, &apart);                                                 \
            lines_##op##_##T(p, (const td_##T *)p->in + in, (td_##O *)p->out + out, n, apart);     \
        }                                                                                          \
    }
SC_SCANS(SCAN)

extern const char tidei_scan_text[];

#define KERNEL(form, op, T)                                                                        \
    { "scan_" #form "_" #op "_" #T, tidei_scan_text, scan_##op##_##T, false }
#define KERNELS(op, T, A, O)                                                                       \
    {TIDEI_SCAN_##op,                                                                              \
     TYPE_##T,                                                                                     \
     TYPE_##A,                                                                                     \
     TYPE_##O,                                                                                     \
     none_##op##_##T,                                                                              \
     lanes_##op##_##T,                                                                             \
     {KERNEL(rows, op, T), KERNEL(short, op, T), KERNEL(tiles, op, T), KERNEL(columns, op, T),     \
      KERNEL(column_sums, op, T), KERNEL(bands, op, T)}},
#define TYPE_truth TIDE_BOOL
#define TYPE_i8    TIDE_I8
#define TYPE_i16   TIDE_I16
#define TYPE_i32   TIDE_I32
#define TYPE_i64   TIDE_I64
#define TYPE_u8    TIDE_U8
#define TYPE_u16   TIDE_U16
#define TYPE_u32   TIDE_U32
#define TYPE_u64   TIDE_U64
#define TYPE_f16   TIDE_F16
#define TYPE_bf16  TIDE_BF16
#define TYPE_f32   TIDE_F32
#define TYPE_f64   TIDE_F64
#define TYPE_c64   TIDE_C64
#define TYPE_c128  TIDE_C128
static const tidei_scan_kind kinds[] = {SC_SCANS(KERNELS)};

const tidei_scan_kind *tidei_scan_find(int fold, tide_dtype t) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].fold == fold && kinds[i].in == t) return &kinds[i];
    return NULL;
}
