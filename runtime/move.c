/* move.c: moving storages for a pool. The model stands in move.h. */
#include "runtime/move.h"
#include "runtime/runtime.h"
#include "runtime/storage.h"

void tidei_moves_wait(tidei_moves *m) {
    if (tidei_likely(!atomic_load(&m->moving))) return;
    pthread_mutex_lock(&m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void begin(tidei_dev *d) {
    pthread_mutex_lock(&d->moves.lock);
    atomic_store(&d->moves.moving, true);
    pthread_mutex_lock(&d->streams_lock); /* a stream that is opened later finds the flag too */
    unsigned n = atomic_load(&d->nstreams);
    pthread_mutex_unlock(&d->streams_lock);
    for (unsigned i = 0; i < n; i++) {
        tide_stream *s = tidei_stream_at(d, i);
        if (!s) continue;
        pthread_mutex_lock(&s->lock); /* whoever opens a window from now on finds the flag */
        pthread_mutex_unlock(&s->lock);
    }
}

static void end(tidei_dev *d) {
    atomic_fetch_add(&d->moves.done, 1);
    atomic_store(&d->moves.moving, false);
    pthread_mutex_unlock(&d->moves.lock);
}

static bool movable(void *owner) {
    const tidei_storage *st = owner;
    return !atomic_load(&st->pins) && atomic_load(&st->refs);
}

/* A storage that is being returned has no references left, and is not held. */
static bool hold(void *owner) {
    tidei_storage *st = owner;
    uint32_t refs = atomic_load(&st->refs);
    do {
        if (!refs || atomic_load(&st->pins)) return false;
    } while (!atomic_compare_exchange_weak(&st->refs, &refs, refs + 1));
    return true;
}

static void let_go(void *owner) { tidei_storage_release(owner); }

/* ---- the work ---- */

/* s comes after all of them, on the device. */
static tide_status follow_all(tide_stream *s, const tidei_stamp *x, unsigned n) {
    tide_status status = TIDE_OK;
    for (unsigned i = 0; i < n && status == TIDE_OK; i++)
        if (!tidei_stamp_covered(s, x[i]))
            status = tidei_stream_follow(s, tidei_stream_at(s->dev, x[i].stream), x[i].tick);
    return status;
}

static tide_status follow_uses(tide_stream *s, tidei_storage *st) {
    tidei_stamp uses[2 * TIDEI_STREAMS_MAX]; /* a reading and a writing one a stream */
    tidei_stamps_lock(st);                   /* who looks whether a window can be opened may make room in them */
    unsigned n = st->stamps.n;
    memcpy(uses, tidei_stamps_at(&st->stamps), n * sizeof *uses);
    tidei_stamps_unlock(st);
    return follow_all(s, uses, n);
}

/* Where the places overlap, in pieces that do not: each comes after the one before. The lower place is the new one. Once a piece
** has gone over the old place there is no way back: the next one that fails loses the device. */
static tide_status copy(tide_stream *s, const tidei_move *m) {
    size_t step = m->from > m->to ? (size_t)(m->from - m->to) : (size_t)(m->to - m->from);
    tide_status status = TIDE_OK;
    for (size_t at = 0; at < m->bytes && status == TIDE_OK; at += step) {
        tidei_copy c = {.kind = TIDEI_COPY_D2D,
                        .dst = m->to + at,
                        .src = m->from + at,
                        .bytes = tidei_min_size(step, m->bytes - at)};
        status = s->dev->d->ops->copy(s->dev->d, s->ds, &c);
        if (status != TIDE_OK && at) {
            atomic_store(&s->dev->d->lost, true);
            return TIDE_E_LOST;
        }
    }
    return status;
}

/* The storage's history is the move alone, which came after the rest of it. */
static void settle_in(const tidei_move *m, tidei_stamp x) {
    tidei_storage *st = m->owner;
    tidei_stamps_lock(st);
    st->addr = m->to;
    st->priv = m->priv;
    st->stamps.n = 0;
    tidei_stamps_add(&st->stamps, x);
    tidei_stamps_unlock(st);
}

/* Orders s after what is pending on the storages and where they go. */
static tide_status order(tide_stream *s, const tidei_stamp *pending, unsigned npending, const tidei_move *moves,
                         size_t n) {
    tide_status status = follow_all(s, pending, npending);
    for (size_t i = 0; i < n && status == TIDE_OK; i++) status = follow_uses(s, moves[i].owner);
    return status;
}

static tide_status move(tide_stream *s, const tidei_stamp *pending, unsigned npending, const tidei_move *moves,
                        size_t n, size_t *moved, uint64_t *tick) {
    *moved = 0;
    *tick = 0;
    if (!tidei_stream_hold(s)) return tidei_fail(TIDE_E_INVALID, "compaction", "the stream was released");
    tide_status status = order(s, pending, npending, moves, n);
    if (status != TIDE_OK) { /* s comes after nothing yet: no moment that says so */
        tidei_stream_let_go(s);
        return tidei_device_failed(s, status, "compaction");
    }
    pthread_mutex_lock(&s->lock);
    *tick = tidei_stream_tick(s);
    s->last_op = "compaction";
    while (status == TIDE_OK && *moved < n) {
        const tidei_move *m = &moves[*moved];
        status = copy(s, m);
        if (status != TIDE_OK) break;
        settle_in(m, (tidei_stamp){.tick = *tick, .stream = s->slot, .write = 1});
        ++*moved;
    }
    tidei_stream_after_work(s);
    pthread_mutex_unlock(&s->lock);
    tidei_stream_let_go(s);
    return status == TIDE_OK ? TIDE_OK : tidei_device_failed(s, status, "compaction");
}

const tidei_mover tidei_storage_mover = {
    .begin = begin, .end = end, .movable = movable, .hold = hold, .let_go = let_go, .move = move};
