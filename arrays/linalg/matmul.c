/* matmul.c: matrix products: shapes, types, and which library or kernel computes them.
**
** Floats go to the BLAS of the device (libs/blas.h), which reads matrices whose rows or columns
** have no gaps between their elements; others are copied first. A product of few results with long
** sums goes there in parts. Integers go to kernels of our own (product.h), which take any strides.
** An operand of another type is cast on the same way. A matrix times a vector is the expression
** engine's fold where that runs on the device: it moves the matrix as fast as memory does, takes
** any strides and no workspace, and costs less than a call of cuBLAS does; of f16 and bf16 where
** the elements that are summed up lie side by side, in rows that are short or begin on boundaries
** of vectors. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/ir.h"
#include "arrays/kernels/launch.h"
#include "arrays/linalg/follow.h"
#include "arrays/linalg/matrices.h"
#include "arrays/linalg/product.h"
#include "libs/blas.h"

_Static_assert(PR_RANK == TIDE_MAX_RANK, "one rank for both back ends");

extern const char tidei_product_text[];

/* An operand as matrices: strides in elements. */
typedef struct side {
    int64_t rows, cols, row, col;
} side;

typedef struct plan {
    const char *op;
    tidei_epilogue epilogue; /* what follows, with this bias, of the result's type; NULL: none */
    const tidei_operand *bias;
    tide_dtype dtype; /* of the result */
    int64_t m, n, k;
    int nbatch;
    int64_t batch[TIDE_MAX_RANK];
    int ndim; /* of the result */
    int64_t shape[TIDE_MAX_RANK];
} plan;

/* ---- shapes ---- */

/* A vector is a row on the left, a column on the right; its missing stride is never used. */
static side side_of(const tidei_layout *l, bool left) {
    side x = {0};
    int last = l->ndim - 1;
    if (l->ndim == 1) {
        x.rows = left ? 1 : l->shape[0];
        x.cols = left ? l->shape[0] : 1;
        x.row = left ? 0 : l->strides[0];
        x.col = left ? l->strides[0] : 0;
        return x;
    }
    x.rows = l->shape[last - 1];
    x.cols = l->shape[last];
    x.row = l->strides[last - 1];
    x.col = l->strides[last];
    return x;
}

/* The error for shapes that have no product. Texts are made here only: they cost more than all else
** that the host does for a small product. */
static tide_status no_product(const tidei_layout *a, const tidei_layout *b, const char *op) {
    char left[192], right[192];
    tidei_shape_text(left, sizeof left, a->ndim, a->shape);
    tidei_shape_text(right, sizeof right, b->ndim, b->shape);
    if (a->ndim == 0 || b->ndim == 0)
        return tidei_fail(TIDE_E_SHAPE, op,
                          "shapes %s and %s: a 0-d array is no matrix; multiply it elementwise",
                          left, right);
    return tidei_fail(TIDE_E_SHAPE, op,
                      "shapes %s and %s: the inner dimensions %lld and %lld differ", left, right,
                      (long long)side_of(a, true).cols, (long long)side_of(b, false).rows);
}

static tide_status plan_shapes(const tidei_layout *a, const tidei_layout *b, plan *p) {
    if (a->ndim == 0 || b->ndim == 0) return no_product(a, b, p->op);
    side x = side_of(a, true), y = side_of(b, false);
    if (x.cols != y.rows) return no_product(a, b, p->op);
    p->m = x.rows;
    p->n = y.cols;
    p->k = x.cols;
    p->nbatch = 0;
    tide_status s = tidei_batch_join(a, 2, &p->nbatch, p->batch, p->op);
    if (s == TIDE_OK) s = tidei_batch_join(b, 2, &p->nbatch, p->batch, p->op);
    if (s != TIDE_OK) return s;
    p->ndim = p->nbatch;
    memcpy(p->shape, p->batch, (size_t)p->nbatch * sizeof *p->shape);
    if (a->ndim > 1) p->shape[p->ndim++] = p->m;
    if (b->ndim > 1) p->shape[p->ndim++] = p->n;
    return TIDE_OK;
}

static tide_status plan_types(const tidei_layout *a, const tidei_layout *b, plan *p) {
    tide_status s = tidei_promote(a->dtype, b->dtype, p->op, &p->dtype);
    if (s == TIDE_OK && p->dtype == TIDE_BOOL)
        return tidei_fail(TIDE_E_DTYPE, p->op,
                          "bool has no product; cast one of the operands to a number type");
    return s;
}

/* ---- operands ---- */

static bool as_stored(const side *x, bool *trans, int64_t *ld) {
    return tidei_as_stored(x->rows, x->cols, x->row, x->col, trans, ld);
}

/* The operand itself where its type and strides serve, else a row-major copy in type t. To be
** put. */
static tide_status prepare(const plan *p, const tidei_operand *o, bool left, tide_dtype t,
                           bool for_blas, tidei_readied *out) {
    side x = side_of(&o->lay, left);
    bool trans;
    int64_t ld;
    bool will_do = o->lay.dtype == t && (!for_blas || as_stored(&x, &trans, &ld));
    return tidei_ready(o, will_do, o->lay.ndim == 1 ? 1 : 2, t, p->op, out);
}

/* Against the product's batch; 0 where it stretches. */
static void batch_strides(const plan *p, const tidei_operand *o, int64_t *strides) {
    tidei_batch_strides(&o->lay, 2, p->nbatch, p->batch, strides);
}

/* ---- the ways ---- */

static void set_matrix(const plan *p, const tidei_operand *o, bool left, tidei_matrix *m) {
    side x = side_of(&o->lay, left);
    m->st = o->st;
    m->offset = o->lay.offset;
    m->conj = false;
    bool stored = as_stored(&x, &m->trans, &m->ld);
    tidei_check(stored);
    (void)stored;
    batch_strides(p, o, m->batch);
}

/* Elements of c, row-major, of the type that BLAS computes in. What follows is done in the same
** pass where the library has that (*applied). */
static tide_status by_blas(const plan *p, const tidei_operand *a, const tidei_operand *b,
                           const tidei_operand *c, bool *applied) {
    tidei_gemm g; /* by parts: to clear it as a whole takes longer than to fill it */
    g.dtype = c->lay.dtype;
    g.precision = c->rt->set.matmul_precision;
    g.epilogue = c->lay.dtype == p->dtype ? p->epilogue : TIDEI_EPILOGUE_NONE;
    if (g.epilogue) {
        g.bias = p->bias->st;
        g.bias_offset = p->bias->lay.offset;
    }
    g.m = p->m;
    g.n = p->n;
    g.k = p->k;
    g.nbatch = p->nbatch;
    memcpy(g.batch, p->batch, (size_t)p->nbatch * sizeof *g.batch);
    g.alpha[0] = 1;
    g.alpha[1] = g.beta[0] = g.beta[1] = 0;
    set_matrix(p, a, true, &g.a);
    set_matrix(p, b, false, &g.b);
    g.c.st = c->st;
    g.c.offset = c->lay.offset;
    g.c.ld = p->n;
    g.c.trans = g.c.conj = false;
    int64_t step = p->m * p->n;
    for (int i = p->nbatch; i-- > 0; step *= p->batch[i]) g.c.batch[i] = step;
    tide_status s = tidei_gemm_batched(tidei_stream_here(c->rt), &g, p->op);
    *applied = g.applied;
    return s;
}

static uint64_t first_element(const tidei_operand *o, const tidei_use *use) {
    return (uint64_t)o->lay.offset * tide_dtype_size(o->lay.dtype) - use->offset;
}

static tide_status by_kernel(const plan *p, const tidei_operand *a, const tidei_operand *b,
                             const tidei_operand *c) {
#define KERNEL(name)                                                                               \
    { #name, tidei_product_text, name, false }
    static const tidei_own_kernel by_log2[] = {KERNEL(product_1), KERNEL(product_2),
                                               KERNEL(product_4), KERNEL(product_8)};
#undef KERNEL
    static const size_t at[] = {offsetof(pr_product, out), offsetof(pr_product, a),
                                offsetof(pr_product, b)};
    const tidei_use uses[] = {tidei_operand_use(c, TIDEI_WRITE), tidei_operand_use(a, TIDEI_READ),
                              tidei_operand_use(b, TIDEI_READ)};
    side x = side_of(&a->lay, true), y = side_of(&b->lay, false);
    int64_t x_batch[TIDE_MAX_RANK] = {0}, y_batch[TIDE_MAX_RANK] = {0};
    batch_strides(p, a, x_batch);
    batch_strides(p, b, y_batch);
    pr_product k = {.out = first_element(c, &uses[0]),
                    .a = first_element(a, &uses[1]),
                    .b = first_element(b, &uses[2]),
                    .m = p->m,
                    .n = p->n,
                    .k = p->k,
                    .count = 1,
                    .a_row = x.row,
                    .a_col = x.col,
                    .b_row = y.row,
                    .b_col = y.col,
                    .nbatch = p->nbatch};
    for (int i = 0; i < p->nbatch; i++) {
        k.count *= p->batch[i];
        k.shape[i] = p->batch[i];
        k.a_batch[i] = x_batch[i];
        k.b_batch[i] = y_batch[i];
    }
    uint64_t tiles = (uint64_t)k.count * (((uint64_t)p->m + PR_TILE - 1) / PR_TILE) *
                     (((uint64_t)p->n + PR_TILE - 1) / PR_TILE);
    return tidei_run_own(c->rt, &by_log2[__builtin_ctzll(tide_dtype_size(p->dtype))], uses, 3, &k,
                         sizeof k, at, tiles * PR_TILE * PR_TILE, p->op);
}

/* ---- matrix times vector ---- */

static bool is_half(tide_dtype t) { return t == TIDE_F16 || t == TIDE_BF16; }

/* Longer rows of f16 or bf16, unless each begins on a boundary of so many elements, are cuBLAS's.
** On an H200, by the fold and by cuBLAS, us: f16, rows of 1094 79, 59; bf16, rows of 719 67, 78. */
#define HALVES_UNEVEN 900
#define HALVES_VECTOR 8

static bool are_good_halves(const plan *p, const tidei_operand *a, const tidei_operand *b) {
    const tidei_operand *matrix = p->n == 1 ? a : b;
    const side x = side_of(&matrix->lay, p->n == 1);
    const int64_t beside = p->n == 1 ? x.col : x.row, apart = p->n == 1 ? x.row : x.col;
    return beside == 1 && (p->k <= HALVES_UNEVEN ||
                           (apart % HALVES_VECTOR == 0 && matrix->lay.offset % HALVES_VECTOR == 0));
}

/* 11405 x 5884 of bf16 by a vector on an H200: by cuBLAS 127 us, by PyTorch 63. */
static bool is_by_fold(const plan *p, const tidei_operand *a, const tidei_operand *b,
                       const tidei_dev *d) {
    if ((p->m != 1 && p->n != 1) || a->lay.dtype != p->dtype || b->lay.dtype != p->dtype ||
        !(d->d->info.flags & TIDEI_DEV_RUNS_TEXT))
        return false;
    if (is_half(p->dtype)) /* what follows in its pass spares a rounding */
        return !p->epilogue && are_good_halves(p, a, b);
    return p->dtype == TIDE_F32 || p->dtype == TIDE_F64;
}

/* Adds a node to the program, and says which it is. */
static uint16_t add_node(tidei_program *p, tidei_node n) {
    p->nodes[p->nnodes] = n;
    return p->nnodes++;
}

/* Over one dimension: (a, b) -> sum(a * b), or a -> sum(a); of halves in f32. */
static tidei_program *sum_program(tidei_runtime *rt, tide_dtype t, bool of_products) {
    _Atomic(tidei_program *) *slot = &tidei_arrays_of(rt)->sums[of_products][t];
    tidei_program *known = atomic_load_explicit(slot, memory_order_acquire);
    if (tidei_likely(known != NULL)) return known;
    const uint8_t type = (uint8_t)t, acc = is_half(t) ? TIDE_F32 : type;
    tidei_program p = {.nouts = 1, .fold = TIDEI_FOLD_SUM, .acc_dtype = acc};
    uint16_t at[2] = {0};
    p.ninputs = of_products ? 2 : 1;
    for (uint16_t i = 0; i < p.ninputs; i++) {
        at[i] = add_node(&p, (tidei_node){.op = TIDEI_OP_INPUT, .dtype = type, .a = i});
        if (acc != type)
            at[i] = add_node(&p, (tidei_node){.op = TIDEI_OP_CAST, .dtype = acc, .a = at[i]});
        p.input_dtype[i] = type;
    }
    if (of_products)
        (void)add_node(&p, (tidei_node){.op = TIDEI_OP_MUL, .dtype = acc, .a = at[0], .b = at[1]});
    p.out_dtype[0] = type;
    p.out_node[0] = (uint16_t)(p.nnodes - 1);
    known = tidei_program_shared(rt, &p);
    atomic_store_explicit(slot, known, memory_order_release);
    return known;
}

static tide_status by_fold(const plan *p, const tidei_operand *a, const tidei_operand *b,
                           const tidei_operand *c) {
    side x = side_of(&a->lay, true), y = side_of(&b->lay, false);
    const int kept = p->nbatch, folded = kept + 1;
    tidei_call call;
    call.prog = sum_program(c->rt, p->dtype, true);
    if (!call.prog) return tidei_fail_host_memory(p->op, sizeof *call.prog);
    call.ndim = folded + 1;
    call.nred = 1;
    call.in[0] = (tidei_view){.st = a->st, .offset = a->lay.offset};
    call.in[1] = (tidei_view){.st = b->st, .offset = b->lay.offset};
    call.out[0] = (tidei_view){.st = c->st, .offset = c->lay.offset};
    batch_strides(p, a, call.in[0].strides);
    batch_strides(p, b, call.in[1].strides);
    int64_t step = p->m * p->n;
    for (int i = kept; i-- > 0; step *= p->batch[i]) {
        call.shape[i] = p->batch[i];
        call.out[0].strides[i] = step;
    }
    call.shape[kept] = p->m * p->n; /* one of them is 1 */
    call.in[0].strides[kept] = p->n == 1 ? x.row : 0;
    call.in[1].strides[kept] = p->n == 1 ? 0 : y.col;
    call.out[0].strides[kept] = 1;
    call.shape[folded] = p->k;
    call.in[0].strides[folded] = x.col;
    call.in[1].strides[folded] = y.row;
    tidei_call_collapse(&call);
    tidei_stream *s = tidei_stream_here(c->rt);
    return tidei_backend_of(s->dev)->run(s, &call, p->op);
}

/* ---- long sums of few results ---- */

/* cuBLAS keeps few of a GPU's processors busy with one product of few results, however long their
** sums are. So these go in parts, all in one call, and what came of the parts is added up. On an
** H200, us: 2097152 x 7 by its like, transposed, 540 -> 170; 1048576 x 32, 238 -> 102; 65536 x 7,
** 25 -> 19; 2 x 2097152 by 2097152 x 100, 1056 -> 428; but by 2097152 x 512, 1780 -> 3652. */
#define FEW_RESULTS 1024
#define FEW_ROWS    128 /* or columns */
#define LONG_SUM    ((int64_t)1 << 16)
/* Terms of a part: as many as make PARTS parts, between these; more where there would be more parts
** than any cuBLAS takes in one call. */
#define PARTS      512
#define PARTS_MOST 32768
#define PART_LEAST 512
#define PART_MOST  4096

static bool is_in_parts(const plan *p, const tidei_dev *d) {
    return p->nbatch == 0 && p->k >= LONG_SUM && p->m <= FEW_ROWS && p->n <= FEW_ROWS &&
           p->m * p->n <= FEW_RESULTS && (p->dtype == TIDE_F32 || p->dtype == TIDE_F64) &&
           d->d->info.flags & TIDEI_DEV_RUNS_TEXT;
}

static int64_t terms_of_part(int64_t k) {
    const int64_t each = k / PARTS / PART_LEAST * PART_LEAST, least = k / PARTS_MOST;
    if (least >= PART_MOST) return (least / PART_LEAST + 1) * PART_LEAST;
    return each < PART_LEAST ? PART_LEAST : each > PART_MOST ? PART_MOST : each;
}

/* The product of `count` parts of `each` terms, from term `first` on, each to a matrix of c's. */
static tide_status multiply_parts(const plan *p, const tidei_operand *a, const tidei_operand *b,
                                  const tidei_operand *c, int64_t first, int64_t count,
                                  int64_t each) {
    const side x = side_of(&a->lay, true), y = side_of(&b->lay, false);
    const tidei_layout left = {.dtype = a->lay.dtype,
                               .ndim = 3,
                               .offset = a->lay.offset + first * x.col,
                               .shape = {count, p->m, each},
                               .strides = {each * x.col, x.row, x.col}},
                       right = {.dtype = b->lay.dtype,
                                .ndim = 3,
                                .offset = b->lay.offset + first * y.row,
                                .shape = {count, each, p->n},
                                .strides = {each * y.row, y.row, y.col}};
    tidei_operand l = *a, r = *b;
    plan q = *p;
    bool applied;
    l.lay = left;
    r.lay = right;
    q.epilogue = TIDEI_EPILOGUE_NONE;
    q.k = each;
    q.nbatch = 1;
    q.batch[0] = count;
    return by_blas(&q, &l, &r, c, &applied);
}

/* The first axis of x, added up into c. */
static tide_status add_up(const tidei_operand *x, const tidei_operand *c, const char *op) {
    const int64_t results = tidei_layout_size(&c->lay);
    tidei_stream *s = tidei_stream_here(c->rt);
    tidei_call call;
    call.prog = sum_program(c->rt, c->lay.dtype, false);
    if (!call.prog) return tidei_fail_host_memory(op, sizeof *call.prog);
    call.ndim = 2;
    call.nred = 1;
    call.shape[0] = results;
    call.shape[1] = x->lay.shape[0];
    call.in[0] = (tidei_view){.st = x->st, .offset = x->lay.offset, .strides = {1, results}};
    call.out[0] = (tidei_view){.st = c->st, .offset = c->lay.offset, .strides = {1}};
    tidei_call_collapse(&call);
    return tidei_backend_of(s->dev)->run(s, &call, op);
}

static tide_status by_parts(const plan *p, const tidei_operand *a, const tidei_operand *b,
                            const tidei_operand *c) {
    const int64_t each = terms_of_part(p->k), whole = p->k / each, rest = p->k % each,
                  shape[] = {whole + (rest > 0), p->m, p->n};
    tidei_operand parts, last;
    tide_status s = tidei_operand_make(c->rt, c->lay.dtype, 3, shape, p->op, &parts);
    if (s != TIDE_OK) return s;
    s = multiply_parts(p, a, b, &parts, 0, whole, each);
    last = parts;
    last.lay.offset += whole * p->m * p->n;
    if (s == TIDE_OK && rest) s = multiply_parts(p, a, b, &last, whole * each, 1, rest);
    if (s == TIDE_OK) s = add_up(&parts, c, p->op);
    tidei_operand_put(&parts);
    return s;
}

/* ---- products ---- */

static bool is_for_blas(tide_dtype t) {
    tidei_kind kind = tidei_dtype_kind(t);
    return kind == TIDEI_KIND_FLOAT || kind == TIDEI_KIND_COMPLEX;
}

/* Both operands in type t, then the product into c, which has that type. */
static tide_status multiply(const plan *p, const tidei_operand *a, const tidei_operand *b,
                            const tidei_operand *c, bool *applied) {
    tide_dtype t = c->lay.dtype;
    bool blas = is_for_blas(t);
    tidei_readied x, y;
    tide_status s = prepare(p, a, true, t, blas, &x);
    if (s != TIDE_OK) return s;
    s = prepare(p, b, false, t, blas, &y);
    if (s == TIDE_OK) {
        s = !blas                        ? by_kernel(p, x.o, y.o, c)
            : is_in_parts(p, c->st->dev) ? by_parts(p, x.o, y.o, c)
                                         : by_blas(p, x.o, y.o, c, applied);
        tidei_readied_put(&y);
    }
    tidei_readied_put(&x);
    return s;
}

/* What follows the product in `x`, unless nothing does or it was done; into c. */
static tide_status follow(const plan *p, const tidei_operand *c, const tidei_operand *x,
                          bool applied) {
    if (p->epilogue && !applied) return tidei_follow(p->epilogue, c, x, p->bias, p->op);
    return c == x ? TIDE_OK : tidei_store_elements(c->rt, c, x, p->op);
}

/* f16 and bf16 where no BLAS takes them: in f32, rounded once at the end. */
static tide_status multiply_wider(const plan *p, const tidei_operand *a, const tidei_operand *b,
                                  const tidei_operand *c) {
    tidei_operand wide;
    bool applied = false;
    tide_status s = tidei_operand_make(c->rt, TIDE_F32, p->ndim, p->shape, p->op, &wide);
    if (s != TIDE_OK) return s;
    s = multiply(p, a, b, &wide, &applied);
    if (s == TIDE_OK) s = follow(p, c, &wide, false);
    tidei_operand_put(&wide);
    return s;
}

static tide_status compute(const plan *p, const tidei_operand *a, const tidei_operand *b,
                           const tidei_operand *c) {
    static const char zeros[16];
    size_t size = tide_dtype_size(p->dtype);
    int64_t n = tidei_layout_size(&c->lay);
    bool applied = false;
    tide_status s;
    if (n == 0) return TIDE_OK;
    if (p->k != 0 && is_half(p->dtype) && !is_by_fold(p, a, b, c->st->dev) &&
        !tidei_gemm_takes(c->st->dev, p->dtype))
        return multiply_wider(p, a, b, c);
    if (p->k == 0)
        s = tidei_submit_fill(tidei_stream_here(c->rt), c->st, 0, zeros, size, (size_t)n, p->op);
    else
        s = is_by_fold(p, a, b, c->st->dev) ? by_fold(p, a, b, c) : multiply(p, a, b, c, &applied);
    return s == TIDE_OK ? follow(p, c, c, applied) : s;
}

/* The plan's product as a new array. */
static tide_array *product_of(const plan *p, const tidei_operand *a, const tidei_operand *b) {
    tidei_operand c;
    tidei_dev *d = tidei_stream_here(a->rt)->dev;
    bool library = is_for_blas(p->dtype) && p->k != 0 && !is_by_fold(p, a, b, d);
    /* so that room for the result is not made by destroying the handle that the product needs */
    if (library) tidei_gemm_begin(d);
    tide_array *made = tidei_array_make(a->rt, p->dtype, p->ndim, p->shape, p->op, &c);
    if (made) made = tidei_array_done(made, &c, compute(p, a, b, &c));
    if (library) tidei_gemm_end(d);
    return made;
}

static tide_array *matmul(const tidei_operand *a, const tidei_operand *b) {
    plan p;
    p.op = "tide_matmul";
    p.epilogue = TIDEI_EPILOGUE_NONE;
    if (plan_types(&a->lay, &b->lay, &p) != TIDE_OK || plan_shapes(&a->lay, &b->lay, &p) != TIDE_OK)
        return NULL;
    return product_of(&p, a, b);
}

tide_array *tide_matmul(tide_array *a, tide_array *b) {
    static const char op[] = "tide_matmul";
    TIDEI_OPERATION(op);
    tidei_operand x, y;
    tide_array *made = NULL;
    if (tidei_no_nulls(op, (tide_array *const[]){a, b}, 2) != TIDE_OK) return NULL;
    if (tidei_operand_get(a, op, 1, &x) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(x.rt, b, op, 2, &y) == TIDE_OK) {
        made = matmul(&x, &y);
        tidei_operand_put(&y);
    }
    tidei_operand_put(&x);
    return made;
}

/* ---- products that something follows ---- */

static tide_status plan_linear(const tidei_operand *a, const tidei_operand *b,
                               const tidei_operand *bias, plan *p) {
    char shape[192];
    tide_status s = tidei_promote(a->lay.dtype, b->lay.dtype, p->op, &p->dtype);
    if (s == TIDE_OK) s = tidei_promote(p->dtype, bias->lay.dtype, p->op, &p->dtype);
    if (s == TIDE_OK) s = plan_shapes(&a->lay, &b->lay, p);
    if (s != TIDE_OK) return s;
    if (tidei_dtype_kind(p->dtype) != TIDEI_KIND_FLOAT)
        return tidei_fail(TIDE_E_DTYPE, p->op, "the operands' common type is %s; wanted: a float",
                          tide_dtype_name(p->dtype));
    if (b->lay.ndim < 2 || bias->lay.ndim != 1 || bias->lay.shape[0] != p->n)
        return tidei_fail(
            TIDE_E_SHAPE, p->op,
            "a bias of shape %s for a product of %lld columns; wanted: one element for each column "
            "of a matrix",
            tidei_shape_text(shape, sizeof shape, bias->lay.ndim, bias->lay.shape),
            (long long)p->n);
    return TIDE_OK;
}

static tide_array *linear(const tidei_operand *a, const tidei_operand *b, const tidei_operand *bias,
                          tidei_epilogue epilogue) {
    plan p;
    tidei_readied ready;
    p.op = "tide_linear";
    p.epilogue = epilogue;
    if (plan_linear(a, b, bias, &p) != TIDE_OK) return NULL;
    bool will_do = bias->lay.dtype == p.dtype && tidei_layout_contiguous(&bias->lay);
    if (tidei_ready(bias, will_do, 1, p.dtype, p.op, &ready) != TIDE_OK) return NULL;
    p.bias = ready.o;
    tide_array *made = product_of(&p, a, b);
    tidei_readied_put(&ready);
    return made;
}

tide_array *tide_linear(tide_array *a, tide_array *b, tide_array *bias, int activation) {
    static const char op[] = "tide_linear";
    static const tidei_epilogue epilogues[] = {[TIDE_IDENTITY] = TIDEI_EPILOGUE_BIAS,
                                               [TIDE_RELU] = TIDEI_EPILOGUE_RELU,
                                               [TIDE_GELU] = TIDEI_EPILOGUE_GELU};
    TIDEI_OPERATION(op);
    tidei_operand x, y, z;
    tide_array *made = NULL;
    if (tidei_no_nulls(op, (tide_array *const[]){a, b, bias}, 3) != TIDE_OK) return NULL;
    if (activation < 0 || activation >= (int)TIDEI_COUNT(epilogues))
        return tidei_fail(TIDE_E_INVALID, op,
                          "activation is %d; wanted: TIDE_IDENTITY, TIDE_RELU or TIDE_GELU",
                          activation),
               NULL;
    if (tidei_operand_get(a, op, 1, &x) != TIDE_OK) return NULL;
    if (tidei_operand_get_of(x.rt, b, op, 2, &y) == TIDE_OK) {
        if (tidei_operand_get_of(x.rt, bias, op, 3, &z) == TIDE_OK) {
            made = linear(&x, &y, &z, epilogues[activation]);
            tidei_operand_put(&z);
        }
        tidei_operand_put(&y);
    }
    tidei_operand_put(&x);
    return made;
}
