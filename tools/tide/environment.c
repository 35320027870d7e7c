/* environment.c: `tide info --env`: every variable that Tidepool reads, with its value, where that
** comes from, and what becomes of it.
**
** Model. The settings say what their table understands. Names and files are looked up by the parts
** that want them as a runtime opens: so one is opened, and what it says of a variable becomes that
** row's verdict. What would fail or record is taken out of the environment before. Variables called
** TIDE_... that are no row's are nobody's. Exit 0, 1 where a verdict is bad or no runtime opens. */
#include "tools/tide/environment.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/device/device.h"
#include "runtime/base/text.h"
#include "runtime/runtime.h"
#include <tide/tide.h>

#define ROWS_MAX  512 /* more variables TIDE_... than that are not listed */
#define CELL_MAX  TIDEI_SHOWN_MAX
#define OWN       "TIDE_"
#define FOR_TESTS "TIDE_TEST_"

/* Read where they are wanted, not by the settings. */
enum { NVTX = 1 };
static const char *const others[] = {"TIDE_NVRTC_PATH", [NVTX] = "NVTX_INJECTION64_PATH",
                                     "CUDA_HOME", "CUDA_PATH"};

struct row {
    const char *name;
    char value[CELL_MAX], verdict[600];
    bool set, bad;
};

struct rows {
    struct row at[ROWS_MAX];
    size_t n, settings, known; /* the first are the settings', then come `others` */
};

static struct row *find(struct rows *r, const char *name, size_t n) {
    for (size_t i = 0; i < r->n; i++)
        if (strlen(r->at[i].name) == n && !memcmp(r->at[i].name, name, n)) return &r->at[i];
    return NULL;
}

static struct row *add(struct rows *r, const char *name, const char *value) {
    if (r->n == ROWS_MAX) return NULL;
    struct row *x = &r->at[r->n++];
    *x = (struct row){.name = name, .set = value && *value};
    if (x->set) tidei_line_of(x->value, sizeof x->value, value);
    return x;
}

__attribute__((format(printf, 2, 3))) static void condemn(struct row *x, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(x->verdict, sizeof x->verdict, fmt, ap);
    va_end(ap);
    x->bad = true;
}

/* ---- what is known ---- */

static void add_settings(struct rows *r) {
    tidei_variable v;
    for (size_t i = 0; tidei_settings_variable(i, &v); i++) {
        struct row *x = add(r, v.name, v.value);
        if (!x || v.understood) continue;
        condemn(x, "not understood (wanted: %s); %s", v.wanted,
                v.vital ? "tide_open fails" : "the default stays");
        if (v.vital) unsetenv(v.name); /* so that the rest can be looked at */
    }
}

/* Paths, all of them. */
static void add_others(struct rows *r) {
    for (size_t i = 0; i < TIDEI_COUNT(others); i++) {
        const char *path = secure_getenv(others[i]);
        struct row *x = add(r, others[i], path);
        bool told = i == NVTX; /* as a tool is looked for, by the log */
        if (!told && x && path && *path && access(path, F_OK))
            condemn(x, "there is no such file or folder");
    }
}

/* ---- what is nobody's ---- */

/* How many letters must be put in, taken out or changed to get from a to b: row by row of the usual
** table. */
static size_t distance(const char *a, const char *b) {
    size_t row[64], n = strlen(b);
    if (n >= TIDEI_COUNT(row)) return SIZE_MAX;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; *a; a++, i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best =
                tidei_min_size(corner + (*a != b[j - 1]), tidei_min_size(row[j], row[j - 1]) + 1);
            corner = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

/* The known name that was likely meant: one letter of three may be wrong. NULL: none is that
** close. */
static const char *meant(const struct rows *r, const char *name) {
    const char *best = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < r->known; i++) {
        size_t d = distance(name, r->at[i].name);
        size_t letters = tidei_min_size(strlen(name), strlen(r->at[i].name)) - strlen(OWN);
        if (strncmp(r->at[i].name, OWN, strlen(OWN)) || d > letters / 3 || d >= least) continue;
        best = r->at[i].name;
        least = d;
    }
    return best;
}

static void add_unknown(struct rows *r) {
    static char names[ROWS_MAX][CELL_MAX];
    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        size_t n = equals ? (size_t)(equals - *e) : 0;
        if (n <= strlen(OWN) || n >= CELL_MAX || strncmp(*e, OWN, strlen(OWN))) continue;
        if (!strncmp(*e, FOR_TESTS, strlen(FOR_TESTS)) || find(r, *e, n) || r->n == ROWS_MAX)
            continue;
        char name[CELL_MAX], *shown = names[r->n];
        snprintf(name, sizeof name, "%.*s", (int)n, *e);
        struct row *x = add(r, tidei_line_of(shown, CELL_MAX, name), equals + 1);
        const char *other = meant(r, name);
        condemn(x, "unknown: nobody reads it%s%s%s", other ? "; did you mean " : "",
                other ? other : "", other ? "?" : "");
    }
}

/* ---- what comes out as a runtime opens ---- */

/* A line of the log that begins with a variable and its value is about that row: "TIDE_POOL=foo is
** ...". */
static void hear(void *user, int level, const char *line) {
    struct rows *r = user;
    const char *equals = strchr(line, '=');
    struct row *x = equals ? find(r, line, (size_t)(equals - line)) : NULL;
    (void)level;
    if (!x || x->bad || strncmp(equals + 1, x->value, strlen(x->value))) return;
    const char *said = equals + 1 + strlen(x->value);
    if (!strncmp(said, ": ", 2)) said += 2;
    if (!strncmp(said, " is ", 4)) said += 4;
    condemn(x, "%s", said);
}

static bool is_folder(const char *path) {
    struct stat st;
    if (stat(path, &st)) return false;
    errno = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    return S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) == 0;
}

/* Whether `path` could be made, with the folders around it where `deep`. False: errno says why
** not. */
static bool can_be_made(const char *path, bool deep) {
    char around[1100];
    snprintf(around, sizeof around, "%s", path);
    for (;;) {
        char *slash = strrchr(around, '/');
        if (!slash) return is_folder(".");
        slash[slash == around] = 0;
        if (is_folder(around)) return true;
        if (errno != ENOENT || !deep || !strcmp(around, "/")) return false;
    }
}

static void look_at_trace(struct rows *r, const char *path) {
    struct row *x = find(r, "TIDE_TRACE", strlen("TIDE_TRACE"));
    struct stat st;
    if (!*path) return;
    bool there = stat(path, &st) == 0;
    errno = there && !S_ISREG(st.st_mode) ? EINVAL : 0;
    bool can = there ? errno == 0 && access(path, W_OK) == 0 : can_be_made(path, false);
    if (!can) condemn(x, "cannot be written: %s; nothing would be recorded", strerror(errno));
}

static void look_at_cache(struct rows *r, const tidei_settings *s) {
    struct row *x = find(r, "TIDE_CACHE_DIR", strlen("TIDE_CACHE_DIR"));
    if (!x->set || x->bad || is_folder(s->cache_dir)) return;
    if (errno != ENOENT || !can_be_made(s->cache_dir, true))
        condemn(x, "cannot be written: %s; the kernel cache would be off", strerror(errno));
}

/* Opens one as the environment says, but records nothing. *device: what it runs on. */
static tide_status look_around(struct rows *r, char *device, size_t cap) {
    tide_config c = {
        .struct_size = sizeof c, .log = hear, .log_user = r, .log_level = TIDE_LOG_WARNING};
    tide_runtime *rt;
    unsetenv("TIDE_TRACE");
    tide_status status = tide_open(&c, &rt);
    if (status == TIDE_OK) {
        tide_device_text(rt, device, cap);
        device[strcspn(device, " ;")] = 0;
        tide_close(rt);
    } else if (status == TIDE_E_NODEVICE) {
        struct row *x = find(r, "TIDE_DEVICE", strlen("TIDE_DEVICE"));
        if (x->set && !x->bad) condemn(x, "%s", tide_error_last()->message);
    }
    return status;
}

/* ---- values that nobody set ---- */

/* Defaults that the settings leave to others; "none" for the rest. */
static const char *default_of(const char *name, const char *device) {
    const struct {
        const char *name, *value;
    } words[] = {{"TIDE_DEVICE", device},
                 {"TIDE_COLLECTOR", TIDEI_COLLECTOR_DEFAULT},
                 {"TIDE_RELEASE_THRESHOLD", "adaptive"},
                 {"TIDE_PINNED_LIMIT", "50%"},
                 {"TIDE_PEERS", "all"},
                 {"TIDE_HOST_THREADS", "the processors"}};
    for (size_t i = 0; i < TIDEI_COUNT(words); i++)
        if (!strcmp(name, words[i].name)) return words[i].value;
    return "none";
}

static void fill_in(struct rows *r, tidei_settings *s, const char *device) {
    char text[1024]; /* as long as the longest setting */
    if (!s->host_device_memory) s->host_device_memory = tidei_host_default_memory();
    for (size_t i = 0; i < r->known; i++) {
        struct row *x = &r->at[i];
        if (x->set) continue;
        *text = 0;
        if (i < r->settings) tidei_settings_show(s, i, text, sizeof text);
        tidei_line_of(x->value, sizeof x->value, *text ? text : default_of(x->name, device));
    }
}

/* ---- the table ---- */

/* Characters, not bytes. */
static int width(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xC0) != 0x80;
    return n;
}

static void print_row(const char *name, const char *value, const char *origin, const char *verdict,
                      const int wide[2]) {
    int pad[] = {wide[0] - width(name), wide[1] - width(value)};
    printf("%s%*s  %s%*s  ", name, pad[0], "", value, pad[1], "");
    printf(*verdict ? "%-11s  %s\n" : "%s%s\n", origin, verdict);
}

static bool print(const struct rows *r) {
    int wide[] = {(int)strlen("variable"), (int)strlen("value")};
    bool good = true;
    for (size_t i = 0; i < r->n; i++) {
        const struct row *x = &r->at[i];
        if (width(x->name) > wide[0]) wide[0] = width(x->name);
        if (width(x->value) > wide[1]) wide[1] = width(x->value);
    }
    print_row("variable", "value", "origin", "verdict", wide);
    for (size_t i = 0; i < r->n; i++) {
        const struct row *x = &r->at[i];
        const char *verdict = x->bad ? x->verdict : x->set ? "taken" : "";
        print_row(x->name, x->value, x->set ? "environment" : "default", verdict, wide);
        good = good && !x->bad;
    }
    return good;
}

int tidei_environment_command(void) {
    static struct rows rows;
    tidei_settings s;
    char device[1024] = "none";
    add_settings(&rows);
    rows.settings = rows.n;
    add_others(&rows);
    rows.known = rows.n;
    add_unknown(&rows);
    tide_status status = tidei_settings_read(NULL, &s);
    if (status == TIDE_OK) {
        look_at_trace(&rows, s.trace);
        look_at_cache(&rows, &s);
        status = look_around(&rows, device, sizeof device);
        fill_in(&rows, &s, device);
    }
    bool good = print(&rows);
    if (status != TIDE_OK) fprintf(stderr, "tide info: %s\n", tide_error_last()->message);
    return good && status == TIDE_OK ? 0 : 1;
}
