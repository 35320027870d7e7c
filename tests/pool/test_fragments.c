/* test_fragments.c: memory in fragments, as people have met it: a script that fills and punches
** holes (E18), and the figures of an out-of-memory log (E21), scaled down on a host device. What
** must stay true: a request fails only if it, and what lives, are more than the limit. */
#include "tests/support/tidetest.h"

#define MIB TIDEI_MIB

static size_t scaled(double gib) {
    return (size_t)(gib * (double)TIDEI_GIB) / (test_on_host() ? 64 : 1);
}

static tide_runtime *open_limited(const char *pool, size_t limit) {
    char text[32];
    snprintf(text, sizeof text, "%zu", limit);
    return test_open(&(tide_config){.collector = "refcount",
                                    .pool = pool,
                                    .limit = text,
                                    .policy = "never",
                                    .spill = TIDE_OFF});
}

static uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- E18 ---- */

#define SCRIPT 23

static tide_array *marked(tide_runtime *rt, double part, int64_t columns, int mark) {
    int64_t rows = (int64_t)(part * (test_on_host() ? 4096 : 262144));
    tide_array *a = tide_full(rt, TIDE_F32, SHAPE(rows, columns), tide_arg_int(mark));
    assert_array(a);
    return a;
}

static void has_mark(tide_array *a, int mark) {
    tide_array *wrong = tide_map(tide_array_runtime(a), "(a, m) -> any(a != m)", a, mark);
    assert_array(wrong);
    assert_true(tide_item_f64(wrong) == 0);
    tide_free(wrong);
}

/* Arrays of four sizes in turn fill 25 GiB; three go, and one is asked for that is as large as they
** were together. */
static void e18_the_script(void **state) {
    static const struct {
        double part;
        int64_t columns;
    } sizes[] = {{0.9, 1024}, {1.1, 1024}, {1, 512}, {1, 2048}};
    (void)state;
    tide_runtime *rt = open_limited("tide", scaled(25));
    tide_pool_figures s = {.struct_size = sizeof s};
    tide_array *a[SCRIPT];
    for (int i = 0; i < SCRIPT; i++)
        a[i] = marked(rt, sizes[i % 4].part, sizes[i % 4].columns, i + 1);
    for (int i = 0; i < SCRIPT; i += 11) tide_free(a[i]);
    tide_array *large = marked(rt, 3.4, 1024, 99);
    assert_ok(tide_pool_info(tide_pool_default(rt), &s));
    print_message("E18: %llu compactions, %llu bytes moved\n", (unsigned long long)s.compactions,
                  (unsigned long long)s.bytes_moved);
    assert_true(s.compactions >= 1);
    has_mark(large, 99);
    tide_free(large);
    for (int i = 0; i < SCRIPT; i++) {
        if (i % 11 == 0) continue;
        has_mark(a[i], i + 1);
        tide_free(a[i]);
    }
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

/* ---- E21: the log ---- */

#define CEILING  39.59 /* GiB, as all of these */
#define OTHERS   1.72
#define LIVE     28.60
#define RESERVED 33.95
#define FIRST    4.88
#define SECOND   9.30

enum { BLOCKS_MOST = 20000 };
struct blocks {
    tide_array *a[BLOCKS_MOST];
    unsigned n;
    size_t bytes;
    uint64_t seed;
};

static tide_array *bytes_of(tide_runtime *rt, size_t n) {
    return tide_empty(rt, TIDE_U8, SHAPE((int64_t)n));
}

static void add(tide_runtime *rt, struct blocks *b, size_t bytes) {
    assert_true(b->n < BLOCKS_MOST);
    assert_array(b->a[b->n++] = bytes_of(rt, bytes));
    b->bytes += bytes;
}
static void drop(struct blocks *b, unsigned i) {
    b->bytes -= (size_t)tide_array_size(b->a[i]);
    tide_free(b->a[i]);
    b->a[i] = b->a[--b->n];
}

/* Blocks of many sizes up to `reserved`, of which some go until no more than `live` is left. */
static void scatter(tide_runtime *rt, struct blocks *b, size_t reserved, size_t live) {
    size_t most = scaled(0.1);
    while (b->bytes < reserved) {
        size_t bytes = tidei_round_up(1 + dice(&b->seed) % most, 512);
        add(rt, b, tidei_min_size(bytes, reserved - b->bytes));
    }
    while (b->bytes > live) drop(b, dice(&b->seed) % b->n);
}

/* The bytes in the report behind `name`; to three digits, as it says them. */
static double reported(const char *name) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    const char *at = strstr(tide_error_last()->message, name);
    double value;
    char unit[16];
    if (!at || sscanf(at + strlen(name), " %lf %15[a-zA-Z]", &value, unit) != 2)
        fail_msg("no %s", name);
    for (unsigned i = 0; i < TIDEI_COUNT(units); i++, value *= 1024)
        if (strcmp(unit, units[i]) == 0) return value;
    fail_msg("%s: %s", name, unit);
    return 0;
}

static void e21_the_log(void **state) {
    (void)state;
    struct blocks *b = calloc(1, sizeof *b);
    size_t limit = scaled(CEILING - OTHERS);
    tide_runtime *rt = open_limited("tide", limit);
    scatter(rt, b, scaled(RESERVED), scaled(LIVE));
    tide_array *first = bytes_of(rt, scaled(FIRST)); /* the log's own failure: live and this fit */
    assert_array(first);
    assert_null(bytes_of(rt, scaled(SECOND)));
    double live = reported("live"), reserved = reported("reserved");
    double sum = live + reported("rounding") + reported("cached") + reported("pending");
    assert_true(live <= (double)(b->bytes + scaled(FIRST)) * 1.001);
    assert_true(live >= (double)(b->bytes + scaled(FIRST)) * 0.999);
    assert_true(sum > reserved * 0.999 && sum < reserved * 1.001);
    assert_true(reserved <= (double)limit * 1.001);
    /* A limit that would do is named where the device has so much. */
    bool fits = b->bytes + scaled(FIRST) + scaled(SECOND) <
                test_rt(rt)->devs[0].d->info.total_bytes - 2 * MIB;
    assert_int_equal(strstr(tide_error_last()->message, "remedy: a limit of") != NULL, fits);
    tide_free(first);
    while (b->n) drop(b, 0);
    free(b);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

/* ---- E21: random sizes ---- */

enum { SLOTS = 256, STEPS = 100000, QUICK_STEPS = 10000 };
struct program {
    uint64_t seed;
    size_t bytes[SLOTS]; /* that live */
};
struct step {
    unsigned slot;
    size_t bytes; /* that are asked for; 0: what is there goes */
};

static struct step next_step(struct program *p) {
    struct step s = {.slot = dice(&p->seed) % SLOTS};
    size_t bytes = (size_t)256 << dice(&p->seed) % 12;
    bytes += dice(&p->seed) % bytes;
    if (!p->bytes[s.slot]) s.bytes = bytes;
    p->bytes[s.slot] = s.bytes;
    return s;
}

static unsigned steps_to_do(void) { return test_quick() ? QUICK_STEPS : STEPS; }

static size_t peak_of_live(void) {
    struct program p = {.seed = 1};
    size_t live = 0, peak = 0, now[SLOTS] = {0};
    for (unsigned i = 0; i < steps_to_do(); i++) {
        struct step s = next_step(&p);
        live += s.bytes - now[s.slot];
        now[s.slot] = s.bytes;
        peak = tidei_max_size(peak, live);
    }
    return peak;
}

/* Driver attempts after a full flush in the second half of the steps; *failed: requests that
** did. */
static uint64_t late_retries(const char *pool, size_t limit, unsigned *failed) {
    tide_runtime *rt = open_limited(pool, limit);
    struct program p = {.seed = 1};
    tide_array *a[SLOTS] = {NULL};
    uint64_t before = 0;
    *failed = 0;
    for (unsigned i = 0; i < steps_to_do(); i++) {
        struct step s = next_step(&p);
        if (i == steps_to_do() / 2) before = test_stats(rt).retries;
        tide_free(a[s.slot]);
        a[s.slot] = s.bytes ? bytes_of(rt, s.bytes) : NULL;
        if (s.bytes && !a[s.slot]) ++*failed;
    }
    uint64_t retries = test_stats(rt).retries - before;
    for (unsigned i = 0; i < SLOTS; i++) tide_free(a[i]);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
    return retries;
}

static void e21_tide_needs_no_late_retry(void **state) {
    (void)state;
    size_t limit = peak_of_live() / 20 * 21;
    unsigned failed;
    assert_int_equal(late_retries("tide", limit, &failed), 0);
    assert_int_equal(failed, 0);
    assert_true(late_retries("split", limit, &failed) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e18_the_script),
        cmocka_unit_test(e21_the_log),
        cmocka_unit_test(e21_tide_needs_no_late_retry),
    };
    return cmocka_run_group_tests_name("fragments", tests, NULL, NULL);
}
