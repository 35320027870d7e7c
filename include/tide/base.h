/* base.h: what every other header of Tidepool needs: status codes, the error record, element types,
** tagged arguments.
**
** Conventions of the whole library:
** - `tide_verb(array, ...)` is array mathematics, or one of the runtime's verbs: open, close,
**   collect, reclaim, synchronize, safepoint, map; free, retain and release act on arrays. All else
**   begins with its object: `tide_array_`, `tide_runtime_`, `tide_pool_`, `tide_device_`,
**   `tide_stream_`, `tide_expr_`, `tide_thread_`, `tide_collector_`, ... Objects come first, then
**   inputs, results by pointer last; what writes into an array that exists takes it first. Figures
**   are `tide_X_info(obj, &out)` into a `tide_X_figures`; text is `tide_X_text(obj, buf, cap)`. A
**   registering function takes `user` last, a callback gets `void *user` first; register and
**   unregister use a `uint64_t` id.
** - Bytes are `size_t`; shapes, strides and indices are `int64_t` counted in elements; times end in
**   `_ns`.
** - A pointer to as many things as are said beside it may be NULL where these may be none: `shape`
**   of rank 0, `buf` of `cap` 0, `args` of an expression without parameters.
** - A function that makes an array returns it, or NULL with the reason in the calling thread's
**   error record.
** - A NULL array among the arguments fails the call, whatever else is wrong with it: it is NULL
**   because an earlier call failed. So where an error stands, it stays: a function that returns a
**   status returns that one's, and the first such call adds a line to the message, "then: tide_mul:
**   argument 2 is NULL". A formula needs one check at its end, which tells what went wrong first.
**   That holds for one formula: a call that fails for a reason of its own writes a new error. Where
**   no error stands it is TIDE_E_INVALID, naming the function and the argument (of tide_map and its
**   like the expression's own arguments are counted). Success clears no error: who has dealt with
**   one and goes on calls tide_error_clear, or else what is NULL for another reason is told with
**   that old error, and the line. To tide_free and tide_release NULL is legal.
** - Every other function that can fail returns a `tide_status`; its out parameters are untouched on
**   failure.
** - A `tide_array *` that is returned is a new array of the caller's, and so is one in an out
**   parameter, unless the text says "borrowed" (it stays its owner's) or "the same" (the one that
**   was given). "Static" is what lives as long as the process. Texts and structs that are given are
**   copied where the text does not say how long they live.
** - The comment above a function is its contract. Errors that any function may have are not
**   repeated there: NULL (above), a reference that is none any more, an array that was freed or is
**   another runtime's, a device that is lost, TIDE_E_HOST_NOMEM, TIDE_E_FORKED, and what attaching
**   the thread may fail with (tide_thread_attach); of what may collect TIDE_E_NOMEM; of what queues
**   work TIDE_E_DEVICE, and TIDE_E_UNSUPPORTED for an array that the current device does not reach
**   (tide/device.h). Work is queued on the current stream: the one that the calling thread has on
**   its current device (tide_stream_set), the default one at first. A contract ends with two
**   sentences:
**   "May collect": it may make room in device memory, that is bring free pages together
**   (TIDE_POOL_REUSE_WAIT), climb the reclaim ladder (tide/reclaim.h), run collectors and caches'
**   slots, and so wait. "Never collects": not that.
**   "Blocks": it waits for queued device work even where there is memory. "May block": it does so
**   sometimes; the text says when. "Never blocks": it waits for no device work, but for what "May
**   collect" says; where free memory goes back to the driver, which may wait for all work
**   (tide/memory.h); at the first use of a device's memory by another (tide/device.h); and where no
**   host memory is left to note in what was queued.
** - What is held of a runtime, a stream, a pool, an expression, a use scope, a host view or an
**   iterator is a reference: one that is used after the object's end, on any thread, is an error
**   (TIDE_E_CLOSED once the runtime is closed, else TIDE_E_INVALID), and reaches no freed memory.
**   It is no address: do not look behind it.
** - A struct with a `struct_size` may grow. The caller sets that to its sizeof; an older caller's,
**   which ends behind a field that was the last one then, is taken for what it has, and one that
**   ends inside a field is TIDE_E_INVALID.
** - Nothing aborts, exits, prints or longjmps. Only the log prints, to stderr, where the program or
**   the environment chose a level and the program no place for it; and one line for each value in
**   the environment that tide_open does not understand, unless the level is silent
**   (tide_config.log_level, TIDE_LOG).
** - Any function may be called from any thread unless it says otherwise.
** - No function is a cancellation point: a thread that was cancelled (pthread_cancel) comes back
**   from each, its cancel state as it was. Callbacks run with cancellation disabled, and leave it
**   so. A thread whose cancellation is asynchronous calls none of the functions.
** - No text that is written, and no number that is read, depends on the locale. No signal mask of
**   the program's threads is changed, and no handler but what docs/boehm.md says; the library's own
**   threads take no signal of the program's (OpenBLAS's are not its own).
** - Callbacks may be left by longjmp or an exception where docs/embedding.md says so: which thread
**   runs each, what it may call, what a signal's handler may call, and forks stand there too. */
#ifndef TIDE_BASE_H
#define TIDE_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define TIDE_VERSION_MAJOR 0
#define TIDE_VERSION_MINOR 1
#define TIDE_VERSION_PATCH 0

#if defined(__GNUC__)
#define TIDE_API       __attribute__((visibility("default")))
#define TIDE_NODISCARD __attribute__((warn_unused_result))
/* the compiler checks arguments from `first` on against printf's format, which is argument `fmt` */
#define TIDE_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define TIDE_API
#define TIDE_NODISCARD
#define TIDE_PRINTF(fmt, first)
#endif

/* one instance: devices, pools, collectors; several may live in a process */
typedef struct tide_runtime tide_runtime;
/* an array as users hold it: a cell of one word */
typedef struct tide_array tide_array;
/* an ordered queue of device work */
typedef struct tide_stream tide_stream;
/* a parsed expression, reusable with any operands */
typedef struct tide_expr tide_expr;

typedef int32_t tide_status;
enum {
    TIDE_OK = 0,

    /* the caller's input */
    TIDE_E_INVALID = 1, /* an argument outside what the function accepts */
    TIDE_E_SHAPE = 2,   /* shapes or axes that do not fit together */
    TIDE_E_DTYPE = 3,   /* element types that do not fit together */
    TIDE_E_BOUNDS = 4,  /* an index or axis out of range */
    TIDE_E_EMPTY = 5,   /* a reduction without an identity over no elements */
    TIDE_E_FREED = 6,   /* use of an array after tide_free */
    TIDE_E_PARSE = 7,   /* a malformed expression or slice; the message points at the column */
    TIDE_E_FORMAT = 8,  /* a malformed file */
    /* a matrix without an inverse, or that is not positive definite; the message says which */
    TIDE_E_SINGULAR = 9,
    TIDE_E_CONVERGENCE = 10, /* an iteration did not converge; the message says in which matrix */

    /* the machine */
    TIDE_E_NOMEM = 20,       /* device memory is exhausted; the message is the report of it */
    TIDE_E_HOST_NOMEM = 21,  /* host memory is exhausted */
    TIDE_E_DEVICE = 22,      /* a driver or library call failed */
    TIDE_E_LOST = 23,        /* the device is unusable since an earlier failure */
    TIDE_E_NODEVICE = 24,    /* no such device here; the message says why */
    TIDE_E_UNSUPPORTED = 25, /* not offered by this device or build */
    TIDE_E_IO = 26,          /* reading or writing a file failed */
    TIDE_E_FORKED = 27,      /* the process forked; a runtime stays with its parent */
    TIDE_E_CLOSED = 28,      /* the runtime was closed; arrays, streams and all of it say so too */

    /* no failure */
    TIDE_END = 40 /* an iterator has no more; the error record is left alone */
};

/* What went wrong last on this thread. Borrowed: valid until the next failing call on the thread.
** Success does not clear it. */
typedef struct tide_error {
    tide_status status;
    const char *message;   /* one or more lines with the numbers a person needs; never NULL */
    const char *operation; /* the public function, or the expression's text; never NULL */
} tide_error;

/* The calling thread's error record, borrowed (see above); never NULL. Its status is TIDE_OK before
** the first failure and after tide_error_clear. Never collects. Never blocks. */
TIDE_API const tide_error *tide_error_last(void);
/* Makes the calling thread's record one of TIDE_OK, with empty texts. Never collects.
** Never blocks. */
TIDE_API void tide_error_clear(void);
/* A status' name, "TIDE_E_NOMEM"; "TIDE_E_?" for an unknown one. Static. Never collects.
** Never blocks. */
TIDE_API const char *tide_status_name(tide_status s);
/* The library's version, "0.1.0". Static. Never collects. Never blocks. */
TIDE_API const char *tide_version(void);

/* Element types. The values are part of the ABI. */
typedef int32_t tide_dtype;
enum {
    TIDE_BOOL = 0, /* one byte, 0 or 1 */
    TIDE_I8 = 1,
    TIDE_I16 = 2,
    TIDE_I32 = 3,
    TIDE_I64 = 4,
    TIDE_U8 = 5,
    TIDE_U16 = 6,
    TIDE_U32 = 7,
    TIDE_U64 = 8,
    TIDE_F16 = 9,
    TIDE_BF16 = 10,
    TIDE_F32 = 11,
    TIDE_F64 = 12,
    TIDE_C64 = 13, /* two f32: real, imaginary */
    TIDE_C128 = 14 /* two f64 */
};
#define TIDE_DTYPE_COUNT 15
#define TIDE_MAX_RANK    8

/* An element type's name, "f32"; "?" for an unknown one. Static. Never collects. Never blocks. */
TIDE_API const char *tide_dtype_name(tide_dtype t);
/* The bytes of one element; 0 for an unknown type. Never collects. Never blocks. */
TIDE_API size_t tide_dtype_size(tide_dtype t);

/* A tagged argument of an expression. C numbers are weak: they take the type of the arrays they
** meet where it is of their kind or a wider one (bool < int < float < complex), else the kind is
** widened: i32 with 0.5 gives f64, f32 with it f32. */
typedef struct tide_arg {
    int32_t kind; /* TIDE_ARG_* */
    int32_t reserved;
    union {
        tide_array *array;
        int64_t i;   /* TIDE_ARG_INT, TIDE_ARG_BOOL */
        uint64_t u;  /* TIDE_ARG_UINT */
        double f;    /* TIDE_ARG_FLOAT */
        double c[2]; /* TIDE_ARG_COMPLEX: real, imaginary */
    } value;         /* TIDE_ARG_NUMBER: the library's own */
} tide_arg;
enum {
    TIDE_ARG_ARRAY = 0,
    TIDE_ARG_BOOL = 1,
    TIDE_ARG_INT = 2,
    TIDE_ARG_UINT = 3,
    TIDE_ARG_FLOAT = 4,
    TIDE_ARG_COMPLEX = 5,
    /* a number of the graph's run whose function is called (tide/graph.h): expressions take it */
    TIDE_ARG_NUMBER = 6
};

/* An array as an argument; its reference stays the caller's. NULL is told by whoever gets it.
** Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_array(tide_array *a);
/* A truth value: any v but 0 is true. Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_bool(int v);
/* A signed integer. Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_int(int64_t v);
/* An unsigned integer. Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_uint(uint64_t v);
/* A float. Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_float(double v);
/* A complex number. Never collects. Never blocks. */
TIDE_API tide_arg tide_arg_complex(double re, double im);

#if defined(__cplusplus)
}
#endif
#endif
