/* lua_object.c: objects of the library's that have an end of their own: streams, pools, iterators
** of batches, views of the host's.
**
** Model. The userdata is a pointer to an `object`. Its methods are those functions of functions.md
** whose names begin with the type's. It ends when it is released, or found dead by Lua.
** What must stay true: inside a collection that the library asked for nothing but arrays may be
** dropped: what is found dead there waits for the next call of the module's. */
#include "binding.h"
#include "tables.h"
#include <stdio.h>
#include <stdlib.h>

static void metatable_name(char name[static 64], const char *type) {
    snprintf(name, 64, "tidepool.%s", type);
}

void *userdata_at(lua_State *L, int i, const char *metatable) {
    void *at = lua_touserdata(L, i);
    if (!at || !lua_getmetatable(L, i)) return NULL;
    luaL_getmetatable(L, metatable);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? at : NULL;
}

/* ---- beginning and end ---- */

object *object_new(lua_State *L, opened *o, const char *type, void (*end)(void *ref)) {
    char name[64];
    object **slot = lua_newuserdata(L, sizeof(object *));
    *slot = malloc(sizeof **slot);
    if (!*slot) fail(L, "%s: no memory is left", type);
    **slot = (object){.end = end, .of = o};
    metatable_name(name, type);
    luaL_getmetatable(L, name);
    lua_setmetatable(L, -2);
    return *slot;
}

void object_end(object *x) {
    void *ref = x->ref;
    x->ref = NULL;
    if (!ref) return;
    x->end(ref);
    tide_error_clear(); /* its runtime may be closed */
}

void objects_end(binding *b) {
    while (b->dead) {
        object *x = b->dead;
        b->dead = x->next;
        object_end(x);
        free(x);
    }
}

static const char object_mark = 0; /* the key by which metatables of objects are known */

/* The object at 1 of whatever type; NULL: there is none, or something else. */
static object **any_object(lua_State *L) {
    object **slot = lua_touserdata(L, 1);
    if (!slot || !lua_getmetatable(L, 1)) return NULL;
    lua_pushlightuserdata(L, (void *)&object_mark);
    lua_rawget(L, -2);
    bool is = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return is && *slot ? slot : NULL;
}

static int collect_object(lua_State *L) {
    object **slot = any_object(L), *x = slot ? *slot : NULL;
    if (!x) return 0;
    *slot = NULL;
    binding *b = x->of->of;
    if (b->inside) {
        x->next = b->dead;
        b->dead = x;
        return 0;
    }
    object_end(x);
    free(x);
    return 0;
}

static int release(lua_State *L) {
    binding_enter(L);
    object **slot = any_object(L);
    if (slot) object_end(*slot);
    return 0;
}

/* ---- as an argument ---- */

object *object_at(lua_State *L, int i, const char *type) {
    char name[64];
    metatable_name(name, type);
    object **slot = userdata_at(L, i, name);
    return slot ? *slot : NULL;
}

static void no_object(call *c, int i, const char *type) {
    lua_pushfstring(c->L, strchr("aeio", *type) ? "an %s" : "a %s", type);
    call_error(c, i, lua_tostring(c->L, -1));
}

object *arg_object_or_null(call *c, int i, const char *type) {
    int at = call_at(c, i);
    object *x = at ? object_at(c->L, at, type) : NULL;
    if (!at) return NULL;
    if (!x) no_object(c, i, type);
    if (!x->ref) fail(c->L, "%s: the %s was released", c->f->name, type);
    return x;
}

object *arg_object(call *c, int i, const char *type) {
    object *x = arg_object_or_null(c, i, type);
    if (!x) no_object(c, i, type);
    return x;
}

/* ---- types ---- */

/* Pushes a table of the methods that functions.md has for a type. */
static void push_methods(lua_State *L, const char *type, int upvalue) {
    size_t n = strlen(type);
    lua_newtable(L);
    for (size_t i = 0; i < lua_nfunctions; i++) {
        const lua_function *f = &lua_functions[i];
        if (strncmp(f->name, type, n) != 0 || f->name[n] != ':') continue;
        lua_pushvalue(L, upvalue);
        lua_pushcclosure(L, f->call, 1);
        lua_setfield(L, -2, f->name + n + 1);
    }
}

void type_metatable(lua_State *L, const char *type, int upvalue) {
    char name[64];
    metatable_name(name, type);
    luaL_newmetatable(L, name);
    push_methods(L, type, upvalue);
    lua_setfield(L, -2, "__index");
    lua_pushfstring(L, "a %s's metatable is the module's", type);
    lua_setfield(L, -2, "__metatable");
}

void object_metatable(lua_State *L, const char *type, int upvalue) {
    static const luaL_Reg events[] = {{"__gc", collect_object}, {"__close", release}, {NULL, NULL}};
    type_metatable(L, type, upvalue);
    lua_pushlightuserdata(L, (void *)&object_mark);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, events, 1);
}

/* What `release` of each type does. Twice is legal. */
object *object_release(call *c, const char *type) {
    int at = call_at(c, 0);
    object *x = at ? object_at(c->L, at, type) : NULL;
    if (!x) no_object(c, 0, type);
    object_end(x);
    return x;
}
