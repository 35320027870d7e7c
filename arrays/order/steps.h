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
    int levels;       /* of the tree of a search (order_find_by_tree) */
    double low, high; /* of all bins; NaN: they are at least and greatest */
} od_steps;

/* What a search does step by step waits for memory, so a thread of a device has several. */
enum { OD_SEARCHES = 4 };
/* Kernels that prepare something for a whole multiprocessor have one block there, of so many
** threads, and so many bytes of it. */
enum { OD_LARGE_BLOCK = 1024, OD_TREE_BYTES = 32768, OD_BIN_BYTES = 49152 };

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

/* The upper levels of a search: a tree of every each-th element, of which node k has the nodes 2k
** and 2k + 1 below it. Its levels lie one behind the other, so that few lanes of a warp want the
** same bank. */
template <class T, class SEEN> OD_FN void od_plant(const od_steps &p, SEEN *tree, od_u32 each) {
    const T *const sorted = (const T *)p.sorted;
    const od_u32 m = (od_u32)p.m;
    for (int node = 1 + (int)threadIdx.x; node < 1 << p.levels; node += (int)blockDim.x) {
        const int level = 31 - __clz(node), in_level = node - (1 << level);
        const od_u32 end = (od_u32)((2 * in_level + 1) << (p.levels - 1 - level)) * each;
        tree[node] = od_seen(p.type, sorted[(end < m ? end : m) - 1]);
    }
    __syncthreads();
}

/* All searches of a thread take the same steps: of n elements left half are, or are not, before the
** place. With a tree its levels come first, and say which `each` elements are left, of which the
** last one was in it. */
template <class T, bool IN, bool TREE> OD_FN void od_search(const od_steps &p, void *room) {
    typedef decltype(od_seen(p.type, T())) seen;
    const T *const sorted = (const T *)p.sorted;
    seen *const tree = (seen *)room;
    const od_i64 all = (od_i64)gridDim.x * blockDim.x;
    const bool right = !IN && p.right;
    const od_u32 m = (od_u32)p.m, nodes = 1u << p.levels, each = (m + nodes - 1) >> p.levels;
    if (TREE) od_plant<T>(p, tree, each);
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
            at[u] = TREE;
        }
        for (int level = 0; TREE && level < p.levels; level++) {
#pragma unroll
            for (int u = 0; u < OD_SEARCHES; u++) {
                const seen x = tree[at[u]];
                at[u] = 2 * at[u] + (equal[u] ? x <= v[u] : x < v[u]);
            }
        }
#pragma unroll
        for (int u = 0; TREE && u < OD_SEARCHES; u++) {
            at[u] = (at[u] - nodes) * each;
            if (at[u] > m - (each - 1)) at[u] = m - (each - 1);
        }
        for (od_u32 n = TREE ? each - 1 : m, half; n > 0; n -= half) {
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
                    at[u] < m && !none && od_seen(p.type, sorted[at[u]]) == v[u];
            else /* NaN are all alike */
                OD_AT(od_i64, p.places, i) = right && none ? p.m : at[u];
        }
    }
}
template <bool IN, bool TREE> OD_FN void od_search_all(const od_steps &p, void *room) {
    const bool real = p.type.kind == OD_FLOAT;
    if (p.type.size == 1)
        od_search<unsigned char, IN, TREE>(p, room);
    else if (p.type.size == 2)
        od_search<unsigned short, IN, TREE>(p, room);
    else if (p.type.size == 4 && real)
        od_search<float, IN, TREE>(p, room);
    else if (p.type.size == 4)
        od_search<od_u32, IN, TREE>(p, room);
    else if (real)
        od_search<double, IN, TREE>(p, room);
    else
        od_search<od_u64, IN, TREE>(p, room);
}
/* `one`: an element by itself, where elements have several parts, or are far or apart. */
#define OD_SEARCH(name, one, IN)                                                                   \
    extern "C" __global__ void name(const __grid_constant__ od_steps p) {                          \
        kt_grid_wait();                                                                            \
        if (p.type.parts > 1 || p.step != 1 || p.m >= (od_i64)1 << 31) {                           \
            const od_i64 all = (od_i64)gridDim.x * blockDim.x;                                     \
            for (od_i64 i = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += all)      \
                one(&p, i);                                                                        \
        } else                                                                                     \
            od_search_all<IN, false>(p, nullptr);                                                  \
    }
/* Of many values, each block of which is worth a tree of its own. */
#define OD_SEARCH_BY_TREE(name, IN)                                                                \
    extern "C" __global__ void __launch_bounds__(OD_LARGE_BLOCK)                                   \
        name(const __grid_constant__ od_steps p) {                                                 \
        kt_grid_wait();                                                                            \
        __shared__ __align__(16) unsigned char tree[OD_TREE_BYTES];                                \
        od_search_all<IN, true>(p, tree);                                                          \
    }
#if WANTS(order_find_by_tree)
OD_SEARCH_BY_TREE(order_find_by_tree, false)
#endif
#if WANTS(order_is_in_by_tree)
OD_SEARCH_BY_TREE(order_is_in_by_tree, true)
#endif
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
#ifdef __CUDACC_RTC__
/* Of sorted elements those that begin differ from the one before; NaN does from all. */
template <class T> OD_FN void od_begin_each(const od_steps &p) {
    const T *const sorted = (const T *)p.sorted;
    const od_i64 all = (od_i64)gridDim.x * blockDim.x;
    for (od_i64 i = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += all)
        OD_AT(unsigned char, p.values, i) = i == 0 || sorted[i] != sorted[i - 1];
}
extern "C" __global__ void order_begins(const od_steps p) {
    kt_grid_wait();
    const bool real = p.type.kind == OD_FLOAT;
    if (p.type.parts == 1 && p.type.size == 4 && real)
        od_begin_each<float>(p);
    else if (p.type.parts == 1 && p.type.size == 8 && real)
        od_begin_each<double>(p);
    else if (p.type.size == 4 && !real)
        od_begin_each<od_u32>(p);
    else if (p.type.size == 8 && !real)
        od_begin_each<od_u64>(p);
    else {
        const od_i64 all = (od_i64)gridDim.x * blockDim.x;
        for (od_i64 i = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += all)
            od_begins(&p, i);
    }
}
#else
OD_EACH(order_begins, od_begins)
#endif
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
/* What is the same for all numbers where bins are as wide as numbers tell apart. */
typedef struct od_scale {
    double low, high, wide, bins; /* wide: a bin; bins: how many come to 1 */
    bool plain;                   /* else each number is looked up by itself */
} od_scale;
OD_FN od_scale od_scale_of(const od_steps &p) {
    od_scale s;
    od_range(&p, &s.low, &s.high);
    s.wide = (s.high - s.low) / (double)p.m;
    s.bins = (double)p.m / (s.high - s.low);
    s.plain =
        s.low < s.high && s.wide - s.wide == 0 && s.bins - s.bins == 0 && p.m < (od_i64)1 << 31;
    return s;
}
/* Called rather than written out for each element: it is seldom wanted. */
static __device__ __noinline__ od_i64 od_bin_apart(const od_steps &p, double low, double high,
                                                   double x) {
    return od_bin(&p, low, high, x);
}
/* As od_bin: the bin is what the edges on both sides say, whatever it was guessed by. */
OD_FN od_i64 od_bin_by_scale(const od_steps &p, const od_scale &s, double x) {
    if (!(x >= s.low && x <= s.high)) return -1;
    if (s.plain) {
        const int last = (int)p.m - 1;
        int i = (int)((x - s.low) * s.bins);
        if (i > last) i = last;
        const double at = (double)i;
        if (x >= s.low + at * s.wide && (i == last || x < s.low + (at + 1) * s.wide)) return i;
    }
    return od_bin_apart(p, s.low, s.high, x);
}
template <class T> OD_FN double od_number_in(od_type t, T bits) { return od_number_of(t, bits); }
OD_FN double od_number_in(od_type, float x) { return x; }
OD_FN double od_number_in(od_type, double x) { return x; }

/* Calls count(bin) for each element of type T. Several are read before one is looked at. */
template <class T, bool WHOLE, class COUNT> OD_FN void od_bin_each(const od_steps &p, COUNT count) {
    enum { AHEAD = 4 };
    od_scale scale;
    if (!WHOLE) scale = od_scale_of(p);
    const od_i64 all = (od_i64)gridDim.x * blockDim.x;
    for (od_i64 first = (od_i64)blockIdx.x * blockDim.x + threadIdx.x; first < p.n;
         first += AHEAD * all) {
        T given[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            given[u] = first + u * all < p.n ? OD_AT(const T, p.given, first + u * all) : T();
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (first + u * all >= p.n) break;
            if (WHOLE) {
                if ((od_u64)given[u] < (od_u64)p.m) count((od_i64)given[u]);
            } else {
                const od_i64 bin = od_bin_by_scale(p, scale, od_number_in(p.type, given[u]));
                if (bin >= 0) count(bin);
            }
        }
    }
}
template <class COUNT> OD_FN void od_bin_all(const od_steps &p, COUNT count) {
    const bool real = p.type.kind == OD_FLOAT;
    if (p.whole)
        od_bin_each<od_u64, true>(p, count);
    else if (p.type.size == 1)
        od_bin_each<unsigned char, false>(p, count);
    else if (p.type.size == 2)
        od_bin_each<unsigned short, false>(p, count);
    else if (p.type.size == 4 && real)
        od_bin_each<float, false>(p, count);
    else if (p.type.size == 4)
        od_bin_each<od_u32, false>(p, count);
    else if (real)
        od_bin_each<double, false>(p, count);
    else
        od_bin_each<od_u64, false>(p, count);
}
#if WANTS(order_bins)
extern "C" __global__ void __launch_bounds__(256) order_bins(const __grid_constant__ od_steps p) {
    kt_grid_wait();
    od_u64 *const counts = (od_u64 *)p.counts;
    od_bin_all(p, [=](od_i64 bin) { atomicAdd(counts + bin, 1ULL); });
}
#endif
#if WANTS(order_bins_here)
/* Each block counts by itself first, of few bins as often side by side as there is room: lanes of a
** warp would wait for each other. */
extern "C" __global__ void __launch_bounds__(OD_LARGE_BLOCK)
    order_bins_here(const __grid_constant__ od_steps p) {
    kt_grid_wait();
    __shared__ od_u32 counts[OD_BIN_BYTES / 4];
    const int bins = (int)p.m, t = (int)threadIdx.x;
    int parts = 32;
    while (parts * bins > OD_BIN_BYTES / 4) parts /= 2;
    for (int i = t; i < bins * parts; i += OD_LARGE_BLOCK) counts[i] = 0;
    __syncthreads();
    od_u32 *const mine = counts + t % parts;
    od_bin_all(p, [=](od_i64 bin) { atomicAdd(&mine[(int)bin * parts], 1u); });
    __syncthreads();
    /* No two blocks begin with the same bin, nor neighbours among threads with the same part. */
    const int from = (int)((od_i64)bins * blockIdx.x / gridDim.x);
    for (int i = t; i < bins; i += OD_LARGE_BLOCK) {
        const int bin = from + i < bins ? from + i : from + i - bins;
        od_u32 sum = 0;
        for (int part = 0; part < parts; part++) sum += counts[bin * parts + (part + t) % parts];
        if (sum) atomicAdd((od_u64 *)p.counts + bin, (od_u64)sum);
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
