/* failures.c MODULE FAILURES.LUA: Lua's memory runs out at each of its allocations in turn. Each
** step of failures.lua either comes back with an error of Lua's or does what it does; afterwards no
** array is left, and the state works and closes. What the C side loses a sanitizer tells. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory {
    bool armed;
    long left; /* allocations that are still served */
    bool failed;
} memory;

static void *allocate(void *user, void *p, size_t old, size_t bytes) {
    memory *m = user;
    if (bytes == 0) {
        free(p);
        return NULL;
    }
    if (m->armed && (!p || bytes > old) && m->left-- <= 0) {
        m->failed = true;
        return NULL;
    }
    return realloc(p, bytes);
}

static int give_up(lua_State *L, const char *what) {
    fprintf(stderr, "%s: %s\n", what, lua_tostring(L, -1));
    exit(1);
}

/* The file's steps and its check, at 1 and 2. */
static lua_State *begin(memory *m, const char *module, const char *program) {
    lua_State *L = lua_newstate(allocate, m);
    if (!L) exit(1);
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, module);
    lua_setfield(L, -2, "cpath");
    lua_settop(L, 0);
    if (luaL_loadfile(L, program) || lua_pcall(L, 0, 2, 0)) give_up(L, program);
    return L;
}

/* Step i with memory for n allocations. False: it needed no more. */
static bool run(lua_State *L, memory *m, int i, long n) {
    lua_rawgeti(L, 1, i);
    *m = (memory){.armed = true, .left = n};
    int status = lua_pcall(L, 0, 0, 0);
    m->armed = false;
    if (status && !m->failed) give_up(L, "without a failure");
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_pcall(L, 0, 0, 0)) {
        fprintf(stderr, "step %d, allocation %ld: ", i, n);
        give_up(L, "afterwards");
    }
    return m->failed;
}

int main(int argc, char **argv) {
    memory m = {.armed = false};
    long all = 0;
    if (argc != 3) return 2;
    lua_State *L = begin(&m, argv[1], argv[2]);
    int steps = (int)lua_rawlen(L, 1);
    lua_close(L);
    for (int i = 1; i <= steps; i++) {
        L = begin(&m, argv[1], argv[2]);
        long n = 0;
        while (run(L, &m, i, n)) n++;
        lua_close(L);
        all += n;
    }
    printf("%d steps, %ld failures\n", steps, all);
    return 0;
}
