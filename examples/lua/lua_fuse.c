/* lua_fuse.c: tide.fuse(f): a function of arrays as one expression.
**
** Model. What tide.fuse gives is a function of C with f and a table of texts as upvalues: an
** expression for each combination of the operands' element types and ranks, which trace.lua makes
** by running f on stand-ins. A stand-in is a userdata without anything in it, known by its
** metatable. A function of the module that gets one calls what trace.lua has for it; f itself may
** be such a function: then the two are one expression. */
#include "binding.h"
#include "tables.h"

/* What trace.lua gives; kept in the registry. */
struct tracer {
    int trace, inside, methods; /* references */
    const void *address;        /* of the stand-ins' metatable */
};

static int new_stand_in(lua_State *L) {
    lua_settop(L, 1);
    lua_newuserdata(L, 1);
    lua_insert(L, 1);
    lua_setmetatable(L, 1);
    return 1;
}

/* Pushes a table of the names of the operations element by element. */
static void push_operations(lua_State *L) {
    int n = 0;
    lua_newtable(L);
    for (size_t i = 0; i < lua_nfunctions; i++) {
        if (!lua_functions[i].expression) continue;
        lua_pushstring(L, lua_functions[i].name);
        lua_rawseti(L, -2, ++n);
    }
}

static void load_tracer(lua_State *L, binding *b) {
    if (b->tracer) return;
    tracer *t = lua_newuserdata(L, sizeof *t);
    part_load(L, "trace");
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->module);
    push_operations(L);
    lua_pushcfunction(L, new_stand_in);
    lua_pushcfunction(L, fail_text);
    lua_call(L, 4, 4);
    t->address = lua_topointer(L, -1); /* which trace.lua holds */
    lua_pop(L, 1);
    t->methods = luaL_ref(L, LUA_REGISTRYINDEX);
    t->inside = luaL_ref(L, LUA_REGISTRYINDEX);
    t->trace = luaL_ref(L, LUA_REGISTRYINDEX);
    luaL_ref(L, LUA_REGISTRYINDEX);
    b->tracer = t;
}

/* ---- stand-ins among the arguments of the module's functions ---- */

bool fuse_stand_in(lua_State *L, binding *b, int i) {
    if (!b->tracer || !lua_touserdata(L, i) || !lua_getmetatable(L, i)) return false;
    bool is = lua_topointer(L, -1) == b->tracer->address;
    lua_pop(L, 1);
    return is;
}

bool fuse_wanted(call *c) {
    for (int i = 0; i < c->f->nparams; i++) {
        int at = call_at(c, i);
        if (at && fuse_stand_in(c->L, c->b, at)) return c->f->fused;
    }
    return false;
}

int fuse_call(call *c) {
    enum { PARAMS_MOST = 4 }; /* of functions that can be fused */
    lua_State *L = c->L;
    int at[PARAMS_MOST];
    for (int i = 0; i < c->f->nparams; i++) at[i] = call_at(c, i);
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->b->tracer->methods);
    lua_getfield(L, -1, c->f->name);
    for (int i = 0; i < c->f->nparams; i++) {
        if (at[i])
            lua_pushvalue(L, at[i]);
        else
            lua_pushnil(L);
    }
    lua_call(L, c->f->nparams, 1);
    return 1;
}

/* ---- fused functions ---- */

enum { UP_BINDING = 1, UP_FUNCTION, UP_TEXTS }; /* upvalues of one */

/* Pushes the expression's text for operands like these. */
static void push_trace(lua_State *L, binding *b, const operands *o) {
    luaL_checkstack(L, 2 * TIDE_MAX_ARGS + 4, "fuse");
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->tracer->trace);
    lua_pushvalue(L, lua_upvalueindex(UP_FUNCTION));
    lua_pushinteger(L, (lua_Integer)o->n);
    for (size_t i = 0; i < o->n; i++) {
        bool array = o->at[i].kind == TIDE_ARG_ARRAY;
        if (array)
            lua_pushstring(L, tide_dtype_name(tide_array_dtype(o->at[i].value.array)));
        else
            lua_pushnil(L);
        lua_pushinteger(L, array ? tide_array_ndim(o->at[i].value.array) : 0);
    }
    lua_call(L, 2 + 2 * (int)o->n, 1);
}

/* Pushes what operands are like, as a key. */
static void push_key(lua_State *L, const operands *o) {
    char key[2 * TIDE_MAX_ARGS];
    for (size_t i = 0; i < o->n; i++) {
        const tide_arg *v = &o->at[i];
        int rank = v->kind == TIDE_ARG_ARRAY ? tide_array_ndim(v->value.array) : 0;
        if (rank < 0) call_failed(L);
        key[2 * i] = (char)(v->kind == TIDE_ARG_ARRAY ? tide_array_dtype(v->value.array) + 1 : 0);
        key[2 * i + 1] = (char)rank;
    }
    lua_pushlstring(L, key, 2 * o->n);
}

/* A fused function inside of one is what it was made of. */
static int call_inside(lua_State *L, binding *b) {
    luaL_checkstack(L, 2, "fuse");
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->tracer->inside);
    lua_insert(L, 1);
    lua_pushvalue(L, lua_upvalueindex(UP_FUNCTION));
    lua_insert(L, 2);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int call_outside(lua_State *L, binding *b) {
    operands o;
    operands_read(L, b, "fuse", 1, &o);
    push_key(L, &o);
    lua_pushvalue(L, -1);
    lua_rawget(L, lua_upvalueindex(UP_TEXTS));
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        push_trace(L, b, &o);
        lua_insert(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, lua_upvalueindex(UP_TEXTS));
    }
    return operands_apply(L, b, lua_gettop(L), &o);
}

static int call_fused(lua_State *L) {
    binding *b = binding_enter(L);
    for (int i = 1; i <= lua_gettop(L); i++)
        if (fuse_stand_in(L, b, i)) return call_inside(L, b);
    return call_outside(L, b);
}

int own_fuse(lua_State *L) {
    call c = call_begin(L, OWN(fuse));
    int at = call_at(&c, 0);
    if (!at || !lua_isfunction(L, at)) return call_error(&c, 0, "a function");
    load_tracer(L, c.b);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, at);
    lua_newtable(L);
    lua_pushcclosure(L, call_fused, 3);
    return 1;
}
