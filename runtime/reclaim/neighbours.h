/* neighbours.h: the runtimes of a process that share a device help each other out. */
#ifndef TIDEI_NEIGHBOURS_H
#define TIDEI_NEIGHBOURS_H

#include "runtime/base/instance.h"

/* From enter to leave others may come and make the runtime's pools give back what is free. leave
** waits for them, one that left a slot without a return included, until that thread's next call; a
** runtime that is not there may leave. */
void tidei_neighbours_enter(tidei_runtime *rt);
void tidei_neighbours_leave(tidei_runtime *rt);

/* A rung: the others on d's device give back what they can without collecting or waiting. Returns
** the bytes. */
size_t tidei_neighbours_ask(tidei_dev *d, size_t bytes);

#endif
