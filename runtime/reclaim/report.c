/* report.c: the out-of-memory report: what was wanted, where the memory is, what each rung gave,
** and a remedy where one fits the figures. */
#include "runtime/memory/header.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/pool/budget.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/reclaim.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/reclaim/report.h"
#include "runtime/base/text.h"

#define HOLDERS 3
struct holder {
    size_t bytes;
    tidei_layout lay;
};
struct holders {
    tidei_dev *d;
    struct holder top[HOLDERS];
};

static void note_holder(tidei_header *h, void *user) {
    struct holders *x = user;
    struct holder one;
    tidei_dev *d;
    if (!tidei_header_look(h, &d, &one.bytes, &one.lay) || d != x->d || tidei_header_spilled(h))
        return;
    for (unsigned i = 0; i < HOLDERS; i++)
        if (one.bytes > x->top[i].bytes) {
            struct holder swap = x->top[i];
            x->top[i] = one;
            one = swap;
        }
}

struct text {
    char *at;
    size_t left;
};
__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = tidei_vformat(t->at, t->left, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= t->left) n = t->left ? (int)t->left - 1 : 0;
    t->at += n;
    t->left -= (size_t)n;
}
static const char *size_text(char buf[32], size_t bytes) {
    return bytes == SIZE_MAX ? "none" : tidei_format_bytes(buf, 32, bytes, 3);
}

static void put_holders(struct text *t, tidei_dev *d) {
    struct holders x = {.d = d};
    char b[32];
    tidei_each_header(d->rt->deaths, note_holder, &x);
    for (unsigned i = 0; i < HOLDERS && x.top[i].bytes; i++) {
        put(t, "%s%s %s (", i ? ", " : "\n  largest holders: ", size_text(b, x.top[i].bytes),
            tide_dtype_name(x.top[i].lay.dtype));
        for (int k = 0; k < x.top[i].lay.ndim; k++)
            put(t, k ? ", %lld" : "%lld", (long long)x.top[i].lay.shape[k]);
        put(t, ")");
    }
}

/* Adds a remedy only where one fits the figures. Cached memory may be of no use to the request, so
** it does not count. */
static void put_remedy(struct text *t, const tidei_climb *c, const tidei_pool_stats *ps,
                       size_t limit) {
    const tidei_device_info *info = &c->d->d->info;
    size_t page = info->page_bytes, held = ps->live + ps->rounding;
    char b[32];
    if (c->bytes > info->total_bytes) {
        put(t, "\n  the device has less than that in all");
        return;
    }
    /* bytes in pages of the pool */
    size_t want = tidei_round_up(held + tidei_round_up(c->bytes, info->align), page);
    want = tidei_round_up(want + tidei_library_bytes(c->d), page);
    if (want > limit && want <= info->total_bytes)
        put(t, "\n  remedy: a limit of %s or more (%zu bytes; TIDE_LIMIT, tide_device_set_limit)",
            size_text(b, want), want);
}

static void put_rungs(struct text *t, const tidei_climb *c) {
    char b[32];
    const tidei_rung *const *rungs = c->d->rt->reclaim->rungs;
    for (unsigned i = 0; i < c->climbed; i++)
        put(t, "%s%s %s", i ? ", " : "\n  given by rung: ", rungs[i]->name,
            size_text(b, c->given[i]));
}

static void put_reclaimables(struct text *t, const tidei_climb *c) {
    char list[640];
    if (tidei_reclaimables_text(c->d, list, sizeof list))
        put(t, "\n  held by what can be reclaimed: %s", list);
}

static void put_unreached(struct text *t, const tidei_climb *c) {
    char names[512];
    tidei_runtime *rt = c->d->rt;
    if (rt->gc_ops && rt->gc_ops->unreached && c->climbed &&
        rt->gc_ops->unreached(rt, names, sizeof names))
        put(t, "\n  collectors not reached: %s", names);
}

/* no pool's granule is smaller; it is the device's alignment if that is more */
#define HOST_GRANULE ((size_t)512)

/* Names a limit with which the request fits beside all that is backed: after a climb nothing of
** that could be given back, and without one it is not known what could. */
static void put_host_remedy(struct text *t, const tidei_climb *c) {
    char b[32];
    const tidei_host_budget *h = c->d->rt->budget;
    size_t whole = 2 * tidei_host_default_memory(),
           align = tidei_max_size(c->d->d->info.align, HOST_GRANULE);
    if (c->bytes > whole) {
        put(t, "\n  the machine has less than that in all");
        return;
    }
    size_t want = atomic_load(&h->backed) + tidei_round_up(c->bytes, align);
    if (want > h->limit)
        put(t,
            "\n  remedy: device memory where the host need not reach (tide_to_memory), or a limit "
            "of %s or more "
            "(%zu bytes; TIDE_PINNED_LIMIT)",
            size_text(b, want), want);
}

/* Reports that host memory is lacking, under its own status. */
static tide_status report_host(const tidei_climb *c) {
    const tidei_host_budget *h = c->d->rt->budget;
    char cause[160] = "", buf[2000], b[4][32];
    struct text t = {buf, sizeof buf};
    tidei_pool_stats pinned, unified;
    if (c->climbed)
        tidei_format(cause, sizeof cause, "%.*s", (int)strcspn(tide_error_last()->message, "\n"),
                     tide_error_last()->message);
    tidei_pools_stats_of(c->d, TIDEI_KIND_BIT(TIDEI_MEM_PINNED), &pinned);
    tidei_pools_stats_of(c->d, TIDEI_KIND_BIT(TIDEI_MEM_UNIFIED), &unified);
    put(&t, "out of host memory for arrays on %s: %s of %s memory wanted by %s\n",
        c->d->d->info.name, c->bytes == SIZE_MAX ? "16 EiB or more" : size_text(b[0], c->bytes),
        tidei_kind_name(c->kind), c->what);
    put(&t, "  limit %s, reserved %s; live: pinned %s, unified %s", size_text(b[0], h->limit),
        size_text(b[1], atomic_load(&h->backed)), size_text(b[2], pinned.live),
        size_text(b[3], unified.live));
    put_rungs(&t, c);
    if (*cause) put(&t, "\n  the last attempt: %s", cause);
    put_unreached(&t, c);
    put_host_remedy(&t, c);
    return tidei_fail(TIDE_E_HOST_NOMEM, c->what, "%s", buf);
}

tide_status tidei_climb_report(const tidei_climb *c) {
    tidei_dev *d = c->d;
    if (c->by_host) return report_host(c);
    char cause[160] = "";
    if (c->climbed && tidei_last_status() == TIDE_E_NOMEM) /* the last attempt's own words */
        tidei_format(cause, sizeof cause, "%.*s", (int)strcspn(tide_error_last()->message, "\n"),
                     tide_error_last()->message);
    char buf[3300], b[7][32];
    struct text t = {buf, sizeof buf};
    tidei_pool_stats ps;
    size_t free_bytes = 0, total = d->d->info.total_bytes, limit = atomic_load(&d->budget->limit),
           driver_total;
    tidei_pools_stats(d, &ps);
    bool known = d->d->ops->memory(d->d, &free_bytes, &driver_total) == TIDE_OK;
    put(&t, "out of memory on %s: %s wanted by %s\n", d->d->info.name,
        c->bytes == SIZE_MAX ? "16 EiB or more" : size_text(b[0], c->bytes), c->what);
    put(&t, "  total %s, free on the device %s, limit %s\n", size_text(b[0], total),
        known ? size_text(b[1], free_bytes) : "unknown", size_text(b[2], limit));
    put(&t,
        "  live %s (pinned %s), rounding %s, cached %s, pending %s, reserved %s, library state %s",
        size_text(b[0], ps.live), size_text(b[6], tidei_pools_pinned(d)),
        size_text(b[1], ps.rounding), size_text(b[2], ps.cached), size_text(b[3], ps.pending),
        size_text(b[4], ps.backed), size_text(b[5], tidei_library_bytes(d)));
    size_t spilled = atomic_load(&d->memory->spilled);
    if (spilled) put(&t, "; spilled to pinned memory %s", size_text(b[6], spilled));
    put(&t, "\n  largest piece that fits now: %s", size_text(b[0], ps.largest));
    put_rungs(&t, c);
    if (*cause) put(&t, "\n  the last attempt: %s", cause);
    put_holders(&t, d);
    put_reclaimables(&t, c);
    put_unreached(&t, c);
    put_remedy(&t, c, &ps, limit);
    return tidei_fail(TIDE_E_NOMEM, c->what, "%s", buf);
}
