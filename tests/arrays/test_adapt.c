/* test_adapt.c: structures of arrays between host and device: types stay, all or nothing, nothing
** leaks. */
#include "tests/arrays/trees.h"

#include <math.h>

struct diagonal {
    int64_t n;
    tide_data diag;
};
static const tide_adapt_field diagonal_fields[] = {TIDE_FIELD(struct diagonal, diag)};
static const tide_adapt_rule diagonal_rule = {
    "Diagonal", sizeof(struct diagonal), diagonal_fields, 1, NULL, NULL};

struct layer {
    float rate;
    tide_data weight, bias;
};
static const tide_adapt_field layer_fields[] = {TIDE_FIELD(struct layer, weight),
                                                TIDE_FIELD(struct layer, bias)};
static const tide_adapt_rule layer_rule = {"layer", sizeof(struct layer), layer_fields, 2, NULL,
                                           NULL};

struct net {
    char name[10];
    struct layer layers[2];
    struct diagonal scale;
    tide_data extra[3];
    int epochs;
};
static const tide_adapt_field net_fields[] = {
    TIDE_FIELD_OF(struct net, layers, struct layer, "layer"),
    TIDE_FIELD_OF(struct net, scale, struct diagonal, "Diagonal"), TIDE_FIELD(struct net, extra)};
static const tide_adapt_rule net_rule = {"net", sizeof(struct net), net_fields, 3, NULL, NULL};

static const char *const collectors[] = {"refcount", "boehm"};
#define EACH_COLLECTOR(c) for (unsigned c = 0; c < 1 + TEST_BOEHM; c++)

static tide_runtime *open_with(const char *collector) {
    tide_runtime *rt = test_open(&(tide_config){.collector = collector, .debug = 1});
    assert_ok(tide_adapt_register(rt, &diagonal_rule, NULL));
    assert_ok(tide_adapt_register(rt, &layer_rule, NULL));
    assert_ok(tide_adapt_register(rt, &net_rule, NULL));
    return rt;
}

/* Nothing of the device's is in use any more. */
static void nothing_left(tide_runtime *rt) {
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.live, 0);
    if (!strcmp(test_rt(rt)->set.collector, "refcount")) assert_int_equal(s.arrays, 0);
}

static void read_back(tide_array *a, void *dst, size_t bytes) {
    assert_ok(tide_to_host(a, dst, bytes));
}

/* ---- a type stays what it is ---- */

static const double numbers[] = {1.5, -2, 1e300, 4};

static void a_diagonal_stays_one(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        struct diagonal cpu = {4, tide_data_host(TIDE_F64, SHAPE(4), numbers)}, gpu, back;
        assert_ok(tide_adapt(rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &gpu));
        assert_int_equal(gpu.n, 4);
        assert_non_null(gpu.diag.array);
        assert_null(gpu.diag.host);
        assert_int_equal(gpu.diag.dtype, TIDE_F64);
        assert_int_equal(gpu.diag.ndim, 1);
        assert_int_equal(gpu.diag.shape[0], 4);
        assert_int_equal(tide_array_dtype(gpu.diag.array), TIDE_F64);
        double got[4];
        read_back(gpu.diag.array, got, sizeof got);
        assert_memory_equal(got, numbers, sizeof got);
        assert_ok(tide_adapt(rt, "Diagonal", &gpu, TIDE_ADAPT_HOST, &back));
        assert_null(back.diag.array);
        assert_int_equal(back.n, 4);
        assert_memory_equal(back.diag.host, numbers, sizeof numbers);
        assert_true(back.diag.host != cpu.diag.host);
        tide_adapt_release(rt, "Diagonal", &back);
        assert_null(back.diag.host);
        tide_adapt_release(rt, "Diagonal", &back); /* twice */
        tide_adapt_release(rt, "Diagonal", &gpu);
        assert_null(gpu.diag.array);
        assert_int_equal(gpu.n, 4);
        nothing_left(rt);
        tide_close(rt);
    }
}

static void numbers_narrow_only_where_allowed(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        static const double pair[] = {0.1, 1e-60};
        static const int32_t whole[] = {7, 8};
        struct layer cpu = {0.5f, tide_data_host(TIDE_F64, SHAPE(4), numbers),
                            tide_data_host(TIDE_C128, 0, NULL, pair)};
        struct layer gpu, wide, again;
        assert_ok(tide_adapt(rt, "layer", &cpu, TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW, &gpu));
        float got[4];
        assert_int_equal(gpu.weight.dtype, TIDE_F32);
        assert_int_equal(tide_array_dtype(gpu.bias.array), TIDE_C64);
        read_back(gpu.weight.array, got, sizeof got);
        assert_true(got[0] == 1.5f && got[1] == -2 && isinf(got[2]) && got[3] == 4);
        read_back(gpu.bias.array, got, 8);
        assert_true(got[0] == 0.1f && got[1] == 0);
        /* What is on the device is narrowed there; what is no wide float stays. */
        cpu.bias = tide_data_host(TIDE_I32, SHAPE(2), whole);
        assert_ok(tide_adapt(rt, "layer", &cpu, TIDE_ADAPT_DEVICE, &wide));
        assert_ok(tide_adapt(rt, "layer", &wide, TIDE_ADAPT_DEVICE | TIDE_ADAPT_NARROW, &again));
        assert_int_equal(again.weight.dtype, TIDE_F32);
        assert_int_equal(again.bias.dtype, TIDE_I32);
        read_back(again.weight.array, got, sizeof got);
        assert_true(got[0] == 1.5f && isinf(got[2]));
        tide_adapt_release(rt, "layer", &gpu);
        tide_adapt_release(rt, "layer", &wide);
        tide_adapt_release(rt, "layer", &again);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* A copy of what is there already is a view with a life of its own. */
static void on_the_device_already(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        struct diagonal cpu = {4, tide_data_host(TIDE_F64, SHAPE(4), numbers)}, gpu, view;
        assert_ok(tide_adapt(rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &gpu));
        size_t live = test_stats(rt).live;
        assert_ok(tide_adapt(rt, "Diagonal", &gpu, TIDE_ADAPT_DEVICE, &view));
        assert_int_equal(test_stats(rt).live, live);
        assert_ok(tide_fill(gpu.diag.array, tide_arg_int(9)));
        tide_adapt_release(rt, "Diagonal", &gpu);
        assert_int_equal(test_stats(rt).live, live);
        double got[4];
        read_back(view.diag.array, got, sizeof got);
        assert_true(got[0] == 9 && got[3] == 9);
        tide_adapt_release(rt, "Diagonal", &view);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* Structures in structures, arrays of both, and what is absent. */
static void structures_nest(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        static const float w[2][6] = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}};
        struct net cpu = {.name = "small", .epochs = 3}, gpu;
        for (int i = 0; i < 2; i++)
            cpu.layers[i] =
                (struct layer){(float)i, tide_data_host(TIDE_F32, SHAPE(2, 3), w[i]), {0}};
        cpu.scale = (struct diagonal){4, tide_data_host(TIDE_F64, SHAPE(4), numbers)};
        cpu.extra[1] = tide_data_host(TIDE_F32, SHAPE(0, 3), NULL);
        assert_ok(tide_adapt(rt, "net", &cpu, TIDE_ADAPT_DEVICE, &gpu));
        assert_string_equal(gpu.name, "small");
        assert_int_equal(gpu.epochs, 3);
        for (int i = 0; i < 2; i++) {
            float got[6];
            read_back(gpu.layers[i].weight.array, got, sizeof got);
            assert_memory_equal(got, w[i], sizeof got);
            assert_null(gpu.layers[i].bias.array);
            assert_true(gpu.layers[i].rate == (float)i);
        }
        assert_int_equal(tide_array_dim(gpu.layers[1].weight.array, 1), 3);
        assert_int_equal(gpu.scale.n, 4);
        assert_non_null(gpu.scale.diag.array);
        assert_null(gpu.extra[0].array);
        assert_int_equal(tide_array_size(gpu.extra[1].array), 0);
        tide_adapt_release(rt, "net", &gpu);
        nothing_left(rt);
        tide_close(rt);
    }
}

/* ---- who keeps what ---- */

static void a_scope_takes_them(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    struct diagonal cpu = {4, tide_data_host(TIDE_F64, SHAPE(4), numbers)}, gpu, kept;
    assert_ok(tide_scope_begin(rt));
    assert_ok(tide_adapt(rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &gpu));
    assert_ok(tide_adapt(rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &kept));
    tide_scope_keep(kept.diag.array);
    assert_ok(tide_scope_end(rt));
    assert_int_equal(test_stats(rt).arrays, 1);
    tide_adapt_release(rt, "Diagonal", &kept);
    nothing_left(rt);
    tide_close(rt);
}

/* One that somebody retained outlives the structure, under every collector. */
static void a_retained_one_stays(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        struct diagonal cpu = {4, tide_data_host(TIDE_F64, SHAPE(4), numbers)}, gpu;
        assert_ok(tide_adapt(rt, "Diagonal", &cpu, TIDE_ADAPT_DEVICE, &gpu));
        tide_array *a = tide_retain(gpu.diag.array);
        tide_adapt_release(rt, "Diagonal", &gpu);
        double got[4];
        read_back(a, got, sizeof got);
        assert_memory_equal(got, numbers, sizeof got);
        tide_free(a);
        tide_release(a);
        nothing_left(rt);
        tide_close(rt);
    }
}

static unsigned asked;
static tide_status collect_then(void *user, void *copy, const void *from, unsigned how) {
    const struct net *x = copy, *y = from;
    asked++;
    assert_int_equal(how, TIDE_ADAPT_DEVICE);
    assert_non_null(x->layers[0].weight.array);
    assert_null(y->layers[0].weight.array);
    ((struct net *)copy)->epochs = 77;
    assert_ok(tide_collect(*(tide_runtime **)user));
    for (int i = 0; i < 40; i++) /* whatever the collection freed is used again */
        tide_free(tide_ones(*(tide_runtime **)user, TIDE_F32, SHAPE(6)));
    return x->name[0] == 'f' ? TIDE_E_IO : TIDE_OK;
}

/* A collection in the middle of a move finds nothing; and what the callback refuses never was. */
static void a_callback_meets_collections_and_may_refuse(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        static const float w[6] = {1, 2, 3, 4, 5, 6};
        tide_adapt_rule own = net_rule;
        own.type = "own net";
        own.moved = collect_then;
        own.user = &rt;
        assert_ok(tide_adapt_register(rt, &own, NULL));
        struct net cpu = {.name = "good", .epochs = 3}, *gpu = malloc(sizeof *gpu), before;
        memset(gpu, 1, sizeof *gpu);
        before = *gpu;
        for (int i = 0; i < 2; i++) cpu.layers[i].weight = tide_data_host(TIDE_F32, SHAPE(6), w);
        strcpy(cpu.name, "fails");
        asked = 0;
        assert_int_equal(tide_adapt(rt, "own net", &cpu, TIDE_ADAPT_DEVICE, gpu), TIDE_E_IO);
        assert_error(TIDE_E_IO, "callback returned TIDE_E_IO");
        assert_string_equal(tide_error_last()->operation, "tide_adapt");
        assert_memory_equal(gpu, &before, sizeof before);
        nothing_left(rt);
        strcpy(cpu.name, "good");
        struct net here;
        assert_ok(tide_adapt(rt, "own net", &cpu, TIDE_ADAPT_DEVICE, &here));
        assert_int_equal(asked, 2);
        assert_int_equal(here.epochs, 77);
        assert_int_equal(cpu.epochs, 3);
        for (int i = 0; i < 2; i++) {
            float got[6];
            read_back(here.layers[i].weight.array, got, sizeof got);
            assert_memory_equal(got, w, sizeof w);
        }
        tide_adapt_release(rt, "own net", &here);
        nothing_left(rt);
        free(gpu);
        tide_close(rt);
    }
}

/* ---- what is refused ---- */

#define refused(status, part, call)                                                                \
    do {                                                                                           \
        tide_error_clear();                                                                        \
        assert_int_equal(call, status);                                                            \
        assert_error(status, part);                                                                \
    } while (0)

static void rules_that_are_refused(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    struct net x = {0}, y;
    tide_adapt_field fields[] = {{"f", NULL, 0, 1}, {"g", "layer", 8, 1}};
    tide_adapt_rule r = {"r", sizeof(tide_data), fields, 2, NULL, NULL};
    refused(TIDE_E_INVALID, "\"Diagonal\" is registered already",
            tide_adapt_register(rt, &diagonal_rule, NULL));
    refused(TIDE_E_INVALID, "NULL", tide_adapt_register(rt, NULL, NULL));
    refused(TIDE_E_INVALID, "NULL", tide_adapt_register(NULL, &r, NULL));
    r.bytes--;
    refused(TIDE_E_INVALID, "field f of \"r\" ends beyond", tide_adapt_register(rt, &r, NULL));
    r.bytes++;
    fields[0].count = SIZE_MAX / 8;
    refused(TIDE_E_INVALID, "field f of \"r\" ends beyond", tide_adapt_register(rt, &r, NULL));
    fields[0].count = 0;
    refused(TIDE_E_INVALID, "count of 0", tide_adapt_register(rt, &r, NULL));
    fields[0].count = 1;
    uint64_t id = 0, other = 0;
    assert_ok(tide_adapt_register(rt, &r, &id));
    refused(TIDE_E_INVALID, "registered already", tide_adapt_register(rt, &r, &other));
    assert_true(id != 0 && other == 0);
    refused(TIDE_E_INVALID, "g has no room for", tide_adapt(rt, "r", &x, TIDE_ADAPT_DEVICE, &y));
    fields[1].type = "r"; /* itself */
    fields[1].offset = 0;
    refused(TIDE_E_INVALID, "more than 16 structures deep",
            tide_adapt(rt, "r", &x, TIDE_ADAPT_DEVICE, &y));
    fields[1].type = "nobody's";
    refused(TIDE_E_INVALID, "type \"nobody's\" of g",
            tide_adapt(rt, "r", &x, TIDE_ADAPT_DEVICE, &y));
    refused(TIDE_E_INVALID, "type \"Triagonal\"",
            tide_adapt(rt, "Triagonal", &x, TIDE_ADAPT_DEVICE, &y));
    assert_ok(tide_adapt_unregister(rt, id));
    refused(TIDE_E_INVALID, "no rule", tide_adapt_unregister(rt, id));
    refused(TIDE_E_INVALID, "no rule 0", tide_adapt_unregister(rt, 0));
    refused(TIDE_E_INVALID, "NULL", tide_adapt_unregister(NULL, id));
    refused(TIDE_E_INVALID, "type \"r\"", tide_adapt(rt, "r", &x, TIDE_ADAPT_DEVICE, &y));
    assert_ok(tide_adapt_register(rt, &r, &other)); /* the same rule gets another id */
    assert_true(other != 0 && other != id);
    tide_close(rt);
}

/* Two rules that each hold the other many times over end too. */
static void endless_rules_end(void **state) {
    (void)state;
    tide_runtime *rt = open_with("refcount");
    char x[4096], y[4096];
    tide_adapt_field fields[] = {
        {"a", "r", 0, 1}, {"b", "r", 0, 1}, {"c", "r", 0, 1}, {"d", "r", 0, 1}};
    tide_adapt_rule r = {"r", sizeof x, fields, 4, NULL, NULL};
    assert_ok(tide_adapt_register(rt, &r, NULL));
    assert_int_equal(tide_adapt(rt, "r", x, TIDE_ADAPT_DEVICE, y), TIDE_E_INVALID);
    tide_adapt_field wide[] = {{"w", "one", 0, 4096}, {"v", "one", 0, 4096}};
    tide_adapt_rule one = {"one", 1, NULL, 0, NULL, NULL},
                    many = {"many", sizeof x, wide, 2, NULL, NULL};
    tide_adapt_field wider[20];
    for (int i = 0; i < 20; i++) wider[i] = (tide_adapt_field){"u", "many", 0, 1};
    tide_adapt_rule more = {"more", sizeof x, wider, 20, NULL, NULL};
    assert_ok(tide_adapt_register(rt, &one, NULL));
    assert_ok(tide_adapt_register(rt, &many, NULL));
    assert_ok(tide_adapt_register(rt, &more, NULL));
    assert_ok(tide_adapt(rt, "many", x, TIDE_ADAPT_DEVICE, y));
    refused(TIDE_E_INVALID, "more than 65536", tide_adapt(rt, "more", x, TIDE_ADAPT_DEVICE, y));
    tide_close(rt);
}

static void data_that_is_refused(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]), *other = open_with(collectors[c]);
        static const float w[6] = {1, 2, 3, 4, 5, 6};
        struct net x = {0}, y, before;
        memset(&y, 7, sizeof y);
        before = y;
        for (int i = 0; i < 2; i++) x.layers[i].weight = tide_data_host(TIDE_F32, SHAPE(6), w);
        static const unsigned wrong[] = {0, TIDE_ADAPT_NARROW, TIDE_ADAPT_HOST | TIDE_ADAPT_DEVICE,
                                         8, TIDE_ADAPT_HOST | TIDE_ADAPT_NARROW};
        for (size_t i = 0; i < TIDEI_COUNT(wrong); i++)
            refused(TIDE_E_INVALID, "how is", tide_adapt(rt, "net", &x, wrong[i], &y));
        refused(TIDE_E_INVALID, "NULL", tide_adapt(rt, "net", NULL, TIDE_ADAPT_DEVICE, &y));
        refused(TIDE_E_INVALID, "NULL", tide_adapt(rt, "net", &x, TIDE_ADAPT_DEVICE, NULL));
        refused(TIDE_E_INVALID, "NULL", tide_adapt(rt, NULL, &x, TIDE_ADAPT_DEVICE, &y));
        refused(TIDE_E_INVALID, "NULL", tide_adapt(NULL, "net", &x, TIDE_ADAPT_DEVICE, &y));
        for (unsigned how = TIDE_ADAPT_DEVICE; how <= TIDE_ADAPT_HOST; how++) {
            x.extra[2] = tide_data_host(TIDE_F32, SHAPE(2), NULL);
            refused(TIDE_E_INVALID, "extra[2]: its host memory is NULL",
                    tide_adapt(rt, "net", &x, how, &y));
            x.extra[2] = tide_data_host(TIDE_F32, SHAPE(-2), w);
            refused(TIDE_E_SHAPE, "extra[2]: dimension 0", tide_adapt(rt, "net", &x, how, &y));
            x.extra[2] = tide_data_host(99, SHAPE(2), w);
            refused(TIDE_E_INVALID, "extra[2]: 99 is no element type",
                    tide_adapt(rt, "net", &x, how, &y));
            x.extra[2] = tide_data_host(TIDE_F32, 9, NULL, w);
            refused(TIDE_E_SHAPE, "extra[2]: an array has 0 to 8",
                    tide_adapt(rt, "net", &x, how, &y));
            tide_array *gone = tide_retain(tide_ones(rt, TIDE_F32, 0, NULL));
            x.extra[2] = tide_data_array(gone);
            tide_free(gone);
            refused(TIDE_E_FREED, "", tide_adapt(rt, "net", &x, how, &y));
            tide_release(gone);
            tide_array *theirs = tide_ones(other, TIDE_F32, 0, NULL);
            x.extra[2] = tide_data_array(theirs);
            refused(TIDE_E_INVALID, "another runtime", tide_adapt(rt, "net", &x, how, &y));
            x.extra[2] = (tide_data){0};
        }
        assert_memory_equal(&y, &before, sizeof y);
        assert_int_equal(test_stats(rt).live, 0);
        tide_adapt_release(rt, "net", NULL);
        tide_adapt_release(NULL, "net", &y);
        tide_error_clear();
        assert_null(tide_data_array(NULL).array);
        assert_error(TIDE_E_INVALID, "NULL");
        tide_close(rt);
        tide_close(other);
    }
}

/* ---- against the slow model ---- */

static void same_elements(const tide_data *was, tide_dtype to, const void *got) {
    size_t size = tide_dtype_size(to);
    for (int64_t i = 0; i < tree_size(was); i++) {
        unsigned char wanted[16];
        tree_expect(was->dtype, to, tree_element(was, i), wanted);
        assert_memory_equal((const char *)got + (size_t)i * size, wanted, size);
    }
}

static void one_tree(tide_runtime *rt, const tree *t, bool narrow) {
    const char *type = tree_top(t)->type;
    size_t bytes = tree_top(t)->bytes;
    void *gpu = malloc(bytes), *back = malloc(bytes), *host = malloc(bytes);
    assert_ok(tide_scope_begin(rt));
    tide_array *roots[TREE_LEAVES]; /* the structure is where no collector looks */
    assert_ok(
        tide_adapt(rt, type, t->x, TIDE_ADAPT_DEVICE | (narrow ? TIDE_ADAPT_NARROW : 0), gpu));
    for (size_t i = 0; i < t->nleaves; i++) roots[i] = tree_data(gpu, t->offsets[i]).array;
    assert_ok(tide_adapt(rt, type, gpu, TIDE_ADAPT_HOST, back));
    assert_ok(tide_adapt(rt, type, t->x, TIDE_ADAPT_HOST, host));
    tree_same_rest(t, gpu);
    tree_same_rest(t, back);
    for (size_t i = 0; i < t->nleaves; i++) {
        tide_data was = tree_data(t->x, t->offsets[i]), b = tree_data(back, t->offsets[i]),
                  h = tree_data(host, t->offsets[i]);
        assert_ptr_equal(roots[i], tree_data(gpu, t->offsets[i]).array);
        assert_int_equal(tidei_data_absent(&was), roots[i] == NULL);
        if (!roots[i]) continue;
        assert_int_equal(b.dtype, narrow ? tidei_narrowed(was.dtype) : was.dtype);
        assert_int_equal(b.ndim, was.ndim);
        assert_memory_equal(b.shape, was.shape, sizeof b.shape);
        same_elements(&was, b.dtype, b.host);
        same_elements(&was, h.dtype, h.host);
    }
    tide_adapt_release(rt, type, back);
    tide_adapt_release(rt, type, host);
    for (size_t i = 0; i < t->nleaves; i++) tide_free(roots[i]);
    assert_ok(tide_scope_end(rt));
    free(gpu);
    free(back);
    free(host);
}

static void random_trees_keep_their_elements(void **state) {
    (void)state;
    EACH_COLLECTOR(c) {
        tide_runtime *rt = open_with(collectors[c]);
        for (int round = 0; round < (test_quick() ? 20 : 100); round++) {
            tree_seed = (uint64_t)round + 1;
            tree *t = tree_new(rt, -1);
            one_tree(rt, t, round % 2);
            assert_int_equal(test_stats(rt).live, 0);
            tree_free(rt, t);
        }
        tide_close(rt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diagonal_stays_one),
        cmocka_unit_test(numbers_narrow_only_where_allowed),
        cmocka_unit_test(on_the_device_already),
        cmocka_unit_test(structures_nest),
        cmocka_unit_test(a_scope_takes_them),
        cmocka_unit_test(a_retained_one_stays),
        cmocka_unit_test(a_callback_meets_collections_and_may_refuse),
        cmocka_unit_test(rules_that_are_refused),
        cmocka_unit_test(endless_rules_end),
        cmocka_unit_test(data_that_is_refused),
        cmocka_unit_test(random_trees_keep_their_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
