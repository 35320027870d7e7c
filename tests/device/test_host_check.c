/* test_host_check.c: the host device's checker, alone, against a slow model, and beside
** ThreadSanitizer. */
#include <sys/wait.h>
#include <unistd.h>
#include "tests/device/host_box.h"

#define PTR(addr) ((void *)(uintptr_t)(addr))

/* ---- devices whose programs are wrong on purpose: ThreadSanitizer, which sees that too, looks
** away ---- */

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
    snprintf(want, sizeof want,
             "host:0: unordered access: get on stream 5 reads 10 bytes at 0x%llx, which put on "
             "stream 2 writes; no wait "
             "orders the two",
             (unsigned long long)b->memory + 100);
    assert_string_equal(b->line, want);
    /* against the reader, which came last */
    assert_ok(b->o->fill(b->d, b->s[6], b->memory + 100, "", 1, 10));
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
    assert_ok(
        b->o->copy(b->d, b->s[1], &(tidei_copy){TIDEI_COPY_D2H, (uintptr_t)host, a, 100, NULL}));
    assert_int_equal(reports(b), 1); /* read after write */
    assert_ok(
        b->o->copy(b->d, b->s[2], &(tidei_copy){TIDEI_COPY_H2D, a, (uintptr_t)host, 100, NULL}));
    assert_int_equal(reports(b), 2); /* write after write and read: one report */
    assert_ok(b->o->copy(b->d, b->s[3], &(tidei_copy){TIDEI_COPY_D2D, c, a + 5000, 100, NULL}));
    assert_int_equal(reports(b), 3); /* its source */
    assert_ok(b->o->copy(b->d, b->s[4], &(tidei_copy){TIDEI_COPY_D2D, c, c + 50000, 100, NULL}));
    assert_int_equal(reports(b), 4); /* its target */
    assert_ok(b->o->copy(b->d, b->s[5],
                         &(tidei_copy){TIDEI_COPY_H2D, c + 200000, (uintptr_t)host, 100000, NULL}));
    touch(b, 6, TIDEI_READ, c + 200000, 8);
    /* the end of a long copy tells the host nothing about the device */
    assert_int_equal(reports(b), 5);
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
    assert_non_null(strstr(
        b->line, "are given back, which put on stream 0 writes; the host did not wait for it"));
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
        /* the new one is not the old one, nor ordered after stream 6 */
        touch(b, 7, TIDEI_READ, b->memory, 64);
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

/* The model keeps, for each operation, the set of operations it is ordered after, and for each byte
** everyone who touched it since the last writer. */
enum { M_OPS = 120, M_STREAMS = 5, M_BYTES = 40, M_EVENTS = 3, M_PUBLISHES = 16, M_LENT = 4 };
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
    tidei_range lent[M_LENT];
    unsigned nlent;
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

static bool meets_lent(const struct model *m, const tidei_range *r) {
    for (unsigned i = 0; i < m->nlent; i++) {
        const tidei_range *x = &m->lent[i];
        if ((x->mode | r->mode) & TIDEI_WRITE && x->addr < r->addr + r->bytes &&
            r->addr < x->addr + x->bytes)
            return true;
    }
    return false;
}

/* The host begins to use a range, or ends. */
static void m_lend(struct model *m) {
    unsigned n;
    tidei_finding f;
    if (m->nlent && (m->nlent == M_LENT || below(m, 3))) {
        unsigned i = below(m, m->nlent);
        tidei_checker_unlend(m->c, &m->lent[i]);
        m->lent[i] = m->lent[--m->nlent];
        return;
    }
    tidei_range r = random_range(m);
    bool bad = false;
    for (size_t k = r.addr - 1000; k < r.addr - 1000 + r.bytes; k++) {
        bad |= !within(&m->writer[k], &m->host);
        bad |= r.mode & TIDEI_WRITE && !within(&m->readers[k], &m->host);
    }
    m->reports += bad;
    m->lent[m->nlent++] = r;
    assert_true(tidei_checker_lend(m->c, "the host", &r, &f, &n));
    assert_int_equal(n, bad);
    if (bad) assert_int_equal(f.stream, TIDEI_BY_HOST);
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
        bad = meets_lent(m, &r[i]);
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
                m_lend(m);
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
__attribute__((no_sanitize("thread"))) static void blind_write(const void *p) {
    **(volatile char *const *)p = 1;
}

static void race(bool ordered) {
    struct box *b = open_box(false);
    tidei_devent *e = new_event(b);
    void *at = PTR(b->memory);
    assert_ok(launch_fn(b, 0, blind_write, &at, sizeof at, b->memory, 64, TIDEI_WRITE));
    /* the first is long done, and its queue was used since: none of that orders the second */
    usleep(50000);
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
    };
    return cmocka_run_group_tests_name("host_check", tests, NULL, NULL);
}
