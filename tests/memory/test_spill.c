/* test_spill.c: arrays that leave the device for pinned memory and come back: programs that hold
** more than the limit, who goes and who stays, what is said of it, and what happens where host
** memory is short too. */
#include <math.h>
#include <sched.h>
#include <unistd.h>
#include "tests/support/random_programs.h"

#define MIB TIDEI_MIB

/* An array is of 12 MiB, for which the pools take 12 or (binned) 16: so a limit is told in units of
** these. Beside them a little for what is small. */
enum { UNIT = 16, ELEMENTS = 3 << 20, MANY = 8 };
static const size_t bytes_each = ELEMENTS * sizeof(int32_t);

static tide_runtime *open_in(const char *pool, size_t units, tide_config c) {
    char limit[32];
    snprintf(limit, sizeof limit, "%zu", units * UNIT * MIB + 4 * MIB);
    c.pool = pool;
    c.limit = limit;
    if (!c.collector) c.collector = "refcount";
    if (!c.policy) c.policy = "never";
    if (!c.spill) c.spill = TIDE_ON;
    return test_open(&c);
}
static tide_runtime *open_limited(size_t units) { return open_in("tide", units, (tide_config){0}); }
static void close_checked(tide_runtime *rt) {
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

static int32_t *host; /* an array's elements */
/* of the elements that are looked at: all of them would take a sanitizer minutes */
enum { STRIDE = 61 };
static int32_t pattern(int mark, int64_t i) { return (int32_t)((uint32_t)i * 2654435761u) + mark; }

static tide_array *make(tide_runtime *rt, int mark) {
    for (int64_t i = 0; i < ELEMENTS; i += STRIDE) host[i] = pattern(mark, i);
    return tide_from_host(rt, TIDE_I32, SHAPE(ELEMENTS), host);
}
static tide_array *filled(tide_runtime *rt, int mark) {
    tide_array *a = make(rt, mark);
    assert_array(a);
    return a;
}
static void check(tide_array *a, int mark) {
    memset(host, 0, bytes_each);
    assert_ok(tide_to_host(a, host, bytes_each));
    for (int64_t i = 0; i < ELEMENTS; i += STRIDE)
        if (host[i] != pattern(mark, i))
            fail_msg("element %d is %d, wanted %d", (int)i, host[i], pattern(mark, i));
}
static size_t spilled(tide_runtime *rt) { return test_stats(rt).spilled; }
static void spill_all(tide_runtime *rt) { assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SPILL, NULL)); }
static tide_device_figures info_of(tide_runtime *rt) {
    tide_device_figures m = {.struct_size = sizeof m};
    assert_ok(tide_device_info(rt, &m));
    return m;
}

/* ---- more than the limit ---- */

static tide_status add_one(tide_array *a) { return tide_map_into(a, "(x) -> x + 1", a); }

/* What an operation works on: all of an array, or under sanitizers a view of what `check` looks at.
** The whole comes back for either. To be released. */
static tide_array *some_of(tide_array *a) {
    return test_quick() ? tide_slice(a, "::61") : tide_retain(a);
}
static tide_status add_one_to_some_of(tide_array *a) {
    tide_array *v = some_of(a);
    tide_status s = v ? add_one(v) : tide_error_last()->status;
    tide_release(v);
    return s;
}

/* All pools; under sanitizers, which look at each of the megabytes, every second one from `first`
** on. */
#define EACH_POOL(p, first)                                                                        \
    for (unsigned p = test_quick() ? (first) : 0; p < TEST_POOLS; p += test_quick() ? 2 : 1)

/* Twice what fits, over and over. */
static void twice_the_limit(void **state) {
    int rounds = test_quick() ? 1 : 2;
    (void)state;
    EACH_POOL(p, 0) {
        tide_runtime *rt = open_in(test_pool(p), MANY / 2, (tide_config){0});
        tide_array *a[MANY];
        for (int i = 0; i < MANY; i++) a[i] = filled(rt, i);
        for (int round = 0; round < rounds; round++)
            for (int i = 0; i < MANY; i++) assert_ok(add_one_to_some_of(a[i]));
        tide_runtime_figures s = test_stats(rt);
        assert_true(s.spills > s.returns && s.returns >= MANY);
        assert_int_equal(s.spilled, (s.spills - s.returns) * bytes_each);
        assert_int_equal(s.live + s.spilled, MANY * bytes_each);
        assert_true(s.peak_backed <= s.limit);
        assert_int_equal(s.arrays, MANY);
        for (int i = 0; i < MANY; i++) check(a[i], i + rounds);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        for (int i = 0; i < MANY; i += 2) tide_free(a[i]);
        assert_true(spilled(rt) > 0); /* closed with the others, some of which are spilled */
        close_checked(rt);
    }
}

/* Unless it is asked for: by the setting, or by hand. */
static void off_it_is_out_of_memory(void **state) {
    (void)state;
    tide_runtime *rt = open_in("tide", MANY / 2, (tide_config){.spill = TIDE_OFF});
    tide_array *a[MANY] = {0};
    int n = 0;
    while (n < MANY && (a[n] = make(rt, n))) n++;
    assert_in_range(n, MANY / 2, MANY - 1);
    assert_error(TIDE_E_NOMEM, "ask neighbours 0 bytes, spill 0 bytes");
    tide_error_clear();
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.spills + s.returns + s.spilled, 0);
    spill_all(rt);
    assert_int_equal(test_stats(rt).spills, n);
    for (int i = 0; i < n; i++) check(a[i], i);
    close_checked(rt);
}

/* What a collection gives, or the trim of another pool, does before anything is spilled. */
static void it_comes_last(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(2); /* for three */
    tide_pool *other;
    tide_array *a[2];
    for (int i = 0; i < 2; i++) a[i] = filled(rt, i);
    assert_ok(tide_pool_new(
        rt, &(tide_pool_config){.struct_size = sizeof(tide_pool_config), .kind = "split"}, &other));
    assert_ok(tide_pool_set(rt, other));
    tide_free(filled(rt, 9)); /* cached there, where the next one does not come from */
    assert_ok(tide_pool_set(rt, NULL));
    tide_array *b = filled(rt, 2);
    tide_runtime_figures s = test_stats(rt);
    assert_true(s.climbs > 0);
    assert_int_equal(s.spills, 0);
    tide_array *c = filled(rt, 3);
    assert_int_equal(test_stats(rt).spills, 1); /* and no more than is wanted */
    check(c, 3);
    check(b, 2);
    for (int i = 0; i < 2; i++) check(a[i], i);
    tide_pool_release(other);
    close_checked(rt);
}

static tide_status never_fits(void *arg, unsigned flags) {
    (void)flags;
    ++*(unsigned *)arg;
    return tidei_fail(TIDE_E_NOMEM, "test", "it never fits");
}
/* How often climbs that never succeed try, beside MANY idle arrays. *climbs: how many there were;
** what is spilled takes pinned blocks, so that another thread may seem to be at work. */
static unsigned tries_in_vain(int spill, unsigned *climbs) {
    tide_runtime *rt = open_in("tide", MANY, (tide_config){.spill = spill});
    unsigned tries = 0;
    for (int i = 0; i < MANY; i++) assert_array(filled(rt, i));
    assert_int_equal(tidei_with_reclaim(&test_rt(rt)->devs[0], MIB, "test", never_fits, &tries),
                     TIDE_E_NOMEM);
    tide_error_clear();
    assert_int_equal(test_stats(rt).spills, spill == TIDE_ON ? MANY : 0);
    *climbs = (unsigned)test_stats(rt).climbs;
    close_checked(rt);
    return tries - 1; /* the first is before any climb */
}
/* One array, one more, two more, four more: not a wait for the device for each of them. */
static void a_climb_spills_as_much_again_each_time(void **state) {
    (void)state;
    unsigned climbs, once;
    unsigned rungs = tries_in_vain(TIDE_OFF, &once), tries = tries_in_vain(TIDE_ON, &climbs);
    assert_int_equal(once, 1);
    assert_int_equal(tries - climbs * rungs, 4);
}

static bool is_spilled(tide_array *a) { return tidei_storage_spilled(tidei_cell_header(a)->st); }

/* The longest not used goes; little ones stay while larger ones do not. */
static void the_coldest_goes(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(3); /* for four and a little */
    tide_array *little = tide_full(rt, TIDE_I32, SHAPE(100), tide_arg_int(5)), *a[6];
    assert_array(little);
    for (int i = 0; i < 4; i++) a[i] = filled(rt, i);
    assert_int_equal(test_stats(rt).spills, 0);
    assert_ok(add_one(a[0]));
    a[4] = filled(rt, 4);
    assert_int_equal(test_stats(rt).spills, 1);
    assert_true(is_spilled(a[1]) && !is_spilled(little));
    check(a[2], 2); /* reading is a use */
    a[5] = filled(rt, 5);
    assert_int_equal(test_stats(rt).spills, 2);
    assert_true(is_spilled(a[3]));
    for (int i = 0; i < 6; i++) check(a[i], i ? i : 1);
    assert_false(is_spilled(little));
    close_checked(rt);
}

/* A large one that is next in turn does for smaller ones before it. */
static void no_more_than_wanted(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(3);
    tide_array *small[4], *large[4];
    for (int i = 0; i < 4; i++)
        assert_array(small[i] = tide_full(rt, TIDE_I32, SHAPE(MIB / 16), tide_arg_int(i)));
    for (int i = 0; i < 4; i++) large[i] = filled(rt, i);
    assert_array(filled(rt, 4));
    for (int i = 0; i < 4; i++) assert_false(is_spilled(small[i]));
    assert_true(is_spilled(large[0]));
    assert_int_equal(spilled(rt), bytes_each);
    close_checked(rt);
}

/* All operands of one operation, where no more than these and the result fit. */
static void operands_come_back_together(void **state) {
    (void)state;
    EACH_POOL(p, 1) {
        tide_runtime *rt = open_in(test_pool(p), 4, (tide_config){0});
        tide_array *a[6];
        for (int i = 0; i < 6; i++) a[i] = filled(rt, i);
        for (int round = 0; round < 2; round++) {
            spill_all(rt);
            assert_int_equal(spilled(rt), 6 * bytes_each);
            assert_int_equal(test_stats(rt).live, 0);
            tide_array *sum = tide_map(rt, "(a, b, c) -> a - b + c", a[3 * round], a[3 * round + 1],
                                       a[3 * round + 2]);
            assert_array(sum);
            check(sum, 3 * round + 1);
            tide_free(sum);
        }
        for (int i = 0; i < 6; i++) check(a[i], i);
        close_checked(rt);
    }
}

/* ---- by hand ---- */

static void arrays_are_spilled_by_hand(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(4);
    size_t freed;
    char text[1000];
    tide_array *a = filled(rt, 1), *view = tide_slice(a, "::-1"), *b = filled(rt, 2);
    assert_ok(tide_reclaim(rt, TIDE_RECLAIM_SPILL, &freed));
    assert_true(freed >= 2 * bytes_each);
    tide_device_figures m = info_of(rt);
    assert_int_equal(m.spilled, 2 * bytes_each);
    assert_int_equal(m.pinned.live, 2 * bytes_each);
    assert_int_equal(m.device.live, 0);
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "spilled to pinned memory: 24.000 MiB"));
    spill_all(rt); /* nothing is left */
    assert_int_equal(test_stats(rt).spills, 2);
    tide_free(b); /* as it lies there */
    m = info_of(rt);
    assert_int_equal(m.spilled, bytes_each);
    assert_int_equal(m.pinned.live, bytes_each);
    assert_int_equal(test_stats(rt).returns, 0);
    assert_ok(add_one(view));
    check(a, 2);
    assert_int_equal(spilled(rt), 0);
    assert_int_equal(info_of(rt).pinned.live, 0);
    tide_runtime_text(rt, text, sizeof text);
    assert_null(strstr(text, "spilled"));
    spill_all(rt);
    assert_int_equal(tide_reclaim(rt, TIDE_RECLAIM_SPILL + 1, NULL), TIDE_E_INVALID);
    close_checked(rt);
}

static void what_cannot_leave_stays(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(8);
    tide_array *lent = filled(rt, 1), *plain = filled(rt, 2);
    tide_array *pinned = tide_to_memory(plain, TIDE_MEMORY_PINNED),
               *fresh = tide_empty(rt, TIDE_I32, SHAPE(100));
    tide_array *unified = tide_to_memory(plain, TIDE_MEMORY_UNIFIED);
    tide_error_clear(); /* there may be none */
    tide_use use = {.array = lent, .mode = TIDE_READ};
    tide_use_scope *scope;
    void *before, *after;
    assert_array(pinned);
    assert_array(fresh);
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &before, &scope));
    spill_all(rt);
    assert_int_equal(spilled(rt), bytes_each); /* the plain one alone */
    assert_ok(tide_use_end(scope));
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &after, &scope));
    assert_ptr_equal(before, after);
    assert_ok(tide_use_end(scope));
    use.array = plain; /* a scope brings back */
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &after, &scope));
    assert_non_null(after);
    assert_int_equal(spilled(rt), 0);
    spill_all(rt);
    assert_int_equal(spilled(rt), bytes_each); /* the other one by now */
    assert_ok(tide_use_end(scope));
    check(pinned, 2);
    if (unified) check(unified, 2);
    check(plain, 2);
    check(lent, 1);
    assert_int_equal(test_stats(rt).spills, 2);
    close_checked(rt);
}

static void an_own_pool_is_kept(void **state) {
    (void)state;
    for (unsigned p = 0; p < TEST_POOLS; p++) {
        tide_runtime *rt = open_limited(4);
        tide_pool *x;
        tide_pool_config k = {.struct_size = sizeof k, .kind = test_pool(p)};
        assert_ok(tide_pool_new(rt, &k, &x));
        assert_ok(tide_pool_set(rt, x));
        tide_array *a = filled(rt, 1), *b = filled(rt, 2);
        tidei_pool *of = tidei_cell_header(a)->st->pool;
        assert_ok(tide_pool_set(rt, NULL));
        tide_pool_release(x);
        spill_all(rt);
        assert_int_equal(spilled(rt), 2 * bytes_each);
        assert_ok(tide_synchronize(rt, NULL));
        check(a, 1);
        assert_ptr_equal(tidei_cell_header(a)->st->pool, of);
        tide_free(b);
        tide_free(a); /* and the pool goes with it */
        assert_int_equal(test_stats(rt).live, 0);
        close_checked(rt);
    }
}

static void a_lower_limit(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(4);
    tide_array *a[4];
    for (int i = 0; i < 4; i++) a[i] = filled(rt, i);
    assert_ok(tide_device_set_limit(rt, 2 * UNIT * MIB));
    assert_true(test_stats(rt).backed <= 2 * UNIT * MIB);
    assert_int_equal(test_stats(rt).spills, 2);
    for (int i = 0; i < 4; i++) check(a[i], i);
    close_checked(rt);
}

/* ---- the host is short ---- */

static void no_room_on_the_host(void **state) {
    (void)state;
    tide_runtime *rt = open_in("tide", 3, (tide_config){.pinned_limit = "30MiB"});
    tide_array *a[MANY] = {0};
    int n = 0;
    while (n < MANY && (a[n] = make(rt, n))) n++;
    assert_in_range(n, 4, MANY - 1);
    assert_error(TIDE_E_NOMEM, "spilled to pinned memory");
    assert_error(TIDE_E_NOMEM, "tide_from_host");
    tide_error_clear();
    assert_int_equal(spilled(rt), 2 * bytes_each); /* each has one place, of which all take turns */
    assert_true(info_of(rt).pinned_used <= info_of(rt).pinned_limit);
    for (int i = 0; i < n; i++) {
        tide_status status = tide_to_host(a[i], host, bytes_each);
        assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    }
    tide_error_clear();
    tide_free(a[n - 1]);
    for (int i = 0; i < n - 1; i++) check(a[i], i);
    close_checked(rt);
}

/* What cannot come back stays, whole, and the error names who wanted it. */
static void no_room_to_come_back(void **state) {
    (void)state;
    tide_runtime *rt = open_limited(2);
    assert_ok(tide_device_set_limit(rt, 28 * MIB)); /* for two */
    tide_array *a = filled(rt, 1), *b = filled(rt, 2), *c = filled(rt, 3);
    tide_use uses[2] = {{.array = b, .mode = TIDE_READ}, {.array = c, .mode = TIDE_READ}};
    tide_use_scope *scope;
    void *ptrs[2];
    assert_ok(tide_use_begin(rt, NULL, uses, 2, ptrs, &scope));
    assert_int_equal(tide_to_host(a, host, bytes_each), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "wanted by tide_to_host");
    assert_error(TIDE_E_NOMEM, "spilled to pinned memory 12.000 MiB");
    assert_error(TIDE_E_NOMEM,
                 "largest holders: 12.000 MiB i32 (3145728), 12.000 MiB i32 (3145728)\n");
    assert_string_equal(tide_error_last()->operation, "tide_to_host");
    tide_error_clear();
    assert_int_equal(spilled(rt), bytes_each);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    assert_ok(tide_use_end(scope));
    check(a, 1);
    check(b, 2);
    check(c, 3);
    close_checked(rt);
}

/* ---- what tells of memory ---- */

static void the_listing_says_so(void **state) {
    (void)state;
    char text[8000];
    tide_runtime *rt = open_in("tide", 2, (tide_config){.debug = 2, .log_level = TIDE_LOG_SILENT});
    tide_array *a = filled(rt, 1);
    spill_all(rt);
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "12.000 MiB spilled, device, i32 (3145728)"));
    check(a, 1);
    tide_runtime_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "12.000 MiB at 0x"));
    tide_free(a);
    close_checked(rt);
}

/* A recording has an alloc and a free for each stay on the device. */
static void a_recording_has_each_stay(void **state) {
    (void)state;
    char path[] = "/tmp/tidespillXXXXXX.csv", line[200];
    int fd = mkstemps(path, 4), allocs = 0, frees = 0;
    assert_true(fd >= 0);
    close(fd);
    tide_runtime *rt = open_in("tide", 2, (tide_config){.trace = path});
    tide_array *a = filled(rt, 1);
    for (int i = 0; i < 3; i++) {
        spill_all(rt);
        check(a, 1);
    }
    spill_all(rt);
    tide_free(a);
    close_checked(rt);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strstr(line, ",12582912")) continue;
        allocs += *line == 'a';
        frees += *line == 'f';
    }
    fclose(f);
    remove(path);
    assert_int_equal(allocs, 4);
    assert_int_equal(frees, 4);
}

/* ---- threads ---- */

static struct {
    tide_runtime *rt;
    tide_array *shared, *cold[4];
    _Atomic int wrong, rounds;
} crew;

enum { SMALL_PART = 1000 };

/* Says what a thread met: a number that is off, or an error (NAN). */
static void went_wrong(const char *who, int round, double got) {
    fprintf(stderr, "%s, round %d: got %g; the thread's last error: %s\n", who, round, got,
            tide_error_last()->message);
    atomic_store(&crew.wrong, 1);
}

static void *read_shared(void *own) {
    tide_array *mine = some_of(own), *shared = some_of(crew.shared);
    for (int i = 0; i < atomic_load(&crew.rounds); i++) {
        tide_array *d = tide_map(crew.rt, "(a, b) -> max(abs(a - b))", shared, mine);
        double off = d ? tide_item_f64(d) : NAN;
        if (off != 0) went_wrong("reader", i, off);
        tide_free(d);
        tide_release(d);
    }
    tide_release(mine);
    tide_release(shared);
    return NULL;
}
static void *climb(void *unused) {
    for (int i = 0; i < atomic_load(&crew.rounds); i++) {
        if (add_one_to_some_of(crew.cold[i % 4]) != TIDE_OK) went_wrong("climber", i, NAN);
        if (i % 8 == 0 && tide_reclaim(crew.rt, TIDE_RECLAIM_SPILL, NULL) != TIDE_OK)
            went_wrong("climber's spilling", i, NAN);
    }
    return unused;
}

/* Two use the same array, and one each of their own, while a third sends away what it can. */
static void threads_use_what_others_spill(void **state) {
    (void)state;
    EACH_POOL(p, 0) {
        pthread_t t[3];
        crew.rt = open_in(test_pool(p), 5, (tide_config){0});
        atomic_store(&crew.wrong, 0);
        atomic_store(&crew.rounds, test_quick() ? 8 : 24);
        crew.shared = filled(crew.rt, 7);
        tide_array *mine[2] = {filled(crew.rt, 7), filled(crew.rt, 7)};
        for (int i = 0; i < 4; i++) crew.cold[i] = filled(crew.rt, i);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&t[i], NULL, read_shared, mine[i]), 0);
        assert_int_equal(pthread_create(&t[2], NULL, climb, NULL), 0);
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        assert_int_equal(atomic_load(&crew.wrong), 0);
        for (int i = 0; i < 4; i++) check(crew.cold[i], i + atomic_load(&crew.rounds) / 4);
        check(crew.shared, 7);
        close_checked(crew.rt);
    }
}

/* Arrays die, and views come and go, while others look for what may be spilled. */
static void *make_and_drop(void *arg) {
    for (int i = 0; i < atomic_load(&crew.rounds) * 40; i++) {
        tide_array *a = tide_full(crew.rt, TIDE_I32, SHAPE(SMALL_PART), tide_arg_int(i));
        tide_array *v = a ? tide_slice(a, "10:20") : NULL;
        tide_array *m = v ? tide_map(crew.rt, "(x) -> max(x)", v) : NULL;
        double got = m ? tide_item_f64(m) : NAN;
        if (got != i) went_wrong("maker", i, got);
        tide_array *all[] = {a, m, v};
        for (int k = 0; k < 3; k++) tide_release(all[k]);
    }
    return arg;
}
static void *spill_on_and_on(void *done) {
    for (int i = 0; !atomic_load((atomic_int *)done); i++) {
        if (tide_reclaim(crew.rt, TIDE_RECLAIM_SPILL, NULL) != TIDE_OK)
            went_wrong("spilling", i, NAN);
        sched_yield();
    }
    return NULL;
}
static void arrays_may_die_while_they_are_spilled(void **state) {
    (void)state;
    pthread_t t[3];
    atomic_int done = 0;
    crew.rt = open_limited(2);
    atomic_store(&crew.wrong, 0);
    atomic_store(&crew.rounds, test_quick() ? 2 : 10);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, make_and_drop, NULL), 0);
    assert_int_equal(pthread_create(&t[2], NULL, spill_on_and_on, &done), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    atomic_store(&done, 1);
    pthread_join(t[2], NULL);
    assert_int_equal(atomic_load(&crew.wrong), 0);
    tide_runtime_figures s = test_stats(crew.rt);
    assert_int_equal(s.live + s.spilled + s.arrays, 0);
    close_checked(crew.rt);
}

/* ---- random programs ---- */

enum { STREAMS = 3 };
static tide_stream *streams[STREAMS];

static bool step_compute(unsigned d, unsigned f, unsigned g) {
    tide_array *a = tide_map(world.rt, "(a, b) -> a - 2*b", world.x[f], world.x[g]);
    if (a) be_computed(d, f, g, a);
    return a != NULL;
}
/* Reads through a lent address's scope, and meanwhile others may go. */
static bool step_scope(unsigned d) {
    tide_use use = {.array = world.x[d], .mode = TIDE_READ};
    tide_use_scope *scope;
    void *p;
    if (tide_use_begin(world.rt, NULL, &use, 1, &p, &scope) != TIDE_OK) return false;
    bool ok = dice(2) || tide_reclaim(world.rt, TIDE_RECLAIM_SPILL, NULL) == TIDE_OK;
    return tide_use_end(scope) == TIDE_OK && ok;
}
static bool step(void) {
    unsigned d = dice(ARRAYS), f = dice(ARRAYS), g = dice(ARRAYS), s = dice(STREAMS + 1);
    if (tide_stream_set(world.rt, s < STREAMS ? streams[s] : NULL) != TIDE_OK) return false;
    switch (dice(13)) {
    case 0: return step_read(d);
    case 1:
    case 2: return step_fill(d);
    case 3:
    case 4:
    case 5: return step_assign(d, f);
    case 6:
    case 7: return tide_reclaim(world.rt, TIDE_RECLAIM_SPILL, NULL) == TIDE_OK;
    case 8: return step_scope(d);
    case 9: return tide_array_set_ordered(world.x[d], true) == TIDE_OK;
    default: return step_compute(d, f, g);
    }
}
static void random_programs(void **state) {
    const char *collector = *state;
    for (uint64_t seed = 1; seed <= (test_quick() ? 6 : 24); seed++) {
        tide_runtime *rt = test_open(&(tide_config){.collector = collector,
                                                    .debug = 1,
                                                    .pool = test_pool((unsigned)seed % TEST_POOLS),
                                                    .spill = TIDE_ON});
        begin_program(rt, seed, step, 300, !strcmp(collector, "refcount"));
        for (int i = 0; i < STREAMS; i++) assert_ok(tide_stream_new(rt, &streams[i]));
        for (int i = 0; i < ARRAYS; i++) {
            assert_array(world.x[i] = tide_retain(tide_zeros(rt, TIDE_I32, SHAPE(LENGTH))));
            tide_release(world.x[i]);
        }
        run_program(seed);
        tide_runtime_figures s = test_stats(rt);
        assert_int_equal(s.spilled, 0);
        assert_true(s.spills > 0 && s.returns > 0);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
        close_checked(rt);
    }
}

/* ---- two devices ---- */

static void another_devices_work(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    tide_runtime *rt = open_in("tide", 3, (tide_config){.host_devices = 2, .debug = 1});
    tide_array *a = filled(rt, 1), *b = filled(rt, 2);
    spill_all(rt);
    assert_ok(tide_device_set(rt, 1));
    tide_array *sum = tide_map(rt, "(a, b) -> 2*a - b", a, b);
    assert_array(sum);
    assert_int_equal(spilled(rt), 0);
    spill_all(rt);
    assert_int_equal(spilled(rt), 3 * bytes_each);
    assert_ok(tide_device_set(rt, 0));
    check(sum, 0);
    check(a, 1);
    check(b, 2);
    assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    close_checked(rt);
}

static int open_host(void **state) { return (void)state, !(host = calloc(1, bytes_each)); }
static int close_host(void **state) { return (void)state, free(host), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_limit),
        cmocka_unit_test(off_it_is_out_of_memory),
        cmocka_unit_test(it_comes_last),
        cmocka_unit_test(a_climb_spills_as_much_again_each_time),
        cmocka_unit_test(the_coldest_goes),
        cmocka_unit_test(no_more_than_wanted),
        cmocka_unit_test(operands_come_back_together),
        cmocka_unit_test(arrays_are_spilled_by_hand),
        cmocka_unit_test(what_cannot_leave_stays),
        cmocka_unit_test(an_own_pool_is_kept),
        cmocka_unit_test(a_lower_limit),
        cmocka_unit_test(no_room_on_the_host),
        cmocka_unit_test(no_room_to_come_back),
        cmocka_unit_test(the_listing_says_so),
        cmocka_unit_test(a_recording_has_each_stay),
        cmocka_unit_test(threads_use_what_others_spill),
        cmocka_unit_test(arrays_may_die_while_they_are_spilled),
        {"random_programs_refcount", random_programs, NULL, NULL, (void *)(uintptr_t) "refcount"},
#if TEST_BOEHM
        {"random_programs_boehm", random_programs, NULL, NULL, (void *)(uintptr_t) "boehm"},
#endif
        cmocka_unit_test(another_devices_work),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
