/* test_callbacks.c: callbacks that do what they must not: leave by longjmp, close the runtime, make arrays. */
#include "tests/leaver.h"
#include <pthread.h>
#include <semaphore.h>
#include <ucontext.h>

/* ---- leaving ---- */

static bool expect(tide_status s, const char *part) {
    return tide_last_error()->status == s && strstr(tide_last_error()->message, part);
}

/* The next call of the thread says what was left, and does nothing else; there are calls of several kinds. */
static void next_call_reports(int kind, unsigned which) {
    tide_statistics s = {.struct_size = sizeof s};
    tide_clear_error();
    switch (which % 5) {
    case 0: tide_safepoint(L.rt); break;
    case 1: assert_int_equal(tide_stats(L.rt, &s), TIDE_E_INVALID); break;
    case 2: assert_null(tide_zeros(L.rt, TIDE_F32, SHAPE(4))); break;
    case 3: assert_null(tide_add(L.base, L.base)); break;
    default: assert_int_equal(tide_collect(L.rt), TIDE_E_INVALID);
    }
    if (!expect(TIDE_E_INVALID, leave_texts[kind]) || !expect(TIDE_E_INVALID, "was left without a return"))
        fail_msg("%s: wanted its report, got %s: %s", leave_texts[kind],
                 tide_status_name(tide_last_error()->status), tide_last_error()->message);
    assert_true(tide_last_error()->operation[0]);
    tide_clear_error();
}

static unsigned steps;

static void step(void (*work)(void)) {
    L.left = false;
    if (!setjmp(L.catcher)) {
        call_deep(work);
    } else {
        int kind = L.kind;
        L.kind = LEAVE_NONE;
        next_call_reports(kind, steps);
    }
    steps++;
}

static void close_it(void) { tide_close(L.rt); }

/* All the work, one call of a callback of that kind left. False: there were fewer calls. */
static bool leave_at(int kind, unsigned at, int spill) {
    leaver_open(spill);
    memset(L.calls, 0, sizeof L.calls);
    L.kind = kind;
    L.at = at;
    bool left = false;
    for (unsigned i = 0; i < TIDEI_COUNT(works); i++) {
        step(works[i]);
        left |= L.left;
        tidy_up();
        if (!tidei_runtime_valid(test_rt(L.rt))) fail_msg("%s, call %u, work %u: not valid", leave_texts[kind], at, i);
    }
    assert_int_equal(files_in(L.folder), access(L.path, F_OK) == 0);
    L.kind = LEAVE_NONE;
    while (L.ngarbage) tide_release(L.garbage[--L.ngarbage]);
    tide_safepoint(L.rt);
    tide_statistics s = test_stats(L.rt);
    if (s.live + s.spilled != sizeof leave_numbers || s.arrays != 1)
        fail_msg("%s, call %u: %zu bytes live, of %u arrays", leave_texts[kind], at, s.live, (unsigned)s.arrays);
    assert_int_equal(L.weight, sizeof leave_numbers); /* the base's, all that is left */
    tide_release(L.base);
    L.base = NULL;
    L.kind = left ? LEAVE_NONE : kind;
    L.left = false;
    if (!setjmp(L.catcher)) {
        call_deep(close_it);
    } else {
        left = true;
        L.kind = LEAVE_NONE;
        tide_clear_error();
        tide_close(L.rt); /* says it, and closes all the same */
        assert_true(expect(TIDE_E_INVALID, "was left without a return"));
    }
    assert_int_equal(L.weight, 0);
    assert_int_equal(host_held, 0);
    unlink(L.path);
    assert_int_equal(rmdir(L.folder), 0);
    return left;
}

static void leave_each(int kind, int spill) {
    unsigned n = 1, most = 0;
    for (; leave_at(kind, n, spill); n += test_long() ? 1 : 1 + n / (test_quick() ? 2 : 12)) most = n;
    if (!most) fail_msg("%s: never called", leave_texts[kind]);
    if (getenv("LEAVE_SAY")) print_message("%s: %u\n", leave_texts[kind], most);
}

static void test_leaving_each_callback(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    for (int kind = 0; kind < LEAVE_KINDS; kind++) leave_each(kind, TIDE_OFF);
}

static void test_leaving_while_arrays_are_spilled(void **state) {
    (void)state;
    if (!test_on_host()) skip();
    leave_each(LEAVE_COLLECT, TIDE_ON);
    leave_each(LEAVE_BLOCKING, TIDE_ON);
    leave_each(LEAVE_DEATH, TIDE_ON);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaving_each_callback),
        cmocka_unit_test(test_leaving_while_arrays_are_spilled),
    };
    return cmocka_run_group_tests_name("callbacks", tests, NULL, NULL);
}
