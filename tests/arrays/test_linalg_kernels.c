/* test_linalg_kernels.c: the kernels beside linear algebra's libraries (factor.h): each form on the
** host against what it is to do, and the device's text, run on the host, against the host's; and
** NVRTC takes that text. */
#include "arrays/linalg/job.h"
#include "runtime/device/cuda/nvrtc.h"
#include "tests/doubles/emulate.h"
#include "tests/arrays/matrices.h"

enum { COUNT = 3, M = 41, N = 37, ROOM = 2 * COUNT * M * M + 8 };

/* What a kernel may read and write, in one piece, so that all of it can be compared. */
typedef struct ground {
    double a[ROOM], b[ROOM], c[ROOM];
    int64_t pivots[COUNT * M], order[COUNT * M];
    int32_t flags[2 * COUNT];
} ground;
static ground before, after[2];

/* One launch over a ground: writes its parameters. */
typedef struct trial {
    const char *kernel, *params;
    tidei_host_fn host;
    void (*fill)(const struct trial *t, void *params, ground *g);
    bool single;
    int parts;
} trial;

static void set_numbers(const trial *t) {
    memset(&before, 0, sizeof before);
    double *all[] = {before.a, before.b, before.c};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < ROOM; i++)
            if (t->single)
                ((float *)all[k])[i] = (float)uniform();
            else
                all[k][i] = uniform();
    for (int i = 0; i < COUNT * M; i++)
        before.pivots[i] = i % M + (int64_t)draw((uint64_t)(M - i % M));
    before.flags[COUNT + 1] = 1;
}

static number get(const trial *t, const double *at, int64_t i) {
    const float *f = (const float *)at;
    if (t->parts == 2)
        return t->single ? CMPLX(f[2 * i], f[2 * i + 1]) : CMPLX(at[2 * i], at[2 * i + 1]);
    return t->single ? f[i] : at[i];
}
static void set(const trial *t, double *at, int64_t i, double last) { /* its last part */
    if (t->single)
        ((float *)at)[(i + 1) * t->parts - 1] = (float)last;
    else
        at[(i + 1) * t->parts - 1] = last;
}

static void screen(const trial *t, void *params, ground *g) {
    *(fa_screen *)params = (fa_screen){.space = {COUNT, M, N},
                                       .a = (uintptr_t)g->a,
                                       .flags = (uintptr_t)(g->flags + COUNT),
                                       .step = M * N + 3,
                                       .part = FA_LOWER | FA_DIAGONAL};
    memset(g->flags, 0, sizeof g->flags);
    set(t, g->a, 7 * N + 3, NAN);           /* within the part that counts, */
    set(t, g->a, M * N + 3 + 5, -INFINITY); /* and not */
}
static void mend(const trial *t, void *params, ground *g) {
    screen(t, params, g);
    g->flags[COUNT + 1] = 1;
}
static void screen_at_once(const trial *t, void *params, ground *g) {
    screen(t, params, g);
    for (int i = 0; i < 2 * COUNT; i++) g->flags[i] = 7; /* whatever was there */
}
static void bring_screen(const trial *t, void *params, ground *g) {
    fa_screen *p = params;
    screen_at_once(t, params, g);
    p->in = (uintptr_t)g->b; /* which lies by columns, upwards */
    p->in_row = 1;
    p->in_col = M;
    p->in_step = M * N + 1;
    set(t, g->b, 3 * M + 7, NAN); /* element (7, 3) */
}
static void carry(const trial *t, void *params, ground *g) {
    (void)t;
    *(fa_carry *)params = (fa_carry){.space = {COUNT, M, N},
                                     .out = (uintptr_t)g->b,
                                     .in = (uintptr_t)g->a,
                                     .flags = (uintptr_t)(g->flags + COUNT),
                                     .out_row = N,
                                     .out_col = 1,
                                     .out_step = M * N,
                                     .in_row = 1,
                                     .in_col = M,
                                     .in_step = M * N + 1,
                                     .flag_step = 1,
                                     .part = FA_LOWER | FA_UPPER,
                                     .unit = 1,
                                     .conj = 0};
}
static void carry_conjugates(const trial *t, void *params, ground *g) {
    fa_carry *p = params;
    carry(t, params, g);
    p->flags = 0;
    p->unit = 0;
    p->part = FA_UPPER;
    p->conj = 1;
    p->in_row = N; /* row by row: not through tiles */
    p->in_col = 1;
}
static void carry_in_place(const trial *t, void *params, ground *g) {
    fa_carry *p = params;
    carry(t, params, g);
    p->in = p->out;
    p->in_row = N;
    p->in_col = 1;
    p->in_step = M * N;
    p->part = FA_ALL;
    p->unit = 0;
}
static void determinant(const trial *t, void *params, ground *g) {
    (void)t;
    *(fa_det *)params = (fa_det){.space = {COUNT, 1, 1},
                                 .lu = (uintptr_t)g->a,
                                 .pivots = (uintptr_t)g->pivots,
                                 .flags = (uintptr_t)(g->flags + COUNT),
                                 .det = (uintptr_t)g->b,
                                 .n = M};
}
static void log_determinant(const trial *t, void *params, ground *g) {
    fa_det *p = params;
    determinant(t, params, g);
    p->logs = (uintptr_t)g->c;
    p->apart = 1;
}
/* Of the values FIRST .. 0, those above a quarter of the first count; one is as large, and does
** not. */
enum { FIRST = N - 1, COUNTING = FIRST - FIRST / 4 };
static void cut(const trial *t, void *params, ground *g) {
    (void)t;
    for (int i = 0; i < ROOM; i++) g->b[i] = 0; /* values descend */
    *(fa_cut *)params = (fa_cut){.space = {COUNT, N, M},
                                 .vectors = (uintptr_t)g->a,
                                 .values = (uintptr_t)g->b,
                                 .rank = (uintptr_t)g->order,
                                 .row = 1,
                                 .col = N,
                                 .step = M * N,
                                 .rcond = 0.25};
}
static void cut_single(const trial *t, void *params, ground *g) {
    cut(t, params, g);
    for (int i = 0; i < COUNT * N; i++) ((float *)g->b)[i] = (float)(FIRST - i % N);
}
static void cut_double(const trial *t, void *params, ground *g) {
    cut(t, params, g);
    for (int i = 0; i < COUNT * N; i++) g->b[i] = FIRST - i % N;
}
static void pivots(const trial *t, void *params, ground *g) {
    (void)t;
    *(fa_pivots *)params = (fa_pivots){.space = {COUNT, 1, M},
                                       .pivots = (uintptr_t)g->pivots,
                                       .flags = (uintptr_t)(g->flags + COUNT),
                                       .shift = 1,
                                       .bound = M};
    g->pivots[5] = M;
    g->pivots[2 * M] = -1;
}
static void narrow_pivots(const trial *t, void *params, ground *g) {
    fa_pivots *p = params;
    pivots(t, params, g);
    p->narrow = (uintptr_t)g->c;
    for (int i = 0; i < COUNT * M; i++) ((int *)g->c)[i] = (int)g->pivots[i];
    for (int i = 0; i < COUNT * M; i++) g->pivots[i] = 77;
}
static void order(const trial *t, void *params, ground *g) {
    (void)t;
    *(fa_order *)params = (fa_order){.space = {COUNT, 1, 1},
                                     .order = (uintptr_t)g->order,
                                     .pivots = (uintptr_t)g->pivots,
                                     .m = M,
                                     .npivots = M};
}

#define FORMS(t, is_single, parts_)                                                                \
    {"factor_look_" #t, "fa_screen", factor_look_##t, screen, is_single, parts_},                  \
        {"factor_mend_" #t, "fa_screen", factor_mend_##t, mend, is_single, parts_},                \
        {"factor_screen_" #t, "fa_screen", factor_screen_##t, screen_at_once, is_single, parts_},  \
        {"factor_screen_" #t, "fa_screen", factor_screen_##t, bring_screen, is_single, parts_},    \
        {"factor_carry_" #t, "fa_carry", factor_carry_##t, carry, is_single, parts_},              \
        {"factor_carry_" #t, "fa_carry", factor_carry_##t, carry_conjugates, is_single, parts_},   \
        {"factor_carry_" #t, "fa_carry", factor_carry_##t, carry_in_place, is_single, parts_},     \
        {"factor_det_" #t, "fa_det", factor_det_##t, determinant, is_single, parts_},              \
        {"factor_det_" #t, "fa_det", factor_det_##t, log_determinant, is_single, parts_}, {        \
        "factor_cut_" #t, "fa_cut", factor_cut_##t, is_single ? cut_single : cut_double,           \
            is_single, parts_                                                                      \
    }
static const trial trials[] = {
    FORMS(f32, true, 1),
    FORMS(f64, false, 1),
    FORMS(c64, true, 2),
    FORMS(c128, false, 2),
    {"factor_pivots", "fa_pivots", factor_pivots, pivots, false, 1},
    {"factor_pivots", "fa_pivots", factor_pivots, narrow_pivots, false, 1},
    {"factor_order", "fa_order", factor_order, order, false, 1}};

/* What carry is to do, said again. */
static void check_carry(const trial *t, const ground *g) {
    bool conjugates = t->fill == carry_conjugates;
    for (int64_t w = 0; w < COUNT; w++)
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                number from = get(t, g->a, w * (M * N + 1) + (conjugates ? i * N + j : j * M + i)),
                       got = get(t, g->b, (w * M + i) * N + j);
                if (w == 1 && !conjugates)
                    assert_true(isnan(creal(got)));
                else if (conjugates)
                    assert_true(got == (j > i ? conj(from) : 0));
                else
                    assert_true(got == (i == j ? 1 : from));
            }
}

/* The matrix with a flag alone changes. */
static void check_in_place(const trial *t, const ground *g) {
    for (int64_t i = 0; i < COUNT * M * N; i++) {
        number was = get(t, before.b, i), got = get(t, g->b, i);
        assert_true(i / (M * N) == 1 ? isnan(creal(got)) : got == was);
    }
}

static void check_cut(const trial *t, const ground *g) {
    for (int64_t w = 0; w < COUNT; w++) {
        assert_int_equal(g->order[w], COUNTING);
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < M; j++) {
                number was = get(t, before.a, w * M * N + j * N + i),
                       got = get(t, g->a, w * M * N + j * N + i);
                assert_true(i < COUNTING ? cabs(got - conj(was) / (double)(FIRST - i)) < 1e-6
                                         : got == 0);
            }
    }
}

static void check(const trial *t, const ground *g) {
    if (t->fill == carry || t->fill == carry_conjugates) check_carry(t, g);
    if (t->fill == carry_in_place) check_in_place(t, g);
    if (t->fill == cut_single || t->fill == cut_double) check_cut(t, g);
    if (t->fill == pivots || t->fill == narrow_pivots) {
        assert_int_equal(g->flags[COUNT], 1);
        assert_int_equal(g->flags[COUNT + 2], 1);
        assert_int_equal(g->pivots[5], 6);
        assert_int_equal(g->pivots[6], before.pivots[6] + 1);
    }
    if (t->fill == screen)
        for (int w = 0; w < COUNT; w++) assert_int_equal(g->flags[COUNT + w], w == 0);
    bool brought = t->fill == bring_screen, at_once = brought || t->fill == screen_at_once;
    for (int i = 0; at_once && i < M * N; i++) {
        number was = brought ? get(t, before.b, 2 * (M * N + 1) + i % N * M + i / N)
                             : get(t, before.a, 2 * (M * N + 3) + i);
        assert_true(get(t, g->a, i) == (i / N == i % N));
        assert_true(get(t, g->a, 2 * (M * N + 3) + i) == was);
    }
    if (at_once)
        for (int i = 0; i < 2 * COUNT; i++) assert_int_equal(g->flags[i], i == COUNT);
    if (t->fill == mend)
        for (int i = 0; i < M * N; i++) {
            assert_true(get(t, g->a, M * N + 3 + i) == (i / N == i % N));
            assert_true(get(t, g->a, 2 * (M * N + 3) + i) == get(t, before.a, 2 * (M * N + 3) + i));
        }
}

/* The same numbers, where NaN is NaN. */
static bool same(const trial *t, const ground *x, const ground *y) {
    const double *a = (const double *)x, *b = (const double *)y;
    bool all = memcmp(x->pivots, y->pivots, sizeof *x - offsetof(ground, pivots)) == 0;
    for (size_t i = 0; i < 3 * ROOM && all; i++) {
        const float *f = (const float *)&a[i], *g = (const float *)&b[i];
        if (t->single)
            for (int k = 0; k < 2; k++) all = all && (f[k] == g[k] || (isnan(f[k]) && isnan(g[k])));
        else
            all = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
    }
    return all;
}

static void host_and_device_text_agree(void **state) {
    static const char prefix[] = "#define TIDE_WANTS_ALL\n";
    emu_module m = {0};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(trials); i++) {
        char *text = malloc(strlen(tidei_factor_text) + 512);
        size_t body = (size_t)sprintf(text, "%s%s", prefix, tidei_factor_text);
        sprintf(text + body, "typedef %s tide_p;\nstatic void tide_k(const tide_p p) { %s(p); }\n",
                trials[i].params, trials[i].kernel);
        emu_add(&m, text, body);
        free(text);
    }
    bool emulates = emu_compiler() != NULL;
    if (emulates) emu_build(&m);
    seed = 7;
    for (size_t i = 0; i < TIDEI_COUNT(trials); i++) {
        const trial *t = &trials[i];
        char params[256];
        set_numbers(t);
        for (int device = 0; device < 1 + emulates; device++) {
            after[device] = before;
            t->fill(t, params, &after[device]);
            if (device)
                emu_launch(&m, (unsigned)i, 3, 1, params, true);
            else
                t->host(params);
        }
        check(t, &after[0]);
        if (emulates && !same(t, &after[0], &after[1]))
            fail_msg("%s differs on the device", t->kernel);
    }
    emu_close(&m);
}

/* Each kernel is found in what is compiled for it, and that holds little else. */
static void each_kernels_text_compiles(void **state) {
    void *image;
    size_t bytes, all;
    char *text = malloc(strlen(tidei_factor_text) + 128);
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) {
        free(text);
        skip();
    }
    sprintf(text, "#define TIDE_WANTS_ALL\n%s", tidei_factor_text);
    assert_ok(tidei_nvrtc_compile(text, "factor", 90, &image, &all));
    free(image);
    for (size_t i = 0; i < TIDEI_COUNT(trials); i++) {
        if (i && trials[i].host == trials[i - 1].host) continue;
        sprintf(text, "#define TIDE_WANTS_%s 1\n%s", trials[i].kernel, tidei_factor_text);
        assert_ok(tidei_nvrtc_compile(text, trials[i].kernel, 90, &image, &bytes));
        assert_memory_equal(image, "\177ELF", 4);
        assert_non_null(memmem(image, bytes, trials[i].kernel, strlen(trials[i].kernel)));
        assert_true(bytes < all / 4);
        free(image);
    }
    free(text);
}

/* So are those of small batches, the device's alone, which test_linalg_small.c has run. */
extern const char tidei_small_text[];
static void each_small_kernel_compiles(void **state) {
    static const char *const routines[] = {"getrf", "getrs", "potrf", "geqrf", "orgqr"},
                             *const forms[] = {"f32", "f64", "c64", "c128"};
    void *image;
    size_t bytes;
    (void)state;
    if (tidei_nvrtc_open(0) != TIDE_OK) skip();
    char *text = malloc(strlen(tidei_small_text) + 128), name[64];
    for (size_t i = 0; i < TIDEI_COUNT(routines) * TIDEI_COUNT(forms); i++) {
        (void)snprintf(name, sizeof name, "small_%s_%s", routines[i / 4], forms[i % 4]);
        sprintf(text, "#define TIDE_WANTS_%s 1\n%s", name, tidei_small_text);
        assert_ok(tidei_nvrtc_compile(text, name, 90, &image, &bytes));
        assert_non_null(memmem(image, bytes, name, strlen(name)));
        free(image);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(host_and_device_text_agree),
                                       cmocka_unit_test(each_small_kernel_compiles),
                                       cmocka_unit_test(each_kernels_text_compiles)};
    return cmocka_run_group_tests_name("linalg_kernels", tests, NULL, NULL);
}
