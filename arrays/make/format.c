/* format.c: arrays as text, laid out as NumPy prints them.
**
** Floats show the fewest digits that tell them from their neighbours, at most so many after the
** point, or as many as asked for; a column of them has one form, plain or with exponents, chosen
** from the largest and smallest magnitude. Above a number of elements only the first and last few
** along each axis are shown, and only those leave the device. A 0-d array prints as its element, in
** full. */
#include <math.h>
#include <stdlib.h>

#include "arrays/arrays.h"
#include "arrays/expr/copy.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"

/* ---- options ---- */

#define MOST_PLACES 100 /* digits after the point that may be asked for */
#define ALL_PLACES  400 /* more than tell any f64 from its neighbours: 2^-1074 has 324 */
/* bytes: two floats of nine digits before the point and ALL_PLACES behind it, with padding */
#define WORD 1024

typedef struct style {     /* tide_print_options with their defaults */
    int places;            /* digits after the point, at most */
    int mode;              /* TIDE_PRINT_* */
    int edge;              /* elements shown at each end of a summarised axis */
    int line;              /* columns; longer rows wrap */
    int64_t summary_above; /* elements */
    bool suppress;
} style;

static const style usual = {8, TIDE_PRINT_MAXPREC, 3, 75, 1000, false};

#define END(field) TIDEI_END(tide_print_options, field)
static const uint16_t option_ends[] = {END(struct_size),   END(precision),  END(float_mode),
                                       END(threshold),     END(edge_items), END(line_width),
                                       END(suppress_small)};
#undef END
static const tidei_sized option_sizes = {"tide_print_options", option_ends,
                                         TIDEI_COUNT(option_ends),
                                         TIDEI_END(tide_print_options, struct_size)};

/* A field that has no such value. */
static tide_status bad_option(const char *op, const char *name, int64_t given, const char *wanted) {
    return tidei_fail(TIDE_E_INVALID, op, "tide_print_options.%s is %lld; wanted: %s", name,
                      (long long)given, wanted);
}

static tide_status check_options(const tide_print_options *x, const char *op) {
    if (x->precision < TIDE_PRINT_NO_DIGITS || x->precision > MOST_PLACES)
        return bad_option(op, "precision", x->precision,
                          "1 to 100, 0 (for 8), or TIDE_PRINT_NO_DIGITS");
    if (x->float_mode < TIDE_PRINT_MAXPREC || x->float_mode > TIDE_PRINT_UNIQUE)
        return bad_option(op, "float_mode", x->float_mode,
                          "TIDE_PRINT_MAXPREC, _MAXPREC_EQUAL, _FIXED or _UNIQUE");
    if (x->threshold < 0)
        return bad_option(op, "threshold", x->threshold, "a number of elements, or 0 (for 1000)");
    if (x->edge_items < 0)
        return bad_option(op, "edge_items", x->edge_items, "a number of elements, or 0 (for 3)");
    if (x->line_width < 0)
        return bad_option(op, "line_width", x->line_width, "a number of columns, or 0 (for 75)");
    if (x->suppress_small != 0 && x->suppress_small != 1)
        return bad_option(op, "suppress_small", x->suppress_small, "0 or 1");
    return TIDE_OK;
}

static tide_status style_of(const tide_print_options *options, const char *op, style *out) {
    tide_print_options x = {0};
    *out = usual;
    if (!options) return TIDE_OK;
    tide_status s = tidei_sized_check(&option_sizes, options->struct_size, op);
    if (s != TIDE_OK) return s;
    memcpy(&x, options, options->struct_size);
    s = check_options(&x, op);
    if (s != TIDE_OK) return s;
    if (x.precision) out->places = x.precision == TIDE_PRINT_NO_DIGITS ? 0 : x.precision;
    if (x.float_mode == TIDE_PRINT_UNIQUE) out->places = ALL_PLACES;
    out->mode = x.float_mode;
    if (x.threshold) out->summary_above = x.threshold;
    if (x.edge_items) out->edge = x.edge_items;
    if (x.line_width) out->line = x.line_width;
    out->suppress = x.suppress_small;
    return TIDE_OK;
}

/* ---- where text goes ---- */

typedef struct sink {
    char *buf;
    size_t cap, len; /* len counts what did not fit too */
    size_t blanks;   /* held back: they are dropped where a line ends */
} sink;

static void put(sink *s, const char *text, size_t n) {
    for (; s->blanks; s->blanks--, s->len++) {
        if (s->len + 1 < s->cap) s->buf[s->len] = ' ';
    }
    for (size_t i = 0; i < n; i++, s->len++) {
        if (s->len + 1 < s->cap) s->buf[s->len] = text[i];
    }
}
static void put_lines(sink *s, int lines, int indent) {
    s->blanks = 0;
    while (lines-- > 0) put(s, "\n", 1);
    s->blanks = (size_t)indent;
}
static void put_word(sink *s, const char *word) {
    size_t n = strlen(word), inked = n;
    while (inked && word[inked - 1] == ' ') inked--;
    put(s, word, inked);
    s->blanks += n - inked;
}

/* ---- decimal digits ---- */

typedef struct digits { /* d[0].d[1]d[2]... * 10^exponent, without trailing zeros */
    int n, exponent;
    char d[MOST_PLACES + 4];
} digits;

/* The nearest decimal with `n` digits, n <= MOST_PLACES + 1. */
static digits round_digits(double magnitude, int n) {
    char text[MOST_PLACES + 16];
    digits out = {0};
    tidei_format(text, sizeof text, "%.*e", n - 1, magnitude);
    const char *p = text;
    for (; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') out.d[out.n++] = *p;
    }
    int64_t exponent = 0;
    tidei_parse_int(p + 1, -400, 400, &exponent);
    out.exponent = (int)exponent;
    while (out.n > 1 && out.d[out.n - 1] == '0') out.n--;
    return out;
}

static double round_to(double v, tide_dtype t) {
    switch (t) {
    case TIDE_F16: return tidei_f16_to_f32(tidei_f64_to_f16(v));
    case TIDE_BF16: return tidei_bf16_to_f32(tidei_f64_to_bf16(v));
    case TIDE_F32: return (float)v;
    default: return v;
    }
}

static double digits_value(const digits *d) {
    char text[40];
    tidei_format(text, sizeof text, "%.*se%d", d->n, d->d, d->exponent - d->n + 1);
    return tidei_parse_double(text, NULL);
}

/* Decimals of so many digits survive a trip through the type, denormal numbers apart. */
static int digits_kept(tide_dtype t) {
    return t == TIDE_BF16 ? 2 : t == TIDE_F16 ? 3 : t == TIDE_F32 ? 6 : 15;
}
static double least_normal(tide_dtype t) {
    return t == TIDE_F64 ? 0x1p-1022 : t == TIDE_F16 ? 0x1p-14 : 0x1p-126;
}

static digits shortest_digits(double magnitude, tide_dtype t) {
    digits d;
    for (int n = magnitude < least_normal(t) ? 1 : digits_kept(t);; n++) {
        d = round_digits(magnitude, n);
        if (n == 17 || round_to(digits_value(&d), t) == magnitude) return d;
    }
}

/* So many digits after the point, a point always. */
static int fixed_text(double magnitude, int places, char *out) {
    return tidei_format(out, WORD, "%.*f%s", places, magnitude, places ? "" : ".");
}

/* Plain form, a point always: "12.5", "3.", "0.001". More than `places` digits after the point are
** rounded off. */
static int plain_text(double magnitude, tide_dtype t, int places, char *out) {
    digits d = shortest_digits(magnitude, t);
    int n = 0, whole = d.exponent >= 0 ? d.exponent + 1 : 1, after = d.n - 1 - d.exponent;
    if (after > places) {
        n = fixed_text(magnitude, places, out);
        while (out[n - 1] == '0') n--;
        out[n] = 0;
        return n;
    }
    for (int i = 0; i < whole; i++) out[n++] = d.exponent >= 0 && i < d.n ? d.d[i] : '0';
    out[n++] = '.';
    for (int i = 0; i < after; i++) {
        int at = d.exponent + 1 + i;
        out[n++] = at >= 0 ? d.d[at] : '0';
    }
    out[n] = 0;
    return n;
}

/* Digits for the form with an exponent, at most `places` after the point. */
static digits exponent_digits(double magnitude, tide_dtype t, int places) {
    digits d = shortest_digits(magnitude, t);
    return d.n - 1 > places ? round_digits(magnitude, places + 1) : d;
}

static int exponent_size(int exponent) { return abs(exponent) >= 100 ? 3 : 2; }

/* ---- a column of floats ---- */

typedef struct float_form {
    const style *style;
    tide_dtype t;    /* of the component: f16, bf16, f32, f64 */
    bool exponent;   /* the form with an exponent */
    bool plus;       /* a sign always: imaginary parts */
    int left, right; /* columns before and after the point */
    int places;      /* exponent form: digits after the point */
    int exponent_size;
} float_form;

typedef struct column { /* the elements that are shown, in order, as they were read */
    const unsigned char *data;
    size_t n, size;
    tide_dtype t;
} column;

static double part_of(const column *c, size_t i, int part) {
    tide_arg v = tidei_decode(c->data + i * c->size, c->t);
    return v.kind == TIDE_ARG_COMPLEX ? v.value.c[part] : v.value.f;
}

#define PLAIN_DIGITS 8 /* before the point, at most: f64; other types have fewer that are true */

static bool wants_exponent(const column *c, int part, tide_dtype t, bool suppress) {
    double most = 0, least = INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        double v = fabs(part_of(c, i, part));
        if (!isfinite(v) || v == 0) continue;
        if (v > most) most = v;
        if (v < least) least = v;
    }
    if (most == 0) return false;
    int kept = digits_kept(t) < PLAIN_DIGITS ? digits_kept(t) : PLAIN_DIGITS;
    return most >= round_to(pow(10, kept), t) ||
           (!suppress && (least < round_to(1e-4, t) || round_to(most / least, t) > 1000));
}

static int at_least(int a, int b) { return a > b ? a : b; }

static void measure_finite(float_form *f, double v) {
    char text[WORD];
    int sign = f->plus || signbit(v), places = f->style->places;
    bool fixed = f->style->mode == TIDE_PRINT_FIXED;
    if (f->exponent) {
        digits d =
            fixed ? round_digits(fabs(v), places + 1) : exponent_digits(fabs(v), f->t, places);
        f->left = at_least(f->left, 1 + sign);
        f->places = at_least(f->places, fixed ? places : d.n - 1);
        f->exponent_size = at_least(f->exponent_size, exponent_size(d.exponent));
    } else {
        int n = fixed ? fixed_text(fabs(v), places, text) : plain_text(fabs(v), f->t, places, text);
        int point = (int)(strchr(text, '.') - text);
        f->left = at_least(f->left, point + sign);
        f->right = at_least(f->right, n - 1 - point);
    }
}

static float_form measure_floats(const column *c, const style *how, int part, tide_dtype t) {
    float_form f = {.style = how,
                    .t = t,
                    .exponent = wants_exponent(c, part, t, how->suppress),
                    .plus = part == 1};
    int widest = 0; /* of nan and inf, with their signs */
    for (size_t i = 0; i < c->n; i++) {
        double v = part_of(c, i, part);
        if (isfinite(v))
            measure_finite(&f, v);
        else
            widest = at_least(widest, 3 + (isnan(v) ? f.plus : f.plus || v < 0));
    }
    if (f.exponent) f.right = f.places + 2 + f.exponent_size;
    f.left = at_least(f.left, widest - (f.right + 1));
    return f;
}

/* One float padded to its column; returns the length. */
static int float_text(const float_form *f, double v, char *out) {
    char text[WORD];
    const char *sign = signbit(v) && !isnan(v) ? "-" : f->plus ? "+" : "";
    if (!isfinite(v)) {
        tidei_format(text, sizeof text, "%s%s", sign, isnan(v) ? "nan" : "inf");
        return tidei_format(out, WORD, "%*s", f->left + f->right + 1, text);
    }
    if (f->exponent) {
        /* further digits than the fewest are true ones too */
        digits d = round_digits(fabs(v), f->places + 1);
        int n = tidei_format(text, sizeof text, "%s%c.%.*s", sign, d.d[0], d.n - 1, d.d + 1);
        for (int zeros = f->places - (d.n - 1); zeros > 0; zeros--) text[n++] = '0';
        tidei_format(text + n, sizeof text - (size_t)n, "e%c%0*d", d.exponent < 0 ? '-' : '+',
                     f->exponent_size, abs(d.exponent));
        return tidei_format(out, WORD, "%*s", f->left + 1 + f->right, text);
    }
    int n = tidei_format(text, sizeof text, "%s", sign);
    if (f->style->mode == TIDE_PRINT_FIXED || f->style->mode == TIDE_PRINT_MAXPREC_EQUAL)
        fixed_text(fabs(v), f->right, text + n);
    else
        plain_text(fabs(v), f->t, f->style->places, text + n);
    int point = (int)(strchr(text, '.') - text);
    return tidei_format(out, WORD, "%*s%-*s", f->left - point > 0 ? f->left - point : 0, "",
                        f->right + 1 + point, text);
}

/* ---- words ---- */

typedef struct form {
    tidei_kind kind;
    float_form re, im;
    int width; /* integers */
} form;

static int integer_text(tide_arg v, char *out) {
    if (v.kind == TIDE_ARG_UINT)
        return tidei_format(out, WORD, "%llu", (unsigned long long)v.value.u);
    return tidei_format(out, WORD, "%lld", (long long)v.value.i);
}

static form measure(const column *c, const style *how) {
    form f = {.kind = tidei_dtype_kind(c->t)};
    char text[WORD];
    if (f.kind == TIDEI_KIND_FLOAT) f.re = measure_floats(c, how, 0, c->t);
    if (f.kind == TIDEI_KIND_COMPLEX) {
        f.re = measure_floats(c, how, 0, c->t == TIDE_C64 ? TIDE_F32 : TIDE_F64);
        f.im = measure_floats(c, how, 1, f.re.t);
    }
    if (f.kind == TIDEI_KIND_INT || f.kind == TIDEI_KIND_UINT) {
        for (size_t i = 0; i < c->n; i++)
            f.width =
                at_least(f.width, integer_text(tidei_decode(c->data + i * c->size, c->t), text));
    }
    return f;
}

static void word_text(const form *f, const column *c, size_t i, char *out) {
    char text[WORD], imaginary[WORD];
    tide_arg v = tidei_decode(c->data + i * c->size, c->t);
    switch (f->kind) {
    case TIDEI_KIND_BOOL: tidei_format(out, WORD, "%5s", v.value.i ? "True" : "False"); break;
    case TIDEI_KIND_FLOAT: float_text(&f->re, v.value.f, out); break;
    case TIDEI_KIND_COMPLEX: { /* the j comes before the padding */
        float_text(&f->re, v.value.c[0], text);
        int n = float_text(&f->im, v.value.c[1], imaginary), inked = n;
        while (imaginary[inked - 1] == ' ') inked--;
        tidei_format(out, WORD, "%.*s%.*sj%*s", WORD / 2, text, inked, imaginary, n - inked, "");
        break;
    }
    default: integer_text(v, text); tidei_format(out, WORD, "%*.*s", f->width, WORD - 1, text);
    }
}

/* A float by itself: "0.1", "1e+16"; inside a complex number without ".0" (point = false). */
static void lone_float(double v, tide_dtype t, bool point, char *out) {
    double magnitude = fabs(v);
    int n = tidei_format(out, WORD, "%s", signbit(v) && !isnan(v) ? "-" : "");
    if (!isfinite(v)) {
        tidei_format(out + n, (size_t)(WORD - n), "%s", isnan(v) ? "nan" : "inf");
    } else if (magnitude != 0 && (magnitude < 1e-4 ||
                                  magnitude >= (t == TIDE_F64 ? 1e16 : pow(10, digits_kept(t))))) {
        digits d = shortest_digits(magnitude, t);
        tidei_format(out + n, (size_t)(WORD - n), "%c%s%.*se%c%02d", d.d[0], d.n > 1 ? "." : "",
                     d.n - 1, d.d + 1, d.exponent < 0 ? '-' : '+', abs(d.exponent));
    } else {
        n += plain_text(magnitude, t, 30, out + n);
        if (out[n - 1] == '.' && point)
            out[n++] = '0';
        else if (out[n - 1] == '.')
            n--;
        out[n] = 0;
    }
}

static void lone_text(const column *c, char *out) {
    char re[WORD], im[WORD];
    tide_arg v = tidei_decode(c->data, c->t);
    tide_dtype part = c->t == TIDE_C64 ? TIDE_F32 : TIDE_F64;
    switch (v.kind) {
    case TIDE_ARG_BOOL: tidei_format(out, WORD, "%s", v.value.i ? "True" : "False"); break;
    case TIDE_ARG_FLOAT: lone_float(v.value.f, c->t, true, out); break;
    case TIDE_ARG_COMPLEX:
        lone_float(v.value.c[0], part, false, re);
        lone_float(v.value.c[1], part, false, im);
        if (v.value.c[0] == 0 && !signbit(v.value.c[0]))
            tidei_format(out, WORD, "%.*sj", WORD / 2, im);
        else
            tidei_format(out, WORD, "(%.*s%s%.*sj)", WORD / 3, re, im[0] == '-' ? "" : "+",
                         WORD / 3, im);
        break;
    default: integer_text(v, out);
    }
}

/* ---- rows and brackets ---- */

typedef struct picture {
    style style;
    form form;
    column column;
    int ndim;
    int64_t shape[TIDE_MAX_RANK]; /* the array's */
    int64_t shown[TIDE_MAX_RANK]; /* how many of each axis are in the column: all, or both ends */
    sink out;
} picture;

/* One row. A word that would pass the end of the line starts a new one. */
static void draw_row(picture *p, size_t *next) {
    int axis = p->ndim - 1, indent = p->ndim, width = p->style.line - axis - 1;
    int64_t at = indent; /* a line of any width may have more columns than an int counts */
    bool gap = p->shown[axis] < p->shape[axis];
    char word[WORD];
    for (int64_t i = 0; i < p->shown[axis] + gap; i++) {
        if (gap && i == p->style.edge)
            tidei_format(word, sizeof word, "...");
        else
            word_text(&p->form, &p->column, (*next)++, word);
        int n = (int)strlen(word);
        if (i > 0 && at + n > width) {
            put_lines(&p->out, 1, indent);
            at = indent;
        } else if (i > 0)
            p->out.blanks++;
        put_word(&p->out, word);
        at += n + 1;
    }
}

static void draw(picture *p, int axis, size_t *next) {
    put(&p->out, "[", 1);
    if (axis == p->ndim - 1) draw_row(p, next);
    for (int64_t i = 0; axis < p->ndim - 1 && i < p->shown[axis]; i++) {
        int lines = p->ndim - 1 - axis;
        if (i > 0) put_lines(&p->out, lines, axis + 1);
        if (i == p->style.edge && p->shown[axis] < p->shape[axis]) {
            put(&p->out, "...", 3);
            put_lines(&p->out, lines, axis + 1);
        }
        draw(p, axis + 1, next);
    }
    put(&p->out, "]", 1);
}

static void draw_all(picture *p) {
    char word[WORD];
    size_t next = 0;
    if (p->column.n == 0) {
        put(&p->out, "[]", 2);
    } else if (p->ndim == 0) {
        lone_text(&p->column, word);
        put(&p->out, word, strlen(word));
    } else {
        p->form = measure(&p->column, &p->style);
        draw(p, 0, &next);
    }
    if (p->out.cap) p->out.buf[p->out.len < p->out.cap ? p->out.len : p->out.cap - 1] = 0;
}

/* ---- what is shown, from the device ---- */

/* One corner of a summarised array: bit i of `corner` says which end of axis i. False: axis i has
** one part only. */
static bool corner_of(const tidei_layout *l, const bool *cut, unsigned corner, int edge,
                      tidei_layout *out) {
    *out = *l;
    for (int i = 0; i < l->ndim; i++) {
        bool far = corner >> i & 1;
        if (far && !cut[i]) return false;
        if (far) out->offset += (l->shape[i] - edge) * l->strides[i];
        if (cut[i]) out->shape[i] = edge;
    }
    return true;
}

/* Brings the corners together on the device, then to the host in one piece. */
static tide_status read_corners(const tidei_operand *o, const picture *p, void *data,
                                const char *op) {
    bool cut[TIDE_MAX_RANK];
    tidei_operand dense, from = *o, to;
    tide_status s = tidei_operand_make(o->rt, o->lay.dtype, o->lay.ndim, p->shown, op, &dense);
    if (s != TIDE_OK) return s;
    to = dense;
    for (int i = 0; i < o->lay.ndim; i++) cut[i] = p->shown[i] < o->lay.shape[i];
    for (unsigned corner = 0; corner < 1u << o->lay.ndim && s == TIDE_OK; corner++) {
        if (corner_of(&o->lay, cut, corner, p->style.edge, &from.lay) &&
            corner_of(&dense.lay, cut, corner, p->style.edge, &to.lay))
            s = tidei_copy_elements(o->rt, &to, &from, op);
    }
    if (s == TIDE_OK) s = tidei_operand_read(&dense, data, op);
    tidei_operand_put(&dense);
    return s;
}

static tide_status draw_operand(const tidei_operand *o, picture *p, const char *op) {
    int64_t n = tidei_layout_size(&o->lay), both = 2 * (int64_t)p->style.edge;
    size_t size = tide_dtype_size(o->lay.dtype);
    bool summary = n > p->style.summary_above;
    p->ndim = o->lay.ndim;
    memcpy(p->shape, o->lay.shape, sizeof p->shape);
    for (int i = 0; i < p->ndim; i++) {
        p->shown[i] = summary && p->shape[i] > both ? both : p->shape[i];
        if (summary) n = (i ? n : 1) * p->shown[i];
    }
    size_t bytes = (size_t)n * size;
    void *data = tidei_scratch_host(o->rt, bytes + 1);
    if (!data) return tidei_fail_host_memory(op, bytes + 1);
    tide_status s = summary ? read_corners(o, p, data, op) : tidei_operand_read(o, data, op);
    if (s == TIDE_OK) {
        p->column = (column){.data = data, .n = (size_t)n, .size = size, .t = o->lay.dtype};
        draw_all(p);
    }
    tidei_scratch_host_free(o->rt, data);
    return s;
}

static size_t array_text(tide_array *a, const tide_print_options *options, char *buf, size_t cap,
                         const char *op) {
    TIDEI_OPERATION(op);
    tidei_operand o;
    picture p = {.out = {.buf = buf, .cap = tidei_text_room(buf, cap)}};
    if (tidei_operand_get(a, op, 1, &o) != TIDE_OK) return 0;
    tide_status s = style_of(options, op, &p.style);
    if (s == TIDE_OK) s = draw_operand(&o, &p, op);
    tidei_operand_put(&o);
    return s == TIDE_OK ? p.out.len : 0;
}

size_t tide_array_text(tide_array *a, char *buf, size_t cap) {
    return array_text(a, NULL, buf, cap, "tide_array_text");
}

size_t tide_array_text_with(tide_array *a, const tide_print_options *options, char *buf,
                            size_t cap) {
    return array_text(a, options, buf, cap, "tide_array_text_with");
}
