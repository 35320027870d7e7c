/* stoppable.h: which threads bdwgc can stop.
**
** Model. bdwgc stops a thread by a signal (SIGPWR, unless the host chose another one). A thread
** that blocks it cannot be stopped; a collection then waits, and where that thread in turn waits
** for the collector, both do so for ever. So a thread that blocks it is not let in, and before a
** collection we look whether one of those we let in does so by now: then bdwgc is kept from
** collecting, at our wish or its own, until a look finds that the thread unblocks it or is gone: we
** look again as threads leave and runtimes close, after which nobody else might. Nobody's mask is
** changed.
** The masks are read from /proc, 5 us a thread. What we cannot see: threads that others have
** registered with bdwgc and that never called us; a thread that blocks the signal between the look
** and the collection. */
#ifndef TIDEI_STOPPABLE_H
#define TIDEI_STOPPABLE_H

#include "runtime/base/base.h"

/* TIDE_E_UNSUPPORTED: the calling thread blocks the signal. */
tide_status tidei_stoppable_check(const char *op);
/* The calling thread is one that bdwgc stops; it is none any more, nor registered by us. Each
** once. */
void tidei_stoppable_enter(void);
void tidei_stoppable_leave(void);
/* The calling thread is, or is not, where bdwgc need not stop it. */
void tidei_stoppable_blocking(bool blocking);

/* Looks at all of them. False: one blocks the signal, and bdwgc does not collect until the next
** look finds none. Waits a little if `patient`: masks are often changed for a moment. Under no
** lock; the first time it says so in rt's log. */
bool tidei_stoppable(tidei_runtime *rt, bool patient);
/* Where bdwgc is kept off: lets go of it if nobody blocks the signal any more. */
void tidei_stoppable_review(void);
bool tidei_stoppable_held_off(void); /* the last look found one */

#endif
