/* few_mallocs.h: malloc refuses after so many calls, in a program that wraps it
** (tests/meson.build). */
#ifndef TIDETEST_FEW_MALLOCS_H
#define TIDETEST_FEW_MALLOCS_H

#include <stdatomic.h>
#include <stddef.h>

static _Atomic long mallocs_left = -1; /* of all threads; -1: no end */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    if (atomic_load(&mallocs_left) == 0) return NULL;
    if (atomic_load(&mallocs_left) > 0) atomic_fetch_sub(&mallocs_left, 1);
    return __real_malloc(bytes);
}

#endif
