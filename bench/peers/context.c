/* context.c: the least that a program does which uses a GPU: the driver is loaded, begun, a context
** made and ended. For bench/start.py. Exit 0, 1 failed, 77 skipped: there is no GPU. */
#include "runtime/device/cuda/driver.h"
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return fprintf(stderr, "%s\n", dlerror()), 77;
    tidei_cu_result (*init)(unsigned int) = NULL, (*device)(tidei_cu_device *, int) = NULL,
                                     (*retain)(tidei_cu_ctx *, tidei_cu_device) = NULL,
                                     (*release)(tidei_cu_device) = NULL;
    *(void **)&init = dlsym(lib, "cuInit");
    *(void **)&device = dlsym(lib, "cuDeviceGet");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&release = dlsym(lib, "cuDevicePrimaryCtxRelease_v2");
    tidei_cu_device d;
    tidei_cu_ctx ctx;
    if (!init || !device || !retain || !release) return fputs("an old driver\n", stderr), 1;
    if (init(0) || device(&d, 0)) return fputs("no GPU\n", stderr), 77;
    return retain(&ctx, d) || release(d) ? fputs("no context\n", stderr), 1 : 0;
}
