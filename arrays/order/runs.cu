/* runs.cu: what a block of threads does together, after keys.h: sums over the threads, sorting runs
** of items in shared memory, reading the keys of a tile. Comes before sort.cu and select.cu. */
enum { THREADS = 256, WARPS = 8, ITEMS = 16, TILE = THREADS * ITEMS, DIGITS = 256 };

/* The sum of what the threads before this one have; called by the whole block. */
template <class T> OD_FN T od_sum_before(T mine, T *room) {
    const od_u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T sum = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const T other = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    T before = sum - mine;
    for (od_u32 i = 0; i < warp; i++) before += room[i];
    __syncthreads();
    return before;
}

/* Items lie apart by one in 32, so that threads whose items are 16 apart use different banks. */
OD_FN int od_slot(int i) { return i + (i >> 5); }

template <class K, int N = TILE> struct od_run {
    K key[N + N / 32];
    unsigned short place[N + N / 32];
};

/* Sorts the thread's own items: neighbours change places where they are out of order. */
template <class K> OD_FN void od_sort_items(K (&key)[ITEMS], unsigned short (&place)[ITEMS]) {
#pragma unroll
    for (int round = 0; round < ITEMS; round++)
#pragma unroll
        for (int i = round & 1; i + 1 < ITEMS; i += 2) {
            const bool turn = key[i] > key[i + 1];
            const K low = turn ? key[i + 1] : key[i], high = turn ? key[i] : key[i + 1];
            const unsigned short first = turn ? place[i + 1] : place[i],
                                 second = turn ? place[i] : place[i + 1];
            key[i] = low, key[i + 1] = high, place[i] = first, place[i + 1] = second;
        }
}

/* How many of the first n results come from run a, where a and b of `width` items are merged. */
template <class K, int N>
OD_FN int od_from_first(const od_run<K, N> &r, int a, int b, int width, int n) {
    int low = n > width ? n - width : 0, high = n < width ? n : width;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (r.key[od_slot(a + middle)] <= r.key[od_slot(b + n - 1 - middle)])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The thread's items of the merged run. */
template <class K, int N>
OD_FN void od_merge(const od_run<K, N> &r, int width, K (&key)[ITEMS],
                    unsigned short (&place)[ITEMS]) {
    const int first = threadIdx.x * ITEMS, a = first & ~(2 * width - 1), b = a + width;
    const int n = first - a, taken = od_from_first(r, a, b, width, n);
    int i = a + taken, j = b + n - taken;
    K x = i < b ? r.key[od_slot(i)] : 0, y = j < b + width ? r.key[od_slot(j)] : 0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const bool left = j >= b + width || (i < b && x <= y);
        key[k] = left ? x : y;
        place[k] = r.place[od_slot(left ? i : j)];
        if (left)
            x = ++i < b ? r.key[od_slot(i)] : 0;
        else
            y = ++j < b + width ? r.key[od_slot(j)] : 0;
    }
}

/* Sorts each `width` of the run's first n items, stably. Width is a power of 2, >= ITEMS, and n a
** multiple of it. Called by the whole block, and ends with a barrier. */
template <class K, int N> OD_FN void od_sort_runs(od_run<K, N> &r, int width, int n) {
    K key[ITEMS];
    unsigned short place[ITEMS];
    const int first = threadIdx.x * ITEMS;
    const bool busy = first < n;
    __syncthreads();
    if (busy) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            key[i] = r.key[od_slot(first + i)], place[i] = r.place[od_slot(first + i)];
        od_sort_items(key, place);
    }
    for (int have = ITEMS;; have *= 2) {
        __syncthreads();
        if (busy) {
#pragma unroll
            for (int i = 0; i < ITEMS; i++)
                r.key[od_slot(first + i)] = key[i], r.place[od_slot(first + i)] = place[i];
        }
        __syncthreads();
        if (have >= width) return;
        if (busy) od_merge(r, have, key, place);
    }
}

/* ---- the keys of a tile's elements ---- */

/* Called rather than written out for each of a thread's items: it is seldom wanted. */
static __device__ __noinline__ od_u64 od_key_apart(const od_sort &p, od_i64 at) {
    return od_key(p.type, p.source, at, p.round);
}

/* A thread's share of a tile: in each warp's stretch every 32nd item, so that item i of any lane
** comes before item i + 1 of every one. */
template <int N> OD_FN int od_item_in_tile(int i) {
    return (int)(threadIdx.x / 32) * 32 * N + i * 32 + (int)(threadIdx.x % 32);
}

/* FULL: the tile has all its items. Else the elements of some places are not there, and 0. */
template <bool FULL, class T, class K, int N>
OD_FN void od_read_tile(const od_sort &p, K (&bits)[N], od_i64 first, int n) {
    const T *from = (const T *)p.source + first + od_item_in_tile<N>(0) * p.space.step;
#pragma unroll
    for (int i = 0; i < N; i++)
        bits[i] = FULL || od_item_in_tile<N>(i) < n ? (K)from[i * 32 * p.space.step] : (K)0;
}

/* From the element at `first` on. All are read before one is looked at, so that no load waits for
** another. What pads the tile comes last. */
template <bool FULL, class K, int N>
OD_FN void od_keys_of_tile(const od_sort &p, K (&key)[N], od_i64 first, int n) {
    const int size = p.type.parts > 1 ? 0 : p.type.size;
    if (sizeof(K) == 8 && size == 8) od_read_tile<FULL, od_u64>(p, key, first, n);
    if (sizeof(K) == 4 && size == 4) od_read_tile<FULL, od_u32>(p, key, first, n);
    if (sizeof(K) == 4 && size == 2) od_read_tile<FULL, unsigned short>(p, key, first, n);
    if (sizeof(K) == 4 && size == 1) od_read_tile<FULL, unsigned char>(p, key, first, n);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int j = od_item_in_tile<N>(i);
        if (!FULL && j >= n)
            key[i] = ~(K)0;
        else if (size == 0)
            key[i] = (K)od_key_apart(p, first + j * p.space.step);
        else
            key[i] = od_key_of_element(p.type, key[i]);
    }
}
