/* neighbours.h: the runtimes of a process that share a device help each other out. */
#ifndef TIDEI_NEIGHBOURS_H
#define TIDEI_NEIGHBOURS_H

#include "runtime/base/instance.h"

/* From enter to leave threads of other runtimes may come and make this runtime's pools give back
** what is free. leave waits for them; for one that left a slot by longjmp, until that thread's next
** call. leave may be called without enter. */
void tidei_neighbours_enter(tidei_runtime *rt);
void tidei_neighbours_leave(tidei_runtime *rt);

#endif
