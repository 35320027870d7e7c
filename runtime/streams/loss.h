/* loss.h: what a device reports after the fact: that it is lost, and what kernels noted.
**
** The first thread that meets with a loss writes the device's loss report: the device's own words,
** and the last operation of the stream on which it was noticed. Every later error of that device
** repeats it. */
#ifndef TIDEI_LOSS_H
#define TIDEI_LOSS_H

#include "runtime/streams/stream.h"

/* In tidei_dev. */
struct tidei_loss {
    _Atomic int state; /* 0 none, 1 the report is being written, 2 it is there */
    char report[640];
};

/* What a kernel reported since the last question: TIDE_E_BOUNDS for a bad index; the message names
** the operation that raised it. For sync points, whose own name is `op`. */
tide_status tidei_take_fault(tidei_runtime *rt, const char *op);
/* The device is lost. Both set and return TIDE_E_LOST with the loss report: the device's own words,
** and the last operation of the stream on which the loss was noticed first. The first is for a call
** on stream s that just returned TIDE_E_LOST. */
tide_status tidei_lost_on(tidei_stream *s, const char *op);
tide_status tidei_lost(tidei_dev *d, const char *op);
/* A failure of the device table on stream s under the operation's name; a loss with its loss
** report. */
tide_status tidei_device_failed(tidei_stream *s, tide_status status, const char *op);

#endif
