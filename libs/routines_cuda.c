/* routines_cuda.c: BLAS's routines besides products by cuBLAS, matrix by matrix, vector by vector,
** in one submission.
**
** cuBLAS counts by columns: our row-major matrix is its transpose there, so factors change sides,
** and what is transposed here is not there. Results of DOT and NRM2 stay on the device: for that
** the handle's pointer mode is changed. Since other calls use the handle afterwards, the mode is
** put back.
** What must stay true: a call that is made again after a lack of memory does nothing twice: it goes
** on where it failed; or, where a failing call may have spoiled its operands (TRSM), they are
** written anew and it begins anew. */
#include "libs/blas.h"
#include "libs/cublas.h"
#include "libs/handles.h"
#include "runtime/memory/capture.h"
#include "runtime/base/text.h"

typedef struct job {
    const tidei_blas *given; /* NULL: `own`, where the call is captured */
    tidei_blas own;
    const tidei_cublas_table *t;
    int64_t done; /* calls of this batch that were queued */
} job;

static const tidei_blas *blas_of(const job *j) { return j->given ? j->given : &j->own; }

/* ---- one call, by type ---- a, b, c: addresses of first elements */

#define PTR(address) ((void *)(uintptr_t)(address))

static tidei_cublas_status gemv(const job *j, tidei_cublas_handle h, const tidei_addr at[3]) {
    const tidei_blas *x = blas_of(j);
    const tidei_factor alpha = tidei_factor_of(x->alpha, x->dtype),
                       beta = tidei_factor_of(x->beta, x->dtype);
    const tidei_cublas_operation t = x->a.trans ? TIDEI_CUBLAS_OP_N : TIDEI_CUBLAS_OP_T;
    const int64_t rows = x->a.trans ? x->m : x->n, cols = x->a.trans ? x->n : x->m;
#define CALL(name)                                                                                 \
    j->t->name(h, t, rows, cols, PTR(&alpha), PTR(at[0]), x->a.ld, PTR(at[2]), x->b.ld,            \
               PTR(&beta), PTR(at[1]), x->c.ld)
    switch (x->dtype) {
    case TIDE_F32: return CALL(cublasSgemv_v2_64);
    case TIDE_F64: return CALL(cublasDgemv_v2_64);
    case TIDE_C64: return CALL(cublasCgemv_v2_64);
    default: return CALL(cublasZgemv_v2_64);
    }
#undef CALL
}

static tidei_cublas_status ger(const job *j, tidei_cublas_handle h, const tidei_addr at[3]) {
    const tidei_blas *x = blas_of(j);
    const tidei_factor alpha = tidei_factor_of(x->alpha, x->dtype);
#define CALL(name)                                                                                 \
    j->t->name(h, x->n, x->m, PTR(&alpha), PTR(at[2]), x->b.ld, PTR(at[0]), x->a.ld, PTR(at[1]),   \
               x->c.ld)
    switch (x->dtype) {
    case TIDE_F32: return CALL(cublasSger_v2_64);
    case TIDE_F64: return CALL(cublasDger_v2_64);
    case TIDE_C64: return CALL(cublasCgeru_v2_64);
    default: return CALL(cublasZgeru_v2_64);
    }
#undef CALL
}

/* a X = B is X' a' = B', where B' is what cuBLAS sees, and a' too, unless a is stored
** transposed. */
static tidei_cublas_status trsm(const job *j, tidei_cublas_handle h, const tidei_addr at[3]) {
    static const double unity[2] = {1, 0};
    const tidei_blas *x = blas_of(j);
    const tidei_factor one = tidei_factor_of(unity, x->dtype);
    const tidei_cublas_operation t = x->a.trans ? TIDEI_CUBLAS_OP_T : TIDEI_CUBLAS_OP_N;
    const tidei_cublas_fill half =
        x->upper == x->a.trans ? TIDEI_CUBLAS_FILL_UPPER : TIDEI_CUBLAS_FILL_LOWER;
    const tidei_cublas_diag unit = x->unit ? TIDEI_CUBLAS_DIAG_UNIT : TIDEI_CUBLAS_DIAG_NON_UNIT;
#define CALL(name)                                                                                 \
    j->t->name(h, TIDEI_CUBLAS_SIDE_RIGHT, half, t, unit, x->n, x->m, PTR(&one), PTR(at[0]),       \
               x->a.ld, PTR(at[1]), x->c.ld)
    switch (x->dtype) {
    case TIDE_F32: return CALL(cublasStrsm_v2_64);
    case TIDE_F64: return CALL(cublasDtrsm_v2_64);
    case TIDE_C64: return CALL(cublasCtrsm_v2_64);
    default: return CALL(cublasZtrsm_v2_64);
    }
#undef CALL
}

static tidei_cublas_status vectors(const job *j, tidei_cublas_handle h, const tidei_addr at[3]) {
    const tidei_blas *x = blas_of(j);
    const tidei_factor alpha = tidei_factor_of(x->alpha, x->dtype);
    const tidei_cuda_data_type t = tidei_cuda_type(x->dtype),
                               real = tidei_cuda_type(tidei_real_of(x->dtype));
    void *a = PTR(at[0]), *c = PTR(at[1]), *b = PTR(at[2]);
    if (x->routine == TIDEI_AXPY)
        return j->t->cublasAxpyEx_64(h, x->n, &alpha, t, a, t, x->a.ld, c, t, x->c.ld, t);
    if (x->routine == TIDEI_NRM2)
        return j->t->cublasNrm2Ex_64(h, x->n, a, t, x->a.ld, c, real, real);
    return t == real ? j->t->cublasDotEx_64(h, x->n, a, t, x->a.ld, b, t, x->b.ld, c, t, t)
                     : j->t->cublasDotcEx_64(h, x->n, a, t, x->a.ld, b, t, x->b.ld, c, t, t);
}

static tidei_cublas_status one_call(const job *j, tidei_cublas_handle h, const tidei_addr at[3]) {
    switch (blas_of(j)->routine) {
    case TIDEI_GEMV: return gemv(j, h, at);
    case TIDEI_GER: return ger(j, h, at);
    case TIDEI_TRSM: return trsm(j, h, at);
    default: return vectors(j, h, at);
    }
}

/* ---- all of a batch ---- */

static tidei_cublas_status all_calls(job *j, tidei_cublas_handle h, const tidei_submission *w) {
    const tidei_blas *x = blas_of(j);
    const tidei_matrix *const all[] = {&x->a, &x->c, &x->b};
    const unsigned n = x->b.st ? 3 : 2;
    int64_t index[TIDE_MAX_RANK] = {0}, place[3] = {0}, call = 0;
    do {
        tidei_addr at[3] = {0};
        for (unsigned i = 0; i < n; i++) {
            tide_dtype t = i == 1 && x->routine == TIDEI_NRM2 ? tidei_real_of(x->dtype) : x->dtype;
            /* a range begins at the lowest element that is touched, which with negative strides is
            ** not the first */
            at[i] = w->ranges[i].addr +
                    (tidei_addr)(all[i]->offset + place[i]) * tide_dtype_size(t) -
                    w->uses[i].offset;
        }
        if (call++ < j->done) continue;
        tidei_cublas_status r = one_call(j, h, at);
        if (r != TIDEI_CUBLAS_SUCCESS) return r;
        j->done = call;
    } while (tidei_batch_next(x->nbatch, x->batch, index, all, (int)n, place));
    return TIDEI_CUBLAS_SUCCESS;
}

static unsigned run(const tidei_library_call *c, void *handle, void *stream,
                    const tidei_submission *w) {
    (void)stream;
    job *j = c->arg;
    const tidei_blas_routine routine = blas_of(j)->routine;
    const bool on_device = routine == TIDEI_DOT || routine == TIDEI_NRM2;
    tidei_cublas_status r = TIDEI_CUBLAS_SUCCESS, back = r;
    if (on_device) r = j->t->cublasSetPointerMode_v2(handle, TIDEI_CUBLAS_POINTERS_DEVICE);
    if (r == TIDEI_CUBLAS_SUCCESS) r = all_calls(j, handle, w);
    if (on_device) back = j->t->cublasSetPointerMode_v2(handle, TIDEI_CUBLAS_POINTERS_HOST);
    return r != TIDEI_CUBLAS_SUCCESS ? r : back;
}

static tide_status again(const tidei_library_call *c) {
    job *j = c->arg;
    const tidei_blas *x = blas_of(j);
    if (!x->again) return TIDE_OK;
    j->done = 0;
    return x->again(x->again_arg);
}

static void describe(const tidei_library_call *c, char *buf, size_t cap) {
    const tidei_blas *x = blas_of(c->arg);
    const long long m = x->m, n = x->n;
    switch (x->routine) {
    case TIDEI_GEMV: tidei_format(buf, cap, "a product of (%lld, %lld) by (%lld,)", m, n, n); break;
    case TIDEI_GER: tidei_format(buf, cap, "an update of (%lld, %lld) by two vectors", m, n); break;
    case TIDEI_AXPY: tidei_format(buf, cap, "an update of (%lld,) by a vector", n); break;
    case TIDEI_DOT: tidei_format(buf, cap, "a dot product of vectors (%lld,)", n); break;
    case TIDEI_NRM2: tidei_format(buf, cap, "a norm of a vector (%lld,)", n); break;
    case TIDEI_TRSM:
        tidei_format(buf, cap, "a triangular system (%lld, %lld) for (%lld, %lld)", m, m, m, n);
        break;
    }
}

/* Makes sure of a handle first: the workspace takes of the memory that is left. TRSM needs a
** workspace because it uses products inside. */
tide_status tidei_blas_cuda(tidei_stream *s, const tidei_blas *x, const tidei_use *uses, unsigned n,
                            const char *op) {
    job j;
    tidei_use all[4];
    tidei_storage *workspace = NULL;
    const bool captured = tidei_capturing(s->dev->rt) != NULL;
    const double results = x->routine == TIDEI_TRSM ? (double)x->m * (double)x->n : 0;
    j.given = captured ? NULL : x;
    j.done = 0;
    if (captured) j.own = *x;
    tide_status status = tidei_cublas_load(op, &j.t);
    for (unsigned i = 0; i < n && status == TIDE_OK;
         i++) /* this may climb, so it comes before any lock is taken */
        if (uses[i].st->dev != s->dev) status = tidei_peer_need(s->dev, uses[i].st, op);
    if (status != TIDE_OK) return status;
    tidei_library_call call = {.kind = &tidei_cublas_kind,
                               .lib = j.t,
                               .s = s,
                               .uses = all,
                               .n = n + 1,
                               .workspace = true,
                               .run = run,
                               .again = again,
                               .describe = describe,
                               .arg = &j,
                               .arg_bytes = sizeof j,
                               .op = op};
    status = tidei_library_begin(&call);
    if (status != TIDE_OK) return status;
    status = tidei_cublas_workspace(s, results * (double)tide_dtype_size(x->dtype), op, &workspace);
    if (status == TIDE_OK) {
        memcpy(all, uses, n * sizeof *uses);
        all[n] = (tidei_use){
            .st = workspace, .bytes = workspace->bytes, .mode = TIDEI_READ | TIDEI_WRITE};
        status = tidei_library_run(&call);
        tidei_scratch_release(workspace);
    }
    tidei_library_end(&call);
    return status;
}
