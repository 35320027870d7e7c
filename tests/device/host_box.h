/* host_box.h: a host device under a runtime that only logs and counts host memory, and shorthand
** for queueing on it. */
#ifndef TIDETEST_HOST_BOX_H
#define TIDETEST_HOST_BOX_H

#include <pthread.h>
#include <sched.h>
#include "runtime/device/host/host.h"
#include "tests/support/tidetest.h"

#define NSTREAMS 8

struct box {
    tidei_runtime rt;
    tidei_device *d;
    const struct tidei_device_ops *o;
    tidei_dstream *s[NSTREAMS];
    tidei_addr memory; /* 1 MiB */
    _Atomic long allocations;
    long fail_at;          /* the allocation, counted from 1, that fails; 0: none */
    atomic_bool exhausted; /* all fail */
    _Atomic long asked;
    pthread_mutex_t lock; /* of the lines */
    unsigned lines;
    char line[512]; /* the last one */
};
#define MEMORY TIDEI_MIB

static void *count_alloc(void *user, size_t n) {
    struct box *b = user;
    if (atomic_fetch_add(&b->asked, 1) + 1 == b->fail_at || atomic_load(&b->exhausted)) return NULL;
    atomic_fetch_add(&b->allocations, 1);
    return malloc(n);
}
static void count_free(void *user, void *p) {
    atomic_fetch_sub(&((struct box *)user)->allocations, 1);
    free(p);
}
static void keep_line(void *user, int level, const char *line) {
    struct box *b = user;
    assert_int_equal(level, TIDE_LOG_WARNING);
    pthread_mutex_lock(&b->lock);
    b->lines++;
    snprintf(b->line, sizeof b->line, "%s", line);
    pthread_mutex_unlock(&b->lock);
}

static inline struct box *new_box(void) {
    struct box *b = calloc(1, sizeof *b);
    b->rt.host = (tide_allocator){count_alloc, count_free, b};
    b->rt.log = keep_line;
    b->rt.log_user = b;
    b->rt.set.log_level = TIDE_LOG_WARNING;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

static inline struct box *open_box(bool checker) {
    struct box *b = new_box();
    tidei_device_params p = {
        .host_device_memory = 16 * TIDEI_MIB, .host_checker = checker, .rt = &b->rt};
    assert_ok(tidei_host_open(&p, &b->d));
    b->o = b->d->ops;
    for (int i = 0; i < NSTREAMS; i++) assert_ok(b->o->stream_new(b->d, &b->s[i]));
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory));
    return b;
}

static inline void close_box(struct box *b) {
    for (int i = 0; i < NSTREAMS; i++)
        if (b->s[i]) {
            b->o->stream_sync(b->d, b->s[i]);
            b->o->stream_release(b->d, b->s[i]);
        }
    b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
    assert_int_equal(atomic_load(&((tidei_host *)b->d)->used), 0);
    b->o->close(b->d);
    assert_int_equal(atomic_load(&b->allocations), 0);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- shorthand ---- */

static inline void nothing(const void *p) { (void)p; }

static inline tide_status launch_fn(struct box *b, unsigned s, tidei_host_fn fn, const void *params,
                                    size_t n, tidei_addr addr, size_t bytes, unsigned mode) {
    tidei_range r = {addr, bytes, mode};
    return b->o->launch(b->d, b->s[s],
                        &(tidei_launch){.name = mode & TIDEI_WRITE ? "put" : "get",
                                        .host_fn = fn,
                                        .params = params,
                                        .params_bytes = n,
                                        .ranges = &r,
                                        .nranges = bytes ? 1 : 0});
}
static inline void touch(struct box *b, unsigned s, unsigned mode, tidei_addr addr, size_t bytes) {
    assert_ok(launch_fn(b, s, nothing, NULL, 0, addr, bytes, mode));
}
static inline void order(struct box *b, tidei_devent *e, unsigned from, unsigned to) {
    assert_ok(b->o->event_record(b->d, e, b->s[from]));
    assert_ok(b->o->event_wait(b->d, e, b->s[to]));
}
static inline void finish(struct box *b, unsigned s) {
    assert_ok(b->o->stream_sync(b->d, b->s[s]));
    b->o->speak(b->d);
}
static inline uint64_t reports(struct box *b) { return tidei_host_checker_reports(b->d); }
static inline tidei_devent *new_event(struct box *b) {
    tidei_devent *e;
    assert_ok(b->o->event_new(b->d, &e));
    return e;
}
static inline void spin(const void *p) {
    atomic_int *flag = *(atomic_int *const *)p;
    while (!atomic_load(flag)) sched_yield();
}
static inline void launch_spin(struct box *b, unsigned s, atomic_int *flag) {
    assert_ok(launch_fn(b, s, spin, &flag, sizeof flag, 0, 0, 0));
}

#endif
