/* queue.c: a host stream's command queue, and the worker thread that empties it.
**
** Model. Commands lie one after the other in chunks; a jump at a chunk's end leads to the next.
** Submitters, who take turns under the stream's lock, write behind the tail and then ring the
** `work` bell; the worker runs commands up to the bell's count. A chunk the worker has left is
** taken back by the submitters for reuse, so a steady stream allocates nothing. Under
** ThreadSanitizer the worker frees it instead: handing it back would order submitters after the
** worker's work.
** What must stay true: a command is whole before the bell counts it; the worker touches no chunk
** after counting it left; every wait ends when the device is lost. */
#include "runtime/device/host/host.h"
#include "runtime/base/callback.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdalign.h>
#include <sys/syscall.h>
#include <unistd.h>

#if TIDEI_TSAN
void __tsan_read_range(void *addr, unsigned long bytes);
void __tsan_write_range(void *addr, unsigned long bytes);
#endif

/* ---- bells ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "futex() looks at the low half of a bell's word");

static void futex_wait(_Atomic uint64_t *word, uint64_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, (uint32_t)seen, NULL, NULL, 0);
}

static void wake_all(tidei_bell *b) {
    atomic_fetch_and_explicit(&b->word, ~(uint64_t)TIDEI_BELL_WAITING, memory_order_relaxed);
    syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static bool unseen(const tidei_bell *b) { return TIDEI_TSAN && b->coarse; }

/* A release store, and the sleeper marks itself with a relaxed one: so the ringer is not ordered
** after anything that the sleeper did. */
void tidei_bell_ring(tidei_bell *b) {
    uint64_t old = unseen(b)
                       ? atomic_fetch_add_explicit(&b->word, TIDEI_BELL_ONE, memory_order_relaxed)
                       : atomic_fetch_add_explicit(&b->word, TIDEI_BELL_ONE, memory_order_release);
    if (old & TIDEI_BELL_WAITING) wake_all(b);
}

void tidei_bell_signal(tidei_bell *b, uint64_t bits) {
    uint64_t old = atomic_fetch_or_explicit(&b->word, bits, memory_order_release);
    if (old & TIDEI_BELL_WAITING) wake_all(b);
}

/* Looks at the word before sleeping: a wake-up costs the ringer a system call (about 2 us), and in
** a burst of small commands the next one comes within that time. With a single processor the ringer
** cannot run meanwhile, so there is no spinning. */
#define SPINS 400 /* pauses; about 5 to 20 us */
int tidei_host_spins(void) {
    static _Atomic int known = -1; /* the machine's; -1: not asked yet */
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n < 0) {
        n = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPINS : 0;
        atomic_store_explicit(&known, n, memory_order_relaxed);
    }
    return n;
}

uint64_t tidei_bell_wait(tidei_bell *b, uint64_t count, uint64_t bits) {
    int left = tidei_host_spins();
    for (;;) {
        uint64_t w = atomic_load_explicit(&b->word, memory_order_relaxed);
        if (tidei_bell_count(w) >= count || (w & bits))
            return unseen(b) ? w : atomic_load_explicit(&b->word, memory_order_acquire);
        if (left-- > 0) {
            tidei_pause();
        } else if ((w & TIDEI_BELL_WAITING) || atomic_compare_exchange_weak_explicit(
                                                   &b->word, &w, w | TIDEI_BELL_WAITING,
                                                   memory_order_relaxed, memory_order_relaxed)) {
            futex_wait(&b->word, w | TIDEI_BELL_WAITING);
        }
    }
}

/* ---- commands ---- */

enum command_kind {
    NOT_YET,
    JUMP,
    LAUNCH,
    GRAPH,
    COPY,
    STAGED,
    COPY_MANY,
    FILL,
    WAIT,
    RECORD,
    PUBLISH
};

struct launch {
    tidei_host_fn fn;
    /* bytes of parameters behind it; number of ranges behind those (TSan only) */
    uint32_t params, ranges;
};

typedef struct command {
    alignas(16) _Atomic uint32_t kind; /* written last */
    uint32_t bytes;                    /* to the next command */
    union {
        struct tidei_chunk *jump;
        struct launch launch; /* what is behind it is behind the command */
        size_t launches;      /* of a graph, one behind the other behind the command */
        struct {
            void *dst;
            const void *src; /* STAGED: the bytes are behind the command */
            size_t bytes;
        } copy;
        size_t pieces; /* behind the command */
        struct {
            void *dst;
            size_t width, count;
            unsigned char pattern[16];
        } fill;
        struct {
            tidei_dstream *of;
            uint64_t record;
        } wait;
        uint64_t tick;
    };
} command;

struct tidei_chunk {
    struct tidei_chunk *next;
    size_t cap; /* bytes of commands */
    alignas(16) unsigned char bytes[];
};
/* one staged copy of the largest size and some small commands */
#define CHUNK_BYTES (TIDEI_STAGED_MAX + 4 * TIDEI_KIB)
/* chunks that the worker has left and that are kept; a burst's others are freed */
#define UNUSED_CHUNKS 4

static struct tidei_chunk *chunk_new(tidei_dstream *s, size_t cap) {
    struct tidei_chunk *c = tidei_host_alloc(s->host->rt, sizeof *c + cap);
    if (c) c->cap = cap;
    return c;
}

/* A chunk that the worker has left, or a new one. */
static struct tidei_chunk *chunk_take(tidei_dstream *s, size_t cap) {
    if (!TIDEI_TSAN) {
        uint64_t left = atomic_load_explicit(&s->chunks_left, memory_order_acquire);
        while (s->chunks_taken < left) {
            struct tidei_chunk *c = s->oldest;
            uint64_t unused = left - s->chunks_taken++;
            s->oldest = c->next;
            if (unused <= UNUSED_CHUNKS && c->cap >= cap) {
                c->next = NULL;
                return c;
            }
            tidei_host_free(s->host->rt, c);
        }
    }
    return chunk_new(s, tidei_max_size(cap, CHUNK_BYTES));
}

static bool next_chunk(tidei_dstream *s, size_t need) {
    struct tidei_chunk *c = chunk_take(s, need);
    if (!c) return false;
    command *jump = (command *)(s->tail->bytes + s->tail_at);
    jump->jump = c;
    s->tail->next = c;
    atomic_store_explicit(&jump->kind, JUMP, memory_order_release);
    s->tail = c;
    s->tail_at = 0;
    return true;
}

/* Behind a command there is always room for a record and a jump, so a record needs no memory, and a
** wait for the stream never fails because memory is short. */
#define KEPT_ROOM (2 * sizeof(command))

/* A command to be filled in, with `payload` bytes behind it; NULL when host memory is exhausted or
** the stream closed. */
static command *begin(tidei_dstream *s, size_t payload) {
    size_t need = sizeof(command) + tidei_round_up(payload, alignof(command));
    if (!s->tail) return NULL;
    if (s->tail_at + need + KEPT_ROOM > s->tail->cap && !next_chunk(s, need + KEPT_ROOM))
        return NULL;
    command *c = (command *)(s->tail->bytes + s->tail_at);
    c->bytes = (uint32_t)need;
    return c;
}

static void commit(tidei_dstream *s, command *c, enum command_kind kind) {
    s->tail_at += c->bytes;
    s->submitted++;
    atomic_store_explicit(&c->kind, kind, memory_order_release);
    tidei_bell_ring(&s->work);
}

bool tidei_hqueue_launch(tidei_dstream *s, const tidei_launch *l) {
    size_t params = tidei_round_up(l->params_bytes, alignof(command));
    size_t ranges = TIDEI_TSAN ? l->nranges : 0;
    command *c = begin(s, params + ranges * sizeof *l->ranges);
    if (!c) return false;
    c->launch.fn = l->host_fn;
    c->launch.params = (uint32_t)params;
    c->launch.ranges = (uint32_t)ranges;
    if (l->params_bytes) memcpy(c + 1, l->params, l->params_bytes);
    if (ranges) memcpy((char *)(c + 1) + params, l->ranges, ranges * sizeof *l->ranges);
    commit(s, c, LAUNCH);
    return true;
}

/* ---- graphs ---- */

#define ROUNDED(bytes) tidei_round_up((bytes), alignof(command))

size_t tidei_host_node_bytes(const tidei_launch *l) {
    size_t ranges = TIDEI_TSAN ? l->nranges : 0;
    return ROUNDED(sizeof(struct launch)) + ROUNDED(l->params_bytes) +
           ROUNDED(ranges * sizeof *l->ranges);
}

static void add_address(unsigned char *params, size_t at, tidei_addr address) {
    tidei_addr word;
    memcpy(&word, params + at, sizeof word);
    word += address;
    memcpy(params + at, &word, sizeof word);
}

/* Writes one launch; returns where the next one goes. */
static unsigned char *put_node(unsigned char *to, const tidei_host_node *x, const void *params,
                               const tidei_addr *slots) {
    struct launch *l = (struct launch *)(void *)to;
    const size_t bytes = ROUNDED(x->l.params_bytes);
    l->fn = x->l.host_fn;
    l->params = (uint32_t)bytes;
    l->ranges = TIDEI_TSAN ? x->l.nranges : 0;
    to += ROUNDED(sizeof *l);
    if (x->l.params_bytes) memcpy(to, params, x->l.params_bytes);
    for (unsigned i = 0; i < x->l.nranges; i++) {
        const tidei_graph_range *r = &x->ranges[i];
        add_address(to, x->at[i], slots[r->slot] + r->offset);
        if (TIDEI_TSAN)
            ((tidei_range *)(void *)(to + bytes))[i] =
                (tidei_range){slots[r->slot] + r->offset, r->bytes, r->mode};
    }
    return to + bytes + ROUNDED(l->ranges * sizeof(tidei_range));
}

bool tidei_hqueue_graph(tidei_dstream *s, const tidei_dgraph *g, const tidei_addr *slots,
                        const tidei_graph_params *params, unsigned n) {
    command *c = begin(s, g->bytes);
    if (!c) return false;
    c->launches = g->n;
    unsigned char *to = (unsigned char *)(c + 1);
    for (unsigned i = 0, k = 0; i < g->n; i++) {
        bool renewed = k < n && params[k].node == i;
        to = put_node(to, g->nodes[i], renewed ? params[k++].params : g->nodes[i]->l.params, slots);
    }
    commit(s, c, GRAPH);
    return true;
}

bool tidei_hqueue_copy(tidei_dstream *s, void *dst, const void *src, size_t bytes, bool staged) {
    command *c = begin(s, staged ? bytes : 0);
    if (!c) return false;
    c->copy.dst = dst;
    c->copy.src = src;
    c->copy.bytes = bytes;
    if (staged) memcpy(c + 1, src, bytes);
    commit(s, c, staged ? STAGED : COPY);
    return true;
}

bool tidei_hqueue_copy_many(tidei_dstream *s, const tidei_piece *pieces, size_t n) {
    command *c = begin(s, n * sizeof *pieces);
    if (!c) return false;
    c->pieces = n;
    memcpy(c + 1, pieces, n * sizeof *pieces);
    commit(s, c, COPY_MANY);
    return true;
}

bool tidei_hqueue_fill(tidei_dstream *s, void *dst, const void *pattern, size_t width,
                       size_t count) {
    command *c = begin(s, 0);
    if (!c) return false;
    c->fill.dst = dst;
    c->fill.width = width;
    c->fill.count = count;
    memcpy(c->fill.pattern, pattern, width);
    commit(s, c, FILL);
    return true;
}

bool tidei_hqueue_publish(tidei_dstream *s, uint64_t tick) {
    command *c = begin(s, 0);
    if (!c) return false;
    c->tick = tick;
    commit(s, c, PUBLISH);
    return true;
}

bool tidei_hqueue_wait(tidei_dstream *s, tidei_dstream *of, uint64_t record) {
    command *c = begin(s, 0);
    if (!c) return false;
    c->wait.of = of;
    c->wait.record = record;
    commit(s, c, WAIT);
    return true;
}

bool tidei_hqueue_record(tidei_dstream *s, uint64_t *record) {
    if (s->recorded_at != s->submitted) {
        if (!s->tail) return false;
        command *c =
            /* in the room kept for it: the last command was no record */
            (command *)(s->tail->bytes + s->tail_at);
        c->bytes = sizeof *c;
        commit(s, c, RECORD);
        s->records++;
        s->recorded_at = s->submitted;
    }
    *record = s->records;
    return true;
}

/* ---- the worker ---- */

static void run_launch(const struct launch *l, const unsigned char *params) {
#if TIDEI_TSAN
    /* Library code is not instrumented, so we tell ThreadSanitizer what it touches. */
    const tidei_range *r = (const tidei_range *)(params + l->params);
    for (uint32_t i = 0; i < l->ranges; i++) {
        void *p = (void *)(uintptr_t)r[i].addr;
        if (r[i].mode & TIDEI_WRITE)
            __tsan_write_range(p, r[i].bytes);
        else if (r[i].mode)
            __tsan_read_range(p, r[i].bytes);
    }
#endif
    l->fn(l->params ? params : NULL);
}

static void run_graph(const command *c) {
    const unsigned char *at = (const unsigned char *)(c + 1);
    for (size_t i = 0; i < c->launches; i++) {
        const struct launch *l = (const struct launch *)(const void *)at;
        at += ROUNDED(sizeof *l);
        run_launch(l, at);
        at += l->params + ROUNDED(l->ranges * sizeof(tidei_range));
    }
}

/* A thread that sees `lost` and then `copying` false may free the host's side of the copy. So
** `copying` is set before `lost` is read. */
static void run_copy(tidei_dstream *s, const command *c, const void *src) {
    atomic_store(&s->copying, true);
    if (!atomic_load(&s->host->base.lost)) memmove(c->copy.dst, src, c->copy.bytes);
    atomic_store(&s->copying, false);
}

static void run_copy_many(const command *c) {
    const tidei_piece *p = (const tidei_piece *)(c + 1);
    for (size_t i = 0; i < c->pieces; i++)
        memcpy((void *)(uintptr_t)p[i].dst, (const void *)(uintptr_t)p[i].src, p[i].bytes);
}

/* Writes the pattern once, then copies what is there, from a stretch that stays in the first-level
** cache. */
static void run_fill(const command *c) {
    size_t width = c->fill.width, total = width * c->fill.count, block = 8 * TIDEI_KIB;
    const unsigned char *pattern = c->fill.pattern;
    unsigned char *dst = c->fill.dst;
    if (memcmp(pattern, pattern + 1, width - 1) == 0) { /* all bytes alike */
        memset(dst, pattern[0], total);
        return;
    }
    memcpy(dst, pattern, width);
    for (size_t done = width, n; done < total; done += n) {
        n = tidei_min_size(tidei_min_size(done, block), total - done);
        memcpy(dst + done, dst, n);
    }
}

/* A mark serves every 64th record. A listener that comes that late learns of a later record too. */
static _Atomic uint64_t *mark_of(tidei_dstream *s, uint64_t record) {
    return &s->marks[record % TIDEI_MARKS];
}

static void run_record(tidei_dstream *s) {
    uint64_t record =
        tidei_bell_count(atomic_load_explicit(&s->recorded.word, memory_order_relaxed)) + 1;
    if (TIDEI_TSAN) atomic_store_explicit(mark_of(s, record), record, memory_order_release);
    tidei_bell_ring(&s->recorded);
}

void tidei_hqueue_await(tidei_dstream *s, uint64_t record) {
    uint64_t w = tidei_bell_wait(&s->recorded, record, TIDEI_BELL_LOST);
    if (TIDEI_TSAN && tidei_bell_count(w) >= record)
        while (atomic_load_explicit(mark_of(s, record), memory_order_acquire) < record)
            tidei_pause();
}

bool tidei_hqueue_passed(tidei_dstream *s, uint64_t record) {
    uint64_t w = atomic_load_explicit(&s->recorded.word, memory_order_relaxed);
    if (tidei_bell_count(w) < record) return false;
    tidei_hqueue_await(s, record); /* returns at once; called for the order that it makes */
    return true;
}

static void run(tidei_dstream *s, const command *c) {
    switch ((enum command_kind)atomic_load_explicit(&c->kind, memory_order_relaxed)) {
    case LAUNCH: run_launch(&c->launch, (const unsigned char *)(c + 1)); break;
    case GRAPH: run_graph(c); break;
    case COPY: run_copy(s, c, c->copy.src); break;
    case STAGED: run_copy(s, c, c + 1); break;
    case COPY_MANY: run_copy_many(c); break;
    case FILL: run_fill(c); break;
    case WAIT: tidei_hqueue_await(c->wait.of, c->wait.record); break;
    case RECORD: run_record(s); break;
    case PUBLISH: atomic_store_explicit(&s->word, c->tick, memory_order_release); break;
    case JUMP:
    case NOT_YET: break;
    }
}

/* The command that the worker comes to. The bell has said that it is there; under ThreadSanitizer
** the bell is read relaxed, and chunks are new and zeroed, so that the kind itself tells. */
static const command *command_here(const tidei_dstream *s, uint32_t *kind) {
    const command *c = (const command *)(s->run->bytes + s->run_at);
    do *kind = atomic_load_explicit(&c->kind, memory_order_acquire);
    while (TIDEI_TSAN && *kind == NOT_YET);
    return c;
}

static const command *next_command(tidei_dstream *s) {
    uint32_t kind;
    const command *c = command_here(s, &kind);
    if (kind == JUMP) {
        struct tidei_chunk *left = s->run;
        s->run = c->jump;
        s->run_at = 0;
        if (TIDEI_TSAN)
            tidei_host_free(s->host->rt, left);
        else
            atomic_fetch_add_explicit(&s->chunks_left, 1, memory_order_release);
        c = command_here(s, &kind);
    }
    s->run_at += c->bytes;
    return c;
}

static void *work(void *arg) {
    tidei_dstream *s = arg;
    tidei_serves = s->host->rt;
    tidei_team_serve(s->team);
    for (uint64_t done = 0;;) {
        uint64_t w = tidei_bell_wait(&s->work, done + 1, TIDEI_BELL_LOST | TIDEI_BELL_STOP);
        uint64_t count = tidei_bell_count(w);
        if (done == count) break; /* stopped or lost, and no command is left */
        for (; done < count && !tidei_host_is_lost(s->host); done++) run(s, next_command(s));
        if (done < count) break;
    }
    tidei_bell_ring(&s->gone);
    return NULL;
}

/* ---- a queue's life ---- */

static int start_worker(tidei_dstream *s) {
    int rc = tidei_own_thread_start(&s->worker, work, s);
    if (rc == 0) {
        char name[16]; /* the kernel's limit */
        tidei_format(name, sizeof name, "tide stream %u", s->id % 1000);
        pthread_setname_np(s->worker, name);
    }
    return rc;
}

static void free_chunks(tidei_dstream *s) {
    struct tidei_chunk *c = TIDEI_TSAN ? s->run : s->oldest;
    while (c) {
        struct tidei_chunk *next = c->next;
        tidei_host_free(s->host->rt, c);
        c = next;
    }
    s->tail = s->oldest = s->run = NULL;
}

/* Under ThreadSanitizer the stream's own team: see team.c. */
static bool open_team(tidei_dstream *s) {
    tidei_host_group *g = s->host->group;
    s->team = TIDEI_TSAN ? tidei_team_open(s->host->rt, g->threads) : g->team;
    return s->team != NULL;
}
static void close_team(tidei_dstream *s, bool forked) {
    if (TIDEI_TSAN) tidei_team_close(s->team, forked);
}

tide_status tidei_hqueue_open(tidei_dstream *s) {
    struct tidei_chunk *c = open_team(s) ? chunk_new(s, CHUNK_BYTES) : NULL;
    if (!c) {
        close_team(s, false);
        return tidei_fail_host_memory("stream_new", sizeof *c + CHUNK_BYTES);
    }
    s->oldest = s->run = c;
    s->tail_at = s->run_at = 0;
    s->submitted = s->recorded_at = s->chunks_taken = 0;
    atomic_store_explicit(&s->work.word, 0, memory_order_relaxed);
    atomic_store_explicit(&s->gone.word, 0, memory_order_relaxed);
    atomic_store_explicit(&s->chunks_left, 0, memory_order_relaxed);
    atomic_store_explicit(&s->word, 0, memory_order_relaxed);
    int rc = start_worker(s);
    if (rc != 0) {
        free_chunks(s);
        close_team(s, false);
        return tidei_fail(TIDE_E_DEVICE, "stream_new",
                          "%s: a thread for stream %u could not be started: %s",
                          s->host->base.info.name, s->id, tidei_errno_text(rc));
    }
    pthread_mutex_lock(&s->lock);
    s->tail = c;
    pthread_mutex_unlock(&s->lock);
    return TIDE_OK;
}

void tidei_hqueue_close(tidei_dstream *s, bool forked) {
    if (forked) { /* another thread of the parent may have held the lock */
        free_chunks(s);
        close_team(s, true);
        return;
    }
    tidei_bell_signal(&s->work, TIDEI_BELL_STOP);
    tidei_join(s->worker);
    close_team(s, false);
    pthread_mutex_lock(&s->lock);
    free_chunks(s);
    pthread_mutex_unlock(&s->lock);
}
