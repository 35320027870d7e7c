/* test_compact.c: arrays that move so that a large one fits: the pictures of fragmented memory
** (E17, E19), scaled down, on the device under test, and moves while other threads use what moves.
** A limit makes the fragments matter. */
#include "tests/support/tidetest.h"
#include "arrays/arrays.h"

#define MIB TIDEI_MIB

static tidei_runtime *open_with(size_t limit) {
    char text[32];
    snprintf(text, sizeof text, "%zu", limit);
    return test_open_rt(
        &(tide_config){.collector = "refcount", .pool = "tide", .limit = text, .policy = "never"});
}

/* `mib` MiB of a pattern that tells arrays apart. */
static tide_array *filled(tidei_runtime *rt, int64_t mib, int mark) {
    return tide_full(rt->ref, TIDE_I32, SHAPE(mib << 18), tide_arg_int(mark));
}

static void check(tide_array *a, int mark) {
    tide_array *low = tide_map(tide_array_runtime(a), "(a) -> min(a)", a);
    tide_array *high = tide_map(tide_array_runtime(a), "(a) -> max(a)", a);
    assert_array(low);
    assert_array(high);
    assert_true(tide_item_f64(low) == mark && tide_item_f64(high) == mark);
    tide_free(low);
    tide_free(high);
}

static uint64_t compactions(tidei_runtime *rt) {
    tidei_pool_stats s;
    rt->devs[0].pool->ops->stats(rt->devs[0].pool, &s);
    return s.compactions;
}

/* Arrays of these sizes fill the limit; some are dropped; then one of `ask` MiB, which has no hole
** of its size. The others keep what they hold. MiB stand for 64 of the pictures'. */
static void picture(size_t limit, const int *sizes, unsigned n, unsigned drop, int64_t ask) {
    tidei_runtime *rt = open_with(limit * MIB + MIB); /* and a little for what looks at them */
    tide_array *a[8];
    for (unsigned i = 0; i < n; i++) assert_array(a[i] = filled(rt, sizes[i], (int)i + 1));
    for (unsigned i = 0; i < n; i++)
        if (drop >> i & 1) tide_free(a[i]);
    tide_array *big = filled(rt, ask, 99);
    assert_array(big);
    check(big, 99);
    for (unsigned i = 0; i < n; i++) {
        if (drop >> i & 1) continue;
        check(a[i], (int)i + 1);
        tide_free(a[i]);
    }
    tide_free(big);
    assert_true(tidei_runtime_valid(rt));
    tide_close(rt->ref);
}

static void e17_the_pictures(void **state) {
    (void)state;
    picture(128, (int[]){32, 64}, 2, 1, 48);
    picture(96, (int[]){16, 16, 16, 16, 16, 16}, 6, 0x2a, 32);
    picture(128, (int[]){32, 32, 32}, 3, 2, 48);
}

/* ---- below a page ---- */

enum { SMALL = 4096, SMALL_BYTES = 8192, KEPT = SMALL / 4, SCOPE = 64 };

static void pin_all(tidei_runtime *rt, tide_array **a, tide_use_scope **scopes) {
    tide_use uses[SCOPE];
    void *ptrs[SCOPE];
    for (unsigned i = 0; i < KEPT; i += SCOPE) {
        for (unsigned k = 0; k < SCOPE; k++)
            uses[k] = (tide_use){.array = a[4 * (i + k)], .mode = TIDE_READ};
        assert_ok(tide_use_begin(rt->ref, NULL, uses, SCOPE, ptrs, &scopes[i / SCOPE]));
    }
}

static void e19_below_a_page(void **state) {
    (void)state;
    tidei_runtime *rt = open_with((size_t)SMALL * SMALL_BYTES);
    tide_array **a = calloc(SMALL, sizeof *a);
    tide_use_scope *scopes[KEPT / SCOPE];
    const int64_t n = SMALL_BYTES / 4, big[] = {5 << 20};
    for (unsigned i = 0; i < SMALL; i++)
        assert_array(a[i] = tide_full(rt->ref, TIDE_I32, 1, &n, tide_arg_int((int)i)));
    for (unsigned i = 0; i < SMALL; i++)
        if (i % 4) tide_free(a[i]);
    pin_all(rt, a, scopes);
    assert_null(tide_empty(rt->ref, TIDE_I32, 1, big));
    assert_error(TIDE_E_NOMEM, "out of memory");
    assert_error(TIDE_E_NOMEM, "(pinned 8.000 MiB)");
    assert_error(TIDE_E_NOMEM, "largest piece that fits now: 24.000 KiB");
    for (unsigned i = 0; i < TIDEI_COUNT(scopes); i++) assert_ok(tide_use_end(scopes[i]));
    tide_array *b = tide_empty(rt->ref, TIDE_I32, 1, big);
    assert_array(b);
    tidei_pool_stats s;
    rt->devs[0].pool->ops->stats(rt->devs[0].pool, &s);
    assert_in_range(s.bytes_moved, 1, (size_t)KEPT * SMALL_BYTES);
    for (unsigned i = 0; i < SMALL; i += 4) {
        int32_t *host = malloc(SMALL_BYTES);
        assert_ok(tide_to_host(a[i], host, SMALL_BYTES));
        for (int64_t k = 0; k < n; k++) assert_int_equal(host[k], (int)i);
        free(host);
        tide_free(a[i]);
    }
    tide_free(b);
    free(a);
    tide_close(rt->ref);
}

/* ---- how blocks are moved ---- */

enum { UNIT = 4096, LIMIT = 1 << 20 };

/* A host device that looks at what is moved, and fails, the first half of the copies queued, when
** its turn has come. */
static struct {
    struct tidei_device_ops ops;
    const struct tidei_device_ops *real;
    unsigned calls, most; /* most: pieces in one call */
    size_t pieces;
    unsigned fail_at;
} watch;

static bool overlap(tidei_addr a, size_t n, tidei_addr b, size_t m) {
    return a < b + m && b < a + n;
}

static tide_status watched_copy_many(tidei_device *d, tidei_dstream *s, const tidei_piece *p,
                                     size_t n) {
    watch.pieces += n;
    if (n > watch.most) watch.most = (unsigned)n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            if (overlap(p[i].dst, p[i].bytes, p[k].src, p[k].bytes))
                fail_msg("%zu goes over %zu of %zu", i, k, n);
            if (i != k && overlap(p[i].dst, p[i].bytes, p[k].dst, p[k].bytes))
                fail_msg("%zu and %zu meet", i, k);
        }
    if (++watch.calls != watch.fail_at) return watch.real->copy_many(d, s, p, n);
    assert_ok(watch.real->copy_many(d, s, p, n / 2));
    return tidei_fail(TIDE_E_DEVICE, "copy_many", "half of them are queued");
}

typedef struct rows {
    tidei_runtime *rt;
    tidei_dev *d;
    tidei_storage *st[LIMIT / UNIT]; /* NULL: dropped */
    unsigned n;
    tidei_stream *other; /* knows of all the work before the moves */
} rows;

/* Memory full of blocks, by turns of `kept` and `dropped` units, the latter dropped; the former
** know their number. */
static void open_rows(rows *r, size_t kept, size_t dropped) {
    tidei_device_params p = {.host_device_memory = 4 * LIMIT, .host_checker = true};
    tide_config c = {.struct_size = sizeof c, .pool = "tide", .limit = "1M", .policy = "never"};
    tidei_device *d;
    memset(r, 0, sizeof *r);
    assert_ok(tidei_host_open(&p, &d));
    memset(&watch, 0, sizeof watch);
    watch.real = d->ops;
    watch.ops = *d->ops;
    watch.ops.copy_many = watched_copy_many;
    d->ops = &watch.ops;
    assert_ok(tidei_runtime_open_on(&c, d, &r->rt));
    r->d = &r->rt->devs[0];
    for (size_t at = 0; at + (kept + dropped) * UNIT <= LIMIT; at += (kept + dropped) * UNIT)
        for (unsigned k = 0; k < 2; k++) {
            unsigned i = r->n++;
            assert_ok(tidei_storage_new(r->d, (k ? dropped : kept) * UNIT - 7, r->d->stream0,
                                        "test", &r->st[i]));
            assert_ok(tidei_submit_fill(r->d->stream0, r->st[i], 0, &(uint8_t){(uint8_t)i}, 1,
                                        r->st[i]->bytes, "test"));
        }
    for (unsigned i = 1; i < r->n; i += 2) {
        tidei_storage_release(r->st[i]);
        r->st[i] = NULL;
    }
    assert_ok(tidei_stream_open(r->d, &r->other));
    assert_ok(tidei_stream_follow(r->other, r->d->stream0, atomic_load(&r->d->stream0->submitted)));
}

static void check_rows(rows *r) {
    static uint8_t host[LIMIT];
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->st[i]) continue;
        size_t n = r->st[i]->bytes;
        assert_ok(tidei_submit_copy(r->d->stream0, TIDEI_COPY_D2H, NULL, 0, host, r->st[i], 0, n,
                                    "test"));
        for (size_t k = 0; k < n; k++)
            if (host[k] != (uint8_t)i) fail_msg("byte %zu of block %u", k, i);
    }
}

static void close_rows(rows *r) {
    for (unsigned i = 0; i < r->n; i++)
        if (r->st[i]) tidei_storage_release(r->st[i]);
    tidei_stream_drop(r->other);
    assert_ok(tidei_streams_wait_all(r->d, true));
    assert_true(tidei_runtime_valid(r->rt));
    assert_int_equal(tidei_host_checker_reports(r->d->d), 0);
    tidei_runtime_close(r->rt);
}

/* `units` in one piece, between the rows. */
static tide_status ask(rows *r, size_t units) {
    tidei_storage *big;
    tide_status st = tidei_storage_new(r->d, units * UNIT, r->d->stream0, "test", &big);
    if (st != TIDE_OK) return st;
    assert_ok(tidei_submit_fill(r->d->stream0, big, 0, &(uint8_t){0xFF}, 1, big->bytes, "test"));
    tidei_storage_release(big);
    return TIDE_OK;
}

static void blocks_leave_a_stretch_at_once(void **state) {
    (void)state;
    rows r;
    open_rows(&r, 1, 1);
    assert_ok(ask(&r, 64));
    assert_int_equal(watch.calls, 1);
    assert_in_range(watch.pieces, 31, 32);
    check_rows(&r);
    close_rows(&r);
}

/* No hole takes a block, so they slide: the first ones over themselves, then more and more at
** once. */
static void blocks_slide_in_batches(void **state) {
    (void)state;
    rows r;
    open_rows(&r, 2, 1);
    assert_ok(ask(&r, 80));
    assert_in_range(watch.pieces, 79, 82);
    assert_in_range(watch.calls, 5, 16);
    assert_in_range(watch.most, 20, 80);
    check_rows(&r);
    close_rows(&r);
}

/* On the other stream: what the moves may have read or written is waited for. */
static void use_blocks_elsewhere(rows *r) {
    for (unsigned i = 0; i < r->n; i++)
        if (r->st[i])
            assert_ok(tidei_submit_fill(r->other, r->st[i], 0, &(uint8_t){(uint8_t)i}, 1,
                                        r->st[i]->bytes, "test"));
}
static void use_holes_elsewhere(rows *r) {
    tidei_storage *st[LIMIT / UNIT];
    unsigned n = 0;
    while (n < TIDEI_COUNT(st) &&
           tidei_storage_new(r->d, UNIT, r->other, "test", &st[n]) == TIDE_OK) {
        assert_ok(tidei_submit_fill(r->other, st[n], 0, &(uint8_t){0xFE}, 1, UNIT, "test"));
        n++;
    }
    assert_true(n > 0);
    while (n) tidei_storage_release(st[--n]);
}

/* One round of this in which the n-th batch fails: what moved before it has moved, the others are
** where they were. True: none was the n-th. */
static bool batch_fails(size_t kept, unsigned n, void (*use_elsewhere)(rows *r)) {
    rows r;
    size_t units = kept == 1 ? 64 : 80;
    open_rows(&r, kept, 1);
    watch.fail_at = n;
    tide_status st = ask(&r, units);
    if (st == TIDE_E_LOST) { /* half of a block went over itself */
        assert_error(TIDE_E_LOST, "failed half-way");
        assert_true(atomic_load(&r.d->d->lost));
        for (unsigned i = 0; i < r.n; i++)
            if (r.st[i]) tidei_storage_release(r.st[i]);
        tidei_stream_drop(r.other);
        tidei_runtime_close(r.rt);
        assert_true(kept > 1);
        return false;
    }
    if (st != TIDE_OK) assert_error(TIDE_E_DEVICE, "half of them are queued");
    assert_true(tidei_runtime_valid(r.rt));
    use_elsewhere(&r);
    check_rows(&r);
    assert_ok(ask(&r, units));
    check_rows(&r);
    close_rows(&r);
    return st == TIDE_OK;
}

static void batches_that_fail(void **state) {
    (void)state;
    for (size_t kept = 1; kept <= 2; kept++) {
        unsigned n = 1;
        while (!batch_fails(kept, n, use_blocks_elsewhere)) n++;
        assert_true(n > kept);
        for (n = 1; !batch_fails(kept, n, use_holes_elsewhere);) n++;
    }
}

/* ---- while others are at work ---- */

enum { THREADS = 4, SLOTS = 12 };
static struct {
    tidei_runtime *rt;
    atomic_bool bad;
} busy;

static bool holds(tide_array *a, int mark) {
    tide_array *same = tide_map(busy.rt->ref, "(a, m) -> sum(where(a == m, 0, 1))", a, mark);
    bool ok = !same || tide_item_f64(same) == 0; /* none: no room for it just now */
    tide_free(same);
    return ok;
}

/* Fills, looks and drops arrays of many sizes on a stream of its own; what does not fit is left
** out. */
static void *work(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    tide_array *a[SLOTS] = {NULL};
    int marks[SLOTS] = {0};
    tidei_stream *s = NULL;
    if (tidei_stream_open(&busy.rt->devs[0], &s) != TIDE_OK ||
        tide_stream_set(busy.rt->ref, s->ref) != TIDE_OK)
        busy.bad = true;
    unsigned rounds = getenv("TIDE_TEST_QUICK") ? 200 : 600;
    for (unsigned i = 0; i < rounds && !busy.bad; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned k = (unsigned)(seed >> 33) % SLOTS;
        if (a[k]) {
            if (!holds(a[k], marks[k])) busy.bad = true;
            tide_free(a[k]);
            a[k] = NULL;
        } else {
            marks[k] = (int)(i * THREADS + (uintptr_t)arg);
            a[k] = tide_full(busy.rt->ref, TIDE_I32, SHAPE((int64_t)(256 + (seed >> 40) % 60000)),
                             tide_arg_int(marks[k]));
        }
    }
    for (unsigned k = 0; k < SLOTS; k++) {
        if (a[k] && !holds(a[k], marks[k])) busy.bad = true;
        tide_free(a[k]);
    }
    if (tide_stream_set(busy.rt->ref, NULL) != TIDE_OK) busy.bad = true;
    tide_stream_release(s->ref);
    return NULL;
}

static void arrays_move_while_others_are_used(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    busy.bad = false;
    busy.rt = open_with(4 * MIB);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_false(busy.bad);
    assert_true(compactions(busy.rt) > 0);
    assert_ok(tide_device_synchronize(busy.rt->ref));
    assert_true(tidei_runtime_valid(busy.rt));
    assert_int_equal(test_stats(busy.rt->ref).live, 0);
    tide_close(busy.rt->ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e17_the_pictures),
        cmocka_unit_test(e19_below_a_page),
        cmocka_unit_test(blocks_leave_a_stretch_at_once),
        cmocka_unit_test(blocks_slide_in_batches),
        cmocka_unit_test(batches_that_fail),
        cmocka_unit_test(arrays_move_while_others_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
