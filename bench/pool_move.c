/* pool_move.c: the breaker of B6, and the speed of moving: memory full of small blocks, every
** second one freed, then one request that fits only once those between are moved. Each block
** carries a number, which must still be there afterwards. */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>

#define SMALL       (64 * TIDEI_KIB)
#define PINNED_EACH 64 /* of the blocks that stay, in the breaker */
#define MOVE_ROUNDS 5

struct pieces {
    size_t n;
    tidei_storage **st; /* NULL: freed */
    unsigned pinned_each;
};

static bool is_pinned(const struct pieces *p, size_t i) {
    return p->pinned_each && i / 2 % p->pinned_each == 0;
}

/* Fills what the limit leaves, and frees every second one. */
static bool pieces_make(bench *b, struct pieces *p) {
    tidei_stream *s = b->d->stream0;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t number = i;
        if (tidei_storage_new(b->d, SMALL, s, "bench", &p->st[i]) != TIDE_OK) return false;
        if (tidei_submit_fill(s, p->st[i], 0, &number, sizeof number, SMALL / sizeof number,
                              "bench") != TIDE_OK)
            return false;
        if (i % 2 && is_pinned(p, i)) tidei_storage_pin(p->st[i]);
    }
    for (size_t i = 0; i < p->n; i += 2) {
        tidei_storage_release(p->st[i]);
        p->st[i] = NULL;
    }
    if (tidei_streams_wait_all(b->d, true) != TIDE_OK) return false;
    b->d->pool->ops->settle(b->d->pool); /* thousands of frees are no part of the request */
    return true;
}

/* Whether each block's first and last words are its number still. */
static bool pieces_intact(bench *b, const struct pieces *p, size_t *wrong) {
    *wrong = 0;
    for (size_t i = 1; i < p->n; i += 2)
        for (size_t at = 0; at < SMALL; at += SMALL - sizeof(uint64_t)) {
            uint64_t number;
            if (tidei_submit_copy(b->d->stream0, TIDEI_COPY_D2H, NULL, 0, &number, p->st[i], at,
                                  sizeof number, "bench") != TIDE_OK)
                return false;
            *wrong += number != i;
        }
    return true;
}

static void pieces_drop(struct pieces *p) {
    for (size_t i = 0; i < p->n; i++) {
        if (!p->st[i]) continue;
        if (is_pinned(p, i)) tidei_storage_unpin(p->st[i]);
        tidei_storage_release(p->st[i]);
        p->st[i] = NULL;
    }
}

struct large {
    bool served;
    double queued_ns; /* until the request is served: the host's part */
    double ns;        /* until the moves are done too */
    uint64_t moved, compactions;
};

/* Asks for `bytes` in one piece. */
static bool large_ask(bench *b, size_t bytes, struct large *out) {
    tidei_pool_stats before, after;
    tidei_storage *st;
    b->d->pool->ops->stats(b->d->pool, &before);
    uint64_t start = tidei_now_ns();
    tide_status status = tidei_storage_new(b->d, bytes, b->d->stream0, "bench", &st);
    if (status != TIDE_OK && status != TIDE_E_NOMEM) return false;
    out->queued_ns = (double)(tidei_now_ns() - start);
    if (tidei_streams_wait_all(b->d, true) != TIDE_OK) return false;
    out->ns = (double)(tidei_now_ns() - start);
    b->d->pool->ops->stats(b->d->pool, &after);
    out->served = status == TIDE_OK;
    out->moved = after.bytes_moved - before.bytes_moved;
    out->compactions = after.compactions - before.compactions;
    if (out->served) tidei_storage_release(st);
    return true;
}

/* One round: pieces, the request, a look at what was moved. */
static bool ask_among(bench *b, struct pieces *p, size_t bytes, struct large *out, size_t *wrong) {
    bool ok = pieces_make(b, p) && large_ask(b, bytes, out) && pieces_intact(b, p, wrong);
    pieces_drop(p);
    return ok && tidei_streams_wait_all(b->d, true) == TIDE_OK;
}

static bool open_full(bench *b, size_t cuda, size_t host, struct pieces *p) {
    char limit[32];
    if (!bench_open(b, "refcount", NULL, false)) return false;
    size_t bytes =
        tidei_round_up(bench_or(b->size, bench_on_cuda(b) ? cuda : host), b->d->d->info.page_bytes);
    bench_close(b);
    snprintf(limit, sizeof limit, "%zu", bytes);
    if (!bench_open(b, "refcount", limit, false)) return false;
    p->n = bytes / SMALL;
    p->st = calloc(p->n, sizeof *p->st);
    return p->st || tidei_fail_host_memory("bench", p->n * sizeof *p->st) == TIDE_OK;
}

/* Bytes read and written a nanosecond where the device alone has `n` small blocks to copy, all told
** at once; < 0: it failed. */
static double copy_rate(bench *b, size_t n) {
    tidei_device *d = b->d->d;
    tidei_storage *from = NULL, *to = NULL;
    tidei_piece *pieces = calloc(n, sizeof *pieces);
    double ns[MOVE_ROUNDS];
    bool ok = pieces &&
              tidei_storage_new(b->d, n * SMALL, b->d->stream0, "bench", &from) == TIDE_OK &&
              tidei_storage_new(b->d, n * SMALL, b->d->stream0, "bench", &to) == TIDE_OK;
    for (size_t i = 0; ok && i < n; i++)
        pieces[i] = (tidei_piece){
            .dst = to->addr + (n - 1 - i) * SMALL, .src = from->addr + i * SMALL, .bytes = SMALL};
    for (int r = -1; ok && r < MOVE_ROUNDS; r++) {
        uint64_t start = tidei_now_ns();
        ok = d->ops->copy_many(d, b->d->stream0->ds, pieces, n) == TIDE_OK &&
             d->ops->stream_sync(d, b->d->stream0->ds) == TIDE_OK;
        if (r >= 0) ns[r] = (double)(tidei_now_ns() - start);
    }
    if (from) tidei_storage_release(from);
    if (to) tidei_storage_release(to);
    free(pieces);
    return ok ? 2 * (double)(n * SMALL) / bench_median(ns, MOVE_ROUNDS) : -1;
}

int bench_breaker(bench *b) {
    struct pieces p = {.pinned_each = PINNED_EACH};
    struct large l;
    size_t wrong;
    if (!open_full(b, 8 * TIDEI_GIB, 64 * TIDEI_MIB, &p)) return bench_failed("tide_open");
    bool ok = ask_among(b, &p, p.n / 4 * SMALL, &l, &wrong);
    free(p.st);
    if (!ok) return bench_failed("breaker");
    bench_note(b, (double)(p.n * SMALL), "bytes", "limit");
    bench_note(b, l.ns / 1e6, "ms", "time");
    bench_note(b, (double)l.moved, "bytes", "moved");
    bench_note(b, (double)wrong, "", "wrong_words");
    bench_note(b, l.served && !wrong, "", "served");
    return bench_done(b, "served");
}

int bench_move(bench *b) {
    struct pieces p = {0};
    double rate[MOVE_ROUNDS], ms[MOVE_ROUNDS], block_ns[MOVE_ROUNDS];
    uint64_t moved = 0;
    size_t wrong = 0;
    if (!open_full(b, 2 * TIDEI_GIB, 256 * TIDEI_MIB, &p)) return bench_failed("tide_open");
    for (unsigned r = 0; r < MOVE_ROUNDS; r++) {
        struct large l;
        size_t now;
        if (!ask_among(b, &p, p.n / 4 * SMALL, &l, &now)) {
            free(p.st);
            return bench_failed("move");
        }
        if (!l.served || !l.compactions) break;
        moved = l.moved;
        wrong += now;
        ms[r] = l.ns / 1e6;
        block_ns[r] = l.queued_ns / ((double)l.moved / SMALL);
        rate[r] = 2 * (double)l.moved / l.ns; /* read and written */
    }
    free(p.st);
    double copied = copy_rate(b, p.n / 8);
    if (copied < 0) return bench_failed("copying");
    if (!moved) return bench_skipped("nothing was moved: this pool does not make room so");
    bench_note(b, (double)moved, "bytes", "moved");
    bench_note(b, bench_median(ms, MOVE_ROUNDS), "ms", "time");
    bench_note(b, bench_median(block_ns, MOVE_ROUNDS), "ns", "host_time_each");
    bench_note(b, (double)wrong, "", "wrong_words");
    bench_note(b, copied, "GB/s", "device_rate");
    bench_note(b, bench_median(rate, MOVE_ROUNDS), "GB/s", "rate");
    if (wrong) return bench_failed("moved blocks differ");
    return bench_done(b, "rate");
}
