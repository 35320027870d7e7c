/* test_draft.c: files that appear only when they are whole: what is left by a writer that is
** killed, or meets others, or a file system that says no; as drafts, and as tide_npy_write has
** them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/draft.h"
#include "runtime/base/files.h"
#include "tests/support/tidetest.h"

#define FUSE_MAGIC 0x65735546

/* ---- a file system of another kind, and memory that is exhausted ---- */

static int lock_error;        /* what locking fails with; 0: it works */
static bool far, no_realpath; /* the folder may be mounted from elsewhere; no memory for a path */
int __real_flock(int fd, int op);
int __wrap_flock(int fd, int op);
int __wrap_flock(int fd, int op) {
    if (!lock_error) return __real_flock(fd, op);
    errno = lock_error;
    return -1;
}
int __real_fstatfs64(int fd, struct statfs *out);
int __wrap_fstatfs64(int fd, struct statfs *out);
int __wrap_fstatfs64(int fd, struct statfs *out) {
    int r = __real_fstatfs64(fd, out);
    out->f_type = far ? FUSE_MAGIC : TMPFS_MAGIC; /* wherever /tmp is */
    return r;
}
char *__real_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out) {
    if (!no_realpath) return __real_realpath(path, out);
    errno = ENOMEM;
    return NULL;
}

/* ---- the case's folder ---- */

static char folder[64];
static int folder_fd;

static const char *in_folder(const char *name) {
    static char path[8][400];
    static unsigned next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static int setup(void **state) {
    (void)state;
    lock_error = 0;
    far = no_realpath = false;
    strcpy(folder, "/tmp/tide_draft_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    folder_fd = open(folder, O_PATH | O_DIRECTORY);
    return folder_fd < 0;
}

static int teardown(void **state) {
    DIR *d = opendir(folder);
    (void)state;
    for (struct dirent *e; d && (e = readdir(d));)
        if (unlink(in_folder(e->d_name))) rmdir(in_folder(e->d_name));
    if (d) closedir(d);
    close(folder_fd);
    return rmdir(folder);
}

static int drafts(void) {
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += tidei_is_draft(e->d_name);
    closedir(d);
    return n;
}

static const char *draft_name(unsigned n) {
    static char name[4][TIDEI_DRAFT_NAME];
    snprintf(name[n % 4], sizeof name[0], ".tidepool-%u.part", n);
    return name[n % 4];
}
static bool is_there(const char *name) {
    struct stat st;
    return lstat(in_folder(name), &st) == 0;
}

/* A file that somebody left, or that is held (>= 0: its descriptor). */
static int leave(const char *name, bool held) {
    int fd = open(in_folder(name), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "left", 4) == 4);
    if (held) {
        assert_int_equal(__real_flock(fd, LOCK_EX | LOCK_NB), 0);
        return fd;
    }
    close(fd);
    return -1;
}

static void age(const char *name, int minutes) {
    struct timespec now, t[2];
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = t[1] = (struct timespec){.tv_sec = now.tv_sec - minutes * 60};
    assert_int_equal(utimensat(AT_FDCWD, in_folder(name), t, 0), 0);
}

static void holds(const char *name, const char *text) {
    char found[64];
    assert_int_equal(tidei_file_text(in_folder(name), found, sizeof found), strlen(text));
    assert_string_equal(found, text);
}

/* Writes a file; the number of its draft. */
static unsigned written(const char *name, const char *text) {
    tidei_draft d;
    unsigned n;
    assert_true(tidei_draft_open(folder_fd, 0600, &d));
    assert_int_equal(sscanf(d.name, ".tidepool-%u.part", &n), 1);
    assert_true(is_there(d.name) && !is_there(name));
    assert_true(tidei_file_write(d.fd, text, strlen(text), NULL));
    assert_true(tidei_draft_keep(&d, name));
    assert_false(is_there(d.name));
    holds(name, text);
    unlink(in_folder(name));
    return n;
}

/* ---- drafts ---- */

static void a_draft_is_kept_or_dropped(void **state) {
    tidei_draft d;
    struct stat st;
    (void)state;
    assert_int_equal(written("file", "whole"), 0);
    assert_true(tidei_draft_open(folder_fd, 0640, &d));
    assert_int_equal(fstat(d.fd, &st), 0);
    assert_int_equal(st.st_mode & 07777 & ~0640u, 0);
    tidei_draft_drop(&d);
    assert_int_equal(drafts(), 0);
    assert_true(tidei_draft_open(folder_fd, 0600, &d));
    assert_false(tidei_draft_keep(&d, "no/such/folder"));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(drafts(), 0);
}

static void a_drafts_name_is_known(void **state) {
    (void)state;
    assert_true(tidei_is_draft(".tidepool-0.part") && tidei_is_draft(".tidepool-9999.part"));
    static const char *const others[] = {".tidepool-.part",   "tidepool-1.part",
                                         ".tidepool-1.part2", ".tidepool-1-2.part",
                                         ".tidepool-1.npy",   "model.npy"};
    for (size_t i = 0; i < TIDEI_COUNT(others); i++) assert_false(tidei_is_draft(others[i]));
}

/* One that is being written is passed by. */
static void drafts_being_written_stay(void **state) {
    (void)state;
    int first = leave(draft_name(0), true), second = leave(draft_name(1), true),
        late = leave(draft_name(5), true);
    assert_int_equal(written("file", "whole"), 2);
    holds(draft_name(0), "left");
    holds(draft_name(1), "left");
    holds(draft_name(5), "left");
    close(first);
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 2);
    close(second);
    close(late);
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 0);
}

/* What killed writers left goes with the next draft: in its way, among the low numbers, and then
** wherever. */
static void drafts_of_killed_writers_go(void **state) {
    static const unsigned numbers[] = {0, 3, 7, 12, 4000};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(numbers); i++) leave(draft_name(numbers[i]), false);
    leave("letter.part", false);
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 0);
    assert_true(is_there("letter.part"));
    leave(draft_name(7), false);
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 0);
}

/* What is no file of ours is passed by, not followed, and stays. */
static void what_is_no_draft_stays(void **state) {
    struct stat st;
    (void)state;
    leave("victim", false);
    assert_int_equal(symlink("victim", in_folder(draft_name(0))), 0);
    assert_int_equal(symlink("nowhere", in_folder(draft_name(1))), 0);
    assert_int_equal(mkdir(in_folder(draft_name(2)), 0700), 0);
    assert_int_equal(mkfifo(in_folder(draft_name(3)), 0600), 0);
    assert_int_equal(written("file", "whole"), 4);
    holds("victim", "left");
    assert_false(is_there("nowhere"));
    for (unsigned n = 0; n < 4; n++) assert_true(is_there(draft_name(n)));
    assert_int_equal(lstat(in_folder(draft_name(0)), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    if (geteuid() != 0) return;
    leave(draft_name(4), false);
    assert_int_equal(chown(in_folder(draft_name(4)), 12345, 12345), 0);
    assert_int_equal(written("file", "whole"), 5);
    assert_true(is_there(draft_name(4)));
}

/* Where nothing can be locked nothing is known to be left: another number does. */
static void without_locks_another_number_serves(void **state) {
    (void)state;
    leave(draft_name(0), false);
    lock_error = ENOLCK;
    assert_int_equal(written("file", "whole"), 1);
    holds(draft_name(0), "left");
    lock_error = 0;
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 0);
}

/* Where another machine's writer may hold it by a lock that is not seen here, it goes an hour after
** the last write. */
static void on_far_file_systems_drafts_go_after_an_hour(void **state) {
    (void)state;
    far = true;
    leave(draft_name(0), false);
    age(draft_name(0), 30);
    assert_int_equal(written("file", "whole"), 1);
    age(draft_name(0), 61);
    assert_int_equal(written("file", "whole"), 0);
    assert_int_equal(drafts(), 0);
}

/* ---- many at once ---- */

enum { WRITERS = 4, ROUNDS = 200 };
static atomic_bool over;
static atomic_uint failures;

static void *write_rounds(void *number) {
    char name[32], text[64], found[64];
    for (int i = 0; i < ROUNDS; i++) {
        tidei_draft d;
        snprintf(name, sizeof name, "file %d", (int)(intptr_t)number);
        snprintf(text, sizeof text, "writer %d, round %d", (int)(intptr_t)number, i);
        bool ok = tidei_draft_open(folder_fd, 0600, &d);
        if (ok) ok = tidei_file_write(d.fd, text, 8, NULL);
        if (ok) sched_yield();
        if (ok)
            ok = tidei_file_write(d.fd, text + 8, strlen(text) - 8, NULL) &&
                 tidei_draft_keep(&d, name);
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (!ok || tidei_file_text(path, found, sizeof found) < 0 || strcmp(found, text) != 0)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

static void *sweep_rounds(void *unused) {
    while (!atomic_load(&over)) tidei_drafts_sweep(folder_fd);
    return unused;
}

static void writers_and_sweepers_leave_whole_files(void **state) {
    pthread_t writer[WRITERS], sweeper[2];
    (void)state;
    atomic_store(&over, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&sweeper[i], NULL, sweep_rounds, NULL), 0);
    for (intptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writer[i], NULL, write_rounds, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++) pthread_join(writer[i], NULL);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) pthread_join(sweeper[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(drafts(), 0);
}

/* ---- .npy files ---- in processes of their own: argv is "file", what to do, the folder */

static tide_runtime *open_small(void) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "refcount"};
    if (tide_open(&c, &rt) != TIDE_OK) exit(3);
    return rt;
}

#define ELEMENTS 4000000 /* 32 MB: a write that takes a while */

static int child(const char *what, const char *dir) {
    char path[400];
    snprintf(path, sizeof path, "%s/model.npy", dir);
    if (strcmp(what, "refused") == 0 && getuid() == 0 &&
        (setgroups(0, NULL) || setgid(12345) || setuid(12345)))
        return 4;
    tide_runtime *rt = open_small();
    tide_array *a = tide_arange(rt, TIDE_F64, 0, ELEMENTS, 1);
    if (!a) return 5;
    if (strcmp(what, "refused") == 0) {
        tide_status s = tide_npy_write(a, path);
        return s == TIDE_E_IO && strstr(tide_error_last()->message,
                                        "model.npy: opening failed: Permission denied")
                   ? 0
                   : 6;
    }
    for (bool for_ever = strcmp(what, "killed") == 0;;) {
        if (tide_npy_write(a, path) != TIDE_OK) return 7;
        if (!for_ever) break;
    }
    tide_release(a);
    tide_close(rt);
    return 0;
}

static pid_t start(const char *what) {
    const pid_t here = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* one of them would write for ever */
        if (getppid() != here) _exit(98);
        execl("/proc/self/exe", "test_draft", "child", what, folder, (char *)NULL);
        _exit(99);
    }
    return pid;
}

static void ends_well(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void is_whole(tide_runtime *rt) {
    tide_array *a = tide_npy_read(rt, in_folder("model.npy"));
    assert_array(a);
    assert_int_equal(tide_array_size(a), ELEMENTS);
    tide_array *s = tide_slice(a, "-1");
    assert_true(tide_item_f64(s) == ELEMENTS - 1);
    tide_release(s);
    tide_release(a);
}

/* Again and again in the middle of a write: what was there stays, or is whole, and the next writer
** clears up. */
static void a_killed_writer_leaves_the_old_file_or_the_new(void **state) {
    (void)state;
    test_needs_children();
    ends_well(start("once"));
    for (int i = 0; i < (test_quick() ? 2 : 5); i++) {
        pid_t pid = start("killed");
        while (drafts() < 1 && waitpid(pid, NULL, WNOHANG) == 0) usleep(200);
        usleep(1000 * (unsigned)i);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_true(drafts() <= 1);
    }
    leave(draft_name(1), false); /* one is left in any case */
    leave(draft_name(9), false);
    ends_well(start("once"));
    assert_int_equal(drafts(), 0);
    tide_runtime *rt = open_small();
    is_whole(rt);
    tide_close(rt);
}

static void several_write_one_file_at_once(void **state) {
    pid_t pid[3];
    (void)state;
    test_needs_children();
    for (int i = 0; i < 3; i++) pid[i] = start("once");
    for (int i = 0; i < 3; i++) ends_well(pid[i]);
    assert_int_equal(drafts(), 0);
    tide_runtime *rt = open_small();
    is_whole(rt);
    tide_close(rt);
}

static void a_folder_that_refuses_is_told(void **state) {
    (void)state;
    test_needs_children();
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t pid = start("refused");
    ends_well(pid);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(drafts(), 0);
    assert_false(is_there("model.npy"));
}

static void npy_writes_past_drafts_that_were_left(void **state) {
    (void)state;
    tide_runtime *rt = open_small();
    tide_array *a = tide_arange(rt, TIDE_F64, 0, ELEMENTS, 1);
    leave("victim", false);
    assert_int_equal(symlink("victim", in_folder(draft_name(0))), 0);
    leave(draft_name(1), false);
    assert_ok(tide_npy_write(a, in_folder("model.npy")));
    assert_ok(tide_npy_write(a, in_folder("model.npy"))); /* in place of one */
    is_whole(rt);
    holds("victim", "left");
    assert_int_equal(drafts(), 1); /* the link */
    tide_release(a);
    tide_close(rt);
}

/* In the folder that the program is in, whatever is above it. */
static void relative_paths_stay_in_the_folder(void **state) {
    (void)state;
    char *here = getcwd(NULL, 0);
    tide_runtime *rt = open_small();
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
    assert_int_equal(chdir(folder), 0);
    assert_ok(tide_npy_write(a, "plain.npy"));
    assert_ok(tide_npy_write(a, "./dotted.npy"));
    assert_int_equal(mkdir("below", 0700), 0);
    assert_ok(tide_npy_write(a, "below/deep.npy"));
    assert_int_equal(access("below/deep.npy", F_OK), 0);
    assert_int_equal(unlink("below/deep.npy"), 0);
    assert_int_equal(tide_npy_write(a, "below/"), TIDE_E_IO);
    assert_int_equal(tide_npy_write(a, ""), TIDE_E_IO);
    assert_int_equal(chdir(here), 0);
    free(here);
    assert_true(is_there("plain.npy") && is_there("dotted.npy"));
    tide_release(a);
    tide_close(rt);
}

static void *no_alloc(void *countdown, size_t bytes) {
    return (*(int *)countdown)-- == 0 ? NULL : malloc(bytes);
}
static void plain_free(void *unused, void *p) {
    (void)unused;
    free(p);
}

/* Host memory that is exhausted is told as such, wherever it was wanted. */
static void exhausted_host_memory_is_told(void **state) {
    (void)state;
    int countdown = -1;
    tide_allocator host = {no_alloc, plain_free, &countdown};
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "refcount",
                     .allocator = &host};
    assert_ok(tide_open(&c, &rt));
    tide_array *a = tide_zeros(rt, TIDE_F32, SHAPE(3));
    assert_ok(tide_npy_write(a, in_folder("a.npy")));
    no_realpath = true;
    assert_int_equal(tide_npy_write(a, in_folder("a.npy")), TIDE_E_HOST_NOMEM);
    assert_error(TIDE_E_HOST_NOMEM, "a.npy: opening failed: Cannot allocate memory");
    no_realpath = false;
    countdown = 0; /* the buffer's */
    assert_int_equal(tide_npy_write(a, in_folder("a.npy")), TIDE_E_HOST_NOMEM);
    countdown = -1;
    assert_int_equal(drafts(), 0);
    tide_array *b = tide_npy_read(rt, in_folder("a.npy"));
    assert_array(b);
    tide_release(a);
    tide_release(b);
    tide_close(rt);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "child") == 0) return child(argv[2], argv[3]);
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_draft_is_kept_or_dropped),
        CASE(a_drafts_name_is_known),
        CASE(drafts_being_written_stay),
        CASE(drafts_of_killed_writers_go),
        CASE(what_is_no_draft_stays),
        CASE(without_locks_another_number_serves),
        CASE(on_far_file_systems_drafts_go_after_an_hour),
        CASE(writers_and_sweepers_leave_whole_files),
        CASE(a_killed_writer_leaves_the_old_file_or_the_new),
        CASE(several_write_one_file_at_once),
        CASE(a_folder_that_refuses_is_told),
        CASE(npy_writes_past_drafts_that_were_left),
        CASE(relative_paths_stay_in_the_folder),
        CASE(exhausted_host_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
