/* fresh_environment.h: setup of cases that look at the log and say themselves what the environment
** says. */
#ifndef TIDETEST_FRESH_ENVIRONMENT_H
#define TIDETEST_FRESH_ENVIRONMENT_H

#include "tests/support/clean_environment.h"
#include "tests/support/logged.h"

static int fresh_environment(void **state) {
    (void)state;
    if (!test_on_host()) test_keep_context();
    logged.n = 0;
    tide_error_clear();
    clear_environment();
    return 0;
}

#endif
