/* test_shape_views.c: views of shape.h against slow models: axes turned around and moved,
** diagonals, windows; which of them meet themselves and so are not written; what is refused. */
#include "tests/arrays/shapes.h"

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

/* Windows of windows, slices and diagonals of them: what meets itself is refused, nothing else. */
static void views_know_whether_they_meet_themselves(void **state) {
    for (int round = 0; round < rounds(); round++) {
        source x = draw_source(*state, round, 1);
        tide_array *a = x.a;
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
            }
            assert_array(a);
        }
        tide_status s = tide_fill(a, tide_arg_int(1));
        assert_int_equal(s, meets_itself(a) ? TIDE_E_INVALID : TIDE_OK);
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
        CASE(views_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
