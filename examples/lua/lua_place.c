/* lua_place.c: where a coroutine's work goes: its device, its stream and its pool.
**
** Model. The library keeps these for a thread of the system; here they are a coroutine's. What one
** has chosen stands in a table of its runtime's, by coroutine; what the main program has chosen is
** that of all coroutines that have chosen nothing. Each call looks the place up, once somebody has
** chosen any, and tells the library where it differs from what the thread has.
** What must stay true: a place is of one device, with a stream and a pool of that device. */
#include "binding.h"
#include "tables.h"

enum { PLACE_DEVICE = 1, PLACE_STREAM, PLACE_POOL };
#define MAIN 1 /* the main program's key */

/* ---- looking a place up ---- */

/* Pushes the coroutine's place in a runtime, a table; nil: nothing was chosen. */
static void push_place(lua_State *L, const opened *o) {
    luaL_checkstack(L, 4, "tidepool");
    if (o->places == LUA_NOREF) {
        lua_pushnil(L);
        return;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, o->places);
    lua_pushthread(L);
    lua_rawget(L, -2);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_rawgeti(L, -1, MAIN);
    }
    lua_remove(L, -2);
}

/* The object in the place on the top; NULL: none was chosen, or it has ended. */
static void *chosen(lua_State *L, int what) {
    lua_rawgeti(L, -1, what);
    object **slot = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return slot && *slot ? (*slot)->ref : NULL;
}

static void tell(opened *o, int device, void *stream, void *pool) {
    if (o->device == device && o->stream == stream && o->pool == pool) return;
    if (tide_device_set(o->rt, device) != TIDE_OK || tide_stream_set(o->rt, stream) != TIDE_OK ||
        tide_pool_set(o->rt, pool) != TIDE_OK)
        tide_error_clear(); /* closed: the call that needs it says so */
    o->device = device, o->stream = stream, o->pool = pool;
}

void place_enter(lua_State *L, binding *b) {
    for (opened *o = b->all; o; o = o->next) {
        if (o->places == LUA_NOREF) continue;
        push_place(L, o);
        if (lua_isnil(L, -1))
            tell(o, o->first_device, NULL, NULL);
        else {
            lua_rawgeti(L, -1, PLACE_DEVICE);
            int device = (int)lua_tointeger(L, -1);
            lua_pop(L, 1);
            void *stream = chosen(L, PLACE_STREAM);
            tell(o, device, stream, chosen(L, PLACE_POOL));
        }
        lua_pop(L, 1);
    }
}

/* ---- choosing ---- */

static void push_places(lua_State *L, opened *o) {
    if (o->places == LUA_NOREF) {
        lua_newtable(L);
        lua_newtable(L);
        lua_pushliteral(L, "k");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        o->places = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, o->places);
}

/* Writes the table on the top down as the coroutine's place; it has become the thread's. */
static void keep_place(lua_State *L, opened *o) {
    push_places(L, o);
    if (lua_pushthread(L)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -2);
        lua_rawseti(L, -2, MAIN);
    } else {
        lua_pushvalue(L, -3);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
    o->device = tide_device_current(o->rt);
    o->stream = chosen(L, PLACE_STREAM);
    o->pool = chosen(L, PLACE_POOL);
    lua_pushinteger(L, o->device);
    lua_rawseti(L, -2, PLACE_DEVICE);
    o->of->placed = true;
}

/* Pushes a new place with the object at `stream`, or `pool` (0: none), and what is kept of the
** place before that, which it pushes below. */
static void new_place(lua_State *L, opened *o, int keeps, int what, int at) {
    push_place(L, o);
    lua_newtable(L);
    if (keeps && !lua_isnil(L, -2)) {
        lua_rawgeti(L, -2, keeps);
        lua_rawseti(L, -2, keeps);
    }
    if (at) {
        lua_pushvalue(L, at);
        lua_rawseti(L, -2, what);
    }
}

/* With a place on the top and the one before below: that one's object, as a result. */
static int push_before(lua_State *L, int what) {
    lua_pop(L, 1);
    if (lua_istable(L, -1))
        lua_rawgeti(L, -1, what);
    else
        lua_pushnil(L);
    return 1;
}

/* ---- devices ---- */

int own_device(lua_State *L) {
    call c = call_begin(L, OWN(device));
    opened *o = binding_runtime(L);
    int64_t number = arg_int(&c, 0, false, -1);
    if (!call_at(&c, 0)) {
        int now = tide_device_current(o->rt);
        if (now < 0) return call_failed(L);
        lua_pushinteger(L, now);
        return 1;
    }
    if (number < 0 || number > INT32_MAX) return call_error(&c, 0, "a device's number");
    new_place(L, o, 0, 0, 0);
    binding_within(c.b, L);
    tide_status s = tide_device_set(o->rt, (int)number);
    if (s == TIDE_OK) s = tide_stream_set(o->rt, NULL);
    if (s == TIDE_OK) s = tide_pool_set(o->rt, NULL);
    binding_without(c.b);
    if (s != TIDE_OK) return call_failed(L);
    keep_place(L, o);
    lua_pushinteger(L, (lua_Integer)number);
    return 1;
}

int own_device_count(lua_State *L) {
    call_begin(L, OWN(device_count));
    int n = tide_device_count(binding_runtime(L)->rt);
    if (n < 0) return call_failed(L);
    lua_pushinteger(L, n);
    return 1;
}

int own_device_reaches(lua_State *L) {
    call c = call_begin(L, OWN(device_reaches));
    int64_t device = arg_int(&c, 0, true, 0), owner = arg_int(&c, 1, true, 0);
    tide_runtime *rt = binding_runtime(L)->rt;
    if (device < 0 || device > INT32_MAX) return call_error(&c, 0, "a device's number");
    if (owner < 0 || owner > INT32_MAX) return call_error(&c, 1, "a device's number");
    binding_within(c.b, L);
    int yes = tide_device_reaches(rt, (int)device, (int)owner);
    binding_without(c.b);
    if (yes < 0) return call_failed(L);
    lua_pushboolean(L, yes);
    return 1;
}

int own_device_stats(lua_State *L) {
    static const struct {
        const char *name;
        size_t offset;
    } kinds[] = {{"device", offsetof(tide_device_figures, device)},
                 {"pinned", offsetof(tide_device_figures, pinned)},
                 {"unified", offsetof(tide_device_figures, unified)}};
    binding_release_found(call_begin(L, OWN(device_stats)).b);
    tide_device_figures figures = {.struct_size = sizeof figures};
    if (tide_device_info(binding_runtime(L)->rt, &figures) != TIDE_OK) return call_failed(L);
    lua_newtable(L);
    fields_set(L, device_fields, &figures);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lua_newtable(L);
        fields_set(L, kind_fields, (const char *)&figures + kinds[i].offset);
        lua_setfield(L, -2, kinds[i].name);
    }
    return 1;
}

int own_device_status(lua_State *L) {
    binding_release_found(call_begin(L, OWN(device_status)).b);
    tide_runtime *rt = binding_runtime(L)->rt;
    size_t n = tide_device_text(rt, NULL, 0);
    if (n == 0) return call_failed(L);
    char *to = lua_newuserdata(L, n + 1);
    tide_device_text(rt, to, n + 1);
    lua_pushstring(L, to);
    return 1;
}

static int set_limit(lua_State *L, const lua_function *f,
                     tide_status (*set)(tide_runtime *rt, size_t bytes)) {
    call c = call_begin(L, f);
    int64_t bytes = arg_int(&c, 0, false, 0);
    tide_runtime *rt = binding_runtime(L)->rt;
    if (bytes < 0) return call_error(&c, 0, "a number of bytes");
    binding_release_found(c.b);
    binding_within(c.b, L);
    tide_status s = set(rt, call_at(&c, 0) ? (size_t)bytes : SIZE_MAX);
    binding_without(c.b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

int own_set_limit(lua_State *L) { return set_limit(L, OWN(set_limit), tide_device_set_limit); }
int own_set_soft_limit(lua_State *L) {
    return set_limit(L, OWN(set_soft_limit), tide_device_set_soft_limit);
}

int own_device_synchronize(lua_State *L) {
    call c = call_begin(L, OWN(device_synchronize));
    tide_runtime *rt = binding_runtime(L)->rt;
    binding_within(c.b, L);
    tide_status s = tide_device_synchronize(rt);
    binding_without(c.b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

/* ---- streams ---- */

static void end_stream(void *ref) { tide_stream_release(ref); }

int own_stream(lua_State *L) {
    call c = call_begin(L, OWN(stream));
    opened *o = binding_runtime(L);
    object *x = object_new(L, o, "stream", end_stream);
    tide_stream *s = NULL;
    if (tide_stream_new(o->rt, &s) != TIDE_OK) { /* a runtime has so many: some may be dropped */
        binding_collect(L, c.b);
        tide_error_clear();
        if (tide_stream_new(o->rt, &s) != TIDE_OK) return call_failed(L);
    }
    x->ref = s;
    return 1;
}

int own_wrap_stream(lua_State *L) {
    call c = call_begin(L, OWN(wrap_stream));
    int at = call_at(&c, 0);
    if (!at || !lua_islightuserdata(L, at)) return call_error(&c, 0, "a light userdata");
    opened *o = binding_runtime(L);
    object *x = object_new(L, o, "stream", end_stream);
    tide_stream *s;
    if (tide_stream_wrap(o->rt, lua_touserdata(L, at), &s) != TIDE_OK) return call_failed(L);
    x->ref = s;
    return 1;
}

static int use_stream(lua_State *L, call *c, object *x) {
    opened *o = x ? x->of : binding_runtime(L);
    int before = tide_device_current(o->rt);
    binding_within(c->b, L);
    tide_status s = tide_stream_set(o->rt, x ? x->ref : NULL);
    binding_without(c->b);
    if (s != TIDE_OK) return call_failed(L);
    bool same = before == tide_device_current(o->rt);
    new_place(L, o, same ? PLACE_POOL : 0, PLACE_STREAM, x ? call_at(c, 0) : 0);
    keep_place(L, o);
    return push_before(L, PLACE_STREAM);
}

int own_use_stream(lua_State *L) {
    call c = call_begin(L, OWN(use_stream));
    return use_stream(L, &c, arg_object_or_null(&c, 0, "stream"));
}

int own_stream_use(lua_State *L) {
    call c = call_begin(L, OWN(stream_use));
    return use_stream(L, &c, arg_object(&c, 0, "stream"));
}

static int synchronize(lua_State *L, call *c, object *x) {
    tide_runtime *rt = x ? x->of->rt : binding_runtime(L)->rt;
    binding_within(c->b, L);
    tide_status s = tide_synchronize(rt, x ? x->ref : NULL);
    binding_without(c->b);
    return s == TIDE_OK ? 0 : call_failed(L);
}

int own_synchronize(lua_State *L) {
    call c = call_begin(L, OWN(synchronize));
    return synchronize(L, &c, arg_object_or_null(&c, 0, "stream"));
}

int own_stream_synchronize(lua_State *L) {
    call c = call_begin(L, OWN(stream_synchronize));
    return synchronize(L, &c, arg_object(&c, 0, "stream"));
}

int own_stream_native(lua_State *L) {
    call c = call_begin(L, OWN(stream_native));
    object *x = arg_object(&c, 0, "stream");
    tide_error_clear();
    void *native = tide_stream_native(x->ref);
    if (!native && tide_error_last()->status != TIDE_OK) return call_failed(L);
    if (native)
        lua_pushlightuserdata(L, native);
    else
        lua_pushnil(L);
    return 1;
}

int own_stream_release(lua_State *L) {
    call c = call_begin(L, OWN(stream_release));
    object_release(&c, "stream");
    return 0;
}

/* ---- pools ---- */

static void end_pool(void *ref) { tide_pool_release(ref); }

int own_pool(lua_State *L) {
    binding_enter(L);
    tide_pool_config config = {.struct_size = sizeof config};
    if (!lua_isnoneornil(L, 1) && !lua_istable(L, 1))
        return fail(L, "pool: expected a table of settings, found %s", luaL_typename(L, 1));
    lua_settop(L, 1);
    if (lua_istable(L, 1)) fields_read(L, 1, "pool", pool_fields, &config);
    opened *o = binding_runtime(L);
    object *x = object_new(L, o, "pool", end_pool);
    tide_pool *p;
    if (tide_pool_new(o->rt, &config, &p) != TIDE_OK) return call_failed(L);
    x->ref = p;
    return 1;
}

int own_default_pool(lua_State *L) {
    call_begin(L, OWN(default_pool));
    opened *o = binding_runtime(L);
    object *x = object_new(L, o, "pool", end_pool); /* whose release leaves the default one */
    x->ref = tide_pool_default(o->rt);
    return x->ref ? 1 : call_failed(L);
}

static int use_pool(lua_State *L, call *c, object *x) {
    opened *o = x ? x->of : binding_runtime(L);
    binding_within(c->b, L);
    tide_status s = tide_pool_set(o->rt, x ? x->ref : NULL);
    binding_without(c->b);
    if (s != TIDE_OK) return call_failed(L);
    new_place(L, o, PLACE_STREAM, PLACE_POOL, x ? call_at(c, 0) : 0);
    keep_place(L, o);
    return push_before(L, PLACE_POOL);
}

int own_use_pool(lua_State *L) {
    call c = call_begin(L, OWN(use_pool));
    return use_pool(L, &c, arg_object_or_null(&c, 0, "pool"));
}

int own_pool_use(lua_State *L) {
    call c = call_begin(L, OWN(pool_use));
    return use_pool(L, &c, arg_object(&c, 0, "pool"));
}

int own_pool_stats(lua_State *L) {
    call c = call_begin(L, OWN(pool_stats));
    object *x = arg_object(&c, 0, "pool");
    binding_release_found(c.b);
    tide_pool_figures *figures = lua_newuserdata(L, sizeof *figures);
    *figures = (tide_pool_figures){.struct_size = sizeof *figures};
    if (tide_pool_info(x->ref, figures) != TIDE_OK) return call_failed(L);
    lua_newtable(L);
    fields_set(L, pool_figure_fields, figures);
    return 1;
}

int own_pool_status(lua_State *L) {
    call c = call_begin(L, OWN(pool_status));
    object *x = arg_object(&c, 0, "pool");
    binding_release_found(c.b);
    size_t n = tide_pool_text(x->ref, NULL, 0);
    if (n == 0) return call_failed(L);
    n += 4096; /* it may have grown */
    char *to = lua_newuserdata(L, n);
    tide_pool_text(x->ref, to, n);
    lua_pushstring(L, to);
    return 1;
}

static const named_value attributes[] = {{"release_threshold", TIDE_POOL_RELEASE_THRESHOLD},
                                         {"reuse_follow", TIDE_POOL_REUSE_FOLLOW},
                                         {"reuse_done", TIDE_POOL_REUSE_DONE},
                                         {"reuse_wait", TIDE_POOL_REUSE_WAIT},
                                         {"max_split", TIDE_POOL_MAX_SPLIT},
                                         {"deterministic", TIDE_POOL_DETERMINISTIC},
                                         {NULL, 0}};

static int attribute_of(call *c) {
    if (!call_at(c, 1)) call_error(c, 1, "the name of an attribute");
    return (int)arg_named(c, 1, attributes, 0, false);
}

int own_pool_get(lua_State *L) {
    call c = call_begin(L, OWN(pool_get));
    object *x = arg_object(&c, 0, "pool");
    uint64_t value;
    if (tide_pool_get_attribute(x->ref, attribute_of(&c), &value) != TIDE_OK) return call_failed(L);
    tide_arg v = tide_arg_uint(value);
    value_push(L, &v);
    return 1;
}

int own_pool_set(lua_State *L) {
    call c = call_begin(L, OWN(pool_set));
    object *x = arg_object(&c, 0, "pool");
    int attribute = attribute_of(&c);
    int64_t value = arg_int(&c, 2, true, 0);
    if (value < 0) return call_error(&c, 2, "a number that is not negative");
    if (tide_pool_set_attribute(x->ref, attribute, (uint64_t)value) != TIDE_OK)
        return call_failed(L);
    return 0;
}

int own_pool_release(lua_State *L) {
    call c = call_begin(L, OWN(pool_release));
    object_release(&c, "pool");
    return 0;
}
