/* cache.c: compiled kernels on disk.
**
** An entry is one file: a header, the whole key, the image. Its name is the XXH3-128 of the key,
** which only finds it: the stored key is compared, so a collision is a miss. The image's XXH3-64 is
** checked. Entries are written as drafts (runtime/base/draft.h), so no lock is needed between
** threads or processes, and what a killed writer leaves is removed.
** What must stay true: code is run only from files that nobody but this user could have written.
** The folder must be the user's own and writable by none else, else the cache is off; and so must
** each entry, else it is removed. Any failure is silent: a kernel is then compiled. */
#include "arrays/kernels/cache.h"
#include "runtime/base/draft.h"
#include "runtime/base/files.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define NAME_BYTES 64               /* room for a file's name */
#define ENTRY_MAX  (64 * TIDEI_MIB) /* a file beyond this is not ours */
/* seconds; an entry in use is marked so at most this often */
#define TOUCH_AFTER (24 * 60 * 60)
/* pruning goes this far, so that not every new entry prunes */
#define KEEP_OF_BOUND(max) ((max) / 4 * 3)
/* bytes added after which the folder is counted again, for others add too */
#define RECOUNT(max) ((max) / 16)

static const char suffix[] = ".kernel";

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
    if (tidei_format(p, sizeof p, "%s", path) >= (int)sizeof p) return false;
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
    int fd = make_folders(path) ? tidei_file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0) : -1;
    bool there = fd >= 0 && fstat(fd, &st) == 0;
    *error = there ? 0 : errno;
    if (there && ours_alone(&st)) return fd;
    if (fd >= 0) tidei_file_close(fd);
    return -1;
}

/* The folder that the environment named is a bad value there; another one is of little interest,
** unless it cannot be trusted. */
static void tell_off(tidei_runtime *rt, int error) {
    const char *path = rt->set.cache_dir, *named = secure_getenv("TIDE_CACHE_DIR");
    const char *why = error ? tidei_errno_text(error) : "others can write to it";
    if (!rt->set.cache_dir_given && named && !strcmp(named, path))
        tidei_warn_environment(rt, "TIDE_CACHE_DIR", path, ": %s; the kernel cache is off", why);
    else
        tidei_log(rt, error ? TIDE_LOG_DEBUG : TIDE_LOG_WARNING,
                  "kernel cache: %s: %s; the cache is off", path, why);
}

static int folder_of(tidei_kernel_cache *c) {
    TIDEI_UNCANCELLED;
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
    if (c->folder >= 0) tidei_file_close(c->folder);
    pthread_mutex_destroy(&c->lock);
    tidei_host_free(c->rt, c);
}

static void entry_name(char name[NAME_BYTES], const char *key, size_t key_bytes) {
    XXH128_hash_t h = XXH3_128bits(key, key_bytes);
    tidei_format(name, NAME_BYTES, "%016llx%016llx%s", (unsigned long long)h.high64,
                 (unsigned long long)h.low64, suffix);
}

/* ---- reading ---- */

typedef enum verdict {
    WHOLE,
    DAMAGED,
    UNREAD
} verdict; /* UNREAD: it may be whole, but could not be had this time */

static verdict read_all(int fd, void *to, size_t bytes) {
    ssize_t n = tidei_file_read(fd, to, bytes, -1);
    return n < 0 ? UNREAD : (size_t)n < bytes ? DAMAGED : WHOLE;
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
static verdict read_entry(int fd, const char *key, size_t key_bytes, struct stat *st, void **image,
                          size_t *bytes) {
    header h;
    if (fstat(fd, st)) return UNREAD;
    size_t size = (size_t)st->st_size;
    if (!S_ISREG(st->st_mode) || !ours_alone(st) || size <= sizeof h + key_bytes ||
        size > ENTRY_MAX)
        return DAMAGED;
    verdict v = read_all(fd, &h, sizeof h);
    if (v != WHOLE) return v;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != VERSION || h.reserved ||
        h.key_bytes != key_bytes || h.image_bytes == 0 ||
        h.image_bytes != size - sizeof h - key_bytes)
        return DAMAGED;
    *bytes = h.image_bytes;
    v = read_key(fd, key, key_bytes);
    return v == WHOLE ? read_image(fd, &h, image) : v;
}

bool tidei_kernel_cache_find(tidei_kernel_cache *c, const char *key, size_t key_bytes, void **image,
                             size_t *bytes) {
    TIDEI_UNCANCELLED;
    char name[NAME_BYTES];
    struct stat st;
    int folder = folder_of(c);
    if (folder < 0) return false;
    entry_name(name, key, key_bytes);
    int fd = tidei_file_open(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return false;
    verdict v = read_entry(fd, key, key_bytes, &st, image, bytes);
    int reason = errno;
    if (v == WHOLE && time(NULL) - st.st_mtime > TOUCH_AFTER) futimens(fd, NULL);
    tidei_file_close(fd);
    if (v == UNREAD)
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s cannot be read: %s", name,
                  tidei_errno_text(reason));
    if (v == DAMAGED) {
        tidei_log(c->rt, TIDE_LOG_DEBUG,
                  "kernel cache: %s is damaged, of another kernel, or open to others; removed",
                  name);
        unlinkat(folder, name, 0);
    }
    return v == WHOLE;
}

void tidei_kernel_cache_forget(tidei_kernel_cache *c, const char *key, size_t key_bytes) {
    TIDEI_UNCANCELLED;
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

/* The cache's own files by their form: anything else in the folder is somebody else's, and
** stays. */
static bool is_ours(const char *name) {
    size_t n = strspn(name, "0123456789abcdef");
    return n == 32 && strcmp(name + n, suffix) == 0;
}

typedef struct entries {
    int folder;
    entry *at;
    size_t n, room;
} entries;

static bool list_entry(void *list, const char *name) {
    entries *x = list;
    struct stat st;
    if (!is_ours(name) || fstatat(x->folder, name, &st, AT_SYMLINK_NOFOLLOW)) return true;
    if (x->n == x->room) {
        entry *more = realloc(x->at, (x->room = x->room ? x->room * 2 : 256) * sizeof *more);
        if (!more) return false;
        x->at = more;
    }
    entry *e = &x->at[x->n++];
    tidei_format(e->name, NAME_BYTES, "%s", name);
    e->bytes = (size_t)st.st_size;
    e->used = st.st_mtim;
    return true;
}

static int by_age(const void *x, const void *y) {
    const entry *a = x, *b = y;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Counts the folder, and where it is beyond its bound removes what was used longest ago. Returns
** what it holds then. */
static size_t count_and_prune(tidei_kernel_cache *c, int folder) {
    size_t total = 0, max = c->rt->set.cache_max;
    entries x = {.folder = folder};
    tidei_drafts_sweep(folder);
    tidei_folder_each(folder, list_entry, &x);
    for (size_t i = 0; i < x.n; i++) total += x.at[i].bytes;
    if (total > max) {
        size_t before = total;
        qsort(x.at, x.n, sizeof *x.at, by_age);
        for (size_t i = 0; i < x.n && total > KEEP_OF_BOUND(max); i++)
            if (unlinkat(folder, x.at[i].name, 0) == 0) total -= x.at[i].bytes;
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: pruned from %zu to %zu bytes", before,
                  total);
    }
    free(x.at);
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

void tidei_kernel_cache_keep(tidei_kernel_cache *c, const char *key, size_t key_bytes,
                             const void *image, size_t bytes) {
    TIDEI_UNCANCELLED;
    char name[NAME_BYTES];
    tidei_draft d;
    header h = {.version = VERSION, .key_bytes = key_bytes, .image_bytes = bytes};
    size_t total = sizeof h + key_bytes + bytes;
    int folder = folder_of(c);
    if (folder < 0 || bytes == 0 || total > ENTRY_MAX || total > c->rt->set.cache_max) return;
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = XXH3_64bits(image, bytes);
    entry_name(name, key, key_bytes);
    if (!tidei_draft_open(folder, 0600, &d)) {
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s: %s", name, tidei_errno_text(errno));
        return;
    }
    bool whole = tidei_file_write(d.fd, &h, sizeof h, NULL) &&
                 tidei_file_write(d.fd, key, key_bytes, NULL) &&
                 tidei_file_write(d.fd, image, bytes, NULL);
    if (!whole) tidei_draft_drop(&d);
    if (!whole || !tidei_draft_keep(&d, name)) {
        tidei_log(c->rt, TIDE_LOG_DEBUG, "kernel cache: %s: %s", name, tidei_errno_text(errno));
        return;
    }
    note_new(c, folder, total);
}
