/* test_mappings.c: a process that may have no more mappings (vm.max_map_count): the kernel refuses
** to cut one in two, and so to unmap a part of it. Nothing aborts; what can be given back is;
** figures stay right; and once there is room, all goes on. */
#include <malloc.h>
#include <sys/mman.h>
#include "runtime/device/host/host.h"
#include "tests/support/child.h"
#include "tests/support/clean_environment.h"
#include "tests/support/logged.h"

#define MIB  TIDEI_MIB
#define MANY 200000 /* what is made in a moment; the kernel's default is 65530 */
/* what some systems allow, each time some seconds; where it is more it takes too long */
#define MOST       1100000
#define ARRAYS     20
#define ELEMENTS   100000
#define PAGE_BYTES ((size_t)4096)

static inline size_t most_mappings(void) {
    size_t n = SIZE_MAX;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f && fscanf(f, "%zu", &n) != 1) n = SIZE_MAX;
    if (f) fclose(f);
    return n;
}

/* The sanitizers map memory too, and end the process where they cannot. */
static void need_the_limit(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#else
    if (most_mappings() > (test_quick() ? MANY : MOST)) skip();
#endif
}

static size_t addresses_in_use(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    must(f && fscanf(f, "%zu", &pages) == 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Mappings of one page each, of which no two neighbours are alike, until the kernel has no more.
** None can be written to: so they count as no memory where that is promised only once. */
static void **mine;
static size_t nmine;
static void use_up(void) {
    int access = PROT_READ;
    must(mine = malloc(MOST * sizeof *mine));
    for (nmine = 0; nmine < MOST; nmine++) {
        access ^= PROT_READ;
        void *p = mmap(NULL, PAGE_BYTES, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return;
        mine[nmine] = p;
    }
}
static void make_room(void) {
    while (nmine) must(munmap(mine[--nmine], PAGE_BYTES) == 0);
    free(mine);
    mine = NULL;
}

static tide_runtime *open_on(const char *pool) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "refcount",
                     .pool = pool,
                     .log = keep_line,
                     .log_level = TIDE_LOG_WARNING};
    must_ok(tide_open(&c, &rt));
    return rt;
}

static void check_figures(tide_runtime *rt, size_t live) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    must_ok(tide_runtime_info(rt, &s));
    must(s.live == live && s.live + s.rounding + s.cached + s.pending == s.backed);
    must(tidei_runtime_valid(test_rt(rt)));
}

/* What an operation makes of it: the right value, or an error with a reason. */
static void sum_or_tell(tide_runtime *rt, tide_array *a, double wanted) {
    tide_error_clear();
    tide_array *sum = tide_sum(a, NULL, 0, 0);
    if (sum) {
        must(tide_item_f64(sum) == wanted);
        tide_release(sum);
    } else {
        tide_status s = tide_error_last()->status;
        must(s == TIDE_E_NOMEM || s == TIDE_E_HOST_NOMEM || s == TIDE_E_DEVICE);
    }
    must(tidei_runtime_valid(test_rt(rt)));
}

/* Arrays are made while there is room, and some go when there is none; the rest goes before the
** runtime closes, with it, or once there is room again. */
enum when { WHILE_FULL, AT_CLOSE, WITH_ROOM, WHENS };
struct part {
    const char *pool;
    enum when when;
};

static void run(const struct part *x) {
    const size_t bytes = ELEMENTS * sizeof(float);
    const int64_t n = ELEMENTS;
    tide_array *a[ARRAYS];
    size_t freed;
    tide_runtime *rt = open_on(x->pool);
    for (int i = 0; i < ARRAYS; i++) must(a[i] = tide_full(rt, TIDE_F32, 1, &n, tide_arg_int(i)));
    sum_or_tell(rt, a[1], ELEMENTS);
    must_ok(tide_device_synchronize(rt));
    use_up();
    for (int i = 0; i < ARRAYS; i += 2) tide_release(a[i]);
    must_ok(tide_reclaim(rt, TIDE_RECLAIM_DROP, &freed));
    check_figures(rt, ARRAYS / 2 * bytes);
    for (int i = 1; i < ARRAYS; i += 2) sum_or_tell(rt, a[i], (double)i * ELEMENTS);
    if (x->when == WITH_ROOM) make_room();
    if (x->when != AT_CLOSE)
        for (int i = 1; i < ARRAYS; i += 2) tide_release(a[i]);
    must_ok(tide_reclaim(rt, TIDE_RECLAIM_SYNC, &freed));
    if (x->when != AT_CLOSE) check_figures(rt, 0);
    if (x->when == WITH_ROOM) { /* nothing was lost by the refusals */
        const int64_t all = 60 * (int64_t)MIB;
        must(a[0] = tide_zeros(rt, TIDE_U8, 1, &all));
        sum_or_tell(rt, a[0], 0);
        tide_release(a[0]);
    }
    tide_close(rt);
}

static void at_the_limit(const void *arg) {
    const struct part *part = arg;
    mallopt(M_ARENA_MAX, 1); /* threads' arenas are addresses too */
    tide_close(open_on(part->pool));
    size_t before = addresses_in_use();
    logged.n = 0;
    run(part);
    make_room();
    bool told = lines_with(TIDE_LOG_WARNING, "of addresses stay, empty");
    must(told || addresses_in_use() < before + 64 * MIB);
    tide_runtime *rt = open_on(part->pool); /* it opens again, and its memory serves */
    const int64_t all = 60 * (int64_t)MIB;
    tide_array *a = tide_ones(rt, TIDE_U8, 1, &all);
    must(a);
    sum_or_tell(rt, a, (double)all);
    tide_release(a);
    check_figures(rt, 0);
    tide_close(rt);
}

static void refusals_are_survived(void **state) {
    (void)state;
    need_the_limit();
    const bool few = test_quick() || most_mappings() > MANY;
    for (unsigned i = 0; i < TEST_POOLS; i++)
        for (int w = 0; w < WHENS; w++) {
            if (few && i > 0 && w != AT_CLOSE) continue;
            in_child_with(at_the_limit, &(struct part){test_pool(i), (enum when)w});
        }
}

/* Where there is no room at all, opening says so, and works once there is. */
static void opens_or_tells(void) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "refcount"};
    use_up();
    tide_status status = tide_open(&c, &rt);
    must(status == TIDE_OK || status == TIDE_E_HOST_NOMEM || status == TIDE_E_NOMEM ||
         status == TIDE_E_DEVICE);
    if (status != TIDE_OK) must(strlen(tide_error_last()->message) > 20);
    tide_close(rt);
    make_room();
    must_ok(tide_open(&c, &rt));
    tide_close(rt);
}

static void opening_without_room(void **state) {
    (void)state;
    need_the_limit();
    in_child(opens_or_tells);
}

static int setup(void **state) { return (void)state, clear_environment(), 0; }

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, restore_environment)
    const struct CMUnitTest tests[] = {CASE(refusals_are_survived), CASE(opening_without_room)};
    return cmocka_run_group_tests_name("mappings", tests, NULL, NULL);
}
