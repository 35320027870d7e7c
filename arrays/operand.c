/* operand.c: from the cells that users hold to storages and layouts, and back: the steps gather and
** leave of every operation (storage.h).
**
** A compiler may drop the caller's last pointer to an array while the call still runs, and a
** collector that then finds the cell dead ends the array. So an operand retains the storage while
** the cell is kept alive, and needs the cell no more afterwards. */
#include "arrays/arrays.h"
#include "runtime/base/text.h"
#include "runtime/memory/capture.h"

/* ---- what is wrong with an array of the call ---- */

/* "argument 2", "argument 3, index 0,", "destination 1". */
static const char *place_text(tidei_place place, char buf[64]) {
    unsigned argument = place & 0xff;
    size_t listed = place >> 8;
    if (!argument)
        tidei_format(buf, 64, "destination %zu", listed);
    else if (listed)
        tidei_format(buf, 64, "argument %u, index %zu,", argument, listed - 1);
    else
        tidei_format(buf, 64, "argument %u", argument);
    return buf;
}

tide_status tidei_null_array(const char *op, tidei_place place) {
    char text[64];
    return tidei_fail_null(op, place_text(place, text));
}

tide_status tidei_foreign_array(const char *op, tidei_place place) {
    char text[64];
    return tidei_fail(TIDE_E_INVALID, op, "%s belongs to another runtime", place_text(place, text));
}

static tide_status ended_placeholder(const char *op, tidei_place place) {
    char text[64];
    return tidei_fail(TIDE_E_INVALID, op, "%s: " TIDEI_ENDED_PLACEHOLDER, place_text(place, text));
}

/* ---- gather ---- */

/* Finds a cell's live header, its open runtime, and the thread's record there. */
static tide_status enter(tide_array *a, const char *op, tidei_place place, tidei_header **h,
                         tidei_runtime **rt, tidei_thread **t) {
    if (tidei_unlikely(!a)) return tidei_null_array(op, place);
    if (!a->hidden)
        return tidei_fail(TIDE_E_FREED, op,
                          "the array is gone: it was released, or its collector found it dead");
    *h = tidei_cell_header(a);
    *rt = atomic_load_explicit(&(*h)->deaths->rt, memory_order_acquire);
    if (!*rt) return tidei_fail(TIDE_E_CLOSED, op, "the array's runtime was closed");
    if (atomic_load_explicit(&(*h)->word, memory_order_acquire) & TIDEI_DEAD)
        return tidei_fail(TIDE_E_FREED, op, "the array was freed");
    *t = tidei_thread_get(*rt);
    if (tidei_likely(*t != NULL)) return TIDE_OK;
    return *tide_error_last()->operation ? tidei_last_status() : tidei_fail_as(op);
}

tide_status tidei_operand_runtime(tide_array *a, const char *op, tidei_place place,
                                  tidei_runtime **rt) {
    tidei_header *h = NULL;
    tidei_thread *t;
    return enter(a, op, place, &h, rt, &t);
}

tide_status tidei_operand_get(tide_array *a, const char *op, tidei_place place,
                              tidei_operand *out) {
    tidei_header *h = NULL;
    tidei_runtime *rt = NULL;
    tidei_thread *t = NULL;
    tide_status s = enter(a, op, place, &h, &rt, &t);
    if (s != TIDE_OK) return s;
    if (tidei_unlikely(h->st->placeholder) && !tidei_capture_admits(h->st))
        return ended_placeholder(op, place);
    tidei_storage_retain(h->st);
    out->rt = rt;
    out->t = t;
    out->st = h->st;
    out->lay = h->lay;
    tidei_hold_storage(t, h->st);
    tidei_keep(a);
    return TIDE_OK;
}

tide_status tidei_operand_get_of(tidei_runtime *rt, tide_array *a, const char *op,
                                 tidei_place place, tidei_operand *out) {
    tide_status s = tidei_operand_get(a, op, place, out);
    if (s != TIDE_OK || out->rt == rt) return s;
    tidei_operand_put(out);
    return tidei_foreign_array(op, place);
}

void tidei_operand_put(tidei_operand *o) {
    if (tidei_likely(o->t != NULL)) tidei_let_storage(o->t, o->st);
    tidei_storage_release(o->st);
}

tide_status tidei_operands_get(tide_array *const *arrays, size_t n, const char *op,
                               tidei_operand **out) {
    tidei_operand first;
    size_t got = 0;
    if (n == 0 || !arrays)
        return tidei_fail(TIDE_E_INVALID, op, n ? "arrays is NULL" : "there are no arrays");
    for (size_t i = 0; i < n; i++)
        if (!arrays[i]) return tidei_null_array(op, TIDEI_LISTED(1, i));
    tide_status s = tidei_operand_get(arrays[0], op, TIDEI_LISTED(1, 0), &first);
    if (s != TIDE_OK) return s;
    tidei_runtime *rt = first.rt;
    tidei_operand *o = n <= SIZE_MAX / sizeof *o ? tidei_scratch_host(rt, n * sizeof *o) : NULL;
    if (!o) s = tidei_fail_host_memory(op, n * sizeof *o);
    while (got < n && s == TIDE_OK) {
        s = tidei_operand_get_of(rt, arrays[got], op, TIDEI_LISTED(1, got), &o[got]);
        if (s == TIDE_OK) got++;
    }
    tidei_operand_put(&first);
    if (s == TIDE_OK) return *out = o, TIDE_OK;
    while (got > 0) tidei_operand_put(&o[--got]);
    tidei_scratch_host_free(rt, o);
    return s;
}

void tidei_operands_put(tidei_operand *o, size_t n) {
    tidei_runtime *rt = o[0].rt;
    while (n > 0) tidei_operand_put(&o[--n]);
    tidei_scratch_host_free(rt, o);
}

void tidei_operand_keep(tidei_operand *o) {
    tidei_let(o->t, o->st);
    o->t = NULL;
}

tidei_use tidei_operand_use(const tidei_operand *o, unsigned mode) {
    int64_t lo, hi, size = (int64_t)tide_dtype_size(o->lay.dtype);
    tidei_layout_extent(&o->lay, &lo, &hi);
    return (tidei_use){.st = o->st,
                       .offset = (size_t)(lo * size),
                       .bytes = (size_t)((hi - lo) * size),
                       .mode = mode};
}

bool tidei_operands_overlap(const tidei_operand *a, const tidei_operand *b) {
    int64_t a_lo, a_hi, b_lo, b_hi;
    if (a->st != b->st) return false;
    tidei_layout_extent(&a->lay, &a_lo, &a_hi);
    tidei_layout_extent(&b->lay, &b_lo, &b_hi);
    return a_lo < b_hi && b_lo < a_hi;
}

/* ---- results ---- */

/* The bytes of a shape that no layout holds: 0 if it is empty, SIZE_MAX if no size_t holds them
** either. */
static size_t bytes_wanted(tide_dtype t, int ndim, const int64_t *shape) {
    size_t bytes = tide_dtype_size(t);
    bool whole = true;
    for (int i = 0; i < ndim; i++) {
        if (!shape[i]) return 0;
        whole = whole && !__builtin_mul_overflow(bytes, (size_t)shape[i], &bytes);
    }
    return whole ? bytes : SIZE_MAX;
}

/* Finds the pool for a new array: the thread's current one, else that of the runtime's kind. */
static tide_status find_pool(tidei_thread *t, tide_memory kind, const char *op, tidei_pool **out) {
    tidei_dev *d = t->dev;
    if (tidei_unlikely(
            kind > TIDE_MEMORY_DEVICE || kind < 0 ||
            (kind == TIDE_MEMORY_DEFAULT && d->memory->usual != TIDEI_MEM_DEVICE && !t->here.pool)))
        return tidei_kind_pool(d, kind, op, out);
    *out = tidei_pool_here(d);
    return TIDE_OK;
}

tide_memory tidei_operand_kind(const tidei_operand *o) {
    return tidei_kind_public(o->st->pool->kind);
}

tide_status tidei_operand_make(tidei_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                               const char *op, tidei_operand *out) {
    return tidei_operand_make_in(rt, TIDE_MEMORY_DEVICE, t, ndim, shape, op, out);
}

/* Of the operand's layout; not held yet. */
static inline tide_status make_storage(tidei_pool *pool, tidei_thread *t, const char *op,
                                       tidei_operand *out) {
    size_t bytes = (size_t)tidei_layout_size(&out->lay) * tidei_dtype_size(out->lay.dtype);
    out->rt = tidei_thread_runtime(t);
    out->t = t;
    return tidei_storage_new_in(pool, bytes, tidei_thread_stream(t), op, &out->st);
}

/* Not held yet. */
static inline tide_status make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                  const int64_t *shape, const char *op, tidei_operand *out) {
    tidei_pool *pool;
    tide_status s = tidei_layout_make(t, ndim, shape, op, &out->lay);
    size_t absurd = s == TIDE_E_NOMEM ? bytes_wanted(t, ndim, shape) : 0;
    if (s != TIDE_OK && !absurd) return s;
    tidei_thread *thread = tidei_thread_get(rt);
    if (!thread || !tidei_may_make(rt, op)) return tidei_last_status();
    s = find_pool(thread, kind, op, &pool);
    if (s != TIDE_OK) return s;
    if (absurd) return tidei_out_of_memory_in(pool->dev, pool->kind, absurd, op);
    return make_storage(pool, thread, op, out);
}

tide_status tidei_operand_make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                  const int64_t *shape, const char *op, tidei_operand *out) {
    tide_status s = make_in(rt, kind, t, ndim, shape, op, out);
    if (s == TIDE_OK) tidei_hold_storage(out->t, out->st);
    return s;
}

tide_status tidei_operand_make_like(const tidei_operand *like, tidei_dev *d, const char *op,
                                    tidei_operand *out) {
    tidei_operand o = {.rt = like->rt, .t = tidei_thread_get(like->rt)};
    tide_status s = tidei_layout_make(like->lay.dtype, like->lay.ndim, like->lay.shape, op, &o.lay);
    if (s == TIDE_OK && !tidei_may_make(like->rt, op)) s = tidei_last_status();
    if (s != TIDE_OK) return s;
    size_t bytes = (size_t)tidei_layout_size(&o.lay) * tidei_dtype_size(o.lay.dtype);
    s = tidei_storage_new_in(tidei_pool_here(d), bytes, tidei_thread_stream_on(o.t, d), op, &o.st);
    if (s != TIDE_OK) return s;
    tidei_hold_storage(o.t, o.st);
    *out = o;
    return TIDE_OK;
}

/* Makes an array over the storage, on a thread that may make arrays. */
static inline tide_array *array_over(tidei_runtime *rt, tidei_thread *t, tidei_storage *st,
                                     const tidei_layout *lay, const char *op) {
    tidei_header *h = tidei_header_new(rt, &t->free_list, st, lay);
    if (tidei_unlikely(!h)) {
        tidei_fail_host_memory(op, sizeof *h);
        tidei_storage_release(st);
        return NULL;
    }
    if (rt->gc_ops->new_cell(rt, t, h) != TIDE_OK) {
        tidei_report(h, tidei_header_generation(h),
                     TIDEI_DEAD | TIDEI_GONE); /* the storage goes with it, at a drain */
        return NULL;
    }
    return h->home;
}

tide_array *tidei_array_over(tidei_runtime *rt, tidei_storage *st, const tidei_layout *lay,
                             const char *op) {
    tidei_thread *t = tidei_thread_get(rt);
    if (tidei_likely(t && tidei_may_make(rt, op))) return array_over(rt, t, st, lay, op);
    tidei_storage_release(st);
    return NULL;
}

/* An array that no user has seen. A tracing collector may have found it dead already: then its
** header is free or another array's, and does not have this storage, which is retained here. */
static void undo_made(tidei_runtime *rt, tidei_thread *t, void *st, uintptr_t header) {
    tidei_header *h = (tidei_header *)header;
    (void)t;
    if (h->st == st && (h->home != &h->cell || rt->gc_ops->release(h) != TIDE_OK))
        tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
    tidei_storage_release(st);
}

tide_array *tidei_array_make(tidei_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                             const char *op, tidei_operand *o) {
    return tidei_array_make_in(rt, TIDE_MEMORY_DEFAULT, t, ndim, shape, op, o);
}

/* The operand's thread, storage and layout are there; the storage is not held yet. */
static inline tide_array *make_over(tidei_runtime *rt, const char *op, tidei_operand *o) {
    tide_array *a =
        /* made while it alone refers to the storage, so that the storage's weight is counted */
        array_over(rt, o->t, o->st, &o->lay, op);
    if (!a) return NULL;
    tidei_storage_retain(o->st);
    tidei_hold(o->t, undo_made, o->st, (uintptr_t)tidei_cell_header(a));
    tidei_keep(a);
    return a;
}

tide_array *tidei_array_make_in(tidei_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                const int64_t *shape, const char *op, tidei_operand *o) {
    return make_in(rt, kind, t, ndim, shape, op, o) == TIDE_OK ? make_over(rt, op, o) : NULL;
}

tide_array *tidei_array_make_as(tidei_thread *t, const tidei_layout *lay, const char *op,
                                tidei_operand *o) {
    tidei_runtime *rt = tidei_thread_runtime(t);
    tidei_pool *pool;
    if (!tidei_may_make(rt, op) || find_pool(t, TIDE_MEMORY_DEFAULT, op, &pool) != TIDE_OK)
        return NULL;
    o->lay = *lay;
    return make_storage(pool, t, op, o) == TIDE_OK ? make_over(rt, op, o) : NULL;
}

tide_array *tidei_array_make_over(tidei_runtime *rt, tidei_storage *st, const tidei_layout *lay,
                                  const char *op, tidei_operand *o) {
    *o = (tidei_operand){.rt = rt, .t = tidei_thread_get(rt), .st = st, .lay = *lay};
    if (tidei_likely(o->t && tidei_may_make(rt, op))) return make_over(rt, op, o);
    tidei_storage_release(st);
    return NULL;
}

void tidei_array_drop(tide_array *a) {
    tidei_header *h = tidei_cell_header(a);
    tidei_runtime *rt = atomic_load_explicit(&h->deaths->rt, memory_order_relaxed);
    tidei_saved_error e;
    tidei_error_save(&e);
    /* A tracing owner holds no reference: there the cell stays until its collector finds it. */
    if (atomic_load_explicit(&h->refs, memory_order_relaxed) == 0 ||
        rt->gc_ops->release(h) != TIDE_OK)
        tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
    tidei_keep(a);
    tidei_error_restore(&e);
}

static void undo_temporary(tidei_runtime *rt, tidei_thread *t, void *a, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    tide_release(a);
    tidei_array_drop(a);
}

static tidei_thread *thread_of(tide_array *a) {
    return tidei_thread_get(
        atomic_load_explicit(&tidei_cell_header(a)->deaths->rt, memory_order_relaxed));
}

tide_array *tidei_temporary(tide_array *a, const char *op) {
    if (!a) return NULL;
    if (tide_retain(a)) {
        tidei_hold(thread_of(a), undo_temporary, a, 0);
        return a;
    }
    tidei_array_drop(a);
    tidei_fail_as(op);
    return NULL;
}

void tidei_temporary_end(tide_array *a) {
    if (!a) return;
    tidei_let(thread_of(a), a);
    undo_temporary(NULL, NULL, a, 0);
}

tide_array *tidei_array_done(tide_array *a, tidei_operand *o, tide_status s) {
    tidei_operand_put(o);
    if (s == TIDE_OK) return a;
    tidei_array_drop(a);
    return NULL;
}
