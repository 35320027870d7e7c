/* collect.c: the slots of the collectors' table, for a runtime that has none of them yet too. */
#include "runtime/base/collect.h"
#include "runtime/base/instance.h"

void tidei_blocking(tidei_runtime *rt, void (*fn)(void *arg), void *arg) {
    if (rt->gc_ops)
        rt->gc_ops->blocking(rt, fn, arg);
    else
        fn(arg);
}

void tidei_ask(tidei_runtime *rt, tidei_dev *d, tidei_where where, size_t request) {
    if (rt->gc_ops) rt->gc_ops->ask(rt, d, where, request, NULL);
}

void tidei_ask_alloc(tidei_runtime *rt, tidei_dev *d, struct tidei_pool *pool, size_t request) {
    if (rt->gc_ops) rt->gc_ops->ask(rt, d, TIDEI_AT_ALLOC, request, pool);
}

void tidei_ask_host(tidei_runtime *rt, size_t request) {
    if (rt->gc_ops && rt->gc_ops->ask_host) rt->gc_ops->ask_host(rt, request);
}

size_t tidei_collect(tidei_runtime *rt, int level, const char *why, bool *ran) {
    if (ran) *ran = false;
    return rt->gc_ops ? rt->gc_ops->collect(rt, level, why, ran) : 0;
}
