/* streams.h: streams of a runtime's half, and storages that they work on. */
#ifndef TIDETEST_STREAMS_H
#define TIDETEST_STREAMS_H

#include "tests/support/runtime_half.h"

#define BYTES ((size_t)4096)

static inline tidei_storage *storage(tidei_runtime *rt, tidei_stream *s, size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(&rt->devs[0], bytes, s, "test", &st));
    return st;
}
static inline tidei_stream *stream(tidei_runtime *rt) {
    tidei_stream *s;
    assert_ok(tidei_stream_open(&rt->devs[0], &s));
    return s;
}

#endif
