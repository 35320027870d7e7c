/* leaks.h: the arrays that are held, and where in the program their memory was allocated: what a
** leak is found by. docs/debugging.md shows the text.
**
** Model. A listing walks over the headers, which are the arrays, and finds what they hold in the
** tracker's table (runtime/observe/tracker.h). The largest are listed with the places of their
** allocation, of the others the sum.
** What must stay true: a listing takes time in proportion to the arrays. It looks at a storage only
** between the begin and the end of the tracker's listing, while no storage that is in the table
** ends. */
#ifndef TIDEI_LEAKS_H
#define TIDEI_LEAKS_H

#include "runtime/base/base.h"

/* The arrays held now, the largest first, as lines of text; none where nothing is tracked. Returns
** the length that the whole has, like snprintf. */
size_t tidei_leaks_text(tidei_runtime *rt, char *buf, size_t cap);
/* The runtime is about to close: collects once more, and what is held then is a warning in the log,
** line by line. */
void tidei_leaks_farewell(tidei_runtime *rt);

#endif
