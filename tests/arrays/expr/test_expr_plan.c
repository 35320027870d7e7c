/* Plans of large expressions: what is stored between passes, at the limits of a program. All in
** i64, which wraps, so that every result is known to the bit. */
#include "tests/support/tidetest.h"

#define NAMES   256 /* of an expression */
#define WIDTH   4   /* elements of a parameter */
#define GROUND  64  /* elements of the array whose views parameters and destinations are */
#define TEXT    (1 << 20)
#define RESULTS TIDE_MAX_RESULTS

/* ---- a case made by hand ---- */

/* op p0 op p1 op p0 .. */
static char *repeat(char *at, int n, char op) {
    for (int i = 0; i < n; i++) at += sprintf(at, " %c p%d", op, i % 2);
    return at;
}

/* x, a chain over two parameters, fits with the 30 others in y; for the second result it must be
** stored, and then y has a 33rd source. */
static void a_store_may_fill_an_earlier_program(void **state) {
    tide_config c = {.collector = "refcount"};
    tide_runtime *rt = test_open(&c);
    char *text = malloc(TEXT), *p = text;
    tide_arg args[32];
    tide_array *outs[2];
    int64_t one = 1, got[2];
    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 32; i++) p += sprintf(p, "%sp%d", i ? ", " : "(", i);
    p = repeat(p + sprintf(p, ") -> let x = p0"), 180, '+');
    p += sprintf(p, "; let y = x");
    for (int i = 0; i < 32; i++) p += sprintf(p, " + p%d", i);
    p = repeat(p + sprintf(p, "; let z = p2*p3"), 100, '-');
    sprintf(p, "; (y, x * z)");
    assert_ok(tide_scope_begin(rt));
    for (int64_t i = 0; i < 32; i++) {
        int64_t v = i + 1;
        args[i] = tide_arg_array(tide_from_host(rt, TIDE_I64, 1, &one, &v));
    }
    tide_expr *e = tide_expr_new(rt, text);
    assert_ok(tide_expr_apply_many(e, args, 32, outs, 2));
    for (int i = 0; i < 2; i++) assert_ok(tide_to_host(outs[i], &got[i], sizeof got[i]));
    const int64_t x = 1 + 90 * 1 + 90 * 2;
    assert_int_equal(got[0], x + 32 * 33 / 2);
    assert_int_equal(got[1], x * (3 * 4 - 50 * 1 - 50 * 2));
    tide_expr_release(e);
    assert_ok(tide_scope_end(rt));
    tide_close(rt);
    free(text);
}

/* ---- random ones ---- */

typedef struct value { /* what a name stands for: one element stretches */
    int n;
    uint64_t v[WIDTH];
} value;

typedef struct view { /* of the ground */
    int first, step;
} view;

typedef struct generated {
    char text[TEXT];
    char *at;
    int nparams, nvalues, nresults;
    value values[NAMES];
    view views[TIDE_MAX_ARGS], dsts[RESULTS];
    int results[RESULTS]; /* values */
    uint64_t ground[GROUND], want[GROUND];
} generated;

static uint64_t seed;
static int pick(int n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((uint32_t)(seed >> 33) % (uint32_t)n);
}

static uint64_t item(const value *a, int i) { return a->v[a->n == 1 ? 0 : i]; }

static value combine(char op, const value *a, const value *b) {
    value r = {.n = a->n > b->n ? a->n : b->n};
    for (int i = 0; i < r.n; i++) {
        uint64_t x = item(a, i), y = item(b, i);
        r.v[i] = op == '+' ? x + y : op == '-' ? x - y : x * y;
    }
    return r;
}

static value total(const value *a) {
    value r = {.n = 1};
    for (int i = 0; i < a->n; i++) r.v[0] += a->v[i];
    return r;
}

/* Mostly one of the latest, so that chains grow deep; at times any, so that they are shared. */
static int pick_value(const generated *g) {
    int back = g->nvalues < 10 ? g->nvalues : 10;
    return pick(3) ? g->nvalues - 1 - pick(back) : pick(g->nvalues);
}

static tide_range range_of(view w, int n) {
    return (tide_range){.start = w.first, .stop = w.first + n * w.step, .step = w.step};
}

static void add_parameter(generated *g) {
    int i = g->nparams++, backwards = pick(4) == 0, step = 1 + pick(2);
    view w = {.first = pick(40) + (backwards ? 10 : 0), .step = backwards ? -step : step};
    value *v = &g->values[g->nvalues++];
    g->at += sprintf(g->at, "%sv%d", i ? ", " : "(", i);
    v->n = WIDTH;
    for (int k = 0; k < WIDTH; k++) v->v[k] = g->ground[w.first + k * w.step];
    g->views[i] = w;
}

/* let v = (((a op b) op c) ..), at times summed. */
static void add_let(generated *g) {
    int steps = 1 + pick(pick(8) ? 4 : 40), a = pick_value(g), fold = pick(25) == 0;
    value r = g->values[a];
    g->at += sprintf(g->at, "let v%d = %s", g->nvalues, fold ? "sum(" : "");
    for (int i = 0; i < steps; i++) *g->at++ = '(';
    g->at += sprintf(g->at, "v%d", a);
    for (int i = 0; i < steps; i++) {
        int b = pick(g->nvalues);
        char op = "+-*"[pick(3)];
        g->at += sprintf(g->at, " %c v%d)", op, b);
        r = combine(op, &r, &g->values[b]);
    }
    g->at += sprintf(g->at, "%s; ", fold ? ", keepdims=true)" : "");
    g->values[g->nvalues++] = fold ? total(&r) : r;
}

static void generate(generated *g) {
    int params = 1 + pick(TIDE_MAX_ARGS), lets = 1 + pick(180);
    g->at = g->text;
    g->nparams = g->nvalues = 0;
    for (int i = 0; i < GROUND; i++) g->ground[i] = (uint64_t)(int64_t)(pick(1000) - 500);
    for (int i = 0; i < params; i++) add_parameter(g);
    g->at += sprintf(g->at, ") -> ");
    for (int i = 0; i < lets; i++) add_let(g);
    g->nresults = 1 + pick(RESULTS);
    for (int i = 0; i < g->nresults; i++) {
        g->results[i] = pick_value(g);
        g->at += sprintf(g->at, "%sv%d", i ? ", " : g->nresults > 1 ? "(" : "", g->results[i]);
    }
    sprintf(g->at, "%s", g->nresults > 1 ? ")" : "");
}

/* Destinations lie anywhere in the ground, over operands and each other; a third of them are an
** operand's very view. */
static void place_results(generated *g) {
    memcpy(g->want, g->ground, sizeof g->want);
    for (int i = 0; i < g->nresults; i++) {
        const value *v = &g->values[g->results[i]];
        view w = {.first = pick(40), .step = 1 + pick(2)};
        if (v->n == WIDTH && pick(3) == 0) w = g->views[pick(g->nparams)];
        g->dsts[i] = w;
        for (int k = 0; k < v->n; k++) g->want[w.first + k * w.step] = v->v[k];
    }
}

static void check_same(const generated *g, const uint64_t *got, const uint64_t *want, int n,
                       const char *what) {
    for (int i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s: element %d is %lld, not %lld, in\n%s", what, i, (long long)got[i],
                     (long long)want[i], g->text);
}

static void check_made(const generated *g, tide_array *const *made) {
    for (int i = 0; i < g->nresults; i++) {
        const value *v = &g->values[g->results[i]];
        uint64_t got[WIDTH];
        assert_ok(tide_to_host(made[i], got, (size_t)v->n * sizeof *got));
        check_same(g, got, v->v, v->n, "a result");
    }
}

/* Returns whether the expression is one that this library takes. */
static bool run_one(tide_runtime *rt, generated *g, bool into) {
    const int64_t shape[] = {GROUND};
    tide_array *ground = tide_from_host(rt, TIDE_I64, 1, shape, g->ground), *arrays[RESULTS];
    tide_arg args[TIDE_MAX_ARGS];
    size_t n = (size_t)g->nparams, m = (size_t)g->nresults;
    for (int i = 0; i < g->nparams; i++)
        args[i] = tide_arg_array(
            tide_slice_ranges(ground, 1, (const tide_range[]){range_of(g->views[i], WIDTH)}));
    for (int i = 0; into && i < g->nresults; i++)
        arrays[i] = tide_slice_ranges(
            ground, 1, (const tide_range[]){range_of(g->dsts[i], g->values[g->results[i]].n)});
    tide_expr *e = tide_expr_new(rt, g->text);
    if (!e) fail_msg("%s", tide_error_last()->message);
    tide_status s = into ? tide_expr_apply_into(arrays, m, e, args, n)
                         : tide_expr_apply_many(e, args, n, arrays, m);
    tide_expr_release(e);
    if (s == TIDE_E_UNSUPPORTED) {
        assert_error(TIDE_E_UNSUPPORTED, "more than 64 passes");
        return false;
    }
    if (s != TIDE_OK) fail_msg("%s\n%s", tide_error_last()->message, g->text);
    if (into) {
        uint64_t got[GROUND];
        assert_ok(tide_to_host(ground, got, sizeof got));
        check_same(g, got, g->want, GROUND, "the destinations");
    } else
        check_made(g, arrays);
    return true;
}

static void random_expressions_are_planned_soundly(void **state) {
    tide_config c = {.collector = "refcount"};
    tide_runtime *rt = test_open(&c);
    generated *g = malloc(sizeof *g);
    const char *longer = getenv("TIDE_TEST_LONG");
    /* seconds a program */
    bool compiles = test_rt(rt)->devs[0].d->info.flags & TIDEI_DEV_RUNS_TEXT;
    int rounds = compiles ? 8 : longer && *longer ? 3000 : 250, taken = 0;
    (void)state;
    assert_non_null(g);
    for (int i = 0; i < rounds; i++) {
        seed = (uint64_t)i;
        (void)pick(1);
        generate(g);
        place_results(g);
        assert_ok(tide_scope_begin(rt));
        taken += run_one(rt, g, i % 2);
        assert_ok(tide_scope_end(rt));
    }
    assert_true(taken > rounds / 2);
    free(g);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_may_fill_an_earlier_program),
        cmocka_unit_test(random_expressions_are_planned_soundly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
