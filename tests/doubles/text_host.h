/* text_host.h: a host device that takes kernels as CUDA text, as a GPU does. All of the way to a
** launch is gone, with real shapes and addresses; the launch itself does nothing.
**
** The image that its compiler makes of a text is made up from it; an image that is not its text's
** is one that should not have been loaded. The program says what it does with a text:
** text_host_saw. */
#ifndef TIDETEST_TEXT_HOST_H
#define TIDETEST_TEXT_HOST_H

#include "runtime/device/device.h"
#include <stdio.h>
#include <stdlib.h>

#define TEXT_HOST_IMAGE 300 /* bytes */

static void text_host_saw(const char *source); /* each text that is compiled */

struct tidei_dkernel {
    char *source;
};

static struct tidei_device_ops text_host_ops; /* the host's but for kernels */
static const struct tidei_device_ops *text_host_inner;
static atomic_uint text_host_compiled, text_host_loaded;

static void text_host_image(const char *source, unsigned char *image) {
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *source; source++) h = (h ^ (unsigned char)*source) * 1099511628211u;
    for (size_t i = 0; i < TEXT_HOST_IMAGE; i++, h = h * 6364136223846793005u + 1)
        image[i] = (unsigned char)(h >> 56);
}

static tide_status text_host_kernel_new(tidei_device *d, const tidei_kernel_text *t,
                                        tidei_dkernel **out, void **image, size_t *image_bytes) {
    unsigned char made[TEXT_HOST_IMAGE];
    tidei_dkernel *k = malloc(sizeof *k);
    (void)d;
    text_host_image(t->source, made);
    if (!k || !(k->source = strdup(t->source))) abort();
    if (!t->image) {
        text_host_saw(t->source);
        atomic_fetch_add(&text_host_compiled, 1);
        if (!(*image = malloc(*image_bytes = sizeof made))) abort();
        memcpy(*image, made, sizeof made);
    } else if (t->image_bytes != sizeof made || memcmp(t->image, made, sizeof made) != 0) {
        fprintf(stderr, "a wrong image is loaded for: %s\n", t->source);
        abort();
    } else
        atomic_fetch_add(&text_host_loaded, 1);
    *out = k;
    return TIDE_OK;
}
static void text_host_kernel_release(tidei_device *d, tidei_dkernel *k) {
    (void)d;
    free(k->source);
    free(k);
}

static tide_status text_host_widen(tidei_device *d, tidei_dkernel *k, unsigned blocks,
                                   unsigned threads, unsigned shared_bytes) {
    (void)d, (void)k, (void)blocks, (void)threads, (void)shared_bytes;
    return TIDE_OK;
}

static void text_host_nothing(const void *params) { (void)params; }
static tide_status text_host_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    tidei_launch nothing = *l;
    if (l->kernel)
        nothing = (tidei_launch){
            .name = l->name, .host_fn = text_host_nothing, .params = "", .params_bytes = 1};
    return text_host_inner->launch(d, s, &nothing);
}

static inline tide_status text_host_open(size_t host_memory, tidei_device **out) {
    tide_status s = tidei_host_open(&(tidei_device_params){.host_device_memory = host_memory}, out);
    if (s != TIDE_OK) return s;
    text_host_inner = (*out)->ops;
    text_host_ops = *text_host_inner;
    text_host_ops.kernel_new = text_host_kernel_new;
    text_host_ops.kernel_release = text_host_kernel_release;
    text_host_ops.kernel_widen = text_host_widen;
    text_host_ops.launch = text_host_launch;
    (*out)->ops = &text_host_ops;
    (*out)->info.flags |= TIDEI_DEV_RUNS_TEXT;
    (*out)->info.flags &= ~(unsigned)TIDEI_DEV_GRAPHS; /* these would need its kernels */
    (*out)->info.sm_major = 9;
    (*out)->info.cluster_most = 16;
    (*out)->info.sm_count = 3; /* so few that folds are split early */
    return TIDE_OK;
}

#endif
