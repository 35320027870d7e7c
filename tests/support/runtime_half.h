/* runtime_half.h: the runtime without its upper floors, on a small host device: for tests of
** streams, storages, headers and the ladder. */
#ifndef RUNTIME_HALF_H
#define RUNTIME_HALF_H

#include "tests/support/tidetest.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* A host device of `memory` bytes with pages of 64 KiB; the checker is on. */
static inline tidei_runtime *half_open(tide_config *c, size_t memory) {
    tide_config k = {.struct_size = sizeof k};
    tidei_device_params p = {.host_device_memory = memory, .host_checker = true};
    tidei_device *d;
    tidei_runtime *rt;
    if (c) k = *c;
    /* These tests hold work back by gates while they free, and count what is pending: where freeing
    ** waits for the work, as with the pool "none", they would wait for themselves. So TIDE_POOL
    ** does not reach them. */
    if (!k.pool) k.pool = "tide";
    assert_ok(tidei_host_open(&p, &d));
    assert_ok(tidei_runtime_open_on(&k, d, &rt));
    rt->devs[0].pool->mover = NULL; /* nothing moves: these tests look at addresses */
    return rt;
}

/* Closes, having checked the balance and that nothing was used out of order. */
static inline void half_close(tidei_runtime *rt) {
    assert_ok(tidei_streams_wait_all(&rt->devs[0], true));
    assert_true(tidei_runtime_valid(rt));
    assert_int_equal(tidei_host_checker_reports(rt->devs[0].d), 0);
    tidei_runtime_close(rt);
}

/* ---- work: adds to every byte, or waits for a gate first ---- */
struct work {
    unsigned char *dst; /* it and src come first: submitting adds the addresses there */
    const unsigned char *src;
    size_t bytes;
    int add;
    atomic_int *gate; /* runs once it is not 0 */
};

static inline void run_work(const void *params) {
    const struct work *w = params;
    while (w->gate && !atomic_load(w->gate)) sched_yield();
    for (size_t i = 0; i < w->bytes; i++)
        w->dst[i] = (unsigned char)((w->src ? w->src[i] : 0) + w->add);
}

/* dst = src + add on s (src NULL: dst = add), once the gate (may be NULL) opens. */
static inline tide_status submit_work(tidei_stream *s, tidei_storage *dst, tidei_storage *src,
                                      int add, atomic_int *gate) {
    struct work w = {.bytes = dst->bytes, .add = add, .gate = gate};
    tidei_use uses[2] = {{dst, 0, dst->bytes, TIDEI_WRITE}, {src, 0, dst->bytes, TIDEI_READ}};
    tidei_launch l = {.name = "work", .host_fn = run_work, .params = &w, .params_bytes = sizeof w};
    return tidei_submit_launch(s, uses, src ? 2 : 1, &l, &w, NULL, "work");
}

static inline int first_byte(tidei_storage *st) {
    assert_ok(tidei_storage_wait(st, TIDEI_READ));
    return *(unsigned char *)(uintptr_t)st->addr;
}

#endif
