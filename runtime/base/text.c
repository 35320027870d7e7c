/* text.c: the C locale, and what is written and read in it. The model stands in text.h. */
#include "runtime/base/text.h"
#include <stdio.h>
#include <stdlib.h>

/* An object of the C library's own, which is asked for once: it takes no memory, and nobody frees
** it. Where there were none, the thread's locale would stay. */
static locale_t c_locale(void) {
    static _Atomic(locale_t) known;
    locale_t c = atomic_load_explicit(&known, memory_order_acquire);
    if (tidei_likely(c != (locale_t)0)) return c;
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    atomic_store_explicit(&known, c, memory_order_release);
    return c;
}

locale_t tidei_locale_enter(void) { return uselocale(c_locale()); }

void tidei_locale_leave(const locale_t *before) { uselocale(*before); }

/* ---- writing ---- */

int tidei_vformat(char *buf, size_t cap, const char *fmt, va_list args) {
    TIDEI_IN_C_LOCALE;
    return vsnprintf(buf, cap, fmt, args);
}

int tidei_format(char *buf, size_t cap, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = tidei_vformat(buf, cap, fmt, args);
    va_end(args);
    return n;
}

char *tidei_format_new(const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = tidei_vformat(NULL, 0, fmt, args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text) tidei_vformat(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

const char *tidei_errno_text(int error) {
    locale_t c = c_locale();
    return c ? strerror_l(error, c) : "unknown error";
}

/* ---- reading ---- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c; }

bool tidei_same_word(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b)) a++, b++;
    return lower(*a) == lower(*b);
}

bool tidei_read_digits(const char **text, uint64_t *out) {
    const char *at = *text;
    uint64_t v = 0;
    if (!tidei_is_digit(*at)) return false;
    for (; tidei_is_digit(*at); at++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v))
            return false;
    *text = at;
    *out = v;
    return true;
}

bool tidei_parse_int(const char *text, int64_t low, int64_t high, int64_t *out) {
    while (*text == ' ') text++;
    bool minus = *text == '-';
    uint64_t v;
    text += minus || *text == '+';
    if (!tidei_read_digits(&text, &v) || *text || v > INT64_MAX) return false;
    int64_t n = minus ? -(int64_t)v : (int64_t)v;
    if (n < low || n > high) return false;
    *out = n;
    return true;
}

double tidei_parse_double(const char *text, char **end) {
    TIDEI_IN_C_LOCALE;
    return strtod(text, end);
}

const char *tidei_line_of(char *buf, size_t cap, const char *value) {
    size_t n = strlen(value), room = cap - sizeof "...";
    const char *rest = n < cap ? "" : "...";
    if (n >= cap)
        for (n = room; n && (value[n] & 0xC0) == 0x80;) n--; /* a character of UTF-8 stays whole */
    for (size_t i = 0; i < n; i++)
        buf[i] = (unsigned char)value[i] < ' ' || value[i] == 0x7f ? '?' : value[i];
    strcpy(buf + n, rest);
    return buf;
}
