/* test_failures_loss.c: each device call gets its turn to lose the device (failure_loop.h).
**
** After a loss: everything that needs the device says so, with one loss report; dropping and
** closing work; waits end, and other runtimes go on. */
#include "tests/across/failure_loop.h"
#include <pthread.h>
#include <sched.h>

/* On a lost device: what needs it fails with one loss report; what does not goes on. */
static void check_lost(tidei_device *d) {
    static char loss_report[1000], text[400];
    tide_rng rng = {1, 0};
    tide_stream *s;
    tide_array *r;
    tide_use use = {.array = work.in[0], .mode = TIDE_READ};
    tide_use_scope *scope;
    void *p;
    assert_true(atomic_load(&d->lost));
    *loss_report = 0;
#define LOST(call)                                                                                 \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_true(call);                                                                         \
        assert_error(TIDE_E_LOST, d->info.name);                                                   \
        if (!*loss_report)                                                                         \
            snprintf(loss_report, sizeof loss_report, "%s", tide_error_last()->message);           \
        assert_string_equal(tide_error_last()->message, loss_report);                              \
        assert_true(is_public(tide_error_last()->operation));                                      \
    } while (0)
    LOST(!tide_map(work.rt, "(x) -> x + 1", work.in[0]));
    LOST(!tide_map(work.rt, "(x) -> sum(x)", work.in[0]));
    LOST(tide_map_into(work.in[0], "(x) -> x + 1", work.in[0]) == TIDE_E_LOST);
    LOST(!tide_zeros(work.rt, TIDE_F32, SHAPE(3)));
    LOST(!tide_copy(work.in[0]));
    LOST(!tide_matmul(work.in[0], work.in[1]));
    LOST(tide_qr(work.in[0], TIDE_REDUCED, &r, NULL) == TIDE_E_LOST);
    LOST(tide_axpy(work.in[0], tide_arg_int(1), work.in[1]) == TIDE_E_LOST);
    LOST(!tide_nrm2(work.in[1]));
    LOST(!tide_take(work.in[0], work.in[3], 0));
    LOST(!tide_random_uniform(work.rt, &rng, TIDE_F32, SHAPE(3)));
    LOST(!tide_from_host(work.rt, TIDE_F32, SHAPE(1), &(float){1}));
    LOST(tide_to_host(work.in[1], work.host, 5 * sizeof(float)) == TIDE_E_LOST);
    LOST(tide_fill(work.in[0], tide_arg_int(1)) == TIDE_E_LOST);
    LOST(tide_memset(work.in[0], 1) == TIDE_E_LOST);
    LOST(tide_assign(work.in[0], work.in[1]) == TIDE_E_LOST);
    LOST(!tide_array_text(work.in[1], work.text, sizeof work.text));
    LOST(tide_stream_new(work.rt, &s) == TIDE_E_LOST);
    LOST(tide_synchronize(work.rt, NULL) == TIDE_E_LOST);
    LOST(tide_device_synchronize(work.rt) == TIDE_E_LOST);
    LOST(tide_use_begin(work.rt, NULL, &use, 1, &p, &scope) == TIDE_E_LOST);
    assert_non_null(strstr(loss_report, "last operation of the stream: "));
    tide_array *view = tide_transpose(work.in[0], NULL); /* needs no device */
    assert_array(view);
    assert_int_equal(tide_array_dim(view, 0), 5);
    drop(&view);
    assert_ok(tide_collect(work.rt));
    assert_ok(tide_reclaim(work.rt, TIDE_RECLAIM_DROP, NULL));
    assert_true(tide_runtime_text(work.rt, text, sizeof text) > 0);
    assert_non_null(strstr(text, "Effective GPU memory usage: unknown"));
    assert_true(tidei_runtime_valid(test_rt(work.rt)));
}

static void end_lost(tidei_device *d) {
    check_lost(d);
    after_run();
    drop_inputs();
    tide_runtime_figures s = test_stats(work.rt);
    assert_int_equal(s.live + s.arrays, 0);
    close_counted(work.rt);
}

/* ---- a device that is lost while others use it ---- */

static void *wait_for_stream(void *arg) {
    static tide_error seen;
    tide_runtime *rt = arg;
    seen.status = tide_device_synchronize(rt);
    return &seen;
}
static void stand(void *gate) {
    while (!atomic_load((atomic_int *)gate)) sched_yield();
}

/* A wait that could never have ended ends; other runtimes go on. */
static void waits_end_when_the_device_is_lost(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    EACH_SETTING(s) {
        tidei_device *d;
        assert_ok(
            tidei_host_open(&(tidei_device_params){.host_device_memory = (size_t)16 << 20}, &d));
        tide_runtime *rt = open_on(s, d),
                     *other = test_open(&(tide_config){.collector = "refcount"});
        atomic_int gate = 0;
        pthread_t thread;
        void *seen;
        tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(10));
        tide_use use = {.array = a, .mode = TIDE_WRITE};
        tide_use_scope *scope;
        void *p;
        assert_ok(tide_device_synchronize(rt));
        uint64_t waits = test_stats(rt).host_waits;
        assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
        assert_ok(tide_use_launch(scope, stand, &gate));
        assert_ok(tide_use_end(scope));
        assert_int_equal(pthread_create(&thread, NULL, wait_for_stream, rt), 0);
        usleep(2000); /* so that it waits already, usually: either way it must come back */
        tidei_host_lose(d, "an illegal address");
        pthread_join(thread, &seen);
        assert_int_equal(((tide_error *)seen)->status, TIDE_E_LOST);
        tide_error_clear();
        assert_null(tide_copy(a));
        assert_error(TIDE_E_LOST, "host:0 is lost: an illegal address");
        assert_error(TIDE_E_LOST, "last operation of the stream: tide_use_end");
        assert_int_equal(tide_item_f64(tide_ones(other, TIDE_F64, 0, NULL)), 1);
        assert_true(test_stats(rt).host_waits >= waits);
        atomic_store(&gate, 1); /* memory goes back once no function of the program's runs on it */
        tide_free(a);
        assert_int_equal(test_stats(rt).live, 0);
        if (!strcmp(s->collector, "refcount")) tide_release(a);
        tide_close(rt);
        tide_close(other);
        assert_int_equal(atomic_load(&hook.held), 0);
    }
}

/* A loss in one runtime is not told as another's. */
static void each_loss_has_its_own_report(void **state) {
    tidei_device *d[2];
    tide_runtime *rt[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        d[i] = open_fault();
        rt[i] = open_on(&settings[0], d[i]);
        tidei_fault_set(d[i], i ? TIDEI_FAULT_FILL : TIDEI_FAULT_COPY, 1, TIDE_E_LOST, false);
    }
    assert_null(tide_from_host(rt[0], TIDE_I32, SHAPE(1), &(int32_t){1}));
    assert_error(TIDE_E_LOST, "call 1 of copy fails on purpose");
    assert_error(TIDE_E_LOST, "last operation of the stream: tide_from_host");
    assert_null(tide_zeros(rt[1], TIDE_I32, SHAPE(1)));
    assert_error(TIDE_E_LOST, "call 1 of fill fails on purpose");
    assert_error(TIDE_E_LOST, "last operation of the stream: tide_zeros");
    assert_int_equal(tide_synchronize(rt[0], NULL), TIDE_E_LOST);
    assert_error(TIDE_E_LOST, "call 1 of copy");
    for (int i = 0; i < 2; i++) tide_close(rt[i]);
    assert_int_equal(atomic_load(&hook.held), 0);
}

int main(void) {
    static const struct mode losses[] = {
        {"loss of the device", TIDE_E_LOST, false, true, end_lost}};
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup(waits_end_when_the_device_is_lost, fresh),
        cmocka_unit_test_setup(each_loss_has_its_own_report, fresh),
    };
    return run_failures("failures_loss", losses, TIDEI_COUNT(losses), own, TIDEI_COUNT(own));
}
