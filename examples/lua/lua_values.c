/* lua_values.c: Lua's values as the library's, and back: numbers, types, nested tables, strings.
**
** Model. A Lua integer is a weak integer, a float a weak float, a boolean a weak bool; Lua 5.1's
** numbers are integers where they are whole. A nested table is read twice: once for its shape and
** what it holds, once for its elements; what it holds decides the element type, unless one is
** given: booleans bool, integers i64, other numbers f64. */
#include "binding.h"
#include "tables.h"
#include <math.h>
#include <stdio.h>

tide_dtype value_dtype(lua_State *L, int i, const char *what) {
    bool text = lua_type(L, i) == LUA_TSTRING;
    const char *name = text ? lua_tostring(L, i) : luaL_typename(L, i);
    for (tide_dtype t = 0; text && t < TIDE_DTYPE_COUNT; t++) {
        const char *other = tide_dtype_name(t);
        if (*other == *name && strcmp(other, name) == 0) return t;
    }
    return fail(L, "%s: expected an element type, as \"f32\" or \"i64\", found %s", what, name);
}

bool value_arg(lua_State *L, const binding *b, int i, tide_arg *out) {
    tide_array *a = NULL;
    switch (lua_type(L, i)) {
    case LUA_TNUMBER:
        *out = lua_isinteger(L, i) ? tide_arg_int((int64_t)lua_tointeger(L, i))
                                   : tide_arg_float(lua_tonumber(L, i));
        return true;
    case LUA_TBOOLEAN: *out = tide_arg_bool(lua_toboolean(L, i)); return true;
    case LUA_TUSERDATA:
        a = array_in(L, b, i);
        *out = tide_arg_array(a);
        return a != NULL;
    default: return false;
    }
}

tide_dtype value_type(const tide_arg *v) {
    static const tide_dtype types[] = {
        [TIDE_ARG_BOOL] = TIDE_BOOL, [TIDE_ARG_INT] = TIDE_I64, [TIDE_ARG_FLOAT] = TIDE_F64};
    return types[v->kind];
}

bool value_whole(lua_State *L, int i, int64_t *out) {
    if (lua_type(L, i) != LUA_TNUMBER) return false;
    double v = lua_tonumber(L, i);
    if (!lua_isinteger(L, i) && (v != floor(v) || fabs(v) > 0x1p53)) return false;
    *out = lua_isinteger(L, i) ? (int64_t)lua_tointeger(L, i) : (int64_t)v;
    return true;
}

const char *value_text(lua_State *L, int64_t v) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    lua_pushstring(L, text);
    return lua_tostring(L, -1);
}

static void push_int(lua_State *L, int64_t v) {
#if LUA_VERSION_NUM < 503
    lua_pushnumber(L, (double)v);
#else
    lua_pushinteger(L, v);
#endif
}

/* A complex number is two values, its parts. */
void value_push(lua_State *L, const tide_arg *v) {
    switch (v->kind) {
    case TIDE_ARG_BOOL: lua_pushboolean(L, v->value.i != 0); break;
    case TIDE_ARG_INT: push_int(L, v->value.i); break;
    case TIDE_ARG_UINT:
        if (v->value.u <= INT64_MAX)
            push_int(L, (int64_t)v->value.u);
        else
            lua_pushnumber(L, (double)v->value.u);
        break;
    case TIDE_ARG_COMPLEX:
        lua_pushnumber(L, v->value.c[0]);
        lua_pushnumber(L, v->value.c[1]);
        break;
    default: lua_pushnumber(L, v->value.f);
    }
}

/* ---- tables to arrays ---- */

enum { HOLDS_NOTHING, HOLDS_BOOLEANS, HOLDS_INTEGERS, HOLDS_FLOATS };
typedef struct nested {
    lua_State *L;
    numbers shape;
    int64_t place[TIDE_MAX_RANK]; /* where it is read, for messages */
    int holds;
    void *to;
    int64_t written;
    tide_dtype type; /* of the elements */
    double low, end; /* of an integer type: what it can hold, and the first number that it cannot */
} nested;

static const char *place_text(nested *n, int depth) {
    luaL_Buffer text;
    luaL_buffinit(n->L, &text);
    for (int d = 0; d < depth; d++) {
        char number[32];
        snprintf(number, sizeof number, "[%lld]", (long long)n->place[d] + 1);
        luaL_addstring(&text, number);
    }
    luaL_pushresult(&text);
    return lua_tostring(n->L, -1);
}

/* The shape, by the first elements. */
static void find_shape(nested *n) {
    lua_State *L = n->L;
    int top = lua_gettop(L);
    while (lua_istable(L, -1)) {
        if (n->shape.n == TIDE_MAX_RANK)
            fail(L, "tidepool.array: tables are nested deeper than %d", TIDE_MAX_RANK);
        n->shape.at[n->shape.n++] = (int64_t)lua_rawlen(L, -1);
        luaL_checkstack(L, 2, "tidepool.array");
        lua_rawgeti(L, -1, 1);
    }
    lua_settop(L, top);
}

/* The value on the top, at `depth` = the rank: what it is. */
static int kind_of(nested *n, int depth) {
    lua_State *L = n->L;
    if (lua_isboolean(L, -1)) return HOLDS_BOOLEANS;
    if (lua_type(L, -1) == LUA_TNUMBER) return lua_isinteger(L, -1) ? HOLDS_INTEGERS : HOLDS_FLOATS;
    const char *found = luaL_typename(L, -1);
    return fail(L, "tidepool.array: expected a number or a boolean at %s, found %s",
                place_text(n, depth), found);
}

/* Goes through the table on the top of the stack; `each` sees the elements on the top. */
static void walk(nested *n, int depth, void (*each)(nested *n)) {
    lua_State *L = n->L;
    if (depth == n->shape.n) {
        each(n);
        return;
    }
    if (!lua_istable(L, -1) || (int64_t)lua_rawlen(L, -1) != n->shape.at[depth])
        fail(L, "tidepool.array: expected a table of %d values at %s", (int)n->shape.at[depth],
             place_text(n, depth));
    luaL_checkstack(L, 4, "tidepool.array");
    for (n->place[depth] = 0; n->place[depth] < n->shape.at[depth]; n->place[depth]++) {
        lua_rawgeti(L, -1, (int)(n->place[depth] + 1));
        walk(n, depth + 1, each);
        lua_pop(L, 1);
    }
}

static void look_at(nested *n) {
    int kind = kind_of(n, n->shape.n);
    if (n->holds == HOLDS_NOTHING)
        n->holds = kind;
    else if ((kind == HOLDS_BOOLEANS) != (n->holds == HOLDS_BOOLEANS))
        fail(n->L, "tidepool.array: booleans beside numbers at %s", place_text(n, n->shape.n));
    else if (kind > n->holds)
        n->holds = kind;
}

static bool of_integers(tide_dtype t) { return t >= TIDE_I8 && t <= TIDE_U64; }

static void set_type(nested *n, tide_dtype t) {
    int bits = (int)tide_dtype_size(t) * 8;
    n->type = t;
    n->low = t <= TIDE_I64 ? -ldexp(1, bits - 1) : 0;
    n->end = ldexp(1, t <= TIDE_I64 ? bits - 1 : bits);
}

/* Integers are not wrapped, and floats become integers only where they are some. The largest
** integer of Lua's is the end as a float. */
static bool fits(const nested *n, double v, bool integer) {
    if (!of_integers(n->type)) return true;
    return v >= n->low && (v < n->end || (integer && n->end == 0x1p63)) && v == floor(v);
}

static void write_element(nested *n) {
    lua_State *L = n->L;
    double v = n->holds == HOLDS_BOOLEANS ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
    if (!fits(n, v, n->holds == HOLDS_INTEGERS))
        fail(L, "tidepool.array: %f at %s is no number of %s", v, place_text(n, n->shape.n),
             tide_dtype_name(n->type));
    switch (n->holds) {
    case HOLDS_BOOLEANS: ((bool *)n->to)[n->written++] = v != 0; break;
    case HOLDS_INTEGERS: ((int64_t *)n->to)[n->written++] = (int64_t)lua_tointeger(L, -1); break;
    default: ((double *)n->to)[n->written++] = v;
    }
}

/* Pushes memory with the elements of the table at i, which are of type *holds there; *t is the type
** that is wanted, or becomes that one. */
static void *read_nested(lua_State *L, int i, tide_dtype *t, tide_dtype *holds, numbers *shape) {
    static const tide_dtype types[] = {TIDE_F64, TIDE_BOOL, TIDE_I64, TIDE_F64};
    nested n = {.L = L};
    lua_pushvalue(L, i);
    find_shape(&n);
    walk(&n, 0, look_at);
    size_t count = 1;
    for (int d = 0; d < n.shape.n; d++) count *= (size_t)n.shape.at[d];
    *holds = types[n.holds];
    if (*t == TIDE_DTYPE_COUNT) *t = *holds;
    set_type(&n, *t);
    n.to = lua_newuserdata(L, count * tide_dtype_size(*holds) + 1);
    lua_insert(L, -2);
    walk(&n, 0, write_element);
    lua_pop(L, 1);
    *shape = n.shape;
    return n.to;
}

void *value_host(lua_State *L, int i, tide_dtype *t, numbers *shape) {
    *t = TIDE_DTYPE_COUNT;
    return read_nested(L, i, t, t, shape);
}

tide_array *value_array(lua_State *L, binding *b, tide_runtime *rt, int i, tide_dtype t) {
    tide_dtype holds;
    numbers shape;
    if (!rt) call_failed(L); /* it was closed */
    void *from = read_nested(L, i, &t, &holds, &shape);
    tide_array **read = array_slot(L, b), **out = array_slot(L, b);
    binding_within(b, L);
    *read = tide_from_host(rt, holds, shape.n, shape.at, from);
    if (*read) *out = t == holds ? tide_retain(*read) : tide_cast(*read, t);
    binding_without(b);
    array_made(L, out);
    tide_release(*read);
    *read = NULL;
    lua_replace(L, -3);
    lua_pop(L, 1);
    return *out;
}

/* ---- arrays to tables and strings ---- */

/* Of the two types of 16 bits: the bits of the fraction, and the exponent of 1. */
static int fraction_bits(tide_dtype t) { return t == TIDE_F16 ? 10 : 7; }
static int bias_of(tide_dtype t) { return t == TIDE_F16 ? 15 : 127; }

static double small_value(uint16_t v, tide_dtype t) {
    int bits = fraction_bits(t), most = 2 * bias_of(t) + 1;
    int exponent = (v & 0x7fff) >> bits, fraction = v & ((1 << bits) - 1);
    double x = exponent == most ? (fraction ? (double)NAN : (double)INFINITY)
               : exponent       ? ldexp(fraction + (1 << bits), exponent - bias_of(t) - bits)
                                : ldexp(fraction, 1 - bias_of(t) - bits);
    return v & 0x8000 ? -x : x;
}

/* Rounded to the nearest, to even where two are as near. */
static uint16_t small_bits(double x, tide_dtype t) {
    int bits = fraction_bits(t), least = 1 - bias_of(t), exponent;
    uint32_t sign = signbit(x) ? 0x8000 : 0, infinite = (uint32_t)(2 * bias_of(t) + 1) << bits;
    if (isnan(x)) return (uint16_t)(sign | infinite | 1u << (bits - 1));
    frexp(x, &exponent);
    if (isinf(x) || exponent - 1 > bias_of(t)) return (uint16_t)(sign | infinite);
    exponent = exponent - 1 < least || x == 0 ? least : exponent - 1;
    uint32_t fraction = (uint32_t)rint(ldexp(fabs(x), bits - exponent));
    return (uint16_t)(sign | (((uint32_t)(exponent - least) << bits) + fraction));
}

const char *value_host_copy(lua_State *L, binding *b, tide_array *a, tide_dtype *t, bool widen) {
    tide_array **wide = array_slot(L, b);
    *t = tide_array_dtype(a);
    size_t bytes = (size_t)tide_array_size(a) * tide_dtype_size(*t);
    if (widen && (*t == TIDE_F16 || *t == TIDE_BF16)) *t = TIDE_F32, bytes *= 2;
    char *to = lua_newuserdata(L, bytes + 1);
    binding_within(b, L);
    *wide = *t == tide_array_dtype(a) ? tide_retain(a) : tide_cast(a, *t);
    bool well = *wide && tide_to_host(*wide, to, bytes) == TIDE_OK;
    binding_without(b);
    if (!well) call_failed(L);
    tide_release(*wide);
    *wide = NULL;
    return to;
}

void value_push_element(lua_State *L, tide_dtype t, const char *p) {
#define READ(type, v)                                                                              \
    type v;                                                                                        \
    memcpy(&v, p, sizeof v)
#define INTEGER(T, type)                                                                           \
    case T: {                                                                                      \
        READ(type, v);                                                                             \
        push_int(L, (int64_t)v);                                                                   \
        break;                                                                                     \
    }
    switch (t) {
    case TIDE_BOOL:
        lua_pushboolean(L, *p);
        break;
        INTEGER(TIDE_I8, int8_t)
        INTEGER(TIDE_I16, int16_t)
        INTEGER(TIDE_I32, int32_t)
        INTEGER(TIDE_I64, int64_t)
        INTEGER(TIDE_U8, uint8_t)
        INTEGER(TIDE_U16, uint16_t)
        INTEGER(TIDE_U32, uint32_t)
    case TIDE_U64: {
        READ(uint64_t, v);
        tide_arg n = tide_arg_uint(v);
        value_push(L, &n);
        break;
    }
    case TIDE_F32: {
        READ(float, v);
        lua_pushnumber(L, (double)v);
        break;
    }
    case TIDE_F64: {
        READ(double, v);
        lua_pushnumber(L, v);
        break;
    }
    case TIDE_F16:
    case TIDE_BF16: {
        READ(uint16_t, v);
        lua_pushnumber(L, small_value(v, t));
        break;
    }
    default: { /* complex: a table of its parts */
        tide_dtype part = t == TIDE_C64 ? TIDE_F32 : TIDE_F64;
        lua_createtable(L, 2, 0);
        for (int k = 0; k < 2; k++) {
            value_push_element(L, part, p + (size_t)k * tide_dtype_size(part));
            lua_rawseti(L, -2, k + 1);
        }
    }
    }
#undef INTEGER
#undef READ
}

static void write_int(tide_dtype t, int64_t v, char *to) {
    switch (tide_dtype_size(t)) {
    case 1: *to = (char)v; break;
    case 2: memcpy(to, &(uint16_t){(uint16_t)v}, 2); break;
    case 4: memcpy(to, &(uint32_t){(uint32_t)v}, 4); break;
    default: memcpy(to, &v, 8);
    }
}

static void write_float(tide_dtype t, double v, char *to) {
    switch (t) {
    case TIDE_F16:
    case TIDE_BF16: memcpy(to, &(uint16_t){small_bits(v, t)}, 2); break;
    case TIDE_F32:
    case TIDE_C64: memcpy(to, &(float){(float)v}, 4); break;
    default: memcpy(to, &v, 8);
    }
}

void value_write_element(lua_State *L, int i, const char *what, tide_dtype t, char *to) {
    nested n = {.L = L};
    int64_t whole;
    bool complex = t == TIDE_C64 || t == TIDE_C128, boolean = lua_isboolean(L, i);
    if (complex && lua_istable(L, i) && lua_rawlen(L, i) == 2) {
        for (int k = 0; k < 2; k++) {
            lua_rawgeti(L, i, k + 1);
            if (lua_type(L, -1) != LUA_TNUMBER)
                fail(L, "%s: a part of a complex number is a %s", what, luaL_typename(L, -1));
            write_float(t, lua_tonumber(L, -1), to + (size_t)k * tide_dtype_size(t) / 2);
            lua_pop(L, 1);
        }
        return;
    }
    if (boolean != (t == TIDE_BOOL) || (!boolean && lua_type(L, i) != LUA_TNUMBER))
        fail(L, "%s: expected %s for %s, found %s", what, t == TIDE_BOOL ? "a boolean" : "a number",
             tide_dtype_name(t), luaL_typename(L, i));
    set_type(&n, t);
    if (boolean)
        *to = (char)lua_toboolean(L, i);
    else if (t >= TIDE_F16) {
        write_float(t, lua_tonumber(L, i), to);
        if (complex) write_float(t, 0, to + tide_dtype_size(t) / 2);
    } else if (!value_whole(L, i, &whole) || !fits(&n, (double)whole, true))
        fail(L, "%s: %f is no number of %s", what, lua_tonumber(L, i), tide_dtype_name(t));
    else
        write_int(t, whole, to);
}

static const char *push_nested(lua_State *L, const numbers *shape, int axis, tide_dtype t,
                               const char *p) {
    luaL_checkstack(L, 4, "tidepool.totable");
    if (axis == shape->n) return value_push_element(L, t, p), p + tide_dtype_size(t);
    lua_createtable(L, (int)shape->at[axis], 0);
    for (int64_t i = 0; i < shape->at[axis]; i++) {
        p = push_nested(L, shape, axis + 1, t, p);
        lua_rawseti(L, -2, (int)(i + 1));
    }
    return p;
}

static tide_array *self(lua_State *L, const char *name) {
    tide_array *a = array_at(L, 1);
    if (!a) fail(L, "%s: expected an array, found %s", name, luaL_typename(L, 1));
    return a;
}

int own_totable(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "totable");
    numbers shape = {.n = tide_array_ndim(a)};
    tide_dtype t;
    if (shape.n < 0) return call_failed(L);
    for (int d = 0; d < shape.n; d++) shape.at[d] = tide_array_dim(a, d);
    const char *p = value_host_copy(L, b, a, &t, true);
    push_nested(L, &shape, 0, t, p);
    return 1;
}

int own_bytes(lua_State *L) {
    binding *b = binding_enter(L);
    tide_array *a = self(L, "bytes");
    tide_dtype t;
    if (tide_array_ndim(a) < 0) return call_failed(L);
    const char *p = value_host_copy(L, b, a, &t, false);
    lua_pushlstring(L, p, (size_t)tide_array_size(a) * tide_dtype_size(t));
    return 1;
}

/* tide.from_bytes(text, dtype [, shape]) */
int own_from_bytes(lua_State *L) {
    binding *b = binding_enter(L);
    size_t bytes;
    const char *text = luaL_checklstring(L, 1, &bytes);
    tide_dtype t = value_dtype(L, 2, "tidepool.from_bytes");
    numbers shape = {.n = 1, .at = {(int64_t)(bytes / tide_dtype_size(t))}};
    if (!lua_isnoneornil(L, 3)) {
        call c = {.L = L, .b = b, .f = OWN(from_bytes), .given = 3};
        shape = arg_shape(&c, 2);
    }
    double wanted = (double)tide_dtype_size(t);
    for (int d = 0; d < shape.n; d++) wanted *= (double)shape.at[d];
    if (wanted != (double)bytes)
        return fail(L, "tidepool.from_bytes: the shape wants %f bytes, and there are %f", wanted,
                    (double)bytes);
    opened *o = binding_runtime(L);
    tide_array **out = array_slot(L, b);
    binding_within(b, L);
    *out = tide_from_host(o->rt, t, shape.n, shape.at, text);
    binding_without(b);
    return array_made(L, out);
}
