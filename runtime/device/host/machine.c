/* machine.c: what this process may use of the machine: memory, addresses, processors. Control
** groups bound the first and the last of them, `ulimit -v` the second.
**
** A group's limit holds for the groups in it too, so the smallest one on the way up counts. The
** group's path may mean nothing here (a container sees the host's path, and its own group at the
** root), which the root at the end of the way answers. */
#include "runtime/device/host/host.h"
#include "runtime/base/files.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/text.h"
#include <sys/resource.h>
#include <unistd.h>

#define SELF  "/proc/self/cgroup"
#define MOUNT "/sys/fs/cgroup"

size_t tidei_host_address_room(void) {
    struct rlimit r;
    char text[128];
    const char *at = text;
    uint64_t pages = 0;
    if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > SIZE_MAX)
        return SIZE_MAX;
    tidei_file_text("/proc/self/statm", text, sizeof text);
    tidei_read_digits(&at, &pages); /* if that fails: as if nothing were in use */
    size_t used = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
    return r.rlim_cur > used ? (size_t)r.rlim_cur - used : 0;
}

size_t tidei_host_physical_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : TIDEI_GIB;
}

/* ---- control groups ---- */

/* A limit in the files of a group's folder; SIZE_MAX where there is none. */
typedef size_t read_fn(const char *folder);

/* The number in a file; SIZE_MAX if there is no file, or "max" or a negative one in it. */
static size_t number_in(const char *folder, const char *file) {
    char path[3072], text[64];
    const char *at = text;
    uint64_t v;
    tidei_format(path, sizeof path, "%s/%s", folder, file);
    return tidei_file_text(path, text, sizeof text) > 0 && tidei_read_digits(&at, &v) ? v
                                                                                      : SIZE_MAX;
}

static size_t memory_v2(const char *folder) { return number_in(folder, "memory.max"); }
static size_t memory_v1(const char *folder) { return number_in(folder, "memory.limit_in_bytes"); }

/* Processors: time that the group may take in a period, rounded up. */
static size_t whole_processors(size_t quota, size_t period) {
    return quota == SIZE_MAX || !period || period == SIZE_MAX ? SIZE_MAX
                                                              : (quota + period - 1) / period;
}
static size_t processors_v2(const char *folder) { /* "200000 100000", "max 100000" */
    char path[3072], text[64];
    const char *at = text;
    uint64_t quota, period;
    tidei_format(path, sizeof path, "%s/cpu.max", folder);
    if (tidei_file_text(path, text, sizeof text) <= 0 || !tidei_read_digits(&at, &quota) ||
        *at++ != ' ' || !tidei_read_digits(&at, &period))
        return SIZE_MAX;
    return whole_processors(quota, period);
}
static size_t processors_v1(const char *folder) {
    return whole_processors(number_in(folder, "cpu.cfs_quota_us"),
                            number_in(folder, "cpu.cfs_period_us"));
}

static const struct resource {
    const char *controller;
    read_fn *v2, *v1;
} memory = {"memory", memory_v2, memory_v1}, processors = {"cpu", processors_v2, processors_v1};

/* The smallest limit of a group and the groups around it. */
static size_t limit_upward(const char *mount, const char *sub, const char *group, read_fn *read) {
    char dir[1024], folder[2048];
    size_t limit = SIZE_MAX;
    tidei_format(dir, sizeof dir, "%s", group);
    for (;;) {
        tidei_format(folder, sizeof folder, "%s%s%s%s", mount, *sub ? "/" : "", sub, dir);
        limit = tidei_min_size(limit, read(folder));
        char *slash = strrchr(dir, '/');
        if (!slash) return limit;
        *slash = 0;
    }
}

/* What a line "hierarchy:controllers:/group" says; it is cut up. */
static size_t limit_of_line(char *line, const struct resource *r, const char *mount) {
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    size_t limit = SIZE_MAX;
    if (!group) return limit;
    *controllers++ = 0;
    *group++ = 0;
    if (!strcmp(line, "0") && !*controllers) limit = limit_upward(mount, "", group, r->v2);
    for (char *rest = NULL, *c = strtok_r(controllers, ",", &rest); c;
         c = strtok_r(NULL, ",", &rest))
        if (!strcmp(c, r->controller))
            limit = tidei_min_size(limit, limit_upward(mount, c, group, r->v1));
    return limit;
}

static size_t group_limit(const char *self, const char *mount, const struct resource *r) {
    char text[16384], *after = NULL; /* a dozen lines at most */
    size_t limit = SIZE_MAX;
    if (tidei_file_text(self, text, sizeof text) < 0) return SIZE_MAX;
    for (char *line = strtok_r(text, "\n", &after); line; line = strtok_r(NULL, "\n", &after))
        limit = tidei_min_size(limit, limit_of_line(line, r, mount));
    return limit;
}

size_t tidei_host_cgroup_limit(const char *self, const char *mount) {
    return group_limit(self, mount, &memory);
}
size_t tidei_host_cgroup_processors(const char *self, const char *mount) {
    return group_limit(self, mount, &processors);
}

/* ---- what follows ---- */

size_t tidei_host_default_memory(void) {
    return tidei_min_size(tidei_host_physical_memory(), tidei_host_cgroup_limit(SELF, MOUNT)) / 2;
}

size_t tidei_host_processors(void) {
    size_t quota = tidei_host_cgroup_processors(SELF, MOUNT);
    return tidei_max_size(tidei_min_size(tidei_processors(), quota), 1);
}
