/* fuzz_place.h: what must be true of an error that points at a place in a text: a message of UTF-8
** if the text is, and a line of the text with a caret below the very character that it names by
** line and column. */
#ifndef TIDE_FUZZ_PLACE_H
#define TIDE_FUZZ_PLACE_H

#include "tests/fuzz/fuzz.h"
#include <stdbool.h>
#include <tide/tide.h>

static inline void place_fails(const char *what, const char *text) {
    fprintf(stderr, "%s: %s: %s\ntext: %s\n", what, tide_error_last()->operation,
            tide_error_last()->message, text);
    abort();
}

/* A character is a byte with up to three continuation bytes behind it. */
static inline size_t place_character(const char *s) {
    size_t n = 1;
    while (*s && n < 4 && ((unsigned char)s[n] & 0xC0) == 0x80) n++;
    return n;
}
/* The character `count` characters on, no further than the end of the line. */
static inline const char *place_forward(const char *s, long count) {
    for (; count > 0 && *s && *s != '\n'; count--) s += place_character(s);
    return count ? NULL : s;
}

/* Whether what stands at p in a line of a message is what stands at t in the text: control
** characters are shown as spaces, and behind the end there is nothing, or "...". */
static inline bool place_same(const char *p, const char *t) {
    if (!*t || *t == '\n' || *t == '\r') return *p == '\n';
    if ((unsigned char)*t < ' ') return *p == ' ';
    return !strncmp(p, t, place_character(t)) || !strncmp(p, "...", 3);
}
/* The same of what stands `column` characters behind p, where a line shown begins. */
static inline bool place_under(const char *p, long column, const char *t) {
    if (column < 0 || !(p = place_forward(p, column))) return false;
    return place_same(p, t);
}

/* The error that stands, of the text. `lines`: its message tells which line it is. */
static inline void place_check(const char *text, bool lines) {
    const char *message = tide_error_last()->message, *says = strstr(message, "column "),
               *line = text;
    long which = 1, column = 0;
    if (fuzz_is_utf8(text) && !fuzz_is_utf8(message)) place_fails("not UTF-8", text);
    if (fuzz_is_utf8(text) && !fuzz_is_utf8(tide_error_last()->operation))
        place_fails("the operation is not UTF-8", text);
    if (!says || sscanf(says, "column %ld", &column) != 1 || column < 1)
        place_fails("no column", text);
    if (lines && !strncmp(message, "line ", 5)) which = atol(message + 5);
    for (long i = 1; i < which; i++) {
        line = strchr(line, '\n');
        if (!line++) place_fails("no such line", text);
    }
    const char *at = place_forward(line, column - 1);
    if (!at) place_fails("no such column", text);
    /* The last two lines are the window and the caret's. */
    const char *caret = strrchr(message, '\n'), *window = caret;
    if (!caret) place_fails("no window", text);
    while (window > message && window[-1] != '\n') window--;
    size_t blanks = strspn(caret + 1, " ");
    if (strcmp(caret + 1 + blanks, "^") != 0) place_fails("no caret", text);
    if (strncmp(window, "  ", 2)) place_fails("the line is not set in", text);
    const bool cut = !strncmp(window + 2, "...", 3); /* or the line begins so */
    if (!place_under(window + 2, (long)blanks - 2, at) &&
        !(cut && place_under(window + 5, (long)blanks - 5, at)))
        place_fails("the caret is elsewhere", text);
}

#endif
