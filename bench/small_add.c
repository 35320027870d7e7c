/* small_add.c: tide_add of 32 numbers N times on the host device, with a synchronisation after
** every 64: for instruction counts (bench/add_ir.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

int main(int argc, char **argv) {
    const tide_config config = {.struct_size = sizeof config,
                                .device = "host",
                                .collector = "refcount",
                                .host_device_memory = "256MiB"};
    const int64_t shape = 32;
    long n = argc > 1 ? atol(argv[1]) : 0;
    tide_runtime *rt;
    if (n <= 0) return fprintf(stderr, "usage: small-add N\n"), 2;
    if (tide_open(&config, &rt) != TIDE_OK)
        return fprintf(stderr, "%s\n", tide_error_last()->message), 1;
    tide_array *a = tide_ones(rt, TIDE_F32, 1, &shape);
    for (long i = 0; i < n && a; i++) {
        tide_array *sum = tide_add(a, a);
        if (!sum) return fprintf(stderr, "%s\n", tide_error_last()->message), 1;
        tide_release(sum);
        if (i % 64 == 63 && tide_synchronize(rt, NULL) != TIDE_OK) return 1;
    }
    tide_close(rt);
    return 0;
}
