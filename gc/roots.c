/* roots.c: which libraries' data a conservative collector need not scan.
**
** CUDA's libraries have hundreds of megabytes of writable data (cuBLAS alone 190) that hold no
** pointer into anybody's heap; scanned as roots they turn a pause of 0.01 ms into one of 40. Our
** own data and OpenBLAS's hold none either: together half a megabyte, most of what a small
** program's collections would scan. Nor do the libraries that sanitizers load, 12 megabytes in a
** program built with AddressSanitizer and UBSan: they keep addresses of their own records alone.
** Nor those that we bring with us: LAPACK and its C interface keep nothing between calls, what
** reads debug information keeps its tables in malloc's memory; together a fifth of what was
** left. */
#include "gc/roots.h"
#include <tide/collector.h>

#define LIB         "lib"
#define LIB_LETTERS 3
typedef struct library {
    const char *stem; /* begins with LIB */
    bool prefix;      /* else the name ends there, or goes on with ".so..." */
} library;

static const library device_libraries[] = {
    {"libcuda", false},     {"libcudart", false}, {"libcublas", true},  {"libcusolver", true},
    {"libcusparse", false}, {"libcufft", true},   {"libcurand", false}, {"libcudnn", true},
    {"libnccl", false},     {"libnv", true},      {"libcupti", false},
};
/* Where the library is linked into the program its data are the program's, and are scanned. */
static const library own_libraries[] = {{"libtidepool", false}};

static const library brought_along[] = {{"libblas", false},
                                        {"liblapack", false},
                                        {"liblapacke", false},
                                        {"libdw", false},
                                        {"libelf", false}};

static const library sanitizers[] = {{"libasan", false}, {"liblsan", false}, {"libubsan", false}};

/* Names of other libraries may begin so too. A name of OpenBLAS goes on with one of these, and then
** as ends_well says. */
#define OPENBLAS "libopenblas"
static const char *const openblas_builds[] = {"",     "p",   "o",    "64",   "64_", "p64",
                                              "p64_", "o64", "o64_", "64_p", "64_o"};

static const char *base_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* It is asked of every library before every collection: most are told apart by one letter. */
static bool is_among(const char *base, const library *known, size_t n) {
    if (strncmp(base, LIB, LIB_LETTERS)) return false;
    for (const library *k = known; k < known + n; k++) {
        if (k->stem[LIB_LETTERS] != base[LIB_LETTERS]) continue;
        size_t length = strlen(k->stem);
        if (strncmp(base, k->stem, length)) continue;
        if (k->prefix || base[length] == 0 || base[length] == '.') return true;
    }
    return false;
}

/* The name is over, but for a suffix or OpenBLAS's release ("-r0.3.21.so"). */
static bool ends_well(const char *rest) {
    return rest[0] == 0 || rest[0] == '.' ||
           (rest[0] == '-' && rest[1] == 'r' && rest[2] >= '0' && rest[2] <= '9');
}

static bool is_openblas(const char *base) {
    size_t stem = strlen(OPENBLAS);
    if (strncmp(base, OPENBLAS, stem)) return false;
    for (size_t i = 0; i < TIDEI_COUNT(openblas_builds); i++) {
        size_t length = strlen(openblas_builds[i]);
        if (!strncmp(base + stem, openblas_builds[i], length) && ends_well(base + stem + length))
            return true;
    }
    return false;
}

int tide_collector_is_device_library(const char *name) {
    return name && is_among(base_name(name), device_libraries, TIDEI_COUNT(device_libraries));
}

bool tidei_has_no_roots(const char *name) {
    if (!name) return false;
    const char *base = base_name(name);
    if (tide_collector_is_device_library(name) || is_openblas(base)) return true;
    return is_among(base, own_libraries, TIDEI_COUNT(own_libraries)) ||
           is_among(base, brought_along, TIDEI_COUNT(brought_along)) ||
           is_among(base, sanitizers, TIDEI_COUNT(sanitizers));
}
