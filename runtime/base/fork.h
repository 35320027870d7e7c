/* fork.h: whether this process is a fork's child, whose runtimes are its parent's.
**
** One word tells, which the kernel clears in a child: no hook of the process's is needed. */
#ifndef TIDEI_FORK_H
#define TIDEI_FORK_H

#include "runtime/base/base.h"

/* points to 0 in a fork's child; read by threads that open their first runtimes at once */
extern _Atomic int *_Atomic tidei_parent_mark;
/* Before the first thread's record of the process. */
void tidei_fork_mark(void);

static inline bool tidei_forked(void) {
    _Atomic int *mark = atomic_load_explicit(&tidei_parent_mark, memory_order_acquire);
    return tidei_unlikely(!atomic_load_explicit(mark, memory_order_relaxed));
}

#endif
