/* ten.c: README's program, with the time after each of its calls on stderr, in ns of the monotonic
** clock. For bench/start.py, which knows when the process began. */
#include <stdio.h>
#include <tide/tide.h>
#include <time.h>

static void past(const char *what) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    fprintf(stderr, "%s %lld\n", what, t.tv_sec * 1000000000LL + t.tv_nsec);
}

int main(void) {
    tide_runtime *rt;
    past("main");
    if (tide_open(NULL, &rt) != TIDE_OK) return fputs(tide_error_last()->message, stderr), 1;
    past("tide_open");
    tide_array *x = tide_arange(rt, TIDE_F32, 0, 1e6, 1);
    past("tide_arange");
    tide_array *y = tide_map(rt, "(x, a) -> sum(sqrt(x*x + a))", x, 2.0);
    past("tide_map");
    printf("%.9g\n", tide_item_f64(y));
    past("tide_item_f64");
    tide_close(rt);
    past("tide_close");
}
