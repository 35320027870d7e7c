/* libs.c: opens and closes the libraries' floor. */
#include "libs/libs.h"
#include "libs/blas.h"
#include "libs/handles.h"

tide_status tidei_libs_open(tidei_runtime *rt) {
    tidei_libs *l = tidei_host_alloc(rt, sizeof *l);
    if (!l) return tidei_fail_host_memory("tide_open", sizeof *l);
    rt->libs = l;
    tide_status s = tidei_lt_open(rt, &l->lt);
    return s == TIDE_OK ? tidei_handles_open(rt, &l->handles) : s;
}

void tidei_libs_close(tidei_runtime *rt) {
    tidei_libs *l = tidei_libs_of(rt);
    if (!l) return;
    tidei_handles_close(l->handles);
    tidei_lt_close(rt, l->lt);
    tidei_host_free(rt, l);
    rt->libs = NULL;
}
