/* kmeans.c: points fall into clusters, whose centres are the means of their points.
**
**     rng = np.random.default_rng(1)
**     true = np.array([[0, 0], [8, 0], [0, 8], [8, 8]])
**     x = true[np.arange(4000) % 4] + rng.standard_normal((4000, 2))
**     centre = x[:4]
**     for _ in range(10):
**         near = ((x[:, None] - centre)**2).sum(2).argmin(1)
**         centre = np.stack([x[near == k].mean(0) for k in range(4)])
**     off = np.abs(centre - true).max()
**     assert off < 0.2
**     print("4000 points fall into 4 clusters; the centres are off by at most %.3f" % off)
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *around =
        tide_from_host(rt, TIDE_F64, SHAPE(4, 2), (double[]){0, 0, 8, 0, 0, 8, 8, 8});
    tide_array *which = tide_rem(tide_arange(rt, TIDE_I64, 0, 4000, 1),
                                 tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(4)));
    tide_array *x = tide_add(tide_take(around, which, 0),
                             tide_random_normal(rt, &rng, TIDE_F64, SHAPE(4000, 2)));
    tide_array *centre = tide_slice(x, ":4");
    for (int i = 0; i < 10; i++) {
        tide_array *near =
            tide_map(rt, "(x, c) -> sum((x - c)**2, axis=2)", tide_expand_dims(x, 1), centre);
        centre = tide_segment_mean(x, tide_argmin(near, AXES(1), 0), 4, 0);
    }
    double off = tide_item_f64(tide_map(rt, "(c, t) -> max(abs(c - t))", centre, around));
    expect(off < 0.2, "centres");
    printf("4000 points fall into 4 clusters; the centres are off by at most %.3f\n", off);
    return end(rt);
}
