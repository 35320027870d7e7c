/* mock_tracer.h: a foreign collector for tests, on the public interface: objects in a graph of its
** own hold arrays, collect finds the unreachable ones and reports their arrays dead as badly as the
** rules allow: in any order, late, twice, from other threads, by release, by free and release, or
** by the bare report of a finalizer in a stopped world. */
#ifndef MOCK_TRACER_H
#define MOCK_TRACER_H

#include "tests/support/tidetest.h"
#include <pthread.h>

enum { /* how it misbehaves */
       MOCK_SHUFFLE = 1,
       MOCK_DELAY = 2,  /* one in four waits for the next collection (or mock_flush) */
       MOCK_REPEAT = 4, /* old reports come again */
       MOCK_CROSS = 8   /* another thread reports */
};

#define MOCK_EDGES   4
#define MOCK_HISTORY 256

typedef struct mock_object {
    tide_array *array;       /* NULL: the object is free */
    size_t edge[MOCK_EDGES]; /* indices + 1; 0: none */
    bool root, marked, young;
} mock_object;

typedef struct mock_death {
    tide_array *array;
    tidei_header *h;
    uint64_t generation;
} mock_death;

typedef struct mock_tracer {
    tide_runtime *rt;
    uint64_t id;
    unsigned flags;
    pthread_t thread; /* that attached it */
    pthread_mutex_t lock;
    mock_object *objects;
    size_t n, cap, holes, hint;
    mock_death *dead, *late; /* found by the last collection; still to be reported */
    size_t ndead, nlate;
    mock_death history[MOCK_HISTORY];
    size_t nhistory;
    uint64_t random;
    bool busy, deaf; /* may_collect says no; collect knows no full collection */
    atomic_int running, most_running, fulls, minors, elsewhere, detached, blocked;
    atomic_llong pressure;
    void (*during)(struct mock_tracer *m); /* (optional) runs inside collect */
} mock_tracer;

static inline uint64_t mock_random(mock_tracer *m) {
    m->random ^= m->random << 13, m->random ^= m->random >> 7, m->random ^= m->random << 17;
    return m->random;
}

/* ---- the graph ---- */

/* as a root; takes the maker's reference over */
static inline size_t mock_hold(mock_tracer *m, tide_array *a) {
    assert_array(a);
    pthread_mutex_lock(&m->lock);
    size_t i = m->n;
    if (m->holes) {
        m->holes--;
        for (i = m->hint; m->objects[i].array;) i = (i + 1) % m->n;
        m->hint = (i + 1) % m->n;
    }
    if (i == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->objects = realloc(m->objects, m->cap * sizeof *m->objects);
        assert_non_null(m->objects);
    }
    if (i == m->n) m->n++;
    m->objects[i] = (mock_object){.array = a, .root = true, .young = true};
    pthread_mutex_unlock(&m->lock);
    return i;
}

static inline void mock_drop(mock_tracer *m, size_t i) { /* no longer a root */
    pthread_mutex_lock(&m->lock);
    m->objects[i].root = false;
    pthread_mutex_unlock(&m->lock);
}

static inline void mock_link(mock_tracer *m, size_t from, size_t to) {
    for (size_t *e = m->objects[from].edge; e < m->objects[from].edge + MOCK_EDGES; e++)
        if (!*e) {
            *e = to + 1;
            return;
        }
    fail_msg("no edge left");
}

static inline void mock_mark(mock_tracer *m, size_t i) {
    mock_object *o = &m->objects[i];
    if (o->marked || !o->array) return;
    o->marked = true;
    for (unsigned k = 0; k < MOCK_EDGES; k++)
        if (o->edge[k]) mock_mark(m, o->edge[k] - 1);
}

/* ---- reports ---- */

static inline void mock_remember(mock_tracer *m, const mock_death *d) {
    m->history[m->nhistory++ % MOCK_HISTORY] = *d;
}

static inline void mock_report(mock_tracer *m, mock_death d, uint64_t way) {
    switch (way % 4) {
    case 0: tide_release(d.array); break;
    case 1:
        tide_free(d.array);
        tide_release(d.array);
        break;
    case 2: tidei_report(d.h, d.generation, TIDEI_DEAD | TIDEI_GONE); break;
    default:
        tidei_report(d.h, d.generation, TIDEI_DEAD);
        tidei_report(d.h, d.generation, TIDEI_DEAD | TIDEI_GONE);
    }
    if (m->flags & MOCK_REPEAT) tidei_report(d.h, d.generation, TIDEI_DEAD | TIDEI_GONE);
}

struct mock_delivery {
    mock_tracer *m;
    mock_death *dead;
    size_t n;
    uint64_t ways;
};
static inline void *mock_deliver(void *p) {
    struct mock_delivery *d = p;
    for (size_t i = 0; i < d->n; i++) mock_report(d->m, d->dead[i], d->ways >> (2 * i % 62));
    return NULL;
}

/* Reports dead[0..n), part of it from another thread at the same time. */
static inline void mock_deliver_all(mock_tracer *m, mock_death *dead, size_t n) {
    size_t there = m->flags & MOCK_CROSS ? n / 2 : 0;
    struct mock_delivery a = {m, dead, there, mock_random(m)},
                         b = {m, dead + there, n - there, mock_random(m)};
    pthread_t thread;
    if (there) assert_int_equal(pthread_create(&thread, NULL, mock_deliver, &a), 0);
    mock_deliver(&b);
    if (there) pthread_join(thread, NULL);
    if (m->flags & MOCK_REPEAT)
        for (size_t i = 0; i < m->nhistory && i < MOCK_HISTORY; i += 3)
            tidei_report(m->history[i].h, m->history[i].generation, TIDEI_DEAD | TIDEI_GONE);
    for (size_t i = 0; i < n; i++) mock_remember(m, &dead[i]);
}

static inline void mock_flush(mock_tracer *m) {
    mock_deliver_all(m, m->late, m->nlate);
    m->nlate = 0;
}

/* ---- the slots ---- */

/* Finds the unreachable objects (of the young ones, for a minor collection) and empties them. Under
** the lock. */
static inline void mock_find_dead(mock_tracer *m, int level) {
    m->dead = realloc(m->dead, (m->n + 1) * sizeof *m->dead);
    m->late = realloc(m->late, (m->n + m->nlate + 1) * sizeof *m->late);
    assert_non_null(m->dead);
    assert_non_null(m->late);
    m->ndead = 0;
    for (size_t i = 0; i < m->n; i++) m->objects[i].marked = false;
    for (size_t i = 0; i < m->n; i++)
        if (m->objects[i].root || (level == TIDE_COLLECT_MINOR && !m->objects[i].young))
            mock_mark(m, i);
    for (size_t i = 0; i < m->n; i++) {
        mock_object *o = &m->objects[i];
        o->young = false;
        if (!o->array || o->marked) continue;
        tidei_header *h = tidei_cell_header(o->array);
        m->dead[m->ndead++] = (mock_death){o->array, h, tidei_header_generation(h)};
        memset(o, 0, sizeof *o);
        m->holes++;
    }
    for (size_t i = m->ndead; (m->flags & MOCK_SHUFFLE) && i > 1; i--) {
        size_t k = mock_random(m) % i;
        mock_death swap = m->dead[k];
        m->dead[k] = m->dead[i - 1];
        m->dead[i - 1] = swap;
    }
}

static inline int mock_collect(void *self, int level) {
    mock_tracer *m = self;
    int now = atomic_fetch_add(&m->running, 1) + 1;
    if (now > atomic_load(&m->most_running)) atomic_store(&m->most_running, now);
    if (!pthread_equal(m->thread, pthread_self())) atomic_fetch_add(&m->elsewhere, 1);
    int outcome =
        m->deaf && level == TIDE_COLLECT_FULL ? TIDE_COLLECT_UNSUPPORTED : TIDE_COLLECT_DONE;
    if (outcome == TIDE_COLLECT_DONE) {
        atomic_fetch_add(level == TIDE_COLLECT_FULL ? &m->fulls : &m->minors, 1);
        if (m->during) m->during(m);
        pthread_mutex_lock(&m->lock);
        mock_flush(m);
        mock_find_dead(m, level);
        size_t keep = m->flags & MOCK_DELAY ? m->ndead / 4 : 0;
        memcpy(m->late, m->dead, keep * sizeof *m->late);
        m->nlate = keep;
        mock_deliver_all(m, m->dead + keep, m->ndead - keep);
        pthread_mutex_unlock(&m->lock);
    }
    atomic_fetch_sub(&m->running, 1);
    return outcome;
}

static inline int mock_may_collect(void *self) { return !((mock_tracer *)self)->busy; }
static inline void mock_pressure(void *self, int64_t delta) {
    atomic_fetch_add(&((mock_tracer *)self)->pressure, delta);
}
static inline void mock_blocking(void *self, void (*fn)(void *arg), void *arg) {
    mock_tracer *m = self;
    atomic_fetch_add(&m->blocked, 1);
    fn(arg);
    atomic_fetch_sub(&m->blocked, 1);
}
static inline void mock_detach(void *self) {
    atomic_fetch_add(&((mock_tracer *)self)->detached, 1);
}

/* ---- coming and going ---- */

static inline void mock_open(mock_tracer *m, tide_runtime *rt, const char *name, uint32_t caps,
                             unsigned flags) {
    memset(m, 0, sizeof *m);
    m->rt = rt;
    m->flags = flags;
    m->random = 0x9e3779b97f4a7c15u;
    m->thread = pthread_self();
    pthread_mutex_init(&m->lock, NULL);
    tide_collector c = {.struct_size = sizeof c,
                        .name = name,
                        .caps = caps | TIDE_COLLECTOR_TRACING,
                        .user = m,
                        .collect = mock_collect,
                        .may_collect = mock_may_collect,
                        .pressure = mock_pressure,
                        .blocking = mock_blocking,
                        .detach = mock_detach};
    assert_ok(tide_collector_register(rt, &c, &m->id));
}

/* What is still in the graph is released; legal before and after tide_close. */
static inline void mock_end(mock_tracer *m) {
    mock_flush(m);
    for (size_t i = 0; i < m->n; i++) tide_release(m->objects[i].array);
    free(m->objects);
    free(m->dead);
    free(m->late);
    pthread_mutex_destroy(&m->lock);
}

#endif
