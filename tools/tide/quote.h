/* quote.h: somebody's text as a part of another language's.
**
** What must stay true: whatever the text is, what is written is one string of that language, and
** UTF-8: what is a control character or no UTF-8 shows as '?'. */
#ifndef TIDE_QUOTE_H
#define TIDE_QUOTE_H

#include <stddef.h>
#include <stdio.h>

void tidei_quote_html(FILE *to, const char *text);    /* for elements and attributes in "" */
void tidei_quote_gnuplot(FILE *to, const char *text); /* with its '' */
void tidei_quote_shell(FILE *to, const char *text);   /* a word; in '' where it must be */
void tidei_quote_field(FILE *to, const char *text);   /* of a table with tabs between fields */
void tidei_quote_json(FILE *to, const char *text);    /* with its ""; ASCII's controls as \u001b */
/* A name for a file: letters, digits, '.', '-' and '_', which stands for whatever else there is. It
** does not begin with a dot or a '-', and may be the same for two texts. Cut to `cap`. Returns
** buf. */
char *tidei_quote_file(char *buf, size_t cap, const char *text);

#endif
