/* array_calls.c: calls of tide/array.h and tide/memory.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- making ---- */

static void on_maker(world *w) {
    shape s;
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    draw_shape(w, tide_dtype_size(t), &s);
    calling(w, "%s(%s, %d, %d, %s)", w->frame->c->name, r->name, t, s.ndim, s.text);
    (void)made(w, w->frame->c->fn.maker(r->ref, t, s.ndim, s.at), NULL, ROW_MAJOR);
}

static void on_full(world *w) {
    shape s;
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    draw_shape(w, tide_dtype_size(t), &s);
    tide_arg v = draw_number(w, t);
    calling(w, "tide_full(%s, %d, %d, %s, %s)", r->name, t, s.ndim, s.text, say_number(w, v));
    (void)made(w, tide_full(r->ref, t, s.ndim, s.at, v), NULL, ROW_MAJOR);
}

static void on_arange(world *w) {
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    bool odd = chance(w, 15);
    double start = odd ? draw_double(w) : below(w, 9), stop = odd ? draw_double(w) : below(w, 40),
           step = odd ? draw_double(w) : 1 + below(w, 3);
    if (t < 0 || t >= TIDE_DTYPE_COUNT || !isfinite(start) || !isfinite(stop) || !isfinite(step) ||
        step == 0)
        expect(w, TIDE_E_INVALID);
    calling(w, "tide_arange(%s, %d, %.17g, %.17g, %.17g)", r->name, t, start, stop, step);
    (void)made(w, tide_arange(r->ref, t, start, stop, step), NULL, ROW_MAJOR);
}

/* What the next tide_empty_in should make so that another call has its argument. */
static tide_dtype wished_dtype(world *w) {
    if (w->wish & FLOATS)
        return ONE_OF(w, tide_dtype, TIDE_F32, TIDE_F64, TIDE_F32, TIDE_F64, TIDE_C64);
    if (w->wish & INTEGER) return ONE_OF(w, tide_dtype, TIDE_I32, TIDE_U8, TIDE_I64);
    return (tide_dtype)below(w, TIDE_C64);
}
static tide_memory wished_memory(world *w) {
    if (w->wish & UNIFIED) return TIDE_MEMORY_UNIFIED;
    if (w->wish & REACHABLE) return ONE_OF(w, tide_memory, TIDE_MEMORY_PINNED, TIDE_MEMORY_UNIFIED);
    return TIDE_MEMORY_DEFAULT;
}
static void wished_shape(world *w, shape *s) {
    small_shape(w, w->wish & ONE ? 0 : w->wish & (MATRIX | SQUARE) ? 2 : 1, s);
    if (w->wish & SQUARE) s->dims[1] = s->dims[0];
    s->text = say_dims(w, s->ndim, s->at);
}

static void on_empty_in(world *w) {
    shape s;
    runtime *r = w->wish ? runtime_of(w, w->frame->rt) : draw_runtime(w);
    tide_memory kind =
        w->wish ? wished_memory(w) : draw_enum(w, TIDE_MEMORY_DEFAULT, TIDE_MEMORY_UNIFIED);
    tide_dtype t = w->wish ? wished_dtype(w) : draw_dtype(w);
    if (w->wish)
        wished_shape(w, &s);
    else
        draw_shape(w, tide_dtype_size(t), &s);
    w->wish = 0;
    if (!r) r = draw_runtime(w);
    calling(w, "tide_empty_in(%s, %d, %d, %d, %s)", r->name, kind, t, s.ndim, s.text);
    (void)made(w, tide_empty_in(r->ref, kind, t, s.ndim, s.at), NULL, ROW_MAJOR);
}

static void on_from_host(world *w) {
    shape s;
    runtime *r = draw_runtime(w);
    tide_dtype t = draw_dtype(w);
    int64_t n = (int64_t)tide_dtype_size(t);
    small_shape(w, (int)below(w, 5), &s);
    for (int i = 0; i < s.ndim; i++) n *= s.dims[i];
    const void *data = w->data + (chance(w, 50) ? 0 : below(w, 64));
    if (chance(w, 3)) {
        data = NULL;
        if (n) expect(w, TIDE_E_INVALID);
    }
    calling(w, "tide_from_host(%s, %d, %d, %s, %s)", r->name, t, s.ndim, s.text,
            data ? "data" : "NULL");
    (void)made(w, tide_from_host(r->ref, t, s.ndim, s.at, data), NULL, ROW_MAJOR);
}

/* ---- to the host ---- */

static void on_to_host(world *w) {
    array *x = draw_array(w, 0);
    size_t n = (size_t)x->size * tide_dtype_size(x->dtype);
    size_t bytes = chance(w, 94) ? n : draw_size(w);
    bool nowhere = chance(w, 3);
    if (n > ROOM) bytes = 1;
    if (bytes != n || (nowhere && n)) expect(w, TIDE_E_INVALID);
    mark(room(w), ROOM + 64);
    calling(w, "tide_to_host(%s, %s, %zu)", x->name, nowhere ? "NULL" : "buf", bytes);
    bool ok = gave(w, tide_to_host(x->a, nowhere ? NULL : room(w), bytes));
    marked(w, room(w) + (ok ? n : 0), ok ? 64 : 0);
}

static void on_item(world *w) {
    array *x = draw_array(w, ONE);
    tide_arg v;
    bool nowhere = chance(w, 4);
    if (nowhere) expect(w, TIDE_E_INVALID);
    if (x->a && x->size != 1) expect(w, TIDE_E_SHAPE);
    mark(&v, sizeof v);
    calling(w, "tide_item(%s, %s)", x->name, nowhere ? "NULL" : "&v");
    if (!gave(w, tide_item(x->a, nowhere ? NULL : &v)))
        marked(w, &v, sizeof v);
    else if (v.kind < TIDE_ARG_BOOL || v.kind > TIDE_ARG_COMPLEX)
        broken(w, "gives an element of kind %d", v.kind);
}

static void on_item_f64(world *w) {
    array *x = draw_array(w, ONE | REAL);
    if (x->a && x->size != 1) expect(w, TIDE_E_SHAPE);
    calling(w, "tide_item_f64(%s)", x->name);
    bool fails = w->frame->must_fail;
    double v = tide_item_f64(x->a);
    if (isnan(v) && !fails)
        done(w); /* the element is one, or complex */
    else
        (void)told(w, isnan(v));
}

static const char *draw_path(world *w, bool writes) {
    const char *usual = say(w, "%s/f%u.npy", w->folder, below(w, 4));
    if (chance(w, 88)) return usual;
    if (!writes && chance(w, 25)) return draw_text(w, usual); /* which may be a path to anywhere */
    if (chance(w, 10)) return expect(w, TIDE_E_INVALID), NULL;
    return ONE_OF(w, const char *, "/dev/null", "/dev/full", "/tmp/no/such/folder/x.npy", "/", "",
                  w->folder);
}

static void on_npy_write(world *w) {
    array *x = draw_array(w, 0);
    const char *path = draw_path(w, true);
    calling(w, "tide_npy_write(%s, %s)", x->name, quote(w, path));
    (void)gave(w, tide_npy_write(x->a, path));
}

static void on_npy_read(world *w) {
    runtime *r = draw_runtime(w);
    const char *path = draw_path(w, false);
    calling(w, "tide_npy_read(%s, %s)", r->name, quote(w, path));
    (void)made(w, tide_npy_read(r->ref, path), NULL, 0);
}

/* ---- keeping and dropping ---- Callbacks take only what no call under way has. */

static array *droppable(world *w) {
    for (int tries = 0; tries < 8; tries++) {
        array *x = draw_array(w, ANY & ~CLOSED);
        if (!x->shared && x->busy == 1) return x;
    }
    return NULL;
}

static void on_free(world *w) {
    array *x = droppable(w);
    w->frame->must_fail = false;
    calling(w, "tide_free(%s)", x ? x->name : "NULL");
    tide_free(x ? x->a : NULL);
    if (x && x->a && !tide_array_is_freed(x->a)) broken(w, "has not freed it");
    done(w);
    if (x && x->a) x->freed = true;
}

static void on_retain(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_retain(%s)", x->name);
    tide_array *kept = tide_retain(x->a);
    if (kept) x->refs++;
    if (x->shared && kept) tide_release(kept), x->refs--;
    (void)made(w, kept, x, SAME);
}

/* Mostly of one that goes on; now and then the last one. */
static void on_release(world *w) {
    array *x = droppable(w);
    bool last = x && x->refs <= 1;
    w->frame->must_fail = false;
    if (x && (!x->refs || (last && chance(w, 40)))) x = NULL;
    calling(w, "tide_release(%s)", x ? x->name : "NULL");
    tide_release(x ? x->a : NULL);
    done(w);
    if (x && x->a) world_release(w, x);
}

static void on_scope_begin(world *w) {
    runtime *r = draw_runtime(w);
    if (r->valid && r->scopes > 6) { /* enough */
        r = &w->odd_runtimes[0];
        memset(r, 0, sizeof *r);
        snprintf(r->name, sizeof r->name, "NULL");
        expect(w, TIDE_E_INVALID);
    }
    calling(w, "tide_scope_begin(%s)", r->name);
    if (gave(w, tide_scope_begin(r->ref))) r->scopes++;
}

static void on_scope_end(world *w) {
    runtime *r = draw_runtime(w);
    if (r->valid && !r->scopes) expect(w, TIDE_E_INVALID);
    calling(w, "tide_scope_end(%s)", r->name);
    if (!gave(w, tide_scope_end(r->ref))) return;
    scopes_ended(w, w->frame->rt, r->scopes);
    r->scopes--;
}

static void on_scope_depth(world *w) {
    const runtime *r = draw_runtime(w);
    calling(w, "tide_scope_depth(%s)", r->name);
    int depth = tide_scope_depth(r->ref);
    if (told(w, depth < 0) && depth != (int)r->scopes)
        broken(w, "gives %d, of %u open ones", depth, r->scopes);
}

static void on_scope_unwind(world *w) {
    runtime *r = draw_runtime(w);
    int open = (int)r->scopes,
        depth = r->valid && chance(w, 80) ? (int)below(w, (unsigned)open + 1) : (int)draw_int(w);
    if (r->valid && (depth < 0 || depth > open)) expect(w, TIDE_E_INVALID);
    calling(w, "tide_scope_unwind(%s, %d)", r->name, depth);
    if (!gave(w, tide_scope_unwind(r->ref, depth))) return;
    scopes_ended(w, w->frame->rt, (unsigned)depth + 1);
    r->scopes = (unsigned)depth;
}

static void on_scope_keep(world *w) {
    array *x = draw_array(w, FROZEN | VAST | FREED);
    if (!x->a || x->rt == NOBODY || x->freed) {
        may(w, TIDE_E_FREED);
        if (!x->a) expect(w, TIDE_E_INVALID);
    }
    calling(w, "tide_scope_keep(%s)", x->name);
    tide_array *kept = tide_scope_keep(x->a);
    if (kept && x->scope) x->scope--;
    (void)made(w, kept, x, SAME);
}

static void on_death_of(void *user) {
    note *n = user;
    if (atomic_fetch_add(&n->told, 1)) broken(n->w, "a death is told again");
    if (here && here == n->w) wander(here, n->rt, DROPS);
}

static note *room_for_note(world *w) {
    unsigned from = below(w, NOTES);
    for (unsigned i = 0; i < NOTES; i++) {
        note *n = &w->notes[(from + i) % NOTES];
        if (!n->used || n->told) return n;
    }
    return NULL;
}

static void on_array_on_death(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    note *n = room_for_note(w);
    bool none = !n || chance(w, 4);
    if (x->shared) {
        x = droppable(w);
        w->frame->must_fail = w->frame->null_array =
            false; /* those that it passed by are no matter */
    }
    if (none || !x || x->freed || x->rt == NOBODY) expect(w, none ? TIDE_E_INVALID : TIDE_E_FREED);
    if (!x || !x->a) expect(w, TIDE_E_INVALID), w->frame->null_array = true;
    if (n) *n = (note){.w = w, .used = true, .rt = x ? x->rt : NOBODY};
    may(w, TIDE_E_CLOSED);
    calling(w, "tide_array_on_death(%s, %s, user)", x ? x->name : "NULL", none ? "NULL" : "fn");
    if (!gave(w, tide_array_on_death(x ? x->a : NULL, none ? NULL : on_death_of, n)) && n)
        n->used = false;
}

/* ---- looking ---- */

static void on_array_runtime(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_runtime(%s)", x->name);
    tide_runtime *rt = tide_array_runtime(x->a);
    if (told(w, !rt) && rt != w->runtimes[x->rt].ref) broken(w, "gives another runtime");
}

static void on_array_dtype(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_dtype(%s)", x->name);
    tide_dtype t = tide_array_dtype(x->a);
    if (told(w, t < 0) && t != x->dtype) broken(w, "gives %d", t);
}

static void on_array_ndim(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_ndim(%s)", x->name);
    int n = tide_array_ndim(x->a);
    if (told(w, n < 0) && n != x->ndim) broken(w, "gives %d", n);
}

static int axis_of(world *w, const array *x) {
    int axis = draw_axis(w, x->ndim);
    if (x->a && (axis < -x->ndim || axis >= x->ndim)) expect(w, TIDE_E_BOUNDS);
    return axis;
}

static void on_array_dim(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    int axis = axis_of(w, x);
    calling(w, "tide_array_dim(%s, %d)", x->name, axis);
    int64_t n = tide_array_dim(x->a, axis);
    if (told(w, n < 0) && n != x->shape[axis < 0 ? axis + x->ndim : axis])
        broken(w, "gives %" PRId64, n);
}

static void on_array_size(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_size(%s)", x->name);
    int64_t n = tide_array_size(x->a);
    if (told(w, n < 0) && n != x->size) broken(w, "gives %" PRId64, n);
}

static void on_array_stride(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    int axis = axis_of(w, x);
    bool sure = x->a && x->valid && axis >= -x->ndim && axis < x->ndim;
    calling(w, "tide_array_stride(%s, %d)", x->name, axis);
    int64_t n = tide_array_stride(x->a, axis); /* 0 is a stride, too */
    (void)told(w, n == 0 && !sure);
}

static void on_array_is_contiguous(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_is_contiguous(%s)", x->name);
    int yes = tide_array_is_contiguous(x->a);
    if (told(w, !yes && !x->valid) && yes != x->dense) broken(w, "gives %d", yes);
}

static void on_array_is_freed(world *w) {
    array *x = draw_array(w, FROZEN | VAST | FREED | CLOSED);
    calling(w, "tide_array_is_freed(%s)", x->name);
    int yes = tide_array_is_freed(x->a);
    if (told(w, !x->a) && x->rt != NOBODY && yes != x->freed) broken(w, "gives %d", yes);
}

static void on_array_text(world *w) {
    array *x = draw_array(w, 0);
    size_t cap;
    char *buf = draw_buffer(w, &cap);
    calling(w, "tide_array_text(%s, %s, %zu)", x->name, buf ? "buf" : "NULL", cap);
    judge_text(w, tide_array_text(x->a, buf, cap), buf, cap);
}

/* All elements are asked for only where these are few: each may be a long word. An older caller's
** struct lacks the fields that would be refused. */
static void draw_options(world *w, const array *x, tide_print_options *o) {
    bool sound = chance(w, 70);
    o->struct_size = draw_struct_size(w, sizeof *o, sizeof o->struct_size);
    o->precision = sound ? (int)below(w, 102) - 1 : (int)draw_int(w);
    o->float_mode = sound ? (int)below(w, 4) : (int)draw_int(w);
    o->threshold = sound || x->size > 2000 ? below(w, 2000) : draw_int(w);
    o->edge_items = sound ? (int)below(w, 20) : (int)draw_int(w);
    o->line_width = sound ? (int)below(w, 200) : (int)draw_int(w);
    o->suppress_small = sound ? (int)below(w, 2) : (int)draw_int(w);
    if (!sound) may(w, TIDE_E_INVALID);
}

static void on_array_text_with(world *w) {
    array *x = draw_array(w, 0);
    size_t cap;
    char *buf = draw_buffer(w, &cap);
    bool none = chance(w, 10);
    tide_print_options o;
    if (!none) draw_options(w, x, &o);
    calling(w, "tide_array_text_with(%s, %s, %s, %zu)", x->name,
            none ? "NULL"
                 : say(w, "{%zu, %d, %d, %" PRId64 ", %d, %d, %d}", o.struct_size, o.precision,
                       o.float_mode, o.threshold, o.edge_items, o.line_width, o.suppress_small),
            buf ? "buf" : "NULL", cap);
    judge_text(w, tide_array_text_with(x->a, none ? NULL : &o, buf, cap), buf, cap);
}

/* ---- views ---- */

static void is_range(world *w, tide_range r, tide_range want) {
    done(w);
    if (r.kind != want.kind || r.start != want.start || r.stop != want.stop || r.step != want.step)
        broken(w, "gives {%" PRId64 ", %" PRId64 ", %" PRId64 ", %d}", r.start, r.stop, r.step,
               r.kind);
}

static void on_range_all(world *w) {
    calling(w, "tide_range_all()");
    is_range(w, tide_range_all(),
             (tide_range){TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_SLICE, 0});
}
static void on_range_slice(world *w) {
    tide_range want = {draw_int(w), draw_int(w), draw_int(w), TIDE_RANGE_SLICE, 0};
    calling(w, "tide_range_slice(%" PRId64 ", %" PRId64 ", %" PRId64 ")", want.start, want.stop,
            want.step);
    is_range(w, tide_range_slice(want.start, want.stop, want.step), want);
}
static void on_range_index(world *w) {
    tide_range want = {draw_int(w), TIDE_NONE, TIDE_NONE, TIDE_RANGE_INDEX, 0};
    calling(w, "tide_range_index(%" PRId64 ")", want.start);
    is_range(w, tide_range_index(want.start), want);
}
static void on_range_newaxis(world *w) {
    calling(w, "tide_range_newaxis()");
    is_range(w, tide_range_newaxis(),
             (tide_range){TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_NEWAXIS, 0});
}
static void on_range_ellipsis(world *w) {
    calling(w, "tide_range_ellipsis()");
    is_range(w, tide_range_ellipsis(),
             (tide_range){TIDE_NONE, TIDE_NONE, TIDE_NONE, TIDE_RANGE_ELLIPSIS, 0});
}

static void on_slice_ranges(world *w) {
    tide_range ranges[12];
    char text[SAYING] = "";
    array *x = draw_array(w, VAST);
    size_t n = chance(w, 95) ? below(w, (unsigned)x->ndim + 2) : 9 + below(w, 3), at = 0;
    for (size_t i = 0; i < n; i++) {
        ranges[i] = (tide_range){.start = chance(w, 40) ? TIDE_NONE : draw_int(w),
                                 .stop = chance(w, 40) ? TIDE_NONE : draw_int(w),
                                 .step = chance(w, 60) ? TIDE_NONE : draw_int(w),
                                 .kind = chance(w, 80) ? TIDE_RANGE_SLICE
                                                       : draw_enum(w, 0, TIDE_RANGE_ELLIPSIS)};
        at += (size_t)snprintf(text + at, at < sizeof text ? sizeof text - at : 0,
                               "{%" PRId64 ", %" PRId64 ", %" PRId64 ", %d}, ", ranges[i].start,
                               ranges[i].stop, ranges[i].step, ranges[i].kind);
        if (at > sizeof text) at = sizeof text;
    }
    bool none = chance(w, 2);
    if (none && n) expect(w, TIDE_E_INVALID);
    calling(w, "tide_slice_ranges(%s, %zu, %s)", x->name, n,
            none ? "NULL" : say(w, "(tide_range[]){%s}", text));
    (void)made(w, tide_slice_ranges(x->a, n, none ? NULL : ranges), x, 0);
}

static void on_slice(world *w) {
    array *x = draw_array(w, VAST | VECTOR);
    const char *text = draw_slice(w);
    calling(w, "tide_slice(%s, %s)", x->name, quote(w, text));
    (void)made(w, tide_slice(x->a, text), x, 0);
}

/* The text as an argument of the format, behind numbers or blanks; as the format itself it would
** have to be without a per cent sign. */
static void on_slicef(world *w) {
    array *x = draw_array(w, VAST | VECTOR);
    const char *text = draw_slice(w), *no_format = NULL;
    int64_t i = draw_int(w);
    int blanks = (int)below(w, 400);
    switch (text ? below(w, 3) : 3) {
    case 0:
        calling(w, "tide_slicef(%s, \"%%\" PRId64 \", %%s\", %" PRId64 ", %s)", x->name, i,
                quote(w, text));
        (void)made(w, tide_slicef(x->a, "%" PRId64 ", %s", i, text), x, 0);
        break;
    case 1:
        calling(w, "tide_slicef(%s, \"%%*s%%s\", %d, \"\", %s)", x->name, blanks, quote(w, text));
        (void)made(w, tide_slicef(x->a, "%*s%s", blanks, "", text), x, 0);
        break;
    case 2:
        calling(w, "tide_slicef(%s, \"%%\" PRId64 \":\", %" PRId64 ")", x->name, i);
        (void)made(w, tide_slicef(x->a, "%" PRId64 ":", i), x, 0);
        break;
    default:
        calling(w, "tide_slicef(%s, NULL)", x->name);
        (void)made(w, tide_slicef(x->a, no_format, i), x, 0);
    }
}

static void on_transpose(world *w) {
    array *x = draw_array(w, VAST);
    int perm[TIDE_MAX_RANK];
    for (int i = 0; i < TIDE_MAX_RANK; i++) perm[i] = i;
    for (int i = x->ndim; i > 1; i--) {
        int k = (int)below(w, (unsigned)i), p = perm[k];
        perm[k] = perm[i - 1];
        perm[i - 1] = p;
    }
    if (chance(w, 8) && x->ndim) perm[below(w, (unsigned)x->ndim)] = draw_axis(w, x->ndim);
    bool reversed = chance(w, 40);
    calling(w, "tide_transpose(%s, %s)", x->name,
            reversed ? "NULL"
                     : say(w, "(int[]){%d, %d, %d, %d, ...}", perm[0], perm[1], perm[2], perm[3]));
    (void)made(w, tide_transpose(x->a, reversed ? NULL : perm), x, 0);
}

/* Mostly as many elements as there are. */
static void draw_new_shape(world *w, const array *x, shape *s) {
    if (!x->a || chance(w, 15)) return draw_shape(w, 1, s);
    s->at = s->dims;
    s->ndim = x->ndim;
    memcpy(s->dims, x->shape, sizeof x->shape);
    if (chance(w, 40) || !x->ndim) {
        s->ndim = 1 + (int)below(w, 2);
        s->dims[0] = x->size;
        s->dims[1] = 1;
    } else if (x->ndim > 1 && x->shape[0] && x->shape[1]) {
        s->dims[0] = x->shape[0] * x->shape[1];
        memmove(s->dims + 1, s->dims + 2, sizeof s->dims - 2 * sizeof *s->dims);
        s->ndim--;
    }
    if (chance(w, 30)) s->dims[below(w, (unsigned)s->ndim)] = -1;
    s->text = say_dims(w, s->ndim, s->at);
}

static void on_reshape(world *w) {
    shape s;
    array *x = draw_array(w, 0);
    draw_new_shape(w, x, &s);
    w->frame->must_fail = w->frame->must_fail && !x->valid; /* a dimension of -1 is legal here */
    calling(w, "tide_reshape(%s, %d, %s)", x->name, s.ndim, s.text);
    (void)made(w, tide_reshape(x->a, s.ndim, s.at), x, 0);
}

static void on_broadcast_to(world *w) {
    shape s = {.ndim = 0};
    array *x = draw_array(w, VAST);
    if (chance(w, 20) || !x->a || x->ndim > 6) {
        draw_shape(w, 1, &s);
    } else {
        s.at = s.dims;
        int more = (int)below(w, 3);
        s.ndim = x->ndim + more;
        for (int i = 0; i < more; i++) s.dims[i] = ONE_OF(w, int64_t, 1, 2, 3, 0, (int64_t)1 << 40);
        for (int i = 0; i < x->ndim; i++) {
            s.dims[more + i] = x->shape[i];
            if (x->shape[i] == 1)
                s.dims[more + i] = ONE_OF(w, int64_t, 1, 3, 4, 0, (int64_t)1 << 33);
        }
        s.text = say_dims(w, s.ndim, s.at);
    }
    calling(w, "tide_broadcast_to(%s, %d, %s)", x->name, s.ndim, s.text);
    (void)made(w, tide_broadcast_to(x->a, s.ndim, s.at), x, 0);
}

static void on_expand_dims(world *w) {
    array *x = draw_array(w, VAST);
    int axis = draw_axis(w, x->ndim + 1);
    calling(w, "tide_expand_dims(%s, %d)", x->name, axis);
    (void)made(w, tide_expand_dims(x->a, axis), x, 0);
}

static void on_squeeze(world *w) {
    array *x = draw_array(w, VAST | VECTOR);
    int axis = draw_axis(w, x->ndim);
    for (int i = 0; i < x->ndim && chance(w, 80); i++)
        if (x->shape[i] == 1) axis = i;
    calling(w, "tide_squeeze(%s, %d)", x->name, axis);
    (void)made(w, tide_squeeze(x->a, axis), x, 0);
}

/* ---- copies ---- */

static void on_copy(world *w) {
    array *x = draw_array(w, chance(w, 5) ? VAST : 0);
    calling(w, "%s(%s)", w->frame->c->name, x->name);
    (void)made(w, w->frame->c->fn.unary(x->a), NULL, ROW_MAJOR);
}

static void on_contiguous(world *w) {
    array *x = draw_array(w, 0);
    calling(w, "tide_contiguous(%s)", x->name);
    (void)made(w, tide_contiguous(x->a), x, ROW_MAJOR);
}

static void on_cast(world *w) {
    array *x = draw_array(w, 0);
    tide_dtype t = draw_dtype(w);
    calling(w, "tide_cast(%s, %d)", x->name, t);
    (void)made(w, tide_cast(x->a, t), NULL, ROW_MAJOR);
}

/* A call that writes to x, or was refused before it did. */
void wrote(world *w, array *x, tide_status s) {
    bool refused = s == TIDE_E_INVALID || s == TIDE_E_SHAPE || s == TIDE_E_DTYPE ||
                   s == TIDE_E_FREED || s == TIDE_E_CLOSED || s == TIDE_E_PARSE ||
                   s == TIDE_E_EMPTY;
    (void)w;
    if (x->a && !refused) world_wrote(x);
}

/* x, or NULL in its place where others read it. */
static array *unless_common(world *w, array *x) {
    if (!x->in || !x->in->common) return x;
    x = &w->odd_array;
    *x = (array){.name = "NULL", .rt = NOBODY};
    expect(w, TIDE_E_INVALID);
    w->frame->null_array = true;
    return x;
}

/* For what writes to its argument: never an array that others read; now and then a stretched one,
** which is refused. */
array *draw_target(world *w, unsigned wanted) {
    array *x = draw_array(w, wanted | (chance(w, 90) ? WRITABLE : 0));
    if (x->stretched) expect(w, TIDE_E_INVALID);
    return unless_common(w, x);
}

static void on_assign(world *w) {
    array *x = draw_target(w, 0), *y = draw_partner(w, x, 0);
    calling(w, "tide_assign(%s, %s)", x->name, y->name);
    tide_status s = tide_assign(x->a, y->a);
    wrote(w, x, s);
    (void)gave(w, s);
}

static void on_fill(world *w) {
    array *x = draw_target(w, 0);
    tide_arg v = draw_number(w, x->a ? x->dtype : TIDE_F32);
    calling(w, "tide_fill(%s, %s)", x->name, say_number(w, v));
    tide_status s = tide_fill(x->a, v);
    wrote(w, x, s);
    (void)gave(w, s);
}

static void on_memset(world *w) {
    array *x = draw_target(w, 0);
    unsigned value = below(w, 256);
    calling(w, "tide_memset(%s, %u)", x->name, value);
    tide_status s = tide_memset(x->a, (unsigned char)value);
    wrote(w, x, s);
    (void)gave(w, s);
}

static void on_array_set_ordered(world *w) {
    array *x = unless_common(w, draw_array(w, VAST | WRITABLE));
    int on = chance(w, 70) ? 1 : ONE_OF(w, int, 0, 2, -1);
    if (on != 0 && on != 1) expect(w, TIDE_E_INVALID);
    calling(w, "tide_array_set_ordered(%s, %d)", x->name, on);
    tide_status s = tide_array_set_ordered(x->a, on);
    /* what was queued since stays unknown */
    if (x->a && x->in && s == TIDE_OK && !on) x->in->unordered = true;
    (void)gave(w, s);
}

static void on_take(world *w) {
    array *x = draw_array(w, VECTOR), *at = draw_array(w, INTEGER);
    int axis = draw_axis(w, x->ndim);
    calling(w, "tide_take(%s, %s, %d)", x->name, at->name, axis);
    (void)made(w, tide_take(x->a, at->a, axis), NULL, ROW_MAJOR);
}

static void on_concat(world *w) {
    enum { MOST = 5 };
    tide_array *list[MOST];
    char text[SAYING] = "";
    array *x = draw_array(w, VECTOR);
    size_t n = chance(w, 96) ? 1 + below(w, MOST) : 0, at = 0;
    int axis = draw_axis(w, x->ndim);
    bool none = chance(w, 2);
    for (size_t i = 0; i < n; i++) {
        array *y = i && chance(w, 40) ? draw_partner(w, x, VECTOR) : x;
        list[i] = y->a;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "", y->name);
    }
    /* none is seen there */
    if (!n || none) expect(w, TIDE_E_INVALID), w->frame->null_array = false;
    calling(w, "tide_concat(%s, %zu, %d)", none ? "NULL" : say(w, "(tide_array *[]){%s}", text), n,
            axis);
    (void)made(w, tide_concat(none ? NULL : list, n, axis), NULL, ROW_MAJOR);
}

/* ---- tide/memory.h ---- */

static void on_to_memory(world *w) {
    array *x = draw_array(w, 0);
    tide_memory kind = draw_enum(w, TIDE_MEMORY_DEFAULT, TIDE_MEMORY_UNIFIED);
    calling(w, "tide_to_memory(%s, %d)", x->name, kind);
    array *y = made(w, tide_to_memory(x->a, kind), NULL, ROW_MAJOR);
    if (y && kind && y->memory != kind) broken(w, "gives memory of kind %d", y->memory);
}

static void on_array_memory(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_memory(%s)", x->name);
    tide_memory kind = tide_array_memory(x->a);
    if (told(w, kind < 0) && kind != x->memory) broken(w, "gives %d, not %d", kind, x->memory);
}

/* The first and the last element, by the view's own strides. */
static void touch_view(const tide_host_view *v, int mode) {
    size_t size = tide_dtype_size(v->dtype);
    volatile unsigned char *first = v->data, *last = v->data;
    if (!v->data) return;
    for (int i = 0; i < v->ndim; i++) {
        if (!v->shape[i]) return;
        last += (v->shape[i] - 1) * v->strides[i] * (int64_t)size;
    }
    unsigned char a = first[0], b = last[size - 1];
    if (!(mode & TIDE_WRITE)) return;
    first[0] = a & 1; /* what a bool has, too */
    last[size - 1] = b & 1;
}

static void on_host_view_begin(world *w) {
    array *x = draw_array(w, REACHABLE | VAST);
    int mode = (x->in && x->in->common) || x->stretched
                   ? TIDE_READ
                   : draw_enum(w, TIDE_READ, TIDE_READ | TIDE_WRITE);
    bool nowhere = chance(w, 3);
    if (nowhere) expect(w, TIDE_E_INVALID);
    if (x->a && x->memory == TIDE_MEMORY_DEVICE) expect(w, TIDE_E_UNSUPPORTED);
    tide_host_view v;
    mark(&v, sizeof v);
    calling(w, "tide_host_view_begin(%s, %d, %s)", x->name, mode,
            nowhere ? "NULL" : say(w, "&v%u", w->serial + 1));
    if (!gave(w, tide_host_view_begin(x->a, mode, nowhere ? NULL : &v)))
        return marked(w, &v, sizeof v);
    if (v.ndim != x->ndim || v.dtype != x->dtype || (x->size && !v.data))
        broken(w, "gives another array's view");
    thing *t = world_thing(w, TIDEI_REF_VIEW, (void *)(uintptr_t)v.reserved[0], x->rt);
    t->view = v;
    t->writable = mode & TIDE_WRITE;
    world_freeze(t, x);
    if (!x->in->unordered) touch_view(&v, mode);
}

static void on_host_view_end(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_VIEW, 0);
    tide_host_view v = t->view, zero = {0};
    bool nowhere = chance(w, 2);
    if (t->over) v.reserved[0] = (uintptr_t)t->ref; /* a copy of an ended one */
    if (nowhere) expect(w, TIDE_E_INVALID);
    calling(w, "tide_host_view_end(%s)", nowhere ? "NULL" : t->name);
    bool ok = gave(w, tide_host_view_end(nowhere ? NULL : &v));
    if (!ok) return;
    if (memcmp(&v, &zero, sizeof v)) broken(w, "leaves fields of the view");
    world_ended(t);
}

static void draw_index(world *w, const array *x, int64_t *index) {
    for (int i = 0; i < TIDE_MAX_RANK; i++) {
        int64_t n = i < x->ndim ? x->shape[i] : 1;
        index[i] = chance(w, 95) && n > 0 && n < 100 ? (int64_t)below(w, (unsigned)(2 * n)) - n
                                                     : draw_int(w);
        if (i < x->ndim && (index[i] >= n || index[i] < -n)) expect(w, TIDE_E_BOUNDS);
    }
}

static void on_array_get(world *w) {
    array *x = draw_array(w, VAST | (chance(w, 70) ? REACHABLE : 0));
    int64_t index[TIDE_MAX_RANK];
    tide_arg v;
    draw_index(w, x, index);
    bool nowhere = chance(w, 3), none = chance(w, 3);
    if (nowhere || (none && x->ndim)) expect(w, TIDE_E_INVALID);
    mark(&v, sizeof v);
    calling(w, "tide_array_get(%s, %s, %s)", x->name, none ? "NULL" : say_dims(w, x->ndim, index),
            nowhere ? "NULL" : "&v");
    if (!gave(w, tide_array_get(x->a, none ? NULL : index, nowhere ? NULL : &v)))
        marked(w, &v, sizeof v);
}

static void on_array_set(world *w) {
    array *x = draw_target(w, VAST | (chance(w, 70) ? REACHABLE : 0));
    int64_t index[TIDE_MAX_RANK];
    draw_index(w, x, index);
    tide_arg v = draw_number(w, x->a ? x->dtype : TIDE_F32);
    calling(w, "tide_array_set(%s, %s, %s)", x->name, say_dims(w, x->ndim, index),
            say_number(w, v));
    tide_status s = tide_array_set(x->a, index, v);
    wrote(w, x, s);
    (void)gave(w, s);
}

static void on_thread_allow_scalar(world *w) {
    runtime *r = draw_runtime(w);
    int on = ONE_OF(w, int, 0, 1, 1, 2, -1);
    if (on != 0 && on != 1) expect(w, TIDE_E_INVALID);
    calling(w, "tide_thread_allow_scalar(%s, %d)", r->name, on);
    int before = tide_thread_allow_scalar(r->ref, on);
    (void)told(w, !before && (!r->valid || (on != 0 && on != 1)));
}

static void on_array_prefetch(world *w) {
    array *x = draw_array(w, UNIFIED);
    int64_t first = chance(w, 80) ? 0 : draw_int(w), count = chance(w, 80) ? x->size : draw_int(w);
    int where = draw_enum(w, TIDE_TO_DEVICE, TIDE_TO_HOST);
    calling(w, "tide_array_prefetch(%s, %" PRId64 ", %" PRId64 ", %d)", x->name, first, count,
            where);
    (void)gave(w, tide_array_prefetch(x->a, first, count, where));
}

static void on_array_advise(world *w) {
    array *x = draw_array(w, UNIFIED);
    int64_t first = chance(w, 80) ? 0 : draw_int(w), count = chance(w, 80) ? x->size : draw_int(w);
    int advice = draw_enum(w, TIDE_ADVISE_NONE, TIDE_ADVISE_HOST);
    calling(w, "tide_array_advise(%s, %" PRId64 ", %" PRId64 ", %d)", x->name, first, count,
            advice);
    (void)gave(w, tide_array_advise(x->a, first, count, advice));
}

static void on_device_info(world *w) {
    runtime *r = draw_runtime(w);
    bool nowhere = chance(w, 3);
    tide_device_figures m;
    mark(&m, sizeof m);
    m.struct_size = draw_struct_size(w, sizeof m, sizeof(size_t));
    size_t size = m.struct_size;
    if (nowhere) expect(w, TIDE_E_INVALID);
    calling(w, "tide_device_info(%s, %s) /* struct_size %zu */", r->name, nowhere ? "NULL" : "&m",
            size);
    bool ok = gave(w, tide_device_info(r->ref, nowhere ? NULL : &m));
    size_t written = ok ? size : sizeof size;
    marked(w, (char *)&m + written, sizeof m - written);
}

const call array_calls[] = {
    ROW_OF(empty, on_maker, maker, OFTEN),
    ROW_OF(zeros, on_maker, maker, OFTEN),
    ROW_OF(ones, on_maker, maker, OFTEN),
    ROW(full, OFTEN),
    ROW(arange, OFTEN),
    ROW(from_host, OFTEN),
    ROW(to_host, 0),
    ROW(item, 0),
    ROW(item_f64, 0),
    ROW(npy_read, MAY_FILE),
    ROW(npy_write, MAY_FILE),
    ROW(free, NEVER_FAILS | DROPS | ENDS),
    ROW(retain, 0),
    ROW(release, NEVER_FAILS | DROPS | ENDS),
    ROW(scope_begin, OUTSIDE),
    ROW(scope_end, OUTSIDE),
    ROW(scope_depth, OUTSIDE),
    ROW(scope_unwind, OUTSIDE),
    ROW(scope_keep, OUTSIDE),
    ROW(array_on_death, 0),
    ROW(array_runtime, DROPS),
    ROW(array_dtype, DROPS),
    ROW(array_ndim, DROPS),
    ROW(array_dim, DROPS),
    ROW(array_size, DROPS),
    ROW(array_stride, DROPS),
    ROW(array_is_contiguous, DROPS),
    ROW(array_is_freed, DROPS),
    ROW(array_text, 0),
    ROW(array_text_with, 0),
    ROW(range_all, NEVER_FAILS),
    ROW(range_slice, NEVER_FAILS),
    ROW(range_index, NEVER_FAILS),
    ROW(range_newaxis, NEVER_FAILS),
    ROW(range_ellipsis, NEVER_FAILS),
    ROW(slice_ranges, 0),
    ROW(slice, MAY_PARSE),
    ROW(slicef, MAY_PARSE),
    ROW(transpose, 0),
    ROW(reshape, 0),
    ROW(broadcast_to, 0),
    ROW(expand_dims, 0),
    ROW(squeeze, 0),
    ROW_OF(copy, on_copy, unary, 0),
    ROW(contiguous, 0),
    ROW(cast, 0),
    ROW(assign, 0),
    ROW(fill, OFTEN),
    ROW(array_set_ordered, 0),
    ROW(memset, 0),
    ROW(take, 0),
    ROW(concat, 0),
    ROW(empty_in, OFTEN),
    ROW(to_memory, OFTEN),
    ROW(array_memory, 0),
    ROW(host_view_begin, 0),
    ROW(host_view_end, 0),
    ROW(array_get, 0),
    ROW(array_set, 0),
    ROW(thread_allow_scalar, 0),
    ROW(array_prefetch, 0),
    ROW(array_advise, 0),
    ROW(device_info, 0),
    LAST_ROW,
};
