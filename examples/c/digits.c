/* digits.c: trains a two-layer network (64-128-10) on handwritten digits, and frees nothing.
**
** Softmax cross-entropy, Adam, mini-batches shuffled by a permutation made on the device. After the
** first step a hard limit is set 1 MiB above what is live then: from there on the garbage of every
** step has to be found in time. Held back: the images whose index is divisible by 5.
**   digits [--epochs N] [--graph] [--summary] [--progress]
** ends with "accuracy 96.67 % (348 of 360)". With --graph a step is captured once, and queued as a
** whole from then on (include/tide/graph.h); the limit is set when that has happened. --summary
** says how long the training took.
** Exit 0, 1 failed, 2 bad input. */
#include "data.h"
#include <stdlib.h>
#include <tide/tide.h>
#include <time.h>

#define INPUTS  64
#define HIDDEN  128
#define CLASSES 10
#define BATCH   64

struct options {
    int epochs, graph, summary, progress;
};

/* One parameter of the network with its two moments. */
struct parameter {
    tide_array *w, *m, *v;
};

struct net {
    tide_runtime *rt;
    struct parameter w1, b1, w2, b2;
    tide_array *classes; /* 0 .. 9 */
    tide_expr *hidden, *loss, *back, *adam;
    int64_t steps;
    tide_graph *graph; /* NULL: steps are made by calls */
    tide_array *x, *label;
};

static tide_array *column_sums(tide_array *a) { return tide_sum(a, (const int[]){0}, 1, 0); }

static struct parameter parameter(tide_runtime *rt, tide_rng *rng, int ndim, const int64_t *shape,
                                  double scale) {
    struct parameter p;
    p.w = scale > 0 ? tide_map(rt, "(r, s) -> r * s",
                               tide_random_normal(rt, rng, TIDE_F32, ndim, shape), scale)
                    : tide_zeros(rt, TIDE_F32, ndim, shape);
    p.m = tide_zeros(rt, TIDE_F32, ndim, shape);
    p.v = tide_zeros(rt, TIDE_F32, ndim, shape);
    return p;
}

static void net_init(struct net *n, tide_runtime *rt, tide_rng *rng) {
    *n = (struct net){.rt = rt};
    /* about sqrt(2 / inputs) */
    n->w1 = parameter(rt, rng, 2, (const int64_t[]){INPUTS, HIDDEN}, 0.18);
    n->b1 = parameter(rt, rng, 1, (const int64_t[]){HIDDEN}, 0);
    n->w2 = parameter(rt, rng, 2, (const int64_t[]){HIDDEN, CLASSES}, 0.12);
    n->b2 = parameter(rt, rng, 1, (const int64_t[]){CLASSES}, 0);
    n->classes = tide_arange(rt, TIDE_U8, 0, CLASSES, 1);
    n->hidden = tide_expr_new(rt, "(z, b) -> maximum(z + b, 0.0)");
    /* The gradient of the mean cross-entropy by the logits: (softmax - one hot) / batch. */
    n->loss =
        tide_expr_new(rt, "(z, b, label, class, scale) -> let t = z + b;"
                          " let e = exp(t - max(t, axis=1, keepdims=true));"
                          " (e / sum(e, axis=1, keepdims=true) - f32(label == class)) * scale");
    n->back = tide_expr_new(rt, "(g, h) -> where(h > 0.0, g, 0.0)");
    n->adam = tide_expr_new(
        rt, "(w, g, m, v, rate, c1, c2) -> let m1 = 0.9*m + 0.1*g; let v1 = 0.999*v + 0.001*g*g;"
            " (w - rate * (m1*c1) / (sqrt(v1*c2) + 1e-8), m1, v1)");
}

/* What Adam divides its moments by, in this step. */
static void corrections(const struct net *n, tide_arg c[2]) {
    double c1 = 1, c2 = 1;
    for (int64_t i = 0; i < n->steps && i < 10000; i++) c1 *= 0.9, c2 *= 0.999;
    c[0] = tide_arg_float(1 / (1 - c1));
    c[1] = tide_arg_float(1 / (1 - c2));
}

/* A graph's parameters stay where they are. */
static int update(struct net *n, struct parameter *p, tide_array *gradient, const tide_arg c[2]) {
    const tide_arg args[] = {tide_arg_array(p->w),
                             tide_arg_array(gradient),
                             tide_arg_array(p->m),
                             tide_arg_array(p->v),
                             tide_arg_float(2e-3),
                             c[0],
                             c[1]};
    tide_array *outs[3] = {p->w, p->m, p->v};
    if (n->graph) return tide_expr_apply_into(outs, 3, n->adam, args, 7) == TIDE_OK;
    if (tide_expr_apply_many(n->adam, args, 7, outs, 3) != TIDE_OK) return 0;
    *p = (struct parameter){outs[0], outs[1], outs[2]};
    return 1;
}

/* One step of training on the images of a mini-batch; 0 on failure. */
static int step(struct net *n, tide_array *which, const tide_arg c[2]) {
    tide_array *x = tide_take(n->x, which, 0), *label = tide_take(n->label, which, 0);
    tide_array *h = tide_expr_apply(
        n->hidden,
        (const tide_arg[]){tide_arg_array(tide_matmul(x, n->w1.w)), tide_arg_array(n->b1.w)}, 2);
    const tide_arg args[] = {tide_arg_array(tide_matmul(h, n->w2.w)), tide_arg_array(n->b2.w),
                             tide_arg_array(tide_expand_dims(label, 1)), tide_arg_array(n->classes),
                             tide_arg_float(1.0 / (double)tide_array_dim(x, 0))};
    tide_array *g = tide_expr_apply(n->loss, args, 5);
    tide_array *gh = tide_expr_apply(
        n->back,
        (const tide_arg[]){tide_arg_array(tide_matmul(g, tide_transpose(n->w2.w, NULL))),
                           tide_arg_array(h)},
        2);
    return update(n, &n->w2, tide_matmul(tide_transpose(h, NULL), g), c) &&
           update(n, &n->b2, column_sums(g), c) &&
           update(n, &n->w1, tide_matmul(tide_transpose(x, NULL), gh), c) &&
           update(n, &n->b1, column_sums(gh), c);
}

static tide_status captured_step(void *user, const tide_arg *args, size_t nargs, tide_array **outs,
                                 size_t nouts) {
    (void)nargs, (void)outs, (void)nouts;
    return step(user, args[0].value.array, args + 1) ? TIDE_OK : tide_error_last()->status;
}

static int any_step(struct net *n, tide_array *which) {
    tide_arg args[] = {tide_arg_array(which), {0}, {0}};
    n->steps++;
    corrections(n, args + 1);
    return n->graph ? tide_graph_run(n->graph, args, 3, NULL, 0) == TIDE_OK
                    : step(n, which, args + 1);
}

static tide_array *logits(struct net *n, tide_array *x) {
    tide_array *h =
        tide_map(n->rt, "(z, b) -> maximum(z + b, 0.0)", tide_matmul(x, n->w1.w), n->b1.w);
    return tide_add(tide_matmul(h, n->w2.w), n->b2.w);
}

/* -1 on failure. */
static int64_t count_right(struct net *n, tide_array *x, tide_array *label) {
    tide_array *best = tide_argmax(logits(n, x), (const int[]){1}, 1, 0);
    double right = tide_item_f64(tide_map(n->rt, "(b, l) -> sum(i64(b == l))", best, label));
    return right >= 0 ? (int64_t)right : -1; /* NaN: it failed */
}

/* The hard limit of the exercise: what is live now, garbage taken away, and 1 MiB; what
** library handles hold is live too. On a GPU what lives takes whole pages of 2 MiB. */
static int set_limit(tide_runtime *rt) {
    tide_runtime_figures s = {.struct_size = sizeof s};
    char device[64];
    if (tide_collect(rt) != TIDE_OK || tide_runtime_info(rt, &s) != TIDE_OK) return 0;
    tide_device_text(rt, device, sizeof device);
    size_t page = strncmp(device, "cuda", 4) == 0 ? 2 << 20 : 1;
    size_t live = (s.live + page - 1) / page * page;
    return tide_device_set_limit(rt, live + s.library + (1 << 20)) == TIDE_OK;
}

static int train(struct net *n, tide_rng *rng, int epochs, int progress) {
    const int64_t rows = tide_array_dim(n->x, 0), first = n->graph ? 3 : 1;
    for (int e = 0; e < epochs; e++) {
        tide_array *order = tide_random_permutation(n->rt, rng, rows);
        for (int64_t at = 0; at + BATCH <= rows; at += BATCH) {
            tide_array *batch =
                tide_slicef(order, "%lld:%lld", (long long)at, (long long)at + BATCH);
            if (!batch || !any_step(n, batch)) return 0;
            if (n->steps == first && !set_limit(n->rt)) return 0;
        }
        if (progress)
            fprintf(stderr, "\rtraining [%-40.*s] epoch %d of %d", (e + 1) * 40 / epochs,
                    "########################################", e + 1, epochs);
    }
    if (progress) fprintf(stderr, "\n");
    return 1;
}

/* Every fifth image from the first is held back; the other four fifths are left, in order. */
static tide_array *every_fifth(tide_array *a) { return tide_slice(a, "::5"); }
static tide_array *the_others(tide_array *a) {
    tide_array *parts[4] = {tide_slice(a, "1::5"), tide_slice(a, "2::5"), tide_slice(a, "3::5"),
                            tide_slice(a, "4::5")};
    return tide_concat(parts, 4, 0);
}

static tide_array *load(tide_runtime *rt, const char *name) {
    char path[1200];
    find_data(name, path, sizeof path);
    return tide_npy_read(rt, path);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The training, and how long it took. */
static int train_timed(struct net *n, tide_rng *rng, const struct options *o) {
    if (tide_synchronize(n->rt, NULL) != TIDE_OK) return 0;
    double start = seconds();
    if (!train(n, rng, o->epochs, o->progress) || tide_synchronize(n->rt, NULL) != TIDE_OK)
        return 0;
    tide_graph_figures f = {.struct_size = sizeof f};
    if (n->graph && tide_graph_info(n->graph, &f) != TIDE_OK) return 0;
    if (o->summary)
        printf("summary total_s=%.4f graph_calls=%llu graph_launches=%llu\n", seconds() - start,
               (unsigned long long)f.calls, (unsigned long long)f.launches);
    return 1;
}

static int run(tide_runtime *rt, const struct options *o) {
    tide_rng rng = {.seed = 7};
    struct net n;
    tide_array *pixels = load(rt, "digits_images.npy"), *labels = load(rt, "digits_labels.npy");
    tide_array *images = tide_map(rt, "(p) -> f32(p) / 16.0", pixels);
    tide_array *x = the_others(images), *y = the_others(labels);
    tide_array *held_x = tide_copy(every_fifth(images)), *held_y = tide_copy(every_fifth(labels));
    if (!x || !y || !held_x || !held_y) return 0;
    pixels = labels = images = NULL;
    net_init(&n, rt, &rng);
    n.x = x;
    n.label = y;
    if (o->graph && !(n.graph = tide_graph_new(rt, captured_step, &n))) return 0;
    if (!train_timed(&n, &rng, o)) return 0;
    tide_graph_release(n.graph);
    int64_t right = count_right(&n, held_x, held_y), all = tide_array_dim(held_x, 0);
    if (right < 0 || all <= 0) return 0;
    printf("accuracy %.2f %% (%lld of %lld)\n", 100.0 * (double)right / (double)all,
           (long long)right, (long long)all);
    return 1;
}

/* A whole number from 1 on, and nothing behind it. */
static int number(const char *text, int *out) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > 1000000) return 0;
    *out = (int)n;
    return 1;
}

int main(int argc, char **argv) {
    struct options o = {.epochs = 40};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--progress")) {
            o.progress = 1;
        } else if (!strcmp(argv[i], "--graph")) {
            o.graph = 1;
        } else if (!strcmp(argv[i], "--summary")) {
            o.summary = 1;
        } else if (!strcmp(argv[i], "--epochs") && i + 1 < argc && number(argv[i + 1], &o.epochs)) {
            i++;
        } else {
            fprintf(stderr, "usage: digits [--epochs N] [--graph] [--summary] [--progress]\n");
            return 2;
        }
    }
    tide_runtime *rt;
    if (tide_open(NULL, &rt) != TIDE_OK || !run(rt, &o)) {
        fprintf(stderr, "digits: %s\n", tide_error_last()->message);
        return 1;
    }
    tide_close(rt);
    return 0;
}
