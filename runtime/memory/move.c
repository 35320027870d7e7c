/* move.c: moving storages for a pool. The model stands in move.h. */
#include "runtime/memory/move.h"
#include "runtime/memory/subranges.h"
#include "runtime/pool/pools.h"
#include "runtime/streams/loss.h"
#include "runtime/memory/storage.h"

void tidei_moves_wait(tidei_moves *m) {
    if (tidei_likely(!atomic_load(&m->moving))) return;
    pthread_mutex_lock(&m->lock);
    pthread_mutex_unlock(&m->lock);
}

void tidei_moves_begin(tidei_runtime *rt) {
    pthread_mutex_lock(&rt->moves->lock);
    atomic_store(&rt->moves->moving, true);
    pthread_mutex_lock(&rt->streams->lock); /* a stream that is opened later finds the flag too */
    unsigned n = atomic_load(&rt->streams->n);
    pthread_mutex_unlock(&rt->streams->lock);
    for (unsigned i = 0; i < n; i++) {
        tidei_stream *s = atomic_load_explicit(&rt->streams->at[i], memory_order_acquire);
        pthread_mutex_lock(&s->lock); /* whoever opens a window from now on finds the flag */
        pthread_mutex_unlock(&s->lock);
    }
}

void tidei_moves_end(tidei_runtime *rt) {
    tidei_moves *m = rt->moves;
    atomic_fetch_add(&m->done, 1);
    atomic_store(&m->moving, false);
    pthread_mutex_unlock(&m->lock);
}

static void begin(tidei_dev *d) { tidei_moves_begin(d->rt); }
static void end(tidei_dev *d) { tidei_moves_end(d->rt); }

static bool movable(void *owner) {
    const tidei_storage *st = owner;
    return !atomic_load(&st->pins) && atomic_load(&st->refs);
}

/* Retains the storage for the move. One that is being returned has no references left, and is not
** held. */
static bool hold(void *owner) {
    tidei_storage *st = owner;
    uint32_t refs = atomic_load(&st->refs);
    do {
        if (!refs || atomic_load(&st->pins)) return false;
    } while (!atomic_compare_exchange_weak(&st->refs, &refs, refs + 1));
    return true;
}

static bool some_stay(tidei_pool *p) { return atomic_load(&p->users->pinned); }

static void let_go(void *owner) { tidei_storage_release(owner); }

static unsigned uses(void *owner, tidei_stamp *out) {
    tidei_storage *st = owner;
    tidei_stamps_lock(st); /* a thread that begins a submission may make room in the stamps */
    tidei_subranges_fold(st);
    unsigned n = st->stamps.n;
    memcpy(out, tidei_stamps_at(&st->stamps), n * sizeof *out);
    tidei_stamps_unlock(st);
    return n;
}

static void readdress(void *owner, tidei_addr addr) {
    tidei_storage *st = owner;
    tidei_stamps_lock(st);
    st->addr = addr;
    tidei_stamps_unlock(st);
}

/* ---- the work ---- */

tide_status tidei_moves_follow(tidei_stream *s, const tidei_stamp *x, unsigned n) {
    tide_status status = TIDE_OK;
    for (unsigned i = 0; i < n && status == TIDE_OK; i++)
        if (!tidei_stamp_covered(s, x[i]))
            status = tidei_stream_follow(s, tidei_stream_at(s->dev, x[i].stream), x[i].tick);
    return status;
}

/* Not inlined, because its array would make the caller's frame larger. */
__attribute__((noinline)) static tide_status follow_uses(tidei_stream *s, tidei_storage *st) {
    tidei_stamp x[2 * TIDEI_STREAMS_MAX];
    return tidei_moves_follow(s, x, uses(st, x));
}

tide_status tidei_moves_follow_uses(tidei_stream *s, tidei_storage *st) {
    tidei_stamps_lock(st); /* as in `uses` */
    tidei_subranges_fold(st);
    bool covered = tidei_stamps_covered(s, &st->stamps); /* as nearly always */
    tidei_stamps_unlock(st);
    return covered ? TIDE_OK : follow_uses(s, st);
}

/* How many of the moves, from the first on, may be copied in any order: none of them writes where
** another reads. Decided by intervals: all old places lie in [low, high), all new ones below or
** above it. That is so where blocks leave a stretch, and where they slide, until a new place would
** end behind the first block's old beginning. 0: the first move overlaps itself. */
static size_t together(const tidei_piece *p, size_t n) {
    tidei_addr low = UINT64_MAX, high = 0, below = 0,
               above = UINT64_MAX; /* below, above: the nearest that are written */
    for (size_t i = 0; i < n; i++) {
        tidei_addr src_end = p[i].src + p[i].bytes, dst_end = p[i].dst + p[i].bytes;
        if (p[i].src < low) low = p[i].src;
        if (src_end > high) high = src_end;
        if (p[i].dst >= high && p[i].dst < above) above = p[i].dst;
        if (p[i].dst < high && dst_end > below) below = dst_end;
        if (below > low || above < high) return i;
    }
    return n;
}

/* Copies a block over itself, to a lower place, one piece after the other, each as long as the
** distance. Once a piece has overwritten part of the old place the move cannot be undone: if a
** later piece fails, the device is lost. */
static tide_status copy_over_itself(tidei_stream *s, const tidei_piece *p) {
    tidei_device *d = s->dev->d;
    tidei_check(p->dst < p->src);
    size_t step = (size_t)(p->src - p->dst);
    tide_status status = TIDE_OK;
    for (size_t at = 0; at < p->bytes && status == TIDE_OK; at += step) {
        tidei_piece part = {p->dst + at, p->src + at, tidei_min_size(step, p->bytes - at)};
        status = d->ops->copy_many(d, s->ds, &part, 1);
        if (status != TIDE_OK && at) {
            static const char why[] = "a copy of a block over its old place failed half-way";
            tidei_saved_error e;
            tidei_error_save(&e);
            d->ops->lose(d, why);
            return tidei_fail(TIDE_E_LOST, "compaction", "%s: %s: %s", d->info.name, why, e.text);
        }
    }
    return status;
}

void tidei_moves_be_after(tidei_storage *st, tidei_stamp x) {
    tidei_subranges_forget(st);
    st->stamps.n = 1;
    *tidei_stamps_at(&st->stamps) = x;
}

/* The record that the i-th move is of comes into the nearest cache: its history, or its address. */
static inline void fetch(const tidei_move *moves, size_t n, size_t i) {
    if (i >= n) return;
    const tidei_storage *st = moves[i].owner;
    __builtin_prefetch(st, 1);
    __builtin_prefetch(&st->stamps, 1);
}

static void settle_in(const tidei_move *m, const tidei_piece *place, tidei_stamp x) {
    tidei_storage *st = m->owner;
    tidei_stamps_lock(st);
    st->addr = place->dst;
    st->priv = m->priv;
    tidei_moves_be_after(st, x);
    tidei_stamps_unlock(st);
}

static void stay(const tidei_move *m, tidei_stamp x) {
    tidei_storage *st = m->owner;
    tidei_stamps_lock(st);
    tidei_moves_be_after(st, x);
    tidei_stamps_unlock(st);
}

/* Queues as many of the moves, from the first on, as can be copied at once: all of those or none.
** Returns how many. */
static size_t move_some(tidei_stream *s, const tidei_move *moves, const tidei_piece *places,
                        size_t n, bool apart, tidei_stamp x, tide_status *status) {
    tidei_device *d = s->dev->d;
    size_t k = apart ? n : together(places, n);
    *status = k ? d->ops->copy_many(d, s->ds, places, k) : copy_over_itself(s, places);
    if (!k) k = 1;
    if (*status == TIDE_OK) {
        for (size_t i = 0; i < k; i++) {
            fetch(moves, k, i + TIDEI_FETCH_AHEAD);
            settle_in(&moves[i], &places[i], x);
        }
        return k;
    }
    for (size_t i = 0; i < k; i++) stay(&moves[i], x);
    return 0;
}

/* Orders s after what is pending on the storages and where they go. */
static tide_status order(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                         const tidei_move *moves, size_t n) {
    tide_status status = tidei_moves_follow(s, pending, npending);
    for (size_t i = 0; i < n && status == TIDE_OK; i++) {
        fetch(moves, n, i + TIDEI_FETCH_AHEAD);
        status = tidei_moves_follow_uses(s, moves[i].owner);
    }
    return status;
}

static tide_status move(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                        const tidei_move *moves, const tidei_piece *places, size_t n, bool apart,
                        size_t *moved, uint64_t *tick) {
    *moved = 0;
    *tick = 0;
    if (!tidei_stream_hold(s))
        return tidei_fail(TIDE_E_INVALID, "compaction", "the stream was released");
    tide_status status = order(s, pending, npending, moves, n);
    if (status != TIDE_OK) { /* s was not ordered after all of it, so no tick may say so */
        tidei_stream_let_go(s);
        return tidei_device_failed(s, status, "compaction");
    }
    pthread_mutex_lock(&s->lock);
    *tick = tidei_stream_tick(s);
    s->last_op = "compaction";
    uint64_t began = tidei_record_begin(s);
    tidei_stamp x = {.tick = *tick, .stream = s->slot, .write = 1};
    while (status == TIDE_OK && *moved < n)
        *moved += move_some(s, &moves[*moved], &places[*moved], n - *moved, apart, x, &status);
    tidei_stream_after_work(s);
    tidei_record_submit(s, began, "compaction");
    pthread_mutex_unlock(&s->lock);
    tidei_stream_let_go(s);
    return status == TIDE_OK ? TIDE_OK : tidei_device_failed(s, status, "compaction");
}

const tidei_mover tidei_storage_mover = {.begin = begin,
                                         .end = end,
                                         .movable = movable,
                                         .hold = hold,
                                         .some_stay = some_stay,
                                         .let_go = let_go,
                                         .uses = uses,
                                         .readdress = readdress,
                                         .move = move};
