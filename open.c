/* open.c: puts the floors together: runtime, then collectors, libraries, arrays; and takes them apart in reverse. */
#include "arrays/arrays.h"
#include "gc/gc.h"
#include "libs/libs.h"
#include "runtime/runtime.h"
#include "runtime/tracker.h"
#include "runtime/uncancelled.h"

static void close_floors(tidei_runtime *rt) {
    tidei_threads_part(rt);
    if (rt->deaths) tidei_deaths_end(rt->deaths);
    tidei_runtime_end_refs(rt);
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
        return tidei_fail(
            TIDE_E_FORKED, "tide_open",
            "this process is a fork's child, and its parent had opened a runtime before; call exec first");
    tide_status s = tidei_runtime_open(config, &rt);
    return s == TIDE_OK ? open_floors(rt, out) : s;
}

tide_status tidei_open_on(const tide_config *config, tidei_device *device, tide_runtime **out) {
    tidei_runtime *rt = NULL;
    tide_status s = tidei_runtime_open_on(config, device, &rt);
    return s == TIDE_OK ? open_floors(rt, out) : s;
}

void tide_close(tide_runtime *ref) {
    TIDEI_UNCANCELLED;
    tidei_runtime *rt = ref && !tidei_forked() ? tidei_ref_find(TIDEI_REF_RUNTIME, ref, "tide_close") : NULL;
    if (!rt) return;
    tidei_tracker_farewell(rt);
    close_floors(rt);
}
