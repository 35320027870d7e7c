/* launch.c: our own kernels outside the expression engine (launch.h). */
#include "arrays/kernels/kernels.h"
#include "arrays/kernels/launch.h"
#include "arrays/operand.h"

/* Of the blocks that fill a multiprocessor. Where a kernel's registers let fewer run at once, more
** of them leave less idle at the end: 2^27 bytes taken one by one on an H100, five blocks at once:
** 1487 us by one round, 1405 by two. Kernels whose blocks begin or end with work of their own
** (sorts, quantiles, scans; `tide-bench operations`) take the same by both. */
#define ROUNDS 2

tide_status tidei_run_own_room(tidei_runtime *rt, const tidei_own_kernel *k, const tidei_use *uses,
                               unsigned n, void *params, size_t params_bytes, const size_t *at,
                               unsigned threads, unsigned blocks, unsigned room, const char *op) {
    tidei_stream *s = tidei_stream_here(rt);
    tidei_launch l = {.name = k->name,
                      .host_fn = k->host_fn,
                      .params = params,
                      .params_bytes = params_bytes,
                      .tells = k->tells,
                      .shared_bytes = room,
                      .grid = {blocks, 1, 1},
                      .block = {threads, 1, 1}};
    if (s->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT) {
        tide_status status = tidei_kernel_get_fixed(s->dev, k->name, k->text, op, &l.kernel);
        if (status != TIDE_OK) return status;
    }
    return tidei_submit_launch(s, uses, n, &l, params, at, op);
}

tide_status tidei_run_own_blocks(tidei_runtime *rt, const tidei_own_kernel *k,
                                 const tidei_use *uses, unsigned n, void *params,
                                 size_t params_bytes, const size_t *at, unsigned threads,
                                 unsigned blocks, const char *op) {
    return tidei_run_own_room(rt, k, uses, n, params, params_bytes, at, threads, blocks, 0, op);
}

tide_status tidei_run_own(tidei_runtime *rt, const tidei_own_kernel *k, const tidei_use *uses,
                          unsigned n, void *params, size_t params_bytes, const size_t *at,
                          uint64_t items, const char *op) {
    const tidei_device_info *info = &tidei_stream_here(rt)->dev->d->info;
    uint64_t blocks = (items + TIDEI_OWN_BLOCK - 1) / TIDEI_OWN_BLOCK,
             enough = (uint64_t)(info->sm_count > 0 ? info->sm_count : 1) * TIDEI_OWN_BLOCKS_AN_SM *
                      ROUNDS;
    return tidei_run_own_blocks(rt, k, uses, n, params, params_bytes, at, TIDEI_OWN_BLOCK,
                                (unsigned)(blocks < enough ? blocks : enough), op);
}

void tidei_own_ahead(tidei_runtime *rt, const tidei_own_kernel *k) {
    tidei_dev *d = tidei_stream_here(rt)->dev;
    if (d->d->info.flags & TIDEI_DEV_RUNS_TEXT) tidei_kernel_ahead_fixed(d, k->name, k->text);
}
