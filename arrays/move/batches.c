/* batches.c: batches of host data, uploaded while the one before is used. The model stands in
** tide/batches.h.
**
** Batch i is made in half i mod 2: arrays, pinned memory that its samples are copied to, and the
** stream that uploads them. A half's own stream is what the host waits for before it writes to the
** pinned memory again, so it never waits for the other half's upload, which may have to wait for
** the device's memory. Work that uses a batch waits for its upload as for any other write: by the
** storages' stamps.
** What must stay true: pinned memory is not touched while `uploading`; an array that is handed out
** or staged has one reference of ours, under every collector. */
#include "arrays/move/adapt.h"
#include "gc/gc.h"
#include "runtime/memory/capture.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/base/sized.h"
#include "runtime/base/uncancelled.h"

#include <inttypes.h>

#define OP_NEW       "tide_batches_new"
#define OP_NEXT      "tide_batches_next"
#define UPLOADS      "uploads elements"
#define PINNED_ALIGN 256 /* bytes: for any element, and whole lines of a processor's cache */
/* After memory was short for looking ahead, the most batches that are made without it: the number
** doubles from 1, so that trying in vain costs ever less. */
#define REST_MOST 64

typedef struct half {
    tidei_stream *up;
    tidei_storage *pinned;
    bool uploading;
    int64_t batch, samples; /* whose arrays they are; -1: none */
    tide_array **at;        /* by leaf; NULL where absent */
} half;

typedef struct source { /* an array of the source */
    tide_data d;
    tide_dtype to;
    size_t place; /* in the pinned memory */
    int64_t strides[TIDE_MAX_RANK];
} source;

/* What a tide_batches refers to. */
typedef struct tidei_batches tidei_batches;
struct tidei_batches {
    tidei_runtime *rt;
    tide_batches *ref; /* the public reference to it */
    tidei_dev *dev;
    struct tidei_batches *next, **prev; /* the runtime's open ones, under its adapt_lock */
    /* fixed once made */
    tidei_outline outline;
    source *sources; /* by leaf */
    char *original;  /* the source as it was given */
    int64_t batch;   /* samples of one */
    int64_t samples; /* along the first axes */
    int64_t total;   /* samples from the first batch to the last, repetitions included */
    int64_t count;   /* batches */
    size_t pinned_bytes;
    unsigned how; /* TIDE_ADAPT_* */
    const int64_t *order;
    tide_batches_fill fill;
    bool asks; /* some array's data is not in memory: the user is asked for it */
    void *user;
    /* used by the user's thread only */
    half halves[2];
    half *current;     /* handed out; NULL: none */
    int64_t at;        /* the next batch */
    tide_array **past; /* freed at the last call, and kept so that using them fails as freed */
    char *made;        /* a batch while it is put together */
    void **outs;       /* for `fill` */
    bool busy;         /* inside tide_batches_next, and perhaps in a callback there */
    unsigned rest, pause;
};

/* ---- the end of arrays ---- */

/* Gives our reference back. */
static void let_go(tide_array *a) {
    tidei_header *h = tidei_cell_header(a);
    if (atomic_load_explicit(&h->refs, memory_order_relaxed) & TIDEI_SCOPED)
        tidei_gc_unscope(h, true);
    else
        (void)tidei_gc_release(h);
}

/* Arrays that no user has seen. */
static void drop_staged(half *h, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tide_free(h->at[i]);
        if (h->at[i]) let_go(h->at[i]);
        h->at[i] = NULL;
    }
    h->batch = -1;
}

static void forget_past(tidei_batches *b) {
    for (size_t i = 0; b->past && i < b->outline.nleaves; i++) {
        if (b->past[i]) let_go(b->past[i]);
        b->past[i] = NULL;
    }
}

/* Whether ours is the only reference. A user may have released more often than retained: then there
** is no reference left, but the header stays. */
static bool ours_alone(tide_array *a) {
    return (atomic_load_explicit(&tidei_cell_header(a)->refs, memory_order_acquire) &
            ~TIDEI_SCOPED) <= 1;
}

/* Ends the current batch. */
static void end_current(tidei_batches *b) {
    half *h = b->current;
    forget_past(b);
    for (size_t i = 0; h && i < b->outline.nleaves; i++) {
        tide_array *a = h->at[i];
        h->at[i] = NULL;
        if (!a) continue;
        if (ours_alone(a)) {
            tide_free(a);
            b->past[i] = a;
        } else {
            let_go(a);
        }
    }
    if (h) h->batch = -1;
    b->current = NULL;
}

/* ---- making a batch ---- */

static void undo_scope(tidei_runtime *rt, tidei_thread *t, void *scope, uintptr_t of) {
    (void)rt, (void)of;
    t->scope = scope;
}

/* Makes an array with one reference of ours, and in no scope. A counted array keeps its header
** until we let go of it, as in a scope, even if its user releases it by mistake. */
static tide_array *make_held(tidei_batches *b, tidei_storage *st, const tidei_layout *lay) {
    tidei_thread *t = tidei_thread_get(b->rt);
    struct tidei_scope *scope = t->scope;
    tidei_hold(t, undo_scope, scope, 0);
    t->scope = NULL;
    tide_array *a = tidei_array_over(b->rt, st, lay, OP_NEXT);
    t->scope = scope;
    tidei_let(t, scope);
    if (!a) return NULL;
    tidei_header *h = tidei_cell_header(a);
    bool counted = atomic_load_explicit(&h->refs, memory_order_relaxed) > 0;
    if (counted) atomic_fetch_or(&h->refs, TIDEI_SCOPED);
    if (counted || b->rt->gc_ops->retain(h) == TIDE_OK) return a;
    tidei_array_drop(a);
    return NULL;
}

static tide_status make_array(tidei_batches *b, half *h, size_t leaf, int64_t n) {
    const source *x = &b->sources[leaf];
    int64_t shape[TIDE_MAX_RANK];
    tidei_layout lay;
    tidei_storage *st;
    if (!x->d.ndim) return TIDE_OK;
    memcpy(shape, x->d.shape, sizeof shape);
    shape[0] = n;
    tide_status s = tidei_layout_make(x->to, x->d.ndim, shape, OP_NEXT, &lay);
    if (s != TIDE_OK) return s;
    size_t bytes = (size_t)tidei_layout_size(&lay) * tidei_dtype_size(x->to);
    s = tidei_storage_new(b->dev, bytes, h->up, OP_NEXT, &st);
    if (s != TIDE_OK) return s;
    h->at[leaf] = make_held(b, st, &lay);
    return h->at[leaf] ? TIDE_OK : tidei_fail_as(OP_NEXT);
}

static tide_status make_arrays(tidei_batches *b, half *h, int64_t n) {
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < b->outline.nleaves && s == TIDE_OK; i++) s = make_array(b, h, i, n);
    return s;
}

static tide_status check_order(const tidei_batches *b, int64_t first, int64_t n) {
    for (int64_t i = first; b->order && i < first + n; i++)
        if (b->order[i] < 0 || b->order[i] >= b->samples)
            return tidei_fail(TIDE_E_BOUNDS, OP_NEXT,
                              "order[%" PRId64 "] is %" PRId64 ", there are %" PRId64 " samples", i,
                              b->order[i], b->samples);
    return TIDE_OK;
}

/* The host may write to the pinned memory again. */
static tide_status wait_for_upload(half *h) {
    if (!h->uploading) return TIDE_OK;
    tide_status s = tidei_stream_wait(h->up, true);
    if (s != TIDE_OK) return tidei_fail_as(OP_NEXT);
    h->uploading = false;
    return TIDE_OK;
}

static void *place_of(const half *h, const source *x) {
    return (void *)(uintptr_t)(h->pinned->addr + x->place);
}

/* Asks the user to write the data that is not in memory. */
static tide_status ask_user(tidei_batches *b, half *h, int64_t first, int64_t n) {
    if (!b->asks) return TIDE_OK;
    for (size_t i = 0; i < b->outline.nleaves; i++) {
        const source *x = &b->sources[i];
        b->outs[i] = x->d.ndim && !x->d.host ? place_of(h, x) : NULL;
    }
    TIDEI_UNCANCELLED;
    tidei_callback in;
    tidei_callback_begin(&in, b->rt, TIDEI_IN_FILL, NULL);
    tide_status s = b->fill(b->user, first, b->order ? b->order + first : NULL, n, b->outs);
    tidei_callback_end(&in);
    if (s == TIDE_OK || s == TIDE_END) return s;
    return tidei_fail(s, OP_NEXT, "the callback returned %s for samples %" PRId64 " to %" PRId64,
                      tide_status_name(s), first, first + n - 1);
}

static tide_status upload(tidei_batches *b, half *h, size_t leaf, int64_t first, int64_t n) {
    const source *x = &b->sources[leaf];
    if (!x->d.ndim) return TIDE_OK;
    tidei_storage *st = tidei_cell_header(h->at[leaf])->st;
    void *p = place_of(h, x);
    if (!st->bytes) return TIDE_OK;
    if (x->d.host)
        tidei_data_pack_samples(&x->d, x->to, first, b->order ? b->order + first : NULL, n, p);
    else
        tidei_elements_pack(x->d.dtype, x->to, p, p, st->bytes / tidei_dtype_size(x->to));
    h->uploading = true;
    return tidei_submit_upload(h->up, st, 0, h->pinned, x->place, st->bytes, OP_NEXT);
}

/* Makes the stream publish the end of the upload, so that a later question is answered without a
** wait. */
static void announce(const tidei_batches *b, const half *h) {
    tidei_stamp last = {.tick = atomic_load_explicit(&h->up->submitted, memory_order_relaxed),
                        .stream = h->up->slot};
    if (h->uploading) (void)tidei_stamp_done(b->dev, last);
}

/* Each array's copy is under way while the next one is packed. */
static tide_status stage(tidei_batches *b, int64_t i) {
    half *h = &b->halves[i % 2];
    int64_t first = i * b->batch, left = b->total - first, n = left < b->batch ? left : b->batch;
    tide_status s = wait_for_upload(h);
    if (s == TIDE_OK) s = check_order(b, first, n);
    if (s == TIDE_OK) s = make_arrays(b, h, n);
    if (s == TIDE_OK) s = ask_user(b, h, first, n);
    for (size_t k = 0; k < b->outline.nleaves && s == TIDE_OK; k++) s = upload(b, h, k, first, n);
    if (s == TIDE_OK) {
        h->batch = i;
        h->samples = n;
        announce(b, h);
    } else {
        drop_staged(h, b->outline.nleaves);
    }
    return s;
}

/* Stages the next batch. A failure is reported when it is that batch's turn. */
static void look_ahead(tidei_batches *b) {
    if (b->at == b->count) return;
    if (b->rest) {
        b->rest--;
        return;
    }
    tidei_saved_error e;
    tidei_thread *t = tidei_thread_get(b->rt);
    tidei_error_save(&e);
    tidei_deepen(t, &t->depth_optional);
    tide_status s = stage(b, b->at);
    tidei_rise(t, &t->depth_optional);
    if (s == TIDE_OK) b->pause = 0;
    if (s == TIDE_E_NOMEM)
        b->rest = b->pause = b->pause ? (unsigned)tidei_min_size(2 * b->pause, REST_MOST) : 1;
    if (s != TIDE_OK) tidei_error_restore(&e);
}

/* ---- handing out ---- */

/* Orders the next upload of the current batch's half after all work on that batch. So that upload
** can reuse the batch's memory, and a host that runs ahead takes no more memory, until it waits for
** the half's pinned memory. It waits for that first; otherwise it would wait for the batch's work
** too. If this fails, there is only less order, and no wrong result. */
static void follow_work(tidei_batches *b) {
    half *h = b->current;
    tidei_saved_error e;
    tidei_error_save(&e);
    bool held = wait_for_upload(h) == TIDE_OK && tidei_stream_hold(h->up);
    for (size_t i = 0; held && i < b->outline.nleaves; i++) {
        tidei_operand o; /* of an array that the user has not freed */
        if (!h->at[i] || tide_array_is_freed(h->at[i]) ||
            tidei_operand_get(h->at[i], OP_NEXT, 1, &o) != TIDE_OK)
            continue;
        tidei_use use = tidei_operand_use(&o, TIDEI_WRITE);
        (void)tidei_order(h->up, &use, 1, OP_NEXT);
        tidei_operand_put(&o);
    }
    if (held) tidei_stream_let_go(h->up);
    tidei_error_restore(&e);
}

static tide_status hand_out(tidei_batches *b, const half *h, void *batch) {
    memcpy(b->made, b->original, b->outline.bytes);
    for (size_t i = 0; i < b->outline.nleaves; i++) {
        tide_data d = {.array = h->at[i], .dtype = b->sources[i].to, .ndim = b->sources[i].d.ndim};
        if (!d.array) continue;
        memcpy(d.shape, b->sources[i].d.shape, sizeof d.shape);
        d.shape[0] = h->samples;
        tidei_leaf_set(b->made, &b->outline.leaves[i], d);
    }
    tide_status s = tidei_outline_follow(b->rt, &b->outline, b->made, b->original, b->how, OP_NEXT);
    if (s == TIDE_OK) memcpy(batch, b->made, b->outline.bytes);
    return s;
}

static tidei_batches *find_batches(const tide_batches *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_BATCHES, ref, op);
}

/* Takes the iterator for a caller that changes it. What a longjmp left is undone first: the call
** that was left may have been this iterator's. */
static tidei_batches *take_batches(const tide_batches *ref, const char *op) {
    tidei_batches *b = find_batches(ref, op);
    if (b) (void)tidei_thread_get(b->rt);
    if (!b || !b->busy) return b;
    tidei_fail(TIDE_E_INVALID, op,
               "called by a callback inside tide_batches_next of the same iterator");
    return NULL;
}

/* A longjmp left the call: undoes the half that was being made. If the call was looking ahead, the
** batch that it was about to return is staged, and the next call returns it. */
static void undo_next(tidei_runtime *rt, tidei_thread *t, void *batches, uintptr_t at) {
    tidei_batches *b = batches;
    (void)rt, (void)t;
    b->busy = false;
    if (b->at != (int64_t)at) {
        b->at = (int64_t)at;
        b->current = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (b->halves[i].batch < 0) drop_staged(&b->halves[i], b->outline.nleaves);
}

static tide_status next(tidei_batches *b, void *batch) {
    if (b->current && b->at + 1 < b->count) follow_work(b);
    end_current(b);
    tidei_drain(b->rt);
    if (b->at == b->count) return TIDE_END;
    half *h = &b->halves[b->at % 2];
    tide_status s = h->batch == b->at ? TIDE_OK : stage(b, b->at);
    if (s == TIDE_OK) s = hand_out(b, h, batch);
    if (s != TIDE_OK) return s;
    b->current = h;
    b->at++;
    look_ahead(b);
    return TIDE_OK;
}

tide_status tide_batches_next(tide_batches *ref, void *batch) {
    TIDEI_OPERATION(OP_NEXT);
    tidei_batches *b = find_batches(ref, OP_NEXT);
    tidei_thread *t = b ? tidei_thread_get(b->rt) : NULL;
    if (!t || tidei_capture_refused(b->rt, OP_NEXT, UPLOADS) != TIDE_OK ||
        !take_batches(ref, OP_NEXT))
        return tidei_last_status();
    if (!batch) return tidei_fail(TIDE_E_INVALID, OP_NEXT, "room for the batch is NULL");
    b->busy = true;
    tidei_hold(t, undo_next, b, (uintptr_t)b->at);
    tide_status s = next(b, batch);
    tidei_let(t, b);
    b->busy = false;
    return s;
}

int64_t tide_batches_count(const tide_batches *ref) {
    const tidei_batches *b = ref ? find_batches(ref, "tide_batches_count") : NULL;
    return b ? b->count : 0;
}

/* Back to the state in which nothing is handed out or staged. */
static void go_back(tidei_batches *b) {
    end_current(b);
    for (int i = 0; i < 2; i++)
        if (b->halves[i].at) drop_staged(&b->halves[i], b->outline.nleaves);
    b->at = 0;
    b->rest = b->pause = 0;
}

void tide_batches_rewind(tide_batches *ref) {
    tidei_batches *b = ref && !tidei_forked() ? take_batches(ref, "tide_batches_rewind") : NULL;
    if (!b) return;
    go_back(b);
    tidei_drain(b->rt);
}

/* ---- the source ---- */

static tide_status take_source(tidei_batches *b, const tide_batches_config *c) {
    bool typed = c->type || c->source, flat = c->arrays || c->narrays;
    if (typed == flat || (typed && !c->source) || (flat && (!c->arrays || !c->narrays)) ||
        c->narrays > SIZE_MAX / sizeof(source))
        return tidei_fail(
            TIDE_E_INVALID, OP_NEW,
            "give either `arrays` and `narrays`, or `type` and `source`: one of them, and whole");
    tide_status s = typed ? tidei_outline_make(b->rt, c->type, OP_NEW, &b->outline)
                          : tidei_outline_of_arrays(b->rt, c->narrays, OP_NEW, &b->outline);
    if (s != TIDE_OK) return s;
    size_t n = b->outline.nleaves,
           bytes = n * (sizeof *b->sources + 4 * sizeof(void *)) + 2 * b->outline.bytes + 1;
    bool all = (b->sources = tidei_host_alloc(b->rt, n * sizeof *b->sources + 1)) &&
               (b->original = tidei_host_alloc(b->rt, b->outline.bytes)) &&
               (b->made = tidei_host_alloc(b->rt, b->outline.bytes)) &&
               (b->past = tidei_host_alloc(b->rt, (n + 1) * sizeof *b->past)) &&
               (b->outs = tidei_host_alloc(b->rt, (n + 1) * sizeof *b->outs)) &&
               (b->halves[0].at = tidei_host_alloc(b->rt, (n + 1) * sizeof *b->past)) &&
               (b->halves[1].at = tidei_host_alloc(b->rt, (n + 1) * sizeof *b->past));
    if (!all) return tidei_fail_host_memory(OP_NEW, bytes);
    memcpy(b->original, typed ? c->source : c->arrays, b->outline.bytes);
    return TIDE_OK;
}

static bool empty(const tide_data *d) {
    for (int i = 0; i < d->ndim; i++)
        if (!d->shape[i]) return true;
    return false;
}

/* Checks an array of the source. The first one that is present says how many samples there are. */
static tide_status check_source(tidei_batches *b, size_t i, const char **first) {
    const source *x = &b->sources[i];
    const char *name = b->outline.leaves[i].name;
    if (tidei_data_absent(&x->d)) return TIDE_OK;
    if (x->d.array)
        return tidei_fail(TIDE_E_INVALID, OP_NEW,
                          "%s is on the device; batches are made of host memory", name);
    tide_status s = tidei_data_check(&x->d, name, OP_NEW);
    if (s != TIDE_OK) return s;
    if (!x->d.ndim)
        return tidei_fail(TIDE_E_SHAPE, OP_NEW, "%s has no axis to count samples along", name);
    if (!x->d.host && !b->fill && !empty(&x->d))
        return tidei_fail(TIDE_E_INVALID, OP_NEW,
                          "%s: its host memory is NULL, and there is no `fill`", name);
    b->asks |= !x->d.host && !empty(&x->d);
    if (!*first) {
        *first = name;
        b->samples = x->d.shape[0];
    }
    if (x->d.shape[0] == b->samples) return TIDE_OK;
    return tidei_fail(TIDE_E_SHAPE, OP_NEW, "%s has %" PRId64 " samples, %s has %" PRId64, name,
                      x->d.shape[0], *first, b->samples);
}

static tide_status check_sources(tidei_batches *b, bool narrow) {
    const char *first = NULL;
    tide_status s = TIDE_OK;
    for (size_t i = 0; i < b->outline.nleaves && s == TIDE_OK; i++) {
        source *x = &b->sources[i];
        x->d = tidei_leaf_get(b->original, &b->outline.leaves[i]);
        if (x->d.strides && x->d.ndim > 0 && x->d.ndim <= TIDE_MAX_RANK) {
            memcpy(x->strides, x->d.strides, (size_t)x->d.ndim * sizeof *x->strides);
            x->d.strides = x->strides;
        }
        x->to = narrow ? tidei_narrowed(x->d.dtype) : x->d.dtype;
        s = check_source(b, i, &first);
    }
    if (s != TIDE_OK || first) return s;
    return tidei_fail(TIDE_E_INVALID, OP_NEW, "there is no array in the source");
}

/* Where each array's samples go in the pinned memory: what `fill` writes is of the wider type at
** first. */
static tide_status lay_out(tidei_batches *b) {
    int64_t n = b->batch < b->total ? b->batch : b->total;
    size_t end = 0;
    for (size_t i = 0; i < b->outline.nleaves; i++) {
        source *x = &b->sources[i];
        tide_data d = x->d;
        if (!d.ndim) continue;
        d.shape[0] = n;
        tide_status s = tidei_data_check(&d, b->outline.leaves[i].name, OP_NEW);
        if (s != TIDE_OK) return s;
        size_t bytes = tidei_dtype_size(d.host ? x->to : d.dtype);
        for (int k = 0; k < d.ndim; k++) bytes *= (size_t)d.shape[k];
        x->place = end;
        if (__builtin_add_overflow(end, bytes, &end) || end > SIZE_MAX - PINNED_ALIGN)
            return tidei_fail(TIDE_E_HOST_NOMEM, OP_NEW,
                              "a batch of %" PRId64 " samples is beyond any memory", n);
        end = tidei_round_up(end, PINNED_ALIGN);
    }
    b->pinned_bytes = tidei_max_size(end, PINNED_ALIGN);
    return TIDE_OK;
}

static tide_status count_batches(tidei_batches *b, const tide_batches_config *c) {
    if (c->batch <= 0)
        return tidei_fail(TIDE_E_INVALID, OP_NEW, "a batch of %" PRId64 " samples: give at least 1",
                          c->batch);
    if (c->norder < 0 || (c->norder && !c->order))
        return tidei_fail(TIDE_E_INVALID, OP_NEW, "%" PRId64 " sample numbers, but no `order`",
                          c->norder);
    b->batch = c->batch;
    b->order = c->order;
    b->total = c->order ? c->norder : b->samples;
    b->count = b->total / b->batch + (c->drop_last != TIDE_ON && b->total % b->batch != 0);
    return TIDE_OK;
}

/* ---- an iterator's life ---- */

static void enter(tidei_batches *b) {
    tidei_arrays *a = tidei_arrays_of(b->rt);
    pthread_mutex_lock(&a->adapt_lock);
    b->next = a->batches;
    b->prev = &a->batches;
    if (b->next) b->next->prev = &b->next;
    a->batches = b;
    pthread_mutex_unlock(&a->adapt_lock);
}

static void leave(tidei_batches *b) {
    pthread_mutex_t *lock = &tidei_arrays_of(b->rt)->adapt_lock;
    pthread_mutex_lock(lock);
    if (b->prev) { /* it has entered; others that come and go change where to */
        if (b->next) b->next->prev = b->prev;
        *b->prev = b->next;
    }
    pthread_mutex_unlock(lock);
}

/* Closes a half. An upload may be under way: the memory goes back with the upload's stamp. */
static void close_half(tidei_batches *b, half *h) {
    if (h->pinned) tidei_storage_release(h->pinned);
    if (h->up) tidei_stream_drop(h->up);
    tidei_host_free(b->rt, h->at);
}

/* Ends an iterator, also one that was made in part; keeps the error. */
static void end(tidei_batches *b) {
    tidei_saved_error e;
    tidei_error_save(&e);
    tidei_ref_end(b->ref);
    leave(b);
    go_back(b);
    forget_past(b);
    for (int i = 0; i < 2; i++) close_half(b, &b->halves[i]);
    tidei_host_free(b->rt, b->sources);
    tidei_host_free(b->rt, b->original);
    tidei_host_free(b->rt, b->made);
    tidei_host_free(b->rt, b->past);
    tidei_host_free(b->rt, b->outs);
    tidei_outline_free(b->rt, &b->outline);
    tidei_host_free(b->rt, b);
    tidei_error_restore(&e);
}

/* Takes pinned memory that the host can write to at once: memory of an earlier iterator that its
** uploads still read is passed over, at most so many times. */
#define LEFT_MOST 4
static tide_status take_pinned(tidei_batches *b, tidei_pool *pool, half *h) {
    tidei_storage *passed[LEFT_MOST]; /* held by the call, as h->pinned is by the iterator */
    unsigned n = 0;
    tide_status s = tidei_storage_new_in(pool, b->pinned_bytes, h->up, OP_NEW, &h->pinned);
    while (s == TIDE_OK && n < LEFT_MOST &&
           tidei_use_pending(&(tidei_use){h->pinned, 0, b->pinned_bytes, TIDEI_WRITE})) {
        passed[n++] = h->pinned;
        tidei_scratch_hold(h->pinned);
        h->pinned = NULL;
        s = tidei_storage_new_in(pool, b->pinned_bytes, h->up, OP_NEW, &h->pinned);
    }
    if (s != TIDE_OK && n) {
        h->pinned = passed[--n];
        tidei_storage_retain(h->pinned);
        tidei_scratch_release(h->pinned);
        tide_error_clear();
        s = TIDE_OK;
    }
    while (n) tidei_scratch_release(passed[--n]);
    return s == TIDE_OK ? tidei_storage_wait(h->pinned, TIDEI_WRITE) : s;
}

static tide_status open_half(tidei_batches *b, half *h) {
    tidei_pool *pool;
    h->batch = -1;
    tide_status s = tidei_stream_open(b->dev, &h->up);
    if (s != TIDE_OK) return tidei_device_failed(b->dev->stream0, s, OP_NEW);
    s = tidei_kind_pool(b->dev, TIDE_MEMORY_PINNED, OP_NEW, &pool);
    return s == TIDE_OK ? take_pinned(b, pool, h) : s;
}

static tide_status check_switches(const tide_batches_config *c) {
    const int switches[] = {c->drop_last, c->narrow};
    for (unsigned i = 0; i < TIDEI_COUNT(switches); i++)
        if (switches[i] < TIDE_DEFAULT || switches[i] > TIDE_OFF)
            return tidei_fail(TIDE_E_INVALID, OP_NEW,
                              "%s is %d; wanted: TIDE_DEFAULT, TIDE_ON, TIDE_OFF",
                              i ? "narrow" : "drop_last", switches[i]);
    return TIDE_OK;
}

static tide_status fill_in(tidei_batches *b, const tide_batches_config *c) {
    b->fill = c->fill;
    b->user = c->user;
    b->how = TIDE_ADAPT_DEVICE | (c->narrow == TIDE_ON ? TIDE_ADAPT_NARROW : 0);
    tide_status s = check_switches(c);
    if (s == TIDE_OK) s = take_source(b, c);
    if (s == TIDE_OK) s = check_sources(b, c->narrow == TIDE_ON);
    if (s == TIDE_OK) s = count_batches(b, c);
    if (s == TIDE_OK) s = lay_out(b);
    if (s == TIDE_OK) s = check_order(b, 0, b->total);
    for (int i = 0; i < 2 && s == TIDE_OK; i++) s = open_half(b, &b->halves[i]);
    return s == TIDE_OK ? s : tidei_fail_as(OP_NEW);
}

#define END(field) TIDEI_END(tide_batches_config, field)
static const uint16_t config_ends[] = {END(struct_size), END(arrays), END(narrays),   END(type),
                                       END(source),      END(batch),  END(drop_last), END(narrow),
                                       END(order),       END(norder), END(fill),      END(user)};
#undef END
static const tidei_sized config_sizes = {"tide_batches_config", config_ends,
                                         TIDEI_COUNT(config_ends),
                                         TIDEI_END(tide_batches_config, struct_size)};

static void undo_new(tidei_runtime *rt, tidei_thread *t, void *b, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    end(b);
}

tide_status tide_batches_new(tide_runtime *ref, const tide_batches_config *config,
                             tide_batches **out) {
    TIDEI_OPERATION(OP_NEW);
    tide_batches_config c = {0};
    tidei_thread *t = tidei_enter(ref, OP_NEW);
    if (!t || !tidei_may_make(tidei_thread_runtime(t), OP_NEW) ||
        tidei_capture_refused(tidei_thread_runtime(t), OP_NEW, UPLOADS) != TIDE_OK)
        return tidei_last_status();
    if (!config || !out)
        return tidei_fail(TIDE_E_INVALID, OP_NEW, "%s is NULL",
                          config ? "out" : "the configuration");
    tide_status s = tidei_sized_check(&config_sizes, config->struct_size, OP_NEW);
    if (s != TIDE_OK) return s;
    memcpy(&c, config, config->struct_size);
    tidei_runtime *rt = tidei_thread_runtime(t);
    tidei_batches *b = tidei_host_alloc(rt, sizeof *b);
    if (!b) return tidei_fail_host_memory(OP_NEW, sizeof *b);
    b->rt = rt;
    b->dev = t->dev;
    b->ref = tidei_ref_new(TIDEI_REF_BATCHES, b, rt);
    tidei_hold(t, undo_new, b, 0);
    s = b->ref ? fill_in(b, &c) : tidei_fail_host_memory(OP_NEW, sizeof *b);
    tidei_let(t, b);
    if (s != TIDE_OK) {
        end(b);
        return s;
    }
    enter(b);
    *out = b->ref;
    return TIDE_OK;
}

void tide_batches_release(tide_batches *ref) {
    tidei_batches *b = ref && !tidei_forked() ? take_batches(ref, "tide_batches_release") : NULL;
    if (!b) return;
    tidei_runtime *rt = b->rt;
    end(b);
    tidei_drain(rt);
}

void tidei_batches_close(tidei_runtime *rt) {
    for (tidei_batches *b; (b = tidei_arrays_of(rt)->batches);) end(b);
}
