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

/* Item e of these rows, as threads take them: neighbours in memory one after the other. */
OD_FN void od_item(const od_sort &p, const od_rows_here &h, od_u32 e, od_u32 *row, od_u32 *at) {
    if (p.space.step == 1 || h.count == 1)
        *row = e / (od_u32)p.space.length, *at = e % (od_u32)p.space.length;
    else
        *at = e / (od_u32)h.count, *row = e % (od_u32)h.count;
}

template <class K> OD_FN void od_take_keys(const od_sort &p, const od_rows_here &h, od_run<K> &r,
                                           int round) {
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
        od_item(p, h, e, &row, &at);
        r.key[od_slot(row * h.width + at)] =
            (K)od_key(p.type, p.source, h.source[row] + at * p.space.step, 0);
    }
}

template <class K> OD_FN void od_put_rows(const od_sort &p, const od_rows_here &h,
                                          const od_run<K> &r) {
    const int n = h.count * (int)p.space.length;
    for (int e = threadIdx.x; e < n; e += THREADS) {
        od_u32 row, at;
        od_item(p, h, e, &row, &at);
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
    od_rows_kernel<od_u32>(p);
}
#endif
#if WANTS(order_rows_64)
extern "C" __global__ void __launch_bounds__(256) order_rows_64(const __grid_constant__ od_sort p) {
    od_rows_kernel<od_u64>(p);
}
#endif

/* ---- what the passes share ---- */

OD_FN od_i64 od_tiles_a_row(const od_sort &p) { return (p.space.length + TILE - 1) / TILE; }

/* The room for counts: a ticket for each pass; for each pass a plan; for each row and pass, how often each digit occurs;
** for each tile, what it has said of each digit. */
OD_FN od_u64 *od_tickets(const od_sort &p) { return (od_u64 *)p.state; }
OD_FN od_i64 *od_plan(const od_sort &p) { return (od_i64 *)p.state + 32; }
OD_FN od_u64 *od_counts(const od_sort &p, od_i64 row, int pass) {
    return (od_u64 *)p.state + 64 + (row * p.passes + pass) * DIGITS;
}
OD_FN volatile od_u64 *od_said(const od_sort &p, od_i64 tile) {
    return (od_u64 *)p.state + 64 + (p.space.rows * p.passes + tile) * DIGITS;
}

/* ---- what is seldom done, or once ---- Called rather than written out for each of a thread's items:
** the passes between stay short. */

static __device__ __noinline__ od_u64 od_key_apart(const od_sort &p, od_i64 at) {
    return od_key(p.type, p.source, at, p.round);
}
static __device__ __noinline__ void od_put_apart(const od_sort &p, od_i64 source, od_i64 from,
                                                 od_i64 out, od_u64 key) {
    od_put(&p, source, from, out, key);
}

/* ---- the keys of a tile's elements ---- */

/* A thread's share of a tile: in each warp's stretch every 32nd item, so that item i of lane l comes
** before item i + 1 of any. */
OD_FN int od_item_in_tile(int i) {
    return (int)(threadIdx.x / 32) * 32 * ITEMS + i * 32 + (int)(threadIdx.x % 32);
}

template <class T, class K>
OD_FN void od_read_tile(const od_sort &p, K (&bits)[ITEMS], od_i64 source, od_i64 first, int n) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = od_item_in_tile(i);
        bits[i] = j < n ? (K)((const T *)p.source)[source + (first + j) * p.space.step] : (K)0;
    }
}

/* All are read before one is looked at, so that no load waits for another. What pads the tile comes
** last. */
template <class K>
OD_FN void od_keys_of_tile(const od_sort &p, K (&key)[ITEMS], od_i64 source, od_i64 first, int n) {
    switch (p.type.parts > 1 ? 0 : p.type.size) {
    case 1: od_read_tile<unsigned char>(p, key, source, first, n); break;
    case 2: od_read_tile<unsigned short>(p, key, source, first, n); break;
    case 4: od_read_tile<od_u32>(p, key, source, first, n); break;
    case 8: od_read_tile<od_u64>(p, key, source, first, n); break;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = od_item_in_tile(i);
        if (j >= n)
            key[i] = ~(K)0;
        else if (p.type.parts > 1)
            key[i] = (K)od_key_apart(p, source + (first + j) * p.space.step);
        else
            key[i] = (K)od_key_of_element(p.type, key[i]);
    }
}

/* ---- how often each digit occurs ---- */

enum { PARTS_32 = 8, PARTS_64 = 4 }; /* of counts: neighbouring threads use different ones */

template <class K, int PARTS>
OD_FN void od_count_tile(const od_sort &p, od_u32 (*counts)[sizeof(K)][DIGITS], od_i64 source,
                         od_i64 first) {
    const od_i64 left = p.space.length - first;
    const int n = left < TILE ? (int)left : TILE;
    K key[ITEMS];
    od_keys_of_tile(p, key, source, first, n);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (od_item_in_tile(i) >= n) continue;
#pragma unroll
        for (int d = 0; d < (int)sizeof(K); d++)
            if (d < p.digits)
                atomicAdd(&counts[threadIdx.x % PARTS][d][(od_u32)(key[i] >> 8 * d) & 255], 1u);
    }
}

/* Each block takes a stretch of tiles, as many as all others. */
template <class K, int PARTS> OD_FN void od_count_kernel(const od_sort &p) {
    __shared__ od_u32 counts[PARTS][sizeof(K)][DIGITS];
    const od_i64 a_row = od_tiles_a_row(p), tiles = a_row * p.space.rows;
    const od_i64 share = (tiles + gridDim.x - 1) / gridDim.x;
    od_i64 tile = share * blockIdx.x, end = tile + share < tiles ? tile + share : tiles;
    while (tile < end) {
        const od_i64 row = tile / a_row;
        od_i64 source, out, until = (row + 1) * a_row < end ? (row + 1) * a_row : end;
        if (until > tile + (1 << 18)) until = tile + (1 << 18); /* counts hold 2^30 */
        od_row(&p.space, row, &source, &out);
        for (int i = threadIdx.x; i < (int)(PARTS * sizeof(K) * DIGITS); i += THREADS)
            (&counts[0][0][0])[i] = 0;
        __syncthreads();
        for (; tile < until; tile++)
            od_count_tile<K, PARTS>(p, counts, source, (tile - row * a_row) * TILE);
        __syncthreads();
        for (int i = threadIdx.x; i < p.digits * DIGITS; i += THREADS) {
            od_u32 n = 0;
            for (int part = 0; part < PARTS; part++) n += (&counts[part][0][0])[i];
            if (n) atomicAdd(od_counts(p, row, p.pass) + i, (od_u64)n);
        }
        __syncthreads();
    }
}
#if WANTS(order_count_32)
extern "C" __global__ void __launch_bounds__(256) order_count_32(const __grid_constant__ od_sort p) {
    od_count_kernel<od_u32, PARTS_32>(p);
}
#endif
#if WANTS(order_count_64)
extern "C" __global__ void __launch_bounds__(256) order_count_64(const __grid_constant__ od_sort p) {
    od_count_kernel<od_u64, PARTS_64>(p);
}
#endif

/* ---- which passes there are ---- Of one row a pass has nothing to do whose digit is the same in
** all keys: large integers are often small numbers. The last pass writes the results, always. */

#if WANTS(order_plan)
extern "C" __global__ void __launch_bounds__(256) order_plan(const __grid_constant__ od_sort p) {
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
    int in, to;
} od_turn;

OD_FN od_turn od_turn_of(const od_sort &p) {
    const int before = p.planned ? (int)od_plan(p)[p.pass] : p.pass;
    od_turn t;
    t.idle = before < 0;
    t.begins = before == 0;
    t.first = p.planned ? before == 0 : p.first;
    t.in = (before + 1) & 1;
    t.to = before & 1;
    return t;
}

/* ---- a pass ---- */

/* Which lanes have the same digit as this one. */
OD_FN od_u32 od_same(od_u32 digit) {
    od_u32 same = ~0u;
#pragma unroll
    for (int b = 0; b < 8; b++) {
        const bool set = digit >> b & 1;
        const od_u32 with = __ballot_sync(~0u, set);
        same &= set ? with : ~with;
    }
    return same;
}

/* What tiles say of a digit: how many they have, or how many come in the row up to their end. */
OD_FN od_u64 od_word(const od_sort &p, bool whole, od_u64 n) {
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

/* Where in the row the thread's digit goes, of which this tile has n. */
OD_FN od_u64 od_look_back(const od_sort &p, od_i64 tile, od_i64 in_row, od_u32 n, od_u64 start) {
    od_u64 before = start;
    if (in_row > 0) {
        od_said(p, tile)[threadIdx.x] = od_word(p, false, n);
        before += od_before(p, tile, in_row);
    }
    od_said(p, tile)[threadIdx.x] = od_word(p, true, before + n);
    return before;
}

template <class K, class V> struct od_tile {
    union {
        od_u32 counts[WARPS][DIGITS];
        K keys[TILE];
        V order[TILE];
    };
    od_u64 goes[DIGITS]; /* where a digit's first item of the tile goes in the row */
    od_u64 sums[WARPS];
    od_u64 ticket;
};

/* A thread's share of a tile: in each warp's stretch every 32nd item, so that item i of any lane
** comes before item i + 1 of every one. */
template <class K, class V> struct od_share {
    K key[ITEMS];
    V order[ITEMS];
    od_u32 to[ITEMS]; /* its place in the tile, sorted */
};

template <class K, class V>
OD_FN void od_fetch(const od_sort &p, const od_turn &turn, od_share<K, V> &mine, od_i64 row,
                    od_i64 source, od_i64 first, int n) {
    const od_i64 base = row * p.space.length + first;
    const V *order = (const V *)(turn.in ? p.order[1] : p.order[0]);
    const K *keys = (const K *)(turn.in ? p.keys[1] : p.keys[0]);
    if (turn.begins)
        od_keys_of_tile(p, mine.key, source, first, n);
    else if (!turn.first) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int j = od_item_in_tile(i);
            mine.key[i] = j < n ? keys[base + j] : ~(K)0;
        }
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = od_item_in_tile(i);
        mine.order[i] = turn.begins ? (V)(first + j) : order && j < n ? order[base + j] : (V)0;
    }
    if (turn.begins || !turn.first) return;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) { /* another round's keys */
        const od_i64 at = source + (od_i64)mine.order[i] * p.space.step;
        mine.key[i] = od_item_in_tile(i) < n ? (K)od_key_apart(p, at) : ~(K)0;
    }
}

template <class K> OD_FN od_u32 od_digit(const od_sort &p, K key) {
    return (od_u32)(key >> p.shift) & 255;
}

/* Counts the tile's digits, each warp its own, and notes how many of an item's digit its warp had
** before it. */
template <class K, class V> OD_FN void od_rank(const od_sort &p, od_tile<K, V> &s,
                                               od_share<K, V> &mine) {
    const od_u32 lane = threadIdx.x % 32;
    od_u32 *counts = s.counts[threadIdx.x / 32];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const od_u32 digit = od_digit(p, mine.key[i]), same = od_same(digit);
        const od_u32 lower = same & ((1u << lane) - 1), have = counts[digit];
        mine.to[i] = have + __popc(lower);
        __syncwarp();
        if (lower == 0) counts[digit] = have + __popc(same);
        __syncwarp();
    }
}

/* From counts to places: in the tile, and in the row. Thread t has digit t. */
template <class K, class V> OD_FN void od_find_places(const od_sort &p, od_tile<K, V> &s,
                                                      od_share<K, V> &mine, od_i64 row,
                                                      od_i64 in_row) {
    const od_u32 t = threadIdx.x;
    const od_i64 tile = row * od_tiles_a_row(p) + in_row;
    od_u32 n = 0;
    for (int w = 0; w < WARPS; w++) {
        const od_u32 here = s.counts[w][t];
        s.counts[w][t] = n;
        n += here;
    }
    od_u64 start = 0;
    if (in_row == 0) start = od_sum_before(od_counts(p, row, p.pass)[t], s.sums);
    const od_u32 before = (od_u32)od_sum_before((od_u64)n, s.sums);
    s.goes[t] = od_look_back(p, tile, in_row, n, start) - before;
    for (int w = 0; w < WARPS; w++) s.counts[w][t] += before;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) mine.to[i] += s.counts[t / 32][od_digit(p, mine.key[i])];
    __syncthreads();
}

/* The tile's items in sorted order: item i of thread t is number i * THREADS + t. */
template <class K, class V> OD_FN void od_exchange(const od_sort &p, od_tile<K, V> &s,
                                                   od_share<K, V> &mine) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) s.keys[mine.to[i]] = mine.key[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) mine.key[i] = s.keys[i * THREADS + threadIdx.x];
    __syncthreads();
    if (!p.order[0] && !p.indices) return; /* places are not wanted */
#pragma unroll
    for (int i = 0; i < ITEMS; i++) s.order[mine.to[i]] = mine.order[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) mine.order[i] = s.order[i * THREADS + threadIdx.x];
}

template <class K, class V>
OD_FN void od_scatter(const od_sort &p, const od_turn &turn, const od_tile<K, V> &s,
                      const od_share<K, V> &mine, od_i64 row, int n) {
    const od_i64 base = row * p.space.length;
    V *order = (V *)(turn.to ? p.order[1] : p.order[0]);
    K *keys = (K *)(turn.to ? p.keys[1] : p.keys[0]);
    od_i64 source, out;
    od_row(&p.space, row, &source, &out);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int j = i * THREADS + (int)threadIdx.x;
        if (j >= n) break; /* what pads the tile comes last */
        const od_i64 at = (od_i64)(s.goes[od_digit(p, mine.key[i])] + j);
        if (p.pass == p.passes - 1)
            od_put_apart(p, source, (od_i64)mine.order[i], out + at * p.space.out_step,
                         mine.key[i]);
        else {
            keys[base + at] = mine.key[i];
            if (order) order[base + at] = mine.order[i];
        }
    }
}

template <class K, class V> OD_FN void od_sweep_kernel(const od_sort &p) {
    __shared__ od_tile<K, V> s;
    od_share<K, V> mine;
    const od_turn turn = od_turn_of(p);
    if (turn.idle) return;
    const od_i64 a_row = od_tiles_a_row(p), tiles = a_row * p.space.rows;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) s.ticket = atomicAdd(od_tickets(p) + p.pass, 1ULL);
        for (int i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) (&s.counts[0][0])[i] = 0;
        __syncthreads();
        if ((od_i64)s.ticket >= tiles) return;
        const od_i64 row = (od_i64)s.ticket / a_row, in_row = (od_i64)s.ticket - row * a_row;
        const od_i64 left = p.space.length - in_row * TILE;
        const int n = left < TILE ? (int)left : TILE;
        od_i64 source, out;
        od_row(&p.space, row, &source, &out);
        od_fetch(p, turn, mine, row, source, in_row * TILE, n);
        od_rank(p, s, mine);
        __syncthreads();
        od_find_places(p, s, mine, row, in_row);
        od_exchange(p, s, mine);
        od_scatter(p, turn, s, mine, row, n);
    }
}
/* Blocks that a multiprocessor has at once: what others wait for goes on in one of them. */
#define SWEEP(name, K, V)                                                                          \
    extern "C" __global__ void __launch_bounds__(256, sizeof(K) == 4 ? 3 : 2)                      \
        name(const __grid_constant__ od_sort p) {                                                  \
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
