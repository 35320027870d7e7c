/* base.h: the few things every file of the library shares: assertions, host memory, time, locks,
** error birth.
**
** Assertions are for our mistakes, errors for the world's refusals. tidei_check is on unless
** NDEBUG; tidei_check_slow (walks whole structures) only in the stress build (-Dstress=true defines
** TIDEI_STRESS). */
#ifndef TIDEI_BASE_H
#define TIDEI_BASE_H

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tide/base.h>
#include <tide/runtime.h>

/* what a tide_runtime refers to (refs.h): runtime/runtime.h */
typedef struct tidei_runtime tidei_runtime;

#define TIDEI_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TIDEI_KIB      ((size_t)1 << 10)
#define TIDEI_MIB      ((size_t)1 << 20)
#define TIDEI_GIB      ((size_t)1 << 30)

#define TIDEI_LINE 64 /* bytes of a cache line */

#define tidei_check(c) assert(c)
#ifdef TIDEI_STRESS
#define tidei_check_slow(c) assert(c)
#else
#define tidei_check_slow(c) ((void)0)
#endif

/* Loops over records that lie anywhere ask for those so many turns ahead. */
#define TIDEI_FETCH_AHEAD 8

#define tidei_likely(c)   __builtin_expect(!!(c), 1)
#define tidei_unlikely(c) __builtin_expect(!!(c), 0)

/* In the thread's static block, so that reading it is one instruction in a shared library too. */
#define TIDEI_FAST_TLS __attribute__((tls_model("initial-exec"))) _Thread_local

/* Keeps `p` in a register or on the stack up to here, so that a conservative collector sees it. */
static inline void tidei_keep(const void *p) { __asm__ __volatile__("" : : "r"(p) : "memory"); }

static inline size_t tidei_round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
} /* n + to must not wrap */
static inline size_t tidei_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t tidei_max_size(size_t a, size_t b) { return a > b ? a : b; }

/* Between two looks at a word that another thread is about to change. */
static inline void tidei_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

uint64_t tidei_now_ns(void); /* monotonic */

/* Host memory through the runtime's hook (rt may be NULL: malloc). Zeroed; NULL when exhausted,
** with no error set. */
void *tidei_host_alloc(tidei_runtime *rt, size_t bytes);
void *tidei_host_take(tidei_runtime *rt, size_t bytes); /* the same, not zeroed; bytes > 0 */
void tidei_host_free(tidei_runtime *rt, void *p);

/* Sets the thread's error record and returns `s`. `op` is the public operation ("tide_add"), static
** or TLS-lived text. */
__attribute__((format(printf, 3, 4))) tide_status tidei_fail(tide_status s, const char *op,
                                                             const char *fmt, ...);
tide_status tidei_fail_host_memory(const char *op, size_t bytes);
tide_status tidei_switch(int on, const char *op);    /* TIDE_E_INVALID: `on` is neither 0 nor 1 */
extern TIDEI_FAST_TLS tide_error tidei_error_record; /* the thread's */
static inline tide_status tidei_last_status(void) { return tidei_error_record.status; }
/* The error that stands becomes the public operation's: the device and pool tables below it know
** none. Returns its status. */
tide_status tidei_fail_as(const char *op);
/* An array that is NULL: TIDE_E_INVALID, or where an error stands that one's status: it is why
** there is no array, and its message says, once, at which call that was noticed ("then: tide_mul:
** argument 2 is NULL"). `what`: "argument 2". */
tide_status tidei_fail_null(const char *op, const char *what);
/* bytes; an out-of-memory report needs about 1500, a compiler's log more */
#define TIDEI_MESSAGE_MAX 4096
/* Saves and restores the error record around clean-up that may fail too. */
typedef struct tidei_saved_error {
    tide_status status;
    char text[TIDEI_MESSAGE_MAX]; /* written only where there is an error */
    const char *operation;
} tidei_saved_error;
void tidei_error_save_text(tidei_saved_error *e); /* the long way */
static inline void tidei_error_save(tidei_saved_error *e) {
    e->status = tidei_last_status();
    if (tidei_unlikely(e->status != TIDE_OK)) tidei_error_save_text(e);
}
void tidei_error_restore(const tidei_saved_error *e);

/* One line to the runtime's log, if its level lets it through. No lock may be held. */
__attribute__((format(printf, 3, 4))) void tidei_log(tidei_runtime *rt, int level, const char *fmt,
                                                     ...);
bool tidei_log_wants(tidei_runtime *rt, int level);

/* "1.8 GiB" (digits = 1), "2.865 GiB" (3), "0 bytes"; returns buf. */
const char *tidei_format_bytes(char *buf, size_t cap, size_t bytes, int digits);
/* "4GiB", "4G", "512MB", "1024", "50%" (of `whole`; not allowed when whole is 0). False on anything
** else, and on overflow. */
bool tidei_parse_bytes(const char *text, size_t whole, size_t *out);

#endif
