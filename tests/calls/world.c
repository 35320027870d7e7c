/* world.c: what a thread knows of runtimes, arrays and references, and what must be true of them:
** elements that nobody wrote stay as they are, the figures add up, what was dropped is gone.
**
** What must stay true: an array whose last reference the world gave back is not in it any more. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/collector.h>
#include <tide/reclaim.h>

_Thread_local world *here;

/* A line that is no call of the tables. */
__attribute__((format(printf, 2, 3))) static void note_line(world *w, const char *format, ...) {
    char *line = w->lines[w->line++ % LINES];
    int n = snprintf(line, LINE, "%" PRIu64 "%*s ", w->done, 4 * (int)w->depth + 2, " ");
    va_list ap;
    va_start(ap, format);
    vsnprintf(line + n, LINE - (size_t)n, format, ap);
    va_end(ap);
    if (w->traced) fprintf(stderr, "%s\n", line);
}

runtime *runtime_of(world *w, int place) { return place == NOBODY ? NULL : &w->runtimes[place]; }

/* ---- content ---- */

static content *new_content(world *w) {
    for (size_t i = 0; i < TIDEI_COUNT(w->contents); i++)
        if (!w->contents[i].holders) {
            w->contents[i] = (content){.holders = 1};
            return &w->contents[i];
        }
    abort(); /* there are more of them than arrays and things */
}

void world_wrote(array *x) {
    if (x->in) x->in->version++;
}

void world_freeze(thing *t, array *x) {
    if (!x->in || t->nfrozen == TIDEI_COUNT(t->frozen)) return;
    x->in->frozen++;
    x->in->holders++;
    t->frozen[t->nfrozen++] = x->in;
}

static void thaw(thing *t) {
    while (t->nfrozen) {
        content *c = t->frozen[--t->nfrozen];
        c->frozen--;
        c->holders--;
        if (t->writable) c->version++;
    }
}

static uint64_t digest(const unsigned char *p, size_t n) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

void look_at_content(world *w, array *x) {
    unsigned char bytes[4096];
    size_t n = (size_t)x->size * tide_dtype_size(x->dtype);
    if (!x->a || x->rt == NOBODY || x->freed || x->in->frozen || x->in->unordered) return;
    if (x->size > (int64_t)sizeof bytes || n > sizeof bytes) return;
    /* out of memory, or the report of a bad index */
    if (tide_to_host(x->a, bytes, n) != TIDE_OK) return;
    uint64_t d = digest(bytes, n);
    if (x->digested && x->digested_at == x->in->version && x->digest != d)
        broken(w,
               "the elements of %s are no longer what they were: %016" PRIx64 ", now %016" PRIx64,
               x->name, x->digest, d);
    x->digest = d;
    x->digested = true;
    x->digested_at = x->in->version;
}

/* ---- arrays ---- */

void world_forget(world *w, array *x) {
    (void)w;
    if (x->in) x->in->holders--;
    unsigned busy = x->busy; /* calls that have it take that back */
    *x = (array){.busy = busy};
}

void world_release(world *w, array *x) {
    if (x->refs) x->refs--;
    if (!x->refs && x->counted) world_forget(w, x);
}

void world_drop(world *w, array *x) {
    runtime *r = runtime_of(w, x->rt);
    bool frees = x->freed || chance(w, 50) || (r && r->closing);
    if (frees && !x->freed) {
        note_line(w, "tide_free(%s);", x->name);
        tide_free(x->a);
    }
    if (x->refs)
        note_line(w, "tide_release(%s); %s", x->name,
                  x->refs > 1 ? "/* as often as it is held */" : "");
    if (!x->counted && !frees && r) r->forgotten++;
    for (unsigned n = x->refs; n; n--) tide_release(x->a);
    world_forget(w, x);
}

array *room_for_array(world *w) {
    array *victim = NULL;
    unsigned from = below(w, ARRAYS);
    for (unsigned i = 0; i < ARRAYS; i++)
        if (!w->arrays[i].a && !w->arrays[i].busy) return &w->arrays[i];
    for (unsigned i = 0; i < ARRAYS && !victim; i++) {
        array *x = &w->arrays[(from + i) % ARRAYS];
        if (!x->busy && !x->shared) victim = x;
    }
    if (!victim) abort(); /* no call has so many arguments */
    world_drop(w, victim);
    return victim;
}

/* Whether elements lie in one place: of some axis a step is within what the axes of smaller steps
** reach. */
static bool meets_itself(const array *x) {
    for (int i = 0; i < x->ndim; i++) {
        int64_t step = tide_array_stride(x->a, i), far = 0;
        if (x->shape[i] < 2) continue;
        for (int k = 0; k < x->ndim; k++) {
            int64_t other = tide_array_stride(x->a, k);
            bool smaller = llabs(other) < llabs(step) || (llabs(other) == llabs(step) && k < i);
            if (smaller && x->shape[k] > 1) far += (x->shape[k] - 1) * llabs(other);
        }
        if (llabs(step) <= far || step == 0) return x->size > 0;
    }
    return false;
}

static void learn_layout(array *x) {
    const tidei_header *h = tidei_cell_header(x->a);
    x->counted = x->a == &h->cell;
    x->dtype = tide_array_dtype(x->a);
    x->ndim = tide_array_ndim(x->a);
    x->size = tide_array_size(x->a);
    x->dense = tide_array_is_contiguous(x->a);
    x->device = tide_array_device(x->a);
    x->memory = tide_array_memory(x->a);
    for (int i = 0; i < x->ndim; i++) x->shape[i] = tide_array_dim(x->a, i);
    x->stretched = meets_itself(x);
}

array *world_add(world *w, tide_array *a, int rt, const array *of) {
    content *in = of ? of->in : NULL; /* whose place may be the one that is given up */
    if (in) in->holders++;
    array *x = room_for_array(w);
    runtime *r = &w->runtimes[rt];
    *x = (array){.a = a, .rt = rt, .valid = true, .in = in ? in : new_content(w)};
    snprintf(x->name, sizeof x->name, "a%u", ++w->serial);
    learn_layout(x);
    x->refs = x->counted;
    x->scope = x->counted ? r->scopes : 0;
    return x;
}

void scopes_ended(world *w, int rt, unsigned from) {
    for (int i = 0; i < ARRAYS; i++) {
        array *x = &w->arrays[i];
        if (!x->a || x->rt != rt || !x->scope || x->scope < from) continue;
        x->scope = 0;
        world_release(w, x);
    }
}

/* ---- references ---- */

/* By the ordinary call; scopes in the order in which they began. */
static void end_thing(world *w, thing *t) {
    static const char *const names[] = {
        [TIDEI_REF_STREAM] = "tide_stream_release",    [TIDEI_REF_POOL] = "tide_pool_release",
        [TIDEI_REF_EXPR] = "tide_expr_release",        [TIDEI_REF_SCOPE] = "(void)tide_use_end",
        [TIDEI_REF_VIEW] = "(void)tide_host_view_end", [TIDEI_REF_BATCHES] = "tide_batches_release",
        [TIDEI_REF_GRAPH] = "tide_graph_release"};
    note_line(w, "%s(%s);", names[t->kind], t->name);
    switch (t->kind) {
    case TIDEI_REF_STREAM: tide_stream_release(t->ref); break;
    case TIDEI_REF_POOL: tide_pool_release(t->ref); break;
    case TIDEI_REF_EXPR: tide_expr_release(t->ref); break;
    case TIDEI_REF_SCOPE: (void)!tide_use_end(t->ref); break;
    case TIDEI_REF_VIEW: (void)!tide_host_view_end(&t->view); break;
    case TIDEI_REF_GRAPH: tide_graph_release(t->ref); break;
    default: tide_batches_release(t->ref);
    }
}

void world_forget_thing(world *w, thing *t) {
    (void)w;
    thaw(t);
    free(t->order);
    unsigned busy = t->busy;
    *t = (thing){.busy = busy};
}

bool is_oldest_scope(const world *w, const thing *t) {
    for (int i = 0; i < THINGS; i++) {
        const thing *o = &w->things[i];
        if (o->ref && !o->over && o->rt == t->rt && o->kind == TIDEI_REF_SCOPE && o->born < t->born)
            return false;
    }
    return true;
}

static thing *room_for_thing(world *w) {
    unsigned from = below(w, THINGS);
    for (unsigned i = 0; i < THINGS; i++)
        if (!w->things[i].ref && !w->things[i].busy) return &w->things[i];
    for (unsigned i = 0; i < 2 * THINGS; i++) { /* rather what is over */
        thing *t = &w->things[(from + i) % THINGS];
        bool lives = !t->over && t->rt != NOBODY;
        if (t->busy || t->shared || (lives && i < THINGS)) continue;
        if (lives && t->kind == TIDEI_REF_SCOPE && !is_oldest_scope(w, t)) continue;
        if (lives) end_thing(w, t);
        world_forget_thing(w, t);
        return t;
    }
    abort();
}

thing *world_thing(world *w, tidei_ref_kind kind, void *ref, int rt) {
    static const char letters[] = {
        [TIDEI_REF_STREAM] = 's', [TIDEI_REF_POOL] = 'p', [TIDEI_REF_EXPR] = 'e',
        [TIDEI_REF_SCOPE] = 'u',  [TIDEI_REF_VIEW] = 'v', [TIDEI_REF_BATCHES] = 'b',
        [TIDEI_REF_GRAPH] = 'g'};
    thing *t = room_for_thing(w);
    *t = (thing){
        .kind = kind, .ref = ref, .rt = rt, .valid = true, .born = ++w->serial, .params = -1};
    snprintf(t->name, sizeof t->name, "%c%u", letters[kind], t->born);
    return t;
}

void world_ended(thing *t) {
    thaw(t);
    t->over = true;
}

/* ---- all of a runtime ---- */

/* The oldest scope, view or iterator that is open. */
static thing *oldest_open(world *w, int rt) {
    thing *found = NULL;
    for (int i = 0; i < THINGS; i++) {
        thing *t = &w->things[i];
        if (!t->ref || t->over || t->rt != rt || t->kind < TIDEI_REF_SCOPE) continue;
        if (!found || t->born < found->born) found = t;
    }
    return found;
}

void world_give_moved(world *w, int rt) {
    for (int i = 0; i < MOVED; i++)
        if (w->moveds[i].used && w->moveds[i].rt == rt) give_moved(w, &w->moveds[i]);
}

static void end_scopes(world *w, int rt) {
    runtime *r = &w->runtimes[rt];
    for (; r->scopes; r->scopes--) {
        note_line(w, "(void)tide_scope_end(%s);", r->name);
        scopes_ended(w, rt, r->scopes);
        (void)!tide_scope_end(r->ref);
    }
}

void world_drop_all(world *w, int rt) {
    runtime *r = &w->runtimes[rt];
    end_scopes(w, rt);
    for (thing *t; (t = oldest_open(w, rt));) {
        end_thing(w, t);
        world_ended(t);
    }
    for (int i = 0; i < LOANS; i++) give_external_alloc(w, &w->external_allocs[i], rt);
    world_give_moved(w, rt);
    r->closing = true; /* everything is freed */
    for (int i = 0; i < ARRAYS; i++)
        if (w->arrays[i].a && w->arrays[i].rt == rt && !w->arrays[i].shared && !w->arrays[i].busy)
            world_drop(w, &w->arrays[i]);
    r->closing = false;
    note_line(w, "/* all of %s is dropped */", r->name);
}

/* ---- what must be true ---- */

static void look_at_figures(world *w, runtime *r) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    if (tide_runtime_info(r->ref, &s) != TIDE_OK)
        return broken(w, "tide_runtime_info: %s", tide_error_last()->message);
    if (s.live + s.rounding + s.cached + s.pending != s.backed)
        broken(w, "%s: live %zu + rounding %zu + cached %zu + pending %zu are not backed %zu",
               r->name, s.live, s.rounding, s.cached, s.pending, s.backed);
}

/* A missing wait within the library: the world keeps the order that users owe. */
static void look_at_checker(world *w, runtime *r) {
    tidei_runtime *rt = tidei_runtime_of(r->ref);
    for (tidei_dev *d = NULL; r->checked && (d = tidei_dev_next(rt, d));)
        if (tidei_host_checker_reports(d->d))
            broken(w, "%s: the checker found an access that was not ordered: %s", r->name,
                   w->last_log);
}

void look_at_runtime(world *w, runtime *r, bool quiet) {
    look_at_checker(w, r);
    if (!quiet) return;
    look_at_figures(w, r);
    if (!tidei_runtime_valid(tidei_runtime_of(r->ref))) broken(w, "%s is not valid", r->name);
}

void look_that_all_is_gone(world *w, runtime *r) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    tide_device_figures m = {.struct_size = sizeof m};
    if (r->boehm && r->forgotten) return;
    if (tide_runtime_info(r->ref, &s) != TIDE_OK || tide_device_info(r->ref, &m) != TIDE_OK)
        return broken(w, "%s: %s", r->name, tide_error_last()->message);
    if (s.live || m.pinned.live || s.spilled)
        broken(w, "%s: all was dropped, and %zu bytes live, %zu pinned, %zu spilled", r->name,
               s.live, m.pinned.live, s.spilled);
    if (!r->boehm && s.arrays)
        broken(w, "%s: all was dropped, and %" PRIu64 " arrays live", r->name, s.arrays);
}

/* ---- the end of a runtime ---- */

static void array_closed(world *w, array *x) {
    x->rt = NOBODY;
    if (x->scope) {
        x->scope = 0;
        world_release(w, x);
    }
}

static void close_records(world *w, int rt) {
    for (int i = 0; i < ARRAYS; i++)
        if (w->arrays[i].a && w->arrays[i].rt == rt) array_closed(w, &w->arrays[i]);
    for (int i = 0; i < THINGS; i++)
        if (w->things[i].ref && w->things[i].rt == rt)
            w->things[i].rt = NOBODY, thaw(&w->things[i]);
    for (int i = 0; i < LOANS; i++)
        if (w->external_allocs[i].rt == rt) w->external_allocs[i].at = NULL;
    for (int i = 0; i < CACHES; i++)
        if (w->caches[i].rt == rt) w->caches[i].registered = false;
}

void runtime_closed(world *w, runtime *r) {
    int rt = (int)(r - w->runtimes);
    close_records(w, rt);
    for (int i = 0; i < COLLECTORS; i++)
        if (w->collectors[i].rt == rt && w->collectors[i].attached)
            broken(w, "%s is closed, and a collector was not detached", r->name);
    for (int i = 0; i < NOTES; i++) {
        note *n = &w->notes[i];
        if (!n->used || n->rt != rt) continue;
        if (n->told != 1)
            broken(w, "%s is closed, and a death was told %u times", r->name, n->told);
        n->used = false;
    }
    if (r->host_held)
        broken(w, "%s is closed, and %ld pieces of host memory are held", r->name, r->host_held);
    w->closed[w->nclosed < TIDEI_COUNT(w->closed) ? w->nclosed++ : below(w, w->nclosed)] = r->ref;
    unsigned busy = r->busy;
    memset(r, 0, sizeof *r);
    r->w = w;
    r->busy = busy;
}

/* ---- steps ---- */

void world_begin(world *w, uint64_t seed, unsigned number, bool alone) {
    memset(w, 0, sizeof *w);
    here = w;
    w->seed_given = seed;
    w->seed = w->dice = seed * 0x9e3779b97f4a7c15u + number;
    w->number = number;
    w->alone = alone;
    for (int i = 0; i < RUNTIMES; i++) w->runtimes[i].w = w;
    for (int i = 0; i < DATA_BYTES; i++) w->data[i] = (unsigned char)dice(w);
    calls_begin();
    for (unsigned i = 0; i < calls_count(); i++) {
        const call *c = calls_at(i);
        if (c->flags & ALONE && !alone) continue;
        for (int n = c->flags & OFTEN ? 5 : 1; n; n--) w->deck[w->ndeck++] = c;
    }
}

static const call *deal(world *w) {
    if (w->dealt == 0)
        for (unsigned i = w->ndeck; i > 1; i--) {
            unsigned k = below(w, i);
            const call *c = w->deck[k];
            w->deck[k] = w->deck[i - 1];
            w->deck[i - 1] = c;
        }
    const call *c = w->deck[w->dealt];
    w->dealt = (w->dealt + 1) % w->ndeck;
    return c;
}

static bool some_runtime(const world *w) {
    for (int i = 0; i < RUNTIMES; i++)
        if (w->runtimes[i].ref) return true;
    return false;
}

#define CONTENT_EVERY 12 /* calls; the look waits for the device */
#define FIGURES_EVERY 64

void world_step(world *w) {
    while (!some_runtime(w)) run_named(w, "tide_open", NOBODY);
    w->dice = (w->seed ^ w->done << 20) * 0x9e3779b97f4a7c15u + w->number;
    run_call(w, deal(w), NOBODY);
    w->done++;
    if (w->done % CONTENT_EVERY == 0) {
        array *x = &w->arrays[below(w, ARRAYS)];
        if (x->a) look_at_content(w, x);
    }
    for (int i = 0; w->done % FIGURES_EVERY == 0 && i < RUNTIMES; i++)
        if (w->runtimes[i].ref) look_at_runtime(w, &w->runtimes[i], !w->runtimes[i].shared);
}

/* Nothing that refers to this world is left in a runtime that goes on. */
static void leave_shared(world *w, int rt) {
    runtime *r = &w->runtimes[rt];
    for (int i = 0; i < COLLECTORS; i++)
        if (w->collectors[i].attached && w->collectors[i].rt == rt)
            (void)!tide_collector_unregister(r->ref, w->collectors[i].id);
    for (int i = 0; i < CACHES; i++)
        if (w->caches[i].registered && w->caches[i].rt == rt)
            (void)!tide_reclaimable_unregister(r->ref, w->caches[i].id);
    for (int i = 0; i < 2; i++)
        if (r->rules[i]) (void)!tide_adapt_unregister(r->ref, r->rules[i]);
}

static void forget_closed(world *w) {
    for (int i = 0; i < ARRAYS; i++)
        if (w->arrays[i].a && !w->arrays[i].shared) world_drop(w, &w->arrays[i]);
    for (int i = 0; i < THINGS; i++)
        if (w->things[i].ref && !w->things[i].shared) world_forget_thing(w, &w->things[i]);
}

void world_end(world *w) {
    for (int i = 0; i < RUNTIMES; i++) {
        runtime *r = &w->runtimes[i];
        if (!r->ref) continue;
        world_drop_all(w, i);
        if (r->shared) {
            leave_shared(w, i);
            continue;
        }
        look_that_all_is_gone(w, r);
        tide_close(r->ref);
        runtime_closed(w, r);
    }
    forget_closed(w);
}
