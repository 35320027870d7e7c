/* adapt.h: finding the arrays of a structure (adapt.c), and copying host data into dense memory
** (data.c). */
#ifndef TIDEI_ADAPT_H
#define TIDEI_ADAPT_H

#include "arrays/arrays.h"

/* ---- structures by their rules (adapt.c) ---- */

/* A structure of a registered type, laid out flat: its arrays depth first, and the rules' calls,
** inner ones first. It does not refer to the rules, which may be unregistered meanwhile. Offsets
** are from the structure's start. */
typedef struct tidei_leaf {
    size_t offset;
    char name[64]; /* "labels.weight", "layers[2]": for errors; a longer one is cut */
} tidei_leaf;
typedef struct tidei_follow {
    size_t offset;
    tide_status (*moved)(void *user, void *copy, const void *from, unsigned how);
    void *user;
} tidei_follow;
typedef struct tidei_outline {
    size_t bytes; /* of the structure */
    size_t nleaves, nfollows;
    tidei_leaf *leaves;
    tidei_follow *follows;
} tidei_outline;

tide_status tidei_outline_make(tidei_runtime *rt, const char *type, const char *op,
                               tidei_outline *out);
tide_status tidei_outline_of_arrays(tidei_runtime *rt, size_t n, const char *op,
                                    tidei_outline *out);      /* an array of tide_data */
void tidei_outline_free(tidei_runtime *rt, tidei_outline *p); /* zeroed ones too */
/* Makes the rules' calls, on a copy whose arrays have been moved. */
tide_status tidei_outline_follow(tidei_runtime *rt, const tidei_outline *p, void *copy,
                                 const void *from, unsigned how, const char *op);

/* Structures need not be aligned for what is in them. */
static inline tide_data tidei_leaf_get(const void *x, const tidei_leaf *l) {
    tide_data d;
    memcpy(&d, (const char *)x + l->offset, sizeof d);
    return d;
}
static inline void tidei_leaf_set(void *x, const tidei_leaf *l, tide_data d) {
    memcpy((char *)x + l->offset, &d, sizeof d);
}
static inline bool tidei_data_absent(const tide_data *d) {
    return !d->array && !d->host && !d->ndim;
}

void tidei_rules_close(tidei_runtime *rt);
/* ends the open ones (batches.c); all work is complete */
void tidei_batches_close(tidei_runtime *rt);

/* ---- host data (data.c) ---- */

/* Checks the shape as tidei_shape_check does; the message begins with the array's name. */
tide_status tidei_data_check(const tide_data *d, const char *name, const char *op);
tide_dtype tidei_narrowed(tide_dtype t); /* f64: f32; c128: c64; others as they are */
/* Row-major elements of type `to`, which is the data's own or tidei_narrowed; bools come as 0 and
** 1. `host` is not NULL where there are elements. */
void tidei_data_pack(const tide_data *d, tide_dtype to, void *dst);
/* The same of n samples along the first axis: samples[0..n), or from `first` on. */
void tidei_data_pack_samples(const tide_data *d, tide_dtype to, int64_t first,
                             const int64_t *samples, int64_t n, void *dst);
/* The same of n elements in a row; dst may be src. */
void tidei_elements_pack(tide_dtype from, tide_dtype to, const void *src, void *dst, size_t n);

#endif
