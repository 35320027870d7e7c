/* tide.c: the `tide` command: what this machine offers Tidepool, and what a pool makes of a
**   recorded program.
**   tide info            version, device, memory
**   tide info --device   one line: the device, and why not cuda
**   tide info --env      what the environment says, and what becomes of it (environment.h)
**   tide info --jobs     how many programs that use it may run side by side (jobs.h)
**   tide replay FILE     replays a trace (replay_command.c)
** Exit 0, 1 failed, 2 bad input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>
#include "tools/tide/command.h"
#include "tools/tide/environment.h"
#include "tools/tide/jobs.h"

int tidei_usage(FILE *to, int status) {
    fprintf(
        to,
        "usage: tide info [--device | --env | --jobs [--free BYTES] [--threads N]]\n       %s\n",
        tidei_replay_usage);
    return status;
}

static int info(int device_only) {
    tide_runtime *rt;
    char text[1024];
    if (tide_open(NULL, &rt) != TIDE_OK) {
        fprintf(stderr, "tide info: %s\n", tide_error_last()->message);
        return 1;
    }
    tide_device_text(rt, text, sizeof text);
    if (device_only) {
        printf("%s\n", text);
    } else {
        printf("Tidepool %s\ndevice: %s\n", tide_version(), text);
        tide_runtime_text(rt, text, sizeof text);
        printf("%s", text);
    }
    tide_close(rt);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "info") && !strcmp(argv[2], "--env"))
        return tidei_environment_command();
    /* it is about programs: a replay would record over the file that it plays */
    unsetenv("TIDE_TRACE");
    if (argc == 2 && !strcmp(argv[1], "--help")) return tidei_usage(stdout, 0);
    if (argc >= 2 && !strcmp(argv[1], "replay")) return tidei_replay_command(argc - 2, argv + 2);
    if (argc < 2 || strcmp(argv[1], "info")) return tidei_usage(stderr, 2);
    if (argc == 2) return info(0);
    if (!strcmp(argv[2], "--jobs")) return tidei_jobs_command(argc - 3, argv + 3);
    return argc == 3 && !strcmp(argv[2], "--device") ? info(1) : tidei_usage(stderr, 2);
}
