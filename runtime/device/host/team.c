/* team.c: the threads that help the workers of host devices' streams with large operations.
**
** Model. A team is a runtime's. A worker that has work to share (share.h) becomes the team's
** leader, if nobody is, and makes a *call*: parts 0 to n - 1, which the leader and whichever
** helpers come take one by one from a counter. A helper that is there in time *enters* through the
** gate; the leader closes the gate when no part is left to take, and returns when all who entered
** have left. So a helper that wakes late delays nobody. Where the team has a leader already another
** worker does its parts alone: its processor is busy with that, and the others with the leader's.
** Waking takes a system call that costs the caller some us a thread: the leader wakes a few, and
** each that comes wakes a few more. Between calls a helper looks for the next one a while, as
** streams' workers do, and then sleeps. Helpers start when the first call wants so many.
** What must stay true: who is inside may read the call, and nobody else; the gate counts them. A
** helper serves a call once. Under ThreadSanitizer each stream has a team of its own: one of all
** streams would order their work, and hide a wait that is missing (host.h). */
#include "runtime/device/host/host.h"
#include "runtime/device/share.h"
#include "runtime/base/own_thread.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <linux/futex.h>
#include <stdalign.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN = 1, WAITED = 2, INSIDE = 4 }; /* of the gate: INSIDE for each helper */
#define FAN 3                              /* helpers that one thread wakes */

struct tidei_team {
    tidei_runtime *rt;
    _Atomic unsigned most; /* helpers that there may be */
    unsigned started;      /* the leader's */
    _Atomic bool led;      /* there is a leader */
    _Atomic bool ends;
    pthread_t *helpers;
    /* the call */
    size_t n;
    tidei_share_fn *part;
    void *user;
    alignas(TIDEI_CACHE_LINE) _Atomic size_t next;
    _Atomic unsigned unwoken; /* helpers that the call could use and nobody has woken */
    alignas(TIDEI_CACHE_LINE) _Atomic uint32_t gate;
    alignas(TIDEI_CACHE_LINE) _Atomic uint32_t calls; /* made so far; helpers sleep on it */
    _Atomic uint32_t asleep;
};

/* The team that this thread shares its work with; NULL: it is no worker, or inside a part. */
static TIDEI_FAST_TLS tidei_team *here;

static void futex(_Atomic uint32_t *word, int what, uint32_t value) {
    syscall(SYS_futex, word, what, value, NULL, NULL, 0);
}

/* ---- a call ---- */

static void wake_some(tidei_team *t) {
    unsigned left = atomic_load_explicit(&t->unwoken, memory_order_relaxed), now;
    do now = left < FAN ? left : FAN;
    while (now && !atomic_compare_exchange_weak_explicit(
                      &t->unwoken, &left, left - now, memory_order_relaxed, memory_order_relaxed));
    /* who goes to sleep has counted itself before it looks whether there is a new call */
    if (now && atomic_load(&t->asleep)) futex(&t->calls, FUTEX_WAKE_PRIVATE, now);
}

static void take_parts(tidei_team *t) {
    const size_t n = t->n;
    size_t i;
    while ((i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < n)
        t->part(t->user, i);
}

static bool enter(tidei_team *t) {
    uint32_t g = atomic_load_explicit(&t->gate, memory_order_relaxed);
    do
        if (!(g & OPEN)) return false;
    while (!atomic_compare_exchange_weak_explicit(&t->gate, &g, g + INSIDE, memory_order_acquire,
                                                  memory_order_relaxed));
    return true;
}

static void leave(tidei_team *t) {
    uint32_t g = atomic_fetch_sub_explicit(&t->gate, INSIDE, memory_order_release) - INSIDE;
    if (g == WAITED) futex(&t->gate, FUTEX_WAKE_PRIVATE, 1);
}

/* Nobody enters any more; waits for those inside. */
static void close_gate(tidei_team *t) {
    uint32_t g = atomic_fetch_and_explicit(&t->gate, ~(uint32_t)OPEN, memory_order_acquire);
    g &= ~(uint32_t)OPEN;
    for (int left = tidei_host_spins(); g >= INSIDE && left-- > 0;) {
        tidei_pause();
        g = atomic_load_explicit(&t->gate, memory_order_acquire);
    }
    while (g >= INSIDE) {
        if ((g & WAITED) ||
            atomic_compare_exchange_weak_explicit(&t->gate, &g, g | WAITED, memory_order_acquire,
                                                  memory_order_acquire))
            futex(&t->gate, FUTEX_WAIT_PRIVATE, g | WAITED);
        g = atomic_load_explicit(&t->gate, memory_order_acquire);
    }
    atomic_store_explicit(&t->gate, 0, memory_order_relaxed);
}

/* ---- helpers ---- */

/* Waits until there is another call than number `served`, and returns its number. */
static uint32_t next_call(tidei_team *t, uint32_t served) {
    int left = tidei_host_spins();
    for (;;) {
        uint32_t now = atomic_load_explicit(&t->calls, memory_order_acquire);
        if (now != served) return now;
        if (left-- > 0) {
            tidei_pause();
            continue;
        }
        atomic_fetch_add(&t->asleep, 1);
        futex(&t->calls, FUTEX_WAIT_PRIVATE, served);
        atomic_fetch_sub(&t->asleep, 1);
    }
}

static void *help(void *arg) {
    tidei_team *t = arg;
    for (uint32_t served = 0; !atomic_load_explicit(&t->ends, memory_order_relaxed);) {
        served = next_call(t, served);
        if (!enter(t)) continue;
        wake_some(t);
        take_parts(t);
        leave(t);
    }
    return NULL;
}

/* As many helpers as the call can use, or as there can be. */
static unsigned start_helpers(tidei_team *t, size_t wanted) {
    while (t->started < atomic_load_explicit(&t->most, memory_order_relaxed) &&
           t->started < wanted) {
        char name[16]; /* the kernel's limit */
        pthread_t *thread = &t->helpers[t->started];
        if (tidei_own_thread_start(thread, help, t) != 0) {
            atomic_store_explicit(&t->most, t->started, memory_order_relaxed); /* no more then */
            break;
        }
        tidei_format(name, sizeof name, "tide helper %u", t->started % 1000);
        pthread_setname_np(*thread, name);
        t->started++;
    }
    return t->started < wanted ? t->started : (unsigned)wanted;
}

/* ---- sharing ---- */

static void take_alone(size_t n, tidei_share_fn *part, void *user) {
    for (size_t i = 0; i < n; i++) part(user, i);
}

static void lead(tidei_team *t, size_t n, tidei_share_fn *part, void *user) {
    unsigned helpers = start_helpers(t, n - 1);
    if (!helpers) {
        take_alone(n, part, user);
        return;
    }
    t->n = n;
    t->part = part;
    t->user = user;
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    atomic_store_explicit(&t->unwoken, helpers, memory_order_relaxed);
    atomic_store_explicit(&t->gate, OPEN, memory_order_release);
    atomic_fetch_add(&t->calls, 1);
    wake_some(t);
    take_parts(t);
    close_gate(t);
}

void tidei_share(size_t n, tidei_share_fn *part, void *user) {
    tidei_team *t = here;
    bool leads = t && n > 1 && !atomic_exchange_explicit(&t->led, true, memory_order_acquire);
    here = NULL;
    if (leads) {
        lead(t, n, part, user);
        atomic_store_explicit(&t->led, false, memory_order_release);
    } else {
        take_alone(n, part, user);
    }
    here = t;
}

struct stretches {
    size_t items, grain;
    tidei_share_items_fn *part;
    const void *user;
};
static void run_stretch(void *user, size_t i) {
    const struct stretches *s = user;
    size_t first = i * s->grain, end = first + s->grain;
    s->part(s->user, first, end < s->items ? end : s->items);
}

void tidei_share_items(size_t items, size_t grain, tidei_share_items_fn *part, const void *user) {
    struct stretches s = {items, grain, part, user};
    tidei_share(items / grain + (items % grain != 0), run_stretch, &s);
}

size_t tidei_share_threads(void) {
    return here ? 1 + (size_t)atomic_load_explicit(&here->most, memory_order_relaxed) : 1;
}

/* ---- a team's life ---- */

tidei_team *tidei_team_open(tidei_runtime *rt, unsigned threads) {
    unsigned most = threads > 1 ? threads - 1 : 0;
    size_t room = tidei_round_up(most * sizeof(pthread_t), TIDEI_CACHE_LINE);
    /* the struct's fields are aligned to lines of the cache */
    char *p = tidei_host_alloc(rt, sizeof(tidei_team) + room + TIDEI_CACHE_LINE);
    if (!p) return NULL;
    tidei_team *t = (tidei_team *)(void *)(p + TIDEI_CACHE_LINE - (uintptr_t)p % TIDEI_CACHE_LINE);
    ((char **)(void *)t)[-1] = p;
    *t = (tidei_team){.rt = rt, .most = most, .helpers = (pthread_t *)(void *)(t + 1)};
    return t;
}

void tidei_team_serve(tidei_team *t) { here = t; }

void tidei_team_close(tidei_team *t, bool forked) {
    if (!t) return;
    if (!forked) {
        atomic_store(&t->ends, true);
        atomic_fetch_add(&t->calls, 1);
        futex(&t->calls, FUTEX_WAKE_PRIVATE, INT32_MAX);
        for (unsigned i = 0; i < t->started; i++) tidei_join(t->helpers[i]);
    }
    tidei_host_free(t->rt, ((char **)(void *)t)[-1]);
}
