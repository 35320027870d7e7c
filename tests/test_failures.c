/* test_failures.c: every host allocation and every device call gets its turn to fail, once or from then on, and to lose the
** device.
**
** The loop: a fresh runtime on the fault double; the n-th call in the middle of a task (tasks.h) fails; n rises until none does. After
** each failure: the error is the one injected, in words, under a public operation's name; the figures are what they were
** before; pools are valid; the same task then succeeds with the right values; and closing gives back every byte of host
** memory. After a loss: everything that needs the device says so, with one story; dropping and closing work. */
#include "runtime/device/host.h"
#include "tests/hooked_host.h"
#include "tests/tasks.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* ---- what may fail how ---- */

static const struct mode {
    const char *name;
    tide_status status; /* injected, and then the operation's */
    bool sticky;
    bool on_gpu; /* runs there too: a loop takes seconds on one */
} modes[] = {
    {"host memory", TIDE_E_HOST_NOMEM, false, true},  {"no host memory left", TIDE_E_HOST_NOMEM, true, false},
    {"device call", TIDE_E_DEVICE, false, true},      {"all device calls", TIDE_E_DEVICE, true, false},
    {"device memory", TIDE_E_NOMEM, false, false},    {"no device memory left", TIDE_E_NOMEM, true, true},
    {"loss of the device", TIDE_E_LOST, false, true},
};

static const struct setting {
    const char *collector, *pool;
    bool runs, on_gpu;
} settings[] = {
    {"refcount", "tide", true, true},     {"refcount", "none", true, true},     {"refcount", "driver", true, true},
    {"boehm", "tide", TEST_BOEHM, false}, {"boehm", "none", TEST_BOEHM, false},
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
static bool is_public(const char *operation) { return !strncmp(operation, "tide_", 5) || strstr(operation, "->"); }

/* The error that stands is the injected one, told under the name of something that a user called. */
static void check_error(const struct plan *p, const char *task, tide_status status) {
    const tide_error *e = tide_last_error();
    if (status == p->mode->status && e->status == status && strlen(e->message) > 10 && is_public(e->operation))
        return;
    fail_msg("%s, %s, %s, %s %d: %s by \"%s\": %s", task, p->setting->collector, p->setting->pool, p->mode->name,
             (int)p->n, tide_status_name(status), e->operation, e->message);
}

/* ---- opening ---- */

static tidei_device *open_fault(void) {
    tidei_device_params params = {.host_memory = (size_t)64 << 20, .host_checker = true};
    tidei_device *inner, *d;
    if (test_on_host())
        assert_ok(tidei_host_open(&params, &inner));
    else
        assert_ok(tidei_cuda_open(&(tidei_device_params){0}, &inner));
    assert_ok(tidei_fault_open(inner, &d));
    return d;
}

static char cache_dir[64]; /* kernels are compiled once */

static tide_config config_of(const struct setting *s) {
    return (tide_config){.struct_size = sizeof(tide_config),
                         .collector = s->collector,
                         .pool = s->pool,
                         .host = &hooked,
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

#define EACH_SETTING(s)                                                                                            \
    for (const struct setting *s = settings; s < settings + TIDEI_COUNT(settings); s++)                            \
        if (s->runs && (test_on_host() || s->on_gpu))
#define EACH_MODE(m)                                                                                               \
    for (const struct mode *m = modes; m < modes + TIDEI_COUNT(modes); m++)                                        \
        if (test_on_host() || m->on_gpu)

/* One attempt to open that fails at call n; false when it was not reached. */
static bool fail_open(const struct plan *p) {
    tidei_device *d = by_hook(p) && test_on_host() ? NULL : open_fault();
    tide_config c = config_of(p->setting);
    tide_runtime *rt = NULL;
    c.device = "host"; /* where the device's own opening fails as well */
    uint64_t before = d ? tidei_fault_calls(d, TIDEI_FAULT_ANY) : 0;
    tide_clear_error();
    arm(p, d);
    tide_status status = d ? tidei_open_on(&c, d, &rt) : tide_open(&c, &rt);
    atomic_store(&hook.fail_at, 0);
    if (status != TIDE_OK) { /* the device went with it */
        check_error(p, "tide_open", status);
        assert_string_equal(tide_last_error()->operation, "tide_open");
        assert_null(rt);
        assert_int_equal(atomic_load(&hook.held), 0);
        return true;
    }
    disarm(d);
    bool reached =
        by_hook(p) ? atomic_load(&hook.calls) >= p->n : tidei_fault_calls(d, TIDEI_FAULT_ANY) - before >= p->n;
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
    tide_statistics s = test_stats(work.rt);
    assert_int_equal(s.live + s.rounding + s.cached + s.parked, s.backed);
    return (struct figures){s.live, s.arrays, s.backed};
}

static void nothing_lost(const struct plan *p, const struct task *t, struct figures before) {
    struct figures now = figures();
    if (memcmp(&now, &before, sizeof now))
        fail_msg("%s, %s, %s, %s %d: %zu live, %zu arrays, %zu backed; before: %zu, %zu, %zu", t->name,
                 p->setting->collector, p->setting->pool, p->mode->name, (int)p->n, now.live, now.arrays,
                 now.backed, before.live, before.arrays, before.backed);
    if (!tidei_runtime_valid(test_rt(work.rt))) fail_msg("%s, %s %d: not valid", t->name, p->mode->name, (int)p->n);
}

/* On a lost device: what needs it fails with one story; what does not goes on. */
static void check_lost(tidei_device *d) {
    static char story[1000], text[400];
    tide_rng rng = {1, 0};
    tide_stream *s;
    tide_array *r;
    tide_use use = {.array = work.in[0], .mode = TIDE_READ};
    tide_use_scope *scope;
    void *p;
    assert_true(atomic_load(&d->lost));
    *story = 0;
#define LOST(call)                                                                                                 \
    do {                                                                                                           \
        tide_clear_error();                                                                                        \
        assert_true(call);                                                                                         \
        assert_error(TIDE_E_LOST, d->info.name);                                                                   \
        if (!*story) snprintf(story, sizeof story, "%s", tide_last_error()->message);                              \
        assert_string_equal(tide_last_error()->message, story);                                                    \
        assert_true(is_public(tide_last_error()->operation));                                                      \
    } while (0)
    LOST(!tide_map(work.rt, "(x) -> x + 1", work.in[0]));
    LOST(!tide_map(work.rt, "(x) -> sum(x)", work.in[0]));
    LOST(tide_map_into(work.in[0], "(x) -> x + 1", work.in[0]) == TIDE_E_LOST);
    LOST(!tide_zeros(work.rt, TIDE_F32, SHAPE(3)));
    LOST(!tide_copy(work.in[0]));
    LOST(!tide_matmul(work.in[0], work.in[1]));
    LOST(tide_qr(work.in[0], TIDE_REDUCED, &r, NULL) == TIDE_E_LOST);
    LOST(tide_axpy(tide_arg_int(1), work.in[1], work.in[0]) == TIDE_E_LOST);
    LOST(!tide_nrm2(work.in[1]));
    LOST(!tide_take(work.in[0], work.in[3], 0));
    LOST(!tide_random_uniform(work.rt, &rng, TIDE_F32, SHAPE(3)));
    LOST(!tide_from_host(work.rt, TIDE_F32, SHAPE(1), &(float){1}));
    LOST(tide_to_host(work.in[1], work.host, 5 * sizeof(float)) == TIDE_E_LOST);
    LOST(tide_fill(work.in[0], tide_arg_int(1)) == TIDE_E_LOST);
    LOST(tide_memset(work.in[0], 1) == TIDE_E_LOST);
    LOST(tide_assign(work.in[0], work.in[1]) == TIDE_E_LOST);
    LOST(!tide_format(work.in[1], work.text, sizeof work.text));
    LOST(tide_stream_new(work.rt, &s) == TIDE_E_LOST);
    LOST(tide_synchronize(work.rt, NULL) == TIDE_E_LOST);
    LOST(tide_device_synchronize(work.rt) == TIDE_E_LOST);
    LOST(tide_use_begin(work.rt, NULL, &use, 1, &p, &scope) == TIDE_E_LOST);
    assert_non_null(strstr(story, "last operation of the stream: "));
    tide_array *view = tide_transpose(work.in[0], NULL); /* needs no device */
    assert_array(view);
    assert_int_equal(tide_dim(view, 0), 5);
    drop(&view);
    assert_ok(tide_collect(work.rt));
    assert_ok(tide_reclaim(work.rt, TIDE_RECLAIM_DROP, NULL));
    assert_true(tide_memory_status(work.rt, text, sizeof text) > 0);
    assert_non_null(strstr(text, "Effective GPU memory usage: unknown"));
    assert_true(tidei_runtime_valid(test_rt(work.rt)));
}

static void end_lost(void) {
    after_run();
    for (unsigned i = 0; i < TIDEI_COUNT(work.in); i++) drop(&work.in[i]);
    tide_statistics s = test_stats(work.rt);
    assert_int_equal(s.live + s.arrays, 0);
    close_counted(work.rt);
}

/* One run whose n-th call fails; false when it was not reached. */
static bool fail_once(const struct plan *p, const struct task *t) {
    tidei_device *d = open_fault();
    work = (struct work){.rt = open_on(p->setting, d), .counted = !strcmp(p->setting->collector, "refcount")};
    prepare();
    struct figures before = figures();
    uint64_t calls = tidei_fault_calls(d, TIDEI_FAULT_ANY);
    arm(p, d);
    tide_status status = run(t);
    bool reached =
        by_hook(p) ? atomic_load(&hook.calls) >= p->n : tidei_fault_calls(d, TIDEI_FAULT_ANY) - calls >= p->n;
    disarm(d);
    if (status != TIDE_OK) check_error(p, t->name, status);
    if (reached && p->mode->status == TIDE_E_LOST) {
        check_lost(d);
        end_lost();
        return true;
    }
    if (status == TIDE_OK) t->check();
    after_run();
    nothing_lost(p, t, before);
    if (run(t) != TIDE_OK)
        fail_msg("%s, %s %d, afterwards: %s", t->name, p->mode->name, (int)p->n, tide_last_error()->message);
    t->check();
    after_run();
    nothing_lost(p, t, before);
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(tidei_fault_inner(d)), 0);
    for (unsigned i = 0; i < TIDEI_COUNT(work.in); i++) drop(&work.in[i]);
    nothing_lost(p, t, (struct figures){0, 0, 0});
    close_counted(work.rt);
    return reached;
}

static void task_fails(void **state) {
    const struct task *t = *state;
    bool few = t->long_one && !test_on_host();
    EACH_SETTING(s) EACH_MODE(m) {
        struct plan p = {m, s, 1};
        if (few && s != settings) continue;
        while (fail_once(&p, t)) p.n += few ? 1 + p.n / 2 : 1;
        assert_true(p.n > 2);
    }
}

/* ---- a device that is lost while others use it ---- */

static void *wait_for_stream(void *arg) {
    static tide_error seen;
    tide_runtime *rt = arg;
    seen.status = tide_device_synchronize(rt);
    return &seen;
}
static void stand(void *gate) {
    while (!atomic_load((atomic_int *)gate)) sched_yield();
}

/* A wait that could never have ended ends; other runtimes go on. */
static void waits_end(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    EACH_SETTING(s) {
        tidei_device *d;
        assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = (size_t)16 << 20}, &d));
        tide_runtime *rt = open_on(s, d), *other = test_open(&(tide_config){.collector = "refcount"});
        atomic_int gate = 0;
        pthread_t thread;
        void *seen;
        tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(10));
        tide_use use = {.array = a, .mode = TIDE_WRITE};
        tide_use_scope *scope;
        void *p;
        assert_ok(tide_device_synchronize(rt));
        uint64_t waits = test_stats(rt).host_waits;
        assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
        assert_ok(tide_host_launch(scope, stand, &gate));
        assert_ok(tide_use_end(scope));
        assert_int_equal(pthread_create(&thread, NULL, wait_for_stream, rt), 0);
        usleep(2000); /* so that it waits already, usually: either way it must come back */
        tidei_host_lose(d, "an illegal address");
        pthread_join(thread, &seen);
        assert_int_equal(((tide_error *)seen)->status, TIDE_E_LOST);
        tide_clear_error();
        assert_null(tide_copy(a));
        assert_error(TIDE_E_LOST, "host:0 is lost: an illegal address");
        assert_error(TIDE_E_LOST, "last operation of the stream: tide_use_end");
        assert_int_equal(tide_item_f64(tide_ones(other, TIDE_F64, 0, NULL)), 1);
        assert_true(test_stats(rt).host_waits >= waits);
        atomic_store(&gate, 1); /* memory goes back once no function of the program's runs on it */
        tide_free(a);
        assert_int_equal(test_stats(rt).live, 0);
        if (!strcmp(s->collector, "refcount")) tide_release(a);
        tide_close(rt);
        tide_close(other);
        assert_int_equal(atomic_load(&hook.held), 0);
    }
}

/* A loss in one runtime is not told as another's. */
static void each_its_own_story(void **state) {
    tidei_device *d[2];
    tide_runtime *rt[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        d[i] = open_fault();
        rt[i] = open_on(&settings[0], d[i]);
        tidei_fault_set(d[i], i ? TIDEI_FAULT_FILL : TIDEI_FAULT_COPY, 1, TIDE_E_LOST, false);
    }
    assert_null(tide_from_host(rt[0], TIDE_I32, SHAPE(1), &(int32_t){1}));
    assert_error(TIDE_E_LOST, "call 1 of copy fails on purpose");
    assert_error(TIDE_E_LOST, "last operation of the stream: tide_from_host");
    assert_null(tide_zeros(rt[1], TIDE_I32, SHAPE(1)));
    assert_error(TIDE_E_LOST, "call 1 of fill fails on purpose");
    assert_error(TIDE_E_LOST, "last operation of the stream: tide_zeros");
    assert_int_equal(tide_synchronize(rt[0], NULL), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "call 1 of copy");
    for (int i = 0; i < 2; i++) tide_close(rt[i]);
    assert_int_equal(atomic_load(&hook.held), 0);
}

/* ---- */

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

int main(void) {
    static struct CMUnitTest tests[TIDEI_COUNT(tasks) + 3];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest){"opening", opening, fresh, NULL, NULL};
    for (size_t i = 0; i < TIDEI_COUNT(tasks); i++)
        tests[n++] = (struct CMUnitTest){tasks[i].name, task_fails, fresh, NULL, (void *)(uintptr_t)&tasks[i]};
    tests[n++] = (struct CMUnitTest){"waits_end", waits_end, fresh, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"each_its_own_story", each_its_own_story, fresh, NULL, NULL};
    return _cmocka_run_group_tests("failures", tests, n, open_all, close_all);
}
