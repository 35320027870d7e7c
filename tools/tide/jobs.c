/* jobs.c: how many programs that use the device may run side by side: `tide info --jobs`, for
** scripts that start them. */
#include "tools/tide/jobs.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <tide/tide.h>
#include "runtime/base/base.h"

size_t tidei_jobs_of(const tidei_jobs *x) {
    size_t fit = x->gpu ? x->free_bytes / TIDEI_JOB_BYTES : x->threads;
    return tidei_max_size(1, tidei_min_size(x->threads, fit));
}

/* The first number of a small file, or SIZE_MAX: there is none ("max" stands for no limit). */
static size_t number_in(const char *path, size_t *second) {
    size_t n = SIZE_MAX;
    FILE *f = fopen(path, "re");
    if (!f) return SIZE_MAX;
    if (fscanf(f, "%zu", &n) != 1 || (second && fscanf(f, "%zu", second) != 1)) n = SIZE_MAX;
    fclose(f);
    return n;
}

/* What a container's limit on processor time comes to (cgroup v2, and v1), rounded up. */
static size_t threads_allowed(void) {
    size_t period = 0, quota = number_in("/sys/fs/cgroup/cpu.max", &period);
    if (quota == SIZE_MAX) {
        quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", NULL);
        period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us", NULL);
    }
    return quota > SIZE_MAX / 2 || !quota || !period || period > SIZE_MAX / 2
               ? SIZE_MAX
               : (quota - 1) / period + 1;
}

size_t tidei_threads_here(void) {
    cpu_set_t set;
    size_t there = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    return tidei_min_size(there, threads_allowed());
}

/* The device's name and free memory; opening it is part of what a program needs. */
static tide_status look(tidei_jobs *x, char *device, size_t cap) {
    tide_runtime *rt;
    tide_device_figures m = {.struct_size = sizeof m};
    tide_status status = tide_open(NULL, &rt);
    if (status != TIDE_OK) return status;
    tide_device_text(rt, device, cap);
    device[strcspn(device, ";")] = 0;
    status = tide_device_info(rt, &m);
    x->gpu = strncmp(device, "cuda", 4) == 0;
    x->free_bytes = m.free;
    tide_close(rt);
    return status;
}

static void tell(const tidei_jobs *x, const char *device) {
    char memory[40] = "no GPU", b[32];
    if (x->gpu)
        snprintf(memory, sizeof memory, "%s free",
                 tidei_format_bytes(b, sizeof b, x->free_bytes, 1));
    fprintf(stderr, "tide info: %s, %s, %zu threads: %zu jobs\n", device, memory, x->threads,
            tidei_jobs_of(x));
}

int tidei_jobs_command(size_t free_bytes, size_t threads) {
    tidei_jobs x = {.threads = tidei_threads_here()};
    char device[1024] = "";
    if (look(&x, device, sizeof device) != TIDE_OK) {
        fprintf(stderr, "tide info: %s\n", tide_error_last()->message);
        return 1;
    }
    if (free_bytes) {
        x.gpu = true;
        x.free_bytes = free_bytes;
    }
    if (threads) x.threads = threads;
    tell(&x, device);
    printf("%zu\n", tidei_jobs_of(&x));
    return 0;
}
