/* timeline.h: what memory was held over time, thinned out for a picture, and what happened then.
**
** Model. Time is cut into columns of one width. A column keeps the least and the most of each
** figure while it lasted, so that no peak is lost. The width begins at 1 ns; where the columns do
** not suffice, neighbours become one and the width doubles. So a timeline takes the same memory
** however long it is, and depends on what it was told alone: not on when it was known how long it
** would be. Collections and stalls are kept each, and counted by column too.
** What must stay true: times that it is told do not fall (one that does counts as the latest). */
#ifndef TIDE_TIMELINE_H
#define TIDE_TIMELINE_H

#include "gc/lab/simulate.h"
#include "tools/tide/trace.h"
#include <stdio.h>

#define TIDEI_TIMELINE_COLUMNS 1024 /* as many as a picture is wide, in pixels */

/* What happened, of columns and marks. */
enum { TIDEI_MARK_COLLECTED, TIDEI_MARK_FORCED, TIDEI_MARK_STALLED, TIDEI_MARKS };

typedef struct tidei_timeline_range {
    uint64_t low, high;
} tidei_timeline_range;

typedef struct tidei_timeline_column {
    tidei_timeline_range live, held;
    uint64_t backed; /* the most */
    uint32_t marks[TIDEI_MARKS];
} tidei_timeline_column;

typedef struct tidei_timeline_mark {
    uint64_t end_ns, ns, bytes; /* what it took, up to its end, and freed */
    int kind, level;            /* TIDEI_MARK_*; 1 minor, 2 full, 0: no collection */
    const char *reason;         /* static text */
} tidei_timeline_mark;

typedef struct tidei_timeline {
    tidei_timeline_column columns[TIDEI_TIMELINE_COLUMNS];
    size_t n;                    /* columns, the last of which may go on */
    uint64_t width_ns, last_ns;  /* last: that it was told of */
    uint64_t live, held, backed; /* now */
    uint64_t peak_held;
    tidei_timeline_mark *marks;
    size_t nmarks, cap;
    size_t counts[TIDEI_MARKS];
    bool failed; /* host memory is exhausted: marks are missing */
    /* of a recording */
    uint64_t first_us; /* the first row's time, from which all are counted; UINT64_MAX: none yet */
    uint64_t climb_ns, collection_ns; /* when it began; UINT64_MAX: there is none just now */
    int level;
} tidei_timeline;

void tidei_timeline_begin(tidei_timeline *t);
/* So much is held from now on. */
void tidei_timeline_hold(tidei_timeline *t, uint64_t at_ns, uint64_t live, uint64_t held,
                         uint64_t backed);
void tidei_timeline_mark_it(tidei_timeline *t, tidei_timeline_mark m);
/* It lasted until then, at least. TIDE_E_HOST_NOMEM: marks are missing. */
tide_status tidei_timeline_end(tidei_timeline *t, uint64_t at_ns);
void tidei_timeline_clear(tidei_timeline *t);

/* Sinks: of a run in the lab (tidei_lab_options.note), and of a recording's rows, where nobody
** knows what lives. */
void tidei_timeline_note(void *timeline, const tidei_lab_note *n);
void tidei_timeline_row(void *timeline, const tidei_trace_row *row);

/* The columns, and the marks, as tables with a head, fields between tabs. */
void tidei_timeline_write_columns(const tidei_timeline *t, FILE *to);
void tidei_timeline_write_marks(const tidei_timeline *t, FILE *to);

#endif
