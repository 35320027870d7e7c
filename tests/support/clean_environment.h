/* clean_environment.h: setup and teardown of cases that say themselves what the environment
** says. */
#ifndef TIDETEST_CLEAN_ENVIRONMENT_H
#define TIDETEST_CLEAN_ENVIRONMENT_H

#include "tests/support/tidetest.h"

static const char *const variables[] = {"TIDE_DEVICE",
                                        "TIDE_LIMIT",
                                        "TIDE_SOFT_LIMIT",
                                        "TIDE_COLLECTOR",
                                        "TIDE_POLICY",
                                        "TIDE_GC_EARLY",
                                        "TIDE_POOL",
                                        "TIDE_HOST_DEVICE_MEMORY",
                                        "TIDE_HOST_DEVICES",
                                        "TIDE_HOST_THREADS",
                                        "TIDE_LOG",
                                        "TIDE_DEBUG",
                                        "TIDE_CACHE",
                                        "TIDE_CACHE_DIR",
                                        "TIDE_CACHE_MAX",
                                        "TIDE_HANDLE_CACHE",
                                        "TIDE_RELEASE_THRESHOLD",
                                        "TIDE_POOL_DETERMINISTIC",
                                        "TIDE_TRACE",
                                        "TIDE_THREAD_STREAMS",
                                        "TIDE_DEFAULT_MEMORY",
                                        "TIDE_PINNED_LIMIT",
                                        "TIDE_PEERS",
                                        "TIDE_SPILL",
                                        "TIDE_COLLECT_WAIT",
                                        "TIDE_MATMUL"};
static char *kept[TIDEI_COUNT(variables)];

static void clear_environment(void) {
    for (size_t i = 0; i < TIDEI_COUNT(variables); i++) {
        const char *v = getenv(variables[i]);
        kept[i] = v ? strdup(v) : NULL;
        unsetenv(variables[i]);
    }
}
static int restore_environment(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(variables); i++) {
        if (kept[i])
            setenv(variables[i], kept[i], 1);
        else
            unsetenv(variables[i]);
        free(kept[i]);
    }
    return 0;
}

#endif
