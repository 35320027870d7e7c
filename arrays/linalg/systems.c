/* systems.c: linear systems, inverses, determinants, least squares: on top of the factorizations.
**
** A is factored as it lies, which the library sees as A^T: a system is then one with A^T
** transposed, and the inverse of A^T, column by column, is A's row by row. Right sides are columns
** too: a single one needs no turning. Where one matrix meets a batch of right sides, they are more
** columns of one system; where several meet more, the factors are repeated, not the work on
** them. */
#include "arrays/expr/copy.h"
#include "arrays/linalg/job.h"
#include "runtime/base/text.h"

#include <float.h>

static void say_singular(char *buf, size_t cap, int info) {
    tidei_format(buf, cap, "is singular: U(%d, %d) is 0", info, info);
}

/* ---- factors ---- */

typedef struct factors {
    tidei_input a;
    tidei_load load;
    bool trans; /* of the transposed matrix */
    tidei_operand *marks, *copy, *pivots;
} factors;

/* Of square matrices, not empty, as they lie. */
static void factor(tidei_job *j, factors *f) {
    const tidei_batch *b = &f->a.batch;
    int64_t n = f->a.n;
    f->trans = true;
    f->marks = tidei_job_marks(j, b);
    f->copy = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){n, n});
    f->pivots = tidei_job_work(j, TIDE_I64, b, 1, &n);
    tidei_job_load(j, &f->load, &f->a, f->copy, b, n, n, false, 0, f->marks, FA_ALL);
    if (j->status != TIDE_OK) return;
    tidei_lapack x = tidei_job_routine(j, TIDEI_GETRF, n, n, b->count);
    x.a = tidei_mats_of(f->copy, n, n * n);
    x.b = tidei_mats_of(f->pivots, n, n);
    x.info = f->marks->st;
    x.again = tidei_load_again;
    x.again_arg = &f->load;
    tidei_job_lapack(j, &x);
}

/* ---- right sides ---- */

static void same_rows(tidei_job *j, const tidei_input *a, const tidei_input *b, bool vector) {
    char left[192], right[192];
    if (j->status != TIDE_OK || a->m == b->m) return;
    j->status = tidei_fail(
        TIDE_E_SHAPE, j->op, "shapes %s and %s: the matrix has %lld rows, the right side %lld",
        tidei_shape_text(left, sizeof left, a->o->lay.ndim, a->o->lay.shape),
        tidei_shape_text(right, sizeof right, b->o->lay.ndim - vector, b->o->lay.shape),
        (long long)a->m, (long long)b->m);
}

/* A right side, its rows as the matrix has them, and the batch that both make. */
static void right_side(tidei_job *j, tide_array *given, tidei_place place, const tidei_input *a,
                       tidei_input *b, bool *vector, tidei_batch *both) {
    tidei_layout left, right;
    tidei_job_input(j, given, place, b, vector);
    same_rows(j, a, b, *vector);
    if (j->status != TIDE_OK) return;
    tidei_job_types(j, b->o->lay.dtype);
    left = a->o->lay;
    right = b->o->lay;
    left.ndim = a->batch.ndim;
    right.ndim = b->batch.ndim;
    *both = (tidei_batch){.count = 1};
    if (j->status == TIDE_OK) j->status = tidei_broadcast(&both->ndim, both->shape, &left, j->op);
    if (j->status == TIDE_OK) j->status = tidei_broadcast(&both->ndim, both->shape, &right, j->op);
    for (int i = 0; i < both->ndim && j->status == TIDE_OK; i++) both->count *= both->shape[i];
}

/* The solution's place: a column loses its axis where the right side had none. */
static tidei_operand *solution(tidei_job *j, const tidei_batch *both, int64_t n, int64_t k,
                               bool vector) {
    return tidei_job_result(j, j->wide, both, vector ? 1 : 2, (const int64_t[]){n, k});
}

/* Operand o, over the batch b with a tail of its own, repeated over `both`. */
static tidei_operand *repeated(tidei_job *j, const tidei_operand *o, const tidei_batch *both,
                               int ntail, const int64_t *tail) {
    tidei_operand *all = o ? tidei_job_work(j, o->lay.dtype, both, ntail, tail) : NULL;
    if (all) j->status = tidei_store_elements(j->rt, all, o, j->op);
    return all;
}

/* One mark a matrix for the kernels, which look for flags behind as many infos. */
static tidei_operand *repeated_marks(tidei_job *j, const tidei_operand *marks, const tidei_batch *b,
                                     const tidei_batch *both) {
    tidei_operand *all = marks ? tidei_job_marks(j, both) : NULL;
    if (!all) return NULL;
    tidei_operand from = *marks, to = *all;
    from.lay.ndim = b->ndim;
    from.lay.offset = b->count;
    memcpy(from.lay.shape, b->shape, sizeof b->shape);
    tidei_row_major(b->ndim, b->shape, from.lay.strides);
    to.lay.ndim = both->ndim;
    to.lay.offset = both->count;
    memcpy(to.lay.shape, both->shape, sizeof both->shape);
    tidei_row_major(both->ndim, both->shape, to.lay.strides);
    j->status = tidei_store_elements(j->rt, &to, &from, j->op);
    return all;
}

/* x = what solves the systems, over the batch `both`. `marked`: where a matrix was not finite, x is
** not-a-number. No operand is empty. */
static void solve_with(tidei_job *j, const factors *f, const tidei_input *b,
                       const tidei_batch *both, const tidei_operand *x, bool marked) {
    int64_t n = f->a.n, k = b->n, count = both->count;
    bool single = f->a.batch.count == 1, turned = k > 1;
    const tidei_operand *copy = f->copy, *pivots = f->pivots, *marks = marked ? f->marks : NULL,
                        *right = x;
    tidei_load load;
    if (j->status != TIDE_OK) return;
    if (!single && f->a.batch.count != count) {
        copy = repeated(j, copy, both, 2, (const int64_t[]){n, n});
        pivots = repeated(j, pivots, both, 1, &n);
        marks = repeated_marks(j, marks, &f->a.batch, both);
    }
    if (turned) right = tidei_job_work(j, j->wide, both, 2, (const int64_t[]){k, n});
    tidei_job_load(j, &load, b, right, both, n, k, turned, 0, NULL, 0);
    if (j->status != TIDE_OK) return;
    tidei_lapack r = tidei_job_routine(j, TIDEI_GETRS, 0, n, single ? 1 : count);
    r.k = single ? k * count : k;
    r.trans = f->trans;
    r.a = tidei_mats_of(copy, n, n * n);
    r.b = tidei_mats_of(pivots, n, n);
    r.c = tidei_mats_of(right, n, single ? n * k * count : n * k);
    r.again = tidei_load_again;
    r.again_arg = &load;
    tidei_job_lapack(j, &r);
    fa_carry back = {.space = {count, n, k},
                     .out_row = k,
                     .out_col = 1,
                     .out_step = n * k,
                     .in_row = 1,
                     .in_col = n,
                     .in_step = n * k,
                     .flag_step = single ? 0 : 1,
                     .part = FA_ALL};
    if (turned || marked) tidei_job_carry(j, &back, x, right, marks);
}

tide_array *tide_solve(tide_array *a, tide_array *b) {
    static const char op[] = "tide_solve";
    TIDEI_OPERATION(op);
    tidei_job j;
    factors f;
    tidei_input right;
    tidei_batch both;
    bool vector = false;
    if (tidei_no_nulls(op, (tide_array *const[]){a, b}, 2) != TIDE_OK) return NULL;
    tidei_job_begin(&j, op, a, &f.a);
    tidei_job_square(&j, &f.a);
    right_side(&j, b, 2, &f.a, &right, &vector, &both);
    if (j.status == TIDE_OK) {
        tidei_operand *x = solution(&j, &both, f.a.n, right.n, vector);
        if (both.count && f.a.n && right.n && j.status == TIDE_OK) {
            factor(&j, &f);
            solve_with(&j, &f, &right, &both, x, false);
            tidei_job_check(&j, f.marks, &f.a.batch, TIDE_E_SINGULAR, say_singular);
        }
    }
    return tidei_job_end(&j) == TIDE_OK ? j.made[0] : NULL;
}

/* Converts a user's pivots, of any integer type and counting from 0, to what the factors need. */
static void load_pivots(tidei_job *j, tide_array *given, factors *f) {
    char left[192], right[192];
    tidei_operand *o = &j->held[j->nheld];
    if (j->status != TIDE_OK) return;
    j->status = tidei_operand_get_of(j->rt, given, j->op, 2, o);
    if (j->status != TIDE_OK) return;
    j->nheld++;
    const tidei_layout *p = &o->lay, *a = &f->a.o->lay;
    tidei_kind kind = tidei_dtype_kind(p->dtype);
    if (kind != TIDEI_KIND_INT && kind != TIDEI_KIND_UINT)
        j->status = tidei_fail(TIDE_E_DTYPE, j->op, "pivots are %s; wanted an integer type",
                               tide_dtype_name(p->dtype));
    else if (p->ndim != a->ndim - 1 || !tidei_same_dims(p->ndim, p->shape, a->shape))
        j->status = tidei_fail(TIDE_E_SHAPE, j->op, "factors of shape %s with pivots of shape %s",
                               tidei_shape_text(left, sizeof left, a->ndim, a->shape),
                               tidei_shape_text(right, sizeof right, p->ndim, p->shape));
    f->pivots = tidei_job_work(j, TIDE_I64, &f->a.batch, 1, &f->a.n);
    if (j->status == TIDE_OK) j->status = tidei_store_elements(j->rt, f->pivots, o, j->op);
}

tide_array *tide_lu_solve(tide_array *lu, tide_array *pivots, tide_array *b) {
    static const char op[] = "tide_lu_solve";
    TIDEI_OPERATION(op);
    tidei_job j;
    factors f = {.trans = false};
    tidei_input right;
    tidei_batch both;
    bool vector = false;
    if (tidei_no_nulls(op, (tide_array *const[]){lu, pivots, b}, 3) != TIDE_OK) return NULL;
    tidei_job_begin(&j, op, lu, &f.a);
    tidei_job_square(&j, &f.a);
    load_pivots(&j, pivots, &f);
    right_side(&j, b, 3, &f.a, &right, &vector, &both);
    if (j.status == TIDE_OK) {
        const tidei_batch *one = &f.a.batch;
        int64_t n = f.a.n;
        tidei_operand *x = solution(&j, &both, n, right.n, vector);
        if (both.count && n && right.n && j.status == TIDE_OK) {
            f.marks = tidei_job_marks(&j, one);
            f.copy = tidei_job_work(&j, j.wide, one, 2, (const int64_t[]){n, n});
            tidei_job_load(&j, &f.load, &f.a, f.copy, one, n, n, true, 0, f.marks, FA_ALL);
            tidei_job_pivots(&j, f.pivots, NULL, f.marks, one->count, n, 1, n);
            solve_with(&j, &f, &right, &both, x, true);
        }
    }
    return tidei_job_end(&j) == TIDE_OK ? j.made[0] : NULL;
}

/* ---- inverses ---- */

tide_array *tide_inv(tide_array *a) {
    static const char op[] = "tide_inv";
    TIDEI_OPERATION(op);
    tidei_job j;
    factors f;
    tidei_load ones;
    tidei_job_begin(&j, op, a, &f.a);
    tidei_job_square(&j, &f.a);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        int64_t n = f.a.n;
        tidei_operand *x = tidei_job_result(&j, j.wide, b, 2, (const int64_t[]){n, n});
        if (b->count && n && j.status == TIDE_OK) {
            factor(&j, &f);
            tidei_job_load(&j, &ones, NULL, x, b, n, n, false, 0, NULL, 0);
        }
        if (b->count && n && j.status == TIDE_OK) {
            tidei_lapack r = tidei_job_routine(&j, TIDEI_GETRS, 0, n, b->count);
            r.k = n;
            r.a = tidei_mats_of(f.copy, n, n * n);
            r.b = tidei_mats_of(f.pivots, n, n);
            r.c = tidei_mats_of(x, n, n * n);
            r.again = tidei_load_again;
            r.again_arg = &ones;
            tidei_job_lapack(&j, &r);
            tidei_job_check(&j, f.marks, b, TIDE_E_SINGULAR, say_singular);
        }
    }
    return tidei_job_end(&j) == TIDE_OK ? j.made[0] : NULL;
}

/* ---- determinants ---- */

/* `logs` NULL: det, else its sign and the logarithm of its modulus. */
static void determinants(tidei_job *j, const factors *f, const tidei_operand *det,
                         const tidei_operand *logs) {
    static const tidei_own_kernel forms[4] = TIDEI_FACTOR_KERNELS(factor_det);
    static const size_t at[] = {offsetof(fa_det, det), offsetof(fa_det, lu),
                                offsetof(fa_det, pivots), offsetof(fa_det, flags),
                                offsetof(fa_det, logs)};
    if (j->status != TIDE_OK) return;
    fa_det k = {.space = {f->a.batch.count, 1, 1},
                .flags = (fa_u64)f->a.batch.count * sizeof(int32_t),
                .n = f->a.n,
                .apart = logs != NULL};
    const tidei_use uses[] = {
        tidei_operand_use(det, TIDEI_WRITE), tidei_operand_use(f->copy, TIDEI_READ),
        tidei_operand_use(f->pivots, TIDEI_READ), tidei_operand_use(f->marks, TIDEI_READ),
        tidei_operand_use(logs ? logs : det, TIDEI_WRITE)};
    tidei_job_own(j, tidei_factor_kernel(forms, j->wide), uses, logs ? 5 : 4, &k, sizeof k, at,
                  &k.space);
}

/* Determinants of matrices without elements are 1. */
static void fill_ones(tidei_job *j, const tidei_operand *o) {
    unsigned char one[16];
    if (j->status == TIDE_OK) j->status = tidei_encode(tide_arg_int(1), o->lay.dtype, j->op, one);
    if (j->status == TIDE_OK && tidei_layout_size(&o->lay))
        j->status = tidei_submit_fill(j->stream, o->st, 0, one, tide_dtype_size(o->lay.dtype),
                                      (size_t)tidei_layout_size(&o->lay), j->op);
}

static void det_and_logs(tidei_job *j, factors *f, const tidei_operand *det,
                         const tidei_operand *logs) {
    if (j->status != TIDE_OK || !f->a.batch.count) return;
    if (f->a.n) {
        factor(j, f);
        determinants(j, f, det, logs);
    } else {
        fill_ones(j, det);
        if (logs) tidei_job_zero(j, logs);
    }
}

tide_array *tide_det(tide_array *a) {
    static const char op[] = "tide_det";
    TIDEI_OPERATION(op);
    tidei_job j;
    factors f;
    tidei_job_begin(&j, op, a, &f.a);
    tidei_job_square(&j, &f.a);
    if (j.status == TIDE_OK)
        det_and_logs(&j, &f, tidei_job_result(&j, j.wide, &f.a.batch, 0, NULL), NULL);
    return tidei_job_end(&j) == TIDE_OK ? j.made[0] : NULL;
}

tide_status tide_slogdet(tide_array *a, tide_array **sign, tide_array **logabs) {
    static const char op[] = "tide_slogdet";
    TIDEI_OPERATION(op);
    tidei_job j;
    factors f;
    int which_sign, which_logs;
    tidei_job_begin(&j, op, a, &f.a);
    tidei_job_square(&j, &f.a);
    if (j.status == TIDE_OK && !sign && !logabs)
        j.status = tidei_fail(TIDE_E_INVALID, op, "no result is wanted: all pointers are NULL");
    if (j.status == TIDE_OK) {
        tidei_operand *det = tidei_job_place(&j, sign, &which_sign, j.wide, &f.a.batch, 0, NULL);
        tidei_operand *logs = tidei_job_place(&j, logabs, &which_logs, j.real, &f.a.batch, 0, NULL);
        det_and_logs(&j, &f, det, logs);
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, sign, which_sign);
    tidei_job_give(&j, logabs, which_logs);
    return TIDE_OK;
}

/* ---- least squares ---- */

/* One call of it: a = U S V^H, x = V S^+ U^H b. */
typedef struct least_squares {
    tidei_svd svd;
    tidei_input b;
    tidei_batch both;
    int64_t least;
    double rcond;
    bool tall; /* then U and V^H lie column by column */
    tidei_operand *u, *vh, *s, *rank, *x;
} least_squares;

/* V^H becomes what U^H b is multiplied by: conjugated, divided by the values, without those that
** count as 0. */
static void cut_off(tidei_job *j, const least_squares *f) {
    static const tidei_own_kernel forms[4] = TIDEI_FACTOR_KERNELS(factor_cut);
    static const size_t at[] = {offsetof(fa_cut, vectors), offsetof(fa_cut, values),
                                offsetof(fa_cut, rank)};
    int64_t n = f->svd.a.n, r = f->least;
    if (j->status != TIDE_OK) return;
    fa_cut k = {.space = {f->svd.a.batch.count, r, n},
                .row = f->tall ? 1 : n,
                .col = f->tall ? r : 1,
                .step = r * n,
                .rcond = f->rcond};
    const tidei_use uses[] = {tidei_operand_use(f->vh, TIDEI_READ | TIDEI_WRITE),
                              tidei_operand_use(f->s, TIDEI_READ),
                              tidei_operand_use(f->rank, TIDEI_WRITE)};
    tidei_job_own(j, tidei_factor_kernel(forms, j->wide), uses, 3, &k, sizeof k, at, &k.space);
}

/* Row by row, for a row is one warp's on the device. */
static void conjugate(tidei_job *j, const tidei_operand *o) {
    if (j->status != TIDE_OK || j->wide == j->real) return;
    int64_t cols = o->lay.shape[o->lay.ndim - 1], rows = tidei_layout_size(&o->lay) / cols;
    fa_carry k = {.space = {1, rows, cols},
                  .out_row = cols,
                  .out_col = 1,
                  .in_row = cols,
                  .in_col = 1,
                  .part = FA_ALL,
                  .conj = 1};
    tidei_job_carry(j, &k, o, o, NULL);
}

/* A matrix of a product over the batch `both`: that of a's batch, or dense over `both`. */
static tidei_matrix factor_of(const tidei_operand *o, const tidei_batch *own,
                              const tidei_batch *both, int64_t ld, bool trans, int64_t step) {
    tidei_matrix x = {.st = o->st, .ld = ld, .trans = trans};
    tidei_layout l = {.ndim = own->ndim};
    memcpy(l.shape, own->shape, sizeof own->shape);
    for (int i = own->ndim; i-- > 0; step *= own->shape[i]) l.strides[i] = step;
    tidei_broadcast_strides(&l, both->ndim, both->shape, x.batch);
    return x;
}

/* c (rows x cols) = factor (rows x inner) times b (inner x cols), over the batch. */
static void multiply(tidei_job *j, const tidei_batch *both, int64_t rows, int64_t cols,
                     int64_t inner, tidei_matrix a, const tidei_operand *b,
                     const tidei_operand *c) {
    tidei_gemm g = {
        .dtype = j->wide, .m = rows, .n = cols, .k = inner, .nbatch = both->ndim, .alpha = {1}};
    if (j->status != TIDE_OK) return;
    memcpy(g.batch, both->shape, sizeof both->shape);
    g.a = a;
    g.b = factor_of(b, both, both, cols, false, inner * cols);
    g.c = factor_of(c, both, both, cols, false, rows * cols);
    tidei_gemm_begin(j->stream->dev);
    j->status = tidei_gemm_batched(j->stream, &g, j->op);
    tidei_gemm_end(j->stream->dev);
}

static void project(tidei_job *j, const least_squares *f) {
    const tidei_batch *own = &f->svd.a.batch, *both = &f->both;
    int64_t m = f->svd.a.m, n = f->svd.a.n, r = f->least, k = f->b.n;
    tidei_load load;
    tidei_operand *right = tidei_job_work(j, j->wide, both, 2, (const int64_t[]){m, k});
    tidei_operand *y = tidei_job_work(j, j->wide, both, 2, (const int64_t[]){r, k});
    tidei_job_load(j, &load, &f->b, right, both, m, k, false, 0, NULL, 0);
    conjugate(j, f->u);
    if (j->status != TIDE_OK) return;
    multiply(j, both, r, k, m, factor_of(f->u, own, both, f->tall ? m : r, !f->tall, m * r), right,
             y);
    multiply(j, both, n, k, r, factor_of(f->vh, own, both, f->tall ? r : n, !f->tall, n * r), y,
             f->x);
}

static void fit(tidei_job *j, least_squares *f) {
    const tidei_batch *own = &f->svd.a.batch;
    int64_t m = f->svd.a.m, n = f->svd.a.n, r = f->least;
    bool solves = f->both.count && f->b.n;
    if (own->count && r && j->status == TIDE_OK) {
        f->u = tidei_job_work(j, j->wide, own, 2, (const int64_t[]){m, r});
        f->vh = tidei_job_work(j, j->wide, own, 2, (const int64_t[]){r, n});
        tidei_job_svd(j, &f->svd, 'S', f->u, f->s, f->vh);
        cut_off(j, f);
        if (solves) project(j, f);
        tidei_job_check(j, f->svd.marks, own, TIDE_E_CONVERGENCE, tidei_say_no_values);
    } else if (j->status == TIDE_OK) { /* nothing is left, and the least solution is 0 */
        tidei_job_zero(j, f->x);
        tidei_job_zero(j, f->rank);
    }
}

tide_status tide_lstsq(tide_array *a, tide_array *b, double rcond, tide_array **x,
                       tide_array **rank, tide_array **s) {
    static const char op[] = "tide_lstsq";
    TIDEI_OPERATION(op);
    tidei_job j;
    least_squares f = {.rcond = rcond};
    bool vector = false;
    int number[3];
    tide_status given = tidei_no_nulls(op, (tide_array *const[]){a, b}, 2);
    if (given != TIDE_OK) return given;
    tidei_job_begin(&j, op, a, &f.svd.a);
    right_side(&j, b, 2, &f.svd.a, &f.b, &vector, &f.both);
    if (j.status == TIDE_OK && !x && !rank && !s)
        j.status = tidei_fail(TIDE_E_INVALID, op, "no result is wanted: all pointers are NULL");
    if (j.status == TIDE_OK && rcond != rcond)
        j.status = tidei_fail(TIDE_E_INVALID, op, "rcond is not a number");
    if (j.status == TIDE_OK) {
        const tidei_batch *own = &f.svd.a.batch;
        int64_t m = f.svd.a.m, n = f.svd.a.n;
        f.tall = m > n;
        f.least = m < n ? m : n;
        if (rcond < 0)
            f.rcond = (double)(m > n ? m : n) * (j.real == TIDE_F32 ? FLT_EPSILON : DBL_EPSILON);
        f.x = tidei_job_place(&j, x, &number[0], j.wide, &f.both, vector ? 1 : 2,
                              (const int64_t[]){n, f.b.n});
        f.rank = tidei_job_place(&j, rank, &number[1], TIDE_I64, own, 0, NULL);
        f.s = tidei_job_place(&j, s, &number[2], j.real, own, 1, &f.least);
        fit(&j, &f);
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, x, number[0]);
    tidei_job_give(&j, rank, number[1]);
    tidei_job_give(&j, s, number[2]);
    return TIDE_OK;
}
