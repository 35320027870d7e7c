/* place.h: a place in a text that a person wrote: which column it is, and the line around it with a
** caret below.
**
** The text is bytes up to a NUL, UTF-8 or not: a character is a byte with up to three continuation
** bytes behind it. What must stay true: nothing before the text, nor behind its NUL, is read,
** whatever the bytes are; a text of UTF-8 gives UTF-8. */
#ifndef TIDEI_PLACE_H
#define TIDEI_PLACE_H

#include <stddef.h>

#define TIDEI_WINDOW_MAX 512 /* bytes that hold any window */

/* Bytes of the character at s; 1 at the NUL. */
size_t tidei_text_character(const char *s);
/* Columns are characters and begin at 1; *line (may be NULL): lines begin at 1 too. */
int tidei_text_column(const char *text, size_t at, int *line);
/* "  text\n  caret" for the line of `at`, cut to a window around it; control characters become
** spaces. Returns out. */
const char *tidei_text_window(const char *text, size_t at, char out[TIDEI_WINDOW_MAX]);
/* A copy of the text, cut between characters to `cap` bytes with its NUL, "..." at the end then.
** Returns out. */
const char *tidei_text_cut(const char *text, char *out, size_t cap);

#endif
