/* pagerank.c: the ranks of the pages of a small web, by which page links to which.
**
**     rng = np.random.default_rng(1)
**     n, links = 10000, 100000
**     source, target = rng.integers(0, n, links), rng.integers(0, n, links) // 10
**     out = np.bincount(source, minlength=n)
**     rank = np.full(n, 1 / n)
**     for _ in range(50):
**         share = np.where(out > 0, rank / np.maximum(out, 1), 0)
**         lost = rank[out == 0].sum()
**         rank = 0.15/n + 0.85 * (np.bincount(target, share[source], n) + lost/n)
**     least, most = rank[:n // 10].min(), rank[n // 10:].max()
**     assert abs(rank.sum() - 1) < 1e-9 and least > most
**     print("the least rank of a page with links is %.1f times the others'" % (least / most))
*/
#include "begin.h"

enum { N = 10000, LINKS = 100000 };

int main(void) {
    tide_runtime *rt = begin();
    tide_rng rng = {.seed = 1};
    tide_array *source = tide_random_integers(rt, &rng, TIDE_I64, SHAPE(LINKS), 0, N);
    tide_array *target = tide_random_integers(rt, &rng, TIDE_I64, SHAPE(LINKS), 0, N / 10);
    tide_array *out = tide_bincount(source, NULL, N);
    tide_array *rank = tide_full(rt, TIDE_F64, SHAPE(N), tide_arg_float(1.0 / N));
    for (int i = 0; i < 50; i++) {
        tide_array *share =
            tide_map(rt, "(rank, out) -> where(out > 0, rank / maximum(out, 1), 0)", rank, out);
        tide_array *lost = tide_map(rt, "(rank, out) -> sum(where(out == 0, rank, 0))", rank, out);
        tide_array *got = tide_segment_sum(tide_take(share, source, 0), target, N, 0);
        rank = tide_map(rt, "(got, lost, n) -> 0.15/n + 0.85*(got + lost/n)", got, lost, (double)N);
    }
    double sum = tide_item_f64(tide_sum(rank, NULL, 0, 0));
    double least = tide_item_f64(tide_min(tide_slicef(rank, ":%d", N / 10), NULL, 0, 0));
    double most = tide_item_f64(tide_max(tide_slicef(rank, "%d:", N / 10), NULL, 0, 0));
    expect(sum > 1 - 1e-9 && sum < 1 + 1e-9, "ranks are shares of one");
    expect(least > most, "who is linked to ranks before who is not");
    printf("the least rank of a page with links is %.1f times the others'\n", least / most);
    return end(rt);
}
