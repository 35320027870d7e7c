/* slice.c: views as arithmetic on layouts: ranges, their text, and which reshapes need no copy.
**
** A range means what Python's start:stop:step means, parts not given and clipping included. No
** element of a result lies outside the elements of its source; what must stay true for that: an
** empty result keeps the source's offset, and a dimension of length 1 keeps a stride that never
** counts. */
#include <inttypes.h>
#include <stdlib.h>

#include "arrays/make/slice.h"
#include "arrays/place.h"
#include "runtime/base/text.h"

/* ---- ranges on a layout ---- */

static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

/* start:stop:step on a dimension of n elements: where it starts, and how many there are. */
static int64_t range_resolve(const tide_range *r, int64_t n, int64_t step, int64_t *first) {
    /* a downward range may stop before element 0 */
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
    int64_t start = r->start == TIDE_NONE ? (step > 0 ? lo : hi)
                                          : clamp(r->start < 0 ? r->start + n : r->start, lo, hi);
    int64_t stop = r->stop == TIDE_NONE ? (step > 0 ? hi : lo)
                                        : clamp(r->stop < 0 ? r->stop + n : r->stop, lo, hi);
    *first = start;
    if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

static tide_status slice_axis(const tidei_layout *l, int axis, const tide_range *r, const char *op,
                              tidei_layout *out) {
    int64_t n = l->shape[axis], stride = l->strides[axis],
            step = r->step == TIDE_NONE ? 1 : r->step, first;
    if (step == 0)
        return tidei_fail(TIDE_E_INVALID, op, "the step of a range is 0 (axis %d)", axis);
    int64_t count = range_resolve(r, n, step, &first);
    if (count > 0) out->offset += first * stride;
    out->shape[out->ndim] = count;
    out->strides[out->ndim++] = count > 1 ? stride * step : stride;
    return TIDE_OK;
}

static tide_status index_axis(const tidei_layout *l, int axis, const tide_range *r, const char *op,
                              tidei_layout *out) {
    int64_t n = l->shape[axis], i = r->start < 0 ? r->start + n : r->start;
    if (r->start == TIDE_NONE || i < 0 || i >= n)
        return tidei_fail(TIDE_E_BOUNDS, op,
                          "index %" PRId64 " of axis %d, which has %" PRId64 " element%s", r->start,
                          axis, n, n == 1 ? "" : "s");
    out->offset += i * l->strides[axis];
    return TIDE_OK;
}

static void keep_axes(const tidei_layout *l, int *axis, int count, tidei_layout *out) {
    for (; count > 0; count--, ++*axis) {
        out->shape[out->ndim] = l->shape[*axis];
        out->strides[out->ndim++] = l->strides[*axis];
    }
}

/* How many axes of the source the ranges take, and how many the result has; an ellipsis, given or
** not, takes the rest. */
static tide_status count_ranges(const tidei_layout *l, size_t n, const tide_range *r,
                                const char *op, int *rest) {
    int64_t taken = 0, made = 0, ellipses = 0;
    for (size_t i = 0; i < n; i++) {
        switch (r[i].kind) {
        case TIDE_RANGE_SLICE: taken++, made++; break;
        case TIDE_RANGE_INDEX: taken++; break;
        case TIDE_RANGE_NEWAXIS: made++; break;
        case TIDE_RANGE_ELLIPSIS: ellipses++; break;
        default:
            return tidei_fail(TIDE_E_INVALID, op, "%d is no kind of range (entry %zu)",
                              (int)r[i].kind, i);
        }
    }
    if (ellipses > 1) return tidei_fail(TIDE_E_INVALID, op, "more than one ellipsis in a slice");
    if (taken > l->ndim)
        return tidei_fail(TIDE_E_BOUNDS, op, "%" PRId64 " ranges for an array with %d dimension%s",
                          taken, (int)l->ndim, l->ndim == 1 ? "" : "s");
    *rest = l->ndim - (int)taken;
    if (made + *rest > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op,
                          "the slice has %" PRId64 " dimensions; at most %d are possible",
                          made + *rest, TIDE_MAX_RANK);
    return TIDE_OK;
}

tide_status tidei_layout_slice(const tidei_layout *l, size_t n, const tide_range *ranges,
                               const char *op, tidei_layout *out) {
    tidei_layout v = {.dtype = l->dtype, .offset = l->offset};
    int axis = 0, rest = 0;
    tide_status s = count_ranges(l, n, ranges, op, &rest);
    for (size_t i = 0; i < n && s == TIDE_OK; i++) {
        switch (ranges[i].kind) {
        case TIDE_RANGE_SLICE: s = slice_axis(l, axis++, &ranges[i], op, &v); break;
        case TIDE_RANGE_INDEX: s = index_axis(l, axis++, &ranges[i], op, &v); break;
        case TIDE_RANGE_NEWAXIS:
            v.shape[v.ndim] = 1;
            v.strides[v.ndim++] = 1;
            break;
        default: keep_axes(l, &axis, rest, &v); break;
        }
    }
    if (s != TIDE_OK) return s;
    keep_axes(l, &axis, l->ndim - axis, &v);
    if (tidei_layout_size(&v) == 0) v.offset = l->offset;
    *out = v;
    return TIDE_OK;
}

/* ---- the text of a slice ---- items, separated by commas: N | [N] ":" [N] [":" [N]] | "..." |
** "newaxis" | "None" */

typedef struct reader {
    const char *text, *at, *op;
} reader;

static tide_status parse_error(const reader *r, const char *at, const char *what) {
    char found[16] = "the end", window[TIDEI_WINDOW_MAX];
    size_t place = (size_t)(at - r->text);
    if (*at && (unsigned char)*at < ' ')
        tidei_format(found, sizeof found, "'?'");
    else if (*at)
        tidei_format(found, sizeof found, "'%.*s'", (int)tidei_text_character(at), at);
    return tidei_fail(TIDE_E_PARSE, r->op, "column %d: %s, found %s\n%s",
                      tidei_text_column(r->text, place, NULL), what, found,
                      tidei_text_window(r->text, place, window));
}

static void skip_blanks(reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}

static bool take_word(reader *r, const char *word) {
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0 || tidei_is_letter(r->at[n]) || tidei_is_digit(r->at[n]))
        return false;
    r->at += n;
    return true;
}

/* A number, or TIDE_NONE where there is none. */
static tide_status read_number(reader *r, int64_t *out) {
    skip_blanks(r);
    const char *start = r->at, *p = start + (*start == '-' || *start == '+');
    int64_t v = 0;
    *out = TIDE_NONE;
    if (!tidei_is_digit(*p)) return p == start ? TIDE_OK : parse_error(r, p, "wanted a digit");
    for (; tidei_is_digit(*p); p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return parse_error(r, start, "the number does not fit into 64 bits");
    }
    *out = *start == '-' ? -v : v;
    r->at = p;
    skip_blanks(r);
    return TIDE_OK;
}

static tide_status read_range(reader *r, tide_range *out) {
    const char *start = r->at;
    tide_status s = read_number(r, &out->start);
    if (s != TIDE_OK) return s;
    if (*r->at != ':') {
        out->kind = TIDE_RANGE_INDEX;
        return out->start == TIDE_NONE
                   ? parse_error(r, start, "wanted a number, ':', '...' or 'newaxis'")
                   : TIDE_OK;
    }
    r->at++;
    s = read_number(r, &out->stop);
    if (s == TIDE_OK && *r->at == ':') {
        r->at++;
        s = read_number(r, &out->step);
    }
    return s;
}

tide_status tidei_slice_parse(const char *text, const char *op, tide_range *ranges, size_t *n) {
    reader r = {text, text, op};
    size_t count = 0;
    for (skip_blanks(&r); *r.at; skip_blanks(&r)) {
        tide_range item = {TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_SLICE, 0};
        tide_status s = TIDE_OK;
        if (count == TIDEI_RANGES_MAX) return parse_error(&r, r.at, "too many ranges");
        if (take_word(&r, "..."))
            item.kind = TIDE_RANGE_ELLIPSIS;
        else if (take_word(&r, "newaxis") || take_word(&r, "None"))
            item.kind = TIDE_RANGE_NEWAXIS;
        else
            s = read_range(&r, &item);
        if (s != TIDE_OK) return s;
        ranges[count++] = item;
        skip_blanks(&r);
        if (*r.at && *r.at != ',') return parse_error(&r, r.at, "wanted ',' or the end");
        if (*r.at) r.at++;
    }
    *n = count;
    return TIDE_OK;
}

/* ---- reshapes ---- */

tide_status tidei_reshape_shape(const tidei_layout *l, int ndim, const int64_t *shape,
                                const char *op, int64_t *out) {
    char from[192], to[192];
    int64_t size = tidei_layout_size(l), known = 1;
    int open = -1;
    if (ndim < 0 || ndim > TIDE_MAX_RANK)
        return tidei_fail(TIDE_E_SHAPE, op, "an array has 0 to %d dimensions, not %d",
                          TIDE_MAX_RANK, ndim);
    if (ndim && !shape)
        return tidei_fail(TIDE_E_INVALID, op, "shape is NULL with %d dimensions", ndim);
    for (int i = 0; i < ndim; i++) {
        out[i] = shape[i];
        if (shape[i] == -1 && open < 0)
            open = i;
        else if (shape[i] < 0)
            return tidei_fail(TIDE_E_SHAPE, op, "%s: dimension %d is negative%s",
                              tidei_shape_text(to, sizeof to, ndim, shape), i,
                              shape[i] == -1 ? " a second time" : "");
        else if (__builtin_mul_overflow(known, shape[i], &known))
            return tidei_fail(TIDE_E_SHAPE, op, "%s has 2^63 elements or more, %s has %" PRId64,
                              tidei_shape_text(to, sizeof to, ndim, shape),
                              tidei_shape_text(from, sizeof from, l->ndim, l->shape), size);
    }
    if (open >= 0 && known == 0)
        return tidei_fail(TIDE_E_SHAPE, op,
                          "%s: -1 stands for no certain number beside a dimension of 0",
                          tidei_shape_text(to, sizeof to, ndim, shape));
    if (open >= 0) known *= out[open] = size / known;
    if (known != size)
        return tidei_fail(TIDE_E_SHAPE, op, "%s with %" PRId64 " element%s does not reshape to %s",
                          tidei_shape_text(from, sizeof from, l->ndim, l->shape), size,
                          size == 1 ? "" : "s", tidei_shape_text(to, sizeof to, ndim, shape));
    return tidei_view_shape_check(l->dtype, ndim, out, op);
}

bool tidei_layout_reshape(const tidei_layout *l, int ndim, const int64_t *shape,
                          tidei_layout *out) {
    int64_t run_size[TIDE_MAX_RANK], run_stride[TIDE_MAX_RANK];
    int runs = 0;
    *out = (tidei_layout){.dtype = l->dtype, .ndim = ndim, .offset = l->offset};
    if (ndim) memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    tidei_row_major(ndim, out->shape, out->strides);
    if (tidei_layout_size(l) == 0) return true;
    /* Runs of evenly spaced elements, innermost first. */
    for (int i = l->ndim; i-- > 0;) {
        if (l->shape[i] == 1) continue;
        if (runs && l->strides[i] == run_stride[runs - 1] * run_size[runs - 1]) {
            run_size[runs - 1] *= l->shape[i];
        } else {
            run_size[runs] = l->shape[i];
            run_stride[runs++] = l->strides[i];
        }
    }
    /* New dimensions, innermost first, each a part of one run. */
    int run = 0;
    for (int i = ndim; i-- > 0;) {
        if (shape[i] == 1) continue;
        if (run_size[run] % shape[i] != 0) return false;
        out->strides[i] = run_stride[run];
        run_stride[run] *= shape[i];
        run_size[run] /= shape[i];
        if (run_size[run] == 1) run++;
    }
    return true;
}
