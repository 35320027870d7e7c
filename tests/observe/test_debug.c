/* test_debug.c: what is held, and where it was allocated: the list that debug level 2 and sampling
** put into the status text, and into the log when a runtime closes. */
#include <ctype.h>
#include <semaphore.h>
#include <unistd.h>
#include "runtime/observe/tracker.h"
#include "tests/support/fresh_environment.h"
#include "tests/doubles/failing_host.h"
#include "tests/support/works.h"

static char text[64 << 10];

static tide_runtime *open_debug(int level, int sample) {
    return test_open(&(tide_config){.collector = "refcount",
                                    .debug = level,
                                    .debug_sample = sample,
                                    .log = keep_line,
                                    .log_level = TIDE_LOG_WARNING});
}

/* The list out of the status text, from "held: " on; "" if there is none. */
static const char *held(tide_runtime *rt) {
    size_t n = tide_runtime_text(rt, text, sizeof text);
    assert_true(n < sizeof text);
    const char *at = strstr(text, "held: ");
    return at ? at : "";
}

static unsigned arrays_held(tide_runtime *rt) {
    const char *list = held(rt);
    unsigned n;
    if (sscanf(list, "held: %u array", &n) != 1) fail_msg("no \"held: \" in the status text");
    return n;
}

static unsigned count_of(const char *in, const char *part) {
    unsigned n = 0;
    for (const char *at = in; (at = strstr(at, part)); at++) n++;
    return n;
}

/* ---- functions that allocate ---- */

static int line_of_inlined, line_of_call, line_of_add;

static inline __attribute__((always_inline)) tide_array *inlined_maker(tide_runtime *rt,
                                                                       int64_t n) {
    line_of_inlined = __LINE__ + 1;
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(n, 3));
    tidei_keep(a);
    return a;
}

__attribute__((noinline)) static tide_array *outer_maker(tide_runtime *rt, int64_t n) {
    line_of_call = __LINE__ + 1;
    tide_array *a = inlined_maker(rt, n);
    tidei_keep(a);
    return a;
}

__attribute__((noinline)) static tide_array *adder(tide_array *a) {
    line_of_add = __LINE__ + 1;
    tide_array *sum = tide_add(a, a);
    tidei_keep(sum);
    return sum;
}

/* ---- the list ---- */

static void named(const char *list, const char *function, int line, const char *mark) {
#if defined(TIDEI_HAVE_LIBDW)
    char wanted[200];
    snprintf(wanted, sizeof wanted, "tests/observe/test_debug.c:%d%s)", line, mark);
    const char *at = strstr(list, function);
    if (!at || strncmp(at - 6, "      ", 6) != 0) fail_msg("no %s in %s", function, list);
    const char *end = strchr(at, '\n'), *place = strstr(at, wanted);
    if (!place || place > end) fail_msg("no %s in %s", wanted, list);
#else
    (void)list, (void)function, (void)line, (void)mark;
#endif
}

static void e06_names_the_place(void **state) {
    tide_runtime *rt = open_debug(2, 0);
    (void)state;
    assert_string_equal(held(rt), "held: 0 arrays, 0 bytes\n");
    tide_array *a = outer_maker(rt, 1000);
    const char *list = held(rt);
    assert_int_equal(strncmp(list, "held: 1 array, 11.719 KiB\n  11.719 KiB at 0x", 43), 0);
    assert_non_null(strstr(list, ", device, f32 (1000, 3), 0."));
    named(list, "inlined_maker (", line_of_inlined, ", inlined");
    named(list, "outer_maker (", line_of_call, "");
    if (strstr(list, ".c:")) { /* what the library does inside is not of interest */
        const char *first = strstr(list, "old\n");
        assert_int_equal(strncmp(first, "old\n      tide_zeros (", 22), 0);
        assert_null(strstr(list, "tidei_"));
    }
    tide_array *b = adder(a); /* may leave no frame of tide_add */
    list = held(rt);
    named(list, "adder (", line_of_add, "");
    if (strstr(list, ".c:")) assert_null(strstr(list, "tidei_"));
    tide_release(a);
    tide_release(b);
    assert_string_equal(held(rt), "held: 0 arrays, 0 bytes\n");
    tide_close(rt);
    assert_int_equal(logged.n, 0);
}

static void nothing_without_a_level(void **state) {
    (void)state;
    for (int level = 0; level < 2; level++) {
        tide_runtime *rt = open_debug(level, 0);
        tide_array *a = bytes(rt, 100);
        assert_string_equal(held(rt), "");
        assert_array(a);
        tide_close(rt);
        assert_int_equal(logged.n, 0);
    }
}

static double age_in(const char *list) {
    const char *at = strstr(list, " s old");
    assert_non_null(at);
    while (isdigit((unsigned char)at[-1]) || at[-1] == '.') at--;
    return strtod(at, NULL);
}

static void the_age_of_an_array_rises(void **state) {
    tide_runtime *rt = open_debug(2, 0);
    (void)state;
    assert_array(bytes(rt, 100));
    double first = age_in(held(rt)), second = age_in(held(rt));
    assert_true(first >= 0 && second > first);
    tide_close(rt);
}

/* Sizes are those of the memory; of arrays that share it one stands first, and carries the
** backtrace. */
static void views_are_listed_with_what_they_share(void **state) {
    tide_runtime *rt = open_debug(2, 0);
    (void)state;
    tide_array *a = outer_maker(rt, 40), *row = tide_slice(a, "1"),
               *flat = tide_reshape(a, SHAPE(120)), *other = outer_maker(rt, 10);
    const char *list = held(rt);
    assert_int_equal(strncmp(list, "held: 4 arrays, 600 bytes\n", 26), 0);
    assert_int_equal(count_of(list, "480 bytes at 0x"), 3);
    assert_int_equal(count_of(list, ", a view, "), 2);
    assert_int_equal(count_of(list, ", the same memory\n"), 2);
    assert_true(strstr(list, "f32 (3), a view") < strstr(list, "120 bytes at 0x"));
    tide_release(a);
    tide_release(flat);
    tide_release(other);
    list = held(rt);
    assert_int_equal(strncmp(list, "held: 1 array, 480 bytes\n  480 bytes at 0x", 42), 0);
    assert_non_null(strstr(list, "f32 (3), a view"));
    named(list, "outer_maker (", line_of_call, "");
    tide_free(row); /* the memory goes, though the array is held */
    assert_int_equal(arrays_held(rt), 0);
    tide_array *none = tide_zeros(rt, TIDE_F32, SHAPE(0, 5)); /* holds no memory */
    assert_int_equal(arrays_held(rt), 0);
    tide_release(none);
    tide_release(row);
    tide_close(rt);
}

static void the_largest_stand_first(void **state) {
    enum { N = 100 };
    tide_runtime *rt = open_debug(2, 0);
    char shorter[200];
    unsigned long last = SIZE_MAX;
    (void)state;
    for (int i = 0; i < N; i++) assert_array(bytes(rt, (size_t)(i * 37 % N) + 1));
    const char *list = held(rt);
    assert_int_equal(strncmp(list, "held: 100 arrays, 4.932 KiB\n", 28), 0);
    unsigned listed = count_of(list, " bytes at 0x");
    assert_true(listed >= 10 && listed < N);
    for (const char *at = list; (at = strstr(at, "\n  ")); at++) {
        unsigned long n;
        if (sscanf(at, "\n  %lu bytes at", &n) != 1) continue;
        assert_true(n == last - 1 || (last == SIZE_MAX && n == N));
        last = n;
    }
    snprintf(shorter, sizeof shorter, "\n  and %u more, none larger\n", N - listed);
    assert_non_null(strstr(list, shorter));
    /* a short buffer gets the beginning, and the length of the whole */
    size_t whole = strlen(text);
    snprintf(shorter, sizeof shorter, "%.199s", text);
    memset(text, 'x', 300);
    /* ages have as many digits as they have */
    assert_true(tide_runtime_text(rt, text, 100) + 64 > whole);
    assert_int_equal(strlen(text), 99);
    /* up to the device's figures, which others change */
    assert_int_equal(strncmp(text, shorter, strcspn(shorter, "0123456789")), 0);
    assert_true(strcspn(shorter, "0123456789") >= 20);
    tide_close(rt);
}

/* Host memory that refuses what is as large as the tracker's larger table, where that is wanted. */
static bool refuse_large;
static unsigned refused;
static void *alloc_small(void *user, size_t bytes) {
    (void)user;
    if (refuse_large && bytes >= 128 << 10) return refused++, NULL;
    return malloc(bytes);
}

/* The arrays that there are of `want`; a pool may want large tables too, and go without some. */
static unsigned make_many(tide_runtime *rt, tide_array **a, unsigned want) {
    unsigned n = 0;
    for (unsigned i = 0; i < want; i++)
        if ((a[n] = bytes(rt, 1 + i % 7))) n++;
    return n;
}

/* A listing's work is in proportion to the arrays, however many; with the first table alone it
** would look at 25 origins for each of 200,000 arrays. Where a larger table is refused, the list is
** the same. */
static void a_listings_work_grows_with_the_arrays(void **state) {
    enum { MANY = 200000, FEW = 20000 };
    const tide_allocator host = {alloc_small, plain_free, NULL};
    tide_array **a = malloc(MANY * sizeof(tide_array *));
    (void)state;
    assert_non_null(a);
    for (int refusing = 0; refusing < 2; refusing++) {
        tide_runtime *rt =
            test_open(&(tide_config){.collector = "refcount", .debug = 2, .allocator = &host});
        refused = 0;
        refuse_large = refusing;
        unsigned n = make_many(rt, a, refusing || test_quick() ? FEW : MANY);
        refuse_large = false;
        assert_true(n > FEW / 2);
        assert_int_equal(arrays_held(rt), n);
        uint64_t looks = tidei_tracker_looks(test_rt(rt)->tracker);
        assert_true(looks >= n);
        if (refusing)
            assert_true(refused > 0);
        else
            assert_true(looks < 3 * (uint64_t)n);
        for (unsigned i = 0; i < n; i++)
            if (i % 1000) tide_release(a[i]);
        assert_int_equal(arrays_held(rt), (n + 999) / 1000);
        for (unsigned i = 0; i < n; i += 1000) tide_release(a[i]);
        tide_close(rt);
    }
    free(a);
}

/* ---- many backtraces ---- */

typedef tide_array *maker(tide_runtime *rt, unsigned code, int depth);
static unsigned long passed[4];
static maker digit0, digit1, digit2, digit3;
static maker *const digits[] = {digit0, digit1, digit2, digit3};

/* Each a place of its own: eight calls deep there are 65536 ways. */
#define DIGIT(k)                                                                                   \
    __attribute__((noinline)) static tide_array *digit##k(tide_runtime *rt, unsigned code,         \
                                                          int depth) {                             \
        tide_array *a = depth ? digits[code % 4](rt, code / 4, depth - 1) : bytes(rt, 10);         \
        passed[k]++;                                                                               \
        tidei_keep(a);                                                                             \
        return a;                                                                                  \
    }
DIGIT(0)
DIGIT(1)
DIGIT(2)
DIGIT(3)

/* More different places than are kept: those whose arrays ended make room for others; where none
** did, there is no place. */
static void ended_arrays_make_room_for_backtraces(void **state) {
    enum { MANY = 17000 };
    tide_array **a = malloc(MANY * sizeof(tide_array *));
    tide_runtime *rt = open_debug(2, 0);
    (void)state;
    assert_non_null(a);
    tide_array *first = outer_maker(rt, 100);
    for (unsigned i = 0; i < MANY; i++) tide_release(digits[0](rt, i, 8));
    tide_array *late = digits[0](rt, MANY, 8);
    const char *list = held(rt);
    assert_int_equal(count_of(list, "(where is not known)"), 0);
    named(list, "outer_maker (", line_of_call, "");
    tide_release(late);
    for (unsigned i = 0; i < MANY; i++) assert_array(a[i] = digits[0](rt, i, 8));
    tide_array *none = adder(first);
    list = held(rt);
    assert_int_equal(strncmp(list, "held: 17002 arrays, ", 20), 0);
    assert_true(count_of(list, "(where is not known)") > 0);
    for (unsigned i = 0; i < MANY; i++) tide_release(a[i]);
    tide_release(none);
    none = adder(first);
    list = held(rt);
    assert_int_equal(strncmp(list, "held: 2 arrays, ", 16), 0);
    assert_int_equal(count_of(list, "(where is not known)"), 0);
    named(list, "adder (", line_of_add, "");
    tide_release(none);
    tide_release(first);
    tide_close(rt);
    free(a);
}

/* ---- sampling ---- */

static void *allocate_unseen(void *rt) {
    for (int i = 0; i < 9; i++) assert_array(bytes(rt, 10));
    return NULL;
}

static void e06_one_of_n(void **state) {
    tide_runtime *rt = open_debug(0, 10);
    pthread_t thread;
    (void)state;
    for (unsigned i = 1; i <= 1000; i++) {
        assert_array(bytes(rt, 10));
        if (i % 100 == 0 || i < 25) assert_int_equal(arrays_held(rt), i / 10);
    }
    assert_non_null(strstr(held(rt), "held: 100 arrays, 1000 bytes, of one in 10 allocations\n"));
    /* each thread counts its own */
    assert_int_equal(pthread_create(&thread, NULL, allocate_unseen, rt), 0);
    pthread_join(thread, NULL);
    assert_int_equal(arrays_held(rt), 100);
    tide_close(rt);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "held: 100 arrays"), 1);
}

static void sampled_by_environment(void **state) {
    (void)state;
    setenv("TIDE_DEBUG", "sample:2", 1);
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_array *first = bytes(rt, 10), *second = outer_maker(rt, 10);
    assert_int_equal(arrays_held(rt), 1);
    named(held(rt), "outer_maker (", line_of_call, "");
    tide_release(first);
    assert_int_equal(arrays_held(rt), 1);
    tide_release(second);
    assert_int_equal(arrays_held(rt), 0);
    tide_close(rt);
}

/* ---- closing ---- */

static void closing_reports_what_is_held(void **state) {
    (void)state;
    tide_runtime *rt = open_debug(2, 0);
    tide_array *a = outer_maker(rt, 1000), *b = bytes(rt, 10);
    tide_release(b);
    assert_array(a);
    tide_close(rt);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "tide_close: held: 1 array, 11.719 KiB"), 1);
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "f32 (1000, 3)"), 1);
#if defined(TIDEI_HAVE_LIBDW)
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "outer_maker ("), 1);
#endif
}

/* What a program that says nothing to tide_open writes to stderr, with one array held. */
static const char *said_to_stderr(void) {
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .collector = "refcount"};
    tide_runtime *rt = NULL;
    FILE *file = tmpfile();
    int err = dup(2);
    assert_true(file && err >= 0);
    fflush(stderr);
    dup2(fileno(file), 2);
    tide_status status = tide_open(&c, &rt);
    tide_array *a = status == TIDE_OK ? outer_maker(rt, 1000) : NULL;
    tide_close(rt);
    fflush(stderr);
    dup2(err, 2);
    close(err);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_int_equal(status, TIDE_OK);
    assert_array(a);
    return text;
}

static void environment_alone_reports(void **state) {
    (void)state;
    assert_string_equal(said_to_stderr(), "");
    setenv("TIDE_DEBUG", "2", 1);
    assert_non_null(
        strstr(said_to_stderr(), "tidepool warning: tide_close: held: 1 array, 11.719 KiB\n"));
    setenv("TIDE_LOG", "silent", 1);
    assert_string_equal(said_to_stderr(), "");
    unsetenv("TIDE_LOG");
    setenv("TIDE_DEBUG", "sample:1", 1);
    assert_non_null(
        strstr(said_to_stderr(), "tidepool warning: tide_close: held: 1 array, 11.719 KiB\n"));
}

__attribute__((noinline)) static void make_garbage(tide_runtime *rt) {
    for (int i = 0; i < 200; i++) assert_array(bytes(rt, 50));
}

/* What a collector would have found is not held; what is retained is. */
static void close_collects_first(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = test_open(&(tide_config){.collector = "boehm",
                                                .debug = 2,
                                                .gc_early = TIDE_OFF,
                                                .log = keep_line,
                                                .log_level = TIDE_LOG_WARNING});
    make_garbage(rt);
    assert_array(tide_retain(outer_maker(rt, 1000)));
    assert_int_equal(arrays_held(rt), 201);
    tide_close(rt);
    unsigned n = 0;
    for (unsigned i = 0; i < logged.n; i++)
        (void)sscanf(logged.line[i], "tide_close: held: %u array", &n);
    assert_true(n >= 1 && n < 40); /* a stale word may keep some */
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "f32 (1000, 3)"), 1);
}

/* ---- without memory ---- */

/* Each allocation of host memory gets its turn to fail. Where only the backtrace had no room, the
** array is there and listed. */
static void host_memory_ends(void **state) {
    const tide_allocator host = {failing_alloc, plain_free, NULL};
    unsigned unknown = 0;
    bool failed = true;
    (void)state;
    for (long turn = 1; failed; turn++) {
        tide_config c = {.struct_size = sizeof c,
                         .device = test_device(),
                         .collector = "refcount",
                         .allocator = &host,
                         .debug = 2};
        tide_runtime *rt = NULL;
        tide_array *a[3] = {NULL};
        host_calls = 0;
        host_fails = turn;
        tide_status status = tide_open(&c, &rt);
        if (status == TIDE_OK)
            for (int i = 0; i < 3; i++) a[i] = i == 1 ? bytes(rt, 100) : outer_maker(rt, 10);
        failed = host_calls >= turn;
        host_fails = 0;
        assert_true(turn < 1000 && (status == TIDE_OK || status == TIDE_E_HOST_NOMEM));
        unsigned made = !!a[0] + !!a[1] + !!a[2];
        if (status == TIDE_OK) {
            assert_int_equal(arrays_held(rt), made);
            unknown += count_of(held(rt), "(where is not known)");
            for (int i = 0; i < 3; i++) tide_release(a[i]);
            assert_int_equal(arrays_held(rt), 0);
        }
        tide_error_clear();
        tide_close(rt);
    }
    assert_true(unknown > 0);
}

/* ---- threads ---- */

enum { THREADS = 4, KEPT = 8, BURST = 500 };
struct worker {
    pthread_t thread;
    tide_runtime *rt;
    sem_t *go, *under_way;
    unsigned bursts;
};

static void wait_for(sem_t *s) {
    while (sem_wait(s)) /* a signal came */
        ;
}

/* Bursts of work. A listing begins in the middle of each; they end before it, for the names of its
** places take many times as long. */
static void *make_and_drop(void *p) {
    struct worker *w = p;
    tide_array *mine[KEPT] = {NULL};
    for (unsigned i = 0; i < w->bursts * BURST; i++) {
        if (i % BURST == 0) wait_for(w->go);
        if (i % BURST == KEPT) sem_post(w->under_way);
        tide_release(mine[i % KEPT]);
        mine[i % KEPT] =
            i % 3 ? bytes(w->rt, 100 + i % 1000) : tide_slice(mine[(i + 1) % KEPT], "::2");
        if (!mine[i % KEPT]) mine[i % KEPT] = bytes(w->rt, 30); /* nothing to make a view of */
        assert_array(mine[i % KEPT]);
    }
    for (unsigned i = 0; i < KEPT; i++) tide_release(mine[i]);
    tide_thread_detach(w->rt);
    return NULL;
}

/* The workers are in the middle of their next burst, or were. */
static void begin_burst(sem_t *go, sem_t *under_way) {
    for (unsigned i = 0; i < THREADS; i++) sem_post(go);
    for (unsigned i = 0; i < THREADS; i++) wait_for(under_way);
}

/* of the main thread, larger than what the workers have, so that they are listed first */
enum { STAYING = 5 };

/* Those that stay, and no more others than there can be; a cell that dies while it is looked at may
** be left out. */
static void lists_those_that_stay(tide_runtime *rt) {
    char shape[64];
    unsigned n = arrays_held(rt);
    const char *list = strstr(text, "held: ");
    assert_true(n >= STAYING && n <= STAYING + THREADS * (KEPT + 1));
    for (int i = 0; i < STAYING; i++) {
        snprintf(shape, sizeof shape, ", device, f32 (%d, 3), ", 1000 + i);
        assert_int_equal(count_of(list, shape), 1);
    }
    assert_true(count_of(list, " old\n") >= STAYING);
    /* the larger first */
    assert_true(strstr(list, "f32 (1004, 3)") < strstr(list, "f32 (1000, 3)"));
}

static void list_while_others_allocate(void **state) {
    unsigned bursts = test_quick() ? 10 : 50;
    sem_t go, under_way;
    (void)state;
    sem_init(&go, 0, 0);
    sem_init(&under_way, 0, 0);
    for (int sample = 0; sample < 8; sample += 7) {
        tide_runtime *rt = open_debug(sample ? 0 : 2, sample);
        struct worker w[THREADS];
        tide_array *stay[STAYING];
        for (int i = 0; i < STAYING; i++) assert_array(stay[i] = outer_maker(rt, 1000 + i));
        for (unsigned i = 0; i < THREADS; i++) {
            w[i] = (struct worker){.rt = rt, .go = &go, .under_way = &under_way, .bursts = bursts};
            assert_int_equal(pthread_create(&w[i].thread, NULL, make_and_drop, &w[i]), 0);
        }
        for (unsigned i = 0; i < bursts; i++) {
            begin_burst(&go, &under_way);
            if (sample)
                assert_true(arrays_held(rt) <= THREADS * (KEPT + 1));
            else
                lists_those_that_stay(rt);
        }
        for (unsigned i = 0; i < THREADS; i++) pthread_join(w[i].thread, NULL);
        assert_int_equal(arrays_held(rt), sample ? 0 : STAYING);
        for (int i = 0; i < STAYING; i++) tide_release(stay[i]);
        assert_int_equal(arrays_held(rt), 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_close(rt);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_environment, restore_environment)
    const struct CMUnitTest tests[] = {
        CASE(e06_names_the_place),
        CASE(nothing_without_a_level),
        CASE(the_age_of_an_array_rises),
        CASE(views_are_listed_with_what_they_share),
        CASE(the_largest_stand_first),
        CASE(e06_one_of_n),
        CASE(sampled_by_environment),
        CASE(closing_reports_what_is_held),
        CASE(environment_alone_reports),
        CASE(close_collects_first),
        CASE(host_memory_ends),
        CASE(list_while_others_allocate),
        CASE(ended_arrays_make_room_for_backtraces),
        /* the last: lists walk over its cells from then on */
        CASE(a_listings_work_grows_with_the_arrays),
    };
    return cmocka_run_group_tests_name("debug", tests, NULL, NULL);
}
