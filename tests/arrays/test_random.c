/* test_random.c: Philox against its published vectors, what is made of it against libm and
** statistics, permutations. */
#include <math.h>

#include "arrays/make/philox_host.h"
#include "tests/arrays/compiles.h"
#include "tests/doubles/emulated_device.h"
#include "tests/support/tidetest.h"

extern const char tidei_philox_text[];

static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static int open_emulated(void **state) {
    *state = emulated_open(NULL);
    return 0;
}

static void *read_all(tide_array *a) {
    assert_array(a);
    size_t bytes = (size_t)tide_array_size(a) * tide_dtype_size(tide_array_dtype(a));
    void *p = malloc(bytes + 1);
    assert_ok(tide_to_host(a, p, bytes));
    return p;
}

/* ---- the generator ---- */

/* The known answers of the Random123 library for philox4x32-10. */
static void philox_gives_the_known_answers(void **state) {
    static const struct {
        ph_words counter;
        ph_u32 key[2];
        ph_words want;
    } vectors[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(vectors); i++) {
        ph_keys keys = ph_schedule(vectors[i].key[0], vectors[i].key[1]);
        ph_words got = ph_generate(vectors[i].counter, &keys);
        assert_memory_equal(&got, &vectors[i].want, sizeof got);
    }
}

/* The first elements of a draw, from the words above: the promise to every device and version. */
static void the_first_elements_are_as_promised(void **state) {
    tide_runtime *rt = *state;
    tide_rng rng = {0, 0};
    const ph_u32 w[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    float *f = read_all(tide_random_uniform(rt, &rng, TIDE_F32, SHAPE(4)));
    for (int i = 0; i < 4; i++) assert_true(f[i] == (float)(w[i] >> 8) / 16777216.0f);
    assert_int_equal(rng.counter, 1);
    rng.counter = 0;
    double *d = read_all(tide_random_uniform(rt, &rng, TIDE_F64, SHAPE(2)));
    assert_true(d[1] == (double)(((uint64_t)w[3] << 32 | w[2]) >> 11) / 9007199254740992.0);
    rng.counter = 0;
    uint8_t *u = read_all(tide_random_integers(rt, &rng, TIDE_U8, SHAPE(2), 10, 20));
    assert_int_equal(u[0], 10 + (0xe169c58du * 10ull >> 32));
    assert_int_equal(u[1], 10 + (0x9b00dbd8u * 10ull >> 32));
    free(f), free(d), free(u);
}

/* ---- what is made of the words ---- */

static double ulps(double got, double want) {
    return want == 0 ? (got == 0 ? 0 : 1e9)
                     : fabs(got - want) / (nextafter(fabs(want), INFINITY) - fabs(want));
}

static void log_and_circle_are_close_to_libm(void **state) {
    double worst_log = 0, worst_sin = 0;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        ph_words r = ph_block(7, (ph_u64)i);
        double u = (double)((ph_word64(r, 0) >> 11) + 1) * 0x1p-53,
               v = (double)(ph_word64(r, 1) >> 11) * 0x1p-53, s, c;
        if (i & 1) u = ldexp(u, -(i % 50)); /* small ones too */
        if (i % 5 == 0) u = 1 - (1 - u) * 0x1p-20;
        worst_log = fmax(worst_log, ulps(ph_log(u), log(u)));
        ph_circle(v, &c, &s);
        /* near its zeros the reference is the function of the distance to them, which is exact */
        double q = floor(4 * v + 0.5), x = (v - q / 4) * 6.283185307179586;
        int k = (int)q & 3;
        worst_sin = fmax(worst_sin, ulps(fabs(s), fabs(k & 1 ? cos(x) : sin(x))));
        worst_sin = fmax(worst_sin, ulps(fabs(c), fabs(k & 1 ? sin(x) : cos(x))));
        assert_true(fabs(c - cos(6.283185307179586 * v)) < 1e-14 &&
                    fabs(s - sin(6.283185307179586 * v)) < 1e-14);
    }
    if (worst_log > 3 || worst_sin > 3)
        fail_msg("log %g ulp, sine and cosine %g ulp", worst_log, worst_sin);
    assert_true(ph_log(1) == 0);
}

static float float_ulps(float got, float want) {
    return fabsf(got - want) / (nextafterf(fabsf(want), INFINITY) - fabsf(want));
}

/* What a device makes in floats against what the host makes in doubles: of any words, and of those
** where logarithm, sine or cosine begin anew or nearly vanish. */
static void normals_made_in_floats_are_close(void **state) {
    static const ph_u32 edges[] = {0, 1u << 29, 1u << 30, 3u << 29, 1u << 31, 5u << 29, 3u << 30};
    float worst = 0, two[2], want[2];
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        ph_words r = ph_block(8, (ph_u64)i);
        if (i & 1) r.w[0] = edges[i % 7] + r.w[0] % 65 - 32;
        if (i & 2) r.w[1] = edges[i % 7] + r.w[1] % 65 - 32;
        if (i % 16 == 8) r.w[0] >>= i % 32;
        if (i % 16 == 9) r.w[0] = ~(r.w[0] >> i % 32);
        ph_pair_floats(r.w[0], r.w[1], two);
        ph_pair_words(r.w[0], r.w[1], want);
        for (int k = 0; k < 2; k++) worst = fmaxf(worst, float_ulps(two[k], want[k]));
    }
    if (!(worst <= 6)) fail_msg("%g ulp", (double)worst);
    assert_true(worst > 0);
}

#define DRAWN 200000

static void moments(const double *x, int n, double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = squares / n;
}

/* Chi-square of counts against equal chances: within five standard deviations of its mean, the
** degrees of freedom. */
static void evenly(const int *counts, int bins, int n) {
    double expected = (double)n / bins, chi = 0;
    for (int i = 0; i < bins; i++)
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    double freedom = bins - 1, limit = 5 * sqrt(2 * freedom) + 10;
    if (fabs(chi - freedom) > limit)
        fail_msg("chi-square %g with %g degrees of freedom", chi, freedom);
}

static double *doubles_of(tide_array *a) { return read_all(tide_cast(a, TIDE_F64)); }

static void uniform_numbers_are_uniform(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = TIDE_F32; t <= TIDE_F64; t++) {
        tide_rng rng = {42, 0};
        int bins[256] = {0}, pairs[256] = {0};
        double mean, variance, *x = doubles_of(tide_random_uniform(rt, &rng, t, SHAPE(DRAWN)));
        moments(x, DRAWN, &mean, &variance);
        assert_true(fabs(mean - 0.5) < 5 * sqrt(1.0 / 12 / DRAWN));
        assert_true(fabs(variance - 1.0 / 12) < 0.001);
        for (int i = 0; i < DRAWN; i++) {
            assert_true(x[i] >= 0 && x[i] < 1);
            bins[(int)(x[i] * 256)]++;
            if (i & 1) pairs[(int)(x[i - 1] * 16) * 16 + (int)(x[i] * 16)]++;
        }
        evenly(bins, 256, DRAWN);
        evenly(pairs, 256, DRAWN / 2);
        free(x);
    }
}

static void normal_numbers_are_normal(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = TIDE_F32; t <= TIDE_F64; t++) {
        tide_rng rng = {43, 0};
        int bins[64] = {0};
        double mean, variance, fourth = 0,
                               *x = doubles_of(tide_random_normal(rt, &rng, t, SHAPE(DRAWN)));
        moments(x, DRAWN, &mean, &variance);
        for (int i = 0; i < DRAWN; i++) {
            assert_true(fabs(x[i]) < 9);
            fourth += x[i] * x[i] * x[i] * x[i] / DRAWN;
            /* of the distribution function: even */
            bins[(int)(64 * 0.5 * erfc(-x[i] / sqrt(2)))]++;
        }
        assert_true(fabs(mean) < 5 / sqrt(DRAWN));
        assert_true(fabs(variance - 1) < 0.02 && fabs(fourth - 3) < 0.15);
        evenly(bins, 64, DRAWN);
        free(x);
    }
}

static void integers_come_equally_often(void **state) {
    tide_runtime *rt = *state;
    tide_rng rng = {44, 0};
    int bins[10] = {0}, wide[16] = {0};
    int32_t *x = read_all(tide_random_integers(rt, &rng, TIDE_I32, SHAPE(DRAWN), -3, 7));
    int64_t *y =
        read_all(tide_random_integers(rt, &rng, TIDE_I64, SHAPE(DRAWN), INT64_MIN, INT64_MAX));
    for (int i = 0; i < DRAWN; i++) {
        assert_true(x[i] >= -3 && x[i] < 7);
        bins[x[i] + 3]++;
        wide[(uint64_t)y[i] >> 60]++;
    }
    evenly(bins, 10, DRAWN);
    evenly(wide, 16, DRAWN);
    free(x), free(y);
}

/* The wide form is the integer part of a 192-bit product. */
static void the_wide_form_is_a_192_bit_product(void **state) {
    uint64_t got[64];
    ph_draw d = {.items = 32,
                 .out = (ph_u64)(uintptr_t)got,
                 .n = 64,
                 .keys = ph_schedule(5, 0),
                 .low = 3,
                 .range = 0xfedcba9876543210u};
    (void)state;
    philox_integers_wide(&d);
    for (unsigned i = 0; i < 64; i++) {
        ph_words r = ph_block(5, i);
        unsigned __int128 low = (unsigned __int128)ph_word64(r, 0) * d.range,
                          high = (unsigned __int128)ph_word64(r, 1) * d.range;
        assert_true(got[i] == 3 + (uint64_t)((high + (low >> 64)) >> 64));
    }
}

/* Element i depends on the seed, the counter and i alone; the counter moves by the blocks used. */
static void the_counter_moves_by_the_blocks_used(void **state) {
    static const struct {
        tide_dtype t;
        int64_t n;
        uint64_t blocks;
    } cases[] = {{TIDE_F32, 0, 0}, {TIDE_F32, 1, 1}, {TIDE_F32, 8, 2},
                 {TIDE_F32, 9, 3}, {TIDE_F64, 9, 5}, {TIDE_F64, 2, 1}};
    tide_runtime *rt = *state;
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_rng u = {9, 100}, n = {9, 100};
        assert_array(tide_random_uniform(rt, &u, cases[i].t, SHAPE(cases[i].n)));
        assert_array(tide_random_normal(rt, &n, cases[i].t, SHAPE(cases[i].n)));
        assert_int_equal(u.counter, 100 + cases[i].blocks);
        assert_int_equal(n.counter, 100 + cases[i].blocks);
    }
    tide_rng whole = {9, 0}, again = {9, 0}, later = {9, 0}, other = {10, 0};
    float *a = read_all(tide_random_normal(rt, &whole, TIDE_F32, SHAPE(6, 4)));
    float *b = read_all(tide_random_normal(rt, &again, TIDE_F32, SHAPE(23)));
    assert_memory_equal(a, b, 23 * sizeof *a); /* whatever the shape */
    assert_array(tide_random_normal(rt, &later, TIDE_F32, SHAPE(8)));
    float *rest = read_all(tide_random_normal(rt, &later, TIDE_F32, SHAPE(16)));
    assert_memory_equal(a + 8, rest, 16 * sizeof *a); /* in one draw or two */
    float *else_ = read_all(tide_random_normal(rt, &other, TIDE_F32, SHAPE(24)));
    assert_true(memcmp(a, else_, 24 * sizeof *a) != 0);
    tide_rng wide = {9, 0}, narrow = {9, 0};
    assert_array(tide_random_integers(rt, &narrow, TIDE_I64, SHAPE(3), 0, (int64_t)1 << 32));
    assert_array(tide_random_integers(rt, &wide, TIDE_I64, SHAPE(3), 0, ((int64_t)1 << 32) + 1));
    assert_int_equal(narrow.counter, 2);
    assert_int_equal(wide.counter, 3);
    free(a), free(b), free(rest), free(else_);
}

/* ---- the same everywhere ---- */

typedef struct sampled { /* a kind of draw, and the host's function for it */
    tide_dtype t;
    void (*host)(const void *params);
    int64_t low, high; /* 0, 0: no integers */
    bool normal;
} sampled;

static tide_array *draw_on(tide_runtime *rt, const sampled *s, tide_rng *rng, int64_t n) {
    return s->low != s->high ? tide_random_integers(rt, rng, s->t, SHAPE(n), s->low, s->high)
           : s->normal       ? tide_random_normal(rt, rng, s->t, SHAPE(n))
                             : tide_random_uniform(rt, rng, s->t, SHAPE(n));
}

/* Element by element against the host's own functions: bit for bit, but for normals of f32. */
static void check_draw(tide_runtime *rt, const sampled *s, int64_t n) {
    tide_rng rng = {0x123456789abcdefu, 0xfffffffcu}; /* whose lower half wraps */
    const size_t size = tide_dtype_size(s->t), a_vector = PH_VECTOR / size;
    unsigned char *want = calloc((size_t)n + a_vector, size);
    ph_draw d = {.items = ((size_t)n + a_vector - 1) / a_vector,
                 .out = (ph_u64)(uintptr_t)want,
                 .n = (ph_u64)n,
                 .counter = rng.counter,
                 .keys = ph_schedule((ph_u32)rng.seed, (ph_u32)(rng.seed >> 32)),
                 .low = (ph_u64)s->low,
                 .range = (ph_u64)s->high - (ph_u64)s->low};
    s->host(&d);
    for (size_t i = (size_t)n * size; i < ((size_t)n + a_vector) * size; i++)
        assert_int_equal(want[i], 0); /* nothing beyond the end */
    tide_array *a = draw_on(rt, s, &rng, n);
    unsigned char *got = read_all(a);
    if (s->normal && s->t == TIDE_F32) {
        for (int64_t i = 0; i < n; i++)
            assert_true(float_ulps(((float *)(void *)got)[i], ((float *)(void *)want)[i]) <= 6);
    } else
        assert_memory_equal(got, want, (size_t)n * size);
    free(got), free(want);
    tide_free(a);
}

static void draws_are_the_same_on_every_device(void **state) {
    static const sampled kinds[] = {
        {TIDE_F32, philox_uniform_f32, 0, 0, false},
        {TIDE_F64, philox_uniform_f64, 0, 0, false},
        {TIDE_F32, philox_normal_f32, 0, 0, true},
        {TIDE_F64, philox_normal_f64, 0, 0, true},
        {TIDE_I8, philox_integers_i8, -100, 27, false},
        {TIDE_U16, philox_integers_i16, 0, 65536, false},
        {TIDE_I32, philox_integers_i32, INT32_MIN, INT32_MAX, false},
        {TIDE_U32, philox_integers_i32, 0, (int64_t)1 << 32, false},
        {TIDE_I64, philox_integers_i64, -5, 1000000007, false},
        {TIDE_I64, philox_integers_wide, INT64_MIN, INT64_MAX - 1, false},
    };
    tide_runtime *rt = *state;
    if (!rt) skip();
    for (size_t k = 0; k < TIDEI_COUNT(kinds); k++)
        for (int64_t n = 1; n < 5000; n = n < 36 ? n + 1 : 3 * n + 1) check_draw(rt, &kinds[k], n);
}

/* The host's vectors against the same made one by one, bit for bit, in each instruction set. */
typedef struct vectored {
    size_t at; /* in the table */
    void (*plain)(const void *params);
    size_t size; /* bytes of an element */
    ph_u64 low, range;
} vectored;

static void check_vectors(const tidei_philox_host *table, const vectored *v, size_t n) {
    const size_t a_vector = PH_VECTOR / v->size, bytes = (n + a_vector) * v->size;
    unsigned char *want = calloc(1, bytes), *got = calloc(1, bytes);
    void (*run)(const void *params);
    ph_draw d = {.items = (n + a_vector - 1) / a_vector,
                 .out = (ph_u64)(uintptr_t)want,
                 .n = n,
                 .counter = 0xfffffffcu,
                 .keys = ph_schedule(0x89abcdefu, 0x1234567u),
                 .low = v->low,
                 .range = v->range};
    memcpy(&run, (const char *)table + v->at, sizeof run);
    v->plain(&d);
    d.out = (ph_u64)(uintptr_t)got;
    run(&d);
    assert_memory_equal(got, want, bytes); /* nothing beyond the end either */
    free(want), free(got);
}

static void vectors_on_the_host_are_the_same(void **state) {
    static const ph_u64 all = (ph_u64)1 << 32;
#define VECTORED(kind, size, low, range)                                                           \
    { offsetof(tidei_philox_host, kind), philox_##kind, size, low, range }
    const vectored kinds[] = {
        VECTORED(uniform_f32, 4, 0, 0),        VECTORED(uniform_f64, 8, 0, 0),
        VECTORED(normal_f32, 4, 0, 0),         VECTORED(normal_f64, 8, 0, 0),
        VECTORED(integers_i8, 1, 0, 256),      VECTORED(integers_i16, 2, 65000, 999),
        VECTORED(integers_i32, 4, 0, all),     VECTORED(integers_i64, 8, 5, all),
        VECTORED(integers_i64, 8, 0, all - 1), VECTORED(integers_i32, 4, 7, 1),
    };
    const tidei_philox_host *tables[] = {&tidei_philox_host_base, NULL};
    (void)state;
#ifdef TIDEI_VM_X86
    if (__builtin_cpu_supports("avx2")) tables[1] = &tidei_philox_host_avx2;
#endif
    for (size_t t = 0; t < TIDEI_COUNT(tables) && tables[t]; t++)
        for (size_t k = 0; k < TIDEI_COUNT(kinds); k++)
            for (size_t n = 1; n < 100000; n = n < 300 ? n + 1 : 5 * n + 1)
                check_vectors(tables[t], &kinds[k], n);
}

static void wrong_arguments_are_refused(void **state) {
    tide_runtime *rt = *state;
    tide_rng rng = {1, 5};
    assert_null(tide_random_uniform(rt, &rng, TIDE_I32, SHAPE(2)));
    assert_error(TIDE_E_DTYPE, "i32, where f32 or f64 is wanted");
    assert_null(tide_random_normal(rt, NULL, TIDE_F32, SHAPE(2)));
    assert_error(TIDE_E_INVALID, "generator is NULL");
    assert_null(tide_random_integers(rt, &rng, TIDE_F32, SHAPE(2), 0, 2));
    assert_error(TIDE_E_DTYPE, "integer");
    assert_null(tide_random_integers(rt, &rng, TIDE_I32, SHAPE(2), 4, 4));
    assert_error(TIDE_E_INVALID, "no integers in [4, 4)");
    assert_null(tide_random_integers(rt, &rng, TIDE_U8, SHAPE(2), -1, 4));
    assert_error(TIDE_E_DTYPE, "-1");
    assert_null(tide_random_integers(rt, &rng, TIDE_U8, SHAPE(2), 0, 257));
    assert_error(TIDE_E_DTYPE, "256");
    assert_array(tide_random_integers(rt, &rng, TIDE_U8, SHAPE(2), 0, 256));
    assert_null(tide_random_permutation(rt, &rng, -1));
    assert_error(TIDE_E_SHAPE, "negative");
    assert_null(tide_random_uniform(NULL, &rng, TIDE_F32, SHAPE(2)));
    assert_int_equal(rng.counter, 6); /* what failed drew nothing */
}

/* ---- permutations ---- */

static void is_permutation(const int64_t *p, int64_t n, unsigned char *seen) {
    memset(seen, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        assert_true(p[i] >= 0 && p[i] < n && !seen[p[i]]);
        seen[p[i]] = 1;
    }
}

static void a_permutation_has_each_element_once(void **state) {
    enum { MOST = 300007 };
    tide_runtime *rt = *state;
    tide_rng rng = {11, 0};
    unsigned char *seen = malloc(MOST);
    for (int64_t n = 0; n <= MOST; n = n < 1000 ? n + 1 : n * 3 + 7) {
        tide_array *a = tide_random_permutation(rt, &rng, n);
        int64_t *p = read_all(a);
        is_permutation(p, n, seen);
        free(p);
        tide_free(a);
    }
    free(seen);
    tide_rng one = {12, 3}, same = {12, 3};
    int64_t *p = read_all(tide_random_permutation(rt, &one, 100)),
            *q = read_all(tide_random_permutation(rt, &same, 100));
    assert_memory_equal(p, q, 100 * sizeof *p);
    assert_int_equal(one.counter, 15);
    int64_t *r = read_all(tide_random_permutation(rt, &one, 100));
    assert_true(memcmp(p, r, 100 * sizeof *p) != 0);
    free(p), free(q), free(r);
}

/* The permutations of n <= 5 elements come equally often, over counters. */
static void small_permutations_come_equally_often(void **state) {
    static const int factorial[] = {1, 1, 2, 6, 24, 120};
    enum { DRAWS = 24000 };
    (void)state;
    for (int n = 2; n <= 5; n++) {
        int counts[120] = {0};
        for (int draw = 0; draw < DRAWS; draw++) {
            long long p[5];
            ph_shuffle s = {
                .items = (ph_u64)n, .out = (ph_u64)(uintptr_t)p, .left = 1, .right = n > 4 ? 2 : 1};
            for (unsigned i = 0; i < PH_ROUNDS; i++)
                s.keys[i] = ph_word64(ph_block(99, (ph_u64)draw * 12 + i / 2), i & 1);
            philox_permutation(&s);
            int code = 0;
            for (int i = 0; i < n; i++) { /* its place in the order of permutations */
                int smaller = 0;
                for (int j = i + 1; j < n; j++) smaller += p[j] < p[i];
                code = code * (n - i) + smaller;
            }
            counts[code]++;
        }
        evenly(counts, factorial[n], DRAWS);
    }
}

/* Where element 0 of a larger one lands is even too. */
static void places_in_large_permutations_are_even(void **state) {
    tide_runtime *rt = *state;
    enum { N = 37, DRAWS = 7400 };
    int first[N] = {0}, last[N] = {0};
    tide_rng rng = {5, 0};
    for (int i = 0; i < DRAWS; i++) {
        tide_array *a = tide_random_permutation(rt, &rng, N);
        int64_t *p = read_all(a);
        first[p[0]]++;
        last[p[N - 1]]++;
        free(p);
        tide_free(a);
    }
    evenly(first, N, DRAWS);
    evenly(last, N, DRAWS);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_philox_text, "philox.h", "ALL", 90);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        CASE(the_first_elements_are_as_promised),
        cmocka_unit_test(log_and_circle_are_close_to_libm),
        cmocka_unit_test(normals_made_in_floats_are_close),
        CASE(uniform_numbers_are_uniform),
        CASE(normal_numbers_are_normal),
        CASE(integers_come_equally_often),
        cmocka_unit_test(the_wide_form_is_a_192_bit_product),
        CASE(the_counter_moves_by_the_blocks_used),
        CASE(draws_are_the_same_on_every_device),
        cmocka_unit_test(vectors_on_the_host_are_the_same),
        cmocka_unit_test_setup_teardown(draws_are_the_same_on_every_device, open_emulated,
                                        close_runtime),
        CASE(wrong_arguments_are_refused),
        CASE(a_permutation_has_each_element_once),
        cmocka_unit_test(small_permutations_come_equally_often),
        CASE(places_in_large_permutations_are_even),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
