/* memory_calls.c: calls of tide/pool.h, tide/reclaim.h and tide/collector.h; caches and collectors
** that make calls themselves. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <tide/collector.h>
#include <tide/pool.h>
#include <tide/reclaim.h>

/* ---- pools ---- A released pool lives on while arrays or threads have it, so that its use may
** succeed. */

static thing *draw_pool(world *w, unsigned wanted) {
    thing *p = draw_thing(w, TIDEI_REF_POOL, wanted | FREED);
    if (p->ref && p->over) may(w, TIDE_E_INVALID);
    return p;
}

static void on_pool_new(world *w) {
    runtime *r = draw_runtime(w);
    tide_pool *p;
    bool usual = chance(w, 20), nowhere = chance(w, 3);
    tide_pool_config c = {.struct_size = draw_struct_size(w, sizeof c, sizeof c.struct_size),
                          .kind = ONE_OF(w, const char *, NULL, "tide", "driver", "split", "binned",
                                         "simple", "none", "split:21MiB"),
                          .release_threshold = ONE_OF(w, const char *, NULL, NULL, "0", "64KiB",
                                                      "50%", "unlimited", "adaptive"),
                          .deterministic = ONE_OF(w, int, 0, 0, TIDE_ON, TIDE_OFF),
                          .reuse_follow = (int)below(w, 3),
                          .reuse_done = (int)below(w, 3),
                          .reuse_wait = (int)below(w, 3)};
    bool spoilt = !usual && c.struct_size == sizeof c && chance(w, 12);
    if (spoilt) {
        expect(w, TIDE_E_INVALID);
        switch (below(w, 3)) {
        case 0: c.kind = ONE_OF(w, const char *, "lake", "", "split:", "split:1"); break;
        case 1: c.release_threshold = ONE_OF(w, const char *, "lots", "", "-1"); break;
        default: c.reuse_wait = ONE_OF(w, int, 3, -1, INT32_MAX);
        }
    }
    if (usual) w->frame->must_fail = !r->valid; /* the size that was drawn is not used */
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&p, sizeof p);
    calling(w, "tide_pool_new(%s, %s%s, %s)", r->name, usual ? "NULL" : quote(w, c.kind),
            usual ? ""
                  : say(w, " /* threshold %s, size %zu */", quote(w, c.release_threshold),
                        c.struct_size),
            nowhere ? "NULL" : say(w, "&p%u", w->serial + 1));
    if (gave(w, tide_pool_new(r->ref, usual ? NULL : &c, nowhere ? NULL : &p)))
        world_thing(w, TIDEI_REF_POOL, p, w->frame->rt)->device = tide_device_current(r->ref);
    else
        marked(w, &p, sizeof p);
}

static void on_pool_release(world *w) {
    thing *p = draw_thing(w, TIDEI_REF_POOL, ABSENT);
    w->frame->must_fail = w->frame->must_fail && p->ref;
    bool leaves = p->shared;
    calling(w, "tide_pool_release(%s)", leaves ? "NULL" : p->name);
    tide_pool_release(leaves ? NULL : p->ref);
    done(w);
    if (p->valid && !leaves) world_ended(p);
}

static void on_pool_default(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_pool_default(%s)", r->name);
    (void)told(w, !tide_pool_default(r->ref));
}
static void on_pool_current(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_pool_current(%s)", r->name);
    (void)told(w, !tide_pool_current(r->ref));
}
static void on_pool_set(world *w) {
    runtime *r = draw_runtime(w);
    thing *p = chance(w, 60) ? draw_pool(w, ABSENT) : NULL;
    calling(w, "tide_pool_set(%s, %s)", r->name, p ? p->name : "NULL");
    (void)gave(w, tide_pool_set(r->ref, p ? p->ref : NULL));
}

static void on_pool_set_attribute(world *w) {
    thing *p = draw_pool(w, 0);
    int attribute = p->shared ? TIDE_POOL_RELEASE_THRESHOLD /* which nobody's order depends on */
                              : draw_enum(w, TIDE_POOL_RELEASE_THRESHOLD, TIDE_POOL_DETERMINISTIC);
    uint64_t value = chance(w, 75) ? below(w, 2) : draw_size(w);
    calling(w, "tide_pool_set_attribute(%s, %d, %" PRIu64 ")", p->name, attribute, value);
    (void)gave(w, tide_pool_set_attribute(p->ref, attribute, value));
}

static void on_pool_get_attribute(world *w) {
    thing *p = draw_pool(w, 0);
    int attribute = draw_enum(w, TIDE_POOL_RELEASE_THRESHOLD, TIDE_POOL_DETERMINISTIC);
    bool nowhere = chance(w, 3);
    uint64_t value;
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&value, sizeof value);
    calling(w, "tide_pool_get_attribute(%s, %d, %s)", p->name, attribute,
            nowhere ? "NULL" : "&value");
    if (!gave(w, tide_pool_get_attribute(p->ref, attribute, nowhere ? NULL : &value)))
        marked(w, &value, sizeof value);
}

static void on_pool_info(world *w) {
    thing *p = draw_pool(w, 0);
    bool nowhere = chance(w, 3);
    tide_pool_figures s;
    mark(&s, sizeof s);
    s.struct_size = draw_struct_size(w, sizeof s, sizeof(size_t));
    size_t size = s.struct_size;
    if (nowhere) expect(w, TIDE_E_INVALID);
    calling(w, "tide_pool_info(%s, %s) /* struct_size %zu */", p->name, nowhere ? "NULL" : "&s",
            size);
    bool ok = gave(w, tide_pool_info(p->ref, nowhere ? NULL : &s));
    if (ok && size == sizeof s && !p->shared &&
        s.live + s.rounding + s.cached + s.pending != s.backed)
        broken(w, "says live %zu + rounding %zu + cached %zu + pending %zu and backed %zu", s.live,
               s.rounding, s.cached, s.pending, s.backed);
    marked(w, (char *)&s + (ok ? size : sizeof size), sizeof s - (ok ? size : sizeof size));
}

static void on_pool_text(world *w) {
    thing *p = draw_pool(w, 0);
    size_t cap;
    char *buf = draw_buffer(w, &cap);
    calling(w, "tide_pool_text(%s, %s, %zu)", p->name, buf ? "buf" : "NULL", cap);
    judge_text(w, tide_pool_text(p->ref, buf, cap), buf, cap);
}

/* ---- lending ---- */

static external_alloc *room_for_external_alloc(world *w) {
    for (int i = 0; i < LOANS; i++)
        if (!w->external_allocs[i].at) return &w->external_allocs[i];
    external_alloc *l = &w->external_allocs[below(w, LOANS)];
    give_external_alloc(w, l, l->rt);
    return l;
}

static external_alloc *find_external_alloc(world *w, int rt) {
    unsigned from = below(w, LOANS);
    for (unsigned i = 0; i < LOANS; i++) {
        external_alloc *l = &w->external_allocs[(from + i) % LOANS];
        if (l->at && l->rt == rt) return l;
    }
    return NULL;
}

/* Blocks of others would lie in it: its bytes are its own once the stream's earlier work is
** done. */
static void claim(external_alloc *l) {
    memset(l->at, (int)((uintptr_t)l->at >> 8 & 0xff), l->bytes < 4096 ? l->bytes : 4096);
}

static void look_at_external_alloc(world *w, const external_alloc *l) {
    for (size_t i = 0; l->claimed && i < l->bytes && i < 4096; i++)
        if (l->at[i] != ((uintptr_t)l->at >> 8 & 0xff))
            broken(w, "lent memory was written by others");
}

/* On its device, where a current stream is found. */
static void free_there(const runtime *r, const external_alloc *l) {
    int before = tide_device_current(r->ref);
    (void)!tide_device_set(r->ref, l->device);
    tide_pool_free(tide_pool_default(r->ref), NULL, l->at);
    (void)!tide_device_set(r->ref, before);
}

void give_external_alloc(world *w, external_alloc *l, int rt) {
    if (!l->at || l->rt != rt) return;
    look_at_external_alloc(w, l);
    tide_error_clear();
    if (rt == NOBODY)
        tide_torch_free(l->at, (ptrdiff_t)l->bytes, l->device, NULL);
    else
        free_there(&w->runtimes[rt], l);
    if (tide_error_last()->status)
        broken(w, "lent memory is not taken back: %s", tide_error_last()->message);
    l->at = NULL;
}

static size_t draw_bytes(world *w, const runtime *r) {
    return chance(w, 70)   ? below(w, 3000)
           : chance(w, 50) ? (r ? r->memory : TIDEI_MIB) / (1 + below(w, 30))
                           : draw_size(w);
}

static void on_pool_malloc(world *w) {
    thing *p = draw_pool(w, 0), *s = chance(w, 25) ? draw_thing(w, TIDEI_REF_STREAM, ABSENT) : NULL;
    runtime *r = runtime_of(w, p->rt);
    size_t bytes = draw_bytes(w, r);
    calling(w, "tide_pool_malloc(%s, %s, %zu)", p->name, s ? s->name : "NULL", bytes);
    unsigned char *at = tide_pool_malloc(p->ref, s ? s->ref : NULL, bytes);
    if (!told(w, !at)) return;
    external_alloc *l = room_for_external_alloc(w);
    *l = (external_alloc){.at = at, .bytes = bytes ? bytes : 1, .rt = p->rt, .device = p->device};
    if (chance(w, 60) || p->device != tide_device_current(r->ref)) return;
    l->claimed = tide_device_synchronize(r->ref) == TIDE_OK;
    if (l->claimed) claim(l);
}

static void *odd_address(world *w) {
    void *const at[] = {NULL, w->data, (void *)1, (void *)UINTPTR_MAX};
    return at[below(w, TIDEI_COUNT(at))];
}

static void on_pool_free(world *w) {
    thing *p = draw_pool(w, 0), *s = chance(w, 25) ? draw_thing(w, TIDEI_REF_STREAM, ABSENT) : NULL;
    external_alloc *l = p->rt == NOBODY ? NULL : find_external_alloc(w, p->rt);
    void *at = l ? l->at : NULL;
    if (chance(w, 10)) l = NULL, at = odd_address(w);
    if (at && !l) expect(w, TIDE_E_INVALID);
    if (!at) w->frame->must_fail = false;
    if (l) look_at_external_alloc(w, l);
    calling(w, "tide_pool_free(%s, %s, %s)", p->name, s ? s->name : "NULL",
            l    ? "lent"
            : at ? "(void *)odd"
                 : "NULL");
    tide_pool_free(p->ref, s ? s->ref : NULL, at);
    bool failed =
        !w->frame->nested && strcmp(tide_error_last()->message, w->frame->before_text) != 0;
    /* whose errors hide its own: once more, which changes nothing if it is back */
    if (l && w->frame->nested) free_there(runtime_of(w, l->rt), l);
    done(w);
    if (l && !failed) l->at = NULL;
}

static void on_torch_malloc(world *w) {
    int device =
        chance(w, 90) ? (int)below(w, 2) : ONE_OF(w, int, -1, 63, 64, INT32_MAX, INT32_MIN);
    ptrdiff_t bytes = (ptrdiff_t)draw_bytes(w, NULL);
    if (bytes < 0 || device < 0 || device > 63) expect(w, TIDE_E_INVALID);
    calling(w, "tide_torch_malloc(%td, %d, NULL)", bytes, device);
    unsigned char *at = tide_torch_malloc(bytes, device, NULL);
    if (!told(w, !at)) return;
    *room_for_external_alloc(w) =
        (external_alloc){.at = at, .bytes = (size_t)bytes, .rt = NOBODY, .device = device};
}

static void on_torch_free(world *w) {
    external_alloc *l = find_external_alloc(w, NOBODY);
    int device = l ? l->device : 0;
    void *at = l ? l->at : NULL;
    if (chance(w, 20)) l = NULL, at = odd_address(w);
    if (at && !l) expect(w, TIDE_E_INVALID), may(w, TIDE_E_CLOSED);
    if (l && chance(w, 5)) { /* of a device that has none of it */
        device = ONE_OF(w, int, 5, 64, -1, INT32_MAX);
        l = NULL;
        expect(w, TIDE_E_INVALID);
        may(w, TIDE_E_CLOSED);
    }
    w->frame->subject = "tide_pool_free";
    calling(w, "tide_torch_free(%s, 0, %d, NULL)",
            l    ? "lent"
            : at ? "(void *)odd"
                 : "NULL",
            device);
    tide_torch_free(at, 0, device, NULL);
    done(w);
    if (l) l->at = NULL;
}

static void on_torch_close(world *w) {
    calling(w, "tide_torch_close()");
    tide_torch_close();
    for (int i = 0; i < LOANS; i++)
        if (w->external_allocs[i].rt == NOBODY) w->external_allocs[i].at = NULL;
    done(w);
}

/* ---- tide/reclaim.h ---- */

static void on_reclaim(world *w) {
    runtime *r = draw_runtime(w);
    int level = draw_enum(w, TIDE_RECLAIM_PURGE, TIDE_RECLAIM_SPILL);
    bool nowhere = chance(w, 30);
    size_t freed;
    mark(&freed, sizeof freed);
    calling(w, "tide_reclaim(%s, %d, %s)", r->name, level, nowhere ? "NULL" : "&freed");
    if (!gave(w, tide_reclaim(r->ref, level, nowhere ? NULL : &freed)))
        marked(w, &freed, sizeof freed);
}

static void look_into(const cache *c, const char *slot) {
    if (!c->registered) broken(c->w, "%s of a cache is called that is not registered", slot);
}

/* On another world's thread its own calls are made: any cache may serve whoever is short. */
static tide_status give_way(cache *c, size_t wanted, size_t *given) {
    world *w = here;
    if (*given != 0) broken(c->w, "a cache is asked with %zu given", *given);
    if (!w) return TIDE_OK;
    if (w == c->w) wander(w, c->rt, 0);
    *given = below(w, 2) ? 0 : wanted < 4096 ? wanted : below(w, 4096);
    return chance(w, 4) ? ONE_OF(w, tide_status, TIDE_E_DEVICE, TIDE_E_INVALID, 77) : TIDE_OK;
}
static tide_status on_purge(void *user, int device, size_t wanted, size_t *given) {
    look_into(user, "purge");
    (void)device;
    return give_way(user, wanted, given);
}
static tide_status on_drop(void *user, int device, size_t wanted, size_t *given) {
    look_into(user, "drop");
    (void)device;
    return give_way(user, wanted, given);
}
static size_t on_bytes(void *user, int device) {
    look_into(user, "bytes");
    return (size_t)device * 100 + 7;
}

static cache *room_for_cache(world *w) {
    for (int i = 0; i < CACHES; i++)
        if (!w->caches[i].registered) return &w->caches[i];
    return NULL;
}

static void on_reclaimable_register(world *w) {
    runtime *r = draw_runtime(w);
    cache *c = room_for_cache(w);
    bool named = chance(w, 80), purges = chance(w, 80), drops = chance(w, 60),
         nowhere = chance(w, 3);
    uint64_t id;
    tide_reclaimable table = {
        .struct_size = draw_struct_size(w, sizeof table, offsetof(tide_reclaimable, dear)),
        .name = named ? "things kept" : NULL,
        .purge = purges ? on_purge : NULL,
        .drop = drops ? on_drop : NULL,
        .bytes = chance(w, 50) ? on_bytes : NULL,
        .user = c,
        .dear = (int32_t)below(w, 2)};
    bool none = !c;
    if (none || !named || (!purges && !drops)) expect(w, TIDE_E_INVALID);
    mark(&id, sizeof id);
    if (c) *c = (cache){.w = w, .rt = w->frame->rt, .registered = true};
    calling(w, "tide_reclaimable_register(%s, %s{.name = %s%s%s}, %s)", r->name,
            none ? "NULL: " : "&(tide_reclaimable)", quote(w, table.name), purges ? ", .purge" : "",
            drops ? ", .drop" : "", nowhere ? "NULL" : "&id");
    if (gave(w, tide_reclaimable_register(r->ref, none ? NULL : &table, nowhere ? NULL : &id))) {
        if (!nowhere && !id) broken(w, "gives the id 0");
        c->id = nowhere ? 0 : id;
        return;
    }
    marked(w, &id, sizeof id);
    if (c) c->registered = false;
}

static void on_reclaimable_unregister(world *w) {
    cache *c = NULL;
    runtime *r = draw_runtime(w);
    uint64_t id = ONE_OF(w, uint64_t, 0, UINT64_MAX, 1000000);
    for (int i = 0; i < CACHES && chance(w, 95); i++)
        if (w->caches[i].registered && w->caches[i].id && w->caches[i].rt == w->frame->rt)
            c = &w->caches[i];
    if (c) id = c->id;
    if (!c) expect(w, TIDE_E_INVALID);
    calling(w, "tide_reclaimable_unregister(%s, %" PRIu64 ")", r->name, id);
    if (gave(w, tide_reclaimable_unregister(r->ref, id))) c->registered = false;
}

/* ---- tide/collector.h ---- */

static foreign *of_collector(void *self) {
    foreign *c = self;
    if (!c->attached) broken(c->w, "a slot of a collector is called that is not attached");
    return c;
}
static int on_round(void *self, int level) {
    foreign *c = of_collector(self);
    if (level != TIDE_COLLECT_MINOR && level != TIDE_COLLECT_FULL)
        broken(c->w, "collects at level %d", level);
    if (here != c->w) return TIDE_COLLECT_BUSY;
    wander(c->w, c->rt, DROPS);
    return ONE_OF(c->w, int, TIDE_COLLECT_DONE, TIDE_COLLECT_DONE, TIDE_COLLECT_BUSY,
                  TIDE_COLLECT_UNSUPPORTED);
}
static int on_may_collect(void *self) {
    foreign *c = of_collector(self);
    return here != c->w || chance(c->w, 80);
}
static void on_pressure(void *self, int64_t delta) { (void)of_collector(self), (void)delta; }
static void on_blocking(void *self, void (*fn)(void *arg), void *arg) {
    (void)of_collector(self), fn(arg);
}
static void on_detach(void *self) { of_collector(self)->attached = false; }

static void on_collector_register(world *w) {
    runtime *r = draw_runtime(w);
    foreign *c = NULL;
    uint64_t id;
    bool nowhere = w->alone && chance(w, 10), none = chance(w, 3), bad_caps = chance(w, 4);
    for (int i = 0; i < COLLECTORS; i++)
        if (!w->collectors[i].attached) c = &w->collectors[i];
    tide_collector table = {
        .struct_size = draw_struct_size(w, sizeof table, sizeof table),
        .name = chance(w, 90) ? "theirs" : NULL,
        .caps = bad_caps ? ONE_OF(w, uint32_t, 8, UINT32_MAX, 0x80000000u)
                         : ONE_OF(w, uint32_t, 0, TIDE_COLLECTOR_TRACING, TIDE_COLLECTOR_TRACING,
                                  TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_MINOR,
                                  TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_BOUND),
        .user = c,
        .collect = none || !c ? NULL : on_round,
        .may_collect = chance(w, 60) ? on_may_collect : NULL,
        .pressure = chance(w, 60) ? on_pressure : NULL,
        .blocking = chance(w, 60) ? on_blocking : NULL,
        .detach = on_detach};
    if (!table.collect || bad_caps) expect(w, TIDE_E_INVALID);
    mark(&id, sizeof id);
    if (c) *c = (foreign){.w = w, .rt = w->frame->rt, .attached = true};
    calling(
        w, "tide_collector_register(%s, &(tide_collector){.caps = %u%s}, %s) /* struct_size %zu */",
        r->name, table.caps, table.collect ? ", .collect" : "", nowhere ? "NULL" : "&id",
        table.struct_size);
    if (gave(w, tide_collector_register(r->ref, &table, nowhere ? NULL : &id))) {
        c->id = nowhere ? 0 : id;
        return;
    }
    marked(w, &id, sizeof id);
    if (c) c->attached = false;
}

static void on_decide(void *user, void *state, const tide_policy_snapshot *now,
                      tide_policy_decision *out) {
    (void)user, (void)state;
    out->level = now->level;
    out->reason = "always";
}

/* Few names, since what is registered stays. */
static void on_policy_register(world *w) {
    static const char *const names[] = {"drawn", "drawn-2", "reserve", "", "a(b)", "./c", "d,e"};
    static const tide_policy_param params[] = {{.name = "x", .usual = 1, .low = 0, .high = 2},
                                               {.name = "y", .usual = 3, .low = 0, .high = 2}};
    unsigned name = below(w, TIDEI_COUNT(names) + 1);
    bool none = chance(w, 3), decides = chance(w, 95), good = name < 2 && decides;
    tide_policy table = {.struct_size = draw_struct_size(w, sizeof table, sizeof table),
                         .name = name < TIDEI_COUNT(names) ? names[name] : NULL,
                         .summary = chance(w, 50) ? "drawn" : NULL,
                         .state_bytes = chance(w, 5) ? SIZE_MAX : below(w, 1000),
                         .params = chance(w, 90) ? params : NULL,
                         .nparams = below(w, 4),
                         .decide = decides ? on_decide : NULL};
    good = good && table.state_bytes != SIZE_MAX && (!table.nparams || table.params) &&
           table.nparams < 2;
    if (!none && good)
        may(w, TIDE_E_INVALID); /* it is there already */
    else
        expect(w, TIDE_E_INVALID);
    calling(w, "tide_policy_register(%s{.name = %s, .nparams = %zu}) /* struct_size %zu */",
            none ? "NULL: " : "&(tide_policy)", quote(w, table.name), table.nparams,
            table.struct_size);
    gave(w, tide_policy_register(none ? NULL : &table));
}

static foreign *draw_collector(world *w) {
    unsigned from = below(w, COLLECTORS);
    for (unsigned i = 0; i < COLLECTORS; i++) {
        foreign *c = &w->collectors[(from + i) % COLLECTORS];
        if (c->attached && c->id && c->rt == w->frame->rt) return c;
    }
    return NULL;
}

static void on_collector_unregister(world *w) {
    runtime *r = draw_runtime(w);
    foreign *c = chance(w, 85) ? draw_collector(w) : NULL;
    uint64_t id =
        c ? c->id : ONE_OF(w, uint64_t, 0, INT32_MAX, (uint64_t)INT32_MAX + 2, UINT64_MAX);
    if (!c) expect(w, TIDE_E_INVALID);
    calling(w, "tide_collector_unregister(%s, %" PRIu64 ")", r->name, id);
    if (gave(w, tide_collector_unregister(r->ref, id)) && c->attached)
        broken(w, "has not told the collector");
}

static void on_collector_use(world *w) {
    runtime *r = draw_runtime(w);
    foreign *c = chance(w, 50) ? draw_collector(w) : NULL;
    uint64_t id =
        c ? c->id : ONE_OF(w, uint64_t, 0, 0, 0, 0, INT32_MAX, (uint64_t)INT32_MAX + 2, UINT64_MAX);
    if (!c && id != 0) expect(w, TIDE_E_INVALID);
    calling(w, "tide_collector_use(%s, %" PRIu64 ")", r->name, id);
    (void)gave(w, tide_collector_use(r->ref, id));
}

static void on_safepoint(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_safepoint(%s)", r->name);
    tide_safepoint(r->ref);
    done(w);
}

static void on_collector_is_device_library(world *w) {
    const char *name =
        ONE_OF(w, const char *, "libcublas.so.12", "/usr/lib/libcuda.so.1", "libc.so.6", "", "\xff",
               "/a/libcusolver.so", "libtidepool.so.0", NULL);
    calling(w, "tide_collector_is_device_library(%s)", quote(w, name));
    int is = tide_collector_is_device_library(name);
    if (is != 0 && is != 1) broken(w, "gives %d", is);
    if (name && !strcmp(name, "libc.so.6") && is) broken(w, "takes %s for CUDA's", name);
    done(w);
}

const call memory_calls[] = {
    ROW(pool_new, 0),
    ROW(pool_release, 0),
    ROW(pool_default, 0),
    ROW(pool_current, 0),
    ROW(pool_set, OUTSIDE),
    ROW(pool_set_attribute, 0),
    ROW(pool_get_attribute, 0),
    ROW(pool_info, 0),
    ROW(pool_text, 0),
    ROW(pool_malloc, 0),
    ROW(pool_free, 0),
    ROW(torch_malloc, MAY_NODEVICE),
    ROW(torch_free, 0),
    ROW(torch_close, NEVER_FAILS | ALONE | OUTSIDE),
    ROW(reclaim, 0),
    ROW(reclaimable_register, 0),
    ROW(reclaimable_unregister, WAITS),
    ROW(policy_register, OUTSIDE),
    ROW(collector_register, OUTSIDE),
    ROW(collector_unregister, OUTSIDE),
    ROW(collector_use, OUTSIDE),
    ROW(safepoint, 0),
    ROW(collector_is_device_library, NEVER_FAILS | DROPS),
    LAST_ROW,
};
