/* loaded.c: libraries' tables of functions (loaded.h). */
#include "libs/loaded.h"

static const void *current(const tidei_loaded *l) {
    return l->replaced ? l->replaced : l->opened ? l->table : NULL;
}

tide_status tidei_loaded_get(tidei_loaded *l, const char *op, const void **out) {
    tide_status s = TIDE_OK;
    pthread_mutex_lock(&l->lock);
    if (!current(l)) {
        s = l->open(l->table, op);
        l->opened = s == TIDE_OK;
    }
    if (s == TIDE_OK) *out = current(l);
    pthread_mutex_unlock(&l->lock);
    return s;
}

const void *tidei_loaded_now(tidei_loaded *l) {
    pthread_mutex_lock(&l->lock);
    const void *t = current(l);
    pthread_mutex_unlock(&l->lock);
    return t;
}

void tidei_loaded_use(tidei_loaded *l, const void *table) {
    pthread_mutex_lock(&l->lock);
    l->replaced = table;
    pthread_mutex_unlock(&l->lock);
}
