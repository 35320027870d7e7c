/* emulated_failures.h: the failure loop over an emulated GPU. */
#ifndef TIDETEST_EMULATED_FAILURES_H
#define TIDETEST_EMULATED_FAILURES_H

#include "tests/arrays/every_failure.h"
#include "tests/doubles/emulated_device.h"

/* each_call_fails over such a device; a case that cannot have one is skipped. */
static inline void each_emulated_call_fails(void (*all)(tide_runtime *rt, tide_status *status)) {
    if (!can_emulate()) skip();
    emulated_device = true;
    each_call_fails(all);
    emulated_device = false;
}

#endif
