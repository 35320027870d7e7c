/* tidetest.h: what the test programs share: cmocka, opening a runtime on the device under test,
** small helpers.
**
** TIDE_TEST_DEVICE names that device (default host). A case that needs what the device lacks calls
** skip(). TIDE_TEST_QUICK=1, which sanitized builds set, lets cases do a part of their rounds;
** TIDE_TEST_LONG=1 asks for more. */
#ifndef TIDETEST_H
#define TIDETEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "arrays/arrays.h"
#include "runtime/pool/pools.h"
#include "runtime/runtime.h"
#include <tide/tide.h>

/* Whether the collector "boehm" runs here: bdwgc's signals do not get through to threads under
** ThreadSanitizer. */
#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__)
#define TEST_BOEHM 1
#else
#define TEST_BOEHM 0
#endif

/* bdwgc scans stacks, and does not see what AddressSanitizer moved to its own. Once a program, as
** this header is. */
#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_stack_use_after_return=0"; }
#endif

/* OpenBLAS's threads share a matrix by means that ThreadSanitizer does not see, and fill their
** parts by a memset that it does. */
#if defined(__SANITIZE_THREAD__)
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:libopenblas.so\n"; }
#endif

/* Whether threads are looked at, which makes all else take ten times as long: loops over what one
** thread does may leave out more rounds than TIDE_TEST_QUICK says. */
#if defined(__SANITIZE_THREAD__)
#define TEST_THREADS_ONLY 1
#else
#define TEST_THREADS_ONLY 0
#endif

static inline const char *test_device(void) {
    const char *d = getenv("TIDE_TEST_DEVICE");
    return d && *d ? d : "host";
}
static inline int test_on_host(void) { return strncmp(test_device(), "host", 4) == 0; }

static inline bool test_switch(const char *variable) {
    const char *e = getenv(variable);
    return e && *e && strcmp(e, "0") != 0;
}
static inline bool test_quick(void) { return test_switch("TIDE_TEST_QUICK"); }
static inline bool test_memcheck(void) { return test_switch("TIDE_TEST_MEMCHECK"); }
/* For cases that are about processes of their own: compute-sanitizer does not look at those, and
** some come to a stop under it (where they load a library, or may write no more). */
static inline void test_needs_children(void) {
    if (test_memcheck()) skip();
}
/* tools/setup.sh makes the locales that cases want. Where it does not run, on a machine with a GPU,
** one may be missing. */
static inline void test_need_locale(bool there, const char *name) {
    if (!there && !test_on_host()) skip();
    if (!there) fail_msg("there is no locale %s: tools/setup.sh makes it", name);
}
static inline bool test_long(void) { return test_switch("TIDE_TEST_LONG"); }

/* All pools by name. */
enum { TEST_POOLS = 6 };
static inline const char *test_pool(unsigned i) {
    static const char *const names[TEST_POOLS] = {"tide",  "none",   "driver",
                                                  "split", "binned", "simple"};
    return names[i];
}

/* On cuda a process's first device makes the context, and its last one drops it, which takes a
** third of a second together: one stays open from the first case that needs it on. */
static inline void test_keep_context(void) {
    static tidei_device *kept;
    if (!kept) (void)!tidei_cuda_open(&(tidei_device_params){0}, &kept);
}

/* Opens on the device under test with the fields of `c` (may be NULL); fails the case with the
** reason otherwise. */
static inline tide_runtime *test_open(const tide_config *c) {
    tide_config k = {.struct_size = sizeof k};
    tide_runtime *rt = NULL;
    if (c) k = *c;
    k.struct_size = sizeof k;
    if (!k.device) k.device = test_device();
    if (strncmp(k.device, "cuda", 4) == 0) test_keep_context();
    if (tide_open(&k, &rt) != TIDE_OK) fail_msg("tide_open: %s", tide_error_last()->message);
    return rt;
}

/* What users' references refer to, for cases that look inside; none of them has ended. */
static inline tidei_runtime *test_rt(tide_runtime *rt) { return tidei_runtime_of(rt); }
static inline tidei_stream *test_stream(tide_stream *s) {
    return tidei_ref_look(TIDEI_REF_STREAM, s);
}
static inline tidei_user_pool *test_user_pool(tide_pool *p) {
    return tidei_ref_look(TIDEI_REF_POOL, p);
}

static inline tidei_runtime *test_open_rt(const tide_config *c) { return test_rt(test_open(c)); }

static inline tide_runtime_figures test_stats(tide_runtime *rt) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    assert_int_equal(tide_runtime_info(rt, &s), TIDE_OK);
    return s;
}

/* A shape as two arguments: the number of dimensions, and these. */
#define SHAPE(...)                                                                                 \
    (int)TIDEI_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]) { __VA_ARGS__ }

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TIDE_OK) fail_msg("%s: %s", #call, tide_error_last()->message);              \
    } while (0)
#define assert_array(a)                                                                            \
    do {                                                                                           \
        if (!(a)) fail_msg("%s: %s", #a, tide_error_last()->message);                              \
    } while (0)
/* The call failed with `status`, and its message contains `part`. */
#define assert_error(status_wanted, part)                                                          \
    do {                                                                                           \
        if (tide_error_last()->status != (status_wanted) ||                                        \
            !strstr(tide_error_last()->message, (part)))                                           \
            fail_msg("wanted %s with \"%s\", got %s: %s", tide_status_name(status_wanted), (part), \
                     tide_status_name(tide_error_last()->status), tide_error_last()->message);     \
    } while (0)

#endif
