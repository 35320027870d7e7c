/* params.h: figures that are given by name, as in "reserve(x0=0.5,stall=5ms)".
**
** A table says which there are; values are doubles in the table's order. A time is in ns and is
** written with its unit (50us, 20ms, 1s), bytes as everywhere (256MiB), a switch as 0 or 1; a whole
** number has no part behind the point. */
#ifndef TIDEI_PARAMS_H
#define TIDEI_PARAMS_H

#include "runtime/base/base.h"

typedef enum { TIDEI_NUMBER, TIDEI_BYTES, TIDEI_TIME, TIDEI_SWITCH, TIDEI_WHOLE } tidei_param_kind;

typedef struct tidei_param {
    const char *name;
    tidei_param_kind kind;
    double usual, low, high; /* low and high are allowed */
    const char *meaning;
} tidei_param;

/* Reads "k=v,k=v" from `at` on, up to `close` ('\0': up to the text's end), which is looked at but
** not skipped. `text` is the whole, whose columns an error names: "column 9: expected ..., found
** '...'" in `why`. What is not named keeps its value. NULL: it is no such text. */
const char *tidei_params_read(const char *text, const char *at, char close,
                              const tidei_param *table, size_t n, double *values, char *why,
                              size_t cap);
void tidei_params_usual(const tidei_param *table, size_t n, double *values);
/* The value as it would be written; returns buf. */
#define TIDEI_PARAM_TEXT 32
const char *tidei_param_show(const tidei_param *p, double value, char *buf, size_t cap);
/* "column N: expected `wanted`, found '...'", of the place `at` in the text. */
void tidei_params_wrong(const char *text, const char *at, const char *wanted, char *why,
                        size_t cap);

#endif
