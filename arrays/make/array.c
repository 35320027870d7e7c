/* array.c: making arrays, keeping and dropping them, looking at them, and bringing their elements
** to the host. */
#include <inttypes.h>
#include <math.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/ir.h"
#include "arrays/make/cuda_early.h"
#include "gc/gc.h"
#include "runtime/memory/subranges.h"

/* ---- making ---- */

tide_array *tide_empty(tide_runtime *ref, tide_dtype t, int ndim, const int64_t *shape) {
    TIDEI_OPERATION("tide_empty");
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, "tide_empty");
    tide_array *a = rt ? tidei_array_make(rt, t, ndim, shape, "tide_empty", &o) : NULL;
    return a ? tidei_array_done(a, &o, TIDE_OK) : NULL;
}

static tide_array *make_full(tide_runtime *ref, tide_dtype t, int ndim, const int64_t *shape,
                             tide_arg value, const char *op) {
    TIDEI_OPERATION(op);
    unsigned char element[16];
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt || tidei_encode(value, t, op, element) != TIDE_OK) return NULL;
    tide_array *a = tidei_array_make(rt, t, ndim, shape, op, &o);
    if (!a) return NULL;
    return tidei_array_done(a, &o,
                            tidei_submit_fill(tidei_stream_here(rt), o.st, 0, element,
                                              tide_dtype_size(t), (size_t)tidei_layout_size(&o.lay),
                                              op));
}

tide_array *tide_zeros(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    return make_full(rt, t, ndim, shape, tide_arg_bool(0), "tide_zeros");
}
tide_array *tide_ones(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape) {
    return make_full(rt, t, ndim, shape, tide_arg_bool(1), "tide_ones");
}
tide_array *tide_full(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                      tide_arg value) {
    return make_full(rt, t, ndim, shape, value, "tide_full");
}

/* ---- from the host ---- */

static tide_status copy_in(const tidei_operand *o, size_t at, const void *data, size_t bytes) {
    return tidei_submit_copy(tidei_stream_for(o), TIDEI_COPY_H2D, o->st, at, (void *)data, NULL, 0,
                             bytes, "tide_from_host");
}

static bool all_are_bools(const unsigned char *p, size_t n) {
    unsigned char seen = 0;
    for (size_t i = 0; i < n; i++) seen |= p[i];
    return seen <= 1;
}

/* Copies bools whose bytes are not all 0 or 1: any other byte becomes 1, as in C. Kernels count and
** compare bools, so only these two values may occur. */
static tide_status copy_truths(const tidei_operand *o, const unsigned char *data, size_t n) {
    size_t room = tidei_min_size(n, TIDEI_MIB);
    unsigned char *buf = tidei_scratch_host(o->rt, room);
    tide_status s = buf ? TIDE_OK : tidei_fail_host_memory("tide_from_host", room);
    for (size_t at = 0; at < n && s == TIDE_OK; at += room) {
        size_t some = tidei_min_size(room, n - at);
        for (size_t i = 0; i < some; i++) buf[i] = data[at + i] != 0;
        s = copy_in(o, at, buf, some);
    }
    tidei_scratch_host_free(o->rt, buf);
    return s;
}

tide_array *tide_from_host(tide_runtime *ref, tide_dtype t, int ndim, const int64_t *shape,
                           const void *data) {
    TIDEI_OPERATION("tide_from_host");
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, "tide_from_host");
    tide_array *a = rt ? tidei_array_make(rt, t, ndim, shape, "tide_from_host", &o) : NULL;
    if (!a) return NULL;
    size_t n = o.st->bytes;
    tide_status s = n && !data ? tidei_fail(TIDE_E_INVALID, "tide_from_host", "data is NULL")
                    : t == TIDE_BOOL && !all_are_bools(data, n) ? copy_truths(&o, data, n)
                                                                : copy_in(&o, 0, data, n);
    return tidei_array_done(a, &o, s);
}

/* ---- arange ---- */

/* Whether stop - start is beyond f64. Then all is computed in halves, which are exact there. */
static bool arange_wide(double start, double stop) { return isinf(stop - start); }

static tide_status arange_count(double start, double stop, double step, int64_t *count) {
    double n = ceil(arange_wide(start, stop) ? (stop / 2 - start / 2) / (step / 2)
                                             : (stop - start) / step);
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step))
        return tidei_fail(TIDE_E_INVALID, "tide_arange",
                          "start %g, stop %g, step %g: all must be finite", start, stop, step);
    if (step == 0) return tidei_fail(TIDE_E_INVALID, "tide_arange", "the step is 0");
    /* so large a count is beyond any memory */
    *count = n >= 0x1p62 ? INT64_MAX : n > 0 ? (int64_t)n : 0;
    return TIDE_OK;
}

/* The bounds and the step, and the last element, must be numbers of the type. */
static tide_status arange_fits(tide_dtype t, double start, double stop, double step,
                               int64_t count) {
    unsigned char element[16];
    if (t == TIDE_BOOL)
        return tidei_fail(TIDE_E_DTYPE, "tide_arange", "%s has no ranges", tide_dtype_name(t));
    if (tidei_dtype_kind(t) == TIDEI_KIND_INT || tidei_dtype_kind(t) == TIDEI_KIND_UINT) {
        if (start != trunc(start) || stop != trunc(stop) || step != trunc(step))
            return tidei_fail(TIDE_E_DTYPE, "tide_arange",
                              "start %.15g, stop %.15g, step %.15g: %s wants integers", start, stop,
                              step, tide_dtype_name(t));
    }
    if (count == 0) return TIDE_OK;
    double half = arange_wide(start, stop) ? 0.5 : 1,
           last = half * start + (double)(count - 1) * (half * step);
    tide_status s = tidei_encode(tide_arg_float(start), t, "tide_arange", element);
    return s == TIDE_OK ? tidei_encode(tide_arg_float(last / half), t, "tide_arange", element) : s;
}

static void program_node(tidei_program *p, tidei_op op, tide_dtype t, int a, int b) {
    p->nodes[p->nnodes++] =
        (tidei_node){.op = (uint8_t)op, .dtype = (uint8_t)t, .a = (uint16_t)a, .b = (uint16_t)b};
}

/* start + index * step in `t`'s work type (f64 or 64-bit integers, which wrap to the right value),
** cast to t. `twice`: of halves. */
void tidei_arange_program(tide_dtype t, tide_dtype work, bool twice, tidei_program *p) {
    memset(p, 0, sizeof *p);
    p->nscalars = 2;
    p->scalar_dtype[0] = p->scalar_dtype[1] = (uint8_t)work;
    program_node(p, TIDEI_OP_LINEAR, TIDE_I64, 0, 0);
    program_node(p, TIDEI_OP_CAST, work, 0, 0);
    program_node(p, TIDEI_OP_SCALAR, work, 1, 0);
    program_node(p, TIDEI_OP_MUL, work, 1, 2);
    program_node(p, TIDEI_OP_SCALAR, work, 0, 0);
    program_node(p, TIDEI_OP_ADD, work, 4, 3);
    if (twice) program_node(p, TIDEI_OP_ADD, work, 5, 5);
    program_node(p, TIDEI_OP_CAST, t, p->nnodes - 1, 0);
    p->nouts = 1;
    p->out_node[0] = p->nnodes - 1;
    p->out_dtype[0] = (uint8_t)t;
}

static tide_status arange_run(const tidei_operand *o, double start, double stop, double step) {
    tide_dtype t = o->lay.dtype;
    bool wide = arange_wide(start, stop); /* floats alone: integers end at 2^64 */
    bool real =
        tidei_dtype_kind(t) == TIDEI_KIND_FLOAT || tidei_dtype_kind(t) == TIDEI_KIND_COMPLEX;
    tidei_program p;
    tidei_call c = {.ndim = 1, .shape = {o->lay.shape[0]}, .out[0] = {.st = o->st, .strides = {1}}};
    if (o->lay.shape[0] == 0) return TIDE_OK;
    tidei_arange_program(t, real ? TIDE_F64 : TIDE_I64, wide, &p);
    c.prog = tidei_program_shared(o->rt, &p);
    if (!c.prog) return tidei_fail_host_memory("tide_arange", sizeof p);
    if (real) {
        if (wide) start /= 2, step /= 2;
        memcpy(c.scalars[0], &start, sizeof start);
        memcpy(c.scalars[1], &step, sizeof step);
        /* u64 counts beyond 2^63 modulo 2^64, as the result does */
    } else {
        if (o->lay.shape[0] == 1) step = 0; /* the step is not used, and need not fit the type */
        uint64_t from = start < 0 ? 0 - (uint64_t)-start : (uint64_t)start,
                 by = step < 0 ? 0 - (uint64_t)-step : (uint64_t)step;
        memcpy(c.scalars[0], &from, sizeof from);
        memcpy(c.scalars[1], &by, sizeof by);
    }
    return tidei_backend_of(o->st->dev)->run(tidei_stream_here(o->rt), &c, "tide_arange");
}

tide_array *tide_arange(tide_runtime *ref, tide_dtype t, double start, double stop, double step) {
    TIDEI_OPERATION("tide_arange");
    int64_t count;
    tidei_operand o;
    tidei_runtime *rt = tidei_entered(ref, "tide_arange");
    if (!rt || tidei_dtype_check(t, "tide_arange") != TIDE_OK) return NULL;
    if (arange_count(start, stop, step, &count) != TIDE_OK ||
        arange_fits(t, start, stop, step, count) != TIDE_OK)
        return NULL;
    tide_array *a = tidei_array_make(rt, t, 1, &count, "tide_arange", &o);
    return a ? tidei_array_done(a, &o, arange_run(&o, start, stop, step)) : NULL;
}

/* ---- to the host ---- */

tide_status tide_to_host(tide_array *a, void *dst, size_t bytes) {
    TIDEI_OPERATION("tide_to_host");
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_to_host", 1, &o);
    if (s != TIDE_OK) return s;
    size_t wanted = (size_t)tidei_layout_size(&o.lay) * tide_dtype_size(o.lay.dtype);
    if (bytes != wanted)
        s = tidei_fail(TIDE_E_INVALID, "tide_to_host", "the array has %zu bytes, not %zu", wanted,
                       bytes);
    else if (bytes && !dst)
        s = tidei_fail(TIDE_E_INVALID, "tide_to_host", "dst is NULL");
    else
        s = tidei_operand_read(&o, dst, "tide_to_host");
    tidei_operand_put(&o);
    return s;
}

static tide_status read_item(tide_array *a, const char *op, tide_arg *out) {
    TIDEI_OPERATION(op);
    unsigned char element[16];
    char text[192];
    tidei_operand o;
    tide_status s = tidei_operand_get(a, op, 1, &o);
    if (s != TIDE_OK) return s;
    if (tidei_layout_size(&o.lay) != 1)
        s = tidei_fail(TIDE_E_SHAPE, op, "an array of shape %s is not one element",
                       tidei_shape_text(text, sizeof text, o.lay.ndim, o.lay.shape));
    else
        s = tidei_operand_read(&o, element, op);
    if (s == TIDE_OK) *out = tidei_decode(element, o.lay.dtype);
    tidei_operand_put(&o);
    return s;
}

tide_status tide_item(tide_array *a, tide_arg *out) {
    if (!a) return tidei_null_array("tide_item", 1);
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_item", "out is NULL");
    return read_item(a, "tide_item", out);
}

double tide_item_f64(tide_array *a) {
    tide_arg v;
    if (read_item(a, "tide_item_f64", &v) != TIDE_OK) return NAN;
    switch (v.kind) {
    case TIDE_ARG_FLOAT: return v.value.f;
    case TIDE_ARG_UINT: return (double)v.value.u;
    case TIDE_ARG_COMPLEX:
        tidei_fail(TIDE_E_DTYPE, "tide_item_f64", "the element is complex");
        return NAN;
    default: return (double)v.value.i;
    }
}

/* ---- keeping and dropping ---- */

/* The header of an array that is not freed; NULL with the error set otherwise. The caller keeps the
** cell alive. */
static tidei_header *live_header(tide_array *a, const char *op) {
    if (tidei_unlikely(!a)) return (void)tidei_null_array(op, 1), NULL;
    tidei_header *h = a->hidden ? tidei_cell_header(a) : NULL;
    if (h && !atomic_load_explicit(&h->deaths->rt, memory_order_relaxed)) {
        tidei_fail(TIDE_E_CLOSED, op, "the array's runtime was closed");
        return NULL;
    }
    if (!h || atomic_load_explicit(&h->word, memory_order_acquire) & TIDEI_DEAD) {
        tidei_fail(TIDE_E_FREED, op, "the array was freed");
        return NULL;
    }
    return h;
}

void tide_free(tide_array *a) {
    if (!a || !a->hidden) return;
    tidei_header *h = tidei_cell_header(a);
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
    tidei_keep(a);
}

tide_array *tide_retain(tide_array *a) {
    tidei_runtime *rt; /* attaches the thread: the collector may have to allocate */
    if (tidei_operand_runtime(a, "tide_retain", 1, &rt) != TIDE_OK) return NULL;
    if (rt->gc_ops->retain(tidei_cell_header(a)) != TIDE_OK) return NULL;
    tidei_keep(a);
    return a;
}

void tide_release(tide_array *a) {
    if (!a || !a->hidden) return;
    (void)tidei_gc_release(tidei_cell_header(a));
    tidei_keep(a);
}

tide_status tide_array_on_death(tide_array *a, void (*fn)(void *user), void *user) {
    tidei_operand o; /* holds the runtime open to this thread */
    if (!a) return tidei_null_array("tide_array_on_death", 1);
    if (!fn) return tidei_fail(TIDE_E_INVALID, "tide_array_on_death", "fn is NULL");
    tide_status s = tidei_operand_get(a, "tide_array_on_death", 1, &o);
    if (s != TIDE_OK) return s;
    tidei_death_note *note = tidei_host_alloc(o.rt, sizeof *note);
    if (note) {
        *note = (tidei_death_note){.fn = fn, .user = user};
        pthread_mutex_t *lock = &tidei_arrays_of(o.rt)->notes_lock;
        pthread_mutex_lock(lock);
        tidei_death_note **end = &tidei_cell_header(a)->notes;
        while (*end) end = &(*end)->next;
        *end = note;
        pthread_mutex_unlock(lock);
    } else
        s = tidei_fail_host_memory("tide_array_on_death", sizeof *note);
    tidei_operand_put(&o);
    tidei_keep(a);
    return s;
}

tide_status tide_array_set_ordered(tide_array *a, int on) {
    tidei_operand o;
    tide_status s = tidei_operand_get(a, "tide_array_set_ordered", 1, &o);
    if (s != TIDE_OK) return s;
    s = tidei_switch(on, "tide_array_set_ordered");
    if (s == TIDE_OK) s = tidei_storage_set_ordered(o.st, on != 0, "tide_array_set_ordered");
    tidei_operand_put(&o);
    return s;
}

/* ---- looking ---- */

tide_runtime *tide_array_runtime(tide_array *a) {
    tidei_header *h = live_header(a, "tide_array_runtime");
    const tidei_runtime *rt = h ? atomic_load_explicit(&h->deaths->rt, memory_order_acquire) : NULL;
    tidei_keep(a);
    return rt ? rt->ref : NULL;
}

tide_dtype tide_array_dtype(tide_array *a) {
    tidei_header *h = live_header(a, "tide_array_dtype");
    tide_dtype t = h ? h->lay.dtype : -1;
    tidei_keep(a);
    return t;
}

int tide_array_ndim(tide_array *a) {
    tidei_header *h = live_header(a, "tide_array_ndim");
    int n = h ? h->lay.ndim : -1;
    tidei_keep(a);
    return n;
}

int64_t tide_array_dim(tide_array *a, int axis) {
    tidei_header *h = live_header(a, "tide_array_dim");
    int64_t n = h && tidei_axis(axis, h->lay.ndim, "tide_array_dim", &axis) == TIDE_OK
                    ? h->lay.shape[axis]
                    : -1;
    tidei_keep(a);
    return n;
}

int64_t tide_array_size(tide_array *a) {
    tidei_header *h = live_header(a, "tide_array_size");
    int64_t n = h ? tidei_layout_size(&h->lay) : -1;
    tidei_keep(a);
    return n;
}

int64_t tide_array_stride(tide_array *a, int axis) {
    tidei_header *h = live_header(a, "tide_array_stride");
    int64_t n = h && tidei_axis(axis, h->lay.ndim, "tide_array_stride", &axis) == TIDE_OK
                    ? h->lay.strides[axis]
                    : 0;
    tidei_keep(a);
    return n;
}

int tide_array_is_contiguous(tide_array *a) {
    tidei_header *h = live_header(a, "tide_array_is_contiguous");
    int yes = h ? tidei_layout_contiguous(&h->lay) : 0;
    tidei_keep(a);
    return yes;
}

int tide_array_is_freed(tide_array *a) {
    if (!a) return live_header(a, "tide_array_is_freed") != NULL;
    int yes = !a->hidden ||
              atomic_load_explicit(&tidei_cell_header(a)->word, memory_order_acquire) & TIDEI_DEAD;
    tidei_keep(a);
    return yes;
}
