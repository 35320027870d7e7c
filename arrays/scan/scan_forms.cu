/* scan_forms.cu: the kinds of kernels that scan on the device (scan.c chooses). Embedded as text
** behind scan_params.h, prelude.h and scan_ops.h; before scan.cu, which takes the elements from an
** array, and before the generated text of an expression, which computes them (cuda_scan.cu).
**
** Model. A warp scans some steps of 32 vectors that lie one after the other: each lane its vector,
** then the lanes by shuffles, then step after step. Five kinds of kernels:
**   rows     a warp a line, from its beginning to its end
**   short    a warp several lines, each of which has as many lanes as it has vectors, up to a power
**            of two
**   tiles    a block a tile of a line: tiles are taken by ticket, so all before a tile are done or
**            under way. A block tells its tile's fold, and then waits for those before it: of the
**            tiles of its group, and of the whole groups before that, which each group's last tile
**            tells. Whichever comes first, they are joined in one order, which the tile's place
**            fixes.
**   columns  a thread a line, or a part of it, for lines that lie side by side. The folds of parts
**            come first (column_sums); a scan of these gives what is before each part.
**   bands    a block a tile of a band: of some long lines that lie side by side. Its elements go
**            through shared memory: all threads load and store what lies together, and between
**            that each joins a part of one line. What is before a tile is told and waited for as
**            with tiles, but for all lines of the band at once, and by groups of groups as well.
** No fold begins with a neutral element: what has nothing before it is taken as it is.
**
** K is what is scanned: of SC_KIND, with
**   params           the kernel's parameters: an sc_scan, and what else it needs
**   from             where a line's elements come from; K::line finds it, and where its results go
**   K::whole<V>      whether vectors of V elements can be fetched from it
**   K::fetch         a lane's elements of a part, from place i of the line on, of which `left` are
**                    there. What is beyond the line's end is behind all that is not, so that it
**                    does no harm
**   K::one           the element at a place */
#define SC_LANES 0xffffffffu
/* Blocks that a multiprocessor has at once, by the bytes of an element and an accumulator: where
** some wait, the others work. */
#define SC_AT_ONCE(bytes) ((bytes) < 8 ? 4 : (bytes) < 12 ? 3 : 2)
/* Bands: as many as have registers for a thread's elements while these are under way. */
#define SC_BANDS_AT_ONCE(bytes) ((bytes) < 32 ? 3 : 2)

template <class E, int N> struct alignas(sizeof(E) * N) sc_vec { E v[N]; };

/* ---- values between lanes, and between blocks ---- */

template <class A> TD_FN A sc_up(A a, int by) { return __shfl_up_sync(SC_LANES, a, by); }
template <class A> TD_FN A sc_down(A a, int by) { return __shfl_down_sync(SC_LANES, a, by); }
template <class A> TD_FN A sc_of(A a, int lane) { return __shfl_sync(SC_LANES, a, lane); }
#define SC_PARTS(A)                                                                                \
    TD_FN A sc_up(A a, int by) {                                                                   \
        A z;                                                                                       \
        z.re = sc_up(a.re, by);                                                                    \
        z.im = sc_up(a.im, by);                                                                    \
        return z;                                                                                  \
    }                                                                                              \
    TD_FN A sc_down(A a, int by) {                                                                 \
        A z;                                                                                       \
        z.re = sc_down(a.re, by);                                                                  \
        z.im = sc_down(a.im, by);                                                                  \
        return z;                                                                                  \
    }                                                                                              \
    TD_FN A sc_of(A a, int lane) {                                                                 \
        A z;                                                                                       \
        z.re = sc_of(a.re, lane);                                                                  \
        z.im = sc_of(a.im, lane);                                                                  \
        return z;                                                                                  \
    }
SC_PARTS(td_c64)
SC_PARTS(td_c128)

/* Values go to other blocks in words of which the upper half says that the lower one is there, so
** that no word has to be there before another: a fence would wait for all that was stored before. */
template <class A> union sc_halves {
    A a;
    td_u32 half[sizeof(A) / 4];
};
template <class A> TD_FN void sc_tell(td_u64 *words, A a) {
    sc_halves<A> x;
    x.a = a;
#pragma unroll
    for (int h = 0; h < (int)sizeof(A) / 4; h++)
        ((volatile td_u64 *)words)[h] = (td_u64)1 << 32 | x.half[h];
}
template <class A> TD_FN bool sc_told(const td_u64 *words, A &a) {
    sc_halves<A> x;
    bool all = true;
#pragma unroll
    for (int h = 0; h < (int)sizeof(A) / 4; h++) {
        const td_u64 word = ((const volatile td_u64 *)words)[h];
        all = all && word >> 32;
        x.half[h] = (td_u32)word;
    }
    a = x.a;
    return all;
}

/* What was joined so far, if there was anything. */
template <class A> struct sc_some {
    bool any;
    A a;
};
template <class K> TD_FN void sc_add(sc_some<typename K::acc> &x, typename K::acc next) {
    x.a = x.any ? K::join(x.a, next) : next;
    x.any = true;
}

/* ---- vectors ---- */

/* Whether the vectors of a line that begins at `first` can be loaded or stored whole. */
template <class E, int V> TD_FN bool sc_whole(const E *first, sc_i64 step) {
    const td_u64 at = (td_u64)(step < 0 ? first - (V - 1) : first);
    return (step == 1 || step == -1) && at % sizeof(sc_vec<E, V>) == 0;
}

/* ---- a warp's part: S times 32 vectors ---- */

template <class K, int STEPS> struct sc_part {
    enum {
        V = SC_VECTOR(SC_UNIT(sizeof(typename K::in), sizeof(typename K::out))),
        S = STEPS,
        LENGTH = STEPS * 32 * V,
        ALL = LENGTH - 31 * V /* what there is from a lane's first element on to its last one */
    };
    typename K::in x[S][V];
    /* before the lane's vector of each step, within the part: none in the first step's first lane;
    ** and the whole part */
    typename K::acc before[S], all;
};

/* One step's vector at q; backwards, q is the vector's last element. */
template <int SIGN, class E, int V> TD_FN void sc_get(const E *q, E (&x)[V]) {
    const sc_vec<E, V> y = *(const sc_vec<E, V> *)(SIGN < 0 ? q - (V - 1) : q);
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = y.v[SIGN < 0 ? V - 1 - v : v];
}
template <int SIGN, class E, int V> TD_FN void sc_put(E *q, const E (&x)[V]) {
    sc_vec<E, V> y;
#pragma unroll
    for (int v = 0; v < V; v++) y.v[SIGN < 0 ? V - 1 - v : v] = x[v];
    *(sc_vec<E, V> *)(SIGN < 0 ? q - (V - 1) : q) = y;
}

/* How many elements are there from place i on, at most so many as a part has. */
template <class P> TD_FN int sc_left(sc_i64 n, sc_i64 i) {
    return n - i < P::LENGTH ? (int)(n - i) : (int)P::LENGTH;
}

/* Of lines that have `lanes` lanes each, `lane` among them; `all` is of lines that have a warp. */
template <class K, int S> TD_FN void sc_join(sc_part<K, S> &w, int lane, int lanes = 32) {
    typename K::acc so_far = typename K::acc();
#pragma unroll
    for (int s = 0; s < S; s++) {
        typename K::acc a = K::load(w.x[s][0]);
#pragma unroll
        for (int v = 1; v < sc_part<K, S>::V; v++) a = K::join(a, K::load(w.x[s][v]));
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            if (by >= lanes) break;
            const typename K::acc b = sc_up(a, by);
            if (lane >= by) a = K::join(b, a);
        }
        const typename K::acc e = sc_up(a, 1), all = sc_of(a, 31);
        w.before[s] = s == 0 ? e : lane == 0 ? so_far : K::join(so_far, e);
        so_far = s == 0 ? all : K::join(so_far, all);
    }
    w.all = so_far;
}

/* What a step of the scan gives, behind `before`. */
template <class K, int S>
TD_FN void sc_step(const sc_part<K, S> &w, int s, int lane, const sc_some<typename K::acc> &before,
                   typename K::out (&y)[sc_part<K, S>::V]) {
    sc_some<typename K::acc> a = before;
    if (s > 0 || lane > 0) sc_add<K>(a, w.before[s]);
#pragma unroll
    for (int v = 0; v < sc_part<K, S>::V; v++) {
        sc_add<K>(a, K::load(w.x[s][v]));
        y[v] = K::store(a.a);
    }
}

template <class K, int S>
TD_FN void sc_store(const sc_part<K, S> &w, typename K::out *first, sc_i64 step, bool whole,
                    sc_i64 i, int left, int lane, const sc_some<typename K::acc> &before) {
    enum { V = sc_part<K, S>::V };
    typename K::out *q = first + i * step, y[V];
    const bool vectors = whole && left >= sc_part<K, S>::ALL;
    if (vectors && step > 0) {
#pragma unroll
        for (int s = 0; s < S; s++) {
            sc_step(w, s, lane, before, y);
            sc_put<1>(q + s * 32 * V, y);
        }
    } else if (vectors) {
#pragma unroll
        for (int s = 0; s < S; s++) {
            sc_step(w, s, lane, before, y);
            sc_put<-1>(q - s * 32 * V, y);
        }
    } else {
#pragma unroll
        for (int s = 0; s < S; s++, q += 31 * V * step) {
            sc_step(w, s, lane, before, y);
#pragma unroll
            for (int v = 0; v < V; v++, q += step)
                if (s * 32 * V + v < left) *q = y[v];
        }
    }
}

/* ---- rows ---- */

template <class K> TD_FN void sc_rows(const typename K::params &p) {
    enum { UNIT = SC_UNIT(sizeof(typename K::in), sizeof(typename K::out)) };
    typedef sc_part<K, SC_ROW_STEPS(UNIT)> part;
    const int lane = threadIdx.x % 32;
    const sc_i64 warps = (sc_i64)gridDim.x * (SC_BLOCK / 32);
    for (sc_i64 line = (sc_i64)blockIdx.x * (SC_BLOCK / 32) + threadIdx.x / 32; line < p.lines;
         line += warps) {
        typename K::from in;
        typename K::out *out;
        K::line(p, line, in, out);
        const bool whole_in = K::template whole<part::V>(p, in),
                   whole_out = sc_whole<typename K::out, part::V>(out, p.out_step);
        sc_some<typename K::acc> before = {false, typename K::acc()};
        if (p.initial && lane == 0) out[-p.out_step] = K::store(K::none());
#pragma unroll 1
        for (sc_i64 i = lane * part::V; i - lane * part::V < p.n; i += part::LENGTH) {
            const int left = sc_left<part>(p.n, i);
            part w;
            K::fetch(w.x, p, in, whole_in, i, left);
            sc_join(w, lane);
            sc_store(w, out, p.out_step, whole_out, i, left, lane, before);
            sc_add<K>(before, w.all);
        }
    }
}

/* Lines of up to a step. All lanes of a warp take every turn, for the shuffles. */
template <class K> TD_FN void sc_short(const typename K::params &p) {
    typedef sc_part<K, 1> part;
    const int lanes = p.lanes, lane = threadIdx.x % lanes, among = threadIdx.x % 32 / lanes;
    const sc_i64 at_once = 32 / lanes, warps = (sc_i64)gridDim.x * (SC_BLOCK / 32);
    for (sc_i64 first = ((sc_i64)blockIdx.x * (SC_BLOCK / 32) + threadIdx.x / 32) * at_once;
         first < p.lines; first += warps * at_once) {
        const bool there = first + among < p.lines;
        const sc_i64 i = lane * part::V;
        const int left = there ? sc_left<part>(p.n, i) : 0;
        typename K::from in;
        typename K::out *out;
        K::line(p, there ? first + among : first, in, out);
        part w;
        K::fetch(w.x, p, in, K::template whole<part::V>(p, in), i, left);
        sc_join(w, lane, lanes);
        if (there && p.initial && lane == 0) out[-p.out_step] = K::store(K::none());
        sc_store(w, out, p.out_step, sc_whole<typename K::out, part::V>(out, p.out_step), i, left,
                 lane, {false, typename K::acc()});
    }
}

/* ---- tiles ---- */

/* Joins the first n values in their order, once they are told: by a whole warp; lane 0 gets it. */
template <class K>
TD_FN sc_some<typename K::acc> sc_wait(const td_u64 *words, sc_i64 n, int lane) {
    enum { EACH = 4, WORDS = sizeof(typename K::acc) / 4 };
    sc_some<typename K::acc> found = {false, typename K::acc()};
    for (sc_i64 start = 0; start < n; start += 32 * EACH) {
        const sc_i64 mine = start + lane * EACH;
        sc_some<typename K::acc> a = {false, typename K::acc()};
        typename K::acc got[EACH];
        bool all;
        do {
            all = true;
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if (mine + k < n) all = sc_told(words + (mine + k) * WORDS, got[k]) && all;
        } while (!all);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (mine + k < n) sc_add<K>(a, got[k]);
        __syncwarp();
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const typename K::acc b = sc_down(a.a, by);
            if (lane + by < 32 && mine + by * EACH < n) a.a = K::join(a.a, b);
        }
        sc_add<K>(found, a.a); /* lane 0 has some in every round */
    }
    return found;
}

template <class K> TD_FN void sc_tiles(const typename K::params &p) {
    typedef typename K::acc acc;
    enum { UNIT = SC_UNIT(sizeof(typename K::in), sizeof(typename K::out)) };
    typedef sc_part<K, SC_STEPS_OF(UNIT)> part;
    __shared__ sc_i64 ticket;
    __shared__ acc warps[SC_BLOCK / 32], earlier[2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    enum { WORDS = sizeof(acc) / 4 };
    td_u64 *of_tiles = (td_u64 *)p.state + 1, *of_groups = of_tiles + p.lines * p.tiles * WORDS;
    for (;;) {
        if (threadIdx.x == 0) ticket = (sc_i64)atomicAdd((sc_u64 *)p.state, 1ULL);
        __syncthreads();
        const sc_i64 line = ticket / p.tiles, tile = ticket - line * p.tiles;
        if (line >= p.lines) return;
        const sc_i64 group = tile / SC_GROUP, within = tile % SC_GROUP;
        td_u64 *tile_words = of_tiles + line * p.tiles * WORDS,
               *group_words = of_groups + line * p.groups * WORDS;

        typename K::from in;
        typename K::out *out;
        K::line(p, line, in, out);
        const bool whole_in = K::template whole<part::V>(p, in),
                   whole_out = sc_whole<typename K::out, part::V>(out, p.out_step);
        const sc_i64 i = tile * SC_TILE(UNIT) + warp * part::LENGTH +
                         lane * part::V;
        const int left = sc_left<part>(p.n, i);
        part w;
        K::fetch(w.x, p, in, whole_in, i, left);
        sc_join(w, lane);
        if (lane == 0) warps[warp] = w.all;
        __syncthreads();

        if (warp == 0) {
            acc all = warps[0];
#pragma unroll
            for (int k = 1; k < SC_BLOCK / 32; k++) all = K::join(all, warps[k]);
            if (lane == 0) sc_tell(tile_words + tile * WORDS, all);
            if (within > 0) {
                const sc_some<acc> x =
                    sc_wait<K>(tile_words + group * SC_GROUP * WORDS, within, lane);
                if (lane == 0) {
                    earlier[0] = x.a;
                    if (within == SC_GROUP - 1)
                        sc_tell(group_words + group * WORDS, K::join(x.a, all));
                }
            }
            if (p.initial && tile == 0 && lane == 0) out[-p.out_step] = K::store(K::none());
        } else if (warp == 1 && group > 0) {
            const sc_some<acc> x = sc_wait<K>(group_words, group, lane);
            if (lane == 0) earlier[1] = x.a;
        }
        __syncthreads();

        sc_some<acc> before = {false, acc()};
        if (group > 0) sc_add<K>(before, earlier[1]);
        if (within > 0) sc_add<K>(before, earlier[0]);
        for (int k = 0; k < warp; k++) sc_add<K>(before, warps[k]);
        sc_store(w, out, p.out_step, whole_out, i, left, lane, before);
    }
}

/* ---- columns ---- */

/* Joins elements [from, to) of a line behind `a`, and stores what comes of each where that is
** wanted. */
template <class K, bool STORE>
TD_FN void sc_walk(const typename K::params &p, const typename K::from &in, typename K::out *out,
                   sc_i64 from, sc_i64 to, sc_some<typename K::acc> &a) {
    enum { EACH = SC_EACH };
    sc_i64 i = from;
    for (; i + EACH <= to; i += EACH) {
        typename K::in x[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) x[k] = K::one(p, in, i + k);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            sc_add<K>(a, K::load(x[k]));
            if (STORE) out[(i + k) * p.out_step] = K::store(a.a);
        }
    }
    if (i >= to) return;
    /* the rest too is fetched before any of it is stored, which loads could not overtake */
    typename K::in x[EACH - 1];
#pragma unroll
    for (int k = 0; k < EACH - 1; k++) x[k] = i + k < to ? K::one(p, in, i + k) : typename K::in();
#pragma unroll
    for (int k = 0; k < EACH - 1; k++) {
        if (i + k >= to) break;
        sc_add<K>(a, K::load(x[k]));
        if (STORE) out[(i + k) * p.out_step] = K::store(a.a);
    }
}

template <class K, bool STORE> TD_FN void sc_columns(const typename K::params &p) {
    const sc_i64 all = p.lines * p.chunks, threads = (sc_i64)gridDim.x * SC_BLOCK;
    typename K::acc *sums = (typename K::acc *)p.state;
    for (sc_i64 item = (sc_i64)blockIdx.x * SC_BLOCK + threadIdx.x; item < all; item += threads) {
        const sc_i64 chunk = p.chunks == 1 ? 0 : item / p.lines, line = item - chunk * p.lines,
                     from = chunk * p.chunk, left = p.n - from,
                     to = from + (left < p.chunk ? left : p.chunk);
        typename K::from in;
        typename K::out *out;
        sc_some<typename K::acc> a = {false, typename K::acc()};
        K::line(p, line, in, out);
        if (STORE && chunk > 0) sc_add<K>(a, sums[item - p.lines]);
        if (STORE && p.initial && chunk == 0) out[-p.out_step] = K::store(K::none());
        sc_walk<K, STORE>(p, in, out, from, to, a);
        if (!STORE) sums[item] = a.a;
    }
}

/* ---- bands ---- */

/* What each of `parts` joins of n values at most: the last ones may have fewer, or none. */
TD_FN sc_i64 sc_each(sc_i64 n, int parts) { return (n + parts - 1) / parts; }

/* Joins the values of one part once they are told, each `apart` words behind the one before. */
template <class K>
TD_FN void sc_hear(const td_u64 *words, sc_i64 n, int part, int parts, sc_i64 apart,
                   typename K::acc &heard) {
    enum { EACH = sizeof(typename K::acc) < 16 ? 16 / sizeof(typename K::acc) : 1 };
    const sc_i64 each = sc_each(n, parts), end = (part + 1) * each < n ? (part + 1) * each : n;
    sc_some<typename K::acc> a = {false, typename K::acc()};
#pragma unroll 1
    for (sc_i64 i = part * each; i < end; i += EACH) {
        const td_u64 *from = words + i * apart;
        typename K::acc got[EACH];
        bool all;
        do { /* whose words are under way at once */
            all = true;
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if (i + k < end) all = sc_told(from + k * apart, got[k]) && all;
        } while (!all);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (i + k < end) sc_add<K>(a, got[k]);
    }
    heard = a.a;
}

/* The parts of n values, in their order; `heard` is the first part's. */
template <class K>
TD_FN void sc_add_parts(const typename K::acc *heard, sc_i64 n, int parts, int width,
                        sc_some<typename K::acc> &a) {
    const sc_i64 each = sc_each(n, parts);
    for (int part = 0; part < parts && part * each < n; part++) sc_add<K>(a, heard[part * width]);
}

/* The elements of a tile are in shared memory one row of the band after the other. Each thread
** loads and stores every so manieth of them, which are all of one line, and joins E that follow
** each other in the same line: these stay in shared memory, where what they become takes their
** place, or go to registers where that is larger, or there is no space for the threads' sums. */
template <class K> TD_FN void sc_bands(const typename K::params &p) {
    typedef typename K::in in;
    typedef typename K::acc acc;
    typedef typename K::out out;
    enum {
        UNIT = SC_UNIT(sizeof(in), sizeof(out)),
        E = SC_BAND(UNIT),
        G = SC_BAND_GROUP,
        WORDS = sizeof(acc) / 4,
        STAY = sizeof(in) == sizeof(out) && UNIT < 16,
        BYTES = SC_BLOCK * E * UNIT,
        SUMS = SC_BLOCK * 6 * sizeof(acc)
    };
    static_assert(STAY || (int)SUMS <= (int)BYTES, "the sums lie where elements were");
    __shared__ sc_i64 ticket;
    /* Of p.width, read anew for each walk over the elements: of what it knew to be the same, the
    ** compiler would keep all multiples, in more registers than there are. */
    __shared__ volatile int lines_each, rows_each;
    __shared__ sc_vec<td_u64, 2> shared[(BYTES + (STAY ? SUMS : 0)) / 16];
    in *const xs = (in *)shared;
    out *const ys = (out *)shared;
    /* of the threads, twice; what each heard of tiles, groups, groups of groups; what is before
    ** the tile */
    acc *const sums = (acc *)(shared + (STAY ? BYTES / 16 : 0)),
               *const heard = sums + 2 * SC_BLOCK, *const earlier = sums + 5 * SC_BLOCK;

    const int at = threadIdx.x, segment = at / p.width, column = at - segment * p.width;
    const sc_i64 across = (p.inner + p.width - 1) / p.width, bands = p.lines / p.inner * across;
    if (at == 0) {
        lines_each = p.width;
        rows_each = SC_BLOCK / p.width;
    }
    for (;;) {
        if (at == 0) ticket = (sc_i64)atomicAdd((sc_u64 *)p.state, 1ULL);
        __syncthreads();
        const int width = p.width, segments = SC_BLOCK / width,
                  parts = segments < SC_BAND_PARTS ? segments : SC_BAND_PARTS;
        /* bands side by side take turns, since a part of a row and the next share sectors */
        const sc_i64 row = ticket / across, outer = row / p.tiles, tile = row - outer * p.tiles,
                     band = outer * across + (ticket - row * across),
                     line = outer * p.inner + (ticket - row * across) * width;
        if (band >= bands) return;
        const sc_i64 rest = (outer + 1) * p.inner - line;
        const bool there = segment < segments, mine = there && column < rest;
        const sc_i64 first = tile * segments * E + segment;
        const int left = p.n - first < segments * E ? (int)(p.n - first) : segments * E;

        typename K::from from;
        out *to;
        in x[E];
        K::line(p, line + (mine ? column : 0), from, to);
        {
            const int rows = rows_each;
            sc_i64 i = first;
            if (mine && left > rows * (E - 1)) { /* loads do not wait for each other */
#pragma unroll
                for (int k = 0; k < E; k++, i += rows) x[k] = K::one(p, from, i);
            } else {
                const sc_i64 end = mine ? first + left : first;
#pragma unroll
                for (int k = 0; k < E; k++, i += rows) x[k] = i < end ? K::one(p, from, i) : in();
            }
            in *q = xs + at;
            const int step = rows * lines_each;
#pragma unroll
            for (int k = 0; k < E; k++, q += step)
                if (there) *q = x[k];
        }
        __syncthreads();

        acc all = acc();
        if (there) {
            const int step = lines_each;
            const in *q = xs + segment * E * step + column;
#pragma unroll
            for (int k = 0; k < E; k++, q += step) {
                x[k] = *q;
                all = k ? K::join(all, K::load(x[k])) : K::load(x[k]);
            }
        }
        if (!STAY) __syncthreads();
        acc *now = sums, *next = sums + SC_BLOCK;
        for (int by = 1; by < segments; by *= 2) {
            now[at] = all;
            __syncthreads();
            if (segment >= by) all = K::join(now[at - by * width], all);
            acc *const last = now;
            now = next;
            next = last;
        }
        now[at] = all;

        /* what is told of tiles, of groups, of groups of groups; of each place all its lines */
        const sc_i64 group = tile / G, great = group / G, greats = (p.groups + G - 1) / G,
                     apart = (sc_i64)width * WORDS;
        td_u64 *const tile_words = (td_u64 *)p.state + 1 + band * p.tiles * apart + column * WORDS,
                      *const group_words =
                          tile_words + (bands * p.tiles + band * (p.groups - p.tiles)) * apart,
                      *const great_words =
                          group_words + (bands * p.groups + band * (greats - p.groups)) * apart;
        if (mine && segment == segments - 1) sc_tell(tile_words + tile * apart, all);
        const int tiles_before = (int)(tile % G), groups_before = (int)(group % G);
        if (mine && segment < parts) {
            sc_hear<K>(tile_words + group * G * apart, tiles_before, segment, parts, apart,
                       heard[at]);
            sc_hear<K>(group_words + great * G * apart, groups_before, segment, parts, apart,
                       heard[SC_BLOCK + at]);
            sc_hear<K>(great_words, great, segment, parts, apart, heard[2 * SC_BLOCK + at]);
        }
        __syncthreads();
        if (mine && segment == 0) {
            sc_some<acc> tiles = {false, acc()}, groups = {false, acc()}, a = {false, acc()};
            sc_add_parts<K>(heard + column, tiles_before, parts, width, tiles);
            sc_add_parts<K>(heard + SC_BLOCK + column, groups_before, parts, width, groups);
            sc_add_parts<K>(heard + 2 * SC_BLOCK + column, great, parts, width, a);
            if (groups.any) sc_add<K>(a, groups.a);
            if (tiles.any) sc_add<K>(a, tiles.a);
            earlier[column] = a.a;
            if (tiles_before == G - 1) {
                sc_add<K>(tiles, now[(segments - 1) * width + column]);
                sc_tell(group_words + group * apart, tiles.a);
                sc_add<K>(groups, tiles.a);
                if (groups_before == G - 1) sc_tell(great_words + great * apart, groups.a);
            }
        }
        __syncthreads();
        sc_some<acc> before = {tile > 0, tile > 0 && mine ? earlier[column] : acc()};
        if (segment > 0) sc_add<K>(before, now[at - width]);
        if (!STAY) __syncthreads();

        if (there) {
            const int step = lines_each, from_there = segment * E * step + column;
            const in *q = xs + from_there;
            out *y = ys + from_there;
#pragma unroll
            for (int k = 0; k < E; k++, q += step, y += step) {
                sc_add<K>(before, K::load(STAY ? *q : x[k]));
                *y = K::store(before.a);
            }
        }
        __syncthreads();
        if (mine) {
            const int rows = rows_each, step = rows * lines_each;
            const sc_i64 out_step = rows * p.out_step;
            const out *y = ys + at;
            out *q = to + first * p.out_step;
            int i = 0;
#pragma unroll
            for (int k = 0; k < E; k++, i += rows, y += step, q += out_step)
                if (i < left) *q = *y;
            if (p.initial && first == 0) to[-p.out_step] = K::store(K::none());
        }
    }
}

/* ---- what is scanned ---- */

#define SC_KIND(op, T, A, O)                                                                       \
    struct sc_##op##_of_##T {                                                                      \
        typedef td_##T in;                                                                         \
        typedef td_##A acc;                                                                        \
        typedef td_##O out;                                                                        \
        static __device__ __forceinline__ acc load(in x) { return SC_LOAD(T, A, x); }              \
        static __device__ __forceinline__ out store(acc x) { return SC_STORE(O, x); }              \
        static __device__ __forceinline__ acc join(acc a, acc b) { return sc_##op##_##A(a, b); }   \
        static __device__ __forceinline__ acc none() { return sc_none_##op##_##T(); }              \
    };
#define SC_KERNEL_OF(at_once)                                                                      \
    extern "C" __global__ void __launch_bounds__(SC_BLOCK, at_once)
