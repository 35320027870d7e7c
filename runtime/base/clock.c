/* clock.c: whether the counter may serve, and how long its ticks are. */
#include "runtime/base/clock.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* at both clocks; the closest pair counts, since a thread may be held up between the two */
#define LOOKS 8

/* It counts evenly, whatever the processor's pace, and does not stop. */
bool tidei_clock_has_counter(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
#else
    return false;
#endif
}

static void look_at_both(const tidei_clock *t, uint64_t *ticks, uint64_t *ns) {
    uint64_t closest = UINT64_MAX;
    for (unsigned i = 0; i < LOOKS; i++) {
        uint64_t before = tidei_clock_now(t), between = tidei_now_ns(),
                 apart = tidei_clock_now(t) - before;
        if (apart >= closest) continue;
        closest = apart;
        *ticks = before + apart / 2;
        *ns = between;
    }
}

void tidei_clock_pace_start(tidei_clock_pace *p, const tidei_clock *t) {
    *p = (tidei_clock_pace){0};
    look_at_both(t, &p->now.ticks, &p->start_ns);
    p->before = p->now;
}

void tidei_clock_pace_add(tidei_clock_pace *p, uint64_t ticks, uint64_t ns) {
    p->before = p->now;
    p->now = (struct tidei_moment){ticks, ns - p->start_ns};
    p->length = ticks > p->before.ticks
                    ? (double)(p->now.ns - p->before.ns) / (double)(ticks - p->before.ticks)
                    : 0;
}

void tidei_clock_pace_compare(tidei_clock_pace *p, const tidei_clock *t) {
    uint64_t ticks = p->now.ticks, ns = p->now.ns + p->start_ns;
    look_at_both(t, &ticks, &ns);
    tidei_clock_pace_add(p, ticks, ns);
}

/* What is too far away for the system's clock is cut off before it is a whole number, since it may
** be more than one holds. */
uint64_t tidei_clock_pace_ns(const tidei_clock_pace *p, uint64_t ticks) {
    bool later = ticks >= p->before.ticks;
    uint64_t most = later ? p->now.ns - p->before.ns : p->before.ns;
    double far = (double)(later ? ticks - p->before.ticks : p->before.ticks - ticks) * p->length;
    uint64_t ns = far < (double)most ? (uint64_t)far : most;
    return later ? p->before.ns + ns : p->before.ns - ns;
}
