/* data.h: finds the examples' data: in the share folder beside an installed program, then in
** EXAMPLES_DATA, which is the source tree's folder or, where nobody says, ../data of the folder
** that the program is run in. */
#ifndef EXAMPLES_DATA_H
#define EXAMPLES_DATA_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef EXAMPLES_DATA
#define EXAMPLES_DATA "../data"
#endif

/* The path of data file `name` in `path`; `path` unchanged in meaning if it is nowhere, so that
** opening it says so. */
static inline void find_data(const char *name, char *path, size_t cap) {
    char self[1024];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = 0;
        slash = strrchr(self, '/');
    }
    if (slash) {
        *slash = 0;
        snprintf(path, cap, "%s/../share/tidepool/examples/data/%s", self, name);
        if (access(path, R_OK) == 0) return;
    }
    snprintf(path, cap, "%s/%s", EXAMPLES_DATA, name);
}

#endif
