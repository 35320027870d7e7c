/* select.cu: the first few of each row, or of each part of a row, after keys.h, runs.cu and
** ranks.cu. Embedded as text (tidei_order_select_text).
**
** Many short rows: a warp each, which holds all of it in registers (order_first). Else a block a
** part (order_top), of one tile that it holds (order_top_*_held), or of several that it reads one
** by one. Of keys in registers a bracket around the k-th one is halved; of others it is found digit
** by digit, from the highest on: of the keys that agree with it so far, how many have each next
** digit? Then those up to it are picked in the order of the row, and sorted.
** Some more than k may be picked, where that costs nothing: the search ends earlier, and those
** beyond the first k are left out at the end. */

enum {
    PARTS = 8, /* of counts: neighbouring threads use different ones, in different banks */
    FEW = 128  /* so many or fewer are put in order by comparing each with all */
};

template <class K> struct od_search {
    od_run<K, OD_TOP> run;
    od_u32 found[OD_TOP]; /* places in the part */
    od_u32 counts[DIGITS][PARTS], sums[WARPS];
    od_u32 digit, want, have;
    od_meeting<K> meeting;
};

/* The keys that are picked: those below `low`, of which there are `less`, and the first `equal` of
** those from it to `high`. */
template <class K> struct od_edge {
    K low, high;
    od_u32 less, equal;
};

/* How many may be picked for the first k: as many as are sorted in the same way. */
OD_FN od_u32 od_enough(od_i64 k) {
    od_u32 n = 32;
    while (n < FEW && n < k + k / 8) n *= 2;
    while (n < k) n *= 2;
    return n;
}

/* ---- a row, or a part, in registers ---- */

template <class K, int N, int TEAM>
OD_FN od_edge<K> od_edge_held(od_held<K, N, TEAM> &h, od_meeting<K> &m, od_u32 k) {
    const od_u32 enough = od_enough(k);
    od_bracket<K> b = od_all_held(h, m);
    od_narrow(h, m, b, k - 1, [=](const od_bracket<K> &b) { return b.upto <= enough; });
    if (b.upto <= enough) return {0, b.high, 0, b.upto};
    return {b.low, b.high, b.less, k - b.less};
}

/* Whether a key is less than the edge's (2), one of them (1), or above (0). */
template <class K> OD_FN int od_side(const od_edge<K> &e, K key) {
    return key < e.low ? 2 : key <= e.high;
}

/* How many of a warp's items lie on each side: below in the upper half, at the edge in the lower
** one. What there is no element for may be counted at the edge: it comes behind all elements, and
** there are `equal` of these. */
template <class K, int N, int TEAM>
OD_FN od_u32 od_count_sides(od_held<K, N, TEAM> &h, const od_edge<K> &e) {
    od_u32 mine = 0;
    od_each_key(h, [&](K key, int) {
        const int side = od_side(e, key);
        mine += side == 2 ? 1u << 16 : (od_u32)side;
    });
    return od_sum_of_warp(mine);
}

/* Calls put(slot, key, item) for those of a warp that are picked, in the order of the row; `less`
** and `equal` come before them on either side. */
template <class K, int N, int TEAM, class PUT>
OD_FN void od_pick_warp(od_held<K, N, TEAM> &h, const od_edge<K> &e, od_u32 less, od_u32 equal,
                        PUT put) {
    const od_u32 lower = (1u << threadIdx.x % 32) - 1;
    if (e.less == 0) { /* one side alone */
        od_each_key(h, [&](K key, int item) {
            const od_u32 at = __ballot_sync(~0u, key <= e.high);
            const od_u32 slot = equal + __popc(at & lower);
            if (key <= e.high && slot < e.equal) put(slot, key, item);
            equal += __popc(at);
        });
        return;
    }
    od_each_key(h, [&](K key, int item) {
        const int side = od_side(e, key);
        if (!__any_sync(~0u, side)) return;
        const od_u32 below = __ballot_sync(~0u, side == 2), at = __ballot_sync(~0u, side == 1);
        const od_u32 l = less + __popc(below & lower), q = equal + __popc(at & lower);
        if (side == 2 || (side == 1 && q < e.equal))
            put(l + (q < e.equal ? q : e.equal), key, item);
        less += __popc(below), equal += __popc(at);
    });
}

/* The element at a place of the part that begins at `source`, which is `start` of its row, to the
** results. */
template <class K>
OD_FN void od_put_picked(const od_top &p, od_i64 source, od_i64 start, od_i64 found, od_i64 out,
                         K key) {
    const od_i64 at = source + found * p.sort.space.step;
    if (p.sort.indices)
        ((od_i64 *)p.sort.indices)[out] = p.from ? ((const od_i64 *)p.from)[at] : start + found;
    od_put_value(&p.sort, at, out, key);
}

/* ---- rows that a warp holds ---- */

/* What a warp picks of its row. */
template <class K> struct od_picked {
    K key[FEW];
    unsigned short item[FEW];
};

/* The place of number i among n; equals stay in order. */
template <class K> OD_FN int od_place_of(const od_picked<K> &w, int i, int n) {
    const K mine = w.key[i];
    int place = 0;
    for (int j = 0; j < n; j++) place += w.key[j] < mine || (w.key[j] == mine && j < i);
    return place;
}

template <class K, int N> OD_FN void od_first_kernel(const od_top &p) {
    __shared__ od_picked<K> all[WARPS];
    __shared__ od_meeting<K> unused; /* by warps */
    od_picked<K> &w = all[threadIdx.x / 32];
    const od_rows &space = p.sort.space;
    for (od_i64 row = (od_i64)blockIdx.x * WARPS + threadIdx.x / 32; row < space.rows;
         row += (od_i64)gridDim.x * WARPS) {
        od_held<K, N, 32> h;
        od_i64 source, out;
        od_row(&space, row, &source, &out);
        od_hold(h, p.sort.type, p.sort.source + source * p.sort.type.size, space.step,
                (int)space.length);
        const od_edge<K> e = od_edge_held(h, unused, (od_u32)p.k);
        od_pick_warp(h, e, 0, 0, [&](od_u32 slot, K key, int item) {
            w.key[slot] = key, w.item[slot] = (unsigned short)item;
        });
        __syncwarp();
        const int n = (int)(e.less + e.equal);
        for (int i = threadIdx.x % 32; i < n; i += 32) {
            const int place = od_place_of(w, i, n);
            if (place < p.k)
                od_put_picked(p, source, 0, w.item[i], out + place * space.out_step, w.key[i]);
        }
        __syncwarp();
    }
}
/* Of keys K rows of up to 32 * N. */
#define FIRST(name, K, N, BLOCKS)                                                                  \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                      \
        name(const __grid_constant__ od_top p) {                                                   \
        kt_grid_wait();                                                                            \
        od_first_kernel<K, N>(p);                                                                  \
    }
#if WANTS(order_first_32)
FIRST(order_first_32, od_u32, 32, 3)
#endif
#if WANTS(order_first_32_long)
FIRST(order_first_32_long, od_u32, 64, 2)
#endif
#if WANTS(order_first_64)
FIRST(order_first_64, od_u64, 32, 2)
#endif

/* ---- parts that a block reads ---- */

/* A part of a row, and the thread's share of the tile of it that was read last. */
template <class K> struct od_read {
    od_i64 source, length, start; /* start: the part's place in the row */
    od_i64 first;                 /* the tile's place in the part; -1: none is read */
    od_held<K, ITEMS, THREADS> h;
};

template <class K> OD_FN void od_read_at(const od_top &p, od_read<K> &r, od_i64 first) {
    if (r.first == first) return;
    const od_i64 left = r.length - first, at = r.source + first * p.sort.space.step;
    r.first = first;
    od_hold(r.h, p.sort.type, p.sort.source + at * p.sort.type.size, p.sort.space.step,
            left < TILE ? (int)left : TILE);
}

/* Of the keys that are `edge` but for the lowest bits. */
template <class K>
OD_FN void od_count_digit(const od_top &p, od_search<K> &s, od_read<K> &r, K edge, int bits) {
    const int shift = bits - 8;
    const bool any = bits == 8 * p.sort.type.size;
    for (int i = threadIdx.x; i < DIGITS * PARTS; i += THREADS) (&s.counts[0][0])[i] = 0;
    __syncthreads();
    for (od_i64 first = 0; first < r.length; first += TILE) {
        od_read_at(p, r, first);
        od_each_key(r.h, [&](K key, int item) {
            if (item < r.h.n && (any || key >> bits == edge))
                atomicAdd(&s.counts[(od_u32)(key >> shift) & 255][threadIdx.x % PARTS], 1u);
        });
    }
    __syncthreads();
}

/* Where the k-th key lies in a part of several tiles. */
template <class K> OD_FN od_edge<K> od_edge_read(const od_top &p, od_search<K> &s, od_read<K> &r) {
    const od_u32 enough = od_enough(p.k), k = (od_u32)p.k;
    int bits = 8 * p.sort.type.size;
    K edge = 0;
    od_u32 want = k, have = 0;
    bool all = false;
    while (bits > 0 && !all) {
        od_count_digit(p, s, r, edge, bits);
        od_u32 n = 0;
        for (int part = 0; part < PARTS; part++) n += s.counts[threadIdx.x][part];
        const od_u32 before = od_sum_before(n, s.sums);
        if (before < want && want <= before + n)
            s.digit = threadIdx.x, s.want = want - before, s.have = n;
        __syncthreads();
        edge = (K)(edge << 8 | s.digit), want = s.want, have = s.have;
        bits -= 8;
        all = k - want + have <= enough;
        __syncthreads();
    }
    edge <<= bits;
    return {edge, edge | (((K)1 << bits) - 1), k - want, all ? have : want};
}

/* Picks those of a tile into the run; `less` and `equal` are picked before it on either side. Tells
** how many are with it: below in the upper half, at the edge in the lower one. */
template <class K>
OD_FN od_u64 od_pick_tile(od_search<K> &s, od_read<K> &r, const od_edge<K> &e, od_u32 less,
                          od_u32 equal) {
    const int warp = threadIdx.x / 32;
    const od_u32 mine = od_count_sides(r.h, e);
    if (threadIdx.x % 32 == 0) s.sums[warp] = mine;
    __syncthreads();
    od_u32 my_less = 0, my_equal = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w == warp) my_less = less, my_equal = equal;
        less += s.sums[w] >> 16, equal += s.sums[w] & 0xffff;
    }
    if (mine)
        od_pick_warp(r.h, e, my_less, my_equal, [&](od_u32 slot, K key, int item) {
            s.run.key[od_slot(slot)] = key, s.found[slot] = (od_u32)(r.first + item);
        });
    __syncthreads();
    return (od_u64)less << 32 | (equal < e.equal ? equal : e.equal);
}

/* Picks the part's wanted elements into the run. */
template <class K>
OD_FN void od_pick(const od_top &p, od_search<K> &s, od_read<K> &r, const od_edge<K> &e) {
    od_u32 less = 0, equal = 0; /* so far */
    for (od_i64 first = 0; first < r.length && less + equal < e.less + e.equal; first += TILE) {
        od_read_at(p, r, first);
        const od_u64 both = od_pick_tile(s, r, e, less, equal);
        less = (od_u32)(both >> 32), equal = (od_u32)both;
    }
}

/* The place of the thread's own item of the run among the n there are; equals stay in order. */
template <class K> OD_FN int od_place(const od_search<K> &s, int n) {
    const K mine = s.run.key[od_slot(threadIdx.x)];
    int place = 0;
    for (int i = 0; i < n; i++) {
        const K other = s.run.key[od_slot(i)];
        place += other < mine || (other == mine && i < (int)threadIdx.x);
    }
    return place;
}

/* The first k of the n picked elements in their order, to the results. */
template <class K>
OD_FN void od_put_run(const od_top &p, od_search<K> &s, const od_read<K> &r, int n, od_i64 out) {
    const int k = (int)p.k, mine = threadIdx.x;
    const od_i64 step = p.sort.space.out_step;
    if (n <= FEW) {
        const int place = mine < n ? od_place(s, n) : k;
        if (place < k)
            od_put_picked(p, r.source, r.start, s.found[mine], out + place * step,
                          s.run.key[od_slot(mine)]);
        return;
    }
    int width = ITEMS;
    while (width < n) width *= 2;
    for (int i = mine; i < width; i += THREADS) {
        if (i >= n) s.run.key[od_slot(i)] = ~(K)0;
        s.run.place[od_slot(i)] = i;
    }
    od_sort_runs(s.run, width, width);
    for (int i = mine; i < k; i += THREADS)
        od_put_picked(p, r.source, r.start, s.found[s.run.place[od_slot(i)]], out + i * step,
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

/* HELD: no part is longer than a tile. */
template <class K, bool HELD> OD_FN void od_top_kernel(const od_top &p) {
    __shared__ od_search<K> s;
    for (od_i64 part = blockIdx.x; part < p.sort.space.rows * p.parts; part += gridDim.x) {
        od_read<K> r; /* here, so that no part's keys are kept for the next one */
        od_edge<K> e;
        const od_i64 out = od_part(p, part, r);
        if (HELD) {
            od_read_at(p, r, 0);
            e = od_edge_held(r.h, s.meeting, (od_u32)p.k);
            od_pick_tile(s, r, e, 0, 0);
        } else {
            e = od_edge_read(p, s, r);
            od_pick(p, s, r, e);
        }
        od_put_run(p, s, r, (int)(e.less + e.equal), out);
        __syncthreads();
    }
}
/* As many blocks fill a multiprocessor as its registers are enough for. */
#define TOP(name, K, HELD, BLOCKS)                                                                 \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                      \
        name(const __grid_constant__ od_top p) {                                                   \
        kt_grid_wait();                                                                            \
        od_top_kernel<K, HELD>(p);                                                                 \
    }
#if WANTS(order_top_32)
TOP(order_top_32, od_u32, false, 4)
#endif
#if WANTS(order_top_64)
TOP(order_top_64, od_u64, false, 3)
#endif
#if WANTS(order_top_32_held)
TOP(order_top_32_held, od_u32, true, 4)
#endif
#if WANTS(order_top_64_held)
TOP(order_top_64_held, od_u64, true, 3)
#endif
