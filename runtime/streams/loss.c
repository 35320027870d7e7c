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
    static const char *const names[TIDEI_FAULT_BY_COUNT] = {
        [TIDEI_FAULT_BY_TAKE] = "tide_take",
        [TIDEI_FAULT_BY_INDEX] = "tide_index",
        [TIDEI_FAULT_BY_INDEX_PUT] = "tide_index_put",
        [TIDEI_FAULT_BY_TAKE_ALONG] = "tide_take_along_axis",
        [TIDEI_FAULT_BY_PUT_ALONG] = "tide_put_along_axis",
        [TIDEI_FAULT_BY_SCATTER_PUT] = "tide_scatter_put",
        [TIDEI_FAULT_BY_SCATTER_ADD] = "tide_scatter_add",
        [TIDEI_FAULT_BY_SCATTER_MUL] = "tide_scatter_mul",
        [TIDEI_FAULT_BY_SCATTER_MIN] = "tide_scatter_min",
        [TIDEI_FAULT_BY_SCATTER_MAX] = "tide_scatter_max",
        [TIDEI_FAULT_BY_SEGMENT_SUM] = "tide_segment_sum",
        [TIDEI_FAULT_BY_SEGMENT_MEAN] = "tide_segment_mean",
        [TIDEI_FAULT_BY_SEGMENT_MIN] = "tide_segment_min",
        [TIDEI_FAULT_BY_SEGMENT_MAX] = "tide_segment_max",
        [TIDEI_FAULT_BY_SEGMENT_SUM_OFFSETS] = "tide_segment_sum_offsets",
        [TIDEI_FAULT_BY_SEGMENT_MEAN_OFFSETS] = "tide_segment_mean_offsets",
        [TIDEI_FAULT_BY_SEGMENT_MIN_OFFSETS] = "tide_segment_min_offsets",
        [TIDEI_FAULT_BY_SEGMENT_MAX_OFFSETS] = "tide_segment_max_offsets",
    };
    unsigned by = tidei_fault_by(word);
    return by < TIDEI_FAULT_BY_COUNT && names[by] ? names[by] : "a kernel";
}

/* What was wrong with the number that a report names, and what was done about it. */
static const char *const wrong[] = {[TIDEI_FAULT_INDEX] = "index",
                                    [TIDEI_FAULT_SKIPPED] = "index",
                                    [TIDEI_FAULT_OFFSET] = "offset"};
static const char *const done[] = {[TIDEI_FAULT_INDEX] = "; the nearest valid one was read",
                                   [TIDEI_FAULT_SKIPPED] = "; its element was left out",
                                   [TIDEI_FAULT_OFFSET] =
                                       ", or below the one before it; segments are wrong"};

static tide_status report_fault(_Atomic uint64_t *words, const char *op) {
    uint64_t word = claim_report(words), index = words[1], bound = words[2];
    unsigned kind = word & 0xff;
    char number[24];
    if (!word) return TIDE_OK;
    if (kind >= TIDEI_COUNT(wrong)) kind = TIDEI_FAULT_INDEX;
    atomic_store(words, TIDEI_FAULT_NONE);
    tidei_format(number, sizeof number, word & TIDEI_FAULT_UNSIGNED ? "%" PRIu64 : "%" PRId64,
                 index);
    return tidei_fail(TIDE_E_BOUNDS, op,
                      "%s: %s %s is out of range for %" PRIu64
                      " elements, in work done before this point%s",
                      raised_by(word), wrong[kind], number, bound, done[kind]);
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
