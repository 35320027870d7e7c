/* trace.h: a recorded sequence of allocations and frees, read from a file into an array of events.
**
** Two forms, told apart by their header line, each plain or gzip:
**   op,id,bytes,stream,time_us               op: a allocate, f free, s sync point;
**                                            C c d R r W w: skipped
**   Thread,Time,Action,Pointer,Size,Stream   RMM's log; Action: allocate, free,
**                                            allocate failure (skipped)
** The text is read piece by piece; what is held of a file is its events. A gzip file may hold a
** thousand times its size: so a trace of more than TIDEI_TRACE_EVENTS has a byte of the file for
** each of them, as every recording has, or is refused.
** What must stay true of a trace that was read: blocks are numbered in the order of their
** allocation; a block is freed at most once, and after its allocation; what lives at one time is at
** most TIDEI_TRACE_LIVE_MAX bytes. */
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

typedef struct tidei_trace {
    tidei_event *events;
    /* of each event, in ns, without the collections and climbs that the recording tells of; never
    ** falling. NULL: nobody asked for times */
    uint64_t *times;
    size_t n;
    size_t blocks; /* allocations in it */
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
/* The same with times. */
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
