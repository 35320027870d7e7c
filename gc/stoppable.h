/* stoppable.h: which threads bdwgc can stop.
**
** Model. bdwgc stops a thread by a signal (SIGPWR, unless the host chose another one). A thread
** that blocks it cannot be stopped; a collection then waits, and where that thread in turn waits
** for the collector, both do so for ever. So a thread that blocks it is refused as it enters, and
** before a collection we look whether a thread that entered blocks it by now. Then bdwgc is held
** off: it does not collect, neither for us nor of its own accord, until a look finds that the
** thread unblocks the signal or is gone. We look again as threads leave and as runtimes close, for
** later there may be no look. We change no thread's mask. The masks are read from /proc, 5 us a
** thread. What we cannot see: threads that others have registered with bdwgc and that never called
** us; a thread that blocks the signal between the look and the collection. */
#ifndef TIDEI_STOPPABLE_H
#define TIDEI_STOPPABLE_H

#include "runtime/base/base.h"

/* TIDE_E_UNSUPPORTED: the calling thread blocks the signal. */
tide_status tidei_stoppable_check(const char *op);
/* Enters the calling thread into the list of threads that bdwgc stops; takes it out, and out of
** bdwgc's registration if that was ours. Each once a thread. */
void tidei_stoppable_enter(void);
void tidei_stoppable_leave(void);
/* The calling thread is, or is not, where bdwgc need not stop it. */
void tidei_stoppable_blocking(bool blocking);

/* Looks at all of them. False: one blocks the signal, and bdwgc does not collect until the next
** look finds none. Waits a little if `patient`: masks are often changed for a moment. Called
** without any lock; the first time that bdwgc is held off it says so in rt's log. */
bool tidei_stoppable(tidei_runtime *rt, bool patient);
/* If bdwgc is held off: lets it collect again once no thread blocks the signal any more. */
void tidei_stoppable_review(void);
bool tidei_stoppable_held_off(void); /* the last look found one */

#endif
