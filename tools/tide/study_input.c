/* study_input.c: workloads and traces as programs of the lab. */
#include "tools/tide/study_input.h"
#include "gc/lab/workloads.h"
#include "runtime/observe/recorder.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define OP          "tide study"
#define TOTAL_PEAKS 4 /* the peak is below 2^57 bytes */

/* A stretch of a trace between two sync points. */
struct stretch {
    uint64_t began_ns, host_ns, device_ns; /* the device's work, of which is queued so far: */
    uint64_t queued_ns;
};

/* A trace on its way to become a program. */
struct conversion {
    const tidei_trace *exact; /* as it was read */
    tidei_trace moved;        /* its events, each when it is to happen */
    tidei_lab_program *to;
    uint64_t ns, stood_ns; /* where the last stretch ended */
};

/* Whether the block needed no collector: the recording tells of deaths, and of none of this block,
** which was a workspace; or it was freed by hand in a program where collections find the others. */
static bool needs_nobody(const tidei_trace *t, uint32_t block) {
    if (!t->moments || !(t->run.exact || t->run.found)) return false;
    const tidei_block_moments *m = &t->moments[block];
    return m->died == TIDEI_UNTOLD || (!m->found && t->run.how != TIDEI_DEATHS_COUNTED);
}

static void play(const struct conversion *c, const tidei_event *e) {
    if (e->op == TIDEI_EVENT_ALLOC) tidei_lab_make(c->to, 0, TIDEI_LAB_DEVICE, e->bytes);
    if (e->op == TIDEI_EVENT_FREE)
        (needs_nobody(c->exact, e->block) ? tidei_lab_free : tidei_lab_die)(c->to, 0, e->block);
}

/* The host computes until `until_ns`; of the device's work as large a part is queued. */
static void compute(tidei_lab_program *p, struct stretch *s, uint64_t from_ns, uint64_t until_ns) {
    uint64_t done = until_ns - s->began_ns;
    unsigned __int128 all = s->device_ns;
    uint64_t queued = s->host_ns ? (uint64_t)(all * done / s->host_ns) : 0;
    tidei_lab_add(p, 0, TIDEI_LAB_WORK, queued - s->queued_ns);
    tidei_lab_add(p, 0, TIDEI_LAB_HOST, until_ns - from_ns);
    s->queued_ns = queued;
}

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* How long the host waits at the sync point `at`; the next event comes at `next_ns`. */
static uint64_t wait_at(const tidei_trace *t, size_t at, uint64_t next_ns) {
    if (t->times[at].waited_ns != TIDEI_UNTOLD) return t->times[at].waited_ns;
    return t->run.waits ? 0 : next_ns - t->times[at].ns;
}

/* What passes from where the last stretch ended to the sync point `end`, or to the last event. */
static struct stretch stretch_to(struct conversion *c, size_t end) {
    const tidei_trace *t = &c->moved;
    bool waits = end < t->n;
    tidei_trace_time at = t->times[waits ? end : t->n - 1],
                     next = t->times[end + 1 < t->n ? end + 1 : t->n - 1];
    uint64_t wait_ns = waits ? wait_at(t, end, next.ns) : 0, host_ns = at.ns - c->ns,
             stood_ns = next.stood_ns - c->stood_ns;
    struct stretch s = {c->ns, host_ns, host_ns + wait_ns + min_u64(stood_ns, wait_ns), 0};
    c->ns = end + 1 < t->n ? min_u64(at.ns + wait_ns, next.ns) : at.ns;
    c->stood_ns = next.stood_ns;
    return s;
}

/* The events from `i` to the next sync point; returns the one behind it. */
static size_t convert_stretch(struct conversion *c, size_t i) {
    const tidei_trace *t = &c->moved;
    size_t end = i;
    while (end < t->n && t->events[end].op != TIDEI_EVENT_SYNC) end++;
    struct stretch s = stretch_to(c, end);
    compute(c->to, &s, s.began_ns, t->times[i].ns);
    for (; i < end; i++) {
        play(c, &t->events[i]);
        compute(c->to, &s, t->times[i].ns, t->times[i + 1 < t->n ? i + 1 : i].ns);
    }
    if (!s.host_ns) tidei_lab_add(c->to, 0, TIDEI_LAB_WORK, s.device_ns);
    if (end < t->n) tidei_lab_add(c->to, 0, TIDEI_LAB_SYNC, 0);
    tidei_lab_add(c->to, 0, TIDEI_LAB_STEP, 0);
    return end + 1;
}

/* ---- deaths ---- */

/* An event, and when it is to happen. */
struct timed {
    uint64_t ns;
    size_t place; /* among the trace's */
};

static int by_time(const void *a, const void *b) {
    const struct timed *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns)
                          : (x->place > y->place) - (x->place < y->place);
}

/* When the event is to happen: a free, when its block became unreachable. */
static uint64_t moment_of(const tidei_trace *t, size_t i) {
    const tidei_event *e = &t->events[i];
    uint64_t died =
        e->op == TIDEI_EVENT_FREE && t->moments ? t->moments[e->block].died : TIDEI_UNTOLD;
    return min_u64(died, t->times[i].ns);
}

/* The trace with each free where its block died; the copy's events and times are the caller's. */
static tide_status free_at_death(const tidei_trace *t, tidei_trace *out) {
    struct timed *order = tidei_host_alloc(NULL, (t->n + 1) * sizeof *order);
    *out = (tidei_trace){.n = t->n, .blocks = t->blocks, .run.waits = t->run.waits};
    out->events = tidei_host_alloc(NULL, (t->n + 1) * sizeof *out->events);
    out->times = tidei_host_alloc(NULL, (t->n + 1) * sizeof *out->times);
    if (!order || !out->events || !out->times) {
        tidei_host_free(NULL, order);
        tidei_trace_clear(out);
        return tidei_fail_host_memory(OP, (t->n + 1) * sizeof *order);
    }
    for (size_t i = 0; i < t->n; i++) order[i] = (struct timed){moment_of(t, i), i};
    qsort(order, t->n, sizeof *order, by_time);
    uint64_t stood_ns = 0; /* an earlier death than its free came before what stood still since */
    for (size_t i = 0; i < t->n; i++) {
        const tidei_trace_time *was = &t->times[order[i].place];
        out->events[i] = t->events[order[i].place];
        if (out->events[i].op != TIDEI_EVENT_FREE) stood_ns = was->stood_ns;
        out->times[i] = (tidei_trace_time){order[i].ns, stood_ns, was->waited_ns};
    }
    tidei_host_free(NULL, order);
    return TIDE_OK;
}

/* ---- times of another run ---- */

static size_t next_anchor(const tidei_trace *t, size_t i) {
    while (i < t->n && t->events[i].op == TIDEI_EVENT_FREE) i++;
    return i;
}

/* Whether both make the same blocks and wait at the same places. */
static bool same_course(const tidei_trace *a, const tidei_trace *b) {
    size_t i = next_anchor(a, 0), k = next_anchor(b, 0);
    while (i < a->n && k < b->n && a->events[i].op == b->events[k].op &&
           a->events[i].bytes == b->events[k].bytes) {
        i = next_anchor(a, i + 1);
        k = next_anchor(b, k + 1);
    }
    return i == a->n && k == b->n;
}

/* The same part of the way from `from` to `to` as `at` is of that from `low` to `high`. */
static uint64_t between(uint64_t from, uint64_t to, uint64_t at, uint64_t low, uint64_t high) {
    uint64_t part = at > low ? min_u64(at, high) - low : 0;
    if (high <= low || to <= from) return from;
    return from + (uint64_t)((unsigned __int128)(to - from) * part / (high - low));
}

static uint64_t end_of_wait(const tidei_trace_time *x) {
    return x->waited_ns == TIDEI_UNTOLD ? x->ns : x->ns + x->waited_ns;
}

/* Gives the events of `t` the times of those of `from`, which has the same course. Deaths keep
** their place between two of these. */
static void retime(tidei_trace *t, const tidei_trace *from) {
    t->run.waits = from->run.waits;
    uint64_t old = t->times[0].ns, new = from->times[0].ns, stood = from->times[0].stood_ns;
    for (size_t i = 0, k = 0; i < t->n; i++, k++) {
        size_t end = next_anchor(t, i);
        k = next_anchor(from, k);
        bool more = end < t->n;
        tidei_trace_time was = t->times[more ? end : t->n - 1],
                         is = from->times[more ? k : from->n - 1];
        for (; i < end; i++)
            t->times[i] = (tidei_trace_time){between(new, is.ns, t->times[i].ns, old, was.ns),
                                             stood, TIDEI_UNTOLD};
        if (!more) return;
        t->times[end] = is;
        old = end_of_wait(&was);
        new = end_of_wait(&is);
        stood = is.stood_ns;
    }
}

/* That of the traces that took the median time. */
static const tidei_trace *median_run(const tidei_trace *timed, size_t n) {
    const tidei_trace *best = timed;
    for (size_t i = 0; i < n; i++) {
        size_t shorter = 0, equal = 0;
        for (size_t k = 0; k < n; k++) {
            shorter += timed[k].run.ns < timed[i].run.ns;
            equal += timed[k].run.ns == timed[i].run.ns;
        }
        if (shorter <= n / 2 && shorter + equal > n / 2) best = &timed[i];
    }
    return best;
}

/* The event of each making of the program's, in their order; as many as it has blocks. */
static tide_status list_makings(const tidei_lab_program *p, size_t **out) {
    size_t n = 0;
    *out = tidei_host_alloc(NULL, (p->blocks + (size_t)1) * sizeof **out);
    if (!*out) return tidei_fail_host_memory(OP, (p->blocks + (size_t)1) * sizeof **out);
    for (size_t i = 0; i < p->n; i++)
        if (p->events[i].op == TIDEI_LAB_MAKE) (*out)[n++] = i;
    return TIDE_OK;
}

/* What policies were told of queued work in that run, at the same makings of the program. */
static tide_status learn_told(const tidei_trace *run, tidei_lab_program *p) {
    size_t *event, made = 0, k = 0;
    tide_status status = list_makings(p, &event);
    if (status != TIDE_OK) return status;
    p->told = tidei_host_alloc(NULL, (run->ncollections + 1) * sizeof *p->told);
    for (size_t i = 0; p->told && i < run->ncollections; i++) {
        const tidei_trace_collection *c = &run->collections[i];
        for (; k < c->place; k++) made += run->events[k].op == TIDEI_EVENT_ALLOC;
        if (c->level == TIDE_COLLECT_FULL && made < p->blocks)
            p->told[p->ntold++] = (tidei_lab_told){event[made], c->queued_ns};
    }
    tidei_host_free(NULL, event);
    if (p->told) return TIDE_OK;
    return tidei_fail_host_memory(OP, (run->ncollections + 1) * sizeof *p->told);
}

/* ---- costs ---- */

#define FEW 8 /* collections that tell nothing of a cost for each array */

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

/* A collection of a recording: of how many arrays, and how long it took. */
struct seen {
    double arrays, ns;
};

/* Those of all n traces of one level; *out is the caller's. A climb asks for a minor collection
** first: where no collector offers one, there was none. */
static tide_status look_at(const tidei_trace *t, size_t n, uint32_t level, struct seen **out,
                           size_t *many) {
    size_t cap = 1;
    for (size_t i = 0; i < n; i++) cap += t[i].ncollections;
    *many = 0;
    *out = tidei_host_alloc(NULL, cap * sizeof **out);
    if (!*out) return tidei_fail_host_memory(OP, cap * sizeof **out);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < t[i].ncollections; k++) {
            const tidei_trace_collection *c = &t[i].collections[k];
            bool was_none = c->forced && c->level == TIDE_COLLECT_MINOR && !c->freed;
            if (c->level == level && !was_none)
                (*out)[(*many)++] = (struct seen){(double)c->arrays, (double)c->pause_ns};
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

/* How each of them differs from what the model says, as the program's spread. */
static tide_status learn_spread(const struct seen *all, size_t n, double ns, double each,
                                tidei_lab_program *p) {
    tidei_host_free(NULL, p->spread);
    p->nspread = 0;
    p->spread = tidei_host_alloc(NULL, n * sizeof *p->spread);
    if (!p->spread) return tidei_fail_host_memory(OP, n * sizeof *p->spread);
    for (size_t i = 0; i < n; i++)
        p->spread[i] = (uint32_t)fmin(1000 * all[i].ns / (ns + each * all[i].arrays), UINT32_MAX);
    p->nspread = (uint32_t)n;
    return TIDE_OK;
}

/* From two kinds of runs: in `t` collections looked at few arrays and found hardly one dead, in the
** others they found as many as there was room for. The middle ones of both tell what an array adds,
** and the others how much pauses vary. Nothing is learnt where those are few. */
static tide_status learn_from_both(const tidei_trace *t, const tidei_trace *timed, size_t n,
                                   uint32_t level, tidei_lab_program *p) {
    struct seen *few = NULL, *many = NULL;
    size_t nfew, nmany;
    tidei_lab_model *m = &p->model;
    bool full = level == TIDE_COLLECT_FULL;
    uint64_t *array_ps = full ? &m->full_array_ps : &m->minor_array_ps;
    tide_status status = look_at(t, 1, level, &few, &nfew);
    if (status == TIDE_OK) status = look_at(timed, n, level, &many, &nmany);
    if (status == TIDE_OK && nmany >= FEW) {
        struct seen b = middle(many, nmany), a = nfew ? middle(few, nfew) : b;
        double each = (double)*array_ps / 1000;
        if (b.arrays > 2 * a.arrays + 64 && b.ns > a.ns)
            each = (b.ns - a.ns) / (b.arrays - a.arrays);
        if (each * b.arrays > b.ns) each = b.ns / b.arrays;
        double ns = fmax(1, b.ns - each * b.arrays);
        *(full ? &m->full_ns : &m->minor_ns) = (uint64_t)ns;
        *array_ps = thousandths(each);
        status = learn_spread(many, nmany, ns, each, p);
    }
    tidei_host_free(NULL, few);
    tidei_host_free(NULL, many);
    return status;
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

/* What a climb takes beyond its collections. */
static void learn_stall(const tidei_trace *timed, size_t n, tidei_lab_model *m) {
    uint64_t climbs = 0, ns = 0;
    for (size_t i = 0; i < n; i++) {
        climbs += timed[i].run.climbs;
        ns += timed[i].run.climb_ns;
    }
    if (climbs) m->stall_ns = ns / climbs;
}

static tide_status learn(const tidei_trace *t, const tidei_trace *timed, size_t n,
                         tidei_lab_program *p) {
    tide_status status = TIDE_OK;
    if (t->run.version >= 2) learn_costs(t, &p->model);
    if (!n) return TIDE_OK;
    learn_stall(timed, n, &p->model);
    status = learn_from_both(t, timed, n, TIDE_COLLECT_MINOR, p);
    return status == TIDE_OK ? learn_from_both(t, timed, n, TIDE_COLLECT_FULL, p) : status;
}

/* Of a device that nobody told of: large enough for what was recorded on it. */
static void guess_total(tidei_lab_program *p) {
    uint64_t least = TOTAL_PEAKS * p->peak[TIDEI_LAB_DEVICE];
    if (p->model.total < least) p->model.total = least;
}

tide_status tidei_study_convert(const tidei_trace *t, const tidei_trace *timed, size_t n,
                                const char *name, tidei_lab_program *out, bool *same) {
    struct conversion c = {.exact = t, .to = out};
    const tidei_trace *run = n ? median_run(timed, n) : NULL;
    tidei_lab_begin(out, name);
    tide_status status = free_at_death(t, &c.moved);
    if (status != TIDE_OK) return status;
    *same = true;
    for (size_t i = 0; i < n; i++) *same &= same_course(&c.moved, &timed[i]);
    if (!*same) run = NULL;
    if (run) retime(&c.moved, run);
    c.ns = c.moved.times[0].ns;
    c.stood_ns = c.moved.times[0].stood_ns;
    for (size_t i = 0; i < c.moved.n;) i = convert_stretch(&c, i);
    tidei_trace_clear(&c.moved);
    status = learn(t, timed, n, out);
    if (status == TIDE_OK && run) status = learn_told(run, out);
    if (status == TIDE_OK) status = tidei_lab_finish(out);
    if (status == TIDE_OK && !t->run.total) guess_total(out);
    if (status != TIDE_OK) tidei_lab_clear(out);
    return status;
}

static tide_status load_trace(const char *path, tidei_lab_program *out) {
    tidei_trace t;
    tide_status status = tidei_trace_read_timed(path, 0, &t);
    if (status != TIDE_OK) return status;
    bool same;
    if (t.blocks)
        status = tidei_study_convert(&t, NULL, 0, path, out, &same);
    else
        status = tidei_fail(TIDE_E_INVALID, OP, "%s: nothing is allocated in it", path);
    tidei_trace_clear(&t);
    return status;
}

tide_status tidei_study_load(const char *name, tidei_lab_program *out) {
    const tidei_lab_workload *w = tidei_lab_workload_find(name);
    if (w) return tidei_lab_write(w, out);
    if (!strchr(name, '/') && !strchr(name, '.') && access(name, F_OK) != 0)
        return tidei_fail(
            TIDE_E_INVALID, OP,
            "there is neither a workload nor a file '%s'; tide study --help lists the "
            "workloads",
            name);
    return load_trace(name, out);
}
