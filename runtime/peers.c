/* peers.c: whether work of one device may use another one's memory. The model stands in devices.h.
**
** Drivers have been seen to enable access and then read zeros. So once access is enabled, a pattern goes from the other device's
** memory to this one's and another one back, by this device's work, in blocks of the pools that arrays come from. */
#include "runtime/pools.h"
#include "runtime/runtime.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/device.h>

/* What a device knows of another. */
enum { UNKNOWN, REACHED, FORBIDDEN, IMPOSSIBLE, WRONG };

static const char *const why[] = {[FORBIDDEN] = "TIDE_PEERS forbids it",
                                  [IMPOSSIBLE] = "the two have no peer access",
                                  [WRONG] = "peer access was enabled and brought wrong bytes"};

/* ---- the setting ---- */

/* The next pair of "0-1,2-3"; moves *text behind it and its comma. False: there is none. */
static bool next_pair(const char **text, int *a, int *b) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    long one = strtol(*text, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9') return false;
    long two = strtol(end + 1, &end, 10);
    if ((*end && (*end != ',' || !end[1])) || one >= TIDEI_DEVICES_MAX || two >= TIDEI_DEVICES_MAX) return false;
    *a = (int)one;
    *b = (int)two;
    *text = *end ? end + 1 : end;
    return true;
}

bool tidei_peers_parse(const char *text) {
    int a, b;
    if (!*text || !strcmp(text, "all") || !strcmp(text, "none")) return true;
    while (next_pair(&text, &a, &b)) {}
    return !*text;
}

static bool allowed(const char *text, int x, int y) {
    int a, b;
    if (!*text || !strcmp(text, "all")) return true;
    while (next_pair(&text, &a, &b))
        if ((a == x && b == y) || (a == y && b == x)) return true;
    return false;
}

/* ---- the proof ---- */

#define PROOF_BYTES 4096

/* One side: a block of a device's pool, and a stream to work on. */
typedef struct side {
    tidei_dev *d;
    tidei_dstream *ds;
    tidei_block block;
} side;

static void leave(side *x) {
    if (x->ds) tidei_stream_let_go(x->d->stream0);
    if (x->block.addr) x->d->pool->ops->free(x->d->pool, &x->block);
}

/* The host waits for the block's past, so nothing is to be ordered. */
static tide_status enter(side *x, tidei_dev *d, const char *op) {
    *x = (side){.d = d, .ds = tidei_stream_hold(d->stream0)};
    if (!x->ds) return tidei_fail(TIDE_E_INVALID, op, "the runtime is closing");
    tide_status status = d->pool->ops->alloc(d->pool, PROOF_BYTES, d->stream0, 0, &x->block);
    if (status != TIDE_OK) return x->block.addr = 0, status;
    tidei_stamp *a = tidei_stamps_at(&x->block.stamps);
    for (unsigned i = 0; i < x->block.stamps.n && status == TIDE_OK; i++) status = tidei_stamp_wait(d, a[i]);
    tidei_stamps_clear(&x->block.stamps);
    return status;
}

static tide_status copy(const side *by, tidei_copy_kind kind, tidei_addr dst, tidei_addr src) {
    bool busy;
    tidei_device *d = by->d->d;
    tidei_copy c = {.kind = kind, .dst = dst, .src = src, .bytes = PROOF_BYTES, .busy = &busy};
    tide_status status = d->ops->copy(d, by->ds, &c);
    return status == TIDE_OK ? d->ops->stream_sync(d, by->ds) : status;
}

static tidei_addr host_side(uint64_t *words) { return (tidei_addr)(uintptr_t)words; }

/* A pattern from one block to the other by `by`'s work. */
static tide_status carry(const side *by, const side *from, const side *to, uint64_t seed, bool *right) {
    uint64_t sent[PROOF_BYTES / sizeof(uint64_t)], got[TIDEI_COUNT(sent)] = {0};
    for (size_t i = 0; i < TIDEI_COUNT(sent); i++)
        sent[i] = seed *= UINT64_C(6364136223846793005), seed += 1442695040888963407u;
    tide_status status = copy(from, TIDEI_COPY_H2D, from->block.addr, host_side(sent));
    if (status == TIDE_OK) status = copy(by, TIDEI_COPY_D2D, to->block.addr, from->block.addr);
    if (status == TIDE_OK) status = copy(to, TIDEI_COPY_D2H, host_side(got), to->block.addr);
    *right = !memcmp(sent, got, sizeof sent);
    return status;
}

static tide_status prove(tidei_dev *d, tidei_dev *other, const char *op, bool *right) {
    side here, there;
    tide_status status = enter(&here, d, op);
    if (status == TIDE_OK) {
        status = enter(&there, other, op);
        if (status == TIDE_OK) status = carry(&here, &there, &here, 1, right);
        if (status == TIDE_OK && *right) status = carry(&here, &here, &there, 2, right);
        leave(&there);
    }
    leave(&here);
    return status;
}

/* ---- finding out ---- */

/* Under peers_lock. What fails is not known afterwards, and found out another time. */
static tide_status find_out(tidei_dev *d, tidei_dev *other, const char *op, unsigned *known) {
    const struct tidei_device_ops *ops = d->d->ops;
    bool right = false;
    if (!allowed(d->rt->set.peers, tidei_dev_number(d), tidei_dev_number(other)))
        return *known = FORBIDDEN, TIDE_OK;
    if (ops->peer_possible && !ops->peer_possible(d->d, other->d)) return *known = IMPOSSIBLE, TIDE_OK;
    atomic_store(&other->used_elsewhere, true);
    tide_status status = ops->peer_possible ? ops->peer_enable(d->d, other->d) : TIDE_OK;
    if (status == TIDE_OK) status = prove(d, other, op, &right);
    if (status == TIDE_OK) *known = right ? REACHED : WRONG;
    return status;
}

static tide_status look(tidei_dev *d, tidei_dev *other, const char *op, unsigned *known) {
    _Atomic uint8_t *at = &d->peers[other->index];
    tide_status status = TIDE_OK;
    *known = atomic_load(at);
    if (*known != UNKNOWN) return TIDE_OK;
    pthread_mutex_lock(&d->rt->peers_lock);
    *known = atomic_load(at);
    bool fresh = *known == UNKNOWN;
    if (fresh) status = find_out(d, other, op, known);
    atomic_store(at, (uint8_t)*known);
    pthread_mutex_unlock(&d->rt->peers_lock);
    if (fresh && *known == WRONG)
        tidei_log(d->rt, TIDE_LOG_WARNING,
                  "%s reads and writes %s's memory wrong, though the driver enabled it: arrays are copied",
                  d->d->info.name, other->d->info.name);
    return status;
}

/* Memory that every device of the runtime reaches. */
static bool is_everywhere(const tidei_dev *d, const tidei_storage *st) {
    tidei_mem_kind kind = st->pool->kind;
    return kind == TIDEI_MEM_PINNED || (kind == TIDEI_MEM_UNIFIED && (d->d->info.flags & TIDEI_DEV_UNIFIED));
}

bool tidei_peer_known(const tidei_dev *d, const tidei_storage *st) {
    const tidei_dev *owner = st->dev;
    if (owner == d) return true;
    if (owner->rt != d->rt || atomic_load(&owner->d->lost)) return false;
    return is_everywhere(d, st) ? atomic_load(&owner->used_elsewhere)
                                : atomic_load(&d->peers[owner->index]) == REACHED;
}

tide_status tidei_peer_need(tidei_dev *d, tidei_storage *st, const char *op) {
    tidei_dev *owner = st->dev;
    unsigned known = REACHED;
    if (owner->rt != d->rt)
        return tidei_fail(TIDE_E_INVALID, op, "an array belongs to another runtime; copy it through host memory");
    if (tidei_peer_known(d, st)) return TIDE_OK;
    if (atomic_load(&owner->d->lost)) return tidei_lost(owner, op);
    if (is_everywhere(d, st)) return atomic_store(&owner->used_elsewhere, true), TIDE_OK;
    tide_status status = look(d, owner, op, &known);
    if (status == TIDE_OK && known == REACHED) return TIDE_OK;
    if (status != TIDE_OK)
        return status == TIDE_E_LOST ? tidei_lost(atomic_load(&d->d->lost) ? d : owner, op) : tidei_fail_as(op);
    int here = tidei_dev_number(d), there = tidei_dev_number(owner);
    return tidei_fail(TIDE_E_UNSUPPORTED, op,
                      "an array of %s was used on %s, which cannot reach its memory: %s. Make its device current "
                      "(tide_device_set(rt, %d)), or copy the array: tide_copy while %d is current",
                      owner->d->info.name, d->d->info.name, why[known], there, here);
}

bool tidei_peer_possible(tidei_dev *d, tidei_storage *st) {
    if (tidei_peer_known(d, st)) return true;
    tidei_saved_error e;
    tidei_error_save(&e);
    bool reached = tidei_peer_need(d, st, "peer access") == TIDE_OK;
    tidei_error_restore(&e);
    return reached;
}

int tide_device_reaches(tide_runtime *rt, int device, int owner) {
    static const char op[] = "tide_device_reaches";
    tidei_dev *d, *other;
    unsigned known = REACHED;
    if (!rt) tidei_fail(TIDE_E_INVALID, op, "the runtime is NULL");
    if (!rt || !tidei_thread_get(rt)) return -1;
    tide_status status = tidei_dev_get(rt, device, op, &d);
    if (status == TIDE_OK) status = tidei_dev_get(rt, owner, op, &other);
    if (status == TIDE_OK && d != other) status = look(d, other, op, &known);
    if (status == TIDE_OK) return known == REACHED;
    tidei_fail_as(op);
    return -1;
}
