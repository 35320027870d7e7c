/* test_vm_programs.c: the host's interpreter over programs: random ones on random layouts, results
** over operands, folds in every layout; with all instruction sets that this machine has. What an
** operation means on one element: test_vm.c. */
#include "tests/arrays/expr/vm_calls.h"

/* ---- random programs on random layouts ---- */
typedef struct region { /* an operand's memory */
    unsigned char *memory, *before;
    bool *touched; /* bytes that belong to an element */
    size_t bytes;
} region;
typedef struct job {
    tidei_program p;
    tidei_vm_call c;
    region in[TIDEI_INPUTS_MAX], out[TIDEI_OUTS_MAX];
    int shared[TIDEI_OUTS_MAX]; /* the input whose memory this output writes, or -1 */
    num scalars[TIDEI_SCALARS_MAX];
    int64_t kept, folded; /* elements */
} job;

static int64_t span(const tidei_vm_call *c, int nd, const int64_t *strides) {
    int64_t n = 1;
    for (int d = 0; d < nd; d++)
        n += (c->shape[d] - 1) * (strides[d] < 0 ? -strides[d] : strides[d]);
    return n;
}
/* Any strides over the first nd dimensions: an order of the dimensions, gaps, backwards; for inputs
** stretching too. */
static void random_strides(const tidei_vm_call *c, int nd, bool may_stretch, int64_t *strides) {
    const unsigned style = pick(3); /* 0: row-major; 1: one oddity here and there; 2: any order */
    int order[TIDE_MAX_RANK];
    int64_t next = 1;
    for (int d = 0; d < nd; d++) order[d] = nd - 1 - d;
    for (int d = nd - 1; style == 2 && d > 0; d--) {
        const int j = (int)pick((unsigned)d + 1), o = order[d];
        order[d] = order[j];
        order[j] = o;
    }
    for (int i = 0; i < nd; i++) {
        const int d = order[i];
        if (style > 0 && pick(4) == 0) next *= 1 + pick(3);
        strides[d] = style > 0 && pick(4) == 0 ? -next : next;
        if (may_stretch && pick(5) == 0)
            strides[d] = 0;
        else
            next *= c->shape[d];
    }
}
static region new_region(const tidei_vm_call *c, int nd, tidei_vm_operand *o, int t, bool fill,
                         bool tame) {
    const size_t size = tide_dtype_size(t);
    const int64_t n = span(c, nd, o->strides);
    region r = {.bytes = (size_t)n * size};
    r.memory = malloc(r.bytes);
    r.before = malloc(r.bytes);
    r.touched = calloc(r.bytes, sizeof(bool));
    assert_true(r.memory && r.before && r.touched);
    memset(r.memory, 0xa5, r.bytes);
    for (int64_t i = 0; fill && i < n; i++) {
        num v = special(t, pick(NSPECIAL));
        /* small numbers, so that results differ and sums stay exact enough */
        if (tame || pick(2)) {
            v = (num){.t = t, .i = pick(19)};
            if (naive_signed(t)) v.i -= 9;
            if (naive_class(t) >= 2)
                v.i = 0, v.x = naive_round(t, ((double)pick(4001) - 2000) / 1000);
            if (naive_class(t) == 3) v.y = naive_round(t, ((double)pick(4001) - 2000) / 1000);
            if (t == TIDE_BOOL) v.i = pick(2);
        }
        naive_store(v, r.memory + (size_t)i * size);
    }
    memcpy(r.before, r.memory, r.bytes);
    o->base = r.memory;
    for (int d = 0; d < nd; d++)
        if (o->strides[d] < 0) o->base += (size_t)((c->shape[d] - 1) * -o->strides[d]) * size;
    return r;
}
static void free_job(job *j) {
    for (unsigned i = 0; i < j->p.ninputs; i++)
        free(j->in[i].memory), free(j->in[i].before), free(j->in[i].touched);
    for (unsigned o = 0; o < j->p.nouts; o++)
        if (j->shared[o] < 0)
            free(j->out[o].memory), free(j->out[o].before), free(j->out[o].touched);
    free(j);
}

/* An input without stretching whose memory may take output o's results. */
static int shareable(const job *j, unsigned o) {
    for (unsigned i = 0; i < j->p.ninputs; i++) {
        bool ok = j->p.input_dtype[i] == j->p.out_dtype[o];
        for (int d = 0; d < j->c.ndim; d++) ok &= j->c.in[i].strides[d] != 0;
        for (unsigned q = 0; q < o; q++) ok &= j->shared[q] != (int)i;
        if (ok) return (int)i;
    }
    return -1;
}
static void furnish(job *j, bool tame) {
    tidei_vm_call *c = &j->c;
    const int nk = c->ndim - c->nred;
    j->kept = j->folded = 1;
    for (int d = 0; d < c->ndim; d++) *(d < nk ? &j->kept : &j->folded) *= c->shape[d];
    for (unsigned i = 0; i < j->p.ninputs; i++) {
        random_strides(c, c->ndim, true, c->in[i].strides);
        j->in[i] = new_region(c, c->ndim, &c->in[i], j->p.input_dtype[i], true, tame);
    }
    for (unsigned o = 0; o < j->p.nouts; o++) {
        j->shared[o] = j->p.fold == TIDEI_FOLD_NONE && pick(2) ? shareable(j, o) : -1;
        if (j->shared[o] >= 0) {
            c->out[o] = c->in[j->shared[o]];
            j->out[o] = j->in[j->shared[o]];
        } else {
            random_strides(c, nk, false, c->out[o].strides);
            j->out[o] = new_region(c, nk, &c->out[o], j->p.out_dtype[o], false, tame);
        }
    }
    for (unsigned i = 0; i < j->p.nscalars; i++) {
        j->scalars[i] = special(j->p.scalar_dtype[i], tame ? 1 + pick(4) : pick(NSPECIAL));
        naive_store(j->scalars[i], c->scalars[i]);
    }
}

/* The index of element `linear` of the call's space. */
static void unravel(const tidei_vm_call *c, int from, int to, int64_t linear, int64_t *index) {
    for (int d = to; d-- > from;) {
        index[d] = linear % c->shape[d];
        linear /= c->shape[d];
    }
}
static int64_t place_of(const tidei_vm_operand *o, const int64_t *index, int nd) {
    int64_t e = 0;
    for (int d = 0; d < nd; d++) e += o->strides[d] * index[d];
    return e;
}
static void values_at(const job *j, const int64_t *index, int64_t linear, num *values) {
    num in[TIDEI_INPUTS_MAX];
    for (unsigned i = 0; i < j->p.ninputs; i++) {
        const int t = j->p.input_dtype[i];
        const int64_t e = place_of(&j->c.in[i], index, j->c.ndim) * (int64_t)tide_dtype_size(t);
        in[i] = naive_load(t, j->in[i].before + (j->c.in[i].base - j->in[i].memory) + e);
    }
    naive_values(&j->p, in, j->scalars, linear, values);
}
static num result_at(job *j, unsigned o, const int64_t *index) {
    const int t = j->p.out_dtype[o];
    unsigned char *at = j->c.out[o].base + place_of(&j->c.out[o], index, j->c.ndim - j->c.nred) *
                                               (int64_t)tide_dtype_size(t);
    memset(j->out[o].touched + (at - j->out[o].memory), 1, tide_dtype_size(t));
    return naive_load(t, at);
}
/* Nothing else was written. */
static void check_untouched(const job *j) {
    for (unsigned i = 0; i < j->p.ninputs; i++) {
        bool shared = false;
        for (unsigned o = 0; o < j->p.nouts; o++) shared |= j->shared[o] == (int)i;
        if (!shared) assert_memory_equal(j->in[i].memory, j->in[i].before, j->in[i].bytes);
    }
    for (unsigned o = 0; o < j->p.nouts; o++)
        for (size_t b = 0; b < j->out[o].bytes; b++)
            if (!j->out[o].touched[b]) assert_int_equal(j->out[o].memory[b], j->out[o].before[b]);
}

static void check_map(job *j) {
    num values[TIDEI_NODES_MAX];
    int64_t index[TIDE_MAX_RANK] = {0};
    for (int64_t e = 0; e < j->kept; e++) {
        unravel(&j->c, 0, j->c.ndim, e, index);
        values_at(j, index, e, values);
        for (unsigned o = 0; o < j->p.nouts; o++) {
            const num want = values[j->p.out_node[o]];
            check_num(result_at(j, o, index), want, false, "a program", want, want, want);
        }
    }
    check_untouched(j);
}

/* A random node over earlier ones; operands are cast to a type that the operation offers. */
static void random_node(tidei_program *p) {
    const unsigned first = p->nnodes;
    const int op = TIDEI_OP_CAST + 1 + (int)pick(TIDEI_OP_COUNT - TIDEI_OP_CAST - 1);
    const int arity = tidei_op_infos[op].arity;
    uint16_t x[3];
    int t = p->nodes[pick(first)].dtype;
    if (pick(3) == 0) t = (int)pick(TIDE_DTYPE_COUNT);
    for (int tries = 0; !offered(op, t) && tries < 50; tries++) t = (int)pick(TIDE_DTYPE_COUNT);
    if (!offered(op, t) || !naive_exact(op, t)) return;
    for (int i = 0; i < arity; i++) {
        const int to = i == 0 && tidei_op_infos[op].rule == TIDEI_RULE_SELECT ? TIDE_BOOL : t;
        x[i] = (uint16_t)pick(first);
        if (!naive_castable(p->nodes[x[i]].dtype, to)) return;
        x[i] = cast(p, to, x[i]);
    }
    for (int i = arity; i < 3; i++) x[i] = 0;
    node(p, op, tidei_op_result(op, t), x[0], x[1], x[2]);
}
static void random_body(tidei_program *p, unsigned nodes) {
    for (unsigned i = 1 + pick(4); i-- > 0;) input(p, (int)pick(TIDE_DTYPE_COUNT));
    for (unsigned i = pick(3); i-- > 0; p->nscalars++) {
        p->scalar_dtype[p->nscalars] = (uint8_t)pick(TIDE_DTYPE_COUNT);
        node(p, TIDEI_OP_SCALAR, p->scalar_dtype[p->nscalars], p->nscalars, 0, 0);
    }
    if (pick(3) == 0) node(p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0, 0);
    for (unsigned i = 0; i < nodes; i++) random_node(p);
}
/* Lengths about those of blocks now and then. */
static void random_shape(tidei_vm_call *c, int ndim, int64_t most) {
    static const int64_t edges[] = {1,   2,   3,   15,  16,  17,  63,   64,   65,
                                    255, 256, 257, 511, 512, 513, 1023, 1024, 1025};
    c->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        int64_t n = pick(3) ? 1 + pick(12) : edges[pick(TIDEI_COUNT(edges))];
        if (n > most) n = most;
        c->shape[d] = n;
        most /= n;
    }
}

enum { MAPS = 300, FOLDS = 300, MOST = 3000 };

static void random_programs_agree_with_the_model(void **state) {
    (void)state;
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        random_state = 11 + s;
        for (int n = 0; n < MAPS; n++) {
            job *j = calloc(1, sizeof *j);
            assert_non_null(j);
            random_body(&j->p, pick(14));
            for (unsigned o = 1 + pick(3); o-- > 0;)
                result(&j->p, (uint16_t)(j->p.nnodes - 1 - pick(j->p.nnodes) / 2));
            random_shape(&j->c, (int)pick(5) + (pick(8) == 0 ? 4 : 0), MOST);
            furnish(j, false);
            run(tidei_vm_kernels_at(s), &j->p, &j->c);
            check_map(j);
            free_job(j);
        }
    }
}

/* As many nodes as a program may have, most of them live at once: lanes become few. */
static void the_largest_program_runs(void **state) {
    enum { N = 100 };
    static double data[N][2], out[N][2];
    tidei_program p = {0};
    tidei_vm_call call = line(N);
    uint16_t x = input(&p, TIDE_C128);
    (void)state;
    for (int i = 0; i < N; i++) data[i][0] = i, data[i][1] = -i;
    while (p.nnodes < TIDEI_NODES_MAX / 2) x = node(&p, TIDEI_OP_ADD, TIDE_C128, x, 0, 0);
    for (uint16_t i = 0; p.nnodes < TIDEI_NODES_MAX; i++)
        x = node(&p, TIDEI_OP_SUB, TIDE_C128, x, i, 0);
    result(&p, x);
    bind(&call.in[0], data);
    bind(&call.out[0], out);
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        run(tidei_vm_kernels_at(s), &p, &call);
        for (int i = 0; i < N; i++) {
            const num in = naive_load(TIDE_C128, data[i]);
            num values[TIDEI_NODES_MAX];
            naive_values(&p, &in, NULL, i, values);
            check_num(naive_load(TIDE_C128, out[i]), values[x], false, "the sums", in, in, in);
        }
    }
}

/* Results over the operands, where one result is complete before the operands of another are
** read. */
static void results_may_replace_their_operands(void **state) {
    enum { N = 5000 };
    static float a[N], b[N];
    tidei_program p = {0};
    tidei_vm_call call = line(N);
    const uint16_t x = input(&p, TIDE_F32), y = input(&p, TIDE_F32);
    (void)state;
    result(&p, node(&p, TIDEI_OP_ADD, TIDE_F32, x, y, 0));
    result(&p, node(&p, TIDEI_OP_SUB, TIDE_F32, x, y, 0));
    bind(&call.in[0], a), bind(&call.out[0], a);
    bind(&call.in[1], b), bind(&call.out[1], b);
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(2 * i);
        run(tidei_vm_kernels_at(s), &p, &call);
        for (int i = 0; i < N; i++) assert_true(a[i] == (float)(3 * i) && b[i] == (float)-i);
    }
}

/* ---- folds ---- */
static num fold_start(int kind, int t, num first) {
    num r = first;
    if (kind == TIDEI_FOLD_SUM || kind == TIDEI_FOLD_MEAN || kind == TIDEI_FOLD_PROD) {
        /* integers: float sums are checked elsewhere */
        r = (num){.t = t, .i = kind == TIDEI_FOLD_PROD};
    }
    return r;
}
/* The exact fold of integers and bools, and of comparisons; arg folds give the index. */
static num naive_fold(int kind, const num *v, int64_t n) {
    num r = fold_start(kind, v[0].t, v[0]);
    int64_t at = 0;
    for (int64_t i = kind == TIDEI_FOLD_SUM || kind == TIDEI_FOLD_PROD ? 0 : 1; i < n; i++) {
        const bool less = naive_class(v[i].t) == 2 ? v[i].x < r.x : v[i].i < r.i;
        const bool more = naive_class(v[i].t) == 2 ? v[i].x > r.x : v[i].i > r.i;
        const bool nan = isnan(v[i].x) && !isnan(r.x);
        switch (kind) {
        case TIDEI_FOLD_SUM: r.i = naive_wrap(r.t, (unsigned __int128)(r.i + v[i].i)); break;
        case TIDEI_FOLD_PROD:
            r.i = naive_wrap(r.t, (unsigned __int128)r.i * (unsigned __int128)v[i].i);
            break;
        case TIDEI_FOLD_ANY: r.i |= v[i].i; break;
        case TIDEI_FOLD_ALL: r.i &= v[i].i; break;
        case TIDEI_FOLD_MIN:
        case TIDEI_FOLD_ARGMIN:
            if (less || nan) r = v[i], at = i;
            break;
        default:
            if (more || nan) r = v[i], at = i;
        }
    }
    return kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX ? (num){.t = TIDE_I64, .i = at}
                                                                  : r;
}
/* Float sums, products, means: within a few roundings a level of the exact value. */
static void check_float_fold(int kind, const num *v, int64_t n, int out, num got) {
    long double re = kind == TIDEI_FOLD_PROD, im = 0, size = 0,
                reach = 0; /* reach: of partial products' exponents */
    const int t = v[0].t;
    const long double unit = t == TIDE_F32 || t == TIDE_C64 ? FLT_EPSILON : DBL_EPSILON;
    for (int64_t i = 0; i < n; i++) {
        if (kind == TIDEI_FOLD_PROD) {
            const long double x = re * v[i].x - im * v[i].y;
            im = re * v[i].y + im * v[i].x;
            re = x;
        } else {
            re += v[i].x, im += v[i].y;
        }
        size += hypotl(v[i].x, v[i].y);
        reach += fabsl(log2l(hypotl(v[i].x, v[i].y)));
    }
    if (kind == TIDEI_FOLD_PROD && reach > 100) return; /* the order decides about overflow */
    if (kind == TIDEI_FOLD_MEAN) re /= n, im /= n, size /= n;
    const long double scale = kind == TIDEI_FOLD_PROD ? hypotl(re, im) * 2 * n : size * 24;
    const long double rounding = out == TIDE_F16 ? 0x1p-10L : out == TIDE_BF16 ? 0x1p-7L : 0;
    const long double bound = scale * unit + rounding * hypotl(re, im) +
                              0x1p-24L * (out == TIDE_F16) + LDBL_MIN +
                              (t == TIDE_F32 || t == TIDE_C64 ? (long double)FLT_MIN * n : 0);
    if (out == TIDE_F16 && fabsl(re) > 60000) return; /* may overflow */
    if (!(fabsl(got.x - re) <= bound && fabsl(got.y - im) <= bound))
        fail_msg("fold %d of %lld: got (%g, %g), want (%Lg, %Lg) within %Lg", kind, (long long)n,
                 got.x, got.y, re, im, bound);
}
static bool exact_fold(int kind, int t) {
    return naive_class(t) <= 1 ||
           (kind != TIDEI_FOLD_SUM && kind != TIDEI_FOLD_PROD && kind != TIDEI_FOLD_MEAN);
}
static void check_fold(job *j) {
    num *v = malloc((size_t)j->folded * sizeof *v), values[TIDEI_NODES_MAX];
    const int nk = j->c.ndim - j->c.nred, kind = j->p.fold, out = j->p.out_dtype[0];
    assert_non_null(v);
    for (int64_t e = 0; e < j->kept; e++) {
        int64_t index[TIDE_MAX_RANK] = {0};
        unravel(&j->c, 0, nk, e, index);
        for (int64_t r = 0; r < j->folded; r++) {
            unravel(&j->c, nk, j->c.ndim, r, index);
            values_at(j, index, e * j->folded + r, values);
            v[r] = values[j->p.out_node[0]];
        }
        const num got = result_at(j, 0, index);
        if (exact_fold(kind, j->p.acc_dtype)) {
            const num want = naive_fold(kind, v, j->folded);
            check_num(got, want.t == out ? want : naive_cast(want, out), true, "a fold", v[0], want,
                      want);
        } else {
            check_float_fold(kind, v, j->folded, out, got);
        }
    }
    check_untouched(j);
    free(v);
}

/* Makes the last node the body of a random fold that its type allows. */
static void random_fold(tidei_program *p, bool tame) {
    static const int reals[] = {TIDE_F32, TIDE_F64},
                     sums[] = {TIDE_I64, TIDE_U64, TIDE_F32, TIDE_F64, TIDE_C64, TIDE_C128};
    static const int orders[] = {TIDE_BOOL, TIDE_I8,  TIDE_I16, TIDE_I32, TIDE_I64, TIDE_U8,
                                 TIDE_U16,  TIDE_U32, TIDE_U64, TIDE_F32, TIDE_F64};
    const uint16_t body = (uint16_t)(p->nnodes - 1);
    const int from = p->nodes[body].dtype;
    int acc = TIDE_BOOL, kind = TIDEI_FOLD_SUM + (int)pick(9);
    if (naive_class(from) == 3 && kind != TIDEI_FOLD_ANY && kind != TIDEI_FOLD_ALL)
        kind = tame ? TIDEI_FOLD_SUM : TIDEI_FOLD_ANY;
    switch (kind) {
    case TIDEI_FOLD_SUM:
    case TIDEI_FOLD_PROD: acc = naive_class(from) == 3 ? from : sums[pick(tame ? 6 : 2)]; break;
    case TIDEI_FOLD_MEAN: acc = reals[pick(2)]; break;
    case TIDEI_FOLD_ANY:
    case TIDEI_FOLD_ALL: break;
    default: acc = orders[pick(TIDEI_COUNT(orders))];
    }
    if (kind == TIDEI_FOLD_MEAN && !tame) kind = TIDEI_FOLD_MAX;
    p->fold = (uint8_t)kind;
    p->acc_dtype = (uint8_t)acc;
    p->out_node[0] = cast(p, acc, body);
    p->out_dtype[0] =
        (uint8_t)(kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX ? TIDE_I64 : acc);
    if (acc == TIDE_F32 && kind != TIDEI_FOLD_ARGMIN && kind != TIDEI_FOLD_ARGMAX && pick(3) == 0)
        p->out_dtype[0] = (uint8_t)(TIDE_F16 + pick(2));
    p->nouts = 1;
}
/* Tame: sums and products of floats, of one or two inputs with small numbers; else any program,
** where results are exact. */
static void try_fold(const tidei_vm_kernels *k, bool tame) {
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    if (tame) {
        const uint16_t x = input(&j->p, (int)pick(TIDE_DTYPE_COUNT));
        if (pick(2) && naive_exact(TIDEI_OP_ADD, j->p.nodes[x].dtype) &&
            offered(TIDEI_OP_ADD, j->p.nodes[x].dtype))
            node(&j->p, TIDEI_OP_ADD, j->p.nodes[x].dtype, x, input(&j->p, j->p.nodes[x].dtype), 0);
    } else {
        random_body(&j->p, pick(8));
    }
    random_fold(&j->p, tame);
    random_shape(&j->c, 1 + (int)pick(4) + (pick(8) == 0 ? 4 : 0), MOST);
    j->c.nred = 1 + (int)pick((unsigned)j->c.ndim);
    furnish(j, tame);
    run(k, &j->p, &j->c);
    check_fold(j);
    free_job(j);
}
static void random_folds_agree_with_the_model(void **state) {
    (void)state;
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        random_state = 7 + s;
        for (int n = 0; n < FOLDS; n++) try_fold(tidei_vm_kernels_at(s), n % 2);
    }
}

/* One fold over a matrix seen four ways: rows, columns, all, the middle of three. */
typedef enum { BY_ROW, BY_COLUMN, WHOLE, MIDDLE, LAYOUTS } layout;
static tidei_vm_call matrix(layout l, int64_t n, int64_t m, void *in, void *out) {
    tidei_vm_call c = {.ndim = l == WHOLE ? 1 : l == MIDDLE ? 3 : 2, .nred = 1};
    c.in[0].base = in;
    c.out[0].base = out;
    if (l == WHOLE) {
        c.shape[0] = n * m, c.in[0].strides[0] = 1;
    } else if (l == MIDDLE) { /* (n, m, 3) in memory */
        c.shape[0] = n, c.shape[1] = 3, c.shape[2] = m;
        c.in[0].strides[0] = 3 * m, c.in[0].strides[1] = 1, c.in[0].strides[2] = 3;
        c.out[0].strides[0] = 3, c.out[0].strides[1] = 1;
    } else {
        c.shape[0] = l == BY_ROW ? n : m, c.shape[1] = l == BY_ROW ? m : n;
        c.in[0].strides[l != BY_ROW] = m, c.in[0].strides[l == BY_ROW] = 1;
        c.out[0].strides[0] = 1;
    }
    return c;
}
static tidei_program simple_fold(int kind, int t, int out) {
    tidei_program p = {.fold = (uint8_t)kind, .acc_dtype = (uint8_t)t, .nouts = 1};
    input(&p, t);
    p.out_dtype[0] = (uint8_t)out;
    return p;
}

static void sums_are_right_about_the_size_of_blocks(void **state) {
    static const int64_t sizes[] = {1,   2,   15,   16,   17,   31,   32,   33,    127,
                                    128, 512, 1023, 1024, 1025, 1365, 4097, 20000, 65537};
    float *x = malloc(65537 * 9 * sizeof *x), *sums = malloc(65537 * 9 * sizeof *sums);
    const tidei_program p = simple_fold(TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32);
    (void)state;
    assert_true(x && sums);
    for (int i = 0; i < 65537 * 9; i++) x[i] = (float)(i % 7); /* sums are exact */
    for (unsigned i = 0; i < TIDEI_COUNT(sizes); i++) {
        for (int l = 0; l < LAYOUTS; l++) {
            const int64_t m = sizes[i], rows = l == BY_COLUMN ? m : 3,
                          columns = l == BY_COLUMN ? 3 : m;
            const tidei_vm_call c = matrix(l, rows, columns, x, sums);
            const int64_t kept = l == WHOLE    ? 1
                                 : l == MIDDLE ? 9
                                               : 3,
                          folded = l == WHOLE ? 3 * m : m;
            run(tidei_vm_kernels_at(0), &p, &c);
            for (int64_t k = 0; k < kept; k++) {
                int64_t want = 0;
                for (int64_t r = 0; r < folded; r++)
                    want += (l == WHOLE       ? r
                             : l == BY_ROW    ? k * m + r
                             : l == BY_COLUMN ? r * 3 + k
                                              : k / 3 * 3 * m + r * 3 + k % 3) %
                            7;
                assert_true(sums[k] == (float)want);
            }
        }
    }
    free(x);
    free(sums);
}

/* -0.0 is the identity: sums of -0.0 stay so, whatever the blocks. */
static void negative_zeros_stay(void **state) {
    enum { N = 70, M = 3000 };
    static float x[3 * N * M], sums[3 * M];
    const tidei_program p = simple_fold(TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32);
    (void)state;
    for (int i = 0; i < 3 * N * M; i++) x[i] = -0.0f;
    for (int l = 0; l < LAYOUTS; l++) {
        const tidei_vm_call c = matrix(l, N, M, x, sums);
        memset(sums, 0x7f, sizeof sums);
        run(tidei_vm_kernels_at(0), &p, &c);
        for (int k = 0; k < (l == WHOLE ? 1 : l == BY_COLUMN ? M : N); k++)
            assert_true(sums[k] == 0 && signbit(sums[k]));
    }
}

/* NaN wins wherever it is; the first of equals, and the first NaN, is the place. */
static void extremes_are_found_anywhere(void **state) {
    enum { N = 40, M = 1500 };
    static float x[3 * N * M];
    static int64_t at[3 * M];
    static float best[3 * M];
    (void)state;
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        for (int round = 0; round < 60; round++) {
            const bool nan = round % 3 == 0, min = round % 2;
            const layout l = (layout)(round % LAYOUTS);
            const int64_t folded = l == WHOLE ? N * M : l == BY_COLUMN ? N : M;
            const int64_t first = round < 8 ? (round < 4 ? 0 : folded - 1) : pick((unsigned)folded);
            const tidei_program where =
                simple_fold(min ? TIDEI_FOLD_ARGMIN : TIDEI_FOLD_ARGMAX, TIDE_F32, TIDE_I64);
            const tidei_program what =
                simple_fold(min ? TIDEI_FOLD_MIN : TIDEI_FOLD_MAX, TIDE_F32, TIDE_F32);
            tidei_vm_call c = matrix(l, N, M, x, at);
            const int nk = c.ndim - 1;
            for (int i = 0; i < 3 * N * M; i++) x[i] = (float)(i % 11) * (min ? 1 : -1);
            /* the extreme from `first` on, now and then, in the third kept element (the only one of
            ** WHOLE) */
            float *base = x;
            if (l == BY_ROW || l == BY_COLUMN) base += 2 * c.in[0].strides[0];
            if (l == MIDDLE) base += 2 * c.in[0].strides[1];
            for (int64_t r = first; r < folded; r += 1 + pick(900))
                base[r * c.in[0].strides[nk]] = nan && r == first ? NAN : min ? -1.0f : 1.0f;
            run(tidei_vm_kernels_at(s), &where, &c);
            assert_int_equal(at[l == WHOLE ? 0 : 2], first);
            c.out[0].base = (unsigned char *)best;
            run(tidei_vm_kernels_at(s), &what, &c);
            assert_true(is(best[l == WHOLE ? 0 : 2], nan ? NAN : min ? -1 : 1));
        }
    }
}

/* Errors grow with the logarithm: adding one by one would lose thousands of units here. Every set
** of instructions and every run gives the same bits. */
static void long_sums_are_accurate_and_repeat(void **state) {
    const int64_t n = 1 << 22;
    float *x = malloc((size_t)n * sizeof *x), sum[2] = {0, 0};
    long double want = 0;
    const tidei_program p = simple_fold(TIDEI_FOLD_SUM, TIDE_F32, TIDE_F32);
    (void)state;
    assert_non_null(x);
    random_state = 3;
    for (int64_t i = 0; i < n; i++) want += x[i] = (float)(random_bits() >> 40) * 0x1p-24f;
    for (unsigned s = 0; tidei_vm_kernels_at(s); s++) {
        tidei_vm_call c = matrix(WHOLE, 1, n, x, &sum[s > 0]);
        run(tidei_vm_kernels_at(s), &p, &c);
        assert_true(fabsl(sum[s > 0] - want) <= want * 4 * FLT_EPSILON);
        if (s > 0) assert_true(sum[0] == sum[1]);
        c = matrix(BY_COLUMN, n / 2, 2, x, sum);
        float both[2];
        c.out[0].base = (unsigned char *)both;
        run(tidei_vm_kernels_at(s), &p, &c);
        assert_true(fabsl((long double)both[0] + both[1] - want) <= want * 4 * FLT_EPSILON);
    }
    free(x);
}

/* A mean divides by the count; f16 results come from f32 sums that f16 could not hold. */
static void means_divide_and_f16_sums_are_wide(void **state) {
    enum { N = 3000 };
    static float x[N];
    uint16_t h = 0;
    tidei_program p = simple_fold(TIDEI_FOLD_MEAN, TIDE_F32, TIDE_F16);
    const tidei_vm_call c = matrix(WHOLE, 1, N, x, &h);
    (void)state;
    for (int i = 0; i < N; i++) x[i] = i % 2 ? 60000.0f : 30000.0f;
    run(tidei_vm_kernels_at(0), &p, &c);
    assert_true(tidei_f16_to_f32(h) == 45000.0f - 8); /* 45000 is between 44992 and 45024 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_agree_with_the_model),
        cmocka_unit_test(the_largest_program_runs),
        cmocka_unit_test(results_may_replace_their_operands),
        cmocka_unit_test(random_folds_agree_with_the_model),
        cmocka_unit_test(sums_are_right_about_the_size_of_blocks),
        cmocka_unit_test(negative_zeros_stay),
        cmocka_unit_test(extremes_are_found_anywhere),
        cmocka_unit_test(long_sums_are_accurate_and_repeat),
        cmocka_unit_test(means_divide_and_f16_sums_are_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
