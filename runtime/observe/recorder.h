/* recorder.h: what a runtime does, recorded in a file while it happens, and told to a tool that is
** attached.
**
** Model. Who does something adds an entry to its thread's ring, with a number that is the next one
** of all threads' and the ticks of a clock (clock.h), without a lock. A thread of the recorder's
** takes the entries from all rings by their numbers, makes them records and these text, and writes
** it: when a ring is half full, and once a second. A thread whose ring is full waits for it;
** threads that have no ring, and what goes with others (a span's names, what is backed when it
** changes), add under the lock. The text's form is a table (recorder_forms.c) and looks at records
** only. Spans (collections, climbs, rungs, waits) also become ranges of a tool (nvtx.h), at the
** moment itself, as do operations (TIDEI_OPERATION). docs/tracing.md says what the files hold.
** Order. Of two records one of which happened before the other, that one has the lower number,
** since numbers come from one word; so a block's allocation stands before its free, and that before
** its id's next use, whatever threads did them. Times only follow: one that is less than the one
** before it is raised.
** What must stay true: a runtime that records nothing pays one comparison a place; recording
** allocates nothing after open; a file that cannot be written ends the recording and nothing else;
** a fork's child records nothing; the spans of a thread nest; who has taken a number publishes its
** entry without waiting for anything. The recorder's lock is the innermost of all: nothing is
** called under it. The writer takes no other. */
#ifndef TIDEI_RECORDER_H
#define TIDEI_RECORDER_H

#include "runtime/base/instance.h"
#include "runtime/base/base.h"
#include "runtime/base/limits.h"

typedef struct tidei_recorder tidei_recorder;

/* What lasts, on the thread that does it. */
typedef enum {
    TIDEI_SPAN_COLLECTION,
    TIDEI_SPAN_CLIMB,
    TIDEI_SPAN_RUNG,
    TIDEI_SPAN_WAIT
} tidei_span_kind;
typedef struct tidei_span {
    tidei_span_kind kind;
    /* the collection's level (TIDE_COLLECT_*), the rung's place from 1 on; a wait's stream */
    unsigned number;
    const char *name; /* static: "full collection", the rung's */
    const char *why;  /* static or NULL */
} tidei_span;

/* Opens what the settings want; `device` is what the recording says that the runtime works on,
** `backed` the count of the devices' memory that it has. A file that cannot be opened is a warning
** where the environment named it, and TIDE_E_IO where tide_config did. */
tide_status tidei_recorder_open(tidei_runtime *rt, const char *device,
                                const _Atomic size_t *backed);
/* writes the rest; with no other thread inside the runtime */
void tidei_recorder_close(tidei_runtime *rt);

/* On the calling thread, around what lasts; `bytes` are what is wanted, and what it gave. Under no
** lock. */
void tidei_span_begin(tidei_runtime *rt, const tidei_span *span, size_t bytes);
void tidei_span_end(tidei_runtime *rt, const tidei_span *span, size_t bytes);

/* The long ways of what stands below struct tidei_runtime: there is a recorder. A block goes by a
** number that no other has while it lives, a stream by its slot. Alloc and sync, under no lock, say
** that the recording ended, if it did; the others do not, and may be called under any lock. */
#define TIDEI_ASIDE __attribute__((noinline)) /* out of the way of those who record nothing */
TIDEI_ASIDE void tidei_recorder_alloc(tidei_recorder *r, uint64_t id, size_t bytes,
                                      unsigned stream);
/* before another block can have the number; `stream` is one that used it last */
TIDEI_ASIDE void tidei_recorder_free(tidei_recorder *r, uint64_t id, size_t bytes, unsigned stream);
/* What was recorded as freed has a block again (spill.h): an alloc. */
TIDEI_ASIDE void tidei_recorder_return(tidei_recorder *r, uint64_t id, size_t bytes,
                                       unsigned stream);
/* Before the free of a block that ends: when it was last used, and when it became unreachable, on
** the system's clock; 0: never, or nobody knows. `found`: a collection found that it had. */
TIDEI_ASIDE void tidei_recorder_ends(tidei_recorder *r, uint64_t id, uint64_t used_ns,
                                     uint64_t died_ns, bool found, unsigned stream);
/* Where the form has a use for it: how deaths are known (TIDEI_DEATHS_*), once; what memory costs,
** of the first device, where that is not what it was told last (of two threads that say so at once
** the older price may come last), and in which pages it comes; and as a collection begins, what is
** queued on a device, and what the collector looks at. */
void tidei_recorder_deaths(tidei_recorder *r, unsigned how);
void tidei_recorder_growth(tidei_recorder *r, uint64_t mib_ns, uint64_t total);
void tidei_recorder_pages(tidei_recorder *r, unsigned device, uint64_t page_bytes);
void tidei_recorder_queue(tidei_recorder *r, unsigned device, uint64_t pending, uint64_t ns);
void tidei_recorder_heap(tidei_recorder *r, uint64_t arrays, uint64_t bytes);
enum {
    TIDEI_DEATHS_FOUND,   /* by collections, whenever they run */
    TIDEI_DEATHS_COUNTED, /* as they happen, by reference counts */
    TIDEI_DEATHS_AT_ONCE  /* by collections, at each moment at which the policy is asked */
};
void tidei_recorder_sync(tidei_recorder *r, unsigned stream);
void tidei_recorder_follow(tidei_recorder *r, unsigned stream, unsigned from);
/* ticks; 0: submissions are not recorded */
uint64_t tidei_recorder_moment(const tidei_recorder *r);
TIDEI_ASIDE void tidei_recorder_submit(tidei_recorder *r, unsigned stream, uint64_t began,
                                       const char *op);

/* ---- between the recorder and its forms ---- */

typedef enum {
    TIDEI_RECORD_ALLOC, /* a: id, b: bytes */
    TIDEI_RECORD_FREE,  /* the same; `stream` is one that used it last */
    /* the host is about to wait for the stream, where the program has it wait */
    TIDEI_RECORD_SYNC,
    TIDEI_RECORD_BEGIN,  /* of a span; a: number, b: bytes, `why` */
    TIDEI_RECORD_END,    /* the same */
    TIDEI_RECORD_FOLLOW, /* a: the other stream */
    TIDEI_RECORD_SUBMIT, /* a: when it began, `name` the operation */
    /* of a form that wants moments; a, b, `stream` as the file has them, b of the two in ns */
    TIDEI_RECORD_USED,
    TIDEI_RECORD_DIED,
    TIDEI_RECORD_DEATHS,
    TIDEI_RECORD_GROWTH,
    TIDEI_RECORD_PAGES,
    TIDEI_RECORD_QUEUE,
    TIDEI_RECORD_HEAP,
    TIDEI_RECORD_KINDS
} tidei_record_kind;

typedef struct tidei_record {
    uint64_t ns; /* since the recording began; its end for what lasted */
    uint64_t a, b;
    const char *name, *why;
    uint64_t backed; /* bytes, then; for forms that have a use for it */
    uint32_t thread; /* the system's number */
    uint16_t stream; /* its slot */
    uint8_t kind, span;
} tidei_record;

#define TIDEI_CSV_VERSION   3    /* of the rows: docs/traces.md */
#define TIDEI_ROW_BYTES     1024 /* room for the text of a record, whatever its names are */
#define TIDEI_THREADS_NAMED 256  /* tracks of more threads have a number only */

/* What a form knows of what it wrote before. */
typedef struct tidei_rows {
    char *at; /* where text is added; there is room for a row */
    bool any; /* a row was written */
    uint64_t live, backed;
    uint64_t streams_named[TIDEI_STREAMS_MAX / 64];
    uint32_t threads_named[TIDEI_THREADS_NAMED];
    unsigned threads;
    const char *device;
} tidei_rows;

/* Slots add text at x->at; they see one recording's records in their order, on its writer. */
typedef struct tidei_form {
    const char *suffix; /* of the files that have it */
    const char *begins; /* what each of its files begins with */
    bool submissions;   /* it has a use for these */
    bool backed;        /* for what is backed */
    bool moments;       /* and for blocks' last uses and deaths, for queues and heaps */
    void (*head)(tidei_rows *x);
    void (*row)(tidei_rows *x, const tidei_record *r);
    void (*foot)(tidei_rows *x);
} tidei_form;
/* By the file's name; NULL: none has its suffix, or there is nothing before it. */
const tidei_form *tidei_form_of(const char *path);

#endif
