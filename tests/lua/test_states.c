/* test_states.c: Lua states that use the module come and go, on one thread and on several, and
** leave nothing; one state moves between threads; states end before and after what they opened.
** MODULE is the module's path, for the Lua that this is linked with. */
#include <dirent.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static lua_State *begin(void) {
    lua_State *L = luaL_newstate();
    if (!L) return NULL;
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, MODULE);
    lua_setfield(L, -2, "cpath");
    lua_settop(L, 0);
    return L;
}

/* Runs a text; false: it failed, and why stands on stderr. */
static bool run(lua_State *L, const char *text) {
    bool fine = luaL_loadstring(L, text) == 0 && lua_pcall(L, 0, 0, 0) == 0;
    if (!fine) fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_settop(L, 0);
    return fine;
}

/* A state that uses the module in several ways and leaves all that to lua_close. */
static bool one_state(bool short_of_memory) {
    static const char text[] = "local tide = require 'tidepool'\n"
                               "rt = tide.open{device = 'host', limit = '16MiB'}\n"
                               "kept = tide.array{1, 2, 3} + 1\n"
                               "view = kept[{{1, 2}}]\n"
                               "cache = tide.reclaimable{name = 'none', drop = function() end}\n"
                               "square = tide.fuse(function(x) return x * x end)\n"
                               "kept:on_death(function() end)\n"
                               "assert(square(kept):sum():item() == 29)\n";
    static const char refused[] = "assert(not pcall(require('tidepool').zeros, {1024, 1024, 64}))";
    lua_State *L = begin();
    bool fine = L && run(L, text) && (!short_of_memory || run(L, refused));
    if (L) lua_close(L);
    return fine;
}

static bool at_length(void) { return getenv("TIDE_TEST_LONG") != NULL; }

static int entries(const char *folder) {
    DIR *d = opendir(folder);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static int rounds(int all) { return at_length() ? all : all / 20; }

/* Under a sanitizer, which looks for what was lost itself, and whose own bookkeeping grows, the
** bytes are not compared. */
static void test_states_come_and_go(void **state) {
    (void)state;
    const int count = rounds(10000), warm = 500; /* until what the process keeps is there */
    int files = 0, threads = 0;
    size_t held = 0;
    for (int i = -warm; i < count; i++) {
        if (i == 0) {
            files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
            held = mallinfo2().uordblks;
        }
        assert_true(one_state(i % 50 == 0));
    }
    assert_int_equal(entries("/proc/self/fd"), files);
    assert_int_equal(entries("/proc/self/task"), threads);
    size_t after = mallinfo2().uordblks;
    if (!getenv("TIDE_TEST_QUICK") && after > held + (size_t)count * 16 + 16384)
        fail_msg("%zu bytes more after %d states", after - held, count);
}

static void *many_states(void *failed) {
    for (int i = 0; i < rounds(200); i++)
        if (!one_state(i % 50 == 0)) *(bool *)failed = true;
    return NULL;
}

static void test_states_in_threads(void **state) {
    (void)state;
    pthread_t threads[8];
    bool failed[8] = {false};
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_states, &failed[i]), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++) assert_false(failed[i]);
}

struct step {
    lua_State *L;
    const char *text; /* NULL: the state ends */
    bool fine;
};

static void *take_step(void *arg) {
    struct step *s = arg;
    s->fine = true;
    if (s->text)
        s->fine = run(s->L, s->text);
    else
        lua_close(s->L);
    return NULL;
}

static void elsewhere(lua_State *L, const char *text) {
    struct step s = {L, text, false};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_step, &s), 0);
    pthread_join(thread, NULL);
    assert_true(s.fine);
}

/* Garbage of one thread is found on another, under a limit that is reached in each. */
static void test_a_state_moves_between_threads(void **state) {
    (void)state;
    static const char work[] = "for i = 1, 100 do last = tide.full({512, 1024}, i, 'f32') end\n"
                               "sum = sum + last\n"
                               "assert(tide.stats().peak_backed <= 16 * 1024 * 1024)\n";
    lua_State *L = begin();
    elsewhere(L, "tide = require 'tidepool'\n"
                 "rt = tide.open{device = 'host', limit = '16MiB'}\n"
                 "sum = tide.zeros({512, 1024}, 'f32')\n");
    for (int i = 0; i < 4; i++) {
        elsewhere(L, work);
        assert_true(run(L, work));
    }
    assert_true(run(L, "assert(sum:max():item() == 800)\n"
                       "assert(tide.stats().collections > 0)\n"));
    elsewhere(L, NULL);
}

static void test_states_end_in_any_order(void **state) {
    (void)state;
    /* the arrays' runtime first, the state first, one of two, and one that others use */
    static const char *const ends[] = {
        "first:close() second:close()", "", "second:close()", "first:close()",
        "first:close() b = nil collectgarbage() local c = tide.ones(3) second:close()"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        lua_State *L = begin(), *other = begin();
        static const char open[] = "tide = require 'tidepool'\n"
                                   "first = tide.open{device = 'host'}\n"
                                   "a = tide.ones(3)\n"
                                   "view = a[{{1, 2}}]\n"
                                   "second = tide.open{device = 'host'}\n"
                                   "b = tide.ones(3)\n"
                                   "e = tide.expr('(x) -> x + 1')\n";
        assert_true(run(L, open) && run(other, open));
        assert_true(run(L, ends[i]));
        lua_close(L);
        assert_true(run(other, "assert((a:sum():item() == 3))"));
        lua_close(other);
    }
}

/* What a finalizer does with arrays while its state ends is an error or works. */
static void test_finalizers_use_arrays_at_the_end(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        lua_State *L = begin();
        assert_true(run(L, "local tide = require 'tidepool'\n"
                           "local arrays = {}\n"
                           "local function at_end()\n"
                           "  for i = 1, #arrays do pcall(arrays[i].sum, arrays[i]) end\n"
                           "  pcall(tide.ones, 3)\n"
                           "  pcall(tide.open, {device = 'host'})\n"
                           "end\n"
                           "local function mortal()\n"
                           "  if newproxy then\n"
                           "    local p = newproxy(true)\n"
                           "    getmetatable(p).__gc = at_end\n"
                           "    return p\n"
                           "  end\n"
                           "  return setmetatable({}, {__gc = at_end})\n"
                           "end\n"
                           "kept = {mortal()}\n"
                           "tide.open{device = 'host'}\n"
                           "for i = 1, 10 do\n"
                           "  arrays[i] = tide.ones(i)\n"
                           "  kept[#kept + 1] = mortal()\n"
                           "end\n"));
        lua_close(L);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_come_and_go),
        cmocka_unit_test(test_states_in_threads),
        cmocka_unit_test(test_a_state_moves_between_threads),
        cmocka_unit_test(test_states_end_in_any_order),
        cmocka_unit_test(test_finalizers_use_arrays_at_the_end),
    };
    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
