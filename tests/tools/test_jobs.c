/* test_jobs.c: how many programs run side by side (experiment E15). What the command prints:
** info.sh. */
#include "tools/tide/jobs.h"
#include "tests/support/tidetest.h"

#define GIB(n) ((size_t)((n) * (double)TIDEI_GIB))

static void e15_the_table(void **state) {
    static const struct {
        tidei_jobs x;
        size_t jobs;
    } table[] = {
        {{true, GIB(139), 128}, 34},
        {{true, GIB(139), 16}, 16},
        {{true, GIB(15.7), 16}, 3},
        {{true, GIB(3), 16}, 1},
        {{false, GIB(8), 16}, 16},
        {{false, 0, 128}, 128},
        /* and their edges */
        {{true, GIB(4), 16}, 1},
        {{true, GIB(8) - 1, 16}, 1},
        {{true, GIB(8), 16}, 2},
        {{true, 0, 16}, 1},
        {{true, GIB(139), 0}, 1},
        {{false, GIB(139), 0}, 1},
        {{true, SIZE_MAX, SIZE_MAX}, SIZE_MAX / GIB(4)},
    };
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(table); i++)
        assert_int_equal(tidei_jobs_of(&table[i].x), table[i].jobs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(e15_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
