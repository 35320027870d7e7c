/* test_collector.c: one battery over refcount, boehm and the mock tracer (tidy and unruly); then
** deaths that come late, scopes, misuse of references. Foreign collectors' table and rounds:
** test_rounds.c. */
#include "gc/boehm.h"
#include "gc/collector.h"
#include "gc/gc.h"
#include "gc/policy.h"
#include "tests/doubles/hooked_host.h"
#include "tests/gc/keeper.h"
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
#define FEW (MANY < 20000 ? MANY : 20000) /* 5 MiB of them */

/* ---- the battery ---- */

static __attribute__((noinline)) void fill(tide_runtime *rt, unsigned n, int64_t bytes) {
    for (unsigned i = 0; i < n; i++) hold(i, make(rt, bytes));
}

static void what_is_dropped_comes_back(void **state) {
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
            if (i % 3) assert_int_equal(tide_array_dim(keeper.array[i], 0), 4096);
        for (unsigned i = 0; i < 900; i++)
            if (i % 3) drop(i);
        collect_all();
        assert_arrays(rt, 0, 4096);
        keeper_close();
    }
}

static void what_is_retained_stays(void **state) {
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
        /* an unruly one ends arrays whatever their count; a well-behaved one gives its reference
        ** back */
        if (k->mock) {
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
            assert_false(tide_array_is_freed((tide_array *)~hidden[i]));
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
static void a_threads_first_call_may_be_retain(void **state) {
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
static void views_and_arrays_die_apart(void **state) {
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
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(tide_array_dim(keeper.array[100 + i], 0), 10);
        for (unsigned i = 0; i < 100; i++) drop(100 + i);
        collect_all();
        assert_arrays(rt, 0, 4096);
        keeper_close();
    }
}

/* A loop of temporaries that frees nothing stays under its limit. Under reference counting scopes
** end them. */
static void temporaries(const struct kind *k, const char *policy, unsigned n) {
    tide_runtime *rt = keeper_open(k, (tide_config){.limit = "1MiB", .policy = policy});
    for (unsigned i = 0; i < n; i++) {
        if (!k->mock && !k->spare && i % 1000 == 0) assert_ok(tide_scope_begin(rt));
        tide_array *a = make(rt, 256);
        assert_array(a);
        if (k->mock) mock_drop(&keeper.mock, mock_hold(&keeper.mock, a));
        if (!k->mock && !k->spare && i % 1000 == 999) assert_ok(tide_scope_end(rt));
    }
    tide_runtime_figures s = test_stats(rt);
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

/* 10^6 of them under every collector and the policies for daily use; fewer where each is a call of
** a driver, or the policy is there for comparison. */
static void a_million_temporaries_fit(void **state) {
    static const char *const policies[] = {"reserve",
                                           "cudajl",
                                           "never",
                                           "priced",
                                           "headroom",
                                           "sqrt",
                                           "pressure(budget=64KiB)",
                                           "softmax(share=0.5)",
                                           "rates",
                                           "every(n=1000)"};
    (void)state;
    assert_null(tidei_policy_at(TIDEI_COUNT(policies))); /* these are all */
    for (unsigned p = 0; p < TIDEI_COUNT(policies); p++)
        assert_memory_equal(policies[p], tidei_policy_at(p)->name,
                            strlen(tidei_policy_at(p)->name));
    EACH_KIND(k)
    for (unsigned p = 0; p < TIDEI_COUNT(policies); p++)
        temporaries(k, policies[p],
                    p >= 3                            ? FEW
                    : test_on_host() && !test_quick() ? MANY
                                                      : MANY / 10);
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

static void every_death_is_called_back_once(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        memset(&deaths, 0, sizeof deaths);
        fill(rt, 500, 64);
        for (uintptr_t i = 0; i < 500; i++) {
            assert_ok(tide_array_on_death(keeper.array[i], count_death, (void *)i));
            assert_ok(tide_array_on_death(keeper.array[i], count_death, (void *)(1000 + i)));
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

static void callbacks_come_in_order(void **state) {
    (void)state;
    keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    memset(order, 0, sizeof order);
    hold(0, make(keeper.rt, 8));
    assert_ok(tide_array_on_death(keeper.array[0], note_b, order));
    assert_ok(tide_array_on_death(keeper.array[0], note_a, order));
    assert_ok(tide_array_on_death(keeper.array[0], note_c, order));
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

static void free_may_race_a_collector(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        pthread_t collector, freer;
        memset(&deaths, 0, sizeof deaths);
        atomic_store(&race_over, false);
        fill(rt, RACE, 64);
        for (uintptr_t i = 0; i < RACE; i++) {
            assert_ok(tide_array_on_death(keeper.array[i], count_death, (void *)i));
            race_cells[i] = ~(uintptr_t)keeper.array[i];
        }
        assert_int_equal(pthread_create(&collector, NULL, race_collect, rt), 0);
        assert_int_equal(pthread_create(&freer, NULL, race_free, rt), 0);
        /* frees while held: the cells are valid until they are dropped below */
        pthread_join(freer, NULL);
        for (unsigned i = 0; i < RACE; i++) {
            assert_true(tide_array_is_freed(keeper.array[i]));
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
        if (ring[at] && !k->mock) assert_int_equal(tide_array_dim(ring[at], 0), 64 + at);
        if (ring[at] && k->mock) mock_drop(&keeper.mock, object[at]);
        if (ring[at] && !k->mock && !k->spare) tide_release(ring[at]);
        tide_array *a = make(rt, 64 + at);
        if (!a) return strdup(tide_error_last()->message); /* the thread's own */
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

static void threads_make_and_drop_at_once(void **state) {
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
        tide_runtime_figures s = test_stats(rt);
        assert_true(s.arrays <= k->spare);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        keeper_close();
    }
}

/* ---- deaths that come late ---- */

static void reports_after_close_do_no_harm(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(rt, 20, 64);
        tidei_header *h = tidei_cell_header(keeper.array[0]);
        uint64_t generation = tidei_header_generation(h);
        tide_retain(keeper.array[1]);
        tide_close(rt);
        assert_true(tide_array_is_freed(keeper.array[0]));
        assert_null(tide_slice(keeper.array[0], "0:1"));
        assert_error(TIDE_E_CLOSED, "");
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

static void a_late_report_spares_a_new_array(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    tide_array *a = make(rt, 64);
    tidei_header *h = tidei_cell_header(a);
    uint64_t generation = tidei_header_generation(h);
    tide_release(a);
    test_stats(rt);
    tide_array *b = make(rt, 64);
    assert_ptr_equal(tidei_cell_header(b), h); /* the very header */
    tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(test_stats(rt).arrays, 1);
    assert_false(tide_array_is_freed(b));
    tide_release(b);
    keeper_close();
}

static void a_forked_child_does_no_harm(void **state) {
    (void)state;
    EACH_KIND(k) {
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        fill(rt, 20, 64);
        tidei_header *h = tidei_cell_header(keeper.array[0]);
        tide_retain(keeper.array[1]);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(120);
            tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
            tide_free(keeper.array[2]);
            tide_release(keeper.array[1]);
            bool ok = !make(rt, 64) && tide_error_last()->status == TIDE_E_FORKED;
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

static void a_scope_releases_what_was_made_in_it(void **state) {
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
        assert_int_equal(tide_array_dim(kept, 0), 64);
        assert_ok(tide_scope_end(rt)); /* outer, kept */
        assert_int_equal(test_stats(rt).arrays, 2);
        assert_int_equal(tide_array_dim(retained, 0) + tide_array_dim(stays, 0), 128);
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

/* What was released inside its scope is dead, but its header serves nobody else before the scope
** has let go of it: else the scope's end could take another thread's reference. */
static void a_scope_holds_what_was_released_in_it(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF});
    assert_ok(tide_scope_begin(rt));
    tide_array *early = make(rt, 64);
    tidei_header *h = tidei_cell_header(early);
    tide_release(early);
    assert_int_equal(test_stats(rt).live, 0);
    tide_array *next = make(rt, 64);
    assert_ptr_not_equal(tidei_cell_header(next), h);
    assert_true(tide_array_is_freed(early));
    assert_null(tide_scope_keep(early));
    assert_error(TIDE_E_FREED, "released before");
    /* room for them is not kept either */
    for (unsigned i = 0; i < 1000; i++) tide_release(make(rt, 64));
    assert_in_range(atomic_load(&test_rt(rt)->deaths->headers), 1, 200);
    assert_array(tide_scope_keep(next));
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).arrays, 1);
    assert_int_equal(atomic_load(&test_rt(rt)->deaths->headers), 1);
    tide_release(next);
    keeper_close();
}

static void *depth_in_thread(void *rt) {
    assert_int_equal(tide_scope_depth(rt), 0);
    assert_int_equal(tide_scope_unwind(rt, 1), TIDE_E_INVALID);
    return NULL;
}

static void unwinding_ends_scopes_down_to_a_depth(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (k->spare || k->flags) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        pthread_t thread;
        assert_int_equal(tide_scope_depth(rt), 0);
        assert_ok(tide_scope_unwind(rt, 0));
        assert_int_equal(tide_scope_unwind(rt, 1), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "depth is 1; this thread has 0 open scopes in this runtime");
        tide_array *kept = NULL;
        for (int depth = 0; depth < 5; depth++) {
            assert_ok(tide_scope_begin(rt));
            assert_int_equal(tide_scope_depth(rt), depth + 1);
            for (int i = 0; i <= depth; i++) assert_array(make(rt, 64));
            kept = make(rt, 64);
        }
        assert_int_equal(pthread_create(&thread, NULL, depth_in_thread, rt), 0);
        pthread_join(thread, NULL);
        assert_int_equal(tide_scope_unwind(rt, 6), TIDE_E_INVALID);
        assert_int_equal(tide_scope_unwind(rt, -1), TIDE_E_INVALID);
        assert_error(TIDE_E_INVALID, "depth is -1; this thread has 5 open scopes in this runtime");
        assert_ok(tide_scope_unwind(rt, 5));
        assert_int_equal(test_stats(rt).arrays, 1 + 2 + 3 + 4 + 5 + 5);
        kept = tide_scope_keep(kept);
        assert_ok(tide_scope_unwind(rt, 4)); /* it went to the fourth, with the others there */
        assert_int_equal(tide_scope_depth(rt), 4);
        assert_int_equal(test_stats(rt).arrays, 1 + 2 + 3 + 4 + 4 + 1);
        assert_int_equal(tide_array_dim(kept, 0), 64);
        assert_ok(tide_scope_unwind(rt, 1));
        assert_int_equal(test_stats(rt).arrays, 2);
        assert_ok(tide_scope_unwind(rt, 0));
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_int_equal(tide_scope_end(rt), TIDE_E_INVALID);
        keeper_close();
        assert_int_equal(tide_scope_depth(rt), -1);
        assert_error(TIDE_E_CLOSED, "");
        assert_int_equal(tide_scope_unwind(rt, 0), TIDE_E_CLOSED);
        assert_int_equal(tide_scope_depth(NULL), -1);
    }
}

static void *scope_in_thread(void *rt) {
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_scope_begin(rt));
    for (unsigned i = 0; i < 10; i++) assert_array(make(rt, 64));
    return NULL; /* open scopes end with their thread */
}

static void scopes_end_with_thread_and_runtime(void **state) {
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

static void scopes_leave_boehm_alone(void **state) {
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = keeper_open(&kinds[1], (tide_config){.gc_early = TIDE_OFF});
    assert_ok(tide_scope_begin(rt));
    hold(0, make(rt, 64));
    assert_ptr_equal(tide_scope_keep(keeper.array[0]), keeper.array[0]);
    assert_ok(tide_scope_end(rt));
    collect_all();
    assert_int_equal(tide_array_dim(keeper.array[0], 0), 64);
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
        if (!make(rt, 64)) status = tide_error_last()->status;
    assert_ok(tide_scope_end(rt));
    return status;
}

static void scarce_host_memory_leaks_nothing(void **state) {
    const tide_allocator scarce = {scarce_alloc, scarce_free, NULL};
    (void)state;
    allocs_left = 1 << 30;
    tide_runtime *rt =
        keeper_open(&kinds[0], (tide_config){.gc_early = TIDE_OFF, .allocator = &scarce});
    tide_status status = TIDE_E_HOST_NOMEM;
    for (long n = 0; status != TIDE_OK; n++) {
        allocs_left = n;
        status = scope_of_arrays(rt);
        assert_true(status == TIDE_OK || status == TIDE_E_HOST_NOMEM);
        allocs_left = 1 << 30;
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        assert_true(n < 1000);
    }
    keeper_close();
}

static void opening_may_lack_host_memory(void **state) {
    const tide_allocator scarce = {scarce_alloc, scarce_free, NULL};
    tide_config c = {.struct_size = sizeof c,
                     .device = test_device(),
                     .allocator = &scarce,
                     .collector = "refcount"};
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

static void one_release_too_many_is_told(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (k->flags) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        hold(0, make(rt, 64));
        if (k->spare) {
            tide_error_clear();
            tide_release(keeper.array[0]); /* it was never retained */
            assert_error(TIDE_E_INVALID, "was not retained");
            assert_int_equal(tide_array_dim(keeper.array[0], 0), 64);
        } else {
            tide_array *a = keeper.array[0];
            tide_free(a); /* keeps the cell a cell */
            tidei_header *h = tidei_cell_header(a);
            assert_int_equal(tidei_gc_release(h), TIDE_OK);
            assert_int_equal(tidei_gc_release(h), TIDE_E_INVALID);
            assert_int_equal(test_rt(rt)->gc_ops->retain(h), TIDE_E_INVALID);
            if (k->mock) keeper.mock.objects[keeper.object[0]].array = NULL;
        }
        keeper_close();
    }
}

/* As often as a word counts; one more is refused, and changes nothing. */
static void one_reference_too_many_is_refused(void **state) {
    (void)state;
    EACH_KIND(k) {
        if (k->flags || k->mock) continue;
        tide_runtime *rt = keeper_open(k, (tide_config){.gc_early = TIDE_OFF});
        hold(0, make(rt, 64));
        tidei_header *h = tidei_cell_header(keeper.array[0]);
        const uint32_t before = atomic_load(&h->refs),
                       most = k->spare ? UINT32_MAX : UINT32_MAX & ~TIDEI_SCOPED;
        atomic_store(&h->refs, most);
        tide_error_clear();
        assert_null(tide_retain(keeper.array[0]));
        assert_error(TIDE_E_INVALID, "has been retained too often");
        assert_int_equal(atomic_load(&h->refs), most);
        atomic_store(&h->refs, before);
        assert_ptr_equal(tide_retain(keeper.array[0]), keeper.array[0]);
        tide_release(keeper.array[0]);
        assert_int_equal(atomic_load(&h->refs), before);
        drop(0);
        keeper_close();
    }
}

/* What a scope cannot take over, for lack of memory, stays where it was. */
static void keep_without_memory_changes_nothing(void **state) {
    enum { FULL = 32 }; /* a scope's first room */
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount", .allocator = &hooked});
    assert_ok(tide_scope_begin(rt));
    for (int i = 0; i < FULL; i++) assert_array(make(rt, 1));
    assert_ok(tide_scope_begin(rt));
    tide_array *a = make(rt, 64);
    assert_array(a);
    atomic_store(&hook.fail_at, atomic_load(&hook.calls) + 1);
    assert_null(tide_scope_keep(a));
    assert_error(TIDE_E_HOST_NOMEM, "host memory");
    atomic_store(&hook.fail_at, 0);
    assert_ptr_equal(tide_scope_keep(a), a);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(tide_array_dim(a, 0), 64);
    assert_int_equal(test_stats(rt).arrays, FULL + 1);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).arrays, 0);
    tide_close(rt);
    assert_int_equal(atomic_load(&hook.held), 0);
}

static void keep_after_close_is_refused(void **state) {
    (void)state;
    tide_runtime *rt = keeper_open(&kinds[0], (tide_config){0});
    tide_array *a = make(rt, 64);
    keeper_close();
    tide_error_clear();
    assert_null(tide_scope_keep(a));
    assert_error(TIDE_E_CLOSED, "the runtime was closed");
    tide_error_clear();
    assert_null(tide_scope_keep(NULL));
    assert_error(TIDE_E_INVALID, "argument 1");
    assert_int_equal(tide_scope_end(NULL), TIDE_E_INVALID);
    tide_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_dropped_comes_back),
        cmocka_unit_test(what_is_retained_stays),
        cmocka_unit_test(a_threads_first_call_may_be_retain),
        cmocka_unit_test(views_and_arrays_die_apart),
        cmocka_unit_test(a_million_temporaries_fit),
        cmocka_unit_test(every_death_is_called_back_once),
        cmocka_unit_test(callbacks_come_in_order),
        cmocka_unit_test(free_may_race_a_collector),
        cmocka_unit_test(threads_make_and_drop_at_once),
        cmocka_unit_test(reports_after_close_do_no_harm),
        cmocka_unit_test(a_late_report_spares_a_new_array),
        cmocka_unit_test(a_forked_child_does_no_harm),
        cmocka_unit_test(a_scope_releases_what_was_made_in_it),
        cmocka_unit_test(unwinding_ends_scopes_down_to_a_depth),
        cmocka_unit_test(a_scope_holds_what_was_released_in_it),
        cmocka_unit_test(scopes_end_with_thread_and_runtime),
        cmocka_unit_test(scopes_leave_boehm_alone),
        cmocka_unit_test(scarce_host_memory_leaks_nothing),
        cmocka_unit_test(opening_may_lack_host_memory),
        cmocka_unit_test(one_release_too_many_is_told),
        cmocka_unit_test(one_reference_too_many_is_refused),
        cmocka_unit_test(keep_without_memory_changes_nothing),
        cmocka_unit_test(keep_after_close_is_refused),
    };
    return cmocka_run_group_tests_name("collector", tests, NULL, NULL);
}
