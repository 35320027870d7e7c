/* collector.c: a collector in its place: finding it, entering and leaving it, and telling it of
** weight.
**
** Who is inside one of its slots is counted (`users`), so that it stays in its place until then
** (foreign.c).
** Weight: what a collector was told of in all is `told`, what it is still to be told `weight`;
** their sum is what its arrays keep alive. */
#include "gc/collector.h"
#include "runtime/base/uncancelled.h"

tidei_collector *tidei_collector_find(tidei_gc *gc, int id) {
    for (unsigned i = 0; i < TIDEI_COLLECTORS; i++)
        if (atomic_load_explicit(&gc->at[i].id, memory_order_acquire) == id) return &gc->at[i];
    return NULL;
}

static tidei_collector *enter(tidei_gc *gc, int id, bool region) {
    pthread_mutex_lock(&gc->lock);
    tidei_collector *c = tidei_collector_find(gc, id);
    if (region && c && c == gc->leaving && gc->leaver != tidei_thread_serial()) c = NULL;
    if (c) c->users++;
    pthread_mutex_unlock(&gc->lock);
    return c;
}

tidei_collector *tidei_collector_enter(tidei_gc *gc, int id) { return enter(gc, id, false); }
tidei_collector *tidei_collector_enter_region(tidei_gc *gc, int id) { return enter(gc, id, true); }

void tidei_collector_leave(tidei_gc *gc, tidei_collector *c) {
    pthread_mutex_lock(&gc->lock);
    c->users--;
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

void tidei_undo_use(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t of) {
    (void)t, (void)of;
    tidei_collector_leave(tidei_gc_of(rt), c);
}

tidei_collector *tidei_collector_current(tidei_gc *gc, tidei_thread *t) {
    tidei_collector *c = t->collector > 0 ? tidei_collector_find(gc, t->collector) : NULL;
    return c ? c : &gc->at[0];
}

void tidei_collector_tell(tidei_gc *gc, tidei_collector *c, int64_t delta) {
    tidei_callback in;
    if (!delta || !c->table.pressure) return;
    atomic_fetch_add_explicit(&c->told, delta, memory_order_relaxed);
    TIDEI_UNCANCELLED;
    tidei_callback_begin(&in, gc->rt, TIDEI_IN_PRESSURE, c->table.name);
    c->table.pressure(c->table.user, delta);
    tidei_callback_end(&in);
}

/* Tells the collector if it may be called on this thread. */
static void tell_weight(tidei_gc *gc, tidei_collector *c) {
    tidei_thread *t = tidei_thread_look(gc->rt);
    if ((c->table.caps & TIDE_COLLECTOR_BOUND) && c->thread != tidei_thread_serial()) return;
    tidei_hold(t, tidei_undo_use, c, 0);
    tidei_collector_tell(gc, c, atomic_exchange_explicit(&c->weight, 0, memory_order_relaxed));
    tidei_let(t, c);
}

void tidei_tell_weights(tidei_gc *gc) {
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) {
        tidei_collector *c = &gc->at[i];
        if (atomic_load_explicit(&c->weight, memory_order_relaxed) == 0) continue;
        int id = atomic_load_explicit(&c->id, memory_order_acquire);
        if (id < 0 || !tidei_collector_enter(gc, id)) continue;
        tell_weight(gc, c);
        tidei_collector_leave(gc, c);
    }
}
