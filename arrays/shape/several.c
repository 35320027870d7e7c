/* several.c: many arrays at once, all or none (several.h). */
#include "arrays/arrays.h"
#include "arrays/shape/several.h"

static void undo(tidei_runtime *rt, tidei_thread *t, void *several, uintptr_t of) {
    tidei_several *l = several;
    (void)t, (void)of;
    for (size_t i = 0; i < l->n; i++) {
        tide_release(l->made[i]);
        tidei_array_drop(l->made[i]);
    }
    tidei_host_free(rt, l);
}

tidei_several *tidei_several_begin(tidei_runtime *rt, size_t n, const char *op) {
    size_t room = sizeof(tidei_several), list;
    bool absurd = __builtin_mul_overflow(n, sizeof(tide_array *), &list) ||
                  __builtin_add_overflow(room, list, &room);
    tidei_several *l = absurd ? NULL : tidei_host_alloc(rt, room);
    if (!l) return (void)tidei_fail_host_memory(op, absurd ? SIZE_MAX : room), NULL;
    l->rt = rt;
    l->t = tidei_thread_get(rt);
    l->op = op;
    l->n = 0;
    tidei_hold(l->t, undo, l, 0);
    return l;
}

tide_status tidei_several_add(tidei_several *l, tide_array *a) {
    if (!a) return tidei_fail_as(l->op);
    if (!tide_retain(a)) {
        tidei_array_drop(a);
        return tidei_fail_as(l->op);
    }
    l->made[l->n++] = a;
    return TIDE_OK;
}

tide_status tidei_several_end(tidei_several *l, tide_status s, tide_array **outs) {
    tidei_let(l->t, l);
    if (s != TIDE_OK) {
        undo(l->rt, l->t, l, 0);
        return s;
    }
    for (size_t i = 0; i < l->n; i++) outs[i] = l->made[i];
    for (size_t i = 0; i < l->n; i++) tide_release(outs[i]); /* the caller's roots keep them now */
    tidei_keep(outs);
    tidei_host_free(l->rt, l);
    return TIDE_OK;
}
