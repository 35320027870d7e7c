/* linalg.h: linear algebra: BLAS's operations, factorizations, systems, eigenvalues: cuBLAS and
** cuSOLVER on cuda, OpenBLAS and LAPACK on host.
**
** Matrices are the last two axes, vectors the last one; the axes before them are a batch, each
** matrix on its own. Any strides in, new row-major arrays out, on the caller's current stream;
** inputs are left as they are but where a function says that it updates one. Types: f32, f64, c64,
** c128 are computed in; bool and integers as f64 where they meet no float; f16 and bf16 are
** TIDE_E_DTYPE (tide_cast them). Operands of two types promote as everywhere. Dimensions of length
** 0 are legal: results have the shape that follows, a determinant of nothing is 1. NULL in:
** tide/base.h. Results through pointers are written together, at success; each may be NULL where it
** is not wanted, but not all (TIDE_E_INVALID). All may collect; workspaces come from the device's
** pool, and library handles give way when memory is short. What fails in one matrix of a batch
** fails the call, and the message names the first such matrix by its index in the batch:
** TIDE_E_SINGULAR (no inverse, not positive definite), TIDE_E_CONVERGENCE. Functions that can fail
** so say "checks": they wait on the host for the outcome, as tide_synchronize does. The others only
** queue work. Not-a-number and infinity in never give a result that looks well. A matrix with them
** is not factored: functions that check fail with the error that they have, saying so; from the
** others come matrices of not-a-number. In products and right sides (b) they spread as arithmetic
** does. */
#ifndef TIDE_LINALG_H
#define TIDE_LINALG_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- BLAS ---- Names as there. The updated operand (c, y, a) is written in place: it must have
** the type of the result (TIDE_E_DTYPE), not be stretched (TIDE_E_INVALID), and may not share
** memory with the others (TIDE_E_INVALID). Numbers alpha and beta are weak; a complex one wants a
** complex array (TIDE_E_DTYPE). With beta 0 what was there does not count, not even NaN. Batches of
** the others broadcast to the updated operand's. Transposed operands are views (tide_transpose);
** nothing is conjugated but where it says so. */
/* c = alpha a b + beta c: (..., m, k), (..., k, n), (..., m, n). */
TIDE_API TIDE_NODISCARD tide_status tide_gemm(tide_array *c, tide_arg alpha, tide_array *a,
                                              tide_array *b, tide_arg beta);
/* y = alpha a x + beta y: (..., m, n), (..., n), (..., m). */
TIDE_API TIDE_NODISCARD tide_status tide_gemv(tide_array *y, tide_arg alpha, tide_array *a,
                                              tide_array *x, tide_arg beta);
/* a += alpha x y^T: (..., m), (..., n), (..., m, n). */
TIDE_API TIDE_NODISCARD tide_status tide_ger(tide_array *a, tide_arg alpha, tide_array *x,
                                             tide_array *y);
/* y += alpha x: any shapes, x broadcasts to y's. */
TIDE_API TIDE_NODISCARD tide_status tide_axpy(tide_array *y, tide_arg alpha, tide_array *x);
/* sum(conj(x) * y) over the last axis, the axes before it broadcast: the array API's vecdot. Of
** integers in their common type, where it wraps, as tide_matmul; of bool alone TIDE_E_DTYPE. */
TIDE_API tide_array *tide_dot(tide_array *x, tide_array *y);
/* sqrt(sum(|x|^2)) over the last axis, without overflow or underflow on the way; real. */
TIDE_API tide_array *tide_nrm2(tide_array *x);
/* X with a X = b, where a (..., n, n) is triangular: the other triangle is not read, nor the
** diagonal with TIDE_UNIT, which counts as ones. b: (..., n, k), or a vector (n) where b has one
** axis. No check: a zero on the diagonal gives infinities. */
enum { TIDE_LOWER = 0, TIDE_UPPER = 1, TIDE_UNIT = 2 };
TIDE_API tide_array *tide_solve_triangular(tide_array *a, tide_array *b,
                                           int how); /* TIDE_LOWER or TIDE_UPPER, | TIDE_UNIT */

/* ---- factorizations ---- */
/* a (..., m, n) = P L U by partial pivoting, compact: `lu` (..., m, n) holds U and, below its
** diagonal, L without its ones; `pivots` (..., min(m, n)), i64: row i was swapped with row
** pivots[i] (counting from 0), in the order of i. A singular matrix is no failure: it has zeros on
** U's diagonal. */
TIDE_API TIDE_NODISCARD tide_status tide_lu_factor(tide_array *a, tide_array **lu,
                                                   tide_array **pivots);
/* X with a X = b from a's factors (n square); batches of b broadcast to theirs, or theirs to b's.
** `pivots`: of any integer type, in the shape that tide_lu_factor gives; numbers that no
** factorization gives make X not-a-number. b: (..., n, k), or (n) where it has one axis. No check,
** as tide_solve_triangular. */
TIDE_API tide_array *tide_lu_solve(tide_array *lu, tide_array *pivots, tide_array *b);
/* The same apart: a[..., perm, :] = l u, with perm (..., m) i64, l (..., m, min), u (..., min,
** n). */
TIDE_API TIDE_NODISCARD tide_status tide_lu(tide_array *a, tide_array **perm, tide_array **l,
                                            tide_array **u);
/* a = L L^H (TIDE_LOWER) or U^H U (TIDE_UPPER) of a Hermitian, positive definite a (..., n, n), of
** which that triangle is read. The other triangle of the result is 0. Checks: TIDE_E_SINGULAR names
** the leading minor that is not positive. */
TIDE_API tide_array *tide_cholesky(tide_array *a, int how);
/* a (..., m, n) = q r with q's columns orthonormal and r upper triangular. TIDE_REDUCED: q (..., m,
** min), r (..., min, n); TIDE_COMPLETE: q (..., m, m), r (..., m, n). q NULL: r alone, which costs
** half. */
enum { TIDE_REDUCED = 0, TIDE_COMPLETE = 1 };
TIDE_API TIDE_NODISCARD tide_status tide_qr(tide_array *a, int mode, tide_array **q,
                                            tide_array **r);
/* a (..., m, n) = u diag(s) vh, s (..., min) descending, real. TIDE_REDUCED: u (..., m, min), vh
** (..., min, n); TIDE_COMPLETE: square ones. u and vh NULL: s alone. Checks: TIDE_E_CONVERGENCE. */
TIDE_API TIDE_NODISCARD tide_status tide_svd(tide_array *a, int mode, tide_array **u,
                                             tide_array **s, tide_array **vh);
/* a v = v diag(w) of a symmetric or Hermitian a (..., n, n), of which the triangle `how` is read: w
** (..., n) ascending, real; v's columns are orthonormal. v NULL: w alone. Checks:
** TIDE_E_CONVERGENCE. */
TIDE_API TIDE_NODISCARD tide_status tide_eigh(tide_array *a, int how, tide_array **w,
                                              tide_array **v);

/* ---- systems ---- a is (..., n, n). */
/* X with a X = b; b (..., n, k), or (n) where it has one axis. Batches broadcast. Checks:
** TIDE_E_SINGULAR where U has a zero on its diagonal (it is that of a's transpose, which lies as
** the library wants it); a matrix that is nearly singular gives a large X. */
TIDE_API tide_array *tide_solve(tide_array *a, tide_array *b);
TIDE_API tide_array *tide_inv(tide_array *a); /* checks */
/* (...); a singular matrix has 0. By LU, multiplied in double: overflows where the product does. */
TIDE_API tide_array *tide_det(tide_array *a);
/* det = sign * exp(logabs); sign has a's type (of a complex one: on the unit circle), logabs is
** real; a singular matrix has 0 and -inf. */
TIDE_API TIDE_NODISCARD tide_status tide_slogdet(tide_array *a, tide_array **sign,
                                                 tide_array **logabs);
/* x (..., n, k) of least norm among those with |a x - b| least, by the SVD of a (..., m, n); b
** (..., m, k), or (m) where it has one axis; batches broadcast.
** Singular values up to rcond times the largest count as 0; rcond < 0: the type's epsilon times
** max(m, n). rank (...) i64, s (..., min) real, descending, both of a's batch. Checks:
** TIDE_E_CONVERGENCE. */
TIDE_API TIDE_NODISCARD tide_status tide_lstsq(tide_array *a, tide_array *b, double rcond,
                                               tide_array **x, tide_array **rank, tide_array **s);

#if defined(__cplusplus)
}
#endif
#endif
