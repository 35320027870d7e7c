/* lent.h: what users hold until they end it (it is *lent* to them): host views (host.c) and use
** scopes (use.c). */
#ifndef TIDEI_LENT_H
#define TIDEI_LENT_H

#include "runtime/runtime.h"

/* A view or scope begins with this: `ref` is the user's reference, `close` lets go of all that it
** holds. */
typedef struct tidei_lent {
    tidei_runtime *rt;
    void *ref;
    void (*close)(struct tidei_lent *l);
    struct tidei_lent *next, **prev; /* in the runtime's list */
} tidei_lent;

/* Makes the reference and enters the list. TIDE_E_HOST_NOMEM by `op`. */
tide_status tidei_lend(tidei_runtime *rt, tidei_ref_kind kind, tidei_lent *l,
                       void (*close)(tidei_lent *l), const char *op);
/* Takes back what a user ends: the caller lets go of it. NULL with the error set: it was ended
** before, its runtime was closed, or it never was lent. */
tidei_lent *tidei_take_back(tidei_ref_kind kind, const void *ref, const char *op);
void tidei_lents_close(tidei_runtime *rt); /* lets go of all that is lent */

#endif
