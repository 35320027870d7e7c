/* test_devices_current.c: several devices in one runtime: when they open, which is current for
** which thread, and its streams. */
#include "tests/support/devices.h"

/* ---- which there are, and which is current ---- */

static void they_open_when_first_current(void **state) {
    char text[2000];
    (void)state;
    tide_runtime *rt = open_hosts(4, NULL);
    assert_int_equal(tide_device_count(rt), 4);
    assert_int_equal(tide_device_current(rt), 0);
    on(rt, 1);
    tide_array *a = counting(rt, TIDE_MEMORY_DEVICE, 1000);
    for (int i = 2; i < 4; i++) assert_null(test_rt(rt)->devs[i].d);
    tide_runtime_text(rt, text, sizeof text);
    unsigned lines = 0;
    for (const char *p = text; (p = strstr(p, "Effective GPU memory usage")); p++) lines++;
    assert_int_equal(lines, 2);
    assert_int_equal(test_stats(rt).live, 4000);
    tide_device_text(rt, text, sizeof text);
    assert_non_null(strstr(text, "host:1"));
    on(rt, 3);
    assert_non_null(test_rt(rt)->devs[3].d);
    assert_null(test_rt(rt)->devs[2].d);
    tide_release(a);
    close_devices(rt);
}

static void numbers_that_no_device_has(void **state) {
    static const int wrong[] = {-1, INT_MIN, INT_MAX, 3, 32, 1000};
    (void)state;
    tide_runtime *rt = open_hosts(3, NULL);
    on(rt, 1);
    tide_stream *s = tide_stream_current(rt);
    for (unsigned i = 0; i < TIDEI_COUNT(wrong); i++) {
        assert_int_equal(tide_device_set(rt, wrong[i]), TIDE_E_NODEVICE);
        assert_error(TIDE_E_NODEVICE, "host:0 is one of 3");
        assert_string_equal(tide_error_last()->operation, "tide_device_set");
        assert_int_equal(tide_device_current(rt), 1);
        assert_ptr_equal(tide_stream_current(rt), s);
        assert_int_equal(tide_device_reaches(rt, wrong[i], 0), -1);
        assert_error(TIDE_E_NODEVICE, "there is no device");
        assert_int_equal(tide_device_reaches(rt, 0, wrong[i]), -1);
        assert_error(TIDE_E_NODEVICE, "there is no device");
    }
    assert_null(test_rt(rt)->devs[2].d);
    assert_int_equal(tide_device_count(NULL), -1);
    assert_error(TIDE_E_INVALID, "NULL");
    assert_int_equal(tide_device_current(NULL), -1);
    assert_error(TIDE_E_INVALID, "NULL");
    assert_int_equal(tide_device_set(NULL, 0), TIDE_E_INVALID);
    assert_int_equal(tide_device_reaches(NULL, 0, 0), -1);
    assert_int_equal(tide_array_device(NULL), -1);
    assert_error(TIDE_E_INVALID, "NULL");
    tide_error_clear();
    close_devices(rt);
}

/* The first device is the one that is named; the numbers stay those of the kind. */
static void a_runtime_opened_on_another(void **state) {
    tide_config c = devices_config(4, "2-3");
    tide_runtime *rt;
    (void)state;
    c.device = "host:2";
    assert_ok(tide_open(&c, &rt));
    assert_int_equal(tide_device_current(rt), 2);
    tide_array *a[4];
    for (int i = 0; i < 4; i++) {
        on(rt, i);
        assert_array(a[i] = tide_full(rt, TIDE_I32, SHAPE(10), tide_arg_int(i)));
        assert_int_equal(tide_array_device(a[i]), i);
        assert_int_equal(name(rt, i)[5], '0' + i);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            assert_int_equal(tide_device_reaches(rt, i, k), i == k || (i >= 2 && k >= 2));
    for (int i = 0; i < 4; i++) tide_release(a[i]);
    close_devices(rt);
    c.device = "host:4";
    assert_int_equal(tide_open(&c, &rt), TIDE_E_NODEVICE);
    tide_error_clear();
}

/* ---- streams ---- */

static void a_stream_makes_its_device_current(void **state) {
    tide_stream *s[2], *usual[2];
    (void)state;
    tide_runtime *rt = open_devices(2, NULL);
    for (int i = 0; i < 2; i++) {
        on(rt, i);
        usual[i] = tide_stream_current(rt);
        assert_ok(tide_stream_new(rt, &s[i]));
        assert_int_equal(tide_device_current(rt), i);
    }
    assert_ptr_not_equal(usual[0], usual[1]);
    assert_ok(tide_stream_set(rt, s[0]));
    assert_int_equal(tide_device_current(rt), 0);
    assert_ptr_equal(tide_stream_current(rt), s[0]);
    on(rt, 1);
    assert_ptr_equal(tide_stream_current(rt), usual[1]);
    on(rt, 0);
    assert_ptr_equal(tide_stream_current(rt), s[0]); /* what was chosen there */
    assert_ok(tide_stream_set(rt, s[1]));
    assert_int_equal(tide_device_current(rt), 1);
    assert_ok(tide_stream_set(rt, NULL)); /* this device's default one */
    assert_int_equal(tide_device_current(rt), 1);
    assert_ptr_equal(tide_stream_current(rt), usual[1]);
    on(rt, 0);
    assert_ptr_equal(tide_stream_current(rt), s[0]);
    tide_stream_release(s[0]);
    on(rt, 1);
    on(rt, 0);
    assert_ptr_equal(tide_stream_current(rt), usual[0]);
    tide_stream_release(s[1]);
    assert_int_equal(tide_stream_set(rt, s[1]), TIDE_E_INVALID);
    assert_int_equal(tide_device_current(rt), 0);
    tide_error_clear();
    close_devices(rt);
}

enum { THREADS = 8 };
static struct {
    tide_runtime *rt;
    int devices;
    tide_stream *stream[THREADS][4];
    atomic_int wrong;
} crowd;

/* Wrong where it does not hold, on a thread on which a case cannot fail. */
#define HOLDS(that)                                                                                \
    do {                                                                                           \
        if (!(that)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #that,                         \
                    tide_error_last()->message);                                                   \
            atomic_fetch_add(&crowd.wrong, 1);                                                     \
        }                                                                                          \
    } while (0)

/* A random device and a stream of one's own on each; what is made there is right, and adds up with
** another device's. */
static void *wander(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me + 1;
    tide_runtime *rt = crowd.rt;
    HOLDS(tide_device_current(rt) == 0);
    for (int round = 0; round < (test_quick() ? 20 : 60); round++) {
        int here = (int)(seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33) %
                   crowd.devices;
        HOLDS(tide_device_set(rt, here) == TIDE_OK);
        HOLDS(tide_device_current(rt) == here);
        tide_stream *s = tide_stream_current(rt);
        if (!crowd.stream[me][here]) crowd.stream[me][here] = s;
        HOLDS(s && s == crowd.stream[me][here]);
        tide_array *a = tide_full(rt, TIDE_I32, SHAPE(100), tide_arg_int(round));
        HOLDS(tide_array_device(a) == here);
        HOLDS(tide_device_set(rt, (here + 1) % crowd.devices) == TIDE_OK);
        tide_array *sum = tide_map(rt, "(a) -> sum(a)", a);
        HOLDS(sum && tide_array_device(sum) == (here + 1) % crowd.devices);
        HOLDS(tide_item_f64(sum) == 100.0 * round);
        tide_release(a);
        tide_release(sum);
    }
    return NULL;
}

static void T6_T7_each_thread_where_it_likes(void **state) {
    pthread_t t[THREADS];
    (void)state;
    memset(&crowd, 0, sizeof crowd);
    crowd.rt = test_on_host() ? open_devices(4, NULL) : open_devices(2, NULL);
    crowd.devices = test_on_host() ? 4 : 2;
    for (int i = 1; i < crowd.devices; i++) needs_peers(crowd.rt, 0, i);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, wander, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
    assert_int_equal(tide_device_current(crowd.rt), 0); /* this thread's, whatever others do */
    for (int i = 0; i < crowd.devices; i++) assert_int_equal(live_of(crowd.rt, i), 0);
    close_devices(crowd.rt);
}

static pthread_barrier_t all_there;
static void *stand_by(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < crowd.devices; i++) {
        HOLDS(tide_device_set(crowd.rt, i) == TIDE_OK);
        crowd.stream[me][i] = tide_stream_current(crowd.rt);
    }
    pthread_barrier_wait(&all_there); /* one that has ended may leave its stream to the next */
    return NULL;
}
static void T7_a_stream_per_thread_and_device(void **state) {
    pthread_t t[THREADS];
    (void)state;
    memset(&crowd, 0, sizeof crowd);
    crowd.rt = open_devices(2, NULL);
    crowd.devices = 2;
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, stand_by, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    pthread_barrier_destroy(&all_there);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
    tide_stream **all = &crowd.stream[0][0];
    for (unsigned i = 0; i < 4 * THREADS; i++)
        for (unsigned k = 0; k < i; k++) assert_true(all[i] != all[k] || !all[i]);
    close_devices(crowd.rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_open_when_first_current),
        cmocka_unit_test(numbers_that_no_device_has),
        cmocka_unit_test(a_runtime_opened_on_another),
        cmocka_unit_test(a_stream_makes_its_device_current),
        cmocka_unit_test(T6_T7_each_thread_where_it_likes),
        cmocka_unit_test(T7_a_stream_per_thread_and_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
