/* cuda_scan.cu: a body scanned along an axis. Embedded as text (tidei_cuda_scan_text), behind
** scan_forms.cu and the program's own part, which gives
**   tide_p            the parameters: an sc_scan, whose strides are the result's over the lines, and
**                     the inputs' addresses, scalars, strides over the lines, steps along the axis;
**                     `ahead`: every step is 1
**   tide_from         where a line lies: the addresses of its first elements, its linear index
**   tide_begin        the first line; tide_move: goes on by k lines along a dimension
**   tide_whole        whether vectors of V elements can be loaded from all inputs
**   tide_get          loads the V elements from place i on; tide_value: the body's value of one
**   tide_body         the SC_KIND
** The body's values are computed as a form asks for elements, and live in registers. */

/* Whether vectors can be loaded: all is one element, or its elements lie one after the other on
** their boundaries. */
template <int V, class E> TD_FN bool tide_in_line(const E *first, td_i64 step) {
    enum { PIECE = V * sizeof(E) < 16 ? V : 16 / sizeof(E) };
    const td_u64 at = (td_u64)(step < 0 ? first - (V - 1) : first);
    return step == 0 || ((step == 1 || step == -1) && at % (PIECE * sizeof(E)) == 0);
}

/* The V elements from q on, by loads of up to 16 bytes. */
template <int V, class E>
TD_FN void tide_vector(const E *q, td_i64 step, tide_vec<E, V> &x) {
    enum { PIECE = V * sizeof(E) < 16 ? V : 16 / sizeof(E) };
    if (step == 0) {
        const E e = *q;
#pragma unroll
        for (int v = 0; v < V; v++) x.v[v] = e;
        return;
    }
#pragma unroll
    for (int v = 0; v < V; v += PIECE) {
        const tide_vec<E, PIECE> y = tide_array_get<PIECE>(step < 0 ? q - (v + PIECE - 1) : q + v);
#pragma unroll
        for (int k = 0; k < PIECE; k++) {
            const E up = y.v[k], down = y.v[PIECE - 1 - k]; /* indices that compilers know */
            x.v[v + k] = step < 0 ? down : up;
        }
    }
}

struct tide_scan : tide_body {
    typedef tide_p params;
    typedef tide_from from;

    static __device__ __forceinline__ void line(const tide_p &p, sc_i64 line, from &at, out *&to) {
        sc_i64 rest = line;
        tide_begin(p, at);
        to = (out *)p.out;
        for (int d = p.ndim - 1; d >= 0; d--) {
            const sc_i64 q = d > 0 ? rest / p.shape[d] : 0, k = rest - q * p.shape[d];
            tide_move(p, d, k, at);
            to += k * p.strides[d];
            rest = q;
        }
    }
    template <int V>
    static __device__ __forceinline__ bool whole(const tide_p &p, const from &at) {
        return tide_whole<V>(p, at);
    }
    static __device__ __forceinline__ in one(const tide_p &p, const from &at, sc_i64 i) {
        tide_x<1> x;
        tide_get(p, at, i, x);
        return tide_value(p, at, i, x, 0);
    }
    template <int S, int V, bool AHEAD>
    static __device__ __forceinline__ void vectors(in (&x)[S][V], const tide_p &p, const from &at,
                                                   sc_i64 i) {
#pragma unroll
        for (int s = 0; s < S; s++) {
            tide_x<V> e;
            tide_get<AHEAD>(p, at, i + s * 32 * V, e);
#pragma unroll
            for (int v = 0; v < V; v++) x[s][v] = tide_value(p, at, i + s * 32 * V + v, e, v);
        }
    }
    template <int S, int V>
    static __device__ __forceinline__ void fetch(in (&x)[S][V], const tide_p &p, const from &at,
                                                 bool whole, sc_i64 i, int left) {
        const bool all = whole && left >= sc_part<tide_scan, S>::ALL;
        /* without this branch the loads of a thread would wait for each other */
        if (all && p.ahead)
            vectors<S, V, true>(x, p, at, i);
        else if (all)
            vectors<S, V, false>(x, p, at, i);
        else {
#pragma unroll
            for (int s = 0; s < S; s++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    x[s][v] = s * 32 * V + v < left ? one(p, at, i + s * 32 * V + v) : in();
        }
    }
};
