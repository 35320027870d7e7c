/* find.c: the pools by their names. */
#include "runtime/pool/pool.h"

const struct tidei_pool_ops *tidei_pool_find(const char *name) {
    static const struct tidei_pool_ops *const pools[] = {&tidei_pool_tide,   &tidei_pool_driver,
                                                         &tidei_pool_split,  &tidei_pool_binned,
                                                         &tidei_pool_simple, &tidei_pool_none};
    for (unsigned i = 0; i < TIDEI_COUNT(pools); i++)
        if (strcmp(pools[i]->name, name) == 0) return pools[i];
    return NULL;
}
