/* test_failures_calls.c: each device call gets its turn to fail, once or with all that follow
** (failure_loop.h). */
#include "tests/across/failure_loop.h"

int main(void) {
    static const struct mode failures[] = {
        {"device call", TIDE_E_DEVICE, false, true, NULL},
        {"all device calls", TIDE_E_DEVICE, true, false, NULL},
    };
    return run_failures("failures_calls", failures, TIDEI_COUNT(failures), NULL, 0);
}
