/* sized.h: structs of the caller's that say their own size, so that they may grow.
**
** An older caller's struct ends where a field of today's ends: there, or as far behind it as its
** sizeof was rounded up. A size that ends inside a field is no version's, and would cut a pointer
** in two. Whoever reads or fills such a struct has a list of its fields' ends:
** tests/base/test_sized.c holds it against the header. */
#ifndef TIDEI_SIZED_H
#define TIDEI_SIZED_H

#include "runtime/base/base.h"

#define TIDEI_END(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

typedef struct tidei_sized {
    const char *name;
    const uint16_t *ends; /* of all fields, in any order */
    size_t n;
    size_t least; /* the end of the last field that a caller cannot do without */
} tidei_sized;

/* TIDE_E_INVALID, with what is accepted, if `given` is no version's size. */
tide_status tidei_sized_check(const tidei_sized *s, size_t given, const char *op);

#endif
