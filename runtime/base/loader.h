/* loader.h: opening shared libraries at run time: a driver, a compiler, a tool. The loader reads
** files and runs the libraries' own beginnings: no cancelled thread ends in there; and what it says
** is English, for we look into it. */
#ifndef TIDEI_LOADER_H
#define TIDEI_LOADER_H

#include "runtime/base/base.h"

/* The library, as dlopen would have it. NULL: `why` (may be NULL) has the loader's words. */
void *tidei_library_open(const char *path, int flags, char *why, size_t cap);
void *tidei_library_symbol(void *library, const char *name); /* NULL: it has none */
void tidei_library_close(void *library);

#endif
