/* fuzz_npy.c: the reader of .npy files, from bytes to an array that prints. */
#include <sys/mman.h>
#include <tide/tide.h>
#include <unistd.h>

#include "arrays/npy.h"
#include "tests/fuzz.h"

static tide_runtime *rt; /* one for all inputs */
static void close_runtime(void) { tide_close(rt); }

static tide_runtime *runtime(void) {
    const tide_config c = {
        .struct_size = sizeof c, .device = "host", .host_memory = "64MiB", .collector = "refcount"};
    if (rt) return rt;
    if (tide_open(&c, &rt) != TIDE_OK) {
        fprintf(stderr, "%s\n", tide_last_error()->message);
        exit(1);
    }
    atexit(close_runtime);
    return rt;
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    int f = memfd_create("fuzz", MFD_CLOEXEC);
    if (f < 0 || pwrite(f, bytes, n, 0) != (ssize_t)n) exit(1);
    tide_clear_error();
    tide_array *a = tidei_npy_read_file(tidei_runtime_of(runtime()), f, "fuzz");
    close(f);
    if (!a) {
        if (tide_last_error()->status == TIDE_OK || !*tide_last_error()->message)
            abort(); /* no refusal without a reason */
        return;
    }
    char text[64];
    if (tide_format(a, text, sizeof text) == 0) abort();
    tide_release(a);
}
