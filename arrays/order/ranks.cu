/* ranks.cu: which keys lie around a rank, found without a sort, after keys.h and runs.cu.
**
** A team of threads, a warp or a block, has all keys of a row in its registers. It halves a bracket
** of keys: how many are not above its middle? That tells in which half the rank lies. A round takes
** two instructions for each key and one sum over the team, and needs neither atomics nor room for
** counts. The bracket is at first from the least key to the greatest, so that bits that all keys
** agree in take no round.
** What must stay true: all threads of a team know the same bracket, and go the same way. */

/* What a team has: of n <= N * TEAM items in a row each warp has a stretch, of `each` times 32, and
** a lane every 32nd of it, so that item i of any lane comes before item i + 1 of every one. What
** there is no element for is the greatest word. */
template <class K, int N, int TEAM> struct od_held {
    int n, each;
    int turn; /* which of the room's sums are next */
    K key[N];
};
enum { AT_ONCE = 4 }; /* `each` is a multiple: so many items are looked at, or none of them */

/* Room of a block's threads for what they tell each other; a warp needs none. Sums lie in two
** places in turn: who writes one has met all others since they read what it had before. The turns
** begin anew with each row, before whose first sum all threads meet for its ends. */
template <class K> struct od_meeting {
    od_u32 sums[2][32];
    K ends[2][32];
};

template <int TEAM> OD_FN int od_item_of(int each, int i) {
    const int t = threadIdx.x % TEAM;
    return t / 32 * 32 * each + i * 32 + t % 32;
}
template <int TEAM> OD_FN void od_meet() {
    if (TEAM == 32)
        __syncwarp();
    else
        __syncthreads();
}

/* Calls f(key, item) for those of the thread. */
template <class K, int N, int TEAM, class F> OD_FN void od_each_key(od_held<K, N, TEAM> &h, F f) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i % AT_ONCE == 0 && i >= h.each) break;
        f(h.key[i], od_item_of<TEAM>(h.each, i));
    }
}

/* ---- reading ---- */

template <class T, class K, int N, int TEAM>
OD_FN void od_hold_bits(od_held<K, N, TEAM> &h, od_u64 source, od_i64 step) {
    const int first = od_item_of<TEAM>(h.each, 0), left = h.n - first;
    const T *at = (const T *)source + first * step; /* goes along, which saves products */
#pragma unroll
    for (int i = 0; i < N; i++, at += 32 * step) {
        if (i % AT_ONCE == 0 && i >= h.each) break;
        h.key[i] = i * 32 < left ? (K)*at : (K)0;
    }
}
template <int KIND, class K, int N, int TEAM>
OD_FN void od_hold_kind(od_held<K, N, TEAM> &h, od_type t) {
    const int left = h.n - od_item_of<TEAM>(h.each, 0);
    t.kind = KIND; /* a constant from here on */
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i % AT_ONCE == 0 && i >= h.each) break;
        h.key[i] = i * 32 < left ? (K)od_key_of_element(t, h.key[i]) : ~(K)0;
    }
}

/* Takes the n real elements that lie `step` apart from the address on. All are read before one is
** looked at, so that no load waits for another. */
template <class K, int N, int TEAM>
OD_FN void od_hold(od_held<K, N, TEAM> &h, od_type t, od_u64 source, od_i64 step, int n) {
    const int a_round = TEAM * AT_ONCE;
    h.n = n;
    h.turn = 0;
    h.each = (n + a_round - 1) / a_round * AT_ONCE;
    if (sizeof(K) == 8) od_hold_bits<od_u64>(h, source, step);
    if (sizeof(K) == 4 && t.size == 4) od_hold_bits<od_u32>(h, source, step);
    if (sizeof(K) == 4 && t.size == 2) od_hold_bits<unsigned short>(h, source, step);
    if (sizeof(K) == 4 && t.size == 1) od_hold_bits<unsigned char>(h, source, step);
    if (t.kind == OD_FLOAT)
        od_hold_kind<OD_FLOAT>(h, t);
    else if (t.kind == OD_SIGNED)
        od_hold_kind<OD_SIGNED>(h, t);
    else
        od_hold_kind<OD_UNSIGNED>(h, t);
}

/* ---- what a team knows together ---- */

OD_FN od_u32 od_sum_of_warp(od_u32 n) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, n);
#else
#pragma unroll
    for (int d = 16; d; d /= 2) n += __shfl_xor_sync(~0u, n, d);
    return n;
#endif
}
template <class K, int N, int TEAM>
OD_FN od_u32 od_sum_of_team(od_held<K, N, TEAM> &h, od_meeting<K> &m, od_u32 mine) {
    const od_u32 lane = threadIdx.x % 32, sum = od_sum_of_warp(mine);
    if (TEAM == 32) return sum;
    if (lane == 0) m.sums[h.turn][threadIdx.x / 32] = sum;
    __syncthreads();
    const od_u32 of = lane < TEAM / 32 ? m.sums[h.turn][lane] : 0;
    h.turn ^= 1;
    return od_sum_of_warp(of);
}

/* How many items said(key, item) is true of. */
template <class K, int N, int TEAM, class SAID>
OD_FN od_u32 od_count_held(od_held<K, N, TEAM> &h, od_meeting<K> &m, SAID said) {
    od_u32 mine = 0;
    od_each_key(h, [&](K key, int item) { mine += said(key, item); });
    return od_sum_of_team(h, m, mine);
}

template <class K> OD_FN void od_ends_of_warp(K &least, K &most) {
#pragma unroll
    for (int d = 16; d; d /= 2) {
        const K l = __shfl_xor_sync(~0u, least, d), g = __shfl_xor_sync(~0u, most, d);
        if (l < least) least = l;
        if (g > most) most = g;
    }
}
/* The least and the greatest of what the threads have, to all of them. */
template <class K, int TEAM> OD_FN void od_ends_of_team(od_meeting<K> &m, K &least, K &most) {
    const od_u32 lane = threadIdx.x % 32;
    od_ends_of_warp(least, most);
    if (TEAM == 32) return;
    __syncthreads();
    if (lane == 0) m.ends[0][threadIdx.x / 32] = least, m.ends[1][threadIdx.x / 32] = most;
    __syncthreads();
    least = m.ends[0][lane % (TEAM / 32)], most = m.ends[1][lane % (TEAM / 32)];
    od_ends_of_warp(least, most);
}

/* ---- brackets ---- */

/* The keys from low to high, both of them with it: `less` are below low, `upto` not above high. */
template <class K> struct od_bracket {
    K low, high;
    od_u32 less, upto;
};

template <class K, int N, int TEAM>
OD_FN od_bracket<K> od_all_held(od_held<K, N, TEAM> &h, od_meeting<K> &m) {
    od_bracket<K> b = {~(K)0, 0, 0, (od_u32)h.n};
    od_each_key(h, [&](K key, int item) {
        if (key < b.low) b.low = key;
        if (item < h.n && key > b.high) b.high = key;
    });
    od_ends_of_team<K, TEAM>(m, b.low, b.high);
    return b;
}

/* Halves a bracket, which has the rank's key, until done(b), or until it has that key alone. */
template <class K, int N, int TEAM, class DONE>
OD_FN void od_narrow(od_held<K, N, TEAM> &h, od_meeting<K> &m, od_bracket<K> &b, od_u32 rank,
                     DONE done) {
    while (b.low < b.high && !done(b)) {
        const K middle = b.low + (b.high - b.low) / 2;
        const od_u32 n = od_count_held(h, m, [=](K key, int) { return key <= middle; });
        if (n > rank)
            b.high = middle, b.upto = n;
        else
            b.low = middle + 1, b.less = n;
    }
}
