/* batches.h: data that is larger than the device, batch by batch: the next one is uploaded while
** the current one is used.
**
** Two buffers of pinned host memory, each with a stream of its own, take turns. tide_batches_next
** hands out batch i, which is on its way already; gives the memory of batch i-1 back; copies the
** rows of batch i+1 into the buffer that batch i-1 had; and queues their upload. The host waits for
** nothing but that buffer, which was read long ago in a loop that queues work and goes on. Whatever
** stream uses a batch waits for its upload on the device. So at most two batches are on the
** device. */
#ifndef TIDE_BATCHES_H
#define TIDE_BATCHES_H

#include <tide/adapt.h>
#include <tide/base.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct tide_batches tide_batches;

/* Writes samples into host memory, for data that is in none: called where `host` of an array is
** NULL. out[k], of the k-th array (depth first), is memory for n samples, row-major, of its own
** dtype; NULL for arrays that are in memory. The samples are number samples[0] .. samples[n-1], or
** first .. first+n-1 where samples is NULL. Runs on the thread that calls tide_batches_next; a
** status but TIDE_OK is that call's result: TIDE_END where the data end earlier than was said. It
** may be asked for the same ones again. It may be left by longjmp (docs/embedding.md): the next
** call gives the batch that this one was about to give. */
typedef tide_status (*tide_batches_fill)(void *user, int64_t first, const int64_t *samples,
                                         int64_t n, void *const *out);

/* Zero everything, set struct_size = sizeof(tide_batches_config), fill in what matters. */
typedef struct tide_batches_config {
    size_t struct_size;
    /* Arrays in host memory, whose first axes count the samples and are of one length: `arrays`, or
    ** those of `source`, a structure whose type is registered (tide_adapt_register), groups in
    ** groups included. Both are copied; the elements are not, and stay as they are while batches
    ** are made of them. */
    const tide_data *arrays;
    size_t narrays;
    const char *type;
    const void *source;
    int64_t batch; /* samples of one batch, > 0 */
    int drop_last; /* TIDE_ON: a last batch that is shorter is left out. Default: it is kept */
    int narrow;    /* TIDE_ON: f64 becomes f32 and c128 c64, before the upload. Default: off */
    /* (may be NULL) Numbers of samples, in the order in which they come: a permutation, a choice,
    ** with repetitions too. Read as batches are made: it lives as long as the iterator, and may be
    ** shuffled before tide_batches_rewind. */
    const int64_t *order;
    int64_t norder;
    tide_batches_fill fill; /* (may be NULL) */
    void *user;
} tide_batches_config;

/* Makes an iterator, before the first batch, and its pinned memory: two batches, TIDE_E_HOST_NOMEM
** where there is no more. *out is the caller's until tide_batches_release. Device memory, of the
** thread's current device, is taken with the first batch. TIDE_E_INVALID: the configuration, as the
** message says; TIDE_E_SHAPE: an array whose length differs, or that has no axis; TIDE_E_BOUNDS: a
** number in `order`. An iterator serves one thread at a time, any; it is released before its
** runtime is closed, or ends with it. Waits where its pinned memory is one that an earlier
** iterator's upload still reads. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_batches_new(tide_runtime *rt,
                                                     const tide_batches_config *config,
                                                     tide_batches **out);

/* The next batch. `batch` is room for what the source was, `narrays` tide_data or one structure of
** its type, and becomes the same with arrays on the device, of this batch's samples. TIDE_END:
** there is no more; the thread's error is left alone. The arrays are the iterator's. At the next
** call, whatever it returns, and at rewind and release, they are freed as by tide_free; one that
** somebody has retained is let go of instead. Views keep the memory as they always do. A use of one
** that was freed is TIDE_E_FREED up to the call after, under every collector. What could not be
** prepared of the batch to come is no error yet, and is tried again when it is asked for: where one
** batch fits into memory and two do not, nothing fails and nothing overlaps. After a failure the
** call may be repeated. TIDE_E_BOUNDS: a number in `order`; another status: that of `fill`, or of a
** rule's `moved`. From inside `fill` it is TIDE_E_INVALID. Waits until the buffer that is filled
** next has been read. May collect. May block. */
TIDE_API TIDE_NODISCARD tide_status tide_batches_next(tide_batches *b, void *batch);

/* How many batches there are from first to last; 0 for NULL, and on failure. Never collects.
** Never blocks. */
TIDE_API int64_t tide_batches_count(const tide_batches *b);
/* Before the first batch again. The current batch is freed. NULL is legal; from inside `fill` it is
** the error TIDE_E_INVALID, and does nothing. Never collects. Never blocks. */
TIDE_API void tide_batches_rewind(tide_batches *b);
/* Frees the current batch, wherever it is among them, and all else. NULL is legal; from inside
** `fill` it is the error TIDE_E_INVALID, and does nothing. Never collects. Never blocks. */
TIDE_API void tide_batches_release(tide_batches *b);

#if defined(__cplusplus)
}
#endif
#endif
