/* leaver.h: a runtime all of whose callbacks are the test's, work that makes it call them, and
** leaving the n-th call of one of them by longjmp, as an interpreter's error would. */
#ifndef TIDETEST_LEAVER_H
#define TIDETEST_LEAVER_H

#include "tests/doubles/counted_host.h"
#include "tests/support/tidetest.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { /* callbacks */
       LEAVE_COLLECT,
       LEAVE_MAY_COLLECT,
       LEAVE_PRESSURE,
       LEAVE_BLOCKING,
       LEAVE_DETACH,
       LEAVE_PURGE,
       LEAVE_DROP,
       LEAVE_BYTES,
       LEAVE_FILL,
       LEAVE_MOVED,
       LEAVE_GRAPH,
       LEAVE_DEATH,
       LEAVE_DECIDE,
       LEAVE_OBSERVE,
       LEAVE_LOG, /* it and what follows are never left */
       LEAVE_KINDS,
       LEAVE_NONE = LEAVE_KINDS
};
static const char *const leave_texts[LEAVE_KINDS] = {"collect of the collector \"host\"",
                                                     "may_collect of the collector \"host\"",
                                                     "pressure of the collector \"host\"",
                                                     "blocking of the collector \"host\"",
                                                     "detach of the collector \"host\"",
                                                     "purge of the reclaimable \"cache\"",
                                                     "drop of the reclaimable \"cache\"",
                                                     "bytes of the reclaimable \"cache\"",
                                                     "fill of tide_batches",
                                                     "moved of tide_adapt",
                                                     "the function of a graph",
                                                     "a callback of tide_array_on_death",
                                                     "decide of the policy \"leaver\"",
                                                     "observe of the policy \"leaver\"",
                                                     "the log's callback"};

#define LEAVE_SLOTS 12
static struct leaver {
    tide_runtime *rt;
    uint64_t id;
    /* what is left, and where to */
    int kind;
    unsigned at, calls[LEAVE_KINDS + 1];
    bool left, in_graph;
    void (*inside)(int kind); /* (may be NULL) runs in every callback */
    jmp_buf catcher;
    /* the host's heap */
    tide_array *garbage[64];
    unsigned ngarbage;
    tide_array *base, *slot[LEAVE_SLOTS]; /* the base's elements: 0, 1, 2, ... */
    int64_t weight;
    unsigned deaths;
    tide_expr *expr;
    tide_use_scope *scope;
    tide_host_view view;
    tide_batches *batches;
    tide_graph *graph;
    tide_data batch;
    struct leave_pair {
        tide_data a, b;
    } pair;
    char folder[64], path[96];
} L;

#define LEAVE_SIDE  256
#define LEAVE_COUNT (LEAVE_SIDE * LEAVE_SIDE) /* elements of the base: a quarter of a MiB */
static float leave_numbers[LEAVE_COUNT];
static float leave_one[LEAVE_COUNT]; /* the matrix */
static unsigned char leave_bytes[LEAVE_COUNT];

static void leave_called(int kind) {
    L.calls[kind]++;
    if (L.inside) L.inside(kind);
    if (L.kind != kind || L.calls[kind] != L.at) return;
    L.left = true;
    longjmp(L.catcher, 1);
}

/* ---- the callbacks ---- */

static int leave_collect(void *self, int level) {
    (void)self, (void)level;
    for (unsigned half = L.ngarbage / 2; L.ngarbage > half;) tide_release(L.garbage[--L.ngarbage]);
    leave_called(LEAVE_COLLECT); /* in the middle of it */
    while (L.ngarbage) tide_release(L.garbage[--L.ngarbage]);
    return TIDE_COLLECT_DONE;
}
static int leave_may_collect(void *self) { return (void)self, leave_called(LEAVE_MAY_COLLECT), 1; }
static void leave_pressure(void *self, int64_t delta) {
    (void)self;
    L.weight += delta;
    leave_called(LEAVE_PRESSURE);
}
static void leave_blocking(void *self, void (*fn)(void *arg), void *arg) {
    (void)self;
    leave_called(LEAVE_BLOCKING);
    fn(arg);
    leave_called(LEAVE_BLOCKING);
}
static void leave_detach(void *self) { (void)self, leave_called(LEAVE_DETACH); }

static tide_status leave_purge(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    leave_called(LEAVE_PURGE);
    return TIDE_OK;
}
static tide_status leave_drop(void *user, int device, size_t wanted, size_t *given) {
    (void)user, (void)device, (void)wanted, (void)given;
    leave_called(LEAVE_DROP);
    return TIDE_OK;
}
static size_t leave_bytes_held(void *user, int device) {
    (void)user, (void)device;
    leave_called(LEAVE_BYTES);
    return 1000;
}
static tide_status leave_fill(void *user, int64_t first, const int64_t *samples, int64_t n,
                              void *const *out) {
    (void)user, (void)samples;
    leave_called(LEAVE_FILL);
    memcpy(out[0], leave_numbers + first * LEAVE_SIDE, (size_t)n * LEAVE_SIDE * sizeof(float));
    return TIDE_OK;
}
static tide_status leave_moved(void *user, void *copy, const void *from, unsigned how) {
    (void)user, (void)copy, (void)from, (void)how;
    leave_called(LEAVE_MOVED);
    return TIDE_OK;
}
/* (x + base) * 2; what it makes on the way is in the last slot. */
static tide_status leave_graph(void *user, const tide_arg *args, size_t n, tide_array **outs,
                               size_t m) {
    (void)user, (void)n, (void)m;
    L.in_graph = true;
    leave_called(LEAVE_GRAPH);
    tide_array *sum = L.slot[LEAVE_SLOTS - 1] = tide_add(args[0].value.array, L.base);
    leave_called(LEAVE_GRAPH);
    outs[0] = sum ? tide_add(sum, sum) : NULL;
    tide_release(sum);
    L.slot[LEAVE_SLOTS - 1] = NULL;
    L.in_graph = false;
    return outs[0] ? TIDE_OK : tide_error_last()->status;
}
static void leave_death(void *user) {
    (void)user;
    L.deaths++;
    leave_called(LEAVE_DEATH);
}
/* Half of the room, and whatever a sync point offers beyond a quarter. */
static void leave_decide(void *user, void *state, const tide_policy_snapshot *now,
                         tide_policy_decision *out) {
    uint64_t part = now->where == TIDE_POLICY_AT_SYNC ? now->limit / 4 : now->limit / 2;
    (void)user, (void)state;
    leave_called(LEAVE_DECIDE);
    out->level = now->used + now->request > part ? now->level : 0;
    out->reason = "half of the room is used";
}
static void leave_observe(void *user, void *state, const tide_policy_snapshot *before,
                          const tide_policy_snapshot *after, const tide_policy_collection *c) {
    (void)user, (void)state, (void)before, (void)after, (void)c;
    leave_called(LEAVE_OBSERVE);
}
static void leave_register_policy(void) {
    static bool registered;
    const tide_policy p = {.struct_size = sizeof p,
                           .name = "leaver",
                           .state_bytes = 100,
                           .decide = leave_decide,
                           .observe = leave_observe};
    if (!registered) assert_ok(tide_policy_register(&p));
    registered = true;
}
static void leave_log(void *user, int level, const char *line) {
    (void)user, (void)level, (void)line;
    L.calls[LEAVE_LOG]++;
    if (L.inside && L.rt) L.inside(LEAVE_LOG);
}

/* ---- opening and closing ---- */

static const tide_adapt_field leave_fields[] = {TIDE_FIELD(struct leave_pair, a),
                                                TIDE_FIELD(struct leave_pair, b)};
static const tide_adapt_rule leave_rule = {
    "pair", sizeof(struct leave_pair), leave_fields, 2, leave_moved, NULL};

/* Eight bases fill it, and all the work is done beside one. */
static void leaver_open(int spill) {
    uint64_t ids[2];
    memset(&L, 0, sizeof L);
    L.kind = LEAVE_NONE;
    for (unsigned i = 0; i < LEAVE_COUNT; i++)
        leave_numbers[i] = (float)i, leave_bytes[i] = (unsigned char)i;
    for (unsigned i = 0; i < LEAVE_SIDE; i++) leave_one[i * (LEAVE_SIDE + 1)] = 1;
    snprintf(L.folder, sizeof L.folder, "/tmp/tide-leave-XXXXXX");
    assert_non_null(mkdtemp(L.folder));
    snprintf(L.path, sizeof L.path, "%s/a.npy", L.folder);
    tide_config c = {.struct_size = sizeof c,
                     .collector = "refcount",
                     .policy = "leaver",
                     .device = "host",
                     .host_devices = 2,
                     .peers = "none",
                     .limit = "2MiB",
                     .spill = spill,
                     .collect_wait = "0",
                     .log = leave_log,
                     .log_level = TIDE_LOG_DEBUG,
                     .allocator = &counted_memory};
    tide_runtime *rt;
    leave_register_policy();
    assert_ok(tide_open(&c, &rt));
    tide_collector t = {.struct_size = sizeof t,
                        .name = "host",
                        .caps = TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_MINOR,
                        .collect = leave_collect,
                        .may_collect = leave_may_collect,
                        .pressure = leave_pressure,
                        .blocking = leave_blocking,
                        .detach = leave_detach};
    assert_ok(tide_collector_register(rt, &t, &L.id));
    tide_reclaimable r = {.struct_size = sizeof r,
                          .name = "cache",
                          .purge = leave_purge,
                          .drop = leave_drop,
                          .bytes = leave_bytes_held};
    for (int i = 0; i < 2; i++) {
        r.dear = i;
        assert_ok(tide_reclaimable_register(rt, &r, &ids[i]));
    }
    assert_ok(tide_adapt_register(rt, &leave_rule, NULL));
    L.base = tide_from_host(rt, TIDE_F32, SHAPE(LEAVE_SIDE, LEAVE_SIDE), leave_numbers);
    assert_array(L.base);
    L.rt = rt;
}

static unsigned files_in(const char *folder) {
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

/* ---- work ---- Each begins with nothing in the slots, and where it is not left everything in them
** is right. */

static tide_array *checked(tide_array *a) {
    if (!a) fail_msg("%s", tide_error_last()->message);
    return a;
}
static void right(tide_status s) {
    if (s != TIDE_OK) fail_msg("%s", tide_error_last()->message);
}

/* So much garbage that what comes next has to have it collected. */
static void litter(void) {
    for (unsigned i = 0; i < 7; i++) {
        tide_array *a = checked(tide_empty(L.rt, TIDE_F32, SHAPE(LEAVE_COUNT)));
        L.garbage[L.ngarbage++] = a;
    }
}

static void work_add(void) {
    litter();
    L.slot[0] = checked(tide_add(L.base, L.base));
    L.slot[1] = checked(tide_add(L.slot[0], L.base));
    float got[3];
    L.slot[2] = checked(tide_slice(L.slot[1], "1, 0:3"));
    right(tide_to_host(L.slot[2], got, sizeof got));
    for (int i = 0; i < 3; i++) assert_true(got[i] == 3 * (float)(LEAVE_SIDE + i));
}
static void work_results(void) {
    tide_arg args[] = {tide_arg_array(L.base)};
    tide_array *made[3] = {NULL};
    litter();
    L.expr = tide_expr_new(L.rt, "(x) -> (x + 1, x * 2, sum(x, axis=0))");
    assert_non_null(L.expr);
    right(tide_expr_apply_many(L.expr, args, 1, made, 3));
    for (int i = 0; i < 3; i++) L.slot[i] = made[i];
}
static void work_concat(void) {
    tide_array *const parts[] = {L.base, L.base, L.base};
    litter();
    L.slot[0] = checked(tide_concat(parts, 3, 0));
    assert_int_equal(tide_array_dim(L.slot[0], 0), 3 * LEAVE_SIDE);
}
static void work_linalg(void) {
    litter();
    L.slot[0] = checked(tide_from_host(L.rt, TIDE_F32, SHAPE(LEAVE_SIDE, LEAVE_SIDE), leave_one));
    L.slot[1] = checked(tide_matmul(L.base, L.slot[0]));
    litter();
    L.slot[2] = checked(tide_solve(L.slot[0], L.base));
    tide_array *q = NULL, *r = NULL;
    tide_release(L.slot[1]);
    L.slot[1] = NULL;
    right(tide_qr(L.slot[0], TIDE_REDUCED, &q, &r));
    L.slot[3] = q, L.slot[4] = r;
}
static void work_host(void) {
    static float got[LEAVE_COUNT];
    litter();
    L.slot[0] = checked(tide_from_host(L.rt, TIDE_BOOL, SHAPE(LEAVE_COUNT), leave_bytes));
    L.slot[1] = checked(tide_transpose(L.base, NULL));
    litter();
    right(tide_to_host(L.slot[1], got, sizeof got));
    assert_true(got[1] == LEAVE_SIDE);
    char text[32];
    assert_true(tide_array_text(L.slot[1], text, sizeof text) > 32);
}
static void work_npy(void) {
    litter();
    L.slot[0] = checked(tide_transpose(L.base, NULL));
    right(tide_npy_write(L.slot[0], L.path));
    right(tide_npy_write(L.slot[0], L.path));
    litter();
    L.slot[1] = checked(tide_npy_read(L.rt, L.path));
}
static void work_assign(void) {
    litter();
    L.slot[0] = checked(tide_copy(L.base));
    L.slot[1] = checked(tide_slice(L.slot[0], "1:"));
    L.slot[2] = checked(tide_slice(L.slot[0], ":-1"));
    litter();
    right(tide_assign(L.slot[1], L.slot[2]));
    L.slot[3] = checked(tide_cast(L.slot[0], TIDE_F16));
}
/* What makes arrays for itself on the way. */
static void work_temporaries(void) {
    litter();
    L.slot[0] = checked(tide_diff(L.base, 2, 1));
    litter();
    L.slot[1] = checked(tide_tril(L.base, 0));
    litter();
    L.slot[2] = checked(tide_slice(L.base, "0:16"));
    L.slot[3] = checked(tide_gt(L.slot[2], L.slot[2]));
    const tide_pick mask = tide_pick_array(L.slot[3]);
    litter();
    L.slot[4] = checked(tide_index(L.slot[2], 1, &mask));
    assert_int_equal(tide_array_size(L.slot[4]), 0);
    L.slot[5] = checked(tide_unique_values(L.slot[2]));
    assert_int_equal(tide_array_size(L.slot[5]), 16 * LEAVE_SIDE);
}
static void work_use(void) {
    void *at;
    tide_use use = {L.base, TIDE_READ, 0};
    litter();
    L.slot[0] = checked(tide_add(L.base, L.base));
    right(tide_use_begin(L.rt, NULL, &use, 1, &at, &L.scope));
    tide_use_scope *scope = L.scope;
    L.scope = NULL;
    right(tide_use_end(scope));
}
static void work_view(void) {
    litter();
    L.slot[0] = checked(tide_to_memory(L.base, TIDE_MEMORY_PINNED));
    right(tide_host_view_begin(L.slot[0], TIDE_READ, &L.view));
    assert_true(TIDE_AT(float, &L.view, 1, 1) == LEAVE_SIDE + 1);
    right(tide_host_view_end(&L.view));
}
static void work_batches(void) {
    tide_data source = tide_data_host(TIDE_F32, 2, (int64_t[]){LEAVE_SIDE, LEAVE_SIDE}, NULL);
    tide_batches_config c = {.struct_size = sizeof c,
                             .arrays = &source,
                             .narrays = 1,
                             .batch = LEAVE_SIDE / 4,
                             .fill = leave_fill};
    unsigned n = 0;
    litter();
    right(tide_batches_new(L.rt, &c, &L.batches));
    for (tide_status s; (s = tide_batches_next(L.batches, &L.batch)) != TIDE_END; n++) {
        right(s);
        litter();
    }
    assert_int_equal(n, 4);
}
static void work_adapt(void) {
    struct leave_pair from = {tide_data_host(TIDE_F32, 1, (int64_t[]){LEAVE_COUNT}, leave_numbers),
                              tide_data_array(L.base)},
                      there = {0};
    litter();
    right(tide_adapt(L.rt, "pair", &from, TIDE_ADAPT_DEVICE, &L.pair));
    right(tide_adapt(L.rt, "pair", &L.pair, TIDE_ADAPT_HOST, &there));
    tide_adapt_release(L.rt, "pair", &there);
}
static void work_graph(void) {
    const tide_arg arg = tide_arg_array(L.base);
    L.graph = tide_graph_new(L.rt, leave_graph, NULL);
    assert_non_null(L.graph);
    for (int i = 0; i < 4; i++) {
        litter();
        if (i == 3) right(tide_reclaim(L.rt, TIDE_RECLAIM_DROP, NULL));
        tide_array *got = NULL;
        right(tide_graph_run(L.graph, &arg, 1, &got, 1));
        L.slot[0] = got;
        L.slot[1] = checked(tide_slice(L.slot[0], "1, 1"));
        assert_true(tide_item_f64(L.slot[1]) == 4 * (LEAVE_SIDE + 1));
        for (int k = 0; k < 2; k++) {
            tide_release(L.slot[k]);
            L.slot[k] = NULL;
        }
    }
}
static void work_reclaim(void) {
    for (int level = TIDE_RECLAIM_PURGE; level <= TIDE_RECLAIM_SPILL; level++) {
        litter();
        right(tide_reclaim(L.rt, level, NULL));
    }
    right(tide_device_set_limit(L.rt, 1 << 20));
    right(tide_device_set_limit(L.rt, 2 << 20));
}
static void work_sync(void) {
    litter();
    L.slot[0] = checked(tide_exp(L.base));
    right(tide_synchronize(L.rt, NULL));
    L.slot[1] = checked(tide_exp(L.base));
    right(tide_device_synchronize(L.rt));
    right(tide_collect(L.rt));
    tide_safepoint(L.rt);
}
static void work_devices(void) {
    litter();
    right(tide_device_set(L.rt, 1));
    L.slot[0] = checked(tide_copy(L.base)); /* by way of the host's memory */
    right(tide_device_set(L.rt, 0));
}
static void work_deaths(void) {
    for (int i = 0; i < 4; i++) {
        L.slot[i] = checked(tide_ones(L.rt, TIDE_F32, SHAPE(16)));
        for (int k = 0; k < 3; k++) right(tide_array_on_death(L.slot[i], leave_death, NULL));
    }
    for (int i = 0; i < 4; i++) {
        tide_release(L.slot[i]);
        L.slot[i] = NULL;
    }
    litter(); /* drains */
    tide_safepoint(L.rt);
}
static void work_figures(void) {
    char text[100];
    tide_runtime_figures s = {.struct_size = sizeof s};
    litter();
    right(tide_runtime_info(L.rt, &s));
    assert_true(tide_runtime_text(L.rt, text, sizeof text) > 0);
    L.slot[0] =
        /* climbs, and but for spilling is reported */
        tide_empty(L.rt, TIDE_F32, SHAPE(8 * LEAVE_COUNT - 64));
    if (!L.slot[0]) assert_int_equal(tide_error_last()->status, TIDE_E_NOMEM);
}
static void work_detach(void) {
    uint64_t id;
    tide_collector t = {
        .struct_size = sizeof t, .name = "host", .collect = leave_collect, .detach = leave_detach};
    right(tide_collector_register(L.rt, &t, &id));
    right(tide_collector_use(L.rt, L.id));
    right(tide_collector_unregister(L.rt, id));
}

static void (*const works[])(void) = {
    work_add,         work_results, work_concat, work_linalg,  work_host,  work_npy,   work_assign,
    work_temporaries, work_use,     work_view,   work_batches, work_adapt, work_graph, work_reclaim,
    work_sync,        work_devices, work_deaths, work_figures, work_detach};

/* Whatever of the work's is still there is let go of, in a moment at which nothing is left. */
static void tidy_up(void) {
    int kind = L.kind;
    L.kind = LEAVE_NONE;
    if (L.scope) (void)!tide_use_end(L.scope);
    if (L.view.reserved[0]) (void)!tide_host_view_end(&L.view);
    tide_batches_release(L.batches);
    tide_graph_release(L.graph);
    tide_expr_release(L.expr);
    tide_adapt_release(L.rt, "pair", &L.pair);
    for (unsigned i = 0; i < LEAVE_SLOTS; i++) tide_release(L.slot[i]);
    L.scope = NULL;
    L.batches = NULL;
    L.graph = NULL;
    L.in_graph = false;
    L.expr = NULL;
    memset(L.slot, 0, sizeof L.slot);
    right(tide_device_set(L.rt, 0));
    L.kind = kind;
}

/* Deeper on the stack than what the caller calls itself. */
static __attribute__((noinline)) void call_deep(void (*fn)(void)) {
    volatile char room[16384];
    room[0] = room[sizeof room - 1] = 0;
    fn();
    __asm__ __volatile__("" : : "r"(room) : "memory");
}

#endif
