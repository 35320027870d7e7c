/* compiles.h: whether the texts of our own kernels compile for a GPU, where there is a compiler. */
#ifndef TIDETEST_COMPILES_H
#define TIDETEST_COMPILES_H

#include "runtime/device/cuda/nvrtc.h"
#include "tests/support/tidetest.h"

/* The text with the kernel that is wanted ("ALL": with all of them; arrays/kernels/text.h), for
** GPUs of compute capability `sm`. Skips where there is no NVRTC, and where cases do a part of
** their rounds (TIDE_TEST_QUICK): the time is NVRTC's, and other cases call our side of it. */
static inline void compiles(const char *text, const char *name, const char *wanted, int sm) {
    void *image;
    size_t bytes;
    if (test_quick() || tidei_nvrtc_open(0) != TIDE_OK) skip();
    size_t room = strlen(text) + strlen(wanted) + 32;
    char *whole = malloc(room);
    snprintf(whole, room, "#define TIDE_WANTS_%s 1\n%s", wanted, text);
    assert_ok(tidei_nvrtc_compile(whole, name, sm, &image, &bytes));
    assert_true(bytes > 0);
    free(image);
    free(whole);
}

#endif
