/* ahead.c: compiling on threads of our own, as ahead.h has it.
**
** A text that compiles is an entry of a short list: from begin to take, or to the close. Its thread
** writes the image before it says `done`, under the lock; nobody else touches it until then. A
** thread ends once it has said so, and is joined by who takes the entry. An entry that is given has
** no thread. */
#include "arrays/kernels/ahead.h"
#include "runtime/base/collect.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/uncancelled.h"

#include <stdlib.h>

#define MOST 8 /* threads: compilers beside each other take each other's caches */

typedef struct ahead {
    struct ahead *next;
    tidei_aheads *of;
    tidei_device *d;
    const char *name, *source; /* the source is the key's end */
    char *key;
    size_t key_bytes;
    pthread_t thread;
    bool given;
    bool done; /* under the lock; what follows is fixed then */
    void *image;
    size_t image_bytes;
} ahead;

struct tidei_aheads {
    tidei_runtime *rt;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* some thread is done */
    unsigned most, n;     /* threads */
    ahead *first;
};

static void *compile(void *arg) {
    ahead *x = arg;
    tidei_kernel_text t = {.name = x->name, .source = x->source};
    if (x->d->ops->kernel_compile(x->d, &t, &x->image, &x->image_bytes) != TIDE_OK) x->image = NULL;
    pthread_mutex_lock(&x->of->lock);
    x->done = true;
    pthread_cond_broadcast(&x->of->ended);
    pthread_mutex_unlock(&x->of->lock);
    return NULL;
}

/* ---- the list: under the lock ---- */

static ahead **place_of(tidei_aheads *a, const char *key, size_t key_bytes) {
    ahead **at = &a->first;
    while (*at && ((*at)->key_bytes != key_bytes || memcmp((*at)->key, key, key_bytes) != 0))
        at = &(*at)->next;
    return at;
}

static ahead *take_out(tidei_aheads *a, ahead **at) {
    ahead *x = *at;
    if (!x) return NULL;
    *at = x->next;
    a->n -= !x->given;
    return x;
}

/* Waits for its thread, which may write the image until then. Returns the image. */
static void *end(ahead *x) {
    if (!x->given) tidei_join(x->thread);
    void *image = x->image;
    free(x->key);
    tidei_host_free(x->of->rt, x);
    return image;
}

static void drop(ahead *x) { free(end(x)); }

/* Drops one that is done and that nobody has asked for: the kernel came from elsewhere. */
static void drop_done(tidei_aheads *a) {
    ahead **at = &a->first;
    while (*at && (!(*at)->done || (*at)->given)) at = &(*at)->next;
    ahead *x = take_out(a, at);
    if (x) drop(x);
}

/* Enters x and starts its thread. False: it is not wanted, or cannot be had. */
static bool start(tidei_aheads *a, ahead *x) {
    if (*place_of(a, x->key, x->key_bytes)) return false;
    if (a->n >= a->most) drop_done(a);
    if (a->n >= a->most) return false;
    if (tidei_own_thread_start(&x->thread, compile, x)) return false;
    x->next = a->first;
    a->first = x;
    a->n++;
    return true;
}

/* ---- beginning and taking ---- */

void tidei_ahead_begin(tidei_aheads *a, tidei_device *d, const char *name, const char *source,
                       char *key, size_t key_bytes) {
    TIDEI_UNCANCELLED;
    ahead *x = tidei_host_alloc(a->rt, sizeof *x);
    bool begun = false;
    if (x) {
        *x = (ahead){.of = a, .d = d, .name = name, .key = key, .key_bytes = key_bytes};
        x->source = key + key_bytes - strlen(source);
        pthread_mutex_lock(&a->lock);
        begun = start(a, x);
        pthread_mutex_unlock(&a->lock);
    }
    if (begun) return;
    tidei_host_free(a->rt, x);
    free(key);
}

bool tidei_ahead_give(tidei_aheads *a, char *key, size_t key_bytes, void *image, size_t bytes) {
    ahead *x = tidei_host_alloc(a->rt, sizeof *x);
    if (!x) return false;
    *x = (ahead){.of = a, .key = key, .key_bytes = key_bytes, .given = true, .done = true};
    x->image = image;
    x->image_bytes = bytes;
    pthread_mutex_lock(&a->lock);
    x->next = a->first;
    a->first = x;
    pthread_mutex_unlock(&a->lock);
    return true;
}

struct awaited {
    tidei_aheads *a;
    const char *key;
    size_t key_bytes;
};
static void wait_until_done(void *arg) {
    struct awaited *w = arg;
    const ahead *x;
    pthread_mutex_lock(&w->a->lock);
    while ((x = *place_of(w->a, w->key, w->key_bytes)) && !x->done)
        tidei_cond_wait(&w->a->ended, &w->a->lock);
    pthread_mutex_unlock(&w->a->lock);
}

bool tidei_ahead_take(tidei_aheads *a, const char *key, size_t key_bytes, void **image,
                      size_t *image_bytes) {
    struct awaited w = {a, key, key_bytes};
    pthread_mutex_lock(&a->lock);
    bool there = *place_of(a, key, key_bytes) != NULL;
    pthread_mutex_unlock(&a->lock);
    if (!there) return false;
    tidei_blocking(a->rt, wait_until_done, &w);
    pthread_mutex_lock(&a->lock);
    ahead *x = take_out(a, place_of(a, key, key_bytes));
    pthread_mutex_unlock(&a->lock);
    if (!x) return false;
    *image_bytes = x->image_bytes;
    *image = end(x);
    return *image != NULL;
}

/* ---- opening and closing ---- */

tidei_aheads *tidei_aheads_open(tidei_runtime *rt) {
    tidei_aheads *a = tidei_host_alloc(rt, sizeof *a);
    if (!a) return NULL;
    unsigned others = tidei_processors() - 1;
    a->rt = rt;
    a->most = others < 1 ? 1 : others < MOST ? others : MOST;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->ended, NULL);
    return a;
}

void tidei_aheads_close(tidei_aheads *a) {
    if (!a) return;
    for (ahead *x; (x = take_out(a, &a->first));) drop(x);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->ended);
    tidei_host_free(a->rt, a);
}
