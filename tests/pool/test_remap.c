/* test_remap.c: large requests where pinned blocks stand between the free bytes: pages change their
** addresses. What blocks hold is looked at throughout; device calls fail in turn; other threads are
** at work meanwhile. */
#include "tests/support/tidetest.h"

enum { BLOCKS = 256, PER_PAGE = 8, PAGES = BLOCKS / PER_PAGE };
static size_t page, small; /* of the device; of a block: eight make a page */

static tidei_device *bare; /* the last one that was opened */

static struct blocks {
    tidei_dev *d;
    tidei_storage *st[BLOCKS];
    bool pinned[BLOCKS];
} blocks;

/* With a limit of so many pages. */
static tide_runtime *open_on(tidei_device *device, size_t pages) {
    char text[32];
    tide_runtime *rt;
    snprintf(text, sizeof text, "%zu", pages * device->info.page_bytes);
    tide_config c = {.struct_size = sizeof c,
                     .device = test_device(),
                     .collector = "refcount",
                     .pool = "tide",
                     .limit = text,
                     .policy = "never"};
    assert_ok(tidei_open_on(&c, device, &rt));
    return rt;
}

static tidei_device *open_device(void) {
    tidei_device_params params = {.host_device_memory = (size_t)256 << 20, .host_checker = true};
    tidei_device *inner;
    if (test_on_host()) {
        assert_ok(tidei_host_open(&params, &inner));
    } else {
        test_keep_context();
        assert_ok(tidei_cuda_open(&(tidei_device_params){0}, &inner));
    }
    bare = inner;
    page = inner->info.page_bytes;
    small = page / PER_PAGE;
    return inner;
}

/* Fewer rounds: sanitized builds are slow, and so is reading megabytes back from a GPU. */
static bool brief(void) { return test_quick() || !test_on_host(); }

/* ---- what they hold ---- */

static tide_status fill(tidei_storage *st, uint64_t mark) {
    return tidei_submit_fill(st->dev->stream0, st, 0, &mark, sizeof mark, st->bytes / sizeof mark,
                             "test");
}

static bool holds_at(tidei_storage *st, size_t at, size_t bytes, uint64_t mark) {
    uint64_t *host = malloc(bytes);
    bool ok = tidei_submit_copy(st->dev->stream0, TIDEI_COPY_D2H, NULL, 0, host, st, at, bytes,
                                "test") == TIDE_OK;
    for (size_t i = 0; ok && i < bytes / sizeof mark; i++) ok = host[i] == mark;
    free(host);
    return ok;
}
/* All of it; of what a GPU would be long in sending, both ends. */
static bool holds(tidei_storage *st, uint64_t mark) {
    size_t end = test_on_host() ? st->bytes : tidei_min_size(st->bytes, 32 * TIDEI_KIB);
    return holds_at(st, 0, end, mark) &&
           (end == st->bytes || holds_at(st, st->bytes - end, end, mark));
}

static uint64_t mark_of(unsigned i) { return 0x0101010101010101u * (i % 255 + 1) ^ i; }

/* Fills `n` blocks of the limit, and frees those whose bit in `freed`, which repeats, is set. */
static void blocks_make(tide_runtime *rt, unsigned n, unsigned freed) {
    memset(&blocks, 0, sizeof blocks);
    blocks.d = &test_rt(rt)->devs[0];
    for (unsigned i = 0; i < n; i++) {
        assert_ok(tidei_storage_new(blocks.d, small, blocks.d->stream0, "test", &blocks.st[i]));
        assert_ok(fill(blocks.st[i], mark_of(i)));
    }
    for (unsigned i = 0; i < n; i++) {
        if (!(freed >> i % 32 & 1)) continue;
        tidei_storage_release(blocks.st[i]);
        blocks.st[i] = NULL;
    }
}

static void block_pin(unsigned i) {
    if (!blocks.st[i] || blocks.pinned[i]) return;
    tidei_storage_pin(blocks.st[i]);
    blocks.pinned[i] = true;
}

static void blocks_check(void) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks.st[i]) assert_true(holds(blocks.st[i], mark_of(i)));
    assert_true(tidei_runtime_valid(blocks.d->rt));
}

static void blocks_drop(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (!blocks.st[i]) continue;
        if (blocks.pinned[i]) tidei_storage_unpin(blocks.st[i]);
        tidei_storage_release(blocks.st[i]);
    }
    assert_int_equal(atomic_load(&blocks.d->budget->live), 0);
    if (test_on_host()) assert_int_equal(tidei_host_checker_reports(bare), 0);
}

static tide_status ask(size_t bytes, tidei_storage **out) {
    return tidei_storage_new(blocks.d, bytes, blocks.d->stream0, "test", out);
}

static tidei_pool_stats figures(void) {
    tidei_pool_stats s;
    blocks.d->pool->ops->stats(blocks.d->pool, &s);
    return s;
}

/* ---- a quarter of the limit ---- */

/* Every second block is freed, and one in `each` of the rest pinned; a quarter of the limit fits in
** one piece all the same. */
static void ask_for_a_quarter(unsigned each) {
    tide_runtime *rt = open_on(open_device(), PAGES);
    tidei_storage *big;
    tidei_addr at[BLOCKS];
    blocks_make(rt, BLOCKS, 0x55555555);
    for (unsigned i = 1; i < BLOCKS; i += 2 * each) block_pin(i);
    for (unsigned i = 1; i < BLOCKS; i += 2) at[i] = blocks.st[i]->addr;
    size_t backed = figures().backed;
    assert_ok(ask(BLOCKS / 4 * small, &big));
    assert_ok(fill(big, 42));
    blocks_check();
    assert_true(holds(big, 42));
    assert_int_equal(figures().backed, backed);
    assert_in_range(figures().bytes_remapped, page, BLOCKS * small);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        if (blocks.pinned[i]) assert_int_equal(blocks.st[i]->addr, at[i]);
    tidei_storage_release(big);
    blocks_drop();
    tide_close(rt);
}

static void a_quarter_of_the_limit_fits_between_pinned_blocks(void **state) {
    (void)state;
    ask_for_a_quarter(8);
    ask_for_a_quarter(16);
}

/* ---- pins at every place ---- */

/* Two pins among blocks of eight pages, of which half are free: without the pages that they hold,
** two more must be had. */
static void two_pins_at_any_place_leave_room(void **state) {
    (void)state;
    enum { N = 8 * PER_PAGE };
    for (unsigned a = 0; a < N; a += brief() ? 7 : 3)
        for (unsigned b = a + 1; b < N; b += 11) {
            tide_runtime *rt = open_on(open_device(), N / PER_PAGE);
            tidei_storage *big;
            blocks_make(rt, N, 0x33333333);
            block_pin(a | 2);
            block_pin(b | 2);
            assert_ok(ask(4 * page, &big));
            assert_ok(fill(big, a + 1));
            blocks_check();
            assert_true(holds(big, a + 1));
            tidei_storage_release(big);
            blocks_drop();
            tide_close(rt);
        }
}

/* One pin a page leaves none to be had; unpinned, all are. */
static void a_pin_on_every_page_leaves_no_room(void **state) {
    (void)state;
    tide_runtime *rt = open_on(open_device(), PAGES);
    tidei_storage *big;
    blocks_make(rt, BLOCKS, 0x55555555);
    for (unsigned i = 1; i < BLOCKS; i += PER_PAGE) block_pin(i);
    assert_int_equal(ask(page, &big), TIDE_E_NOMEM);
    assert_int_equal(figures().bytes_remapped, 0);
    blocks_check();
    for (unsigned i = 1; i < BLOCKS; i += PER_PAGE) {
        tidei_storage_unpin(blocks.st[i]);
        blocks.pinned[i] = false;
    }
    assert_ok(ask(BLOCKS / 2 * small, &big));
    blocks_check();
    tidei_storage_release(big);
    blocks_drop();
    tide_close(rt);
}

/* Once nothing could be moved out of the way small blocks lie at the high ends of free pieces,
** others at the low ones as before. */
static void small_blocks_keep_apart_after_a_refusal(void **state) {
    (void)state;
    tide_runtime *rt = open_on(open_device(), PAGES);
    tidei_storage *big, *before, *after, *half;
    blocks_make(rt, BLOCKS, 0x55555555);
    for (unsigned i = 1; i < BLOCKS; i += 2) block_pin(i);
    /* free pieces lie at multiples of `small` from here, as long each */
    tidei_addr first = blocks.st[1]->addr - small;
    /* nothing is in the way: there is too little in all */
    assert_int_equal(ask(PAGES * page, &big), TIDE_E_NOMEM);
    assert_ok(ask(256, &before));
    assert_int_equal((before->addr - first) % small, 0);
    assert_int_equal(ask((PAGES / 2 - 1) * page, &big), TIDE_E_NOMEM); /* there is enough */
    assert_ok(ask(256, &after));
    assert_in_range((after->addr - first) % small, small - 512, small - 256);
    assert_ok(ask(small / 2, &half));
    assert_in_range((half->addr - first) % small, 256, 512);
    tidei_storage_release(before);
    tidei_storage_release(after);
    tidei_storage_release(half);
    blocks_check();
    blocks_drop();
    tide_close(rt);
}

/* What cannot be had from pages comes from new ones, where the limit leaves some. */
static void new_pages_make_up_for_pinned_ones(void **state) {
    (void)state;
    tide_runtime *rt = open_on(open_device(), PAGES + 2);
    tidei_storage *big;
    blocks_make(rt, BLOCKS, 0x55555555);
    for (unsigned i = 1; i < BLOCKS; i += 2 * PER_PAGE) block_pin(i);
    /* half are without pins, and there are two more */
    assert_ok(ask((PAGES / 2 + 2) * page, &big));
    assert_int_equal(figures().backed, (PAGES + 2) * page);
    blocks_check();
    tidei_storage_release(big);
    blocks_drop();
    tide_close(rt);
}

/* ---- calls that fail ---- */

static const struct {
    enum tidei_fault_slot slot;
    tide_status status;
} faults[] = {{TIDEI_FAULT_UNMAP, TIDE_E_DEVICE},   {TIDEI_FAULT_MAP, TIDE_E_DEVICE},
              {TIDEI_FAULT_MAP, TIDE_E_NOMEM},      {TIDEI_FAULT_COPY, TIDE_E_DEVICE},
              {TIDEI_FAULT_PAGE_NEW, TIDE_E_NOMEM}, {TIDEI_FAULT_STREAM_SYNC, TIDE_E_DEVICE},
              {TIDEI_FAULT_PUBLISH, TIDE_E_DEVICE}};

/* After a request that ended with st: blocks hold what they held, and it is served now if it was
** not. All ends. */
static void serves_then(tide_runtime *rt, tide_status st, size_t bytes, tidei_storage *big) {
    assert_int_equal(figures().backed, atomic_load(&blocks.d->budget->backed));
    blocks_check();
    if (st != TIDE_OK) assert_ok(ask(bytes, &big));
    assert_ok(fill(big, 7));
    blocks_check();
    assert_true(holds(big, 7));
    tidei_storage_release(big);
    blocks_drop();
    tide_close(rt);
}

/* The n-th call of a kind fails, or all from there on. Blocks hold what they held, and the request
** is served afterwards. */
static bool one_call_fails(unsigned k, uint64_t n, bool sticky) {
    tidei_device *d;
    tidei_storage *big = NULL;
    assert_ok(tidei_fault_open(open_device(), &d));
    tide_runtime *rt = open_on(d, PAGES + 1);
    blocks_make(rt, BLOCKS, 0x55555555);
    for (unsigned i = 1; i < BLOCKS; i += 2 * PER_PAGE) block_pin(i);
    for (unsigned i = 1; i < BLOCKS; i += 64) assert_ok(fill(blocks.st[i], mark_of(i)));
    size_t bytes = (PAGES / 2 + 1) * page;
    uint64_t before = tidei_fault_calls(d, faults[k].slot);
    tidei_fault_set(d, faults[k].slot, n, faults[k].status, sticky);
    tide_status st = ask(bytes, &big);
    bool failed = tidei_fault_calls(d, faults[k].slot) - before >= n;
    tidei_fault_set(d, faults[k].slot, 0, TIDE_OK, false);
    assert_true(failed || st == TIDE_OK);
    assert_true(st == TIDE_OK || st == faults[k].status || st == TIDE_E_NOMEM);
    serves_then(rt, st, bytes, big);
    return failed;
}

static void a_device_call_that_fails_loses_nothing(void **state) {
    (void)state;
    for (unsigned k = 0; k < TIDEI_COUNT(faults); k++)
        for (unsigned sticky = 0; sticky < 2; sticky++)
            for (uint64_t n = 1; one_call_fails(k, n, sticky); n += brief() && n > 4 ? 13 : 1) {}
}

/* ---- relocatable runs ---- */

/* Blocks of so many and a half pages on runs of one page more, with holes between them. */
enum { RUNS = 4, LONG = 66 }; /* LONG: more pages than go with one call */
static void runs_make(tide_runtime *rt, unsigned n, size_t whole) {
    tidei_storage *apart[RUNS];
    memset(&blocks, 0, sizeof blocks);
    blocks.d = &test_rt(rt)->devs[0];
    for (unsigned i = 0; i < n; i++) {
        assert_ok(ask(whole * page + page / 2, &blocks.st[i]));
        assert_ok(ask(page + page / 2, &apart[i]));
        assert_ok(fill(blocks.st[i], mark_of(i)));
    }
    assert_ok(tide_device_synchronize(rt));
    for (unsigned i = 0; i < n; i++) tidei_storage_release(apart[i]);
    blocks.d->pool->ops->trim(blocks.d->pool, 0);
    assert_int_equal(figures().backed, n * (whole + 1) * page);
    assert_true(figures().largest < page);
    assert_ok(tide_device_set_limit(rt, figures().backed));
    /* under way, maybe */
    for (unsigned i = 0; i < n; i++) assert_ok(fill(blocks.st[i], mark_of(i)));
}
static tide_runtime *open_runs_on(tidei_device *d, unsigned n, size_t whole) {
    tide_runtime *rt = open_on(d, n * (whole + 2));
    runs_make(rt, n, whole);
    return rt;
}

/* Half a page is free on each: all of it is had in one piece, of any size, and what blocks hold
** goes with them. */
static void runs_become_one_stretch(void **state) {
    (void)state;
    for (unsigned halves = 2; halves <= RUNS; halves++) {
        tide_runtime *rt = open_runs_on(open_device(), RUNS, 1);
        tidei_storage *big;
        assert_ok(ask(halves * page / 2, &big));
        assert_ok(fill(big, 42));
        blocks_check();
        assert_true(holds(big, 42));
        assert_int_equal(figures().backed, 2 * RUNS * page);
        assert_int_equal(figures().bytes_remapped, (halves - 1) * 2 * page);
        tidei_storage_release(big);
        blocks_drop();
        tide_close(rt);
    }
}

static struct run_case {
    unsigned n;
    size_t whole;
    enum tidei_fault_slot slot;
    tide_status status;
    bool sticky;
    unsigned lost; /* so often */
} at_fault;

static void runs_are_lost(tide_runtime *rt) {
    for (unsigned i = 0; i < at_fault.n; i++) tidei_storage_release(blocks.st[i]);
    assert_int_equal(atomic_load(&blocks.d->budget->live), 0);
    tide_close(rt);
    at_fault.lost++;
}

/* The n-th call of a kind fails, or all from there on. Blocks hold what they held, and the request
** is served afterwards; but where pages can be mapped neither elsewhere nor back, the device is
** lost. */
static bool runs_fail(uint64_t n) {
    tidei_device *d;
    tidei_storage *big = NULL;
    assert_ok(tidei_fault_open(open_device(), &d));
    tide_runtime *rt = open_runs_on(d, at_fault.n, at_fault.whole);
    size_t bytes = at_fault.n * page / 2;
    uint64_t before = tidei_fault_calls(d, at_fault.slot);
    tidei_fault_set(d, at_fault.slot, n, at_fault.status, at_fault.sticky);
    tide_status st = ask(bytes, &big);
    bool failed = tidei_fault_calls(d, at_fault.slot) - before >= n;
    tidei_fault_set(d, at_fault.slot, 0, TIDE_OK, false);
    assert_true(failed || st == TIDE_OK);
    assert_true(tidei_runtime_valid(test_rt(rt)));
    if (st == TIDE_E_LOST) return runs_are_lost(rt), failed;
    assert_true(st == TIDE_OK || st == at_fault.status || st == TIDE_E_NOMEM);
    serves_then(rt, st, bytes, big);
    return failed;
}

static void a_run_whose_call_fails_goes_back(void **state) {
    (void)state;
    for (unsigned k = 0; k < TIDEI_COUNT(faults); k++)
        for (unsigned sticky = 0; sticky < 2; sticky++) {
            at_fault = (struct run_case){RUNS, 1, faults[k].slot, faults[k].status, sticky, 0};
            for (uint64_t n = 1; runs_fail(n); n++) {}
            assert_int_equal(at_fault.lost > 0, sticky && faults[k].slot == TIDEI_FAULT_MAP);
        }
}

/* Some of the pages are at their new places then, and some are nowhere. (A block that slides over
** itself half-way is lost too.) */
static void a_long_run_whose_call_fails_goes_back(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        enum tidei_fault_slot slot = k < 2 ? TIDEI_FAULT_MAP : TIDEI_FAULT_ANY;
        at_fault = (struct run_case){2, LONG, slot, TIDE_E_DEVICE, k % 2, 0};
        /* what loses the device are three calls in a row at least: one that unmaps, two that map */
        uint64_t each = brief() && slot == TIDEI_FAULT_ANY ? 3 : 1;
        for (uint64_t n = 1; runs_fail(n); n += each) {}
        assert_true(k == 0 ? !at_fault.lost : k == 2 || at_fault.lost);
    }
}

/* ---- random programs ---- */

/* Takes a block of any size up to ten pages, small ones more often; now and then it is pinned. */
static void random_take(unsigned i, uint64_t dice) {
    unsigned what = dice >> 50 & 15;
    size_t most = what < 2 ? 10 * page : what < 9 ? small : 6 * small;
    if (ask(((size_t)(dice >> 20) % most + 8) & ~(size_t)7, &blocks.st[i]) != TIDE_OK) {
        blocks.st[i] = NULL;
        return;
    }
    assert_ok(fill(blocks.st[i], mark_of(i)));
    if (what % 4 == 3) block_pin(i);
}

static void random_drop(unsigned i) {
    assert_true(holds(blocks.st[i], mark_of(i)));
    if (blocks.pinned[i]) tidei_storage_unpin(blocks.st[i]);
    blocks.pinned[i] = false;
    tidei_storage_release(blocks.st[i]);
    blocks.st[i] = NULL;
}

/* Near the limit; what does not fit is left out. */
static void random_programs_keep_what_blocks_hold(void **state) {
    (void)state;
    uint64_t remapped = 0;
    for (unsigned round = 0; round < (brief() ? 4u : 16u); round++) {
        tide_runtime *rt = open_on(open_device(), 24);
        uint64_t seed = round + 1;
        memset(&blocks, 0, sizeof blocks);
        blocks.d = &test_rt(rt)->devs[0];
        for (unsigned step = 0; step < 2000; step++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned i = (unsigned)(seed >> 33) % 160;
            if (blocks.st[i])
                random_drop(i);
            else
                random_take(i, seed);
            if (step % 64 == 0) blocks_check();
        }
        blocks_check();
        remapped += figures().bytes_remapped;
        assert_true(atomic_load(&blocks.d->budget->peak_backed) <= 24 * page);
        blocks_drop();
        tide_close(rt);
    }
    assert_true(remapped > 0);
}

/* ---- while others are at work ---- */

enum { THREADS = 3, SLOTS = 12 };
static struct {
    tidei_dev *d;
    atomic_bool bad, over;
} busy;

/* Fills, looks at and drops small blocks on a stream of its own; some are pinned for a while. */
static void *work(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg, mark[SLOTS] = {0};
    tidei_storage *st[SLOTS] = {NULL};
    tide_stream *s = NULL;
    if (tide_stream_new(busy.d->rt->ref, &s) != TIDE_OK) busy.bad = true;
    for (unsigned i = 0; !busy.bad && !busy.over; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned k = (unsigned)(seed >> 33) % SLOTS;
        if (st[k]) {
            uint64_t word = 0;
            size_t at = (size_t)(seed >> 20) % (st[k]->bytes / 8) * 8;
            if (tidei_submit_copy(test_stream(s), TIDEI_COPY_D2H, NULL, 0, &word, st[k], at, 8,
                                  "test") != TIDE_OK ||
                word != mark[k])
                busy.bad = true;
            if (k % 3 == 0) tidei_storage_unpin(st[k]);
            tidei_storage_release(st[k]);
            st[k] = NULL;
        } else if (tidei_storage_new(busy.d, 8 * (256 + (seed >> 40) % (small / 8)), test_stream(s),
                                     "test", &st[k]) == TIDE_OK) {
            mark[k] = seed;
            if (k % 3 == 0) tidei_storage_pin(st[k]);
            if (tidei_submit_fill(test_stream(s), st[k], 0, &seed, 8, st[k]->bytes / 8, "test") !=
                TIDE_OK)
                busy.bad = true;
        } else {
            st[k] = NULL;
        }
    }
    for (unsigned k = 0; k < SLOTS; k++) {
        if (!st[k]) continue;
        if (k % 3 == 0) tidei_storage_unpin(st[k]);
        tidei_storage_release(st[k]);
    }
    tide_stream_release(s);
    return NULL;
}

static void a_request_is_served_while_others_are_at_work(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    tide_runtime *rt = open_on(open_device(), PAGES);
    blocks_make(rt, BLOCKS, 0xfffffffe);
    /* between them, whatever the others do, is no room for a request */
    block_pin(BLOCKS / 8 * 3);
    block_pin(BLOCKS / 8 * 6);
    busy.d = blocks.d;
    busy.bad = busy.over = false;
    unsigned served = 0, rounds = brief() ? 100 : 400;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (unsigned i = 0; i < rounds && !busy.bad; i++) {
        tidei_storage *big, *beside;
        size_t bytes = (20 + i % 7) * page;
        if (ask(bytes, &big) != TIDE_OK) continue;
        if (ask(small, &beside) == TIDE_OK) {
            tidei_storage_pin(beside);
            if (fill(big, i + 1) != TIDE_OK || !holds(big, i + 1)) busy.bad = true;
            tidei_storage_unpin(beside);
            tidei_storage_release(beside);
        }
        tidei_storage_release(big);
        served++;
    }
    busy.over = true;
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_false(busy.bad);
    assert_true(served > 0);
    assert_true(figures().bytes_remapped > 0);
    assert_ok(tide_device_synchronize(rt));
    blocks_check();
    blocks_drop();
    tide_close(rt);
}

/* Looks at blocks all the time, on a stream of its own; what it reads goes to the host, so that it
** is in nobody's way. */
static void *look(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    tide_stream *s = NULL;
    if (tide_stream_new(busy.d->rt->ref, &s) != TIDE_OK) busy.bad = true;
    while (!busy.bad && !busy.over) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned i = (unsigned)(seed >> 33) % RUNS;
        size_t at = (size_t)(seed >> 20) % (blocks.st[i]->bytes / 8) * 8;
        uint64_t word = 0;
        if (seed >> 60 == 0 && tidei_submit_fill(test_stream(s), blocks.st[i], at,
                                                 &(uint64_t){mark_of(i)}, 8, 1, "test") != TIDE_OK)
            busy.bad = true;
        if (tidei_submit_copy(test_stream(s), TIDEI_COPY_D2H, NULL, 0, &word, blocks.st[i], at, 8,
                              "test") != TIDE_OK ||
            word != mark_of(i))
            busy.bad = true;
    }
    tide_stream_release(s);
    return NULL;
}

static void runs_are_relocated_while_others_are_at_work(void **state) {
    (void)state;
    for (unsigned round = 0; round < (brief() ? 4u : 16u); round++) {
        pthread_t threads[THREADS];
        tide_runtime *rt = open_runs_on(open_device(), RUNS, 1);
        tidei_storage *big;
        busy.d = &test_rt(rt)->devs[0];
        busy.bad = busy.over = false;
        for (unsigned i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, look, (void *)(uintptr_t)(i + 1));
        for (unsigned halves = 2; halves <= RUNS; halves++) {
            assert_ok(ask(halves * page / 2, &big));
            assert_ok(fill(big, 42));
            assert_true(holds(big, 42));
            tidei_storage_release(big);
        }
        busy.over = true;
        for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        assert_false(busy.bad);
        assert_true(figures().bytes_remapped >= 2 * page);
        blocks_check();
        blocks_drop();
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_of_the_limit_fits_between_pinned_blocks),
        cmocka_unit_test(two_pins_at_any_place_leave_room),
        cmocka_unit_test(a_pin_on_every_page_leaves_no_room),
        cmocka_unit_test(new_pages_make_up_for_pinned_ones),
        cmocka_unit_test(a_device_call_that_fails_loses_nothing),
        cmocka_unit_test(random_programs_keep_what_blocks_hold),
        cmocka_unit_test(a_request_is_served_while_others_are_at_work),
        cmocka_unit_test(small_blocks_keep_apart_after_a_refusal),
        cmocka_unit_test(runs_become_one_stretch),
        cmocka_unit_test(runs_are_relocated_while_others_are_at_work),
        cmocka_unit_test(a_run_whose_call_fails_goes_back),
        cmocka_unit_test(a_long_run_whose_call_fails_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
