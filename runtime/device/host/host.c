/* host.c: the host device: an asynchronous device made of threads, for machines without a GPU and
** for tests.
**
** Model. Device memory is the process's own, counted against a ceiling. A stream is a queue of
** commands and a thread that runs them (queue.c); kernels are host functions. An event names a
** record in a stream's queue; waiting for it is a command that holds the waiting stream until that
** record has passed. The completion word is a word. With the checker on, every operation is entered
** in it as it is submitted, under its stream's lock, so both see the same order.
** A lost device: workers finish the command they are in and end; what is queued is dropped, waits
** end. Memory is given back only after the workers have ended, as a running command may still touch
** it. */
#include "runtime/device/host/host.h"
#include "runtime/base/text.h"
#include <sched.h>
#include <unistd.h>

#define DEFAULT_PAGE (64 * TIDEI_KIB)
#define FRESH_NS     0.15 /* ns a byte: a first touch takes 0.1 to 0.25 ms a MiB, mostly */
/* Address space a pool reserves: room to remap fragmented pages, but well inside what
** ThreadSanitizer's shadow covers. */
#define VA_FACTOR 4
#define VA_MAX    (256 * TIDEI_GIB)
#define VA_LIMIT  (64 * 1024 * TIDEI_GIB) /* half of what x86-64 user space has */
/* Of the addresses that a limit leaves (`ulimit -v`) a pool takes at most one half, unless the
** device's memory alone needs more (the default size is chosen so that it does not). The rest is
** for threads and for the rest of the process. */
#define ROOM_POOL_PART   2
#define ROOM_MEMORY_PART 4

static tidei_host *host_of(tidei_device *d) { return (tidei_host *)d; }
static void *at(tidei_addr a) { return (void *)(uintptr_t)a; }

/* ---- loss, and forks ---- */

static tide_status forked(tidei_host *h, const char *op) {
    return tidei_fail(TIDE_E_FORKED, op, "%s belongs to the process that opened it",
                      h->base.info.name);
}

/* A copy that was running when the device was lost still touches the host's memory; it ends
** soon. */
static void wait_for_copy(tidei_dstream *s) {
    while (atomic_load(&s->copying)) sched_yield();
}

/* ---- the checker ---- */

static tide_status no_memory(const char *op) {
    return tidei_fail(TIDE_E_HOST_NOMEM, op,
                      "host memory for the record of queued work is exhausted");
}

static void host_speak(tidei_device *d) {
    tidei_host *h = host_of(d);
    tidei_finding kept[TIDEI_FINDINGS_MAX];
    pthread_mutex_lock(&h->findings_lock);
    unsigned n = h->nfindings;
    memcpy(kept, h->findings, n * sizeof *kept);
    h->nfindings = 0;
    atomic_store_explicit(&h->found, false, memory_order_relaxed);
    pthread_mutex_unlock(&h->findings_lock);
    tidei_saved_error e; /* the caller's error, which the log's callback must not change */
    tidei_error_save(&e);
    for (unsigned i = 0; i < n; i++) tidei_finding_log(h->rt, d->info.name, &kept[i]);
    tidei_error_restore(&e);
}

tide_status tidei_host_check(tidei_dstream *s, const char *slot, const char *op,
                             const tidei_range *ranges, unsigned n) {
    tidei_finding reports[TIDEI_FINDINGS_MAX];
    unsigned found;
    if (!s->host->checker) return TIDE_OK;
    if (!tidei_checker_use(s->host->checker, s->id, op, ranges, n, reports, &found))
        return no_memory(slot);
    tidei_host_keep_findings(s->host, reports, found);
    return TIDE_OK;
}

/* ---- streams ---- */

/* A closed stream to use again, or a new one at the list's end; under streams_lock. */
static tidei_dstream *free_stream(tidei_host *h) {
    tidei_dstream **end = &h->streams;
    for (; *end; end = &(*end)->next)
        if (!(*end)->open) return *end;
    tidei_dstream *s = tidei_host_alloc(h->rt, sizeof *s);
    if (!s) return NULL;
    s->host = h;
    s->id = atomic_fetch_add(&h->group->streams, 1);
    s->work.coarse = s->recorded.coarse = true;
    pthread_mutex_init(&s->lock, NULL);
    *end = s;
    return s;
}

static tide_status stream_new_locked(tidei_host *h, tidei_dstream **out) {
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "stream_new");
    tidei_dstream *s = free_stream(h);
    if (!s) return tidei_fail_host_memory("stream_new", sizeof *s);
    memset(s->waited, 0, sizeof s->waited); /* from an earlier stream */
    if (h->checker && !tidei_checker_stream_new(h->checker, s->id)) return no_memory("stream_new");
    tide_status status = tidei_hqueue_open(s);
    if (status != TIDE_OK) return status;
    s->open = true;
    *out = s;
    return TIDE_OK;
}

static tide_status host_stream_new(tidei_device *d, tidei_dstream **out) {
    tidei_host *h = host_of(d);
    pthread_mutex_lock(&h->streams_lock);
    tide_status status = stream_new_locked(h, out);
    pthread_mutex_unlock(&h->streams_lock);
    return status;
}

static void host_stream_release(tidei_device *d, tidei_dstream *s) {
    tidei_host *h = host_of(d);
    if (!s) return;
    if (tidei_host_forked(h)) {
        tidei_hqueue_close(s, true);
        s->open = false;
        return;
    }
    tidei_hqueue_close(s, false);
    if (h->checker) tidei_checker_stream_release(h->checker, s->id);
    pthread_mutex_lock(&h->streams_lock);
    s->open = false;
    pthread_mutex_unlock(&h->streams_lock);
}

/* Waits for a record of the stream's. */
static tide_status wait_record(tidei_dstream *s, const char *op, uint64_t record) {
    tidei_hqueue_await(s, record);
    if (!tidei_host_is_lost(s->host)) return TIDE_OK;
    wait_for_copy(s);
    return tidei_host_lost(s->host, op);
}

static tide_status host_stream_sync(tidei_device *d, tidei_dstream *s) {
    tidei_host *h = host_of(d);
    tidei_moment now = {0};
    uint64_t record;
    if (tidei_host_forked(h)) return forked(h, "stream_sync");
    if (tidei_host_is_lost(h)) return wait_record(s, "stream_sync", 0);
    pthread_mutex_lock(&s->lock);
    bool ok = tidei_hqueue_record(s, &record);
    if (ok && h->checker) tidei_checker_moment(h->checker, s->id, &now);
    pthread_mutex_unlock(&s->lock);
    if (!ok) return no_memory("stream_sync");
    tide_status status = wait_record(s, "stream_sync", record);
    if (h->checker && status == TIDE_OK) tidei_checker_known(h->checker, &now);
    if (now.row) tidei_checker_moment_drop(h->checker, &now);
    if (status == TIDE_OK) tidei_host_mempools_synced(h);
    return status;
}

static void *host_stream_native(tidei_device *d, tidei_dstream *s) {
    (void)d;
    (void)s;
    return NULL;
}

static tide_status host_publish(tidei_device *d, tidei_dstream *s, uint64_t tick) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "publish");
    pthread_mutex_lock(&s->lock);
    bool ok =
        !h->checker || tidei_checker_publish(h->checker, s->id, tick,
                                             atomic_load_explicit(&s->word, memory_order_relaxed));
    ok = ok && tidei_hqueue_publish(s, tick);
    pthread_mutex_unlock(&s->lock);
    return ok ? TIDE_OK : no_memory("publish");
}

static uint64_t host_completed(tidei_device *d, tidei_dstream *s) {
    tidei_host *h = host_of(d);
    uint64_t done = atomic_load_explicit(&s->word, memory_order_acquire);
    if (h->checker && !tidei_host_forked(h)) tidei_checker_completed(h->checker, s->id, done);
    return done;
}

/* ---- events ---- */

static tide_status host_event_new(tidei_device *d, tidei_devent **out) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "event_new");
    tidei_devent *e = tidei_host_alloc(h->rt, sizeof *e);
    if (!e) return tidei_fail_host_memory("event_new", sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return TIDE_OK;
}

static void host_event_release(tidei_device *d, tidei_devent *e) {
    tidei_host *h = host_of(d);
    if (!e) return;
    if (e->moment.row && !tidei_host_forked(h)) tidei_checker_moment_drop(h->checker, &e->moment);
    pthread_mutex_destroy(&e->lock);
    tidei_host_free(h->rt, e);
}

static tide_status host_event_record(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    tidei_host *h = host_of(d);
    tidei_moment now = {0};
    uint64_t record;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "event_record");
    pthread_mutex_lock(&e->lock);
    pthread_mutex_lock(&s->lock);
    bool ok = tidei_hqueue_record(s, &record);
    if (ok && h->checker) tidei_checker_moment(h->checker, s->id, &now);
    pthread_mutex_unlock(&s->lock);
    if (ok) {
        if (e->moment.row) tidei_checker_moment_drop(h->checker, &e->moment);
        e->stream = s;
        e->record = record;
        e->moment = now;
    }
    pthread_mutex_unlock(&e->lock);
    return ok ? TIDE_OK : no_memory("event_record");
}

/* Under e->lock. */
static bool queue_wait(tidei_host *h, tidei_devent *e, tidei_dstream *s) {
    if (!e->stream || e->stream == s) return true; /* nothing recorded yet; or in order anyway */
    pthread_mutex_lock(&s->lock);
    bool ok = tidei_hqueue_wait(s, e->stream, e->record);
    if (ok && h->checker) ok = tidei_checker_wait(h->checker, s->id, &e->moment);
    if (ok) tidei_host_note_wait(s, e->stream, e->record);
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static tide_status host_event_wait(tidei_device *d, tidei_devent *e, tidei_dstream *s) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "event_wait");
    pthread_mutex_lock(&e->lock);
    bool ok = queue_wait(h, e, s);
    pthread_mutex_unlock(&e->lock);
    return ok ? TIDE_OK : no_memory("event_wait");
}

/* ---- work ---- */

static tide_status host_launch(tidei_device *d, tidei_dstream *s, const tidei_launch *l) {
    tidei_host *h = host_of(d);
    const char *name = l->name ? l->name : "a kernel";
    tide_status status = TIDE_OK;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "launch");
    if (!l->host_fn || l->params_bytes > TIDEI_PARAMS_MAX)
        return tidei_fail(TIDE_E_INVALID, "launch",
                          "%s: %s has %s and %zu bytes of parameters (at most %d)", d->info.name,
                          name, l->host_fn ? "a host function" : "no host function",
                          l->params_bytes, TIDEI_PARAMS_MAX);
    pthread_mutex_lock(&s->lock);
    status = tidei_host_check(s, "launch", name, l->ranges, l->nranges);
    if (status == TIDE_OK && !tidei_hqueue_launch(s, l)) status = no_memory("launch");
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The device's side of a copy, as ranges for the checker. Returns how many. */
static unsigned copy_ranges(const tidei_copy *c, tidei_range out[2]) {
    unsigned n = 0;
    if (c->kind != TIDEI_COPY_H2D) out[n++] = (tidei_range){c->src, c->bytes, TIDEI_READ};
    if (c->kind != TIDEI_COPY_D2H) out[n++] = (tidei_range){c->dst, c->bytes, TIDEI_WRITE};
    return n;
}

static tide_status queue_copy(tidei_dstream *s, const tidei_copy *c, bool staged,
                              uint64_t *record) {
    static const char *const names[] = {"copy from the host", "copy to the host",
                                        "copy on the device"};
    tidei_range r[2];
    tide_status status = tidei_host_check(s, "copy", names[c->kind], r, copy_ranges(c, r));
    if (status != TIDE_OK) return status;
    bool ok = tidei_hqueue_copy(s, at(c->dst), at(c->src), c->bytes, staged);
    if (ok && record) ok = tidei_hqueue_record(s, record);
    return ok ? TIDE_OK : no_memory("copy");
}

/* A small copy from the host travels in the command. From a long copy's end the host does not learn
** that the work before it is complete: on other devices it might not be. */
static tide_status host_copy(tidei_device *d, tidei_dstream *s, const tidei_copy *c) {
    tidei_host *h = host_of(d);
    bool staged = c->kind == TIDEI_COPY_H2D && c->bytes <= TIDEI_STAGED_MAX;
    bool waits = c->kind == TIDEI_COPY_H2D && !staged && !c->busy;
    uint64_t record = 0;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "copy");
    if (c->kind == TIDEI_COPY_H2D && !staged && tidei_host_forked(h)) return forked(h, "copy");
    pthread_mutex_lock(&s->lock);
    tide_status status = queue_copy(s, c, staged, waits ? &record : NULL);
    pthread_mutex_unlock(&s->lock);
    if (status == TIDE_OK && c->busy) *c->busy = !staged;
    return status == TIDE_OK && waits ? wait_record(s, "copy", record) : status;
}

/* Slot host_use: the host itself reads or writes. */
static tide_status host_use(tidei_device *d, const char *op, const tidei_range *r, bool begins) {
    tidei_host *h = host_of(d);
    tidei_finding found;
    unsigned n = 0;
    if (!h->checker) return TIDE_OK;
    if (!begins)
        tidei_checker_unlend(h->checker, r);
    else if (!tidei_checker_lend(h->checker, op, r, &found, &n))
        return no_memory(op);
    tidei_host_keep_findings(h, &found, n);
    return TIDE_OK;
}

/* Tells the checker what all pieces read and write. */
static tide_status check_pieces(tidei_dstream *s, const tidei_piece *pieces, size_t n) {
    tide_status status = TIDE_OK;
    for (size_t i = 0; i < n && status == TIDE_OK; i++) {
        const tidei_piece *p = &pieces[i];
        tidei_range r[2] = {{p->src, p->bytes, TIDEI_READ}, {p->dst, p->bytes, TIDEI_WRITE}};
        if (p->bytes) status = tidei_host_check(s, "copy_many", "copies on the device", r, 2);
    }
    return status;
}

static tide_status host_copy_many(tidei_device *d, tidei_dstream *s, const tidei_piece *pieces,
                                  size_t n) {
    tidei_host *h = host_of(d);
    tide_status status = TIDE_OK;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "copy_many");
    if (!n) return TIDE_OK;
    pthread_mutex_lock(&s->lock);
    if (h->checker) status = check_pieces(s, pieces, n);
    if (status == TIDE_OK && !tidei_hqueue_copy_many(s, pieces, n)) status = no_memory("copy_many");
    pthread_mutex_unlock(&s->lock);
    return status;
}

static tide_status host_fill(tidei_device *d, tidei_dstream *s, tidei_addr dst, const void *pattern,
                             size_t width, size_t count) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "fill");
    if (!width || width > 16 || (width & (width - 1)) || count > SIZE_MAX / width)
        return tidei_fail(TIDE_E_INVALID, "fill", "%s: %zu elements of %zu bytes", d->info.name,
                          count, width);
    if (!count) return TIDE_OK;
    pthread_mutex_lock(&s->lock);
    tide_status status =
        tidei_host_check(s, "fill", "fill", &(tidei_range){dst, width * count, TIDEI_WRITE}, 1);
    if (status == TIDE_OK && !tidei_hqueue_fill(s, at(dst), pattern, width, count))
        status = no_memory("fill");
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- opening and closing ---- */

static bool is_host(const tidei_device *d);

static unsigned default_threads(void) {
    return (unsigned)tidei_min_size(tidei_host_processors(), TIDEI_HOST_THREADS_MAX);
}

static tidei_host_group *group_new(const tidei_device_params *p) {
    tidei_host_group *g = tidei_host_alloc(p->rt, sizeof *g);
    if (!g) return NULL;
    g->threads = p->host_threads ? (unsigned)p->host_threads : default_threads();
    g->team = tidei_team_open(p->rt, g->threads);
    g->checker = p->host_checker ? tidei_checker_open(p->rt) : NULL;
    if (g->team && (g->checker || !p->host_checker)) return g;
    tidei_checker_close(g->checker);
    tidei_team_close(g->team, false);
    tidei_host_free(p->rt, g);
    return NULL;
}

/* Joins the sibling's group, or makes one. */
static bool join_group(tidei_host *h, const tidei_device_params *p) {
    tidei_device *sibling = p->host_sibling;
    if (sibling && !is_host(sibling)) sibling = tidei_fault_inner(sibling);
    h->group = sibling ? host_of(sibling)->group : group_new(p);
    if (!h->group) return false;
    atomic_fetch_add(&h->group->devices, 1);
    h->checker = h->group->checker;
    return true;
}

static void leave_group(tidei_host *h, bool forked) {
    if (atomic_fetch_sub(&h->group->devices, 1) != 1) return;
    tidei_team_close(h->group->team, forked);
    tidei_checker_close(h->group->checker);
    tidei_host_free(h->rt, h->group);
}

/* Streams left open end with what they have queued; all are told before the first is waited for. */
static void host_close(tidei_device *d) {
    tidei_host *h = host_of(d);
    bool child = tidei_host_forked(h);
    for (tidei_dstream *s = h->streams; s; s = s->next)
        if (s->open) tidei_bell_signal(&s->work, TIDEI_BELL_STOP);
    for (tidei_dstream *s = h->streams; s; s = s->next)
        if (s->open) tidei_hqueue_close(s, child);
    for (tidei_dstream *s = h->streams, *next; s; s = next) {
        next = s->next;
        pthread_mutex_destroy(&s->lock);
        tidei_host_free(h->rt, s);
    }
    host_speak(d);
    if (!child) tidei_host_memory_close(h);
    leave_group(h, child);
    pthread_mutex_destroy(&h->findings_lock);
    pthread_mutex_destroy(&h->streams_lock);
    pthread_mutex_destroy(&h->mempools_lock);
    pthread_mutex_destroy(&h->memory_lock);
    tidei_host_free(h->rt, h);
}

static const struct tidei_device_ops host_ops = {
    .name = "host",
    .reserve = tidei_host_reserve,
    .unreserve = tidei_host_unreserve,
    .page_new = tidei_host_page_new,
    .page_release = tidei_host_page_release,
    .map = tidei_host_map,
    .unmap = tidei_host_unmap,
    .raw_alloc = tidei_host_raw_alloc,
    .raw_free = tidei_host_raw_free,
    .host_use = host_use,
    .memory = tidei_host_memory,
    .mempool_new = tidei_host_mempool_new,
    .mempool_release = tidei_host_mempool_release,
    .mempool_alloc = tidei_host_mempool_alloc,
    .mempool_free = tidei_host_mempool_free,
    .mempool_set = tidei_host_mempool_set,
    .mempool_trim = tidei_host_mempool_trim,
    .mempool_figures = tidei_host_mempool_figures,
    .stream_new = host_stream_new,
    .stream_release = host_stream_release,
    .stream_sync = host_stream_sync,
    .stream_native = host_stream_native,
    .event_new = host_event_new,
    .event_release = host_event_release,
    .event_record = host_event_record,
    .event_wait = host_event_wait,
    .publish = host_publish,
    .completed = host_completed,
    .copy = host_copy,
    .copy_many = host_copy_many,
    .fill = host_fill,
    .launch = host_launch,
    .graph_new = tidei_host_graph_new,
    .graph_add = tidei_host_graph_add,
    .graph_finish = tidei_host_graph_finish,
    .graph_launch = tidei_host_graph_launch,
    .graph_release = tidei_host_graph_release,
    .lose = tidei_host_lose,
    .speak = host_speak,
    .close = host_close,
};

static bool is_host(const tidei_device *d) { return d->ops->close == host_close; }

static size_t address_space(size_t ceiling, size_t room, size_t page) {
    size_t bytes = ceiling > VA_MAX               ? ceiling
                   : ceiling > VA_MAX / VA_FACTOR ? VA_MAX
                                                  : VA_FACTOR * ceiling;
    if (bytes > room / ROOM_POOL_PART) bytes = tidei_max_size(ceiling, room / ROOM_POOL_PART);
    return tidei_round_up(tidei_min_size(bytes, VA_LIMIT), page);
}

/* The memory of a host device where the settings say nothing. */
static size_t default_ceiling(size_t room, size_t page) {
    return tidei_max_size(tidei_min_size(tidei_host_default_memory(), room / ROOM_MEMORY_PART),
                          page);
}

static void describe(tidei_device_info *info, const tidei_device_params *p, size_t page) {
    info->flags = TIDEI_DEV_RUNS_HOST | TIDEI_DEV_PAGES | TIDEI_DEV_UNIFIED | TIDEI_DEV_GRAPHS;
    info->ordinal = p->ordinal;
    info->count = p->count;
    info->page_bytes = page;
    info->fresh_ns = FRESH_NS;
    info->staged_bytes = TIDEI_STAGED_MAX;
    info->align = TIDEI_HOST_ALIGN;
    size_t room = tidei_host_address_room();
    info->total_bytes = p->host_device_memory ? p->host_device_memory : default_ceiling(room, page);
    info->va_bytes = address_space(info->total_bytes, room, page);
    tidei_format(info->name, sizeof info->name, "host:%d", p->ordinal);
    tidei_format(info->model, sizeof info->model, "%ld processors", sysconf(_SC_NPROCESSORS_ONLN));
}

tide_status tidei_host_open(const tidei_device_params *p, tidei_device **out) {
    size_t page = p->host_page ? p->host_page : DEFAULT_PAGE,
           system_page = (size_t)sysconf(_SC_PAGESIZE);
    if (page % system_page || page > VA_MAX)
        return tidei_fail(TIDE_E_INVALID, "host_open",
                          "a page of %zu bytes: it must be a multiple of %zu", page, system_page);
    tidei_host *h = tidei_host_alloc(p->rt, sizeof *h);
    if (!h) return tidei_fail_host_memory("host_open", sizeof *h);
    h->base.ops = &host_ops;
    h->rt = p->rt;
    h->pid = getpid();
    h->base.fault_word = h->fault;
    h->base.fault_addr = (uintptr_t)h->fault;
    h->base.findings = &h->found;
    atomic_init(&h->fresh_ns, FRESH_NS);
    h->base.fresh_ns = &h->fresh_ns;
    describe(&h->base.info, p, page);
    if (!join_group(h, p)) {
        tidei_host_free(p->rt, h);
        return no_memory("host_open");
    }
    pthread_mutex_init(&h->memory_lock, NULL);
    pthread_mutex_init(&h->mempools_lock, NULL);
    pthread_mutex_init(&h->streams_lock, NULL);
    pthread_mutex_init(&h->findings_lock, NULL);
    *out = &h->base;
    return TIDE_OK;
}

/* ---- for tests and reports ---- */

uint64_t tidei_host_checker_reports(tidei_device *d) {
    tidei_host *h = host_of(d);
    return h->checker ? tidei_checker_reports(h->checker) : 0;
}

void tidei_host_lose(tidei_device *d, const char *why) {
    tidei_host *h = host_of(d);
    pthread_mutex_lock(&h->streams_lock);
    if (!tidei_host_is_lost(h)) {
        tidei_format(h->why, sizeof h->why, "%s", why);
        atomic_store(&d->lost, true);
        for (tidei_dstream *s = h->streams; s; s = s->next) {
            tidei_bell_signal(&s->work, TIDEI_BELL_LOST);
            tidei_bell_signal(&s->recorded, TIDEI_BELL_LOST);
        }
    }
    pthread_mutex_unlock(&h->streams_lock);
}
