#include "common.h"
/* tide_use_end (or tide_use_launch) on a scope whose runtime was closed: SIGSEGV.
** tide_host_view_end in the same place is TIDE_E_CLOSED. */
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    tide_config c = {.struct_size = sizeof c, .collector = "refcount"};
    tide_runtime *rt;
    OK(tide_open(&c, &rt));
    tide_array *x = tide_ones(rt, TIDE_F32, 1, S(4)),
               *y = tide_empty_in(rt, TIDE_MEMORY_PINNED, TIDE_F32, 1, S(4));
    tide_host_view v;
    OK(tide_host_view_begin(y, TIDE_READ, &v));
    tide_use u = {x, TIDE_READ, 0};
    void *p;
    tide_use_scope *s;
    OK(tide_use_begin(rt, NULL, &u, 1, &p, &s));
    tide_close(rt);
    printf("tide_host_view_end: %s\n", tide_status_name(tide_host_view_end(&v)));
    printf("tide_use_end: ");
    tide_status e = tide_use_end(s);
    printf("%s\n", tide_status_name(e));
}
