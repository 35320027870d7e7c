/* memory.h: kinds of memory, the host's own access to arrays, and where memory is.
**
** Three kinds. *Device* memory is the fastest for the device and out of the host's reach. *Pinned*
** memory is the host's; the device reads and writes it across the bus, far slower than its own.
** *Unified* memory goes, page by page, to where it is touched. What each costs, and when to use
** which: docs/memory.md.
** An operation takes arrays of all kinds. Its result is of the runtime's default kind
** (TIDE_DEFAULT_MEMORY, tide_config), but tide_copy, tide_cast, and tide_contiguous and
** tide_reshape where they copy, keep their operand's. Views share memory, and so its kind.
**
** What pinned and unified memory cost and wait for: making either asks the driver, unless the pool
** has a block. Unified memory it makes at once (0.2 ms); pinned memory it locks page by page (1.7
** ms for 2 MiB, 0.6 s for 1 GiB). Neither waits for the device. Giving either back to the driver
** does, for all work of all streams: pools do so when they trim (the reclaim ladder, tide_reclaim,
** sync points by TIDE_RELEASE_THRESHOLD), not when an array dies; the pool `none`, which keeps
** nothing, whenever one does. The first touch of a page of unified memory after the other side's
** brings it over, by a fault of tens of microseconds: tide_array_prefetch does that ahead, for many
** pages at once. It counts against the device's limit as if it were all on the card, and against
** the host's limit. No more of it is made than the card has free, and while there is some, it and
** device memory together are no more than the card has. */
#ifndef TIDE_MEMORY_H
#define TIDE_MEMORY_H

#include <tide/runtime.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef int32_t tide_memory;
enum {
    TIDE_MEMORY_DEFAULT = 0, /* the runtime's */
    TIDE_MEMORY_DEVICE = 1,
    TIDE_MEMORY_PINNED = 2,
    TIDE_MEMORY_UNIFIED = 3
};

/* ---- arrays of a kind ---- */

/* tide_empty in memory of that kind. TIDE_E_INVALID: there is no such kind; TIDE_E_UNSUPPORTED
** where the device lacks it; TIDE_E_HOST_NOMEM where the host's limit (TIDE_PINNED_LIMIT) or the
** driver refuses, and nothing can be collected or given back for it. May collect. Never blocks. */
TIDE_API tide_array *tide_empty_in(tide_runtime *rt, tide_memory kind, tide_dtype t, int ndim,
                                   const int64_t *shape);
/* A fresh, row-major copy in memory of that kind, on the thread's device, made by it; errors as
** tide_empty_in. On a GPU the driver waits where it copies from pinned to pinned memory.
** May collect. May block. */
TIDE_API tide_array *tide_to_memory(tide_array *a, tide_memory kind);
/* The kind that the array has, device memory where it is spilled; -1 on failure. Never collects.
** Never blocks. */
TIDE_API tide_memory tide_array_memory(tide_array *a);

/* ---- the host reads and writes ----
** From begin to end the array's memory stays where it is, though the array be freed, and the host
** uses it by plain loads and stores. Meanwhile nobody queues work that writes what the host reads,
** or touches what it writes; with TIDE_DEBUG=1 a host device reports such work. Work queued after
** end sees what was written. Views may overlap, be open at once and end on any thread. */
typedef struct tide_host_view {
    void *data; /* element [0, 0, ...]; NULL where the array is empty */
    int64_t shape[TIDE_MAX_RANK];
    int64_t strides[TIDE_MAX_RANK]; /* in elements */
    int32_t ndim;
    tide_dtype dtype;
    uint64_t reserved[3]; /* the library's */
} tide_host_view;
/* Opens a view, and fills *view in. `mode`: TIDE_READ, TIDE_WRITE or both (else TIDE_E_INVALID); a
** stretched view (tide_broadcast_to) is not to be written (TIDE_E_INVALID). An array in device
** memory is TIDE_E_UNSUPPORTED, also on a host device: copy it (tide_to_host), or make it where the
** host can reach it. Waits once for the device's work on the array: what writes it, and if the host
** is to write, also what reads it; the policy may collect before that. TIDE_E_BOUNDS: as any sync
** point (tide_take). May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_host_view_begin(tide_array *a, int mode,
                                                         tide_host_view *view);
/* Ends the view, whose fields become zero; an ended one, and NULL, is TIDE_E_INVALID, one whose
** runtime was closed TIDE_E_CLOSED. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_host_view_end(tide_host_view *view);

/* An element of an open view, as an lvalue: TIDE_AT(float, &view, i, j) = 1. As many indices as the
** array has axes, from 0 on, not checked, nor is the type. Costs what a pointer and the strides
** cost. TIDE_AT(float, &view, 0) is also the one element of a rank 0. Evaluates `view` more than
** once. */
#define TIDE_AT(type, view, ...)                                                                   \
    (((type *)(view)->data)[TIDE_AT_OFFSET_((view)->strides, __VA_ARGS__)])
#define TIDE_AT_OFFSET_(s, ...)                                                                    \
    TIDE_AT_PICK_(__VA_ARGS__, TIDE_AT_8_, TIDE_AT_7_, TIDE_AT_6_, TIDE_AT_5_, TIDE_AT_4_,         \
                  TIDE_AT_3_, TIDE_AT_2_, TIDE_AT_1_, 0)                                           \
    (s, __VA_ARGS__)
#define TIDE_AT_PICK_(a, b, c, d, e, f, g, h, name, ...) name
/* the i-th index times its stride */
#define TIDE_AT_STEP_(s, i, index)      ((int64_t)(index) * (s)[i])
#define TIDE_AT_1_(s, a)                TIDE_AT_STEP_(s, 0, a)
#define TIDE_AT_2_(s, a, b)             (TIDE_AT_1_(s, a) + TIDE_AT_STEP_(s, 1, b))
#define TIDE_AT_3_(s, a, b, c)          (TIDE_AT_2_(s, a, b) + TIDE_AT_STEP_(s, 2, c))
#define TIDE_AT_4_(s, a, b, c, d)       (TIDE_AT_3_(s, a, b, c) + TIDE_AT_STEP_(s, 3, d))
#define TIDE_AT_5_(s, a, b, c, d, e)    (TIDE_AT_4_(s, a, b, c, d) + TIDE_AT_STEP_(s, 4, e))
#define TIDE_AT_6_(s, a, b, c, d, e, f) (TIDE_AT_5_(s, a, b, c, d, e) + TIDE_AT_STEP_(s, 5, f))
#define TIDE_AT_7_(s, a, b, c, d, e, f, g)                                                         \
    (TIDE_AT_6_(s, a, b, c, d, e, f) + TIDE_AT_STEP_(s, 6, g))
#define TIDE_AT_8_(s, a, b, c, d, e, f, g, h)                                                      \
    (TIDE_AT_7_(s, a, b, c, d, e, f, g) + TIDE_AT_STEP_(s, 7, h))

/* ---- one element ---- `index` has tide_array_ndim entries, each from its axis' end if negative;
** TIDE_E_BOUNDS beyond. Where the host reaches the array it loads or stores; in device memory both
** are TIDE_E_UNSUPPORTED, since a program that goes on like this spends 10 us an element, unless
** the thread has said that it may. A loop opens a view. */

/* Reads one element, as tide_item tells it, once what writes the array is done. May collect.
** Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_array_get(tide_array *a, const int64_t *index,
                                                   tide_arg *out);
/* Writes one element; `value` as in tide_full. Of a stretched view (tide_broadcast_to) that is
** TIDE_E_INVALID. Where the host reaches the array it waits until what uses that is done; into
** device memory the element is queued on the current stream. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_array_set(tide_array *a, const int64_t *index,
                                                   tide_arg value);
/* Whether tide_array_get and tide_array_set of the calling thread may copy single elements of
** device memory; at first they may not. `on` is 1 or 0 (else TIDE_E_INVALID). Returns what was so
** before; 0 on failure. Never collects. Never blocks. */
TIDE_API int tide_thread_allow_scalar(tide_runtime *rt, int on);

/* ---- where unified memory is ---- Of the stretch of memory that the array spans, in elements,
** `count` from `first` on: of a row-major array elements in order. TIDE_E_BOUNDS beyond it. Arrays
** of other kinds are TIDE_E_UNSUPPORTED. The driver does whole pages, so that neighbours in a page
** share their fate. */

enum { TIDE_TO_DEVICE = 0, TIDE_TO_HOST = 1 };
/* Queues the move of that stretch on the current stream, after what writes the array so far; what
** only reads it may run meanwhile. `where`: TIDE_TO_DEVICE or TIDE_TO_HOST, else TIDE_E_INVALID.
** Where the device has no such moves it does nothing. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_array_prefetch(tide_array *a, int64_t first, int64_t count,
                                                        int where);
enum {
    TIDE_ADVISE_NONE = 0,        /* takes earlier advice back */
    TIDE_ADVISE_READ_MOSTLY = 1, /* both sides may keep a copy, which a write drops */
    TIDE_ADVISE_DEVICE = 2,      /* rather stay there, and be read from afar */
    TIDE_ADVISE_HOST = 3         /* the same, in the host's memory */
};
/* Tells the driver how that stretch will be used, until the next advice or the end of the memory's
** life as this array's. `advice`: of the constants above, else TIDE_E_INVALID. Never collects.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_array_advise(tide_array *a, int64_t first, int64_t count,
                                                      int advice);

#if defined(__cplusplus)
}
#endif
#endif
