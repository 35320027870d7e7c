/* fuzz_slice.c: the text of a slice, read and applied to a layout, against a slow model of both.
**
** An input is the text up to a NUL; what follows chooses the layout: axes of any length and stride,
** stretched ones of up to 2^59 elements among them. The model takes the text apart at its commas
** and colons, and asks Python's slice.indices for each axis. A layout is linear, so a result is
** right where its first element is, and those at the end of each axis. */
#define FUZZ_RUNS 400000
#include "arrays/arrays.h"
#include "arrays/make/slice.h"
#include "tests/fuzz/fuzz_place.h"

static void require(bool holds, const char *what, const char *text) {
    if (holds) return;
    fprintf(stderr, "fuzz_slice: %s: \"%s\": %s\n", what, text, tide_error_last()->message);
    abort();
}

/* ---- the text, slowly ---- */

typedef struct item { /* a range with numbers of any size; given: bits for start, stop, step */
    int kind, given;
    __int128 part[3];
} item;

static void trim(const char **from, const char **to) {
    while (*from < *to && (**from == ' ' || **from == '\t')) ++*from;
    while (*from < *to && ((*to)[-1] == ' ' || (*to)[-1] == '\t')) --*to;
}

static bool is_word(const char *from, const char *to, const char *word) {
    return (size_t)(to - from) == strlen(word) && !memcmp(from, word, strlen(word));
}

/* A part between colons: nothing, or a number that is no further from 0 than INT64_MAX. */
static bool read_part(const char *from, const char *to, item *x, int which) {
    __int128 v = 0;
    trim(&from, &to);
    if (from == to) return true;
    bool minus = *from == '-';
    if (*from == '-' || *from == '+') from++;
    if (from == to) return false;
    for (; from < to; from++) {
        if (*from < '0' || *from > '9') return false;
        v = v * 10 + (*from - '0');
        if (v > INT64_MAX) return false;
    }
    x->part[which] = minus ? -v : v;
    x->given |= 1 << which;
    return true;
}

static bool read_item(const char *from, const char *to, item *x) {
    int which = 0;
    *x = (item){.kind = TIDE_RANGE_SLICE};
    trim(&from, &to);
    if (is_word(from, to, "...")) return x->kind = TIDE_RANGE_ELLIPSIS, true;
    if (is_word(from, to, "newaxis") || is_word(from, to, "None"))
        return x->kind = TIDE_RANGE_NEWAXIS, true;
    for (;; which++) {
        const char *colon = memchr(from, ':', (size_t)(to - from));
        if (which == 3 || !read_part(from, colon ? colon : to, x, which)) return false;
        if (!colon) break;
        from = colon + 1;
    }
    if (which == 0) x->kind = TIDE_RANGE_INDEX;
    return which > 0 || x->given;
}

/* How many items; -1 where the text is none. */
static int read_text(const char *text, item *items) {
    const char *end = text + strlen(text), *begin = text, *last = end;
    int n = 0;
    trim(&begin, &last);
    while (begin < last) {
        const char *comma = memchr(begin, ',', (size_t)(last - begin));
        if (n == TIDEI_RANGES_MAX || !read_item(begin, comma ? comma : last, &items[n++]))
            return -1;
        if (!comma) break;
        begin = comma + 1; /* nothing may follow the last comma */
        trim(&begin, &last);
    }
    return n;
}

/* ---- the slice, slowly ---- */

typedef struct picked { /* of one axis of the result: where it begins, how far apart, how many */
    __int128 first, step, count;
} picked;

/* Python's slice.indices(n), and how many there are. */
static picked indices(const item *x, __int128 n) {
    picked p = {.step = x->given & 4 ? x->part[2] : 1};
    __int128 lower = p.step < 0 ? -1 : 0, upper = p.step < 0 ? n - 1 : n, bound[2];
    for (int i = 0; i < 2; i++) {
        bound[i] = x->part[i] < 0 ? x->part[i] + n : x->part[i];
        if (bound[i] < lower) bound[i] = lower;
        if (bound[i] > upper) bound[i] = upper;
        if (!(x->given >> i & 1)) bound[i] = (p.step < 0) == (i == 0) ? upper : lower;
    }
    p.first = bound[0];
    if (p.step > 0 && bound[1] > bound[0]) p.count = (bound[1] - bound[0] + p.step - 1) / p.step;
    if (p.step < 0 && bound[1] < bound[0]) p.count = (bound[0] - bound[1] - p.step - 1) / -p.step;
    return p;
}

typedef struct model {
    tide_status status; /* of several reasons to refuse, any */
    int ndim;
    bool empty;
    __int128 offset; /* of the first element */
    /* of each axis: its length; how far its last element is from the first */
    __int128 shape[64], far[64];
} model;

static void add_axis(model *m, const tidei_layout *l, int axis, picked p) {
    m->offset += p.first * l->strides[axis];
    m->shape[m->ndim] = p.count;
    m->far[m->ndim++] = p.count > 0 ? (p.count - 1) * p.step * l->strides[axis] : 0;
    m->empty |= p.count == 0;
}

static void keep(model *m, const tidei_layout *l, int *axis, int count) {
    for (; count > 0; count--) {
        add_axis(m, l, *axis, (picked){0, 1, l->shape[*axis]});
        ++*axis;
    }
}

static model slice(const tidei_layout *l, const item *items, int n) {
    model m = {.offset = l->offset};
    int takes = 0, axis = 0, ellipses = 0;
    for (int i = 0; i < n; i++) {
        takes += items[i].kind == TIDE_RANGE_SLICE || items[i].kind == TIDE_RANGE_INDEX;
        ellipses += items[i].kind == TIDE_RANGE_ELLIPSIS;
        if (items[i].kind == TIDE_RANGE_SLICE && items[i].given & 4 && items[i].part[2] == 0)
            m.status = TIDE_E_INVALID;
    }
    if (ellipses > 1 || takes > l->ndim) m.status = TIDE_E_BOUNDS;
    for (int i = 0; i < n && m.status == TIDE_OK; i++) {
        switch (items[i].kind) {
        case TIDE_RANGE_ELLIPSIS: keep(&m, l, &axis, l->ndim - takes); break;
        case TIDE_RANGE_NEWAXIS: m.shape[m.ndim++] = 1; break;
        case TIDE_RANGE_SLICE:
            add_axis(&m, l, axis, indices(&items[i], l->shape[axis])), axis++;
            break;
        default: {
            __int128 at = items[i].part[0] + (items[i].part[0] < 0 ? l->shape[axis] : 0);
            if (at < 0 || at >= l->shape[axis]) m.status = TIDE_E_BOUNDS;
            m.offset += at * l->strides[axis++];
        }
        }
    }
    if (m.status == TIDE_OK) keep(&m, l, &axis, l->ndim - axis);
    if (m.ndim > TIDE_MAX_RANK) m.status = TIDE_E_SHAPE;
    return m;
}

/* ---- the layout ---- */

/* Elements of a buffer: each axis with the stride of those inside it, some backwards, some
** stretched. Of the stretched ones one may be long. */
static tidei_layout some_layout(fuzz_choices *c) {
    tidei_layout l = {.dtype = (tide_dtype)fuzz_choose(c, TIDE_DTYPE_COUNT)};
    int64_t step = 1 + (int64_t)fuzz_choose(c, 3);
    bool is_long = false;
    l.ndim = (int)fuzz_choose(c, TIDE_MAX_RANK + 1);
    l.offset = (int64_t)fuzz_choose(c, 100);
    for (int i = l.ndim; i-- > 0;) {
        unsigned how = fuzz_choose(c, 8);
        l.shape[i] = (int64_t)fuzz_choose(c, 6);
        l.strides[i] = how == 0 ? 0 : step;
        if (how == 0 && !is_long) l.shape[i] = (int64_t)1 << fuzz_choose(c, 40), is_long = true;
        if (how == 0) continue;
        step *= (l.shape[i] ? l.shape[i] : 1) + (how == 1);
        if (how > 2) continue;
        l.offset += l.shape[i] ? (l.shape[i] - 1) * l.strides[i] : 0;
        l.strides[i] = -l.strides[i];
    }
    return l;
}

static void compare(const tidei_layout *l, const tidei_layout *got, const model *m,
                    const char *text) {
    int64_t lo[2], hi[2];
    require(got->ndim == m->ndim && got->dtype == l->dtype, "the rank differs", text);
    for (int i = 0; i < got->ndim; i++)
        require(got->shape[i] == m->shape[i], "the shape differs", text);
    if (m->empty) return require(got->offset == l->offset, "an empty slice has moved", text);
    require(got->offset == m->offset, "the first element differs", text);
    for (int i = 0; i < got->ndim; i++)
        require((__int128)(got->shape[i] - 1) * got->strides[i] == m->far[i], "an element differs",
                text);
    tidei_layout_extent(l, &lo[0], &hi[0]);
    tidei_layout_extent(got, &lo[1], &hi[1]);
    require(lo[1] >= lo[0] && hi[1] <= hi[0], "the slice reaches beyond", text);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t size) {
    fuzz_choices c;
    char *text = fuzz_text(bytes, size, &c);
    tidei_layout l = some_layout(&c), got;
    tide_range ranges[TIDEI_RANGES_MAX];
    item items[TIDEI_RANGES_MAX];
    size_t n = 0;
    tide_error_clear();
    tide_status status = tidei_slice_parse(text, "tide_slice", ranges, &n);
    int wanted = read_text(text, items);
    require(status == (wanted < 0 ? TIDE_E_PARSE : TIDE_OK), "the text is read otherwise", text);
    if (wanted < 0) {
        place_check(text, false);
    } else {
        model m = slice(&l, items, wanted);
        require((int)n == wanted, "the number of ranges differs", text);
        status = tidei_layout_slice(&l, n, ranges, "tide_slice", &got);
        require((status == TIDE_OK) == (m.status == TIDE_OK), "refused, or not, otherwise", text);
        if (status == TIDE_OK) compare(&l, &got, &m, text);
    }
    free(text);
}
