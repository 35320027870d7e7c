/* steps.h: what follows a sort, element by element, after keys.h: one text for both back ends, as
** gather.h. Embedded as text (tidei_order_steps_text).
**
** Each kernel does its step for every item i < n, in any order; arrays are row-major but where a
** field says otherwise. */
#ifndef TIDEI_ORDER_STEPS_H
#define TIDEI_ORDER_STEPS_H

#ifndef __CUDACC_RTC__
#include <math.h>
#include "arrays/kernels/text.h"
#include "arrays/order/keys.h"
#include "runtime/device/share.h"
#endif

typedef struct od_steps {
    /* addresses; 0: there is none. Read: */
    od_u64 sorted, given, order, starts, least, greatest;
    /* written: */
    od_u64 values, places, inverse, counts;
    od_i64 n, m;
    od_i64 step;          /* between elements of sorted */
    od_i64 length, inner; /* of an axis, and elements between its neighbours */
    od_type type;
    int right;
    int whole;        /* bins: number i is for the integer i */
    double low, high; /* of all bins; NaN: they are at least and greatest */
} od_steps;

/* What a search does step by step waits for memory, so a thread of a device has several. */
enum { OD_SEARCHES = 4 };

#define OD_AT(type, address, i) (((type *)(address))[i])

/* Whether element i of a comes before element j of b. */
OD_FN int od_less(od_type t, od_u64 a, od_i64 i, od_u64 b, od_i64 j) {
    for (int round = t.parts > 1 ? OD_ROUNDS - 1 : 0; round >= 0; round--) {
        const od_u64 x = od_key(t, a, i, round), y = od_key(t, b, j, round);
        if (x != y) return x < y;
    }
    return 0;
}
OD_FN int od_is_nan(od_type t, od_u64 a, od_i64 i) {
    int nan = 0;
    for (int part = 0; part < t.parts && t.kind == OD_FLOAT; part++)
        nan |= od_nan(t, od_load(a, i * t.parts + part, t.size));
    return nan;
}
OD_FN void od_copy(od_type t, od_u64 to, od_i64 i, od_u64 from, od_i64 j) {
    for (int part = 0; part < t.parts; part++)
        od_store(to, i * t.parts + part, t.size, od_load(from, j * t.parts + part, t.size));
}

/* ---- in a sorted array of m elements ---- */

/* Where given[i] would go: before those that equal it, or behind them. */
OD_FN od_i64 od_place(const od_steps *p, od_i64 i, int right) {
    od_i64 low = 0, high = p->m;
    while (low < high) {
        const od_i64 middle = low + (high - low) / 2;
        if (right ? !od_less(p->type, p->given, i, p->sorted, middle * p->step)
                  : od_less(p->type, p->sorted, middle * p->step, p->given, i))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
OD_FN void od_find(const od_steps *p, od_i64 i) {
    OD_AT(od_i64, p->places, i) = od_place(p, i, p->right);
}
/* Whether given[i] is there; NaN is nowhere. */
OD_FN void od_is_in(const od_steps *p, od_i64 i) {
    const od_i64 at = od_place(p, i, 0);
    OD_AT(unsigned char, p->values, i) = at < p->m &&
                                         !od_less(p->type, p->given, i, p->sorted, at * p->step) &&
                                         !od_is_nan(p->type, p->given, i);
}

/* ---- groups of equals: n sorted elements, from places in `order` ---- */

OD_FN void od_begins(const od_steps *p, od_i64 i) {
    OD_AT(unsigned char, p->values, i) = i == 0 || od_is_nan(p->type, p->sorted, i) ||
                                         od_less(p->type, p->sorted, i - 1, p->sorted, i);
}
/* Of group i of n, in m elements: its value, the place of its first, how many there are. */
OD_FN void od_tell(const od_steps *p, od_i64 i) {
    const od_i64 start = OD_AT(const od_i64, p->starts, i);
    const od_i64 end = i + 1 < p->n ? OD_AT(const od_i64, p->starts, i + 1) : p->m;
    if (p->values) od_copy(p->type, p->values, i, p->sorted, start);
    if (p->places) OD_AT(od_i64, p->places, i) = OD_AT(const od_i64, p->order, start);
    if (p->counts) OD_AT(od_i64, p->counts, i) = end - start;
}
/* The group, of m, of sorted element i. */
OD_FN void od_invert(const od_steps *p, od_i64 i) {
    od_i64 low = 0, high = p->m; /* starts that lie at or before i */
    while (low < high) {
        const od_i64 middle = low + (high - low) / 2;
        if (OD_AT(const od_i64, p->starts, middle) <= i)
            low = middle + 1;
        else
            high = middle;
    }
    OD_AT(od_i64, p->inverse, OD_AT(const od_i64, p->order, i)) = low - 1;
}

/* ---- along an axis ---- */

/* Element i of the result: of its row, the one at the place that `order` has there. */
OD_FN void od_along(const od_steps *p, od_i64 i) {
    const od_i64 in = i % p->inner, row = i / (p->inner * p->length) * p->length;
    od_copy(p->type, p->values, i, p->given,
            (row + OD_AT(const od_i64, p->order, i)) * p->inner + in);
}

OD_FN double od_number(od_type t, od_u64 a, od_i64 i) {
    return od_number_of(t, od_load(a, i, t.size));
}

/* Quantile i / m of sorted row i % m, whose length is `length`: f64. */
OD_FN void od_quantile(const od_steps *p, od_i64 i) {
    const od_i64 first = i % p->m * p->length, last = p->length - 1;
    const double q = OD_AT(const double, p->given, i / p->m), at = q * (double)last;
    const od_u64 none = 0x7ff8000000000000ULL;
    if (p->length == 0 || !(q >= 0 && q <= 1) || od_is_nan(p->type, p->sorted, first + last)) {
        OD_AT(od_u64, p->values, i) = none;
        return;
    }
    const od_i64 below = (od_i64)at < last ? (od_i64)at : last;
    OD_AT(double, p->values, i) =
        od_between(od_number(p->type, p->sorted, first + below),
                   od_number(p->type, p->sorted, first + (below < last ? below + 1 : last)),
                   at - (double)below);
}

/* ---- bins: m of them, each as wide as all others, the last one with its end ---- */

OD_FN void od_range(const od_steps *p, double *low, double *high) {
    *low = p->least ? OD_AT(const double, p->least, 0) : p->low;
    *high = p->greatest ? OD_AT(const double, p->greatest, 0) : p->high;
    if (*low == *high) *low -= 0.5, *high += 0.5;
}
OD_FN double od_edge(const od_steps *p, double low, double high, od_i64 i) {
    const double m = (double)p->m, wide = (high - low) / m, at = (double)i;
    if (i == 0 || i == p->m) return i ? high : low;
    if (wide - wide == 0) return low + at * wide;
    return low / m * (m - at) + high / m * at; /* their distance is beyond all numbers */
}
OD_FN void od_tell_edge(const od_steps *p, od_i64 i) {
    double low, high;
    od_range(p, &low, &high);
    OD_AT(double, p->values, i) = od_edge(p, low, high, i);
}
/* The last bin that begins at x or before: where bins are narrower than numbers lie apart, several
** have the same edges. */
OD_FN od_i64 od_bin_by_edges(const od_steps *p, double low, double high, double x) {
    od_i64 first = 0, end = p->m; /* edges that lie at or before x */
    while (first < end) {
        const od_i64 middle = first + (end - first) / 2;
        if (od_edge(p, low, high, middle) <= x)
            first = middle + 1;
        else
            end = middle;
    }
    return first > 0 ? first - 1 : 0;
}
/* The bin of number x, as its edges are; -1: none. A range without width, as large numbers that are
** equal give it, is all in the last one. */
OD_FN od_i64 od_bin(const od_steps *p, double low, double high, double x) {
    if (!(x >= low && x <= high) || low - low != 0 || high - high != 0) return -1;
    if (low == high) return p->m - 1;
    const double scale = (high - low) - (high - low) != 0 ? 0.5 : 1;
    const double part = (x * scale - low * scale) / (high * scale - low * scale);
    const double at = part * (double)p->m;
    od_i64 i = at >= (double)p->m ? p->m - 1 : at > 0 ? (od_i64)at : 0;
    if (i > 0 && x < od_edge(p, low, high, i)) {
        i--;
        return i == 0 || x >= od_edge(p, low, high, i) ? i : od_bin_by_edges(p, low, high, x);
    }
    if (i + 1 < p->m && x >= od_edge(p, low, high, i + 1)) {
        i++;
        if (i + 1 < p->m && x >= od_edge(p, low, high, i + 1))
            return od_bin_by_edges(p, low, high, x);
    }
    return i;
}
OD_FN od_i64 od_bin_of(const od_steps *p, double low, double high, od_i64 i) {
    if (!p->whole) return od_bin(p, low, high, od_number(p->type, p->given, i));
    const od_i64 bin = OD_AT(const od_i64, p->given, i);
    return bin >= 0 && bin < p->m ? bin : -1;
}

/* Where the bin of number i begins, in m sorted i64. */
OD_FN void od_start(const od_steps *p, od_i64 i) {
    od_i64 low = 0, high = p->m;
    while (low < high) {
        const od_i64 middle = low + (high - low) / 2;
        if (OD_AT(const od_i64, p->sorted, middle) < i)
            low = middle + 1;
        else
            high = middle;
    }
    OD_AT(od_i64, p->places, i) = low;
}

/* ---- kernels ---- */

#ifdef __CUDACC_RTC__
#define OD_EACH(name, fn)                                                                          \
    extern "C" __global__ void name(const od_steps p) {                                            \
        kt_grid_wait();                                                                            \
        const od_i64 all = (od_i64)gridDim.x * blockDim.x;                                         \
        for (od_i64 i = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += all)          \
            fn(&p, i);                                                                             \
    }
#else
#define OD_EACH(name, fn)                                                                          \
    static void name##_items(const void *params, size_t first, size_t end) {                       \
        const od_steps *p = params;                                                                \
        for (od_i64 i = (od_i64)first; i < (od_i64)end; i++) fn(p, i);                             \
    }                                                                                              \
    static void name(const void *params) {                                                         \
        tidei_share_items((size_t)((const od_steps *)params)->n, TIDEI_SHARE_GRAIN, name##_items,  \
                          params);                                                                 \
    }
#endif
#ifdef __CUDACC_RTC__
/* Elements as they are compared: floats of 32 and 64 bits themselves, of which NaN has to be seen
** to, others by their keys. */
OD_FN od_u32 od_seen(od_type t, unsigned char x) { return od_key_of_element<od_u32>(t, x); }
OD_FN od_u32 od_seen(od_type t, unsigned short x) { return od_key_of_element<od_u32>(t, x); }
OD_FN od_u32 od_seen(od_type t, od_u32 x) { return od_key_of_element<od_u32>(t, x); }
OD_FN od_u64 od_seen(od_type t, od_u64 x) { return od_key_of_element<od_u64>(t, x); }
OD_FN float od_seen(od_type, float x) { return x; }
OD_FN double od_seen(od_type, double x) { return x; }
template <class K> OD_FN bool od_none(od_type t, K bits) {
    return t.kind == OD_FLOAT && od_nan<K>(t, bits);
}
OD_FN bool od_none(od_type, float x) { return x != x; }
OD_FN bool od_none(od_type, double x) { return x != x; }
/* NaN, behind all others, is behind infinity: what is below that or is it comes before. */
template <class V> OD_FN bool od_below_none(V &) { return false; }
OD_FN bool od_below_none(float &v) {
    const bool none = v != v;
    if (none) v = __uint_as_float(0x7f800000u);
    return none;
}
OD_FN bool od_below_none(double &v) {
    const bool none = v != v;
    if (none) v = __longlong_as_double(0x7ff0000000000000LL);
    return none;
}

/* All searches of a thread take the same steps: of n elements left half are, or are not, before the
** place. */
template <class T, bool IN> OD_FN void od_search(const od_steps &p) {
    typedef decltype(od_seen(p.type, T())) seen;
    const T *const sorted = (const T *)p.sorted;
    const od_i64 all = (od_i64)gridDim.x * blockDim.x;
    const bool right = !IN && p.right;
    for (od_i64 first = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; first < p.n;
         first += OD_SEARCHES * all) {
        T given[OD_SEARCHES];
        seen v[OD_SEARCHES];
        bool equal[OD_SEARCHES]; /* what equals v comes before the place */
        od_u32 at[OD_SEARCHES];
#pragma unroll
        for (int u = 0; u < OD_SEARCHES; u++) {
            const od_i64 i = first + u * all;
            given[u] = i < p.n ? OD_AT(const T, p.given, i) : T();
            v[u] = od_seen(p.type, given[u]);
            equal[u] = od_below_none(v[u]) || right;
            at[u] = 0;
        }
        for (od_u32 n = (od_u32)p.m, half; n > 0; n -= half) {
            half = n > 1 ? n / 2 : 1;
#pragma unroll
            for (int u = 0; u < OD_SEARCHES; u++) {
                const seen x = od_seen(p.type, sorted[at[u] + half - 1]);
                if (equal[u] ? x <= v[u] : x < v[u]) at[u] += half;
            }
        }
#pragma unroll
        for (int u = 0; u < OD_SEARCHES; u++) {
            const od_i64 i = first + u * all;
            const bool none = od_none(p.type, given[u]);
            if (i >= p.n) continue;
            if (IN)
                OD_AT(unsigned char, p.values, i) =
                    at[u] < p.m && !none && od_seen(p.type, sorted[at[u]]) == v[u];
            else /* NaN are all alike */
                OD_AT(od_i64, p.places, i) = right && none ? p.m : at[u];
        }
    }
}
/* `one`: an element by itself, where elements have several parts, or are far or apart. */
#define OD_SEARCH(name, one, IN)                                                                   \
    extern "C" __global__ void name(const od_steps p) {                                            \
        kt_grid_wait();                                                                            \
        const bool real = p.type.kind == OD_FLOAT;                                                 \
        if (p.type.parts > 1 || p.step != 1 || p.m >= (od_i64)1 << 31) {                           \
            const od_i64 all = (od_i64)gridDim.x * blockDim.x;                                     \
            for (od_i64 i = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += all)      \
                one(&p, i);                                                                        \
        } else if (p.type.size == 1)                                                               \
            od_search<unsigned char, IN>(p);                                                       \
        else if (p.type.size == 2)                                                                 \
            od_search<unsigned short, IN>(p);                                                      \
        else if (p.type.size == 4 && real)                                                         \
            od_search<float, IN>(p);                                                               \
        else if (p.type.size == 4)                                                                 \
            od_search<od_u32, IN>(p);                                                              \
        else if (real)                                                                             \
            od_search<double, IN>(p);                                                              \
        else                                                                                       \
            od_search<od_u64, IN>(p);                                                              \
    }
#else
#define OD_SEARCH(name, one, IN) OD_EACH(name, one)
#endif
#if WANTS(order_find)
OD_SEARCH(order_find, od_find, false)
#endif
#if WANTS(order_is_in)
OD_SEARCH(order_is_in, od_is_in, true)
#endif
#if WANTS(order_begins)
OD_EACH(order_begins, od_begins)
#endif
#if WANTS(order_tell)
OD_EACH(order_tell, od_tell)
#endif
#if WANTS(order_invert)
OD_EACH(order_invert, od_invert)
#endif
#if WANTS(order_along)
OD_EACH(order_along, od_along)
#endif
#if WANTS(order_quantile)
OD_EACH(order_quantile, od_quantile)
#endif
#if WANTS(order_starts)
OD_EACH(order_starts, od_start)
#endif
#if WANTS(order_edges)
OD_EACH(order_edges, od_tell_edge)
#endif

#ifdef __CUDACC_RTC__
#if WANTS(order_bins)
/* Each block counts by itself first, as often side by side as there is room: many elements of one
** bin would wait for each other. */
extern "C" __global__ void __launch_bounds__(256) order_bins(const od_steps p) {
    kt_grid_wait();
    enum { ROOM = 4096 };
    __shared__ od_u32 counts[ROOM];
    const int parts = p.m > ROOM ? 0 : p.m * 32 > ROOM ? (int)(ROOM / p.m) : 32;
    od_u32 *mine = counts + (parts ? threadIdx.x % parts * (od_u32)p.m : 0);
    double low, high;
    od_range(&p, &low, &high);
    for (int i = threadIdx.x; i < ROOM; i += 256) counts[i] = 0;
    __syncthreads();
    const od_i64 all = (od_i64)gridDim.x * 256;
    for (od_i64 i = (od_i64)blockIdx.x * 256 + threadIdx.x; i < p.n; i += all) {
        const od_i64 bin = od_bin_of(&p, low, high, i);
        if (bin < 0) continue;
        if (parts)
            atomicAdd(&mine[bin], 1u);
        else
            atomicAdd((od_u64 *)p.counts + bin, 1ULL);
    }
    __syncthreads();
    for (int bin = threadIdx.x; parts && bin < p.m; bin += 256) {
        od_u64 sum = 0;
        for (int part = 0; part < parts; part++) sum += counts[part * (int)p.m + bin];
        if (sum) atomicAdd((od_u64 *)p.counts + bin, sum);
    }
}
#endif
#if WANTS(order_weigh)
/* A block a bin: the weights of its elements, which lie together in order, always in the same
** way. */
extern "C" __global__ void __launch_bounds__(256) order_weigh(const od_steps p) {
    kt_grid_wait();
    __shared__ double sums[256];
    const int t = threadIdx.x;
    for (od_i64 bin = blockIdx.x; bin < p.n; bin += gridDim.x) {
        const od_i64 start = OD_AT(const od_i64, p.starts, bin);
        const od_i64 end = OD_AT(const od_i64, p.starts, bin + 1);
        double sum = 0;
        for (od_i64 i = start + t; i < end; i += 256)
            sum += OD_AT(const double, p.given, OD_AT(const od_i64, p.order, i));
        sums[t] = sum;
        for (int half = 128; half; half /= 2) {
            __syncthreads();
            if (t < half) sums[t] += sums[t + half];
        }
        if (t == 0) OD_AT(double, p.values, bin) = sums[0];
        __syncthreads();
    }
}
#endif
#else
/* Of few bins each stretch of elements has counts of its own at first. */
enum { OD_OWN_BINS = 2048 };
static void order_bins_items(const void *params, size_t first, size_t end) {
    const od_steps here = *(const od_steps *)params, *p = &here; /* which no count overwrites */
    od_i64 own[OD_OWN_BINS], *counts = p->m > OD_OWN_BINS ? (od_i64 *)p->counts : own;
    double low, high;
    od_range(p, &low, &high);
    for (od_i64 bin = 0; counts == own && bin < p->m; bin++) own[bin] = 0;
    for (od_i64 i = (od_i64)first; i < (od_i64)end; i++) {
        const od_i64 bin = od_bin_of(p, low, high, i);
        if (bin >= 0) counts[bin]++;
    }
    for (od_i64 bin = 0; counts == own && bin < p->m; bin++)
        if (own[bin])
            __atomic_fetch_add(&OD_AT(od_i64, p->counts, bin), own[bin], __ATOMIC_RELAXED);
}
static void order_bins(const void *params) {
    const od_steps *p = params;
    const size_t n = (size_t)p->n, grain = 4 * TIDEI_SHARE_GRAIN;
    tidei_share_items(n, p->m > OD_OWN_BINS ? n : grain, order_bins_items, p);
}
static void order_weigh_items(const void *params, size_t first, size_t end) {
    const od_steps *p = params;
    for (od_i64 bin = (od_i64)first; bin < (od_i64)end; bin++) {
        double sum = 0;
        for (od_i64 i = OD_AT(od_i64, p->starts, bin); i < OD_AT(od_i64, p->starts, bin + 1); i++)
            sum += OD_AT(double, p->given, OD_AT(od_i64, p->order, i));
        OD_AT(double, p->values, bin) = sum;
    }
}
static void order_weigh(const void *params) {
    const size_t bins = (size_t)((const od_steps *)params)->n;
    tidei_share_items(bins, bins / 64 + 1, order_weigh_items, params);
}
#endif

#endif
