/* info_command.c: `tide info`: what this machine offers. With no option the version, the device and
** its memory; with one, what scripts ask for: the device's line, what becomes of the environment
** (environment.h), how many programs may run side by side (jobs.h). */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>
#include "runtime/base/base.h"
#include "tools/tide/command.h"
#include "tools/tide/environment.h"
#include "tools/tide/jobs.h"

enum { DEVICE = 'd', ENVIRONMENT = 'e', JOBS = 'j', FREE = 256, THREADS };

static const struct argp_option options[] = {
    {"device", DEVICE, NULL, 0, "One line: the device, and why it is not cuda", 0},
    {"env", ENVIRONMENT, NULL, 0,
     "A row for each variable of the environment that Tidepool reads: its value, where that comes "
     "from, and what becomes of it. Exit status 1 where one is of no use",
     0},
    {"jobs", JOBS, NULL, 0,
     "How many programs that use the device may run side by side; what the number is made of goes "
     "to stderr",
     0},
    {"free", FREE, "BYTES", 0,
     "With --jobs: of a GPU with so much free memory, for example 16GiB "
     "(default: what is free)",
     1},
    {"threads", THREADS, "N", 0,
     "With --jobs: of a machine with so many threads (default: this one's)", 1},
    {0}};

struct wanted {
    int what; /* 0, or one of the first three options */
    size_t free_bytes, threads;
};

static error_t read_option(int key, char *text, struct argp_state *state) {
    struct wanted *w = state->input;
    size_t *size = key == FREE ? &w->free_bytes : &w->threads;
    switch (key) {
    case DEVICE:
    case ENVIRONMENT:
    case JOBS:
        if (w->what && w->what != key)
            argp_error(state, "one of --device, --env and --jobs at a time");
        w->what = key;
        return 0;
    case FREE:
    case THREADS:
        if (!tidei_parse_bytes(text, 0, size) || *size == 0)
            argp_error(state, "--%s wants %s, not '%s'", key == FREE ? "free" : "threads",
                       key == FREE ? "bytes, or 16GiB" : "a number from 1 on", text);
        return 0;
    case ARGP_KEY_END:
        if ((w->free_bytes || w->threads) && w->what != JOBS)
            argp_error(state, "--free and --threads go with --jobs");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int show_device(bool whole) {
    tide_runtime *rt;
    char text[1024];
    if (tide_open(NULL, &rt) != TIDE_OK) {
        fprintf(stderr, "tide info: %s\n", tide_error_last()->message);
        return 1;
    }
    if (whole) printf("Tidepool %s\ndevice: ", tide_version());
    tide_device_text(rt, text, sizeof text);
    printf("%s\n", text);
    if (whole) {
        tide_runtime_text(rt, text, sizeof text);
        printf("%s", text);
    }
    tide_close(rt);
    return 0;
}

int tidei_info_command(int argc, char **argv) {
    const struct argp argp = {
        .options = options,
        .parser = read_option,
        .doc = "What this machine offers: Tidepool's version, the device that programs get, and "
               "its memory."};
    struct wanted w = {0};
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &w) != 0) return 2;
    if (w.what == ENVIRONMENT) return tidei_environment_command();
    unsetenv("TIDE_TRACE"); /* looking records nothing */
    if (w.what == JOBS) return tidei_jobs_command(w.free_bytes, w.threads);
    return show_device(w.what != DEVICE);
}
