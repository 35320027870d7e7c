/* tracker.c: the table of origins, the backtraces, and the list of what is held. The model stands
** in tracker.h. */
#include "runtime/base/text.h"
#include "runtime/observe/tracker.h"
#include "runtime/observe/backtrace.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/runtime.h"
#include <inttypes.h>

/* of a bucket's number, at first: 32 KiB; the table grows with the origins in it */
#define FIRST_BITS   12
#define MORE_BITS    2    /* each time it grows */
#define TRACE_CHAINS 1024 /* of backtraces: 8 KiB */
/* at most 4.5 MiB; a program has fewer places that allocate, unless it recurses */
#define TRACES_MOST 16384
/* chains in which one that nobody refers to is looked for, when there are so many */
#define SWEPT  64
#define LISTED 24 /* arrays; of the others the sum */
#define SHOWN  16 /* places of a backtrace */

typedef struct tidei_trace {
    struct tidei_trace *next;
    uint64_t hash;
    size_t origins; /* that have it */
    unsigned n;
    void *at[]; /* n of them */
} tidei_trace;

struct tidei_tracker {
    tidei_runtime *rt; /* fixed */
    unsigned interval; /* fixed: one of so many is looked at */
    pthread_mutex_t lock;
    /* under lock */
    tidei_origin **bucket; /* 1 << bits of them: `first`, or host memory */
    unsigned bits;
    size_t origins, grow_at; /* in the table; so many are too many for it */
    uint64_t looks;          /* at origins, by listings */
    tidei_origin *first[1 << FIRST_BITS];
    tidei_trace *trace[TRACE_CHAINS];
    unsigned traces, swept; /* swept: the chain where the next search begins */
    uint64_t listings;
};

/* ---- backtraces ---- */

static uint64_t hash_frames(void *const *at, unsigned n) {
    uint64_t h = n;
    for (unsigned i = 0; i < n; i++) {
        h = (h ^ (uintptr_t)at[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* Frees what no origin has in the next chains, up to the first that had such a one. Whether there
** is room then. */
static bool sweep_traces(tidei_tracker *t) {
    for (unsigned i = 0; i < SWEPT && t->traces >= TRACES_MOST; i++) {
        tidei_trace **at = &t->trace[t->swept++ % TRACE_CHAINS];
        for (tidei_trace *x; (x = *at);) {
            if (x->origins) {
                at = &x->next;
                continue;
            }
            *at = x->next;
            tidei_host_free(t->rt, x);
            t->traces--;
        }
    }
    return t->traces < TRACES_MOST;
}

/* The one of these frames, kept by now; NULL: there is no room. Under the lock. */
static tidei_trace *keep_trace(tidei_tracker *t, void *const *at, unsigned n) {
    uint64_t hash = hash_frames(at, n);
    size_t bytes = n * sizeof *at;
    tidei_trace **chain = &t->trace[hash % TRACE_CHAINS];
    for (tidei_trace *x = *chain; x; x = x->next)
        if (x->hash == hash && x->n == n && !memcmp(x->at, at, bytes)) return x;
    bool room = t->traces < TRACES_MOST || sweep_traces(t);
    tidei_trace *x = room ? tidei_host_take(t->rt, sizeof *x + bytes) : NULL;
    if (!x) return NULL;
    *x = (tidei_trace){.next = *chain, .hash = hash, .n = n};
    memcpy(x->at, at, bytes);
    *chain = x;
    t->traces++;
    return x;
}

/* ---- the table ---- */

static tidei_origin *origin_of(tidei_storage *st) {
    return (tidei_origin *)(void *)((char *)st + TIDEI_ORIGIN_AT);
}

static tidei_origin **bucket_of(tidei_tracker *t, const tidei_storage *st) {
    return &t->bucket[((uintptr_t)st >> 4) * 0x9e3779b97f4a7c15u >> (64 - t->bits)];
}

static void put(tidei_tracker *t, tidei_origin *o) {
    tidei_origin **at = bucket_of(t, o->st);
    o->prev = at;
    o->next = *at;
    if (o->next) o->next->prev = &o->next;
    *at = o;
}

/* As many buckets as there are origins, or more. Without memory for them the old ones serve on, for
** twice as many. */
static void grow(tidei_tracker *t) {
    unsigned bits = t->bits + MORE_BITS;
    tidei_origin **old = t->bucket,
                 **more = tidei_host_alloc(t->rt, sizeof(tidei_origin *) << bits);
    size_t n = (size_t)1 << t->bits;
    t->grow_at *= 2;
    if (!more) return;
    t->bucket = more;
    t->bits = bits;
    t->grow_at = (size_t)1 << bits;
    for (size_t i = 0; i < n; i++)
        for (tidei_origin *o = old[i], *next; o; o = next) {
            next = o->next;
            put(t, o);
        }
    if (old != t->first) tidei_host_free(t->rt, old);
}

/* Whether it is this thread's turn, where nobody else counts. */
static bool wanted(const tidei_tracker *t) {
    if (t->interval == 1) return true;
    tidei_thread *thread = tidei_thread_get(t->rt);
    if (!thread || ++thread->unsampled < t->interval) return false;
    thread->unsampled = 0;
    return true;
}

__attribute__((noinline)) static void look_at(tidei_tracker *t, tidei_storage *st) {
    void *at[TIDEI_FRAMES];
    tidei_origin *o = origin_of(st);
    unsigned n = tidei_backtrace(at);
    *o = (tidei_origin){.st = st, .born_ns = tidei_now_ns(), .looked_at = true};
    pthread_mutex_lock(&t->lock);
    o->trace = n ? keep_trace(t, at, n) : NULL;
    if (o->trace) o->trace->origins++;
    if (tidei_unlikely(++t->origins > t->grow_at)) grow(t);
    put(t, o);
    pthread_mutex_unlock(&t->lock);
}

unsigned tidei_tracker_interval(const tidei_runtime *rt) {
    return rt->tracker ? rt->tracker->interval : 0;
}

void tidei_tracker_add(tidei_tracker *t, tidei_storage *st, bool turn) {
    bool now = turn || wanted(t);
    origin_of(st)->looked_at = now;
    if (tidei_unlikely(now)) look_at(t, st);
}

__attribute__((noinline)) static void forget(tidei_tracker *t, tidei_origin *o) {
    pthread_mutex_lock(&t->lock);
    *o->prev = o->next;
    if (o->next) o->next->prev = o->prev;
    t->origins--;
    if (o->trace) o->trace->origins--; /* kept: the same place will allocate again */
    pthread_mutex_unlock(&t->lock);
}

void tidei_tracker_remove(tidei_tracker *t, tidei_storage *st) {
    tidei_origin *o = origin_of(st);
    if (tidei_unlikely(o->looked_at)) forget(t, o);
}

static tidei_origin *find(tidei_tracker *t, const tidei_storage *st) {
    tidei_origin *o = *bucket_of(t, st);
    for (; o && o->st != st; o = o->next) t->looks++;
    t->looks += o != NULL;
    return o;
}

/* ---- what is held ---- */

struct item {
    const tidei_storage *st; /* only to tell it from others */
    const char *kind;
    tidei_addr addr;
    size_t bytes; /* of the storage */
    uint64_t born_ns;
    const tidei_trace *trace; /* under the lock; then its frames are in the listing */
    tidei_layout lay;
    bool partial; /* not all of the storage in row-major order */
};

struct listing {
    tidei_tracker *t;
    uint64_t number, ns; /* ns: when it was taken */
    unsigned arrays, n;  /* met; listed */
    size_t bytes;        /* that they hold together */
    struct item item[LISTED];
    struct {
        unsigned n;
        void *at[TIDEI_FRAMES];
    } frames[LISTED]; /* of the item of that number; n 0: not known */
};

static bool is_partial(const tidei_layout *lay, size_t bytes) {
    int64_t elements = 1;
    bool whole = lay->offset == 0;
    for (int i = lay->ndim - 1; i >= 0; i--) {
        whole = whole && (lay->shape[i] <= 1 || lay->strides[i] == elements);
        elements *= lay->shape[i];
    }
    return !whole || (size_t)elements * tide_dtype_size(lay->dtype) != bytes;
}

/* The larger first; of one storage's, what is all of it. */
static bool goes_before(const struct item *a, const struct item *b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    if (a->st != b->st) return (uintptr_t)a->st < (uintptr_t)b->st;
    return !a->partial && b->partial;
}

static void list_item(struct listing *l, struct item x) {
    if (l->n == LISTED && !goes_before(&x, &l->item[LISTED - 1])) return;
    for (unsigned i = 0; i < l->n; i++)
        if (goes_before(&x, &l->item[i])) {
            struct item swap = l->item[i];
            l->item[i] = x;
            x = swap;
        }
    if (l->n < LISTED) l->item[l->n++] = x;
}

static void note(tidei_header *h, void *user) {
    struct listing *l = user;
    struct item x;
    tidei_storage *st = tidei_header_holds(h, &x.bytes, &x.lay);
    tidei_origin *o = st && x.bytes ? find(l->t, st) : NULL;
    if (!o) return;
    x.st = st;
    x.kind = tidei_kind_name(st->pool->kind);
    tidei_stamps_lock(st);
    x.addr = st->addr;
    tidei_stamps_unlock(st);
    x.born_ns = o->born_ns;
    x.trace = o->trace;
    x.partial = is_partial(&x.lay, x.bytes);
    l->arrays++;
    if (o->seen != l->number) l->bytes += x.bytes;
    o->seen = l->number;
    list_item(l, x);
}

/* The arrays whose memory was looked at, but those that are known dead. */
static void take_listing(tidei_tracker *t, struct listing *l) {
    l->t = t;
    l->arrays = l->n = 0;
    l->bytes = 0;
    pthread_mutex_lock(&t->lock);
    l->number = ++t->listings;
    l->ns = tidei_now_ns();
    tidei_each_header(t->rt->deaths, note, l);
    for (unsigned i = 0; i < l->n; i++) {
        const tidei_trace *x = l->item[i].trace;
        l->frames[i].n = x ? x->n : 0;
        if (x) memcpy(l->frames[i].at, x->at, x->n * sizeof *x->at);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- lines ---- */

typedef void say_fn(void *user, const char *line);

#define LINE_MAX_BYTES 1200

struct placing {
    say_fn *say;
    void *user;
    char root[400];            /* of our source files, as the debug information has them */
    unsigned at, from, shown;  /* places so far; the first one to show; shown */
    bool known, called, ended; /* called: the last of ours was one that programs call */
};

static bool starts_with(const char *text, const char *start) {
    return text && !strncmp(text, start, strlen(start));
}

static bool is_ours(const struct placing *x, const tidei_place *p) {
    static const char *const folders[] = {"runtime/", "arrays/", "gc/", "libs/"};
    if (!p->file)
        return starts_with(p->function, "tide") || starts_with(p->module, "libtidepool.so");
    if (!x->known || !starts_with(p->file, x->root)) return false;
    for (size_t i = 0; i < TIDEI_COUNT(folders); i++)
        if (starts_with(p->file + strlen(x->root), folders[i])) return true;
    return false;
}

/* The first places of all are these files'. */
static void find_root(struct placing *x, const tidei_place *p) {
    static const char *const own[] = {"runtime/observe/tracker.c", "runtime/observe/backtrace.c"};
    size_t n = p->file ? strlen(p->file) : 0;
    for (size_t i = 0; i < TIDEI_COUNT(own) && !x->known; i++) {
        size_t m = strlen(own[i]);
        if (n < m || strcmp(p->file + n - m, own[i]) || n - m >= sizeof x->root) continue;
        memcpy(x->root, p->file, n - m);
        x->known = true;
    }
}

/* Ours come first. The one that the program called is the first of interest; where it left no
** frame, who called it. */
static bool look_for_caller(void *user, const tidei_place *p) {
    struct placing *x = user;
    if (!x->known) find_root(x, p);
    if (is_ours(x, p)) {
        x->called = starts_with(p->function, "tide_");
        x->from = x->called ? x->at : x->at + 1;
    } else if (p->file || x->called) {
        return !(x->ended = true);
    }
    x->at++;
    return true;
}

static bool say_place(void *user, const tidei_place *p) {
    struct placing *x = user;
    char line[LINE_MAX_BYTES];
    if (x->at++ < x->from) return true;
    if (p->file)
        tidei_format(line, sizeof line, "      %.200s (%.900s:%d%s)",
                     p->function ? p->function : "?", p->file, p->line,
                     p->inlined ? ", inlined" : "");
    else
        tidei_format(line, sizeof line, "      %.200s (%.900s+0x%" PRIxPTR ")",
                     p->function ? p->function : "?", p->module ? p->module : "?", p->offset);
    x->say(x->user, line);
    x->ended = ++x->shown == SHOWN || (p->function && !strcmp(p->function, "main"));
    return !x->ended;
}

static void say_trace(void *const *at, unsigned n, tidei_names *names, say_fn *say, void *user) {
    struct placing x = {.say = say, .user = user};
    if (!n) {
        say(user, "      (where is not known)");
        return;
    }
    for (unsigned i = 0; i < n && !x.ended; i++) tidei_names_of(names, at[i], look_for_caller, &x);
    x.at = 0;
    x.ended = false;
    for (unsigned i = 0; i < n && !x.ended; i++) tidei_names_of(names, at[i], say_place, &x);
}

/* `again`: of the same storage as the one before. */
static void say_item(const struct listing *l, unsigned item, bool again, tidei_names *names,
                     say_fn *say, void *user) {
    const struct item *x = &l->item[item];
    char line[LINE_MAX_BYTES], bytes[32], place[32], shape[TIDE_MAX_RANK * 24];
    size_t n = 0;
    uint64_t age_us = (l->ns - x->born_ns) / 1000;
    shape[0] = 0;
    for (int i = 0; i < x->lay.ndim; i++)
        n += (size_t)tidei_format(shape + n, sizeof shape - n, i ? ", %" PRId64 : "%" PRId64,
                                  x->lay.shape[i]);
    if (x->addr)
        tidei_format(place, sizeof place, "at 0x%" PRIx64, x->addr);
    else
        tidei_format(place, sizeof place, "spilled");
    tidei_format(line, sizeof line, "  %s %s, %s, %s (%s)%s, %" PRIu64 ".%06" PRIu64 " s old%s",
                 tidei_format_bytes(bytes, sizeof bytes, x->bytes, 3), place, x->kind,
                 tide_dtype_name(x->lay.dtype), shape, again || x->partial ? ", a view" : "",
                 age_us / 1000000, age_us % 1000000, again ? ", the same memory" : "");
    say(user, line);
    if (!again) say_trace(l->frames[item].at, l->frames[item].n, names, say, user);
}

static void say_listing(const struct listing *l, say_fn *say, void *user) {
    char line[160], bytes[32], of[64] = "";
    tidei_format_bytes(bytes, sizeof bytes, l->bytes, 3);
    if (l->t->interval > 1)
        tidei_format(of, sizeof of, ", of one in %u allocations", l->t->interval);
    tidei_format(line, sizeof line, "held: %u array%s, %s%s", l->arrays, l->arrays == 1 ? "" : "s",
                 bytes, of);
    say(user, line);
    tidei_names *names = l->n ? tidei_names_open() : NULL;
    for (unsigned i = 0; i < l->n; i++)
        say_item(l, i, i && l->item[i - 1].st == l->item[i].st, names, say, user);
    tidei_names_close(names);
    if (l->arrays == l->n) return;
    tidei_format(line, sizeof line, "  and %u more, none larger", l->arrays - l->n);
    say(user, line);
}

struct buffer {
    char *buf;
    size_t cap, n; /* n: of the whole text */
};

static void put_line(void *user, const char *line) {
    struct buffer *b = user;
    bool room = b->n < b->cap;
    b->n +=
        (size_t)tidei_format(room ? b->buf + b->n : NULL, room ? b->cap - b->n : 0, "%s\n", line);
}

size_t tidei_tracker_text(tidei_runtime *rt, char *buf, size_t cap) {
    struct listing l;
    struct buffer b = {buf, cap, 0};
    if (!rt->tracker) return 0;
    take_listing(rt->tracker, &l);
    say_listing(&l, put_line, &b);
    return b.n;
}

uint64_t tidei_tracker_looks(tidei_runtime *rt) {
    tidei_tracker *t = rt->tracker;
    pthread_mutex_lock(&t->lock);
    uint64_t looks = t->looks;
    pthread_mutex_unlock(&t->lock);
    return looks;
}

static void log_line(void *rt, const char *line) {
    tidei_log(rt, TIDE_LOG_WARNING, "tide_close: %s", line);
}

void tidei_tracker_farewell(tidei_runtime *rt) {
    struct listing l;
    tidei_saved_error e;
    if (!rt->tracker || !rt->gc_ops || !tidei_log_wants(rt, TIDE_LOG_WARNING)) return;
    tidei_error_save(&e);
    tidei_drain(rt);
    take_listing(rt->tracker, &l);
    if (l.arrays) { /* a collector may not have found them yet */
        tidei_collect(rt, TIDE_COLLECT_FULL, "what is held is listed", NULL);
        tidei_drain(rt);
        take_listing(rt->tracker, &l);
    }
    if (l.arrays) say_listing(&l, log_line, rt);
    tidei_error_restore(&e);
}

/* ---- its life ---- */

tide_status tidei_tracker_open(tidei_runtime *rt) {
    unsigned interval = rt->set.debug_sample ? (unsigned)rt->set.debug_sample : rt->set.debug >= 2;
    if (!interval) return TIDE_OK;
    tidei_tracker *t = tidei_host_alloc(rt, sizeof *t);
    if (!t) return tidei_fail_host_memory("tide_open", sizeof *t);
    t->rt = rt;
    t->interval = interval;
    t->bucket = t->first;
    t->bits = FIRST_BITS;
    t->grow_at = TIDEI_COUNT(t->first);
    pthread_mutex_init(&t->lock, NULL);
    tidei_backtrace_prepare();
    rt->tracker = t;
    return TIDE_OK;
}

void tidei_tracker_close(tidei_runtime *rt) {
    tidei_tracker *t = rt->tracker;
    if (!t) return;
    rt->tracker = NULL;
    for (unsigned i = 0; i < TRACE_CHAINS; i++)
        for (tidei_trace *x = t->trace[i], *next; x; x = next) {
            next = x->next;
            tidei_host_free(rt, x);
        }
    if (t->bucket != t->first) tidei_host_free(rt, t->bucket);
    pthread_mutex_destroy(&t->lock);
    tidei_host_free(rt, t);
}
