/* lua_expr.c: expressions by text: tide.map, tide.map_into, tide.expr.
**
** tide.map(text, x, y, ...) gives as many arrays as the expression has results. */
#include "binding.h"
#include "tables.h"

static const char expr_type[] = "tidepool.expr";

/* That of the first array; of none the current one. */
static opened *runtime_of(lua_State *L, const operands *o) {
    for (size_t i = 0; i < o->n; i++)
        if (o->at[i].kind == TIDE_ARG_ARRAY) return binding_runtime_of(L, o->at[i].value.array);
    return binding_runtime(L);
}

static void no_operand(lua_State *L, binding *b, const char *name, int first, int i) {
    if (fuse_stand_in(L, b, i)) fail(L, "a fused function cannot use '%s' of an array", name);
    fail(L, "%s: operand %d is a %s", name, i - first + 1, luaL_typename(L, i));
}

/* Tables, which were noted as numbers, become arrays. */
static void read_tables(lua_State *L, binding *b, int first, operands *o) {
    tide_runtime *rt = runtime_of(L, o)->rt;
    for (size_t i = 0; i < o->n; i++)
        if (lua_istable(L, first + (int)i))
            o->at[i] = tide_arg_array(value_array(L, b, rt, first + (int)i, TIDE_DTYPE_COUNT));
}

void operands_read(lua_State *L, binding *b, const char *name, int first, operands *o) {
    int top = lua_gettop(L);
    bool tables = false;
    if (top - first >= TIDE_MAX_ARGS) fail(L, "%s: more than %d operands", name, TIDE_MAX_ARGS);
    luaL_checkstack(L, TIDE_MAX_ARGS + TIDE_MAX_RESULTS + 10, name);
    o->n = (size_t)(top - first + 1);
    for (int i = first; i <= top; i++) {
        if (value_arg(L, b, i, &o->at[i - first])) continue;
        if (!lua_istable(L, i)) no_operand(L, b, name, first, i);
        o->at[i - first] = tide_arg_int(0);
        tables = true;
    }
    if (tables) read_tables(L, b, first, o);
}

static int apply(lua_State *L, binding *b, tide_expr *e, const operands *o) {
    tide_array *outs[TIDE_MAX_RESULTS] = {NULL}, **slots[TIDE_MAX_RESULTS];
    int m = tide_expr_results(e);
    if (m < 0) return call_failed(L);
    for (int i = 0; i < m; i++) slots[i] = array_slot(L, b);
    binding_within(b, L);
    tide_status s = tide_expr_apply_many(e, o->at, o->n, outs, (size_t)m);
    binding_without(b);
    if (s != TIDE_OK) return call_failed(L);
    for (int i = 0; i < m; i++) *slots[i] = outs[i];
    return m;
}

static tide_expr **expr_slot(lua_State *L) {
    tide_expr **e = lua_newuserdata(L, sizeof(tide_expr *));
    *e = NULL;
    luaL_getmetatable(L, expr_type);
    lua_setmetatable(L, -2);
    return e;
}

#define TEXTS_MOST 256 /* of a runtime: a program that makes texts as it goes may make any number */

/* Pushes a new table of expressions by text, which becomes the runtime's. */
static void new_texts(lua_State *L, opened *o) {
    luaL_unref(L, LUA_REGISTRYINDEX, o->texts);
    o->texts = LUA_NOREF;
    o->ntexts = 0;
    lua_newtable(L);
    lua_pushvalue(L, -1);
    o->texts = luaL_ref(L, LUA_REGISTRYINDEX);
}

void texts_close(lua_State *L, opened *o) {
    luaL_unref(L, LUA_REGISTRYINDEX, o->texts);
    o->texts = LUA_NOREF;
}

/* The expression of the text at `at`, which is kept, in the runtime. Pushes it. */
static tide_expr *by_text(lua_State *L, opened *o, int at) {
    if (o->texts == LUA_NOREF || o->ntexts == TEXTS_MOST)
        new_texts(L, o);
    else
        lua_rawgeti(L, LUA_REGISTRYINDEX, o->texts);
    lua_pushvalue(L, at);
    lua_rawget(L, -2);
    tide_expr **e = lua_touserdata(L, -1);
    if (e) return *e;
    e = expr_slot(L);
    *e = tide_expr_new(o->rt, lua_tostring(L, at));
    if (!*e) call_failed(L);
    lua_pushvalue(L, at);
    lua_pushvalue(L, -2);
    lua_rawset(L, -5);
    o->ntexts++;
    return *e;
}

int operands_apply(lua_State *L, binding *b, int text, const operands *o) {
    return apply(L, b, by_text(L, runtime_of(L, o), text), o);
}

static const char *text_at(lua_State *L, int i, const char *name) {
    if (lua_type(L, i) != LUA_TSTRING)
        fail(L, "%s: expected an expression's text, found %s", name, luaL_typename(L, i));
    if (strlen(lua_tostring(L, i)) != lua_rawlen(L, i))
        fail(L, "%s: the expression's text has a zero byte", name);
    return lua_tostring(L, i);
}

int own_map(lua_State *L) {
    binding *b = binding_enter(L);
    operands o;
    text_at(L, 1, "map");
    operands_read(L, b, "map", 2, &o);
    return operands_apply(L, b, 1, &o);
}

/* tide.map_into(dst, text, ...) */
int own_map_into(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *dst = array_at(L, 1);
    operands o;
    if (!dst) return fail(L, "map_into: expected an array, found %s", luaL_typename(L, 1));
    const char *text = text_at(L, 2, "map_into");
    operands_read(L, b, "map_into", 3, &o);
    binding_within(b, L);
    tide_status s = tide_map_into_args(dst, text, o.at, o.n);
    binding_without(b);
    if (s != TIDE_OK) return call_failed(L);
    lua_settop(L, 1);
    return 1;
}

int own_expr(lua_State *L) {
    binding_enter(L);
    const char *text = text_at(L, 1, "expr");
    opened *o = binding_runtime(L);
    tide_expr **e = expr_slot(L);
    *e = tide_expr_new(o->rt, text);
    return *e ? 1 : call_failed(L);
}

/* The one that is called. */
static tide_expr **expr_at(lua_State *L, const binding *b) {
    tide_expr **e = lua_touserdata(L, 1);
    if (!e || !lua_getmetatable(L, 1)) return NULL;
    bool same = lua_topointer(L, -1) == b->expr_address;
    lua_pop(L, 1);
    return same ? e : NULL;
}

static int call_expr(lua_State *L) {
    binding *b = binding_enter(L);
    tide_expr **e = expr_at(L, b);
    operands o;
    if (!e) return fail(L, "expression: it is called with a %s as itself", luaL_typename(L, 1));
    operands_read(L, b, "expression", 2, &o);
    return apply(L, b, *e, &o);
}

static int collect_expr(lua_State *L) {
    tide_expr **e = expr_at(L, lua_touserdata(L, lua_upvalueindex(1)));
    if (!e) return 0;
    tide_expr_release(*e);
    *e = NULL;
    tide_error_clear(); /* its runtime may be closed */
    return 0;
}

void expr_metatable(lua_State *L, int upvalue) {
    static const luaL_Reg events[] = {{"__call", call_expr}, {"__gc", collect_expr}, {NULL, NULL}};
    luaL_newmetatable(L, expr_type);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, events, 1);
    ((binding *)lua_touserdata(L, upvalue))->expr_address = lua_topointer(L, -1);
    lua_pushliteral(L, "an expression's metatable is the module's");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
