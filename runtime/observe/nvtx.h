/* nvtx.h: ranges for a tool that is attached to the process (Nsight Systems, say), by the rules of
** NVTX, version 3: an application loads the library that the environment's NVTX_INJECTION64_PATH
** names and hands it tables of pointers, in which the tool writes its functions. Our own
** declarations of the little that is needed; the tool is the process's, not a runtime's. Without
** that variable nothing is loaded. */
#ifndef TIDEI_NVTX_H
#define TIDEI_NVTX_H

#include "runtime/base/base.h"

/* Loads the tool at the first call; afterwards only answers. True: ranges have somebody to see
** them. A library that is none is a warning in this runtime's log. */
bool tidei_nvtx_attach(tidei_runtime *rt);
/* A range of the calling thread; they nest. Only if attached. */
void tidei_nvtx_push(const char *name);
void tidei_nvtx_pop(void);
/* How many of the thread's are open; and ends those beyond so many, whose calls will not come
** back. */
unsigned tidei_nvtx_open(void);
void tidei_nvtx_unwind(unsigned left);

/* In a public operation, before it does anything: a range by its name until it returns, however it
** does. A branch where nothing is attached. */
#define TIDEI_OPERATION(name)                                                                      \
    __attribute__((cleanup(tidei_operation_ends))) const bool operation_seen =                     \
        tidei_operation_begins(name)
extern atomic_bool tidei_nvtx_attached; /* by the first runtime; it stays */
static inline bool tidei_operation_begins(const char *name) {
    if (tidei_likely(!atomic_load_explicit(&tidei_nvtx_attached, memory_order_acquire)))
        return false;
    tidei_nvtx_push(name);
    return true;
}
static inline void tidei_operation_ends(const bool *seen) {
    if (tidei_unlikely(*seen)) tidei_nvtx_pop();
}

/* ---- what a tool sees: the facts of NVTX's nvtxTypes.h and nvToolsExt.h ---- */

enum { TIDEI_NVTX_CALLBACKS = 1, TIDEI_NVTX_VERSION_INFO = 3 }; /* export tables */
enum { TIDEI_NVTX_CORE = 1, TIDEI_NVTX_CORE2 = 5 };             /* modules: tables of functions */
/* entries; the first one of each is none */
enum { TIDEI_NVTX_CORE_SIZE = 16, TIDEI_NVTX_CORE2_SIZE = 16 };
enum { TIDEI_NVTX_RANGE_PUSH_A = 9, TIDEI_NVTX_RANGE_POP = 11 }; /* in core */
enum {
    TIDEI_NVTX_DOMAIN_RANGE_PUSH = 4,
    TIDEI_NVTX_DOMAIN_RANGE_POP = 5,
    TIDEI_NVTX_DOMAIN_CREATE_A = 12
}; /* in core2 */
enum { TIDEI_NVTX_VERSION = 3, TIDEI_NVTX_MESSAGE_ASCII = 1 };

typedef void (*tidei_nvtx_fn)(void);
typedef struct tidei_nvtx_callbacks {
    size_t struct_size;
    int (*module_table)(int module, tidei_nvtx_fn ***table, unsigned *size);
} tidei_nvtx_callbacks;
typedef struct tidei_nvtx_version_info {
    size_t struct_size;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t version);
} tidei_nvtx_version_info;
typedef struct tidei_nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} tidei_nvtx_attributes;

#endif
