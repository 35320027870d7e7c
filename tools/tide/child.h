/* child.h: running code that is somebody else's in a child process, so that its crash, or its
** endless loop, is its own.
**
** Model. The child is a fork: it has all that its parent has. What it is to give back it writes
** into a struct that both share; a child that does not come to the end of its function has given
** nothing back. It may take so many seconds of processor time, ten times as many of the clock's,
** and 4 GiB of memory. What it writes to standard output is dropped. It leads a process group, and
** whatever it has started and left in that ends with it; so does all of it where a signal from the
** terminal (^C), or one that asks to end, ends its parent. */
#ifndef TIDE_CHILD_H
#define TIDE_CHILD_H

#include <stddef.h>

typedef struct tidei_child_end {
    enum {
        TIDEI_CHILD_DONE,
        TIDEI_CHILD_SIGNAL,
        TIDEI_CHILD_EXIT, /* it ended itself */
        TIDEI_CHILD_SLOW,
        TIDEI_CHILD_NONE /* there is no process, or no memory, to be had */
    } how;
    int number; /* the signal; the exit status; the seconds; errno */
} tidei_child_end;

/* Runs fn(arg) in a child, and waits for it. *arg has `bytes`, and is as before unless the child is
** done. Several threads may do so at once. */
tidei_child_end tidei_child_run(void (*fn)(void *arg), void *arg, size_t bytes, unsigned seconds);
/* "crashed (signal 11)", "took more than 60 s"; "" where it is done. Returns buf. */
#define TIDEI_CHILD_TEXT 80
const char *tidei_child_text(const tidei_child_end *e, char *buf, size_t cap);

#endif
