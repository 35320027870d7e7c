/* shapes.h: what tests of shape.h share: sources of any strides, over all element types, with axes
** of 0, 1, 2 and more elements; and slow models, which say for each place of a result which element
** of the source stands there. */
#ifndef TIDETEST_SHAPES_H
#define TIDETEST_SHAPES_H

#include "tests/arrays/elements.h"

static inline int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
static inline int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}
static inline int rounds(void) { return test_quick() ? 150 : 1200; }

/* ---- sources ---- */

typedef struct source {
    tide_array *a;
    tide_dtype t;
    size_t size;
    int ndim;
    int64_t shape[TIDE_MAX_RANK], n;
    unsigned char *data; /* row-major */
} source;

/* Elements that tell their places apart; sound ones, of floats no NaN. */
static inline void fill_data(source *x, int64_t n) {
    x->data = malloc((size_t)n * x->size + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = x->t == TIDE_BOOL ? i * 7 / 3 & 1 : i * 5 % 127;
        assert_ok(tidei_encode(tide_arg_int(v), x->t, "test", x->data + (size_t)i * x->size));
    }
}

/* The array a, and its elements as they are read; a's rank and shape are looked up. */
static inline void source_of(source *x, tide_array *a) {
    assert_array(a);
    x->a = a;
    x->t = tide_array_dtype(a);
    x->size = tide_dtype_size(x->t);
    x->ndim = tide_array_ndim(a);
    x->n = tide_array_size(a);
    for (int i = 0; i < x->ndim; i++) x->shape[i] = tide_array_dim(a, i);
    x->data = malloc((size_t)x->n * x->size + 1);
    assert_ok(tide_to_host(a, x->data, (size_t)x->n * x->size));
}

enum { PLAIN, TURNED, STEPS, STRETCHED, LAYOUTS };

/* A source of that shape, in memory as `layout` says. */
static inline source make_source(tide_runtime *rt, tide_dtype t, int layout, int ndim,
                                 const int64_t *shape) {
    source x = {.t = t, .size = tide_dtype_size(t)};
    int64_t memory[TIDE_MAX_RANK], n = 1;
    char text[128] = "", *at = text;
    for (int i = 0; i < ndim; i++) {
        memory[i] = layout == TURNED ? shape[ndim - 1 - i] : shape[i];
        if (layout == STEPS) memory[i] = 2 * shape[i] + 1;
        if (layout == STRETCHED && i == 0 && shape[0]) memory[0] = 1;
        n *= memory[i];
        at += sprintf(at, "%s%s", i ? ", " : "", i % 2 ? "1::2" : "-2::-2");
    }
    fill_data(&x, n);
    tide_array *a = tide_from_host(rt, t, ndim, memory, x.data);
    free(x.data);
    if (layout == TURNED) a = tide_transpose(a, NULL);
    if (layout == STEPS && ndim) a = tide_slice(a, text);
    if (layout == STRETCHED) a = tide_broadcast_to(a, ndim, shape);
    source_of(&x, a);
    assert_int_equal(x.ndim, ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(x.shape[i], shape[i]);
    return x;
}

/* A random one of rank least to 4. */
static inline source draw_source(tide_runtime *rt, int round, int least) {
    static const int64_t lengths[] = {3, 1, 2, 5, 0, 4, 7};
    int64_t shape[TIDE_MAX_RANK];
    int ndim = least + (int)random_below(5 - least);
    for (int i = 0; i < ndim; i++) shape[i] = lengths[random_below(round % 8 ? 4 : 7)];
    return make_source(rt, (tide_dtype)(round % TIDE_DTYPE_COUNT), (int)random_below(LAYOUTS), ndim,
                       shape);
}

/* ---- the model ---- */

/* Where the element of a result at `index` comes from; false: it is `constant`. */
typedef bool where_fn(const source *x, const void *how, const int64_t *index, int64_t *from);

static inline void check_places(tide_array *got, const source *x, int ndim, const int64_t *shape,
                                where_fn *where, const void *how, const void *constant) {
    int64_t index[TIDE_MAX_RANK] = {0}, from[TIDE_MAX_RANK], n = 1;
    assert_array(got);
    assert_int_equal(tide_array_ndim(got), ndim);
    assert_int_equal(tide_array_dtype(got), x->t);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(got, i), shape[i]);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    unsigned char *want = malloc((size_t)n * x->size + 1);
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        bool there = where(x, how, index, from);
        for (int i = 0; i < x->ndim && there; i++) {
            assert_true(from[i] >= 0 && from[i] < x->shape[i]);
            at = at * x->shape[i] + from[i];
        }
        memcpy(want + (size_t)k * x->size,
               there ? x->data + (size_t)at * x->size : (const unsigned char *)constant, x->size);
        for (int i = ndim; i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
    }
    has_bytes(got, want, (size_t)n * x->size);
    free(want);
}

static inline int64_t modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

/* ---- where elements of results come from ---- */

struct windows {
    int n, axes[TIDE_MAX_RANK];
    int64_t lengths[TIDE_MAX_RANK], steps[TIDE_MAX_RANK];
};
static inline bool in_window(const source *x, const void *how, const int64_t *index,
                             int64_t *from) {
    const struct windows *w = how;
    memcpy(from, index, (size_t)x->ndim * sizeof *from);
    for (int i = 0; i < w->n; i++)
        from[w->axes[i]] = index[w->axes[i]] * w->steps[i] + index[x->ndim + i];
    return true;
}

static inline bool rolled(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const int64_t *shift = how;
    for (int i = 0; i < x->ndim; i++) from[i] = modulo(index[i] - shift[i], x->shape[i]);
    return true;
}
static inline bool rolled_flat(const source *x, const void *how, const int64_t *index,
                               int64_t *from) {
    int64_t at = 0;
    for (int i = 0; i < x->ndim; i++) at = at * x->shape[i] + index[i];
    at = modulo(at - *(const int64_t *)how, x->n);
    for (int i = x->ndim; i-- > 0; at /= x->shape[i]) from[i] = at % x->shape[i];
    return true;
}

struct border {
    int mode;
    int64_t before[TIDE_MAX_RANK];
};
static inline bool bordered(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct border *b = how;
    for (int i = 0; i < x->ndim; i++) {
        int64_t n = x->shape[i], p = index[i] - b->before[i];
        if (b->mode == TIDE_PAD_CONSTANT && (p < 0 || p >= n)) return false;
        if (b->mode == TIDE_PAD_EDGE) p = p < 0 ? 0 : p >= n ? n - 1 : p;
        if (b->mode == TIDE_PAD_WRAP) p = modulo(p, n);
        if (b->mode == TIDE_PAD_REFLECT) {
            p = n > 1 ? modulo(p, 2 * n - 2) : 0;
            if (p >= n) p = 2 * n - 2 - p;
        }
        from[i] = p;
    }
    return true;
}

static inline bool tiled(const source *x, const void *how, const int64_t *index, int64_t *from) {
    int more = *(const int *)how;
    for (int i = 0; i < x->ndim; i++) from[i] = index[i + more] % x->shape[i];
    return true;
}

#endif
