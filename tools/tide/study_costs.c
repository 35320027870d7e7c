/* study_costs.c: what recorded runs tell of costs; study_costs.h has the model. */
#include "tools/tide/study_costs.h"
#include "runtime/base/text.h"
#include <math.h>
#include <stdlib.h>

#define OP  "tide study"
#define FEW 8 /* collections that tell nothing of a cost for each array */

/* ---- a run's pace ---- */

uint64_t tidei_study_stood_ns(const tidei_trace *t) {
    uint64_t ns = t->run.climb_ns;
    for (size_t i = 0; i < t->ncollections; i++) ns += t->collections[i].pause_ns;
    return ns;
}

/* What the program itself took. */
static uint64_t own_ns(const tidei_trace *t) {
    uint64_t stood = tidei_study_stood_ns(t);
    return t->run.ns > stood ? t->run.ns - stood : 1;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

const tidei_trace *tidei_study_median(const tidei_study_runs *r) {
    for (size_t i = 0; i < r->n; i++) {
        const uint64_t own = own_ns(&r->at[i]);
        size_t shorter = 0, equal = 0;
        for (size_t k = 0; k < r->n; k++) {
            shorter += own_ns(&r->at[k]) < own;
            equal += own_ns(&r->at[k]) == own;
        }
        if (shorter <= r->n / 2 && shorter + equal > r->n / 2) return &r->at[i];
    }
    return r->at;
}

/* ---- a recording by itself ---- */

/* Traces may tell of pauses of centuries. */
static uint64_t thousandths(double ns) { return (uint64_t)fmin(ns * 1000, 0x1p63); }

/* What a collection of this level took and what each array that it looked at added, by least
** squares; where all looked at about as many, an array costs what it usually does. False: there was
** none. */
static bool learn_pause(const tidei_trace *t, uint32_t level, uint64_t *ns, uint64_t *array_ps) {
    double n = 0, arrays = 0, pause = 0, low = 0x1p64, high = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < t->ncollections; i++) {
        const tidei_trace_collection *c = &t->collections[i];
        if (c->level != level) continue;
        n++;
        arrays += (double)c->arrays;
        pause += (double)c->pause_ns;
        if ((double)c->arrays < low) low = (double)c->arrays;
        if ((double)c->arrays > high) high = (double)c->arrays;
    }
    if (n < 1) return false;
    arrays /= n;
    pause /= n;
    for (size_t i = 0; i < t->ncollections; i++) {
        const tidei_trace_collection *c = &t->collections[i];
        if (c->level != level) continue;
        double x = (double)c->arrays - arrays;
        xx += x * x;
        xy += x * ((double)c->pause_ns - pause);
    }
    double each = n >= FEW && high > 2 * low + 64 && xy > 0 ? xy / xx : (double)*array_ps / 1000;
    if (each * arrays > pause) each = pause / arrays;
    *ns = (uint64_t)(pause - each * arrays);
    *array_ps = thousandths(each);
    return true;
}

/* A recording's own costs in place of the usual ones. */
static void learn_costs(const tidei_trace *t, tidei_lab_model *m) {
    bool full = learn_pause(t, TIDE_COLLECT_FULL, &m->full_ns, &m->full_array_ps),
         minor = learn_pause(t, TIDE_COLLECT_MINOR, &m->minor_ns, &m->minor_array_ps);
    if (full || minor) m->spread_low = m->spread_high = 1000; /* its own means */
    m->climbs_at_once = true;                                 /* as ours: runtime/reclaim/rung.h */
    m->fresh_mib_ns = t->run.fresh_mib_ns;
    if (t->run.total) m->total = t->run.total;
    m->page_bytes = t->run.page_bytes;
}

/* ---- several runs ---- */

/* A collection of a recording: of how many arrays, and how long it took. */
struct seen {
    double arrays, ns;
};

/* Those of one level in a group of runs, each run's first one or all others, at a pace at which the
** program itself takes `own`; *out is the caller's. A climb asks for a minor collection first:
** where no collector offers one, there was none. */
static tide_status look_at(const tidei_study_runs *r, uint32_t level, bool first, double own,
                           struct seen **out, size_t *many) {
    size_t cap = 1;
    for (size_t i = 0; i < r->n; i++) cap += r->at[i].ncollections;
    *many = 0;
    *out = tidei_host_alloc(NULL, cap * sizeof **out);
    if (!*out) return tidei_fail_host_memory(OP, cap * sizeof **out);
    for (size_t i = 0; i < r->n; i++) {
        double pace = own / (double)own_ns(&r->at[i]);
        for (size_t k = 0, before = 0; k < r->at[i].ncollections; k++) {
            const tidei_trace_collection *c = &r->at[i].collections[k];
            bool was_none = c->forced && c->level == TIDE_COLLECT_MINOR && !c->freed;
            if (c->level != level || was_none) continue;
            bool is_first = !before++;
            if (is_first == first)
                (*out)[(*many)++] = (struct seen){(double)c->arrays, pace * (double)c->pause_ns};
        }
    }
    return TIDE_OK;
}

static int by_arrays(const void *a, const void *b) {
    double x = ((const struct seen *)a)->arrays, y = ((const struct seen *)b)->arrays;
    return (x > y) - (x < y);
}
static int by_ns(const void *a, const void *b) {
    double x = ((const struct seen *)a)->ns, y = ((const struct seen *)b)->ns;
    return (x > y) - (x < y);
}

/* The medians of both; there is at least one. */
static struct seen middle(struct seen *all, size_t n) {
    struct seen m;
    qsort(all, n, sizeof *all, by_arrays);
    m.arrays = all[n / 2].arrays;
    qsort(all, n, sizeof *all, by_ns);
    m.ns = all[n / 2].ns;
    return m;
}

/* A pause in thousandths of what the program's curve says. */
static uint32_t part_of(const tidei_lab_program *p, uint32_t level, struct seen x) {
    double ns = (double)tidei_lab_program_pause(p, &p->model, level == TIDE_COLLECT_FULL,
                                                (uint64_t)x.arrays);
    return (uint32_t)fmin(1000 * x.ns / fmax(1, ns), UINT32_MAX);
}

/* A point more of the curve, unless it looked at no more arrays than the one before. */
static void add_point(tidei_lab_curve *c, struct seen m) {
    uint64_t arrays = (uint64_t)m.arrays, ns = (uint64_t)fmin(fmax(1, m.ns), 0x1p63);
    if (c->n == TIDEI_LAB_CURVE || (c->n && arrays <= c->at[c->n - 1].arrays)) return;
    c->at[c->n].arrays = arrays;
    c->at[c->n++].ns = ns;
}

/* In `t` collections looked at few arrays and found hardly one dead. What they left cold made the
** program itself slower: its pace is not known. */
static tide_status begin_with(const tidei_trace *t, uint32_t level, tidei_lab_curve *c) {
    const tidei_study_runs alone = {t, 1};
    struct seen *all;
    size_t n;
    tide_status status = look_at(&alone, level, false, (double)own_ns(t), &all, &n);
    if (status == TIDE_OK && n) add_point(c, middle(all, n));
    tidei_host_free(NULL, all);
    return status;
}

/* A group with few collections tells nothing. */
static tide_status add_group(const tidei_study_runs *r, uint32_t level, double own,
                             tidei_lab_curve *c) {
    struct seen *all;
    size_t n;
    tide_status status = look_at(r, level, false, own, &all, &n);
    if (status == TIDE_OK && n >= FEW) add_point(c, middle(all, n));
    tidei_host_free(NULL, all);
    return status;
}

/* How pauses differ from the curve: those of one group, but for the first of each run, if they are
** not few; and the middle one of its firsts. */
static tide_status learn_spread(const tidei_study_runs *r, uint32_t level, double own,
                                tidei_lab_program *p) {
    struct seen *all = NULL, *first = NULL;
    size_t n, nfirst;
    tide_status status = look_at(r, level, false, own, &all, &n);
    if (status == TIDE_OK) status = look_at(r, level, true, own, &first, &nfirst);
    if (status == TIDE_OK && nfirst) p->first_part = part_of(p, level, middle(first, nfirst));
    if (status == TIDE_OK && n >= FEW) {
        tidei_host_free(NULL, p->spread);
        p->nspread = 0;
        p->spread = tidei_host_alloc(NULL, n * sizeof *p->spread);
        if (!p->spread) status = tidei_fail_host_memory(OP, n * sizeof *p->spread);
        for (size_t i = 0; p->spread && i < n; i++)
            p->spread[p->nspread++] = part_of(p, level, all[i]);
    }
    tidei_host_free(NULL, all);
    tidei_host_free(NULL, first);
    return status;
}

static tide_status learn_level(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                               size_t of, uint32_t level, tidei_lab_program *p) {
    const double own = (double)own_ns(tidei_study_median(&timed[of]));
    tidei_lab_curve *c = &p->pauses[level == TIDE_COLLECT_FULL];
    tide_status status = begin_with(t, level, c);
    for (size_t k = 0; status == TIDE_OK && k < n; k++)
        status = add_group(&timed[k], level, own, c);
    return status == TIDE_OK && c->n ? learn_spread(&timed[of], level, own, p) : status;
}

/* What a climb takes beyond its collections, in all the runs. */
static void learn_stall(const tidei_study_runs *timed, size_t n, size_t of, tidei_lab_model *m) {
    const double own = (double)own_ns(tidei_study_median(&timed[of]));
    double climbs = 0, ns = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < timed[k].n; i++) {
            const tidei_trace *t = &timed[k].at[i];
            climbs += (double)t->run.climbs;
            ns += (double)t->run.climb_ns * own / (double)own_ns(t);
        }
    if (climbs > 0) m->stall_ns = (uint64_t)fmin(ns / climbs, 0x1p63);
}

/* ---- what new memory costs ---- */

/* Beside what the run had backed by then: at least what its blocks had at most, and the one which
** it grew for. */
static void place_prices(const tidei_trace *t, tidei_lab_told_price *out) {
    uint64_t live = 0, most = 0;
    size_t k = 0;
    for (size_t i = 0; i < t->n && k < t->nprices; i++) {
        const tidei_event *e = &t->events[i];
        live = e->op == TIDEI_EVENT_ALLOC  ? live + e->bytes
               : e->op == TIDEI_EVENT_FREE ? live - e->bytes
                                           : live;
        most = live > most ? live : most;
        for (; k < t->nprices && t->prices[k].place <= i; k++) out[k].backed = k ? most : 0;
    }
    for (; k < t->nprices; k++) out[k].backed = most;
}

/* The k-th price, the middle one of the runs that know of so many. */
static uint64_t middle_price(const tidei_study_runs *r, size_t k, uint64_t *all) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (k < r->at[i].nprices) all[n++] = r->at[i].prices[k].mib_ns;
    qsort(all, n, sizeof *all, by_size);
    return all[n / 2];
}

/* As the runs of one group found it out, whose pools grew at the same places: as far as that run
** did which knows of the most. */
static tide_status learn_prices(const tidei_study_runs *r, tidei_lab_program *p) {
    const tidei_trace *longest = r->at;
    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].nprices > longest->nprices) longest = &r->at[i];
    const size_t n = longest->nprices;
    uint64_t *all = tidei_host_alloc(NULL, r->n * sizeof *all);
    if (all && n) p->prices = tidei_host_alloc(NULL, n * sizeof *p->prices);
    if (!all || (n && !p->prices)) {
        tidei_host_free(NULL, all);
        return tidei_fail_host_memory(OP, (n + r->n) * sizeof *p->prices);
    }
    if (n) place_prices(longest, p->prices);
    for (size_t k = 0; k < n; k++) p->prices[k].mib_ns = middle_price(r, k, all);
    p->nprices = n;
    if (n) p->model.fresh_mib_ns = p->prices[n - 1].mib_ns;
    tidei_host_free(NULL, all);
    return TIDE_OK;
}

tide_status tidei_study_learn(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                              size_t of, tidei_lab_program *p) {
    if (t->run.version >= 2) learn_costs(t, &p->model);
    if (!n) return TIDE_OK;
    learn_stall(timed, n, of, &p->model);
    tide_status status = learn_prices(&timed[of], p);
    if (status == TIDE_OK) status = learn_level(t, timed, n, of, TIDE_COLLECT_MINOR, p);
    return status == TIDE_OK ? learn_level(t, timed, n, of, TIDE_COLLECT_FULL, p) : status;
}
