/* random.c: arrays of random numbers. philox.h says what a block is, and what it gives.
**
** A draw of n elements uses, and advances the counter by: uniform and normal, ceil(n / 4) blocks
** for f32 and ceil(n / 2) for f64; integers, ceil(n / 2), or n when the range is above 2^32; a
** permutation, 12 (its keys). */
#include <inttypes.h>

#include "arrays/arrays.h"
#include "arrays/kernels/launch.h"
#include "arrays/make/philox_host.h"
#include "runtime/memory/capture.h"

extern const char tidei_philox_text[];

static const tidei_philox_host *host(void) {
#ifdef TIDEI_VM_X86 /* the build has it */
    if (__builtin_cpu_supports("avx2")) return &tidei_philox_host_avx2;
#endif
    return &tidei_philox_host_base;
}

/* A kernel of philox.h; of a draw, whose host function is one of a table. */
#define KERNEL(name) ((const tidei_own_kernel){#name, tidei_philox_text, name, false})
#define DRAW(kind)                                                                                 \
    ((const tidei_own_kernel){"philox_" #kind, tidei_philox_text, host()->kind, false})

/* A draw begins where the generator is. */
static void begin_at(const tide_rng *rng, ph_draw *d) {
    d->keys = ph_schedule((ph_u32)rng->seed, (ph_u32)(rng->seed >> 32));
    d->counter = rng->counter;
}
static void shuffle_keys(const tide_rng *rng, int64_t n, ph_shuffle *p) {
    /* at least one for each half */
    int bits = n > 4 ? 64 - __builtin_clzll((unsigned long long)n - 1) : 2;
    *p = (ph_shuffle){.items = (ph_u64)n, .left = bits / 2, .right = bits - bits / 2};
    for (unsigned i = 0; i < PH_ROUNDS; i++)
        p->keys[i] = ph_word64(ph_block(rng->seed, rng->counter + i / 2), i & 1);
}

/* ---- draws that are captured ---- At each run of the graph they begin where the generator is
** then, behind what the draws before them take. */

typedef struct kept {
    const tide_rng *rng;
    uint64_t before;
} kept;

static tide_rng state_of(const void *data) {
    const kept *k = data;
    return (tide_rng){.seed = k->rng->seed, .counter = k->rng->counter + k->before};
}

static bool renew_draw(const void *data, const tide_arg *args, unsigned char *params) {
    const tide_rng rng = state_of(data);
    ph_draw d;
    (void)args;
    memcpy(&d, params, sizeof d);
    begin_at(&rng, &d);
    memcpy(params, &d, sizeof d);
    return true;
}

static bool renew_permutation(const void *data, const tide_arg *args, unsigned char *params) {
    const tide_rng rng = state_of(data);
    ph_shuffle p, now;
    (void)args;
    memcpy(&p, params, sizeof p);
    shuffle_keys(&rng, (int64_t)p.items, &now);
    now.out = p.out;
    memcpy(params, &now, sizeof now);
    return true;
}

/* The generator has given so many blocks. Where that was captured, as the capture's last node if
** there is one for it, each run of the graph takes as many. */
static tide_status advance(tidei_runtime *rt, tide_rng *rng, uint64_t blocks, bool node,
                           tidei_node_renew renew, const char *op) {
    tidei_capture *c = tidei_capturing(rt);
    uint64_t before = 0;
    tide_status s = tidei_likely(!c) ? TIDE_OK : tidei_capture_draw(c, rng, blocks, &before);
    if (s == TIDE_OK) rng->counter += blocks;
    if (tidei_likely(!c) || s != TIDE_OK || !node) return s;
    kept *k = tidei_host_alloc(rt, sizeof *k);
    if (!k) return tidei_capture_fail(c, tidei_fail_host_memory(op, sizeof *k));
    *k = (kept){rng, before};
    return tidei_capture_renew(c, c->nnodes - 1, renew, k);
}

/* ---- draws ---- */

/* A new array of n elements, `per_block` of which come from one block; d holds what the kind of
** number needs. The kernel stores a vector at a time, which may end within a block or be several
** ones. */
static tide_array *draw(tidei_runtime *rt, tide_rng *rng, tide_dtype t, int ndim,
                        const int64_t *shape, tidei_own_kernel k, unsigned per_block, ph_draw d,
                        const char *op) {
    TIDEI_OPERATION(op);
    static const size_t at[] = {offsetof(ph_draw, out)};
    tidei_operand o;
    tide_array *a = tidei_array_make(rt, t, ndim, shape, op, &o);
    if (!a) return NULL;
    const ph_u64 n = (ph_u64)tidei_layout_size(&o.lay), a_vector = PH_VECTOR / tide_dtype_size(t);
    d.n = n;
    d.items = n / a_vector + (n % a_vector != 0);
    begin_at(rng, &d);
    tidei_use use = tidei_operand_use(&o, TIDEI_WRITE);
    tide_status s = d.n ? tidei_run_own(rt, &k, &use, 1, &d, sizeof d, at, d.items, op) : TIDE_OK;
    if (s == TIDE_OK)
        s = advance(rt, rng, n / per_block + (n % per_block != 0), n != 0, renew_draw, op);
    return tidei_array_done(a, &o, s);
}

static tide_status check(const tide_rng *rng, bool dtype_fits, tide_dtype t, const char *wanted,
                         const char *op) {
    if (!rng) return tidei_fail(TIDE_E_INVALID, op, "the generator is NULL");
    return dtype_fits
               ? TIDE_OK
               : tidei_fail(TIDE_E_DTYPE, op, "%s, where %s is wanted", tide_dtype_name(t), wanted);
}

tide_array *tide_random_uniform(tide_runtime *ref, tide_rng *rng, tide_dtype t, int ndim,
                                const int64_t *shape) {
    const char *op = "tide_random_uniform";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt || check(rng, t == TIDE_F32 || t == TIDE_F64, t, "f32 or f64", op) != TIDE_OK)
        return NULL;
    return t == TIDE_F32 ? draw(rt, rng, t, ndim, shape, DRAW(uniform_f32), 4, (ph_draw){0}, op)
                         : draw(rt, rng, t, ndim, shape, DRAW(uniform_f64), 2, (ph_draw){0}, op);
}

tide_array *tide_random_normal(tide_runtime *ref, tide_rng *rng, tide_dtype t, int ndim,
                               const int64_t *shape) {
    const char *op = "tide_random_normal";
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt || check(rng, t == TIDE_F32 || t == TIDE_F64, t, "f32 or f64", op) != TIDE_OK)
        return NULL;
    return t == TIDE_F32 ? draw(rt, rng, t, ndim, shape, DRAW(normal_f32), 4, (ph_draw){0}, op)
                         : draw(rt, rng, t, ndim, shape, DRAW(normal_f64), 2, (ph_draw){0}, op);
}

tide_array *tide_random_integers(tide_runtime *ref, tide_rng *rng, tide_dtype t, int ndim,
                                 const int64_t *shape, int64_t low, int64_t high) {
    const tidei_own_kernel by_log2[] = {DRAW(integers_i8), DRAW(integers_i16), DRAW(integers_i32),
                                        DRAW(integers_i64)};
    const char *op = "tide_random_integers";
    unsigned char element[16];
    ph_draw d = {.low = (ph_u64)low, .range = (ph_u64)high - (ph_u64)low};
    bool integer = tidei_dtype_valid(t) && (tidei_dtype_kind(t) == TIDEI_KIND_INT ||
                                            tidei_dtype_kind(t) == TIDEI_KIND_UINT);
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt || check(rng, integer, t, "an integer type", op) != TIDE_OK) return NULL;
    if (low >= high) {
        tidei_fail(TIDE_E_INVALID, op, "no integers in [%" PRId64 ", %" PRId64 ")", low, high);
        return NULL;
    }
    if (tidei_encode(tide_arg_int(low), t, op, element) != TIDE_OK) return NULL;
    if (tidei_encode(tide_arg_int(high - 1), t, op, element) != TIDE_OK) return NULL;
    return d.range <= (ph_u64)1 << 32
               ? draw(rt, rng, t, ndim, shape, by_log2[__builtin_ctzll(tide_dtype_size(t))], 2, d,
                      op)
               : draw(rt, rng, t, ndim, shape, KERNEL(philox_integers_wide), 1, d, op);
}

tide_array *tide_random_permutation(tide_runtime *ref, tide_rng *rng, int64_t n) {
    TIDEI_OPERATION("tide_random_permutation");
    static const size_t at[] = {offsetof(ph_shuffle, out)};
    const tidei_own_kernel k = KERNEL(philox_permutation);
    tidei_operand o;
    ph_shuffle p;
    tidei_runtime *rt = tidei_entered(ref, "tide_random_permutation");
    if (!rt || check(rng, true, TIDE_I64, "", "tide_random_permutation") != TIDE_OK) return NULL;
    tide_array *a = tidei_array_make(rt, TIDE_I64, 1, &n, "tide_random_permutation", &o);
    if (!a) return NULL;
    shuffle_keys(rng, n, &p);
    tidei_use use = tidei_operand_use(&o, TIDEI_WRITE);
    tide_status s =
        n ? tidei_run_own(rt, &k, &use, 1, &p, sizeof p, at, p.items, "tide_random_permutation")
          : TIDE_OK;
    if (s == TIDE_OK)
        s = advance(rt, rng, PH_ROUNDS / 2, n != 0, renew_permutation, "tide_random_permutation");
    return tidei_array_done(a, &o, s);
}
