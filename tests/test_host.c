/* test_host.c: what only the host device does: its checker, its loss, its ceiling's default, its memory's protection, forks,
** and what it does when host memory runs out. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/device/host.h"
#include "tests/tidetest.h"

#define PTR(addr) ((void *)(uintptr_t)(addr))
#define NSTREAMS  8

/* ---- a device under a runtime that only logs and counts host memory ---- */

struct box {
    tide_runtime rt;
    tidei_device *d;
    const struct tidei_device_ops *o;
    tidei_dstream *s[NSTREAMS];
    tidei_addr memory; /* 1 MiB */
    _Atomic long allocations;
    long fail_at;          /* the allocation, counted from 1, that fails; 0: none */
    atomic_bool exhausted; /* all fail */
    _Atomic long asked;
    pthread_mutex_t lock; /* of the lines */
    unsigned lines;
    char line[512]; /* the last one */
};
#define MEMORY TIDEI_MIB

static void *count_alloc(void *user, size_t n) {
    struct box *b = user;
    if (atomic_fetch_add(&b->asked, 1) + 1 == b->fail_at || atomic_load(&b->exhausted)) return NULL;
    atomic_fetch_add(&b->allocations, 1);
    return malloc(n);
}
static void count_free(void *user, void *p) {
    atomic_fetch_sub(&((struct box *)user)->allocations, 1);
    free(p);
}
static void keep_line(void *user, int level, const char *line) {
    struct box *b = user;
    assert_int_equal(level, TIDE_LOG_WARNING);
    pthread_mutex_lock(&b->lock);
    b->lines++;
    snprintf(b->line, sizeof b->line, "%s", line);
    pthread_mutex_unlock(&b->lock);
}

static struct box *new_box(void) {
    struct box *b = calloc(1, sizeof *b);
    b->rt.host = (tide_host_memory){count_alloc, count_free, b};
    b->rt.log = keep_line;
    b->rt.log_user = b;
    b->rt.set.log_level = TIDE_LOG_WARNING;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

static struct box *open_box(bool checker) {
    struct box *b = new_box();
    tidei_device_params p = {.host_memory = 16 * TIDEI_MIB, .host_checker = checker, .rt = &b->rt};
    assert_ok(tidei_host_open(&p, &b->d));
    b->o = b->d->ops;
    for (int i = 0; i < NSTREAMS; i++) assert_ok(b->o->stream_new(b->d, &b->s[i]));
    assert_ok(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory));
    return b;
}

static void close_box(struct box *b) {
    for (int i = 0; i < NSTREAMS; i++)
        if (b->s[i]) {
            b->o->stream_sync(b->d, b->s[i]);
            b->o->stream_release(b->d, b->s[i]);
        }
    b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
    assert_int_equal(atomic_load(&((tidei_host *)b->d)->used), 0);
    b->o->close(b->d);
    assert_int_equal(atomic_load(&b->allocations), 0);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- shorthand ---- */

static void nothing(const void *p) { (void)p; }

static tide_status launch_fn(struct box *b, unsigned s, tidei_host_fn fn, const void *params, size_t n,
                             tidei_addr addr, size_t bytes, unsigned mode) {
    tidei_range r = {addr, bytes, mode};
    return b->o->launch(b->d, b->s[s],
                        &(tidei_launch){.name = mode & TIDEI_WRITE ? "put" : "get",
                                        .host_fn = fn,
                                        .params = params,
                                        .params_bytes = n,
                                        .ranges = &r,
                                        .nranges = bytes ? 1 : 0});
}
static void touch(struct box *b, unsigned s, unsigned mode, tidei_addr addr, size_t bytes) {
    assert_ok(launch_fn(b, s, nothing, NULL, 0, addr, bytes, mode));
}
static void order(struct box *b, tidei_devent *e, unsigned from, unsigned to) {
    assert_ok(b->o->event_record(b->d, e, b->s[from]));
    assert_ok(b->o->event_wait(b->d, e, b->s[to]));
}
static void finish(struct box *b, unsigned s) {
    assert_ok(b->o->stream_sync(b->d, b->s[s]));
    b->o->speak(b->d);
}
static uint64_t reports(struct box *b) { return tidei_host_checker_reports(b->d); }
static tidei_devent *new_event(struct box *b) {
    tidei_devent *e;
    assert_ok(b->o->event_new(b->d, &e));
    return e;
}
static void spin(const void *p) {
    atomic_int *flag = *(atomic_int *const *)p;
    while (!atomic_load(flag)) sched_yield();
}
static void launch_spin(struct box *b, unsigned s, atomic_int *flag) {
    assert_ok(launch_fn(b, s, spin, &flag, sizeof flag, 0, 0, 0));
}

/* ---- devices whose programs are wrong on purpose: ThreadSanitizer, which sees that too, looks away ---- */

#if TIDEI_TSAN
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif
static void look_away(const void *p) {
    (void)p;
#if TIDEI_TSAN
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}
static void look_back(const void *p) {
    (void)p;
#if TIDEI_TSAN
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
}
static struct box *open_planted(void) {
    struct box *b = open_box(true);
    for (unsigned i = 0; i < NSTREAMS; i++) assert_ok(launch_fn(b, i, look_away, NULL, 0, 0, 0, 0));
    return b;
}
static void close_planted(struct box *b) {
    for (unsigned i = 0; i < NSTREAMS; i++) assert_ok(launch_fn(b, i, look_back, NULL, 0, 0, 0, 0));
    close_box(b);
}

/* ---- the checker: pairs ---- */

static const unsigned pair_modes[][2] = {{TIDEI_WRITE, TIDEI_READ},
                                         {TIDEI_READ, TIDEI_WRITE},
                                         {TIDEI_WRITE, TIDEI_WRITE},
                                         {TIDEI_READ | TIDEI_WRITE, TIDEI_READ},
                                         {TIDEI_READ, TIDEI_READ}};
static bool conflict(const unsigned m[2]) { return (m[0] | m[1]) & TIDEI_WRITE; }

static void a_missing_wait_is_found_every_time(void **state) {
    (void)state;
    struct box *b = open_planted();
    uint64_t want = 0;
    for (int run = 0; run < 100; run++)
        for (size_t i = 0; i < TIDEI_COUNT(pair_modes); i++) {
            tidei_addr a = b->memory + 64 * i;
            touch(b, 0, pair_modes[i][0], a, 64);
            if (run % 3 == 1) sched_yield(); /* the workers' pace does not matter */
            touch(b, 1, pair_modes[i][1], a + run % 64, 1);
            want += conflict(pair_modes[i]);
            assert_int_equal(reports(b), want);
            finish(b, 0);
            finish(b, 1);
        }
    assert_int_equal(b->lines, want);
    close_planted(b);
}

static void an_event_orders_every_time(void **state) {
    (void)state;
    struct box *b = open_box(true);
    tidei_devent *e = new_event(b);
    for (int run = 0; run < 100; run++)
        for (size_t i = 0; i < TIDEI_COUNT(pair_modes); i++) {
            touch(b, 0, pair_modes[i][0], b->memory, 64);
            order(b, e, 0, 1);
            touch(b, 1, pair_modes[i][1], b->memory, 64);
            order(b, e, 1, 0);
        }
    assert_int_equal(reports(b), 0);
    b->o->event_release(b->d, e);
    close_box(b);
}

static void a_report_names_what_and_where(void **state) {
    (void)state;
    struct box *b = open_planted();
    char want[256];
    touch(b, 2, TIDEI_WRITE, b->memory, 4096);
    touch(b, 5, TIDEI_READ, b->memory + 100, 10);
    finish(b, 5);
    snprintf(
        want, sizeof want,
        "host:0: unordered access: get on stream 5 reads 10 bytes at 0x%llx, which put on stream 2 writes; no wait "
        "orders the two",
        (unsigned long long)b->memory + 100);
    assert_string_equal(b->line, want);
    assert_ok(b->o->fill(b->d, b->s[6], b->memory + 100, "", 1, 10)); /* against the reader, which came last */
    finish(b, 6);
    assert_non_null(strstr(b->line, "fill on stream 6 writes 10 bytes"));
    close_planted(b);
}

static void copies_and_fills_are_checked(void **state) {
    (void)state;
    struct box *b = open_planted();
    static char host[100000];
    tidei_addr a = b->memory, c = b->memory + 200000;
    assert_ok(b->o->fill(b->d, b->s[0], a, "x", 1, 100000));
    assert_ok(b->o->copy(b->d, b->s[1], &(tidei_copy){TIDEI_COPY_D2H, (uintptr_t)host, a, 100, NULL}));
    assert_int_equal(reports(b), 1); /* read after write */
    assert_ok(b->o->copy(b->d, b->s[2], &(tidei_copy){TIDEI_COPY_H2D, a, (uintptr_t)host, 100, NULL}));
    assert_int_equal(reports(b), 2); /* write after write and read: one report */
    assert_ok(b->o->copy(b->d, b->s[3], &(tidei_copy){TIDEI_COPY_D2D, c, a + 5000, 100, NULL}));
    assert_int_equal(reports(b), 3); /* its source */
    assert_ok(b->o->copy(b->d, b->s[4], &(tidei_copy){TIDEI_COPY_D2D, c, c + 50000, 100, NULL}));
    assert_int_equal(reports(b), 4); /* its target */
    assert_ok(b->o->copy(b->d, b->s[5], &(tidei_copy){TIDEI_COPY_H2D, c + 200000, (uintptr_t)host, 100000, NULL}));
    touch(b, 6, TIDEI_READ, c + 200000, 8);
    assert_int_equal(reports(b), 5); /* the end of a long copy tells the host nothing about the device */
    for (unsigned i = 0; i < NSTREAMS; i++) finish(b, i);
    assert_int_equal(b->lines, 5);
    close_planted(b);
}

static void ranges_meet_where_they_overlap(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_addr a = b->memory;
    touch(b, 0, TIDEI_WRITE, a + 100, 100);
    touch(b, 1, TIDEI_WRITE, a, 100);
    touch(b, 1, TIDEI_WRITE, a + 200, 100);
    touch(b, 2, TIDEI_READ, a + 300, 100);
    assert_int_equal(reports(b), 0); /* side by side */
    touch(b, 1, TIDEI_READ, a, 101);
    assert_int_equal(reports(b), 1); /* by one byte */
    touch(b, 1, TIDEI_READ, a + 199, 1);
    assert_int_equal(reports(b), 2);
    touch(b, 3, TIDEI_WRITE, a + 50, 300); /* over all of them: one report, then they are past */
    assert_int_equal(reports(b), 3);
    touch(b, 3, TIDEI_READ, a + 60, 280);
    assert_int_equal(reports(b), 3);
    touch(b, 2, TIDEI_WRITE, a + 350, 50); /* its own */
    assert_int_equal(reports(b), 3);
    close_planted(b);
}

/* ---- the checker: chains, the host's knowledge ---- */

static void chains_order_and_a_broken_link_is_found(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_devent *e = new_event(b);
    uint64_t want = 0;
    for (unsigned n = 2; n <= NSTREAMS; n++)
        for (unsigned broken = 0; broken < n; broken++) { /* link broken-1 -> broken; 0: none */
            for (unsigned i = 0; i < NSTREAMS; i++) finish(b, i);
            touch(b, 0, TIDEI_WRITE, b->memory, 64);
            for (unsigned i = 1; i < n; i++) {
                if (i != broken) order(b, e, i - 1, i);
                touch(b, i, TIDEI_READ, b->memory + 1000, 64); /* work of no interest */
            }
            touch(b, n - 1, TIDEI_WRITE, b->memory + 63, 1);
            want += broken != 0;
            assert_int_equal(reports(b), want);
        }
    b->o->event_release(b->d, e);
    close_planted(b);
}

static void an_event_stands_for_its_record_only(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_devent *e = new_event(b);
    touch(b, 0, TIDEI_WRITE, b->memory, 8);
    assert_ok(b->o->event_record(b->d, e, b->s[0]));
    touch(b, 0, TIDEI_WRITE, b->memory + 8, 8); /* after the record */
    assert_ok(b->o->event_wait(b->d, e, b->s[1]));
    touch(b, 1, TIDEI_READ, b->memory, 8);
    assert_int_equal(reports(b), 0);
    touch(b, 1, TIDEI_READ, b->memory, 9);
    assert_int_equal(reports(b), 1);
    b->o->event_release(b->d, e);
    close_planted(b);
}

static void what_the_host_waited_for_orders_all_streams(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_devent *e = new_event(b);
    touch(b, 0, TIDEI_WRITE, b->memory, 64);
    order(b, e, 0, 1);
    finish(b, 1); /* the host knows of stream 0's work through stream 1 */
    touch(b, 2, TIDEI_WRITE, b->memory, 64);
    assert_int_equal(reports(b), 0);
    finish(b, 1); /* not of stream 2's */
    touch(b, 3, TIDEI_READ, b->memory, 64);
    assert_int_equal(reports(b), 1);
    b->o->event_release(b->d, e);
    close_planted(b);
}

static void a_completion_word_that_was_read_orders_what_it_covers(void **state) {
    (void)state;
    struct box *b = open_planted();
    atomic_int flag = 0;
    touch(b, 0, TIDEI_WRITE, b->memory, 64);
    assert_ok(b->o->publish(b->d, b->s[0], 1));
    launch_spin(b, 0, &flag);
    touch(b, 0, TIDEI_WRITE, b->memory + 64, 64);
    assert_ok(b->o->publish(b->d, b->s[0], 2));
    while (b->o->completed(b->d, b->s[0]) < 1) sched_yield();
    touch(b, 1, TIDEI_READ, b->memory, 64);
    assert_int_equal(reports(b), 0);
    touch(b, 1, TIDEI_READ, b->memory + 64, 64);
    assert_int_equal(reports(b), 1);
    atomic_store(&flag, 1);
    finish(b, 1); /* even if the work is done by now: nobody looked at stream 0's word again */
    touch(b, 2, TIDEI_READ, b->memory + 64, 64);
    assert_int_equal(reports(b), 2);
    while (b->o->completed(b->d, b->s[0]) < 2) sched_yield();
    touch(b, 3, TIDEI_READ, b->memory + 64, 64);
    assert_int_equal(reports(b), 2);
    close_planted(b);
}

static void memory_given_back_too_early_is_found_and_forgotten(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_addr base;
    tidei_dpage *p;
    size_t page = b->d->info.page_bytes;
    atomic_int flag = 0;
    assert_ok(b->o->reserve(b->d, page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->map(b->d, base, &p, 1));
    touch(b, 0, TIDEI_WRITE, base, 100);
    finish(b, 0);
    touch(b, 1, TIDEI_READ, base, 100);
    finish(b, 1);
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    assert_int_equal(reports(b), 0);
    assert_ok(b->o->map(b->d, base, &p, 1));
    launch_spin(b, 0, &flag);
    touch(b, 0, TIDEI_WRITE, base + 10, 100);
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    assert_int_equal(reports(b), 1);
    assert_ok(b->o->map(b->d, base, &p, 1));
    touch(b, 2, TIDEI_READ, base, page); /* the range is nobody's now */
    assert_int_equal(reports(b), 1);
    atomic_store(&flag, 1);
    for (unsigned i = 0; i < 3; i++) finish(b, i);
    assert_non_null(strstr(b->line, "are given back, which put on stream 0 writes; the host did not wait for it"));
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    b->o->page_release(b->d, p);
    b->o->unreserve(b->d, base, page);
    close_planted(b);
}

static void a_streams_number_may_be_used_again(void **state) {
    (void)state;
    struct box *b = open_planted();
    tidei_devent *e = new_event(b);
    for (int i = 0; i < 20; i++) {
        touch(b, 7, TIDEI_WRITE, b->memory, 64);
        assert_ok(b->o->event_record(b->d, e, b->s[7]));
        assert_ok(launch_fn(b, 7, look_back, NULL, 0, 0, 0, 0));
        b->o->stream_release(b->d, b->s[7]); /* ends its work, and the host knows */
        assert_ok(b->o->stream_new(b->d, &b->s[7]));
        assert_ok(launch_fn(b, 7, look_away, NULL, 0, 0, 0, 0));
        assert_int_equal(b->s[7]->id, 7);
        touch(b, 6, TIDEI_WRITE, b->memory, 64);
        assert_int_equal(reports(b), (uint64_t)(2 * i));
        touch(b, 7, TIDEI_READ, b->memory, 64); /* the new one is not the old one, nor ordered after stream 6 */
        assert_int_equal(reports(b), (uint64_t)(2 * i + 1));
        assert_ok(b->o->event_wait(b->d, e, b->s[5])); /* the event is of the old one */
        touch(b, 5, TIDEI_WRITE, b->memory, 64);
        assert_int_equal(reports(b), (uint64_t)(2 * i + 2));
        for (unsigned s = 5; s < 8; s++) finish(b, s);
    }
    b->o->event_release(b->d, e);
    close_planted(b);
}

/* ---- the checker against a slow model ---- */

/* The model keeps, for each operation, the set of operations it is ordered after, and for each byte everyone who touched
** it since the last writer. */
enum { M_OPS = 120, M_STREAMS = 5, M_BYTES = 40, M_EVENTS = 3, M_PUBLISHES = 16 };
typedef struct set {
    uint64_t w[(M_OPS + 63) / 64];
} set;
static void add(set *a, int i) { a->w[i / 64] |= (uint64_t)1 << (i % 64); }
static void unite(set *a, const set *b) {
    for (size_t i = 0; i < TIDEI_COUNT(a->w); i++) a->w[i] |= b->w[i];
}
static bool within(const set *a, const set *b) {
    for (size_t i = 0; i < TIDEI_COUNT(a->w); i++)
        if (a->w[i] & ~b->w[i]) return false;
    return true;
}

struct model {
    tidei_checker *c;
    uint32_t r;
    int nops;
    set host, stream[M_STREAMS], event[M_EVENTS], published[M_STREAMS][M_PUBLISHES];
    int npublished[M_STREAMS], done[M_STREAMS];
    set writer[M_BYTES], readers[M_BYTES]; /* at most one writer each */
    tidei_moment moment[M_EVENTS];
    uint64_t reports, ranges;
};

static unsigned below(struct model *m, unsigned n) {
    m->r = m->r * 1664525 + 1013904223;
    return (m->r >> 10) % n;
}

static tidei_range random_range(struct model *m) {
    unsigned lo = below(m, M_BYTES), n = 1 + below(m, M_BYTES - lo);
    if (below(m, 2)) n = 1 + n / 6;
    return (tidei_range){1000 + lo, n, 1 + below(m, 3)};
}

static void m_use(struct model *m) {
    unsigned s = below(m, M_STREAMS), n = 1 + below(m, 3), found;
    tidei_range r[3];
    tidei_finding list[TIDEI_FINDINGS_MAX];
    int op = m->nops++;
    unite(&m->stream[s], &m->host);
    add(&m->stream[s], op);
    uint64_t before = m->reports;
    for (unsigned i = 0; i < n; i++) {
        bool bad = false;
        r[i] = random_range(m);
        for (size_t k = r[i].addr - 1000; k < r[i].addr - 1000 + r[i].bytes; k++) {
            bad |= !within(&m->writer[k], &m->stream[s]);
            if (r[i].mode & TIDEI_WRITE) {
                bad |= !within(&m->readers[k], &m->stream[s]);
                m->readers[k] = m->writer[k] = (set){{0}};
                add(&m->writer[k], op);
            } else {
                add(&m->readers[k], op);
            }
        }
        m->reports += bad;
        m->ranges++;
    }
    assert_true(tidei_checker_use(m->c, s, "op", r, n, list, &found));
    assert_int_equal(found, m->reports - before);
    for (unsigned i = 0; i < found; i++) assert_int_equal(list[i].stream, s);
}

static void m_record(struct model *m) {
    unsigned s = below(m, M_STREAMS), e = below(m, M_EVENTS);
    m->event[e] = m->stream[s];
    if (m->moment[e].row) tidei_checker_moment_drop(m->c, &m->moment[e]);
    tidei_checker_moment(m->c, s, &m->moment[e]);
}

static void m_wait(struct model *m) {
    unsigned s = below(m, M_STREAMS), e = below(m, M_EVENTS);
    if (!m->moment[e].row) return;
    unite(&m->stream[s], &m->event[e]);
    assert_true(tidei_checker_wait(m->c, s, &m->moment[e]));
}

static void m_sync(struct model *m) {
    unsigned s = below(m, M_STREAMS);
    tidei_moment now;
    tidei_checker_moment(m->c, s, &now);
    tidei_checker_known(m->c, &now);
    unite(&m->host, &m->stream[s]);
}

static void m_publish(struct model *m) {
    unsigned s = below(m, M_STREAMS);
    if (m->npublished[s] == M_PUBLISHES) return;
    m->published[s][m->npublished[s]++] = m->stream[s];
    assert_true(tidei_checker_publish(m->c, s, (uint64_t)m->npublished[s], (uint64_t)m->done[s]));
}

static void m_completed(struct model *m) {
    unsigned s = below(m, M_STREAMS);
    m->done[s] += (int)below(m, (unsigned)(m->npublished[s] - m->done[s] + 1));
    if (below(m, 2)) return; /* it went on, but nobody looked */
    tidei_checker_completed(m->c, s, (uint64_t)m->done[s]);
    if (m->done[s]) unite(&m->host, &m->published[s][m->done[s] - 1]);
}

static void m_forget(struct model *m) {
    tidei_range r = random_range(m);
    tidei_finding f;
    bool bad = false;
    for (size_t k = r.addr - 1000; k < r.addr - 1000 + r.bytes; k++) {
        bad |= !within(&m->writer[k], &m->host) || !within(&m->readers[k], &m->host);
        m->readers[k] = m->writer[k] = (set){{0}};
    }
    m->reports += bad;
    assert_int_equal(tidei_checker_forget(m->c, r.addr, r.bytes, &f), bad);
}

static void m_reopen(struct model *m) {
    unsigned s = below(m, M_STREAMS);
    unite(&m->host, &m->stream[s]);
    tidei_checker_stream_release(m->c, s);
    m->npublished[s] = m->done[s] = 0;
    assert_true(tidei_checker_stream_new(m->c, s));
}

static void random_programs_agree_with_a_slow_model(void **state) {
    (void)state;
    uint64_t reported = 0, ranges = 0;
    for (uint32_t seed = 0; seed < 400; seed++) {
        struct model *m = calloc(1, sizeof *m);
        m->r = seed * 2654435761u + 1;
        m->c = tidei_checker_open(NULL);
        for (unsigned s = 0; s < M_STREAMS; s++) assert_true(tidei_checker_stream_new(m->c, s));
        while (m->nops < M_OPS) {
            switch (below(m, 16)) {
            case 0:
            case 1:
            case 2: m_record(m); break;
            case 3:
            case 4:
            case 5:
            case 6: m_wait(m); break;
            case 7: m_sync(m); break;
            case 8: m_publish(m); break;
            case 9: m_completed(m); break;
            case 10:
                if (below(m, 4) == 0) m_forget(m);
                break;
            case 11:
                if (below(m, 8) == 0) m_reopen(m);
                break;
            default: m_use(m); break;
            }
            assert_int_equal(tidei_checker_reports(m->c), m->reports);
            assert_true(tidei_checker_valid(m->c));
        }
        reported += m->reports;
        ranges += m->ranges;
        for (int e = 0; e < M_EVENTS; e++)
            if (m->moment[e].row) tidei_checker_moment_drop(m->c, &m->moment[e]);
        tidei_checker_close(m->c);
        free(m);
    }
    assert_true(reported > ranges / 8 && reported < ranges / 8 * 7); /* the programs are worth it */
}

static void names_are_kept_past_the_work(void **state) {
    (void)state;
    tidei_checker *c = tidei_checker_open(NULL);
    tidei_finding f[TIDEI_FINDINGS_MAX];
    unsigned n;
    char name[32];
    for (unsigned s = 0; s < 2; s++) assert_true(tidei_checker_stream_new(c, s));
    for (unsigned i = 0; i < 500; i++) {
        tidei_range r = {64 * i, 64, TIDEI_WRITE};
        snprintf(name, sizeof name, "kernel %u", i % 250);
        assert_true(tidei_checker_use(c, 0, name, &r, 1, f, &n));
    }
    for (unsigned i = 0; i < 500; i++) {
        tidei_range r = {64 * i, 64, TIDEI_READ};
        assert_true(tidei_checker_use(c, 1, NULL, &r, 1, f, &n));
        assert_int_equal(n, 1);
        snprintf(name, sizeof name, "kernel %u", i % 250);
        assert_string_equal(f[0].earlier_op, name);
    }
    tidei_checker_close(c);
}

/* ---- ThreadSanitizer ---- */

#if TIDEI_TSAN
/* Like library code, which is not instrumented: only the announced ranges tell. */
__attribute__((no_sanitize("thread"))) static void blind_write(const void *p) { **(volatile char *const *)p = 1; }

static void race(bool ordered) {
    struct box *b = open_box(false);
    tidei_devent *e = new_event(b);
    void *at = PTR(b->memory);
    assert_ok(launch_fn(b, 0, blind_write, &at, sizeof at, b->memory, 64, TIDEI_WRITE));
    usleep(50000); /* the first is long done, and its queue was used since: none of that orders the second */
    touch(b, 0, TIDEI_READ, b->memory + 512, 8);
    if (ordered) order(b, e, 0, 1);
    assert_ok(launch_fn(b, 1, blind_write, &at, sizeof at, b->memory, 64, TIDEI_WRITE));
    b->o->event_release(b->d, e);
    close_box(b);
}

static int exit_code_of_race(bool ordered) {
    char *argv[] = {"test_host", ordered ? "--race=ordered" : "--race=planted", NULL};
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#endif

static void thread_sanitizer_sees_a_missing_wait(void **state) {
    (void)state;
#if TIDEI_TSAN
    for (int i = 0; i < 5; i++) {
        assert_int_equal(exit_code_of_race(false), 66);
        assert_int_equal(exit_code_of_race(true), 0);
    }
#else
    skip();
#endif
}

/* ---- loss ---- */

struct waiter {
    struct box *b;
    tide_status status;
    pthread_t thread;
};
static void *wait_for_stream(void *arg) {
    struct waiter *w = arg;
    w->status = w->b->o->stream_sync(w->b->d, w->b->s[0]);
    return NULL;
}

static void put_one(const void *p) { **(int *const *)p = 1; }

#define assert_lost(call)                                                                                          \
    do {                                                                                                           \
        tide_clear_error();                                                                                        \
        assert_int_equal(call, TIDE_E_LOST);                                                                       \
        assert_error(TIDE_E_LOST, "host:0 is lost: an illegal address");                                           \
    } while (0)

static void a_lost_device_ends_waits_and_says_why(void **state) {
    (void)state;
    struct box *b = open_box(true);
    struct waiter w = {.b = b};
    tidei_devent *e = new_event(b), *f;
    tidei_dpage *p, *q;
    tidei_addr base, a;
    tidei_dstream *s;
    size_t n, page = b->d->info.page_bytes;
    atomic_int flag = 0;
    int touched = 0, *at = &touched;
    char host[8] = {0};
    assert_ok(b->o->reserve(b->d, 2 * page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->map(b->d, base, &p, 1));
    launch_spin(b, 0, &flag);
    order(b, e, 0, 1); /* stream 1 waits on the device */
    assert_ok(launch_fn(b, 0, put_one, &at, sizeof at, 0, 0, 0));
    assert_ok(launch_fn(b, 1, put_one, &at, sizeof at, 0, 0, 0));
    pthread_create(&w.thread, NULL, wait_for_stream, &w);
    tidei_host_lose(b->d, "an illegal address");
    tidei_host_lose(b->d, "another reason"); /* the first one stands */
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, TIDE_E_LOST);
    assert_true(atomic_load(&b->d->lost));
    assert_lost(b->o->reserve(b->d, page, &a));
    assert_lost(b->o->page_new(b->d, page, &q));
    assert_lost(b->o->map(b->d, base + page, &p, 1));
    assert_lost(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, 8, &a));
    assert_lost(b->o->raw_alloc(b->d, TIDEI_MEM_PINNED, 8, &a));
    assert_lost(b->o->memory(b->d, &n, &n));
    assert_lost(b->o->stream_new(b->d, &s));
    assert_lost(b->o->stream_sync(b->d, b->s[3]));
    assert_lost(b->o->event_new(b->d, &f));
    assert_lost(b->o->event_record(b->d, e, b->s[3]));
    assert_lost(b->o->event_wait(b->d, e, b->s[3]));
    assert_lost(b->o->publish(b->d, b->s[3], 9));
    assert_int_equal(b->o->completed(b->d, b->s[3]), 0);
    assert_lost(b->o->copy(b->d, b->s[3], &(tidei_copy){TIDEI_COPY_D2H, (uintptr_t)host, base, 8, NULL}));
    assert_lost(b->o->fill(b->d, b->s[3], base, "", 1, 8));
    assert_lost(launch_fn(b, 3, nothing, NULL, 0, 0, 0, 0));
    atomic_store(&flag, 1); /* memory is given back only after the running kernel ended */
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    b->o->page_release(b->d, p);
    b->o->unreserve(b->d, base, 2 * page);
    b->o->event_release(b->d, e);
    close_box(b);
    assert_int_equal(touched, 0); /* what was queued was dropped */
}

static void an_idle_device_can_be_lost_too(void **state) {
    (void)state;
    struct box *b = open_box(false);
    for (unsigned i = 0; i < NSTREAMS; i++) finish(b, i);
    tidei_host_lose(b->d, "an illegal address");
    close_box(b);
}

static void closing_with_work_queued_does_it(void **state) {
    (void)state;
    struct box *b = open_box(false);
    tidei_devent *e = new_event(b);
    int touched = 0, *at = &touched;
    atomic_int flag = 0;
    launch_spin(b, 1, &flag);
    order(b, e, 1, 0); /* an earlier stream waits for a later one */
    assert_ok(launch_fn(b, 0, put_one, &at, sizeof at, 0, 0, 0));
    b->o->event_release(b->d, e); /* with a wait queued */
    atomic_store(&flag, 1);
    tidei_addr a = b->memory;
    b->o->close(b->d);
    free(PTR(a)); /* raw memory is the process's */
    assert_int_equal(touched, 1);
    assert_int_equal(atomic_load(&b->allocations), 0);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- memory ---- */

/* Whether the kernel can read there: a bad address is an error of write(), no signal. */
static bool readable(tidei_addr a) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    bool ok = write(fd[1], PTR(a), 1) == 1;
    close(fd[0]);
    close(fd[1]);
    return ok;
}

static void unmapped_addresses_fault(void **state) {
    (void)state;
    struct box *b = open_box(false);
    size_t page = b->d->info.page_bytes;
    tidei_addr base;
    tidei_dpage *p[2];
    assert_int_equal(page, 64 * TIDEI_KIB);
    assert_ok(b->o->reserve(b->d, 8 * page, &base));
    assert_int_equal(base % b->d->info.align, 0);
    for (int old = 0; old < 2; old++) { /* a kernel that moves pages, and one that cannot */
        atomic_store(&((tidei_host *)b->d)->move_by_copy, old != 0);
        for (int i = 0; i < 2; i++) assert_ok(b->o->page_new(b->d, page, &p[i]));
        for (size_t i = 0; i < 8; i++) assert_false(readable(base + i * page));
        assert_ok(b->o->map(b->d, base + 2 * page, p, 2));
        memset(PTR(base + 2 * page), 1, 2 * page);
        for (size_t i = 0; i < 8; i++) assert_int_equal(readable(base + i * page), i == 2 || i == 3);
        assert_ok(b->o->unmap(b->d, base + 2 * page, p, 1));
        assert_false(readable(base + 2 * page));
        assert_true(readable(base + 3 * page));
        assert_ok(b->o->map(b->d, base + 5 * page, p, 1));
        for (size_t i = 0; i < 8; i++) assert_int_equal(readable(base + i * page), i == 3 || i == 5);
        assert_ok(b->o->unmap(b->d, base + 5 * page, p, 1));
        assert_ok(b->o->unmap(b->d, base + 3 * page, p + 1, 1));
        for (int i = 0; i < 2; i++) b->o->page_release(b->d, p[i]);
        for (size_t i = 0; i < 8; i++) assert_false(readable(base + i * page));
    }
    assert_ok(b->o->page_new(b->d, page, &p[0]));
    assert_ok(b->o->map(b->d, base + 3 * page, p, 1));
    assert_int_equal(*(char *)PTR(base + 3 * page), 0); /* a released page's bytes are gone */
    assert_ok(b->o->unmap(b->d, base + 3 * page, p, 1));
    b->o->page_release(b->d, p[0]);
    b->o->unreserve(b->d, base, 8 * page);
    close_box(b);
}

static void the_page_size_is_the_callers_wish(void **state) {
    (void)state;
    tidei_device *d;
    assert_ok(
        tidei_host_open(&(tidei_device_params){.ordinal = 3, .host_page = 8192, .host_memory = 3 * TIDEI_MIB}, &d));
    assert_int_equal(d->info.page_bytes, 8192);
    assert_int_equal(d->info.total_bytes, 3 * TIDEI_MIB);
    assert_int_equal(d->info.va_bytes, 12 * TIDEI_MIB);
    assert_string_equal(d->info.name, "host:3");
    assert_int_equal(tidei_host_checker_reports(d), 0); /* off */
    d->ops->close(d);
    assert_int_equal(tidei_host_open(&(tidei_device_params){.host_page = 1000}, &d), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "1000 bytes");
    assert_ok(tidei_host_open(&(tidei_device_params){0}, &d));
    assert_int_equal(d->info.total_bytes, tidei_host_default_memory());
    d->ops->close(d);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    struct box *b = open_box(true);
    tidei_addr a;
    tidei_dpage *p;
    char big[TIDEI_PARAMS_MAX + 1] = {0};
    assert_int_equal(b->o->reserve(b->d, 100, &a), TIDE_E_INVALID);
    assert_int_equal(b->o->page_new(b->d, 100, &p), TIDE_E_INVALID);
    assert_int_equal(b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, 0, &a), TIDE_E_INVALID);
    assert_int_equal(b->o->fill(b->d, b->s[0], b->memory, big, 3, 1), TIDE_E_INVALID);
    assert_int_equal(b->o->fill(b->d, b->s[0], b->memory, big, 8, SIZE_MAX / 4), TIDE_E_INVALID);
    assert_int_equal(launch_fn(b, 0, NULL, NULL, 0, 0, 0, 0), TIDE_E_INVALID);
    assert_error(TIDE_E_INVALID, "get has no host function");
    assert_int_equal(launch_fn(b, 0, nothing, big, sizeof big, 0, 0, 0), TIDE_E_INVALID);
    assert_ok(launch_fn(b, 0, nothing, big, TIDEI_PARAMS_MAX, 0, 0, 0));
    close_box(b);
}

static void write_file(const char *dir, const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = strchr(path + strlen(dir) + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_smallest_cgroup_limit_counts(void **state) {
    (void)state;
    char dir[] = "/tmp/tide-cgroup-XXXXXX", self[64], clean[64];
    assert_non_null(mkdtemp(dir));
    snprintf(self, sizeof self, "%s/self", dir);
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX); /* no such file */
    write_file(dir, "self", "0::/a/b/c\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    write_file(dir, "a/b/c/memory.max", "max\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    write_file(dir, "a/memory.max", "5000000\n"); /* a group around it */
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 5000000);
    write_file(dir, "memory.max", "4000000\n"); /* as a container sees its own */
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 4000000);
    write_file(dir, "self", "7:cpu,cpuacct:/a\n9:hugetlb,memory:/x/y\n1:name=systemd:/z\n0::/\n");
    write_file(dir, "memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    write_file(dir, "memory/x/memory.limit_in_bytes", "3000000\n");
    assert_int_equal(tidei_host_cgroup_limit(self, dir), 3000000);
    write_file(dir, "self", "nonsense\n\n::\n");
    assert_true(tidei_host_cgroup_limit(self, dir) == SIZE_MAX);
    snprintf(clean, sizeof clean, "rm -r %s", dir);
    assert_int_equal(system(clean), 0);
    assert_true(tidei_host_default_memory() > TIDEI_MIB);
}

/* ---- forks ---- */

static void a_forks_child_gives_back_without_waiting(void **state) {
    (void)state;
    struct box *b = open_box(true);
    tidei_devent *e = new_event(b);
    size_t page = b->d->info.page_bytes;
    tidei_addr base;
    tidei_dpage *p;
    assert_ok(b->o->reserve(b->d, page, &base));
    assert_ok(b->o->page_new(b->d, page, &p));
    assert_ok(b->o->map(b->d, base, &p, 1));
    touch(b, 0, TIDEI_WRITE, base, 8);
    order(b, e, 0, 1);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        if (b->o->stream_sync(b->d, b->s[0]) != TIDE_E_FORKED) _exit(1);
        for (int i = 0; i < NSTREAMS; i++) b->o->stream_release(b->d, b->s[i]);
        b->o->event_release(b->d, e);
        if (b->o->unmap(b->d, base, &p, 1) != TIDE_OK) _exit(2);
        b->o->page_release(b->d, p);
        b->o->unreserve(b->d, base, page);
        b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
        b->o->close(b->d);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    finish(b, 0); /* the parent goes on */
    assert_ok(b->o->unmap(b->d, base, &p, 1));
    b->o->page_release(b->d, p);
    b->o->unreserve(b->d, base, page);
    b->o->event_release(b->d, e);
    close_box(b);
}

/* ---- host memory that runs out ---- */

static void release_all(struct box *b, tidei_devent *e, tidei_dpage *p) {
    for (int i = 0; i < NSTREAMS; i++) {
        if (b->s[i]) b->o->stream_release(b->d, b->s[i]);
        b->s[i] = NULL;
    }
    if (e) b->o->event_release(b->d, e);
    if (p) b->o->page_release(b->d, p);
    if (b->memory) b->o->raw_free(b->d, TIDEI_MEM_DEVICE, b->memory, MEMORY);
    b->memory = 0;
}

/* A program that uses every slot with the checker on, until something fails. */
static tide_status run_program(struct box *b) {
    tidei_devent *e = NULL;
    tidei_dpage *p = NULL;
    static char host[TIDEI_STAGED_MAX];
    tide_status st = TIDE_OK;
    for (int i = 0; i < 3 && st == TIDE_OK; i++) st = b->o->stream_new(b->d, &b->s[i]);
    if (st == TIDE_OK) st = b->o->raw_alloc(b->d, TIDEI_MEM_DEVICE, MEMORY, &b->memory);
    if (st == TIDE_OK) st = b->o->event_new(b->d, &e);
    if (st == TIDE_OK) st = b->o->page_new(b->d, b->d->info.page_bytes, &p);
    for (unsigned i = 0; i < 40 && st == TIDE_OK; i++) {
        unsigned s = i % 3;
        tidei_copy c = {TIDEI_COPY_H2D, b->memory + i * 1000, (uintptr_t)host, sizeof host, NULL};
        st = b->o->event_wait(b->d, e, b->s[s]);
        if (st == TIDE_OK) st = b->o->copy(b->d, b->s[s], &c);
        if (st == TIDE_OK) st = b->o->publish(b->d, b->s[s], i + 1);
        if (st == TIDE_OK) st = launch_fn(b, s, nothing, host, 100, b->memory + i * 8, 8, TIDEI_READ);
        if (st == TIDE_OK) st = b->o->event_record(b->d, e, b->s[s]);
        b->o->completed(b->d, b->s[(i + 1) % 3]);
    }
    for (int i = 0; i < 3 && st == TIDE_OK; i++) st = b->o->stream_sync(b->d, b->s[i]);
    release_all(b, e, p);
    return st;
}

static void every_failed_allocation_is_an_error_and_no_leak(void **state) {
    (void)state;
    bool done = false;
    long n = 1;
    for (; !done; n++) {
        struct box *b = new_box();
        b->fail_at = n;
        tide_clear_error();
        tidei_device_params p = {.host_memory = 16 * TIDEI_MIB, .host_checker = true, .rt = &b->rt};
        tide_status st = tidei_host_open(&p, &b->d);
        if (st == TIDE_OK) {
            b->o = b->d->ops;
            st = run_program(b);
            assert_int_equal(tidei_host_checker_reports(b->d), 0);
            assert_int_equal(atomic_load(&((tidei_host *)b->d)->used), 0);
            b->d->ops->close(b->d);
        }
        if (st != TIDE_OK) assert_error(TIDE_E_HOST_NOMEM, "host memory");
        assert_int_equal(atomic_load(&b->allocations), 0);
        done = atomic_load(&b->asked) < n;
        if (done) assert_int_equal(st, TIDE_OK);
        pthread_mutex_destroy(&b->lock);
        free(b);
    }
    assert_true(n > 20);
}

/* ---- the queue ---- */

/* Whatever stands last in a full queue, there is room to wait for it: else what it copies could not be waited for. */
static void stand(const void *gate) {
    while (!atomic_load(*(atomic_int *const *)gate)) sched_yield();
}

static void waiting_needs_no_memory(void **state) {
    static const size_t sizes[] = {0, 8, 48, 100, 1000, 4000};
    char params[4000] = {0};
    (void)state;
    for (size_t i = 0; i < TIDEI_COUNT(sizes); i++) {
        struct box *b = open_box(false);
        atomic_int gate = 0, *at = &gate;
        tidei_devent *e;
        tide_status st = TIDE_OK;
        assert_ok(b->o->event_new(b->d, &e));
        assert_ok(launch_fn(b, 0, stand, &at, sizeof at, 0, 0, 0));
        atomic_store(&b->exhausted, true);
        while (st == TIDE_OK) st = launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0);
        assert_int_equal(st, TIDE_E_HOST_NOMEM);
        for (int k = 0; k < 3; k++) assert_ok(b->o->event_record(b->d, e, b->s[0]));
        assert_int_equal(launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0), TIDE_E_HOST_NOMEM);
        atomic_store(&gate, 1);
        assert_ok(b->o->stream_sync(b->d, b->s[0]));
        atomic_store(&b->exhausted, false);
        assert_ok(launch_fn(b, 0, nothing, params, sizes[i], 0, 0, 0));
        b->o->event_release(b->d, e);
        close_box(b);
    }
}

static void a_steady_stream_allocates_nothing(void **state) {
    (void)state;
    if (TIDEI_TSAN) skip(); /* there, pieces of the queue are not used again */
    struct box *b = open_box(false);
    char params[1000] = {0};
    for (int i = 0; i < 300; i++) {
        if (i % 16 == 0) finish(b, 0);
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    }
    long before = atomic_load(&b->asked);
    for (int i = 0; i < 3000; i++) {
        if (i % 16 == 0) finish(b, 0);
        assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    }
    assert_int_equal(atomic_load(&b->asked), before);
    atomic_int flag = 0;
    launch_spin(b, 0, &flag);
    for (int i = 0; i < 3000; i++) assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    long burst = atomic_load(&b->allocations);
    atomic_store(&flag, 1);
    finish(b, 0);
    for (int i = 0; i < 300; i++) assert_ok(launch_fn(b, 0, nothing, params, sizeof params, 0, 0, 0));
    assert_true(atomic_load(&b->allocations) < burst - 20); /* most of a burst's memory is given back */
    close_box(b);
}

struct sum_params {
    uint64_t *sum;
    unsigned char bytes[200];
};
static void sum_up(const void *p) {
    const struct sum_params *s = p;
    for (size_t i = 0; i < sizeof s->bytes; i++) *s->sum += s->bytes[i];
}

static void parameters_are_copied_at_the_call(void **state) {
    (void)state;
    struct box *b = open_box(false);
    uint64_t sum = 0, want = 0;
    atomic_int flag = 0;
    struct sum_params p = {.sum = &sum};
    launch_spin(b, 0, &flag);
    for (unsigned i = 0; i < 1000; i++) {
        memset(p.bytes, (int)(i % 251), sizeof p.bytes);
        want += (uint64_t)(i % 251) * sizeof p.bytes;
        assert_ok(launch_fn(b, 0, sum_up, &p, sizeof p, 0, 0, 0));
    }
    memset(p.bytes, 255, sizeof p.bytes);
    atomic_store(&flag, 1);
    finish(b, 0);
    assert_int_equal(sum, want);
    close_box(b);
}

static void signal_mask_of_worker(const void *p) {
    sigset_t *out = *(sigset_t *const *)p;
    pthread_sigmask(SIG_BLOCK, NULL, out);
}

static void workers_leave_signals_to_the_program(void **state) {
    (void)state;
    struct box *b = open_box(false);
    sigset_t mask, *at = &mask;
    assert_ok(launch_fn(b, 0, signal_mask_of_worker, &at, sizeof at, 0, 0, 0));
    finish(b, 0);
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGPROF) && sigismember(&mask, SIGCHLD));
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT)); /* ours is as it was */
    close_box(b);
}

int main(int argc, char **argv) {
#if TIDEI_TSAN
    if (argc > 1 && !strncmp(argv[1], "--race=", 7)) {
        race(!strcmp(argv[1], "--race=ordered"));
        return 0;
    }
#endif
    (void)argc;
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_wait_is_found_every_time),
        cmocka_unit_test(an_event_orders_every_time),
        cmocka_unit_test(a_report_names_what_and_where),
        cmocka_unit_test(copies_and_fills_are_checked),
        cmocka_unit_test(ranges_meet_where_they_overlap),
        cmocka_unit_test(chains_order_and_a_broken_link_is_found),
        cmocka_unit_test(an_event_stands_for_its_record_only),
        cmocka_unit_test(what_the_host_waited_for_orders_all_streams),
        cmocka_unit_test(a_completion_word_that_was_read_orders_what_it_covers),
        cmocka_unit_test(memory_given_back_too_early_is_found_and_forgotten),
        cmocka_unit_test(a_streams_number_may_be_used_again),
        cmocka_unit_test(random_programs_agree_with_a_slow_model),
        cmocka_unit_test(names_are_kept_past_the_work),
        cmocka_unit_test(thread_sanitizer_sees_a_missing_wait),
        cmocka_unit_test(a_lost_device_ends_waits_and_says_why),
        cmocka_unit_test(an_idle_device_can_be_lost_too),
        cmocka_unit_test(closing_with_work_queued_does_it),
        cmocka_unit_test(unmapped_addresses_fault),
        cmocka_unit_test(the_page_size_is_the_callers_wish),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(the_smallest_cgroup_limit_counts),
        cmocka_unit_test(a_forks_child_gives_back_without_waiting),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_no_leak),
        cmocka_unit_test(waiting_needs_no_memory),
        cmocka_unit_test(a_steady_stream_allocates_nothing),
        cmocka_unit_test(parameters_are_copied_at_the_call),
        cmocka_unit_test(workers_leave_signals_to_the_program),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
