/* compute_calls.c: calls of tide/ops.h, tide/expr.h, tide/linalg.h and tide/random.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- tide/ops.h ---- Now and then an operand is so large that no result of its shape fits. */

static unsigned usual(world *w) { return chance(w, 3) ? VAST : 0; }

static void on_unary(world *w) {
    array *x = draw_array(w, usual(w) | (chance(w, 60) ? REAL : 0));
    calling(w, "%s(%s)", w->frame->c->name, x->name);
    (void)made(w, w->frame->c->fn.unary(x->a), NULL, ROW_MAJOR);
}

static void on_binary(world *w) {
    array *x = draw_array(w, usual(w)), *y = draw_partner(w, x, 0);
    calling(w, "%s(%s, %s)", w->frame->c->name, x->name, y->name);
    (void)made(w, w->frame->c->fn.binary(x->a, y->a), NULL, ROW_MAJOR);
}

static void on_bits(world *w) {
    array *x = draw_array(w, INTEGER), *y = draw_partner(w, x, INTEGER);
    calling(w, "%s(%s, %s)", w->frame->c->name, x->name, y->name);
    (void)made(w, w->frame->c->fn.binary(x->a, y->a), NULL, ROW_MAJOR);
}

static void on_bits_of(world *w) {
    array *x = draw_array(w, INTEGER);
    calling(w, "%s(%s)", w->frame->c->name, x->name);
    (void)made(w, w->frame->c->fn.unary(x->a), NULL, ROW_MAJOR);
}

static void on_ternary(world *w) {
    array *x = draw_array(w, 0), *y = draw_partner(w, x, 0), *z = draw_partner(w, x, 0);
    calling(w, "%s(%s, %s, %s)", w->frame->c->name, x->name, y->name, z->name);
    (void)made(w, w->frame->c->fn.ternary(x->a, y->a, z->a), NULL, ROW_MAJOR);
}

static void on_fold(world *w) {
    const bool var = !strcmp(w->frame->c->name, "tide_var"),
               spread = var || !strcmp(w->frame->c->name, "tide_std");
    int axes[10];
    array *x = draw_array(w, chance(w, 70) ? REAL : 0);
    bool all = chance(w, 40);
    int n = all ? ONE_OF(w, int, 0, 0, 1, 8, -1, INT32_MAX) : (int)below(w, (unsigned)x->ndim + 1);
    for (int i = 0; i < 10; i++) axes[i] = i;
    if (!all && chance(w, 5)) n = ONE_OF(w, int, -1, 9, INT32_MIN);
    for (int i = 0; i < n && i < 10 && chance(w, 20); i++) axes[i] = draw_axis(w, x->ndim);
    int keep = ONE_OF(w, int, 0, 0, 1, 1, -7);
    calling(w, "%s(%s, %s, %d, %d)", w->frame->c->name, x->name,
            all ? "NULL" : say(w, "(int[]){%d, %d, %d, ...}", axes[0], axes[1], axes[2]), n, keep);
    const int *given = all ? NULL : axes;
    tide_array *made_of = !spread ? w->frame->c->fn.fold(x->a, given, n, keep)
                          : var   ? tide_var(x->a, given, n, 1, keep)
                                  : tide_std(x->a, given, n, 0, keep);
    (void)made(w, made_of, NULL, ROW_MAJOR);
}

/* ---- matrices ---- */

static bool multiplies(const array *x, const array *y) {
    return x->ndim == 2 && y->ndim == 2 && y->shape[1] == x->shape[0];
}

/* A right side, or a factor, for matrix x. */
static array *draw_factor(world *w, const array *x, unsigned wanted) {
    unsigned from = below(w, ARRAYS);
    for (unsigned i = 0; i < ARRAYS && x->ndim == 2 && chance(w, 99); i++) {
        array *y = &w->arrays[(from + i) % ARRAYS];
        if (!y->a || y->rt != x->rt || y->freed || y->in->frozen || y->size > 4096 || y->busy)
            continue;
        if (!multiplies(y, x) || (wanted & FLOATS && y->dtype < TIDE_F32)) continue;
        y->valid = true;
        hold(w, &y->busy);
        return y;
    }
    return draw_partner(w, x, wanted);
}

static void on_matmul(world *w) {
    array *x = draw_array(w, MATRIX), *y = draw_factor(w, x, VECTOR);
    calling(w, "tide_matmul(%s, %s)", x->name, y->name);
    (void)made(w, tide_matmul(x->a, y->a), NULL, ROW_MAJOR);
}

static void on_linear(world *w) {
    array *x = draw_array(w, MATRIX | FLOATS), *y = draw_factor(w, x, MATRIX | FLOATS);
    array *bias = draw_array(w, VECTOR | FLOATS);
    int activation = draw_enum(w, TIDE_IDENTITY, TIDE_GELU);
    calling(w, "tide_linear(%s, %s, %s, %d)", x->name, y->name, bias->name, activation);
    (void)made(w, tide_linear(x->a, y->a, bias->a, activation), NULL, ROW_MAJOR);
}

static void on_dot(world *w) {
    array *x = draw_array(w, VECTOR), *y = draw_partner(w, x, VECTOR);
    calling(w, "tide_dot(%s, %s)", x->name, y->name);
    (void)made(w, tide_dot(x->a, y->a), NULL, ROW_MAJOR);
}

static void on_nrm2(world *w) {
    array *x = draw_array(w, VECTOR);
    calling(w, "tide_nrm2(%s)", x->name);
    (void)made(w, tide_nrm2(x->a), NULL, ROW_MAJOR);
}

static tide_arg draw_factor_number(world *w) {
    return chance(w, 85) ? tide_arg_float((double)below(w, 5) - 2) : draw_number(w, TIDE_F64);
}

/* Operands of an update are made to fit: views of a square matrix of its own. */
static void on_gemm(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS), *b = draw_factor(w, a, FLOATS),
          *c = draw_target(w, SQUARE | FLOATS);
    tide_arg alpha = draw_factor_number(w), beta = draw_factor_number(w);
    calling(w, "tide_gemm(%s, %s, %s, %s, %s)", c->name, say_number(w, alpha), a->name, b->name,
            say_number(w, beta));
    tide_status s = tide_gemm(c->a, alpha, a->a, b->a, beta);
    wrote(w, c, s);
    (void)gave(w, s);
}

static void on_gemv(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS), *x = draw_partner(w, a, VECTOR | FLOATS);
    array *y = draw_target(w, VECTOR | FLOATS);
    tide_arg alpha = draw_factor_number(w), beta = draw_factor_number(w);
    calling(w, "tide_gemv(%s, %s, %s, %s, %s)", y->name, say_number(w, alpha), a->name, x->name,
            say_number(w, beta));
    tide_status s = tide_gemv(y->a, alpha, a->a, x->a, beta);
    wrote(w, y, s);
    (void)gave(w, s);
}

static void on_ger(world *w) {
    array *a = draw_target(w, SQUARE | FLOATS), *x = draw_partner(w, a, VECTOR | FLOATS);
    array *y = chance(w, 50) ? x : draw_partner(w, a, VECTOR | FLOATS);
    tide_arg alpha = draw_factor_number(w);
    calling(w, "tide_ger(%s, %s, %s, %s)", a->name, y->name, say_number(w, alpha), x->name);
    tide_status s = tide_ger(a->a, alpha, x->a, y->a);
    wrote(w, a, s);
    (void)gave(w, s);
}

static void on_axpy(world *w) {
    array *y = draw_target(w, FLOATS), *x = draw_partner(w, y, FLOATS);
    tide_arg alpha = draw_factor_number(w);
    calling(w, "tide_axpy(%s, %s, %s)", y->name, say_number(w, alpha), x->name);
    tide_status s = tide_axpy(y->a, alpha, x->a);
    wrote(w, y, s);
    (void)gave(w, s);
}

static int draw_triangle(world *w, int most) { return draw_enum(w, 0, most); }

static void on_solve_triangular(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS), *b = draw_factor(w, a, FLOATS);
    int how = draw_triangle(w, TIDE_UPPER | TIDE_UNIT);
    calling(w, "tide_solve_triangular(%s, %s, %d)", a->name, b->name, how);
    (void)made(w, tide_solve_triangular(a->a, b->a, how), NULL, ROW_MAJOR);
}

static void on_cholesky(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS);
    int how = draw_triangle(w, TIDE_UPPER);
    calling(w, "tide_cholesky(%s, %d)", a->name, how);
    (void)made(w, tide_cholesky(a->a, how), NULL, ROW_MAJOR);
}

static void on_square_matrix(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS);
    calling(w, "%s(%s)", w->frame->c->name, a->name);
    (void)made(w, w->frame->c->fn.unary(a->a), NULL, ROW_MAJOR);
}

static void on_solve(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS), *b = draw_factor(w, a, FLOATS);
    calling(w, "tide_solve(%s, %s)", a->name, b->name);
    (void)made(w, tide_solve(a->a, b->a), NULL, ROW_MAJOR);
}

static void on_lu_solve(world *w) {
    array *a = draw_array(w, SQUARE | FLOATS), *p = draw_array(w, VECTOR | INTEGER),
          *b = draw_factor(w, a, FLOATS);
    for (int i = 0; i < ARRAYS && a->a && chance(w, 99); i++) { /* pivots of that many rows */
        array *x = &w->arrays[i];
        bool fits = x->a && x->rt == a->rt && !x->freed && !x->in->frozen && x->dtype == TIDE_I64;
        if (fits && !x->busy && p->valid && x->ndim == a->ndim - 1 &&
            x->size * a->shape[a->ndim - 1] == a->size)
            p = x;
    }
    hold(w, &p->busy);
    calling(w, "tide_lu_solve(%s, %s, %s)", a->name, p->name, b->name);
    (void)made(w, tide_lu_solve(a->a, p->a, b->a), NULL, ROW_MAJOR);
}

/* The results of a factorization, some of which may not be wanted. */
typedef struct results {
    tide_array *at[3];
    tide_array **to[3];
    unsigned n;
} results;

static void draw_results(world *w, results *r, unsigned n) {
    unsigned wanted = 0;
    r->n = n;
    mark(r->at, sizeof r->at);
    for (unsigned i = 0; i < n; i++) {
        r->to[i] = chance(w, 80) ? &r->at[i] : NULL;
        wanted += r->to[i] != NULL;
    }
    if (!wanted) expect(w, TIDE_E_INVALID);
}

static const char *say_results(world *w, const results *r) {
    const char *text[3] = {"", "", ""};
    for (unsigned i = 0; i < r->n; i++)
        text[i] = r->to[i] ? say(w, ", &a%u", w->serial + 1 + i) : ", NULL";
    return say(w, "%s%s%s", text[0], text[1], text[2]);
}

static void gave_results(world *w, results *r, tide_status s) {
    if (!gave(w, s)) return marked(w, r->at, sizeof r->at);
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->to[i]) marked(w, &r->at[i], sizeof r->at[i]);
        if (r->to[i] && !r->at[i]) broken(w, "succeeds, and result %u is NULL", i);
        if (r->to[i]) (void)made_beside(w, r->at[i], NULL, ROW_MAJOR);
    }
}

static void on_lu_factor(world *w) {
    results r;
    array *a = draw_array(w, MATRIX | FLOATS);
    draw_results(w, &r, 2);
    calling(w, "tide_lu_factor(%s%s)", a->name, say_results(w, &r));
    gave_results(w, &r, tide_lu_factor(a->a, r.to[0], r.to[1]));
}

static void on_lu(world *w) {
    results r;
    array *a = draw_array(w, MATRIX | FLOATS);
    draw_results(w, &r, 3);
    calling(w, "tide_lu(%s%s)", a->name, say_results(w, &r));
    gave_results(w, &r, tide_lu(a->a, r.to[0], r.to[1], r.to[2]));
}

static void on_qr(world *w) {
    results r;
    array *a = draw_array(w, MATRIX | FLOATS);
    int mode = draw_enum(w, TIDE_REDUCED, TIDE_COMPLETE);
    draw_results(w, &r, 2);
    calling(w, "tide_qr(%s, %d%s)", a->name, mode, say_results(w, &r));
    gave_results(w, &r, tide_qr(a->a, mode, r.to[0], r.to[1]));
}

static void on_svd(world *w) {
    results r;
    array *a = draw_array(w, MATRIX | FLOATS);
    int mode = draw_enum(w, TIDE_REDUCED, TIDE_COMPLETE);
    draw_results(w, &r, 3);
    calling(w, "tide_svd(%s, %d%s)", a->name, mode, say_results(w, &r));
    gave_results(w, &r, tide_svd(a->a, mode, r.to[0], r.to[1], r.to[2]));
}

static void on_eigh(world *w) {
    results r;
    array *a = draw_array(w, SQUARE | FLOATS);
    int how = draw_triangle(w, TIDE_UPPER);
    draw_results(w, &r, 2);
    calling(w, "tide_eigh(%s, %d%s)", a->name, how, say_results(w, &r));
    gave_results(w, &r, tide_eigh(a->a, how, r.to[0], r.to[1]));
}

static void on_slogdet(world *w) {
    results r;
    array *a = draw_array(w, SQUARE | FLOATS);
    draw_results(w, &r, 2);
    calling(w, "tide_slogdet(%s%s)", a->name, say_results(w, &r));
    gave_results(w, &r, tide_slogdet(a->a, r.to[0], r.to[1]));
}

static void on_lstsq(world *w) {
    results r;
    array *a = draw_array(w, SQUARE | FLOATS), *b = draw_factor(w, a, FLOATS);
    double rcond = chance(w, 70) ? -1 : draw_double(w);
    draw_results(w, &r, 3);
    calling(w, "tide_lstsq(%s, %s, %.17g%s)", a->name, b->name, rcond, say_results(w, &r));
    gave_results(w, &r, tide_lstsq(a->a, b->a, rcond, r.to[0], r.to[1], r.to[2]));
}

/* ---- tide/random.h ---- */

static tide_rng draw_rng(world *w) {
    return (tide_rng){dice(w), chance(w, 80) ? below(w, 100) : (uint64_t)draw_int(w)};
}

static void on_random(world *w) {
    shape s;
    runtime *r = draw_runtime(w);
    tide_dtype t = chance(w, 85) ? ONE_OF(w, tide_dtype, TIDE_F32, TIDE_F64) : draw_dtype(w);
    bool normal = !strcmp(w->frame->c->name, "tide_random_normal"), none = chance(w, 2);
    tide_rng rng = draw_rng(w);
    draw_shape(w, tide_dtype_size(t), &s);
    if (none) expect(w, TIDE_E_INVALID);
    calling(w, "%s(%s, &(tide_rng){%" PRIu64 ", %" PRIu64 "}, %d, %d, %s)", w->frame->c->name,
            r->name, rng.seed, rng.counter, t, s.ndim, s.text);
    (void)made(w,
               (normal ? tide_random_normal : tide_random_uniform)(r->ref, none ? NULL : &rng, t,
                                                                   s.ndim, s.at),
               NULL, ROW_MAJOR);
}

static void on_random_integers(world *w) {
    shape s;
    runtime *r = draw_runtime(w);
    tide_dtype t = chance(w, 85) ? draw_dtype_of(w, 1u << TIDEI_KIND_INT | 1u << TIDEI_KIND_UINT)
                                 : draw_dtype(w);
    tide_rng rng = draw_rng(w);
    bool odd = chance(w, 15);
    int64_t low = odd ? draw_int(w) : below(w, 5), high = odd ? draw_int(w) : 5 + below(w, 100);
    draw_shape(w, tide_dtype_size(t), &s);
    if (low >= high) expect(w, TIDE_E_INVALID);
    calling(w, "tide_random_integers(%s, &rng, %d, %d, %s, %" PRId64 ", %" PRId64 ")", r->name, t,
            s.ndim, s.text, low, high);
    (void)made(w, tide_random_integers(r->ref, &rng, t, s.ndim, s.at, low, high), NULL, ROW_MAJOR);
}

static void on_random_permutation(world *w) {
    runtime *r = draw_runtime(w);
    tide_rng rng = draw_rng(w);
    int64_t n = chance(w, 85) ? below(w, 50) : draw_int(w);
    if (n < 0) expect(w, TIDE_E_INVALID), may(w, TIDE_E_SHAPE);
    calling(w, "tide_random_permutation(%s, &rng, %" PRId64 ")", r->name, n);
    (void)made(w, tide_random_permutation(r->ref, &rng, n), NULL, ROW_MAJOR);
}

/* ---- tide/expr.h ---- */

static void on_expr_new(world *w) {
    expression e;
    runtime *r = draw_runtime(w);
    draw_expression(w, -1, chance(w, 40), &e);
    w->frame->subject = e.text;
    calling(w, "tide_expr_new(%s, %s)", r->name, quote(w, e.text));
    tide_expr *made_one = tide_expr_new(r->ref, e.text);
    if (!told(w, !made_one)) return;
    thing *t = world_thing(w, TIDEI_REF_EXPR, made_one, w->frame->rt);
    t->params = e.params;
    t->results = e.results;
    snprintf(t->text, sizeof t->text, "%s", e.text);
}

static void on_expr_results(world *w) {
    thing *e = draw_thing(w, TIDEI_REF_EXPR, ABSENT);
    calling(w, "tide_expr_results(%s)", e->name);
    int m = tide_expr_results(e->ref);
    if (told(w, m < 0) && e->results >= 0 && m != e->results) broken(w, "gives %d", m);
}

static void on_expr_release(world *w) {
    thing *e = draw_thing(w, TIDEI_REF_EXPR, ABSENT);
    w->frame->must_fail = w->frame->must_fail && e->ref;
    calling(w, "tide_expr_release(%s)", e->name);
    tide_expr_release(e->ref);
    done(w);
    if (e->valid) world_ended(e);
}

enum { ARGS = 42 };
typedef struct arguments {
    tide_arg at[ARGS];
    size_t n;
    const char *text;
} arguments;

/* For an expression with so many parameters; -1: nobody knows. What no result needs may be
** anything. */
static void draw_arguments(world *w, int params, const array *like, arguments *a) {
    char text[SAYING] = "";
    size_t at = 0;
    array *last = NULL;
    bool must = w->frame->must_fail;
    a->n = params >= 0 && chance(w, 95) ? (size_t)params : below(w, 6);
    for (size_t i = 0; i < a->n && i < ARGS; i++) {
        array *x = NULL;
        if (chance(w, 30)) {
            a->at[i] = draw_number(w, (tide_dtype)below(w, TIDE_DTYPE_COUNT));
            if (a->at[i].kind == TIDE_ARG_ARRAY && !a->at[i].value.array)
                w->frame->null_array = true;
        } else
            x = like   ? draw_partner(w, like, SMALL)
                : last ? draw_partner(w, last, SMALL)
                       : draw_array(w, SMALL);
        if (x) a->at[i] = tide_arg_array(x->a), last = x->a ? x : last;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
                               x ? x->name : say_number(w, a->at[i]));
        if (at >= sizeof text) at = sizeof text - 1;
    }
    w->frame->must_fail = must || (params >= 0 && a->n != (size_t)params);
    may(w, TIDE_E_INVALID);
    a->text = a->n ? say(w, "(tide_arg[]){%s}, %zu", text, a->n) : "NULL, 0";
}

static void on_expr_apply(world *w) {
    arguments a;
    thing *e = draw_thing(w, TIDEI_REF_EXPR, 0);
    draw_arguments(w, e->params, NULL, &a);
    w->frame->subject = e->text;
    calling(w, "tide_expr_apply(%s, %s) /* %s */", e->name, a.text, e->text);
    (void)made(w, tide_expr_apply(e->ref, a.n ? a.at : NULL, a.n), NULL, ROW_MAJOR);
}

enum { OUTS_MOST = 12 };
/* Of a call that gives m results in `outs`, which were marked before. */
static void gave_many(world *w, tide_status s, tide_array **outs, size_t m) {
    size_t bytes = OUTS_MOST * sizeof *outs;
    if (!gave(w, s)) return marked(w, outs, bytes);
    for (size_t i = 0; i < m; i++)
        if (!made_beside(w, outs[i], NULL, ROW_MAJOR))
            broken(w, "succeeds, and result %zu is NULL", i);
    marked(w, outs + m, bytes - m * sizeof *outs);
}

static void on_expr_apply_many(world *w) {
    arguments a;
    tide_array *outs[OUTS_MOST];
    thing *e = draw_thing(w, TIDEI_REF_EXPR, 0);
    size_t m = e->results >= 0 && chance(w, 90) ? (size_t)e->results : below(w, OUTS_MOST);
    bool nowhere = m && chance(w, 3);
    draw_arguments(w, e->params, NULL, &a);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(outs, sizeof outs);
    w->frame->subject = e->text;
    calling(w, "tide_expr_apply_many(%s, %s, %s, %zu) /* %s */", e->name, a.text,
            nowhere ? "NULL" : "outs", m, e->text);
    gave_many(w, tide_expr_apply_many(e->ref, a.n ? a.at : NULL, a.n, nowhere ? NULL : outs, m),
              outs, m);
}

static void on_expr_apply_into(world *w) {
    enum { MOST = 4 };
    arguments a;
    tide_array *dsts[MOST];
    array *of[MOST];
    thing *e = draw_thing(w, TIDEI_REF_EXPR, 0);
    size_t m = e->results >= 0 && e->results <= MOST && chance(w, 90) ? (size_t)e->results
                                                                      : below(w, MOST + 1);
    bool none = m && chance(w, 3), null = w->frame->null_array;
    for (size_t i = 0; i < m; i++) {
        of[i] = i && chance(w, 60) ? draw_partner(w, of[0], WRITABLE) : draw_target(w, 0);
        if (of[i]->in && of[i]->in->common) of[i] = draw_target(w, 0);
        dsts[i] = of[i]->a;
    }
    if (none) w->frame->null_array = null; /* what is in a list that is absent is not seen */
    draw_arguments(w, e->params, m ? of[0] : NULL, &a);
    if (none) expect(w, TIDE_E_INVALID);
    w->frame->subject = e->text;
    calling(w, "tide_expr_apply_into(%s, %zu, %s, %s) /* %s */",
            none ? "NULL" : say(w, "(tide_array *[]){%s, ...}", m ? of[0]->name : ""), m, e->name,
            a.text, e->text);
    tide_status s = tide_expr_apply_into(none ? NULL : dsts, m, e->ref, a.n ? a.at : NULL, a.n);
    for (size_t i = 0; i < m; i++) wrote(w, of[i], s);
    (void)gave(w, s);
}

static void on_map_args(world *w) {
    arguments a;
    expression e;
    runtime *r = draw_runtime(w);
    draw_expression(w, -1, false, &e);
    draw_arguments(w, e.params, NULL, &a);
    w->frame->subject = e.text;
    calling(w, "tide_map_args(%s, %s, %s)", r->name, quote(w, e.text), a.text);
    (void)made(w, tide_map_args(r->ref, e.text, a.n ? a.at : NULL, a.n), NULL, ROW_MAJOR);
}

static void on_map_many_args(world *w) {
    arguments a;
    expression e;
    tide_array *outs[OUTS_MOST];
    runtime *r = draw_runtime(w);
    draw_expression(w, -1, false, &e);
    size_t m = e.results >= 0 && chance(w, 90) ? (size_t)e.results : below(w, OUTS_MOST);
    bool nowhere = m && chance(w, 3);
    draw_arguments(w, e.params, NULL, &a);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(outs, sizeof outs);
    w->frame->subject = e.text;
    calling(w, "tide_map_many_args(%s, %s, %s, %s, %zu)", r->name, quote(w, e.text), a.text,
            nowhere ? "NULL" : "outs", m);
    gave_many(w,
              tide_map_many_args(r->ref, e.text, a.n ? a.at : NULL, a.n, nowhere ? NULL : outs, m),
              outs, m);
}

static void on_map_into_args(world *w) {
    arguments a;
    expression e;
    array *x = draw_target(w, 0);
    draw_expression(w, 1 + (int)below(w, 3), true, &e);
    draw_arguments(w, e.params, x, &a);
    w->frame->subject = e.text;
    calling(w, "tide_map_into_args(%s, %s, %s)", x->name, quote(w, e.text), a.text);
    tide_status s = tide_map_into_args(x->a, e.text, a.n ? a.at : NULL, a.n);
    wrote(w, x, s);
    (void)gave(w, s);
}

#define UNARY(name)   ROW_OF(name, on_unary, unary, 0)
#define BINARY(name)  ROW_OF(name, on_binary, binary, 0)
#define BITS(name)    ROW_OF(name, on_bits, binary, 0)
#define TERNARY(name) ROW_OF(name, on_ternary, ternary, 0)
#define FOLD(name)    ROW_OF(name, on_fold, fold, MAY_EMPTY)

const call compute_calls[] = {
    UNARY(abs),
    UNARY(acos),
    UNARY(acosh),
    UNARY(angle),
    UNARY(asin),
    UNARY(asinh),
    UNARY(atan),
    UNARY(atanh),
    UNARY(ceil),
    UNARY(conj),
    UNARY(cos),
    UNARY(cosh),
    UNARY(digamma),
    UNARY(erf),
    UNARY(erfc),
    UNARY(erfinv),
    UNARY(exp),
    UNARY(exp2),
    UNARY(expm1),
    UNARY(exponent),
    UNARY(floor),
    UNARY(imag),
    UNARY(isfinite),
    UNARY(isinf),
    UNARY(isnan),
    UNARY(lgamma),
    UNARY(log),
    UNARY(log10),
    UNARY(log1p),
    UNARY(log2),
    UNARY(logical_not),
    UNARY(mantissa),
    UNARY(neg),
    UNARY(norm_cdf),
    UNARY(norm_ppf),
    UNARY(real),
    UNARY(reciprocal),
    UNARY(round),
    UNARY(sign),
    UNARY(signbit),
    UNARY(sin),
    UNARY(sinc),
    UNARY(sinh),
    UNARY(sqrt),
    UNARY(square),
    UNARY(tan),
    UNARY(tanh),
    UNARY(trunc),
    BINARY(add),
    BINARY(atan2),
    BINARY(complex),
    BINARY(copysign),
    BINARY(div),
    BINARY(eq),
    BINARY(floordiv),
    BINARY(fmod),
    BINARY(ge),
    BINARY(gt),
    BINARY(hypot),
    BINARY(ldexp),
    BINARY(le),
    BINARY(logaddexp),
    BINARY(logical_and),
    BINARY(logical_or),
    BINARY(logical_xor),
    BINARY(lt),
    BINARY(maximum),
    BINARY(minimum),
    BINARY(mul),
    BINARY(ne),
    BINARY(nextafter),
    BINARY(pow),
    BINARY(rem),
    BINARY(sub),
    BINARY(truncdiv),
    BITS(bit_and),
    BITS(bit_or),
    BITS(bit_xor),
    BITS(gcd),
    BITS(shl),
    BITS(shr),
    ROW_OF(bit_not, on_bits_of, unary, 0),
    ROW_OF(popcount, on_bits_of, unary, 0),
    TERNARY(where),
    TERNARY(clip),
    FOLD(sum),
    FOLD(prod),
    FOLD(min),
    FOLD(max),
    FOLD(mean),
    FOLD(any),
    FOLD(all),
    FOLD(argmin),
    FOLD(argmax),
    FOLD(count_nonzero),
    {"tide_var", on_fold, {NULL}, 0},
    {"tide_std", on_fold, {NULL}, 0},
    ROW(matmul, 0),
    ROW(linear, 0),
    ROW(dot, 0),
    ROW(nrm2, 0),
    ROW(gemm, 0),
    ROW(gemv, 0),
    ROW(ger, 0),
    ROW(axpy, 0),
    ROW(solve_triangular, 0),
    ROW(lu_factor, MAY_MATRIX),
    ROW(lu_solve, MAY_MATRIX),
    ROW(lu, MAY_MATRIX),
    ROW(cholesky, MAY_MATRIX),
    ROW(qr, MAY_MATRIX),
    ROW(svd, MAY_MATRIX),
    ROW(eigh, MAY_MATRIX),
    ROW(solve, MAY_MATRIX),
    ROW_OF(inv, on_square_matrix, unary, MAY_MATRIX),
    ROW_OF(det, on_square_matrix, unary, MAY_MATRIX),
    ROW(slogdet, MAY_MATRIX),
    ROW(lstsq, MAY_MATRIX),
    {"tide_random_uniform", on_random, {NULL}, OFTEN},
    {"tide_random_normal", on_random, {NULL}, 0},
    ROW(random_integers, OFTEN),
    ROW(random_permutation, 0),
    ROW(expr_new, MAY_PARSE),
    ROW(expr_results, 0),
    ROW(expr_release, 0),
    ROW(expr_apply, MAY_EMPTY),
    ROW(expr_apply_many, MAY_EMPTY),
    ROW(expr_apply_into, MAY_EMPTY),
    ROW(map_args, MAY_PARSE | MAY_EMPTY),
    ROW(map_many_args, MAY_PARSE | MAY_EMPTY),
    ROW(map_into_args, MAY_PARSE | MAY_EMPTY),
    LAST_ROW,
};
