/* fuzz_env.c: the environment, as the settings read it and as a runtime opens in it.
**
** An input is lines NAME=value; "@c=value" is the c-th variable of the settings' table. A byte 0x1F
** stands for an end of line within a value. A line that begins with '!' opens a runtime too, on
** host, with what is written confined to a folder of the program's own. */
#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gc/policy.h"
#include "runtime/base/text.h"
#include "runtime/runtime.h"
#include "tests/fuzz/fuzz.h"
#include <tide/tide.h>

#define VARIABLES 64 /* of an input, at most; names apart */
#define OPENS     25 /* an input in so many opens a runtime of itself */

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_env: %s\n", what);
    for (char **e = environ; *e; e++) fprintf(stderr, "  %s\n", *e);
    abort();
}
#define REQUIRE(c) require(c, #c)

/* ---- the environment ---- */

/* Where recordings and caches go; gone at the program's end. */
static const char *scratch(void) {
    static char folder[64];
    if (*folder) return folder;
    strcpy(folder, "/tmp/tide-fuzz-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    return folder;
}
static void clear_scratch(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch());
    if (system(command)) fprintf(stderr, "fuzz_env: %s stays\n", scratch());
}

/* Replaces the whole environment: one string after the other, without a copy of the C library's. */
static char text[2 * 4096 + 64 * 64], *variables[VARIABLES + 8];
static char **of_the_process;

static size_t name_length(const char *variable) { return strcspn(variable, "="); }

static bool is_set(const char *name, size_t n) {
    for (char **e = variables; *e; e++)
        if (name_length(*e) == n && !memcmp(*e, name, n)) return true;
    return false;
}

/* The name that a line begins with, or that of the table; NULL: none that is for us. */
static const char *name_of(const uint8_t *line, size_t n, char buf[64]) {
    tidei_variable v;
    size_t rows = 0;
    while (tidei_settings_variable(rows, &v)) rows++;
    if (n == 2 && line[0] == '@') return tidei_settings_variable(line[1] % rows, &v), v.name;
    if (n >= 64 || n < 5 || memcmp(line, "TIDE_", 5) || memchr(line, 0, n)) return NULL;
    memcpy(buf, line, n);
    buf[n] = 0;
    return buf;
}

static void set_up(const uint8_t *bytes, size_t n, bool *opens) {
    size_t at = 0, count = 0;
    uint32_t sum = 0;
    memset(variables, 0, sizeof variables);
    for (size_t i = 0; i < n; i++) sum = sum * 31 + bytes[i];
    *opens = sum % OPENS == 0;
    while (n && count < VARIABLES) {
        const uint8_t *end = memchr(bytes, '\n', n);
        size_t length = end ? (size_t)(end - bytes) : n, used = length + (end != NULL);
        const uint8_t *equals = memchr(bytes, '=', length);
        char buf[64];
        const char *name = equals ? name_of(bytes, (size_t)(equals - bytes), buf) : NULL;
        if (length && bytes[0] == '!') *opens = true;
        if (name && !is_set(name, strlen(name)) && at + 64 + length < sizeof text) {
            char *value = text + at + sprintf(text + at, "%s=", name);
            size_t m = (size_t)(bytes + length - equals) - 1;
            for (size_t i = 0; i < m; i++)
                value[i] = equals[1 + i] == 0x1f ? '\n' : (char)equals[1 + i];
            value[m] = 0; /* a NUL before that ends it */
            variables[count++] = text + at;
            at = (size_t)(value - text) + m + 1;
        }
        bytes += used;
        n -= used;
    }
    environ = variables;
}

/* ---- what must be true ---- */

static bool ends(const char *s, size_t cap) { return memchr(s, 0, cap) != NULL; }

/* A policy that is understood has values within their ranges; one that is not is told by a line. */
static void check_policy(const char *policy) {
    tidei_policy_choice c;
    char why[2048] = "";
    if (!tidei_policy_choose(policy, &c, why, sizeof why)) {
        REQUIRE(*why && ends(why, sizeof why) && !strchr(why, '\n'));
        REQUIRE(fuzz_is_utf8(why) || !fuzz_is_utf8(policy));
        return;
    }
    for (size_t i = 0; i < c.policy->nparams; i++)
        REQUIRE(c.at[i] >= c.policy->params[i].low && c.at[i] <= c.policy->params[i].high);
}

static void check_settings(const tidei_settings *s) {
    check_policy(s->policy);
    REQUIRE(ends(s->device, sizeof s->device) && ends(s->limit, sizeof s->limit));
    REQUIRE(ends(s->soft_limit, sizeof s->soft_limit) && ends(s->collector, sizeof s->collector));
    REQUIRE(ends(s->policy, sizeof s->policy) && ends(s->pool, sizeof s->pool));
    REQUIRE(ends(s->release_threshold, sizeof s->release_threshold) &&
            ends(s->peers, sizeof s->peers));
    REQUIRE(ends(s->pinned_limit, sizeof s->pinned_limit) &&
            ends(s->cache_dir, sizeof s->cache_dir));
    REQUIRE(ends(s->trace, sizeof s->trace));
    REQUIRE(s->host_devices >= 1 && s->host_devices <= 16);
    REQUIRE(s->host_threads >= 0 && s->host_threads <= TIDEI_HOST_THREADS_MAX);
    REQUIRE(s->log_level == TIDE_LOG_SILENT ||
            (s->log_level >= TIDE_LOG_ERROR && s->log_level <= TIDE_LOG_DEBUG));
    REQUIRE(s->debug >= 0 && s->debug <= 2 && s->debug_sample >= 0 &&
            s->debug_sample <= TIDEI_SAMPLE_MOST);
    REQUIRE(!s->debug || !s->debug_sample);
    REQUIRE(s->default_memory >= TIDEI_MEM_DEVICE && s->default_memory <= TIDEI_MEM_UNIFIED);
    REQUIRE(!s->host_device_memory || s->host_device_memory >= 64 * TIDEI_KIB);
    REQUIRE(!*s->cache_dir || *s->cache_dir == '/');
    size_t bytes;
    const char *limits[] = {s->limit, s->soft_limit, s->pinned_limit};
    for (unsigned i = 0; i < TIDEI_COUNT(limits); i++)
        REQUIRE(!*limits[i] || tidei_parse_bytes(limits[i], 1 << 20, &bytes));
    REQUIRE(!*s->release_threshold || tidei_parse_threshold(s->release_threshold, 1 << 20, &bytes));
}

static void check_line(const char *line, size_t room) {
    REQUIRE(strlen(line) < room);
    for (; *line; line++) REQUIRE((unsigned char)*line >= ' ' && *line != 0x7f);
}

/* What is not understood leaves what an empty environment gives; a text that is, is the setting. */
static void check_variables(const tidei_settings *s, const tidei_settings *none) {
    char now[1100], before[1100], line[TIDEI_SHOWN_MAX];
    tidei_variable v;
    for (size_t i = 0; tidei_settings_variable(i, &v); i++) {
        tidei_settings_show(s, i, now, sizeof now);
        tidei_settings_show(none, i, before, sizeof before);
        if (!v.value || !v.understood) REQUIRE(!strcmp(now, before) || !strcmp(v.name, "TIDE_LOG"));
        if (v.value) check_line(tidei_line_of(line, sizeof line, v.value), sizeof line);
        if (v.value && v.vital) REQUIRE(!strcmp(now, v.value));
    }
}

/* A limit that is not understood, and nothing else, fails; whoever names limits of its own is not
** stopped by it. */
static bool check_reading(void) {
    static char *nothing[] = {NULL};
    tidei_settings s, none;
    tidei_variable v;
    const char *bad = NULL;
    environ = nothing;
    REQUIRE(tidei_settings_read(NULL, &none) == TIDE_OK);
    environ = variables;
    for (size_t i = 0; tidei_settings_variable(i, &v); i++) {
        if (v.vital && !v.understood && !bad) bad = v.name;
        REQUIRE(v.vital == (strstr(v.name, "LIMIT") != NULL));
    }
    tide_error_clear();
    tide_status status = tidei_settings_read(NULL, &s);
    REQUIRE(status == (bad ? TIDE_E_INVALID : TIDE_OK));
    if (bad) {
        REQUIRE(strstr(tide_error_last()->message, bad) == tide_error_last()->message);
        REQUIRE(strstr(tide_error_last()->message, "wanted: ") != NULL);
        check_line(tide_error_last()->message, 1000);
    } else {
        check_settings(&s);
        check_variables(&s, &none);
    }
    const tide_config c = {
        .struct_size = sizeof c, .limit = "1GiB", .soft_limit = "1MiB", .pinned_limit = "1MiB"};
    REQUIRE(tidei_settings_read(&c, &s) == TIDE_OK);
    check_settings(&s);
    REQUIRE(!strcmp(s.limit, "1GiB") && !strcmp(s.soft_limit, "1MiB") &&
            !strcmp(s.pinned_limit, "1MiB"));
    return !bad;
}

/* ---- a runtime in it ---- */

static void note_line(void *user, int level, const char *line) {
    ++*(unsigned *)user;
    REQUIRE(level >= TIDE_LOG_ERROR && level <= TIDE_LOG_DEBUG);
    check_line(line, 4096);
}

/* Files and folders of the input's choice become some of the scratch folder's. */
static void confine(char paths[2][128]) {
    for (char **e = variables; *e; e++) {
        size_t n = strlen(*e);
        if (!strncmp(*e, "TIDE_TRACE=", 11) && n > 16) /* its end says the form */
            snprintf(paths[0], sizeof paths[0], "TIDE_TRACE=%s/run%s", scratch(), *e + n - 5),
                *e = paths[0];
        else if (!strncmp(*e, "TIDE_CACHE_DIR=/", 16))
            snprintf(paths[1], sizeof paths[1], "TIDE_CACHE_DIR=%s/cache", scratch()),
                *e = paths[1];
    }
}

/* A GPU is left alone: it would be the default, too. */
static const char *device_to_open(void) {
    for (char **e = variables; *e; e++)
        if (!strncmp(*e, "TIDE_DEVICE=host", 16)) return NULL;
    return "host";
}

static void open_in_it(bool limits_good) {
    char paths[2][128];
    unsigned lines = 0;
    tide_runtime *rt = NULL;
    tide_config c = {
        .struct_size = sizeof c, .device = device_to_open(), .log = note_line, .log_user = &lines};
    confine(paths);
    tide_error_clear();
    tide_status status = tide_open(&c, &rt);
    if (!limits_good) REQUIRE(status == TIDE_E_INVALID);
    if (status != TIDE_OK) {
        REQUIRE(status == tide_error_last()->status && strlen(tide_error_last()->message) > 10 &&
                !rt);
        REQUIRE(!limits_good || status != TIDE_E_INVALID);
        return;
    }
    tide_runtime_figures s = {.struct_size = sizeof s};
    REQUIRE(tide_runtime_info(rt, &s) == TIDE_OK &&
            s.live + s.rounding + s.cached + s.pending == s.backed);
    tide_release(tide_zeros(rt, TIDE_F32, 1, &(int64_t){100})); /* or it does not fit */
    REQUIRE(tidei_runtime_valid(tidei_runtime_of(rt)));
    tide_close(rt);
}

static void tide_fuzz_one(const uint8_t *bytes, size_t n) {
    bool opens;
    if (n > 4096) return;
    if (!of_the_process) {
        of_the_process = environ;
        scratch();
        atexit(clear_scratch);
    }
    set_up(bytes, n, &opens);
    bool good = check_reading();
    if (opens) open_in_it(good);
    environ = of_the_process;
}
