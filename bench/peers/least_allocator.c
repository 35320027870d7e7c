/* least_allocator.c: the least that an allocator plugged into PyTorch can do: one lock, free lists
** by size, no order among streams, nothing ever given back. For bench/peers/torch_pluggable.py,
** which compiles it as a shared object. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#define GRANULE 512
#define SIZES   65536 /* beside each other by hash; a list holds blocks of one size alone */

typedef struct block {
    struct block *next;
    uint64_t addr;
} block;

static struct {
    pthread_mutex_t lock;
    struct {
        size_t bytes;
        block *free;
    } of[SIZES];
    block *records; /* without a block */
    int (*alloc)(uint64_t *, size_t);
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t place_of(size_t bytes) {
    size_t i = bytes / GRANULE * 0x9e3779b97f4a7c15u >> 48;
    while (all.of[i].bytes && all.of[i].bytes != bytes) i = (i + 1) % SIZES;
    all.of[i].bytes = bytes;
    return i;
}

static size_t rounded(ssize_t size) {
    return ((size_t)size + GRANULE - 1) / GRANULE * GRANULE + (size ? 0 : GRANULE);
}

static void *from_driver(size_t bytes) {
    uint64_t addr = 0;
    if (!all.alloc) {
        void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
        if (cuda) *(void **)&all.alloc = dlsym(cuda, "cuMemAlloc_v2");
    }
    return all.alloc && !all.alloc(&addr, bytes) ? (void *)(uintptr_t)addr : NULL;
}

void *least_malloc(ssize_t size, int device, void *stream) {
    size_t bytes = rounded(size);
    (void)device, (void)stream;
    pthread_mutex_lock(&all.lock);
    size_t i = place_of(bytes);
    block *b = all.of[i].free;
    void *p = NULL;
    if (b) {
        p = (void *)(uintptr_t)b->addr;
        all.of[i].free = b->next;
        b->next = all.records;
        all.records = b;
    } else {
        p = from_driver(bytes);
    }
    pthread_mutex_unlock(&all.lock);
    return p;
}

void least_free(void *p, ssize_t size, int device, void *stream) {
    (void)device, (void)stream;
    pthread_mutex_lock(&all.lock);
    block *b = all.records;
    if (b)
        all.records = b->next;
    else
        b = malloc(sizeof *b);
    if (b) {
        size_t i = place_of(rounded(size));
        *b = (block){all.of[i].free, (uint64_t)(uintptr_t)p};
        all.of[i].free = b;
    }
    pthread_mutex_unlock(&all.lock);
}
