/* pca.c: principal components of handwritten digits, and a linear classifier on them by least
** squares.
**
** The images are centred; the eigenvectors of their covariance are the directions in which they
** differ most. Of two of them a plot is made, of the mean and the first ten a picture; on the first
** forty, one plane for each digit is fitted to tell it from the others. The images whose index is
** divisible by 5 are held back: they are plotted, and classified.
**   pca [--components N] [--out FILE]     writes a portable graymap (pca.pgm), and ends with
**                                         "accuracy 93.89 % (338 of 360)"
** Exit 0, 1 failed, 2 bad input. */
#include "data.h"
#include <errno.h>
#include <stdlib.h>
#include <tide/tide.h>

#define SIDE    8 /* pixels */
#define INPUTS  (SIDE * SIDE)
#define CLASSES 10
#define TILES   11 /* of the picture: the mean, ten components */
#define ZOOM    12 /* pixels of the picture for one */
#define WIDTH   72 /* characters of the plot */
#define HEIGHT  24

/* Images and labels: those that are learnt from, and those held back. */
struct digits {
    tide_runtime *rt;
    tide_array *x, *labels, *held_x, *held_labels;
};

/* The mean image; variances, the largest first; a column for each component. */
struct components {
    tide_array *mean, *variance, *vectors;
};

static tide_array *the_others(tide_array *a) {
    tide_array *parts[4] = {tide_slice(a, "1::5"), tide_slice(a, "2::5"), tide_slice(a, "3::5"),
                            tide_slice(a, "4::5")};
    return tide_concat(parts, 4, 0);
}

static int load(struct digits *d) {
    char path[1200];
    find_data("digits_images.npy", path, sizeof path);
    tide_array *images = tide_map(d->rt, "(p) -> f32(p) / 16.0", tide_npy_read(d->rt, path));
    find_data("digits_labels.npy", path, sizeof path);
    tide_array *labels = tide_npy_read(d->rt, path);
    d->x = the_others(images);
    d->labels = the_others(labels);
    d->held_x = tide_slice(images, "::5");
    d->held_labels = tide_slice(labels, "::5");
    return d->x && d->labels && d->held_x && d->held_labels;
}

static int analyse(const struct digits *d, struct components *c) {
    tide_array *w, *v;
    c->mean = tide_mean(d->x, (const int[]){0}, 1, 0);
    tide_array *x = tide_sub(d->x, c->mean);
    tide_array *covariance =
        tide_map(d->rt, "(s, n) -> s / n", tide_matmul(tide_transpose(x, NULL), x),
                 (double)(tide_array_dim(d->x, 0) - 1));
    if (tide_eigh(covariance, TIDE_LOWER, &w, &v) != TIDE_OK) return 0;
    c->variance = tide_slice(w, "::-1");
    c->vectors = tide_slice(v, ":, ::-1");
    return c->vectors != NULL;
}

/* The first n columns. */
static tide_array *first(tide_array *a, int64_t n) {
    return tide_slicef(a, ":, :%lld", (long long)n);
}
static tide_array *project(const struct components *c, tide_array *x, int64_t n) {
    return tide_matmul(tide_sub(x, c->mean), first(c->vectors, n));
}

/* ---- what is shown ---- */

static int print_variances(const struct digits *d, const struct components *c) {
    float part[INPUTS], sum = 0;
    if (tide_to_host(tide_map(d->rt, "(v) -> v / sum(v)", c->variance), part, sizeof part) !=
        TIDE_OK)
        return 0;
    printf("component  of the variance  together\n");
    for (int i = 0; i < CLASSES; i++) {
        sum += part[i];
        printf("%9d %15.1f %% %7.1f %%  %.*s\n", i + 1, 100 * (double)part[i], 100 * (double)sum,
               (int)(200 * part[i] + 0.5f), "########################################");
    }
    return 1;
}

/* Where v lies between lo and hi, in `n` steps. */
static int step_of(float v, float lo, float hi, int n) {
    return hi > lo ? (int)((v - lo) / (hi - lo) * ((float)n - 0.01f)) : 0;
}

static int print_plot(const struct digits *d, const struct components *c) {
    char grid[HEIGHT][WIDTH + 1];
    int64_t n = tide_array_dim(d->held_x, 0);
    float(*at)[2] = malloc((size_t)n * sizeof *at), lo[2], hi[2];
    unsigned char *label = malloc((size_t)n);
    tide_array *two = project(c, d->held_x, 2);
    int ok = at && label && tide_to_host(two, at, (size_t)n * sizeof *at) == TIDE_OK &&
             tide_to_host(d->held_labels, label, (size_t)n) == TIDE_OK &&
             tide_to_host(tide_min(two, (const int[]){0}, 1, 0), lo, sizeof lo) == TIDE_OK &&
             tide_to_host(tide_max(two, (const int[]){0}, 1, 0), hi, sizeof hi) == TIDE_OK;
    for (int y = 0; y < HEIGHT; y++) snprintf(grid[y], sizeof grid[y], "%*s", WIDTH, "");
    for (int64_t i = 0; ok && i < n; i++)
        grid[step_of(at[i][1], lo[1], hi[1], HEIGHT)][step_of(at[i][0], lo[0], hi[0], WIDTH)] =
            (char)('0' + label[i]);
    if (ok) printf("\nthe digits held back, by the first two components:\n");
    for (int y = 0; ok && y < HEIGHT; y++) printf("  %s\n", grid[y]);
    free(at);
    free(label);
    return ok;
}

/* The mean and the first components side by side, each stretched over all grays. */
static int write_picture(const struct digits *d, const struct components *c, const char *path) {
    enum { W = TILES * SIDE * ZOOM, H = SIDE * ZOOM };
    static unsigned char tile[TILES][SIDE][SIDE], pixels[H][W];
    tide_array *rows[2] = {tide_expand_dims(c->mean, 0),
                           tide_transpose(first(c->vectors, TILES - 1), NULL)};
    tide_array *gray =
        tide_map(d->rt,
                 "(a) -> let lo = min(a, axis=1, keepdims=true);"
                 " u8(round((a - lo) / (max(a, axis=1, keepdims=true) - lo) * 255.0))",
                 tide_concat(rows, 2, 0));
    if (tide_to_host(gray, tile, sizeof tile) != TIDE_OK) return 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) pixels[y][x] = tile[x / H][y / ZOOM][x % H / ZOOM];
    FILE *f = fopen(path, "wb");
    int ok =
        f && fprintf(f, "P5\n%d %d\n255\n", W, H) > 0 && fwrite(pixels, sizeof pixels, 1, f) == 1;
    if (f && fclose(f) != 0) ok = 0;
    if (!ok) fprintf(stderr, "pca: %s: %s\n", path, strerror(errno));
    if (ok) printf("\nthe mean and the first ten components: %s\n", path);
    return ok;
}

/* ---- the classifier ---- */

/* The components and a constant. */
static tide_array *features(const struct digits *d, const struct components *c, tide_array *x,
                            int64_t n) {
    const int64_t shape[] = {tide_array_dim(x, 0), 1};
    tide_array *parts[2] = {project(c, x, n), tide_ones(d->rt, TIDE_F32, 2, shape)};
    return tide_concat(parts, 2, 1);
}

/* One plane for each digit: 1 on its images, -1 on the others'. */
static int classify(const struct digits *d, const struct components *c, int64_t n) {
    tide_array *planes, *rank, *s;
    tide_array *wanted =
        tide_map(d->rt, "(l, class) -> where(l == class, f32(1), f32(-1))",
                 tide_expand_dims(d->labels, 1), tide_arange(d->rt, TIDE_U8, 0, CLASSES, 1));
    if (tide_lstsq(features(d, c, d->x, n), wanted, -1, &planes, &rank, &s) != TIDE_OK) return 0;
    tide_array *best =
        tide_argmax(tide_matmul(features(d, c, d->held_x, n), planes), (const int[]){1}, 1, 0);
    double right =
        tide_item_f64(tide_map(d->rt, "(b, l) -> sum(i64(b == l))", best, d->held_labels));
    double condition = tide_item_f64(tide_map(d->rt, "(s) -> max(s) / min(s)", s)),
           held = (double)tide_array_dim(best, 0);
    if (!(right >= 0) || !(condition > 0)) return 0; /* NaN: it failed */
    printf("\nleast squares on %lld components: rank %.0f, condition %.0f\n", (long long)n,
           tide_item_f64(rank), condition);
    printf("accuracy %.2f %% (%.0f of %.0f)\n", 100 * right / held, right, held);
    return 1;
}

static int run(tide_runtime *rt, int components, const char *path) {
    struct digits d = {.rt = rt};
    struct components c;
    return load(&d) && analyse(&d, &c) && print_variances(&d, &c) && print_plot(&d, &c) &&
           write_picture(&d, &c, path) && classify(&d, &c, components);
}

/* A whole number from 1 to `most`, and nothing behind it. */
static int number(const char *text, int most, int *out) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > most) return 0;
    *out = (int)n;
    return 1;
}

int main(int argc, char **argv) {
    const char *path = "pca.pgm";
    int components = 40;
    for (int i = 1; i < argc; i++) {
        int more = i + 1 < argc;
        if (more && !strcmp(argv[i], "--components") && number(argv[i + 1], INPUTS, &components)) {
            i++;
        } else if (more && !strcmp(argv[i], "--out")) {
            path = argv[++i];
        } else {
            fprintf(stderr, "usage: pca [--components N] [--out FILE]\n");
            return 2;
        }
    }
    tide_runtime *rt;
    if (tide_open(NULL, &rt) != TIDE_OK || !run(rt, components, path)) {
        if (tide_error_last()->status) fprintf(stderr, "pca: %s\n", tide_error_last()->message);
        return 1;
    }
    tide_close(rt);
    return 0;
}
