/* test_roots.c: what of the process the collector "boehm" finds: how much static data a collection of bdwgc's scans while a
** large library of CUDA's is mapped (little with the filter of roots, all of the library's without it); and threads, where
** the host initialised bdwgc itself.
**
** The library is the cuBLAS that the library itself opens, where it is found (no GPU is needed to map it); else one that
** the test builds: a name that the filter knows, 128 MiB of zeroes. bdwgc's roots belong to the process, so each case
** is a child of its own. */
#include "gc/boehm.h"
#include "tests/tidetest.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__)
#define BOEHM_RUNS 1
#else
#define BOEHM_RUNS 0 /* bdwgc's signals do not get through to threads under ThreadSanitizer */
#endif

#if BOEHM_RUNS
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc/gc_mark.h> /* and with it bdwgc's gc.h, which gc/gc.h of ours hides */
#endif

#define LITTLE (4 * TIDEI_MIB)
#define MUCH   (100 * TIDEI_MIB)
#if defined(__SANITIZE_ADDRESS__)
#define ALONE 0 /* AddressSanitizer has megabytes of static data of its own */
#else
#define ALONE 1
#endif

static const char *self;

static void *cublas(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"};
    void *so = NULL;
    for (size_t i = 0; i < TIDEI_COUNT(names) && !so; i++) so = dlopen(names[i], RTLD_NOW);
    return so;
}

/* A library that is called like CUDA's, compiled in a folder of its own. */
static void *made_up(void) {
    char folder[] = "/tmp/tide-roots-XXXXXX", command[512];
    if (!mkdtemp(folder)) return NULL;
    snprintf(command, sizeof command,
             "echo 'char big[128 << 20];' | cc -shared -fPIC -x c - -o %s/libcublasMadeUp.so && exit 0", folder);
    void *so = NULL;
    if (system(command) == 0) {
        snprintf(command, sizeof command, "%s/libcublasMadeUp.so", folder);
        so = dlopen(command, RTLD_NOW);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? so : NULL;
}

/* The child: opens, collects, and prints what was scanned. */
static int child(const char *how) {
    atomic_store(&tidei_boehm_test.scan_device_libraries, !strcmp(how, "all"));
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .collector = "boehm"};
    tide_statistics s = {.struct_size = sizeof s};
    tide_runtime *rt;
    if (tide_open(&c, &rt) != TIDE_OK || !(cublas() || made_up())) return 1;
    if (tide_collect(rt) != TIDE_OK || tide_stats(rt, &s) != TIDE_OK) return 1;
    printf("gc_root_bytes %zu\n", s.gc_root_bytes);
    tide_close(rt);
    return 0;
}

#if BOEHM_RUNS
/* Allocates until bdwgc is about to collect, so that whoever allocates next does. */
static void fill_up(void) {
    static void *kept; /* a heap that bdwgc does not rather grow */
    GC_word most = 0;
    for (int i = 0; i < 3000; i++) {
        void **p = GC_MALLOC(4000);
        *p = kept;
        kept = p;
    }
    for (int rounds = 0; rounds < 4; rounds++)
        for (GC_word no = GC_get_gc_no(); GC_get_gc_no() == no;) {
            most = GC_get_bytes_since_gc();
            (void)GC_MALLOC(4000);
        }
    while (GC_get_bytes_since_gc() + 12000 < most) (void)GC_MALLOC(4000);
}

static void *open_there(void *p) {
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .collector = "boehm"};
    tide_runtime *rt;
    (void)p;
    if (tide_open(&c, &rt) != TIDE_OK || tide_collect(rt) != TIDE_OK) return (void *)1;
    tide_close(rt);
    return NULL;
}

/* The child of a host that initialised bdwgc in its main thread and opens in another, which bdwgc does not know. */
static int host_of_bdwgc(void) {
    pthread_t thread;
    void *failed = (void *)1;
    GC_INIT();
    fill_up();
    if (pthread_create(&thread, NULL, open_there, NULL) == 0) pthread_join(thread, &failed);
    return failed != NULL;
}
#else
static int host_of_bdwgc(void) { return 1; }
#endif

static void open_in_a_thread_unknown_to_bdwgc(void **state) {
    char command[4200];
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS) skip();
    snprintf(command, sizeof command, "'%s' --child host", self);
    assert_int_equal(system(command), 0);
}

static size_t root_bytes(const char *how) {
    char command[4200], line[256];
    size_t bytes = 0;
    snprintf(command, sizeof command, "'%s' --child %s", self, how);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) sscanf(line, "gc_root_bytes %zu", &bytes);
    assert_int_equal(pclose(f), 0);
    return bytes;
}

static void few_with_the_filter(void **state) {
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS || !ALONE) skip();
    size_t n = root_bytes("filtered");
    assert_true(n > 0);
    assert_true(n < LITTLE);
}

static void many_without_it(void **state) {
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS) skip();
    assert_true(root_bytes("all") > MUCH);
}

int main(int argc, char **argv) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    self = n > 0 ? path : argv[0];
    if (argc == 3 && !strcmp(argv[1], "--child"))
        return !strcmp(argv[2], "host") ? host_of_bdwgc() : child(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_with_the_filter),
        cmocka_unit_test(many_without_it),
        cmocka_unit_test(open_in_a_thread_unknown_to_bdwgc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
