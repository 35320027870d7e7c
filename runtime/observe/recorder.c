/* recorder.c: a recording's life: its file, its buffers, and what is added to them. The model
** stands in recorder.h.
**
** Files. Several runtimes of a process, and several processes, may be told the same name: who comes
** later takes the next free one of run.csv, run.2.csv, run.3.csv. A file that a runtime of this
** process has recorded into counts as taken as long as it is there, by whatever link it goes. What
** the user named is written over, whatever it is; a numbered name only if that file is empty or
** begins as a recording does. */
#include "runtime/base/files.h"
#include "runtime/observe/nvtx.h"
#include "runtime/base/own_thread.h"
#include "runtime/observe/recorder.h"
#include "runtime/base/callback.h"
#include "runtime/base/thread_index.h"
#include "runtime/base/settings.h"
#include "runtime/base/text.h"
#include "runtime/base/clock.h"
#include "runtime/base/uncancelled.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RINGS 32 /* threads that have one of their own; others share one more */
/* 128 KiB a ring; taken by the writer at every half, which takes it less than 1 ms */
#define ENTRIES    4096
#define HALF       (ENTRIES / 2)
#define TEXT_BYTES (64 * TIDEI_KIB)
#define PERIOD_NS  1000000000u /* what a crash may cost */
#define GAP_NS     1000000u    /* somebody is about to add an entry, and is held up */
#define FILES_MAX  10000       /* of one name */
#define OPEN       "tide_open"
_Static_assert((ENTRIES & (ENTRIES - 1)) == 0, "entries are counted without end, and wrap");

/* A record as it is added, half a cache line. Beside the records' own kinds: what the records
** behind it are to know. */
enum {
    ENTRY_BACKED = TIDEI_RECORD_KINDS, /* a: bytes, from now on */
    /* a: name, b: why; of the span that begins or ends next */
    ENTRY_NAMES
};
typedef struct entry {
    uint64_t ticks;
    uint64_t a,
        /* alloc, free: as the record's; submit: ticks when it began, name; else the thread, the
        ** record's a or b */
        b;
    uint32_t what;  /* kind, span << 8, stream << 16: a span's number in its place */
    uint32_t order; /* among all rings' */
} entry;
_Static_assert(sizeof(entry) == TIDEI_LINE / 2, "an entry is half a cache line");

/* Entries on their way from one thread to the writer. */
typedef struct ring {
    entry *at; /* fixed; ENTRIES of them */
    /* who adds */
    _Atomic uint32_t added;
    uint32_t known; /* of taken, when it last looked */
    char apart[TIDEI_LINE];
    /* the writer */
    _Atomic uint32_t taken;
    uint32_t seen; /* of added, when it last looked */
    char apart_too[TIDEI_LINE];
} ring;

struct tidei_recorder {
    /* fixed */
    tidei_runtime *rt;
    const tidei_form *form;
    /* the runtime's; what is noted, where the form has no use for it */
    const _Atomic size_t *backed;
    int fd;
    void *entries; /* host memory */
    tidei_clock clock;
    char path[1100];
    /* without a lock */
    atomic_bool ended;            /* by an error */
    _Atomic int silent;           /* the error that ended it, until it was told; 0: none */
    _Atomic size_t noted;         /* of what is backed, by an entry; written under lock */
    _Atomic uint64_t told_mib_ns; /* by the last entry of growth */
    char apart[TIDEI_LINE];
    _Atomic uint32_t order; /* of the next entry */
    char apart_too[TIDEI_LINE];
    ring ring[RINGS + 1]; /* by thread number; the last one's entries are added under lock */
    pthread_mutex_t lock;
    pthread_cond_t wanted, emptied;
    /* under lock */
    bool stop, wake;  /* the writer has to end; has something to take */
    unsigned waiting; /* for room */
    pthread_t writer;
    /* the writer's; once it has ended, the closing thread's */
    tidei_clock_pace pace; /* of the clock's ticks */
    unsigned reading;      /* the ring of the last entry */
    uint32_t next;         /* in order */
    /* its time, what was backed then; a span's names until it comes */
    tidei_record last;
    uint64_t until[TIDEI_STREAMS_MAX]; /* the end of each stream's last submission */
    off_t whole;                       /* bytes of the file, all of them whole rows */
    tidei_rows rows;
    char text[TEXT_BYTES];
};

/* ---- files ---- */

/* The files that runtimes of this process have recorded into. */
struct taken {
    struct taken *next;
    dev_t dev;
    ino_t ino;
    char *path; /* absolute */
};
static pthread_mutex_t taken_lock = PTHREAD_MUTEX_INITIALIZER;
static struct taken *taken; /* under taken_lock */

/* A file that was removed leaves its number to others. */
static bool still_there(const struct taken *x) {
    struct stat s;
    return !stat(x->path, &s) && s.st_dev == x->dev && s.st_ino == x->ino;
}

static bool is_taken_locked(const struct stat *s) {
    for (const struct taken *x = taken; x; x = x->next)
        if (x->dev == s->st_dev && x->ino == s->st_ino && still_there(x)) return true;
    return false;
}

/* *mine: nobody of this process had it, as with one that is `fresh`. */
static tide_status take_file(const char *path, const struct stat *s, bool fresh, bool *mine) {
    struct taken *x = malloc(sizeof *x);
    char *absolute = realpath(path, NULL);
    pthread_mutex_lock(&taken_lock);
    *mine = x && absolute && (fresh || !is_taken_locked(s));
    if (*mine) {
        *x = (struct taken){taken, s->st_dev, s->st_ino, absolute};
        taken = x;
    }
    pthread_mutex_unlock(&taken_lock);
    if (*mine) return TIDE_OK;
    bool failed = !x || !absolute;
    free(x);
    free(absolute);
    return failed ? tidei_fail_host_memory(OPEN, sizeof *x) : TIDE_OK;
}

static tide_status refused(const char *path, int error) {
    return tidei_fail(TIDE_E_IO, OPEN, "%s cannot be recorded into: %s", path,
                      tidei_errno_text(error));
}

/* Whether the file is empty, or begins as recordings of this form do. */
static bool is_recording(const tidei_form *form, int fd, const struct stat *s) {
    char begins[64];
    size_t n = strlen(form->begins);
    tidei_check(n <= sizeof begins);
    return s->st_size == 0 ||
           (tidei_file_read(fd, begins, n, 0) == (ssize_t)n && !memcmp(begins, form->begins, n));
}

/* An open file, made by the opening if `fresh`: *free_one says whether it is nobody's, and, if only
** a recording may be written over (`form`), one; then it is empty. Devices (/dev/null) are
** anybody's. What somebody has to read at the other end is refused: if that one went away, the
** program would end. */
static tide_status check_file(int fd, const char *path, bool fresh, const tidei_form *form,
                              bool *free_one) {
    struct stat s;
    *free_one = true;
    if (fstat(fd, &s)) return refused(path, errno);
    if (S_ISCHR(s.st_mode)) return TIDE_OK;
    if (!S_ISREG(s.st_mode))
        return tidei_fail(TIDE_E_IO, OPEN, "%s cannot be recorded into: it is no file", path);
    *free_one = !form || is_recording(form, fd, &s);
    if (*free_one) /* unknown locks: it is free */
        *free_one = !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
    tide_status status = *free_one ? take_file(path, &s, fresh, free_one) : TIDE_OK;
    if (status == TIDE_OK && *free_one && ftruncate(fd, 0)) return refused(path, errno);
    return status;
}

/* "run.2.csv" for the second of "run.csv". */
static void number_path(tidei_recorder *r, const char *path, unsigned k) {
    size_t stem = strlen(path) - strlen(r->form->suffix);
    if (k == 1)
        tidei_format(r->path, sizeof r->path, "%s", path);
    else
        tidei_format(r->path, sizeof r->path, "%.*s.%u%s", (int)stem, path, k, r->form->suffix);
}

/* `reads`: what is there will be looked at. */
static int open_either(const char *path, bool reads, bool *fresh) {
    const int flags = (reads ? O_RDWR : O_WRONLY) | O_CREAT | O_NOCTTY | O_NONBLOCK;
    int fd = tidei_file_open(AT_FDCWD, path, flags | O_EXCL, 0666);
    *fresh = fd >= 0;
    return fd >= 0 || errno != EEXIST ? fd : tidei_file_open(AT_FDCWD, path, flags, 0666);
}

static tide_status open_file(tidei_recorder *r, const char *path) {
    for (unsigned k = 1; k <= FILES_MAX; k++) {
        bool free_one, fresh;
        number_path(r, path, k);
        r->fd = open_either(r->path, k > 1, &fresh);
        if (r->fd < 0) return refused(r->path, errno);
        tide_status status = check_file(r->fd, r->path, fresh, k > 1 ? r->form : NULL, &free_one);
        if (status == TIDE_OK && free_one) return TIDE_OK;
        tidei_file_close(r->fd);
        if (status != TIDE_OK) return status;
    }
    return tidei_fail(TIDE_E_IO, OPEN, "%s and the %d after it are taken", path, FILES_MAX);
}

/* ---- writing, by the writer ---- */

/* The file keeps the rows that it has whole. */
static void end_recording(tidei_recorder *r, int error) {
    (void)!ftruncate(r->fd, r->whole); /* a device keeps what it has */
    atomic_store(&r->silent, error);
    atomic_store(&r->ended, true);
}

/* What of the text there is goes to the file. */
static void write_text(tidei_recorder *r) {
    size_t bytes = (size_t)(r->rows.at - r->text), done = 0;
    if (!atomic_load_explicit(&r->ended, memory_order_relaxed) &&
        !tidei_file_write(r->fd, r->text, bytes, &done))
        end_recording(r, errno);
    r->whole += (off_t)done;
    r->rows.at = r->text;
}

static void write_record(tidei_recorder *r, const tidei_record *x) {
    if (r->rows.at + TIDEI_ROW_BYTES > r->text + TEXT_BYTES) write_text(r);
    r->form->row(&r->rows, x);
}

/* ---- taking, by the writer ---- */

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

static const char *text_at(uint64_t word) { return (const char *)(uintptr_t)word; }

/* A submission lies behind the one before it on its stream, and ends behind its own begin, whatever
** the clock says. */
static void take_submission(tidei_recorder *r, tidei_record *y, const entry *x) {
    y->a = later(tidei_clock_pace_ns(&r->pace, x->a), r->until[y->stream]);
    r->last.ns = y->ns = later(y->ns, y->a);
    y->name = text_at(x->b);
    r->until[y->stream] = y->ns;
}

/* A moment on the system's clock, which lies before the record that tells of it. */
static uint64_t moment_ns(const tidei_recorder *r, uint64_t ns) {
    ns = ns > r->pace.start_ns ? ns - r->pace.start_ns : 0;
    return ns < r->last.ns ? ns : r->last.ns;
}

/* Times never fall: what r->last has is no less than any that was written. */
static void take(tidei_recorder *r, const entry *x) {
    tidei_record y = r->last;
    r->last.ns = y.ns = later(tidei_clock_pace_ns(&r->pace, x->ticks), y.ns);
    y.kind = (uint8_t)x->what;
    y.span = (uint8_t)(x->what >> 8);
    y.stream = (uint16_t)(x->what >> 16);
    y.a = x->a;
    y.b = x->b;
    switch (y.kind) {
    case ENTRY_BACKED: r->last.backed = x->a; return;
    case ENTRY_NAMES: r->last.name = text_at(x->a), r->last.why = text_at(x->b); return;
    case TIDEI_RECORD_SUBMIT: take_submission(r, &y, x); break;
    case TIDEI_RECORD_BEGIN:
    case TIDEI_RECORD_END:
        y.thread = (uint32_t)x->a;
        y.a = y.stream;
        break;
    case TIDEI_RECORD_USED:
    case TIDEI_RECORD_DIED: y.b = moment_ns(r, x->b); break;
    case TIDEI_RECORD_SYNC:
    case TIDEI_RECORD_FOLLOW:
        y.thread = (uint32_t)x->a;
        y.a = x->b;
        break;
    }
    write_record(r, &y);
}

/* The ring that has the next entry; NULL: it is not there yet. */
static ring *next_ring(tidei_recorder *r) {
    for (unsigned i = 0; i <= RINGS; i++, r->reading = (r->reading + 1) % (RINGS + 1)) {
        ring *g = &r->ring[r->reading];
        uint32_t at = atomic_load_explicit(&g->taken, memory_order_relaxed);
        if (at != g->seen && g->at[at % ENTRIES].order == r->next) return g;
    }
    return NULL;
}

/* From this ring, as long as it has the next one. */
static void take_run(tidei_recorder *r, ring *g) {
    uint32_t at = atomic_load_explicit(&g->taken, memory_order_relaxed);
    for (; at != g->seen && g->at[at % ENTRIES].order == r->next; r->next++) {
        take(r, &g->at[at % ENTRIES]);
        atomic_store_explicit(&g->taken, ++at, memory_order_release);
    }
}

/* Writes what was added so far, in its order, up to the first entry that is not there yet. The
** clocks are compared behind the look at the rings, so that what is taken lies before that. Whether
** there was anything. */
static bool take_all(tidei_recorder *r) {
    uint32_t before = r->next;
    for (unsigned i = 0; i <= RINGS; i++)
        r->ring[i].seen = atomic_load_explicit(&r->ring[i].added, memory_order_acquire);
    tidei_clock_pace_compare(&r->pace, &r->clock);
    for (ring *g; (g = next_ring(r));) take_run(r, g);
    write_text(r);
    return r->next != before;
}

/* Until somebody wants the writer to go on, or it is time. An entry that is not there yet, while
** others wait for room behind it, comes without a word. Under the lock. */
static void rest(tidei_recorder *r) {
    struct timespec until;
    uint64_t ns = tidei_now_ns() + (r->waiting ? GAP_NS : PERIOD_NS);
    until.tv_sec = (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    while (!r->stop && !r->wake && !tidei_cond_wait_until(&r->wanted, &r->lock, &until)) {}
    r->wake = false;
}

static void *writer_main(void *arg) {
    tidei_recorder *r = arg;
    for (bool stop = false; !stop;) {
        pthread_mutex_lock(&r->lock);
        rest(r);
        stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        bool any = take_all(r);
        pthread_mutex_lock(&r->lock);
        if (any && r->waiting) pthread_cond_broadcast(&r->emptied);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static void end_writer(tidei_recorder *r) {
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->wanted);
    pthread_mutex_unlock(&r->lock);
    tidei_join(r->writer);
}

/* ---- adding ---- */

/* The calling thread's; NULL: it has none of its own. */
static ring *ring_here(tidei_recorder *r) {
    unsigned own = tidei_thread_index() - 1;
    return tidei_likely(own < RINGS) ? &r->ring[own] : NULL;
}

static bool has_room(const ring *g, uint32_t n) {
    return atomic_load_explicit(&g->added, memory_order_relaxed) + n - g->known <= ENTRIES;
}

static void wake_locked(tidei_recorder *r) {
    r->wake = true;
    pthread_cond_signal(&r->wanted);
}

__attribute__((noinline)) static void wake(tidei_recorder *r) {
    pthread_mutex_lock(&r->lock);
    wake_locked(r);
    pthread_mutex_unlock(&r->lock);
}

static bool looks_full(ring *g, uint32_t n) {
    g->known = atomic_load_explicit(&g->taken, memory_order_acquire);
    return !has_room(g, n);
}

/* The lock is held, and may have been let go meanwhile. The writer is woken once: what it cannot
** take then it comes back for by itself (GAP_NS). */
static void make_room_locked(tidei_recorder *r, ring *g, uint32_t n) {
    if (!looks_full(g, n)) return;
    wake_locked(r);
    r->waiting++;
    do tidei_cond_wait(&r->emptied, &r->lock);
    while (looks_full(g, n));
    r->waiting--;
}

/* Fields apart, which then stay in registers. There is room. Whether the writer has something to
** take. From the number on to its publication nothing may take long: the writer stops at a number
** that is not there. */
static inline bool push(tidei_recorder *r, ring *g, uint32_t what, uint64_t a, uint64_t b) {
    uint32_t added = atomic_load_explicit(&g->added, memory_order_relaxed);
    entry *e = &g->at[added % ENTRIES];
    e->a = a;
    e->b = b;
    e->what = what;
    e->ticks = tidei_clock_now(&r->clock);
    e->order = atomic_fetch_add_explicit(&r->order, 1, memory_order_relaxed);
    atomic_store_explicit(&g->added, added + 1, memory_order_release);
    return (added + 1) % HALF == 0;
}

/* What is backed, if that has changed. Under the lock; there is room. As push. Noted once its entry
** has a number: so who finds it noted gets a later one. */
static bool push_backed_locked(tidei_recorder *r, ring *g) {
    size_t backed = atomic_load_explicit(r->backed, memory_order_relaxed);
    if (backed == atomic_load_explicit(&r->noted, memory_order_relaxed)) return false;
    bool half = push(r, g, ENTRY_BACKED, backed, 0);
    atomic_store_explicit(&r->noted, backed, memory_order_release);
    return half;
}

static bool ends(const tidei_recorder *r) {
    return atomic_load_explicit(&r->ended, memory_order_relaxed) || tidei_forked();
}

/* The long way: the thread has no ring, or it is full, or what is backed has changed. */
__attribute__((noinline)) static void add_aside(tidei_recorder *r, ring *g, uint32_t what,
                                                uint64_t a, uint64_t b) {
    if (!g) g = &r->ring[RINGS];
    pthread_mutex_lock(&r->lock);
    make_room_locked(r, g, 2);
    bool half = push_backed_locked(r, g);
    if (push(r, g, what, a, b) || half) wake_locked(r);
    pthread_mutex_unlock(&r->lock);
}

static inline void add(tidei_recorder *r, uint32_t what, uint64_t a, uint64_t b) {
    if (tidei_unlikely(ends(r))) return;
    ring *g = ring_here(r);
    bool same = atomic_load_explicit(r->backed, memory_order_relaxed) ==
                atomic_load_explicit(&r->noted, memory_order_acquire);
    if (tidei_unlikely(!g || !same || !has_room(g, 1)))
        add_aside(r, g, what, a, b);
    else if (tidei_unlikely(push(r, g, what, a, b)))
        wake(r);
}

/* Where no lock is held: one warning, if the recording ended. */
static void speak(tidei_recorder *r) {
    int error =
        atomic_load_explicit(&r->silent, memory_order_relaxed) ? atomic_exchange(&r->silent, 0) : 0;
    if (tidei_unlikely(error))
        tidei_log(r->rt, TIDE_LOG_WARNING,
                  "%s: recording ends here, the file cannot be written: %s", r->path,
                  tidei_errno_text(error));
}

static uint32_t thread_here(void) {
    static _Thread_local uint32_t number; /* the system's */
    if (!number) number = (uint32_t)syscall(SYS_gettid);
    return number;
}

static inline uint32_t on_stream(tidei_record_kind kind, uint32_t slot) {
    return kind | slot << 16;
}

void tidei_recorder_return(tidei_recorder *r, uint64_t id, size_t bytes, unsigned stream) {
    add(r, on_stream(TIDEI_RECORD_ALLOC, stream), id, bytes);
}

void tidei_recorder_alloc(tidei_recorder *r, uint64_t id, size_t bytes, unsigned stream) {
    tidei_recorder_return(r, id, bytes, stream);
    speak(r);
}

void tidei_recorder_free(tidei_recorder *r, uint64_t id, size_t bytes, unsigned stream) {
    add(r, on_stream(TIDEI_RECORD_FREE, stream), id, bytes);
}

void tidei_recorder_ends(tidei_recorder *r, uint64_t id, uint64_t used_ns, uint64_t died_ns,
                         bool found, unsigned stream) {
    if (!r->form->moments) return;
    if (used_ns && died_ns && used_ns > died_ns) used_ns = died_ns; /* two threads' looks */
    if (used_ns) add(r, on_stream(TIDEI_RECORD_USED, stream), id, used_ns);
    if (died_ns) add(r, on_stream(TIDEI_RECORD_DIED, found), id, died_ns);
}

void tidei_recorder_deaths(tidei_recorder *r, unsigned how) {
    if (r->form->moments) add(r, TIDEI_RECORD_DEATHS, TIDEI_CSV_VERSION, how);
}

void tidei_recorder_growth(tidei_recorder *r, uint64_t mib_ns, uint64_t total) {
    if (!r->form->moments ||
        atomic_load_explicit(&r->told_mib_ns, memory_order_relaxed) == mib_ns ||
        atomic_exchange(&r->told_mib_ns, mib_ns) == mib_ns)
        return;
    add(r, on_stream(TIDEI_RECORD_GROWTH, 0), mib_ns, total);
}

void tidei_recorder_pages(tidei_recorder *r, unsigned device, uint64_t page_bytes) {
    if (r->form->moments) add(r, on_stream(TIDEI_RECORD_PAGES, device), page_bytes, 0);
}

void tidei_recorder_queue(tidei_recorder *r, unsigned device, uint64_t pending, uint64_t ns) {
    if (r->form->moments) add(r, on_stream(TIDEI_RECORD_QUEUE, device), pending, ns);
}

void tidei_recorder_heap(tidei_recorder *r, uint64_t arrays, uint64_t bytes) {
    if (r->form->moments) add(r, TIDEI_RECORD_HEAP, arrays, bytes);
}

void tidei_recorder_sync(tidei_recorder *r, unsigned stream) {
    add(r, on_stream(TIDEI_RECORD_SYNC, stream), thread_here(), 0);
    speak(r);
}

void tidei_recorder_follow(tidei_recorder *r, unsigned stream, unsigned from) {
    add(r, on_stream(TIDEI_RECORD_FOLLOW, stream), thread_here(), from);
}

uint64_t tidei_recorder_moment(const tidei_recorder *r) {
    return r->form->submissions ? tidei_clock_now(&r->clock) : 0;
}

void tidei_recorder_submit(tidei_recorder *r, unsigned stream, uint64_t began, const char *op) {
    add(r, on_stream(TIDEI_RECORD_SUBMIT, stream), began, (uintptr_t)op);
}

/* Its names come just before it: no others do meanwhile, since all are added under the lock. What
** is backed is looked at once, since others change it meanwhile, and there is room for three. */
static void add_span(tidei_recorder *r, const tidei_span *span, tidei_record_kind kind,
                     size_t bytes) {
    if (ends(r)) return;
    ring *g = ring_here(r);
    if (!g) g = &r->ring[RINGS];
    pthread_mutex_lock(&r->lock);
    make_room_locked(r, g, 3);
    bool half = push_backed_locked(r, g);
    half |= push(r, g, ENTRY_NAMES, (uintptr_t)span->name, (uintptr_t)span->why);
    half |=
        push(r, g, on_stream(kind, span->number) | (uint32_t)span->kind << 8, thread_here(), bytes);
    if (half) wake_locked(r);
    pthread_mutex_unlock(&r->lock);
}

/* Kind and number of a span in one even number. */
static void *span_as_number(const tidei_span *s) {
    return (void *)((uintptr_t)s->kind << 1 | (uintptr_t)s->number << 8);
}

/* Spans nest on their thread, so nobody else ends one. */
static void undo_span(tidei_runtime *rt, tidei_thread *t, void *what, uintptr_t name) {
    const uintptr_t w = (uintptr_t)what;
    const tidei_span span = {(tidei_span_kind)((w & 255) >> 1), (unsigned)(w >> 8),
                             (const char *)name, NULL};
    if (rt->recorder && t == tidei_thread_look(rt))
        add_span(rt->recorder, &span, TIDEI_RECORD_END, 0);
}

void tidei_span_begin(tidei_runtime *rt, const tidei_span *span, size_t bytes) {
    if (rt->recorder) add_span(rt->recorder, span, TIDEI_RECORD_BEGIN, bytes);
    if (rt->recorder)
        tidei_hold(tidei_thread_look(rt), undo_span, span_as_number(span), (uintptr_t)span->name);
    if (rt->ranges) tidei_nvtx_push(span->name);
}

void tidei_span_end(tidei_runtime *rt, const tidei_span *span, size_t bytes) {
    if (rt->ranges) tidei_nvtx_pop();
    if (rt->recorder) tidei_let(tidei_thread_look(rt), span_as_number(span));
    if (rt->recorder) add_span(rt->recorder, span, TIDEI_RECORD_END, bytes);
}

/* ---- a recording's life ---- */

static void free_recorder(tidei_runtime *rt, tidei_recorder *r) {
    tidei_host_free(rt, r->entries);
    tidei_host_free(rt, r);
}

static void prepare_lock(tidei_recorder *r) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wanted, &attr);
    pthread_cond_init(&r->emptied, NULL);
    pthread_condattr_destroy(&attr);
}

/* Its writer has ended, or never began. */
static void discard(tidei_runtime *rt, tidei_recorder *r) {
    flock(r->fd, LOCK_UN); /* a fork's child may have it open still */
    if (!tidei_file_close(r->fd) && !atomic_load(&r->ended)) atomic_store(&r->silent, errno);
    speak(r);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wanted);
    pthread_cond_destroy(&r->emptied);
    free_recorder(rt, r);
}

/* Its memory, with nothing in it; of the rings' entries not even that, since most will not be used.
** NULL: there is none, which is the error then. */
static tidei_recorder *new_recorder(tidei_runtime *rt, const _Atomic size_t *backed) {
    const size_t entries = (RINGS + 1) * ENTRIES * sizeof(entry) + TIDEI_LINE;
    tidei_recorder *r = tidei_host_alloc(rt, sizeof *r);
    if (r) r->entries = tidei_host_take(rt, entries);
    if (!r || !r->entries) {
        tidei_fail_host_memory(OPEN, r ? entries : sizeof *r);
        tidei_host_free(rt, r);
        return NULL;
    }
    uintptr_t at = tidei_round_up((uintptr_t)r->entries, TIDEI_LINE);
    for (unsigned i = 0; i <= RINGS; i++) r->ring[i].at = (entry *)at + i * (size_t)ENTRIES;
    r->rt = rt;
    r->form = tidei_form_of(rt->set.trace);
    r->backed = r->form->backed ? backed : &r->noted;
    atomic_init(&r->told_mib_ns, UINT64_MAX);
    return r;
}

static tide_status open_recorder(tidei_runtime *rt, const char *device,
                                 const _Atomic size_t *backed) {
    TIDEI_UNCANCELLED;
    tidei_recorder *r = new_recorder(rt, backed);
    if (!r) return TIDE_E_HOST_NOMEM;
    tide_status status = open_file(r, rt->set.trace);
    if (status != TIDE_OK) {
        free_recorder(rt, r);
        return status;
    }
    prepare_lock(r);
    r->clock.counter = tidei_clock_has_counter();
    tidei_clock_pace_start(&r->pace, &r->clock);
    r->rows.at = r->text;
    r->rows.device = device;
    r->form->head(&r->rows);
    write_text(r);
    int error = tidei_own_thread_start(&r->writer, writer_main, r);
    if (error) {
        discard(rt, r);
        return tidei_fail(TIDE_E_HOST_NOMEM, OPEN, "no thread that writes the recording: %s",
                          tidei_errno_text(error));
    }
    rt->recorder = r;
    tidei_log(rt, TIDE_LOG_INFO, "records into %s", r->path);
    speak(r);
    return TIDE_OK;
}

tide_status tidei_recorder_open(tidei_runtime *rt, const char *device,
                                const _Atomic size_t *backed) {
    rt->ranges = tidei_nvtx_attach(rt);
    tide_status status = *rt->set.trace ? open_recorder(rt, device, backed) : TIDE_OK;
    if (status != TIDE_E_IO || rt->set.trace_given) return status;
    tidei_warn_environment(rt, "TIDE_TRACE", rt->set.trace, ": %s; nothing is recorded",
                           tide_error_last()->message);
    tide_error_clear();
    return TIDE_OK;
}

void tidei_recorder_close(tidei_runtime *rt) {
    TIDEI_UNCANCELLED;
    tidei_recorder *r = rt->recorder;
    if (!r) return;
    rt->recorder = NULL;
    end_writer(r);
    r->form->foot(&r->rows);
    write_text(r);
    discard(rt, r);
}
