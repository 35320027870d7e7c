/* trace.h: a recorded sequence of allocations and frees, read from a file into an array of events.
**
** Two forms, told apart by their header line, each plain or gzip:
**   op,id,bytes,stream,time_us               op: a allocate, f free, s sync point; the others tell
**                                            more of the run (docs/traces.md)
**   Thread,Time,Action,Pointer,Size,Stream   RMM's log; Action: allocate, free,
**                                            allocate failure (skipped)
** The text is read piece by piece; what is held of a file is its events. A gzip file may hold a
** thousand times its size: so a trace of more than TIDEI_TRACE_EVENTS has a byte of the file for
** each of them, as every recording has, or is refused.
** Times are the program's own: while it collects or climbs it stands still. A moment that lies in
** such a stretch is its beginning.
** What must stay true of a trace that was read: blocks are numbered in the order of their
** allocation; a block is freed at most once, and after its allocation; what lives at one time is at
** most TIDEI_TRACE_LIVE_MAX bytes; a block is made, last used, unreachable and freed in this
** order. */
#ifndef TIDE_TRACE_H
#define TIDE_TRACE_H

#include "runtime/base/base.h"

/* 64 MiB; a recording's take 5 bytes of a gzip file */
#define TIDEI_TRACE_EVENTS   ((size_t)4 << 20)
#define TIDEI_TRACE_LIVE_MAX ((uint64_t)1 << 56) /* so that sums over 64 copies stay below 2^63 */

enum { TIDEI_EVENT_ALLOC, TIDEI_EVENT_FREE, TIDEI_EVENT_SYNC };
typedef struct tidei_event {
    uint64_t bytes; /* of the block; 0 for a sync point */
    uint32_t block; /* its number; 0 for a sync point */
    uint32_t op;    /* TIDEI_EVENT_* */
} tidei_event;

/* What a recording tells of a block beyond its rows a and f; times in ns. */
#define TIDEI_UNTOLD UINT64_MAX
typedef struct tidei_block_moments {
    uint64_t made, used, died; /* TIDEI_UNTOLD: there is no such row */
    bool found;                /* dead, by a collection */
} tidei_block_moments;

/* When an event happened. */
typedef struct tidei_trace_time {
    uint64_t ns;       /* of the program's own time; never falling */
    uint64_t stood_ns; /* so long the program had stood still by then */
    /* of a sync point: so long the host waited for the device there; TIDEI_UNTOLD: no row says so
    ** */
    uint64_t waited_ns;
} tidei_trace_time;

typedef struct tidei_trace_collection {
    uint64_t pause_ns, freed;    /* bytes */
    uint64_t arrays, heap;       /* that it looked at; bytes of the collector's own heap */
    uint64_t pending, queued_ns; /* submissions on the device, and how long they take */
    uint64_t dead;               /* blocks that were freed in it */
    size_t place;                /* among the events: before this one */
    uint32_t level;              /* TIDE_COLLECT_* */
    uint32_t forced;             /* 1: in a climb */
} tidei_trace_collection;

/* What a recording tells of its run; 0 where it does not. */
typedef struct tidei_trace_run {
    unsigned version;      /* of the form; 0: it has no row that says so */
    unsigned how;          /* deaths are known: TIDEI_DEATHS_*; as the version says */
    uint64_t exact, found; /* blocks with a row x, by its stream: as it happened; by a collection */
    uint64_t used;         /* blocks with a row u, and for how long they were held beyond that */
    uint64_t idle_us;
    uint64_t fresh_mib_ns, total; /* of the device: what a new MiB takes; bytes */
    double growth_ns;    /* what all that lived at once took as it was new, as far as prices tell */
    uint64_t page_bytes; /* of its pages; 0: not told */
    uint64_t climbs, climb_ns; /* outermost; what they took beyond their collections */
    uint64_t waits;            /* of the host for the device, as far as rows tell */
    uint64_t ns;               /* from the first row to the last, all stretches included */
} tidei_trace_run;

/* What a new MiB of the device was known to take from there on. */
typedef struct tidei_trace_price {
    size_t place; /* among the events: before this one */
    uint64_t mib_ns;
} tidei_trace_price;

typedef struct tidei_trace {
    tidei_event *events;
    size_t n;
    size_t blocks; /* allocations in it */
    tidei_trace_run run;
    /* for who asks for times, or else NULL: of each event; of each block; collections; prices */
    tidei_trace_time *times;
    tidei_block_moments *moments;
    tidei_trace_collection *collections;
    size_t ncollections;
    tidei_trace_price *prices;
    size_t nprices;
} tidei_trace;

/* A row as it stands in the file, of those too that are skipped; of RMM's log in our letters.
** Times do not fall. */
typedef struct tidei_trace_row {
    char op;
    uint64_t id, bytes, time_us;
} tidei_trace_row;

/* Reads `path`. A file that is no trace is TIDE_E_FORMAT, with "path:line: expected ..., found
** '...'"; one that cannot be opened or read TIDE_E_IO. Nothing is left behind on failure. */
tide_status tidei_trace_read(const char *path, tidei_trace *out);
/* The same, of at most so many events; 0: as many as above. */
tide_status tidei_trace_read_most(const char *path, uint64_t events, tidei_trace *out);
/* The same with times, moments and collections. */
tide_status tidei_trace_read_timed(const char *path, uint64_t events, tidei_trace *out);
/* The second, which tells each row too, as it comes. */
tide_status tidei_trace_read_rows(const char *path, uint64_t events,
                                  void (*told)(void *user, const tidei_trace_row *row), void *user,
                                  tidei_trace *out);
/* The first from an open file, which is closed; `name` stands for it in messages. */
tide_status tidei_trace_read_fd(int fd, const char *name, uint64_t events, tidei_trace *out);
void tidei_trace_clear(tidei_trace *t);

/* Divides all sizes by `by` > 0; what was not empty keeps at least one byte. */
void tidei_trace_scale(tidei_trace *t, uint64_t by);

#endif
