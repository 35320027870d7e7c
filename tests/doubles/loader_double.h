/* loader_double.h: a double of the loader. What a case says is there is there, by the names that
** dlopen is asked for; nothing else is, whatever this machine has. For programs linked with
** --wrap=dlopen and --wrap=dlerror. */
#ifndef TIDETEST_LOADER_DOUBLE_H
#define TIDETEST_LOADER_DOUBLE_H

#include <dlfcn.h>
#include "tests/support/tidetest.h"

#define DOUBLE(name) TIDE_TEST_DOUBLES "/lib" name "_double.so"

static struct {
    struct {
        char name[256];          /* what is asked for */
        const char *file, *says; /* the double that it is; or why it does not load */
        bool loaded;             /* by the process already */
    } there[8];
    unsigned n;
    char error[256], asked[1024]; /* the last failure; all names so far, with a blank after each */
} loader;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
char *__wrap_dlerror(void);

void *__wrap_dlopen(const char *name, int flags) {
    /* whether one is asked for depends on the machine */
    if (strncmp(name, "/usr/local/cuda/", 16) != 0)
        snprintf(loader.asked + strlen(loader.asked), sizeof loader.asked - strlen(loader.asked),
                 "%s%s ", flags & RTLD_NOLOAD ? "?" : "", name);
    for (unsigned i = 0; i < loader.n; i++) {
        if (strcmp(loader.there[i].name, name) != 0 ||
            (flags & RTLD_NOLOAD && !loader.there[i].loaded))
            continue;
        if (loader.there[i].file) return __real_dlopen(loader.there[i].file, RTLD_NOW | RTLD_LOCAL);
        snprintf(loader.error, sizeof loader.error, "%s", loader.there[i].says);
        return NULL;
    }
    snprintf(loader.error, sizeof loader.error,
             "%s: cannot open shared object file: No such file or directory", name);
    return NULL;
}
char *__wrap_dlerror(void) { return *loader.error ? loader.error : NULL; }

static inline void loader_has(const char *name, const char *file) {
    snprintf(loader.there[loader.n].name, sizeof loader.there[0].name, "%s", name);
    loader.there[loader.n++].file = file;
}
static inline void loader_refuses(const char *name, const char *says) {
    snprintf(loader.there[loader.n].name, sizeof loader.there[0].name, "%s", name);
    loader.there[loader.n++].says = says;
}
/* What a double lets a case set and look at. */
static inline void *of_double(const char *file, const char *symbol) {
    void *lib = __real_dlopen(file, RTLD_NOW | RTLD_LOCAL), *p = lib ? dlsym(lib, symbol) : NULL;
    if (!p) {
        fprintf(stderr, "%s has no %s\n", file, symbol);
        abort(); /* in children too, which have no cmocka */
    }
    return p;
}

#endif
