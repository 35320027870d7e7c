/* device.h: what the files of the `cuda` device share.
**
** The device is thin: no slot that submits work takes a lock or allocates, but for a graph's. The
** context is the GPU's primary one, which cuBLAS, the CUDA runtime and other libraries of the
** process use too. Locks: the device's (which streams are taken); each stream's (its events); the
** copier's (making the kernels that copy); each graph's (what its nodes were told last); the peers'
** (what memory of the device there is, and which devices may use it). Each belongs to one device,
** and no thread holds two of them, of one device or of several: so two devices can be made each
** other's peers at once. Only the peers' lock is held over slow calls of the driver: a thread that
** maps memory waits for others that map or grant. */
#ifndef TIDEI_CUDA_DEVICE_H
#define TIDEI_CUDA_DEVICE_H

#include "runtime/device/device.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/base/instance.h"
#include "runtime/base/uncancelled.h"

#define TIDEI_CUDA_LINE 64 /* bytes; words that different parties write lie this far apart */
#define TIDEI_CUDA_PENDING                                                                         \
    32 /* events in flight a stream where streams cannot write words; then the last is moved on */

/* Structs of streams stay with the device, so that whoever looks at a completion word may be
** late. */
/* Who queues on a stream beside us. */
enum { TIDEI_CUDA_NOBODY, TIDEI_CUDA_ONCE, TIDEI_CUDA_ALWAYS };
struct tidei_dstream {
    tidei_cu_stream s;  /* NULL: free; under the device's lock */
    bool adopted;       /* somebody else's; under it too */
    _Atomic int others; /* TIDEI_CUDA_NOBODY ..., since the last launch */
    _Atomic uint64_t *word;
    tidei_cu_addr word_addr; /* as the GPU sees it */
    /* where streams cannot write words: published ticks with their events, oldest first */
    pthread_mutex_t lock;
    unsigned first, n;
    struct {
        tidei_cu_event event;
        uint64_t tick;
    } pending[TIDEI_CUDA_PENDING];
};

/* The driver's pages and pools. The device lists the mapped ones and the living ones, for who comes
** to use them later. */
struct tidei_dpage {
    tidei_cu_handle handle;
    size_t bytes;
    tidei_cu_addr addr; /* where it is mapped, 0: nowhere; under the peers' lock, like the rest */
    uint64_t run;       /* the call that mapped it */
    tidei_dpage *before, *next;
};
struct tidei_dmempool {
    tidei_cu_pool pool;
    tidei_dmempool *next;
};

/* A kernel as it is loaded. */
struct tidei_dkernel {
    tidei_cu_module module;
    tidei_cu_function function;
    bool waits; /* by itself, for the grids that it depends on */
};

/* Who may use this device's memory, and what there is of it (peers.c). */
#define TIDEI_CUDA_PEERS 32 /* the device itself among them */
typedef struct tidei_cuda_peers {
    pthread_mutex_t lock;      /* of all that follows */
    tidei_dpage *first, *last; /* the mapped pages, in the order in which they were mapped */
    uint64_t runs;
    tidei_dmempool *pools;
    _Atomic unsigned n; /* of `who`; it only grows: those below it are read without the lock */
    tidei_cu_access who[TIDEI_CUDA_PEERS];
} tidei_cuda_peers;

/* The kernels that copy many pieces (copy_many.c). */
typedef struct tidei_cuda_copier {
    pthread_mutex_t lock; /* held by who makes them */
    unsigned tries;       /* under the lock, like what follows */
    bool hopeless;
    _Atomic size_t singly; /* pieces that were copied without them */
    tidei_cu_module module;
    tidei_cu_function few, many; /* many: NULL where parameters are small; fixed once ready */
    atomic_bool ready;
} tidei_cuda_copier;

/* Whether a page can be handed to other processes by a file descriptor, and reached by other
** machines: both are fixed when it is made. */
enum { TIDEI_CUDA_BY_DESCRIPTOR = 1, TIDEI_CUDA_BY_RDMA = 2 };

typedef struct tidei_cuda {
    tidei_device d;
    const tidei_cu *cu;
    tidei_runtime *rt;
    bool stays; /* the context, on threads that have none */
    tidei_cu_device dev;
    tidei_cu_ctx ctx;
    int sm;                        /* 90 for 9.0 */
    bool write_value;              /* streams can write words */
    bool kernels_wait;             /* by themselves, those whose text says so */
    _Atomic size_t managed;        /* bytes of unified memory there are */
    tidei_cu_alloc_prop page_prop; /* but for what `shares` says */
    _Atomic unsigned shares;       /* TIDEI_CUDA_*: who else pages may be handed to */
    /* why: the driver's name of the error, or what `lose` was told; static */
    _Atomic(const char *) lost_since;
    char *words;          /* pinned: a line for the fault word, then one a stream */
    pthread_mutex_t lock; /* which streams are taken */
    tidei_cuda_copier copier;
    tidei_cuda_peers peers;
    struct tidei_dstream streams[TIDEI_STREAMS_MAX];
} tidei_cuda;

static inline tidei_cuda *tidei_cuda_of(tidei_device *d) { return (tidei_cuda *)d; }

/* Makes the context current for the calls of one slot. Another one, set by the program that embeds
** us, is put back by leave; where there was none, that of a runtime's first device stays: asking
** costs 20 ns, setting and putting back twice as much. A further device's does not, or the program
** would find another device current than it began with. The driver refuses where somebody has ended
** the context: then nothing may be called, for it would work in another one. From enter to leave
** the thread is not cancelled: any call may wait in the driver. */
typedef struct tidei_cuda_visit {
    bool pushed;
} tidei_cuda_visit;
static inline tidei_cu_result tidei_cuda_switch(tidei_cuda *c, tidei_cuda_visit *v) {
    tidei_cu_ctx now = NULL;
    tidei_guard_enter();
    if (tidei_likely(c->cu->cuCtxGetCurrent(&now) == TIDEI_CU_SUCCESS && now == c->ctx))
        return TIDEI_CU_SUCCESS;
    if (!now && c->stays) return c->cu->cuCtxSetCurrent(c->ctx);
    tidei_cu_result r = c->cu->cuCtxPushCurrent(c->ctx);
    v->pushed = r == TIDEI_CU_SUCCESS;
    return r;
}
static inline void tidei_cuda_leave(tidei_cuda *c, const tidei_cuda_visit *v) {
    tidei_cu_ctx ours;
    if (tidei_unlikely(v->pushed)) c->cu->cuCtxPopCurrent(&ours);
    tidei_guards_leave(1);
}

/* The status of a driver call, and its error: `what` names the call and its figures. */
__attribute__((format(printf, 3, 4))) tide_status
tidei_cuda_failed(tidei_cuda *c, tidei_cu_result r, const char *what, ...);
/* r may be the call itself: it is made once. */
#define tidei_cuda_status(c, r, ...)                                                               \
    __extension__({                                                                                \
        const tidei_cu_result result_ = (r);                                                       \
        tidei_likely(result_ == TIDEI_CU_SUCCESS) ? TIDE_OK                                        \
                                                  : tidei_cuda_failed((c), result_, __VA_ARGS__);  \
    })

/* Before the calls of a slot that can fail; leave must follow on success. TIDE_E_LOST,
** TIDE_E_FORKED. */
tide_status tidei_cuda_refuse(tidei_cuda *c);
static inline tide_status tidei_cuda_enter(tidei_cuda *c, tidei_cuda_visit *v) {
    *v = (tidei_cuda_visit){0};
    if (tidei_unlikely(atomic_load_explicit(&c->d.lost, memory_order_relaxed) || tidei_forked()))
        return tidei_cuda_refuse(c);
    tidei_cu_result r = tidei_cuda_switch(c, v);
    if (tidei_likely(r == TIDEI_CU_SUCCESS)) return TIDE_OK;
    tidei_cuda_leave(c, v);
    return tidei_cuda_failed(c, r, "making its context current");
}
/* The same for calls that queue on s: TIDE_E_UNSUPPORTED too, as `stream_usable` has it. */
tide_status tidei_cuda_refuse_capture(tidei_cuda *c, tidei_dstream *s);
static inline tide_status tidei_cuda_enter_stream(tidei_cuda *c, tidei_dstream *s,
                                                  tidei_cuda_visit *v) {
    tide_status status = tidei_cuda_enter(c, v);
    if (tidei_likely(!s->adopted) || status != TIDE_OK) return status;
    status = tidei_cuda_refuse_capture(c, s);
    if (status != TIDE_OK) tidei_cuda_leave(c, v);
    return status;
}

/* Before the calls of a releasing slot: also on a lost device, and without the context where it has
** ended, since what is released is named by the call alone. False in a fork's child, where nothing
** may be called. */
static inline bool tidei_cuda_enter_release(tidei_cuda *c, tidei_cuda_visit *v) {
    *v = (tidei_cuda_visit){0};
    if (tidei_forked()) return false;
    (void)tidei_cuda_switch(c, v);
    return true;
}

/* How the driver is told that work of c may use something. */
static inline tidei_cu_access tidei_cuda_access(const tidei_cuda *c) {
    return (tidei_cu_access){{TIDEI_CU_MEM_LOCATION_TYPE_DEVICE, c->dev},
                             TIDEI_CU_MEM_ACCESS_READWRITE};
}
/* What there is to grant. Under the peers' lock; `mapped` is one call's, in the order of
** addresses. */
void tidei_cuda_peers_mapped(tidei_cuda_peers *peers, tidei_cu_addr addr, tidei_dpage *const *pages,
                             size_t n);
void tidei_cuda_peers_unmapped(tidei_cuda_peers *peers, tidei_dpage *p);

/* The slots, by file. */
tide_status tidei_cuda_reserve(tidei_device *d, size_t bytes, tidei_addr *out);
void tidei_cuda_unreserve(tidei_device *d, tidei_addr addr, size_t bytes);
tidei_cu_alloc_prop tidei_cuda_page_prop(const tidei_cuda *c, unsigned shares);
/* Whether the driver may have refused what was asked for beside the memory: it says that it has
** both, but a container, say, may forbid them. */
bool tidei_cuda_refuses_sharing(tidei_cu_result r);
tide_status tidei_cuda_page_new(tidei_device *d, size_t bytes, tidei_dpage **out);
void tidei_cuda_page_release(tidei_device *d, tidei_dpage *p);
tide_status tidei_cuda_map(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
tide_status tidei_cuda_unmap(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
tide_status tidei_cuda_raw_alloc(tidei_device *d, tidei_mem_kind kind, size_t bytes,
                                 tidei_addr *out);
void tidei_cuda_raw_free(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes);
tide_status tidei_cuda_prefetch(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes,
                                bool to_host);
tide_status tidei_cuda_advise(tidei_device *d, tidei_addr addr, size_t bytes, tidei_advice advice);
tide_status tidei_cuda_memory(tidei_device *d, size_t *free_bytes, size_t *total_bytes);

bool tidei_cuda_peer_possible(tidei_device *d, tidei_device *other);
tide_status tidei_cuda_peer_enable(tidei_device *d, tidei_device *other);

tide_status tidei_cuda_mempool_new(tidei_device *d, tidei_dmempool **out);
void tidei_cuda_mempool_release(tidei_device *d, tidei_dmempool *mp);
tide_status tidei_cuda_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                     size_t bytes, tidei_addr *out);
tide_status tidei_cuda_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                    tidei_addr addr);
tide_status tidei_cuda_mempool_set(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                                   uint64_t value);
tide_status tidei_cuda_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep);
tide_status tidei_cuda_mempool_figures(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                       size_t *used);

tide_status tidei_cuda_stream_new(tidei_device *d, tidei_dstream **out);
tide_status tidei_cuda_stream_adopt(tidei_device *d, void *native, tidei_dstream **out);
void tidei_cuda_stream_release(tidei_device *d, tidei_dstream *s);
tide_status tidei_cuda_stream_sync(tidei_device *d, tidei_dstream *s);
void *tidei_cuda_stream_native(tidei_device *d, tidei_dstream *s);
void tidei_cuda_stream_lend(tidei_device *d, tidei_dstream *s, bool once);
tide_status tidei_cuda_stream_usable(tidei_device *d, tidei_dstream *s);
tide_status tidei_cuda_event_new(tidei_device *d, tidei_devent **out);
void tidei_cuda_event_release(tidei_device *d, tidei_devent *e);
tide_status tidei_cuda_event_record(tidei_device *d, tidei_devent *e, tidei_dstream *s);
tide_status tidei_cuda_event_wait(tidei_device *d, tidei_devent *e, tidei_dstream *s);
tide_status tidei_cuda_publish(tidei_device *d, tidei_dstream *s, uint64_t tick);
uint64_t tidei_cuda_completed(tidei_device *d, tidei_dstream *s);

tide_status tidei_cuda_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c);
bool tidei_cuda_host_pinned(tidei_device *d, const void *host);
tide_status tidei_cuda_copy_many(tidei_device *d, tidei_dstream *s, const tidei_piece *pieces,
                                 size_t n);
void tidei_cuda_copy_many_prepare(tidei_device *d);
tide_status tidei_cuda_fill(tidei_device *d, tidei_dstream *s, tidei_addr dst, const void *pattern,
                            size_t width, size_t count);
tide_status tidei_cuda_kernel_new(tidei_device *d, const tidei_kernel_text *t, tidei_dkernel **out,
                                  void **image, size_t *image_bytes);
tide_status tidei_cuda_kernel_compile(tidei_device *d, const tidei_kernel_text *t, void **image,
                                      size_t *image_bytes);
void tidei_cuda_kernel_release(tidei_device *d, tidei_dkernel *k);
tide_status tidei_cuda_kernel_widen(tidei_device *d, tidei_dkernel *k, unsigned blocks,
                                    unsigned threads, unsigned shared_bytes);
tide_status tidei_cuda_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l);

bool tidei_cuda_has_graphs(const tidei_cu *cu);
tide_status tidei_cuda_graph_new(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                                 tidei_dgraph **out);
tide_status tidei_cuda_graph_add(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                                 const size_t *at, const tidei_graph_range *ranges);
tide_status tidei_cuda_graph_capture_begin(tidei_device *d, tidei_dgraph *g, void **native);
tide_status tidei_cuda_graph_capture_end(tidei_device *d, tidei_dgraph *g, bool keep,
                                         const tidei_graph_range *ranges, unsigned n);
tide_status tidei_cuda_graph_finish(tidei_device *d, tidei_dgraph *g);
tide_status tidei_cuda_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                    const tidei_addr *slots, const tidei_graph_params *params,
                                    unsigned n);
void tidei_cuda_graph_release(tidei_device *d, tidei_dgraph *g);

#endif
