/* tide.c: the `tide` command: what this machine offers Tidepool.
**   tide info            version, device, memory
**   tide info --device   one line: the device, and why not cuda
** Exit 0, 1 failed, 2 bad input. */
#include <stdio.h>
#include <string.h>
#include <tide/tide.h>

static int usage(void) {
    fprintf(stderr, "usage: tide info [--device]\n");
    return 2;
}

static int info(int device_only) {
    tide_runtime *rt;
    char text[1024];
    if (tide_open(NULL, &rt) != TIDE_OK) {
        fprintf(stderr, "tide info: %s\n", tide_last_error()->message);
        return 1;
    }
    tide_device_text(rt, text, sizeof text);
    if (device_only) {
        printf("%s\n", text);
    } else {
        printf("Tidepool %s\ndevice: %s\n", tide_version(), text);
        tide_memory_status(rt, text, sizeof text);
        printf("%s", text);
    }
    tide_close(rt);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "info")) return usage();
    if (argc == 2) return info(0);
    return argc == 3 && !strcmp(argv[2], "--device") ? info(1) : usage();
}
