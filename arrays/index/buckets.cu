/* buckets.cu: the kernels of buckets.h, which says what they do in which order. Embedded as text
** (tidei_buckets_text), behind prelude.h, indices.h and buckets.h.
**
** Item i of a thread is entry warp * 32 * BU_ITEMS + i * 32 + lane of its tile, so that warps read
** side by side, and the order of entries is that of warps, items, lanes. */

/* ---- what they share ---- */

/* For each bucket: its entries; those of the buckets before it; the pieces of these. The last two
** have one number more, of all. */
GA_FN unsigned *bu_totals(const bu_call &p) { return (unsigned *)p.bounds; }
GA_FN unsigned *bu_firsts(const bu_call &p) { return (unsigned *)p.bounds + BU_DIGITS; }
GA_FN unsigned *bu_pieces(const bu_call &p) { return (unsigned *)p.bounds + 2 * BU_DIGITS + 1; }

GA_FN int bu_item(int i) {
    return ((int)threadIdx.x / 32 * BU_ITEMS + i) * 32 + (int)threadIdx.x % 32;
}

/* The sum of what the threads before this one have; `sums` has room for each warp's. Called by the
** whole block, which has a barrier before it uses `sums` again. */
GA_FN unsigned bu_sum_before(unsigned mine, unsigned *sums) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    unsigned sum = mine;
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, sum, (unsigned)d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    unsigned before = sum - mine;
    for (int w = 0; w < BU_WARPS; w++) before += w < warp ? sums[w] : 0;
    return before;
}

/* The places of a thread's items of a tile of n entries; p.length of bad ones, which are reported
** where `tells`. All indices are read before one is looked at; where there is no entry, that of
** another is read. */
template <class T>
GA_FN void bu_read_indices(const bu_call &p, ga_i64 first, int n, ga_i64 (&given)[BU_ITEMS]) {
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        const int at = bu_item(i) < n ? bu_item(i) : n - 1;
        given[i] = (ga_i64)((const T *)p.indices)[(first + at) * p.index_step];
    }
}
GA_FN void bu_read_places(const bu_call &p, ga_i64 first, int n, bool tells,
                          unsigned (&place)[BU_ITEMS]) {
    ga_i64 given[BU_ITEMS];
    if (p.index_size == 8)
        bu_read_indices<ga_i64>(p, first, n, given);
    else if (p.index_size == 4)
        p.is_signed ? bu_read_indices<int>(p, first, n, given)
                    : bu_read_indices<unsigned>(p, first, n, given);
    else if (p.index_size == 2)
        p.is_signed ? bu_read_indices<short>(p, first, n, given)
                    : bu_read_indices<unsigned short>(p, first, n, given);
    else
        p.is_signed ? bu_read_indices<signed char>(p, first, n, given)
                    : bu_read_indices<unsigned char>(p, first, n, given);
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        const ga_i64 at = ga_from_start(given[i], p.length, p.is_signed);
        const bool bad = at < 0 || at >= p.length;
        place[i] = (unsigned)(bad ? p.length : at);
        if (bad && tells)
            ga_report(p.fault, p.report | (p.is_signed ? 0 : GA_UNSIGNED), given[i], p.length);
    }
}

/* The components of an entry. */
template <class E, int W> struct __align__(sizeof(E) * (W == 3 ? 1 : W)) bu_row { E part[W]; };
template <class E, int W>
GA_FN void bu_read_values(const bu_call &p, ga_i64 first, int n, bu_row<E, W> (&row)[BU_ITEMS]) {
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        const int at = bu_item(i) < n ? bu_item(i) : n - 1;
#pragma unroll
        for (int c = 0; c < W; c++)
            row[i].part[c] = ((const E *)p.near)[(first + at) * p.near_step + p.near_at[c]];
    }
}

/* ---- order within a tile ---- */

/* For each warp and digit: how many items the warp has had of it; then where its first one goes. */
template <int DIGITS> union bu_ranks {
    unsigned short of[BU_WARPS][DIGITS];
    unsigned two[BU_WARPS][DIGITS / 2]; /* counts in a word: no sum passes 16 bits */
};
/* Where each digit begins in the tile's order; one more: where the last one ends. */
template <int DIGITS> struct bu_begins {
    unsigned short of[DIGITS + 1];
    unsigned sums[BU_WARPS];
};

/* Where the thread's items go in the tile's order by digits of `bits` bits. Called by the whole
** block; when it returns, others may still look into `r`. */
template <int DIGITS>
GA_FN void bu_rank(bu_ranks<DIGITS> &r, bu_begins<DIGITS> &begins, int bits,
                   const unsigned (&digit)[BU_ITEMS], unsigned (&to)[BU_ITEMS]) {
    enum { AT_ONCE = 2 * BU_THREADS }; /* digits: two of each thread */
    const int t = (int)threadIdx.x, warp = t / 32, digits = 1 << bits;
    const unsigned lower = (1u << t % 32) - 1;
    unsigned same[BU_ITEMS]; /* lanes that have the item's digit */
#pragma unroll
    for (int d = 0; d < DIGITS; d += AT_ONCE)
        if (d < digits)
#pragma unroll
            for (int w = 0; w < BU_WARPS; w++) r.two[w][d / 2 + t] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        same[i] = ~0u;
#pragma unroll
        for (int b = 0; 1 << b < DIGITS; b++) {
            if (b >= bits) break;
            const bool has = digit[i] >> b & 1;
            const unsigned lanes = __ballot_sync(~0u, has);
            same[i] &= has ? lanes : ~lanes;
        }
    }
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        unsigned short *next = &r.of[warp][digit[i]];
        const unsigned had = *next;
        to[i] = had + __popc(same[i] & lower);
        __syncwarp();
        if (!(same[i] & lower)) *next = (unsigned short)(had + __popc(same[i]));
        __syncwarp();
    }
    unsigned before = 0;
#pragma unroll
    for (int d = 0; d < DIGITS; d += AT_ONCE) {
        if (d >= digits) break;
        const int mine = d / 2 + t;
        __syncthreads();
        unsigned all = 0;
#pragma unroll
        for (int w = 0; w < BU_WARPS; w++) {
            const unsigned n = r.two[w][mine];
            r.two[w][mine] = all;
            all += n;
        }
        const unsigned first = before + bu_sum_before((all & 0xffff) + (all >> 16), begins.sums);
        const unsigned second = first + (all & 0xffff);
#pragma unroll
        for (int w = 0; w < BU_WARPS; w++) r.two[w][mine] += first | second << 16;
        begins.of[2 * mine] = (unsigned short)first;
        begins.of[2 * mine + 1] = (unsigned short)second;
        for (int w = 0; w < BU_WARPS; w++) before += begins.sums[w];
    }
    __syncthreads();
    if (t == 0) begins.of[digits] = BU_TILE;
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) to[i] += r.of[warp][digit[i]];
}

/* ---- entries by buckets ---- */

#if WANTS(buckets_count)
extern "C" __global__ void __launch_bounds__(BU_THREADS)
    buckets_count(const __grid_constant__ bu_call p) {
    kt_grid_wait();
    enum { SIDE = 8 }; /* counts of neighbouring threads lie side by side */
    __shared__ unsigned counts[BU_DIGITS * SIDE];
    const ga_i64 from = (ga_i64)blockIdx.x * p.tiles * BU_TILE,
                 end = from + (ga_i64)p.tiles * BU_TILE < p.n ? from + (ga_i64)p.tiles * BU_TILE
                                                              : p.n;
    for (int i = threadIdx.x; i < p.buckets * SIDE; i += BU_THREADS) counts[i] = 0;
    __syncthreads();
    for (ga_i64 first = from; first < end; first += BU_TILE) {
        const int n = end - first < BU_TILE ? (int)(end - first) : BU_TILE;
        unsigned place[BU_ITEMS];
        bu_read_places(p, first, n, true, place);
#pragma unroll
        for (int i = 0; i < BU_ITEMS; i++)
            if (bu_item(i) < n)
                atomicAdd(&counts[(place[i] >> p.low) * SIDE + threadIdx.x % SIDE], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < p.buckets; b += BU_THREADS) {
        unsigned n = 0;
        for (int i = 0; i < SIDE; i++) n += counts[b * SIDE + (i + b) % SIDE];
        ((unsigned *)p.counts)[(ga_i64)b * p.stretches + blockIdx.x] = n;
    }
}
#endif

/* A block a bucket: its entries in the stretches before each one, and in all. */
#if WANTS(buckets_sum)
extern "C" __global__ void __launch_bounds__(BU_THREADS)
    buckets_sum(const __grid_constant__ bu_call p) {
    kt_grid_wait();
    __shared__ unsigned sums[BU_WARPS];
    unsigned *counts = (unsigned *)p.counts + (ga_i64)blockIdx.x * p.stretches, all = 0;
    for (int first = 0; first < p.stretches; first += BU_THREADS) {
        const int i = first + (int)threadIdx.x;
        const unsigned n = i < p.stretches ? counts[i] : 0, before = bu_sum_before(n, sums);
        if (i < p.stretches) counts[i] = all + before;
        for (int w = 0; w < BU_WARPS; w++) all += sums[w];
        __syncthreads();
    }
    if (threadIdx.x == 0) bu_totals(p)[blockIdx.x] = all;
}
#endif

/* One block: where buckets begin, and their pieces. */
#if WANTS(buckets_bounds)
extern "C" __global__ void __launch_bounds__(BU_THREADS)
    buckets_bounds(const __grid_constant__ bu_call p) {
    kt_grid_wait();
    __shared__ unsigned sums[BU_WARPS];
    unsigned entries = 0, pieces = 0;
    for (int first = 0; first < p.buckets; first += BU_THREADS) {
        const int b = first + (int)threadIdx.x;
        const unsigned n = b < p.buckets ? bu_totals(p)[b] : 0;
        const unsigned before = bu_sum_before(n, sums);
        if (b < p.buckets) bu_firsts(p)[b] = entries + before;
        for (int w = 0; w < BU_WARPS; w++) entries += sums[w];
        __syncthreads();
        const unsigned pieces_before = bu_sum_before((n + BU_PIECE - 1) / BU_PIECE, sums);
        if (b < p.buckets) bu_pieces(p)[b] = pieces + pieces_before;
        for (int w = 0; w < BU_WARPS; w++) pieces += sums[w];
        __syncthreads();
    }
    if (threadIdx.x == 0) bu_firsts(p)[p.buckets] = entries, bu_pieces(p)[p.buckets] = pieces;
}
#endif

template <class E, int W> struct bu_parting {
    union {
        bu_ranks<BU_DIGITS> ranks;
        bu_row<E, W> row[BU_TILE];
    };
    unsigned place[BU_TILE];
    unsigned next[BU_DIGITS]; /* where the next entry of a bucket goes */
    bu_begins<BU_DIGITS> begins;
};

template <class E, int W>
GA_FN void bu_part_tile(const bu_call &p, bu_parting<E, W> &s, ga_i64 first, int n) {
    const int t = (int)threadIdx.x;
    unsigned place[BU_ITEMS], digit[BU_ITEMS], to[BU_ITEMS];
    bu_row<E, W> row[BU_ITEMS];
    bu_read_places(p, first, n, false, place);
    bu_read_values(p, first, n, row);
    /* What pads the tile comes behind all others; the last bucket, of which it may seem to be, has
    ** none after this tile. */
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++)
        digit[i] = bu_item(i) < n ? place[i] >> p.low : (1u << p.bits) - 1;
    bu_rank(s.ranks, s.begins, p.bits, digit, to);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) s.row[to[i]] = row[i], s.place[to[i]] = place[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) {
        const int j = i * BU_THREADS + t;
        if (j >= n) break;
        const unsigned at = s.place[j], b = at >> p.low, out = s.next[b] + j - s.begins.of[b];
        ((unsigned short *)p.keys)[out] = (unsigned short)(at - (b << p.low));
        ((bu_row<E, W> *)p.rows)[out] = s.row[j];
    }
    __syncthreads();
    for (int b = t; b < p.buckets; b += BU_THREADS)
        s.next[b] += s.begins.of[b + 1] - s.begins.of[b];
}

/* Blocks of a multiprocessor, whose registers a thread's entries share. */
#define BU_BLOCKS(E, W) (sizeof(E) * W > 8 || W > 2 ? 2 : 4)
#define BU_PART(name, E, W)                                                                        \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256, BU_BLOCKS(E, W))                            \
         name(const __grid_constant__ bu_call p) {                                                 \
             kt_grid_wait();                                                                       \
             __shared__ bu_parting<E, W> s;                                                        \
             const ga_i64 from = (ga_i64)blockIdx.x * p.tiles * BU_TILE;                           \
             for (int b = threadIdx.x; b < p.buckets; b += BU_THREADS)                             \
                 s.next[b] = bu_firsts(p)[b] +                                                     \
                             ((const unsigned *)p.counts)[(ga_i64)b * p.stretches + blockIdx.x];   \
             for (int k = 0; k < p.tiles; k++) {                                                   \
                 const ga_i64 first = from + (ga_i64)k * BU_TILE, left = p.n - first;              \
                 if (left > 0)                                                                     \
                     bu_part_tile<E, W>(p, s, first, left < BU_TILE ? (int)left : BU_TILE);        \
             }                                                                                     \
         })
BU_PART(buckets_part_2_1, unsigned short, 1)
BU_PART(buckets_part_2_2, unsigned short, 2)
BU_PART(buckets_part_2_3, unsigned short, 3)
BU_PART(buckets_part_2_4, unsigned short, 4)
BU_PART(buckets_part_4_1, unsigned, 1)
BU_PART(buckets_part_4_2, unsigned, 2)
BU_PART(buckets_part_4_3, unsigned, 3)
BU_PART(buckets_part_4_4, unsigned, 4)
BU_PART(buckets_part_8_1, ga_u64, 1)
BU_PART(buckets_part_8_2, ga_u64, 2)

/* ---- sums ---- */

/* -0.0 is the sum that changes none. */
#define BU_TYPE(name, ELEM, ACC, LOAD, STORE)                                                      \
    struct bu_##name {                                                                             \
        typedef ELEM elem;                                                                         \
        typedef ACC acc;                                                                           \
        static __device__ __forceinline__ acc load(elem x) { return LOAD(x); }                     \
        static __device__ __forceinline__ elem store(acc x) { return STORE(x); }                   \
    };
#define BU_SAME(x) (x)
BU_TYPE(f16, td_f16, float, td_load_f16, td_store_f16)
BU_TYPE(bf16, td_bf16, float, td_load_bf16, td_store_bf16)
BU_TYPE(f32, float, float, BU_SAME, BU_SAME)
BU_TYPE(f64, double, double, BU_SAME, BU_SAME)

template <class OPS, int W> struct bu_folding {
    typedef bu_row<typename OPS::elem, W> entry;
    enum { PLACES = BU_PLACES(sizeof(entry)) };
    union {
        bu_ranks<PLACES> ranks;
        entry row[BU_TILE]; /* in the order of their places */
    };
    typename OPS::acc sum[W][PLACES];
    bu_begins<PLACES> begins;
    /* Places of so many entries of the tile that a warp adds them up. */
    enum { MANY = 32 };
    unsigned short many[BU_TILE / MANY];
    int nmany;
    int bucket, piece; /* of the piece; its number in the bucket */
};

/* Adds entries [k, end) of the tile up, every `step`-th. */
template <class OPS, int W>
GA_FN void bu_add_up(const bu_folding<OPS, W> &s, int k, int end, int step,
                     typename OPS::acc (&sum)[W]) {
#pragma unroll
    for (int c = 0; c < W; c++) sum[c] = (typename OPS::acc) - 0.0;
    for (; k < end; k += step) {
        const bu_row<typename OPS::elem, W> row = s.row[k];
#pragma unroll
        for (int c = 0; c < W; c++) sum[c] += OPS::load(row.part[c]);
    }
}

/* The entries of each place, which lie together: a thread a place, or a warp. */
template <class OPS, int W> GA_FN void bu_add_places(bu_folding<OPS, W> &s, int places) {
    typedef typename OPS::acc acc;
    enum { MANY = bu_folding<OPS, W>::MANY };
    const int t = (int)threadIdx.x;
    acc sum[W];
    for (int at = t; at < places; at += BU_THREADS) {
        const int begin = s.begins.of[at], end = s.begins.of[at + 1];
        if (end - begin >= MANY) {
            s.many[atomicAdd(&s.nmany, 1)] = (unsigned short)at;
        } else if (end > begin) {
            bu_add_up(s, begin, end, 1, sum);
#pragma unroll
            for (int c = 0; c < W; c++) s.sum[c][at] += sum[c];
        }
    }
    __syncthreads();
    for (int i = t / 32; i < s.nmany; i += BU_WARPS) {
        const int at = s.many[i];
        bu_add_up(s, s.begins.of[at] + t % 32, s.begins.of[at + 1], 32, sum);
#pragma unroll
        for (int c = 0; c < W; c++) {
            for (int d = 16; d > 0; d /= 2) sum[c] += __shfl_down_sync(~0u, sum[c], (unsigned)d);
            if (t % 32 == 0) s.sum[c][at] += sum[c];
        }
    }
}

template <class OPS, int W>
GA_FN void bu_fold_tile(const bu_call &p, bu_folding<OPS, W> &s, ga_i64 first, int n) {
    typedef typename OPS::elem elem;
    const int t = (int)threadIdx.x;
    unsigned place[BU_ITEMS], to[BU_ITEMS];
    bu_row<elem, W> row[BU_ITEMS];
    if (p.buckets == 1) {
        bu_read_places(p, first, n, true, place);
        bu_read_values(p, first, n, row);
    } else {
#pragma unroll
        for (int i = 0; i < BU_ITEMS; i++) {
            const ga_i64 at = first + (bu_item(i) < n ? bu_item(i) : n - 1);
            place[i] = ((const unsigned short *)p.keys)[at];
            row[i] = ((const bu_row<elem, W> *)p.rows)[at];
        }
    }
    /* What pads the tile comes behind all others. */
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++)
        if (bu_item(i) >= n) place[i] = (1u << p.low) - 1;
    bu_rank(s.ranks, s.begins, p.low, place, to);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BU_ITEMS; i++) s.row[to[i]] = row[i];
    if (t == 0) s.nmany = 0, s.begins.of[1 << p.low] = (unsigned short)n;
    __syncthreads();
    bu_add_places(s, 1 << p.low);
    __syncthreads();
}

/* The entries of the block's piece; false: there is none. */
template <class OPS, int W>
GA_FN bool bu_find_piece(const bu_call &p, bu_folding<OPS, W> &s, ga_i64 *first, ga_i64 *end) {
    const unsigned mine = blockIdx.x;
    ga_i64 last = p.n;
    *first = (ga_i64)mine * BU_PIECE;
    if (p.buckets > 1) {
        if (mine >= bu_pieces(p)[p.buckets]) return false;
        for (int b = threadIdx.x; b < p.buckets; b += BU_THREADS) {
            const unsigned begin = bu_pieces(p)[b];
            if (begin <= mine && mine < bu_pieces(p)[b + 1])
                s.bucket = b, s.piece = (int)(mine - begin);
        }
        __syncthreads();
        *first = (ga_i64)bu_firsts(p)[s.bucket] + (ga_i64)s.piece * BU_PIECE;
        last = bu_firsts(p)[s.bucket + 1];
    }
    *end = *first + BU_PIECE < last ? *first + BU_PIECE : last;
    return true;
}

template <class OPS, int W> GA_FN void bu_fold_piece(const bu_call &p, bu_folding<OPS, W> &s) {
    typedef typename OPS::acc acc;
    ga_i64 first, end;
    if (!bu_find_piece(p, s, &first, &end)) return;
    const int places = 1 << p.low;
    for (int at = threadIdx.x; at < places; at += BU_THREADS)
        for (int c = 0; c < W; c++) s.sum[c][at] = (acc)-0.0;
    for (; first < end; first += BU_TILE)
        bu_fold_tile(p, s, first, end - first < BU_TILE ? (int)(end - first) : BU_TILE);
    acc *to = (acc *)p.sums + (ga_i64)blockIdx.x * W * places;
    for (int at = threadIdx.x; at < places; at += BU_THREADS)
        for (int c = 0; c < W; c++) to[c * places + at] = s.sum[c][at];
}

/* What a block puts: where there are few pieces, a place a thread; else warp w adds up every
** BU_WARPS-th piece from the w-th on, of one place a lane. */
template <class OPS> struct bu_putting { typename OPS::acc sum[BU_WARPS][32]; };
/* The sum of every `step`-th piece from the k-th on, of one place. */
template <class OPS>
GA_FN typename OPS::acc bu_add_pieces(const bu_call &p, const typename OPS::acc *from, ga_i64 k,
                                      ga_i64 end, int step) {
    typedef typename OPS::acc acc;
    enum { AHEAD = 8 }; /* sums that are read before one is added */
    acc sum = (acc)-0.0;
    for (; k < end; k += AHEAD * step) {
        acc more[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const ga_i64 piece = k + j * step < end ? k + j * step : k;
            more[j] = from[(piece * p.parts) << p.low];
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (k + j * step < end) sum += more[j];
    }
    return sum;
}
template <class OPS>
GA_FN void bu_put_one(const bu_call &p, ga_i64 at, int c, typename OPS::acc sum) {
    typedef typename OPS::acc acc;
    if (at >= p.length) return;
    if (sum == (acc)0 && copysign((acc)1, sum) < 0) return; /* -0.0, which changes nothing */
    typename OPS::elem *to = (typename OPS::elem *)p.far + at * p.far_step + p.far_at[c];
    *to = OPS::store((p.fresh ? (acc)0 : OPS::load(*to)) + sum);
}
template <class OPS> GA_FN void bu_put(const bu_call &p, bu_putting<OPS> &s, ga_i64 first, int c) {
    typedef typename OPS::acc acc;
    const int t = (int)threadIdx.x, lane = t % 32, warp = t / 32;
    const int b = (int)(first >> p.low);
    const ga_i64 begin = p.buckets > 1 ? bu_pieces(p)[b] : 0;
    const ga_i64 end = p.buckets > 1 ? bu_pieces(p)[b + 1] : p.pieces;
    const acc *from = (const acc *)p.sums + ((ga_i64)c << p.low) + (first - ((ga_i64)b << p.low));
    if (p.put == BU_THREADS && end - begin <= BU_WARPS) {
        bu_put_one<OPS>(p, first + t, c, bu_add_pieces<OPS>(p, from + t, begin, end, 1));
        return;
    }
    for (int k = lane; k < p.put; k += 32) {
        acc sum = bu_add_pieces<OPS>(p, from + k, begin + warp, end, BU_WARPS);
        __syncthreads();
        s.sum[warp][lane] = sum;
        __syncthreads();
        if (warp) continue;
        for (int w = 1; w < BU_WARPS; w++) sum += s.sum[w][lane];
        bu_put_one<OPS>(p, first + k, c, sum);
    }
}

#define BU_FOLD(name, T, W)                                                                        \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ bu_call p) {   \
        kt_grid_wait();                                                                            \
        __shared__ bu_folding<bu_##T, W> s;                                                        \
        bu_fold_piece(p, s);                                                                       \
    })
#define BU_PUTS(name, T)                                                                           \
    WANTED(name)                                                                                   \
    (extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ bu_call p) {   \
        kt_grid_wait();                                                                            \
        __shared__ bu_putting<bu_##T> s;                                                           \
        const ga_i64 all = (p.length + p.put - 1) / p.put * p.parts;                               \
        for (ga_i64 i = blockIdx.x; i < all; i += gridDim.x)                                       \
            bu_put(p, s, i / p.parts * p.put, (int)(i % p.parts));                                 \
    })
BU_FOLD(buckets_fold_f16_1, f16, 1)
BU_FOLD(buckets_fold_f16_2, f16, 2)
BU_FOLD(buckets_fold_f16_3, f16, 3)
BU_FOLD(buckets_fold_f16_4, f16, 4)
BU_FOLD(buckets_fold_bf16_1, bf16, 1)
BU_FOLD(buckets_fold_bf16_2, bf16, 2)
BU_FOLD(buckets_fold_bf16_3, bf16, 3)
BU_FOLD(buckets_fold_bf16_4, bf16, 4)
BU_FOLD(buckets_fold_f32_1, f32, 1)
BU_FOLD(buckets_fold_f32_2, f32, 2)
BU_FOLD(buckets_fold_f32_3, f32, 3)
BU_FOLD(buckets_fold_f32_4, f32, 4)
BU_FOLD(buckets_fold_f64_1, f64, 1)
BU_FOLD(buckets_fold_f64_2, f64, 2)
BU_PUTS(buckets_put_f16, f16)
BU_PUTS(buckets_put_bf16, bf16)
BU_PUTS(buckets_put_f32, f32)
BU_PUTS(buckets_put_f64, f64)
