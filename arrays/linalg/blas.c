/* blas.c: BLAS of arrays: types, shapes, and which routine to call with the elements in which
** order.
**
** The plain case is the library's own routine (libs/blas.h). Operands that a BLAS cannot read as
** they lie, or of another type, are copied first; an updated one that it cannot write as it lies is
** computed in a copy and stored back; columns without gaps are the rows of its transpose. The
** expression engine does what BLAS has no call for: an axpy of vectors that are not one line each,
** and the norms of many vectors. A GPU's kernels of our own find the norm of a long one (norm.h).
** What must stay true: nothing is written while an operand may still be refused. */
#include "arrays/expr/copy.h"
#include "arrays/expr/front.h"
#include "arrays/kernels/launch.h"
#include "arrays/linalg/matrices.h"
#include "arrays/linalg/norm.h"
#include "libs/blas.h"

extern const char tidei_norm_text[];

/* ---- operands ---- */

enum {
    MOST = 3,       /* operands of a call */
    SMALL = 1 << 24 /* integers that every type of linear algebra holds */
};

/* What an operation takes. */
typedef struct signature {
    const char *op;
    int n;
    const char *names[MOST];
    int core[MOST];   /* axes that are no batch: 2 of matrices, 1 of vectors */
    int places[MOST]; /* the numbers of the arguments */
} signature;

/* A call: its operands, of which the last one may be updated, and what they have in common. Never
** cleared as a whole, which would take longer than a small product's shapes do. */
typedef struct call {
    const char *op;
    const char *const *names;
    tidei_runtime *rt;
    int n;
    tidei_operand x[MOST];
    int core[MOST];
    tide_dtype dtype; /* computed in */
    int nbatch;
    int64_t batch[TIDE_MAX_RANK];
    double alpha[2], beta[2];
} call;

static void let_go(call *c) {
    for (int i = 0; i < c->n; i++) tidei_operand_put(&c->x[i]);
}

/* Holds the operands, of one runtime, with the axes that they must have, and finds the type. On
** failure the caller has nothing to let go of. */
static tide_status hold(call *c, const signature *takes, tide_array *const *arrays) {
    const int n = takes->n;
    char text[192];
    tide_status s = TIDE_OK;
    c->op = takes->op;
    c->names = takes->names;
    memcpy(c->core, takes->core, sizeof c->core);
    c->nbatch = 0;
    c->alpha[0] = c->alpha[1] = c->beta[0] = c->beta[1] = 0;
    for (int i = 0; i < n; i++)
        if (tidei_unlikely(!arrays[i]))
            return tidei_null_array(c->op, (tidei_place)takes->places[i]);
    for (c->n = 0; c->n < n && s == TIDE_OK;) {
        tidei_operand *o = &c->x[c->n];
        tidei_place place = (tidei_place)takes->places[c->n];
        s = c->n ? tidei_operand_get_of(c->rt, arrays[c->n], c->op, place, o)
                 : tidei_operand_get(arrays[0], c->op, place, o);
        if (s == TIDE_OK) c->rt = c->x[c->n++].rt;
    }
    for (int i = 0; i < n && s == TIDE_OK; i++) {
        const tidei_layout *l = &c->x[i].lay;
        if (l->ndim < c->core[i])
            s = tidei_fail(TIDE_E_SHAPE, c->op, "%s of shape %s is no %s", c->names[i],
                           tidei_shape_text(text, sizeof text, l->ndim, l->shape),
                           c->core[i] == 2 ? "matrix" : "vector");
    }
    if (s == TIDE_OK) s = tidei_linalg_type(c->x, n, c->op, &c->dtype);
    if (s != TIDE_OK) let_go(c);
    return s;
}

/* The i-th operand's dimension, of the last `core` ones. */
static int64_t dim(const call *c, int i, int which) {
    const tidei_layout *l = &c->x[i].lay;
    return l->shape[l->ndim - c->core[i] + which];
}

static tide_status differ(const call *c, int i, int j, const char *what, int64_t left,
                          int64_t right) {
    char one[192], other[192];
    const tidei_layout *x = &c->x[i].lay, *y = &c->x[j].lay;
    return tidei_fail(TIDE_E_SHAPE, c->op,
                      "%s of shape %s and %s of shape %s: %s %lld and %lld differ", c->names[i],
                      tidei_shape_text(one, sizeof one, x->ndim, x->shape), c->names[j],
                      tidei_shape_text(other, sizeof other, y->ndim, y->shape), what,
                      (long long)left, (long long)right);
}

/* What the batches of the operands from `first` on broadcast to. */
static tide_status join_batches(call *c, int first) {
    tide_status s = TIDE_OK;
    for (int i = first; i < c->n && s == TIDE_OK; i++)
        s = tidei_batch_join(&c->x[i].lay, c->core[i], &c->nbatch, c->batch, c->op);
    return s;
}

static bool is_empty(const tidei_operand *o) { return tidei_layout_size(&o->lay) == 0; }

/* The last operand may be updated: it has the type and the batch of the result, and its memory to
** itself. */
static tide_status check_target(call *c) {
    char mine[192], all[192];
    const int last = c->n - 1;
    const tidei_operand *t = &c->x[last];
    const char *name = c->names[last];
    const int nbatch = t->lay.ndim - c->core[last];
    tide_status s = join_batches(c, 0);
    if (s != TIDE_OK) return s;
    if (c->nbatch != nbatch || !tidei_same_dims(nbatch, c->batch, t->lay.shape))
        return tidei_fail(TIDE_E_SHAPE, c->op,
                          "the others' batch %s does not stretch to that of %s, %s",
                          tidei_shape_text(all, sizeof all, c->nbatch, c->batch), name,
                          tidei_shape_text(mine, sizeof mine, nbatch, t->lay.shape));
    if (t->lay.dtype != c->dtype)
        return tidei_fail(TIDE_E_DTYPE, c->op,
                          "%s is %s, the result %s: it is updated, so it must have that type", name,
                          tide_dtype_name(t->lay.dtype), tide_dtype_name(c->dtype));
    s = tidei_writable(&t->lay, name, c->op);
    if (s != TIDE_OK) return s;
    for (int i = 0; i < last; i++)
        if (tidei_operands_overlap(t, &c->x[i]) && !is_empty(t) && !is_empty(&c->x[i]))
            return tidei_fail(TIDE_E_INVALID, c->op, "%s, which is updated, shares memory with %s",
                              name, c->names[i]);
    return TIDE_OK;
}

/* Converts a factor to the type. Small integers, which most factors are, are the same in all
** types. */
static tide_status factor(const call *c, tide_arg v, double out[2]) {
    unsigned char element[16];
    if (v.kind == TIDE_ARG_INT && v.value.i >= -SMALL && v.value.i <= SMALL) {
        out[0] = (double)v.value.i;
        out[1] = 0;
        return TIDE_OK;
    }
    tide_status s = tidei_encode(v, c->dtype, c->op, element);
    if (s != TIDE_OK) return s;
    v = tidei_decode(element, c->dtype);
    out[0] = v.kind == TIDE_ARG_COMPLEX ? v.value.c[0] : v.value.f;
    out[1] = v.kind == TIDE_ARG_COMPLEX ? v.value.c[1] : 0;
    return TIDE_OK;
}

/* ---- as a BLAS has it ---- */

static bool stored(const tidei_layout *l, int core, bool *trans, int64_t *ld) {
    const int64_t *shape = l->shape + l->ndim - core, *strides = l->strides + l->ndim - core;
    return core == 2 ? tidei_as_stored(shape[0], shape[1], strides[0], strides[1], trans, ld)
                     : tidei_as_stored(shape[0], 1, strides[0], 1, trans, ld);
}

static bool readable(const tidei_operand *o, int core) {
    bool trans;
    int64_t ld;
    return stored(&o->lay, core, &trans, &ld);
}

/* The i-th operand, or a copy of it that BLAS can read. To be put. */
static tide_status ready(const call *c, int i, tidei_readied *out) {
    const tidei_operand *o = &c->x[i];
    return tidei_ready(o, o->lay.dtype == c->dtype && readable(o, c->core[i]), c->core[i], c->dtype,
                       c->op, out);
}

/* Fills in the matrix of an operand that BLAS can read. */
static void set_matrix(const call *c, const tidei_operand *o, int core, tidei_matrix *m) {
    m->st = o->st;
    m->offset = o->lay.offset;
    m->conj = false;
    bool as_it_is = stored(&o->lay, core, &m->trans, &m->ld);
    tidei_check(as_it_is);
    (void)as_it_is;
    tidei_batch_strides(&o->lay, core, c->nbatch, c->batch, m->batch);
}

/* ---- updates of matrices and vectors ---- */

/* Queues the update once BLAS can read and write all operands. a, b: the first two operands. */
typedef tide_status update_fn(const call *c, const tidei_operand *a, const tidei_operand *b,
                              const tidei_operand *target);

static void set_factors(const call *c, double alpha[2], double beta[2]) {
    memcpy(alpha, c->alpha, sizeof c->alpha);
    memcpy(beta, c->beta, sizeof c->beta);
}

/* A target of columns without gaps: c^T = b^T a^T. */
static void turn(tidei_matrix *a, tidei_matrix *b, tidei_matrix *c) {
    tidei_matrix was = *a;
    *a = *b;
    *b = was;
    c->trans = false;
}

static tide_status run_gemm(const call *c, const tidei_operand *a, const tidei_operand *b,
                            const tidei_operand *t) {
    tidei_gemm g; /* filled by parts, as a call is */
    g.precision = c->rt->set.matmul_precision;
    g.epilogue = TIDEI_EPILOGUE_NONE;
    g.dtype = c->dtype;
    g.m = dim(c, 2, 0);
    g.n = dim(c, 2, 1);
    g.k = dim(c, 0, 1);
    g.nbatch = c->nbatch;
    memcpy(g.batch, c->batch, (size_t)c->nbatch * sizeof *g.batch);
    set_factors(c, g.alpha, g.beta);
    set_matrix(c, a, 2, &g.a);
    set_matrix(c, b, 2, &g.b);
    set_matrix(c, t, 2, &g.c);
    if (g.c.trans) {
        turn(&g.a, &g.b, &g.c);
        g.a.trans = !g.a.trans;
        g.b.trans = !g.b.trans;
        g.m = dim(c, 2, 1);
        g.n = dim(c, 2, 0);
    }
    return tidei_gemm_batched(tidei_stream_here(c->rt), &g, c->op);
}

static tidei_blas routine_of(const call *c, tidei_blas_routine routine, const tidei_operand *a,
                             const tidei_operand *b, const tidei_operand *t) {
    tidei_blas x = {.routine = routine, .dtype = c->dtype, .nbatch = c->nbatch};
    memcpy(x.batch, c->batch, (size_t)c->nbatch * sizeof *x.batch);
    set_factors(c, x.alpha, x.beta);
    set_matrix(c, a, c->core[0], &x.a);
    set_matrix(c, b, c->core[1], &x.b);
    set_matrix(c, t, c->core[2], &x.c);
    return x;
}

static tide_status run_gemv(const call *c, const tidei_operand *a, const tidei_operand *b,
                            const tidei_operand *t) {
    tidei_blas x = routine_of(c, TIDEI_GEMV, a, b, t);
    x.m = dim(c, 0, 0);
    x.n = dim(c, 0, 1);
    return tidei_blas_run(tidei_stream_here(c->rt), &x, c->op);
}

static tide_status run_ger(const call *c, const tidei_operand *a, const tidei_operand *b,
                           const tidei_operand *t) {
    tidei_blas x = routine_of(c, TIDEI_GER, a, b, t);
    x.m = dim(c, 2, 0);
    x.n = dim(c, 2, 1);
    if (x.c.trans) {
        turn(&x.a, &x.b, &x.c);
        x.m = dim(c, 2, 1);
        x.n = dim(c, 2, 0);
    }
    return tidei_blas_run(tidei_stream_here(c->rt), &x, c->op);
}

/* Updates the target where BLAS can write it, else a copy that is stored back; `reads`: the
** target's old elements are used. */
static tide_status onto_target(const call *c, const tidei_operand *a, const tidei_operand *b,
                               bool reads, update_fn *fn) {
    const tidei_operand *t = &c->x[2];
    tidei_operand copy;
    if (readable(t, c->core[2])) return fn(c, a, b, t);
    tide_status s = tidei_operand_make(c->rt, c->dtype, t->lay.ndim, t->lay.shape, c->op, &copy);
    if (s != TIDE_OK) return s;
    if (reads) s = tidei_store_elements(c->rt, &copy, t, c->op);
    if (s == TIDE_OK) s = fn(c, a, b, &copy);
    if (s == TIDE_OK) s = tidei_store_elements(c->rt, t, &copy, c->op);
    tidei_operand_put(&copy);
    return s;
}

static tide_status update(const call *c, bool reads, update_fn *fn) {
    tidei_dev *d = tidei_stream_here(c->rt)->dev;
    tidei_readied a, b;
    tidei_gemm_begin(d); /* room for copies is not made of the library's handle */
    tide_status s = ready(c, 0, &a);
    if (s == TIDE_OK) {
        s = ready(c, 1, &b);
        if (s == TIDE_OK) {
            s = onto_target(c, a.o, b.o, reads, fn);
            tidei_readied_put(&b);
        }
        tidei_readied_put(&a);
    }
    tidei_gemm_end(d);
    return s;
}

/* Scales the target by beta: the sum to be added has no terms. */
static tide_status scale(const call *c, tide_arg beta, tide_array *target) {
    static const char zeros[16];
    const tide_arg args[] = {beta, tide_arg_array(target)};
    if (tidei_is_zero(c->beta)) return tidei_fill_elements(&c->x[2], zeros, c->op);
    return tidei_expr_map(c->rt, "(b, c) -> b*c", c->op, args, 2, NULL, &target);
}

static tide_status gemm(call *c, tide_arg alpha, tide_arg beta, tide_array *target) {
    if (dim(c, 0, 1) != dim(c, 1, 0))
        return differ(c, 0, 1, "the inner dimensions", dim(c, 0, 1), dim(c, 1, 0));
    if (dim(c, 0, 0) != dim(c, 2, 0))
        return differ(c, 0, 2, "the rows", dim(c, 0, 0), dim(c, 2, 0));
    if (dim(c, 1, 1) != dim(c, 2, 1))
        return differ(c, 1, 2, "the columns", dim(c, 1, 1), dim(c, 2, 1));
    tide_status s = check_target(c);
    if (s == TIDE_OK) s = factor(c, alpha, c->alpha);
    if (s == TIDE_OK) s = factor(c, beta, c->beta);
    if (s != TIDE_OK || is_empty(&c->x[2])) return s;
    return dim(c, 0, 1) == 0 ? scale(c, beta, target)
                             : update(c, !tidei_is_zero(c->beta), run_gemm);
}

tide_status tide_gemm(tide_array *c, tide_arg alpha, tide_array *a, tide_array *b, tide_arg beta) {
    TIDEI_OPERATION("tide_gemm");
    static const signature takes = {"tide_gemm", 3, {"a", "b", "c"}, {2, 2, 2}, {3, 4, 1}};
    call x;
    tide_array *const arrays[] = {a, b, c};
    tide_status s = hold(&x, &takes, arrays);
    if (s != TIDE_OK) return s;
    s = gemm(&x, alpha, beta, c);
    let_go(&x);
    return s;
}

static tide_status gemv(call *c, tide_arg alpha, tide_arg beta, tide_array *target) {
    if (dim(c, 0, 1) != dim(c, 1, 0))
        return differ(c, 0, 1, "the inner dimensions", dim(c, 0, 1), dim(c, 1, 0));
    if (dim(c, 0, 0) != dim(c, 2, 0))
        return differ(c, 0, 2, "the rows", dim(c, 0, 0), dim(c, 2, 0));
    tide_status s = check_target(c);
    if (s == TIDE_OK) s = factor(c, alpha, c->alpha);
    if (s == TIDE_OK) s = factor(c, beta, c->beta);
    if (s != TIDE_OK || is_empty(&c->x[2])) return s;
    return dim(c, 0, 1) == 0 ? scale(c, beta, target)
                             : update(c, !tidei_is_zero(c->beta), run_gemv);
}

tide_status tide_gemv(tide_array *y, tide_arg alpha, tide_array *a, tide_array *x, tide_arg beta) {
    TIDEI_OPERATION("tide_gemv");
    static const signature takes = {"tide_gemv", 3, {"a", "x", "y"}, {2, 1, 1}, {3, 4, 1}};
    call c;
    tide_array *const arrays[] = {a, x, y};
    tide_status s = hold(&c, &takes, arrays);
    if (s != TIDE_OK) return s;
    s = gemv(&c, alpha, beta, y);
    let_go(&c);
    return s;
}

static tide_status ger(call *c, tide_arg alpha) {
    if (dim(c, 0, 0) != dim(c, 2, 0))
        return differ(c, 0, 2, "the rows", dim(c, 0, 0), dim(c, 2, 0));
    if (dim(c, 1, 0) != dim(c, 2, 1))
        return differ(c, 1, 2, "the columns", dim(c, 1, 0), dim(c, 2, 1));
    tide_status s = check_target(c);
    if (s == TIDE_OK) s = factor(c, alpha, c->alpha);
    return s != TIDE_OK || is_empty(&c->x[2]) ? s : update(c, true, run_ger);
}

tide_status tide_ger(tide_array *a, tide_arg alpha, tide_array *x, tide_array *y) {
    TIDEI_OPERATION("tide_ger");
    static const signature takes = {"tide_ger", 3, {"x", "y", "a"}, {1, 1, 2}, {3, 4, 1}};
    call c;
    tide_array *const arrays[] = {x, y, a};
    tide_status s = hold(&c, &takes, arrays);
    if (s != TIDE_OK) return s;
    s = ger(&c, alpha);
    let_go(&c);
    return s;
}

/* ---- axpy ---- */

/* Whether both are one vector each; then describes the call. */
static bool one_line(const call *c, tidei_blas *x) {
    const tidei_layout *l = &c->x[1].lay;
    int64_t from[TIDE_MAX_RANK], n = 1;
    tidei_broadcast_strides(&c->x[0].lay, l->ndim, l->shape, from);
    x->a.ld = x->c.ld = 1;
    for (int i = l->ndim; i-- > 0;) {
        if (l->shape[i] == 1) continue;
        if (n == 1) {
            x->a.ld = from[i];
            x->c.ld = l->strides[i];
        } else if (from[i] != x->a.ld * n || l->strides[i] != x->c.ld * n)
            return false;
        n *= l->shape[i];
    }
    x->n = n;
    return x->a.ld >= 1 && x->c.ld >= 1;
}

/* The expression for the engine: x is multiplied in the type of the result, whatever its own is. */
static const char *axpy_text(tide_dtype t) {
    switch (t) {
    case TIDE_F32: return "(a, x, y) -> a*f32(x) + y";
    case TIDE_F64: return "(a, x, y) -> a*f64(x) + y";
    case TIDE_C64: return "(a, x, y) -> a*c64(x) + y";
    default: return "(a, x, y) -> a*c128(x) + y";
    }
}

/* BLAS where there is one line and one type, which is what it is for; the engine reads anything in
** one pass, without the copies that BLAS would need. */
static tide_status axpy(call *c, tide_arg alpha, tide_array *xa, tide_array *ya) {
    const tidei_operand *x = &c->x[0], *y = &c->x[1];
    const tide_arg args[] = {alpha, tide_arg_array(xa), tide_arg_array(ya)};
    tidei_blas b = {.routine = TIDEI_AXPY, .dtype = c->dtype};
    tide_status s = check_target(c);
    if (s == TIDE_OK) s = factor(c, alpha, c->alpha);
    if (s != TIDE_OK || is_empty(y)) return s;
    if (x->lay.dtype != c->dtype || !one_line(c, &b))
        return tidei_expr_map(c->rt, axpy_text(c->dtype), c->op, args, 3, NULL, &ya);
    memcpy(b.alpha, c->alpha, sizeof b.alpha);
    b.a.st = x->st;
    b.a.offset = x->lay.offset;
    b.c.st = y->st;
    b.c.offset = y->lay.offset;
    return tidei_blas_run(tidei_stream_here(c->rt), &b, c->op);
}

tide_status tide_axpy(tide_array *y, tide_arg alpha, tide_array *x) {
    TIDEI_OPERATION("tide_axpy");
    static const signature takes = {
        "tide_axpy", 2, {"x", "y"}, {0, 0}, {3, 1}}; /* all axes are a batch of numbers */
    call c;
    tide_array *const arrays[] = {x, y};
    tide_status s = hold(&c, &takes, arrays);
    if (s != TIDE_OK) return s;
    s = axpy(&c, alpha, x, y);
    let_go(&c);
    return s;
}

/* ---- sums over the last axis ---- */

/* One number for each index of the batch. */
static tidei_matrix number_of(const call *c, const tidei_operand *o) {
    tidei_matrix m = {.st = o->st, .offset = o->lay.offset, .ld = 1};
    memcpy(m.batch, o->lay.strides, (size_t)c->nbatch * sizeof *m.batch);
    return m;
}

/* DOT of two operands, NRM2 of one. */
static tide_status sums(const call *c, tidei_blas_routine routine, const tidei_operand *out) {
    static const char zeros[16];
    tidei_blas x = {.routine = routine, .dtype = c->dtype, .n = dim(c, 0, 0), .nbatch = c->nbatch};
    tidei_readied in[2];
    tide_status s = TIDE_OK;
    int n = 0;
    if (is_empty(out)) return TIDE_OK;
    if (x.n == 0) return tidei_fill_elements(out, zeros, c->op);
    while (n < c->n && s == TIDE_OK) {
        s = ready(c, n, &in[n]);
        if (s == TIDE_OK) n++;
    }
    if (s == TIDE_OK) {
        memcpy(x.batch, c->batch, (size_t)c->nbatch * sizeof *x.batch);
        set_matrix(c, in[0].o, 1, &x.a);
        if (n > 1) set_matrix(c, in[1].o, 1, &x.b);
        x.c = number_of(c, out);
        s = tidei_blas_run(tidei_stream_here(c->rt), &x, c->op);
    }
    while (n-- > 0) tidei_readied_put(&in[n]);
    return s;
}

static tide_array *summed(const call *c, tidei_blas_routine routine, tide_dtype t) {
    tidei_operand out;
    tidei_dev *d = tidei_stream_here(c->rt)->dev;
    tidei_gemm_begin(d);
    tide_array *made = tidei_array_make(c->rt, t, c->nbatch, c->batch, c->op, &out);
    if (made) made = tidei_array_done(made, &out, sums(c, routine, &out));
    tidei_gemm_end(d);
    return made;
}

/* The dot product of integers, or of integers and bools: in their common type, in which it
** wraps. */
static tide_array *dot_of_integers(const call *c, tide_array *x, tide_array *y) {
#define DOT(t) "(x, y) -> " t "(sum(x*y, axis=-1))"
    static const char *const texts[] = {
        [TIDE_I8] = DOT("i8"),   [TIDE_I16] = DOT("i16"), [TIDE_I32] = DOT("i32"),
        [TIDE_I64] = DOT("i64"), [TIDE_U8] = DOT("u8"),   [TIDE_U16] = DOT("u16"),
        [TIDE_U32] = DOT("u32"), [TIDE_U64] = DOT("u64")};
#undef DOT
    const tide_arg args[] = {tide_arg_array(x), tide_arg_array(y)};
    tide_array *made = NULL;
    tide_dtype t;
    if (tidei_promote(c->x[0].lay.dtype, c->x[1].lay.dtype, c->op, &t) != TIDE_OK) return NULL;
    if (t == TIDE_BOOL)
        tidei_fail(TIDE_E_DTYPE, c->op,
                   "bool has no product; cast one of the operands to a number type");
    else
        (void)tidei_expr_map(c->rt, texts[t], c->op, args, 2, &made, NULL); /* NULL then */
    return made;
}

static bool is_integer(const tidei_operand *o) { return o->lay.dtype <= TIDE_U64; }

tide_array *tide_dot(tide_array *x, tide_array *y) {
    TIDEI_OPERATION("tide_dot");
    static const signature takes = {"tide_dot", 2, {"x", "y"}, {1, 1}, {1, 2}};
    call c;
    tide_array *const arrays[] = {x, y};
    tide_array *made = NULL;
    if (hold(&c, &takes, arrays) != TIDE_OK) return NULL;
    if (dim(&c, 0, 0) != dim(&c, 1, 0))
        (void)differ(&c, 0, 1, "the lengths", dim(&c, 0, 0), dim(&c, 1, 0));
    else if (is_integer(&c.x[0]) && is_integer(&c.x[1]))
        made = dot_of_integers(&c, x, y);
    else if (join_batches(&c, 0) == TIDE_OK)
        made = summed(&c, TIDEI_DOT, c.dtype);
    let_go(&c);
    return made;
}

/* So many calls cost about what two passes of the engine do. No library has a call for more. */
#define NORM_CALLS 4
/* On a GPU the engine folds a long line of f32 faster than cuBLAS does: 33554432 elements on an
** H200 took cuBLAS 70 us, PyTorch 43. */
#define NORM_LONG ((int64_t)1 << 20)

/* Whether the engine computes norms of `count` lines of n. */
static bool is_folded(const call *c, int64_t count, int64_t n) {
    const bool by_text =
        tidei_stream_here(c->rt)->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT && c->dtype == TIDE_F32;
    return (count > NORM_CALLS && n > 0) || (by_text && count > 0 && n >= NORM_LONG);
}

/* Blocks of NM_THREADS for each multiprocessor: as many as it has at once. */
#define NORM_BLOCKS_AN_SM 8

/* Whether the kernels of norm.h take it. */
static bool is_by_kernels(const call *c, int64_t count) {
    const tidei_layout *l = &c->x[0].lay;
    const tidei_device_info *d = &tidei_stream_here(c->rt)->dev->d->info;
    return d->flags & TIDEI_DEV_RUNS_TEXT && (c->dtype == TIDE_F64 || c->dtype == TIDE_C128) &&
           l->dtype == c->dtype && count == 1 && dim(c, 0, 0) >= NORM_LONG &&
           l->strides[l->ndim - 1] == 1;
}

static tide_status norm_by_kernels(const call *c, const tidei_operand *out) {
    static const tidei_own_kernel parts = {"norm_parts", tidei_norm_text, NULL, false},
                                  join = {"norm_join", tidei_norm_text, NULL, false};
    static const size_t at_parts[] = {offsetof(nm_call, parts), offsetof(nm_call, x)},
                        at_join[] = {offsetof(nm_call, out), offsetof(nm_call, parts)};
    const int64_t n = dim(c, 0, 0) * (c->dtype == TIDE_C128 ? 2 : 1),
                  sms = tidei_stream_here(c->rt)->dev->d->info.sm_count,
                  blocks = NORM_BLOCKS_AN_SM * (sms > 0 ? sms : 1), shape[] = {NM_SUMS * blocks};
    tidei_operand sums;
    tide_status s = tidei_operand_make(c->rt, TIDE_F64, 1, shape, c->op, &sums);
    if (s != TIDE_OK) return s;
    const tidei_use of_parts[] = {tidei_operand_use(&sums, TIDEI_WRITE),
                                  tidei_operand_use(&c->x[0], TIDEI_READ)},
                    of_join[] = {tidei_operand_use(out, TIDEI_WRITE),
                                 tidei_operand_use(&sums, TIDEI_READ)};
    nm_call x = {.n = n, .blocks = blocks}, y = x;
    tidei_own_ahead(c->rt, &join);
    s = tidei_run_own_blocks(c->rt, &parts, of_parts, 2, &x, sizeof x, at_parts, NM_THREADS,
                             (unsigned)blocks, c->op);
    if (s == TIDE_OK)
        s = tidei_run_own_blocks(c->rt, &join, of_join, 2, &y, sizeof y, at_join, NM_THREADS, 1,
                                 c->op);
    tidei_operand_put(&sums);
    return s;
}

static tide_array *norm_of_long(const call *c) {
    tidei_operand out;
    tide_array *made = tidei_array_make(c->rt, TIDE_F64, c->nbatch, c->batch, c->op, &out);
    return made ? tidei_array_done(made, &out, norm_by_kernels(c, &out)) : NULL;
}

/* Squares of f32 neither overflow nor underflow in f64. Elements of f64 are divided by the largest
** before they are squared, unless that is 0, infinite or NaN: then the plain sum gives the right
** result. */
static tide_array *norms(const call *c, tide_array *x) {
#define SCALED(modulus)                                                                            \
    "(x) -> let d = " modulus "; let m = max(d, axis=-1, keepdims=true); "                         \
    "let s = where(m > 0 && m < inf, m, 1.0); let q = d/s; sqrt(sum(q*q, axis=-1, "                \
    "keepdims=true))*s"
    static const char
        f32[] = "(x) -> let d = f64(x); f32(sqrt(sum(d*d, axis=-1, keepdims=true)))",
        c64[] = "(x) -> let d = abs(c128(x)); f32(sqrt(sum(d*d, axis=-1, keepdims=true)))",
        f64[] = SCALED("abs(f64(x))"), c128[] = SCALED("abs(x)");
#undef SCALED
    const char *text = c->dtype == TIDE_F32   ? f32
                       : c->dtype == TIDE_C64 ? c64
                       : c->dtype == TIDE_F64 ? f64
                                              : c128;
    const tide_arg arg = tide_arg_array(x);
    tide_array *kept = NULL;
    if (tidei_expr_map(c->rt, text, c->op, &arg, 1, &kept, NULL) != TIDE_OK) return NULL;
    tide_array *made = tide_squeeze(kept, -1);
    if (!made) tidei_fail_as(c->op);
    tidei_array_drop(kept);
    if (!made) tidei_fail_as(c->op);
    return made;
}

tide_array *tide_nrm2(tide_array *x) {
    TIDEI_OPERATION("tide_nrm2");
    static const signature takes = {"tide_nrm2", 1, {"x"}, {1}, {1}};
    call c;
    tide_array *made = NULL;
    if (hold(&c, &takes, &x) != TIDE_OK) return NULL;
    if (join_batches(&c, 0) == TIDE_OK) {
        int64_t count = 1;
        for (int i = 0; i < c.nbatch; i++) count *= c.batch[i];
        made = is_by_kernels(&c, count) ? norm_of_long(&c)
               : is_folded(&c, count, dim(&c, 0, 0))
                   ? norms(&c, x)
                   : summed(&c, TIDEI_NRM2, tidei_real_of(c.dtype));
    }
    let_go(&c);
    return made;
}

/* ---- triangular systems ---- */

/* The right-hand sides, and where they become the solution. */
typedef struct system {
    const call *c;
    tidei_operand x;
} system;

static tide_status set_sides(void *arg) {
    const system *y = arg;
    return tidei_store_elements(y->c->rt, &y->x, &y->c->x[1], y->c->op);
}

static tide_status solve(system *y, int how) {
    const call *c = y->c;
    tidei_readied a;
    tidei_blas x = {.routine = TIDEI_TRSM,
                    .dtype = c->dtype,
                    .m = dim(c, 0, 0),
                    .n = c->core[1] == 2 ? dim(c, 1, 1) : 1,
                    .nbatch = c->nbatch,
                    .upper = (how & TIDE_UPPER) != 0,
                    .unit = (how & TIDE_UNIT) != 0,
                    .again = set_sides,
                    .again_arg = y};
    if (is_empty(&y->x)) return TIDE_OK;
    tide_status s = set_sides(y);
    if (s == TIDE_OK) s = ready(c, 0, &a);
    if (s != TIDE_OK) return s;
    memcpy(x.batch, c->batch, (size_t)c->nbatch * sizeof *x.batch);
    set_matrix(c, a.o, 2, &x.a);
    set_matrix(c, &y->x, c->core[1], &x.c);
    s = tidei_blas_run(tidei_stream_here(c->rt), &x, c->op);
    tidei_readied_put(&a);
    return s;
}

static tide_array *solve_triangular(call *c, int how) {
    int64_t shape[TIDE_MAX_RANK];
    char text[192];
    const tidei_layout *l = &c->x[0].lay;
    system y = {.c = c};
    if (dim(c, 0, 0) != dim(c, 0, 1)) {
        tidei_fail(TIDE_E_SHAPE, c->op, "a of shape %s is not square",
                   tidei_shape_text(text, sizeof text, l->ndim, l->shape));
        return NULL;
    }
    if (dim(c, 0, 1) != dim(c, 1, 0))
        return (void)differ(c, 0, 1, "the rows", dim(c, 0, 1), dim(c, 1, 0)), NULL;
    if (join_batches(c, 0) != TIDE_OK) return NULL;
    memcpy(shape, c->batch, (size_t)c->nbatch * sizeof *shape);
    for (int i = 0; i < c->core[1]; i++) shape[c->nbatch + i] = dim(c, 1, i);
    tidei_dev *d = tidei_stream_here(c->rt)->dev;
    tidei_gemm_begin(d);
    tide_array *made =
        tidei_array_make(c->rt, c->dtype, c->nbatch + c->core[1], shape, c->op, &y.x);
    if (made) {
        tidei_operand x = y.x;
        made = tidei_array_done(made, &x, solve(&y, how));
    }
    tidei_gemm_end(d);
    return made;
}

tide_array *tide_solve_triangular(tide_array *a, tide_array *b, int how) {
    TIDEI_OPERATION("tide_solve_triangular");
    static const signature takes = {"tide_solve_triangular", 2, {"a", "b"}, {2, 1}, {1, 2}};
    call c;
    tide_array *const arrays[] = {a, b};
    tide_array *made = NULL;
    if (hold(&c, &takes, arrays) != TIDE_OK) return NULL;
    if (c.x[1].lay.ndim > 1) c.core[1] = 2;
    if (how & ~(TIDE_UPPER | TIDE_UNIT))
        tidei_fail(TIDE_E_INVALID, takes.op,
                   "%d is none of TIDE_LOWER, TIDE_UPPER, with TIDE_UNIT or without", how);
    else
        made = solve_triangular(&c, how);
    let_go(&c);
    return made;
}
