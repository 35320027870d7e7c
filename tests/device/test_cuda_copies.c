/* test_cuda_copies.c: the `cuda` device copies many pieces at once, over a double of the driver:
** which way each piece goes, when kernels are made, what refusals come to; and the kernels' own
** text, emulated. */
#include "runtime/device/cuda/copy_many.h"
#include "tests/doubles/cuda_double.h"

#define PIECES 3000
#define ROOM   ((size_t)16 << 20)

/* Device memory, half of it to be copied from, in pieces that lie apart. */
typedef struct many {
    tidei_device *d;
    tidei_dstream *s;
    unsigned char *src, *dst;
    tidei_piece piece[PIECES];
    size_t n;
} many;

/* Both kernels, each with its own names. */
static void emulate_copies(void) {
    static const char *const names[] = {"few", "many"};
    for (int i = 0; i < 2; i++) {
        char text[16384];
        int n = snprintf(text, sizeof text,
                         "#undef COPY\n#undef BATCH\n#undef PIECES\n#define tide_copy_%s tide_k\n",
                         names[i]);
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "#define %s tide_p\n%s#undef %s\n#undef tide_copy_%s\n", names[i],
                      tidei_cuda_copy_both, names[i], names[i]);
        assert_in_range(n, 1, sizeof text - 1);
        emu_add(&fake.emulated, text, 0);
    }
    emu_build(&fake.emulated);
}

static many *open_many(void) {
    if (!emu_compiler()) skip();
    many *m = calloc(1, sizeof *m);
    tidei_addr at;
    m->d = open_double();
    emulate_copies();
    assert_ok(m->d->ops->stream_new(m->d, &m->s));
    assert_ok(m->d->ops->raw_alloc(m->d, TIDEI_MEM_DEVICE, 2 * ROOM, &at));
    m->src = PTR(at);
    m->dst = m->src + ROOM;
    for (size_t i = 0; i < ROOM; i++) m->src[i] = (unsigned char)(i * 7 + (i >> 8) + (i >> 16));
    return m;
}

static void close_many(many *m) {
    m->d->ops->raw_free(m->d, TIDEI_MEM_DEVICE, (uintptr_t)m->src, 2 * ROOM);
    m->d->ops->stream_release(m->d, m->s);
    m->d->ops->close(m->d);
    emu_close(&fake.emulated);
    free(m);
    assert_nothing_left();
}

static void prepare(many *m) {
    m->d->ops->copy_many_prepare(m->d);
    assert_int_equal(fake.loads, 0); /* nobody needs it yet */
    tidei_piece *p = calloc(1000, sizeof *p);
    for (size_t i = 0; i < 1000; i++)
        p[i] = (tidei_piece){(uintptr_t)m->dst + 16 * i, (uintptr_t)m->src + 16 * i, 16};
    assert_ok(m->d->ops->copy_many(m->d, m->s, p, 1000));
    free(p);
    m->d->ops->copy_many_prepare(m->d);
    fake.copies = 0;
}

/* Piece by piece, from the source's low end to the target's high end. */
static void add_piece(many *m, size_t bytes, size_t shift) {
    tidei_piece *last = m->n ? &m->piece[m->n - 1] : NULL;
    tidei_addr src = last ? tidei_round_up(last->src + last->bytes + 16, 256) : (uintptr_t)m->src;
    tidei_addr end = last ? last->dst - 16 : (uintptr_t)m->dst + ROOM;
    m->piece[m->n++] = (tidei_piece){(end - bytes) / 256 * 256 - 256 + shift, src, bytes};
    assert_true(src + bytes <= (uintptr_t)m->dst && m->piece[m->n - 1].dst > (uintptr_t)m->dst);
}

static void copy_all(many *m) {
    fake.batches[0] = fake.batches[1] = fake.copies = 0;
    memset(m->dst, 0xEE, ROOM);
    assert_ok(m->d->ops->copy_many(m->d, m->s, m->piece, m->n));
    for (size_t i = 0; i < m->n; i++) {
        const unsigned char *p = PTR(m->piece[i].dst);
        size_t n = m->piece[i].bytes;
        if (memcmp(p, PTR(m->piece[i].src), n) || p[-1] != 0xEE || p[n] != 0xEE)
            fail_msg("piece %zu of %zu bytes", i, n);
    }
}

static void many_pieces_are_copied_at_once(void **state) {
    static const size_t sizes[] = {0,     1,     15,    16,    17,    4095,  4096,   4097,
                                   16383, 16384, 16385, 49152, 65536, 65537, 262144, (1 << 20) + 5};
    (void)state;
    many *m = open_many();
    copy_all(m); /* none */
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) add_piece(m, sizes[i], 0);
    copy_all(m); /* nobody has prepared for them */
    assert_int_equal(fake.copies, TIDEI_COUNT(sizes) - 1);
    assert_int_equal(fake.batches[0] + fake.batches[1], 0);
    prepare(m);
    copy_all(m);
    assert_int_equal(fake.copies, 0);
    assert_int_equal(fake.batches[0], 1);
    add_piece(m, 1000, 3); /* not aligned */
    copy_all(m);
    assert_int_equal(fake.copies, 1);
    while (m->n < PIECES) add_piece(m, 1 + m->n * m->n % 3001, 0);
    copy_all(m);
    assert_int_equal(fake.copies, 1);
    assert_int_equal(fake.batches[0], ((PIECES - 2) % 1364 <= 170));
    assert_int_equal(fake.batches[0] + fake.batches[1], (PIECES - 2 + 1363) / 1364);
    m->d->ops->copy_many_prepare(m->d); /* once is enough */
    assert_int_equal(fake.loads, 1);
    close_many(m);
}

static void large_pieces_are_copied_beside_small_ones(void **state) {
    (void)state;
    many *m = open_many();
    size_t large = 64 * TIDEI_MIB;
    tidei_addr at;
    prepare(m);
    assert_ok(m->d->ops->raw_alloc(m->d, TIDEI_MEM_DEVICE, 2 * large, &at));
    *(int *)PTR(at + large - 4) = 5;
    tidei_piece p[] = {{(uintptr_t)m->dst, (uintptr_t)m->src, 256}, {at + large, at, large}};
    assert_ok(m->d->ops->copy_many(m->d, m->s, p, 2));
    assert_int_equal(*(int *)PTR(at + 2 * large - 4), 5);
    assert_memory_equal(m->dst, m->src, 256);
    assert_int_equal(fake.copies, 1);
    assert_int_equal(fake.batches[0], 1);
    m->d->ops->raw_free(m->d, TIDEI_MEM_DEVICE, at, 2 * large);
    close_many(m);
}

/* Older drivers take small parameters. */
static void an_old_driver_takes_smaller_parameters(void **state) {
    (void)state;
    tidei_cu old = driver;
    old.version = 12000;
    tidei_cu_use(&old);
    many *m = open_many();
    prepare(m);
    for (int i = 0; i < 400; i++) add_piece(m, 100, 0);
    copy_all(m);
    assert_int_equal(fake.batches[0], 3);
    assert_int_equal(fake.batches[1], 0);
    close_many(m);
}

/* Without the kernels, pieces are copied one by one, and nobody hears of it. */
static void without_kernels_pieces_go_one_by_one(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        many *m = open_many();
        for (int i = 0; i < 5; i++) add_piece(m, 1000, 0);
        tidei_fail(TIDE_E_INVALID, "test", "what the caller had before");
        fake.loads = 0;
        fail_at("cuModuleLoadData", 0, way ? TIDEI_CU_OUT_OF_MEMORY : TIDEI_CU_INVALID_IMAGE);
        prepare(m);
        for (int i = 1; i < 7; i++) m->d->ops->copy_many_prepare(m->d);
        assert_error(TIDE_E_INVALID, "what the caller had before");
        /* calls 1, 2, 4; or both texts, once and for all */
        assert_int_equal(fake.loads, way ? 3 : 2);
        copy_all(m);
        assert_int_equal(fake.copies, 5);
        fail_at(NULL, 0, 0);
        m->d->ops->copy_many_prepare(m->d);
        copy_all(m);
        assert_int_equal(fake.copies, way ? 0 : 5); /* memory may come back */
        close_many(m);
    }
}

static void without_the_large_kernel_the_small_one_serves(void **state) {
    (void)state;
    many *m = open_many();
    for (int i = 0; i < 400; i++) add_piece(m, 100, 0);
    fake.no_many = true;
    prepare(m);
    copy_all(m);
    assert_int_equal(fake.copies, 0);
    assert_int_equal(fake.batches[0], 3);
    assert_int_equal(fake.modules, 1);
    close_many(m);
}

static void what_a_launch_fails_to_copy_goes_one_by_one(void **state) {
    (void)state;
    many *m = open_many();
    prepare(m);
    for (int i = 0; i < 2000; i++) add_piece(m, 100, 0);
    fail_at("cuLaunchKernel", 1, TIDEI_CU_OUT_OF_MEMORY); /* the second */
    copy_all(m);
    assert_int_equal(fake.batches[1], 1);
    assert_int_equal(fake.copies, 2000 - 1364);
    m->piece[0].src++; /* not the kernel's */
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 3), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "copying 3 pieces");
    assert_false(atomic_load(&m->d->lost));
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_ILLEGAL_ADDRESS);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 3), TIDE_E_LOST);
    assert_true(atomic_load(&m->d->lost));
    m->d->ops->copy_many_prepare(m->d);
    assert_int_equal(m->d->ops->copy_many(m->d, m->s, m->piece, 0), TIDE_E_LOST);
    fail_at(NULL, 0, 0);
    close_many(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(many_pieces_are_copied_at_once),
        CASE(large_pieces_are_copied_beside_small_ones),
        CASE(an_old_driver_takes_smaller_parameters),
        CASE(without_kernels_pieces_go_one_by_one),
        CASE(without_the_large_kernel_the_small_one_serves),
        CASE(what_a_launch_fails_to_copy_goes_one_by_one),
    };
    return cmocka_run_group_tests_name("cuda_copies", tests, NULL, NULL);
}
