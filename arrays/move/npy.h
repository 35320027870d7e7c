/* npy.h: the reader of .npy files in pieces, for tests and fuzzers (npy.c). */
#ifndef TIDEI_NPY_H
#define TIDEI_NPY_H

#include "arrays/arrays.h"

typedef struct tidei_npy { /* what a header says */
    tide_dtype dtype;
    bool swap;    /* the bytes of each component are in the other order */
    bool fortran; /* column-major */
    int ndim;
    int64_t shape[TIDE_MAX_RANK];
    size_t bytes; /* of the elements */
} tidei_npy;

/* The dictionary, `n` characters. TIDE_E_FORMAT names the file and what was expected where. */
tide_status tidei_npy_parse(const char *text, size_t n, const char *name, tidei_npy *out);
/* From where the open file f is; `name` is for errors. */
tide_array *tidei_npy_read_file(tidei_runtime *rt, int f, const char *name);

#endif
