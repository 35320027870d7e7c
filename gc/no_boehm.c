/* no_boehm.c: the answer of a build without bdwgc. Only tidei_boehm_open can be reached, and it
** fails. */
#include <tide/collector.h>

#include "gc/boehm.h"

tidei_boehm_switches tidei_boehm_test;

tide_status tidei_boehm_open(tidei_runtime *rt) {
    (void)rt;
    return tidei_fail(TIDE_E_INVALID, "tide_open",
                      "this build has no collector \"boehm\" (bdw-gc was not there when it was "
                      "built); there are: "
                      "refcount");
}
void tidei_boehm_close(void) {}
tide_status tidei_boehm_enter(void) { return TIDE_OK; }
void tidei_boehm_leave(void) {}
tide_status tidei_boehm_cell(tidei_header *h, bool quarantine) {
    return (void)h, (void)quarantine, TIDE_E_UNSUPPORTED;
}
tide_status tidei_boehm_retain(tidei_header *h) { return (void)h, TIDE_E_UNSUPPORTED; }
tide_status tidei_boehm_release(tidei_header *h) { return (void)h, TIDE_E_UNSUPPORTED; }
int tidei_boehm_collect(void *user, int level) {
    return (void)user, (void)level, TIDE_COLLECT_UNSUPPORTED;
}
int tidei_boehm_may_collect(void *user) { return (void)user, 0; }
bool tidei_boehm_held_off(void) { return false; }
void tidei_boehm_blocking(void *user, void (*fn)(void *arg), void *arg) {
    (void)user;
    fn(arg);
}
size_t tidei_boehm_root_bytes(void) { return 0; }
size_t tidei_boehm_watched(void) { return 0; }
size_t tidei_boehm_heap_bytes(void) { return 0; }
bool tidei_boehm_by_finalizers(void) { return false; }
