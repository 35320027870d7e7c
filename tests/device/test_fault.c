/* test_fault.c: the device that fails on purpose: at the chosen call of the chosen slot, and only
** there. */
#include "runtime/device/host/host.h"
#include "tests/support/tidetest.h"

static void nothing(const void *p) { (void)p; }

/* The wrapped device: host, with text kernels that compile to nothing, and access to enable, so
** that every slot is there to fail. */
static int kernels;
static tide_status fake_kernel_new(tidei_device *d, const tidei_kernel_text *t, tidei_dkernel **out,
                                   void **image, size_t *n) {
    (void)d, (void)t, (void)image, (void)n;
    *out = (tidei_dkernel *)(void *)&kernels;
    kernels++;
    return TIDE_OK;
}
static void fake_kernel_release(tidei_device *d, tidei_dkernel *k) {
    (void)d, (void)k;
    kernels--;
}

static bool fake_peer_possible(tidei_device *d, tidei_device *other) { return d == other; }
static tide_status fake_peer_enable(tidei_device *d, tidei_device *other) {
    assert_ptr_equal(d, other); /* also where both come wrapped */
    return TIDE_OK;
}

struct box {
    tidei_device *d, *inner;
    struct tidei_device_ops ops; /* the wrapped device's */
    tidei_dstream *s;
    tidei_devent *e;
    tidei_dpage *p;
    tidei_dmempool *mp;
    tidei_addr base, raw; /* a reservation of two pages; p is mapped at its start */
    uint64_t tick;
};

static tide_status fake_capture_begin(tidei_device *d, tidei_dgraph *g, void **native) {
    return (void)d, (void)g, *native = NULL, TIDE_OK;
}
static int captures_kept, captures_ended;
static tide_status fake_capture_end(tidei_device *d, tidei_dgraph *g, bool keep,
                                    const tidei_graph_range *ranges, unsigned n) {
    return (void)d, (void)g, (void)ranges, (void)n, captures_ended++, captures_kept += keep,
           TIDE_OK;
}

static int open_box(void **state) {
    struct box *b = calloc(1, sizeof *b);
    assert_ok(
        tidei_host_open(&(tidei_device_params){.host_device_memory = 4 * TIDEI_MIB}, &b->inner));
    b->ops = *b->inner->ops;
    b->ops.kernel_new = fake_kernel_new;
    b->ops.kernel_release = fake_kernel_release;
    b->ops.peer_possible = fake_peer_possible;
    b->ops.peer_enable = fake_peer_enable;
    b->ops.graph_capture_begin = fake_capture_begin;
    b->ops.graph_capture_end = fake_capture_end;
    b->inner->ops = &b->ops;
    assert_ok(tidei_fault_open(b->inner, &b->d));
    size_t page = b->d->info.page_bytes;
    assert_ok(b->d->ops->stream_new(b->d, &b->s));
    assert_ok(b->d->ops->event_new(b->d, &b->e));
    assert_ok(b->d->ops->reserve(b->d, 2 * page, &b->base));
    assert_ok(b->d->ops->page_new(b->d, page, &b->p));
    assert_ok(b->d->ops->map(b->d, b->base, &b->p, 1));
    assert_ok(b->d->ops->raw_alloc(b->d, TIDEI_MEM_DEVICE, 4096, &b->raw));
    assert_ok(b->d->ops->mempool_new(b->d, &b->mp));
    kernels = 0;
    *state = b;
    return 0;
}

static int close_box(void **state) {
    struct box *b = *state;
    const struct tidei_device_ops *o = b->d->ops;
    for (int i = 0; i < TIDEI_FAULT_SLOTS; i++)
        tidei_fault_set(b->d, (enum tidei_fault_slot)i, 0, TIDE_OK, false);
    assert_int_equal(kernels, 0);
    /* a lost one waits by itself */
    if (!atomic_load(&b->d->lost)) assert_ok(o->stream_sync(b->d, b->s));
    assert_ok(o->unmap(b->d, b->base, &b->p, 1));
    o->page_release(b->d, b->p);
    o->unreserve(b->d, b->base, 2 * b->d->info.page_bytes);
    o->raw_free(b->d, TIDEI_MEM_DEVICE, b->raw, 4096);
    o->mempool_release(b->d, b->mp);
    o->event_release(b->d, b->e);
    o->stream_release(b->d, b->s);
    assert_int_equal(atomic_load(&((tidei_host *)b->inner)->used), 0); /* nothing leaked */
    o->close(b->d);
    free(b);
    return 0;
}

/* The same of a slot of graphs, on a graph of its own. */
static tide_status call_of_graph(struct box *b, enum tidei_fault_slot slot) {
    const struct tidei_device_ops *o = b->d->ops, *inner = b->inner->ops;
    const tidei_launch l = {.name = "nothing", .host_fn = nothing};
    const tidei_addr none = 0;
    tidei_dgraph *g;
    void *native;
    tide_status status = TIDE_OK;
    if (slot == TIDEI_FAULT_GRAPH_NEW) {
        if ((status = o->graph_new(b->d, &none, 1, &g)) == TIDE_OK) o->graph_release(b->d, g);
        return status;
    }
    assert_ok(inner->graph_new(b->inner, &none, 1, &g));
    switch (slot) {
    case TIDEI_FAULT_GRAPH_ADD: status = o->graph_add(b->d, g, &l, NULL, NULL); break;
    case TIDEI_FAULT_GRAPH_CAPTURE_BEGIN: status = o->graph_capture_begin(b->d, g, &native); break;
    case TIDEI_FAULT_GRAPH_CAPTURE_END:
        captures_kept = captures_ended = 0;
        status = o->graph_capture_end(b->d, g, true, NULL, 0);
        assert_int_equal(captures_ended, 1); /* also where it fails */
        assert_int_equal(captures_kept, status == TIDE_OK);
        break;
    case TIDEI_FAULT_GRAPH_FINISH: status = o->graph_finish(b->d, g); break;
    default: status = o->graph_launch(b->d, b->s, g, &none, NULL, 0);
    }
    inner->graph_release(b->inner, g);
    return status;
}

/* One call of the slot, undone at once if it succeeds. Undoing calls no counted slot, but for map
** and unmap's other. */
static tide_status call(struct box *b, enum tidei_fault_slot slot) {
    const struct tidei_device_ops *o = b->d->ops, *inner = b->inner->ops;
    size_t page = b->d->info.page_bytes;
    tidei_addr a;
    tidei_dpage *p;
    tidei_dstream *s;
    tidei_devent *e;
    tidei_dkernel *k;
    tidei_dmempool *mp;
    size_t reserved, used;
    tide_status status = TIDE_OK;
    char host[8];
    switch (slot) {
    case TIDEI_FAULT_RESERVE:
        if ((status = o->reserve(b->d, page, &a)) == TIDE_OK) o->unreserve(b->d, a, page);
        break;
    case TIDEI_FAULT_PAGE_NEW:
        if ((status = o->page_new(b->d, page, &p)) == TIDE_OK) o->page_release(b->d, p);
        break;
    case TIDEI_FAULT_MAP:
        assert_ok(inner->unmap(b->inner, b->base, &b->p, 1));
        status = o->map(b->d, b->base, &b->p, 1);
        if (status != TIDE_OK) { /* it stayed unmapped */
            tidei_saved_error saved;
            tidei_error_save(&saved);
            assert_ok(inner->map(b->inner, b->base, &b->p, 1));
            tidei_error_restore(&saved);
        }
        break;
    case TIDEI_FAULT_UNMAP:
        status = o->unmap(b->d, b->base, &b->p, 1);
        if (status == TIDE_OK) assert_ok(inner->map(b->inner, b->base, &b->p, 1));
        break;
    case TIDEI_FAULT_RAW_ALLOC:
        status = o->raw_alloc(b->d, TIDEI_MEM_PINNED, 64, &a);
        if (status == TIDE_OK) o->raw_free(b->d, TIDEI_MEM_PINNED, a, 64);
        break;
    case TIDEI_FAULT_PEER_ENABLE:
        assert_true(o->peer_possible(b->d, b->d) && o->peer_possible(b->d, b->inner));
        status = o->peer_enable(b->d, b->d);
        break;
    case TIDEI_FAULT_PREFETCH: status = o->prefetch(b->d, b->s, b->raw, 64, true); break;
    case TIDEI_FAULT_ADVISE: status = o->advise(b->d, b->raw, 64, TIDEI_ADVICE_HOST); break;
    case TIDEI_FAULT_MEMPOOL_NEW:
        if ((status = o->mempool_new(b->d, &mp)) == TIDE_OK) o->mempool_release(b->d, mp);
        break;
    case TIDEI_FAULT_MEMPOOL_ALLOC:
        status = o->mempool_alloc(b->d, b->mp, b->s, 64, &a);
        if (status == TIDE_OK) assert_ok(inner->mempool_free(b->inner, b->mp, b->s, a));
        break;
    case TIDEI_FAULT_MEMPOOL_FREE:
        assert_int_equal(inner->mempool_alloc(b->inner, b->mp, b->s, 64, &a), TIDE_OK);
        status = o->mempool_free(b->d, b->mp, b->s, a);
        if (status != TIDE_OK) assert_ok(o->mempool_free(b->d, b->mp, NULL, a)); /* never fails */
        break;
    case TIDEI_FAULT_MEMPOOL_SET:
        status = o->mempool_set(b->d, b->mp, TIDEI_MEMPOOL_THRESHOLD, 0);
        break;
    case TIDEI_FAULT_MEMPOOL_TRIM: status = o->mempool_trim(b->d, b->mp, 0); break;
    case TIDEI_FAULT_MEMPOOL_FIGURES:
        status = o->mempool_figures(b->d, b->mp, &reserved, &used);
        break;
    case TIDEI_FAULT_STREAM_NEW:
        if ((status = o->stream_new(b->d, &s)) == TIDE_OK) o->stream_release(b->d, s);
        break;
    case TIDEI_FAULT_STREAM_SYNC: status = o->stream_sync(b->d, b->s); break;
    case TIDEI_FAULT_EVENT_NEW:
        if ((status = o->event_new(b->d, &e)) == TIDE_OK) o->event_release(b->d, e);
        break;
    case TIDEI_FAULT_EVENT_RECORD: status = o->event_record(b->d, b->e, b->s); break;
    case TIDEI_FAULT_EVENT_WAIT: status = o->event_wait(b->d, b->e, b->s); break;
    case TIDEI_FAULT_PUBLISH: status = o->publish(b->d, b->s, ++b->tick); break;
    case TIDEI_FAULT_COPY:
        status =
            o->copy(b->d, b->s, &(tidei_copy){TIDEI_COPY_D2H, (uintptr_t)host, b->raw, 8, NULL});
        inner->stream_sync(b->inner, b->s);
        break;
    case TIDEI_FAULT_COPY_MANY:
        status = o->copy_many(b->d, b->s, &(tidei_piece){b->raw, b->raw + 8, 8}, 1);
        break;
    case TIDEI_FAULT_FILL: status = o->fill(b->d, b->s, b->raw, "", 1, 8); break;
    case TIDEI_FAULT_KERNEL_NEW:
        if ((status = o->kernel_new(b->d, &(tidei_kernel_text){0}, &k, NULL, NULL)) == TIDE_OK)
            o->kernel_release(b->d, k);
        break;
    case TIDEI_FAULT_LAUNCH:
        status = o->launch(b->d, b->s, &(tidei_launch){.name = "nothing", .host_fn = nothing});
        break;
    case TIDEI_FAULT_GRAPH_NEW:
    case TIDEI_FAULT_GRAPH_ADD:
    case TIDEI_FAULT_GRAPH_CAPTURE_BEGIN:
    case TIDEI_FAULT_GRAPH_CAPTURE_END:
    case TIDEI_FAULT_GRAPH_FINISH:
    case TIDEI_FAULT_GRAPH_LAUNCH: return call_of_graph(b, slot);
    case TIDEI_FAULT_ANY:
    case TIDEI_FAULT_SLOTS: fail();
    }
    return status;
}

#define EACH_SLOT(s) for (enum tidei_fault_slot s = TIDEI_FAULT_ANY + 1; s < TIDEI_FAULT_SLOTS; s++)

static void the_nth_call_fails_and_no_other(void **state) {
    struct box *b = *state;
    EACH_SLOT(slot)
    for (uint64_t n = 1; n <= 3; n++) {
        uint64_t before = tidei_fault_calls(b->d, slot);
        tidei_fault_set(b->d, slot, n, TIDE_E_DEVICE, false);
        EACH_SLOT(other) if (other != slot) assert_ok(call(b, other));
        for (uint64_t i = 1; i <= 5; i++) {
            tide_error_clear();
            assert_int_equal(call(b, slot), i == n ? TIDE_E_DEVICE : TIDE_OK);
            if (i == n) assert_error(TIDE_E_DEVICE, "fails on purpose");
        }
        assert_int_equal(tidei_fault_calls(b->d, slot) - before, 5);
    }
    assert_false(atomic_load(&b->d->lost));
}

static void a_sticky_failure_stays_until_it_is_lifted(void **state) {
    struct box *b = *state;
    EACH_SLOT(slot) {
        tidei_fault_set(b->d, slot, 2, TIDE_E_NOMEM, true);
        assert_ok(call(b, slot));
        for (int i = 0; i < 3; i++) assert_int_equal(call(b, slot), TIDE_E_NOMEM);
        tidei_fault_set(b->d, slot, 0, TIDE_OK, false);
        assert_ok(call(b, slot));
    }
}

static void any_counts_the_calls_of_all_slots(void **state) {
    struct box *b = *state;
    uint64_t slots = TIDEI_FAULT_SLOTS - 1, before = tidei_fault_calls(b->d, TIDEI_FAULT_ANY);
    for (uint64_t n = 1; n <= slots; n++) {
        uint64_t i = 0;
        tidei_fault_set(b->d, TIDEI_FAULT_ANY, n, TIDE_E_HOST_NOMEM, false);
        EACH_SLOT(slot) assert_int_equal(call(b, slot), ++i == n ? TIDE_E_HOST_NOMEM : TIDE_OK);
    }
    assert_int_equal(tidei_fault_calls(b->d, TIDEI_FAULT_ANY) - before, slots * slots);
}

static void put(const void *p) { **(int *const *)p += 1; }

static void a_failed_call_does_not_reach_the_device(void **state) {
    struct box *b = *state;
    int count = 0, *at = &count;
    tidei_launch l = {.name = "put", .host_fn = put, .params = &at, .params_bytes = sizeof at};
    tidei_fault_set(b->d, TIDEI_FAULT_LAUNCH, 2, TIDE_E_DEVICE, false);
    for (int i = 0; i < 3; i++) (void)b->d->ops->launch(b->d, b->s, &l);
    assert_ok(b->d->ops->stream_sync(b->d, b->s));
    assert_int_equal(count, 2);
}

static void an_injected_loss_is_a_loss(void **state) {
    struct box *b = *state;
    size_t n;
    tidei_fault_set(b->d, TIDEI_FAULT_COPY, 1, TIDE_E_LOST, false);
    assert_ok(call(b, TIDEI_FAULT_LAUNCH));
    assert_int_equal(call(b, TIDEI_FAULT_COPY), TIDE_E_LOST);
    assert_true(atomic_load(&b->d->lost));
    assert_false(atomic_load(&b->inner->lost));
    EACH_SLOT(slot) if (slot != TIDEI_FAULT_UNMAP) assert_int_equal(call(b, slot), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "host:0 is lost");
    assert_int_equal(b->d->ops->memory(b->d, &n, &n), TIDE_E_LOST);
}

static void a_loss_may_be_declared(void **state) {
    struct box *b = *state;
    b->d->ops->lose(b->d, "of what a caller saw");
    assert_true(atomic_load(&b->d->lost));
    assert_false(atomic_load(&b->inner->lost));
    assert_int_equal(call(b, TIDEI_FAULT_COPY_MANY), TIDE_E_LOST);
    b->inner->ops->lose(b->inner, "of what a caller saw");
    assert_int_equal(b->inner->ops->fill(b->inner, b->s, b->raw, "", 1, 8), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "of what a caller saw");
}

static void the_wrapped_devices_loss_is_ours(void **state) {
    struct box *b = *state;
    tidei_host_lose(tidei_fault_inner(b->d), "an illegal address");
    assert_int_equal(call(b, TIDEI_FAULT_FILL), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "an illegal address");
    assert_true(atomic_load(&b->d->lost));
}

static void it_looks_like_the_device_it_wraps(void **state) {
    struct box *b = *state;
    assert_memory_equal(&b->d->info, &b->inner->info, sizeof b->d->info);
    assert_ptr_equal(b->d->fault_word, b->inner->fault_word);
    assert_int_equal(b->d->fault_addr, b->inner->fault_addr);
    assert_ptr_equal(tidei_fault_inner(b->d), b->inner);
    tidei_device *host, *plain;
    assert_ok(tidei_host_open(&(tidei_device_params){.host_device_memory = TIDEI_MIB}, &host));
    assert_ok(tidei_fault_open(host, &plain));
    assert_null(plain->ops->kernel_new); /* slots it lacks */
    assert_null(plain->ops->copy_many_prepare);
    plain->ops->close(plain);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_box, close_box)
    const struct CMUnitTest tests[] = {
        CASE(the_nth_call_fails_and_no_other),
        CASE(a_sticky_failure_stays_until_it_is_lifted),
        CASE(any_counts_the_calls_of_all_slots),
        CASE(a_failed_call_does_not_reach_the_device),
        CASE(an_injected_loss_is_a_loss),
        CASE(the_wrapped_devices_loss_is_ours),
        CASE(a_loss_may_be_declared),
        CASE(it_looks_like_the_device_it_wraps),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
