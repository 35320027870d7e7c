/* fake_library.h: a library whose handles only take memory and count, a double of the driver under
** it, and the runtime on the host device in which calls are made of it.
**
** A handle is so many bytes of the device's own memory (`fake.takes`), taken as a library takes
** them: not from the pools, and measured by the cache alone. A call runs no kernel: it has its
** handle and one page of workspace, and may wait there for other calls. `fake` says what fails, and
** how often. There are four kinds of handle, of one library.
**
** What must stay true, and is asserted whatever the case: the library is called in a context, and
** nothing leaves one behind; when a handle is made, what the case expects of it (`fake.expected`)
** is already counted; a handle serves one call at a time, with that call's workspace, and is
** destroyed in none; once a runtime is closed, all that were made are destroyed. */
#ifndef TIDETEST_FAKE_LIBRARY_H
#define TIDETEST_FAKE_LIBRARY_H

#include "libs/handles.h"
#include "runtime/device/cuda/driver.h"
#include "tests/support/logged.h"

#define PAGE  (64 * TIDEI_KIB) /* of the host device */
#define TAKES (256 * TIDEI_KIB)

/* ---- the library ---- */

typedef struct fake_handle {
    const tidei_handle_kind *kind;
    tidei_addr memory;
    size_t bytes;
    atomic_bool in_call;
    void *workspace; /* since the stream was set */
} fake_handle;

static struct {
    tidei_runtime *rt;
    atomic_int made, destroyed, runs;
    size_t takes, others_take, expected; /* expected: counted before one is made */
    tidei_addr others;
    unsigned fail_create, fail_run;     /* statuses */
    atomic_int fail_runs, fail_destroy; /* how often */
    atomic_bool no_context;
    /* contexts pushed so far; how many there are to be before one is made */
    atomic_int entered, await;
    char context;
} fake;
static _Thread_local int depth; /* contexts pushed */

static tidei_cu_result f_name(tidei_cu_result r, const char **out) {
    return (void)r, *out = "CUDA_ERROR_X", 0;
}
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
    assert_true(atomic_load(&fake.rt->devs[0].budget->library) >= fake.expected); /* reserved */
    while (atomic_load(&fake.entered) < atomic_load(&fake.await)) sched_yield();
    if (fake.fail_create) return fake.fail_create;
    tidei_addr memory;
    if (device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, fake.takes, &memory) != TIDE_OK)
        return NO_MEMORY;
    fake_handle *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->memory = memory;
    h->bytes = fake.takes;
    atomic_fetch_add(&fake.made, 1);
    if (fake.others_take)
        assert_ok(
            device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, fake.others_take, &fake.others));
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
#define KIND(text, maker, bytes)                                                                   \
    {                                                                                              \
        .name = text, .about = bytes, .most = 2 * (bytes), .lib = lib, .create = maker,            \
        .destroy = f_destroy, .set_stream = f_stream, .set_workspace = f_workspace,                \
        .short_codes = short_codes, .nshort = 1                                                    \
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

static unsigned run(const tidei_library_call *c, void *handle, void *stream,
                    const tidei_submission *w) {
    fake_handle *h = handle;
    step *x = c->arg;
    (void)stream;
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

static tide_status call_on(tidei_stream *s, const tidei_handle_kind *k, step *x) {
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
        use = (tidei_use){
            .st = workspace, .offset = 0, .bytes = PAGE, .mode = TIDEI_READ | TIDEI_WRITE};
        status = tidei_library_run(&c);
        tidei_storage_release(workspace);
    }
    tidei_library_end(&c);
    return status;
}
static inline tide_status call(void) {
    return call_on(fake.rt->devs[0].stream0, &one_kind, &(step){0});
}

/* ---- a runtime ---- */

static void begin(void) {
    memset(&fake, 0, sizeof fake);
    tide_error_clear();
    logged.n = 0;
    fake.takes = TAKES;
    tidei_cu_use(&driver);
}
static void open_pool(const char *limit, const char *pool) {
    begin();
    fake.rt = test_open_rt(&(tide_config){.device = "host",
                                          .collector = "refcount",
                                          .limit = limit,
                                          .pool = pool,
                                          .host_device_memory = "16MiB",
                                          .log_level = TIDE_LOG_WARNING,
                                          .log = keep_line});
}
static inline void open_with(const char *limit) { open_pool(limit, "tide"); }
static int setup(void **state) {
    (void)state;
    open_with(NULL);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tide_close(fake.rt->ref);
    assert_int_equal(fake.made, fake.destroyed);
    assert_int_equal(depth, 0);
    tidei_cu_use(NULL);
    return 0;
}
static inline size_t library(void) { return test_stats(fake.rt->ref).library; }
static inline tidei_storage *hold(size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(&fake.rt->devs[0], bytes, fake.rt->devs[0].stream0, "test", &st));
    return st;
}
static inline size_t device_free(void) {
    size_t free_bytes, total;
    assert_ok(device()->ops->memory(device(), &free_bytes, &total));
    return free_bytes;
}
/* A device that others have filled but for a little, with garbage of ours that would help. */
static inline tidei_addr fill_device(size_t leave, size_t *bytes) {
    tidei_addr at;
    *bytes = (device_free() - leave) / PAGE * PAGE;
    assert_ok(device()->ops->raw_alloc(device(), TIDEI_MEM_DEVICE, *bytes, &at));
    return at;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
