/* recipes.c: small programs beside their versions in NumPy, each with its result checked.
**
** Above each function stands what it is in NumPy; a statement there is one here, or two. The
** library looks after the arrays: what a recipe makes on the way is found and freed by the
** collector. A call that fails gives NULL, and every later one passes that on, so that one check at
** the end is enough. recipes [NAME...]     runs those, or all; exit 0, 1 failed, 2 bad input */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tide/tide.h>

#define COUNT(x) (sizeof(x) / sizeof *(x))
#define SHAPE(...)                                                                                 \
    (int)COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]) { __VA_ARGS__ }
#define ROW(rt, t, type, ...)                                                                      \
    tide_from_host(rt, t, SHAPE((int64_t)COUNT(((type[]){__VA_ARGS__}))), (type[]){__VA_ARGS__})

/* Whether a number, or an array of one, is what it should be. */
static int is(tide_array *a, double wanted) { return fabs(tide_item_f64(a) - wanted) <= 1e-9; }

/* n[i][j], the live cells among the nine around it:
**     n = sum(np.roll(g, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))
**     g = (n == 3) | (g & (n == 4))
** A glider comes to its own shape again after four steps, one place further down and right. */
static tide_array *three(tide_array *g, int axis) {
    tide_runtime *rt = tide_array_runtime(g);
    return tide_map(rt, "(a, g, b) -> u8(a) + g + b", tide_roll(g, (int64_t[]){1}, &axis, 1), g,
                    tide_roll(g, (int64_t[]){-1}, &axis, 1));
}
static int life(tide_runtime *rt) {
    tide_array *g = tide_zeros(rt, TIDE_BOOL, SHAPE(64, 64)), *start;
    tide_array *glider =
        tide_reshape(ROW(rt, TIDE_BOOL, char, 0, 1, 0, 0, 0, 1, 1, 1, 1), SHAPE(3, 3));
    if (tide_assign(tide_slice(g, "1:4, 1:4"), glider) != TIDE_OK) return 0;
    start = g;
    for (int step = 0; step < 4 * 64; step++) {
        g = tide_map(rt, "(n, g) -> n == 3 || (g && n == 4)", three(three(g, 0), 1), g);
        if (step == 3) start = tide_roll(start, (int64_t[]){1, 1}, (int[]){0, 1}, 2);
        if (step == 3 && !is(tide_map(rt, "(a, b) -> f64(all(a == b))", g, start), 1)) return 0;
    }
    return is(tide_sum(g, NULL, 0, 0), 5); /* around the torus, and back */
}

static const struct {
    const char *name;
    int (*run)(tide_runtime *rt);
} recipes[] = {
    {"life", life},
};

static int is_wanted(const char *name, int n, char **names) {
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    tide_runtime *rt;
    int done = 0, failed = 0;
    if (tide_open(NULL, &rt) != TIDE_OK) return fputs(tide_error_last()->message, stderr), 1;
    for (size_t i = 0; i < COUNT(recipes); i++) {
        if (!is_wanted(recipes[i].name, argc - 1, argv + 1)) continue;
        int right = recipes[i].run(rt);
        printf("%s: %s\n", recipes[i].name, right ? "right" : "wrong");
        if (!right && tide_error_last()->status)
            fprintf(stderr, "%s\n", tide_error_last()->message);
        done++;
        failed += !right;
    }
    tide_close(rt);
    return done < (argc > 1 ? argc - 1 : 1) ? 2 : failed ? 1 : 0;
}
