/* cuda_uneven.cu: one pass over rows that vectors do not fit: views that begin anywhere, rows of
** any length, elements any distance apart. Embedded as text (tidei_cuda_uneven_text), after the
** program's own part (see cuda_map.cu), which gives besides
**   tide_from, tide_begin    where a thread's elements lie: the address of element k0 of its row,
**                            of every operand
**   tide_pick, tide_open     load tide_V elements from there and k more, where all operands are
**                            dense (their elements lie side by side) or any distance apart; what
**                            was loaded, as elements
**   tide_lay                 stores them
**   tide_behind              how many elements the first result's row is behind a boundary of 4
**                            bytes
** A warp has a stretch of one row: lanes side by side on groups of tide_V elements, tide_U times 32
** of these. So a group costs no arithmetic of its own, its distance from the thread's first one is
** a constant, and operands that are shifted against each other find the lines of memory in the
** cache where another one's threads, or those of the next row, have brought them. A block has
** 8 / 2^p.across rows.
** Groups have 4 bytes (cuda_words.cu), or one element; groups begin where they are whole words of
** the first result. What lies at a row's ends goes alone, an element a lane. */

/* Whether the group at element k goes as a whole: words that have some of it have nothing beyond
** the row's end. */
TD_FN bool tide_goes(const tide_p &p, td_i32 k) {
    return (tide_V == 1 || k >= 0) && k + (2 * tide_V - 1) <= p.n;
}

/* The element of a row that goes alone and is this lane's; negative: none. Groups begin at elements
** g * tide_V - behind; those that begin before the row, and those at its end, do not go as a whole.
** The warp whose stretch begins with element `from` has those that lie before its groups and those
** that follow its last whole one. */
TD_FN td_i32 tide_alone(const tide_p &p, td_i32 behind, td_i32 from, td_i32 lane) {
    const td_i32 whole = p.n + behind - (2 * tide_V - 1); /* groups up to here go */
    const td_i32 head = behind ? tide_V - behind : 0, low = from < 0 ? (head < p.n ? head : p.n) : 0;
    td_i32 end = whole < 0 ? 0 : (whole / tide_V + 1) * tide_V - behind;
    if (end < head) end = head;
    if (lane < low) return lane;
    const td_i32 tail = end + lane - low, reach = from + 32 * tide_U * tide_V;
    return end >= from && end < reach && tail < p.n ? tail : -1;
}

extern "C" __global__ void __launch_bounds__(256) tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
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

    const td_i32 behind = p.apart ? 0 : tide_behind(p, at),
                 begins = (td_i32)(stretch * (32 * tide_U * tide_V)) - behind,
                 k0 = begins + (td_i32)(t & 31) * tide_V,
                 alone = tide_V > 1 ? tide_alone(p, behind, begins, t & 31) : -1;
    tide_from from;
    tide_begin(p, at, k0, from);
    tide_raw<tide_V> x[tide_U];
    tide_raw<1> one;
    bool on[tide_U];
#pragma unroll
    for (int u = 0; u < tide_U; u++) on[u] = tide_goes(p, k0 + u * 32 * tide_V);
    if (alone >= 0) tide_pick<false>(p, from, alone - k0, one);
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
            tide_x<tide_V> open;
            tide_y<tide_V> y;
            if (p.apart)
                tide_open<false>(from, x[u], open);
            else
                tide_open<true>(from, x[u], open);
            tide_expr_apply(p, tide_where(from, u * 32 * tide_V), open, y);
            if (p.apart)
                tide_lay<false>(p, from, u * 32 * tide_V, y);
            else
                tide_lay<true>(p, from, u * 32 * tide_V, y);
        }
    if (alone >= 0) {
        tide_x<1> open;
        tide_y<1> y;
        tide_open<false>(from, one, open);
        tide_expr_apply(p, tide_where(from, alone - k0), open, y);
        tide_lay<false>(p, from, alone - k0, y);
    }
}
