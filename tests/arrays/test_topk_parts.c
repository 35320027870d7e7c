/* test_topk_parts.c: the first few of rows that fall into parts, and of short ones that warps hold:
** topk.c compiled so that rows of more than 2048 fall into short parts, several times over and for
** every k, and so that few rows, too, are held by warps; with a GPU's kernels, emulated. */
#include "arrays/order/select_host.h"
#define PART       ((int64_t)300)
#define SHARE      4
#define PARTS_MOST 40
#define WORTH                                                                                      \
    { OD_TOP, 2049, 0 }
#define WARP_ROWS  1
#define WARP_LEAST 2
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

/* Rows that warps or blocks hold: of elements that are hard to order, of any, of equals. */
static tide_array *held_rows(tide_runtime *rt, tide_dtype t, int64_t n, int kind) {
    const int64_t shape[] = {9, n};
    if (kind < 2) return random_array(rt, t, 2, shape, (int)random_below(LAYOUTS), kind);
    tide_array *a = tide_full(rt, t, 2, shape, tide_arg_int(kind == 2));
    assert_array(a);
    return a;
}
static void held_by(tide_runtime *rt, tide_dtype t, int64_t n, int64_t k, const char *kernel) {
    tide_array *a = held_rows(rt, t, n, (int)random_below(4));
    picks_right(a, 1, k, random_below(2));
    if (kernel) assert_string_equal(atomic_load(&emulated_last), kernel);
    tide_release(a);
}
static void rows_are_held_by_warps_and_blocks(void **state) {
    static const int64_t lengths[] = {2, 31, 33, 127, 129, 300, 1023, 1024, 1025, 2047, 2048};
    if (!*state) skip();
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++)
        for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
            const int64_t n = lengths[i], most = n < WARP_K ? n : WARP_K;
            const bool wide = tide_dtype_size(t) == 8,
                       rare = i && random_below(test_quick() ? 6 : 2);
            if (tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX || rare) continue;
            held_by(*state, t, n, 1 + random_below(most), NULL);
            held_by(*state, t, n, most, NULL);
            if (tide_dtype_size(t) == 1) continue; /* many such rows are counted */
            if (n > 1)
                held_by(*state, t, n, most - 1 + (most == 1),
                        n <= 1024 ? wide ? "order_first_64" : "order_first_32"
                        : wide    ? "order_top_64_held"
                                  : "order_first_32_long");
            if (n > SORTED)
                held_by(*state, t, n, 65 + random_below(n < OD_TOP ? n - 66 : OD_TOP - 64),
                        wide ? "order_top_64_held" : "order_top_32_held");
        }
    held_by(*state, TIDE_F32, 1024, 1024, "order_top_32_held");
    held_by(*state, TIDE_F64, 1023, 1022, "order_top_64_held");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_of_parts_are_right, open_emulated, close_runtime),
        cmocka_unit_test_setup_teardown(rows_are_held_by_warps_and_blocks, open_emulated,
                                        close_runtime),
    };
    return cmocka_run_group_tests_name("topk_parts", tests, NULL, NULL);
}
