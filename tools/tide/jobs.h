/* jobs.h: how many programs that use the device may run side by side. */
#ifndef TIDE_JOBS_H
#define TIDE_JOBS_H

#include <stdbool.h>
#include <stddef.h>

/* What one of them may need: a context, library handles, and the arrays of a test. */
#define TIDEI_JOB_BYTES ((size_t)4 << 30)

typedef struct tidei_jobs {
    bool gpu;          /* else memory is no matter: each program's host device is its own */
    size_t free_bytes; /* of the device */
    size_t threads;    /* that the process may run on */
} tidei_jobs;
size_t tidei_jobs_of(const tidei_jobs *x); /* at least 1 */
/* Threads that the process may run on, by its affinity and its control group; at least 1. */
size_t tidei_threads_here(void);

/* `tide info --jobs`: the number on stdout, what it is made of on stderr. What is given, not 0,
** stands for what the machine has; memory that is given is a GPU's. Returns the exit status. */
int tidei_jobs_command(size_t free_bytes, size_t threads);

#endif
