/* test_failures_memory.c: each device call gets its turn to find no memory left, once or with all
** that follow (failure_loop.h). */
#include "tests/across/failure_loop.h"

int main(void) {
    static const struct mode failures[] = {
        {"device memory", TIDE_E_NOMEM, false, false, NULL},
        {"no device memory left", TIDE_E_NOMEM, true, true, NULL},
    };
    return run_failures("failures_memory", failures, TIDEI_COUNT(failures), NULL, 0);
}
