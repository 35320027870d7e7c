/* test_refusals.c: every call of ours by which the system gives or takes back addresses, changes
** access to them, or makes a thread, gets its turn to be refused, alone or with all that follow.
**
** The loop: a runtime opens, works and closes while the n-th call of a kind is refused; n rises
** until none is. After each refusal: success, or a clear error; pools are valid; nothing is held;
** the same work then succeeds, with the right values; and closing gives back all addresses and ends
** all threads. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/support/clean_environment.h"
#include "tests/support/logged.h"

/* ---- the calls, as the library makes them (-Wl,--wrap) ---- */

enum call { MMAP, MUNMAP, MPROTECT, MADVISE, MREMAP, THREAD, CALLS };
static const char *const names[CALLS] = {"mmap",    "munmap", "mprotect",
                                         "madvise", "mremap", "pthread_create"};

static struct {
    _Atomic uint64_t calls[CALLS], fail_at[CALLS]; /* fail_at 0: none is refused */
    atomic_bool sticky;                            /* and all after it */
    atomic_uint refused;
    atomic_long addresses, threads; /* bytes mapped and not unmapped; started and not joined */
} hook;

static bool refuse(enum call c) {
    uint64_t n = atomic_fetch_add(&hook.calls[c], 1) + 1, at = atomic_load(&hook.fail_at[c]);
    if (!at || n < at || (n > at && !atomic_load(&hook.sticky))) return false;
    atomic_fetch_add(&hook.refused, 1);
    errno = ENOMEM;
    return true;
}

void *__real_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t from);
void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t from);
void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t from) {
    if (refuse(MMAP)) return MAP_FAILED;
    void *p = __real_mmap64(at, bytes, access, flags, fd, from);
    if (p != MAP_FAILED && !(flags & MAP_FIXED)) atomic_fetch_add(&hook.addresses, (long)bytes);
    return p;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes) {
    if (refuse(MUNMAP)) return -1;
    atomic_fetch_sub(&hook.addresses, (long)bytes);
    return __real_munmap(at, bytes);
}

int __real_mprotect(void *at, size_t bytes, int access);
int __wrap_mprotect(void *at, size_t bytes, int access);
int __wrap_mprotect(void *at, size_t bytes, int access) {
    return refuse(MPROTECT) ? -1 : __real_mprotect(at, bytes, access);
}

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice) {
    return refuse(MADVISE) ? -1 : __real_madvise(at, bytes, advice);
}

/* Always as the library calls it: to a place that is there already. */
void *__real_mremap(void *at, size_t bytes, size_t wanted, int flags, void *to);
void *__wrap_mremap(void *at, size_t bytes, size_t wanted, int flags, void *to);
void *__wrap_mremap(void *at, size_t bytes, size_t wanted, int flags, void *to) {
    return refuse(MREMAP) ? MAP_FAILED : __real_mremap(at, bytes, wanted, flags, to);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg) {
    if (refuse(THREAD)) return EAGAIN;
    int error = __real_pthread_create(t, attr, fn, arg);
    if (!error) atomic_fetch_add(&hook.threads, 1);
    return error;
}

int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result) {
    atomic_fetch_sub(&hook.threads, 1);
    return __real_pthread_join(t, result);
}

static void disarm(void) {
    for (int c = 0; c < CALLS; c++) atomic_store(&hook.fail_at[c], 0);
}

/* ---- the work ---- */

#define KIB    ((int64_t)1 << 10)
#define MIB    ((int64_t)1 << 20)
#define PIECES 48

static struct work {
    tide_runtime *rt;
    tide_array *a[PIECES + 8];
    tide_use_scope *pin[PIECES];
    tide_stream *stream;
    unsigned n;
    /* the pool maps them elsewhere where pinned ones are in the way; others would be short of
    ** memory */
    bool pages;
} work;

static tide_status status_of(const void *made) {
    return made ? TIDE_OK : tide_error_last()->status;
}
#define DO(call)                                                                                   \
    do {                                                                                           \
        tide_status status_ = (call);                                                              \
        if (status_ != TIDE_OK) return status_;                                                    \
    } while (0)

/* Of numbers of 8 bytes: a sanitizer looks at each, and what counts here is the memory. */
static tide_status make(int64_t bytes, int value, tide_array **out) {
    const int64_t n = bytes / 8;
    tide_array *a = tide_full(work.rt, TIDE_I64, 1, &n, tide_arg_int(value));
    if (a) work.a[work.n++] = a;
    *out = a;
    return status_of(a);
}

/* All of an array's numbers are `value`. */
static tide_status check(tide_array *a, int value) {
    tide_array *low = tide_min(a, NULL, 0, 0), *high = tide_max(a, NULL, 0, 0);
    tide_status status = status_of(low && high ? a : NULL);
    for (int i = 0; i < 2 && status == TIDE_OK; i++) {
        tide_error_clear();
        double v = tide_item_f64(i ? high : low);
        status = tide_error_last()->status;
        if (status == TIDE_OK) assert_true(v == value);
    }
    tide_release(low);
    tide_release(high);
    return status;
}

static void let_go(void) {
    for (unsigned i = 0; i < PIECES; i++) {
        if (work.pin[i]) assert_ok(tide_use_end(work.pin[i]));
        work.pin[i] = NULL;
    }
    for (unsigned i = 0; i < work.n; i++) tide_release(work.a[i]);
    work.n = 0;
    assert_ok(tide_stream_set(work.rt, NULL));
    tide_stream_release(work.stream);
    work.stream = NULL;
}

/* What grows, in steps, and goes back; on two streams. */
static tide_status grow_and_shrink(void) {
    tide_array *a;
    size_t freed;
    for (int i = 0; i < 6; i++) {
        DO(make((int64_t)20 * KIB << i, i, &a));
        DO(check(a, i));
    }
    let_go();
    DO(tide_reclaim(work.rt, TIDE_RECLAIM_SYNC, &freed));
    DO(tide_stream_new(work.rt, &work.stream));
    DO(tide_stream_set(work.rt, work.stream));
    DO(make(MIB, 7, &a));
    DO(tide_stream_set(work.rt, NULL));
    DO(check(a, 7));
    DO(tide_device_synchronize(work.rt));
    let_go();
    return tide_reclaim(work.rt, TIDE_RECLAIM_DROP, &freed);
}

/* Pinned pieces stand between the free ones: a large array wants pages from everywhere in one
** place. */
static tide_status pin_and_ask(void) {
    tide_array *a, *piece[PIECES];
    void *p;
    for (int i = 0; i < PIECES; i++) DO(make(64 * KIB, i, &piece[i]));
    for (int i = 0; i < PIECES; i += 4) {
        tide_use use = {.array = piece[i], .mode = TIDE_READ};
        DO(tide_use_begin(work.rt, NULL, &use, 1, &p, &work.pin[i]));
    }
    for (int i = 0; i < PIECES; i++)
        if (i % 4) tide_free(piece[i]);
    DO(make(2 * MIB, 200, &a));
    DO(check(a, 200));
    for (int i = 0; i < PIECES; i += 4) DO(check(piece[i], i));
    return TIDE_OK;
}

/* A thread of the program's, with a stream of its own. What went wrong there is that thread's
** error: it is kept. */
static tidei_saved_error there;
static void *elsewhere(void *arg) {
    int64_t n = 60000;
    tide_array *a = tide_ones(work.rt, TIDE_I32, 1, &n), *sum = tide_sum(a, NULL, 0, 0);
    (void)arg;
    if (sum) {
        tide_error_clear();
        double v = tide_item_f64(sum);
        assert_true(v == (double)n || tide_error_last()->status != TIDE_OK);
    }
    tidei_error_save(&there);
    tide_release(a);
    tide_release(sum);
    return NULL;
}

static tide_status all_of_it(void) {
    pthread_t t;
    DO(grow_and_shrink());
    assert_int_equal(__real_pthread_create(&t, NULL, elsewhere, NULL), 0);
    __real_pthread_join(t, NULL);
    if (there.status != TIDE_OK) {
        tidei_error_restore(&there);
        return there.status;
    }
    return work.pages ? pin_and_ask() : TIDE_OK;
}

/* ---- the loop ---- */

static char folder[64];

/* A recording of its own each time: the numbered names are not endless. */
static tide_status open_it(const char *pool, char *trace, size_t cap) {
    static unsigned number;
    snprintf(trace, cap, "%s/run%u.csv", folder, number++);
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "4MiB",
                     .limit = "3328KiB",
                     .collector = "refcount",
                     .pool = pool,
                     .trace = trace,
                     .log = keep_line,
                     .log_level = TIDE_LOG_WARNING};
    tide_runtime *rt = NULL;
    tide_status status = tide_open(&c, &rt);
    work = (struct work){.rt = rt, .pages = !strcmp(pool, "tide")};
    assert_true((status == TIDE_OK) == (rt != NULL));
    return status;
}

struct plan {
    const char *pool;
    enum call call;
    uint64_t n;
    bool sticky, to_the_end; /* it stays while the runtime closes */
};

static void check_error(const struct plan *p, tide_status status) {
    const tide_error *e = tide_error_last();
    bool known = status == TIDE_E_NOMEM || status == TIDE_E_HOST_NOMEM || status == TIDE_E_DEVICE;
    bool told = strlen(e->message) > 20 &&
                (!strncmp(e->operation, "tide_", 5) || strstr(e->operation, "->"));
    if (known && told) return;
    fail_msg("%s, %s %d%s: %s by \"%s\": %s", p->pool, names[p->call], (int)p->n,
             p->sticky ? " and on" : "", tide_status_name(status), e->operation, e->message);
}

/* After the last use: nothing is held, and what the pools say is so. */
static void check_idle(const struct plan *p) {
    let_go();
    if (test_stats(work.rt).live || !tidei_runtime_valid(test_rt(work.rt)))
        fail_msg("%s, %s %d: %zu bytes live, or not valid", p->pool, names[p->call], (int)p->n,
                 test_stats(work.rt).live);
}

static void check_gone(const struct plan *p) {
    long addresses = atomic_exchange(&hook.addresses, 0), threads = atomic_load(&hook.threads);
    bool may = p->call == MUNMAP && p->sticky; /* then the log says so */
    if (threads || (addresses && !may) ||
        (addresses && !lines_with(TIDE_LOG_WARNING, "of addresses stay, empty")))
        fail_msg("%s, %s %d: %ld bytes of addresses are left, %ld threads", p->pool, names[p->call],
                 (int)p->n, addresses, threads);
}

/* One life of a runtime, with that refusal; false: the call was not reached. */
static bool refuse_one(const struct plan *p) {
    char trace[100];
    logged.n = 0;
    for (int c = 0; c < CALLS; c++) atomic_store(&hook.calls[c], 0);
    atomic_store(&hook.refused, 0);
    atomic_store(&hook.sticky, p->sticky);
    atomic_store(&hook.fail_at[p->call], p->n);
    tide_error_clear();
    tide_status status = open_it(p->pool, trace, sizeof trace);
    if (status == TIDE_OK) {
        status = all_of_it();
        if (status != TIDE_OK) check_error(p, status);
        check_idle(p);
        if (!p->to_the_end) {
            disarm();
            tide_error_clear();
            if ((status = all_of_it()) != TIDE_OK)
                fail_msg("%s, %s %d, afterwards: %s", p->pool, names[p->call], (int)p->n,
                         tide_error_last()->message);
            check_idle(p);
        }
        tide_close(work.rt);
    } else {
        check_error(p, status);
    }
    disarm();
    unlink(trace);
    check_gone(p);
    return atomic_load(&hook.refused) > 0;
}

/* Headers of old systems lack what mremap wants. */
static bool moves_pages(int c) {
#ifdef MREMAP_DONTUNMAP
    return c >= 0;
#else
    return c != MREMAP;
#endif
}

/* How many calls one life makes, with those of closing. */
static uint64_t calls_of_a_life(const char *pool, enum call call) {
    struct plan none = {pool, call, UINT64_MAX, .to_the_end = true};
    assert_false(refuse_one(&none));
    return atomic_load(&hook.calls[call]);
}

/* With a sanitizer, or where all later calls are refused too, not each of many. Under
** ThreadSanitizer, where a life takes a tenth of a second, few: it is not about what is refused. */
static uint64_t next_one(const struct plan *p) {
#if defined(__SANITIZE_THREAD__)
    return 1 + 3 * p->n;
#else
    const bool few = test_quick() || p->sticky;
    return p->n + (few && p->n > 8 ? 1 + p->n / 4 : 1);
#endif
}

static void each_call_is_refused(void **state) {
    static const char *const pools[] = {"tide", "none", "split", "driver"};
    enum call call = (enum call)(uintptr_t)*state;
    for (unsigned i = 0; i < TIDEI_COUNT(pools); i++) {
        const uint64_t last = calls_of_a_life(pools[i], call);
        /* the pool of pages makes such calls */
        if (i == 0) assert_true(last || !moves_pages((int)call));
        for (int sticky = 0; last && sticky < 2; sticky++) {
            struct plan p = {pools[i], call, 1, sticky, true};
            for (unsigned lives = 1; refuse_one(&p); p.to_the_end = lives++ % 2 == 0)
                p.n = next_one(&p);
            assert_true(p.n > 1 && p.n < 5000);
            p.n = last;
            p.to_the_end = true;
            refuse_one(&p);
        }
    }
}

/* The loop's work is what its head says: pages are moved, memory goes back. */
static void the_work_is_much(void **state) {
    char trace[100];
    (void)state;
    disarm();
    for (int c = 0; c < CALLS; c++) atomic_store(&hook.calls[c], 0);
    assert_ok(open_it("tide", trace, sizeof trace));
    assert_ok(all_of_it());
    for (int c = 0; c < CALLS; c++)
        if (!atomic_load(&hook.calls[c]) && moves_pages(c))
            fail_msg("%s is never called", names[c]);
    let_go();
    tide_close(work.rt);
    unlink(trace);
    atomic_store(&hook.addresses, 0);
}

static int setup(void **state) {
    void *mine = *state;
    clear_environment();
    strcpy(folder, "/tmp/tide-refusals-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    /* what is made once */
    tide_close(test_open(&(tide_config){.device = "host", .collector = "refcount"}));
    disarm();
    atomic_store(&hook.addresses, 0);
    atomic_store(&hook.threads, 0);
    *state = mine;
    return 0;
}
static int teardown(void **state) {
    rmdir(folder);
    return restore_environment(state);
}

int main(void) {
    static struct CMUnitTest tests[CALLS + 1];
    tests[0] = (struct CMUnitTest){"the_work_is_much", the_work_is_much, setup, teardown, NULL};
    for (int c = 0; c < CALLS; c++)
        tests[c + 1] = (struct CMUnitTest){names[c], each_call_is_refused, setup, teardown,
                                           (void *)(uintptr_t)(unsigned)c};
    return _cmocka_run_group_tests("refusals", tests, CALLS + 1, NULL, NULL);
}
