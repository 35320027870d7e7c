/* recorder.c: a recording's life: its file, its buffers, and what is added to them. The model stands in recorder.h.
**
** Files. Several runtimes of a process, and several processes, may be told the same name: who comes later takes the next free
** one of run.csv, run.2.csv, run.3.csv. A file that a runtime of this process has recorded into counts as taken as long as it
** is there, by whatever link it goes. What the user named is written over, whatever it is; a numbered name only if that file is
** empty or begins as a recording does. */
#include "runtime/nvtx.h"
#include "runtime/runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORDS    4096 /* 256 KiB a buffer; written when full, which takes the writer about 1 ms */
#define TEXT_BYTES (64 * TIDEI_KIB)
#define WRITE_NS   1000000000u /* what a crash may cost, while anything is recorded */
#define FILES_MAX  10000       /* of one name */
#define OPEN       "tide_open"

struct tidei_recorder {
    /* fixed */
    tide_runtime *rt;
    const tidei_form *form;
    uint64_t start_ns;
    int fd;
    char path[1100];
    /* without a lock */
    atomic_bool ended;  /* by an error */
    _Atomic int silent; /* the error that ended it, until it was told; 0: none */
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    /* under lock; of a buffer that was set aside the records are the writer's until its n is 0 again */
    bool stop;         /* the writer has to end */
    uint64_t aside_ns; /* when a buffer was last set aside */
    unsigned current;  /* where records are added; the other one is empty, or set aside */
    struct {
        unsigned n;
        tidei_record at[RECORDS];
    } buffer[2];
    pthread_t writer;
    /* the writer's; once it has ended, the closing thread's */
    off_t whole; /* bytes of the file, all of them whole rows */
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
    return tidei_fail(TIDE_E_IO, OPEN, "%s cannot be recorded into: %s", path, strerror(error));
}

/* Whether the file is empty, or begins as recordings of this form do. */
static bool is_recording(const tidei_form *form, int fd, const struct stat *s) {
    char begins[64];
    size_t n = strlen(form->begins);
    tidei_check(n <= sizeof begins);
    return s->st_size == 0 || (pread(fd, begins, n, 0) == (ssize_t)n && !memcmp(begins, form->begins, n));
}

/* An open file, made by the opening if `fresh`: *free_one says whether it is nobody's, and, if only a recording may be written
** over (`form`), one; then it is empty. Devices (/dev/null) are anybody's. What somebody has to read at the other end is refused:
** if that one went away, the program would end. */
static tide_status check_file(int fd, const char *path, bool fresh, const tidei_form *form, bool *free_one) {
    struct stat s;
    *free_one = true;
    if (fstat(fd, &s)) return refused(path, errno);
    if (S_ISCHR(s.st_mode)) return TIDE_OK;
    if (!S_ISREG(s.st_mode)) return tidei_fail(TIDE_E_IO, OPEN, "%s cannot be recorded into: it is no file", path);
    *free_one = !form || is_recording(form, fd, &s);
    if (*free_one)
        *free_one = !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK; /* unknown locks: it is free */
    tide_status status = *free_one ? take_file(path, &s, fresh, free_one) : TIDE_OK;
    if (status == TIDE_OK && *free_one && ftruncate(fd, 0)) return refused(path, errno);
    return status;
}

/* "run.2.csv" for the second of "run.csv". */
static void number_path(tidei_recorder *r, const char *path, unsigned k) {
    size_t stem = strlen(path) - strlen(r->form->suffix);
    if (k == 1)
        snprintf(r->path, sizeof r->path, "%s", path);
    else
        snprintf(r->path, sizeof r->path, "%.*s.%u%s", (int)stem, path, k, r->form->suffix);
}

/* `reads`: what is there will be looked at. */
static int open_either(const char *path, bool reads, bool *fresh) {
    const int flags = (reads ? O_RDWR : O_WRONLY) | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags | O_EXCL, 0666);
    *fresh = fd >= 0;
    return fd >= 0 || errno != EEXIST ? fd : open(path, flags, 0666);
}

static tide_status open_file(tidei_recorder *r, const char *path) {
    for (unsigned k = 1; k <= FILES_MAX; k++) {
        bool free_one, fresh;
        number_path(r, path, k);
        r->fd = open_either(r->path, k > 1, &fresh);
        if (r->fd < 0) return refused(r->path, errno);
        tide_status status = check_file(r->fd, r->path, fresh, k > 1 ? r->form : NULL, &free_one);
        if (status == TIDE_OK && free_one) return TIDE_OK;
        close(r->fd);
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
    const char *at = r->text;
    while (at < r->rows.at && !atomic_load_explicit(&r->ended, memory_order_relaxed)) {
        ssize_t n = write(r->fd, at, (size_t)(r->rows.at - at));
        if (n > 0)
            at += n;
        else if (n == 0 || errno != EINTR)
            end_recording(r, n ? errno : EIO);
    }
    r->whole += at - r->text;
    r->rows.at = r->text;
}

static void write_records(tidei_recorder *r, const tidei_record *at, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (r->rows.at + TIDEI_ROW_BYTES > r->text + TEXT_BYTES) write_text(r);
        r->form->row(&r->rows, &at[i]);
    }
    write_text(r);
}

static void *writer_main(void *arg) {
    tidei_recorder *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        unsigned other = !r->current, n = r->buffer[other].n;
        if (n) {
            pthread_mutex_unlock(&r->lock);
            write_records(r, r->buffer[other].at, n);
            pthread_mutex_lock(&r->lock);
            r->buffer[other].n = 0;
            pthread_cond_broadcast(&r->emptied);
        } else if (r->stop) {
            break;
        } else {
            pthread_cond_wait(&r->filled, &r->lock);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The program's signals are for its own threads. */
static int start_writer(tidei_recorder *r) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&r->writer, NULL, writer_main, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void end_writer(tidei_recorder *r) {
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->filled);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->writer, NULL);
}

/* ---- adding ---- */

/* Under the lock, where the other one is empty. */
static void set_aside(tidei_recorder *r, uint64_t ns) {
    r->current = !r->current;
    r->aside_ns = ns;
    pthread_cond_signal(&r->filled);
}

/* There is room for a record in the current buffer; the lock is held, and may have been let go meanwhile. */
static void make_room(tidei_recorder *r) {
    while (r->buffer[r->current].n == RECORDS) {
        if (r->buffer[!r->current].n)
            pthread_cond_wait(&r->emptied, &r->lock);
        else
            set_aside(r, tidei_now_ns() - r->start_ns);
    }
}

static void add(tidei_recorder *r, tidei_record x) {
    if (atomic_load_explicit(&r->ended, memory_order_relaxed) || tidei_forked()) return;
    pthread_mutex_lock(&r->lock);
    make_room(r);
    unsigned *n = &r->buffer[r->current].n;
    x.ns = tidei_now_ns() - r->start_ns;
    x.backed = atomic_load_explicit(&r->rt->devs[0].backed, memory_order_relaxed);
    r->buffer[r->current].at[(*n)++] = x;
    if ((*n == RECORDS || x.ns - r->aside_ns >= WRITE_NS) && !r->buffer[!r->current].n) set_aside(r, x.ns);
    pthread_mutex_unlock(&r->lock);
}

/* Where no lock is held: one warning, if the recording ended. */
static void speak(tidei_recorder *r) {
    int error = atomic_load_explicit(&r->silent, memory_order_relaxed) ? atomic_exchange(&r->silent, 0) : 0;
    if (tidei_unlikely(error))
        tidei_log(r->rt, TIDE_LOG_WARNING, "%s: recording ends here, the file cannot be written: %s", r->path,
                  strerror(error));
}

static uint32_t thread_here(void) {
    static _Thread_local uint32_t number; /* the system's */
    if (!number) number = (uint32_t)syscall(SYS_gettid);
    return number;
}

void tidei_recorder_alloc(tidei_recorder *r, const tidei_storage *st, const tide_stream *s) {
    add(r, (tidei_record){.kind = TIDEI_RECORD_ALLOC, .a = (uintptr_t)st, .b = st->bytes, .stream = s->slot});
    speak(r);
}

void tidei_recorder_free(tidei_recorder *r, tidei_storage *st) {
    uint16_t stream = st->stamps.n ? tidei_stamps_at(&st->stamps)[0].stream : 0;
    add(r, (tidei_record){.kind = TIDEI_RECORD_FREE, .a = (uintptr_t)st, .b = st->bytes, .stream = stream});
}

void tidei_recorder_sync(tidei_recorder *r, const tide_stream *s) {
    add(r, (tidei_record){.kind = TIDEI_RECORD_SYNC, .stream = s->slot, .thread = thread_here()});
    speak(r);
}

void tidei_recorder_follow(tidei_recorder *r, const tide_stream *s, const tide_stream *from) {
    add(r,
        (tidei_record){.kind = TIDEI_RECORD_FOLLOW, .stream = s->slot, .a = from->slot, .thread = thread_here()});
}

uint64_t tidei_recorder_moment(const tidei_recorder *r) { return r->form->submissions ? tidei_now_ns() : 0; }

void tidei_recorder_submit(tidei_recorder *r, const tide_stream *s, uint64_t began_ns, const char *op) {
    add(r, (tidei_record){.kind = TIDEI_RECORD_SUBMIT, .stream = s->slot, .a = began_ns - r->start_ns, .name = op});
}

static void add_span(tidei_recorder *r, const tidei_span *span, tidei_record_kind kind, size_t bytes) {
    add(r, (tidei_record){.kind = (uint8_t)kind,
                          .span = (uint8_t)span->kind,
                          .a = span->number,
                          .b = bytes,
                          .name = span->name,
                          .why = span->why,
                          .thread = thread_here()});
}

void tidei_span_begin(tide_runtime *rt, const tidei_span *span, size_t bytes) {
    if (rt->recorder) add_span(rt->recorder, span, TIDEI_RECORD_BEGIN, bytes);
    if (rt->ranges) tidei_nvtx_push(span->name);
}

void tidei_span_end(tide_runtime *rt, const tidei_span *span, size_t bytes) {
    if (rt->ranges) tidei_nvtx_pop();
    if (rt->recorder) add_span(rt->recorder, span, TIDEI_RECORD_END, bytes);
}

/* ---- a recording's life ---- */

/* Its writer has ended, or never began. */
static void discard(tide_runtime *rt, tidei_recorder *r) {
    flock(r->fd, LOCK_UN); /* a fork's child may have it open still */
    if (close(r->fd) && errno != EINTR && !atomic_load(&r->ended)) atomic_store(&r->silent, errno);
    speak(r);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->filled);
    pthread_cond_destroy(&r->emptied);
    tidei_host_free(rt, r);
}

static tide_status open_recorder(tide_runtime *rt) {
    tidei_recorder *r = tidei_host_alloc(rt, sizeof *r);
    if (!r) return tidei_fail_host_memory(OPEN, sizeof *r);
    r->rt = rt;
    r->form = tidei_form_of(rt->set.trace);
    tide_status status = open_file(r, rt->set.trace);
    if (status != TIDE_OK) {
        tidei_host_free(rt, r);
        return status;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->filled, NULL);
    pthread_cond_init(&r->emptied, NULL);
    r->start_ns = tidei_now_ns();
    r->rows.at = r->text;
    r->rows.device = rt->devs[0].d->info.name;
    r->form->head(&r->rows);
    write_text(r);
    int error = start_writer(r);
    if (error) {
        discard(rt, r);
        return tidei_fail(TIDE_E_HOST_NOMEM, OPEN, "no thread that writes the recording: %s", strerror(error));
    }
    rt->recorder = r;
    tidei_log(rt, TIDE_LOG_INFO, "records into %s", r->path);
    speak(r);
    return TIDE_OK;
}

tide_status tidei_recorder_open(tide_runtime *rt) {
    rt->ranges = tidei_nvtx_attach(rt);
    tide_status status = *rt->set.trace ? open_recorder(rt) : TIDE_OK;
    if (status != TIDE_E_IO || rt->set.trace_given) return status;
    tidei_log(rt, TIDE_LOG_WARNING, "TIDE_TRACE: %s; nothing is recorded", tide_last_error()->message);
    tide_clear_error();
    return TIDE_OK;
}

void tidei_recorder_close(tide_runtime *rt) {
    tidei_recorder *r = rt->recorder;
    if (!r) return;
    rt->recorder = NULL;
    end_writer(r);
    write_records(r, r->buffer[r->current].at, r->buffer[r->current].n);
    r->form->foot(&r->rows);
    write_text(r);
    discard(rt, r);
}
