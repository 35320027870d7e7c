/* cuda_fold.cu: a body folded over the reduced dimensions. Embedded as text (tidei_cuda_fold_text),
** after cuda_locate.cu and the program's own part, which gives
**   tide_V, tide_U    elements of a group, which load as one vector; groups that a thread has under
**                     way
**   tide_W            results of a thread: tide_V where the vectors lie along the kept dimensions,
**                     else 1
**   tide_mode         0: vectors along one reduced dimension; 1: along the innermost kept one; 2:
**                     single elements
**   tide_p, tide_at, tide_x, tide_step, tide_load, tide_two, tide_flat as in cuda_map.cu, with
**                     64-bit offsets; some input has no bit in tide_flat; tide_single: as tide_step
**                     along the reduced dimension of mode 0, counted in elements; tide_hop: adds
**                     offsets; tide_linear: the linear index at an offset
**   tide_acc          an accumulator: tide_start, tide_take (the body's value at an element),
**                     tide_join, tide_end
** A block has 2^p.cshift columns of threads; a column works on one group of results (blockIdx.x)
** and one stretch of the reduced elements (blockIdx.y), its threads (lanes) in turn. What threads
** found is joined in shared memory, in an order fixed by the shape; where several blocks share a
** result, their accumulators go to p.accs, to be folded by another launch. A thread keeps several
** accumulators, and starts afresh every 64 rounds, so that rounding errors stay small. */
/* Loads a thread's next groups. Where groups lie evenly they are where `here` has come to, hop by
** hop, else they are found from `at`, the column's place. Those at `left` and beyond, unless WHOLE
** says that there are none, are not there: instead another one is loaded again, so that no load
** waits for a branch. */
template <int FLAT, bool EVENLY, bool WHOLE>
TD_FN void tide_fetch(const tide_p &p, const tide_at &at, tide_at &here, const tide_at &hop,
                      td_i64 r, td_u32 lanes, td_u32 left, tide_x<tide_V> (&x)[tide_U],
                      td_i64 (&linear)[tide_U]) {
#pragma unroll
    for (int u = 0; u < tide_U; u++) {
        if (!EVENLY) {
            here = at;
            tide_locate(p, p.kept, p.last, WHOLE || u * lanes < left ? r + u * lanes : r, here);
        }
        tide_load<FLAT>(p, here, x[u]);
        linear[u] = tide_linear(p, here);
        if (EVENLY && (WHOLE || (u + 1) * lanes < left)) tide_hop(here, hop);
    }
}

/* Takes a group in. `u` tells groups under way together apart: they go to different
** accumulators. */
template <int C>
TD_FN void tide_absorb(tide_acc (&acc)[C], const tide_p &p, int u, td_i64 r,
                       const tide_x<tide_V> &x, td_i64 linear) {
    const td_i64 index = tide_mode == 0 ? r * tide_V : r;
#pragma unroll
    for (int v = 0; v < tide_V; v++)
        tide_take(acc[(tide_mode == 1 ? v : u * tide_V + v) % C], p, x, v, linear,
                  index + (tide_mode == 0 ? v : 0));
}

/* Joins what the lanes of each column hold; lane 0 gets it. Called by the whole block. */
TD_FN tide_acc tide_gather(tide_acc a, td_u32 lane, td_u32 lanes, td_u32 stride) {
    __shared__ tide_acc all[256];
    const td_u32 t = threadIdx.x;
    all[t] = a;
    for (td_u32 half = lanes >> 1; half; half >>= 1) {
        __syncthreads();
        if (lane < half) {
            tide_join(a, all[t + half * stride]);
            all[t] = a;
        }
    }
    __syncthreads(); /* the room is used again */
    return a;
}

/* Loads a thread's next groups, `left` of the stretch, and takes them in. */
template <bool WHOLE, int C>
TD_FN void tide_round(tide_acc (&acc)[C], const tide_p &p, const tide_at &at, tide_at &here,
                      const tide_at &hop, td_i64 r, td_u32 lanes, td_u32 left, bool evenly) {
    tide_x<tide_V> x[tide_U];
    td_i64 linear[tide_U];
    const td_u32 flat = tide_flat(p);
    /* without these branches the loads of a thread would wait for each other */
    if (!evenly)
        tide_fetch<0, false, WHOLE>(p, at, here, hop, r, lanes, left, x, linear);
    else if (!flat)
        tide_fetch<0, true, WHOLE>(p, at, here, hop, r, lanes, left, x, linear);
    else if (tide_two && flat == 1)
        tide_fetch<1, true, WHOLE>(p, at, here, hop, r, lanes, left, x, linear);
    else
        tide_fetch<tide_two ? 2 : -1, true, WHOLE>(p, at, here, hop, r, lanes, left, x, linear);
#pragma unroll
    for (int u = 0; u < tide_U; u++)
        if (WHOLE || u * lanes < left) tide_absorb(acc, p, u, r + u * lanes, x[u], linear[u]);
}

extern "C" __global__ void __launch_bounds__(256) tide_k(const __grid_constant__ tide_p p) {
    kt_grid_wait();
    constexpr int chains = tide_mode == 1 ? tide_V : tide_U * tide_V < 4 ? tide_U * tide_V : 4;
    const td_u32 t = threadIdx.x, columns = 1u << p.cshift, lanes = 256u >> p.cshift;
    const td_u32 lane = p.across ? t >> p.cshift : t & (lanes - 1);
    const td_i64 group =
        (td_i64)blockIdx.x * columns + (p.across ? t & (columns - 1) : t >> (8 - p.cshift));
    const td_i64 first = blockIdx.y * p.chunk, left = p.groups - first;
    const td_u32 count = (td_u32)(left < p.chunk ? left : p.chunk), round = lanes * tide_U;
    const bool evenly = tide_mode != 2 || p.kept == p.last;
    tide_at at = tide_at();
    tide_acc total[tide_W];
#pragma unroll
    for (int w = 0; w < tide_W; w++) total[w] = tide_start();

    if (group < p.outs) {
        if (p.kept) tide_locate(p, 0, p.kept - 1, group, at);
#pragma unroll 1
        for (td_u32 start = 0; start < count; start += 64 * round) {
            const td_u32 end = count - start < 64 * round ? count : start + 64 * round;
            tide_acc acc[chains];
#pragma unroll
            for (int c = 0; c < chains; c++) acc[c] = tide_start();
            td_u32 r = start + lane;
            tide_at here = at, hop = tide_at();
            if (evenly) {
                tide_step(p, p.kept, first + r, here);
                tide_step(p, p.kept, lanes, hop);
            }
#pragma unroll 1
            for (; r + (tide_U - 1) * lanes < end; r += round)
                tide_round<true>(acc, p, at, here, hop, first + r, lanes, end - r, evenly);
            if (r < end) tide_round<false>(acc, p, at, here, hop, first + r, lanes, end - r, evenly);
#pragma unroll
            for (int c = 0; c < chains; c++) tide_join(total[c % tide_W], acc[c]);
        }
        if (tide_mode == 0 && tide_V > 1 && blockIdx.y == gridDim.y - 1)
#pragma unroll 1
            for (td_u32 k = lane; k < p.tail; k += lanes) { /* less than a group is left */
                tide_at here = at;
                tide_x<1> x;
                tide_single(p, p.groups * tide_V + k, here);
                tide_load<-1>(p, here, x);
                tide_take(total[0], p, x, 0, tide_linear(p, here), p.groups * tide_V + k);
            }
    }
#pragma unroll
    for (int w = 0; w < tide_W; w++) {
        const tide_acc a = tide_gather(total[w], lane, lanes, p.across ? columns : 1);
        if (lane == 0 && group < p.outs) {
            if (p.part)
                p.accs[(blockIdx.y * p.outs + group) * tide_W + w] = a;
            else
                tide_end(p, at, w, a);
        }
    }
}
