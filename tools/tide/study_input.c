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

/* Of a device that nobody told of: large enough for what was recorded on it. */
static void guess_total(tidei_lab_program *p) {
    uint64_t least = TOTAL_PEAKS * p->peak[TIDEI_LAB_DEVICE];
    if (p->model.total < least) p->model.total = least;
}

/* Whether all these runs took the course of the trace. */
static bool same_courses(const tidei_trace *t, const tidei_study_runs *timed, size_t n) {
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < timed[k].n; i++)
            if (!same_course(t, &timed[k].at[i])) return false;
    return true;
}

tide_status tidei_study_convert(const tidei_trace *t, const tidei_study_runs *timed, size_t n,
                                size_t of, const char *name, tidei_lab_program *out, bool *same) {
    struct conversion c = {.exact = t, .to = out};
    tidei_lab_begin(out, name);
    tide_status status = free_at_death(t, &c.moved);
    if (status != TIDE_OK) return status;
    *same = same_courses(&c.moved, timed, n);
    const tidei_trace *run = n && *same ? tidei_study_median(&timed[of]) : NULL;
    if (run) retime(&c.moved, run);
    c.ns = c.moved.times[0].ns;
    c.stood_ns = c.moved.times[0].stood_ns;
    for (size_t i = 0; i < c.moved.n;) i = convert_stretch(&c, i);
    tidei_trace_clear(&c.moved);
    status = tidei_study_learn(t, timed, n, of, run ? run : t, out);
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
        status = tidei_study_convert(&t, NULL, 0, 0, path, out, &same);
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
