/* works.h: a runtime whose log is kept, arrays of bytes, a caller's own kernel, and whether it all
** still works. */
#ifndef TIDETEST_WORKS_H
#define TIDETEST_WORKS_H

#include "tests/support/logged.h"

static inline tide_array *bytes(tide_runtime *rt, size_t n) {
    return tide_empty(rt, TIDE_U8, SHAPE((int64_t)n));
}

/* A runtime under the environment as it is, on the device under test unless `by_environment`. */
static inline tide_runtime *open_logged(bool by_environment) {
    tide_config c = {.struct_size = sizeof c, .log = keep_line};
    tide_runtime *rt = NULL;
    c.device = by_environment ? NULL : test_device();
    if (c.device && !test_on_host()) test_keep_context();
    assert_ok(tide_open(&c, &rt));
    return rt;
}

static inline void works(tide_runtime *rt) {
    tide_array *a = tide_arange(rt, TIDE_I64, 0, 100, 1), *sum = tide_map(rt, "(a) -> sum(a)", a);
    assert_array(sum);
    assert_true(tide_item_f64(sum) == 4950);
    tide_free(a);
    tide_free(sum);
    assert_true(tidei_runtime_valid(test_rt(rt)));
}

/* Queues, in the scope, n bytes of `value` at p: what a caller's own kernel would do. */
static inline void own_fill(tidei_stream *s, void *p, unsigned char value, size_t n) {
    tidei_device *d = s->dev->d;
    assert_ok(d->ops->fill(d, s->ds, (tidei_addr)(uintptr_t)p, &value, 1, n));
}

#endif
