/* lua_timed.c PROGRAM [ARGUMENT]...: a Lua interpreter that knows how long its collector took.
**
** Model. It is linked with Lua's static library, whose calls of the collector go through here
** (-Wl,--wrap): with finalizers, and what they call. Times are the processor's, which other
** programs on the machine do not lengthen. collector_s() gives the collector's, busy_s() that of
** the thread or of all others together, whichever is more: about what the program takes on an idle
** machine, where the host device computes on a thread of its own. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <time.h>

static double spent;
static int depth; /* of collections: a finalizer may begin one */

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double thread_seconds(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

void __real_luaC_step(lua_State *L);
void __wrap_luaC_step(lua_State *L);
void __real_luaC_fullgc(lua_State *L, int emergency);
void __wrap_luaC_fullgc(lua_State *L, int emergency);

void __wrap_luaC_step(lua_State *L) {
    double begin = depth++ ? 0 : thread_seconds();
    __real_luaC_step(L);
    if (--depth == 0) spent += thread_seconds() - begin;
}

void __wrap_luaC_fullgc(lua_State *L, int emergency) {
    double begin = depth++ ? 0 : thread_seconds();
    __real_luaC_fullgc(L, emergency);
    if (--depth == 0) spent += thread_seconds() - begin;
}

static int collector_s(lua_State *L) { return lua_pushnumber(L, spent), 1; }

static int busy_s(lua_State *L) {
    double here = thread_seconds(), others = seconds(CLOCK_PROCESS_CPUTIME_ID) - here;
    return lua_pushnumber(L, here > others ? here : others), 1;
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: lua-timed PROGRAM [ARGUMENT]...\n"), 2;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_createtable(L, argc, 0);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - 1);
    }
    lua_setglobal(L, "arg");
    lua_register(L, "collector_s", collector_s);
    lua_register(L, "busy_s", busy_s);
    int failed = luaL_loadfile(L, argv[1]) || lua_pcall(L, 0, 0, 0);
    if (failed) fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_close(L);
    return failed != 0;
}
