/* thread.c: threads' records: making, finding, tying and cutting them. The model stands in
** thread.h. */
#include "runtime/base/callback.h"
#include "runtime/base/uncancelled.h"
#include <stdlib.h>

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* ties between threads and runtimes */
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;       /* a record has left its runtime */
/* at_exit and the mark; under all_lock */
static bool prepared;
static pthread_key_t at_exit;
/* as `records`, or NULL inside callbacks (callback.h) */
TIDEI_FAST_TLS tidei_thread *tidei_thread_records;
static TIDEI_FAST_TLS tidei_thread *records; /* this thread's, most recently used first */
static TIDEI_FAST_TLS bool hidden;

/* pthread_self may be another thread's once one has ended. */
uint64_t tidei_thread_serial(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t here;
    if (!here) here = atomic_fetch_add(&last, 1) + 1;
    return here;
}

static void set_records(tidei_thread *first) {
    records = first;
    tidei_thread_records = hidden ? NULL : first;
}

void tidei_thread_hide(bool hide) {
    hidden = hide;
    set_records(records);
}

tidei_thread *tidei_thread_next(tidei_thread *t) { return t ? t->next_of_thread : records; }

/* Ends the tie of `t`, whose runtime is open; under all_lock. */
static void untie_locked(tidei_thread *t) {
    if (t->next_of_rt) t->next_of_rt->prev_of_rt = t->prev_of_rt;
    *t->prev_of_rt = t->next_of_rt;
    atomic_store(&t->rt, NULL);
    atomic_store(&t->ref, NULL);
}

tidei_runtime *tidei_thread_take(tidei_thread *t) {
    pthread_mutex_lock(&all_lock);
    while (t->taken) tidei_cond_wait(&left, &all_lock); /* by a thread that closes the runtime */
    tidei_runtime *rt = atomic_load(&t->rt);
    if (rt) {
        t->taken = true;
        rt->taken++;
    }
    pthread_mutex_unlock(&all_lock);
    return rt;
}

static void give_locked(tidei_runtime *rt, tidei_thread *t) {
    t->taken = false;
    rt->taken--;
    pthread_cond_broadcast(&left);
}

void tidei_thread_give(tidei_thread *t, tidei_runtime *rt) {
    pthread_mutex_lock(&all_lock);
    give_locked(rt, t);
    pthread_mutex_unlock(&all_lock);
}

static void leave(tidei_runtime *rt, tidei_thread *t) {
    pthread_mutex_lock(&all_lock);
    untie_locked(t);
    give_locked(rt, t);
    pthread_mutex_unlock(&all_lock);
}

/* Detaches from the collectors, outside the lock: they may call back. */
static void detach(tidei_thread *t) {
    tidei_runtime *rt = tidei_forked() ? NULL : tidei_thread_take(t);
    if (!rt) return;
    if (rt->gc_ops) rt->gc_ops->thread_detach(rt, t);
    tidei_thread_above->leave(rt, t);
    leave(rt, t);
}

/* In a fork's child the process's lock of headers may be held by a thread that is not there. */
static void free_record(tidei_thread *t) {
    if (!tidei_forked()) tidei_thread_above->end(t);
    tidei_callbacks_free(t);
    free(t);
}

/* A thread ends. It may still be noted in callbacks, which never return now. */
static void thread_ends(void *unused) {
    (void)unused;
    for (tidei_thread *t = records; t && !tidei_forked();) {
        bool inside = t->nnotes != 0;
        if (inside) tidei_callbacks_end(t);
        /* a line of the log may have brought others to the front */
        t = inside ? records : t->next_of_thread;
    }
    for (tidei_thread *t = records, *next; t; t = next) {
        next = t->next_of_thread;
        detach(t);
        free_record(t);
    }
    set_records(NULL);
}

const tidei_thread_hooks *tidei_thread_above;

tide_status tidei_threads_prepare(const tidei_thread_hooks *above) {
    pthread_mutex_lock(&all_lock);
    bool first = !prepared;
    if (first) tidei_thread_above = above; /* once: threads read it without the lock */
    if (first) prepared = pthread_key_create(&at_exit, thread_ends) == 0;
    if (first && prepared) tidei_fork_mark();
    bool ready = prepared;
    pthread_mutex_unlock(&all_lock);
    return ready ? TIDE_OK
                 : tidei_fail(TIDE_E_HOST_NOMEM, "tide_open",
                              "the process has no thread-specific key left");
}

/* Unlinks records whose runtime is gone from this thread's list. */
static void sweep_records(void) {
    for (tidei_thread **p = &records; *p;) {
        tidei_thread *t = *p;
        if (atomic_load(&t->rt) || t->nnotes || t->doubtful) {
            p = &t->next_of_thread;
        } else {
            *p = t->next_of_thread;
            free_record(t);
        }
    }
    set_records(records);
}

static tidei_thread *new_record(tidei_runtime *rt) {
    if (tidei_serves == rt) {
        tidei_fail(TIDE_E_INVALID, "tide_thread_attach",
                   "called by a function of tide_use_launch, which may only drop arrays");
        return NULL;
    }
    tidei_thread *t = calloc(1, sizeof *t + rt->ndevs * sizeof t->elsewhere[0]);
    if (!t) {
        tidei_fail_host_memory("tide_thread_attach", sizeof *t);
        return NULL;
    }
    t->serial = rt->serial;
    tidei_callbacks_init(t);
    atomic_init(&t->ref, rt->ref);
    t->dev = &rt->devs[0];
    t->collector = 0;
    t->here.wants_stream =
        rt->set.thread_streams && !rt->set.deterministic && tidei_thread_serial() != rt->opener;
    for (unsigned i = 0; i < rt->ndevs; i++) t->elsewhere[i].wants_stream = t->here.wants_stream;
    /* allocates, once a thread: later calls do not fail */
    if (pthread_setspecific(at_exit, records)) {
        free(t);
        tidei_fail_host_memory("tide_thread_attach", sizeof(void *));
        return NULL;
    }
    if (rt->gc_ops && rt->gc_ops->thread_attach(rt, t) != TIDE_OK) {
        free(t);
        return NULL;
    }
    sweep_records();
    pthread_mutex_lock(&all_lock);
    atomic_store(&t->rt, rt);
    t->next_of_rt = rt->threads;
    t->prev_of_rt = &rt->threads;
    if (rt->threads) rt->threads->prev_of_rt = &t->next_of_rt;
    rt->threads = t;
    pthread_mutex_unlock(&all_lock);
    t->next_of_thread = records;
    set_records(t);
    pthread_setspecific(at_exit, records);
    return t;
}

static tidei_thread *find(tidei_runtime *rt) {
    for (tidei_thread **p = &records; *p; p = &(*p)->next_of_thread) {
        tidei_thread *t = *p;
        if (atomic_load_explicit(&t->rt, memory_order_relaxed) != rt || t->serial != rt->serial)
            continue;
        if (t == records) return t;
        *p = t->next_of_thread; /* to the front */
        t->next_of_thread = records;
        set_records(t);
        pthread_setspecific(at_exit, records);
        return t;
    }
    return NULL;
}

static tidei_thread *find_or_attach(tidei_runtime *rt, const char *op) {
    if (tidei_forked()) {
        tidei_fail(TIDE_E_FORKED, "tide_thread_attach",
                   "this process is a fork's child; its parent's runtime cannot be used here");
        return NULL;
    }
    if (tidei_unlikely(hidden) && !tidei_callbacks_look(rt, op)) return NULL;
    tidei_thread *t = find(rt);
    return t ? t : new_record(rt);
}

tidei_thread *tidei_thread_find(tidei_runtime *rt) { return find_or_attach(rt, ""); }

tidei_thread *tidei_thread_find_by_ref(tide_runtime *ref, const char *op) {
    tidei_runtime *rt = tidei_ref_find(TIDEI_REF_RUNTIME, ref, op);
    return rt ? find_or_attach(rt, op) : NULL;
}

/* The closing thread's record stays tied: closing needs it. */
void tidei_runtime_end_refs(tidei_runtime *rt) {
    tidei_thread *own = find(rt);
    if (own) atomic_store(&own->ref, NULL);
    tidei_refs_close(rt);
}

tidei_thread *tidei_thread_look(tidei_runtime *rt) { return tidei_forked() ? NULL : find(rt); }

tide_status tide_thread_attach(tide_runtime *ref) {
    return tidei_enter(ref, "tide_thread_attach") ? TIDE_OK : tidei_last_status();
}

void tide_thread_detach(tide_runtime *ref) {
    tidei_runtime *rt = ref ? tidei_ref_find(TIDEI_REF_RUNTIME, ref, "tide_thread_detach") : NULL;
    if (rt && !tidei_forked()) (void)tidei_callbacks_look(rt, "tide_thread_detach");
    tidei_thread *t = rt ? find(rt) : NULL;
    if (!t || !tidei_may_leave(t, "tide_thread_detach")) return;
    detach(t);
    sweep_records();
    pthread_setspecific(at_exit, records);
}

/* Under all_lock, which is let go meanwhile: what a call of that thread held that will not come
** back. */
static void undo_locked(tidei_runtime *rt, tidei_thread *t) {
    t->taken = true;
    rt->taken++;
    pthread_mutex_unlock(&all_lock);
    tidei_held_undo(rt, t, 0);
    pthread_mutex_lock(&all_lock);
    give_locked(rt, t);
}

void tidei_threads_part(tidei_runtime *rt) {
    tidei_thread *own = find(rt);
    pthread_mutex_lock(&all_lock);
    for (;;) {
        tidei_thread *t = rt->threads;
        while (t && (t == own || t->taken)) t = t->next_of_rt;
        if (t && tidei_held_here(t))
            undo_locked(rt, t);
        else if (t)
            untie_locked(t);
        else if (rt->taken)
            tidei_cond_wait(&left, &all_lock);
        else
            break;
    }
    pthread_mutex_unlock(&all_lock);
}

void tidei_threads_each(tidei_runtime *rt, void (*fn)(tidei_thread *t, void *user), void *user) {
    pthread_mutex_lock(&all_lock);
    for (tidei_thread *t = rt->threads; t; t = t->next_of_rt) fn(t, user);
    pthread_mutex_unlock(&all_lock);
}

void tidei_threads_cut(tidei_runtime *rt) {
    pthread_mutex_lock(&all_lock);
    while (rt->threads) untie_locked(rt->threads);
    pthread_mutex_unlock(&all_lock);
}
