/* transfer.c: copies from one storage to another, which may be another device's.
**
** Where the destination's device does not reach the source, and the destination is no memory that
** all reach, the bytes go in pieces through pinned memory: the source's device fills one buffer
** while the destination's empties the other. The buffers are storages like any other, so their
** stamps say which stream has to wait for which, and the host queues all of it at once. */
#include "runtime/streams/thread_device.h"
#include "runtime/memory/peers.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/memory/storage.h"
#include "runtime/streams/loss.h"

/* Long enough that handing a buffer over (some 10 us) takes little time beside the copy (0.15 ms at
** 55 GB/s). */
#define PIECE (8 * TIDEI_MIB)

struct buffers {
    unsigned n;
    size_t bytes; /* of one buffer */
    tidei_storage *at[2];
};

static void drop(struct buffers *b) {
    while (b->n) tidei_scratch_release(b->at[--b->n]);
}

static tide_status take(struct buffers *b, tidei_stream *s, size_t bytes, const char *op) {
    tidei_pool *pool;
    b->n = 0;
    b->bytes = tidei_min_size(bytes, PIECE);
    tide_status status = tidei_kind_pool(s->dev, TIDE_MEMORY_PINNED, op, &pool);
    if (status == TIDE_OK) status = tidei_scratch_new(pool, b->bytes, s, op, &b->at[0]);
    if (status != TIDE_OK) return status;
    b->n = 1;
    if (b->bytes == bytes) return TIDE_OK;
    tidei_saved_error e;
    tidei_error_save(&e);
    if (tidei_scratch_new(pool, b->bytes, s, op, &b->at[1]) == TIDE_OK)
        b->n = 2;
    else /* one buffer is enough */
        tidei_error_restore(&e);
    return TIDE_OK;
}

static tide_status staged(tidei_stream *to, tidei_stream *from, tidei_storage *dst,
                          size_t dst_offset, tidei_storage *src, size_t src_offset, size_t bytes,
                          const char *op) {
    struct buffers b;
    tide_status status = take(&b, to, bytes, op);
    for (size_t at = 0, i = 0; at < bytes && status == TIDE_OK; at += b.bytes, i++) {
        tidei_storage *half = b.at[i % b.n];
        size_t n = tidei_min_size(b.bytes, bytes - at);
        status =
            tidei_submit_copy(from, TIDEI_COPY_D2D, half, 0, NULL, src, src_offset + at, n, op);
        if (status == TIDE_OK)
            status =
                tidei_submit_copy(to, TIDEI_COPY_D2D, dst, dst_offset + at, NULL, half, 0, n, op);
    }
    drop(&b);
    return status;
}

tide_status tidei_submit_transfer(tidei_thread *t, tidei_storage *dst, size_t dst_offset,
                                  tidei_storage *src, size_t src_offset, size_t bytes,
                                  const char *op) {
    if (!bytes) return TIDE_OK;
    tidei_stream *s = tidei_thread_stream_on(t, dst->dev);
    if (tidei_likely(tidei_peer_possible(dst->dev, src)))
        return tidei_submit_copy(s, TIDEI_COPY_D2D, dst, dst_offset, NULL, src, src_offset, bytes,
                                 op);
    tidei_stream *from = tidei_thread_stream_on(t, src->dev);
    if (dst->pool->kind != TIDEI_MEM_DEVICE && tidei_peer_possible(src->dev, dst))
        return tidei_submit_copy(from, TIDEI_COPY_D2D, dst, dst_offset, NULL, src, src_offset,
                                 bytes, op);
    return staged(s, from, dst, dst_offset, src, src_offset, bytes, op);
}
