/* loaded.c: fills libraries' tables of functions. The model stands in loaded.h. */
#include "runtime/device/cuda/loaded.h"
#include "runtime/base/loader.h"
#include "runtime/base/uncancelled.h"

/* Under the lock. */
static void settle(tidei_loaded *l) {
    atomic_store_explicit(&l->now,
                          l->replaced ? l->replaced
                          : l->opened ? l->table
                                      : NULL,
                          memory_order_release);
}

__attribute__((noinline)) static tide_status open_first(tidei_loaded *l, const char *op,
                                                        const void **out) {
    TIDEI_UNCANCELLED;
    tide_status s = TIDE_OK;
    pthread_mutex_lock(&l->lock);
    if (!tidei_loaded_now(l)) {
        s = l->open(l->table, op);
        l->opened = s == TIDE_OK;
        settle(l);
    }
    if (s == TIDE_OK) *out = tidei_loaded_now(l);
    pthread_mutex_unlock(&l->lock);
    return s;
}

tide_status tidei_loaded_get(tidei_loaded *l, const char *op, const void **out) {
    const void *t = tidei_loaded_now(l);
    if (tidei_unlikely(!t)) return open_first(l, op, out);
    *out = t;
    return TIDE_OK;
}

const void *tidei_loaded_now(tidei_loaded *l) {
    return atomic_load_explicit(&l->now, memory_order_acquire);
}

void tidei_loaded_use(tidei_loaded *l, const void *table) {
    pthread_mutex_lock(&l->lock);
    l->replaced = table;
    settle(l);
    pthread_mutex_unlock(&l->lock);
}

const char *tidei_loaded_fill(void *table, const tidei_loaded_function *functions, size_t n,
                              void *(*find)(void *lib, const tidei_loaded_function *f), void *lib) {
    for (size_t i = 0; i < n; i++) {
        void *function = find(lib, &functions[i]);
        if (!function && functions[i].needed) return functions[i].exported;
        memcpy((char *)table + functions[i].at, &function, sizeof function);
    }
    return NULL;
}

void *tidei_loaded_symbol(void *lib, const tidei_loaded_function *f) {
    return tidei_library_symbol(lib, f->exported);
}
