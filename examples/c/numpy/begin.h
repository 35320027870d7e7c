/* begin.h: what the programs of this folder share. Each is a page of NumPy, in its head, and the
** same in C; nothing is freed by hand. Exit 0, 1 failed. */
#ifndef EXAMPLES_BEGIN_H
#define EXAMPLES_BEGIN_H

#include <stdio.h>
#include <stdlib.h>
#include <tide/tide.h>

/* A shape, or a list of axes, as the two arguments that functions take. */
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define AXES(...) (int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* Ends the program, with the error that stands, unless `so`. An array that is NULL is not so, and
** what is made of it is NULL too: one look at the end is enough. */
static inline void expect(int so, const char *what) {
    if (so) return;
    fprintf(stderr, "%s: %s\n", what,
            tide_error_last()->status ? tide_error_last()->message : "not as expected");
    exit(1);
}

static inline tide_runtime *begin(void) {
    tide_runtime *rt = NULL;
    expect(tide_open(NULL, &rt) == TIDE_OK, "tide_open");
    return rt;
}
static inline int end(tide_runtime *rt) {
    tide_close(rt);
    return 0;
}

#endif
