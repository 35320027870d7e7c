/* fields.c: structs of the library's as tables of Lua's, by the fields that bind.py lists. */
#include "binding.h"

/* The one of that name; NULL: there is none. */
static const field *find_field(const field *fields, const char *name) {
    while (fields->name && strcmp(fields->name, name) != 0) fields++;
    return fields->name ? fields : NULL;
}

static void wrong_field(lua_State *L, const char *what, const field *f, const char *expected) {
    fail(L, "%s: expected %s as '%s', found %s", what, expected, f->name, luaL_typename(L, -1));
}

/* The value on the top into the struct. A text stays in the table, which the caller holds. */
static void set_field(lua_State *L, const char *what, const field *f, char *to) {
    int64_t v;
    if (f->kind == FIELD_TEXT) {
        if (lua_type(L, -1) != LUA_TSTRING) wrong_field(L, what, f, "a text");
        *(const char **)to = lua_tostring(L, -1);
    } else if (f->kind == FIELD_SWITCH) {
        if (!lua_isboolean(L, -1)) wrong_field(L, what, f, "true or false");
        *(int *)to = lua_toboolean(L, -1) ? TIDE_ON : TIDE_OFF;
    } else {
        if (!value_whole(L, -1, &v) || (f->kind == FIELD_INT && (v > INT32_MAX || v < INT32_MIN)))
            wrong_field(L, what, f, "an integer");
        if (f->kind == FIELD_INT)
            *(int *)to = (int)v;
        else
            *(int64_t *)to = v;
    }
}

void fields_read(lua_State *L, int i, const char *what, const field *fields, void *out) {
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        const field *f = find_field(fields, name);
        if (!f) fail(L, "%s: there is no setting '%s'", what, name);
        set_field(L, what, f, (char *)out + f->offset);
    }
}

static void push_field(lua_State *L, const field *f, const char *from) {
    switch (f->kind) {
    case FIELD_TEXT: lua_pushstring(L, *(const char *const *)from); break;
    case FIELD_SWITCH: lua_pushboolean(L, *(const int *)from); break;
    case FIELD_INT: lua_pushinteger(L, *(const int *)from); break;
    case FIELD_UINT: lua_pushinteger(L, (lua_Integer) * (const uint32_t *)from); break;
    case FIELD_DOUBLE: lua_pushnumber(L, *(const double *)from); break;
    default: {
        tide_arg v = f->kind == FIELD_INT64 ? tide_arg_int(*(const int64_t *)from)
                                            : tide_arg_uint(*(const uint64_t *)from);
        value_push(L, &v);
    }
    }
}

void fields_set(lua_State *L, const field *fields, const void *from) {
    for (const field *f = fields; f->name; f++) {
        push_field(L, f, (const char *)from + f->offset);
        lua_setfield(L, -2, f->name);
    }
}
