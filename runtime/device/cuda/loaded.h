/* loaded.h: a library's table of functions (the driver's, cuBLAS's, cuSOLVER's): filled at the first call that finds the library, kept
** by the process, replaced by tests. */
#ifndef TIDEI_LOADED_H
#define TIDEI_LOADED_H

#include "runtime/base.h"

/* Static, one a library. */
typedef struct tidei_loaded {
    pthread_mutex_t lock;
    /* Finds the library and fills `table`. Under the lock; on failure the table stays as it was, and the next call tries again. */
    tide_status (*open)(void *table, const char *op);
    void *table;
    bool opened;          /* under the lock, like the next one */
    const void *replaced; /* by a test */
    _Atomic(const void *)
        now; /* what callers get; NULL: it is to be opened. Looked at without the lock, at every call */
} tidei_loaded;

tide_status tidei_loaded_get(tidei_loaded *l, const char *op, const void **out);
const void *tidei_loaded_now(tidei_loaded *l); /* NULL: nobody has asked for it yet */
void tidei_loaded_use(tidei_loaded *l, const void *table);

#endif
