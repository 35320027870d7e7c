/* test_roots.c: what of the process the collector "boehm" finds: how much static data a collection
** of bdwgc's scans while a large library of CUDA's is mapped (little with the filter of roots, all
** of the library's without it, or where bdwgc serves malloc), and whether our own shared library's
** is left out; and threads, where the host initialised bdwgc itself.
**
** The library is the cuBLAS that the library itself opens, where it is found (no GPU is needed to
** map it); else one that the test builds: a name that the filter knows, 128 MiB of zeroes. bdwgc's
** roots belong to the process, so each case is a child of its own. */
#include "gc/boehm.h"
#include "tests/support/tidetest.h"
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

#define MUCH (100 * TIDEI_MIB)
#if defined(__SANITIZE_ADDRESS__)
/* AddressSanitizer looks at which libraries there are, and in which order */
#define ALONE  0
#define LITTLE (8 * TIDEI_MIB) /* the program's own; what sanitizers load has 12 beside it */
#else
#define ALONE  1
#define LITTLE (4 * TIDEI_MIB)
#endif

static const char *self;

static void *cublas(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    void *so = NULL;
    for (size_t i = 0; i < TIDEI_COUNT(names) && !so; i++) so = dlopen(names[i], RTLD_NOW);
    return so;
}

static bool compile(const char *source, const char *folder, const char *name) {
    char command[1500];
    snprintf(command, sizeof command,
             "printf '%%s' '%s' | cc -shared -fPIC -x c - -o %s/%s && exit 0", source, folder,
             name);
    return system(command) == 0;
}

/* A library that is called like CUDA's, compiled in a folder of its own. */
static void *made_up(void) {
    char folder[] = "/tmp/tide-roots-XXXXXX", command[512];
    if (!mkdtemp(folder)) return NULL;
    void *so = NULL;
    if (compile("char big[128 << 20];", folder, "libcublasMadeUp.so")) {
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
    tide_runtime_figures s = {.struct_size = sizeof s};
    tide_runtime *rt;
    if (tide_open(&c, &rt) != TIDE_OK || !(cublas() || made_up())) return 1;
    if (tide_collect(rt) != TIDE_OK || tide_runtime_info(rt, &s) != TIDE_OK) return 1;
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

/* The child in which malloc's smallest blocks are bdwgc's while the runtime opens, as a bdwgc has
** them that serves malloc. */
static int child_with_malloc_collected(void) {
    void (*redirect)(int on) = (void (*)(int))dlsym(RTLD_DEFAULT, "redirect_malloc");
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .collector = "boehm"};
    tide_runtime_figures s = {.struct_size = sizeof s};
    tide_runtime *rt;
    if (!redirect) return 1;
    GC_INIT();
    redirect(1);
    tide_status status = tide_open(&c, &rt);
    redirect(0);
    if (status != TIDE_OK || !(cublas() || made_up())) return 1;
    if (tide_collect(rt) != TIDE_OK || tide_runtime_info(rt, &s) != TIDE_OK) return 1;
    printf("gc_root_bytes %zu\n", s.gc_root_bytes);
    tide_close(rt);
    return 0;
}

/* What a collection would scan: of our shared library and those that it brings along, of CUDA's,
** and of all others. */
static struct {
    void *first;
    size_t own, device, others;
} segments;

static int GC_CALLBACK count_segment(const char *name, void *start, size_t bytes) {
    if (!segments.first || start == segments.first)
        segments.own = segments.device = segments.others = 0;
    if (!segments.first) segments.first = start;
    static const char *const ours[] = {"/libtidepool.so", "/libopenblas",   "/libblas.so",
                                       "/liblapack.so",   "/liblapacke.so", "/libdw.so",
                                       "/libelf.so"};
    bool is_ours = false;
    for (size_t i = 0; i < TIDEI_COUNT(ours); i++) is_ours |= strstr(name, ours[i]) != NULL;
    if (is_ours)
        segments.own += bytes;
    else if (tide_collector_is_device_library(name))
        segments.device += bytes;
    else
        segments.others += bytes;
    return 1;
}

/* The child that works with the shared library, and its functions, in place of what it is linked
** with. */
static int child_of_the_shared_library(const char *path) {
    void *so = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    tide_config c = {.struct_size = sizeof c, .device = test_device(), .collector = "boehm"};
    tide_runtime_figures s = {.struct_size = sizeof s};
    tide_runtime *rt;
    if (!so) return 1;
    tide_status (*open)(const tide_config *, tide_runtime **) =
        (tide_status(*)(const tide_config *, tide_runtime **))dlsym(so, "tide_open");
    tide_status (*collect)(tide_runtime *) =
        (tide_status(*)(tide_runtime *))dlsym(so, "tide_collect");
    tide_status (*stats)(tide_runtime *, tide_runtime_figures *) =
        (tide_status(*)(tide_runtime *, tide_runtime_figures *))dlsym(so, "tide_runtime_info");
    if (!open || !collect || !stats || open == tide_open || open(&c, &rt) != TIDE_OK) return 1;
    if (collect(rt) != TIDE_OK || stats(rt, &s) != TIDE_OK) return 1;
    GC_register_has_static_roots_callback(count_segment);
    GC_gcollect();
    printf("gc_root_bytes %zu\n", s.gc_root_bytes);
    printf("own %zu\nothers %zu\n", segments.own, segments.others);
    return 0;
}

/* The child of a host that initialised bdwgc in its main thread and opens in another, which bdwgc
** does not know. */
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
static int child_with_malloc_collected(void) { return 1; }
static int child_of_the_shared_library(const char *path) { return path == NULL; }
#endif

static void open_in_a_thread_unknown_to_bdwgc(void **state) {
    char command[4200];
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS) skip();
    snprintf(command, sizeof command, "'%s' --child host", self);
    assert_int_equal(system(command), 0);
}

/* What a child prints under a name. */
static size_t figure(const char *report, const char *name) {
    const char *at = strstr(report, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

/* `before`: of the command line; `argument`: "" or one more. */
static void report_of(const char *before, const char *how, const char *argument, char *report,
                      size_t cap) {
    char command[9000];
    snprintf(command, sizeof command, "%s '%s' --child %s %s", before, self, how, argument);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    report[fread(report, 1, cap - 1, f)] = 0;
    assert_int_equal(pclose(f), 0);
}

static size_t root_bytes(const char *how) {
    char report[1000];
    report_of("", how, "", report, sizeof report);
    return figure(report, "gc_root_bytes ");
}

static void few_with_the_filter(void **state) {
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS) skip();
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

/* A malloc whose blocks of one size are bdwgc's, where a thread says so. */
#define REDIRECTING                                                                                \
    "#include <stddef.h>\n"                                                                        \
    "void *__libc_malloc(size_t n); void __libc_free(void *p);\n"                                  \
    "__attribute__((weak)) void *GC_malloc_uncollectable(size_t n), *GC_base(void *p), "           \
    "GC_free(void *p);\n"                                                                          \
    "static _Thread_local int now; static int ever;\n"                                             \
    "void redirect_malloc(int on) { now = on; ever = 1; }\n"                                       \
    "void *malloc(size_t n) { return now && n == sizeof(void *) ? GC_malloc_uncollectable(n) : "   \
    "__libc_malloc(n); "                                                                           \
    "}\n"                                                                                          \
    "void free(void *p) { if (ever && p && GC_base(p)) GC_free(p); else __libc_free(p); }"

static void all_where_malloc_is_collected(void **state) {
    char folder[] = "/tmp/tide-roots-XXXXXX", preload[200], command[200], report[1000];
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS || !ALONE) skip(); /* it wants to be loaded first */
    assert_non_null(mkdtemp(folder));
    assert_true(compile(REDIRECTING, folder, "redirect.so"));
    snprintf(preload, sizeof preload, "LD_PRELOAD='%s/redirect.so'", folder);
    report_of(preload, "redirected", "", report, sizeof report);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_true(figure(report, "gc_root_bytes ") > MUCH);
}

/* The shared library's data are there, and are all that is not scanned. */
static void own_data_are_left_out(void **state) {
    char report[1000], library[4200];
    (void)state;
    test_needs_children();
    if (!BOEHM_RUNS || !ALONE) skip(); /* it wants no second library of the same names */
    snprintf(library, sizeof library, "'%.*s/../libtidepool.so'", (int)(strrchr(self, '/') - self),
             self);
    report_of("", "shared", library, report, sizeof report);
    assert_true(figure(report, "own ") > 0);
    assert_int_equal(figure(report, "gc_root_bytes "), figure(report, "others "));
}

static int child_of(const char *how, const char *library) {
    if (library) return child_of_the_shared_library(library);
    if (!strcmp(how, "redirected")) return child_with_malloc_collected();
    return !strcmp(how, "host") ? host_of_bdwgc() : child(how);
}

int main(int argc, char **argv) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    self = n > 0 ? path : argv[0];
    if (argc >= 3 && !strcmp(argv[1], "--child"))
        return child_of(argv[2], argc == 4 ? argv[3] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_with_the_filter),
        cmocka_unit_test(many_without_it),
        cmocka_unit_test(all_where_malloc_is_collected),
        cmocka_unit_test(own_data_are_left_out),
        cmocka_unit_test(open_in_a_thread_unknown_to_bdwgc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
