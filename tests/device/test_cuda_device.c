/* test_cuda_device.c: the `cuda` device over a double of the driver: what the device asks for, in
** which order, what it does with refusals, and that it gives everything back. Copies of many
** pieces: test_cuda_copies.c. */
#include <sys/wait.h>
#include "runtime/hooks.h"
#include "tests/doubles/cuda_double.h"

/* ---- cases ---- */

static void it_opens_and_closes(void **state) {
    (void)state;
    tidei_device *d = open_double();
    assert_string_equal(d->info.name, "cuda:0");
    assert_string_equal(d->info.model, "Double");
    assert_int_equal(d->info.ordinal, 0);
    assert_int_equal(d->info.count, 1);
    assert_int_equal(d->info.flags, TIDEI_DEV_RUNS_TEXT | TIDEI_DEV_PAGES | TIDEI_DEV_COPIES_WAIT |
                                        TIDEI_DEV_UNIFIED | TIDEI_DEV_GRAPHS);
    assert_int_equal(d->info.page_bytes, PAGE);
    assert_int_equal(d->info.va_bytes % PAGE, 0);
    assert_true(d->info.va_bytes >= d->info.total_bytes);
    assert_int_equal(*d->fault_word, 0);
    assert_int_equal(fake.contexts, 1);
    d->ops->close(d);
    assert_nothing_left();
}

static void it_refuses_with_a_reason(void **state) {
    tidei_device *d = NULL;
    tidei_device_params p = {.ordinal = 3};
    (void)state;
    assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NODEVICE);
    assert_error(TIDE_E_NODEVICE, "there is no cuda:3: the driver shows 1 GPU");
    p.ordinal = 0;
    static const char *const calls[] = {"cuDeviceGetCount", "cuDevicePrimaryCtxRetain",
                                        "cuMemHostAlloc"};
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        fail_at(calls[i], 0, TIDEI_CU_OUT_OF_MEMORY);
        assert_int_equal(tidei_cuda_open(&p, &d), TIDE_E_NOMEM);
        assert_error(TIDE_E_NOMEM, calls[i]);
        assert_null(d);
        assert_nothing_left();
    }
}

/* Without a driver (or a device) the answer says which it is. Where there is a GPU, it opens. */
static void the_real_driver_opens_or_says_why_not(void **state) {
    tidei_device *d = NULL;
    tidei_device_params p = {0};
    (void)state;
    tidei_cu_use(NULL);
    if (tidei_cuda_open(&p, &d) == TIDE_OK) {
        assert_true(d->info.sm_count > 0);
        d->ops->close(d);
        return;
    }
    assert_int_equal(tide_error_last()->status, TIDE_E_NODEVICE);
    assert_true(strlen(tide_error_last()->message) > 10);
}

static void the_drivers_pools_give_memory(void **state) {
    (void)state;
    tidei_device *d = open_double();
    const struct tidei_device_ops *o = d->ops;
    tidei_dmempool *mp = NULL;
    tidei_dstream *s;
    tidei_addr a, b;
    size_t reserved, used;
    assert_ok(o->stream_new(d, &s));
    fake.no_pools = true;
    assert_int_equal(o->mempool_new(d, &mp), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "no stream-ordered memory pools");
    fake.no_pools = false;
    fail_at("cuMemPoolCreate", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->mempool_new(d, &mp), TIDE_E_NOMEM);
    assert_null(mp);
    fail_at(NULL, 0, 0);
    assert_ok(o->mempool_new(d, &mp));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_THRESHOLD, (uint64_t)5 << 32));
    assert_int_equal(fake.threshold, (uint64_t)5 << 32);
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_FOLLOW, 1));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_DONE, 0));
    assert_ok(o->mempool_set(d, mp, TIDEI_MEMPOOL_REUSE_WAIT, 1));
    assert_true(fake.rules[1] == 1 && fake.rules[2] == 0 && fake.rules[3] == 1);
    assert_ok(o->mempool_alloc(d, mp, s, 1000, &a));
    assert_ok(o->mempool_alloc(d, mp, s, 500, &b));
    assert_ok(o->mempool_figures(d, mp, &reserved, &used));
    assert_int_equal(reserved, PAGE);
    assert_int_equal(used, 1500);
    assert_ok(o->mempool_free(d, mp, s, a));
    assert_ok(o->mempool_trim(d, mp, 77));
    assert_int_equal(fake.trimmed_to, 77);
    static const char *const calls[] = {"cuMemAllocFromPoolAsync", "cuMemFreeAsync",
                                        "cuMemPoolSetAttribute", "cuMemPoolTrimTo",
                                        "cuMemPoolGetAttribute"};
    for (size_t i = 0; i < TIDEI_COUNT(calls); i++) {
        fail_at(calls[i], 0, TIDEI_CU_INVALID_VALUE);
        tide_status got[] = {o->mempool_alloc(d, mp, s, 1, &a), o->mempool_free(d, mp, s, b),
                             o->mempool_set(d, mp, TIDEI_MEMPOOL_THRESHOLD, 0),
                             o->mempool_trim(d, mp, 0),
                             o->mempool_figures(d, mp, &reserved, &used)};
        for (size_t k = 0; k < TIDEI_COUNT(got); k++)
            assert_int_equal(got[k], k == i ? TIDE_E_DEVICE : TIDE_OK);
        assert_error(TIDE_E_DEVICE, calls[i]);
        fail_at(NULL, 0, 0);
        if (i != 1) assert_ok(o->mempool_alloc(d, mp, s, 1, &b)); /* b was freed */
        if (i) assert_ok(o->mempool_free(d, mp, NULL, a));        /* at once, by cuMemFree */
    }
    fail_at("cuMemAllocFromPoolAsync", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(o->mempool_alloc(d, mp, s, 1, &a), TIDE_E_NOMEM);
    assert_ok(o->mempool_free(d, mp, NULL, b));
    o->mempool_release(d, mp);
    o->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void another_context_is_put_back(void **state) {
    size_t f, t;
    (void)state;
    tidei_device *d = open_double();
    fake.current = NULL;
    assert_ok(d->ops->memory(d, &f, &t));
    assert_ptr_equal(fake.current, CONTEXT); /* nobody's before: ours stays */
    fake.current = FOREIGN;
    assert_ok(d->ops->memory(d, &f, &t));
    assert_ptr_equal(fake.current, FOREIGN);
    assert_int_equal(fake.pushes, 1);
    fail_at("cuMemGetInfo", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->memory(d, &f, &t), TIDE_E_DEVICE);
    assert_ptr_equal(fake.current, FOREIGN);
    d->ops->close(d);
    assert_ptr_equal(fake.current, FOREIGN);
    assert_nothing_left();
}

static void pages_are_mapped_and_given_back(void **state) {
    tidei_addr range;
    tidei_dpage *p[3];
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->reserve(d, 8 * PAGE, &range));
    for (int i = 0; i < 3; i++) assert_ok(d->ops->page_new(d, PAGE, &p[i]));
    assert_ok(d->ops->map(d, range, p, 3));
    assert_int_equal(fake.maps, 3);
    assert_int_equal(fake.accesses, 1); /* once a run, whatever its length */
    for (int i = 0; i < 3; i++) *(int *)PTR(range + (size_t)i * PAGE) = 40 + i;
    assert_ok(d->ops->unmap(d, range, p, 3));
    tidei_dpage *turned[] = {p[2], p[0]}; /* contents stay with the page */
    assert_ok(d->ops->map(d, range + PAGE, turned, 2));
    assert_int_equal(*(int *)PTR(range + PAGE), 42);
    assert_int_equal(*(int *)PTR(range + 2 * PAGE), 40);
    assert_ok(d->ops->unmap(d, range + PAGE, turned, 2));
    for (int fail = 0; fail < 4; fail++) { /* nothing stays mapped */
        fail_at(fail == 3 ? "cuMemSetAccess" : "cuMemMap", fail == 3 ? 0 : fail,
                TIDEI_CU_OUT_OF_MEMORY);
        assert_int_equal(d->ops->map(d, range, p, 3), TIDE_E_NOMEM);
        assert_int_equal(fake.maps, 0);
    }
    tidei_dpage *none = NULL;
    fail_at("cuMemCreate", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->page_new(d, PAGE, &none), TIDE_E_NOMEM);
    assert_null(none);
    for (int i = 0; i < 3; i++) d->ops->page_release(d, p[i]);
    d->ops->unreserve(d, range, 8 * PAGE);
    d->ops->close(d);
    assert_nothing_left();
}

static void assert_shared(bool by_descriptor, bool by_rdma) {
    assert_int_equal(fake.created.requested_handle_types,
                     by_descriptor ? TIDEI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0);
    assert_int_equal(fake.created.flags.gpu_direct_rdma_capable, by_rdma);
}

/* A page as a device makes it that lacks an attribute (0: none), on a driver that refuses what it
** offers; made once more, so that what was refused is not asked for again. */
static void page_of(unsigned lacks, tidei_cu_result descriptors, tidei_cu_result rdma) {
    tidei_dpage *p[2];
    fake.nlacks = 1;
    fake.lacks[0] = lacks;
    tidei_device *d = open_double();
    fake.refuses_descriptors = descriptors;
    fake.refuses_rdma = rdma;
    assert_ok(d->ops->page_new(d, PAGE, &p[0]));
    int calls = fake.calls;
    assert_ok(d->ops->page_new(d, PAGE, &p[1]));
    assert_int_equal(fake.calls, calls + 1);
    for (int i = 0; i < 2; i++) d->ops->page_release(d, p[i]);
    d->ops->close(d);
    assert_nothing_left();
}

/* By file descriptor and by RDMA, where the device has it and the driver does not refuse it. */
static void pages_are_made_to_be_shared(void **state) {
    (void)state;
    page_of(0, 0, 0);
    assert_shared(true, true);
    page_of(TIDEI_CU_ATTR_RDMA_WITH_PAGES, 0, 0);
    assert_shared(true, false);
    page_of(TIDEI_CU_ATTR_POSIX_FILE_DESCRIPTOR, 0, 0);
    assert_shared(false, true);
    page_of(0, 0, TIDEI_CU_NOT_SUPPORTED);
    assert_shared(true, false);
    page_of(0, TIDEI_CU_NOT_PERMITTED, TIDEI_CU_INVALID_DEVICE);
    assert_shared(false, false);
    page_of(0, TIDEI_CU_INVALID_VALUE, 0);
    assert_shared(false, false);
}

/* Nor is it given up because there is no memory. */
static void short_memory_is_no_reason_not_to_share(void **state) {
    (void)state;
    tidei_device *d = open_double();
    tidei_dpage *p;
    fail_at("cuMemCreate", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->page_new(d, PAGE, &p), TIDE_E_NOMEM);
    fake.error = 0;
    assert_ok(d->ops->page_new(d, PAGE, &p));
    assert_shared(true, true);
    d->ops->page_release(d, p);
    d->ops->close(d);
    assert_nothing_left();
}

static void raw_memory_is_had_and_given_back(void **state) {
    tidei_addr a = 0, b = 0;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_PINNED, 100, &b));
    fail_at("cuMemAlloc", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a), TIDE_E_NOMEM);
    fail_at("cuMemHostAlloc", 0,
            TIDEI_CU_OUT_OF_MEMORY); /* no device memory is missing: the ladder could not help */
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_PINNED, 100, &b), TIDE_E_HOST_NOMEM);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, a, 100);
    d->ops->raw_free(d, TIDEI_MEM_PINNED, b, 100);
    d->ops->close(d);
    assert_nothing_left();
}

/* Never more unified memory than the card has free, all there is of it counted as if it were still
** to come. */
static void unified_memory_stays_within_the_card(void **state) {
    tidei_addr a = 0, b = 0;
    tidei_dstream *s;
    (void)state;
    fake.free_bytes = 1000;
    tidei_device *d = open_double();
    assert_true(d->info.flags & TIDEI_DEV_UNIFIED);
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 600, &a));
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 401, &b), TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "401 bytes of unified memory beside 600, and 1000 are free");
    fail_at("cuMemAllocManaged", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 400, &b), TIDE_E_NOMEM);
    fail_at("", 0, 0);
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 400, &b)); /* the failed ones do not count */
    assert_ok(d->ops->prefetch(d, s, a, 600, false));
    assert_ok(d->ops->prefetch(d, s, a, 100, true));
    assert_int_equal(fake.prefetched[0], 600);
    assert_int_equal(fake.prefetched[1], 100);
    assert_ok(d->ops->advise(d, a, 600, TIDEI_ADVICE_READ_MOSTLY));
    assert_true(fake.read_mostly && !fake.preferred);
    assert_ok(d->ops->advise(d, a, 600, TIDEI_ADVICE_HOST));
    assert_true(!fake.read_mostly && fake.preferred == TIDEI_CU_MEM_LOCATION_TYPE_HOST);
    assert_ok(d->ops->advise(d, a, 600, TIDEI_ADVICE_DEVICE));
    assert_true(!fake.read_mostly && fake.preferred == TIDEI_CU_MEM_LOCATION_TYPE_DEVICE);
    assert_ok(d->ops->advise(d, a, 600, TIDEI_ADVICE_NONE));
    assert_true(!fake.read_mostly && !fake.preferred);
    fail_at("cuMemPrefetchAsync", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->prefetch(d, s, a, 600, false), TIDE_E_DEVICE);
    d->ops->raw_free(d, TIDEI_MEM_UNIFIED, a, 600);
    d->ops->raw_free(d, TIDEI_MEM_UNIFIED, b, 400);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void a_card_without_unified_memory_says_so(void **state) {
    tidei_addr a;
    (void)state;
    fake.no_managed = true;
    tidei_device *d = open_double();
    assert_false(d->info.flags & TIDEI_DEV_UNIFIED);
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_UNIFIED, 4, &a), TIDE_E_UNSUPPORTED);
    d->ops->close(d);
    assert_nothing_left();
}

static void words_order_streams(void **state) {
    tidei_dstream *a, *b, *again;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &a));
    assert_ok(d->ops->stream_new(d, &b));
    assert_int_equal(d->ops->completed(d, a), 0);
    assert_ok(d->ops->publish(d, a, 5));
    assert_int_equal(d->ops->completed(d, a), 5);
    assert_int_equal(d->ops->completed(d, b), 0);
    d->ops->stream_release(d, a);
    assert_ok(d->ops->stream_new(d, &again)); /* in the same place, from the start */
    assert_ptr_equal(again, a);
    assert_int_equal(d->ops->completed(d, again), 0);
    d->ops->stream_release(d, again);
    d->ops->stream_release(d, b);
    d->ops->close(d);
    assert_nothing_left();
}

static void events_stand_in_for_words(void **state) {
    tidei_dstream *s;
    (void)state;
    fake.write_value = 0;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    fake.event_pending = true;
    for (uint64_t tick = 1; tick <= 100; tick++) assert_ok(d->ops->publish(d, s, tick * 10));
    assert_int_equal(d->ops->completed(d, s), 0);
    assert_int_equal(fake.events, 32); /* bounded: the newest moves on */
    fake.event_pending = false;
    assert_int_equal(d->ops->completed(d, s), 1000);
    assert_ok(d->ops->publish(d, s, 1010));
    assert_int_equal(d->ops->completed(d, s), 1010);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void copies_go_there_and_back(void **state) {
    char buf[64] = "there and back", back[64] = "";
    tidei_dstream *s;
    tidei_addr m;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 128, &m));
    tidei_copy in = {TIDEI_COPY_H2D, m, (uintptr_t)buf, 64, NULL},
               across = {TIDEI_COPY_D2D, m + 64, m, 64, NULL},
               out = {TIDEI_COPY_D2H, (uintptr_t)back, m + 64, 64, NULL};
    assert_ok(d->ops->copy(d, s, &in));
    assert_int_equal(fake.syncs, 0);
    assert_ok(d->ops->copy(d, s, &across));
    assert_ok(d->ops->copy(d, s, &out));
    assert_string_equal(back, "there and back");
    fake.pinned_source = true; /* the GPU reads it later, but the caller may reuse it now */
    assert_ok(d->ops->copy(d, s, &in));
    assert_int_equal(fake.syncs, 1);
    bool busy = false; /* unless the caller waits by itself */
    in.busy = out.busy = &busy;
    assert_ok(d->ops->copy(d, s, &in));
    assert_true(busy);
    busy = false;
    assert_ok(d->ops->copy(d, s, &out));
    assert_true(busy);
    assert_true(d->ops->host_pinned(d, buf));
    fake.pinned_source = false; /* then the driver has waited, or keeps a copy */
    assert_false(d->ops->host_pinned(d, buf));
    tide_error_clear();
    atomic_store(&d->lost, true); /* who cannot be asked is left to it, with no error of its own */
    assert_true(d->ops->host_pinned(d, buf));
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    atomic_store(&d->lost, false);
    assert_ok(d->ops->copy(d, s, &in));
    assert_false(busy);
    busy = true;
    assert_ok(d->ops->copy(d, s, &out));
    assert_false(busy);
    assert_int_equal(fake.syncs, 1);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, m, 128);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* Every width, patterns that repeat at every shorter width and none, counts around the seed and the
** chunk. */
static void fills_write_every_width(void **state) {
    static const size_t counts[] = {1, 2, 3, 100, 4095, 4096, 4097, 10000, (5u << 20) + 3};
    tidei_dstream *s;
    tidei_addr m;
    size_t room = 16 * ((5u << 20) + 4);
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, room, &m));
    for (size_t width = 1; width <= 16; width *= 2)
        for (size_t repeats = 1; repeats <= width; repeats *= 2)
            for (size_t i = 0; i < TIDEI_COUNT(counts); i++) {
                unsigned char pattern[16], *p = PTR(m);
                size_t bytes = width * counts[i];
                if (i + 1 == TIDEI_COUNT(counts) && (width != 16 || repeats < 8))
                    continue; /* a large one is slow */
                for (size_t j = 0; j < width; j++)
                    pattern[j] = (unsigned char)(j % repeats * 37 + 11);
                memset(p, 0xee, bytes + 16);
                assert_ok(d->ops->fill(d, s, m, pattern, width, counts[i]));
                for (size_t j = 0; j < bytes; j++)
                    if (p[j] != pattern[j % width])
                        fail_msg("width %zu, byte %zu of %zu", width, j, bytes);
                for (size_t j = bytes; j < bytes + 16; j++) assert_int_equal(p[j], 0xee);
            }
    fail_at("cuMemcpyAsync", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->fill(d, s, m, "0123456789abcdef", 16, 5000), TIDE_E_DEVICE);
    d->ops->raw_free(d, TIDEI_MEM_DEVICE, m, room);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* In the host's memory no copy: from pinned to pinned memory the driver would hold the caller. */
static void fills_of_pinned_memory_copy_nothing(void **state) {
    enum { COUNT = 100000 };
    tidei_dstream *s;
    tidei_addr m;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->raw_alloc(d, TIDEI_MEM_PINNED, 16 * (COUNT + 1), &m));
    for (size_t width = 8; width <= 16; width *= 2)
        for (int pinned = 0; pinned < 2; pinned++) {
            unsigned char *p = PTR(m);
            int copies = fake.copies;
            memset(p, 0xee, 16 * (COUNT + 1));
            fake.pinned_source = pinned;
            assert_ok(d->ops->fill(d, s, m, "0123456789abcdef", width, COUNT));
            assert_int_equal(fake.copies > copies, !pinned);
            for (size_t j = 0; j < COUNT * width; j++)
                if (p[j] != "0123456789abcdef"[j % width])
                    fail_msg("width %zu, byte %zu", width, j);
            for (size_t j = COUNT * width; j < COUNT * width + 16; j++)
                assert_int_equal(p[j], 0xee);
        }
    d->ops->raw_free(d, TIDEI_MEM_PINNED, m, 16 * (COUNT + 1));
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* Clusters of more blocks than all devices take: allowed, where one fits. */
static void wide_clusters_are_asked_for(void **state) {
    tidei_kernel_text t = {.name = "nothing",
                           .source = "extern \"C\" __global__ void nothing(int i) {}"};
    tidei_dkernel *k = NULL;
    (void)state;
    tidei_device *d = open_double();
    assert_int_equal(d->info.cluster_most, 16);
    assert_ok(d->ops->kernel_new(d, &t, &k, NULL, NULL));
    assert_ok(d->ops->kernel_widen(d, k, 16, 512, 1 << 14));
    fake.no_wide_clusters = true;
    assert_int_equal(d->ops->kernel_widen(d, k, 16, 512, 1 << 14), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "takes no clusters of 16 blocks");
    fake.no_wide_clusters = false;
    fail_at("cuFuncSetAttribute", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->kernel_widen(d, k, 16, 512, 1 << 14), TIDE_E_UNSUPPORTED);
    /* what is no answer is no refusal */
    fail_at("cuOccupancyMaxActiveClusters", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->kernel_widen(d, k, 16, 512, 1 << 14), TIDE_E_NOMEM);
    fail_at(NULL, 0, 0);
    d->ops->kernel_release(d, k);
    d->ops->close(d);
    assert_nothing_left();
}

/* Early launches of three of a kernel that waits by itself, or says nothing of it. */
static int early_launches_of(bool waits) {
    const tidei_kernel_text t = {
        .name = "nothing", .source = "extern \"C\" __global__ void nothing() {}", .waits = waits};
    tidei_launch l = {.name = "nothing", .grid = {7, 1, 1}, .block = {32, 2, 1}, .shared_bytes = 9};
    tidei_dstream *s;
    tidei_device *d = open_double();
    const int before = fake.early_launches, all = fake.launches;
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->kernel_new(d, &t, &l.kernel, NULL, NULL));
    for (int i = 0; i < 3; i++) assert_ok(d->ops->launch(d, s, &l));
    assert_int_equal(fake.launches - all, 3);
    assert_memory_equal(fake.grid, l.grid, sizeof l.grid);
    assert_memory_equal(fake.block, l.block, sizeof l.block);
    assert_int_equal(fake.shared, 9);
    const int early = fake.early_launches - before;
    fail_at(early ? "cuLaunchKernelEx" : "cuLaunchKernel", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->launch(d, s, &l), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "launching nothing (grid 7, 1, 1, block 32, 2, 1");
    fail_at(NULL, 0, 0);
    d->ops->kernel_release(d, l.kernel);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
    return early;
}

/* Only what waits by itself may start while what is before it runs: by its text, its architecture,
** and a driver that has such launches. */
static void kernels_that_wait_start_early(void **state) {
    (void)state;
    assert_int_equal(early_launches_of(true), 3);
    assert_int_equal(early_launches_of(false), 0);
    fake.ampere = true;
    assert_int_equal(early_launches_of(true), 0);
    fake.ampere = false;
    tidei_cu old = driver;
    old.cuLaunchKernelEx = NULL;
    tidei_cu_use(&old);
    assert_int_equal(early_launches_of(true), 0);
    tidei_cu_use(&driver);
}

/* Behind what others queue a launch does not start early: the next one, or every one; where it
** failed, the one that is queued in its place. */
static void launches_behind_others_do_not_start_early(void **state) {
    const tidei_kernel_text t = {
        .name = "nothing", .source = "extern \"C\" __global__ void nothing() {}", .waits = true};
    tidei_launch l = {.name = "nothing", .grid = {1, 1, 1}, .block = {32, 1, 1}};
    tidei_dstream *s, *other, *adopted;
    (void)state;
    tidei_device *d = open_double();
    const struct tidei_device_ops *o = d->ops;
    assert_ok(o->stream_new(d, &s));
    assert_ok(o->stream_new(d, &other));
    assert_ok(o->stream_adopt(d, NULL, &adopted));
    assert_ok(o->kernel_new(d, &t, &l.kernel, NULL, NULL));
    fake.early_launches = 0;
    for (int i = 0; i < 3; i++) { /* each time anew, and twice is as once */
        o->stream_lend(d, s, true);
        if (i == 1) o->stream_lend(d, s, true);
        if (i == 2) {
            fail_at("cuLaunchKernel", 0, TIDEI_CU_OUT_OF_MEMORY);
            assert_int_equal(o->launch(d, s, &l), TIDE_E_NOMEM);
            fail_at(NULL, 0, 0);
        }
        assert_ok(o->launch(d, s, &l));
        assert_int_equal(fake.early_launches, 3 * i);
        assert_ok(o->launch(d, other, &l));
        for (int k = 0; k < 2; k++) assert_ok(o->launch(d, s, &l));
        assert_int_equal(fake.early_launches, 3 * i + 3);
    }
    o->stream_lend(d, s, false);
    o->stream_lend(d, s, true);
    for (int k = 0; k < 3; k++) assert_ok(o->launch(d, s, &l));
    for (int k = 0; k < 3; k++) assert_ok(o->launch(d, adopted, &l));
    assert_int_equal(fake.early_launches, 9);
    o->stream_release(d, s);
    o->stream_release(d, adopted);
    assert_ok(o->stream_new(d, &s)); /* in the place of one that was lent */
    assert_ok(o->launch(d, s, &l));
    assert_int_equal(fake.early_launches, 10);
    o->kernel_release(d, l.kernel);
    o->stream_release(d, s);
    o->stream_release(d, other);
    o->close(d);
    assert_nothing_left();
}

static void kernels_are_loaded_and_launched(void **state) {
    tidei_kernel_text t = {.name = "nothing",
                           .source = "extern \"C\" __global__ void nothing(int i) {}"};
    tidei_dkernel *k = NULL, *again = NULL;
    tidei_dstream *s;
    void *image = NULL, *kept = NULL;
    size_t bytes = 0;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    /* Loading fails: what was compiled is not lost. */
    fail_at("cuModuleLoadData", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_equal(d->ops->kernel_new(d, &t, &k, &image, &bytes), TIDE_E_NOMEM);
    assert_null(k);
    assert_non_null(image);
    fail_at(NULL, 0, 0);
    t.image = image;
    t.image_bytes = bytes;
    assert_ok(d->ops->kernel_new(d, &t, &k, &kept, &bytes));
    assert_null(kept); /* nothing was compiled */
    t.image = NULL;
    assert_ok(d->ops->kernel_new(d, &t, &again, NULL, NULL));
    fail_at("cuModuleGetFunction", 0, TIDEI_CU_NOT_FOUND);
    tidei_dkernel *none = NULL;
    assert_int_equal(d->ops->kernel_new(d, &t, &none, NULL, NULL), TIDE_E_DEVICE);
    assert_int_equal(fake.modules, 2);
    t.source = "nonsense";
    assert_int_equal(d->ops->kernel_new(d, &t, &none, NULL, NULL), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "nothing(1): error");

    int params[3] = {1, 2, 3};
    tidei_launch l = {.name = "nothing",
                      .kernel = k,
                      .params = params,
                      .params_bytes = sizeof params,
                      .grid = {1, 2, 3},
                      .block = {4, 5, 6},
                      .shared_bytes = 100};
    assert_ok(d->ops->launch(d, s, &l));
    assert_memory_equal(fake.params, params, sizeof params);
    assert_int_equal(fake.params_bytes, sizeof params);
    assert_memory_equal(fake.grid, l.grid, sizeof l.grid);
    assert_memory_equal(fake.block, l.block, sizeof l.block);
    assert_int_equal(fake.shared, 100);
    fail_at("cuLaunchKernel", 0, TIDEI_CU_INVALID_VALUE);
    assert_int_equal(d->ops->launch(d, s, &l), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "launching nothing (grid 1, 2, 3, block 4, 5, 6");
    l.kernel = NULL;
    assert_int_equal(d->ops->launch(d, s, &l), TIDE_E_UNSUPPORTED);
    free(image);
    d->ops->kernel_release(d, k);
    d->ops->kernel_release(d, again);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* A stream of others that is being captured takes nothing of ours, and is not lost by it. */
static void a_captured_stream_takes_nothing(void **state) {
    tidei_dstream *s, *own;
    tidei_devent *e;
    uint8_t zero = 0;
    tidei_piece piece = {0};
    tidei_copy copy = {.kind = TIDEI_COPY_D2D, .bytes = 8};
    (void)state;
    tidei_device *d = open_double();
    const struct tidei_device_ops *o = d->ops;
    fake.foreign_stream = &stream_storage[7];
    assert_int_equal(o->stream_adopt(d, &stream_storage[7], &s), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "another device or context");
    fake.foreign_stream = NULL;
    assert_ok(o->stream_adopt(d, &stream_storage[7], &s));
    assert_ok(o->stream_new(d, &own));
    assert_ok(o->event_new(d, &e));
    fake.capturing = 1;
    assert_int_equal(o->publish(d, s, 1), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED,
                 "cuda:0: the stream is being captured into a graph by its owner");
    assert_int_equal(o->event_record(d, e, s), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->event_wait(d, e, s), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->stream_sync(d, s), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->copy(d, s, &copy), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->copy_many(d, s, &piece, 1), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->fill(d, s, 64, &zero, 1, 8), TIDE_E_UNSUPPORTED);
    assert_int_equal(o->completed(d, s), 0);
    assert_ok(o->event_record(d, e, own)); /* ours is not asked */
    fake.capturing = 0;
    assert_ok(o->publish(d, s, 1));
    assert_int_equal(o->completed(d, s), 1);
    fail_at("cuStreamIsCapturing", 0, TIDEI_CU_OUT_OF_MEMORY);
    assert_int_not_equal(o->publish(d, s, 2), TIDE_OK);
    o->event_release(d, e);
    o->stream_release(d, s);
    o->stream_release(d, own);
    o->close(d);
    assert_nothing_left();
}

static void a_lost_device_is_told_once_and_for_all(void **state) {
    tidei_dstream *s;
    tidei_devent *e;
    tidei_addr a = 17;
    (void)state;
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    assert_ok(d->ops->event_new(d, &e));
    assert_ok(d->ops->event_record(d, e, s));
    assert_ok(d->ops->event_wait(d, e, s));
    fail_at("cuStreamSynchronize", 0, TIDEI_CU_ILLEGAL_ADDRESS);
    assert_int_equal(d->ops->stream_sync(d, s), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS (700: said in words)");
    assert_true(d->lost);
    int calls = fake.calls;
    assert_int_equal(d->ops->raw_alloc(d, TIDEI_MEM_DEVICE, 100, &a), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "cuda:0 is unusable since CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(d->ops->publish(d, s, 1), TIDE_E_LOST);
    assert_int_equal(a, 17);
    assert_int_equal(fake.calls, calls); /* the driver is not asked any more, */
    assert_int_equal(d->ops->stream_sync(d, s), TIDE_E_LOST);
    /* but for the end of what may still use the host's memory */
    assert_int_equal(fake.calls, calls + 1);
    d->ops->event_release(d, e);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

static void a_declared_loss_counts_as_a_loss(void **state) {
    (void)state;
    tidei_device *d = open_double();
    size_t n;
    d->ops->lose(d, "what a caller saw");
    d->ops->lose(d, "something else"); /* the first reason stands */
    assert_int_equal(d->ops->memory(d, &n, &n), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "unusable since what a caller saw");
    d->ops->close(d);
    assert_nothing_left();
}

static void a_forks_child_makes_no_calls(void **state) {
    tidei_dstream *s;
    int status;
    (void)state;
    tidei_threads_prepare(&tidei_threads_above); /* as opening a runtime does */
    tidei_device *d = open_double();
    assert_ok(d->ops->stream_new(d, &s));
    pid_t child = fork();
    if (child == 0) {
        int calls = fake.calls;
        if (d->ops->stream_sync(d, s) != TIDE_E_FORKED) _exit(1);
        d->ops->stream_release(d, s);
        d->ops->close(d);
        if (fake.calls != calls) _exit(2);
        _exit(fake.streams == 1 && fake.contexts == 1 ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    d->ops->stream_release(d, s);
    d->ops->close(d);
    assert_nothing_left();
}

/* Uploads of batches are left to the stream: next() waits for nothing, and all is right. */
static void batches_are_uploaded_without_a_wait(void **state) {
    (void)state;
    tidei_device *d = open_double();
    tide_runtime *rt;
    tide_batches *b;
    static float rows[100][5000], got[30][5000];
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 5000; k++) rows[i][k] = (float)(i * 5000 + k);
    assert_ok(tidei_open_on(
        &(tide_config){.struct_size = sizeof(tide_config), .collector = "refcount"}, d, &rt));
    tide_data x = tide_data_host(TIDE_F32, SHAPE(100, 5000), rows), batch;
    tide_batches_config c = {.struct_size = sizeof c, .arrays = &x, .narrays = 1, .batch = 30};
    int pinned = fake.pinned;
    assert_ok(tide_batches_new(rt, &c, &b));
    assert_true(fake.pinned > pinned);
    fake.pinned_source = true;
    for (int i = 0; i < 4; i++) {
        int syncs = fake.syncs;
        assert_ok(tide_batches_next(b, &batch));
        assert_int_equal(fake.syncs, syncs);
        assert_ok(tide_to_host(batch.array, got, (size_t)batch.shape[0] * sizeof *got));
        assert_memory_equal(got, rows + 30 * i, (size_t)batch.shape[0] * sizeof *got);
    }
    fail_at("cuMemHostAlloc", 0, TIDEI_CU_OUT_OF_MEMORY);
    tide_batches *more;
    assert_int_equal(tide_batches_new(rt, &c, &more), TIDE_E_HOST_NOMEM);
    assert_string_equal(tide_error_last()->operation, "tide_batches_new");
    fail_at(NULL, 0, 0);
    tide_batches_release(b);
    fake.pinned_source = false;
    tide_close(rt);
    assert_nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(batches_are_uploaded_without_a_wait),
        CASE(it_opens_and_closes),
        CASE(it_refuses_with_a_reason),
        CASE(the_real_driver_opens_or_says_why_not),
        CASE(the_drivers_pools_give_memory),
        CASE(another_context_is_put_back),
        CASE(pages_are_mapped_and_given_back),
        CASE(pages_are_made_to_be_shared),
        CASE(short_memory_is_no_reason_not_to_share),
        CASE(raw_memory_is_had_and_given_back),
        CASE(unified_memory_stays_within_the_card),
        CASE(a_card_without_unified_memory_says_so),
        CASE(words_order_streams),
        CASE(events_stand_in_for_words),
        CASE(copies_go_there_and_back),
        CASE(fills_write_every_width),
        CASE(fills_of_pinned_memory_copy_nothing),
        CASE(wide_clusters_are_asked_for),
        CASE(kernels_that_wait_start_early),
        CASE(launches_behind_others_do_not_start_early),
        CASE(kernels_are_loaded_and_launched),
        CASE(a_captured_stream_takes_nothing),
        CASE(a_lost_device_is_told_once_and_for_all),
        CASE(a_declared_loss_counts_as_a_loss),
        CASE(a_forks_child_makes_no_calls),
    };
    return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
