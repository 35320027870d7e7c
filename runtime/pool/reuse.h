/* reuse.h: whether a stream may have freed memory: what a pool's rules (TIDEI_REUSE_*) say about
** the stamps on it.
**
** The questions are asked under the pool's lock and call nothing; tidei_reuse_ask, which finds out
** what is done, calls the device, so no lock may be held. */
#ifndef TIDEI_REUSE_H
#define TIDEI_REUSE_H

#include "runtime/pool/pool.h"
#include "runtime/streams/stream.h"

/* The rules that hold for a call, which may change between calls. */
static inline unsigned tidei_reuse_rules(const tidei_pool *p) {
    unsigned rules = atomic_load_explicit(&p->attrs.reuse, memory_order_relaxed);
    bool deterministic = atomic_load_explicit(&p->attrs.deterministic, memory_order_relaxed);
    return deterministic ? rules & ~(unsigned)TIDEI_REUSE_DONE : rules;
}

/* Whether the stamp is done, as far as it was asked before; asks nothing itself. */
static inline bool tidei_reuse_known_done(tidei_dev *d, tidei_stamp x) {
    if (!x.tick) return true;
    tidei_stream *of = atomic_load_explicit(&d->rt->streams->at[x.stream], memory_order_acquire);
    return of && x.tick <= atomic_load_explicit(&of->completed, memory_order_acquire);
}

/* May s have memory with this stamp without waiting? TIDEI_REUSE_WAIT is the caller's matter: it
** counts only where the pool would have to grow. */
static inline bool tidei_reuse_may_one(tidei_stream *s, tidei_stamp x, unsigned rules) {
    if (!x.tick || x.stream == s->slot) return true;
    if (rules & TIDEI_REUSE_FOLLOW &&
        x.tick <= atomic_load_explicit(&s->seen[x.stream], memory_order_acquire))
        return true;
    return rules & TIDEI_REUSE_DONE && tidei_reuse_known_done(s->dev, x);
}
static inline bool tidei_reuse_may(tidei_stream *s, tidei_stamps *stamps, unsigned rules) {
    for (unsigned i = 0; i < stamps->n; i++)
        if (!tidei_reuse_may_one(s, tidei_stamps_at(stamps)[i], rules)) return false;
    return true;
}

/* May the pool hand out memory that s has to wait for, rather than grow? */
static inline bool tidei_reuse_waits(unsigned rules, unsigned flags) {
    return rules & TIDEI_REUSE_WAIT || flags & TIDEI_ALLOC_STEAL;
}

/* Drops the stamps known to be done; true if none is left. */
static inline bool tidei_reuse_prune(tidei_dev *d, tidei_stamps *stamps) {
    tidei_stamp *x = tidei_stamps_at(stamps);
    uint16_t kept = 0;
    for (unsigned i = 0; i < stamps->n; i++)
        if (!tidei_reuse_known_done(d, x[i])) x[kept++] = x[i];
    stamps->n = kept;
    if (!kept) tidei_stamps_clear(stamps);
    return !kept;
}

/* Is all of it known to be done? */
static inline bool tidei_reuse_over(tidei_dev *d, tidei_stamps *stamps) {
    const tidei_stamp *x = tidei_stamps_at(stamps);
    for (unsigned i = 0; i < stamps->n; i++)
        if (!tidei_reuse_known_done(d, x[i])) return false;
    return true;
}

/* For a block that comes in or goes out: drops the stamps known to be done, unless TIDEI_REUSE_DONE
** is off: then they stay, or which stream may have the block would depend on when somebody asked.
** True if all are known to be done. */
static inline bool tidei_reuse_refresh(const tidei_pool *p, tidei_stamps *stamps) {
    if (tidei_reuse_rules(p) & TIDEI_REUSE_DONE) return tidei_reuse_prune(p->dev, stamps);
    return tidei_reuse_over(p->dev, stamps);
}

/* To find out what is done: for each slot the last tick that free memory waits for. */
typedef struct tidei_reuse_ticks {
    uint64_t last[TIDEI_STREAMS_MAX];
} tidei_reuse_ticks;

static inline void tidei_reuse_want(tidei_reuse_ticks *t, tidei_stamps *stamps) {
    const tidei_stamp *x = tidei_stamps_at(stamps);
    for (unsigned i = 0; i < stamps->n; i++)
        if (x[i].tick > t->last[x[i].stream]) t->last[x[i].stream] = x[i].tick;
}

/* Asks the device how far the streams have got. Called without any lock. */
static inline void tidei_reuse_ask(tidei_dev *d, const tidei_reuse_ticks *t) {
    unsigned n = atomic_load_explicit(&d->rt->streams->n, memory_order_acquire);
    for (unsigned slot = 0; slot < n; slot++)
        if (t->last[slot])
            tidei_stamp_asked(
                d, (tidei_stamp){.tick = t->last[slot], .stream = (uint16_t)slot, .write = 1});
}

#endif
