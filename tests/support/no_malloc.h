/* no_malloc.h: malloc refuses while a thread says so, in a program that wraps it
** (tests/meson.build). */
#ifndef TIDETEST_NO_MALLOC_H
#define TIDETEST_NO_MALLOC_H

#include <stdbool.h>
#include <stddef.h>

static _Thread_local bool no_malloc;
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return no_malloc ? NULL : __real_malloc(bytes); }

#endif
