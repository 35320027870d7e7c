/* tracker.c: the table of origins and the backtraces. The model stands in tracker.h. */
#include "runtime/observe/tracker.h"
#include "runtime/observe/backtrace.h"

/* of a bucket's number, at first: 32 KiB; the table grows with the origins in it */
#define FIRST_BITS   12
#define MORE_BITS    2    /* each time it grows */
#define TRACE_CHAINS 1024 /* of backtraces: 8 KiB */
/* at most 4.5 MiB; a program has fewer places that allocate, unless it recurses */
#define TRACES_MOST 16384
/* chains in which one that nobody refers to is looked for, when there are so many */
#define SWEPT 64

typedef struct tidei_trace {
    struct tidei_trace *next;
    uint64_t hash;
    size_t origins; /* that have it */
    unsigned n;
    void *at[]; /* n of them */
} tidei_trace;

struct tidei_tracker {
    tidei_runtime *rt; /* fixed: whose host memory it takes */
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

static tidei_origin **bucket_of(tidei_tracker *t, const void *of) {
    return &t->bucket[((uintptr_t)of >> 4) * 0x9e3779b97f4a7c15u >> (64 - t->bits)];
}

static void put(tidei_tracker *t, tidei_origin *o) {
    tidei_origin **at = bucket_of(t, o->of);
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

__attribute__((noinline)) static void look_at(tidei_tracker *t, tidei_origin *o, const void *of) {
    void *at[TIDEI_FRAMES];
    unsigned n = tidei_backtrace(at);
    *o = (tidei_origin){.of = of, .born_ns = tidei_now_ns(), .looked_at = true};
    pthread_mutex_lock(&t->lock);
    o->trace = n ? keep_trace(t, at, n) : NULL;
    if (o->trace) o->trace->origins++;
    if (tidei_unlikely(++t->origins > t->grow_at)) grow(t);
    put(t, o);
    pthread_mutex_unlock(&t->lock);
}

unsigned tidei_tracker_interval(const tidei_tracker *t) { return t ? t->interval : 0; }

void tidei_tracker_add(tidei_tracker *t, tidei_origin *o, const void *of, bool turn) {
    o->looked_at = turn;
    if (tidei_unlikely(turn)) look_at(t, o, of);
}

__attribute__((noinline)) static void forget(tidei_tracker *t, tidei_origin *o) {
    pthread_mutex_lock(&t->lock);
    *o->prev = o->next;
    if (o->next) o->next->prev = o->prev;
    t->origins--;
    if (o->trace) o->trace->origins--; /* kept: the same place will allocate again */
    pthread_mutex_unlock(&t->lock);
}

void tidei_tracker_remove(tidei_tracker *t, tidei_origin *o) {
    if (tidei_unlikely(o->looked_at)) forget(t, o);
}

/* ---- listings ---- */

void tidei_tracker_listing_begin(tidei_tracker *t) {
    pthread_mutex_lock(&t->lock);
    t->listings++;
}

void tidei_tracker_listing_end(tidei_tracker *t) { pthread_mutex_unlock(&t->lock); }

const tidei_origin *tidei_tracker_find(tidei_tracker *t, const void *of, bool *first) {
    tidei_origin *o = *bucket_of(t, of);
    for (; o && o->of != of; o = o->next) t->looks++;
    if (!o) return NULL;
    t->looks++;
    *first = o->seen != t->listings;
    o->seen = t->listings;
    return o;
}

unsigned tidei_tracker_frames(const tidei_origin *o, void *at[TIDEI_FRAMES]) {
    const tidei_trace *x = o->trace;
    if (!x) return 0;
    memcpy(at, x->at, x->n * sizeof *x->at);
    return x->n;
}

uint64_t tidei_tracker_looks(tidei_tracker *t) {
    pthread_mutex_lock(&t->lock);
    uint64_t looks = t->looks;
    pthread_mutex_unlock(&t->lock);
    return looks;
}

/* ---- its life ---- */

tide_status tidei_tracker_open(tidei_runtime *rt, const tidei_settings *set, tidei_tracker **out) {
    unsigned interval = set->debug_sample ? (unsigned)set->debug_sample : set->debug >= 2;
    *out = NULL;
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
    *out = t;
    return TIDE_OK;
}

void tidei_tracker_close(tidei_tracker *t) {
    if (!t) return;
    tidei_runtime *rt = t->rt;
    for (unsigned i = 0; i < TRACE_CHAINS; i++)
        for (tidei_trace *x = t->trace[i], *next; x; x = next) {
            next = x->next;
            tidei_host_free(rt, x);
        }
    if (t->bucket != t->first) tidei_host_free(rt, t->bucket);
    pthread_mutex_destroy(&t->lock);
    tidei_host_free(rt, t);
}
