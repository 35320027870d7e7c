/* fuzz_kernels.c: the kernel cache's folder, with entries that are damaged, cut, foreign, or no
** files at all.
**
** An input is a script: a letter, the bytes that it takes, the next letter; other bytes are
** nothing. K chooses an entry, of whose kernels some are the program's own, two those of a runtime
** on a device that runs text. (tests/corpus/kernels: digits choose entries in their order.)
**   kK  keep, fK  find, gK  forget      iK    the entry anew, whole     c  another cache object
**   bK  a byte changed: 2 of place, 1   tK    another length: 2         h  a number of the header:
**   2
**   mK  the checksum mended             oK    old by two days           aK  another mode: 1
**   sKK the one becomes the other       wK    the input's bytes: 1 of length, themselves
**   lK  something else instead: 1       nK    another file in the folder: 1
**   pK  another bound of the folder     e     a runtime asks for its two
** A slow reader says before each call what must come of it. What is found is whole and its key's;
** what is whole is found. A call removes and writes what the headers promise and nothing else, in
** the folder and beside it, where links lead. */
#define FUZZ_RUNS 4000
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "arrays/kernels/cache.h"
#include "arrays/kernels/kernels.h"
#include "tests/fuzz/fuzz.h"
#include "tests/doubles/text_host.h"
#include "tests/support/tidetest.h"

#define OWN        4 /* entries with keys of the program's own; then there are the runtime's */
#define ENTRIES    6
#define COMMANDS   48             /* of a script */
#define ASKS       2              /* runtimes of a script */
#define FILES      64             /* in a folder, at most */
#define PATH       160            /* bytes */
#define LOOKED_AT  (20u << 10)    /* bytes of a file that a snapshot tells apart */
#define BEYOND_ANY (64 << 20 | 1) /* bytes: more than an entry may have */

static char scratch[64], cached[PATH], beside[PATH];

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_kernels: %s (%s)\n", what, strerror(errno));
    abort();
}
static void text_host_saw(const char *source) {
    require(strstr(source, "kernel of the fuzzer") != NULL, "a text");
}

static const char *path_in(const char *folder, const char *name) {
    static char paths[4][2 * PATH];
    static unsigned turn;
    char *p = paths[turn++ % 4];
    require(snprintf(p, sizeof paths[0], "%s/%s", folder, name) < (int)sizeof paths[0],
            "a long name");
    return p;
}

/* ---- entries ---- */

typedef struct header { /* as arrays/kernels/cache.c writes it */
    char magic[8];
    uint32_t version, reserved;
    uint64_t key_bytes, image_bytes, checksum;
} header;

typedef struct entry {
    char name[64];
    unsigned char *key, *image;
    size_t key_bytes, image_bytes;
} entry;
static entry entries[ENTRIES];
static const char *const sources[] = {"kernel of the fuzzer: one", "kernel of the fuzzer: two"};

static void fill(unsigned char *p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static void name_entry(entry *e) {
    XXH128_hash_t h = XXH3_128bits(e->key, e->key_bytes);
    snprintf(e->name, sizeof e->name, "%016llx%016llx.kernel", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
}

static void make_own(unsigned i) {
    static const size_t keys[OWN] = {1, 39, 300, 5000}, images[OWN] = {1, 100, 300, 9000};
    entry *e = &entries[i];
    e->key_bytes = keys[i];
    e->image_bytes = images[i];
    e->key = malloc(e->key_bytes);
    e->image = malloc(e->image_bytes);
    require(e->key && e->image, "memory");
    fill(e->key, e->key_bytes, i + 1);
    fill(e->image, e->image_bytes, i + 100);
    name_entry(e);
}

/* The whole file of an entry; freed by the caller. */
static unsigned char *file_of(const entry *e, size_t *n) {
    header h = {
        "TIDEKRN", 1, 0, e->key_bytes, e->image_bytes, XXH3_64bits(e->image, e->image_bytes)};
    unsigned char *p = malloc(*n = sizeof h + e->key_bytes + e->image_bytes);
    require(p != NULL, "memory");
    memcpy(p, &h, sizeof h);
    memcpy(p + sizeof h, e->key, e->key_bytes);
    memcpy(p + sizeof h + e->key_bytes, e->image, e->image_bytes);
    return p;
}

static void write_file(const char *path, const void *bytes, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0, path);
}

/* What is at the path goes, whatever it is. */
static void clear(const char *path) {
    if (unlink(path) && errno == EISDIR) require(rmdir(path) == 0, path);
}

/* ---- the slow reader ---- */

/* The image of what lies at the path, if that is a whole entry of this key; freed by the caller. */
static unsigned char *read_slowly(const entry *e, size_t *n) {
    static unsigned char bytes[LOOKED_AT];
    const char *path = path_in(cached, e->name);
    struct stat st;
    header h;
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_mode & 022 || st.st_uid != geteuid())
        return NULL;
    int fd = open(path, O_RDONLY);
    if (fd < 0) return NULL; /* a mode that bars even its owner */
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    /* none is so long here */
    if (size != st.st_size || (size_t)size <= sizeof h + e->key_bytes) return NULL;
    memcpy(&h, bytes, sizeof h);
    *n = (size_t)size - sizeof h - e->key_bytes;
    const unsigned char *image = bytes + sizeof h + e->key_bytes;
    if (memcmp(h.magic, "TIDEKRN", 8) || h.version != 1 || h.reserved ||
        h.key_bytes != e->key_bytes || h.image_bytes != *n ||
        memcmp(bytes + sizeof h, e->key, e->key_bytes) || h.checksum != XXH3_64bits(image, *n))
        return NULL;
    unsigned char *copy = malloc(*n);
    require(copy != NULL, "memory");
    return memcpy(copy, image, *n);
}

static bool is_whole(const entry *e) {
    size_t n;
    unsigned char *image = read_slowly(e, &n);
    free(image);
    return image != NULL;
}

/* ---- what is in a folder ---- */

typedef struct thing {
    char name[64];
    struct stat st;
    uint64_t content;
} thing;
typedef struct things {
    thing at[FILES];
    size_t n;
} things;

static uint64_t content_of(const char *path, const struct stat *st) {
    static unsigned char bytes[LOOKED_AT];
    ssize_t n = 0;
    int fd = S_ISREG(st->st_mode) ? open(path, O_RDONLY | O_NOATIME) : -1;
    if (S_ISLNK(st->st_mode)) n = readlink(path, (char *)bytes, sizeof bytes);
    if (fd >= 0) n = read(fd, bytes, sizeof bytes);
    if (fd >= 0) close(fd);
    return n > 0 ? XXH3_64bits(bytes, (size_t)n) : 0;
}

static void look_at(const char *folder, things *out) {
    DIR *d = opendir(folder);
    require(d != NULL, folder);
    out->n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        thing *t = &out->at[out->n];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        require(++out->n < FILES && strlen(e->d_name) < sizeof t->name, "too many files");
        strcpy(t->name, e->d_name);
        require(lstat(path_in(folder, t->name), &t->st) == 0, t->name);
        t->content = content_of(path_in(folder, t->name), &t->st);
    }
    closedir(d);
}

static const thing *thing_of(const things *x, const char *name) {
    for (size_t i = 0; i < x->n; i++)
        if (!strcmp(x->at[i].name, name)) return &x->at[i];
    return NULL;
}
static bool is_same(const thing *a, const thing *b) {
    return a->st.st_ino == b->st.st_ino && a->st.st_mode == b->st.st_mode &&
           a->st.st_size == b->st.st_size && a->content == b->content;
}
static bool is_same_age(const thing *a, const thing *b) {
    return a->st.st_mtim.tv_sec == b->st.st_mtim.tv_sec &&
           a->st.st_mtim.tv_nsec == b->st.st_mtim.tv_nsec;
}

/* 32 small hexadecimal digits and the ending: an entry by its name, whosever it is. */
static bool is_entry_name(const char *name) {
    return strspn(name, "0123456789abcdef") == 32 && !strcmp(name + 32, ".kernel");
}
static bool is_left_draft(const thing *t) {
    return S_ISREG(t->st.st_mode) && !strncmp(t->name, ".tidepool-", 10) &&
           strstr(t->name, ".part");
}

static size_t entry_bytes(const things *x) {
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += is_entry_name(x->at[i].name) ? (size_t)x->at[i].st.st_size : 0;
    return n;
}

/* ---- the state of a script ---- */

static struct {
    tide_runtime *rt;
    tidei_kernel_cache *cache;
    things cached, beside; /* as they were before a call */
    unsigned asked;
} world;

static tidei_settings *settings(void) { return &test_rt(world.rt)->set; }

static void renew_cache(void) {
    tidei_kernel_cache_close(world.cache);
    world.cache = tidei_kernel_cache_open(test_rt(world.rt));
    require(world.cache != NULL, "a cache");
}

static void before_call(void) {
    look_at(cached, &world.cached);
    look_at(beside, &world.beside);
}

/* What must have stayed. `but`: an entry that may be anything; NULL: none. `prunes`: other entries
** may be gone, `sweeps`: drafts that nobody holds may. */
static void after_call(const entry *but, bool prunes, bool sweeps) {
    static things now;
    look_at(beside, &now);
    require(now.n == world.beside.n, "another number of files beside the folder");
    for (size_t i = 0; i < now.n; i++) {
        const thing *was = thing_of(&world.beside, now.at[i].name);
        require(was && is_same(was, &now.at[i]) && is_same_age(was, &now.at[i]),
                "a file beside the folder changed");
    }
    look_at(cached, &now);
    for (size_t i = 0; i < now.n; i++) {
        const thing *was = thing_of(&world.cached, now.at[i].name);
        if (but && !strcmp(now.at[i].name, but->name)) continue;
        require(was && is_same(was, &now.at[i]) && is_same_age(was, &now.at[i]),
                "another file changed");
    }
    for (size_t i = 0; i < world.cached.n; i++) {
        const thing *was = &world.cached.at[i];
        if ((but && !strcmp(was->name, but->name)) || thing_of(&now, was->name)) continue;
        if (prunes && is_entry_name(was->name) && !S_ISDIR(was->st.st_mode)) continue;
        require(sweeps && is_left_draft(was), "another file is gone");
    }
}

/* ---- calls ---- */

static void find(const entry *e) {
    size_t wanted_bytes = 0, bytes = 0;
    void *image = NULL;
    before_call();
    unsigned char *wanted = read_slowly(e, &wanted_bytes);
    const bool found =
        tidei_kernel_cache_find(world.cache, (char *)e->key, e->key_bytes, &image, &bytes);
    require(found == (wanted != NULL),
            found ? "found though it is not whole" : "not found though it is whole");
    if (found) require(bytes == wanted_bytes && !memcmp(image, wanted, bytes), "another image");
    after_call(e, false, false);
    struct stat st;
    if (found) { /* it stays, and is marked as used */
        require(lstat(path_in(cached, e->name), &st) == 0 &&
                    time(NULL) - st.st_mtime < 25 * 60 * 60,
                "not marked");
        free(image);
        /* what is damaged goes, but not what no read reaches */
    } else if (lstat(path_in(cached, e->name), &st) == 0) {
        require(!S_ISREG(st.st_mode) || !(st.st_mode & 0400), "what is damaged stays");
    }
    free(wanted);
}

static void forget(const entry *e) {
    struct stat st;
    before_call();
    tidei_kernel_cache_forget(world.cache, (char *)e->key, e->key_bytes);
    after_call(e, false, false);
    require(lstat(path_in(cached, e->name), &st) || S_ISDIR(st.st_mode), "a forgotten entry stays");
}

static void keep(const entry *e) {
    static things now;
    before_call();
    const size_t total = sizeof(header) + e->key_bytes + e->image_bytes,
                 max = settings()->cache_max;
    const thing *was = thing_of(&world.cached, e->name);
    const size_t old = was ? (size_t)was->st.st_size : 0,
                 all = entry_bytes(&world.cached) - old + total;
    tidei_kernel_cache_keep(world.cache, (char *)e->key, e->key_bytes, e->image, e->image_bytes);
    if (total > max) {
        after_call(NULL, false, false);
        return;
    }
    after_call(e, all > max, true);
    look_at(cached, &now);
    const thing *is = thing_of(&now, e->name);
    if (was && S_ISDIR(was->st.st_mode))
        require(is && is_same(was, is), "a folder changed");
    else if (is || all <= max)
        require(is && is_whole(e) && (is->st.st_mode & 0777) == 0600, "what is kept is not whole");
}

/* A runtime asks for its kernels: what it loads is theirs (text_host.h looks), what is not whole is
** compiled. Not where an image is another one with its checksum: that is as good as the
** compiler's. */
static tide_runtime *open_on(void) {
    const tide_config c = {.struct_size = sizeof c,
                           .collector = "refcount",
                           .pool = "none",
                           .cache = TIDE_ON,
                           .cache_dir = cached};
    tide_runtime *rt;
    tidei_device *d;
    require(text_host_open(TIDEI_MIB, &d) == TIDE_OK, "a device");
    require(tidei_open_on(&c, d, &rt) == TIDE_OK, "a runtime");
    return rt;
}

static bool is_forged(const entry *e) {
    size_t n;
    unsigned char *image = read_slowly(e, &n);
    const bool forged = image && (n != e->image_bytes || memcmp(image, e->image, n) != 0);
    free(image);
    return forged;
}

static void ask(void) {
    unsigned whole = 0;
    if (world.asked++ >= ASKS || is_forged(&entries[OWN]) || is_forged(&entries[OWN + 1])) return;
    for (unsigned i = OWN; i < ENTRIES; i++) whole += is_whole(&entries[i]);
    const unsigned compiled = atomic_load(&text_host_compiled),
                   loaded = atomic_load(&text_host_loaded);
    tide_runtime *rt = open_on();
    for (unsigned i = 0; i < TIDEI_COUNT(sources); i++) {
        tidei_dkernel *k = NULL;
        require(tidei_kernel_get(&test_rt(rt)->devs[0], "kernel", sources[i], "fuzz", &k) ==
                        TIDE_OK &&
                    k,
                "a kernel");
    }
    tide_close(rt);
    require(atomic_load(&text_host_loaded) - loaded == whole, "another number is loaded");
    require(atomic_load(&text_host_compiled) - compiled == ENTRIES - OWN - whole,
            "another number is compiled");
}

/* ---- damage ---- */

static void put_at(const entry *e, off_t at, const void *bytes, size_t n) {
    struct stat st;
    const char *path = path_in(cached, e->name);
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_nlink > 1 || chmod(path, 0600)) return;
    int fd = open(path, O_WRONLY);
    require(fd >= 0 && pwrite(fd, bytes, n, at) == (ssize_t)n && close(fd) == 0, path);
    chmod(path, st.st_mode & 07777);
}

static void put_header(const entry *e, fuzz_choices *c) {
    static const uint8_t at[] = {0, 8, 12, 16, 24, 32}, width[] = {8, 4, 4, 8, 8, 8};
    const uint64_t n = e->key_bytes, m = e->image_bytes,
                   numbers[] = {0,
                                1,
                                2,
                                n,
                                m,
                                n + 1,
                                m + 1,
                                n - 1,
                                m - 1,
                                UINT64_MAX,
                                -n,
                                -m,
                                (uint64_t)1 << 63,
                                UINT32_MAX,
                                (uint64_t)1 << 32,
                                UINT64_MAX - 39};
    const unsigned field = fuzz_choose(c, 6);
    const uint64_t v = numbers[fuzz_choose(c, TIDEI_COUNT(numbers))];
    put_at(e, at[field], &v, width[field]);
}

static void cut(const entry *e, fuzz_choices *c) {
    struct stat st;
    unsigned n = fuzz_choose(c, 256);
    n |= fuzz_choose(c, 256) << 8;
    const char *path = path_in(cached, e->name);
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_nlink > 1 || chmod(path, 0600)) return;
    require(truncate(path, n == 0xFFFF ? BEYOND_ANY : (off_t)(n % 16384)) == 0, path);
    chmod(path, st.st_mode & 07777);
}

/* The checksum becomes that of what lies where the image would. */
static void mend(const entry *e) {
    static unsigned char bytes[LOOKED_AT];
    struct stat st;
    const char *path = path_in(cached, e->name);
    if (lstat(path, &st) || !S_ISREG(st.st_mode)) return;
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    if (fd >= 0) close(fd);
    const size_t from = sizeof(header) + e->key_bytes;
    if (n < 0 || (size_t)n <= from) return;
    const uint64_t checksum = XXH3_64bits(bytes + from, (size_t)n - from);
    put_at(e, offsetof(header, checksum), &checksum, sizeof checksum);
}

/* Something else under the entry's name. What links lead to is whole, of this key, beside the
** folder. */
static void replace(const entry *e, unsigned how) {
    const char *path = path_in(cached, e->name), *other = path_in(beside, e->name);
    int done = 0;
    clear(path);
    switch (how % 6) {
    case 0: done = mkdir(path, 0700); break;
    case 1: done = symlink(other, path); break;
    case 2: done = mkfifo(path, 0600); break;
    case 3: done = link(other, path); break;
    case 4: done = symlink(".", path); break;
    default: done = symlink("nowhere", path);
    }
    require(done == 0, path);
}

static void other_file(unsigned which, unsigned how) {
    static const char *const names[] = {"notes.txt",
                                        "0123456789abcdef0123456789abcde.kernel",
                                        "0123456789abcdef0123456789abcdef.kernel",
                                        "0123456789ABCDEF0123456789ABCDEF.kernel",
                                        "0123456789abcdef0123456789abcdef.kernel~",
                                        ".tidepool-0.part",
                                        ".tidepool-1.part",
                                        ".tidepool-007.part",
                                        ".tidepool-18446744073709551616.part",
                                        ".tidepool-3.part.kernel",
                                        ".tidepool-.part",
                                        "\xC3\xA9\xE2\x80\xA8\n.kernel"};
    const char *path = path_in(cached, names[which % TIDEI_COUNT(names)]);
    static const char text[3000] = "not an entry";
    clear(path);
    switch (how % 8) {
    case 0: require(mkdir(path, 0700) == 0, path); break;
    case 1: require(symlink(path_in(beside, "notes.txt"), path) == 0, path); break;
    case 2: require(mkfifo(path, 0600) == 0, path); break;
    default: write_file(path, text, how % sizeof text * 10 % sizeof text);
    }
}

static void set_old(const entry *e) {
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 2 * 24 * 60 * 60}};
    struct stat st;
    const char *path = path_in(cached, e->name);
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW);
}

static void set_mode(const entry *e, unsigned how) {
    static const mode_t modes[] = {0600, 0620, 0602, 0666, 0644, 0400, 0200, 0000, 04600};
    struct stat st;
    const char *path = path_in(cached, e->name);
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        chmod(path, modes[how % TIDEI_COUNT(modes)]);
}

static void copy_over(const entry *from, const entry *to) {
    struct stat st;
    if (from == to || lstat(path_in(cached, from->name), &st)) return;
    clear(path_in(cached, to->name));
    require(rename(path_in(cached, from->name), path_in(cached, to->name)) == 0, "renaming");
}

static void write_entry(const entry *e, const void *bytes, size_t n) {
    clear(path_in(cached, e->name));
    write_file(path_in(cached, e->name), bytes, n);
}
static void write_whole(const entry *e) {
    size_t n;
    unsigned char *bytes = file_of(e, &n);
    write_entry(e, bytes, n);
    free(bytes);
}

/* ---- the whole ---- */

static void command(fuzz_choices *c) {
    static const size_t bounds[] = {TIDEI_MIB, 12000, 700, 80, 1};
    const uint8_t letter = *c->at++;
    if (letter == 'c') return renew_cache();
    if (letter == 'e') return ask();
    if (!strchr("kfgibthmoaswlnp", letter) || !letter) return;
    const unsigned k = fuzz_choose(c, 256);
    const entry *e = &entries[k % ENTRIES];
    switch (letter) {
    case 'k': keep(e); break;
    case 'f': find(e); break;
    case 'g': forget(e); break;
    case 'i': write_whole(e); break;
    case 'b': {
        off_t at = fuzz_choose(c, 256);
        at |= (off_t)fuzz_choose(c, 32) << 8;
        put_at(e, at, &(uint8_t){(uint8_t)fuzz_choose(c, 256)}, 1);
        break;
    }
    case 't': cut(e, c); break;
    case 'h': put_header(e, c); break;
    case 'm': mend(e); break;
    case 'o': set_old(e); break;
    case 'a': set_mode(e, fuzz_choose(c, 256)); break;
    case 's': copy_over(e, &entries[fuzz_choose(c, ENTRIES)]); break;
    case 'l': replace(e, fuzz_choose(c, 256)); break;
    case 'n': other_file(k, fuzz_choose(c, 256)); break;
    case 'p': settings()->cache_max = bounds[k % TIDEI_COUNT(bounds)]; break;
    case 'w': {
        size_t n = fuzz_choose(c, 256);
        n = tidei_min_size(n, (size_t)(c->end - c->at));
        write_entry(e, c->at, n);
        c->at += n;
    }
    }
}

static void clear_folder(const char *folder) {
    static things now;
    look_at(folder, &now);
    for (size_t i = 0; i < now.n; i++) clear(path_in(folder, now.at[i].name));
}

static void end(void) {
    tidei_kernel_cache_close(world.cache);
    tide_close(world.rt);
    clear_folder(cached);
    clear_folder(beside);
    rmdir(cached);
    rmdir(beside);
    rmdir(scratch);
    for (unsigned i = 0; i < ENTRIES; i++) {
        free(entries[i].key);
        free(entries[i].image);
    }
}

/* The names and keys of what a runtime keeps are learned from it. */
static void learn(unsigned i) {
    static things now;
    header h;
    entry *e = &entries[OWN + i];
    tide_runtime *rt = open_on();
    tidei_dkernel *k;
    require(tidei_kernel_get(&test_rt(rt)->devs[0], "kernel", sources[i], "fuzz", &k) == TIDE_OK,
            "a kernel");
    tide_close(rt);
    look_at(cached, &now);
    require(now.n == 1, "another number of entries");
    int fd = open(path_in(cached, now.at[0].name), O_RDONLY);
    require(fd >= 0 && read(fd, &h, sizeof h) == sizeof h, "an entry");
    e->key_bytes = h.key_bytes;
    e->image_bytes = h.image_bytes;
    e->key = malloc(e->key_bytes);
    e->image = malloc(e->image_bytes);
    require(e->key && e->image && read(fd, e->key, e->key_bytes) == (ssize_t)e->key_bytes &&
                read(fd, e->image, e->image_bytes) == (ssize_t)e->image_bytes && close(fd) == 0,
            "an entry");
    name_entry(e);
    require(!strcmp(e->name, now.at[0].name) && is_whole(e), "an entry");
    clear_folder(cached);
}

static void begin(void) {
    const tide_config c = {.struct_size = sizeof c,
                           .device = "host",
                           .host_device_memory = "1MiB",
                           .collector = "refcount",
                           .pool = "none",
                           .cache = TIDE_ON,
                           .cache_dir = cached};
    /* in memory, where there is such a place */
    strcpy(scratch, "/dev/shm/tide-fuzz-kernels-XXXXXX");
    if (!mkdtemp(scratch))
        require(mkdtemp(strcpy(scratch, "/tmp/tide-fuzz-kernels-XXXXXX")) != NULL, "a folder");
    snprintf(cached, sizeof cached, "%s/cached", scratch);
    snprintf(beside, sizeof beside, "%s/beside", scratch);
    require(mkdir(cached, 0700) == 0 && mkdir(beside, 0700) == 0, "folders");
    for (unsigned i = 0; i < OWN; i++) make_own(i);
    for (unsigned i = 0; i < ENTRIES - OWN; i++) learn(i);
    for (unsigned i = 0; i < ENTRIES; i++) {
        size_t n;
        unsigned char *bytes = file_of(&entries[i], &n);
        write_file(path_in(beside, entries[i].name), bytes, n);
        free(bytes);
    }
    write_file(path_in(beside, "notes.txt"), "notes", 5);
    require(tide_open(&c, &world.rt) == TIDE_OK, "a runtime");
    atexit(end);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    fuzz_choices c = fuzz_choices_of(bytes, n);
    if (!world.rt) begin();
    settings()->cache_max = TIDEI_MIB;
    world.asked = 0;
    renew_cache();
    for (unsigned i = 0; i < COMMANDS && c.at < c.end; i++) command(&c);
    for (unsigned i = 0; i < ENTRIES; i++) find(&entries[i]);
    clear_folder(cached);
}
