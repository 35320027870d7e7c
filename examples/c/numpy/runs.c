/* runs.c: run-length coding, there and back.
**
**     rng = np.random.default_rng(1)
**     x = rng.integers(0, 2, 1000) * np.repeat(np.arange(10), 100)
**     before = np.flatnonzero(np.diff(x))
**     edges = np.concatenate([[0], before + 1, [x.size]])
**     values, lengths = x[edges[:-1]], np.diff(edges)
**     assert (np.repeat(values, lengths) == x).all()
**     print("1000 numbers are", values.size, "runs")
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_mul(tide_random_integers(rt, &rng, TIDE_I64, SHAPE(1000), 0, 2),
                             tide_repeat(tide_arange(rt, TIDE_I64, 0, 10, 1), 100, 0));
    tide_array *first = tide_zeros(rt, TIDE_I64, SHAPE(1)), *before;
    expect(tide_nonzero(tide_diff(x, 1, 0), &before, 1) == TIDE_OK, "where runs end");
    tide_array *last = tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(1000));
    tide_array *edges =
        tide_concat((tide_array *[]){first, tide_map(rt, "(i) -> i + 1", before), last}, 3, 0);
    tide_array *values = tide_take(x, tide_slice(edges, ":-1"), 0);
    tide_array *same = tide_eq(tide_repeat_each(values, tide_diff(edges, 1, 0), 0), x);
    expect(tide_item_f64(tide_all(same, NULL, 0, 0)) == 1, "there and back");
    printf("1000 numbers are %lld runs\n", (long long)tide_array_size(values));
    return end(rt);
}
