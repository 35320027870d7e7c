/* host.h: the host device's own structs, and what its files share.
**
**   host.c     the table: opening, streams, events, work
**   queue.c    a stream's command queue and the worker thread that empties it
**   team.c     the threads that help the workers with large operations
**   memory.c   reservations, pages, the ceiling
**   mempool.c  pools in stream order, as a driver offers them
**   graph.c    graphs: lists of launches
**   check.c    the checker of the order of accesses
**   state.c    what all parts ask: lost, forked, and findings of the checker that wait to be logged
**   machine.c  what this process may use of the machine
**
** What must stay true. ThreadSanitizer sees only those orders between threads that the program
** asked for: a submission orders its command after the submitter; an event's wait orders one worker
** after another up to the record; a completion word, a sync or a long copy from the host orders the
** host after a worker. The queue's own bookkeeping must order nothing else, neither a submitter
** after a worker nor an earlier command after a later submission, or it would hide a wait that is
** missing.
** Locks, in the order in which they are taken: an event's or the pools', a stream's, the checker's
** or the findings'; under the memory's and the list of streams' no other is taken. Workers take
** none of them, and call only kernels. */
#ifndef TIDEI_HOST_H
#define TIDEI_HOST_H

#include "runtime/device/device.h"
#include <limits.h>

#if defined(__SANITIZE_THREAD__)
#define TIDEI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIDEI_TSAN 1
#endif
#endif
#ifndef TIDEI_TSAN
#define TIDEI_TSAN 0
#endif

typedef struct tidei_host tidei_host;

/* ---- bells: a counter that threads wait for (queue.c) ---- */

/* Counts in units of TIDEI_BELL_ONE; the bits below say whether a thread listens, and what has
** ended. One word, so that a ring and the decision to sleep cannot miss each other and neither
** orders the ringer after the sleeper. */
enum {
    TIDEI_BELL_WAITING = 1,
    TIDEI_BELL_LOST = 2,
    TIDEI_BELL_STOP = 4,
    TIDEI_BELL_BITS = 7,
    TIDEI_BELL_ONE = 8
};
typedef struct tidei_bell {
    _Atomic uint64_t word;
    /* this bell tells ThreadSanitizer of no order, since a late listener would be ordered after
    ** later rings too; something finer does */
    bool coarse;
} tidei_bell;
static inline uint64_t tidei_bell_count(uint64_t word) { return word / TIDEI_BELL_ONE; }
void tidei_bell_ring(tidei_bell *b);                  /* count + 1 */
void tidei_bell_signal(tidei_bell *b, uint64_t bits); /* LOST, STOP */
/* Returns the word once its count has reached `count` or one of `bits` is set. */
uint64_t tidei_bell_wait(tidei_bell *b, uint64_t count, uint64_t bits);
/* How often a thread looks before it goes to sleep. */
int tidei_host_spins(void);

/* ---- teams (team.c) ---- */

typedef struct tidei_team tidei_team;
/* A team of so many threads, leader included; NULL: host memory is exhausted. */
tidei_team *tidei_team_open(tidei_runtime *rt, unsigned threads);
/* Nobody shares work any more; t may be NULL. */
void tidei_team_close(tidei_team *t, bool forked);
/* From now on this thread shares its work with the team (NULL: with nobody). */
void tidei_team_serve(tidei_team *t);

/* ---- the checker (check.c) ---- */

typedef struct tidei_checker tidei_checker;
/* what a stream knows of the others: shared, never written while shared */
typedef struct tidei_row tidei_row;

/* A moment of a stream: its own clock, and what it was ordered after then. */
typedef struct tidei_moment {
    unsigned stream;
    uint64_t clock;
    tidei_row *row; /* one reference */
} tidei_moment;

typedef struct tidei_finding {
    /* valid until the checker closes; op NULL: memory was given back */
    const char *op, *earlier_op;
    unsigned stream, earlier_stream;
    unsigned mode, earlier_mode; /* TIDEI_READ, TIDEI_WRITE */
    tidei_addr addr;             /* of the operation's range */
    size_t bytes;
} tidei_finding;
/* instead of a stream's number: the program itself, between tide_host_view_begin and
** tide_host_view_end */
#define TIDEI_BY_HOST UINT_MAX
void tidei_finding_log(tidei_runtime *rt, const char *device, const tidei_finding *r);

#define TIDEI_FINDINGS_MAX 64 /* lines kept until `speak` logs them; more are only counted */

/* Every function locks by itself. One that returns false found host memory exhausted; an operation
** may be remembered in part then. */
tidei_checker *tidei_checker_open(tidei_runtime *rt);
void tidei_checker_close(tidei_checker *c);
uint64_t tidei_checker_reports(tidei_checker *c);
bool tidei_checker_stream_new(tidei_checker *c, unsigned stream);
/* called when its work is complete and the host knows that */
void tidei_checker_stream_release(tidei_checker *c, unsigned stream);
/* Enters an operation of the stream. Writes what it found to reports[TIDEI_FINDINGS_MAX], their
** number to *n. */
bool tidei_checker_use(tidei_checker *c, unsigned stream, const char *op, const tidei_range *ranges,
                       unsigned nranges, tidei_finding *reports, unsigned *n);
/* The host is about to use the range itself. If it does not know that an earlier use there is past,
** *r is that use and *n is 1. From here to `unlend` an operation that conflicts is reported too. */
bool tidei_checker_lend(tidei_checker *c, const char *op, const tidei_range *range,
                        tidei_finding *r, unsigned *n);
void tidei_checker_unlend(tidei_checker *c, const tidei_range *range);
void tidei_checker_moment(tidei_checker *c, unsigned stream,
                          tidei_moment *out); /* the moment after all that was submitted so far */
void tidei_checker_moment_drop(tidei_checker *c, tidei_moment *m);
/* the stream waits for the moment */
bool tidei_checker_wait(tidei_checker *c, unsigned stream, const tidei_moment *m);
/* the host knows that the moment is past; drops m */
void tidei_checker_known(tidei_checker *c, tidei_moment *m);
/* `tick` will be the completion word's value once everything submitted so far is complete; it is
** `done` now. */
bool tidei_checker_publish(tidei_checker *c, unsigned stream, uint64_t tick, uint64_t done);
/* the host read that value */
void tidei_checker_completed(tidei_checker *c, unsigned stream, uint64_t done);
/* The range was given back. True, with *r filled, if there is a use there that the host did not
** know to be past; r NULL: nothing is reported. */
bool tidei_checker_forget(tidei_checker *c, tidei_addr addr, size_t bytes, tidei_finding *r);
bool tidei_checker_valid(tidei_checker *c); /* the map's order and heap properties; for tests */

/* ---- streams (queue.c) ---- */

struct tidei_chunk;
#define TIDEI_CACHE_LINE 64
#define TIDEI_MARKS      (TIDEI_TSAN ? 64 : 1)
#define TIDEI_WAITED     8 /* other streams that a stream remembers its last wait for */

/* Lives until the device closes: a released stream's struct is used again, and its count of records
** goes on rising, so an event that names (stream, record) stays meaningful. */
struct tidei_dstream {
    tidei_host *host;
    tidei_dstream *next; /* in host->streams, oldest first */
    unsigned id;
    bool open; /* under host->streams_lock */
    pthread_t worker;
    tidei_team *team; /* the group's; under ThreadSanitizer its own */
    /* submitters, under lock */
    pthread_mutex_t lock;
    struct tidei_chunk *tail, *oldest; /* being filled; the first one not taken back yet */
    size_t tail_at;
    uint64_t chunks_taken;
    uint64_t submitted, records;
    uint64_t recorded_at; /* `submitted` after the last record */
    struct tidei_waited {
        tidei_dstream *of; /* NULL: none */
        uint64_t record;
    } waited[TIDEI_WAITED];
    unsigned oldest_wait; /* the wait to be forgotten next, modulo TIDEI_WAITED */
    char pad0[TIDEI_CACHE_LINE];
    /* the worker's own */
    struct tidei_chunk *run;
    size_t run_at;
    char pad1[TIDEI_CACHE_LINE];
    /* shared */
    tidei_bell work;     /* commands submitted; STOP, LOST */
    tidei_bell recorded; /* records passed; LOST. tidei_hqueue_await waits */
    tidei_bell gone;     /* 1: the worker has run its last command */
    /* Under ThreadSanitizer: a word for each of the last records, so that each makes an order of
    ** its own. */
    _Atomic uint64_t marks[TIDEI_MARKS];
    _Atomic uint64_t chunks_left; /* chunks that the worker is through with */
    _Atomic uint64_t word;        /* the completion word */
    _Atomic bool copying;         /* the worker is in a copy, which may touch the host's memory */
};

/* A graph is a list of launches, which a launch of it copies into one command. */
typedef struct tidei_host_node {
    tidei_launch l; /* its parameters are the node's, without addresses */
    const size_t *at;
    const tidei_graph_range *ranges;
} tidei_host_node;
struct tidei_dgraph {
    tidei_host_node **nodes;
    unsigned n, room;
    size_t bytes; /* of a command's payload */
};

/* A copy from the host up to this size travels in the command; a larger one is waited for. */
#define TIDEI_STAGED_MAX (64 * TIDEI_KIB)

/* Starts the worker; false with the error set. */
tide_status tidei_hqueue_open(tidei_dstream *s);
/* Lets the worker finish what is queued (nothing, once lost) and ends it. In a forked child, where
** it does not exist, only memory is returned. */
void tidei_hqueue_close(tidei_dstream *s, bool forked);
/* All of these: under s->lock; false: host memory is exhausted and nothing was queued. */
bool tidei_hqueue_launch(tidei_dstream *s, const tidei_launch *l);
bool tidei_hqueue_copy(tidei_dstream *s, void *dst, const void *src, size_t bytes, bool staged);
bool tidei_hqueue_copy_many(tidei_dstream *s, const tidei_piece *pieces, size_t n);
bool tidei_hqueue_fill(tidei_dstream *s, void *dst, const void *pattern, size_t width,
                       size_t count);
/* The payload has room for what tidei_host_node_bytes says of all nodes. */
bool tidei_hqueue_graph(tidei_dstream *s, const tidei_dgraph *g, const tidei_addr *slots,
                        const tidei_graph_params *params, unsigned n);
size_t tidei_host_node_bytes(const tidei_launch *l);
bool tidei_hqueue_publish(tidei_dstream *s, uint64_t tick);
bool tidei_hqueue_wait(tidei_dstream *s, tidei_dstream *of, uint64_t record);
/* a record after all that was queued so far */
bool tidei_hqueue_record(tidei_dstream *s, uint64_t *record);
/* Returns once the record has passed or the device is lost; without any lock. */
void tidei_hqueue_await(tidei_dstream *s, uint64_t record);
/* Whether the record has passed; if so, what comes after this call is ordered after it. */
bool tidei_hqueue_passed(tidei_dstream *s, uint64_t record);

/* ---- the device ---- */

struct tidei_devent {
    pthread_mutex_t lock;
    tidei_dstream *stream; /* of the last record; NULL: none yet */
    uint64_t record;
    tidei_moment moment; /* with the checker: row is NULL before the first record */
};

struct tidei_dpage {
    size_t bytes;
    tidei_addr at;   /* where its bytes are; 0: nowhere yet, they read as zero */
    tidei_addr goal; /* during a map: where it goes; else 0 */
    bool mapped;
    bool exiled;               /* `at` is a mapping of its own, outside the reservations */
    tidei_dpage *next, **prev; /* unmapped ones that have bytes, under memory_lock */
};

/* What the host devices of a runtime share, so that the checker sees the work of all, and that
** there are no more threads than processors. */
typedef struct tidei_host_group {
    _Atomic unsigned devices, streams; /* open; made so far, which names them */
    tidei_checker *checker;            /* NULL: off */
    unsigned threads;                  /* of a team */
    tidei_team *team;
} tidei_host_group;

/* Addresses that the system refused to take back. */
typedef struct tidei_kept {
    struct tidei_kept *next;
    tidei_addr at;
    size_t bytes;
    bool in_use; /* a page's bytes are in there, which are gone once the device closes */
} tidei_kept;

struct tidei_host {
    tidei_device base;
    tidei_runtime *rt;
    tidei_host_group *group;
    tidei_checker *checker; /* the group's */
    pid_t pid;              /* of the process that opened it */
    _Atomic uint64_t fault[TIDEI_FAULT_WORDS];
    _Atomic size_t used; /* bytes of pages and raw device memory */
    pthread_mutex_t memory_lock;
    tidei_dpage *parked;       /* unmapped pages that have bytes */
    tidei_kept *kept;          /* tried again when others go back, and as the device closes */
    _Atomic bool move_by_copy; /* the kernel lacks MREMAP_DONTUNMAP; tests set it */
    _Atomic double fresh_ns;   /* that a byte's first touch has taken of late */
    pthread_mutex_t mempools_lock;
    tidei_dmempool *mempools; /* and all that is in them */
    pthread_mutex_t streams_lock;
    tidei_dstream *streams;
    pthread_mutex_t findings_lock;
    atomic_bool found; /* there are findings; written under the lock */
    unsigned nfindings;
    tidei_finding findings[TIDEI_FINDINGS_MAX]; /* of the checker, not logged yet */
    char why[256];                              /* written once, before `lost` */
};

/* Enters an operation in the checker, where there is one; under s->lock. TIDE_E_HOST_NOMEM by
** `slot`. */
tide_status tidei_host_check(tidei_dstream *s, const char *slot, const char *op,
                             const tidei_range *ranges, unsigned n);

/* ---- graphs (graph.c): slots of the table ---- */

tide_status tidei_host_graph_new(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                                 tidei_dgraph **out);
tide_status tidei_host_graph_add(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                                 const size_t *at, const tidei_graph_range *ranges);
tide_status tidei_host_graph_finish(tidei_device *d, tidei_dgraph *g);
tide_status tidei_host_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                    const tidei_addr *slots, const tidei_graph_params *params,
                                    unsigned n);
void tidei_host_graph_release(tidei_device *d, tidei_dgraph *g);

/* ---- its state, for all its parts (state.c) ---- */

bool tidei_host_forked(const tidei_host *h);
tide_status tidei_host_lost(tidei_host *h, const char *op);
static inline bool tidei_host_is_lost(const tidei_host *h) {
    return tidei_unlikely(atomic_load_explicit(&h->base.lost, memory_order_acquire));
}
/* On a lost device: waits until no worker runs any more, so that memory can go. */
void tidei_host_settle(tidei_host *h);
/* The range was given back: the checker forgets it, and reports it if it may still be in use. */
void tidei_host_forget(tidei_host *h, tidei_addr addr, size_t bytes);
/* Notes what the checker has found, until somebody can log it. */
void tidei_host_keep_findings(tidei_host *h, const tidei_finding *r, unsigned n);

/* ---- memory (memory.c): slots of the table ---- */

tide_status tidei_host_reserve(tidei_device *d, size_t bytes, tidei_addr *out);
void tidei_host_unreserve(tidei_device *d, tidei_addr addr, size_t bytes);
tide_status tidei_host_page_new(tidei_device *d, size_t bytes, tidei_dpage **out);
void tidei_host_page_release(tidei_device *d, tidei_dpage *p);
tide_status tidei_host_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
tide_status tidei_host_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
tide_status tidei_host_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                 tidei_addr *out);
void tidei_host_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes);
tide_status tidei_host_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes);
/* all pages are released, all reservations gone; logs */
void tidei_host_memory_close(tidei_host *h);

/* ---- pools in stream order (mempool.c): slots of the table, and what the others tell it
** ---- */

tide_status tidei_host_mempool_new(tidei_device *d, tidei_dmempool **out);
void tidei_host_mempool_release(tidei_device *d, tidei_dmempool *mp);
tide_status tidei_host_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                     size_t bytes, tidei_addr *out);
tide_status tidei_host_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                    tidei_addr addr);
tide_status tidei_host_mempool_set(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                                   uint64_t value);
tide_status tidei_host_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep);
tide_status tidei_host_mempool_figures(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                       size_t *used);
/* s waits for a record of the stream `of`; under s->lock. */
void tidei_host_note_wait(tidei_dstream *s, tidei_dstream *of, uint64_t record);
/* The host has waited for a stream; no lock held. */
void tidei_host_mempools_synced(tidei_host *h);

/* ---- the machine (machine.c) ---- */

size_t tidei_host_physical_memory(void);
/* The memory limit that control groups set on this process, as /proc/self/cgroup (`self`) and the
** hierarchy's mount point say; SIZE_MAX if there is none. */
size_t tidei_host_cgroup_limit(const char *self, const char *mount);
/* Likewise how many processors' time they grant it. */
size_t tidei_host_cgroup_processors(const char *self, const char *mount);
size_t tidei_host_processors(void); /* that this process may use, >= 1 */

#define TIDEI_HOST_ALIGN                                                                           \
    256 /* bytes; of blocks: as cuda's, so that code tested here meets the same addresses there */

#endif
