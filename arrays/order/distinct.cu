/* distinct.cu: the distinct elements of types of one or two bytes, after keys.h and runs.cu, which
** are not sorted. Embedded as text (tidei_order_distinct_text).
**
** order_mark: each value has a bit, by its element's bits; a block has marks of its own in shared
** memory, most of which are soon set, so that elements cost a look. What NaN each stretch of the
** array has is noted, as each is a distinct element. order_rank_marks: one block goes over the marks
** in the order of the values, and has for each word of them how many values are less; then for each
** stretch how many NaN come before it. order_tell_marks writes the values that are numbers, and
** order_tell_each what is wanted of elements one by one.
** A stretch is what a warp has of a tile (od_item_in_tile). */

enum { ROOM = 8192 };

OD_FN od_marks *od_marks_of(const od_distinct &p) { return (od_marks *)p.sort.state; }
OD_FN od_u32 od_top_bit(const od_distinct &p) { return (od_u32)od_sign(p.sort.type); }
OD_FN bool od_is_float(const od_distinct &p) { return p.sort.type.kind == OD_FLOAT; }

/* Reads a tile's elements: item i of the thread, of the n that are there. */
template <class T>
OD_FN void od_read_bits(const od_distinct &p, od_i64 tile, int n, od_u32 (&bits)[ITEMS]) {
    const od_i64 first = tile * TILE * p.sort.space.step;
    if (n == TILE)
        od_read_tile<true, T>(p.sort, bits, first, n);
    else
        od_read_tile<false, T>(p.sort, bits, first, n);
}
OD_FN int od_items_of(const od_distinct &p, od_i64 tile) {
    const od_i64 left = p.sort.space.length - tile * TILE;
    return left < TILE ? (int)left : TILE;
}

/* ---- marks ---- */

/* Of floats: counts the NaN of the warp's stretch, and finds the thread's first zero. */
OD_FN od_u32 od_look_at_floats(const od_distinct &p, od_i64 tile, int n,
                               const od_u32 (&bits)[ITEMS], od_u64 *zero) {
    const od_u32 top = od_top_bit(p);
    od_u32 nans = 0, zeros = 0, signs = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const bool there = od_item_in_tile<ITEMS>(i) < n;
        nans += there && od_nan<od_u32>(p.sort.type, bits[i]);
        zeros |= (od_u32)(there && (bits[i] & ~top) == 0) << i;
        signs |= (od_u32)((bits[i] & top) != 0) << i;
    }
    if (zeros && !*zero) {
        const int i = __ffs((int)zeros) - 1;
        *zero = ~(2 * (od_u64)(tile * TILE + od_item_in_tile<ITEMS>(i)) + (signs >> i & 1));
    }
    for (int d = 16; d; d /= 2) nans += __shfl_xor_sync(~0u, nans, d);
    if (threadIdx.x % 32 == 0)
        od_marks_of(p)->stretch[tile * (TILE / OD_STRETCH) + threadIdx.x / 32] = nans;
    return nans;
}

/* Adds to all marks what a block has found, where that is new. */
template <int WORDS>
OD_FN void od_add_marks(const od_distinct &p, const od_u32 *seen, od_u64 zero, od_u64 nans) {
    od_marks *m = od_marks_of(p);
    for (int w = threadIdx.x; w < WORDS; w += THREADS)
        if (seen[w] & ~m->seen[w]) atomicOr(&m->seen[w], seen[w]);
    for (int d = 16; d; d /= 2) {
        const od_u64 other = __shfl_xor_sync(~0u, zero, d);
        zero = other > zero ? other : zero;
    }
    if (threadIdx.x % 32) return;
    if (zero > m->zero) atomicMax(&m->zero, zero);
    if (nans) atomicAdd((od_u64 *)&m->nans, nans);
}

template <class T> OD_FN void od_mark_kernel(const od_distinct &p) {
    enum { WORDS = (1 << 8 * sizeof(T)) / 32 };
    __shared__ od_u32 seen[WORDS];
    od_u64 zero = 0, nans = 0;
    for (int w = threadIdx.x; w < WORDS; w += THREADS) seen[w] = 0;
    __syncthreads();
    for (od_i64 tile = blockIdx.x; tile * TILE < p.sort.space.length; tile += gridDim.x) {
        const int n = od_items_of(p, tile);
        od_u32 bits[ITEMS];
        od_read_bits<T>(p, tile, n, bits);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const od_u32 bit = 1u << bits[i] % 32;
            if (od_item_in_tile<ITEMS>(i) < n && !(seen[bits[i] / 32] & bit))
                atomicOr(&seen[bits[i] / 32], bit);
        }
        if (od_is_float(p)) nans += od_look_at_floats(p, tile, n, bits, &zero);
    }
    __syncthreads();
    od_add_marks<WORDS>(p, seen, zero, nans);
}
#if WANTS(order_mark_8)
extern "C" __global__ void __launch_bounds__(256)
    order_mark_8(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    od_mark_kernel<unsigned char>(p);
}
#endif
#if WANTS(order_mark_16)
extern "C" __global__ void __launch_bounds__(256)
    order_mark_16(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    od_mark_kernel<unsigned short>(p);
}
#endif

/* ---- ranks ---- */

/* The marks of word w that are distinct numbers: without NaN; zeros are one, whose sign is +. */
OD_FN od_u32 od_numbers(const od_distinct &p, od_u32 w) {
    const od_marks *m = od_marks_of(p);
    const od_u32 negative = od_top_bit(p) / 32, without = w % negative,
                 inf = (od_u32)p.sort.type.inf;
    od_u32 seen = m->seen[w];
    if (!od_is_float(p)) return seen;
    if (w == 0) seen |= m->seen[negative] & 1;
    if (w == negative) seen &= ~1u;
    return without < inf / 32 ? seen : without == inf / 32 ? seen & ((2u << inf % 32) - 1) : 0;
}

/* Which bits of a word come before these in the order of the values. */
OD_FN od_u32 od_lesser(const od_distinct &p, od_u32 bits) {
    const od_u32 lower = (1u << bits % 32) - 1;
    return od_is_float(p) && bits & od_top_bit(p) ? ~lower << 1 : lower;
}
/* How many distinct numbers are less than this one. */
OD_FN od_u32 od_rank(const od_distinct &p, od_u32 bits) {
    const od_u64 word = od_marks_of(p)->ranked[bits / 32];
    return (od_u32)(word >> 32) + __popc((od_u32)word & od_lesser(p, bits));
}

/* How many NaN come before each stretch, of which a thread has as many as all others. */
OD_FN void od_sum_stretches(const od_distinct &p, od_u64 *sums) {
    od_marks *m = od_marks_of(p);
    const od_i64 all = (p.sort.space.length + OD_STRETCH - 1) / OD_STRETCH,
                 share = (all + THREADS - 1) / THREADS, first = share * threadIdx.x,
                 end = first + share < all ? first + share : all;
    od_u64 n = 0;
    for (od_i64 i = first; i < end; i++) n += m->stretch[i];
    n = od_sum_before(n, sums);
    for (od_i64 i = first; i < end; i++) {
        const od_u64 here = m->stretch[i];
        m->stretch[i] = n;
        n += here;
    }
}

#if WANTS(order_rank_marks)
extern "C" __global__ void __launch_bounds__(256)
    order_rank_marks(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    enum { EACH = OD_WORDS / THREADS };
    __shared__ od_u64 sums[WARPS];
    od_marks *m = od_marks_of(p);
    const od_u32 words = od_top_bit(p) / 16;
    od_u32 numbers[EACH], at[EACH], n = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const od_u32 w = threadIdx.x * EACH + i; /* in the order of the values */
        at[i] = w < words ? od_bits<od_u32>(p.sort.type, w * 32) / 32 : 0;
        numbers[i] = w < words ? od_numbers(p, at[i]) : 0;
        n += __popc(numbers[i]);
    }
    od_u32 before = od_sum_before(n, (od_u32 *)sums);
    if (threadIdx.x == THREADS - 1) m->found = before + n + m->nans;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (threadIdx.x * EACH + i < words) m->ranked[at[i]] = (od_u64)before << 32 | numbers[i];
        before += __popc(numbers[i]);
    }
    if (m->nans) od_sum_stretches(p, sums);
}
#endif

#if WANTS(order_tell_marks)
extern "C" __global__ void __launch_bounds__(256)
    order_tell_marks(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    const od_marks *m = od_marks_of(p);
    const od_u32 all = 2 * od_top_bit(p), step = gridDim.x * THREADS;
    for (od_u32 bits = blockIdx.x * THREADS + threadIdx.x; bits < all; bits += step) {
        if (!((od_u32)m->ranked[bits / 32] >> bits % 32 & 1)) continue;
        const bool negative_zero = od_is_float(p) && bits == 0 && !(m->zero & 1);
        od_store(p.sort.values, od_rank(p, bits), p.sort.type.size,
                 negative_zero ? od_top_bit(p) : bits);
    }
}
#endif

/* ---- what is wanted of each element ---- */

/* The numbers that a block counts: `span` from rank `first` on, each at `parts` places side by
** side, of which neighbouring threads use different ones. */
typedef struct od_slice {
    bool leads; /* the block tells what is not counted, too */
    od_u32 first, span, parts;
} od_slice;

OD_FN od_slice od_slice_of(const od_distinct &p, od_u32 slice) {
    const od_u32 numbers = (od_u32)(p.found - p.nans), first = slice * ROOM;
    od_slice s = {slice == 0, first, 0, 1};
    if (!p.counts || numbers == 0) return s;
    s.span = numbers - first < ROOM ? numbers - first : ROOM;
    s.parts = ROOM / s.span < 32 ? ROOM / s.span : 32;
    return s;
}

/* NaN number `at` of all, whose place is `from`: gives its rank. */
OD_FN od_i64 od_tell_nan(const od_distinct &p, od_i64 from, od_i64 at, od_u32 bits) {
    const od_i64 rank = p.found - p.nans + at;
    if (p.sort.values) od_store(p.sort.values, rank, p.sort.type.size, bits);
    if (p.sort.indices) ((od_i64 *)p.sort.indices)[rank] = from;
    if (p.counts) ((od_i64 *)p.counts)[rank] = 1;
    return rank;
}

/* An element that is a number, of that rank, whose place is `from`. Most find a lower one noted. */
OD_FN void od_tell_first(const od_distinct &p, od_i64 from, od_u32 rank) {
    od_i64 *first = (od_i64 *)p.sort.indices + rank;
    if (from < *(volatile od_i64 *)first) atomicMin(first, from);
}

template <class T>
OD_FN void od_tell_tile(const od_distinct &p, const od_slice &s, od_u32 *counts, od_i64 tile) {
    const int n = od_items_of(p, tile);
    const od_u32 top = od_top_bit(p), lower = (1u << threadIdx.x % 32) - 1;
    od_u32 bits[ITEMS];
    od_i64 nans = 0; /* before the next item */
    od_read_bits<T>(p, tile, n, bits);
    if (p.nans) nans = od_marks_of(p)->stretch[tile * (TILE / OD_STRETCH) + threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = od_item_in_tile<ITEMS>(i);
        const od_i64 from = tile * TILE + j;
        const bool there = j < n, nan = there && p.nans && od_nan<od_u32>(p.sort.type, bits[i]);
        const od_u32 lanes = p.nans ? __ballot_sync(~0u, nan) : 0;
        if (there) {
            const bool zero = od_is_float(p) && (bits[i] & ~top) == 0;
            od_i64 rank;
            if (!nan) {
                const od_u32 r = od_rank(p, zero ? 0 : bits[i]);
                if (r - s.first < s.span)
                    atomicAdd(&counts[(r - s.first) * s.parts + threadIdx.x % s.parts], 1u);
                if (s.leads && p.sort.indices) od_tell_first(p, from, r);
                rank = r;
            } else if (s.leads)
                rank = od_tell_nan(p, from, nans + __popc(lanes & lower), bits[i]);
            if (s.leads && p.inverse) ((od_i64 *)p.inverse)[from] = rank;
        }
        nans += __popc(lanes);
    }
}

/* Blocks count the numbers in slices, as many as there is room for: so many blocks for each, which
** share the tiles. */
template <class T> OD_FN void od_tell_each_kernel(const od_distinct &p) {
    __shared__ od_u32 counts[ROOM];
    const od_i64 numbers = p.found - p.nans;
    const od_u32 slices = p.counts && numbers > ROOM ? (od_u32)((numbers + ROOM - 1) / ROOM) : 1;
    const od_u32 blocks = gridDim.x / slices;
    const od_slice s = od_slice_of(p, blockIdx.x % slices);
    if (blockIdx.x / slices >= blocks) return;
    for (od_u32 i = threadIdx.x; i < s.span * s.parts; i += THREADS) counts[i] = 0;
    __syncthreads();
    for (od_i64 tile = blockIdx.x / slices; tile * TILE < p.sort.space.length; tile += blocks)
        od_tell_tile<T>(p, s, counts, tile);
    __syncthreads();
    for (od_u32 i = threadIdx.x; i < s.span; i += THREADS) {
        od_u64 sum = 0;
        for (od_u32 part = 0; part < s.parts; part++) sum += counts[i * s.parts + part];
        if (sum) atomicAdd((od_u64 *)p.counts + s.first + i, sum);
    }
}
#if WANTS(order_tell_each_8)
extern "C" __global__ void __launch_bounds__(256)
    order_tell_each_8(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    od_tell_each_kernel<unsigned char>(p);
}
#endif
#if WANTS(order_tell_each_16)
extern "C" __global__ void __launch_bounds__(256)
    order_tell_each_16(const __grid_constant__ od_distinct p) {
    kt_grid_wait();
    od_tell_each_kernel<unsigned short>(p);
}
#endif
