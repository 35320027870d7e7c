/* simple.c: the pool `simple`: freed blocks of any size in one list, which is searched for one that
** is hardly larger than the request. After CUDA.jl's pool of that name, "a very simple caching
** layer for demonstration purposes".
**
** In CUDA.jl small requests take whatever lies free; here their waste is bounded too. */
#include "runtime/pool/whole.h"

#define SMALL      (32 * TIDEI_MIB) /* requests up to here may get a block that much larger: */
#define OVER_SMALL TIDEI_MIB
#define OVER_LARGE (4 * TIDEI_MIB)

static size_t simple_size(size_t bytes, size_t granule) { return tidei_round_up(bytes, granule); }

static unsigned simple_bin(size_t size) { return (void)size, 0; }

static bool simple_serves(size_t held, size_t bytes) {
    return held >= bytes && held - bytes <= (bytes <= SMALL ? OVER_SMALL : OVER_LARGE);
}

static tide_status simple_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    static const tidei_whole_rules rules = {simple_size, simple_bin, simple_serves};
    return tidei_whole_open(&tidei_pool_simple, &rules, dev, kind, out);
}

const struct tidei_pool_ops tidei_pool_simple = {
    .name = "simple",
    .open = simple_open,
    .close = tidei_whole_close,
    .alloc = tidei_whole_alloc,
    .free = tidei_whole_free,
    .settle = tidei_whole_settle,
    .trim = tidei_whole_trim,
    .stats = tidei_whole_stats,
    .valid = tidei_whole_valid,
};
