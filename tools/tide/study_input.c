/* study_input.c: workloads and traces as programs of the lab. */
#include "tools/tide/study_input.h"
#include "gc/lab/workloads.h"
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

tide_status tidei_study_convert(const tidei_trace *t, const char *name, tidei_lab_program *out) {
    tidei_lab_begin(out, name);
    for (size_t i = 0; i < t->n;) i = convert_stretch(t, i, out);
    tide_status status = tidei_lab_finish(out);
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
