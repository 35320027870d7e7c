/* scan.cu: scans of arrays on the device. Embedded as text (tidei_scan_text), behind
** scan_forms.cu. */
template <class KIND> struct sc_array : KIND {
    typedef typename KIND::in in;
    typedef typename KIND::out out;
    typedef sc_scan params;
    typedef const in *from;

    static __device__ __forceinline__ void line(const sc_scan &p, sc_i64 line, from &first,
                                                out *&to) {
        const sc_i64 outer = p.inner == 1 ? line : line / p.inner;
        sc_i64 at = 0, rest = line;
        for (int d = p.ndim - 1; d > 0; d--) {
            const sc_i64 q = rest / p.shape[d];
            at += (rest - q * p.shape[d]) * p.strides[d];
            rest = q;
        }
        first = (from)p.in + at + rest * p.strides[0];
        to = (out *)p.out + outer * p.places * p.inner + (line - outer * p.inner);
    }
    template <int V> static __device__ __forceinline__ bool whole(const sc_scan &p, from first) {
        return sc_whole<in, V>(first, p.step);
    }
    static __device__ __forceinline__ in one(const sc_scan &p, from first, sc_i64 i) {
        return first[i * p.step];
    }
    template <int S, int V>
    static __device__ __forceinline__ void fetch(in (&x)[S][V], const sc_scan &p, from first,
                                                 bool whole, sc_i64 i, int left) {
        const sc_i64 step = p.step;
        from q = first + i * step;
        const bool vectors = whole && left >= sc_part<sc_array, S>::ALL; /* loads do not wait for each other */
        if (vectors && step > 0) {
#pragma unroll
            for (int s = 0; s < S; s++) sc_get<1>(q + s * 32 * V, x[s]);
        } else if (vectors) {
#pragma unroll
            for (int s = 0; s < S; s++) sc_get<-1>(q - s * 32 * V, x[s]);
        } else {
#pragma unroll
            for (int s = 0; s < S; s++, q += 31 * V * step)
#pragma unroll
                for (int v = 0; v < V; v++, q += step)
                    x[s][v] = s * 32 * V + v < left ? *q : in();
        }
    }
};

#define SC_KERNEL(name, at_once, ...)                                                              \
    WANTED(name)(SC_KERNEL_OF(at_once) name(const __grid_constant__ sc_scan p) {                   \
        kt_grid_wait();                                                                            \
        __VA_ARGS__(p);                                                                            \
    })
#define SC_BYTES(T, A) (sizeof(td_##T) + sizeof(td_##A))
#define SC_KERNELS(op, T, A, O)                                                                    \
    SC_KIND(op, T, A, O)                                                                           \
    SC_KERNEL(scan_rows_##op##_##T, SC_AT_ONCE(SC_BYTES(T, A)),                                    \
              sc_rows<sc_array<sc_##op##_of_##T>>)                                                 \
    SC_KERNEL(scan_short_##op##_##T, SC_AT_ONCE(SC_BYTES(T, A)),                                   \
              sc_short<sc_array<sc_##op##_of_##T>>)                                                \
    SC_KERNEL(scan_tiles_##op##_##T, SC_AT_ONCE(SC_BYTES(T, A)),                                   \
              sc_tiles<sc_array<sc_##op##_of_##T>>)                                                \
    SC_KERNEL(scan_columns_##op##_##T, SC_AT_ONCE(SC_BYTES(T, A)),                                 \
              sc_columns<sc_array<sc_##op##_of_##T>, true>)                                        \
    SC_KERNEL(scan_column_sums_##op##_##T, SC_AT_ONCE(SC_BYTES(T, A)),                             \
              sc_columns<sc_array<sc_##op##_of_##T>, false>)                                       \
    SC_KERNEL(scan_bands_##op##_##T, SC_BANDS_AT_ONCE(SC_BYTES(T, A)),                             \
              sc_bands<sc_array<sc_##op##_of_##T>>)
SC_SCANS(SC_KERNELS)
