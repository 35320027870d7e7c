/* bytes.cu: short rows of elements of one byte, after keys.h and runs.cu, sorted by counting.
** Embedded as text (tidei_order_bytes_text).
**
** A warp a row. It counts how often each key occurs, and knows then where the first of each goes.
** The values are written out from that alone: each key is marked where its first one goes, and what
** is not marked is as what comes before it. Places take a second look at the row, from its begin to
** its end, of which only the elements count that go to the first `kept`.
** Elements lie side by side, in the source and in the results; keys tell them (od_tells). */

enum {
    LONGEST = 4096, /* SHORT of sort.c: elements of a row */
    PLACES = 2048,  /* BYTES_PLACES there */
    BATCH = 8       /* elements that a thread reads at once */
};

/* A warp's row. Marks lie as the values do from the last multiple of 4 bytes on. */
struct __align__(16) od_bytes {
    od_u32 next[DIGITS]; /* how many of the key there are; then where its next one goes */
    union {
        od_u32 marks[LONGEST / 4 + 4];
        unsigned short order[PLACES]; /* the first places, in order */
    };
};

/* What turns an element into its key, and back. */
OD_FN od_u32 od_flip(const od_sort &p) { return od_key_of_element<od_u32>(p.type, 0); }

/* The keys of the thread's elements, which are 32 apart, from `first` on; DIGITS: there is none. */
OD_FN void od_read_keys(const od_sort &p, const unsigned char *row, int first,
                        od_u32 (&key)[BATCH]) {
    const od_u32 flip = od_flip(p);
    const int length = (int)p.space.length;
    first += threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        key[i] = first + 32 * i < length ? row[first + 32 * i] ^ flip : (od_u32)DIGITS;
}

OD_FN void od_count_keys(const od_sort &p, od_bytes &s, const unsigned char *row) {
    const int lane = threadIdx.x % 32;
    uint4 *const all = (uint4 *)s.next;
    all[lane] = all[lane + 32] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    for (int first = 0; first < p.space.length; first += 32 * BATCH) {
        od_u32 key[BATCH];
        od_read_keys(p, row, first, key);
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (key[i] < DIGITS) atomicAdd(&s.next[key[i]], 1u);
    }
    __syncwarp();
}

/* Turns counts into places, and marks those of values that begin at `shift`. Gives the greatest key
** of those that go to the first ones. */
OD_FN od_u32 od_place_keys(const od_sort &p, od_bytes &s, int shift) {
    enum { EACH = DIGITS / 32 };
    const int lane = threadIdx.x % 32, kept = (int)p.kept;
    uint4 *const mine = (uint4 *)s.next + 2 * lane;
    const uint4 a = mine[0], b = mine[1];
    const od_u32 n[EACH] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    od_u32 at[EACH], edge = 0, sum = 0;
    bool any = false;
#pragma unroll
    for (int i = 0; i < EACH; i++) sum += n[i];
    od_u32 next = sum;
    for (int d = 1; d < 32; d *= 2) {
        const od_u32 other = __shfl_up_sync(~0u, next, d);
        if (lane >= d) next += other;
    }
    next -= sum;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        at[i] = next;
        next += n[i];
        if (n[i] && at[i] < kept) {
            edge = lane * EACH + i, any = true;
            if (p.values) ((unsigned char *)s.marks)[shift + at[i]] = (unsigned char)edge;
        }
    }
    mine[0] = make_uint4(at[0], at[1], at[2], at[3]);
    mine[1] = make_uint4(at[4], at[5], at[6], at[7]);
    edge = __shfl_sync(~0u, edge, 31 - __clz((int)__ballot_sync(~0u, any)));
    __syncwarp();
    return edge;
}

/* Each byte of the word, from the lowest on, is as the one before it where it is 0. */
OD_FN od_u32 od_spread(od_u32 word, od_u32 before) {
    od_u32 bytes = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        const od_u32 byte = word >> i & 255;
        before = byte ? byte : before;
        bytes |= before << i;
    }
    return bytes;
}

/* Writes the values: words that are theirs alone at once. */
OD_FN void od_put_bytes(const od_sort &p, const od_bytes &s, unsigned char *to, int shift) {
    const int lane = threadIdx.x % 32, end = shift + (int)p.kept;
    const od_u32 flip = od_flip(p) * 0x01010101u, lower = (1u << lane) - 1;
    od_u32 before = 0; /* the key before these words */
    to -= shift;
    for (int first = 0; first < end; first += 4 * 32) {
        const int at = first + 4 * lane;
        const od_u32 word = at < end ? s.marks[at / 4] : 0, last = od_spread(word, 0) >> 24,
                     marked = __ballot_sync(~0u, last != 0), near = marked & lower;
        const od_u32 found = __shfl_sync(~0u, last, 31 - __clz((int)(near | 1)));
        const od_u32 bytes = od_spread(word, near ? found : before) ^ flip;
        const od_u32 latest = __shfl_sync(~0u, last, 31 - __clz((int)(marked | 1)));
        before = marked ? latest : before;
        if (at >= shift && at + 4 <= end)
            *(od_u32 *)(to + at) = bytes;
        else
            for (int i = 0; i < 4; i++)
                if (at + i >= shift && at + i < end) to[at + i] = (unsigned char)(bytes >> 8 * i);
    }
}

/* Writes the places of elements whose keys are not above the edge, by way of `order`, which has them
** side by side. */
OD_FN void od_put_places(const od_sort &p, od_bytes &s, const unsigned char *row, od_i64 *to,
                         od_u32 edge) {
    const int lane = threadIdx.x % 32, kept = (int)p.kept;
    for (int first = 0; first < p.space.length; first += 32 * BATCH) {
        od_u32 key[BATCH];
        od_read_keys(p, row, first, key);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const bool wanted = key[i] <= edge;
            if (!__any_sync(~0u, wanted)) continue;
            const od_u32 same = __match_any_sync(~0u, key[i]);
            const int at =
                wanted ? (int)(s.next[key[i]] + __popc(same & ((1u << lane) - 1))) : kept;
            __syncwarp();
            if (wanted && same >> lane == 1) s.next[key[i]] = at + 1; /* the highest of these */
            if (at < kept) s.order[at] = (unsigned short)(first + 32 * i + lane);
            __syncwarp();
        }
    }
    for (int i = lane; i < kept; i += 32) to[i] = s.order[i];
}

OD_FN void od_sort_bytes(const od_sort &p, od_bytes &s, od_i64 row) {
    od_i64 source, out;
    od_row(&p.space, row, &source, &out);
    const unsigned char *const from = (const unsigned char *)p.source + source;
    unsigned char *const to = (unsigned char *)p.values + out;
    const int shift = (int)((od_u64)to % 4);
    __syncwarp(); /* the last row's are read */
    for (int i = threadIdx.x % 32; p.values && 4 * i < shift + p.kept; i += 32) s.marks[i] = 0;
    od_count_keys(p, s, from);
    const od_u32 edge = od_place_keys(p, s, shift);
    if (p.values) od_put_bytes(p, s, to, shift);
    __syncwarp();
    if (p.indices) od_put_places(p, s, from, (od_i64 *)p.indices + out, edge);
}

#if WANTS(order_bytes)
extern "C" __global__ void __launch_bounds__(256) order_bytes(const __grid_constant__ od_sort p) {
    kt_grid_wait();
    __shared__ od_bytes here[WARPS];
    const int warp = threadIdx.x / 32;
    for (od_i64 row = (od_i64)blockIdx.x * WARPS + warp; row < p.space.rows;
         row += (od_i64)gridDim.x * WARPS)
        od_sort_bytes(p, here[warp], row);
}
#endif
