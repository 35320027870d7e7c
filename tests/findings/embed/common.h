/* common.h: what the programs share: opening with defaults, giving up with the message, shapes. */
#ifndef FINDINGS_COMMON_H
#define FINDINGS_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tide/tide.h>
#include <time.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != TIDE_OK) printf("%s: %s\n", #call, tide_error_last()->message), exit(1);     \
    } while (0)
#define NN(p)                                                                                      \
    do {                                                                                           \
        if (!(p)) printf("%s: %s\n", #p, tide_error_last()->message), exit(1);                     \
    } while (0)
#define S(...)                                                                                     \
    (const int64_t[]) { __VA_ARGS__ }

static inline tide_runtime *opn(void) {
    tide_runtime *rt;
    OK(tide_open(NULL, &rt));
    return rt;
}

#endif
