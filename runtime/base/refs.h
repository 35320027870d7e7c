/* refs.h: what users hold of a runtime, a stream, a pool, an expression, a use scope, a host view,
** an iterator of batches, a graph.
**
** Model. A reference is no address. It encodes the kind of the object, the number of a slot, and
** the slot's generation; the slot, which the process never gives back, holds the object's address
** while the object lives. So looking a reference up reads memory that is always there, and one that
** is used after its object's end is an error. A slot serves another object only after all others of
** its chunk have served one; its generation returns after 2^23 objects, so an old reference is
** taken for a live object after some 10^10 of them.
** What must stay true: a slot's word equals the reference exactly while the object lives. The
** caller orders uses of an object before its end, as for any object: two threads that do both at
** once are not told apart. The lock is a leaf; looking up takes none. */
#ifndef TIDEI_REFS_H
#define TIDEI_REFS_H

#include "runtime/base/base.h"

typedef enum {
    TIDEI_REF_RUNTIME = 1,
    TIDEI_REF_STREAM,
    TIDEI_REF_POOL,
    TIDEI_REF_EXPR,
    TIDEI_REF_SCOPE,
    TIDEI_REF_VIEW,
    TIDEI_REF_BATCHES,
    TIDEI_REF_GRAPH
} tidei_ref_kind;

/* A reference to `object`, which belongs to the runtime `owner` (a runtime to itself). NULL: host
** memory is exhausted, or 2^20 objects live; no error is set. */
void *tidei_ref_new(tidei_ref_kind kind, void *object, const tidei_runtime *owner);
/* The object; NULL where it is none, or has ended. Sets no error. */
void *tidei_ref_look(tidei_ref_kind kind, const void *ref);
/* The same; where there is none, the error of operation `op` says why: TIDE_E_CLOSED after the
** runtime's end, else TIDE_E_INVALID. */
void *tidei_ref_find(tidei_ref_kind kind, const void *ref, const char *op);
/* The object is released. False: somebody was first. NULL is legal. */
bool tidei_ref_end(const void *ref);
/* The runtime closes: ends its own reference and those of all that belongs to it. */
void tidei_refs_close(const tidei_runtime *owner);

#endif
