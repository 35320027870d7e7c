/* foreign.c: an embedder's collectors: registering, unregistering, choosing, its own safe points.
**
** A place keeps its collector until nobody is inside one of its slots: `users` counts those that
** blocking and pressure run in, `running` covers collect. One collector leaves at a time
** (`leaving`), and nobody but who unregisters it enters its region any more: who unregisters
** another meanwhile waits for his turn outside of it, or each would wait for the other.
** When a collector leaves its arrays are nobody's weight, so it is told the rest (collector.c).
** Weight comes and goes without a lock, so a place is not given to the next collector while
** somebody may add to the last one's (`weighing`).
** A callback that is left before `detach` was called leaves the collector registered. */
#include "gc/collector.h"
#include "runtime/base/sized.h"
#include "runtime/base/uncancelled.h"
#include <inttypes.h>
#include <limits.h>
#include <sched.h>

#define OP_REGISTER "tide_collector_register"
#define ALL_CAPS    (TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_MINOR | TIDE_COLLECTOR_BOUND)
enum { PLACE_FREE = -1, PLACE_LEAVING = -2 };

/* A collector that leaves is told that nothing weighs on it any more, whichever thread unregisters
** it. */
static void tell_rest(tidei_gc *gc, tidei_collector *c) {
    int64_t told = atomic_load_explicit(&c->told, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->weight, told, memory_order_relaxed); /* if it stays after all */
    tidei_collector_tell(gc, c, -told);
}

#define END(field) TIDEI_END(tide_collector, field)
static const uint16_t collector_ends[] = {
    END(struct_size), END(name),        END(caps),     END(reserved), END(user),
    END(collect),     END(may_collect), END(pressure), END(blocking), END(detach)};
#undef END
static const tidei_sized collector_sizes = {"tide_collector", collector_ends,
                                            TIDEI_COUNT(collector_ends),
                                            TIDEI_END(tide_collector, collect)};

static tide_status check(const tide_collector *c) {
    tide_status status = tidei_sized_check(&collector_sizes, c->struct_size, OP_REGISTER);
    if (status != TIDE_OK) return status;
    if (!c->collect) return tidei_fail(TIDE_E_INVALID, OP_REGISTER, "collect is NULL");
    if (c->caps & ~(uint32_t)ALL_CAPS)
        return tidei_fail(TIDE_E_INVALID, OP_REGISTER,
                          "caps has bits that this library does not know: 0x%x",
                          (unsigned)(c->caps & ~(uint32_t)ALL_CAPS));
    return TIDE_OK;
}

/* A place without a collector, to whose weight nobody adds from here on. A place to which a thread
** is adding just now is passed over. */
static tidei_collector *empty_place_locked(tidei_gc *gc) {
    for (bool any = true; any; sched_yield()) {
        any = false;
        for (unsigned i = 1; i < TIDEI_COLLECTORS; i++) {
            tidei_collector *c = &gc->at[i];
            if (atomic_load(&c->id) != PLACE_FREE) continue;
            atomic_store(&c->owner, 0);
            if (!atomic_load(&c->weighing)) return c;
            any = true;
        }
    }
    return NULL;
}

static tide_status place(tidei_gc *gc, const tide_collector *table, int *id) {
    pthread_mutex_lock(&gc->lock);
    bool spent = gc->next_id == INT_MAX; /* an id names one collector for ever */
    tidei_collector *c = spent ? NULL : empty_place_locked(gc);
    if (c) {
        memset(&c->table, 0, sizeof c->table); /* slots that an older caller lacks */
        memcpy(&c->table, table, table->struct_size);
        if (!c->table.name) c->table.name = "unnamed";
        c->thread = tidei_thread_serial();
        c->users = c->waits = 0;
        c->asked = 0;
        c->answers = c->ended = false;
        c->how = TIDEI_COLLECTED;
        atomic_store(&c->weight, 0);
        atomic_store(&c->told, 0);
        atomic_store(&c->cannot, 0);
        atomic_store(&c->odd, false);
        atomic_store(&c->weighs, c->table.pressure != NULL);
        *id = gc->next_id++;
        atomic_store(&c->owner, (uint32_t)*id);
        atomic_store_explicit(&c->id, *id, memory_order_release);
    }
    pthread_mutex_unlock(&gc->lock);
    if (spent)
        return tidei_fail(TIDE_E_INVALID, OP_REGISTER,
                          "%d collectors have been registered, the most that get an id",
                          INT_MAX - 1);
    return c ? TIDE_OK
             : tidei_fail(TIDE_E_INVALID, OP_REGISTER,
                          "%d collectors are registered, the most there can be", TIDEI_FOREIGN_MAX);
}

tide_status tide_collector_register(tide_runtime *ref, const tide_collector *c, uint64_t *id) {
    int given = -1;
    tidei_thread *t = tidei_enter(ref, OP_REGISTER);
    if (!t) return tidei_last_status();
    if (!c) return tidei_fail(TIDE_E_INVALID, OP_REGISTER, "the collector is NULL");
    tidei_runtime *rt = tidei_thread_runtime(t);
    tide_status status = check(c);
    if (status == TIDE_OK) status = place(tidei_gc_of(rt), c, &given);
    if (status != TIDE_OK) return status;
    t->collector = given;
    if (id) *id = (uint64_t)given;
    tidei_gc_changed(tidei_gc_of(rt));
    return TIDE_OK;
}

struct leaving {
    tidei_gc *gc;
    /* the collector that leaves; while waiting for the turn: the one that another thread
    ** unregisters */
    tidei_collector *c;
    unsigned own; /* uses of the waiting thread itself, inside the blocking region */
};
static void wait_until_unused(void *p) {
    struct leaving *l = p;
    pthread_mutex_lock(&l->gc->lock);
    while (l->gc->running || l->c->users > l->own) tidei_cond_wait(&l->gc->changed, &l->gc->lock);
    atomic_store(&l->c->id, PLACE_LEAVING);
    pthread_mutex_unlock(&l->gc->lock);
}
static void wait_while_leaving(void *p) {
    struct leaving *l = p;
    pthread_mutex_lock(&l->gc->lock);
    while (l->gc->leaving == l->c) tidei_cond_wait(&l->gc->changed, &l->gc->lock);
    pthread_mutex_unlock(&l->gc->lock);
}

/* The collector of that id, which the calling thread unregisters from here on; NULL: there is
** none. */
static tidei_collector *begin_leaving(tidei_gc *gc, int id) {
    for (;;) {
        pthread_mutex_lock(&gc->lock);
        struct leaving l = {gc, gc->leaving, 0};
        tidei_collector *c = l.c ? NULL : tidei_collector_find(gc, id);
        if (c) {
            gc->leaving = c;
            gc->leaver = tidei_thread_serial();
        }
        pthread_mutex_unlock(&gc->lock);
        if (!l.c) return c;
        tidei_blocking(gc->rt, wait_while_leaving, &l);
    }
}
static void end_leaving(tidei_gc *gc) {
    pthread_mutex_lock(&gc->lock);
    gc->leaving = NULL;
    pthread_cond_broadcast(&gc->changed);
    pthread_mutex_unlock(&gc->lock);
}

/* A longjmp left the call before `detach` was called: the collector is registered as before. */
static void put_back(tidei_runtime *rt, tidei_thread *t, void *p, uintptr_t of) {
    tidei_collector *c = p;
    int leaving = PLACE_LEAVING;
    (void)t, (void)of;
    if (atomic_compare_exchange_strong(&c->id, &leaving, (int)atomic_load(&c->owner)))
        tidei_gc_changed(tidei_gc_of(rt));
}

/* A longjmp left the blocking region, or one of the callbacks of evict. */
static void undo_leaving(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t of) {
    put_back(rt, t, c, of);
    end_leaving(tidei_gc_of(rt));
}

static void free_place(tidei_runtime *rt, tidei_thread *t, void *c, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    atomic_store(&((tidei_collector *)c)->id, PLACE_FREE);
}

static void call_detach(tidei_gc *gc, tidei_thread *t, tidei_collector *c) {
    tidei_callback in;
    tidei_hold(t, free_place, c, 0);
    tidei_callback_begin(&in, gc->rt, TIDEI_IN_DETACH, c->table.name);
    c->table.detach(c->table.user);
    tidei_callback_end(&in);
    tidei_let(t, c);
}

/* Calls the leaving collector for the last time; no new collector gets its place meanwhile. */
static void evict(tidei_gc *gc, tidei_collector *c) {
    TIDEI_UNCANCELLED;
    tidei_thread *t = tidei_thread_look(gc->rt);
    atomic_store(&c->id, PLACE_LEAVING);
    tidei_hold(t, put_back, c, 0);
    tidei_gc_changed(gc);
    tell_rest(gc, c);
    tidei_let(t, c);
    if (c->table.detach) call_detach(gc, t, c);
    atomic_store(&c->id, PLACE_FREE);
}

tide_status tide_collector_unregister(tide_runtime *ref, uint64_t id) {
    static const char op[] = "tide_collector_unregister";
    tidei_thread *t = tidei_enter(ref, op);
    if (!t) return tidei_last_status();
    tidei_runtime *rt = tidei_thread_runtime(t);
    if (!tidei_may_unregister(t, op)) return tidei_last_status();
    if (id == 0)
        return tidei_fail(TIDE_E_INVALID, op,
                          "collector 0 is the runtime's own; it leaves with it");
    tidei_gc *gc = tidei_gc_of(rt);
    tidei_collector *c = id <= INT_MAX ? begin_leaving(gc, (int)id) : NULL;
    if (!c) return tidei_fail(TIDE_E_INVALID, op, "no collector %" PRIu64 " is registered", id);
    struct leaving l = {gc, c, c->table.blocking != NULL};
    tidei_hold(t, undo_leaving, c, 0);
    tidei_blocking(rt, wait_until_unused, &l);
    evict(gc, c);
    tidei_let(t, c);
    end_leaving(gc);
    return TIDE_OK;
}

tide_status tide_collector_use(tide_runtime *ref, uint64_t id) {
    tidei_thread *t = tidei_enter(ref, "tide_collector_use");
    if (!t) return tidei_last_status();
    if (id > INT_MAX || !tidei_collector_find(tidei_gc_of(tidei_thread_runtime(t)), (int)id))
        return tidei_fail(TIDE_E_INVALID, "tide_collector_use",
                          "no collector %" PRIu64 " is registered", id);
    t->collector = (int)id;
    return TIDE_OK;
}

void tide_safepoint(tide_runtime *ref) {
    tidei_runtime *rt = tidei_entered(ref, "tide_safepoint");
    if (!rt) return;
    tidei_drain(rt);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) tidei_ask(rt, d, TIDEI_AT_SAFEPOINT, 0);
}

void tidei_foreign_close(tidei_gc *gc) {
    for (unsigned i = 1; i < TIDEI_COLLECTORS; i++)
        if (atomic_load(&gc->at[i].id) >= 0) evict(gc, &gc->at[i]);
}
