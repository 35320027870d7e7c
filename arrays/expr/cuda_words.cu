/* cuda_words.cu: groups of elements that lie anywhere. Embedded as text (tidei_cuda_words_text)
** before what loads and stores them (cuda_uneven.cu). A group of 4 bytes is loaded as the two words
** of memory that it lies in, and shifted into place when it is used: a load that is used at once
** would keep the next ones waiting. Each of the two words has one of the elements. */

/* N elements from q + k on, or so many of them `stride` elements apart; k elements are a multiple of
** 4 bytes, unless N is 1. */
template <class E, int N, bool WORDS = (N > 1 && N * sizeof(E) == 4)> struct tide_words {
    tide_vec<E, N> x;
    template <bool DENSE> TD_MEMBER void pick(const E *q, td_i32 k, td_i32 stride) {
#pragma unroll
        for (int v = 0; v < N; v++)
            x.v[v] = DENSE ? q[k + v] : q[(td_i64)(k + v) * stride];
    }
    template <bool DENSE> TD_MEMBER tide_vec<E, N> open(const E *) const { return x; }
};
template <class E, int N> struct tide_words<E, N, true> {
    td_u32 low, high;
    template <bool DENSE> TD_MEMBER void pick(const E *q, td_i32 k, td_i32 stride) {
        if (DENSE) {
            const td_i32 behind = (td_u64)q & 3, word = k / (td_i32)(4 / sizeof(E));
            const char *at = (const char *)q - behind;
            low = ((const td_u32 *)at)[word];
            high = ((const td_u32 *)(behind ? at + 4 : at))[word];
            return;
        }
        tide_vec<E, N> x;
#pragma unroll
        for (int v = 0; v < N; v++) x.v[v] = q[(td_i64)(k + v) * stride];
        low = *reinterpret_cast<const td_u32 *>(&x);
    }
    template <bool DENSE> TD_MEMBER tide_vec<E, N> open(const E *q) const {
        const td_u64 both = (td_u64)high << 32 | low;
        const td_u32 w = DENSE ? (td_u32)(both >> ((td_u64)q & 3) * 8) : low;
        return *reinterpret_cast<const tide_vec<E, N> *>(&w);
    }
};

/* The same stored. */
template <bool DENSE, int N, class E>
TD_FN void tide_put_words(E *q, td_i32 k, td_i32 stride, const tide_vec<E, N> &x) {
    if (DENSE && (N == 1 || (sizeof(x) == 4 && ((td_u64)q & 3) == 0))) {
        *reinterpret_cast<tide_vec<E, N> *>(q + k) = x;
        return;
    }
#pragma unroll
    for (int v = 0; v < N; v++) q[DENSE ? k + v : (td_i64)(k + v) * stride] = x.v[v];
}
