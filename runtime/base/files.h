/* files.h: the library's way to files.
**
** Model. Descriptors, not streams: no memory is taken, nothing is kept back, and the error is
** errno. A signal that comes meanwhile does not end a call, a cancelled thread does not end in one,
** and a program that is started elsewhere in the process does not inherit the file. `folder` is an
** open one to which a name is relative, or AT_FDCWD. */
#ifndef TIDEI_FILES_H
#define TIDEI_FILES_H

#include "runtime/base/base.h"
#include <sys/types.h>

/* The descriptor, or -1. */
int tidei_file_open(int folder, const char *name, int flags, mode_t mode);
/* False: what was written may not have arrived. The descriptor is gone in any case. */
bool tidei_file_close(int fd);
/* `bytes`, or as many as there are up to the file's end; -1: reading failed. From `offset` on, or
** where the file is (-1). */
ssize_t tidei_file_read(int fd, void *to, size_t bytes, off_t offset);
/* All, or false; *done (may be NULL) says how many bytes were written in the end. */
bool tidei_file_write(int fd, const void *from, size_t bytes, size_t *done);
/* A small file as text, cut at `cap`; its length, or -1 with "" in buf. */
ssize_t tidei_file_text(const char *path, char *buf, size_t cap);
/* Calls fn for each name in the folder but "." and "..", until it returns false. False: the folder
** cannot be read. */
bool tidei_folder_each(int folder, bool (*fn)(void *user, const char *name), void *user);

#endif
