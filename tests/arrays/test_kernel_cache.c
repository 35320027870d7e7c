/* test_kernel_cache.c: kernels in memory and on disk, over a device double whose compiler makes up
** an image from the text. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "arrays/kernels/cache.h"
#include "arrays/kernels/kernels.h"
#include "tests/support/captured.h"

#define IMAGE_BYTES 1000

/* ---- the double: a device that runs text, as far as kernels need one ---- */

typedef struct text_device {
    tidei_device d;
    atomic_int compiles, loads, kernels;
    atomic_int refusals; /* so many calls from now on are refused with `refusal` */
    tide_status refusal;
    atomic_bool refuses_images; /* as a driver does with code made for another */
    atomic_int meeting;         /* compilers that wait for each other: so many */
} text_device;

struct tidei_dkernel {
    uint64_t hash; /* of the text it was made from */
};

static uint64_t hash_of(const char *s) {
    uint64_t h = 1469598103934665603u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static tide_status t_kernel_compile(tidei_device *d, const tidei_kernel_text *t, void **image,
                                    size_t *image_bytes) {
    text_device *x = (text_device *)d;
    uint64_t hash = hash_of(t->source);
    if (atomic_load(&x->meeting)) { /* goes on when all are here: they run at the same time */
        atomic_fetch_sub(&x->meeting, 1);
        while (atomic_load(&x->meeting)) usleep(1000);
    }
    if (strstr(t->source, "nonsense"))
        return tidei_fail(TIDE_E_DEVICE, "cuda", "nonsense is not declared");
    atomic_fetch_add(&x->compiles, 1);
    unsigned char *made = malloc(IMAGE_BYTES);
    for (size_t i = 0; i < IMAGE_BYTES; i++) made[i] = (unsigned char)(hash * 31 + i);
    memcpy(made, &hash, sizeof hash);
    *image = made;
    *image_bytes = IMAGE_BYTES;
    return TIDE_OK;
}

static tide_status t_kernel_new(tidei_device *d, const tidei_kernel_text *t, tidei_dkernel **out,
                                void **image, size_t *image_bytes) {
    text_device *x = (text_device *)d;
    uint64_t hash = hash_of(t->source);
    if (t->image) {
        if (atomic_load(&x->refuses_images))
            return tidei_fail(TIDE_E_DEVICE, "cuda", "not for this device");
        assert_int_equal(t->image_bytes, IMAGE_BYTES);
        memcpy(&hash, t->image, sizeof hash);
    } else if (t_kernel_compile(d, t, image, image_bytes) != TIDE_OK) {
        return tide_error_last()->status;
    }
    if (atomic_load(&x->refusals) > 0) {
        atomic_fetch_sub(&x->refusals, 1);
        return tidei_fail(x->refusal, "cuda", "refused on purpose");
    }
    if (t->image) atomic_fetch_add(&x->loads, 1);
    tidei_dkernel *k = malloc(sizeof *k);
    k->hash = hash;
    atomic_fetch_add(&x->kernels, 1);
    *out = k;
    return TIDE_OK;
}
static void t_kernel_release(tidei_device *d, tidei_dkernel *k) {
    atomic_fetch_sub(&((text_device *)d)->kernels, 1);
    free(k);
}
static tide_status t_stream_new(tidei_device *d, tidei_dstream **out) {
    return *out = (tidei_dstream *)d, TIDE_OK;
}
static void t_stream_release(tidei_device *d, tidei_dstream *s) { (void)d, (void)s; }
static tide_status t_stream_sync(tidei_device *d, tidei_dstream *s) {
    return (void)d, (void)s, TIDE_OK;
}
static tide_status t_publish(tidei_device *d, tidei_dstream *s, uint64_t t) {
    return (void)d, (void)s, (void)t, TIDE_OK;
}
static uint64_t t_completed(tidei_device *d, tidei_dstream *s) {
    return (void)d, (void)s, UINT64_MAX;
}
static tide_status t_memory(tidei_device *d, size_t *f, size_t *t) {
    return (void)d, *f = *t = 1 << 20, TIDE_OK;
}
static void t_close(tidei_device *d) { (void)d; }

static const struct tidei_device_ops text_ops = {.name = "text",
                                                 .kernel_new = t_kernel_new,
                                                 .kernel_compile = t_kernel_compile,
                                                 .kernel_release = t_kernel_release,
                                                 .stream_new = t_stream_new,
                                                 .stream_release = t_stream_release,
                                                 .stream_sync = t_stream_sync,
                                                 .publish = t_publish,
                                                 .completed = t_completed,
                                                 .memory = t_memory,
                                                 .close = t_close};

static void text_device_init(text_device *x) {
    *x = (text_device){.d = {.ops = &text_ops,
                             .info = {.name = "text:0",
                                      .flags = TIDEI_DEV_RUNS_TEXT,
                                      .page_bytes = 4096,
                                      .align = 64,
                                      .total_bytes = 1 << 20,
                                      .sm_major = 9}}};
}

/* ---- a folder, and runtimes over it ---- */

static char folder[64]; /* a new one for every case */

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tide-kernels-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static tide_runtime *open_with(text_device *x, const char *dir, const char *max, int cache) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .collector = "refcount",
                     .pool = "none",
                     .cache = cache,
                     .cache_dir = dir,
                     .cache_max = max};
    text_device_init(x);
    assert_ok(tidei_open_on(&c, &x->d, &rt));
    return rt;
}
static tide_runtime *open_on_folder(text_device *x) { return open_with(x, folder, NULL, TIDE_ON); }

static void close_runtime(tide_runtime *rt, text_device *x) {
    tide_close(rt);
    assert_int_equal(atomic_load(&x->kernels), 0);
}

/* Asks for the kernel of a text, which must be that text's. */
static void get(tide_runtime *rt, const char *source) {
    tidei_dkernel *k = NULL;
    assert_ok(tidei_kernel_get(&test_rt(rt)->devs[0], "kernel", source, "tide_test", &k));
    assert_true(k->hash == hash_of(source));
}

/* In a runtime of its own: compiled (1) or taken from the disk (0). */
static int compiles_of(const char *source) {
    text_device x;
    tide_runtime *rt = open_on_folder(&x);
    get(rt, source);
    int n = atomic_load(&x.compiles);
    close_runtime(rt, &x);
    return n;
}

/* The one file in the folder with this ending. */
static void only_file(const char *ending, char *path, size_t cap) {
    DIR *dir = opendir(folder);
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ending)) {
            snprintf(path, cap, "%s/%s", folder, e->d_name);
            n++;
        }
    closedir(dir);
    assert_int_equal(n, 1);
}

static int files_in(const char *dir, const char *ending) {
    DIR *d = opendir(dir);
    int n = 0;
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strstr(e->d_name, ending);
    closedir(d);
    return n;
}

static size_t bytes_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (size_t)st.st_size;
}

/* ---- cases ---- */

static void a_kernel_is_kept_in_memory(void **state) {
    text_device x;
    tidei_dkernel *a, *b, *c;
    (void)state;
    tide_runtime *rt = open_with(&x, folder, NULL, TIDE_OFF);
    tidei_dev *d = &test_rt(rt)->devs[0];
    assert_ok(tidei_kernel_get(d, "one", "text", "tide_test", &a));
    char copy[] = "text"; /* found by its content, not its address */
    assert_ok(tidei_kernel_get(d, "one", copy, "tide_test", &b));
    assert_ptr_equal(a, b);
    assert_ok(tidei_kernel_get(d, "other", "text", "tide_test", &c));
    assert_ptr_not_equal(a, c);
    for (int i = 0; i < 1000; i++) { /* more than the table has places */
        char source[32];
        snprintf(source, sizeof source, "text %d", i % 500);
        get(rt, source);
    }
    assert_int_equal(atomic_load(&x.compiles), 502);
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.kernels, 502);
    assert_int_equal(s.kernels_compiled, 502);
    assert_int_equal(s.kernels_loaded, 0);
    close_runtime(rt, &x);
    assert_int_equal(files_in(folder, ""), 0); /* the cache was off */
}

/* The library's own texts are found by where they lie. */
static void our_own_texts_are_found_by_address(void **state) {
    text_device x;
    static char source[] = "the text of a fixed kernel", name[] = "kernel";
    tidei_dkernel *k = NULL, *again = NULL, *by_content = NULL;
    (void)state;
    tide_runtime *rt = open_with(&x, folder, NULL, TIDE_OFF);
    tidei_dev *d = &test_rt(rt)->devs[0];
    assert_ok(tidei_kernel_get_fixed(d, name, source, "tide_test", &k));
    assert_ok(tidei_kernel_get(d, name, "#define TIDE_WANTS_kernel 1\nthe text of a fixed kernel",
                               "tide_test", &by_content)); /* told which of its kernels is wanted */
    assert_ptr_equal(k, by_content);
    source[0] = 'T'; /* which a constant would not */
    assert_ok(tidei_kernel_get_fixed(d, name, source, "tide_test", &again));
    assert_ptr_equal(k, again);
    source[0] = 't';
    assert_ok(tidei_kernel_get_fixed(d, "kernel of another name", source, "tide_test", &again));
    assert_ptr_not_equal(k, again);
    assert_int_equal(atomic_load(&x.compiles), 2);
    close_runtime(rt, &x);
}

static void a_kernel_is_kept_on_disk(void **state) {
    text_device x;
    char path[512];
    struct stat st;
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    only_file(".kernel", path, sizeof path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    tide_runtime *rt = open_on_folder(&x);
    get(rt, "text");
    get(rt, "text");
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.kernels_compiled, 0);
    assert_int_equal(s.kernels_loaded, 1);
    assert_int_equal(s.kernels, 1);
    get(rt, "another");
    assert_int_equal(atomic_load(&x.compiles), 1);
    close_runtime(rt, &x);
}

static void the_folder_is_made(void **state) {
    text_device x;
    char deep[128], part[256];
    struct stat st;
    (void)state;
    snprintf(deep, sizeof deep, "%s/a/b/c", folder);
    tide_runtime *rt = open_with(&x, deep, NULL, TIDE_ON);
    assert_int_equal(stat(deep, &st), -1); /* not before it is needed */
    get(rt, "text");
    close_runtime(rt, &x);
    for (size_t n = strlen(deep); n > strlen(folder); n -= 2) {
        snprintf(part, sizeof part, "%.*s", (int)n, deep);
        assert_int_equal(stat(part, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
    }
    assert_int_equal(files_in(deep, ".kernel"), 1);
}

static void change_byte(const char *path, size_t at) {
    int fd = open(path, O_RDWR);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Whatever byte of an entry changed, the kernel is compiled again, and the entry is whole
** afterwards. */
static void a_damaged_entry_is_compiled_anew(void **state) {
    char path[512];
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    only_file(".kernel", path, sizeof path);
    size_t bytes = bytes_of(path);
    for (size_t at = 0; at < bytes; at += at < 200 ? 1 : 97) {
        change_byte(path, at);
        if (compiles_of("text") != 1) fail_msg("byte %zu was changed and went unnoticed", at);
        assert_int_equal(compiles_of("text"), 0);
    }
    static const size_t lengths[] = {0, 1, 39, 40, 41, 200};
    for (size_t i = 0; i < TIDEI_COUNT(lengths); i++) {
        assert_int_equal(truncate(path, (off_t)lengths[i]), 0);
        assert_int_equal(compiles_of("text"), 1);
        assert_int_equal(compiles_of("text"), 0);
    }
    assert_int_equal(truncate(path, (off_t)bytes - 1), 0);
    assert_int_equal(compiles_of("text"), 1);
    assert_int_equal(truncate(path, (off_t)bytes + 1), 0);
    assert_int_equal(compiles_of("text"), 1);
    assert_int_equal(compiles_of("text"), 0);
    assert_int_equal(bytes_of(path), bytes);
}

/* Two keys of one hash: the stored key tells them apart. */
static void the_stored_key_tells_kernels_apart(void **state) {
    char one[512], other[512], aside[128];
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    only_file(".kernel", one, sizeof one);
    snprintf(aside, sizeof aside, "%s/aside", folder);
    assert_int_equal(rename(one, aside), 0);
    assert_int_equal(compiles_of("another"), 1);
    only_file(".kernel", other, sizeof other);
    assert_int_equal(rename(aside, other), 0);
    assert_int_equal(compiles_of("another"), 1);
}

static void an_image_that_does_not_load_is_replaced(void **state) {
    text_device x;
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    tide_runtime *rt = open_on_folder(&x);
    atomic_store(&x.refuses_images, true);
    get(rt, "text");
    assert_int_equal(atomic_load(&x.compiles), 1);
    close_runtime(rt, &x);
    assert_int_equal(compiles_of("text"), 0); /* the new one was kept */
}

static void a_folder_that_others_write_is_not_used(void **state) {
    (void)state;
    static const mode_t modes[] = {0770, 0702, 0777};
    for (size_t i = 0; i < TIDEI_COUNT(modes); i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_int_equal(compiles_of("text"), 1);
        assert_int_equal(files_in(folder, ""), 0);
    }
    assert_int_equal(chmod(folder, 0755), 0); /* others may read */
    assert_int_equal(compiles_of("text"), 1);
    assert_int_equal(compiles_of("text"), 0);
    if (geteuid() != 0) return;
    assert_int_equal(chown(folder, 65534, 65534), 0); /* somebody else's: not read, not written */
    assert_int_equal(compiles_of("text"), 1);
    assert_int_equal(chown(folder, 0, 0), 0);
}

/* A folder of the environment's choice that cannot be had, or must not be trusted, is told of
** whether or not anybody chose a level; one of the program's own choice by the level alone. */
static void a_bad_folder_is_told(void **state) {
    char text[2000], file[100], said[200];
    text_device x;
    (void)state;
    snprintf(file, sizeof file, "%s/file", folder);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    for (int shared = 0; shared < 2; shared++)
        for (int by_environment = 0; by_environment < 2; by_environment++) {
            const char *path = shared ? folder : file;
            assert_int_equal(chmod(folder, shared ? 0777 : 0700), 0);
            if (by_environment) setenv("TIDE_CACHE_DIR", path, 1);
            captured_begin();
            tide_runtime *rt = open_with(&x, by_environment ? NULL : path, NULL, TIDE_ON);
            get(rt, "text");
            get(rt, "another text");
            close_runtime(rt, &x);
            captured_end(text, sizeof text);
            unsetenv("TIDE_CACHE_DIR");
            snprintf(said, sizeof said,
                     "tidepool warning: TIDE_CACHE_DIR=%s: %s; the kernel cache is off\n", path,
                     shared ? "others can write to it" : strerror(EEXIST));
            if (!shared) *strstr(said, strerror(EEXIST)) = 0; /* the system's words */
            if (by_environment)
                assert_int_equal(strncmp(text, said, strlen(said)), 0);
            else
                assert_string_equal(text, "");
        }
}

/* An entry that others can write is no code to run. */
static void an_entry_that_others_write_is_not_run(void **state) {
    char path[512];
    struct stat st;
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    only_file(".kernel", path, sizeof path);
    static const mode_t modes[] = {0620, 0602, 0666};
    for (size_t i = 0; i < TIDEI_COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(compiles_of("text"), 1);
        assert_int_equal(stat(path, &st), 0); /* the new one */
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(compiles_of("text"), 0);
    }
    if (geteuid() != 0) return;
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(compiles_of("text"), 1);
    assert_int_equal(compiles_of("text"), 0);
}

static void without_a_folder_it_compiles_each_time(void **state) {
    text_device x;
    char file[128], below[160];
    (void)state;
    snprintf(file, sizeof file, "%s/file", folder);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    snprintf(below, sizeof below, "%s/file/kernels", folder);
    tide_runtime *rt = open_with(&x, below, NULL, TIDE_ON);
    get(rt, "text"); /* no error, only no cache */
    assert_int_equal(atomic_load(&x.compiles), 1);
    close_runtime(rt, &x);
    snprintf(below, sizeof below, "/proc/%d/kernels", (int)getpid());
    rt = open_with(&x, below, NULL, TIDE_ON);
    get(rt, "text");
    close_runtime(rt, &x);
}

static void age(const char *path, int hours) {
    struct timespec now, t[2];
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = t[1] = (struct timespec){.tv_sec = now.tv_sec - hours * 3600};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void the_folder_stays_within_its_bound(void **state) {
    text_device x;
    char path[512], old[128], young[128], foreign[128];
    (void)state;
    assert_int_equal(compiles_of("the oldest"), 1);
    only_file(".kernel", path, sizeof path);
    age(path, 100);
    size_t bytes = bytes_of(path);
    snprintf(old, sizeof old, "%s/.tidepool-20.part", folder);
    snprintf(young, sizeof young, "%s/.tidepool-30.part", folder);
    snprintf(foreign, sizeof foreign, "%s/letter.kernel", folder);
    close(open(old, O_CREAT | O_WRONLY, 0600));
    int writer = open(young, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(flock(writer, LOCK_EX | LOCK_NB), 0);
    close(open(foreign, O_CREAT | O_WRONLY, 0600));
    age(old, 2);
    age(foreign, 1000);
    char max[32], source[32];
    snprintf(max, sizeof max, "%zu", 10 * (bytes + 10));
    tide_runtime *rt = open_with(&x, folder, max, TIDE_ON);
    for (int i = 0; i < 9; i++) {
        snprintf(source, sizeof source, "the text %d", i);
        get(rt, source);
    }
    assert_int_equal(files_in(folder, ".kernel"), 11); /* ten, and the foreign one */
    assert_int_equal(access(old, F_OK), -1);           /* whoever wrote it is gone */
    get(rt, "one too many");
    assert_in_range(files_in(folder, ".kernel"), 5, 10);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0); /* its writer is not */
    close(writer);
    assert_int_equal(access(foreign, F_OK), 0);
    for (int i = 0; i < 100; i++) { /* and stays so */
        snprintf(source, sizeof source, "more text %d", i);
        get(rt, source);
        assert_in_range(files_in(folder, ".kernel"), 5, 11);
    }
    close_runtime(rt, &x);
    assert_int_equal(compiles_of("more text 99"), 0);
    rt = open_with(&x, folder, "100", TIDE_ON); /* no entry fits: none is kept, nothing fails */
    get(rt, "one that is new");
    close_runtime(rt, &x);
    assert_int_equal(compiles_of("one that is new"), 1);
}

/* Two who fill one folder: neither knows what the other adds until it counts again. */
static void two_who_fill_a_folder_keep_the_bound(void **state) {
    text_device x, y;
    char path[512], max[32], source[32];
    (void)state;
    assert_int_equal(compiles_of("the first"), 1);
    only_file(".kernel", path, sizeof path);
    size_t bytes = bytes_of(path);
    snprintf(max, sizeof max, "%zu", 64 * (bytes + 10));
    tide_runtime *one = open_with(&x, folder, max, TIDE_ON),
                 *two = open_with(&y, folder, max, TIDE_ON);
    for (int i = 0; i < 100; i++) {
        snprintf(source, sizeof source, "text %d of one", i);
        get(one, source);
        snprintf(source, sizeof source, "text %d of two", i);
        get(two, source);
        assert_in_range(files_in(folder, ".kernel"), 1, 64 + 2 * 64 / 16);
    }
    close_runtime(one, &x);
    close_runtime(two, &y);
}

/* What is used stays: reading an old entry makes it young. */
static void what_is_used_stays(void **state) {
    char path[512];
    struct stat st;
    (void)state;
    assert_int_equal(compiles_of("text"), 1);
    only_file(".kernel", path, sizeof path);
    age(path, 48);
    assert_int_equal(compiles_of("text"), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(time(NULL) - st.st_mtime < 3600);
}

static void a_failed_compilation_is_told(void **state) {
    text_device x;
    tidei_dkernel *k = NULL;
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    tidei_dev *d = &test_rt(rt)->devs[0];
    assert_int_equal(tidei_kernel_get(d, "kernel", "nonsense", "tide_test", &k), TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "nonsense is not declared");
    assert_string_equal(tide_error_last()->operation, "tide_test");
    assert_null(k);
    x.refusal = TIDE_E_LOST;
    atomic_store(&x.refusals, 1);
    assert_int_equal(tidei_kernel_get(d, "kernel", "text", "tide_test", &k), TIDE_E_LOST);
    get(rt, "text"); /* nothing of the failure stays */
    assert_int_equal(test_stats(rt).kernels, 1);
    close_runtime(rt, &x);
}

/* Short of memory: the ladder is climbed, and what was compiled is not compiled again. */
static void loading_climbs_when_memory_is_short(void **state) {
    text_device x;
    tidei_dkernel *k = NULL;
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    x.refusal = TIDE_E_NOMEM;
    atomic_store(&x.refusals, 3);
    get(rt, "text");
    assert_int_equal(atomic_load(&x.compiles), 1);
    assert_int_equal(atomic_load(&x.loads), 1);
    assert_int_equal(test_stats(rt).climbs, 1);
    assert_int_equal(test_stats(rt).kernels_compiled, 1);
    atomic_store(&x.refusals, 1000);
    assert_int_equal(tidei_kernel_get(&test_rt(rt)->devs[0], "kernel", "big", "tide_test", &k),
                     TIDE_E_NOMEM);
    assert_error(TIDE_E_NOMEM, "out of memory on text:0");
    atomic_store(&x.refusals, 2);
    get(rt, "big"); /* compiled in vain before, kept on disk all the same */
    assert_int_equal(atomic_load(&x.compiles), 2);
    close_runtime(rt, &x);
}

typedef struct asker {
    tide_runtime *rt;
    const char *source;
    tidei_dkernel *k;
    tide_status status;
} asker;
static void *ask(void *arg) {
    asker *a = arg;
    a->status = tidei_kernel_get(&test_rt(a->rt)->devs[0], "kernel", a->source, "tide_test", &a->k);
    return NULL;
}
static void ask_at_once(asker *askers, size_t n) {
    pthread_t threads[16];
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    for (size_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void one_thread_compiles_for_all(void **state) {
    text_device x;
    asker askers[8];
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    for (int round = 0; round < 20; round++) {
        char source[32];
        snprintf(source, sizeof source, "text %d", round);
        for (int i = 0; i < 8; i++) askers[i] = (asker){.rt = rt, .source = source};
        ask_at_once(askers, 8);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(askers[i].status, TIDE_OK);
            assert_ptr_equal(askers[i].k, askers[0].k);
        }
        assert_int_equal(atomic_load(&x.compiles), round + 1);
    }
    close_runtime(rt, &x);
}

/* The compiler of each waits for the other: one after the other would not end well. */
static void different_texts_compile_at_once(void **state) {
    text_device x;
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    asker askers[2] = {{.rt = rt, .source = "a"}, {.rt = rt, .source = "b"}};
    atomic_store(&x.meeting, 2);
    ask_at_once(askers, 2);
    assert_int_equal(askers[0].status, TIDE_OK);
    assert_int_equal(askers[1].status, TIDE_OK);
    close_runtime(rt, &x);
}

/* When the first one's compilation fails, the others do not wait for ever. */
static void when_one_fails_the_others_do_not_wait(void **state) {
    text_device x;
    asker askers[4];
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    for (int i = 0; i < 4; i++) askers[i] = (asker){.rt = rt, .source = "nonsense"};
    ask_at_once(askers, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(askers[i].status, TIDE_E_DEVICE);
    close_runtime(rt, &x);
}

/* ---- ahead of the asking ---- */

static void ahead(tide_runtime *rt, const char *source) {
    tidei_kernel_ahead(&test_rt(rt)->devs[0], "kernel", source);
}

/* As above: one compiler waits for the other. */
static void a_text_compiles_ahead_of_its_asking(void **state) {
    text_device x;
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    atomic_store(&x.meeting, 2);
    ahead(rt, "a");
    get(rt, "b");
    get(rt, "a");
    assert_int_equal(atomic_load(&x.compiles), 2);
    assert_int_equal(atomic_load(&x.loads), 1); /* of an image, not of a text */
    tide_runtime_figures s = test_stats(rt);
    assert_int_equal(s.kernels_compiled, 2);
    assert_int_equal(s.kernels_loaded, 0);
    close_runtime(rt, &x);
    assert_int_equal(compiles_of("a"), 0); /* it was kept */
}

static void so_do_our_own_texts(void **state) {
    static const char source[] = "the text of a fixed kernel", name[] = "kernel";
    text_device x;
    tidei_dkernel *k = NULL;
    (void)state;
    tide_runtime *rt = open_with(&x, folder, NULL, TIDE_OFF);
    tidei_dev *d = &test_rt(rt)->devs[0];
    atomic_store(&x.meeting, 2);
    tidei_kernel_ahead_fixed(d, name, source);
    get(rt, "b");
    assert_ok(tidei_kernel_get_fixed(d, name, source, "tide_test", &k));
    tidei_kernel_ahead_fixed(d, name, source); /* it is there */
    assert_int_equal(atomic_load(&x.compiles), 2);
    assert_int_equal(atomic_load(&x.loads), 1);
    close_runtime(rt, &x);
}

static void what_is_there_is_not_compiled_ahead(void **state) {
    text_device x;
    (void)state;
    assert_int_equal(compiles_of("on disk"), 1);
    tide_runtime *rt = open_on_folder(&x);
    ahead(rt, "on disk");
    get(rt, "on disk");
    ahead(rt, "on disk"); /* in memory */
    get(rt, "on disk");
    assert_int_equal(atomic_load(&x.compiles), 0);
    for (int i = 0; i < 3; i++) ahead(rt, "begun");
    get(rt, "begun");
    ahead(rt, "begun");
    assert_int_equal(atomic_load(&x.compiles), 1);
    close_runtime(rt, &x);
    static struct tidei_device_ops ops;
    ops = text_ops;
    ops.kernel_compile = NULL; /* a device that cannot */
    rt = open_on_folder(&x);
    x.d.ops = &ops;
    ahead(rt, "elsewhere");
    assert_int_equal(atomic_load(&x.compiles), 0);
    get(rt, "elsewhere");
    close_runtime(rt, &x);
}

/* It is told where the kernel is asked for, as if nothing had been begun. */
static void what_fails_ahead_fails_at_the_asking(void **state) {
    text_device x;
    tidei_dkernel *k = NULL;
    (void)state;
    tide_runtime *rt = open_on_folder(&x);
    tide_error_clear();
    ahead(rt, "nonsense");
    assert_int_equal(tide_error_last()->status, TIDE_OK);
    assert_int_equal(tidei_kernel_get(&test_rt(rt)->devs[0], "kernel", "nonsense", "tide_test", &k),
                     TIDE_E_DEVICE);
    assert_error(TIDE_E_DEVICE, "nonsense is not declared");
    close_runtime(rt, &x);
}

/* However many are begun, a text is compiled once, by whichever thread, and once more where it was
** dropped for others before it was asked for; and what nobody asks for is gone with the runtime. */
static void many_are_begun_and_some_asked_for(void **state) {
    text_device x;
    asker askers[16];
    char texts[40][24];
    (void)state;
    tide_runtime *rt = open_with(&x, folder, NULL, TIDE_OFF);
    for (int i = 0; i < 40; i++) {
        snprintf(texts[i], sizeof texts[i], "text %d", i);
        ahead(rt, texts[i]);
    }
    for (int i = 0; i < 16; i++) askers[i] = (asker){.rt = rt, .source = texts[i / 2]};
    ask_at_once(askers, 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(askers[i].status, TIDE_OK);
        assert_true(askers[i].k->hash == hash_of(askers[i].source));
        assert_ptr_equal(askers[i].k, askers[i / 2 * 2].k);
    }
    assert_int_equal(test_stats(rt).kernels_compiled, 8);
    assert_in_range(atomic_load(&x.compiles), 8, 40 + 8);
    close_runtime(rt, &x);
}

/* Host memory that is refused leaves nothing, and the kernel is had at its asking. */
static struct { int calls, refused_at, alive; } host;
static void *host_alloc(void *user, size_t bytes) {
    (void)user;
    if (++host.calls == host.refused_at) return NULL;
    host.alive++;
    return malloc(bytes);
}
static void host_free(void *user, void *p) {
    (void)user;
    host.alive -= p != NULL;
    free(p);
}

static void without_host_memory_nothing_is_begun(void **state) {
    (void)state;
    for (int n = 1, refused = 1; refused; n++) {
        text_device x;
        tide_runtime *rt = NULL;
        const tide_allocator hook = {host_alloc, host_free, NULL};
        tide_config c = {.struct_size = sizeof c,
                         .collector = "refcount",
                         .pool = "none",
                         .cache = TIDE_OFF,
                         .allocator = &hook};
        text_device_init(&x);
        memset(&host, 0, sizeof host);
        assert_ok(tidei_open_on(&c, &x.d, &rt));
        tide_error_clear();
        host.refused_at = host.calls + n;
        ahead(rt, "text");
        refused = host.calls >= host.refused_at;
        assert_int_equal(tide_error_last()->status, TIDE_OK);
        host.refused_at = 0;
        get(rt, "text");
        assert_int_equal(atomic_load(&x.compiles), 1);
        close_runtime(rt, &x);
        assert_int_equal(host.alive, 0);
    }
}

/* ---- several processes over one folder ---- */

#define RACE_TEXTS 30

/* In a process of its own: asks for the same texts in an order of its own, with a bound that makes
** it prune, too. */
static int race(const char *dir, unsigned seed) {
    text_device x;
    snprintf(folder, sizeof folder, "%s", dir);
    for (int round = 0; round < 5; round++) {
        tide_runtime *rt = open_with(&x, folder, seed % 2 ? "20KiB" : NULL, TIDE_ON);
        for (unsigned i = 0; i < RACE_TEXTS; i++) {
            char source[32];
            seed = seed * 1103515245 + 12345;
            snprintf(source, sizeof source, "text %u", seed / 65536 % RACE_TEXTS);
            get(rt, source);
        }
        close_runtime(rt, &x);
    }
    return 0;
}

static void racing_processes_share_the_folder(void **state) {
    pid_t children[4];
    int status;
    (void)state;
    for (int i = 0; i < 4; i++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", i + 1);
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            execl("/proc/self/exe", "test_kernel_cache", "race", folder, seed, (char *)NULL);
            _exit(99);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(files_in(folder, ".part"), 0);
    text_device x;
    tide_runtime *rt = open_on_folder(&x);
    for (int i = 0; i < RACE_TEXTS; i++) { /* whatever is there is whole */
        char source[32];
        snprintf(source, sizeof source, "text %d", i);
        get(rt, source);
    }
    close_runtime(rt, &x);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "race") == 0) return race(argv[2], (unsigned)atoi(argv[3]));
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_kernel_is_kept_in_memory),
        CASE(our_own_texts_are_found_by_address),
        CASE(a_kernel_is_kept_on_disk),
        CASE(the_folder_is_made),
        CASE(a_damaged_entry_is_compiled_anew),
        CASE(the_stored_key_tells_kernels_apart),
        CASE(an_image_that_does_not_load_is_replaced),
        CASE(a_folder_that_others_write_is_not_used),
        CASE(a_bad_folder_is_told),
        CASE(an_entry_that_others_write_is_not_run),
        CASE(without_a_folder_it_compiles_each_time),
        CASE(the_folder_stays_within_its_bound),
        CASE(two_who_fill_a_folder_keep_the_bound),
        CASE(what_is_used_stays),
        CASE(a_failed_compilation_is_told),
        CASE(loading_climbs_when_memory_is_short),
        CASE(one_thread_compiles_for_all),
        CASE(different_texts_compile_at_once),
        CASE(when_one_fails_the_others_do_not_wait),
        CASE(a_text_compiles_ahead_of_its_asking),
        CASE(so_do_our_own_texts),
        CASE(what_is_there_is_not_compiled_ahead),
        CASE(what_fails_ahead_fails_at_the_asking),
        CASE(many_are_begun_and_some_asked_for),
        CASE(without_host_memory_nothing_is_begun),
        CASE(racing_processes_share_the_folder),
    };
    return cmocka_run_group_tests_name("kernel_cache", tests, NULL, NULL);
}
