/* mempool.c: pools "of the driver's own" on the host device: what CUDA's stream-ordered pools
** promise, emulated.
**
** Model. A pool keeps chunks, each taken from the system in one piece for one block and never cut.
** A chunk is used for a block, or free: then it has the record that its free made in the queue of
** the stream it was freed on. A stream gets a free chunk at once that it freed itself, whose record
** it waits for (FOLLOW), whose record has passed (DONE), or for whose record it is made to wait
** (WAIT). When the host waits for a stream, free chunks whose record has passed go back until no
** more than the threshold is held. More careful than CUDA's: only a stream's own waits count, not
** chains of them, and of these only the latest few; and a chunk serves only requests that fill most
** of it.
** Locks: the pools' is one for all of a device, before a stream's. Where this file finds that a
** record has passed it tells the checker, though the program asked nothing: a driver that says so
** orders what comes after, too. */
#include "runtime/device/host/host.h"

#define BUCKETS 1024
#define WASTE   8 /* a chunk may be larger than the request by an eighth of it */

typedef struct chunk chunk;
struct chunk {
    chunk *next; /* in its bucket, or in the list of free chunks */
    tidei_addr addr;
    size_t bytes;
    tidei_dstream *freed_on; /* NULL: on no stream, so nothing is pending */
    uint64_t record;
    bool past; /* the record has passed, and the host knows it */
    tidei_moment moment;
};

struct tidei_dmempool {
    tidei_dmempool *next; /* in the device's list */
    uint64_t attrs[TIDEI_MEMPOOL_REUSE_WAIT + 1];
    chunk *blocks[BUCKETS], *free; /* the latest freed first */
    size_t reserved, used;
};

static tidei_host *host_of(tidei_device *d) { return (tidei_host *)d; }

static chunk **bucket_of(tidei_dmempool *mp, tidei_addr addr) {
    return &mp->blocks[addr / TIDEI_HOST_ALIGN % BUCKETS];
}

/* ---- what a stream has waited for ---- */

void tidei_host_note_wait(tidei_dstream *s, tidei_dstream *of, uint64_t record) {
    struct tidei_waited *at = NULL;
    for (unsigned i = 0; i < TIDEI_WAITED && !at; i++)
        if (s->waited[i].of == of) at = &s->waited[i];
    if (!at) {
        at = &s->waited[s->oldest_wait++ % TIDEI_WAITED];
        *at = (struct tidei_waited){.of = of};
    }
    if (at->record < record) at->record = record;
}

static bool waits_for(tidei_dstream *s, const chunk *c) {
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < TIDEI_WAITED; i++)
        found = found || (s->waited[i].of == c->freed_on && s->waited[i].record >= c->record);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ---- chunks; under the pools' lock ---- */

static void forget_moment(tidei_host *h, chunk *c) {
    if (c->moment.row) tidei_checker_moment_drop(h->checker, &c->moment);
}

static bool is_past(tidei_host *h, chunk *c) {
    if (c->past) return true;
    if (!tidei_hqueue_passed(c->freed_on, c->record)) return false;
    if (c->moment.row) tidei_checker_known(h->checker, &c->moment);
    c->past = true;
    return true;
}

/* Makes s wait for the record of the chunk's free. */
static bool make_wait(tidei_host *h, tidei_dstream *s, chunk *c) {
    pthread_mutex_lock(&s->lock);
    bool ok = tidei_hqueue_wait(s, c->freed_on, c->record);
    if (ok && c->moment.row) ok = tidei_checker_wait(h->checker, s->id, &c->moment);
    if (ok) tidei_host_note_wait(s, c->freed_on, c->record);
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static bool may_have(tidei_host *h, tidei_dmempool *mp, tidei_dstream *s, chunk *c) {
    if (!c->freed_on || c->freed_on == s) return true;
    if (mp->attrs[TIDEI_MEMPOOL_REUSE_FOLLOW] && waits_for(s, c)) return true;
    return mp->attrs[TIDEI_MEMPOOL_REUSE_DONE] && is_past(h, c);
}

static bool fills(const chunk *c, size_t size) {
    return c->bytes >= size && c->bytes - size <= size / WASTE;
}

/* The place of the best fit in the list of free chunks, NULL if there is none. `wait`: chunks that
** s has to wait for, too. */
static chunk **find(tidei_host *h, tidei_dmempool *mp, tidei_dstream *s, size_t size, bool wait) {
    chunk **best = NULL;
    for (chunk **at = &mp->free; *at && !(best && (*best)->bytes == size); at = &(*at)->next)
        if (fills(*at, size) && (!best || (*at)->bytes < (*best)->bytes) &&
            (wait || may_have(h, mp, s, *at)))
            best = at;
    return best;
}

static chunk *take_free(tidei_host *h, tidei_dmempool *mp, tidei_dstream *s, size_t size) {
    chunk **at = find(h, mp, s, size, false);
    if (!at && mp->attrs[TIDEI_MEMPOOL_REUSE_WAIT]) {
        at = find(h, mp, s, size, true);
        if (at && !make_wait(h, s, *at)) at = NULL;
    }
    if (!at) return NULL;
    chunk *c = *at;
    *at = c->next;
    forget_moment(h, c);
    return c;
}

static tide_status take_new(tidei_host *h, tidei_dmempool *mp, size_t size, chunk **out) {
    chunk *c = tidei_host_alloc(h->rt, sizeof *c);
    if (!c) return tidei_fail_host_memory("mempool_alloc", sizeof *c);
    tide_status status = tidei_host_raw_alloc(&h->base, TIDEI_MEM_DEVICE, size, &c->addr);
    if (status != TIDE_OK) {
        tidei_host_free(h->rt, c);
        return status;
    }
    c->bytes = size;
    mp->reserved += size;
    *out = c;
    return TIDE_OK;
}

static void give_back(tidei_host *h, tidei_dmempool *mp, chunk *c) {
    mp->reserved -= c->bytes;
    forget_moment(h, c);
    tidei_host_raw_free(&h->base, TIDEI_MEM_DEVICE, c->addr, c->bytes);
    tidei_host_free(h->rt, c);
}

static void shrink(tidei_host *h, tidei_dmempool *mp, uint64_t keep) {
    for (chunk **at = &mp->free; *at && mp->reserved > keep;) {
        chunk *c = *at;
        if (!is_past(h, c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        give_back(h, mp, c);
    }
}

void tidei_host_mempools_synced(tidei_host *h) {
    pthread_mutex_lock(&h->mempools_lock);
    for (tidei_dmempool *mp = h->mempools; mp; mp = mp->next)
        shrink(h, mp, mp->attrs[TIDEI_MEMPOOL_THRESHOLD]);
    pthread_mutex_unlock(&h->mempools_lock);
}

/* ---- slots of the table ---- */

tide_status tidei_host_mempool_new(tidei_device *d, tidei_dmempool **out) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_new");
    tidei_dmempool *mp = tidei_host_alloc(h->rt, sizeof *mp);
    if (!mp) return tidei_fail_host_memory("mempool_new", sizeof *mp);
    for (unsigned i = TIDEI_MEMPOOL_REUSE_FOLLOW; i < TIDEI_COUNT(mp->attrs); i++) mp->attrs[i] = 1;
    pthread_mutex_lock(&h->mempools_lock);
    mp->next = h->mempools;
    h->mempools = mp;
    pthread_mutex_unlock(&h->mempools_lock);
    *out = mp;
    return TIDE_OK;
}

/* In a forked child the lists may be in any state, and the memory is the parent's. */
void tidei_host_mempool_release(tidei_device *d, tidei_dmempool *mp) {
    tidei_host *h = host_of(d);
    if (!mp || tidei_host_forked(h)) return;
    pthread_mutex_lock(&h->mempools_lock);
    tidei_dmempool **at = &h->mempools;
    while (*at != mp) at = &(*at)->next;
    *at = mp->next;
    for (chunk *c = mp->free, *next; c; c = next) {
        next = c->next;
        (void)is_past(h, c); /* it is past, and the call tells the checker */
        give_back(h, mp, c);
    }
    pthread_mutex_unlock(&h->mempools_lock);
    tidei_check(!mp->used);
    tidei_host_free(h->rt, mp);
}

tide_status tidei_host_mempool_alloc(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                     size_t bytes, tidei_addr *out) {
    tidei_host *h = host_of(d);
    tide_status status = TIDE_OK;
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_alloc");
    if (!bytes || bytes > d->info.total_bytes)
        return tidei_fail(bytes ? TIDE_E_NOMEM : TIDE_E_INVALID, "mempool_alloc",
                          "%s: %zu bytes asked of %zu", d->info.name, bytes, d->info.total_bytes);
    size_t size = tidei_round_up(bytes, TIDEI_HOST_ALIGN);
    pthread_mutex_lock(&h->mempools_lock);
    chunk *c = take_free(h, mp, s, size);
    if (!c) status = take_new(h, mp, size, &c);
    if (status == TIDE_OK) {
        chunk **bucket = bucket_of(mp, c->addr);
        c->next = *bucket;
        *bucket = c;
        mp->used += c->bytes;
        *out = c->addr;
    }
    pthread_mutex_unlock(&h->mempools_lock);
    return status;
}

/* Makes the record of a free in the stream's queue, and the checker's moment for it. */
static bool mark_free(tidei_host *h, tidei_dstream *s, uint64_t *record, tidei_moment *now) {
    pthread_mutex_lock(&s->lock);
    bool ok = tidei_hqueue_record(s, record);
    if (ok && h->checker) tidei_checker_moment(h->checker, s->id, now);
    pthread_mutex_unlock(&s->lock);
    return ok;
}

tide_status tidei_host_mempool_free(tidei_device *d, tidei_dmempool *mp, tidei_dstream *s,
                                    tidei_addr addr) {
    tidei_host *h = host_of(d);
    tidei_moment now = {0};
    uint64_t record = 0;
    if (s && tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_free");
    if (s && !mark_free(h, s, &record, &now))
        return tidei_fail(TIDE_E_INVALID, "mempool_free", "%s: the stream is closed", d->info.name);
    pthread_mutex_lock(&h->mempools_lock);
    chunk **at = bucket_of(mp, addr);
    while ((*at)->addr != addr) at = &(*at)->next;
    chunk *c = *at;
    *at = c->next;
    c->next = mp->free;
    mp->free = c;
    mp->used -= c->bytes;
    c->freed_on = s;
    c->record = record;
    c->moment = now;
    c->past = !s;
    pthread_mutex_unlock(&h->mempools_lock);
    return TIDE_OK;
}

tide_status tidei_host_mempool_set(tidei_device *d, tidei_dmempool *mp, tidei_mempool_attr attr,
                                   uint64_t value) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_set");
    pthread_mutex_lock(&h->mempools_lock);
    mp->attrs[attr] = value;
    pthread_mutex_unlock(&h->mempools_lock);
    return TIDE_OK;
}

tide_status tidei_host_mempool_trim(tidei_device *d, tidei_dmempool *mp, size_t keep) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_trim");
    pthread_mutex_lock(&h->mempools_lock);
    shrink(h, mp, keep);
    pthread_mutex_unlock(&h->mempools_lock);
    return TIDE_OK;
}

tide_status tidei_host_mempool_figures(tidei_device *d, tidei_dmempool *mp, size_t *reserved,
                                       size_t *used) {
    tidei_host *h = host_of(d);
    if (tidei_host_is_lost(h)) return tidei_host_lost(h, "mempool_figures");
    pthread_mutex_lock(&h->mempools_lock);
    *reserved = mp->reserved;
    *used = mp->used;
    pthread_mutex_unlock(&h->mempools_lock);
    return TIDE_OK;
}
