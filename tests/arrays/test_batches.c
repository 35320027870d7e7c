/* test_batches.c: which batches come: all of them, right, in their order, as structures and of the
** types that were asked for, from memory or from a callback; compared with a slow model, which
** looks each element up (trees.h). What they take and wait for: test_batches_life.c. */
#include "tests/arrays/batches.h"
#include "tests/arrays/trees.h"

/* ---- T5 ---- */

static void T5_the_batch_before_is_freed(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        /* cells are used again */
        tide_runtime *rt = test_open(&(tide_config){.collector = collectors[c]});
        tide_data x = numbers(rows, 10, 4), batch = {0};
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 3});
        assert_int_equal(tide_batches_count(b), 4);
        assert_int_equal(test_stats(rt).live, 0);
        tide_array *before = NULL;
        for (int64_t i = 0; i < 4; i++) {
            assert_ok(tide_batches_next(b, &batch));
            if (before) assert_true(tide_array_is_freed(before));
            assert_false(tide_array_is_freed(batch.array));
            check_rows(batch.array, 3 * i, i < 3 ? 3 : 1, 4);
            assert_true(test_stats(rt).live <= 2 * 3 * 4 * sizeof(float));
            before = batch.array;
        }
        assert_int_equal(test_stats(rt).live, 4 * sizeof(float)); /* the last one */
        end_of(b);
        assert_true(tide_array_is_freed(before));
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
static const tide_adapt_field label_fields[] = {TIDE_FIELD(struct labels, kind),
                                                TIDE_FIELD(struct labels, weight)};
static const tide_adapt_rule label_rule = {"labels", sizeof(struct labels), label_fields, 2, NULL,
                                           NULL};
static const tide_adapt_field set_fields[] = {
    TIDE_FIELD(struct set, image), TIDE_FIELD_OF(struct set, labels, struct labels, "labels")};
static const tide_adapt_rule set_rule = {"set", sizeof(struct set), set_fields, 2, NULL, NULL};

static void T5_nested_batches_mirror_their_source(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        uint64_t id;
        assert_ok(tide_adapt_register(rt, &set_rule, &id));
        assert_ok(tide_adapt_register(rt, &label_rule, NULL));
        static const uint8_t kind[] = {1, 2, 3, 4, 5};
        static const double weight[] = {0.5, 1.5, 2.5, 3.5, 4.5};
        struct set all = {.id = 42, .image = numbers(rows, 5, 6)}, batch;
        all.labels.kind = tide_data_host(TIDE_U8, SHAPE(5), kind);
        all.labels.weight[1] = tide_data_host(TIDE_F64, SHAPE(5), weight);
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.type = "set", .source = &all, .batch = 2});
        assert_ok(tide_adapt_unregister(rt, id)); /* it has served */
        memset(&all, 0, sizeof all);              /* the source is copied */
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

/* A tuple of arrays; the element type of a batch is the source's, or narrower where that is asked
** for. */
static void T5_tuples_and_element_types(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        static const double wide[] = {1, 0.1, 3};
        static const int16_t small[] = {4, 5, 6};
        tide_data tuple[2] = {tide_data_host(TIDE_F64, SHAPE(3), wide),
                              tide_data_host(TIDE_I16, SHAPE(3), small)};
        for (int narrow = 0; narrow < 2; narrow++) {
            tide_data batch[2];
            tide_batches *b =
                batches_of(rt, &(tide_batches_config){.arrays = tuple,
                                                      .narrays = 2,
                                                      .batch = 2,
                                                      .narrow = narrow ? TIDE_ON : TIDE_OFF});
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
    const tide_adapt_rule rule = {"Diagonal", sizeof(struct diagonal), &field,
                                  1,          count_samples,           &refuse};
    assert_ok(tide_adapt_register(rt, &rule, NULL));
    struct diagonal all = {7, numbers(rows, 7, 1)}, batch = {0};
    tide_batches *b =
        batches_of(rt, &(tide_batches_config){.type = "Diagonal", .source = &all, .batch = 5});
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
    } cases[] = {
        {10, 5, TIDE_DEFAULT, 2, 5}, {10, 4, TIDE_DEFAULT, 3, 2},    {10, 4, TIDE_ON, 2, 4},
        {10, 4, TIDE_OFF, 3, 2},     {3, 100, TIDE_DEFAULT, 1, 3},   {3, 100, TIDE_ON, 0, 0},
        {0, 2, TIDE_DEFAULT, 0, 0},  {1, INT64_MAX, TIDE_OFF, 1, 1}, {1, 1, TIDE_ON, 1, 1}};
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_data x = numbers(rows, cases[i].samples, 2), batch;
        tide_batches *b = batches_of(rt, &(tide_batches_config){.arrays = &x,
                                                                .narrays = 1,
                                                                .batch = cases[i].batch,
                                                                .drop_last = cases[i].drop});
        assert_int_equal(tide_batches_count(b), cases[i].count);
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t n = 0;
            tide_error_clear();
            for (int64_t k = 0; k < cases[i].count; k++) {
                assert_ok(tide_batches_next(b, &batch));
                n = batch.shape[0];
                check_rows(batch.array, k * cases[i].batch, n, 2);
            }
            assert_int_equal(n, cases[i].last);
            end_of(b);
            end_of(b);
            assert_int_equal(tide_error_last()->status, TIDE_OK);
            tide_batches_rewind(b);
        }
        tide_batches_release(b);
    }
    nothing_left(rt);
    tide_close(rt);
}

/* From wherever it is. */
static void batches_begin_again_from_anywhere(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        tide_data x = numbers(rows, 9, 3), batch;
        tide_batches *b =
            batches_of(rt, &(tide_batches_config){.arrays = &x, .narrays = 1, .batch = 2});
        tide_batches_rewind(b);
        for (int64_t far = 0; far <= 5; far++) {
            for (int64_t i = 0; i < far; i++) {
                assert_ok(tide_batches_next(b, &batch));
                check_rows(batch.array, 2 * i, i < 4 ? 2 : 1, 3);
            }
            tide_batches_rewind(b);
            if (far) assert_true(tide_array_is_freed(batch.array));
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

/* ---- order ---- */

static void in_another_order(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        int64_t order[] = {4, 0, 0, 3, 6, 5, 1};
        tide_data x = numbers(rows, 7, 3), batch;
        tide_batches_config k = {
            .arrays = &x, .narrays = 1, .batch = 3, .order = order, .norder = 7};
        tide_batches *b = batches_of(rt, &k);
        for (int epoch = 0; epoch < 3; epoch++) {
            for (int at = 0; tide_batches_next(b, &batch) == TIDE_OK; at += 3)
                for (int i = 0; i < batch.shape[0]; i++) {
                    tide_array *row = tide_slice_ranges(
                        batch.array, 1, &(tide_range){.start = i, .stop = i + 1, .step = 1});
                    check_rows(row, order[at + i], 1, 3);
                    tide_free(row);
                    if (c == 0) tide_release(row);
                }
            /* shuffled between epochs */
            for (int i = 0; i < 7; i++) order[i] = (order[i] + 2 * i) % 7;
            tide_batches_rewind(b);
        }
        /* A number that is none is found when its batch is made, and that batch can be had once it
        ** is one. */
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
static tide_status feed_samples(void *user, int64_t first, const int64_t *samples, int64_t n,
                                void *const *out) {
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
        assert_true((narrow ? (double)thin[16 * i + k] : wide[16 * i + k]) ==
                    (double)sample + 0.25);
    assert_ok(tide_to_host(batch[2].array, truth, (size_t)n));
    assert_int_equal(truth[i], sample % 5 != 0);
}

static void data_by_callback(void **state) {
    (void)state;
    EACH_COLLECTOR(c)
    for (int narrow = 0; narrow < 2; narrow++)
        for (int ordered = 0; ordered < 2; ordered++) {
            tide_runtime *rt = open_with(collectors[c]);
            struct feed feed = {.fail_at = -1, .status = TIDE_E_IO};
            int64_t order[100];
            for (int i = 0; i < 100; i++) order[i] = (i * 37) % 100;
            tide_data x[3] = {tide_data_host(TIDE_F64, SHAPE(100, 16), NULL), numbers(rows, 100, 2),
                              tide_data_host(TIDE_BOOL, SHAPE(100), NULL)},
                      batch[3];
            tide_batches *b =
                batches_of(rt, &(tide_batches_config){.arrays = x,
                                                      .narrays = 3,
                                                      .batch = 32,
                                                      .narrow = narrow ? TIDE_ON : TIDE_OFF,
                                                      .order = ordered ? order : NULL,
                                                      .norder = ordered ? 100 : 0,
                                                      .fill = feed_samples,
                                                      .user = &feed});
            for (int64_t k = 0; k < 4; k++) {
                /* in batch 2, which is made during this call */
                if (k == 1) feed.fail_at = ordered ? order[70] : 70;
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
                tide_error_clear();
                assert_int_equal(tide_batches_next(b, batch), TIDE_END);
                assert_int_equal(tide_error_last()->status, TIDE_OK);
                feed.fail_at = -1;
            }
            assert_int_equal(feed.calls, 4 + 4);
            assert_int_equal(tide_batches_next(b, batch), TIDE_END);
            tide_batches_release(b);
            nothing_left(rt);
            tide_close(rt);
        }
}

static tide_status never_asked(void *user, int64_t first, const int64_t *samples, int64_t n,
                               void *const *out) {
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
        rt, &(tide_batches_config){
                .arrays = &x, .narrays = 1, .batch = 3, .fill = never_asked, .user = &asked});
    memset(strides, 0x5a, sizeof strides);
    assert_ok(tide_batches_next(b, &batch));
    assert_ok(tide_to_host(batch.array, got, sizeof got));
    for (int i = 0; i < 6; i++) assert_true(got[i] == (float)(i / 2 + 3 * (i % 2)));
    assert_int_equal(asked, 0);
    tide_batches_release(b);
    tide_close(rt);
}

/* Work on one stream, the batches got on another thread's stream: ordered without any call. */

/* ---- against the slow model ---- */

static void check_batch(const tree *t, const void *batch, const int64_t *samples, int64_t first,
                        int64_t n, bool narrow) {
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
        size_t size = tide_dtype_size(to),
               row = was.shape[0] ? (size_t)(tree_size(&was) / was.shape[0]) : 0;
        unsigned char *got = malloc((size_t)n * row * size + 1);
        assert_ok(tide_to_host(is.array, got, (size_t)n * row * size));
        for (size_t i = 0; i < (size_t)n * row; i++) {
            int64_t sample =
                samples ? samples[first + (int64_t)(i / row)] : first + (int64_t)(i / row);
            unsigned char wanted[16];
            tree_expect(was.dtype, to,
                        tree_element(&was, sample * (int64_t)row + (int64_t)(i % row)), wanted);
            assert_memory_equal(got + i * size, wanted, size);
        }
        free(got);
    }
}

static void one_tree(tide_runtime *rt, uint64_t seed) {
    tree_seed = seed;
    int64_t samples = tree_random(30), order[64], norder = tree_random(64),
            size = 1 + tree_random(12);
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
    int64_t total = ordered ? norder : samples, full = total / size * size,
            end = drop ? full : total, at = 0;
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

static void random_trees_come_in_batches(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        for (int round = 0; round < (test_quick() ? 30 : 150); round++) {
            one_tree(rt, (uint64_t)round + 1);
            assert_int_equal(test_stats(rt).live, 0);
        }
        nothing_left(rt);
        if (test_on_host()) assert_int_equal(tidei_host_checker_reports(test_rt(rt)->devs[0].d), 0);
        tide_close(rt);
    }
}

/* ---- what is refused ---- */

static void what_is_refused(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    tide_array *on_device = tide_ones(rt, TIDE_F32, SHAPE(4));
    assert_ok(tide_adapt_register(rt, &set_rule, NULL));
    assert_ok(tide_adapt_register(rt, &label_rule, NULL));
    struct set set = {.image = numbers(rows, 4, 4),
                      .labels.weight[1] = tide_data_host(TIDE_F32, SHAPE(3), rows)};
    tide_data good = numbers(rows, 4, 4), *x = &good;
    tide_data longer[2] = {good, tide_data_host(TIDE_F32, SHAPE(5), rows)};
    tide_data scalar = tide_data_host(TIDE_F32, 0, NULL, rows), absent[3] = {{0}};
    tide_data nowhere = tide_data_host(TIDE_F32, SHAPE(4), NULL),
              there = tide_data_array(on_device);
    tide_data negative = tide_data_host(TIDE_F32, SHAPE(4, -1), rows);
    tide_data huge = tide_data_host(TIDE_F32, SHAPE((int64_t)1 << 40, 1 << 20), rows);
    const struct {
        tide_batches_config c;
        tide_status status;
        const char *part;
    } cases[] = {
        {{.arrays = x, .narrays = 1}, TIDE_E_INVALID, "a batch of 0 samples"},
        {{.arrays = x, .narrays = 1, .batch = 1, .drop_last = 3}, TIDE_E_INVALID, "drop_last is 3"},
        {{.arrays = x, .narrays = 1, .batch = 1, .narrow = -1}, TIDE_E_INVALID, "narrow is -1"},
        {{.arrays = x, .narrays = 1, .batch = -2}, TIDE_E_INVALID, "a batch of -2 samples"},
        {{.batch = 1}, TIDE_E_INVALID, "give either"},
        {{.arrays = x, .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.narrays = 1, .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.arrays = x, .narrays = 1, .type = "set", .source = &set, .batch = 1},
         TIDE_E_INVALID,
         "give either"},
        {{.type = "set", .batch = 1}, TIDE_E_INVALID, "give either"},
        {{.source = &set, .batch = 1}, TIDE_E_INVALID, "type is NULL"},
        {{.type = "sets", .source = &set, .batch = 1}, TIDE_E_INVALID, "type \"sets\""},
        {{.type = "set", .source = &set, .batch = 1},
         TIDE_E_SHAPE,
         "labels.weight[1] has 3 samples, image has 4"},
        {{.arrays = longer, .narrays = 2, .batch = 1},
         TIDE_E_SHAPE,
         "array 1 has 5 samples, array 0 has 4"},
        {{.arrays = &scalar, .narrays = 1, .batch = 1}, TIDE_E_SHAPE, "array 0 has no axis"},
        {{.arrays = absent, .narrays = 3, .batch = 1}, TIDE_E_INVALID, "no array in the source"},
        {{.arrays = &nowhere, .narrays = 1, .batch = 1},
         TIDE_E_INVALID,
         "array 0: its host memory is NULL"},
        {{.arrays = &there, .narrays = 1, .batch = 1}, TIDE_E_INVALID, "array 0 is on the device"},
        {{.arrays = &negative, .narrays = 1, .batch = 1}, TIDE_E_SHAPE, "array 0: dimension 1"},
        {{.arrays = x, .narrays = 1, .batch = 1, .norder = 3}, TIDE_E_INVALID, "no `order`"},
        {{.arrays = x, .narrays = 1, .batch = 1, .order = good.shape, .norder = -1},
         TIDE_E_INVALID,
         "-1 sample"},
        {{.arrays = &huge, .narrays = 1, .batch = (int64_t)1 << 40}, TIDE_E_HOST_NOMEM, "pinned"},
    };
    tide_batches *b = NULL;
    tide_runtime_figures before = test_stats(rt);
    for (size_t i = 0; i < TIDEI_COUNT(cases); i++) {
        tide_batches_config c = cases[i].c;
        /* a driver says it its own way */
        if (cases[i].status == TIDE_E_HOST_NOMEM && !test_on_host()) continue;
        c.struct_size = sizeof c;
        tide_error_clear();
        assert_int_equal(tide_batches_new(rt, &c, &b), cases[i].status);
        assert_error(cases[i].status, cases[i].part);
        assert_string_equal(tide_error_last()->operation, "tide_batches_new");
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
    tide_runtime_figures now = test_stats(rt);
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
        cmocka_unit_test(batches_begin_again_from_anywhere),
        cmocka_unit_test(in_another_order),
        cmocka_unit_test(data_by_callback),
        cmocka_unit_test(what_is_in_memory),
        cmocka_unit_test(random_trees_come_in_batches),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests_name("batches", tests, NULL, NULL);
}
