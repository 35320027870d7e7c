/* keeper.h: holding and dropping arrays as each collector's host would; shared by the tests that
** run over every collector. */
#ifndef TIDETEST_KEEPER_H
#define TIDETEST_KEEPER_H

#include "tests/doubles/mock_tracer.h"
#include "tests/support/tidetest.h"

/* Cases that count rounds have nothing to say where every allocation makes one. */
#ifdef TIDEI_STRESS
#define COUNTS_ROUNDS() skip()
#else
#define COUNTS_ROUNDS() ((void)0)
#endif

struct kind {
    const char *name, *collector;
    bool mock, runs;
    unsigned flags;
    unsigned spare; /* arrays that a stale word may keep */
};
static const struct kind kinds[] = {
    {"refcount", "refcount", false, true, 0, 0},
    {"boehm", "boehm", false, TEST_BOEHM, 0, 8},
    {"mock", "refcount", true, true, 0, 0},
    {"unruly mock", "refcount", true, true, MOCK_SHUFFLE | MOCK_DELAY | MOCK_REPEAT | MOCK_CROSS,
     0},
};

#define KEEP_MAX 4096
static struct keeper { /* static: bdwgc scans it */
    const struct kind *kind;
    tide_runtime *rt;
    mock_tracer mock;
    tide_array *array[KEEP_MAX];
    size_t object[KEEP_MAX];
} keeper;

static inline tide_runtime *keeper_open(const struct kind *kind, tide_config c) {
    c.collector = kind->collector;
    memset(&keeper, 0, sizeof keeper);
    keeper.kind = kind;
    keeper.rt = test_open(&c);
    if (kind->mock) mock_open(&keeper.mock, keeper.rt, "mock", TIDE_COLLECTOR_MINOR, kind->flags);
    return keeper.rt;
}

static inline void hold(unsigned i, tide_array *a) {
    assert_array(a);
    if (keeper.kind->mock) keeper.object[i] = mock_hold(&keeper.mock, a);
    keeper.array[i] = a;
}

static inline void drop(unsigned i) {
    if (keeper.kind->mock)
        mock_drop(&keeper.mock, keeper.object[i]);
    else if (!keeper.kind->spare)
        tide_release(keeper.array[i]);
    keeper.array[i] = NULL;
}

static __attribute__((noinline, unused)) void clear_stack(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

static inline void collect_all(void) {
    clear_stack();
    assert_ok(tide_collect(keeper.rt));
    if (keeper.kind->flags & MOCK_DELAY) assert_ok(tide_collect(keeper.rt));
}

static inline void keeper_close(void) {
    tide_close(keeper.rt);
    if (keeper.kind->mock) mock_end(&keeper.mock);
    memset(&keeper, 0, sizeof keeper);
}

static inline tide_array *make(tide_runtime *rt, int64_t bytes) {
    return tide_empty(rt, TIDE_U8, 1, &bytes);
}

/* A collector's slot: it finds nothing dead. */
static inline int never_collects(void *self, int level) {
    return (void)self, (void)level, TIDE_COLLECT_DONE;
}

/* A thread that collects once. */
static inline void *collect_in_thread(void *rt) {
    assert_ok(tide_collect(rt));
    return NULL;
}

#define EACH_KIND(k)                                                                               \
    for (const struct kind *k = kinds; k < kinds + TIDEI_COUNT(kinds); k++)                        \
        if (k->runs)

static inline void assert_arrays(tide_runtime *rt, unsigned wanted, size_t bytes_each) {
    tide_runtime_figures s = test_stats(rt);
    if (s.arrays < wanted || s.arrays > wanted + keeper.kind->spare)
        fail_msg("%s: %u arrays, wanted %u", keeper.kind->name, (unsigned)s.arrays, wanted);
    assert_int_equal(s.live, s.arrays * bytes_each);
    assert_true(tidei_runtime_valid(test_rt(rt)));
}

#endif
