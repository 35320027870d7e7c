/* timeline.c: columns and marks; timeline.h has the model. */
#include "tools/tide/timeline.h"
#include "tools/tide/quote.h"
#include <inttypes.h>

#define OP    "tide"
#define NEVER UINT64_MAX
#define US    1000 /* ns */

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- columns ---- */

void tidei_timeline_begin(tidei_timeline *t) {
    *t = (tidei_timeline){
        .n = 1, .width_ns = 1, .first_us = NEVER, .climb_ns = NEVER, .collection_ns = NEVER};
}

static tidei_timeline_range join_ranges(tidei_timeline_range a, tidei_timeline_range b) {
    return (tidei_timeline_range){min_u64(a.low, b.low), max_u64(a.high, b.high)};
}

static tidei_timeline_column join_columns(const tidei_timeline_column *a,
                                          const tidei_timeline_column *b) {
    tidei_timeline_column c = {.live = join_ranges(a->live, b->live),
                               .held = join_ranges(a->held, b->held),
                               .backed = max_u64(a->backed, b->backed)};
    for (unsigned i = 0; i < TIDEI_MARKS; i++) c.marks[i] = a->marks[i] + b->marks[i];
    return c;
}

static void double_width(tidei_timeline *t) {
    for (size_t i = 0; i < t->n; i += 2) {
        const tidei_timeline_column *a = &t->columns[i];
        t->columns[i / 2] = join_columns(a, i + 1 < t->n ? a + 1 : a);
        if (i + 1 == t->n) memcpy(t->columns[i / 2].marks, a->marks, sizeof a->marks);
    }
    t->n = (t->n + 1) / 2;
    t->width_ns *= 2;
}

/* The column of that time; those up to it are as things stood before. */
static tidei_timeline_column *column_at(tidei_timeline *t, uint64_t at_ns) {
    t->last_ns = max_u64(t->last_ns, at_ns);
    while (t->last_ns / t->width_ns >= TIDEI_TIMELINE_COLUMNS) double_width(t);
    while (t->n <= t->last_ns / t->width_ns)
        t->columns[t->n++] = (tidei_timeline_column){
            .live = {t->live, t->live}, .held = {t->held, t->held}, .backed = t->backed};
    return &t->columns[t->n - 1];
}

void tidei_timeline_hold(tidei_timeline *t, uint64_t at_ns, uint64_t live, uint64_t held,
                         uint64_t backed) {
    tidei_timeline_column *c = column_at(t, at_ns);
    c->live = join_ranges(c->live, (tidei_timeline_range){live, live});
    c->held = join_ranges(c->held, (tidei_timeline_range){held, held});
    c->backed = max_u64(c->backed, backed);
    t->live = live;
    t->held = held;
    t->backed = backed;
    t->peak_held = max_u64(t->peak_held, held);
}

/* ---- marks ---- */

static bool more_marks(tidei_timeline *t) {
    size_t cap = t->cap ? 2 * t->cap : 256;
    tidei_timeline_mark *grown = tidei_host_take(NULL, cap * sizeof *grown);
    if (!grown) return false;
    if (t->nmarks) memcpy(grown, t->marks, t->nmarks * sizeof *grown);
    tidei_host_free(NULL, t->marks);
    t->marks = grown;
    t->cap = cap;
    return true;
}

void tidei_timeline_mark_it(tidei_timeline *t, tidei_timeline_mark m) {
    column_at(t, m.end_ns)->marks[m.kind]++;
    t->counts[m.kind]++;
    if (t->failed || (t->nmarks == t->cap && !more_marks(t)))
        t->failed = true;
    else
        t->marks[t->nmarks++] = m;
}

tide_status tidei_timeline_end(tidei_timeline *t, uint64_t at_ns) {
    (void)column_at(t, at_ns);
    return t->failed ? tidei_fail_host_memory(OP, 2 * t->cap * sizeof *t->marks) : TIDE_OK;
}

void tidei_timeline_clear(tidei_timeline *t) {
    tidei_host_free(NULL, t->marks);
    t->marks = NULL;
    t->nmarks = t->cap = 0;
}

/* ---- sinks ---- */

void tidei_timeline_note(void *timeline, const tidei_lab_note *n) {
    int kind = n->what == TIDEI_LAB_STALLED ? TIDEI_MARK_STALLED
               : n->early                   ? TIDEI_MARK_COLLECTED
                                            : TIDEI_MARK_FORCED;
    if (n->what == TIDEI_LAB_HELD)
        tidei_timeline_hold(timeline, n->at_ns, n->live, n->bytes, n->backed);
    else
        tidei_timeline_mark_it(
            timeline, (tidei_timeline_mark){n->at_ns, n->ns, n->bytes, kind, n->level, n->reason});
}

static void end_recorded(tidei_timeline *t, uint64_t *began_ns, uint64_t now, uint64_t bytes,
                         tidei_timeline_mark m) {
    if (*began_ns == NEVER) return; /* the file begins in the midst of it */
    m.end_ns = now;
    m.ns = now - min_u64(*began_ns, now);
    m.bytes = bytes;
    tidei_timeline_mark_it(t, m);
    *began_ns = NEVER;
}

static void end_collection(tidei_timeline *t, uint64_t now, uint64_t bytes) {
    bool forced = t->climb_ns != NEVER;
    end_recorded(t, &t->collection_ns, now, bytes,
                 (tidei_timeline_mark){.kind = forced ? TIDEI_MARK_FORCED : TIDEI_MARK_COLLECTED,
                                       .level = t->level,
                                       .reason = forced ? "a climb" : "as recorded"});
}

/* Since the first row. */
static uint64_t recorded_ns(tidei_timeline *t, uint64_t us) {
    if (t->first_us == NEVER) t->first_us = us;
    us -= t->first_us;
    return us <= UINT64_MAX / US ? us * US : UINT64_MAX;
}

/* An id of 0 is the climb itself; above it are its rungs. */
void tidei_timeline_row(void *timeline, const tidei_trace_row *row) {
    tidei_timeline *t = timeline;
    uint64_t now = recorded_ns(t, row->time_us);
    switch (row->op) {
    case 'a': tidei_timeline_hold(t, now, 0, t->held + row->bytes, 0); break;
    case 'f': tidei_timeline_hold(t, now, 0, t->held - min_u64(t->held, row->bytes), 0); break;
    case 'C':
        t->collection_ns = now;
        t->level = row->id == TIDE_COLLECT_MINOR ? TIDE_COLLECT_MINOR : TIDE_COLLECT_FULL;
        break;
    case 'c': end_collection(t, now, row->bytes); break;
    case 'R':
        if (!row->id) t->climb_ns = now;
        break;
    case 'r':
        if (!row->id)
            end_recorded(t, &t->climb_ns, now, row->bytes,
                         (tidei_timeline_mark){.kind = TIDEI_MARK_STALLED, .reason = "a climb"});
        break;
    default: break;
    }
}

/* ---- tables ---- */

void tidei_timeline_write_columns(const tidei_timeline *t, FILE *to) {
    fputs("time_ns\tlive_low\tlive_high\theld_low\theld_high\tbacked\tcollections\tforced\t"
          "stalls\n",
          to);
    for (size_t i = 0; i < t->n; i++) {
        const tidei_timeline_column *c = &t->columns[i];
        fprintf(to,
                "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\n",
                i * t->width_ns, c->live.low, c->live.high, c->held.low, c->held.high, c->backed,
                c->marks[TIDEI_MARK_COLLECTED], c->marks[TIDEI_MARK_FORCED],
                c->marks[TIDEI_MARK_STALLED]);
    }
}

void tidei_timeline_write_marks(const tidei_timeline *t, FILE *to) {
    static const char *const kinds[] = {[TIDEI_MARK_COLLECTED] = "collection",
                                        [TIDEI_MARK_FORCED] = "forced",
                                        [TIDEI_MARK_STALLED] = "stall"};
    static const char *const levels[] = {"-", "minor", "full"};
    fputs("begin_ns\tend_ns\twhat\tlevel\tfreed\treason\n", to);
    for (size_t i = 0; i < t->nmarks; i++) {
        const tidei_timeline_mark *m = &t->marks[i];
        fprintf(to, "%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%" PRIu64 "\t", m->end_ns - m->ns, m->end_ns,
                kinds[m->kind], levels[m->level], m->bytes);
        tidei_quote_field(to, m->reason);
        fputc('\n', to);
    }
}
