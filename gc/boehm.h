/* boehm.h: the process-wide adapter to bdwgc (boehm.c), or its absence (no_boehm.c). */
#ifndef TIDEI_BOEHM_H
#define TIDEI_BOEHM_H

#include "runtime/memory/header.h"

/* Installs the adapter at the first call; TIDE_E_INVALID where this build has none. */
tide_status tidei_boehm_open(tidei_runtime *rt);
void tidei_boehm_close(void); /* a runtime that opened it closes */

/* The calling thread begins and ends its use of the adapter; pairs nest. Registers it with bdwgc if
** nobody did. */
tide_status tidei_boehm_enter(void);
void tidei_boehm_leave(void);

/* Makes a watched cell for the header, in h->home. `quarantine`: its memory stays out of use for a
** while after death. */
tide_status tidei_boehm_cell(tidei_header *h, bool quarantine);
tide_status tidei_boehm_retain(tidei_header *h);
tide_status tidei_boehm_release(tidei_header *h);

/* Slots of tide_collector. */
int tidei_boehm_collect(void *user, int level);
int tidei_boehm_may_collect(void *user);
bool tidei_boehm_held_off(void); /* bdwgc may not collect, for a thread cannot be stopped */
void tidei_boehm_blocking(void *user, void (*fn)(void *arg), void *arg);

/* ---- for reports and tests ---- */
size_t tidei_boehm_root_bytes(void);  /* accepted as static roots at the last collection */
size_t tidei_boehm_watched(void);     /* cells in the table */
size_t tidei_boehm_heap_bytes(void);  /* of the whole process's heap, free ones too */
bool tidei_boehm_by_finalizers(void); /* the fallback is in use */
/* Switches that a test sets; read whenever they matter. */
typedef struct tidei_boehm_switches {
    _Atomic bool scan_device_libraries; /* the roots filter lets everything through */
} tidei_boehm_switches;
extern tidei_boehm_switches tidei_boehm_test;

#endif
