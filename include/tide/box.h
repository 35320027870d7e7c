/* box.h: how tide_map, tide_map_many and tide_map_into box their arguments: macros in C, templates
** in C++. What they do stands in expr.h; nobody has to read this.
**
** In C, TIDE_MAP_ALL(text, v, ...) is three arguments of tide_map_args and its like: the text, an
** array of boxed arguments, and how many there are. */
#ifndef TIDE_BOX_H
#define TIDE_BOX_H

#include <tide/expr.h>

#if defined(__cplusplus)
static inline tide_arg tide_box(tide_array *a) { return tide_arg_array(a); }
/* no pointer but an array's: it would be `true` */
template <class T> tide_arg tide_box(T *) = delete;
static inline tide_arg tide_box(bool v) { return tide_arg_bool(v); }
static inline tide_arg tide_box(int v) { return tide_arg_int(v); }
static inline tide_arg tide_box(long v) { return tide_arg_int(v); }
static inline tide_arg tide_box(long long v) { return tide_arg_int(v); }
static inline tide_arg tide_box(unsigned char v) { return tide_arg_uint(v); }
static inline tide_arg tide_box(unsigned short v) { return tide_arg_uint(v); }
static inline tide_arg tide_box(unsigned v) { return tide_arg_uint(v); }
static inline tide_arg tide_box(unsigned long v) { return tide_arg_uint(v); }
static inline tide_arg tide_box(unsigned long long v) { return tide_arg_uint(v); }
static inline tide_arg tide_box(float v) { return tide_arg_float(static_cast<double>(v)); }
static inline tide_arg tide_box(double v) { return tide_arg_float(v); }
static inline tide_arg tide_box(tide_arg v) { return v; }
template <class... T>
static inline tide_array *tide_map(tide_runtime *rt, const char *text, T... v) {
    const tide_arg args[] = {tide_box(v)..., tide_arg()}; /* no array is of length 0 */
    return tide_map_args(rt, text, args, sizeof...(v));
}
template <class... T>
TIDE_NODISCARD static inline tide_status tide_map_many(tide_runtime *rt, tide_array **outs,
                                                       size_t m, const char *text, T... v) {
    const tide_arg args[] = {tide_box(v)..., tide_arg()};
    return tide_map_many_args(rt, text, args, sizeof...(v), outs, m);
}
template <class... T>
TIDE_NODISCARD static inline tide_status tide_map_into(tide_array *dst, const char *text, T... v) {
    const tide_arg args[] = {tide_box(v)..., tide_arg()};
    return tide_map_into_args(dst, text, args, sizeof...(v));
}
#else
static inline tide_arg tide_box_self(tide_arg v) { return v; }
#define tide_box(v)                                                                                \
    _Generic((v), tide_array *                                                                     \
             : tide_arg_array, _Bool                                                               \
             : tide_arg_bool, char                                                                 \
             : tide_arg_int, signed char                                                           \
             : tide_arg_int, short                                                                 \
             : tide_arg_int, int                                                                   \
             : tide_arg_int, long                                                                  \
             : tide_arg_int, long long                                                             \
             : tide_arg_int, unsigned char                                                         \
             : tide_arg_uint, unsigned short                                                       \
             : tide_arg_uint, unsigned                                                             \
             : tide_arg_uint, unsigned long                                                        \
             : tide_arg_uint, unsigned long long                                                   \
             : tide_arg_uint, float                                                                \
             : tide_arg_float, double                                                              \
             : tide_arg_float, tide_arg                                                            \
             : tide_box_self)(v)
#define TIDE_MAP_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, n,  \
                        ...)                                                                       \
    n
#define TIDE_MAP_COUNT(...)                                                                        \
    TIDE_MAP_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TIDE_MAP_1(a)       tide_box(a)
#define TIDE_MAP_2(a, ...)  tide_box(a), TIDE_MAP_1(__VA_ARGS__)
#define TIDE_MAP_3(a, ...)  tide_box(a), TIDE_MAP_2(__VA_ARGS__)
#define TIDE_MAP_4(a, ...)  tide_box(a), TIDE_MAP_3(__VA_ARGS__)
#define TIDE_MAP_5(a, ...)  tide_box(a), TIDE_MAP_4(__VA_ARGS__)
#define TIDE_MAP_6(a, ...)  tide_box(a), TIDE_MAP_5(__VA_ARGS__)
#define TIDE_MAP_7(a, ...)  tide_box(a), TIDE_MAP_6(__VA_ARGS__)
#define TIDE_MAP_8(a, ...)  tide_box(a), TIDE_MAP_7(__VA_ARGS__)
#define TIDE_MAP_9(a, ...)  tide_box(a), TIDE_MAP_8(__VA_ARGS__)
#define TIDE_MAP_10(a, ...) tide_box(a), TIDE_MAP_9(__VA_ARGS__)
#define TIDE_MAP_11(a, ...) tide_box(a), TIDE_MAP_10(__VA_ARGS__)
#define TIDE_MAP_12(a, ...) tide_box(a), TIDE_MAP_11(__VA_ARGS__)
#define TIDE_MAP_13(a, ...) tide_box(a), TIDE_MAP_12(__VA_ARGS__)
#define TIDE_MAP_14(a, ...) tide_box(a), TIDE_MAP_13(__VA_ARGS__)
#define TIDE_MAP_15(a, ...) tide_box(a), TIDE_MAP_14(__VA_ARGS__)
#define TIDE_MAP_16(a, ...) tide_box(a), TIDE_MAP_15(__VA_ARGS__)
#define TIDE_MAP_CAT_(a, b) a##b
#define TIDE_MAP_CAT(a, b)  TIDE_MAP_CAT_(a, b)
#define TIDE_MAP_BOX(...)   TIDE_MAP_CAT(TIDE_MAP_, TIDE_MAP_COUNT(__VA_ARGS__))(__VA_ARGS__)
/* What follows the first argument: a text alone, one with 1 to 16 arguments, or with too many. C17
** wants something to stand for "..." in each call, so the text is in there too. */
#define TIDE_MAP_MORE_(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,  \
                       _17, _18, _19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31,  \
                       _32, more, ...)                                                             \
    more
#define TIDE_MAP_MORE(...)                                                                         \
    TIDE_MAP_MORE_(__VA_ARGS__, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1,  \
                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
#define TIDE_MAP_TEXT_0(text) (text), NULL, 0
#define TIDE_MAP_TEXT_1(text, ...)                                                                 \
    (text), (const tide_arg[]){TIDE_MAP_BOX(__VA_ARGS__)}, TIDE_MAP_COUNT(__VA_ARGS__)
/* nothing of this name is declared: a compiler's error has it */
#define TIDE_MAP_TEXT_2(...) tide_map_takes_at_most_16_arguments
#define TIDE_MAP_ALL(...)    TIDE_MAP_CAT(TIDE_MAP_TEXT_, TIDE_MAP_MORE(__VA_ARGS__))(__VA_ARGS__)
#define tide_map(rt, ...)    tide_map_args((rt), TIDE_MAP_ALL(__VA_ARGS__))
#define tide_map_many(rt, outs, m, ...)                                                            \
    tide_map_many_args((rt), TIDE_MAP_ALL(__VA_ARGS__), (outs), (m))
#define tide_map_into(dst, ...) tide_map_into_args((dst), TIDE_MAP_ALL(__VA_ARGS__))
#endif
#endif
