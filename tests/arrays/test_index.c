/* test_index.c: elements at index arrays, taken and put, against slow models; bad indices; what is
** refused; the same by a GPU's kernels, emulated. */
#include "tests/arrays/indexed.h"

extern const char tidei_places_text[];

static tide_array *counted(tide_runtime *rt, int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return tide_reshape(tide_arange(rt, TIDE_I32, 0, (double)n, 1), ndim, shape);
}
static void has_shape(tide_array *a, int ndim, const int64_t *shape) {
    assert_array(a);
    assert_int_equal(tide_array_ndim(a), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(tide_array_dim(a, i), shape[i]);
}

#define ALL     tide_pick_range(tide_range_all())
#define AT(i)   tide_pick_range(tide_range_index(i))
#define NEW     tide_pick_range(tide_range_newaxis())
#define REST    tide_pick_range(tide_range_ellipsis())
#define LIST(a) tide_pick_array(a)
#define PICK(...)                                                                                  \
    TIDEI_COUNT(((tide_pick[]){__VA_ARGS__})), (tide_pick[]) { __VA_ARGS__ }

/* ---- by hand ---- */

static void an_index_takes_points_rows_and_columns(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(3, 4)), *i = I64(rt, 2, 0, -1), *j = I32(rt, 1, -1, 0);
    HAS_I32(tide_index(a, PICK(LIST(i), LIST(j))), 9, 3, 8);
    HAS_I32(tide_index(a, PICK(LIST(i))), 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11);
    HAS_I32(tide_index(a, PICK(ALL, LIST(j))), 1, 3, 0, 5, 7, 4, 9, 11, 8);
    HAS_I32(tide_index(a, PICK(REST, LIST(j))), 1, 3, 0, 5, 7, 4, 9, 11, 8);
    HAS_I32(tide_index(a, PICK(AT(1), LIST(j))), 5, 7, 4);
    HAS_I32(tide_index(a, PICK(LIST(tide_reshape(i, SHAPE(3, 1))), LIST(j))), 9, 11, 8, 1, 3, 0, 9,
            11, 8);
    HAS_I32(tide_index(a, PICK(AT(-1), AT(0))), 8); /* a view */
    assert_int_equal(tide_array_size(tide_index(a, 0, NULL)), 12);
}

/* NumPy's: side by side they stay where they are, parted they come first. */
static void index_arrays_come_first_where_they_are_parted(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(2, 3, 4, 5)), *i = I64(rt, 0, 1, 1, 0, 1, 0);
    has_shape(tide_index(a, PICK(ALL, LIST(i), LIST(i))), SHAPE(2, 6, 5));
    has_shape(tide_index(a, PICK(LIST(i), ALL, LIST(i))), SHAPE(6, 3, 5));
    has_shape(tide_index(a, PICK(ALL, LIST(i), ALL, LIST(i))), SHAPE(6, 2, 4));
    has_shape(tide_index(a, PICK(AT(0), ALL, LIST(i))), SHAPE(6, 3, 5));
    has_shape(tide_index(a, PICK(ALL, AT(0), LIST(i))), SHAPE(2, 6, 5));
    has_shape(tide_index(a, PICK(LIST(i), NEW, LIST(i))), SHAPE(6, 1, 4, 5));
    has_shape(tide_index(a, PICK(NEW, LIST(i), LIST(i))), SHAPE(1, 6, 4, 5));
    has_shape(tide_index(a, PICK(ALL, LIST(i), LIST(i), REST, LIST(i))), SHAPE(6, 2));
    has_shape(tide_index(a, PICK(LIST(tide_reshape(i, SHAPE(2, 3))), REST, AT(4))),
              SHAPE(2, 3, 3, 4));
}

static void an_eighth_axis_and_new_ones(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(1, 2, 1, 2, 1, 2, 1, 2)), *i = I64(rt, 1, 0);
    has_shape(tide_index(a, PICK(REST, LIST(i))), SHAPE(1, 2, 1, 2, 1, 2, 1, 2));
    has_shape(tide_index(a, PICK(LIST(I64(rt, 0, 0)), LIST(i), NEW)),
              SHAPE(2, 1, 1, 2, 1, 2, 1, 2));
    assert_null(tide_index(a, PICK(LIST(I64(rt, 0, 0)), NEW)));
    assert_error(TIDE_E_SHAPE, "more than 8 dimensions");
}

static void the_last_of_several_values_stays(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(4)), *i = I64(rt, 1, 2, 1, -3, 2);
    assert_ok(tide_index_put(a, PICK(LIST(i)), I32(rt, 5, 6, 7, 8, 9)));
    HAS_I32(a, 0, 8, 9, 0);
    assert_ok(tide_index_put(a, PICK(LIST(i)), tide_full(rt, TIDE_U8, 0, NULL, tide_arg_int(3))));
    HAS_I32(a, 0, 3, 3, 0);
    assert_ok(
        tide_index_put(a, PICK(tide_pick_range(tide_range_slice(1, TIDE_NONE, 2))), I32(rt, 4, 5)));
    HAS_I32(a, 0, 4, 3, 5);
    assert_ok(tide_index_put(a, PICK(AT(0)), tide_full(rt, TIDE_I16, 0, NULL, tide_arg_int(-1))));
    HAS_I32(a, -1, 4, 3, 5);
    tide_array *rows = tide_zeros(rt, TIDE_I32, SHAPE(2, 2));
    assert_ok(tide_index_put(rows, PICK(LIST(I64(rt, 1, 0, 1))),
                             tide_reshape(I32(rt, 1, 2, 3, 4, 5, 6), SHAPE(3, 2))));
    HAS_I32(rows, 3, 4, 5, 6);
}

/* As many index arrays as it has axes, side by side. */
static void a_mask_is_where_it_is_true(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(3, 4)), *three = I32(rt, 0, 1, 1), *mask, *whole;
    mask = tide_cast(three, TIDE_BOOL);
    whole = tide_lt(a, tide_full(rt, TIDE_I32, 0, NULL, tide_arg_int(5)));
    HAS_I32(tide_index(a, PICK(LIST(mask))), 4, 5, 6, 7, 8, 9, 10, 11);
    HAS_I32(tide_index(a, PICK(LIST(mask), LIST(I64(rt, 0, 3)))), 4, 11);
    HAS_I32(tide_index(a, PICK(LIST(mask), tide_pick_range(tide_range_slice(0, 2, 1)))), 4, 5, 8,
            9);
    HAS_I32(tide_index(a, PICK(LIST(whole))), 0, 1, 2, 3, 4);
    HAS_I32(tide_index(tide_transpose(a, NULL), PICK(REST, LIST(mask))), 4, 8, 5, 9, 6, 10, 7, 11);
    has_shape(tide_index(a, PICK(NEW, LIST(tide_logical_not(tide_eq(a, a))))), SHAPE(1, 0));
    assert_ok(
        tide_index_put(a, PICK(LIST(whole)), tide_full(rt, TIDE_I8, 0, NULL, tide_arg_int(7))));
    HAS_I32(a, 7, 7, 7, 7, 7, 5, 6, 7, 8, 9, 10, 11);
    assert_null(tide_index(a, PICK(ALL, LIST(mask))));
    assert_error(TIDE_E_SHAPE, "a mask with 3 elements along an axis that has 4");
    assert_null(tide_index(a, PICK(AT(0), LIST(whole))));
    assert_error(TIDE_E_BOUNDS, "items and masks for 3 axes; the array has 2 dimensions");
    assert_int_equal(tide_index_put(a, PICK(LIST(mask), LIST(mask)), a), TIDE_E_SHAPE);
}

/* Of no axis, and of length 1 or 0 where index arrays broadcast and find their place: NumPy's. */
static void a_mask_without_axes_is_all_or_nothing(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(3, 4)), *two = I64(rt, 2, 0), *none;
    tide_array *on = tide_ones(rt, TIDE_BOOL, 0, NULL), *off = tide_zeros(rt, TIDE_BOOL, 0, NULL);
    has_shape(tide_index(a, PICK(LIST(on))), SHAPE(1, 3, 4));
    HAS_I32(tide_index(a, PICK(LIST(on))), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    has_shape(tide_index(a, PICK(LIST(off))), SHAPE(0, 3, 4));
    has_shape(tide_index(a, PICK(LIST(off), LIST(on))), SHAPE(0, 3, 4));
    has_shape(tide_index(a, PICK(AT(1), LIST(on))), SHAPE(1, 4));
    HAS_I32(tide_index(a, PICK(AT(1), LIST(on))), 4, 5, 6, 7);
    has_shape(tide_index(a, PICK(ALL, LIST(on), ALL)), SHAPE(3, 1, 4));
    has_shape(tide_index(a, PICK(LIST(on), ALL, LIST(two))), SHAPE(2, 3));
    HAS_I32(tide_index(a, PICK(LIST(on), ALL, LIST(two))), 2, 6, 10, 0, 4, 8);
    has_shape(tide_index(tide_slice(a, "0, 0"), PICK(LIST(on), LIST(on))), SHAPE(1));
    assert_null(tide_index(a, PICK(LIST(off), LIST(two))));
    assert_error(TIDE_E_SHAPE, "shapes (2,) and (0,) do not broadcast");
    assert_null(tide_index(a, PICK(LIST(on), LIST(two), LIST(two), LIST(two))));
    assert_error(TIDE_E_BOUNDS, "items and masks for 3 axes; the array has 2 dimensions");
    none = tide_index(tide_ones(rt, TIDE_I8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), PICK(LIST(on)));
    assert_null(none);
    assert_error(TIDE_E_SHAPE, "more than 8 dimensions");
    assert_ok(tide_index_put(a, PICK(LIST(off)), I32(rt, 7)));
    assert_ok(tide_index_put(a, PICK(LIST(on), AT(0)), I32(rt, 9, 8, 7, 6)));
    HAS_I32(a, 9, 8, 7, 6, 4, 5, 6, 7, 8, 9, 10, 11);
}

static void what_is_put_may_share_memory(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = tide_arange(rt, TIDE_I64, 0, 5, 1);
    assert_ok(tide_index_put(a, PICK(LIST(a)), tide_slice(a, "::-1")));
    has_bytes(a, (int64_t[]){4, 3, 2, 1, 0}, 40);
    assert_ok(tide_put_along_axis(a, a, 0, a)); /* sorts it */
    has_bytes(a, (int64_t[]){0, 1, 2, 3, 4}, 40);
}

/* ---- the model ---- */

enum { MOST = 4, ITEMS = 8, ROOM = 2048 };
typedef struct model {
    int64_t n[MOST]; /* the source's shape */
    int rank;
    /* a dimension of the result: an axis of the source from `first` on by `step`; -1: new; -2: of
    ** the index arrays */
    struct {
        int axis;
        int64_t length, first, step;
    } dims[ITEMS + MOST];
    int ndim, bfirst; /* the first one of the index arrays */
    int64_t b[2];
    int bdim;
    struct {
        int axis;
        int64_t at[16]; /* by the broadcast position */
    } lists[MOST];
    int nlists;
    int64_t fixed[MOST]; /* of axes with a single index */
} model;

/* An index array over part of the shape b, and what it says at each position of b. */
static tide_array *draw_list(tide_runtime *rt, model *m, int axis) {
    static const tide_dtype types[] = {TIDE_I64, TIDE_I32, TIDE_U8, TIDE_I8, TIDE_U64, TIDE_I16};
    tide_dtype t = types[random_below(6)];
    int k = m->nlists++,
        rank = k ? (int)random_below(m->bdim + 1) : m->bdim; /* the first has all of b */
    int64_t shape[2], size = 1, value[16];
    unsigned char raw[16][8];
    for (int d = 0; d < rank; d++) {
        shape[d] = !k || random_below(4) ? m->b[m->bdim - rank + d] : 1;
        size *= shape[d];
    }
    for (int64_t i = 0; i < size; i++) {
        value[i] = random_below(m->n[axis]);
        int64_t given = value[i];
        if (tidei_dtype_kind(t) == TIDEI_KIND_INT && random_below(2)) given -= m->n[axis];
        assert_ok(tidei_encode(tide_arg_int(given), t, "test",
                               &raw[0][0] + (size_t)i * tide_dtype_size(t)));
    }
    m->lists[k].axis = axis;
    int64_t all = (m->bdim > 0 ? m->b[0] : 1) * (m->bdim > 1 ? m->b[1] : 1);
    for (int64_t i = 0; i < all; i++) {
        int64_t at = 0, left = i, step = 1, c[2] = {0, 0};
        for (int d = m->bdim - 1; d >= 0; d--) c[d] = left % m->b[d], left /= m->b[d];
        for (int d = rank - 1; d >= 0; d--) {
            if (shape[d] > 1) at += step * c[m->bdim - rank + d];
            step *= shape[d];
        }
        m->lists[k].at[i] = value[at];
    }
    return tide_from_host(rt, t, rank, shape, raw);
}

static void add_dim(model *m, int axis, int64_t length, int64_t first, int64_t step) {
    m->dims[m->ndim].axis = axis;
    m->dims[m->ndim].length = length;
    m->dims[m->ndim].first = first;
    m->dims[m->ndim++].step = step;
}

static tide_pick draw_range(model *m, int axis) {
    int64_t n = m->n[axis], step = 1 + random_below(2), first = random_below(n),
            count = (n - first - 1) / step + 1;
    if (random_below(2)) {
        add_dim(m, axis, n, n - 1, -1);
        return tide_pick_range(tide_range_slice(TIDE_NONE, TIDE_NONE, -1));
    }
    add_dim(m, axis, count, first, step);
    return tide_pick_range(tide_range_slice(first, TIDE_NONE, step));
}

/* Items for a source; the dimensions of index arrays go where NumPy has them. An ellipsis stands
** for some axes, or none; without one the last axes may have no items. */
static size_t draw_items(tide_runtime *rt, model *m, tide_pick *items) {
    size_t n = 0;
    int axis = 0, groups = 0, spot = 0, from = (int)random_below(2 * m->rank + 2), rest;
    bool inside = false, ellipsis = from <= m->rank;
    rest = ellipsis ? (int)random_below(m->rank - from + 1) : 0;
    m->bdim = (int)random_below(3);
    for (int d = 0; d < m->bdim; d++) m->b[d] = 1 + random_below(4);
    while (axis < m->rank || (ellipsis && axis == from)) {
        int what = (int)random_below(5);
        bool index = false;
        if (ellipsis && axis == from) {
            items[n++] = REST;
            for (; rest > 0; rest--, axis++) add_dim(m, axis, m->n[axis], 0, 1);
            from = -1;
        } else if (what == 0 && m->ndim + m->bdim < 5) {
            items[n++] = NEW;
            add_dim(m, -1, 1, 0, 0);
        } else if (what == 1) {
            items[n++] = draw_range(m, axis);
            axis++;
        } else {
            index = true;
            if (!inside && groups++ == 0) spot = m->ndim;
            items[n++] = what == 2 ? AT(m->fixed[axis] = random_below(m->n[axis]))
                                   : LIST(draw_list(rt, m, axis));
            axis++;
        }
        inside = index;
        if (!ellipsis && random_below(6) == 0) break;
    }
    while (axis < m->rank) add_dim(m, axis, m->n[axis], 0, 1), axis++;
    if (!m->nlists) return n;
    m->bfirst = groups > 1 ? 0 : spot;
    memmove(&m->dims[m->bfirst + m->bdim], &m->dims[m->bfirst],
            (size_t)(m->ndim - m->bfirst) * sizeof m->dims[0]);
    for (int d = 0; d < m->bdim; d++) {
        m->dims[m->bfirst + d].axis = -2;
        m->dims[m->bfirst + d].length = m->b[d];
    }
    m->ndim += m->bdim;
    return n;
}

static int64_t model_size(const model *m) {
    int64_t n = 1;
    for (int d = 0; d < m->ndim; d++) n *= m->dims[d].length;
    return n;
}

/* The number of the source's element that is element i of the result. */
static int64_t model_place(const model *m, int64_t i) {
    int64_t at[MOST], c[ITEMS + MOST], b = 0, place = 0;
    memcpy(at, m->fixed, sizeof at);
    for (int d = m->ndim - 1; d >= 0; d--) {
        c[d] = i % m->dims[d].length, i /= m->dims[d].length;
        if (m->dims[d].axis >= 0) at[m->dims[d].axis] = m->dims[d].first + c[d] * m->dims[d].step;
    }
    for (int d = 0; d < m->bdim && m->nlists; d++) b = b * m->b[d] + c[m->bfirst + d];
    for (int l = 0; l < m->nlists; l++) at[m->lists[l].axis] = m->lists[l].at[b];
    for (int d = 0; d < m->rank; d++) place = place * m->n[d] + at[d];
    return place;
}

/* No NaN among its elements, whose bits a copy may change. */
static tide_array *draw_source(tide_runtime *rt, model *m, tide_dtype t) {
    static unsigned char data[ROOM * 16];
    size_t size = tide_dtype_size(t);
    int64_t n = 1;
    m->rank = 1 + (int)random_below(MOST);
    for (int d = 0; d < m->rank; d++) n *= m->n[d] = 1 + random_below(5);
    for (size_t i = 0; i < (size_t)n * size; i++)
        data[i] = t == TIDE_BOOL ? random_below(2) : (unsigned char)random_below(112);
    tide_array *a = tide_from_host(rt, t, m->rank, m->n, data);
    if (random_below(2)) return a;
    a = tide_slice(tide_transpose(a, NULL), "::-1");
    for (int d = 0; d < m->rank; d++) m->n[d] = tide_array_dim(a, d);
    return a;
}

static const tide_dtype sizes[] = {TIDE_BOOL, TIDE_F16, TIDE_F32, TIDE_C64, TIDE_C128};

static void an_index_agrees_with_the_model(void **state) {
    for (int round = 0; round < rounds(*state, 400); round++) {
        tide_dtype t = sizes[round % 5];
        size_t size = tide_dtype_size(t);
        tide_pick items[ITEMS + MOST];
        model m = {0};
        tide_array *a = draw_source(*state, &m, t);
        size_t n = draw_items(*state, &m, items);
        unsigned char *from = bytes_of(a);
        if (model_size(&m) > ROOM) {
            free(from);
            continue;
        }
        tide_array *got = tide_index(a, n, items);
        assert_array(got);
        assert_int_equal(tide_array_ndim(got), m.ndim);
        for (int d = 0; d < m.ndim; d++) assert_int_equal(tide_array_dim(got, d), m.dims[d].length);
        unsigned char *bytes = bytes_of(got);
        for (int64_t i = 0; i < model_size(&m); i++)
            assert_memory_equal(bytes + (size_t)i * size, from + (size_t)model_place(&m, i) * size,
                                size);
        free(bytes);
        free(from);
    }
}

static void a_put_agrees_with_the_model(void **state) {
    static unsigned char data[ROOM * 16];
    for (int round = 0; round < rounds(*state, 400); round++) {
        tide_dtype t = sizes[round % 5];
        size_t size = tide_dtype_size(t);
        tide_pick items[ITEMS + MOST];
        int64_t shape[ITEMS + MOST];
        model m = {0};
        tide_array *a = draw_source(*state, &m, t);
        size_t n = draw_items(*state, &m, items);
        if (model_size(&m) > ROOM) continue;
        for (int d = 0; d < m.ndim; d++) shape[d] = m.dims[d].length;
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = t == TIDE_BOOL ? random_below(2) : (unsigned char)random_below(112);
        bool one = random_below(4) == 0;
        tide_array *values = tide_from_host(*state, t, one ? 0 : m.ndim, shape, data);
        unsigned char *want = bytes_of(a);
        for (int64_t i = 0; i < model_size(&m); i++)
            memcpy(want + (size_t)model_place(&m, i) * size, data + (one ? 0 : (size_t)i * size),
                   size);
        assert_ok(tide_index_put(a, n, items, values));
        has_bytes(a, want, (size_t)tide_array_size(a) * size);
        free(want);
    }
}

/* ---- along an axis ---- */

static void along_an_axis_agrees_with_the_model(void **state) {
    tide_runtime *rt = *state;
    for (int round = 0; round < rounds(*state, 200); round++) {
        int64_t n[3] = {1 + random_below(5), 1 + random_below(5), 1 + random_below(5)},
                k[3] = {n[0], n[1], n[2]};
        int64_t index[216], values[216], size = n[0] * n[1] * n[2], step[3], j = 0;
        int axis = (int)random_below(3), stretched = (int)random_below(4);
        k[axis] = random_below(7);
        if (stretched != axis && stretched < 3) k[stretched] = 1;
        for (int64_t i = 0; i < k[0] * k[1] * k[2]; i++)
            index[i] = random_below(n[axis]) - (random_below(2) ? n[axis] : 0);
        for (int i = 0; i < 216; i++) values[i] = 1000 + i;
        tide_array *a =
                       tide_slice(tide_reshape(tide_arange(rt, TIDE_I64, 0, (double)size, 1), 3, n),
                                  ":, ::-1, :"),
                   *at = tide_from_host(rt, TIDE_I64, 3, k, index), *b = tide_copy(a);
        int64_t *from = bytes_of(a), *want = bytes_of(a), taken[216], c[3], full[3];
        for (int d = 0; d < 3; d++) full[d] = d == axis ? k[d] : n[d];
        step[2] = 1, step[1] = n[2], step[0] = n[1] * n[2];
        for (c[0] = 0; c[0] < full[0]; c[0]++)
            for (c[1] = 0; c[1] < full[1]; c[1]++)
                for (c[2] = 0; c[2] < full[2]; c[2]++) {
                    int64_t i = 0, place = 0;
                    for (int d = 0; d < 3; d++) i = i * k[d] + (k[d] == 1 ? 0 : c[d]);
                    for (int d = 0; d < 3; d++)
                        place += step[d] * (d != axis      ? c[d]
                                            : index[i] < 0 ? index[i] + n[d]
                                                           : index[i]);
                    taken[j] = from[place];
                    want[place] = values[j++];
                }
        has_bytes(tide_take_along_axis(a, at, axis), taken, (size_t)j * 8);
        assert_ok(
            tide_put_along_axis(b, at, axis - 3, tide_from_host(rt, TIDE_I64, 3, full, values)));
        has_bytes(b, want, (size_t)size * 8);
        free(from), free(want);
    }
}

/* ---- many ---- */

/* More places than a table of all keys is made for, and fewer; many claims of one place. */
static void many_claims_end_with_the_last(void **state) {
    tide_runtime *rt = *state;
    const int64_t wide = 300000, few = 50, claims = is_emulated(*state) ? 4000 : 70000;
    int64_t *at = malloc((size_t)claims * 8), *want = calloc((size_t)wide, 8);
    for (int round = 0; round < 2; round++) {
        int64_t n = round ? few : wide, spread = round ? few : 1500;
        memset(want, 0, (size_t)wide * 8);
        for (int64_t i = 0; i < claims; i++) {
            at[i] = random_below(spread) * (n / spread);
            want[at[i]] = i + 1;
        }
        tide_array *a = tide_zeros(rt, TIDE_I64, SHAPE(n)),
                   *list = tide_from_host(rt, TIDE_I64, SHAPE(claims), at),
                   *values = tide_arange(rt, TIDE_I64, 1, (double)claims + 1, 1);
        assert_ok(tide_index_put(a, PICK(LIST(list)), values));
        has_bytes(a, want, (size_t)n * 8);
        assert_ok(tide_put_along_axis(a, list, 0, tide_neg(values)));
        for (int64_t i = 0; i < n; i++) want[i] = -want[i];
        has_bytes(a, want, (size_t)n * 8);
    }
    free(at), free(want);
}

/* Puts k indices an axis of a, (n[0], n[1], n[2]), of which one in eight is bad; `turned`: memory
** has the axes in another order, and begins at an axis's end. */
static void put_many(tide_runtime *rt, tide_dtype t, const int64_t *n, int axis, int64_t k,
                     bool turned) {
    const size_t size = tide_dtype_size(t);
    int64_t shape[3] = {n[0], n[1], n[2]}, c[3];
    shape[axis] = k;
    const int64_t count = shape[0] * shape[1] * shape[2];
    tide_array *a = tide_zeros(rt, t, 3, n);
    if (turned) {
        static const int perm[] = {2, 0, 1}, back[] = {1, 2, 0};
        a = tide_slice(tide_transpose(tide_copy(tide_transpose(a, perm)), back), ":, ::-1, :");
    }
    int32_t *at = malloc((size_t)count * 4);
    unsigned char *data = malloc((size_t)count * size), *want = bytes_of(a);
    for (size_t i = 0; i < (size_t)count * size; i++)
        data[i] = t == TIDE_BOOL ? 1 : (unsigned char)(1 + random_below(100));
    for (int64_t i = 0; i < count; i++) {
        at[i] = (int32_t)random_below(n[axis]);
        if (i % 8 == 3) {
            at[i] = (int32_t)(i % 16 == 3 ? n[axis] + at[i] : -n[axis] - 1 - at[i]);
            continue;
        }
        c[0] = i / (shape[1] * shape[2]), c[1] = i / shape[2] % shape[1], c[2] = i % shape[2];
        c[axis] = at[i];
        memcpy(want + (size_t)((c[0] * n[1] + c[1]) * n[2] + c[2]) * size, data + (size_t)i * size,
               size);
        if (random_below(2)) at[i] -= (int32_t)n[axis];
    }
    assert_ok(tide_put_along_axis(a, tide_from_host(rt, TIDE_I32, 3, shape, at), axis,
                                  tide_from_host(rt, t, 3, shape, data)));
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    has_bytes(a, want, (size_t)(n[0] * n[1] * n[2]) * size);
    free(at), free(data), free(want);
}

/* On a GPU few claims are noted by each block, those of short lines by blocks of a few, others in
** tables: of all keys or hashed, whose slots are gone through, or the claims where rows are put.
** Lines lie one behind the other, or side by side. */
static void many_claims_along_an_axis_end_with_the_last(void **state) {
    static const struct {
        int64_t n[3], k;
        int axis;
        bool turned;
    } cases[] = {{{3, 7, 9}, 50, 1, false},       {{2, 60, 31}, 40, 2, false},
                 {{2, 60, 31}, 40, 2, true},      {{1, 13, 500}, 250, 2, false},
                 {{1, 1, 900}, 3700, 2, false},   {{40, 17, 3}, 40, 1, false},
                 {{40, 17, 3}, 40, 1, true},      {{60, 5, 7}, 151, 0, false},
                 {{1, 9000, 3}, 1200, 1, false},  {{2, 9000, 3}, 700, 1, true},
                 {{30000, 1, 2}, 1800, 0, false}, {{3, 2, 8200}, 600, 2, false},
                 {{2, 60, 310}, 40, 1, false},    {{2, 60, 310}, 40, 1, true},
                 {{30, 999, 1}, 45, 0, false},    {{4, 50, 300}, 10, 1, false}};
    for (size_t i = 0; i < TIDEI_COUNT(cases) * 5; i++)
        if (!is_emulated(*state) || i % 3 == 0)
            put_many(*state, sizes[i % 5], cases[i / 5].n, cases[i / 5].axis, cases[i / 5].k,
                     cases[i / 5].turned);
}

/* A table of all keys would be larger than a GPU's caches: that of elements of one or two bytes
** goes in slices, of columns or of what lies further apart, where these are not few. The emulator's
** three multiprocessors have room for 147456 words. */
static void large_tables_end_with_the_last(void **state) {
    static const struct {
        int64_t n[3], k;
        int axis;
        bool turned;
        unsigned slices[2]; /* of elements of one byte, of two; 0: one table */
    } cases[] = {{{1, 7500, 64}, 2000, 1, false, {4, 4}}, {{1, 7500, 64}, 2000, 1, true, {4, 4}},
                 {{1, 9000, 40}, 2000, 1, false, {4, 0}}, {{24, 14000, 1}, 2000, 1, false, {3, 0}},
                 {{64, 9000, 1}, 2000, 1, false, {4, 4}}, {{1, 100000, 3}, 30000, 1, false, {0, 0}},
                 {{1, 400000, 1}, 60000, 1, true, {0, 0}}};
    for (size_t i = 0; i < TIDEI_COUNT(cases) * 5; i++) {
        const size_t size = tide_dtype_size(sizes[i % 5]);
        const unsigned slices = size <= 2 ? cases[i / 5].slices[size - 1] : 0;
        if (test_quick() && i % 3 && !slices) continue;
        const unsigned before = atomic_load(&emulated_launches);
        put_many(*state, sizes[i % 5], cases[i / 5].n, cases[i / 5].axis, cases[i / 5].k,
                 cases[i / 5].turned);
        const unsigned launches = atomic_load(&emulated_launches) - before;
        const unsigned least = 2 * (slices ? slices : 1);
        if (is_emulated(*state)) assert_in_range(launches, least, least + 3); /* others turn a */
    }
}

/* Rows of bytes at random places of one list, or of two: some move as one, some are short. */
static void large_tables_of_rows_end_with_the_last(void **state) {
    enum { N = 640, PLACES = N * N, CLAIMS = 65000 };
    tide_runtime *rt = *state;
    int64_t *at = malloc(CLAIMS * sizeof *at), *first = malloc(CLAIMS * sizeof *at);
    for (int64_t width = 1; width < 9; width++)
        for (int two = 0; two < 2; two++) {
            unsigned char *data = malloc((size_t)(CLAIMS * width)),
                          *want = calloc(PLACES, (size_t)width);
            for (int64_t i = 0; i < CLAIMS * width; i++) data[i] = (unsigned char)random_below(256);
            for (int64_t i = 0; i < CLAIMS; i++) {
                const int64_t place = random_below(2) ? random_below(PLACES) : random_below(9);
                memcpy(want + place * width, data + i * width, (size_t)width);
                first[i] = place / N;
                at[i] = two ? place % N - (random_below(2) ? N : 0) : place;
            }
            tide_array *list = tide_from_host(rt, TIDE_I64, SHAPE(CLAIMS), at),
                       *rows = tide_from_host(rt, TIDE_I64, SHAPE(CLAIMS), first),
                       *values = tide_from_host(rt, TIDE_U8, SHAPE(CLAIMS, width), data), *a;
            if (two) {
                a = tide_zeros(rt, TIDE_U8, SHAPE(N, N, width));
                assert_ok(tide_index_put(a, PICK(LIST(rows), LIST(list)), values));
            } else {
                a = tide_zeros(rt, TIDE_U8, SHAPE(PLACES, width));
                assert_ok(tide_index_put(a, PICK(LIST(list)), values));
            }
            has_bytes(a, want, (size_t)(PLACES * width));
            free(data), free(want);
        }
    free(at), free(first);
}

static void nothing_is_taken_or_put_of_nothing(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(3, 4)), *none = tide_zeros(rt, TIDE_I64, SHAPE(0)),
               *empty = tide_zeros(rt, TIDE_I32, SHAPE(0, 4));
    has_shape(tide_index(a, PICK(LIST(none))), SHAPE(0, 4));
    has_shape(tide_index(empty, PICK(LIST(none), LIST(none))), SHAPE(0));
    has_shape(tide_index(empty, PICK(ALL, LIST(I64(rt, 1, 3)))), SHAPE(0, 2));
    has_shape(tide_take_along_axis(empty, tide_zeros(rt, TIDE_I8, SHAPE(0, 2)), 1), SHAPE(0, 2));
    assert_ok(tide_index_put(a, PICK(LIST(none)), I32(rt, 5)));
    assert_ok(tide_put_along_axis(empty, tide_zeros(rt, TIDE_I8, SHAPE(0, 4)), 0, empty));
    HAS_I32(tide_slice(a, "0"), 0, 1, 2, 3);
}

/* ---- what is wrong ---- */

static void a_bad_index_is_told_and_left_out(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(2, 3)), *i = I64(rt, 0, 1, 1), *j = I32(rt, 2, -4, 3);
    int32_t got[6];
    tide_array *t = tide_index(a, PICK(LIST(i), LIST(j)));
    assert_array(t);
    assert_int_equal(tide_to_host(t, got, 12), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_index: index ");
    assert_error(TIDE_E_BOUNDS, " is out of range for 3 elements");
    assert_error(TIDE_E_BOUNDS, "the nearest valid one was read");
    HAS_I32(t, 2, 3, 5);
    assert_ok(tide_index_put(a, PICK(LIST(i), LIST(j)), I32(rt, 7, 8, 9)));
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_index_put: index ");
    assert_error(TIDE_E_BOUNDS, "its element was left out");
    HAS_I32(a, 0, 1, 7, 3, 4, 5);
    a = tide_ones(rt, TIDE_I32, SHAPE(3, 3));
    t = tide_take_along_axis(a, tide_full(rt, TIDE_U64, SHAPE(1, 1), tide_arg_uint(UINT64_MAX)), 1);
    assert_array(t);
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_take_along_axis: index 18446744073709551615 is");
    assert_ok(tide_put_along_axis(a, tide_full(rt, TIDE_I8, SHAPE(3, 1), tide_arg_int(-4)), 1,
                                  tide_zeros(rt, TIDE_I32, 0, NULL)));
    assert_int_equal(tide_synchronize(rt, NULL), TIDE_E_BOUNDS);
    assert_error(TIDE_E_BOUNDS, "tide_put_along_axis: index -4 is out of range for 3 elements");
    HAS_I32(a, 1, 1, 1, 1, 1, 1, 1, 1, 1);
}

static void what_does_not_fit_is_refused(void **state) {
    tide_runtime *rt = *state;
    tide_array *a = counted(rt, SHAPE(2, 3)), *i = I64(rt, 0, 1), *three = I64(rt, 0, 1, 1),
               *empty = tide_zeros(rt, TIDE_I32, SHAPE(0, 3)),
               *f = tide_zeros(rt, TIDE_F32, SHAPE(2));
    const tide_pick odd = {.kind = 7};
    assert_null(tide_index(a, PICK(LIST(i), LIST(three))));
    assert_error(TIDE_E_SHAPE, "(2,) and (3,) do not broadcast");
    assert_null(tide_index(a, PICK(LIST(f))));
    assert_error(TIDE_E_DTYPE, "indices are f32");
    assert_null(tide_index(a, PICK(ALL, ALL, LIST(i))));
    assert_error(TIDE_E_BOUNDS, "3 items for an array with 2 dimensions");
    assert_null(tide_index(a, PICK(LIST(i), AT(3))));
    assert_error(TIDE_E_BOUNDS, "index 3 of axis 1");
    assert_null(tide_index(a, PICK(REST, LIST(i), REST)));
    assert_error(TIDE_E_INVALID, "more than one ellipsis");
    assert_null(tide_index(a, PICK(odd)));
    assert_error(TIDE_E_INVALID, "7 is no kind of item (entry 0)");
    const tide_pick strange = {.kind = TIDE_PICK_RANGE, .value.range.kind = 9};
    assert_null(tide_index(a, 1, &strange));
    assert_error(TIDE_E_INVALID, "9 is no kind of range (entry 0)");
    assert_null(tide_index(a, 1, NULL));
    assert_error(TIDE_E_INVALID, "items is NULL");
    assert_null(tide_index(empty, PICK(LIST(i))));
    assert_error(TIDE_E_BOUNDS, "2 indices into axis 0, which has no elements");
    assert_null(tide_index(a, PICK(NEW, NEW, NEW, NEW, NEW, NEW, NEW, NEW, NEW, LIST(i))));
    assert_error(TIDE_E_SHAPE, "9 new axes");
    tide_error_clear();
    assert_null(tide_index(a, PICK(ALL, LIST(NULL))));
    assert_error(TIDE_E_INVALID, "argument 3, index 1, is NULL");
    tide_error_clear();
    assert_int_equal(tide_index_put(a, PICK(LIST(i)), i), TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "axis -1 is 3 against 2");
    assert_int_equal(tide_index_put(a, PICK(LIST(i)), tide_zeros(rt, TIDE_I32, SHAPE(1, 2, 3))),
                     TIDE_E_SHAPE);
    assert_error(TIDE_E_SHAPE, "values of shape (1, 2, 3) do not stretch to the places' (2, 3)");
    assert_int_equal(tide_index_put(a, PICK(LIST(i)), tide_zeros(rt, TIDE_F32, SHAPE(3))),
                     TIDE_E_DTYPE);
    assert_error(TIDE_E_DTYPE, "f32 into i32");
    assert_int_equal(tide_index_put(tide_broadcast_to(a, SHAPE(4, 2, 3)), PICK(LIST(i)), a),
                     TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "stretched");
    assert_null(tide_take_along_axis(a, i, 0));
    assert_error(TIDE_E_SHAPE, "indices of shape (2,) do not go along axis 0");
    assert_null(tide_take_along_axis(a, a, 2));
    assert_error(TIDE_E_BOUNDS, "axis 2");
    assert_int_equal(tide_put_along_axis(tide_zeros(rt, TIDE_I32, SHAPE(1, 3)), a, 1, a),
                     TIDE_E_SHAPE);
}

/* Which kernels have been compiled. */
static bool few, slots, lines, claims, noted;
static void note_kernel(char *text) {
    few |= strstr(text, "WANTS_places_put_few_") != NULL;
    lines |= strstr(text, "WANTS_places_put_lines_") != NULL;
    slots |= strstr(text, "WANTS_places_put_slots_") != NULL;
    noted |= strstr(text, "WANTS_places_put_noted_") != NULL;
    claims |= strstr(text, "WANTS_places_claim") != NULL;
}

/* The whole battery, by the kernels for a GPU. */
static void a_gpus_kernels_do_the_same(void **state) {
    if (!*state) skip();
    emulated_edit = note_kernel;
    an_index_takes_points_rows_and_columns(state);
    the_last_of_several_values_stays(state);
    a_mask_is_where_it_is_true(state);
    a_mask_without_axes_is_all_or_nothing(state);
    what_is_put_may_share_memory(state);
    assert_true(few);
    an_index_agrees_with_the_model(state);
    a_put_agrees_with_the_model(state);
    along_an_axis_agrees_with_the_model(state);
    many_claims_end_with_the_last(state);
    many_claims_along_an_axis_end_with_the_last(state);
    large_tables_end_with_the_last(state);
    large_tables_of_rows_end_with_the_last(state);
    emulated_edit = NULL;
    assert_true(lines && slots && claims && noted);
    nothing_is_taken_or_put_of_nothing(state);
    a_bad_index_is_told_and_left_out(state);
}

static void kernels_compile(void **state) {
    (void)state;
    compiles(tidei_places_text, "places.h", "ALL", 90);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_runtime, close_runtime)
    const struct CMUnitTest tests[] = {
        CASE(an_index_takes_points_rows_and_columns),
        CASE(index_arrays_come_first_where_they_are_parted),
        CASE(an_eighth_axis_and_new_ones),
        CASE(the_last_of_several_values_stays),
        CASE(a_mask_is_where_it_is_true),
        CASE(a_mask_without_axes_is_all_or_nothing),
        CASE(what_is_put_may_share_memory),
        CASE(an_index_agrees_with_the_model),
        CASE(a_put_agrees_with_the_model),
        CASE(along_an_axis_agrees_with_the_model),
        CASE(many_claims_end_with_the_last),
        CASE(many_claims_along_an_axis_end_with_the_last),
        CASE(large_tables_end_with_the_last),
        CASE(large_tables_of_rows_end_with_the_last),
        CASE(nothing_is_taken_or_put_of_nothing),
        CASE(a_bad_index_is_told_and_left_out),
        CASE(what_does_not_fit_is_refused),
        cmocka_unit_test_setup_teardown(a_gpus_kernels_do_the_same, open_emulated, close_runtime),
        cmocka_unit_test(kernels_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
