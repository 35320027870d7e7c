/* forced.c: replays a program's record, and judges its failures. */
#include "bench/forced.h"
#include <string.h>

struct asker {
    bool asking;
    uint64_t asks;  /* of what all hold */
    uint64_t wants; /* beyond that */
    uint64_t most;  /* held and useless at once since the question, with what it wants */
};
struct state {
    uint64_t held, useless; /* useless: free parts of pinned pages */
    struct asker of[FORCED_THREADS];
};

static void step(struct state *s, const forced_event *e) {
    struct asker *a = &s->of[e->thread];
    switch (e->kind) {
    case FORCED_ASK:
        *a = (struct asker){.asking = true, .asks = e->bytes};
        s->held += e->bytes;
        break;
    case FORCED_WANT: *a = (struct asker){.asking = true, .wants = e->bytes}; break;
    case FORCED_GOT:
        a->asking = false;
        s->held += e->bytes - a->asks;
        break;
    case FORCED_FAILED:
        a->asking = false;
        s->held -= a->asks;
        break;
    case FORCED_DROP: s->held -= e->bytes; break;
    case FORCED_PIN: s->useless += e->bytes; break;
    case FORCED_UNPIN: s->useless -= e->bytes; break;
    default: break;
    }
}

static void judge(const struct state *s, const forced_event *e, uint64_t room, bool scans,
                  forced_figures *out) {
    const struct asker *a = &s->of[e->thread];
    uint64_t held = s->held - a->asks, garbage = scans && e->bytes > held ? e->bytes - held : 0;
    out->failures++;
    if (a->most > room) return;
    uint64_t spare = room - a->most;
    if (garbage > spare)
        out->kept++;
    else if (!out->unforced++ || spare < out->least_spare)
        out->least_spare = spare;
}

void forced_check(const forced_event *at, size_t n, uint64_t limit, uint64_t apart, bool scans,
                  forced_figures *out) {
    struct state s;
    uint64_t room = limit > apart ? limit - apart : 0;
    memset(&s, 0, sizeof s);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out->asked += at[i].kind == FORCED_ASK || at[i].kind == FORCED_WANT;
        if (at[i].kind == FORCED_FAILED) judge(&s, &at[i], room, scans, out);
        step(&s, &at[i]);
        if (s.held > out->peak) out->peak = s.held;
        for (unsigned t = 0; t < FORCED_THREADS; t++) {
            uint64_t now = s.held + s.useless + s.of[t].wants;
            if (s.of[t].asking && now > s.of[t].most) s.of[t].most = now;
        }
    }
}
