/* lua_policy.c: policies in Lua: tide.policy{decide = ...}, and files: TIDE_POLICY=./mine.lua.
**
** Model. The library knows a policy by name for the rest of the process; behind each name stands a
** `policy`, which is never freed. One of tide.policy belongs to its state: it is asked by calls of
** that state's, on the thread that they are on, in their coroutine. A file's has a lua_State of its
** own, which one thread at a time is in. A policy of a state that has ended decides nothing.
** What must stay true: while a policy runs nothing of the library is called, nor does its state
** collect, which might run finalizers that do. An error, or an answer that is none, means: do not
** collect, and is told once. */
#include "binding.h"
#include "tables.h"
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_BYTES   41
#define REASONS_MOST 32 /* texts that a policy's answers may give as reasons */

typedef struct policy {
    struct policy *next;
    pthread_mutex_t lock; /* who is in its state; recursive, for a state may be closed there */
    lua_State *L;         /* a file's own; NULL: a state's policy */
    binding *of;          /* of that one; NULL: it has ended */
    int table, ask, tell; /* references: what was given; functions for pcall */
    uint64_t states;      /* so many have been numbered */
    char *reasons[REASONS_MOST];
    size_t nreasons, nparams;
    char *path; /* a file's */
    char params[TIDE_POLICY_PARAMS_MAX][NAME_BYTES];
    struct question *asked; /* under the lock, while a function of it is called */
    _Atomic bool failed;
    bool told;
    char name[NAME_BYTES], error[400]; /* the first one */
} policy;

static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static policy *policies; /* under `adding` */
_Atomic unsigned policies_failed;

/* ---- asking, under pcall ---- */

typedef struct question {
    policy *of;
    uint64_t *state; /* its number; 0: none yet */
    const tide_policy_snapshot *now, *after;
    const tide_policy_collection *collection;
    tide_policy_decision *out;
} question;

/* Pushes a field of the policy's table. */
static void push_own(lua_State *L, const policy *p, const char *name) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, p->table);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

static void push_snapshot(lua_State *L, const policy *p, const tide_policy_snapshot *s) {
    static const char *const places[] = {"alloc", "sync", "safepoint"};
    lua_newtable(L);
    fields_set(L, snapshot_fields, s);
    lua_pushstring(L, s->where >= 0 && s->where < 3 ? places[s->where] : "elsewhere");
    lua_setfield(L, -2, "where");
    lua_pushstring(L, s->level == TIDE_COLLECT_MINOR ? "minor" : "full");
    lua_setfield(L, -2, "level");
    lua_createtable(L, 0, (int)p->nparams);
    for (size_t i = 0; i < p->nparams; i++) {
        lua_pushnumber(L, s->params[i]);
        lua_setfield(L, -2, p->params[i]);
    }
    lua_setfield(L, -2, "params");
}

/* Pushes the table that is the policy's for a device of a runtime. */
static void push_state(lua_State *L, question *q) {
    push_own(L, q->of, "states");
    if (!*q->state) *q->state = ++q->of->states;
    lua_rawgeti(L, -1, (int)*q->state);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, (int)*q->state);
    }
    lua_remove(L, -2);
}

static int32_t level_of(lua_State *L, int i, const tide_policy_snapshot *now) {
    const char *text = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "";
    if (!lua_toboolean(L, i)) return 0;
    if (lua_isboolean(L, i)) return now->level;
    if (strcmp(text, "minor") == 0) return TIDE_COLLECT_MINOR;
    if (strcmp(text, "full") == 0) return TIDE_COLLECT_FULL;
    return luaL_error(L,
                      "decide: expected true, false, \"minor\" or \"full\" as what to do, found %s",
                      *text ? text : luaL_typename(L, i));
}

static uint64_t wake_of(lua_State *L, int i) {
    double v = lua_tonumber(L, i);
    if (lua_isnil(L, i)) return 0;
    if (lua_type(L, i) != LUA_TNUMBER || !(v >= 0))
        luaL_error(L, "decide: expected a number of bytes at which to be asked again, found %s",
                   luaL_typename(L, i));
    return v < 0x1p64 ? (uint64_t)v : UINT64_MAX;
}

/* A copy that stays, of those that were given so far; the name where there is none. */
static const char *reason_of(lua_State *L, int i, policy *p) {
    if (lua_isnil(L, i)) return p->name;
    if (lua_type(L, i) != LUA_TSTRING)
        luaL_error(L, "decide: expected a text as the reason, found %s", luaL_typename(L, i));
    const char *text = lua_tostring(L, i);
    for (size_t k = 0; k < p->nreasons; k++)
        if (strcmp(p->reasons[k], text) == 0) return p->reasons[k];
    char *copy = p->nreasons < REASONS_MOST ? strdup(text) : NULL;
    if (copy) p->reasons[p->nreasons++] = copy;
    return copy ? copy : p->name;
}

static int ask(lua_State *L) {
    question *q = ((policy *)lua_touserdata(L, 1))->asked;
    push_own(L, q->of, "decide");
    push_snapshot(L, q->of, q->now);
    push_state(L, q);
    lua_call(L, 2, 3);
    int32_t level = level_of(L, -3, q->now);
    uint64_t wake_at = wake_of(L, -2);
    if (!level && wake_at && wake_at <= q->now->used + q->now->request)
        luaL_error(L, "decide: it wants to be asked again at %f bytes, and there are %f",
                   (double)wake_at, (double)(q->now->used + q->now->request));
    q->out->reason = reason_of(L, -1, q->of);
    q->out->wake_at = wake_at, q->out->level = level;
    return 0;
}

static int tell(lua_State *L) {
    question *q = ((policy *)lua_touserdata(L, 1))->asked;
    push_own(L, q->of, "observe");
    push_snapshot(L, q->of, q->now);
    push_snapshot(L, q->of, q->after);
    lua_newtable(L);
    fields_set(L, collection_fields, q->collection);
    lua_pushstring(L, q->collection->level == TIDE_COLLECT_MINOR ? "minor" : "full");
    lua_setfield(L, -2, "level");
    push_state(L, q);
    lua_call(L, 4, 0);
    return 0;
}

/* ---- the table's slots ---- */

static void note_error(policy *p, const char *text) {
    if (p->failed) return;
    snprintf(p->error, sizeof p->error, "%s", text ? text : "an error that is no text");
    p->failed = true;
    atomic_fetch_add(&policies_failed, 1);
}

/* Calls the function `what` with the question. False: there was an error. */
static bool call_in(lua_State *L, policy *p, int what, question *q) {
    p->asked = q;
    lua_rawgeti(L, LUA_REGISTRYINDEX, what);
    lua_pushlightuserdata(L, p); /* its state has seen it: LuaJIT takes memory the first time */
    if (lua_pcall(L, 1, 0, 0) == 0) return true;
    note_error(p, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL);
    lua_pop(L, 1);
    return false;
}

/* With the lock held: in its state, if that is to be had here. -1: it is not; 0: there was an
** error. */
static int run(policy *p, int what, question *q) {
    binding *b = p->of;
    lua_State *L = p->L ? p->L : b ? binding_here(b) : NULL;
    if (!L || !lua_checkstack(L, 8)) return -1;
    if (p->L) return call_in(L, p, what, q);
    binding_forbid(L, b, "a policy");
    bool well = call_in(L, p, what, q);
    binding_allow(L, b, NULL);
    return well;
}

static void decide(void *user, void *state, const tide_policy_snapshot *now,
                   tide_policy_decision *out) {
    policy *p = user;
    question q = {.of = p, .state = state, .now = now, .out = out};
    pthread_mutex_lock(&p->lock);
    int well = run(p, p->ask, &q);
    pthread_mutex_unlock(&p->lock);
    if (well < 0) out->reason = "its Lua state is not in a call here";
    if (well == 0) out->level = -1, out->reason = p->error;
}

static void observe(void *user, void *state, const tide_policy_snapshot *before,
                    const tide_policy_snapshot *after, const tide_policy_collection *c) {
    policy *p = user;
    question q = {.of = p, .state = state, .now = before, .after = after, .collection = c};
    pthread_mutex_lock(&p->lock);
    run(p, p->tell, &q);
    pthread_mutex_unlock(&p->lock);
}

/* ---- what a policy is made of: the table on the top of the stack ---- */

typedef struct texts { /* of a table that is about to be registered: Lua's, on the stack */
    tide_policy table;
    tide_policy_param params[TIDE_POLICY_PARAMS_MAX];
} texts;

static double number_of(lua_State *L, const char *name, double otherwise) {
    lua_getfield(L, -1, name);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
        fail(L, "policy: expected a number as a parameter's '%s', found %s", name,
             luaL_typename(L, -1));
    double v = lua_isnil(L, -1) ? otherwise : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return v;
}

/* Stays on the stack of who reads the table, which holds the text anyway. */
static const char *text_of(lua_State *L, const char *name) {
    lua_getfield(L, -1, name);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
        fail(L, "policy: expected a text as '%s', found %s", name, luaL_typename(L, -1));
    const char *text = lua_tostring(L, -1);
    lua_pop(L, 1);
    return text;
}

static void read_param(lua_State *L, tide_policy_param *to) {
    static const char *const kinds[] = {"number", "bytes", "time", "switch"};
    if (!lua_istable(L, -1))
        fail(L, "policy: expected a table as a parameter, found %s", luaL_typename(L, -1));
    const char *kind = text_of(L, "kind");
    *to = (tide_policy_param){.name = text_of(L, "name"),
                              .meaning = text_of(L, "meaning"),
                              .usual = number_of(L, "usual", 0),
                              .low = number_of(L, "low", 0),
                              .high = number_of(L, "high", 1)};
    while (kind && to->kind < 4 && strcmp(kinds[to->kind], kind) != 0) to->kind++;
    if (to->kind == 4) fail(L, "policy: there is no kind of parameters '%s'", kind);
}

static bool has_function(lua_State *L, const char *name) {
    lua_getfield(L, -1, name);
    int type = lua_type(L, -1);
    lua_pop(L, 1);
    if (type != LUA_TFUNCTION && type != LUA_TNIL)
        fail(L, "policy: expected a function as '%s', found %s", name, lua_typename(L, type));
    return type == LUA_TFUNCTION;
}

static void check_names(lua_State *L) {
    static const char *const names[] = {"name",    "decide",    "observe", "params",
                                        "summary", "unguarded", NULL};
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int i = 0;
        while (names[i] && strcmp(names[i], name) != 0) i++;
        if (!names[i]) fail(L, "policy: there is no field '%s'", name);
    }
}

static void read_table(lua_State *L, texts *t) {
    *t = (texts){.table = {.struct_size = sizeof t->table,
                           .name = text_of(L, "name"),
                           .summary = text_of(L, "summary"),
                           .state_bytes = sizeof(uint64_t),
                           .decide = decide}};
    check_names(L);
    if (!has_function(L, "decide")) fail(L, "policy: there is no function 'decide'");
    if (has_function(L, "observe")) t->table.observe = observe;
    lua_getfield(L, -1, "unguarded");
    t->table.unguarded = lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "params");
    if (!lua_isnil(L, -1) && !lua_istable(L, -1))
        fail(L, "policy: expected a table as 'params', found %s", luaL_typename(L, -1));
    size_t n = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
    if (n > TIDE_POLICY_PARAMS_MAX)
        fail(L, "policy: more than %d parameters", TIDE_POLICY_PARAMS_MAX);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (int)i + 1);
        read_param(L, &t->params[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    t->table.params = t->params, t->table.nparams = n;
}

/* Takes the table on the top, and what the policy needs of its state: references. */
static void take_table(lua_State *L, policy *p) {
    lua_newtable(L); /* a copy that nobody else changes */
    for (const char *const *name = (const char *const[]){"decide", "observe", NULL}; *name;
         name++) {
        lua_getfield(L, -2, *name);
        lua_setfield(L, -2, *name);
    }
    lua_newtable(L);
    lua_setfield(L, -2, "states");
    p->table = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, ask);
    p->ask = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, tell);
    p->tell = luaL_ref(L, LUA_REGISTRYINDEX);
}

static void leave_table(lua_State *L, const policy *p) {
    luaL_unref(L, LUA_REGISTRYINDEX, p->table);
    luaL_unref(L, LUA_REGISTRYINDEX, p->ask);
    luaL_unref(L, LUA_REGISTRYINDEX, p->tell);
}

/* ---- registering ---- */

static void add(policy *p) {
    pthread_mutex_lock(&adding);
    p->next = policies;
    policies = p;
    pthread_mutex_unlock(&adding);
}

static policy *policy_new(const texts *t) {
    policy *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&p->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    p->nparams = t->table.nparams;
    snprintf(p->name, sizeof p->name, "%s", t->table.name ? t->table.name : "");
    for (size_t i = 0; i < p->nparams; i++)
        snprintf(p->params[i], sizeof p->params[i], "%s",
                 t->params[i].name ? t->params[i].name : "");
    return p;
}

static void policy_free(policy *p) { /* one that could not be registered */
    pthread_mutex_destroy(&p->lock);
    free(p->path);
    free(p);
}

/* One of that name whose state has ended, and which had no parameters either, is taken again: names
** stay for the process. */
static policy *take_again(binding *b, const texts *t) {
    pthread_mutex_lock(&adding);
    policy *p = policies;
    while (p && (p->path || p->nparams || strcmp(p->name, t->table.name ? t->table.name : "") != 0))
        p = p->next;
    if (p && t->table.nparams == 0) {
        pthread_mutex_lock(&p->lock);
        bool ended = !p->of;
        if (ended) {
            p->of = b;
            p->failed = p->told = false;
        }
        pthread_mutex_unlock(&p->lock);
        if (!ended) p = NULL;
    } else
        p = NULL;
    pthread_mutex_unlock(&adding);
    return p;
}

int own_policy(lua_State *L) {
    binding *b = binding_enter(L);
    if (!lua_istable(L, 1))
        return fail(L, "policy: expected a table, found %s", luaL_typename(L, 1));
    lua_settop(L, 1);
    luaL_checkstack(L, 16, "policy");
    texts *t = lua_newuserdata(L, sizeof *t);
    lua_pushvalue(L, 1);
    read_table(L, t);
    policy wanted, *p; /* its references alone */
    take_table(L, &wanted);
    b->policies = true;
    p = take_again(b, t);
    if (!p) {
        p = policy_new(t);
        if (p) t->table.user = p, p->of = b;
        if (!p || tide_policy_register(&t->table) != TIDE_OK) {
            leave_table(L, &wanted);
            if (!p) return fail(L, "policy: no memory is left");
            policy_free(p);
            return call_failed(L);
        }
        add(p);
    }
    p->table = wanted.table, p->ask = wanted.ask, p->tell = wanted.tell;
    lua_pushlightuserdata(L, p);
    lua_pushstring(L, p->name);
    return 1;
}

/* The state ends: nobody is in it from here on. */
void policies_end(binding *b) {
    pthread_mutex_lock(&adding);
    for (policy *p = policies; p && b->policies; p = p->next) {
        pthread_mutex_lock(&p->lock);
        if (p->of == b) p->of = NULL;
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&adding);
}

/* Tells the errors of this state's policies, and of files'. */
static void tell_all(binding *b) {
    pthread_mutex_lock(&adding);
    for (policy *p = policies; p; p = p->next) {
        if (!p->failed || p->told || (p->of != b && !p->L)) continue;
        p->told = true;
        later_warn(b->later, p->name, p->error);
    }
    pthread_mutex_unlock(&adding);
}

void policies_tell(binding *b) {
    unsigned now = atomic_load(&policies_failed);
    if (b->failures == now) return;
    b->failures = now;
    tell_all(b);
}

/* ---- files ---- */

/* require "tidepool" in a policy's file */
static int no_module(lua_State *L) { return fail(L, "a policy may not call the library"); }

/* In the file's own state, under pcall: runs it, and reads what it returns. */
static int load(lua_State *L) {
    const char *path = lua_touserdata(L, 1);
    policy *p = lua_touserdata(L, 2);
    texts *t = lua_touserdata(L, 3);
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, no_module);
    lua_setfield(L, -2, "tidepool");
    lua_settop(L, 3);
    if (luaL_loadfile(L, path) != 0) return lua_error(L);
    lua_call(L, 0, 1);
    if (!lua_istable(L, -1))
        fail(L, "%s: expected the table of a policy as its result, found %s", path,
             luaL_typename(L, -1));
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "tidepool.policy"); /* its texts stay */
    read_table(L, t);
    take_table(L, p);
    return 0;
}

/* The name that a file's policy has: the file's, of characters that names have. */
static void name_file(char *name, const char *path, int again) {
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    int n = snprintf(name, NAME_BYTES, "%.30s", base);
    for (char *c = name; *c; c++)
        if (!strchr("_-.0123456789", *c) && !((*c | 32) >= 'a' && (*c | 32) <= 'z')) *c = '_';
    if (again) snprintf(name + n, NAME_BYTES - (size_t)n, "-%d", again + 1);
}

static bool register_file(policy *p, texts *t, const char *path) {
    t->table.user = p, t->table.name = p->name;
    p->nparams = t->table.nparams;
    for (size_t i = 0; i < p->nparams; i++)
        snprintf(p->params[i], sizeof p->params[i], "%s",
                 t->params[i].name ? t->params[i].name : "");
    for (int again = 0; again < 1000; again++) {
        name_file(p->name, path, again);
        tide_error_clear();
        if (tide_policy_register(&t->table) == TIDE_OK) return true;
        if (!strstr(tide_error_last()->message, "already")) return false;
    }
    return false;
}

/* The file's policy; NULL: why is what is wrong. */
static policy *open_file(const char *path, char *why, size_t cap) {
    texts t = {0};
    policy *p = policy_new(&t);
    if (p) p->path = strdup(path), p->L = luaL_newstate();
    snprintf(why, cap, "no memory is left");
    if (!p || !p->path || !p->L) goto failed;
    lua_pushcfunction(p->L, load);
    lua_pushlightuserdata(p->L, p->path);
    lua_pushlightuserdata(p->L, p);
    lua_pushlightuserdata(p->L, &t);
    if (lua_pcall(p->L, 3, 0, 0) != 0) {
        const char *text = lua_type(p->L, -1) == LUA_TSTRING ? lua_tostring(p->L, -1) : NULL;
        snprintf(why, cap, "%s", text ? text : "an error that is no text");
        goto failed;
    }
    if (register_file(p, &t, path)) {
        add(p);
        return p;
    }
    snprintf(why, cap, "%s: %s", path, tide_error_last()->message);
    tide_error_clear();
failed:
    if (p && p->L) lua_close(p->L);
    if (p) policy_free(p);
    return NULL;
}

/* One that was opened, by its path. */
static policy *opened_file(const char *path) {
    pthread_mutex_lock(&adding);
    policy *p = policies;
    while (p && !(p->path && strcmp(p->path, path) == 0)) p = p->next;
    pthread_mutex_unlock(&adding);
    return p;
}

/* How much of the text is the path of a file in Lua: 0: it is none. */
static size_t path_of(const char *text) {
    size_t n = strcspn(text, "(");
    bool path = n > 4 && memchr(text, '/', n) && strncmp(text + n - 4, ".lua", 4) == 0;
    return path ? n : 0;
}

/* Pushes the name, with the parameters that were behind the path. False: why is what is wrong. */
static bool push_file(lua_State *L, const char *text, char *why, size_t cap) {
    size_t n = path_of(text);
    lua_pushlstring(L, text, n);
    policy *p = opened_file(lua_tostring(L, -1));
    if (!p) p = open_file(lua_tostring(L, -1), why, cap);
    lua_pop(L, 1);
    if (p) lua_pushfstring(L, "%s%s", p->name, text + n);
    return p != NULL;
}

void policy_of_config(lua_State *L, tide_config *config) {
    char why[512];
    if (config->policy) {
        if (path_of(config->policy)) {
            if (!push_file(L, config->policy, why, sizeof why)) fail(L, "open: %s", why);
            config->policy = lua_tostring(L, -1);
        }
        return;
    }
    const char *text = secure_getenv("TIDE_POLICY");
    if (!text || !path_of(text)) return;
    if (push_file(L, text, why, sizeof why)) {
        config->policy = lua_tostring(L, -1);
        return;
    }
    fprintf(stderr, "tidepool: TIDE_POLICY=%s: %s: the default stays\n", text, why);
    config->policy = "reserve";
}
