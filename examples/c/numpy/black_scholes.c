/* black_scholes.c: prices of European options; a call less a put is the share less the strike.
**
**     def cdf(x):
**         return 0.5 * erfc(-x / np.sqrt(2))
**
**     s, k, r, v, t = np.linspace(50, 150, 101), 100.0, 0.05, 0.2, 1.0
**     d1 = (np.log(s / k) + (r + v*v/2) * t) / (v * np.sqrt(t))
**     d2 = d1 - v * np.sqrt(t)
**     call = s * cdf(d1) - k * np.exp(-r*t) * cdf(d2)
**     put = k * np.exp(-r*t) * cdf(-d2) - s * cdf(-d1)
**     assert abs(call[50] - 10.450583572185565) < 1e-9
**     assert np.allclose(call - put, s - k * np.exp(-r*t))
**     print("a call at the money costs %.6f, a put %.6f" % (call[50], put[50]))
*/
#include "begin.h"

static const char prices[] =
    "(s, k, r, v, t) -> let d1 = (log(s/k) + (r + v*v/2)*t) / (v*sqrt(t));"
    " let d2 = d1 - v*sqrt(t); let q = sqrt(0.5); let discounted = k*exp(-r*t);"
    " (0.5*(s*erfc(-d1*q) - discounted*erfc(-d2*q)),"
    "  0.5*(discounted*erfc(d2*q) - s*erfc(d1*q)))";

int main(void) {
    tide_runtime *rt = begin();
    double k = 100, r = 0.05, v = 0.2, t = 1;
    tide_array *s = tide_linspace(rt, TIDE_F64, 50, 150, 101, 1), *price[2];
    expect(tide_map_many(rt, price, 2, prices, s, k, r, v, t) == TIDE_OK, "prices");
    double call = tide_item_f64(tide_slice(price[0], "50"));
    expect(call > 10.4505835721 && call < 10.4505835722, "a call at the money");
    tide_array *off = tide_map(rt, "(c, p, s, k, r, t) -> max(abs(c - p - (s - k*exp(-r*t))))",
                               price[0], price[1], s, k, r, t);
    expect(tide_item_f64(off) < 1e-9, "calls less puts");
    printf("a call at the money costs %.6f, a put %.6f\n", call,
           tide_item_f64(tide_slice(price[1], "50")));
    return end(rt);
}
