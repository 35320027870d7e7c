/* rungs.c: what each rung of the reclaim ladder gives, and how long it takes: one climb in which
** every rung finds something.
**
** Under a limit of 4 GiB: live arrays; garbage that only a collection finds; memory whose last use
** is pending behind long work; handles of cuBLAS and cuSOLVER; free memory in the pool, scattered
** among live arrays; and a neighbour in the process that has some too. Then more is asked for than
** there can be, so that all rungs are climbed. Bytes and times are read from a recording, names
** from the report. */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>
#include <unistd.h>

#define REQUEST (7 * TIDEI_GIB / 2)
#define PIECE   (32 * TIDEI_MIB)
#define PIECES  32 /* live, and as many free in between */
#define RUNGS   16
#define ROUNDS  5
#define MIB     ((double)TIDEI_MIB)

static tide_array *floats(tide_runtime *rt, size_t bytes) {
    const int64_t n = (int64_t)(bytes / sizeof(float));
    return tide_empty(rt, TIDE_F32, 1, &n);
}

/* Arrays that nobody refers to any more: a frame of its own, so that no word of it stays where the
** collector looks. */
static __attribute__((noinline)) bool make_garbage(tide_runtime *rt) {
    for (int i = 0; i < 8; i++)
        if (!floats(rt, 64 * TIDEI_MIB)) return false;
    return true;
}

static __attribute__((noinline)) bool wake_libraries(tide_runtime *rt) {
    const int64_t shape[] = {256, 256};
    tide_rng rng = {.seed = 1};
    tide_array *a = tide_random_uniform(rt, &rng, TIDE_F32, 2, shape),
               *p = a ? tide_matmul(a, a) : NULL, *x = p ? tide_solve(a, p) : NULL;
    tide_free(a);
    tide_free(p);
    tide_free(x);
    return x != NULL;
}

/* Work of some 50 ms on the stream, and memory that it uses last. */
static __attribute__((noinline)) bool leave_pending(tide_runtime *rt) {
    const int64_t shape[] = {4096, 4096};
    tide_array *a = tide_ones(rt, TIDE_F32, 2, shape),
               *c = a ? tide_ones(rt, TIDE_F32, 2, shape) : NULL;
    bool ok = c != NULL;
    for (int i = 0; i < 16 && ok; i++)
        ok = tide_gemm(c, tide_arg_float(1), a, a, tide_arg_float(0)) == TIDE_OK;
    tide_free(a);
    tide_free(c);
    return ok;
}

/* ---- the recording ---- */

struct rung {
    char name[40];
    double bytes[ROUNDS], us[ROUNDS];
};

/* "given by rung: drain 0 bytes, settle 64.000 MiB, ...": the names. */
static unsigned read_names(struct rung *rungs) {
    static const char before[] = "given by rung: ";
    const char *at = strstr(tide_error_last()->message, before);
    unsigned n = 0;
    if (!at) return 0;
    for (at += sizeof before - 1; n < RUNGS && *at && *at != '\n'; n++) {
        size_t name = strcspn(at, "0123456789");
        snprintf(rungs[n].name, sizeof rungs[n].name, "%.*s", (int)(name ? name - 1 : 0), at);
        for (char *c = rungs[n].name; *c; c++)
            if (*c == ' ') *c = '_';
        at += strcspn(at, ",\n");
        at += strspn(at, ", ");
    }
    return n;
}

/* The first climb whose wish was REQUEST: when each rung began and ended. */
static bool read_climb(const char *path, unsigned nrungs, int round, struct rung *rungs) {
    FILE *f = fopen(path, "r");
    char line[128];
    unsigned long long id, bytes, stream, us, began = 0;
    unsigned seen = 0;
    bool inside = false;
    while (f && fgets(line, sizeof line, f)) {
        char op;
        if (sscanf(line, "%c,%llu,%llu,%llu,%llu", &op, &id, &bytes, &stream, &us) != 5) continue;
        if (op == 'R' && id == 0) inside = bytes == REQUEST && !seen;
        if (!inside || id == 0 || id > nrungs) continue;
        if (op == 'R') began = us;
        if (op != 'r') continue;
        rungs[id - 1].bytes[round] = (double)bytes;
        rungs[id - 1].us[round] = (double)(us - began);
        seen++;
    }
    if (f) fclose(f);
    return seen == nrungs;
}

/* ---- the climb ---- */

static bool prepare(tide_runtime *rt, tide_array *keep[PIECES]) {
    tide_array *holes[PIECES];
    for (int i = 0; i < PIECES; i++)
        if (!(keep[i] = floats(rt, PIECE)) || !(holes[i] = floats(rt, PIECE))) return false;
    for (int i = 0; i < PIECES; i++) {
        tide_retain(keep[i]);
        tide_free(holes[i]);
    }
    return wake_libraries(rt) && make_garbage(rt) && leave_pending(rt);
}

static tide_runtime *open_one(const bench *b, const char *limit, const char *trace) {
    tide_runtime *rt = NULL;
    tide_config c = {.struct_size = sizeof c,
                     .device = b->device,
                     .limit = limit,
                     .policy = "never",
                     .trace = trace};
    return tide_open(&c, &rt) == TIDE_OK ? rt : NULL;
}

static unsigned climb(bench *b, tide_runtime *neighbour, int round, struct rung *rungs) {
    char path[] = "/tmp/tide-rungs-XXXXXX.csv";
    tide_array *keep[PIECES], *theirs = floats(neighbour, 512 * TIDEI_MIB);
    int fd = mkstemps(path, 4);
    unsigned n = 0;
    if (fd < 0 || !theirs) return 0;
    close(fd);
    tide_free(theirs);
    tide_runtime *rt = open_one(b, "4GiB", path);
    if (rt && prepare(rt, keep) && !floats(rt, REQUEST) &&
        tide_error_last()->status == TIDE_E_NOMEM)
        n = read_names(rungs);
    for (int i = 0; i < PIECES && n; i++) tide_release(keep[i]);
    tide_close(rt);
    if (n && !read_climb(path, n, round, rungs)) n = 0;
    unlink(path);
    return n;
}

int bench_rungs(bench *b) {
    static struct rung rungs[RUNGS];
    unsigned n = 0;
    if (!bench_open(b, NULL, NULL, false)) return bench_failed("tide_open");
    if (!bench_on_cuda(b)) return bench_skipped("what rungs cost is a GPU's figure");
    for (int r = 0; r < ROUNDS; r++)
        if (!(n = climb(b, b->rt, r, rungs))) return bench_failed("the climb");
    double all = 0;
    for (unsigned i = 0; i < n; i++) {
        double us = bench_median(rungs[i].us, ROUNDS);
        all += us;
        bench_note(b, bench_median(rungs[i].bytes, ROUNDS) / MIB, "MiB", "%s", rungs[i].name);
        bench_note(b, us / 1e3, "ms", "%s_takes", rungs[i].name);
    }
    bench_note(b, all / 1e3, "ms", "climb");
    return bench_done(b, "climb");
}
