/* test_never_by_hand.c: experiment E8: no array operation wants memory freed by hand before it.
**
** For every public function that may allocate (operations.h): what it needs is measured without a
** limit. Then, with the limit at what lives and that need, garbage of random sizes fills all there
** is, and the function succeeds; one page less, and it fails with the report, and nothing has
** changed. Over all pools, and collectors that find garbage by tracing and by counting. The
** functions are those of api_table.h, which is made from the headers: one that is new has no row,
** and the first case says so. */
#include "gc/collector.h"
#include "tests/across/operations.h"
#include "api_table.h"

/* Works on arrays, and may make room in device memory. Where the contract does not say whether it
** may, what makes or writes arrays counts. */
static bool may_want_memory(const struct api_function *f) {
    if (f->collects == API_UNSAID) return f->makes_array || f->writes_array;
    return f->collects == API_MAY && (f->makes_array || f->takes_array);
}

static void e08_every_function_has_a_row(void **state) {
    unsigned found = 0;
    (void)state;
    for (size_t i = 0; i < API_FUNCTIONS; i++) {
        const struct api_function *f = &api_functions[i];
        if (!may_want_memory(f) || is_without(f->name)) continue;
        found++;
        if (!has_row(f->name))
            fail_msg("%s of %s has no row in operations.h: what it needs under a limit is not "
                     "tested",
                     f->name, f->header);
    }
    assert_true(found > 110);
}

/* ---- a runtime with inputs ---- */

static struct device {
    tidei_dev *d;
    size_t page, live; /* live: the inputs, and what a collector keeps for the time being */
} m;

static size_t live(void) { return atomic_load(&m.d->budget->live); }

static void device_open(const char *pool, const char *collector) {
    tide_runtime *rt = test_open(&(tide_config){.pool = pool,
                                                .collector = collector,
                                                .policy = "never",
                                                .gc_early = TIDE_OFF,
                                                .spill = TIDE_OFF});
    m.d = &test_rt(rt)->devs[0];
    m.page = m.d->d->info.page_bytes;
    world_open(rt, collector, (int64_t)(m.page * 7 / 3 / ROWS / 4 + 1));
    tidei_clear_stack();
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL));
    m.live = live();
}
static void device_close(void) {
    world_close();
    assert_true(tidei_runtime_valid(test_rt(w.rt)));
    tide_close(w.rt);
}

/* ---- what it needs ---- */

#define GRANULE ((size_t)256) /* of the pool tide */
struct need {
    size_t before, library; /* backed for the inputs; what its library holds afterwards */
    size_t least;           /* in whole pages: what lives at once, and library state */
    /* the same with as much as blocks may be rounded up by, which depends on where they lie */
    size_t rounded;
    size_t backed; /* what was backed for it, and library state */
    size_t wasted; /* by a pool that may hand out blocks that much larger */
};

/* Between measurements: the test's own affair. False: a word that looks like a pointer keeps
** something that a scanning collector ought to find, or does no longer. */
static bool settle(void) {
    assert_ok(tide_device_set_limit(w.rt, SIZE_MAX));
    assert_ok(tide_fill(w.dst, tide_arg_float(0)));
    for (int i = 0; i < 20; i++) {
        tidei_clear_stack();
        assert_ok(tide_reclaim(w.rt, TIDE_RECLAIM_DROP, NULL));
        if (live() == m.live) break;
    }
    assert_ok(tide_device_synchronize(w.rt));
    tide_error_clear();
    w.rng = (tide_rng){7, 0};
    bool clean = live() == m.live;
    assert_true(clean || !w.counted);
    m.live = live(); /* from now on it is as if it were an input */
    return clean;
}

static bool measure(const struct row *r, struct need *n) {
    if (!settle()) return false;
    tide_runtime_reset_peaks(w.rt);
    uint64_t blocks = test_stats(w.rt).allocations;
    n->before = tidei_round_up(atomic_load(&m.d->budget->backed), m.page);
    if (call(r) != TIDE_OK) fail_msg("%s: %s", r->name, tide_error_last()->message);
    n->library = atomic_load(&m.d->budget->library);
    n->least = tidei_round_up(atomic_load(&m.d->budget->peak_live) + n->library, m.page);
    blocks = test_stats(w.rt).allocations - blocks;
    n->rounded = tidei_round_up(
        atomic_load(&m.d->budget->peak_live) + n->library + blocks * GRANULE, m.page);
    n->backed = tidei_round_up(atomic_load(&m.d->budget->peak_backed) + n->library, m.page);
    /* CUDA.jl's pool for demonstrations hands out what is hardly larger than the request. */
    n->wasted = strcmp(m.d->pool->ops->name, "simple") ? 0 : blocks * TIDEI_MIB;
    drop_outs();
    return settle();
}

/* ---- garbage ---- */

static unsigned seed;
static unsigned draw(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }

/* Arrays of random sizes until not even the smallest fits, and then all are garbage at once. Kept
** by their counts and out of a scanning collector's sight: the attempts that fail collect, and a
** pointer left anywhere would keep one for good. */
enum { GARBAGE = 4096 };
static uintptr_t hidden[GARBAGE];
static __attribute__((noinline)) bool waste(unsigned n, int64_t bytes) {
    tide_array *a = tide_empty(w.rt, TIDE_U8, 1, &bytes);
    if (!a) return false;
    if (!w.counted) tide_retain(a);
    hidden[n] = ~(uintptr_t)a;
    return true;
}
static __attribute__((noinline)) unsigned fill_with_garbage(void) {
    unsigned n = 0;
    for (size_t most = 2 * m.page; most >= 256 && n < GARBAGE;)
        if (waste(n, (int64_t)(1 + draw() % most)))
            n++;
        else
            most /= 2;
    return n;
}
static __attribute__((noinline)) void let_garbage_go(unsigned n) {
    while (n--) tide_release((tide_array *)~hidden[n]);
    memset(hidden, 0, sizeof hidden);
}
/* What lives is brought together but for a part of a page: a limit this near it may be refused. */
static bool is_near_live(size_t limit) { return limit < m.live + m.page / 2; }

/* False: what a scanning collector keeps lies such that the limit cannot be set, or the limit is as
** near as that to what lives. */
static bool be_short(size_t limit) {
    bool set = tide_device_set_limit(w.rt, limit) == TIDE_OK;
    if (!set && w.counted && !is_near_live(limit))
        fail_msg("a limit of %zu bytes, %zu live: %s", limit, live(), tide_error_last()->message);
    if (set) let_garbage_go(fill_with_garbage());
    tidei_clear_stack();
    tide_error_clear();
    return set;
}

/* ---- the promise ---- */

/* Of the attempts that a word kept garbage in, which a scanning collector could not know: they say
** nothing. */
static unsigned tried, spoiled;

static void succeeds(const struct row *r, const struct need *n, const char *what) {
    char why[TIDEI_MESSAGE_MAX];
    bool set = be_short(n->backed), done = set && call(r) == TIDE_OK;
    snprintf(why, sizeof why, "%s", tide_error_last()->message);
    bool kept = !done && !w.counted && live() != m.live;
    drop_outs();
    tried++;
    if (!settle() || kept || !set)
        spoiled++;
    else if (!done)
        fail_msg("%s, %s: with a limit of %zu bytes: %s", what, r->name, n->backed, why);
}

static void assert_floats(tide_array *a, int which) {
    assert_ok(tide_to_host(a, w.host, (size_t)elements() * 4));
    for (int64_t k = 0; k < elements(); k++)
        if (w.host[k] != (which < 0 ? 0 : value(k, which))) fail_msg("input %d was changed", which);
}

/* One page less. A pool that takes memory in pieces of many pages may do with less than it took,
** and a library with a smaller workspace. */
static void fails(const struct row *r, const struct need *n, const char *what) {
    /* where kernels take less scratch memory as there is less of it, a page less may do */
    bool exact = n->least == n->backed && !n->library && test_on_host();
    if (!be_short(n->backed - m.page)) {
        spoiled++;
        return;
    }
    tide_status status = call(r);
    if (status != TIDE_OK) {
        if (status != TIDE_E_NOMEM || !strstr(tide_error_last()->message, "out of memory on"))
            fail_msg("%s, %s: %s", what, r->name, tide_error_last()->message);
        for (int i = 0; i < OUTS; i++) assert_null(w.out[i]);
        assert_floats(w.dst, -1);
        assert_floats(w.f[0], 0);
    }
    drop_outs();
    if (!settle())
        spoiled++;
    else if (status == TIDE_OK && exact)
        fail_msg("%s, %s: with a limit of %zu bytes it succeeds", what, r->name,
                 n->backed - m.page);
}

/* Does the pool need no more than what lives at once? Those that imitate others take large pieces,
** or sizes of their own, as CUDA's own pools do. */
static bool is_exact(const char *what) {
    return !strncmp(what, "tide", 4) || !strncmp(what, "none", 4) ||
           (!strncmp(what, "driver", 6) && test_on_host());
}

/* Pages that a library's handle may need beside what lives and what it takes. The pool tide brings
** its free bytes together and gives back what is whole among them: part of a page is lost where
** they begin, and part of another behind the handle, whose bytes need be no whole number of pages.
** What other pools hold beside blocks stays there, a part of a page for each of the few. */
static size_t library_pages(const char *what) { return strncmp(what, "tide", 4) ? 8 : 2; }

static struct need needs(const struct row *r, const char *what) {
    struct need n;
    for (int i = 0; !measure(r, &n); i++)
        if (i == 10) fail_msg("%s, %s: what lives changes: %zu bytes", what, r->name, live());
    /* Where there is no limit a pool need not be as tight as it can be. */
    if (n.library)
        n.backed += library_pages(what) * m.page;
    else if (w.counted && is_exact(what))
        n.backed = n.rounded;
    if (is_near_live(n.backed)) n.backed += m.page;
    n.backed += n.wasted;
    return n;
}

static void keep_promise(const struct row *r, const char *what, int repeats) {
    /* kernels, libraries */
    if (call(r) != TIDE_OK) fail_msg("%s: %s", r->name, tide_error_last()->message);
    drop_outs();
    struct need n = needs(r, what);
    for (int k = 0; k < repeats; k++) {
        unsigned before = spoiled;
        seed = (unsigned)((r - rows) * 1000 + k);
        succeeds(r, &n, what);
        if (spoiled == before && n.backed > n.before && !n.wasted) fails(r, &n, what);
        if (spoiled != before) n = needs(r, what);
    }
}

/* Where threads alone are looked at: every third row, from one that `first` chooses. */
static void promise(const char *pool, const char *collector, int repeats, unsigned first) {
    char what[40];
    snprintf(what, sizeof what, "%s, %s", pool, collector);
    device_open(pool, collector);
    tried = spoiled = 0;
    for (size_t i = 0; i < TIDEI_COUNT(rows); i++)
        if (!TEST_THREADS_ONLY || (i + first) % 3 == 0) keep_promise(&rows[i], what, repeats);
    print_message("%s: %u calls with nothing to spare, %u of them spoiled\n", what, tried, spoiled);
    assert_true(spoiled * 4 <= tried);
    device_close();
}

/* Ten times each over the pool that counts most, the others less often. On a GPU, where each try
** takes milliseconds, twice, and what has a second collector over the first two pools alone. */
static void promise_all(const char *collector) {
    int often = test_long() ? 10 : test_quick() ? 1 : test_on_host() ? 10 : 2;
    bool few = !test_on_host() && !test_long() && strcmp(collector, "refcount") != 0;
    for (unsigned k = 0; k < (few ? 2 : TEST_POOLS); k++)
        promise(test_pool(k), collector, k == 0 || test_long() ? often : 1, k);
}
static void e08_under_refcount_nothing_is_freed_by_hand(void **state) {
    (void)state;
    promise_all("refcount");
}
static void e08_under_boehm_nothing_is_freed_by_hand(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    promise_all("boehm");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e08_every_function_has_a_row),
        cmocka_unit_test(e08_under_refcount_nothing_is_freed_by_hand),
        cmocka_unit_test(e08_under_boehm_nothing_is_freed_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
