/* mandelbrot.c: the Mandelbrot set, in complex numbers, and its area.
**
**     y, x = np.mgrid[-1.25:1.25:500j, -2:0.5:500j]
**     c = x + 1j * y
**     z, inside = np.zeros_like(c), np.ones(c.shape, bool)
**     for _ in range(200):
**         z = np.where(inside, z * z + c, z)
**         inside = np.abs(z) <= 2
**     area = inside.mean() * 2.5 * 2.5
**     assert abs(area - 1.51) < 0.02
**     print("the Mandelbrot set's area is about %.3f" % area)
*/
#include "begin.h"

int main(void) {
    tide_runtime *rt = begin();
    tide_array *x = tide_linspace(rt, TIDE_F64, -2, 0.5, 500, 1);
    tide_array *y = tide_linspace(rt, TIDE_F64, -1.25, 1.25, 500, 1);
    tide_array *c = tide_complex(x, tide_expand_dims(y, 1));
    tide_array *z = tide_zeros_like(c), *inside = tide_map(rt, "(z) -> abs(z) <= 2", z);
    for (int i = 0; i < 200; i++) {
        z = tide_map(rt, "(inside, z, c) -> where(inside, z*z + c, z)", inside, z, c);
        inside = tide_map(rt, "(z) -> abs(z) <= 2", z);
    }
    double area = tide_item_f64(tide_mean(inside, NULL, 0, 0)) * 2.5 * 2.5;
    expect(area > 1.49 && area < 1.53, "the area");
    printf("the Mandelbrot set's area is about %.3f\n", area);
    return end(rt);
}
