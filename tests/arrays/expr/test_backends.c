/* test_backends.c: the two back ends against each other: the host's interpreter, and the CUDA text
** run emulated, on the same programs and memory. The values are those where arithmetic is easily
** wrong: limits, zeros of both signs, infinities, NaN, denormals, every pair of them. */
#include "arrays/expr/cuda_text.h"
#include "tests/doubles/emulate.h"
#include "tests/arrays/expr/programs.h"
#include <math.h>

/* ---- values ---- */

static unsigned special_values(int t, double complex *v) {
    static const double floats[] = {0.0,    -0.0,  1.0,      -1.0,      0.5, -2.5,
                                    3.0,    7.75,  INFINITY, -INFINITY, NAN, 1e30,
                                    -1e-30, 1e-42, 65504,    1234.5678};
    unsigned n = 0;
    const int bits = (int)tide_dtype_size(t) * 8;
    switch (tidei_dtype_kind(t)) {
    case TIDEI_KIND_BOOL:
        v[n++] = 0;
        v[n++] = 1;
        break;
    case TIDEI_KIND_INT:
    case TIDEI_KIND_UINT:
        for (int i = 0; i < 6; i++) v[n++] = (double[]){0, 1, 2, 3, 7, 100}[i];
        if (tidei_dtype_kind(t) == TIDEI_KIND_INT) {
            for (int i = 0; i < 4; i++) v[n++] = (double[]){-1, -2, -7, -100}[i];
            v[n++] = -ldexp(1, bits - 1);
            v[n++] = bits == 64 ? ldexp(1, 62) + 1024 : ldexp(1, bits - 1) - 1;
        } else
            v[n++] = bits == 64 ? ldexp(1, 63) + 2048 : ldexp(1, bits) - 1;
        v[n++] = bits / 2;
        break;
    case TIDEI_KIND_FLOAT:
        for (unsigned i = 0; i < TIDEI_COUNT(floats); i++) v[n++] = floats[i];
        break;
    default:
        for (unsigned i = 0; i < 8; i++) v[n++] = CMPLX(floats[i], floats[(3 * i + 1) % 8]);
        for (unsigned i = 0; i < 4; i++) v[n++] = CMPLX(floats[8 + i], floats[i + 1]);
    }
    return n;
}

static void set_special(void *memory, size_t i, size_t size, int t, double complex v) {
    unsigned char *to = (unsigned char *)memory + i * size;
    if (t == TIDE_U64)
        *(uint64_t *)(void *)to = (uint64_t)creal(v);
    else
        set_element(to, t, v);
}

/* ---- running both ---- */

typedef struct both {
    tide_runtime *rt;
    tidei_call c;
    tidei_storage *st[TIDEI_CUDA_OPERANDS_MAX];
    unsigned char *other[TIDEI_OUTS_MAX]; /* results of the text */
    unsigned kernel, joiner;
    tidei_cuda_plan plan, second;
    int ulps[TIDEI_OUTS_MAX]; /* how far results may lie apart */
    char what[TIDEI_OUTS_MAX][64];
} both;

static void *memory_of(tidei_storage *st) { return (void *)(uintptr_t)st->addr; }

static both *new_both(tide_runtime *rt, const tidei_program *p, int64_t n) {
    both *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->rt = rt;
    b->c.prog = tidei_program_shared(test_rt(rt), p);
    assert_non_null(b->c.prog);
    b->c.ndim = 1;
    b->c.nred = p->fold ? 1 : 0;
    b->c.shape[0] = n;
    tidei_stream *s = tidei_stream_here(test_rt(rt));
    for (unsigned i = 0; i < p->ninputs + (unsigned)p->nouts; i++) {
        const bool in = i < p->ninputs;
        size_t size = tide_dtype_size(in ? p->input_dtype[i] : p->out_dtype[i - p->ninputs]);
        size_t bytes = (in || !p->fold ? (size_t)n : 1) * size;
        assert_ok(tidei_storage_new(s->dev, bytes, s, "test", &b->st[i]));
        *(in ? &b->c.in[i] : &b->c.out[i - p->ninputs]) =
            (tidei_view){.st = b->st[i], .strides = {1}};
        memset(memory_of(b->st[i]), 0, bytes);
        if (!in) {
            b->other[i - p->ninputs] = aligned_alloc(16, tidei_round_up(bytes, 16));
            assert_non_null(b->other[i - p->ninputs]);
        }
    }
    return b;
}

static void add_kernels(both *b, emu_module *m) {
    tidei_cuda_traits k;
    tidei_cuda_linear lin = {.steps = {1}};
    const tidei_program *p = b->c.prog;
    tidei_cuda_traits_of(p, &k);
    if (p->fold)
        tidei_cuda_plan_fold(&b->c, &k, &lin, 2, &b->plan);
    else
        tidei_cuda_plan_map(&b->c, &k, &lin, &b->plan);
    for (int join = 0; join <= (b->plan.splits > 1); join++) {
        size_t body;
        char *text = tidei_cuda_text(test_rt(b->rt), p, &k,
                                     join ? TIDEI_CUDA_FOLD_JOIN : b->plan.cls, &body);
        assert_non_null(text);
        *(join ? &b->joiner : &b->kernel) = emu_add(m, text, body);
        tidei_host_free(test_rt(b->rt), text);
    }
    if (b->plan.splits > 1) tidei_cuda_plan_join(&b->c, &k, &b->plan, &b->second);
}

static void run_text(both *b, emu_module *m) {
    const tidei_program *p = b->c.prog;
    tidei_cuda_traits k;
    void *space = NULL;
    tidei_cuda_traits_of(p, &k);
    for (unsigned i = 0; i < p->ninputs; i++) b->plan.params.addresses[i] = b->st[i]->addr;
    for (unsigned i = 0; i < p->nouts; i++)
        b->plan.params.addresses[p->ninputs + i] = (uintptr_t)b->other[i];
    if (b->plan.splits > 1) {
        space = aligned_alloc(16, tidei_round_up((size_t)b->plan.splits * k.acc_bytes, 16));
        assert_non_null(space);
        b->second.params.addresses[0] = b->plan.params.addresses[p->ninputs] = (uintptr_t)space;
        b->second.params.addresses[1] = (uintptr_t)b->other[0];
    }
    emu_launch(m, b->kernel, b->plan.grid[0], b->plan.grid[1], b->plan.params.bytes,
               p->fold != TIDEI_FOLD_NONE);
    if (space)
        emu_launch(m, b->joiner, b->second.grid[0], b->second.grid[1], b->second.params.bytes,
                   true);
    free(space);
}

/* The distance of two floats of type t in units of the last place; 0 for equal bits, two NaNs. */
static uint64_t apart(const unsigned char *x, const unsigned char *y, int t) {
    int64_t a, b;
    const int size = (int)tide_dtype_size(t);
    double fa = creal(element(x, t)), fb = creal(element(y, t));
    if (memcmp(x, y, (size_t)size) == 0 || (fa != fa && fb != fb)) return 0;
    if (tidei_dtype_kind(t) != TIDEI_KIND_FLOAT || fa != fa || fb != fb) return UINT64_MAX;
    if (size == 8) {
        memcpy(&a, x, 8);
        memcpy(&b, y, 8);
    } else if (size == 4) {
        a = *(const int32_t *)(const void *)x;
        b = *(const int32_t *)(const void *)y;
    } else {
        a = *(const int16_t *)(const void *)x;
        b = *(const int16_t *)(const void *)y;
    }
    /* -0.0; numbers below it grow downwards */
    const int64_t least = (int64_t)(UINT64_MAX << (8 * size - 1));
    if (a < 0) a = least - a;
    if (b < 0) b = least - b;
    return (uint64_t)(a > b ? a - b : b - a);
}

static void compare(const both *b) {
    const tidei_program *p = b->c.prog;
    for (unsigned k = 0; k < p->nouts; k++) {
        int t = p->out_dtype[k];
        const bool complex_one = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX;
        const int part = t == TIDE_C64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_F64 : t;
        const size_t size = tide_dtype_size(part);
        int64_t n = (p->fold ? 1 : b->c.shape[0]) * (complex_one ? 2 : 1);
        for (int64_t i = 0; i < n; i++) {
            const unsigned char *x =
                (unsigned char *)memory_of(b->st[p->ninputs + k]) + (size_t)i * size;
            const unsigned char *y = b->other[k] + (size_t)i * size;
            if (apart(x, y, part) <= (uint64_t)b->ulps[k]) continue;
            int64_t e = i / (complex_one ? 2 : 1);
            double complex in[2] = {0};
            for (unsigned l = 0; l < 2 && l < p->ninputs; l++)
                in[l] = element((unsigned char *)memory_of(b->st[l]) +
                                    (size_t)e * tide_dtype_size(p->input_dtype[l]),
                                p->input_dtype[l]);
            fail_msg(
                "%s (%s), element %lld of (%.17g%+.17gi, %.17g%+.17gi): host %.17g, text %.17g",
                b->what[k], tide_dtype_name(p->input_dtype[0]), (long long)e, creal(in[0]),
                cimag(in[0]), creal(in[1]), cimag(in[1]), creal(element(x, part)),
                creal(element(y, part)));
        }
    }
}

static void drop(both *b) {
    for (unsigned i = 0; i < b->c.prog->ninputs + (unsigned)b->c.prog->nouts; i++)
        tidei_storage_release(b->st[i]);
    for (unsigned i = 0; i < b->c.prog->nouts; i++) free(b->other[i]);
    free(b);
}

static void run_and_compare(tide_runtime *rt, both **all, unsigned n) {
    emu_module m = {0};
    tidei_stream *s = tidei_stream_here(test_rt(rt));
    for (unsigned i = 0; i < n; i++) add_kernels(all[i], &m);
    emu_build(&m);
    for (unsigned i = 0; i < n; i++) {
        tidei_call c = all[i]->c;
        assert_ok(tidei_backend_host.run(s, &c, "test"));
        assert_ok(tidei_stream_wait(s, true));
        run_text(all[i], &m);
        compare(all[i]);
        drop(all[i]);
    }
    emu_close(&m);
}

static void need_emulation(void) {
    if (!emu_compiler() || !test_on_host()) skip();
}

/* ---- cases ---- */

/* Inputs a, b, c of type t, and one of bool, over all pairs of special values. */
static void fill_pairs(both *b, int t) {
    double complex v[32];
    unsigned n = special_values(t, v);
    size_t size = tide_dtype_size(t);
    for (unsigned i = 0; i < (unsigned)b->c.shape[0]; i++) {
        set_special(memory_of(b->st[0]), i, size, t, v[i % n]);
        set_special(memory_of(b->st[1]), i, size, t, v[i / n % n]);
        set_special(memory_of(b->st[2]), i, size, t, v[(i + i / n) % n]);
        ((unsigned char *)memory_of(b->st[3]))[i] = i / 3 % 2;
    }
}

static both *start_operations(tide_runtime *rt, tidei_program *p, int t, const int *ops,
                              unsigned nops) {
    double complex v[32];
    unsigned n = special_values(t, v);
    both *b;
    memset(p, 0, sizeof *p);
    uint16_t x[3] = {input(p, t), input(p, t), input(p, t)}, truth = input(p, TIDE_BOOL);
    for (unsigned i = 0; i < nops; i++) {
        const bool select = tidei_op_infos[ops[i]].rule == TIDEI_RULE_SELECT;
        const int arity = tidei_op_infos[ops[i]].arity;
        result(p, select ? node(p, ops[i], t, truth, x[0], x[1])
                         : node(p, ops[i], result_dtype(ops[i], t), x[0], arity > 1 ? x[1] : 0,
                                arity > 2 ? x[2] : 0));
    }
    b = new_both(rt, p, n * n);
    for (unsigned i = 0; i < nops; i++) {
        const tidei_op_info *info = &tidei_op_infos[ops[i]];
        b->ulps[i] = tidei_op_ulps(ops[i], t);
        snprintf(b->what[i], sizeof b->what[i], "%s", info->name);
    }
    fill_pairs(b, t);
    return b;
}

static void both_compute_the_same_operations(void **state) {
    tidei_program p;
    both *all[TIDE_DTYPE_COUNT * 12];
    unsigned n = 0;
    (void)state;
    need_emulation();
    tide_runtime *rt = test_open(NULL);
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++) {
        int ops[TIDEI_OUTS_MAX];
        unsigned nops = 0;
        for (int op = TIDEI_OP_CAST + 1; op < TIDEI_OP_COUNT; op++) {
            if (operation_takes(op, t)) ops[nops++] = op;
            if (nops == TIDEI_OUTS_MAX || (nops && op == TIDEI_OP_COUNT - 1)) {
                assert_true(n < TIDEI_COUNT(all));
                all[n++] = start_operations(rt, &p, t, ops, nops);
                nops = 0;
            }
        }
    }
    run_and_compare(rt, all, n);
    tide_close(rt);
}

static void both_compute_the_same_casts(void **state) {
    tidei_program p;
    both *all[TIDE_DTYPE_COUNT * 2];
    unsigned n = 0;
    (void)state;
    need_emulation();
    tide_runtime *rt = test_open(NULL);
    for (int t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int half = 0; half < 2; half++) {
            double complex v[32];
            unsigned values = special_values(t, v);
            memset(&p, 0, sizeof p);
            uint16_t a = input(&p, t);
            for (int to = 8 * half; to < TIDE_DTYPE_COUNT && to < 8 * half + 8; to++) {
                const bool lossy = tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX &&
                                   tidei_dtype_kind(to) != TIDEI_KIND_COMPLEX && to != TIDE_BOOL;
                if (!lossy) result(&p, cast(&p, to, a));
            }
            if (p.nouts == 0) continue;
            all[n] = new_both(rt, &p, values);
            for (unsigned i = 0; i < p.nouts; i++)
                snprintf(all[n]->what[i], sizeof all[n]->what[i], "cast to %s",
                         tide_dtype_name(p.out_dtype[i]));
            for (unsigned i = 0; i < values; i++)
                set_special(memory_of(all[n]->st[0]), i, tide_dtype_size(t), t, v[i]);
            n++;
        }
    run_and_compare(rt, all, n);
    tide_close(rt);
}

/* Folds over special values, in which an order of adding does not show: sums of few, and
** extremes. */
static void both_compute_the_same_folds(void **state) {
    static const uint8_t kinds[] = {TIDEI_FOLD_MIN,    TIDEI_FOLD_MAX, TIDEI_FOLD_ARGMIN,
                                    TIDEI_FOLD_ARGMAX, TIDEI_FOLD_SUM, TIDEI_FOLD_MEAN,
                                    TIDEI_FOLD_PROD};
    static const uint8_t types[] = {TIDE_F32, TIDE_F64, TIDE_I8, TIDE_U64, TIDE_C64};
    tidei_program p;
    both *all[160];
    unsigned n = 0;
    (void)state;
    need_emulation();
    tide_runtime *rt = test_open(NULL);
    for (unsigned k = 0; k < TIDEI_COUNT(kinds); k++)
        for (unsigned i = 0; i < TIDEI_COUNT(types); i++) {
            const int t = types[i], kind = kinds[k];
            const bool arg = kind == TIDEI_FOLD_ARGMIN || kind == TIDEI_FOLD_ARGMAX,
                       extreme = k < 4;
            const bool sums = t == TIDE_U64 || tidei_dtype_kind(t) >= TIDEI_KIND_FLOAT;
            if (extreme ? t == TIDE_C64 : !sums || (kind == TIDEI_FOLD_MEAN && t == TIDE_U64))
                continue;
            double complex v[32];
            unsigned values = special_values(t, v);
            for (unsigned from = 0; from + 2 <= values; from += 5) {
                memset(&p, 0, sizeof p);
                fold(&p, kind, input(&p, t), t, arg ? TIDE_I64 : t);
                assert_true(n < TIDEI_COUNT(all));
                const int64_t count = extreme ? 3000 : 2;
                all[n] = new_both(rt, &p, count);
                /* mostly the first value, others late and more than once */
                for (int64_t e = 0; e < count; e++)
                    set_special(
                        memory_of(all[n]->st[0]), (size_t)e, tide_dtype_size(t), t,
                        v[(from + (extreme ? (e > 1500 ? (unsigned)(e % 7) : 0) : (unsigned)e)) %
                          values]);
                snprintf(all[n]->what[0], sizeof all[n]->what[0], "fold %d from value %u", kind,
                         from);
                n++;
            }
        }
    run_and_compare(rt, all, n);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_compute_the_same_operations),
        cmocka_unit_test(both_compute_the_same_casts),
        cmocka_unit_test(both_compute_the_same_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
