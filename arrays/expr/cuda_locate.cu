/* cuda_locate.cu: what the kernels of folds share: how a number becomes a place. Embedded as text
** (tidei_cuda_locate_text), after the program's own part (see cuda_fold.cu). */
/* Adds the offsets of number k in dimensions d to last, the innermost of which is d. */
TD_FN void tide_locate(const tide_p &p, int d, int last, td_i64 k, tide_at &at) {
#pragma unroll 1
    for (; d < last; d++) {
        td_u64 q = __umul64hi(k, p.div[d].mul), rest = k - q * p.div[d].d;
        if (rest >= p.div[d].d) { /* the product may be one too small */
            q++;
            rest -= p.div[d].d;
        }
        tide_step(p, d, rest, at);
        k = q;
    }
    tide_step(p, d, k, at);
}
