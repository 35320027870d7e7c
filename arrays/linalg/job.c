/* job.c: the steps that all functions of linear algebra are made of (job.h). */
#include "arrays/expr/copy.h"
#include "arrays/linalg/job.h"
#include "runtime/base/text.h"

#include <inttypes.h>

_Static_assert(TIDE_F64 == TIDE_F32 + 1 && TIDE_C64 == TIDE_F32 + 2 && TIDE_C128 == TIDE_F32 + 3,
               "the order of a kernel's forms");

static bool goes_on(const tidei_job *j) { return j->status == TIDE_OK; }

/* ---- operands ---- */

static tidei_operand *room_for(tidei_job *j) {
    tidei_check(j->nheld < TIDEI_JOB_OPERANDS);
    return &j->held[j->nheld];
}

static tidei_batch batch_of(const tidei_layout *l) {
    tidei_batch b = {.ndim = l->ndim - 2, .count = 1};
    for (int i = 0; i < b.ndim; i++) b.count *= b.shape[i] = l->shape[i];
    return b;
}

/* A column without a stride of its own: it has one element in each row. */
static void as_column(tidei_layout *l) {
    l->shape[1] = 1;
    l->strides[1] = 0;
    l->ndim = 2;
}

static void describe(tidei_job *j, tidei_operand *o, tidei_input *x, bool *vector) {
    char text[192];
    if (vector) *vector = o->lay.ndim == 1;
    if (vector && *vector) as_column(&o->lay);
    if (o->lay.ndim < 2) {
        j->status = tidei_fail(TIDE_E_SHAPE, j->op, "shape %s is no matrix%s",
                               tidei_shape_text(text, sizeof text, o->lay.ndim, o->lay.shape),
                               vector ? ", nor a vector" : ": that has two axes");
        return;
    }
    *x = (tidei_input){.o = o,
                       .batch = batch_of(&o->lay),
                       .m = o->lay.shape[o->lay.ndim - 2],
                       .n = o->lay.shape[o->lay.ndim - 1]};
}

void tidei_job_begin(tidei_job *j, const char *op, tide_array *first, tidei_input *a) {
    j->op = op;
    j->nheld = j->nmade = 0;
    j->wide = j->real = TIDE_F32;
    j->status = tidei_operand_get(first, op, 1, &j->held[0]);
    if (!goes_on(j)) return;
    j->nheld = 1;
    j->rt = j->held[0].rt;
    j->stream = tidei_stream_here(j->rt);
    j->floats = false;
    tidei_job_types(j, j->held[0].lay.dtype);
    if (goes_on(j)) describe(j, &j->held[0], a, NULL);
}

void tidei_job_input(tidei_job *j, tide_array *a, tidei_place place, tidei_input *x, bool *vector) {
    if (!goes_on(j)) return;
    tidei_operand *o = room_for(j);
    j->status = tidei_operand_get_of(j->rt, a, j->op, place, o);
    if (!goes_on(j)) return;
    j->nheld++;
    describe(j, o, x, vector);
}

void tidei_job_types(tidei_job *j, tide_dtype t) {
    tidei_kind kind = tidei_dtype_kind(t);
    bool counts = kind == TIDEI_KIND_FLOAT || kind == TIDEI_KIND_COMPLEX;
    if (!goes_on(j)) return;
    if (t == TIDE_F16 || t == TIDE_BF16) {
        j->status = tidei_fail(TIDE_E_DTYPE, j->op,
                               "%s is too narrow for linear algebra; tide_cast it to f32 first",
                               tide_dtype_name(t));
        return;
    }
    if (counts && j->floats)
        j->status = tidei_promote(j->wide, t, j->op, &j->wide);
    else if (!j->floats)
        j->wide = counts ? t : TIDE_F64; /* which an integer takes that meets no float */
    j->floats |= counts;
    j->real = j->wide == TIDE_C64 ? TIDE_F32 : j->wide == TIDE_C128 ? TIDE_F64 : j->wide;
}

void tidei_job_square(tidei_job *j, const tidei_input *a) {
    char text[192];
    if (goes_on(j) && a->m != a->n)
        j->status =
            tidei_fail(TIDE_E_SHAPE, j->op, "shape %s: the matrix is not square",
                       tidei_shape_text(text, sizeof text, a->o->lay.ndim, a->o->lay.shape));
}

/* ---- memory ---- */

static int shape_over(const tidei_batch *b, int ntail, const int64_t *tail,
                      int64_t shape[TIDE_MAX_RANK]) {
    memcpy(shape, b->shape, sizeof b->shape);
    for (int i = 0; i < ntail; i++) shape[b->ndim + i] = tail[i];
    return b->ndim + ntail;
}

tidei_operand *tidei_job_work(tidei_job *j, tide_dtype t, const tidei_batch *b, int ntail,
                              const int64_t *tail) {
    int64_t shape[TIDE_MAX_RANK];
    if (!goes_on(j)) return NULL;
    tidei_operand *o = room_for(j);
    j->status = tidei_operand_make(j->rt, t, shape_over(b, ntail, tail, shape), shape, j->op, o);
    if (!goes_on(j)) return NULL;
    j->nheld++;
    return o;
}

tidei_operand *tidei_job_result(tidei_job *j, tide_dtype t, const tidei_batch *b, int ntail,
                                const int64_t *tail) {
    int64_t shape[TIDE_MAX_RANK];
    if (!goes_on(j)) return NULL;
    tidei_operand *o = room_for(j);
    tidei_check(j->nmade < TIDEI_JOB_RESULTS);
    tide_array *a = tidei_array_make(j->rt, t, shape_over(b, ntail, tail, shape), shape, j->op, o);
    if (!a) return j->status = tidei_last_status(), NULL;
    j->nheld++;
    j->made[j->nmade++] = a;
    return o;
}

tidei_operand *tidei_job_place(tidei_job *j, const void *to, int *number, tide_dtype t,
                               const tidei_batch *b, int ntail, const int64_t *tail) {
    *number = to ? (int)j->nmade : -1;
    return to ? tidei_job_result(j, t, b, ntail, tail) : tidei_job_work(j, t, b, ntail, tail);
}

void tidei_job_give(const tidei_job *j, tide_array **to, int number) {
    if (number >= 0 && j->status == TIDE_OK) *to = j->made[number];
}

tide_status tidei_job_end(tidei_job *j) {
    for (unsigned i = 0; i < j->nheld; i++) tidei_operand_put(&j->held[i]);
    if (!goes_on(j))
        for (unsigned i = 0; i < j->nmade; i++) tidei_array_drop(j->made[i]);
    return j->status;
}

/* ---- steps ---- */

static int64_t elements(const tidei_operand *o) { return tidei_layout_size(&o->lay); }

void tidei_job_zero(tidei_job *j, const tidei_operand *o) {
    static const char zeros[16];
    size_t size = goes_on(j) ? tide_dtype_size(o->lay.dtype) : 0;
    if (goes_on(j) && elements(o))
        j->status = tidei_submit_fill(j->stream, o->st, 0, zeros, size, (size_t)elements(o), j->op);
}

void tidei_job_own(tidei_job *j, const tidei_own_kernel *k, const tidei_use *uses, unsigned n,
                   void *params, size_t bytes, const size_t *at, const fa_space *space) {
    int64_t items = space->count * space->rows * space->cols;
    if (goes_on(j) && items)
        j->status = tidei_run_own(j->rt, k, uses, n, params, bytes, at, (uint64_t)items, j->op);
}

void tidei_job_carry(tidei_job *j, fa_carry *k, const tidei_operand *out, const tidei_operand *in,
                     const tidei_operand *marks) {
    static const tidei_own_kernel forms[4] = TIDEI_FACTOR_KERNELS(factor_carry);
    size_t at[3] = {offsetof(fa_carry, out)};
    tidei_use uses[3];
    unsigned n = 1;
    if (!goes_on(j)) return;
    uses[0] = tidei_operand_use(out, TIDEI_WRITE | (in ? TIDEI_READ : 0));
    if (in) {
        at[n] = offsetof(fa_carry, in);
        uses[n++] = tidei_operand_use(in, TIDEI_READ);
    }
    if (marks) {
        at[n] = offsetof(fa_carry, flags);
        k->flags = (fa_u64)elements(marks) / 2 * sizeof(int32_t);
        uses[n++] = tidei_operand_use(marks, TIDEI_READ);
    }
    tidei_job_own(j, tidei_factor_kernel(forms, j->wide), uses, n, k, sizeof *k, at, &k->space);
}

/* All of a large one: the expression engine moves it as fast as memory does, and then little is
** left to do. */
#define UNTURN_LARGE ((int64_t)1 << 20)
static bool unturn_large(tidei_job *j, const fa_carry *k, const tidei_operand *out,
                         const tidei_operand *in) {
    const fa_space *n = &k->space;
    if (k->part != FA_ALL || n->count * n->rows * n->cols < UNTURN_LARGE) return false;
    tidei_operand to = *out, from = *in;
    to.lay = from.lay =
        (tidei_layout){.dtype = j->wide, .ndim = 3, .shape = {n->count, n->rows, n->cols}};
    memcpy(to.lay.strides, (int64_t[]){k->out_step, k->out_row, k->out_col}, 3 * sizeof(int64_t));
    memcpy(from.lay.strides, (int64_t[]){k->in_step, k->in_row, k->in_col}, 3 * sizeof(int64_t));
    j->status = tidei_copy_elements(j->rt, &to, &from, j->op);
    return true;
}

void tidei_job_unturn(tidei_job *j, const tidei_operand *out, const tidei_operand *in,
                      int64_t count, int64_t rows, int64_t cols, int64_t ld, int64_t step, int part,
                      const tidei_operand *marks) {
    fa_carry k = {.space = {count, rows, cols},
                  .out_row = cols,
                  .out_col = 1,
                  .out_step = rows * cols,
                  .in_row = 1,
                  .in_col = ld,
                  .in_step = step,
                  .flag_step = 1,
                  .part = part};
    if (!goes_on(j) || !unturn_large(j, &k, out, in)) {
        tidei_job_carry(j, &k, out, in, marks);
    } else if (marks) { /* what is not finite, in place */
        k.in_row = k.out_row, k.in_col = k.out_col, k.in_step = k.out_step;
        tidei_job_carry(j, &k, out, out, marks);
    }
}

void tidei_job_identity(tidei_job *j, const tidei_operand *out, int64_t count, int64_t n) {
    fa_carry k = {.space = {count, n, n}, .out_row = n, .out_col = 1, .out_step = n * n, .unit = 1};
    tidei_job_carry(j, &k, out, NULL, NULL);
}

void tidei_job_pivots(tidei_job *j, const tidei_operand *pivots, const tidei_operand *narrow,
                      const tidei_operand *marks, int64_t count, int64_t n, int64_t shift,
                      int64_t bound) {
    static const tidei_own_kernel kernel = TIDEI_FACTOR_KERNEL(factor_pivots);
    static const size_t at[] = {offsetof(fa_pivots, pivots), offsetof(fa_pivots, flags),
                                offsetof(fa_pivots, narrow)};
    if (!goes_on(j)) return;
    tidei_use uses[3] = {tidei_operand_use(pivots, TIDEI_WRITE | (narrow ? 0 : TIDEI_READ)),
                         tidei_operand_use(marks, TIDEI_READ | TIDEI_WRITE)};
    if (narrow) uses[2] = tidei_operand_use(narrow, TIDEI_READ);
    fa_pivots k = {.space = {count, 1, n},
                   .flags = (fa_u64)elements(marks) / 2 * sizeof(int32_t),
                   .shift = shift,
                   .bound = bound};
    tidei_job_own(j, &kernel, uses, narrow ? 3 : 2, &k, sizeof k, at, &k.space);
}

/* ---- working copies ---- */

tidei_operand *tidei_job_marks(tidei_job *j, const tidei_batch *b) {
    const tidei_batch all = {.count = b->count};
    const int64_t n = 2 * b->count;
    return tidei_job_work(j, TIDE_I32, &all, 1, &n);
}

static fa_screen screening(const tidei_load *l) {
    return (fa_screen){.space = {l->count, l->rows, l->cols},
                       .flags = (fa_u64)elements(l->marks) / 2 * sizeof(int32_t),
                       .step = l->step,
                       .part = l->part};
}

/* Clears the marks, and screens. */
static void screen(tidei_job *j, const tidei_load *l) {
    static const tidei_own_kernel look[4] = TIDEI_FACTOR_KERNELS(factor_look);
    static const tidei_own_kernel mend[4] = TIDEI_FACTOR_KERNELS(factor_mend);
    static const size_t at[] = {offsetof(fa_screen, a), offsetof(fa_screen, flags)};
    fa_screen k = screening(l);
    tidei_use uses[] = {tidei_operand_use(&l->to, TIDEI_READ),
                        tidei_operand_use(l->marks, TIDEI_READ | TIDEI_WRITE)};
    tidei_job_zero(j, l->marks);
    tidei_job_own(j, tidei_factor_kernel(look, j->wide), uses, 2, &k, sizeof k, at, &k.space);
    k = screening(l);
    uses[0].mode = TIDEI_READ | TIDEI_WRITE;
    tidei_job_own(j, tidei_factor_kernel(mend, j->wide), uses, 2, &k, sizeof k, at, &k.space);
}

/* ---- few and small ones: all of it in one launch ---- */

#define FEW_MATRICES   1024
#define SMALL_ELEMENTS 4096

static bool few_and_small(const tidei_load *l) {
    int64_t n = l->rows * l->cols;
    return l->marks && n && n <= SMALL_ELEMENTS && l->count <= FEW_MATRICES;
}

/* The kernel can bring the matrices itself: they need no cast, are here, and one step leads from
** each to the next. */
static bool is_plain(const tidei_job *j, const tidei_load *l) {
    const tidei_operand *from = l->from;
    if (!from || from->lay.dtype != j->wide || from->st->dev != j->stream->dev) return false;
    return l->count == 1 || (from->lay.ndim == 3 && from->lay.shape[0] == l->count);
}

/* With `from` NULL the matrices are there already. A block is one matrix's, however small, so that
** none waits for another. */
static void screen_at_once(tidei_job *j, const tidei_load *l, const tidei_operand *from) {
    static const tidei_own_kernel forms[4] = TIDEI_FACTOR_KERNELS(factor_screen);
    static const size_t at[] = {offsetof(fa_screen, a), offsetof(fa_screen, flags),
                                offsetof(fa_screen, in)};
    fa_screen k = screening(l);
    tidei_use uses[3] = {tidei_operand_use(&l->to, TIDEI_WRITE | (from ? 0 : TIDEI_READ)),
                         tidei_operand_use(l->marks, TIDEI_WRITE)};
    if (from) {
        const int64_t *strides = from->lay.strides + from->lay.ndim - 2;
        size_t size = tide_dtype_size(j->wide);
        uses[2] = tidei_operand_use(from, TIDEI_READ); /* which begins at its lowest element */
        k.in = (fa_u64)from->lay.offset * size - uses[2].offset;
        k.in_row = strides[l->turned ? 1 : 0];
        k.in_col = strides[l->turned ? 0 : 1];
        k.in_step = from->lay.ndim == 3 ? from->lay.strides[0] : 0;
    }
    if (goes_on(j))
        j->status = tidei_run_own(j->rt, tidei_factor_kernel(forms, j->wide), uses, from ? 3 : 2,
                                  &k, sizeof k, at, (uint64_t)l->count * TIDEI_OWN_BLOCK, j->op);
}

tide_status tidei_load_again(void *load) {
    const tidei_load *l = load;
    tidei_job *j = l->j;
    bool few = few_and_small(l);
    /* the job was well; what a try at a lower rung of the ladder lacked may be there now */
    j->status = TIDE_OK;
    if (few && is_plain(j, l)) {
        screen_at_once(j, l, l->from);
        return j->status;
    }
    if (l->from)
        j->status = tidei_store_elements(j->rt, &l->to, l->from, j->op);
    else
        tidei_job_identity(j, &l->to, l->count, l->rows);
    if (few)
        screen_at_once(j, l, NULL);
    else if (l->marks)
        screen(j, l);
    return j->status;
}

void tidei_job_load(tidei_job *j, tidei_load *l, const tidei_input *x, const tidei_operand *to,
                    const tidei_batch *b, int64_t m, int64_t n, bool turned, int64_t step,
                    const tidei_operand *marks, int part) {
    if (!goes_on(j)) return;
    tidei_layout *lay = &l->to.lay;
    *l = (tidei_load){.j = j,
                      .from = x ? x->o : NULL,
                      .to = {.rt = j->rt, .st = to->st},
                      .marks = marks,
                      .count = b->count,
                      .rows = turned ? n : m,
                      .cols = turned ? m : n,
                      .step = step ? step : m * n,
                      .turned = turned,
                      .part = part};
    lay->dtype = to->lay.dtype;
    lay->ndim = shape_over(b, 2, (const int64_t[]){m, n}, lay->shape);
    lay->strides[b->ndim] = turned ? 1 : n;
    lay->strides[b->ndim + 1] = turned ? m : 1;
    int64_t next = l->step;
    for (int i = b->ndim; i-- > 0; next *= b->shape[i]) lay->strides[i] = next;
    (void)tidei_load_again(l);
}

/* ---- the library ---- */

tidei_lapack tidei_job_routine(const tidei_job *j, tidei_lapack_routine r, int64_t m, int64_t n,
                               int64_t count) {
    return (tidei_lapack){.routine = r, .dtype = j->wide, .m = m, .n = n, .count = count};
}

void tidei_job_lapack(tidei_job *j, const tidei_lapack *x) {
    if (!goes_on(j)) return;
    if (tidei_small_takes(j->stream, x))
        tidei_job_small(j, x);
    else
        j->status = tidei_lapack_run(j->stream, x, j->op);
}

/* ---- outcomes ---- */

/* "the matrix", "matrix 3 of the batch", "matrix (2, 0) of the batch". */
static void name_matrix(char *buf, size_t cap, const tidei_batch *b, int64_t w) {
    int64_t index[TIDE_MAX_RANK];
    char text[192];
    for (int i = b->ndim; i-- > 0; w /= b->shape[i]) index[i] = w % b->shape[i];
    if (b->ndim == 0)
        tidei_format(buf, cap, "the matrix");
    else if (b->ndim == 1)
        tidei_format(buf, cap, "matrix %" PRId64 " of the batch", index[0]);
    else
        tidei_format(buf, cap, "matrix %s of the batch",
                     tidei_shape_text(text, sizeof text, b->ndim, index));
}

static tide_status judge(const tidei_job *j, const int32_t *marks, const tidei_batch *b,
                         tide_status failure, void (*say)(char *buf, size_t cap, int info)) {
    char name[256], what[128];
    for (int64_t w = 0; w < b->count; w++) {
        int info = marks[w];
        bool unfit = marks[b->count + w] != 0;
        if (!info && !unfit) continue;
        name_matrix(name, sizeof name, b, w);
        if (unfit)
            tidei_format(what, sizeof what, "has elements that are not finite");
        else
            say(what, sizeof what, info);
        return tidei_fail(failure, j->op, "%s %s", name, what);
    }
    return TIDE_OK;
}

void tidei_job_check(tidei_job *j, const tidei_operand *marks, const tidei_batch *b,
                     tide_status failure, void (*say)(char *buf, size_t cap, int info)) {
    if (!goes_on(j) || !b->count) return;
    size_t bytes = (size_t)elements(marks) * sizeof(int32_t);
    int32_t *read = tidei_scratch_host(j->rt, bytes);
    j->status =
        read ? tidei_operand_read(marks, read, j->op) : tidei_fail_host_memory(j->op, bytes);
    if (goes_on(j)) j->status = judge(j, read, b, failure, say);
    tidei_scratch_host_free(j->rt, read);
}
