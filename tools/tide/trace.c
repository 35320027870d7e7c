/* trace.c: reading a trace: blocks of bytes (zlib, which reads plain files too), lines, fields,
** events.
**
** A line is looked at where it lies in the buffer; nothing of it is copied. Ids become numbers of
** blocks through a table of those that are allocated: open addressing, entries moved back into the
** gaps that frees leave.
** What must stay true: the first thing that is wrong ends the reading, with the line's number. */
#include "tools/tide/trace.h"
#include "runtime/observe/recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#define OP           "tide replay"
#define READ_BYTES   (256 * TIDEI_KIB)
#define LINE_BYTES   255 /* the longest line, as its error says; real ones have some 60 bytes */
#define FIELDS_MAX   6
#define FOUND_MAX    60 /* of an offending text, as much as a message shows */
#define NO_BLOCK     UINT32_MAX
#define DAY_US       86400000000u
#define TIME_MOST_US (UINT64_MAX / 1000)
#define OTHERS       "CcdRrWwuxvgpqh" /* what else a recording tells */

struct text {
    const char *at;
    size_t n;
};

struct live { /* an allocated id */
    uint64_t id, bytes;
    uint32_t block; /* NO_BLOCK: an empty entry */
};

struct stretch {                          /* in which the program stood still */
    uint64_t began_us, ended_us, took_us; /* with all before it */
};

struct reader {
    const char *name;
    gzFile file;
    size_t line; /* number of the current one, from 1 */
    char *buf;
    size_t at, end; /* what is not read yet */
    bool over;      /* the file has no more */
    tidei_trace trace;
    size_t events_cap;
    uint64_t most;                                        /* events; 0: by the file's size */
    bool timed;                                           /* times are wanted */
    void (*told)(void *user, const tidei_trace_row *row); /* (may be NULL) */
    void *user;
    uint64_t row_us, last_us; /* of the row; the latest so far */
    uint64_t first_us;
    /* collections and climbs that have begun and not ended; since when; what they took so far */
    uint64_t depth, began_us, took_us;
    uint64_t climbs;           /* of these, climbs and their rungs */
    struct stretch *stretches; /* those that ended, in their order; where times are wanted */
    size_t nstretches, stretches_cap, collections_cap, prices_cap;
    uint64_t waits,
        waits_since_us;    /* waits of the host that have begun and not ended; since when */
    size_t sync;           /* the last sync point; SIZE_MAX: a block was made since then */
    bool collects;         /* between C and c */
    uint64_t collected_us; /* since when; and in collections of the stretch that has begun */
    uint64_t collecting_us;
    tidei_trace_collection next; /* what rows q and h have told of it */
    struct live *live;           /* live_cap entries, a power of two, at most half of them used */
    size_t live_cap, live_n;
    uint64_t live_bytes, most_bytes; /* now; at most so far */
    tide_status (*row)(struct reader *r, const struct text *fields);
    unsigned fields;
    const char *header;
};

/* ---- errors ---- */

/* "name:line: expected ..., found '...'". What is no plain character shows as '?'. */
static tide_status expected(const struct reader *r, const char *what, struct text found) {
    char text[FOUND_MAX + 4];
    size_t n = tidei_min_size(found.n, FOUND_MAX);
    for (size_t i = 0; i < n; i++)
        text[i] = found.at[i] >= ' ' && found.at[i] <= '~' ? found.at[i] : '?';
    strcpy(text + n, found.n > n ? "..." : "");
    return tidei_fail(TIDE_E_FORMAT, OP, "%s:%zu: expected %s, found '%s'", r->name, r->line, what,
                      text);
}

static struct text text_of(const char *s) { return (struct text){s, strlen(s)}; }

static tide_status refused(const char *name, const char *what, int error) {
    return tidei_fail(TIDE_E_IO, OP, "%s: cannot be %s: %s", name, what, strerror(error));
}

/* ---- lines ---- */

/* What ended the reading early, by zlib's code; TIDE_OK if nothing did. The line that it belongs to
** is the next one. */
static tide_status stream_status(struct reader *r) {
    int code, error = errno;
    (void)gzerror(r->file, &code);
    if (code == Z_OK || code == Z_STREAM_END) return TIDE_OK;
    if (code == Z_ERRNO) return refused(r->name, "read", error);
    if (code == Z_MEM_ERROR) return tidei_fail_host_memory(OP, READ_BYTES);
    return expected(r, "the rest of the gzip stream",
                    text_of(code == Z_BUF_ERROR ? "end of file" : "damaged data"));
}

/* Reads on behind what is left over, which moves to the front. */
static void refill(struct reader *r) {
    r->end -= r->at;
    memmove(r->buf, r->buf + r->at, r->end);
    r->at = 0;
    size_t want = READ_BYTES - r->end;
    int got = gzread(r->file, r->buf + r->end, (unsigned)want);
    if (got > 0) r->end += (size_t)got;
    r->over = got < 0 || (size_t)got < want;
}

/* The next line without its end; *more is false behind the last one. An unsound stream is an error
** where its sound part ends. */
static tide_status next_line(struct reader *r, struct text *out, bool *more) {
    char *newline;
    r->line++;
    while (!(newline = memchr(r->buf + r->at, '\n', r->end - r->at)) && !r->over &&
           r->end - r->at <= LINE_BYTES)
        refill(r);
    if (!newline && r->over) {
        tide_status status = stream_status(r);
        if (status != TIDE_OK) return status;
    }
    *more = newline || r->end > r->at;
    *out = (struct text){r->buf + r->at,
                         newline ? (size_t)(newline - (r->buf + r->at)) : r->end - r->at};
    r->at += out->n + (newline ? 1 : 0);
    if (out->n && out->at[out->n - 1] == '\r') out->n--;
    if (out->n > LINE_BYTES) return expected(r, "a line of at most 255 bytes", *out);
    return TIDE_OK;
}

/* ---- fields ---- */

static bool is(struct text t, const char *word) {
    return t.n == strlen(word) && !memcmp(t.at, word, t.n);
}

static unsigned split(struct text line, struct text *fields) {
    unsigned n = 0;
    for (const char *at = line.at, *end = line.at + line.n;; n++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        if (n < FIELDS_MAX) fields[n] = (struct text){at, (size_t)(stop - at)};
        if (!comma) return n + 1;
        at = comma + 1;
    }
}

static bool number(struct text t, uint64_t *out) {
    uint64_t v = 0;
    if (!t.n) return false;
    for (size_t i = 0; i < t.n; i++) {
        unsigned digit = (unsigned char)t.at[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return true;
}

static unsigned hex_digit(char c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    c |= 32;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* "0x7f00", as some versions of RMM write it without the 0x, or "(nil)". */
static bool hex_number(struct text t, uint64_t *out) {
    *out = 0;
    if (is(t, "(nil)")) return true;
    if (t.n > 2 && t.at[0] == '0' && (t.at[1] | 32) == 'x') t = (struct text){t.at + 2, t.n - 2};
    if (!t.n || t.n > 16) return false;
    for (size_t i = 0; i < t.n; i++) {
        unsigned digit = hex_digit(t.at[i]);
        if (digit > 15) return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* ---- what is allocated ---- */

static size_t slot_of(const struct reader *r, uint64_t id) {
    /* the golden ratio: neighbours lie far apart in the upper bits */
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 32) & (r->live_cap - 1);
    while (r->live[i].block != NO_BLOCK && r->live[i].id != id) i = (i + 1) & (r->live_cap - 1);
    return i;
}

static bool live_grow(struct reader *r) {
    struct live *old = r->live;
    size_t n = r->live_cap;
    struct live *grown = tidei_host_alloc(NULL, (n ? 2 * n : 1024) * sizeof *grown);
    if (!grown) return false;
    r->live = grown;
    r->live_cap = n ? 2 * n : 1024;
    for (size_t i = 0; i < r->live_cap; i++) grown[i].block = NO_BLOCK;
    for (size_t i = 0; i < n; i++)
        if (old[i].block != NO_BLOCK) grown[slot_of(r, old[i].id)] = old[i];
    tidei_host_free(NULL, old);
    return true;
}

/* Empties entry `gap`; those behind it that it kept from their place move up. */
static void live_remove(struct reader *r, size_t gap) {
    size_t mask = r->live_cap - 1;
    r->live_n--;
    r->live_bytes -= r->live[gap].bytes;
    r->live[gap].block = NO_BLOCK;
    for (size_t i = (gap + 1) & mask; r->live[i].block != NO_BLOCK; i = (i + 1) & mask) {
        struct live moved = r->live[i];
        r->live[i].block = NO_BLOCK;
        r->live[slot_of(r, moved.id)] = moved;
    }
}

/* ---- events ---- */

/* Whether there may be more events than there are. By the file's size: see the model in trace.h. */
static tide_status check_number(const struct reader *r) {
    size_t n = r->trace.n;
    if (r->most ? n < r->most : n < TIDEI_TRACE_EVENTS) return TIDE_OK;
    z_off_t bytes = gzoffset(r->file); /* read so far; -1 in what has no places, as a pipe */
    if (!r->most && bytes >= 0 && (uint64_t)bytes >= n) return TIDE_OK;
    return tidei_fail(
        TIDE_E_FORMAT, OP, "%s:%zu: more than %zu events%s; --events N reads as many as N", r->name,
        r->line, n,
        r->most ? "" : ", and fewer bytes of the file up to here, which is no recording's way");
}

/* The list of so many items, `size` bytes each, with room for `cap`. False: there is no host
** memory, and the list stays. */
static bool relist(void *list, size_t n, size_t cap, size_t size) {
    void *old;
    memcpy(&old, list, sizeof old);
    void *grown = cap <= SIZE_MAX / size ? tidei_host_take(NULL, cap * size) : NULL;
    if (!grown) return false;
    if (n) memcpy(grown, old, n * size);
    tidei_host_free(NULL, old);
    memcpy(list, &grown, sizeof grown);
    return true;
}

/* Room for twice as many events. */
static tide_status more_events(struct reader *r) {
    tidei_trace *t = &r->trace;
    uint64_t cap = r->events_cap ? 2 * (uint64_t)r->events_cap : 4096;
    tide_status status = check_number(r);
    if (status != TIDE_OK) return status;
    if (r->most && cap > r->most) cap = r->most;
    if (!relist(&t->events, t->n, (size_t)cap, sizeof *t->events) ||
        (r->timed && (!relist(&t->times, t->n, (size_t)cap, sizeof *t->times) ||
                      !relist(&t->moments, tidei_min_size(t->blocks, r->events_cap), (size_t)cap,
                              sizeof *t->moments))))
        return tidei_fail_host_memory(OP, (size_t)cap * sizeof *t->events);
    r->events_cap = (size_t)cap;
    return TIDE_OK;
}

/* Of a moment of the file, or of what passed between two. */
static uint64_t ns_of(uint64_t us) { return us * 1000; }

/* The program's own time: while it collects or climbs it stands still. */
static uint64_t now_ns(struct reader *r) {
    if (r->row_us > r->last_us) r->last_us = r->row_us;
    return ns_of((r->depth ? r->began_us : r->last_us) - r->took_us);
}

/* The same of a moment that is behind. */
static uint64_t past_ns(const struct reader *r, uint64_t us) {
    size_t low = 0, high = r->nstretches; /* those before `low` began before it */
    if (r->depth && us >= r->began_us) return ns_of(r->began_us - r->took_us);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->stretches[mid].began_us <= us)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low) return ns_of(us);
    const struct stretch *s = &r->stretches[low - 1];
    if (us >= s->ended_us) return ns_of(us - s->took_us);
    return ns_of(s->ended_us - s->took_us);
}

/* A collection or a climb begins, or ends. */
static tide_status stand_still(struct reader *r, bool begins) {
    if (begins) {
        if (!r->depth++) r->began_us = r->last_us, r->collecting_us = 0;
        return TIDE_OK;
    }
    if (!r->depth || --r->depth) return TIDE_OK;
    r->took_us += r->last_us - r->began_us;
    if (!r->timed) return TIDE_OK;
    if (r->nstretches == r->stretches_cap) {
        size_t cap = r->stretches_cap ? 2 * r->stretches_cap : 1024;
        if (!relist(&r->stretches, r->nstretches, cap, sizeof *r->stretches))
            return tidei_fail_host_memory(OP, cap * sizeof *r->stretches);
        r->stretches_cap = cap;
    }
    r->stretches[r->nstretches++] = (struct stretch){r->began_us, r->last_us, r->took_us};
    return TIDE_OK;
}

static tide_status climb(struct reader *r, bool begins) {
    if (begins) {
        r->trace.run.climbs += !r->climbs++;
        return stand_still(r, true);
    }
    tide_status status = stand_still(r, false);
    if (r->climbs && !--r->climbs && !r->depth) {
        uint64_t us = r->last_us - r->began_us;
        r->trace.run.climb_ns += us > r->collecting_us ? ns_of(us - r->collecting_us) : 0;
    }
    return status;
}

static tide_status begin_collection(struct reader *r, uint64_t level) {
    tide_status status = stand_still(r, true);
    r->collects = true;
    r->collected_us = r->last_us;
    r->next.level = level > 1 ? TIDE_COLLECT_FULL : TIDE_COLLECT_MINOR;
    r->next.forced = r->climbs != 0;
    r->next.dead = 0;
    r->next.place = r->trace.n;
    return status;
}

static tide_status end_collection(struct reader *r, uint64_t freed) {
    tidei_trace *t = &r->trace;
    if (!r->collects) return stand_still(r, false); /* it began before the recording */
    r->collects = false;
    r->collecting_us += r->last_us - r->collected_us;
    r->next.pause_ns = ns_of(r->last_us - r->collected_us);
    r->next.freed = freed;
    if (r->timed && t->ncollections == r->collections_cap) {
        size_t cap = r->collections_cap ? 2 * r->collections_cap : 1024;
        if (!relist(&t->collections, t->ncollections, cap, sizeof *t->collections))
            return tidei_fail_host_memory(OP, cap * sizeof *t->collections);
        r->collections_cap = cap;
    }
    if (r->timed) t->collections[t->ncollections++] = r->next;
    r->next = (tidei_trace_collection){0};
    return stand_still(r, false);
}

static tide_status add_event(struct reader *r, tidei_event e) {
    tide_status status = r->trace.n == r->events_cap ? more_events(r) : TIDE_OK;
    if (status != TIDE_OK) return status;
    if (r->timed)
        r->trace.times[r->trace.n] = (tidei_trace_time){
            now_ns(r), ns_of(r->took_us + (r->depth ? r->last_us - r->began_us : 0)), TIDEI_UNTOLD};
    r->trace.events[r->trace.n++] = e;
    return TIDE_OK;
}

/* The host begins to wait, or goes on. The first waits at a sync point are that point's, if the
** program does not stand still in them. */
static void count_wait(struct reader *r, bool begins) {
    if (begins && !r->waits++) r->waits_since_us = r->last_us;
    if (begins || !r->waits || --r->waits) return;
    r->trace.run.waits++;
    if (r->sync == SIZE_MAX || !r->timed || r->depth) return;
    uint64_t *waited = &r->trace.times[r->sync].waited_ns;
    *waited = (*waited == TIDEI_UNTOLD ? 0 : *waited) + ns_of(r->last_us - r->waits_since_us);
}

static void count_growth(struct reader *r) {
    if (r->live_bytes <= r->most_bytes) return;
    r->trace.run.growth_ns += (double)r->trace.run.fresh_mib_ns *
                              (double)(r->live_bytes - r->most_bytes) / (double)TIDEI_MIB;
    r->most_bytes = r->live_bytes;
}

/* `shown` is the id as the line has it. */
static tide_status allocate(struct reader *r, uint64_t id, struct text shown, uint64_t bytes,
                            struct text shown_bytes) {
    if (2 * (r->live_n + 1) > r->live_cap && !live_grow(r))
        return tidei_fail_host_memory(OP, 2 * r->live_cap * sizeof *r->live);
    size_t slot = slot_of(r, id);
    if (r->live[slot].block != NO_BLOCK) return expected(r, "an id that is not allocated", shown);
    if (bytes > TIDEI_TRACE_LIVE_MAX - r->live_bytes)
        return expected(r, "a size with which at most 2^56 bytes live", shown_bytes);
    if (r->trace.blocks == NO_BLOCK) return expected(r, "at most 2^32 - 1 allocations", shown);
    struct live x = {id, bytes, (uint32_t)r->trace.blocks++};
    r->live[slot] = x;
    r->live_n++;
    r->live_bytes += bytes;
    count_growth(r);
    r->sync = SIZE_MAX;
    tide_status status = add_event(r, (tidei_event){bytes, x.block, TIDEI_EVENT_ALLOC});
    if (status == TIDE_OK && r->timed)
        r->trace.moments[x.block] = (tidei_block_moments){r->trace.times[r->trace.n - 1].ns,
                                                          TIDEI_UNTOLD, TIDEI_UNTOLD, false};
    return status;
}

/* `bytes` may be NULL: RMM's log has there what the program says. */
static tide_status release(struct reader *r, uint64_t id, struct text shown, const uint64_t *bytes,
                           struct text shown_bytes) {
    size_t slot = slot_of(r, id);
    struct live x = r->live[slot];
    if (x.block == NO_BLOCK) return expected(r, "the id of an allocated block", shown);
    if (bytes && *bytes != x.bytes) {
        char what[60];
        snprintf(what, sizeof what, "the %" PRIu64 " bytes that the block has", x.bytes);
        return expected(r, what, shown_bytes);
    }
    live_remove(r, slot);
    r->next.dead += r->collects;
    return add_event(r, (tidei_event){x.bytes, x.block, TIDEI_EVENT_FREE});
}

/* ---- the rest that a recording tells ---- */

/* A row u or x: a moment of a block that lives. */
static tide_status tell_moment(struct reader *r, bool use, uint64_t id, uint64_t us,
                               uint64_t stream, const struct text *f) {
    size_t slot = slot_of(r, id);
    uint32_t block = r->live[slot].block;
    tidei_trace_run *run = &r->trace.run;
    if (block == NO_BLOCK) return expected(r, "the id of an allocated block", f[1]);
    if (us > r->row_us) return expected(r, "a time that is no later than the row's", f[2]);
    if (!use && stream > 1)
        return expected(r, "0 for a death as it happened, or 1 for one that was found", f[3]);
    if (use) {
        run->used++;
        run->idle_us += r->row_us - us;
    } else
        stream ? run->found++ : run->exact++;
    if (!r->timed) return TIDE_OK;
    tidei_block_moments *m = &r->trace.moments[block];
    uint64_t ns = past_ns(r, us);
    m->found |= !use && stream;
    *(use ? &m->used : &m->died) = ns > m->made ? ns : m->made; /* to a microsecond */
    if (m->used != TIDEI_UNTOLD && m->used > m->died) m->used = m->died;
    return TIDE_OK;
}

/* What stands before all blocks. */
static tide_status check_early(const struct reader *r, const struct text *f) {
    return r->trace.blocks ? expected(r, "a row that may stand behind blocks", f[0]) : TIDE_OK;
}

static tide_status tell_version(struct reader *r, uint64_t version, uint64_t how,
                                const struct text *f) {
    tide_status status = check_early(r, f);
    if (status != TIDE_OK) return status;
    if (version < 1 || version > TIDEI_CSV_VERSION)
        return expected(r, "a version of the form from 1 to 3", f[1]);
    if (how > TIDEI_DEATHS_AT_ONCE) return expected(r, "0, 1 or 2 for how deaths are known", f[2]);
    r->trace.run.version = (unsigned)version;
    r->trace.run.how = (unsigned)how;
    return TIDE_OK;
}

#define PAGE_MOST ((uint64_t)1 << 40) /* bytes */
static tide_status tell_page(struct reader *r, uint64_t bytes, uint64_t device,
                             const struct text *f) {
    tide_status status = check_early(r, f);
    if (status != TIDE_OK) return status;
    if (!bytes || bytes > PAGE_MOST) return expected(r, "bytes of a page, from 1 to 2^40", f[1]);
    if (!device) r->trace.run.page_bytes = bytes;
    return TIDE_OK;
}

static tide_status tell_growth(struct reader *r, uint64_t mib_ns, uint64_t total) {
    tidei_trace *t = &r->trace;
    t->run.fresh_mib_ns = mib_ns;
    t->run.total = total;
    if (!r->timed) return TIDE_OK;
    if (t->nprices && t->prices[t->nprices - 1].place == t->n)
        t->nprices--; /* nothing came between */
    if (t->nprices == r->prices_cap) {
        size_t cap = r->prices_cap ? 2 * r->prices_cap : 64;
        if (!relist(&t->prices, t->nprices, cap, sizeof *t->prices))
            return tidei_fail_host_memory(OP, cap * sizeof *t->prices);
        r->prices_cap = cap;
    }
    t->prices[t->nprices++] = (tidei_trace_price){t->n, mib_ns};
    return TIDE_OK;
}

static tide_status tell(struct reader *r, const struct text *f, uint64_t id, uint64_t bytes,
                        uint64_t stream) {
    switch (f[0].at[0]) {
    case 'u':
    case 'x': return tell_moment(r, f[0].at[0] == 'u', id, bytes, stream, f);
    case 'v': return tell_version(r, id, bytes, f);
    case 'g': return stream ? TIDE_OK : tell_growth(r, id, bytes);
    case 'p': return tell_page(r, id, stream, f);
    case 'q':
        if (!stream) r->next.pending = id, r->next.queued_ns = bytes;
        return TIDE_OK;
    case 'h': r->next.arrays = id, r->next.heap = bytes; return TIDE_OK;
    case 'C':
    case 'c':
        if (id != 1 && id != 2) return expected(r, "1 for a minor collection, or 2", f[1]);
        return f[0].at[0] == 'C' ? begin_collection(r, id) : end_collection(r, bytes);
    case 'R': return climb(r, true);
    case 'r': return climb(r, false);
    case 'W':
    case 'w': count_wait(r, f[0].at[0] == 'W'); return TIDE_OK;
    default: return TIDE_OK;
    }
}

/* ---- the two forms ---- */

/* Whether the row is one of the version that a row v told. */
static tide_status check_version(const struct reader *r, struct text op) {
    unsigned version = r->trace.run.version;
    unsigned first = memchr("uxgqh", op.at[0], 5) ? 2 : op.at[0] == 'p' ? 3 : 1;
    char what[80];
    if (!version || first <= version) return TIDE_OK;
    snprintf(what, sizeof what, "a row of version %u of the form", version);
    return expected(r, what, op);
}

static void hand_on(struct reader *r, char op, uint64_t id, uint64_t bytes) {
    if (!r->told) return;
    r->told(r->user, &(tidei_trace_row){op, id, bytes, r->last_us});
}

static tide_status tide_row(struct reader *r, const struct text *f) {
    uint64_t id, bytes, other;
    if (f[0].n != 1 || !memchr("afs" OTHERS, f[0].at[0], sizeof "afs" OTHERS - 1))
        return expected(r, "op a, f or s (or one of " OTHERS ")", f[0]);
    if (!number(f[1], &id)) return expected(r, "an id below 2^64", f[1]);
    if (!number(f[2], &bytes)) return expected(r, "a size in bytes", f[2]);
    if (!number(f[3], &other)) return expected(r, "a stream's number", f[3]);
    if (!number(f[4], &r->row_us)) return expected(r, "a time in microseconds", f[4]);
    if (r->row_us > TIME_MOST_US)
        return expected(r, "a time of less than 2^64 nanoseconds, in microseconds", f[4]);
    if (r->row_us < r->last_us) return expected(r, "a time no earlier than the last row's", f[4]);
    tide_status status = check_version(r, f[0]);
    if (status != TIDE_OK) return status;
    if (r->line == 2) r->first_us = r->row_us;
    (void)now_ns(r);
    hand_on(r, f[0].at[0], id, bytes);
    switch (f[0].at[0]) {
    case 'a': return allocate(r, id, f[1], bytes, f[2]);
    case 'f': return release(r, id, f[1], &bytes, f[2]);
    case 's': r->sync = r->trace.n; return add_event(r, (tidei_event){.op = TIDEI_EVENT_SYNC});
    default: return tell(r, f, id, bytes, other);
    }
}

/* "HH:MM:SS:uuuuuu", or with a dot. */
static bool time_of(struct text t, uint64_t *us) {
    static const char form[] = "00:00:00.000000";
    static const uint64_t unit[] = {36000000000, 3600000000, 0,       600000000, 60000000,
                                    0,           10000000,   1000000, 0,         100000,
                                    10000,       1000,       100,     10,        1};
    if (t.n != sizeof form - 1) return false;
    *us = 0;
    for (size_t i = 0; i < t.n; i++) {
        bool digit = t.at[i] >= '0' && t.at[i] <= '9';
        if (form[i] == '0' ? !digit : t.at[i] != ':' && (form[i] == ':' || t.at[i] != '.'))
            return false;
        if (digit) *us += unit[i] * (uint64_t)(t.at[i] - '0');
    }
    return true;
}

/* A log goes on past midnight: what is half a day earlier is of the next one. */
static void set_time_of_day(struct reader *r, uint64_t us) {
    while (us < r->last_us && r->last_us - us > DAY_US / 2) us += DAY_US;
    r->row_us = us;
}

static tide_status rmm_row(struct reader *r, const struct text *f) {
    uint64_t pointer, bytes, other, us;
    bool allocates = is(f[2], "allocate"), fails = is(f[2], "allocate failure");
    if (!number(f[0], &other)) return expected(r, "a thread's number", f[0]);
    if (!time_of(f[1], &us)) return expected(r, "a time HH:MM:SS.uuuuuu", f[1]);
    set_time_of_day(r, us);
    if (r->row_us > TIME_MOST_US) return expected(r, "a time within 584 years", f[1]);
    if (!allocates && !fails && !is(f[2], "free"))
        return expected(r, "Action allocate, allocate failure or free", f[2]);
    if (!hex_number(f[3], &pointer)) return expected(r, "a pointer in hexadecimal digits", f[3]);
    if (!number(f[4], &bytes)) return expected(r, "a size in bytes", f[4]);
    if (!hex_number(f[5], &other)) return expected(r, "a stream's number", f[5]);
    (void)now_ns(r); /* a time of day goes by the latest one */
    /* all empty blocks may have the null pointer at a time */
    if (fails || (!pointer && !bytes)) return TIDE_OK;
    hand_on(r, allocates ? 'a' : 'f', pointer, bytes);
    return allocates ? allocate(r, pointer, f[3], bytes, f[4])
                     : release(r, pointer, f[3], NULL, f[4]);
}

static tide_status read_header(struct reader *r) {
    struct text line;
    bool more;
    tide_status status = next_line(r, &line, &more);
    if (status != TIDE_OK) return status;
    r->header = "op,id,bytes,stream,time_us";
    r->row = tide_row;
    r->fields = 5;
    if (is(line, r->header)) return TIDE_OK;
    r->header = "Thread,Time,Action,Pointer,Size,Stream";
    r->row = rmm_row;
    r->fields = 6;
    if (is(line, r->header)) return TIDE_OK;
    return expected(
        r, "the header op,id,bytes,stream,time_us or Thread,Time,Action,Pointer,Size,Stream", line);
}

static tide_status read_rows(struct reader *r) {
    for (;;) {
        struct text line, fields[FIELDS_MAX];
        char what[80];
        bool more;
        tide_status status = next_line(r, &line, &more);
        if (status != TIDE_OK || !more) return status;
        if (split(line, fields) != r->fields) {
            snprintf(what, sizeof what, "the %u fields %s", r->fields, r->header);
            return expected(r, what, line);
        }
        status = r->row(r, fields);
        if (status != TIDE_OK) return status;
    }
}

/* ---- files ---- */

static tide_status read_all(struct reader *r) {
    r->buf = tidei_host_alloc(NULL, READ_BYTES);
    if (!r->buf || !live_grow(r)) return tidei_fail_host_memory(OP, READ_BYTES);
    tide_status status = read_header(r);
    return status == TIDE_OK ? read_rows(r) : status;
}

static tide_status read_fd(int fd, struct reader *r, tidei_trace *out) {
    r->file = gzdopen(fd, "rb");
    r->sync = SIZE_MAX;
    if (!r->file) {
        close(fd);
        return tidei_fail_host_memory(OP, READ_BYTES);
    }
    gzbuffer(r->file, READ_BYTES / 2);
    tide_status status = read_all(r);
    gzclose_r(r->file); /* what it could tell, stream_status has asked for */
    tidei_host_free(NULL, r->buf);
    tidei_host_free(NULL, r->live);
    tidei_host_free(NULL, r->stretches);
    if (r->row == tide_row) r->trace.run.ns = ns_of(r->last_us - r->first_us);
    if (status == TIDE_OK)
        *out = r->trace;
    else
        tidei_trace_clear(&r->trace);
    return status;
}

static tide_status read_path(const char *path, struct reader *r, tidei_trace *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? refused(path, "opened", errno) : read_fd(fd, r, out);
}

tide_status tidei_trace_read_fd(int fd, const char *name, uint64_t events, tidei_trace *out) {
    struct reader r = {.name = name, .most = events};
    return read_fd(fd, &r, out);
}

tide_status tidei_trace_read_most(const char *path, uint64_t events, tidei_trace *out) {
    struct reader r = {.name = path, .most = events};
    return read_path(path, &r, out);
}

tide_status tidei_trace_read_timed(const char *path, uint64_t events, tidei_trace *out) {
    struct reader r = {.name = path, .most = events, .timed = true};
    return read_path(path, &r, out);
}

tide_status tidei_trace_read_rows(const char *path, uint64_t events,
                                  void (*told)(void *user, const tidei_trace_row *row), void *user,
                                  tidei_trace *out) {
    struct reader r = {.name = path, .most = events, .told = told, .user = user};
    return read_path(path, &r, out);
}

tide_status tidei_trace_read(const char *path, tidei_trace *out) {
    return tidei_trace_read_most(path, 0, out);
}

void tidei_trace_clear(tidei_trace *t) {
    tidei_host_free(NULL, t->events);
    tidei_host_free(NULL, t->times);
    tidei_host_free(NULL, t->moments);
    tidei_host_free(NULL, t->collections);
    tidei_host_free(NULL, t->prices);
    *t = (tidei_trace){0};
}

void tidei_trace_scale(tidei_trace *t, uint64_t by) {
    for (size_t i = 0; i < t->n; i++) {
        uint64_t bytes = t->events[i].bytes;
        if (bytes) t->events[i].bytes = bytes / by ? bytes / by : 1;
    }
}
