/* context_double.h: what the cache of handles asks of the driver, where there is none: the context
** of a stream, pushed and popped. `contexts.depth` says how often it is pushed; it is 0 between
** calls. */
#ifndef CONTEXT_DOUBLE_H
#define CONTEXT_DOUBLE_H

#include "runtime/device/cuda/driver.h"
#include "tests/support/tidetest.h"

static struct {
    int depth;
    char context;
} contexts;

static tidei_cu_result f_name(tidei_cu_result r, const char **out) {
    return (void)r, *out = "CUDA_ERROR_X", 0;
}
static tidei_cu_result f_context(tidei_cu_stream s, tidei_cu_ctx *out) {
    return (void)s, *out = (tidei_cu_ctx)(void *)&contexts.context, 0;
}
static tidei_cu_result f_current(tidei_cu_ctx *c) { return *c = NULL, 0; }
static tidei_cu_result f_push(tidei_cu_ctx c) { return (void)c, contexts.depth++, 0; }
static tidei_cu_result f_pop(tidei_cu_ctx *c) { return (void)c, contexts.depth--, 0; }
static const tidei_cu driver = {.cuGetErrorName = f_name,
                                .cuStreamGetCtx = f_context,
                                .cuCtxGetCurrent = f_current,
                                .cuCtxPushCurrent = f_push,
                                .cuCtxPopCurrent = f_pop};

#endif
