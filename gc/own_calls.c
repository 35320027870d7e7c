/* own_calls.c: a live runtime asks and tells a policy that is somebody else's: without a lock,
** noted as a callback that may be left by longjmp (runtime/base/callback.h).
**
** Ours are asked under gc->lock. Here a mark, `called`, stands for the lock: who sets it has the
** budget's run for itself. Whoever would ask meanwhile decides nothing; whoever has to tell of a
** collection waits, holding nothing but the round.
** What must stay true: a call that is left takes the mark back, when its thread is seen next. */
#include "gc/collector.h"
#include "runtime/base/uncancelled.h"

static bool begin_locked(tidei_gc *gc, tidei_gc_dev *g, bool waits) {
    while (g->called && waits) tidei_cond_wait(&gc->changed, &gc->lock);
    if (g->called) return false;
    return g->called = true;
}

static void end_locked(tidei_gc *gc, tidei_gc_dev *g) {
    g->called = false;
    pthread_cond_broadcast(&gc->changed);
}

/* It was left. The policy is asked again at the next moment. */
static void undo_call(tidei_runtime *rt, tidei_thread *t, void *g, uintptr_t of) {
    tidei_gc *gc = tidei_gc_of(rt);
    (void)t, (void)of;
    pthread_mutex_lock(&gc->lock);
    end_locked(gc, g);
    pthread_mutex_unlock(&gc->lock);
    tidei_gc_changed(gc);
}

static void warn_of(tidei_gc *gc, const char *policy, const tidei_policy_nonsense *x) {
    if (!x->n || atomic_exchange(&gc->told_of_nonsense, true)) return;
    tidei_log(gc->rt, TIDE_LOG_WARNING,
              "the policy \"%s\" answers what makes no sense: %s; such answers count as: do not "
              "collect, and there is no further line about them",
              policy, x->first);
}

static tidei_decision ask(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *in) {
    TIDEI_UNCANCELLED;
    tidei_callback note;
    tidei_thread *t = tidei_thread_look(gc->rt);
    tidei_hold(t, undo_call, g, 0);
    tidei_callback_begin(&note, gc->rt, TIDEI_IN_DECIDE, g->run.policy->name);
    tidei_decision x = tidei_policy_ask(&g->run, in);
    tidei_callback_end(&note);
    tidei_let(t, g);
    return x;
}

bool tidei_gc_ask_own(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *in, uint64_t rounds,
                      tidei_decision *out) {
    pthread_mutex_lock(&gc->lock);
    bool mine = !gc->running && gc->rounds == rounds && begin_locked(gc, g, false);
    pthread_mutex_unlock(&gc->lock);
    if (!mine) return false;
    tidei_decision x = ask(gc, g, in);
    tidei_policy_nonsense nonsense = g->run.nonsense;
    pthread_mutex_lock(&gc->lock);
    end_locked(gc, g);
    bool stale = gc->running || gc->rounds != rounds;
    pthread_mutex_unlock(&gc->lock);
    warn_of(gc, g->run.policy->name, &nonsense);
    if (!stale) *out = x;
    return !stale;
}

void tidei_gc_tell_own(tidei_gc *gc, tidei_gc_dev *g, const tidei_policy_in *after,
                       const tidei_collection *c) {
    TIDEI_UNCANCELLED;
    tidei_callback note;
    tidei_thread *t = tidei_thread_look(gc->rt);
    pthread_mutex_lock(&gc->lock);
    (void)begin_locked(gc, g, true);
    pthread_mutex_unlock(&gc->lock);
    tidei_hold(t, undo_call, g, 0);
    tidei_callback_begin(&note, gc->rt, TIDEI_IN_OBSERVE, g->run.policy->name);
    tidei_policy_told(&g->run, &g->before, after, c);
    tidei_callback_end(&note);
    tidei_let(t, g);
    pthread_mutex_lock(&gc->lock);
    end_locked(gc, g);
    pthread_mutex_unlock(&gc->lock);
}
