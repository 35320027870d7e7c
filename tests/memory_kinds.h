/* memory_kinds.h: what the tests of kinds of memory share: runtimes whose checker is on, and arrays
** 0, 1, 2 ... in a kind of memory. */
#ifndef TIDETEST_KINDS_H
#define TIDETEST_KINDS_H

#include "tests/works.h"
#include "runtime/pool/pools.h"
#include <sched.h>
#include <unistd.h>

#define MIB TIDEI_MIB

static const tide_memory kinds[]
    __attribute__((unused)) = {TIDE_MEMORY_DEVICE, TIDE_MEMORY_PINNED, TIDE_MEMORY_UNIFIED};
#define KINDS ((int)TIDEI_COUNT(kinds))
static const char *const names[]
    __attribute__((unused)) = {"default", "device", "pinned", "unified"};

static inline tide_config config(void) {
    return (tide_config){
        .struct_size = sizeof(tide_config), .collector = "refcount", .debug = 1, .log = keep_line};
}

/* One that counts references, with the checker on where there is one. */
static inline tide_runtime *open_plain(void) {
    tide_config c = config();
    return test_open(&c);
}

/* Closes, having looked whether all is in order. */
static inline void close_silent(tide_runtime *rt) {
    tidei_device *d = test_rt(rt)->devs[0].d;
    assert_ok(tide_device_synchronize(rt));
    assert_true(tidei_runtime_valid(test_rt(rt)));
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(d), 0);
    tide_close(rt);
}

static inline tide_array *moved(tide_array *a, tide_memory kind) {
    tide_array *b = tide_to_memory(a, kind);
    assert_array(b);
    assert_int_equal(tide_array_memory(b), kind);
    tide_release(a);
    return b;
}

static inline tide_array *counting(tide_runtime *rt, tide_memory kind, int64_t n) {
    tide_array *a = tide_arange(rt, TIDE_F32, 0, (double)n, 1);
    assert_array(a);
    return moved(a, kind);
}

static inline void assert_counts(tide_array *a, int64_t n, float from) {
    float *got = malloc((size_t)n * sizeof *got);
    assert_int_equal(tide_array_size(a), n);
    assert_ok(tide_to_host(a, got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != from + (float)i) fail_msg("element %d is %g", (int)i, (double)got[i]);
    free(got);
}

static inline tide_device_figures info(tide_runtime *rt) {
    tide_device_figures m = {.struct_size = sizeof m};
    assert_ok(tide_device_info(rt, &m));
    return m;
}

/* Work that stands at a gate, then does something to the array. */
struct gated {
    atomic_int open, done;
    float *p;
    int64_t n;
    float add;
    double sum;
};
static inline void gated_write(void *arg) {
    struct gated *g = arg;
    while (!atomic_load(&g->open)) sched_yield();
    for (int64_t i = 0; i < g->n; i++) g->p[i] += g->add;
    atomic_store(&g->done, 1);
}
static inline void gated_read(void *arg) {
    struct gated *g = arg;
    while (!atomic_load(&g->open)) sched_yield();
    for (int64_t i = 0; i < g->n; i++) g->sum += g->p[i];
    atomic_store(&g->done, 1);
}
static inline void queue_gated(tide_runtime *rt, tide_stream *s, tide_array *a, bool writes,
                               struct gated *g) {
    tide_use use = {.array = a, .mode = writes ? TIDE_READ | TIDE_WRITE : TIDE_READ};
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_use_begin(rt, s, &use, 1, &p, &scope));
    g->p = p;
    g->n = tide_array_size(a);
    assert_ok(tide_use_launch(scope, writes ? gated_write : gated_read, g));
    assert_ok(tide_use_end(scope));
}
static inline void *open_gate(void *arg) {
    usleep(1000); /* so that somebody waits by then, usually: either way it must be right */
    atomic_store(&((struct gated *)arg)->open, 1);
    return NULL;
}

#endif
