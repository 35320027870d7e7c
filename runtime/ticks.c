/* ticks.c: whether the counter may serve, and how long its ticks are. */
#include "runtime/ticks.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define LOOKS 8 /* at both clocks; the closest pair counts, since a thread may be held up between the two */

/* It counts evenly, whatever the processor's pace, and does not stop. */
static bool has_counter(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
#else
    return false;
#endif
}

static void look_at_both(const tidei_ticks *t, uint64_t *ticks, uint64_t *ns) {
    uint64_t closest = UINT64_MAX;
    for (unsigned i = 0; i < LOOKS; i++) {
        uint64_t before = tidei_ticks_now(t), between = tidei_now_ns(), apart = tidei_ticks_now(t) - before;
        if (apart >= closest) continue;
        closest = apart;
        *ticks = before + apart / 2;
        *ns = between;
    }
}

void tidei_ticks_start(tidei_ticks *t) {
    t->counter = has_counter();
    look_at_both(t, &t->start, &t->start_ns);
}

double tidei_ticks_length(const tidei_ticks *t) {
    uint64_t ticks = t->start, ns = t->start_ns;
    look_at_both(t, &ticks, &ns);
    return ticks > t->start ? (double)(ns - t->start_ns) / (double)(ticks - t->start) : 0;
}
