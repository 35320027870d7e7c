/* device.h: the device table: what the runtime asks of a device, which is a memory space with
** streams. Each back-end is a folder that fills the table.
**
** Above this table, in the runtime: ticks, the seen vectors, hazards, pools, limits. Below it:
** addresses, pages, queues. So the code that tests exercise on the `host` device is the code that
** runs on `cuda`.
**
** Rules for every slot: callable from any thread, several at a time, unless it says otherwise; a
** slot calls nothing of the runtime but tidei_fail (the log's callback may make any call, so what
** is to be logged waits for `speak`); failure sets the thread's error (tidei_fail) and returns its
** code; a failure that leaves the device unusable returns TIDE_E_LOST, sets dev->lost, and every
** later slot but the releasing ones returns TIDE_E_LOST at once. TIDE_E_NOMEM means that device
** memory is short, and nothing else; where pinned memory is short, which is the host's, it is
** TIDE_E_HOST_NOMEM. Slots that queue work return without waiting for it. */
#ifndef TIDEI_DEVICE_H
#define TIDEI_DEVICE_H

#include "runtime/base/instance.h"
#include "runtime/base/memory_kind.h"

typedef uint64_t tidei_addr; /* an address in the device's space; 0 is none */

typedef struct tidei_device tidei_device;
typedef struct tidei_dstream tidei_dstream; /* the back-end's own structs */
typedef struct tidei_devent tidei_devent;
typedef struct tidei_dpage tidei_dpage;
typedef struct tidei_dkernel tidei_dkernel;
typedef struct tidei_dmempool tidei_dmempool;
typedef struct tidei_dgraph tidei_dgraph;

/* A stretch of device memory that an operation reads or writes: for the host device's checker and
** ThreadSanitizer. A strided operand's range is all that it spans. */
enum { TIDEI_READ = TIDE_READ, TIDEI_WRITE = TIDE_WRITE };
typedef struct tidei_range {
    tidei_addr addr;
    size_t bytes;
    unsigned mode;
} tidei_range;

enum {                          /* tidei_device_info.flags */
       TIDEI_DEV_RUNS_TEXT = 1, /* kernels are CUDA C text (kernel_new) */
       TIDEI_DEV_RUNS_HOST = 2, /* kernels are host functions */
       TIDEI_DEV_PAGES = 4,     /* reserve/page_* work; otherwise only raw_alloc */
       /* copies wait for the stream's work, where host memory is not pinned: see `copy` */
       TIDEI_DEV_COPIES_WAIT = 8,
       /* there is unified memory, and the host may touch it while the device works */
       TIDEI_DEV_UNIFIED = 16,
       TIDEI_DEV_GRAPHS = 32 /* the graph slots work */
};

#define TIDEI_CLUSTER_SURE 8u /* blocks of a cluster that every device with clusters takes */

typedef struct tidei_device_info {
    char name[16];  /* "cuda:0" */
    char model[96]; /* "NVIDIA H200" */
    unsigned flags;
    int ordinal, count;      /* its number among the devices of this kind, and how many there are */
    size_t graph_node_bytes; /* of device memory that a node of a graph takes, about */
    size_t page_bytes;       /* smallest page; others are multiples of it */
    size_t align;            /* alignment of blocks: a power of two >= 16 */
    size_t total_bytes;      /* of the device; on host: its ceiling */
    /* how much address space a pool should reserve, and total_bytes at least */
    size_t va_bytes;
    /* copies from the host up to this size have read its memory when the call returns, and wait for
    ** nothing */
    size_t staged_bytes;
    /* ns that it usually takes to make a byte of new memory usable, first touch included */
    double fresh_ns;
    int sm_major, sm_minor, sm_count, max_threads; /* cuda */
    /* blocks of a cluster at most, 0 or 1 where there are none; of more than TIDEI_CLUSTER_SURE
    ** kernel_widen has to be asked */
    unsigned cluster_most;
} tidei_device_info;

typedef enum { TIDEI_COPY_H2D, TIDEI_COPY_D2H, TIDEI_COPY_D2D } tidei_copy_kind;
typedef struct tidei_copy {
    tidei_copy_kind kind;
    tidei_addr dst, src; /* device addresses; the host side is a pointer cast to uintptr_t */
    size_t bytes;        /* > 0 */
    /* (may be NULL) Set by a successful copy from or to the host: the device still uses the host's
    ** side on return, until the stream's work so far is complete. */
    bool *busy;
} tidei_copy;

/* A copy within the device's memory. */
typedef struct tidei_piece {
    tidei_addr dst, src;
    size_t bytes;
} tidei_piece;

typedef void (*tidei_host_fn)(const void *params);
typedef struct tidei_launch {
    const char *name;      /* for errors and traces; static or outliving the work */
    tidei_dkernel *kernel; /* devices that run text */
    tidei_host_fn host_fn; /* devices that run host functions */
    /* one by-value struct, copied by the call; at most TIDEI_PARAMS_MAX bytes */
    const void *params;
    size_t params_bytes;
    unsigned grid[3], block[3]; /* text only; each >= 1 */
    unsigned shared_bytes;      /* at most 48 KiB, what every kernel may use */
    const tidei_range *ranges;  /* what it touches; copied by the call */
    unsigned nranges;
    /* where in the parameters the scalars of an expression's call lie, 16 bytes each; 0: nowhere.
    ** For captures (memory/capture.h), devices do not look at it */
    size_t scalars_at;
    /* it may write the device's fault word: it matters though nobody reads what it writes. For
    ** captures, too */
    bool tells;
} tidei_launch;
#define TIDEI_PARAMS_MAX 4096

/* What a node of a graph touches: bytes of one of the graph's slots, from `offset` behind the
** slot's address on. */
typedef struct tidei_graph_range {
    unsigned slot, mode;
    size_t offset, bytes;
} tidei_graph_range;

/* A node's parameters for one launch of the graph, in place of those that it was added with. */
typedef struct tidei_graph_params {
    unsigned node;
    const void *params;
} tidei_graph_params;

/* Attributes of a driver's pool. The threshold is in bytes, at first 0: what is free beyond it goes
** back when the host waits for a stream. The others are 0 or 1, at first 1: may a stream get memory
** that other streams freed ... */
typedef enum {
    TIDEI_MEMPOOL_THRESHOLD,
    TIDEI_MEMPOOL_REUSE_FOLLOW, /* ... if it waits for them */
    TIDEI_MEMPOOL_REUSE_DONE,   /* ... if the free is past */
    TIDEI_MEMPOOL_REUSE_WAIT    /* ... by being made to wait */
} tidei_mempool_attr;

typedef enum {
    TIDEI_ADVICE_NONE,
    TIDEI_ADVICE_READ_MOSTLY,
    TIDEI_ADVICE_DEVICE,
    TIDEI_ADVICE_HOST
} tidei_advice;

typedef struct tidei_kernel_text {
    const char *name;   /* of the extern "C" __global__ function */
    const char *source; /* CUDA C without includes */
    const void *image;  /* a cubin to load instead of compiling, or NULL */
    size_t image_bytes;
    /* The kernel begins with kt_grid_wait (arrays/kernels/text.h): it may start while ours before
    ** it run. */
    bool waits;
} tidei_kernel_text;

struct tidei_device_ops {
    const char *name;

    /* ---- memory ---- */
    /* Reserves addresses without memory; bytes > 0, a multiple of page_bytes. TIDE_E_HOST_NOMEM or
    ** TIDE_E_NOMEM where there are not so many addresses; fewer may do. */
    tide_status (*reserve)(tidei_device *d, size_t bytes, tidei_addr *out);
    void (*unreserve)(tidei_device *d, tidei_addr addr, size_t bytes);
    /* A page of device memory, mapped nowhere yet. bytes: a multiple of page_bytes. */
    tide_status (*page_new)(tidei_device *d, size_t bytes, tidei_dpage **out);
    /* The page is not mapped, unless unmapping it failed. Then its memory goes all the same, and
    ** its addresses, which nobody uses any more, go with their reservation. */
    void (*page_release)(tidei_device *d, tidei_dpage *p);
    /* Maps n pages one after the other at addr (inside a reservation) and grants access, in one
    ** step where it can. On failure nothing stays mapped. Contents survive unmapping and mapping at
    ** another address. */
    tide_status (*map)(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
    /* The caller has made sure that no queued work touches the range. */
    tide_status (*unmap)(tidei_device *d, tidei_addr addr, tidei_dpage *const *pages, size_t n);
    /* Memory straight from the driver. raw_free may wait for the whole device. Unified memory is
    ** TIDE_E_UNSUPPORTED without TIDEI_DEV_UNIFIED, and TIDE_E_NOMEM where all unified memory, with
    ** this, would not fit into what the card has free: more than that can hang a GPU. */
    tide_status (*raw_alloc)(tidei_device *d, tidei_mem_kind kind, size_t bytes, tidei_addr *out);
    void (*raw_free)(tidei_device *d, tidei_mem_kind kind, tidei_addr addr, size_t bytes);
    /* (may be NULL: there is nothing to do) prefetch: moves unified memory to the host or to the
    ** device, in the stream's order. advise: says what the range will be used for, until the next
    ** advice. Both cover the pages that the range lies in. */
    tide_status (*prefetch)(tidei_device *d, tidei_dstream *s, tidei_addr addr, size_t bytes,
                            bool to_host);
    tide_status (*advise)(tidei_device *d, tidei_addr addr, size_t bytes, tidei_advice advice);
    /* (may be NULL) Tells the checker that the host is about to read or write the range (begins),
    ** or has done so. The checker reports work that the host did not wait for, and work queued in
    ** between that conflicts. Begin may fail with TIDE_E_HOST_NOMEM. */
    tide_status (*host_use)(tidei_device *d, const char *op, const tidei_range *r, bool begins);
    /* (both NULL: all devices of this kind share one space, and there is nothing to enable)
    ** peer_possible: whether d's work could use device memory of `other`, another device of the
    ** kind. peer_enable: from now on it can use all of it, present and future: pages, raw memory,
    ** blocks of the driver's pools. Enabling twice is legal, and waits for nothing;
    ** TIDE_E_UNSUPPORTED where it is not possible after all. */
    bool (*peer_possible)(tidei_device *d, tidei_device *other);
    tide_status (*peer_enable)(tidei_device *d, tidei_device *other);
    /* How much memory the driver says is free, and how much there is; all processes count. */
    tide_status (*memory)(tidei_device *d, size_t *free_bytes, size_t *total_bytes);

    /* ---- pools of the driver's own: memory in stream order ---- */
    /* (NULL where there are none) TIDE_E_UNSUPPORTED where this device or its driver lacks them. */
    tide_status (*mempool_new)(tidei_device *d, tidei_dmempool **out);
    /* called when all blocks are freed and all work is complete */
    void (*mempool_release)(tidei_device *d, tidei_dmempool *mp);
    /* A block for work that comes after this call on s, or after waits for that moment. */
    tide_status (*mempool_alloc)(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                 size_t bytes, tidei_addr *out);
    /* Frees the block, for others to get once the work queued on s so far is complete; s NULL: at
    ** once, as no queued work uses it. On failure the block stays the caller's. s NULL never
    ** fails. */
    tide_status (*mempool_free)(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                tidei_addr addr);
    tide_status (*mempool_set)(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                               uint64_t value);
    /* Gives back memory whose free is past, until at most `keep` bytes are held if that is
    ** possible. */
    tide_status (*mempool_trim)(tidei_device *d, tidei_dmempool *mp, size_t keep);
    /* *reserved: bytes taken from the device; of these, bytes in blocks. */
    tide_status (*mempool_figures)(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                   size_t *used);

    /* ---- streams, events, the completion word ---- */
    tide_status (*stream_new)(tidei_device *d, tidei_dstream **out);
    /* (NULL where there are none) Makes a stream of ours around a native stream of the program's;
    ** NULL is the device's default one. The native stream stays the program's, and lives until ours
    ** is released and its work complete. */
    tide_status (*stream_adopt)(tidei_device *d, void *native, tidei_dstream **out);
    /* called when its work is complete (or the device lost) */
    void (*stream_release)(tidei_device *d, tidei_dstream *s);
    /* Even if it fails, nothing queued before uses the host's memory any more. */
    tide_status (*stream_sync)(tidei_device *d, tidei_dstream *s);
    void *(*stream_native)(tidei_device *d, tidei_dstream *s);
    /* (may be NULL: nothing to be done) Others queue on the native stream, from now on, or `once`:
    ** before the next launch of ours, and the caller keeps that from coming first. Their work may
    ** end though what is before it runs, so the launches behind it do not start early. An adopted
    ** stream is always so. */
    void (*stream_lend)(tidei_device *d, tidei_dstream *s, bool once);
    /* (may be NULL: always TIDE_OK) Whether work may be queued on an adopted stream now:
    ** TIDE_E_UNSUPPORTED while its owner captures a graph on it. Work recorded in a graph runs when
    ** the graph is launched, at no moment that a tick could name, and its memory would be reused
    ** meanwhile. Slots that queue work refuse it too. */
    tide_status (*stream_usable)(tidei_device *d, tidei_dstream *s);
    tide_status (*event_new)(tidei_device *d, tidei_devent **out);
    void (*event_release)(tidei_device *d, tidei_devent *e);
    tide_status (*event_record)(tidei_device *d, tidei_devent *e,
                                /* replaces an earlier record */
                                tidei_dstream *s);
    /* s waits, on the device */
    tide_status (*event_wait)(tidei_device *d, tidei_devent *e, tidei_dstream *s);
    /* Queues the write of `tick` to the stream's completion word, after the work queued so far.
    ** Ticks rise. */
    tide_status (*publish)(tidei_device *d, tidei_dstream *s, uint64_t tick);
    /* The last value written, a plain load where the device allows it; 0 at first. Never fails,
    ** never waits. */
    uint64_t (*completed)(tidei_device *d, tidei_dstream *s);

    /* ---- work ---- */
    /* H2D: `src` may be reused on return; with c->busy set, once the stream's work is complete.
    ** Only without c->busy may the call wait for the stream. D2H: `dst` is complete once the
    ** stream's work is. With TIDEI_DEV_COPIES_WAIT the call itself waits for that unless the host's
    ** side is pinned, and H2D beyond info.staged_bytes waits for the work before it: a caller that
    ** has something to do before a wait, or holds a lock, waits first. */
    tide_status (*copy)(tidei_device *d, tidei_dstream *s, const tidei_copy *c);
    /* (may be NULL: who asks need not know) Whether the device itself reads and writes the host's
    ** memory there: the program has pinned it, or the driver made it. What is not goes through the
    ** driver's own memory, at a fraction of the bus's speed. */
    bool (*host_pinned)(tidei_device *d, const void *host);
    /* Copies n pieces, in any order: no place that is written may overlap another place of the
    ** call. n and sizes may be 0. On failure some may have been queued; their sources are
    ** unchanged. */
    tide_status (*copy_many)(tidei_device *d, tidei_dstream *s, const tidei_piece *pieces,
                             size_t n);
    /* (may be NULL) Once copy_many has copied enough, makes later calls faster: compiles kernels,
    ** which takes 50 ms, and loads them, which may wait for the device. So it is called when the
    ** host has just waited, with no lock held. Cannot fail. */
    void (*copy_many_prepare)(tidei_device *d);
    /* Fills `count` elements of `width` bytes (1, 2, 4, 8, 16) with one pattern. */
    tide_status (*fill)(tidei_device *d, tidei_dstream *s, tidei_addr dst, const void *pattern,
                        size_t width, size_t count);
    /* (text devices, else NULL) Compiles (or loads the image) and returns the kernel. Takes 50 ms
    ** to compile. When it compiled, *image (malloc'ed, may be NULL if the caller passes NULL)
    ** receives the cubin, also if loading it failed. */
    tide_status (*kernel_new)(tidei_device *d, const tidei_kernel_text *t, tidei_dkernel **out,
                              void **image, size_t *image_bytes);
    /* (may be NULL) Compiles as kernel_new does, and loads nothing: *image, malloc'ed, is one for
    ** kernel_new. Needs neither the driver nor the device, so any thread will do. */
    tide_status (*kernel_compile)(tidei_device *d, const tidei_kernel_text *t, void **image,
                                  size_t *image_bytes);
    void (*kernel_release)(tidei_device *d, tidei_dkernel *k); /* no queued work uses it */
    /* (may be NULL: nothing to be done) Called before a kernel is launched whose clusters have so
    ** many blocks, more than TIDEI_CLUSTER_SURE, of up to so many threads and bytes of shared
    ** memory; maybe again, by several threads. TIDE_E_UNSUPPORTED: the device takes no such
    ** clusters, and the kernel is not launched. */
    tide_status (*kernel_widen)(tidei_device *d, tidei_dkernel *k, unsigned blocks,
                                unsigned threads, unsigned shared_bytes);
    tide_status (*launch)(tidei_device *d, tidei_dstream *s, const tidei_launch *l);

    /* ---- graphs: work that is described once and queued as a whole ---- */
    /* Called where TIDEI_DEV_GRAPHS says so, like all of them. Makes a graph without nodes.
    ** slots[i]: the address of slot i as it is now. One thread builds it. */
    tide_status (*graph_new)(tidei_device *d, const tidei_addr *slots, unsigned nslots,
                             tidei_dgraph **out);
    /* Adds a launch, to run behind those of the nodes before it that have bytes of its ranges in
    ** theirs, where one of the two writes them; nodes are numbered from 0 on. l->nranges many
    ** ranges. At each launch of the graph the address of ranges[i] is added to the word of the
    ** parameters at at[i], a multiple of 8. */
    tide_status (*graph_add)(tidei_device *d, tidei_dgraph *g, const tidei_launch *l,
                             const size_t *at, const tidei_graph_range *ranges);
    /* (both NULL where streams are no native ones) Between them what the calling thread queues on
    ** *native is not run, but becomes the next node, at the addresses that it was queued with, in n
    ** ranges. It runs behind all earlier nodes of that kind too: libraries have memory of their
    ** own. The thread calls nothing else of the device meanwhile. `keep` false: it becomes none. */
    tide_status (*graph_capture_begin)(tidei_device *d, tidei_dgraph *g, void **native);
    tide_status (*graph_capture_end)(tidei_device *d, tidei_dgraph *g, bool keep,
                                     const tidei_graph_range *ranges, unsigned n);
    /* Makes it ready for launches; no nodes are added any more. */
    tide_status (*graph_finish)(tidei_device *d, tidei_dgraph *g);
    /* Queues all nodes, or on failure none. slots: their addresses for this launch. params[0 .. n)
    ** rise by node. Launches of one graph, by any thread, on any streams, run one after the
    ** other. */
    tide_status (*graph_launch)(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                const tidei_addr *slots, const tidei_graph_params *params,
                                unsigned n);
    /* Launches that are queued go on. */
    void (*graph_release)(tidei_device *d, tidei_dgraph *g);

    /* Declares the device lost, because something has made it unusable. `why` is static. */
    void (*lose)(tidei_device *d, const char *why);
    /* (may be NULL) Logs what the device has found since the last call. Called with no lock held,
    ** on a thread that may call back into the runtime from the log's callback. */
    void (*speak)(tidei_device *d);
    void (*close)(tidei_device *d); /* streams, events, pages are released by now; frees d */
};

/* Every back-end's device begins with this. */
struct tidei_device {
    const struct tidei_device_ops *ops;
    tidei_device_info info; /* fixed once open */
    atomic_bool lost;
    /* Where kernels report an index out of range: TIDEI_FAULT_WORDS words of pinned memory, by the
    ** kernels' address and by the host's. The runtime takes a report at sync points. */
    tidei_addr fault_addr;
    _Atomic uint64_t *fault_word;
    const atomic_bool *findings;    /* (may be NULL) there is something for `speak` to log */
    const _Atomic double *fresh_ns; /* (may be NULL) the same as info.fresh_ns, as seen of late */
};
static inline double tidei_fresh_ns(const tidei_device *d) {
    return d->fresh_ns ? atomic_load_explicit(d->fresh_ns, memory_order_relaxed) : d->info.fresh_ns;
}
static inline void tidei_device_speak(tidei_device *d) {
    if (tidei_unlikely(d->findings && atomic_load_explicit(d->findings, memory_order_relaxed)))
        d->ops->speak(d);
}

/* A report. Its first word is tidei_fault_report's, or TIDEI_FAULT_NONE; the others are the index,
** as the index array has it, and how many elements there are to choose from. The first report
** counts: a thread that finds the first word 0 sets it to TIDEI_FAULT_WRITING by compare-and-swap,
** writes the other words, and then the first. The host takes a report by the same steps back to 0.
** So a kernel writes only over 0, the host only over a report, and no atomicity between them is
** needed. */
enum { TIDEI_FAULT_WORDS = 3 };
enum {
    TIDEI_FAULT_NONE = 0,
    TIDEI_FAULT_INDEX = 1,   /* the nearest valid one was read */
    TIDEI_FAULT_SKIPPED = 2, /* an index too, whose element was left out */
    TIDEI_FAULT_OFFSET = 3,  /* an offset below the one before it, or beyond the elements */
    TIDEI_FAULT_WRITING = 255
};                                   /* the first word's low byte: the kind */
enum { TIDEI_FAULT_UNSIGNED = 256 }; /* the index is unsigned */
enum {
    TIDEI_FAULT_BY_TAKE = 1,
    TIDEI_FAULT_BY_INDEX,
    TIDEI_FAULT_BY_INDEX_PUT,
    TIDEI_FAULT_BY_TAKE_ALONG,
    TIDEI_FAULT_BY_PUT_ALONG,
    TIDEI_FAULT_BY_SCATTER_PUT,
    TIDEI_FAULT_BY_SCATTER_ADD,
    TIDEI_FAULT_BY_SCATTER_MUL,
    TIDEI_FAULT_BY_SCATTER_MIN,
    TIDEI_FAULT_BY_SCATTER_MAX,
    TIDEI_FAULT_BY_SEGMENT_SUM,
    TIDEI_FAULT_BY_SEGMENT_MEAN,
    TIDEI_FAULT_BY_SEGMENT_MIN,
    TIDEI_FAULT_BY_SEGMENT_MAX,
    TIDEI_FAULT_BY_SEGMENT_SUM_OFFSETS,
    TIDEI_FAULT_BY_SEGMENT_MEAN_OFFSETS,
    TIDEI_FAULT_BY_SEGMENT_MIN_OFFSETS,
    TIDEI_FAULT_BY_SEGMENT_MAX_OFFSETS,
    TIDEI_FAULT_BY_COUNT
}; /* operations whose kernels report */
static inline uint64_t tidei_fault_report(unsigned kind, bool is_unsigned, unsigned by) {
    return kind | (is_unsigned ? TIDEI_FAULT_UNSIGNED : 0) | (uint64_t)by << 16;
}
static inline unsigned tidei_fault_by(uint64_t word) { return (unsigned)(word >> 16); }

/* Kernels that most programs' first calls want: where none was ever kept, they are compiled while
** the device opens, as many as that takes. */
#define TIDEI_EARLY_MAX 4
typedef struct tidei_early tidei_early;
struct tidei_early {
    const char *name; /* of all; static */
    /* The text of the i-th, malloc'ed; NULL: there is none, or host memory is exhausted. Called on
    ** a thread of our own. */
    char *(*text)(unsigned i);
    unsigned n; /* those that are compiled; text and image are malloc'ed */
    struct {
        char *text;
        void *image;
        size_t bytes;
    } made[TIDEI_EARLY_MAX];
};

void tidei_early_drop(tidei_early *e); /* runtime/device/cuda/nvrtc.c */

typedef struct tidei_device_params {
    int ordinal;
    int count;                 /* host: how many host devices there are; 0: not said */
    size_t host_device_memory; /* host: ceiling; 0: half of min(RAM, cgroup limit) */
    size_t host_page;          /* host: page_bytes; 0: 64 KiB */
    int host_threads;          /* host: that share large operations; 0: the processors */
    bool host_checker;         /* host: check the order of accesses */
    /* (may be NULL) host: another host device, which stays open as long. The two share the checker,
    ** as work of both may use the same memory */
    tidei_device *host_sibling;
    tidei_runtime *rt;  /* for tidei_log and tidei_host_alloc; may be NULL */
    tidei_early *early; /* (may be NULL) cuda: adds what was compiled */
} tidei_device_params;

tide_status tidei_host_open(const tidei_device_params *p, tidei_device **out);
tide_status tidei_cuda_open(const tidei_device_params *p, tidei_device **out);

/* ---- host device: for tests and reports (runtime/device/host/host.c) ---- */
/* unordered accesses found so far; each logs one line (warning) */
uint64_t tidei_host_checker_reports(tidei_device *d);
/* loses the device, as after an illegal address */
void tidei_host_lose(tidei_device *d, const char *why);
size_t tidei_host_default_memory(void);
/* How many more addresses the process may have (RLIMIT_AS, which `ulimit -v` sets); SIZE_MAX: no
** limit. */
size_t tidei_host_address_room(void);

/* ---- fault device: wraps any device and fails the n-th call (runtime/device/fault.c) ---- */
/* Wraps `inner`, which it owns from then on. */
tide_status tidei_fault_open(tidei_device *inner, tidei_device **out);
enum tidei_fault_slot {
    TIDEI_FAULT_ANY, /* counts calls of all slots that can fail */
    TIDEI_FAULT_RESERVE,
    TIDEI_FAULT_PAGE_NEW,
    TIDEI_FAULT_MAP,
    TIDEI_FAULT_UNMAP,
    TIDEI_FAULT_RAW_ALLOC,
    TIDEI_FAULT_PEER_ENABLE,
    TIDEI_FAULT_PREFETCH,
    TIDEI_FAULT_ADVISE,
    TIDEI_FAULT_MEMPOOL_NEW,
    TIDEI_FAULT_MEMPOOL_ALLOC,
    TIDEI_FAULT_MEMPOOL_FREE,
    TIDEI_FAULT_MEMPOOL_SET,
    TIDEI_FAULT_MEMPOOL_TRIM,
    TIDEI_FAULT_MEMPOOL_FIGURES,
    TIDEI_FAULT_STREAM_NEW,
    TIDEI_FAULT_STREAM_SYNC,
    TIDEI_FAULT_EVENT_NEW,
    TIDEI_FAULT_EVENT_RECORD,
    TIDEI_FAULT_EVENT_WAIT,
    TIDEI_FAULT_PUBLISH,
    TIDEI_FAULT_COPY,
    TIDEI_FAULT_COPY_MANY,
    TIDEI_FAULT_FILL,
    TIDEI_FAULT_KERNEL_NEW,
    TIDEI_FAULT_LAUNCH,
    TIDEI_FAULT_GRAPH_NEW,
    TIDEI_FAULT_GRAPH_ADD,
    TIDEI_FAULT_GRAPH_CAPTURE_BEGIN,
    TIDEI_FAULT_GRAPH_CAPTURE_END,
    TIDEI_FAULT_GRAPH_FINISH,
    TIDEI_FAULT_GRAPH_LAUNCH,
    TIDEI_FAULT_SLOTS
};
/* Makes the n-th call (1 is the next) of the slot fail with `status`; n = 0: none fails. `sticky`:
** all later ones too. */
void tidei_fault_set(tidei_device *d, enum tidei_fault_slot slot, uint64_t n, tide_status status,
                     bool sticky);
uint64_t tidei_fault_calls(tidei_device *d, enum tidei_fault_slot slot);
tidei_device *tidei_fault_inner(tidei_device *d);

/* The number by which users know a device of a runtime. */
static inline int tidei_dev_number(const tidei_dev *d) {
    const tidei_runtime *rt = d->rt;
    return (int)(((unsigned)rt->devs[0].d->info.ordinal + d->index) % rt->ndevs);
}

#endif
