/* array.h: making arrays, keeping and dropping them, looking at them, views, and moving data in and
** out.
**
** Arrays are row-major by default, of rank 0 to TIDE_MAX_RANK, with strides in elements (negative
** ones too); dimensions of zero are legal everywhere. A view shares its parent's memory: writes
** through one are seen through the other. Nothing needs to be freed where a tracing collector looks
** after the array; under "refcount" the maker holds one reference (tide_release), or a scope does.
** Every function that makes an array may collect. */
#ifndef TIDE_ARRAY_H
#define TIDE_ARRAY_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- making ---- `shape` has `ndim` entries, each >= 0; it may be NULL when ndim is 0. */
TIDE_API tide_array *tide_empty(tide_runtime *rt, tide_dtype t, int ndim,
                                const int64_t *shape); /* contents undefined */
TIDE_API tide_array *tide_zeros(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
TIDE_API tide_array *tide_ones(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
/* `value` must be a number that t represents: TIDE_E_DTYPE otherwise (a fraction for an integer
** type, 300 for u8). */
TIDE_API tide_array *tide_full(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                               tide_arg value);
/* ceil((stop-start)/step) elements start + i*step, computed in double. step != 0. Integer t: the
** three must be integers. */
TIDE_API tide_array *tide_arange(tide_runtime *rt, tide_dtype t, double start, double stop,
                                 double step);
/* Copies row-major data from host memory, which may be reused when the call returns. Bool: any byte
** but 0 becomes 1. */
TIDE_API tide_array *tide_from_host(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                                    const void *data);
/* Copies to host memory in row-major order, after all work queued on the array; blocks. `bytes`
** must be the array's. */
TIDE_API TIDE_NODISCARD tide_status tide_to_host(tide_array *a, void *dst, size_t bytes);
/* Reads the one element of a one-element array; blocks. Bool comes as TIDE_ARG_BOOL and signed
** integers as TIDE_ARG_INT (both in value.i), unsigned ones as TIDE_ARG_UINT, floats
** TIDE_ARG_FLOAT, complex TIDE_ARG_COMPLEX. */
TIDE_API TIDE_NODISCARD tide_status tide_item(tide_array *a, tide_arg *out);
/* The same as a double; NaN on failure, which a complex element is (TIDE_E_DTYPE). */
TIDE_API double tide_item_f64(tide_array *a);

/* NumPy .npy files, format 1.0 to 3.0 in, 1.0 out; any byte order, C or Fortran order in. bf16 has
** no .npy form. A regular file is written in its folder under another name (.tidepool-N.part) and
** renamed: a failure leaves the one that was there, and what a killed writer left goes with the
** next write. */
TIDE_API tide_array *tide_npy_read(tide_runtime *rt, const char *path);
TIDE_API TIDE_NODISCARD tide_status tide_npy_write(tide_array *a, const char *path);

/* ---- keeping and dropping ---- */
/* Returns the memory without waiting for a collector. Idempotent; while the array is held, later
** use is TIDE_E_FREED. Views made from it keep the memory. Does no device work, takes no lock and
** no memory: legal in a finalizer, and in a signal's handler. NULL is legal. */
TIDE_API void tide_free(tide_array *a);
/* Adds a reference that keeps the array under every collector; returns it. */
TIDE_API tide_array *tide_retain(tide_array *a);
/* Takes one back. Under "refcount" the last one ends the array: `a` must not be used again. Legal
** in a finalizer; in a signal's handler too, but not on an array of "boehm": it takes a lock. */
TIDE_API void tide_release(tide_array *a);
/* Arrays that this thread makes under reference counting (the collector "refcount", or a foreign
** one) between begin and end are released at end, but those it retained or kept. Scopes nest; end
** closes the innermost; a thread's end closes all. Without effect on arrays of "boehm". */
TIDE_API TIDE_NODISCARD tide_status tide_scope_begin(tide_runtime *rt);
TIDE_API TIDE_NODISCARD tide_status tide_scope_end(tide_runtime *rt);
/* Moves it to the next outer scope (or to the caller); returns it. */
TIDE_API tide_array *tide_scope_keep(tide_array *a);
/* Calls fn(user) once the array is dead and its memory returned, from a safe point of some thread
** (or from tide_close). It may drop arrays and make none. Several may be attached; they run in the
** order of attachment. One that is left by longjmp has had its turn (docs/embedding.md). */
TIDE_API TIDE_NODISCARD tide_status tide_array_on_death(tide_array *a, void (*fn)(void *user),
                                                        void *user);

/* ---- looking ---- On a NULL or freed array: 0, -1 or NULL with the error set. */
TIDE_API tide_runtime *tide_array_runtime(tide_array *a);
TIDE_API tide_dtype tide_array_dtype(tide_array *a); /* -1 on failure */
TIDE_API int tide_array_ndim(tide_array *a);         /* -1 on failure */
/* axis may count from the end; -1 on failure */
TIDE_API int64_t tide_array_dim(tide_array *a, int axis);
TIDE_API int64_t tide_array_size(tide_array *a);             /* number of elements; -1 on failure */
TIDE_API int64_t tide_array_stride(tide_array *a, int axis); /* in elements; 0 on failure */
TIDE_API int tide_array_is_contiguous(tide_array *a);        /* row-major without gaps */
TIDE_API int tide_array_is_freed(tide_array *a);
/* NumPy-like text, summarised above 1000 elements. Returns the whole length like snprintf; 0 on
** failure. Blocks. */
TIDE_API size_t tide_array_text(tide_array *a, char *buf, size_t cap);

/* ---- views ---- share memory with `a`; never copy, but where it says so. */
#define TIDE_NONE INT64_MIN /* "not given" in a range */
typedef struct tide_range {
    int64_t start, stop,
        /* as in Python's start:stop:step, TIDE_NONE for a part not given, clipped the same way */
        step;
    int32_t kind; /* TIDE_RANGE_* */
    int32_t reserved;
} tide_range;
enum {
    TIDE_RANGE_SLICE = 0,
    TIDE_RANGE_INDEX = 1 /* `start`; drops the axis */,
    TIDE_RANGE_NEWAXIS = 2,
    TIDE_RANGE_ELLIPSIS = 3
};
TIDE_API tide_array *tide_slice_ranges(tide_array *a, size_t n, const tide_range *ranges);
/* The same from text: "1:3, ::-1, 0, ..., newaxis". */
TIDE_API tide_array *tide_slice(tide_array *a, const char *text);
TIDE_API tide_array *tide_transpose(tide_array *a, const int *perm); /* perm NULL: axes reversed */
/* One entry may be -1. A view where strides allow it, else a copy. */
TIDE_API tide_array *tide_reshape(tide_array *a, int ndim, const int64_t *shape);
/* Stretches axes of length 1, and adds axes in front. A shape of 2^63 bytes or more is
** TIDE_E_SHAPE. */
TIDE_API tide_array *tide_broadcast_to(tide_array *a, int ndim, const int64_t *shape);
TIDE_API tide_array *tide_expand_dims(tide_array *a, int axis);
TIDE_API tide_array *tide_squeeze(tide_array *a, int axis); /* the axis must have length 1 */

/* ---- copies ---- */
TIDE_API tide_array *tide_copy(tide_array *a); /* fresh and row-major, on the thread's device */
TIDE_API tide_array *
tide_contiguous(tide_array *a); /* `a` itself as a new view where it is row-major, else a copy */
/* Casts. Float to integer truncates towards zero, saturates, NaN gives 0; anything to bool is "!=
** 0"; complex to real is TIDE_E_DTYPE; f64 to f16, bf16, f32 rounds to nearest even. */
TIDE_API tide_array *tide_cast(tide_array *a, tide_dtype t);
/* Writes src into dst (a view, usually), broadcasting src, and casting it within its kind or to a
** wider one (bool < unsigned < signed integers < floats < complex): other casts are TIDE_E_DTYPE
** (tide_cast first), and a stretched dst (tide_broadcast_to) is TIDE_E_INVALID. Overlapping ones
** behave as if src were copied first. */
TIDE_API TIDE_NODISCARD tide_status tide_assign(tide_array *dst, tide_array *src);
/* value as in tide_full */
TIDE_API TIDE_NODISCARD tide_status tide_fill(tide_array *dst, tide_arg value);
/* on = 0: from now on uses of the array's memory, by it and all views on it, wait for no use on
** another stream that comes after this call: the caller orders them (tide_synchronize, or by what
** they compute). Work on another device, a copy that goes there among it, is on another stream. The
** host's views (tide_host_view_begin) wait as ever. What was queued before is still waited for, and the
** memory is not used for anything else before all of it is over. on = 1 (as at first): later uses
** wait for all earlier ones again. TIDE_E_HOST_NOMEM, and nothing has changed. Does not collect. */
TIDE_API TIDE_NODISCARD tide_status tide_array_set_ordered(tide_array *a, int on);
/* Sets each byte of the elements to `value`, as memset does: of any type, of any view (and of
** nothing that lies between a view's elements). Bool: any byte but 0 becomes 1. Queued on the
** current stream as tide_fill is; returns without waiting. */
TIDE_API TIDE_NODISCARD tide_status tide_memset(tide_array *dst, unsigned char value);
/* Elements of `a` along `axis` at integer `indices` (any rank: its shape replaces the axis).
** Negative ones count from the end. Indices are looked at on the device: one out of range reads as
** the nearest valid one, and the next sync point (tide_to_host, tide_item, tide_array_text,
** tide_synchronize) fails once with TIDE_E_BOUNDS: its message names tide_take, the index that was
** found first, and how many elements there are. At tide_close it is a warning in the log. */
TIDE_API tide_array *tide_take(tide_array *a, tide_array *indices, int axis);
/* Joins n >= 1 arrays along `axis`; other dimensions must agree; dtypes promote. */
TIDE_API tide_array *tide_concat(tide_array *const *arrays, size_t n, int axis);

#if defined(__cplusplus)
}
#endif
#endif
