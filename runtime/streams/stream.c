/* stream.c: streams, ticks, stamps. The model stands in stream.h.
**
** A stream's slot and struct are never given back while the runtime is open: a stamp that names a
** slot stays meaningful, and the slot's ticks go on rising under its next stream. */
#include "runtime/streams/stream.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"

/* ---- stamps ---- */

void tidei_stamps_clear(tidei_stamps *s) {
    if (s->cap) tidei_host_free(NULL, s->more);
    s->n = s->cap = 0;
}

void tidei_stamps_move_many(tidei_stamps *to, const tidei_stamps *from) {
    if (from->cap)
        to->more = from->more;
    else
        memcpy(to->few, from->few, from->n * sizeof *to->few);
}

bool tidei_stamps_grow(tidei_stamps *s, unsigned want) {
    unsigned have = tidei_stamps_room(s);
    while (have < want) have *= 2;
    /* Stamps move between storages and pools, so their memory is the process's, not a runtime's. */
    tidei_stamp *more = tidei_host_alloc(NULL, have * sizeof *more);
    if (!more) return false;
    memcpy(more, tidei_stamps_at(s), s->n * sizeof *more);
    if (s->cap) tidei_host_free(NULL, s->more);
    s->more = more;
    s->cap = (uint16_t)have;
    return true;
}

void tidei_stamps_add(tidei_stamps *s, tidei_stamp x) {
    tidei_stamp *a = tidei_stamps_at(s);
    for (unsigned i = 0; i < s->n; i++) {
        if (a[i].stream != x.stream || a[i].write != x.write) continue;
        if (a[i].tick < x.tick) a[i].tick = x.tick;
        return;
    }
    tidei_check(s->n < tidei_stamps_room(s));
    a[s->n++] = x;
}

/* ---- what is complete ---- */

static void raise_to(_Atomic uint64_t *x, uint64_t v) {
    uint64_t old = atomic_load_explicit(x, memory_order_relaxed);
    while (old < v && !atomic_compare_exchange_weak(x, &old, v)) {}
}

tidei_stream *tidei_stream_at(tidei_dev *d, unsigned slot) {
    return atomic_load_explicit(&d->rt->streams->at[slot], memory_order_acquire);
}

tidei_stream *tidei_stream_next(tidei_dev *d, unsigned *slot) {
    unsigned n = atomic_load_explicit(&d->rt->streams->n, memory_order_acquire);
    while (*slot < n) {
        tidei_stream *s = tidei_stream_at(d, (*slot)++);
        if (s->dev == d) return s;
    }
    return NULL;
}

static uint64_t known_completed(tidei_stream *s) {
    return atomic_load_explicit(&s->completed, memory_order_acquire);
}

/* Reads the completion word. Meanwhile the stream may be retired, and the word then be written for
** another slot, whose ticks say nothing about this slot's. The count of retirements rises before
** that, so a value read while it stayed the same is this stream's. */
uint64_t tidei_stream_got_to(tidei_stream *s) {
    tidei_device *dev = s->dev->d;
    uint64_t retirements = atomic_load_explicit(&s->retirements, memory_order_acquire);
    tidei_dstream *ds = atomic_load_explicit(&s->ds, memory_order_acquire);
    uint64_t done = ds ? dev->ops->completed(dev, ds) : 0;
    if (atomic_load_explicit(&s->retirements, memory_order_acquire) == retirements)
        raise_to(&s->completed, done);
    return known_completed(s);
}

static uint64_t look(tidei_stream *s) {
    return atomic_load_explicit(&s->dev->d->lost, memory_order_relaxed) ? UINT64_MAX
                                                                        : tidei_stream_got_to(s);
}

/* Gives out the tick that somebody knows already; under s->lock. What it is to come behind was
** queued before it became known. */
static void give_begun(tidei_stream *s) {
    if (tidei_unlikely(atomic_load_explicit(&s->begun, memory_order_relaxed)) &&
        atomic_exchange(&s->begun, false))
        tidei_stream_tick(s);
}

uint64_t tidei_stream_last_tick(tidei_stream *s) {
    pthread_mutex_lock(&s->lock);
    give_begun(s);
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
    return tick;
}

/* Queues a write of the word for everything submitted so far; under s->lock. A failure is no error
** of the caller's: it only means that completion is not learnt this way, and waits go through the
** stream itself. */
static void publish_locked(tidei_stream *s) {
    give_begun(s);
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_relaxed);
    if (!s->ds) raise_to(&s->completed, tick); /* all its work is complete */
    if (!s->ds || atomic_load_explicit(&s->published, memory_order_relaxed) >= tick) return;
    tidei_saved_error e;
    tidei_error_save(&e);
    if (s->dev->d->ops->publish(s->dev->d, s->ds, tick) == TIDE_OK)
        atomic_store_explicit(&s->published, tick, memory_order_relaxed);
    else
        tidei_error_restore(&e);
}

static void publish(tidei_stream *s) {
    pthread_mutex_lock(&s->lock);
    publish_locked(s);
    pthread_mutex_unlock(&s->lock);
}

bool tidei_stamp_done(tidei_dev *d, tidei_stamp x) {
    if (!x.tick) return true;
    tidei_stream *s = tidei_stream_at(d, x.stream);
    if (known_completed(s) >= x.tick) return true;
    if (atomic_load_explicit(&s->published, memory_order_relaxed) < x.tick) publish(s);
    return look(s) >= x.tick;
}

bool tidei_stamp_asked(tidei_dev *d, tidei_stamp x) {
    if (!x.tick) return true;
    tidei_stream *s = tidei_stream_at(d, x.stream);
    uint64_t done = look(s);
    if (done < x.tick && atomic_load_explicit(&s->published, memory_order_relaxed) <= done) {
        publish(s);
        done = look(s);
    }
    return done >= x.tick;
}

bool tidei_stamp_covered(tidei_stream *s, tidei_stamp x) {
    if (!x.tick || x.stream == s->slot) return true;
    if (atomic_load_explicit(&s->seen[x.stream], memory_order_acquire) >= x.tick) return true;
    if (tidei_unlikely(
            atomic_load_explicit(&s->dev->rt->streams->waits_anyway, memory_order_relaxed)))
        return false;
    return known_completed(tidei_stream_at(s->dev, x.stream)) >= x.tick;
}

bool tidei_stamps_covered(tidei_stream *s, tidei_stamps *xs) {
    tidei_stamp *a = tidei_stamps_at(xs);
    for (unsigned i = 0; i < xs->n; i++)
        if (!tidei_stamp_covered(s, a[i])) return false;
    return true;
}

/* ---- the host waits ---- */

struct sync_args {
    tidei_device *d;
    tidei_dstream *ds;
    tide_status status;
};
static void sync_blocking(void *p) {
    struct sync_args *a = p;
    a->status = a->d->ops->stream_sync(a->d, a->ds);
}

/* Averages with a quarter weight on the newest, as the collection times are. */
static void note_wait(tidei_dev *d, uint64_t ns) {
    uint64_t old = atomic_load_explicit(&d->waits->wait_ewma_ns, memory_order_relaxed);
    atomic_store_explicit(&d->waits->wait_ewma_ns, old - old / 4 + ns / 4, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->waits->host_waits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->waits->host_wait_ns, ns, memory_order_relaxed);
}

/* On a lost device everything counts as done, except work that still writes to the host's memory:
** this waits for its end. */
static tide_status wait_lost(tidei_stream *s, tidei_dstream *ds) {
    tidei_device *d = s->dev->d;
    if (ds && d->ops->stream_sync(d, ds) == TIDE_E_LOST) return tidei_lost_on(s, "wait");
    return tidei_lost(s->dev, "wait");
}

/* Waits for all work up to `tick`, which is not known to be complete. `on_the_spot`: waits for what
** the call itself has queued, which does not count as a host wait, and makes no callback. */
static tide_status wait_here(tidei_stream *s, tidei_dstream *ds, uint64_t tick, bool on_the_spot) {
    tidei_dev *d = s->dev;
    struct sync_args a = {d->d, ds, TIDE_OK};
    const tidei_span span = {TIDEI_SPAN_WAIT, s->slot, "wait for a stream", NULL};
    tidei_span_begin(d->rt, &span, 0);
    uint64_t start = tidei_now_ns();
    if (on_the_spot)
        sync_blocking(&a);
    else
        tidei_blocking(d->rt, sync_blocking, &a);
    if (!on_the_spot) note_wait(d, tidei_now_ns() - start);
    tidei_span_end(d->rt, &span, 0);
    if (a.status != TIDE_OK) return tidei_device_failed(s, a.status, "wait");
    raise_to(&s->completed, tick);
    /* the stream is idle now, so its pace cannot be measured from here */
    atomic_store_explicit(&s->looked_ns, 0, memory_order_relaxed);
    return TIDE_OK;
}

/* Waits until everything submitted to s by now is complete. */
static tide_status wait_for(tidei_stream *s, bool quiet) {
    tidei_dev *d = s->dev;
    uint64_t tick = tidei_stream_last_tick(s);
    tidei_stamp last = {.tick = tick, .stream = s->slot};
    bool done = tidei_stamp_done(d, last);
    tidei_device_speak(d->d);
    if (!quiet && !atomic_load(&d->d->lost)) {
        tidei_record_sync(s);
        /* asked even when all is done: the policies count on sync points */
        tidei_ask(d->rt, d, TIDEI_AT_SYNC, 0);
        done = done || tidei_stamp_done(d, last);
    }
    bool lost = atomic_load(&d->d->lost); /* behind the looks: a loss makes everything look done */
    if (done && !lost) return TIDE_OK;
    tidei_dstream *ds = tidei_stream_hold(s);
    tidei_thread *t = ds ? tidei_thread_look(d->rt) : NULL;
    tidei_hold(t, tidei_undo_stream, s, 0);
    tide_status status = lost ? wait_lost(s, ds) : ds ? wait_here(s, ds, tick, false) : TIDE_OK;
    tidei_let(t, s);
    if (ds) tidei_stream_let_go(s);
    return status;
}

tide_status tidei_stream_finish(tidei_stream *s) {
    publish(s); /* no tick is known beyond those given out */
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_acquire);
    tidei_dstream *ds = tidei_stream_hold(s);
    bool lost = atomic_load(&s->dev->d->lost);
    tide_status status = lost ? wait_lost(s, ds) : ds ? wait_here(s, ds, tick, true) : TIDE_OK;
    if (ds) tidei_stream_let_go(s);
    return status;
}

/* Does what may take some time, now that the host has waited anyway. */
static void after_wait(tidei_dev *d) {
    if (d->d->ops->copy_many_prepare) d->d->ops->copy_many_prepare(d->d);
    d->rt->streams->above->waited(d);
}

tide_status tidei_stream_wait(tidei_stream *s, bool quiet) {
    tide_status status = wait_for(s, quiet);
    if (!quiet && status == TIDE_OK) after_wait(s->dev);
    return status;
}

void tidei_stream_reached(tidei_stream *s, uint64_t tick) {
    raise_to(&s->completed, tick);
    atomic_store_explicit(&s->looked_ns, 0, memory_order_relaxed);
}

tide_status tidei_streams_wait_all(tidei_dev *d, bool quiet) {
    tide_status status = TIDE_OK;
    unsigned slot = 0;
    for (tidei_stream *s; (s = tidei_stream_next(d, &slot));) {
        tide_status one = s->ds ? wait_for(s, quiet) : TIDE_OK;
        if (one != TIDE_OK) status = one;
    }
    if (!quiet && status == TIDE_OK) {
        /* only if no other device's work may use the memory */
        if (!atomic_load(&d->waits->used_elsewhere)) d->rt->streams->above->all_done(d);
        after_wait(d);
    }
    return status;
}

/* If one of the other devices is lost that is no error here: its work is over. */
tide_status tidei_streams_wait_users(tidei_dev *d) {
    tide_status status = tidei_streams_wait_all(d, true);
    for (tidei_dev *x = NULL; status == TIDE_OK && (x = tidei_dev_next(d->rt, x));) {
        if (x == d || !atomic_load(&d->waits->used_elsewhere)) continue;
        tidei_saved_error e;
        tidei_error_save(&e);
        tide_status one = tidei_streams_wait_all(x, true);
        if (one == TIDE_E_LOST)
            tidei_error_restore(&e);
        else
            status = one;
    }
    return status;
}

tide_status tidei_stamp_wait(tidei_dev *d, tidei_stamp x) {
    if (tidei_stamp_done(d, x)) return TIDE_OK;
    return tidei_stream_wait(tidei_stream_at(d, x.stream), true);
}

/* Completion is known in steps of this many ticks: one write of the word serves them all, for it
** costs about a third of a launch (1.1 us measured). */
#define PUBLISH_EVERY 64

/* The time that the device will take for what s has queued, by the pace since the last look; *busy:
** anything is queued. Ticks by which the completion word may lag do not count, so a stream that
** keeps up with the host has nothing queued. */
static uint64_t queued_ns(tidei_stream *s, uint64_t now, bool *busy) {
    uint64_t submitted = atomic_load_explicit(&s->submitted, memory_order_relaxed), done = look(s);
    if (done >= submitted) {
        atomic_store_explicit(&s->looked_ns, 0, memory_order_relaxed);
        return 0;
    }
    *busy = true;
    if (submitted - done <= PUBLISH_EVERY) {
        /* the stream may have been idle meanwhile */
        atomic_store_explicit(&s->looked_ns, 0, memory_order_relaxed);
        return 0;
    }
    uint64_t before = atomic_load_explicit(&s->looked_ns, memory_order_relaxed),
             ticks = done - atomic_load_explicit(&s->looked_tick, memory_order_relaxed);
    if (before && now > before && ticks && ticks <= done)
        atomic_store_explicit(&s->tick_ns, (now - before) / ticks, memory_order_relaxed);
    if (!before || ticks) {
        atomic_store_explicit(&s->looked_ns, now, memory_order_relaxed);
        atomic_store_explicit(&s->looked_tick, done, memory_order_relaxed);
    }
    return (submitted - done - PUBLISH_EVERY) *
           atomic_load_explicit(&s->tick_ns, memory_order_relaxed);
}

uint64_t tidei_slack_ns(tidei_dev *d, bool waits) {
    unsigned slot = 0;
    uint64_t most = 0, now = tidei_now_ns();
    bool busy = false;
    for (tidei_stream *s; (s = tidei_stream_next(d, &slot));) {
        uint64_t ns = queued_ns(s, now, &busy);
        if (ns > most) most = ns;
    }
    uint64_t usual =
        busy && waits ? atomic_load_explicit(&d->waits->wait_ewma_ns, memory_order_relaxed) : 0;
    return most > usual ? most : usual;
}

uint64_t tidei_streams_pending(tidei_dev *d) {
    unsigned slot = 0;
    uint64_t n = 0;
    for (tidei_stream *s; (s = tidei_stream_next(d, &slot));) {
        uint64_t done = look(s);
        uint64_t submitted = atomic_load_explicit(&s->submitted, memory_order_relaxed);
        n += submitted > done ? submitted - done : 0;
    }
    return n;
}

/* ---- marks ---- All under the stream's lock. */

/* So many marks are made between two waits of others: so another stream waits for at most
** 1/MARKS_A_GAP of the work between them more than it needs. */
#define MARKS_A_GAP 8
/* The array of a mark's seen ticks grows in steps of so many slots. */
#define SEEN_STEP 16

static tidei_mark *mark_at(tidei_stream *s, unsigned i) {
    return &s->marks[(s->first + i) % TIDEI_STREAM_MARKS];
}

/* The earliest mark that is not before the tick; NULL: the tick is later than every mark. */
static tidei_mark *mark_for(tidei_stream *s, uint64_t tick) {
    tidei_mark *best = NULL;
    for (unsigned i = s->nmarks; i-- && mark_at(s, i)->tick >= tick;) best = mark_at(s, i);
    return best;
}

/* A place behind the last mark, with an event. Where there are enough marks it is the first one's.
** If no event can be made, it is the last mark's. */
static tide_status mark_place(tidei_stream *s, tidei_mark **out) {
    tidei_device *d = s->dev->d;
    tidei_mark *m = mark_at(s, s->nmarks);
    if (s->nmarks == TIDEI_STREAM_MARKS) {
        s->first = (s->first + 1) % TIDEI_STREAM_MARKS;
        s->nmarks--;
    }
    *out = m;
    if (m->event) return TIDE_OK;
    tidei_saved_error e;
    tidei_error_save(&e);
    tide_status status = d->ops->event_new(d, &m->event);
    if (status == TIDE_OK || !s->nmarks) return status;
    tidei_error_restore(&e);
    *out = mark_at(s, --s->nmarks);
    return TIDE_OK;
}

/* Notes in the mark what s has seen by now. Without host memory the mark says less than is true. */
static void mark_seen(tidei_stream *s, tidei_mark *m) {
    tidei_runtime *rt = s->dev->rt;
    unsigned n = atomic_load_explicit(&rt->streams->n, memory_order_acquire);
    if (n > m->room) {
        unsigned room = (n + SEEN_STEP - 1) / SEEN_STEP * SEEN_STEP;
        uint64_t *more = tidei_host_alloc(rt, room * sizeof *more);
        if (more) {
            tidei_host_free(rt, m->seen);
            m->seen = more;
            m->room = room;
        }
    }
    m->n = n < m->room ? n : m->room;
    for (unsigned i = 0; i < m->n; i++)
        m->seen[i] = atomic_load_explicit(&s->seen[i], memory_order_acquire);
}

/* Makes a mark behind all that was submitted. What was seen is noted before the event is recorded:
** meanwhile other threads may make s wait for more, which need not come before the event. */
static tide_status mark_here(tidei_stream *s, tidei_mark **out) {
    tidei_device *d = s->dev->d;
    give_begun(s);
    tide_status status = mark_place(s, out);
    if (status != TIDE_OK) return status;
    mark_seen(s, *out);
    status = d->ops->event_record(d, (*out)->event, s->ds);
    if (status != TIDE_OK) return status; /* the place does not become a mark */
    (*out)->tick = atomic_load_explicit(&s->submitted, memory_order_relaxed);
    s->nmarks++;
    return TIDE_OK;
}

/* The first tick at which the next mark is due. */
static uint64_t next_mark(tidei_stream *s) {
    return s->nmarks ? mark_at(s, s->nmarks - 1)->tick + s->gap : 0;
}

static void set_due(tidei_stream *s) {
    s->due = atomic_load_explicit(&s->published, memory_order_relaxed) + PUBLISH_EVERY;
    if (s->credit && next_mark(s) < s->due) s->due = next_mark(s);
}

/* Another stream is about to wait for the tick. If more work is submitted behind it, that may be so
** the next time, so marks are made in advance (credit). */
static void expect_followers(tidei_stream *s, uint64_t tick) {
    uint64_t now = atomic_load_explicit(&s->submitted, memory_order_relaxed);
    if (tick >= now) return;
    if (now > s->followed) s->gap = (now - s->followed + MARKS_A_GAP - 1) / MARKS_A_GAP;
    s->followed = now;
    s->credit = TIDEI_STREAM_MARKS;
    set_due(s);
}

/* ---- waits on the device ---- */

/* Makes s wait for the mark's event; under from->lock, so that the mark stays. */
static tide_status wait_mark(tidei_stream *s, tidei_stream *from, const tidei_mark *m) {
    tidei_device *d = s->dev->d;
    tide_status status = d->ops->event_wait(d, m->event, s->ds);
    if (status != TIDE_OK) return status;
    for (unsigned i = 0; i < m->n; i++) raise_to(&s->seen[i], m->seen[i]);
    raise_to(&s->seen[from->slot], m->tick);
    atomic_fetch_add_explicit(&s->dev->waits->device_waits, 1, memory_order_relaxed);
    tidei_record_follow(s, from);
    return TIDE_OK;
}

tide_status tidei_stream_follow(tidei_stream *s, tidei_stream *from, uint64_t tick) {
    tide_status status = TIDE_OK;
    pthread_mutex_lock(&from->lock);
    give_begun(from); /* one that was known as the stream retired is nobody else's */
    if (!from->ds) {  /* retired: all its work is complete */
        raise_to(&s->seen[from->slot], tick);
    } else {
        expect_followers(from, tick);
        tidei_mark *m = mark_for(from, tick);
        if (!m) status = mark_here(from, &m);
        if (status == TIDE_OK) status = wait_mark(s, from, m);
    }
    pthread_mutex_unlock(&from->lock);
    return status;
}

/* Under s->lock. */
uint64_t tidei_stream_tick(tidei_stream *s) {
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_relaxed) + 1;
    atomic_store_explicit(&s->submitted, tick, memory_order_release);
    return tick;
}

/* Makes a mark. Failing to is no error of the submitting caller: others will wait for a little more
** work. */
static void mark_quietly(tidei_stream *s) {
    tidei_mark *m;
    tidei_saved_error e;
    tidei_error_save(&e);
    s->credit--;
    if (mark_here(s, &m) != TIDE_OK) tidei_error_restore(&e);
}

__attribute__((noinline)) static void after_work_due(tidei_stream *s) {
    uint64_t tick = atomic_load_explicit(&s->submitted, memory_order_relaxed);
    if (tick - atomic_load_explicit(&s->published, memory_order_relaxed) >= PUBLISH_EVERY)
        publish_locked(s);
    if (s->credit && tick >= next_mark(s)) mark_quietly(s);
    set_due(s);
}

void tidei_stream_after_work(tidei_stream *s) {
    if (tidei_unlikely(atomic_load_explicit(&s->submitted, memory_order_relaxed) >= s->due))
        after_work_due(s);
}

/* ---- a stream's life ---- */

static void marks_drop(tidei_stream *s) {
    tidei_device *d = s->dev->d;
    for (unsigned i = 0; i < TIDEI_STREAM_MARKS; i++) {
        if (s->marks[i].event) d->ops->event_release(d, s->marks[i].event);
        tidei_host_free(s->dev->rt, s->marks[i].seen);
        s->marks[i] = (tidei_mark){0};
    }
    s->first = s->nmarks = s->credit = 0;
}

/* Gives back the device's half of a stream whose work is complete; under the lock of streams and
** s->lock. */
static void retire_locked(tidei_stream *s) {
    tidei_device *d = s->dev->d;
    tidei_dstream *ds = s->ds;
    give_begun(s);
    /* Work that a lost device had still to do is not done, even if waits for it succeeded. */
    uint64_t got = atomic_load(&d->lost) ? tidei_stream_got_to(s) : atomic_load(&s->submitted);
    atomic_fetch_add(&s->retirements, 1); /* before the word can become another stream's */
    atomic_store(&s->ds, NULL);
    marks_drop(s);
    d->ops->stream_release(d, ds);
    raise_to(&s->completed, got);
    atomic_store(&s->published, atomic_load(&s->submitted));
}

static bool idle(tidei_stream *s) {
    if (!atomic_load(&s->released) || s->holders) return false;
    publish_locked(s);
    return look(s) >= atomic_load(&s->submitted);
}

static void retire(tidei_stream *s, bool all) {
    pthread_mutex_lock(&s->lock);
    if (s->ds && (all || idle(s))) retire_locked(s);
    pthread_mutex_unlock(&s->lock);
}

void tidei_streams_sweep(tidei_dev *d, bool all) {
    unsigned slot = 0;
    pthread_mutex_lock(&d->rt->streams->lock);
    for (tidei_stream *s; (s = tidei_stream_next(d, &slot));)
        if (all || atomic_load(&s->released)) retire(s, all);
    pthread_mutex_unlock(&d->rt->streams->lock);
}

tidei_dstream *tidei_stream_hold(tidei_stream *s) {
    pthread_mutex_lock(&s->lock);
    tidei_dstream *ds = s->ds;
    if (ds) s->holders++;
    pthread_mutex_unlock(&s->lock);
    return ds;
}

void tidei_stream_let_go(tidei_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->holders--;
    pthread_mutex_unlock(&s->lock);
}

void tidei_undo_stream(tidei_runtime *rt, tidei_thread *t, void *s, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    tidei_stream_let_go(s);
}

/* A slot without a stream: a retired one of the device's, or a fresh one; under the lock of
** streams. NULL: host memory or slots exhausted. */
static tidei_stream *free_slot(tidei_dev *d) {
    tidei_streams *all = d->rt->streams;
    unsigned n = atomic_load(&all->n), slot = 0;
    for (tidei_stream *s; (s = tidei_stream_next(d, &slot));)
        if (!s->ds) return s;
    unsigned kept = 0; /* slots kept for the default streams of devices that are not open yet */
    for (unsigned i = 0; i < d->rt->ndevs; i++)
        kept += &d->rt->devs[i] != d && !atomic_load(&d->rt->devs[i].open);
    if (n + kept >= TIDEI_STREAMS_MAX) return NULL;
    tidei_stream *s = tidei_host_alloc(d->rt, sizeof *s);
    if (!s) return NULL;
    s->dev = d;
    s->slot = (uint16_t)n;
    pthread_mutex_init(&s->lock, NULL);
    atomic_store_explicit(&all->at[n], s, memory_order_release);
    atomic_store_explicit(&all->n, n + 1, memory_order_release);
    return s;
}

/* The device's half: a new one, or around *native. */
static tide_status device_half(tidei_device *d, void *const *native, tidei_dstream **out) {
    return native ? d->ops->stream_adopt(d, *native, out) : d->ops->stream_new(d, out);
}

static tide_status open_stream(tidei_dev *d, void *const *native, tidei_stream **out) {
    tidei_streams *all = d->rt->streams;
    tidei_streams_sweep(d, false);
    pthread_mutex_lock(&all->lock);
    tide_status status = TIDE_OK;
    tidei_stream *s = free_slot(d);
    if (!s)
        status = atomic_load(&all->n) + d->rt->ndevs > TIDEI_STREAMS_MAX
                     ? tidei_fail(TIDE_E_INVALID, "tide_stream_new",
                                  "%s has none left of the runtime's %d streams, which devices "
                                  "keep once they had "
                                  "them; release some of its own",
                                  d->d->info.name, TIDEI_STREAMS_MAX)
                     : tidei_fail_host_memory("tide_stream_new", sizeof *s);
    tidei_dstream *ds = NULL;
    tide_stream *ref = NULL;
    if (status == TIDE_OK && !(ref = tidei_ref_new(TIDEI_REF_STREAM, s, d->rt)))
        status = tidei_fail_host_memory("tide_stream_new", sizeof *s);
    if (status == TIDE_OK) status = device_half(d->d, native, &ds);
    if (status == TIDE_OK) {
        for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++)
            atomic_store_explicit(&s->seen[i], 0, memory_order_relaxed);
        s->last_op = "";
        atomic_store(&s->adopted, native != NULL);
        atomic_store(&s->of_thread, false);
        atomic_store(&s->released, false);
        atomic_store(&s->ds, ds);
        atomic_store(&s->ref, ref);
        *out = s;
    } else {
        tidei_ref_end(ref);
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}

tide_status tidei_stream_open(tidei_dev *d, tidei_stream **out) {
    return open_stream(d, NULL, out);
}

tide_status tidei_stream_adopt(tidei_dev *d, void *native, tidei_stream **out) {
    if (d->d->ops->stream_adopt) return open_stream(d, &native, out);
    return tidei_fail(TIDE_E_UNSUPPORTED, "tide_stream_wrap", "%s has no native streams",
                      d->d->info.name);
}

tide_status tidei_stream_usable_now(tidei_stream *s) {
    tidei_device *d = s->dev->d;
    return d->ops->stream_usable ? d->ops->stream_usable(d, s->ds) : TIDE_OK;
}

void tidei_stream_drop(tidei_stream *s) {
    tidei_ref_end(atomic_exchange(&s->ref, NULL));
    publish(s);
    atomic_store(&s->released, true);
    tidei_streams_sweep(s->dev, false);
}
