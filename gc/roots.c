/* roots.c: which libraries' data a conservative collector need not scan.
**
** CUDA's libraries have hundreds of megabytes of writable data (cuBLAS alone 190) that hold no pointer into anybody's
** heap; scanned as roots they turn a pause of 0.01 ms into one of 40. */
#include "runtime/base.h"
#include <tide/collector.h>

static const struct {
    const char *stem;
    bool prefix; /* else the name ends there, or goes on with ".so..." */
} device_libraries[] = {
    {"libcuda", false},     {"libcudart", false}, {"libcublas", true},  {"libcusolver", true},
    {"libcusparse", false}, {"libcufft", true},   {"libcurand", false}, {"libcudnn", true},
    {"libnccl", false},     {"libnv", true},      {"libcupti", false},
};

int tide_is_device_library(const char *name) {
    if (!name) return 0;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    for (size_t i = 0; i < TIDEI_COUNT(device_libraries); i++) {
        size_t n = strlen(device_libraries[i].stem);
        if (strncmp(base, device_libraries[i].stem, n)) continue;
        if (device_libraries[i].prefix || base[n] == 0 || base[n] == '.') return 1;
    }
    return 0;
}
