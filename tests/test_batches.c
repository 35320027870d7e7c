/* test_batches.c: batches of host data: all of them right, the one before freed, the next one uploaded meanwhile; data
** larger than the device; leaving early. Where batches are compared, a slow model looks each element up (trees.h). */
#include "runtime/device/host.h"
#include "tests/trees.h"

#include <pthread.h>
#include <sched.h>

static const char *const collectors[] = {"refcount", "boehm"};
#define EACH_COLLECTOR(c) for (unsigned c = 0; c < 1 + TEST_BOEHM; c++)

static tide_runtime *open_with(const char *collector) {
    return test_open(&(tide_config){.collector = collector, .debug = 1});
}

/* The array number `k` of numbers 0, 1, ...: `samples` rows of `width`. */
static tide_data numbers(float *at, int64_t samples, int64_t width) {
    for (int64_t i = 0; i < samples * width; i++) at[i] = (float)i;
    return tide_data_host(TIDE_F32, 2, (int64_t[]){samples, width}, at);
}

static tide_batches *batches_of(tide_runtime *rt, const tide_batches_config *c) {
    tide_batches_config k = *c;
    tide_batches *b = NULL;
    k.struct_size = sizeof k;
    assert_ok(tide_batches_new(rt, &k, &b));
    return b;
}

/* `a` is rows `first` .. first + n-1 of numbers of this width. */
static void check_rows(tide_array *a, int64_t first, int64_t n, int64_t width) {
    static float got[1 << 16];
    assert_int_equal(tide_dim(a, 0), n);
    assert_true(n * width <= (int64_t)TIDEI_COUNT(got));
    assert_ok(tide_to_host(a, got, (size_t)(n * width) * sizeof *got));
    for (int64_t i = 0; i < n * width; i++)
        if (got[i] != (float)(first * width + i))
            fail_msg("element %d is %g, not %g", (int)i, (double)got[i], (double)(first * width + i));
}

static void end_of(tide_batches *b) {
    tide_data none;
    assert_int_equal(tide_batches_next(b, &none), TIDE_END);
}

static void nothing_left(tide_runtime *rt) {
    tide_statistics s = test_stats(rt);
    assert_int_equal(s.live, 0);
    if (!strcmp(rt->set.collector, "refcount")) assert_int_equal(s.arrays, 0);
}

/* ---- T5 ---- */

static float rows[4096 * 16];

static void T5_the_batch_before_is_freed(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = test_open(&(tide_config){.collector = collectors[c]}); /* cells are used again */
        tide_data x = numbers(rows, 10, 4), batch = {0};
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 3});
        assert_int_equal(tide_batches_count(b), 4);
        assert_int_equal(test_stats(rt).live, 0);
        tide_array *before = NULL;
        for (int64_t i = 0; i < 4; i++) {
            assert_ok(tide_batches_next(b, &batch));
            if (before) assert_true(tide_is_freed(before));
            assert_false(tide_is_freed(batch.array));
            check_rows(batch.array, 3 * i, i < 3 ? 3 : 1, 4);
            assert_true(test_stats(rt).live <= 2 * 3 * 4 * sizeof(float));
            before = batch.array;
        }
        assert_int_equal(test_stats(rt).live, 4 * sizeof(float)); /* the last one */
        end_of(b);
        assert_true(tide_is_freed(before));
        assert_int_equal(test_stats(rt).live, 0);
        end_of(b);
        tide_batches_release(b);
        nothing_left(rt);
        tide_close(rt);
    }
}

struct labels {
    tide_data kind, weight[2];
};
struct set { /* a group in a group, and one of a type of its own */
    int id;
    tide_data image;
    struct labels labels;
};
static const tide_adapt_field label_fields[] = {TIDE_FIELD(struct labels, kind), TIDE_FIELD(struct labels, weight)};
static const tide_adapt_rule label_rule = {"labels", sizeof(struct labels), label_fields, 2, NULL, NULL};
static const tide_adapt_field set_fields[] = {TIDE_FIELD(struct set, image),
                                              TIDE_FIELD_OF(struct set, labels, struct labels, "labels")};
static const tide_adapt_rule set_rule = {"set", sizeof(struct set), set_fields, 2, NULL, NULL};

static void T5_nested_batches_mirror_their_source(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        assert_ok(tide_adapt_register(rt, &set_rule));
        assert_ok(tide_adapt_register(rt, &label_rule));
        static const uint8_t kind[] = {1, 2, 3, 4, 5};
        static const double weight[] = {0.5, 1.5, 2.5, 3.5, 4.5};
        struct set all = {.id = 42, .image = numbers(rows, 5, 6)}, batch;
        all.labels.kind = tide_data_host(TIDE_U8, SHAPE(5), kind);
        all.labels.weight[1] = tide_data_host(TIDE_F64, SHAPE(5), weight);
        tide_batches *b = batches_of(rt, &(tide_batches_config){.type = "set", .source = &all, .batch = 2});
        tide_adapt_unregister(rt, "set"); /* it has served */
        memset(&all, 0, sizeof all);      /* the source is copied */
        for (int64_t i = 0; i < 3; i++) {
            int64_t n = i < 2 ? 2 : 1;
            uint8_t k[2];
            double w[2];
            assert_ok(tide_batches_next(b, &batch));
            assert_int_equal(batch.id, 42);
            check_rows(batch.image.array, 2 * i, n, 6);
            assert_null(batch.image.host);
            assert_int_equal(batch.image.shape[0], n);
            assert_int_equal(batch.image.shape[1], 6);
            assert_ok(tide_to_host(batch.labels.kind.array, k, (size_t)n));
            assert_memory_equal(k, kind + 2 * i, n);
            assert_null(batch.labels.weight[0].array); /* absent there, absent here */
            assert_ok(tide_to_host(batch.labels.weight[1].array, w, (size_t)n * sizeof *w));
            assert_memory_equal(w, weight + 2 * i, (size_t)n * sizeof *w);
        }
        assert_int_equal(tide_batches_next(b, &batch), TIDE_END);
        tide_batches_release(b);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* A tuple of arrays; the element type of a batch is the source's, or narrower where that is asked for. */
static void T5_tuples_and_element_types(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        static const double wide[] = {1, 0.1, 3};
        static const int16_t small[] = {4, 5, 6};
        tide_data tuple[2] = {tide_data_host(TIDE_F64, SHAPE(3), wide), tide_data_host(TIDE_I16, SHAPE(3), small)};
        for (int narrow = 0; narrow < 2; narrow++) {
            tide_data batch[2];
            tide_batches *b = batches_of(
                rt, &(tide_batches_config){
                        .arrays = tuple, .narrays = 2, .batch = 2, .narrow = narrow ? TIDE_ON : TIDE_OFF});
            assert_int_equal(tide_batches_count(b), 2);
            assert_ok(tide_batches_next(b, batch));
            assert_int_equal(batch[0].dtype, narrow ? TIDE_F32 : TIDE_F64);
            assert_int_equal(tide_array_dtype(batch[0].array), narrow ? TIDE_F32 : TIDE_F64);
            assert_int_equal(tide_array_dtype(batch[1].array), TIDE_I16);
            assert_int_equal(batch[1].ndim, 1);
            double d[2];
            float f[2];
            if (narrow) {
                assert_ok(tide_to_host(batch[0].array, f, sizeof f));
                assert_true(f[0] == 1 && f[1] == 0.1f);
            } else {
                assert_ok(tide_to_host(batch[0].array, d, sizeof d));
                assert_memory_equal(d, wide, sizeof d);
            }
            tide_batches_release(b);
        }
        nothing_left(rt);
        tide_close(rt);
    }
}

struct diagonal {
    int64_t n;
    tide_data diag;
};
static tide_status count_samples(void *user, void *copy, const void *from, unsigned how) {
    struct diagonal *x = copy;
    assert_int_equal(how, TIDE_ADAPT_DEVICE);
    assert_int_equal(((const struct diagonal *)from)->n, 7);
    x->n = x->diag.shape[0];
    return *(int *)user ? TIDE_E_UNSUPPORTED : TIDE_OK;
}

/* A rule's callback sees each batch; what it refuses may be asked for again. */
static void T5_a_type_of_ones_own(void **state) {
    (void)state;
    int refuse = 0;
    tide_runtime *rt = open_with("refcount");
    const tide_adapt_field field = TIDE_FIELD(struct diagonal, diag);
    const tide_adapt_rule rule = {"Diagonal", sizeof(struct diagonal), &field, 1, count_samples, &refuse};
    assert_ok(tide_adapt_register(rt, &rule));
    struct diagonal all = {7, numbers(rows, 7, 1)}, batch = {0};
    tide_batches *b = batches_of(rt, &(tide_batches_config){.type = "Diagonal", .source = &all, .batch = 5});
    refuse = 1;
    assert_int_equal(tide_batches_next(b, &batch), TIDE_E_UNSUPPORTED);
    assert_error(TIDE_E_UNSUPPORTED, "callback");
    assert_null(batch.diag.array);
    refuse = 0;
    assert_ok(tide_batches_next(b, &batch));
    assert_int_equal(batch.n, 5);
    check_rows(batch.diag.array, 0, 5, 1);
    assert_ok(tide_batches_next(b, &batch));
    assert_int_equal(batch.n, 2);
    check_rows(batch.diag.array, 5, 2, 1);
    tide_batches_release(b);
    nothing_left(rt);
    tide_close(rt);
}

/* ---- the end ---- */

static void the_last_batch(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    static const struct {
        int64_t samples, batch;
        int drop;
        int64_t count, last;
    } cases[] = {{10, 5, TIDE_DEFAULT, 2, 5}, {10, 4, TIDE_DEFAULT, 3, 2},    {10, 4, TIDE_ON, 2, 4},
                 {10, 4, TIDE_OFF, 3, 2},     {3, 100, TIDE_DEFAULT, 1, 3},   {3, 100, TIDE_ON, 0, 0},
                 {0, 2, TIDE_DEFAULT, 0, 0},  {1, INT64_MAX, TIDE_OFF, 1, 1}, {1, 1, TIDE_ON, 1, 1}};
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_data x = numbers(rows, cases[i].samples, 2), batch;
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){
                               .arrays = &x, .narrays = 1, .batch = cases[i].batch, .drop_last = cases[i].drop});
        assert_int_equal(tide_batches_count(b), cases[i].count);
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t n = 0;
            tide_clear_error();
            for (int64_t k = 0; k < cases[i].count; k++) {
                assert_ok(tide_batches_next(b, &batch));
                n = batch.shape[0];
                check_rows(batch.array, k * cases[i].batch, n, 2);
            }
            assert_int_equal(n, cases[i].last);
            end_of(b);
            end_of(b);
            assert_int_equal(tide_last_error()->status, TIDE_OK);
            tide_batches_rewind(b);
        }
        tide_batches_release(b);
    }
    nothing_left(rt);
    tide_close(rt);
}

/* From wherever it is. */
static void rewinding(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 9, 3), batch;
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        tide_batches_rewind(b);
        for (int64_t far = 0; far <= 5; far++) {
            for (int64_t i = 0; i < far; i++) {
                assert_ok(tide_batches_next(b, &batch));
                check_rows(batch.array, 2 * i, i < 4 ? 2 : 1, 3);
            }
            tide_batches_rewind(b);
            if (far) assert_true(tide_is_freed(batch.array));
            assert_int_equal(test_stats(rt).live, 0);
        }
        tide_batches_rewind(NULL);
        tide_batches_release(NULL);
        assert_int_equal(tide_batches_count(NULL), 0);
        tide_batches_release(b);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* ---- who keeps what ---- */

static void kept_by_others(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 8, 2), batch;
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        assert_ok(tide_scope_begin(rt)); /* takes none of them */
        assert_ok(tide_batches_next(b, &batch));
        tide_array *kept = tide_retain(batch.array);
        assert_ok(tide_scope_end(rt));
        assert_false(tide_is_freed(batch.array));
        assert_ok(tide_batches_next(b, &batch));
        tide_array *view = tide_slice(batch.array, "1"), *stale = batch.array;
        assert_ok(tide_collect(rt)); /* finds neither the current batch nor the one to come */
        assert_ok(tide_batches_next(b, &batch));
        tide_free(batch.array); /* early, by hand */
        assert_int_equal(tide_ndim(stale), -1);
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
static _Atomic long host_held;
static void *counted_alloc(void *user, size_t n) {
    (void)user;
    atomic_fetch_add(&host_held, 1);
    return malloc(n);
}
static void counted_free(void *user, void *p) {
    (void)user;
    if (p) atomic_fetch_sub(&host_held, 1);
    free(p);
}
static const tide_host_memory counted_memory = {counted_alloc, counted_free, NULL};

static void leaving_early(void **state) {
    (void)state;
    EACH_COLLECTOR(c) for (int by_close = 0; by_close < 2; by_close++) for (int far = 0; far < 6; far++) {
        atomic_store(&host_held, 0);
        tide_runtime *rt = test_open(&(tide_config){.collector = collectors[c], .host = &counted_memory});
        tide_data x = numbers(rows, 9, 500), batch;
        tide_array *work = tide_ones(rt, TIDE_F32, SHAPE(500)), *held = tide_retain(work);
        for (int round = 0; round < (far == 3 ? 300 : 3); round++) { /* more than there may be streams */
            tide_statistics before = test_stats(rt);
            tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
            for (int i = 0; i < far; i++) {
                tide_status s = tide_batches_next(b, &batch);
                assert_int_equal(s, i < 5 ? TIDE_OK : TIDE_END);
                if (s == TIDE_OK) assert_ok(tide_map_into(work, "(w, x) -> w + sum(x, axis=0)", work, batch.array));
            }
            if (by_close) break;
            tide_batches_release(b);
            tide_statistics now = test_stats(rt);
            assert_int_equal(now.live, before.live);
            if (c == 0) assert_int_equal(now.arrays, before.arrays);
        }
        tide_release(held);
        tide_close(rt);
        assert_int_equal(atomic_load(&host_held), 0);
    }
}

/* ---- order ---- */

static void in_another_order(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        int64_t order[] = {4, 0, 0, 3, 6, 5, 1};
        tide_data x = numbers(rows, 7, 3), batch;
        tide_batches_config k = {.arrays = &x, .narrays = 1, .batch = 3, .order = order, .norder = 7};
        tide_batches *b = batches_of(rt, &k);
        for (int epoch = 0; epoch < 3; epoch++) {
            for (int at = 0; tide_batches_next(b, &batch) == TIDE_OK; at += 3)
                for (int i = 0; i < batch.shape[0]; i++) {
                    tide_array *row =
                        tide_slice_ranges(batch.array, 1, &(tide_range){.start = i, .stop = i + 1, .step = 1});
                    check_rows(row, order[at + i], 1, 3);
                    tide_free(row);
                    if (c == 0) tide_release(row);
                }
            for (int i = 0; i < 7; i++) order[i] = (order[i] + 2 * i) % 7; /* shuffled between epochs */
            tide_batches_rewind(b);
        }
        /* A number that is none is found when its batch is made, and that batch can be had once it is one. */
        int64_t was = order[4];
        order[4] = 7;
        assert_ok(tide_batches_next(b, &batch));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(tide_batches_next(b, &batch), TIDE_E_BOUNDS);
            assert_error(TIDE_E_BOUNDS, "order[4] is 7, there are 7 samples");
        }
        order[4] = was;
        assert_ok(tide_batches_next(b, &batch));
        assert_ok(tide_batches_next(b, &batch));
        assert_int_equal(tide_batches_next(b, &batch), TIDE_END);
        tide_batches_release(b);
        order[2] = -1;
        k.struct_size = sizeof k;
        assert_int_equal(tide_batches_new(rt, &k, &b), TIDE_E_BOUNDS);
        assert_error(TIDE_E_BOUNDS, "order[2] is -1");
        nothing_left(rt);
        tide_close(rt);
    }
}

/* ---- data in no memory ---- */

struct feed {
    int64_t calls, fail_at; /* sample */
    tide_status status;
};
/* Sample i of array 0: i, i, i, ... as doubles; array 2 counts as bools; array 1 is in memory. */
static tide_status feed_samples(void *user, int64_t first, const int64_t *samples, int64_t n, void *const *out) {
    struct feed *f = user;
    f->calls++;
    assert_non_null(out[0]);
    assert_null(out[1]);
    assert_non_null(out[2]);
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = samples ? samples[i] : first + i;
        if (sample == f->fail_at) return f->status;
        for (int k = 0; k < 16; k++) ((double *)out[0])[16 * i + k] = (double)sample + 0.25;
        ((unsigned char *)out[2])[i] = (unsigned char)(sample % 5);
    }
    return TIDE_OK;
}

static void check_fed(const tide_data *batch, int64_t sample, int64_t i, bool narrow) {
    static double wide[16 * 64];
    static float thin[16 * 64];
    unsigned char truth[64];
    int64_t n = batch[0].shape[0];
    if (narrow)
        assert_ok(tide_to_host(batch[0].array, thin, (size_t)n * 16 * sizeof *thin));
    else
        assert_ok(tide_to_host(batch[0].array, wide, (size_t)n * 16 * sizeof *wide));
    for (int k = 0; k < 16; k++)
        assert_true((narrow ? (double)thin[16 * i + k] : wide[16 * i + k]) == (double)sample + 0.25);
    assert_ok(tide_to_host(batch[2].array, truth, (size_t)n));
    assert_int_equal(truth[i], sample % 5 != 0);
}

static void data_by_callback(void **state) {
    (void)state;
    EACH_COLLECTOR(c) for (int narrow = 0; narrow < 2; narrow++) for (int ordered = 0; ordered < 2; ordered++) {
        tide_runtime *rt = open_with(collectors[c]);
        struct feed feed = {.fail_at = -1, .status = TIDE_E_IO};
        int64_t order[100];
        for (int i = 0; i < 100; i++) order[i] = (i * 37) % 100;
        tide_data x[3] = {tide_data_host(TIDE_F64, SHAPE(100, 16), NULL), numbers(rows, 100, 2),
                          tide_data_host(TIDE_BOOL, SHAPE(100), NULL)},
                  batch[3];
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = x,
                                                                .narrays = 3,
                                                                .batch = 32,
                                                                .narrow = narrow ? TIDE_ON : TIDE_OFF,
                                                                .order = ordered ? order : NULL,
                                                                .norder = ordered ? 100 : 0,
                                                                .fill = feed_samples,
                                                                .user = &feed});
        for (int64_t k = 0; k < 4; k++) {
            if (k == 1) feed.fail_at = ordered ? order[70] : 70; /* in batch 2, which is made during this call */
            assert_ok(tide_batches_next(b, batch));
            for (int64_t i = 0; i < batch[0].shape[0]; i += 31)
                check_fed(batch, ordered ? order[32 * k + i] : 32 * k + i, i, narrow);
            if (k != 1) continue;
            for (int again = 0; again < 2; again++) {
                assert_int_equal(tide_batches_next(b, batch), TIDE_E_IO);
                assert_error(TIDE_E_IO, "the callback returned TIDE_E_IO for samples 64 to 95");
                assert_int_equal(test_stats(rt).live, 0);
            }
            feed.status = TIDE_END; /* the data end here; or not yet */
            tide_clear_error();
            assert_int_equal(tide_batches_next(b, batch), TIDE_END);
            assert_int_equal(tide_last_error()->status, TIDE_OK);
            feed.fail_at = -1;
        }
        assert_int_equal(feed.calls, 4 + 4);
        assert_int_equal(tide_batches_next(b, batch), TIDE_END);
        tide_batches_release(b);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* ---- limits ---- */

static tide_status feed_large(void *user, int64_t first, const int64_t *samples, int64_t n, void *const *out) {
    size_t width = *(size_t *)user;
    (void)samples;
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++) ((float *)out[0])[(size_t)i * width + k] = (float)((first + i) % 100);
    return TIDE_OK;
}

/* 40 batches, each a tenth more than a third of what the limit holds: two and the user's own data fit. With `fit` 1, a batch
** is two thirds of it, and they come one by one. */
static void within_a_limit(const char *collector, const char *pool, int fit) {
    size_t page = test_on_host() ? 64 * TIDEI_KIB : 2 * TIDEI_MIB, limit = 32 * page, live = 2 * page;
    size_t width = 1024, samples = (limit - live) * 9 / 10 / (size_t)fit / (width * sizeof(float));
    tide_runtime *rt = test_open(&(tide_config){.collector = collector, .pool = pool});
    tide_array *own = tide_zeros(rt, TIDE_F32, SHAPE((int64_t)(live / 2 / sizeof(float))));
    tide_array *sum = tide_zeros(rt, TIDE_F32, SHAPE((int64_t)width));
    tide_retain(own), tide_retain(sum);
    assert_ok(tide_set_limit(rt, limit));
    int64_t total = (int64_t)samples * 40 - 1;
    assert_true((size_t)total * width * sizeof(float) > 10 * limit);
    tide_data x = tide_data_host(TIDE_F32, 2, (int64_t[]){total, (int64_t)width}, NULL), batch;
    tide_batches *b = batches_of(
        rt, &(tide_batches_config){
                .arrays = &x, .narrays = 1, .batch = (int64_t)samples, .fill = feed_large, .user = &width});
    int64_t got = 0;
    tide_status s;
    while ((s = tide_batches_next(b, &batch)) == TIDE_OK) {
        got += batch.shape[0];
        assert_ok(tide_map_into(sum, "(s, x) -> s + sum(x, axis=0)", sum, batch.array));
    }
    if (s != TIDE_END) fail_msg("%s, %s, %d fit: %s", collector, pool, fit, tide_last_error()->message);
    assert_int_equal(got, total);
    double wanted = 0;
    for (int64_t i = 0; i < total; i++) wanted += (double)(i % 100);
    static float sums[1024];
    assert_ok(tide_to_host(sum, sums, sizeof sums));
    for (size_t i = 0; i < width; i++) assert_true(sums[i] == (float)wanted);
    tide_statistics st = test_stats(rt);
    assert_true(st.peak_live <= limit && st.backed <= limit);
    assert_true(st.climbs <= (fit == 1 ? 8 : 0)); /* what does not fit is tried for seldom: at 1, 3, 6, 11, ... */
    assert_true(tidei_runtime_valid(rt));
    tide_batches_release(b);
    assert_true(test_stats(rt).live <= live);
    tide_close(rt);
}

static void larger_than_the_limit(void **state) {
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
    assert_ok(tide_set_limit(rt, 64 * TIDEI_MIB));
    tide_batches *b = batches_of(
        rt, &(tide_batches_config){
                .arrays = &x, .narrays = 1, .batch = (int64_t)1 << 25, .fill = feed_large, .user = &width});
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tide_batches_next(b, &batch), TIDE_E_NOMEM);
        assert_error(TIDE_E_NOMEM, "128.000 MiB");
        assert_string_equal(tide_last_error()->operation, "tide_batches_next");
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
    assert_ok(tide_host_launch(scope, wait_at_gate, NULL));
    assert_ok(tide_use_end(scope));
}

/* While the device is at batch 0, batch 1 is uploaded: another stream reads it, whole. And the host gets batch 2, whose upload
** waits for the memory of batch 0, without waiting itself. Were it otherwise, this would never end. The memory of two batches
** is all that it takes. */
static void uploads_pass_work(void **state) {
    (void)state;
    if (!test_on_host()) skip(); /* host functions */
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        int64_t width = 1 << 18; /* a batch is a MiB, more than travels in a command */
        float *data = malloc((size_t)(8 * width) * sizeof *data);
        tide_data x = numbers(data, 8, width), batch;
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 1});
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
        tide_statistics s = test_stats(rt);
        if (rt->devs[0].d->info.page_bytes <= 64 * TIDEI_KIB && !strcmp(rt->devs[0].pool->ops->name, "tide"))
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
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        atomic_store(&gate, 0);
        assert_ok(tide_batches_next(b, &batch));
        work_until_gate(rt, batch.array);
        assert_ok(tide_batches_next(b, &batch)); /* stages the third, which comes after that work */
        tide_batches_release(b);
        tide_data y = numbers(rows, 8, 4); /* and its pinned memory is not another's before it is over */
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
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"}); /* cells are used again */
    tide_data x = numbers(rows, 9, 4), batch;
    tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 3});
    tide_array *others[100];
    for (int i = 0; i < 3; i++) {
        assert_ok(tide_batches_next(b, &batch));
        tide_release(batch.array);
        if (i == 1) tide_release(batch.array);
        assert_ok(tide_synchronize(rt, NULL));
    }
    for (int i = 0; i < 100; i++) assert_array(others[i] = tide_ones(rt, TIDE_F32, SHAPE(4)));
    tide_clear_error();
    end_of(b);
    tide_batches_rewind(b);
    assert_ok(tide_batches_next(b, &batch));
    check_rows(batch.array, 0, 3, 4);
    tide_batches_release(b);
    for (int i = 0; i < 100; i++) {
        assert_false(tide_is_freed(others[i]));
        tide_release(others[i]);
    }
    nothing_left(rt);
    tide_close(rt);
}

static tide_status never_asked(void *user, int64_t first, const int64_t *samples, int64_t n, void *const *out) {
    (void)first, (void)samples, (void)n, (void)out;
    ++*(int *)user;
    return TIDE_OK;
}
/* The source's strides are copied, and `fill` is for arrays that are in no memory. */
static void what_is_in_memory(void **state) {
    (void)state;
    tide_runtime *rt = test_open(&(tide_config){.collector = "refcount"});
    int64_t strides[2] = {1, 3}; /* columns of 3 */
    float got[6];
    int asked = 0;
    numbers(rows, 3, 4);
    tide_data x = tide_data_host(TIDE_F32, 2, (int64_t[]){3, 2}, rows), batch;
    x.strides = strides;
    tide_batches *b = batches_of(
        rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 3, .fill = never_asked, .user = &asked});
    memset(strides, 0x5a, sizeof strides);
    assert_ok(tide_batches_next(b, &batch));
    assert_ok(tide_to_host(batch.array, got, sizeof got));
    for (int i = 0; i < 6; i++) assert_true(got[i] == (float)(i / 2 + 3 * (i % 2)));
    assert_int_equal(asked, 0);
    tide_batches_release(b);
    tide_close(rt);
}

/* Work on one stream, the batches got on another thread's stream: ordered without any call. */
static void used_on_other_streams(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 4096, 16), batch;
        tide_stream *streams[3] = {NULL};
        for (int i = 1; i < 3; i++) assert_ok(tide_stream_new(rt, &streams[i]));
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 256});
        tide_array *sum = tide_retain(tide_zeros(rt, TIDE_F64, 0, NULL));
        for (int i = 0; tide_batches_next(b, &batch) == TIDE_OK; i++) {
            assert_ok(tide_stream_set(rt, streams[i % 3]));
            assert_ok(tide_map_into(batch.array, "(x) -> x * 2", batch.array)); /* a user's to write, too */
            assert_ok(tide_map_into(sum, "(s, x) -> s + sum(f64(x))", sum, batch.array));
        }
        assert_true(tide_item_f64(sum) == 65535.0 * 65536);
        assert_ok(tide_stream_set(rt, NULL));
        for (int i = 1; i < 3; i++) tide_stream_release(streams[i]);
        tide_batches_release(b);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(rt->devs[0].d), 0);
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
        tide_batches *b = batches_of(w->rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = size});
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
        assert_true(tidei_runtime_valid(rt));
        tide_close(rt);
    }
}

/* ---- against the slow model ---- */

static void check_batch(const tree *t, const void *batch, const int64_t *samples, int64_t first, int64_t n,
                        bool narrow) {
    for (size_t k = 0; k < t->nleaves; k++) {
        tide_data was = tree_data(t->x, t->offsets[k]), is = tree_data(batch, t->offsets[k]);
        if (tidei_data_absent(&was)) {
            assert_true(tidei_data_absent(&is));
            continue;
        }
        tide_dtype to = narrow ? tidei_narrowed(was.dtype) : was.dtype;
        assert_int_equal(is.dtype, to);
        assert_int_equal(is.shape[0], n);
        assert_int_equal(tide_array_dtype(is.array), to);
        size_t size = tide_dtype_size(to), row = was.shape[0] ? (size_t)(tree_size(&was) / was.shape[0]) : 0;
        unsigned char *got = malloc((size_t)n * row * size + 1);
        assert_ok(tide_to_host(is.array, got, (size_t)n * row * size));
        for (size_t i = 0; i < (size_t)n * row; i++) {
            int64_t sample = samples ? samples[first + (int64_t)(i / row)] : first + (int64_t)(i / row);
            unsigned char wanted[16];
            tree_expect(was.dtype, to, tree_element(&was, sample * (int64_t)row + (int64_t)(i % row)), wanted);
            assert_memory_equal(got + i * size, wanted, size);
        }
        free(got);
    }
}

static void one_tree(tide_runtime *rt, uint64_t seed) {
    tree_seed = seed;
    int64_t samples = tree_random(30), order[64], norder = tree_random(64), size = 1 + tree_random(12);
    bool narrow = tree_random(2), drop = tree_random(2), ordered = samples && tree_random(2);
    tree *t = tree_new(rt, samples);
    bool any = false;
    for (size_t i = 0; i < t->nleaves; i++) any = any || tree_data(t->x, t->offsets[i]).ndim;
    for (int64_t i = 0; i < norder && ordered; i++) order[i] = tree_random((unsigned)samples);
    tide_batches_config c = {.struct_size = sizeof c,
                             .type = tree_top(t)->type,
                             .source = t->x,
                             .batch = size,
                             .drop_last = drop ? TIDE_ON : TIDE_OFF,
                             .narrow = narrow ? TIDE_ON : TIDE_OFF,
                             .order = ordered ? order : NULL,
                             .norder = ordered ? norder : 0};
    tide_batches *b = NULL;
    tide_status s = tide_batches_new(rt, &c, &b);
    assert_int_equal(s, any ? TIDE_OK : TIDE_E_INVALID);
    void *batch = malloc(tree_top(t)->bytes);
    int64_t total = ordered ? norder : samples, full = total / size * size, end = drop ? full : total, at = 0;
    while (any && (s = tide_batches_next(b, batch)) == TIDE_OK) {
        int64_t n = total - at < size ? total - at : size;
        assert_true(at < end);
        tree_same_rest(t, batch);
        check_batch(t, batch, ordered ? order : NULL, at, n, narrow);
        at += n;
        if (tree_random(40) == 0) tide_batches_rewind(b), at = 0;
    }
    if (any) assert_int_equal(s, TIDE_END);
    if (any) assert_int_equal(at, end);
    tide_batches_release(b);
    tree_free(rt, t);
    free(batch);
}

static void random_trees(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        for (int round = 0; round < (test_quick() ? 30 : 150); round++) {
            one_tree(rt, (uint64_t)round + 1);
            assert_int_equal(test_stats(rt).live, 0);
        }
        nothing_left(rt);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(rt->devs[0].d), 0);
        tide_close(rt);
    }
}

/* ---- what is refused ---- */

static void what_is_refused(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    tide_array *on_device = tide_ones(rt, TIDE_F32, SHAPE(4));
    assert_ok(tide_adapt_register(rt, &set_rule));
    assert_ok(tide_adapt_register(rt, &label_rule));
    struct set set = {.image = numbers(rows, 4, 4), .labels.weight[1] = tide_data_host(TIDE_F32, SHAPE(3), rows)};
    tide_data good = numbers(rows, 4, 4), *x = &good;
    tide_data longer[2] = {good, tide_data_host(TIDE_F32, SHAPE(5), rows)};
    tide_data scalar = tide_data_host(TIDE_F32, 0, NULL, rows), absent[3] = {{0}};
    tide_data nowhere = tide_data_host(TIDE_F32, SHAPE(4), NULL), there = tide_data_array(on_device);
    tide_data negative = tide_data_host(TIDE_F32, SHAPE(4, -1), rows);
    tide_data huge = tide_data_host(TIDE_F32, SHAPE((int64_t)1 << 40, 1 << 20), rows);
    const struct {
        tide_batches_config c;
        tide_status status;
        const char *part;
    } cases[] = {
        {{.arrays = x, .narrays = 1}, TIDE_E_INVALID, "a batch of 0 samples"},
        {{.arrays = x, .narrays = 1, .batch = -2}, TIDE_E_INVALID, "a batch of -2 samples"},
        {{.batch = 1}, TIDE_E_INVALID, "give either"},
        {{.arrays = x, .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.narrays = 1, .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.arrays = x, .narrays = 1, .type = "set", .source = &set, .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.type = "set", .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.source = &set, .batch = 1}, TIDE_E_INVALID, "type is NULL"},
        {{.type = "sets", .source = &set, .batch = 1}, TIDE_E_INVALID, "type \"sets\""},
        {{.type = "set", .source = &set, .batch = 1}, TIDE_E_SHAPE, "labels.weight[1] has 3 samples, image has 4"},
        {{.arrays = longer, .narrays = 2, .batch = 1}, TIDE_E_SHAPE, "array 1 has 5 samples, array 0 has 4"},
        {{.arrays = &scalar, .narrays = 1, .batch = 1}, TIDE_E_SHAPE, "array 0 has no axis"},
        {{.arrays = absent, .narrays = 3, .batch = 1}, TIDE_E_INVALID, "no array in the source"},
        {{.arrays = &nowhere, .narrays = 1, .batch = 1}, TIDE_E_INVALID, "array 0: its host memory is NULL"},
        {{.arrays = &there, .narrays = 1, .batch = 1}, TIDE_E_INVALID, "array 0 is on the device"},
        {{.arrays = &negative, .narrays = 1, .batch = 1}, TIDE_E_SHAPE, "array 0: dimension 1"},
        {{.arrays = x, .narrays = 1, .batch = 1, .norder = 3}, TIDE_E_INVALID, "no `order`"},
        {{.arrays = x, .narrays = 1, .batch = 1, .order = good.shape, .norder = -1}, TIDE_E_INVALID, "-1 sample"},
        {{.arrays = &huge, .narrays = 1, .batch = (int64_t)1 << 40}, TIDE_E_HOST_NOMEM, "pinned"},
    };
    tide_batches *b = NULL;
    tide_statistics before = test_stats(rt);
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_batches_config c = cases[i].c;
        if (cases[i].status == TIDE_E_HOST_NOMEM && !test_on_host()) continue; /* a driver says it its own way */
        c.struct_size = sizeof c;
        tide_clear_error();
        assert_int_equal(tide_batches_new(rt, &c, &b), cases[i].status);
        assert_error(cases[i].status, cases[i].part);
        assert_string_equal(tide_last_error()->operation, "tide_batches_new");
    }
    tide_batches_config c = {.struct_size = sizeof c + 1, .arrays = x, .narrays = 1, .batch = 1};
    assert_int_equal(tide_batches_new(rt, &c, &b), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "struct_size");
    assert_int_equal(tide_batches_new(NULL, &c, &b), TIDE_E_INVALID);
    assert_int_equal(tide_batches_new(rt, NULL, &b), TIDE_E_INVALID);
    c.struct_size = sizeof c;
    assert_int_equal(tide_batches_new(rt, &c, NULL), TIDE_E_INVALID);
    assert_null(b);
    assert_int_equal(tide_batches_next(NULL, &good), TIDE_E_INVALID);
    tide_statistics now = test_stats(rt);
    assert_int_equal(now.live, before.live);
    assert_int_equal(now.arrays, before.arrays);
    tide_close(rt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T5_the_batch_before_is_freed),
        cmocka_unit_test(T5_nested_batches_mirror_their_source),
        cmocka_unit_test(T5_tuples_and_element_types),
        cmocka_unit_test(T5_a_type_of_ones_own),
        cmocka_unit_test(the_last_batch),
        cmocka_unit_test(rewinding),
        cmocka_unit_test(kept_by_others),
        cmocka_unit_test(leaving_early),
        cmocka_unit_test(in_another_order),
        cmocka_unit_test(data_by_callback),
        cmocka_unit_test(larger_than_the_limit),
        cmocka_unit_test(no_room_for_one),
        cmocka_unit_test(uploads_pass_work),
        cmocka_unit_test(the_end_waits_for_nothing),
        cmocka_unit_test(released_too_often),
        cmocka_unit_test(what_is_in_memory),
        cmocka_unit_test(used_on_other_streams),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(random_trees),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
