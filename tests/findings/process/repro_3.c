/* repro_3: the process is at vm.max_map_count (65530): tide_close aborts by an assertion (debug
** builds: the default buildtype) */
#define _GNU_SOURCE
#include <tide/tide.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void) {
    tide_runtime *rt;
    tide_config c = {.struct_size = sizeof c,
                     .device = "host",
                     .host_device_memory = "64MiB",
                     .collector = "refcount"};
    if (tide_open(&c, &rt)) return 1;
    int64_t n = 100000;
    tide_array *k[20];
    for (int i = 0; i < 20; i++) k[i] = tide_zeros(rt, TIDE_F32, 1, &n);
    if (tide_device_synchronize(rt)) return 2;
    long maps = 0;
    int prot = PROT_READ;
    while (mmap(NULL, 4096, prot ^= PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        maps++;
    printf("%ld mappings more\n", maps);
    fflush(stdout);
    for (int i = 0; i < 20; i += 2) tide_release(k[i]);
    size_t freed = 0;
    tide_status s = tide_reclaim(rt, TIDE_RECLAIM_DROP, &freed);
    printf("reclaim %s, %zu\n", tide_status_name(s), freed);
    fflush(stdout);
    tide_array *y = tide_sum(k[1], NULL, 0, 0);
    printf("sum %g %s\n", tide_item_f64(y), y ? "" : tide_error_last()->message);
    fflush(stdout);
    tide_close(rt);
    puts("closed");
}
