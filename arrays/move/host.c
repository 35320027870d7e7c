/* host.c: the host's own access to arrays: views, single elements; arrays of a kind of memory, and
** where unified memory is.
**
** Model. A view holds its array's storage and a pin, and is lent (lent.h), so that using a view
** that was ended, or whose runtime was closed, is a checked error. The host waits for the storage's
** uses so far; from then on the caller keeps the order until the view ends, and the host device's
** checker checks that. A view needs memory that the host can address on a GPU too: not device
** memory, though on a host device it could be addressed. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/move/lent.h"
#include "runtime/memory/capture.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/pool/pools.h"
#include <tide/device.h>

/* ---- arrays of a kind ---- */

tide_array *tide_empty_in(tide_runtime *ref, tide_memory kind, tide_dtype t, int ndim,
                          const int64_t *shape) {
    TIDEI_OPERATION("tide_empty_in");
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, "tide_empty_in");
    tide_array *a = rt ? tidei_array_make_in(rt, kind, t, ndim, shape, "tide_empty_in", &o) : NULL;
    return a ? tidei_array_done(a, &o, TIDE_OK) : NULL;
}

tide_array *tide_to_memory(tide_array *a, tide_memory kind) {
    TIDEI_OPERATION("tide_to_memory");
    tidei_operand src;
    if (tidei_operand_get(a, "tide_to_memory", 1, &src) != TIDE_OK) return NULL;
    tide_array *made = tidei_copy_in(&src, kind, src.lay.dtype, "tide_to_memory");
    tidei_operand_put(&src);
    return made;
}

tide_memory tide_array_memory(tide_array *a) {
    tidei_operand o;
    if (tidei_operand_get(a, "tide_array_memory", 1, &o) != TIDE_OK) return -1;
    tide_memory kind = tidei_operand_kind(&o);
    tidei_operand_put(&o);
    return kind;
}

int tide_array_device(tide_array *a) {
    tidei_operand o;
    if (tidei_operand_get(a, "tide_array_device", 1, &o) != TIDE_OK) return -1;
    int number = tidei_dev_number(o.st->dev);
    tidei_operand_put(&o);
    return number;
}

/* ---- waiting ---- */

static bool reachable(const tidei_operand *o) { return o->st->pool->kind != TIDEI_MEM_DEVICE; }

#define REMEDIES                                                                                   \
    "copy the data (tide_to_host, tide_item), or make the array in unified or pinned memory "      \
    "(tide_to_memory, "                                                                            \
    "tide_empty_in, TIDE_DEFAULT_MEMORY=unified)"

static bool is_lost(tidei_dev *d) { return tidei_unlikely(atomic_load(&d->d->lost)); }

/* A sync point of the storage alone. `always`: the policy is asked even if there is nothing to wait
** for. On a lost device all looks done, though work that runs may still touch the memory: so
** whether it is lost is asked after the looks. */
static tide_status wait_here(const tidei_operand *o, unsigned mode, bool always, const char *op) {
    tidei_dev *d = o->st->dev;
    tide_status captured = tidei_capture_refused(d->rt, op, "touches elements on the host");
    if (captured != TIDE_OK) return captured;
    if (is_lost(d)) return tidei_lost(d, op);
    if (d->rt->streams->skip_waits) return TIDE_OK;
    tidei_use use = tidei_operand_use(o, mode);
    bool pending = tidei_use_pending(&use);
    if (pending || always) tidei_ask(d->rt, d, TIDEI_AT_SYNC, 0);
    tide_status status = pending ? tidei_use_wait(&use) : TIDE_OK;
    if (is_lost(d)) return tidei_lost(d, op);
    if (pending && status == TIDE_OK)
        tidei_pools_look(d, false); /* other work may go on, and giving back waits for it */
    return status == TIDE_OK ? tidei_take_fault(d->rt, op) : tidei_fail_as(op);
}

/* ---- what the checker is told ---- */

static tidei_range range_of(const tidei_operand *o, unsigned mode) {
    tidei_use u = tidei_operand_use(o, mode);
    return (tidei_range){.addr = o->st->addr + u.offset, .bytes = u.bytes, .mode = mode};
}

static tide_status begins(tidei_dev *d, const tidei_range *r, const char *op) {
    if (!d->d->ops->host_use || !r->bytes) return TIDE_OK;
    tide_status status = d->d->ops->host_use(d->d, op, r, true);
    tidei_device_speak(d->d);
    return status;
}

static void ends(tidei_dev *d, const tidei_range *r, const char *op) {
    if (d->d->ops->host_use && r->bytes) (void)d->d->ops->host_use(d->d, op, r, false);
}

/* ---- views ---- */

typedef struct host_use {
    tidei_lent lent;
    tidei_operand o; /* its storage is pinned */
    tidei_range range;
} host_use;

static void let_go(tidei_lent *l) {
    host_use *u = (host_use *)l;
    tidei_runtime *rt = u->o.rt;
    ends(u->o.st->dev, &u->range, "tide_host_view_end");
    tidei_storage_unpin(u->o.st);
    tidei_operand_put(&u->o);
    tidei_host_free(rt, u);
}

/* Fills in the user's view; its `reserved` is the reference. */
static void show(const host_use *u, tide_host_view *v) {
    const tidei_layout *l = &u->o.lay;
    *v = (tide_host_view){.ndim = l->ndim, .dtype = l->dtype};
    if (u->o.st->bytes)
        v->data =
            (void *)(uintptr_t)(u->o.st->addr + (tidei_addr)l->offset * tidei_dtype_size(l->dtype));
    memcpy(v->shape, l->shape, (size_t)l->ndim * sizeof *l->shape);
    memcpy(v->strides, l->strides, (size_t)l->ndim * sizeof *l->strides);
    v->reserved[0] = (uintptr_t)u->lent.ref;
}

static void undo_view(tidei_runtime *rt, tidei_thread *t, void *u, uintptr_t of) {
    (void)t, (void)of;
    tidei_storage_unpin(((host_use *)u)->o.st);
    tidei_host_free(rt, u);
}

/* Takes the operand over on success. */
static tide_status open_view(tidei_operand *o, unsigned mode, tide_host_view *view) {
    static const char op[] = "tide_host_view_begin";
    tidei_dev *d = o->st->dev;
    if (!reachable(o))
        return tidei_fail(
            TIDE_E_UNSUPPORTED, op,
            "the array is in device memory, which the host does not reach: " REMEDIES);
    tide_status status = mode & TIDEI_WRITE ? tidei_writable(&o->lay, "the array", op) : TIDE_OK;
    if (status != TIDE_OK) return status;
    host_use *u = tidei_host_alloc(o->rt, sizeof *u);
    if (!u) return tidei_fail_host_memory(op, sizeof *u);
    u->o = *o;
    u->range = range_of(o, mode);
    tidei_storage_pin(o->st);
    tidei_hold(o->t, undo_view, u, 0);
    status = wait_here(o, mode, true, op);
    tidei_let(o->t, u);
    if (status == TIDE_OK) status = begins(d, &u->range, op);
    if (status == TIDE_OK) {
        status = tidei_lend(o->rt, TIDEI_REF_VIEW, &u->lent, let_go, op);
        if (status == TIDE_OK) {
            tidei_operand_keep(o);
            u->o.t = NULL;
            return show(u, view), TIDE_OK;
        }
        ends(d, &u->range, op);
    }
    tidei_storage_unpin(o->st);
    tidei_host_free(o->rt, u);
    return status;
}

tide_status tide_host_view_begin(tide_array *a, int mode, tide_host_view *view) {
    TIDEI_OPERATION("tide_host_view_begin");
    tidei_operand o;
    if (!a) return tidei_null_array("tide_host_view_begin", 1);
    if (!view) return tidei_fail(TIDE_E_INVALID, "tide_host_view_begin", "view is NULL");
    if (!mode || mode & ~(TIDE_READ | TIDE_WRITE))
        return tidei_fail(TIDE_E_INVALID, "tide_host_view_begin",
                          "mode %d is none of TIDE_READ, TIDE_WRITE, or both", mode);
    tide_status s = tidei_operand_get(a, "tide_host_view_begin", 1, &o);
    if (s != TIDE_OK) return s;
    s = open_view(&o, (unsigned)mode, view);
    if (s != TIDE_OK) tidei_operand_put(&o);
    return s;
}

tide_status tide_host_view_end(tide_host_view *view) {
    if (!view || !view->reserved[0])
        return tidei_fail(TIDE_E_INVALID, "tide_host_view_end",
                          "the view is NULL, was never begun, or was ended");
    const void *ref = (const void *)(uintptr_t)view->reserved[0];
    memset(view, 0, sizeof *view);
    tidei_lent *l = tidei_take_back(TIDEI_REF_VIEW, ref, "tide_host_view_end");
    if (!l) return tidei_last_status();
    let_go(l);
    return TIDE_OK;
}

/* ---- single elements ---- */

/* The element as an operand of rank 0, of the same storage. */
static tide_status pick(tidei_operand *o, const int64_t *index, const char *op) {
    tidei_layout *l = &o->lay;
    char text[192];
    if (l->ndim && !index) return tidei_fail(TIDE_E_INVALID, op, "index is NULL");
    for (int i = 0; i < l->ndim; i++) {
        int64_t n = l->shape[i], k = index[i] < 0 ? index[i] + n : index[i];
        if (k < 0 || k >= n)
            return tidei_fail(
                TIDE_E_BOUNDS, op, "index %lld of axis %d is outside an array of shape %s",
                (long long)index[i], i, tidei_shape_text(text, sizeof text, l->ndim, l->shape));
        l->offset += k * l->strides[i];
    }
    l->ndim = 0;
    return TIDE_OK;
}

/* Whether single elements of device memory may be copied. */
static tide_status may_copy(const tidei_operand *o, const char *op) {
    if (tidei_thread_get(o->rt)->scalar) return TIDE_OK;
    return tidei_fail(TIDE_E_UNSUPPORTED, op,
                      "the array is in device memory, where each element costs a round trip to the "
                      "device: " REMEDIES ", or allow it (tide_thread_allow_scalar)");
}

static void *address(const tidei_operand *o) {
    return (void *)(uintptr_t)(o->st->addr +
                               (tidei_addr)o->lay.offset * tidei_dtype_size(o->lay.dtype));
}

/* Moves the one element to or from `element`. */
static tide_status move_element(const tidei_operand *o, void *element, unsigned mode,
                                const char *op) {
    size_t size = tidei_dtype_size(o->lay.dtype);
    tidei_range r = range_of(o, mode);
    tide_status s = wait_here(o, mode, false, op);
    if (s == TIDE_OK) s = begins(o->st->dev, &r, op);
    if (s != TIDE_OK) return s;
    if (mode & TIDEI_WRITE)
        memcpy(address(o), element, size);
    else
        memcpy(element, address(o), size);
    ends(o->st->dev, &r, op);
    return TIDE_OK;
}

static tide_status copy_element(const tidei_operand *o, void *element, unsigned mode,
                                const char *op) {
    size_t size = tidei_dtype_size(o->lay.dtype), at = (size_t)o->lay.offset * size;
    tide_status s = may_copy(o, op);
    if (s != TIDE_OK) return s;
    if (!(mode & TIDEI_WRITE)) return tidei_operand_read(o, element, op);
    return tidei_submit_copy(tidei_stream_for(o), TIDEI_COPY_H2D, o->st, at, element, NULL, 0, size,
                             op);
}

static tide_status touch_element(const tidei_operand *o, void *element, unsigned mode,
                                 const char *op) {
    return reachable(o) ? move_element(o, element, mode, op) : copy_element(o, element, mode, op);
}

tide_status tide_array_get(tide_array *a, const int64_t *index, tide_arg *out) {
    TIDEI_OPERATION("tide_array_get");
    unsigned char element[16];
    tidei_operand o;
    if (!a) return tidei_null_array("tide_array_get", 1);
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_array_get", "out is NULL");
    tide_status s = tidei_operand_get(a, "tide_array_get", 1, &o);
    if (s != TIDE_OK) return s;
    s = pick(&o, index, "tide_array_get");
    if (s == TIDE_OK) s = touch_element(&o, element, TIDEI_READ, "tide_array_get");
    if (s == TIDE_OK) *out = tidei_decode(element, o.lay.dtype);
    tidei_operand_put(&o);
    return s;
}

tide_status tide_array_set(tide_array *a, const int64_t *index, tide_arg value) {
    TIDEI_OPERATION("tide_array_set");
    unsigned char element[16];
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_array_set", 1, &o);
    if (s != TIDE_OK) return s;
    s = tidei_writable(&o.lay, "the array", "tide_array_set");
    if (s == TIDE_OK) s = pick(&o, index, "tide_array_set");
    if (s == TIDE_OK) s = tidei_encode(value, o.lay.dtype, "tide_array_set", element);
    if (s == TIDE_OK) s = touch_element(&o, element, TIDEI_WRITE, "tide_array_set");
    tidei_operand_put(&o);
    return s;
}

int tide_thread_allow_scalar(tide_runtime *ref, int on) {
    static const char op[] = "tide_thread_allow_scalar";
    tidei_thread *t = tidei_enter(ref, op);
    if (!t || tidei_switch(on, op) != TIDE_OK) return 0;
    int before = t->scalar;
    t->scalar = on != 0;
    return before;
}

/* ---- where unified memory is ---- */

/* The elements [first, first + count) of the stretch that the operand spans, as a use. */
static tide_status stretch(const tidei_operand *o, int64_t first, int64_t count, const char *op,
                           tidei_use *out) {
    int64_t lo, hi;
    size_t size = tidei_dtype_size(o->lay.dtype);
    if (o->st->pool->kind != TIDEI_MEM_UNIFIED)
        return tidei_fail(
            TIDE_E_UNSUPPORTED, op,
            "the array is in %s memory, which stays where it is; unified memory moves",
            tidei_kind_name(o->st->pool->kind));
    tidei_layout_extent(&o->lay, &lo, &hi);
    if (first < 0 || count < 0 || first > hi - lo || count > hi - lo - first)
        return tidei_fail(TIDE_E_BOUNDS, op,
                          "%lld elements from %lld on reach beyond the %lld that the array spans",
                          (long long)count, (long long)first, (long long)(hi - lo));
    *out = (tidei_use){o->st, (size_t)(lo + first) * size, (size_t)count * size, TIDEI_READ};
    return TIDE_OK;
}

static tide_status prefetch(const tidei_operand *o, const tidei_use *use, bool to_host) {
    tidei_dev *d = o->st->dev;
    tidei_stream *s = tidei_stream_for(o);
    tidei_submission w;
    if (!use->bytes) return TIDE_OK;
    tide_status status = tidei_submit_begin(&w, s, use, 1, "tide_array_prefetch");
    if (status != TIDE_OK) return status;
    if (d->d->ops->prefetch)
        status = d->d->ops->prefetch(d->d, s->ds, w.ranges[0].addr, use->bytes, to_host);
    return tidei_submit_end(&w, status);
}

tide_status tide_array_prefetch(tide_array *a, int64_t first, int64_t count, int where) {
    TIDEI_OPERATION("tide_array_prefetch");
    tidei_operand o;
    tidei_use use;
    if (!a) return tidei_null_array("tide_array_prefetch", 1);
    if (where != TIDE_TO_DEVICE && where != TIDE_TO_HOST)
        return tidei_fail(TIDE_E_INVALID, "tide_array_prefetch",
                          "where is %d; wanted: TIDE_TO_DEVICE or TIDE_TO_HOST", where);
    tide_status s = tidei_operand_get(a, "tide_array_prefetch", 1, &o);
    if (s != TIDE_OK) return s;
    s = stretch(&o, first, count, "tide_array_prefetch", &use);
    if (s == TIDE_OK) s = prefetch(&o, &use, where == TIDE_TO_HOST);
    tidei_operand_put(&o);
    return s;
}

tide_status tide_array_advise(tide_array *a, int64_t first, int64_t count, int advice) {
    static const tidei_advice table[] = {[TIDE_ADVISE_NONE] = TIDEI_ADVICE_NONE,
                                         [TIDE_ADVISE_READ_MOSTLY] = TIDEI_ADVICE_READ_MOSTLY,
                                         [TIDE_ADVISE_DEVICE] = TIDEI_ADVICE_DEVICE,
                                         [TIDE_ADVISE_HOST] = TIDEI_ADVICE_HOST};
    tidei_operand o;
    tidei_use use;
    if (!a) return tidei_null_array("tide_array_advise", 1);
    if (advice < TIDE_ADVISE_NONE || advice > TIDE_ADVISE_HOST)
        return tidei_fail(TIDE_E_INVALID, "tide_array_advise", "%d is none of TIDE_ADVISE_*",
                          advice);
    tide_status s = tidei_operand_get(a, "tide_array_advise", 1, &o);
    if (s != TIDE_OK) return s;
    s = stretch(&o, first, count, "tide_array_advise", &use);
    if (s == TIDE_OK) s = tidei_capture_refused(o.rt, "tide_array_advise", "tells of an address");
    if (s == TIDE_OK && use.bytes) {
        s = tidei_advise(o.st->dev, o.st->addr, use.offset, use.bytes, table[advice]);
        if (s != TIDE_OK) s = tidei_device_failed(o.st->dev->stream0, s, "tide_array_advise");
    }
    tidei_operand_put(&o);
    return s;
}
