/* quantile.cu: quantiles of rows that a warp or a block holds in registers, after keys.h, runs.cu
** and ranks.cu. Embedded as text (tidei_order_quantile_text).
**
** A bracket around the lower rank is narrowed until few keys are in it, which are put in order by
** comparing each with all. The next key is among them, or the least above them.
** What must stay true: a result is bit by bit what the sorted row gives (order_quantile of steps.h):
** of zeros of either sign, which have one key, the one that a stable sort has at the rank. */

enum { FEW = 32 }; /* to halve them once more takes longer than to put them in order */

/* A team's. */
template <class K> struct od_few {
    K key[FEW], sorted[FEW];
    od_u32 n;
};

/* Has the keys of the bracket in order. */
template <class K, int N, int TEAM>
OD_FN void od_sort_few(od_held<K, N, TEAM> &h, od_few<K> &f, const od_bracket<K> &b) {
    const int t = threadIdx.x % TEAM, n = (int)(b.upto - b.less);
    od_meet<TEAM>();
    if (t == 0) f.n = 0;
    od_meet<TEAM>();
    od_each_key(h, [&](K key, int item) {
        if (item < h.n && key >= b.low && key <= b.high) f.key[atomicAdd(&f.n, 1u)] = key;
    });
    od_meet<TEAM>();
    for (int i = t; i < n; i += TEAM) {
        const K mine = f.key[i];
        int place = 0;
        for (int j = 0; j < n; j++) place += f.key[j] < mine || (f.key[j] == mine && j < i);
        f.sorted[place] = mine;
    }
    od_meet<TEAM>();
}

/* The key at a rank, and if it is wanted the one behind. */
template <class K, int N, int TEAM>
OD_FN void od_keys_at(od_held<K, N, TEAM> &h, od_meeting<K> &m, od_few<K> &f, od_bracket<K> b,
                      od_u32 rank, bool wanted, K &at, K &next) {
    od_narrow(h, m, b, rank, [](const od_bracket<K> &b) { return b.upto - b.less <= FEW; });
    const bool here = rank + 1 < b.upto; /* the one behind */
    if (b.low < b.high) {
        od_sort_few(h, f, b);
        at = f.sorted[rank - b.less];
        next = here ? f.sorted[rank + 1 - b.less] : at;
    } else
        at = next = b.low;
    if (!wanted || here) return;
    K least = ~(K)0, most = 0;
    od_each_key(h, [&](K key, int) {
        if (key > b.high && key < least) least = key;
    });
    od_ends_of_team<K, TEAM>(m, least, most);
    next = least;
}

/* The element at a rank of the row that begins at `source`, whose key this is. */
template <class K, int N, int TEAM>
OD_FN double od_number_at(const od_quantiles &p, od_held<K, N, TEAM> &h, od_meeting<K> &m,
                          od_i64 source, od_u32 rank, K key) {
    if (od_tells(p.type, key)) return od_number_of(p.type, od_bits(p.type, key));
    rank -= od_count_held(h, m, [=](K k, int) { return k < key; });
    int low = 0, high = h.n - 1; /* the first up to which more than so many are the same */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (od_count_held(h, m, [=](K k, int i) { return k == key && i <= middle; }) > rank)
            high = middle;
        else
            low = middle + 1;
    }
    return od_number_of(p.type, od_load(p.source, source + low * p.space.step, p.type.size));
}

/* Quantile q of the row, whose bracket has all keys. */
template <class K, int N, int TEAM>
OD_FN double od_quantile_held(const od_quantiles &p, od_held<K, N, TEAM> &h, od_meeting<K> &m,
                              od_few<K> &f, const od_bracket<K> &all, od_i64 source, double q) {
    const int last = h.n - 1;
    const double at = q * (double)last;
    const int below = (int)at < last ? (int)at : last;
    const double part = at - (double)below;
    K key, next;
    od_keys_at(h, m, f, all, below, part != 0 && below < last, key, next);
    const double a = od_number_at(p, h, m, source, below, key);
    if (part == 0 || below == last) return a;
    return od_between(a, od_number_at(p, h, m, source, below + 1, next), part);
}

template <class K, int N, int TEAM> OD_FN void od_quantiles_kernel(const od_quantiles &p) {
    enum { TEAMS = TEAM == 32 ? WARPS : 1 };
    __shared__ od_few<K> few[TEAMS];
    __shared__ od_meeting<K> meeting;
    const int team = TEAM == 32 ? threadIdx.x / 32 : 0;
    for (od_i64 row = (od_i64)blockIdx.x * TEAMS + team; row < p.space.rows;
         row += (od_i64)gridDim.x * TEAMS) {
        od_held<K, N, TEAM> h;
        od_i64 source, out;
        od_row(&p.space, row, &source, &out);
        od_hold(h, p.type, p.source + source * p.type.size, p.space.step, (int)p.space.length);
        const od_bracket<K> all = od_all_held(h, meeting);
        const bool nan = p.type.kind == OD_FLOAT && all.high == (K)OD_LIMIT(8 * p.type.size);
        for (od_i64 k = 0; k < p.nq; k++) {
            const double q = ((const double *)p.q)[k];
            const bool none = nan || !(q >= 0 && q <= 1);
            const double d = none ? 0 : od_quantile_held(p, h, meeting, few[team], all, source, q);
            const od_i64 at = k * p.space.rows + row;
            if (threadIdx.x % TEAM != 0) continue;
            if (none)
                ((od_u64 *)p.values)[at] = 0x7ff8000000000000ULL;
            else
                ((double *)p.values)[at] = d;
        }
    }
}

/* Of keys K rows of up to N * TEAM; as many blocks fill a multiprocessor as its registers are
** enough for. */
#define QUANTILES(name, K, N, TEAM, THREADS, BLOCKS)                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        name(const __grid_constant__ od_quantiles p) {                                             \
        kt_grid_wait();                                                                            \
        od_quantiles_kernel<K, N, TEAM>(p);                                                        \
    }
#if WANTS(order_quantiles_32_warp)
QUANTILES(order_quantiles_32_warp, od_u32, 32, 32, 256, 3)
#endif
#if WANTS(order_quantiles_32_256)
QUANTILES(order_quantiles_32_256, od_u32, 16, 256, 256, 4)
#endif
#if WANTS(order_quantiles_32_512)
QUANTILES(order_quantiles_32_512, od_u32, 16, 512, 512, 2)
#endif
#if WANTS(order_quantiles_32_1024)
QUANTILES(order_quantiles_32_1024, od_u32, 16, 1024, 1024, 1)
#endif
#if WANTS(order_quantiles_32_most)
QUANTILES(order_quantiles_32_most, od_u32, 32, 1024, 1024, 1)
#endif
#if WANTS(order_quantiles_64_warp)
QUANTILES(order_quantiles_64_warp, od_u64, 32, 32, 256, 2)
#endif
#if WANTS(order_quantiles_64_256)
QUANTILES(order_quantiles_64_256, od_u64, 16, 256, 256, 3)
#endif
#if WANTS(order_quantiles_64_512)
QUANTILES(order_quantiles_64_512, od_u64, 16, 512, 512, 1)
#endif
#if WANTS(order_quantiles_64_1024)
QUANTILES(order_quantiles_64_1024, od_u64, 16, 1024, 1024, 1)
#endif
