/* copy.c: moving elements: copies, casts, assignment into views, fills, reading to the host.
**
** One dtype and no gaps is a plain device copy or fill; all else is a program of one or two nodes
** run by the expression engine, so strides, broadcasting and casts have one implementation. Work is
** done where the destination is; what its device does not reach is made dense where it is and
** brought over first. What the engine wants: operands overlap nothing, or are the same view;
** overlapping assignments go through a temporary. */
#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "arrays/expr/ir.h"

/* ---- programs ---- */

/* out = cast(in), or out = scalar. */
static void one_value_program(tidei_op leaf, tide_dtype from, tide_dtype to, tidei_program *p) {
    memset(p, 0, sizeof *p);
    p->nodes[p->nnodes++] = (tidei_node){.op = (uint8_t)leaf, .dtype = (uint8_t)from};
    if (leaf == TIDEI_OP_INPUT) {
        p->ninputs = 1;
        p->input_dtype[0] = (uint8_t)from;
    } else {
        p->nscalars = 1;
        p->scalar_dtype[0] = (uint8_t)from;
    }
    if (from != to) p->nodes[p->nnodes++] = (tidei_node){.op = TIDEI_OP_CAST, .dtype = (uint8_t)to};
    p->nouts = 1;
    p->out_node[0] = p->nnodes - 1;
    p->out_dtype[0] = (uint8_t)to;
}

/* The iteration space is dst's; dst is not empty. */
static void call_over(const tidei_operand *dst, tidei_call *c) {
    const tidei_layout *l = &dst->lay;
    *c = (tidei_call){.ndim = l->ndim, .out[0] = {.st = dst->st, .offset = l->offset}};
    memcpy(c->shape, l->shape, sizeof c->shape);
    memcpy(c->out[0].strides, l->strides, sizeof l->strides);
}

static tide_status run(const tidei_operand *dst, tidei_call *c, const tidei_program *p,
                       const char *op) {
    c->prog = tidei_program_shared(dst->rt, p);
    if (!c->prog) return tidei_fail_host_memory(op, sizeof *p);
    tidei_call_collapse(c);
    return tidei_backend_of(dst->st->dev)->run(tidei_stream_for(dst), c, op);
}

/* ---- elements ---- */

static bool same_shape(const tidei_layout *a, const tidei_layout *b) {
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

/* Stores by way of a dense copy: on the source's device if the source is not dense itself, else on
** the destination's. */
static tide_status store_over(tidei_runtime *rt, const tidei_operand *dst, const tidei_operand *src,
                              const char *op) {
    tidei_dev *d = tidei_layout_contiguous(&src->lay) ? dst->st->dev : src->st->dev;
    tidei_operand dense;
    tide_status s = tidei_operand_make_like(src, d, op, &dense);
    if (s != TIDE_OK) return s;
    s = tidei_store_elements(rt, &dense, src, op);
    if (s == TIDE_OK) s = tidei_store_elements(rt, dst, &dense, op);
    tidei_operand_put(&dense);
    return s;
}

tide_status tidei_store_elements(tidei_runtime *rt, const tidei_operand *dst,
                                 const tidei_operand *src, const char *op) {
    tide_dtype from = src->lay.dtype, to = dst->lay.dtype;
    size_t size = tide_dtype_size(to), n = (size_t)tidei_layout_size(&dst->lay);
    tidei_program p;
    tidei_call c;
    if (tidei_dtype_kind(from) == TIDEI_KIND_COMPLEX &&
        tidei_dtype_kind(to) != TIDEI_KIND_COMPLEX && to != TIDE_BOOL)
        return tidei_fail(TIDE_E_DTYPE, op,
                          "%s has no cast to %s: take the real part, or the modulus",
                          tide_dtype_name(from), tide_dtype_name(to));
    if (n == 0) return TIDE_OK;
    if (from == to && same_shape(&dst->lay, &src->lay) && tidei_layout_contiguous(&dst->lay) &&
        tidei_layout_contiguous(&src->lay))
        return tidei_submit_transfer(tidei_thread_get(rt), dst->st, (size_t)dst->lay.offset * size,
                                     src->st, (size_t)src->lay.offset * size, n * size, op);
    if (tidei_unlikely(!tidei_peer_possible(dst->st->dev, src->st)))
        return store_over(rt, dst, src, op);
    one_value_program(TIDEI_OP_INPUT, from, to, &p);
    call_over(dst, &c);
    c.in[0] = (tidei_view){.st = src->st, .offset = src->lay.offset};
    tidei_broadcast_strides(&src->lay, dst->lay.ndim, dst->lay.shape, c.in[0].strides);
    return run(dst, &c, &p, op);
}

tide_status tidei_copy_elements(tidei_runtime *rt, const tidei_operand *dst,
                                const tidei_operand *src, const char *op) {
    tidei_check(dst->lay.dtype == src->lay.dtype && same_shape(&dst->lay, &src->lay));
    return tidei_store_elements(rt, dst, src, op);
}

/* ---- fresh copies ---- of the operand's kind of memory */

tide_array *tidei_copy_in(const tidei_operand *src, tide_memory kind, tide_dtype t,
                          const char *op) {
    tidei_operand dst;
    tide_array *a = tidei_array_make_in(src->rt, kind, t, src->lay.ndim, src->lay.shape, op, &dst);
    return a ? tidei_array_done(a, &dst, tidei_store_elements(src->rt, &dst, src, op)) : NULL;
}

tide_array *tide_cast(tide_array *a, tide_dtype t) {
    TIDEI_OPERATION("tide_cast");
    tidei_operand src;
    if (tidei_operand_get(a, "tide_cast", 1, &src) != TIDE_OK) return NULL;
    tide_array *made = tidei_copy_in(&src, tidei_operand_kind(&src), t, "tide_cast");
    tidei_operand_put(&src);
    return made;
}

tide_array *tide_copy(tide_array *a) {
    TIDEI_OPERATION("tide_copy");
    tidei_operand src;
    if (tidei_operand_get(a, "tide_copy", 1, &src) != TIDE_OK) return NULL;
    tide_array *made = tidei_copy_in(&src, tidei_operand_kind(&src), src.lay.dtype, "tide_copy");
    tidei_operand_put(&src);
    return made;
}

tide_array *tide_contiguous(tide_array *a) {
    TIDEI_OPERATION("tide_contiguous");
    tidei_operand src;
    if (tidei_operand_get(a, "tide_contiguous", 1, &src) != TIDE_OK) return NULL;
    if (tidei_layout_contiguous(&src.lay))
        return tidei_array_over(src.rt, tidei_operand_give(&src), &src.lay, "tide_contiguous");
    tide_array *made =
        tidei_copy_in(&src, tidei_operand_kind(&src), src.lay.dtype, "tide_contiguous");
    tidei_operand_put(&src);
    return made;
}

/* ---- assignment ---- */

static tide_status check_target(const tidei_layout *dst, const tidei_layout *src, const char *op) {
    int64_t shape[TIDE_MAX_RANK];
    int ndim = dst->ndim;
    char to[192], from[192];
    memcpy(shape, dst->shape, sizeof shape);
    tide_status s = tidei_broadcast(&ndim, shape, src, op);
    if (s != TIDE_OK) return s;
    if (ndim != dst->ndim || memcmp(shape, dst->shape, (size_t)ndim * sizeof *shape) != 0)
        return tidei_fail(TIDE_E_SHAPE, op, "shape %s does not stretch to the destination's %s",
                          tidei_shape_text(from, sizeof from, src->ndim, src->shape),
                          tidei_shape_text(to, sizeof to, dst->ndim, dst->shape));
    const char *lost = tidei_cast_lost(src->dtype, dst->dtype);
    if (lost)
        return tidei_fail(TIDE_E_DTYPE, op, "%s into %s: %s; tide_cast first",
                          tide_dtype_name(src->dtype), tide_dtype_name(dst->dtype), lost);
    return tidei_writable(dst, "the destination", op);
}

static tide_status assign(const tidei_operand *dst, const tidei_operand *src, const char *op) {
    tidei_operand temporary;
    tide_status s = check_target(&dst->lay, &src->lay, op);
    if (s != TIDE_OK) return s;
    if (!tidei_operands_overlap(dst, src)) return tidei_store_elements(dst->rt, dst, src, op);
    if (tidei_layout_same(&dst->lay, &src->lay))
        return TIDE_OK; /* one storage has one dtype: nothing would change */
    s = tidei_operand_make_like(src, dst->st->dev, op, &temporary);
    if (s != TIDE_OK) return s;
    s = tidei_copy_elements(src->rt, &temporary, src, op);
    if (s == TIDE_OK) s = tidei_store_elements(dst->rt, dst, &temporary, op);
    tidei_operand_put(&temporary);
    return s;
}

tide_status tide_assign(tide_array *dst, tide_array *src) {
    TIDEI_OPERATION("tide_assign");
    tidei_operand d, o;
    tide_status s = tidei_no_nulls("tide_assign", (tide_array *const[]){dst, src}, 2);
    if (s == TIDE_OK) s = tidei_operand_get(dst, "tide_assign", 1, &d);
    if (s != TIDE_OK) return s;
    s = tidei_operand_get_of(d.rt, src, "tide_assign", 2, &o);
    if (s == TIDE_OK) {
        s = assign(&d, &o, "tide_assign");
        tidei_operand_put(&o);
    }
    tidei_operand_put(&d);
    return s;
}

/* ---- fills ---- */

tide_status tidei_fill_elements(const tidei_operand *dst, const void *element, const char *op) {
    tide_dtype t = dst->lay.dtype;
    size_t size = tide_dtype_size(t);
    tidei_program p;
    tidei_call c;
    if (tidei_layout_size(&dst->lay) == 0) return TIDE_OK;
    if (tidei_layout_contiguous(&dst->lay))
        return tidei_submit_fill(tidei_stream_for(dst), dst->st, (size_t)dst->lay.offset * size,
                                 element, size, (size_t)tidei_layout_size(&dst->lay), op);
    one_value_program(TIDEI_OP_SCALAR, t, t, &p);
    call_over(dst, &c);
    memcpy(c.scalars[0], element, size);
    return run(dst, &c, &p, op);
}

/* Elements of any size that are no numbers: words of the same size, whose bytes pass through
** unchanged. Elements of 16 bytes are two such words. */
static tide_status fill_bytes(const tidei_operand *dst, const void *element, const char *op) {
    static const tide_dtype words[] = {TIDE_U8, TIDE_U16, TIDE_U32, TIDE_U64};
    size_t size = tide_dtype_size(dst->lay.dtype);
    tidei_operand part = *dst;
    if (size < 16 || tidei_layout_contiguous(&dst->lay)) {
        if (size < 16) part.lay.dtype = words[__builtin_ctzll(size)];
        return tidei_fill_elements(&part, element, op);
    }
    part.lay.dtype = TIDE_U64;
    part.lay.offset *= 2;
    for (int i = 0; i < part.lay.ndim; i++) part.lay.strides[i] *= 2;
    tide_status s = tidei_fill_elements(&part, element, op);
    part.lay.offset++;
    return s == TIDE_OK ? tidei_fill_elements(&part, element, op) : s;
}

tide_status tide_memset(tide_array *dst, unsigned char value) {
    TIDEI_OPERATION("tide_memset");
    unsigned char element[16];
    tidei_operand d;
    tide_status s = tidei_operand_get(dst, "tide_memset", 1, &d);
    if (s != TIDE_OK) return s;
    memset(element, d.lay.dtype == TIDE_BOOL ? value != 0 : value, sizeof element);
    s = tidei_writable(&d.lay, "the destination", "tide_memset");
    if (s == TIDE_OK) s = fill_bytes(&d, element, "tide_memset");
    tidei_operand_put(&d);
    return s;
}

tide_status tide_fill(tide_array *dst, tide_arg value) {
    TIDEI_OPERATION("tide_fill");
    unsigned char element[16];
    tidei_operand d;
    tide_status s = tidei_operand_get(dst, "tide_fill", 1, &d);
    if (s != TIDE_OK) return s;
    s = tidei_writable(&d.lay, "the destination", "tide_fill");
    if (s == TIDE_OK) s = tidei_encode(value, d.lay.dtype, "tide_fill", element);
    if (s == TIDE_OK) s = tidei_fill_elements(&d, element, "tide_fill");
    tidei_operand_put(&d);
    return s;
}

/* ---- to the host ---- */

static tide_status read_dense(const tidei_operand *o, void *dst, const char *op) {
    size_t size = tide_dtype_size(o->lay.dtype);
    tidei_stream *s = tidei_stream_for(o);
    tide_status status =
        tidei_submit_copy(s, TIDEI_COPY_D2H, NULL, 0, dst, o->st, (size_t)o->lay.offset * size,
                          (size_t)tidei_layout_size(&o->lay) * size, op);
    return status == TIDE_OK ? tidei_take_fault(o->st->dev->rt, op) : status;
}

tide_status tidei_operand_read(const tidei_operand *o, void *dst, const char *op) {
    tidei_operand dense;
    if (tidei_layout_contiguous(&o->lay)) return read_dense(o, dst, op);
    tide_status s = tidei_operand_make_like(o, o->st->dev, op, &dense);
    if (s != TIDE_OK) return s;
    s = tidei_copy_elements(o->rt, &dense, o, op);
    if (s == TIDE_OK) s = read_dense(&dense, dst, op);
    tidei_operand_put(&dense);
    return s;
}
