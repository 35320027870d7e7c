/* select.cu: the first few of each row, after keys.h and runs.cu. Embedded as text
** (tidei_order_select_text).
**
** A block a row. Its k-th key is found digit by digit, from the highest on: of the keys that agree
** with it so far, how many have each next digit? Then those up to it are picked in the order of the
** row, and sorted. Keys that end above a place of bits are as good as told apart: the search ends
** where all that agree are wanted. */

template <class K> struct od_search {
    od_run<K> run;
    od_u32 found[OD_TOP]; /* places in the row */
    od_u32 counts[DIGITS], sums[WARPS];
    od_u32 digit, want, have;
};

/* The keys that are wanted: those above `shift` bits less than `edge`, and the first `equal` of
** those that are the same. */
template <class K> struct od_edge {
    K edge;
    int shift;
    od_u32 equal;
};

template <class K> OD_FN void od_count_digit(const od_top &p, od_search<K> &s, od_i64 source,
                                             const od_edge<K> &e) {
    const int shift = e.shift - 8, size = p.sort.type.size;
    s.counts[threadIdx.x] = 0;
    __syncthreads();
    for (od_i64 i = threadIdx.x; i < p.sort.space.length; i += THREADS) {
        const K key = (K)od_key(p.sort.type, p.sort.source, source + i * p.sort.space.step, 0);
        if (e.shift == 8 * size || key >> e.shift == e.edge)
            atomicAdd(&s.counts[(od_u32)(key >> shift) & 255], 1u);
    }
    __syncthreads();
}

/* Where the k-th key lies. */
template <class K> OD_FN od_edge<K> od_find_edge(const od_top &p, od_search<K> &s, od_i64 source) {
    od_edge<K> e = {0, 8 * p.sort.type.size, (od_u32)p.k};
    bool all = false;
    while (e.shift > 0 && !all) {
        od_count_digit(p, s, source, e);
        const od_u32 n = s.counts[threadIdx.x], before = od_sum_before(n, s.sums);
        if (before < e.equal && e.equal <= before + n)
            s.digit = threadIdx.x, s.want = e.equal - before, s.have = n;
        __syncthreads();
        e = {(K)(e.edge << 8 | s.digit), e.shift - 8, s.want};
        all = s.want == s.have;
        __syncthreads();
    }
    return e;
}

/* Picks the row's wanted elements into the run, in the order of the row. */
template <class K> OD_FN void od_pick(const od_top &p, od_search<K> &s, od_i64 source,
                                      const od_edge<K> &e) {
    od_u32 less = 0, equal = 0; /* so far */
    for (od_i64 first = 0; first < p.sort.space.length && less + equal < p.k; first += THREADS) {
        const od_i64 i = first + threadIdx.x;
        const bool there = i < p.sort.space.length;
        const K key =
            there ? (K)od_key(p.sort.type, p.sort.source, source + i * p.sort.space.step, 0) : 0;
        const K above = key >> e.shift;
        const od_u32 mine = !there || above > e.edge ? 0 : above < e.edge ? 1u << 16 : 1;
        if (!__syncthreads_or(mine != 0)) continue;
        const od_u32 before = od_sum_before(mine, s.sums);
        const od_u32 l = less + (before >> 16), q = equal + (before & 0xffff);
        if (mine > 1 || (mine == 1 && q < e.equal)) {
            const od_u32 slot = l + (q < e.equal ? q : e.equal);
            s.run.key[od_slot(slot)] = key, s.found[slot] = (od_u32)i;
        }
        if (threadIdx.x == THREADS - 1) s.digit = before + mine;
        __syncthreads();
        less += s.digit >> 16, equal += s.digit & 0xffff;
        if (equal > e.equal) equal = e.equal;
        __syncthreads();
    }
}

template <class K> OD_FN void od_top_kernel(const od_top &p) {
    __shared__ od_search<K> s;
    const int k = (int)p.k;
    int width = ITEMS;
    while (width < k) width *= 2;
    for (od_i64 row = blockIdx.x; row < p.sort.space.rows; row += gridDim.x) {
        od_i64 source, out;
        od_row(&p.sort.space, row, &source, &out);
        const od_edge<K> e = od_find_edge(p, s, source);
        for (int i = threadIdx.x; i < width; i += THREADS)
            s.run.key[od_slot(i)] = ~(K)0, s.run.place[od_slot(i)] = i;
        __syncthreads();
        od_pick(p, s, source, e);
        od_sort_runs(s.run, width, width);
        for (int i = threadIdx.x; i < k; i += THREADS)
            od_put(&p.sort, source, s.found[s.run.place[od_slot(i)]],
                   out + i * p.sort.space.out_step, s.run.key[od_slot(i)]);
        __syncthreads();
    }
}
#if WANTS(order_top_32)
extern "C" __global__ void __launch_bounds__(256) order_top_32(const od_top p) {
    od_top_kernel<od_u32>(p);
}
#endif
#if WANTS(order_top_64)
extern "C" __global__ void __launch_bounds__(256) order_top_64(const od_top p) {
    od_top_kernel<od_u64>(p);
}
#endif
