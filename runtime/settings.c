/* settings.c: tide_config and the environment become settings. One table names every variable, its field and its parser;
** a field of tide_config wins over the variable, the variable over the default. A bad variable is a warning and the default
** stays; a bad field fails. Whether there is a collector, policy or pool of a name, its own part decides. */
#include "runtime/pools.h"
#include "runtime/runtime.h"
#include "runtime/text.h"
#include <stdlib.h>

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
    return tidei_form_of(text) && parse_text(text, field, cap);
}

static bool starts_with_count(const char *text, const char *name) {
    size_t n = strlen(name);
    if (strncmp(text, name, n)) return false;
    if (!text[n]) return true;
    return text[n] == ':' && text[n + 1] >= '0' && text[n + 1] <= '9' &&
           strspn(text + n + 1, "0123456789") == strlen(text + n + 1) && strlen(text + n + 1) <= 3;
}

static bool parse_device(const char *text, void *field, size_t cap) {
    return (starts_with_count(text, "host") || starts_with_count(text, "cuda")) && parse_text(text, field, cap);
}

/* A limit stays text: a percentage wants the device's size. 100 stands in for it here, to see whether it parses. */
static bool parse_limit(const char *text, void *field, size_t cap) {
    size_t bytes;
    return tidei_parse_bytes(text, 100, &bytes) && parse_text(text, field, cap);
}

bool tidei_parse_threshold(const char *text, size_t whole, size_t *out) {
    if (!strcmp(text, "unlimited") || !strcmp(text, "max")) return *out = TIDE_THRESHOLD_UNLIMITED, true;
    if (!strcmp(text, "adaptive")) return *out = TIDE_THRESHOLD_ADAPTIVE, true;
    return tidei_parse_bytes(text, whole, out);
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
    if (!tidei_parse_bytes(text, 0, &bytes) || bytes < TIDEI_MIB / 16) return false; /* one page of 64 KiB */
    *(size_t *)field = bytes;
    return true;
}

static bool parse_kind(const char *text, void *field, size_t cap) {
    return (void)cap, tidei_kind_parse(text, field);
}

static bool parse_switch(const char *text, void *field, size_t cap) {
    static const char *const on[] = {"1", "on", "true", "yes"}, *const off[] = {"0", "off", "false", "no"};
    (void)cap;
    for (size_t i = 0; i < TIDEI_COUNT(on); i++) {
        if (!strcmp(text, on[i])) return *(bool *)field = true;
        if (!strcmp(text, off[i])) return *(bool *)field = false, true;
    }
    return false;
}

static bool parse_level(const char *text, void *field, size_t cap) {
    static const char *const names[] = {"silent", "error", "warning", "info", "debug"};
    (void)cap;
    for (size_t i = 0; i < TIDEI_COUNT(names); i++)
        if (!strcmp(text, names[i])) return *(int *)field = (int)i, true;
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
    if (!parse_int(sample ? text + 7 : text, sample ? 1 : 0, sample ? TIDEI_SAMPLE_MOST : 2, &v)) return false;
    s->debug = sample ? 0 : v;
    s->debug_sample = sample ? v : 0;
    return true;
}

static bool parse_devices(const char *text, void *field, size_t cap) {
    return (void)cap, parse_int(text, 1, 16, field);
}

static bool parse_peers(const char *text, void *field, size_t cap) {
    return tidei_peers_parse(text) && parse_text(text, field, cap);
}

enum { FIELD_TEXT, FIELD_SWITCH, FIELD_INT };
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
    {"TIDE_LIMIT", "bytes, 4GiB or 50%", parse_limit, SETTING(limit), FIELD_TEXT, offsetof(tide_config, limit)},
    {"TIDE_SOFT_LIMIT", "bytes, 4GiB or 50%", parse_limit, SETTING(soft_limit), FIELD_TEXT,
     offsetof(tide_config, soft_limit)},
    {"TIDE_COLLECTOR", "a collector's name", parse_text, SETTING(collector), FIELD_TEXT,
     offsetof(tide_config, collector)},
    {"TIDE_POLICY", "a policy's name", parse_text, SETTING(policy), FIELD_TEXT, offsetof(tide_config, policy)},
    {"TIDE_GC_EARLY", "0 or 1", parse_switch, SETTING(gc_early), FIELD_SWITCH, offsetof(tide_config, gc_early)},
    {"TIDE_POOL", TIDEI_POOL_NAMES, parse_text, SETTING(pool), FIELD_TEXT, offsetof(tide_config, pool)},
    {"TIDE_RELEASE_THRESHOLD", TIDEI_THRESHOLD_WANTED, parse_threshold, SETTING(release_threshold), FIELD_TEXT,
     offsetof(tide_config, release_threshold)},
    {"TIDE_POOL_DETERMINISTIC", "0 or 1", parse_switch, SETTING(deterministic), FIELD_SWITCH,
     offsetof(tide_config, deterministic)},
    {"TIDE_THREAD_STREAMS", "0 or 1", parse_switch, SETTING(thread_streams), FIELD_SWITCH,
     offsetof(tide_config, thread_streams)},
    {"TIDE_SPILL", "0 or 1", parse_switch, SETTING(spill), FIELD_SWITCH, offsetof(tide_config, spill)},
    {"TIDE_HOST_MEMORY", "bytes or 4GiB, at least 64KiB", parse_host_memory, SETTING(host_memory), FIELD_TEXT,
     offsetof(tide_config, host_memory)},
    {"TIDE_HOST_DEVICES", "1 to 16", parse_devices, SETTING(host_devices), FIELD_INT,
     offsetof(tide_config, host_devices)},
    {"TIDE_PEERS", TIDEI_PEERS_WANTED, parse_peers, SETTING(peers), FIELD_TEXT, offsetof(tide_config, peers)},
    {"TIDE_LOG", "silent, error, warning, info or debug", parse_level, SETTING(log_level), FIELD_INT,
     offsetof(tide_config, log_level)},
    {"TIDE_DEBUG", "0, 1, 2 or sample:N", parse_debug, SETTING(debug), FIELD_INT, offsetof(tide_config, debug)},
    {"TIDE_CACHE", "0 or 1", parse_switch, SETTING(cache), FIELD_SWITCH, offsetof(tide_config, cache)},
    {"TIDE_CACHE_DIR", "an absolute path", parse_folder, SETTING(cache_dir), FIELD_TEXT,
     offsetof(tide_config, cache_dir)},
    {"TIDE_CACHE_MAX", "bytes or 256MiB", parse_size, SETTING(cache_max), FIELD_TEXT,
     offsetof(tide_config, cache_max)},
    {"TIDE_HANDLE_CACHE", "bytes or 512MiB", parse_size, SETTING(handle_cache), FIELD_TEXT,
     offsetof(tide_config, handle_cache)},
    {"TIDE_DEFAULT_MEMORY", TIDEI_KINDS_WANTED, parse_kind, SETTING(default_memory), FIELD_TEXT,
     offsetof(tide_config, default_memory)},
    {"TIDE_HOST_LIMIT", "bytes, 4GiB or 25%", parse_limit, SETTING(host_limit), FIELD_TEXT,
     offsetof(tide_config, host_limit)},
    {"TIDE_TRACE", "a file's name that ends in .csv or .json", parse_trace, SETTING(trace), FIELD_TEXT,
     offsetof(tide_config, trace)},
};

#define LEVEL_OPEN (-1) /* nobody chose a level yet */

static void defaults(tidei_settings *s) {
    *s = (tidei_settings){.gc_early = true,
                          .thread_streams = true,
                          .cache = true,
                          .host_devices = 1,
                          .log_level = LEVEL_OPEN,
                          .cache_max = 256 * TIDEI_MIB,
                          .handle_cache = 512 * TIDEI_MIB};
    strcpy(s->policy, "reserve");
    strcpy(s->pool, "tide");
}

#define NOT_UNDERSTOOD "%s=%.200s is not understood (wanted: %s); the default stays"

void tidei_warn_unknown(tidei_runtime *rt, const char *variable, const char *value, const char *wanted) {
    tidei_log(rt, TIDE_LOG_WARNING, NOT_UNDERSTOOD, variable, value, wanted);
}

static void read_environment(tidei_settings *s, void (*warn)(void *user, const char *line), void *user) {
    for (size_t i = 0; i < TIDEI_COUNT(table); i++) {
        const char *text = secure_getenv(table[i].variable);
        if (!text || !*text) continue;
        if (!table[i].parse(text, (char *)s + table[i].setting, table[i].cap)) {
            char line[512];
            tidei_format(line, sizeof line, NOT_UNDERSTOOD, table[i].variable, text, table[i].wanted);
            warn(user, line);
        }
    }
}

/* The field of the caller's config for row i as text; NULL if it is not given. */
static const char *config_text(const tide_config *c, size_t i, char *buf, size_t cap) {
    const char *p = (const char *)c + table[i].config;
    if (table[i].config_kind == FIELD_TEXT) return *(const char *const *)p;
    int v = *(const int *)p;
    if (v == 0) return NULL;
    if (table[i].config_kind == FIELD_SWITCH) return v == TIDE_ON ? "1" : v == TIDE_OFF ? "0" : "?";
    if (table[i].parse == parse_level)
        return v == TIDE_LOG_ERROR     ? "error"
               : v == TIDE_LOG_WARNING ? "warning"
               : v == TIDE_LOG_INFO    ? "info"
               : v == TIDE_LOG_DEBUG   ? "debug"
                                       : "?";
    tidei_format(buf, cap, "%d", v);
    return buf;
}

static tide_status read_config(const tide_config *c, tidei_settings *s) {
    for (size_t i = 0; i < TIDEI_COUNT(table); i++) {
        char buf[32];
        const char *text = config_text(c, i, buf, sizeof buf);
        if (text && !table[i].parse(text, (char *)s + table[i].setting, table[i].cap))
            return tidei_fail(TIDE_E_INVALID, "tide_open", "the field for %s is \"%.200s\"; wanted: %s",
                              table[i].variable, text, table[i].wanted);
    }
    s->collector_given = c->collector != NULL;
    s->policy_given = c->policy != NULL;
    s->pool_given = c->pool != NULL;
    s->trace_given = c->trace != NULL;
    s->default_memory_given = c->default_memory != NULL;
    return TIDE_OK;
}

/* Where kernels are kept: given, else below XDG_CACHE_HOME (ignored unless absolute, as its specification says), else below
** HOME. Empty: nowhere. Never a shared temporary folder, where others could plant code. */
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

/* Silent, but who has allocations tracked wants to read in the end what is held. */
static void choose_level(tidei_settings *s) {
    if (s->log_level == LEVEL_OPEN)
        s->log_level = s->debug >= 2 || s->debug_sample ? TIDE_LOG_WARNING : TIDE_LOG_SILENT;
}

tide_status tidei_settings_read(const tide_config *c, tidei_settings *out,
                                void (*warn)(void *user, const char *line), void *user) {
    tidei_settings s;
    tide_config config = {0};
    defaults(&s);
    read_environment(&s, warn, user);
    if (c) {
        if (c->struct_size < sizeof(size_t) || c->struct_size > sizeof config)
            return tidei_fail(TIDE_E_INVALID, "tide_open",
                              "tide_config.struct_size is %zu; this library knows up to %zu", c->struct_size,
                              sizeof config);
        memcpy(&config, c, c->struct_size); /* fields an older caller lacks stay zero */
        tide_status status = read_config(&config, &s);
        if (status != TIDE_OK) return status;
        if (config.host && (!config.host->alloc || !config.host->free))
            return tidei_fail(TIDE_E_INVALID, "tide_open", "tide_config.host wants both alloc and free");
        if (config.host) s.host = *config.host;
        if (config.debug_sample < 0 || config.debug_sample > TIDEI_SAMPLE_MOST)
            return tidei_fail(TIDE_E_INVALID, "tide_open", "tide_config.debug_sample is %d; wanted: 1 to %d",
                              config.debug_sample, TIDEI_SAMPLE_MOST);
        if (config.debug_sample) s.debug_sample = config.debug_sample;
        s.log = config.log;
        s.log_user = config.log_user;
    }
    find_cache_dir(&s);
    choose_level(&s);
    *out = s;
    return TIDE_OK;
}
