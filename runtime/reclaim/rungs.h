/* rungs.h: the tables of rungs that the parts of a runtime register, and what several rungs do on
** their way. */
#ifndef TIDEI_RUNGS_H
#define TIDEI_RUNGS_H

#include "runtime/reclaim/rung.h"

/* Each ends with an entry without a name. */
extern const tidei_rung tidei_pool_rungs[];        /* rungs_pools.c */
extern const tidei_rung tidei_memory_rungs[];      /* rungs_memory.c */
extern const tidei_rung tidei_collect_rungs[];     /* rungs_collect.c */
extern const tidei_rung tidei_reclaimable_rungs[]; /* rungs_reclaimables.c */
extern const tidei_rung tidei_neighbour_rungs[];   /* neighbours.c */

/* ---- what the pools do for any rung (rungs_pools.c) ---- */

/* The kinds of memory that help this request. */
unsigned tidei_climb_kinds(const tidei_climb *c);
/* The bytes in use, which no request can have: of the device's memory, or of the host's. */
size_t tidei_climb_occupied(const tidei_climb *c);
/* What was given since so much was occupied: memory of ours, which shows in the pools' figures, or
** memory that only the giver knows (`said`). */
size_t tidei_climb_given_since(const tidei_climb *c, size_t before, size_t said);
/* Makes blocks idle whose work is done; the second waits for that work first. Both return bytes. */
size_t tidei_climb_settle(const tidei_climb *c);
size_t tidei_climb_wait(const tidei_climb *c);
/* Trims the pools; for a request outside them pages are cleared too. Returns the bytes that went to
** the driver. */
size_t tidei_climb_to_driver(const tidei_climb *c);
/* Moves blocks off pages where so many bytes are free on pages; returns the bytes of the pages that
** went to the driver. */
size_t tidei_clear_pages(tidei_dev *d, unsigned kinds, size_t bytes);

#endif
