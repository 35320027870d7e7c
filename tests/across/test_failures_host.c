/* test_failures_host.c: each allocation of host memory gets its turn to fail, once or with all that
** follow (failure_loop.h). */
#include "tests/across/failure_loop.h"

int main(void) {
    static const struct mode failures[] = {
        {"host memory", TIDE_E_HOST_NOMEM, false, true, NULL},
        {"no host memory left", TIDE_E_HOST_NOMEM, true, false, NULL},
    };
    return run_failures("failures_host", failures, TIDEI_COUNT(failures), NULL, 0);
}
