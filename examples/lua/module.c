/* module.c: require "tidepool": the module's table, runtimes, figures, help.
**
** Model. The table finds the functions of calls.c, which bind.py writes from tide-api.json, and
** holds those here; the ones that take an array first are methods of arrays too. What is written in
** Lua (fuse.lua) gets the table and adds to it, when it is first called. */
#include "binding.h"
#include "tables.h"

static const char runtime_type[] = "tidepool.runtime";

/* ---- runtimes ---- */

static opened *runtime_at(lua_State *L, int i) {
    opened **o = luaL_checkudata(L, i, runtime_type);
    return *o;
}

static int switch_value(lua_State *L, int i) { return lua_toboolean(L, i) ? TIDE_ON : TIDE_OFF; }

/* A setting of tide.open{...}, by name. The texts stay in the table, which the caller holds. */
static void set_field(lua_State *L, const config_field *f, tide_config *config) {
    char *to = (char *)config + f->offset;
    if (f->kind == FIELD_TEXT) {
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "open: expected a text as '%s', found %s", f->name, luaL_typename(L, -1));
        *(const char **)to = lua_tostring(L, -1);
    } else if (f->kind == FIELD_SWITCH) {
        if (!lua_isboolean(L, -1))
            luaL_error(L, "open: expected true or false as '%s', found %s", f->name,
                       luaL_typename(L, -1));
        *(int *)to = switch_value(L, -1);
    } else {
        if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) > INT32_MAX ||
            lua_tointeger(L, -1) < INT32_MIN)
            luaL_error(L, "open: expected an integer as '%s', found %s", f->name,
                       luaL_typename(L, -1));
        *(int *)to = (int)lua_tointeger(L, -1);
    }
}

/* tide.open{device="host", limit="64MiB"}: the runtime of what is made from now on. */
static int open_runtime(lua_State *L) {
    binding *b = binding_enter(L);
    tide_config config = {.struct_size = sizeof config, .collector = "refcount"};
    if (!lua_isnoneornil(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (lua_istable(L, 1) ? lua_pushnil(L) : lua_settop(L, 1); lua_istable(L, 1) && lua_next(L, 1);
         lua_pop(L, 1)) {
        const config_field *f = config_fields;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        while (f->name && strcmp(f->name, name) != 0) f++;
        if (!f->name) return luaL_error(L, "open: there is no setting '%s'", name);
        set_field(L, f, &config);
    }
    lua_settop(L, 1);
    opened **o = lua_newuserdata(L, sizeof *o);
    *o = NULL;
    opened *made = binding_open(L, b, &config);
    *o = made;
    lua_pushvalue(L, 2);
    luaL_getmetatable(L, runtime_type);
    lua_setmetatable(L, -2);
    return 1;
}

static int close_runtime(lua_State *L) {
    binding *b = binding_enter(L);
    opened *o = runtime_at(L, 1);
    opened **link = &b->all;
    while (*link && *link != o) link = &(*link)->next;
    if (*link) *link = o->next;
    if (b->current == o) b->current = NULL;
    binding_within(b, L);
    tide_close(o->rt);
    binding_without(b);
    tide_error_clear(); /* closed before: nothing to do */
    return 0;
}

static int use_runtime(lua_State *L) {
    binding *b = binding_enter(L);
    b->current = runtime_at(L, 1);
    lua_settop(L, 1);
    return 1;
}

/* ---- the runtime as a whole ---- */

static int stats(lua_State *L) {
    binding_enter(L);
    opened *o = binding_runtime(L);
    tide_runtime_figures figures = {.struct_size = sizeof figures};
    if (tide_runtime_info(o->rt, &figures) != TIDE_OK) return call_failed(L);
    lua_newtable(L);
    for (const figure_field *f = figure_fields; f->name; f++) {
        uint64_t v;
        memcpy(&v, (const char *)&figures + f->offset, sizeof v);
        tide_arg n = tide_arg_uint(v);
        value_push(L, &n);
        lua_setfield(L, -2, f->name);
    }
    return 1;
}

static int status(lua_State *L) {
    binding_enter(L);
    tide_runtime *rt = binding_runtime(L)->rt;
    size_t n = tide_runtime_text(rt, NULL, 0);
    char *to = lua_newuserdata(L, n + 1);
    tide_runtime_text(rt, to, n + 1);
    lua_pushstring(L, to);
    return 1;
}

/* tide.reclaim([level]): bytes that came back; 1 to 5, as tide/reclaim.h has them from 0. */
static int reclaim(lua_State *L) {
    static const named_value levels[] = {{"purge", TIDE_RECLAIM_PURGE}, {"sync", TIDE_RECLAIM_SYNC},
                                         {"gc", TIDE_RECLAIM_GC},       {"drop", TIDE_RECLAIM_DROP},
                                         {"spill", TIDE_RECLAIM_SPILL}, {NULL, 0}};
    static const char *const params[] = {"level", NULL};
    static const lua_function f = {.name = "reclaim", .params = params, .nparams = 1};
    call c = call_begin(L, &f);
    int level = (int)arg_named(&c, 0, levels, TIDE_RECLAIM_GC, false);
    tide_runtime *rt = binding_runtime(L)->rt;
    size_t freed = 0;
    binding_within(c.b, L);
    tide_status s = tide_reclaim(rt, level, &freed);
    binding_without(c.b);
    if (s != TIDE_OK) return call_failed(L);
    lua_pushnumber(L, (lua_Number)freed);
    return 1;
}

static int synchronize(lua_State *L) {
    binding *b = binding_enter(L);
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(b, L);
    tide_status s = tide_synchronize(rt, NULL);
    binding_without(b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

static int collect_now(lua_State *L) {
    binding *b = binding_enter(L);
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(b, L);
    tide_status s = tide_collect(rt);
    binding_without(b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

/* tide.seed(n): random arrays from now on. */
static int seed(lua_State *L) {
    binding *b = binding_enter(L);
    b->rng = (tide_rng){.seed = (uint64_t)luaL_checkinteger(L, 1)};
    return 0;
}

/* ---- arrays of Lua's values ---- */

/* tide.array(values [, dtype]) */
static int make_array(lua_State *L) {
    static const char *const params[] = {"values", "dtype", NULL};
    static const lua_function f = {.name = "array", .params = params, .nparams = 2};
    call c = call_begin(L, &f);
    tide_dtype t = arg_dtype(&c, 1, TIDE_DTYPE_COUNT);
    int at = call_at(&c, 0);
    tide_arg v;
    if (at && lua_istable(L, at)) return value_array(L, c.b, at, t), 1;
    if (!at || !value_arg(L, at, &v)) return call_error(&c, 0, "a table, a number or a boolean");
    tide_array **out = array_slot(L, c.b);
    opened *o = v.kind == TIDE_ARG_ARRAY ? NULL : binding_runtime(L);
    static const tide_dtype types[] = {
        [TIDE_ARG_BOOL] = TIDE_BOOL, [TIDE_ARG_INT] = TIDE_I64, [TIDE_ARG_FLOAT] = TIDE_F64};
    binding_within(c.b, L);
    if (v.kind == TIDE_ARG_ARRAY)
        *out = t == TIDE_DTYPE_COUNT ? tide_copy(v.value.array) : tide_cast(v.value.array, t);
    else
        *out = tide_full(o->rt, t == TIDE_DTYPE_COUNT ? types[v.kind] : t, 0, NULL, v);
    binding_without(c.b);
    return array_made(L, out);
}

/* tide.arange([start,] stop [, step [, dtype]]): start, start + step, ... before stop. */
static int arange(lua_State *L) {
    static const char *const params[] = {"start", "stop", "step", "dtype", NULL};
    static const lua_function f = {.name = "arange", .params = params, .nparams = 4};
    call c = call_begin(L, &f);
    bool integers = true;
    double part[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++) {
        int at = call_at(&c, i);
        part[i] = arg_double(&c, i, false, part[i]);
        integers = integers && (!at || lua_isinteger(L, at));
    }
    if (!call_at(&c, 1)) {
        if (!call_at(&c, 0)) return call_error(&c, 1, "a number");
        part[1] = part[0], part[0] = 0;
    }
    tide_dtype t = arg_dtype(&c, 3, integers ? TIDE_I64 : TIDE_F64);
    opened *o = binding_runtime(L);
    tide_array **out = array_slot(L, c.b);
    binding_within(c.b, L);
    *out = tide_arange(o->rt, t, part[0], part[1], part[2]);
    binding_without(c.b);
    return array_made(L, out);
}

/* ---- help ---- */

static void add_signature(luaL_Buffer *text, const lua_function *f) {
    luaL_addstring(text, "tide.");
    luaL_addstring(text, f->name);
    luaL_addstring(text, "(");
    for (int i = 0; i < f->nparams; i++) {
        luaL_addstring(text, i ? ", " : "");
        luaL_addstring(text, f->params[i]);
    }
    luaL_addstring(text, ")");
}

/* tide.help(): all names by group; tide.help("sum"): what it takes and does. A text. */
static int help(lua_State *L) {
    const char *name = luaL_optstring(L, 1, NULL), *group = "";
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    for (size_t i = 0; i < lua_nfunctions; i++) {
        const lua_function *f = &lua_functions[i];
        if (name && strcmp(name, f->name) == 0) {
            add_signature(&text, f);
            luaL_addstring(&text, f->method ? "; a method of arrays too\n" : "\n");
            luaL_addstring(&text, f->text);
            luaL_pushresult(&text);
            return 1;
        }
        if (name) continue;
        if (strcmp(group, f->group) != 0) {
            luaL_addstring(&text, i ? "\n\n" : "");
            luaL_addstring(&text, group = f->group);
            luaL_addstring(&text, ":");
        }
        luaL_addstring(&text, " ");
        luaL_addstring(&text, f->name);
    }
    luaL_pushresult(&text);
    return name ? luaL_error(L, "help: there is no function '%s'; tide.help() lists all", name) : 1;
}

/* ---- the table ---- */

/* Functions are made as they are first asked for: each is something that Lua's collector looks at.
** The upvalues are the binding and whether only methods are wanted. */
static int find_function(lua_State *L) {
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    bool methods = lua_toboolean(L, lua_upvalueindex(2));
    for (size_t i = 0; i < lua_nfunctions; i++) {
        const lua_function *f = &lua_functions[i];
        if (strcmp(f->name, name) != 0 || (methods && !f->method)) continue;
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_pushcclosure(L, f->call, 1);
        lua_pushvalue(L, 2);
        lua_pushvalue(L, -2);
        lua_rawset(L, 1);
        return 1;
    }
    return 0;
}

/* Gives the table on the top those functions. */
static void add_functions(lua_State *L, int upvalue, bool methods) {
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, upvalue);
    lua_pushboolean(L, methods);
    lua_pushcclosure(L, find_function, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

/* tide.fuse, before it is called for the first time: fuse.lua puts itself in its place. Its upvalue
** is the module. */
static int first_fuse(lua_State *L) {
    int n = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    if (luaL_loadbuffer(L, fuse_text, strlen(fuse_text), "=tidepool.fuse") != 0)
        return lua_error(L);
    lua_pushvalue(L, n + 1);
    lua_newtable(L);
    for (size_t i = 0; i < lua_nfunctions; i++) {
        if (!lua_functions[i].expression) continue;
        lua_pushstring(L, lua_functions[i].name);
        lua_rawseti(L, -2, (int)lua_rawlen(L, -2) + 1);
    }
    lua_call(L, 2, 0);
    lua_getfield(L, n + 1, "fuse");
    lua_replace(L, n + 1);
    lua_insert(L, 1);
    lua_call(L, n, 1);
    return 1;
}

static void runtime_metatable(lua_State *L, int upvalue) {
    static const luaL_Reg own[] = {{"close", close_runtime}, {"use", use_runtime}, {NULL, NULL}};
    luaL_newmetatable(L, runtime_type);
    lua_newtable(L);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, own, 1);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, upvalue);
    lua_pushcclosure(L, close_runtime, 1);
    lua_setfield(L, -2, "__close");
    lua_pushliteral(L, "a runtime's metatable is the module's");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_tidepool(lua_State *L);
int luaopen_tidepool(lua_State *L) {
    static const luaL_Reg own[] = {{"open", open_runtime},   {"stats", stats},
                                   {"status", status},       {"reclaim", reclaim},
                                   {"collect", collect_now}, {"synchronize", synchronize},
                                   {"seed", seed},           {"array", make_array},
                                   {"arange", arange},       {"map_into", expr_map_into},
                                   {"expr", expr_new},       {"from_bytes", value_from_bytes},
                                   {"help", help},           {NULL, NULL}};
    binding_new(L);
    int upvalue = lua_gettop(L), module = upvalue + 1, methods = upvalue + 2;
    lua_newtable(L);
    add_functions(L, upvalue, false);
    lua_newtable(L);
    add_functions(L, upvalue, true);
    array_metatable(L, upvalue);
    expr_metatable(L, upvalue);
    runtime_metatable(L, upvalue);
    lua_pushvalue(L, methods);
    lua_setfield(L, module, "methods");
    lua_settop(L, module);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, own, 1);
    lua_pushvalue(L, upvalue);
    lua_newtable(L);
    lua_pushcclosure(L, expr_map, 2);
    lua_setfield(L, module, "map");
    lua_pushvalue(L, module);
    lua_pushcclosure(L, first_fuse, 1);
    lua_setfield(L, module, "fuse");
    lua_pushstring(L, tide_version());
    lua_setfield(L, module, "version");
    return 1;
}
