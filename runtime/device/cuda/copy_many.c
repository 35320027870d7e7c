/* copy_many.c: many pieces copied by one kernel of the `cuda` device.
**
** Model. The driver copies one piece a call, at 4.7 us a call: 28 GB/s for pieces of 64 KiB. So
** pieces go in batches. A batch is one launch with the pieces in its parameters: that keeps the
** stream's order, and nothing has to live until it is done. A batch is cut into chunks, one a
** thread block, whatever its pieces' sizes are, so that blocks have equally much to do. A block
** finds its piece by bisection. The driver copies large pieces and those that are not aligned. The
** kernels are compiled once a device, in copy_many_prepare, when they would already have been worth
** it. Until then, and where they cannot be had, the driver copies all pieces: blocks move when
** memory is short, and loading a module takes some. Memory may be short for a time only, so a
** failed preparation is repeated, but not every time: at the first, second, fourth, eighth ...
** call.
** What must stay true: the structs here and in the text are the same. */
#include "runtime/device/cuda/copy_many.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nvrtc.h"

#include <stdlib.h>

/* Parameters hold 4 KiB, and from CUDA 12.1 on, since Volta, 32764 bytes; a launch hands over all
** of them, used or not, so few pieces go in a small one. */
#define FEW              170
#define MANY             1364
#define LARGE_PARAMETERS 12010 /* the version of driver and compiler */
#define VOLTA            70

/* bytes; a thread has four words of 16 bytes under way: with 2048 threads a processor,
** plenty */
#define CHUNK   16384
#define THREADS 256
/* The driver's copies begin 11 us late (8 MiB: 1.1 TB/s, read and written) and end up a little
** faster (4.2 TB/s) than the kernel (4.0 TB/s): from here on the driver is as good, with 3 TB/s and
** more. */
#define LARGE (64 * TIDEI_MIB)

/* Pieces that were copied one by one: 5 ms of them make it likely that there will be as many as pay
** for the compiler. */
#define WORTH 1000

_Static_assert(CHUNK == 4 * 16 * THREADS, "a block copies a chunk in four rounds");

typedef struct part {
    tidei_cu_addr dst, src;
    unsigned int bytes;
    unsigned int first; /* the number of its first chunk, among all of the batch */
} part;
typedef struct batch {
    unsigned int n, chunks;
    part parts[MANY]; /* the kernel `few` has only FEW of them */
} batch;
_Static_assert(sizeof(batch) <= 32764 && offsetof(batch, parts[FEW]) <= 4096,
               "what parameters hold");

/* ---- the kernels ---- */

#define QUOTED(x) #x
#define TEXT(x)   QUOTED(x)
/* The parameter is read where it lies, by an index: its address is not taken, or it would be copied
** first. */
#define BODY                                                                                       \
    "struct BATCH { unsigned n, chunks; part parts[PIECES]; };\n"                                  \
    "extern \"C\" __global__ void __launch_bounds__(THREADS) COPY(const BATCH b) {\n"              \
    "    unsigned low = 0, high = b.n;\n"                                                          \
    "    while (high - low > 1) {\n"                                                               \
    "        unsigned middle = (low + high) / 2;\n"                                                \
    "        if (b.parts[middle].first <= blockIdx.x)\n"                                           \
    "            low = middle;\n"                                                                  \
    "        else\n"                                                                               \
    "            high = middle;\n"                                                                 \
    "    }\n"                                                                                      \
    "    unsigned at = (blockIdx.x - b.parts[low].first) * CHUNK, left = b.parts[low].bytes - "    \
    "at;\n"                                                                                        \
    "    const char *src = (const char *)(b.parts[low].src + at);\n"                               \
    "    char *dst = (char *)(b.parts[low].dst + at);\n"                                           \
    "    const uint4 *from = (const uint4 *)src;\n"                                                \
    "    uint4 *to = (uint4 *)dst;\n"                                                              \
    "    if (left >= CHUNK) {\n"                                                                   \
    "        uint4 word[4];\n"                                                                     \
    "#pragma unroll\n"                                                                             \
    "        for (int i = 0; i < 4; i++) word[i] = from[threadIdx.x + THREADS * i];\n"             \
    "#pragma unroll\n"                                                                             \
    "        for (int i = 0; i < 4; i++) to[threadIdx.x + THREADS * i] = word[i];\n"               \
    "        return;\n"                                                                            \
    "    }\n"                                                                                      \
    "    for (unsigned i = threadIdx.x; i < left / 16; i += THREADS) to[i] = from[i];\n"           \
    "    unsigned last = left / 16 * 16 + threadIdx.x;\n"                                          \
    "    if (last < left) dst[last] = src[last];\n"                                                \
    "}\n"
#define COMMON                                                                                     \
    "struct part { unsigned long long dst, src; unsigned bytes, first; };\n"                       \
    "#define CHUNK " TEXT(CHUNK) "u\n"                                                             \
                                 "#define THREADS " TEXT(THREADS) "u\n"
#define FEW_KERNEL                                                                                 \
    "#define COPY tide_copy_few\n#define BATCH few\n#define PIECES " TEXT(FEW) "\n" BODY
#define MANY_KERNEL                                                                                \
    "#undef COPY\n#undef BATCH\n#undef PIECES\n#define COPY tide_copy_many\n#define BATCH "        \
    "many\n#define "                                                                               \
    "PIECES " TEXT(MANY) "\n" BODY

const char tidei_cuda_copy_few[] = COMMON FEW_KERNEL;
const char tidei_cuda_copy_both[] = COMMON FEW_KERNEL MANY_KERNEL;

static tide_status load(tidei_cuda *c, const void *image, bool both) {
    tidei_cuda_copier *k = &c->copier;
    tidei_cu_module module;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter(c, &visit);
    if (status != TIDE_OK) return status;
    tidei_cu_result r = c->cu->cuModuleLoadData(&module, image);
    if (r == TIDEI_CU_SUCCESS) {
        r = c->cu->cuModuleGetFunction(&k->few, module, "tide_copy_few");
        if (r == TIDEI_CU_SUCCESS && both)
            r = c->cu->cuModuleGetFunction(&k->many, module, "tide_copy_many");
        if (r == TIDEI_CU_SUCCESS)
            k->module = module;
        else
            c->cu->cuModuleUnload(module);
    }
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "loading the kernels that copy");
}

static tide_status make(tidei_cuda *c, bool both) {
    void *image = NULL;
    size_t bytes;
    const char *text = both ? tidei_cuda_copy_both : tidei_cuda_copy_few;
    tide_status status = tidei_nvrtc_compile(text, "tide_copy", c->sm, &image, &bytes);
    if (status == TIDE_OK) status = load(c, image, both);
    free(image);
    return status;
}

/* Under the copier's lock. */
static void try_to_make(tidei_cuda *c) {
    tidei_cuda_copier *k = &c->copier;
    bool both = c->sm >= VOLTA && c->cu->version >= LARGE_PARAMETERS &&
                tidei_nvrtc_version() >= LARGE_PARAMETERS;
    k->tries++;
    if (k->hopeless || (k->tries & (k->tries - 1))) return;
    tide_status status = make(c, both);
    if (both && status == TIDE_E_DEVICE) {
        k->many = NULL;
        status = make(c, false);
    }
    atomic_store_explicit(&k->ready, status == TIDE_OK, memory_order_release);
    k->hopeless = status != TIDE_OK && status != TIDE_E_NOMEM && status != TIDE_E_HOST_NOMEM;
}

void tidei_cuda_copy_many_prepare(tidei_device *d) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_saved_error e;
    if (atomic_load(&c->copier.ready) || atomic_load(&c->copier.singly) < WORTH) return;
    if (atomic_load(&d->lost) || tidei_forked()) return;
    tidei_error_save(&e);
    pthread_mutex_lock(&c->copier.lock);
    if (!atomic_load(&c->copier.ready)) try_to_make(c);
    pthread_mutex_unlock(&c->copier.lock);
    tidei_error_restore(&e);
}

/* ---- copying ---- */

static tidei_cu_result copy_each(tidei_cuda *c, tidei_dstream *s, const batch *b) {
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    for (unsigned i = 0; i < b->n && r == TIDEI_CU_SUCCESS; i++)
        r = c->cu->cuMemcpyAsync(b->parts[i].dst, b->parts[i].src, b->parts[i].bytes, s->s);
    return r;
}

/* Queues the batch, and empties it. If the launch fails, the driver copies the pieces; if the
** device is at fault, those copies fail too. */
static tidei_cu_result flush(tidei_cuda *c, tidei_dstream *s, batch *b) {
    const tidei_cuda_copier *k = &c->copier;
    void *params[] = {b};
    if (!b->n) return TIDEI_CU_SUCCESS;
    tidei_cu_result r = c->cu->cuLaunchKernel(b->n <= FEW ? k->few : k->many, b->chunks, 1, 1,
                                              THREADS, 1, 1, 0, s->s, params, NULL);
    if (tidei_unlikely(r != TIDEI_CU_SUCCESS)) r = copy_each(c, s, b);
    b->n = b->chunks = 0;
    return r;
}

/* Whether the kernel can copy the piece. */
static bool suits(const tidei_piece *p) { return p->bytes < LARGE && (p->dst | p->src) % 16 == 0; }

static void add(batch *b, const tidei_piece *p) {
    b->parts[b->n++] =
        (part){.dst = p->dst, .src = p->src, .bytes = (unsigned int)p->bytes, .first = b->chunks};
    b->chunks += (unsigned int)((p->bytes + CHUNK - 1) / CHUNK);
}

tide_status tidei_cuda_copy_many(tidei_device *d, tidei_dstream *s, const tidei_piece *pieces,
                                 size_t n) {
    tidei_cuda *c = tidei_cuda_of(d);
    tidei_cu_result r = TIDEI_CU_SUCCESS;
    batch b;
    tidei_cuda_visit visit;
    tide_status status = tidei_cuda_enter_stream(c, s, &visit);
    if (status != TIDE_OK) return status;
    bool ready = atomic_load_explicit(&c->copier.ready, memory_order_acquire);
    unsigned room = ready && c->copier.many ? MANY : FEW;
    size_t singly = 0;
    b.n = b.chunks = 0;
    for (size_t i = 0; i < n && r == TIDEI_CU_SUCCESS; i++) {
        const tidei_piece *p = &pieces[i];
        if (!p->bytes) continue;
        if (!ready && suits(p)) singly++;
        if (!ready || !suits(p)) {
            r = c->cu->cuMemcpyAsync(p->dst, p->src, p->bytes, s->s);
            continue;
        }
        if (b.n == room) r = flush(c, s, &b);
        add(&b, p);
    }
    if (r == TIDEI_CU_SUCCESS) r = flush(c, s, &b);
    if (singly) atomic_fetch_add(&c->copier.singly, singly);
    tidei_cuda_leave(c, &visit);
    return tidei_cuda_status(c, r, "copying %zu pieces", n);
}
