/* library_double.c: libraries that are found as cuBLAS (CUBLAS is defined) and cuSOLVER are, of
** whose functions all succeed and do nothing. What they do once they are there:
** cusolver_double.h. */
#include "libs/cublas.h"
#include "libs/cusolver.h"

#define EXPORT __attribute__((visibility("default")))
#define NOTHING(name)                                                                              \
    EXPORT unsigned name(void);                                                                    \
    unsigned name(void) { return 0; }

#ifdef CUBLAS
#define FUNCTION(name, params) NOTHING(name)
TIDEI_CUBLAS_FUNCTIONS(FUNCTION)
TIDEI_CUBLASLT_FUNCTIONS(FUNCTION) /* which a library finds that needs theirs */
#else
#define FUNCTION(name, needed, params) NOTHING(name)
#define cusolverGetVersion             not_it
TIDEI_CUSOLVER_FUNCTIONS(FUNCTION)
#undef cusolverGetVersion

extern int tidetest_cusolver_version;
EXPORT int tidetest_cusolver_version; /* 0: it does not say */
EXPORT unsigned cusolverGetVersion(int *out);
unsigned cusolverGetVersion(int *out) {
    return *out = tidetest_cusolver_version,
           tidetest_cusolver_version ? 0 : TIDEI_CUSOLVER_INVALID_VALUE;
}
#endif
