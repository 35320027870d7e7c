/* lapack_problem.h: one call of a routine on the double of cuSOLVER: its operands on the device,
** and whether what came out of it is what the routine promises (lapack_promises.h).
**
** What must stay true: after a call, failed or not, its workspaces and options are gone and its
** context is popped. */
#ifndef TIDETEST_LAPACK_PROBLEM_H
#define TIDETEST_LAPACK_PROBLEM_H

#include "tests/libs/lapack_promises.h"

static inline tidei_stream *stream(void) { return fake.inner->devs[0].stream0; }
static inline tide_status bring_back(void *arg) {
    problem *p = arg;
    tide_status status = TIDE_OK;
    p->again++;
    for (int i = 0; i < OPERANDS && status == TIDE_OK; i++)
        if (p->op[i].st)
            status = tidei_submit_copy(stream(), TIDEI_COPY_H2D, p->op[i].st, 0, p->op[i].in, NULL,
                                       0, p->op[i].bytes, "test");
    return status;
}

static inline void make(problem *p, int64_t gap) {
    tidei_lapack *x = &p->x;
    tidei_mats *const v[] = {&x->a, &x->b, &x->c, &x->d};
    lay_operands(p, gap);
    fill_operands(p);
    for (int i = 0; i < OPERANDS; i++) {
        operand *o = &p->op[i];
        if (!o->bytes) continue;
        assert_ok(tidei_storage_new(&fake.inner->devs[0], o->bytes, stream(), "test", &o->st));
        if (i != INFO) v[i]->st = o->st;
    }
    x->info = p->op[INFO].st;
    assert_ok(bring_back(p));
    p->again = 0;
    x->again = bring_back;
    x->again_arg = p;
}
static inline void unmake(problem *p) {
    for (int i = 0; i < OPERANDS; i++) {
        if (p->op[i].st) tidei_storage_release(p->op[i].st);
        free(p->op[i].in);
    }
}

static inline void fetch(problem *p) {
    for (int i = 0; i < OPERANDS; i++)
        if (p->op[i].st)
            assert_ok(tidei_submit_copy(stream(), TIDEI_COPY_D2H, NULL, 0, p->op[i].got,
                                        p->op[i].st, 0, p->op[i].bytes, "test"));
    assert_ok(tide_device_synchronize(fake.rt));
}
static inline void check(problem *p) {
    const tidei_lapack *x = &p->x;
    fetch(p);
    verdict v = judge(p);
    if (v.broken)
        fail_msg(
            "%s of %s, %lld matrices of (%lld, %lld), matrix %lld: not so, by a ratio of %g: %s",
            tidei_lapack_name(x), tide_dtype_name(x->dtype), (long long)x->count,
            (long long)p->op[A].rows, (long long)x->n, (long long)v.w, v.ratio, v.broken);
}

static inline tide_status run(problem *p) {
    fake.live = atomic_load(&fake.inner->devs[0].budget->live);
    tide_status status = tidei_lapack_cuda(stream(), &p->x, "tide_test");
    /* the workspaces are gone */
    assert_int_equal(atomic_load(&fake.inner->devs[0].budget->live), fake.live);
    assert_int_equal(fake.params, 0);
    assert_int_equal(contexts.depth, 0);
    return status;
}
static inline void run_whole(tidei_lapack x, int64_t gap, bool batched) {
    problem p = {.x = x};
    int before = fake.batched;
    make(&p, gap);
    assert_ok(run(&p));
    check(&p);
    assert_int_equal(fake.batched > before, batched);
    assert_int_equal(p.again, 0);
    unmake(&p);
}

#endif
