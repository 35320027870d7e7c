/* settings.c: tide_config and the environment become settings. One table names every variable, its
** field and its parser; a field of tide_config wins over the variable, the variable over the
** default. A bad variable is a warning and the default stays, but a bad limit fails, as a bad field
** does. Whether there is a collector, policy or pool of a name, its own part decides, and warns in
** the same words. */
#include "runtime/base/settings.h"
#include "runtime/base/limits.h"
#include "runtime/base/callback.h"
#include "runtime/base/instance.h"
#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include <stdlib.h>
#include <tide/pool.h>

/* ---- forms of values that other parts look at too ---- */

const char *tidei_trace_suffix(const char *path) {
    static const char *const suffixes[] = {TIDEI_TRACE_CSV, TIDEI_TRACE_JSON};
    size_t n = strlen(path);
    for (size_t i = 0; i < TIDEI_COUNT(suffixes); i++) {
        size_t m = strlen(suffixes[i]);
        if (n > m && path[n - m - 1] != '/' && !strcmp(path + n - m, suffixes[i]))
            return suffixes[i];
    }
    return NULL;
}

bool tidei_parse_threshold(const char *text, size_t whole, size_t *out) {
    if (!strcmp(text, "unlimited") || !strcmp(text, "max"))
        return *out = TIDE_POOL_THRESHOLD_UNLIMITED, true;
    if (!strcmp(text, "adaptive")) return *out = TIDE_POOL_THRESHOLD_ADAPTIVE, true;
    return tidei_parse_bytes(text, whole, out);
}

/* The next pair of "0-1,2-3"; moves *text behind it and its comma. False: there is none. */
static bool next_pair(const char **text, int *a, int *b) {
    const char *end = *text;
    uint64_t one, two;
    if (!tidei_read_digits(&end, &one) || *end++ != '-' || !tidei_read_digits(&end, &two))
        return false;
    if ((*end && (*end != ',' || !end[1])) || one >= TIDEI_DEVICES_MAX || two >= TIDEI_DEVICES_MAX)
        return false;
    *a = (int)one;
    *b = (int)two;
    *text = *end ? end + 1 : end;
    return true;
}

bool tidei_peers_parse(const char *text) {
    int a, b;
    if (!*text || !strcmp(text, "all") || !strcmp(text, "none")) return true;
    while (next_pair(&text, &a, &b)) {}
    return !*text;
}

bool tidei_peers_allow(const char *text, int x, int y) {
    int a, b;
    if (!*text || !strcmp(text, "all")) return true;
    while (next_pair(&text, &a, &b))
        if ((a == x && b == y) || (a == y && b == x)) return true;
    return false;
}

/* ---- parsers of fields ---- */

/* Parses `text` into *field; false leaves it untouched. */
typedef bool parse_fn(const char *text, void *field, size_t cap);

static bool parse_text(const char *text, void *field, size_t cap) {
    if (!*text || strlen(text) >= cap) return false;
    memcpy(field, text, strlen(text) + 1);
    return true;
}

static bool parse_folder(const char *text, void *field, size_t cap) {
    return *text == '/' && parse_text(text, field, cap);
}

static bool parse_trace(const char *text, void *field, size_t cap) {
    return tidei_trace_suffix(text) && parse_text(text, field, cap);
}

static bool starts_with_count(const char *text, const char *name) {
    size_t n = strlen(name);
    if (strncmp(text, name, n)) return false;
    if (!text[n]) return true;
    return text[n] == ':' && text[n + 1] >= '0' && text[n + 1] <= '9' &&
           strspn(text + n + 1, "0123456789") == strlen(text + n + 1) && strlen(text + n + 1) <= 3;
}

static bool parse_device(const char *text, void *field, size_t cap) {
    return (starts_with_count(text, "host") || starts_with_count(text, "cuda")) &&
           parse_text(text, field, cap);
}

/* A limit stays text: a percentage wants the device's size. 100 stands in for it here, to see
** whether it parses. */
static bool parse_limit(const char *text, void *field, size_t cap) {
    size_t bytes;
    return tidei_parse_bytes(text, 100, &bytes) && parse_text(text, field, cap);
}

static bool parse_threshold(const char *text, void *field, size_t cap) {
    size_t bytes;
    return tidei_parse_threshold(text, 100, &bytes) && parse_text(text, field, cap);
}

static bool parse_size(const char *text, void *field, size_t cap) {
    (void)cap;
    return tidei_parse_bytes(text, 0, field);
}

static bool parse_host_memory(const char *text, void *field, size_t cap) {
    size_t bytes;
    (void)cap;
    /* one page of 64 KiB */
    if (!tidei_parse_bytes(text, 0, &bytes) || bytes < TIDEI_MIB / 16) return false;
    *(size_t *)field = bytes;
    return true;
}

static bool parse_kind(const char *text, void *field, size_t cap) {
    return (void)cap, tidei_kind_parse(text, field);
}

#define TIME_MOST_NS (3600 * UINT64_C(1000000000)) /* an hour */

static bool parse_switch(const char *text, void *field, size_t cap) {
    static const char *const on[] = {"1", "on", "true", "yes"}, *const off[] = {"0", "off", "false",
                                                                                "no"};
    (void)cap;
    for (size_t i = 0; i < TIDEI_COUNT(on); i++) {
        if (!strcmp(text, on[i])) return *(bool *)field = true;
        if (!strcmp(text, off[i])) return *(bool *)field = false, true;
    }
    return false;
}

static const struct {
    const char *name;
    int level;
} levels[] = {{"silent", TIDE_LOG_SILENT},
              {"error", TIDE_LOG_ERROR},
              {"warning", TIDE_LOG_WARNING},
              {"info", TIDE_LOG_INFO},
              {"debug", TIDE_LOG_DEBUG}};

static const char *level_name(int level) {
    for (size_t i = 0; i < TIDEI_COUNT(levels); i++)
        if (levels[i].level == level) return levels[i].name;
    return "?";
}

static bool parse_level(const char *text, void *field, size_t cap) {
    (void)cap;
    for (size_t i = 0; i < TIDEI_COUNT(levels); i++)
        if (!strcmp(text, levels[i].name)) return *(int *)field = levels[i].level, true;
    return false;
}

static const char *const precisions[] = {[TIDEI_PRECISION_HIGHEST] = "highest",
                                         [TIDEI_PRECISION_HIGH] = "high",
                                         [TIDEI_PRECISION_MEDIUM] = "medium"};

static bool parse_precision(const char *text, void *field, size_t cap) {
    (void)cap;
    for (size_t i = 0; i < TIDEI_COUNT(precisions); i++)
        if (!strcmp(text, precisions[i])) return *(int *)field = (int)i, true;
    return false;
}

static const struct {
    const char *unit;
    uint64_t ns;
} time_units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

/* A whole number with its unit; without one only 0. */
static bool parse_time(const char *text, void *field, size_t cap) {
    uint64_t v;
    (void)cap;
    if (!tidei_read_digits(&text, &v)) return false;
    if (!v && !*text) return *(uint64_t *)field = 0, true;
    for (size_t i = 0; i < TIDEI_COUNT(time_units); i++)
        if (!strcmp(text, time_units[i].unit) && v <= TIME_MOST_NS / time_units[i].ns)
            return *(uint64_t *)field = v * time_units[i].ns, true;
    return false;
}

static bool parse_int(const char *text, int low, int high, void *field) {
    int64_t v;
    if (!tidei_parse_int(text, low, high, &v)) return false;
    *(int *)field = (int)v;
    return true;
}

/* A level, or "sample:N", which is a setting of its own: the one chosen puts out the other. */
static bool parse_debug(const char *text, void *field, size_t cap) {
    tidei_settings *s = (tidei_settings *)(void *)((char *)field - offsetof(tidei_settings, debug));
    bool sample = !strncmp(text, "sample:", 7) && text[7] >= '0' && text[7] <= '9';
    int v;
    (void)cap;
    if (!parse_int(sample ? text + 7 : text, sample ? 1 : 0, sample ? TIDEI_SAMPLE_MOST : 2, &v))
        return false;
    s->debug = sample ? 0 : v;
    s->debug_sample = sample ? v : 0;
    return true;
}

static bool parse_devices(const char *text, void *field, size_t cap) {
    return (void)cap, parse_int(text, 1, 16, field);
}

static bool parse_threads(const char *text, void *field, size_t cap) {
    return (void)cap, parse_int(text, 1, TIDEI_HOST_THREADS_MAX, field);
}

static bool parse_peers(const char *text, void *field, size_t cap) {
    return tidei_peers_parse(text) && parse_text(text, field, cap);
}

enum { FIELD_TEXT, FIELD_SWITCH, FIELD_INT, FIELD_KINDS = 3 };
/* Beside the kind: a value in the environment that is not understood fails tide_open. */
enum { VITAL = 4 };
#define SETTING(member) offsetof(tidei_settings, member), sizeof(((tidei_settings *)0)->member)
static const struct {
    const char *variable;
    const char *wanted;
    parse_fn *parse;
    size_t setting, cap;
    int config_kind;
    size_t config;
} table[] = {
    {"TIDE_DEVICE", "host, host:N, cuda or cuda:N", parse_device, SETTING(device), FIELD_TEXT,
     offsetof(tide_config, device)},
    {"TIDE_LIMIT", "bytes, 4GiB or 50%", parse_limit, SETTING(limit), FIELD_TEXT | VITAL,
     offsetof(tide_config, limit)},
    {"TIDE_SOFT_LIMIT", "bytes, 4GiB or 50%", parse_limit, SETTING(soft_limit), FIELD_TEXT | VITAL,
     offsetof(tide_config, soft_limit)},
    {"TIDE_COLLECTOR", "a collector's name", parse_text, SETTING(collector), FIELD_TEXT,
     offsetof(tide_config, collector)},
    {"TIDE_POLICY", "a policy: reserve, or reserve(x0=0.5)", parse_text, SETTING(policy),
     FIELD_TEXT, offsetof(tide_config, policy)},
    {"TIDE_GC_EARLY", "0 or 1", parse_switch, SETTING(gc_early), FIELD_SWITCH,
     offsetof(tide_config, gc_early)},
    {"TIDE_COLLECT_WAIT", "a time up to 3600s: 50ms, 200us or 0", parse_time,
     SETTING(collect_wait_ns), FIELD_TEXT, offsetof(tide_config, collect_wait)},
    {"TIDE_POOL", TIDEI_POOL_NAMES, parse_text, SETTING(pool), FIELD_TEXT,
     offsetof(tide_config, pool)},
    {"TIDE_RELEASE_THRESHOLD", TIDEI_THRESHOLD_WANTED, parse_threshold, SETTING(release_threshold),
     FIELD_TEXT, offsetof(tide_config, release_threshold)},
    {"TIDE_POOL_DETERMINISTIC", "0 or 1", parse_switch, SETTING(deterministic), FIELD_SWITCH,
     offsetof(tide_config, deterministic)},
    {"TIDE_THREAD_STREAMS", "0 or 1", parse_switch, SETTING(thread_streams), FIELD_SWITCH,
     offsetof(tide_config, thread_streams)},
    {"TIDE_SPILL", "0 or 1", parse_switch, SETTING(spill), FIELD_SWITCH,
     offsetof(tide_config, spill)},
    {"TIDE_HOST_DEVICE_MEMORY", "bytes or 4GiB, at least 64KiB", parse_host_memory,
     SETTING(host_device_memory), FIELD_TEXT, offsetof(tide_config, host_device_memory)},
    {"TIDE_HOST_DEVICES", "1 to 16", parse_devices, SETTING(host_devices), FIELD_INT,
     offsetof(tide_config, host_devices)},
    {"TIDE_HOST_THREADS", "1 to 1024", parse_threads, SETTING(host_threads), FIELD_INT,
     offsetof(tide_config, host_threads)},
    {"TIDE_PEERS", TIDEI_PEERS_WANTED, parse_peers, SETTING(peers), FIELD_TEXT,
     offsetof(tide_config, peers)},
    {"TIDE_LOG", "silent, error, warning, info or debug", parse_level, SETTING(log_level),
     FIELD_INT, offsetof(tide_config, log_level)},
    {"TIDE_DEBUG", "0, 1, 2 or sample:N", parse_debug, SETTING(debug), FIELD_INT,
     offsetof(tide_config, debug)},
    {"TIDE_CACHE", "0 or 1", parse_switch, SETTING(cache), FIELD_SWITCH,
     offsetof(tide_config, cache)},
    {"TIDE_CACHE_DIR", "an absolute path", parse_folder, SETTING(cache_dir), FIELD_TEXT,
     offsetof(tide_config, cache_dir)},
    {"TIDE_CACHE_MAX", "bytes or 256MiB", parse_size, SETTING(cache_max), FIELD_TEXT,
     offsetof(tide_config, cache_max)},
    {"TIDE_HANDLE_CACHE", "bytes or 512MiB", parse_size, SETTING(handle_cache), FIELD_TEXT,
     offsetof(tide_config, handle_cache)},
    {"TIDE_DEFAULT_MEMORY", TIDEI_KINDS_WANTED, parse_kind, SETTING(default_memory), FIELD_TEXT,
     offsetof(tide_config, default_memory)},
    {"TIDE_PINNED_LIMIT", "bytes, 4GiB or 25%", parse_limit, SETTING(pinned_limit),
     FIELD_TEXT | VITAL, offsetof(tide_config, pinned_limit)},
    {"TIDE_MATMUL", "highest, high or medium", parse_precision, SETTING(matmul_precision),
     FIELD_TEXT, offsetof(tide_config, matmul_precision)},
    {"TIDE_TRACE", "a file's name that ends in .csv or .json", parse_trace, SETTING(trace),
     FIELD_TEXT, offsetof(tide_config, trace)},
};

#define LEVEL_OPEN TIDE_DEFAULT /* nobody chose a level yet */

static void defaults(tidei_settings *s) {
    *s = (tidei_settings){.gc_early = true,
                          .thread_streams = true,
                          .cache = true,
                          .host_devices = 1,
                          .log_level = LEVEL_OPEN,
                          .collect_wait_ns = 50000000,
                          .cache_max = 256 * TIDEI_MIB,
                          .handle_cache = 512 * TIDEI_MIB};
    strcpy(s->policy, "reserve");
    strcpy(s->pool, "tide");
}

/* ---- what the environment says ---- */

/* The row's value; NULL if it has none. */
static const char *value_of(size_t i) {
    const char *text = secure_getenv(table[i].variable);
    return text && *text ? text : NULL;
}

static bool take(size_t i, const char *text, tidei_settings *s) {
    return table[i].parse(text, (char *)s + table[i].setting, table[i].cap);
}

void tidei_warn_environment(tidei_runtime *rt, const char *variable, const char *value,
                            const char *fmt, ...) {
    char line[1024], shown[TIDEI_SHOWN_MAX];
    if (!rt->set.environment_warns) return;
    va_list ap;
    va_start(ap, fmt);
    size_t n = (size_t)tidei_format(line, sizeof line, "%s=%s", variable,
                                    tidei_line_of(shown, sizeof shown, value));
    tidei_vformat(line + n, sizeof line - n, fmt, ap);
    va_end(ap);
    rt->log(rt->log_user, TIDE_LOG_WARNING, line);
}

void tidei_warn_unknown(tidei_runtime *rt, const char *variable, const char *value,
                        const char *wanted) {
    tidei_warn_environment(rt, variable, value,
                           " is not understood (wanted: %s); the default stays", wanted);
}

bool tidei_settings_variable(size_t i, tidei_variable *out) {
    tidei_settings aside;
    if (i >= TIDEI_COUNT(table)) return false;
    *out = (tidei_variable){
        .name = table[i].variable, .wanted = table[i].wanted, .value = value_of(i)};
    out->understood = !out->value || take(i, out->value, &aside);
    out->vital = table[i].config_kind & VITAL;
    return true;
}

static void show_size(char *buf, size_t cap, size_t bytes) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0, n = bytes;
    while (n && n % 1024 == 0 && u + 1 < TIDEI_COUNT(units)) n /= 1024, u++;
    if (n > 9999)
        tidei_format_bytes(buf, cap, bytes, 1);
    else if (n)
        tidei_format(buf, cap, "%zu%s", n, units[u]);
}

/* In the largest unit of which it is a whole number. */
static void show_time(char *buf, size_t cap, uint64_t ns) {
    size_t u = TIDEI_COUNT(time_units) - 1;
    while (u && ns % time_units[u].ns) u--;
    tidei_format(buf, cap, "%llu%s", (unsigned long long)(ns / time_units[u].ns),
                 ns ? time_units[u].unit : "");
}

/* By the row's type in tidei_settings, of which each has a size of its own, but for levels, kinds,
** precisions and times. */
const char *tidei_settings_show(const tidei_settings *s, size_t i, char *buf, size_t cap) {
    const char *at = (const char *)s + table[i].setting;
    tidei_format(buf, cap, "%s", "");
    if (table[i].parse == parse_kind)
        tidei_format(buf, cap, "%s", tidei_kind_name(s->default_memory));
    else if (table[i].parse == parse_debug && s->debug_sample)
        tidei_format(buf, cap, "sample:%d", s->debug_sample);
    else if (table[i].parse == parse_level)
        tidei_format(buf, cap, "%s", level_name(s->log_level));
    else if (table[i].parse == parse_precision)
        tidei_format(buf, cap, "%s", precisions[s->matmul_precision]);
    else if (table[i].parse == parse_time)
        show_time(buf, cap, *(const uint64_t *)at);
    else if (table[i].cap == sizeof(bool))
        tidei_format(buf, cap, "%d", *(const bool *)at);
    else if (table[i].cap == sizeof(int))
        tidei_format(buf, cap, "%d", *(const int *)at);
    else if (table[i].cap == sizeof(size_t))
        show_size(buf, cap, *(const size_t *)at);
    else
        tidei_format(buf, cap, "%s", at);
    return buf;
}

void tidei_settings_warn(tidei_runtime *rt) {
    tidei_variable v;
    for (size_t i = 0; tidei_settings_variable(i, &v); i++)
        if (!v.understood) tidei_warn_unknown(rt, v.name, v.value, v.wanted);
}

/* ---- what the program says ---- */

/* The field of the caller's config for row i as text; NULL if it is not given. */
static const char *config_text(const tide_config *c, size_t i, char *buf, size_t cap) {
    const char *p = (const char *)c + table[i].config;
    int kind = table[i].config_kind & FIELD_KINDS;
    if (kind == FIELD_TEXT) return *(const char *const *)p;
    int v = *(const int *)p;
    if (v == TIDE_DEFAULT) return NULL;
    if (kind == FIELD_SWITCH) return v == TIDE_ON ? "1" : v == TIDE_OFF ? "0" : "?";
    if (table[i].parse == parse_level) return level_name(v);
    tidei_format(buf, cap, "%d", v);
    return buf;
}

/* The environment's values, as far as they are understood. `c` has a field for each, which wins: a
** limit of the program's own makes a bad one in the environment no worse than other bad values. */
static tide_status read_environment(const tide_config *c, tidei_settings *s) {
    for (size_t i = 0; i < TIDEI_COUNT(table); i++) {
        char shown[TIDEI_SHOWN_MAX], buf[32];
        const char *text = value_of(i);
        if (!text || take(i, text, s) || !(table[i].config_kind & VITAL) ||
            config_text(c, i, buf, sizeof buf))
            continue;
        return tidei_fail(TIDE_E_INVALID, "tide_open", "%s=%s is not understood; wanted: %s",
                          table[i].variable, tidei_line_of(shown, sizeof shown, text),
                          table[i].wanted);
    }
    return TIDE_OK;
}

static tide_status read_config(const tide_config *c, tidei_settings *s) {
    for (size_t i = 0; i < TIDEI_COUNT(table); i++) {
        char buf[32];
        const char *text = config_text(c, i, buf, sizeof buf);
        if (text && !table[i].parse(text, (char *)s + table[i].setting, table[i].cap))
            return tidei_fail(TIDE_E_INVALID, "tide_open",
                              "the field for %s is \"%.200s\"; wanted: %s", table[i].variable, text,
                              table[i].wanted);
    }
    s->collector_given = c->collector != NULL;
    s->policy_given = c->policy != NULL;
    s->pool_given = c->pool != NULL;
    s->trace_given = c->trace != NULL;
    s->default_memory_given = c->default_memory != NULL;
    s->cache_dir_given = c->cache_dir != NULL;
    return TIDE_OK;
}

/* Where kernels are kept: given, else below XDG_CACHE_HOME (ignored unless absolute, as its
** specification says), else below HOME. Empty: nowhere. Never a shared temporary folder, where
** others could plant code. */
static void find_cache_dir(tidei_settings *s) {
    const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = 0;
    if (s->cache_dir[0]) return;
    if (xdg && xdg[0] == '/')
        n = tidei_format(s->cache_dir, sizeof s->cache_dir, "%s/tidepool", xdg);
    else if (home && home[0] == '/')
        n = tidei_format(s->cache_dir, sizeof s->cache_dir, "%s/.cache/tidepool", home);
    if (n < 0 || (size_t)n >= sizeof s->cache_dir) s->cache_dir[0] = 0;
}

/* Silent, but who has allocations tracked wants to read in the end what is held; and what is wrong
** in the environment is told to whoever did not choose to be spared it. */
static void choose_level(tidei_settings *s) {
    bool open = s->log_level == LEVEL_OPEN;
    if (open) s->log_level = s->debug >= 2 || s->debug_sample ? TIDE_LOG_WARNING : TIDE_LOG_SILENT;
    s->environment_warns = open || s->log_level >= TIDE_LOG_WARNING;
}

/* The table knows the fields of tide_config but for these. */
static tide_status check_size(size_t given) {
#define END(field) TIDEI_END(tide_config, field)
    uint16_t ends[TIDEI_COUNT(table) + 5] = {END(struct_size), END(log), END(log_user),
                                             END(allocator), END(debug_sample)};
#undef END
    size_t n = 5;
    for (size_t i = 0; i < TIDEI_COUNT(table); i++) {
        bool text = (table[i].config_kind & FIELD_KINDS) == FIELD_TEXT;
        ends[n++] = (uint16_t)(table[i].config + (text ? sizeof(const char *) : sizeof(int)));
    }
    return tidei_sized_check(
        &(tidei_sized){"tide_config", ends, n, TIDEI_END(tide_config, struct_size)}, given,
        "tide_open");
}

tide_status tidei_settings_read(const tide_config *c, tidei_settings *out) {
    tidei_settings s;
    tide_config config = {0};
    tide_status status = c ? check_size(c->struct_size) : TIDE_OK;
    if (status != TIDE_OK) return status;
    if (c) memcpy(&config, c, c->struct_size); /* fields an older caller lacks stay zero */
    defaults(&s);
    status = read_environment(&config, &s);
    if (status == TIDE_OK) status = read_config(&config, &s);
    if (status != TIDE_OK) return status;
    if (config.allocator && (!config.allocator->alloc || !config.allocator->free))
        return tidei_fail(TIDE_E_INVALID, "tide_open",
                          "tide_config.allocator wants both alloc and free");
    if (config.allocator) s.host = *config.allocator;
    if (config.debug_sample < 0 || config.debug_sample > TIDEI_SAMPLE_MOST)
        return tidei_fail(TIDE_E_INVALID, "tide_open",
                          "tide_config.debug_sample is %d; wanted: 1 to %d", config.debug_sample,
                          TIDEI_SAMPLE_MOST);
    if (config.debug_sample) s.debug_sample = config.debug_sample;
    s.log = config.log;
    s.log_user = config.log_user;
    find_cache_dir(&s);
    choose_level(&s);
    *out = s;
    return TIDE_OK;
}
