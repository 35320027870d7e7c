/* memory_kind.h: the kinds of memory, by number and by name, and sets of them. */
#ifndef TIDEI_MEMORY_KIND_H
#define TIDEI_MEMORY_KIND_H

#include "runtime/base/base.h"
#include <tide/memory.h>

typedef enum {
    TIDEI_MEM_DEVICE = 0,
    TIDEI_MEM_PINNED = 1, /* host memory the device can read and write */
    /* pages that move to where they are touched, to the device or the host (TIDEI_DEV_UNIFIED) */
    TIDEI_MEM_UNIFIED = 2
} tidei_mem_kind;
#define TIDEI_MEM_KINDS 3

/* Sets of kinds. */
#define TIDEI_KIND_BIT(kind)  (1u << (kind))
#define TIDEI_KINDS_ON_DEVICE (TIDEI_KIND_BIT(TIDEI_MEM_DEVICE) | TIDEI_KIND_BIT(TIDEI_MEM_UNIFIED))
#define TIDEI_KINDS_ON_HOST   (TIDEI_KIND_BIT(TIDEI_MEM_PINNED) | TIDEI_KIND_BIT(TIDEI_MEM_UNIFIED))
#define TIDEI_KINDS_ALL       (TIDEI_KINDS_ON_DEVICE | TIDEI_KINDS_ON_HOST)

static inline bool tidei_on_device(tidei_mem_kind kind) { return kind != TIDEI_MEM_PINNED; }
static inline bool tidei_on_host(tidei_mem_kind kind) { return kind != TIDEI_MEM_DEVICE; }
static inline tide_memory tidei_kind_public(tidei_mem_kind kind) { return (tide_memory)kind + 1; }
const char *tidei_kind_name(tidei_mem_kind kind); /* "device", "pinned", "unified" */
/* The kind of that name; false: there is none. */
bool tidei_kind_parse(const char *text, tidei_mem_kind *out);
#define TIDEI_KINDS_WANTED "device, pinned or unified"

#endif
