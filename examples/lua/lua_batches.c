/* lua_batches.c: tide.batches{...}: data of the host's, batch by batch, as an iterator.
**
** Model. What the settings name is copied to memory of Lua's, which the iterator's user value
** holds. The iterator is a userdata that is called: it gives the arrays of the next batch, and nil
** at the end. Each batch's arrays are freed when the next one is asked for, as the library has it.
** What must stay true: no error of Lua's passes through the library: `fill` runs under pcall, and
** its error is raised once tide_batches_next has returned. */
#include "binding.h"
#include "tables.h"
#include <stdlib.h>

#define MOST        64 /* arrays of an iterator */
#define NESTED_MOST 16 /* calls of fill inside of one another */

typedef struct iterator {
    tide_batches *batches;
    size_t n;
    tide_data data[MOST];
    tide_array *held[MOST];  /* the current batch's, a reference each */
    lua_State *L;            /* while the next one is asked for */
    const struct wish *wish; /* while fill is called */
    bool failed;             /* an error of fill's is on the stack */
} iterator;

static void let_go(iterator *it) {
    for (size_t k = 0; k < it->n; k++) {
        tide_free(it->held[k]);
        tide_release(it->held[k]);
        it->held[k] = NULL;
    }
}

static void end_iterator(void *ref) {
    iterator *it = ref;
    let_go(it);
    tide_batches_release(it->batches);
    free(it);
}

static iterator *self(call *c) {
    iterator *it = arg_object(c, 0, "iterator")->ref;
    if (it->wish) fail(c->L, "%s: inside 'fill' of the same iterator", c->f->name);
    return it;
}

/* ---- the settings ---- */

enum { SETTINGS = 1, ITERATOR, HELD }; /* where these are on the stack of own_batches */

/* Keeps the value on the top, which the iterator's data point into. */
static void hold(lua_State *L) { lua_rawseti(L, HELD, (int)lua_rawlen(L, HELD) + 1); }

/* {shape = {...}, dtype = "f32", bytes = "..."}: memory as a string, or none, for fill. */
static void read_described(call *c, int k, tide_data *d) {
    static const char *const names[] = {"dtype", "shape", "bytes", NULL};
    static const lua_function f = {.name = "batches", .params = names, .nparams = 3};
    lua_State *L = c->L;
    call of = {.L = L, .b = c->b, .f = &f, .named = lua_gettop(L)};
    double wanted = 1;
    *d = (tide_data){.dtype = arg_dtype(&of, 0, TIDE_F64)};
    numbers shape = arg_shape(&of, 1);
    d->ndim = shape.n;
    memcpy(d->shape, shape.at, sizeof d->shape);
    for (int i = 0; i < shape.n; i++) wanted *= (double)shape.at[i];
    int at = call_at(&of, 2);
    if (!at) return;
    if (lua_type(L, at) != LUA_TSTRING) call_error(&of, 2, "a string");
    if ((double)lua_rawlen(L, at) != wanted * (double)tide_dtype_size(d->dtype))
        fail(L, "batches: the shape of array %d wants %f bytes, and there are %f", k,
             wanted * (double)tide_dtype_size(d->dtype), (double)lua_rawlen(L, at));
    d->host = (void *)lua_tostring(L, at);
    lua_pushvalue(L, at);
    hold(L);
}

/* The k-th of the settings, which is on the top: an array, a nested table or a description. */
static void read_data(call *c, int k, tide_data *d) {
    lua_State *L = c->L;
    int at = lua_gettop(L);
    tide_array *a = array_at(L, at);
    numbers shape;
    if (a) {
        *d = (tide_data){.ndim = tide_array_ndim(a)};
        if (d->ndim < 0) call_failed(L);
        for (int i = 0; i < d->ndim; i++) d->shape[i] = tide_array_dim(a, i);
        d->host = (void *)value_host_copy(L, c->b, a, &d->dtype, false);
        hold(L);
    } else if (lua_istable(L, at)) {
        lua_getfield(L, at, "shape");
        bool described = !lua_isnil(L, -1);
        lua_pop(L, 1);
        if (described) {
            read_described(c, k, d);
        } else {
            *d = (tide_data){0};
            d->host = value_host(L, at, &d->dtype, &shape);
            d->ndim = shape.n;
            memcpy(d->shape, shape.at, sizeof d->shape);
            hold(L);
        }
    } else
        fail(L, "batches: expected an array or a table as array %d, found %s", k,
             luaL_typename(L, at));
    lua_settop(L, at);
}

/* Numbers of samples, which count from 1 here. */
static void read_order(call *c, tide_batches_config *config) {
    lua_State *L = c->L;
    tide_dtype t;
    numbers shape = {.n = 1};
    int64_t *order;
    int at = lua_gettop(L);
    tide_array *a = array_at(L, at);
    if (a) {
        if (tide_array_dtype(a) != TIDE_I64 || tide_array_ndim(a) != 1)
            fail(L, "batches: expected an array of i64 with one axis as 'order'");
        shape.at[0] = tide_array_size(a);
        order = (int64_t *)(void *)value_host_copy(L, c->b, a, &t, false);
    } else {
        if (!lua_istable(L, at))
            fail(L, "batches: expected a table of integers as 'order', found %s",
                 luaL_typename(L, at));
        order = value_host(L, at, &t, &shape);
        if (shape.n != 1 || (t != TIDE_I64 && shape.at[0] > 0))
            fail(L, "batches: expected a table of integers as 'order'");
    }
    for (int64_t i = 0; i < shape.at[0]; i++) {
        if (order[i] <= 0) fail(L, "batches: 'order' counts samples from 1");
        order[i]--;
    }
    config->order = order, config->norder = shape.at[0];
    lua_pushvalue(L, lua_gettop(L));
    lua_setfield(L, HELD, "order");
}

static int named_switch(lua_State *L, const char *name) {
    if (!lua_isboolean(L, -1))
        fail(L, "batches: expected true or false as '%s', found %s", name, luaL_typename(L, -1));
    return lua_toboolean(L, -1) ? TIDE_ON : TIDE_OFF;
}

static tide_status fill(void *user, int64_t first, const int64_t *samples, int64_t n,
                        void *const *out);

static void read_setting(call *c, const char *name, tide_batches_config *config) {
    lua_State *L = c->L;
    int at = lua_gettop(L);
    if (strcmp(name, "batch") == 0) {
        if (!value_whole(L, -1, &config->batch))
            fail(L, "batches: expected an integer as 'batch', found %s", luaL_typename(L, -1));
    } else if (strcmp(name, "drop_last") == 0)
        config->drop_last = named_switch(L, name);
    else if (strcmp(name, "narrow") == 0)
        config->narrow = named_switch(L, name);
    else if (strcmp(name, "order") == 0)
        read_order(c, config);
    else if (strcmp(name, "fill") == 0) {
        if (!lua_isfunction(L, -1))
            fail(L, "batches: expected a function as 'fill', found %s", luaL_typename(L, -1));
        config->fill = fill;
        lua_pushvalue(L, -1);
        lua_setfield(L, HELD, "fill");
    } else
        fail(L, "batches: there is no setting '%s'", name);
    lua_settop(L, at);
}

static void read_settings(call *c, iterator *it, tide_batches_config *config) {
    lua_State *L = c->L;
    it->n = lua_rawlen(L, SETTINGS);
    if (it->n == 0 || it->n > MOST) fail(L, "batches: expected 1 to %d arrays", MOST);
    for (size_t k = 0; k < it->n; k++) {
        lua_rawgeti(L, SETTINGS, (int)k + 1);
        read_data(c, (int)k + 1, &it->data[k]);
        lua_pop(L, 1);
    }
    for (lua_pushnil(L); lua_next(L, SETTINGS); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING) read_setting(c, lua_tostring(L, -2), config);
}

int own_batches(lua_State *L) {
    call c = {.L = L, .f = OWN(batches), .b = binding_enter(L)};
    if (!lua_istable(L, 1))
        return fail(L, "batches: expected a table of settings, found %s", luaL_typename(L, 1));
    lua_settop(L, 1);
    opened *o = binding_runtime(L);
    object *x = object_new(L, o, "iterator", end_iterator);
    lua_newtable(L);
    lua_pushvalue(L, HELD);
    lua_setuservalue(L, ITERATOR);
    iterator *it = calloc(1, sizeof *it);
    if (!it) return fail(L, "batches: no memory is left");
    x->ref = it; /* which ends with it, batches or not */
    tide_batches_config config = {.struct_size = sizeof config, .batch = 1, .user = it};
    read_settings(&c, it, &config);
    config.arrays = it->data, config.narrays = it->n;
    binding_within(c.b, L);
    tide_status s = tide_batches_new(o->rt, &config, &it->batches);
    binding_without(c.b);
    if (s != TIDE_OK) return call_failed(L);
    lua_settop(L, ITERATOR);
    if (LUA_VERSION_NUM < 504) return 1;
    lua_pushnil(L); /* a loop that is left ends it */
    lua_pushnil(L);
    lua_pushvalue(L, ITERATOR);
    return 4;
}

/* ---- fill ---- */

typedef struct wish { /* of call_fill */
    int64_t first, n;
    const int64_t *samples;
    void *const *out;
    bool *end;
} wish;

/* What fill gave for array k, which is on the top, to `out`: a string of bytes, or elements. */
static void take_filled(lua_State *L, const tide_data *d, size_t k, int64_t n, char *out) {
    size_t one = tide_dtype_size(d->dtype), row = 1;
    for (int i = 1; i < d->ndim; i++) row *= (size_t)d->shape[i];
    size_t count = row * (size_t)n;
    if (lua_type(L, -1) == LUA_TSTRING) {
        if (lua_rawlen(L, -1) != count * one)
            fail(L, "batches: fill gave %d bytes for array %d, and %d are wanted",
                 (int)lua_rawlen(L, -1), (int)k + 1, (int)(count * one));
        memcpy(out, lua_tostring(L, -1), count * one);
        return;
    }
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != count)
        fail(L, "batches: fill gave no string and no table of %d values for array %d", (int)count,
             (int)k + 1);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (int)i + 1);
        value_write_element(L, lua_gettop(L), "batches", d->dtype, out + i * one);
        lua_pop(L, 1);
    }
}

/* Under pcall. The iterator and the function are on the stack. */
static int call_fill(lua_State *L) {
    iterator *it = (*(object **)lua_touserdata(L, 1))->ref;
    const wish *w = it->wish;
    int wanted = 0;
    lua_createtable(L, (int)w->n, 0);
    for (int64_t i = 0; i < w->n; i++) {
        lua_pushinteger(L, (lua_Integer)((w->samples ? w->samples[i] : w->first + i) + 1));
        lua_rawseti(L, -2, (int)i + 1);
    }
    for (size_t k = 0; k < it->n; k++) wanted += w->out[k] != NULL;
    luaL_checkstack(L, wanted + 8, "batches");
    lua_call(L, 1, wanted);
    *w->end = wanted > 0 && lua_isnil(L, -wanted);
    for (size_t k = 0, at = 2; k < it->n && !*w->end; k++) {
        if (!w->out[k]) continue;
        lua_pushvalue(L, (int)at++);
        take_filled(L, &it->data[k], k, w->n, w->out[k]);
        lua_pop(L, 1);
    }
    return 0;
}

enum { AT_ITERATOR = 1, AT_CALL_FILL, AT_FILL }; /* on the stack of who asks for a batch */

/* For the library: what it pushes is there, for no error of Lua's may come outside of pcall. */
static tide_status fill(void *user, int64_t first, const int64_t *samples, int64_t n,
                        void *const *out) {
    iterator *it = user;
    lua_State *L = it->L;
    bool end = false;
    wish w = {.first = first, .n = n, .samples = samples, .out = out, .end = &end};
    if (it->failed || !lua_checkstack(L, 4)) return TIDE_E_INVALID;
    binding *b = (*(object **)lua_touserdata(L, AT_ITERATOR))->of->of;
    it->wish = &w;
    b->filling++;
    lua_pushvalue(L, AT_CALL_FILL);
    lua_pushvalue(L, AT_ITERATOR);
    lua_pushvalue(L, AT_FILL);
    it->failed = lua_pcall(L, 2, 0, 0) != 0; /* the error stays on the stack */
    b->filling--;
    it->wish = NULL;
    binding_within(b, L); /* it may have called the library */
    return it->failed ? TIDE_E_INVALID : end ? TIDE_END : TIDE_OK;
}

/* ---- going on ---- */

static int next_batch(lua_State *L) {
    static const char *const params[] = {"iterator", NULL};
    static const lua_function f = {.name = "batches", .params = params, .nparams = 1};
    lua_settop(L, 1); /* a loop gives its state and control too */
    call c = call_begin(L, &f);
    iterator *it = self(&c);
    tide_array **slots[MOST];
    tide_data out[MOST];
    if (c.b->filling == NESTED_MOST)
        return fail(L, "batches: 'fill' inside of 'fill', %d deep", NESTED_MOST);
    luaL_checkstack(L, MOST + 16, "batches");
    let_go(it);
    lua_pushcfunction(L, call_fill);
    lua_getuservalue(L, AT_ITERATOR);
    lua_getfield(L, -1, "fill");
    lua_replace(L, AT_FILL);
    for (size_t k = 0; k < it->n; k++) slots[k] = array_slot(L, c.b);
    it->L = L, it->failed = false;
    binding_within(c.b, L);
    tide_status s = tide_batches_next(it->batches, out);
    if (s == TIDE_OK)
        for (size_t k = 0; k < it->n; k++) {
            *slots[k] = tide_retain(out[k].array);
            it->held[k] = tide_retain(out[k].array);
        }
    binding_without(c.b);
    if (s == TIDE_END) return lua_pushnil(L), 1;
    if (s != TIDE_OK && it->failed) return tide_error_clear(), lua_error(L);
    if (s != TIDE_OK) return call_failed(L);
    lua_settop(L,
               AT_FILL + (int)it->n); /* an error for a later batch is told when it is asked for */
    return (int)it->n;
}

int own_iterator_count(lua_State *L) {
    call c = call_begin(L, OWN(iterator_count));
    tide_error_clear();
    int64_t n = tide_batches_count(self(&c)->batches);
    if (n == 0 && tide_error_last()->status != TIDE_OK) return call_failed(L);
    lua_pushinteger(L, (lua_Integer)n);
    return 1;
}

int own_iterator_rewind(lua_State *L) {
    call c = call_begin(L, OWN(iterator_rewind));
    iterator *it = self(&c);
    let_go(it);
    tide_batches_rewind(it->batches);
    lua_settop(L, 1);
    return 1;
}

int own_iterator_release(lua_State *L) {
    lua_settop(L, lua_gettop(L) > 0); /* the end of a block gives an error too */
    call c = call_begin(L, OWN(iterator_release));
    int at = call_at(&c, 0);
    object *x = at ? object_at(L, at, "iterator") : NULL;
    if (x && x->ref) self(&c);
    object_release(&c, "iterator");
    return 0;
}

void iterator_metatable(lua_State *L, int upvalue) {
    static const luaL_Reg events[] = {
        {"__call", next_batch}, {"__close", own_iterator_release}, {NULL, NULL}};
    object_metatable(L, "iterator", upvalue);
    lua_pushvalue(L, upvalue);
    luaL_setfuncs(L, events, 1);
}
