/* counted_host.h: host memory for a runtime that counts the pieces held. */
#ifndef TIDETEST_COUNTED_HOST_H
#define TIDETEST_COUNTED_HOST_H

#include "tests/support/tidetest.h"

static _Atomic long host_held;
static void *counted_alloc(void *user, size_t n) {
    (void)user;
    atomic_fetch_add(&host_held, 1);
    return malloc(n);
}
static void counted_free(void *user, void *p) {
    (void)user;
    if (p) atomic_fetch_sub(&host_held, 1);
    free(p);
}
static const tide_allocator counted_memory = {counted_alloc, counted_free, NULL};

#endif
