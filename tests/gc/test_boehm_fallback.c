/* test_boehm_fallback.c: what the adapter to bdwgc does where its own way does not work: deaths are
** found by finalizers then, or later than they might be; what cannot be had is told. What it does
** to bdwgc holds for the process's life, so each case is a child. Linked with --wrap: calls of
** bdwgc's and of malloc's are refused where a case says so. What works is the batteries' over
** collectors (test_collector.c). */
#include <limits.h>
#include "gc/boehm.h"
#include "tests/support/tidetest.h"

/* The call that is refused, after `skip` more that are not; of malloc's, those of `bytes`. */
static struct {
    const char *call;
    unsigned skip;
    size_t bytes;
    bool always, refused; /* each time from then on; it was */
} refusal;
static bool refused(const char *call, size_t bytes) {
    if (!refusal.call || strcmp(refusal.call, call) != 0 ||
        (refusal.bytes && refusal.bytes != bytes))
        return false;
    if (refusal.skip) return refusal.skip--, false;
    if (refusal.refused && !refusal.always) return false;
    return refusal.refused = true;
}

void *__real_malloc(size_t n), *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes), *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t n) { return refused("malloc", n) ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t bytes) {
    return refused("calloc", bytes) ? NULL : __real_calloc(n, bytes);
}

#if TEST_BOEHM
#include "tests/support/child.h"
#include "tests/support/logged.h"
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc/gc_mark.h> /* and with it bdwgc's gc.h, which gc/gc.h of ours hides */

static void refuse(const char *call, unsigned skip, size_t bytes) {
    refusal.skip = skip;
    refusal.bytes = bytes;
    refusal.always = refusal.refused = false;
    refusal.call = call;
}

int __real_GC_expand_hp(size_t n), __wrap_GC_expand_hp(size_t n);
int __real_GC_get_stack_base(struct GC_stack_base *b),
    __wrap_GC_get_stack_base(struct GC_stack_base *b);
int __real_GC_register_my_thread(const struct GC_stack_base *b);
int __wrap_GC_register_my_thread(const struct GC_stack_base *b);
void *__real_GC_malloc_atomic(size_t n), *__wrap_GC_malloc_atomic(size_t n);
void *__real_GC_malloc_uncollectable(size_t n), *__wrap_GC_malloc_uncollectable(size_t n);
void __real_GC_set_on_collection_event(GC_on_collection_event_proc f);
void __wrap_GC_set_on_collection_event(GC_on_collection_event_proc f);
void __real_GC_register_finalizer_no_order(void *p, GC_finalization_proc f, void *data,
                                           GC_finalization_proc *old, void **old_data);
void __wrap_GC_register_finalizer_no_order(void *p, GC_finalization_proc f, void *data,
                                           GC_finalization_proc *old, void **old_data);

int __wrap_GC_expand_hp(size_t n) {
    return refused("GC_expand_hp", n) ? 0 : __real_GC_expand_hp(n);
}
int __wrap_GC_get_stack_base(struct GC_stack_base *b) {
    return refused("GC_get_stack_base", 0) ? GC_UNIMPLEMENTED : __real_GC_get_stack_base(b);
}
int __wrap_GC_register_my_thread(const struct GC_stack_base *b) {
    return refused("GC_register_my_thread", 0) ? GC_UNIMPLEMENTED : __real_GC_register_my_thread(b);
}
void *__wrap_GC_malloc_atomic(size_t n) {
    return refused("GC_malloc_atomic", n) ? NULL : __real_GC_malloc_atomic(n);
}
void *__wrap_GC_malloc_uncollectable(size_t n) {
    return refused("GC_malloc_uncollectable", n) ? NULL : __real_GC_malloc_uncollectable(n);
}
void __wrap_GC_set_on_collection_event(GC_on_collection_event_proc f) {
    if (!refused("GC_set_on_collection_event", 0)) __real_GC_set_on_collection_event(f);
}
/* Without memory bdwgc changes nothing, `old` neither. */
void __wrap_GC_register_finalizer_no_order(void *p, GC_finalization_proc f, void *data,
                                           GC_finalization_proc *old, void **old_data) {
    if (refusal.bytes || !refused("GC_register_finalizer_no_order", 0))
        __real_GC_register_finalizer_no_order(p, f, data, old, old_data);
}

enum { KEPT = 100, DROPPED = 500, STALE = 16 }; /* stale words may keep a few */
static tide_array *kept[KEPT];                  /* bdwgc scans it */
static tide_runtime *rt;

static tide_config config(int debug) {
    return (tide_config){.struct_size = sizeof(tide_config),
                         .device = "host",
                         .collector = "boehm",
                         .gc_early = TIDE_OFF,
                         .debug = debug,
                         .log_level = TIDE_LOG_WARNING,
                         .log = keep_line};
}
static void open_boehm(int debug) {
    tide_config c = config(debug);
    must(tide_open(&c, &rt) == TIDE_OK);
}
static size_t arrays(void) { return test_stats(rt).arrays; }

static __attribute__((noinline)) void make_kept(void) {
    for (int i = 0; i < KEPT; i++)
        must(kept[i] = tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(i)));
}
static __attribute__((noinline)) void make_dropped(unsigned n) {
    for (unsigned i = 0; i < n; i++) must(tide_zeros(rt, TIDE_U8, SHAPE(64)));
}
static __attribute__((noinline)) void clear_stack(void) {
    volatile char room[16384];
    memset((void *)room, 0, sizeof room);
    __asm__ __volatile__("" : : "r"(room) : "memory");
}
static void collect(void) {
    clear_stack();
    must(tide_collect(rt) == TIDE_OK);
}
static void kept_are_there(void) {
    for (int i = 0; i < KEPT; i++) must(tide_item_f64(kept[i]) == i);
}

/* ---- the collection event does not come ---- */

static void dies_by_finalizers(void) {
    make_kept();
    make_dropped(DROPPED);
    collect();
    must(arrays() >= KEPT && arrays() <= KEPT + STALE);
    kept_are_there();
    must(tidei_boehm_watched() == 0); /* not by us */
    for (int i = 0; i < KEPT; i++) kept[i] = NULL;
    collect();
    must(arrays() <= STALE);
}
static void from_the_start(void) {
    refuse("GC_set_on_collection_event", 0, 0);
    open_boehm(0);
    must(tidei_boehm_by_finalizers());
    must(lines_with(TIDE_LOG_WARNING, "dead arrays are found by finalizers from now on") == 1);
    dies_by_finalizers();
    tide_close(rt);
    open_boehm(0); /* another runtime of the process has the same way, and is told nothing new */
    dies_by_finalizers();
    must(lines_with(TIDE_LOG_WARNING, "finalizers") == 1);
    tide_close(rt);
}
/* The host's finalizers run when the host says so: ours run then too, or with a collection of
** ours. */
static void on_demand(void) {
    GC_INIT();
    GC_set_finalize_on_demand(1);
    refuse("GC_set_on_collection_event", 0, 0);
    open_boehm(0);
    dies_by_finalizers();
    tide_close(rt);
}

static void GC_CALLBACK hosts_event(GC_EventType event) { (void)event; }
static void later(int debug) {
    open_boehm(debug);
    must(!tidei_boehm_by_finalizers());
    make_kept();
    make_dropped(DROPPED);
    /* a host that takes it without calling the earlier one */
    GC_set_on_collection_event(hosts_event);
    collect(); /* which finds out, and moves what was watched */
    must(tidei_boehm_by_finalizers());
    must(lines_with(TIDE_LOG_WARNING, "the collection event does not reach us") == 1);
    collect();
    must(arrays() >= KEPT && arrays() <= KEPT + STALE);
    kept_are_there();
    dies_by_finalizers();
    tide_close(rt);
}
static void changed_later(void) { later(0); }
static void changed_later_with_a_quarantine(void) { later(1); }

/* An allocation finds it out too: nothing need be collected by us. */
static void found_by_an_allocation(void) {
    open_boehm(0);
    make_kept();
    GC_set_on_collection_event(hosts_event);
    GC_gcollect();
    make_dropped(1);
    must(tidei_boehm_by_finalizers());
    kept_are_there();
    tide_close(rt);
}

/* One collection goes unseen, of which bdwgc has already given the cells to others; the next one is
** seen. */
static void one_is_missed(void) {
    open_boehm(0);
    make_kept();
    make_dropped(DROPPED);
    GC_on_collection_event_proc ours = GC_get_on_collection_event();
    GC_set_on_collection_event(hosts_event);
    clear_stack();
    GC_gcollect();
    for (int i = 0; i < 10 * DROPPED; i++) must(GC_MALLOC_ATOMIC(16)); /* sweeps, and reuses */
    GC_set_on_collection_event(ours);
    collect();
    must(!tidei_boehm_by_finalizers()); /* the test passes */
    must(arrays() >= KEPT && arrays() <= KEPT + STALE);
    kept_are_there();
    tide_close(rt);
}

/* Whoever looked at collections before us still does. */
static unsigned events;
static void GC_CALLBACK count_event(GC_EventType event) {
    events += event == GC_EVENT_RECLAIM_START;
}
static void the_earlier_callback_is_called(void) {
    GC_INIT();
    GC_set_on_collection_event(count_event);
    open_boehm(0);
    unsigned before = events;
    collect();
    must(events > before);
    tide_close(rt);
}

/* ---- memory is short ---- */

/* boehm.c's */
enum { CELL_BYTES = sizeof(tide_array), ENTRY_BYTES = 24, CHUNK_BYTES = 16 + 4096 * ENTRY_BYTES };

/* The request that is refused is an array's, and nothing stays of it. */
static void makes_none(void) {
    size_t before = arrays(), live = test_stats(rt).live;
    must(tide_zeros(rt, TIDE_U8, SHAPE(64)) == NULL);
    must_fail(tide_error_last()->status, TIDE_E_HOST_NOMEM, "host memory is exhausted");
    must(refusal.refused && arrays() == before && test_stats(rt).live == live);
}

/* While the change to finalizers finds no memory nothing changes, and the next collection tries
** again. */
static void the_change_finds_no_memory(void) {
    static const struct {
        const char *call;
        unsigned skip;
        size_t bytes;
        bool then; /* it changes all the same */
    } cases[] = {
        {"GC_malloc_uncollectable", 0, 0, false}, /* the self-test's */
        {"GC_malloc_uncollectable", 2, 0, false}, /* the cells' */
        {"calloc", 0, sizeof(void *), false},     /* the records' */
        {"malloc", 0, ENTRY_BYTES, false},        /* a record's: the first one, ... */
        {"malloc", 50, ENTRY_BYTES, false},       /* ... and in the midst of them */
        {"GC_malloc_uncollectable", 1, 0, true},  /* bdwgc's table grows later then */
    };
    open_boehm(0);
    make_kept();
    make_dropped(DROPPED);
    GC_set_on_collection_event(hosts_event);
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        refuse(cases[i].call, cases[i].skip, cases[i].bytes);
        collect();
        must(refusal.refused && tidei_boehm_by_finalizers() == cases[i].then);
        must(arrays() == KEPT + DROPPED || cases[i].then); /* nobody has seen them die */
        kept_are_there();
    }
    refuse(NULL, 0, 0);
    must(lines_with(TIDE_LOG_WARNING, "finalizers") == 1);
    collect();
    must(arrays() >= KEPT && arrays() <= KEPT + STALE);
    kept_are_there();
    tide_close(rt);
}
static void probes_find_no_memory(void) {
    open_boehm(0);
    make_kept();
    make_dropped(DROPPED);
    GC_set_on_collection_event(hosts_event);
    refuse("GC_malloc_atomic", 0, CELL_BYTES);
    refusal.always = true;
    collect();
    must(refusal.refused && !tidei_boehm_by_finalizers()); /* nothing is known */
    refuse(NULL, 0, 0);
    collect();
    must(tidei_boehm_by_finalizers());
    kept_are_there();
    tide_close(rt);
}

/* With finalizers, what an array's takes. */
static void no_memory_for_a_finalizer(void) {
    refuse("GC_set_on_collection_event", 0, 0);
    open_boehm(0);
    make_kept();
    refuse("malloc", 0, ENTRY_BYTES);
    makes_none();
    refuse("GC_register_finalizer_no_order", 0, 0);
    makes_none();
    refuse(NULL, 0, 0);
    kept_are_there();
    dies_by_finalizers();
    tide_close(rt);
}

static void no_memory_to_retain(void) {
    open_boehm(0);
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(64));
    refuse("GC_malloc_uncollectable", 0, 0);
    must(tide_retain(a) == NULL);
    must_fail(tide_error_last()->status, TIDE_E_HOST_NOMEM, "host memory is exhausted");
    must(refusal.refused);
    must(tide_retain(a) == a);
    tide_release(a);
    tide_close(rt);
}

/* What fails at the first opening leaves the next one everything to do. */
static void open_finds_no_memory(void) {
    static const struct {
        const char *call;
        size_t bytes;
    } cases[] = {{"GC_malloc_uncollectable", 0}, {"GC_expand_hp", 0}};
    tide_config c = config(0);
    size_t n = 0;
    while (environ[n]) n++;
    must(unsetenv("GC_RETRY_SIGNALS") == 0);
    refuse("malloc", 0, (n + 2) * sizeof *environ);
    must_fail(tide_open(&c, &rt), TIDE_E_HOST_NOMEM, "host memory is exhausted");
    must(refusal.refused);
    for (unsigned i = 0; i < TIDEI_COUNT(cases); i++) {
        refuse(cases[i].call, 0, cases[i].bytes);
        must_fail(tide_open(&c, &rt), TIDE_E_HOST_NOMEM, "host memory is exhausted");
        must(refusal.refused);
    }
    open_boehm(0);
    make_kept();
    make_dropped(DROPPED);
    collect();
    must(arrays() >= KEPT && arrays() <= KEPT + STALE);
    kept_are_there();
    tide_close(rt);
}

/* ---- threads that bdwgc does not know ---- */

static tide_status status_there;
static char message_there[400];
static void *attach_there(void *unused) {
    status_there = rt ? tide_thread_attach(rt) : TIDE_E_CLOSED;
    snprintf(message_there, sizeof message_there, "%s", tide_error_last()->message);
    if (status_there == TIDE_OK) tide_thread_detach(rt);
    return unused;
}
static void *open_there(void *unused) {
    tide_config c = config(0);
    status_there = tide_open(&c, &rt);
    snprintf(message_there, sizeof message_there, "%s", tide_error_last()->message);
    if (status_there == TIDE_OK) tide_close(rt);
    return unused;
}
static void in_thread(void *(*fn)(void *)) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, fn, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
}
static void a_stack_that_is_not_found(void) {
    static const char *const calls[] = {"GC_get_stack_base", "GC_register_my_thread"};
    open_boehm(0);
    for (unsigned i = 0; i < TIDEI_COUNT(calls); i++) {
        refuse(calls[i], 0, 0);
        in_thread(attach_there);
        must(refusal.refused && status_there == TIDE_E_UNSUPPORTED);
        must(strstr(message_there, "bdwgc does not accept this thread"));
        in_thread(attach_there);
        must(status_there == TIDE_OK);
    }
    make_kept();
    collect();
    kept_are_there();
    tide_close(rt);
}
static void open_where_the_stack_is_not_found(void) {
    refuse("GC_get_stack_base", 0, 0);
    in_thread(open_there);
    must(refusal.refused && status_there == TIDE_E_UNSUPPORTED);
    must(strstr(message_there,
                "open the runtime in the main thread, or with the collector \"refcount\""));
    in_thread(open_there);
    must(status_there == TIDE_OK);
}

/* ---- the table ---- */

static void no_memory_for_the_table(void) {
    open_boehm(0);
    refuse("malloc", 0, CHUNK_BYTES);
    makes_none();
    refuse("GC_malloc_atomic", 0, CELL_BYTES);
    makes_none();
    make_kept();
    kept_are_there();
    tide_close(rt);
}

/* Many chunks of it, most of which go back; what is kept moves to its beginning. */
static tide_array *often[20000];
static __attribute__((noinline)) void make_often(void) {
    tide_array *x = tide_full(rt, TIDE_I64, SHAPE(1), tide_arg_int(7));
    must(x);
    for (unsigned i = 0; i < TIDEI_COUNT(often); i++) must(often[i] = tide_expand_dims(x, 0));
}
static void large_table(void) {
    open_boehm(0);
    make_often();
    for (unsigned i = 0; i < TIDEI_COUNT(often); i++)
        if (i % 3) often[i] = NULL;
    collect();
    const size_t left = (TIDEI_COUNT(often) + 2) / 3;
    must(tidei_boehm_watched() >= left && tidei_boehm_watched() <= left + STALE + 1);
    for (unsigned i = 0; i < TIDEI_COUNT(often); i += 3) must(tide_item_f64(often[i]) == 7);
    memset(often, 0, sizeof often);
    collect();
    must(tidei_boehm_watched() <= STALE);
    make_often(); /* what went back is made again */
    must(tidei_boehm_watched() >= TIDEI_COUNT(often));
    tide_close(rt);
}

/* At debug level 1 a dead cell is nobody else's for a while: who kept its address where nobody
** looks is told. */
static uintptr_t hidden;
static __attribute__((noinline)) void hide_one(void) {
    tide_array *a = tide_zeros(rt, TIDE_U8, SHAPE(64));
    must(a);
    hidden = ~(uintptr_t)a;
}
static void use_of_the_dead(void) {
    int64_t size = 0;
    open_boehm(1);
    for (int tries = 0; tries < 20; tries++) { /* a stale word may keep one */
        hide_one();
        collect();
        must(tide_scope_begin(rt) == TIDE_OK);
        tide_array *there = tide_scope_keep((tide_array *)~hidden);
        must(tide_scope_end(rt) == TIDE_OK);
        if (!there) {
            must_fail(tide_error_last()->status, TIDE_E_FREED, "freed");
            size = 1;
            break;
        }
    }
    must(size == 1);
    tide_close(rt);
}

/* ---- what the host has decided ---- */

static void the_host_forbids_collections(void) {
    open_boehm(0);
    make_dropped(DROPPED);
    uint64_t before = test_stats(rt).collections;
    GC_disable();
    collect();
    must(test_stats(rt).collections == before && arrays() == DROPPED);
    GC_enable();
    collect();
    must(test_stats(rt).collections == before + 1 && arrays() <= STALE);
    tide_close(rt);
}

static void no_key_is_left(void) {
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    unsigned n = 0;
    tide_config c = config(0);
    GC_INIT(); /* bdwgc may want one of its own */
    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], NULL) == 0) n++;
    must(n > 0);
    rt = NULL;
    must_fail(tide_open(&c, &rt), TIDE_E_HOST_NOMEM, "key");
    must(rt == NULL);
    while (n) pthread_key_delete(keys[--n]);
    open_boehm(0);
    make_dropped(DROPPED);
    collect();
    must(arrays() <= STALE);
    tide_close(rt);
}

/* How long bdwgc waits for a thread is the user's choice, if there is one. */
static void signals_are_sent_again(void) {
    must(setenv("GC_RETRY_SIGNALS", "1", 1) == 0);
    char **before = environ;
    open_boehm(0);
    must(environ == before && strcmp(getenv("GC_RETRY_SIGNALS"), "1") == 0);
    make_dropped(DROPPED);
    collect();
    must(arrays() <= STALE);
    tide_close(rt);
}
static void signals_are_sent_once(void) {
    must(unsetenv("GC_RETRY_SIGNALS") == 0);
    char **before = environ;
    open_boehm(0);
    must(environ == before && !getenv("GC_RETRY_SIGNALS")); /* as it was */
    tide_close(rt);
}

#define CHILD(name)                                                                                \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        test_needs_children();                                                                     \
        in_child(name);                                                                            \
    }
#else
#define CHILD(name)                                                                                \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        skip();                                                                                    \
    }
#endif

#define EACH(X)                                                                                    \
    X(from_the_start)                                                                              \
    X(on_demand)                                                                                   \
    X(changed_later)                                                                               \
    X(changed_later_with_a_quarantine)                                                             \
    X(found_by_an_allocation)                                                                      \
    X(one_is_missed)                                                                               \
    X(the_earlier_callback_is_called)                                                              \
    X(the_change_finds_no_memory)                                                                  \
    X(probes_find_no_memory)                                                                       \
    X(no_memory_for_a_finalizer)                                                                   \
    X(no_memory_to_retain)                                                                         \
    X(open_finds_no_memory)                                                                        \
    X(a_stack_that_is_not_found)                                                                   \
    X(open_where_the_stack_is_not_found)                                                           \
    X(no_memory_for_the_table)                                                                     \
    X(large_table)                                                                                 \
    X(use_of_the_dead)                                                                             \
    X(the_host_forbids_collections)                                                                \
    X(no_key_is_left)                                                                              \
    X(signals_are_sent_again)                                                                      \
    X(signals_are_sent_once)
EACH(CHILD)

int main(void) {
    const struct CMUnitTest tests[] = {
#define RUN(name) cmocka_unit_test(test_##name),
        EACH(RUN)
#undef RUN
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
