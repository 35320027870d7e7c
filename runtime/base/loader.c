/* loader.c: the loader's functions, as loader.h has them. */
#include "runtime/base/loader.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <dlfcn.h>

void *tidei_library_open(const char *path, int flags, char *why, size_t cap) {
    TIDEI_UNCANCELLED;
    void *library = dlopen(path, flags);
    if (library || !why) return library;
    TIDEI_IN_C_LOCALE;
    const char *words = dlerror();
    tidei_format(why, cap, "%s", words ? words : "it does not load");
    return NULL;
}

void *tidei_library_symbol(void *library, const char *name) {
    TIDEI_UNCANCELLED;
    return dlsym(library, name);
}

void tidei_library_close(void *library) {
    TIDEI_UNCANCELLED;
    dlclose(library);
}
