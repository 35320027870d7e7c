/* wave.c: the 2-D wave equation on views: two drops fall into a square basin, and the surface is
** written as a picture.
**
** u(t+1) = 2 u(t) - u(t-1) + c^2 (sum of the four neighbours - 4 u(t)): leapfrog, stable for c^2 <=
** 1/2. The inner part of the grid and its four shifted neighbours are views of one array; the
** result is written into a view of the oldest one.
**   wave [--size N] [--steps N] [--out FILE]     writes a portable graymap (wave.pgm)
** Exit 0, 1 failed, 2 bad input. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>

/* A smooth bump of height 1 at (y, x), in units of the grid. */
static tide_array *bump(tide_runtime *rt, tide_array *u, int64_t n, double y, double x) {
    tide_array *i = tide_arange(rt, TIDE_F32, 0, (double)n, 1);
    return tide_map(rt, "(u, i, j, y, x, w) -> u + exp(-((i - y)**2 + (j - x)**2) / w)", u,
                    tide_expand_dims(i, 1), i, y * (double)n, x * (double)n,
                    (double)(n * n) / 2000.0);
}

static int advance(tide_array *next, tide_array *now) {
    return tide_map_into(tide_slice(next, "1:-1, 1:-1"),
                         "(u, n, s, w, e, old) -> 2.0*u - old + 0.25*(n + s + w + e - 4.0*u)",
                         tide_slice(now, "1:-1, 1:-1"), tide_slice(now, ":-2, 1:-1"),
                         tide_slice(now, "2:, 1:-1"), tide_slice(now, "1:-1, :-2"),
                         tide_slice(now, "1:-1, 2:"), tide_slice(next, "1:-1, 1:-1")) == TIDE_OK;
}

static int write_picture(tide_runtime *rt, tide_array *u, int64_t n, const char *path) {
    tide_array *gray =
        tide_map(rt, "(u) -> let top = max(abs(u)) + 1e-20; u8(round(127.5 + 127.5 * u / top))", u);
    unsigned char *pixels = malloc((size_t)(n * n));
    FILE *f = NULL;
    int ok =
        pixels && tide_to_host(gray, pixels, (size_t)(n * n)) == TIDE_OK && (f = fopen(path, "wb"));
    if (ok)
        ok = fprintf(f, "P5\n%lld %lld\n255\n", (long long)n, (long long)n) > 0 &&
             fwrite(pixels, (size_t)n, (size_t)n, f) == (size_t)n;
    if (f && fclose(f) != 0) ok = 0;
    free(pixels);
    return ok;
}

static int run(tide_runtime *rt, int64_t n, long steps, const char *path) {
    const int64_t shape[] = {n, n};
    tide_array *now =
        bump(rt, bump(rt, tide_zeros(rt, TIDE_F32, 2, shape), n, 0.3, 0.3), n, 0.6, 0.7);
    tide_array *before = tide_copy(now); /* at rest */
    if (!now || !before) return 0;
    for (long t = 0; t < steps; t++) {
        if (!advance(before, now)) return 0;
        tide_array *swap = before;
        before = now;
        now = swap;
    }
    if (!write_picture(rt, now, n, path)) return 0;
    printf("%lld x %lld after %ld steps: %s\n", (long long)n, (long long)n, steps, path);
    return 1;
}

/* A whole number in [low, high], and nothing behind it. */
static int number(const char *text, long low, long high, long *out) {
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return end != text && !*end && !errno && *out >= low && *out <= high;
}

int main(int argc, char **argv) {
    long size = 256, steps = 300;
    const char *path = "wave.pgm";
    for (int i = 1; i < argc; i++) {
        int more = i + 1 < argc;
        if (more && !strcmp(argv[i], "--size") && number(argv[i + 1], 3, 16384, &size))
            i++;
        else if (more && !strcmp(argv[i], "--steps") && number(argv[i + 1], 0, LONG_MAX, &steps))
            i++;
        else if (more && !strcmp(argv[i], "--out"))
            path = argv[++i];
        else {
            fprintf(stderr, "usage: wave [--size N] [--steps N] [--out FILE]\n");
            return 2;
        }
    }
    tide_runtime *rt;
    if (tide_open(NULL, &rt) != TIDE_OK || !run(rt, size, steps, path)) {
        fprintf(stderr, "wave: %s\n",
                tide_error_last()->status ? tide_error_last()->message
                                          : "could not write the picture");
        return 1;
    }
    tide_close(rt);
    return 0;
}
