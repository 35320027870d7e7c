/* devices.h: the devices of a runtime, and which of them reach each other's memory.
**
** Model. A runtime works on devices of one kind. Users number them as the kind does ("cuda:1" is
** 1); the runtime's own order begins with the one that it was opened on. The others are opened at
** their first use, each with a pool, limits and a default stream of its own. Streams, ticks and
** moves are the runtime's, so waits between devices are waits like any other. Work runs on the
** device of its stream. It may use memory of another device where that one can be reached: where
** the settings (TIDE_PEERS) and the devices allow it, access was enabled, and a pattern has come
** through right both ways. That is found out at first need, once, and then known. Pinned and
** unified memory can be reached from everywhere.
** What must stay true: a device that is open stays so to the runtime's end. `used_elsewhere` is set
** before another device's work uses memory of a device. */
#ifndef TIDEI_DEVICES_H
#define TIDEI_DEVICES_H

#include "runtime/base/instance.h"

typedef struct tidei_early tidei_early; /* runtime/device/device.h */

/* Opens the runtime's first device: the one that is given, which the runtime then owns, or (NULL)
** the one that the settings name; `early` (may be NULL) as in tidei_device_params. */
tide_status tidei_devices_open(tidei_runtime *rt, tidei_device *first, tidei_early *early);
/* Before the runtime closes: waits for the work of all devices; a fault that nobody asked for is a
** line of the log. */
void tidei_devices_end_work(tidei_runtime *rt);
void tidei_devices_close(tidei_runtime *rt);
/* The one of that number, opened if it is not yet. TIDE_E_NODEVICE where there is none. */
tide_status tidei_dev_get(tidei_runtime *rt, int number, const char *op, tidei_dev **out);
size_t tidei_limit_of(const tidei_dev *d, size_t bytes); /* as it is kept: in whole pages */

#endif
