/* driver_double.c: a library that is found as libcuda.so.1 is. All its functions succeed and do
** nothing, but for those that begin it. PROC says how it is asked for them: 2 by
** cuGetProcAddress_v2, 1 by cuGetProcAddress, 0 by the loader. */
#include "tests/doubles/driver_double.h"

#define EXPORT __attribute__((visibility("default")))

extern driver_double tidetest_driver;
EXPORT driver_double tidetest_driver;

#if PROC
static tidei_cu_result nothing(void) { return TIDEI_CU_SUCCESS; }
static tidei_cu_result f_init(unsigned flags) {
    return (void)flags, tidetest_driver.inits++, tidetest_driver.init;
}
static tidei_cu_result f_version(int *v) { return *v = 12080, tidetest_driver.of_version; }
static tidei_cu_result f_string(tidei_cu_result r, const char **out) {
    (void)r;
    if (tidetest_driver.no_words) return TIDEI_CU_INVALID_VALUE;
    return *out = "said in words", TIDEI_CU_SUCCESS;
}

static const struct {
    const char *name;
    int since;
} known[] = {
#define ENTRY(name, exported, version, needed, params) {#name, version},
    TIDEI_CU_FUNCTIONS(ENTRY)
#undef ENTRY
};

static void *find(const char *name, int version) {
    tidetest_driver.asked++;
    if (tidetest_driver.lacks && !strcmp(tidetest_driver.lacks, name)) return NULL;
    if (!strcmp(name, "cuInit")) return (void *)f_init;
    if (!strcmp(name, "cuDriverGetVersion")) return (void *)f_version;
    if (!strcmp(name, "cuGetErrorString")) return (void *)f_string;
    for (size_t i = 0; i < TIDEI_COUNT(known); i++)
        if (!strcmp(known[i].name, name) && known[i].since == version) return (void *)nothing;
    return NULL;
}

#if PROC == 2
EXPORT tidei_cu_result cuGetProcAddress_v2(const char *name, void **out, int version,
                                           tidei_cu_u64 flags, unsigned *status);
tidei_cu_result cuGetProcAddress_v2(const char *name, void **out, int version, tidei_cu_u64 flags,
                                    unsigned *status) {
    (void)flags;
    *out = find(name, version);
    if (*out) return *status = 0, TIDEI_CU_SUCCESS;
    *out = (void *)nothing; /* which is not to be called */
    return *status = tidetest_driver.entry, *status ? TIDEI_CU_SUCCESS : TIDEI_CU_NOT_FOUND;
}
#else
EXPORT tidei_cu_result cuGetProcAddress(const char *name, void **out, int version,
                                        tidei_cu_u64 flags);
tidei_cu_result cuGetProcAddress(const char *name, void **out, int version, tidei_cu_u64 flags) {
    (void)flags;
    *out = find(name, version);
    if (*out) return TIDEI_CU_SUCCESS;
    *out = (void *)nothing;
    return TIDEI_CU_NOT_FOUND;
}
#endif

#else
#define FUNCTION(name, exported, version, needed, params)                                          \
    EXPORT tidei_cu_result exported(void);                                                         \
    tidei_cu_result exported(void) { return TIDEI_CU_SUCCESS; }
TIDEI_CU_FUNCTIONS(FUNCTION)
#endif
