/* fuzz_expr.c: expressions, from their text to their numbers.
**
** An input is a text up to a NUL; what follows chooses what it is applied to. A text that is
** refused is refused with a place in it. One that is an expression is applied to arrays of any type
** and rank, whose elements lie any way that views make possible, and to numbers. Then
**   - the elements are the slow model's (slow_graph.h), where the documentation fixes them, and
**     those of a second run are the same bits;
**   - written into views of the operands' own memory they are the same, and nothing else is
**     written;
**   - what the model refuses is refused, and nothing else is;
**   - the same call on a device that runs CUDA text gets as far as the launch, as the host does. In
**     a long run some of the texts are compiled for a GPU, where NVRTC is there. */
#define FUZZ_RUNS 15000
#include "tests/fuzz/fuzz_place.h"
#include "tests/arrays/expr/slow_graph.h"
#include "tests/doubles/text_host.h"
#include "runtime/device/cuda/nvrtc.h"

#define ROUNDS 2 /* an expression is applied so often */
/* programs stay as long as the runtime: after so many inputs there is a new one */
#define WORLD_INPUTS 500
#define FRAME_MAX    3000 /* elements of the shape that operands are made for */
#define COMPILES_OF  300  /* in a long run, of so many texts one is compiled */

static const char *text_now; /* of the input at work */

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_expr: %s: %s\n%s\n", what, text_now, tide_error_last()->message);
    abort();
}

/* ---- the two runtimes ---- */

static struct {
    tide_runtime *rt[2]; /* host; one on a device that runs text */
    unsigned inputs;
} world;

static void text_host_saw(const char *source) {
    static unsigned number;
    static int compiles = -1; /* whether NVRTC is there, and wanted */
    void *image;
    size_t bytes;
    require(strstr(source, "tide_k(") != NULL, "a text without its kernel");
    if (compiles < 0) compiles = test_long() && tidei_nvrtc_open(0) == TIDE_OK;
    if (!compiles || ++number % COMPILES_OF) return;
    require(tidei_nvrtc_compile(source, "fuzz", 90, &image, &bytes) == TIDE_OK,
            "a text that does not compile");
    free(image);
}

static void close_world(void) {
    for (int i = 0; i < 2; i++) tide_close(world.rt[i]);
}

static void renew_world(void) {
    tide_config c = {
        .struct_size = sizeof c, .device = "host", .collector = "refcount", .cache = TIDE_OFF};
    tidei_device *d;
    if (world.rt[0] && ++world.inputs < WORLD_INPUTS) return;
    if (world.rt[0])
        close_world();
    else
        atexit(close_world);
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* what naive.h finds wrong ends in abort() */
    world.inputs = 0;
    c.host_device_memory = "64MiB";
    c.debug = test_quick() ? 0 : 1;
    require(tide_open(&c, &world.rt[0]) == TIDE_OK, "opening");
    c.host_device_memory = NULL;
    c.debug = 0;
    require(text_host_open(64 * TIDEI_MIB, &d) == TIDE_OK, "opening");
    require(tidei_open_on(&c, d, &world.rt[1]) == TIDE_OK, "opening");
}

static size_t live(int which) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    require(tide_runtime_info(world.rt[which], &s) == TIDE_OK, "statistics");
    return s.live;
}

/* ---- elements ---- */

static uint64_t random_state;
static uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static unsigned pick(unsigned n) { return (unsigned)(random_bits() % n); }

static double some_float(void) {
    static const double telling[] = {0.0,     -0.0,         0.5,       -2.5,    1e-3,     65504.0,
                                     65520.0, 1e10,         1e300,     0x1p-24, 0x1p-126, 0x1p-149,
                                     FLT_MAX, DBL_MAX,      1 / 3.0,   NAN,     INFINITY, -INFINITY,
                                     127.5,   2147483648.0, 0x1p-1074, 255.0,   -129.0,   0x1p63};
    return pick(3) ? (double)pick(19) - 9 : telling[pick(TIDEI_COUNT(telling))];
}

static num some_num(int t) {
    num n = {.t = t};
    if (t == TIDE_BOOL) {
        n.i = pick(2);
    } else if (naive_class(t) == 1) {
        const __int128 far = pick(2) ? naive_max(t) - pick(3) : naive_min(t) + pick(3);
        n.i = naive_wrap(t, (unsigned __int128)(pick(4)   ? (__int128)pick(19) - 9
                                                : pick(2) ? far
                                                          : far >> pick(32)));
    } else {
        n.x = naive_round(t, some_float());
        if (naive_class(t) == 3) n.y = naive_round(t, some_float());
    }
    return n;
}

/* ---- where elements lie ---- */

/* A view: axes in some order of memory, with gaps, backwards or stretched. */
typedef struct place {
    int ndim;
    /* of the buffer: first element, length */
    int64_t shape[TIDE_MAX_RANK], strides[TIDE_MAX_RANK], first, total;
    /* axes, the outermost in memory first */
    int order[TIDE_MAX_RANK];
    int64_t gap[TIDE_MAX_RANK], before;
    bool back[TIDE_MAX_RANK], stretched[TIDE_MAX_RANK];
} place;

typedef struct operand {
    tide_arg arg[2]; /* in the two runtimes; an array, or a number */
    tide_array *buffer[2];
    unsigned char *bytes; /* of the buffer; NULL: it is a number */
    tide_dtype t;
    place at;
    slow_value value;
} operand;

static int64_t place_length(const place *p, int axis) {
    return p->stretched[axis] ? 1 : p->shape[axis];
}

/* Finds strides and extent. */
static void lay_out(place *p) {
    p->total = 1;
    p->first = p->before;
    for (int k = p->ndim; k-- > 0;) {
        const int i = p->order[k];
        p->strides[i] = p->stretched[i] ? 0 : p->total * p->gap[i] * (p->back[i] ? -1 : 1);
        if (p->back[i] && p->shape[i]) p->first += p->total * p->gap[i] * (place_length(p, i) - 1);
        p->total *= place_length(p, i) * p->gap[i];
    }
}

static place some_place(fuzz_choices *c, int ndim, const int64_t *shape, bool may_stretch) {
    place p = {.ndim = ndim, .before = (int64_t)fuzz_choose(c, 4)};
    const bool plain = fuzz_choose(c, 3) == 0;
    for (int i = 0; i < ndim; i++) {
        const int j = plain ? i : (int)fuzz_choose(c, (unsigned)i + 1);
        p.shape[i] = shape[i];
        p.order[i] = p.order[j];
        p.order[j] = i;
        p.gap[i] = plain || fuzz_choose(c, 3) ? 1 : 1 + (int64_t)fuzz_choose(c, 3);
        p.back[i] = !plain && fuzz_choose(c, 4) == 0;
        p.stretched[i] = may_stretch && !plain && fuzz_choose(c, 6) == 0;
    }
    lay_out(&p);
    return p;
}

/* The element of a place with this row-major number, in the buffer. */
static int64_t element_at(const place *p, int64_t number) {
    int64_t at = p->first;
    for (int i = p->ndim; i-- > 0;) {
        at += number % p->shape[i] * p->strides[i];
        number /= p->shape[i];
    }
    return at;
}

/* The view, by the functions that users have. */
static tide_array *view_of(tide_array *buffer, const place *p) {
    tide_range r[TIDE_MAX_RANK],
        part = {.start = p->before, .stop = p->before + p->total, .step = 1};
    int64_t extents[TIDE_MAX_RANK];
    int perm[TIDE_MAX_RANK];
    tide_array *steps[5] = {tide_slice_ranges(buffer, 1, &part)};
    for (int k = 0; k < p->ndim; k++) {
        const int i = p->order[k];
        const int64_t n = place_length(p, i);
        extents[k] = n * p->gap[i];
        r[k] = (tide_range){.start = TIDE_NONE, .stop = TIDE_NONE, .step = p->gap[i]};
        if (p->back[i] && n)
            r[k] =
                (tide_range){.start = p->gap[i] * (n - 1), .stop = TIDE_NONE, .step = -p->gap[i]};
        perm[i] = k;
    }
    steps[1] = tide_reshape(steps[0], p->ndim, extents);
    steps[2] = tide_slice_ranges(steps[1], (size_t)p->ndim, r);
    steps[3] = tide_transpose(steps[2], perm);
    steps[4] = tide_broadcast_to(steps[3], p->ndim, p->shape);
    require(steps[4] != NULL, "a view");
    for (int i = 0; i < 4; i++) tide_release(steps[i]);
    return steps[4];
}

/* ---- operands ---- */

static void some_frame(fuzz_choices *c, int *ndim, int64_t *shape) {
    static const uint8_t ranks[] = {0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 7, 8};
    static const uint16_t lengths[] = {2, 3, 4, 5, 1, 7, 3, 2, 0, 16, 17, 33, 65, 130, 300, 1000};
    int64_t n = 1;
    *ndim = ranks[fuzz_choose(c, 16)];
    for (int i = 0; i < *ndim; i++) {
        shape[i] = lengths[fuzz_choose(c, 16)];
        if (n * shape[i] > FRAME_MAX) shape[i] = 1;
        n *= shape[i] ? shape[i] : 1;
    }
}

static tide_arg some_number(fuzz_choices *c) {
    switch (fuzz_choose(c, 5)) {
    case 0: return tide_arg_bool((int)pick(2));
    case 1: return tide_arg_uint(pick(2) ? pick(300) : random_bits());
    case 2: return tide_arg_float(some_float());
    case 3: return tide_arg_complex(some_float(), some_float());
    default:
        return tide_arg_int(pick(4) ? (int64_t)pick(19) - 9 : (int64_t)random_bits() >> pick(64));
    }
}

/* Its shape is the end of the frame, some axes 1; seldom something that does not fit. */
static place operand_place(fuzz_choices *c, int ndim, const int64_t *frame) {
    int64_t shape[TIDE_MAX_RANK];
    const int cut = fuzz_choose(c, 3) ? 0 : (int)fuzz_choose(c, (unsigned)ndim + 1);
    for (int i = cut; i < ndim; i++) {
        const unsigned how = fuzz_choose(c, 64);
        shape[i - cut] = how == 63 ? frame[i] + 1 : how < 12 ? 1 : frame[i];
    }
    return some_place(c, ndim - cut, shape, true);
}

static void fill_operand(operand *o) {
    const size_t size = tide_dtype_size(o->t);
    const int64_t n = o->at.before + o->at.total + 2;
    o->bytes = calloc((size_t)n, size);
    require(o->bytes != NULL, "memory");
    for (int64_t i = 0; i < n; i++) naive_store(some_num((int)o->t), o->bytes + (size_t)i * size);
    for (int k = 0; k < 2; k++) {
        o->buffer[k] = tide_from_host(world.rt[k], o->t, 1, &n, o->bytes);
        require(o->buffer[k] != NULL, "a buffer");
        o->arg[k] = tide_arg_array(view_of(o->buffer[k], &o->at));
    }
    slow_value *v = &o->value;
    v->ndim = o->at.ndim;
    memcpy(v->shape, o->at.shape, sizeof v->shape);
    v->n = slow_size(v->ndim, v->shape);
    v->v = calloc((size_t)v->n + 1, sizeof *v->v);
    v->doubt = calloc((size_t)v->n + 1, 1);
    require(v->v && v->doubt, "memory");
    for (int64_t i = 0; i < v->n; i++)
        v->v[i] = naive_load((int)o->t, o->bytes + (size_t)element_at(&o->at, i) * size);
}

static void make_operands(fuzz_choices *c, operand *o, unsigned n) {
    static const uint8_t often[] = {TIDE_F32, TIDE_F64, TIDE_I32, TIDE_U8};
    int64_t frame[TIDE_MAX_RANK];
    int ndim;
    some_frame(c, &ndim, frame);
    const bool alike = fuzz_choose(c, 3) == 0; /* so that what wants one type gets it */
    const tide_dtype type = (tide_dtype)fuzz_choose(c, TIDE_DTYPE_COUNT);
    random_state = c->more;
    for (unsigned i = 0; i < n; i++) {
        const unsigned kind = fuzz_choose(c, 24);
        o[i] = (operand){0};
        if (kind >= 20) {
            o[i].arg[0] = o[i].arg[1] = some_number(c);
            continue;
        }
        o[i].t = alike ? type : kind < TIDE_DTYPE_COUNT ? (tide_dtype)kind : often[kind % 4];
        o[i].at = operand_place(c, ndim, frame);
        fill_operand(&o[i]);
    }
}

static void drop_operands(operand *o, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        for (int k = 0; k < 2 && o[i].bytes; k++) {
            tide_release(o[i].arg[k].value.array);
            tide_release(o[i].buffer[k]);
        }
        free(o[i].bytes);
        free(o[i].value.v);
        free(o[i].value.doubt);
    }
}

/* ---- the calls ---- */

typedef struct trial {
    tide_expr *e[2];
    const tidei_ast *ast;
    operand *o;
    tide_arg args[2][TIDE_MAX_ARGS];
    slow_value values[TIDE_MAX_ARGS];
    uint8_t sig[TIDEI_SIG_MAX];
} trial;

/* A failed call of the expression: what its message looks like. */
static void check_refusal(tide_status s) {
    const tide_error *e = tide_error_last();
    require(s == e->status && *e->message, "a refusal without a reason");
    require(s == TIDE_E_DTYPE || s == TIDE_E_SHAPE || s == TIDE_E_EMPTY || s == TIDE_E_BOUNDS ||
                s == TIDE_E_INVALID || s == TIDE_E_UNSUPPORTED,
            "another refusal");
    if (!strncmp(e->message, "column ", 7) || !strncmp(e->message, "line ", 5))
        place_check(text_now, true);
    if (fuzz_is_utf8(text_now))
        require(fuzz_is_utf8(e->message) && fuzz_is_utf8(e->operation), "not UTF-8");
}

static void forget(tidei_graph *g, slow_graph *slow) {
    if (!g->nodes) return;
    slow_clear(slow);
    tidei_graph_free(test_rt(world.rt[0]), g);
}

/* The graph of the call, and its weak numbers. False: it cannot be built. */
static bool begin_model(const trial *t, const uint8_t *dst, const int8_t *beyond, tidei_graph *g,
                        slow_graph *slow) {
    *g = (tidei_graph){0};
    if (tidei_graph_build(test_rt(world.rt[0]), t->ast, t->sig, dst, beyond, g) != TIDE_OK)
        return false;
    slow_begin(slow, t->ast, g, t->args[0], t->values);
    return true;
}

/* What the model says of the call; the graph is built where it can be. */
static slow_outcome foresee(const trial *t, const uint8_t *dst, tidei_graph *g, slow_graph *slow) {
    bool any, known = true;
    if (!begin_model(t, dst, NULL, g, slow)) return SLOW_REFUSED;
    if (slow->outcome != SLOW_DONE || !g->nlimits) return slow_run(slow);
    int8_t *beyond = malloc(g->nlimits);
    require(beyond != NULL, "memory");
    known = slow_beyond(slow, beyond, &any);
    if (known && any) { /* numbers that types' ranges lack are compared in another graph */
        forget(g, slow);
        require(begin_model(t, dst, beyond, g, slow), "numbers elsewhere fail");
    }
    free(beyond);
    return known ? slow_run(slow) : (slow->outcome = SLOW_TOO_MUCH);
}

static bool has_elements(slow_outcome o) { return o == SLOW_DONE || o == SLOW_UNSURE; }

/* The model does not know how many passes there may be. */
static void compare_outcome(slow_outcome wanted, tide_status s) {
    if (s != TIDE_OK) check_refusal(s);
    if (s == TIDE_E_UNSUPPORTED) return;
    if (wanted == SLOW_DONE) require(s == TIDE_OK, "refused");
    if (wanted == SLOW_REFUSED) require(s != TIDE_OK, "not refused");
}

static void compare_element(const slow_value *x, int64_t i, const unsigned char *bytes,
                            tide_dtype t) {
    char got[80], want[80];
    const num n = naive_load((int)t, bytes);
    if (slow_agrees(x, i, n)) return;
    fprintf(stderr, "fuzz_expr: element %lld: got %s, want %s (doubt %d)\n%s\n", (long long)i,
            naive_text(n, got), naive_text(x->v[i], want), x->doubt[i], text_now);
    abort();
}

static unsigned char *bytes_of(tide_array *a, size_t *n) {
    *n = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    unsigned char *p = malloc(*n + 1);
    require(p && tide_to_host(a, p, *n) == TIDE_OK, "reading");
    return p;
}

static void compare_result(const slow_value *x, tide_array *first, tide_array *second) {
    size_t n, again;
    unsigned char *a = bytes_of(first, &n), *b = bytes_of(second, &again);
    const tide_dtype t = tide_array_dtype(first);
    require(n == again && !memcmp(a, b, n), "a second run gives something else");
    if (x) {
        require(tide_array_ndim(first) == x->ndim, "the rank differs");
        for (int i = 0; i < x->ndim; i++)
            require(tide_array_dim(first, i) == x->shape[i], "the shape differs");
        for (int64_t i = 0; i < x->n; i++)
            compare_element(x, i, a + (size_t)i * tide_dtype_size(t), t);
    }
    free(a);
    free(b);
}

static tide_status apply(const trial *t, int which, tide_array **outs) {
    tide_error_clear();
    if (t->ast->nresults == 1 && which == 0 && random_state % 4 == 0) {
        outs[0] = tide_map_args(world.rt[0], text_now, t->args[0], t->ast->nparams);
        return outs[0] ? TIDE_OK : tide_error_last()->status;
    }
    return tide_expr_apply_many(t->e[which], t->args[which], t->ast->nparams, outs,
                                t->ast->nresults);
}

static void run_new(const trial *t, const tidei_graph *g, const slow_graph *slow,
                    slow_outcome wanted) {
    tide_array *outs[3][TIDE_MAX_RESULTS];
    tide_status first = apply(t, 0, outs[0]);
    compare_outcome(wanted, first);
    require(apply(t, 0, outs[1]) == first, "a second run ends otherwise");
    require(apply(t, 1, outs[2]) == first, "a device that runs text ends otherwise");
    for (uint32_t i = 0; i < t->ast->nresults && first == TIDE_OK; i++) {
        compare_result(has_elements(wanted) ? &slow->values[g->results[i]] : NULL, outs[0][i],
                       outs[1][i]);
        for (int k = 0; k < 3; k++) tide_release(outs[k][i]);
    }
}

/* ---- into memory of the operands ---- */

typedef struct target {
    unsigned operand; /* whose buffer it is in */
    place at;
    tide_array *a[2];
    uint8_t dtype;
} target;

/* Somewhere in the buffer of the first operand, from number `from` on, that has room for the
** shape. */
static bool some_target(const trial *t, fuzz_choices *c, const slow_value *x, unsigned from,
                        target *out) {
    for (unsigned k = 0; k < t->ast->nparams; k++) {
        const unsigned i = (from + k) % t->ast->nparams;
        const operand *o = &t->o[i];
        if (!o->bytes) continue;
        for (int attempt = 0; attempt < 3; attempt++) {
            const int64_t length = o->at.before + o->at.total + 2;
            out->at =
                attempt == 0 ? o->at : some_place(c, x->ndim, x->shape, fuzz_choose(c, 32) == 0);
            if (attempt == 0 && (o->at.ndim != x->ndim ||
                                 memcmp(o->at.shape, x->shape, sizeof *x->shape * (size_t)x->ndim)))
                continue;
            if (out->at.before + out->at.total > length) continue;
            out->operand = i;
            out->dtype = (uint8_t)o->t;
            return true;
        }
    }
    return false;
}

/* Several of its elements lie in one place. */
static bool repeats(const place *p) {
    bool stretched = false;
    for (int i = 0; i < p->ndim; i++) {
        if (p->shape[i] == 0) return false;
        stretched |= p->shape[i] > 1 && p->stretched[i];
    }
    return stretched;
}

/* What the buffers hold once the results are there, in their order, compared with what they do
** hold. */
static void compare_buffers(const trial *t, const target *targets, const tidei_graph *g,
                            const slow_graph *slow) {
    for (unsigned k = 0; k < t->ast->nparams; k++) {
        const operand *o = &t->o[k];
        size_t n, size = tide_dtype_size(o->t);
        if (!o->bytes) continue;
        unsigned char *got = bytes_of(o->buffer[0], &n);
        const slow_value **from = calloc(n / size + 1, sizeof *from);
        int64_t *number = calloc(n / size + 1, sizeof *number);
        require(from && number, "memory");
        for (uint32_t r = 0; r < t->ast->nresults; r++) {
            if (targets[r].operand != k) continue;
            const slow_value *x = &slow->values[g->results[r]];
            for (int64_t i = 0; i < x->n; i++) {
                const int64_t at = element_at(&targets[r].at, i);
                from[at] = x;
                number[at] = i;
            }
        }
        for (size_t i = 0; i < n / size; i++) {
            if (from[i])
                compare_element(from[i], number[i], got + i * size, o->t);
            else
                require(!memcmp(got + i * size, o->bytes + i * size, size),
                        "an element beside the result is written");
        }
        free(from);
        free(number);
        free(got);
    }
}

static void run_into(const trial *t, fuzz_choices *c, const tidei_graph *made,
                     const slow_graph *results) {
    target targets[TIDE_MAX_RESULTS] = {{0}};
    tide_array *dsts[2][TIDE_MAX_RESULTS];
    uint8_t dst[TIDE_MAX_RESULTS];
    const uint32_t n = t->ast->nresults;
    bool refused = false;
    tidei_graph g;
    slow_graph slow;
    for (uint32_t i = 0; i < n; i++) {
        if (!some_target(t, c, &results->values[made->results[i]], fuzz_choose(c, 32), &targets[i]))
            return;
        dst[i] = targets[i].dtype;
        refused |= repeats(&targets[i].at);
    }
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            dsts[k][i] = view_of(t->o[targets[i].operand].buffer[k], &targets[i].at);
    slow_outcome wanted = foresee(t, dst, &g, &slow);
    tide_error_clear();
    tide_status s = tide_expr_apply_into(dsts[0], n, t->e[0], t->args[0], t->ast->nparams);
    compare_outcome(refused ? SLOW_REFUSED : wanted, s);
    if (s != TIDE_OK) /* then nothing is written */
        for (uint32_t i = 0; i < n; i++) targets[i].operand = TIDE_MAX_ARGS;
    if (s != TIDE_OK || has_elements(wanted)) compare_buffers(t, targets, &g, &slow);
    tide_error_clear();
    require(tide_expr_apply_into(dsts[1], n, t->e[1], t->args[1], t->ast->nparams) == s,
            "a device that runs text ends otherwise");
    forget(&g, &slow);
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) tide_release(dsts[k][i]);
}

/* ---- the whole ---- */

static void one_round(trial *t, fuzz_choices *c) {
    operand o[TIDE_MAX_ARGS];
    const unsigned n = t->ast->nparams;
    tidei_graph g;
    slow_graph slow;
    make_operands(c, o, n);
    t->o = o;
    for (unsigned i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) t->args[k][i] = o[i].arg[k];
        t->values[i] = o[i].value;
        t->sig[i] =
            (uint8_t)(o[i].bytes ? (int)o[i].t : TIDEI_WEAK + (int)tidei_weak_dtype(&o[i].arg[0]));
    }
    slow_outcome wanted = foresee(t, NULL, &g, &slow);
    run_new(t, &g, &slow, wanted);
    if (has_elements(wanted) && n && fuzz_choose(c, 2)) run_into(t, c, &g, &slow);
    forget(&g, &slow);
    drop_operands(o, n);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t size) {
    fuzz_choices c;
    char *text = fuzz_text(bytes, size, &c);
    trial t = {0};
    text_now = text;
    renew_world();
    tide_error_clear();
    t.e[0] = tide_expr_new(world.rt[0], text);
    if (!t.e[0]) {
        require(tide_error_last()->status == TIDE_E_PARSE, "another refusal");
        place_check(text, true);
    } else {
        t.e[1] = tide_expr_new(world.rt[1], text);
        t.ast = &((tidei_expr *)tidei_ref_look(TIDEI_REF_EXPR, t.e[0]))->ast;
        for (int i = 0; i < ROUNDS; i++) one_round(&t, &c);
        for (int k = 0; k < 2; k++) tide_expr_release(t.e[k]);
        for (int k = 0; k < 2; k++) require(live(k) == 0, "memory is left");
        require(tidei_runtime_valid(test_rt(world.rt[0])), "the runtime is not valid");
        require(tidei_host_checker_reports(test_rt(world.rt[0])->devs[0].d) == 0,
                "an access out of order");
    }
    free(text);
}
