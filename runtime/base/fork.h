/* fork.h: whether this process is a fork's child, whose runtimes are its parent's.
**
** One word tells, which the kernel clears in a child: no hook of the process's is needed. */
#ifndef TIDEI_FORK_H
#define TIDEI_FORK_H

#include "runtime/base/base.h"

extern _Atomic int *tidei_parent_mark; /* points to 0 in a fork's child */
/* Before the first thread's record of the process. */
void tidei_fork_mark(void);

static inline bool tidei_forked(void) {
    return tidei_unlikely(!atomic_load_explicit(tidei_parent_mark, memory_order_relaxed));
}

#endif
