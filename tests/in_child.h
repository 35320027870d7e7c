/* in_child.h: parts of a case that want a process of their own, because what they do holds for the
** process's life. cmocka's assertions are the parent's; a child says what it needs, and ends where
** that is not so. */
#ifndef TIDETEST_IN_CHILD_H
#define TIDETEST_IN_CHILD_H

#include <sys/wait.h>
#include <unistd.h>
#include "tests/tidetest.h"

#define NEED(c)                                                                                                    \
    do {                                                                                                           \
        if (!(c)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #c,                        \
                    tide_last_error()->message);                                                                   \
            _exit(1);                                                                                              \
        }                                                                                                          \
    } while (0)
/* `call` fails with `wanted`, and its message contains `part`. */
#define NEED_ERROR(call, wanted, part)                                                                             \
    do {                                                                                                           \
        NEED((call) == (wanted) && tide_last_error()->status == (wanted));                                         \
        NEED(strstr(tide_last_error()->message, (part)));                                                          \
    } while (0)

static inline void in_child(void (*part)(void)) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        part();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#endif
