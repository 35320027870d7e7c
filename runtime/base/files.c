/* files.c: opening, reading and writing files. The model stands in files.h. */
#include "runtime/base/files.h"
#include "runtime/base/uncancelled.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int tidei_file_open(int folder, const char *name, int flags, mode_t mode) {
    TIDEI_UNCANCELLED;
    int fd;
    do fd = openat(folder, name, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* On Linux a close that a signal interrupted has closed. */
bool tidei_file_close(int fd) {
    TIDEI_UNCANCELLED;
    return close(fd) == 0 || errno == EINTR;
}

ssize_t tidei_file_read(int fd, void *to, size_t bytes, off_t offset) {
    TIDEI_UNCANCELLED;
    size_t got = 0;
    while (got < bytes) {
        char *at = (char *)to + got;
        ssize_t n = offset < 0 ? read(fd, at, bytes - got)
                               : pread(fd, at, bytes - got, offset + (off_t)got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* Some files take nothing and give no reason. */
bool tidei_file_write(int fd, const void *from, size_t bytes, size_t *done) {
    TIDEI_UNCANCELLED;
    size_t put = 0;
    while (put < bytes) {
        ssize_t n = write(fd, (const char *)from + put, bytes - put);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) break;
        put += (size_t)n;
    }
    if (done) *done = put;
    return put == bytes;
}

ssize_t tidei_file_text(const char *path, char *buf, size_t cap) {
    int fd = tidei_file_open(AT_FDCWD, path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? -1 : tidei_file_read(fd, buf, cap - 1, -1);
    if (fd >= 0) tidei_file_close(fd);
    buf[n < 0 ? 0 : n] = 0;
    return n;
}

bool tidei_folder_each(int folder, bool (*fn)(void *user, const char *name), void *user) {
    TIDEI_UNCANCELLED;
    int fd = tidei_file_open(folder, ".", O_RDONLY | O_DIRECTORY, 0); /* with a place of its own */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) close(fd);
        return false;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !fn(user, e->d_name))
            break;
    closedir(dir);
    return true;
}
