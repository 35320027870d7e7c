/* params.c: reading and writing figures that are given by name. */
#include "gc/params.h"
#include "runtime/base/text.h"

#define TOKEN_MAX 40 /* bytes of a value, and of what an error shows of the text */

static const struct {
    const char *name;
    double ns;
} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

void tidei_params_wrong(const char *text, const char *at, const char *wanted, char *why,
                        size_t cap) {
    char shown[TOKEN_MAX + 1];
    const char *quote = *at ? "'" : "", *found = *at ? at : "the end";
    tidei_format(why, cap, "column %zu: expected %s, found %s%s%s", (size_t)(at - text) + 1, wanted,
                 quote, tidei_line_of(shown, sizeof shown, found), quote);
}

static const char *blanks(const char *at) {
    while (*at == ' ') at++;
    return at;
}

static bool in_word(char c) { return tidei_is_letter(c) || tidei_is_digit(c) || c == '_'; }
static bool in_value(char c) { return in_word(c) || c == '.' || c == '-' || c == '+'; }

static bool time_of(const char *token, double *out) {
    char *end;
    double v = tidei_parse_double(token, &end);
    if (end == token) return false;
    if (!*end && v == 0) return *out = 0, true;
    for (size_t i = 0; i < TIDEI_COUNT(units); i++)
        if (!strcmp(end, units[i].name)) return *out = v * units[i].ns, true;
    return false;
}

static bool value_of(const tidei_param *p, const char *token, double *out) {
    size_t bytes;
    char *end;
    if (!tidei_is_digit(*token) && *token != '.')
        return false; /* no "nan", no sign, no hexadecimal */
    if (token[0] == '0' && (token[1] | 32) == 'x') return false;
    switch (p->kind) {
    case TIDEI_BYTES: return tidei_parse_bytes(token, 0, &bytes) && (*out = (double)bytes, true);
    case TIDEI_TIME: return time_of(token, out);
    case TIDEI_SWITCH: *out = *token == '1'; return (*token == '0' || *token == '1') && !token[1];
    case TIDEI_NUMBER:
    case TIDEI_WHOLE: break;
    }
    *out = tidei_parse_double(token, &end);
    return !*end && (p->kind != TIDEI_WHOLE || *out >= 0x1p53 || *out == (double)(int64_t)*out);
}

static void wanted_value(const tidei_param *p, char *buf, size_t cap) {
    char low[TIDEI_PARAM_TEXT], high[TIDEI_PARAM_TEXT];
    if (p->kind == TIDEI_SWITCH)
        tidei_format(buf, cap, "%s to be 0 or 1", p->name);
    else
        tidei_format(buf, cap, "%s%s from %s to %s",
                     p->kind == TIDEI_WHOLE ? "the whole number " : "", p->name,
                     tidei_param_show(p, p->low, low, sizeof low),
                     tidei_param_show(p, p->high, high, sizeof high));
}

static const tidei_param *find(const tidei_param *table, size_t n, const char *at, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == length && !memcmp(table[i].name, at, length)) return &table[i];
    return NULL;
}

static void wanted_name(const tidei_param *table, size_t n, char *buf, size_t cap) {
    size_t at = 0;
    if (!n) tidei_format(buf, cap, "no parameter, for there is none");
    for (size_t i = 0; i < n && at < cap; i++)
        at += (size_t)tidei_format(buf + at, cap - at, "%s%s", i ? ", " : "one of ", table[i].name);
}

/* One "k=v"; returns what is behind it, or NULL. */
static const char *read_one(const char *text, const char *at, const tidei_param *table, size_t n,
                            double *values, char *why, size_t cap) {
    const char *name = at, *value;
    char token[TOKEN_MAX + 1], wanted[512];
    while (in_word(*at)) at++;
    const tidei_param *p = find(table, n, name, (size_t)(at - name));
    if (!p) {
        wanted_name(table, n, wanted, sizeof wanted);
        return tidei_params_wrong(text, name, wanted, why, cap), NULL;
    }
    at = blanks(at);
    if (*at != '=') return tidei_params_wrong(text, at, "'='", why, cap), NULL;
    for (value = at = blanks(at + 1); in_value(*at);) at++;
    size_t length = tidei_min_size((size_t)(at - value), TOKEN_MAX);
    memcpy(token, value, length);
    token[length] = 0;
    double v;
    if (length < (size_t)(at - value) || !value_of(p, token, &v) ||
        !(v >= p->low && v <= p->high)) {
        wanted_value(p, wanted, sizeof wanted);
        return tidei_params_wrong(text, value, wanted, why, cap), NULL;
    }
    values[p - table] = v;
    return blanks(at);
}

const char *tidei_params_read(const char *text, const char *at, char close,
                              const tidei_param *table, size_t n, double *values, char *why,
                              size_t cap) {
    char wanted[] = "',' or ')'";
    at = blanks(at);
    if (*at == close) return at;
    while ((at = read_one(text, at, table, n, values, why, cap)) && *at == ',') at = blanks(at + 1);
    if (at && *at != close)
        return tidei_params_wrong(text, at, close ? wanted : "','", why, cap), NULL;
    return at;
}

void tidei_params_usual(const tidei_param *table, size_t n, double *values) {
    for (size_t i = 0; i < n; i++) values[i] = table[i].usual;
}

static const char *show_time(double ns, char *buf, size_t cap) {
    size_t i = 0;
    while (i + 1 < TIDEI_COUNT(units) && ns >= units[i + 1].ns) i++;
    tidei_format(buf, cap, ns == 0 ? "0" : "%.6g%s", ns / units[i].ns, units[i].name);
    return buf;
}

static const char *show_bytes(double bytes, char *buf, size_t cap) {
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    while (i + 1 < TIDEI_COUNT(names) && bytes >= 1024) bytes /= 1024, i++;
    tidei_format(buf, cap, "%.6g%s", bytes, names[i]);
    return buf;
}

const char *tidei_param_show(const tidei_param *p, double value, char *buf, size_t cap) {
    if (p->kind == TIDEI_TIME) return show_time(value, buf, cap);
    if (p->kind == TIDEI_BYTES) return show_bytes(value, buf, cap);
    tidei_format(buf, cap, "%.6g", value);
    return buf;
}
