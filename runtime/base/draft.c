/* draft.c: drafts: making, keeping, and removing what was left. The model stands in draft.h. */
#include "runtime/base/draft.h"
#include "runtime/base/files.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define BEGINS         ".tidepool-"
#define ENDS           ".part"
#define LOOKED_AT      8       /* numbers: few folders have so many writers at once */
#define NUMBERS        10000   /* of one folder */
#define ABANDONED      60 * 60 /* seconds without a write: the writer is gone, wherever it was */
#define ZFS_MAGIC      0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

static void name_draft(char name[TIDEI_DRAFT_NAME], unsigned n) {
    tidei_format(name, TIDEI_DRAFT_NAME, BEGINS "%u" ENDS, n);
}

bool tidei_is_draft(const char *name) {
    uint64_t n;
    if (strncmp(name, BEGINS, strlen(BEGINS)) != 0) return false;
    name += strlen(BEGINS);
    return tidei_read_digits(&name, &n) && strcmp(name, ENDS) == 0;
}

/* ---- removing what nobody holds ---- */

/* The name is, still, that of the open file. */
static bool is_named(int folder, const char *name, int fd) {
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* A lock that is taken here is seen by all who can write here: no other machine mounts it. */
static bool locks_reach_all(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs)) return false;
    switch ((unsigned long)fs.f_type) {
    case EXT4_SUPER_MAGIC: /* ext2 and ext3 too */
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case ZFS_MAGIC:
    case BCACHEFS_MAGIC: return true;
    default: return false;
    }
}

static bool is_old(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > ABANDONED;
}

/* Whether there was one, and it is gone. */
static bool sweep(int folder, const char *name) {
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid())
        return false;
    /* For writing, since some file systems lock nothing else; it may have become another file
    ** meanwhile. */
    int fd = tidei_file_open(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return false;
    bool swept = flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(folder, name, fd) &&
                 (locks_reach_all(fd) || is_old(fd)) && unlinkat(folder, name, 0) == 0;
    tidei_file_close(fd);
    return swept;
}

static bool sweep_named(void *folder, const char *name) {
    if (tidei_is_draft(name)) sweep(*(int *)folder, name);
    return true;
}

void tidei_drafts_sweep(int folder) {
    TIDEI_UNCANCELLED;
    tidei_folder_each(folder, sweep_named, &folder);
}

/* ---- making one ---- */

typedef enum { MADE, IN_USE, REFUSED } making;

/* A file of this name that is new, and this thread's. */
static making make(tidei_draft *d, mode_t mode) {
    d->fd = tidei_file_open(d->folder, d->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (d->fd < 0) return errno == EEXIST ? IN_USE : REFUSED;
    struct stat st;
    bool held = flock(d->fd, LOCK_EX | LOCK_NB) == 0;
    if (!held && errno != EWOULDBLOCK) return MADE; /* unknown locks: nobody removes it */
    if (held && fstat(d->fd, &st) == 0 && st.st_nlink > 0) return MADE;
    tidei_file_close(d->fd); /* who removes drafts that nobody holds was faster, or is about to */
    return IN_USE;
}

/* Whether it is made; *left: others were there that nobody holds. */
static making make_numbered(tidei_draft *d, mode_t mode, unsigned n, bool *left) {
    name_draft(d->name, n);
    making m = make(d, mode);
    if (m != IN_USE || !sweep(d->folder, d->name)) return m;
    *left = true;
    return make(d, mode);
}

bool tidei_draft_open(int folder, mode_t mode, tidei_draft *out) {
    TIDEI_UNCANCELLED;
    tidei_draft d = {.folder = folder, .fd = -1};
    making m = IN_USE;
    bool left = false;
    unsigned n = 0;
    while (m == IN_USE && n < NUMBERS) m = make_numbered(&d, mode, n++, &left);
    if (m == IN_USE) errno = EEXIST;
    if (m != MADE) return false;
    for (char other[TIDEI_DRAFT_NAME]; n < LOOKED_AT; n++) {
        name_draft(other, n);
        left |= sweep(folder, other);
    }
    if (left) tidei_drafts_sweep(folder); /* somebody was killed here, and may have had more */
    *out = d;
    return true;
}

void tidei_draft_drop(tidei_draft *d) {
    TIDEI_UNCANCELLED;
    int error = errno;
    unlinkat(d->folder, d->name, 0); /* while it is held: it is still this file */
    tidei_file_close(d->fd);
    d->fd = -1;
    errno = error;
}

/* What the last write to a file could not bring home is told by a close, of any descriptor of it:
** one is closed while the other still holds the draft. Where there is no second one it is not
** told. */
static bool arrived(int fd) {
    int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return second < 0 || tidei_file_close(second);
}

bool tidei_draft_keep(tidei_draft *d, const char *name) {
    TIDEI_UNCANCELLED;
    bool kept = arrived(d->fd) && renameat(d->folder, d->name, d->folder, name) == 0;
    if (!kept) {
        tidei_draft_drop(d);
        return false;
    }
    tidei_file_close(d->fd);
    d->fd = -1;
    return true;
}
