/* lua_view.c: views of the host's: a:view(), the elements of pinned and unified arrays in place.
**
** Model. A view is open until it is released, or found dead; v[i], v[{i, j}] and v(i, j) are its
** elements, from 1 on; v.pointer is where the first one is.
** What must stay true: an element is touched only while the array is there: the memory outlives
** tide_free, but not the runtime. */
#include "binding.h"
#include "tables.h"
#include <stdlib.h>

typedef struct view {
    tide_host_view of;
    tide_array *array; /* a reference */
    int mode;
} view;

static void end_view(void *ref) {
    view *v = ref;
    if (tide_host_view_end(&v->of) != TIDE_OK) tide_error_clear(); /* its runtime was closed */
    tide_release(v->array);
    free(v);
}

int own_view(lua_State *L) {
    static const named_value modes[] = {{"read", TIDE_READ}, {"write", TIDE_WRITE}, {NULL, 0}};
    call c = call_begin(L, OWN(view));
    tide_array *a = arg_own_array(&c, 0);
    int mode = (int)arg_named(&c, 1, modes, TIDE_READ | TIDE_WRITE, true);
    opened *o = binding_runtime_of(L, a);
    object *x = object_new(L, o, "view", end_view);
    view *v = malloc(sizeof *v);
    if (!v) return fail(L, "view: no memory is left");
    *v = (view){.mode = mode};
    binding_within(c.b, L);
    bool well = tide_host_view_begin(a, mode, &v->of) == TIDE_OK;
    binding_without(c.b);
    if (!well) {
        free(v);
        return call_failed(L);
    }
    v->array = tide_retain(a);
    x->ref = v;
    return 1;
}

/* ---- elements ---- */

static view *self(lua_State *L) {
    object *x = object_at(L, 1, "view");
    if (!x) fail(L, "view: expected a view, found %s", luaL_typename(L, 1));
    if (!x->ref) fail(L, "view: the view was released");
    view *v = x->ref;
    if (tide_array_is_freed(v->array)) fail(L, "view: the array was freed");
    return v;
}

/* The place along an axis, from 0; of the value at i. */
static int64_t place(lua_State *L, const view *v, int axis, int i) {
    int64_t at, n = v->of.shape[axis];
    if (!value_whole(L, i, &at))
        fail(L, "view: expected an integer for axis %d, found %s", axis + 1, luaL_typename(L, i));
    if (at == 0 || at > n || at < -n)
        fail(L, "view: %s is beyond axis %d, which has %s elements", value_text(L, at), axis + 1,
             value_text(L, n));
    return at > 0 ? at - 1 : at + n;
}

/* Where the element is that `n` indices from `first` on name; of a table at `list` its values. */
static char *element(lua_State *L, const view *v, int list, int first, int n) {
    int64_t offset = 0;
    if (list) n = (int)lua_rawlen(L, list);
    if (n != v->of.ndim) fail(L, "view: %d indices of an array with %d axes", n, (int)v->of.ndim);
    for (int d = 0; d < n; d++) {
        if (list) lua_rawgeti(L, list, d + 1);
        offset += v->of.strides[d] * place(L, v, d, list ? -1 : first + d);
        if (list) lua_pop(L, 1);
    }
    return (char *)v->of.data + offset * (int64_t)tide_dtype_size(v->of.dtype);
}

static void push_numbers(lua_State *L, const int64_t *from, int n) {
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_pushinteger(L, (lua_Integer)from[d]);
        lua_rawseti(L, -2, d + 1);
    }
}

static bool property(lua_State *L, const view *v, const char *name) {
    if (strcmp(name, "shape") == 0)
        push_numbers(L, v->of.shape, v->of.ndim);
    else if (strcmp(name, "strides") == 0)
        push_numbers(L, v->of.strides, v->of.ndim);
    else if (strcmp(name, "dtype") == 0)
        lua_pushstring(L, tide_dtype_name(v->of.dtype));
    else if (strcmp(name, "ndim") == 0)
        lua_pushinteger(L, v->of.ndim);
    else if (strcmp(name, "pointer") == 0)
        lua_pushlightuserdata(L, v->of.data);
    else
        return false;
    return true;
}

static int index_view(lua_State *L) {
    binding_enter(L);
    if (lua_type(L, 2) == LUA_TSTRING) {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(2)); /* methods */
        if (!lua_isnil(L, -1)) return 1;
    }
    view *v = self(L);
    if (lua_type(L, 2) == LUA_TSTRING) {
        if (property(L, v, lua_tostring(L, 2))) return 1;
        return fail(L, "a view has no method or property '%s'", lua_tostring(L, 2));
    }
    int64_t at;
    if (value_whole(L, 2, &at) && v->of.ndim == 1 && at == v->of.shape[0] + 1)
        return lua_pushnil(L), 1; /* so that ipairs ends */
    value_push_element(L, v->of.dtype, element(L, v, lua_istable(L, 2) ? 2 : 0, 2, 1));
    return 1;
}

static int call_view(lua_State *L) {
    binding_enter(L);
    view *v = self(L);
    value_push_element(L, v->of.dtype, element(L, v, 0, 2, lua_gettop(L) - 1));
    return 1;
}

static int assign_view(lua_State *L) {
    binding_enter(L);
    view *v = self(L);
    if (!(v->mode & TIDE_WRITE)) return fail(L, "view: it was opened to be read");
    char *to = element(L, v, lua_istable(L, 2) ? 2 : 0, 2, 1);
    value_write_element(L, 3, "view", v->of.dtype, to);
    return 0;
}

static int length_of(lua_State *L) {
    binding_enter(L);
    view *v = self(L);
    if (v->of.ndim == 0) return fail(L, "#: a view without axes has no length");
    lua_pushinteger(L, (lua_Integer)v->of.shape[0]);
    return 1;
}

/* ---- its end, and LuaJIT's pointer ---- */

int own_view_release(lua_State *L) {
    call c = call_begin(L, OWN(view_release));
    object_release(&c, "view");
    return 0;
}

int own_view_ffi(lua_State *L) {
    static const char name[] = "tidepool.ffi";
    call c = call_begin(L, OWN(view_ffi));
    arg_object(&c, 0, "view");
    lua_settop(L, 1);
    self(L);
    if (LUA_VERSION_NUM > 501) return fail(L, "view:ffi: only LuaJIT has pointers");
    lua_getfield(L, LUA_REGISTRYINDEX, name);
    if (lua_isnil(L, -1)) {
        part_load(L, "ffi");
        lua_call(L, 0, 1);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, name);
    }
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

void view_metatable(lua_State *L, int upvalue) {
    static const luaL_Reg events[] = {
        {"__call", call_view}, {"__newindex", assign_view}, {"__len", length_of}, {NULL, NULL}};
    object_metatable(L, "view", upvalue);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, events, 1);
    lua_pushvalue(L, upvalue);
    lua_getfield(L, -2, "__index");
    lua_pushcclosure(L, index_view, 2);
    lua_setfield(L, -2, "__index");
}
