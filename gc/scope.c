/* scope.c: scopes: what a thread makes between begin and end under reference counting is released
** at the end.
**
** A scope holds the creation reference of each array made in it, and the header itself
** (TIDEI_SCOPED): an array that its user released early is dead, but its header serves no other
** array before the scope has let go of it. So an entry never names another array, whatever other
** threads do. An array that moved to an outer scope leaves an empty entry (NULL). Scopes belong to
** their thread; the list of all is for tide_close. */
#include "gc/collector.h"
#include "gc/gc.h"
#include <tide/array.h>

#define FIRST_ROOM 32 /* entries; a small function's temporaries */

typedef struct tidei_scope {
    struct tidei_scope *outer;
    struct tidei_scope *next, **prev; /* the runtime's list, under gc->lock */
    tidei_runtime *rt;
    tidei_header **at; /* NULL: moved outwards */
    size_t n, cap;
} tidei_scope;

static tide_status grow(tidei_scope *s, const char *op) {
    size_t cap = s->cap ? 2 * s->cap : FIRST_ROOM;
    tidei_header **more = cap <= UINT32_MAX ? tidei_host_alloc(s->rt, cap * sizeof *more) : NULL;
    if (!more) return tidei_fail_host_memory(op, cap * sizeof *more);
    if (s->n) memcpy(more, s->at, s->n * sizeof *more);
    tidei_host_free(s->rt, s->at);
    s->at = more;
    s->cap = cap;
    return TIDE_OK;
}

static void put(tidei_scope *s, tidei_header *h) {
    atomic_store_explicit(&h->scope, s, memory_order_relaxed);
    h->scope_index = (uint32_t)s->n;
    s->at[s->n++] = h;
}

static bool released(tidei_header *h) {
    return atomic_load_explicit(&h->refs, memory_order_relaxed) == TIDEI_SCOPED;
}

void tidei_gc_unscope(tidei_header *h, bool release) {
    uint64_t generation = tidei_header_generation(h);
    uint32_t n = atomic_load_explicit(&h->refs, memory_order_relaxed), left;
    do left = TIDEI_REFS_COUNT(n) - (release && TIDEI_REFS_COUNT(n) > 0);
    while (!atomic_compare_exchange_weak_explicit(&h->refs, &n, left, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (left == 0) tidei_report(h, generation, TIDEI_DEAD | TIDEI_GONE);
}

static void let_go(tidei_header *h, bool release) {
    /* before the header may serve another array */
    atomic_store_explicit(&h->scope, NULL, memory_order_relaxed);
    tidei_gc_unscope(h, release);
}

/* Lets go of arrays that were released by hand, so that the scope of a loop that releases by hand
** needs no more room than for its live arrays. */
static void compact(tidei_scope *s) {
    size_t n = s->n;
    s->n = 0;
    for (size_t i = 0; i < n; i++) {
        tidei_header *h = s->at[i];
        if (h && released(h))
            let_go(h, true);
        else if (h)
            put(s, h);
    }
}

static tide_status add(tidei_scope *s, tidei_header *h, const char *op) {
    if (s->n == s->cap) {
        compact(s);
        tide_status status = s->n > s->cap / 2 || !s->cap ? grow(s, op) : TIDE_OK;
        if (status != TIDE_OK && s->n == s->cap) return status;
    }
    put(s, h);
    return TIDE_OK;
}

tide_status tidei_scope_add(tidei_thread *t, tidei_header *h) {
    if (!t->scope) return TIDE_OK;
    tide_status status = add(t->scope, h, "tide_array");
    if (status == TIDE_OK) atomic_store_explicit(&h->refs, TIDEI_SCOPED | 1, memory_order_relaxed);
    return status;
}

/* Gives the references back, newest first, and frees the scope. */
static void finish(tidei_scope *s) {
    tidei_gc *gc = tidei_gc_of(s->rt);
    pthread_mutex_lock(&gc->lock);
    if (s->next) s->next->prev = s->prev;
    *s->prev = s->next;
    pthread_mutex_unlock(&gc->lock);
    for (size_t i = s->n; i-- > 0;)
        if (s->at[i]) let_go(s->at[i], true);
    tidei_host_free(s->rt, s->at);
    tidei_host_free(s->rt, s);
}

static void end_innermost(tidei_thread *t) {
    tidei_scope *s = t->scope;
    t->scope = s->outer;
    finish(s);
}

static int depth_of(const tidei_thread *t) {
    int n = 0;
    for (const tidei_scope *s = t->scope; s; s = s->outer) n++;
    return n;
}

void tidei_scopes_end(tidei_thread *t) {
    while (t->scope) end_innermost(t);
}

void tidei_scopes_close(tidei_gc *gc) {
    while (gc->scopes) finish(gc->scopes);
}

tide_status tide_scope_begin(tide_runtime *ref) {
    tidei_thread *t = tidei_enter(ref, "tide_scope_begin");
    if (!t) return tidei_last_status();
    tidei_runtime *rt = tidei_thread_runtime(t);
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

tide_status tide_scope_end(tide_runtime *ref) {
    tidei_thread *t = tidei_enter(ref, "tide_scope_end");
    if (!t) return tidei_last_status();
    if (!t->scope)
        return tidei_fail(TIDE_E_INVALID, "tide_scope_end",
                          "this thread has no open scope in this runtime");
    end_innermost(t);
    return TIDE_OK;
}

int tide_scope_depth(tide_runtime *ref) {
    const tidei_thread *t = tidei_enter(ref, "tide_scope_depth");
    return t ? depth_of(t) : -1;
}

/* The calling thread's record, as by tidei_enter. Callbacks that a longjmp left are undone on the
** way, and an earlier error stays as it was. */
static tidei_thread *enter_recovering(tide_runtime *ref, const char *op) {
    tidei_runtime *rt = tidei_ref_find(TIDEI_REF_RUNTIME, ref, op);
    if (rt && !tidei_forked()) {
        tidei_saved_error e;
        tidei_error_save(&e);
        if (!tidei_callbacks_look(rt, op)) tidei_error_restore(&e);
    }
    return rt ? tidei_enter(ref, op) : NULL;
}

tide_status tide_scope_unwind(tide_runtime *ref, int depth) {
    tidei_thread *t = enter_recovering(ref, "tide_scope_unwind");
    if (!t) return tidei_last_status();
    int open = depth_of(t);
    if (depth < 0 || depth > open)
        return tidei_fail(TIDE_E_INVALID, "tide_scope_unwind",
                          "depth is %d; this thread has %d open scope%s in this runtime", depth,
                          open, open == 1 ? "" : "s");
    for (; open > depth; open--) end_innermost(t);
    return TIDE_OK;
}

/* The thread's scope that holds h, or NULL. Scopes of other threads are not searched. */
static tidei_scope *holder(tidei_thread *t, tidei_header *h) {
    tidei_scope *s = t->scope;
    while (s && s != atomic_load_explicit(&h->scope, memory_order_relaxed)) s = s->outer;
    return s;
}

tide_array *tide_scope_keep(tide_array *a) {
    if (!a) return (void)tidei_fail_null("tide_scope_keep", "argument 1"), NULL;
    tidei_header *h = a->hidden ? tidei_cell_header(a) : NULL;
    tidei_runtime *rt = h ? atomic_load(&h->deaths->rt) : NULL;
    if (!rt) {
        tidei_fail(h ? TIDE_E_CLOSED : TIDE_E_FREED, "tide_scope_keep",
                   h ? "the runtime was closed" : "use of a freed array");
        return NULL;
    }
    tidei_thread *t = tidei_thread_get(rt);
    if (!t) return NULL;
    tidei_scope *s = holder(t, h);
    if (!s) return a; /* nobody but the caller holds it */
    if (released(h)) {
        tidei_fail(TIDE_E_FREED, "tide_scope_keep", "the array was released before");
        return NULL;
    }
    uint32_t place = h->scope_index;
    if (s->outer && add(s->outer, h, "tide_scope_keep") != TIDE_OK) return NULL;
    s->at[place] = NULL;
    if (!s->outer) let_go(h, false);
    return a;
}
