/* test_header.c: reports of death in every order, on every thread, twice, late, after close, in a
** forked child. */
#include "tests/support/runtime_half.h"
#include <errno.h>
#include <sys/wait.h>

static const tidei_layout vector = {.dtype = TIDE_F32, .ndim = 1, .shape = {4}, .strides = {1}};

static tidei_header *handle(tidei_runtime *rt, size_t bytes) {
    tidei_storage *st;
    assert_ok(tidei_storage_new(&rt->devs[0], bytes, rt->devs[0].stream0, "test", &st));
    tidei_header *h = tidei_header_new(rt, &tidei_thread_get(rt)->free_list, st, &vector);
    assert_non_null(h);
    h->home = &h->cell;
    h->cell.hidden = ~(uintptr_t)h;
    return h;
}

/* Without a thread-specific key nobody would hear of a thread's end: such a process cannot open a
** runtime. A child of its own, before anything of this process has opened one. */
static int open_without_keys(void) {
    tide_config c = {.struct_size = sizeof c, .device = "host", .collector = "refcount"};
    pthread_key_t last = 0, key;
    tide_runtime *rt;
    int error = 0;
    while (!(error = pthread_key_create(&key, NULL))) last = key;
    if (error != EAGAIN || tide_open(&c, &rt) != TIDE_E_HOST_NOMEM) return 1;
    if (!strstr(tide_error_last()->message, "thread-specific key")) return 2;
    pthread_key_delete(last);
    if (tide_open(&c, &rt) != TIDE_OK) return 3;
    tide_close(rt);
    return 0;
}
static void keys_may_run_out(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    if (!child) _exit(open_without_keys());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void one_report_frees(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 1000);
    (void)state;
    assert_ptr_equal(tidei_cell_header(&h->cell), h);
    assert_int_equal(tidei_drain(rt), 0);
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(atomic_load(&rt->devs[0].budget->live),
                     1000); /* a report frees nothing itself */
    assert_int_equal(tidei_drain(rt), 1000);
    assert_int_equal(atomic_load(&rt->devs[0].budget->live), 0);
    assert_int_equal(h->cell.hidden, 0);
    half_close(rt);
}

/* tide_free first: the memory goes, the header stays for the cell that still points to it. */
static void dead_then_gone(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 1000);
    uint64_t g = tidei_header_generation(h);
    (void)state;
    tidei_report(h, g, TIDEI_DEAD);
    tidei_report(h, g, TIDEI_DEAD);
    assert_int_equal(tidei_drain(rt), 1000);
    assert_true(h->cell.hidden != 0);
    tidei_report(h, g, TIDEI_DEAD);
    assert_int_equal(tidei_drain(rt), 0);
    tidei_report(h, g, TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(tidei_drain(rt), 0);
    assert_int_equal(h->cell.hidden, 0);
    assert_int_equal(atomic_load(&rt->deaths->headers), 0);
    half_close(rt);
}

/* A report that repeats an earlier life's must not touch the header's next life. */
static void late_reports_are_ignored(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 100), *again;
    uint64_t g = tidei_header_generation(h);
    (void)state;
    tidei_report(h, g, TIDEI_DEAD | TIDEI_GONE);
    tidei_drain(rt);
    again = handle(rt, 200);
    assert_ptr_equal(again, h); /* the free list is a stack */
    tidei_report(h, g, TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(tidei_drain(rt), 0);
    assert_int_equal(atomic_load(&rt->devs[0].budget->live), 200);
    tidei_report(again, tidei_header_generation(again), TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(tidei_drain(rt), 200);
    half_close(rt);
}

static void reports_after_close(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h[3];
    uint64_t g[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        h[i] = handle(rt, 100);
        g[i] = tidei_header_generation(h[i]);
    }
    tidei_deaths *q = rt->deaths;
    half_close(rt);
    for (int i = 0; i < 3; i++) assert_true(atomic_load(&h[i]->word) & TIDEI_DEAD);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 3; i++) tidei_report(h[i], g[i], TIDEI_DEAD | TIDEI_GONE);
    rt = half_open(NULL, TIDEI_MIB); /* finds them, and may take the queue over */
    assert_int_equal(atomic_load(&rt->deaths->headers), 0);
    assert_ptr_equal(rt->deaths, q);
    for (int i = 0; i < 3; i++) tidei_report(h[i], g[i], TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(tidei_drain(rt), 0);
    half_close(rt);
}

/* A report of a finalizer's thread that is between its two steps when the runtime closes: the close
** waits for the second. */
static void *second_step(void *p) {
    tidei_header *h = p;
    /* the close is there by now; if it is not, nothing is shown, and nothing fails */
    usleep(20000);
    h->next = atomic_load(&h->deaths->head);
    while (!atomic_compare_exchange_weak(&h->deaths->head, &h->next, h)) {}
    return NULL;
}
static void close_waits_for_a_report(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 100);
    tidei_deaths *q = rt->deaths;
    pthread_t other;
    (void)state;
    atomic_fetch_or(&h->word, TIDEI_DEAD | TIDEI_GONE | TIDEI_QUEUED);
    assert_int_equal(pthread_create(&other, NULL, second_step, h), 0);
    tidei_deaths_close(q); /* alone, so that what it left can be looked at */
    atomic_store(&q->rt, rt);
    assert_null(h->st);
    assert_int_equal(atomic_load(&q->headers), 0);
    pthread_join(other, NULL);
    half_close(rt);
}

/* A list of deaths is as many reports: of several runtimes, repeated, late, already queued; the
** callbacks come in its order. */
#define LISTED 40 /* more than a drain's batch */
static struct { unsigned n, at[LISTED]; } finished;
static void note_finishing(void *number) {
    finished.at[finished.n++] = (unsigned)(uintptr_t)number;
}
static void a_list_is_reported(void **state) {
    tidei_runtime *rt[2] = {half_open(NULL, TIDEI_MIB), half_open(NULL, TIDEI_MIB)};
    tidei_death list[LISTED + 2];
    (void)state;
    for (unsigned i = 0; i < LISTED; i++) { /* runs of three */
        tidei_header *h = handle(rt[i / 3 % 2], 100);
        h->notes = tidei_host_alloc(rt[i / 3 % 2], sizeof *h->notes);
        *h->notes = (tidei_death_note){.fn = note_finishing, .user = (void *)(uintptr_t)i};
        list[i] = (tidei_death){h, tidei_header_generation(h)};
    }
    list[LISTED] = list[5];
    list[LISTED + 1] = (tidei_death){list[7].header, list[7].generation - TIDEI_WORD_GENERATION};
    tidei_report(list[4].header, list[4].generation, TIDEI_DEAD);
    tidei_report_many(list, 0, TIDEI_DEAD | TIDEI_GONE);
    tidei_report_many(list, LISTED + 2, TIDEI_DEAD | TIDEI_GONE);
    size_t of_first = tidei_drain(rt[0]), of_second = tidei_drain(rt[1]);
    assert_int_equal(of_first + of_second, 100 * LISTED);
    assert_int_equal(finished.n, LISTED);
    unsigned first = finished.at[0];
    assert_int_equal(first, 0);
    for (unsigned k = 1; k < LISTED;
         k++) { /* of the first runtime, then of the second, whose 4 was queued before */
        unsigned i = finished.at[k], before = finished.at[k - 1];
        bool begins = i / 3 % 2 != before / 3 % 2;
        assert_true(begins ? i == 4 : i > before || before == 4);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&rt[i]->deaths->headers), 0);
        half_close(rt[i]);
    }
}

static tidei_runtime *in_callback;
static void collect_in_callback(void *unused) {
    (void)unused;
    tide_safepoint(in_callback->ref);
    if (tide_collect(in_callback->ref) != TIDE_OK) in_callback = NULL;
}

/* What a callback may call elsewhere, it may call from tide_close. */
static void callbacks_call_back_from_close(void **state) {
    (void)state;
    in_callback = test_open_rt(&(tide_config){.collector = "refcount"});
    tide_array *a = tide_empty(in_callback->ref, TIDE_U8, 0, NULL);
    assert_ok(tide_array_on_death(a, collect_in_callback, NULL));
    tide_close(in_callback->ref);
    assert_non_null(in_callback);
    tide_release(a);
}

/* A reader such as the out-of-memory report sees what a header holds while it lives, and
** nothing of a dead one. */
static void who_looks_on_sees_only_the_living(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 1000);
    tidei_layout lay;
    tidei_dev *d;
    size_t bytes;
    (void)state;
    assert_true(tidei_header_look(h, &d, &bytes, &lay));
    assert_ptr_equal(d, &rt->devs[0]);
    assert_int_equal(bytes, 1000);
    assert_int_equal(lay.shape[0], 4);
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD);
    tidei_drain(rt);
    assert_false(tidei_header_look(h, &d, &bytes, &lay));
    half_close(rt);
}

/* At debug level 1 dead headers stay out of use for a while, not for ever. */
static void quarantine_is_bounded(void **state) {
    tide_config c = {.struct_size = sizeof c, .debug = 1};
    tidei_runtime *rt = half_open(&c, TIDEI_MIB);
    tidei_header *first = handle(rt, 0), *h = NULL;
    (void)state;
    tidei_report(first, tidei_header_generation(first), TIDEI_DEAD | TIDEI_GONE);
    tidei_drain(rt);
    assert_true(first->cell.hidden != 0); /* a stale pointer is an error, not another array */
    int n = 0;
    while (h != first && n < 10000) {
        h = handle(rt, 0);
        tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
        tidei_drain(rt);
        n++;
    }
    assert_in_range(n, 1000, 9999);
    half_close(rt);
}

/* A header whose cell lies in a collector's heap is quarantined there. */
static void cells_elsewhere_free_their_handles(void **state) {
    tide_config c = {.struct_size = sizeof c, .debug = 1};
    tidei_runtime *rt = half_open(&c, TIDEI_MIB);
    tide_array cell;
    (void)state;
    tidei_header *h = handle(rt, 0);
    cell.hidden = h->cell.hidden;
    h->home = &cell;
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
    tidei_drain(rt);
    assert_ptr_equal(handle(rt, 0), h);
    half_close(rt);
}

/* Two runtimes that open at once do not both take the same queue. */
static void queues_are_claimed(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_deaths *q = rt->deaths;
    (void)state;
    half_close(rt);
    q->claimed = true; /* somebody else is about to */
    rt = half_open(NULL, TIDEI_MIB);
    assert_ptr_not_equal(rt->deaths, q);
    q->claimed = false;
    half_close(rt);
}

static void reports_in_a_forked_child(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    tidei_header *h = handle(rt, 100);
    int status = 0;
    (void)state;
    pid_t child = fork();
    if (!child) {
        tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
        bool ok =
            tidei_forked() && tidei_drain(rt) == 0 && tide_thread_attach(rt->ref) == TIDE_E_FORKED;
        alarm(120);
        ok = ok && tide_open(NULL, &(tide_runtime *){0}) == TIDE_E_FORKED &&
             strstr(tide_error_last()->message, "exec");
        tide_close(rt->ref); /* its device's threads are not here: nothing is waited for */
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(tidei_forked());
    tidei_report(h, tidei_header_generation(h), TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(tidei_drain(rt), 100);
    half_close(rt);
}

/* ---- callbacks ---- */

struct journal {
    tidei_runtime *rt;
    int n, order[16];
    size_t live[16];
};
struct entry {
    struct journal *j;
    int name;
};
static void write_entry(void *user) {
    struct entry *e = user;
    e->j->live[e->j->n] = atomic_load(&e->j->rt->devs[0].budget->live);
    e->j->order[e->j->n++] = e->name;
    assert_int_equal(tidei_drain(e->j->rt), 0); /* from inside itself it does nothing */
}
static void note(tidei_runtime *rt, tidei_header *h, struct entry *e) {
    tidei_death_note *n = tidei_host_alloc(rt, sizeof *n), **at = &h->notes;
    *n = (tidei_death_note){.fn = write_entry, .user = e};
    while (*at) at = &(*at)->next;
    *at = n;
}

/* In the order of the deaths, and of the attachments; once; with the memory already back. */
static void callbacks_run_in_drain(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    struct journal j = {.rt = rt};
    struct entry e[4] = {{&j, 0}, {&j, 1}, {&j, 2}, {&j, 3}};
    tidei_header *a = handle(rt, 100), *b = handle(rt, 10);
    (void)state;
    note(rt, a, &e[0]);
    note(rt, a, &e[1]);
    note(rt, b, &e[2]);
    tidei_report(b, tidei_header_generation(b), TIDEI_DEAD);
    tidei_report(a, tidei_header_generation(a), TIDEI_DEAD | TIDEI_GONE);
    tidei_report(b, tidei_header_generation(b), TIDEI_DEAD | TIDEI_GONE);
    assert_int_equal(j.n, 0);
    assert_int_equal(tidei_drain(rt), 110);
    assert_int_equal(j.n, 3);
    assert_int_equal(j.order[0], 2);
    assert_int_equal(j.order[1], 0);
    assert_int_equal(j.order[2], 1);
    assert_int_equal(j.live[0], 0);
    assert_int_equal(j.live[1], 0);
    a = handle(rt, 50); /* close runs what is left */
    note(rt, a, &e[3]);
    half_close(rt);
    assert_int_equal(j.n, 4);
}

/* ---- many threads report the same handles while others drain: each storage is freed once ---- */

#define HANDLES 400
struct crowd {
    tidei_runtime *rt;
    tidei_header *h[HANDLES];
    uint64_t g[HANDLES];
    unsigned seed;
};
static void *report_all(void *p) {
    struct crowd *c = p;
    unsigned r = atomic_fetch_add((_Atomic unsigned *)&c->seed, 77) | 1;
    for (int i = 0; i < 3 * HANDLES; i++) {
        r = r * 1664525u + 1013904223u;
        unsigned k = (r >> 8) % HANDLES;
        tidei_report(c->h[k], c->g[k], r & 1 ? TIDEI_DEAD : TIDEI_DEAD | TIDEI_GONE);
        if (i % 50 == 0) tidei_drain(c->rt);
    }
    return NULL;
}
static void a_crowd_reports(void **state) {
    tidei_runtime *rt = half_open(NULL, TIDEI_MIB);
    static struct crowd c;
    pthread_t t[4];
    (void)state;
    c.rt = rt;
    for (int i = 0; i < HANDLES; i++) {
        c.h[i] = handle(rt, 64);
        c.g[i] = tidei_header_generation(c.h[i]);
    }
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, report_all, &c);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < HANDLES; i++) tidei_report(c.h[i], c.g[i], TIDEI_DEAD | TIDEI_GONE);
    tidei_drain(rt);
    assert_int_equal(atomic_load(&rt->devs[0].budget->live), 0);
    tidei_pool_stats ps;
    rt->devs[0].pool->ops->stats(rt->devs[0].pool, &ps);
    assert_int_equal(ps.frees, HANDLES);
    assert_int_equal(atomic_load(&rt->deaths->headers), 0);
    half_close(rt);
}

/* ---- threads' records ---- */

static void *attach_and_leave(void *rt) {
    if (tide_thread_attach(rt) != TIDE_OK) return (void *)1;
    if (tide_thread_attach(rt) != TIDE_OK) return (void *)2;
    tide_thread_detach(rt);
    tide_thread_detach(rt);
    /* detached again when the thread ends */
    return tide_thread_attach(rt) == TIDE_OK ? NULL : (void *)3;
}
static void *use_both(void *p) {
    tidei_runtime **rts = p;
    for (int i = 0; i < 100; i++)
        if (!tide_stream_current(rts[i & 1]->ref)) return (void *)1;
    return NULL;
}
static void threads_come_and_go(void **state) {
    tidei_runtime *rt[2] = {half_open(NULL, TIDEI_MIB), half_open(NULL, TIDEI_MIB)};
    pthread_t t;
    void *result;
    (void)state;
    pthread_create(&t, NULL, attach_and_leave, rt[0]->ref);
    pthread_join(t, &result);
    assert_null(result);
    pthread_create(&t, NULL, use_both, rt);
    pthread_join(t, &result);
    assert_null(result);
    assert_ok(tide_thread_attach(rt[0]->ref));
    half_close(rt[0]);
    tidei_runtime *next =
        /* perhaps at the closed one's address: its record must not serve */
        half_open(NULL, TIDEI_MIB);
    tidei_thread *record = tidei_thread_get(next);
    assert_int_equal(record->serial, next->serial);
    half_close(next);
    half_close(rt[1]);
}

/* ---- a thread ends while its runtime closes ---- */

static struct {
    tidei_gc_ops ops;
    const tidei_gc_ops *real;
    atomic_int inside, closed, closed_early;
} ending;
static void slow_detach(tidei_runtime *rt, tidei_thread *t) {
    atomic_store(&ending.inside, 1);
    for (int i = 0; i < 50 && !atomic_load(&ending.closed); i++)
        usleep(1000); /* a close that does not wait comes now */
    atomic_store(&ending.closed_early, atomic_load(&ending.closed));
    if (!atomic_load(&ending.closed)) ending.real->thread_detach(rt, t);
}
static void note_close(tidei_runtime *rt) {
    atomic_store(&ending.closed, 1);
    ending.real->close(rt);
}
static void *attach_only(void *rt) { return tide_thread_attach(rt) == TIDE_OK ? NULL : (void *)1; }

static void close_waits_for_a_threads_end(void **state) {
    tidei_runtime *rt = test_open_rt(&(tide_config){.collector = "refcount"});
    pthread_t t;
    void *failed;
    (void)state;
    ending.real = rt->gc_ops;
    ending.ops = *rt->gc_ops;
    ending.ops.thread_detach = slow_detach;
    ending.ops.close = note_close;
    rt->gc_ops = &ending.ops;
    assert_int_equal(pthread_create(&t, NULL, attach_only, rt->ref), 0);
    while (!atomic_load(&ending.inside)) sched_yield();
    tide_close(rt->ref);
    pthread_join(t, &failed);
    assert_null(failed);
    assert_false(atomic_load(&ending.closed_early));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_may_run_out), /* the first one */
        cmocka_unit_test(who_looks_on_sees_only_the_living),
        cmocka_unit_test(one_report_frees),
        cmocka_unit_test(dead_then_gone),
        cmocka_unit_test(late_reports_are_ignored),
        cmocka_unit_test(a_list_is_reported),
        cmocka_unit_test(reports_after_close),
        cmocka_unit_test(reports_in_a_forked_child),
        cmocka_unit_test(callbacks_run_in_drain),
        cmocka_unit_test(a_crowd_reports),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(close_waits_for_a_threads_end),
        cmocka_unit_test(close_waits_for_a_report),
        cmocka_unit_test(callbacks_call_back_from_close),
        cmocka_unit_test(quarantine_is_bounded),
        cmocka_unit_test(cells_elsewhere_free_their_handles),
        cmocka_unit_test(queues_are_claimed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
