/* test_handles.c: the cache of library handles, over a library that only counts, and a double of the driver, on the host device:
** who gets which handle, what is counted for it, how it gives way, and how room is made for it between blocks. E13 ("hoarding") is
** here: parked threads keep nothing. */
#include "libs/handles.h"
#include "arrays/kernels.h"
#include "libs/libs.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/pools.h"
#include "tests/failing_host.h"
#include "tests/logged.h"

#define PAGE   (64 * TIDEI_KIB) /* of the host device */
#define TAKES  (256 * TIDEI_KIB)
#define MEMORY (16 * TIDEI_MIB)
#define MANY   8

/* ---- the library ---- */

typedef struct fake_handle {
    const tidei_handle_kind *kind;
    tidei_addr memory;
    size_t bytes;
    atomic_bool in_call;
    void *workspace; /* since the stream was set */
} fake_handle;

static struct {
    tide_runtime *rt;
    atomic_int made, destroyed, runs;
    size_t takes, others_take, expected; /* expected: counted before one is made */
    tidei_addr others;
    unsigned fail_create, fail_run;     /* statuses */
    atomic_int fail_runs, fail_destroy; /* how often */
    atomic_bool no_context;
    atomic_int entered, await; /* contexts pushed so far; how many there are to be before one is made */
    char context;
} fake;
static _Thread_local int depth; /* contexts pushed */

static tidei_cu_result f_name(tidei_cu_result r, const char **out) { return (void)r, *out = "CUDA_ERROR_X", 0; }
static tidei_cu_result f_context(tidei_cu_stream s, tidei_cu_ctx *out) {
    (void)s;
    *out = (tidei_cu_ctx)(void *)&fake.context;
    return fake.no_context ? 1 : 0;
}
static tidei_cu_result f_current(tidei_cu_ctx *c) { return *c = NULL, 0; }
static tidei_cu_result f_push(tidei_cu_ctx c) {
    (void)c;
    if (fake.no_context) return 1;
    depth++;
    atomic_fetch_add(&fake.entered, 1);
    return 0;
}
static tidei_cu_result f_pop(tidei_cu_ctx *c) { return (void)c, depth--, 0; }
static const tidei_cu driver = {.cuGetErrorName = f_name,
                                .cuStreamGetCtx = f_context,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop};

enum { NO_MEMORY = 3, BROKEN = 9 };
static const char the_lib = 'L';
static const void *lib(void) { return &the_lib; }
static tidei_device *device(void) { return fake.rt->devs[0].d; }

static unsigned create_of(const void *l, void **out, const tidei_handle_kind *kind) {
    assert_ptr_equal(l, &the_lib);
    assert_int_equal(depth, 1);
    assert_true(atomic_load(&fake.rt->devs[0].library) >= fake.expected); /* reserved */
    while (atomic_load(&fake.entered) < atomic_load(&fake.await)) sched_yield();
    if (fake.fail_create) return fake.fail_create;
    tidei_addr memory;
    if (device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, fake.takes, &memory) != TIDE_OK) return NO_MEMORY;
    fake_handle *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->memory = memory;
    h->bytes = fake.takes;
    atomic_fetch_add(&fake.made, 1);
    if (fake.others_take)
        assert_ok(device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, fake.others_take, &fake.others));
    h->kind = kind;
    *out = h;
    return 0;
}
static unsigned f_destroy(const void *l, void *handle) {
    fake_handle *h = handle;
    assert_ptr_equal(l, &the_lib);
    assert_int_equal(depth, 1);
    assert_false(atomic_load(&h->in_call));
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, h->memory, h->bytes);
    free(h);
    atomic_fetch_add(&fake.destroyed, 1);
    return atomic_fetch_sub(&fake.fail_destroy, 1) > 0 ? BROKEN : 0;
}
static unsigned f_stream(const void *l, void *handle, void *native) {
    fake_handle *h = handle;
    (void)l, (void)native;
    assert_int_equal(depth, 1);
    assert_false(atomic_exchange(&h->in_call, true)); /* one call has it */
    h->workspace = NULL;
    return 0;
}
static unsigned f_workspace(const void *l, void *handle, void *at, size_t bytes) {
    (void)l;
    assert_true(at && bytes == PAGE);
    ((fake_handle *)handle)->workspace = at;
    return 0;
}
static const unsigned short_codes[] = {NO_MEMORY};
static unsigned create_one(const void *l, void **out);
static unsigned create_other(const void *l, void **out);
static unsigned create_third(const void *l, void **out);
static unsigned create_large(const void *l, void **out);
#define KIND(text, maker, bytes)                                                                                   \
    {                                                                                                              \
        .name = text, .about = bytes, .most = 2 * (bytes), .lib = lib, .create = maker, .destroy = f_destroy,      \
        .set_stream = f_stream, .set_workspace = f_workspace, .short_codes = short_codes, .nshort = 1              \
    }
static const tidei_handle_kind one_kind = KIND("libone", create_one, TAKES),
                               other_kind = KIND("libother", create_other, TAKES),
                               third_kind = KIND("libthree", create_third, TAKES),
                               large_kind = KIND("liblarge", create_large, 12 * TAKES);
static unsigned create_one(const void *l, void **out) { return create_of(l, out, &one_kind); }
static unsigned create_other(const void *l, void **out) { return create_of(l, out, &other_kind); }
static unsigned create_third(const void *l, void **out) { return create_of(l, out, &third_kind); }
static unsigned create_large(const void *l, void **out) { return create_of(l, out, &large_kind); }

/* ---- calls ---- */

/* What a call does while it has its handle. */
typedef struct step {
    pthread_barrier_t *inside; /* (may be NULL) meets others there, twice */
    int again;                 /* how often the operands were brought back */
    fake_handle *had;
} step;

static unsigned run(const tidei_library_call *c, void *handle, const tidei_window *w) {
    fake_handle *h = handle;
    step *x = c->arg;
    assert_ptr_equal(h->kind, c->kind);
    assert_true(atomic_load(&h->in_call) && depth == 1);
    assert_ptr_equal(h->workspace, (void *)(uintptr_t)w->ranges[c->n - 1].addr);
    x->had = h;
    if (x->inside) {
        pthread_barrier_wait(x->inside);
        pthread_barrier_wait(x->inside);
    }
    atomic_fetch_add(&fake.runs, 1);
    unsigned r = atomic_fetch_sub(&fake.fail_runs, 1) > 0 ? fake.fail_run : 0;
    atomic_store(&h->in_call, false);
    return r;
}
static tide_status again(const tidei_library_call *c) {
    ((step *)c->arg)->again++;
    return TIDE_OK;
}
static void describe(const tidei_library_call *c, char *buf, size_t cap) {
    (void)c;
    snprintf(buf, cap, "a call of the test's");
}

static tide_status call_on(tide_stream *s, const tidei_handle_kind *k, step *x) {
    tidei_storage *workspace;
    tidei_use use;
    tidei_library_call c = {.kind = k,
                            .lib = lib(),
                            .s = s,
                            .uses = &use,
                            .n = 1,
                            .workspace = true,
                            .run = run,
                            .again = again,
                            .describe = describe,
                            .arg = x,
                            .op = "tide_test"};
    tide_status status = tidei_library_begin(&c);
    if (status != TIDE_OK) return status;
    status = tidei_storage_new(s->dev, PAGE, s, "tide_test", &workspace);
    if (status == TIDE_OK) {
        use = (tidei_use){.st = workspace, .offset = 0, .bytes = PAGE, .mode = TIDEI_READ | TIDEI_WRITE};
        status = tidei_library_run(&c);
        tidei_storage_release(workspace);
    }
    tidei_library_end(&c);
    return status;
}
static tide_status call(void) { return call_on(fake.rt->devs[0].stream0, &one_kind, &(step){0}); }

/* ---- a runtime ---- */

static void begin(void) {
    memset(&fake, 0, sizeof fake);
    tide_clear_error();
    logged.n = 0;
    fake.takes = TAKES;
    tidei_cu_use(&driver);
}
static void open_pool(const char *limit, const char *pool) {
    begin();
    fake.rt = test_open(&(tide_config){.device = "host",
                                       .collector = "refcount",
                                       .limit = limit,
                                       .pool = pool,
                                       .host_memory = "16MiB",
                                       .log_level = TIDE_LOG_WARNING,
                                       .log = keep_line});
}
static void open_with(const char *limit) { open_pool(limit, "tide"); }
static int setup(void **state) {
    (void)state;
    open_with(NULL);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tide_close(fake.rt);
    assert_int_equal(fake.made, fake.destroyed);
    assert_int_equal(depth, 0);
    tidei_cu_use(NULL);
    return 0;
}
static size_t library(void) { return test_stats(fake.rt).library; }
static tidei_handle_figures figures(const tidei_handle_kind *k) {
    tidei_handle_figures f;
    tidei_handles_figures(&fake.rt->devs[0], k, &f);
    return f;
}
static tidei_storage *hold(size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(&fake.rt->devs[0], bytes, fake.rt->devs[0].stream0, "test", &st));
    return st;
}
static size_t device_free(void) {
    size_t free_bytes, total;
    assert_ok(device()->ops->memory(device(), &free_bytes, &total));
    return free_bytes;
}

/* ---- threads that are in calls at once ---- */

typedef struct caller {
    pthread_t thread;
    const tidei_handle_kind *kind;
    step step;
    tide_status status;
    pthread_barrier_t *parked; /* (may be NULL) meets there after its call, twice, then calls once more */
} caller;

static void *caller_main(void *p) {
    caller *c = p;
    tidei_thread *t = tidei_thread_get(fake.rt);
    tide_stream *s = tidei_thread_stream(t);
    c->status = call_on(s, c->kind, &c->step);
    if (c->parked) {
        pthread_barrier_wait(c->parked);
        pthread_barrier_wait(c->parked);
        if (c->status == TIDE_OK) c->status = call_on(s, c->kind, &(step){0});
    }
    tide_thread_detach(fake.rt);
    return NULL;
}
static void start(caller *c) { assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0); }
static void finish(caller *c) {
    pthread_join(c->thread, NULL);
    assert_int_equal(c->status, TIDE_OK);
}

/* ---- who gets which ---- */

static void one_handle_serves_all_streams(void **state) {
    (void)state;
    tide_stream *s;
    assert_ok(tide_stream_new(fake.rt, &s));
    for (int i = 0; i < 5; i++) {
        assert_ok(call());
        assert_ok(call_on(s, &one_kind, &(step){0}));
    }
    tide_stream_release(s);
    assert_int_equal(fake.runs, 10);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_int_equal(fake.made, 2);
    assert_int_equal(library(), 2 * TAKES);
}

static void calls_at_once_have_handles_of_their_own(void **state) {
    (void)state;
    pthread_barrier_t inside;
    caller c[4];
    pthread_barrier_init(&inside, NULL, TIDEI_COUNT(c) + 1);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    assert_int_equal(figures(&one_kind).made, 4);
    assert_int_equal(figures(&one_kind).idle, 0);
    uint64_t occasion = tidei_reclaim_occasion(fake.rt);
    assert_int_equal(tidei_reclaimables_call(&fake.rt->devs[0], TIDEI_DROP, SIZE_MAX, occasion),
                     0); /* those in calls stay */
    assert_int_equal(fake.destroyed, 0);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) finish(&c[i]);
    pthread_barrier_destroy(&inside);
    assert_int_equal(figures(&one_kind).idle, 4);
    assert_int_equal(library(), 4 * TAKES);
}

/* Of threads whose first calls come at once one makes the handle, which the others wait for: nobody climbs for a second one. */
static void first_calls_at_once_make_one_handle(void **state) {
    caller c[2] = {{.kind = &one_kind}, {.kind = &one_kind}};
    teardown(state);
    open_with("448KiB"); /* less than two handles */
    fake.await = 2;      /* both have seen that there is none */
    for (unsigned i = 0; i < 2; i++) start(&c[i]);
    for (unsigned i = 0; i < 2; i++) finish(&c[i]);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_int_equal(test_stats(fake.rt).climbs, 0);
}

/* As many calls at once as there are places; then their handles are idle, and another kind's is made in place of one. */
static void idle_handles_leave_another_kind_its_place(void **state) {
    enum { PLACES = 64 };
    (void)state;
    pthread_barrier_t inside;
    caller c[PLACES];
    fake.takes = PAGE;
    pthread_barrier_init(&inside, NULL, PLACES + 1);
    for (unsigned i = 0; i < PLACES; i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    caller other = {.kind = &other_kind}; /* waits, there being no place at all */
    start(&other);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < PLACES; i++) finish(&c[i]);
    finish(&other);
    pthread_barrier_destroy(&inside);
    assert_int_equal(figures(&one_kind).idle, PLACES - 1);
    assert_int_equal(figures(&other_kind).idle, 1);
    assert_int_equal(library(), PLACES * PAGE);
    assert_ok(call());
    fake.no_context = true; /* nor does anybody wait for ever where none can go */
    assert_int_equal(call_on(fake.rt->devs[0].stream0, &third_kind, &(step){0}), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "no place for a libthree handle: one of 64 others could not be destroyed");
    fake.no_context = false;
    assert_ok(call_on(fake.rt->devs[0].stream0, &third_kind, &(step){0}));
}

/* Under a limit that two handles do not fit into, the second caller waits for the first one's, and nobody climbs. */
static void a_duplicate_is_not_climbed_for(void **state) {
    (void)state;
    teardown(state);
    open_with("512KiB");
    pthread_barrier_t inside;
    caller first = {.kind = &one_kind, .step.inside = &inside}, second = {.kind = &one_kind};
    pthread_barrier_init(&inside, NULL, 2);
    start(&first);
    pthread_barrier_wait(&inside);
    start(&second);
    while (fake.runs == 0 && atomic_load(&fake.rt->devs[0].live) < 2 * PAGE)
        sched_yield(); /* it has its workspace */
    pthread_barrier_wait(&inside);
    finish(&first);
    finish(&second);
    pthread_barrier_destroy(&inside);
    assert_int_equal(fake.made, 1);
    assert_ptr_equal(first.step.had, second.step.had);
    assert_int_equal(test_stats(fake.rt).climbs, 0);
}

/* Workers that have used a handle and now sleep for ever hold none: all of it can be had, by whoever wants it. */
static void e13_hoarding(void **state) {
    (void)state;
    pthread_barrier_t inside, parked;
    caller c[MANY];
    size_t before = device_free();
    pthread_barrier_init(&inside, NULL, MANY + 1);
    pthread_barrier_init(&parked, NULL, MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        c[i] = (caller){.kind = i % 2 ? &one_kind : &other_kind, .step.inside = &inside, .parked = &parked};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside); /* all are in calls: as many handles as can be */
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&parked);
    assert_int_equal(library(), MANY * TAKES);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
    assert_int_equal(fake.destroyed, MANY);
    assert_int_equal(device_free(), before); /* the driver's figure and ours agree */
    pthread_barrier_wait(&parked);           /* who wakes up is served */
    for (unsigned i = 0; i < MANY; i++) finish(&c[i]);
    pthread_barrier_destroy(&parked);
    pthread_barrier_destroy(&inside);
    assert_int_equal(fake.runs, 2 * MANY);
}

/* ---- the cap ---- */

/* So many calls at once, each with a handle. */
static void calls_at_once(unsigned n) {
    pthread_barrier_t inside;
    caller c[MANY];
    pthread_barrier_init(&inside, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        c[i] = (caller){.kind = &one_kind, .step.inside = &inside};
        start(&c[i]);
    }
    pthread_barrier_wait(&inside);
    assert_int_equal(figures(NULL).made, n);
    pthread_barrier_wait(&inside);
    for (unsigned i = 0; i < n; i++) finish(&c[i]);
    pthread_barrier_destroy(&inside);
}

static void the_least_recently_used_goes_beyond_the_cap(void **state) {
    (void)state;
    tidei_handles_set_cap(fake.rt, 2 * TAKES);
    calls_at_once(4);
    assert_int_equal(figures(NULL).idle, 2);
    assert_ok(call());
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0})); /* a third: the older of the two goes */
    assert_int_equal(figures(&one_kind).idle, 1);
    assert_ok(call());
    assert_int_equal(fake.made, 5);    /* the one used last was not the one to go */
    tidei_handles_set_cap(fake.rt, 0); /* but for the last one of each kind */
    assert_int_equal(figures(NULL).idle, 2);
}

static void the_cap_is_a_setting(void **state) {
    teardown(state);
    setenv("TIDE_HANDLE_CACHE", "768KiB", 1);
    open_with(NULL);
    unsetenv("TIDE_HANDLE_CACHE");
    calls_at_once(MANY);
    assert_int_equal(figures(NULL).idle, 3);
}

/* ---- what is counted ---- */

static void bytes_are_reserved_before_and_measured_after(void **state) {
    (void)state;
    fake.takes = TAKES - PAGE;
    fake.expected = TAKES;
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
    fake.expected = fake.takes; /* from now on it is known */
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
}

static void what_takes_more_than_expected_is_counted_so(void **state) {
    (void)state;
    fake.takes = TAKES + PAGE;
    assert_ok(call());
    assert_int_equal(library(), fake.takes);
}

/* What another process takes at the same moment is not the handle's, nor does a later handle take another amount. */
static void what_others_take_is_not_counted(void **state) {
    (void)state;
    fake.others_take = 4 * TAKES;
    assert_ok(call());
    assert_int_equal(library(), TAKES);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, fake.others, fake.others_take);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    fake.others_take = TAKES / 2;
    assert_ok(call());
    assert_int_equal(library(), TAKES);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, fake.others, fake.others_take);
}

/* Beyond the soft limit what the pools hold idle goes before a handle is made. */
static void a_handle_keeps_to_the_soft_limit(void **state) {
    (void)state;
    assert_ok(tide_set_soft_limit(fake.rt, 8 * TAKES));
    tidei_storage_release(hold(8 * TAKES)); /* cached */
    assert_int_equal(atomic_load(&fake.rt->devs[0].backed), 8 * TAKES);
    assert_ok(call());
    assert_true(atomic_load(&fake.rt->devs[0].backed) + library() <= 8 * TAKES);
    assert_int_equal(test_stats(fake.rt).climbs, 0);
}

static void a_handle_keeps_to_the_limit(void **state) {
    (void)state;
    teardown(state);
    open_with("1MiB");
    tidei_storage *rest = hold(TIDEI_MIB - TAKES);
    fake.takes = TAKES + PAGE;
    assert_int_equal(call(), TIDE_E_NOMEM); /* it was made, and was more than expected */
    assert_error(TIDE_E_NOMEM, "a libone handle takes 327680 bytes, more than the limit leaves");
    assert_true(fake.made >= 1 && fake.made == fake.destroyed);
    int made = fake.made;
    assert_int_equal(call(), TIDE_E_NOMEM); /* which is known now */
    assert_int_equal(fake.made, made);
    assert_int_equal(library(), 0);
    tidei_storage_release(rest);
    assert_ok(call()); /* having trimmed what was let go */
    assert_int_equal(library(), fake.takes);
}

/* ---- giving way ---- */

/* Two kinds, two handles each. */
static void two_of_each(void) {
    const tidei_handle_kind *const kinds[] = {&one_kind, &other_kind};
    for (unsigned k = 0; k < 2; k++) {
        pthread_barrier_t inside;
        caller c[2];
        pthread_barrier_init(&inside, NULL, 3);
        for (unsigned i = 0; i < 2; i++) {
            c[i] = (caller){.kind = kinds[k], .step.inside = &inside};
            start(&c[i]);
        }
        pthread_barrier_wait(&inside);
        pthread_barrier_wait(&inside);
        for (unsigned i = 0; i < 2; i++) finish(&c[i]);
        pthread_barrier_destroy(&inside);
    }
    assert_int_equal(figures(NULL).idle, 4);
}

static void purge_leaves_what_was_used_last(void **state) {
    (void)state;
    two_of_each();
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_PURGE, NULL));
    assert_int_equal(fake.destroyed, 2);
    assert_ok(call());
    assert_int_equal(fake.made, 4);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 4);
    assert_int_equal(library(), 0);
}

/* The climb takes as many as the request needs, and of what is in use the last one only where nothing else helps. */
static void the_ladder_takes_what_it_needs(void **state) {
    (void)state;
    teardown(state);
    open_with("4MiB");
    two_of_each();
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_SYNC, NULL)); /* the workspaces; and of each kind one */
    assert_int_equal(fake.destroyed, 2);
    tidei_storage *rest = hold(4 * TIDEI_MIB - 2 * TAKES);
    assert_int_equal(fake.destroyed, 2);
    tidei_storage *more = hold(PAGE);
    assert_int_equal(library(), TAKES); /* one kind's: the older one */
    assert_int_equal(figures(&one_kind).made, 0);
    tidei_storage *most = hold(2 * TAKES - PAGE);
    assert_int_equal(library(), 0);
    assert_int_equal(call(), TIDE_E_NOMEM);
    tidei_storage_release(most);
    assert_ok(call());
    tidei_storage_release(more);
    tidei_storage_release(rest);
}

/* A call in progress keeps the handle that it is about to use, while it makes room for what it needs besides. */
static void a_call_in_progress_keeps_a_handle(void **state) {
    (void)state;
    teardown(state);
    open_with("1MiB");
    assert_ok(call());
    tidei_storage *rest = hold(TIDEI_MIB - TAKES), *more;
    tidei_dev *d = &fake.rt->devs[0];
    assert_int_equal(call(), TIDE_E_NOMEM); /* no room for its workspace */
    assert_int_equal(fake.destroyed, 0);
    tidei_library_keep(d, &one_kind);
    assert_int_equal(tidei_storage_new(d, PAGE, d->stream0, "test", &more), TIDE_E_NOMEM);
    tidei_library_unkeep(d, &one_kind);
    assert_int_equal(fake.destroyed, 0);
    assert_ok(tidei_storage_new(d, PAGE, d->stream0, "test", &more));
    assert_int_equal(fake.destroyed, 1);
    tidei_storage_release(more);
    tidei_storage_release(rest);
}

static void one_that_fails_does_not_stop_the_others(void **state) {
    (void)state;
    two_of_each();
    fake.fail_destroy = 1;
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 4);
    assert_int_equal(figures(NULL).made, 0);
    assert_int_equal(library(), TAKES); /* what did not come back, as far as anybody knows */
    assert_true(lines_with(TIDE_LOG_WARNING, "error 9 in destroying a handle of 262144 bytes") >= 1);
    assert_ok(call());
}

/* What cannot be destroyed now stays whole, and counted. */
static void without_a_context_nothing_is_lost(void **state) {
    (void)state;
    two_of_each();
    fake.no_context = true;
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(fake.destroyed, 0);
    assert_int_equal(library(), 4 * TAKES);
    fake.no_context = false;
    assert_ok(call());
    assert_int_equal(fake.made, 4);
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    assert_int_equal(library(), 0);
}

/* ---- statuses ---- */

/* A device that others have filled but for a little, with garbage of ours that would help. */
static tidei_addr fill_device(size_t leave, size_t *bytes) {
    tidei_addr at;
    *bytes = (device_free() - leave) / PAGE * PAGE;
    assert_ok(device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, *bytes, &at));
    return at;
}

static void a_call_that_lacks_memory_climbs_and_repeats(void **state) {
    (void)state;
    size_t bytes;
    assert_ok(call());
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    step x = {0};
    fake.fail_run = NO_MEMORY;
    fake.fail_runs = 2;
    assert_ok(call_on(fake.rt->devs[0].stream0, &one_kind, &x));
    assert_int_equal(x.again, 2); /* its operands were brought back each time */
    assert_int_equal(test_stats(fake.rt).climbs, 1);
    fake.fail_runs = 1000;
    assert_int_equal(call(), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "libone: error 3 in a call of the test's with");
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    fake.fail_runs = 0;
    assert_ok(call());
}

/* The same status with memory in plenty is something else, as are other statuses: nothing is collected for them. */
static void other_failures_do_not_climb(void **state) {
    (void)state;
    static const unsigned statuses[] = {NO_MEMORY, BROKEN};
    size_t bytes;
    for (int full = 0; full < 2; full++)
        for (unsigned i = 0; i < 2; i++) {
            if (full && statuses[i] == NO_MEMORY) continue;
            assert_ok(call());
            tidei_addr at = full ? fill_device(2 * PAGE, &bytes) : 0;
            step x = {0};
            fake.fail_run = statuses[i];
            fake.fail_runs = 1;
            assert_int_equal(call_on(fake.rt->devs[0].stream0, &one_kind, &x), TIDE_E_DEVICE);
            assert_error(TIDE_E_DEVICE, "in a call of the test's");
            assert_int_equal(x.again, 0);
            if (full) device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, at, bytes);
        }
    fake.fail_create = NO_MEMORY;
    assert_int_equal(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "memory is not the reason");
    assert_int_equal(test_stats(fake.rt).climbs, 0);
    assert_int_equal(test_stats(fake.rt).collections, 0);
}

/* A handle that the library has no memory for is made of what the pool holds free. */
static void making_a_handle_climbs(void **state) {
    (void)state;
    size_t bytes;
    tidei_storage_release(hold(4 * TAKES)); /* cached */
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    assert_ok(call());
    assert_int_equal(fake.made, 1);
    assert_int_equal(test_stats(fake.rt).climbs, 1);
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
}

/* ---- between blocks ---- What is free near the limit lies in parts of pages, beside blocks. */

enum { BLOCKS = 42, GONE = 16, SPARE = 2 }; /* SPARE: pages beside what lives and the handle */
#define BLOCK (24 * TIDEI_KIB)
_Static_assert((BLOCKS - GONE) * BLOCK + TAKES + SPARE * PAGE <= TIDEI_MIB, "a limit of 1 MiB forces nothing");
static tide_array *blocks[BLOCKS];

static void fill_block(unsigned char *at, int i) {
    for (size_t k = 0; k < BLOCK; k++) at[k] = (unsigned char)(k * 7 + (size_t)i);
}
/* Blocks from one number to another; then so many of all go, here and there. */
static void fill(int to, int from) {
    unsigned char bytes[BLOCK];
    for (int i = from; i < to; i++) {
        fill_block(bytes, i);
        assert_array(blocks[i] = tide_from_host(fake.rt, TIDE_U8, SHAPE(BLOCK), bytes));
    }
}
static void thin_out(int n, int gone) {
    assert_ok(tide_device_synchronize(fake.rt));
    for (int i = 0; i < n; i++)
        if (i * gone / n != (i + 1) * gone / n) tide_release(blocks[i]), blocks[i] = NULL;
    assert_int_equal(test_stats(fake.rt).live, (size_t)(n - gone) * BLOCK);
}
static void scatter(int n, int gone) {
    fill(n, 0);
    thin_out(n, gone);
}
static void assert_blocks(void) {
    unsigned char bytes[BLOCK], expected[BLOCK];
    for (int i = 0; i < BLOCKS; i++) {
        if (!blocks[i]) continue;
        fill_block(expected, i);
        assert_ok(tide_to_host(blocks[i], bytes, BLOCK));
        assert_memory_equal(bytes, expected, BLOCK);
    }
    assert_true(tidei_runtime_valid(fake.rt));
}
static void gather_up(void) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) tide_release(blocks[i]), blocks[i] = NULL;
}

static void a_handle_is_made_of_parts_of_pages(void **state) {
    teardown(state);
    open_with("1MiB");
    scatter(BLOCKS, GONE);
    assert_ok(call());
    assert_int_equal(tide_last_error()->status, TIDE_OK);
    assert_int_equal(fake.made, 1);
    assert_int_equal(library(), TAKES);
    assert_int_equal(test_stats(fake.rt).climbs, 1);
    tidei_pool_stats ps;
    tidei_pools_stats(&fake.rt->devs[0], &ps);
    assert_true(ps.compactions > 0);
    assert_true(atomic_load(&fake.rt->devs[0].backed) <= TIDEI_MIB - TAKES);
    assert_blocks();
    gather_up();
}

/* What the library really takes is known once the first one was made, and was one too many: then as much is made room for. What
** the climb before it failed of is no error of the call's, and an earlier one stands. */
static void room_is_made_for_what_a_handle_takes(void **state) {
    enum { LIVE = 21 };
    _Static_assert(LIVE * BLOCK + TAKES + 2 * PAGE + SPARE * PAGE <= TIDEI_MIB, "a limit of 1 MiB forces nothing");
    for (int earlier = 0; earlier < 2; earlier++) {
        teardown(state);
        open_with("1MiB");
        scatter(BLOCKS, BLOCKS - LIVE);
        fake.takes = TAKES + 2 * PAGE;
        if (earlier) (void)tidei_fail(TIDE_E_SHAPE, "tide_test", "an earlier one");
        assert_ok(call());
        if (earlier) assert_error(TIDE_E_SHAPE, "an earlier one");
        assert_int_equal(tide_last_error()->status, earlier ? TIDE_E_SHAPE : TIDE_OK);
        tide_clear_error();
        assert_int_equal(fake.made, 2);
        assert_int_equal(library(), TAKES + 2 * PAGE);
        assert_int_equal(test_stats(fake.rt).climbs, 2);
        assert_blocks();
        gather_up();
    }
}

/* Neither is enough, what another handle leaves or what lies between blocks; together they are. */
static void what_is_dropped_counts_too(void **state) {
    teardown(state);
    open_with("1MiB");
    fake.takes = TAKES + 2 * PAGE;
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_DROP, NULL));
    fake.takes = TAKES;
    assert_ok(call());
    assert_ok(tide_reclaim(fake.rt, TIDE_RECLAIM_PURGE, NULL)); /* the workspace */
    scatter(32, 8);
    fake.takes = TAKES + 2 * PAGE;
    assert_ok(call_on(fake.rt->devs[0].stream0, &other_kind, &(step){0}));
    assert_int_equal(library(), TAKES + 2 * PAGE);
    assert_int_equal(test_stats(fake.rt).climbs, 1);
    assert_blocks();
    gather_up();
}

/* Each pool gives a part. */
static void several_pools_are_cleared(void **state) {
    tide_pool_config c = {.struct_size = sizeof c};
    tide_pool *own;
    teardown(state);
    open_with("1MiB");
    assert_ok(tide_pool_new(fake.rt, &c, &own));
    fill(BLOCKS / 2, 0);
    assert_ok(tide_pool_set(fake.rt, own));
    fill(BLOCKS, BLOCKS / 2);
    assert_ok(tide_pool_set(fake.rt, NULL));
    thin_out(BLOCKS, GONE);
    assert_ok(call());
    assert_blocks();
    gather_up();
    tide_pool_release(own);
}

/* A loaded kernel takes memory of the device's as well. */
static struct tidei_device_ops loading_ops;
static tide_status load_in_a_page(tidei_device *d, const tidei_kernel_text *text, tidei_dkernel **out, void **image,
                                  size_t *image_bytes) {
    (void)text, (void)image, (void)image_bytes;
    static tidei_addr at;
    *out = (tidei_dkernel *)(void *)&at;
    return d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, PAGE, &at);
}
static void unload(tidei_device *d, tidei_dkernel *k) {
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, *(tidei_addr *)(void *)k, PAGE);
}
static void a_kernel_is_loaded_where_blocks_were(void **state) {
    (void)state;
    size_t bytes;
    tidei_dkernel *k;
    loading_ops = *device()->ops;
    loading_ops.kernel_new = load_in_a_page;
    loading_ops.kernel_release = unload;
    device()->ops = &loading_ops;
    scatter(BLOCKS, GONE);
    tidei_addr full = fill_device(0, &bytes);
    assert_ok(tidei_kernel_get(&fake.rt->devs[0], "k", "text", "tide_test", &k));
    assert_int_equal(test_stats(fake.rt).climbs, 1);
    assert_blocks();
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    gather_up();
}

/* It is the device that is short, and no limit. */
static void so_it_is_where_the_device_is_short(void **state) {
    (void)state;
    size_t bytes;
    scatter(BLOCKS, GONE);
    tidei_addr full = fill_device(2 * PAGE, &bytes);
    assert_ok(call());
    assert_int_equal(fake.made, 1);
    assert_blocks();
    device()->ops->raw_free(device(), TIDEI_MEM_DEVICE, full, bytes);
    gather_up();
}

/* Nobody is to blame: the blocks must not move. */
static void pinned_blocks_leave_no_room(void **state) {
    tide_use uses[BLOCKS - GONE];
    void *at[BLOCKS - GONE];
    unsigned n = 0;
    tide_use_scope *scope;
    teardown(state);
    open_with("1MiB");
    scatter(BLOCKS, GONE);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) uses[n++] = (tide_use){.array = blocks[i], .mode = TIDE_READ};
    assert_ok(tide_use_begin(fake.rt, NULL, uses, n, at, &scope));
    size_t backed = atomic_load(&fake.rt->devs[0].backed);
    assert_int_equal(call(), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "out of memory on");
    assert_error(TIDE_E_NOMEM, "256.000 KiB wanted by tide_test");
    assert_error(TIDE_E_NOMEM, "(pinned 624.000 KiB)");
    assert_error(TIDE_E_NOMEM, "a libone handle takes 262144 bytes, more than the limit leaves");
    tide_clear_error();
    assert_int_equal(library(), 0);
    assert_true(atomic_load(&fake.rt->devs[0].backed) <= backed);
    assert_ok(tide_use_end(scope));
    assert_blocks();
    assert_ok(call());
    assert_blocks();
    gather_up();
}

/* Pools that move nothing: whatever comes of it, nothing is lost. */
static void other_pools_keep_what_they_have(void **state) {
    for (unsigned k = 0; k < TEST_POOLS; k++) {
        teardown(state);
        open_pool(NULL, test_pool(k));
        scatter(BLOCKS, GONE);
        assert_ok(tide_set_limit(fake.rt, atomic_load(&fake.rt->devs[0].backed)));
        tide_status status = call();
        assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
        tide_clear_error();
        assert_blocks();
        gather_up();
    }
}

/* A large handle among blocks of all sizes, some of which are pinned. A pinned block is a small one, on two pages at most, on which
** nothing else may be counted on. */
enum { PINNED = 4, LARGEST = 8 * PAGE, MEMORY_PAGES = 128, LARGE_PAGES = 48 };
static size_t takes_up(const tidei_storage *st) { return tidei_round_up(st->bytes, 256); }
static void random_blocks(unsigned seed, tidei_storage **st, unsigned n, tidei_storage **pinned) {
    size_t most = (MEMORY_PAGES - LARGE_PAGES - 2 - 2 * PINNED) * PAGE, live = 0;
    uint32_t dice = seed * 2654435761u + 1;
    for (unsigned i = 0; i < n && live < (MEMORY_PAGES - 2) * PAGE - LARGEST; i++) {
        dice = dice * 1664525 + 1013904223;
        size_t bytes = ((size_t)1024 << (dice >> 8) % 10) * (4 + (dice >> 20) % 4) / 4;
        live += takes_up(st[i] = hold(tidei_min_size(bytes, LARGEST)));
    }
    for (unsigned k = 0; k < PINNED || live > most;) {
        dice = dice * 1664525 + 1013904223;
        tidei_storage **one = &st[(dice >> 8) % n];
        if (!*one || (k < PINNED && (*one)->bytes > PAGE)) continue;
        if (k < PINNED) {
            tidei_storage_pin(pinned[k++] = *one);
        } else {
            live -= takes_up(*one);
            tidei_storage_release(*one);
        }
        *one = NULL;
    }
}
static void pinned_blocks_cost_their_pages_alone(void **state) {
    enum { MANY_BLOCKS = 400 };
    unsigned failed = 0;
    for (unsigned seed = 0; seed < (test_quick() ? 30u : 200u); seed++) {
        tidei_storage *st[MANY_BLOCKS] = {NULL}, *pinned[PINNED];
        teardown(state);
        open_with("8MiB");
        fake.takes = LARGE_PAGES * PAGE;
        random_blocks(seed, st, MANY_BLOCKS, pinned);
        tide_status status = call_on(fake.rt->devs[0].stream0, &large_kind, &(step){0});
        failed += status != TIDE_OK;
        for (unsigned i = 0; i < PINNED; i++) {
            tidei_storage_unpin(pinned[i]);
            tidei_storage_release(pinned[i]);
        }
        for (unsigned i = 0; i < MANY_BLOCKS; i++)
            if (st[i]) tidei_storage_release(st[i]);
    }
    assert_int_equal(failed, 0);
}

/* Pages of four times the device's, which large requests got: a handle needs them whole as well. */
static void larger_pages_are_cleared_too(void **state) {
    enum { LARGE = 4 * PAGE, PIECE = 5 * PAGE / 2, PIECES = 64 * TIDEI_MIB / PIECE, LET_GO = 7 };
    static tidei_storage *pieces[PIECES];
    teardown(state);
    begin();
    fake.rt = test_open(&(tide_config){
        .device = "host", .collector = "refcount", .pool = "tide", .limit = "64MiB", .host_memory = "64MiB"});
    _Static_assert(LET_GO * PIECE >= 2 * TAKES + 2 * LARGE, "it fits, with two pages to spare");
    fake.takes = 2 * TAKES;
    tidei_storage_release(hold(64 * TIDEI_MIB));
    for (int i = 0; i < PIECES; i++) pieces[i] = hold(PIECE);
    for (int i = 0; i < LET_GO; i++) tidei_storage_release(pieces[i * 40 + 1]), pieces[i * 40 + 1] = NULL;
    assert_ok(call());
    assert_int_equal(library(), 2 * TAKES);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i]) tidei_storage_release(pieces[i]);
}

enum way { MEMORY_ENDS, CALL_FAILS, HOST_FAILS, WAYS };

/* A runtime whose device and host memory can be made to fail. */
static tidei_device *open_faulty(void) {
    static const tide_host_memory host = {.alloc = failing_alloc, .free = plain_free};
    const tide_config c = {
        .struct_size = sizeof c, .collector = "refcount", .limit = "1MiB", .pool = "tide", .host = &host};
    tidei_device *inner, *faulty;
    begin();
    assert_ok(tidei_host_open(&(tidei_device_params){.host_memory = MEMORY}, &inner));
    assert_ok(tidei_fault_open(inner, &faulty));
    assert_ok(tidei_open_on(&c, faulty, &fake.rt));
    return faulty;
}

/* A lower limit, for which room has to be made likewise; one that is refused is as it was. */
static tide_status lower(void) {
    size_t before = atomic_load(&fake.rt->devs[0].limit), wanted = (BLOCKS - GONE) * BLOCK + SPARE * PAGE;
    tide_status status = tide_set_limit(fake.rt, wanted);
    size_t limit = atomic_load(&fake.rt->devs[0].limit);
    assert_int_equal(limit, status == TIDE_OK ? tidei_round_up(wanted, PAGE) : before);
    if (status == TIDE_OK) assert_true(atomic_load(&fake.rt->devs[0].backed) <= limit);
    return status;
}

/* What room has to be made for, and of all that it asks the n-th fails; false: it does not ask so often. */
static bool fails_at(tide_status (*wants_room)(void), tidei_device *faulty, enum way way, long n) {
    uint64_t before = tidei_fault_calls(faulty, TIDEI_FAULT_ANY);
    host_calls = 0;
    if (way == HOST_FAILS)
        host_fails = n;
    else
        tidei_fault_set(faulty, TIDEI_FAULT_ANY, (uint64_t)n, way == CALL_FAILS ? TIDE_E_DEVICE : TIDE_E_NOMEM,
                        way == MEMORY_ENDS);
    tide_status status = wants_room();
    uint64_t calls = way == HOST_FAILS ? (uint64_t)host_calls : tidei_fault_calls(faulty, TIDEI_FAULT_ANY) - before;
    host_fails = 0;
    tidei_fault_set(faulty, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM || status == TIDE_E_DEVICE ||
                status == TIDE_E_HOST_NOMEM);
    tide_clear_error();
    return calls >= (uint64_t)n;
}

/* Device calls that fail on the way, from the n-th on with a lack of memory or that one otherwise, and host allocations: nothing is
** lost, and what could not be had then can be had later. */
static void try_failures(void **state, tide_status (*wants_room)(void)) {
    for (enum way way = 0; way < WAYS; way++) {
        bool failed = true;
        for (long n = 1; failed; n++) {
            teardown(state);
            tidei_device *faulty = open_faulty();
            scatter(BLOCKS, GONE);
            failed = fails_at(wants_room, faulty, way, n);
            assert_blocks();
            assert_ok(wants_room());
            assert_blocks();
            gather_up();
            assert_true(n < 10000);
        }
    }
}
static void no_failure_on_the_way_loses_anything(void **state) { try_failures(state, call); }
static void nor_does_one_in_lowering_the_limit(void **state) { try_failures(state, lower); }

/* Where the moves themselves lose the device that is what is said, and not that memory is short. */
static void a_device_lost_on_the_way_is_said_to_be(void **state) {
    tide_status (*const wants_room[])(void) = {call, lower};
    for (unsigned i = 0; i < TIDEI_COUNT(wants_room); i++) {
        teardown(state);
        tidei_device *faulty = open_faulty();
        scatter(BLOCKS, GONE);
        tidei_fault_set(faulty, TIDEI_FAULT_COPY_MANY, 1, TIDE_E_LOST, true);
        assert_int_equal(wants_room[i](), TIDE_E_LOST);
        assert_int_equal(tide_last_error()->status, TIDE_E_LOST);
        assert_true(atomic_load(&device()->lost));
        assert_true(tidei_runtime_valid(fake.rt));
        tide_clear_error();
        gather_up();
    }
}

/* ---- all at once ---- */

typedef struct storm {
    pthread_t thread;
    unsigned seed;
    atomic_bool *stop;
    tide_status status;
} storm;

static void *storm_main(void *p) {
    storm *x = p;
    tide_stream *s = tidei_thread_stream(tidei_thread_get(fake.rt));
    int rounds = test_quick() ? 100 : 400;
    for (int i = 0; i < rounds && x->status == TIDE_OK; i++)
        x->status = call_on(s, (x->seed + (unsigned)i) % 3 ? &one_kind : &other_kind, &(step){0});
    tide_thread_detach(fake.rt);
    return NULL;
}
static void *reclaimer_main(void *p) {
    storm *x = p;
    while (!atomic_load(x->stop) && x->status == TIDE_OK)
        x->status = tide_reclaim(fake.rt, x->seed++ % 2 ? TIDE_RECLAIM_PURGE : TIDE_RECLAIM_DROP, NULL);
    tide_thread_detach(fake.rt);
    return NULL;
}

/* Callers and a reclaimer: each call has a handle to itself, whole; what is counted is what is there. */
static void callers_and_a_reclaimer(void **state) {
    (void)state;
    atomic_bool stop = false;
    storm c[4], r = {.stop = &stop};
    tidei_handles_set_cap(fake.rt, 3 * TAKES);
    assert_int_equal(pthread_create(&r.thread, NULL, reclaimer_main, &r), 0);
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        c[i] = (storm){.seed = i};
        assert_int_equal(pthread_create(&c[i].thread, NULL, storm_main, &c[i]), 0);
    }
    for (unsigned i = 0; i < TIDEI_COUNT(c); i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].status, TIDE_OK);
    }
    atomic_store(&stop, true);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.status, TIDE_OK);
    assert_int_equal(library(), (size_t)(fake.made - fake.destroyed) * TAKES);
    assert_int_equal(figures(NULL).idle, figures(NULL).made);
}

/* Threads that make and drop arrays, each within its budget, while the handle comes and goes: with all budgets, the handle, its
** workspace and two pages no more than the limit, nothing fails. While the handle is gone budgets are larger, so that each time it
** comes back what is free lies between blocks. */
enum { MAKERS = 3, MAKES = 32 };
#define BUDGET (192 * TIDEI_KIB)
#define LARGER (BUDGET + TAKES / 4)

typedef struct maker {
    pthread_t thread;
    unsigned seed;
    atomic_bool *stop;
    _Atomic size_t budget, held;
    _Atomic unsigned steps;
    _Atomic tide_status status;
    tide_array *arrays[MAKES];
    size_t bytes[MAKES];
} maker;

static bool maker_drops(maker *x, unsigned at) {
    unsigned char back[LARGER / 4];
    if (!x->arrays[at]) return true;
    bool good = tide_to_host(x->arrays[at], back, x->bytes[at]) == TIDE_OK;
    for (size_t k = 0; good && k < x->bytes[at]; k++) good = back[k] == (unsigned char)(x->seed * MAKES + at);
    tide_release(x->arrays[at]);
    x->arrays[at] = NULL;
    atomic_fetch_sub(&x->held, tidei_round_up(x->bytes[at], 256));
    return good;
}
static bool maker_makes(maker *x, unsigned at, size_t bytes) {
    unsigned char data[LARGER / 4];
    size_t whole = tidei_round_up(bytes, 256);
    if (atomic_load(&x->held) + whole > atomic_load(&x->budget)) return true;
    memset(data, (int)(x->seed * MAKES + at), bytes);
    atomic_fetch_add(&x->held, whole);
    x->bytes[at] = bytes;
    return (x->arrays[at] = tide_from_host(fake.rt, TIDE_U8, SHAPE((int64_t)bytes), data)) != NULL;
}
static void *maker_main(void *p) {
    maker *x = p;
    bool good = true;
    for (unsigned i = x->seed * 1000; good && !atomic_load(x->stop); i++) {
        uint32_t dice = i * 2654435761u >> 8;
        good = maker_drops(x, dice % MAKES) &&
               maker_makes(x, dice % MAKES, 1 + dice / MAKES % (dice % 5 ? LARGER / 16 : LARGER / 4));
        for (unsigned k = 0; good && atomic_load(&x->held) > atomic_load(&x->budget); k++)
            good = maker_drops(x, (dice + k) % MAKES);
        atomic_fetch_add(&x->steps, 1);
    }
    if (!good) atomic_store(&x->status, tide_last_error()->status ? tide_last_error()->status : TIDE_E_DEVICE);
    for (unsigned i = 0; i < MAKES; i++) maker_drops(x, i);
    tide_thread_detach(fake.rt);
    return NULL;
}

/* All are at work within this budget now, and have made so many arrays, or one has failed. */
static bool makers_keep_to(maker *m, size_t budget, unsigned steps) {
    bool good = true;
    for (unsigned i = 0; i < MAKERS; i++) atomic_store(&m[i].budget, budget);
    for (unsigned i = 0; i < MAKERS; i++)
        for (unsigned seen = atomic_load(&m[i].steps);
             (good = good && atomic_load(&m[i].status) == TIDE_OK) &&
             (atomic_load(&m[i].steps) - seen < steps || atomic_load(&m[i].held) > budget);)
            sched_yield();
    return good;
}

static void a_handle_comes_and_goes_among_arrays(void **state) {
    static maker m[MAKERS];
    atomic_bool stop = false;
    _Static_assert(MAKERS * BUDGET + TAKES + PAGE + 2 * PAGE <= TIDEI_MIB, "a limit of 1 MiB forces nothing");
    _Static_assert(MAKERS * LARGER + 2 * PAGE <= TIDEI_MIB, "nor does it without the handle");
    teardown(state);
    open_with("1MiB");
    memset(m, 0, sizeof m);
    for (unsigned i = 0; i < MAKERS; i++) {
        m[i].seed = i + 1, m[i].stop = &stop;
        assert_int_equal(pthread_create(&m[i].thread, NULL, maker_main, &m[i]), 0);
    }
    tide_status status = TIDE_OK;
    int rounds = test_quick() ? 20 : 100;
    for (int i = 0; i < rounds && status == TIDE_OK; i++) {
        uint64_t occasion = tidei_reclaim_occasion(fake.rt);
        tidei_reclaimables_call(&fake.rt->devs[0], TIDEI_DROP, SIZE_MAX, occasion);
        if (!makers_keep_to(m, LARGER, MAKES) || !makers_keep_to(m, BUDGET, 1)) break;
        status = call();
    }
    if (status != TIDE_OK) print_message("%s\n", tide_last_error()->message);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < MAKERS; i++) {
        pthread_join(m[i].thread, NULL);
        assert_int_equal(m[i].status, TIDE_OK);
    }
    assert_int_equal(status, TIDE_OK);
    assert_true(test_stats(fake.rt).climbs > 0);
    assert_int_equal(library(), TAKES);
    print_message("%u climbs\n", (unsigned)test_stats(fake.rt).climbs);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(one_handle_serves_all_streams),
        CASE(calls_at_once_have_handles_of_their_own),
        CASE(first_calls_at_once_make_one_handle),
        CASE(idle_handles_leave_another_kind_its_place),
        CASE(a_duplicate_is_not_climbed_for),
        CASE(e13_hoarding),
        CASE(the_least_recently_used_goes_beyond_the_cap),
        CASE(the_cap_is_a_setting),
        CASE(bytes_are_reserved_before_and_measured_after),
        CASE(what_takes_more_than_expected_is_counted_so),
        CASE(what_others_take_is_not_counted),
        CASE(a_handle_keeps_to_the_soft_limit),
        CASE(a_handle_keeps_to_the_limit),
        CASE(purge_leaves_what_was_used_last),
        CASE(the_ladder_takes_what_it_needs),
        CASE(a_call_in_progress_keeps_a_handle),
        CASE(one_that_fails_does_not_stop_the_others),
        CASE(without_a_context_nothing_is_lost),
        CASE(a_call_that_lacks_memory_climbs_and_repeats),
        CASE(other_failures_do_not_climb),
        CASE(making_a_handle_climbs),
        CASE(a_handle_is_made_of_parts_of_pages),
        CASE(room_is_made_for_what_a_handle_takes),
        CASE(what_is_dropped_counts_too),
        CASE(several_pools_are_cleared),
        CASE(a_kernel_is_loaded_where_blocks_were),
        CASE(so_it_is_where_the_device_is_short),
        CASE(pinned_blocks_leave_no_room),
        CASE(other_pools_keep_what_they_have),
        CASE(larger_pages_are_cleared_too),
        CASE(pinned_blocks_cost_their_pages_alone),
        CASE(no_failure_on_the_way_loses_anything),
        CASE(nor_does_one_in_lowering_the_limit),
        CASE(a_device_lost_on_the_way_is_said_to_be),
        CASE(callers_and_a_reclaimer),
        CASE(a_handle_comes_and_goes_among_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
