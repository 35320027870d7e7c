/* lent.c: the list of what a runtime has lent. An entry is in the list from tidei_lend until it is
** taken back or the runtime closes. If several threads end it at once, the one that ends the
** reference lets go of it. */
#include "arrays/move/lent.h"
#include "arrays/arrays.h"

tide_status tidei_lend(tidei_runtime *rt, tidei_ref_kind kind, tidei_lent *l,
                       void (*close)(tidei_lent *l), const char *op) {
    tidei_arrays *all = tidei_arrays_of(rt);
    l->rt = rt;
    l->close = close;
    l->ref = tidei_ref_new(kind, l, rt);
    if (!l->ref) return tidei_fail_host_memory(op, sizeof *l);
    pthread_mutex_lock(&all->lent_lock);
    l->next = all->lent;
    l->prev = &all->lent;
    if (l->next) l->next->prev = &l->next;
    all->lent = l;
    pthread_mutex_unlock(&all->lent_lock);
    return TIDE_OK;
}

tidei_lent *tidei_take_back(tidei_ref_kind kind, const void *ref, const char *op) {
    tidei_lent *l = tidei_ref_find(kind, ref, op);
    if (!l) return NULL;
    if (tidei_forked())
        return tidei_fail(TIDE_E_FORKED, op, "it was lent to the parent process"), NULL;
    if (!tidei_ref_end(ref))
        return tidei_fail(TIDE_E_INVALID, op, "another thread has just ended it"), NULL;
    tidei_arrays *all = tidei_arrays_of(l->rt);
    pthread_mutex_lock(&all->lent_lock);
    *l->prev = l->next;
    if (l->next) l->next->prev = l->prev;
    pthread_mutex_unlock(&all->lent_lock);
    return l;
}

void tidei_lents_close(tidei_runtime *rt) {
    for (tidei_lent *l; (l = tidei_arrays_of(rt)->lent);) {
        tidei_arrays_of(rt)->lent = l->next;
        l->close(l);
    }
}
