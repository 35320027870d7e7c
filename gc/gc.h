/* gc.h: the collectors' floor: opened on a runtime after its own half, closed before it. Fills
** rt->gc_ops. */
#ifndef TIDEI_GC_H
#define TIDEI_GC_H

#include "runtime/runtime.h"

/* Opens the collector and the policy that the settings name. A name that this build lacks is
** TIDE_E_INVALID listing what there is. */
tide_status tidei_gc_open(tidei_runtime *rt);
/* The runtime is about to close, and still open: foreign collectors are called for the last time,
** and are unregistered. */
void tidei_gc_farewell(tidei_runtime *rt);
void tidei_gc_close(tidei_runtime *rt); /* may be called though tidei_gc_open was not, or failed */

/* As tide_release. A reference may be given back at any time, also after tide_close. */
tide_status tidei_gc_release(tidei_header *h);

/* A scope lets go of a header that it holds. `release`: of its reference too, unless the user gave
** that back already; otherwise the reference is the caller's. */
void tidei_gc_unscope(tidei_header *h, bool release);

#endif
