/* data.c: data in host memory, of any strides, on its way into dense memory: copied, narrowed,
** bools made 0 or 1.
**
** Axes are walked from the outside; from the first one on behind which all elements lie in a row,
** one stretch is copied. */
#include "arrays/move/adapt.h"

tide_data tide_data_host(tide_dtype t, int ndim, const int64_t *shape, const void *host) {
    tide_data d = {.host = (void *)(uintptr_t)host, .dtype = t, .ndim = ndim};
    if (shape)
        for (int i = 0; i < ndim && i < TIDE_MAX_RANK; i++) d.shape[i] = shape[i];
    return d;
}

tide_data tide_data_array(tide_array *a) {
    tidei_operand o;
    tide_data d = {0};
    if (tidei_operand_get(a, "tide_data_array", 1, &o) != TIDE_OK) return d;
    d.array = a;
    d.dtype = o.lay.dtype;
    d.ndim = o.lay.ndim;
    memcpy(d.shape, o.lay.shape, sizeof d.shape);
    tidei_operand_put(&o);
    return d;
}

tide_status tidei_data_check(const tide_data *d, const char *name, const char *op) {
    tide_status s = tidei_shape_check(d->dtype, d->ndim, d->shape, op);
    return s == TIDE_OK ? s : tidei_fail(s, op, "%s: %s", name, tide_error_last()->message);
}

tide_dtype tidei_narrowed(tide_dtype t) {
    return t == TIDE_F64 ? TIDE_F32 : t == TIDE_C128 ? TIDE_C64 : t;
}

/* ---- elements in a row ---- */

static void narrow(const char *src, char *dst, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double wide;
        memcpy(&wide, src + i * sizeof wide, sizeof wide);
        float f = (float)wide;
        memcpy(dst + i * sizeof f, &f, sizeof f);
    }
}

static void copy_truths(const unsigned char *src, unsigned char *dst, size_t n) {
    for (size_t i = 0; i < n; i++) dst[i] = src[i] != 0;
}

void tidei_elements_pack(tide_dtype from, tide_dtype to, const void *src, void *dst, size_t n) {
    if (from != to)
        narrow(src, dst, from == TIDE_C128 ? 2 * n : n);
    else if (from == TIDE_BOOL)
        copy_truths(src, dst, n);
    else if (src != dst)
        memcpy(dst, src, n * tidei_dtype_size(from));
}

/* ---- strides ---- */

struct walk {
    tide_dtype from, to;
    int ndim, row; /* from axis `row` on, the elements lie in a row */
    const int64_t *shape;
    int64_t step[TIDE_MAX_RANK];      /* bytes */
    int64_t count[TIDE_MAX_RANK + 1]; /* elements from this axis on */
};

static void walk_of(const tide_data *d, tide_dtype to, struct walk *w) {
    int64_t size = (int64_t)tidei_dtype_size(d->dtype);
    *w = (struct walk){
        .from = d->dtype, .to = to, .ndim = d->ndim, .row = d->ndim, .shape = d->shape};
    if (d->strides)
        memcpy(w->step, d->strides, (size_t)d->ndim * sizeof *w->step);
    else
        tidei_row_major(d->ndim, d->shape, w->step);
    for (int i = 0; i < d->ndim; i++) w->step[i] *= size;
    w->count[d->ndim] = 1;
    for (int i = d->ndim; i-- > 0;) {
        bool in_row = w->row == i + 1 && (d->shape[i] == 1 || w->step[i] == size * w->count[i + 1]);
        if (in_row) w->row = i;
        w->count[i] = w->count[i + 1] * d->shape[i];
    }
}

/* Returns the end of what was written. */
static char *pack_from(const struct walk *w, int axis, const char *src, char *dst) {
    if (axis >= w->row) {
        tidei_elements_pack(w->from, w->to, src, dst, (size_t)w->count[axis]);
        return dst + (size_t)w->count[axis] * tidei_dtype_size(w->to);
    }
    for (int64_t i = 0; i < w->shape[axis]; i++)
        dst = pack_from(w, axis + 1, src + i * w->step[axis], dst);
    return dst;
}

void tidei_data_pack(const tide_data *d, tide_dtype to, void *dst) {
    struct walk w;
    walk_of(d, to, &w);
    if (w.count[0]) pack_from(&w, 0, d->host, dst);
}

void tidei_data_pack_samples(const tide_data *d, tide_dtype to, int64_t first,
                             const int64_t *samples, int64_t n, void *dst) {
    struct walk w;
    char *at = dst;
    walk_of(d, to, &w);
    if (!w.count[1]) return;
    if (!samples && w.row == 0) {
        tidei_elements_pack(w.from, to, (const char *)d->host + first * w.step[0], dst,
                            (size_t)(n * w.count[1]));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = samples ? samples[i] : first + i;
        at = pack_from(&w, 1, (const char *)d->host + sample * w.step[0], at);
    }
}
