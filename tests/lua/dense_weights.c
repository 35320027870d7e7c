/* dense_weights.c: what examples/c/dense.h comes to on 3000 rows of 100 features after 5 epochs in
** batches of 256: the line that dense.lua --weights prints. */
#include <stdio.h>
#include "../../examples/c/dense.h"

#define ROWS 3000

static double size_of(struct model *m, tide_array *a) {
    return tide_item_f64(tide_map(m->rt, "(w) -> sum(abs(w))", a));
}

int main(void) {
    tide_runtime *rt;
    struct model m;
    if (tide_open(NULL, &rt) != TIDE_OK || !model_init(&m, rt, ROWS, 100, 0)) return 1;
    for (int e = 0; e < 5; e++)
        for (int64_t at = 0; at < ROWS; at += 256)
            if (!step(&m, at, at + 256 < ROWS ? at + 256 : ROWS)) return 1;
    printf("weights %.9g %.9g\n", size_of(&m, m.w), size_of(&m, m.b));
    tide_close(rt);
    return 0;
}
