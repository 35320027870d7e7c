/* logged.h: what a runtime logged, for tests: the first 64 lines. `tide_config.log` is
** keep_line. */
#ifndef TIDETEST_LOGGED_H
#define TIDETEST_LOGGED_H

#include <pthread.h>
#include "tests/support/tidetest.h"

static struct {
    pthread_mutex_t lock;
    char line[64][400];
    int level[64];
    unsigned n;
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_line(void *user, int level, const char *line) {
    (void)user;
    pthread_mutex_lock(&logged.lock);
    if (logged.n < 64) {
        logged.level[logged.n] = level;
        snprintf(logged.line[logged.n++], sizeof logged.line[0], "%s", line);
    }
    pthread_mutex_unlock(&logged.lock);
}
static inline unsigned lines_with(int level, const char *part) {
    unsigned n = 0;
    for (unsigned i = 0; i < logged.n; i++)
        n += logged.level[i] == level && strstr(logged.line[i], part);
    return n;
}

#endif
