/* sorted.h: what tests of sorts share: a slow model of what a sorted array is. */
#ifndef TIDETEST_SORTED_H
#define TIDETEST_SORTED_H

#include "tests/arrays/ordered.h"

/* Each row's elements and places in order, k of them. */
typedef struct sorted {
    int64_t n; /* elements of the results */
    unsigned char *values;
    int64_t *places;
} sorted;
static inline sorted model(tide_array *a, int axis, int64_t k, bool descending) {
    tide_dtype t = tide_array_dtype(a);
    size_t size = tide_dtype_size(t);
    int64_t n = tide_array_dim(a, axis), inner = 1, outer = 1;
    for (int i = 0; i < axis; i++) outer *= tide_array_dim(a, i);
    for (int i = axis + 1; i < tide_array_ndim(a); i++) inner *= tide_array_dim(a, i);
    sorted s = {.n = outer * k * inner};
    unsigned char *from = elements_of(a);
    int64_t *order = malloc((size_t)n * sizeof *order + 1);
    s.values = malloc((size_t)s.n * size + 1);
    s.places = malloc((size_t)s.n * sizeof *s.places + 1);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            unsigned char *row = from + (size_t)(o * n * inner + i) * size;
            model_order(t, row, inner * (int64_t)size, n, descending, order);
            for (int64_t j = 0; j < k; j++) {
                int64_t to = (o * k + j) * inner + i;
                s.places[to] = order[j];
                memcpy(s.values + (size_t)to * size, row + (size_t)(order[j] * inner) * size, size);
            }
        }
    free(order);
    free(from);
    return s;
}
static inline void drop_model(sorted *s) {
    free(s->values);
    free(s->places);
}

/* The array is sorted, and its places tell how. */
static inline void both_are_right(tide_array *a, int axis, bool descending) {
    sorted s = model(a, axis, tide_array_dim(a, axis), descending);
    tide_array *values, *places;
    assert_ok(tide_sort_both(a, axis, descending, &values, &places));
    has(values, tide_array_dtype(a), s.values, s.n);
    has(places, TIDE_I64, s.places, s.n);
    drop_model(&s);
}

/* The first k of each row, and each result without the other. */
static inline void picks_right(tide_array *a, int axis, int64_t k, bool largest) {
    sorted s = model(a, axis, k, largest);
    tide_array *values, *places;
    assert_ok(tide_topk(a, k, axis, largest, &values, &places));
    has(values, tide_array_dtype(a), s.values, s.n);
    has(places, TIDE_I64, s.places, s.n);
    assert_ok(tide_topk(a, k, axis, largest, NULL, &places));
    has(places, TIDE_I64, s.places, s.n);
    assert_ok(tide_topk(a, k, axis, largest, &values, NULL));
    has(values, tide_array_dtype(a), s.values, s.n);
    drop_model(&s);
}

#endif
