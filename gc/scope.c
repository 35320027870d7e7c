/* scope.c: scopes: what a thread makes between begin and end under reference counting is released at the end.
**
** A scope holds the creation reference of each array made in it. An array that its user released too early, or kept, has
** left a hole or a stale entry: entries carry the generation, so a handle that lives again is not touched. Scopes are their
** thread's own; the list of all is for tide_close. */
#include "gc/collector.h"
#include "gc/gc.h"
#include <tide/array.h>

#define FIRST_ROOM 32 /* entries; a small function's temporaries */

typedef struct scope_entry {
    tidei_handle *h; /* NULL: moved outwards */
    uint64_t generation;
} scope_entry;

typedef struct tidei_scope {
    struct tidei_scope *outer;
    struct tidei_scope *next, **prev; /* the runtime's list, under gc->lock */
    tide_runtime *rt;
    scope_entry *at;
    size_t n, cap;
} tidei_scope;

static tide_status grow(tidei_scope *s, const char *op) {
    size_t cap = s->cap ? 2 * s->cap : FIRST_ROOM;
    scope_entry *more = cap <= UINT32_MAX ? tidei_host_alloc(s->rt, cap * sizeof *more) : NULL;
    if (!more) return tidei_fail_host_memory(op, cap * sizeof *more);
    if (s->n) memcpy(more, s->at, s->n * sizeof *more);
    tidei_host_free(s->rt, s->at);
    s->at = more;
    s->cap = cap;
    return TIDE_OK;
}

static tide_status add(tidei_scope *s, tidei_handle *h, const char *op) {
    if (s->n == s->cap) {
        tide_status status = grow(s, op);
        if (status != TIDE_OK) return status;
    }
    h->scope = s;
    h->scope_index = (uint32_t)s->n;
    s->at[s->n++] = (scope_entry){h, tidei_handle_generation(h)};
    return TIDE_OK;
}

tide_status tidei_scope_add(tidei_thread *t, tidei_handle *h) {
    h->scope = NULL;
    return t->scope ? add(t->scope, h, "tide_array") : TIDE_OK;
}

/* Gives the references back, newest first, and the scope's memory. */
static void finish(tidei_scope *s) {
    tidei_gc *gc = tidei_gc_of(s->rt);
    pthread_mutex_lock(&gc->lock);
    if (s->next) s->next->prev = s->prev;
    *s->prev = s->next;
    pthread_mutex_unlock(&gc->lock);
    tidei_saved_error e;
    tidei_error_save(&e);
    for (size_t i = s->n; i-- > 0;) {
        tidei_handle *h = s->at[i].h;
        if (!h || tidei_handle_generation(h) != s->at[i].generation) continue;
        h->scope = NULL;
        (void)tidei_gc_release(h); /* fails where the user was faster */
    }
    tidei_error_restore(&e);
    tidei_host_free(s->rt, s->at);
    tidei_host_free(s->rt, s);
}

void tidei_scopes_end(tidei_thread *t) {
    while (t->scope) {
        tidei_scope *s = t->scope;
        t->scope = s->outer;
        finish(s);
    }
}

void tidei_scopes_close(tidei_gc *gc) {
    while (gc->scopes) finish(gc->scopes);
}

tide_status tide_scope_begin(tide_runtime *rt) {
    if (!rt) return tidei_fail(TIDE_E_INVALID, "tide_scope_begin", "the runtime is NULL");
    tidei_thread *t = tidei_thread_get(rt);
    if (!t) return tidei_last_status();
    tidei_scope *s = tidei_host_alloc(rt, sizeof *s);
    if (!s) return tidei_fail_host_memory("tide_scope_begin", sizeof *s);
    tidei_gc *gc = tidei_gc_of(rt);
    s->rt = rt;
    s->outer = t->scope;
    t->scope = s;
    pthread_mutex_lock(&gc->lock);
    s->next = gc->scopes;
    s->prev = &gc->scopes;
    if (s->next) s->next->prev = &s->next;
    gc->scopes = s;
    pthread_mutex_unlock(&gc->lock);
    return TIDE_OK;
}

tide_status tide_scope_end(tide_runtime *rt) {
    if (!rt) return tidei_fail(TIDE_E_INVALID, "tide_scope_end", "the runtime is NULL");
    tidei_thread *t = tidei_thread_get(rt);
    if (!t) return tidei_last_status();
    if (!t->scope)
        return tidei_fail(TIDE_E_INVALID, "tide_scope_end", "this thread has no open scope in this runtime");
    tidei_scope *s = t->scope;
    t->scope = s->outer;
    finish(s);
    return TIDE_OK;
}

/* The thread's scope that holds h, or NULL. A scope of another thread is not looked into. */
static tidei_scope *holder(tidei_thread *t, const tidei_handle *h) {
    tidei_scope *s = t->scope;
    while (s && s != h->scope) s = s->outer;
    return s;
}

tide_array *tide_scope_keep(tide_array *a) {
    if (!a) return NULL;
    tidei_handle *h = a->hidden ? tidei_cell_handle(a) : NULL;
    tide_runtime *rt = h ? atomic_load(&h->deaths->rt) : NULL;
    if (!rt) {
        tidei_fail(h ? TIDE_E_CLOSED : TIDE_E_FREED, "tide_scope_keep",
                   h ? "the runtime was closed" : "use of a freed array");
        return NULL;
    }
    tidei_thread *t = tidei_thread_get(rt);
    if (!t) return NULL;
    tidei_scope *s = holder(t, h);
    if (!s) return a; /* nobody but the caller holds it */
    uint32_t place = h->scope_index;
    if (s->outer && add(s->outer, h, "tide_scope_keep") != TIDE_OK) return NULL;
    if (!s->outer) h->scope = NULL;
    s->at[place].h = NULL;
    return a;
}
