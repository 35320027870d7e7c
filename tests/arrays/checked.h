/* checked.h: runtimes that check what is read and written (debug 1), and are sound at their end. */
#ifndef TIDETEST_CHECKED_H
#define TIDETEST_CHECKED_H

#include "runtime/device/host/host.h"
#include "tests/support/tidetest.h"

static inline tide_runtime *open_checked(void) {
    tide_config c = {.collector = "refcount", .debug = 1};
    return test_open(&c);
}
static inline void close_checked(tide_runtime *rt) {
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_close(rt);
}

#endif
