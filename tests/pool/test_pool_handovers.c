/* test_pool_handovers.c: every pool under the runtime on a host device that checks the order of
** accesses: contents stay intact while blocks change hands between streams and threads, memory
** comes back, and an overrun does not go unseen. The rules one by one, and failures, are
** test_pool_tide_requests.c's. */
#include "tests/support/tidetest.h"
#include <sys/wait.h>
#include <unistd.h>

#define KIB TIDEI_KIB
#define MIB TIDEI_MIB

/* Each pool, and `tide` on pages of several sizes: the smallest, one that is no power of two, the
** default. */
static const struct {
    const char *pool;
    size_t page;
} beds[] = {{"tide", 4 * KIB},    {"tide", 12 * KIB},  {"tide", 64 * KIB},   {"none", 64 * KIB},
            {"driver", 64 * KIB}, {"split", 64 * KIB}, {"binned", 64 * KIB}, {"simple", 64 * KIB}};
/* from here on sanitizers see no overrun into what a block was rounded up by */
#define BLIND_FROM 4

typedef struct bed {
    tidei_runtime *rt;
    tidei_dev *d;
    tidei_stream *s[4];
} bed;

static bed bed_open(unsigned i, const char *limit) {
    bed b = {0};
    tidei_device *device = NULL;
    tidei_device_params p = {
        .host_device_memory = 64 * MIB, .host_page = beds[i].page, .host_checker = true};
    tide_config c = {.struct_size = sizeof c, .pool = beds[i].pool, .limit = limit};
    assert_ok(tidei_host_open(&p, &device));
    assert_ok(tidei_runtime_open_on(&c, device, &b.rt));
    b.d = &b.rt->devs[0];
    b.d->pool->mover = NULL; /* nothing moves: these tests look at addresses */
    b.s[0] = b.d->stream0;
    for (unsigned k = 1; k < TIDEI_COUNT(b.s); k++) assert_ok(tidei_stream_open(b.d, &b.s[k]));
    return b;
}

/* Everything came back, and nothing ran out of order. */
static void bed_close(bed *b) {
    size_t free_bytes, total;
    assert_ok(tidei_streams_wait_all(b->d, true));
    b->d->pool->ops->trim(b->d->pool, 0);
    assert_true(tidei_runtime_valid(b->rt));
    assert_int_equal(b->d->budget->backed, 0);
    assert_ok(b->d->d->ops->memory(b->d->d, &free_bytes, &total));
    assert_int_equal(free_bytes, total);
    assert_int_equal(tidei_host_checker_reports(b->d->d), 0);
    for (unsigned k = 1; k < TIDEI_COUNT(b->s); k++) tidei_stream_drop(b->s[k]);
    tidei_runtime_close(b->rt);
}

static uint32_t dice(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- contents ---- */

typedef struct held {
    tidei_storage *st;
    uint32_t mark; /* every word of it */
} held;

/* A storage with every word `mark`, written on any stream. Its size is a whole number of words. */
static held make_marked(bed *b, uint64_t *seed) {
    held h = {.mark = dice(seed)};
    size_t words = (size_t)1 + (dice(seed) % 40000 >> dice(seed) % 12);
    assert_ok(tidei_storage_new(b->d, words * 4, b->s[dice(seed) % 4], "test", &h.st));
    assert_int_equal(h.st->addr % b->d->d->info.align, 0);
    assert_ok(tidei_submit_fill(b->s[dice(seed) % 4], h.st, 0, &h.mark, 4, words, "test"));
    return h;
}

static bool still_marked(bed *b, const held *h, uint64_t *seed) {
    size_t words = h->st->bytes / 4;
    uint32_t *copy = malloc(h->st->bytes);
    tidei_stream *s = b->s[dice(seed) % 4];
    bool same = tidei_submit_copy(s, TIDEI_COPY_D2H, NULL, 0, copy, h->st, 0, h->st->bytes,
                                  "test") == TIDE_OK &&
                tidei_stream_wait(s, true) == TIDE_OK;
    for (size_t i = 0; i < words && same; i++) same = copy[i] == h->mark;
    free(copy);
    return same;
}

static void contents_stay_intact(void **state) {
    (void)state;
    enum { SLOTS = 48, STEPS = 1500 };
    for (unsigned i = 0; i < TIDEI_COUNT(beds); i++) {
        bed b = bed_open(i, "1536KiB"); /* so tight that the ladder is climbed */
        held slots[SLOTS] = {{0}};
        uint64_t seed = i + 1;
        for (unsigned step = 0; step < STEPS; step++) {
            held *h = &slots[dice(&seed) % SLOTS];
            if (h->st) {
                if (step % 4 == 0) assert_true(still_marked(&b, h, &seed));
                tidei_storage_release(h->st);
                h->st = NULL;
            } else {
                *h = make_marked(&b, &seed);
            }
            if (step % 64 == 0) assert_true(tidei_runtime_valid(b.rt));
        }
        for (unsigned k = 0; k < SLOTS; k++) {
            if (!slots[k].st) continue;
            assert_true(still_marked(&b, &slots[k], &seed));
            tidei_storage_release(slots[k].st);
        }
        assert_true(b.d->budget->peak_backed <= 1536 * KIB);
        bed_close(&b);
    }
}

static struct {
    bed b;
    _Atomic(held *) slots[32];
    atomic_bool bad;
} shared;

/* Storages go through slots that all threads take from: made here, checked and released there. */
static void *thread_main(void *arg) {
    uint64_t seed = (uintptr_t)arg + 1;
    for (unsigned i = 0; i < 250; i++) {
        held *h = malloc(sizeof *h);
        *h = make_marked(&shared.b, &seed);
        h = atomic_exchange(&shared.slots[dice(&seed) % TIDEI_COUNT(shared.slots)], h);
        if (!h) continue;
        if (!still_marked(&shared.b, h, &seed)) shared.bad = true;
        tidei_storage_release(h->st);
        free(h);
    }
    return NULL;
}

static void threads_pass_blocks_on(void **state) {
    (void)state;
    for (unsigned i = 0; i < TIDEI_COUNT(beds); i++) {
        pthread_t threads[4];
        memset(&shared, 0, sizeof shared);
        shared.b = bed_open(i, NULL);
        for (unsigned k = 0; k < TIDEI_COUNT(threads); k++)
            pthread_create(&threads[k], NULL, thread_main, (void *)(uintptr_t)k);
        for (unsigned k = 0; k < TIDEI_COUNT(threads); k++) pthread_join(threads[k], NULL);
        assert_false(shared.bad);
        for (unsigned k = 0; k < TIDEI_COUNT(shared.slots); k++) {
            held *h = shared.slots[k];
            if (h) tidei_storage_release(h->st);
            free(h);
        }
        bed_close(&shared.b);
    }
}

/* ---- work that is still running ---- */

static atomic_bool gate;
static void wait_at_the_gate(const void *params) {
    (void)params;
    while (!atomic_load(&gate)) usleep(100);
}

/* A block whose last use waits for a flag is refused to other streams until then, and handed to its
** own at once. */
static void running_work_keeps_its_block(void **state) {
    (void)state;
    bed b = bed_open(2, NULL);
    tidei_pool *p = b.d->pool;
    tidei_storage *st;
    tidei_block x, y;
    tidei_launch l = {.name = "gate", .host_fn = wait_at_the_gate, .params = "", .params_bytes = 1};
    atomic_store(&gate, false);
    assert_ok(tidei_storage_new(b.d, 64 * KIB, b.s[1], "test", &st));
    tidei_addr at = st->addr;
    assert_ok(tidei_submit_launch(b.s[1], &(tidei_use){st, 0, 64 * KIB, TIDEI_WRITE}, 1, &l, NULL,
                                  NULL, "test"));
    tidei_storage_release(st);
    assert_int_equal(p->ops->alloc(p, 64 * KIB, b.s[2], TIDEI_ALLOC_NO_GROW, &x), TIDE_E_NOMEM);
    assert_ok(p->ops->alloc(p, 32 * KIB, b.s[1], TIDEI_ALLOC_NO_GROW, &x));
    assert_ok(p->ops->alloc(p, 32 * KIB, b.s[2], TIDEI_ALLOC_NO_GROW | TIDEI_ALLOC_STEAL, &y));
    assert_int_equal(x.addr, at);
    assert_int_equal(y.addr, at + 32 * KIB);
    assert_int_equal(y.stamps.n, 1);
    p->ops->free(p, &x);
    p->ops->free(p, &y);
    assert_int_equal(p->ops->trim(p, 0), 0);
    atomic_store(&gate, true);
    assert_ok(tidei_streams_wait_all(b.d, true));
    assert_ok(p->ops->alloc(p, 64 * KIB, b.s[2], TIDEI_ALLOC_NO_GROW, &x));
    assert_int_equal(x.addr, at);
    assert_int_equal(x.stamps.n, 0);
    p->ops->free(p, &x);
    bed_close(&b);
}

/* ---- sanitizers ---- */

#if defined(__SANITIZE_ADDRESS__)
static void write_past_the_end(const void *params) {
    char *end;
    memcpy(&end, params, sizeof end);
    *end = 1;
}

/* What `test_pool_handovers overrun N` does: a kernel writes one byte too many in bed N. */
static int overrun(unsigned i) {
    bed b = bed_open(i, NULL);
    tidei_storage *st;
    if (tidei_storage_new(b.d, 1000, b.s[0], "test", &st) != TIDE_OK) return 0;
    char *end = (char *)(uintptr_t)(st->addr + 1000);
    tidei_launch l = {.name = "overrun",
                      .host_fn = write_past_the_end,
                      .params = &end,
                      .params_bytes = sizeof end};
    tidei_submit_launch(b.s[0], &(tidei_use){st, 0, 1000, TIDEI_WRITE}, 1, &l, NULL, NULL, "test");
    tidei_streams_wait_all(b.d, true);
    return 0;
}

static void overruns_are_reported(void **state) {
    (void)state;
    for (unsigned i = 0; i < BLIND_FROM; i++) {
        char command[4200], self[4096], line[512];
        bool reported = false;
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        assert_true(n > 0);
        self[n] = 0;
        snprintf(command, sizeof command, "'%s' overrun %u 2>&1", self, i);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f))
            if (strstr(line, "AddressSanitizer") &&
                strstr(line, i < 3 ? "use-after-poison" : "heap-buffer-overflow"))
                reported = true;
        int status = pclose(f);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
        assert_true(reported);
    }
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_stay_intact),
        cmocka_unit_test(threads_pass_blocks_on),
        cmocka_unit_test(running_work_keeps_its_block),
#if defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(overruns_are_reported),
#endif
    };
#if defined(__SANITIZE_ADDRESS__)
    if (argc == 3 && !strcmp(argv[1], "overrun")) return overrun((unsigned)atoi(argv[2]));
#else
    (void)argc, (void)argv;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
