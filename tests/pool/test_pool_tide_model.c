/* test_pool_tide_model.c: the pool `tide` alone, over doubles: random programs against a slow model
** of who may have what, many threads, and the allocations of real programs. */
#include "tests/support/tidetest.h"
#include "tests/doubles/pool_double.h"
#include "runtime/pool/tide/tide.h"
#include <zlib.h>

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB

/* ---- against a slow model ---- */

enum { MODEL_STREAMS = 5, MODEL_GRANULE = 256, MODEL_BLOCKS = 300, MODEL_LIMIT = 900 };

/* For every granule of the range: whose it is, and the last tick of each stream that touched it. */
typedef struct model {
    unsigned *owner;
    uint64_t (*touched)[MODEL_STREAMS];
    uint64_t tick[MODEL_STREAMS];
    tidei_block b[MODEL_BLOCKS];
    double_owner owners[MODEL_BLOCKS];
    struct follow { /* from `tick` on, work of the stream comes after these ticks of the others */
        unsigned stream;
        uint64_t tick, seen[MODEL_STREAMS];
    } * follows;
    size_t nfollows;
} model;
static model *moving_model;

/* The last tick of stream o that the stamp comes after. */
static uint64_t model_implied(const model *m, tidei_stamp x, unsigned o) {
    uint64_t t = x.stream == o ? x.tick : 0;
    for (size_t i = 0; i < m->nfollows; i++) {
        const struct follow *f = &m->follows[i];
        if (f->stream == x.stream && f->tick <= x.tick && f->seen[o] > t) t = f->seen[o];
    }
    return t;
}

static void model_check_got(const model *m, const tidei_block *b, unsigned s, unsigned flags) {
    size_t first = (b->addr - dbl.base) / MODEL_GRANULE,
           n = (b->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE;
    for (size_t g = first; g < first + n; g++) {
        assert_int_equal(m->owner[g], 0);
        assert_non_null(dbl.table[g * MODEL_GRANULE / dbl.device.info.page_bytes]);
        for (unsigned o = 0; o < MODEL_STREAMS; o++) {
            uint64_t t = m->touched[g][o], named = 0;
            if (t <= dbl.word[o]) continue;
            if (!(flags & TIDEI_ALLOC_STEAL)) assert_true(o == s || t <= dbl.streams[s].seen[o]);
            for (unsigned i = 0; i < b->stamps.n; i++) {
                tidei_stamp x = tidei_stamps_at((tidei_stamps *)&b->stamps)[i];
                uint64_t implied = model_implied(m, x, o);
                if (implied > named) named = implied;
            }
            assert_true(named >= t);
        }
    }
}

static void model_own(model *m, const tidei_block *b, unsigned id) {
    size_t first = (b->addr - dbl.base) / MODEL_GRANULE,
           n = (b->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE;
    for (size_t g = first; g < first + n; g++) {
        m->owner[g] = id;
        for (unsigned i = 0; i < b->stamps.n && !id; i++) {
            tidei_stamp x = tidei_stamps_at((tidei_stamps *)&b->stamps)[i];
            if (x.tick > m->touched[g][x.stream]) m->touched[g][x.stream] = x.tick;
        }
    }
}

/* Stream s waits for x, and so for all that that came after. */
static void model_follow(const model *m, unsigned s, tidei_stamp x) {
    for (unsigned o = 0; o < MODEL_STREAMS; o++) {
        uint64_t t = model_implied(m, x, o);
        if (dbl.streams[s].seen[o] < t) dbl.streams[s].seen[o] = t;
    }
}

/* A block goes where nobody is but itself, once all that touched the place is waited for. */
static void model_move(tidei_stream *s, const tidei_stamp *pending, unsigned npending,
                       const tidei_move *m, const tidei_piece *place, uint64_t tick) {
    model *w = moving_model;
    if (!m) { /* it waits for all that, and what that came after */
        for (unsigned i = 0; i < npending; i++) model_follow(w, s->slot, pending[i]);
        w->follows = realloc(w->follows, (w->nfollows + 1) * sizeof *w->follows);
        w->follows[w->nfollows] = (struct follow){.stream = s->slot, .tick = tick};
        memcpy(w->follows[w->nfollows++].seen, (void *)dbl.streams[s->slot].seen,
               MODEL_STREAMS * sizeof(uint64_t));
        w->tick[s->slot] = tick;
        return;
    }
    tidei_stamps *uses = &((double_owner *)m->owner)->b->stamps; /* an owner waits for these */
    struct follow *f = &w->follows[w->nfollows - 1];
    for (unsigned i = 0; i < uses->n; i++) model_follow(w, s->slot, tidei_stamps_at(uses)[i]);
    for (unsigned o = 0; o < MODEL_STREAMS; o++) f->seen[o] = dbl.streams[s->slot].seen[o];
    unsigned id = (unsigned)((double_owner *)m->owner - w->owners) + 1;
    size_t n = (place->bytes + MODEL_GRANULE - 1) / MODEL_GRANULE,
           to = (place->dst - dbl.base) / MODEL_GRANULE,
           from = (place->src - dbl.base) / MODEL_GRANULE;
    for (size_t g = to; g < to + n; g++) {
        assert_true(w->owner[g] == 0 || w->owner[g] == id);
        for (unsigned o = 0; o < MODEL_STREAMS && w->owner[g] == 0; o++) {
            uint64_t t = w->touched[g][o];
            assert_true(o == s->slot || t <= dbl.word[o] || t <= dbl.streams[s->slot].seen[o]);
        }
    }
    for (size_t g = from; g < from + n; g++) w->owner[g] = 0, w->touched[g][s->slot] = tick;
    for (size_t g = to; g < to + n; g++) w->owner[g] = id, w->touched[g][s->slot] = tick;
}

/* Work is done only when what it came after is. */
static void model_complete(const model *m, unsigned s, uint64_t tick) {
    double_complete(s, tick);
    for (size_t i = m->nfollows; i--;) {
        const struct follow *f = &m->follows[i];
        for (unsigned o = 0; o < MODEL_STREAMS; o++)
            if (f->tick <= dbl.word[f->stream] && f->seen[o] > dbl.word[o])
                model_complete(m, o, f->seen[o]);
    }
}

/* A wait of the pool's raises one stream's word; what that stream had waited for is done too. */
static void model_catch_up(const model *m) {
    for (unsigned s = 0; s < MODEL_STREAMS; s++) model_complete(m, s, dbl.word[s]);
}

static void model_step(model *m, tidei_pool *p, uint64_t *seed) {
    unsigned what = dice(seed) % 100, s = dice(seed) % MODEL_STREAMS,
             o = dice(seed) % MODEL_STREAMS;
    unsigned id = dice(seed) % MODEL_BLOCKS;
    tidei_block *b = &m->b[id];
    if (what < 80 && !b->priv) {
        static const unsigned flags[] = {0,
                                         0,
                                         TIDEI_ALLOC_STEAL | TIDEI_ALLOC_MOVE,
                                         TIDEI_ALLOC_NO_GROW,
                                         TIDEI_ALLOC_STEAL,
                                         TIDEI_ALLOC_STEAL | TIDEI_ALLOC_NO_GROW};
        unsigned f = flags[dice(seed) % TIDEI_COUNT(flags)];
        size_t bytes = (size_t)1 + (dice(seed) % 60000 >> dice(seed) % 10);
        tide_status st = get(p, bytes, s, f, b);
        assert_true(st == TIDE_OK || st == TIDE_E_NOMEM);
        if (st != TIDE_OK) return;
        model_catch_up(m);
        model_check_got(m, b, s, f);
        model_own(m, b, id + 1);
        m->owners[id] = (double_owner){.b = b, .pinned = dice(seed) % 8 == 0};
        if (dice(seed) % 8) p->ops->own(p, b, &m->owners[id]);
    } else if (what < 80) {
        for (unsigned uses = dice(seed) % 3; uses; uses--, s = dice(seed) % MODEL_STREAMS)
            used_by(b, s, m->tick[s] = ++movers.tick);
        model_own(m, b, 0);
        p->ops->free(p, b);
        assert_int_equal(b->stamps.n, 0);
        b->priv = NULL;
    } else if (what < 88) {
        model_complete(m, s, m->tick[s] - dice(seed) % (m->tick[s] < 20 ? 1 : 20));
    } else if (what < 92) {
        model_follow(m, s, (tidei_stamp){.tick = m->tick[o], .stream = (uint16_t)o});
    } else if (what < 96) {
        p->ops->settle(p);
    } else {
        p->ops->trim(p, dice(seed) % (MODEL_LIMIT * KIB));
    }
}

/* The calling thread takes blocks in a zone of its own from now on. */
static void depart(tidei_pool *p) {
    tidei_heap *t = (tidei_heap *)p;
    tidei_cache *c = tidei_heap_cache_of(t, tidei_thread_number);
    if (c) assert_true(tidei_zone_depart(t, c));
}

/* With `zones` the thread goes from zone to zone. */
static void against_a_model(bool zones) {
    static const size_t pages[] = {4 * KIB, 12 * KIB, 64 * KIB};
    uint64_t remapped = 0;
    for (unsigned round = 0; round < (test_quick() ? 3 : 6); round++) {
        tidei_pool *p = open_pool(&tidei_pool_tide, pages[round % 3], 1536 * KIB);
        model *m = calloc(1, sizeof *m);
        m->owner = calloc(dbl.span / MODEL_GRANULE, sizeof *m->owner);
        m->touched = calloc(dbl.span / MODEL_GRANULE, sizeof *m->touched);
        atomic_store(&dbl.dev.budget->limit, MODEL_LIMIT * KIB);
        atomic_store(&p->attrs.reuse,
                     /* the model knows when streams steal */
                     TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE);
        p->mover = &double_mover;
        moving_model = m;
        movers.on_move = model_move;
        movers.none_stays = round % 2; /* though some do */
        movers.tick = 0;
        movers.blocks = 0;
        uint64_t seed = round + 1;
        for (unsigned i = 0; i < 12000; i++) {
            if (zones && dice(&seed) % 64 == 0) depart(p);
            model_step(m, p, &seed);
            if (i % 32 == 0) assert_true(balanced(p));
        }
        assert_true(dbl.peak <= MODEL_LIMIT * KIB);
        assert_true(zones == (tidei_zones((tidei_heap *)p) > 1));
        assert_true(movers.blocks > 30);
        assert_true(figures(p).compactions > 0 && figures(p).bytes_moved > 0);
        remapped += figures(p).bytes_remapped;
        movers.on_move = NULL;
        for (unsigned i = 0; i < MODEL_BLOCKS; i++)
            if (m->b[i].priv) p->ops->free(p, &m->b[i]);
        for (unsigned s = 0; s < MODEL_STREAMS; s++) double_complete(s, m->tick[s]);
        p->ops->trim(p, 0);
        assert_int_equal(figures(p).backed, 0);
        close_clean(p);
        free(m->owner);
        free(m->touched);
        free(m->follows);
        free(m);
    }
    assert_true(remapped > 0);
}

static void random_against_a_model(void **state) {
    (void)state;
    against_a_model(false);
}
static void random_in_many_zones(void **state) {
    (void)state;
    against_a_model(true);
}

/* ---- many threads ---- */

enum { THREADS = 4, SLOTS = 64 };
static struct {
    tidei_pool *p;
    _Atomic(tidei_block *) slots[SLOTS];
    _Atomic uint64_t tick;
    atomic_bool bad;
    bool zones; /* each thread goes from zone to zone */
} shared;

/* Blocks go through slots that all threads take from, so most are freed by another thread than took
** them. */
static void *thread_main(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me + 1;
    for (unsigned i = 0; i < 1500; i++) {
        tidei_block *b = calloc(1, sizeof *b);
        size_t bytes = (size_t)1 + (dice(&seed) % 200000 >> dice(&seed) % 10);
        if (shared.zones && i % 100 == 50) depart(shared.p);
        if (get(shared.p, bytes, me, 0, b) != TIDE_OK) {
            free(b);
            b = NULL;
        }
        b = atomic_exchange(&shared.slots[dice(&seed) % SLOTS], b);
        if (b) put(shared.p, b, dice(&seed) % THREADS, atomic_fetch_add(&shared.tick, 1) + 1);
        free(b);
        if (i % 64 == me) shared.p->ops->trim(shared.p, 256 * KIB);
        if (i % 256 == me && !shared.p->ops->valid(shared.p)) shared.bad = true;
        if (i % 16 == me) double_complete(me, atomic_load(&shared.tick) / 2);
    }
    return NULL;
}

static void many_threads(bool zones) {
    pthread_t threads[THREADS];
    memset(&shared, 0, sizeof shared);
    shared.zones = zones;
    shared.p = open_pool(&tidei_pool_tide, 16 * KIB, 16 * MIB);
    atomic_store(&dbl.dev.budget->limit, 3 * MIB);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_false(shared.bad);
    assert_true(dbl.peak <= 3 * MIB);
    for (unsigned i = 0; i < SLOTS; i++) {
        tidei_block *b = shared.slots[i];
        if (b) shared.p->ops->free(shared.p, b);
        free(b);
    }
    assert_int_equal(figures(shared.p).live, 0);
    close_clean(shared.p);
}

static void many_threads_get_blocks_of_their_own(void **state) {
    (void)state;
    many_threads(false);
}
static void many_threads_in_many_zones(void **state) {
    (void)state;
    many_threads(true);
}

/* ---- real programs ---- */

typedef struct event {
    char op;
    unsigned id;
    size_t bytes;
} event;

static event *read_trace(const char *name, size_t *n, unsigned *ids) {
    char path[512], line[128];
    const char *root = getenv("TIDE_TEST_SOURCE");
    size_t cap = 1 << 16;
    snprintf(path, sizeof path, "%s/tests/traces/%s.csv.gz", root ? root : ".", name);
    gzFile f = gzopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    event *e = malloc(cap * sizeof *e);
    *n = *ids = 0;
    gzgets(f, line, sizeof line);
    while (gzgets(f, line, sizeof line)) {
        unsigned long long bytes = 0;
        event x = {.op = line[0]};
        if (x.op != 's') sscanf(line + 2, "%u,%llu", &x.id, &bytes);
        x.bytes = bytes;
        if (x.op != 's' && x.id >= *ids) *ids = x.id + 1;
        if (*n == cap) e = realloc(e, (cap *= 2) * sizeof *e);
        e[(*n)++] = x;
    }
    gzclose(f);
    return e;
}

/* Peak backed over peak live, of one stream whose work nobody ever asks after. */
static double replay(const char *name, size_t page_bytes) {
    size_t n, live = 0, peak = 0;
    unsigned ids;
    event *e = read_trace(name, &n, &ids);
    tidei_pool *p = open_pool(&tidei_pool_tide, page_bytes, (size_t)16 << 30);
    tidei_block *b = calloc(ids, sizeof *b);
    double_owner *owners = calloc(ids, sizeof *owners);
    p->mover = &double_mover;
    movers.tick = 0;
    for (size_t i = 0; i < n; i++) {
        tidei_block *x = &b[e[i].id];
        if (e[i].op == 'a' && e[i].bytes) {
            *x = must(p, e[i].bytes, 0);
            owners[e[i].id] = (double_owner){.b = x};
            p->ops->own(p, x, &owners[e[i].id]);
            live += x->bytes;
            peak = tidei_max_size(peak, live);
        } else if (e[i].op == 'f' && x->priv) {
            live -= x->bytes;
            put(p, x, 0, ++movers.tick);
            x->priv = NULL;
        }
    }
    double ratio = (double)dbl.peak / (double)peak;
    print_message("# %s, pages of %zu KiB: %.4f of %.1f MiB live, %ld growths\n", name,
                  page_bytes / KIB, ratio, (double)peak / (double)MIB, dbl.calls[CALL_MAP]);
    close_clean(p);
    free(owners);
    free(b);
    free(e);
    return ratio;
}

static void wastes_little_on_real_programs(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double bar[2]; /* with pages of 2 MiB, as on a GPU, and of 64 KiB, as on a host */
    } traces[] = {{"gpt2-train-varlen", {1.02, 1.02}},
                  {"resnet50-train-varbatch", {1.03, 1.03}},
                  {"lstm-train-unrolled", {1.05, 1.03}},
                  {"linalg-mix", {1.05, 1.03}}};
    for (unsigned i = 0; i < TIDEI_COUNT(traces); i++) {
        assert_true(replay(traces[i].name, 2 * MIB) <= traces[i].bar[0]);
        assert_true(replay(traces[i].name, 64 * KIB) <= traces[i].bar[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_a_model),
        cmocka_unit_test(random_in_many_zones),
        cmocka_unit_test(many_threads_get_blocks_of_their_own),
        cmocka_unit_test(many_threads_in_many_zones),
        cmocka_unit_test(wastes_little_on_real_programs),
    };
    return cmocka_run_group_tests_name("pool_tide_model", tests, NULL, NULL);
}
