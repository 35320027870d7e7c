/* test_shape.c: the functions of shape.h against slow models, which say for each place of a result
** which element of the source stands there. Over all element types, sources of any strides, and
** axes of 0, 1, 2 and more elements. */
#include <math.h>
#include "tests/arrays/every_failure.h"
#include "tests/doubles/emulated_device.h"

static int open_runtime(void **state) {
    *state = test_open(NULL);
    return 0;
}
/* A host device that runs the kernels that a GPU has. */
static int open_emulated(void **state) {
    *state = NULL;
    if (!emu_compiler() || !test_on_host()) return 0;
    emulated_device = true;
    *state = test_open(NULL);
    emulated_device = false;
    return 0;
}
static int close_runtime(void **state) {
    tide_close(*state);
    return 0;
}

static uint64_t seed = 88172645463325252u;
static int64_t random_below(int64_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)((seed >> 11) % (uint64_t)n);
}
static int rounds(void) { return test_quick() ? 150 : 1200; }

static void has_bytes(tide_array *a, const void *want, size_t bytes) {
    assert_array(a);
    void *got = malloc(bytes + 1);
    assert_ok(tide_to_host(a, got, bytes));
    assert_memory_equal(got, want, bytes);
    free(got);
}
#define HAS_I32(a, ...) has_bytes(a, (int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}))
#define HAS_F64(a, ...) has_bytes(a, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}))

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
static void fill_data(source *x, int64_t n) {
    x->data = malloc((size_t)n * x->size + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = x->t == TIDE_BOOL ? i * 7 / 3 & 1 : i * 5 % 127;
        assert_ok(tidei_encode(tide_arg_int(v), x->t, "test", x->data + (size_t)i * x->size));
    }
}

/* The array a, and its elements as they are read; a's rank and shape are looked up. */
static void source_of(source *x, tide_array *a) {
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
static source make_source(tide_runtime *rt, tide_dtype t, int layout, int ndim,
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
static source draw_source(tide_runtime *rt, int round, int least) {
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

static void check_places(tide_array *got, const source *x, int ndim, const int64_t *shape,
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

static int64_t modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

/* ---- views ---- */

static bool flipped(const source *x, const void *how, const int64_t *index, int64_t *from) {
    for (int i = 0; i < x->ndim; i++)
        from[i] = *(const unsigned *)how >> i & 1 ? x->shape[i] - 1 - index[i] : index[i];
    return true;
}

static void flip_turns_axes_around(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        unsigned set = 0;
        int axes[TIDE_MAX_RANK], n = 0;
        for (int i = x.ndim; i-- > 0;)
            if (random_below(2)) {
                axes[n++] = random_below(2) ? i : i - x.ndim;
                set |= 1u << i;
            }
        check_places(tide_flip(x.a, axes, n), &x, x.ndim, x.shape, flipped, &set, NULL);
        set = 255;
        check_places(tide_flip(x.a, NULL, 77), &x, x.ndim, x.shape, flipped, &set, NULL);
        free(x.data);
    }
}

struct order {
    int n, of[TIDE_MAX_RANK]; /* axis i of the result is axis of[i] */
};
static bool moved(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct order *o = how;
    (void)x;
    for (int i = 0; i < o->n; i++) from[o->of[i]] = index[i];
    return true;
}
/* NumPy's words: the others in order, then each inserted at its destination, from the first on. */
static void insert_axes(struct order *o, const int *axes, const int *destination, int n) {
    for (int place = 0; place < TIDE_MAX_RANK; place++)
        for (int i = 0; i < n; i++)
            if (destination[i] == place) {
                memmove(o->of + place + 1, o->of + place, (size_t)(o->n - place) * sizeof *o->of);
                o->of[place] = axes[i];
                o->n++;
            }
}

static void moveaxis_puts_axes_where_they_belong(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        int perm[2][TIDE_MAX_RANK], n = x.ndim ? (int)random_below(x.ndim + 1) : 0;
        struct order o = {0};
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < x.ndim; i++) {
                int j = (int)random_below(i + 1);
                perm[k][i] = perm[k][j];
                perm[k][j] = i;
            }
        for (int i = 0; i < x.ndim; i++) {
            bool takes_part = false;
            for (int k = 0; k < n; k++) takes_part |= perm[0][k] == i;
            if (!takes_part) o.of[o.n++] = i;
        }
        insert_axes(&o, perm[0], perm[1], n);
        int64_t shape[TIDE_MAX_RANK];
        for (int i = 0; i < x.ndim; i++) shape[i] = x.shape[o.of[i]];
        for (int i = 0; i < n; i++) perm[i % 2][i] -= x.ndim; /* from the end */
        check_places(tide_moveaxis(x.a, perm[0], perm[1], n), &x, x.ndim, shape, moved, &o, NULL);
        free(x.data);
    }
}

struct diagonal {
    int axis[2];
    int64_t offset;
};
static bool on_diagonal(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct diagonal *d = how;
    int at = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != d->axis[0] && i != d->axis[1]) from[i] = index[at++];
    from[d->axis[0]] = index[at] + (d->offset < 0 ? -d->offset : 0);
    from[d->axis[1]] = index[at] + (d->offset > 0 ? d->offset : 0);
    return true;
}

static void diagonals_are_views(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 2);
        struct diagonal d = {.offset = random_below(9) - 4};
        d.axis[0] = (int)random_below(x.ndim);
        d.axis[1] = (d.axis[0] + 1 + (int)random_below(x.ndim - 1)) % x.ndim;
        int64_t shape[TIDE_MAX_RANK], length = 0;
        int n = 0;
        for (int i = 0; i < x.ndim; i++)
            if (i != d.axis[0] && i != d.axis[1]) shape[n++] = x.shape[i];
        for (int64_t i = 0; i < x.shape[d.axis[0]]; i++)
            length += i + d.offset >= 0 && i + d.offset < x.shape[d.axis[1]];
        shape[n++] = length;
        check_places(tide_diagonal(x.a, d.offset, d.axis[0], d.axis[1] - x.ndim), &x, n, shape,
                     on_diagonal, &d, NULL);
        free(x.data);
    }
    tide_array *a = tide_zeros(*state, TIDE_I32, SHAPE(2, 3));
    assert_ok(tide_fill(tide_diagonal(a, 1, 0, 1), tide_arg_int(7)));
    HAS_I32(a, 0, 7, 0, 0, 0, 7);
    assert_int_equal(tide_array_size(tide_diagonal(a, INT64_MIN, 0, 1)), 0);
    assert_int_equal(tide_array_size(tide_diagonal(a, INT64_MAX, 0, 1)), 0);
}

struct windows {
    int n, axes[TIDE_MAX_RANK];
    int64_t lengths[TIDE_MAX_RANK], steps[TIDE_MAX_RANK];
};
static bool in_window(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct windows *w = how;
    memcpy(from, index, (size_t)x->ndim * sizeof *from);
    for (int i = 0; i < w->n; i++)
        from[w->axes[i]] = index[w->axes[i]] * w->steps[i] + index[x->ndim + i];
    return true;
}

static void windows_slide(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        struct windows w = {0};
        int64_t shape[TIDE_MAX_RANK];
        bool in_order = round % 3 == 0, ones = round % 2;
        memcpy(shape, x.shape, sizeof shape);
        for (int i = 0; i < x.ndim; i++) {
            int axis = in_order ? i : x.ndim - 1 - i;
            if (!in_order && random_below(2)) continue;
            int64_t n = x.shape[axis], length = random_below(n + 1),
                    step = ones ? 1 : 1 + random_below(4);
            w.axes[w.n] = axis;
            w.lengths[w.n] = length;
            w.steps[w.n] = step;
            shape[x.ndim + w.n++] = length;
            shape[axis] = 0;
            for (int64_t at = 0; at + length <= n; at += step) shape[axis]++;
        }
        check_places(
            tide_windows(x.a, in_order ? NULL : w.axes, w.lengths, ones ? NULL : w.steps, w.n), &x,
            x.ndim + w.n, shape, in_window, &w, NULL);
        free(x.data);
    }
}

static void what_overlaps_is_not_written(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(6));
    const int64_t two = 2, three = 3;
    tide_array *sliding = tide_windows(a, NULL, &two, NULL, 1),
               *apart = tide_windows(a, NULL, &two, &two, 1),
               *gaps = tide_windows(a, NULL, &two, &three, 1);
    assert_int_equal(tide_fill(sliding, tide_arg_int(1)), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "several of its elements lie in one place");
    assert_int_equal(tide_map_into(sliding, "(x) -> x + 1", sliding), TIDE_E_INVALID);
    assert_int_equal(tide_memset(sliding, 1), TIDE_E_INVALID);
    assert_int_equal(tide_assign(sliding, a), TIDE_E_SHAPE);
    assert_int_equal(tide_assign(tide_slice(sliding, ":, :"), apart), TIDE_E_SHAPE);
    assert_int_equal(tide_assign(sliding, tide_slice(sliding, "::-1")), TIDE_E_INVALID);
    HAS_I32(a, 0, 0, 0, 0, 0, 0);
    assert_ok(tide_fill(apart, tide_arg_int(1)));
    HAS_I32(a, 1, 1, 1, 1, 1, 1);
    assert_ok(tide_fill(gaps, tide_arg_int(2)));
    HAS_I32(a, 2, 2, 1, 2, 2, 1);
    assert_ok(tide_fill(tide_slice(sliding, "::2"), tide_arg_int(3)));
    HAS_I32(a, 3, 3, 3, 3, 3, 3);
    assert_ok(tide_fill(tide_slice(sliding, ":, 0"), tide_arg_int(4)));
    HAS_I32(a, 4, 4, 4, 4, 4, 3);
    HAS_I32(tide_sum(tide_cast(sliding, TIDE_I32), (const int[]){1}, 1, 0), 8, 0, 8, 0, 8, 0, 8, 0,
            7, 0); /* i64 */
}

/* Whether two elements lie in one place, by looking. */
static bool meets_itself(tide_array *a) {
    int64_t index[TIDE_MAX_RANK] = {0}, n = tide_array_size(a), places[4096];
    int ndim = tide_array_ndim(a);
    bool meets = false;
    assert_true(n < 4096);
    for (int64_t k = 0; k < n; k++) {
        places[k] = 0;
        for (int i = 0; i < ndim; i++) places[k] += index[i] * tide_array_stride(a, i);
        for (int64_t j = 0; j < k; j++) meets |= places[j] == places[k];
        for (int i = ndim; i-- > 0 && ++index[i] == tide_array_dim(a, i);) index[i] = 0;
    }
    return meets;
}

/* Windows of windows, slices and diagonals of them: what meets itself is refused; what does not is
** refused only where some axis slides. */
static void views_know_whether_they_meet_themselves(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 1);
        tide_array *a = x.a;
        bool slid = false;
        for (int k = 0; k < 3; k++) {
            int axis = (int)random_below(tide_array_ndim(a));
            int64_t n = tide_array_dim(a, axis), length = n < 2 ? n : 1 + random_below(2),
                    step = 1 + random_below(3);
            switch (random_below(5)) {
            case 0: a = tide_flip(a, &axis, 1); break;
            case 1: a = tide_moveaxis(a, &axis, (const int[]){0}, 1); break;
            case 2: a = tide_slice(a, "..., ::2"); break;
            case 3:
                if (tide_array_ndim(a) > 1)
                    a = tide_diagonal(a, random_below(3) - 1, axis,
                                      (axis + 1) % tide_array_ndim(a));
                break;
            default:
                if (tide_array_ndim(a) == TIDE_MAX_RANK || tide_array_size(a) > 500) break;
                a = tide_windows(a, &axis, &length, &step, 1);
                slid = true;
            }
            assert_array(a);
        }
        bool stretched = false;
        for (int i = 0; i < tide_array_ndim(a); i++)
            stretched |= tide_array_dim(a, i) > 1 && tide_array_stride(a, i) == 0;
        tide_status s = tide_fill(a, tide_arg_int(1));
        bool meets = meets_itself(a);
        if (meets) assert_int_equal(s, TIDE_E_INVALID);
        if (!meets && !slid && !stretched) assert_ok(s);
        free(x.data);
    }
}

static void reshape_with_says_whether_it_copies(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 6, 1), SHAPE(2, 3)),
               *turned = tide_transpose(a, NULL);
    for (int copy = TIDE_COPY_IF_NEEDED; copy <= TIDE_COPY_ALWAYS; copy++) {
        tide_array *b = tide_reshape_with(a, SHAPE(3, -1), copy);
        HAS_I32(b, 0, 1, 2, 3, 4, 5);
        assert_ok(tide_fill(tide_slice(b, "0, 0"), tide_arg_int(copy + 7)));
        HAS_I32(tide_slice(a, "0, 0"), copy == TIDE_COPY_ALWAYS ? 0 : copy + 7);
        assert_ok(tide_fill(tide_slice(a, "0, 0"), tide_arg_int(0)));
        tide_array *c = tide_reshape_with(turned, SHAPE(6), copy);
        if (copy == TIDE_COPY_NEVER) {
            assert_null(c);
            assert_error(TIDE_E_SHAPE, "no view of this array of shape (3, 2) has shape (6,)");
        } else
            HAS_I32(c, 0, 3, 1, 4, 2, 5);
        if (copy == TIDE_COPY_ALWAYS) HAS_I32(tide_slice(a, "0, 0"), 0);
    }
    assert_null(tide_reshape_with(a, SHAPE(6), 3));
    assert_error(TIDE_E_INVALID, "3 is no way to copy");
    assert_null(tide_reshape_with(a, SHAPE(7), TIDE_COPY_NEVER));
    assert_error(TIDE_E_SHAPE, "7");
}

/* ---- several at once ---- */

static void unstack_gives_each_its_own(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_reshape(tide_arange(rt, TIDE_I32, 0, 6, 1), SHAPE(2, 3)), *outs[3];
    assert_ok(tide_unstack(a, 0, outs, 2));
    HAS_I32(outs[1], 3, 4, 5);
    assert_ok(tide_unstack(tide_transpose(a, NULL), -2, outs, 3));
    HAS_I32(outs[2], 2, 5);
    assert_ok(tide_fill(outs[2], tide_arg_int(9)));
    HAS_I32(a, 0, 1, 9, 3, 4, 9);
    assert_ok(tide_unstack(tide_slice(a, "0:0"), 0, NULL, 0));
    assert_ok(tide_unstack(tide_slice(a, ":, 0:0"), 0, outs, 2));
    assert_int_equal(tide_array_size(outs[1]), 0);
    outs[0] = NULL;
    assert_int_equal(tide_unstack(a, 0, outs, 3), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "3 results are wanted; there are 2");
    assert_null(outs[0]);
    assert_int_equal(tide_unstack(tide_slice(a, "0, 0"), 0, outs, 1), TIDE_E_BOUNDS);
    assert_int_equal(tide_unstack(a, 0, NULL, 2), TIDE_E_INVALID);
}

/* More of them than stacks have room for, while collections go on. */
static void many_are_handed_out_together(void **state) {
    enum { MANY = 3000 };
    static tide_array *outs[MANY];
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, MANY, 1);
    assert_ok(tide_unstack(a, 0, outs, MANY));
    assert_ok(tide_collect(rt));
    for (int i = 0; i < MANY; i += 997) HAS_I32(outs[i], i);
    memset(outs, 0, sizeof outs);
}

static void has_parts(tide_array *const *outs, size_t m, const char *want) {
    char got[256] = "", *at = got;
    for (size_t i = 0; i < m; i++) {
        int32_t v[16];
        assert_array(outs[i]);
        int64_t n = tide_array_size(outs[i]);
        assert_ok(tide_to_host(outs[i], v, (size_t)n * sizeof *v));
        at += sprintf(at, "%s", i ? " |" : "");
        for (int64_t k = 0; k < n; k++) at += sprintf(at, " %d", (int)v[k]);
    }
    assert_string_equal(got, want);
}

static void split_cuts_an_axis(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I32, 0, 7, 1), *outs[8];
    assert_ok(tide_split(a, NULL, 0, 0, outs, 3));
    has_parts(outs, 3, " 0 1 2 | 3 4 | 5 6");
    assert_ok(tide_split(tide_flip(a, NULL, 0), NULL, 0, -1, outs, 7));
    has_parts(outs, 7, " 6 | 5 | 4 | 3 | 2 | 1 | 0");
    assert_ok(tide_split(tide_slice(a, ":2"), NULL, 0, 0, outs, 4));
    has_parts(outs, 4, " 0 | 1 | |");
    assert_ok(tide_split(a, (const int64_t[]){2, 2, -1, 99, 3}, 5, 0, outs, 6));
    has_parts(outs, 6, " 0 1 | | 2 3 4 5 | 6 | | 3 4 5 6");
    assert_ok(tide_split(a, (const int64_t[]){-99, INT64_MIN}, 2, 0, outs, 3));
    has_parts(outs, 3, " | | 0 1 2 3 4 5 6");
    tide_array *b = tide_reshape(tide_slice(a, ":6"), SHAPE(2, 3));
    assert_ok(tide_split(b, NULL, 0, 1, outs, 2));
    has_parts(outs, 2, " 0 1 3 4 | 2 5");
    assert_ok(tide_split(tide_slice(b, "0:0"), NULL, 0, 1, outs, 2));
    assert_int_equal(tide_split(a, (const int64_t[]){1}, 1, 0, outs, 3), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "3 results are wanted; there are 2");
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, 0), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 1, outs, 2), TIDE_E_BOUNDS);
    assert_int_equal(tide_split(a, NULL, 0, 0, NULL, 2), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, SIZE_MAX), TIDE_E_INVALID);
    assert_int_equal(tide_split(a, NULL, 0, 0, outs, INT64_MAX), TIDE_E_HOST_NOMEM);
}

static void broadcast_arrays_agree(void **state) {
    tide_runtime *rt = *state;
    tide_array *in[] = {tide_arange(rt, TIDE_I32, 0, 3, 1),
                        tide_reshape(tide_arange(rt, TIDE_I32, 5, 7, 1), SHAPE(2, 1)),
                        tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(9))},
               *outs[3] = {NULL};
    assert_ok(tide_broadcast_arrays(in, 3, outs));
    HAS_I32(outs[0], 0, 1, 2, 0, 1, 2);
    HAS_I32(outs[1], 5, 5, 5, 6, 6, 6);
    HAS_I32(outs[2], 9, 9, 9, 9, 9, 9);
    assert_int_equal(tide_fill(outs[0], tide_arg_int(1)), TIDE_E_INVALID);
    in[2] = tide_zeros(rt, TIDE_F32, SHAPE(4));
    assert_int_equal(tide_broadcast_arrays(in, 3, outs), TIDE_E_SHAPE);
    assert_int_equal(tide_broadcast_arrays(in, 0, outs), TIDE_E_INVALID);
    assert_int_equal(tide_broadcast_arrays(in, 2, NULL), TIDE_E_INVALID);
}

static void meshgrid_spans_a_grid(void **state) {
    tide_runtime *rt = *state;
    tide_array *in[9] = {tide_arange(rt, TIDE_I32, 0, 2, 1),
                         tide_slice(tide_arange(rt, TIDE_I32, 0, 5, 1), "::-2"),
                         tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(9))},
               *outs[9];
    assert_ok(tide_meshgrid(in, 2, TIDE_GRID_XY, outs));
    HAS_I32(outs[0], 0, 1, 0, 1, 0, 1);
    HAS_I32(outs[1], 4, 4, 2, 2, 0, 0);
    assert_ok(tide_meshgrid(in, 2, TIDE_GRID_IJ, outs));
    HAS_I32(outs[0], 0, 0, 0, 1, 1, 1);
    HAS_I32(outs[1], 4, 2, 0, 4, 2, 0);
    assert_ok(tide_meshgrid(in, 3, TIDE_GRID_XY, outs));
    assert_int_equal(tide_array_ndim(outs[2]), 3);
    assert_int_equal(tide_array_dim(outs[2], 0), 3);
    assert_int_equal(tide_array_dim(outs[2], 1), 2);
    HAS_I32(outs[2], 9, 9, 9, 9, 9, 9);
    assert_ok(tide_meshgrid(in + 1, 1, TIDE_GRID_XY, outs));
    HAS_I32(outs[0], 4, 2, 0);
    in[2] = tide_zeros(rt, TIDE_F32, SHAPE(2, 2));
    assert_int_equal(tide_meshgrid(in, 3, TIDE_GRID_IJ, outs), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "array 2 has shape (2, 2)");
    assert_int_equal(tide_meshgrid(in, 2, 2, outs), TIDE_E_INVALID);
    for (int i = 0; i < 9; i++) in[i] = in[0];
    assert_int_equal(tide_meshgrid(in, 9, TIDE_GRID_IJ, outs), TIDE_E_SHAPE);
}

/* ---- shifted, padded, joined, repeated ---- */

static bool rolled(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const int64_t *shift = how;
    for (int i = 0; i < x->ndim; i++) from[i] = modulo(index[i] - shift[i], x->shape[i]);
    return true;
}
static bool rolled_flat(const source *x, const void *how, const int64_t *index, int64_t *from) {
    int64_t at = 0;
    for (int i = 0; i < x->ndim; i++) at = at * x->shape[i] + index[i];
    at = modulo(at - *(const int64_t *)how, x->n);
    for (int i = x->ndim; i-- > 0; at /= x->shape[i]) from[i] = at % x->shape[i];
    return true;
}

static void roll_shifts_around_the_ends(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        int axes[6], n = x.ndim ? (int)random_below(6) : 0;
        int64_t shifts[6], sum[TIDE_MAX_RANK] = {0}, all = 0;
        for (int i = 0; i < n; i++) {
            axes[i] = (int)random_below(x.ndim);
            shifts[i] = random_below(21) - 10;
            sum[axes[i]] += shifts[i];
            all += shifts[i];
            if (i % 2) axes[i] -= x.ndim;
        }
        check_places(tide_roll(x.a, shifts, axes, n), &x, x.ndim, x.shape, rolled, sum, NULL);
        check_places(tide_roll(x.a, shifts, NULL, n), &x, x.ndim, x.shape, rolled_flat, &all, NULL);
        free(x.data);
    }
    tide_array *a = tide_arange(*state, TIDE_I32, 0, 3, 1);
    const int64_t far[] = {INT64_MIN, INT64_MAX, INT64_MAX};
    HAS_I32(tide_roll(a, far, (const int[]){0, 0, 0}, 3), 0, 1, 2); /* -8 + 7 + 7, by thirds */
    assert_null(tide_roll(a, far, (const int[]){1}, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
    assert_null(tide_roll(a, NULL, NULL, 1));
    assert_error(TIDE_E_INVALID, "shifts is NULL");
    assert_null(tide_roll(a, far, NULL, -1));
    assert_error(TIDE_E_INVALID, "-1 shifts");
}

struct border {
    int mode;
    int64_t before[TIDE_MAX_RANK];
};
static bool bordered(const source *x, const void *how, const int64_t *index, int64_t *from) {
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

static void borders_are_padded(void **state) {
    for (int round = 0; round < 2 * rounds(); round++) {
        source x = draw_source(*state, round, 0);
        struct border b = {.mode = (int)random_below(4)};
        int64_t after[TIDE_MAX_RANK] = {0}, shape[TIDE_MAX_RANK];
        unsigned char seven[16];
        tide_arg value = x.t == TIDE_BOOL ? tide_arg_bool(1) : tide_arg_int(7);
        assert_ok(tidei_encode(value, x.t, "test", seven));
        for (int i = 0; i < x.ndim; i++) {
            bool none = !x.shape[i] && b.mode != TIDE_PAD_CONSTANT;
            b.before[i] = none ? 0 : random_below(round % 5 ? 4 : 23);
            after[i] = none ? 0 : random_below(round % 3 ? 4 : 23);
            shape[i] = b.before[i] + x.shape[i] + after[i];
        }
        check_places(tide_pad(x.a, b.before, after, b.mode, value), &x, x.ndim, shape, bordered, &b,
                     seven);
        free(x.data);
    }
}

static void pad_refuses_what_does_not_fit(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(2, 0));
    const int64_t one[] = {0, 1}, none[] = {0, 0}, less[] = {-1, 0}, much[] = {INT64_MAX, 0};
    for (int mode = TIDE_PAD_EDGE; mode <= TIDE_PAD_WRAP; mode++) {
        assert_null(tide_pad(a, one, none, mode, tide_arg_int(1)));
        assert_error(TIDE_E_EMPTY, "axis 1 has no elements");
        assert_array(tide_pad(a, none, none, mode, tide_arg_int(999)));
    }
    assert_null(tide_pad(a, none, less, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_SHAPE, "0 elements before and -1 behind axis 0");
    assert_null(tide_pad(a, none, one, TIDE_PAD_CONSTANT, tide_arg_int(999)));
    assert_error(TIDE_E_DTYPE, "999");
    assert_null(tide_pad(a, none, one, 4, tide_arg_int(1)));
    assert_error(TIDE_E_INVALID, "4 is no mode");
    assert_null(tide_pad(a, much, much, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_NOMEM, "axis 0");
    assert_null(tide_pad(a, NULL, one, TIDE_PAD_CONSTANT, tide_arg_int(1)));
    assert_error(TIDE_E_INVALID, "before is NULL");
}

struct stacked {
    int axis;
    int64_t which;
};
static bool of_stack(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct stacked *s = how;
    for (int i = 0; i < x->ndim; i++) from[i] = index[i + (i >= s->axis)];
    return index[s->axis] == s->which;
}

/* Of three arrays the second is looked at; where the others stand the result is zero. */
static void stack_makes_an_axis(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(rt, round, 0);
        static const unsigned char zero[16];
        struct stacked s = {.axis = (int)random_below(x.ndim + 1), .which = 1};
        tide_array *none = tide_zeros(rt, x.t, x.ndim, x.shape);
        int64_t shape[TIDE_MAX_RANK];
        for (int i = 0; i <= x.ndim; i++) shape[i] = i == s.axis ? 3 : x.shape[i - (i > s.axis)];
        check_places(tide_stack((tide_array *[]){none, x.a, none}, 3,
                                round % 2 ? s.axis : s.axis - x.ndim - 1),
                     &x, x.ndim + 1, shape, of_stack, &s, zero);
        free(x.data);
    }
    tide_array *a = tide_zeros(rt, TIDE_I8, SHAPE(2)), *b = tide_ones(rt, TIDE_U8, SHAPE(2)),
               *deep = tide_zeros(rt, TIDE_I8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    assert_int_equal(tide_array_dtype(tide_stack((tide_array *[]){a, b}, 2, 0)), TIDE_I16);
    assert_null(tide_stack((tide_array *[]){a, deep}, 2, 0));
    assert_error(TIDE_E_SHAPE, "array 1 has shape (1, 1, 1, 1, 1, 1, 1, 1), the first has (2,)");
    assert_null(tide_stack(&deep, 1, 0));
    assert_error(TIDE_E_SHAPE, "8 dimensions already");
    assert_null(tide_stack(&a, 1, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_stack(&a, 0, 0));
    assert_error(TIDE_E_INVALID, "no arrays");
    tide_array *i = tide_zeros(rt, TIDE_I64, SHAPE(1)), *u = tide_zeros(rt, TIDE_U64, SHAPE(1));
    assert_null(tide_stack((tide_array *[]){i, u}, 2, 0));
    assert_error(TIDE_E_DTYPE, "no common type");
}

static bool tiled(const source *x, const void *how, const int64_t *index, int64_t *from) {
    int more = *(const int *)how;
    for (int i = 0; i < x->ndim; i++) from[i] = index[i + more] % x->shape[i];
    return true;
}

static void tile_repeats_the_whole(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 0);
        bool deep = round % 4 == 0; /* more axes than one pass has */
        int n = deep ? TIDE_MAX_RANK : (int)random_below(6), rank = n > x.ndim ? n : x.ndim,
            more = rank - x.ndim;
        int64_t reps[TIDE_MAX_RANK], shape[TIDE_MAX_RANK];
        for (int i = 0; i < n; i++) reps[i] = deep ? 1 + random_below(2) : random_below(5);
        for (int i = 0; i < rank; i++)
            shape[i] = (i < more ? 1 : x.shape[i - more]) * (i < rank - n ? 1 : reps[i - rank + n]);
        check_places(tide_tile(x.a, reps, n), &x, rank, shape, tiled, &more, NULL);
        free(x.data);
    }
    /* eight axes, each longer than one element, and repeated */
    source x =
        make_source(*state, TIDE_I16, PLAIN, TIDE_MAX_RANK, (int64_t[]){2, 2, 2, 2, 2, 2, 2, 2});
    const int64_t reps[] = {1, 2, 1, 3, 2, 1, 2, 3};
    int64_t shape[TIDE_MAX_RANK];
    int more = 0;
    for (int i = 0; i < TIDE_MAX_RANK; i++) shape[i] = 2 * reps[i];
    check_places(tide_tile(x.a, reps, 8), &x, 8, shape, tiled, &more, NULL);
    free(x.data);
    assert_null(tide_tile(x.a, (int64_t[]){-1}, 1));
    assert_error(TIDE_E_SHAPE, "axis 7 is repeated -1 times");
    assert_null(tide_tile(x.a, (int64_t[]){INT64_MAX}, 1));
    assert_error(TIDE_E_NOMEM, "axis 7");
    assert_null(tide_tile(x.a, reps, 9));
    assert_error(TIDE_E_SHAPE, "9 repetitions");
    assert_null(tide_tile(x.a, reps, -1));
    assert_error(TIDE_E_INVALID, "-1 repetitions");
}

/* ---- triangles and diagonals ---- */

struct triangle {
    int64_t k;
    bool lower;
};
static bool in_triangle(const source *x, const void *how, const int64_t *index, int64_t *from) {
    const struct triangle *t = how;
    int64_t above = index[x->ndim - 1] - index[x->ndim - 2];
    memcpy(from, index, (size_t)x->ndim * sizeof *from);
    return t->lower ? above <= t->k : above >= t->k;
}

static void triangles_keep_their_side(void **state) {
    static const unsigned char zero[16];
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 2);
        struct triangle t = {.k = random_below(15) - 7};
        if (round % 50 == 0) t.k = round % 100 ? INT64_MAX : INT64_MIN;
        check_places(tide_triu(x.a, t.k), &x, x.ndim, x.shape, in_triangle, &t, zero);
        t.lower = true;
        check_places(tide_tril(x.a, t.k), &x, x.ndim, x.shape, in_triangle, &t, zero);
        free(x.data);
    }
    assert_null(tide_tril(tide_zeros(*state, TIDE_F32, SHAPE(3)), 0));
    assert_error(TIDE_E_SHAPE, "1 dimension has no matrices");
    tide_array *odd = tide_full(*state, TIDE_F64, SHAPE(2, 2), tide_arg_float(NAN));
    tide_array *low = tide_map(*state, "(x) -> where(isnan(x), 1, x)", tide_tril(odd, 0));
    HAS_F64(low, 1, 0, 1, 1);
}

static void eye_has_ones_on_its_diagonal(void **state) {
    static const int64_t sizes[] = {0, 1, 2, 5, 7};
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++)
        for (int r = 0; r < 5; r++)
            for (int c = 0; c < 5; c++)
                for (int64_t k = -6; k <= 6; k += 2) {
                    unsigned char want[49 * 16] = {0};
                    size_t size = tide_dtype_size(t);
                    for (int64_t i = 0; i < sizes[r]; i++)
                        if (i + k >= 0 && i + k < sizes[c])
                            assert_ok(tidei_encode(tide_arg_int(1), t, "test",
                                                   want + (size_t)(i * sizes[c] + i + k) * size));
                    has_bytes(tide_eye(*state, t, sizes[r], sizes[c], k), want,
                              (size_t)(sizes[r] * sizes[c]) * size);
                }
    assert_null(tide_eye(*state, TIDE_F32, -1, 2, 0));
    assert_error(TIDE_E_SHAPE, "negative");
    assert_null(tide_eye(*state, 77, 2, 2, 0));
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
}

static void arrays_are_made_like_others(void **state) {
    tide_runtime *rt = *state;
    for (tide_dtype t = 0; t < TIDE_DTYPE_COUNT; t++) {
        source x = make_source(rt, t, STEPS, 3, (int64_t[]){2, 1, 3});
        unsigned char want[6 * 16] = {0}, one[16];
        assert_ok(tidei_encode(tide_arg_bool(1), t, "test", one));
        has_bytes(tide_zeros_like(x.a), want, 6 * x.size);
        for (size_t i = 0; i < 6; i++) memcpy(want + i * x.size, one, x.size);
        has_bytes(tide_ones_like(x.a), want, 6 * x.size);
        has_bytes(tide_full_like(x.a, tide_arg_bool(1)), want, 6 * x.size);
        tide_array *e = tide_empty_like(x.a);
        assert_array(e);
        assert_int_equal(tide_array_dtype(e), t);
        assert_int_equal(tide_array_ndim(e), 3);
        assert_true(tide_array_is_contiguous(e));
        free(x.data);
    }
    tide_array *pinned = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_U8, SHAPE(3));
    assert_int_equal(tide_array_memory(tide_zeros_like(pinned)), TIDE_MEMORY_PINNED);
    assert_null(tide_full_like(pinned, tide_arg_int(256)));
    assert_error(TIDE_E_DTYPE, "256");
    assert_int_equal(tide_array_size(tide_ones_like(tide_slice(pinned, "0:0"))), 0);
}

/* ---- spaced numbers ---- */

static void has_numbers(tide_array *a, int64_t n, const double *want) {
    double got[64];
    assert_array(a);
    assert_int_equal(tide_array_size(a), n);
    assert_int_equal(tide_array_ndim(a), 1);
    assert_ok(tide_to_host(tide_cast(a, TIDE_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %d: %.17g, wanted %.17g", (int)i, got[i], want[i]);
}

static void linspace_ends_where_it_is_told(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        double start = (double)(random_below(2001) - 1000) / 7,
               stop = (double)(random_below(2001) - 1000) / 3, want[40];
        int64_t n = random_below(40);
        int end = (int)random_below(2);
        for (int64_t i = 0; i < n; i++) {
            want[i] = start;
            if (n > 1) want[i] = (double)i * ((stop - start) / (double)(n - end)) + start;
            if (end && n > 1 && i == n - 1) want[i] = stop;
        }
        has_numbers(tide_linspace(rt, TIDE_F64, start, stop, n, end), n, want);
        for (int64_t i = 0; i < n; i++) want[i] = (float)want[i];
        has_numbers(tide_linspace(rt, TIDE_F32, start, stop, n, end), n, want);
        for (int64_t i = 0; i < n; i++) {
            want[i] = start;
            if (n > 1) want[i] = (double)i * ((stop - start) / (double)(n - end)) + start;
            if (end && n > 1 && i == n - 1) want[i] = stop;
            want[i] = floor(want[i]);
        }
        has_numbers(tide_linspace(rt, TIDE_I16, start, stop, n, end), n, want);
    }
    const double wide[] = {-1.5e308, 0, 1.5e308};
    has_numbers(tide_linspace(rt, TIDE_F64, -1.5e308, 1.5e308, 3, 1), 3, wide);
    has_numbers(tide_linspace(rt, TIDE_U8, 0, 255, 2, 1), 2, (double[]){0, 255});
}

static void logspace_has_the_powers(void **state) {
    tide_runtime *rt = *state;
    has_numbers(tide_logspace(rt, TIDE_F64, 0, 4, 5, 1, 2), 5, (double[]){1, 2, 4, 8, 16});
    has_numbers(tide_logspace(rt, TIDE_I32, 0, 3, 3, 0, 2), 3, (double[]){1, 2, 4});
    has_numbers(tide_logspace(rt, TIDE_I32, 0, 1, 3, 1, 10), 3, (double[]){1, 3, 10});
    has_numbers(tide_logspace(rt, TIDE_F64, -2, -2, 1, 1, 2), 1, (double[]){0.25});
    has_numbers(tide_logspace(rt, TIDE_F32, 5, 5, 0, 1, 2), 0, NULL);
    double got[7];
    assert_ok(tide_to_host(tide_logspace(rt, TIDE_F64, -1, 1.3, 7, 1, 10), got, sizeof got));
    for (int i = 0; i < 7; i++) {
        double want = pow(10, -1 + i * (2.3 / 6));
        assert_true(fabs(got[i] - want) <= 1e-14 * want);
    }
    assert_true(got[6] == pow(10, 1.3));
}

static void spaced_numbers_are_refused_where_there_are_none(void **state) {
    tide_runtime *rt = *state;
    assert_null(tide_linspace(rt, TIDE_F32, 0, 1, -1, 1));
    assert_error(TIDE_E_INVALID, "-1 numbers");
    assert_null(tide_linspace(rt, TIDE_F32, 0, INFINITY, 2, 1));
    assert_error(TIDE_E_INVALID, "finite");
    assert_null(tide_linspace(rt, TIDE_F32, 0, 1, 2, 2));
    assert_error(TIDE_E_INVALID, "endpoint is 2");
    assert_null(tide_linspace(rt, TIDE_BOOL, 0, 1, 2, 1));
    assert_error(TIDE_E_DTYPE, "bool");
    assert_null(tide_linspace(rt, TIDE_U8, 0, 256, 2, 1));
    assert_error(TIDE_E_DTYPE, "256");
    assert_null(tide_linspace(rt, 77, 0, 1, 2, 1));
    assert_int_equal(tide_error_last()->status, TIDE_E_INVALID);
    const double bases[] = {0, -2, INFINITY, NAN};
    for (int i = 0; i < 4; i++) {
        assert_null(tide_logspace(rt, TIDE_F32, 0, 1, 2, 1, bases[i]));
        assert_error(TIDE_E_INVALID, "the base is");
    }
    assert_null(tide_logspace(rt, TIDE_I8, 0, 3, 2, 1, 10));
    assert_error(TIDE_E_DTYPE, "1000");
}

/* ---- neighbours ---- */

static int64_t as_integer(const source *x, int64_t at) {
    tide_arg v = tidei_decode(x->data + (size_t)at * x->size, x->t);
    return v.kind == TIDE_ARG_FLOAT     ? (int64_t)v.value.f
           : v.kind == TIDE_ARG_COMPLEX ? (int64_t)v.value.c[0]
                                        : v.value.i;
}

/* The elements of every type are small integers here; unsigned types wrap. */
static void check_difference(const source *x, int axis) {
    int64_t inner = 1, n = x->shape[axis], shape[TIDE_MAX_RANK], k = 0;
    unsigned char *want = malloc((size_t)x->n * x->size + 1);
    for (int i = axis + 1; i < x->ndim; i++) inner *= x->shape[i];
    for (int64_t at = 0; at < x->n; at++) {
        if (at / inner % n == n - 1) continue;
        int64_t d = as_integer(x, at + inner) - as_integer(x, at);
        unsigned char *to = want + (size_t)k++ * x->size;
        if (x->t == TIDE_BOOL)
            *to = d != 0;
        else if (tidei_dtype_kind(x->t) == TIDEI_KIND_UINT)
            memcpy(to, &d, x->size);
        else
            assert_ok(tidei_encode(tide_arg_int(d), x->t, "test", to));
    }
    tide_array *got = tide_diff(x->a, 1, axis);
    assert_array(got);
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = n ? n - 1 : 0;
    for (int i = 0; i < x->ndim; i++) assert_int_equal(tide_array_dim(got, i), shape[i]);
    assert_int_equal(tide_array_dtype(got), x->t);
    has_bytes(got, want, (size_t)k * x->size);
    free(want);
}

static void diff_subtracts_neighbours(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(rt, round, 1);
        check_difference(&x, (int)random_below(x.ndim));
        free(x.data);
    }
    tide_array *squares = tide_map(rt, "(x) -> x*x*x", tide_arange(rt, TIDE_F64, 0, 6, 1));
    HAS_F64(tide_diff(squares, 0, 0), 0, 1, 8, 27, 64, 125);
    HAS_F64(tide_diff(squares, 2, -1), 6, 12, 18, 24);
    HAS_F64(tide_diff(squares, 5, 0), 0);
    assert_int_equal(tide_array_dim(tide_diff(squares, 6, 0), 0), 0);
    assert_int_equal(tide_array_dim(tide_diff(squares, INT32_MAX, 0), 0), 0);
    assert_null(tide_diff(squares, -1, 0));
    assert_error(TIDE_E_INVALID, "order -1");
    assert_null(tide_diff(squares, 1, 1));
    assert_error(TIDE_E_BOUNDS, "axis 1");
}

static void trapezoids_are_summed(void **state) {
    tide_runtime *rt = *state;
    const double places[] = {0, 1, 4, 6};
    tide_array *y = tide_reshape(tide_arange(rt, TIDE_F64, 0, 8, 1), SHAPE(2, 4)),
               *x = tide_from_host(rt, TIDE_F64, SHAPE(4), places),
               *bytes = tide_full(rt, TIDE_U8, SHAPE(3), tide_arg_int(200));
    HAS_F64(tide_trapezoid(y, tide_arg_float(0.5), 1), 2.25, 8.25);
    HAS_F64(tide_trapezoid(y, tide_arg_array(x), -1), 10, 34);
    HAS_F64(tide_trapezoid(tide_transpose(y, NULL), tide_arg_array(x), 0), 10, 34);
    HAS_F64(tide_trapezoid(y, tide_arg_array(tide_broadcast_to(x, SHAPE(2, 4))), 1), 10, 34);
    tide_array *columns = tide_transpose(tide_broadcast_to(x, SHAPE(2, 4)), NULL);
    HAS_F64(tide_trapezoid(tide_transpose(y, NULL), tide_arg_array(columns), 0), 10, 34);
    HAS_F64(tide_trapezoid(y, tide_arg_array(tide_slice(x, "newaxis")), 1), 10, 34);
    HAS_F64(tide_trapezoid(bytes, tide_arg_int(1), 0), 400); /* nothing wraps on the way */
    tide_array *down = tide_from_host(rt, TIDE_U8, SHAPE(3), (unsigned char[]){9, 5, 4});
    HAS_F64(tide_trapezoid(bytes, tide_arg_array(down), 0), -1000);
    HAS_F64(tide_trapezoid(tide_slice(y, ":, 0:1"), tide_arg_int(1), 1), 0, 0);
    HAS_F64(tide_trapezoid(tide_slice(y, ":, 0:0"), tide_arg_int(1), 1), 0, 0);
    assert_int_equal(tide_array_dtype(tide_trapezoid(tide_cast(y, TIDE_F16), tide_arg_int(1), 1)),
                     TIDE_F16);
    assert_int_equal(tide_array_dtype(tide_trapezoid(tide_cast(y, TIDE_C64), tide_arg_int(1), 1)),
                     TIDE_C64);
    assert_null(tide_trapezoid(y, tide_arg_array(bytes), 1));
    assert_error(TIDE_E_SHAPE, "places of shape (3,)");
    assert_null(tide_trapezoid(y, tide_arg_int(1), 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_trapezoid(tide_zeros(rt, TIDE_F32, 0, NULL), tide_arg_int(1), 0));
    assert_null(tide_trapezoid(y, (tide_arg){.kind = 77}, 1));
    assert_error(TIDE_E_INVALID, "77 is no kind of argument");
    tide_error_clear();
    assert_null(tide_trapezoid(y, tide_arg_array(NULL), 1));
    assert_error(TIDE_E_INVALID, "argument 2 is NULL");
}

/* ---- refusals of views ---- */

static void views_refuse_what_does_not_fit(void **state) {
    tide_array *a = tide_zeros(*state, TIDE_F32, SHAPE(2, 3));
    const int twice[] = {1, -1}, first[] = {0, 1}, beyond[] = {2};
    const int64_t lengths[] = {4, 1, 1, 1, 1, 1, 1}, negative[] = {-1}, one[] = {1, 1},
                  zero[] = {0};
    assert_null(tide_flip(a, twice, 2));
    assert_error(TIDE_E_SHAPE, "axis 1 stands twice");
    assert_null(tide_flip(a, beyond, 1));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_flip(a, first, -1));
    assert_error(TIDE_E_INVALID, "-1 axes");
    assert_null(tide_moveaxis(a, twice, first, 2));
    assert_error(TIDE_E_SHAPE, "twice");
    assert_null(tide_moveaxis(a, first, twice, 2));
    assert_error(TIDE_E_SHAPE, "twice");
    assert_null(tide_moveaxis(a, first, NULL, 2));
    assert_error(TIDE_E_INVALID, "destination is NULL");
    assert_null(tide_diagonal(a, 0, 1, -1));
    assert_error(TIDE_E_SHAPE, "both axes are axis 1");
    assert_null(tide_diagonal(a, 0, 0, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_windows(a, first, lengths, NULL, 2));
    assert_error(TIDE_E_SHAPE, "windows of 4 elements along axis 0, which has 2");
    assert_null(tide_windows(a, first, negative, NULL, 1));
    assert_error(TIDE_E_SHAPE, "windows of -1 elements");
    assert_null(tide_windows(a, first, one, zero, 1));
    assert_error(TIDE_E_INVALID, "a step of 0");
    assert_null(tide_windows(a, twice, one, NULL, 2));
    assert_error(TIDE_E_SHAPE, "twice");
    assert_null(tide_windows(a, NULL, one, NULL, 7));
    assert_error(TIDE_E_SHAPE, "at most 8");
    assert_null(tide_windows(a, NULL, one, NULL, 3));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_null(tide_windows(a, NULL, NULL, NULL, 1));
    assert_error(TIDE_E_INVALID, "lengths is NULL");
    assert_null(tide_windows(a, NULL, one, NULL, -1));
    assert_error(TIDE_E_INVALID, "-1 axes");
    tide_array *vast = tide_broadcast_to(a, SHAPE((int64_t)1 << 59, 2, 3));
    const int64_t half[] = {(int64_t)1 << 58};
    assert_null(tide_windows(vast, first, half, NULL, 1));
    assert_error(TIDE_E_SHAPE, "2^63 bytes or more");
}

/* ---- larger ones, and failures ---- */

/* Some of each kind, of one source. */
static void check_some(const source *x, int64_t far) {
    static const unsigned char zero[16];
    const int64_t rows = x->shape[0], cols = x->shape[1], shift[] = {-7, 100},
                  tall[] = {3 * rows, cols}, after[] = {far, 1}, two[] = {2, 2};
    struct border b = {TIDE_PAD_REFLECT, {10, 2}};
    const int64_t wide[] = {rows + 10 + far, cols + 3}, flat = 12345;
    struct triangle t = {5, true};
    struct windows w = {2, {0, 1}, {2, 2}, {2, 2}};
    const int64_t windows[] = {rows / 2, cols / 2, 2, 2};
    int more = 0;
    check_places(tide_roll(x->a, shift, (const int[]){0, 1}, 2), x, 2, x->shape, rolled, shift,
                 NULL);
    check_places(tide_roll(x->a, &flat, NULL, 1), x, 2, x->shape, rolled_flat, &flat, NULL);
    check_places(tide_pad(x->a, b.before, after, b.mode, tide_arg_int(0)), x, 2, wide, bordered, &b,
                 NULL);
    b.mode = TIDE_PAD_WRAP;
    check_places(tide_pad(x->a, b.before, after, b.mode, tide_arg_int(0)), x, 2, wide, bordered, &b,
                 NULL);
    check_places(tide_tile(x->a, (const int64_t[]){3, 1}, 2), x, 2, tall, tiled, &more, NULL);
    check_places(tide_tril(x->a, 5), x, 2, x->shape, in_triangle, &t, zero);
    check_places(tide_windows(x->a, NULL, two, two, 2), x, 4, windows, in_window, &w, NULL);
    check_difference(x, 0);
}

/* Beyond a block, a word's bits, and 2^16 elements. */
static void larger_arrays_are_no_different(void **state) {
    for (int layout = 0; layout < LAYOUTS; layout++) {
        source x = make_source(*state, TIDE_I32, layout, 2, (int64_t[]){301, 259});
        check_some(&x, 690);
        free(x.data);
    }
}

static void a_gpus_kernels_do_the_same(void **state) {
    static const tide_dtype types[] = {TIDE_I32, TIDE_BOOL, TIDE_C64};
    if (!*state) skip();
    for (int i = 0; i < 3; i++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            source x = make_source(*state, types[i], layout, 2, (int64_t[]){9, 13});
            check_some(&x, 40);
            free(x.data);
        }
    const double spaced[] = {-1, -0.25, 0.5, 1.25, 2};
    has_numbers(tide_linspace(*state, TIDE_F64, -1, 2, 5, 1), 5, spaced);
    HAS_I32(tide_eye(*state, TIDE_I32, 2, 3, 1), 0, 1, 0, 0, 0, 1);
    trapezoids_are_summed(state);
}

#define TRY(a)                                                                                     \
    do {                                                                                           \
        if (!(a)) {                                                                                \
            *status = tide_error_last()->status;                                                   \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        if ((*status = (call)) != TIDE_OK) goto out;                                               \
    } while (0)

static void everything(tide_runtime *rt, tide_status *status) {
    const int64_t two[] = {2, 2}, one[] = {1, 1};
    const int axes[] = {0, 1};
    tide_array *a, *outs[4];
    assert_ok(tide_scope_begin(rt));
    TRY(a = tide_reshape(tide_arange(rt, TIDE_F32, 0, 12, 1), SHAPE(3, 4)));
    TRY(a = tide_transpose(a, NULL));
    TRY(tide_flip(a, NULL, 0));
    TRY(tide_moveaxis(a, axes, axes, 2));
    TRY(tide_diagonal(a, 0, 0, 1));
    TRY(tide_windows(a, NULL, two, NULL, 2));
    TRY(tide_reshape_with(a, SHAPE(12), TIDE_COPY_ALWAYS));
    DO(tide_unstack(a, 0, outs, 4));
    DO(tide_split(a, NULL, 0, 0, outs, 3));
    DO(tide_meshgrid((tide_array *[]){tide_slice(a, ":, 0"), tide_slice(a, "0")}, 2, TIDE_GRID_IJ,
                     outs));
    DO(tide_broadcast_arrays((tide_array *[]){a, a}, 2, outs));
    TRY(tide_roll(a, two, axes, 2));
    TRY(tide_roll(a, two, NULL, 1));
    TRY(tide_pad(a, two, one, TIDE_PAD_REFLECT, tide_arg_int(0)));
    TRY(tide_pad(a, two, one, TIDE_PAD_CONSTANT, tide_arg_int(0)));
    TRY(tide_stack((tide_array *[]){a, a}, 2, 0));
    TRY(tide_tile(a, two, 2));
    TRY(tide_tril(a, 0));
    TRY(tide_eye(rt, TIDE_F32, 3, 3, 0));
    TRY(tide_ones_like(a));
    TRY(tide_linspace(rt, TIDE_F32, 0, 1, 5, 1));
    TRY(tide_logspace(rt, TIDE_F32, 0, 1, 5, 1, 10));
    TRY(tide_diff(a, 2, 0));
    TRY(tide_trapezoid(a, tide_arg_array(tide_slice(a, ":, 0")), 0));
    *status = TIDE_OK;
out:
    assert_ok(tide_scope_end(rt));
}

static void nothing_is_lost_on_failure(void **state) {
    (void)state;
    each_call_fails(everything);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(flip_turns_axes_around),
        CASE(moveaxis_puts_axes_where_they_belong),
        CASE(diagonals_are_views),
        CASE(windows_slide),
        CASE(what_overlaps_is_not_written),
        CASE(views_know_whether_they_meet_themselves),
        CASE(reshape_with_says_whether_it_copies),
        CASE(unstack_gives_each_its_own),
        CASE(many_are_handed_out_together),
        CASE(split_cuts_an_axis),
        CASE(broadcast_arrays_agree),
        CASE(meshgrid_spans_a_grid),
        CASE(roll_shifts_around_the_ends),
        CASE(borders_are_padded),
        CASE(pad_refuses_what_does_not_fit),
        CASE(stack_makes_an_axis),
        CASE(tile_repeats_the_whole),
        CASE(triangles_keep_their_side),
        CASE(eye_has_ones_on_its_diagonal),
        CASE(arrays_are_made_like_others),
        CASE(linspace_ends_where_it_is_told),
        CASE(logspace_has_the_powers),
        CASE(spaced_numbers_are_refused_where_there_are_none),
        CASE(diff_subtracts_neighbours),
        CASE(trapezoids_are_summed),
        CASE(views_refuse_what_does_not_fit),
        CASE(larger_arrays_are_no_different),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_do_the_same, open_emulated, close_runtime),
        cmocka_unit_test(nothing_is_lost_on_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
