/* scatter_few.h: sums of few entries, each of many columns, at their places, by a device: text
** behind prelude.h, indices.h, spots.h and scatter_params.h.
**
** Entries, keys, runs and columns are those of scatter.h. Each block sorts the keys of all entries
** for itself, in shared memory, and then has the same runs as the others. A thread adds up one run
** of some columns, entry after entry, in pieces of SC_CHUNK that are added up after that: so the
** indices alone decide the order, each place has one thread, and one launch does it all. Threads
** side by side have columns that lie side by side in memory or, where entries do, the runs of
** one. */
#define SC_UNROLL _Pragma("unroll")

struct sc_runs {
    ga_u64 entry[SC_ENTRIES];             /* sorted: the key, and below it the entry's number */
    ga_i64 near[SC_ENTRIES];              /* where an entry's values lie */
    unsigned short begin[SC_ENTRIES + 1]; /* of each run, and of what is left out */
    int n;                                /* runs */
};

/* Sorts s.entry, up to a power of two of them; called by the whole block. */
GA_FN void sc_sort_entries(sc_runs &s, int n) {
    for (int size = 2; size <= n; size *= 2)
        for (int apart = size / 2; apart > 0; apart /= 2) {
            for (int i = (int)threadIdx.x; i < n / 2; i += SC_THREADS) {
                const int low = 2 * i - (i & (apart - 1)), high = low + apart;
                const ga_u64 a = s.entry[low], b = s.entry[high];
                if ((a > b) != ((low & size) != 0)) {
                    s.entry[low] = b;
                    s.entry[high] = a;
                }
            }
            __syncthreads();
        }
}

/* Finds the runs; called by the whole block. */
GA_FN void sc_find_runs(const sc_few *p, sc_runs &s) {
    const int n = (int)p->fold.n, lane = (int)threadIdx.x % 32;
    int all = 1;
    while (all < n) all *= 2;
    for (int i = (int)threadIdx.x; i < all; i += SC_THREADS)
        s.entry[i] = i < n ? (ga_u64)sc_key_of(&p->list, i) << 32 | (unsigned)i : ~0ULL;
    __syncthreads();
    sc_sort_entries(s, all);
    for (int i = (int)threadIdx.x; i < n; i += SC_THREADS)
        s.near[i] = sc_offset(p->fold.long_ndim, p->fold.long_shape, p->fold.long_strides,
                              (ga_i64)(s.entry[i] & 0xffffffffu));
    if (threadIdx.x < 32) { /* the first warp counts */
        int runs = 0;
        for (int base = 0; base <= n; base += 32) {
            const int i = base + lane;
            const ga_i64 key = i < n ? (ga_i64)(s.entry[i] >> 32) : p->fold.length;
            const ga_i64 before = i > 0 && i <= n ? (ga_i64)(s.entry[i - 1] >> 32) : -1;
            const bool begins = i <= n && key != before;
            const unsigned who = __ballot_sync(~0u, begins);
            if (begins) s.begin[runs + __popc(who & ((1u << lane) - 1))] = (unsigned short)i;
            runs += __popc(who);
        }
        if (lane == 0) s.n = runs - 1; /* the last one is what is left out, or the end */
    }
    __syncthreads();
}

/* Adds up a run of COLUMNS columns, from `col` on every step-th; AHEAD entries are read before one
** is added. */
template <class OPS, int COLUMNS, int AHEAD>
GA_FN void sc_add_run(const sc_fold *p, const sc_runs &s, int run, ga_i64 col, ga_i64 step) {
    typedef typename OPS::elem elem;
    typename OPS::acc total[COLUMNS];
    const elem *near[COLUMNS];
    elem *far[COLUMNS], was[COLUMNS];
    if (col >= p->width) return;
    const ga_i64 place = (ga_i64)(s.entry[s.begin[run]] >> 32) * p->step;
    SC_UNROLL for (int k = 0; k < COLUMNS; k++) {
        const ga_i64 c = col + k * step < p->width ? col + k * step : col;
        near[k] = (const elem *)p->near + sc_offset(p->ndim, p->shape, p->near_strides, c);
        far[k] = (elem *)p->far + place + sc_offset(p->ndim, p->shape, p->far_strides, c);
        was[k] = *far[k];
        total[k] = OPS::nothing();
    }
    const int last = s.begin[run + 1];
    for (int e = s.begin[run]; e < last; e += SC_CHUNK) {
        typename OPS::acc sum[COLUMNS];
        const int end = last - e < SC_CHUNK ? last : e + SC_CHUNK;
        SC_UNROLL for (int k = 0; k < COLUMNS; k++) sum[k] = OPS::nothing();
        for (int i = e; i < end; i += AHEAD) {
            typename OPS::acc value[AHEAD][COLUMNS];
            SC_UNROLL for (int j = 0; j < AHEAD; j++) {
                const ga_i64 at = s.near[i + j < end ? i + j : i];
                SC_UNROLL for (int k = 0; k < COLUMNS; k++) value[j][k] = OPS::load(near[k][at]);
            }
            SC_UNROLL for (int j = 0; j < AHEAD; j++) {
                if (i + j >= end) break;
                SC_UNROLL for (int k = 0; k < COLUMNS; k++) sum[k] = OPS::plus(sum[k], value[j][k]);
            }
        }
        SC_UNROLL for (int k = 0; k < COLUMNS; k++) total[k] = OPS::plus(total[k], sum[k]);
    }
    SC_UNROLL for (int k = 0; k < COLUMNS; k++) {
        if (col + k * step >= p->width) break;
        *far[k] = OPS::store(OPS::plus(OPS::load(was[k]), total[k]));
    }
}

template <class OPS, int COLUMNS, int AHEAD> GA_FN void sc_add_few(const sc_few *p, sc_runs &s) {
    const sc_fold *f = &p->fold;
    const ga_i64 columns = p->by_columns ? SC_THREADS * COLUMNS : COLUMNS;
    const ga_i64 all = (f->width + columns - 1) / columns * s.n;
    const ga_i64 first = p->by_columns ? 0 : threadIdx.x, each = p->by_columns ? 1 : SC_THREADS;
    for (ga_i64 i = blockIdx.x * each + first; i < all; i += gridDim.x * each) {
        const ga_i64 group = kt_quotient(i, s.n);
        if (p->by_columns)
            sc_add_run<OPS, COLUMNS, AHEAD>(f, s, (int)(i - group * s.n),
                                            group * columns + threadIdx.x, SC_THREADS);
        else
            sc_add_run<OPS, COLUMNS, AHEAD>(f, s, (int)(i - group * s.n), group * columns, 1);
    }
}

#define SC_SAME(x)         (x)
#define SC_PLUS(T, a, b)   ((T)((a) + (b)))
#define SC_C_PLUS(T, a, b) sc_plus_##T(a, b)
/* -0.0 is the sum that changes none. */
#define SC_ADDS(name, ELEM, ACC, LOAD, STORE, PLUS, ...)                                           \
    struct sc_adds_##name {                                                                        \
        typedef ELEM elem;                                                                         \
        typedef ACC acc;                                                                           \
        static __device__ __forceinline__ acc load(elem x) { return LOAD(x); }                     \
        static __device__ __forceinline__ elem store(acc x) { return STORE(x); }                   \
        static __device__ __forceinline__ acc plus(acc a, acc b) { return PLUS(ACC, a, b); }       \
        static __device__ __forceinline__ acc nothing() { return __VA_ARGS__; }                    \
    };                                                                                             \
    WANTED(scatter_few_##name)                                                                     \
    (extern "C" __global__ void __launch_bounds__(256)                                             \
         scatter_few_##name(const __grid_constant__ sc_few p) {                                    \
             kt_grid_wait();                                                                       \
             __shared__ sc_runs s;                                                                 \
             sc_find_runs(&p, s);                                                                  \
             if (p.together > 1)                                                                   \
                 sc_add_few<sc_adds_##name, SC_TOGETHER, 2>(&p, s);                                \
             else                                                                                  \
                 sc_add_few<sc_adds_##name, 1, SC_AHEAD_ALONE>(&p, s);                             \
         })
SC_ADDS(16, unsigned short, unsigned short, SC_SAME, SC_SAME, SC_PLUS, 0)
SC_ADDS(32, unsigned, unsigned, SC_SAME, SC_SAME, SC_PLUS, 0)
SC_ADDS(64, ga_u64, ga_u64, SC_SAME, SC_SAME, SC_PLUS, 0)
SC_ADDS(f16, td_f16, float, td_load_f16, td_store_f16, SC_PLUS, -0.0f)
SC_ADDS(bf16, td_bf16, float, td_load_bf16, td_store_bf16, SC_PLUS, -0.0f)
SC_ADDS(f32, float, float, SC_SAME, SC_SAME, SC_PLUS, -0.0f)
SC_ADDS(f64, double, double, SC_SAME, SC_SAME, SC_PLUS, -0.0)
SC_ADDS(c64, sc_c32, sc_c32, SC_SAME, SC_SAME, SC_C_PLUS, sc_c32{-0.0f, -0.0f})
SC_ADDS(c128, sc_c64, sc_c64, SC_SAME, SC_SAME, SC_C_PLUS, sc_c64{-0.0, -0.0})
