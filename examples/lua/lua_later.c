/* lua_later.c: what the library tells at any moment, and Lua hears in its next call: arrays'
** deaths, lines of the log, errors in functions that the library called.
**
** Model. A note is put into a queue, from whatever thread and without any of Lua's memory. The next
** call of the module's, by the state that it is for, calls the functions, under pcall.
** What must stay true: a note of a death is there before the array dies, so that nothing can fail
** then; the queue outlives the state where an array does. */
#include "binding.h"
#include "tables.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LINES_MOST 1000 /* of logs that wait; what comes beyond is dropped */

typedef struct note {
    struct note *next;
    later *of;
    int function; /* a reference; LUA_NOREF: the text is told as a warning */
    int level;    /* of a line; 0: a death */
    char text[];
} note;

struct later {
    pthread_mutex_t lock;
    note *first, **end;
    _Atomic bool waiting;
    int lines, holders; /* the binding, and notes of deaths to come */
    bool ended;         /* the binding has let go */
};

/* ---- the queue ---- */

later *later_new(void) {
    later *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    pthread_mutex_init(&q->lock, NULL);
    q->end = &q->first;
    q->holders = 1;
    return q;
}

_Atomic bool *later_waiting(later *q) { return &q->waiting; }

static note *note_new(later *q, const char *text) {
    size_t n = strlen(text) + 1;
    note *x = malloc(sizeof *x + n);
    if (!x) return NULL;
    *x = (note){.of = q, .function = LUA_NOREF};
    memcpy(x->text, text, n);
    return x;
}

/* With the lock held. */
static void put(later *q, note *x) {
    *q->end = x;
    q->end = &x->next;
    atomic_store(&q->waiting, true);
}

static note *take(later *q) {
    pthread_mutex_lock(&q->lock);
    note *x = q->first;
    if (x) {
        q->first = x->next;
        if (!x->next) q->end = &q->first;
        q->lines -= x->level != 0;
    }
    atomic_store(&q->waiting, q->first != NULL);
    pthread_mutex_unlock(&q->lock);
    return x;
}

static note *look(later *q) {
    pthread_mutex_lock(&q->lock);
    note *x = q->first;
    pthread_mutex_unlock(&q->lock);
    return x;
}

static void let_go(later *q) {
    pthread_mutex_lock(&q->lock);
    bool last = --q->holders == 0;
    pthread_mutex_unlock(&q->lock);
    if (!last) return;
    for (note *x; (x = take(q));) free(x);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

void later_end(later *q) {
    pthread_mutex_lock(&q->lock);
    q->ended = true;
    pthread_mutex_unlock(&q->lock);
    let_go(q);
}

/* ---- telling ---- */

/* The text on the top, which it pops. */
static void warn_of(lua_State *L) {
    const char *text = lua_tostring(L, -1);
#if LUA_VERSION_NUM >= 504
    lua_warning(L, text ? text : "tidepool: an error that is no text", 0);
#else
    fprintf(stderr, "Lua warning: %s\n", text ? text : "tidepool: an error that is no text");
#endif
    lua_pop(L, 1);
}

void later_warn(later *q, const char *what, const char *text) {
    char line[512];
    snprintf(line, sizeof line, "tidepool: an error in %s: %s", what, text);
    note *x = note_new(q, line);
    pthread_mutex_lock(&q->lock);
    if (x) put(q, x);
    pthread_mutex_unlock(&q->lock);
}

static void deliver(lua_State *L, note *x) {
    if (x->function == LUA_NOREF) {
        lua_pushstring(L, x->text);
        warn_of(L);
        return;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->function);
    if (x->level == 0) luaL_unref(L, LUA_REGISTRYINDEX, x->function);
    if (x->level != 0) {
        lua_pushinteger(L, x->level);
        lua_pushstring(L, x->text);
    }
    if (lua_pcall(L, x->level != 0 ? 2 : 0, 0, 0) == 0) return;
    lua_pushfstring(L, "tidepool: an error in %s: %s", x->level ? "log" : "on_death",
                    lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "no text");
    lua_remove(L, -2);
    warn_of(L);
}

static bool of_death(const note *x) { return x->level == 0 && x->function != LUA_NOREF; }

/* A note at a time, which is in Lua's memory before it leaves the queue. Others only add to it. */
static int deliver_all(lua_State *L) {
    later *q = ((binding *)lua_touserdata(L, 1))->later;
    for (note *x; (x = look(q)); lua_settop(L, 1)) {
        size_t bytes = sizeof *x + strlen(x->text) + 1;
        note *copy = lua_newuserdata(L, bytes);
        memcpy(copy, x, bytes);
        free(take(q));
        if (of_death(copy)) let_go(q);
        deliver(L, copy);
    }
    return 0;
}

void later_run(lua_State *L, binding *b) {
    if (b->delivering || b->collecting || !atomic_load(&b->later->waiting)) return;
    luaL_checkstack(L, 8, "tidepool");
    b->delivering = true;
    lua_pushcfunction(L, deliver_all);
    lua_pushlightuserdata(L, b);
    if (lua_pcall(L, 1, 0, 0) != 0) lua_pop(L, 1); /* memory ran out: the rest waits */
    b->delivering = false;
}

/* ---- deaths ---- */

static void on_death(void *user) {
    note *x = user;
    later *q = x->of;
    pthread_mutex_lock(&q->lock);
    put(q, x);
    bool nobody = q->ended; /* who would take it */
    pthread_mutex_unlock(&q->lock);
    if (nobody) let_go(q);
}

int own_on_death(lua_State *L) {
    call c = call_begin(L, OWN(on_death));
    tide_array *a = arg_own_array(&c, 0);
    int at = call_at(&c, 1);
    if (!at || !lua_isfunction(L, at)) return call_error(&c, 1, "a function");
    lua_pushvalue(L, at);
    int function = luaL_ref(L, LUA_REGISTRYINDEX);
    later *q = c.b->later;
    note *x = note_new(q, "");
    if (!x) {
        luaL_unref(L, LUA_REGISTRYINDEX, function);
        return fail(L, "on_death: no memory is left");
    }
    x->function = function;
    pthread_mutex_lock(&q->lock);
    q->holders++;
    pthread_mutex_unlock(&q->lock);
    if (tide_array_on_death(a, on_death, x) != TIDE_OK) {
        free(x);
        let_go(q);
        luaL_unref(L, LUA_REGISTRYINDEX, function);
        return call_failed(L);
    }
    lua_settop(L, 1);
    return 1;
}

/* ---- the log ---- */

void later_log(void *user, int level, const char *line) {
    opened *o = user;
    later *q = o->of->later;
    note *x = note_new(q, line);
    if (!x) return;
    x->function = o->log;
    x->level = level;
    pthread_mutex_lock(&q->lock);
    bool room = q->lines < LINES_MOST;
    if (room) {
        q->lines++;
        put(q, x);
    }
    pthread_mutex_unlock(&q->lock);
    if (!room) free(x);
}
