/* lua_expr.c: expressions by text: tide.map, tide.map_into, tide.expr.
**
** tide.map(text, x, y, ...) gives as many arrays as the expression has results. */
#include "binding.h"
#include "tables.h"

static const char expr_type[] = "tidepool.expr";

typedef struct operands {
    tide_arg at[TIDE_MAX_ARGS];
    size_t n;
    tide_runtime *rt;
} operands;

/* The arguments from `first` on; numbers stay weak. */
static void read_operands(lua_State *L, binding *b, const char *name, int first, operands *o) {
    int top = lua_gettop(L);
    *o = (operands){.n = 0};
    if (top - first >= TIDE_MAX_ARGS)
        luaL_error(L, "%s: more than %d operands", name, TIDE_MAX_ARGS);
    luaL_checkstack(L, TIDE_MAX_ARGS + TIDE_MAX_RESULTS, name);
    for (int i = first; i <= top; i++) {
        tide_arg *v = &o->at[o->n++];
        if (lua_istable(L, i))
            *v = tide_arg_array(value_array(L, b, i, TIDE_DTYPE_COUNT));
        else if (!value_arg(L, i, v))
            luaL_error(L, "%s: operand %d is a %s", name, i - first + 1, luaL_typename(L, i));
        if (v->kind == TIDE_ARG_ARRAY && !o->rt) o->rt = tide_array_runtime(v->value.array);
    }
    if (!o->rt) o->rt = binding_runtime(L)->rt;
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

/* Expressions by text, kept for the runtime that parsed them. */
static tide_expr *by_text(lua_State *L, binding *b, tide_runtime *rt, const char *text) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->texts);
    lua_pushlightuserdata(L, rt);
    lua_rawget(L, -2);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushlightuserdata(L, rt);
        lua_pushvalue(L, -2);
        lua_rawset(L, -4);
    }
    lua_getfield(L, -1, text);
    tide_expr **e = lua_touserdata(L, -1);
    if (!e) {
        lua_pop(L, 1);
        e = expr_slot(L);
        *e = tide_expr_new(rt, text);
        if (!*e) call_failed(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, text);
    }
    return *e;
}

int own_map(lua_State *L) {
    binding *b = binding_enter(L);
    const char *text = luaL_checkstring(L, 1);
    operands o;
    read_operands(L, b, "map", 2, &o);
    return apply(L, b, by_text(L, b, o.rt, text), &o);
}

/* tide.map_into(dst, text, ...) */
int own_map_into(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *dst = array_at(L, 1);
    const char *text = luaL_checkstring(L, 2);
    operands o;
    if (!dst) return luaL_error(L, "map_into: expected an array, found %s", luaL_typename(L, 1));
    read_operands(L, b, "map_into", 3, &o);
    binding_within(b, L);
    tide_status s = tide_map_into_args(dst, text, o.at, o.n);
    binding_without(b);
    if (s != TIDE_OK) return call_failed(L);
    lua_settop(L, 1);
    return 1;
}

int own_expr(lua_State *L) {
    binding_enter(L);
    const char *text = luaL_checkstring(L, 1);
    opened *o = binding_runtime(L);
    tide_expr **e = expr_slot(L);
    *e = tide_expr_new(o->rt, text);
    return *e ? 1 : call_failed(L);
}

static int call_expr(lua_State *L) {
    binding *b = binding_enter(L);
    tide_expr **e = lua_touserdata(L, 1);
    operands o;
    read_operands(L, b, "expression", 2, &o);
    return apply(L, b, *e, &o);
}

static int collect_expr(lua_State *L) {
    tide_expr **e = lua_touserdata(L, 1);
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
    lua_pushliteral(L, "an expression's metatable is the module's");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
