/* kernels.c: the kernels of a runtime: each source text compiled once a device, found again by its
** content.
**
** A table in memory, then the disk (cache.c), then what was compiled ahead (ahead.c), then the
** compiler. Whoever asks first for a
** text builds it, outside the lock; others who want the same wait for that one, others who want
** another build at the same time. Loading a kernel takes device memory: it climbs the ladder like
** any allocation. The library's own texts are found by their address, in a list that only grows: no
** lock, no look at the text. */
#include "arrays/kernels/kernels.h"
#include "arrays/arrays.h"
#include "arrays/kernels/ahead.h"
#include "arrays/kernels/cache.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"

#include <stdlib.h>
#include <xxhash.h>

#define BUCKETS 256 /* a program has tens of kernels, a long-lived one hundreds */

typedef struct kernel {
    struct kernel *next;
    tidei_dev *d;
    uint64_t hash;
    tidei_dkernel *k; /* NULL while it is being built */
    const char *name; /* name and source lie behind this struct */
    const char *source;
    /* used by the thread that builds it */
    tidei_dkernel *made;
    char *key;
    void *image; /* from the disk, compiled ahead, or from the compiler in an earlier attempt */
    size_t image_bytes;
} kernel;

/* A kernel of a text that never moves nor changes; once in the list, neither does this. */
typedef struct fixed {
    struct fixed *next;
    const tidei_dev *d;
    const char *name, *source;
    tidei_dkernel *k;
} fixed;

typedef struct tidei_kernels {
    pthread_mutex_t lock;
    pthread_cond_t built;
    uint64_t rounds; /* builds that ended, with success or without */
    kernel *buckets[BUCKETS];
    tidei_kernel_cache *cache;
    tidei_aheads *aheads;
    _Atomic(fixed *) fixed;
} tidei_kernels;

/* ---- the table ---- */

/* Under the lock. */
static kernel **place_of(tidei_kernels *ks, const kernel *w) {
    kernel **p = &ks->buckets[w->hash % BUCKETS];
    while (*p && !((*p)->hash == w->hash && (*p)->d == w->d && !strcmp((*p)->name, w->name) &&
                   !strcmp((*p)->source, w->source)))
        p = &(*p)->next;
    return p;
}

static kernel *new_kernel(const kernel *like) {
    size_t n = strlen(like->name) + 1, m = strlen(like->source) + 1;
    kernel *e = tidei_host_alloc(like->d->rt, sizeof *e + n + m);
    if (!e) return NULL;
    char *text = (char *)(e + 1);
    *e = (kernel){.d = like->d, .hash = like->hash, .name = text, .source = text + n};
    memcpy(text, like->name, n);
    memcpy(text + n, like->source, m);
    return e;
}

/* ---- building ---- */

/* All that decides what the compiler makes of the text. The text of the key is part of the entry on
** disk. */
static char *make_key(const kernel *e, size_t *bytes) {
    const tidei_device_info *info = &e->d->d->info;
    char *key = tidei_format_new("tidepool %s\nnvrtc %d\nsm %d.%d\noptions %s\nkernel %s\n%s",
                                 tide_version(), tidei_nvrtc_version(), info->sm_major,
                                 info->sm_minor, tidei_nvrtc_options(), e->name, e->source);
    if (key) *bytes = strlen(key);
    return key;
}

typedef struct building {
    kernel *e;
    bool compiled;
} building;

static tide_status attempt(void *arg, unsigned flags) {
    building *b = arg;
    kernel *e = b->e;
    tidei_device *d = e->d->d;
    tidei_kernel_text t = {.name = e->name,
                           .source = e->source,
                           .image = e->image,
                           .image_bytes = e->image_bytes,
                           .waits = true};
    void *made = NULL;
    size_t bytes = 0;
    (void)flags;
    tide_status s = d->ops->kernel_new(d, &t, &e->made, &made, &bytes);
    if (!e->image) {
        e->image = made;
        e->image_bytes = bytes;
        b->compiled = made != NULL || s == TIDE_OK;
    }
    return s;
}

static void drop_image(kernel *e) {
    free(e->image);
    e->image = NULL;
    e->image_bytes = 0;
}

static tide_status compile_and_load(building *b, const char *op) {
    tidei_runtime *rt = b->e->d->rt;
    uint64_t start = tidei_now_ns();
    tide_status s = tidei_outside_with_reclaim(b->e->d, TIDEI_LOADED_BYTES, op, attempt, b);
    if (b->compiled) {
        atomic_fetch_add(&rt->kernels_compiled, 1);
        tidei_log(rt, TIDE_LOG_DEBUG, "compiled kernel %s in %.1f ms", b->e->name,
                  (double)(tidei_now_ns() - start) / 1e6);
    }
    return s;
}

/* From the disk if it is there and loads. */
static bool load_kept(building *b, tidei_kernel_cache *cache, const char *key, size_t key_bytes,
                      const char *op, tide_status *s) {
    tidei_runtime *rt = b->e->d->rt;
    if (!key || !tidei_kernel_cache_find(cache, key, key_bytes, &b->e->image, &b->e->image_bytes))
        return false;
    *s = tidei_outside_with_reclaim(b->e->d, TIDEI_LOADED_BYTES, op, attempt, b);
    if (*s == TIDE_OK) atomic_fetch_add(&rt->kernels_loaded, 1);
    if (*s != TIDE_E_DEVICE) return true;
    /* The driver refuses it; it may have been made for another driver. */
    tidei_log(rt, TIDE_LOG_DEBUG, "kernel cache: %s does not load: %s", b->e->name,
              tide_error_last()->message);
    tidei_kernel_cache_forget(cache, key, key_bytes);
    drop_image(b->e);
    return false;
}

static tide_status build(tidei_kernels *ks, kernel *e, const char *op) {
    building b = {.e = e};
    size_t key_bytes = 0;
    tide_status s = TIDE_OK;
    e->key = make_key(e, &key_bytes); /* NULL: the disk is not used this time */
    if (!load_kept(&b, ks->cache, e->key, key_bytes, op, &s)) {
        b.compiled =
            e->key && tidei_ahead_take(ks->aheads, e->key, key_bytes, &e->image, &e->image_bytes);
        s = compile_and_load(&b, op);
        if (b.compiled && e->image && e->key)
            tidei_kernel_cache_keep(ks->cache, e->key, key_bytes, e->image, e->image_bytes);
    }
    if (s == TIDE_OK) {
        atomic_fetch_add(&e->d->rt->kernels, 1);
    } else if (s == TIDE_E_LOST) {
        s = tidei_lost(e->d, op);
    } else if (s != TIDE_E_NOMEM) {
        s = tidei_fail_as(op); /* the name of the operation that wanted it */
    }
    return s;
}

/* ---- asking ---- */

struct waiter {
    tidei_kernels *ks;
    uint64_t seen;
};
static void wait_for_a_build(void *arg) {
    struct waiter *w = arg;
    pthread_mutex_lock(&w->ks->lock);
    while (w->ks->rounds == w->seen) tidei_cond_wait(&w->ks->built, &w->ks->lock);
    pthread_mutex_unlock(&w->ks->lock);
}

/* Ends a build: an entry with a kernel stays in the table, one without goes. Threads that wait for
** it look again. */
static void end_build(tidei_kernels *ks, kernel *e) {
    bool there = e->made != NULL;
    drop_image(e);
    free(e->key);
    pthread_mutex_lock(&ks->lock);
    if (!there) {
        kernel **p = &ks->buckets[e->hash % BUCKETS];
        while (*p != e) p = &(*p)->next;
        *p = e->next;
    }
    e->k = e->made;
    ks->rounds++;
    pthread_cond_broadcast(&ks->built);
    pthread_mutex_unlock(&ks->lock);
    if (!there) tidei_host_free(e->d->rt, e);
}

static void undo_build(tidei_runtime *rt, tidei_thread *t, void *e, uintptr_t of) {
    (void)t, (void)of;
    end_build(tidei_arrays_of(rt)->kernels, e);
}

/* Builds `e`, which is in the table without its kernel. */
static tide_status build_in_table(tidei_kernels *ks, kernel *e, const char *op,
                                  tidei_dkernel **out) {
    tidei_thread *t = tidei_thread_get(e->d->rt);
    tidei_hold(t, undo_build, e, 0);
    tide_status s = build(ks, e, op);
    tidei_let(t, e);
    *out = e->made;
    end_build(ks, e);
    return s;
}

/* What the table has: a kernel, one being built (*seen: wait for the next round), or neither, and
** then `fresh`, if there is one, goes in. */
static kernel *look(tidei_kernels *ks, const kernel *wanted, kernel *fresh, tidei_dkernel **k,
                    uint64_t *seen) {
    pthread_mutex_lock(&ks->lock);
    kernel **p = place_of(ks, wanted);
    if (!*p && fresh) *p = fresh;
    kernel *found = *p;
    *k = found ? found->k : NULL;
    *seen = ks->rounds;
    pthread_mutex_unlock(&ks->lock);
    return found;
}

tide_status tidei_kernel_get(tidei_dev *d, const char *name, const char *source, const char *op,
                             tidei_dkernel **out) {
    tidei_kernels *ks = tidei_arrays_of(d->rt)->kernels;
    const kernel wanted = {
        .d = d, .name = name, .source = source, .hash = XXH3_64bits(source, strlen(source))};
    kernel *fresh = NULL;
    for (;;) {
        struct waiter w = {ks, 0};
        tidei_dkernel *k;
        kernel *found = look(ks, &wanted, fresh, &k, &w.seen);
        if (!found) {
            if (!(fresh = new_kernel(&wanted)))
                return tidei_fail_host_memory(op, sizeof *fresh + strlen(source));
            continue;
        }
        if (found == fresh) return build_in_table(ks, fresh, op, out);
        tidei_host_free(d->rt, fresh); /* somebody else's was first; waiting may be left, too */
        fresh = NULL;
        if (k) return *out = k, TIDE_OK;
        tidei_blocking(d->rt, wait_for_a_build, &w);
    }
}

static const fixed *find_fixed(const fixed *f, const tidei_dev *d, const char *name,
                               const char *source) {
    while (f && (f->d != d || f->name != name || f->source != source)) f = f->next;
    return f;
}

/* Without memory for it nothing is kept: the next call asks by content again. Two threads may both
** add one. */
static void keep_fixed(tidei_kernels *ks, tidei_dev *d, const char *name, const char *source,
                       tidei_dkernel *k) {
    fixed *f = tidei_host_alloc(d->rt, sizeof *f);
    if (!f) return;
    *f = (fixed){.d = d, .name = name, .source = source, .k = k, .next = atomic_load(&ks->fixed)};
    while (!atomic_compare_exchange_weak(&ks->fixed, &f->next, f)) {}
}

/* The source behind a line that says which kernel is wanted, on scratch memory. NULL: there is
** none. */
static char *wanted_text(tidei_dev *d, const char *name, const char *source, size_t *bytes) {
    static const char line[] = "#define TIDE_WANTS_%s 1\n%s";
    *bytes = sizeof line + strlen(name) + strlen(source);
    char *text = tidei_scratch_host(d->rt, *bytes);
    if (text) tidei_format(text, *bytes, line, name, source);
    return text;
}

static tide_status get_wanted(tidei_dev *d, const char *name, const char *source, const char *op,
                              tidei_dkernel **out) {
    size_t bytes;
    char *text = wanted_text(d, name, source, &bytes);
    if (!text) return tidei_fail_host_memory(op, bytes);
    tide_status s = tidei_kernel_get(d, name, text, op, out);
    tidei_scratch_host_free(d->rt, text);
    return s;
}

tide_status tidei_kernel_get_fixed(tidei_dev *d, const char *name, const char *source,
                                   const char *op, tidei_dkernel **out) {
    tidei_kernels *ks = tidei_arrays_of(d->rt)->kernels;
    const fixed *f =
        find_fixed(atomic_load_explicit(&ks->fixed, memory_order_acquire), d, name, source);
    if (f) return *out = f->k, TIDE_OK;
    tide_status s = get_wanted(d, name, source, op, out);
    if (s == TIDE_OK) keep_fixed(ks, d, name, source, *out);
    return s;
}

/* ---- ahead of the asking ---- */

static void undo_key(tidei_runtime *rt, tidei_thread *t, void *key, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    free(key);
}

/* Whether the disk has it; asking may log. */
static bool is_kept(tidei_kernels *ks, tidei_runtime *rt, char *key, size_t key_bytes) {
    tidei_thread *t = tidei_thread_get(rt);
    void *image = NULL;
    size_t bytes;
    tidei_hold(t, undo_key, key, 0);
    bool kept = tidei_kernel_cache_find(ks->cache, key, key_bytes, &image, &bytes);
    tidei_let(t, key);
    free(image);
    return kept;
}

void tidei_kernel_ahead(tidei_dev *d, const char *name, const char *source) {
    tidei_kernels *ks = tidei_arrays_of(d->rt)->kernels;
    const kernel wanted = {
        .d = d, .name = name, .source = source, .hash = XXH3_64bits(source, strlen(source))};
    tidei_dkernel *k;
    uint64_t seen;
    size_t key_bytes = 0;
    if (!d->d->ops->kernel_compile || look(ks, &wanted, NULL, &k, &seen)) return;
    char *key = make_key(&wanted, &key_bytes);
    if (key && !is_kept(ks, d->rt, key, key_bytes))
        tidei_ahead_begin(ks->aheads, d->d, name, source, key, key_bytes);
    else
        free(key);
}

void tidei_kernel_ahead_fixed(tidei_dev *d, const char *name, const char *source) {
    tidei_kernels *ks = tidei_arrays_of(d->rt)->kernels;
    size_t bytes;
    if (find_fixed(atomic_load_explicit(&ks->fixed, memory_order_acquire), d, name, source)) return;
    char *text = wanted_text(d, name, source, &bytes);
    if (!text) return;
    tidei_kernel_ahead(d, name, text);
    tidei_scratch_host_free(d->rt, text);
}

/* ---- compiled while the device opened ---- */

void tidei_kernels_take_early(tidei_runtime *rt, tidei_early *e) {
    tidei_kernels *ks = tidei_arrays_of(rt)->kernels;
    for (unsigned i = 0; i < e->n; i++) {
        const kernel k = {.d = &rt->devs[0], .name = e->name, .source = e->made[i].text};
        size_t bytes = 0;
        char *key = make_key(&k, &bytes);
        if (key && tidei_ahead_give(ks->aheads, key, bytes, e->made[i].image, e->made[i].bytes))
            e->made[i].image = NULL;
        else
            free(key);
    }
}

/* ---- opening and closing ---- */

tide_status tidei_kernels_open(tidei_runtime *rt) {
    tidei_kernels *ks = tidei_host_alloc(rt, sizeof *ks);
    tidei_kernel_cache *cache = ks ? tidei_kernel_cache_open(rt) : NULL;
    tidei_aheads *aheads = cache ? tidei_aheads_open(rt) : NULL;
    if (!aheads) {
        tidei_kernel_cache_close(cache);
        tidei_host_free(rt, ks);
        return tidei_fail_host_memory("tide_open", sizeof *ks);
    }
    pthread_mutex_init(&ks->lock, NULL);
    pthread_cond_init(&ks->built, NULL);
    ks->cache = cache;
    ks->aheads = aheads;
    tidei_arrays_of(rt)->kernels = ks;
    return TIDE_OK;
}

void tidei_kernels_close(tidei_runtime *rt) {
    tidei_kernels *ks = tidei_arrays_of(rt)->kernels;
    if (!ks) return;
    for (unsigned i = 0; i < BUCKETS; i++)
        for (kernel *e = ks->buckets[i], *next; e; e = next) {
            next = e->next;
            e->d->d->ops->kernel_release(e->d->d, e->k);
            tidei_host_free(rt, e);
        }
    for (fixed *f = atomic_load(&ks->fixed), *next; f; f = next) {
        next = f->next;
        tidei_host_free(rt, f);
    }
    tidei_aheads_close(ks->aheads);
    tidei_kernel_cache_close(ks->cache);
    pthread_mutex_destroy(&ks->lock);
    pthread_cond_destroy(&ks->built);
    tidei_host_free(rt, ks);
    tidei_arrays_of(rt)->kernels = NULL;
}
