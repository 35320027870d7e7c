/* text.h: writing texts and reading numbers.
**
** Model. A program's locale changes what the C library writes (1,5 for 1.5; a system error in its
** language) and reads, and which letters are the same. Ours are files, settings, code for a
** compiler and messages that are searched for: they are the same everywhere. So each of these
** functions works in the C locale, whatever setlocale or uselocale chose, and nothing else of the
** library calls the C library's own (tests/symbols.sh looks).
** What must stay true: the thread's locale is its own again when a function returns, and where a
** guard's scope ends. */
#ifndef TIDEI_TEXT_H
#define TIDEI_TEXT_H

#include "runtime/base/base.h"
#include <locale.h>

/* As snprintf and vsnprintf. */
__attribute__((format(printf, 3, 4))) int tidei_format(char *buf, size_t cap, const char *fmt, ...);
__attribute__((format(printf, 3, 0))) int tidei_vformat(char *buf, size_t cap, const char *fmt,
                                                        va_list args);
/* The room that a caller gave for a text (snprintf's way): NULL is none, whatever `cap` says. */
static inline size_t tidei_text_room(const char *buf, size_t cap) { return buf ? cap : 0; }
/* The whole text, which the caller frees; NULL: host memory is exhausted. */
__attribute__((format(printf, 1, 2))) char *tidei_format_new(const char *fmt, ...);

/* The system's text for an errno: "No such file or directory". Valid until the thread's next
** call. */
const char *tidei_errno_text(int error);

/* A text of somebody's as part of a line: '?' for what is no character, cut with "..." where it is
** too long. Returns buf. */
const char *tidei_line_of(char *buf, size_t cap, const char *value);
#define TIDEI_SHOWN_MAX 201 /* bytes of such a part, with its end */

/* ASCII, whatever a byte means to the program. */
static inline bool tidei_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool tidei_is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
bool tidei_same_word(const char *a, const char *b); /* but for upper and lower case */

/* The decimal digits at *text, which moves behind them. False: there are none (it stays), or too
** many for 64 bits. */
bool tidei_read_digits(const char **text, uint64_t *out);
/* A whole text: blanks, a sign, digits. False: it is no such text, or outside [low, high]. */
bool tidei_parse_int(const char *text, int64_t low, int64_t high, int64_t *out);
/* As strtod; end may be NULL. */
double tidei_parse_double(const char *text, char **end);

/* For the scope that declares it the thread is in the C locale: around a library's calls that read
** or write texts. */
locale_t tidei_locale_enter(void);
void tidei_locale_leave(const locale_t *before);
#define TIDEI_IN_C_LOCALE                                                                          \
    __attribute__((cleanup(tidei_locale_leave), unused)) const locale_t tidei_locale_before =      \
        tidei_locale_enter()

#endif
