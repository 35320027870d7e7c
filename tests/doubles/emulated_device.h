/* emulated_device.h: a host device that takes kernels as CUDA text and runs them, emulated
** (emulate.h), on its streams' threads: what the library does on a GPU, with the GPU's own kernels,
** on any machine. For numbers, not for speed; what needs a GPU's library (cuBLAS) is the host's.
**
** A program that wants it is linked with --wrap=tidei_host_open (`wrapped` in tests/meson.build),
** and opens a runtime by emulated_open, or sets emulated_device while it opens a host device
** itself. Blocks run from the last to the first: a kernel that counts on their order is found. */
#ifndef TIDETEST_EMULATED_DEVICE_H
#define TIDETEST_EMULATED_DEVICE_H

#include "runtime/device/host/host.h"
#include "tests/doubles/emulate.h"
#include "tests/support/tidetest.h"

static bool emulated_device;                /* the host devices that are opened from now on */
static atomic_uint emulated_launches;       /* of kernels */
static _Atomic(const char *) emulated_last; /* the last one's name */
/* (may be NULL) Changes a text in its place before it is compiled: a constant that a test wants
** smaller, say. */
static void (*emulated_edit)(char *text);

struct tidei_dkernel {
    emu_module code;
    void (*run)(const void *params);
    bool barriers;
    unsigned cluster; /* blocks of one */
};

/* What a launch passes to the stream's thread. */
typedef struct emulated_launch {
    tidei_dkernel *kernel;
    unsigned grid[3], threads;
    size_t bytes; /* of its parameters */
    _Alignas(16) char params[TIDEI_PARAMS_MAX - 64];
} emulated_launch;
_Static_assert(sizeof(emulated_launch) <= TIDEI_PARAMS_MAX, "it is a launch's parameters itself");

static struct tidei_device_ops emulated_ops; /* the host's but for kernels */
static const struct tidei_device_ops *emulated_inner;

/* Calls a kernel of any parameter. */
static const char emulated_call[] =
    "template <class P> static void emu_call(void (*kernel)(P), const void *p) { kernel(*(const P "
    "*)p); }\n";

static inline tide_status emulated_kernel_new(tidei_device *d, const tidei_kernel_text *t,
                                              tidei_dkernel **out, void **image, size_t *bytes) {
    char last[256];
    tidei_dkernel *k = calloc(1, sizeof *k);
    (void)d;
    if (!k) abort();
    k->code.header = strdup(emulated_call);
    char *text = strdup(t->source);
    if (emulated_edit) emulated_edit(text);
    emu_say(&k->code, text);
    free(text);
    snprintf(last, sizeof last, "\nextern \"C\" void emu_run(const void *p) { emu_call(%s, p); }\n",
             t->name);
    emu_say(&k->code, last);
    emu_build(&k->code);
    *(void **)&k->run = dlsym(k->code.library, "emu_run");
    k->barriers = strstr(t->source, "__sync") || strstr(t->source, "_sync(");
    const char *cluster = strstr(t->source, "\n#define TIDE_K ");
    k->cluster = cluster ? (unsigned)atoi(cluster + sizeof "\n#define TIDE_K") : 1;
    if (image) *image = NULL, *bytes = 0; /* nothing to keep */
    *out = k;
    return TIDE_OK;
}

static inline void emulated_kernel_release(tidei_device *d, tidei_dkernel *k) {
    (void)d;
    emu_close(&k->code);
    free(k);
}

static inline void emulated_run(const void *launch) {
    const emulated_launch *l = launch;
    if (l->kernel->cluster > 1)
        emu_run_clusters(&l->kernel->code, l->kernel->run, l->kernel->cluster, l->grid[0],
                         l->threads, l->params);
    else
        emu_run_grid(&l->kernel->code, l->kernel->run, l->grid, l->threads, l->params,
                     l->kernel->barriers, true);
}

/* The launch of a kernel as one of a host function, whose parameters e is. */
static inline tidei_launch emulated_on_thread(const tidei_launch *l, emulated_launch *e) {
    tidei_launch on_thread = *l;
    *e = (emulated_launch){.kernel = l->kernel,
                           .grid = {l->grid[0], l->grid[1], l->grid[2]},
                           .threads = l->block[0] * l->block[1] * l->block[2],
                           .bytes = l->params_bytes};
    if (l->params_bytes > sizeof e->params || e->threads > EMU_MOST || l->shared_bytes > 48 << 10)
        abort();
    memcpy(e->params, l->params, l->params_bytes);
    on_thread.host_fn = emulated_run;
    on_thread.params = e;
    on_thread.params_bytes = sizeof *e;
    return on_thread;
}

static inline tide_status emulated_launch_on(tidei_device *d, tidei_dstream *s,
                                             const tidei_launch *l) {
    emulated_launch e;
    if (!l->kernel) return emulated_inner->launch(d, s, l);
    const tidei_launch on_thread = emulated_on_thread(l, &e);
    atomic_fetch_add(&emulated_launches, 1);
    atomic_store(&emulated_last, l->name);
    return emulated_inner->launch(d, s, &on_thread);
}

/* Nodes of graphs are the same: their parameters lie further behind. */
static inline tide_status emulated_graph_add(tidei_device *d, tidei_dgraph *g,
                                             const tidei_launch *l, const size_t *at,
                                             const tidei_graph_range *ranges) {
    emulated_launch e;
    size_t further[128];
    if (!l->kernel) return emulated_inner->graph_add(d, g, l, at, ranges);
    if (l->nranges > TIDEI_COUNT(further)) abort();
    for (unsigned i = 0; i < l->nranges; i++)
        further[i] = at[i] + offsetof(emulated_launch, params);
    const tidei_launch on_thread = emulated_on_thread(l, &e);
    return emulated_inner->graph_add(d, g, &on_thread, further, ranges);
}

static inline tide_status emulated_graph_launch(tidei_device *d, tidei_dstream *s, tidei_dgraph *g,
                                                const tidei_addr *slots,
                                                const tidei_graph_params *params, unsigned n) {
    emulated_launch *all = calloc(n + 1, sizeof *all);
    tidei_graph_params *told = calloc(n + 1, sizeof *told);
    for (unsigned i = 0; i < n; i++) {
        const tidei_launch *l = &g->nodes[params[i].node]->l;
        told[i] = params[i];
        if (l->host_fn != emulated_run) continue;
        memcpy(&all[i], l->params, sizeof *all);
        memcpy(all[i].params, params[i].params, all[i].bytes);
        told[i].params = &all[i];
    }
    tide_status status = emulated_inner->graph_launch(d, s, g, slots, told, n);
    free(told);
    free(all);
    return status;
}

tide_status __real_tidei_host_open(const tidei_device_params *p, tidei_device **out);
tide_status __wrap_tidei_host_open(const tidei_device_params *p, tidei_device **out);
tide_status __wrap_tidei_host_open(const tidei_device_params *p, tidei_device **out) {
    tide_status s = __real_tidei_host_open(p, out);
    if (s != TIDE_OK || !emulated_device) return s;
    emulated_inner = (*out)->ops;
    emulated_ops = *emulated_inner;
    emulated_ops.kernel_new = emulated_kernel_new;
    emulated_ops.kernel_release = emulated_kernel_release;
    emulated_ops.launch = emulated_launch_on;
    emulated_ops.graph_add = emulated_graph_add;
    emulated_ops.graph_launch = emulated_graph_launch;
    (*out)->ops = &emulated_ops;
    (*out)->info.flags |= TIDEI_DEV_RUNS_TEXT;
    (*out)->info.sm_major = 9;
    (*out)->info.cluster_most = 16;
    (*out)->info.sm_count = 3; /* so few that work is split early */
    return TIDE_OK;
}

/* Not without a C++ compiler, nor where the device under test is not the host: cases skip. */
static inline bool can_emulate(void) { return emu_compiler() && test_on_host(); }

/* A runtime on such a device, as test_open opens it; NULL where there can be none. */
static inline tide_runtime *emulated_open(const tide_config *c) {
    if (!can_emulate()) return NULL;
    emulated_device = true;
    tide_runtime *rt = test_open(c);
    emulated_device = false;
    return rt;
}
/* The same, collected by references; a case that cannot have one is skipped. */
static inline tide_runtime *emulated_or_skip(void) {
    if (!can_emulate()) skip();
    return emulated_open(&(tide_config){.collector = "refcount"});
}
static inline bool is_emulated(tide_runtime *rt) {
    return test_rt(rt)->devs[0].d->ops == &emulated_ops;
}

#endif
