/* study_input.c: workloads and traces as programs of the lab. */
#include "tools/tide/study_input.h"
#include "gc/lab/workloads.h"
#include <stdlib.h>
#include <unistd.h>

#define OP "tide study"

/* A stretch of a trace between two sync points. */
struct stretch {
    uint64_t began_ns, host_ns, wait_ns;
    uint64_t queued_ns; /* of the device's work so far */
};

static void play(tidei_lab_program *p, const tidei_event *e) {
    switch (e->op) {
    case TIDEI_EVENT_ALLOC: tidei_lab_make(p, 0, TIDEI_LAB_DEVICE, e->bytes); break;
    case TIDEI_EVENT_FREE: tidei_lab_die(p, 0, e->block); break;
    default: break;
    }
}

/* The host computes until `until_ns`; of the device's work as large a part is queued. */
static void compute(tidei_lab_program *p, struct stretch *s, uint64_t from_ns, uint64_t until_ns) {
    uint64_t done = until_ns - s->began_ns;
    unsigned __int128 all = s->host_ns + s->wait_ns;
    uint64_t queued = s->host_ns ? (uint64_t)(all * done / s->host_ns) : 0;
    tidei_lab_add(p, 0, TIDEI_LAB_WORK, queued - s->queued_ns);
    tidei_lab_add(p, 0, TIDEI_LAB_HOST, until_ns - from_ns);
    s->queued_ns = queued;
}

/* The events from `i` to the next sync point; returns the one behind it. */
static size_t convert_stretch(const tidei_trace *t, size_t i, tidei_lab_program *p) {
    size_t end = i;
    while (end < t->n && t->events[end].op != TIDEI_EVENT_SYNC) end++;
    bool waits = end < t->n;
    uint64_t from = t->times[i], at = t->times[waits ? end : t->n - 1],
             next = t->times[end + 1 < t->n ? end + 1 : t->n - 1];
    struct stretch s = {from, at - from, waits ? next - at : 0, 0};
    for (; i < end; i++) {
        play(p, &t->events[i]);
        compute(p, &s, t->times[i], t->times[i + 1 < t->n ? i + 1 : i]);
    }
    if (!s.host_ns) tidei_lab_add(p, 0, TIDEI_LAB_WORK, s.wait_ns);
    if (waits) tidei_lab_add(p, 0, TIDEI_LAB_SYNC, 0);
    tidei_lab_add(p, 0, TIDEI_LAB_STEP, 0);
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
    return died < t->times[i] ? died : t->times[i];
}

/* The trace with each free where its block died; the copy's events and times are the caller's. */
static tide_status free_at_death(const tidei_trace *t, tidei_trace *out) {
    struct timed *order = tidei_host_alloc(NULL, (t->n + 1) * sizeof *order);
    *out = (tidei_trace){.n = t->n, .blocks = t->blocks};
    out->events = tidei_host_alloc(NULL, (t->n + 1) * sizeof *out->events);
    out->times = tidei_host_alloc(NULL, (t->n + 1) * sizeof *out->times);
    if (!order || !out->events || !out->times) {
        tidei_host_free(NULL, order);
        tidei_trace_clear(out);
        return tidei_fail_host_memory(OP, (t->n + 1) * sizeof *order);
    }
    for (size_t i = 0; i < t->n; i++) order[i] = (struct timed){moment_of(t, i), i};
    qsort(order, t->n, sizeof *order, by_time);
    for (size_t i = 0; i < t->n; i++) {
        out->events[i] = t->events[order[i].place];
        out->times[i] = order[i].ns;
    }
    tidei_host_free(NULL, order);
    return TIDE_OK;
}

/* ---- costs ---- */

#define FEW 8 /* collections that tell nothing of a cost for each array */

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
    *array_ps = (uint64_t)(each * 1000);
    return true;
}

/* A recording's own costs in place of the usual ones. */
static void learn_costs(const tidei_trace *t, tidei_lab_model *m) {
    bool full = learn_pause(t, TIDE_COLLECT_FULL, &m->full_ns, &m->full_array_ps),
         minor = learn_pause(t, TIDE_COLLECT_MINOR, &m->minor_ns, &m->minor_array_ps);
    if (full || minor) m->spread_low = m->spread_high = 1000; /* its own means */
    m->fresh_mib_ns = t->run.fresh_mib_ns;
    if (t->run.total) m->total = t->run.total;
}

tide_status tidei_study_convert(const tidei_trace *t, const char *name, tidei_lab_program *out) {
    tidei_trace moved;
    tidei_lab_begin(out, name);
    tide_status status = free_at_death(t, &moved);
    if (status != TIDE_OK) return status;
    for (size_t i = 0; i < moved.n;) i = convert_stretch(&moved, i, out);
    tidei_trace_clear(&moved);
    if (t->run.version >= 2) learn_costs(t, &out->model);
    status = tidei_lab_finish(out);
    if (status != TIDE_OK) tidei_lab_clear(out);
    return status;
}

static tide_status load_trace(const char *path, tidei_lab_program *out) {
    tidei_trace t;
    tide_status status = tidei_trace_read_timed(path, 0, &t);
    if (status != TIDE_OK) return status;
    if (t.blocks)
        status = tidei_study_convert(&t, path, out);
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
