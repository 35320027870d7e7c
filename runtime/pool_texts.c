/* pool_texts.c: the figures of a user's pool, as a struct and as a text. */
#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include "runtime/runtime.h"

#define END(field) TIDEI_END(tide_pool_figures, field)
static const uint16_t statistics_ends[] = {
    END(struct_size),    END(live),    END(peak_live), END(rounding),    END(cached),
    END(pending),        END(backed),  END(largest),   END(pinned),      END(allocations),
    END(frees),          END(retries), END(ooms),      END(compactions), END(bytes_moved),
    END(bytes_remapped), END(classes)};
#undef END
static const tidei_sized statistics_sizes = {"tide_pool_figures", statistics_ends,
                                             TIDEI_COUNT(statistics_ends),
                                             TIDEI_END(tide_pool_figures, struct_size)};

static tide_status pool_stats(tidei_user_pool *x, tide_pool_figures *out) {
    if (!out) return tidei_fail(TIDE_E_INVALID, "tide_pool_info", "out is NULL");
    tide_status status = tidei_sized_check(&statistics_sizes, out->struct_size, "tide_pool_info");
    if (status != TIDE_OK) return status;
    if (!tidei_thread_get(x->dev->rt)) return tidei_last_status();
    tidei_drain(x->dev->rt);
    tide_pool_figures s = {.struct_size = out->struct_size};
    tidei_pool_figures_of(x, &s);
    memcpy(out, &s, out->struct_size);
    return TIDE_OK;
}

tide_status tide_pool_info(tide_pool *ref, tide_pool_figures *out) {
    tidei_user_pool *x = tidei_user_pool_find(ref, "tide_pool_info");
    return x ? pool_stats(x, out) : tidei_last_status();
}

/* ---- as a text ---- */

/* Writes what fits to buf; n counts the rest too. */
struct text {
    char *buf;
    size_t cap, n;
};
__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = tidei_vformat(t->n < t->cap ? t->buf + t->n : NULL, t->n < t->cap ? t->cap - t->n : 0,
                          fmt, ap);
    va_end(ap);
    if (n > 0) t->n += (size_t)n;
}

static const char *size_text(char b[32], size_t bytes) {
    return tidei_format_bytes(b, 32, bytes, 3);
}

static void put_figures(struct text *t, const tidei_user_pool *x, const tide_pool_figures *s) {
    char b[4][32];
    put(t, "pool %s on %s: %s reserved\n", x->p->ops->name, x->dev->d->info.name,
        size_text(b[0], s->backed));
    put(t, "  live %s (at most %s), rounding %s, ", size_text(b[0], s->live),
        size_text(b[1], s->peak_live), size_text(b[2], s->rounding));
    put(t, "cached %s, pending %s, pinned %s\n", size_text(b[0], s->cached),
        size_text(b[1], s->pending), size_text(b[2], s->pinned));
    put(t, "  largest request that fits now: %s\n", size_text(b[0], s->largest));
    put(t,
        "  %llu allocations, %llu frees, %llu retries, %llu out of memory, %llu compactions (%s "
        "moved, %s "
        "remapped)\n",
        (unsigned long long)s->allocations, (unsigned long long)s->frees,
        (unsigned long long)s->retries, (unsigned long long)s->ooms,
        (unsigned long long)s->compactions, size_text(b[0], s->bytes_moved),
        size_text(b[1], s->bytes_remapped));
}

static void put_class(struct text *t, const tide_pool_class *c) {
    char b[4][32];
    put(t, "%14s %10llu %10llu %12llu %12llu %14s %14s %14s\n",
        c->bytes == SIZE_MAX ? "larger" : tidei_format_bytes(b[0], sizeof b[0], c->bytes, 0),
        (unsigned long long)c->current, (unsigned long long)c->peak,
        (unsigned long long)c->allocated, (unsigned long long)c->freed,
        size_text(b[1], c->current_bytes), size_text(b[2], c->peak_bytes),
        size_text(b[3], c->allocated_bytes));
}

size_t tide_pool_text(tide_pool *ref, char *buf, size_t cap) {
    tidei_user_pool *x = tidei_user_pool_find(ref, "tide_pool_text");
    tide_pool_figures s = {.struct_size = sizeof s};
    struct text t = {buf, tidei_text_room(buf, cap), 0};
    if (!x || pool_stats(x, &s) != TIDE_OK) return 0;
    put_figures(&t, x, &s);
    put(&t, "%14s %10s %10s %12s %12s %14s %14s %14s\n", "up to", "blocks", "at most", "allocated",
        "freed", "bytes", "at most", "allocated");
    for (unsigned k = 0; k < TIDE_POOL_CLASSES; k++)
        if (s.classes[k].allocated) put_class(&t, &s.classes[k]);
    return t.n;
}
