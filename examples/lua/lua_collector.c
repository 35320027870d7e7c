/* lua_collector.c: a Lua state as a collector: its runtimes, when it collects, on which thread.
**
** Model. Each runtime that a state opens has the state registered as a bound collector. A full
** collection runs inside a call of the library's, in that call's coroutine and under pcall, so that
** no error leaves through the library. Between collections the state keeps pace: Lua's collector
** knows a userdata of some bytes where a MiB of the device is behind it. So what arrays take, and a
** little for each, adds up to a debt. While Lua's own heap is small, a full collection takes some
** 20 us, and each CYCLE of debt has one: fewer than 64 arrays of 1 MiB are ever dead and not yet
** found. A larger heap is gone through in steps, as Lua's collector does: there a cycle of debt
** counts as if the heap had doubled, which is when Lua begins a cycle by itself; and it grows where
** steps take more than a share of the time, so that a large heap is not gone through for a few
** arrays. In Lua's generational mode steps are young collections, which never look at what is old
** while Lua's own heap stays as it is: there some cycles of debt have a full collection.
** Small arrays that are found are not released at once but one for each that is made, so that their
** blocks come back as they are wanted, and not all together: the pool's cache has room for a few.
** So there are never more than those of a cycle.
** A program that has stopped Lua's collector is not stepped; where the runtime asks for a
** collection there is one, and it stays stopped.
** What must stay true: `pressure` and `collect` come on the thread to which the collector is bound,
** the one that last made a call here; a call from another one binds it anew. */
#include "binding.h"
#include <math.h>
#include <stdatomic.h>
#include <time.h>

#define CYCLE     56e6 /* bytes */
#define SMALL_KIB 512  /* a heap of Lua's that is collected at once */
#define STEP      0.1  /* of a cycle, between two steps */
#define SHARE_MOST                                                                                 \
    0.04 /* of the time in steps: above it a cycle grows, below a fourth it shrinks */
#define CYCLE_MOST  4e9
#define OLD_CYCLES  2    /* of debt: what is old is looked at */
#define SMALL_ARRAY 10e3 /* bytes */
#define FOUND_MOST  2000 /* more than a cycle has */
#define FOUND_SHARE 64   /* of the limit: what they take at most */

static const char binding_key = 0;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Thread_local uint64_t binding_thread;

static uint64_t this_thread(void) {
    static _Atomic uint64_t threads;
    if (!binding_thread)
        binding_thread = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return binding_thread;
}

/* ---- arrays that were found ---- */

void binding_found(binding *b, tide_array *a) {
    if (b->nfound < b->found_most)
        b->found[b->nfound++] = a;
    else
        tide_release(a);
}

static double least_limit(const binding *b) {
    double least = HUGE_VAL;
    for (const opened *o = b->all; o; o = o->next) {
        tide_runtime_figures f = {.struct_size = sizeof f};
        if (tide_runtime_info(o->rt, &f) != TIDE_OK) tide_error_clear();
        if (f.limit && (double)f.limit < least) least = (double)f.limit;
        if (f.soft_limit && (double)f.soft_limit < least) least = (double)f.soft_limit;
    }
    return least;
}

/* How many may wait to be released, by the size of those that were made lately. */
static void set_found_most(binding *b) {
    double bytes = b->made_bytes / (b->made > 1 ? b->made : 1);
    b->found_most = 0;
    if (bytes > SMALL_ARRAY) return;
    double most = least_limit(b) / FOUND_SHARE / (bytes > 1 ? bytes : 1);
    b->found_most = most < FOUND_MOST ? (size_t)most : FOUND_MOST;
}

void binding_release_found(binding *b) {
    while (b->nfound) tide_release(b->found[--b->nfound]);
}

/* ---- the collector's table ---- */

static int full_cycle(lua_State *L) {
    lua_gc(L, LUA_GCCOLLECT, 0);
    return 0;
}

/* By the program; LuaJIT's starts again with a collection. */
static bool is_stopped(lua_State *L) { return !lua_gc(L, LUA_GCISRUNNING, 0); }

static int collect(void *user, int level) {
    binding *b = ((opened *)user)->of;
    lua_State *L = b->L;
    (void)level;
    /* lua_checkstack may run out of memory, and says so without an error */
    if (!L || b->collecting || !lua_checkstack(L, 2)) return TIDE_COLLECT_BUSY;
    b->collecting = b->inside = true;
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->full_cycle);
    bool stopped = is_stopped(L);
    int failed = lua_pcall(L, 0, 0, 0); /* an error of somebody's finalizer */
    if (failed) lua_pop(L, 1);
    if (stopped) lua_gc(L, LUA_GCSTOP, 0);
    binding_release_found(b);
    b->collecting = b->inside = false;
    b->L = L; /* a finalizer may have called the library */
    return failed ? TIDE_COLLECT_BUSY : TIDE_COLLECT_DONE;
}

static int may_collect(void *user) {
    binding *b = ((opened *)user)->of;
    return b->L && !b->collecting;
}

static void pressure(void *user, int64_t delta_bytes) {
    opened *o = user;
    double debt = o->of->debt + (double)delta_bytes; /* what Lua found by itself is paid */
    o->of->debt = debt > 0 ? debt : 0;
    if (delta_bytes > 0) o->of->made_bytes += (double)delta_bytes;
}

static bool bind_to_thread(opened *o) {
    tide_collector table = {.struct_size = sizeof table,
                            .name = LUA_VERSION,
                            .caps = TIDE_COLLECTOR_TRACING | TIDE_COLLECTOR_BOUND,
                            .user = o,
                            .collect = collect,
                            .may_collect = may_collect,
                            .pressure = pressure};
    return tide_collector_register(o->rt, &table, &o->collector) == TIDE_OK;
}

/* The state moved to another thread of the system: so do its collectors. A runtime that was closed
** meanwhile says so at the call that needs it. */
static void move_to_thread(binding *b) {
    b->thread = this_thread();
    for (opened *o = b->all; o; o = o->next) {
        if (tide_collector_unregister(o->rt, o->collector) != TIDE_OK || !bind_to_thread(o))
            tide_error_clear();
        o->device = -1; /* unknown */
    }
}

/* ---- pacing ---- */

static int step(lua_State *L) {
    int kib = (int)lua_tointeger(L, 1);
    lua_gc(L, LUA_GCSTEP, kib);
    return 0;
}

/* In the generational mode a full collection, else nothing: Lua does not tell the mode, but where
** one was left, and that of entering it is full. */
static int step_of_old(lua_State *L) {
#if LUA_VERSION_NUM >= 504
    if (lua_gc(L, LUA_GCINC, 0, 0, 0) == LUA_GCGEN) lua_gc(L, LUA_GCGEN, 0, 0);
#endif
    (void)L;
    return 0;
}

/* Where steps take too much of the time a cycle becomes longer. */
static void adjust(binding *b, uint64_t now) {
    double share = (double)b->spent_ns / (double)(now - b->asked_ns + 1);
    if (now - b->asked_ns < 1000000) return; /* a ms: too little to tell */
    if (share > SHARE_MOST)
        b->cycle = b->cycle * 2 < CYCLE_MOST ? b->cycle * 2 : CYCLE_MOST;
    else if (share < SHARE_MOST / 4)
        b->cycle = b->cycle / 2 > CYCLE ? b->cycle / 2 : CYCLE;
    b->spent_ns = 0, b->asked_ns = now;
}

/* Runs one of the two, which no error leaves: that of somebody's finalizer is nobody's here. */
static void run(lua_State *L, binding *b, lua_CFunction what, double kib) {
    set_found_most(b);
    b->debt = b->made = b->made_bytes = 0, b->collecting = true;
    lua_pushcfunction(L, what);
    lua_pushinteger(L, kib < 1 ? 1 : kib > 1e9 ? 1000000000 : (lua_Integer)kib);
    if (lua_pcall(L, 1, 0, 0) != 0) lua_pop(L, 1);
    b->collecting = false;
    binding_within(b, L);
    for (opened *o = b->all; o; o = o->next) tide_safepoint(o->rt); /* drains what was found */
    binding_without(b);
    b->debt = 0;
}

/* A large heap is gone through in steps. */
static void pace_slowly(lua_State *L, binding *b, int heap_kib) {
    uint64_t begin = now_ns();
    b->since_old += b->debt / b->cycle;
    run(L, b, b->since_old < OLD_CYCLES ? step : step_of_old, heap_kib * (b->debt / b->cycle));
    if (b->since_old >= OLD_CYCLES) b->since_old = 0;
    uint64_t end = now_ns();
    b->spent_ns += end - begin;
    adjust(b, end);
    b->look_at = STEP * b->cycle;
}

void binding_pace(lua_State *L, binding *b) {
    if (b->collecting || is_stopped(L) || !lua_checkstack(L, 4)) return;
    int heap_kib = lua_gc(L, LUA_GCCOUNT, 0);
    if (heap_kib >= SMALL_KIB) {
        pace_slowly(L, b, heap_kib);
        return;
    }
    b->cycle = CYCLE;
    bool due = b->debt >= CYCLE;
    if (due) run(L, b, full_cycle, 0);
    b->look_at = due ? STEP * CYCLE : CYCLE;
}

void binding_collect(lua_State *L, binding *b) {
    if (!b->collecting && lua_checkstack(L, 4)) run(L, b, full_cycle, 0);
}

/* ---- the binding ---- */

static int binding_end(lua_State *L) {
    lua_settop(L, 1);
    lua_pushlightuserdata(L, (void *)&binding_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    binding *b = lua_touserdata(L, 1);
    if (!b || b != lua_touserdata(L, -1) || b->ended) return 0; /* somebody called it */
    objects_end(b);
    policies_end(b);
    binding_release_found(b);
    b->found_most = 0;
    b->ended = true;
    for (opened *o = b->all; o; o = o->next) tide_close(o->rt);
    b->all = b->current = NULL;
    tide_error_clear();
    later_run(L, b); /* deaths */
    later_end(b->later);
    return 0;
}

binding *binding_new(lua_State *L) {
    lua_pushlightuserdata(L, (void *)&binding_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    binding *b = lua_touserdata(L, -1);
    if (b) return b;
    lua_pop(L, 1);
    b = lua_newuserdata(L, sizeof *b);
    *b = (binding){
        .thread = this_thread(), .cycle = CYCLE, .look_at = STEP * CYCLE, .asked_ns = now_ns()};
    b->later = later_new();
    if (!b->later) fail(L, "tidepool: no memory is left");
    b->waiting = later_waiting(b->later);
    b->found = lua_newuserdata(L, FOUND_MOST * sizeof *b->found);
    luaL_ref(L, LUA_REGISTRYINDEX); /* it stays until the state ends */
    lua_newtable(L);
    lua_pushcfunction(L, binding_end);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_pushcfunction(L, full_cycle);
    b->full_cycle = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, cache_ask);
    b->cache_ask = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, (void *)&binding_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return b;
}

void binding_enter_slowly(lua_State *L, binding *b) {
    if (b->ended) fail(L, "tidepool: the Lua state is being closed");
    if (b->forbidden) fail(L, "tidepool: %s may not call the library", b->forbidden);
    if (b->thread != this_thread()) move_to_thread(b);
    if (b->dead && !b->inside) objects_end(b);
    if (b->placed) place_enter(L, b);
    policies_tell(b);
    later_run(L, b);
}

lua_State *binding_here(binding *b) { return b->thread == this_thread() ? b->L : NULL; }

void binding_forbid(lua_State *L, binding *b, const char *what) {
    b->forbidden = what;
    b->stopped = lua_gc(L, LUA_GCISRUNNING, 0);
    if (b->stopped) lua_gc(L, LUA_GCSTOP, 0);
}

void binding_allow(lua_State *L, binding *b, const char *before) {
    b->forbidden = before;
    if (b->stopped) lua_gc(L, LUA_GCRESTART, 0);
}

/* The userdata behind it stays in the registry: the library keeps its address. */
opened *binding_open(lua_State *L, binding *b, tide_config *config, int log) {
    opened *o = lua_newuserdata(L, sizeof *o);
    *o = (opened){.of = b, .places = LUA_NOREF, .texts = LUA_NOREF, .log = log};
    lua_pushvalue(L, -1);
    int kept = luaL_ref(L, LUA_REGISTRYINDEX);
    if (log != LUA_NOREF) config->log = later_log, config->log_user = o;
    bool open = tide_open(config, &o->rt) == TIDE_OK;
    if (!open || !bind_to_thread(o)) {
        call_push_error(L);
        if (open) tide_close(o->rt);
        later_run(L, b); /* lines that were for `log` */
        luaL_unref(L, LUA_REGISTRYINDEX, kept);
        if (!b->delivering) luaL_unref(L, LUA_REGISTRYINDEX, log);
        lua_error(L);
    }
    o->device = o->first_device = tide_device_current(o->rt);
    o->next = b->all;
    b->all = b->current = o;
    return o;
}

opened *binding_runtime(lua_State *L) {
    binding *b = lua_touserdata(L, lua_upvalueindex(1));
    if (b->current) return b->current;
    tide_config config = {.struct_size = sizeof config, .collector = "refcount"};
    int top = lua_gettop(L);
    policy_of_config(L, &config);
    opened *o = binding_open(L, b, &config, LUA_NOREF);
    lua_settop(L, top);
    return o;
}

opened *binding_runtime_of(lua_State *L, tide_array *a) {
    tide_runtime *rt = tide_array_runtime(a);
    for (opened *o = ((binding *)lua_touserdata(L, lua_upvalueindex(1)))->all; rt && o; o = o->next)
        if (o->rt == rt) return o;
    call_failed(L); /* it was closed */
    return NULL;
}

/* ---- what Lua 5.1 lacks ---- */

#if LUA_VERSION_NUM < 502
void lua_binding_setfuncs(lua_State *L, const luaL_Reg *list, int up) {
    for (; list->name; list++) {
        for (int i = 0; i < up; i++) lua_pushvalue(L, -up);
        lua_pushcclosure(L, list->func, up);
        lua_setfield(L, -(up + 2), list->name);
    }
    lua_pop(L, up);
}
#endif
#if LUA_VERSION_NUM < 503
int lua_binding_isinteger(lua_State *L, int i) {
    if (lua_type(L, i) != LUA_TNUMBER) return 0;
    double v = lua_tonumber(L, i);
    return v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v;
}
#endif
