/* lua_cache.c: tide.reclaimable{...}: a cache of Lua's that gives way when memory is short.
**
** Model. The functions are in the user value of an object that the registry holds until it is
** released, or its runtime closed. The library calls them inside a call of the module's, by the
** thread that is short; they run in that call's coroutine, under pcall. A thread that is not in
** this state, of another runtime that is short on the same device, gets nothing.
** What must stay true: an error in them is no error of the call that they are in: the log has a
** line, and Lua a warning. */
#include "binding.h"
#include "tables.h"
#include <math.h>
#include <stdlib.h>

struct cache {
    uint64_t id;
    opened *of;
    int held;               /* a reference to the object */
    struct question *asked; /* while a function of it is called */
    struct cache *next;
};

static void end_cache(void *ref) {
    cache *x = ref;
    cache **link = &x->of->of->caches;
    if (tide_reclaimable_unregister(x->of->rt, x->id) != TIDE_OK) tide_error_clear();
    while (*link && *link != x) link = &(*link)->next;
    if (*link) *link = x->next;
    free(x);
}

/* ---- what the library calls ---- */

typedef struct question {
    cache *of;
    const char *slot;
    int device;
    size_t wanted, given;
} question;

/* Under pcall: calls the function, which gives a number of bytes or nothing. */
int cache_ask(lua_State *L) {
    question *q = ((cache *)lua_touserdata(L, 1))->asked;
    lua_rawgeti(L, LUA_REGISTRYINDEX, q->of->held);
    lua_getuservalue(L, -1);
    lua_pushstring(L, q->slot);
    lua_rawget(L, -2);
    tide_arg wanted = tide_arg_uint(q->wanted);
    lua_pushinteger(L, q->device);
    if (q->wanted == SIZE_MAX)
        lua_pushnumber(L, HUGE_VAL);
    else
        value_push(L, &wanted);
    lua_call(L, 2, 1);
    double given = lua_tonumber(L, -1);
    if (!lua_isnil(L, -1) && !(lua_type(L, -1) == LUA_TNUMBER && given >= 0 && given < 0x1p63))
        luaL_error(L, "%s gave no number of bytes, but a %s", q->slot, luaL_typename(L, -1));
    q->given = (size_t)given;
    return 0;
}

static tide_status ask(question *q, bool may_call) {
    binding *b = q->of->of->of;
    lua_State *L = binding_here(b);
    if (!L || !lua_checkstack(L, 8)) return TIDE_OK;
    const char *forbidden = b->forbidden;
    if (!may_call) binding_forbid(L, b, q->slot);
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->cache_ask);
    lua_pushlightuserdata(L, q->of); /* own_reclaimable did: LuaJIT takes memory the first time */
    q->of->asked = q;
    bool well = lua_pcall(L, 1, 0, 0) == 0;
    if (!well) {
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "no text";
        later_warn(b->later, q->slot, text);
        lua_pop(L, 1);
    }
    if (!may_call) binding_allow(L, b, forbidden);
    binding_within(b, L); /* it may have called the library */
    return well ? TIDE_OK : TIDE_E_INVALID;
}

static tide_status purge(void *user, int device, size_t wanted, size_t *given) {
    question q = {.of = user, .slot = "purge", .device = device, .wanted = wanted};
    tide_status s = ask(&q, true);
    *given = q.given;
    return s;
}

static tide_status drop(void *user, int device, size_t wanted, size_t *given) {
    question q = {.of = user, .slot = "drop", .device = device, .wanted = wanted};
    tide_status s = ask(&q, true);
    *given = q.given;
    return s;
}

static size_t bytes(void *user, int device) {
    question q = {.of = user, .slot = "bytes", .device = device};
    return ask(&q, false) == TIDE_OK ? q.given : 0;
}

/* ---- registering ---- */

enum { ARG_NAME, ARG_PURGE, ARG_DROP, ARG_BYTES, ARG_DEAR };

/* Whether it is given; keeps it in the table at `held`. */
static bool keep_function(call *c, int i, int held) {
    int at = call_at(c, i);
    if (!at) return false;
    if (!lua_isfunction(c->L, at)) call_error(c, i, "a function");
    lua_pushvalue(c->L, at);
    lua_setfield(c->L, held, c->f->params[i]);
    return true;
}

int own_reclaimable(lua_State *L) {
    call c = call_begin(L, OWN(reclaimable));
    tide_reclaimable table = {.struct_size = sizeof table, .name = arg_text(&c, ARG_NAME)};
    table.dear = arg_switch(&c, ARG_DEAR, false);
    opened *o = binding_runtime(L);
    lua_newtable(L);
    int held = lua_gettop(L);
    if (keep_function(&c, ARG_PURGE, held)) table.purge = purge;
    if (keep_function(&c, ARG_DROP, held)) table.drop = drop;
    if (keep_function(&c, ARG_BYTES, held)) table.bytes = bytes;
    object *of = object_new(L, o, "cache", end_cache);
    int made = lua_gettop(L);
    lua_pushvalue(L, held);
    lua_setuservalue(L, made);
    cache *x = calloc(1, sizeof *x);
    if (!x) return fail(L, "reclaimable: no memory is left");
    *x = (cache){.of = o, .next = c.b->caches};
    c.b->caches = x;
    of->ref = table.user = x; /* which ends with it, registered or not */
    lua_pushlightuserdata(L, x);
    lua_pushvalue(L, made);
    x->held = luaL_ref(L, LUA_REGISTRYINDEX);
    if (tide_reclaimable_register(o->rt, &table, &x->id) != TIDE_OK) {
        luaL_unref(L, LUA_REGISTRYINDEX, x->held);
        return call_failed(L);
    }
    lua_settop(L, made);
    return 1;
}

int own_cache_release(lua_State *L) {
    call c = call_begin(L, OWN(cache_release));
    int at = call_at(&c, 0);
    object *of = at ? object_at(L, at, "cache") : NULL;
    int held = of && of->ref ? ((cache *)of->ref)->held : LUA_NOREF;
    object_release(&c, "cache");
    luaL_unref(L, LUA_REGISTRYINDEX, held);
    return 0;
}

/* The runtime is closed: what it held of Lua's may go. */
void caches_close(lua_State *L, opened *o) {
    for (cache *x = o->of->caches; x; x = x->next)
        if (x->of == o) {
            luaL_unref(L, LUA_REGISTRYINDEX, x->held);
            x->held = LUA_NOREF;
        }
}
