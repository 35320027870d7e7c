/* pools.c: the pools of a device: choosing, opening, holding, closing them, and their attributes.
** The model stands in pools.h. */
#include "runtime/pool/pools.h"
#include "runtime/pool/budget.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"

/* ---- which one ---- */

#define POOLS_WANTED TIDEI_POOL_NAMES "; split:SIZE with SIZE above 20MiB"

/* What a pool is opened as. */
struct wish {
    const struct tidei_pool_ops *ops; /* NULL: there is no pool of that name */
    size_t max_split;
};

static bool may_split_at(uint64_t bytes) { return bytes > TIDEI_SPLIT_SEGMENT; }

/* A pool's name; for `split` perhaps with the size from which on its pieces stay whole
** ("split:200MiB"). */
static struct wish parse_pool(const char *text) {
    char name[sizeof((tidei_settings *)0)->pool];
    struct wish w = {.max_split = SIZE_MAX};
    size_t n = strcspn(text, ":");
    tidei_format(name, sizeof name, "%.*s", (int)n, text);
    const struct tidei_pool_ops *ops = tidei_pool_find(name);
    bool split =
        text[n] && ops == &tidei_pool_split && tidei_parse_bytes(text + n + 1, 0, &w.max_split);
    if (!text[n] || (split && may_split_at(w.max_split))) w.ops = ops;
    return w;
}

static const struct tidei_pool_ops *default_ops(const tidei_dev *d) {
    return d->d->info.flags & TIDEI_DEV_PAGES ? &tidei_pool_tide : &tidei_pool_none;
}

/* ---- of a thread ---- */

tidei_pool *tidei_pool_found(tidei_dev *d) {
    tidei_thread *t = tidei_thread_look(d->rt);
    const tidei_thread_device *x = t ? tidei_thread_device_of(t, d) : NULL;
    return x && x->pool ? x->pool->p : d->pool;
}

static void leave(tidei_thread_device *x) {
    if (x->pool) tidei_pool_let_go(x->pool);
    x->pool = NULL;
}

void tidei_thread_leave_pools(tidei_runtime *rt, tidei_thread *t) {
    leave(&t->here);
    for (unsigned i = 0; i < rt->ndevs; i++) leave(&t->elsewhere[i]);
}

/* ---- opening ---- */

static tide_status open_one(tidei_dev *d, struct wish w, tidei_mem_kind kind,
                            tidei_user_pool **out) {
    tidei_user_pool *x = tidei_host_alloc(d->rt, sizeof *x);
    if (!x) return tidei_fail_host_memory("a pool", sizeof *x);
    x->ref = tidei_ref_new(TIDEI_REF_POOL, x, d->rt);
    tide_status status =
        x->ref ? w.ops->open(d, kind, &x->p) : tidei_fail_host_memory("a pool", sizeof *x);
    if (status != TIDE_OK) {
        tidei_ref_end(x->ref);
        tidei_host_free(d->rt, x);
        return status;
    }
    x->dev = d;
    x->p->users = x;
    x->p->mover = d->pools->mover;
    tidei_trim_policy_init(&x->release, d->rt->gc_counts.clock_ns ? d->rt->gc_counts.clock_ns()
                                                                  : tidei_now_ns());
    atomic_store(&x->p->attrs.max_split, w.max_split);
    *out = x;
    return TIDE_OK;
}

void tidei_pools_enlist(tidei_user_pool *x) {
    tidei_dev *d = x->dev;
    pthread_mutex_lock(&d->pools->lock);
    x->next = d->pools->first;
    d->pools->first = x;
    pthread_mutex_unlock(&d->pools->lock);
}

static void close_one(tidei_user_pool *x) {
    tidei_ref_end(x->ref);
    x->p->ops->close(x->p);
    tidei_host_free(x->dev->rt, x);
}
void tidei_pools_discard(tidei_user_pool *x) { close_one(x); }

static void tell_change(tidei_user_pool *x) {
    if (x->p->ops->changed) x->p->ops->changed(x->p);
    tidei_pools_look_soon(x->dev);
}

static void set_threshold(tidei_user_pool *x, size_t bytes) {
    bool adaptive = bytes == TIDE_POOL_THRESHOLD_ADAPTIVE;
    atomic_store(&x->p->attrs.threshold, adaptive ? TIDEI_THRESHOLD_NONE : bytes);
    atomic_store(&x->adaptive, adaptive);
}

static void set_rule(tidei_user_pool *x, unsigned rule, bool on) {
    if (on)
        atomic_fetch_or(&x->p->attrs.reuse, rule);
    else
        atomic_fetch_and(&x->p->attrs.reuse, ~rule);
}

/* A deterministic pool goes by what a stream has waited for, and by nothing else. */
static void set_deterministic(tidei_user_pool *x, bool on) {
    if (on) atomic_store(&x->dev->rt->streams->waits_anyway, true);
    atomic_store(&x->p->attrs.deterministic, on);
}

/* Applies what the settings say of all pools. The pool `driver` keeps nothing by default, as the
** driver does without us. */
static void apply_settings(tidei_user_pool *x, const tidei_settings *s) {
    size_t threshold = TIDE_POOL_THRESHOLD_ADAPTIVE;
    bool given =
        tidei_parse_threshold(s->release_threshold, x->dev->d->info.total_bytes, &threshold);
    if (given || x->p->ops != &tidei_pool_driver) set_threshold(x, threshold);
    set_deterministic(x, s->deterministic);
}

/* Each call for pinned or unified memory costs the driver much, so these kinds get a pool that
** caches; the pools `tide` and `driver` hand out device memory alone. */
tide_status tidei_pools_open_kind(tidei_dev *d, tidei_mem_kind kind, tidei_user_pool **out) {
    tidei_pool *like = d->pool;
    bool any = like->ops != &tidei_pool_tide && like->ops != &tidei_pool_driver;
    struct wish w = {any ? like->ops : &tidei_pool_split,
                     any ? atomic_load(&like->attrs.max_split) : SIZE_MAX};
    tide_status status = open_one(d, w, kind, out);
    if (status != TIDE_OK) return status;
    tidei_user_pool *x = *out;
    x->own = true; /* its holders are counted, and the device is one that never lets go */
    atomic_init(&x->holders, 1);
    apply_settings(x, &d->rt->set);
    tell_change(x);
    return TIDE_OK;
}

/* An environment variable that is wrong is reported as the runtime opens; devices that open later
** do not repeat it. */
static bool is_first(const tidei_dev *d) { return d->index == 0; }

tide_status tidei_pools_open(tidei_dev *d) {
    const tidei_settings *set = &d->rt->set;
    struct wish w = parse_pool(set->pool);
    tidei_user_pool *x;
    if (!w.ops && set->pool_given)
        return tidei_fail(TIDE_E_INVALID, "tide_open", "there is no pool \"%s\"; there are: %s",
                          set->pool, POOLS_WANTED);
    if (!w.ops) {
        if (is_first(d)) tidei_warn_unknown(d->rt, "TIDE_POOL", set->pool, POOLS_WANTED);
        w = (struct wish){&tidei_pool_tide, SIZE_MAX};
    }
    if (w.ops == &tidei_pool_tide) w.ops = default_ops(d);
    tide_status status = open_one(d, w, TIDEI_MEM_DEVICE, &x);
    if (status == TIDE_E_UNSUPPORTED && !set->pool_given) {
        if (is_first(d))
            tidei_warn_environment(d->rt, "TIDE_POOL", set->pool, ": %s; the default serves",
                                   tide_error_last()->message);
        tide_error_clear();
        status = open_one(d, (struct wish){default_ops(d), SIZE_MAX}, TIDEI_MEM_DEVICE, &x);
    }
    if (status != TIDE_OK) return status;
    apply_settings(x, set);
    tell_change(x);
    tidei_pools_enlist(x);
    d->pool = x->p;
    return TIDE_OK;
}

void tidei_pools_close(tidei_dev *d) {
    for (tidei_user_pool *x = d->pools->first, *next; x; x = next) {
        next = x->next;
        close_one(x);
    }
    d->pools->first = NULL;
    d->pool = NULL;
}

/* ---- walks ---- */

tidei_user_pool *tidei_pools_next(tidei_dev *d, tidei_user_pool *x) {
    pthread_mutex_lock(&d->pools->lock);
    tidei_user_pool *next = x ? x->next : d->pools->first;
    if (next) next->walks++;
    if (x) x->walks--;
    pthread_mutex_unlock(&d->pools->lock);
    return next;
}

size_t tidei_pools_settle(tidei_dev *d) {
    size_t bytes = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) bytes += x->p->ops->settle(x->p);
    return bytes;
}

size_t tidei_pools_synced(tidei_dev *d) {
    size_t bytes = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));)
        if (x->p->ops->synced) bytes += x->p->ops->synced(x->p);
    return bytes;
}

static bool among(const tidei_user_pool *x, unsigned kinds) {
    return kinds & TIDEI_KIND_BIT(x->p->kind);
}

size_t tidei_pools_trim(tidei_dev *d, unsigned kinds) {
    size_t bytes = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));)
        if (among(x, kinds)) bytes += x->p->ops->trim(x->p, 0);
    tidei_pools_sweep(d);
    return bytes;
}

size_t tidei_pools_clear(tidei_dev *d, unsigned kinds, size_t bytes) {
    size_t given = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));)
        if (given < bytes && among(x, kinds) && x->p->ops->clear)
            given += x->p->ops->clear(x->p, bytes - given);
    return given;
}

void tidei_pools_stats(tidei_dev *d, tidei_pool_stats *sum) {
    tidei_pools_stats_of(d, TIDEI_KINDS_ON_DEVICE, sum);
}

void tidei_pools_stats_of(tidei_dev *d, unsigned kinds, tidei_pool_stats *sum) {
    *sum = (tidei_pool_stats){0};
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) {
        tidei_pool_stats one;
        if (!among(x, kinds)) continue;
        x->p->ops->stats(x->p, &one);
        sum->live += one.live;
        sum->rounding += one.rounding;
        sum->cached += one.cached;
        sum->pending += one.pending;
        sum->backed += one.backed;
        sum->largest = tidei_max_size(sum->largest, one.largest);
        sum->allocs += one.allocs;
        sum->frees += one.frees;
        sum->compactions += one.compactions;
        sum->bytes_moved += one.bytes_moved;
        sum->bytes_remapped += one.bytes_remapped;
    }
}

static size_t rounding_of(tidei_pool *p) {
    tidei_pool_stats one;
    if (p->ops->rounding) return p->ops->rounding(p);
    p->ops->stats(p, &one);
    return one.rounding;
}

size_t tidei_pools_rounding(tidei_dev *d, unsigned kinds) {
    size_t bytes = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));)
        if (among(x, kinds)) bytes += rounding_of(x->p);
    return bytes;
}

size_t tidei_pool_largest(tidei_pool *p, size_t wanted, size_t growth) {
    const size_t page = p->dev->d->info.page_bytes;
    if (!p->ops->largest) return 0;
    growth = growth / page * page;
    return tidei_max_size(p->ops->largest(p, growth < wanted ? wanted : 0), growth);
}

size_t tidei_pools_pinned(tidei_dev *d) {
    size_t bytes = 0;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) bytes += atomic_load(&x->pinned);
    return bytes;
}

/* ---- orphans ---- */

void tidei_pool_orphaned(tidei_user_pool *x) {
    tidei_dev *d = x->dev;
    for (unsigned i = 0, n = atomic_load(&d->rt->streams->n); i < n; i++)
        x->ticks[i] = tidei_stream_last_tick(tidei_stream_at(d, i));
    tidei_ref_end(x->ref);
    atomic_fetch_add(&d->pools->orphans, 1);
    atomic_store(&x->orphan, true); /* from here on a sweep may close the pool */
    tidei_pools_look_soon(d);
}

/* Whether it is an orphan on whose memory no work is left. */
static bool is_over(tidei_user_pool *x) {
    if (!atomic_load(&x->orphan)) return false;
    for (unsigned i = 0; i < TIDEI_STREAMS_MAX; i++)
        if (!tidei_stamp_done(
                x->dev, (tidei_stamp){.tick = x->ticks[i], .stream = (uint16_t)i, .write = 1}))
            return false;
    return true;
}

/* Takes an orphan on whose memory no work is left, and on which no walk stands, out of the list. */
static tidei_user_pool *take_over(tidei_dev *d) {
    pthread_mutex_lock(&d->pools->lock);
    tidei_user_pool **at = &d->pools->first;
    while (*at && (!(*at)->over || (*at)->walks)) at = &(*at)->next;
    tidei_user_pool *x = *at;
    if (x) *at = x->next;
    pthread_mutex_unlock(&d->pools->lock);
    return x;
}

void tidei_pools_sweep(tidei_dev *d) {
    if (tidei_likely(!atomic_load_explicit(&d->pools->orphans, memory_order_acquire))) return;
    for (tidei_user_pool *x = NULL; (x = tidei_pools_next(d, x));) {
        if (!is_over(x)) continue;
        pthread_mutex_lock(&d->pools->lock);
        x->over = true;
        pthread_mutex_unlock(&d->pools->lock);
    }
    for (tidei_user_pool *x; (x = take_over(d));) {
        atomic_fetch_sub(&d->pools->orphans, 1);
        close_one(x);
    }
}

/* ---- for users ---- */

#define END(field) TIDEI_END(tide_pool_config, field)
static const uint16_t config_ends[] = {
    END(struct_size),  END(kind),       END(release_threshold), END(deterministic),
    END(reuse_follow), END(reuse_done), END(reuse_wait)};
#undef END
static const tidei_sized config_sizes = {"tide_pool_config", config_ends, TIDEI_COUNT(config_ends),
                                         TIDEI_END(tide_pool_config, struct_size)};

static tide_status read_config(const tide_pool_config *c, tide_pool_config *out) {
    *out = (tide_pool_config){0};
    if (!c) return TIDE_OK;
    tide_status status = tidei_sized_check(&config_sizes, c->struct_size, "tide_pool_new");
    if (status != TIDE_OK) return status;
    memcpy(out, c, c->struct_size);
    const struct {
        const char *name;
        int on;
    } switches[] = {{"deterministic", out->deterministic},
                    {"reuse_follow", out->reuse_follow},
                    {"reuse_done", out->reuse_done},
                    {"reuse_wait", out->reuse_wait}};
    for (unsigned i = 0; i < TIDEI_COUNT(switches); i++)
        if (switches[i].on < TIDE_DEFAULT || switches[i].on > TIDE_OFF)
            return tidei_fail(TIDE_E_INVALID, "tide_pool_new",
                              "%s is %d; wanted: TIDE_DEFAULT, TIDE_ON, TIDE_OFF", switches[i].name,
                              switches[i].on);
    return TIDE_OK;
}

static tide_status read_wish(tidei_dev *d, const tide_pool_config *c, struct wish *w,
                             size_t *threshold) {
    tidei_pool *usual = d->pool;
    *w = c->kind ? parse_pool(c->kind)
                 : (struct wish){usual->ops, atomic_load(&usual->attrs.max_split)};
    if (!w->ops)
        return tidei_fail(TIDE_E_INVALID, "tide_pool_new",
                          "there is no pool \"%.200s\"; there are: %s", c->kind, POOLS_WANTED);
    if (c->release_threshold &&
        !tidei_parse_threshold(c->release_threshold, d->d->info.total_bytes, threshold))
        return tidei_fail(TIDE_E_INVALID, "tide_pool_new",
                          "the release threshold is \"%.200s\"; wanted: %s", c->release_threshold,
                          TIDEI_THRESHOLD_WANTED);
    return TIDE_OK;
}

static void apply_config(tidei_user_pool *x, const tide_pool_config *c, size_t threshold) {
    const struct {
        int given;
        unsigned rule;
    } rules[] = {{c->reuse_follow, TIDEI_REUSE_FOLLOW},
                 {c->reuse_done, TIDEI_REUSE_DONE},
                 {c->reuse_wait, TIDEI_REUSE_WAIT}};
    apply_settings(x, &x->dev->rt->set);
    if (c->release_threshold) set_threshold(x, threshold);
    if (c->deterministic) set_deterministic(x, c->deterministic == TIDE_ON);
    for (unsigned i = 0; i < TIDEI_COUNT(rules); i++)
        if (rules[i].given) set_rule(x, rules[i].rule, rules[i].given == TIDE_ON);
}

tide_status tide_pool_new(tide_runtime *ref, const tide_pool_config *config, tide_pool **out) {
    tide_pool_config c;
    struct wish w;
    size_t threshold = 0;
    tidei_user_pool *x;
    tidei_thread *t = tidei_enter(ref, "tide_pool_new");
    if (!t) return tidei_last_status();
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_pool_new", "out is NULL");
    tide_status status = read_config(config, &c);
    if (status == TIDE_OK) status = read_wish(t->dev, &c, &w, &threshold);
    if (status != TIDE_OK) return status;
    tidei_pools_sweep(t->dev);
    status = open_one(t->dev, w, TIDEI_MEM_DEVICE, &x);
    if (status != TIDE_OK) return tidei_device_failed(t->dev->stream0, status, "tide_pool_new");
    x->own = true;
    atomic_init(&x->holders, 1);
    apply_config(x, &c, threshold);
    tell_change(x);
    tidei_pools_enlist(x);
    *out = x->ref;
    return TIDE_OK;
}

tidei_user_pool *tidei_user_pool_find(tide_pool *ref, const char *op) {
    return tidei_ref_find(TIDEI_REF_POOL, ref, op);
}

void tide_pool_release(tide_pool *ref) {
    static const char op[] = "tide_pool_release";
    tidei_user_pool *x = ref && !tidei_forked() ? tidei_user_pool_find(ref, op) : NULL;
    if (!x || !x->own) return;
    if (atomic_exchange(&x->released, true)) {
        tidei_fail(TIDE_E_INVALID, op, "the pool was released before");
        return;
    }
    tidei_dev *d = x->dev;
    tidei_pool_let_go(x);
    tidei_pools_sweep(d);
}

tide_pool *tide_pool_default(tide_runtime *ref) {
    tidei_thread *t = tidei_enter(ref, "tide_pool_default");
    return t ? t->dev->pool->users->ref : NULL;
}

tide_pool *tide_pool_current(tide_runtime *ref) {
    tidei_thread *t = tidei_enter(ref, "tide_pool_current");
    if (!t) return NULL;
    return t->here.pool ? t->here.pool->ref : t->dev->pool->users->ref;
}

tide_status tide_pool_set(tide_runtime *ref, tide_pool *pool) {
    tidei_thread *t = tidei_enter(ref, "tide_pool_set");
    if (!t) return tidei_last_status();
    tidei_user_pool *x = pool ? tidei_user_pool_find(pool, "tide_pool_set") : NULL;
    if (pool && !x) return tidei_last_status();
    if (x && x->dev->rt != t->dev->rt)
        return tidei_fail(TIDE_E_INVALID, "tide_pool_set", "the pool belongs to another runtime");
    tidei_thread_device *at = tidei_thread_device_of(t, x ? x->dev : t->dev);
    tidei_user_pool *old = at->pool;
    tidei_dev *old_dev = old ? old->dev : NULL;
    at->pool = x && x->own ? x : NULL;
    if (at->pool) tidei_pool_hold(at->pool);
    if (old) tidei_pool_let_go(old);
    if (old) tidei_pools_sweep(old_dev);
    return TIDE_OK;
}

/* ---- attributes ---- */

static const unsigned rule_of[] = {[TIDE_POOL_REUSE_FOLLOW] = TIDEI_REUSE_FOLLOW,
                                   [TIDE_POOL_REUSE_DONE] = TIDEI_REUSE_DONE,
                                   [TIDE_POOL_REUSE_WAIT] = TIDEI_REUSE_WAIT};

static tide_status find_attribute(tide_pool *ref, int attribute, const char *op,
                                  tidei_user_pool **out) {
    tidei_user_pool *x = *out = tidei_user_pool_find(ref, op);
    if (!x) return tidei_last_status();
    if (attribute < TIDE_POOL_RELEASE_THRESHOLD || attribute > TIDE_POOL_DETERMINISTIC)
        return tidei_fail(TIDE_E_INVALID, op, "there is no attribute %d", attribute);
    if (attribute == TIDE_POOL_MAX_SPLIT && x->p->ops != &tidei_pool_split)
        return tidei_fail(TIDE_E_UNSUPPORTED, op,
                          "TIDE_POOL_MAX_SPLIT is the pool split's; this one is %s",
                          x->p->ops->name);
    return tidei_thread_get(x->dev->rt) ? TIDE_OK : tidei_last_status();
}

static tide_status check_value(int attribute, uint64_t value) {
    if (attribute == TIDE_POOL_RELEASE_THRESHOLD) return TIDE_OK;
    if (attribute == TIDE_POOL_MAX_SPLIT)
        return may_split_at(value)
                   ? TIDE_OK
                   : tidei_fail(TIDE_E_INVALID, "tide_pool_set_attribute",
                                "TIDE_POOL_MAX_SPLIT is %llu; wanted: more than 20 MiB",
                                (unsigned long long)value);
    return value <= 1 ? TIDE_OK
                      : tidei_fail(TIDE_E_INVALID, "tide_pool_set_attribute",
                                   "attribute %d is %llu; it is a switch: wanted: 0 or 1",
                                   attribute, (unsigned long long)value);
}

tide_status tide_pool_set_attribute(tide_pool *ref, int attribute, uint64_t value) {
    tidei_user_pool *x;
    tide_status status = find_attribute(ref, attribute, "tide_pool_set_attribute", &x);
    if (status == TIDE_OK) status = check_value(attribute, value);
    if (status != TIDE_OK) return status;
    switch (attribute) {
    case TIDE_POOL_RELEASE_THRESHOLD: set_threshold(x, value); break;
    case TIDE_POOL_MAX_SPLIT: atomic_store(&x->p->attrs.max_split, value); break;
    case TIDE_POOL_DETERMINISTIC: set_deterministic(x, value != 0); break;
    default: set_rule(x, rule_of[attribute], value != 0); break;
    }
    tell_change(x);
    return TIDE_OK;
}

tide_status tide_pool_get_attribute(tide_pool *ref, int attribute, uint64_t *value) {
    tidei_user_pool *x;
    tide_status status = find_attribute(ref, attribute, "tide_pool_get_attribute", &x);
    if (status == TIDE_OK && !value)
        status = tidei_fail(TIDE_E_INVALID, "tide_pool_get_attribute", "value is NULL");
    if (status != TIDE_OK) return status;
    const tidei_pool_attrs *a = &x->p->attrs;
    switch (attribute) {
    case TIDE_POOL_RELEASE_THRESHOLD:
        *value =
            atomic_load(&x->adaptive) ? TIDE_POOL_THRESHOLD_ADAPTIVE : atomic_load(&a->threshold);
        break;
    case TIDE_POOL_MAX_SPLIT: *value = atomic_load(&a->max_split); break;
    case TIDE_POOL_DETERMINISTIC: *value = atomic_load(&a->deterministic); break;
    default: *value = (atomic_load(&a->reuse) & rule_of[attribute]) != 0; break;
    }
    return TIDE_OK;
}
