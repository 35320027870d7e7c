/* libs.h: libraries of linear algebra behind the arrays: handles, workspaces, calls. */
#ifndef TIDEI_LIBS_H
#define TIDEI_LIBS_H

#include "runtime/runtime.h"

/* The state in rt->libs. */
typedef struct tidei_libs {
    struct tidei_handles *handles;
    struct tidei_lt_known *lt; /* blas_lt.c */
} tidei_libs;
static inline tidei_libs *tidei_libs_of(tidei_runtime *rt) { return rt->libs; }

/* opens nothing yet: libraries are loaded at their first use */
tide_status tidei_libs_open(tidei_runtime *rt);
void tidei_libs_close(tidei_runtime *rt);

#endif
