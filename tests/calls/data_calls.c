/* data_calls.c: calls of tide/adapt.h and tide/batches.h: structures of arrays between host and
** device, and batches of data, some of which a callback writes. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- tide_data ---- */

static void on_data_host(world *w) {
    shape s;
    tide_dtype t = (tide_dtype)draw_int(w);
    small_shape(w, (int)below(w, TIDE_MAX_RANK + 1), &s);
    if (chance(w, 10)) s.ndim = ONE_OF(w, int, -1, 9, INT32_MAX), s.at = s.dims;
    for (int i = 0; i < 16; i++) s.dims[i] = i;
    calling(w, "tide_data_host(%d, %d, dims, data)", t, s.ndim);
    tide_data d = tide_data_host(t, s.ndim, s.at, w->data);
    if (d.array || d.host != w->data || d.dtype != t || d.ndim != s.ndim)
        broken(w, "gives other data");
    done(w);
}

static void on_data_array(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    tide_data zero = {0};
    calling(w, "tide_data_array(%s)", x->name);
    tide_data d = tide_data_array(x->a);
    if (!d.array && memcmp(&d, &zero, sizeof d)) broken(w, "fails, and gives something");
    if (told(w, !d.array) && (d.array != x->a || d.ndim != x->ndim || d.dtype != x->dtype))
        broken(w, "gives other data");
}

/* Elements in the world's data, or nowhere; strides of any sign that stay within them. */
static tide_data draw_host_data(world *w, int64_t samples, const int64_t *strides) {
    shape s;
    bool odd = !samples && chance(w, 5);
    tide_dtype t = odd ? draw_dtype(w) : (tide_dtype)below(w, TIDE_DTYPE_COUNT);
    small_shape(w, 1 + (int)below(w, 3), &s);
    for (int i = 0; samples && i < s.ndim; i++)
        s.dims[i] = !i ? samples : s.dims[i] ? s.dims[i] : 1;
    tide_data d = tide_data_host(t, s.ndim, s.dims, w->data + DATA_BYTES / 2 / 16 * 16);
    if (odd && chance(w, 40)) d.host = NULL;
    if (odd && chance(w, 40)) d.ndim = ONE_OF(w, int, -1, 9, INT32_MAX);
    if (odd && chance(w, 40)) d.shape[0] = ONE_OF(w, int64_t, -1, INT64_MIN, INT64_MAX);
    if (chance(w, 30)) d.strides = strides;
    w->frame->must_fail = w->frame->must_fail && !odd; /* an absent array is legal */
    return d;
}
static const int64_t small_strides[][TIDE_MAX_RANK] = {
    {-1, 3, 7}, {5, -2, 1}, {0, 1, -9}, {12, 4, 0}};

static tide_data draw_data(world *w) {
    if (chance(w, 20)) return (tide_data){0};
    if (chance(w, 40)) return (tide_data){.array = draw_array(w, 0)->a, .ndim = 1};
    return draw_host_data(w, 0, small_strides[below(w, TIDEI_COUNT(small_strides))]);
}

/* ---- rules ---- Two structures, one within the other, under names that no other world has. */

static tide_status follow(void *user, void *copy, const void *from, unsigned how) {
    world *w = user;
    (void)copy, (void)from, (void)how;
    if (here != w) return TIDE_OK;
    wander(w, w->frame->rt, DROPS);
    return chance(w, 95) ? TIDE_OK
                         : ONE_OF(w, tide_status, TIDE_E_INVALID, TIDE_E_SHAPE, TIDE_E_DTYPE);
}

static void make_rules(world *w) {
    static const char *const names[] = {"pair", "outer"};
    for (int i = 0; i < 2; i++)
        snprintf(w->types[i], sizeof w->types[i], "%s%u", names[i], w->number);
    w->fields[0][0] = (tide_adapt_field)TIDE_FIELD(struct pair, first);
    w->fields[0][1] = (tide_adapt_field)TIDE_FIELD(struct pair, more);
    w->fields[1][0] = (tide_adapt_field){"inner", w->types[0], offsetof(struct outer, inner), 1};
    w->fields[1][1] = (tide_adapt_field)TIDE_FIELD(struct outer, last);
    w->rules[0] = (tide_adapt_rule){w->types[0], sizeof(struct pair), w->fields[0], 2, follow, w};
    w->rules[1] = (tide_adapt_rule){w->types[1], sizeof(struct outer), w->fields[1], 2, NULL, NULL};
}

static void on_adapt_register(world *w) {
    static const tide_adapt_field beyond = {"far", NULL, SIZE_MAX - 7, 2},
                                  empty = {NULL, NULL, 0, 0};
    static const tide_adapt_rule bad[] = {
        {NULL, 8, NULL, 0, NULL, NULL},   {"", 8, NULL, 0, NULL, NULL},
        {"x", 0, NULL, 0, NULL, NULL},    {"x", 8, NULL, 3, NULL, NULL},
        {"x", 8, &beyond, 1, NULL, NULL}, {"x", 8, &empty, 1, NULL, NULL}};
    runtime *r = draw_runtime(w);
    const tide_adapt_rule *rule = &w->rules[below(w, 2)];
    if (!w->rules[0].type) make_rules(w);
    if (chance(w, 15)) {
        unsigned k = below(w, TIDEI_COUNT(bad) + 1);
        rule = k < TIDEI_COUNT(bad) ? &bad[k] : NULL;
        expect(w, TIDE_E_INVALID);
    }
    uint64_t id;
    bool nowhere = chance(w, 5);
    mark(&id, sizeof id);
    calling(w, "tide_adapt_register(%s, %s, %s)", r->name, rule ? quote(w, rule->type) : "NULL",
            nowhere ? "NULL" : "&id");
    if (!gave(w, tide_adapt_register(r->ref, rule, nowhere ? NULL : &id)))
        return marked(w, &id, sizeof id);
    if (!nowhere) r->rules[rule - w->rules] = id;
}

static void register_rules(world *w, runtime *r) {
    if (!w->rules[0].type) make_rules(w);
    for (int i = 0; i < 2 && r->valid; i++)
        (void)!tide_adapt_register(r->ref, &w->rules[i], &r->rules[i]);
}

/* What is on the host would never be given back without its rule. */
static void on_adapt_unregister(world *w) {
    runtime *r = draw_runtime(w);
    uint64_t *id = chance(w, 85) ? &r->rules[below(w, 2)] : NULL;
    uint64_t given = id ? *id : ONE_OF(w, uint64_t, 0, UINT64_MAX, (uint64_t)INT64_MAX + 1);
    if (!id || !*id) expect(w, TIDE_E_INVALID);
    if (r->valid) world_give_moved(w, w->frame->rt);
    calling(w, "tide_adapt_unregister(%s, %" PRIu64 ")", r->name, given);
    if (gave(w, tide_adapt_unregister(r->ref, given))) *id = 0;
}

/* ---- moving ---- */

static moved *room_for_moved(world *w) {
    for (int i = 0; i < MOVED; i++)
        if (!w->moveds[i].used) return &w->moveds[i];
    moved *m = &w->moveds[below(w, MOVED)];
    give_moved(w, m);
    return m;
}

/* After the scopes that may hold its arrays: nothing is kept across the end of one. */
void give_moved(world *w, moved *m) {
    runtime *r = runtime_of(w, m->rt);
    if (r && r->ref) register_rules(w, r);
    if (r && r->ref) tide_adapt_release(r->ref, w->types[m->outer], &m->x);
    m->used = false;
}

static void draw_structure(world *w, struct outer *x) {
    memset(x, 0, sizeof *x);
    x->inner.tag = 42;
    x->inner.first = draw_data(w);
    x->inner.more[0] = draw_data(w);
    x->inner.more[1] = (tide_data){0};
    x->last = draw_data(w);
}

static void on_adapt(world *w) {
    struct outer from;
    runtime *r = draw_runtime(w);
    bool outer = chance(w, 50), none = chance(w, 3), unknown = chance(w, 3);
    const char *type = unknown ? draw_text(w, "stranger") : w->types[outer];
    unsigned how = ONE_OF(w, unsigned, TIDE_ADAPT_DEVICE, TIDE_ADAPT_HOST,
                          TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW);
    bool odd = chance(w, 4);
    if (odd) how = ONE_OF(w, unsigned, 0, 3, 7, TIDE_ADAPT_NARROW, UINT32_MAX);
    register_rules(w, r);
    draw_structure(w, &from);
    if (none || unknown || odd) expect(w, TIDE_E_INVALID);
    may(w, TIDE_E_FREED);
    may(w, TIDE_E_CLOSED);
    struct outer to; /* calls from within make others */
    mark(&to, sizeof to);
    /* an array may be of the part that is not moved */
    w->frame->must_fail = none || unknown || odd || !r->valid;
    /* which is absent there, and legal */
    w->frame->null_array = false;
    calling(w, "tide_adapt(%s, %s, %s, %u, &x)", r->name, quote(w, type), none ? "NULL" : "&from",
            how);
    if (!gave(w, tide_adapt(r->ref, type, none ? NULL : &from, how, &to)))
        return marked(w, &to, sizeof to);
    if (to.inner.tag != 42) broken(w, "has not copied what is no array");
    if (!outer) marked(w, (char *)&to + sizeof(struct pair), sizeof to - sizeof(struct pair));
    moved *m = room_for_moved(w);
    *m = (moved){.used = true, .rt = w->frame->rt, .outer = outer, .x = to};
    if (r->scopes) give_moved(w, m); /* which hold its arrays, and give them back at their end */
}

static void on_adapt_release(world *w) {
    moved *m = NULL;
    for (int i = 0; i < MOVED && chance(w, 90); i++)
        if (w->moveds[i].used && w->moveds[i].rt == w->frame->rt) m = &w->moveds[i];
    runtime *r = m ? runtime_of(w, m->rt) : draw_runtime(w);
    bool none = !m || chance(w, 5);
    const char *type = m ? w->types[m->outer] : "stranger";
    w->frame->must_fail = false;
    if (m) register_rules(w, r);
    calling(w, "tide_adapt_release(%s, %s, %s)", r->name, quote(w, type), none ? "NULL" : "&x");
    struct outer odd = {.weight = 1};
    tide_adapt_release(r->ref, type, none ? (chance(w, 50) ? &odd : NULL) : &m->x);
    done(w);
    if (!none) m->used = false;
}

/* ---- batches ---- */

enum { LEAVES = 4, SAMPLES = 24 };

static tide_status fill_samples(void *user, int64_t first, const int64_t *samples, int64_t n,
                                void *const *out) {
    thing *t = user;
    world *w = here;
    if (first < 0 || n <= 0 || !out) return TIDE_E_INVALID;
    for (int64_t i = 0; samples && i < n; i++)
        if (samples[i] < 0 || samples[i] >= SAMPLES)
            broken(w, "asks for sample %" PRId64, samples[i]);
    for (unsigned k = 0; k < t->narrays; k++)
        if (out[k]) memset(out[k], 1, (size_t)n); /* a byte of each at least */
    wander(w, t->rt, 0);
    return chance(w, 94) ? TIDE_OK : ONE_OF(w, tide_status, TIDE_END, TIDE_E_IO, TIDE_E_INVALID);
}

static size_t draw_leaves(world *w, tide_data *leaves, bool *asks) {
    size_t n = chance(w, 95) ? 1 + below(w, LEAVES) : 0;
    *asks = false;
    for (size_t i = 0; i < n; i++) {
        leaves[i] = draw_host_data(w, SAMPLES, small_strides[below(w, TIDEI_COUNT(small_strides))]);
        if (chance(w, 15)) leaves[i].host = NULL, leaves[i].strides = NULL, *asks = true;
        if (leaves[i].ndim > 3) leaves[i].ndim = 3;
    }
    if (n && chance(w, 4))
        leaves[0].shape[0] =
            n > 1 ? ONE_OF(w, int64_t, 7, -1, INT64_MAX) : ONE_OF(w, int64_t, 7, -1);
    return n;
}

static void on_batches_new(world *w) {
    tide_data leaves[LEAVES];
    struct pair source = {.tag = 1};
    tide_batches *b;
    bool asks, structure = chance(w, 30), nowhere = chance(w, 3), spoilt = chance(w, 6);
    runtime *r = draw_runtime(w);
    size_t n = draw_leaves(w, leaves, &asks), norder = chance(w, 40) ? below(w, 2 * SAMPLES) : 0;
    int64_t *order = norder ? malloc(norder * sizeof *order) : NULL;
    for (size_t i = 0; i < norder; i++) order[i] = (int64_t)below(w, SAMPLES);
    if (order && chance(w, 4)) order[below(w, (unsigned)norder)] = draw_int(w);
    if (structure) register_rules(w, r);
    if (n) source.first = leaves[0];
    thing *t = world_thing(w, TIDEI_REF_BATCHES, &source, w->frame->rt); /* the callback's */
    t->narrays = structure ? 0 : n;
    t->order = order;
    hold(w, &t->busy);
    tide_batches_config c = {.struct_size = draw_struct_size(w, sizeof c, sizeof c),
                             .arrays = structure ? NULL : leaves,
                             .narrays = structure ? 0 : n,
                             .type = structure ? w->types[0] : NULL,
                             .source = structure ? &source : NULL,
                             .batch = chance(w, 92) ? 1 + below(w, 9) : draw_int(w),
                             .drop_last = (int)below(w, 3),
                             .narrow = (int)below(w, 3),
                             .order = order,
                             .norder = (int64_t)norder,
                             .fill = asks || chance(w, 30) ? fill_samples : NULL,
                             .user = t};
    if (spoilt) {
        expect(w, TIDE_E_INVALID);
        switch (below(w, 4)) {
        case 0: c.batch = ONE_OF(w, int64_t, 0, -1, INT64_MIN); break;
        case 1: c.drop_last = ONE_OF(w, int, 3, -1); break;
        case 2:
            c.norder = ONE_OF(w, int64_t, -1, INT64_MIN),
            c.order = c.order ? c.order : leaves[0].shape;
            break;
        default: c.type = "stranger", c.source = &source;
        }
    }
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&b, sizeof b);
    calling(w, "tide_batches_new(%s, {%zu arrays, batch %" PRId64 ", order %" PRId64 "%s%s}, %s)",
            r->name, n, c.batch, c.norder, structure ? ", a structure" : "", c.fill ? ", fill" : "",
            nowhere ? "NULL" : t->name);
    tide_status s = tide_batches_new(r->ref, &c, nowhere ? NULL : &b);
    if (gave(w, s)) {
        t->ref = b;
        return;
    }
    marked(w, &b, sizeof b);
    world_forget_thing(w, t);
}

/* The arrays are the iterator's: one that is kept has been retained. Once it is released, the
** iterator may free it under every collector: that release is the last use. */
static void keep_one(world *w, const thing *t, const tide_data *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tide_array *a = at[i].array;
        if (!a) continue;
        if (tide_array_ndim(a) != at[i].ndim) broken(w, "gives an array of another rank");
        if (!chance(w, 20) || w->runtimes[t->rt].scopes || !tide_retain(a)) continue;
        array *x = made_beside(w, a, NULL, ROW_MAJOR);
        x->refs = 1;
        x->counted = true;
    }
}

static void on_batches_next(world *w) {
    union {
        tide_data arrays[LEAVES];
        struct pair structure;
    } batch;
    thing *t = draw_thing(w, TIDEI_REF_BATCHES, 0);
    bool nowhere = chance(w, 3);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&batch, sizeof batch);
    may(w, TIDE_E_IO); /* what `fill` gives */
    calling(w, "tide_batches_next(%s, %s)", t->name, nowhere ? "NULL" : "&batch");
    tide_status s = tide_batches_next(t->ref, nowhere ? NULL : &batch);
    if (!gave(w, s) || s == TIDE_END) return marked(w, &batch, sizeof batch);
    keep_one(w, t, t->narrays ? batch.arrays : &batch.structure.first, t->narrays ? t->narrays : 1);
}

static void on_batches_count(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_BATCHES, ABSENT);
    calling(w, "tide_batches_count(%s)", t->name);
    int64_t n = tide_batches_count(t->ref);
    if (n < 0) broken(w, "counts %" PRId64, n);
    if (t->valid || !t->ref)
        (void)told(w, false);
    else
        (void)told(w, n == 0);
}

static void on_batches_rewind(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_BATCHES, ABSENT);
    w->frame->must_fail = w->frame->must_fail && t->ref;
    calling(w, "tide_batches_rewind(%s)", t->name);
    tide_batches_rewind(t->ref);
    done(w);
}

static void on_batches_release(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_BATCHES, ABSENT);
    w->frame->must_fail = w->frame->must_fail && t->ref;
    calling(w, "tide_batches_release(%s)", t->name);
    tide_batches_release(t->ref);
    done(w);
    if (t->valid) world_ended(t);
}

const call data_calls[] = {
    ROW(data_host, NEVER_FAILS | DROPS),
    ROW(data_array, DROPS),
    ROW(adapt_register, 0),
    ROW(adapt_unregister, OUTSIDE),
    ROW(adapt, 0),
    ROW(adapt_release, 0),
    ROW(batches_new, 0),
    ROW(batches_next, 0),
    ROW(batches_count, 0),
    ROW(batches_rewind, 0),
    ROW(batches_release, 0),
    LAST_ROW,
};
