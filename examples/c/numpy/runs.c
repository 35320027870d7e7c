/* runs.c: run-length coding, there and back.
**
**     x = np.random.default_rng(1).integers(0, 2, 1000) * np.repeat(np.arange(10), 100)
**     new = np.concatenate([[True], np.diff(x) != 0])
**     at = np.flatnonzero(new)
**     values, lengths = x[at], np.diff(np.append(at, x.size))
**     assert (np.repeat(values, lengths) == x).all()
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *x = tide_mul(tide_random_integers(rt, &rng, TIDE_I64, SHAPE(1000), 0, 2),
                             tide_repeat(tide_arange(rt, TIDE_I64, 0, 10, 1), 100, 0));
    tide_array *first = tide_ones(rt, TIDE_BOOL, SHAPE(1)), *at;
    tide_array *new = tide_concat(
        (tide_array *[]){first, tide_map(rt, "(d) -> d != 0", tide_diff(x, 1, 0))}, 2, 0);
    expect(tide_nonzero(new, &at, 1) == TIDE_OK, "where runs begin");
    tide_array *end = tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(1000));
    tide_array *values = tide_take(x, at, 0);
    tide_array *lengths = tide_diff(tide_concat((tide_array *[]){at, end}, 2, 0), 1, 0);
    tide_array *back = tide_repeat_each(values, lengths, 0);
    expect(tide_item_f64(tide_all(tide_eq(back, x), NULL, 0, 0)) == 1, "there and back");
    printf("1000 numbers are %lld runs\n", (long long)tide_array_size(values));
    tide_close(rt);
    return 0;
}
