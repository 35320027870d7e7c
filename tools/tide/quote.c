/* quote.c: texts for HTML, gnuplot, a shell, and as names of files. */
#include "tools/tide/quote.h"
#include "runtime/base/text.h"

/* Bytes of the character of UTF-8 that begins there; 0: none does. The shortest form alone counts,
** and no halves of pairs. */
static size_t character(const unsigned char *c) {
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t n;
    } forms[] = {
        {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < TIDEI_COUNT(forms); i++) {
        if (c[0] < forms[i].low || c[0] > forms[i].high) continue;
        size_t n = forms[i].n;
        if (n == 1) return 1;
        if (c[1] < forms[i].second_low || c[1] > forms[i].second_high) return 0;
        for (size_t k = 2; k < n; k++)
            if ((c[k] & 0xc0) != 0x80) return 0;
        /* U+0080 to U+009F are control characters too */
        return c[0] == 0xc2 && c[1] < 0xa0 ? 0 : n;
    }
    return 0;
}

/* Each character, by what stands for it: `instead` gives that, or NULL for itself. */
static void write_each(FILE *to, const char *text, const char *(*instead)(char c)) {
    while (*text) {
        size_t n = character((const unsigned char *)text);
        const char *other = n == 1 ? instead(*text) : n ? NULL : "?";
        if (other)
            fputs(other, to);
        else
            fwrite(text, 1, n, to);
        text += n ? n : 1;
    }
}

static const char *instead_in_html(char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void tidei_quote_html(FILE *to, const char *text) { write_each(to, text, instead_in_html); }

static const char *instead_in_gnuplot(char c) { return c == '\'' ? "''" : NULL; }

void tidei_quote_gnuplot(FILE *to, const char *text) {
    fputc('\'', to);
    write_each(to, text, instead_in_gnuplot);
    fputc('\'', to);
}

static const char *instead_in_field(char c) {
    (void)c;
    return NULL;
}

void tidei_quote_field(FILE *to, const char *text) { write_each(to, text, instead_in_field); }

void tidei_quote_json(FILE *to, const char *text) {
    fputc('"', to);
    for (size_t n; *text; text += n ? n : 1) {
        n = character((const unsigned char *)text);
        if (*text == '"' || *text == '\\') fputc('\\', to);
        if (n)
            fwrite(text, 1, n, to);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fputc('?', to);
    }
    fputc('"', to);
}

static const char *instead_in_shell(char c) { return c == '\'' ? "'\\''" : NULL; }

static bool is_plain(char c, const char *others) {
    return tidei_is_letter(c) || tidei_is_digit(c) || (c && strchr(others, c));
}

void tidei_quote_shell(FILE *to, const char *text) {
    bool plain = *text;
    for (const char *c = text; *c; c++) plain = plain && is_plain(*c, "_./,:=+%-");
    if (!plain) fputc('\'', to);
    write_each(to, text, instead_in_shell);
    if (!plain) fputc('\'', to);
}

char *tidei_quote_file(char *buf, size_t cap, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < cap; text++) {
        bool plain = is_plain(*text, n ? ".-" : "");
        if (plain)
            buf[n++] = *text;
        else if (n && buf[n - 1] != '_')
            buf[n++] = '_';
    }
    while (n && buf[n - 1] == '_') n--;
    if (!n && cap > 1) buf[n++] = '_';
    buf[n] = 0;
    return buf;
}
