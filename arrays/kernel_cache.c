/* kernel_cache.c: compiled kernels on disk.
**
** An entry is one file: a header, the whole key, the image. Its name is the XXH3-128 of the key, which only finds it: the
** stored key is compared, so a collision is a miss. The image's XXH3-64 is checked. Entries are written to a file of another
** name and renamed, so no lock is needed between threads or processes, and a killed writer leaves nothing but its own file.
** What must stay true: code is run only from files that nobody but this user could have written. The folder must be the
** user's own and writable by none else, else the cache is off; and so must each entry, else it is removed. Any failure is
** silent: a kernel is then compiled. */
#include "arrays/kernel_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define NAME_BYTES         64               /* room for a file's name */
#define ENTRY_MAX          (64 * TIDEI_MIB) /* a file beyond this is not ours */
#define TOUCH_AFTER        (24 * 60 * 60)   /* seconds; an entry in use is marked so at most this often */
#define ABANDONED          (60 * 60)        /* seconds; an unfinished file this old has lost its writer */
#define KEEP_OF_BOUND(max) ((max) / 4 * 3)  /* pruning goes this far, so that not every new entry prunes */
#define RECOUNT(max)       ((max) / 16) /* bytes added after which the folder is counted again, for others add too */

static const char suffix[] = ".kernel", part_suffix[] = ".part";

typedef struct header { /* host byte order: the folder serves one machine */
    char magic[8];
    uint32_t version;
    uint32_t reserved;
    uint64_t key_bytes, image_bytes;
    uint64_t checksum; /* XXH3-64 of the image */
} header;
static const char magic[8] = "TIDEKRN";
#define VERSION 1

struct tidei_kernel_cache {
    tidei_runtime *rt;
    atomic_uint parts;    /* unfinished files so far, for their names */
    pthread_mutex_t lock; /* what follows */
    bool looked;          /* at the folder */
    int folder;           /* -1: the cache is off */
    size_t bytes;         /* how much it held when it was counted; SIZE_MAX: not counted yet */
    size_t added;         /* since then, by this runtime */
};

/* ---- the folder ---- */

/* Makes the folder and its missing parents, each for this user alone. */
static bool make_folders(const char *path) {
    char p[sizeof((tidei_settings *)0)->cache_dir];
    if (snprintf(p, sizeof p, "%s", path) >= (int)sizeof p) return false;
    for (char *at = strchr(p + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(p, 0700) && errno != EEXIST) return false;
        *at = '/';
    }
    return mkdir(p, 0700) == 0 || errno == EEXIST;
}

static bool ours_alone(const struct stat *st) {
    return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The folder, open; -1 if it cannot be had (*error: why), or must not be trusted (*error: 0). */
static int open_folder(const char *path, int *error) {
    struct stat st;
    int fd = make_folders(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool there = fd >= 0 && fstat(fd, &st) == 0;
    *error = there ? 0 : errno;
    if (there && ours_alone(&st)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* The folder that the environment named is a bad value there; another one is of little interest,
** unless it cannot be trusted. */
static void tell_off(tidei_runtime *rt, int error) {
    const char *path = rt->set.cache_dir, *named = secure_getenv("TIDE_CACHE_DIR");
    const char *why = error ? strerror(error) : "others can write to it";
    if (!rt->set.cache_dir_given && named && !strcmp(named, path))
        tidei_warn_environment(rt, "TIDE_CACHE_DIR", path, ": %s; the kernel cache is off", why);
    else
        tidei_log(rt, error ? TIDE_LOG_DEBUG : TIDE_LOG_WARNING, "kernel cache: %s: %s; the cache is off",
                  path, why);
}

static int folder_of(tidei_kernel_cache *c) {
    const tidei_settings *set = &c->rt->set;
    int error = 0;
    pthread_mutex_lock(&c->lock);
    bool looks = !c->looked && set->cache && *set->cache_dir && set->cache_max != 0;
    c->looked = true;
    if (looks) c->folder = open_folder(set->cache_dir, &error);
    int fd = c->folder;
    pthread_mutex_unlock(&c->lock);
    if (looks && fd < 0) tell_off(c->rt, error);
    return fd;
}

tidei_kernel_cache *tidei_kernel_cache_open(tidei_runtime *rt) {
    tidei_kernel_cache *c = tidei_host_alloc(rt, sizeof *c);
    if (!c) return NULL;
    c->rt = rt;
    c->folder = -1;
    c->bytes = SIZE_MAX;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void tidei_kernel_cache_close(tidei_kernel_cache *c) {
    if (!c) return;
    if (c->folder >= 0) close(c->folder);
    pthread_mutex_destroy(&c->lock);
    tidei_host_free(c->rt, c);
}

static void entry_name(char name[NAME_BYTES], const char *key, size_t key_bytes) {
    XXH128_hash_t h = XXH3_128bits(key, key_bytes);
    snprintf(name, NAME_BYTES, "%016llx%016llx%s", (unsigned long long)h.high64, (unsigned long long)h.low64,
             suffix);
}

/* ---- reading ---- */

typedef enum verdict {
    WHOLE,
    DAMAGED,
    UNREAD
} verdict; /* UNREAD: it may be whole, but could not be had this time */

static verdict read_all(int fd, void *to, size_t bytes) {
    char *p = to;
    while (bytes) {
        ssize_t n = read(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return UNREAD;
        if (n == 0) return DAMAGED;
        p += n;
        bytes -= (size_t)n;
    }
    return WHOLE;
}

static verdict read_key(int fd, const char *key, size_t key_bytes) {
    char *stored = malloc(key_bytes);
    verdict v = stored ? read_all(fd, stored, key_bytes) : UNREAD;
    if (v == WHOLE && memcmp(stored, key, key_bytes) != 0) v = DAMAGED;
    free(stored);
    return v;
}

static verdict read_image(int fd, const header *h, void **image) {
    void *p = malloc(h->image_bytes);
    verdict v = p ? read_all(fd, p, h->image_bytes) : UNREAD;
    if (v == WHOLE && XXH3_64bits(p, h->image_bytes) != h->checksum) v = DAMAGED;
    if (v == WHOLE)
        *image = p;
    else
        free(p);
    return v;
}

/* The image of an open entry, if all in it is as it was written. */
static verdict read_entry(int fd, const char *key, size_t key_bytes, struct stat *st, void **image, size_t *bytes) {
    header h;
    if (fstat(fd, st)) return UNREAD;
    size_t size = (size_t)st->st_size;
    if (!S_ISREG(st->st_mode) || !ours_alone(st) || size <= sizeof h + key_bytes || size > ENTRY_MAX)
        return DAMAGED;
    verdict v = read_all(fd, &h, sizeof h);
    if (v != WHOLE) return v;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != VERSION || h.reserved ||
        h.key_bytes != key_bytes || h.image_bytes == 0 || h.image_bytes != size - sizeof h - key_bytes)
        return DAMAGED;
    *bytes = h.image_bytes;
    v = read_key(fd, key, key_bytes);
    return v == WHOLE ? read_image(fd, &h, image) : v;
}

bool tidei_kernel_cache_find(tidei_kernel_cache *c, const char *key, size_t key_bytes, void **image,
                             size_t *bytes) {
    char name[NAME_BYTES];
    struct stat st;
    int folder = folder_of(c);
    if (folder < 0) return false;
    entry_name(name, key, key_bytes);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    verdict v = read_entry(fd, key, key_bytes, &st, image, bytes);
    int reason = errno;
    if (v == WHOLE && time(NULL) - st.st_mtime > TOUCH_AFTER) futimens(fd, NULL);
    close(fd);
    if (v == UNREAD)
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s cannot be read: %s", name, strerror(reason));
    if (v == DAMAGED) {
        tidei_log(c->rt, TIDE_LOG_DEBUG,
                  "kernel cache: %s is damaged, of another kernel, or open to others; removed", name);
        unlinkat(folder, name, 0);
    }
    return v == WHOLE;
}

void tidei_kernel_cache_forget(tidei_kernel_cache *c, const char *key, size_t key_bytes) {
    char name[NAME_BYTES];
    int folder = folder_of(c);
    if (folder < 0) return;
    entry_name(name, key, key_bytes);
    unlinkat(folder, name, 0);
}

/* ---- the bound ---- */

typedef struct entry {
    char name[NAME_BYTES];
    size_t bytes;
    struct timespec used;
} entry;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* The cache's own files by their form: anything else in the folder is somebody else's, and stays. */
static bool is_ours(const char *name, const char *end) {
    return strlen(name) < NAME_BYTES && ends_with(name, end) && strspn(name, "0123456789abcdef") == 32;
}

/* All entries; the caller frees. Unfinished files whose writer must be gone are removed on the way. */
static entry *list_entries(int folder, size_t *count) {
    entry *list = NULL;
    size_t n = 0, room = 0;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        bool part = is_ours(e->d_name, part_suffix);
        if ((!part && !is_ours(e->d_name, suffix)) || fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (part) {
            if (time(NULL) - st.st_mtime > ABANDONED) unlinkat(folder, e->d_name, 0);
            continue;
        }
        if (n == room) {
            entry *more = realloc(list, (room = room ? room * 2 : 256) * sizeof *list);
            if (!more) break;
            list = more;
        }
        snprintf(list[n].name, NAME_BYTES, "%.*s", NAME_BYTES - 1, e->d_name);
        list[n].bytes = (size_t)st.st_size;
        list[n++].used = st.st_mtim;
    }
    closedir(dir);
    *count = n;
    return list;
}

static int by_age(const void *x, const void *y) {
    const entry *a = x, *b = y;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Counts the folder, and where it is beyond its bound removes what was used longest ago. Returns what it holds then. */
static size_t count_and_prune(tidei_kernel_cache *c, int folder) {
    size_t n = 0, total = 0, max = c->rt->set.cache_max;
    entry *list = list_entries(folder, &n);
    for (size_t i = 0; i < n; i++) total += list[i].bytes;
    if (total > max) {
        size_t before = total;
        qsort(list, n, sizeof *list, by_age);
        for (size_t i = 0; i < n && total > KEEP_OF_BOUND(max); i++)
            if (unlinkat(folder, list[i].name, 0) == 0) total -= list[i].bytes;
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: pruned from %zu to %zu bytes", before, total);
    }
    free(list);
    return total;
}

static void note_new(tidei_kernel_cache *c, int folder, size_t bytes) {
    pthread_mutex_lock(&c->lock);
    size_t max = c->rt->set.cache_max;
    c->added += bytes;
    bool look = c->bytes == SIZE_MAX || c->added > RECOUNT(max) || c->bytes + c->added > max;
    pthread_mutex_unlock(&c->lock);
    if (!look) return;
    size_t now = count_and_prune(c, folder);
    pthread_mutex_lock(&c->lock);
    c->bytes = now;
    c->added = 0;
    pthread_mutex_unlock(&c->lock);
}

/* ---- writing ---- */

static bool write_all(int fd, const void *from, size_t bytes) {
    const char *p = from;
    while (bytes) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

void tidei_kernel_cache_keep(tidei_kernel_cache *c, const char *key, size_t key_bytes, const void *image,
                             size_t bytes) {
    char name[NAME_BYTES], part[2 * NAME_BYTES];
    header h = {.version = VERSION, .key_bytes = key_bytes, .image_bytes = bytes};
    size_t total = sizeof h + key_bytes + bytes;
    int folder = folder_of(c);
    if (folder < 0 || bytes == 0 || total > ENTRY_MAX || total > c->rt->set.cache_max) return;
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = XXH3_64bits(image, bytes);
    entry_name(name, key, key_bytes);
    snprintf(part, sizeof part, "%.32s-%lx-%x%s", name, (unsigned long)getpid(), atomic_fetch_add(&c->parts, 1),
             part_suffix);
    int fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s: %s", part, strerror(errno));
        return;
    }
    bool whole = write_all(fd, &h, sizeof h) && write_all(fd, key, key_bytes) && write_all(fd, image, bytes);
    if (close(fd)) whole = false;
    if (!whole || renameat(folder, part, folder, name)) {
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s: %s", name, strerror(errno));
        unlinkat(folder, part, 0);
        return;
    }
    note_new(c, folder, total);
}
