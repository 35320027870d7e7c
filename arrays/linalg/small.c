/* small.c: batches of small matrices on a GPU, by kernels of our own (small.cu), which the job
** takes in the library's place where it can.
**
** Model. A block has one matrix at a time, or a few that are very small, in its shared memory, so
** that a batch is one launch: cuSOLVER has QR for one matrix after the other alone, and cuBLAS's
** batches want the address of each matrix. The descriptor is the library's (libs/solver.h), and so
** is what a routine promises.
** What must stay true: which way serves a matrix, and how many threads share a column, in whose
** order sums are taken, goes by the shape, the type and whether it is one of a batch; not by how
** many matrices there are, on which results do not depend. */
#include "arrays/linalg/job.h"
#include "arrays/linalg/small.h"

#define ROOM ((int64_t)48 << 10) /* bytes of shared memory, what every block may have */
/* right sides of a matrix: more are the work of a matrix product, which libraries do it by */
#define SIDES 256
#define GROUP 8 /* threads of a column, where there are columns enough; half as many for 4 rows */
/* of a block's matrices: with more, a thread has so much to do one after the other that matrices
** wait for their turn as long */
#define TEAMS_ELEMENTS 512

extern const char tidei_small_text[];
#define KERNEL(name)                                                                               \
    { name, tidei_small_text, NULL, false }
#define KERNELS(routine)                                                                           \
    {                                                                                              \
        KERNEL("small_" routine "_f32"), KERNEL("small_" routine "_f64"),                          \
            KERNEL("small_" routine "_c64"), KERNEL("small_" routine "_c128")                      \
    }
static const tidei_own_kernel kernels[TIDEI_LAPACK_ROUTINES][4] = {[TIDEI_GETRF] = KERNELS("getrf"),
                                                                   [TIDEI_GETRS] = KERNELS("getrs"),
                                                                   [TIDEI_POTRF] = KERNELS("potrf"),
                                                                   [TIDEI_GEQRF] = KERNELS("geqrf"),
                                                                   [TIDEI_ORGQR] =
                                                                       KERNELS("orgqr")};

static int64_t rows_of(const tidei_lapack *x) {
    return x->routine == TIDEI_GETRS || x->routine == TIDEI_POTRF ? x->n : x->m;
}
/* Columns lie an odd number of elements apart, so that those of a row are in different banks. */
static int64_t apart(const tidei_lapack *x) { return rows_of(x) | 1; }

/* Bytes of shared memory, in a block that solves for so many right sides at once. */
static int64_t room_of(const tidei_lapack *x, int64_t sides) {
    int64_t bytes = apart(x) * x->n * (int64_t)tide_dtype_size(x->dtype);
    if (x->routine == TIDEI_GETRS)
        bytes +=
            apart(x) * sides * (int64_t)tide_dtype_size(x->dtype) + x->n * (int64_t)sizeof(int32_t);
    return bytes;
}

bool tidei_small_takes(tidei_stream *s, const tidei_lapack *x) {
    int64_t least = 2 * 32 / GROUP; /* right sides of a block of one warp, at most */
    return s->dev->d->info.flags & TIDEI_DEV_RUNS_TEXT && kernels[x->routine][0].name &&
           x->count > 1 && rows_of(x) <= ROOM && x->n <= ROOM && room_of(x, least) <= ROOM &&
           (x->routine != TIDEI_GETRS || x->k <= SIDES);
}

/* A block's threads and those of a column; its teams, and right sides that each solves for at
** once. */
typedef struct shape {
    unsigned threads, group, teams;
    int64_t sides;
} shape;

/* As many as a block's groups are, in whole warps. */
static int64_t sides_of(const tidei_lapack *x, unsigned threads, unsigned group) {
    int64_t warp = 32 / group, most = threads / group, wanted = (x->k + warp - 1) / warp * warp;
    return x->routine != TIDEI_GETRS ? 0 : wanted < most ? wanted : most;
}

/* The blocks that the device holds at once, by their threads. */
static int64_t blocks_at_once(const tidei_device_info *info, unsigned threads) {
    return (int64_t)(2048 / threads < 32 ? 2048 / threads : 32) *
           (info->sm_count > 0 ? info->sm_count : 1);
}

/* Teams share the warp of a block where there are matrices enough for all blocks, up to 16 elements
** a thread; one group has all right sides then. */
static void divide(const tidei_device_info *info, const tidei_lapack *x, shape *b) {
    int64_t elements = rows_of(x) * x->n, enough = blocks_at_once(info, b->threads);
    int64_t columns = x->routine == TIDEI_GETRS ? x->k : 1;
    b->teams = 1;
    for (unsigned t = 2; b->threads == 32 && 32 / t >= b->group * columns &&
                         elements * t <= TEAMS_ELEMENTS && x->count / t >= enough;
         t *= 2)
        b->teams = t;
    if (b->teams > 1 && b->sides) b->sides = 32 / b->teams / b->group;
}

/* 4 to 8 elements for each thread, where there are as many, and a group for each right side; as
** wide a group as has rows and leaves none without a column. It goes by the shape alone. */
static shape shape_of(const tidei_device_info *info, const tidei_lapack *x) {
    bool solves = x->routine == TIDEI_GETRS;
    int64_t rows = rows_of(x), elements = rows * x->n, columns = solves ? x->k : x->n;
    shape b = {.threads = 32, .group = rows <= GROUP / 2 ? GROUP / 2 : GROUP};
    while (b.threads < 256 &&
           (elements > 8 * (int64_t)b.threads || (solves && b.threads / b.group < columns)) &&
           room_of(x, sides_of(x, 2 * b.threads, b.group)) <= ROOM)
        b.threads *= 2;
    while (b.group < 32 && b.group < rows && b.threads / (2 * b.group) >= columns) b.group *= 2;
    b.sides = sides_of(x, b.threads, b.group);
    divide(info, x, &b);
    return b;
}

void tidei_job_small(tidei_job *j, const tidei_lapack *x) {
    static const size_t fields[5] = {offsetof(sm_params, a), offsetof(sm_params, b),
                                     offsetof(sm_params, c), 0, offsetof(sm_params, info)};
    tidei_use uses[5];
    size_t at[5];
    int which[5];
    if (j->status == TIDE_OK) j->status = tidei_lapack_allowed(j->stream, x, j->op);
    if (j->status != TIDE_OK) return;
    unsigned n = tidei_lapack_uses(x, uses, which);
    for (unsigned i = 0; i < n; i++) at[i] = fields[which[i]];
    const tidei_device_info *info = &j->stream->dev->d->info;
    shape b = shape_of(info, x);
    int64_t room = (room_of(x, b.sides) + 15) / 16 * 16;
    int64_t parts = b.sides ? (x->k + b.sides - 1) / b.sides : 1;
    sm_params p = {.a_ld = x->a.ld,
                   .a_step = x->a.step,
                   .b_step = x->b.step,
                   .c_ld = x->c.ld,
                   .c_step = x->c.step,
                   .items = x->count * parts,
                   .m = (int)rows_of(x),
                   .n = (int)x->n,
                   .k = (int)x->k,
                   .parts = (int)parts,
                   .teams = (int)b.teams,
                   .room = (int)room,
                   .sides = (int)b.sides,
                   .group = (int)b.group,
                   .ld = (int)apart(x),
                   .trans = x->trans,
                   .upper = x->upper,
                   .narrow = x->narrow};
    /* twice what there is at once, as of other kernels of ours: the end is shared better */
    int64_t blocks = (p.items + p.teams - 1) / p.teams, most = 2 * blocks_at_once(info, b.threads);
    j->status = tidei_run_own_room(
        j->rt, tidei_factor_kernel(kernels[x->routine], x->dtype), uses, n, &p, sizeof p, at,
        b.threads, (unsigned)(blocks < most ? blocks : most), (unsigned)(room * b.teams), j->op);
}
