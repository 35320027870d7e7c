/* pool_failures.h: a program on a pool over doubles in which the n-th call of a kind fails, for
** each n until none does. */
#ifndef TIDETEST_POOL_FAILURES_H
#define TIDETEST_POOL_FAILURES_H

#include "tests/doubles/pool_double.h"

struct failure {
    enum double_call call;
    tide_status with;
};

enum { FAILURE_BLOCKS = 90 };

/* A bit of everything, on blocks up to n times three units; stops at the first refusal and returns
** it. What it got is in `b`. */
static inline tide_status a_bit_of_everything(tidei_pool *p, tidei_block *b, unsigned n,
                                              size_t unit) {
    tide_status st;
    uint64_t tick = 0;
    for (unsigned i = 0; i < n; i++)
        if ((st = get(p, 3 * unit * (i + 1), i % 3, 0, &b[i])) != TIDE_OK) return st;
    for (unsigned i = 0; i < n; i += 2) {
        for (unsigned s = 0; s <= i % 6; s++) {
            if (!tidei_stamps_reserve(&b[i].stamps, 1)) return TIDE_E_HOST_NOMEM;
            tidei_stamps_add(&b[i].stamps,
                             (tidei_stamp){.tick = ++tick, .stream = (uint16_t)s, .write = 1});
        }
        p->ops->free(p, &b[i]);
        b[i].priv = NULL;
    }
    for (unsigned s = 0; s < 3; s++) double_complete(s, tick / 2);
    for (unsigned i = 0; i < n; i += 2)
        if ((st = get(p, 2 * unit * (i + 1), 4, i % 4 ? TIDEI_ALLOC_STEAL : 0, &b[i])) != TIDE_OK)
            return st;
    p->ops->trim(p, 0);
    for (unsigned i = 1; i < n; i += 2) {
        p->ops->free(p, &b[i]);
        b[i].priv = NULL;
    }
    for (unsigned s = 0; s < TIDEI_STREAMS_MAX; s++) double_complete(s, tick);
    p->ops->trim(p, 0);
    return get(p, 5000 * unit, 5, 0, &b[1]);
}

/* On pools as `open` makes the k-th. */
static inline void each_failure_leaves_order(const struct failure *f,
                                             tidei_pool *(*open)(unsigned k), unsigned k,
                                             unsigned n, size_t unit) {
    static tidei_block b[FAILURE_BLOCKS];
    bool failed = true;
    assert_in_range(n, 1, FAILURE_BLOCKS);
    for (long after = 0; failed; after++) {
        memset(b, 0, sizeof b);
        tidei_pool *p = open(k);
        dbl.fail_with = f->with;
        dbl.fail_after[f->call] = after;
        tide_status st = a_bit_of_everything(p, b, n, unit);
        failed = dbl.fail_after[f->call] < 0;
        assert_true(st == TIDE_OK || (failed && st == f->with));
        dbl.fail_after[f->call] = -1;
        assert_true(balanced(p));
        for (unsigned i = 0; i < n; i++)
            if (b[i].priv)
                p->ops->free(p, &b[i]);
            else
                drop_stamps(&b[i]);
        assert_int_equal(figures(p).live, 0);
        close_clean(p);
    }
}

#endif
