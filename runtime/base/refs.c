/* refs.c: the table behind references. The model stands in refs.h.
**
** Slots lie in chunks that are made as they are needed. A free slot waits in a queue; those never
** used come first. A slot's word is 0 (never used), the reference (live), or the last reference
** with a mark that says how its object ended. */
#include "runtime/base/refs.h"
#include <inttypes.h>
#include <stdlib.h>

#define SLOT_BITS 20
/* with SLOT_BITS and four of the kind 47: what any machine's pointer has */
#define GENERATION_BITS 23
#define CHUNK_BITS      10
#define CHUNK_SLOTS     (1u << CHUNK_BITS)
#define CHUNKS          (1u << (SLOT_BITS - CHUNK_BITS))
#define SLOT_MASK       ((UINT64_C(1) << SLOT_BITS) - 1)
#define GENERATION_MASK ((UINT64_C(1) << GENERATION_BITS) - 1)
#define KIND_SHIFT      (SLOT_BITS + GENERATION_BITS)
#define RELEASED        (UINT64_C(1) << 62)
#define CLOSED          (UINT64_C(1) << 63)

typedef struct slot {
    _Atomic uint64_t word;
    _Atomic(void *) object;
    /* under table.lock */
    const tidei_runtime *owner;
    struct slot *next_free;
} slot;

static struct {
    pthread_mutex_t lock;
    _Atomic(slot *) chunks[CHUNKS]; /* written once, under the lock */
    /* under the lock */
    unsigned used;            /* slots that ever served */
    slot *first_free, **last; /* the queue */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &table.first_free};

static const struct {
    const char *name, *ended; /* for errors */
} kinds[] = {
    [TIDEI_REF_RUNTIME] = {"runtime", "closed"},    [TIDEI_REF_STREAM] = {"stream", "released"},
    [TIDEI_REF_POOL] = {"pool", "released"},        [TIDEI_REF_EXPR] = {"expression", "released"},
    [TIDEI_REF_SCOPE] = {"use scope", "ended"},     [TIDEI_REF_VIEW] = {"host view", "ended"},
    [TIDEI_REF_BATCHES] = {"iterator", "released"}, [TIDEI_REF_GRAPH] = {"graph", "released"}};

static slot *slot_at(unsigned i) {
    slot *chunk = atomic_load_explicit(&table.chunks[i >> CHUNK_BITS], memory_order_acquire);
    return chunk ? &chunk[i & (CHUNK_SLOTS - 1)] : NULL;
}

/* One that never served, else the one that has been free for longest; NULL: no memory, or all are
** taken. */
static slot *take_locked(unsigned *number) {
    unsigned chunk = table.used >> CHUNK_BITS;
    bool fresh = table.used & (CHUNK_SLOTS - 1);
    if (!fresh && !table.first_free && chunk < CHUNKS) {
        slot *made = calloc(CHUNK_SLOTS, sizeof *made);
        atomic_store_explicit(&table.chunks[chunk], made, memory_order_release);
        fresh = made != NULL;
    }
    if (fresh) return slot_at(*number = table.used++);
    slot *s = table.first_free;
    if (!s) return NULL;
    table.first_free = s->next_free;
    if (!table.first_free) table.last = &table.first_free;
    *number = (unsigned)(atomic_load_explicit(&s->word, memory_order_relaxed) & SLOT_MASK);
    return s;
}

void *tidei_ref_new(tidei_ref_kind kind, void *object, const tidei_runtime *owner) {
    unsigned number;
    uint64_t word = 0;
    pthread_mutex_lock(&table.lock);
    slot *s = take_locked(&number);
    if (s) {
        uint64_t last = atomic_load_explicit(&s->word, memory_order_relaxed) >> SLOT_BITS;
        word = (uint64_t)kind << KIND_SHIFT | ((last + 1) & GENERATION_MASK) << SLOT_BITS | number;
        s->owner = owner;
        atomic_store_explicit(&s->object, object, memory_order_relaxed);
        atomic_store_explicit(&s->word, word, memory_order_release);
    }
    pthread_mutex_unlock(&table.lock);
    return (void *)(uintptr_t)word;
}

/* The word of the reference's slot; 0: no object of that kind ever had it. */
static uint64_t word_of(tidei_ref_kind kind, const void *ref, slot **s) {
    uint64_t v = (uintptr_t)ref;
    if (v >> KIND_SHIFT != (uint64_t)kind || !(*s = slot_at((unsigned)(v & SLOT_MASK)))) return 0;
    return atomic_load_explicit(&(*s)->word, memory_order_acquire);
}

void *tidei_ref_look(tidei_ref_kind kind, const void *ref) {
    slot *s;
    bool lives = word_of(kind, ref, &s) == (uintptr_t)ref && ref;
    return tidei_likely(lives) ? atomic_load_explicit(&s->object, memory_order_relaxed) : NULL;
}

static void tell(tidei_ref_kind kind, const void *ref, const char *op) {
    slot *s;
    uint64_t word = word_of(kind, ref, &s), v = (uintptr_t)ref;
    bool same = (word & ~(RELEASED | CLOSED)) == v, runtime = kind == TIDEI_REF_RUNTIME;
    if (!ref)
        tidei_fail(TIDE_E_INVALID, op, "the %s is NULL", kinds[kind].name);
    else if (!word)
        tidei_fail(TIDE_E_INVALID, op, "0x%" PRIx64 " is no %s", v, kinds[kind].name);
    else if (runtime)
        tidei_fail(TIDE_E_CLOSED, op, "the runtime was closed");
    else if (same && word & CLOSED)
        tidei_fail(TIDE_E_CLOSED, op, "the %s's runtime was closed", kinds[kind].name);
    else
        tidei_fail(TIDE_E_INVALID, op, "the %s was %s before%s", kinds[kind].name,
                   kinds[kind].ended, same ? "" : ", or its runtime closed");
}

void *tidei_ref_find(tidei_ref_kind kind, const void *ref, const char *op) {
    void *object = tidei_ref_look(kind, ref);
    if (tidei_unlikely(!object)) tell(kind, ref, op);
    return object;
}

static void end_locked(slot *s, uint64_t mark) {
    uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
    atomic_store_explicit(&s->word, word | mark, memory_order_release);
    atomic_store_explicit(&s->object, NULL, memory_order_relaxed);
    s->owner = NULL;
    s->next_free = NULL;
    *table.last = s;
    table.last = &s->next_free;
}

bool tidei_ref_end(const void *ref) {
    slot *s = ref ? slot_at((unsigned)((uintptr_t)ref & SLOT_MASK)) : NULL;
    if (!s) return false;
    pthread_mutex_lock(&table.lock);
    bool lives = atomic_load_explicit(&s->word, memory_order_relaxed) == (uintptr_t)ref;
    if (lives) end_locked(s, RELEASED);
    pthread_mutex_unlock(&table.lock);
    return lives;
}

void tidei_refs_close(const tidei_runtime *owner) {
    pthread_mutex_lock(&table.lock);
    for (unsigned i = 0; i < table.used; i++) {
        slot *s = slot_at(i);
        if (s->owner == owner) end_locked(s, CLOSED);
    }
    pthread_mutex_unlock(&table.lock);
}
