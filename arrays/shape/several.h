/* several.h: what makes many arrays at once, and hands out all of them or none (several.c).
**
** Other threads may collect meanwhile, so each array is retained until the caller has it. */
#ifndef TIDEI_SEVERAL_H
#define TIDEI_SEVERAL_H

#include "arrays/operand.h"

typedef struct tidei_several {
    tidei_runtime *rt;
    tidei_thread *t;
    const char *op;
    size_t n; /* made so far */
    tide_array *made[];
} tidei_several;

/* Room for n arrays; NULL with the error set. */
tidei_several *tidei_several_begin(tidei_runtime *rt, size_t n, const char *op);
/* Adds an array that was just made, NULL being the failure of that. */
tide_status tidei_several_add(tidei_several *l, tide_array *a);
/* Writes all to outs where s is TIDE_OK, else drops them; returns s. */
tide_status tidei_several_end(tidei_several *l, tide_status s, tide_array **outs);

#endif
