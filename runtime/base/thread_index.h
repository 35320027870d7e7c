/* thread_index.h: a small number for the calling thread: its own while it lives, then another's.
**
** For tables with one entry a thread. Who gets a number that was another's before sees all that
** that thread wrote. */
#ifndef TIDEI_THREAD_INDEX_H
#define TIDEI_THREAD_INDEX_H

#include "runtime/base/base.h"

#define TIDEI_THREADS_INDEXED 254 /* a byte holds 0 for none, or 1 + the number */

/* 1 + the number; 0: not asked for yet; -1: none to be had */
extern TIDEI_FAST_TLS int tidei_thread_number;
int tidei_thread_number_take(void);

/* 1 + the number, or 0: too many threads live, or this one is ending. */
static inline unsigned tidei_thread_index(void) {
    int n = tidei_thread_number;
    if (tidei_unlikely(n <= 0)) n = n ? 0 : tidei_thread_number_take();
    return (unsigned)n;
}

#endif
