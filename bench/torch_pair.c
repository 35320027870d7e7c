/* torch_pair.c: PyTorch's hook on a host device: N blocks of 4000 bytes taken and given back, as
** torch.empty(1000) does it: for instruction counts (bench/torch_ir.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0;
    if (n <= 0) return fprintf(stderr, "usage: torch-pair N\n"), 2;
    setenv("TIDE_HOST_DEVICE_MEMORY", "256MiB", 0);
    for (long i = 0; i < n; i++) {
        void *p = tide_torch_malloc(4000, 0, NULL);
        if (!p) return fprintf(stderr, "%s\n", tide_error_last()->message), 1;
        tide_torch_free(p, 4000, 0, NULL);
    }
    tide_torch_close();
    return 0;
}
