/* own_thread.h: starting the library's own threads.
**
** The program's signals are for its own threads: ours have all of them blocked, but for those that
** tell a thread of a fault of its own (a program may catch these: to report a crash, or to follow
** writes to pages that it has protected). From their first instruction on where the C library has
** pthread_attr_setsigmask_np; elsewhere a thread begins with the mask of the one that starts it,
** and blocks them in its first step: a signal that comes before is handled there. The mask of the
** thread that starts one of ours is not touched meanwhile: a collector that stops threads by
** signals would wait for it. */
#ifndef TIDEI_OWN_THREAD_H
#define TIDEI_OWN_THREAD_H

#include "runtime/base/base.h"

/* As pthread_create with attributes of ours: 0, or the error. The thread is to be joined. */
int tidei_own_thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg);
/* How many processors the calling thread may run on, and so those that it starts. At least 1. */
unsigned tidei_processors(void);

#endif
