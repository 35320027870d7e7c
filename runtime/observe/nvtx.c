/* nvtx.c: finding the tool and calling it. The rules stand in nvtx.h.
**
** What must stay true: the tool's library stays loaded once it accepted, since its functions may be
** called until the end. */
#include "runtime/observe/nvtx.h"
#include "runtime/base/loader.h"
#include "runtime/base/instance.h"
#include "runtime/base/settings.h"
#include "runtime/base/text.h"
#include "runtime/base/uncancelled.h"
#include <dlfcn.h>
#include <stdlib.h>

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static bool looked;              /* under attach_lock */
atomic_bool tidei_nvtx_attached; /* written under attach_lock */

/* ---- the tables that the tool fills ---- */

static struct {
    int (*push_a)(const char *message);
    int (*pop)(void);
    int (*domain_push)(void *domain, const tidei_nvtx_attributes *a);
    int (*domain_pop)(void *domain);
    void *(*domain_create_a)(const char *name);
    tidei_nvtx_fn unused; /* what we never call */
} slot;
static void *domain; /* ours at the tool; NULL: it has none */

#define SLOT(member) ((tidei_nvtx_fn *)(void *)&slot.member)
static tidei_nvtx_fn *core[TIDEI_NVTX_CORE_SIZE + 1]; /* NULL behind the last */
static tidei_nvtx_fn *core2[TIDEI_NVTX_CORE2_SIZE + 1];

static void fill_tables(void) {
    for (unsigned i = 1; i < TIDEI_NVTX_CORE_SIZE; i++) core[i] = SLOT(unused);
    for (unsigned i = 1; i < TIDEI_NVTX_CORE2_SIZE; i++) core2[i] = SLOT(unused);
    core[TIDEI_NVTX_RANGE_PUSH_A] = SLOT(push_a);
    core[TIDEI_NVTX_RANGE_POP] = SLOT(pop);
    core2[TIDEI_NVTX_DOMAIN_RANGE_PUSH] = SLOT(domain_push);
    core2[TIDEI_NVTX_DOMAIN_RANGE_POP] = SLOT(domain_pop);
    core2[TIDEI_NVTX_DOMAIN_CREATE_A] = SLOT(domain_create_a);
}

static int module_table(int module, tidei_nvtx_fn ***table, unsigned *size) {
    if (module != TIDEI_NVTX_CORE && module != TIDEI_NVTX_CORE2) return 0;
    if (table) *table = module == TIDEI_NVTX_CORE ? core : core2;
    if (size) *size = module == TIDEI_NVTX_CORE ? TIDEI_NVTX_CORE_SIZE : TIDEI_NVTX_CORE2_SIZE;
    return 1;
}

static void set_tool_version(uint32_t version) { (void)version; }

static const void *export_table(uint32_t id) {
    static const tidei_nvtx_callbacks callbacks = {sizeof callbacks, module_table};
    static const tidei_nvtx_version_info info = {sizeof info, TIDEI_NVTX_VERSION, 0,
                                                 set_tool_version};
    if (id == TIDEI_NVTX_CALLBACKS) return &callbacks;
    return id == TIDEI_NVTX_VERSION_INFO ? &info : NULL;
}

/* ---- attaching ---- */

typedef int initialize_fn(const void *(*export_table)(uint32_t id));

/* False: the library is of no use, and `why` says why. */
static bool load(const char *path, char *why, size_t cap) {
    void *lib = tidei_library_open(path, RTLD_LAZY | RTLD_LOCAL, why, cap);
    if (!lib) return false;
    void *symbol = tidei_library_symbol(lib, "InitializeInjectionNvtx2");
    initialize_fn *initialize;
    memcpy(&initialize, &symbol, sizeof initialize);
    fill_tables();
    bool taken = symbol && initialize(export_table);
    if (taken) return true;
    tidei_format(why, cap, "%s", symbol ? "it refused" : "it has no InitializeInjectionNvtx2");
    tidei_library_close(lib);
    return false;
}

/* Ranges in a domain of ours where the tool knows domains, among everybody's otherwise. */
static bool usable(void) {
    if (slot.domain_create_a && slot.domain_push && slot.domain_pop)
        domain = slot.domain_create_a("tidepool");
    return domain || (slot.push_a && slot.pop);
}

bool tidei_nvtx_attach(tidei_runtime *rt) {
    TIDEI_UNCANCELLED;
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    char why[300] = "";
    pthread_mutex_lock(&attach_lock);
    bool first = !looked && path && *path;
    if (first) {
        looked = true;
        atomic_store(&tidei_nvtx_attached, load(path, why, sizeof why) && usable());
    }
    bool now = atomic_load(&tidei_nvtx_attached);
    pthread_mutex_unlock(&attach_lock);
    if (*why) tidei_warn_environment(rt, "NVTX_INJECTION64_PATH", path, " is of no use: %s", why);
    return now;
}

/* ---- ranges ---- */

static _Thread_local unsigned open_here; /* of the thread's ranges */

unsigned tidei_nvtx_open(void) { return open_here; }

void tidei_nvtx_unwind(unsigned left) {
    while (open_here > left) tidei_nvtx_pop();
}

void tidei_nvtx_push(const char *name) {
    TIDEI_UNCANCELLED;
    open_here++;
    tidei_nvtx_attributes a = {.version = TIDEI_NVTX_VERSION,
                               .size = sizeof a,
                               .message_type = TIDEI_NVTX_MESSAGE_ASCII,
                               .message = name};
    if (domain)
        slot.domain_push(domain, &a);
    else
        slot.push_a(name);
}

void tidei_nvtx_pop(void) {
    TIDEI_UNCANCELLED;
    open_here--;
    if (domain)
        slot.domain_pop(domain);
    else
        slot.pop();
}
