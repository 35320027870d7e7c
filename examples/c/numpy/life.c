/* life.c: Conway's Game of Life on a torus; a glider comes back to where it began.
**
**     def three(a, axis):
**         return np.roll(a, 1, axis) + a + np.roll(a, -1, axis)
**
**     def step(g):
**         s = three(rt, three(rt, g, 0), 1)
**         return ((s == 3) | ((s == 4) & (g == 1))).astype(np.uint8)
**
**     g = np.zeros((64, 64), np.uint8)
**     g[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
**     now = g
**     for _ in range(4 * 64):
**         now = step(now)
**     assert (now == g).all()
**     print("after 256 steps the glider is where it began;", now.sum(), "cells live")
*/
#include "begin.h"

static tide_array *rolled(tide_array *a, int64_t by, int axis) {
    return tide_roll(a, &by, &axis, 1);
}
static tide_array *three(tide_runtime *rt, tide_array *a, int axis) {
    return tide_map(rt, "(up, a, down) -> up + a + down", rolled(a, 1, axis), a,
                    rolled(a, -1, axis));
}
static tide_array *step(tide_runtime *rt, tide_array *g) {
    return tide_map(rt, "(s, g) -> u8((s == 3) | ((s == 4) & (g == 1)))",
                    three(rt, three(rt, g, 0), 1), g);
}

int main(void) {
    tide_runtime *rt = begin();
    const unsigned char glider[] = {0, 1, 0, 0, 0, 1, 1, 1, 1};
    tide_array *g = tide_zeros(rt, TIDE_U8, SHAPE(64, 64));
    expect(tide_assign(tide_slice(g, ":3, :3"), tide_from_host(rt, TIDE_U8, SHAPE(3, 3), glider)) ==
               TIDE_OK,
           "the glider");
    tide_array *now = g;
    for (int i = 0; i < 4 * 64; i++) now = step(rt, now);
    expect(tide_item_f64(tide_all(tide_eq(now, g), NULL, 0, 0)) == 1, "where it began");
    printf("after 256 steps the glider is where it began; %g cells live\n",
           tide_item_f64(tide_sum(now, NULL, 0, 0)));
    return end(rt);
}
