/* repro_2: an empty array does not hold its pool: after the pool's release it reads freed memory */
#include <tide/tide.h>
#include <stdio.h>
int main(int argc, char **argv) {
    tide_runtime *rt;
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "refcount"};
    if (tide_open(&c, &rt)) return 1;
    tide_pool *p;
    tide_pool_config pc = {.struct_size = sizeof pc, .kind = argc > 1 ? argv[1] : NULL};
    if (tide_pool_new(rt, &pc, &p) || tide_pool_set(rt, p)) return 2;
    int64_t none = 0;
    tide_array *a = tide_empty(rt, TIDE_F32, 1, &none);
    (void)!tide_pool_set(rt, NULL);
    tide_pool_release(p);
    (void)!tide_device_synchronize(rt);
    (void)!tide_reclaim(rt, TIDE_RECLAIM_DROP, NULL);
    printf("memory kind %d\n", tide_array_memory(a));
    tide_host_view v;
    printf("begin %d\n", tide_host_view_begin(a, TIDE_READ, &v));
    tide_array *b = tide_copy(a);
    printf("copy %p\n", (void *)b);
    tide_release(a);
    tide_release(b);
    tide_close(rt);
}
