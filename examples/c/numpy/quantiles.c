/* quantiles.c: a histogram of a sample, with its quartiles.
**
**     rng = np.random.default_rng(1)
**     x = rng.standard_normal(1000000)
**     counts, edges = np.histogram(x, 20, (-4, 4))
**     quarters = np.linspace(0.25, 0.75, 3)
**     low, middle, high = np.quantile(x, quarters)
**     for c, e in zip(counts, edges):
**         print("%5.1f " % e + "*" * (c * 60 // counts.max()))
**     print("half of the sample lies between %.3f and %.3f" % (low, high))
**     assert abs(middle) < 0.01 and abs(high - low - 1.349) < 0.01
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(1000000));
    tide_arg at = tide_arg_array(tide_linspace(rt, TIDE_F64, 0.25, 0.75, 3, 1));
    tide_array *counts, *edges;
    int64_t n[20];
    double e[21], q[3];
    expect(tide_histogram(x, 20, -4, 4, &counts, &edges) == TIDE_OK &&
               tide_to_host(counts, n, sizeof n) == TIDE_OK &&
               tide_to_host(edges, e, sizeof e) == TIDE_OK,
           "the histogram");
    expect(tide_to_host(tide_quantile(x, at, NULL, 0, 0), q, sizeof q) == TIDE_OK, "the quartiles");
    for (int i = 0; i < 20; i++)
        printf("%5.1f %.*s\n", e[i],
               (int)((double)n[i] * 60 / tide_item_f64(tide_max(counts, NULL, 0, 0))),
               "************************************************************");
    printf("half of the sample lies between %.3f and %.3f\n", q[0], q[2]);
    expect(q[1] > -0.01 && q[1] < 0.01 && q[2] - q[0] > 1.339 && q[2] - q[0] < 1.359, "quartiles");
    return end(rt);
}
