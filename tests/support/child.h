/* child.h: a part of a case in a process of its own: limits that cannot be taken back, ends that
** are no return, what is decided once for a process's life. */
#ifndef TIDETEST_CHILD_H
#define TIDETEST_CHILD_H

#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/tidetest.h"

/* In the child, in place of cmocka's assertions. */
#define must(c)       ((c) ? (void)0 : child_fails(__FILE__, __LINE__, #c))
#define must_ok(call) must((call) == TIDE_OK)
/* `call` fails with `wanted`, and its message contains `part`. */
#define must_fail(call, wanted, part)                                                              \
    do {                                                                                           \
        must((call) == (wanted) && tide_error_last()->status == (wanted));                         \
        must(strstr(tide_error_last()->message, (part)));                                          \
    } while (0)
__attribute__((noreturn)) static inline void child_fails(const char *file, int line,
                                                         const char *what) {
    const tide_error *e = tide_error_last();
    fprintf(stderr, "%s:%d: %s; the last error: %s: %s\n", file, line, what,
            tide_status_name(e->status), e->message);
    _exit(1);
}

/* Runs `part` there; the case fails unless it returns. */
static inline void in_child_with(void (*part)(const void *arg), const void *arg) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        part(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) fail_msg("a child ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* As in_child_with, for a part that needs nothing. */
static inline void call_part(const void *part) { (*(void (*const *)(void))part)(); }
static inline void in_child(void (*part)(void)) { in_child_with(call_part, &part); }

#endif
