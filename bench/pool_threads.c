/* pool_threads.c: B4: many threads at one pool.
**   own      each thread on a stream of its own, pairs of 64 KiB
**   mixed    each with 1,000 blocks of mixed sizes alive, one of them replaced at a time; at the
**            end all hold theirs at once, and what is backed by then is set against that
**   still    no pool: each waits for as long as one of those pairs took, or half of what is slow.
**            What takes long here is the machine's: its timer, other guests
**   passed   half of the threads take, the other half give back, each one's blocks by one other
**   buried   all take, and one thread gives everything back, as a thread that runs finalizers does
** All but `own` do the same work in all, however many threads share it: they meet at the pool's
** lock. What `passed` and `buried` cost is told by the time of giving back a batch that the thread
** itself took (`local`). */
#include "bench/bench.h"
#include <math.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>

#define OWN_BYTES     (64 * TIDEI_KIB)
#define LIVE          1000
#define BATCH         256
#define BATCHES       8     /* that go round between two threads */
#define SAMPLE_EVERY  32    /* pairs; reading the clock costs as much as one */
#define SAMPLES       20000 /* a thread, at most */
#define THREAD_PAIRS  500000
#define SLOW_NS       5000 /* a pair of more is slow */
#define THREADS_MAX   128
#define THREAD_ROUNDS 5

typedef struct batch {
    tidei_block blocks[BATCH];
    struct worker *from;
    struct batch *next;
} batch;

typedef struct worker {
    alignas(128) bench *b; /* threads write here all the time: on lines of their own */
    tidei_stream *s;
    struct worker *to; /* gets this one's batches */
    size_t pairs;      /* to do */
    uint64_t pair_ns;  /* what one of `still` takes */
    _Atomic(batch *) inbox, empties;
    _Atomic bool ended; /* it passes on no more */
    bool ok;
    uint64_t seed;
    double free_ns; /* of giving back, a block */
    size_t samples;
    double *sample; /* nanoseconds of single pairs */
    pthread_barrier_t *start;
    tidei_block *blocks; /* LIVE of them, all free; each round has the same: no page faults */
    size_t live;         /* bytes, while all threads hold their blocks */
    double first_ns;     /* of the thread's first pair, before all begin */
    uint64_t began_ns, ended_ns;
} worker;

typedef struct crew {
    bench *b;
    unsigned n;
    worker workers[THREADS_MAX];
    batch *batches;
    tidei_block *blocks;
    double *samples;
    uint64_t pair_ns; /* what one of `still` takes: as one of `mixed` on average */
} crew;

/* ---- what threads do ---- */

static void give_block(worker *w, tidei_block *x) {
    if (x->bytes) bench_give(w->b, x);
    x->bytes = 0;
}

static bool replace_block(worker *w, tidei_block *x, size_t bytes) {
    give_block(w, x);
    return bench_take(w->b, bytes, w->s, x) == TIDE_OK;
}

/* A thread's first call makes its record: page faults by the dozen, which are no matter of the
** pool's lock. */
static void first_pair(worker *w) {
    tidei_block x;
    uint64_t start = tidei_now_ns();
    if ((w->ok = bench_take(w->b, OWN_BYTES, w->s, &x) == TIDE_OK)) bench_give(w->b, &x);
    w->first_ns = (double)(tidei_now_ns() - start);
}

static void own_pairs(worker *w) {
    tidei_block x;
    for (size_t i = 0; i < w->pairs && w->ok; i++) {
        if ((w->ok = bench_take(w->b, OWN_BYTES, w->s, &x) == TIDE_OK)) bench_give(w->b, &x);
    }
}

static void mixed_pairs(worker *w) {
    for (size_t i = 0; i < w->pairs && w->ok; i++) {
        tidei_block *x = &w->blocks[workload_dice(&w->seed) % LIVE];
        bool sampled = i % SAMPLE_EVERY == 0 && w->samples < SAMPLES;
        uint64_t start = sampled ? tidei_now_ns() : 0;
        w->ok = replace_block(w, x, workload_spread(&w->seed, 8, 20));
        if (sampled) w->sample[w->samples++] = (double)(tidei_now_ns() - start);
    }
    w->ended_ns = tidei_now_ns();
    for (size_t i = 0; i < LIVE; i++) w->live += w->blocks[i].bytes;
    pthread_barrier_wait(w->start);
    for (size_t i = 0; i < LIVE; i++) give_block(w, &w->blocks[i]);
}

static void still_pairs(worker *w) {
    for (size_t i = 0; i < w->pairs; i++) {
        uint64_t start = tidei_now_ns(), ns;
        do ns = tidei_now_ns() - start;
        while (ns < w->pair_ns);
        if (i % SAMPLE_EVERY == 0 && w->samples < SAMPLES) w->sample[w->samples++] = (double)ns;
    }
}

static bool fill(worker *w, batch *x) {
    for (size_t i = 0; i < BATCH; i++)
        if (bench_take(w->b, OWN_BYTES, w->s, &x->blocks[i]) != TIDE_OK) {
            while (i) bench_give(w->b, &x->blocks[--i]);
            return false;
        }
    return true;
}

/* Adds the time it takes to w->free_ns. */
static void empty(worker *w, batch *x) {
    uint64_t start = tidei_now_ns();
    for (size_t i = 0; i < BATCH; i++) bench_give(w->b, &x->blocks[i]);
    w->free_ns += (double)(tidei_now_ns() - start);
}

static void push(_Atomic(batch *) *list, batch *x) {
    x->next = atomic_load_explicit(list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(list, &x->next, x)) {}
}

static void local_batches(worker *w) {
    batch *x = atomic_exchange(&w->empties, NULL);
    for (size_t i = 0; i < w->pairs && w->ok; i += BATCH)
        if ((w->ok = fill(w, x))) empty(w, x);
}

static void take_and_pass(worker *w) {
    batch *mine = NULL;
    for (size_t i = 0; i < w->pairs && w->ok; i += BATCH) {
        while (!mine && !(mine = atomic_exchange(&w->empties, NULL))) sched_yield();
        batch *x = mine;
        mine = x->next;
        if ((w->ok = fill(w, x))) push(&w->to->inbox, x);
    }
    atomic_store(&w->ended, true);
}

static bool all_ended(const crew *c, const worker *w) {
    for (unsigned i = 0; i < c->n; i++)
        if (c->workers[i].to == w && !atomic_load(&c->workers[i].ended)) return false;
    return true;
}

static void give_back(const crew *c, worker *w) {
    for (;;) {
        bool last = all_ended(c, w);
        batch *x = atomic_exchange(&w->inbox, NULL), *next;
        if (!x && last) return;
        if (!x) sched_yield();
        for (; x; x = next) {
            next = x->next;
            empty(w, x);
            w->pairs += BATCH;
            push(&x->from->empties, x);
        }
    }
}

/* ---- a crew at work ---- */

enum work { OWN, MIXED, STILL, LOCAL, PASSED, BURIED };

struct job {
    crew *c;
    worker *w;
    enum work work;
};

static void *thread_main(void *arg) {
    const struct job *j = arg;
    worker *w = j->w;
    if (j->work == MIXED) first_pair(w);
    pthread_barrier_wait(w->start);
    w->began_ns = tidei_now_ns();
    if (j->work == OWN)
        own_pairs(w);
    else if (j->work == MIXED)
        mixed_pairs(w);
    else if (j->work == STILL)
        still_pairs(w);
    else if (j->work == LOCAL)
        local_batches(w);
    else if (w->to)
        take_and_pass(w);
    else
        give_back(j->c, w);
    if (j->work != MIXED) w->ended_ns = tidei_now_ns();
    return NULL;
}

static void prepare(crew *c, enum work work, size_t pairs, pthread_barrier_t *start) {
    for (unsigned i = 0; i < c->n; i++) {
        worker *w = &c->workers[i];
        *w = (worker){
            .b = c->b, .s = w->s, .pairs = pairs, .ok = true, .seed = i + 1, .start = start};
        w->sample = c->samples + (size_t)i * SAMPLES;
        w->blocks = c->blocks + (size_t)i * LIVE;
        w->pair_ns = c->pair_ns;
        for (unsigned k = 0; k < BATCHES; k++) {
            batch *x = &c->batches[i * BATCHES + k];
            x->from = w;
            push(&w->empties, x);
        }
        unsigned to = work == PASSED && (i | 1) < c->n ? i | 1 : c->n - 1;
        if ((work == PASSED || work == BURIED) && to != i) w->to = &c->workers[to];
        if (!w->to && work >= PASSED) w->pairs = 0;
    }
}

struct figures {
    double pairs_per_s, free_ns, p999_ns, backed_over_live, first_ns;
    double slow; /* % of the pairs that were timed */
};

static double slow_share(const double *sample, size_t n) {
    size_t slow = 0;
    for (size_t i = 0; i < n; i++) slow += sample[i] > SLOW_NS;
    return n ? 100 * (double)slow / (double)n : 0;
}

static bool gather(const crew *c, enum work work, struct figures *out) {
    uint64_t first = UINT64_MAX, last = 0;
    double free_ns = 0, first_ns = 0;
    size_t pairs = 0, freed = 0, samples = 0, live = 0;
    for (unsigned i = 0; i < c->n; i++) {
        const worker *w = &c->workers[i];
        if (!w->ok) return false;
        first = w->began_ns < first ? w->began_ns : first;
        last = w->ended_ns > last ? w->ended_ns : last;
        free_ns += w->free_ns;
        live += w->live;
        first_ns = w->first_ns > first_ns ? w->first_ns : first_ns;
        if (work < PASSED || !w->to) freed += w->pairs;
        if (work < PASSED || w->to) pairs += w->pairs;
        memmove(c->samples + samples, w->sample, w->samples * sizeof *w->sample);
        samples += w->samples;
    }
    *out = (struct figures){.pairs_per_s = (double)pairs * 1e9 / (double)(last - first),
                            .free_ns = freed ? free_ns / (double)freed : 0,
                            .first_ns = first_ns,
                            .slow = slow_share(c->samples, samples),
                            .p999_ns = samples ? bench_quantile(c->samples, samples, 0.999) : 0};
    if (live)
        out->backed_over_live = (double)atomic_load(&c->b->d->budget->peak_backed) / (double)live;
    return true;
}

/* All threads at one kind of work. */
static bool run_once(crew *c, enum work work, size_t pairs, struct figures *out) {
    pthread_t threads[THREADS_MAX];
    struct job jobs[THREADS_MAX];
    pthread_barrier_t start;
    unsigned made = 0;
    pthread_barrier_init(&start, NULL, c->n);
    prepare(c, work, pairs, &start);
    for (; made < c->n; made++) {
        jobs[made] = (struct job){c, &c->workers[made], work};
        if (pthread_create(&threads[made], NULL, thread_main, &jobs[made])) {
            fprintf(stderr, "tide-bench: no thread %u\n", made + 1);
            exit(1); /* the others wait for it */
        }
    }
    for (unsigned i = 0; i < made; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    return gather(c, work, out);
}

/* Medians of rounds. */
static bool run_rounds(crew *c, enum work work, size_t pairs, struct figures *out) {
    double v[5][THREAD_ROUNDS], slow = 0;
    for (unsigned r = 0; r <= THREAD_ROUNDS; r++) { /* the first one grows */
        struct figures f;
        if (!run_once(c, work, pairs, &f)) return false;
        if (!r) continue;
        v[0][r - 1] = f.pairs_per_s;
        v[1][r - 1] = f.free_ns;
        v[2][r - 1] = f.p999_ns;
        v[3][r - 1] = f.backed_over_live;
        v[4][r - 1] = f.first_ns;
        slow += f.slow / THREAD_ROUNDS; /* a handful of pairs a round: no median */
    }
    *out = (struct figures){bench_median(v[0], THREAD_ROUNDS), bench_median(v[1], THREAD_ROUNDS),
                            bench_median(v[2], THREAD_ROUNDS), bench_median(v[3], THREAD_ROUNDS),
                            bench_median(v[4], THREAD_ROUNDS), slow};
    return true;
}

static bool crew_new(bench *b, crew *c, unsigned n) {
    *c = (crew){.b = b,
                .n = n,
                .batches = calloc((size_t)n * BATCHES, sizeof *c->batches),
                .blocks = calloc((size_t)n * LIVE, sizeof *c->blocks),
                .samples = calloc((size_t)n * SAMPLES, sizeof *c->samples)};
    bool ok = c->batches && c->blocks && c->samples;
    for (unsigned i = 0; i < n && ok; i++)
        ok = tidei_stream_open(b->d, &c->workers[i].s) == TIDE_OK;
    return ok;
}

static void crew_drop(crew *c) {
    for (unsigned i = 0; i < c->n; i++)
        if (c->workers[i].s) tidei_stream_drop(c->workers[i].s);
    free(c->batches);
    free(c->blocks);
    free(c->samples);
}

static bool all_work(bench *b, crew *c) {
    size_t pairs = tidei_round_up(bench_or(b->n, THREAD_PAIRS), BATCH),
           share = tidei_max_size(tidei_round_up(pairs / 4 / c->n, BATCH), BATCH);
    struct figures own, mixed, still, local, passed, finished;
    if (!run_rounds(c, OWN, pairs, &own) || !run_rounds(c, MIXED, share, &mixed)) return false;
    c->pair_ns = (uint64_t)fmin(c->n * 1e9 / mixed.pairs_per_s, SLOW_NS / 2.0);
    if (!run_rounds(c, STILL, share, &still) || !run_rounds(c, LOCAL, share, &local)) return false;
    bench_note(b, own.pairs_per_s, "pairs/s", "own_t%u", c->n);
    bench_note(b, mixed.pairs_per_s, "pairs/s", "mixed_t%u", c->n);
    bench_note(b, mixed.p999_ns, "ns", "mixed_p999_t%u", c->n);
    bench_note(b, mixed.slow, "%", "mixed_slow_t%u", c->n);
    bench_note(b, still.slow, "%", "still_slow_t%u", c->n);
    bench_note(b, mixed.first_ns, "ns", "mixed_first_t%u", c->n);
    bench_note(b, mixed.backed_over_live, "", "mixed_backed_over_live_t%u", c->n);
    bench_note(b, local.free_ns, "ns", "local_free_t%u", c->n);
    if (c->n == 1) return true;
    if (!run_rounds(c, PASSED, share, &passed) || !run_rounds(c, BURIED, share, &finished))
        return false;
    bench_note(b, passed.pairs_per_s, "pairs/s", "passed_t%u", c->n);
    bench_note(b, passed.free_ns, "ns", "passed_free_t%u", c->n);
    bench_note(b, finished.pairs_per_s, "pairs/s", "buried_t%u", c->n);
    bench_note(b, finished.free_ns, "ns", "buried_free_t%u", c->n);
    double remote = passed.free_ns > finished.free_ns ? passed.free_ns : finished.free_ns;
    bench_note(b, remote / local.free_ns, "", "remote_over_local_t%u", c->n);
    return true;
}

int bench_threads(bench *b) {
    static const unsigned counts[] = {1, 2, 4, 8, 16};
    static char bar[32];
    if (b->threads > THREADS_MAX) {
        fprintf(stderr, "tide-bench: --threads up to %d\n", THREADS_MAX);
        return 2;
    }
    if (!bench_open(b, "refcount", NULL, true)) return bench_failed("tide_open");
    for (size_t i = 0; i < (b->threads ? 1 : TIDEI_COUNT(counts)); i++) {
        crew c;
        unsigned n = b->threads ? (unsigned)b->threads : counts[i];
        bool ok = crew_new(b, &c, n) && all_work(b, &c);
        crew_drop(&c);
        if (!ok) return bench_failed("threads");
        snprintf(bar, sizeof bar, "own_t%u", n);
    }
    return bench_done(b, bar);
}
