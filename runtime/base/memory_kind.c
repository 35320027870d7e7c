/* memory_kind.c: the names of the kinds of memory. */
#include "runtime/base/memory_kind.h"

static const char *const names[TIDEI_MEM_KINDS] = {"device", "pinned", "unified"};

const char *tidei_kind_name(tidei_mem_kind kind) { return names[kind]; }

bool tidei_kind_parse(const char *text, tidei_mem_kind *out) {
    for (int k = 0; k < TIDEI_MEM_KINDS; k++)
        if (!strcmp(text, names[k])) return *out = (tidei_mem_kind)k, true;
    return false;
}
