/* scatter_host.h: the host's way to add or multiply values at their places, without sorting them
** (scatter_host.c). */
#ifndef TIDEI_SCATTER_HOST_H
#define TIDEI_SCATTER_HOST_H

#include "arrays/index/scatter_params.h"

typedef struct sc_sums {
    sc_list list;   /* the indices; their keys go nowhere */
    sc_fold fold;   /* places, columns and values, of level 0; no keys, no places of entries */
    ga_u64 tables;  /* address of room for `ntables` tables: an accumulator for each column of each
                    ** place */
    ga_i64 ntables; /* 1; or one for each stretch of entries */
    ga_i64 stretch; /* entries */
} sc_sums;

/* For each type of elements: the kernel, and bytes of an accumulator; 0: not this way. */
typedef struct sc_sums_kind {
    void (*run)(const void *params);
    size_t acc;
} sc_sums_kind;
extern const sc_sums_kind tidei_sums_kinds[];

#endif
