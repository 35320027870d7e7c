/* test_sort_far.c: rows whose places need 64 bits are as good as any: sort.c compiled so that every
** long row is one, with the kernels that a GPU has for them, emulated. */
#include "arrays/order/sort.h"
#undef TIDEI_NEAR
#define TIDEI_NEAR 0
#include "arrays/order/sort.c" /* in place of the library's */
#include "tests/arrays/sorted.h"

/* Which texts have been compiled. */
static bool narrow, wide, near;
static void note_kernel(char *text) {
    narrow |= strstr(text, "WANTS_order_sweep_32_far ") != NULL;
    wide |= strstr(text, "WANTS_order_sweep_64_far ") != NULL;
    near |= strstr(text, "WANTS_order_sweep_32 ") || strstr(text, "WANTS_order_sweep_64 ");
}

static void sort_rows(tide_runtime *rt, tide_dtype t, int64_t rows, bool few) {
    tide_array *a =
        random_array(rt, t, 2, (int64_t[]){rows, SHORT + 5}, few ? BACKWARD : PLAIN, few);
    both_are_right(a, 1, few);
    tide_release(a);
}

static void far_places_are_right(void **state) {
    static const tide_dtype types[] = {TIDE_F32, TIDE_I64, TIDE_C64, TIDE_I8,
                                       TIDE_U32, TIDE_F64, TIDE_C128};
    if (!*state) skip();
    size_t n = test_quick() ? 3 : TIDEI_COUNT(types);
    emulated_edit = note_kernel;
    for (size_t i = 0; i < n; i++) {
        sort_rows(*state, types[i], 1, false);
        if (!test_quick()) sort_rows(*state, types[i], 2, true);
    }
    emulated_edit = NULL;
    assert_true(narrow && wide && !near);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(far_places_are_right, open_emulated, close_runtime),
    };
    return cmocka_run_group_tests_name("sort_far", tests, NULL, NULL);
}
