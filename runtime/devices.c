/* devices.c: opening and closing the devices of a runtime, and which is the calling thread's. The
** model stands in devices.h. */
#include "runtime/memory/peers.h"
#include "runtime/devices.h"
#include "runtime/observe/nvtx.h"
#include "runtime/pool/pools.h"
#include "runtime/runtime.h"
#include "runtime/base/text.h"
#include <stdlib.h>
#include <tide/device.h>

/* ---- limits ---- */

size_t tidei_limit_of(const tidei_dev *d, size_t bytes) {
    size_t page = d->d->info.page_bytes;
    return bytes > SIZE_MAX - page ? SIZE_MAX : tidei_round_up(bytes, page);
}

static void apply_limits(tidei_dev *d, const tidei_settings *s) {
    size_t hard = SIZE_MAX, soft = SIZE_MAX;
    if (*s->limit) tidei_parse_bytes(s->limit, d->d->info.total_bytes, &hard);
    if (*s->soft_limit) tidei_parse_bytes(s->soft_limit, d->d->info.total_bytes, &soft);
    atomic_store(&d->budget->limit, tidei_limit_of(d, hard));
    atomic_store(&d->budget->soft_limit, soft);
}

/* ---- opening ---- */

static int ordinal_of(const char *device) {
    const char *colon = strchr(device, ':');
    uint64_t n = 0;
    if (!colon) return 0;
    colon++;
    tidei_read_digits(&colon, &n);
    return (int)n;
}

/* `sibling`: a device of the runtime that is open; NULL: this is the first. */
static tide_status open_host(tidei_runtime *rt, int ordinal, tidei_device *sibling,
                             tidei_device **out) {
    tidei_device_params p = {.ordinal = ordinal,
                             .count = rt->set.host_devices,
                             .host_device_memory = rt->set.host_device_memory,
                             .host_threads = rt->set.host_threads,
                             .host_checker = rt->set.debug > 0,
                             .host_sibling = sibling,
                             .rt = rt};
    if (p.ordinal >= rt->set.host_devices)
        return tidei_fail(TIDE_E_NODEVICE, "tide_open",
                          "there is no host:%d; host devices: %d (TIDE_HOST_DEVICES)", p.ordinal,
                          rt->set.host_devices);
    return tidei_host_open(&p, out);
}

static tide_status open_cuda(tidei_runtime *rt, int ordinal, tidei_early *early,
                             tidei_device **out) {
    tidei_device_params p = {.ordinal = ordinal, .rt = rt, .early = early};
    return tidei_cuda_open(&p, out);
}

/* The device that the settings name; by default cuda, and where that does not open, host, with the
** reason kept. */
static tide_status open_first(tidei_runtime *rt, tidei_early *early, tidei_device **out) {
    bool cuda = !strncmp(rt->set.device, "cuda", 4);
    int ordinal = ordinal_of(rt->set.device);
    if (!cuda && *rt->set.device) return open_host(rt, ordinal, NULL, out);
    tide_status status = open_cuda(rt, ordinal, early, out);
    if (status == TIDE_OK || cuda) return status;
    if (early) tidei_early_drop(early); /* another device serves */
    tidei_format(rt->device_note, sizeof rt->device_note, "%s", tide_error_last()->message);
    tide_error_clear();
    const char *nvrtc = secure_getenv("TIDE_NVRTC_PATH");
    if (nvrtc && strstr(rt->device_note, "TIDE_NVRTC_PATH"))
        tidei_warn_environment(rt, "TIDE_NVRTC_PATH", nvrtc, ": %s; a host device serves",
                               rt->device_note);
    return open_host(rt, ordinal, NULL, out);
}

static tide_status open_sibling(tidei_runtime *rt, int ordinal, tidei_device **out) {
    tidei_device *first = rt->devs[0].d;
    return first->info.flags & TIDEI_DEV_RUNS_HOST ? open_host(rt, ordinal, first, out)
                                                   : open_cuda(rt, ordinal, NULL, out);
}

/* What the floors keep of a device. */
struct parts {
    tidei_waits waits;
    tidei_loss loss;
    tidei_pools pools;
    tidei_budget budget;
    tidei_dev_memory memory;
};

static void init_dev(tidei_dev *d, struct parts *x, tidei_runtime *rt, unsigned index) {
    d->rt = rt;
    d->index = index;
    d->waits = &x->waits;
    d->loss = &x->loss;
    d->pools = &x->pools;
    d->budget = &x->budget;
    d->memory = &x->memory;
    x->pools.mover = &tidei_storage_mover;
    pthread_mutex_init(&d->pools->lock, NULL);
}

/* The runtime's half of a device, whose own half is d->d. */
static tide_status open_dev(tidei_dev *d) {
    apply_limits(d, &d->rt->set);
    tide_status status = tidei_pools_open(d);
    if (status == TIDE_OK) status = tidei_memory_kinds_open(d);
    if (status == TIDE_OK) status = tidei_stream_open(d, &d->stream0);
    if (status == TIDE_OK) atomic_store(&d->open, true);
    return status;
}

tide_status tidei_devices_open(tidei_runtime *rt, tidei_device *first, tidei_early *early) {
    tide_status status = first ? TIDE_OK : open_first(rt, early, &first);
    if (status != TIDE_OK) return status;
    unsigned n = first->info.count > 0 ? (unsigned)first->info.count : 1;
    if (n > TIDEI_DEVICES_MAX) n = TIDEI_DEVICES_MAX;
    if ((unsigned)first->info.ordinal >= n) {
        status = tidei_fail(TIDE_E_NODEVICE, "tide_open", "%s: only devices below %d can be used",
                            first->info.name, TIDEI_DEVICES_MAX);
        first->ops->close(first);
        return status;
    }
    struct parts *parts = tidei_host_alloc(rt, n * sizeof *parts);
    rt->devs = tidei_host_alloc(rt, n * sizeof *rt->devs);
    rt->dev_parts = parts;
    if (!rt->devs || !parts) {
        first->ops->close(first);
        return tidei_fail_host_memory("tide_open", n * (sizeof *parts + sizeof *rt->devs));
    }
    rt->ndevs = n;
    for (unsigned i = 0; i < n; i++) init_dev(&rt->devs[i], &parts[i], rt, i);
    rt->devs[0].d = first;
    return open_dev(&rt->devs[0]);
}

void tidei_devices_end_work(tidei_runtime *rt) {
    tidei_saved_error e;
    tidei_error_save(&e);
    for (tidei_dev *d = NULL; (d = tidei_dev_next(rt, d));) (void)tidei_streams_wait_all(d, true);
    if (tidei_take_fault(rt, "tide_close") != TIDE_OK) /* nobody asked in time */
        tidei_log(rt, TIDE_LOG_WARNING, "%s", tide_error_last()->message);
    tidei_error_restore(&e);
}

/* What work of any device may still use goes once all of them are done. */
static void end_work(tidei_dev *d) {
    tidei_streams_wait_all(d, true);
    tidei_streams_sweep(d, true);
}

static void close_dev(tidei_dev *d) {
    tidei_pools_close(d);
    tidei_memory_kinds_close(d);
    tidei_storage_free_list_drop(d);
}

static void free_streams(tidei_runtime *rt) {
    unsigned n = atomic_load(&rt->streams->n);
    for (unsigned i = 0; i < n; i++) {
        tidei_stream *s = atomic_load(&rt->streams->at[i]);
        pthread_mutex_destroy(&s->lock);
        tidei_host_free(rt, s);
    }
}

void tidei_devices_close(tidei_runtime *rt) {
    for (unsigned i = 0; i < rt->ndevs; i++)
        if (rt->devs[i].d) end_work(&rt->devs[i]);
    for (unsigned i = 0; i < rt->ndevs; i++)
        if (rt->devs[i].d) close_dev(&rt->devs[i]);
    free_streams(rt);
    /* the first one last, which the others may have parts of */
    for (unsigned i = rt->ndevs; i-- > 0;) {
        tidei_dev *d = &rt->devs[i];
        if (d->d) d->d->ops->close(d->d);
        d->d = NULL;
        pthread_mutex_destroy(&d->pools->lock);
    }
    tidei_host_free(rt, rt->devs);
    tidei_host_free(rt, rt->dev_parts);
}

/* ---- by number ---- */

static tidei_dev *by_number(tidei_runtime *rt, int number) {
    unsigned n = rt->ndevs, first = (unsigned)rt->devs[0].d->info.ordinal;
    return &rt->devs[((unsigned)number + n - first) % n];
}

/* Under devs_lock. What fails leaves the device as one that was never opened. */
static tide_status open_late(tidei_dev *d, int number) {
    tide_status status = open_sibling(d->rt, number, &d->d);
    if (status != TIDE_OK) return status;
    status = open_dev(d);
    if (status == TIDE_OK) return TIDE_OK;
    tidei_saved_error e;
    tidei_error_save(&e);
    close_dev(d);
    d->d->ops->close(d->d);
    d->d = NULL;
    d->stream0 = NULL;
    atomic_store(&d->loss->state, 0);
    tidei_error_restore(&e);
    return status;
}

tide_status tidei_dev_get(tidei_runtime *rt, int number, const char *op, tidei_dev **out) {
    if (number < 0 || (unsigned)number >= rt->ndevs)
        return tidei_fail(TIDE_E_NODEVICE, op, "there is no device %d; %s is one of %u", number,
                          rt->devs[0].d->info.name, rt->ndevs);
    tidei_dev *d = by_number(rt, number);
    tide_status status = TIDE_OK;
    *out = d;
    if (tidei_likely(atomic_load_explicit(&d->open, memory_order_acquire))) return TIDE_OK;
    pthread_mutex_lock(&rt->devs_lock);
    bool fresh = !atomic_load(&d->open);
    if (fresh) status = open_late(d, number);
    pthread_mutex_unlock(&rt->devs_lock);
    if (status != TIDE_OK) return tidei_fail_as(op);
    if (fresh) tidei_log(rt, TIDE_LOG_INFO, "opened %s as well", d->d->info.name);
    return TIDE_OK;
}

/* ---- for users ---- */

int tide_device_count(tide_runtime *ref) {
    const tidei_runtime *rt = tidei_entered(ref, "tide_device_count");
    return rt ? (int)rt->ndevs : -1;
}

tide_status tide_device_set(tide_runtime *ref, int device) {
    TIDEI_OPERATION("tide_device_set");
    tidei_dev *d;
    tidei_thread *t = tidei_enter(ref, "tide_device_set");
    if (!t) return tidei_last_status();
    tide_status status = tidei_dev_get(t->dev->rt, device, "tide_device_set", &d);
    if (status == TIDE_OK) tidei_thread_go(t, d);
    return status;
}

int tide_device_current(tide_runtime *ref) {
    const tidei_thread *t = tidei_enter(ref, "tide_device_current");
    return t ? tidei_dev_number(t->dev) : -1;
}

int tide_device_reaches(tide_runtime *ref, int device, int owner) {
    static const char op[] = "tide_device_reaches";
    TIDEI_OPERATION(op);
    tidei_dev *d, *other;
    bool reaches = true;
    tidei_runtime *rt = tidei_entered(ref, op);
    if (!rt) return -1;
    tide_status status = tidei_dev_get(rt, device, op, &d);
    if (status == TIDE_OK) status = tidei_dev_get(rt, owner, op, &other);
    for (int i = 0; i < 2 && status == TIDE_OK; i++)
        if (atomic_load(&(i ? other : d)->d->lost)) status = tidei_lost(i ? other : d, op);
    if (status == TIDE_OK && d != other) status = tidei_peer_look(d, other, op, &reaches);
    if (status == TIDE_OK) return reaches;
    tidei_fail_as(op);
    return -1;
}
