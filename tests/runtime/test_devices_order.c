/* test_devices_order.c: order among streams of several devices: hand-overs for which the host does
** not wait, and random programs of several threads over streams of four devices, which agree with a
** sequential model. */
#include "tests/support/devices.h"
#include "tests/support/random_programs.h"

/* ---- hand-overs ---- */

static void hand_overs_between_devices_do_not_block(void **state) {
    int times = test_quick() ? 2000 : 10000;
    (void)state;
    tide_runtime *rt = open_devices(2, NULL);
    needs_peers(rt, 0, 1);
    tide_array *a = tide_zeros(rt, TIDE_I32, SHAPE(16));
    for (int i = 0; i < 4; i++) { /* each has all it needs */
        on(rt, i % 2);
        assert_ok(tide_map_into(a, "(a) -> a + 1", a));
    }
    synchronize_all(rt);
    uint64_t waits = test_stats(rt).host_waits, device_waits = test_stats(rt).device_waits;
    for (int i = 4; i < times; i++) {
        on(rt, i % 2);
        assert_ok(tide_map_into(a, "(a) -> a + 1", a));
    }
    assert_int_equal(test_stats(rt).host_waits, waits);
    assert_true(test_stats(rt).device_waits > device_waits);
    tide_array *least = tide_map(rt, "(a) -> min(a)", a);
    assert_true(tide_item_f64(least) == times);
    tide_release(a);
    tide_release(least);
    close_devices(rt);
}

/* Staged copies are queued, too: nobody waits. */
static void staged_copies_do_not_block(void **state) {
    (void)state;
    if (!test_on_host()) skip(); /* a gate */
    tide_runtime *rt = open_devices(2, "none");
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 1000);
    struct gated g = {.add = 1};
    synchronize_all(rt);
    queue_gated(rt, NULL, a, true, &g);
    on(rt, 1);
    uint64_t waits = test_stats(rt).host_waits;
    tide_array *b = tide_copy(a);
    assert_array(b);
    assert_int_equal(test_stats(rt).host_waits, waits);
    atomic_store(&g.open, 1);
    assert_counts(b, 1000, 1);
    tide_release(a);
    tide_release(b);
    close_devices(rt);
}

/* ---- random programs ---- */

enum { DEVICES = 4, STREAMS = 6 };
static tide_stream *streams[STREAMS];

/* Whether work of the current device can use array i, by the peers "0-1,1-2". */
static bool reached(unsigned i) {
    int here = tide_device_current(world.rt), owner = tide_array_device(world.x[i]);
    if (here == owner || tide_array_memory(world.x[i]) != TIDE_MEMORY_DEVICE) return true;
    return here + owner == 1 || (here + owner == 3 && here && owner);
}
/* What was refused was refused rightly, and nothing has changed. */
static bool refused(bool right) {
    bool so = right && tide_error_last()->status == TIDE_E_UNSUPPORTED;
    tide_error_clear();
    return so;
}
static bool replace(unsigned d, tide_array *a) {
    drop(world.x[d]);
    world.x[d] = a;
    return a != NULL;
}

/* To the current device, and often to another kind of memory. */
static bool step_copy(unsigned d, unsigned f) {
    tide_array *a =
        dice(2) ? tide_copy(world.x[f]) : tide_to_memory(world.x[f], kinds[dice(KINDS)]);
    if (!a || tide_array_device(a) != tide_device_current(world.rt)) return false;
    memmove(world.model[d], world.model[f], sizeof *world.model);
    return replace(d, a);
}
static bool step_map(unsigned d, unsigned f, unsigned g) {
    bool right = reached(f) && reached(g);
    tide_array *a = tide_map(world.rt, "(a, b) -> a - 2*b", world.x[f], world.x[g]);
    if (!a) return refused(!right);
    if (!right) return false;
    be_computed(d, f, g, a);
    return true;
}
static bool step_map_into(unsigned d, unsigned f) {
    bool right = reached(d) && reached(f);
    if (tide_map_into(world.x[d], "(a, b) -> a + b", world.x[d], world.x[f]) != TIDE_OK)
        return refused(!right);
    for (int i = 0; i < LENGTH; i++)
        world.model[d][i] = (int32_t)((uint32_t)world.model[d][i] + (uint32_t)world.model[f][i]);
    return right;
}
static bool step_reduce(unsigned d) {
    int32_t most = world.model[d][0];
    for (int i = 1; i < LENGTH; i++) most = world.model[d][i] > most ? world.model[d][i] : most;
    tide_array *a = tide_max(world.x[d], NULL, 0, 0);
    if (!a) return refused(!reached(d));
    bool ok = reached(d) && tide_item_f64(a) == most;
    return tide_release(a), ok;
}
static bool step(void) {
    unsigned d = dice(ARRAYS), f = dice(ARRAYS), g = dice(ARRAYS), where = dice(DEVICES + STREAMS);
    tide_status gone = where < DEVICES ? tide_device_set(world.rt, (int)where)
                                       : tide_stream_set(world.rt, streams[where - DEVICES]);
    if (gone != TIDE_OK) return false;
    if (where < DEVICES && dice(2) && tide_stream_set(world.rt, NULL) != TIDE_OK) return false;
    switch (dice(12)) {
    case 0: return step_read(d);
    case 1:
    case 2: return step_fill(d);
    case 3:
    case 4:
    case 5: return step_assign(d, f);
    case 6:
    case 7: return step_copy(d, f);
    case 8: return step_reduce(d);
    case 9: return step_map_into(d, f);
    default: return step_map(d, f, g);
    }
}
static void random_programs_agree_with_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (test_quick() ? 4 : 24); seed++) {
        tide_runtime *rt = open_hosts(DEVICES, "0-1,1-2");
        begin_program(rt, seed, step, 500, true);
        for (int i = 0; i < STREAMS; i++) {
            on(rt, i % DEVICES);
            assert_ok(tide_stream_new(rt, &streams[i]));
        }
        for (int i = 0; i < ARRAYS; i++) {
            on(rt, i % DEVICES);
            assert_array(world.x[i] = tide_zeros(rt, TIDE_I32, SHAPE(LENGTH)));
        }
        run_program(seed);
        close_devices(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_overs_between_devices_do_not_block),
        cmocka_unit_test(staged_copies_do_not_block),
        cmocka_unit_test(random_programs_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
