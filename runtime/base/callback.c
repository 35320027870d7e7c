/* callback.c: what is noted of callbacks, whether they are still there, and undoing what a call
** held that is gone. The model stands in callback.h. */
#include "runtime/base/callback.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <stdlib.h>

typedef struct tidei_note {
    uint64_t serial; /* later ones of the thread, in whichever record, have higher ones */
    const uint64_t *mark;
    const void *frame;
    const tidei_runtime *rt; /* whose callback; it may be closed by now */
    tidei_callback_kind kind;
    bool makes, quiet; /* arrays may be made inside; no collection and no climb begins there */
    size_t nheld;      /* by the calls that led here: words */
    unsigned ranges;   /* of NVTX, likewise */
    unsigned guards;   /* against cancellation, likewise */
    uint64_t slot;     /* of a reclaimable, in which they are */
    char name[40];
} note;

/* ---- what calls hold ---- A stack of words: a storage's address, or three: what else the undo
** wants, the undo, and the address or number with its lowest bit set. Below them all is one that is
** neither. */

/* words: an operation of a few operands that climbs and collects has half of that */
#define HELD_FIRST 64
#define BOTTOM     ((uintptr_t)2)

static const uintptr_t no_room[1] = {BOTTOM};

void tidei_callbacks_init(tidei_thread *t) {
    t->held_first = t->held = t->held_end = (uintptr_t *)(uintptr_t)no_room + 1;
}

bool tidei_held_grow(tidei_thread *t) {
    size_t used = (size_t)(t->held - t->held_first), room = used ? 2 * (used + 1) : HELD_FIRST;
    uintptr_t *more =
        realloc(t->held_end == no_room + 1 ? NULL : t->held_first - 1, room * sizeof *more);
    if (!more) return false;
    more[0] = BOTTOM;
    t->held_first = more + 1;
    t->held = t->held_first + used;
    t->held_end = more + room;
    return true;
}

size_t tidei_held_here(const tidei_thread *t) { return (size_t)(t->held - t->held_first); }

static size_t words_of(uintptr_t last) { return last & TIDEI_HELD_MARK ? 3 : 1; }

void tidei_let(tidei_thread *t, const void *what) {
    if (!t) return;
    const uintptr_t *least = t->held_first + (t->nnotes ? t->notes[t->nnotes - 1].nheld : 0);
    uintptr_t *end = t->held;
    while (end > least && (end[-1] & ~TIDEI_HELD_MARK) != (uintptr_t)what) end -= words_of(end[-1]);
    if (end == least) return; /* there was no host memory to write it down */
    size_t words = words_of(end[-1]);
    memmove(end - words, end, (size_t)(t->held - end) * sizeof *end);
    t->held -= words;
}

static void undo_depth(tidei_runtime *rt, tidei_thread *t, void *depth, uintptr_t of) {
    (void)rt, (void)t, (void)of;
    --*(int *)depth;
}

void tidei_deepen(tidei_thread *t, int *depth) {
    ++*depth;
    tidei_hold(t, undo_depth, depth, 0);
}

void tidei_rise(tidei_thread *t, int *depth) {
    --*depth;
    tidei_let(t, depth);
}

void tidei_undo_host(tidei_runtime *rt, tidei_thread *t, void *p, uintptr_t of) {
    (void)t, (void)of;
    tidei_host_free(rt, p);
}

void tidei_held_undo(tidei_runtime *rt, tidei_thread *t, size_t down_to) {
    while (tidei_held_here(t) > down_to) {
        uintptr_t what = t->held[-1];
        t->held -= words_of(what);
        if (what & TIDEI_HELD_MARK)
            ((tidei_undo)t->held[1])(rt, t, (void *)(what & ~TIDEI_HELD_MARK), t->held[0]);
        else
            tidei_thread_above->release((tidei_storage *)what);
    }
}

TIDEI_FAST_TLS tidei_runtime *tidei_serves;

/* ---- notes ---- */

#define NOTES_STEP 8 /* callbacks inside callbacks are rare */

static const struct {
    const char *text; /* with a place for the name */
    bool makes, quiet;
} kinds[] = {
    [TIDEI_IN_COLLECT] = {"collect of the collector \"%s\"", .quiet = true},
    [TIDEI_IN_FINALIZERS] = {"a collection of the collector \"%s\"", .makes = true, .quiet = true},
    [TIDEI_IN_MAY_COLLECT] = {"may_collect of the collector \"%s\"", .quiet = true},
    [TIDEI_IN_PRESSURE] = {"pressure of the collector \"%s\"", .quiet = true},
    [TIDEI_IN_BLOCKING] = {"blocking of the collector \"%s\"", .quiet = true},
    [TIDEI_IN_DETACH] = {"detach of the collector \"%s\"", .quiet = true},
    [TIDEI_IN_DECIDE] = {"decide of the policy \"%s\"", .quiet = true},
    [TIDEI_IN_OBSERVE] = {"observe of the policy \"%s\"", .quiet = true},
    [TIDEI_IN_PURGE] = {"purge of the reclaimable \"%s\"", .makes = true},
    [TIDEI_IN_DROP] = {"drop of the reclaimable \"%s\"", .makes = true},
    [TIDEI_IN_BYTES] = {"bytes of the reclaimable \"%s\"", .quiet = true},
    [TIDEI_IN_VISIT] = {"a reclaimable of another runtime", .makes = true},
    [TIDEI_IN_FILL] = {"fill of tide_batches", .makes = true},
    [TIDEI_IN_MOVED] = {"moved of tide_adapt", .makes = true},
    [TIDEI_IN_GRAPH] = {"the function of a graph", .makes = true},
    [TIDEI_IN_DEATH] = {"a callback of tide_array_on_death", .quiet = true},
    [TIDEI_IN_LOG] = {"the log's callback", .quiet = true},
};

static TIDEI_FAST_TLS unsigned noted; /* notes of the thread, in all its records */
static _Thread_local uint64_t serials;

static const char *text_of(const note *n, char *buf, size_t cap) {
    tidei_format(buf, cap, kinds[n->kind].text, n->name);
    return buf;
}

static bool room_for_note(tidei_thread *t) {
    if (t->nnotes < t->notes_room) return true;
    note *more = realloc(t->notes, (t->notes_room + NOTES_STEP) * sizeof *more);
    if (!more) return false;
    t->notes = more;
    t->notes_room += NOTES_STEP;
    return true;
}

/* What stands at a mark while its note lives. */
static uint64_t mark_of(uint64_t serial, const uint64_t *at) { return ~serial ^ (uintptr_t)at; }

static const note *innermost(const tidei_thread *t) {
    return t && t->nnotes ? &t->notes[t->nnotes - 1] : NULL;
}

/* The record with the thread's last note. */
static tidei_thread *last_noted(void) {
    tidei_thread *last = NULL;
    for (tidei_thread *t = NULL; (t = tidei_thread_next(t));)
        if (t->nnotes && (!last || innermost(t)->serial > innermost(last)->serial)) last = t;
    return last;
}

tidei_thread *tidei_callbacks_record(tidei_runtime *rt) {
    tidei_thread *last = noted ? last_noted() : NULL, *own;
    const note *n = innermost(last);
    if (n && n->kind == TIDEI_IN_VISIT && n->rt != rt) return last;
    return (own = tidei_thread_look(rt)) ? own : last;
}

void tidei_callback_note(tidei_callback *c, tidei_runtime *rt, tidei_callback_kind kind,
                         const char *name, const void *frame) {
    tidei_thread *t = tidei_callbacks_record(rt);
    if (!t) t = tidei_thread_next(NULL); /* it only drops arrays there */
    c->t = t && room_for_note(t) ? t : NULL;
    if (!c->t) return;
    c->place = t->nnotes++;
    note *n = &t->notes[c->place], *outer = c->place ? n - 1 : NULL;
    *n = (note){.serial = ++serials,
                .mark = c->mark,
                .frame = frame,
                .rt = rt,
                .kind = kind,
                .makes = kinds[kind].makes && (!outer || outer->makes),
                .quiet = kinds[kind].quiet || (outer && outer->quiet),
                .nheld = tidei_held_here(t),
                .ranges = tidei_thread_above->ranges(),
                .guards = tidei_guards_here.n,
                .slot = tidei_thread_above->slot()};
    tidei_format(n->name, sizeof n->name, "%s", name ? name : "");
    c->mark[0] = n->serial;
    c->mark[1] = mark_of(n->serial, c->mark);
    noted++;
    tidei_thread_hide(true);
}

static void forget_notes(tidei_thread *t, unsigned left) {
    noted -= t->nnotes - left;
    t->nnotes = left;
    if (!noted) tidei_thread_hide(false);
}

/* What was held since the first note that is forgotten is undone, by its thread. Where the runtime
** closed meanwhile, that has done it, and nothing of another runtime's was held there. */
static void abandon(tidei_thread *t, unsigned left) {
    tidei_runtime *rt = tidei_thread_take(t);
    if (rt) {
        tidei_held_undo(rt, t, left ? t->notes[left - 1].nheld : 0);
        tidei_thread_give(t, rt);
    } else {
        tidei_check(!tidei_held_here(t));
    }
    forget_notes(t, left);
}

/* What belongs to the thread, not to a record, of the calls down to a callback; and which one that
** is. */
struct reached {
    uint64_t serial;
    unsigned ranges, guards;
    uint64_t slot;
};

static void reach(struct reached *r, const note *n) {
    if (n->serial > r->serial) *r = (struct reached){n->serial, n->ranges, n->guards, n->slot};
}

/* Whatever was noted from that serial on, in all records of the thread. */
static void abandon_from(uint64_t serial) {
    struct reached left_last = {.serial = 0}, stays = {.serial = 0};
    for (tidei_thread *t = NULL; (t = tidei_thread_next(t));) {
        unsigned left = t->nnotes;
        if (left) reach(&left_last, &t->notes[left - 1]);
        while (left && t->notes[left - 1].serial >= serial) left--;
        if (left < t->nnotes) abandon(t, left);
        if (left) reach(&stays, &t->notes[left - 1]);
    }
    tidei_thread_above->unwind_ranges(stays.ranges);
    tidei_thread_above->back_in_slot(stays.slot);
    tidei_guards_leave(left_last.guards - stays.guards);
}

static void log_left(tidei_runtime *rt, const char *what) {
    tidei_log(rt, TIDE_LOG_ERROR,
              "%s was left without a return; what the calls below it had begun was undone", what);
}

void tidei_callback_end(tidei_callback *c) {
    char what[96] = "";
    tidei_thread *t = c->t;
    if (!t || t->nnotes <= c->place) return; /* tide_thread_detach was told that it was left */
    if (t->nnotes >
        /* it came back by way of a call of its own that was left inside another callback */
        c->place + 1) {
        text_of(&t->notes[t->nnotes - 1], what, sizeof what);
        abandon_from(t->notes[c->place + 1].serial);
    }
    tidei_check(t->nnotes == c->place + 1 && tidei_held_here(t) == t->notes[c->place].nheld);
    forget_notes(t, c->place);
    tidei_runtime *rt = *what ? tidei_thread_runtime(t) : NULL;
    if (rt) log_left(rt, what);
}

/* ---- whether they are still there ---- */

struct stack { /* the thread's own; both 0: not known */
    uintptr_t low, high;
};

static struct stack own_stack(void) {
    static _Thread_local struct stack known;
    static _Thread_local bool asked;
    pthread_attr_t attr;
    void *low;
    size_t size;
    if (asked) return known;
    asked = true;
    if (pthread_getattr_np(pthread_self(), &attr)) return known;
    if (pthread_attr_getstack(&attr, &low, &size) == 0)
        known = (struct stack){(uintptr_t)low, (uintptr_t)low + size};
    pthread_attr_destroy(&attr);
    return known;
}

static bool on(const struct stack *s, uintptr_t at) { return at >= s->low && at < s->high; }

/* The words may be anybody's by now, of whatever frame. */
__attribute__((no_sanitize("address", "thread"))) static bool marked(const note *n) {
    const volatile uint64_t *mark = n->mark;
    return mark[0] == n->serial && mark[1] == mark_of(n->serial, n->mark);
}

typedef enum { THERE, LEFT, UNTOLD } whereabouts;

/* Whether the frame of a note is still there, as seen from a frame of a call. Stacks grow
** downwards: a call from inside the callback has its frames below the mark. One that has them there
** and is not from inside has most likely gone over it. Where the mark was put elsewhere, as
** AddressSanitizer does with what lies on frames, the frame's own address serves. */
static whereabouts judge(const note *n, uintptr_t here) {
    struct stack s = own_stack();
    bool own_mark = on(&s, (uintptr_t)n->mark);
    uintptr_t lowest = own_mark ? (uintptr_t)n->mark : (uintptr_t)n->frame;
    if (!on(&s, here) || !on(&s, lowest)) return UNTOLD;
    return here >= lowest || (own_mark && !marked(n)) ? LEFT : THERE;
}

/* The first of the thread's notes that is gone, by its serial, and the last one's words; 0: all are
** there. */
static uint64_t first_gone(uintptr_t here, char *what, size_t cap) {
    uint64_t first = 0, last = 0;
    for (tidei_thread *t = NULL; (t = tidei_thread_next(t));)
        for (unsigned i = 0; i < t->nnotes; i++) {
            const note *n = &t->notes[i];
            if (judge(n, here) == LEFT && (!first || n->serial < first)) first = n->serial;
        }
    for (tidei_thread *t = NULL; first && (t = tidei_thread_next(t));)
        for (unsigned i = 0; i < t->nnotes; i++) {
            const note *n = &t->notes[i];
            if (n->serial < first || n->serial <= last) continue;
            last = n->serial;
            text_of(n, what, cap);
        }
    return first;
}

static void fail_left(const char *op, const char *what) {
    tidei_fail(TIDE_E_INVALID, op,
               "%s was left without a return (by longjmp, say) in an earlier call of this thread: "
               "what that call had "
               "begun was undone, and the runtime works as before; this call did nothing",
               what);
}

__attribute__((noinline)) bool tidei_callbacks_look(tidei_runtime *rt, const char *op) {
    char what[96];
    if (!noted) return true;
    uint64_t first = first_gone((uintptr_t)__builtin_frame_address(0), what, sizeof what);
    if (!first) return true;
    abandon_from(first);
    if (rt) log_left(rt, what);
    fail_left(op, what);
    return false;
}

void tidei_callbacks_end(tidei_thread *t) {
    char what[96];
    if (!t->nnotes) return;
    text_of(&t->notes[t->nnotes - 1], what, sizeof what);
    abandon(t, 0);
    tidei_thread_above->back_in_slot(0);
    tidei_runtime *rt = tidei_thread_take(t);
    if (!rt) return;
    log_left(rt, what);
    tidei_thread_give(t, rt);
}

void tidei_callbacks_free(tidei_thread *t) {
    if (t->held_end != no_room + 1) free(t->held_first - 1);
    free(t->notes);
}

/* ---- what is refused inside ---- */

static bool refuse(const note *n, const char *op, const char *why, uintptr_t here) {
    char what[96];
    tidei_fail(TIDE_E_INVALID, op, "called inside %s, %s%s", text_of(n, what, sizeof what), why,
               judge(n, here) == UNTOLD ? "; if it was left by longjmp, which a stack that is not "
                                          "the thread's own does not show, "
                                          "tide_thread_detach says so"
                                        : "; if it was left by longjmp, the next call from nearer "
                                          "to the stack's beginning finds out");
    return false;
}

__attribute__((noinline)) bool tidei_may_make_here(tidei_runtime *rt, const char *op) {
    const note *n = innermost(tidei_thread_look(rt));
    return !n || n->makes ||
           refuse(n, op, "where no array is made", (uintptr_t)__builtin_frame_address(0));
}

__attribute__((noinline)) bool tidei_may_unregister(tidei_thread *t, const char *op) {
    const note *n = innermost(t);
    return !n || !n->quiet ||
           refuse(n, op, "where no collector is unregistered",
                  (uintptr_t)__builtin_frame_address(0));
}

bool tidei_is_quiet(const tidei_thread *t) {
    const note *n = innermost(t);
    return n && n->quiet;
}

__attribute__((noinline)) bool tidei_may_close(tidei_runtime *rt, const char *op) {
    if (tidei_serves == rt) {
        tidei_fail(TIDE_E_INVALID, op,
                   "called by a function of tide_use_launch, which the runtime waits for");
        return false;
    }
    for (tidei_thread *t = NULL; (t = tidei_thread_next(t));)
        for (unsigned i = 0; i < t->nnotes; i++)
            if (t->notes[i].rt == rt)
                return refuse(&t->notes[i], op, "whose runtime stays open",
                              (uintptr_t)__builtin_frame_address(0));
    return true;
}

__attribute__((noinline)) bool tidei_may_leave(tidei_thread *t, const char *op) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    for (unsigned i = 0; i < t->nnotes; i++)
        if (judge(&t->notes[i], here) != UNTOLD)
            return refuse(&t->notes[i], op, "which goes on in the thread's record", here);
    t->doubtful |= t->nnotes != 0;
    if (t->nnotes) abandon_from(t->notes[0].serial);
    return true;
}
