/* submit.c: submissions of one operation each: copies, fills, launches. Where the calling thread
** captures they become nodes of its capture. */
#include "runtime/memory/bounce.h"
#include "runtime/memory/capture.h"
#include "runtime/memory/storage.h"

/* ---- copies ---- */

/* From host memory to host memory the driver waits for the stream whatever the size. */
static bool waits_itself(const tidei_dev *d, tidei_copy_kind kind, const tidei_storage *dst,
                         const tidei_storage *src, size_t bytes) {
    const tidei_device_info *info = &d->d->info;
    if (!(info->flags & TIDEI_DEV_COPIES_WAIT)) return false;
    if (kind == TIDEI_COPY_H2D)
        return bytes > info->staged_bytes || dst->pool->kind == TIDEI_MEM_PINNED;
    return kind == TIDEI_COPY_D2H ||
           (dst->pool->kind == TIDEI_MEM_PINNED && src->pool->kind == TIDEI_MEM_PINNED);
}

/* Where the copy itself would wait, this waits first for all that it would wait for: so the wait is
** not under the stream's lock, is counted, comes after the policy was asked, and no collector waits
** for this thread. */
static tide_status wait_first(tidei_stream *s, const tidei_use *uses, unsigned n) {
    tide_status status = tidei_stream_wait(s, false);
    for (unsigned i = 0; i < n && status == TIDE_OK; i++) status = tidei_use_wait(&uses[i]);
    return status;
}

/* Even if it fails, the device no longer uses the host's side afterwards. */
static tide_status wait_for_copy(tidei_stream *s, bool quiet, const char *op) {
    return tidei_submit_wait(s, quiet) == TIDE_OK ? TIDE_OK : tidei_fail_as(op);
}

tide_status tidei_submit_copy(tidei_stream *s, tidei_copy_kind kind, tidei_storage *dst,
                              size_t dst_offset, void *host, tidei_storage *src, size_t src_offset,
                              size_t bytes, const char *op) {
    if (!bytes) return TIDE_OK;
    tidei_use uses[2];
    unsigned n = 0;
    if (kind != TIDEI_COPY_D2H) uses[n++] = (tidei_use){dst, dst_offset, bytes, TIDEI_WRITE};
    if (kind != TIDEI_COPY_H2D) uses[n++] = (tidei_use){src, src_offset, bytes, TIDEI_READ};
    tidei_capture *capture = tidei_capturing(s->dev->rt);
    if (tidei_unlikely(capture != NULL))
        return kind == TIDEI_COPY_D2D
                   ? tidei_capture_copy(capture, &uses[1], &uses[0], op)
                   : tidei_capture_refused(s->dev->rt, op, "copies from or to the host");
    tidei_submission w;
    bool busy = false, waits = waits_itself(s->dev, kind, dst, src, bytes);
    tide_status status = waits ? tidei_uses_return(s, uses, n, op) : TIDE_OK;
    if (status != TIDE_OK) return status;
    if (waits) status = wait_first(s, uses, n);
    if (status != TIDE_OK) return tidei_fail_as(op);
    if (waits && kind != TIDEI_COPY_D2D &&
        tidei_bounce_copy(s, kind, uses[0].st, uses[0].offset, host, bytes, op, &status))
        return status;
    status = tidei_submit_begin(&w, s, uses, n, op);
    if (status != TIDE_OK) return status;
    tidei_copy c = {.kind = kind, .bytes = bytes, .busy = &busy};
    c.dst = kind == TIDEI_COPY_D2H ? (tidei_addr)(uintptr_t)host : w.ranges[0].addr;
    c.src = kind == TIDEI_COPY_H2D ? (tidei_addr)(uintptr_t)host : w.ranges[n - 1].addr;
    tidei_count_locked(&s->copies);
    status = tidei_submit_end(&w, s->dev->d->ops->copy(s->dev->d, s->ds, &c));
    if (status != TIDE_OK || kind == TIDEI_COPY_D2D) return status;
    if (busy) return wait_for_copy(s, waits, op);
    if (kind == TIDEI_COPY_D2H) tidei_stream_reached(s, w.tick);
    return TIDE_OK;
}

tide_status tidei_submit_upload(tidei_stream *s, tidei_storage *dst, size_t dst_offset,
                                tidei_storage *pinned, size_t offset, size_t bytes,
                                const char *op) {
    if (!bytes) return TIDE_OK;
    const tidei_use uses[2] = {{dst, dst_offset, bytes, TIDEI_WRITE},
                               {pinned, offset, bytes, TIDEI_READ}};
    tidei_submission w;
    bool busy; /* given to the device table, so that it never waits for pinned memory */
    tide_status status = tidei_submit_begin(&w, s, uses, 2, op);
    if (status != TIDE_OK) return status;
    tidei_copy c = {TIDEI_COPY_H2D, w.ranges[0].addr, w.ranges[1].addr, bytes, &busy};
    tidei_count_locked(&s->copies);
    return tidei_submit_end(&w, s->dev->d->ops->copy(s->dev->d, s->ds, &c));
}

tide_status tidei_submit_fill(tidei_stream *s, tidei_storage *dst, size_t offset,
                              const void *pattern, size_t width, size_t count, const char *op) {
    if (!count) return TIDE_OK;
    tidei_use use = {dst, offset, width * count, TIDEI_WRITE};
    tidei_capture *capture = tidei_capturing(s->dev->rt);
    if (tidei_unlikely(capture != NULL))
        return tidei_capture_fill(capture, &use, pattern, width, op);
    tidei_submission w;
    tide_status status = tidei_submit_begin(&w, s, &use, 1, op);
    if (status != TIDE_OK) return status;
    tidei_count_locked(&s->launches);
    return tidei_submit_end(
        &w, s->dev->d->ops->fill(s->dev->d, s->ds, w.ranges[0].addr, pattern, width, count));
}

/* Adds the addresses of the submission to the words of the parameters. */
static void add_addresses(const tidei_submission *w, char *params, const size_t *at) {
    for (unsigned i = 0; params && i < w->n; i++) {
        char *word = params + (at ? at[i] : i * sizeof(tidei_addr));
        tidei_addr address;
        memcpy(&address, word, sizeof address);
        address += w->ranges[i].addr;
        memcpy(word, &address, sizeof address);
    }
}

tide_status tidei_submit_launch(tidei_stream *s, const tidei_use *uses, unsigned n, tidei_launch *l,
                                void *params, const size_t *at, const char *op) {
    tidei_capture *capture = tidei_capturing(s->dev->rt);
    if (tidei_unlikely(capture != NULL)) return tidei_capture_launch(capture, uses, n, l, at, op);
    tidei_submission w;
    tide_status status = tidei_submit_begin(&w, s, uses, n, op);
    if (status != TIDE_OK) return status;
    add_addresses(&w, params, at);
    l->ranges = w.ranges;
    l->nranges = n;
    tidei_count_locked(&s->launches);
    return tidei_submit_end(&w, s->dev->d->ops->launch(s->dev->d, s->ds, l));
}
