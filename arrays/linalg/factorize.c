/* factorize.c: LU, Cholesky, QR, singular values, eigenvalues: which way the elements lie for the
** library, and come out.
**
** A row-major matrix A, read column by column, is A^T. So where a factorization of A^T gives A's as
** well, A is copied as it is: the Cholesky factor and the eigenvalues of a Hermitian matrix, which
** read so is its conjugate with the triangles exchanged; the singular values of one that has no
** more rows than columns, where U and V^H exchange their places and come out row-major. LU and QR,
** and tall matrices' singular values, take turned copies, and turn what comes out. */
#include "arrays/linalg/job.h"
#include "runtime/base/text.h"

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static tide_status no_results(const char *op) {
    return tidei_fail(TIDE_E_INVALID, op, "no result is wanted: all pointers are NULL");
}

/* ---- LU ---- */

/* What both forms begin with: a turned copy, factored; pivots, which count from 0 at the end. */
typedef struct lu {
    tidei_input a;
    tidei_load load;
    int64_t least;
    tidei_operand *marks, *copy;
} lu;

static void lu_factor(tidei_job *j, lu *f, const tidei_operand *pivots) {
    const tidei_batch *b = &f->a.batch;
    int64_t m = f->a.m, n = f->a.n;
    f->marks = tidei_job_marks(j, b);
    f->copy = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){n, m});
    if (j->status != TIDE_OK || !b->count || !f->least) return;
    tidei_job_load(j, &f->load, &f->a, f->copy, b, m, n, true, 0, f->marks, FA_ALL);
    tidei_lapack x = tidei_job_routine(j, TIDEI_GETRF, m, n, b->count);
    x.a = tidei_mats_of(f->copy, m, m * n);
    x.b = tidei_mats_of(pivots, f->least, f->least);
    x.info = f->marks->st;
    x.again = tidei_load_again;
    x.again_arg = &f->load;
    tidei_operand *narrow = NULL;
    x.narrow = tidei_lapack_narrow(j->stream, &x);
    if (x.narrow) {
        narrow = tidei_job_work(j, TIDE_I32, b, 1, &f->least);
        x.b.st = narrow ? narrow->st : NULL;
    }
    tidei_job_lapack(j, &x);
    tidei_job_pivots(j, pivots, narrow, f->marks, b->count, f->least, -1, 0);
}

tide_status tide_lu_factor(tide_array *a, tide_array **lu_out, tide_array **pivots_out) {
    static const char op[] = "tide_lu_factor";
    TIDEI_OPERATION(op);
    tidei_job j;
    lu f;
    int which_lu, which_pivots;
    tidei_job_begin(&j, op, a, &f.a);
    if (j.status == TIDE_OK && !lu_out && !pivots_out) j.status = no_results(op);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        const int64_t shape[] = {f.a.m, f.a.n};
        f.least = lesser(f.a.m, f.a.n);
        tidei_operand *out = tidei_job_place(&j, lu_out, &which_lu, j.wide, b, 2, shape);
        tidei_operand *pivots =
            tidei_job_place(&j, pivots_out, &which_pivots, TIDE_I64, b, 1, &f.least);
        lu_factor(&j, &f, pivots);
        tidei_job_unturn(&j, out, f.copy, b->count, f.a.m, f.a.n, f.a.m, f.a.m * f.a.n, FA_ALL,
                         f.marks);
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, lu_out, which_lu);
    tidei_job_give(&j, pivots_out, which_pivots);
    return TIDE_OK;
}

static void order_rows(tidei_job *j, const lu *f, const tidei_operand *order,
                       const tidei_operand *pivots) {
    static const tidei_own_kernel kernel = TIDEI_FACTOR_KERNEL(factor_order);
    static const size_t at[] = {offsetof(fa_order, order), offsetof(fa_order, pivots)};
    if (j->status != TIDE_OK) return;
    fa_order k = {.space = {f->a.batch.count, f->a.m > 0, 1}, .m = f->a.m, .npivots = f->least};
    const tidei_use uses[] = {tidei_operand_use(order, TIDEI_READ | TIDEI_WRITE),
                              tidei_operand_use(pivots, TIDEI_READ)};
    tidei_job_own(j, &kernel, uses, 2, &k, sizeof k, at, &k.space);
}

/* L's part of the factors, with its ones. */
static void lower_factor(tidei_job *j, const lu *f, const tidei_operand *out) {
    int64_t m = f->a.m, n = f->least;
    fa_carry k = {.space = {f->a.batch.count, m, n},
                  .out_row = n,
                  .out_col = 1,
                  .out_step = m * n,
                  .in_row = 1,
                  .in_col = m,
                  .in_step = m * f->a.n,
                  .flag_step = 1,
                  .part = FA_LOWER,
                  .unit = 1};
    tidei_job_carry(j, &k, out, f->copy, f->marks);
}

tide_status tide_lu(tide_array *a, tide_array **perm, tide_array **l, tide_array **u) {
    static const char op[] = "tide_lu";
    TIDEI_OPERATION(op);
    tidei_job j;
    lu f;
    int number[3];
    tidei_job_begin(&j, op, a, &f.a);
    if (j.status == TIDE_OK && !perm && !l && !u) j.status = no_results(op);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        int64_t m = f.a.m, n = f.a.n, least = f.least = lesser(m, n);
        tidei_operand *order = tidei_job_place(&j, perm, &number[0], TIDE_I64, b, 1, &m);
        tidei_operand *lower =
            tidei_job_place(&j, l, &number[1], j.wide, b, 2, (const int64_t[]){m, least});
        tidei_operand *upper =
            tidei_job_place(&j, u, &number[2], j.wide, b, 2, (const int64_t[]){least, n});
        tidei_operand *pivots = tidei_job_work(&j, TIDE_I64, b, 1, &least);
        lu_factor(&j, &f, pivots);
        order_rows(&j, &f, order, pivots);
        lower_factor(&j, &f, lower);
        tidei_job_unturn(&j, upper, f.copy, b->count, least, n, m, m * n, FA_DIAGONAL | FA_UPPER,
                         f.marks);
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, perm, number[0]);
    tidei_job_give(&j, l, number[1]);
    tidei_job_give(&j, u, number[2]);
    return TIDE_OK;
}

/* ---- Cholesky ---- */

static void check_triangle(tidei_job *j, int how) {
    if (j->status == TIDE_OK && how != TIDE_LOWER && how != TIDE_UPPER)
        j->status =
            tidei_fail(TIDE_E_INVALID, j->op, "how is %d, none of TIDE_LOWER, TIDE_UPPER", how);
}

static int triangle(int how) { return FA_DIAGONAL | (how == TIDE_LOWER ? FA_LOWER : FA_UPPER); }

static void say_not_positive(char *buf, size_t cap, int info) {
    tidei_format(buf, cap,
                 "is not positive definite: its leading minor of order %d is not positive", info);
}

tide_array *tide_cholesky(tide_array *a, int how) {
    static const char op[] = "tide_cholesky";
    TIDEI_OPERATION(op);
    tidei_job j;
    tidei_input x;
    tidei_load load;
    tide_array *made = NULL;
    tidei_job_begin(&j, op, a, &x);
    check_triangle(&j, how);
    tidei_job_square(&j, &x);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &x.batch;
        int64_t n = x.n;
        tidei_operand *out = tidei_job_result(&j, j.wide, b, 2, (const int64_t[]){n, n});
        tidei_operand *marks = tidei_job_marks(&j, b);
        if (b->count && n && j.status == TIDE_OK) {
            fa_carry k = {.space = {b->count, n, n},
                          .out_row = n,
                          .out_col = 1,
                          .out_step = n * n,
                          .in_row = n,
                          .in_col = 1,
                          .in_step = n * n,
                          .part = triangle(how)};
            tidei_job_load(&j, &load, &x, out, b, n, n, false, 0, marks, triangle(how));
            tidei_lapack p = tidei_job_routine(&j, TIDEI_POTRF, n, n, b->count);
            p.upper = how == TIDE_LOWER;
            p.a = tidei_mats_of(out, n, n * n);
            p.info = marks->st;
            p.again = tidei_load_again;
            p.again_arg = &load;
            tidei_job_lapack(&j, &p);
            tidei_job_carry(&j, &k, out, out, NULL);
            tidei_job_check(&j, marks, b, TIDE_E_SINGULAR, say_not_positive);
        }
    }
    if (tidei_job_end(&j) == TIDE_OK) made = j.made[0];
    return made;
}

/* ---- QR ---- */

static void check_mode(tidei_job *j, int mode) {
    if (j->status == TIDE_OK && mode != TIDE_REDUCED && mode != TIDE_COMPLETE)
        j->status = tidei_fail(TIDE_E_INVALID, j->op,
                               "mode is %d, none of TIDE_REDUCED, TIDE_COMPLETE", mode);
}

typedef struct qr {
    tidei_input a;
    tidei_load load;
    int64_t least, columns; /* of q; 0 where it is not wanted */
    int64_t step;           /* of the copy: q takes the place of the reflectors */
    tidei_operand *marks, *copy, *tau;
    tidei_job *j;
} qr;

static void find_reflectors(qr *f) {
    tidei_lapack x = tidei_job_routine(f->j, TIDEI_GEQRF, f->a.m, f->a.n, f->a.batch.count);
    x.a = tidei_mats_of(f->copy, f->a.m, f->step);
    x.b = tidei_mats_of(f->tau, f->least, f->least);
    x.again = tidei_load_again;
    x.again_arg = &f->load;
    tidei_job_lapack(f->j, &x);
}

static tide_status reflectors_again(void *arg) {
    qr *f = arg;
    if (tidei_load_again(&f->load) == TIDE_OK) find_reflectors(f);
    return f->j->status;
}

static void qr_factor(qr *f, const tidei_operand *q, const tidei_operand *r, int64_t r_rows) {
    tidei_job *j = f->j;
    const tidei_batch *b = &f->a.batch;
    int64_t m = f->a.m, n = f->a.n;
    f->step = m * (f->columns > n ? f->columns : n);
    f->marks = tidei_job_marks(j, b);
    f->copy = tidei_job_work(j, j->wide, b, 1, &f->step);
    f->tau = tidei_job_work(j, j->wide, b, 1, &f->least);
    tidei_job_load(j, &f->load, &f->a, f->copy, b, m, n, true, f->step, f->marks, FA_ALL);
    find_reflectors(f);
    if (r)
        tidei_job_unturn(j, r, f->copy, b->count, r_rows, n, m, f->step, FA_DIAGONAL | FA_UPPER,
                         f->marks);
    if (!q || j->status != TIDE_OK) return;
    tidei_lapack x = tidei_job_routine(j, TIDEI_ORGQR, m, f->columns, b->count);
    x.k = f->least;
    x.a = tidei_mats_of(f->copy, m, f->step);
    x.b = tidei_mats_of(f->tau, f->least, f->least);
    x.again = reflectors_again;
    x.again_arg = f;
    tidei_job_lapack(j, &x);
    tidei_job_unturn(j, q, f->copy, b->count, m, f->columns, m, f->step, FA_ALL, f->marks);
}

tide_status tide_qr(tide_array *a, int mode, tide_array **q, tide_array **r) {
    static const char op[] = "tide_qr";
    TIDEI_OPERATION(op);
    tidei_job j;
    qr f = {.j = &j};
    int which_q = -1, which_r = -1;
    tidei_job_begin(&j, op, a, &f.a);
    check_mode(&j, mode);
    if (j.status == TIDE_OK && !q && !r) j.status = no_results(op);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        int64_t m = f.a.m, n = f.a.n;
        tidei_operand *out_q = NULL, *out_r = NULL;
        f.least = lesser(m, n);
        int64_t inner = mode == TIDE_COMPLETE ? m : f.least;
        f.columns = q ? inner : 0;
        if (q) out_q = tidei_job_place(&j, q, &which_q, j.wide, b, 2, (const int64_t[]){m, inner});
        if (r) out_r = tidei_job_place(&j, r, &which_r, j.wide, b, 2, (const int64_t[]){inner, n});
        if (b->count && f.least && j.status == TIDE_OK) qr_factor(&f, out_q, out_r, inner);
        /* square where n is 0: there is nothing to be orthogonal to */
        else if (out_q && j.status == TIDE_OK)
            tidei_job_identity(&j, out_q, b->count, f.columns);
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, q, which_q);
    tidei_job_give(&j, r, which_r);
    return TIDE_OK;
}

/* ---- singular values ---- */

void tidei_say_no_values(char *buf, size_t cap, int info) {
    tidei_format(buf, cap, "has singular values that did not converge (%d)", info);
}

void tidei_job_svd(tidei_job *j, tidei_svd *f, char job, const tidei_operand *u,
                   const tidei_operand *s, const tidei_operand *vh) {
    const tidei_batch *b = &f->a.batch;
    int64_t m = f->a.m, n = f->a.n, longer = m > n ? m : n, least = lesser(m, n);
    bool tall = m > n;
    f->marks = tidei_job_marks(j, b);
    f->copy = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){least, longer});
    tidei_job_load(j, &f->load, &f->a, f->copy, b, m, n, tall, 0, f->marks, FA_ALL);
    if (j->status != TIDE_OK) return;
    int64_t columns = job == 'A' ? longer : least;
    tidei_lapack x = tidei_job_routine(j, TIDEI_GESVD, longer, least, b->count);
    x.job = job;
    x.a = tidei_mats_of(f->copy, longer, longer * least);
    x.b = tidei_mats_of(s, least, least);
    if (job != 'N') {
        x.c = tidei_mats_of(tall ? u : vh, longer, longer * columns);
        x.d = tidei_mats_of(tall ? vh : u, least, least * least);
    }
    x.info = f->marks->st;
    x.again = tidei_load_again;
    x.again_arg = &f->load;
    tidei_job_lapack(j, &x);
}

/* The vectors of a tall matrix come by columns. */
static void svd_into(tidei_job *j, tidei_svd *f, char job, const tidei_operand *u,
                     const tidei_operand *s, const tidei_operand *vh) {
    const tidei_batch *b = &f->a.batch;
    int64_t m = f->a.m, n = f->a.n, columns = job == 'A' ? m : n;
    if (job == 'N' || m <= n) {
        tidei_job_svd(j, f, job, u, s, vh);
        return;
    }
    tidei_operand *turned_u = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){columns, m});
    tidei_operand *turned_vh = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){n, n});
    tidei_job_svd(j, f, job, turned_u, s, turned_vh);
    tidei_job_unturn(j, u, turned_u, b->count, m, columns, m, m * columns, FA_ALL, NULL);
    tidei_job_unturn(j, vh, turned_vh, b->count, n, n, n, n * n, FA_ALL, NULL);
}

tide_status tide_svd(tide_array *a, int mode, tide_array **u, tide_array **s, tide_array **vh) {
    static const char op[] = "tide_svd";
    TIDEI_OPERATION(op);
    tidei_job j;
    tidei_svd f;
    int number[3] = {-1, -1, -1};
    tidei_job_begin(&j, op, a, &f.a);
    check_mode(&j, mode);
    if (j.status == TIDE_OK && !u && !s && !vh) j.status = no_results(op);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        int64_t m = f.a.m, n = f.a.n, least = lesser(m, n);
        /* the other one is square in any case */
        bool vectors = u || vh, larger = m > n ? u != NULL : vh != NULL;
        bool complete = mode == TIDE_COMPLETE && larger;
        const int64_t left[] = {m, complete ? m : least}, right[] = {complete ? n : least, n};
        tidei_operand *out_u = NULL, *out_vh = NULL;
        if (vectors) out_u = tidei_job_place(&j, u, &number[0], j.wide, b, 2, left);
        tidei_operand *out_s = tidei_job_place(&j, s, &number[1], j.real, b, 1, &least);
        if (vectors) out_vh = tidei_job_place(&j, vh, &number[2], j.wide, b, 2, right);
        if (b->count && least && j.status == TIDE_OK) {
            svd_into(&j, &f, vectors ? (complete ? 'A' : 'S') : 'N', out_u, out_s, out_vh);
            tidei_job_check(&j, f.marks, b, TIDE_E_CONVERGENCE, tidei_say_no_values);
            /* of nothing: any orthonormal vectors will do */
        } else if (vectors && j.status == TIDE_OK) {
            tidei_job_identity(&j, out_u, b->count, left[1]);
            tidei_job_identity(&j, out_vh, b->count, right[0]);
        }
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, u, number[0]);
    tidei_job_give(&j, s, number[1]);
    tidei_job_give(&j, vh, number[2]);
    return TIDE_OK;
}

/* ---- eigenvalues ---- */

static void say_no_eigenvalues(char *buf, size_t cap, int info) {
    tidei_format(buf, cap, "has eigenvalues that did not converge (%d)", info);
}

typedef struct eigh {
    tidei_input a;
    tidei_load load;
    tidei_operand *marks, *copy;
} eigh;

/* Read column by column the matrix is conj(A), whose vectors are those of A conjugated. */
static void eigen(tidei_job *j, eigh *f, int how, const tidei_operand *w, const tidei_operand *v) {
    const tidei_batch *b = &f->a.batch;
    int64_t n = f->a.n;
    f->marks = tidei_job_marks(j, b);
    f->copy = tidei_job_work(j, j->wide, b, 2, (const int64_t[]){n, n});
    tidei_job_load(j, &f->load, &f->a, f->copy, b, n, n, false, 0, f->marks, triangle(how));
    if (j->status != TIDE_OK) return;
    tidei_lapack x = tidei_job_routine(j, TIDEI_SYEVD, n, n, b->count);
    x.upper = how == TIDE_LOWER;
    x.vectors = v != NULL;
    x.a = tidei_mats_of(f->copy, n, n * n);
    x.b = tidei_mats_of(w, n, n);
    x.info = f->marks->st;
    x.again = tidei_load_again;
    x.again_arg = &f->load;
    tidei_job_lapack(j, &x);
    if (!v) return;
    fa_carry k = {.space = {b->count, n, n},
                  .out_row = n,
                  .out_col = 1,
                  .out_step = n * n,
                  .in_row = 1,
                  .in_col = n,
                  .in_step = n * n,
                  .part = FA_ALL,
                  .conj = j->wide != j->real};
    tidei_job_carry(j, &k, v, f->copy, NULL);
}

tide_status tide_eigh(tide_array *a, int how, tide_array **w, tide_array **v) {
    static const char op[] = "tide_eigh";
    TIDEI_OPERATION(op);
    tidei_job j;
    eigh f;
    int which_w, which_v = -1;
    tidei_job_begin(&j, op, a, &f.a);
    check_triangle(&j, how);
    tidei_job_square(&j, &f.a);
    if (j.status == TIDE_OK && !w && !v) j.status = no_results(op);
    if (j.status == TIDE_OK) {
        const tidei_batch *b = &f.a.batch;
        int64_t n = f.a.n;
        tidei_operand *out_v = NULL, *out_w = tidei_job_place(&j, w, &which_w, j.real, b, 1, &n);
        if (v) out_v = tidei_job_place(&j, v, &which_v, j.wide, b, 2, (const int64_t[]){n, n});
        if (b->count && n && j.status == TIDE_OK) {
            eigen(&j, &f, how, out_w, out_v);
            tidei_job_check(&j, f.marks, b, TIDE_E_CONVERGENCE, say_no_eigenvalues);
        }
    }
    if (tidei_job_end(&j) != TIDE_OK) return j.status;
    tidei_job_give(&j, w, which_w);
    tidei_job_give(&j, v, which_v);
    return TIDE_OK;
}
