/* trim_policy.h: the adaptive release threshold: how much free memory a pool may keep. A pure
** function: it is told the time.
**
** Taking memory from the driver costs time, keeping it costs others memory. As with the choice to
** rent or buy skis, both costs can be bounded without knowing the future: what was of no use for a
** whole window goes back, and no more of it than can be taken again in a hundredth of that window.
** So a program that was wrong about its past loses 1 % of its time at most, and one that works in a
** loop shorter than the window loses nothing.
** Of use was the most that was live at once, and beside it, for rounding, fragments and pools that
** give back in segments, an eighth of it and 32 MiB; if the pool grew in the window, all of it was
** of use. A pool that grows again after it had given back was wrong to give back: its window
** doubles, so that a loop of any length is learnt. A window after which nothing had to be taken
** again halves it, down to the shortest. */
#ifndef TIDEI_TRIM_POLICY_H
#define TIDEI_TRIM_POLICY_H

#include "runtime/base/base.h"

/* the shortest window: longer than most programs' pauses between steps */
#define TIDEI_TRIM_WINDOW_NS     10000000000u
#define TIDEI_TRIM_WINDOW_MAX_NS 3600000000000u /* an hour */
/* bytes taken again: 2 MiB made, mapped, released in 86 us (H200) */
#define TIDEI_TRIM_BYTES_PER_NS 24

typedef struct tidei_trim_policy {
    uint64_t began_ns, window_ns;
    size_t backed; /* when it began; the caller corrects it where less went back than it was told */
    bool lowered;  /* something has gone back since the pool last grew */
} tidei_trim_policy;

typedef struct tidei_trim_policy_look {
    uint64_t now_ns;
    size_t backed;
    size_t used;   /* of `backed`, in blocks handed out */
    size_t needed; /* the most that was live at once in this window */
} tidei_trim_policy_look;

static inline void tidei_trim_policy_init(tidei_trim_policy *r, uint64_t now_ns) {
    *r = (tidei_trim_policy){.began_ns = now_ns, .window_ns = TIDEI_TRIM_WINDOW_NS};
}
static inline uint64_t tidei_trim_policy_due_ns(const tidei_trim_policy *r) {
    return r->began_ns + r->window_ns;
}

/* Ends a window and begins the next one. Returns how much may stay free; SIZE_MAX: all. */
size_t tidei_trim_policy_keep(tidei_trim_policy *r, const tidei_trim_policy_look *x);

#endif
