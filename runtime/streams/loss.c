/* loss.c: the loss report of a device, and bad indices that kernels have noted. */
#include "runtime/streams/loss.h"
#include "runtime/base/text.h"
#include "runtime/base/instance.h"
#include <inttypes.h>

/* ---- errors of a device ---- */

/* Keeps the first loss report that is told; `words` are the device's. */
static void tell(tidei_stream *s, const char *words) {
    tidei_dev *d = s->dev;
    int none = 0;
    if (!atomic_compare_exchange_strong(&d->loss->state, &none, 1)) return;
    pthread_mutex_lock(&s->lock);
    const char *last = s->last_op;
    pthread_mutex_unlock(&s->lock);
    tidei_format(
        d->loss->report, sizeof d->loss->report,
        "%.400s; last operation of the stream: %.100s; %s's arrays cannot be used any more", words,
        *last ? last : "none", d->d->info.name);
    atomic_store(&d->loss->state, 2);
}

/* A stream that waits for another device's may meet with the loss of that one. */
tide_status tidei_lost_on(tidei_stream *s, const char *op) {
    if (!atomic_load(&s->dev->d->lost)) return tidei_fail_as(op);
    tell(s, tide_error_last()->message);
    return tidei_lost(s->dev, op);
}

tide_status tidei_lost(tidei_dev *d, const char *op) {
    if (!atomic_load(&d->loss->state)) { /* noticed by a flag: the device is asked for its words */
        size_t free_bytes, total;
        if (d->d->ops->memory(d->d, &free_bytes, &total) == TIDE_E_LOST)
            tell(d->stream0, tide_error_last()->message);
    }
    if (atomic_load(&d->loss->state) == 2)
        return tidei_fail(TIDE_E_LOST, op, "%s", d->loss->report);
    return tidei_fail(TIDE_E_LOST, op, "%s is lost since an earlier failure", d->d->info.name);
}

tide_status tidei_device_failed(tidei_stream *s, tide_status status, const char *op) {
    return status == TIDE_E_LOST ? tidei_lost_on(s, op) : tidei_fail_as(op);
}

/* ---- what kernels report ---- */

/* a report of other work takes microseconds to write; one that is not done by then is the
** next's */
#define REPORT_LOOKS 1000000

/* The report's first word once it is the caller's alone; 0: there is none. */
static uint64_t claim_report(_Atomic uint64_t *words) {
    for (unsigned i = 0; i < REPORT_LOOKS; i++) {
        uint64_t w = atomic_load_explicit(words, memory_order_relaxed);
        if (w == TIDEI_FAULT_NONE) return 0;
        if (w != TIDEI_FAULT_WRITING &&
            atomic_compare_exchange_strong(words, &w, TIDEI_FAULT_WRITING))
            return w;
        tidei_pause();
    }
    return 0;
}

static const char *raised_by(uint64_t word) {
    static const char *const names[TIDEI_FAULT_BY_COUNT] = {[TIDEI_FAULT_BY_TAKE] = "tide_take"};
    unsigned by = tidei_fault_by(word);
    return by < TIDEI_FAULT_BY_COUNT && names[by] ? names[by] : "a kernel";
}

static tide_status report_fault(_Atomic uint64_t *words, const char *op) {
    uint64_t word = claim_report(words), index = words[1], bound = words[2];
    char number[24];
    if (!word) return TIDE_OK;
    atomic_store(words, TIDEI_FAULT_NONE);
    tidei_format(number, sizeof number, word & TIDEI_FAULT_UNSIGNED ? "%" PRIu64 : "%" PRId64,
                 index);
    return tidei_fail(TIDE_E_BOUNDS, op,
                      "%s: index %s is out of range for %" PRIu64
                      " elements, in work done before this point; the nearest valid one was read",
                      raised_by(word), number, bound);
}

tide_status tidei_take_fault(tidei_runtime *rt, const char *op) {
    tide_status status = TIDE_OK;
    for (tidei_dev *d = NULL; status == TIDE_OK && (d = tidei_dev_next(rt, d));) {
        _Atomic uint64_t *words = d->d->fault_word;
        if (tidei_unlikely(words && atomic_load_explicit(words, memory_order_relaxed)))
            status = report_fault(words, op);
    }
    return status;
}
