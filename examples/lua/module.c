/* module.c: require "tidepool": the module's table, runtimes, figures, help.
**
** Model. The table finds all functions in calls.c, where bind.py lists those that it wrote from
** tide-api.json and those of functions.md, which are written by hand; the ones that take an array
** first are methods of arrays too. What is written in Lua (adapt.lua) gets the table and adds to
** it, when it is first asked for. */
#include "binding.h"
#include "tables.h"
#include <dlfcn.h>

static const char runtime_type[] = "tidepool.runtime";

/* ---- runtimes ---- */

static opened *arg_runtime(call *c, int i) {
    int at = call_at(c, i);
    opened **o = at ? userdata_at(c->L, at, runtime_type) : NULL;
    if (!o) call_error(c, i, "a runtime");
    return *o;
}

/* The function `log` goes out of the table at 1, which becomes a copy, to 2; nil: there is none. */
static void read_log(lua_State *L) {
    lua_getfield(L, 1, "log");
    if (lua_isnil(L, -1)) return;
    if (!lua_isfunction(L, -1))
        fail(L, "open: expected a function as 'log', found %s", luaL_typename(L, -1));
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_pushnil(L);
    lua_setfield(L, -2, "log");
    lua_replace(L, 1);
}

int own_open(lua_State *L) {
    binding *b = binding_enter(L);
    tide_config config = {.struct_size = sizeof config, .collector = "refcount"};
    if (!lua_isnoneornil(L, 1) && !lua_istable(L, 1))
        return fail(L, "open: expected a table of settings, found %s", luaL_typename(L, 1));
    lua_settop(L, 1);
    if (lua_istable(L, 1)) {
        read_log(L);
        fields_read(L, 1, "open", config_fields, &config);
    }
    lua_settop(L, 2);
    policy_of_config(L, &config);
    opened **o = lua_newuserdata(L, sizeof *o);
    luaL_getmetatable(L, runtime_type);
    lua_setmetatable(L, -2);
    int at = lua_gettop(L), log = LUA_NOREF;
    lua_pushvalue(L, 2);
    if (lua_isfunction(L, -1)) log = luaL_ref(L, LUA_REGISTRYINDEX);
    *o = NULL;
    opened *made = binding_open(L, b, &config, log);
    *o = made;
    lua_settop(L, at);
    return 1;
}

/* False: it is refused, inside of what the library calls, and the runtime stays open. */
static bool close_runtime(lua_State *L, binding *b, opened *o) {
    tide_error_clear();
    binding_within(b, L);
    tide_close(o->rt);
    binding_without(b);
    if (tide_error_last()->status == TIDE_E_INVALID) return false;
    tide_error_clear(); /* closed before: nothing to do */
    opened **link = &b->all;
    while (*link && *link != o) link = &(*link)->next;
    if (*link) *link = o->next;
    if (b->current == o) b->current = NULL;
    return true;
}

int own_runtime_close(lua_State *L) {
    if (lua_gettop(L) > 1) lua_settop(L, 1); /* the end of a block gives an error too */
    call c = call_begin(L, OWN(runtime_close));
    binding *b = c.b;
    opened *o = arg_runtime(&c, 0);
    if (!close_runtime(L, b, o)) return call_failed(L);
    caches_close(L, o);
    texts_close(L, o);
    later_run(L, b); /* deaths, and the last lines */
    if (b->delivering) return 0;
    luaL_unref(L, LUA_REGISTRYINDEX, o->log);
    o->log = LUA_NOREF;
    return 0;
}

int own_runtime_use(lua_State *L) {
    call c = call_begin(L, OWN(runtime_use));
    opened *o = arg_runtime(&c, 0), *open = c.b->all;
    while (open && open != o) open = open->next;
    if (!open) return fail(L, "runtime:use: the runtime was closed");
    c.b->current = o;
    lua_settop(L, 1);
    return 1;
}

/* ---- the runtime as a whole ---- */

int own_stats(lua_State *L) {
    binding_release_found(call_begin(L, OWN(stats)).b);
    tide_runtime_figures figures = {.struct_size = sizeof figures};
    if (tide_runtime_info(binding_runtime(L)->rt, &figures) != TIDE_OK) return call_failed(L);
    lua_newtable(L);
    fields_set(L, figure_fields, &figures);
    return 1;
}

int own_status(lua_State *L) {
    binding *b = call_begin(L, OWN(status)).b;
    binding_release_found(b);
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(b, L); /* caches are asked what they hold */
    size_t n = tide_runtime_text(rt, NULL, 0);
    binding_without(b);
    if (n == 0) return call_failed(L);
    n += 256; /* it may have grown */
    char *to = lua_newuserdata(L, n);
    binding_within(b, L);
    tide_runtime_text(rt, to, n);
    binding_without(b);
    lua_pushstring(L, to);
    return 1;
}

int own_reclaim(lua_State *L) {
    static const named_value levels[] = {{"purge", TIDE_RECLAIM_PURGE}, {"sync", TIDE_RECLAIM_SYNC},
                                         {"gc", TIDE_RECLAIM_GC},       {"drop", TIDE_RECLAIM_DROP},
                                         {"spill", TIDE_RECLAIM_SPILL}, {NULL, 0}};
    call c = call_begin(L, OWN(reclaim));
    int level = (int)arg_named(&c, 0, levels, TIDE_RECLAIM_GC, false);
    tide_runtime *rt = binding_runtime(L)->rt;
    size_t freed = 0;
    binding_release_found(c.b);
    binding_within(c.b, L);
    tide_status s = tide_reclaim(rt, level, &freed);
    binding_without(c.b);
    if (s != TIDE_OK) return call_failed(L);
    lua_pushnumber(L, (lua_Number)freed);
    return 1;
}

int own_collect(lua_State *L) {
    binding *b = call_begin(L, OWN(collect)).b;
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(b, L);
    tide_status s = tide_collect(rt);
    binding_without(b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

int own_safepoint(lua_State *L) {
    binding *b = call_begin(L, OWN(safepoint)).b;
    binding_release_found(b);
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(b, L);
    tide_safepoint(rt);
    binding_without(b);
    return 0;
}

int own_reset_peaks(lua_State *L) {
    binding_release_found(call_begin(L, OWN(reset_peaks)).b);
    tide_runtime_reset_peaks(binding_runtime(L)->rt);
    return 0;
}

int own_seed(lua_State *L) {
    call c = call_begin(L, OWN(seed));
    c.b->rng = (tide_rng){.seed = (uint64_t)arg_int(&c, 0, true, 0)};
    return 0;
}

/* ---- arrays of Lua's values ---- */

int own_array(lua_State *L) {
    call c = call_begin(L, OWN(array));
    tide_dtype t = arg_dtype(&c, 1, TIDE_DTYPE_COUNT);
    int at = call_at(&c, 0);
    tide_arg v;
    if (at && lua_istable(L, at)) return value_array(L, c.b, binding_runtime(L)->rt, at, t), 1;
    if (!at || !value_arg(L, c.b, at, &v))
        return call_error(&c, 0, "a table, a number or a boolean");
    tide_array **out = array_slot(L, c.b);
    opened *o = v.kind == TIDE_ARG_ARRAY ? NULL : binding_runtime(L);
    binding_within(c.b, L);
    if (v.kind == TIDE_ARG_ARRAY)
        *out = t == TIDE_DTYPE_COUNT ? tide_copy(v.value.array) : tide_cast(v.value.array, t);
    else
        *out = tide_full(o->rt, t == TIDE_DTYPE_COUNT ? value_type(&v) : t, 0, NULL, v);
    binding_without(c.b);
    return array_made(L, out);
}

int own_arange(lua_State *L) {
    call c = call_begin(L, OWN(arange));
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

/* ---- functions by name ---- */

const lua_function *function_named(const char *name) {
    for (size_t i = 0; i < lua_nfunctions; i++)
        if (strcmp(lua_functions[i].name, name) == 0) return &lua_functions[i];
    return NULL;
}

/* ---- help ---- */

static void add_signature(luaL_Buffer *text, const lua_function *f) {
    bool of_object = strchr(f->name, ':') != NULL; /* which stands before the colon */
    luaL_addstring(text, of_object ? "" : "tide.");
    luaL_addstring(text, f->name);
    luaL_addstring(text, "(");
    for (int i = of_object; i < f->nparams; i++) {
        luaL_addstring(text, i > of_object ? ", " : "");
        luaL_addstring(text, f->params[i]);
    }
    luaL_addstring(text, ")");
}

static void add_help(luaL_Buffer *text, const lua_function *f) {
    add_signature(text, f);
    luaL_addstring(text, f->method ? "; a method of arrays too\n" : "\n");
    luaL_addstring(text, f->text);
    if (!f->example) return;
    luaL_addstring(text, "\n\n");
    luaL_addstring(text, f->example);
}

static int help_of_all(lua_State *L) {
    const char *group = "";
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    for (size_t i = 0; i < lua_nfunctions; i++) {
        const lua_function *f = &lua_functions[i];
        if (strcmp(group, f->group) != 0) {
            luaL_addstring(&text, i ? "\n\n" : "");
            luaL_addstring(&text, group = f->group);
            luaL_addstring(&text, ":");
        }
        luaL_addstring(&text, " ");
        luaL_addstring(&text, f->name);
    }
    luaL_pushresult(&text);
    return 1;
}

/* By its name, with what stands before it in a program or without, or as a value. */
static const lua_function *asked_for(lua_State *L) {
    lua_CFunction value = lua_tocfunction(L, 1);
    for (size_t i = 0; value && i < lua_nfunctions; i++)
        if (lua_functions[i].call == value) return &lua_functions[i];
    if (lua_type(L, 1) != LUA_TSTRING)
        fail(L, "help: expected a name, or a function of the module's, found %s",
             luaL_typename(L, 1));
    const char *name = lua_tostring(L, 1);
    const lua_function *f = function_named(name);
    if (!f && strncmp(name, "tide.", 5) == 0) f = function_named(name + 5);
    if (!f && strncmp(name, "a:", 2) == 0) f = function_named(name + 2);
    if (!f) fail(L, "help: there is no function '%s'; tide.help() lists all", name);
    return f;
}

int own_help(lua_State *L) {
    if (lua_isnoneornil(L, 1)) return help_of_all(L);
    const lua_function *f = asked_for(L);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    add_help(&text, f);
    luaL_pushresult(&text);
    return 1;
}

/* ---- the table ---- */

int part_load(lua_State *L, const char *name) {
    const lua_part *part = lua_parts;
    while (strcmp(part->name, name) != 0) part++;
    lua_pushfstring(L, "=tidepool.%s", name);
    if (luaL_loadbuffer(L, part->text, strlen(part->text), lua_tostring(L, -1)) != 0)
        return lua_error(L);
    lua_remove(L, -2);
    return 1;
}

/* Runs the part of that name, which adds its function to the module's table at 1; pushes that. */
static int run_part(lua_State *L, const char *name) {
    part_load(L, name);
    lua_pushvalue(L, 1);
    lua_pushcfunction(L, fail_text);
    lua_call(L, 2, 0);
    lua_pushstring(L, name);
    lua_rawget(L, 1);
    return 1;
}

/* Functions are made as they are first asked for: each is something that Lua's collector looks at.
** The upvalues are the binding and whether only methods are wanted. */
static int find_function(lua_State *L) {
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    bool methods = lua_toboolean(L, lua_upvalueindex(2));
    const lua_function *f = function_named(name);
    if (!f || strchr(name, ':') || (methods && !f->method)) return 0;
    if (!f->call) return run_part(L, name);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushcclosure(L, f->call, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
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

static void runtime_metatable(lua_State *L, int upvalue) {
    type_metatable(L, "runtime", upvalue);
    lua_pushvalue(L, upvalue);
    lua_pushcclosure(L, own_runtime_close, 1);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}

/* A Lua state that ends unloads its modules, but policies stay for the process, and a death may be
** told after that. */
static void stay_loaded(void) {
    Dl_info here;
    if (dladdr((void *)(intptr_t)stay_loaded, &here))
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

__attribute__((visibility("default"))) int luaopen_tidepool(lua_State *L);
int luaopen_tidepool(lua_State *L) {
    static const char *const objects[] = {"stream", "pool", "cache"};
    stay_loaded();
    binding *b = binding_new(L);
    int upvalue = lua_gettop(L), module = upvalue + 1, methods = upvalue + 2;
    lua_newtable(L);
    lua_pushvalue(L, -1);
    b->module = luaL_ref(L, LUA_REGISTRYINDEX);
    add_functions(L, upvalue, false);
    lua_newtable(L);
    add_functions(L, upvalue, true);
    array_metatable(L, upvalue);
    expr_metatable(L, upvalue);
    runtime_metatable(L, upvalue);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        object_metatable(L, objects[i], upvalue);
    view_metatable(L, upvalue);
    iterator_metatable(L, upvalue);
    lua_pushvalue(L, methods);
    lua_setfield(L, module, "methods");
    lua_settop(L, module);
    lua_pushstring(L, tide_version());
    lua_setfield(L, module, "version");
    return 1;
}
