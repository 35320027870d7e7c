/* rungs_pools.c: what the pools of a device can give a climb.
**
** A request for a block can be served from free parts of pages too, in the end by moving other
** blocks: for it the pools settle, wait for streams, and let the attempt steal and move. A request
** for memory *outside* the pools, for a library's handle say, cannot use free parts of pages: for
** it blocks are moved off pages, which go back to the device.
** A request for the host's memory makes the pools of all devices give, as they share the host's
** budget. */
#include "runtime/pool/pools.h"
#include "runtime/pool/budget.h"
#include "runtime/reclaim/rungs.h"

/* The next device whose pools may hold the memory that is short: all devices share the host's
** budget. */
static tidei_dev *next_short(const tidei_climb *c, const tidei_dev *after) {
    return tidei_on_host(c->kind) ? tidei_dev_next(c->d->rt, after) : after ? NULL : c->d;
}

unsigned tidei_climb_kinds(const tidei_climb *c) {
    return c->kind == TIDEI_MEM_PINNED    ? TIDEI_KINDS_ON_HOST
           : c->kind == TIDEI_MEM_UNIFIED ? TIDEI_KINDS_ALL
                                          : TIDEI_KINDS_ON_DEVICE;
}

/* Those of the device's pools that help: of other devices only what is on the host. */
static unsigned kinds_on(const tidei_climb *c, const tidei_dev *d) {
    return d == c->d ? tidei_climb_kinds(c) : TIDEI_KINDS_ON_HOST;
}

/* ---- what is in use ---- */

size_t tidei_climb_occupied(const tidei_climb *c) {
    size_t bytes = tidei_on_device(c->kind) ? tidei_library_bytes(c->d) : 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));) {
        tidei_pool_stats ps;
        tidei_pools_stats_of(d, kinds_on(c, d), &ps);
        bytes += ps.live + ps.rounding + ps.pending;
    }
    return bytes;
}

size_t tidei_climb_given_since(const tidei_climb *c, size_t before, size_t said) {
    size_t now = tidei_climb_occupied(c);
    return tidei_max_size(said, before > now ? before - now : 0);
}

/* ---- to the pools ---- */

size_t tidei_climb_settle(const tidei_climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));) bytes += tidei_pools_settle(d);
    return bytes;
}

size_t tidei_climb_wait(const tidei_climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));)
        if (tidei_streams_wait_users(d) == TIDE_OK) bytes += tidei_pools_synced(d);
    return bytes + tidei_climb_settle(c);
}

/* ---- to the driver ---- */

static size_t trim(const tidei_climb *c) {
    size_t bytes = 0;
    for (tidei_dev *d = NULL; (d = next_short(c, d));) bytes += tidei_pools_trim(d, kinds_on(c, d));
    return bytes;
}

/* Not memory of the other kinds: the driver waits for the device before it takes that back. */
static size_t trim_gently(const tidei_climb *c) {
    return tidei_pools_trim(c->d, TIDEI_KIND_BIT(TIDEI_MEM_DEVICE));
}

size_t tidei_clear_pages(tidei_dev *d, unsigned kinds, size_t bytes) {
    tidei_pool_stats ps;
    tidei_pools_stats_of(d, kinds, &ps);
    return ps.cached + ps.pending < bytes ? 0 : tidei_pools_clear(d, kinds, bytes);
}

/* The bytes that a request outside the pools lacks, of the limit or of the device. Where both seem
** to have enough and it was refused all the same: all that it wants. */
static size_t lacking(const tidei_climb *c) {
    tidei_dev *d = c->d;
    size_t limit = tidei_hard_limit(d),
           used = atomic_load(&d->budget->backed) + tidei_library_bytes(d), free_bytes, total;
    size_t left = used < limit ? limit - used : 0;
    if (d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_OK)
        left = tidei_min_size(left, free_bytes);
    return c->bytes > left ? c->bytes - left : c->bytes;
}

size_t tidei_climb_to_driver(const tidei_climb *c) {
    size_t wanted = c->outside ? lacking(c) : 0, bytes = trim(c);
    return bytes < wanted ? bytes + tidei_clear_pages(c->d, tidei_climb_kinds(c), wanted - bytes)
                          : bytes;
}

/* For a block the attempt itself moves others. */
static size_t compact(const tidei_climb *c) { return c->outside ? tidei_climb_to_driver(c) : 0; }

const tidei_rung tidei_pool_rungs[] = {
    {.name = "settle",
     .place = TIDEI_RUNG_SETTLE,
     .give = tidei_climb_settle,
     .give_gently = tidei_climb_settle},
    {.name = "steal", .place = TIDEI_RUNG_STEAL, .flags = TIDEI_ALLOC_STEAL},
    {.name = "wait for streams", .place = TIDEI_RUNG_WAIT, .give = tidei_climb_wait},
    {.name = "compact",
     .place = TIDEI_RUNG_COMPACT,
     .flags = TIDEI_ALLOC_MOVE,
     .to_driver = true,
     .give = compact},
    {.name = "trim",
     .place = TIDEI_RUNG_TRIM,
     .flags = TIDEI_ALLOC_FLUSHED,
     .to_driver = true,
     .give = trim,
     .give_gently = trim_gently},
    {.name = NULL},
};
