/* sort.cu: the kernels that sort, after keys.h and runs.cu. Embedded as text
** (tidei_order_sort_text).
**
** Short rows (order_rows): a block sorts several rows at once in shared memory: each thread the
** items that lie together, then runs are merged two by two.
** Long rows (order_count, order_sweep): from the lowest digit of 8 bits to the highest, each in one
** pass over memory ("Onesweep", Adinets and Merrill, 2022). order_count has counted how often each
** digit occurs. A pass goes tile by tile; a tile finds where its digits go in the row from what the
** tiles before it have said of theirs, which it waits for. Tiles are given out by tickets, so those
** before it are finished, or under way.
** What a pass says carries its number, so that room for it is cleared once for all passes.
** A block has 256 threads (launch.h). K: keys of 32 or 64 bits; V: places likewise. */

/* ---- rows in shared memory ---- */

/* Rows that a block has under way: `count` of them, `width` places apart in the run. */
typedef struct od_rows_here {
    int count, width;
    od_i64 source[TILE / ITEMS], out[TILE / ITEMS];
} od_rows_here;

/* Item e of the first `length` of these rows, as threads take them: neighbours in memory one after
** the other. */
OD_FN void od_item(const od_sort &p, const od_rows_here &h, od_u32 length, od_u32 e, od_u32 *row,
                   od_u32 *at) {
    if (p.space.step == 1 || h.count == 1)
        *row = e / length, *at = e % length;
    else
        *at = e / (od_u32)h.count, *row = e % (od_u32)h.count;
}

template <class K>
OD_FN void od_take_keys(const od_sort &p, const od_rows_here &h, od_run<K> &r, int round) {
    for (int e = threadIdx.x; e < h.count * h.width; e += THREADS) {
        const int from = r.place[od_slot(e)];
        const od_i64 at = h.source[e / h.width] + from * p.space.step;
        r.key[od_slot(e)] = from < p.space.length ? (K)od_key(p.type, p.source, at, round) : ~(K)0;
    }
}

/* The first round's, in the order of memory; with places. What pads the rows comes last. */
template <class K> OD_FN void od_take_rows(const od_sort &p, const od_rows_here &h, od_run<K> &r) {
    const int n = h.count * (int)p.space.length;
    for (int e = threadIdx.x; e < h.count * h.width; e += THREADS)
        r.key[od_slot(e)] = ~(K)0, r.place[od_slot(e)] = e & (h.width - 1);
    __syncthreads();
    for (int e = threadIdx.x; e < n; e += THREADS) {
        od_u32 row, at;
        od_item(p, h, (od_u32)p.space.length, e, &row, &at);
        r.key[od_slot(row * h.width + at)] =
            (K)od_key(p.type, p.source, h.source[row] + at * p.space.step, 0);
    }
}

template <class K>
OD_FN void od_put_rows(const od_sort &p, const od_rows_here &h, const od_run<K> &r) {
    const int n = h.count * (int)p.kept;
    for (int e = threadIdx.x; e < n; e += THREADS) {
        od_u32 row, at;
        od_item(p, h, (od_u32)p.kept, e, &row, &at);
        const int slot = od_slot(row * h.width + at);
        od_put(&p, h.source[row], r.place[slot], h.out[row] + at * p.space.out_step, r.key[slot]);
    }
}

template <class K> OD_FN void od_rows_kernel(const od_sort &p) {
    __shared__ od_run<K> run;
    __shared__ od_rows_here here;
    int width = ITEMS;
    while (width < p.space.length) width *= 2;
    const int most = TILE / width;
    for (od_i64 first = (od_i64)blockIdx.x * most; first < p.space.rows;
         first += (od_i64)gridDim.x * most) {
        const od_i64 left = p.space.rows - first;
        __syncthreads();
        if (threadIdx.x == 0) here.count = left < most ? (int)left : most, here.width = width;
        if (threadIdx.x < most)
            od_row(&p.space, first + threadIdx.x, &here.source[threadIdx.x],
                   &here.out[threadIdx.x]);
        __syncthreads();
        od_take_rows(p, here, run);
        od_sort_runs(run, width, here.count * width);
        for (int round = 1; p.type.parts > 1 && round < OD_ROUNDS; round++) {
            od_take_keys(p, here, run, round);
            od_sort_runs(run, width, here.count * width);
        }
        od_put_rows(p, here, run);
    }
}
#if WANTS(order_rows_32)
extern "C" __global__ void __launch_bounds__(256) order_rows_32(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    od_rows_kernel<od_u32>(p);
}
#endif
#if WANTS(order_rows_64)
extern "C" __global__ void __launch_bounds__(256) order_rows_64(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    od_rows_kernel<od_u64>(p);
}
#endif

/* ---- what the passes share ---- */

/* What a block takes at once: `each` items of each thread. */
template <class K> struct od_size {
    enum { tile = sizeof(K) == 4 ? OD_TILE_32 : OD_TILE_64, each = tile / THREADS };
};
OD_FN od_i64 od_tiles_a_row(const od_sort &p, int tile) {
    return (p.space.length + tile - 1) / tile;
}

/* The room for counts: a ticket for each pass; for each pass a plan; a word that od_untold has; for
** each row and pass, how often each digit occurs; for each tile, what it has said of each digit. */
OD_FN od_u64 *od_tickets(const od_sort &p) { return (od_u64 *)p.state; }
OD_FN od_i64 *od_plan(const od_sort &p) { return (od_i64 *)p.state + 32; }
/* Whether there are keys that do not tell their elements, which are found by their places then. */
OD_FN od_u64 *od_untold(const od_sort &p) { return (od_u64 *)p.state + 63; }
OD_FN od_u64 *od_counts(const od_sort &p, od_i64 row, int pass) {
    return (od_u64 *)p.state + 64 + (row * p.passes + pass) * DIGITS;
}
OD_FN volatile od_u64 *od_said(const od_sort &p, od_i64 tile) {
    return (od_u64 *)p.state + 64 + (p.space.rows * p.passes + tile) * DIGITS;
}

/* ---- how often each digit occurs ---- */

/* Counts of neighbouring threads lie side by side, in different banks. */
template <class K> struct od_counting {
    enum { parts = sizeof(K) == 4 ? 8 : 4, each = 16, tile = each * THREADS };
    od_u32 counts[sizeof(K)][DIGITS][parts];
};

/* Whether places are under way for the sake of keys alone that may not be there: of floats without
** zeros and NaN the keys tell all. */
OD_FN bool od_may_tell(const od_sort &p) {
    return !p.indices && p.type.parts == 1 && p.type.kind == OD_FLOAT;
}
template <bool FULL, class K, int N>
OD_FN void od_ask_keys(const od_sort &p, const K (&key)[N], int n) {
    const K all = (K)OD_LIMIT(8 * p.type.size), down = p.type.descending ? all : (K)0;
    const K zero = (K)od_sign(p.type) ^ down, nan = all ^ down;
    bool untold = false;
#pragma unroll
    for (int i = 0; i < N; i++)
        untold |= (FULL || od_item_in_tile<N>(i) < n) && (key[i] == zero || key[i] == nan);
    if (untold) *od_untold(p) = 1;
}

template <bool FULL, class K>
OD_FN void od_count_tile(const od_sort &p, od_counting<K> &c, od_i64 first, int n) {
    enum { N = od_counting<K>::each };
    const int part = threadIdx.x % od_counting<K>::parts;
    K key[N];
    od_keys_of_tile<FULL>(p, key, first, n);
    if (od_may_tell(p)) od_ask_keys<FULL>(p, key, n);
#pragma unroll
    for (int d = 0; d < (int)sizeof(K); d++) {
        if (d >= p.digits) return;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (FULL || od_item_in_tile<N>(i) < n)
                atomicAdd(&c.counts[d][(od_u32)(key[i] >> (8 * d + p.low)) & 255][part], 1u);
    }
}

/* The sums over parts, added to the row's counts. */
template <class K> OD_FN void od_tell_counts(const od_sort &p, od_counting<K> &c, od_i64 row) {
    for (int i = threadIdx.x; i < p.digits * DIGITS; i += THREADS) {
        od_u32 n = 0;
        for (int part = 0; part < od_counting<K>::parts; part++) n += c.counts[0][i][part];
        if (n) atomicAdd(od_counts(p, row, p.pass) + i, (od_u64)n);
    }
}

/* Each block takes a stretch of tiles, as many as all others. */
template <class K> OD_FN void od_count_kernel(const od_sort &p) {
    __shared__ od_counting<K> c;
    enum { TILED = od_counting<K>::tile };
    const od_i64 a_row = od_tiles_a_row(p, TILED), tiles = a_row * p.space.rows;
    const od_i64 share = (tiles + gridDim.x - 1) / gridDim.x;
    od_i64 tile = share * blockIdx.x, end = tile + share < tiles ? tile + share : tiles;
    while (tile < end) {
        const od_i64 row = tile / a_row;
        od_i64 source, out, until = (row + 1) * a_row < end ? (row + 1) * a_row : end;
        if (until > tile + (1 << 18)) until = tile + (1 << 18); /* counts hold 2^30 */
        od_row(&p.space, row, &source, &out);
        for (int i = threadIdx.x; i < (int)sizeof c / 4; i += THREADS) (&c.counts[0][0][0])[i] = 0;
        __syncthreads();
        for (; tile < until; tile++) {
            const od_i64 at = (tile - row * a_row) * TILED, left = p.space.length - at,
                         first = source + at * p.space.step;
            if (left >= TILED)
                od_count_tile<true>(p, c, first, TILED);
            else
                od_count_tile<false>(p, c, first, (int)left);
        }
        __syncthreads();
        od_tell_counts(p, c, row);
        __syncthreads();
    }
}
#if WANTS(order_count_32)
extern "C" __global__ void __launch_bounds__(256, 3)
    order_count_32(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    od_count_kernel<od_u32>(p);
}
#endif
#if WANTS(order_count_64)
extern "C" __global__ void __launch_bounds__(256)
    order_count_64(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    od_count_kernel<od_u64>(p);
}
#endif

/* ---- which passes there are ---- Of one row a pass has nothing to do whose digit is the same in
** all keys: large integers are often small numbers. The last pass writes the results, always. */

#if WANTS(order_plan)
extern "C" __global__ void __launch_bounds__(256) order_plan(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    od_i64 before = 0;
    for (int pass = 0; pass < p.passes; pass++) {
        const bool all = od_counts(p, 0, pass)[threadIdx.x] == (od_u64)p.space.length;
        const bool idle = __syncthreads_or(all) && pass < p.passes - 1;
        if (threadIdx.x == 0) od_plan(p)[pass] = idle ? -1 : before;
        before += !idle;
    }
}
#endif

/* What a pass does: whether it is the first of all (which numbers the places), or of its round
** (which makes the keys); from which buffer to which. */
typedef struct od_turn {
    bool idle, begins, first;
    bool placed; /* places are under way with the keys, or wanted */
    int in, to;
} od_turn;

OD_FN od_turn od_turn_of(const od_sort &p) {
    const int before = p.planned ? (int)od_plan(p)[p.pass] : p.pass;
    od_turn t;
    t.idle = before < 0;
    t.begins = before == 0;
    t.first = p.planned ? before == 0 : p.first;
    t.placed = p.indices || (p.order[0] && !(od_may_tell(p) && *od_untold(p) == 0));
    t.in = (before + 1) & 1;
    t.to = before & 1;
    return t;
}

/* ---- a pass ---- */

/* What tiles say of a digit: how many they have, or how many come in the row up to their end. */
OD_FN od_u64 od_word_of(const od_sort &p, bool whole, od_u64 n) {
    return (od_u64)(2 * p.pass + 1 + whole) << 56 | n;
}

/* Where the thread's digit goes behind what the tiles before `tile` have of it. Several of them are
** asked at once, as each answer takes its time. */
OD_FN od_u64 od_before(const od_sort &p, od_i64 tile, od_i64 in_row) {
    enum { ASKED = 4 };
    const od_i64 first = tile - in_row;
    od_u64 before = 0;
    for (od_i64 t = tile - 1;;) {
        od_u64 word[ASKED];
#pragma unroll
        for (int k = 0; k < ASKED; k++)
            word[k] = t - k >= first ? od_said(p, t - k)[threadIdx.x] : 0;
        int heard = 0;
        bool last = false, silent = false;
#pragma unroll
        for (int k = 0; k < ASKED; k++) {
            const int what = (int)(word[k] >> 56) - 2 * p.pass;
            silent = silent || what < 1; /* it has said nothing yet */
            if (silent || last) continue;
            before += word[k] & OD_LIMIT(56);
            last = what == 2;
            heard++;
        }
        if (last) return before;
        t -= heard;
    }
}

/* A tile under way. First, for each warp and digit: where the digit's next item of the warp goes in
** the tile, and which lanes have it now; then the tile's keys in their order, then their places. */
template <class K, class V> struct od_tile {
    union {
        struct {
            od_u32 next[WARPS][DIGITS], lanes[WARPS][DIGITS];
        } warps;
        K keys[od_size<K>::tile];
        V order[od_size<K>::tile];
    };
    V goes[DIGITS]; /* what is to be added to an item's place in the tile for that in the row */
    od_u64 sums[WARPS];
    od_u64 ticket;
};

/* What a thread knows of its tile, and its share of it. */
template <class K, class V> struct od_share {
    enum { N = od_size<K>::each };
    od_i64 row, in_row; /* the tile's place in it */
    od_i64 source, out; /* the row's first elements */
    int n;              /* items of the tile */
    K key[N];
    od_u32 to[N]; /* places in the tile, sorted */
};

template <class K> OD_FN od_u32 od_digit(const od_sort &p, K key) {
    return (od_u32)(key >> p.shift) & 255;
}

/* What the first pass has in the places' stead. */
template <bool FULL, class T, class K, class V>
OD_FN void od_fetch_carried(const od_sort &p, const od_share<K, V> &mine,
                            V (&places)[od_size<K>::each]) {
    enum { N = od_size<K>::each };
    const T *from = (const T *)p.carried + mine.in_row * od_size<K>::tile + od_item_in_tile<N>(0);
#pragma unroll
    for (int i = 0; i < N; i++)
        places[i] = FULL || od_item_in_tile<N>(i) < mine.n ? (V)from[i * 32] : (V)0;
}

template <bool FULL, class K, class V>
OD_FN void od_fetch_order(const od_sort &p, const od_turn &turn, const od_share<K, V> &mine,
                          V (&places)[od_size<K>::each]) {
    enum { N = od_size<K>::each };
    const V *order = (const V *)(turn.in ? p.order[1] : p.order[0]);
    const od_i64 first = mine.in_row * od_size<K>::tile + od_item_in_tile<N>(0);
    const V *from = order + mine.row * p.space.length + first;
    if (sizeof(K) == 4 && turn.begins && p.carried) {
        if (p.carried_size == 2)
            od_fetch_carried<FULL, unsigned short>(p, mine, places);
        else if (p.carried_size == 4)
            od_fetch_carried<FULL, od_u32>(p, mine, places);
        else
            od_fetch_carried<FULL, od_u64>(p, mine, places);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (turn.begins)
            places[i] = (V)(first + i * 32);
        else
            places[i] =
                turn.placed && (FULL || od_item_in_tile<N>(i) < mine.n) ? from[i * 32] : (V)0;
    }
}

/* The keys of a later round. */
template <bool FULL, class K, class V>
OD_FN void od_look_up(const od_sort &p, const od_turn &turn, od_share<K, V> &mine) {
    enum { N = od_size<K>::each };
    V places[N];
    od_fetch_order<FULL>(p, turn, mine, places);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const od_i64 at = mine.source + (od_i64)places[i] * p.space.step;
        mine.key[i] = FULL || od_item_in_tile<N>(i) < mine.n ? (K)od_key_apart(p, at) : ~(K)0;
    }
}

template <bool FULL, class K, class V>
OD_FN void od_fetch(const od_sort &p, const od_turn &turn, od_share<K, V> &mine) {
    enum { N = od_size<K>::each };
    const od_i64 first = mine.in_row * od_size<K>::tile;
    const K *keys = (const K *)(turn.in ? p.keys[1] : p.keys[0]) + mine.row * p.space.length +
                    first + od_item_in_tile<N>(0);
    if (turn.begins)
        od_keys_of_tile<FULL>(p, mine.key, mine.source + first * p.space.step, mine.n);
    else if (turn.first)
        od_look_up<FULL>(p, turn, mine);
    else {
#pragma unroll
        for (int i = 0; i < N; i++)
            mine.key[i] = FULL || od_item_in_tile<N>(i) < mine.n ? keys[i * 32] : ~(K)0;
    }
}

/* Where the items of each digit and warp begin in the tile. Thread t has digit t, and gets how many
** the tile has, and how many it has of lower digits; other tiles are told the first. */
template <class K, class V>
OD_FN void od_count_share(const od_sort &p, od_tile<K, V> &s, const od_share<K, V> &mine,
                          od_u32 *have, od_u32 *lower) {
    enum { N = od_size<K>::each };
    const od_u32 t = threadIdx.x;
    const od_i64 tile = mine.row * od_tiles_a_row(p, od_size<K>::tile) + mine.in_row;
#pragma unroll
    for (int i = 0; i < N; i++) atomicAdd(&s.warps.next[t / 32][od_digit(p, mine.key[i])], 1u);
    __syncthreads();
    od_u32 of[WARPS], n = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) of[w] = s.warps.next[w][t], n += of[w];
    if (mine.in_row > 0) od_said(p, tile)[t] = od_word_of(p, false, n);
    *have = n;
    *lower = n = od_sum_before(n, (od_u32 *)s.sums);
#pragma unroll
    for (int w = 0; w < WARPS; w++) s.warps.next[w][t] = n, n += of[w];
    __syncthreads();
}

/* Gives the warp's items their places in the tile: those of one digit one after the other. */
template <class K, class V>
OD_FN void od_rank(const od_sort &p, od_tile<K, V> &s, od_share<K, V> &mine) {
    const od_u32 lane = threadIdx.x % 32, bit = 1u << lane;
    od_u32 *next = s.warps.next[threadIdx.x / 32], *lanes = s.warps.lanes[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) {
        const od_u32 digit = od_digit(p, mine.key[i]);
        atomicOr(&lanes[digit], bit);
        __syncwarp();
        const od_u32 same = lanes[digit], to = next[digit] + __popc(same & (bit - 1));
        mine.to[i] = to;
        __syncwarp();
        if (same >> lane == 1) /* the highest of these lanes */
            next[digit] = to + 1, lanes[digit] = 0;
        __syncwarp();
    }
}

/* Where the thread's digit goes in the row; the tile has n of it, and `lower` of lower digits. */
template <class K, class V>
OD_FN V od_look_back(const od_sort &p, od_tile<K, V> &s, const od_share<K, V> &mine, od_u32 n,
                     od_u32 lower) {
    const od_u32 t = threadIdx.x;
    const od_i64 tile = mine.row * od_tiles_a_row(p, od_size<K>::tile) + mine.in_row;
    const od_u64 before = mine.in_row > 0
                              ? od_before(p, tile, mine.in_row)
                              : od_sum_before(od_counts(p, mine.row, p.pass)[t], s.sums);
    od_said(p, tile)[t] = od_word_of(p, true, before + n);
    return (V)(before - lower);
}

/* From here on item i of thread t is number i * THREADS + t of the tile's, in order. */

/* Writes the keys, and notes where their places go. */
template <bool FULL, class K, class V>
OD_FN void od_scatter_keys(const od_sort &p, const od_turn &turn, const od_tile<K, V> &s,
                           const od_share<K, V> &mine, V (&at)[od_size<K>::each]) {
    K *keys = (K *)(turn.to ? p.keys[1] : p.keys[0]) + mine.row * p.space.length;
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) {
        const int j = i * THREADS + (int)threadIdx.x;
        const K key = s.keys[j];
        at[i] = s.goes[od_digit(p, key)] + (V)j;
        if (FULL || j < mine.n) keys[at[i]] = key;
    }
}

template <bool FULL, class K, class V>
OD_FN void od_scatter_order(const od_sort &p, const od_turn &turn, const od_tile<K, V> &s,
                            const od_share<K, V> &mine, const V (&at)[od_size<K>::each]) {
    V *order = (V *)(turn.to ? p.order[1] : p.order[0]) + mine.row * p.space.length;
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) {
        const int j = i * THREADS + (int)threadIdx.x;
        if (FULL || j < mine.n) order[at[i]] = s.order[j];
    }
}

/* Called rather than written out for each of a thread's items: it is seldom wanted. */
static __device__ __noinline__ void od_put_apart(const od_sort &p, od_i64 source, od_i64 from,
                                                 od_i64 out, od_u64 key) {
    od_put(&p, source, from, out, key);
}

/* Writes an element to the results. Most have the keys' size and one part. Without places its key
** tells it. */
template <class K>
OD_FN void od_put_one(const od_sort &p, od_i64 source, od_i64 from, od_i64 out, K key,
                      bool placed) {
    if (!placed) {
        od_store(p.values, out, p.type.size, od_bits(p.type, key));
        return;
    }
    if (p.type.size != (int)sizeof(K) || !od_tells(p.type, key)) {
        od_put_apart(p, source, from, out, key);
        return;
    }
    if (p.indices) {
        if (sizeof(K) == 8 || p.indices_size == 8)
            ((od_i64 *)p.indices)[out] = from;
        else if (p.indices_size == 4)
            ((od_u32 *)p.indices)[out] = (od_u32)from;
        else
            ((unsigned short *)p.indices)[out] = (unsigned short)from;
    }
    if (p.values) ((K *)p.values)[out] = od_bits(p.type, key);
}

/* The last pass. */
template <bool FULL, class K, class V>
OD_FN void od_put_tile(const od_sort &p, const od_tile<K, V> &s, const od_share<K, V> &mine,
                       const K (&key)[od_size<K>::each], bool placed) {
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) {
        const int j = i * THREADS + (int)threadIdx.x;
        if (!FULL && j >= mine.n) break; /* what pads the tile comes last */
        const V at = s.goes[od_digit(p, key[i])] + (V)j;
        od_put_one(p, mine.source, placed ? (od_i64)s.order[j] : 0,
                   mine.out + (od_i64)at * p.space.out_step, key[i], placed);
    }
}

/* Has the tile's places in their order; called by the whole block. */
template <class K, class V>
OD_FN void od_exchange_order(od_tile<K, V> &s, const od_share<K, V> &mine,
                             const V (&places)[od_size<K>::each]) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) s.order[mine.to[i]] = places[i];
    __syncthreads();
}

template <bool FULL, class K, class V>
OD_FN void od_write(const od_sort &p, const od_turn &turn, od_tile<K, V> &s,
                    const od_share<K, V> &mine, const V (&places)[od_size<K>::each]) {
    enum { N = od_size<K>::each };
    if (p.pass == p.passes - 1) {
        K key[N];
#pragma unroll
        for (int i = 0; i < N; i++) key[i] = s.keys[i * THREADS + threadIdx.x];
        if (turn.placed) od_exchange_order(s, mine, places);
        od_put_tile<FULL>(p, s, mine, key, turn.placed);
    } else {
        V at[N];
        od_scatter_keys<FULL>(p, turn, s, mine, at);
        if (!turn.placed) return;
        od_exchange_order(s, mine, places);
        od_scatter_order<FULL>(p, turn, s, mine, at);
    }
}

template <bool FULL, class K, class V>
OD_FN void od_sweep_tile(const od_sort &p, const od_turn &turn, od_tile<K, V> &s,
                         od_share<K, V> &mine) {
    od_u32 have, lower;
    V places[od_size<K>::each];
    od_fetch<FULL>(p, turn, mine);
    od_count_share(p, s, mine, &have, &lower);
    od_rank(p, s, mine);
    od_fetch_order<FULL>(p, turn, mine, places); /* they come while other tiles are waited for */
    s.goes[threadIdx.x] = od_look_back(p, s, mine, have, lower);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < od_size<K>::each; i++) s.keys[mine.to[i]] = mine.key[i];
    __syncthreads();
    od_write<FULL>(p, turn, s, mine, places);
}

/* Takes the next tile, if there is one; called by the whole block. */
template <class K, class V>
OD_FN bool od_next_tile(const od_sort &p, od_tile<K, V> &s, od_share<K, V> &mine) {
    enum { TILED = od_size<K>::tile };
    const od_i64 a_row = od_tiles_a_row(p, TILED);
    __syncthreads();
    if (threadIdx.x == 0) s.ticket = atomicAdd(od_tickets(p) + p.pass, 1ULL);
    for (int i = threadIdx.x; i < (int)sizeof s.warps / 4; i += THREADS)
        (&s.warps.next[0][0])[i] = 0;
    __syncthreads();
    if ((od_i64)s.ticket >= a_row * p.space.rows) return false;
    mine.row = (od_i64)s.ticket / a_row, mine.in_row = (od_i64)s.ticket - mine.row * a_row;
    const od_i64 left = p.space.length - mine.in_row * TILED;
    mine.n = left < TILED ? (int)left : TILED;
    od_row(&p.space, mine.row, &mine.source, &mine.out);
    return true;
}

template <class K, class V> OD_FN void od_sweep_kernel(const od_sort &p) {
    __shared__ od_tile<K, V> s;
    od_share<K, V> mine;
    const od_turn turn = od_turn_of(p);
    if (turn.idle) return;
    while (od_next_tile(p, s, mine)) {
        if (mine.n == od_size<K>::tile)
            od_sweep_tile<true>(p, turn, s, mine);
        else
            od_sweep_tile<false>(p, turn, s, mine);
    }
}
/* Blocks that a multiprocessor has at once: what others wait for goes on in one of them. */
#define SWEEP(name, K, V)                                                                          \
    extern "C" __global__ void __launch_bounds__(256, 2) name(const __grid_constant__ od_sort p) { \
        kt_grid_wait();                                                                            \
        od_sweep_kernel<K, V>(p);                                                                  \
    }
#if WANTS(order_sweep_32)
SWEEP(order_sweep_32, od_u32, od_u32)
#endif
#if WANTS(order_sweep_64)
SWEEP(order_sweep_64, od_u64, od_u32)
#endif
/* places beyond 2^32 */
#if WANTS(order_sweep_32_far)
SWEEP(order_sweep_32_far, od_u32, od_u64)
#endif
#if WANTS(order_sweep_64_far)
SWEEP(order_sweep_64_far, od_u64, od_u64)
#endif
