/* stoppable.c: looking at threads' signal masks. The model stands in stoppable.h.
**
** What must stay true: under the list's lock only GC_disable and GC_enable are called, which call
** nothing of ours; a thread's entry is its own memory, and leaves the list before the thread
** ends. */
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include "gc/stoppable.h"
#include "runtime/base/files.h"
#include "runtime/runtime.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <gc/gc_mark.h> /* it includes bdwgc's gc/gc.h: a name that one of our headers has too */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE 20     /* looks */
#define NAP_NS   500000 /* between two of them: 10 ms in all; making a thread takes 0.1 ms */

typedef struct member {
    struct member *next, **prev;
    pid_t tid;
    atomic_bool blocking;
} member;

static struct {
    pthread_mutex_t lock;
    /* under lock */
    member *first;
    _Atomic bool held_off; /* bdwgc is held off; also read without the lock */
    bool told;             /* told in a runtime's log */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local member here;

/* ---- the signal ---- */

static void name_signal(char name[16], int number) {
    if (number == SIGPWR || number == SIGXCPU) /* bdwgc's own choice */
        tidei_format(name, 16, "%s", number == SIGPWR ? "SIGPWR" : "SIGXCPU");
    else
        tidei_format(name, 16, "signal %d", number);
}

tide_status tidei_stoppable_check(const char *op) {
    char stop[16], restart[16];
    sigset_t blocked;
    int number = GC_get_suspend_signal();
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) || !sigismember(&blocked, number))
        return TIDE_OK;
    name_signal(stop, number);
    name_signal(restart, GC_get_thr_restart_signal());
    return tidei_fail(TIDE_E_UNSUPPORTED, op,
                      "this thread blocks %s, by which the collector boehm stops threads: let it "
                      "unblock %s and %s "
                      "(pthread_sigmask) before its first call, or open the runtime with the "
                      "collector \"refcount\"",
                      stop, stop, restart);
}

/* Whether the thread blocks it, as /proc/self/task/TID/stat says: its 32nd field has the signals up
** to 31. The second field is a name in parentheses, which may contain anything. */
static bool blocks(pid_t tid, int number) {
    char path[64], text[1024];
    tidei_format(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    if (tidei_file_text(path, text, sizeof text) <= 0) return false; /* it has ended */
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 32; field++) at = strchr(at + 1, ' ');
    uint64_t blocked;
    if (!at++ || !tidei_read_digits(&at, &blocked)) return false;
    return blocked >> (number - 1) & 1;
}

/* ---- holding bdwgc off ---- */

/* A thread that blocks the signal; 0: none. */
static pid_t blocker_locked(int number, const member *but) {
    for (const member *m = all.first; m; m = m->next)
        if (m != but && !atomic_load_explicit(&m->blocking, memory_order_relaxed) &&
            blocks(m->tid, number))
            return m->tid;
    return 0;
}

static void hold_off_locked(bool held_off) {
    if (atomic_load(&all.held_off) == held_off) return;
    atomic_store(&all.held_off, held_off);
    all.told = false;
    if (held_off)
        GC_disable();
    else
        GC_enable();
}

/* Lets bdwgc collect again if no thread blocks the signal any more. */
static void review_locked(void) {
    if (atomic_load(&all.held_off) && !blocker_locked(GC_get_suspend_signal(), NULL))
        hold_off_locked(false);
}

void tidei_stoppable_review(void) {
    TIDEI_UNCANCELLED;
    pthread_mutex_lock(&all.lock);
    review_locked();
    pthread_mutex_unlock(&all.lock);
}

/* ---- the list ---- */

void tidei_stoppable_enter(void) {
    here.tid = gettid();
    pthread_mutex_lock(&all.lock);
    here.next = all.first;
    here.prev = &all.first;
    if (here.next) here.next->prev = &here.next;
    all.first = &here;
    pthread_mutex_unlock(&all.lock);
}

void tidei_stoppable_leave(void) {
    pthread_mutex_lock(&all.lock);
    if (here.prev) {
        *here.prev = here.next;
        if (here.next) here.next->prev = here.prev;
        here.prev = NULL;
    }
    review_locked();
    pthread_mutex_unlock(&all.lock);
}

void tidei_stoppable_blocking(bool blocking) {
    atomic_store_explicit(&here.blocking, blocking, memory_order_relaxed);
}

/* ---- looking ---- */

/* Another thread that blocks the signal; 0: none. Holds bdwgc off where there is one, else lets it
** collect again. */
static pid_t look(int number) {
    pthread_mutex_lock(&all.lock);
    pid_t found = blocker_locked(number, &here);
    hold_off_locked(found != 0);
    pthread_mutex_unlock(&all.lock);
    return found;
}

/* True once: the caller then tells it in the log. */
static bool claim_telling(void) {
    pthread_mutex_lock(&all.lock);
    bool ours = atomic_load(&all.held_off) && !all.told;
    all.told |= ours;
    pthread_mutex_unlock(&all.lock);
    return ours;
}

bool tidei_stoppable(tidei_runtime *rt, bool patient) {
    TIDEI_UNCANCELLED;
    int number = GC_get_suspend_signal();
    char name[16];
    if (number < 1 || number > 31) return true; /* the kernel tells only of signals 1 to 31 */
    pid_t found = look(number);
    for (int i = 1; found && patient && i < PATIENCE; i++) {
        tidei_nap(NAP_NS);
        found = look(number);
    }
    if (!found) return true;
    if (!rt || !claim_telling()) return false;
    name_signal(name, number);
    tidei_log(rt, TIDE_LOG_WARNING,
              "boehm: thread %d blocks %s, by which threads are stopped: nothing is collected "
              "until it unblocks it",
              (int)found, name);
    return false;
}

bool tidei_stoppable_held_off(void) { return atomic_load(&all.held_off); }
