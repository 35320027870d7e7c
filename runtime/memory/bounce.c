/* bounce.c: copies in pieces through a ring of pinned memory. What it is for stands in bounce.h.
**
** Model. Piece p lies in slot p modulo the number of slots. To the device, it is first copied into
** its slot, then transferred; from the device the other way round. Each is counted, in the order of
** pieces:
**   opened     the host's side may be copied (to the device: the slot is free; from it: the bytes
**              have arrived)
**   copied     it has been
**   submitted  the transfer is queued
**   settled    the transfer is complete
** What is opened is copied in chunks, which any thread takes: the runtime's, and the caller when it
** has nothing better to do. Only the caller submits and asks whether transfers are complete; so the
** stream's order and all of its errors are the caller's.
** What must stay true: a slot is touched by the host or by the device, never by both. The record of
** a copy stays until no thread works on it, also where the caller's frame was left by a longjmp. */
#include "runtime/memory/bounce.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/uncancelled.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/streams/loss.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define CHUNK        (256 * TIDEI_KIB) /* a thread takes 30 us: long beside taking it */
#define PIECE_CHUNKS ((size_t)8)       /* the bus takes 40 us: long beside a submission */
#define PIECE        (PIECE_CHUNKS * CHUNK)
#define SLOTS        ((size_t)8) /* threads that come late keep nobody waiting */
#define LEAST        (2 * PIECE) /* smaller copies are over before threads have woken */
#define PAUSES       32          /* about 1 us between two looks: each takes the lock */
#define SPIN_NS      200000      /* a transfer that takes longer waits for other work */

typedef struct tidei_bounce {
    struct tidei_bounce *next; /* under the lock */
    /* fixed */
    tidei_runtime *rt;
    tidei_stream *s;
    tidei_storage *st, *memory; /* whose bytes; the ring's */
    size_t offset;
    const char *op;
    bool up; /* to the device */
    char *host, *ring;
    size_t bytes, pieces, slots;
    /* under the lock */
    size_t taken, ready;  /* chunks: that threads have taken; that they may, all in all */
    unsigned busy;        /* threads that copy one */
    unsigned left[SLOTS]; /* chunks of the slot's piece that are not copied yet */
    /* the caller's */
    size_t opened, copied, submitted, settled; /* pieces */
    tidei_stamp stamp[SLOTS];                  /* of the slot's transfer */
} bounce;

/* ---- copying a chunk ---- */

/* What is written is not read here again: it goes past the caches. */
static void copy_past(char *to, const char *from, size_t n) {
#if defined(__SSE2__)
    for (; n && (uintptr_t)to % sizeof(__m128i); n--) *to++ = *from++;
    for (; n >= TIDEI_LINE; n -= TIDEI_LINE, to += TIDEI_LINE, from += TIDEI_LINE)
        for (size_t i = 0; i < TIDEI_LINE; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#endif
    memcpy(to, from, n);
}

static void copy_chunk(const bounce *b, size_t chunk) {
    size_t at = chunk * CHUNK, n = tidei_min_size(CHUNK, b->bytes - at);
    char *slot = b->ring + at % (b->slots * PIECE);
    copy_past(b->up ? slot : b->host + at, b->up ? b->host + at : slot, n);
}

/* Under the lock, which it lets go of meanwhile. False: there is none to copy. */
static bool help_with(tidei_bounces *all, bounce *b) {
    if (b->taken == b->ready) return false;
    size_t chunk = b->taken++;
    b->busy++;
    pthread_mutex_unlock(&all->lock);
    copy_chunk(b, chunk);
    pthread_mutex_lock(&all->lock);
    b->busy--;
    bool piece_done = --b->left[chunk / PIECE_CHUNKS % b->slots] == 0;
    if (piece_done || !b->busy) pthread_cond_broadcast(&all->less);
    return true;
}

/* ---- the threads ---- */

static void *help(void *arg) {
    tidei_bounces *all = arg;
    pthread_mutex_lock(&all->lock);
    while (!all->ends) {
        bounce *b = all->first;
        while (b && !help_with(all, b)) b = b->next;
        if (!b) tidei_cond_wait(&all->more, &all->lock);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* Whether there are any: as many as there are processors beside the caller's, and one at least, as
** the device needs none. */
static bool have_threads(tidei_bounces *all) {
    pthread_mutex_lock(&all->lock);
    size_t most = all->nthreads ? 0 : tidei_max_size(tidei_processors() - 1, 1);
    while (all->nthreads < tidei_min_size(most, TIDEI_BOUNCE_THREADS) &&
           !tidei_own_thread_start(&all->threads[all->nthreads], help, all))
        all->nthreads++;
    bool have = all->nthreads > 0;
    pthread_mutex_unlock(&all->lock);
    return have;
}

void tidei_bounces_init(tidei_bounces *all) {
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->more, NULL);
    pthread_cond_init(&all->less, NULL);
}

void tidei_bounces_close(tidei_bounces *all) {
    pthread_mutex_lock(&all->lock);
    all->ends = true;
    pthread_cond_broadcast(&all->more);
    pthread_mutex_unlock(&all->lock);
    for (unsigned i = 0; i < all->nthreads; i++) tidei_join(all->threads[i]);
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->more);
    pthread_cond_destroy(&all->less);
}

/* ---- the list ---- */

static void enlist(tidei_bounces *all, bounce *b) {
    pthread_mutex_lock(&all->lock);
    b->next = all->first;
    all->first = b;
    pthread_mutex_unlock(&all->lock);
}

/* From here on no thread works on it. */
static void withdraw(tidei_bounces *all, bounce *b) {
    pthread_mutex_lock(&all->lock);
    b->ready = b->taken;
    while (b->busy) tidei_cond_wait(&all->less, &all->lock);
    bounce **at = &all->first;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    pthread_mutex_unlock(&all->lock);
}

static void undo_bounce(tidei_runtime *rt, tidei_thread *t, void *b, uintptr_t of) {
    (void)t, (void)of;
    withdraw(rt->bounces, b);
    tidei_host_free(rt, b);
}

/* ---- the caller's part ---- */

static unsigned chunks_of(const bounce *b, size_t piece) {
    size_t left = b->bytes - piece * PIECE;
    return left >= PIECE ? PIECE_CHUNKS : (unsigned)((left + CHUNK - 1) / CHUNK);
}

/* Tells the checker that the host has the piece's slot, or no longer. */
static void host_has(const bounce *b, size_t piece, bool begins) {
    tidei_device *d = b->s->dev->d;
    tidei_saved_error e;
    if (!d->ops->host_use) return;
    const tidei_range r = {.addr = (tidei_addr)(uintptr_t)b->ring + piece % b->slots * PIECE,
                           .bytes = tidei_min_size(PIECE, b->bytes - piece * PIECE),
                           .mode = b->up ? TIDEI_WRITE : TIDEI_READ};
    tidei_error_save(&e);
    (void)d->ops->host_use(d, b->op, &r, begins);
    if (e.status != TIDE_OK) tidei_error_restore(&e);
    tidei_device_speak(d);
}

static bool is_copied(tidei_bounces *all, const bounce *b, size_t piece) {
    pthread_mutex_lock(&all->lock);
    bool copied = !b->left[piece % b->slots];
    pthread_mutex_unlock(&all->lock);
    return copied;
}

static void open_next(tidei_bounces *all, bounce *b) {
    unsigned n = chunks_of(b, b->opened);
    host_has(b, b->opened, true);
    pthread_mutex_lock(&all->lock);
    b->left[b->opened++ % b->slots] = n;
    b->ready += n;
    pthread_cond_broadcast(&all->more);
    pthread_mutex_unlock(&all->lock);
}

/* Looks how far the threads have come, and opens what may be copied now. */
static void advance(tidei_bounces *all, bounce *b) {
    for (; b->copied < b->opened && is_copied(all, b, b->copied); b->copied++)
        host_has(b, b->copied, false);
    size_t may = b->up ? tidei_min_size(b->settled + b->slots, b->pieces) : b->settled;
    while (b->opened < may) open_next(all, b);
}

static bool may_submit(const bounce *b) {
    return b->up ? b->submitted < b->copied
                 : b->submitted < tidei_min_size(b->copied + b->slots, b->pieces);
}

static tide_status submit(bounce *b) {
    size_t slot = b->submitted % b->slots, at = b->submitted * PIECE;
    size_t n = tidei_min_size(PIECE, b->bytes - at);
    tide_status s = b->up ? tidei_submit_copy(b->s, TIDEI_COPY_D2D, b->st, b->offset + at, NULL,
                                              b->memory, slot * PIECE, n, b->op)
                          : tidei_submit_copy(b->s, TIDEI_COPY_D2D, b->memory, slot * PIECE, NULL,
                                              b->st, b->offset + at, n, b->op);
    b->stamp[slot] = (tidei_stamp){.tick = atomic_load(&b->s->submitted), .stream = b->s->slot};
    b->submitted++;
    return s;
}

/* Whether the oldest transfer that is under way is complete now. */
static bool settle(bounce *b) {
    if (b->settled == b->submitted || !tidei_stamp_done(b->s->dev, b->stamp[b->settled % b->slots]))
        return false;
    b->settled++;
    return true;
}

static bool help_here(tidei_bounces *all, bounce *b) {
    pthread_mutex_lock(&all->lock);
    bool helped = help_with(all, b);
    pthread_mutex_unlock(&all->lock);
    return helped;
}

/* There is nothing to do but to wait: for threads that copy, or a transfer. */
static tide_status wait_for_others(tidei_bounces *all, bounce *b, uint64_t idle_since) {
    if (b->settled < b->submitted) {
        for (unsigned i = 0; i < PAUSES; i++) tidei_pause();
        return tidei_now_ns() - idle_since < SPIN_NS
                   ? TIDE_OK
                   : tidei_stamp_wait(b->s->dev, b->stamp[b->settled % b->slots]);
    }
    pthread_mutex_lock(&all->lock);
    while (b->busy && b->left[b->copied % b->slots]) tidei_cond_wait(&all->less, &all->lock);
    pthread_mutex_unlock(&all->lock);
    return TIDE_OK;
}

static tide_status run(tidei_bounces *all, bounce *b) {
    tide_status s = TIDE_OK;
    for (uint64_t idle_since = 0; s == TIDE_OK;) {
        advance(all, b);
        if ((b->up ? b->submitted : b->copied) == b->pieces) return TIDE_OK;
        bool submits = may_submit(b);
        if (submits) s = submit(b);
        if (submits || settle(b) || help_here(all, b))
            idle_since = 0;
        else {
            if (!idle_since) idle_since = tidei_now_ns();
            s = wait_for_others(all, b, idle_since);
        }
    }
    return s;
}

/* ---- what goes this way ---- */

static bool goes_this_way(tidei_dev *d, const tidei_storage *st, const void *host, size_t bytes) {
    bool (*pinned)(tidei_device *, const void *) = d->d->ops->host_pinned;
    return bytes >= LEAST && pinned && st->pool->kind == TIDEI_MEM_DEVICE && !pinned(d->d, host);
}

/* Room for the ring, for the time of the call; NULL: there is none without a climb. */
static tidei_storage *take_ring(tidei_stream *s, size_t bytes, const char *op) {
    tidei_pool *pool;
    tidei_storage *ring = NULL;
    size_t room = tidei_min_size(tidei_round_up(bytes, PIECE), SLOTS * PIECE);
    tidei_saved_error e;
    tidei_error_save(&e);
    if (tidei_kind_pool(s->dev, TIDE_MEMORY_PINNED, op, &pool) == TIDE_OK &&
        tidei_storage_try(pool, room, s, 0, &ring) == TIDE_OK)
        return tidei_scratch_hold(ring), ring;
    if (e.status == TIDE_OK)
        tide_error_clear();
    else
        tidei_error_restore(&e);
    return NULL;
}

static tide_status bounce_by(tidei_bounces *all, bounce *b) {
    tidei_thread *t = tidei_thread_get(b->rt);
    enlist(all, b);
    tidei_hold(t, undo_bounce, b, 0);
    tide_status s = tidei_storage_wait(b->memory, TIDEI_WRITE); /* for who had it before */
    if (s == TIDE_OK) s = run(all, b);
    tidei_let(t, b);
    withdraw(all, b);
    while (b->copied < b->opened) host_has(b, b->copied++, false);
    return s == TIDE_OK && atomic_load(&b->s->dev->d->lost) ? tidei_lost(b->s->dev, b->op) : s;
}

bool tidei_bounce_copy(tidei_stream *s, tidei_copy_kind kind, tidei_storage *st, size_t offset,
                       void *host, size_t bytes, const char *op, tide_status *status) {
    tidei_runtime *rt = s->dev->rt;
    if (!goes_this_way(s->dev, st, host, bytes)) return false;
    TIDEI_UNCANCELLED;
    tidei_storage *ring = have_threads(rt->bounces) ? take_ring(s, bytes, op) : NULL;
    bounce *b = ring ? tidei_host_alloc(rt, sizeof *b) : NULL;
    if (b) {
        *b = (bounce){.rt = rt,
                      .s = s,
                      .st = st,
                      .memory = ring,
                      .offset = offset,
                      .op = op,
                      .up = kind == TIDEI_COPY_H2D,
                      .host = host,
                      .ring = (char *)(uintptr_t)ring->addr,
                      .bytes = bytes,
                      .pieces = (bytes + PIECE - 1) / PIECE,
                      .slots = ring->bytes / PIECE};
        *status = bounce_by(rt->bounces, b);
        tidei_host_free(rt, b);
    }
    if (ring) tidei_scratch_release(ring);
    return b != NULL;
}
