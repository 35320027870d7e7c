/* runtime_calls.c: calls of tide/base.h, tide/runtime.h and tide/device.h. */
#include "tests/calls/calls.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tide/device.h>

/* ---- tide/base.h ---- */

static void on_version(world *w) {
    calling(w, "tide_version()");
    const char *v = tide_version();
    if (strcmp(v, "0.1.0")) broken(w, "gives \"%s\"", v);
    done(w);
}

static void on_error_last(world *w) {
    calling(w, "tide_error_last()");
    const tide_error *e = tide_error_last();
    if (!e || !e->message || !e->operation) broken(w, "gives NULL");
    done(w);
}

static void on_error_clear(world *w) {
    calling(w, "tide_error_clear()");
    tide_error_clear();
    w->frame->before = *tide_error_last(); /* which is what it is for */
    *w->frame->before_text = 0;
    if (tide_error_last()->status != TIDE_OK) broken(w, "leaves an error");
    done(w);
}

static void on_status_name(world *w) {
    tide_status s = chance(w, 50) ? (tide_status)below(w, 42) : (tide_status)draw_int(w);
    calling(w, "tide_status_name(%d)", s);
    if (strncmp(tide_status_name(s),
                s == TIDE_OK    ? "TIDE_OK"
                : s == TIDE_END ? "TIDE_END"
                                : "TIDE_E_",
                7))
        broken(w, "gives \"%s\"", tide_status_name(s));
    done(w);
}

static void on_dtype_name(world *w) {
    tide_dtype t = chance(w, 50) ? (tide_dtype)below(w, TIDE_DTYPE_COUNT) : (tide_dtype)draw_int(w);
    bool is_one = t >= 0 && t < TIDE_DTYPE_COUNT;
    calling(w, "tide_dtype_name(%d)", t);
    if (is_one == (strcmp(tide_dtype_name(t), "?") == 0))
        broken(w, "gives \"%s\"", tide_dtype_name(t));
    done(w);
}

static void on_dtype_size(world *w) {
    tide_dtype t = chance(w, 50) ? (tide_dtype)below(w, TIDE_DTYPE_COUNT) : (tide_dtype)draw_int(w);
    bool is_one = t >= 0 && t < TIDE_DTYPE_COUNT;
    size_t n = tide_dtype_size(t);
    calling(w, "tide_dtype_size(%d)", t);
    if (is_one ? !n || n > 16 || n & (n - 1) : n != 0) broken(w, "gives %zu", n);
    done(w);
}

static void on_arg_array(world *w) {
    array *x = draw_array(w, ANY);
    calling(w, "tide_arg_array(%s)", x->name);
    tide_arg v = tide_arg_array(x->a);
    if (v.kind != TIDE_ARG_ARRAY || v.value.array != x->a) broken(w, "gives another argument");
    done(w);
}
static void on_arg_bool(world *w) {
    int64_t i = draw_int(w);
    calling(w, "tide_arg_bool(%d)", (int)i);
    tide_arg v = tide_arg_bool((int)i);
    if (v.kind != TIDE_ARG_BOOL || v.value.i != ((int)i != 0)) broken(w, "gives another argument");
    done(w);
}
static void on_arg_int(world *w) {
    int64_t i = draw_int(w);
    calling(w, "tide_arg_int(%" PRId64 ")", i);
    tide_arg v = tide_arg_int(i);
    if (v.kind != TIDE_ARG_INT || v.value.i != i) broken(w, "gives another argument");
    done(w);
}
static void on_arg_uint(world *w) {
    uint64_t u = (uint64_t)draw_int(w);
    calling(w, "tide_arg_uint(%" PRIu64 ")", u);
    tide_arg v = tide_arg_uint(u);
    if (v.kind != TIDE_ARG_UINT || v.value.u != u) broken(w, "gives another argument");
    done(w);
}
static void on_arg_float(world *w) {
    double d = draw_double(w);
    calling(w, "tide_arg_float(%.17g)", d);
    tide_arg v = tide_arg_float(d);
    if (v.kind != TIDE_ARG_FLOAT || memcmp(&v.value.f, &d, sizeof d))
        broken(w, "gives another argument");
    done(w);
}
static void on_arg_complex(world *w) {
    double c[2] = {draw_double(w), draw_double(w)};
    calling(w, "tide_arg_complex(%.17g, %.17g)", c[0], c[1]);
    tide_arg v = tide_arg_complex(c[0], c[1]);
    if (v.kind != TIDE_ARG_COMPLEX || memcmp(v.value.c, c, sizeof c))
        broken(w, "gives another argument");
    done(w);
}

/* ---- opening ---- */

static void *hook_alloc(void *user, size_t bytes) {
    runtime *r = user;
    long left = atomic_load(&r->host_fails);
    if (left > 0 && atomic_fetch_sub(&r->host_fails, 1) == 1) return NULL;
    void *p = malloc(bytes);
    if (p) atomic_fetch_add(&r->host_held, 1);
    return p;
}
static void hook_free(void *user, void *p) {
    runtime *r = user;
    if (p) atomic_fetch_sub(&r->host_held, 1);
    free(p);
}

/* On a thread of the library there is no world: the two functions are called as they are, now and
** then. */
static void ask_figures(runtime *r) {
    static _Atomic unsigned lines;
    char text[64];
    tide_runtime_figures s = {.struct_size = sizeof s};
    if (atomic_fetch_add(&lines, 1) % 8 || r->opening || !r->ref) return;
    (void)!tide_runtime_info(r->ref, &s);
    (void)tide_runtime_text(r->ref, text, sizeof text);
}

static void on_line(void *user, int level, const char *line) {
    runtime *r = user;
    world *w = r->w;
    if (level < TIDE_LOG_ERROR || level > TIDE_LOG_DEBUG || !line || !*line)
        broken(w, "logs no line");
    if (strstr(line, "order") && here == w) snprintf(w->last_log, sizeof w->last_log, "%s", line);
    if (here == w)
        wander(w, (int)(r - w->runtimes), FIGURES);
    else
        ask_figures(r);
}

static const char *bad_size(world *w) {
    return ONE_OF(w, const char *, "lots", "-1", "1e999GiB", "101%", "0x10", "", "12XB", "nan",
                  "99999999999999999999999999999999999999999999999999999999999999999999");
}

/* One field that no library takes. */
static void spoil(world *w, tide_config *c) {
    static const tide_allocator halves[] = {{hook_alloc, NULL, NULL}, {NULL, hook_free, NULL}};
    expect(w, TIDE_E_INVALID);
    may(w, TIDE_E_NODEVICE);
    may(w, TIDE_E_IO);
    c->struct_size = sizeof *c;
    switch (below(w, 26)) {
    case 0:
        c->struct_size = ONE_OF(w, size_t, 0, 1, 7, sizeof *c + 1, sizeof *c + 8, SIZE_MAX);
        break;
    case 1:
        c->device = ONE_OF(w, const char *, "gpu", "host:99", "cuda:900", "", "host:", "host:-1",
                           "host:0x");
        break;
    case 2: c->limit = bad_size(w); break;
    case 3: c->soft_limit = bad_size(w); break;
    case 4: c->collector = ONE_OF(w, const char *, "mark", "", "BOEHM"); break;
    case 5: c->policy = ONE_OF(w, const char *, "sometimes", "", "reserve(x0=2)"); break;
    case 6:
        c->pool = ONE_OF(w, const char *, "lake", "", "split:", "split:1KiB", "tide:1MiB");
        break;
    case 7: c->release_threshold = bad_size(w); break;
    case 8: c->deterministic = ONE_OF(w, int, 3, -1, INT32_MIN); break;
    case 9: c->host_device_memory = ONE_OF(w, const char *, "1", "65535", "50%", "lots"); break;
    case 10: c->host_devices = ONE_OF(w, int, 17, -1, INT32_MAX); break;
    case 11: c->log_level = ONE_OF(w, int, 5, -2, INT32_MAX, INT32_MIN); break;
    case 12: c->debug = ONE_OF(w, int, 3, -1, INT32_MIN); break;
    case 13: c->cache = 9; break;
    case 14: c->cache_dir = ONE_OF(w, const char *, "here", ""); break;
    case 15: c->cache_max = bad_size(w); break;
    case 16: c->allocator = &halves[below(w, 2)]; break;
    case 17:
        c->trace = ONE_OF(w, const char *, "/tmp/no/such/folder/run.csv", "run.txt", "", ".csv");
        break;
    case 18: c->debug_sample = ONE_OF(w, int, -1, INT32_MIN, 1000000001); break;
    case 19: c->default_memory = ONE_OF(w, const char *, "fast", "", "Pinned"); break;
    case 20: c->pinned_limit = bad_size(w); break;
    case 21: c->peers = ONE_OF(w, const char *, "0-", "some", "0-1,", "1", "0-99"); break;
    case 22: c->handle_cache = bad_size(w); break;
    case 23:
        c->collect_wait = ONE_OF(w, const char *, "", "soon", "-1ms", "3601s", "50", "1e9s");
        break;
    case 24: c->matmul_precision = ONE_OF(w, const char *, "", "exact", "High", "0"); break;
    case 25: c->host_threads = ONE_OF(w, int, -1, 1025, INT32_MIN); break;
    default: c->spill = ONE_OF(w, int, 3, -1); break;
    }
}

static const char *pool_name(world *w) {
    return ONE_OF(w, const char *, NULL, "tide", "tide", "none", "driver", "split", "binned",
                  "simple", "split:21MiB");
}

/* What an older caller, compiled when there were fewer fields, would say; the hook among them. */
static size_t older_size(world *w) {
    return ONE_OF(w, size_t, sizeof(tide_config), sizeof(tide_config), sizeof(tide_config),
                  offsetof(tide_config, trace), offsetof(tide_config, default_memory),
                  offsetof(tide_config, peers));
}

static void draw_config(world *w, runtime *r, tide_config *c) {
    static const size_t sizes[] = {1, 2, 2, 4, 8};
    r->memory = sizes[below(w, TIDEI_COUNT(sizes))] * TIDEI_MIB;
    r->devices = 1 + (int)below(w, 3);
    r->host = (tide_allocator){hook_alloc, hook_free, r};
#if defined(TIDEI_HAVE_BOEHM) && !defined(__SANITIZE_THREAD__)
    r->boehm = w->alone && chance(w, 25);
#endif
    *c = (tide_config){
        .struct_size = older_size(w),
        .device = r->devices > 1 ? ONE_OF(w, const char *, "host", "host:0", "host:1") : "host",
        .limit = ONE_OF(w, const char *, NULL, NULL, "75%", "100%", "900000", "1.5MiB"),
        .soft_limit = ONE_OF(w, const char *, NULL, NULL, "50%", "500KiB", "0"),
        .collector = r->boehm ? "boehm" : "refcount",
        .policy =
            ONE_OF(w, const char *, NULL, "reserve", "cudajl", "never", "priced(x0=0.2)", "sqrt"),
        .gc_early = (int)below(w, 3),
        .pool = pool_name(w),
        .release_threshold =
            ONE_OF(w, const char *, NULL, NULL, "0", "256KiB", "50%", "unlimited", "adaptive"),
        .deterministic = ONE_OF(w, int, TIDE_DEFAULT, TIDE_DEFAULT, TIDE_ON, TIDE_OFF),
        .host_device_memory = say(w, "%zu", r->memory),
        .host_devices = r->devices,
        .log_level = ONE_OF(w, int, TIDE_LOG_SILENT, 0, TIDE_LOG_ERROR, TIDE_LOG_WARNING,
                            TIDE_LOG_INFO, TIDE_LOG_DEBUG),
        .log = on_line,
        .log_user = r,
        .debug = ONE_OF(w, int, 0, 0, 0, 1, 1, 2),
        .cache = (int)below(w, 3),
        .cache_dir = say(w, "%s/cache", w->folder),
        .allocator = &r->host,
        .trace = chance(w, 6)
                     ? say(w, "%s/run.%s", w->folder, ONE_OF(w, const char *, "csv", "json"))
                     : NULL,
        .thread_streams = (int)below(w, 3),
        .debug_sample = ONE_OF(w, int, 0, 0, 0, 1, 3),
        .default_memory = ONE_OF(w, const char *, NULL, NULL, NULL, "device", "pinned", "unified"),
        .pinned_limit = ONE_OF(w, const char *, "1MiB", "2MiB", "4MiB"),
        .peers = ONE_OF(w, const char *, NULL, NULL, "all", "none", "0-1"),
        .handle_cache = ONE_OF(w, const char *, NULL, "0", "1MiB"),
        .spill = ONE_OF(w, int, TIDE_DEFAULT, TIDE_DEFAULT, TIDE_ON),
        .collect_wait = ONE_OF(w, const char *, NULL, "0", "200us", "1ms"),
        .matmul_precision = ONE_OF(w, const char *, NULL, NULL, "highest", "high", "medium"),
        .host_threads = ONE_OF(w, int, 0, 0, 1, 3),
    };
    r->checked = c->debug > 0;
}

static const char *say_config(world *w, const tide_config *c) {
#define NAMED(member) c->member ? say(w, "." #member " = %s, ", quote(w, c->member)) : ""
    const char *start = say(w, ".device = %s, %s%s%s", quote(w, c->device), NAMED(limit),
                            NAMED(soft_limit), NAMED(collector));
    const char *more = say(w, "%s%s%s%s", NAMED(policy), NAMED(pool), NAMED(release_threshold),
                           NAMED(host_device_memory));
    const char *rest =
        say(w, "%s%s%s%s", NAMED(default_memory), NAMED(pinned_limit), NAMED(peers), NAMED(trace));
    return say(w,
               "%zu, %s%s%s.gc_early = %d, .deterministic = %d, .host_devices = %d, .log_level = "
               "%d, .debug = %d, "
               ".thread_streams = %d, .debug_sample = %d, .spill = %d, .host_threads = %d",
               c->struct_size, start, more, rest, c->gc_early, c->deterministic, c->host_devices,
               c->log_level, c->debug, c->thread_streams, c->debug_sample, c->spill,
               c->host_threads);
}

static runtime *empty_place(world *w) {
    for (int i = 0; i < RUNTIMES; i++)
        if (!w->runtimes[i].ref && !w->runtimes[i].busy) return &w->runtimes[i];
    return NULL;
}

static void on_open(world *w) {
    tide_config c;
    tide_runtime *ref;
    runtime *r = empty_place(w);
    if (!r) run_named(w, "tide_close", NOBODY);
    if (!r) r = empty_place(w);
    runtime *to = r ? r : &w->odd_runtimes[0];
    draw_config(w, to, &c);
    bool spoiled = chance(w, 25), nowhere = !r || chance(w, 4);
    if (spoiled) spoil(w, &c);
    if (nowhere) expect(w, TIDE_E_INVALID);
    snprintf(to->name, sizeof to->name, "r%u", ++w->serial);
    calling(w, "tide_open(&(tide_config){%s}, %s)", say_config(w, &c), nowhere ? "NULL" : to->name);
    mark(&ref, sizeof ref);
    to->opening = true;
    to->host_fails = chance(w, 4) ? 1 + below(w, 40) : 0;
    tide_status s = tide_open(&c, nowhere ? NULL : &ref);
    to->host_fails = 0;
    if (s != TIDE_OK && (s != TIDE_E_INVALID || !nowhere)) marked(w, &ref, sizeof ref);
    if (gave(w, s)) to->ref = ref;
    to->opening = false;
    if (s != TIDE_OK && to->host_held)
        broken(w, "fails, and %ld pieces of host memory are held", to->host_held);
}

static void close_well(world *w, runtime *r) {
    int rt = (int)(r - w->runtimes);
    bool clean = chance(w, 60);
    if (clean)
        world_drop_all(w, rt);
    else
        world_give_moved(w, rt);
    if (clean) look_that_all_is_gone(w, r);
    calling(w, "tide_close(%s)", r->name);
    r->closing = true;
    tide_close(r->ref);
    done(w);
    runtime_closed(w, r);
}

static void on_close(world *w) {
    unsigned from = below(w, RUNTIMES);
    runtime *r = NULL;
    if (chance(w, 15)) {
        r = draw_runtime(w);
        if (r->valid) r = NULL;
    }
    for (unsigned i = 0; i < RUNTIMES && !r; i++) {
        runtime *x = &w->runtimes[(from + i) % RUNTIMES];
        if (x->ref && !x->shared && !x->busy) r = x;
    }
    if (r && r->ref && r >= w->runtimes && r < w->runtimes + RUNTIMES) return close_well(w, r);
    calling(w, "tide_close(%s)", r ? r->name : "NULL");
    w->frame->must_fail = false; /* NULL is legal */
    tide_close(r ? r->ref : NULL);
    done(w);
}

/* ---- texts ---- */

char *room(world *w) { return w->room[w->depth]; }

void judge_text(world *w, size_t n, const char *buf, size_t cap) {
    if (!told(w, n == 0) || !buf || cap == 0) return;
    size_t length = strnlen(room(w), cap);
    if (length != (n < cap ? n : cap - 1))
        broken(w, "says %zu characters, and wrote %zu into %zu", n, length, cap);
    marked(w, room(w) + cap, 64);
}

char *draw_buffer(world *w, size_t *cap) {
    *cap = ONE_OF(w, size_t, 0, 1, 2, 7, 63, 64, 500, 4096, ROOM);
    mark(room(w), *cap + 64);
    return *cap && !chance(w, 10) ? room(w) : NULL;
}

static void on_device_text(world *w) {
    runtime *r = draw_runtime(w);
    size_t cap;
    char *buf = draw_buffer(w, &cap);
    calling(w, "tide_device_text(%s, %s, %zu)", r->name, buf ? "buf" : "NULL", cap);
    judge_text(w, tide_device_text(r->ref, buf, cap), buf, cap);
}

static void on_runtime_text(world *w) {
    runtime *r = draw_runtime(w);
    size_t cap;
    char *buf = draw_buffer(w, &cap);
    calling(w, "tide_runtime_text(%s, %s, %zu)", r->name, buf ? "buf" : "NULL", cap);
    judge_text(w, tide_runtime_text(r->ref, buf, cap), buf, cap);
}

/* ---- figures and limits ---- */

/* Of a struct of `whole` bytes whose fields have eight: mostly that, or what an older caller
** had. */
size_t draw_struct_size(world *w, size_t whole, size_t least) {
    unsigned what = below(w, 100);
    if (what < 80) return whole;
    if (what < 92) return least + 8 * below(w, (unsigned)((whole - least) / 8) + 1);
    expect(w, TIDE_E_INVALID);
    return ONE_OF(w, size_t, 0, 1, 7, whole + 1, whole + 8, SIZE_MAX);
}

static void on_runtime_info(world *w) {
    runtime *r = draw_runtime(w);
    bool nowhere = chance(w, 3);
    tide_runtime_figures s;
    mark(&s, sizeof s);
    s.struct_size = draw_struct_size(w, sizeof s, sizeof(size_t));
    size_t size = s.struct_size;
    if (nowhere) expect(w, TIDE_E_INVALID);
    calling(w, "tide_runtime_info(%s, %s) /* struct_size %zu */", r->name, nowhere ? "NULL" : "&s",
            size);
    bool ok = gave(w, tide_runtime_info(r->ref, nowhere ? NULL : &s));
    if (s.struct_size != size) broken(w, "changes struct_size");
    size_t written = ok ? size : sizeof size;
    marked(w, (char *)&s + written, sizeof s - written);
}

static void on_runtime_reset_peaks(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_runtime_reset_peaks(%s)", r->name);
    tide_runtime_reset_peaks(r->ref);
    done(w);
}

static size_t draw_limit(world *w, const runtime *r) {
    if (chance(w, 50)) return SIZE_MAX;
    if (chance(w, 60)) return r->memory / 8 * (3 + below(w, 8));
    return draw_size(w);
}

static void on_device_set_limit(world *w) {
    runtime *r = draw_runtime(w);
    size_t n = draw_limit(w, r);
    calling(w, "tide_device_set_limit(%s, %zu)", r->name, n);
    (void)gave(w, tide_device_set_limit(r->ref, n));
}
static void on_device_set_soft_limit(world *w) {
    runtime *r = draw_runtime(w);
    size_t n = draw_limit(w, r);
    calling(w, "tide_device_set_soft_limit(%s, %zu)", r->name, n);
    (void)gave(w, tide_device_set_soft_limit(r->ref, n));
}
static void on_collect(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_collect(%s)", r->name);
    (void)gave(w, tide_collect(r->ref));
}

/* ---- streams ---- */

static void on_stream_new(world *w) {
    runtime *r = draw_runtime(w);
    tide_stream *s;
    bool nowhere = chance(w, 3);
    if (nowhere) expect(w, TIDE_E_INVALID);
    mark(&s, sizeof s);
    calling(w, "tide_stream_new(%s, %s)", r->name,
            nowhere ? "NULL" : say(w, "&s%u", w->serial + 1));
    if (gave(w, tide_stream_new(r->ref, nowhere ? NULL : &s)))
        world_thing(w, TIDEI_REF_STREAM, s, w->frame->rt)->device = tide_device_current(r->ref);
    else
        marked(w, &s, sizeof s);
}

static void on_stream_wrap(world *w) {
    runtime *r = draw_runtime(w);
    tide_stream *s;
    mark(&s, sizeof s);
    expect(w, TIDE_E_UNSUPPORTED);
    calling(w, "tide_stream_wrap(%s, NULL, &s)", r->name);
    (void)gave(w, tide_stream_wrap(r->ref, NULL, &s));
    marked(w, &s, sizeof s);
}

static void on_stream_release(world *w) {
    thing *s = draw_thing(w, TIDEI_REF_STREAM, ABSENT);
    w->frame->must_fail = w->frame->must_fail && s->ref;
    if (s->shared) s->valid = false;
    calling(w, "tide_stream_release(%s)", s->shared ? "NULL" : s->name);
    tide_stream_release(s->shared ? NULL : s->ref);
    done(w);
    if (s->valid) world_ended(s);
}

static void on_stream_current(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_stream_current(%s)", r->name);
    (void)told(w, !tide_stream_current(r->ref));
}

static void on_stream_set(world *w) {
    runtime *r = draw_runtime(w);
    thing *s = chance(w, 60) ? draw_thing(w, TIDEI_REF_STREAM, ABSENT) : NULL;
    calling(w, "tide_stream_set(%s, %s)", r->name, s ? s->name : "NULL");
    (void)gave(w, tide_stream_set(r->ref, s ? s->ref : NULL));
}

static void on_stream_native(world *w) {
    thing *s = draw_thing(w, TIDEI_REF_STREAM, 0);
    calling(w, "tide_stream_native(%s)", s->name);
    void *native = tide_stream_native(s->ref); /* NULL on the host, which is no failure */
    if (native) broken(w, "gives a native stream of a host device");
    if (s->valid)
        (void)told(w, false);
    else
        (void)told(w, true);
}

static void on_synchronize(world *w) {
    runtime *r = draw_runtime(w);
    thing *s = chance(w, 60) ? draw_thing(w, TIDEI_REF_STREAM, ABSENT) : NULL;
    calling(w, "tide_synchronize(%s, %s)", r->name, s ? s->name : "NULL");
    (void)gave(w, tide_synchronize(r->ref, s ? s->ref : NULL));
}

static void on_device_synchronize(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_device_synchronize(%s)", r->name);
    (void)gave(w, tide_device_synchronize(r->ref));
}

/* ---- use scopes ---- */

enum { USES = 66 };

static size_t draw_uses(world *w, tide_use *uses, array **of) {
    size_t n = below(w, 4), listed = 0;
    for (; listed < n; listed++) {
        of[listed] = draw_array(w, VAST);
        bool only_read = (of[listed]->in && of[listed]->in->common) || of[listed]->stretched;
        int mode = only_read ? TIDE_READ : draw_enum(w, TIDE_READ, TIDE_READ | TIDE_WRITE);
        uses[listed] = (tide_use){.array = of[listed]->a, .mode = mode};
    }
    if (!n || !chance(w, 3)) return n;
    n = 64 + below(w, 3); /* the same again and again */
    for (; listed < n; listed++) uses[listed] = uses[0], of[listed] = of[0];
    if (n > 64) expect(w, TIDE_E_INVALID);
    return n;
}

static void on_use_begin(world *w) {
    tide_use uses[USES];
    array *of[USES];
    void *ptrs[USES];
    tide_use_scope *scope;
    runtime *r = draw_runtime(w);
    thing *s = chance(w, 30) ? draw_thing(w, TIDEI_REF_STREAM, ABSENT) : NULL;
    size_t n = draw_uses(w, uses, of);
    unsigned missing = below(w, 60); /* 0 to 2: an argument */
    if (missing == 0 || (missing < 3 && n)) expect(w, TIDE_E_INVALID);
    if (missing == 2)
        w->frame->null_array = false; /* what is in a list that is absent is not seen */
    mark(&scope, sizeof scope);
    mark(ptrs, sizeof ptrs);
    calling(w, "tide_use_begin(%s, %s, (tide_use[]){{%s, %d}, ...}, %zu, %s, %s)", r->name,
            s ? s->name : "NULL", n ? of[0]->name : "", n ? uses[0].mode : 0, n,
            missing == 1 ? "NULL" : "ptrs", missing == 0 ? "NULL" : say(w, "&u%u", w->serial + 1));
    if (!gave(w, tide_use_begin(r->ref, s ? s->ref : NULL, missing == 2 ? NULL : uses, n,
                                missing == 1 ? NULL : ptrs, missing == 0 ? NULL : &scope))) {
        marked(w, &scope, sizeof scope);
        marked(w, ptrs, sizeof ptrs);
        return;
    }
    thing *t = world_thing(w, TIDEI_REF_SCOPE, scope, w->frame->rt);
    for (size_t i = 0; i < n && i < TIDEI_COUNT(t->frozen); i++) {
        world_freeze(t, of[i]);
        if (uses[i].mode & TIDE_WRITE) t->writable = true;
        if (!ptrs[i] && of[i]->size) broken(w, "lends no address for %s", of[i]->name);
        if (of[i]->size && !of[i]->in->unordered)
            t->lent = ptrs[i], t->may_write = uses[i].mode & TIDE_WRITE;
    }
}

static void on_use_end(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_SCOPE, 0);
    for (int i = 0; t->valid && i < THINGS; i++) /* in the order in which they began */
        if (w->things[i].ref && !w->things[i].over && w->things[i].rt == t->rt &&
            !w->things[i].busy && w->things[i].kind == TIDEI_REF_SCOPE &&
            is_oldest_scope(w, &w->things[i]))
            t = &w->things[i];
    calling(w, "tide_use_end(%s)", t->name);
    bool valid = t->valid;
    (void)gave(w, tide_use_end(t->ref));
    if (valid) world_ended(t);
}

/* Reads, and writes what was there. */
static void touch(void *arg) {
    volatile unsigned char *p = (volatile unsigned char *)((uintptr_t)arg & ~(uintptr_t)1);
    unsigned char c = *p;
    if ((uintptr_t)arg & 1) *p = c;
}
static void nothing(void *arg) { (void)arg; }

static void on_use_launch(world *w) {
    thing *t = draw_thing(w, TIDEI_REF_SCOPE, 0);
    bool none = chance(w, 3);
    uintptr_t at = (uintptr_t)t->lent;
    bool touches = at && !(at & 1); /* the lowest bit says whether to write */
    if (none) expect(w, TIDE_E_INVALID);
    calling(w, "tide_use_launch(%s, %s, arg)", t->name,
            none      ? "NULL"
            : touches ? "touch"
                      : "nothing");
    (void)gave(w, tide_use_launch(t->ref,
                                  none      ? NULL
                                  : touches ? touch
                                            : nothing,
                                  (void *)(at | (touches && t->may_write))));
}

/* ---- threads ---- */

static void on_thread_attach(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_thread_attach(%s)", r->name);
    (void)gave(w, tide_thread_attach(r->ref));
}

static void on_thread_detach(world *w) {
    runtime *r = draw_runtime(w);
    w->frame->must_fail = false;
    calling(w, "tide_thread_detach(%s)", r->name);
    if (r->valid) scopes_ended(w, w->frame->rt, 1);
    if (r->valid) r->scopes = 0;
    tide_thread_detach(r->ref);
    done(w);
}

/* ---- tide/device.h ---- */

static void on_device_count(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_device_count(%s)", r->name);
    int n = tide_device_count(r->ref);
    if (told(w, n < 0) && n != r->devices) broken(w, "counts %d devices of %d", n, r->devices);
}

static int draw_device(world *w, const runtime *r) {
    if (chance(w, 92)) return (int)below(w, r->devices ? (unsigned)r->devices : 1);
    int d = ONE_OF(w, int, -1, 3, 16, 32, INT32_MAX, INT32_MIN);
    if (d < 0 || d >= r->devices) expect(w, TIDE_E_NODEVICE);
    return d;
}

static void on_device_set(world *w) {
    runtime *r = draw_runtime(w);
    int d = draw_device(w, r);
    calling(w, "tide_device_set(%s, %d)", r->name, d);
    (void)gave(w, tide_device_set(r->ref, d));
}

static void on_device_current(world *w) {
    runtime *r = draw_runtime(w);
    calling(w, "tide_device_current(%s)", r->name);
    (void)told(w, tide_device_current(r->ref) < 0);
}

static void on_array_device(world *w) {
    array *x = draw_array(w, FROZEN | VAST);
    calling(w, "tide_array_device(%s)", x->name);
    int d = tide_array_device(x->a);
    if (told(w, d < 0) && d != x->device) broken(w, "gives %d, not %d", d, x->device);
}

static void on_device_reaches(world *w) {
    runtime *r = draw_runtime(w);
    int d = draw_device(w, r), owner = draw_device(w, r);
    calling(w, "tide_device_reaches(%s, %d, %d)", r->name, d, owner);
    int yes = tide_device_reaches(r->ref, d, owner);
    if (told(w, yes < 0) && (yes > 1 || (d == owner && !yes))) broken(w, "gives %d", yes);
}

const call runtime_calls[] = {
    ROW(version, NEVER_FAILS | FIGURES),
    ROW(error_last, NEVER_FAILS | DROPS),
    ROW(error_clear, NEVER_FAILS | OUTSIDE),
    ROW(status_name, NEVER_FAILS | DROPS),
    ROW(dtype_name, NEVER_FAILS | DROPS),
    ROW(dtype_size, NEVER_FAILS | DROPS),
    ROW(arg_array, NEVER_FAILS | DROPS),
    ROW(arg_bool, NEVER_FAILS | DROPS),
    ROW(arg_int, NEVER_FAILS | DROPS),
    ROW(arg_uint, NEVER_FAILS | DROPS),
    ROW(arg_float, NEVER_FAILS | DROPS),
    ROW(arg_complex, NEVER_FAILS | DROPS),
    ROW(open, OUTSIDE | MAY_NODEVICE),
    ROW(close, OUTSIDE),
    ROW(device_text, 0),
    ROW(runtime_text, FIGURES),
    ROW(runtime_info, FIGURES),
    ROW(runtime_reset_peaks, 0),
    ROW(device_set_limit, 0),
    ROW(device_set_soft_limit, 0),
    ROW(collect, 0),
    ROW(stream_new, 0),
    ROW(stream_wrap, NEVER_WORKS),
    ROW(stream_release, 0),
    ROW(stream_current, 0),
    ROW(stream_set, OUTSIDE),
    ROW(stream_native, 0),
    ROW(synchronize, 0),
    ROW(device_synchronize, 0),
    ROW(use_begin, 0),
    ROW(use_end, 0),
    ROW(use_launch, 0),
    ROW(thread_attach, 0),
    ROW(thread_detach, OUTSIDE),
    ROW(device_count, 0),
    ROW(device_set, OUTSIDE | MAY_NODEVICE),
    ROW(device_current, 0),
    ROW(array_device, 0),
    ROW(device_reaches, MAY_NODEVICE),
    LAST_ROW,
};
