/* every_failure.h: the failure loop over a host device: the n-th call of the device fails, until
** none does. */
#ifndef TIDETEST_EVERY_FAILURE_H
#define TIDETEST_EVERY_FAILURE_H

#include "tests/support/tidetest.h"

/* `all` works in a scope of its own and says how that ended. Once memory runs out at the n-th call
** and stays so, once that call alone fails otherwise; each time nothing may be left, and the
** runtime goes on. */
static inline void each_call_fails(void (*all)(tide_runtime *rt, tide_status *status)) {
    tide_status s = TIDE_E_NOMEM;
    if (!test_on_host()) skip();
    for (int kind = 0; kind < 2; kind++) {
        tidei_device *inner, *device;
        tide_runtime *rt;
        tide_config c = {.struct_size = sizeof c, .collector = "refcount"};
        assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = 16 << 20}, &inner));
        assert_ok(tidei_fault_open(inner, &device));
        assert_ok(tidei_open_on(&c, device, &rt));
        all(rt, &s); /* programs are made once */
        assert_int_equal(s, TIDE_OK);
        s = TIDE_E_NOMEM;
        for (uint64_t n = 1; s != TIDE_OK; n++) {
            tidei_fault_set(device, TIDEI_FAULT_ANY, n, kind ? TIDE_E_DEVICE : TIDE_E_NOMEM,
                            kind == 0);
            all(rt, &s);
            tidei_fault_set(device, TIDEI_FAULT_ANY, 0, TIDE_OK, false);
            assert_true(s == TIDE_OK || s == TIDE_E_NOMEM || s == TIDE_E_DEVICE);
            assert_ok(tide_device_synchronize(rt));
            assert_true(tidei_runtime_valid(test_rt(rt)));
            assert_int_equal(test_stats(rt).live, 0);
            assert_true(n < 10000);
        }
        tide_close(rt);
    }
}

#endif
