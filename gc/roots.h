/* roots.h: which libraries' data the collector "boehm" leaves out of its roots. */
#ifndef TIDEI_ROOTS_H
#define TIDEI_ROOTS_H

#include "runtime/base/base.h"

/* By a path or base name: CUDA's libraries (tide_collector_is_device_library), our own, OpenBLAS,
** and what sanitizers load: no pointer to an array, or to anything in a host's collected heap, lies
** in their data between two calls of theirs, as long as malloc's memory is not in that heap. */
bool tidei_has_no_roots(const char *name);

#endif
