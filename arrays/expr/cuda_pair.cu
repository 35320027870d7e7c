/* cuda_pair.cu: a fold whose operands each lack one of two kept dimensions: every row of one meets
** every column of the other (distances, sums of outer products). Embedded as text
** (tidei_cuda_pair_text), after cuda_locate.cu and the program's own part, which gives
**   tide_M, tide_N    rows and columns of a thread
**   tide_K            reduced elements that are staged at once, at most 256
**   tide_blocks       blocks that a multiprocessor has at once
**   tide_runs         whether sums start afresh now and then, so that rounding errors stay small
**   tide_p, tide_at, tide_step, tide_acc and what goes with it as in cuda_fold.cu; tide_done: the
**                     stored result of an accumulator, of type tide_out
**   tide_row_x, tide_column_x, tide_get    the inputs of a row's or column's element; tide_hop: adds
**                                          offsets
**   tide_set                               makes the values of it that the body is made of, and
**                                          stages them; tide_rows_bytes: the room of those of rows
**   tide_rows, tide_columns, tide_read     those of a thread's rows and columns
**   tide_pair                              the body's value of a row and a column
** Dimension 0 has the columns, dimension 1 the rows, those up to p.kept the batches; the others are
** folded. A block of 2^p.cshift times 2^(8 - p.cshift) threads has a tile of tide_M and tide_N
** times as many rows and columns, and one stretch of the reduced elements (blockIdx.y). Of tide_K
** of them the values of each side are made once and staged, those of a row's or column's neighbours
** side by side; each thread combines all its rows with all its columns in registers. So an operand
** is read once a tile, and what depends on one side alone is computed once a tile.
** p.across and p.tail are tiles along the columns and the rows; p.flat has two bits: whether threads
** that stage rows, and columns, lie along the reduced elements; p.whole: rows of results are whole
** vectors. Where several blocks share a result, accumulators go to p.accs, as in cuda_fold.cu. */
#define TIDE_RUN 64 /* elements that are added up by themselves */

/* N values that lie side by side, by as large vectors as there are. */
template <int N, class V> TD_FN void tide_vectors(const V *from, V (&to)[N]) {
    constexpr int at_once = N * sizeof(V) <= 16 ? N : 16 / (int)sizeof(V);
#pragma unroll
    for (int k = 0; k < N; k += at_once) {
        const tide_vec<V, at_once> x = tide_array_get<at_once>(from + k);
#pragma unroll
        for (int j = 0; j < at_once; j++) to[k + j] = x.v[j];
    }
}

template <int N, class E> TD_FN void tide_put_vectors(E *to, const E (&from)[N]) {
    constexpr int at_once = N * sizeof(E) <= 16 ? N : 16 / (int)sizeof(E);
#pragma unroll
    for (int k = 0; k < N; k += at_once) {
        tide_vec<E, at_once> x;
#pragma unroll
        for (int j = 0; j < at_once; j++) x.v[j] = from[k + j];
        tide_put(to + k, x);
    }
}

/* Adds the offsets of reduced element k. Where there are several reduced dimensions a function is
** called, so that the text stays short. */
static __device__ __noinline__ tide_at tide_far(const tide_p &p, td_i64 k) {
    tide_at at = tide_at();
    tide_locate(p, p.kept, p.last, k, at);
    return at;
}
TD_FN void tide_reach(const tide_p &p, td_i64 k, tide_at &at) {
    if (p.kept == p.last)
        tide_step(p, p.kept, k, at);
    else
        tide_hop(at, tide_far(p, k));
}

#define TIDE_AHEAD 4 /* elements that a thread loads before it makes anything of them */

/* One side of a tile: `tile` rows (or columns), of which `end` exist, from `at` on; dimension d
** goes along them. Threads lie along the reduced elements, `count` from `first` on, or along the
** side, as memory does. What does not exist is left as it was: nothing that is stored comes of
** it. */
template <class SIDE>
TD_FN void tide_stage_along(const tide_p &p, const tide_at &at, int d, td_u32 tile, td_u32 end,
                            td_i64 first, td_u32 count, char *room) {
    const td_u32 shift = 32 - __clz(count - 1), step = 256 >> shift;
    const td_u32 k = threadIdx.x & ((1u << shift) - 1), r0 = threadIdx.x >> shift;
    if (k >= count) return;
    tide_at here = at, hop = tide_at();
    tide_reach(p, first + k, here);
    tide_step(p, d, r0, here);
    tide_step(p, d, step, hop);
#pragma unroll 1
    for (td_u32 r = r0; r < end; r += TIDE_AHEAD * step) {
        SIDE x[TIDE_AHEAD];
#pragma unroll
        for (int u = 0; u < TIDE_AHEAD; u++) {
            if (r + u * step < end) tide_get(p, here, x[u]);
            tide_hop(here, hop);
        }
#pragma unroll
        for (int u = 0; u < TIDE_AHEAD; u++)
            if (r + u * step < end) tide_set(p, room, tile, k, r + u * step, x[u]);
    }
}
template <class SIDE>
TD_FN void tide_stage_across(const tide_p &p, const tide_at &at, int d, td_u32 tile, td_u32 end,
                             td_i64 first, td_u32 count, char *room) {
    const td_u32 shift = 31 - __clz(tile);
#pragma unroll 1
    for (td_u32 e0 = threadIdx.x; e0 < count << shift; e0 += TIDE_AHEAD * 256) {
        SIDE x[TIDE_AHEAD];
#pragma unroll
        for (int u = 0; u < TIDE_AHEAD; u++) {
            const td_u32 k = (e0 + u * 256) >> shift, r = (e0 + u * 256) & (tile - 1);
            if (k >= count || r >= end) continue;
            tide_at here = at;
            tide_reach(p, first + k, here);
            tide_step(p, d, r, here);
            tide_get(p, here, x[u]);
        }
#pragma unroll
        for (int u = 0; u < TIDE_AHEAD; u++) {
            const td_u32 k = (e0 + u * 256) >> shift, r = (e0 + u * 256) & (tile - 1);
            if (k < count && r < end) tide_set(p, room, tile, k, r, x[u]);
        }
    }
}
template <class SIDE>
TD_FN void tide_stage(const tide_p &p, const tide_at &at, int d, td_u32 tile, td_i64 left,
                      bool along, td_i64 first, td_u32 count, char *room) {
    const td_u32 end = (td_u32)(left < tile ? left : tile);
    if (along)
        tide_stage_along<SIDE>(p, at, d, tile, end, first, count, room);
    else
        tide_stage_across<SIDE>(p, at, d, tile, end, first, count, room);
}

/* Stores a thread's results of a row, or their accumulators; `left` columns exist. */
struct tide_line {
    tide_acc a[tide_N];
};
static __device__ __noinline__ void tide_finish(const tide_p &p, td_i64 to, td_i64 left,
                                                tide_line y) {
    if (p.whole && left >= tide_N) {
        tide_out out[tide_N];
#pragma unroll
        for (int n = 0; n < tide_N; n++) out[n] = tide_done(p, y.a[n]);
        tide_put_vectors(p.o0 + to, out);
        return;
    }
#pragma unroll
    for (int n = 0; n < tide_N; n++) {
        if (n >= left) return;
        if (p.part)
            p.accs[blockIdx.y * p.outs + to + n * p.lift] = y.a[n];
        else
            p.o0[to + n * p.lift] = tide_done(p, y.a[n]);
    }
}

extern "C" __global__ void __launch_bounds__(256, tide_blocks)
    tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
    extern __shared__ __align__(16) char tide_room[];
    const td_u32 t = threadIdx.x, rows = (td_u32)tide_M << p.cshift,
                 columns = (td_u32)tide_N << (8 - p.cshift);
    const td_u32 ti = t >> (8 - p.cshift), tj = t & ((256u >> p.cshift) - 1);
    const td_u32 above = blockIdx.x / p.across, batch = above / p.tail;
    const td_i64 j0 = (td_i64)(blockIdx.x - above * p.across) * columns,
                 i0 = (td_i64)(above - batch * p.tail) * rows;
    const td_i64 first = blockIdx.y * p.chunk,
                 end = p.groups - first < p.chunk ? p.groups : first + p.chunk;
    char *const beside = tide_room + tide_rows_bytes(rows);
    tide_at at = tide_at();
    if (p.kept > 2) tide_locate(p, 2, p.kept - 1, batch, at);
    tide_step(p, 1, i0, at);
    tide_step(p, 0, j0, at);

    tide_acc total[tide_M][tide_N], acc[tide_M][tide_N];
#pragma unroll
    for (int m = 0; m < tide_M; m++) {
#pragma unroll
        for (int n = 0; n < tide_N; n++) total[m][n] = acc[m][n] = tide_start();
    }
#pragma unroll 1
    for (td_i64 k0 = first; k0 < end; k0 += tide_K) {
        const td_u32 count = end - k0 < tide_K ? (td_u32)(end - k0) : tide_K;
        __syncthreads(); /* what was staged before has been read */
        tide_stage<tide_row_x>(p, at, 1, rows, (td_i64)p.div[1].d - i0, p.flat & 1, k0, count,
                               tide_room);
        tide_stage<tide_column_x>(p, at, 0, columns, (td_i64)p.div[0].d - j0, p.flat & 2, k0, count,
                                  beside);
        __syncthreads();
#pragma unroll tide_unroll
        for (td_u32 k = 0; k < count; k++) {
            tide_rows r;
            tide_columns c;
            tide_read(tide_room, rows, k, ti * tide_M, r);
            tide_read(beside, columns, k, tj * tide_N, c);
#pragma unroll
            for (int m = 0; m < tide_M; m++) {
#pragma unroll
                for (int n = 0; n < tide_N; n++)
                    tide_add(acc[m][n], tide_pair(p, r, m, c, n), k0 + k);
            }
        }
        if (tide_runs && ((k0 - first + tide_K) % TIDE_RUN == 0 || k0 + tide_K >= end)) {
#pragma unroll
            for (int m = 0; m < tide_M; m++) {
#pragma unroll
                for (int n = 0; n < tide_N; n++) {
                    tide_join(total[m][n], acc[m][n]);
                    acc[m][n] = tide_start();
                }
            }
        }
    }

    const td_i64 left = (td_i64)p.div[0].d - j0 - tj * tide_N;
    tide_step(p, 0, tj * tide_N, at);
#pragma unroll
    for (int m = 0; m < tide_M; m++) {
        const td_u32 i = ti * tide_M + m;
        if (i0 + i >= (td_i64)p.div[1].d) return;
        tide_at to = at;
        tide_step(p, 1, i, to);
        tide_line y;
#pragma unroll
        for (int n = 0; n < tide_N; n++) y.a[n] = tide_runs ? total[m][n] : acc[m][n];
        tide_finish(p, to.o0, left, y);
    }
}
