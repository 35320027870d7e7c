/* leaks.c: the list of arrays that are held. The model stands in leaks.h. */
#include "runtime/leaks.h"
#include "runtime/base/memory_kind.h"
#include "runtime/base/text.h"
#include "runtime/memory/header.h"
#include "runtime/observe/backtrace.h"
#include "runtime/observe/tracker.h"
#include "runtime/runtime.h"
#include <inttypes.h>

#define LISTED 24 /* arrays; of the others the sum */

/* ---- what is held ---- */

struct item {
    const tidei_storage *st; /* only to tell it from others */
    const char *kind;
    tidei_addr addr;
    size_t bytes;               /* of the storage */
    const tidei_origin *origin; /* until the listing ends; then its frames are in there */
    uint64_t born_ns;
    tidei_layout lay;
    bool partial; /* not all of the storage in row-major order */
};

struct listing {
    tidei_tracker *t;
    uint64_t ns;        /* when it was taken */
    unsigned arrays, n; /* met; listed */
    size_t bytes;       /* that they hold together */
    struct item item[LISTED];
    struct {
        unsigned n;
        void *at[TIDEI_FRAMES];
    } frames[LISTED]; /* of the item of that number; n 0: not known */
};

static bool is_partial(const tidei_layout *lay, size_t bytes) {
    int64_t elements = 1;
    bool whole = lay->offset == 0;
    for (int i = lay->ndim - 1; i >= 0; i--) {
        whole = whole && (lay->shape[i] <= 1 || lay->strides[i] == elements);
        elements *= lay->shape[i];
    }
    return !whole || (size_t)elements * tide_dtype_size(lay->dtype) != bytes;
}

/* The larger first; of one storage's, what is all of it. */
static bool goes_before(const struct item *a, const struct item *b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    if (a->st != b->st) return (uintptr_t)a->st < (uintptr_t)b->st;
    return !a->partial && b->partial;
}

static void list_item(struct listing *l, struct item x) {
    if (l->n == LISTED && !goes_before(&x, &l->item[LISTED - 1])) return;
    for (unsigned i = 0; i < l->n; i++)
        if (goes_before(&x, &l->item[i])) {
            struct item swap = l->item[i];
            l->item[i] = x;
            x = swap;
        }
    if (l->n < LISTED) l->item[l->n++] = x;
}

static void note(tidei_header *h, void *user) {
    struct listing *l = user;
    struct item x;
    bool first;
    tidei_storage *st = tidei_header_holds(h, &x.bytes, &x.lay);
    x.origin = st && x.bytes ? tidei_tracker_find(l->t, st, &first) : NULL;
    if (!x.origin) return;
    x.st = st;
    x.kind = tidei_kind_name(st->pool->kind);
    tidei_stamps_lock(st);
    x.addr = st->addr;
    tidei_stamps_unlock(st);
    x.born_ns = x.origin->born_ns;
    x.partial = is_partial(&x.lay, x.bytes);
    l->arrays++;
    if (first) l->bytes += x.bytes;
    list_item(l, x);
}

/* The arrays whose memory was looked at, but those that are known dead. */
static void take_listing(tidei_runtime *rt, struct listing *l) {
    l->t = rt->tracker;
    l->arrays = l->n = 0;
    l->bytes = 0;
    tidei_tracker_listing_begin(l->t);
    l->ns = tidei_now_ns();
    tidei_each_header(rt->deaths, note, l);
    for (unsigned i = 0; i < l->n; i++)
        l->frames[i].n = tidei_tracker_frames(l->item[i].origin, l->frames[i].at);
    tidei_tracker_listing_end(l->t);
}

/* ---- lines ---- */

#define LINE_MAX_BYTES 1200

/* `again`: of the same storage as the one before. */
static void say_item(const struct listing *l, unsigned item, bool again, tidei_names *names,
                     tidei_say_fn *say, void *user) {
    const struct item *x = &l->item[item];
    char line[LINE_MAX_BYTES], bytes[32], place[32], shape[TIDE_MAX_RANK * 24];
    size_t n = 0;
    uint64_t age_us = (l->ns - x->born_ns) / 1000;
    shape[0] = 0;
    for (int i = 0; i < x->lay.ndim; i++)
        n += (size_t)tidei_format(shape + n, sizeof shape - n, i ? ", %" PRId64 : "%" PRId64,
                                  x->lay.shape[i]);
    if (x->addr)
        tidei_format(place, sizeof place, "at 0x%" PRIx64, x->addr);
    else
        tidei_format(place, sizeof place, "spilled");
    tidei_format(line, sizeof line, "  %s %s, %s, %s (%s)%s, %" PRIu64 ".%06" PRIu64 " s old%s",
                 tidei_format_bytes(bytes, sizeof bytes, x->bytes, 3), place, x->kind,
                 tide_dtype_name(x->lay.dtype), shape, again || x->partial ? ", a view" : "",
                 age_us / 1000000, age_us % 1000000, again ? ", the same memory" : "");
    say(user, line);
    if (!again) tidei_backtrace_say(l->frames[item].at, l->frames[item].n, names, say, user);
}

static void say_listing(const struct listing *l, tidei_say_fn *say, void *user) {
    char line[160], bytes[32], of[64] = "";
    tidei_format_bytes(bytes, sizeof bytes, l->bytes, 3);
    unsigned every = tidei_tracker_interval(l->t);
    if (every > 1) tidei_format(of, sizeof of, ", of one in %u allocations", every);
    tidei_format(line, sizeof line, "held: %u array%s, %s%s", l->arrays, l->arrays == 1 ? "" : "s",
                 bytes, of);
    say(user, line);
    tidei_names *names = l->n ? tidei_names_open() : NULL;
    for (unsigned i = 0; i < l->n; i++)
        say_item(l, i, i && l->item[i - 1].st == l->item[i].st, names, say, user);
    tidei_names_close(names);
    if (l->arrays == l->n) return;
    tidei_format(line, sizeof line, "  and %u more, none larger", l->arrays - l->n);
    say(user, line);
}

struct buffer {
    char *buf;
    size_t cap, n; /* n: of the whole text */
};

static void put_line(void *user, const char *line) {
    struct buffer *b = user;
    bool room = b->n < b->cap;
    b->n +=
        (size_t)tidei_format(room ? b->buf + b->n : NULL, room ? b->cap - b->n : 0, "%s\n", line);
}

size_t tidei_leaks_text(tidei_runtime *rt, char *buf, size_t cap) {
    struct listing l;
    struct buffer b = {buf, cap, 0};
    if (!rt->tracker) return 0;
    take_listing(rt, &l);
    say_listing(&l, put_line, &b);
    return b.n;
}

static void log_line(void *rt, const char *line) {
    tidei_log(rt, TIDE_LOG_WARNING, "tide_close: %s", line);
}

void tidei_leaks_farewell(tidei_runtime *rt) {
    struct listing l;
    tidei_saved_error e;
    if (!rt->tracker || !rt->gc_ops || !tidei_log_wants(rt, TIDE_LOG_WARNING)) return;
    tidei_error_save(&e);
    tidei_drain(rt);
    take_listing(rt, &l);
    if (l.arrays) { /* a collector may not have found them yet */
        tidei_collect(rt, TIDE_COLLECT_FULL, "what is held is listed", NULL);
        tidei_drain(rt);
        take_listing(rt, &l);
    }
    if (l.arrays) say_listing(&l, log_line, rt);
    tidei_error_restore(&e);
}
