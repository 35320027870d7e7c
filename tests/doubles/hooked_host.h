/* hooked_host.h: host memory for a runtime that is counted, and whose n-th allocation fails, on
** whatever thread it is made. */
#ifndef TIDETEST_HOOKED_HOST_H
#define TIDETEST_HOOKED_HOST_H

#include "tests/support/tidetest.h"

static struct {
    _Atomic uint64_t calls;
    _Atomic uint64_t fail_at; /* 0: none */
    atomic_bool sticky;       /* all later ones too */
    _Atomic long held;
} hook;

static void *hook_alloc(void *user, size_t n) {
    uint64_t call = atomic_fetch_add(&hook.calls, 1) + 1, at = atomic_load(&hook.fail_at);
    (void)user;
    if (at && (call == at || (call > at && atomic_load(&hook.sticky)))) return NULL;
    atomic_fetch_add(&hook.held, 1);
    return malloc(n);
}
static void hook_free(void *user, void *p) {
    (void)user;
    if (p) atomic_fetch_sub(&hook.held, 1);
    free(p);
}
static const tide_allocator hooked = {hook_alloc, hook_free, NULL};

#endif
