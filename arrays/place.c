/* place.c: columns and windows of texts (place.h). */
#include "arrays/place.h"
#include "runtime/base/text.h"
#include <stdbool.h>
#include <string.h>

#define SHOWN_MAX  76                  /* bytes of a line that are shown: it fits a terminal */
#define BEFORE_MAX (SHOWN_MAX * 2 / 3) /* of these before the place */
#define TAIL_MAX   3                   /* continuation bytes of one character */

static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

size_t tidei_text_character(const char *s) {
    size_t n = 1;
    while (*s && n <= TAIL_MAX && continues(s[n])) n++;
    return n;
}

/* The first byte of the character that p is in the middle of; p itself where there is none from
** `from` on. */
static const char *head_of(const char *from, const char *p) {
    const char *head = p;
    for (int i = 0; i < TAIL_MAX && head > from && continues(*head); i++) head--;
    return continues(*head) || tidei_text_character(head) <= (size_t)(p - head) ? p : head;
}

/* How many characters begin in [from, to). */
static int characters(const char *from, const char *to) {
    int n = 0;
    for (; from < to; from += tidei_text_character(from)) n++;
    return n;
}

/* Where the line of p begins. */
static const char *line_of(const char *text, const char *p) {
    while (p > text && p[-1] != '\n') p--;
    return p;
}

int tidei_text_column(const char *text, size_t at, int *line) {
    const char *p = text + at;
    if (line) {
        *line = 1;
        for (const char *s = text; s < p; s++) *line += *s == '\n';
    }
    return characters(line_of(text, p), p) + 1;
}

const char *tidei_text_window(const char *text, size_t at, char out[TIDEI_WINDOW_MAX]) {
    const char *p = text + at, *line = line_of(text, p), *begin = line,
               *end = p + strcspn(p, "\r\n");
    if (p - begin > BEFORE_MAX) begin = head_of(line, p - BEFORE_MAX);
    bool cut = end - begin > SHOWN_MAX;
    if (cut) end = head_of(begin, begin + SHOWN_MAX);
    int indent = 2 + (begin > line ? 3 : 0) + characters(begin, p);
    tidei_format(out, TIDEI_WINDOW_MAX, "  %s%.*s%s\n%*s^", begin > line ? "..." : "",
                 (int)(end - begin), begin, cut ? "..." : "", indent, "");
    for (char *s = out; *s; s++) /* tabs would shift the caret */
        if (*s != '\n' && (unsigned char)*s < ' ') *s = ' ';
    return out;
}

const char *tidei_text_cut(const char *text, char *out, size_t cap) {
    static const char dots[] = "...";
    size_t n = strnlen(text, cap);
    if (n < cap) return memcpy(out, text, n + 1);
    n = (size_t)(head_of(text, text + cap - sizeof dots) - text);
    memcpy(out, text, n);
    memcpy(out + n, dots, sizeof dots);
    return out;
}
