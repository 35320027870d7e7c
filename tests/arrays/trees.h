/* trees.h: structures of arrays of random form, with a rule for each structure in them; and a slow
** model of what is in them: an element is looked up by its index, one at a time.
**
** `samples` >= 0: every array's first axis has this length. Elements are small numbers, so that
** narrowing is exact or rounds as a cast does; bools are bytes of any value. */
#ifndef TIDETEST_TREES_H
#define TIDETEST_TREES_H

#include "arrays/move/adapt.h"
#include "tests/support/tidetest.h"

static uint64_t tree_seed = 1;
static unsigned tree_random(unsigned n) { /* below n */
    tree_seed = tree_seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(tree_seed >> 33) % n;
}

#define TREE_RULES  64
#define TREE_FIELDS 4
#define TREE_LEAVES 512

typedef struct tree {
    unsigned nrules;
    tide_adapt_rule rules[TREE_RULES];
    tide_adapt_field fields[TREE_RULES][TREE_FIELDS];
    char names[TREE_RULES][24];
    uint64_t ids[TREE_RULES];
    char *x; /* the structure */
    size_t nleaves;
    size_t offsets[TREE_LEAVES]; /* in the order in which they come */
    void *memory[TREE_LEAVES];
    int64_t strides[TREE_LEAVES][TIDE_MAX_RANK];
} tree;

/* ---- elements ---- */

static void tree_put(tide_dtype t, void *p, int v) {
    if (t == TIDE_BOOL)
        *(unsigned char *)p = (unsigned char)(v % 3 ? v : 0);
    else if (t == TIDE_F64)
        memcpy(p, &(double){v / 3.0}, 8);
    else if (t == TIDE_C128)
        memcpy(p, (double[]){v / 3.0, -v}, 16);
    else
        memset(p, v, tide_dtype_size(t));
}

/* The element as type `to` has it. */
static void tree_expect(tide_dtype t, tide_dtype to, const void *p, void *out) {
    double d[2];
    if (t == TIDE_BOOL) {
        *(unsigned char *)out = *(const unsigned char *)p != 0;
    } else if (t == to) {
        memcpy(out, p, tide_dtype_size(t));
    } else {
        size_t n = tide_dtype_size(t) / 8;
        memcpy(d, p, 8 * n);
        for (size_t i = 0; i < n; i++) memcpy((char *)out + 4 * i, &(float){(float)d[i]}, 4);
    }
}

/* Where the element with this row-major number is. */
static const char *tree_element(const tide_data *d, int64_t number) {
    int64_t at = 0, step = 1;
    for (int i = d->ndim; i-- > 0;) {
        int64_t k = number % d->shape[i];
        number /= d->shape[i];
        at += k * (d->strides ? d->strides[i] : step);
        step *= d->shape[i];
    }
    return (const char *)d->host + at * (int64_t)tide_dtype_size(d->dtype);
}

static int64_t tree_size(const tide_data *d) {
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++) n *= d->shape[i];
    return n;
}

/* ---- building ---- */

/* Strides of the axes in a random order, with gaps, some of them negative. Returns how many
** elements they span. */
static int64_t tree_strides(const tide_data *d, int64_t *strides, int64_t *first) {
    int order[TIDE_MAX_RANK];
    int64_t step = 1;
    *first = 0;
    for (int i = 0; i < d->ndim; i++) order[i] = i;
    for (int i = d->ndim; i-- > 1;) {
        int j = (int)tree_random((unsigned)i + 1), o = order[i];
        order[i] = order[j];
        order[j] = o;
    }
    for (int i = d->ndim; i-- > 0;) {
        int axis = order[i];
        int64_t n = d->shape[axis] ? d->shape[axis] : 1;
        step *= 1 + (tree_random(4) == 0);
        strides[axis] = step;
        if (tree_random(3) == 0) {
            strides[axis] = -step;
            *first += (n - 1) * step;
        }
        step *= n;
    }
    return step;
}

static tide_data tree_leaf(tree *t, int64_t samples) {
    static const tide_dtype types[] = {TIDE_BOOL, TIDE_U8,  TIDE_I16, TIDE_F16, TIDE_I32,
                                       TIDE_F32,  TIDE_I64, TIDE_F64, TIDE_C64, TIDE_C128};
    tide_data d = {.dtype = types[tree_random(TIDEI_COUNT(types))]};
    size_t k = t->nleaves, size = tide_dtype_size(d.dtype);
    if (tree_random(16) == 0) return d; /* absent */
    d.ndim = (int)(samples < 0 ? tree_random(4) : 1 + tree_random(3));
    for (int i = 0; i < d.ndim; i++) d.shape[i] = tree_random(12) ? 1 + tree_random(5) : 0;
    if (samples >= 0) d.shape[0] = samples;
    int64_t first = 0, n = tree_strides(&d, t->strides[k], &first);
    if (tree_random(2))
        d.strides = t->strides[k];
    else
        first = 0;
    char *p = t->memory[k] = malloc((size_t)n * size);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) tree_put(d.dtype, p + (size_t)i * size, (int)tree_random(100));
    d.host = p + (size_t)first * size;
    return d;
}

/* Makes a rule, those of structures in it first. */
static unsigned tree_rule(tree *t, int depth) {
    unsigned n = 1 + tree_random(TREE_FIELDS), inner[TREE_FIELDS] = {0};
    bool is_inner[TREE_FIELDS] = {false};
    size_t bytes = 8 * tree_random(3);
    for (unsigned i = 0; i < n; i++) {
        is_inner[i] = depth < 3 && tree_random(3) == 0;
        if (is_inner[i]) inner[i] = tree_rule(t, depth + 1);
    }
    unsigned me = t->nrules++;
    assert_true(me < TREE_RULES);
    for (unsigned i = 0; i < n; i++) {
        tide_adapt_field *f = &t->fields[me][i];
        *f = (tide_adapt_field){.name = "f", .offset = bytes, .count = 1 + tree_random(2)};
        if (is_inner[i]) f->type = t->names[inner[i]];
        bytes += f->count * (is_inner[i] ? t->rules[inner[i]].bytes : sizeof(tide_data)) +
                 8 * tree_random(2);
    }
    snprintf(t->names[me], sizeof t->names[me], "tree %u", me);
    t->rules[me] = (tide_adapt_rule){.type = t->names[me],
                                     .bytes = tidei_max_size(bytes, 8),
                                     .fields = t->fields[me],
                                     .nfields = n};
    return me;
}

static const tide_adapt_rule *tree_find(const tree *t, const char *type) {
    for (unsigned i = 0; i < t->nrules; i++)
        if (!strcmp(t->names[i], type)) return &t->rules[i];
    return NULL;
}

static void tree_fill(tree *t, const tide_adapt_rule *r, size_t offset, int64_t samples) {
    for (size_t i = 0; i < r->nfields; i++)
        for (size_t k = 0; k < r->fields[i].count; k++) {
            const tide_adapt_field *f = &r->fields[i];
            const tide_adapt_rule *inner = f->type ? tree_find(t, f->type) : NULL;
            size_t at = offset + f->offset + k * (inner ? inner->bytes : sizeof(tide_data));
            if (inner) {
                tree_fill(t, inner, at, samples);
                continue;
            }
            assert_true(t->nleaves < TREE_LEAVES);
            tide_data d = tree_leaf(t, samples);
            memcpy(t->x + at, &d, sizeof d);
            t->offsets[t->nleaves++] = at;
        }
}

/* The last rule is the whole's. */
static const tide_adapt_rule *tree_top(const tree *t) { return &t->rules[t->nrules - 1]; }

static tree *tree_new(tide_runtime *rt, int64_t samples) {
    tree *t = calloc(1, sizeof *t);
    assert_non_null(t);
    tree_rule(t, 0);
    size_t bytes = tree_top(t)->bytes;
    t->x = malloc(bytes);
    assert_non_null(t->x);
    for (size_t i = 0; i < bytes; i++) t->x[i] = (char)tree_random(256);
    tree_fill(t, tree_top(t), 0, samples);
    for (unsigned i = 0; i < t->nrules; i++)
        assert_ok(tide_adapt_register(rt, &t->rules[i], &t->ids[i]));
    return t;
}

static void tree_free(tide_runtime *rt, tree *t) {
    for (unsigned i = 0; i < t->nrules; i++) assert_ok(tide_adapt_unregister(rt, t->ids[i]));
    for (size_t i = 0; i < t->nleaves; i++) free(t->memory[i]);
    free(t->x);
    free(t);
}

static tide_data tree_data(const void *x, size_t offset) {
    tide_data d;
    memcpy(&d, (const char *)x + offset, sizeof d);
    return d;
}

/* What lies between the arrays is as it was. */
static void tree_same_rest(const tree *t, const void *other) {
    size_t bytes = tree_top(t)->bytes;
    char *seen = malloc(bytes);
    assert_non_null(seen);
    memcpy(seen, other, bytes);
    for (size_t i = 0; i < t->nleaves; i++)
        memcpy(seen + t->offsets[i], t->x + t->offsets[i], sizeof(tide_data));
    assert_memory_equal(seen, t->x, bytes);
    free(seen);
}

#endif
