/* crew.h: many jobs on all cores.
**
** Model. The jobs are numbered; each thread takes the next one until there is none, or one failed.
** The calling thread works too, and threads that cannot be had are done without. So what a job may
** depend on is its number alone. */
#ifndef TIDE_CREW_H
#define TIDE_CREW_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tidei_crew {
    size_t all;            /* jobs */
    unsigned threads;      /* at least 1; at most 256 are used */
    const char *op, *jobs; /* whose they are, and what: for stderr. NULL: nothing is shown */
    bool (*run)(void *user, size_t i); /* false: it failed, and no other begins */
    void *user;
} tidei_crew;

/* False: some job failed. */
bool tidei_crew_work(const tidei_crew *c);

#endif
