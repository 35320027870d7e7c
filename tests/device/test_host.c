/* test_host.c: what only the host device does: its loss, its ceiling's default, its memory's
** protection, forks, its queue, and what it does when host memory runs out. Its checker:
** test_host_check.c. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/device/host_box.h"

#define PTR(addr) ((void *)(uintptr_t)(addr))

/* ---- loss ---- */

struct waiter {
    struct box *b;
    tide_status status;
    pthread_t thread;
};
static void *wait_for_stream(void *arg) {
    struct waiter *w = arg;
    w->status = w->b->o->stream_sync(w->b->d, w->b->s[0]);
    return NULL;
}

static void put_one(const void *p) { **(int *const *)p = 1; }

#define assert_lost(call)                                                                          \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_int_equal(call, TIDE_E_LOST);                                                       \
        assert_error(TIDE_E_LOST, "host:0 is lost: an illegal address");                           \
    } while (0)

static void a_lost_device_ends_waits_and_says_why(void **state) {
    (void)state;
    struct box *b = open_box(true);
    struct waiter w = {.b = b};
    tidei_devent *e = new_event(b), *f;
    tidei_dpage *p, *q;
    tidei_addr base, a;
    tidei_dstream *s;
    size_t n, page = b->d->info.page_bytes;
    atomic_int flag = 0;
    int touched = 0, *at = &touched;
    char host[8] = {0};
    assert_ok(b->o->reserve(b->d, 2 * page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->map(b->d, base, &p, 1));
    launch_spin(b, 0, &flag);
    order(b, e, 0, 1); /* stream 1 waits on the device */
    assert_ok(launch_fn(b, 0, put_one, &at, sizeof at, 0, 0, 0));
    assert_ok(launch_fn(b, 1, put_one, &at, sizeof at, 0, 0, 0));
    pthread_create(&w.thread, NULL, wait_for_stream, &w);
    tidei_host_lose(b->d, "an illegal address");
    tidei_host_lose(b->d, "another reason"); /* the first one stands */
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, TIDE_E_LOST);
    assert_true(atomic_load(&b->d->lost));
    assert_lost(b->o->reserve(b->d, page, &a));
    assert_lost(b->o->page_new(b->d, page, &q));
    assert_lost(b->o->map(b->d, base + page, &p, 1));
    assert_lost(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, 8, &a));
    assert_lost(b->o->raw_alloc(b->d, TIDEI_MEM_PINNED, 8, &a));
    assert_lost(b->o->memory(b->d, &n, &n));
    assert_lost(b->o->stream_new(b->d, &s));
    assert_lost(b->o->stream_sync(b->d, b->s[3]));
    assert_lost(b->o->event_new(b->d, &f));
    assert_lost(b->o->event_record(b->d, e, b->s[3]));
    assert_lost(b->o->event_wait(b->d, e, b->s[3]));
    assert_lost(b->o->publish(b->d, b->s[3], 9));
    assert_int_equal(b->o->completed(b->d, b->s[3]), 0);
    assert_lost(
        b->o->copy(b->d, b->s[3], &(tidei_copy){TIDEI_COPY_D2H, (uintptr_t)host, base, 8, NULL}));
    assert_lost(b->o->fill(b->d, b->s[3], base, "", 1, 8));
    assert_lost(launch_fn(b, 3, nothing, NULL, 0, 0, 0, 0));
    atomic_store(&flag, 1); /* memory is given back only after the running kernel ended */
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    b->o->page_release(b->d, p);
    b->o->unreserve(b->d, base, 2 * page);
    b->o->event_release(b->d, e);
    close_box(b);
    assert_int_equal(touched, 0); /* what was queued was dropped */
}

static void an_idle_device_can_be_lost_too(void **state) {
    (void)state;
    struct box *b = open_box(false);
    for (unsigned i = 0; i < NSTREAMS; i++) finish(b, i);
    tidei_host_lose(b->d, "an illegal address");
    close_box(b);
}

static void closing_with_work_queued_does_it(void **state) {
    (void)state;
    struct box *b = open_box(false);
    tidei_devent *e = new_event(b);
    int touched = 0, *at = &touched;
    atomic_int flag = 0;
    launch_spin(b, 1, &flag);
    order(b, e, 1, 0); /* an earlier stream waits for a later one */
    assert_ok(launch_fn(b, 0, put_one, &at, sizeof at, 0, 0, 0));
    b->o->event_release(b->d, e); /* with a wait queued */
    atomic_store(&flag, 1);
    tidei_addr a = b->memory;
    b->o->close(b->d);
    free(PTR(a)); /* raw memory is the process's */
    assert_int_equal(touched, 1);
    assert_int_equal(atomic_load(&b->allocations), 0);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- memory ---- */

/* Whether the kernel can read there: a bad address is an error of write(), no signal. */
static bool readable(tidei_addr a) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    bool ok = write(fd[1], PTR(a), 1) == 1;
    close(fd[0]);
    close(fd[1]);
    return ok;
}

static void unmapped_addresses_fault(void **state) {
    (void)state;
    struct box *b = open_box(false);
    size_t page = b->d->info.page_bytes;
    tidei_addr base;
    tidei_dpage *p[2];
    assert_int_equal(page, 64 * TIDEI_KIB);
    assert_ok(b->o->reserve(b->d, 8 * page, &base));
    assert_int_equal(base % b->d->info.align, 0);
    for (int old = 0; old < 2; old++) { /* a kernel that moves pages, and one that cannot */
        atomic_store(&((tidei_host *)b->d)->move_by_copy, old != 0);
        for (int i = 0; i < 2; i++) assert_ok(b->o->page_new(b->d, page, &p[i]));
        for (size_t i = 0; i < 8; i++) assert_false(readable(base + i * page));
        assert_ok(b->o->map(b->d, base + 2 * page, p, 2));
        memset(PTR(base + 2 * page), 1, 2 * page);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(readable(base + i * page), i == 2 || i == 3);
        assert_ok(b->o->unmap(b->d, base + 2 * page, p, 1));
        assert_false(readable(base + 2 * page));
        assert_true(readable(base + 3 * page));
        assert_ok(b->o->map(b->d, base + 5 * page, p, 1));
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(readable(base + i * page), i == 3 || i == 5);
        assert_ok(b->o->unmap(b->d, base + 5 * page, p, 1));
        assert_ok(b->o->unmap(b->d, base + 3 * page, p + 1, 1));
        for (int i = 0; i < 2; i++) b->o->page_release(b->d, p[i]);
        for (size_t i = 0; i < 8; i++) assert_false(readable(base + i * page));
    }
    assert_ok(b->o->page_new(b->d, page, &p[0]));
    assert_ok(b->o->map(b->d, base + 3 * page, p, 1));
    assert_int_equal(*(char *)PTR(base + 3 * page), 0); /* a released page's bytes are gone */
    assert_ok(b->o->unmap(b->d, base + 3 * page, p, 1));
    b->o->page_release(b->d, p[0]);
    b->o->unreserve(b->d, base, 8 * page);
    close_box(b);
}

static void the_page_size_is_the_callers_wish(void **state) {
    (void)state;
    tidei_device *d;
    assert_ok(tidei_host_open(&(tidei_device_params){.ordinal = 3,
                                                     .host_page = 8192,
                                                     .host_device_memory = 3 * TIDEI_MIB},
                              &d));
    assert_int_equal(d->info.page_bytes, 8192);
    assert_int_equal(d->info.total_bytes, 3 * TIDEI_MIB);
    assert_int_equal(d->info.va_bytes, 12 * TIDEI_MIB);
    assert_string_equal(d->info.name, "host:3");
    assert_int_equal(tidei_host_checker_reports(d), 0); /* off */
    d->ops->close(d);
    assert_int_equal(tidei_host_open(&(tidei_device_params){.host_page = 1000}, &d),
                     TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "1000 bytes");
    assert_ok(tidei_host_open(&(tidei_device_params){0}, &d));
    assert_int_equal(d->info.total_bytes, tidei_host_default_memory());
    d->ops->close(d);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    struct box *b = open_box(true);
    tidei_addr a;
    tidei_dpage *p;
    char big[TIDEI_PARAMS_MAX + 1] = {0};
    assert_int_equal(b->o->reserve(b->d, 100, &a), TIDE_E_INVALID);
    assert_int_equal(b->o->page_new(b->d, 100, &p), TIDE_E_INVALID);
    assert_int_equal(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, 0, &a), TIDE_E_INVALID);
    assert_int_equal(b->o->fill(b->d, b->s[0], b->memory, big, 3, 1), TIDE_E_INVALID);
    assert_int_equal(b->o->fill(b->d, b->s[0], b->memory, big, 8, SIZE_MAX / 4), TIDE_E_INVALID);
    assert_int_equal(launch_fn(b, 0, NULL, NULL, 0, 0, 0, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "get has no host function");
    assert_int_equal(launch_fn(b, 0, nothing, big, sizeof big, 0, 0, 0), TIDE_E_INVALID);
    assert_ok(launch_fn(b, 0, nothing, big, TIDEI_PARAMS_MAX, 0, 0, 0));
    close_box(b);
}

static void write_file(const char *dir, const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = strchr(path + strlen(dir) + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_smallest_cgroup_limits_count(void **state) {
    (void)state;
    char dir[] = "/tmp/tide-cgroup-XXXXXX", self[64], clean[64];
    assert_non_null(mkdtemp(dir));
    snprintf(self, sizeof self, "%s/self", dir);
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX); /* no such file */
    write_file(dir, "self", "0::/a/b/c\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    write_file(dir, "a/b/c/memory.max", "max\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    write_file(dir, "a/memory.max", "5000000\n"); /* a group around it */
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 5000000);
    write_file(dir, "memory.max", "4000000\n"); /* as a container sees its own */
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 4000000);
    write_file(dir, "self", "7:cpu,cpuacct:/a\n9:hugetlb,memory:/x/y\n1:name=systemd:/z\n0::/\n");
    write_file(dir, "memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    write_file(dir, "memory/x/memory.limit_in_bytes", "3000000\n");
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 3000000);
    write_file(dir, "self", "nonsense\n\n::\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    assert_true(tidei_host_cgroup_processors(self, dir) == SIZE_MAX);
    write_file(dir, "self", "0::/a/b/c\n");
    assert_true(tidei_host_cgroup_processors(self, dir) == SIZE_MAX);
    write_file(dir, "a/b/c/cpu.max", "max 100000\n");
    assert_true(tidei_host_cgroup_processors(self, dir) == SIZE_MAX);
    write_file(dir, "a/b/cpu.max", "450000 100000\n"); /* half a processor is one more */
    assert_int_equal(tidei_host_cgroup_processors(self, dir), 5);
    write_file(dir, "cpu.max", "50000 100000\n");
    assert_int_equal(tidei_host_cgroup_processors(self, dir), 1);
    write_file(dir, "self", "7:cpu,cpuacct:/a\n");
    write_file(dir, "cpu/a/cpu.cfs_quota_us", "-1\n");
    write_file(dir, "cpu/a/cpu.cfs_period_us", "100000\n");
    assert_true(tidei_host_cgroup_processors(self, dir) == SIZE_MAX);
    write_file(dir, "cpu/a/cpu.cfs_quota_us", "300000\n");
    assert_int_equal(tidei_host_cgroup_processors(self, dir), 3);
    snprintf(clean, sizeof clean, "rm -r %s", dir);
    assert_int_equal(system(clean), 0);
    assert_true(tidei_host_default_memory() > TIDEI_MIB);
    assert_true(tidei_host_processors() >= 1);
}

/* ---- forks ---- */

static void a_forks_child_gives_back_without_waiting(void **state) {
    (void)state;
    struct box *b = open_box(true);
    tidei_devent *e = new_event(b);
    size_t page = b->d->info.page_bytes;
    tidei_addr base;
    tidei_dpage *p;
    assert_ok(b->o->reserve(b->d, page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->map(b->d, base, &p, 1));
    touch(b, 0, TIDEI_WRITE, base, 8);
    order(b, e, 0, 1);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        if (b->o->stream_sync(b->d, b->s[0]) != TIDE_E_FORKED) _exit(1);
        for (int i = 0; i < NSTREAMS; i++) b->o->stream_release(b->d, b->s[i]);
        b->o->event_release(b->d, e);
        if (b->o->unmap(b->d, base, &p, 1) != TIDE_OK) _exit(2);
        b->o->page_release(b->d, p);
        b->o->unreserve(b->d, base, page);
        b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
        b->o->close(b->d);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    finish(b, 0); /* the parent goes on */
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    b->o->page_release(b->d, p);
    b->o->unreserve(b->d, base, page);
    b->o->event_release(b->d, e);
    close_box(b);
}

/* ---- host memory that runs out ---- */

static void release_all(struct box *b, tidei_devent *e, tidei_dpage *p) {
    for (int i = 0; i < NSTREAMS; i++) {
        if (b->s[i]) b->o->stream_release(b->d, b->s[i]);
        b->s[i] = NULL;
    }
    if (e) b->o->event_release(b->d, e);
    if (p) b->o->page_release(b->d, p);
    if (b->memory) b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
    b->memory = 0;
}

/* A program that uses every slot with the checker on, until something fails. */
static tide_status run_program(struct box *b) {
    tidei_devent *e = NULL;
    tidei_dpage *p = NULL;
    static char host[TIDEI_STAGED_MAX];
    tide_status st = TIDE_OK;
    for (int i = 0; i < 3 && st == TIDE_OK; i++) st = b->o->stream_new(b->d, &b->s[i]);
    if (st == TIDE_OK) st = b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory);
    if (st == TIDE_OK) st = b->o->event_new(b->d, &e);
    if (st == TIDE_OK) st = b->o->page_new(b->d, b->d->info.page_bytes, &p);
    for (unsigned i = 0; i < 40 && st == TIDE_OK; i++) {
        unsigned s = i % 3;
        tidei_copy c = {TIDEI_COPY_H2D, b->memory + i * 1000, (uintptr_t)host, sizeof host, NULL};
        st = b->o->event_wait(b->d, e, b->s[s]);
        if (st == TIDE_OK) st = b->o->copy(b->d, b->s[s], &c);
        if (st == TIDE_OK) st = b->o->publish(b->d, b->s[s], i + 1);
        if (st == TIDE_OK)
            st = launch_fn(b, s, nothing, host, 100, b->memory + i * 8, 8, TIDEI_READ);
        if (st == TIDE_OK) st = b->o->event_record(b->d, e, b->s[s]);
        b->o->completed(b->d, b->s[(i + 1) % 3]);
    }
    for (int i = 0; i < 3 && st == TIDE_OK; i++) st = b->o->stream_sync(b->d, b->s[i]);
    release_all(b, e, p);
    return st;
}

static void every_failed_allocation_is_an_error_and_no_leak(void **state) {
    (void)state;
    bool done = false;
    long n = 1;
    for (; !done; n++) {
        struct box *b = new_box();
        b->fail_at = n;
        tide_error_clear();
        tidei_device_params p = {
            .host_device_memory = 16 * TIDEI_MIB, .host_checker = true, .rt = &b->rt};
        tide_status st = tidei_host_open(&p, &b->d);
        if (st == TIDE_OK) {
            b->o = b->d->ops;
            st = run_program(b);
            assert_int_equal(tidei_host_checker_reports(b->d), 0);
            assert_int_equal(atomic_load(&((tidei_host *)b->d)->used), 0);
            b->d->ops->close(b->d);
        }
        if (st != TIDE_OK) assert_error(TIDE_E_HOST_NOMEM, "host memory");
        assert_int_equal(atomic_load(&b->allocations), 0);
        done = atomic_load(&b->asked) < n;
        if (done) assert_int_equal(st, TIDE_OK);
        pthread_mutex_destroy(&b->lock);
        free(b);
    }
    assert_true(n > 20);
}

/* ---- the queue ---- */

/* Whatever stands last in a full queue, there is room to wait for it: else what it copies could not
** be waited for. */
static void stand(const void *gate) {
    while (!atomic_load(*(atomic_int *const *)gate)) sched_yield();
}

static void waiting_needs_no_memory(void **state) {
    static const size_t sizes[] = {0, 8, 48, 100, 1000, 4000};
    char params[4000] = {0};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        struct box *b = open_box(false);
        atomic_int gate = 0, *at = &gate;
        tidei_devent *e;
        tide_status st = TIDE_OK;
        assert_ok(b->o->event_new(b->d, &e));
        assert_ok(launch_fn(b, 0, stand, &at, sizeof at, 0, 0, 0));
        atomic_store(&b->exhausted, true);
        while (st == TIDE_OK) st = launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0);
        assert_int_equal(st, TIDE_E_HOST_NOMEM);
        for (int k = 0; k < 3; k++) assert_ok(b->o->event_record(b->d, e, b->s[0]));
        assert_int_equal(launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0), TIDE_E_HOST_NOMEM);
        atomic_store(&gate, 1);
        assert_ok(b->o->stream_sync(b->d, b->s[0]));
        atomic_store(&b->exhausted, false);
        assert_ok(launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0));
        b->o->event_release(b->d, e);
        close_box(b);
    }
}

static void a_steady_stream_allocates_nothing(void **state) {
    (void)state;
    if (TIDEI_TSAN) skip(); /* there, pieces of the queue are not used again */
    struct box *b = open_box(false);
    char params[1000] = {0};
    for (int i = 0; i < 300; i++) {
        if (i % 16 == 0) finish(b, 0);
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    }
    long before = atomic_load(&b->asked);
    for (int i = 0; i < 3000; i++) {
        if (i % 16 == 0) finish(b, 0);
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    }
    assert_int_equal(atomic_load(&b->asked), before);
    atomic_int flag = 0;
    launch_spin(b, 0, &flag);
    for (int i = 0; i < 3000; i++)
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    long burst = atomic_load(&b->allocations);
    atomic_store(&flag, 1);
    finish(b, 0);
    for (int i = 0; i < 300; i++)
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    /* most of a burst's memory is given back */
    assert_true(atomic_load(&b->allocations) < burst - 20);
    close_box(b);
}

struct sum_params {
    uint64_t *sum;
    unsigned char bytes[200];
};
static void sum_up(const void *p) {
    const struct sum_params *s = p;
    for (size_t i = 0; i < sizeof s->bytes; i++) *s->sum += s->bytes[i];
}

static void parameters_are_copied_at_the_call(void **state) {
    (void)state;
    struct box *b = open_box(false);
    uint64_t sum = 0, want = 0;
    atomic_int flag = 0;
    struct sum_params p = {.sum = &sum};
    launch_spin(b, 0, &flag);
    for (unsigned i = 0; i < 1000; i++) {
        memset(p.bytes, (int)(i % 251), sizeof p.bytes);
        want += (uint64_t)(i % 251) * sizeof p.bytes;
        assert_ok(launch_fn(b, 0, sum_up, &p, sizeof p, 0, 0, 0));
    }
    memset(p.bytes, 255, sizeof p.bytes);
    atomic_store(&flag, 1);
    finish(b, 0);
    assert_int_equal(sum, want);
    close_box(b);
}

static void signal_mask_of_worker(const void *p) {
    sigset_t *out = *(sigset_t *const *)p;
    pthread_sigmask(SIG_BLOCK, NULL, out);
}

static void workers_leave_signals_to_the_program(void **state) {
    (void)state;
    struct box *b = open_box(false);
    sigset_t mask, *at = &mask;
    assert_ok(launch_fn(b, 0, signal_mask_of_worker, &at, sizeof at, 0, 0, 0));
    finish(b, 0);
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGPROF) &&
                sigismember(&mask, SIGCHLD));
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT)); /* ours is as it was */
    close_box(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_device_ends_waits_and_says_why),
        cmocka_unit_test(an_idle_device_can_be_lost_too),
        cmocka_unit_test(closing_with_work_queued_does_it),
        cmocka_unit_test(unmapped_addresses_fault),
        cmocka_unit_test(the_page_size_is_the_callers_wish),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(the_smallest_cgroup_limits_count),
        cmocka_unit_test(a_forks_child_gives_back_without_waiting),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_no_leak),
        cmocka_unit_test(waiting_needs_no_memory),
        cmocka_unit_test(a_steady_stream_allocates_nothing),
        cmocka_unit_test(parameters_are_copied_at_the_call),
        cmocka_unit_test(workers_leave_signals_to_the_program),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
