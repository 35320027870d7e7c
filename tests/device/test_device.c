/* test_device.c: what every device owes the runtime, run over each device there is: `host` (also as
** on a kernel that cannot move pages in place), `fault` around host, and `cuda` when
** TIDE_TEST_DEVICE names it. */
#include <pthread.h>
#include <sched.h>
#include "runtime/device/host/host.h"
#include "tests/support/tidetest.h"

#define STREAMS   64
#define PTR(addr) ((void *)(uintptr_t)(addr))

/* ---- kernels, in both forms ---- */

struct wait_params {
    tidei_addr flag;
};
static void wait_flag(const void *p) { /* until the flag is not 0 */
    _Atomic uint64_t *flag = PTR(((const struct wait_params *)p)->flag);
    while (!atomic_load(flag)) sched_yield();
}

struct step_params {
    tidei_addr cell;
    uint64_t add;
};
static void step(const void *p) { /* one step of a sum that tells orders apart */
    const struct step_params *s = p;
    uint64_t *cell = PTR(s->cell);
    *cell = *cell * 3 + s->add;
}

static const char kernel_source[] =
    "struct wait_params { volatile unsigned long long *flag; };\n"
    "extern \"C\" __global__ void wait_flag(wait_params p) { while (!*p.flag) {} }\n"
    "struct step_params { unsigned long long *cell; unsigned long long add; };\n"
    "extern \"C\" __global__ void step(step_params p) { *p.cell = *p.cell * 3 + p.add; }\n";

/* ---- the devices ---- */

struct maker {
    const char *name;
    tide_status (*open)(tidei_device **out);
    bool pages_only;
};

static tide_status open_host(tidei_device **out) {
    return tidei_host_open(&(tidei_device_params){.host_device_memory = 64 * TIDEI_MIB}, out);
}
static tide_status open_old_host(tidei_device **out) {
    tide_status status = open_host(out);
    if (status == TIDE_OK) atomic_store(&((tidei_host *)*out)->move_by_copy, true);
    return status;
}
static tide_status open_fault(tidei_device **out) {
    tidei_device *inner;
    tide_status status = open_host(&inner);
    return status == TIDE_OK ? tidei_fault_open(inner, out) : status;
}
static tide_status open_cuda(tidei_device **out) {
    return tidei_cuda_open(&(tidei_device_params){0}, out);
}

static const struct maker host_makers[] = {{"host", open_host, false},
                                           {"host on an old kernel", open_old_host, true},
                                           {"fault", open_fault, false}};
static const struct maker cuda_makers[] = {{"cuda", open_cuda, false}};

struct box {
    tidei_device *d;
    const struct tidei_device_ops *o;
    tidei_dstream *s[STREAMS];
    unsigned n;
    tidei_dkernel *wait_kernel, *step_kernel;
    tidei_addr memory; /* 8 MiB, zeroed */
    tidei_addr flag;   /* pinned */
};
#define MEMORY (8 * TIDEI_MIB)

static void need_streams(struct box *b, unsigned n) {
    for (; b->n < n; b->n++) assert_ok(b->o->stream_new(b->d, &b->s[b->n]));
}

static void sync(struct box *b, unsigned stream) {
    assert_ok(b->o->stream_sync(b->d, b->s[stream]));
}

static tidei_dkernel *text_kernel(struct box *b, const char *name) {
    tidei_dkernel *k = NULL;
    if (b->d->info.flags & TIDEI_DEV_RUNS_TEXT)
        assert_ok(b->o->kernel_new(
            b->d, &(tidei_kernel_text){.name = name, .source = kernel_source}, &k, NULL, NULL));
    return k;
}

static void *open_box(const struct maker *m) {
    struct box *b = calloc(1, sizeof *b);
    assert_ok(m->open(&b->d));
    b->o = b->d->ops;
    need_streams(b, 1);
    b->wait_kernel = text_kernel(b, "wait_flag");
    b->step_kernel = text_kernel(b, "step");
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory));
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_PINNED, 8, &b->flag));
    atomic_store((_Atomic uint64_t *)PTR(b->flag), 0);
    assert_ok(b->o->fill(b->d, b->s[0], b->memory, "", 1, MEMORY));
    sync(b, 0);
    return b;
}

static void raise_flag(struct box *b) { atomic_store((_Atomic uint64_t *)PTR(b->flag), 1); }

static int close_box(void **state) {
    struct box *b = *state;
    raise_flag(b);
    for (unsigned i = 0; i < b->n; i++) {
        sync(b, i);
        b->o->stream_release(b->d, b->s[i]);
    }
    if (b->wait_kernel) b->o->kernel_release(b->d, b->wait_kernel);
    if (b->step_kernel) b->o->kernel_release(b->d, b->step_kernel);
    b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
    b->o->raw_free(b->d, TIDEI_MEM_PINNED, b->flag, 8);
    b->o->close(b->d);
    free(b);
    return 0;
}

/* ---- shorthand ---- */

static void launch(struct box *b, unsigned stream, tidei_dkernel *k, tidei_host_fn fn,
                   const void *params, size_t n, tidei_range range) {
    tidei_launch l = {.name = "a test kernel",
                      .kernel = k,
                      .host_fn = fn,
                      .params = params,
                      .params_bytes = n,
                      .grid = {1, 1, 1},
                      .block = {1, 1, 1},
                      .ranges = &range,
                      .nranges = range.bytes ? 1 : 0};
    assert_ok(b->o->launch(b->d, b->s[stream], &l));
}

static void launch_wait(struct box *b, unsigned stream) {
    struct wait_params p = {b->flag};
    launch(b, stream, b->wait_kernel, wait_flag, &p, sizeof p, (tidei_range){0});
}

static void launch_step(struct box *b, unsigned stream, tidei_addr cell, uint64_t add) {
    struct step_params p = {cell, add};
    launch(b, stream, b->step_kernel, step, &p, sizeof p,
           (tidei_range){cell, 8, TIDEI_READ | TIDEI_WRITE});
}

static void fill_bytes(struct box *b, unsigned stream, tidei_addr dst, unsigned char value,
                       size_t n) {
    assert_ok(b->o->fill(b->d, b->s[stream], dst, &value, 1, n));
}

static void copy(struct box *b, unsigned stream, tidei_copy_kind kind, tidei_addr dst,
                 tidei_addr src, size_t n) {
    assert_ok(b->o->copy(b->d, b->s[stream], &(tidei_copy){kind, dst, src, n, NULL}));
}

static void read_back(struct box *b, unsigned stream, tidei_addr src, void *dst, size_t n) {
    copy(b, stream, TIDEI_COPY_D2H, (uintptr_t)dst, src, n);
    sync(b, stream);
}

static uint64_t read_word(struct box *b, unsigned stream, tidei_addr src) {
    uint64_t v;
    read_back(b, stream, src, &v, sizeof v);
    return v;
}

static tidei_devent *new_event(struct box *b) {
    tidei_devent *e;
    assert_ok(b->o->event_new(b->d, &e));
    return e;
}
static void record(struct box *b, tidei_devent *e, unsigned stream) {
    assert_ok(b->o->event_record(b->d, e, b->s[stream]));
}
static void wait_event(struct box *b, tidei_devent *e, unsigned stream) {
    assert_ok(b->o->event_wait(b->d, e, b->s[stream]));
}
static uint64_t completed(struct box *b, unsigned stream) {
    return b->o->completed(b->d, b->s[stream]);
}
static void publish(struct box *b, unsigned stream, uint64_t tick) {
    assert_ok(b->o->publish(b->d, b->s[stream], tick));
}

/* ---- streams and events ---- */

static void work_on_a_stream_runs_in_order(void **state) {
    struct box *b = *state;
    uint64_t want = 0;
    for (uint64_t i = 1; i <= 2000; i++) {
        launch_step(b, 0, b->memory, i);
        want = want * 3 + i;
    }
    assert_int_equal(read_word(b, 0, b->memory), want);
}

static void a_waiting_launch_holds_only_who_waits_for_it(void **state) {
    struct box *b = *state;
    need_streams(b, 3);
    tidei_devent *e = new_event(b);
    launch_wait(b, 0);
    fill_bytes(b, 0, b->memory, 7, 8);
    record(b, e, 0);
    fill_bytes(b, 1, b->memory + 64, 9, 8);
    sync(b, 1); /* although stream 0 stands */
    wait_event(b, e, 2);
    copy(b, 2, TIDEI_COPY_D2D, b->memory + 128, b->memory, 8);
    publish(b, 2, 5);
    assert_int_equal(completed(b, 2), 0);
    raise_flag(b);
    assert_int_equal(read_word(b, 2, b->memory + 128), 0x0707070707070707);
    assert_int_equal(completed(b, 2), 5);
    assert_int_equal(read_word(b, 1, b->memory + 64), 0x0909090909090909);
    b->o->event_release(b->d, e);
}

static void a_chain_of_events_passes_a_value_on(void **state) {
    struct box *b = *state;
    tidei_devent *e[8];
    uint64_t want = 0;
    need_streams(b, 8);
    for (unsigned i = 0; i < 8; i++) e[i] = new_event(b);
    launch_wait(b, 0); /* so that every wait is met by work that is not done */
    for (uint64_t round = 0; round < 50; round++)
        for (unsigned i = 0; i < 8; i++) {
            if (round || i) wait_event(b, e[(i + 7) % 8], i);
            launch_step(b, i, b->memory, round + i);
            want = want * 3 + round + i;
            record(b, e[i], i);
        }
    raise_flag(b);
    assert_int_equal(read_word(b, 7, b->memory), want);
    for (unsigned i = 0; i < 8; i++) b->o->event_release(b->d, e[i]);
}

static void a_wait_is_for_the_record_before_it(void **state) {
    struct box *b = *state;
    need_streams(b, 4);
    tidei_devent *e = new_event(b);
    wait_event(b, e, 3); /* no record yet: no wait */
    sync(b, 3);
    record(b, e, 1); /* passes at once */
    wait_event(b, e, 2);
    launch_wait(b, 0);
    record(b, e, 0); /* replaces it; stream 2 does not wait for this one */
    sync(b, 2);
    wait_event(b, e, 3);
    record(b, e, 1); /* stream 3 still waits for the one before */
    publish(b, 3, 1);
    sync(b, 1);
    assert_int_equal(completed(b, 3), 0);
    raise_flag(b);
    sync(b, 3);
    assert_int_equal(completed(b, 3), 1);
    b->o->event_release(b->d, e);
}

static void an_event_outlives_its_stream(void **state) {
    struct box *b = *state;
    tidei_devent *e = new_event(b);
    tidei_dstream *s;
    need_streams(b, 2);
    for (int i = 0; i < 3; i++) { /* the second and third are likely the first one's struct */
        assert_ok(b->o->stream_new(b->d, &s));
        assert_int_equal(b->o->completed(b->d, s), 0);
        assert_ok(b->o->event_record(b->d, e, s));
        assert_ok(b->o->publish(b->d, s, 3));
        assert_ok(b->o->stream_sync(b->d, s));
        assert_int_equal(b->o->completed(b->d, s), 3);
        b->o->stream_release(b->d, s);
        wait_event(b, e, 1);
        sync(b, 1);
    }
    b->o->event_release(b->d, e);
}

static void the_completion_word_rises_behind_the_work(void **state) {
    struct box *b = *state;
    uint64_t last = 0;
    for (uint64_t tick = 1; tick <= 500; tick++) {
        fill_bytes(b, 0, b->memory, (unsigned char)tick, 1000);
        publish(b, 0, tick * 10);
        uint64_t now = completed(b, 0);
        assert_true(now >= last && now <= tick * 10 && now % 10 == 0);
        last = now;
    }
    while ((last = completed(b, 0)) < 5000) sched_yield();
    assert_int_equal(last, 5000);
}

static void many_streams_run_side_by_side(void **state) {
    struct box *b = *state;
    if (test_memcheck()) skip(); /* it lets a kernel's first launch wait for the one that stands */
    need_streams(b, STREAMS);
    launch_wait(b, 0); /* with one of them standing */
    for (uint64_t i = 1; i <= 20; i++)
        for (unsigned s = 1; s < STREAMS; s++) launch_step(b, s, b->memory + 64 * s, i + s);
    for (unsigned s = 1; s < STREAMS; s++) {
        uint64_t want = 0;
        for (uint64_t i = 1; i <= 20; i++) want = want * 3 + i + s;
        assert_int_equal(read_word(b, s, b->memory + 64 * s), want);
    }
    raise_flag(b);
}

/* ---- several host threads ---- */

struct submitter {
    struct box *b;
    unsigned index;
    tidei_devent *shared;
    pthread_t thread;
};

/* Its own stream, which waits for an event that all record and wait for; and a stream that all
** submit to. */
static void *submit(void *arg) {
    struct submitter *x = arg;
    struct box *b = x->b;
    for (uint64_t i = 1; i <= 300; i++) {
        launch_step(b, 1 + x->index, b->memory + 64 * x->index, i);
        launch_step(b, 0, b->memory + 4096 + 64 * x->index, i);
        if (i % 16 == 0) {
            record(b, x->shared, 1 + x->index);
            wait_event(b, x->shared, 1 + x->index);
            publish(b, 1 + x->index, i);
            assert_true(completed(b, 1 + x->index) <= i);
        }
        if (i % 100 == 0) sync(b, 1 + x->index);
    }
    return NULL;
}

static void several_threads_submit_at_once(void **state) {
    struct box *b = *state;
    struct submitter x[4];
    tidei_devent *e = new_event(b);
    uint64_t want = 0;
    need_streams(b, 5);
    for (unsigned i = 0; i < 4; i++) {
        x[i] = (struct submitter){.b = b, .index = i, .shared = e};
        assert_int_equal(pthread_create(&x[i].thread, NULL, submit, &x[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) pthread_join(x[i].thread, NULL);
    for (uint64_t i = 1; i <= 300; i++) want = want * 3 + i;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(read_word(b, 1 + i, b->memory + 64 * i), want);
        assert_int_equal(read_word(b, 0, b->memory + 4096 + 64 * i), want);
    }
    b->o->event_release(b->d, e);
}

/* ---- copies and fills ---- */

static void copies_of_all_kinds_and_odd_sizes(void **state) {
    struct box *b = *state;
    static const size_t sizes[] = {
        1, 3, 17, 4095, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 70000, (1 << 20) + 7};
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        size_t n = sizes[i], off = i * 3 + 1;
        unsigned char *in = malloc(n), *out = calloc(1, n + 2);
        for (size_t k = 0; k < n; k++) in[k] = (unsigned char)(k * 7 + i + (k >> 8));
        fill_bytes(b, 0, b->memory + (4 << 20), 0xEE, n + off + 2);
        copy(b, 0, TIDEI_COPY_H2D, b->memory + off, (uintptr_t)in, n);
        for (size_t k = 0; k < n; k++) in[k] ^= 0xFF; /* the source is the caller's again */
        copy(b, 0, TIDEI_COPY_D2D, b->memory + (4 << 20) + off + 1, b->memory + off, n);
        read_back(b, 0, b->memory + (4 << 20) + off, out, n + 2);
        assert_int_equal(out[0], 0xEE);
        assert_int_equal(out[n + 1], 0xEE);
        for (size_t k = 0; k < n; k++)
            if (out[k + 1] != (in[k] ^ 0xFF)) fail_msg("byte %zu of %zu", k, n);
        free(in);
        free(out);
    }
}

/* Pieces of all sizes from the low half of the memory to the high one, where each lands `shift`
** bytes beyond a multiple of 256; in the other order. Returns how many. */
static size_t many_pieces(struct box *b, tidei_piece *p, size_t most, size_t shift) {
    static const size_t sizes[] = {1,    3,    15,    16,    17,    255,   0,
                                   4096, 5000, 16383, 16384, 16385, 65536, 300001};
    tidei_addr src = b->memory, dst = b->memory + MEMORY;
    size_t n = 0;
    for (; n < most; n++) {
        size_t bytes = n < TIDEI_COUNT(sizes) ? sizes[n] : 1 + n * n % 1000;
        dst = (dst - bytes - 256) / 256 * 256 + shift;
        if (src + bytes > b->memory + MEMORY / 2 || dst < b->memory + MEMORY / 2) break;
        p[n] = (tidei_piece){dst, src, bytes};
        src += tidei_round_up(bytes, 256);
    }
    return n;
}

static void check_pieces(struct box *b, const tidei_piece *p, size_t n, const unsigned char *in) {
    unsigned char *out = malloc(MEMORY);
    read_back(b, 0, b->memory, out, MEMORY);
    assert_memory_equal(out, in, MEMORY / 2);
    for (size_t i = 0; i < n; i++) {
        size_t dst = p[i].dst - b->memory;
        if (memcmp(out + dst, in + (p[i].src - b->memory), p[i].bytes) || out[dst - 1] != 0xEE ||
            out[dst + p[i].bytes] != 0xEE)
            fail_msg("piece %zu of %zu: %zu bytes", i, n, p[i].bytes);
    }
    free(out);
}

enum { PIECES = 4000, ENOUGH = 1000 };

/* A device may have something better for it once it has had enough of them. */
static void prepare_copies(struct box *b) {
    tidei_piece *p = calloc(ENOUGH, sizeof *p);
    for (size_t i = 0; i < ENOUGH; i++)
        p[i] = (tidei_piece){b->memory + MEMORY / 2 + 16 * i, b->memory + 16 * i, 16};
    assert_ok(b->o->copy_many(b->d, b->s[0], p, ENOUGH));
    assert_ok(b->o->stream_sync(b->d, b->s[0]));
    if (b->o->copy_many_prepare) b->o->copy_many_prepare(b->d);
    free(p);
}

static void many_copies_at_once(void **state) {
    static const size_t numbers[] = {0, 1, 2, 20, 170, 171, PIECES};
    struct box *b = *state;
    tidei_piece *p = calloc(PIECES, sizeof *p);
    unsigned char *in = malloc(MEMORY);
    for (size_t i = 0; i < MEMORY; i++) in[i] = (unsigned char)(i * 7 + (i >> 8) + (i >> 16));
    for (size_t i = 0; i < 4 * TIDEI_COUNT(numbers); i++) {
        size_t n = many_pieces(b, p, numbers[i / 2 % TIDEI_COUNT(numbers)], i % 2 * 5);
        assert_int_equal(n, numbers[i / 2 % TIDEI_COUNT(numbers)]);
        if (i == 2 * TIDEI_COUNT(numbers)) prepare_copies(b);
        fill_bytes(b, 0, b->memory, 0, MEMORY / 2);
        fill_bytes(b, 0, b->memory + MEMORY / 2, 0xEE, MEMORY / 2);
        copy(b, 0, TIDEI_COPY_H2D, b->memory, (uintptr_t)in, MEMORY / 2);
        assert_ok(b->o->copy_many(b->d, b->s[0], p, n));
        check_pieces(b, p, n, in);
    }
    free(in);
    free(p);
}

static void copies_in_order(struct box *b) {
    tidei_piece p[64];
    launch_wait(b, 0);
    for (size_t i = 0; i < 64; i++) {
        p[i] = (tidei_piece){b->memory + 65536 + 256 * i, b->memory + 256 * i, 8};
        launch_step(b, 0, p[i].src, i + 1);
    }
    assert_ok(b->o->copy_many(b->d, b->s[0], p, 64));
    for (size_t i = 0; i < 64; i++) {
        launch_step(b, 0, p[i].src, 100);
        launch_step(b, 0, p[i].dst, 7);
    }
    memset(p, 0, sizeof p); /* the call's no longer */
    raise_flag(b);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(read_word(b, 0, b->memory + 256 * i), 3 * (i + 1) + 100);
        assert_int_equal(read_word(b, 0, b->memory + 65536 + 256 * i), 3 * (i + 1) + 7);
    }
}

static void many_copies_come_in_order(void **state) { copies_in_order(*state); }

static void many_copies_come_in_order_once_prepared(void **state) {
    struct box *b = *state;
    prepare_copies(b);
    copies_in_order(b);
}

static void a_long_source_is_free_while_earlier_work_stands(void **state) {
    struct box *b = *state;
    unsigned char small[1000];
    if (test_memcheck()) skip(); /* as above */
    memset(small, 1, sizeof small);
    launch_wait(b, 0);
    for (int i = 0; i < 300; i++) { /* more than the queue's first piece holds */
        memset(small, i, sizeof small);
        copy(b, 0, TIDEI_COPY_H2D, b->memory + (size_t)i * sizeof small, (uintptr_t)small,
             sizeof small);
    }
    memset(small, 255, sizeof small);
    raise_flag(b);
    for (int i = 0; i < 300; i += 37) {
        read_back(b, 0, b->memory + (size_t)i * sizeof small, small, sizeof small);
        assert_int_equal(small[0], (unsigned char)i);
        assert_int_equal(small[999], (unsigned char)i);
    }
}

static void fills_of_every_width(void **state) {
    struct box *b = *state;
    static const size_t counts[] = {1, 2, 3, 1000, 100001};
    unsigned char pattern[16], *out = malloc(16 * 100001 + 32);
    for (size_t i = 0; i < 16; i++) pattern[i] = (unsigned char)(i * 17 + 3);
    for (size_t width = 1; width <= 16; width *= 2)
        for (size_t i = 0; i < TIDEI_COUNT(counts); i++) {
            size_t n = width * counts[i];
            fill_bytes(b, 0, b->memory, 0xCC, n + 32);
            assert_ok(b->o->fill(b->d, b->s[0], b->memory + 16, pattern, width, counts[i]));
            read_back(b, 0, b->memory, out, n + 32);
            assert_int_equal(out[15], 0xCC);
            assert_int_equal(out[16 + n], 0xCC);
            for (size_t k = 0; k < n; k++)
                if (out[16 + k] != pattern[k % width])
                    fail_msg("width %zu, byte %zu of %zu", width, k, n);
        }
    free(out);
}

static void a_fill_of_alike_bytes_of_any_width(void **state) {
    struct box *b = *state;
    unsigned char zero[16] = {0}, out[160];
    fill_bytes(b, 0, b->memory, 0xCC, 160);
    assert_ok(b->o->fill(b->d, b->s[0], b->memory, zero, 8, 10));
    read_back(b, 0, b->memory, out, sizeof out);
    assert_int_equal(out[79], 0);
    assert_int_equal(out[80], 0xCC);
}

/* ---- pages ---- */

static size_t page_of(struct box *b) { return b->d->info.page_bytes; }

static void check_bytes(struct box *b, tidei_addr at, size_t n, unsigned char want) {
    unsigned char *out = malloc(n);
    read_back(b, 0, at, out, n);
    for (size_t i = 0; i < n; i++)
        if (out[i] != want) fail_msg("byte %zu of %zu is %u, not %u", i, n, out[i], want);
    free(out);
}

static void contents_survive_mapping_elsewhere(void **state) {
    struct box *b = *state;
    size_t page = page_of(b);
    tidei_addr base, other;
    tidei_dpage *p[3];
    assert_ok(b->o->reserve(b->d, 16 * page, &base));
    assert_ok(b->o->reserve(b->d, 4 * page, &other));
    assert_ok(b->o->page_new(b->d, page, &p[0]));
    assert_ok(b->o->page_new(b->d, 2 * page, &p[1]));
    assert_ok(b->o->page_new(b->d, page, &p[2]));
    assert_ok(b->o->map(b->d, base, p, 3)); /* 0, 1-2, 3 */
    fill_bytes(b, 0, base, 10, page);
    fill_bytes(b, 0, base + page, 11, 2 * page);
    fill_bytes(b, 0, base + 3 * page, 12, page);
    sync(b, 0);
    assert_ok(b->o->unmap(b->d, base + page, p + 1, 2));
    check_bytes(b, base, page, 10);
    assert_ok(b->o->map(b->d, base + 8 * page, p + 1, 2)); /* elsewhere */
    check_bytes(b, base + 8 * page, 2 * page, 11);
    check_bytes(b, base + 10 * page, page, 12);
    assert_ok(b->o->unmap(b->d, base + 8 * page, p + 1, 2));
    tidei_dpage *swapped[2] = {p[2], p[1]}; /* the two change places, over each other's bytes */
    assert_ok(b->o->map(b->d, base + 8 * page, swapped, 2));
    check_bytes(b, base + 8 * page, page, 12);
    check_bytes(b, base + 9 * page, 2 * page, 11);
    assert_ok(b->o->unmap(b->d, base, p, 1));
    assert_ok(b->o->unmap(b->d, base + 8 * page, swapped, 2));
    b->o->unreserve(b->d, base, 16 * page); /* pages hold their bytes without any address */
    assert_ok(b->o->map(b->d, other, p, 3));
    check_bytes(b, other, page, 10);
    check_bytes(b, other + page, 2 * page, 11);
    check_bytes(b, other + 3 * page, page, 12);
    assert_ok(b->o->unmap(b->d, other, p, 3));
    b->o->unreserve(b->d, other, 4 * page);
    for (int i = 0; i < 3; i++) b->o->page_release(b->d, p[i]);
}

static void a_new_page_takes_the_place_of_an_unmapped_one(void **state) {
    struct box *b = *state;
    size_t page = page_of(b);
    tidei_addr base;
    tidei_dpage *p, *q;
    assert_ok(b->o->reserve(b->d, 2 * page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->page_new(b->d, page, &q));
    assert_ok(b->o->map(b->d, base, &p, 1));
    fill_bytes(b, 0, base, 1, page);
    sync(b, 0);
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    assert_ok(b->o->map(b->d, base, &q, 1));
    fill_bytes(b, 0, base, 2, page);
    assert_ok(b->o->map(b->d, base + page, &p, 1));
    check_bytes(b, base, page, 2);
    check_bytes(b, base + page, page, 1);
    assert_ok(b->o->unmap(b->d, base + page, &p, 1));
    assert_ok(b->o->unmap(b->d, base, &q, 1));
    b->o->page_release(b->d, p);
    b->o->page_release(b->d, q);
    b->o->unreserve(b->d, base, 2 * page);
}

/* Pages come, go and move at random, against a table of what each should hold. */
static void pages_at_random(void **state) {
    struct box *b = *state;
    enum { PAGES = 6, PLACES = 10 };
    size_t page = page_of(b);
    tidei_addr base;
    tidei_dpage *p[PAGES];
    int place[PAGES], at[PLACES];
    unsigned char value[PAGES];
    uint32_t r = 12345;
    assert_ok(b->o->reserve(b->d, PLACES * page, &base));
    for (int i = 0; i < PLACES; i++) at[i] = -1;
    for (int i = 0; i < PAGES; i++) {
        assert_ok(b->o->page_new(b->d, page, &p[i]));
        place[i] = -1;
        value[i] = 0;
    }
    for (int k = 0; k < 300; k++) {
        r = r * 1664525 + 1013904223;
        int i = (int)((r >> 8) % PAGES), to = (int)((r >> 16) % PLACES);
        if (place[i] >= 0) {
            tidei_addr a = base + (size_t)place[i] * page;
            if (value[i]) check_bytes(b, a, page, value[i]);
            value[i] = (unsigned char)(1 + k % 200);
            fill_bytes(b, 0, a, value[i], page);
            sync(b, 0);
            assert_ok(b->o->unmap(b->d, a, &p[i], 1));
            at[place[i]] = -1;
            place[i] = -1;
        } else if (at[to] < 0) {
            assert_ok(b->o->map(b->d, base + (size_t)to * page, &p[i], 1));
            at[to] = i;
            place[i] = to;
        }
    }
    for (int i = 0; i < PAGES; i++) {
        if (place[i] >= 0) {
            if (value[i]) check_bytes(b, base + (size_t)place[i] * page, page, value[i]);
            assert_ok(b->o->unmap(b->d, base + (size_t)place[i] * page, &p[i], 1));
        }
        b->o->page_release(b->d, p[i]);
    }
    b->o->unreserve(b->d, base, PLACES * page);
}

static void the_ceiling_holds_and_gives_way(void **state) {
    struct box *b = *state;
    size_t free_bytes, total, page = page_of(b), n = 0;
    tidei_dpage *p[2048];
    tidei_addr a;
    if (b->d->info.total_bytes > TIDEI_GIB) skip();
    assert_ok(b->o->memory(b->d, &free_bytes, &total));
    assert_int_equal(total, b->d->info.total_bytes);
    assert_int_equal(free_bytes, total - MEMORY); /* pinned memory does not count */
    while (n < 2048 && b->o->page_new(b->d, page, &p[n]) == TIDE_OK) n++;
    assert_int_equal(n, free_bytes / page);
    char figures[64];
    snprintf(figures, sizeof figures, "%zu bytes asked, 0 of %zu free", page, total);
    assert_error(TIDE_E_NOMEM, figures);
    assert_int_equal(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, 1, &a), TIDE_E_NOMEM);
    b->o->page_release(b->d, p[--n]);
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, page, &a));
    b->o->raw_free(b->d, TIDEI_MEM_DEVICE, a, page);
    while (n) b->o->page_release(b->d, p[--n]);
    assert_ok(b->o->memory(b->d, &free_bytes, &total));
    assert_int_equal(free_bytes, total - MEMORY);
}

static void absurd_sizes_are_refused(void **state) {
    struct box *b = *state;
    size_t page = page_of(b), absurd = SIZE_MAX / page * page;
    tidei_dpage *p;
    tidei_addr a;
    assert_int_equal(b->o->page_new(b->d, absurd, &p), TIDE_E_NOMEM);
    assert_int_equal(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, absurd, &a), TIDE_E_NOMEM);
    assert_int_equal(b->o->raw_alloc(b->d, TIDEI_MEM_PINNED, absurd, &a), TIDE_E_HOST_NOMEM);
    fill_bytes(b, 0, b->memory, 5, 8); /* nothing is lost */
    assert_int_equal(read_word(b, 0, b->memory), 0x0505050505050505);
}

static void the_description_is_sane(void **state) {
    tidei_device *d = ((struct box *)*state)->d;
    assert_true(strlen(d->info.name) > 5 && strlen(d->info.model) > 0);
    assert_true(d->info.align >= 16 && (d->info.align & (d->info.align - 1)) == 0);
    assert_int_equal(d->info.va_bytes % d->info.page_bytes, 0);
    assert_true(d->info.va_bytes >= d->info.total_bytes / d->info.page_bytes * d->info.page_bytes);
    assert_non_null(d->fault_word);
    assert_int_equal(atomic_load(d->fault_word), TIDEI_FAULT_NONE);
    assert_false(atomic_load(&d->lost));
}

/* ---- the battery ---- */

#define CASE(f)                                                                                    \
    { #f, f, false }
#define PAGES(f)                                                                                   \
    { #f, f, true }
static const struct {
    const char *name;
    void (*fn)(void **state);
    bool pages;
} cases[] = {
    CASE(work_on_a_stream_runs_in_order),
    CASE(a_waiting_launch_holds_only_who_waits_for_it),
    CASE(a_chain_of_events_passes_a_value_on),
    CASE(a_wait_is_for_the_record_before_it),
    CASE(an_event_outlives_its_stream),
    CASE(the_completion_word_rises_behind_the_work),
    CASE(many_streams_run_side_by_side),
    CASE(several_threads_submit_at_once),
    CASE(copies_of_all_kinds_and_odd_sizes),
    CASE(many_copies_at_once),
    CASE(many_copies_come_in_order),
    CASE(many_copies_come_in_order_once_prepared),
    CASE(a_long_source_is_free_while_earlier_work_stands),
    CASE(fills_of_every_width),
    CASE(a_fill_of_alike_bytes_of_any_width),
    PAGES(contents_survive_mapping_elsewhere),
    PAGES(a_new_page_takes_the_place_of_an_unmapped_one),
    PAGES(pages_at_random),
    CASE(the_ceiling_holds_and_gives_way),
    CASE(absurd_sizes_are_refused),
    CASE(the_description_is_sane),
};

static int setup(void **state) {
    *state = open_box(*state);
    return 0;
}

int main(void) {
    const struct maker *makers = test_on_host() ? host_makers : cuda_makers;
    size_t nmakers = test_on_host() ? TIDEI_COUNT(host_makers) : TIDEI_COUNT(cuda_makers);
    static char names[TIDEI_COUNT(host_makers) * TIDEI_COUNT(cases)][128];
    static struct CMUnitTest tests[TIDEI_COUNT(names)];
    size_t n = 0;
    for (size_t m = 0; m < nmakers; m++)
        for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
            if (makers[m].pages_only && !cases[i].pages) continue;
            snprintf(names[n], sizeof names[n], "%s: %s", makers[m].name, cases[i].name);
            tests[n] = (struct CMUnitTest){names[n], cases[i].fn, setup, close_box,
                                           (void *)(uintptr_t)&makers[m]};
            n++;
        }
    return _cmocka_run_group_tests("device", tests, n, NULL, NULL);
}
