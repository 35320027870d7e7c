/* boehm.c: the adapter to bdwgc, one for the process: cells in its heap, and how their deaths are
** found.
**
** A cell is a pointer-free object of bdwgc's heap that holds the inverted address of its header
** (runtime/memory/header.h). bdwgc's finalizers would tell when it dies, at 30 to 60 ns an array
** and collection and with full collections forced whenever their table grows; so the adapter keeps
** a table of its own, of inverted cell addresses in malloc memory. In bdwgc's event RECLAIM_START
** it asks GC_is_marked for each of them (our "sweep"): marking is over then, threads run again, the
** allocator lock is held, and bdwgc has not swept anything yet.
** What must stay true: the table changes under the allocator lock only; the sweep allocates and
** locks nothing; a cell is in the table before its maker returns, so the table knows every live
** cell. A cell made between mark and sweep is marked (it came from a thread's own free list) or
** waits for the lock.
**
** That the event comes at this point follows from bdwgc's source, not from its contract, and the
** host may take the event's one slot. So a test with 64 cells (probes) runs at the start and
** whenever a collection ended without our sweep. If the test fails, no_order finalizers find the
** deaths from then on, and their table is grown in advance. When they run is the host's choice
** (ours may run anywhere); if it chose "on demand", our collections run them.
**
** bdwgc stops threads by signals: stoppable.h says which threads cannot be stopped so, and
** init_patient how long bdwgc waits.
**
** Process-wide hooks: the collection event (the earlier callback is called after ours), the
** static-roots filter (one slot without a getter: a host that wants its own installs it after
** tide_open and asks tide_collector_is_device_library), java finalization on, registration of
** threads allowed, the heap grown once. They stay until the process ends. For users they are listed
** in docs/boehm.md. */
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include "gc/boehm.h"
#include "gc/collector.h"
#include "gc/roots.h"
#include "gc/stoppable.h"
#include "runtime/runtime.h"
#include "runtime/base/uncancelled.h"
#include <gc.h>
#include <gc/gc_mark.h>
#include <stdlib.h>
#include <unistd.h>

#define CELL_BYTES sizeof(tide_array)
#define CHUNK      4096 /* entries: 96 KiB, one malloc for so many arrays */
/* room for 260,000 cells (16 bytes each) between automatic collections (measured) */
#define HEAP_BYTES  (4 * TIDEI_MIB)
#define PROBES      64
#define PROBE_KEEP  4  /* every 4th probe stays reachable */
#define PROBE_FOUND 40 /* of the 48 dropped ones; a stale word on the stack may keep a few */
/* finalizers; their table grows by forced collections beyond (measured: 14 us an array) */
#define PREGROWN   65536
#define QUARANTINE 4096 /* dead cells kept out of use at debug level 1 */

tidei_boehm_switches tidei_boehm_test;

typedef struct entry {
    uintptr_t hidden; /* ~cell */
    tidei_header *h;
    uint64_t generation; /* its lowest bit says: quarantine the cell */
} entry;

typedef struct chunk {
    struct chunk *next;
    size_t n;
    entry at[CHUNK];
} chunk;

/* Chunks before `fill` are full, those after it empty. Under the allocator lock. */
static struct {
    chunk *first, *fill;
    size_t n;
} table;

static struct {
    /* installation and the change to finalizers; taken before the allocator lock */
    pthread_mutex_t lock;
    bool installed;
    bool scan_all;           /* fixed then: no data is left out of the roots */
    bool testing;            /* under lock */
    _Atomic bool tested;     /* the sweep was seen to work, or is not used */
    _Atomic bool finalizers; /* instead of the sweep */
    _Atomic uint64_t swept;  /* GC_get_gc_no() at the last sweep */
    GC_on_collection_event_proc earlier;
    pthread_key_t at_exit;
    /* under the allocator lock */
    size_t root_bytes;
    void *first_root;
    tide_array **quarantine; /* a ring in scanned memory */
    size_t quarantined;
    unsigned probing; /* probes at work */
    uintptr_t probe[PROBES];
    bool probe_dead[PROBES];
} boehm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    unsigned uses;
    bool ours;    /* registered by us */
    bool blocked; /* inside GC_do_blocking */
} self;

/* ---- deaths ---- */

/* Keeps the dead cell's memory out of use for a while. The caller holds the allocator lock, or the
** cell is still reachable. A caller that uses the array now finds no header and gets an error. */
static void quarantine(tide_array *cell) {
    cell->hidden = 0;
    boehm.quarantine[boehm.quarantined++ % QUARANTINE] = cell;
}

static void report(const entry *e) {
    tidei_report(e->h, e->generation & ~(uint64_t)TIDEI_WORD_FLAGS, TIDEI_DEAD | TIDEI_GONE);
}

/* After a collection that we did not see, a dead cell's memory may have been given to others, or
** back. */
static bool still_a_cell(const entry *e) {
    tide_array *cell = (tide_array *)~e->hidden;
    return GC_base(cell) == cell && cell->hidden == ~(uintptr_t)e->h;
}

/* Deaths that a sweep has found. They are reported together, so that their headers are fetched into
** the processor's cache in advance. */
typedef struct findings {
    size_t n;
    tidei_death at[32];
} findings;

static void report_findings(findings *f) {
    tidei_report_many(f->at, f->n, TIDEI_DEAD | TIDEI_GONE);
    f->n = 0;
}

static void add_finding(findings *f, const entry *e) {
    __builtin_prefetch(e->h, 1);
    f->at[f->n++] = (tidei_death){e->h, e->generation & ~(uint64_t)TIDEI_WORD_FLAGS};
    if (f->n == TIDEI_COUNT(f->at)) report_findings(f);
}

static bool survived(const entry *e, bool missed, findings *f) {
    if (missed && !still_a_cell(e)) {
        add_finding(f, e);
        return false;
    }
    if (tidei_likely(GC_is_marked((void *)~e->hidden))) return true;
    add_finding(f, e);
    if (e->generation & 1) {
        GC_set_mark_bit((void *)~e->hidden);
        quarantine((tide_array *)~e->hidden);
    }
    return false;
}

static void sweep_table(bool missed) {
    chunk *to = table.first;
    size_t to_n = 0, kept = 0;
    findings f = {0};
    for (chunk *c = table.first; c; c = c->next) {
        size_t n = c->n; /* `to` may be c itself */
        c->n = 0;
        for (size_t i = 0; i < n; i++) {
            if (!survived(&c->at[i], missed, &f)) continue;
            if (to_n == CHUNK) {
                to->n = to_n;
                to = to->next;
                to_n = 0;
            }
            to->at[to_n++] = c->at[i];
            kept++;
        }
        if (c == table.fill) break;
    }
    report_findings(&f);
    if (to) to->n = to_n;
    table.fill = to;
    table.n = kept;
}

static void sweep_probes(void) {
    for (unsigned i = 0; i < boehm.probing; i++)
        if (!boehm.probe_dead[i]) boehm.probe_dead[i] = !GC_is_marked((void *)~boehm.probe[i]);
}

static void GC_CALLBACK on_event(GC_EventType event) {
    if (event == GC_EVENT_RECLAIM_START) {
        uint64_t no = GC_get_gc_no();
        sweep_table(no != atomic_load_explicit(&boehm.swept, memory_order_relaxed) + 1);
        sweep_probes();
        atomic_store_explicit(&boehm.swept, no, memory_order_relaxed);
    }
    if (boehm.earlier) boehm.earlier(event);
}

/* ---- the table ---- */

static bool append_locked(const entry *e, bool *begins_chunk) {
    if (table.fill && table.fill->n == CHUNK && table.fill->next) table.fill = table.fill->next;
    if (!table.fill || table.fill->n == CHUNK) return false;
    *begins_chunk = table.fill->n == 0;
    table.fill->at[table.fill->n++] = *e;
    table.n++;
    return true;
}

static void link_locked(chunk *c) {
    chunk **end = &table.first;
    while (*end) end = &(*end)->next;
    *end = c;
    if (!table.fill) table.fill = c;
}

typedef enum { WATCHED, WATCH_NO_MEMORY, WATCH_BY_FINALIZER } watch_result;

/* Enters the cell, growing the table outside the lock. With each chunk that begins we look whether
** all threads can be stopped: bdwgc may collect of its own accord. */
static watch_result watch(const entry *e) {
    bool begins_chunk = false;
    for (chunk *more = NULL;;) {
        GC_alloc_lock();
        bool by_finalizer = atomic_load_explicit(&boehm.finalizers, memory_order_relaxed);
        bool done = !by_finalizer && append_locked(e, &begins_chunk);
        if (!done && !by_finalizer && more) {
            link_locked(more);
            more = NULL;
            done = append_locked(e, &begins_chunk);
        }
        GC_alloc_unlock();
        if (done || by_finalizer) {
            free(more); /* another thread made room meanwhile */
            if (tidei_unlikely(begins_chunk))
                tidei_stoppable(atomic_load(&e->h->deaths->rt), false);
            return done ? WATCHED : WATCH_BY_FINALIZER;
        }
        if (!more && !(more = malloc(sizeof *more))) return WATCH_NO_MEMORY;
        more->next = NULL;
        more->n = 0;
    }
}

/* Frees the empty chunks but one. */
static void shrink(void) {
    GC_alloc_lock();
    chunk *kept = table.fill ? table.fill->next : NULL, *rest = kept ? kept->next : NULL;
    if (kept) kept->next = NULL;
    GC_alloc_unlock();
    while (rest) {
        chunk *next = rest->next;
        free(rest);
        rest = next;
    }
}

size_t tidei_boehm_watched(void) {
    GC_alloc_lock();
    size_t n = table.n;
    GC_alloc_unlock();
    return n;
}

size_t tidei_boehm_heap_bytes(void) { return GC_get_heap_size(); }

/* ---- finalizers: the fallback ---- */

static void GC_CALLBACK on_finalize(void *cell, void *data) {
    entry *e = data;
    report(e);
    if (e->generation & 1) {
        GC_alloc_lock();
        quarantine(cell);
        GC_alloc_unlock();
    }
    free(e);
}

/* Takes `data` over if it returns true; false: no memory for bdwgc's table. */
static bool register_finalizer(tide_array *cell, entry *data) {
    GC_finalization_proc old = on_finalize; /* stays if the registration fails */
    void *old_data;
    GC_register_finalizer_no_order(cell, on_finalize, data, &old, &old_data);
    return old != on_finalize;
}

static bool watch_by_finalizer(const entry *e) {
    entry *data = malloc(sizeof *data);
    if (!data) return false;
    *data = *e;
    if (register_finalizer((tide_array *)~e->hidden, data)) return true;
    free(data);
    return false;
}

static void GC_CALLBACK on_dummy(void *object, void *data) { (void)object, (void)data; }

/* Registers finalizers and takes them back, so that bdwgc's table grows now, and not by forced
** collections later. */
static void pregrow_finalizers(void) {
    void **dummies = GC_MALLOC_UNCOLLECTABLE(PREGROWN * sizeof *dummies);
    if (!dummies) return;
    GC_disable();
    size_t n = 0;
    while (n < PREGROWN && (dummies[n] = GC_MALLOC_ATOMIC(CELL_BYTES)))
        GC_register_finalizer_no_order(dummies[n++], on_dummy, NULL, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        GC_register_finalizer_no_order(dummies[i], NULL, NULL, NULL, NULL);
    GC_enable();
    GC_FREE(dummies);
    /* arrays are few and their weight is the policy's business */
    GC_set_allocd_bytes_per_finalizer(0);
}

/* Writes the table's cells into `cells`, as pointers that keep them reachable; NULL for cells that
** are dead and gone. */
static size_t reveal_locked(tide_array **cells, entry **records, size_t cap) {
    size_t n = 0;
    for (chunk *c = table.first; c; c = c->next)
        for (size_t i = 0; i < c->n; i++) {
            if (n == cap) return SIZE_MAX;
            *records[n] = c->at[i];
            cells[n++] = still_a_cell(&c->at[i]) ? (tide_array *)~c->at[i].hidden : NULL;
        }
    return n;
}

static void free_records(entry **records, size_t n) {
    for (size_t i = 0; records && i < n; i++) free(records[i]);
    free(records);
}

static entry **make_records(size_t n) {
    entry **records = calloc(n, sizeof *records);
    for (size_t i = 0; records && i < n; i++)
        if (!(records[i] = malloc(sizeof(entry)))) {
            free_records(records, i);
            return NULL;
        }
    return records;
}

static chunk *take_table_locked(void) {
    chunk *c = table.first;
    table.first = table.fill = NULL;
    table.n = 0;
    return c;
}

/* Moves what the table watches to finalizers; false when host memory is exhausted (nothing has
** changed then). */
static bool change_to_finalizers(void) {
    for (;;) {
        size_t cap = tidei_boehm_watched() + 64, n; /* others may add some meanwhile */
        tide_array **cells = GC_MALLOC_UNCOLLECTABLE(cap * sizeof *cells);
        entry **records = make_records(cap);
        if (!cells || !records) {
            if (cells) GC_FREE(cells);
            free_records(records, cap);
            return false;
        }
        GC_alloc_lock();
        n = reveal_locked(cells, records, cap);
        chunk *old = NULL;
        if (n != SIZE_MAX) {
            old = take_table_locked();
            atomic_store(&boehm.finalizers, true);
        }
        GC_alloc_unlock();
        for (size_t i = 0; n != SIZE_MAX && i < n; i++) {
            if (!cells[i])
                report(records[i]);
            else if (register_finalizer(cells[i], records[i]))
                records[i] = NULL;
        }
        GC_FREE(cells);
        free_records(records, cap);
        for (chunk *next; old; old = next) {
            next = old->next;
            free(old);
        }
        if (n != SIZE_MAX) return true;
    }
}

bool tidei_boehm_by_finalizers(void) { return atomic_load(&boehm.finalizers); }

/* ---- the self-test ---- */

static __attribute__((noinline)) bool make_probes(void **kept) {
    for (unsigned i = 0; i < PROBES; i++) {
        void *p = GC_MALLOC_ATOMIC(CELL_BYTES);
        if (!p) return false;
        boehm.probe[i] = ~(uintptr_t)p;
        if (i % PROBE_KEEP == 0) kept[i / PROBE_KEEP] = p;
    }
    return true;
}

static bool probes_agree(void) {
    unsigned found = 0;
    bool wrong = false;
    for (unsigned i = 0; i < PROBES; i++) {
        found += boehm.probe_dead[i];
        wrong |= boehm.probe_dead[i] && i % PROBE_KEEP == 0;
    }
    return !wrong && found >= PROBE_FOUND;
}

typedef enum { TEST_PASSED, TEST_FAILED, TEST_IMPOSSIBLE } test_result;

/* Makes the probes and judges them by one collection. If another collection came between, or no
** probe could be made, the result is TEST_IMPOSSIBLE. */
static test_result test_once(void **kept) {
    uint64_t before = GC_get_gc_no();
    memset(boehm.probe_dead, 0, sizeof boehm.probe_dead);
    if (!make_probes(kept)) return TEST_IMPOSSIBLE;
    tidei_clear_stack(); /* where make_probes has been */
    GC_alloc_lock();
    bool fresh = GC_get_gc_no() == before;
    boehm.probing = fresh ? PROBES : 0;
    GC_alloc_unlock();
    if (fresh) GC_gcollect();
    GC_alloc_lock();
    bool judged = boehm.probing && GC_get_gc_no() != before;
    boehm.probing = 0;
    GC_alloc_unlock();
    return !judged ? TEST_IMPOSSIBLE : probes_agree() ? TEST_PASSED : TEST_FAILED;
}

static test_result self_test(void) {
    test_result r = TEST_IMPOSSIBLE;
    if (!tidei_stoppable(NULL, true)) return TEST_IMPOSSIBLE;
    void **kept = GC_MALLOC_UNCOLLECTABLE(PROBES / PROBE_KEEP * sizeof *kept);
    for (int tries = 0; kept && tries < 3 && r == TEST_IMPOSSIBLE; tries++) r = test_once(kept);
    if (kept) GC_FREE(kept);
    return r;
}

/* Tests whether our sweep sees what a collection finds, and changes to finalizers if it does not. A
** test that could not be made is made again at the next collection. No lock is held meanwhile: a
** collection may run the host's finalizers. */
static void test_sweeps(tidei_runtime *rt) {
    pthread_mutex_lock(&boehm.lock);
    bool mine = !boehm.testing && !atomic_load(&boehm.finalizers);
    if (mine) boehm.testing = true;
    pthread_mutex_unlock(&boehm.lock);
    if (!mine) return;
    test_result r = self_test();
    bool changed = r == TEST_FAILED;
    if (changed) {
        pregrow_finalizers();
        changed = change_to_finalizers();
    }
    pthread_mutex_lock(&boehm.lock);
    boehm.testing = false;
    atomic_store(&boehm.tested, r == TEST_PASSED || changed);
    pthread_mutex_unlock(&boehm.lock);
    if (changed && rt)
        tidei_log(rt, TIDE_LOG_WARNING,
                  "boehm: the collection event does not reach us; dead arrays are found by "
                  "finalizers from now on");
}

/* True once a collection has ended without our sweep. Between mark and sweep the numbers differ
** too, so the caller looks again under the allocator lock. */
static bool missed_a_sweep(void) {
    if (atomic_load_explicit(&boehm.finalizers, memory_order_relaxed)) return false;
    if (tidei_likely(GC_get_gc_no() == atomic_load_explicit(&boehm.swept, memory_order_relaxed)))
        return false;
    GC_alloc_lock();
    bool missed = GC_get_gc_no() != atomic_load_explicit(&boehm.swept, memory_order_relaxed);
    GC_alloc_unlock();
    return missed;
}

/* ---- static roots ---- */

/* A bdwgc that was built to serve malloc collects malloc's memory too. Then any library's data may
** hold the only pointer to such memory; our data hold the pointers to the slabs of headers. */
static bool collects_malloc(void) {
    void *p = malloc(CELL_BYTES);
    bool collects = p && GC_base(p);
    free(p);
    return collects;
}

/* bdwgc calls it for every writable segment before every mark, under the allocator lock. The first
** segment of the process begins a new count of bytes. */
static int GC_CALLBACK has_static_roots(const char *name, void *start, size_t bytes) {
    if (!boehm.first_root) boehm.first_root = start;
    if (start == boehm.first_root) boehm.root_bytes = 0;
    if (!boehm.scan_all &&
        !atomic_load_explicit(&tidei_boehm_test.scan_device_libraries, memory_order_relaxed) &&
        tidei_has_no_roots(name))
        return 0;
    boehm.root_bytes += bytes;
    return 1;
}

size_t tidei_boehm_root_bytes(void) {
    GC_alloc_lock();
    size_t n = boehm.root_bytes;
    GC_alloc_unlock();
    return n;
}

/* ---- threads ---- */

static void unregister(void) {
    if (self.ours && GC_thread_is_registered()) GC_unregister_my_thread();
    self.ours = false;
}

static void thread_ends(void *p) {
    (void)p;
    if (tidei_forked()) return;
    TIDEI_UNCANCELLED;
    unregister();
    tidei_stoppable_leave();
    self.uses = 0;
}

static tide_status register_thread(void) {
    struct GC_stack_base base;
    if (GC_get_stack_base(&base) != GC_SUCCESS || GC_register_my_thread(&base) != GC_SUCCESS)
        return tidei_fail(TIDE_E_UNSUPPORTED, "tide_thread_attach",
                          "bdwgc does not accept this thread: its stack cannot be found");
    self.ours = true;
    pthread_setspecific(boehm.at_exit, &self);
    return TIDE_OK;
}

tide_status tidei_boehm_enter(void) {
    TIDEI_UNCANCELLED;
    tide_status status = tidei_stoppable_check("tide_thread_attach");
    if (status == TIDE_OK && !GC_thread_is_registered()) status = register_thread();
    if (status != TIDE_OK) return status;
    if (self.uses++ == 0) tidei_stoppable_enter();
    return TIDE_OK;
}

void tidei_boehm_leave(void) {
    TIDEI_UNCANCELLED;
    if (!self.uses || --self.uses) return;
    unregister();
    tidei_stoppable_leave();
}

struct blocking {
    void (*fn)(void *arg);
    void *arg;
};
static void *GC_CALLBACK run_blocking(void *p) {
    struct blocking *b = p;
    b->fn(b->arg);
    return NULL;
}

void tidei_boehm_blocking(void *unused, void (*fn)(void *arg), void *arg) {
    struct blocking b = {fn, arg};
    (void)unused;
    if (self.blocked || !GC_thread_is_registered()) {
        fn(arg);
        return;
    }
    self.blocked = true;
    tidei_stoppable_blocking(true);
    GC_do_blocking(run_blocking, &b);
    tidei_stoppable_blocking(false);
    self.blocked = false;
}

/* ---- installation ---- */

/* Left to itself bdwgc waits 15 s for a thread to stop, sends its signal again every 0.1 s, and
** then ends the process: because a thread got no processor, or waited in the kernel for a file. On
** Linux no signal is lost, so nothing is gained by that; and beside two threads that are busy on
** two processors a collection takes 40 ms so, and 2 ms without the second signals. Only an
** environment variable, read as bdwgc is initialised, tells it to wait for as long as it takes. So
** meanwhile `environ` points to a copy with this entry. A thread that reads the environment then
** finds either. A thread that changes it (which nobody may while tide_open reads it) changes the
** copy, which is never freed. */
static bool init_patient(void) {
    static char entry_text[] = "GC_RETRY_SIGNALS=0";
    static char **lent; /* stays: others may still read it */
    char **before = environ;
    size_t n = 0;
    while (before && before[n]) n++;
    bool chosen = getenv("GC_RETRY_SIGNALS") != NULL; /* by the user */
    if (!chosen && !(lent = malloc((n + 2) * sizeof *lent))) return false;
    if (!chosen) {
        if (n) memcpy(lent, before, n * sizeof *lent);
        lent[n] = entry_text;
        lent[n + 1] = NULL;
        environ = lent;
    }
    GC_INIT();
    if (!chosen && environ == lent) environ = before;
    return true;
}

/* bdwgc takes the thread that initialises it for the main one; elsewhere it must be told where this
** stack begins. */
static tide_status init_collector(void) {
    struct GC_stack_base base;
    if (GC_is_init_called()) return TIDE_OK;
    if (getpid() != gettid()) {
        if (GC_get_stack_base(&base) != GC_SUCCESS)
            return tidei_fail(TIDE_E_UNSUPPORTED, "tide_open",
                              "bdwgc cannot find this thread's stack; open the runtime in the main "
                              "thread, or with "
                              "the collector \"refcount\"");
        GC_set_stackbottom(NULL, &base);
        self.ours = true;
    }
    /* Waking a marker on each of many processors takes longer than marking what we have: a heap of
    ** cells without pointers. A host with a heap of its own initialises bdwgc itself; GC_MARKERS in
    ** the environment is obeyed too. */
    GC_set_markers_count(1);
    return init_patient() ? TIDE_OK : tidei_fail_host_memory("tide_open", sizeof(char *));
}

/* The thread stays entered if it succeeds. */
static tide_status install_locked(void) {
    /* Before bdwgc is initialised: that would unblock the signal on this thread. */
    tide_status status = tidei_stoppable_check("tide_open");
    if (status == TIDE_OK) status = init_collector();
    if (status != TIDE_OK) return status;
    if (pthread_key_create(&boehm.at_exit, thread_ends))
        return tidei_fail(TIDE_E_HOST_NOMEM, "tide_open",
                          "the process has no thread-specific key left");
    if (self.ours) pthread_setspecific(boehm.at_exit, &self);
    GC_allow_register_threads();
    /* what follows allocates, and the host may have initialised bdwgc elsewhere */
    status = tidei_boehm_enter();
    if (status == TIDE_OK) {
        boehm.quarantine = GC_MALLOC_UNCOLLECTABLE(QUARANTINE * sizeof *boehm.quarantine);
        if (!boehm.quarantine || !GC_expand_hp(HEAP_BYTES)) {
            status = tidei_fail_host_memory("tide_open", HEAP_BYTES);
            tidei_boehm_leave();
        }
    }
    if (status != TIDE_OK) {
        pthread_key_delete(boehm.at_exit);
        return status;
    }
    /* what an unreachable object refers to stays valid for its finalizer */
    GC_set_java_finalization(1);
    boehm.scan_all = collects_malloc();
    GC_register_has_static_roots_callback(has_static_roots);
    boehm.earlier = GC_get_on_collection_event();
    atomic_store(&boehm.swept, GC_get_gc_no());
    GC_set_on_collection_event(on_event);
    boehm.installed = true;
    return TIDE_OK;
}

tide_status tidei_boehm_open(tidei_runtime *rt) {
    pthread_mutex_lock(&boehm.lock);
    bool first = !boehm.installed;
    tide_status status = first ? install_locked() : TIDE_OK;
    pthread_mutex_unlock(&boehm.lock);
    if (status != TIDE_OK || !first) return status;
    test_sweeps(rt);
    tidei_boehm_leave();
    return TIDE_OK;
}

void tidei_boehm_close(void) { tidei_stoppable_review(); }

/* ---- cells ---- */

tide_status tidei_boehm_cell(tidei_header *h, bool quarantined) {
    TIDEI_UNCANCELLED; /* an allocation may collect, and run the host's finalizers */
    if (tidei_unlikely(missed_a_sweep())) test_sweeps(atomic_load(&h->deaths->rt));
    tide_array *cell = GC_MALLOC_ATOMIC(CELL_BYTES);
    if (!cell) return tidei_fail_host_memory("tide_array", CELL_BYTES);
    cell->hidden = ~(uintptr_t)h;
    entry e = {~(uintptr_t)cell, h, tidei_header_generation(h) | quarantined};
    watch_result r = watch(&e);
    if (r == WATCH_BY_FINALIZER && watch_by_finalizer(&e)) r = WATCHED;
    if (r != WATCHED) {
        GC_FREE(cell);
        return tidei_fail_host_memory("tide_array",
                                      r == WATCH_NO_MEMORY ? sizeof(chunk) : sizeof(entry));
    }
    atomic_store_explicit(&h->refs, 0, memory_order_relaxed);
    h->home = cell;
    tidei_keep(cell);
    return TIDE_OK;
}

/* The first reference roots the cell by a word that bdwgc scans and never collects; when the last
** reference goes, so does that word. Steps between 0 and 1 are made under the allocator lock, so
** that root and count agree; others need no lock. */
static bool step(_Atomic uint32_t *refs, uint32_t least, uint32_t most, int by) {
    uint32_t n = atomic_load_explicit(refs, memory_order_relaxed);
    while (n >= least && n <= most)
        if (atomic_compare_exchange_weak_explicit(refs, &n, n + (uint32_t)by, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    return false;
}
static bool add_one(tidei_header *h) { return step(&h->refs, 1, UINT32_MAX - 1, 1); }
static bool take_one(tidei_header *h) { return step(&h->refs, 2, UINT32_MAX, -1); }

tide_status tidei_boehm_retain(tidei_header *h) {
    if (add_one(h)) return TIDE_OK;
    TIDEI_UNCANCELLED;
    if (tidei_forked())
        return tidei_fail(TIDE_E_FORKED, "tide_retain", "this process is a fork's child");
    tide_array **root = GC_MALLOC_UNCOLLECTABLE(sizeof *root);
    if (!root) return tidei_fail_host_memory("tide_retain", sizeof *root);
    *root = h->home;
    GC_alloc_lock();
    bool rooted = step(&h->refs, 0, 0, 1), done = rooted || add_one(h);
    if (rooted) h->root = root;
    GC_alloc_unlock();
    if (!rooted) GC_FREE(root); /* another thread was first */
    return done
               ? TIDE_OK
               : tidei_fail(TIDE_E_INVALID, "tide_retain", "the array has been retained too often");
}

tide_status tidei_boehm_release(tidei_header *h) {
    if (take_one(h) || tidei_forked()) return TIDE_OK;
    TIDEI_UNCANCELLED;
    void *root = NULL;
    GC_alloc_lock();
    bool last = step(&h->refs, 1, 1, -1), done = last || take_one(h);
    if (last) {
        root = h->root;
        h->root = NULL;
    }
    GC_alloc_unlock();
    if (root) GC_FREE(root);
    return done ? TIDE_OK
                : tidei_fail(TIDE_E_INVALID, "tide_release",
                             "the array was not retained; its collector looks after it (tide_free "
                             "ends it early)");
}

/* ---- collecting ---- */

int tidei_boehm_may_collect(void *rt) { return tidei_stoppable(rt, true) && !GC_is_disabled(); }

bool tidei_boehm_held_off(void) { return tidei_stoppable_held_off(); }

static bool collect_once(void) {
    uint64_t before = GC_get_gc_no();
    GC_gcollect();
    if (atomic_load(&boehm.finalizers) && GC_should_invoke_finalizers()) GC_invoke_finalizers();
    return GC_get_gc_no() != before;
}

int tidei_boehm_collect(void *rt, int level) {
    if (level != TIDE_COLLECT_FULL) return TIDE_COLLECT_UNSUPPORTED;
    if (!collect_once()) return TIDE_COLLECT_BUSY;
    if (tidei_unlikely(missed_a_sweep() || !atomic_load(&boehm.tested))) {
        test_sweeps(rt);
        collect_once();
    }
    shrink();
    return TIDE_COLLECT_DONE;
}
