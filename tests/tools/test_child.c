/* test_child.c: code in a child process: how it ends, and what it gives back. */
#include "tools/tide/child.h"
#include "tests/support/tidetest.h"
#include <sys/mman.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct work {
    int signal, status, result;
    bool loops, exits, sleeps, eats, prints, deaf;
};

static int refused; /* errno of fork */
pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) { return refused ? errno = refused, -1 : __real_fork(); }

static void work(void *p) {
    struct work *w = p;
    volatile bool *loops = &w->loops;
    w->result = 42;
    if (w->signal) raise(w->signal);
    if (w->exits) _exit(w->status);
    if (w->deaf) signal(SIGALRM, SIG_IGN);
    if (w->prints) printf("not the parent's");
    for (size_t i = 0; w->eats; i++) { /* and never gives back */
        /* not malloc, which MALLOC_PERTURB_ lets fill what it gives */
        char *eaten =
            mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (eaten == MAP_FAILED) abort();
        eaten[i] = 1;
    }
    while (*loops) {}
    while (w->sleeps) pause();
}

static const char *end_of(struct work *w) {
    static char text[TIDEI_CHILD_TEXT];
    tidei_child_end e = tidei_child_run(work, w, sizeof *w, 1);
    assert_int_equal(w->result, e.how == TIDEI_CHILD_DONE ? 42 : 0);
    return tidei_child_text(&e, text, sizeof text);
}

static void what_is_done_is_given_back(void **state) {
    struct work w = {.result = 0};
    (void)state;
    assert_string_equal(end_of(&w), "");
    assert_int_equal(w.result, 42);
}

static void ends_are_told_where_they_were_ignored(void **state) {
    struct work w = {.result = 0}, exits = {.exits = true, .status = 3};
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    assert_string_equal(end_of(&w), "");
    signal(SIGCHLD, SIG_IGN);
    assert_string_equal(end_of(&exits), "ended the process (status 3)");
    signal(SIGCHLD, SIG_DFL);
}

static void a_crash_is_the_childs(void **state) {
    static const int signals[] = {SIGSEGV, SIGFPE, SIGABRT, SIGKILL};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(signals); i++) {
        struct work w = {.signal = signals[i]};
        char text[TIDEI_CHILD_TEXT];
        snprintf(text, sizeof text, "crashed (signal %d)", signals[i]);
        assert_string_equal(end_of(&w), text);
    }
}

static void a_child_that_ends_itself_gives_nothing_back(void **state) {
    struct work well = {.exits = true}, badly = {.exits = true, .status = 3};
    (void)state;
    assert_string_equal(end_of(&well), "ended the process (status 0)");
    assert_string_equal(end_of(&badly), "ended the process (status 3)");
}

/* Memory ends for it, and not for its parent. */
static void what_eats_memory_is_stopped(void **state) {
    struct work w = {.eats = true};
    (void)state;
    assert_string_equal(end_of(&w), "crashed (signal 6)");
}

/* It ends by exit, which writes what its parent had not sent off yet. */
static void leave(void *p) {
    work(p);
    exit(5);
}

static void its_output_is_dropped(void **state) {
    struct work w = {.prints = true};
    int ends[2], old = dup(STDOUT_FILENO);
    char got[16] = "";
    (void)state;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    printf("once");
    tidei_child_end e = tidei_child_run(leave, &w, sizeof w, 10);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old), close(ends[1]);
    assert_true(e.how == TIDEI_CHILD_EXIT && e.number == 5);
    assert_int_equal(read(ends[0], got, sizeof got), 4);
    assert_string_equal(got, "once");
    close(ends[0]);
}

static void an_endless_loop_comes_to_an_end(void **state) {
    struct work loops = {.loops = true}, sleeps = {.sleeps = true};
    (void)state;
    assert_string_equal(end_of(&loops), "took more than 1 s");
    if (!test_long()) return;
    struct work stops = {.signal = SIGSTOP}, deaf = {.deaf = true, .sleeps = true};
    assert_string_equal(end_of(&sleeps), "took more than 1 s");
    assert_string_equal(end_of(&stops), "took more than 1 s");
    assert_string_equal(end_of(&deaf), "took more than 1 s");
}

/* ---- what it starts itself ---- */

/* A process that says 'r' and holds the pipe; after half a minute that nobody ended it, 'x'. */
static void leave_a_process(int out) {
    if (fork()) return;
    (void)!write(out, "r", 1);
    sleep(30);
    (void)!write(out, "x", 1);
    _exit(0);
}

struct leaver {
    int out;
    bool stays;
};

static void leaves(void *p) {
    struct leaver *l = p;
    leave_a_process(l->out);
    while (l->stays) pause();
}

static void assert_over(int in) {
    char got;
    if (read(in, &got, 1) != 0) fail_msg("a process was left");
}

static void what_it_started_ends_with_it(void **state) {
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    struct leaver l = {.out = ends[1]};
    tidei_child_end e = tidei_child_run(leaves, &l, sizeof l, 10);
    assert_int_equal(e.how, TIDEI_CHILD_DONE);
    close(ends[1]);
    char got; /* it may have ended before it said anything */
    if (read(ends[0], &got, 1) == 1) assert_over(ends[0]);
    close(ends[0]);
}

static void all_ends_with_the_parent(void **state) {
    static const int signals[] = {SIGINT, SIGTERM};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(signals); i++) {
        int ends[2], status;
        char got;
        assert_int_equal(pipe(ends), 0);
        pid_t middle = fork();
        if (!middle) {
            struct leaver l = {.out = ends[1], .stays = true};
            close(ends[0]);
            tidei_child_run(leaves, &l, sizeof l, 60);
            _exit(1);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], &got, 1), 1);
        kill(middle, signals[i]);
        assert_int_equal(waitpid(middle, &status, 0), middle);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        assert_over(ends[0]);
        close(ends[0]);
    }
}

static void without_a_process_it_says_so(void **state) {
    struct work w = {.result = 0};
    char text[TIDEI_CHILD_TEXT];
    (void)state;
    refused = EAGAIN;
    snprintf(text, sizeof text, "could not be run in a process of its own (errno %d)", EAGAIN);
    assert_string_equal(end_of(&w), text);
    refused = 0;
    tidei_child_end e = tidei_child_run(work, &w, SIZE_MAX / 2, 1);
    assert_true(e.how == TIDEI_CHILD_NONE && e.number == ENOMEM);
}

static void *in_a_thread(void *p) {
    for (int i = 0; i < 20; i++) {
        struct work well = {.result = 0}, badly = {.signal = SIGSEGV};
        tidei_child_end a = tidei_child_run(work, &well, sizeof well, 10),
                        b = tidei_child_run(work, &badly, sizeof badly, 10);
        if (a.how == TIDEI_CHILD_DONE && well.result == 42 && b.number == SIGSEGV) ++*(int *)p;
    }
    return NULL;
}

static void threads_have_children_of_their_own(void **state) {
    pthread_t threads[4];
    int right[4] = {0};
    (void)state;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, in_a_thread, &right[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_int_equal(right[i], 20);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_done_is_given_back),
        cmocka_unit_test(ends_are_told_where_they_were_ignored),
        cmocka_unit_test(a_crash_is_the_childs),
        cmocka_unit_test(a_child_that_ends_itself_gives_nothing_back),
        cmocka_unit_test(what_eats_memory_is_stopped),
        cmocka_unit_test(its_output_is_dropped),
        cmocka_unit_test(an_endless_loop_comes_to_an_end),
        cmocka_unit_test(what_it_started_ends_with_it),
        cmocka_unit_test(all_ends_with_the_parent),
        cmocka_unit_test(without_a_process_it_says_so),
        cmocka_unit_test(threads_have_children_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
