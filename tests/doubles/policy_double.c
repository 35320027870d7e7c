/* policy_double.c: shared objects of policies: one that is as it must be, and what can be wrong
** with one. HOW says which; docs/own-policy.md has a real one. */
#include <signal.h>
#include <stdlib.h>
#include <tide/policy.h>

enum { HALF, NAN_STATE, NONSENSE, CRASH, DIVIDES, LOOP, QUITS, TALL, NAMELESS, CONSTRUCTOR };
enum { SHARE };

static const tide_policy_param params[] = {
    {.name = "share", .usual = 0.5, .low = 0.01, .high = 1, .meaning = "of the room"},
};

struct state {
    double sum;
    uint64_t asked;
};

static volatile int zero;

static void misbehave(struct state *s, tide_policy_decision *out) {
    static volatile int *volatile nowhere;
    if (HOW == NAN_STATE) {
        s->sum = s->sum * 0 + (double)zero / zero;
        out->level = s->sum > 1; /* which is false */
    }
    if (HOW == NONSENSE) out->level = 7;
    if (s->asked < 20) return; /* it begins well */
    if (HOW == CRASH) *nowhere = 1;
    if (HOW == DIVIDES) raise(SIGFPE); /* not every machine's division does */
    if (HOW == LOOP)
        while (!zero) {}
    if (HOW == QUITS) exit(0);
}

static void decide(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    struct state *s = state;
    double room = now->limit > now->base ? (double)(now->limit - now->base) : 1;
    uint64_t end = now->base + (uint64_t)(now->params[SHARE] * room);
    (void)user;
    s->asked++;
    out->reason = "the share is used";
    if (now->used + now->request >= end)
        out->level = now->level;
    else
        out->wake_at = end;
    misbehave(s, out);
}

__attribute__((constructor)) static void begin(void) {
    if (HOW == CONSTRUCTOR) raise(SIGSEGV);
}

const tide_policy tide_policy_entry = {.struct_size = HOW == TALL ? 4096 : sizeof(tide_policy),
                                       .name = HOW == NAMELESS ? "" : "half",
                                       .state_bytes = sizeof(struct state),
                                       .params = params,
                                       .nparams = 1,
                                       .decide = decide};
