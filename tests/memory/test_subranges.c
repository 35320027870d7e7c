/* test_subranges.c: uses of parts of one storage on several streams: those that share no byte do
** not wait for each other, the others do, the host's included; and storages that are not ordered.
** The checker is on throughout. */
#include "tests/support/runtime_half.h"
#include "runtime/memory/subranges.h"
#include <limits.h>

#define BYTES ((size_t)4096)
#define HALF  (BYTES / 2)

static tidei_stream *stream(tidei_runtime *rt) {
    tidei_stream *s;
    assert_ok(tidei_stream_open(&rt->devs[0], &s));
    return s;
}
static tidei_storage *storage(tidei_runtime *rt, tidei_stream *s) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(&rt->devs[0], BYTES, s, "test", &st));
    return st;
}
static uint64_t waits(tidei_runtime *rt) { return test_stats(rt->ref).device_waits; }

/* Reads or writes (dst = add) a stretch on s, once the gate opens. */
static void run_part(const void *params) {
    const struct work *w = params;
    while (w->gate && !atomic_load(w->gate)) sched_yield();
    for (size_t i = 0; i < w->bytes && w->add >= 0; i++) w->dst[i] = (unsigned char)w->add;
}
static tide_status use_part(tidei_stream *s, tidei_storage *st, size_t from, size_t to, int add,
                            atomic_int *gate) {
    struct work w = {.bytes = to - from, .add = add, .gate = gate};
    tidei_use use = {st, from, to - from, add >= 0 ? TIDEI_WRITE : TIDEI_READ};
    tidei_launch l = {.name = "part", .host_fn = run_part, .params = &w, .params_bytes = sizeof w};
    return tidei_submit_launch(s, &use, 1, &l, &w, NULL, "part");
}
enum { READS = -1 };

/* A storage of stream a, a second stream, and a gate that is closed. */
struct place {
    tidei_runtime *rt;
    tidei_stream *a, *b;
    tidei_storage *x;
    atomic_int gate;
};
static void place_open(struct place *p) {
    *p = (struct place){.rt = half_open(NULL, TIDEI_MIB)};
    p->a = stream(p->rt);
    p->b = stream(p->rt);
    p->x = storage(p->rt, p->a);
}
static void place_close(struct place *p) {
    atomic_store(&p->gate, 1);
    tidei_storage_release(p->x);
    half_close(p->rt);
}

static void stretches_apart_do_not_wait(void **state) {
    static const struct {
        size_t from, to;
        int add, waits;
    } rows[] = {
        {HALF, BYTES, 2, 0},         {HALF, BYTES, READS, 0}, {HALF - 1, BYTES, 2, 1},
        {HALF - 1, BYTES, READS, 1}, {0, 1, READS, 1},        {0, BYTES, 2, 1},
        {0, BYTES, READS, 1},        {100, 200, 2, 1},        {BYTES - 1, BYTES, 2, 0},
    };
    (void)state;
    for (int mode = 0; mode < 2; mode++) /* the first use writes, reads */
        for (unsigned r = 0; r < TIDEI_COUNT(rows); r++) {
            struct place p;
            place_open(&p);
            assert_ok(use_part(p.a, p.x, 0, HALF, mode ? READS : 1, &p.gate));
            uint64_t before = waits(p.rt);
            assert_ok(use_part(p.b, p.x, rows[r].from, rows[r].to, rows[r].add, NULL));
            /* readers do not wait for readers */
            int expected = mode && rows[r].add == READS ? 0 : rows[r].waits;
            assert_int_equal(waits(p.rt) - before, expected);
            if (!expected) assert_ok(tidei_stream_wait(p.b, true)); /* the gate is still closed */
            place_close(&p);
        }
}

/* What the host reads is waited for, what others do elsewhere in the storage is not. */
static void the_host_waits_for_its_part(void **state) {
    struct place p;
    (void)state;
    place_open(&p);
    assert_ok(use_part(p.a, p.x, 0, HALF, 1, &p.gate));
    assert_ok(use_part(p.b, p.x, HALF, BYTES, 2, NULL));
    assert_ok(tidei_use_wait(&(tidei_use){p.x, HALF, HALF, TIDEI_READ}));
    assert_int_equal(*(unsigned char *)(uintptr_t)(p.x->addr + HALF), 2);
    atomic_store(&p.gate, 1);
    assert_int_equal(first_byte(p.x), 1);
    place_close(&p);
}

/* A block goes back with all that is pending on its parts. */
static void a_block_takes_its_parts_along(void **state) {
    struct place p;
    (void)state;
    place_open(&p);
    assert_ok(use_part(p.a, p.x, 0, HALF, 1, &p.gate));
    assert_ok(use_part(p.b, p.x, HALF, BYTES, 2, NULL));
    tidei_addr addr = p.x->addr;
    tidei_storage_release(p.x);
    p.x = storage(p.rt, p.b); /* not the block that a still writes */
    assert_true(p.x->addr != addr);
    place_close(&p);
}

/* More stretches than are told apart: the oldest then stands for the whole. */
static void the_oldest_of_many_stretches_stands_for_all(void **state) {
    struct place p;
    (void)state;
    place_open(&p);
    for (size_t i = 0; i < 2 * TIDEI_SUBRANGES_MAX; i++)
        assert_ok(use_part(p.a, p.x, i, i + 1, (int)i, i ? NULL : &p.gate));
    assert_int_equal(p.x->subranges->n, TIDEI_SUBRANGES_MAX);
    uint64_t before = waits(p.rt);
    assert_ok(use_part(p.b, p.x, HALF, BYTES, 1, NULL));
    assert_int_equal(waits(p.rt) - before, 1);
    assert_ok(use_part(p.a, p.x, 0, BYTES, 7, NULL)); /* over all of them */
    assert_int_equal(p.x->subranges->n, 0);
    atomic_store(&p.gate, 1);
    assert_int_equal(first_byte(p.x), 7);
    place_close(&p);
}

/* One stream alone keeps no parts. */
static void one_stream_needs_none(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_storage *x = storage(rt, rt->devs[0].stream0);
    (void)state;
    for (size_t i = 0; i < 40; i++) assert_ok(use_part(rt->devs[0].stream0, x, i, i + 1, 1, NULL));
    assert_null(x->subranges);
    tidei_storage_release(x);
    half_close(rt);
}

/* ---- random programs ---- */

enum { STREAMS = 4, STORAGES = 3, SMALL = 64 };
struct sum {
    unsigned char *dst;
    const unsigned char *src;
    size_t bytes;
    int add, dawdle;
};
static void run_sum(const void *params) {
    const struct sum *w = params;
    for (int i = 0; i < w->dawdle; i++) sched_yield();
    for (size_t i = 0; i < w->bytes; i++) w->dst[i] = (unsigned char)(w->src[i] + w->add);
}
static uint64_t dice(uint64_t *r, uint64_t n) {
    *r = *r * 6364136223846793005u + 1442695040888963407u;
    return (*r >> 33) % n;
}
struct world {
    tidei_stream *s[STREAMS];
    tidei_storage *x[STORAGES];
    unsigned char model[STORAGES][SMALL];
};
/* dst = src + add between two stretches that do not overlap. */
static void random_sum(struct world *w, uint64_t *r) {
    size_t bytes = 1 + dice(r, SMALL / 2), to = dice(r, SMALL - bytes + 1),
           from = dice(r, SMALL - bytes + 1);
    unsigned d = (unsigned)dice(r, STORAGES), f = (unsigned)dice(r, STORAGES);
    if (d == f && to < from + bytes && from < to + bytes) return;
    struct sum sum = {.bytes = bytes, .add = (int)dice(r, 9), .dawdle = (int)dice(r, 20)};
    tidei_use uses[2] = {{w->x[d], to, bytes, TIDEI_WRITE}, {w->x[f], from, bytes, TIDEI_READ}};
    tidei_launch l = {
        .name = "sum", .host_fn = run_sum, .params = &sum, .params_bytes = sizeof sum};
    assert_ok(tidei_submit_launch(w->s[dice(r, STREAMS)], uses, 2, &l, &sum, NULL, "sum"));
    for (size_t i = 0; i < bytes; i++)
        w->model[d][to + i] = (unsigned char)(w->model[f][from + i] + sum.add);
}
static void anew(struct world *w, tidei_runtime *rt, unsigned i, uint64_t *r) {
    tidei_stream *s = w->s[dice(r, STREAMS)];
    unsigned char zero = 0;
    assert_ok(tidei_storage_new(&rt->devs[0], SMALL, s, "test", &w->x[i]));
    assert_ok(tidei_submit_fill(s, w->x[i], 0, &zero, 1, SMALL, "test"));
    memset(w->model[i], 0, SMALL);
}
static void random_programs_agree_with_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
        struct world w;
        uint64_t r = seed * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < STREAMS; i++) w.s[i] = stream(rt);
        for (unsigned i = 0; i < STORAGES; i++) anew(&w, rt, i, &r);
        for (int step = 0; step < 300; step++) {
            unsigned i = (unsigned)dice(&r, STORAGES);
            if (dice(&r, 40) == 0) {
                tidei_storage_release(w.x[i]);
                anew(&w, rt, i, &r);
            } else if (dice(&r, 30) == 0) {
                size_t at = dice(&r, SMALL);
                assert_ok(tidei_use_wait(&(tidei_use){w.x[i], at, 1, TIDEI_READ}));
                assert_int_equal(*(unsigned char *)(uintptr_t)(w.x[i]->addr + at), w.model[i][at]);
            } else {
                random_sum(&w, &r);
            }
        }
        for (unsigned i = 0; i < STORAGES; i++) {
            assert_ok(tidei_storage_wait(w.x[i], TIDEI_READ));
            assert_memory_equal((void *)(uintptr_t)w.x[i]->addr, w.model[i], SMALL);
            tidei_storage_release(w.x[i]);
        }
        half_close(rt);
    }
}

/* ---- what is not ordered ---- */

static void an_unordered_storage_waits_for_nothing(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_stream *a = stream(rt), *b = stream(rt), *c = stream(rt);
    tidei_storage *x = storage(rt, a);
    atomic_int gate = 0, later = 0;
    (void)state;
    assert_ok(use_part(a, x, 0, BYTES, 1, &gate));
    assert_ok(tidei_storage_set_ordered(x, false, "test"));
    uint64_t before = waits(rt);
    assert_ok(use_part(b, x, 0, HALF, READS, &later)); /* what came before is still waited for */
    assert_int_equal(waits(rt) - before, 1);
    atomic_store(&gate, 1);
    assert_ok(tidei_stream_wait(a, true));
    before = waits(rt);
    assert_ok(use_part(c, x, 0, BYTES, 2, NULL));
    assert_int_equal(waits(rt) - before, 0);
    assert_ok(tidei_stream_wait(c, true)); /* while b reads */
    assert_ok(tidei_storage_set_ordered(x, true, "test"));
    assert_ok(use_part(c, x, 0, BYTES, 3, NULL));
    assert_int_equal(waits(rt) - before, 1);
    tidei_addr addr = x->addr;
    tidei_storage_release(x);
    x = storage(rt, a);
    assert_true(x->addr != addr); /* b has not read it yet */
    atomic_store(&later, 1);
    tidei_storage_release(x);
    half_close(rt);
}

/* A block that is given back while nobody is told of its uses is nobody else's before they are
** over. */
static void an_unordered_block_is_not_reused_early(void **state) {
    struct place p;
    (void)state;
    place_open(&p);
    assert_ok(tidei_storage_set_ordered(p.x, false, "test"));
    assert_ok(use_part(p.a, p.x, 0, BYTES, 1, &p.gate));
    assert_ok(use_part(p.b, p.x, 0, BYTES, READS, NULL));
    tidei_addr addr = p.x->addr;
    tidei_storage_release(p.x);
    p.x = storage(p.rt, p.b);
    assert_true(p.x->addr != addr);
    place_close(&p);
}

/* ---- failures ---- */

/* The n-th allocation and the next fail (the first alone is tried again), until none does: the call
** says so, and is repeated. */
static long host_calls, host_fails;
static void *failing_alloc(void *user, size_t bytes) {
    (void)user;
    long past = ++host_calls - host_fails;
    return past == 0 || past == 1 ? NULL : malloc(bytes);
}
static void plain_free(void *user, void *p) { (void)user, free(p); }
static void every_allocation_may_fail(void **state) {
    tide_allocator host = {.alloc = failing_alloc, .free = plain_free};
    tide_config k = {.struct_size = sizeof k, .allocator = &host};
    bool failed = true;
    (void)state;
    for (long n = 1; failed; n++) {
        host_fails = LONG_MAX;
        tidei_runtime *rt = half_open(&k, TIDEI_MIB);
        tidei_stream *a = stream(rt), *b = stream(rt);
        tidei_storage *x = storage(rt, a);
        failed = false;
        host_fails = host_calls + n;
        for (int i = 0; i < 3; i++) {
            struct work w = {.bytes = HALF, .add = i};
            tidei_use use = {x, i % 2 ? HALF : 0, HALF, TIDEI_WRITE};
            tidei_launch l = {
                .name = "part", .host_fn = run_part, .params = &w, .params_bytes = sizeof w};
            tide_status status =
                i == 2 ? tidei_storage_set_ordered(x, false, "test")
                       : tidei_submit_launch(i ? b : a, &use, 1, &l, &w, NULL, "part");
            if (status == TIDE_OK) continue;
            assert_int_equal(status, TIDE_E_HOST_NOMEM);
            failed = true;
            i--; /* once more */
        }
        host_fails = LONG_MAX;
        assert_true(n > 1 || failed); /* something is allocated */
        tidei_storage_release(x);
        half_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_apart_do_not_wait),
        cmocka_unit_test(the_host_waits_for_its_part),
        cmocka_unit_test(a_block_takes_its_parts_along),
        cmocka_unit_test(the_oldest_of_many_stretches_stands_for_all),
        cmocka_unit_test(one_stream_needs_none),
        cmocka_unit_test(random_programs_agree_with_the_model),
        cmocka_unit_test(an_unordered_storage_waits_for_nothing),
        cmocka_unit_test(an_unordered_block_is_not_reused_early),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
