/* linalg.h: linear algebra: BLAS's operations, factorizations, systems, eigenvalues: cuBLAS and
** cuSOLVER on cuda, OpenBLAS and LAPACK on host.
**
** Matrices are the last two axes, vectors the last one; the axes before them are a batch, each
** matrix on its own. Any strides in, new row-major arrays out, on the current stream; inputs are
** left as they are but where a function says that it updates one. Types: f32, f64, c64, c128 are
** computed in; bool and integers as f64 where they meet no float; f16 and bf16 are TIDE_E_DTYPE
** (tide_cast them). Operands of two types promote as everywhere. Dimensions of length 0 are legal:
** results have the shape that follows. Too few axes, lengths that do not fit and batches that do
** not broadcast are TIDE_E_SHAPE. Results through pointers are written together, at success; each
** may be NULL where it is not wanted, but not all (TIDE_E_INVALID). Workspaces come from the
** device's pool, and library handles give way when memory is short. TIDE_E_UNSUPPORTED: the library
** is not here, or cannot count that far (docs/linalg.md).
** What fails in one matrix of a batch fails the call, and the message names the first such matrix
** by its index in the batch. A function that can fail so "checks", and so it blocks: the host waits
** for the outcome, as tide_synchronize does. The others only queue work. Not-a-number and infinity
** in never give a result that looks well. A matrix with them is not factored: functions that check
** fail with the error that they have, saying so; from the others come matrices of not-a-number. In
** products and right sides (b) they spread as arithmetic does. */
#ifndef TIDE_LINALG_H
#define TIDE_LINALG_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- BLAS ---- Names as there. The updated operand (c, y, a) is written in place: it must have
** the type of the result (TIDE_E_DTYPE), not be stretched (TIDE_E_INVALID), and may not share
** memory with the others (TIDE_E_INVALID). Numbers alpha and beta are weak; a complex one wants a
** complex array (TIDE_E_DTYPE), and an array in their place is TIDE_E_INVALID. With beta 0 what was
** there does not count, not even NaN. Batches of the others broadcast to the updated operand's.
** Transposed operands are views (tide_transpose); nothing is conjugated but where it says so. */

/* c = alpha a b + beta c: c (..., m, n), a (..., m, k), b (..., k, n); updates c. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_gemm(tide_array *c, tide_arg alpha, tide_array *a,
                                              tide_array *b, tide_arg beta);
/* y = alpha a x + beta y: y (..., m), a (..., m, n), x (..., n); updates y. May collect.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_gemv(tide_array *y, tide_arg alpha, tide_array *a,
                                              tide_array *x, tide_arg beta);
/* a += alpha x y^T: a (..., m, n), x (..., m), y (..., n); updates a. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_ger(tide_array *a, tide_arg alpha, tide_array *x,
                                             tide_array *y);
/* y += alpha x: any shapes, x broadcasts to y's; updates y. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_axpy(tide_array *y, tide_arg alpha, tide_array *x);
/* sum(conj(x) * y) over the last axis, of one length in both; the axes before it broadcast, and are
** the result's: the array API's vecdot. Of integers in their common type, where it wraps, as
** tide_matmul; of bool alone TIDE_E_DTYPE. May collect. Never blocks. */
TIDE_API tide_array *tide_dot(tide_array *x, tide_array *y);
/* sqrt(sum(|x|^2)) over the last axis, without overflow or underflow on the way; real, of the shape
** of the axes before it. May collect. Never blocks. */
TIDE_API tide_array *tide_nrm2(tide_array *x);

/* Which triangle of a matrix is read; TIDE_UNIT goes with either. */
enum { TIDE_LOWER = 0, TIDE_UPPER = 1, TIDE_UNIT = 2 };
/* X with a X = b, where a (..., n, n) is triangular: the other triangle is not read, nor the
** diagonal with TIDE_UNIT, which counts as ones. b (..., n, k), or a vector (n) where it has one
** axis; X has the shape of b, its batch stretched with a's. `how`: TIDE_LOWER or TIDE_UPPER, |
** TIDE_UNIT; else TIDE_E_INVALID. No check: a zero on the diagonal gives infinities. May collect.
** Never blocks. */
TIDE_API tide_array *tide_solve_triangular(tide_array *a, tide_array *b, int how);

/* ---- factorizations ---- `mode`, `how`: of the constants named; else TIDE_E_INVALID. */

/* a (..., m, n) = P L U by partial pivoting, compact: `lu` (..., m, n) holds U and, below its
** diagonal, L without its ones; `pivots` (..., min(m, n)), i64: row i was swapped with row
** pivots[i] (counting from 0), in the order of i. A singular matrix is no failure: it has zeros on
** U's diagonal. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_lu_factor(tide_array *a, tide_array **lu,
                                                   tide_array **pivots);
/* X with a X = b from a's factors, as tide_lu_factor gives them of a (..., n, n). b (..., n, k), or
** (n) where it has one axis; batches of b and of the factors broadcast, X has b's shape over both.
** `pivots`: of any integer type (else TIDE_E_DTYPE), in the shape that tide_lu_factor gives;
** numbers that no factorization gives make X not-a-number. No check: a zero on U's diagonal gives
** infinities. May collect. Never blocks. */
TIDE_API tide_array *tide_lu_solve(tide_array *lu, tide_array *pivots, tide_array *b);
/* LU apart: a[..., perm, :] = l u of a (..., m, n), with perm (..., m) i64, l (..., m, min(m, n)),
** u (..., min(m, n), n). A singular matrix is no failure. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_lu(tide_array *a, tide_array **perm, tide_array **l,
                                            tide_array **u);
/* L of a = L L^H (TIDE_LOWER), or U of a = U^H U (TIDE_UPPER), of a Hermitian, positive definite a
** (..., n, n), of which that triangle is read. The other triangle of the result is 0. Checks:
** TIDE_E_SINGULAR names the leading minor that is not positive. May collect. Blocks. */
TIDE_API tide_array *tide_cholesky(tide_array *a, int how);

/* How much of an orthogonal factor is wanted. */
enum { TIDE_REDUCED = 0, TIDE_COMPLETE = 1 };
/* a (..., m, n) = q r with q's columns orthonormal and r upper triangular. TIDE_REDUCED: q (..., m,
** min(m, n)), r (..., min(m, n), n); TIDE_COMPLETE: q (..., m, m), r (..., m, n). q NULL: r alone,
** which costs half. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_qr(tide_array *a, int mode, tide_array **q,
                                            tide_array **r);
/* a (..., m, n) = u diag(s) vh, s (..., min(m, n)) descending, real. TIDE_REDUCED: u (..., m,
** min(m, n)), vh (..., min(m, n), n); TIDE_COMPLETE: square ones. u and vh NULL: s alone. Checks:
** TIDE_E_CONVERGENCE. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_svd(tide_array *a, int mode, tide_array **u,
                                             tide_array **s, tide_array **vh);
/* a v = v diag(w) of a symmetric or Hermitian a (..., n, n), of which the triangle `how`
** (TIDE_LOWER, TIDE_UPPER) is read: w (..., n) ascending, real; v's columns are orthonormal. v
** NULL: w alone. Checks: TIDE_E_CONVERGENCE. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_eigh(tide_array *a, int how, tide_array **w,
                                              tide_array **v);

/* ---- systems ---- */

/* X with a X = b, of a (..., n, n) and b (..., n, k), or (n) where it has one axis; batches
** broadcast, X has b's shape over both. Checks: TIDE_E_SINGULAR where U has a zero on its diagonal
** (it is that of a's transpose, which lies as the library wants it); a matrix that is nearly
** singular gives a large X. May collect. Blocks. */
TIDE_API tide_array *tide_solve(tide_array *a, tide_array *b);
/* The inverse of a (..., n, n). Checks: TIDE_E_SINGULAR, as tide_solve. May collect. Blocks. */
TIDE_API tide_array *tide_inv(tide_array *a);
/* The determinants of a (..., n, n), of shape (...); a singular matrix has 0, one of nothing 1. By
** LU, multiplied in double: overflows where the product does. May collect. Never blocks. */
TIDE_API tide_array *tide_det(tide_array *a);
/* The determinants of a (..., n, n) as sign * exp(logabs), each of shape (...). sign has a's type
** (of a complex one: on the unit circle), logabs is real; a singular matrix has 0 and -inf, one of
** nothing 1 and 0. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_slogdet(tide_array *a, tide_array **sign,
                                                 tide_array **logabs);
/* x (..., n, k) of least norm among those with |a x - b| least, by the SVD of a (..., m, n); b
** (..., m, k), or (m) where it has one axis, as x has then; batches broadcast. Singular values up
** to rcond times the largest count as 0; rcond < 0: the type's epsilon times max(m, n);
** not-a-number is TIDE_E_INVALID. rank (...) i64, s (..., min(m, n)) real, descending, both of a's
** batch. Checks: TIDE_E_CONVERGENCE. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_lstsq(tide_array *a, tide_array *b, double rcond,
                                               tide_array **x, tide_array **rank, tide_array **s);

#if defined(__cplusplus)
}
#endif
#endif
