/* vm_calls.h: what tests of the host's interpreter share: programs (programs.h) run over memory,
** special values of each type, and values compared with those of the model (naive.h).
**
** What must stay true: a program that runs here was found valid first, and nothing of it is
** kept. */
#ifndef VM_CALLS_H
#define VM_CALLS_H

#include "arrays/expr/vm.h"
#include "tests/arrays/expr/naive.h"
#include "tests/arrays/expr/programs.h"
#include <float.h>

/* ---- calls ---- */
static inline void run(const tidei_vm_kernels *k, const tidei_program *p, const tidei_vm_call *c) {
    tidei_vm_program *vp = NULL;
    assert_true(tidei_program_valid(p));
    assert_ok(tidei_vm_compile(NULL, p, k, "test", &vp));
    tidei_vm_run(vp, c);
    tidei_vm_release(NULL, vp);
}
/* a call over n elements in a row; operands are added by bind() */
static inline tidei_vm_call line(int64_t n) {
    tidei_vm_call c = {.ndim = 1};
    c.shape[0] = n;
    return c;
}
static inline void bind(tidei_vm_operand *o, void *base) {
    o->base = base;
    o->strides[0] = 1;
}

/* ---- special values ---- */
static const double special_floats[] = {
    0.0,     -0.0,  1.0,     -1.0,    0.5,      -0.5,      1.5,       2.5,       -2.5,
    3.0,     -7.0,  10.0,    1e-3,    100.25,   -2048.0,   65504.0,   65520.0,   -3e4,
    1e10,    1e300, 0x1p-24, 0x1p-25, 0x1p-14,  0x1p-126,  0x1p-149,  0x1p-1074, FLT_MAX,
    DBL_MAX, 0.1,   1 / 3.0, NAN,     INFINITY, -INFINITY, -0x1p-149, 127.5,     2147483648.0};
#define NSPECIAL 36
_Static_assert(TIDEI_COUNT(special_floats) == NSPECIAL, "");

static inline num special(int t, unsigned i) {
    num n = {.t = t};
    static const int small[] = {0, 1, -1, 2, 3, -3, 7, -7, 8, 15, 31, 32, 63, 64, 100, -100};
    if (naive_class(t) >= 2) {
        n.x = naive_round(t, special_floats[i]);
        if (naive_class(t) == 3) n.y = naive_round(t, special_floats[(i * 7 + i / 5) % NSPECIAL]);
    } else if (i < TIDEI_COUNT(small)) {
        n.i = naive_wrap(t, (unsigned __int128)(__int128)small[i]);
        if (t == TIDE_BOOL) n.i = i % 2;
    } else {
        const int shift = (int)(i - TIDEI_COUNT(small)) / 2;
        n.i = i % 2 ? naive_max(t) >> shift : naive_min(t) + shift;
        if (t == TIDE_BOOL) n.i = i % 2;
    }
    return n;
}

static uint64_t random_state;
static inline uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline unsigned pick(unsigned n) { return (unsigned)(random_bits() % n); }

static inline void check_num(num got, num want, bool zeros_alike, const char *what, num a, num b,
                             num c) {
    char t[5][80];
    if (zeros_alike ? naive_equal(got, want) : naive_same(got, want)) return;
    fail_msg("%s of %s, %s, %s: got %s, want %s", what, naive_text(a, t[0]), naive_text(b, t[1]),
             naive_text(c, t[2]), naive_text(got, t[3]), naive_text(want, t[4]));
}

static inline bool offered(int op, int t) { return tidei_op_infos[op].classes & tidei_class(t); }
static inline bool is(double a, double b) { return naive_same_float(a, b); }

#endif
