/* neighbours.c: the open runtimes of the process, and asking the others on a device for memory.
**
** A thread whose runtime is short visits each of the others and makes its pools give back what is
** free, as the cheap rungs of that runtime's own ladder would: without collecting, without waiting,
** without becoming one of its threads. Unified memory stays, as the driver takes it back only when
** the device has done all its work. A runtime that closes leaves the list first and waits until its
** visitors have gone; a visit waits for nobody, so two runtimes may visit each other.
** What must stay true: no lock is held during a visit. */
#include "runtime/reclaim/neighbours.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/reclaim.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/reclaim/rungs.h"
#include "runtime/base/uncancelled.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left;
    tidei_runtime *open; /* newest first, so serial numbers fall */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

void tidei_neighbours_enter(tidei_runtime *rt) {
    pthread_mutex_lock(&all.lock);
    tidei_runtime **at = &all.open; /* serial numbers may have been given in another order */
    while (*at && (*at)->serial > rt->serial) at = &(*at)->reclaim->next_open;
    rt->reclaim->next_open = *at;
    *at = rt;
    pthread_mutex_unlock(&all.lock);
}

void tidei_neighbours_leave(tidei_runtime *rt) {
    pthread_mutex_lock(&all.lock);
    for (tidei_runtime **at = &all.open; *at; at = &(*at)->reclaim->next_open)
        if (*at == rt) {
            *at = rt->reclaim->next_open;
            break;
        }
    while (rt->reclaim->visitors) tidei_cond_wait(&all.left, &all.lock);
    pthread_mutex_unlock(&all.lock);
}

/* The newest runtime but `self` with a number below *last, which becomes its number; it stays open
** until the visit ends. */
static tidei_runtime *visit(const tidei_runtime *self, uint64_t *last) {
    pthread_mutex_lock(&all.lock);
    tidei_runtime *rt = all.open;
    while (rt && (rt->serial >= *last || rt == self)) rt = rt->reclaim->next_open;
    if (rt) {
        *last = rt->serial;
        rt->reclaim->visitors++;
    }
    pthread_mutex_unlock(&all.lock);
    return rt;
}

static void end_visit(tidei_runtime *rt) {
    pthread_mutex_lock(&all.lock);
    if (--rt->reclaim->visitors == 0) pthread_cond_broadcast(&all.left);
    pthread_mutex_unlock(&all.lock);
}

static void undo_visit(tidei_runtime *own, tidei_thread *t, void *rt, uintptr_t of) {
    (void)own, (void)t, (void)of;
    end_visit(rt);
}

static size_t held(tidei_dev *d) {
    return atomic_load(&d->budget->backed) + atomic_load(&d->budget->library);
}

/* Makes the runtime's pools on the device of that name, and its idle library handles, give back
** memory; returns the bytes. */
static size_t give_back(tidei_runtime *rt, const char *name, size_t wanted) {
    size_t given = 0;
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) {
        if (strcmp(d->d->info.name, name) != 0 || atomic_load(&d->d->lost)) continue;
        size_t before = held(d);
        size_t said = tidei_reclaimables_call(d, TIDEI_PURGE, wanted, tidei_climb_id_new(rt));
        tidei_pools_settle(d);
        tidei_pools_trim(d, TIDEI_KIND_BIT(TIDEI_MEM_DEVICE));
        size_t after = held(d), came = before > after ? before - after : 0;
        /* a pool may have given back what an entry let go of: counted once */
        given += tidei_max_size(said, came);
    }
    return given;
}

/* Other runtimes cannot help where our own limit refuses, or where all memory taken of the device
** is ours. */
static bool others_could_help(tidei_dev *d, size_t bytes) {
    size_t ours = held(d), limit = tidei_hard_limit(d);
    size_t free_bytes, total;
    if (ours > limit || bytes > limit - ours) return false;
    return d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_OK && total - free_bytes > ours;
}

/* The other runtimes on d's device give back what they can without collecting or waiting. Returns
** the bytes. */
static size_t ask(tidei_dev *d, size_t bytes) {
    uint64_t last = UINT64_MAX;
    size_t given = 0;
    tidei_thread *t = tidei_thread_look(d->rt);
    if (!others_could_help(d, bytes)) return 0;
    for (tidei_runtime *rt; (rt = visit(d->rt, &last));) {
        /* callbacks that give_back makes count as made inside this one */
        tidei_callback in;
        tidei_hold(t, undo_visit, rt, 0);
        tidei_callback_begin(&in, d->rt, TIDEI_IN_VISIT, NULL);
        given += give_back(rt, d->d->info.name, bytes);
        tidei_callback_end(&in);
        tidei_let(t, rt);
        end_visit(rt);
    }
    return given;
}

static size_t neighbours_give(const tidei_climb *c) {
    return tidei_climb_kinds(c) & TIDEI_KIND_BIT(TIDEI_MEM_DEVICE) ? ask(c->d, c->bytes) : 0;
}

const tidei_rung tidei_neighbour_rungs[] = {
    {.name = "ask neighbours", .place = TIDEI_RUNG_NEIGHBOURS, .give = neighbours_give},
    {.name = NULL},
};
