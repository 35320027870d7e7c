/* test_scan_groups.c: lines of so many groups of tiles that what is before a tile is waited for in
** several rounds, and bands of so many that groups of groups are waited for: scan.c, and a GPU's
** kernels, emulated, with small tiles in small groups. With the sizes that they have such a line
** has 2^25 elements and more. */
#include "arrays/scan/scan_params.h"
#undef SC_GROUP
#undef SC_STEPS
#undef SC_BAND_GROUP
#define SC_BAND_GROUP 2
#define SC_GROUP      2
#define SC_STEPS      1
#include "arrays/scan/scan.c" /* in place of the library's */
#include "tests/doubles/emulated_device.h"

static void set_constant(char *text, const char *define, char digit) {
    char *at = strstr(text, define);
    if (!at) fail_msg("no %s", define);
    for (at += strlen(define); *at == ' ';) at++;
    assert_true(*at >= '1' && *at <= '9');
    *at++ = digit;
    while (*at >= '0' && *at <= '9') *at++ = ' ';
}
static bool scanned, banded; /* by the kernels that are meant */
static void make_small(char *text) {
    if (!strstr(text, "scan_tiles_")) return;
    scanned |= strstr(text, "TIDE_WANTS_scan_tiles_") != NULL;
    banded |= strstr(text, "TIDE_WANTS_scan_bands_") != NULL;
    set_constant(text, "#define SC_BAND_GROUP ", '0' + SC_BAND_GROUP);
    set_constant(text, "#define SC_GROUP ", '0' + SC_GROUP);
    set_constant(text, "#define SC_STEPS ", '0' + SC_STEPS);
}

static int open_small(void **state) {
    emulated_edit = make_small;
    *state = emulated_open(&(tide_config){.collector = "refcount"});
    return 0;
}
static int close_small(void **state) {
    tide_close(*state);
    emulated_edit = NULL;
    return 0;
}

/* Two times `inner` lines of n elements. */
static void add_up(tide_runtime *rt, int64_t n, int64_t inner, bool backwards) {
    const size_t bytes = (size_t)(n * 2 * inner) * sizeof(int64_t);
    int64_t *x = malloc(bytes), *got = malloc(bytes);
    for (int64_t i = 0; i < 2 * n * inner; i++) x[i] = i * 40503 % 1009 - 500;
    tide_array *a = tide_from_host(rt, TIDE_I64, SHAPE(2, n, inner), x),
               *s = tide_cumsum(a, 1, backwards ? TIDE_SCAN_REVERSE : 0);
    assert_array(s);
    assert_ok(tide_to_host(s, got, bytes));
    for (int64_t line = 0; line < 2 * inner; line++) {
        int64_t sum = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t i =
                line / inner * n * inner + (backwards ? n - 1 - k : k) * inner + line % inner;
            sum += x[i];
            if (got[i] != sum) fail_msg("%d of %d elements, %d", (int)k, (int)n, (int)line);
        }
    }
    free(x), free(got);
    tide_release(a), tide_release(s);
}

static void what_is_before_many_groups_is_found(void **state) {
    static const int64_t groups[] = {129, 1, 127, 128, 300};
    if (!*state) skip();
    size_t n = test_quick() ? 2 : TIDEI_COUNT(groups);
    for (size_t i = 0; i < n; i++) add_up(*state, groups[i] * SC_GROUP * SC_TILE(8) + 77, 1, i % 2);
    assert_true(scanned);
}

static void what_is_before_groups_of_a_bands_groups_is_found(void **state) {
    static const int64_t tiles[] = {151, 5, 8};
    if (!*state) skip();
    for (size_t i = 0; i < TIDEI_COUNT(tiles); i++) {
        add_up(*state, tiles[i] * SC_BAND_TILE(8, 5) + 1, 5, i % 2 == 0);
        add_up(*state, tiles[i] * SC_BAND_TILE(8, 50), 150, i % 2 == 1);
    }
    assert_true(banded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_before_many_groups_is_found, open_small,
                                        close_small),
        cmocka_unit_test_setup_teardown(what_is_before_groups_of_a_bands_groups_is_found,
                                        open_small, close_small),
    };
    return cmocka_run_group_tests_name("scan_groups", tests, NULL, NULL);
}
