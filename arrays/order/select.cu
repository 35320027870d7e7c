/* select.cu: the first few of each row, or of each part of a row, after keys.h and runs.cu.
** Embedded as text (tidei_order_select_text).
**
** A block a part, which it reads tile by tile; of a part of one tile the keys stay in registers. Its
** k-th key is found digit by digit, from the highest on: of the keys that agree with it so far, how
** many have each next digit? Then those up to it are picked in the order of the row, and sorted.
** Keys that end above a place of bits are as good as told apart: the search ends where all that
** agree are wanted. */

enum {
    PARTS = 8, /* of counts: neighbouring threads use different ones, in different banks */
    FEW = 64   /* so many or fewer are put in order by comparing each with all */
};

template <class K> struct od_search {
    od_run<K, OD_TOP> run;
    od_u32 found[OD_TOP]; /* places in the part */
    od_u32 counts[DIGITS][PARTS], sums[WARPS];
    od_u32 digit, want, have;
};

/* The keys that are wanted: those above `shift` bits less than `edge`, and the first `equal` of
** those that are the same. */
template <class K> struct od_edge {
    K edge;
    int shift;
    od_u32 equal;
};

/* A part of a row, and the thread's share of the tile of it that was read last. */
template <class K> struct od_read {
    od_i64 source, length, start; /* start: the part's place in the row */
    od_i64 first;                 /* the tile's place in the part; -1: none is read */
    int n;                        /* items of the tile */
    K key[ITEMS];
};

template <class K> OD_FN void od_read_at(const od_top &p, od_read<K> &r, od_i64 first) {
    if (r.first == first) return;
    const od_i64 left = r.length - first, at = r.source + first * p.sort.space.step;
    r.first = first;
    r.n = left < TILE ? (int)left : TILE;
    if (r.n == TILE)
        od_keys_of_tile<true>(p.sort, r.key, at, r.n);
    else
        od_keys_of_tile<false>(p.sort, r.key, at, r.n);
}

template <class K>
OD_FN void od_count_digit(const od_top &p, od_search<K> &s, od_read<K> &r, const od_edge<K> &e) {
    const int shift = e.shift - 8, size = p.sort.type.size;
    for (int i = threadIdx.x; i < DIGITS * PARTS; i += THREADS) (&s.counts[0][0])[i] = 0;
    __syncthreads();
    for (od_i64 first = 0; first < r.length; first += TILE) {
        od_read_at(p, r, first);
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (od_item_in_tile<ITEMS>(i) < r.n &&
                (e.shift == 8 * size || r.key[i] >> e.shift == e.edge))
                atomicAdd(&s.counts[(od_u32)(r.key[i] >> shift) & 255][threadIdx.x % PARTS], 1u);
    }
    __syncthreads();
}

/* Where the k-th key lies. */
template <class K> OD_FN od_edge<K> od_find_edge(const od_top &p, od_search<K> &s, od_read<K> &r) {
    od_edge<K> e = {0, 8 * p.sort.type.size, (od_u32)p.k};
    bool all = false;
    while (e.shift > 0 && !all) {
        od_count_digit(p, s, r, e);
        od_u32 n = 0;
        for (int part = 0; part < PARTS; part++) n += s.counts[threadIdx.x][part];
        const od_u32 before = od_sum_before(n, s.sums);
        if (before < e.equal && e.equal <= before + n)
            s.digit = threadIdx.x, s.want = e.equal - before, s.have = n;
        __syncthreads();
        e = {(K)(e.edge << 8 | s.digit), e.shift - 8, s.want};
        all = s.want == s.have;
        __syncthreads();
    }
    return e;
}

/* Whether a key is less than the edge (2), at it (1), or above (0). */
template <class K> OD_FN int od_side(const od_edge<K> &e, K key) {
    const K above = key >> e.shift;
    return above < e.edge ? 2 : above == e.edge;
}

/* How many of a warp's items of the tile lie on each side: below in the upper half, at the edge in
** the lower one. */
template <class K> OD_FN od_u32 od_count_sides(const od_read<K> &r, const od_edge<K> &e) {
    od_u32 n = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int side = od_item_in_tile<ITEMS>(i) < r.n ? od_side(e, r.key[i]) : 0;
        if (!__any_sync(~0u, side)) continue;
        n += __popc(__ballot_sync(~0u, side == 2)) << 16 | __popc(__ballot_sync(~0u, side == 1));
    }
    return n;
}

/* Those of a warp, in the order of the row. */
template <class K>
OD_FN void od_pick_warp(od_search<K> &s, const od_read<K> &r, const od_edge<K> &e, od_u32 less,
                        od_u32 equal) {
    const od_u32 lower = (1u << threadIdx.x % 32) - 1;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = od_item_in_tile<ITEMS>(i), side = j < r.n ? od_side(e, r.key[i]) : 0;
        if (!__any_sync(~0u, side)) continue;
        const od_u32 below = __ballot_sync(~0u, side == 2), at = __ballot_sync(~0u, side == 1);
        const od_u32 l = less + __popc(below & lower), q = equal + __popc(at & lower);
        if (side == 2 || (side == 1 && q < e.equal)) {
            const od_u32 slot = l + (q < e.equal ? q : e.equal);
            s.run.key[od_slot(slot)] = r.key[i], s.found[slot] = (od_u32)(r.first + j);
        }
        less += __popc(below), equal += __popc(at);
    }
}

/* Picks the part's wanted elements into the run. */
template <class K>
OD_FN void od_pick(const od_top &p, od_search<K> &s, od_read<K> &r, const od_edge<K> &e) {
    od_u32 less = 0, equal = 0; /* so far */
    for (od_i64 first = 0; first < r.length && less + equal < p.k; first += TILE) {
        od_read_at(p, r, first);
        const od_u32 mine = od_count_sides(r, e);
        if (threadIdx.x % 32 == 0) s.sums[threadIdx.x / 32] = mine;
        __syncthreads();
        od_u32 l = less, q = equal;
        for (int w = 0; w < WARPS; w++) {
            if (w == (int)threadIdx.x / 32 && mine) od_pick_warp(s, r, e, l, q);
            l += s.sums[w] >> 16, q += s.sums[w] & 0xffff;
        }
        less = l, equal = q < e.equal ? q : e.equal;
        __syncthreads();
    }
}

/* The place of the thread's own item of the run among the k there are; equals stay in order. */
template <class K> OD_FN int od_place(const od_search<K> &s, int k) {
    const K mine = s.run.key[od_slot(threadIdx.x)];
    int place = 0;
    for (int i = 0; i < k; i++) {
        const K other = s.run.key[od_slot(i)];
        place += other < mine || (other == mine && i < (int)threadIdx.x);
    }
    return place;
}

/* The element at a place of the part, to the results. */
template <class K>
OD_FN void od_put_picked(const od_top &p, const od_read<K> &r, od_i64 found, od_i64 out, K key) {
    const od_i64 at = r.source + found * p.sort.space.step;
    if (p.sort.indices)
        ((od_i64 *)p.sort.indices)[out] = p.from ? ((const od_i64 *)p.from)[at] : r.start + found;
    od_put_value(&p.sort, at, out, key);
}

/* The picked elements in their order, to the results. */
template <class K>
OD_FN void od_put_run(const od_top &p, od_search<K> &s, const od_read<K> &r, od_i64 out) {
    const int k = (int)p.k, mine = threadIdx.x;
    const od_i64 step = p.sort.space.out_step;
    if (k <= FEW) {
        if (mine < k)
            od_put_picked(p, r, s.found[mine], out + od_place(s, k) * step,
                          s.run.key[od_slot(mine)]);
        return;
    }
    int width = ITEMS;
    while (width < k) width *= 2;
    for (int i = mine; i < width; i += THREADS) {
        if (i >= k) s.run.key[od_slot(i)] = ~(K)0;
        s.run.place[od_slot(i)] = i;
    }
    od_sort_runs(s.run, width, width);
    for (int i = mine; i < k; i += THREADS)
        od_put_picked(p, r, s.found[s.run.place[od_slot(i)]], out + i * step,
                      s.run.key[od_slot(i)]);
}

/* Block `part` of all: which part of which row, and where its results begin. */
template <class K> OD_FN od_i64 od_part(const od_top &p, od_i64 part, od_read<K> &r) {
    const od_rows &s = p.sort.space;
    const od_i64 row = part / p.parts, i = part % p.parts, each = s.length / p.parts,
                 longer = s.length % p.parts; /* the first so many have one element more */
    od_i64 out;
    od_row(&s, row, &r.source, &out);
    r.start = i * each + (i < longer ? i : longer);
    r.source += r.start * s.step;
    r.length = each + (i < longer);
    r.first = -1;
    return p.parts == 1 ? out : part * p.k;
}

template <class K> OD_FN void od_top_kernel(const od_top &p) {
    __shared__ od_search<K> s;
    od_read<K> r;
    for (od_i64 part = blockIdx.x; part < p.sort.space.rows * p.parts; part += gridDim.x) {
        const od_i64 out = od_part(p, part, r);
        const od_edge<K> e = od_find_edge(p, s, r);
        od_pick(p, s, r, e);
        od_put_run(p, s, r, out);
        __syncthreads();
    }
}
#if WANTS(order_top_32)
extern "C" __global__ void __launch_bounds__(256, 4)
    order_top_32(const __grid_constant__ od_top p) {
    kt_grid_wait();
    od_top_kernel<od_u32>(p);
}
#endif
#if WANTS(order_top_64)
extern "C" __global__ void __launch_bounds__(256, 3)
    order_top_64(const __grid_constant__ od_top p) {
    kt_grid_wait();
    od_top_kernel<od_u64>(p);
}
#endif
