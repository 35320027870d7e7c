/* quantiles.c: a histogram of a sample, with its quartiles.
**
**     x = np.random.default_rng(1).standard_normal(1000000)
**     counts, edges = np.histogram(x, 20, (-4, 4))
**     low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
**     for c, e in zip(counts, edges):
**         print("%5.1f " % e + "*" * (c * 60 // counts.max()))
**     assert abs(middle) < 0.01 and abs(high - low - 1.349) < 0.01
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(1000000));
    tide_array *at = tide_from_host(rt, TIDE_F64, SHAPE(3), (double[]){0.25, 0.5, 0.75});
    tide_array *counts, *edges;
    int64_t n[20];
    double e[21], q[3];
    expect(tide_histogram(x, 20, -4, 4, &counts, &edges) == TIDE_OK, "the histogram");
    expect(tide_to_host(counts, n, sizeof n) == TIDE_OK, "its counts");
    expect(tide_to_host(edges, e, sizeof e) == TIDE_OK, "its edges");
    expect(tide_to_host(tide_quantile(x, tide_arg_array(at), NULL, 0, 0), q, sizeof q) == TIDE_OK,
           "the quartiles");
    double most = tide_item_f64(tide_max(counts, NULL, 0, 0));
    for (int i = 0; i < 20; i++)
        printf("%5.1f %.*s\n", e[i], (int)((double)n[i] * 60 / most),
               "************************************************************");
    printf("half of the sample lies between %.3f and %.3f\n", q[0], q[2]);
    expect(q[1] > -0.01 && q[1] < 0.01 && q[2] - q[0] > 1.339 && q[2] - q[0] < 1.359, "quartiles");
    tide_close(rt);
    return 0;
}
