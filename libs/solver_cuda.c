/* solver_cuda.c: factorizations where kernels are text: not offered yet. */
#include "libs/solver.h"

tide_status tidei_lapack_cuda(tide_stream *s, const tidei_lapack *x, const char *op) {
    return tidei_fail(TIDE_E_UNSUPPORTED, op, "%s has no %s", s->dev->d->info.name, tidei_lapack_name(x));
}
