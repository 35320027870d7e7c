/* test_signals.c: signals are the program's: no mask of a thread of its own is changed, its
** handlers run on its own threads, and may drop arrays; calls that a signal comes into go on. And
** the signals by which the collector "boehm" stops threads: who blocks them is told so, and nobody
** waits for ever or ends the process because of them. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/own_thread.h"
#include "tests/support/fresh_environment.h"
#include "tests/support/folder.h"

/* ---- what a handler must not do ---- */

static _Thread_local volatile sig_atomic_t in_handler;
static atomic_uint unfit; /* memory and locks that were taken in one */
static void note_unfit(void) {
    if (in_handler) atomic_fetch_add(&unfit, 1);
}
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return note_unfit(), __real_malloc(bytes); }
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) { return note_unfit(), __real_calloc(n, bytes); }
void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p) { note_unfit(), __real_free(p); }
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock) {
    note_unfit();
    return __real_pthread_mutex_lock(lock);
}

/* ---- masks ---- */

static _Thread_local bool callers = true; /* a thread of the program's own */
static atomic_uint changes;
int __real_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    if (set && callers) atomic_fetch_add(&changes, 1);
    return __real_pthread_sigmask(how, set, old);
}
int __real_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    if (set && callers) atomic_fetch_add(&changes, 1);
    return __real_sigprocmask(how, set, old);
}

static void mask(int how, int number) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, number);
    assert_int_equal(__real_pthread_sigmask(how, &s, NULL), 0);
}
static bool blocked_here(int number) {
    sigset_t s;
    assert_int_equal(__real_pthread_sigmask(SIG_SETMASK, NULL, &s), 0);
    return sigismember(&s, number);
}

/* ---- a program that does a bit of everything ---- */

static char folder[64];
static const char *in_folder(const char *name) {
    static _Thread_local char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void works(tide_runtime *rt, const char *file) {
    tide_stream *s = NULL;
    tide_array *x = tide_arange(rt, TIDE_F64, 0, 1000, 1), *y = tide_map(rt, "(x) -> sum(x)", x);
    if (tide_item_f64(y) != 499500) abort(); /* on any thread */
    if (tide_stream_new(rt, &s) != TIDE_OK || tide_stream_set(rt, s) != TIDE_OK) abort();
    tide_array *z = tide_add(x, x);
    if (tide_stream_set(rt, NULL) != TIDE_OK || tide_synchronize(rt, s) != TIDE_OK) abort();
    tide_stream_release(s);
    if (tide_npy_write(z, file) != TIDE_OK) abort();
    tide_array *back = tide_npy_read(rt, file), *sum = tide_sum(back, NULL, 0, 0);
    if (tide_item_f64(sum) != 999000) abort();
    tide_free(sum), tide_free(back), tide_free(z), tide_free(y), tide_free(x);
    if (tide_collect(rt) != TIDE_OK) abort();
}

static tide_runtime *open_as(const char *collector, const char *trace) {
    tide_config c = {.struct_size = sizeof c,
                     .device = test_device(),
                     .host_device_memory = "64MiB",
                     .limit = "64MiB",
                     .collector = collector,
                     .trace = trace,
                     .log = keep_line,
                     .log_level = TIDE_LOG_WARNING};
    return test_open(&c);
}

static const char *const collectors[] = {"refcount", "boehm"};
enum { COLLECTORS = TEST_BOEHM ? 2 : 1 };

/* ---- the cases ---- */

static int setup(void **state) {
    strcpy(folder, "/tmp/tide_signals_XXXXXX");
    return mkdtemp(folder) ? fresh_environment(state) : -1;
}
static int teardown(void **state) {
    remove_folder(folder);
    return restore_environment(state);
}

static void *works_in_a_thread(void *rt) {
    works(rt, in_folder("a.npy"));
    return NULL;
}

static void no_mask_changes(void **state) {
    sigset_t before, after;
    (void)state;
    mask(SIG_BLOCK, SIGUSR2);
    __real_pthread_sigmask(SIG_SETMASK, NULL, &before);
    atomic_store(&changes, 0);
    for (int i = 0; i < COLLECTORS; i++) {
        pthread_t thread;
        tide_runtime *rt = open_as(collectors[i], in_folder("run.csv"));
        works(rt, in_folder("a.npy"));
        assert_int_equal(pthread_create(&thread, NULL, works_in_a_thread, rt), 0);
        pthread_join(thread, NULL);
        tide_close(rt);
    }
    assert_int_equal(atomic_load(&changes), 0);
    __real_pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < SIGRTMAX; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    mask(SIG_UNBLOCK, SIGUSR2);
}

static atomic_uint handled;
static void count(int number) {
    (void)number;
    atomic_fetch_add(&handled, 1);
}
static struct sigaction kept_action[65]; /* bdwgc's, of its two */
static void handle(int number) {
    struct sigaction a = {.sa_handler = count}; /* no SA_RESTART: calls end where they would */
    assert_int_equal(sigaction(number, &a, &kept_action[number]), 0);
}
static void leave(int number) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}; /* what is on its way */
    sigaction(number, &ignore, NULL);
    assert_int_equal(sigaction(number, &kept_action[number], NULL), 0);
}

/* A signal for the process, which all threads of the program block, finds no thread of the
** library's. It may find one of CUDA's driver (docs/embedding.md). */
static void handlers_run_on_the_programs_threads(void **state) {
    static const int numbers[] = {SIGUSR1, SIGALRM, SIGCHLD, SIGPWR, SIGXCPU, SIGTERM};
    (void)state;
    if (!test_on_host()) skip();
    tide_runtime *rt = open_as("refcount", in_folder("run.json"));
    tide_stream *s;
    assert_ok(tide_stream_new(rt, &s)); /* a thread more, made while nothing was blocked */
    atomic_store(&handled, 0);
    for (size_t i = 0; i < TIDEI_COUNT(numbers); i++) {
        handle(numbers[i]);
        mask(SIG_BLOCK, numbers[i]);
        assert_int_equal(kill(getpid(), numbers[i]), 0);
    }
    works(rt, in_folder("a.npy"));
    assert_int_equal(atomic_load(&handled), 0);
    for (size_t i = 0; i < TIDEI_COUNT(numbers); i++) {
        mask(SIG_UNBLOCK, numbers[i]);
        assert_int_equal(atomic_load(&handled), i + 1);
        leave(numbers[i]);
    }
    tide_close(rt);
}

/* A fault of the thread's own is the one thing that reaches it: a crash can be reported, a page
** that was protected be opened. */
static void *own_thread(void *faults) {
    sigset_t s;
    callers = false;
    __real_pthread_sigmask(SIG_SETMASK, NULL, &s);
    *(int *)faults = sigismember(&s, SIGSEGV) + sigismember(&s, SIGBUS) + sigismember(&s, SIGFPE) +
                     2 * !sigismember(&s, SIGINT) + 4 * !sigismember(&s, SIGABRT) +
                     8 * !sigismember(&s, SIGRTMIN);
    return NULL;
}
static void our_own_threads_take_no_signals(void **state) {
    pthread_t thread;
    int wrong = -1;
    (void)state;
    assert_int_equal(tidei_own_thread_start(&thread, own_thread, &wrong), 0);
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
}

/* A child that sends `number` to this process all the time, and to no other: it ends with it. */
static pid_t start_sender(int number) {
    const pid_t target = getpid(), sender = fork();
    assert_true(sender >= 0);
    if (sender) return sender;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == target && kill(target, number) == 0) usleep(300);
    _exit(0);
}

/* Signals that come all the time, into whatever call: of the program's own, and those that bdwgc
** would use. */
static void storm_of(int number) {
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    pid_t sender = 0;
    handle(number);
    atomic_store(&handled, 0);
    if (number == SIGALRM) {
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    } else {
        sender = start_sender(number);
    }
    for (int round = 0; round < (test_quick() ? 3 : 20) || atomic_load(&handled) < 10; round++) {
        tide_runtime *rt = open_as("refcount", in_folder("run.csv"));
        works(rt, in_folder("a.npy"));
        tide_close(rt);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    if (sender) {
        kill(sender, SIGKILL);
        while (waitpid(sender, NULL, 0) < 0) {}
    }
    leave(number);
}
static void calls_go_on_in_a_storm_of_signals(void **state) {
    (void)state;
    test_needs_children();
    storm_of(SIGALRM);
    storm_of(SIGUSR1);
    storm_of(SIGPWR);
}

/* ---- arrays that a handler drops ---- */

enum { POT = 16 };
static struct {
    _Atomic(tide_array *) at[POT];
    bool counted; /* arrays of "boehm" have no reference that could be given back */
    atomic_uint dropped;
} pot;
static void drop_at(unsigned i) {
    tide_array *a = atomic_exchange(&pot.at[i], NULL);
    if (!a) return;
    tide_free(a);
    if (pot.counted) tide_release(a);
    if (in_handler) atomic_fetch_add(&pot.dropped, 1);
}
static void drop_all(int number) {
    (void)number;
    in_handler = 1;
    for (unsigned i = 0; i < POT; i++) drop_at(i);
    in_handler = 0;
}

/* Into whatever call of the same thread's, which makes arrays and ends others. */
static void a_handler_may_drop_arrays(void **state) {
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    struct sigaction drop = {.sa_handler = drop_all}, before;
    (void)state;
    for (int i = 0; i < COLLECTORS; i++) {
        tide_runtime *rt = open_as(collectors[i], NULL);
        pot.counted = !strcmp(collectors[i], "refcount");
        atomic_store(&pot.dropped, 0);
        atomic_store(&unfit, 0);
        assert_int_equal(sigaction(SIGALRM, &drop, &before), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        for (unsigned n = 0; atomic_load(&pot.dropped) < (test_quick() ? 50 : 2000); n++) {
            tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3000));
            assert_array(a);
            drop_at(n % POT);
            atomic_store(&pot.at[n % POT], a);
        }
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        drop_all(0);
        assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
        assert_int_equal(atomic_load(&unfit), 0);
        assert_int_equal(test_stats(rt).arrays, 0);
        assert_int_equal(test_stats(rt).live, 0);
        tide_close(rt);
    }
}

/* ---- the collector "boehm" ---- */

static int child(const char *what) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "boehm"};
    sigset_t all;
    if (strcmp(what, "blocked") == 0) {
        sigfillset(&all);
        __real_pthread_sigmask(SIG_BLOCK, &all, NULL);
        if (tide_open(&c, &rt) != TIDE_E_UNSUPPORTED) return 3;
        if (!strstr(tide_error_last()->message, "SIGPWR") ||
            !strstr(tide_error_last()->message, "refcount"))
            return 4;
        if (!blocked_here(SIGPWR) || !blocked_here(SIGXCPU)) return 5;
        c.collector = "refcount";
        if (tide_open(&c, &rt) != TIDE_OK) return 6;
        tide_close(rt);
        mask(SIG_UNBLOCK, SIGPWR);
        mask(SIG_UNBLOCK, SIGXCPU);
        c.collector = "boehm";
        if (tide_open(&c, &rt) != TIDE_OK) return 7;
        if (tide_collect(rt) != TIDE_OK) return 8;
        tide_close(rt);
        return blocked_here(SIGUSR1) ? 0 : 9;
    }
    char **before = environ, *first = environ ? environ[0] : NULL; /* "environment" */
    if (tide_open(&c, &rt) != TIDE_OK) return 3;
    if (environ != before || (before && environ[0] != first) || getenv("GC_RETRY_SIGNALS"))
        return 4;
    tide_close(rt);
    return 0;
}

static void child_ends_well(const char *what) {
    int status;
    test_needs_children();
    if (!TEST_BOEHM) skip();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_signals", "child", what, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* All signals are blocked before anything else, as programs with a thread for signals do. */
static void a_runtime_opens_where_signals_are_blocked(void **state) {
    (void)state;
    child_ends_well("blocked");
}

/* What bdwgc reads in its environment is not left there. */
static void the_environment_stays(void **state) {
    (void)state;
    child_ends_well("environment");
}

static void *attach_blocked(void *rt) {
    static char wrong[200];
    mask(SIG_BLOCK, SIGPWR);
    if (tide_thread_attach(rt) != TIDE_E_UNSUPPORTED) return "attached";
    snprintf(wrong, sizeof wrong, "%s", tide_error_last()->message);
    if (!strstr(wrong, "this thread blocks SIGPWR") || !strstr(wrong, "SIGXCPU")) return wrong;
    if (tide_ones(rt, TIDE_F32, 0, NULL)) return "an array was made";
    if (tide_error_last()->status != TIDE_E_UNSUPPORTED) return "another error";
    mask(SIG_UNBLOCK, SIGPWR);
    mask(SIG_BLOCK, SIGXCPU); /* with this one bdwgc gets along */
    return tide_thread_attach(rt) == TIDE_OK && tide_ones(rt, TIDE_F32, 0, NULL) ? NULL
                                                                                 : "not attached";
}

static void a_thread_that_blocks_the_signals_is_refused(void **state) {
    pthread_t thread;
    void *wrong;
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = open_as("boehm", NULL);
    assert_int_equal(pthread_create(&thread, NULL, attach_blocked, rt), 0);
    pthread_join(thread, &wrong);
    if (wrong) fail_msg("%s", (char *)wrong);
    tide_close(rt);
}

/* A thread that goes from step to step as the case says. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int step;
} stage = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static void to_step(int step) {
    pthread_mutex_lock(&stage.lock);
    stage.step = step;
    pthread_cond_broadcast(&stage.changed);
    pthread_mutex_unlock(&stage.lock);
}
static void wait_for_step(int step) {
    pthread_mutex_lock(&stage.lock);
    while (stage.step < step) pthread_cond_wait(&stage.changed, &stage.lock);
    pthread_mutex_unlock(&stage.lock);
}

static void *blocks_later(void *rt) {
    if (tide_thread_attach(rt) != TIDE_OK) abort();
    mask(SIG_BLOCK, SIGPWR);
    to_step(1);
    wait_for_step(2);
    mask(SIG_UNBLOCK, SIGPWR);
    to_step(3);
    wait_for_step(4);
    mask(SIG_BLOCK, SIGPWR); /* it ends so: that is nobody's trouble */
    return NULL;
}

__attribute__((noinline)) static void make_garbage(tide_runtime *rt) {
    for (int i = 0; i < 50; i++) assert_array(tide_zeros(rt, TIDE_U8, SHAPE(1 << 20)));
}

/* More cells than bdwgc's heap begins with: it would collect of its own accord. */
__attribute__((noinline)) static void make_many(tide_runtime *rt) {
    tide_array *x = tide_zeros(rt, TIDE_F64, SHAPE(10));
    for (int i = 0; i < (test_quick() ? 20000 : 600000); i++) assert_array(tide_expand_dims(x, 0));
    tide_free(x);
}

static void blocking_the_signals_later_holds_collections_off(void **state) {
    pthread_t thread;
    (void)state;
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = open_as("boehm", NULL);
    stage.step = 0;
    assert_int_equal(pthread_create(&thread, NULL, blocks_later, rt), 0);
    wait_for_step(1);
    uint64_t before = test_stats(rt).collections;
    make_garbage(rt);
    assert_ok(tide_collect(rt)); /* the thread cannot be stopped, and is not waited for */
    assert_int_equal(test_stats(rt).collections, before);
    assert_true(test_stats(rt).arrays >= 50);
    assert_ok(tide_collect(rt));
    assert_int_equal(lines_with(TIDE_LOG_WARNING, "blocks SIGPWR"), 1);
    make_many(rt);
    assert_null(tide_zeros(rt, TIDE_U8, SHAPE(40 << 20)));
    assert_error(TIDE_E_NOMEM, "boehm (a thread blocks its signals)");
    to_step(2);
    wait_for_step(3);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, before + 1);
    assert_true(test_stats(rt).arrays < 50); /* a stale word may keep a few */
    to_step(4);
    pthread_join(thread, NULL);
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, before + 2);
    tide_close(rt);
}

#if TEST_BOEHM
int GC_is_disabled(void);

/* As soon as the thread that blocked it is gone, or nobody blocks it where a runtime closes, bdwgc
** collects again: the host may have garbage of its own, and no runtime left. */
static void collections_are_not_held_off_for_ever(void **state) {
    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        pthread_t thread;
        tide_runtime *rt = open_as("boehm", NULL);
        stage.step = 0;
        assert_int_equal(pthread_create(&thread, NULL, blocks_later, rt), 0);
        wait_for_step(1);
        assert_ok(tide_collect(rt));
        assert_true(GC_is_disabled());
        to_step(2);
        wait_for_step(3);
        if (closes) {
            tide_close(rt);
            assert_false(GC_is_disabled());
        }
        to_step(4);
        pthread_join(thread, NULL);
        assert_false(GC_is_disabled());
        if (!closes) tide_close(rt);
    }
}
#else
static void collections_are_not_held_off_for_ever(void **state) {
    (void)state;
    skip();
}
#endif

/* A thread whose vfork's child takes its time takes no signal either: it is waited for, as long as
** it takes. */
static void *away(void *rt) {
    if (tide_thread_attach(rt) != TIDE_OK) abort();
    to_step(1);
    pid_t pid = vfork();
    if (pid == 0) {
        nanosleep(&(struct timespec){.tv_sec = test_long() ? 18 : 0, .tv_nsec = 300000000}, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return NULL;
}
static void a_thread_that_is_away_is_waited_for(void **state) {
    pthread_t thread;
    (void)state;
    test_needs_children();
    if (!TEST_BOEHM) skip();
    tide_runtime *rt = open_as("boehm", NULL);
    stage.step = 0;
    assert_int_equal(pthread_create(&thread, NULL, away, rt), 0);
    wait_for_step(1);
    usleep(50000);
    uint64_t before = test_stats(rt).collections;
    assert_ok(tide_collect(rt));
    assert_int_equal(test_stats(rt).collections, before + 1);
    pthread_join(thread, NULL);
    tide_close(rt);
}

/* Runtimes that open and close, with their streams' threads, on many threads that collect, while
** others keep the few processors busy: a thread that is to be stopped waits for its turn. */
enum { CROWD = 24, SPINNERS = 2 };
static atomic_int rounds_left;
static atomic_bool crowd_is_gone;
static void *spins(void *unused) {
    while (!atomic_load_explicit(&crowd_is_gone, memory_order_relaxed)) {}
    return unused;
}
static void *opens_and_closes(void *unused) {
    for (int left; (left = atomic_fetch_sub(&rounds_left, 1)) > 0;) {
        tide_runtime *rt = NULL;
        tide_config c = {.struct_size = sizeof c,
                         .device = "host",
                         .host_device_memory = "8MiB",
                         .collector = "boehm"};
        if (tide_open(&c, &rt) != TIDE_OK) abort();
        for (int i = 0; i < 20; i++) {
            tide_array *x = tide_ones(rt, TIDE_F64, SHAPE(100));
            if (!tide_add(x, x)) abort();
        }
        if (left % 4 == 0 && tide_collect(rt) != TIDE_OK) abort();
        tide_close(rt);
    }
    return unused;
}
static void a_crowd_of_threads_is_stopped_and_goes_on(void **state) {
    pthread_t thread[CROWD], spinner[SPINNERS];
    (void)state;
    if (!TEST_BOEHM) skip();
    atomic_store(&rounds_left, CROWD * (test_quick() ? 10 : 200));
    atomic_store(&crowd_is_gone, false);
    for (int i = 0; i < SPINNERS; i++)
        assert_int_equal(pthread_create(&spinner[i], NULL, spins, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, opens_and_closes, NULL), 0);
    for (int i = 0; i < CROWD; i++) pthread_join(thread[i], NULL);
    atomic_store(&crowd_is_gone, true);
    for (int i = 0; i < SPINNERS; i++) pthread_join(spinner[i], NULL);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "child") == 0) return child(argv[2]);
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(no_mask_changes),
        CASE(handlers_run_on_the_programs_threads),
        CASE(our_own_threads_take_no_signals),
        CASE(calls_go_on_in_a_storm_of_signals),
        CASE(a_handler_may_drop_arrays),
        CASE(a_runtime_opens_where_signals_are_blocked),
        CASE(the_environment_stays),
        /* before closing looks at very many arrays */
        CASE(a_crowd_of_threads_is_stopped_and_goes_on),
        CASE(a_thread_that_blocks_the_signals_is_refused),
        CASE(blocking_the_signals_later_holds_collections_off),
        CASE(collections_are_not_held_off_for_ever),
        CASE(a_thread_that_is_away_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
