/* hooks.c: the tables by which lower floors reach upwards (docs/internals.md lists all of them). */
#include "runtime/hooks.h"
#include "runtime/observe/nvtx.h"

/* ---- a thread's record ---- */

static void leave(tidei_runtime *rt, tidei_thread *t) {
    tidei_thread_leave_pools(rt, t);
    tidei_thread_leave_streams(rt, t);
}

static void end(tidei_thread *t) { tidei_header_free_list_give(&t->free_list); }

const tidei_thread_hooks tidei_threads_above = {
    .leave = leave,
    .end = end,
    .release = tidei_storage_release,
    .ranges = tidei_nvtx_open,
    .unwind_ranges = tidei_nvtx_unwind,
    .slot = tidei_inside_reclaimable,
    .back_in_slot = tidei_back_in_reclaimable,
};

/* ---- streams ---- */

static void all_done(tidei_dev *d) { tidei_pools_synced(d); }
static void waited(tidei_dev *d) { tidei_pools_look(d, true); }

const tidei_stream_hooks tidei_streams_above = {.all_done = all_done, .waited = waited};
