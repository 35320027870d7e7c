#include "common.h"
/* a closed runtime: arrays say so, the runtime itself crashes (TIDE_E_CLOSED exists) */
int main(int c, char **v) {
    (void)v;
    setvbuf(stdout, 0, _IONBF, 0);
    tide_runtime *rt = opn();
    tide_array *x = tide_ones(rt, TIDE_F32, 1, S(4));
    tide_close(rt);
    tide_array *y = tide_add(x, x);
    (void)y;
    printf("array: %s\n", tide_error_last()->message);
    if (c > 1) {
        printf("tide_close again: ");
        tide_close(rt);
    } else {
        printf("tide_ones: ");
        y = tide_ones(rt, TIDE_F32, 1, S(4));
    }
    printf("%s\n", tide_error_last()->message);
}
