/* cuda_map.cu: one pass without a fold. Embedded as text (tidei_cuda_map_text), after the program's
**   own part, which gives
**   tide_V, tide_U    elements of a group, which move as one vector; groups of a thread
**   tide_p            the parameters
**   tide_at           where a group lies: element offsets of all operands
**   tide_x, tide_y    the inputs and results of a group
**   tide_step, tide_load, tide_expr_apply, tide_store; tide_two: whether there are two inputs;
**   tide_flat: a bit for each input that stretches along the vectors. tide_load<FLAT> is for inputs
**   of such bits, tide_load<-1> for any
** Flat: every operand is contiguous, one offset serves all. Else a group's number is taken apart
** into indices, innermost dimension first; offsets fit 32 bits, as the host cuts larger calls. A
** thread loads all it needs before it stores, so that many bytes are under way, and results may lie
** where inputs do. */
#if TIDE_FLAT
TD_FN void tide_locate(const tide_p &p, td_i64 first, td_u32 t, tide_at *at) {
#pragma unroll
    for (int u = 0; u < tide_U; u++) at[u].all = (first + (t + u * 256)) * tide_V;
}
#else
/* Takes the index along dimension d from what is left of the groups' numbers. */
TD_FN void tide_locate_along(const tide_p &p, int d, td_u32 *g, tide_at *at) {
#pragma unroll
    for (int u = 0; u < tide_U; u++) {
        const td_u32 q = tide_quotient(p.div[d], g[u]);
        tide_step(p, d, g[u] - q * p.div[d].d, at[u]);
        g[u] = q;
    }
}
TD_FN void tide_locate(const tide_p &p, td_i64 first, td_u32 t, tide_at *at) {
    td_u32 g[tide_U];
#pragma unroll
    for (int u = 0; u < tide_U; u++) {
        at[u] = tide_at();
        g[u] = (td_u32)first + t + u * 256;
    }
    if (p.last == 1) { /* most views: without a loop constants need no registers */
        tide_locate_along(p, 0, g, at);
#pragma unroll
        for (int u = 0; u < tide_U; u++) tide_step(p, 1, g[u], at[u]);
        return;
    }
#pragma unroll 1
    for (int d = 0; d < p.last; d++) tide_locate_along(p, d, g, at);
#pragma unroll
    for (int u = 0; u < tide_U; u++) tide_step(p, p.last, g[u], at[u]);
}
#endif

template <int FLAT>
TD_FN void tide_load_all(const tide_p &p, const tide_at *at, td_u32 t, td_u32 count,
                         tide_x<tide_V> *x) {
#pragma unroll
    for (int u = 0; u < tide_U; u++)
        if (t + u * 256 < count) tide_load<FLAT>(p, at[u], x[u]);
}

extern "C" __global__ void __launch_bounds__(256) tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
    const td_i64 first = (td_i64)blockIdx.x * (256 * tide_U), left = p.groups - first;
    const td_u32 t = threadIdx.x, count = left < 256 * tide_U ? (td_u32)left : 256 * tide_U;
    tide_at at[tide_U];
    tide_x<tide_V> x[tide_U];
    tide_locate(p, first, t, at);
    const td_u32 flat = tide_flat(p);
    /* without these branches the loads of a thread would wait for each other */
    if (!flat)
        tide_load_all<0>(p, at, t, count, x);
    else if (tide_two && flat == 1)
        tide_load_all<1>(p, at, t, count, x);
    else if (tide_two && flat == 2)
        tide_load_all<2>(p, at, t, count, x);
    else
        tide_load_all<-1>(p, at, t, count, x);
#pragma unroll
    for (int u = 0; u < tide_U; u++)
        if (t + u * 256 < count) {
            tide_y<tide_V> y;
            tide_expr_apply(p, at[u], x[u], y);
            tide_store(p, at[u], y);
        }
#if TIDE_FLAT
    /* less than a group is left */
    if (tide_V > 1 && blockIdx.x == gridDim.x - 1 && p.groups * tide_V + t < p.n) {
        tide_x<1> x1;
        tide_y<1> y1;
        at[0].all = p.groups * tide_V + t;
        tide_load<0>(p, at[0], x1);
        tide_expr_apply(p, at[0], x1, y1);
        tide_store(p, at[0], y1);
    }
#endif
}
