/* device.h: the devices of a runtime, their limits and figures.
**
** A runtime works on all devices of the kind it was opened on: all GPUs that CUDA shows, or as many
** host devices as TIDE_HOST_DEVICES says. They are numbered from 0: "cuda:1" is 1. Every thread has
** a *current* device, at first the one that the runtime was opened on. The others are touched, and
** opened, when somebody first names them here.
**
** What goes by the current device: where results are made, on what streams work is queued (each
** thread has its own current stream and pool on each device), and what tide_device_set_limit,
** tide_device_set_soft_limit, tide_device_info, tide_device_synchronize, tide_stream_new and
** tide_pool_new speak of; limits of the configuration hold for each device by itself. No call
** changes it but tide_device_set, and tide_stream_set for a stream of another device. An array
** belongs to the device that was current when it was made, and dies there, whoever drops it. Other
** devices use it as it is where they can reach its memory: where peer access is possible between
** the two and TIDE_PEERS does not forbid it. Access is enabled at first need, and then verified
** once by a pattern, for which the host waits and which may collect. Elsewhere the operation is
** TIDE_E_UNSUPPORTED, and its error names both devices and both remedies: make the owner current,
** or copy the array. Pinned and unified memory is reached from everywhere.
** Copies work between any two devices and kinds of memory: tide_copy, tide_cast, tide_concat and
** tide_to_memory make theirs on the current device, tide_assign and tide_fill write where their
** target is; by peer access, else in pieces through two pinned buffers, with both devices at work
** and the host waiting for neither. So do the transfers from and to the host's memory. */
#ifndef TIDE_DEVICE_H
#define TIDE_DEVICE_H

#include <tide/runtime.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* How many devices the runtime has, at most 32; -1 on failure. Opens none. Never collects.
** Never blocks. */
TIDE_API int tide_device_count(tide_runtime *rt);
/* Makes a device the calling thread's current one, and opens it at its first use. TIDE_E_NODEVICE
** where there is none of that number; whatever opening it may fail with. On failure the current
** device stays. Never collects. Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_device_set(tide_runtime *rt, int device);
/* The number of the calling thread's current device; -1 on failure. Never collects.
** Never blocks. */
TIDE_API int tide_device_current(tide_runtime *rt);
/* The number of the device that the array belongs to; -1 on failure, also of a freed array.
** Never collects. Never blocks. */
TIDE_API int tide_array_device(tide_array *a);
/* Whether work of `device` can use arrays of `owner` as they are: 1, or 0 where they must be
** copied; -1 on failure. TIDE_E_NODEVICE as tide_device_set. Opens both. Where it is not known yet
** it is found out, by the pattern that the host waits for (see above). May collect. May block. */
TIDE_API int tide_device_reaches(tide_runtime *rt, int device, int owner);
/* tide_synchronize for all streams of the current device. May collect. Blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_device_synchronize(tide_runtime *rt);

/* ---- limits and figures ---- of the thread's device. */

/* Changes the hard limit of the thread's current device; SIZE_MAX: none. It bounds backed bytes and
** library state, and is rounded up to a whole page of the device (host 64 KiB, cuda 2 MiB).
** Lowering it below what is backed gives back what can be, for which arrays may move; with
** tide_config.spill what is not in use may be spilled; TIDE_E_NOMEM if live data do not fit, and
** the limit is left as it was. Waits, as tide_reclaim does, where more is backed than the new limit
** allows. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_device_set_limit(tide_runtime *rt, size_t bytes);
/* Changes the soft limit of the thread's current device, above which it starts giving back;
** SIZE_MAX: none. Then gives back what is idle there, as tide_reclaim with TIDE_RECLAIM_PURGE, and
** waits where that does. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_device_set_soft_limit(tide_runtime *rt, size_t bytes);

typedef struct tide_kind_figures {
    size_t live;   /* requested by arrays and workspaces, garbage not yet found included */
    size_t backed; /* taken from the driver: live, lost to rounding, free in the pools */
} tide_kind_figures;
typedef struct tide_device_figures {
    size_t struct_size; /* set by the caller to sizeof(tide_device_figures) */
    size_t free, total; /* of the thread's device, as its driver says: all users counted */
    size_t limit;       /* what device.backed + unified.backed + library may reach, at most total */
    size_t library;     /* held by library state, as measured */
    /* of pinned and unified memory, all devices of the runtime; what it may reach */
    size_t pinned_used, pinned_limit;
    tide_kind_figures device, pinned, unified; /* of the thread's device */
    /* of its device memory's arrays, in pinned memory, and in that one's figures, until they are
    ** used */
    size_t spilled;
} tide_device_figures;
/* The memory figures of the calling thread's device. Drains first, so that arrays known dead no
** longer count. TIDE_E_INVALID: out is NULL, or out->struct_size is none. Never collects.
** Never blocks. */
TIDE_API TIDE_NODISCARD tide_status tide_device_info(tide_runtime *rt, tide_device_figures *out);
/* The thread's device: "cuda:0 (NVIDIA H200, 139.8 GiB)", or "host:0 (8.0 GiB); no cuda:
** libcuda.so.1 not found". Returns the length that the whole text has, like snprintf; `buf` may be
** NULL, which counts as `cap` 0. 0 on failure. Never collects. Never blocks. */
TIDE_API size_t tide_device_text(tide_runtime *rt, char *buf, size_t cap);

#if defined(__cplusplus)
}
#endif
#endif
