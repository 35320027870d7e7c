/* workloads.h: programs that the lab writes itself, by name.
**
** A workload writes a program; the same at each call. Those of a table are the nine of the
** project's research ("live" and sizes as parts of a limit of 16 GiB, 20 s each), then a training
** loop, and two for what the nine do not have: several threads, and the second budget. */
#ifndef TIDEI_LAB_WORKLOADS_H
#define TIDEI_LAB_WORKLOADS_H

#include "gc/lab/program.h"

typedef struct tidei_lab_workload {
    const char *name, *summary;
    void (*write)(tidei_lab_program *p); /* behind tidei_lab_begin; sets model and limits too */
} tidei_lab_workload;

/* The i-th; NULL: there are no more. */
const tidei_lab_workload *tidei_lab_workload_at(size_t i);
const tidei_lab_workload *tidei_lab_workload_find(const char *name); /* NULL: none of that name */
#define TIDEI_LAB_NINE 9                                             /* the first are the nine */

/* The whole program, finished. TIDE_E_HOST_NOMEM; nothing is left behind then. */
tide_status tidei_lab_write(const tidei_lab_workload *w, tidei_lab_program *out);

#endif
