/* random_programs.h: threads that take turns at steps of a random program over a few arrays, and a
** sequential model of what is in them. A test adds steps of its own, and says on what streams and
** devices they go. */
#ifndef TIDETEST_RANDOM_PROGRAMS_H
#define TIDETEST_RANDOM_PROGRAMS_H

#include <pthread.h>
#include "tests/support/tidetest.h"

enum { ARRAYS = 6, LENGTH = 48, THREADS = 3 };
static struct {
    tide_runtime *rt;
    bool counted;         /* references are */
    bool (*step)(void);   /* one of the program's */
    pthread_mutex_t turn; /* the order of the calls, which the model has too */
    uint64_t dice;
    int left, wrong;
    tide_array *x[ARRAYS];
    int32_t model[ARRAYS][LENGTH];
} world = {.turn = PTHREAD_MUTEX_INITIALIZER};

static inline unsigned dice(unsigned n) {
    world.dice = world.dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((world.dice >> 33) % n);
}
static inline void drop(tide_array *a) {
    tide_free(a);
    if (world.counted) tide_release(a);
}
static inline tide_array *stretch(unsigned i, unsigned from, unsigned n) {
    tide_range r = {.start = from, .stop = from + n, .step = 1};
    return tide_slice_ranges(world.x[i], 1, &r);
}

/* ---- steps ---- */

static inline bool step_fill(unsigned d) {
    unsigned n = 1 + dice(LENGTH), from = dice(LENGTH - n + 1);
    int32_t v = (int32_t)dice(100);
    tide_array *view = stretch(d, from, n);
    bool ok = view && tide_fill(view, tide_arg_int(v)) == TIDE_OK;
    for (unsigned i = 0; i < n; i++) world.model[d][from + i] = v;
    return drop(view), ok;
}
static inline bool step_assign(unsigned d, unsigned f) {
    unsigned n = 1 + dice(LENGTH), to = dice(LENGTH - n + 1), from = dice(LENGTH - n + 1);
    if (d == f) return true;
    tide_array *dst = stretch(d, to, n), *src = stretch(f, from, n);
    bool ok = dst && src && tide_assign(dst, src) == TIDE_OK;
    memcpy(&world.model[d][to], &world.model[f][from], n * sizeof **world.model);
    return drop(dst), drop(src), ok;
}
static inline bool step_read(unsigned d) {
    int32_t out[LENGTH];
    return tide_to_host(world.x[d], out, sizeof out) == TIDE_OK &&
           !memcmp(out, world.model[d], sizeof out);
}
/* Array d is `a` from now on, which has a - 2*b of arrays f and g. */
static inline void be_computed(unsigned d, unsigned f, unsigned g, tide_array *a) {
    int32_t out[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        out[i] = (int32_t)((uint32_t)world.model[f][i] - 2u * (uint32_t)world.model[g][i]);
    memcpy(world.model[d], out, sizeof out);
    drop(world.x[d]);
    world.x[d] = a;
}

/* ---- programs ---- */

static void *take_turns(void *unused) {
    for (bool more = true; more;) {
        pthread_mutex_lock(&world.turn);
        more = world.left > 0 && !world.wrong;
        if (more) world.left--;
        if (more && !world.step()) {
            fprintf(stderr, "%d left: %s\n", world.left, tide_error_last()->message);
            world.wrong = 1;
        }
        pthread_mutex_unlock(&world.turn);
    }
    return unused;
}

/* Before its arrays are made. */
static inline void begin_program(tide_runtime *rt, uint64_t seed, bool (*step)(void), int steps,
                                 bool counted) {
    world.rt = rt;
    world.step = step;
    world.counted = counted;
    world.dice = seed * 0x9e3779b97f4a7c15u;
    world.left = steps;
    world.wrong = 0;
    memset(world.model, 0, sizeof world.model);
}
/* Runs it, compares, drops the arrays. */
static inline void run_program(uint64_t seed) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_turns, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    if (world.wrong) fail_msg("seed %d", (int)seed);
    for (unsigned i = 0; i < ARRAYS; i++) assert_true(step_read(i));
    for (unsigned i = 0; i < ARRAYS; i++) drop(world.x[i]);
    assert_int_equal(test_stats(world.rt).live, 0);
}

#endif
