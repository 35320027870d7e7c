/* binned.c: the pool `binned`: sizes rounded up to powers of two, a list of freed blocks for each.
** After CUDA.jl's pool of that name, its default until 2021.
**
** Where a power of two does not fit the limit, the pool takes just the request's size; freed, such
** a block lies in the list of that power. As in CUDA.jl, requests above MOST come straight from the
** driver and go straight back. CUDA.jl's timer that gives back what recent use did not need has no
** counterpart here: trim gives back, at whatever threshold is set. */
#include "runtime/pool/whole.h"

#define MOST (128 * TIDEI_MIB)

static unsigned log2_up(size_t n) {
    return n <= 1 ? 0 : 64 - (unsigned)__builtin_clzll((uint64_t)n - 1);
}

static size_t binned_size(size_t bytes, size_t granule) {
    if (bytes > MOST) return tidei_round_up(bytes, granule);
    return tidei_max_size((size_t)1 << log2_up(bytes), granule);
}

static unsigned binned_bin(size_t size) {
    return size > MOST ? TIDEI_WHOLE_LEAVING : log2_up(size);
}

static bool binned_serves(size_t held, size_t bytes) { return held >= bytes; }

static tide_status binned_open(tidei_dev *dev, tidei_mem_kind kind, tidei_pool **out) {
    static const tidei_whole_rules rules = {binned_size, binned_bin, binned_serves};
    return tidei_whole_open(&tidei_pool_binned, &rules, dev, kind, out);
}

const struct tidei_pool_ops tidei_pool_binned = {
    .name = "binned",
    .open = binned_open,
    .close = tidei_whole_close,
    .alloc = tidei_whole_alloc,
    .free = tidei_whole_free,
    .settle = tidei_whole_settle,
    .trim = tidei_whole_trim,
    .stats = tidei_whole_stats,
    .valid = tidei_whole_valid,
};
