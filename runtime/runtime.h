/* runtime.h: a runtime as a whole: opening and closing it, and all that its floors offer to the
** parts above it (gc, libs, arrays). */
#ifndef TIDEI_RUNTIME_H
#define TIDEI_RUNTIME_H

#include "runtime/base/callback.h"
#include "runtime/base/collect.h"
#include "runtime/base/instance.h"
#include "runtime/base/thread_index.h"
#include "runtime/devices.h"
#include "runtime/figures.h"
#include "runtime/memory/header.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/memory/move.h"
#include "runtime/memory/peers.h"
#include "runtime/memory/spill.h"
#include "runtime/memory/storage.h"
#include "runtime/observe/recorder.h"
#include "runtime/pool/pools.h"
#include "runtime/reclaim/reclaim.h"
#include "runtime/reclaim/reclaimables.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"

/* The parts tide_open puts together (open.c): the runtime's own half. `early`: NULL, or kernels
** that may be compiled meanwhile; what was is added also where opening fails. */
tide_status tidei_runtime_open(const tide_config *c, tidei_early *early, tidei_runtime **out);
void tidei_runtime_close(tidei_runtime *rt);
/* Tests: opens on a given device, already open, that the runtime owns from then on (a fault double,
** say). */
tide_status tidei_runtime_open_on(const tide_config *c, tidei_device *device, tidei_runtime **out);

/* pools, counters, streams; for tests */
bool tidei_runtime_valid(tidei_runtime *rt);

#endif
