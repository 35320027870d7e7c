/* nvtx_tool.c: a tool as NVTX_INJECTION64_PATH names one: it counts the ranges of all threads, and
** prints at the end what it saw.
**
** TIDE_TEST_NVTX says what kind of tool it is: "core" knows no domains, "refuse" does not want to
** be one. test_cuda_decl.c compares the declarations with a toolkit's. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/observe/nvtx.h"

#define NAMES 64

static struct {
    pthread_mutex_t lock;
    /* under lock */
    char name[NAMES][40];
    long count[NAMES], begun, ended,
        strays; /* strays: ended without a beginning on its thread, or in another domain */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local long depth;
static int domain;

static void begin(const char *name) {
    unsigned i = 0;
    depth++;
    pthread_mutex_lock(&seen.lock);
    while (i < NAMES - 1 && seen.name[i][0] && strcmp(seen.name[i], name) != 0) i++;
    snprintf(seen.name[i], sizeof seen.name[i], "%s", name);
    seen.count[i]++;
    seen.begun++;
    pthread_mutex_unlock(&seen.lock);
}

static void end(bool stray) {
    pthread_mutex_lock(&seen.lock);
    seen.ended++;
    seen.strays += stray || --depth < 0;
    pthread_mutex_unlock(&seen.lock);
}

static int push_a(const char *message) { return begin(message), 0; }
static int pop(void) { return end(false), 0; }
static int domain_push(void *d, const tidei_nvtx_attributes *a) {
    if (d == &domain && a->version == 3 && a->size == 48 && a->message_type == 1) begin(a->message);
    return 0;
}
static int domain_pop(void *d) { return end(d != &domain), 0; }
static void *create(const char *name) { return !strcmp(name, "tidepool") ? &domain : NULL; }

__attribute__((destructor)) static void report(void) {
    printf("begun %ld\nended %ld\nstrays %ld\n", seen.begun, seen.ended, seen.strays);
    for (unsigned i = 0; i < NAMES && seen.name[i][0]; i++)
        printf("%s %ld\n", seen.name[i], seen.count[i]);
    fflush(stdout);
}

#define SET(table, i, fn) (*(table)[i] = (tidei_nvtx_fn)(fn))

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id)) {
    const char *kind = getenv("TIDE_TEST_NVTX");
    const tidei_nvtx_callbacks *callbacks = export_table(1);
    const tidei_nvtx_version_info *info = export_table(3);
    tidei_nvtx_fn **table;
    unsigned size;
    if (kind && !strcmp(kind, "refuse")) return 0;
    if (export_table(2) || info->version != 3 || callbacks->module_table(2, &table, &size))
        return 0;
    if (!callbacks->module_table(1, &table, &size) || size != 16) return 0;
    SET(table, 9, push_a);
    SET(table, 11, pop);
    for (unsigned i = 1; i < size; i++) /* a tool may write them all */
        if (i != 9 && i != 11) SET(table, i, NULL);
    if (kind && !strcmp(kind, "core")) return 1;
    if (!callbacks->module_table(5, &table, &size) || size != 16) return 0;
    SET(table, 4, domain_push);
    SET(table, 5, domain_pop);
    SET(table, 12, create);
    return 1;
}
