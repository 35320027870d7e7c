/* loaded.h: a library's table of functions (the driver's, cuBLAS's, cuSOLVER's): filled at the
** first call that finds the library, kept by the process, replaced by tests. */
#ifndef TIDEI_LOADED_H
#define TIDEI_LOADED_H

#include "runtime/base/base.h"

/* Static, one a library. */
typedef struct tidei_loaded {
    pthread_mutex_t lock;
    /* Finds the library and fills `table`. Under the lock; on failure the table stays as it was,
    ** and the next call tries again. */
    tide_status (*open)(void *table, const char *op);
    void *table;
    bool opened;          /* under the lock, like the next one */
    const void *replaced; /* by a test */
    _Atomic(const void *)
        /* the table that callers get; NULL: the library is still to be opened. Read without the
        ** lock, at every call */
        now;
} tidei_loaded;

tide_status tidei_loaded_get(tidei_loaded *l, const char *op, const void **out);
const void *tidei_loaded_now(tidei_loaded *l); /* NULL: not opened yet */
void tidei_loaded_use(tidei_loaded *l, const void *table);

/* A function of a table. */
typedef struct tidei_loaded_function {
    const char *name, *exported; /* its name, and its symbol in the library's file */
    int version;                 /* of the signature, where functions are asked for by version */
    bool needed;                 /* a library without it is refused */
    size_t at;                   /* its offset in the table */
} tidei_loaded_function;

/* Asks `find` for each function and enters it in the table; NULL: the library lacks it. Returns the
** symbol of the first needed function that is lacking, or NULL. */
const char *tidei_loaded_fill(void *table, const tidei_loaded_function *functions, size_t n,
                              void *(*find)(void *lib, const tidei_loaded_function *f), void *lib);
void *tidei_loaded_symbol(void *lib, const tidei_loaded_function *f); /* one that asks the loader */

#endif
