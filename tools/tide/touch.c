/* touch.c: the kernels behind touch.h (pattern.h has their text), and the counter that they
** raise. */
#include "tools/tide/touch.h"
#include "arrays/kernels/launch.h"
#include "tools/tide/pattern.h"

#define OP "tide replay"

extern const char tidei_pattern_text[];

static _Atomic uint64_t *counter(const tidei_touch *t) {
    return (_Atomic uint64_t *)(uintptr_t)t->mismatches;
}

/* Pinned, so that it is no part of what is measured and is read without a copy. */
tide_status tidei_touch_open(tidei_dev *d, tidei_touch *out) {
    tidei_touch t = {.dev = d};
    tide_status status =
        d->d->ops->raw_alloc(d->d, TIDEI_MEM_PINNED, sizeof(uint64_t), &t.mismatches);
    if (status != TIDE_OK) return status;
    atomic_init(counter(&t), 0);
    *out = t;
    return TIDE_OK;
}

void tidei_touch_close(tidei_touch *t) {
    if (t->mismatches)
        t->dev->d->ops->raw_free(t->dev->d, TIDEI_MEM_PINNED, t->mismatches, sizeof(uint64_t));
    t->mismatches = 0;
}

static tide_status run(tidei_touch *t, tidei_stream *s, const tidei_own_kernel *k,
                       tidei_storage *st, unsigned mode, uint64_t pattern) {
    static const size_t at = offsetof(pa_block, at);
    tidei_use use = {st, 0, st->bytes, mode};
    pa_block p = {.bytes = st->bytes, .pattern = pattern, .mismatches = t->mismatches};
    /* own kernels run on the thread's stream */
    tide_status status = tide_stream_set(t->dev->rt->ref, s->ref);
    if (status != TIDE_OK) return status;
    return tidei_run_own(t->dev->rt, k, &use, 1, &p, sizeof p, &at, (st->bytes + 7) / 8, OP);
}

tide_status tidei_touch_write(tidei_touch *t, tidei_stream *s, tidei_storage *st,
                              uint64_t pattern) {
    static const tidei_own_kernel k = {"pattern_write", tidei_pattern_text, pattern_write, false};
    return run(t, s, &k, st, TIDEI_WRITE, pattern);
}

tide_status tidei_touch_check(tidei_touch *t, tidei_stream *s, tidei_storage *st,
                              uint64_t pattern) {
    static const tidei_own_kernel k = {"pattern_check", tidei_pattern_text, pattern_check, false};
    return run(t, s, &k, st, TIDEI_READ, pattern);
}

uint64_t tidei_touch_mismatches(const tidei_touch *t) { return atomic_load(counter(t)); }
