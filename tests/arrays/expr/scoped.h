/* scoped.h: one runtime for a group of cases, under reference counts, and a scope for each case:
** what a case makes is released behind it. */
#ifndef TIDETEST_SCOPED_H
#define TIDETEST_SCOPED_H

#include "tests/support/tidetest.h"

static tide_runtime *rt;

static int open_rt(void **state) {
    const tide_config c = {.collector = "refcount"};
    (void)state;
    rt = test_open(&c);
    return 0;
}
static int close_rt(void **state) {
    (void)state;
    tide_close(rt);
    return 0;
}
static int begin(void **state) {
    (void)state;
    return tide_scope_begin(rt);
}
static int end(void **state) {
    (void)state;
    return tide_scope_end(rt);
}

#endif
