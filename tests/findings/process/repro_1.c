/* repro_1: an error in an expression that is not UTF-8 reads before the text (parse.c show(): the
** search for a window's edge steps over continuation bytes without a bound). cc repro_1.c
** libtidepool.a ... ; ./repro_1 */
#include <tide/tide.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int main(void) {
    tide_runtime *rt;
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "refcount"};
    if (tide_open(&c, &rt)) return 1;
    char *t = malloc(200);
    memset(t, 0x87, 120);
    t[120] = 0; /* 120 continuation bytes: the error is at column 0, the line longer than 76 */
    tide_expr *e = tide_expr_new(rt, t);
    printf("%p: %.300s\n", (void *)e, tide_error_last()->message);
    tide_close(rt);
    free(t);
}
