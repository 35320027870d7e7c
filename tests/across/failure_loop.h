/* failure_loop.h: each call of a kind gets its turn to fail, or to lose the device, while a task
** runs.
**
** The loop: a fresh runtime on the fault double; the n-th call in the middle of a task (tasks.h)
** fails; n rises until none does. After each failure: the error is the one injected, in words,
** under a public operation's name; the figures are what they were before; pools are valid; the same
** task then succeeds with the right values; and closing gives back every byte of host memory. After
** the loss of the device a mode's own function says what must stand (`after_loss`). What fails, and
** how, are a program's modes, which it hands to run_failures:
**   test_failures_host.c    host memory
**   test_failures_calls.c   device calls
**   test_failures_memory.c  device memory
**   test_failures_loss.c    the whole device */
#ifndef TIDETEST_FAILURE_LOOP_H
#define TIDETEST_FAILURE_LOOP_H

#include <cblas.h>
#include <unistd.h>
#include "runtime/device/host/host.h"
#include "tests/doubles/hooked_host.h"
#include "tests/across/tasks.h"

/* ---- what may fail how ---- */

struct mode {
    const char *name;
    tide_status status; /* injected, and then the operation's */
    bool sticky;
    bool on_gpu; /* runs there too: a loop takes seconds on one */
    /* (loss) Looks at the runtime instead of running the task again, and closes it. */
    void (*after_loss)(tidei_device *d);
};
static const struct mode *modes; /* this program's */
static size_t nmodes;

static const struct setting {
    const char *collector, *pool;
    bool runs, on_gpu;
} settings[] = {
    {"refcount", "tide", true, true},     {"refcount", "none", true, true},
    {"refcount", "driver", true, true},   {"boehm", "tide", TEST_BOEHM, false},
    {"boehm", "none", TEST_BOEHM, false},
};

struct plan {
    const struct mode *mode;
    const struct setting *setting;
    uint64_t n;
};

static bool by_hook(const struct plan *p) { return p->mode->status == TIDE_E_HOST_NOMEM; }

static void arm(const struct plan *p, tidei_device *d) {
    if (by_hook(p)) {
        atomic_store(&hook.calls, 0);
        atomic_store(&hook.sticky, p->mode->sticky);
        atomic_store(&hook.fail_at, p->n);
    } else {
        tidei_fault_set(d, TIDEI_FAULT_ANY, p->n, p->mode->status, p->mode->sticky);
    }
}
static void disarm(tidei_device *d) {
    atomic_store(&hook.fail_at, 0);
    if (d) tidei_fault_set(d, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
}

/* A public function, or an expression's text. */
static bool is_public(const char *operation) {
    return !strncmp(operation, "tide_", 5) || strstr(operation, "->");
}

/* The error that stands is the injected one, told under the name of what a user called. */
static void check_error(const struct plan *p, const char *task, tide_status status) {
    const tide_error *e = tide_error_last();
    if (status == p->mode->status && e->status == status && strlen(e->message) > 10 &&
        is_public(e->operation))
        return;
    fail_msg("%s, %s, %s, %s %d: %s by \"%s\": %s", task, p->setting->collector, p->setting->pool,
             p->mode->name, (int)p->n, tide_status_name(status), e->operation, e->message);
}

/* ---- opening ---- */

static tidei_device *open_fault(void) {
    tidei_device_params params = {.host_device_memory = (size_t)64 << 20, .host_checker = true};
    tidei_device *inner, *d;
    if (test_on_host()) {
        assert_ok(tidei_host_open(&params, &inner));
    } else {
        test_keep_context();
        assert_ok(tidei_cuda_open(&(tidei_device_params){0}, &inner));
    }
    assert_ok(tidei_fault_open(inner, &d));
    return d;
}

static char cache_dir[64]; /* kernels are compiled once */

static tide_config config_of(const struct setting *s) {
    return (tide_config){.struct_size = sizeof(tide_config),
                         .collector = s->collector,
                         .pool = s->pool,
                         .allocator = &hooked,
                         .cache_dir = *cache_dir ? cache_dir : NULL};
}

static tide_runtime *open_on(const struct setting *s, tidei_device *d) {
    tide_config c = config_of(s);
    tide_runtime *rt = NULL;
    assert_ok(tidei_open_on(&c, d, &rt));
    return rt;
}

static void close_counted(tide_runtime *rt) {
    tide_close(rt);
    assert_int_equal(atomic_load(&hook.held), 0);
}

#define EACH_SETTING(s)                                                                            \
    for (const struct setting *s = settings; s < settings + TIDEI_COUNT(settings); s++)            \
        if (s->runs && (test_on_host() || s->on_gpu))
#define EACH_MODE(m)                                                                               \
    for (const struct mode *m = modes; m < modes + nmodes; m++)                                    \
        if (test_on_host() || m->on_gpu)

/* One attempt to open that fails at call n; false when it was not reached. */
static bool fail_open(const struct plan *p) {
    tidei_device *d = by_hook(p) && test_on_host() ? NULL : open_fault();
    tide_config c = config_of(p->setting);
    tide_runtime *rt = NULL;
    c.device = "host"; /* where the device's own opening fails as well */
    uint64_t before = d ? tidei_fault_calls(d, TIDEI_FAULT_ANY) : 0;
    tide_error_clear();
    arm(p, d);
    tide_status status = d ? tidei_open_on(&c, d, &rt) : tide_open(&c, &rt);
    atomic_store(&hook.fail_at, 0);
    if (status != TIDE_OK) { /* the device went with it */
        check_error(p, "tide_open", status);
        assert_string_equal(tide_error_last()->operation, "tide_open");
        assert_null(rt);
        assert_int_equal(atomic_load(&hook.held), 0);
        return true;
    }
    disarm(d);
    bool reached = by_hook(p) ? atomic_load(&hook.calls) >= p->n
                              : tidei_fault_calls(d, TIDEI_FAULT_ANY) - before >= p->n;
    close_counted(rt);
    return reached;
}

static void opening(void **state) {
    (void)state;
    EACH_SETTING(s) EACH_MODE(m) {
        struct plan p = {m, s, 1};
        while (fail_open(&p)) p.n++;
        assert_true(p.n > (by_hook(&p) ? 5 : 1));
    }
}

/* ---- the loop ---- */

struct figures {
    size_t live, arrays, backed;
};
/* Inputs that the task spilled come back, each as it was. */
static void bring_back(void) {
    tide_use_scope *scope;
    void *p;
    for (unsigned i = 0; i < TIDEI_COUNT(work.in); i++) {
        tide_use use = {.array = work.in[i], .mode = TIDE_READ};
        if (!use.array) continue;
        assert_ok(tide_use_begin(work.rt, NULL, &use, 1, &p, &scope));
        assert_ok(tide_use_end(scope));
    }
    assert_int_equal(test_stats(work.rt).spilled, 0);
}

static struct figures figures(void) {
    if (test_stats(work.rt).spilled) bring_back();
    assert_ok(tide_reclaim(work.rt, TIDE_RECLAIM_SYNC, NULL)); /* idle memory is nobody's */
    tide_runtime_figures s = test_stats(work.rt);
    assert_int_equal(s.live + s.rounding + s.cached + s.pending, s.backed);
    return (struct figures){s.live, s.arrays, s.backed};
}

static void nothing_lost(const struct plan *p, const struct task *t, struct figures before) {
    struct figures now = figures();
    if (memcmp(&now, &before, sizeof now))
        fail_msg("%s, %s, %s, %s %d: %zu live, %zu arrays, %zu backed; before: %zu, %zu, %zu",
                 t->name, p->setting->collector, p->setting->pool, p->mode->name, (int)p->n,
                 now.live, now.arrays, now.backed, before.live, before.arrays, before.backed);
    if (!tidei_runtime_valid(test_rt(work.rt)))
        fail_msg("%s, %s %d: not valid", t->name, p->mode->name, (int)p->n);
}

static void drop_inputs(void) {
    for (unsigned i = 0; i < TIDEI_COUNT(work.in); i++) drop(&work.in[i]);
}

/* Otherwise the collector "boehm" leaves hundreds of closed runtimes' cells unfound for a while,
** and whoever looks at a runtime's arrays (tide_runtime_info) passes the headers of all of them. */
static void find_dead(const struct plan *p) {
    if (!work.counted && p->n % 16 == 0) assert_ok(tide_collect(work.rt));
}

/* One run whose n-th call fails; false when it was not reached. */
static bool fail_once(const struct plan *p, const struct task *t) {
    tidei_device *d = open_fault();
    work = (struct work){.rt = open_on(p->setting, d),
                         .counted = !strcmp(p->setting->collector, "refcount")};
    prepare();
    struct figures before = figures();
    uint64_t calls = tidei_fault_calls(d, TIDEI_FAULT_ANY);
    arm(p, d);
    tide_status status = run(t);
    bool reached = by_hook(p) ? atomic_load(&hook.calls) >= p->n
                              : tidei_fault_calls(d, TIDEI_FAULT_ANY) - calls >= p->n;
    disarm(d);
    if (status != TIDE_OK) check_error(p, t->name, status);
    if (reached && p->mode->after_loss) {
        p->mode->after_loss(d);
        return true;
    }
    if (status == TIDE_OK) t->check();
    after_run();
    nothing_lost(p, t, before);
    if (run(t) != TIDE_OK)
        fail_msg("%s, %s %d, afterwards: %s", t->name, p->mode->name, (int)p->n,
                 tide_error_last()->message);
    t->check();
    after_run();
    nothing_lost(p, t, before);
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(tidei_fault_inner(d)), 0);
    drop_inputs();
    nothing_lost(p, t, (struct figures){0, 0, 0});
    find_dead(p);
    close_counted(work.rt);
    return reached;
}

/* Under sanitizers a loop does one of so many rounds. Where it begins differs between tasks,
** settings and modes, so that together they still come to every n. */
#define STRIDE (TEST_THREADS_ONLY ? 9 : 3)

static void task_fails(void **state) {
    const struct task *t = *state;
    bool few = t->long_one && !test_on_host();
    EACH_SETTING(s) EACH_MODE(m) {
        struct plan p = {m, s, 1};
        if (few && s != settings) continue;
        if (test_quick()) p.n += (uint64_t)((t - tasks) + (s - settings) + (m - modes)) % STRIDE;
        while (fail_once(&p, t)) p.n += few ? 1 + p.n / 2 : test_quick() ? STRIDE : 1;
        assert_true(p.n > 2);
    }
}

/* ---- the program ---- */

static int fresh(void **state) {
    (void)state;
    disarm(NULL);
    atomic_store(&hook.held, 0);
    return 0;
}

static tide_runtime *keeps_context; /* so that a GPU's context is not made again for every round */

static int open_all(void **state) {
    (void)state;
    if (test_on_host()) return 0;
    strcpy(cache_dir, "/tmp/tide-failures-XXXXXX");
    if (!mkdtemp(cache_dir)) return -1;
    keeps_context = test_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_all(void **state) {
    char command[128];
    (void)state;
    if (test_on_host()) return 0;
    tide_close(keeps_context);
    snprintf(command, sizeof command, "rm -rf %s", cache_dir);
    return system(command);
}

/* A case for opening and for each task; then the program's own. */
static int run_failures(const char *program, const struct mode *m, size_t n,
                        const struct CMUnitTest *own, size_t nown) {
    static struct CMUnitTest tests[TIDEI_COUNT(tasks) + 8];
    size_t k = 0;
    modes = m;
    nmodes = n;
    openblas_set_num_threads(1); /* more of them would spin for want of work: matrices are small */
    tests[k++] = (struct CMUnitTest){"opening", opening, fresh, NULL, NULL};
    for (size_t i = 0; i < TIDEI_COUNT(tasks); i++)
        tests[k++] = (struct CMUnitTest){tasks[i].name, task_fails, fresh, NULL,
                                         (void *)(uintptr_t)&tasks[i]};
    assert_true(k + nown <= TIDEI_COUNT(tests));
    for (size_t i = 0; i < nown; i++) tests[k++] = own[i];
    return _cmocka_run_group_tests(program, tests, k, open_all, close_all);
}

#endif
