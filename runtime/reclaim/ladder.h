/* ladder.h: the reclaim ladder: its table of rungs, and who may climb. Requests climb it through
** memory/recovery.h. */
#ifndef TIDEI_LADDER_H
#define TIDEI_LADDER_H

#include "runtime/reclaim/rung.h"

void tidei_ladder_open(tidei_runtime *rt); /* fills the table of recovery.h */
/* While the runtime opens: puts a part's rungs in their places. `table` ends with an entry without
** a name, and stays. */
void tidei_rungs_register(tidei_runtime *rt, const tidei_rung *table);
/* Whether the thread may climb, or make memory be given back otherwise: not inside a callback of
** the ladder's, a drain or a collection. */
bool tidei_may_climb(const tidei_thread *t);

#endif
