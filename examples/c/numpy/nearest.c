/* nearest.c: points are told apart by a vote of their k nearest neighbours.
**
**     rng = np.random.default_rng(1)
**     x = rng.standard_normal((2000, 2))
**     label = (x[:, 0] * x[:, 1] > 0).astype(float)
**     q = rng.standard_normal((500, 2))
**     d = ((q[:, None] - x)**2).sum(2)
**     near = np.argpartition(d, 9, 1)[:, :9]
**     vote = label[near].mean(1) > 0.5
**     right = (vote == (q[:, 0] * q[:, 1] > 0)).mean()
**     assert right > 0.95
**     print("%.1f %% of 500 points are told apart" % (100 * right))
*/
#include "begin.h"

static const char same_sign[] = "(x, y) -> x * y > 0";

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(2000, 2));
    tide_array *label = tide_map(rt, same_sign, tide_slice(x, ":, 0"), tide_slice(x, ":, 1"));
    tide_array *q = tide_random_normal(rt, &rng, TIDE_F64, SHAPE(500, 2));
    tide_array *d = tide_map(rt, "(q, x) -> sum((q - x)**2, axis=2)", tide_expand_dims(q, 1), x);
    tide_array *distances, *near;
    expect(tide_topk(d, 9, 1, 0, &distances, &near) == TIDE_OK, "the nearest");
    tide_array *vote =
        tide_map(rt, "(near) -> mean(near, axis=1) > 0.5", tide_take(label, near, 0));
    tide_array *truth = tide_map(rt, same_sign, tide_slice(q, ":, 0"), tide_slice(q, ":, 1"));
    double right = tide_item_f64(tide_mean(tide_eq(vote, truth), NULL, 0, 0));
    expect(right > 0.95, "votes that are right");
    printf("%.1f %% of 500 points are told apart\n", 100 * right);
    return end(rt);
}
