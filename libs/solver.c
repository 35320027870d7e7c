/* solver.c: the way into factorizations: checks the descriptor, and hands it to the device's
** side. */
#include "runtime/memory/capture.h"
#include "libs/solver.h"

static bool on_cuda(tidei_stream *s) { return (s->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) != 0; }

bool tidei_lapack_narrow(tidei_stream *s, const tidei_lapack *x) {
    return on_cuda(s) && tidei_lapack_narrow_cuda(x);
}

tide_status tidei_lapack_allowed(tidei_stream *s, const tidei_lapack *x, const char *op) {
    tide_status refused =
        tidei_capture_refused(s->dev->rt, op, "factorizes, whose outcome is looked at");
    if (refused != TIDE_OK) return refused;
    if (!tidei_lapack_valid(x))
        return tidei_fail(TIDE_E_INVALID, op, "%s with sizes it cannot have", tidei_lapack_name(x));
    return TIDE_OK;
}

tide_status tidei_lapack_run(tidei_stream *s, const tidei_lapack *x, const char *op) {
    tide_status status = tidei_lapack_allowed(s, x, op);
    if (status != TIDE_OK) return status;
    return on_cuda(s) ? tidei_lapack_cuda(s, x, op) : tidei_lapack_host(s, x, op);
}
