/* touch.h: device work on the blocks of a replay: each is filled with a pattern and compared with
** it later. */
#ifndef TIDE_TOUCH_H
#define TIDE_TOUCH_H

#include "runtime/runtime.h"

typedef struct tidei_touch {
    tidei_dev *dev;
    tidei_addr mismatches; /* a counter in pinned memory: kernels raise it, the host reads it */
} tidei_touch;

tide_status tidei_touch_open(tidei_dev *d, tidei_touch *out);
/* no work of it is queued any more; one that never opened is legal */
void tidei_touch_close(tidei_touch *t);

/* Queue on s; ordered like any use of the storage, which is not empty. */
tide_status tidei_touch_write(tidei_touch *t, tidei_stream *s, tidei_storage *st, uint64_t pattern);
tide_status tidei_touch_check(tidei_touch *t, tidei_stream *s, tidei_storage *st, uint64_t pattern);

/* Words that differed so far, by the checks whose streams were waited for. */
uint64_t tidei_touch_mismatches(const tidei_touch *t);

#endif
