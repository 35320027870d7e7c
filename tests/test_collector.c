/* Collectors: one battery over refcount, boehm and the mock tracer (tidy and unruly); then scopes, owners, foreign
** collectors' table, rounds of several threads, deaths that come late, and the early trigger. */
#include "gc/boehm.h"
#include "gc/collector.h"
#include "gc/gc.h"
#include "gc/policy.h"
#include "mock_tracer.h"
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(TIDEI_STRESS)
#define MANY 1000 /* every allocation collects */
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MANY 100000
#else
#define MANY 1000000
#endif

/* Cases that count rounds have nothing to say where every allocation makes one. */
#ifdef TIDEI_STRESS
#define COUNTS_ROUNDS() skip()
#else
#define COUNTS_ROUNDS() ((void)0)
#endif

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_stack_use_after_return=0";
} /* fake stacks hide pointers */
#endif

/* ---- keepers: holding and dropping an array as each collector's host would ---- */

struct kind {
    const char *name, *collector;
    bool mock, runs;
    unsigned flags;
    unsigned spare; /* arrays that a stale word may keep */
};
static const struct kind kinds[] = {
    {"refcount", "refcount", false, true, 0, 0},
    {"boehm", "boehm", false, TEST_BOEHM, 0, 8},
    {"mock", "refcount", true, true, 0, 0},
    {"unruly mock", "refcount", true, true, MOCK_SHUFFLE | MOCK_DELAY | MOCK_REPEAT | MOCK_CROSS, 0},
};

#define KEEP_MAX 4096
static struct keeper { /* static: bdwgc scans it */
    const struct kind *kind;
    tide_runtime *rt;
    mock_tracer mock;
    tide_array *array[KEEP_MAX];
    size_t object[KEEP_MAX];
} keeper;

static tide_runtime *keeper_open(const struct kind *kind, tide_config c) {
    c.collector = kind->collector;
    memset(&keeper, 0, sizeof keeper);
    keeper.kind = kind;
    keeper.rt = test_open(&c);
    if (kind->mock) mock_open(&keeper.mock, keeper.rt, "mock", TIDE_COLLECTOR_MINOR, kind->flags);
    return keeper.rt;
}

static void hold(unsigned i, tide_array *a) {
    assert_array(a);
    if (keeper.kind->mock) keeper.object[i] = mock_hold(&keeper.mock, a);
    keeper.array[i] = a;
}

static void drop(unsigned i) {
    if (keeper.kind->mock)
        mock_drop(&keeper.mock, keeper.object[i]);
    else if (!keeper.kind->spare)
        tide_release(keeper.array[i]);
    keeper.array[i] = NULL;
}

static __attribute__((noinline)) void clear_stack(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

static void collect_all(void) {
    clear_stack();
    assert_ok(tide_collect(keeper.rt));
    if (keeper.kind->flags & MOCK_DELAY) assert_ok(tide_collect(keeper.rt));
}

static void keeper_close(void) {
    tide_close(keeper.rt);
    if (keeper.kind->mock) mock_end(&keeper.mock);
    memset(&keeper, 0, sizeof keeper);
}

static tide_array *make(tide_runtime *rt, int64_t bytes) { return tide_empty(rt, TIDE_U8, 1, &bytes); }

#define EACH_KIND(k)                                                                                               \
    for (const struct kind *k = kinds; k < kinds + TIDEI_COUNT(kinds); k++)                                        \
        if (k->runs)

static void assert_arrays(tide_runtime *rt, unsigned wanted, size_t bytes_each) {
    tide_statistics s = test_stats(rt);
    if (s.arrays < wanted || s.arrays > wanted + keeper.kind->spare)
        fail_msg("%s: %u arrays, wanted %u", keeper.kind->name, (unsigned)s.arrays, wanted);
    assert_int_equal(s.live, s.arrays * bytes_each);
    assert_true(tidei_runtime_valid(rt));
}

/* ---- the battery ---- */

static __attribute__((noinline)) void fill(tide_runtime *rt, unsigned n, int64_t bytes) {
    for (unsigned i = 0; i < n; i++) hold(i, make(rt, bytes));
}

static void test_dropped_comes_back(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(rt, 900, 4096);
        collect_all();
        assert_arrays(rt, 900, 4096);
        for (unsigned i = 0; i < 900; i += 3) drop(i);
        collect_all();
        assert_arrays(rt, 600, 4096);
        for (unsigned i = 1; i < 900; i++)
            if (i % 3) assert_int_equal(tide_dim(keeper.array[i], 0), 4096);
        for (unsigned i = 0; i < 900; i++)
            if (i % 3) drop(i);
        collect_all();
        assert_arrays(rt, 0, 4096);
        keeper_close();
    }
}

static void test_retain_keeps(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        uintptr_t hidden[50];
        fill(rt, 100, 4096);
        for (unsigned i = 0; i < 50; i++) {
            assert_ptr_equal(tide_retain(keeper.array[i]), keeper.array[i]);
            assert_ptr_equal(tide_retain(keeper.array[i]), keeper.array[i]);
            hidden[i] = ~(uintptr_t)keeper.array[i];
        }
        if (k->mock) { /* an unruly one ends arrays whatever their count; a well-behaved one gives its reference back */
            if (k->flags) {
                keeper_close();
                continue;
            }
            keeper.mock.random = 0; /* reports by release alone */
        }
        for (unsigned i = 0; i < 100; i++) drop(i);
        collect_all();
        assert_arrays(rt, 50, 4096);
        for (unsigned i = 0; i < 50; i++) {
            assert_false(tide_is_freed((tide_array *)~hidden[i]));
            tide_release((tide_array *)~hidden[i]);
        }
        collect_all();
        assert_arrays(rt, 50, 4096);
        for (unsigned i = 0; i < 50; i++) tide_release((tide_array *)~hidden[i]);
        collect_all();
        assert_arrays(rt, 0, 4096);
        keeper_close();
    }
}

static void *retain_first(void *p) {
    tidei_thread *none = tidei_thread_records;
    tide_array *a = tide_retain(*(tide_array **)p);
    return none || !a || !tidei_thread_records ? (void *)1 : NULL;
}

/* Retaining may allocate in a collector's heap, which a thread unknown to it must not. */
static void test_retain_is_a_threads_first_call(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        pthread_t thread;
        void *failed;
        hold(0, make(rt, 64));
        assert_int_equal(pthread_create(&thread, NULL, retain_first, &keeper.array[0]), 0);
        pthread_join(thread, &failed);
        assert_null(failed);
        tide_release(keeper.array[0]);
        keeper_close();
    }
}

/* Views die and live apart from what they show. */
static void test_views_share(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        for (unsigned i = 0; i < 100; i++) {
            hold(i, make(rt, 4096));
            hold(100 + i, tide_slice(keeper.array[i], "10:20"));
        }
        for (unsigned i = 0; i < 100; i++) drop(i);
        collect_all();
        assert_int_equal(test_stats(rt).live, 100 * 4096);
        for (unsigned i = 0; i < 100; i++) assert_int_equal(tide_dim(keeper.array[100 + i], 0), 10);
        for (unsigned i = 0; i < 100; i++) drop(100 + i);
        collect_all();
        assert_arrays(rt, 0, 4096);
        keeper_close();
    }
}

/* A loop of temporaries that frees nothing stays under its limit. Under reference counting scopes end them. */
static void temporaries(const struct kind *k, const char *policy, unsigned n) {
    tide_runtime *rt = keeper_open(k, (tide_config){.limit = "1MiB", .policy = policy});
    for (unsigned i = 0; i < n; i++) {
        if (!k->mock && !k->spare && i % 1000 == 0) assert_ok(tide_scope_begin(rt));
        tide_array *a = make(rt, 256);
        assert_array(a);
        if (k->mock) mock_drop(&keeper.mock, mock_hold(&keeper.mock, a));
        if (!k->mock && !k->spare && i % 1000 == 999) assert_ok(tide_scope_end(rt));
    }
    tide_statistics s = test_stats(rt);
    assert_true(s.peak_backed <= s.limit); /* 1 MiB, rounded up to a page of the device */
    assert_int_equal(s.allocations, n);
#ifndef TIDEI_STRESS
    if (k->mock || k->spare) {
        bool lazy = !strcmp(policy, "never") && n * 256 > TIDEI_MIB;
        assert_int_equal(s.early_collections > 0, strcmp(policy, "never") != 0);
        if (lazy) assert_true(s.climbs > 0 && s.collections > 0);
    }
#endif
    keeper_close();
}

/* 10^6 of them under every collector and every policy; fewer where each is a call of a driver. */
static void test_million_temporaries(void **state) {
    static const char *const policies[] = {"never", "cudajl", "reserve"};
    char names[128];
    (void)state;
    assert_string_equal(tidei_policy_names(names, sizeof names), "reserve, cudajl, never"); /* these are all */
    EACH_KIND(k)
    for (unsigned p = 0; p < TIDEI_COUNT(policies); p++)
        temporaries(k, policies[p], test_on_host() ? MANY : MANY / 10);
}

struct deaths {
    unsigned n[2000];
    unsigned total;
};
static struct deaths deaths;
static void count_death(void *user) {
    deaths.n[(uintptr_t)user]++;
    deaths.total++;
}

static void test_callbacks(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        memset(&deaths, 0, sizeof deaths);
        fill(rt, 500, 64);
        for (uintptr_t i = 0; i < 500; i++) {
            assert_ok(tide_on_death(keeper.array[i], count_death, (void *)i));
            assert_ok(tide_on_death(keeper.array[i], count_death, (void *)(1000 + i)));
        }
        for (unsigned i = 0; i < 250; i++) drop(i);
        tide_free(keeper.array[499]);
        assert_int_equal(deaths.total, 0); /* reports alone run nothing */
        collect_all();
        test_stats(rt);
        assert_in_range(deaths.total, 2 * (251 - k->spare), 2 * 251);
        for (unsigned i = 0; i < 500; i++) {
            assert_int_equal(deaths.n[i], deaths.n[1000 + i]);
            assert_true(deaths.n[i] <= (i < 250 || i == 499));
        }
        keeper_close(); /* the others' run now */
        for (unsigned i = 0; i < 500; i++) assert_int_equal(deaths.n[i], 1);
        assert_int_equal(deaths.total, 1000);
    }
}

static char order[8];
static void note_a(void *user) { strcat(user, "a"); }
static void note_b(void *user) { strcat(user, "b"); }
static void note_c(void *user) { strcat(user, "c"); }

static void test_callback_order(void **state) {
    (void)state;
    keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    memset(order, 0, sizeof order);
    hold(0, make(keeper.rt, 8));
    assert_ok(tide_on_death(keeper.array[0], note_b, order));
    assert_ok(tide_on_death(keeper.array[0], note_a, order));
    assert_ok(tide_on_death(keeper.array[0], note_c, order));
    drop(0);
    assert_string_equal(order, "");
    test_stats(keeper.rt);
    assert_string_equal(order, "bac");
    keeper_close();
}

/* Threads free, drop and collect at once; each array ends exactly once. */
#define RACE 1500
static atomic_bool race_over;
static void *race_collect(void *rt) {
    while (!atomic_load(&race_over)) assert_ok(tide_collect(rt));
    return NULL;
}
static uintptr_t race_cells[RACE];
static void *race_free(void *rt) {
    assert_ok(tide_thread_attach(rt));
    for (unsigned i = 0; i < RACE; i++) tide_free((tide_array *)~race_cells[i]);
    return NULL;
}

static void test_free_races_collector(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        pthread_t collector, freer;
        memset(&deaths, 0, sizeof deaths);
        atomic_store(&race_over, false);
        fill(rt, RACE, 64);
        for (uintptr_t i = 0; i < RACE; i++) {
            assert_ok(tide_on_death(keeper.array[i], count_death, (void *)i));
            race_cells[i] = ~(uintptr_t)keeper.array[i];
        }
        assert_int_equal(pthread_create(&collector, NULL, race_collect, rt), 0);
        assert_int_equal(pthread_create(&freer, NULL, race_free, rt), 0);
        pthread_join(freer, NULL); /* frees while held: the cells are valid until they are dropped below */
        for (unsigned i = 0; i < RACE; i++) {
            assert_true(tide_is_freed(keeper.array[i]));
            drop(i);
        }
        atomic_store(&race_over, true);
        pthread_join(collector, NULL);
        collect_all();
        assert_arrays(rt, 0, 64);
        for (unsigned i = 0; i < RACE; i++) assert_int_equal(deaths.n[i], 1);
        keeper_close();
    }
}

/* Several threads make and drop while collections run. */
#define CHURN_THREADS 4
static void *churn(void *p) {
    const struct kind *k = p;
    tide_runtime *rt = keeper.rt;
    tide_array *volatile ring[16] = {0}; /* on the stack: bdwgc must see this thread */
    size_t object[16];
    if (k->mock) assert_ok(tide_collector_use(rt, keeper.mock.id));
    for (unsigned i = 0; i < (MANY > 3000 ? 3000 : MANY); i++) {
        unsigned at = i * 7 % 16;
        if (ring[at] && !k->mock) assert_int_equal(tide_dim(ring[at], 0), 64 + at);
        if (ring[at] && k->mock) mock_drop(&keeper.mock, object[at]);
        if (ring[at] && !k->mock && !k->spare) tide_release(ring[at]);
        tide_array *a = make(rt, 64 + at);
        if (!a) return strdup(tide_last_error()->message); /* the thread's own */
        if (k->mock) object[at] = mock_hold(&keeper.mock, a);
        ring[at] = a;
    }
    for (unsigned at = 0; at < 16; at++) {
        if (k->mock)
            mock_drop(&keeper.mock, object[at]);
        else if (!k->spare)
            tide_release(ring[at]);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.limit = "256KiB"});
        pthread_t threads[CHURN_THREADS];
        for (unsigned i = 0; i < CHURN_THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)k), 0);
        for (unsigned i = 0; i < CHURN_THREADS; i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            if (failed) fail_msg("%s: %s", k->name, (char *)failed);
        }
        collect_all();
        tide_statistics s = test_stats(rt);
        assert_true(s.arrays <= k->spare);
        assert_true(tidei_runtime_valid(rt));
        keeper_close();
    }
}

/* ---- deaths that come late ---- */

static void test_after_close(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(rt, 20, 64);
        tidei_handle *h = tidei_cell_handle(keeper.array[0]);
        uint64_t generation = tidei_handle_generation(h);
        tide_retain(keeper.array[1]);
        tide_close(rt);
        assert_true(tide_is_freed(keeper.array[0]));
        assert_null(tide_slice(keeper.array[0], "0:1"));
        assert_error(TIDE_E_FREED, "");
        tide_free(keeper.array[2]);
        tide_release(keeper.array[1]);
        tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
        tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
        if (k->mock)
            keeper.mock.objects[keeper.object[0]].array = NULL; /* reported above */
        else if (!k->spare)
            for (unsigned i = 1; i < 20; i++) tide_release(keeper.array[i]);
        if (k->mock) mock_end(&keeper.mock);
        memset(&keeper, 0, sizeof keeper);
        /* A new runtime takes over what the old one left: nothing of it counts as the new one's. */
        keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(keeper.rt, 10, 64);
        tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
        collect_all();
        assert_arrays(keeper.rt, 10, 64);
        keeper_close();
    }
}

static void test_late_report_finds_a_new_life(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *a = make(rt, 64);
    tidei_handle *h = tidei_cell_handle(a);
    uint64_t generation = tidei_handle_generation(h);
    tide_release(a);
    test_stats(rt);
    tide_array *b = make(rt, 64);
    assert_ptr_equal(tidei_cell_handle(b), h); /* the very handle */
    tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(test_stats(rt).arrays, 1);
    assert_false(tide_is_freed(b));
    tide_release(b);
    keeper_close();
}

static void test_forked_child(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(rt, 20, 64);
        tidei_handle *h = tidei_cell_handle(keeper.array[0]);
        tide_retain(keeper.array[1]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            tidei_report(h, tidei_handle_generation(h), TIDEI_DEAD);
            tide_free(keeper.array[2]);
            tide_release(keeper.array[1]);
            bool ok = !make(rt, 64) && tide_last_error()->status == TIDE_E_FORKED;
            ok = ok && tide_collect(rt) == TIDE_E_FORKED && tide_scope_begin(rt) == TIDE_E_FORKED;
            tide_safepoint(rt);
            _exit(ok ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        tide_release(keeper.array[1]);
        assert_arrays(rt, 20, 64); /* the child's deaths are its own */
        keeper_close();
    }
}

/* ---- scopes ---- */

static void test_scopes(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (k->spare || k->flags) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        assert_int_equal(tide_scope_end(rt), TIDE_E_INVALID);
        assert_ok(tide_scope_begin(rt));
        tide_array *outer = make(rt, 64);
        assert_ok(tide_scope_begin(rt));
        for (unsigned i = 0; i < 100; i++) assert_array(make(rt, 64));
        tide_array *kept = tide_scope_keep(make(rt, 64)), *retained = tide_retain(make(rt, 64));
        tide_array *early = make(rt, 64), *freed = make(rt, 64);
        tide_release(early); /* its user was faster than the scope */
        tide_free(freed);
        tide_array *stays = tide_scope_keep(tide_scope_keep(make(rt, 64)));
        assert_int_equal(test_stats(rt).arrays, 104);
        assert_array(make(rt, 64));
        assert_ok(tide_scope_end(rt));
        assert_int_equal(test_stats(rt).arrays, 4);
        assert_int_equal(tide_dim(kept, 0), 64);
        assert_ok(tide_scope_end(rt)); /* outer, kept */
        assert_int_equal(test_stats(rt).arrays, 2);
        assert_int_equal(tide_dim(retained, 0) + tide_dim(stays, 0), 128);
        assert_ptr_equal(tide_scope_keep(stays), stays); /* no scope holds it: nothing to do */
        (void)outer;
        tide_release(retained);
        tide_release(stays);
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_int_equal(tide_scope_end(rt), TIDE_E_INVALID);
        assert_null(tide_scope_keep(NULL));
        keeper_close();
    }
}

/* What was released inside its scope is dead, but its handle serves nobody else before the scope has let go of it: else the
** scope's end could take another thread's reference. */
static void test_scope_holds_what_was_released(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    assert_ok(tide_scope_begin(rt));
    tide_array *early = make(rt, 64);
    tidei_handle *h = tidei_cell_handle(early);
    tide_release(early);
    assert_int_equal(test_stats(rt).live, 0);
    tide_array *next = make(rt, 64);
    assert_ptr_not_equal(tidei_cell_handle(next), h);
    assert_true(tide_is_freed(early));
    assert_null(tide_scope_keep(early));
    assert_error(TIDE_E_FREED, "released before");
    for (unsigned i = 0; i < 1000; i++) tide_release(make(rt, 64)); /* room for them is not kept either */
    assert_in_range(atomic_load(&rt->deaths->handles), 1, 200);
    assert_array(tide_scope_keep(next));
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).arrays, 1);
    assert_int_equal(atomic_load(&rt->deaths->handles), 1);
    tide_release(next);
    keeper_close();
}

static void *scope_in_thread(void *rt) {
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_scope_begin(rt));
    for (unsigned i = 0; i < 10; i++) assert_array(make(rt, 64));
    return NULL; /* open scopes end with their thread */
}

static void test_scopes_end_with_thread_and_runtime(void **state) {
    pthread_t thread;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    assert_int_equal(pthread_create(&thread, NULL, scope_in_thread, rt), 0);
    pthread_join(thread, NULL);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_ok(tide_scope_begin(rt));
    assert_array(make(rt, 64));
    keeper_close(); /* leaves no scope behind: the leak checker watches */
}

static void test_scopes_leave_boehm_alone(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = keeper_open(&kinds[1], (tide_config){.gc_early = TIDE_OFF});
    assert_ok(tide_scope_begin(rt));
    hold(0, make(rt, 64));
    assert_ptr_equal(tide_scope_keep(keeper.array[0]), keeper.array[0]);
    assert_ok(tide_scope_end(rt));
    collect_all();
    assert_int_equal(tide_dim(keeper.array[0], 0), 64);
    keeper_close();
}

/* Host memory fails at the n-th record; nothing is lost whatever the n. */
static long allocs_left;
static void *scarce_alloc(void *user, size_t bytes) {
    (void)user;
    return allocs_left-- > 0 ? malloc(bytes) : NULL;
}
static void scarce_free(void *user, void *p) {
    (void)user;
    free(p);
}

static tide_status scope_of_arrays(tide_runtime *rt) {
    tide_status status = tide_scope_begin(rt);
    if (status != TIDE_OK) return status;
    for (unsigned i = 0; i < 40 && status == TIDE_OK; i++)
        if (!make(rt, 64)) status = tide_last_error()->status;
    assert_ok(tide_scope_end(rt));
    return status;
}

static void test_scarce_host_memory(void **state) {
    const tide_host_memory scarce = {scarce_alloc, scarce_free, NULL};
    (void)state;
    allocs_left = 1 << 30;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF, .host = &scarce});
    tide_status status = TIDE_E_HOST_NOMEM;
    for (long n = 0; status != TIDE_OK; n++) {
        allocs_left = n;
        status = scope_of_arrays(rt);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        allocs_left = 1 << 30;
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_true(tidei_runtime_valid(rt));
        assert_true(n < 1000);
    }
    keeper_close();
}

static void test_scarce_open(void **state) {
    const tide_host_memory scarce = {scarce_alloc, scarce_free, NULL};
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .host = &scarce, .collector = "refcount"};
    tide_runtime *rt;
    tide_status status = TIDE_E_HOST_NOMEM;
    (void)state;
    for (long n = 0; status != TIDE_OK; n++) {
        allocs_left = n;
        status = tide_open(&c, &rt);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        assert_true(n < 1000);
    }
    tide_close(rt);
}

/* ---- misuse of references ---- */

static void test_too_many_releases(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (k->flags) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        hold(0, make(rt, 64));
        if (k->spare) {
            tide_clear_error();
            tide_release(keeper.array[0]); /* it was never retained */
            assert_error(TIDE_E_INVALID, "was not retained");
            assert_int_equal(tide_dim(keeper.array[0], 0), 64);
        } else {
            tide_array *a = keeper.array[0];
            tide_free(a); /* keeps the cell a cell */
            tidei_handle *h = tidei_cell_handle(a);
            assert_int_equal(tidei_gc_release(h), TIDE_OK);
            assert_int_equal(tidei_gc_release(h), TIDE_E_INVALID);
            assert_int_equal(rt->gc_ops->retain(h), TIDE_E_INVALID);
            if (k->mock) keeper.mock.objects[keeper.object[0]].array = NULL;
        }
        keeper_close();
    }
}

/* ---- foreign collectors ---- */

static int never_collects(void *self, int level) { return (void)self, (void)level, TIDE_COLLECT_DONE; }

static void test_attach_arguments(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){0});
    tide_collector c = {.struct_size = sizeof c, .name = "c", .collect = never_collects};
    int ids[TIDE_COLLECTOR_TRACING + 8];
    assert_int_equal(tide_collector_attach(NULL, &c, NULL), TIDE_E_INVALID);
    assert_int_equal(tide_collector_attach(rt, NULL, NULL), TIDE_E_INVALID);
    c.caps = 64;
    assert_int_equal(tide_collector_attach(rt, &c, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "0x40");
    c.caps = 0;
    c.struct_size = 8;
    assert_int_equal(tide_collector_attach(rt, &c, NULL), TIDE_E_INVALID);
    c.struct_size = sizeof c + 8;
    assert_int_equal(tide_collector_attach(rt, &c, NULL), TIDE_E_INVALID);
    c.struct_size = sizeof c;
    c.collect = NULL;
    assert_int_equal(tide_collector_attach(rt, &c, NULL), TIDE_E_INVALID);
    c.collect = never_collects;
    c.struct_size = offsetof(tide_collector, may_collect); /* an older caller: the other slots are NULL */
    for (int i = 0; i < 8; i++) assert_ok(tide_collector_attach(rt, &c, &ids[i]));
    assert_int_equal(tide_collector_attach(rt, &c, NULL), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "8 collectors");
    assert_ok(tide_collector_detach(rt, ids[3]));
    assert_int_equal(tide_collector_detach(rt, ids[3]), TIDE_E_INVALID);
    assert_int_equal(tide_collector_use(rt, ids[3]), TIDE_E_INVALID);
    assert_ok(tide_collector_attach(rt, &c, &ids[8]));
    assert_true(ids[8] != ids[3]); /* ids are not used twice */
    assert_int_equal(tide_collector_detach(rt, 0), TIDE_E_INVALID);
    assert_int_equal(tide_collector_use(rt, -2), TIDE_E_INVALID);
    assert_ok(tide_collector_use(rt, -1));
    keeper_close();
}

static void test_owner_is_fixed_at_birth(void **state) {
    mock_tracer a, b;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *own = make(rt, 64);
    mock_open(&a, rt, "a", 0, 0);
    tide_array *of_a = make(rt, 64);
    mock_open(&b, rt, "b", 0, 0);
    tide_array *of_b = make(rt, 64);
    assert_ok(tide_collector_use(rt, a.id));
    tide_array *of_a2 = make(rt, 64);
    assert_ok(tide_collector_use(rt, -1));
    tide_array *own2 = make(rt, 64);
    assert_int_equal(tidei_cell_handle(own)->owner, 0);
    assert_int_equal(tidei_cell_handle(own2)->owner, 0);
    assert_int_equal(tidei_cell_handle(of_a)->owner, (uint32_t)a.id);
    assert_int_equal(tidei_cell_handle(of_a2)->owner, (uint32_t)a.id);
    assert_int_equal(tidei_cell_handle(of_b)->owner, (uint32_t)b.id);
    mock_drop(&a, mock_hold(&a, of_a));
    mock_drop(&a, mock_hold(&a, of_a2));
    mock_drop(&b, mock_hold(&b, of_b));
    assert_ok(tide_collect(rt)); /* asks both */
    assert_int_equal(atomic_load(&a.fulls), 1);
    assert_int_equal(atomic_load(&b.fulls), 1);
    assert_int_equal(test_stats(rt).arrays, 2);
    assert_ok(tide_collector_use(rt, b.id));
    assert_ok(tide_collector_detach(rt, b.id));
    assert_int_equal(atomic_load(&b.detached), 1);
    tide_array *orphan = make(rt, 64); /* the thread's collector is gone: the runtime's first */
    assert_int_equal(tidei_cell_handle(orphan)->owner, 0);
    tide_release(own);
    tide_release(own2);
    tide_release(orphan);
    assert_int_equal(test_stats(rt).arrays, 0);
    keeper_close();
    assert_int_equal(atomic_load(&a.detached), 1); /* by the close */
    mock_end(&a);
    mock_end(&b);
}

static void test_arrays_of_a_detached_collector(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    tide_array *a = make(rt, 64), *b = tide_retain(make(rt, 64));
    assert_ok(tide_collector_detach(rt, m.id));
    tide_release(a);
    tide_release(b);
    assert_int_equal(test_stats(rt).arrays, 1);
    tide_release(b);
    assert_int_equal(test_stats(rt).arrays, 0);
    mock_end(&m);
    keeper_close();
}

/* The graph, not the order of its parts, says what is dead. */
static void test_mock_graph(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, MOCK_SHUFFLE | MOCK_CROSS);
    size_t o[6];
    for (unsigned i = 0; i < 6; i++) o[i] = mock_hold(&m, make(rt, 64));
    mock_link(&m, o[0], o[1]);
    mock_link(&m, o[1], o[2]);
    mock_link(&m, o[3], o[4]); /* a cycle */
    mock_link(&m, o[4], o[3]);
    for (unsigned i = 1; i < 6; i++) mock_drop(&m, o[i]);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).arrays, 3);
    keeper_close();
    mock_end(&m);
}

static void test_busy_and_unsupported(void **state) {
    char names[64];
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", TIDE_COLLECTOR_MINOR, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    m.busy = true;
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.fulls), 0);
    assert_int_equal(test_stats(rt).collections, 0);
    rt->gc_ops->unreached(rt, names, sizeof names);
    assert_string_equal(names, "m (busy)");
    m.busy = false;
    m.deaf = true; /* no full collection: the minor one then */
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.minors), 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    rt->gc_ops->unreached(rt, names, sizeof names);
    assert_string_equal(names, "");
    bool ran;
    rt->gc_ops->collect(rt, TIDE_COLLECT_MINOR, "test", &ran);
    assert_true(ran);
    assert_int_equal(atomic_load(&m.minors), 2);
    keeper_close();
    mock_end(&m);
}

static void test_pressure(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *own = make(rt, 5000);
    mock_open(&m, rt, "m", 0, 0);
    size_t o = mock_hold(&m, make(rt, 1000));
    tide_array *view = tide_slice(m.objects[o].array, "1:2"); /* weighs nothing more */
    assert_int_equal(atomic_load(&m.pressure), 0);            /* small growth is told at safe points */
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.pressure), 1000);
    size_t big = mock_hold(&m, make(rt, 3 << 20));
    assert_int_equal(atomic_load(&m.pressure), 1000 + (3 << 20));
    tide_release(view);
    mock_drop(&m, o);
    mock_drop(&m, big);
    assert_ok(tide_collect(rt)); /* what comes back in its drain is told at its end */
    assert_int_equal(atomic_load(&m.pressure), 0);
    tide_release(own);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.pressure), 0);
    keeper_close();
    mock_end(&m);
}

static void detach_itself(mock_tracer *m) {
    assert_int_equal(tide_collector_detach(m->rt, m->id), TIDE_E_INVALID);
    assert_ok(tide_collect(m->rt)); /* inside a collection: does nothing */
    tidei_fail(TIDE_E_IO, "mock", "an error of the collector's own");
}

static void test_from_inside_a_collection(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    m.during = detach_itself;
    tide_clear_error();
    assert_ok(tide_collect(rt));
    assert_int_equal(atomic_load(&m.fulls), 1);
    assert_int_equal(tide_last_error()->status, TIDE_OK); /* the caller's record is as it was */
    keeper_close();
    mock_end(&m);
}

/* ---- rounds of several threads ---- */

static sem_t inside, go_on;
static void pause_inside(mock_tracer *m) {
    if (atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    sem_wait(&go_on);
}
static void *collect_in_thread(void *rt) {
    assert_ok(tide_collect(rt));
    return NULL;
}
static void *safepoint_in_thread(void *rt) {
    tide_safepoint(rt);
    return NULL;
}

static void test_single_flight(void **state) {
    pthread_t leader, follower, asker;
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "256KiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 200 << 10))); /* the policy would collect at once */
    m.during = pause_inside;
    assert_int_equal(pthread_create(&leader, NULL, collect_in_thread, rt), 0);
    sem_wait(&inside);
    assert_int_equal(pthread_create(&follower, NULL, collect_in_thread, rt), 0);
    while (!atomic_load(&m.blocked)) sched_yield(); /* the follower waits, in the blocking region */
    assert_int_equal(pthread_create(&asker, NULL, safepoint_in_thread, rt), 0);
    pthread_join(asker, NULL); /* asking returns at once */
    sem_post(&go_on);
    pthread_join(leader, NULL);
    pthread_join(follower, NULL);
    assert_int_equal(atomic_load(&m.fulls), 1); /* the follower took the leader's for its own */
    assert_int_equal(atomic_load(&m.most_running), 1);
    assert_int_equal(test_stats(rt).collections, 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_int_equal(atomic_load(&m.blocked), 0);
    keeper_close();
    mock_end(&m);
}

static void test_many_collect_at_once(void **state) {
    pthread_t threads[6];
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, MOCK_SHUFFLE);
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 10; i++) mock_drop(&m, mock_hold(&m, make(rt, 64)));
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, collect_in_thread, rt), 0);
        for (unsigned i = 0; i < 6; i++) pthread_join(threads[i], NULL);
        assert_int_equal(test_stats(rt).arrays, 0);
    }
    assert_int_equal(atomic_load(&m.most_running), 1);
    keeper_close();
    mock_end(&m);
}

/* A follower that wants a full collection and hears of a minor one's end only when the next round runs already: the level
** of that one is not the finished one's. */
static sem_t held, let_in;
static pthread_t late_thread;
static atomic_int waits, returned;
static void blocks_late(void *self, void (*fn)(void *), void *arg) { /* holds up the follower's first wait */
    (void)self;
    if (pthread_equal(late_thread, pthread_self()) && atomic_fetch_add(&waits, 1) == 0) {
        sem_post(&held);
        sem_wait(&let_in);
    }
    fn(arg);
}
static void *collect_late(void *rt) {
    late_thread = pthread_self();
    assert_ok(tide_collect(rt));
    atomic_store(&returned, 1);
    return NULL;
}
static void pause_each_time(mock_tracer *m) {
    (void)m;
    sem_post(&inside);
    sem_wait(&go_on);
}
static void *minor_then_full(void *rt) {
    tidei_collect(rt, TIDE_COLLECT_MINOR, "test", NULL);
    return collect_in_thread(rt);
}

static void test_follower_wants_more_than_a_minor_round(void **state) {
    pthread_t leader, follower;
    mock_tracer m;
    (void)state;
    sem_init(&inside, 0, 0), sem_init(&go_on, 0, 0), sem_init(&held, 0, 0), sem_init(&let_in, 0, 0);
    atomic_store(&waits, 0), atomic_store(&returned, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", TIDE_COLLECTOR_MINOR, 0);
    tide_collector late = {
        .struct_size = sizeof late, .name = "late", .collect = never_collects, .blocking = blocks_late};
    assert_ok(tide_collector_attach(rt, &late, NULL));
    m.during = pause_each_time;
    assert_int_equal(pthread_create(&leader, NULL, minor_then_full, rt), 0);
    sem_wait(&inside); /* the minor round runs */
    assert_int_equal(pthread_create(&follower, NULL, collect_late, rt), 0);
    sem_wait(&held); /* the follower is about to wait for it */
    sem_post(&go_on);
    sem_wait(&inside); /* the full round runs */
    sem_post(&let_in);
    while (!atomic_load(&returned) && atomic_load(&waits) < 2) sched_yield();
    assert_int_equal(atomic_load(&returned), 0); /* it waits for this one too */
    sem_post(&go_on);
    pthread_join(leader, NULL);
    pthread_join(follower, NULL);
    assert_int_equal(atomic_load(&m.fulls), 1);
    keeper_close();
    mock_end(&m);
}

/* A bound collector whose thread is elsewhere is asked, and answers at its thread's next safe point. */
static void *collect_and_look(void *p) {
    tide_runtime *rt = p;
    static char names[64];
    assert_ok(tide_collect(rt));
    rt->gc_ops->unreached(rt, names, sizeof names);
    return names;
}

static void test_bound_collector_answers_later(void **state) {
    pthread_t other;
    void *names;
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&m, rt, "lua", TIDE_COLLECTOR_BOUND, 0);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    pthread_join(other, &names);
    assert_string_equal(names, "lua (its thread is elsewhere)");
    assert_int_equal(atomic_load(&m.fulls), 0);
    tide_safepoint(rt);
    assert_int_equal(atomic_load(&m.fulls), 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    assert_int_equal(test_stats(rt).collections, 1);
    tide_safepoint(rt); /* once is enough */
    assert_int_equal(atomic_load(&m.fulls), 1);
    mock_drop(&m, mock_hold(&m, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    pthread_join(other, &names);
    tide_release(make(rt, 64)); /* an allocation is a safe point too, although the policy sleeps */
    assert_int_equal(atomic_load(&m.fulls), 2);
    assert_int_equal(atomic_load(&m.elsewhere), 0);
    keeper_close();
    mock_end(&m);
}

/* Its thread waits for another's round: it answers, and the leader waits for that. */
static mock_tracer leading;
static bool somebody_waits(tidei_gc *gc) {
    unsigned n = 0;
    pthread_mutex_lock(&gc->lock);
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++) n += gc->at[i].waits;
    pthread_mutex_unlock(&gc->lock);
    return n > 0;
}
static void wait_for_bound_follower(mock_tracer *m) {
    if (atomic_load(&m->minors) + atomic_load(&m->fulls) > 1) return;
    sem_post(&inside);
    while (!somebody_waits(tidei_gc_of(m->rt))) sched_yield();
}

static void answers_while_waiting(bool busy) {
    pthread_t other;
    void *names;
    mock_tracer bound;
    sem_init(&inside, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    mock_open(&leading, rt, "first", 0, 0); /* holds up the leader until the follower waits */
    mock_open(&bound, rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    leading.during = wait_for_bound_follower;
    mock_drop(&bound, mock_hold(&bound, make(rt, 64)));
    assert_int_equal(pthread_create(&other, NULL, collect_and_look, rt), 0);
    sem_wait(&inside);
    bound.busy = busy;
    assert_ok(tide_collect(rt)); /* follows */
    assert_int_equal(atomic_load(&bound.fulls), !busy);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    assert_int_equal(test_stats(rt).arrays, busy);
    pthread_join(other, &names);
    assert_string_equal(names, busy ? "bound (busy)" : "");
    keeper_close();
    mock_end(&leading);
    mock_end(&bound);
}

static void test_bound_collector_answers_while_waiting(void **state) {
    (void)state;
    answers_while_waiting(false);
    answers_while_waiting(true); /* which is an answer too */
}

/* Its thread waits for another's climb, with a request of its own: it answers too, and the climb succeeds. */
/* Percent of the limit, which is as much as a page on some devices. */
static size_t part_of_limit(tide_runtime *rt, unsigned percent) {
    return atomic_load(&rt->devs[0].limit) / 100 * percent;
}
static void *climb_in_thread(void *rt) {
    tide_array *a = make(rt, part_of_limit(rt, 60));
    if (!a) return (void *)1;
    tide_release(a);
    return NULL;
}

static void test_bound_collector_answers_in_a_climb(void **state) {
    pthread_t other;
    void *failed;
    mock_tracer bound;
    (void)state;
    COUNTS_ROUNDS();
    sem_init(&inside, 0, 0);
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB", .policy = "never"});
    mock_open(&leading, rt, "first", TIDE_COLLECTOR_MINOR, 0);
    mock_open(&bound, rt, "bound", TIDE_COLLECTOR_BOUND, 0);
    leading.during = wait_for_bound_follower;
    mock_drop(&bound, mock_hold(&bound, make(rt, part_of_limit(rt, 60))));
    assert_int_equal(pthread_create(&other, NULL, climb_in_thread, rt), 0);
    sem_wait(&inside);                                  /* the climb is at its minor collection */
    tide_array *mine = make(rt, part_of_limit(rt, 70)); /* waits for its end */
    pthread_join(other, &failed);
    assert_null(failed);
    assert_int_equal(atomic_load(&bound.elsewhere), 0);
    assert_true(atomic_load(&bound.fulls) > 0);
    if (!mine) mine = make(rt, part_of_limit(rt, 70)); /* the other one was still there */
    assert_array(mine);
    tide_release(mine);
    keeper_close();
    mock_end(&leading);
    mock_end(&bound);
}

/* ---- the early trigger ---- */

static struct {
    pthread_mutex_t lock;
    char lines[64][160];
    int levels[64];
    unsigned n;
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};
static void keep_line(void *user, int level, const char *line) {
    (void)user;
    pthread_mutex_lock(&logged.lock);
    if (logged.n < 64) {
        logged.levels[logged.n] = level;
        snprintf(logged.lines[logged.n++], sizeof logged.lines[0], "%s", line);
    }
    pthread_mutex_unlock(&logged.lock);
}
static unsigned lines_with(const char *part, int level) {
    unsigned n = 0;
    for (unsigned i = 0; i < logged.n; i++) n += logged.levels[i] == level && strstr(logged.lines[i], part) != NULL;
    return n;
}

static void test_log_lines(void **state) {
    mock_tracer m;
    double ms;
    char rest[8];
    (void)state;
    COUNTS_ROUNDS();
    logged.n = 0;
    tide_runtime *rt = keeper_open(
        &kinds[0],
        (tide_config){.limit = "4MiB", .policy = "cudajl", .log = keep_line, .log_level = TIDE_LOG_DEBUG});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 3; i++) mock_drop(&m, mock_hold(&m, make(rt, 1 << 20)));
    mock_hold(&m, make(rt, 64)); /* at 3 of 4 MiB */
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(lines_with("maybe_collect: collected 3.0 MiB in ", TIDE_LOG_INFO), 1);
    for (unsigned i = 0; i < logged.n; i++)
        if (!strncmp(logged.lines[i], "maybe_collect", 13)) {
            assert_int_equal(sscanf(logged.lines[i], "maybe_collect: collected 3.0 MiB in %lf %7s", &ms, rest), 2);
            assert_string_equal(rest, "ms");
        }
    assert_ok(tide_collect(rt));
    assert_int_equal(lines_with("tide_collect: collected 0 bytes in ", TIDE_LOG_INFO), 1);
    /* A climb has its line, and each collection in it, also where they bring nothing. */
    assert_null(make(rt, (4 << 20) - 1));
    assert_int_equal(lines_with(", which was not enough", TIDE_LOG_INFO), 1);
    unsigned lines = lines_with("reclaim: collected 0 bytes in ", TIDE_LOG_INFO) +
                     lines_with("maybe_collect: collected", TIDE_LOG_INFO) +
                     lines_with("tide_collect: collected", TIDE_LOG_INFO);
    assert_true(lines_with("reclaim: collected 0 bytes in ", TIDE_LOG_INFO) > 0);
    assert_int_equal(lines, test_stats(rt).collections);
    keeper_close();
    mock_end(&m);
}

/* Below its pressure the policy sleeps; asked at a sync point it acts at half. */
static void test_early(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).early_collections, 0); /* 2.46 of 4 MiB */
    assert_int_equal(rt->devs[0].wake_at, 3 << 20);
    tidei_ask(rt, &rt->devs[0], TIDEI_AT_SYNC, 0);
    assert_int_equal(test_stats(rt).early_collections, 1);
    assert_int_equal(test_stats(rt).arrays, 0);
    keeper_close();
    mock_end(&m);
}

/* A round that ends while the policy's snapshot is taken: the policy is asked anew, not with figures from before it. */
static tide_runtime *asked;
static atomic_bool collects_once;
static uint64_t collecting_clock(void) {
    if (atomic_exchange(&collects_once, false)) {
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, collect_in_thread, asked), 0);
        pthread_join(other, NULL);
    }
    return tidei_now_ns();
}

static void test_round_ends_while_the_policy_is_asked(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "cudajl"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 40; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    assert_int_equal(test_stats(rt).collections, 0);
    asked = rt;
    atomic_store(&collects_once, true);
    rt->clock_ns = collecting_clock;
    tidei_ask(rt, &rt->devs[0], TIDEI_AT_SYNC, 0); /* 2.46 of 4 MiB: it would collect */
    assert_int_equal(test_stats(rt).collections, 1);
    assert_int_equal(test_stats(rt).early_collections, 0);
    assert_int_equal(rt->devs[0].wake_at, 0);
    keeper_close();
    mock_end(&m);
}

/* Early collections keep the ladder unclimbed, and are counted. */
static void test_early_before_climbs(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 400; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tide_statistics s = test_stats(rt);
    assert_in_range(s.early_collections, 6, 18); /* every 97 to 35 % of the limit */
    assert_int_equal(s.climbs, 0);
    assert_int_equal(s.collections, s.early_collections);
    assert_true(s.collect_max_ns <= s.collect_ns);
    assert_int_equal(s.collected, s.frees * (63 << 10));
    keeper_close();
    mock_end(&m);
}

static void test_early_off(void **state) {
    mock_tracer m;
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB", .gc_early = TIDE_OFF});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 100; i++) mock_drop(&m, mock_hold(&m, make(rt, 63 << 10)));
    tidei_ask(rt, &rt->devs[0], TIDEI_AT_SYNC, 0);
    tide_statistics s = test_stats(rt);
    assert_int_equal(s.early_collections, 0);
    assert_true(s.climbs > 0); /* and yet nothing failed */
    keeper_close();
    mock_end(&m);
}

/* Data that really are live: collections that free nothing die out as the room shrinks. */
static void test_fruitless(void **state) {
    mock_tracer m;
    (void)state;
    COUNTS_ROUNDS();
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "4MiB", .policy = "reserve"});
    mock_open(&m, rt, "m", 0, 0);
    for (unsigned i = 0; i < 62; i++) mock_hold(&m, make(rt, 63 << 10));
    for (unsigned i = 0; i < 2000; i++) {
        tide_release(make(rt, 1024));
        tidei_ask(rt, &rt->devs[0], TIDEI_AT_SYNC, 0);
    }
    assert_in_range(test_stats(rt).collections, 1, 12);
    keeper_close();
    mock_end(&m);
}

/* Without a tracing collector there is nobody to ask, and nothing is lost by asking. */
static void test_nobody_to_ask(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.limit = "1MiB"});
    for (unsigned i = 0; i < 10; i++) hold(i, make(rt, 63 << 10));
    assert_true(rt->devs[0].wake_at == SIZE_MAX);
    tidei_ask(rt, &rt->devs[0], TIDEI_AT_SYNC, 0);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, 0);
    for (unsigned i = 0; i < 10; i++) drop(i);
    keeper_close();
}

static void test_names(void **state) {
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "stop-and-copy"};
    tide_runtime *rt;
    (void)state;
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "refcount");
    assert_error(TIDE_E_INVALID, "stop-and-copy");
    c.collector = "refcount";
    c.policy = "hopeful";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "reserve, cudajl, never");
#ifndef TIDEI_HAVE_BOEHM
    c.policy = NULL;
    c.collector = "boehm";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "bdw-gc");
#endif
}

static void test_device_libraries(void **state) {
    static const char *const yes[] = {"libcuda.so.1",
                                      "/usr/lib/libcuda.so.580.65.06",
                                      "libcudart.so.13",
                                      "libcublas.so",
                                      "/opt/x/libcublasLt.so.13",
                                      "libcusolverMg.so.12",
                                      "libcusparse.so.12",
                                      "libcufftw.so.12",
                                      "libcurand.so.10",
                                      "libcudnn_ops.so.9",
                                      "libnccl.so.2",
                                      "libnvrtc.so.13",
                                      "libnvJitLink.so.13",
                                      "libnvidia-ml.so.1",
                                      "libcupti.so.13"};
    static const char *const no[] = {"",
                                     "libc.so.6",
                                     "libtidepool.so.0",
                                     "/usr/lib/libcuda/libm.so.6",
                                     "libcudacpp.so",
                                     "libopenblas.so.0",
                                     "mylibcublas.so",
                                     "libcurandom.so"};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(yes); i++) assert_int_equal(tide_is_device_library(yes[i]), 1);
    for (size_t i = 0; i < TIDEI_COUNT(no); i++) assert_int_equal(tide_is_device_library(no[i]), 0);
    assert_int_equal(tide_is_device_library(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropped_comes_back),
        cmocka_unit_test(test_retain_keeps),
        cmocka_unit_test(test_retain_is_a_threads_first_call),
        cmocka_unit_test(test_views_share),
        cmocka_unit_test(test_million_temporaries),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_callback_order),
        cmocka_unit_test(test_free_races_collector),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_after_close),
        cmocka_unit_test(test_late_report_finds_a_new_life),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_scope_holds_what_was_released),
        cmocka_unit_test(test_scopes_end_with_thread_and_runtime),
        cmocka_unit_test(test_scopes_leave_boehm_alone),
        cmocka_unit_test(test_scarce_host_memory),
        cmocka_unit_test(test_scarce_open),
        cmocka_unit_test(test_too_many_releases),
        cmocka_unit_test(test_attach_arguments),
        cmocka_unit_test(test_owner_is_fixed_at_birth),
        cmocka_unit_test(test_arrays_of_a_detached_collector),
        cmocka_unit_test(test_mock_graph),
        cmocka_unit_test(test_busy_and_unsupported),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_from_inside_a_collection),
        cmocka_unit_test(test_single_flight),
        cmocka_unit_test(test_many_collect_at_once),
        cmocka_unit_test(test_follower_wants_more_than_a_minor_round),
        cmocka_unit_test(test_bound_collector_answers_later),
        cmocka_unit_test(test_bound_collector_answers_while_waiting),
        cmocka_unit_test(test_bound_collector_answers_in_a_climb),
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_round_ends_while_the_policy_is_asked),
        cmocka_unit_test(test_early_before_climbs),
        cmocka_unit_test(test_early_off),
        cmocka_unit_test(test_fruitless),
        cmocka_unit_test(test_nobody_to_ask),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_device_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
