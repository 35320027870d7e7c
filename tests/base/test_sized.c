/* test_sized.c: structs that say their own size. An older caller's ends where a field of today's
** ends, or where an older sizeof ended behind it; a size that ends inside a field is refused, and
** nothing beyond the size is looked at or written.
**
** The fields, and so the sizes, are read from the public headers: a field that the library forgets
** to know the end of is found here. */
#include <ctype.h>
#include <tide/array.h>
#include <tide/batches.h>
#include <tide/collector.h>
#include <tide/graph.h>
#include <tide/memory.h>
#include <tide/policy.h>
#include <tide/pool.h>
#include <tide/reclaim.h>
#include "tests/support/clean_environment.h"

#define STRUCT_MAX 4096

/* ---- the structs, as the headers have them ---- */

struct layout {
    size_t ends[64];
    unsigned n;
    size_t bytes; /* by the rules of C, with padding */
};

/* A header without its comments. */
static char *read_header(const char *name) {
    static char text[1 << 17];
    char path[600];
    snprintf(path, sizeof path, "%s/include/tide/%s", getenv("TIDE_TEST_SOURCE"), name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s: %s", path, "cannot be opened");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    for (char *from; (from = strstr(text, "/*"));) {
        const char *to = strstr(from, "*/");
        assert_non_null(to);
        memmove(from, to + 2, strlen(to + 2) + 1);
    }
    return text;
}

/* What a field of that type takes; its alignment is that of its parts. */
static size_t size_of_type(const char *type, size_t *align) {
    static const struct {
        const char *name;
        size_t bytes, align;
    } types[] = {{"size_t", 8, 8},
                 {"int", 4, 4},
                 {"int32_t", 4, 4},
                 {"uint32_t", 4, 4},
                 {"int64_t", 8, 8},
                 {"uint64_t", 8, 8},
                 {"tide_log_fn", 8, 8},
                 {"tide_batches_fill", 8, 8},
                 {"tide_kind_figures", sizeof(tide_kind_figures), 8},
                 {"tide_pool_class", sizeof(tide_pool_class), 8}};
    for (size_t i = 0; i < TIDEI_COUNT(types); i++)
        if (!strcmp(type, types[i].name)) return *align = types[i].align, types[i].bytes;
    fail_msg("a field of type %s: this test does not know how large that is", type);
    return 0;
}

static void add_field(struct layout *x, size_t bytes, size_t align, size_t times) {
    size_t from = x->n ? tidei_round_up(x->ends[x->n - 1], align) : 0;
    assert_true(x->n < TIDEI_COUNT(x->ends));
    x->ends[x->n++] = from + bytes * times;
}

/* "size_t peak_live, peak_backed", "const char *name", "int (*collect)(void *self, int level)". */
static void read_fields(struct layout *x, char *declaration) {
    char type[64] = "";
    if (strstr(declaration, "(*")) {
        add_field(x, sizeof(void *), sizeof(void *), 1);
        return;
    }
    for (char *rest = NULL, *one = strtok_r(declaration, ",", &rest); one;
         one = strtok_r(NULL, ",", &rest)) {
        size_t align = sizeof(void *),
               times = strstr(one, "[TIDE_POOL_CLASSES]") ? TIDE_POOL_CLASSES : 1;
        char first[64], second[64];
        assert_true(times > 1 || !strchr(one, '['));
        int words = sscanf(one, " %63[A-Za-z0-9_] %63[A-Za-z0-9_]", first, second);
        if (!*type && words >= 1) strcpy(type, first);
        size_t bytes = strchr(one, '*') ? sizeof(void *) : size_of_type(type, &align);
        add_field(x, bytes, align, times);
    }
}

static struct layout layout_of(const char *header, const char *name) {
    struct layout x = {.n = 0};
    char opening[80], *text = read_header(header);
    snprintf(opening, sizeof opening, "typedef struct %s {", name);
    char *from = strstr(text, opening), *to = from ? strchr(from, '}') : NULL;
    if (!to) fail_msg("%s has no %s", header, name);
    *to = 0;
    for (char *rest = NULL, *d = strtok_r(from + strlen(opening), ";", &rest); d;
         d = strtok_r(NULL, ";", &rest)) {
        while (isspace((unsigned char)*d)) d++;
        if (*d) read_fields(&x, d);
    }
    x.bytes = tidei_round_up(x.ends[x.n - 1], sizeof(size_t));
    return x;
}

static bool ends_at(const struct layout *x, size_t bytes) {
    for (unsigned i = 0; i < x->n; i++)
        if (x->ends[i] == bytes || tidei_round_up(x->ends[i], sizeof(size_t)) == bytes) return true;
    return false;
}

/* ---- the functions that take them ---- */

static tide_runtime *rt;

static tide_status call_open(void *x) {
    tide_runtime *opened = NULL;
    tide_status status = tide_open(x, &opened);
    tide_close(opened);
    return status;
}
static tide_status call_stats(void *x) { return tide_runtime_info(rt, x); }
static tide_status call_device_info(void *x) { return tide_device_info(rt, x); }
static tide_status call_pool_stats(void *x) { return tide_pool_info(tide_pool_default(rt), x); }
static tide_status call_pool_new(void *x) {
    tide_pool *pool = NULL;
    tide_status status = tide_pool_new(rt, x, &pool);
    tide_pool_release(pool);
    return status;
}
static tide_status call_register(void *x) {
    uint64_t id;
    tide_status status = tide_reclaimable_register(rt, x, &id);
    return status == TIDE_OK ? tide_reclaimable_unregister(rt, id) : status;
}
static tide_status call_attach(void *x) {
    uint64_t id;
    tide_status status = tide_collector_register(rt, x, &id);
    return status == TIDE_OK ? tide_collector_unregister(rt, id) : status;
}
static tide_status call_batches(void *x) {
    tide_batches *b = NULL;
    tide_status status = tide_batches_new(rt, x, &b);
    tide_batches_release(b);
    return status;
}

static tide_status call_text(void *x) {
    tide_array *a = tide_ones(rt, TIDE_F32, 0, NULL);
    size_t n = tide_array_text_with(a, x, NULL, 0);
    tide_release(a);
    return n ? TIDE_OK : tide_error_last()->status;
}
static tide_status no_work(void *user, const tide_arg *args, size_t n, tide_array **outs,
                           size_t m) {
    return (void)user, (void)args, (void)n, (void)outs, (void)m, TIDE_OK;
}
static tide_status call_graph_info(void *x) {
    tide_graph *g = tide_graph_new(rt, no_work, NULL);
    tide_status s = g ? tide_graph_info(g, x) : tide_error_last()->status;
    tide_graph_release(g);
    return s;
}
static tide_status call_policy(void *x) { return tide_policy_register(x); }

static int collect(void *self, int level) { return (void)self, (void)level, TIDE_COLLECT_DONE; }
static tide_status purge(void *user, int device, size_t wanted, size_t *given) {
    return (void)user, (void)device, (void)wanted, (void)given, TIDE_OK;
}
static void decide(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    (void)user, (void)state, (void)now, (void)out;
}

static const tide_config config = {.struct_size = 0};
static const tide_runtime_figures statistics = {.struct_size = 0};
static const tide_device_figures memory = {.struct_size = 0};
static const tide_pool_figures pool_statistics = {.struct_size = 0};
static const tide_pool_config pool_config = {.struct_size = 0};
static const tide_reclaimable reclaimable = {.name = "a cache", .purge = purge};
static const tide_collector collector = {.collect = collect};
static const tide_policy policy = {.name = "sized", .decide = decide};
static const tide_print_options print_options = {.struct_size = 0};
static const tide_graph_figures graph_figures = {.struct_size = 0};
static const tide_batches_config batches = {.struct_size = 0};

static const struct sized {
    const char *header, *name;
    tide_status (*call)(void *x);
    const void *filled;
    size_t bytes, least;
    bool written;    /* the function fills it in */
    tide_status bad; /* what may go wrong with what is accepted: it lacks fields */
} structs[] = {
    {"runtime.h", "tide_config", call_open, &config, sizeof config, 8, false, TIDE_OK},
    {"runtime.h", "tide_runtime_figures", call_stats, &statistics, sizeof statistics, 8, true,
     TIDE_OK},
    {"device.h", "tide_device_figures", call_device_info, &memory, sizeof memory, 8, true, TIDE_OK},
    {"pool.h", "tide_pool_figures", call_pool_stats, &pool_statistics, sizeof pool_statistics, 8,
     true, TIDE_OK},
    {"pool.h", "tide_pool_config", call_pool_new, &pool_config, sizeof pool_config, 8, false,
     TIDE_OK},
    {"reclaim.h", "tide_reclaimable", call_register, &reclaimable, sizeof reclaimable, 8, false,
     TIDE_E_INVALID},
    {"collector.h", "tide_collector", call_attach, &collector, sizeof collector,
     offsetof(tide_collector, may_collect), false, TIDE_OK},
    {"policy.h", "tide_policy", call_policy, &policy, sizeof policy, offsetof(tide_policy, observe),
     false, TIDE_E_INVALID}, /* it is there already */
    {"graph.h", "tide_graph_figures", call_graph_info, &graph_figures, sizeof graph_figures, 8,
     true, TIDE_OK},
    {"array.h", "tide_print_options", call_text, &print_options, sizeof print_options, 8, false,
     TIDE_OK},
    {"batches.h", "tide_batches_config", call_batches, &batches, sizeof batches, 8, false,
     TIDE_E_INVALID},
};

/* One size: in memory of just that size, which a sanitizer watches, and before bytes that stay as
** they are. */
static void try_size(const struct sized *s, const struct layout *x, size_t bytes) {
    unsigned char *room = malloc(s->bytes + 64), said[64];
    bool right = bytes >= s->least && ends_at(x, bytes);
    memset(room, 0xA5, s->bytes + 64);
    memcpy(room, s->filled, tidei_min_size(bytes, s->bytes));
    memcpy(room, &bytes, sizeof bytes);
    tide_error_clear();
    tide_status status = s->call(room);
    bool refused = strstr(tide_error_last()->message, "struct_size") != NULL;
    if (refused == right)
        fail_msg("%s of %zu bytes: %s", s->name, bytes, tide_error_last()->message);
    if (refused) {
        assert_int_equal(status, TIDE_E_INVALID);
        snprintf((char *)said, sizeof said, "%s.struct_size is %zu", s->name, bytes);
        assert_error(TIDE_E_INVALID, (char *)said);
        snprintf((char *)said, sizeof said, "%zu", s->bytes); /* what is wanted */
        assert_error(TIDE_E_INVALID, (char *)said);
    } else if (status != TIDE_OK) {
        assert_int_equal(status, s->bad);
    }
    size_t same = refused || !s->written
                      ? tidei_max_size(sizeof bytes, tidei_min_size(bytes, s->bytes))
                      : bytes;
    for (size_t i = same; i < s->bytes + 64; i++) assert_int_equal(room[i], 0xA5);
    free(room);
    if (bytes < sizeof bytes || bytes > s->bytes) return;
    unsigned char *exact = malloc(bytes);
    memcpy(exact, s->filled, bytes);
    memcpy(exact, &bytes, sizeof bytes);
    (void)!s->call(exact);
    free(exact);
}

static void sizes_end_with_fields(void **state) {
    const struct sized *s = *state;
    struct layout x = layout_of(s->header, s->name);
    assert_int_equal(x.bytes, s->bytes);
    assert_true(x.n >= 5);
    for (size_t bytes = 0; bytes <= s->bytes + 8; bytes++) try_size(s, &x, bytes);
    try_size(s, &x, SIZE_MAX);
    assert_true(s->bytes <= STRUCT_MAX);
}

static int setup(void **state) {
    (void)state;
    clear_environment();
    setenv("TIDE_DEVICE", test_device(), 1);
    setenv("TIDE_COLLECTOR", "refcount", 1);
    setenv("TIDE_HOST_DEVICE_MEMORY", "16MiB", 1);
    rt = test_open(NULL);
    return 0;
}
static int teardown(void **state) {
    tide_close(rt);
    return restore_environment(state);
}

int main(void) {
    static struct CMUnitTest tests[TIDEI_COUNT(structs)];
    for (size_t i = 0; i < TIDEI_COUNT(structs); i++)
        tests[i] = (struct CMUnitTest){structs[i].name, sizes_end_with_fields, setup, teardown,
                                       (void *)(uintptr_t)&structs[i]};
    return _cmocka_run_group_tests("sized", tests, TIDEI_COUNT(tests), NULL, NULL);
}
