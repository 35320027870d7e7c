/* peers.c: whether work of one device may use another one's memory. The model stands in devices.h.
**
** Drivers have been seen to enable access and then read zeros. So once access is enabled it is
** tried: this device's work copies a pattern from the other device's memory to its own, and another
** one back, in memory of the pools that arrays come from. */
#include "runtime/observe/nvtx.h"
#include "runtime/memory/peers.h"
#include "runtime/memory/move.h"
#include "runtime/memory/memory_kinds.h"
#include "runtime/streams/loss.h"
#include "runtime/streams/thread_device.h"
#include "runtime/pool/pools.h"
#include "runtime/base/text.h"
#include <tide/device.h>

/* What a device knows of its access to another's memory. */
enum { UNKNOWN, ENABLED, REACHED, WRONG, FORBIDDEN, IMPOSSIBLE };

static const char *const why[] = {[WRONG] = "peer access was enabled and brought wrong bytes",
                                  [FORBIDDEN] = "TIDE_PEERS forbids it",
                                  [IMPOSSIBLE] = "the two have no peer access"};

/* ---- the proof ---- Made by ordinary copies: on the default streams, with stamps on what they
** touch. */

#define PROOF_BYTES 4096

static void undo_enter(tidei_runtime *rt, tidei_thread *t, void *st, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    tidei_storage_unpin(st);
    tidei_storage_release(st);
}

static void leave(tidei_storage *st) {
    if (!st) return;
    tidei_let(tidei_thread_get(st->dev->rt), st);
    tidei_storage_unpin(st);
    tidei_storage_release(st);
}

/* Makes a storage on the device that does not move; the host waits for its earlier uses, so no
** stream has to. May climb the ladder. */
static tide_status enter(tidei_dev *d, const char *op, tidei_storage **out) {
    tide_status status = tidei_storage_new_in(d->pool, PROOF_BYTES, d->stream0, op, out);
    if (status != TIDE_OK) return *out = NULL, status;
    tidei_storage_pin(*out);
    tidei_hold(tidei_thread_get(d->rt), undo_enter, *out, 0);
    tidei_moves_wait(d->rt->moves); /* a move that was under way has ended */
    return tidei_storage_wait(*out, TIDEI_WRITE);
}

/* Copies by d's work, and waits for it. dst or src NULL: the host's words. */
static tide_status copy(tidei_dev *d, tidei_storage *dst, tidei_storage *src, uint64_t *words,
                        const char *op) {
    tidei_stream *s = d->stream0;
    tidei_addr host = (tidei_addr)(uintptr_t)words;
    bool busy;
    tidei_copy c = {.kind = !src   ? TIDEI_COPY_H2D
                            : !dst ? TIDEI_COPY_D2H
                                   : TIDEI_COPY_D2D,
                    .dst = dst ? dst->addr : host,
                    .src = src ? src->addr : host,
                    .bytes = PROOF_BYTES,
                    .busy = &busy};
    tidei_use uses[2];
    unsigned n = 0;
    if (dst) uses[n++] = (tidei_use){dst, 0, PROOF_BYTES, TIDEI_WRITE};
    if (src) uses[n++] = (tidei_use){src, 0, PROOF_BYTES, TIDEI_READ};
    /* a copy to the host's own memory waits, under the lock, for all that is queued; waiting here
    ** first leaves it little */
    if (!dst && tidei_stream_wait(s, true) != TIDE_OK) return tidei_last_status();
    pthread_mutex_lock(&s->lock);
    if (!s->ds) { /* only on a lost device is it retired so early */
        pthread_mutex_unlock(&s->lock);
        return tidei_lost(d, op);
    }
    tide_status status = d->d->ops->copy(d->d, s->ds, &c);
    /* as far as there is room: the host waits for the copy here, too */
    tidei_publish_uses(s, uses, n, tidei_stream_tick(s));
    tidei_stream_after_work(s);
    pthread_mutex_unlock(&s->lock);
    tide_status waited = tidei_stream_finish(s); /* the words may lie on the caller's frame */
    return status == TIDE_OK ? waited : status;
}

/* Copies a pattern from one memory to another by the work of `by`, and checks it. */
static tide_status carry(tidei_dev *by, tidei_storage *from, tidei_storage *to, uint64_t seed,
                         const char *op, bool *right) {
    uint64_t sent[PROOF_BYTES / sizeof(uint64_t)], got[TIDEI_COUNT(sent)] = {0};
    for (size_t i = 0; i < TIDEI_COUNT(sent); i++)
        sent[i] = seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    tide_status status = copy(from->dev, from, NULL, sent, op);
    if (status == TIDE_OK) status = copy(by, to, from, NULL, op);
    if (status == TIDE_OK) status = copy(to->dev, NULL, to, got, op);
    *right = !memcmp(sent, got, sizeof sent);
    return status;
}

static tide_status prove(tidei_dev *d, tidei_dev *other, const char *op, bool *right) {
    tidei_storage *here, *there = NULL;
    tide_status status = enter(d, op, &here);
    if (status == TIDE_OK) status = enter(other, op, &there);
    if (status == TIDE_OK) status = carry(d, there, here, 1, op, right);
    if (status == TIDE_OK && *right) status = carry(d, here, there, 2, op, right);
    leave(there);
    leave(here);
    return status;
}

/* ---- finding out ---- If that fails, the answer stays unknown, and the next use asks again. */

/* Under peers_lock, so that access is enabled once. */
static tide_status enable(tidei_dev *d, tidei_dev *other, unsigned *known) {
    const struct tidei_device_ops *ops = d->d->ops;
    if (!tidei_peers_allow(d->rt->set.peers, tidei_dev_number(d), tidei_dev_number(other)))
        return *known = FORBIDDEN, TIDE_OK;
    if (ops->peer_possible && !ops->peer_possible(d->d, other->d))
        return *known = IMPOSSIBLE, TIDE_OK;
    atomic_store(&other->waits->used_elsewhere, true);
    tidei_saved_error e;
    tidei_error_save(&e);
    tide_status status = ops->peer_enable ? ops->peer_enable(d->d, other->d) : TIDE_OK;
    *known = status == TIDE_OK ? ENABLED : status == TIDE_E_UNSUPPORTED ? IMPOSSIBLE : UNKNOWN;
    if (*known != IMPOSSIBLE) return status;
    tidei_error_restore(&e);
    return TIDE_OK;
}

/* Called without a lock: it climbs and waits. Two threads may do it at once; the first that knows
** notes the answer. */
static tide_status find_out(tidei_dev *d, tidei_dev *other, const char *op, unsigned *known) {
    uint8_t enabled = ENABLED;
    bool right = false;
    tide_status status = prove(d, other, op, &right);
    if (status != TIDE_OK) return status;
    *known = right ? REACHED : WRONG;
    if (!atomic_compare_exchange_strong(&d->memory->peers[other->index], &enabled, (uint8_t)*known))
        *known = enabled;
    else if (!right)
        tidei_log(d->rt, TIDE_LOG_WARNING,
                  "%s reads and writes %s's memory wrong, though the driver enabled it: arrays are "
                  "copied",
                  d->d->info.name, other->d->info.name);
    return TIDE_OK;
}

static tide_status look(tidei_dev *d, tidei_dev *other, const char *op, unsigned *known) {
    _Atomic uint8_t *at = &d->memory->peers[other->index];
    tide_status status = TIDE_OK;
    *known = atomic_load(at);
    if (*known == UNKNOWN) {
        pthread_mutex_lock(&d->rt->peers_lock);
        *known = atomic_load(at);
        if (*known == UNKNOWN) {
            status = enable(d, other, known);
            atomic_store(at, (uint8_t)*known);
        }
        pthread_mutex_unlock(&d->rt->peers_lock);
    }
    return status == TIDE_OK && *known == ENABLED ? find_out(d, other, op, known) : status;
}

/* Memory that every device of the runtime reaches. */
static bool is_everywhere(const tidei_dev *d, const tidei_storage *st) {
    tidei_mem_kind kind = st->pool->kind;
    return kind == TIDEI_MEM_PINNED ||
           (kind == TIDEI_MEM_UNIFIED && (d->d->info.flags & TIDEI_DEV_UNIFIED));
}

bool tidei_peer_known(const tidei_dev *d, const tidei_storage *st) {
    const tidei_dev *owner = st->dev;
    if (owner == d) return true;
    if (owner->rt != d->rt || atomic_load(&owner->d->lost)) return false;
    return is_everywhere(d, st) ? atomic_load(&owner->waits->used_elsewhere)
                                : atomic_load(&d->memory->peers[owner->index]) == REACHED;
}

/* Whether d's work can use the storage, which is another device's; finds it out where that is not
** known. */
static tide_status reach(tidei_dev *d, tidei_storage *st, const char *op, unsigned *known) {
    tidei_dev *owner = st->dev;
    *known = REACHED;
    if (tidei_peer_known(d, st)) return TIDE_OK;
    if (owner->rt != d->rt)
        return tidei_fail(TIDE_E_INVALID, op,
                          "an array belongs to another runtime; copy it through host memory");
    if (atomic_load(&d->d->lost)) return tidei_lost(d, op);
    if (atomic_load(&owner->d->lost)) return tidei_lost(owner, op);
    if (is_everywhere(d, st)) return atomic_store(&owner->waits->used_elsewhere, true), TIDE_OK;
    tide_status status = look(d, owner, op, known);
    if (status == TIDE_E_LOST) return tidei_lost(atomic_load(&d->d->lost) ? d : owner, op);
    return status == TIDE_OK ? TIDE_OK : tidei_fail_as(op);
}

tide_status tidei_peer_need(tidei_dev *d, tidei_storage *st, const char *op) {
    const tidei_dev *owner = st->dev;
    unsigned known;
    tide_status status = reach(d, st, op, &known);
    if (status != TIDE_OK || known == REACHED) return status;
    return tidei_fail(
        TIDE_E_UNSUPPORTED, op,
        "an array of %s was used on %s, which cannot reach its memory: %s. Make its device current "
        "(tide_device_set(rt, %d)), or copy the array: tide_copy while %d is current",
        owner->d->info.name, d->d->info.name, why[known], tidei_dev_number(owner),
        tidei_dev_number(d));
}

bool tidei_peer_possible(tidei_dev *d, tidei_storage *st) {
    tidei_saved_error e;
    unsigned known;
    if (tidei_peer_known(d, st)) return true;
    tidei_error_save(&e);
    tide_status status = reach(d, st, "peer access", &known);
    if (status != TIDE_OK) tidei_error_restore(&e);
    return status == TIDE_OK && known == REACHED;
}

tide_status tidei_peer_look(tidei_dev *d, tidei_dev *other, const char *op, bool *reaches) {
    unsigned known = UNKNOWN;
    tide_status status = look(d, other, op, &known);
    *reaches = known == REACHED;
    return status;
}
