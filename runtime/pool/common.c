/* common.c: what all pools have in common: their attributes, and raw memory of the device. */
#include "runtime/pool/budget.h"
#include "runtime/pool/pool.h"

void tidei_pool_init(tidei_pool *p, const struct tidei_pool_ops *ops, tidei_dev *d,
                     tidei_mem_kind kind) {
    p->ops = ops;
    p->dev = d;
    p->kind = kind;
    atomic_init(&p->attrs.reuse, TIDEI_REUSE_FOLLOW | TIDEI_REUSE_DONE);
    atomic_init(&p->attrs.threshold, TIDEI_THRESHOLD_NONE);
    atomic_init(&p->attrs.max_split, SIZE_MAX);
    atomic_init(&p->attrs.deterministic, false);
    atomic_init(&p->attrs.caches, true);
}

static tide_status back(tidei_pool *p, size_t bytes, tidei_addr *out) {
    tidei_device *d = p->dev->d;
    tide_status st = tidei_back_kind(p->dev, p->kind, bytes);
    if (st != TIDE_OK) return st;
    tidei_inflight_growth_begin(p->dev);
    st = d->ops->raw_alloc(d, p->kind, bytes, out);
    if (st != TIDE_OK) tidei_unback_kind(p->dev, p->kind, bytes);
    tidei_inflight_growth_end(p->dev, st == TIDE_OK);
    return st;
}

tide_status tidei_pool_back(tidei_pool *p, size_t *bytes, size_t least, tidei_addr *out) {
    tidei_saved_error before; /* a first attempt that is refused leaves no error */
    if (*bytes == least) return back(p, least, out);
    tidei_error_save(&before);
    tide_status st = back(p, *bytes, out);
    if (st != TIDE_E_NOMEM && st != TIDE_E_HOST_NOMEM) return st;
    *bytes = least;
    st = back(p, least, out);
    if (st == TIDE_OK) tidei_error_restore(&before);
    return st;
}

void tidei_pool_unback(tidei_pool *p, tidei_addr addr, size_t bytes) {
    tidei_device *d = p->dev->d;
    tidei_inflight_growth_begin(p->dev);
    d->ops->raw_free(d, p->kind, addr, bytes);
    tidei_unback_kind(p->dev, p->kind, bytes);
    tidei_inflight_growth_end(p->dev, true);
}
