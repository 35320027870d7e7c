/* backtrace.h: where a thread is in its program, and what such places are called.
**
** Model. To note where one is, only the stack is read. The names come later, when a person wants to
** read them: from the program's debug information through libdw where the library is built with it
** (backtrace_libdw.c), otherwise from what the loader knows (backtrace_plain.c). One address may be
** several places: a function, and those that were inlined there. */
#ifndef TIDEI_BACKTRACE_H
#define TIDEI_BACKTRACE_H

#include "runtime/base/base.h"

#define TIDEI_FRAMES 32 /* of a backtrace; ours are up to ten of these */

/* Return addresses, innermost first: the caller's own. Returns how many. Takes no memory after
** tidei_backtrace_prepare. */
unsigned tidei_backtrace(void *at[TIDEI_FRAMES]);
void tidei_backtrace_prepare(void); /* the first one in a process loads what unwinds */

typedef struct tidei_code_place {
    const char *function, *file; /* NULL: unknown */
    int line;                    /* where there is a file */
    bool inlined;                /* into the function of the place that comes next */
    const char *module;          /* the program's or library's file; NULL: unknown */
    uintptr_t offset;            /* of the address in it */
} tidei_code_place;

/* What names are looked up with: for one thread. NULL does, and knows what the loader knows. */
typedef struct tidei_names tidei_names;
/* NULL: host memory is exhausted, or there is nothing to open */
tidei_names *tidei_names_open(void);
void tidei_names_close(tidei_names *n);
/* Calls fn for each place of a return address, innermost first, until it returns false. The texts
** last for the call. */
void tidei_names_of(tidei_names *n, const void *at,
                    bool (*fn)(void *user, const tidei_code_place *place), void *user);

/* The backtrace's places as lines of text, from the one on at which the program called the library.
** `say` gets them one by one, each for the time of its call. */
typedef void tidei_say_fn(void *user, const char *line);
void tidei_backtrace_say(void *const *at, unsigned n, tidei_names *names, tidei_say_fn *say,
                         void *user);

/* Between the files: the address's one place by the loader; and what of it stands in any place. */
tidei_code_place tidei_code_place_by_loader(const void *at);

#endif
