/* roots.c: which libraries' data a conservative collector need not scan.
**
** CUDA's libraries have hundreds of megabytes of writable data (cuBLAS alone 190) that hold no pointer into anybody's
** heap; scanned as roots they turn a pause of 0.01 ms into one of 40. What is ours, and OpenBLAS, holds none either: together
** half a megabyte, most of what a small program's collections would scan. */
#include "gc/roots.h"
#include <tide/collector.h>

typedef struct library {
    const char *stem;
    bool prefix; /* else the name ends there, or goes on with ".so..." */
} library;

static const library device_libraries[] = {
    {"libcuda", false},     {"libcudart", false}, {"libcublas", true},  {"libcusolver", true},
    {"libcusparse", false}, {"libcufft", true},   {"libcurand", false}, {"libcudnn", true},
    {"libnccl", false},     {"libnv", true},      {"libcupti", false},
};
/* Where the library is linked into the program its data are the program's, and are scanned. */
static const library own_libraries[] = {{"libtidepool", false}, {"libopenblas", true}};

static bool is_among(const char *name, const library *known, size_t n) {
    if (!name) return false;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    for (const library *k = known; k < known + n; k++) {
        size_t length = strlen(k->stem);
        if (strncmp(base, k->stem, length)) continue;
        if (k->prefix || base[length] == 0 || base[length] == '.') return true;
    }
    return false;
}

int tide_is_device_library(const char *name) {
    return is_among(name, device_libraries, TIDEI_COUNT(device_libraries));
}

bool tidei_has_no_roots(const char *name) {
    return tide_is_device_library(name) || is_among(name, own_libraries, TIDEI_COUNT(own_libraries));
}
