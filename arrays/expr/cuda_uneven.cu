/* cuda_uneven.cu: one pass over rows that vectors do not fit: views that begin anywhere, rows of
** any length, elements any distance apart. Embedded as text (tidei_cuda_uneven_text), after the
** program's own part (see cuda_map.cu), which gives besides
**   tide_from, tide_begin    where a thread's elements lie: the address of element k0 of its row,
**                            of every operand
**   tide_pick, tide_lay      load and store tide_V elements from there and k more, where all
**                            operands are dense (their elements lie side by side) or any distance
**                            apart
**   tide_behind              how many elements the first result's row is behind a boundary of 4
**                            bytes
** A warp has a stretch of one row: lanes side by side on groups of tide_V elements, tide_U times 32
** of these. So a group costs no arithmetic of its own, its distance from the thread's first one is
** a constant, and operands that are shifted against each other find the lines of memory in the
** cache where another one's threads, or those of the next row, have brought them. A block has
** 8 / 2^p.across rows.
** Groups have 4 bytes: elements of 1 and 2 bytes are loaded as the words of memory that they lie in
** and shifted into place; groups begin where they are whole words of the first result. Those at a
** row's ends go element by element. */

/* N elements from q + k on; k elements are a multiple of 4 bytes, unless N is 1. Each of the two
** words has one of the elements. */
template <int N, class E> TD_FN tide_vec<E, N> tide_words(const E *q, td_i32 k) {
    tide_vec<E, N> x;
    if (N > 1 && sizeof(x) == 4) {
        const td_i32 behind = (td_u64)q & 3, word = k / (td_i32)(4 / sizeof(E));
        const char *low = (const char *)q - behind, *high = behind ? low + 4 : low;
        const td_u64 above = ((const td_u32 *)high)[word],
                     both = above << 32 | ((const td_u32 *)low)[word];
        const td_u32 w = (td_u32)(both >> behind * 8);
        return *reinterpret_cast<const tide_vec<E, N> *>(&w);
    }
#pragma unroll
    for (int v = 0; v < N; v++) x.v[v] = q[k + v];
    return x;
}
template <int N, class E> TD_FN tide_vec<E, N> tide_apart(const E *q, td_i32 k, td_i32 stride) {
    tide_vec<E, N> x;
#pragma unroll
    for (int v = 0; v < N; v++) x.v[v] = q[(td_i64)(k + v) * stride];
    return x;
}
template <int N, class E> TD_FN void tide_put_words(E *q, td_i32 k, const tide_vec<E, N> &x) {
    if (N == 1 || (sizeof(x) == 4 && ((td_u64)q & 3) == 0)) {
        *reinterpret_cast<tide_vec<E, N> *>(q + k) = x;
        return;
    }
#pragma unroll
    for (int v = 0; v < N; v++) q[k + v] = x.v[v];
}
template <int N, class E>
TD_FN void tide_put_apart(E *q, td_i32 k, td_i32 stride, const tide_vec<E, N> &x) {
#pragma unroll
    for (int v = 0; v < N; v++) q[(td_i64)(k + v) * stride] = x.v[v];
}

/* Whether the group at element k goes as a whole: words that have some of it have nothing beyond
** the row's end. */
TD_FN bool tide_goes(const tide_p &p, td_i32 k) {
    return (tide_V == 1 || k >= 0) && k + (2 * tide_V - 1) <= p.n;
}

/* The elements of a thread, from k0 of the row on, that go one by one: of a group that begins
** before the row, and of one at its end. */
TD_FN void tide_rest(const tide_p &p, const tide_from &from, td_i32 k0) {
    const td_i32 hop = 32 * tide_V, u = k0 < p.n ? (p.n - 1 - k0) / hop : tide_U;
    const bool head = k0 < 0,
               tail = u < tide_U && k0 + u * hop >= 0 && !tide_goes(p, k0 + u * hop);
#pragma unroll 1
    for (int r = tail ? 0 : 1; r < (head ? 2 : 1); r++) {
        const td_i32 k = r == 0 ? u * hop : 0;
        tide_x<1> x[tide_V];
#pragma unroll
        for (int v = 0; v < tide_V; v++)
            if (k0 + k + v >= 0 && k0 + k + v < p.n) tide_pick<false>(p, from, k + v, x[v]);
#pragma unroll
        for (int v = 0; v < tide_V; v++)
            if (k0 + k + v >= 0 && k0 + k + v < p.n) {
                tide_y<1> y;
                tide_expr_apply(p, tide_where(from, k + v), x[v], y);
                tide_lay<false>(p, from, k + v, y);
            }
    }
}

extern "C" __global__ void __launch_bounds__(256) tide_k(const __grid_constant__ tide_p p) {
    const td_u32 t = threadIdx.x, warp = t >> 5, above = tide_quotient(p.stretches, blockIdx.x);
    const td_u32 stretch = ((blockIdx.x - above * p.stretches.d) << p.across) +
                         (warp & ((1u << p.across) - 1));
    td_u32 row = (above << (3 - p.across)) + (warp >> p.across);
    if (row >= p.rows) return;
    tide_at at = tide_at();
#pragma unroll 1
    for (int d = 1; d < p.last; d++) {
        const td_u32 q = tide_quotient(p.div[d], row);
        tide_step(p, d, row - q * p.div[d].d, at);
        row = q;
    }
    if (p.last > 0) tide_step(p, p.last, row, at);

    const td_i32 k0 = (td_i32)(stretch * (32 * tide_U * tide_V) + (t & 31) * tide_V) -
                      (p.apart ? 0 : tide_behind(p, at));
    tide_from from;
    tide_begin(p, at, k0, from);
    tide_x<tide_V> x[tide_U];
    bool on[tide_U];
#pragma unroll
    for (int u = 0; u < tide_U; u++) on[u] = tide_goes(p, k0 + u * 32 * tide_V);
    /* without this branch the loads of a thread would wait for each other */
    if (!p.apart) {
#pragma unroll
        for (int u = 0; u < tide_U; u++)
            if (on[u]) tide_pick<true>(p, from, u * 32 * tide_V, x[u]);
    } else {
#pragma unroll
        for (int u = 0; u < tide_U; u++)
            if (on[u]) tide_pick<false>(p, from, u * 32 * tide_V, x[u]);
    }
#pragma unroll
    for (int u = 0; u < tide_U; u++)
        if (on[u]) {
            tide_y<tide_V> y;
            tide_expr_apply(p, tide_where(from, u * 32 * tide_V), x[u], y);
            if (p.apart)
                tide_lay<false>(p, from, u * 32 * tide_V, y);
            else
                tide_lay<true>(p, from, u * 32 * tide_V, y);
        }
    if (tide_V > 1) tide_rest(p, from, k0);
}
