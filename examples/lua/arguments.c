/* arguments.c: the arguments of a call, by position or by name, as the library wants them.
**
** Model. A call's last argument may be a table of named ones, {axis=1, keepdims=true}: one without
** a first element whose keys are names. What is wrong is an error that names the function, the
** parameter and what was found. Axes and places count from 1 here, from the end where negative. */
#include "binding.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- errors ---- */

#define LEVELS_MOST 30 /* that are searched for the program */

void push_where(lua_State *L) {
    lua_Debug at;
    for (int level = 1; level < LEVELS_MOST && lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, "Sl", &at);
        if (at.currentline <= 0 || strncmp(at.source, "=tidepool.", 10) == 0) continue;
        lua_pushfstring(L, "%s:%d: ", at.short_src, at.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

int fail(lua_State *L, const char *format, ...) {
    va_list values;
    push_where(L);
    va_start(values, format);
    lua_pushvfstring(L, format, values);
    va_end(values);
    lua_concat(L, 2);
    return lua_error(L);
}

int fail_text(lua_State *L) { return fail(L, "%s", lua_tostring(L, 1)); }

/* An index that the device met in an array of places, which is told late, as Lua counts. False: the
** message is of something else. */
static bool push_place_error(lua_State *L, const char *message) {
    char what[8];
    long long place;
    int begin = 0, end = 0;
    sscanf(message, "tide_%*[a-z_]: %7[a-z] %n%lld is out%n", what, &begin, &place, &end);
    if (!end) return false;
    if (place >= 0 || strcmp(what, "offset") == 0)
        place++;
    else if (place == NO_PLACE)
        place = 0;
    lua_pushlstring(L, message, (size_t)begin);
    value_text(L, place);
    lua_pushstring(L, message + end - strlen(" is out"));
    lua_concat(L, 3);
    return true;
}

/* The record is copied: whatever Lua makes from here on it may collect first, and what is collected
** then clears the record. */
void call_push_error(lua_State *L) {
    const tide_error *e = tide_error_last();
    const tide_status status = e->status;
    const char *message = strcpy(__builtin_alloca(strlen(e->message) + 1), e->message);
    push_where(L);
    if (status != TIDE_E_BOUNDS || !push_place_error(L, message))
        lua_pushstring(L, status == TIDE_OK ? "tidepool: a call failed" : message);
    tide_error_clear();
    lua_concat(L, 2);
}

int call_failed(lua_State *L) {
    call_push_error(L);
    return lua_error(L);
}

static bool names_parameters(lua_State *L, int i) {
    if (!lua_istable(L, i) || lua_rawlen(L, i) > 0) return false;
    lua_pushnil(L);
    if (!lua_next(L, i)) return false;
    bool named = lua_type(L, -2) == LUA_TSTRING;
    lua_pop(L, 2);
    return named;
}

static void check_names(call *c) {
    lua_State *L = c->L;
    lua_pushnil(L);
    while (lua_next(L, c->named)) {
        int known = 0;
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            fail(L, "%s: a named argument's name is a %s", c->f->name, luaL_typename(L, -1));
        for (int i = 0; i < c->f->nparams; i++)
            known += strcmp(c->f->params[i], lua_tostring(L, -1)) == 0;
        if (!known)
            fail(L, "%s has no argument '%s': tide.help('%s') lists them", c->f->name,
                 lua_tostring(L, -1), c->f->name);
    }
}

call call_begin(lua_State *L, const lua_function *f) {
    call c = {.L = L, .f = f, .b = binding_enter(L), .given = lua_gettop(L)};
    luaL_checkstack(L, 3 * TIDE_MAX_RANK, f->name);
    if (c.given > 0 && names_parameters(L, c.given)) {
        c.named = c.given--;
        check_names(&c);
    }
    if (c.given > f->nparams)
        fail(L, "%s takes %d arguments, found %d", f->name, f->nparams, c.given);
    return c;
}

int call_at(call *c, int i) {
    if (i < c->given && !lua_isnil(c->L, i + 1)) return i + 1;
    if (!c->named) return 0;
    lua_getfield(c->L, c->named, c->f->params[i]);
    if (!lua_isnil(c->L, -1)) return lua_gettop(c->L);
    lua_pop(c->L, 1);
    return 0;
}

int call_error(call *c, int i, const char *expected) {
    int at = call_at(c, i);
    if (at && fuse_stand_in(c->L, c->b, at))
        fail(c->L, "a fused function cannot use '%s' of an array", c->f->name);
    return fail(c->L, "%s: expected %s as '%s', found %s", c->f->name, expected, c->f->params[i],
                at ? luaL_typename(c->L, at) : "nothing");
}

/* ---- arrays ---- */

static tide_array *first_array(call *c) {
    for (int i = 0; i < c->f->nparams; i++) {
        int at = call_at(c, i);
        if (at && array_at(c->L, at)) return array_at(c->L, at);
    }
    return NULL;
}

/* That of the call's arrays; of none the current one. */
static tide_runtime *runtime_of(call *c) {
    tide_array *beside = first_array(c);
    return beside ? tide_array_runtime(beside) : binding_runtime(c->L)->rt;
}

static tide_array *full(call *c, tide_dtype t, tide_arg v) {
    tide_runtime *rt = runtime_of(c);
    tide_array **out = array_slot(c->L, c->b);
    binding_within(c->b, c->L);
    *out = tide_full(rt, t, 0, NULL, v);
    binding_without(c->b);
    array_made(c->L, out);
    return *out;
}

/* A number has the type of the array beside it. */
static tide_array *number_array(call *c, tide_arg v) {
    tide_array *beside = first_array(c);
    return full(c, beside ? tide_array_dtype(beside) : value_type(&v), v);
}

tide_array *arg_array(call *c, int i) {
    int at = call_at(c, i);
    tide_arg v;
    if (at && lua_istable(c->L, at))
        return value_array(c->L, c->b, runtime_of(c), at, TIDE_DTYPE_COUNT);
    if (!at || !value_arg(c->L, c->b, at, &v)) {
        if (fuse_wanted(c)) return NULL;
        call_error(c, i, "an array");
    }
    return v.kind == TIDE_ARG_ARRAY ? v.value.array : number_array(c, v);
}

tide_array *arg_array_or_null(call *c, int i) { return call_at(c, i) ? arg_array(c, i) : NULL; }

tide_array *arg_own_array(call *c, int i) {
    int at = call_at(c, i);
    tide_array *a = at ? array_at(c->L, at) : NULL;
    if (!a) call_error(c, i, "an array");
    return a;
}

/* Tables and numbers are of integers. */
static tide_array *places_at(call *c, int i) {
    int at = call_at(c, i);
    int64_t place;
    if (at && lua_istable(c->L, at)) return value_array(c->L, c->b, runtime_of(c), at, TIDE_I64);
    if (at && value_whole(c->L, at, &place)) return full(c, TIDE_I64, tide_arg_int(place));
    return arg_own_array(c, i);
}

tide_array *arg_places(call *c, int i) {
    return array_places_in(c->L, c->b, places_at(c, i), c->f->name);
}

tide_array *arg_offsets(call *c, int i) {
    return array_offsets_in(c->L, c->b, places_at(c, i), c->f->name);
}

/* False: it is none. */
static bool operand_at(call *c, int i, tide_arg *out) {
    int at = call_at(c, i);
    if (at && lua_istable(c->L, at))
        *out = tide_arg_array(value_array(c->L, c->b, runtime_of(c), at, TIDE_DTYPE_COUNT));
    else
        return at && value_arg(c->L, c->b, at, out);
    return true;
}

tide_arg arg_tagged(call *c, int i, const tide_arg *otherwise) {
    int at = call_at(c, i);
    tide_arg v;
    if (!at && otherwise) return *otherwise;
    if (!operand_at(c, i, &v)) call_error(c, i, "a number, a boolean or an array");
    return v;
}

arrays arg_arrays(call *c, int i) {
    int at = call_at(c, i);
    lua_State *L = c->L;
    if (!at || !lua_istable(L, at)) call_error(c, i, "a table of arrays");
    arrays out = {.n = lua_rawlen(L, at)};
    out.at = lua_newuserdata(L, (out.n + 1) * sizeof *out.at);
    for (size_t k = 0; k < out.n; k++) {
        lua_rawgeti(L, at, (int)(k + 1));
        out.at[k] = array_at(L, -1);
        if (!out.at[k])
            fail(L, "%s: expected an array as '%s'[%d], found %s", c->f->name, c->f->params[i],
                 (int)(k + 1), luaL_typename(L, -1));
        lua_pop(L, 1); /* the table holds it */
    }
    return out;
}

/* ---- numbers ---- */

static int64_t integer_at(call *c, int i, int at, const char *expected) {
    int64_t v;
    if (!value_whole(c->L, at, &v)) call_error(c, i, expected);
    return v;
}

/* An integer, or a table of them. */
static numbers read_numbers(call *c, int i, bool needed, const char *expected) {
    int at = call_at(c, i);
    numbers out = {.given = at != 0};
    if (!at && needed) call_error(c, i, expected);
    if (!at) return out;
    if (!lua_istable(c->L, at)) {
        out.at[out.n++] = integer_at(c, i, at, expected);
        return out;
    }
    size_t n = lua_rawlen(c->L, at);
    if (n > TIDE_MAX_RANK)
        fail(c->L, "%s: '%s' has %d numbers, and %d are the most", c->f->name, c->f->params[i],
             (int)n, TIDE_MAX_RANK);
    for (; out.n < (int)n; out.n++) {
        lua_rawgeti(c->L, at, out.n + 1);
        if (!value_whole(c->L, -1, &out.at[out.n]))
            fail(c->L, "%s: expected an integer as '%s'[%d], found %s", c->f->name, c->f->params[i],
                 out.n + 1, luaL_typename(c->L, -1));
        lua_pop(c->L, 1);
    }
    return out;
}

numbers arg_shape(call *c, int i) {
    return read_numbers(c, i, true, "an integer or a table of integers");
}

numbers arg_numbers(call *c, int i) {
    return read_numbers(c, i, false, "an integer or a table of integers");
}

/* From 1, or from -1 at the end, to the library's count. The rank is -1 where only the library
** knows it. */
static int axis_of(call *c, int i, int64_t v, int rank) {
    int most = rank < 0 ? 2 * TIDE_MAX_RANK : rank;
    if (v == 0 || v > most || v < -most) {
        const char *axis = value_text(c->L, v);
        if (rank < 0)
            fail(c->L, "%s: '%s' is %s: axes count from 1, and from -1 at the end", c->f->name,
                 c->f->params[i], axis);
        fail(c->L, "%s: '%s' is %s: expected 1 to %d, or -1 to -%d from the end", c->f->name,
             c->f->params[i], axis, rank, rank);
    }
    return (int)(v > 0 ? v - 1 : v);
}

axes arg_axes(call *c, int i, int rank) {
    numbers n = read_numbers(c, i, false, "an axis or a table of axes");
    axes out = {.n = n.n, .given = n.given};
    for (int k = 0; k < n.n; k++) out.at[k] = axis_of(c, i, n.at[k], rank);
    return out;
}

int arg_axis(call *c, int i, int otherwise, int rank) {
    int at = call_at(c, i);
    return at ? axis_of(c, i, integer_at(c, i, at, "an axis"), rank) : otherwise;
}

int64_t arg_place(call *c, int i) {
    int at = call_at(c, i);
    if (!at) call_error(c, i, "a place, counted from 1");
    int64_t v = integer_at(c, i, at, "a place, counted from 1");
    if (v == 0) fail(c->L, "%s: '%s' is 0: places count from 1", c->f->name, c->f->params[i]);
    return v > 0 ? v - 1 : v;
}

int64_t arg_int(call *c, int i, bool needed, int64_t otherwise) {
    int at = call_at(c, i);
    if (!at && needed) call_error(c, i, "an integer");
    return at ? integer_at(c, i, at, "an integer") : otherwise;
}

double arg_double(call *c, int i, bool needed, double otherwise) {
    int at = call_at(c, i);
    if (!at && !needed) return otherwise;
    if (!at || lua_type(c->L, at) != LUA_TNUMBER) call_error(c, i, "a number");
    return lua_tonumber(c->L, at);
}

bool arg_switch(call *c, int i, bool otherwise) {
    int at = call_at(c, i);
    if (at && !lua_isboolean(c->L, at)) call_error(c, i, "true or false");
    return at ? lua_toboolean(c->L, at) : otherwise;
}

tide_dtype arg_dtype(call *c, int i, tide_dtype otherwise) {
    int at = call_at(c, i);
    return at ? value_dtype(c->L, at, c->f->name) : otherwise;
}

const char *arg_text(call *c, int i) {
    int at = call_at(c, i);
    if (!at || lua_type(c->L, at) != LUA_TSTRING) call_error(c, i, "a text");
    if (strlen(lua_tostring(c->L, at)) != lua_rawlen(c->L, at))
        call_error(c, i, "a text without zero bytes");
    return lua_tostring(c->L, at);
}

/* One of some names; where they are flags, several in a table. */
static int64_t named_at(call *c, int i, int at, const named_value *values) {
    for (const named_value *v = values; lua_type(c->L, at) == LUA_TSTRING && v->name; v++)
        if (strcmp(v->name, lua_tostring(c->L, at)) == 0) return v->value;
    luaL_Buffer text;
    luaL_buffinit(c->L, &text);
    for (const named_value *v = values; v->name; v++) {
        luaL_addstring(&text, v == values ? "\"" : ", \"");
        luaL_addstring(&text, v->name);
        luaL_addstring(&text, "\"");
    }
    luaL_pushresult(&text);
    return fail(c->L, "%s: expected one of %s as '%s', found %s", c->f->name,
                lua_tostring(c->L, -1), c->f->params[i],
                lua_type(c->L, at) == LUA_TSTRING ? lua_tostring(c->L, at)
                                                  : luaL_typename(c->L, at));
}

int64_t arg_named(call *c, int i, const named_value *values, int64_t otherwise, bool flags) {
    int at = call_at(c, i);
    if (!at) return otherwise;
    if (!flags || !lua_istable(c->L, at)) return named_at(c, i, at, values);
    int64_t all = 0;
    for (int k = 1; k <= (int)lua_rawlen(c->L, at); k++) {
        lua_rawgeti(c->L, at, k);
        all |= named_at(c, i, lua_gettop(c->L), values);
        lua_pop(c->L, 1);
    }
    return all;
}

/* ---- operations element by element ---- */

/* With numbers, which are weak, tables or names among them: as an expression, but where all become
** arrays. */
static int call_mixed(lua_State *L, const lua_function *f) {
    call c = call_begin(L, f);
    tide_arg args[3];
    tide_array *beside = NULL;
    bool all = true; /* are arrays */
    for (int i = 0; i < f->nparams; i++) {
        if (!operand_at(&c, i, &args[i]))
            return fuse_wanted(&c) ? fuse_call(&c)
                                   : call_error(&c, i, "a number, a boolean or an array");
        if (args[i].kind == TIDE_ARG_ARRAY)
            beside = args[i].value.array;
        else
            all = false;
    }
    tide_runtime *rt = beside ? tide_array_runtime(beside) : binding_runtime(L)->rt;
    if (!rt) return call_failed(L); /* it was closed */
    tide_array **out = array_slot(L, c.b);
    binding_within(c.b, L);
    *out = all ? f->of_arrays(args) : tide_map_args(rt, f->expression, args, (size_t)f->nparams);
    binding_without(c.b);
    return array_made(L, out);
}

int call_elementwise(lua_State *L, const lua_function *f) {
    binding *b = binding_enter(L);
    tide_arg args[3];
    if (lua_gettop(L) != f->nparams || !arrays_at(L, b, f->nparams, args)) return call_mixed(L, f);
    tide_array **out = array_slot(L, b);
    binding_within(b, L);
    *out = f->of_arrays(args);
    binding_without(b);
    return array_made(L, out);
}
