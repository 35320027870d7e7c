/* cuda_tile.cu: one pass over tiles, for operands whose contiguous dimension (i) is not that of the
** results (j). Embedded as text (tidei_cuda_tile_text), after the program's own part (see
** cuda_map.cu), which gives besides
**   tide_T            the side of a tile
**   tide_fill         brings the turned inputs' tiles into shared memory
**   tide_pick         loads the inputs of element (i, j), the turned ones from there
** Both kinds of operands are read with neighbouring threads on neighbouring elements. Rows of a
** tile in shared memory are padded by a bank, so that reading a column meets all banks. */
template <class E> struct tide_pitch {
    static constexpr int elements = tide_T + (sizeof(E) < 4 ? 4 / (int)sizeof(E) : 1);
};

template <class E>
TD_FN void tide_turn(const E *from, td_i32 si, td_i32 sj, td_u32 ni, td_u32 nj, char *room) {
    constexpr int across = tide_T / 32, down = tide_T / 8;
    const td_u32 tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
    E *to = reinterpret_cast<E *>(room);
    E e[down][across];
#pragma unroll
    for (int y = 0; y < down; y++) {
#pragma unroll
        for (int x = 0; x < across; x++) {
            const td_u32 i = tx + 32 * x, j = ty + 8 * y;
            if (i < ni && j < nj) e[y][x] = from[(td_i32)i * si + (td_i32)j * sj];
        }
    }
#pragma unroll
    for (int y = 0; y < down; y++) {
#pragma unroll
        for (int x = 0; x < across; x++)
            to[(ty + 8 * y) * tide_pitch<E>::elements + tx + 32 * x] = e[y][x];
    }
}
template <class E>
TD_FN E tide_one(const E *from, td_i32 offset, const char *room, td_u32 i, td_u32 j, bool turned) {
    return turned ? reinterpret_cast<const E *>(room)[j * tide_pitch<E>::elements + i]
                  : from[offset];
}

extern "C" __global__ void __launch_bounds__(256) tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
    extern __shared__ __align__(16) char tide_room[];
    constexpr int across = tide_T / 32;
    tide_at at = tide_at();
    td_u32 g = blockIdx.x, tile[2] = {0, 0};
#pragma unroll 1
    for (int d = 0; d < p.last; d++) {
        const td_u32 q = tide_quotient(p.div[d], g), k = g - q * p.div[d].d;
        if (d < 2) tile[d] = k;
        tide_step(p, d, k, at);
        g = q;
    }
    if (p.last < 2) tile[1] = g;
    tide_step(p, p.last, g, at);

    const td_u32 nj = p.nj - tile[0] * tide_T,
                 ni = p.ni - tile[1] * tide_T; /* from here to the end of the dimension */
    tide_fill(p, at, ni, nj, tide_room);
    __syncthreads();
#pragma unroll 1
    for (td_u32 y = threadIdx.x >> 5; y < tide_T; y += 32) {
        tide_x<1> x[4 * across];
#pragma unroll
        for (int u = 0; u < 4 * across; u++) {
            const td_u32 i = y + u / across * 8, j = (threadIdx.x & 31) + u % across * 32;
            if (i < ni && j < nj) tide_pick(p, at, tide_room, i, j, x[u]);
        }
#pragma unroll
        for (int u = 0; u < 4 * across; u++) {
            const td_u32 i = y + u / across * 8, j = (threadIdx.x & 31) + u % across * 32;
            if (i < ni && j < nj) {
                tide_at to = at;
                tide_y<1> r;
                tide_move(p, i, j, to);
                tide_expr_apply(p, to, x[u], r);
                tide_store(p, to, r);
            }
        }
    }
}
