/* draw.c: arguments at random: numbers at and beyond the ends of their types, shapes, texts, and
** what the world has, in every state. What a call must refuse is told to the judge when it is
** drawn. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- dice ---- */

uint64_t dice(world *w) { /* splitmix64 */
    uint64_t z = w->dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
unsigned below(world *w, unsigned n) { return (unsigned)((dice(w) >> 32) % n); }
bool chance(world *w, unsigned percent) { return below(w, 100) < percent; }

/* ---- numbers ---- */

int64_t draw_int(world *w) {
    if (chance(w, 60)) return (int64_t)below(w, 12) - 4;
    return ONE_OF(w, int64_t, 127, 128, 255, 256, -128, -129, 32767, 65536, INT32_MAX, INT32_MIN,
                  (int64_t)INT32_MAX + 1, UINT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX - 1,
                  INT64_MIN + 1, INT64_MAX / 2, (int64_t)1 << 40, (int64_t)1 << 62);
}

size_t draw_size(world *w) {
    if (chance(w, 60)) return below(w, 70);
    return ONE_OF(w, size_t, 255, 256, 257, 4096, 65536, 65537, 1 << 20, (size_t)1 << 32,
                  (size_t)1 << 48, (size_t)1 << 63, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX,
                  SIZE_MAX - 255);
}

double draw_double(world *w) {
    if (chance(w, 60)) return ((double)below(w, 65) - 32) / ONE_OF(w, double, 1, 4, 3);
    return ONE_OF(w, double, 0, -0.0, NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-310, 5e-324,
                  65504, 65520, 3.5e38, 9007199254740993.0, 9223372036854775808.0,
                  18446744073709551616.0, -1e19, 0.1);
}

int draw_enum(world *w, int first, int last) {
    if (chance(w, 94)) return first + (int)below(w, (unsigned)(last - first + 1));
    expect(w, TIDE_E_INVALID);
    return ONE_OF(w, int, first - 1, last + 1, INT32_MAX, INT32_MIN, 1 << 20);
}

int draw_axis(world *w, int ndim) {
    if (ndim && chance(w, 90)) return (int)below(w, (unsigned)(2 * ndim)) - ndim;
    return ONE_OF(w, int, 0, 1, 7, 8, -8, -9, ndim, -ndim - 1, INT32_MAX, INT32_MIN, INT32_MIN + 1);
}

tide_dtype draw_dtype(world *w) {
    if (chance(w, 96)) return (tide_dtype)below(w, TIDE_DTYPE_COUNT);
    expect(w, TIDE_E_INVALID);
    may(w, TIDE_E_DTYPE);
    return ONE_OF(w, tide_dtype, -1, TIDE_DTYPE_COUNT, INT32_MAX, INT32_MIN, 100);
}

tide_dtype draw_dtype_of(world *w, unsigned kinds) {
    tide_dtype t = (tide_dtype)below(w, TIDE_DTYPE_COUNT);
    while (!(kinds >> tidei_dtype_kind(t) & 1)) t = (t + 1) % TIDE_DTYPE_COUNT;
    return t;
}

static tide_arg number_of(world *w, tidei_kind k) {
    switch (k) {
    case TIDEI_KIND_BOOL: return tide_arg_bool((int)below(w, 2));
    case TIDEI_KIND_INT: return tide_arg_int((int64_t)below(w, 250) - 125);
    case TIDEI_KIND_UINT: return tide_arg_uint(below(w, 250));
    case TIDEI_KIND_FLOAT: return tide_arg_float(((double)below(w, 33) - 16) / 4);
    default: return tide_arg_complex(below(w, 3), draw_double(w));
    }
}

tide_arg draw_number(world *w, tide_dtype t) {
    unsigned what = below(w, 100);
    if (what < 80 && tidei_dtype_valid(t)) return number_of(w, tidei_dtype_kind(t));
    if (what < 97)
        return ONE_OF(w, tide_arg, tide_arg_bool((int)draw_int(w)), tide_arg_int(draw_int(w)),
                      tide_arg_uint((uint64_t)draw_int(w)), tide_arg_float(draw_double(w)),
                      tide_arg_complex(draw_double(w), draw_double(w)));
    expect(w, TIDE_E_INVALID);
    may(w, TIDE_E_DTYPE);
    if (what == 97) {
        bool null = w->frame->null_array; /* which is no operand's here */
        tide_arg v = tide_arg_array(draw_array(w, 0)->a);
        w->frame->null_array = null;
        return v;
    }
    return (tide_arg){.kind = ONE_OF(w, int32_t, -1, 6, INT32_MAX, INT32_MIN),
                      .value.i = draw_int(w)};
}

const char *say_number(world *w, tide_arg v) {
    switch (v.kind) {
    case TIDE_ARG_BOOL: return say(w, "tide_arg_bool(%" PRId64 ")", v.value.i);
    case TIDE_ARG_INT: return say(w, "tide_arg_int(%" PRId64 ")", v.value.i);
    case TIDE_ARG_UINT: return say(w, "tide_arg_uint(%" PRIu64 "u)", v.value.u);
    case TIDE_ARG_FLOAT: return say(w, "tide_arg_float(%.17g)", v.value.f);
    case TIDE_ARG_COMPLEX:
        return say(w, "tide_arg_complex(%.17g, %.17g)", v.value.c[0], v.value.c[1]);
    default: return say(w, "(tide_arg){.kind = %d}", v.kind);
    }
}

/* No object of any kind has ever had it, as far as anybody can tell. */
void *draw_bits(world *w) {
    for (;;) {
        uint64_t v = dice(w);
        if (chance(w, 40))
            v = (uintptr_t)w->things[below(w, THINGS)].ref ^ (uint64_t)1 << below(w, 64);
        if (chance(w, 20)) v = (uintptr_t)w->runtimes[below(w, RUNTIMES)].ref + draw_size(w);
        if (chance(w, 10)) v = (uintptr_t)&w->data[below(w, DATA_BYTES)];
        bool lives = !v;
        for (int kind = TIDEI_REF_RUNTIME; kind <= TIDEI_REF_GRAPH; kind++)
            lives = lives || tidei_ref_look((tidei_ref_kind)kind, (void *)(uintptr_t)v);
        if (!lives) return (void *)(uintptr_t)v;
    }
}

/* ---- shapes ---- */

const char *say_dims(world *w, int ndim, const int64_t *dims) {
    char text[SAYING] = "";
    size_t n = 0;
    if (!dims) return "NULL";
    if (!ndim) return "(int64_t[]){0}";
    for (int i = 0; i < ndim && n < sizeof text - 24; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, i ? ", " : "", dims[i]);
    return say(w, "(int64_t[]){%s}", text);
}

static const int64_t usual_dims[] = {1, 1, 2, 3, 3, 4, 4, 5, 8, 0};

void small_shape(world *w, int ndim, shape *s) {
    s->ndim = ndim;
    s->at = s->dims;
    for (int i = 0; i < ndim; i++)
        s->dims[i] = usual_dims[below(w, ndim > 4 ? 3 : chance(w, 95) ? 9 : 10)];
    s->text = say_dims(w, ndim, s->at);
}

/* A good part of the device's memory. */
static void large_shape(world *w, size_t size, shape *s) {
    runtime *r = runtime_of(w, w->frame->rt);
    size_t bytes = (r ? r->memory : TIDEI_MIB) / 64 * (1 + below(w, 40)) + below(w, 3);
    s->ndim = 1 + (int)below(w, 2);
    s->dims[0] = (int64_t)(bytes / (size ? size : 1));
    if (s->ndim == 2) s->dims[1] = 1 + (int64_t)below(w, 3), s->dims[0] /= s->dims[1];
}

/* Dimensions that overflow, or would but for a zero among them. */
static void vast_shape(world *w, shape *s) {
    s->ndim = 1 + (int)below(w, TIDE_MAX_RANK);
    for (int i = 0; i < s->ndim; i++) {
        s->dims[i] = draw_int(w);
        if (s->dims[i] < 0) s->dims[i] = INT64_MAX + s->dims[i] + 1;
    }
    if (chance(w, 60)) s->dims[below(w, (unsigned)s->ndim)] = 0;
}

static void bad_shape(world *w, shape *s) {
    expect(w, TIDE_E_SHAPE);
    may(w, TIDE_E_INVALID);
    switch (below(w, 3)) {
    case 0:
        s->ndim = ONE_OF(w, int, -1, TIDE_MAX_RANK + 1, INT32_MAX, INT32_MIN);
        for (int i = 0; i < 16; i++) s->dims[i] = 1;
        break;
    case 1:
        s->ndim = 1 + (int)below(w, TIDE_MAX_RANK);
        for (int i = 0; i < s->ndim; i++) s->dims[i] = 2;
        s->dims[below(w, (unsigned)s->ndim)] = ONE_OF(w, int64_t, -2, INT32_MIN, INT64_MIN);
        break;
    default: s->ndim = 1 + (int)below(w, TIDE_MAX_RANK); s->at = NULL;
    }
}

void draw_shape(world *w, size_t size, shape *s) {
    unsigned what = below(w, 100);
    s->at = s->dims;
    if (what < 84)
        small_shape(w, what < 70 ? (int)below(w, 4) : (int)below(w, TIDE_MAX_RANK + 1), s);
    else if (what < 91)
        large_shape(w, size, s);
    else if (what < 95)
        vast_shape(w, s);
    else
        bad_shape(w, s);
    if (!s->ndim && chance(w, 50)) s->at = NULL; /* which is legal */
    s->text = say_dims(w, s->ndim > 16 || s->ndim < 0 ? 9 : s->ndim, s->at);
}

/* ---- arrays ---- */

static bool is_square(const array *x) {
    return x->ndim >= 2 && x->shape[x->ndim - 1] == x->shape[x->ndim - 2];
}

static bool is_like(const array *x, unsigned wanted) {
    tidei_kind k = tidei_dtype_kind(x->dtype);
    return !(
        (wanted & REAL && k == TIDEI_KIND_COMPLEX) || (wanted & FLOATS && x->dtype < TIDE_F32) ||
        (wanted & INTEGER && x->dtype > TIDE_U64) || (wanted & ONE && x->size != 1) ||
        (wanted & VECTOR && x->ndim < 1) || (wanted & MATRIX && x->ndim < 2) ||
        (wanted & SQUARE && !is_square(x)) ||
        (wanted & WRITABLE && (x->in->common || x->stretched)) ||
        (wanted & REACHABLE && x->memory == TIDE_MEMORY_DEVICE) ||
        (wanted & SMALL && x->size > 300) ||
        (wanted & UNIFIED && x->memory != TIDE_MEMORY_UNIFIED) || (wanted & DENSE && !x->dense));
}

#define COMPUTED 16384 /* elements that are computed with at most */

/* Nobody reads or writes it: elements that no order protects would be a race of ours, which the
** host device's checker reports. */
static bool is_kept(const world *w, const array *x) {
    bool seen = !w->alone || (x->rt != NOBODY && w->runtimes[x->rt].checked);
    return x->in->frozen || (x->in->unordered && seen);
}

static bool is_sound(const world *w, const array *x, unsigned wanted) {
    return x->a && x->rt != NOBODY && x->rt == w->frame->rt && !x->freed &&
           !(x->busy && w->frame->outer) && (wanted & FROZEN || !is_kept(w, x)) &&
           (wanted & VAST || x->size <= COMPUTED);
}

typedef bool fit_fn(const array *x, const array *y);

static array *find_array(world *w, unsigned wanted, fit_fn *also, const array *y) {
    unsigned from = below(w, ARRAYS);
    for (unsigned i = 0; i < ARRAYS; i++) {
        array *x = &w->arrays[(from + i) % ARRAYS];
        if (is_sound(w, x, wanted) && is_like(x, wanted) && (!also || also(x, y))) return x;
    }
    return NULL;
}

static bool is_freed(const array *x, const array *y) {
    return (void)y, x->freed && x->rt != NOBODY;
}
static bool is_closed(const array *x, const array *y) {
    return (void)y, x->rt == NOBODY && !x->freed;
}

static array *find_any(world *w, fit_fn *which, const array *y) {
    unsigned from = below(w, ARRAYS);
    for (unsigned i = 0; i < ARRAYS; i++) {
        array *x = &w->arrays[(from + i) % ARRAYS];
        if (x->a && !(x->busy && w->frame->outer) && which(x, y)) return x;
    }
    return NULL;
}
static bool is_elsewhere(const array *x, const array *y) {
    return x->rt != NOBODY && x->rt != y->rt && !x->freed && !x->in->frozen && x->size <= COMPUTED;
}

static array *no_array(world *w, unsigned wanted) {
    w->odd_array = (array){.name = "NULL", .rt = NOBODY};
    if (!(wanted & ABSENT)) expect(w, TIDE_E_INVALID), w->frame->null_array = true;
    return &w->odd_array;
}

/* One that the call must refuse, unless it says that it takes such; NULL: there is none. */
static array *odd_array(world *w, unsigned wanted) {
    array *x = NULL, home = {.rt = w->frame->rt};
    switch (below(w, 5)) {
    case 0: x = no_array(w, wanted); break;
    case 1:
        x = find_any(w, is_freed, NULL);
        if (x && !(wanted & FREED)) expect(w, TIDE_E_FREED);
        break;
    case 2:
        x = find_any(w, is_closed, NULL);
        if (x && !(wanted & CLOSED)) expect(w, TIDE_E_CLOSED);
        break;
    case 3:
        x = find_any(w, is_elsewhere, &home);
        if (x && !w->frame->settled) return w->frame->rt = x->rt, x->valid = true, x;
        if (x) expect(w, TIDE_E_INVALID);
        break;
    default:
        x = find_array(w, wanted & (FROZEN | VAST | WRITABLE), NULL, NULL);
        if (x) x->valid = true; /* though it may not fit */
        return x;
    }
    if (x) x->valid = false;
    return x;
}

/* A call of its own makes one. */
static array *supply(world *w, unsigned wanted) {
    if (w->depth > 2 || w->dropping) return NULL;
    w->wish = wanted;
    run_named(w, "tide_empty_in", w->frame->rt);
    w->wish = 0;
    return find_array(w, wanted, NULL, NULL);
}

static array *pick_array(world *w, unsigned wanted, fit_fn *also, const array *y) {
    array *x = !w->frame->outer && chance(w, 9) ? odd_array(w, wanted) : NULL;
    w->frame->settled = true;
    if (x) return hold(w, &x->busy), x;
    if (chance(w, 85)) x = find_array(w, wanted, also, y);
    if (!x) x = find_array(w, wanted, NULL, NULL);
    if (!x) x = supply(w, wanted);
    if (!x) x = find_array(w, wanted & (FROZEN | VAST | WRITABLE), NULL, NULL);
    if (x)
        x->valid = true;
    else
        x = no_array(w, wanted);
    hold(w, &x->busy);
    return x;
}

array *draw_array(world *w, unsigned wanted) { return pick_array(w, wanted, NULL, NULL); }

static bool broadcasts(const array *x, const array *y) {
    for (int i = 1; i <= x->ndim && i <= y->ndim; i++) {
        int64_t m = x->shape[x->ndim - i], n = y->shape[y->ndim - i];
        if (m != n && m != 1 && n != 1) return false;
    }
    return true;
}

array *draw_partner(world *w, const array *x, unsigned wanted) {
    return pick_array(w, wanted, x->a ? broadcasts : NULL, x);
}

/* ---- references ---- */

static runtime *odd_runtime(world *w, void *ref, const char *name) {
    runtime *r = &w->odd_runtimes[w->nodd++ % TIDEI_COUNT(w->odd_runtimes)];
    memset(r, 0, sizeof *r);
    r->ref = ref;
    r->memory = TIDEI_MIB;
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

static void *any_reference(world *w) { return w->things[below(w, THINGS)].ref; }

runtime *draw_runtime(world *w) {
    w->frame->settled = true;
    runtime *r = runtime_of(w, w->frame->rt);
    void *ref;
    switch (w->frame->outer ? 99 : below(w, 80)) {
    case 0: expect(w, TIDE_E_INVALID); return odd_runtime(w, NULL, "NULL");
    case 1:
    case 2:
        if (!w->nclosed) break;
        expect(w, TIDE_E_CLOSED);
        return odd_runtime(w, w->closed[below(w, w->nclosed)], "closed");
    case 3:
        expect(w, TIDE_E_INVALID);
        may(w, TIDE_E_CLOSED);
        return odd_runtime(w, draw_bits(w), "bits");
    case 4:
        if (!(ref = any_reference(w))) break;
        expect(w, TIDE_E_INVALID);
        return odd_runtime(w, ref, "other_reference");
    }
    if (!r) expect(w, TIDE_E_INVALID), r = odd_runtime(w, NULL, "NULL");
    r->valid = r->ref != NULL;
    hold(w, &r->busy);
    return r;
}

static thing *find_thing(world *w, tidei_ref_kind kind,
                         bool (*which)(const world *w, const thing *t)) {
    unsigned from = below(w, THINGS);
    for (unsigned i = 0; i < THINGS; i++) {
        thing *t = &w->things[(from + i) % THINGS];
        if (t->ref && t->kind == kind && !(t->busy && w->frame->outer) && which(w, t)) return t;
    }
    return NULL;
}
static bool thing_lives(const world *w, const thing *t) {
    return !t->over && t->rt != NOBODY && t->rt == w->frame->rt;
}
static bool thing_is_over(const world *w, const thing *t) {
    return (void)w, t->over && t->rt != NOBODY;
}
static bool thing_is_closed(const world *w, const thing *t) { return (void)w, t->rt == NOBODY; }
static bool thing_is_elsewhere(const world *w, const thing *t) {
    return !t->over && t->rt != NOBODY && t->rt != w->frame->rt;
}

static thing *odd_thing(world *w, tidei_ref_kind kind, void *ref, const char *name) {
    thing *t = &w->odd_things[w->nodd++ % TIDEI_COUNT(w->odd_things)];
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->ref = ref;
    t->rt = NOBODY;
    t->params = -1;
    t->view.reserved[0] = (uintptr_t)ref;
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static thing *refused_thing(world *w, tidei_ref_kind kind, unsigned wanted) {
    thing *t = NULL;
    void *ref;
    switch (below(w, 6)) {
    case 0:
        if (!(wanted & ABSENT)) expect(w, TIDE_E_INVALID);
        return odd_thing(w, kind, NULL, "NULL");
    case 1:
        t = find_thing(w, kind, thing_is_over);
        if (t && !(wanted & FREED)) expect(w, TIDE_E_INVALID);
        break;
    case 2:
        t = find_thing(w, kind, thing_is_closed);
        if (t && !(wanted & CLOSED)) expect(w, TIDE_E_CLOSED);
        if (t && t->over) may(w, TIDE_E_INVALID);
        break;
    case 3:
        t = find_thing(w, kind, thing_is_elsewhere);
        if (t && !w->frame->settled) return w->frame->rt = t->rt, t->valid = true, t;
        if (t) expect(w, TIDE_E_INVALID);
        break;
    case 4:
        if (!(ref = any_reference(w)) || tidei_ref_look(kind, ref)) return NULL;
        expect(w, TIDE_E_INVALID);
        may(w, TIDE_E_CLOSED);
        return odd_thing(w, kind, ref, "other_reference");
    default:
        expect(w, TIDE_E_INVALID);
        may(w, TIDE_E_CLOSED);
        return odd_thing(w, kind, draw_bits(w), "bits");
    }
    if (t) t->valid = false;
    return t;
}

thing *draw_thing(world *w, tidei_ref_kind kind, unsigned wanted) {
    static const char *const makers[] = {
        [TIDEI_REF_STREAM] = "tide_stream_new",    [TIDEI_REF_POOL] = "tide_pool_new",
        [TIDEI_REF_EXPR] = "tide_expr_new",        [TIDEI_REF_SCOPE] = "tide_use_begin",
        [TIDEI_REF_VIEW] = "tide_host_view_begin", [TIDEI_REF_BATCHES] = "tide_batches_new",
        [TIDEI_REF_GRAPH] = "tide_graph_new"};
    thing *t = !w->frame->outer && chance(w, 12) ? refused_thing(w, kind, wanted) : NULL;
    w->frame->settled = true;
    if (!t) {
        t = find_thing(w, kind, thing_lives);
        if (!t && !w->frame->outer) {
            run_named(w, makers[kind], w->frame->rt);
            t = find_thing(w, kind, thing_lives);
        }
        if (t)
            t->valid = true;
        else if (!(wanted & ABSENT))
            expect(w, TIDE_E_INVALID);
        if (!t) t = odd_thing(w, kind, NULL, "NULL");
    }
    hold(w, &t->busy);
    return t;
}

/* ---- texts ---- */

const char *quote(world *w, const char *text) {
    char out[SAYING];
    size_t n = 0;
    if (!text) return "NULL";
    for (const unsigned char *p = (const unsigned char *)text; *p && n < 240; p++) {
        bool plain = *p >= 32 && *p < 127 && *p != '"' && *p != '\\';
        n += (size_t)snprintf(out + n, sizeof out - n, plain ? "%c" : "\\%03o", *p);
    }
    out[n] = 0;
    return say(w, "\"%s\"%s", out, n >= 240 ? " /* and more */" : "");
}

static bool is_utf8(const char *text) {
    return !text[strspn(text,
                        "\t\n\r !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                        "abcdefghijklmnopqrstuvwxyz{|}~")];
}

/* One to three bytes changed, doubled, or the end cut off. */
static char *damage(world *w, const char *sound) {
    static const char telling[] = "()[]{}'\",:;.+-*/%~!<>=&|^ 0123456789aeixyb_\n\x80\xc3\xff";
    char *text = w->damaged[w->depth];
    size_t n = (size_t)snprintf(text, sizeof w->damaged[w->depth] - 8, "%s", sound);
    if (n > sizeof w->damaged[w->depth] - 9) n = sizeof w->damaged[w->depth] - 9;
    for (unsigned times = 1 + below(w, 3); times-- && n;) {
        unsigned at = below(w, (unsigned)n);
        switch (below(w, 3)) {
        case 0: text[at] = telling[below(w, sizeof telling - 1)]; break;
        case 1: memmove(text + at + 1, text + at, n - at), n++; break;
        default: n = at;
        }
    }
    text[n] = 0;
    return text;
}

const char *draw_text(world *w, const char *sound) {
    const char *text = sound;
    switch (below(w, 64)) {
    case 0: expect(w, TIDE_E_INVALID); return NULL;
    case 1: text = ""; break;
    case 2:
        memset(w->damaged[w->depth], ONE_OF(w, char, 'x', '(', ' ', '-', '\x80', '1'),
               sizeof w->damaged[w->depth] - 1);
        w->damaged[w->depth][sizeof w->damaged[w->depth] - 1] = 0;
        text = w->damaged[w->depth];
        break;
    case 3:
    case 4:
    case 5: text = damage(w, sound); break;
    case 6: text = "\xff\xfe\x80 \xc3("; break;
    }
    if (!is_utf8(text)) w->frame->bytes = true;
    return text;
}

const char *draw_slice(world *w) {
    char text[SAYING] = "";
    size_t n = 0;
    for (unsigned i = 0, items = below(w, 4); i <= items; i++) {
        const char *item =
            ONE_OF(w, const char *, ":", ":", "::-1", "1:", ":-1", "0", "-1", "1:3", "::2", "...",
                   "newaxis", "2:1", "0:1", "::-2", "1:2:3", "-3:-1", " 1 : 2 ", "::0", "7", "-9",
                   ":9223372036854775807", "-9223372036854775808:", "::9223372036854775807", "");
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", item);
    }
    return draw_text(w, say(w, "%s", text));
}

/* ---- expressions ---- */

typedef struct writer {
    world *w;
    char *text;
    size_t n, room;
    int params;
    bool elementwise, let;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *m, const char *format, ...) {
    va_list ap;
    if (m->n + 1 >= m->room) return;
    va_start(ap, format);
    int n = vsnprintf(m->text + m->n, m->room - m->n, format, ap);
    va_end(ap);
    m->n = m->n + (size_t)n < m->room ? m->n + (size_t)n : m->room - 1;
}

static void put_value(writer *m, int depth);

static void put_leaf(writer *m) {
    world *w = m->w;
    if (m->let && chance(w, 30))
        put(m, "u");
    else if (m->params > 0 && chance(w, 80))
        put(m, "p%u", below(w, (unsigned)m->params));
    else
        put(m, "%s",
            ONE_OF(w, const char *, "1", "2", "0", "0.5", "3", "true", "pi", "inf", "nan", "1e3",
                   "2i", "0x10", "255", "9223372036854775807", "1e39"));
}

static void put_fold(writer *m, int depth) {
    world *w = m->w;
    put(m, "%s(",
        ONE_OF(w, const char *, "sum", "prod", "min", "max", "mean", "any", "all", "argmin",
               "argmax"));
    put_value(m, depth - 1);
    if (chance(w, 60))
        put(m, ", axis=%s",
            ONE_OF(w, const char *, "0", "-1", "1", "(0, 1)", "(-1, -2)", "(0, 0)", "7"));
    if (chance(w, 40)) put(m, ", keepdims=%s", ONE_OF(w, const char *, "true", "false"));
    put(m, ")");
}

static void put_call(writer *m, int depth, const char *name, int operands) {
    put(m, "%s(", name);
    for (int i = 0; i < operands; i++) {
        put(m, i ? ", " : "");
        put_value(m, depth - 1);
    }
    put(m, ")");
}

static void put_value(writer *m, int depth) {
    world *w = m->w;
    unsigned what = depth <= 0 ? 0 : below(w, 100);
    if (what < 30) {
        put_leaf(m);
    } else if (what < 62) {
        put(m, "(");
        put_value(m, depth - 1);
        put(m, " %s ",
            ONE_OF(w, const char *, "+", "-", "*", "+", "-", "*", "/", "//", "%", "**", "==", "<",
                   "&&", "||", "&", "|", "^", "<<", ">>", "!=", ">="));
        put_value(m, depth - 1);
        put(m, ")");
    } else if (what < 74) {
        put_call(m, depth,
                 ONE_OF(w, const char *, "sqrt", "exp", "log", "sin", "tanh", "abs", "neg", "floor",
                        "round", "isnan", "sign", "erf", "real", "imag", "conj", "angle",
                        "mantissa", "square", "logical_not", "bit_not", "reciprocal"),
                 1);
    } else if (what < 80) {
        put_call(m, depth,
                 ONE_OF(w, const char *, "maximum", "minimum", "pow", "atan2", "hypot", "fmod",
                        "shl", "bit_and", "complex", "logaddexp", "nextafter", "gcd"),
                 2);
    } else if (what < 85) {
        put_call(m, depth, ONE_OF(w, const char *, "where", "clip"), 3);
    } else if (what < 92 || m->elementwise) {
        put_call(m, depth,
                 ONE_OF(w, const char *, "f32", "f64", "i32", "u8", "bool", "f16", "bf16", "i64",
                        "c64", "u64"),
                 1);
    } else {
        put_fold(m, depth);
    }
}

static void put_parameters(writer *m) {
    put(m, "(");
    for (int i = 0; i < m->params; i++) put(m, "%sp%d", i ? ", " : "", i);
    put(m, ") -> ");
    if (!chance(m->w, 25)) return;
    put(m, "let u = ");
    put_value(m, 2);
    put(m, "; ");
    m->let = true;
}

void draw_expression(world *w, int params, bool elementwise, expression *e) {
    char text[1024];
    writer m = {.w = w, .text = text, .room = sizeof text, .elementwise = elementwise};
    m.params = params >= 0     ? params
               : chance(w, 96) ? (int)below(w, 5)
                               : ONE_OF(w, int, 8, 32, 33, 40);
    e->params = m.params;
    e->results = chance(w, 75) ? 1 : chance(w, 90) ? 2 + (int)below(w, 2) : 9;
    put_parameters(&m);
    if (e->results > 1) put(&m, "(");
    for (int i = 0; i < e->results; i++) {
        put(&m, i ? ", " : "");
        put_value(&m, elementwise ? 2 : 3);
    }
    if (e->results > 1) put(&m, ")");
    snprintf(w->expression[w->depth], sizeof w->expression[w->depth], "%s", text);
    e->text = draw_text(w, w->expression[w->depth]);
    if (e->text != w->expression[w->depth]) e->params = e->results = -1;
}
