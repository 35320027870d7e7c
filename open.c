/* open.c: puts the floors together: runtime, then collectors, libraries, arrays; and takes them
** apart in reverse. */
#include "arrays/graph/graph.h"
#include "arrays/kernels/kernels.h"
#include "arrays/make/cuda_early.h"
#include "gc/gc.h"
#include "libs/libs.h"
#include "runtime/leaks.h"
#include "runtime/reclaim/neighbours.h"
#include "runtime/runtime.h"
#include "runtime/base/uncancelled.h"

#define OP_CLOSE "tide_close"

/* Who closes a runtime takes this lock to claim it, and to end its references: so who finds one
** that is still good finds the runtime there. */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

static void close_floors(tidei_runtime *rt) {
    pthread_mutex_lock(&closing);
    tidei_runtime_end_refs(rt);
    pthread_mutex_unlock(&closing);
    tidei_arrays_close(rt);
    tidei_libs_close(rt);
    tidei_gc_close(rt);
    tidei_runtime_close(rt);
}

/* Opens the upper floors on a runtime whose own half is open. Closes everything on failure. */
static tide_status open_floors(tidei_runtime *rt, tide_runtime **out) {
    tide_status s = tidei_gc_open(rt);
    if (s == TIDE_OK) s = tidei_libs_open(rt);
    if (s == TIDE_OK) s = tidei_arrays_open(rt);
    if (s != TIDE_OK) {
        tidei_saved_error e;
        tidei_fail_as("tide_open");
        tidei_error_save(&e);
        close_floors(rt);
        tidei_error_restore(&e);
        return s;
    }
    *out = rt->ref;
    return TIDE_OK;
}

tide_status tide_open(const tide_config *config, tide_runtime **out) {
    TIDEI_UNCANCELLED;
    tidei_runtime *rt = NULL;
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_open", "out is NULL");
    if (tidei_forked())
        return tidei_fail(TIDE_E_FORKED, "tide_open",
                          "this process is a fork's child, and its parent had opened a runtime "
                          "before; call exec first");
    tidei_early early = tidei_early_kernels();
    tide_status s = tidei_runtime_open(config, &early, &rt);
    if (s == TIDE_OK) s = open_floors(rt, out);
    if (s == TIDE_OK) tidei_kernels_take_early(rt, &early);
    tidei_early_drop(&early);
    return s;
}

tide_status tidei_open_on(const tide_config *config, tidei_device *device, tide_runtime **out) {
    tidei_runtime *rt = NULL;
    tide_status s = tidei_runtime_open_on(config, device, &rt);
    return s == TIDE_OK ? open_floors(rt, out) : s;
}

/* The runtime, which nobody else closes from here on; NULL with the error set. */
static tidei_runtime *claim(tide_runtime *ref) {
    pthread_mutex_lock(&closing);
    tidei_runtime *rt = tidei_ref_find(TIDEI_REF_RUNTIME, ref, OP_CLOSE);
    if (rt && !tidei_may_close(rt, OP_CLOSE)) rt = NULL;
    bool late = rt && rt->closing;
    if (rt) rt->closing = true;
    pthread_mutex_unlock(&closing);
    if (!late) return rt;
    tidei_fail(TIDE_E_CLOSED, OP_CLOSE, "another thread is closing the runtime");
    return NULL;
}

static void disclaim(tidei_runtime *rt, tidei_thread *t, void *unused, uintptr_t of) {
    (void)t, (void)unused, (void)of;
    tidei_neighbours_enter(rt);
    pthread_mutex_lock(&closing);
    rt->closing = false;
    pthread_mutex_unlock(&closing);
}

/* All that calls the program back, while the runtime still has all its floors: so a callback may
** call what it may call elsewhere, and if one is left by longjmp the runtime is open. Other
** runtimes' threads are out of its slots first; then what calls of its own threads held that were
** left is undone: what follows may wait for it. */
static void say_farewell(tidei_runtime *rt) {
    tidei_thread *t = tidei_thread_get(rt);
    tidei_neighbours_leave(rt);
    tidei_hold(t, disclaim, rt, 0);
    tidei_threads_part(rt);
    tidei_graphs_end(rt); /* what they keep is not what the program holds */
    tidei_leaks_farewell(rt);
    tidei_devices_end_work(rt);
    tidei_deaths_end(rt->deaths);
    tidei_gc_farewell(rt);
    tidei_let(t, rt);
}

void tide_close(tide_runtime *ref) {
    TIDEI_UNCANCELLED;
    if (!ref || tidei_forked()) return;
    tidei_saved_error e = {.status = TIDE_OK};
    bool whole = tidei_callbacks_look(NULL, OP_CLOSE);
    if (!whole) tidei_error_save(&e); /* which is told, and is no reason not to close */
    tidei_runtime *rt = claim(ref);
    if (!rt) return;
    if (!whole) tidei_log(rt, TIDE_LOG_ERROR, "%s", e.text);
    say_farewell(rt);
    close_floors(rt);
    if (e.status != TIDE_OK) tidei_error_restore(&e);
}
