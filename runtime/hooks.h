/* hooks.h: what the lower floors of the runtime ask of those above them, where both are known. */
#ifndef TIDEI_HOOKS_H
#define TIDEI_HOOKS_H

#include "runtime/runtime.h"

extern const tidei_thread_hooks tidei_threads_above;
extern const tidei_stream_hooks tidei_streams_above;

#endif
