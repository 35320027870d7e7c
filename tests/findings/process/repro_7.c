/* repro_7: what a killed writer left (.tidepool-PID-N.part) makes a process of the same pid fail:
** pid 1 in a container, always */
#include <tide/tide.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <string.h>
int main(int c, char **v) { /* v[1]: folder; v[2] "die": is killed inside the first write */
    tide_runtime *rt;
    tide_config q = {.struct_size = sizeof q,
                     .device = "host",
                     .host_device_memory = "256MiB",
                     .collector = "refcount"};
    if (tide_open(&q, &rt)) return 1;
    int64_t n = 20000000;
    char p[300];
    snprintf(p, 300, "%s/model.npy", v[1]);
    tide_array *a = tide_zeros(rt, TIDE_F32, 1, &n);
    if (c > 2) {
        pid_t writer = getpid();
        if (!fork()) {
            usleep(20000);
            if (getppid() == writer) kill(writer, 9);
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        tide_status s = tide_npy_write(a, p);
        printf("pid %d: %s %s\n", (int)getpid(), tide_status_name(s),
               s ? tide_error_last()->message : "");
        if (c > 2) continue;
        break;
    }
    fflush(stdout);
}
