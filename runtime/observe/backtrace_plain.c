/* backtrace_plain.c: names where the library is built without libdw: the loader's. */
#include "runtime/observe/backtrace.h"

tidei_names *tidei_names_open(void) { return NULL; }

void tidei_names_close(tidei_names *n) { (void)n; }

void tidei_names_of(tidei_names *n, const void *at,
                    bool (*fn)(void *user, const tidei_code_place *place), void *user) {
    tidei_code_place p = tidei_code_place_by_loader(at);
    (void)n;
    fn(user, &p);
}
