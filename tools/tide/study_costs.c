/* study_costs.c: what recorded runs tell of costs; study_costs.h has the model. */
#include "tools/tide/study_costs.h"
#include "runtime/base/text.h"
#include <math.h>
#include <stdlib.h>

#define OP     "tide study"
#define FEW    8 /* collections that tell nothing of a cost for each array */
#define ENOUGH 3 /* of a group, to tell what a usual one takes */

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

/* The same without what new memory took, of which runs under other limits had more or less; at most
** a half of it. A price that was found out on the way is too rough for that: a few samples, of
** which one may be twenty times another. */
static double work_ns(const tidei_trace *t) {
    double own = (double)own_ns(t);
    return t->nprices > 1 ? own : own - fmin(t->run.growth_ns, own / 2);
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
    *ns = (uint64_t)fmin(pause - each * arrays, 0x1p63);
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
    uint64_t arrays;
    double ns;
};

/* A climb asks for a minor collection first: where no collector offers one, there was none. */
bool tidei_study_collected(const tidei_trace_collection *c) {
    return !(c->forced && c->level == TIDE_COLLECT_MINOR && !c->freed);
}

/* Those of one level in a group of runs, each run's first one or all others, at a pace at which the
** program's work takes `work` (0: each at its own); *out is the caller's. */
static tide_status look_at(const tidei_study_runs *r, uint32_t level, bool first, double work,
                           struct seen **out, size_t *many) {
    size_t cap = 1;
    for (size_t i = 0; i < r->n; i++) cap += r->at[i].ncollections;
    *many = 0;
    *out = tidei_host_alloc(NULL, cap * sizeof **out);
    if (!*out) return tidei_fail_host_memory(OP, cap * sizeof **out);
    for (size_t i = 0; i < r->n; i++) {
        double pace = work > 0 ? work / work_ns(&r->at[i]) : 1;
        for (size_t k = 0, before = 0; k < r->at[i].ncollections; k++) {
            const tidei_trace_collection *c = &r->at[i].collections[k];
            if (c->level != level || !tidei_study_collected(c)) continue;
            bool is_first = !before++;
            if (is_first == first)
                (*out)[(*many)++] = (struct seen){c->arrays, pace * (double)c->pause_ns};
        }
    }
    return TIDE_OK;
}

static int by_arrays(const void *a, const void *b) {
    uint64_t x = ((const struct seen *)a)->arrays, y = ((const struct seen *)b)->arrays;
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

/* The middle collection of a group is a point, if the group has `least` collections. */
static tide_status add_middle(const tidei_study_runs *r, uint32_t level, double work, size_t least,
                              struct seen *points, size_t *npoints) {
    struct seen *all;
    size_t n;
    tide_status status = look_at(r, level, false, work, &all, &n);
    if (status == TIDE_OK && n >= least) points[(*npoints)++] = middle(all, n);
    tidei_host_free(NULL, all);
    return status;
}

/* Whether b looked at so many more arrays than a that what they add is more than noise. */
static bool apart(uint64_t a, uint64_t b) { return (double)b >= 1.25 * (double)a + 1; }

static void add_to_curve(tidei_lab_curve *c, struct seen x) {
    tidei_check(c->n < TIDEI_LAB_CURVE);
    c->at[c->n].arrays = x.arrays;
    c->at[c->n++].ns = (uint64_t)fmin(fmax(1, x.ns), (double)TIDEI_LAB_COST_MOST);
}

/* What a collection of fewer arrays than a takes, as a and b have it: half of a at least. */
static double before(const struct seen *a, const struct seen *b, uint64_t arrays) {
    double each = (b->ns - a->ns) / (double)(b->arrays - a->arrays),
           ns = a->ns - each * (double)(a->arrays - arrays);
    return fmax(fmin(a->ns, ns), a->ns / 2);
}

/* The groups' points by their arrays, without those that are hardly apart; returns how many. */
static size_t keep_apart(struct seen *points, size_t n) {
    size_t kept = 0;
    qsort(points, n, sizeof *points, by_arrays);
    for (size_t i = 0; i < n; i++)
        if (!kept || apart(points[kept - 1].arrays, points[i].arrays)) points[kept++] = points[i];
    return kept;
}

/* In `t` collections looked at few arrays and found hardly one dead: the curve's beginning, if
** other points lie beyond. They come one upon the other and find all in the caches, so that they
** take less than others of as few arrays, while the first two points lead to what they would take
** where nothing is in the caches: half way between both, where there are two. */
static tide_status learn_curve(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                               uint32_t level, double work, tidei_lab_curve *c) {
    const tidei_study_runs alone = {t, 1};
    struct seen points[TIDEI_LAB_CURVE], exact;
    size_t npoints = 0, nexact = 0;
    tide_status status = TIDE_OK;
    tidei_check(n < TIDEI_LAB_CURVE);
    for (size_t k = 0; status == TIDE_OK && k < n; k++)
        status = add_middle(&timed[k], level, work, ENOUGH, points, &npoints);
    if (status == TIDE_OK) status = add_middle(&alone, level, 0, 1, &exact, &nexact);
    if (status != TIDE_OK) return status;
    npoints = keep_apart(points, npoints);
    if (nexact && (!npoints || apart(exact.arrays, points[0].arrays))) {
        if (npoints > 1) exact.ns = (exact.ns + before(&points[0], &points[1], exact.arrays)) / 2;
        add_to_curve(c, exact);
    }
    for (size_t i = 0; i < npoints; i++) add_to_curve(c, points[i]);
    return TIDE_OK;
}

/* A pause in thousandths of what the program's curve says. */
static uint32_t part_of(const tidei_lab_program *p, uint32_t level, struct seen x) {
    bool full = level == TIDE_COLLECT_FULL;
    double ns = (double)tidei_lab_program_pause(p, &p->model, full, x.arrays);
    return (uint32_t)fmin(1000 * x.ns / fmax(1, ns) + 0.5, UINT32_MAX);
}

/* What the first collections of these runs take, the middle one; *learnt: there was any. */
static tide_status learn_first(const tidei_study_runs *r, uint32_t level, double work,
                               tidei_lab_program *p, bool *learnt) {
    struct seen *all;
    size_t n;
    tide_status status = look_at(r, level, true, work, &all, &n);
    *learnt = status == TIDE_OK && n;
    if (*learnt) p->first_part[level == TIDE_COLLECT_FULL] = part_of(p, level, middle(all, n));
    tidei_host_free(NULL, all);
    return status;
}

/* How the pauses of a group differ from the curve, but for the first of each run. */
static tide_status learn_spread(const tidei_study_runs *r, uint32_t level, double work,
                                tidei_lab_program *p) {
    struct seen *all;
    size_t n;
    tide_status status = look_at(r, level, false, work, &all, &n);
    if (status == TIDE_OK && n >= ENOUGH) {
        tidei_host_free(NULL, p->spread);
        p->nspread = 0;
        p->spread = tidei_host_alloc(NULL, n * sizeof *p->spread);
        if (!p->spread) status = tidei_fail_host_memory(OP, n * sizeof *p->spread);
        for (size_t i = 0; p->spread && i < n; i++)
            p->spread[p->nspread++] = part_of(p, level, all[i]);
    }
    tidei_host_free(NULL, all);
    return status;
}

static tide_status learn_level(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                               size_t of, uint32_t level, double work, tidei_lab_program *p) {
    tidei_lab_curve *c = &p->pauses[level == TIDE_COLLECT_FULL];
    tide_status status = learn_curve(t, timed, n, level, work, c);
    const tidei_study_runs alone = {t, 1};
    bool first = false;
    if (status != TIDE_OK || !c->n) return status;
    status = learn_spread(&timed[of], level, work, p);
    if (status == TIDE_OK) status = learn_first(&timed[of], level, work, p, &first);
    /* where these had room for all: that of the exact run */
    return status == TIDE_OK && !first ? learn_first(&alone, level, 0, p, &first) : status;
}

/* What a climb takes beyond its collections, in all the runs. */
static void learn_stall(const tidei_study_runs *timed, size_t n, double work, tidei_lab_model *m) {
    double climbs = 0, ns = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < timed[k].n; i++) {
            const tidei_trace *t = &timed[k].at[i];
            climbs += (double)t->run.climbs;
            ns += (double)t->run.climb_ns * work / work_ns(t);
        }
    if (climbs > 0) m->stall_ns = (uint64_t)fmin(ns / climbs, (double)TIDEI_LAB_COST_MOST);
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
        for (; k < t->nprices && t->prices[k].place <= i; k++)
            out[k] = (tidei_lab_told_price){k ? most : 0, t->prices[k].mib_ns};
    }
    for (; k < t->nprices; k++) out[k] = (tidei_lab_told_price){most, t->prices[k].mib_ns};
}

/* A run's prices, by what was backed, and how many of these are behind. */
struct told {
    tidei_lab_told_price *at;
    size_t n, behind;
};

/* What the run knew of the price when so much was backed; it had one from the beginning. */
static uint64_t price_at(struct told *x, uint64_t backed) {
    while (x->behind < x->n && x->at[x->behind].backed <= backed) x->behind++;
    return x->at[x->behind ? x->behind - 1 : 0].mib_ns;
}

/* The middle one of what these runs knew by then. */
static uint64_t middle_price(struct told *runs, size_t nruns, uint64_t backed, uint64_t *all) {
    size_t n = 0;
    for (size_t i = 0; i < nruns; i++)
        if (runs[i].n) all[n++] = price_at(&runs[i], backed);
    qsort(all, n, sizeof *all, by_size);
    return all[n / 2];
}

/* As the runs of one group found it out: wherever the one that was told most often knew more. */
static tide_status learn_prices(const tidei_study_runs *r, tidei_lab_program *p) {
    size_t all = 0, longest = 0, at = 0;
    for (size_t i = 0; i < r->n; i++) {
        all += r->at[i].nprices;
        if (r->at[i].nprices > r->at[longest].nprices) longest = i;
    }
    const size_t n = r->at[longest].nprices;
    if (!n) return TIDE_OK;
    struct told *runs = tidei_host_alloc(NULL, r->n * sizeof *runs);
    tidei_lab_told_price *prices = tidei_host_alloc(NULL, all * sizeof *prices);
    uint64_t *room = tidei_host_alloc(NULL, r->n * sizeof *room);
    p->prices = tidei_host_alloc(NULL, n * sizeof *p->prices);
    bool there = runs && prices && room && p->prices;
    for (size_t i = 0; there && i < r->n; i++) {
        runs[i] = (struct told){&prices[at], r->at[i].nprices, 0};
        place_prices(&r->at[i], runs[i].at);
        at += runs[i].n;
    }
    for (size_t k = 0; there && k < n; k++) {
        uint64_t backed = runs[longest].at[k].backed;
        p->prices[k] = (tidei_lab_told_price){backed, middle_price(runs, r->n, backed, room)};
    }
    if (there) {
        p->nprices = n;
        p->model.fresh_mib_ns = p->prices[n - 1].mib_ns;
    }
    tidei_host_free(NULL, runs);
    tidei_host_free(NULL, prices);
    tidei_host_free(NULL, room);
    return there ? TIDE_OK : tidei_fail_host_memory(OP, (all + n) * sizeof *prices);
}

tide_status tidei_study_learn(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                              size_t of, const tidei_trace *run, tidei_lab_program *p) {
    if (t->run.version >= 2) learn_costs(t, &p->model);
    if (!n) return TIDE_OK;
    const double work = work_ns(run);
    learn_stall(timed, n, work, &p->model);
    tide_status status = learn_prices(&timed[of], p);
    if (status == TIDE_OK) status = learn_level(t, timed, n, of, TIDE_COLLECT_MINOR, work, p);
    return status == TIDE_OK ? learn_level(t, timed, n, of, TIDE_COLLECT_FULL, work, p) : status;
}
