/* array.h: making arrays, keeping and dropping them, looking at them, views, and moving data in and
** out.
**
** Arrays are row-major by default, of rank 0 to TIDE_MAX_RANK, with strides in elements (negative
** ones too); dimensions of zero are legal everywhere. A view shares its parent's memory: writes
** through one are seen through the other. Nothing needs to be freed where a tracing collector looks
** after the array; under "refcount" the maker holds one reference (tide_release), or a scope does.
** Under "boehm" an array lives while a pointer to it is on a thread's stack, in a register or in
** static data; a pointer that is in malloc's memory alone keeps nothing alive: tide_retain the
** array.
**
** What holds for all of them, and is not said again below:
** - An array that is made has memory of the runtime's default kind (TIDE_DEFAULT_MEMORY) on the
**   calling thread's device and is written on the thread's current stream. A result that is not
**   there after all is NULL, with the reason in the error record: TIDE_E_NOMEM with the report
**   where device memory is exhausted, TIDE_E_HOST_NOMEM where host memory is.
** - Work is queued after what wrote its operands, and where it writes after what reads them, on
**   whatever stream. Nobody waits for it before its elements are asked for.
** - A NULL array is told of as tide/base.h says; one that was freed is TIDE_E_FREED, one whose
**   runtime was closed TIDE_E_CLOSED, one of another runtime than the call's other arrays
**   TIDE_E_INVALID. */
#ifndef TIDE_ARRAY_H
#define TIDE_ARRAY_H

#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- making ----
** `shape` has `ndim` entries, 0 to TIDE_MAX_RANK of them, each >= 0 (else TIDE_E_SHAPE); it may be
** NULL when ndim is 0. A shape of 2^63 bytes or more is TIDE_E_NOMEM; no element type `t`, or no
** `shape`, TIDE_E_INVALID. */

/* An array whose elements have no value yet: to be written before they are read. May collect.
** Never blocks. */
TIDE_API tide_array *tide_empty(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
/* An array of zeros (bool: false). May collect. Never blocks. */
TIDE_API tide_array *tide_zeros(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
/* An array of ones (bool: true). May collect. Never blocks. */
TIDE_API tide_array *tide_ones(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape);
/* An array whose every element is `value`, which must be a number that t represents: TIDE_E_DTYPE
** otherwise (a fraction for an integer type, 300 for u8, a complex number for a real type), and
** TIDE_E_INVALID where it is an array. Floats are rounded to nearest. May collect. Never blocks. */
TIDE_API tide_array *tide_full(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                               tide_arg value);
/* The ceil((stop-start)/step) elements start + i*step, none where that is negative: rank 1. Floats
** are computed in f64. Finite numbers, step != 0, and an element type: else TIDE_E_INVALID. Of an
** integer t the three must be integers, and the first and last element numbers of t: else
** TIDE_E_DTYPE, as is bool. May collect. Never blocks. */
TIDE_API tide_array *tide_arange(tide_runtime *rt, tide_dtype t, double start, double stop,
                                 double step);
/* A copy of row-major elements in host memory, which is the caller's again when the call returns.
** Bool: any byte but 0 becomes 1. `data` may be NULL for no elements, else that is TIDE_E_INVALID.
** More bytes than the device copies aside (64 KiB on a host device, 1 MiB on a GPU) wait for the
** stream's work so far. May collect. May block. */
TIDE_API tide_array *tide_from_host(tide_runtime *rt, tide_dtype t, int ndim, const int64_t *shape,
                                    const void *data);

/* ---- to the host ---- */

/* Copies all elements to host memory in row-major order. `bytes` must be what they take, and `dst`
** have so many: else TIDE_E_INVALID. A sync point: an index that tide_take found out of range is
** told here (TIDE_E_BOUNDS). On failure `dst` may have been written in part. Several MiB of a GPU
** go in pieces: of what another thread writes meanwhile some may have come. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_to_host(tide_array *a, void *dst, size_t bytes);
/* Reads the one element of an array that has one, of any rank; else TIDE_E_SHAPE. Bool comes as
** TIDE_ARG_BOOL and signed integers as TIDE_ARG_INT (both in value.i), unsigned ones as
** TIDE_ARG_UINT, floats TIDE_ARG_FLOAT, complex TIDE_ARG_COMPLEX. A sync point as tide_to_host. May
** collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_item(tide_array *a, tide_arg *out);
/* As tide_item, as a double, to which 64-bit integers are rounded; NaN on failure, which a complex
** element is (TIDE_E_DTYPE). May collect. Blocks. */
TIDE_API double tide_item_f64(tide_array *a);

/* ---- NumPy's files ---- */

/* The array of a NumPy .npy file, format 1.0 to 3.0, any byte order, C or Fortran order: one in
** Fortran order is a view whose strides say so. A file that cannot be read is TIDE_E_IO, one that
** is malformed, shorter than it says, or of types that there are not here TIDE_E_FORMAT. Waits as
** tide_from_host does. May collect. May block. */
TIDE_API tide_array *tide_npy_read(tide_runtime *rt, const char *path);
/* Writes a .npy file, format 1.0, in C order, little endian. bf16 has no such form: TIDE_E_DTYPE. A
** regular file is written in its folder under another name (.tidepool-N.part) and renamed: a
** failure (TIDE_E_IO) leaves the one that was there, and what a killed writer left goes with the
** next write. Pipes and devices are written as they are. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_npy_write(tide_array *a, const char *path);

/* ---- keeping and dropping ---- */

/* Ends the array and gives its memory back without waiting for a collector; queued work on it is
** done all the same. Idempotent; while the array is held, later use is TIDE_E_FREED. Views made
** from it keep the memory. The reference that its maker holds under "refcount" is not given back by
** this. Does no device work, takes no lock and no memory: legal in a finalizer, in a signal's
** handler, and in a fork's child. NULL is legal. Never collects. Never blocks. */
TIDE_API void tide_free(tide_array *a);
/* Adds a reference, which keeps the array under every collector; returns the same `a`, or NULL on
** failure. On an array of "boehm" bdwgc may collect, for a word in its heap. May collect. Never
** blocks. */
TIDE_API tide_array *tide_retain(tide_array *a);
/* Takes a reference back. Under "refcount" the last one ends the array: `a` must not be used again.
** One too many, while the array is held otherwise, sets TIDE_E_INVALID. Legal in a finalizer, and
** after tide_close; in a signal's handler too, but not on an array of "boehm": it takes a lock.
** NULL is legal. Never collects. Never blocks. */
TIDE_API void tide_release(tide_array *a);
/* Has fn(user) called once the array is dead and its memory returned, from a safe point of some
** thread (or from tide_close). It may drop arrays and make none. Several may be given; they run in
** the order in which they were. One that is left by longjmp has had its turn (docs/embedding.md).
** `user` stays the caller's. fn NULL is TIDE_E_INVALID. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_array_on_death(tide_array *a, void (*fn)(void *user),
                                                        void *user);

/* ---- scopes ----
** Arrays that a thread makes under reference counting (the collector "refcount", or a foreign one)
** between begin and end of a scope are released at its end, but those it retained or kept. Scopes
** nest, and are their thread's and their runtime's own; a thread's end, and tide_thread_detach, end
** all. A callback ends none that was begun outside of it: that one may hold what the calls below
** the callback are making. Without effect on arrays of "boehm". */

/* Begins a scope inside the thread's innermost one. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scope_begin(tide_runtime *rt);
/* Ends the thread's innermost scope: the references that it holds are given back, the newest first.
** TIDE_E_INVALID where none is open. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scope_end(tide_runtime *rt);
/* How many scopes the calling thread has open in this runtime, those that were begun inside
** callbacks among them; -1 on failure. Never collects. Never blocks. */
TIDE_API int tide_scope_depth(tide_runtime *rt);
/* Ends the calling thread's innermost scopes until `depth` are left, as tide_scope_end ends one:
** for an interpreter whose error left calls, and the scopes that these had begun, by longjmp or as
** an exception. It asks for tide_scope_depth before, and calls this where the error is caught.
** Callbacks that were left on the way are no error of this call (of any other they are, once:
** docs/embedding.md): what had been begun below them is undone first, and the log says so. A depth
** that is negative, or more than are open, is TIDE_E_INVALID and ends none. Never collects. Never
** blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_scope_unwind(tide_runtime *rt, int depth);
/* Moves an array of one of the thread's scopes to the next outer one, or of the outermost to the
** caller, who then holds its reference; of an array that none of them holds nothing changes.
** Returns the same `a`; NULL on failure, and nothing has changed. Never collects. Never blocks. */
TIDE_API tide_array *tide_scope_keep(tide_array *a);

/* ---- looking ---- These ask the array's record alone, and no device. */

/* The runtime that the array belongs to: borrowed; NULL on failure. Never collects. Never
** blocks. */
TIDE_API tide_runtime *tide_array_runtime(tide_array *a);
/* The element type; -1 on failure. Never collects. Never blocks. */
TIDE_API tide_dtype tide_array_dtype(tide_array *a);
/* The number of dimensions, 0 to TIDE_MAX_RANK; -1 on failure. Never collects. Never blocks. */
TIDE_API int tide_array_ndim(tide_array *a);
/* The length of an axis, which counts from the end where it is negative; -1 on failure:
** TIDE_E_BOUNDS of an axis that there is not. Never collects. Never blocks. */
TIDE_API int64_t tide_array_dim(tide_array *a, int axis);
/* The number of elements; -1 on failure. Never collects. Never blocks. */
TIDE_API int64_t tide_array_size(tide_array *a);
/* The elements from one to the next along an axis, which counts as in tide_array_dim; it may be
** negative, or 0, as it is on failure (tide_error_clear before tells them apart). Never collects.
** Never blocks. */
TIDE_API int64_t tide_array_stride(tide_array *a, int axis);
/* 1 where the elements lie in row-major order without gaps, else 0, as on failure. Never collects.
** Never blocks. */
TIDE_API int tide_array_is_contiguous(tide_array *a);
/* 1 where the array was freed (tide_free, its runtime's close), else 0, as on failure, which only a
** NULL array is. Never collects. Never blocks. */
TIDE_API int tide_array_is_freed(tide_array *a);

/* ---- printing ---- */

/* The array as text, as NumPy prints it, summarised above 1000 elements: tide_array_text_with's
** defaults. Writes at most `cap` bytes with the terminating zero, and returns the whole length
** without it, like snprintf; `buf` may be NULL, which counts as `cap` 0. 0 on failure. A sync point
** as tide_to_host. May collect. Blocks. */
TIDE_API size_t tide_array_text(tide_array *a, char *buf, size_t cap);

/* What NumPy's set_printoptions has, with its defaults: a field of 0 is the default. */
typedef struct tide_print_options {
    size_t struct_size; /* set by the caller to sizeof(tide_print_options) */
    int precision;      /* digits after the point, 1 to 100; 0: 8; TIDE_PRINT_NO_DIGITS: none */
    int float_mode;     /* TIDE_PRINT_*: how many of them are shown */
    int64_t threshold;  /* the most elements that are shown in full; 0: 1000; INT64_MAX: any */
    int edge_items;     /* elements at each end of an axis that a summary shows; 0: 3 */
    int line_width;     /* columns, after which rows wrap; 0: 75 */
    /* 1: small numbers, and numbers far apart, are not shown with exponents; 0: they are */
    int suppress_small;
} tide_print_options;
#define TIDE_PRINT_NO_DIGITS (-1)
enum {
    /* as many as tell the number from its neighbours, at most precision */
    TIDE_PRINT_MAXPREC = 0,
    /* of all numbers as many as the one that needs most of those */
    TIDE_PRINT_MAXPREC_EQUAL = 1,
    TIDE_PRINT_FIXED = 2, /* precision */
    /* as many as tell the number from its neighbours, whatever precision is */
    TIDE_PRINT_UNIQUE = 3
};
/* tide_array_text with options: NULL, or a field of 0, is the default. They are NumPy's (floatmode,
** edgeitems, linewidth, suppress): a column of floats is shown with exponents where its largest
** magnitude is 1e8 or more (f32: 1e6, f16: 1e3, bf16: 1e2), and unless suppress_small also where
** its smallest is below 1e-4, or less than a thousandth of the largest. An array of rank 0 is its
** element in full, whatever the options. A negative field (but precision's one), one beyond what is
** said there, or a float_mode that there is not is TIDE_E_INVALID, naming the field; 0 on
** failure. May collect. Blocks. */
TIDE_API size_t tide_array_text_with(tide_array *a, const tide_print_options *options, char *buf,
                                     size_t cap);

/* ---- views ----
** They share memory with `a`, which may be dropped before them, and queue no work; what copies says
** so. A view has a reference of its own, as any array that is made. */

#define TIDE_NONE INT64_MIN /* "not given" in a range */
/* What a slice does with one axis, by `kind`. */
typedef struct tide_range {
    /* as in Python's start:stop:step, TIDE_NONE for a part not given, clipped the same way */
    int64_t start, stop, step;
    int32_t kind; /* TIDE_RANGE_* */
    int32_t reserved;
} tide_range;
enum {
    TIDE_RANGE_SLICE = 0,
    TIDE_RANGE_INDEX = 1 /* `start`; drops the axis */,
    TIDE_RANGE_NEWAXIS = 2,
    TIDE_RANGE_ELLIPSIS = 3
};
/* The range ":": the whole axis. Never collects. Never blocks. */
TIDE_API tide_range tide_range_all(void);
/* The range start:stop:step; TIDE_NONE for a part not given. A step of 0 is refused where the range
** is used. Never collects. Never blocks. */
TIDE_API tide_range tide_range_slice(int64_t start, int64_t stop, int64_t step);
/* The one place `i` of an axis, from its end where it is negative, which drops the axis. Never
** collects. Never blocks. */
TIDE_API tide_range tide_range_index(int64_t i);
/* A new axis of length 1. Never collects. Never blocks. */
TIDE_API tide_range tide_range_newaxis(void);
/* "...": all axes that the other ranges do not take, in full. Never collects. Never blocks. */
TIDE_API tide_range tide_range_ellipsis(void);
/* The view that n ranges give, for the axes in order; axes beyond them stay whole, as behind an
** ellipsis. A bad kind, a step of 0, or a second ellipsis is TIDE_E_INVALID, an index out of range
** or more ranges than axes TIDE_E_BOUNDS, more than TIDE_MAX_RANK dimensions TIDE_E_SHAPE. May
** collect. Never blocks. */
TIDE_API tide_array *tide_slice_ranges(tide_array *a, size_t n, const tide_range *ranges);
/* tide_slice_ranges by text, ranges separated by commas: "1:3, ::-1, 0, ..., newaxis" ("None" is a
** new axis too). A malformed one, or one of more than 32 ranges, is TIDE_E_PARSE and points at the
** column. May collect. Never blocks. */
TIDE_API tide_array *tide_slice(tide_array *a, const char *text);
/* tide_slice of a text that printf's format `fmt` makes: tide_slicef(a, "%d:%d, ::%" PRId64, i, j,
** k). The compiler checks the arguments. Written in the C locale, at whatever length. Errors are
** tide_slice's, of the text that was made; a format that cannot be written is TIDE_E_INVALID. May
** collect. Never blocks. */
TIDE_API tide_array *tide_slicef(tide_array *a, const char *fmt, ...) TIDE_PRINTF(2, 3);
/* The view whose axis i is the axis perm[i] of `a`, each once, from the end where negative; `perm`
** has as many entries as `a` axes. NULL: the axes reversed. An axis that there is not is
** TIDE_E_BOUNDS, one that stands twice TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_transpose(tide_array *a, const int *perm);
/* The elements in row-major order in another shape of as many; one entry may be -1 and is what
** remains. A view where strides give that, else a fresh copy in the kind of memory that `a` has. A
** shape that does not fit is TIDE_E_SHAPE, none TIDE_E_INVALID. May collect. Never blocks. */
TIDE_API tide_array *tide_reshape(tide_array *a, int ndim, const int64_t *shape);
/* The view in which axes of length 1 are stretched to `shape`, and axes added in front, with
** strides of 0: several elements lie in one place, so that what writes refuses it (TIDE_E_INVALID);
** a view that has no elements, or stretches no axis to more than one, is not stretched. A shape
** that does not fit, or of 2^63 bytes or more, is TIDE_E_SHAPE; none is TIDE_E_INVALID. May
** collect. Never blocks. */
TIDE_API tide_array *tide_broadcast_to(tide_array *a, int ndim, const int64_t *shape);
/* The view with a further axis of length 1, which is axis `axis` of the result, from its end where
** negative (TIDE_E_BOUNDS); of an array of rank TIDE_MAX_RANK it is TIDE_E_SHAPE. May collect.
** Never blocks. */
TIDE_API tide_array *tide_expand_dims(tide_array *a, int axis);
/* The view without axis `axis`, which must have length 1 (TIDE_E_SHAPE), counted from the end where
** negative (TIDE_E_BOUNDS). May collect. Never blocks. */
TIDE_API tide_array *tide_squeeze(tide_array *a, int axis);

/* ---- copies ----
** Those that may block do so on a GPU from pinned to pinned memory, which its driver waits for. */

/* A fresh row-major copy, in the kind of memory that `a` has, on the thread's device. May collect.
** May block. */
TIDE_API tide_array *tide_copy(tide_array *a);
/* A new view on `a` where it is row-major without gaps, else a fresh copy as by tide_copy. May
** collect. Never blocks. */
TIDE_API tide_array *tide_contiguous(tide_array *a);
/* A fresh row-major copy with elements of type t (TIDE_E_INVALID where that is none), in the kind
** of memory that `a` has. Float to integer truncates towards zero, saturates, NaN gives 0; anything
** to bool is "!= 0"; f64 to f16, bf16, f32 rounds to nearest even; complex to real is TIDE_E_DTYPE.
** May collect. May block. */
TIDE_API tide_array *tide_cast(tide_array *a, tide_dtype t);
/* Writes src into dst (a view, usually), stretching src to dst's shape (TIDE_E_SHAPE), and casting
** it within its kind or to a wider one (bool < unsigned < signed integers < floats < complex):
** other casts are TIDE_E_DTYPE (tide_cast first), and a stretched dst (tide_broadcast_to) is
** TIDE_E_INVALID. Overlapping ones behave as if src were copied first. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_assign(tide_array *dst, tide_array *src);
/* Writes `value`, as in tide_full, to every element of an array or a view; a stretched one
** (tide_broadcast_to) is TIDE_E_INVALID, as is a `value` that is an array. May collect. Never
** blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_fill(tide_array *dst, tide_arg value);
/* on = 0: from now on uses of the array's memory, by it and all views on it, wait for no use on
** another stream that comes after this call: the caller orders them (tide_synchronize, or by what
** they compute). Work on another device, a copy that goes there among it, is on another stream. The
** host's views (tide_host_view_begin) wait as ever. What was queued before is still waited for, and
** the memory is not used for anything else before all of it is over. on = 1 (as at first): later
** uses wait for all earlier ones again. Another `on` is TIDE_E_INVALID. TIDE_E_HOST_NOMEM, and
** nothing has changed. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_array_set_ordered(tide_array *a, int on);
/* Sets each byte of the elements to `value`, as memset does: of any type, of any view (and of
** nothing that lies between a view's elements), but a stretched one (tide_broadcast_to), which is
** TIDE_E_INVALID. Bool: any byte but 0 becomes 1. May collect. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_memset(tide_array *dst, unsigned char value);

/* ---- parts and wholes ---- */

/* Elements of `a` along `axis`, from the end where negative, at integer `indices` (else
** TIDE_E_DTYPE), of any rank: its shape replaces the axis. Negative ones count from the end.
** Indices are looked at on the device: one out of range reads as the nearest valid one, and the
** next sync point (tide_to_host, tide_item, tide_array_text, tide_synchronize) fails once with
** TIDE_E_BOUNDS: its message names tide_take, the index that was found first, and how many elements
** there are. At tide_close it is a warning in the log. No such axis, or indices into one without
** elements, is TIDE_E_BOUNDS at once, more than TIDE_MAX_RANK dimensions TIDE_E_SHAPE. May collect.
** Never blocks. */
TIDE_API tide_array *tide_take(tide_array *a, tide_array *indices, int axis);
/* Joins n >= 1 arrays (TIDE_E_INVALID) along `axis`, from the end where negative (TIDE_E_BOUNDS);
** their other dimensions must agree (TIDE_E_SHAPE); dtypes promote as in expressions (TIDE_E_DTYPE
** where they do not). Waits where tide_copy does. May collect. May block. */
TIDE_API tide_array *tide_concat(tide_array *const *arrays, size_t n, int axis);

#if defined(__cplusplus)
}
#endif
#endif
