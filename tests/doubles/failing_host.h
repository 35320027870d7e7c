/* failing_host.h: host memory for a runtime whose n-th allocation fails. */
#ifndef TIDETEST_FAILING_HOST_H
#define TIDETEST_FAILING_HOST_H

#include "tests/support/tidetest.h"

/* Allocations so far, and the one that fails; 0: none. */
static long host_calls, host_fails;
static void *failing_alloc(void *user, size_t bytes) {
    (void)user;
    return ++host_calls == host_fails ? NULL : malloc(bytes);
}
static void plain_free(void *user, void *p) { (void)user, free(p); }

#endif
