/* contention.h: whether other threads were at work on a device's memory during a climb. */
#ifndef TIDEI_CONTENTION_H
#define TIDEI_CONTENTION_H

#include "runtime/reclaim/rung.h"

void tidei_contention_begin(tidei_climb *c); /* before the first rung */
/* After the last rung, none of which was enough: whether another thread took memory since, or had
** some on its way; if some still is, waits until it has come or gone. */
bool tidei_contended(tidei_climb *c);

#endif
