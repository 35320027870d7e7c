/* lua_array.c: arrays as Lua sees them: operators, indices, printing, their end.
**
** Model. The userdata is one pointer. a[k] and a(k, l, ...) take for each axis an integer, which
** drops the axis, a table {first, last, step} of inclusive bounds, an array of places or of bools,
** tide.newaxis or tide.ellipsis; a[{...}] is the same list as a table. Numbers count from 1, and
** from the end where negative. An index that names one element gives a number.
** What must stay true: an index of ranges alone is a view; nothing here compares two arrays behind
** an operator whose result Lua would turn into a boolean. */
#include "binding.h"
#include "tables.h"

const char array_type[] = "tidepool.array";
static const char newaxis_mark = 0, ellipsis_mark = 0;

/* By the metatable's address: a name would be searched for in the registry, for each operand of an
** addition. Leaves the metatable on the stack where there is one. */
static inline tide_array **slot_in(lua_State *L, const binding *b, int i) {
    tide_array **slot = lua_touserdata(L, i);
    if (!slot || !lua_getmetatable(L, i)) return NULL;
    return lua_topointer(L, -1) == b->array_address ? slot : NULL;
}

tide_array *array_in(lua_State *L, const binding *b, int i) {
    int top = lua_gettop(L);
    tide_array **slot = slot_in(L, b, i);
    lua_settop(L, top);
    return slot ? *slot : NULL;
}

tide_array **array_slot_at(lua_State *L, int i) {
    const binding *b = lua_touserdata(L, lua_upvalueindex(1));
    if (!b) return userdata_at(L, i, array_type);
    int top = lua_gettop(L);
    tide_array **slot = slot_in(L, b, i);
    lua_settop(L, top);
    return slot;
}

bool arrays_at(lua_State *L, const binding *b, int n, tide_arg *out) {
    for (int i = 0; i < n; i++) {
        tide_array **slot = slot_in(L, b, i + 1);
        if (!slot || !*slot) return lua_settop(L, n), false;
        out[i] = tide_arg_array(*slot);
    }
    return true;
}

tide_array *array_at(lua_State *L, int i) {
    tide_array **slot = array_slot_at(L, i);
    return slot ? *slot : NULL;
}

tide_array **array_slot(lua_State *L, binding *b) {
    binding_before_array(L, b);
#if LUA_VERSION_NUM >= 504
    tide_array **slot = lua_newuserdatauv(L, sizeof *slot, 0);
#else
    tide_array **slot = lua_newuserdata(L, sizeof *slot);
#endif
    *slot = NULL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->array_metatable);
    lua_setmetatable(L, -2);
    return slot;
}

int array_made(lua_State *L, tide_array *const *slot) { return *slot ? 1 : call_failed(L); }

static tide_array *places(lua_State *L, binding *b, tide_array *from, const char *what,
                          const char *text) {
    tide_dtype t = tide_array_dtype(from);
    if (t < 0) call_failed(L);
    if ((t < TIDE_I8 || t > TIDE_U64) && tide_array_size(from) != 0)
        fail(L, "%s: expected places, which are integers, found an array of %s", what,
             tide_dtype_name(t));
    tide_array **to = array_slot(L, b);
    tide_arg arg = tide_arg_array(from);
    binding_within(b, L);
    *to = tide_map_args(tide_array_runtime(from), text, &arg, 1);
    binding_without(b);
    array_made(L, to);
    return *to;
}

tide_array *array_places_in(lua_State *L, binding *b, tide_array *from, const char *what) {
    static const char text[] = /* NO_PLACE */
        "(i) -> where(i > 0, i64(i) - 1, where(i < 0, i64(i), -9223372036854775807))";
    return places(L, b, from, what, text);
}

tide_array *array_offsets_in(lua_State *L, binding *b, tide_array *from, const char *what) {
    return places(L, b, from, what, "(i) -> i64(i) - 1");
}

void array_places_out(lua_State *L, binding *b) {
    tide_array **from = lua_touserdata(L, -1);
    places(L, b, *from, "places", "(i) -> i64(i) + 1");
    tide_release(*from);
    *from = NULL;
    lua_remove(L, -2);
}

/* ---- the end ---- */

static int collect_array(lua_State *L) {
    binding *b = lua_touserdata(L, lua_upvalueindex(1));
    tide_array **slot = slot_in(L, b, 1);
    if (!slot || !*slot) return 0; /* somebody called it, with something else or twice */
    binding_found(b, *slot);
    *slot = NULL;
    return 0;
}

/* a:free(), and `local a <close>`: its memory is free at once; using it afterwards is an error. */
int own_free(lua_State *L) {
    tide_array **slot = array_slot_at(L, 1);
    if (!slot) return fail(L, "free: expected an array, found %s", luaL_typename(L, 1));
    binding_enter(L);
    tide_free(*slot);
    return 0;
}

/* ---- looking ---- */

static tide_array *self(lua_State *L, const char *what) {
    tide_array *a = array_at(L, 1);
    if (!a) fail(L, "%s: expected an array, found %s", what, luaL_typename(L, 1));
    return a;
}

static int text_of(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "tostring");
    binding_within(b, L);
    size_t n = tide_array_text(a, NULL, 0);
    binding_without(b);
    if (n == 0) { /* what a debugger prints is no reason for an error */
        lua_pushfstring(L, "an array that cannot be shown: %s", tide_error_last()->message);
        tide_error_clear();
        return 1;
    }
    char *to = lua_newuserdata(L, n + 1);
    binding_within(b, L);
    tide_array_text(a, to, n + 1);
    binding_without(b);
    lua_pushlstring(L, to, strnlen(to, n));
    return 1;
}

static int length_of(lua_State *L) {
    binding_enter(L);
    tide_array *a = self(L, "#");
    if (tide_array_ndim(a) == 0) return fail(L, "#: an array without axes has no length");
    int64_t n = tide_array_dim(a, 0);
    if (n < 0) return call_failed(L);
    lua_pushinteger(L, (lua_Integer)n);
    return 1;
}

int own_item(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "item");
    tide_arg v;
    binding_within(b, L);
    tide_status s = tide_item(a, &v);
    binding_without(b);
    if (s != TIDE_OK) return call_failed(L);
    value_push(L, &v);
    return v.kind == TIDE_ARG_COMPLEX ? 2 : 1;
}

static void push_shape(lua_State *L, tide_array *a) {
    int n = tide_array_ndim(a);
    if (n < 0) call_failed(L);
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_pushinteger(L, (lua_Integer)tide_array_dim(a, d));
        lua_rawseti(L, -2, d + 1);
    }
}

static const char *const memory_names[] = {"default", "device", "pinned", "unified"};

/* What an array is: a.shape and its like. False: there is no such property. */
static bool property(lua_State *L, tide_array *a, const char *name) {
    int64_t number;
    if (strcmp(name, "shape") == 0) return push_shape(L, a), true;
    if (strcmp(name, "dtype") == 0) {
        tide_dtype t = tide_array_dtype(a);
        if (t < 0) call_failed(L);
        return lua_pushstring(L, tide_dtype_name(t)), true;
    }
    if (strcmp(name, "memory") == 0) {
        tide_memory m = tide_array_memory(a);
        if (m < TIDE_MEMORY_DEVICE || m > TIDE_MEMORY_UNIFIED) call_failed(L);
        return lua_pushstring(L, memory_names[m]), true;
    }
    if (strcmp(name, "ndim") == 0)
        number = tide_array_ndim(a);
    else if (strcmp(name, "size") == 0)
        number = tide_array_size(a);
    else if (strcmp(name, "device") == 0)
        number = tide_array_device(a);
    else
        return false;
    if (number < 0) call_failed(L);
    return lua_pushinteger(L, (lua_Integer)number), true;
}

static int64_t arg_small(call *c, int i) {
    int64_t v = arg_int(c, i, false, 0);
    if (v < INT32_MIN || v > INT32_MAX) call_error(c, i, "a smaller integer");
    return v;
}

int own_format(lua_State *L) {
    static const named_value modes[] = {{"maxprec", TIDE_PRINT_MAXPREC},
                                        {"maxprec_equal", TIDE_PRINT_MAXPREC_EQUAL},
                                        {"fixed", TIDE_PRINT_FIXED},
                                        {"unique", TIDE_PRINT_UNIQUE},
                                        {NULL, 0}};
    call c = call_begin(L, OWN(format));
    binding *b = c.b;
    tide_array *a = arg_own_array(&c, 0);
    tide_print_options options = {.struct_size = sizeof options,
                                  .precision = (int)arg_small(&c, 1),
                                  .float_mode = (int)arg_named(&c, 2, modes, 0, false),
                                  .threshold = arg_int(&c, 3, false, 0),
                                  .edge_items = (int)arg_small(&c, 4),
                                  .line_width = (int)arg_small(&c, 5),
                                  .suppress_small = arg_switch(&c, 6, false)};
    tide_error_clear();
    binding_within(b, L);
    size_t n = tide_array_text_with(a, &options, NULL, 0);
    binding_without(b);
    if (n == 0) return call_failed(L);
    char *to = lua_newuserdata(L, n + 1);
    binding_within(b, L);
    tide_array_text_with(a, &options, to, n + 1);
    binding_without(b);
    lua_pushlstring(L, to, strnlen(to, n));
    return 1;
}

/* ---- indices ---- */

typedef struct spot { /* what an index says of all axes */
    tide_pick at[2 * TIDE_MAX_RANK];
    int n, integers;
    bool arrays;
    int axis; /* of the next entry; -1: only the library knows */
} spot;

static int64_t whole(lua_State *L, int i, const char *what) {
    int64_t v;
    if (!value_whole(L, i, &v))
        fail(L, "index: expected an integer as the %s of a range, found %s", what,
             luaL_typename(L, i));
    if (v == 0) fail(L, "index: the %s of a range is 0: places count from 1", what);
    return v;
}

/* {first, last, step}, inclusive; what is left out is the beginning, the end, 1. */
static tide_range read_range(lua_State *L, int i) {
    static const char *const names[] = {"first", "last", "step"};
    int64_t part[3] = {TIDE_NONE, TIDE_NONE, 1};
    int found = 0;
    for (int k = 2; k >= 0; k--) {
        lua_rawgeti(L, i, k + 1);
        if (!lua_isnil(L, -1)) part[k] = whole(L, -1, names[k]), found++;
        lua_pop(L, 1);
    }
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
        if (found-- == 0) fail(L, "index: a range is {first, last, step}, and nothing else");
    int64_t first = part[0], last = part[1], step = part[2];
    if (first != TIDE_NONE && first > 0) first--;
    if (last == TIDE_NONE) return tide_range_slice(first, TIDE_NONE, step);
    if (step > 0) /* the first one beyond; beyond -1 is the end */
        last = last > 0 ? last : last == -1 ? TIDE_NONE : last + 1;
    else
        last = last > 1 ? last - 2 : last == 1 ? TIDE_NONE : last - 1;
    return tide_range_slice(first, last, step);
}

/* An integer, as the library counts; one beyond the axis is told as Lua counts. */
static int64_t read_place(lua_State *L, tide_array *a, int64_t v, const spot *s) {
    if (v == 0) fail(L, "index: 0 is no place: they count from 1");
    int64_t n =
        s->axis >= 0 && s->axis < tide_array_ndim(a) ? tide_array_dim(a, s->axis) : INT64_MAX;
    if (v > n || v < -n)
        fail(L, "index: %s is beyond axis %d, which has %s elements", value_text(L, v), s->axis + 1,
             value_text(L, n));
    return v > 0 ? v - 1 : v;
}

static void read_one(lua_State *L, binding *b, tide_array *a, int i, spot *s) {
    if (s->n == 2 * TIDE_MAX_RANK) fail(L, "index: more than %d entries", 2 * TIDE_MAX_RANK);
    tide_pick *p = &s->at[s->n++];
    const void *mark = lua_islightuserdata(L, i) ? lua_touserdata(L, i) : NULL;
    int64_t place;
    if (value_whole(L, i, &place)) {
        *p = tide_pick_range(tide_range_index(read_place(L, a, place, s)));
        s->integers++;
    } else if (lua_istable(L, i))
        *p = tide_pick_range(read_range(L, i));
    else if (array_slot_at(L, i)) {
        tide_array *picks = array_at(L, i); /* a mask, or places */
        *p = tide_pick_array(
            tide_array_dtype(picks) == TIDE_BOOL ? picks : array_places_in(L, b, picks, "index"));
        s->arrays = true;
    } else if (mark == &newaxis_mark)
        *p = tide_pick_range(tide_range_newaxis());
    else if (mark == &ellipsis_mark)
        *p = tide_pick_range(tide_range_ellipsis());
    else
        fail(L,
             "index: expected an integer, {first, last, step}, an array, tide.newaxis or "
             "tide.ellipsis, found %s",
             luaL_typename(L, i));
    if (s->arrays || mark == &ellipsis_mark)
        s->axis = -1;
    else if (s->axis >= 0 && mark != &newaxis_mark)
        s->axis++;
}

/* The entries from..to of the stack, or of the table at `list`. */
static void read_spot(lua_State *L, binding *b, tide_array *a, int list, int from, int to,
                      spot *s) {
    *s = (spot){.n = 0};
    luaL_checkstack(L, 6 * TIDE_MAX_RANK, "index");
    for (int i = from; !list && i <= to; i++) read_one(L, b, a, i, s);
    for (int i = 1; list && i <= (int)lua_rawlen(L, list); i++) {
        lua_rawgeti(L, list, i);
        read_one(L, b, a, lua_gettop(L), s);
    }
}

static void ranges_of(const spot *s, tide_range *out) {
    for (int i = 0; i < s->n; i++) out[i] = s->at[i].value.range;
}

/* A complex number is a table of its parts, as in a:totable(). */
static void push_element(lua_State *L, const tide_arg *v) {
    if (v->kind != TIDE_ARG_COMPLEX) {
        value_push(L, v);
        return;
    }
    lua_createtable(L, 2, 0);
    for (int k = 0; k < 2; k++) {
        lua_pushnumber(L, v->value.c[k]);
        lua_rawseti(L, -2, k + 1);
    }
}

/* One element, as a number: it waits for the device. */
static int get_element(lua_State *L, binding *b, tide_array *a, const spot *s) {
    tide_range ranges[2 * TIDE_MAX_RANK];
    tide_arg v;
    ranges_of(s, ranges);
    tide_array **element = array_slot(L, b);
    binding_within(b, L);
    *element = tide_slice_ranges(a, (size_t)s->n, ranges);
    bool well = *element && tide_item(*element, &v) == TIDE_OK;
    binding_without(b);
    if (!well) return call_failed(L);
    push_element(L, &v);
    return 1;
}

static int get(lua_State *L, binding *b, tide_array *a, const spot *s) {
    tide_range ranges[2 * TIDE_MAX_RANK];
    if (s->integers == s->n && s->n == tide_array_ndim(a)) return get_element(L, b, a, s);
    tide_array **out = array_slot(L, b);
    if (!s->arrays) ranges_of(s, ranges);
    binding_within(b, L);
    *out =
        s->arrays ? tide_index(a, (size_t)s->n, s->at) : tide_slice_ranges(a, (size_t)s->n, ranges);
    binding_without(b);
    return array_made(L, out);
}

/* The value to be assigned, as an array; numbers become one of a's type, tables too. */
static tide_array *assigned(lua_State *L, binding *b, tide_array *a, int i) {
    tide_arg v;
    if (lua_istable(L, i)) return value_array(L, b, tide_array_runtime(a), i, tide_array_dtype(a));
    if (!value_arg(L, b, i, &v))
        fail(L, "assignment: expected a number, a boolean, a table or an array, found %s",
             luaL_typename(L, i));
    if (v.kind == TIDE_ARG_ARRAY) return v.value.array;
    tide_array **out = array_slot(L, b);
    binding_within(b, L);
    *out = tide_full(tide_array_runtime(a), tide_array_dtype(a), 0, NULL, v);
    binding_without(b);
    array_made(L, out);
    return *out;
}

/* {re, im}, for a single complex element. */
static bool read_complex(lua_State *L, tide_array *a, const spot *s, int i, tide_arg *out) {
    double part[2];
    bool single = s->integers == s->n && s->n == tide_array_ndim(a);
    if (!single || !lua_istable(L, i) || lua_rawlen(L, i) != 2) return false;
    if (tide_array_dtype(a) < TIDE_C64) return false;
    for (int k = 0; k < 2; k++) {
        lua_rawgeti(L, i, k + 1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            fail(L, "assignment: a part of a complex number is a %s", luaL_typename(L, -1));
        part[k] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    *out = tide_arg_complex(part[0], part[1]);
    return true;
}

static int put(lua_State *L, binding *b, tide_array *a, const spot *s, int value) {
    tide_range ranges[2 * TIDE_MAX_RANK];
    tide_arg v;
    tide_status status;
    bool number = (value_arg(L, b, value, &v) && v.kind != TIDE_ARG_ARRAY) ||
                  read_complex(L, a, s, value, &v);
    if (s->arrays) {
        tide_array *values = assigned(L, b, a, value);
        binding_within(b, L);
        status = tide_index_put(a, (size_t)s->n, s->at, values);
    } else {
        tide_array *values = number ? NULL : assigned(L, b, a, value), **view = array_slot(L, b);
        ranges_of(s, ranges);
        binding_within(b, L);
        *view = tide_slice_ranges(a, (size_t)s->n, ranges);
        status = !*view   ? tide_error_last()->status
                 : number ? tide_fill(*view, v)
                          : tide_assign(*view, values);
    }
    binding_without(b);
    return status == TIDE_OK ? 0 : call_failed(L);
}

/* One past the end is nil, so that ipairs ends. */
static bool past_the_end(lua_State *L, tide_array *a) {
    int64_t v;
    return value_whole(L, 2, &v) && tide_array_ndim(a) > 0 && v == tide_array_dim(a, 0) + 1;
}

static int index_array(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "index");
    spot s;
    if (lua_type(L, 2) == LUA_TSTRING) {
        const char *name = lua_tostring(L, 2);
        if (property(L, a, name)) return 1; /* before the search for a method that there is not */
        lua_pushvalue(L, 2);
        lua_gettable(L, lua_upvalueindex(2)); /* methods */
        if (!lua_isnil(L, -1)) return 1;
        return fail(L, "an array has no method or property '%s'", name);
    }
    if (past_the_end(L, a)) return lua_pushnil(L), 1;
    read_spot(L, b, a, lua_istable(L, 2) ? 2 : 0, 2, 2, &s);
    return get(L, b, a, &s);
}

static int call_array(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "index");
    spot s;
    read_spot(L, b, a, 0, 2, lua_gettop(L), &s);
    return get(L, b, a, &s);
}

static int assign_array(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "assignment");
    spot s;
    if (lua_type(L, 2) == LUA_TSTRING)
        return fail(L, "an array has no field '%s' to assign", lua_tostring(L, 2));
    read_spot(L, b, a, lua_istable(L, 2) ? 2 : 0, 2, 2, &s);
    return put(L, b, a, &s, 3);
}

/* for i, row in a:iter() */
static int next_of(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = array_at(L, lua_upvalueindex(2));
    lua_Integer i = lua_tointeger(L, 2);
    int64_t n = tide_array_dim(a, 0);
    if (n < 0) return call_failed(L);
    if (i < 0 || i >= (lua_Integer)n) return lua_pushnil(L), 1;
    lua_settop(L, 0);
    lua_pushinteger(L, i + 1);
    spot s = {.n = 1, .integers = 1, .at = {tide_pick_range(tide_range_index((int64_t)i))}};
    get(L, b, a, &s);
    lua_pushvalue(L, 1);
    lua_insert(L, -2);
    return 2;
}

int own_iter(lua_State *L) {
    binding_enter(L);
    tide_array *a = self(L, "iter");
    if (tide_array_ndim(a) < 0) return call_failed(L);
    if (tide_array_ndim(a) == 0) return fail(L, "iter: an array without axes has no rows");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, next_of, 2);
    lua_pushnil(L);
    lua_pushinteger(L, 0);
    return 3;
}

/* ---- what Lua would turn into a boolean ---- */

static int no_order(lua_State *L) {
    return fail(L, "arrays have no order: compare their elements by a:lt(b), a:le(b), a:gt(b), "
                   "a:ge(b), a:eq(b)");
}

/* ---- the metatable ---- */

static const struct {
    const char *event, *function;
    bool unary;
} operators[] = {
    {"__add", "add", false},       {"__sub", "sub", false},      {"__mul", "mul", false},
    {"__div", "div", false},       {"__mod", "rem", false},      {"__pow", "pow", false},
    {"__idiv", "floordiv", false}, {"__band", "bit_and", false}, {"__bor", "bit_or", false},
    {"__bxor", "bit_xor", false},  {"__shl", "shl", false},      {"__shr", "shr", false},
    {"__unm", "neg", true},        {"__bnot", "bit_not", true}};

/* Lua hands an operator of one operand that operand twice. The second upvalue is the function. */
static int unary(lua_State *L) {
    lua_settop(L, 1);
    return call_elementwise(L, lua_touserdata(L, lua_upvalueindex(2)));
}

/* With the table of methods on the top, and the module's table below it; both stay. */
void array_metatable(lua_State *L, int upvalue) {
    static const luaL_Reg events[] = {
        {"__gc", collect_array}, {"__tostring", text_of},      {"__len", length_of},
        {"__call", call_array},  {"__newindex", assign_array}, {"__lt", no_order},
        {"__le", no_order},      {"__close", own_free},        {NULL, NULL}};
    int methods = lua_gettop(L);
    luaL_newmetatable(L, array_type);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, events, 1);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const lua_function *f = function_named(operators[i].function);
        lua_pushvalue(L, upvalue);
        if (operators[i].unary) lua_pushlightuserdata(L, (void *)f);
        lua_pushcclosure(L, operators[i].unary ? unary : f->call, operators[i].unary ? 2 : 1);
        lua_setfield(L, -2, operators[i].event);
    }
    lua_pushvalue(L, upvalue);
    lua_pushvalue(L, methods);
    lua_pushcclosure(L, index_array, 2);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "an array's metatable is the module's");
    lua_setfield(L, -2, "__metatable");
    binding *b = lua_touserdata(L, upvalue);
    b->array_address = lua_topointer(L, -1);
    b->array_metatable = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, (void *)&newaxis_mark);
    lua_setfield(L, methods - 1, "newaxis");
    lua_pushlightuserdata(L, (void *)&ellipsis_mark);
    lua_setfield(L, methods - 1, "ellipsis");
}
