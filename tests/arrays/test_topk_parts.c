/* test_topk_parts.c: the first few of rows that fall into parts: topk.c compiled so that short rows
** do, several times over and for every k, with the kernels that a GPU has for them, emulated. */
#include "arrays/order/select_host.h"
#define PART       ((int64_t)300)
#define SHARE      4
#define PARTS_MOST 40
#define WORTH                                                                                      \
    { OD_TOP, 0, 0 }
#include "arrays/order/topk.c" /* in place of the library's */
#include "tests/arrays/sorted.h"

/* In any layout; row-major ones of any rank, others of up to three. */
static void picks_from(tide_runtime *rt, tide_dtype t, int round) {
    const int layout = round % LAYOUTS,
              ndim = 1 + (int)random_below(layout == PLAIN ? TIDE_MAX_RANK : 3),
              axis = (int)random_below(ndim);
    const int64_t n = 600 + random_below(5000), most = n < OD_TOP ? n : OD_TOP;
    int64_t shape[TIDE_MAX_RANK];
    for (int d = 0; d < ndim; d++) shape[d] = d < 3 ? 1 + random_below(2) : 1;
    shape[axis] = n;
    tide_array *a = random_array(rt, t, ndim, shape, layout, round & 1);
    picks_right(a, axis, 1 + random_below(round & 2 ? 20 : most), random_below(2));
    tide_release(a);
}

static void parts_of_parts_are_right(void **state) {
    if (!*state) skip();
    for (int round = 0; round < (test_quick() ? 2 : 5); round++)
        for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
            if (tidei_dtype_kind(t) != TIDEI_KIND_COMPLEX) picks_from(*state, t, round + (int)t);
    assert_int_equal(parts_of(5000, 20), 17);
    assert_int_equal(parts_of(17 * 20, 20), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_of_parts_are_right, open_emulated, close_runtime),
    };
    return cmocka_run_group_tests_name("topk_parts", tests, NULL, NULL);
}
