/* test_batches_life.c: what batches take and wait for: arrays that others keep, leaving early, data
** larger than the device, the next one uploaded meanwhile, several iterators at once. Which batches
** come: test_batches.c. */
#include "tests/arrays/batches.h"
#include "tests/doubles/counted_host.h"
#include <pthread.h>
#include <sched.h>

/* ---- who keeps what ---- */

static void kept_by_others(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 8, 2), batch;
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        assert_ok(tide_scope_begin(rt)); /* takes none of them */
        assert_ok(tide_batches_next(b, &batch));
        tide_array *kept = tide_retain(batch.array);
        assert_ok(tide_scope_end(rt));
        assert_false(tide_array_is_freed(batch.array));
        assert_ok(tide_batches_next(b, &batch));
        tide_array *view = tide_slice(batch.array, "1"), *stale = batch.array;
        assert_ok(tide_collect(rt)); /* finds neither the current batch nor the one to come */
        assert_ok(tide_batches_next(b, &batch));
        tide_free(batch.array); /* early, by hand */
        assert_int_equal(tide_array_ndim(stale), -1);
        assert_error(TIDE_E_FREED, "freed");
        assert_ok(tide_batches_next(b, &batch));
        check_rows(batch.array, 6, 2, 2);
        tide_batches_release(b);
        check_rows(kept, 0, 2, 2);
        float row[2];
        assert_ok(tide_to_host(view, row, sizeof row));
        assert_true(row[0] == 6 && row[1] == 7);
        tide_free(kept);
        tide_release(kept);
        tide_free(view);
        if (c == 0) tide_release(view);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* Wherever one stops, nothing is left: of memory on either side, of streams, of arrays. */
static void e07_leaving_early(void **state) {
    (void)state;
    EACH_COLLECTOR(c)
    for (int by_close = 0; by_close < 2; by_close++)
        for (int far = 0; far < 6; far++) {
            atomic_store(&host_held, 0);
            tide_runtime *rt =
                test_open(&(tide_config){.collector = collectors[c], .allocator = &counted_memory});
            tide_data x = numbers(rows, 9, 500), batch;
            tide_array *work = tide_ones(rt, TIDE_F32, SHAPE(500)), *held = tide_retain(work);
            /* more than there may be streams */
            for (int round = 0; round < (far == 3 ? 300 : 3); round++) {
                tide_runtime_figures before = test_stats(rt);
                tide_batches *b =
                    batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
                for (int i = 0; i < far; i++) {
                    tide_status s = tide_batches_next(b, &batch);
                    assert_int_equal(s, i < 5 ? TIDE_OK : TIDE_END);
                    if (s == TIDE_OK)
                        assert_ok(
                            tide_map_into(work, "(w, x) -> w + sum(x, axis=0)", work, batch.array));
                }
                if (by_close) break;
                tide_batches_release(b);
                tide_runtime_figures now = test_stats(rt);
                assert_int_equal(now.live, before.live);
                if (c == 0) assert_int_equal(now.arrays, before.arrays);
            }
            tide_release(held);
            tide_close(rt);
            assert_int_equal(atomic_load(&host_held), 0);
        }
}

/* ---- limits ---- */

static tide_status feed_large(void *user, int64_t first, const int64_t *samples, int64_t n,
                              void *const *out) {
    size_t width = *(size_t *)user;
    (void)samples;
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            ((float *)out[0])[(size_t)i * width + k] = (float)((first + i) % 100);
    return TIDE_OK;
}

/* 40 batches, each a tenth more than a third of what the limit holds: two and the user's own data
** fit. With `fit` 1, a batch is two thirds of it, and they come one by one. */
static void within_a_limit(const char *collector, const char *pool, int fit) {
    size_t page = test_on_host() ? 64 * TIDEI_KIB : 2 * TIDEI_MIB, limit = 32 * page,
           live = 2 * page;
    size_t width = 1024, samples = (limit - live) * 9 / 10 / (size_t)fit / (width * sizeof(float));
    tide_runtime *rt = test_open(&(tide_config){.collector = collector, .pool = pool});
    tide_array *own = tide_zeros(rt, TIDE_F32, SHAPE((int64_t)(live / 2 / sizeof(float))));
    tide_array *sum = tide_zeros(rt, TIDE_F32, SHAPE((int64_t)width));
    tide_retain(own), tide_retain(sum);
    assert_ok(tide_device_set_limit(rt, limit));
    int64_t total = (int64_t)samples * 40 - 1;
    assert_true((size_t)total * width * sizeof(float) > 10 * limit);
    tide_data x = tide_data_host(TIDE_F32, 2, (int64_t[]){total, (int64_t)width}, NULL), batch;
    tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x,
                                                            .narrays = 1,
                                                            .batch = (int64_t)samples,
                                                            .fill = feed_large,
                                                            .user = &width});
    int64_t got = 0;
    tide_status s;
    while ((s = tide_batches_next(b, &batch)) == TIDE_OK) {
        got += batch.shape[0];
        assert_ok(tide_map_into(sum, "(s, x) -> s + sum(x, axis=0)", sum, batch.array));
    }
    if (s != TIDE_END)
        fail_msg("%s, %s, %d fit: %s", collector, pool, fit, tide_error_last()->message);
    assert_int_equal(got, total);
    double wanted = 0;
    for (int64_t i = 0; i < total; i++) wanted += (double)(i % 100);
    static float sums[1024];
    assert_ok(tide_to_host(sum, sums, sizeof sums));
    for (size_t i = 0; i < width; i++) assert_true(sums[i] == (float)wanted);
    tide_runtime_figures st = test_stats(rt);
    assert_true(st.peak_live <= limit && st.backed <= limit);
    /* what does not fit is tried for seldom: at 1, 3, 6, 11, ... */
    assert_true(st.climbs <= (fit == 1 ? 8 : 0));
    assert_true(tidei_runtime_valid(test_rt(rt)));
    tide_batches_release(b);
    assert_true(test_stats(rt).live <= live);
    tide_close(rt);
}

static void e07_larger_than_the_limit(void **state) {
    (void)state;
    EACH_COLLECTOR(c) for (int fit = 1; fit <= 2; fit++) {
        within_a_limit(collectors[c], "tide", fit);
        within_a_limit(collectors[c], "none", fit);
    }
}

/* No batch fits: the report says so, and nothing is lost. */
static void no_room_for_one(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    tide_data x = tide_data_host(TIDE_F32, SHAPE((int64_t)1 << 26), NULL), batch = {0};
    size_t width = 1;
    assert_ok(tide_device_set_limit(rt, 64 * TIDEI_MIB));
    tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x,
                                                            .narrays = 1,
                                                            .batch = (int64_t)1 << 25,
                                                            .fill = feed_large,
                                                            .user = &width});
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tide_batches_next(b, &batch), TIDE_E_NOMEM);
        assert_error(TIDE_E_NOMEM, "128.000 MiB");
        assert_string_equal(tide_error_last()->operation, "tide_batches_next");
    }
    assert_null(batch.array);
    tide_batches_release(b);
    nothing_left(rt);
    tide_close(rt);
}

/* ---- what overlaps ---- */

static atomic_int gate;
static void wait_at_gate(void *arg) {
    (void)arg;
    while (!atomic_load(&gate)) sched_yield();
}

/* Work on the current batch does not end before the gate opens. */
static void work_until_gate(tide_runtime *rt, tide_array *a) {
    tide_use use = {.array = a, .mode = TIDE_READ | TIDE_WRITE};
    tide_use_scope *scope;
    void *p;
    assert_ok(tide_use_begin(rt, NULL, &use, 1, &p, &scope));
    assert_ok(tide_use_launch(scope, wait_at_gate, NULL));
    assert_ok(tide_use_end(scope));
}

/* While the device is at batch 0, batch 1 is uploaded: another stream reads it, whole. And the host
** gets batch 2, whose upload waits for the memory of batch 0, without waiting itself. Were it
** otherwise, this would never end. The memory of two batches is all that it takes. */
static void uploads_pass_work(void **state) {
    (void)state;
    if (!test_on_host()) skip(); /* host functions */
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        int64_t width = 1 << 18; /* a batch is a MiB, more than travels in a command */
        float *data = malloc((size_t)(8 * width) * sizeof *data);
        tide_data x = numbers(data, 8, width), batch;
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 1});
        tide_stream *reader;
        assert_ok(tide_stream_new(rt, &reader));
        float *got = malloc((size_t)width * sizeof *got);
        atomic_store(&gate, 0);
        assert_ok(tide_batches_next(b, &batch));
        work_until_gate(rt, batch.array);
        assert_ok(tide_batches_next(b, &batch));
        assert_ok(tide_stream_set(rt, reader));
        assert_ok(tide_to_host(batch.array, got, (size_t)width * sizeof *got));
        for (int64_t i = 0; i < width; i++) assert_true(got[i] == (float)(width + i));
        assert_ok(tide_stream_set(rt, NULL));
        work_until_gate(rt, batch.array);
        assert_ok(tide_batches_next(b, &batch));
        atomic_store(&gate, 1);
        check_rows(tide_slice(batch.array, ":, :1024"), 2 * width / 1024, 1, 1024);
        for (int i = 3; i < 8; i++) {
            assert_ok(tide_batches_next(b, &batch));
            work_until_gate(rt, batch.array);
        }
        tide_runtime_figures s = test_stats(rt);
        if (test_rt(rt)->devs[0].d->info.page_bytes <= 64 * TIDEI_KIB &&
            !strcmp(test_rt(rt)->devs[0].pool->ops->name, "tide"))
            assert_true(s.peak_backed <= (2 * (size_t)width * sizeof(float)) * 3 / 2);
        tide_batches_release(b);
        tide_stream_release(reader);
        tide_close(rt);
        free(data);
        free(got);
    }
}

/* Neither the work on batches nor their uploads are waited for at the end. */
static void the_end_waits_for_nothing(void **state) {
    (void)state;
    if (!test_on_host()) skip(); /* host functions */
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 8, 4), batch;
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        atomic_store(&gate, 0);
        assert_ok(tide_batches_next(b, &batch));
        work_until_gate(rt, batch.array);
        assert_ok(tide_batches_next(b, &batch)); /* stages the third, which comes after that work */
        tide_batches_release(b);
        /* and its pinned memory is not another's before it is over */
        tide_data y = numbers(rows, 8, 4);
        b = batches_of(rt, &(tide_batches_config){.arrays = &y, .narrays = 1, .batch = 2});
        assert_ok(tide_batches_next(b, &batch));
        tide_stream *reader;
        assert_ok(tide_stream_new(rt, &reader));
        assert_ok(tide_stream_set(rt, reader)); /* the other one is held back */
        check_rows(batch.array, 0, 2, 4);
        atomic_store(&gate, 1);
        tide_batches_release(b);
        assert_ok(tide_device_synchronize(rt));
        nothing_left(rt);
        tide_close(rt);
    }
}

/* What its user gives back by mistake is no other array when the iterator lets go of it. */
static void released_too_often(void **state) {
    (void)state;
    /* cells are used again */
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    tide_data x = numbers(rows, 9, 4), batch;
    tide_batches *b =
        batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 3});
    tide_array *others[100];
    for (int i = 0; i < 3; i++) {
        assert_ok(tide_batches_next(b, &batch));
        tide_release(batch.array);
        if (i == 1) tide_release(batch.array);
        assert_ok(tide_synchronize(rt, NULL));
    }
    for (int i = 0; i < 100; i++) assert_array(others[i] = tide_ones(rt, TIDE_F32, SHAPE(4)));
    tide_error_clear();
    end_of(b);
    tide_batches_rewind(b);
    assert_ok(tide_batches_next(b, &batch));
    check_rows(batch.array, 0, 3, 4);
    tide_batches_release(b);
    for (int i = 0; i < 100; i++) {
        assert_false(tide_array_is_freed(others[i]));
        tide_release(others[i]);
    }
    nothing_left(rt);
    tide_close(rt);
}

static void used_on_other_streams(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 4096, 16), batch;
        tide_stream *streams[3] = {NULL};
        for (int i = 1; i < 3; i++) assert_ok(tide_stream_new(rt, &streams[i]));
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 256});
        tide_array *sum = tide_retain(tide_zeros(rt, TIDE_F64, 0, NULL));
        for (int i = 0; tide_batches_next(b, &batch) == TIDE_OK; i++) {
            assert_ok(tide_stream_set(rt, streams[i % 3]));
            /* a user's to write, too */
            assert_ok(tide_map_into(batch.array, "(x) -> x * 2", batch.array));
            assert_ok(tide_map_into(sum, "(s, x) -> s + sum(f64(x))", sum, batch.array));
        }
        assert_true(tide_item_f64(sum) == 65535.0 * 65536);
        assert_ok(tide_stream_set(rt, NULL));
        for (int i = 1; i < 3; i++) tide_stream_release(streams[i]);
        tide_batches_release(b);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
        tide_close(rt);
    }
}

/* ---- threads ---- */

struct worker {
    tide_runtime *rt;
    int number;
};
static void *run_worker(void *arg) {
    const struct worker *w = arg;
    enum { SAMPLES = 300, WIDTH = 700 };
    float *data = malloc(SAMPLES * WIDTH * sizeof *data);
    tide_data x = numbers(data, SAMPLES, WIDTH), batch;
    tide_stream *s;
    assert_ok(tide_stream_new(w->rt, &s));
    assert_ok(tide_stream_set(w->rt, s));
    for (int round = 0; round < (test_quick() ? 3 : 20); round++) {
        int64_t size = 17 + 10 * w->number + round, at = 0;
        tide_batches *b =
            batches_of(w->rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = size});
        assert_ok(tide_scope_begin(w->rt));
        while (tide_batches_next(b, &batch) == TIDE_OK) {
            tide_array *sum = tide_map(w->rt, "(x) -> sum(f64(x))", batch.array);
            int64_t from = at * WIDTH, to = (at + batch.shape[0]) * WIDTH;
            assert_true(tide_item_f64(sum) == (double)(to - from) * (double)(from + to - 1) / 2);
            at += batch.shape[0];
            if (round % 4 == 3 && at > SAMPLES / 2) break;
        }
        assert_ok(tide_scope_end(w->rt));
        if (round % 4 != 3) assert_int_equal(at, SAMPLES);
        tide_batches_release(b);
    }
    assert_ok(tide_stream_set(w->rt, NULL));
    tide_stream_release(s);
    free(data);
    return NULL;
}

static void several_at_once(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = test_open(&(tide_config){.collector = collectors[c]});
        struct worker w[4];
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            w[i] = (struct worker){rt, i};
            assert_int_equal(pthread_create(&threads[i], NULL, run_worker, &w[i]), 0);
        }
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        assert_ok(tide_collect(rt));
        nothing_left(rt);
        assert_true(tidei_runtime_valid(test_rt(rt)));
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_by_others),
        cmocka_unit_test(e07_leaving_early),
        cmocka_unit_test(e07_larger_than_the_limit),
        cmocka_unit_test(no_room_for_one),
        cmocka_unit_test(uploads_pass_work),
        cmocka_unit_test(the_end_waits_for_nothing),
        cmocka_unit_test(released_too_often),
        cmocka_unit_test(used_on_other_streams),
        cmocka_unit_test(several_at_once),
    };
    return cmocka_run_group_tests_name("batches_life", tests, NULL, NULL);
}
